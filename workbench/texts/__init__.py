"""Texts to train on, and what they share with the items.

`sources` takes texts in any form, `tokenise` cuts them, `corpus` keeps them on disk as ids, `stream` reads
a corpus as the ids of a vocabulary. `batches` and `passages` are functions of the step of a training.
`overlap` finds items in texts by n-grams, which `ngram_hash` hashes.
"""
