"""The sentence-completion systems of Zweig and Burges (2012).

`simple` counts n-grams that occur in the texts, `positional` weighs an n-gram model's scores at single
positions.
"""
