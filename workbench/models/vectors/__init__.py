"""Models that compare vectors of words: LSA and Unsup-CBOW.

`lsa` makes its vectors by a singular value decomposition, `cbow` by gensim; `vectors` keeps them on disk.
"""
