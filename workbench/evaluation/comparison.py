"""Many models on the same items, side by side: measures, pairs, slices, and single items."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.analysis.binning import Bin, Binning
from workbench.analysis.proportions import benjamini_hochberg, holm, wilson
from workbench.evaluation import bootstrap
from workbench.evaluation.bootstrap import BootstrapSettings, Floats, Ints, Mask, Units
from workbench.evaluation.metrics import SPREAD, are_draws, chance_text, measured_columns, resampled, spread
from workbench.evaluation.model_predictions import (
    BY_SEED,
    PredictionSource,
    by_seed,
    differing,
    is_uncorrected,
    numbered_names,
    protocol_of,
)
from workbench.evaluation.paired import (
    AccuracyTests,
    Seeds,
    log_prob_intervals,
    mean_of_known,
    of_one_event,
    other_candidates,
    other_task,
    tests_of_pairs,
)
from workbench.evaluation.slices import Slices
from workbench.evaluation.table_columns import (
    filled_texts,
    known_candidates,
    log_probs,
    numbers,
    texts,
    truths,
    value_sets,
)
from workbench.items.items import Items
from workbench.predictions.measures import MEASURES, Measure, item_quantities
from workbench.predictions.schema import mid_ranks
from workbench.predictions.signature import VARIANT, one_value
from workbench.predictions.store import Run
from workbench.render.numbers import rank_text

OUTCOMES = ("only first", "only second", "both right", "both wrong", "any")
"""Cells of two models: which of them got an item right; ``any``: all four cells."""


class Comparison:
    """Several models (m) on the items (n) that one of them predicted.

    :func:`workbench.evaluation.align.align` makes it. Each model is measured on its own items, and two models
    are compared on those that both predicted.

    Attributes
    ----------
    labels : list of str (m,)
        Names of the models, unique, in the order given.
    items : Items (n,) or None
        The items that a model predicted and whose answer is known, in the order given; None where predictions
        are compared without.
    item_ids, answers : list of str (n,)
        Those of the items; where there is no answer, of the first model that knows it.
    mask : array of bool (m, n)
        Which items each model predicted.
    correct : array of bool (m, n)
        Whether the prediction is right; of replicates the majority's.
    by_seed : list of array of bool (n, replicates)
        Which replicates of each model are right; one column of a single run.
    shares : array of float (m, n)
        Share of the replicates that are right; 0 or 1 for a single run, NaN without a prediction. Accuracies
        are their means.
    n_right : array of int (n,)
        How many models are right.
    rank, log_prob : array of float (m, n)
        Ranks of the answers, and their ln p; NaN where there is none, minus infinity for probability 0.
    warnings : list of str
        What must not be compared, and why: whole sentences of :mod:`workbench.evaluation.table_notes`.
    """

    def __init__(
        self,
        item_ids: pa.Array,
        *,
        predictions: Sequence[Run | pd.DataFrame],
        sources: Sequence[PredictionSource],
        tables: Sequence[pa.Table],
        rows: Ints,
        sampling: BootstrapSettings,
        answers: list[str],
        book_ids: pa.Array,
        items: Items | None = None,
        annotations: Items | pd.DataFrame | None = None,
    ) -> None:
        self.sampling, self.item_ids, self.answers = sampling, item_ids.to_pylist(), answers
        self.n, self.m = rows.shape[1], len(tables)
        self.sources, self.tables, self._predictions, self._rows = sources, tables, predictions, rows
        self.labels = numbered_names([source.model for source in sources])
        self.items: Items = items  # type: ignore[assignment] # None is for pairs alone
        self._book_ids = book_ids
        if items is not None:
            self._slices = Slices(items, annotations, sources, tables)
        self.warnings: list[str] = []
        self.mask: Mask = rows >= 0
        self.correct: Mask = np.stack([truths(table, "correct") for table in tables])
        self.by_seed = [self._by_seed(k) for k in range(self.m)]
        shares = np.stack([right.mean(axis=1) for right in self.by_seed])
        self.shares: Floats = np.where(self.mask, shares, np.nan)
        self.n_right: Ints = self.correct.sum(axis=0)
        self.rank: Floats = np.stack([numbers(table, "rank") for table in tables])
        self._n_seeds: Ints = np.array([right.shape[1] for right in self.by_seed])
        self._several: Mask = self._n_seeds > 1
        self._log_probs: tuple[Floats, Floats] = (
            np.stack([log_probs(table) for table in tables]),
            np.stack([numbers(table, "log_prob_uncorrected") for table in tables]),
        )
        self.log_prob: Floats = of_one_event(*self._log_probs)
        self._other_tasks: dict[tuple[int, int], bool] = {}
        self._pairs: Ints = np.stack(np.triu_indices(self.m, 1))
        # in the order of `evaluate`, so that a seed draws the same items
        self._order = np.asarray(pc.array_sort_indices(item_ids).to_numpy(), dtype=np.int64)

    def _by_seed(self, k: int) -> Mask:
        predictions, right = self._predictions[k], self.correct[k][:, None]
        if isinstance(predictions, pd.DataFrame) and BY_SEED in predictions:
            right = by_seed(predictions)[self._rows[k]]
        return np.asarray(right, dtype=bool)

    @cached_property
    def units(self) -> Units:
        """Units of resampling: novels if every item names one, else items."""
        book_ids = filled_texts("book_id", self._book_ids, self.tables)
        return bootstrap.units(pd.Series(book_ids.to_pylist(), dtype="str"))

    @cached_property
    def candidates(self) -> list[pa.Array]:
        """What is known of the candidates that each model (m) had for the items (n,)."""
        return [known_candidates(table) for table in self.tables]

    @cached_property
    def value_sets(self) -> list[dict[str, set[Any]]]:
        """The different values of the columns that name the variant of each model's predictions."""
        return [value_sets(table) for table in self.tables]

    @cached_property
    def protocols(self) -> list[str]:
        """The variant of the text that each model (m) read, and by which protocol it was counted."""
        rows = [
            {name: ", ".join(sorted(map(str, values))) or None for name, values in each.items()}
            for each in self.value_sets
        ]
        return [f"{row['variant']}, {protocol_of(row)}" for row in rows]

    def tests(self, pairs: Ints, mask: Mask | None = None) -> AccuracyTests:
        """Test pairs of models (2, k) on the items that both predicted, or those of `mask` (n,).

        p and the minimum detectable effect are NaN where two models read different variants of the text,
        predict different units or choose from other candidates; all but the counts without common items.
        """
        common = self._common(pairs, mask)
        tests = [self._tests(pairs[:, indices], order) for indices, order in common]
        if len(tests) == 1:
            return tests[0]
        frames = [pd.DataFrame(test._asdict(), each[0]) for test, each in zip(tests, common, strict=True)]
        table = pd.concat(frames).sort_index()
        columns: Any = {str(name): column.to_numpy() for name, column in table.items()}
        return AccuracyTests(**columns | {"test": table["test"].tolist()})

    def _common(self, pairs: Ints, mask: Mask | None = None) -> list[tuple[Ints, Ints]]:
        """Return indices of pairs (2, k) with the same common items, and these in the order of `evaluate`."""
        indices: dict[bytes, list[int]] = {}
        for index, (a, b) in enumerate(pairs.T):
            common = self.mask[a] & self.mask[b]
            indices.setdefault((common if mask is None else common & mask).tobytes(), []).append(index)
        masks = {key: np.frombuffer(key, dtype=bool) for key in indices}
        return [(np.array(each), self._order[masks[key][self._order]]) for key, each in indices.items()] or [
            (np.zeros(0, dtype=np.int64), self._order)
        ]

    def _tests(self, pairs: Ints, order: Ints) -> AccuracyTests:
        """Test pairs of models on the items in `order`."""
        if not len(order):
            none, zeros = np.full(pairs.shape[1], np.nan), np.zeros(pairs.shape[1], dtype=np.int64)
            return AccuracyTests(zeros, zeros, none, none, none, none, [""] * pairs.shape[1], none)
        means = [right[order].mean(axis=0) for right in self.by_seed]
        variances = np.array([mean.var(ddof=1) / len(mean) if len(mean) > 1 else 0.0 for mean in means])
        seeds = Seeds(self._n_seeds[pairs].T, variances[pairs].T)
        tests = tests_of_pairs(self.shares[:, order], pairs, self.units.subset(order), self.sampling, seeds)
        other_task = [self._is_other_task(a, b) for a, b in pairs.T.tolist()]
        p, mde = (np.where(other_task, np.nan, values) for values in (tests.p, tests.mde))
        return tests._replace(p=p, mde=mde)

    def _is_other_task(self, a: int, b: int) -> bool:
        """Return whether two models do different tasks on their items; kept, as each selection asks again."""
        if (a, b) not in self._other_tasks:
            common = self.mask[a] & self.mask[b]
            sets = [
                self.value_sets[k] if (self.mask[k] == common).all()
                else value_sets(self.tables[k].filter(pa.array(common)))
                for k in (a, b)
            ]  # fmt: skip
            is_other = other_candidates(self.candidates[a], self.candidates[b])
            self._other_tasks[a, b] = is_other or other_task(*sets)
        return self._other_tasks[a, b]

    def log_prob_intervals(
        self, pairs: Ints, replicates: Floats | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return mean differences in ln p of pairs (2, k) on the items where both are known, and bounds.

        The bounds are NaN where an answer has probability 0 by one model alone, and where both models have
        several seeds, whose log-probabilities are not known one by one. Differences of `replicates`
        (resamples, m) of the models' means serve pairs whose log-probabilities are of the same items.
        """
        values = np.full((3, pairs.shape[1]), np.nan)
        for indices, order in self._common(pairs):
            if len(order):
                alike, units = pairs[:, indices], self.units.subset(order)
                by_seed = np.asarray((self._n_seeds[alike] > 1).all(axis=0))
                values[:, indices] = log_prob_intervals(
                    self.log_prob[:, order],
                    alike,
                    units,
                    self.sampling,
                    by_seed=by_seed,
                    replicates=replicates,
                )
        return values[0], values[1], values[2]

    @cached_property
    def distinctions(self) -> pd.DataFrame:
        """The columns in which models of equal names differ, one row per model; no column without any."""
        if len({source.model for source in self.sources}) == self.m:
            return pd.DataFrame(index=range(self.m))
        traits = []
        for source, table in zip(self.sources, self.tables, strict=True):
            sets = table.select(["dataset", "split", "variant", *VARIANT]).to_pandas()
            values = {str(name): one_value(column) for name, column in sets.items()}
            traits.append(source.settings | values | {"run": source.run})
        return differing([source.model for source in self.sources], traits)

    @property
    def disagreement(self) -> Floats:
        """How far its models disagree on each item, 0 (all right, or all wrong) to 1 (half of them)."""
        return self.disagreement_of(range(self.m))

    def disagreement_of(self, models: Sequence[int]) -> Floats:
        """Return how far some of the models disagree on each item (n,), of those that predicted it."""
        number, right = self.mask[list(models)].sum(axis=0), self.correct[list(models)].sum(axis=0)
        largest = (number // 2) * (number - number // 2)
        return np.asarray(right * (number - right) / np.maximum(largest, 1))

    @cached_property
    def n_tied(self) -> Floats:
        """Words with the score of each answer (m, n), the answer included; 1 where that is not known."""
        return np.stack([np.nan_to_num(numbers(table, "n_tied"), nan=1.0) for table in self.tables])

    @cached_property
    def _mid_rank(self) -> Floats:
        """Mean rank of each answer and the words tied with it (m, n)."""
        return np.stack([mid_ranks(*pair) for pair in zip(self.rank, self.n_tied, strict=True)])

    def rank_label(self, k: int, index: int) -> str:
        """Return the rank of an answer by a model as text; empty if it is not known."""
        bound = self.tables[k]["rank_is_bound"][index].as_py()
        return rank_text(self.rank[k, index], self.n_tied[k, index], bound=bool(bound))

    @cached_property
    def _uncorrected(self) -> Mask:
        """Whether the log-probabilities of each model (m,) are of the sub-tokens alone, as in some logs."""
        return np.array([is_uncorrected(*pair) for pair in zip(*self._log_probs, strict=True)])

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The measures that are shown: that of sub-tokens alone where a model has no other perplexity."""
        return tuple(
            each
            for each in MEASURES
            if each.in_tables or (each.name == "perplexity_uncorrected" and self._uncorrected.any())
        )

    @cached_property
    def _groups(self) -> list[tuple[Ints, Units, dict[str, Floats]]]:
        """Models with the same items: indices, units, and quantities in the order of `evaluate`."""
        sources = {"correct": self.shares, "log_prob": self._log_probs[0], "mid_rank": self._mid_rank}
        if self._uncorrected.any():
            sources["log_prob"] = np.where(self._uncorrected[:, None], np.nan, sources["log_prob"])
            sources["log_prob_uncorrected"] = self._log_probs[1]
        values, groups = item_quantities(sources), []
        for models, order in self._common(np.tile(np.arange(self.m), (2, 1))):
            if len(models) < self.m or (order != np.arange(self.n)).any():  # a copy of all rows takes long
                values_of_group = {name: rows[models][:, order] for name, rows in values.items()}
            else:
                values_of_group = values
            groups.append((models, self.units.subset(order), values_of_group))
        return groups

    @cached_property
    def _replicates(self) -> list[dict[str, Floats]]:
        return [
            resampled(values, units, self.sampling, several=self._several[models])
            for models, units, values in self._groups
        ]

    def _measured(self, replicates: Sequence[dict[str, Floats] | None]) -> pd.DataFrame:
        """Return the measures, one row per model, with bounds from the replicates of each of `_groups`."""
        frames = []
        for (models, units, values), drawn in zip(self._groups, replicates, strict=True):
            columns = measured_columns(values, drawn, units, self.sampling, several=self._several[models])
            columns["resampled_by"] = units.by
            columns["n_novels"] = units.number if units.by != "item" else None
            frames.append(pd.DataFrame(columns, models))
        return pd.concat(frames).sort_index().astype({"n_novels": "Int64"})

    def points(self) -> pd.DataFrame:
        """Return the measures of `table` that need no resampling: one row per model.

        Columns are `label`, `n`, those of the measures that tables show, `n_perplexity`, `n_seeds` (1 for a
        single run), and of replicates `seed_sd`, `seed_min`, `seed_max`, `spread`
        (of a random baseline, what it is expected to get right); then those of `distinctions`.
        """
        by_seed = [right[mask] for right, mask in zip(self.by_seed, self.mask, strict=True)]
        spreads = [spread(right) if right.shape[1] > 1 else {} for right in by_seed]
        measured = self._measured([None] * len(self._groups)).drop(columns=["resampled_by", "n_novels"])
        return pd.DataFrame(
            {
                "label": self.labels,
                "n": self.mask.sum(axis=1),
                **{str(name): column for name, column in measured.items()},
                "n_seeds": [right.shape[1] for right in by_seed],
                **{name: [values.get(name, np.nan) for values in spreads] for name in SPREAD[1:-1]},
                "spread": [values.get("spread", "") or self._chance(k) for k, values in enumerate(spreads)],
                **{str(name): values.to_numpy() for name, values in self.distinctions.items()},
            }
        )

    def _chance(self, k: int) -> str:
        """Return the expected accuracy of a random baseline in words; "" for other models."""
        p = numbers(self.tables[k], "p_correct")
        is_random = not self._several[k] and are_draws(p[truths(self.tables[k], "known")])
        return chance_text(mean_of_known(p)) if is_random else ""

    def table(self) -> pd.DataFrame:
        """Measure the models; definitions and columns as :func:`workbench.evaluation.metrics.evaluate`.

        One row per model: `label`, `n`, `accuracy`, `accuracy_low`, `accuracy_high`, `interval`,
        `n_perplexity`, the other measures that tables show with their intervals, `resampled_by`, `n_novels`,
        `model`, `run`, and those of seeds and of `distinctions`, as `points` has them. NaN: not known.
        """
        table, measured = self.points(), self._measured(self._replicates)
        columns: dict[str, Any] = {str(name): column for name, column in measured.items()}
        columns |= {name: [getattr(source, name) for source in self.sources] for name in ("model", "run")}
        head, rest = ("label", "n"), (*SPREAD, *self.distinctions.columns)
        head_columns, last = ({name: table[name] for name in names} for names in (head, rest))
        return pd.DataFrame(head_columns | columns | last)

    def pairs(self) -> pd.DataFrame:
        """Compare the models two by two.

        Returns
        -------
        DataFrame
            One row per pair, ``a < b``:

            `a`, `b`, `label_a`, `label_b`, `n`, `n_only_a`, `n_only_b`
                Places and labels of the models; items that both predicted, and that only one got right.
            `difference`, `difference_low`, `difference_high`
                Accuracy of `a` minus that of `b`, and the bounds of its interval, by novel where every item
                names its novel: it excludes 0 exactly where `p` <= 1 - level.
            `mde`
                Smallest detectable difference (minimum detectable effect): the least true one that this one
                test, not corrected, finds with a power of 80 %; NaN where none can be promised.
            `p`, `p_holm`, `p_fdr_bh`, `test`
                Of the test that :func:`workbench.evaluation.paired.accuracy_tests` makes; corrected for
                the number of pairs (Holm 1979; false discovery rate, Benjamini and Hochberg 1995). NaN where
                the models read different variants of the text or predict different units.
            `log_prob_difference`, `log_prob_difference_low`, `log_prob_difference_high`
                Mean ln p of `a` minus that of `b` on the items where both are known; NaN where there is
                none, the interval also where an answer has probability 0 or both have several seeds.
        """
        return self._pair_tests.copy()

    @cached_property
    def _pair_tests(self) -> pd.DataFrame:
        a, b = self._pairs
        correct, mask = self.correct.astype(np.float32), self.mask.astype(np.float32)
        both, right, n = (
            np.rint(counts).astype(np.int64)
            for counts in (correct @ correct.T, correct @ mask.T, mask @ mask.T)
        )
        tests, is_same = self.tests(self._pairs), len(self._groups) == 1 and not self._uncorrected.any()
        same = self._replicates[0].get("log_prob") if is_same else None
        log_prob, low, high = self.log_prob_intervals(self._pairs, same)
        return pd.DataFrame(
            {
                "a": a,
                "b": b,
                "label_a": pd.Series([self.labels[k] for k in a], dtype="str"),
                "label_b": pd.Series([self.labels[k] for k in b], dtype="str"),
                "n": n[a, b],
                "n_only_a": right[a, b] - both[a, b],
                "n_only_b": right[b, a] - both[a, b],
                "difference": tests.difference,
                "difference_low": tests.low,
                "difference_high": tests.high,
                "mde": tests.mde,
                "test": pd.Series(tests.test, dtype="str"),
                "p": tests.p,
                "p_holm": holm(tests.p),
                "p_fdr_bh": benjamini_hochberg(tests.p),
                "log_prob_difference": log_prob,
                "log_prob_difference_low": low,
                "log_prob_difference_high": high,
            }
        )

    def differences(self, baseline: int) -> pd.DataFrame:
        """Compare every other model with one, `baseline` (its index).

        The rows of `pairs` that the baseline is in, in the order of the other models and turned so that these
        are `a` and the baseline is `b`: `difference` is the model's accuracy minus the baseline's, `n_only_a`
        counts improvements, `n_only_b` regressions. `p_holm` and `p_fdr_bh` are corrected for these rows.
        """
        pairs = self._pair_tests
        names = ("difference", "log_prob_difference")
        swapped = {"a": "b", "label_a": "label_b", "n_only_a": "n_only_b"}
        swapped |= {f"{name}_low": f"{name}_high" for name in names}
        turned = pairs[pairs["a"] == baseline].rename(columns=swapped | {b: a for a, b in swapped.items()})
        columns = [name for name in turned if str(name).startswith(names)]
        turned = turned.assign(**{str(name): -turned[name] for name in columns})
        table = pd.concat([pairs[pairs["b"] == baseline], turned], ignore_index=True).sort_values("a")
        return table.assign(p_holm=holm(table["p"]), p_fdr_bh=benjamini_hochberg(table["p"]))

    def cell(self, a: int, b: int, outcome: str = "only first") -> Mask:
        """Return the items (n,) of one of the four cells of two models, see `OUTCOMES`."""
        first, second, common = self.correct[a], self.correct[b], self.mask[a] & self.mask[b]
        cells = {
            "only first": first & ~second & common, "only second": ~first & second & common,
            "both right": first & second, "both wrong": ~first & ~second & common,
        }  # fmt: skip
        return np.asarray(cells[outcome] if outcome in cells else np.ones(self.n, dtype=bool))

    def pair(self, a: int, b: int, mask: Mask | None = None) -> dict[str, Any]:
        """Compare two models on a part of the items.

        Parameters
        ----------
        a, b : int
            Places of the models.
        mask : array of bool (n,), optional
            All items by default; those count that both predicted. Chosen after a look at the results, a
            part makes the test exploratory.

        Returns
        -------
        dict
            ``n``; ``difference`` of the accuracies, with ``difference_low`` and ``difference_high``, and
            ``p`` of the ``test``, not corrected, and ``mde``, as `pairs` has them. NaN where there are no
            items.
        """
        common = self.mask[a] & self.mask[b]
        n = int((common if mask is None else common & mask).sum())
        test = self.tests(np.array([[a], [b]]), mask)
        values = {"difference": test.difference, "difference_low": test.low, "difference_high": test.high}
        values |= {"p": test.p, "mde": test.mde}
        numbers = {name: float(value[0]) for name, value in values.items()}
        return {"n": n, "test": test.test[0], **numbers}

    @property
    def columns(self) -> list[str]:
        """Names of the columns by which items can be sliced, those with one value left out."""
        return self._slices.names

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The columns of items, annotations and models, one row per item.

        For each model there are ``"<label>: prediction"``, ``"<label>: correct"``, ``"<label>: rank"`` and
        ``"<label>: log_prob"``; ``n_right`` and ``disagreement`` (from 0 to 1) are over all models.
        """
        return self.frame_of(self.frame_columns)

    @property
    def frame_columns(self) -> list[str]:
        """Names of the columns of `frame`."""
        return list(self._columns)

    def frame_of(self, names: Collection[str]) -> pd.DataFrame:
        """Return the named columns of `frame`; no other is computed."""
        return pd.DataFrame({name: self._columns[name]() for name in names})

    @cached_property
    def _columns(self) -> dict[str, Callable[[], Any]]:
        """Functions that compute the columns of `frame`."""
        item_ids = partial(self.items.frame["item_id"].to_numpy)
        makers: dict[str, Callable[[], Any]] = {"item_id": item_ids, "answer": partial(list, self.answers)}
        for k, model in enumerate(self.labels):
            makers |= {
                f"{model}: prediction": partial(self.words, k),
                f"{model}: correct": partial(self._correct_column, k),
                f"{model}: rank": partial(self.rank.__getitem__, k),
                f"{model}: log_prob": partial(self.log_prob.__getitem__, k),
            }
        makers |= {name: partial(getattr, self, name) for name in ("n_right", "disagreement")}
        others = [name for name in self._slices.all_names if name not in makers]
        return makers | {name: partial(self._slices.column, name) for name in others}

    def _correct_column(self, k: int) -> Any:
        """Return whether a model is right on each item, null where it did not predict it."""
        correct, missing = self.correct[k], ~self.mask[k]
        return pd.arrays.BooleanArray(correct.copy(), missing) if missing.any() else correct

    def words(self, k: int) -> list[str | None]:
        """Return the predictions of a model (n)."""
        return texts(self.tables[k], "prediction").to_pylist()  # type: ignore[no-any-return]

    def bins(self, column: str) -> list[Bin]:
        """Return the values or ranges of a column; DataError if it is missing. Every item is in just one."""
        return self.binning(column).bins

    def binning(self, column: str) -> Binning:
        """Return a column with its bins and their filters; DataError if it is missing."""
        return self._slices.binning(column)

    def slices(self, column: str, mask: Mask | None = None) -> pd.DataFrame:
        """Return the models' accuracies in each bin of a column, on the items of `mask` (n,).

        One row per bin and model: `key`, `bin` (its label), `label` (of the model), `n`, `accuracy`, `low`,
        `high` (Wilson; of a mean over replicates it is wider than need be).
        """
        bins = self.bins(column)
        dtype = np.float64 if self._several.any() else np.float32  # counts are exact in both
        masks = np.stack([group.mask for group in bins]).astype(dtype)
        masks = masks if mask is None else masks * mask
        n = (masks @ self.mask.T.astype(dtype)).astype(np.float64)  # (bins, m)
        right = (masks @ np.nan_to_num(self.shares).T.astype(dtype)).astype(np.float64)
        low, high = wilson(right, n, level=self.sampling.level)
        with np.errstate(invalid="ignore"):
            accuracy = right / n
        return pd.DataFrame(
            {
                "key": np.repeat([group.key for group in bins], self.m),
                "bin": np.repeat([group.label for group in bins], self.m),
                "label": self.labels * len(bins),
                "n": n.astype(np.int64).reshape(-1),
                "accuracy": accuracy.reshape(-1),
                "low": low.reshape(-1),
                "high": high.reshape(-1),
            }
        )

    def top(self, index: int) -> list[dict[str, Any]]:
        """Return the predictions of each model (m) for an item.

        Keys are `label`, `words` and `log_probs` (of the best words, or their scores), `score_type`, `answer`
        (of the items that the model read), `answer_log_prob`, `rank`, `rank_label` (its text), `correct`,
        `prediction`, and `attention` (one weight per token of the item, or None).
        """
        return [self._answer_of(k, index) for k in range(self.m)]

    def _answer_of(self, k: int, index: int) -> dict[str, Any]:
        row = {name: self.tables[k][name][index].as_py() for name in ("score_type", "answer", "prediction")}
        words, values = (self._list(k, index, name) or [] for name in ("top_words", "top_log_probs"))
        rank, log_prob = self.rank[k, index], self.log_prob[k, index]
        return {
            "label": self.labels[k],
            "words": [str(word) for word in words],
            "log_probs": [float(value) for value in values],
            "score_type": row["score_type"],
            "answer_log_prob": None if np.isnan(log_prob) else float(log_prob),
            "rank": None if np.isnan(rank) else int(rank),
            "rank_label": self.rank_label(k, index),
            "answer": row["answer"] or self.answers[index],
            "correct": bool(self.correct[k, index]),
            "prediction": row["prediction"],
            "attention": self._list(k, index, "attention"),
        }

    def _list(self, k: int, index: int, name: str) -> list[Any] | None:
        """Return the list in a column of a model's predictions, such as its best words, or None."""
        predictions, row = self._predictions[k], int(self._rows[k, index])
        if row < 0:
            return None
        if isinstance(predictions, Run):
            value = predictions.cell(name, row)
        else:
            value = predictions[name].iloc[row] if name in predictions else None
        return list(value) if isinstance(value, list | tuple | np.ndarray) else None
