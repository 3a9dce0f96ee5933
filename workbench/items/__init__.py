"""Items: a text with one blank, its answer, and what is derived from them."""
