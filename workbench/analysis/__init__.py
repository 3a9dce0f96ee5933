"""Analysis of items and their targets."""
