"""Construction of cloze items from novels, as the papers made theirs."""
