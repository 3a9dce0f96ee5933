"""Evaluation of predictions: measures, tests, rankings, and the papers' tables.

`model_predictions` is the one way from runs to predictions. `metrics`, `significance`, `leaderboard` and
`comparison` resample with `bootstrap`. `table_notes` has the notes under tables, `slices` cuts items,
`contamination` finds them in training texts. Results made elsewhere come and go by `interchange`; `paper`
shows the papers' tables with ours beside. No model is asked here.
"""
