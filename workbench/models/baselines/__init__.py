"""Baselines that learn nothing, or only count words.

`chance` draws, `frequency` counts candidates or slides a window, `distance` compares mentions with the query.
`passage_baseline` is what the last two share. Each stands for a row of the papers' tables (`systems`).
"""
