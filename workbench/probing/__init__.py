"""What a model says of passages word by word, and of passages that are changed.

Each function asks a model and returns a frame: one row a word, or a part of a passage.
"""
