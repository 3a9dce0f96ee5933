"""The passage browser: search, filter, read and mark items."""
