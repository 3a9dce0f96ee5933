"""Measures of several models on the same items, and every pair of them tested, from one draw of the items."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.evaluation import joint
from workbench.evaluation.bootstrap import Units
from workbench.evaluation.significance import holm

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Drawing(NamedTuple):
    """How intervals are made: confidence level, bootstrap replicates, seed."""

    level: float
    resamples: int
    seed: int


class Measured:
    """What several models did on the same items; tables are made when they are first asked for.

    Parameters
    ----------
    labels : sequence of str (m,)
    correct : array of bool (m, n)
    log_prob : array (m, n)
        NaN where there is none.
    mid_rank : array (m, n)
        Mean rank of each answer and the words tied with it; NaN where there is none.
    units : Units
        What is resampled; the items must be sorted by id for the same draws as in
        :func:`workbench.evaluation.metrics.measure`.
    drawing : Drawing
    """

    def __init__(  # noqa: PLR0917 - what is measured, and how
        self,
        labels: Sequence[str],
        correct: Mask,
        log_prob: Floats,
        mid_rank: Floats,
        units: Units,
        drawing: Drawing,
    ) -> None:
        self.labels, self.units, self.drawing = list(labels), units, drawing
        self.correct, self.log_prob, self.mid_rank = correct, log_prob, mid_rank
        self.m, self.n = correct.shape
        self.none: Mask = np.isnan(log_prob)
        self.lost: Mask = np.asarray(np.isneginf(log_prob).any(axis=1))
        pairs = np.array(list(combinations(range(self.m), 2)), dtype=np.int64).reshape(-1, 2)
        self.a, self.b = pairs[:, 0], pairs[:, 1]

    @cached_property
    def points(self) -> pd.DataFrame:
        """One row a model: the measures without their intervals, which take no resampling."""
        count = (~self.none).sum(axis=1)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            mean = np.where(self.none, 0, self.log_prob).sum(axis=1) / count
            perplexity = np.exp(-mean)
        ranks = [row[~np.isnan(row)] for row in self.mid_rank]
        return pd.DataFrame(
            {
                "label": self.labels,
                "n": self.n,
                "accuracy": self.correct.sum(axis=1) / self.n,
                "n_perplexity": count,
                "perplexity": perplexity,
                "median_rank": [float(np.median(row)) if len(row) else np.nan for row in ranks],
            }
        )

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row a model; see :meth:`workbench.evaluation.comparison.Comparison.table`."""
        of, drawn, points = self.units, self._replicates, self.points
        right = self.correct.sum(axis=1)
        wilson = joint.wilson(right, np.full(self.m, float(self.n)), self.drawing.level)
        clustered = (of.by == "novel") & (of.number > 1) & (right > 0) & (right < self.n)
        low, high = (
            np.where(clustered, bound, plain)
            for bound, plain in zip(self._intervals(drawn.accuracy), wilson, strict=True)
        )
        lowest, highest = self._intervals(drawn.log_prob)
        with np.errstate(over="ignore"):
            likeliest, unlikeliest = np.exp(-highest), np.exp(-lowest)
        low_rank, high_rank = self._intervals(drawn.median_rank)
        return pd.DataFrame(
            {
                **{name: points[name] for name in ("label", "n", "accuracy")},
                "accuracy_low": low,
                "accuracy_high": high,
                "interval": np.where(clustered, "bootstrap by novel", "Wilson"),
                "n_perplexity": points["n_perplexity"],
                "perplexity": points["perplexity"],
                "perplexity_low": likeliest,
                "perplexity_high": unlikeliest,
                "median_rank": points["median_rank"],
                "median_rank_low": low_rank,
                "median_rank_high": high_rank,
                "resampled_by": of.by,
                "n_novels": pd.array([of.number if of.by == "novel" else None] * self.m, dtype="Int64"),
            }
        )

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """One row a pair; see :meth:`workbench.evaluation.comparison.Comparison.pairs`."""
        a, b, of = self.a, self.b, self.units
        right = self.correct.astype(np.float32)
        both = np.rint(right @ right.T).astype(np.int64)
        only_a, only_b = both[a, a] - both[a, b], both[b, b] - both[a, b]
        p = joint.mcnemar(only_a, only_b)
        drawn = self._replicates.accuracy
        low, high = self._intervals(drawn[:, a] - drawn[:, b])
        by_novel = np.full(len(a), np.nan)
        if of.by == "novel":
            sums = np.stack([joint.unit_sums(row, of) for row in right])
            by_novel = joint.sign_flips(sums[a] - sums[b], self.drawing.resamples, self.drawing.seed)
        likelier, low_log, high_log = self._likelier()
        return pd.DataFrame(
            {
                "a": a,
                "b": b,
                "label_a": pd.Series([self.labels[k] for k in a], dtype="str"),
                "label_b": pd.Series([self.labels[k] for k in b], dtype="str"),
                "n_only_a": only_a,
                "n_only_b": only_b,
                "difference": (only_a - only_b) / self.n,
                "difference_low": low,
                "difference_high": high,
                "p": p,
                "p_holm": np.array(holm(p.tolist()), dtype=float),
                "p_novel": by_novel,
                "log_prob_difference": likelier,
                "log_prob_difference_low": low_log,
                "log_prob_difference_high": high_log,
            }
        )

    def _intervals(self, found: Floats) -> tuple[Floats, Floats]:
        return joint.intervals(found, self.drawing.level, self.units.number)

    @cached_property
    def _replicates(self) -> joint.Replicates:
        extra = np.stack([self._apart(*pair) for pair in self._holed] or [np.empty(self.n)])
        extra = extra[: len(self._holed)]
        how = self.drawing
        return joint.replicates(
            self.correct, self.log_prob, self.mid_rank, extra, self.units, how.resamples, how.seed
        )

    def _bounded(self, a: int, b: int) -> bool:
        """Tell whether a difference of mean ln p has an interval: both have some, and none is infinite."""
        return not (self.lost[a] or self.lost[b] or (self.none[a] | self.none[b]).all())

    @cached_property
    def _holed(self) -> list[tuple[int, int]]:
        """Pairs whose log-probabilities are known for different items, in the order of `pairs`."""
        alike: dict[bytes, int] = {}
        kind = [alike.setdefault(row.tobytes(), len(alike)) for row in self.none]
        pairs = zip(self.a.tolist(), self.b.tolist(), strict=True)
        return [(a, b) for a, b in pairs if kind[a] != kind[b] and self._bounded(a, b)]

    def _apart(self, a: int, b: int) -> Floats:
        """Return ln p of one model minus that of another (n,); two answers of probability 0 do not differ."""
        with np.errstate(invalid="ignore"):
            found: Floats = self.log_prob[a] - self.log_prob[b]
        found[np.isneginf(self.log_prob[a]) & np.isneginf(self.log_prob[b])] = 0
        return found

    def _likelier(self) -> tuple[Floats, Floats, Floats]:
        """Return the differences of mean ln p of the pairs, and their intervals."""
        drawn = self._replicates
        with np.errstate(invalid="ignore"):
            found = drawn.log_prob[:, self.a] - drawn.log_prob[:, self.b]
        mean = np.full(len(self.a), np.nan)
        extra = {pair: column for column, pair in enumerate(self._holed)}
        for place, pair in enumerate(zip(self.a.tolist(), self.b.tolist(), strict=True)):
            apart = self._apart(*pair)
            apart = apart[~np.isnan(apart)]
            if len(apart) and not (np.isposinf(apart).any() and np.isneginf(apart).any()):
                mean[place] = apart.mean()
            if pair in extra:
                found[:, place] = drawn.extra[:, extra[pair]]
            elif not self._bounded(*pair):
                found[:, place] = np.nan
        return mean, *self._intervals(found)
