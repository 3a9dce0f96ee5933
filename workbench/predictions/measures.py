"""Measures of predictions: each is one class, listed in `MEASURES`.

A new measure is a class here and a row of ``render/labels.csv``; tables, trials and ``wb.compare`` show it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Source = Literal["correct", "known", "p_correct", "log_prob", "log_prob_uncorrected", "mid_rank"]
"""Values of an item's prediction; all but the last are columns of predictions."""


class Measure:
    """A measure: the mean or median over items of a quantity of each prediction, and its format.

    Attributes
    ----------
    name : str
        Column of results. Label, unit and tooltip are in ``render/labels.csv``; the interval is in
        ``<name>_low`` and ``<name>_high``.
    quantity : str
        Name of the values of the items.
    sources : tuple of str
        The `Source` values of predictions from which `item_values` computes the quantity; without any, the
        predictions have the quantity itself.
    statistic : {"mean", "median"}
        Summary over the items, before `from_summary`.
    interval : {"bootstrap", "share", ""}
        Percentiles of resampled items or novels; of a share Wilson's interval where resampling says nothing
        (no novel is known, or all outcomes are equal); none.
    format : str
        How the values are written, a key of ``WRITERS`` of :mod:`workbench.render.results`.
    better : {"higher", "lower"}
    in_tables : bool
        Whether tables show it, with its interval.
    count : str
        Column with the number of items that have a value, for the measures that name one.
    coverage, missing : str
        Tooltips: of a number, with the items that have a value in place of ``{n}``; where no item has one.
    """

    name: ClassVar[str]
    quantity: ClassVar[str]
    sources: ClassVar[tuple[Source, ...]] = ()
    statistic: ClassVar[Literal["mean", "median"]] = "mean"
    interval: ClassVar[Literal["bootstrap", "share", ""]] = "bootstrap"
    format: ClassVar[str]
    better: ClassVar[Literal["higher", "lower"]]
    in_tables: ClassVar[bool] = True
    count: ClassVar[str] = ""
    coverage: ClassVar[str] = ""
    missing: ClassVar[str] = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the value and of the bounds of its interval."""
        return (self.name, *(f"{self.name}_{end}" for end in ("low", "high") if self.interval))

    def item_values(self, *sources: Floats) -> Floats:
        """Return the value of each item from `sources`, in their shape; an item with NaN is left out."""
        [quantity] = sources
        return quantity

    def from_summary(self, summary: Any) -> Any:
        """Return the measure from the mean or median of the quantity; monotone, so bounds map to bounds."""
        return summary

    def bounds(self, low: Any, high: Any) -> tuple[Any, Any]:
        """Return the interval of the measure from that of the mean or median."""
        falls = self.quantity.startswith("log_prob") and self.better == "lower"
        bounds = self.from_summary(low), self.from_summary(high)
        return bounds[::-1] if falls else bounds

    def values(self, quantity: Floats) -> Floats:
        """Return the measure of each row (m,) of a quantity (m, n); NaN where no item has a value."""
        none = np.isnan(quantity)
        if self.statistic == "median":
            rows = [row[~mask] for row, mask in zip(quantity, none, strict=True)]
            return np.array([float(np.median(row)) if len(row) else np.nan for row in rows])
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.where(none, 0, quantity).sum(axis=1) / (~none).sum(axis=1)
        return np.asarray(self.from_summary(means), dtype=np.float64)


class Accuracy(Measure):
    """Share of right answers; of replicates the mean over the seeds."""

    name, quantity, interval, format, better = "accuracy", "correct", "share", "share", "higher"
    coverage = "{n} items"


class ExpectedAccuracy(Measure):
    """Share of right answers if ties are broken at random."""

    name, quantity, interval, format, better = "expected_accuracy", "p_correct", "", "share", "higher"
    in_tables = False


class AccuracyKnown(Accuracy):
    """Share of right answers among those in the vocabulary."""

    name, quantity, in_tables = "accuracy_known", "correct_known", False
    sources = ("correct", "known")

    def item_values(self, *sources: Floats) -> Floats:
        """Return what is right; NaN where the answer is not in the vocabulary."""
        correct, in_vocabulary = sources
        return np.where(in_vocabulary == 1, correct, np.nan)


class Perplexity(Measure):
    """exp(-mean ln p) per target word (Paperno et al. 2016, section 4)."""

    name, quantity, format, better = "perplexity", "log_prob", "perplexity", "lower"
    count = "n_perplexity"
    coverage = "over the {n} items with a log-probability"
    missing = "the model gives no probabilities of whole words"

    def from_summary(self, summary: Any) -> Any:
        """Return exp(-mean ln p)."""
        with np.errstate(over="ignore"):  # a mean below -709 gives infinity
            return np.exp(np.negative(summary))


class Bits(Perplexity):
    """Mean surprisal of the target words, -log2 p: the binary logarithm of the perplexity."""

    name = "bits"

    def from_summary(self, summary: Any) -> Any:
        """Return -mean log2 p."""
        return np.negative(summary) / np.log(2)


class UncorrectedPerplexity(Perplexity):
    """Perplexity of the sub-tokens without the end of the word, as in lm-evaluation-harness."""

    name, quantity, count, in_tables = "perplexity_uncorrected", "log_prob_uncorrected", "", False
    coverage, missing = "of the sub-tokens alone", "the model has no sub-tokens"


class MedianRank(Measure):
    """Median of the mid-ranks of the answers."""

    name, quantity, statistic, format, better = "median_rank", "mid_rank", "median", "rank", "lower"
    coverage, missing = "median rank of the answer", "no ranks known"


MEASURES: tuple[Measure, ...] = (
    Accuracy(), ExpectedAccuracy(), AccuracyKnown(), Perplexity(), UncorrectedPerplexity(), MedianRank(),
    Bits(),
)  # fmt: skip
"""All measures, in the order of the columns of results."""


def item_quantities(sources: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the quantities of all measures by name, from values of predictions, of the same shape (m, n).

    Left out are those whose sources are not there.
    """
    read = {each.quantity: (each, each.sources or (each.quantity,)) for each in MEASURES}
    return {
        quantity: measure.item_values(*(sources[name] for name in names))
        for quantity, (measure, names) in read.items()
        if sources.keys() >= set(names)
    }
