"""Many models on the same items, side by side: measures, pairs, slices, and single items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.evaluation import bootstrap as resampling
from workbench.evaluation import comparability as caveats
from workbench.evaluation import joint
from workbench.evaluation.bootstrap import Units
from workbench.evaluation.pairs import Drawing, Measured
from workbench.evaluation.reading import check_options
from workbench.evaluation.rows import Rows, rows
from workbench.evaluation.slices import Bin, Columns
from workbench.items.items import Items
from workbench.items.schema import DataError

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


class Comparison:
    """Several models on the items that all of them predicted; made by :meth:`of`.

    Attributes
    ----------
    labels : list of str (m,)
        Names of the models, unique, in the order given.
    items : Items (n,)
        The items that every model predicted and whose answer is known, in the order given.
    warnings : list of str
        What must not be compared, and why: whole sentences.
    answers : list of str (n,)
        As the items, or the first models that know them, tell them.
    correct : array of bool (m, n)
    log_prob : array of float (m, n)
        ln p of the answers; NaN where there is none, minus infinity for probability 0.
    rank : array of float (m, n)
        Ranks of the answers; NaN where there is none.
    drawing : Drawing
        Confidence level, replicates and seed of the intervals.
    """

    def __init__(
        self, items: Items, found: Sequence[Rows], places: Places, annotations: Any, drawing: Drawing
    ) -> None:
        self.items, self.drawing = items, drawing
        self.n, self.m = len(items), len(found)
        self._rows, self._places = found, places
        self._columns = Columns(items, annotations, found, places)
        self.labels = _labels(found)
        self.warnings: list[str] = []
        self.answers: list[str] = []
        frame = items.frame
        self._ids, self._answers = frame["item_id"], frame["answer"]
        self.correct: Mask = np.stack([one.truths("correct")[p] for one, p in self._each()])
        self.log_prob: Floats = np.stack([_log_prob(one)[p] for one, p in self._each()])
        self.rank: Floats = np.stack([one.floats("rank")[p] for one, p in self._each()])
        self.n_right: Places = self.correct.sum(axis=0)
        self._units = _units(frame["book_id"], found, places)

    @classmethod
    def of(
        cls,
        items: Items,
        runs: Any,
        *,
        annotations: pd.DataFrame | None = None,
        level: float = 0.95,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Comparison:
        """Line up the predictions of several models.

        Parameters
        ----------
        items : Items
        runs : Run, DataFrame or str, or several of these
            Runs, frames of predictions, or names of stored runs.
        annotations : DataFrame, optional
            From ``wb.annotate``, or any frame with a column ``item_id``: items can be sliced by its columns.
        level : float, default 0.95
            Confidence level of the intervals.
        resamples : int, default 2000
            Bootstrap replicates, and random choices of signs.
        seed : int, default 0

        Raises
        ------
        DataError
            If there are no predictions, the models have no item in common, or two tell of different
            answers to one item.
        """
        check_options(level, resamples)
        found = rows(runs)
        if not found:
            raise DataError("there are no predictions to compare", remedy="pass runs that have some")
        aligned = _aligned(items, found)
        common: Mask = np.asarray((aligned >= 0).all(axis=0))
        if not common.any():
            raise DataError(
                _nothing(found, aligned), remedy="compare predictions of the same data set and split"
            )
        part = items if common.all() else items.where(common)
        made = cls(part, found, aligned[:, common], annotations, Drawing(level, int(resamples), int(seed)))
        made._check_answers()
        made.warnings = caveats.of_items(made.labels, items, found, aligned, common)
        made.warnings += caveats.of_values(made.labels, made.items, found, made._places, made.log_prob)
        return made

    def _each(self) -> Iterable[tuple[Rows, Places]]:
        return zip(self._rows, self._places, strict=True)

    def _check_answers(self) -> None:
        """Raise DataError if two tell of different answers to one item."""
        known = pa.array(self._answers, pa.string(), from_pandas=True)
        for place, (one, index) in enumerate(self._each()):
            mine = one.table["answer"].take(pa.array(index)).combine_chunks()
            differ = pc.fill_null(pc.not_equal(mine, known), fill_value=False).to_numpy(zero_copy_only=False)
            for row in np.flatnonzero(differ):
                said, wanted = mine[int(row)].as_py(), known[int(row)].as_py()
                if said.casefold() != wanted.casefold():
                    raise DataError(
                        f"{self.labels[place]!r} tells of the answer {said!r} to the item"
                        f" {self._ids.iloc[int(row)]!r}, and the items or the models before of {wanted!r}",
                        remedy="compare predictions of these very items",
                    )
            known = pc.coalesce(known, mine)
        self.answers = known.to_pylist()

    def prediction(self, k: int, row: int) -> str | None:
        """Return what model `k` predicted for an item."""
        found = self._rows[k].cell("prediction", int(self._places[k, row]))
        return None if found is None else str(found)

    @cached_property
    def disagreement(self) -> Floats:
        """How far the models disagree on each item, 0 (all right, or all wrong) to 1 (half of them)."""
        most = (self.m // 2) * (self.m - self.m // 2)
        return self.n_right * (self.m - self.n_right) / max(most, 1)

    @cached_property
    def variance(self) -> Floats:
        """Variance over the models of ln p of each answer (n,); NaN where fewer than 2 are finite."""
        some = np.isfinite(self.log_prob)
        count = some.sum(axis=0)
        values = np.where(some, self.log_prob, 0)
        mean = values.sum(axis=0) / np.maximum(count, 1)
        above = np.where(some, self.log_prob - mean, 0) if some.any() else values
        return np.where(count > 1, (above**2).sum(axis=0) / np.maximum(count, 1), np.nan)

    @cached_property
    def _measured(self) -> Measured:
        tied = np.stack([np.nan_to_num(one.floats("n_tied"), nan=1.0)[p] for one, p in self._each()])
        order = np.argsort(np.asarray(self._ids.tolist()), kind="stable")  # as `sources` sorts
        of = self._units if self._units.by == "item" else self._units._replace(codes=self._units.codes[order])
        mid_rank = self.rank + (tied - 1) / 2
        return Measured(
            self.labels,
            self.correct[:, order],
            self.log_prob[:, order],
            mid_rank[:, order],
            of,
            self.drawing,
        )

    def points(self) -> pd.DataFrame:
        """Return the measures of `table` without intervals, at once: one row a model.

        Returns
        -------
        DataFrame
            `label`, `n`, `accuracy`, `n_perplexity`, `perplexity`, `median_rank`.
        """
        return self._measured.points.copy()

    def table(self) -> pd.DataFrame:
        """Measure the models; definitions and columns as :func:`workbench.evaluation.metrics.measure`.

        Returns
        -------
        DataFrame
            One row a model: `label`, `n`, `accuracy`, `accuracy_low`, `accuracy_high`, `interval`,
            `n_perplexity`, `perplexity` and `median_rank` with their intervals, `resampled_by`, `n_novels`,
            `model`, `run`.
            NaN: not known. Intervals are those of `measure`, but for a model that lacks some values: here
            all items are resampled for all models.
        """
        names = {name: [getattr(one, name) for one in self._rows] for name in ("model", "run")}
        return self._measured.table.assign(**names)

    def pairs(self) -> pd.DataFrame:
        """Compare the models two by two.

        Returns
        -------
        DataFrame
            One row a pair, ``a < b``:

            `a`, `b`, `label_a`, `label_b`
                Places and labels of the models.
            `n_only_a`, `n_only_b`, `difference`, `difference_low`, `difference_high`
                Items that only one got right; accuracy of `a` minus that of `b`, and the percentile
                interval of the paired bootstrap, of whole novels where every item names its novel.
            `p`, `p_holm`
                Of the exact McNemar test; corrected for the number of pairs (Holm 1979).
            `p_novel`
                Of the sign-flip test by novel, NaN where not every item names its novel.
            `log_prob_difference`, `log_prob_difference_low`, `log_prob_difference_high`
                Mean ln p of `a` minus that of `b` on the items where both are known; NaN where there is
                none, the interval also where an answer has probability 0.
        """
        return self._measured.pairs.copy()

    def cell(self, a: int, b: int) -> Mask:
        """Return the items (n,) that model `a` got right and model `b` wrong."""
        return np.asarray(self.correct[a] & ~self.correct[b])

    @property
    def columns(self) -> list[str]:
        """Names of the columns by which items can be sliced, those with one value left out."""
        return self._columns.names

    def bins(self, column: str) -> list[Bin]:
        """Return the values or ranges of a column; every item is in just one.

        Raises
        ------
        DataError
            If there is no such column.
        """
        return self._columns.bins(column)

    def slices(self, column: str, mask: Mask | None = None) -> pd.DataFrame:
        """Return the models' accuracies on the items of each bin of a column.

        Parameters
        ----------
        column : str
            One of `columns`.
        mask : array of bool (n,), optional
            Only these items.

        Returns
        -------
        DataFrame
            One row a bin and model: `key`, `bin` (its label), `label` (of the model), `n`,
            `accuracy`, `low`, `high` (Wilson).
        """
        bins = self.bins(column)
        masks = np.stack([one.mask if mask is None else one.mask & mask for one in bins]).astype(np.float32)
        n = masks.sum(axis=1, dtype=np.float64)
        right = (masks @ self.correct.T.astype(np.float32)).astype(np.float64)  # (bins, m)
        low, high = joint.wilson(right, n[:, None], self.drawing.level)
        with np.errstate(invalid="ignore"):
            accuracy = right / n[:, None]
        return pd.DataFrame(
            {
                "key": np.repeat([one.key for one in bins], self.m),
                "bin": np.repeat([one.label for one in bins], self.m),
                "label": self.labels * len(bins),
                "n": np.repeat(n.astype(np.int64), self.m),
                "accuracy": accuracy.reshape(-1),
                "low": low.reshape(-1),
                "high": high.reshape(-1),
            }
        )

    def top(self, row: int) -> list[dict[str, Any]]:
        """Return what each model said of an item.

        Returns
        -------
        list of dict (m,)
            `label`, `words` and `log_probs` (of the best words, or their scores), `score_type`,
            `answer_log_prob`, `rank`, `n_tied`, `rank_is_bound`, `correct`, `prediction`, and `attention`
            (one weight a token of the item, or None).
        """
        return [self._said(k, one, int(places[row]), row) for k, (one, places) in enumerate(self._each())]

    def _said(self, k: int, one: Rows, place: int, row: int) -> dict[str, Any]:
        words, values = (one.several(name, place) or [] for name in ("top_words", "top_log_probs"))
        rank, ln_p = self.rank[k, row], self.log_prob[k, row]
        return {
            "label": self.labels[k],
            "words": [str(word) for word in words],
            "log_probs": [float(value) for value in values],
            "score_type": one.cell("score_type", place),
            "answer_log_prob": None if np.isnan(ln_p) else float(ln_p),
            "rank": None if np.isnan(rank) else int(rank),
            "n_tied": one.cell("n_tied", place),
            "rank_is_bound": bool(one.cell("rank_is_bound", place)),
            "correct": bool(self.correct[k, row]),
            "prediction": self.prediction(k, row),
            "attention": one.several("attention", place),
        }


def _labels(found: Sequence[Rows]) -> list[str]:
    """Name the models, with their runs where names coincide, and numbered where these do too."""
    names = Counter(one.model for one in found)
    labels = [
        one.model if names[one.model] == 1 else f"{one.model} ({one.run or 'not stored'})" for one in found
    ]
    seen: set[str] = set()
    for place, label in enumerate(labels):
        new, number = label, 1
        while new in seen:
            number += 1
            new = f"{label} #{number}"
        seen.add(new)
        labels[place] = new
    return labels


def _aligned(items: Items, found: Sequence[Rows]) -> Places:
    """Return the row of each model that tells of each item (m, all items), -1 without a known answer."""
    ids = pa.array(items.frame["item_id"], pa.string())
    places = np.full((len(found), len(items)), -1, dtype=np.int64)
    for one, mine in zip(found, places, strict=True):
        item = pc.fill_null(pc.index_in(one.table["item_id"], value_set=ids), -1).to_numpy()
        rows_ = np.flatnonzero((item >= 0) & pc.is_valid(one.table["correct"]).to_numpy())
        mine[item[rows_]] = rows_
    return places


def _nothing(found: Sequence[Rows], aligned: Places) -> str:
    """Say why no item is left."""
    for place, one in enumerate(found):
        if not (aligned[place] >= 0).any():
            return f"{one.model!r} predicted none of these items whose answer is known"
    return "the models have no item in common whose answer is known"


def _log_prob(one: Rows) -> Floats:
    proper = pc.fill_null(pc.equal(one.table["score_type"], "log_prob"), fill_value=False).to_numpy()
    return np.where(proper, one.floats("log_prob"), np.nan)


def _units(book_id: pd.Series[Any], found: Sequence[Rows], places: Places) -> Units:
    """Return novels as units where every item names one, told by the items or by a model; else items."""
    known = pa.array(book_id, pa.string(), from_pandas=True)
    for one, index in zip(found, places, strict=True):
        if known.null_count:
            known = pc.coalesce(known, one.table["book_id"].take(pa.array(index)).combine_chunks())
    return resampling.units(pd.Series(known.to_pylist(), dtype="str"))
