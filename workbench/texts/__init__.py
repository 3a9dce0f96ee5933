"""Texts to train on, and what they share with the items.

`corpus` takes texts in any form and stores them as ids, which `tokenise` computes; `batches` reads a corpus
as the ids of a vocabulary, and has batches of it, which are functions of the step of a training.
`overlap` finds items in texts by n-grams, which `ngram_hash` hashes.
"""
