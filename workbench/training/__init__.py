"""Texts to train on: the corpus on disk, and what it shares with the items."""
