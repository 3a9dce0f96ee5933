"""Many models on the same items, side by side: measures, pairs, slices, and single items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.analysis.binning import Bin
from workbench.analysis.proportions import holm, mcnemar, wilson
from workbench.evaluation import bootstrap, comparability
from workbench.evaluation.bootstrap import Drawing, Floats, Ints, Mask, Units
from workbench.evaluation.metrics import SPREAD, chance_of, interval_kind, is_random, spread
from workbench.evaluation.reading import ModelPredictions, coalesced, labels, predictions_of
from workbench.evaluation.significance import (
    MCNEMAR,
    log_prob_difference,
    mean_of_known,
    test_name,
    whole_numbers,
)
from workbench.evaluation.slices import Slices
from workbench.items.items import Items
from workbench.render.labels import column_label
from workbench.render.numbers import p_value, percent, points, quantity, rank_text, span
from workbench.render.tables import text_table
from workbench.runs.measures import SHOWN
from workbench.runs.predictions import mid_ranks
from workbench.storage.errors import DataError

OUTCOMES = ("only first", "only second", "both right", "both wrong", "any")
"""Cells of two models: which of them got an item right; ``any``: all four cells."""

_MOST = 6  # models whose slices a terminal is wide enough for


class Comparison:
    """Several models on the items that all of them predicted; made by :meth:`of`, shown by ``print``.

    Attributes
    ----------
    labels : list of str (m,)
        Names of the models, unique, in the order given.
    items : Items (n,)
        The items that every model predicted and whose answer is known, in the order given.
    warnings : list of str
        What must not be compared, and why: whole sentences.
    answers : list of str (n,)
        Those of the items; where they have none, of the first model that knows it.
    correct : array of bool (m, n)
        Of replicates: whether what most of them predict is right.
    shares : array of float (m, n)
        Share of the replicates that are right; 0 or 1 for a single run. Accuracies are their means.
    log_prob : array of float (m, n)
        ln p of the answers; NaN where there is none, minus infinity for probability 0.
    rank : array of float (m, n)
        Ranks of the answers; NaN where there is none.
    n_right : array of int (n,)
        How many models are right.
    drawing : Drawing
        Confidence level, replicates and seed of the intervals.
    """

    def __init__(
        self, items: Items, models: Sequence[ModelPredictions], rows: Ints, annotations: Any, drawing: Drawing
    ) -> None:
        self.items, self.drawing = items, drawing
        self.n, self.m = len(items), len(models)
        self._models, self._rows = models, rows  # (m, n): the row of each model for each item
        self._slices = Slices(items, annotations, models, rows)
        self.labels = labels(models)
        self.warnings: list[str] = []
        self.answers: list[str] = []
        self.correct: Mask = np.stack([model.truths("correct")[r] for model, r in self._each()])
        self._by_seed = [model.correct_by_seed[r] for model, r in self._each()]  # m of (n, replicates)
        self.shares: Floats = np.stack([right.mean(axis=1) for right in self._by_seed])
        self._several: Mask = np.array([right.shape[1] > 1 for right in self._by_seed])
        self.log_prob: Floats = comparability.of_one_event(
            np.stack([model.log_prob[r] for model, r in self._each()]),
            np.stack([model.floats("log_prob_uncorrected")[r] for model, r in self._each()]),
        )
        self.rank: Floats = np.stack([model.floats("rank")[r] for model, r in self._each()])
        self.n_right: Ints = self.correct.sum(axis=0)
        self._pairs = np.array(list(combinations(range(self.m), 2)), dtype=np.int64).reshape(-1, 2).T

    @classmethod
    def of(
        cls,
        items: Items,
        runs: Any,
        *,
        annotations: Items | pd.DataFrame | None = None,
        level: float = 0.95,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Comparison:
        """Line up the predictions of several models.

        Parameters
        ----------
        items : Items
        runs : Run, DataFrame, str or Replicates, or several of these
            A frame needs ``item_id``, ``model`` and ``prediction`` alone. Replicates are one model.
        annotations : DataFrame or Items, optional
            From ``wb.annotate``, or any frame with ``item_id``: items can be sliced by its columns.
        level, resamples, seed : float, int, int
            Confidence level of the intervals, and number and seed of the bootstrap replicates and of the
            random choices of signs.

        Raises
        ------
        DataError
            If there are no predictions, the models have no item in common, or two have different
            answers to one item.
        """
        drawing = Drawing(level, int(resamples), int(seed)).checked()
        models = predictions_of(runs, items, pool=True)
        if not models:
            raise DataError("there are no predictions to compare", remedy="pass runs that have some")
        rows = _align(items, models)
        common: Mask = np.asarray((rows >= 0).all(axis=0))
        if not common.any():
            lost = [model.model for model, row in zip(models, rows, strict=True) if not (row >= 0).any()]
            problem = "the models have no item in common whose answer is known"
            if lost:
                problem = f"{lost[0]!r} predicted none of these items whose answer is known"
            raise DataError(problem, remedy="compare predictions of the same data set and split")
        part = items if common.all() else items.where(common)
        comparison = cls(part, models, rows[:, common], annotations, drawing)
        comparison._check_answers()
        comparison.warnings = [
            *comparability.of_training(comparison.labels, models, rows[:, common]),
            *comparability.of_items(comparison.labels, items, models, rows, common),
            *comparability.of_values(comparison.labels, part, models, rows[:, common], comparison.log_prob),
        ]
        return comparison

    def _each(self) -> Iterable[tuple[ModelPredictions, Ints]]:
        return zip(self._models, self._rows, strict=True)

    def _check_answers(self) -> None:
        """Set `answers`; raise DataError if two have different answers to one item."""
        known = pa.array(self.items.frame["answer"], pa.string(), from_pandas=True)
        for label, (model, rows) in zip(self.labels, self._each(), strict=True):
            answers = model.strings("answer", rows)
            differ = pc.fill_null(pc.not_equal(answers, known), fill_value=False)
            for place in np.flatnonzero(differ.to_numpy(zero_copy_only=False)).tolist():
                answer, expected = answers[place].as_py(), known[place].as_py()
                if answer.casefold() != expected.casefold():
                    raise DataError(
                        f"{label!r} tells of the answer {answer!r} to the item"
                        f" {self.items.frame['item_id'].iloc[place]!r}, and the items or the models before of"
                        f" {expected!r}",
                        remedy="compare predictions of these very items",
                    )
            known = pc.coalesce(known, answers)
        self.answers = known.to_pylist()

    @property
    def disagreement(self) -> Floats:
        """How far the models disagree on each item, 0 (all right, or all wrong) to 1 (half of them)."""
        most = (self.m // 2) * (self.m - self.m // 2)
        return self.n_right * (self.m - self.n_right) / max(most, 1)

    @cached_property
    def _units(self) -> Units:
        return bootstrap.units(coalesced("book_id", self.items, self._models, self._rows))

    @cached_property
    def n_tied(self) -> Floats:
        """Words with the score of each answer (m, n), the answer included; 1 where that is not known."""
        return np.stack([np.nan_to_num(model.floats("n_tied"), nan=1.0)[r] for model, r in self._each()])

    @cached_property
    def _mid_rank(self) -> Floats:
        """Mean rank of each answer and the words tied with it (m, n)."""
        return np.stack([mid_ranks(*pair) for pair in zip(self.rank, self.n_tied, strict=True)])

    def rank_label(self, k: int, place: int) -> str:
        """Return the rank of an answer by a model as text; empty if it is not known."""
        bound = self._models[k].table["rank_is_bound"][int(self._rows[k, place])].as_py()
        return rank_text(self.rank[k, place], self.n_tied[k, place], bound=bool(bound))

    @cached_property
    def _bounded(self) -> Mask:
        """Whether the mean ln p of each pair differs by a finite number: both are known, none is infinite."""
        (a, b), known = self._pairs, ~np.isnan(self.log_prob)
        infinite: Mask = np.asarray(np.isneginf(self.log_prob).any(axis=1))
        return np.asarray((known[a] & known[b]).any(axis=1) & ~infinite[a] & ~infinite[b])

    @cached_property
    def _holed(self) -> Ints:
        """Places of the pairs whose log-probabilities are known for different items."""
        none, (a, b) = np.isnan(self.log_prob), self._pairs
        return np.flatnonzero((none[a] != none[b]).any(axis=1) & self._bounded)

    def _log_prob_difference(self, k: int) -> Floats:
        return log_prob_difference(*self.log_prob[self._pairs[:, k]])

    @cached_property
    def _quantities(self) -> dict[str, Floats]:
        """What measures are made of, (m, n) each."""
        return {"correct": self.shares, "log_prob": self.log_prob, "mid_rank": self._mid_rank}

    @cached_property
    def _replicates(self) -> dict[str, Floats]:
        """Replicates of the means and medians of `_quantities`, and of the means of differences, `holed`."""
        # in the order of `evaluate`, so that a seed draws the same items
        order = np.argsort(self.items.frame["item_id"].to_numpy(dtype=object), kind="stable")
        of = self._units
        of = of if of.by == "item" else of._replace(codes=of.codes[order])
        rows = [*self.shares, *self.log_prob, *map(self._log_prob_difference, self._holed)]
        means, medians = bootstrap.resample(
            np.stack(rows)[:, order], self._mid_rank[:, order], of, self.drawing.resamples, self.drawing.seed
        )
        parts = np.split(means, [self.m, 2 * self.m], axis=1)
        return dict(zip(("correct", "log_prob", "holed"), parts, strict=True)) | {"mid_rank": medians}

    def _intervals(self, replicates: Floats) -> tuple[Floats, Floats]:
        return bootstrap.intervals(replicates, self.drawing.level, self._units.number)

    def points(self) -> pd.DataFrame:
        """Return the measures of `table` that need no resampling: one row a model.

        Columns are `label`, `n`, those of the measures that tables show, `n_perplexity`, `n_seeds` (1 for a
        single run), and of replicates `seed_sd`, `seed_min`, `seed_max`, `spread`
        (of a random baseline, what it is expected to get right).
        """
        spreads = [spread(right) if right.shape[1] > 1 else {} for right in self._by_seed]
        return pd.DataFrame(
            {
                "label": self.labels,
                "n": self.n,
                **self._values(),
                "n_seeds": [right.shape[1] for right in self._by_seed],
                **{name: [values.get(name, np.nan) for values in spreads] for name in SPREAD[1:-1]},
                "spread": [
                    values.get("spread", "")
                    or (chance_of(model.frame.iloc[rows]) if is_random(model.frame) else "")
                    for values, (model, rows) in zip(spreads, self._each(), strict=True)
                ],
            }
        )

    def _values(self) -> dict[str, Any]:
        """Return the measures of the models, with the number of items that they are of."""
        columns: dict[str, Any] = {}
        for measure in SHOWN:
            quantity = self._quantities[measure.quantity]
            if measure.count:
                columns[measure.count] = (~np.isnan(quantity)).sum(axis=1)
            columns[measure.name] = measure.values(quantity)
        return columns

    def table(self) -> pd.DataFrame:
        """Measure the models; definitions and columns as :func:`workbench.evaluation.metrics.evaluate`.

        Returns
        -------
        DataFrame
            One row a model: `label`, `n`, `accuracy`, `accuracy_low`, `accuracy_high`, `interval`,
            `n_perplexity`, the other measures that tables show with their intervals, `resampled_by`,
            `n_novels`, `model`, `run`, and those of seeds, as `points` has them.
            NaN: not known. Intervals are those of `evaluate`, except for a model that lacks some values:
            here all items are resampled for all models.
        """
        table, of = self.points(), self._units
        pairs = zip(table["accuracy"], self._several, strict=True)
        kinds = np.array([interval_kind(share, of, several=bool(several)) for share, several in pairs])
        columns: dict[str, Any] = {name: table[name] for name in ("label", "n")}
        for measure in SHOWN:
            if measure.count:
                columns[measure.count] = table[measure.count]
            low, high = self._intervals(self._replicates[measure.quantity])
            if measure.interval == "share":
                exact = wilson(self.shares.sum(axis=1), self.n, level=self.drawing.level)
                low, high = (
                    np.where(kinds != "Wilson", *both) for both in ((low, exact[0]), (high, exact[1]))
                )
            bounds = measure.bounds(low, high)
            columns |= dict(zip(measure.columns, (table[measure.name], *bounds), strict=True))
            if measure.name == "accuracy":
                columns["interval"] = kinds
        columns |= {
            "resampled_by": of.by,
            "n_novels": pd.array([of.number if of.by == "novel" else None] * self.m, dtype="Int64"),
            "model": [model.model for model in self._models],
            "run": [model.run for model in self._models],
        }
        return pd.DataFrame(columns | {name: table[name] for name in SPREAD})

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
            `p`, `p_holm`, `test`
                Of the test that :func:`workbench.evaluation.significance.significance` makes, which is exact:
                McNemar's, or a sign-flip test by novel where every item names its novel, or by item where a
                side is the mean of replicates; corrected for the number of pairs (Holm 1979). NaN where the
                models read different variants of the text or predict different units: not the same task.
            `log_prob_difference`, `log_prob_difference_low`, `log_prob_difference_high`
                Mean ln p of `a` minus that of `b` on the items where both are known; NaN where there is
                none, the interval also where an answer has probability 0.
        """
        (a, b), of, drawn = self._pairs, self._units, self._replicates
        correct = self.correct.astype(np.float32)
        both = np.rint(correct @ correct.T).astype(np.int64)
        only_a, only_b = both[a, a] - both[a, b], both[b, b] - both[a, b]
        tests = [self._test(pair, of) for pair in self._pairs.T.tolist()]
        p = mcnemar(only_a, only_b)
        for k, test in enumerate(tests):
            p[k] = p[k] if test == MCNEMAR else self._sign_flip(int(a[k]), int(b[k]), of)
        p[[self._other_task(*pair) for pair in self._pairs.T.tolist()]] = np.nan
        low, high = self._intervals(drawn["correct"][:, a] - drawn["correct"][:, b])
        with np.errstate(invalid="ignore"):
            log_probs = drawn["log_prob"][:, a] - drawn["log_prob"][:, b]
        log_probs[:, self._holed] = drawn["holed"]
        log_probs[:, ~self._bounded] = np.nan
        low_log_prob, high_log_prob = self._intervals(log_probs)
        return pd.DataFrame(
            {
                "a": a,
                "b": b,
                "label_a": pd.Series([self.labels[k] for k in a], dtype="str"),
                "label_b": pd.Series([self.labels[k] for k in b], dtype="str"),
                "n_only_a": only_a,
                "n_only_b": only_b,
                "difference": (self.shares[a] - self.shares[b]).sum(axis=1) / self.n,
                "difference_low": low,
                "difference_high": high,
                "test": pd.Series(tests, dtype="str"),
                "p": p,
                "p_holm": holm(p),
                "log_prob_difference": [mean_of_known(self._log_prob_difference(k)) for k in range(len(a))],
                "log_prob_difference_low": low_log_prob,
                "log_prob_difference_high": high_log_prob,
            }
        )

    def _test(self, pair: Sequence[int], of: Units) -> str:
        return test_name(of, several=bool(self._several[list(pair)].any()))

    def _other_task(self, a: int, b: int) -> bool:
        return comparability.other_task(*(self._models[k].value_sets(self._rows[k]) for k in (a, b)))

    def _sign_flip(self, a: int, b: int, of: Units, mask: Mask | None = None) -> float:
        """Return p of the exact sign-flip test of two models on the items of `mask`; `of`: their units."""
        differences = (self.shares[a] - self.shares[b])[slice(None) if mask is None else mask]
        n_seeds = (self._by_seed[k].shape[1] for k in (a, b))
        return bootstrap.sign_flip(whole_numbers(differences, *n_seeds), of, *self.drawing[1:])[0]

    def cell(self, a: int, b: int, outcome: str = "only first") -> Mask:
        """Return the items (n,) of one of the four cells of two models, see `OUTCOMES`."""
        first, second = self.correct[a], self.correct[b]
        cells = {
            "only first": first & ~second, "only second": ~first & second,
            "both right": first & second, "both wrong": ~first & ~second,
        }  # fmt: skip
        return np.asarray(cells[outcome] if outcome in cells else np.ones(self.n, dtype=bool))

    def pair(self, a: int, b: int, mask: Mask | None = None) -> dict[str, Any]:
        """Compare two models on a part of the items.

        Parameters
        ----------
        a, b : int
            Places of the models.
        mask : array of bool (n,), optional
            All items by default. Chosen after a look at the results, a part makes the test exploratory.

        Returns
        -------
        dict
            ``n``; ``difference`` of the accuracies, with ``difference_low`` and ``difference_high``
            (percentile interval of the paired bootstrap); ``p`` of the ``test``, as `pairs` has them, not
            corrected. NaN where there are no items, and p where `pairs` has none.
        """
        mask = np.ones(self.n, dtype=bool) if mask is None else mask
        n, shares, of = int(mask.sum()), self.shares[[a, b]][:, mask], self._units
        test = self._test((a, b), of)
        values: dict[str, Any] = {"n": n, "p": np.nan, "test": test}
        if not n:
            return values | dict.fromkeys(("difference", "difference_low", "difference_high"), np.nan)
        apart, how = shares[0] - shares[1], (self.drawing.resamples, self.drawing.seed)
        only_a, only_b = int((apart > 0).sum()), int((apart < 0).sum())
        of = of.of(mask)
        if test != MCNEMAR:
            drawn, _ = bootstrap.resample(apart[None], np.empty((0, n)), of, *how)
        else:  # an item is +1, -1 or 0, so a resample of items is three counts
            counts = np.random.default_rng(self.drawing.seed).multinomial(
                n, np.array([only_a, only_b, n - only_a - only_b]) / n, size=self.drawing.resamples
            )
            drawn = ((counts[:, 0] - counts[:, 1]) / n)[:, None]
        (low,), (high,) = bootstrap.intervals(drawn, self.drawing.level, of.number)
        p = mcnemar(only_a, only_b)[0] if test == MCNEMAR else self._sign_flip(a, b, of, mask)
        p = np.nan if self._other_task(a, b) else p
        return values | {
            "difference": float(apart.sum() / n), "difference_low": low, "difference_high": high,
            "p": float(p),
        }  # fmt: skip

    @property
    def columns(self) -> list[str]:
        """Names of the columns by which items can be sliced, those with one value left out."""
        return self._slices.names

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The columns of items, annotations and models, one row an item.

        For each model there are ``"<label>: prediction"``, ``"<label>: correct"``, ``"<label>: rank"`` and
        ``"<label>: log_prob"``; ``n_right`` and ``disagreement`` (from 0 to 1) are over all models.
        """
        columns: dict[str, Any] = {"item_id": self.items.frame["item_id"].to_numpy(), "answer": self.answers}
        for k, model in enumerate(self.labels):
            words = self._models[k].strings("prediction", self._rows[k]).to_pylist()
            columns |= {f"{model}: prediction": words, f"{model}: correct": self.correct[k]}
            columns |= {f"{model}: rank": self.rank[k], f"{model}: log_prob": self.log_prob[k]}
        columns |= {"n_right": self.n_right, "disagreement": self.disagreement}
        frame, extra = pd.DataFrame(columns), self._slices.frame
        return pd.concat([frame, extra.loc[:, ~extra.columns.isin(frame.columns)]], axis=1)

    def bins(self, column: str) -> list[Bin]:
        """Return the values or ranges of a column, DataError if there is none; every item is in just one."""
        return self._slices.bins(column)

    def slices(self, column: str, mask: Mask | None = None) -> pd.DataFrame:
        """Return the models' accuracies on the items, those of `mask` (n,) only, of each bin of a column.

        Returns
        -------
        DataFrame
            One row a bin and model: `key`, `bin` (its label), `label` (of the model), `n`,
            `accuracy`, `low`, `high` (Wilson; of a mean over replicates it is wider than need be).
        """
        bins = self.bins(column)
        kind = np.float64 if self._several.any() else np.float32  # counts are exact in both
        masks = np.stack([part.mask for part in bins]).astype(kind)
        masks = masks if mask is None else masks * mask
        n = masks.sum(axis=1, dtype=np.float64)[:, None]
        right = (masks @ self.shares.T.astype(kind)).astype(np.float64)  # (bins, m)
        low, high = wilson(right, n, level=self.drawing.level)
        with np.errstate(invalid="ignore"):
            accuracy = right / n
        return pd.DataFrame(
            {
                "key": np.repeat([part.key for part in bins], self.m),
                "bin": np.repeat([part.label for part in bins], self.m),
                "label": self.labels * len(bins),
                "n": np.repeat(n.astype(np.int64), self.m),
                "accuracy": accuracy.reshape(-1),
                "low": low.reshape(-1),
                "high": high.reshape(-1),
            }
        )

    def top(self, place: int) -> list[dict[str, Any]]:
        """Return the predictions of each model (m) for an item.

        Keys are `label`, `words` and `log_probs` (of the best words, or their scores), `score_type`,
        `answer_log_prob`, `rank`, `rank_label` (its text), `correct`, `prediction`, and `attention` (one
        weight a token of the item, or None).
        """
        return [self._answer_of(k, place) for k in range(self.m)]

    def _answer_of(self, k: int, place: int) -> dict[str, Any]:
        model, row = self._models[k], int(self._rows[k, place])
        words, values = (model.cell(name, row) or [] for name in ("top_words", "top_log_probs"))
        rank, log_prob = self.rank[k, place], self.log_prob[k, place]
        return {
            "label": self.labels[k],
            "words": [str(word) for word in words],
            "log_probs": [float(value) for value in values],
            "score_type": model.cell("score_type", row),
            "answer_log_prob": None if np.isnan(log_prob) else float(log_prob),
            "rank": None if np.isnan(rank) else int(rank),
            "rank_label": self.rank_label(k, place),
            "correct": bool(self.correct[k, place]),
            "prediction": model.cell("prediction", row),
            "attention": model.cell("attention", row),
        }

    def __str__(self) -> str:
        """Return the models, the pairs, the slices and the warnings as text, for a terminal."""
        counts = [f"{k:,} {what}{'' if k == 1 else 's'}" for k, what in ((self.m, "model"), (self.n, "item"))]
        head = f"{' on '.join(counts)}; {100 * self.drawing.level:g} % intervals"
        parts = [head, self._models_text()]
        if self.m > 1:
            tests = " or ".join(
                dict.fromkeys(self._test(pair, self._units) for pair in self._pairs.T.tolist())
            )
            parts.append(
                f"Pairs, the difference in percentage points, p of the {tests}:\n{self._pairs_text()}"
            )
        for column in self.columns if self.m <= _MOST else ():
            rows = [
                [part["bin"].iloc[0], f"{part['n'].iloc[0]:,}", *map(_percent, part["accuracy"])]
                for _, part in self.slices(column).groupby("key", sort=False)
            ]
            parts.append(f"Accuracy by {column}:\n{text_table([column, 'n', *self.labels], rows)}")
        if self.warnings:
            parts.append("Warnings:\n" + "\n".join(f"- {text}" for text in self.warnings))
        return "\n\n".join(parts)

    def _models_text(self) -> str:
        writers = {each.name: _percent if each.kind == "share" else quantity for each in SHOWN}
        rows = [
            [row["label"], *(_with_span(row, name, write) for name, write in writers.items()), row["spread"]]
            for row in self.table().to_dict("records")
        ]
        names = [
            column_label(each.name).label.lower() + (" %" if each.kind == "share" else "") for each in SHOWN
        ]
        columns = ["model", *names]
        if any(row[-1] for row in rows):
            return text_table([*columns, "remark"], rows)
        return text_table(columns, [row[:-1] for row in rows])

    def _pairs_text(self) -> str:
        columns = ["pair", "difference", "only one right", "p", "p (Holm)"]
        rows = [
            [
                f"{row['label_a']} - {row['label_b']}",
                _with_span(row, "difference", points),
                f"{row['n_only_a']:,} / {row['n_only_b']:,}",
                *(p_value(row[name]) for name in ("p", "p_holm")),
            ]
            for row in self.pairs().to_dict("records")
        ]
        return text_table(columns, rows)


def _percent(share: float) -> str:
    return percent(share, unit=False)


def _with_span(row: dict[Any, Any], name: str, write: Callable[[float], str]) -> str:
    return f"{write(row[name])} {span(row[f'{name}_low'], row[f'{name}_high'], write)}".rstrip()


def _align(items: Items, models: Sequence[ModelPredictions]) -> Ints:
    """Return the row of each model that tells of each item (m, all items), -1 without a known answer."""
    ids = pa.array(items.frame["item_id"], pa.string())
    rows = np.full((len(models), len(items)), -1, dtype=np.int64)
    for model, of_model in zip(models, rows, strict=True):
        item = pc.fill_null(pc.index_in(model.table["item_id"], value_set=ids), -1).to_numpy()
        answered = np.flatnonzero((item >= 0) & pc.is_valid(model.table["correct"]).to_numpy())
        of_model[item[answered]] = answered
    return rows
