"""Baselines that learn nothing, or only count words.

`chance` draws words; `passage_baseline` counts candidates, slides a window, or lays the query over the
context. Each class stands for a row of the papers' tables (`systems`).
"""
