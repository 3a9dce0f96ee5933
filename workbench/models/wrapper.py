"""Models that use another one, and how their parameters are tuned: the best setting of all tried on items."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import pandas as pd

from workbench.items.items import Item, Items
from workbench.models.base import Predictor
from workbench.models.item_words import ReadContext
from workbench.predictions.measures import ExpectedAccuracy, Measure, MedianRank, Perplexity
from workbench.predictions.schema import Floats, mid_ranks
from workbench.storage.errors import DataError, check_option

T = TypeVar("T")

WEIGHTS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Weights of a cache that `tuned` compares; 0 is the model without a cache."""

_TRIED: tuple[tuple[str, Measure], ...] = (
    ("accuracy", ExpectedAccuracy()), ("perplexity", Perplexity()), ("median_rank", MedianRank()),
)  # fmt: skip
TRIAL_MEASURES = ("n", *(name for name, _ in _TRIED))
"""What a trial measures on each set: :func:`measured`."""

_CHUNK = 256  # items whose values are in memory while they are tuned on
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
    _least: ClassVar[dict[str, int]] = {}  # least values of options, 0 by default
    _shared: dict[Any, Any] | None = None  # what is the same for all settings, while they are tuned

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the other model, and the options."""
        return self._option_values | {self.base_name: self.base.config}

    @property
    def training(self) -> dict[str, Any]:
        """The training of the other model."""
        return self.base.training

    @property
    def context(self) -> ReadContext | None:
        """The extent of a passage that the other model reads."""
        return self.base.context

    def input_text(self, item: Item) -> str | None:
        """Return the text that the model reads: the other model's where both read the same extent."""
        same = self.context == self.base.context
        return self.base.input_text(item) if same else super().input_text(item)

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

    def _memoised(self, key: Any, compute: Callable[..., T], *arguments: Any) -> T:
        """Return a value that is the same for all settings, computed once per tuning."""
        shared = {} if self._shared is None else self._shared
        if key not in shared:
            shared[key] = compute(*arguments)
        value: T = shared[key]
        return value

    def _tuned(self, sets: Sequence[Items], by: str, **grids: Sequence[float]) -> Self:
        """Return the same with the best values of some options, of all that are given for each.

        The highest mean accuracy decides, or the lowest geometric mean of the perplexities, so each set
        counts alike; of equally good settings the smallest values. A warning says so where the largest is
        chosen, or the smallest unless there is none below.
        """
        named = _named(sets, by)
        settings = list(product(*map(sorted, grids.values())))
        models = [self._with(self.base, **dict(zip(grids, values, strict=True))) for values in settings]
        rows = [
            (*values, name, *measures)
            for name, items in named.items()
            for values, measures in zip(settings, self._measures(items, models), strict=True)
        ]
        trials = pd.DataFrame(rows, columns=[*grids, "set", *TRIAL_MEASURES])
        loss = -trials["accuracy"] if by == "accuracy" else np.log(trials["perplexity"])
        means = loss.groupby([trials[name] for name in grids]).transform("mean").round(12)
        if means.isna().all():
            raise DataError(f"no setting has a {by}", hint="tune by accuracy, on items with answers")
        best = int(means.argmin())  # the first: that of the smallest values
        for name, grid in grids.items():
            value, low, high = getattr(models[best], name), min(grid), max(grid)
            if low < high and (value == high or value == low > self._least.get(name, 0)):
                end, side = ("largest", "larger") if value == high else ("smallest", "smaller")
                warnings.warn(
                    f"the best {name}, {value:g}, is the {end} of those tried ({low:g} to {high:g}): "
                    f"a {side} one may be better; try more, and compare the sets in .trials",
                    stacklevel=3,
                )
        models[best].trials = trials.assign(chosen=np.arange(len(trials)) % len(models) == best)
        return models[best]

    def _measures(self, items: Items, models: Sequence[Any]) -> list[tuple[int, float, float, float]]:
        """Return :data:`TRIAL_MEASURES` of each model on a set; what they share is computed once."""
        frames: list[list[pd.DataFrame]] = [[] for _ in models]
        for start in range(0, len(items), _CHUNK):
            shared: dict[Any, Any] = {}
            for model, tables in zip(models, frames, strict=True):
                model._shared = shared  # noqa: SLF001 - of this class
                tables.append(model.predict(items[start : start + _CHUNK], 1))
                model._shared = None  # noqa: SLF001 - of this class
        return [measured(pd.concat(tables)) for tables in frames]

    def _save(self, folder: Path) -> None:
        self.base.save(folder / self.base_name)

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        make: Any = cls
        options = {name: value for name, value in config.items() if name != cls.base_name}
        model: Self = make(Predictor.load(folder / cls.base_name), **options)
        return model


def _named(sets: Sequence[Items], by: str) -> dict[str, Items]:
    """Return sets of items by data set and split, numbered where two have the same.

    What cannot be tuned, or not by a measure, is an error before anything is computed.
    """
    check_option("by", by, ("accuracy", "perplexity"))
    if not sets or not all(len(items) for items in sets):
        raise DataError("there are no items to tune on", hint="pass one or more sets that are not empty")
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
    """Return `TRIAL_MEASURES` from values (n,); NaN for perplexity or rank where no value is a number."""
    quantities = {"p_correct": p_correct, "log_prob": log_prob, "mid_rank": ranks}
    values = [float(measure.values(quantities[measure.quantity][None])[0]) for _, measure in _TRIED]
    accuracy, perplexity, rank = (min(value, _LARGEST) for value in values)
    return len(p_correct), accuracy, perplexity, rank
