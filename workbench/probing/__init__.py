"""Probing of models: scores of each word of a passage, and of changed passages.

Each function asks a model and returns a frame: one row per word, or a part of a passage.
"""

from __future__ import annotations

from workbench.models.base import Predictor
from workbench.storage.errors import DataError


def check_probable(model: Predictor, use: str) -> None:
    """Raise DataError for a model without log-probabilities, which have a `use` here."""
    if getattr(model, "score_type", "score") != "log_prob":  # a model of one's own may not say
        raise DataError(
            f"{model.name} has no log-probabilities, {use}",
            hint="take an n-gram model, a neural language model or a CausalLM",
        )
