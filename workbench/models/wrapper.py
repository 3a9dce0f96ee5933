"""Models that use another one, and how their parameters are tuned: the best setting of all tried on items."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.models.base import Predictor, arguments
from workbench.models.item_words import ReadContext
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


class Wrapper(Predictor):
    """A model that uses another one, `base`, and is saved with it.

    Attributes
    ----------
    base_name : str
        What `config` and the saved folder call the other model.
    """

    fitted_on = "a model"
    base_name: ClassVar[str] = "base"
    base: Predictor
    trials: pd.DataFrame | None = None  # of `tuned`, which made the model

    @property
    def config(self) -> dict[str, Any]:
        """The other model's, and the options."""
        return self._option_values | {self.base_name: self.base.config}

    @property
    def training(self) -> dict[str, Any]:
        """The other model's."""
        return self.base.training

    @property
    def context(self) -> ReadContext | None:
        """The other model's."""
        return self.base.context

    def choices(self, items: Items) -> list[list[str]] | None:
        """Return the words that the other model chooses from."""
        return self.base.choices(items)

    def form(self, word: str) -> str:
        """Return a word as the other model's vocabulary has it."""
        return self.base.form(word)

    def _with(self, base: Predictor, **changed: Any) -> Self:
        """Return the same of another model, or with other options."""
        make: Any = type(self)  # subclasses have options of their own
        model: Self = make(base, **self._option_values | changed)
        return model

    def _best(self, rows: Sequence[Sequence[Any]], grids: Mapping[str, Sequence[float]], by: str) -> Self:
        """Return the same with the options that are best in trials: rows of options, set and `MEASURES`."""
        trials = chosen(pd.DataFrame(rows, columns=[*grids, "set", *MEASURES]), grids, by)
        values = trials[trials["chosen"]].iloc[0]
        model = self._with(self.base, **{name: type(getattr(self, name))(values[name]) for name in grids})
        model.trials = trials
        return model

    def _save(self, folder: Path) -> None:
        self.base.save(folder / self.base_name)

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        make: Any = cls
        options = {name: value for name, value in config.items() if name != cls.base_name}
        model: Self = make(Predictor.load(folder / cls.base_name), **arguments(cls, options))
        return model


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
                stacklevel=4,
            )
    is_best = np.logical_and.reduce([trials[name] == value for name, value in values.items()])
    return trials.assign(chosen=is_best)
