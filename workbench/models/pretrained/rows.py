"""Rows of the predictions table that only pretrained models have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import objects
from workbench.models.pretrained.network import Told
from workbench.runs.predictions import frame_of, nullable


def about(told: Told, has: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Return the columns that tell of the answers' sub-tokens; null where there is no answer."""
    return {
        "log_prob_uncorrected": np.where(has, told.log_prob, np.nan),
        "greedy_correct": nullable(told.greedy, has),
    }


def of_written(items: Items, texts: Sequence[str], told: Told, *, model: str, **variant: Any) -> pd.DataFrame:
    """Make the rows of what a model wrote.

    Parameters
    ----------
    items : Items (n,)
    texts : sequence of str
        What was written for each.
    told : Told (n,)
        About the answers: one is correct where each of its sub-tokens is the most probable one. The
        prediction is the answer then, though the model might go on with the word. Where the model writes
        the answer by other sub-tokens, which is not correct, there is no prediction.
    model : str
        Name of the model.
    **variant
        Columns such as ``prompt``.
    """
    has = items.frame["answer"].notna().to_numpy()
    right = told.greedy & has
    predictions = []
    for text, answer, ok in zip(texts, items.frame["answer"], right, strict=True):
        word = text.strip()
        predictions.append(answer if ok else None if word in {answer, ""} else word)
    empty = objects([None] * len(items))
    said = {
        "model": model,
        "score_type": "log_prob",
        "prediction": predictions,
        "correct": nullable(right, has),
        "p_correct": np.where(has, right.astype(float), np.nan),
        "log_prob": told.log_prob + told.end,
        "rank": pd.NA,
        "n_tied": pd.NA,
        "n_choices": pd.NA,
        "known": nullable(has, has),
        "top_words": empty,
        "top_log_probs": empty,
        "candidate_scores": empty,
    }
    return frame_of(items.frame, said, variant | about(told, has))
