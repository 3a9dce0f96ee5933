"""Tune parameters on sets of items: choose the best setting of all tried, and warn at an edge of the grid."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.runs.measures import ExpectedAccuracy, Measure, MedianRank, Perplexity
from workbench.runs.predictions import Floats, mid_ranks
from workbench.storage.errors import DataError

WEIGHTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Weights of a cache that `tuned` compares; 0 is the model without a cache."""

_TRIED: tuple[tuple[str, Measure], ...] = (
    ("accuracy", ExpectedAccuracy()), ("perplexity", Perplexity()), ("median_rank", MedianRank()),
)  # fmt: skip
MEASURES = ("n", *(name for name, _ in _TRIED))
"""What a trial measures on each set: :func:`measured`."""

_LARGEST = float(np.exp(700.0))  # a finite perplexity where an answer has probability 0


def tuning_sets(sets: Sequence[Items], by: str) -> dict[str, Items]:
    """Return sets of items by name: data set and split, numbered where two have the same.

    What cannot be tuned, or not by a measure, is an error before anything is computed.
    """
    if by not in {"accuracy", "perplexity"}:
        raise DataError(f"by is {by!r}, expected accuracy or perplexity")
    if not sets or not all(len(items) for items in sets):
        raise DataError("there are no items to tune on", remedy="pass one or more sets that are not empty")
    names: dict[str, Items] = {}
    for items in sets:
        name = "/".join(str(items.frame[column].iloc[0]) for column in ("dataset", "split"))
        names[name if name not in names else f"{name} ({len(names) + 1})"] = items
    return names


def measured(frame: pd.DataFrame) -> tuple[int, float, float, float]:
    """Return number, expected accuracy (fraction), perplexity and median rank of predictions."""
    frame = frame[frame["p_correct"].notna()]
    p_correct, log_prob = (np.asarray(frame[name], dtype=np.float64) for name in ("p_correct", "log_prob"))
    return summary(p_correct, log_prob, mid_ranks(frame["rank"], frame["n_tied"]))


def summary(p_correct: Floats, log_prob: Floats, ranks: Floats) -> tuple[int, float, float, float]:
    """Return :data:`MEASURES` from values (n,); NaN for perplexity or rank where no value is a number."""
    quantities = {"p_correct": p_correct, "log_prob": log_prob, "mid_rank": ranks}
    values = [float(measure.values(quantities[measure.quantity][None])[0]) for _, measure in _TRIED]
    accuracy, perplexity, rank = (min(value, _LARGEST) for value in values)
    return len(p_correct), accuracy, perplexity, rank


def chosen(trials: pd.DataFrame, grids: Mapping[str, Sequence[float]], by: str) -> pd.DataFrame:
    """Return trials with a column `chosen` that marks the setting with the best mean over the sets.

    Parameters
    ----------
    trials : DataFrame
        Columns of the parameters, set, and :data:`MEASURES`; one row a setting and set.
    grids : mapping
        For each parameter the values that were tried. A warning says so where the largest is chosen, or the
        smallest unless it is 0; of equally good settings the smallest values are taken.
    by : {"accuracy", "perplexity"}
        The highest mean accuracy, or the lowest geometric mean of the perplexities: so each set counts alike.
    """
    names = list(grids)
    loss = -trials["accuracy"] if by == "accuracy" else np.log(trials["perplexity"])
    means = loss.groupby([trials[name] for name in names]).mean()
    if means.isna().all():
        raise DataError(f"no setting has a {by}", remedy="tune by accuracy, on items with answers")
    best = means.index[int(np.nanargmin(means.round(12)))]
    values = dict(zip(names, best if isinstance(best, tuple) else (best,), strict=True))
    for name, grid in grids.items():
        value, low, high = values[name], min(grid), max(grid)
        if low < high and (value == high or value == low > 0):
            end, side = ("largest", "larger") if value == high else ("smallest", "smaller")
            warnings.warn(
                f"the best {name}, {value:g}, is the {end} of those tried ({low:g} to {high:g}): "
                f"a {side} one may be better; try more, and compare the sets in .trials",
                stacklevel=3,
            )
    is_best = np.logical_and.reduce([trials[name] == value for name, value in values.items()])
    return trials.assign(chosen=is_best)
