"""N-gram language models with exact ranks, and a cache of the passage's words.

`model` has the predictors. `estimate` makes a model once and finds it again: by `kenlm` (Kneser-Ney), whose
`intermediate` files are read, or by `counts` and `good_turing`. `levels` writes the sorted arrays,
with which `backoff` computes; `arpa` writes them as text for KenLM.
What is computed must stay equal to KenLM, word by word: the tests compare bits.
"""
