"""Vectors of words: LSA and CBOW."""
