"""Training texts: as ids on disk, in batches, and compared with items."""
