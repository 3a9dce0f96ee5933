"""Training of a network, on accelerate.

`loop` is the training loop, `settings` the one object with its options, `checkpoint` what is on disk to
resume from, `history` the record of a training, and what is shown while it runs.
It knows networks and batches, no model and no chart; :mod:`workbench.charts.models` draws the curves.
"""
