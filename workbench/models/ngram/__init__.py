"""N-gram language models with exact ranks, and a cache of the passage's words.

`model` has the predictors. `estimate` makes a model once and finds it again: by `kenlm` (Kneser-Ney), or by
`counts` and `good_turing`. `arpa` turns the result into arrays, with which `backoff` computes.
What is computed must stay equal to KenLM, word by word: the tests compare bits.
"""
