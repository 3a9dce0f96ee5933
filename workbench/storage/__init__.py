"""Files, caches and parallel work: what everything else stands on."""
