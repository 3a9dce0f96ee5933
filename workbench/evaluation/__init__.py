"""Evaluation of predictions: measures, tests, rankings, and the papers' tables.

`model_predictions` is the one way from runs to predictions. `metrics`, `significance`, `leaderboard` and
`comparison` resample with `bootstrap`. `table_notes` has the notes under tables, `slices` cuts items,
`contamination` finds them in training texts. `interchange` reads results made elsewhere; `paper` shows the
papers' tables with the user's rows. No model is called here.
"""
