"""Evaluation of predictions: measures, tests, rankings, and the papers' tables.

`metrics`, `significance`, `leaderboard` and `comparison` draw with the one engine of `bootstrap`; `reading`
is the one way from runs to predictions. `comparability` says what must not be compared, `slices` cuts items,
`hardest` orders them, `contamination` finds them in training texts. Results made elsewhere come and go by
`interchange`; `paper` shows the papers' tables with ours beside. No model is asked here.
"""
