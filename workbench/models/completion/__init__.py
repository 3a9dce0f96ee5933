"""The sentence-completion systems of Zweig and Burges (2012): `simple` counts, `positional` weighs scores."""
