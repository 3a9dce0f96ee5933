"""Readers: networks that choose a word for the blank among candidates, trained on questions.

One file per family, network and predictor together. `reader` is what all of them share, training included;
`encoding` turns items into arrays once, and makes batches of them. A new family is a `reader.ReaderModule`,
and a sub-class of `reader.Reader` that names it as `module`.
"""
