"""The papers' tables and published scores, with our results beside.

`layouts` says which columns a table has, `tables` measures ours for them, `literature` lists published scores
for the leaderboard. The numbers themselves stand in ``data/published`` and are read by
`workbench.datasets.published`; a new table is a file there and a layout here.
"""
