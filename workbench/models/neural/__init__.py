"""Neural language models that are trained here.

One file a family, network and predictor together: `recurrent`, `feedforward`, `memory`, `sup_cbow`,
`transformer`. `model` is what all predictors share, training included; `scoring` computes log-probabilities
and exact ranks, `cache` adds a continuous cache; `network`, `softmax` and `encoding` are what networks share.
A new family is a `network.LanguageModule`, and a sub-class of `model.Neural` that names it as `module`.
"""
