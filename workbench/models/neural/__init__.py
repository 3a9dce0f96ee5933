"""Neural language models that are trained here: one file per family, network and predictor together.

`model` is what all predictors share, training included; `scoring` computes log-probabilities and exact ranks,
`cache` adds a continuous cache; `network` and `softmax` are what networks share. A new family is a
`network.LanguageModule`, and a sub-class of `model.Neural` that names it as `module`.
"""
