"""N-gram language models with exact ranks, and a cache of the passage's words.

`model` has the predictors. `estimate` makes a model once and finds it again: by `kenlm` (Kneser-Ney), whose
files `kenlm_records` reads, or by `good_turing`. `backoff` writes the sorted arrays and computes with them.
What is computed must stay equal to KenLM, word by word: the tests compare bits.
"""
