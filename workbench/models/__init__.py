"""Models that predict a missing word; each is a :class:`workbench.models.base.Predictor`."""
