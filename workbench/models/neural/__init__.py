"""Neural language models that are trained here.

One file a family, predictor and ``nn.Module`` together: `recurrent`, `feedforward`, `memory`, `sup_cbow`,
`transformer`. `model` is what all predictors share, `fit` trains them, `scoring` computes log-probabilities
and exact ranks, `cache` adds a continuous cache; `network`, `softmax` and `encoding` are what networks share.
A new family is a sub-class of `model.Neural` with `_build`, and one of `network.LanguageModule`.
"""
