"""The passage browser."""
