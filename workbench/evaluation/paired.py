"""Models lined up by item, and paired tests of any two: the one place that aligns and tests pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.analysis.proportions import mcnemar, paired_interval
from workbench.evaluation import bootstrap
from workbench.evaluation.bootstrap import BootstrapSettings, Floats, Ints, Mask, Units
from workbench.evaluation.model_predictions import (
    ModelPredictions,
    filled_column,
    is_uncorrected,
    labels,
    protocol_of,
)
from workbench.items.ablation import RENAMED, split_variant
from workbench.render.numbers import fixed
from workbench.storage.cache import digest
from workbench.storage.errors import DataError

MCNEMAR = "exact McNemar test"
POWER = 0.8
"""Probability with which a test finds a difference of the minimum detectable effect (Cohen 1988)."""

FEWEST_NOVELS = 10
"""Novels below which no detectable difference can be promised."""

_AT_ONCE = 4_000_000  # outcomes of items that are compared at once
_ROUNDING = 64 * np.finfo(np.float32).eps  # of log-probabilities, as a share of their size
_MOSTLY = 0.5  # of the items without a difference


class Seeds(NamedTuple):
    """Training seeds of the two models of k pairs, (k, 2) each: how many, and the variance of their mean."""

    number: Ints
    variance: Floats


class AccuracyTests(NamedTuple):
    """Paired tests of the accuracies of k pairs of models.

    `only_a` and `only_b` count the items that one of the two got right (of replicates: with more of its
    seeds), `difference` is the accuracy of the first minus that of the second, `low` and `high` the bounds
    of its interval, `p` two-sided, `test` the name of the test, and `mde` the smallest detectable difference
    (minimum detectable effect): the least true difference that the test finds with a power of 80 % at the
    level of the interval (one test, not corrected). Each has k values.
    """

    only_a: Ints
    only_b: Ints
    difference: Floats
    low: Floats
    high: Floats
    p: Floats
    test: list[str]
    mde: Floats


def minimum_detectable_effect(
    discordant: npt.ArrayLike, n: npt.ArrayLike, *, level: float = 0.95, power: float = POWER
) -> Floats:
    """Return the least difference in accuracy that McNemar's exact test finds with a given power.

    Parameters
    ----------
    discordant, n : int or array of int
        Items that only one of two models gets right, and all items that both predicted.
    level : float, default 0.95
        1 - the level of significance, which is two-sided.
    power : float, default 0.8
        Probability of a significant difference in the right direction.

    Returns
    -------
    array of float, one or more dimensions
        Between 0 and 1. NaN where so few items are there that no outcome is significant.

    Notes
    -----
    Power is that of :func:`mcnemar_power`. A result above ``discordant / n`` supposes that so many items are
    discordant: with the share that was observed no difference has this power.
    """
    from scipy.optimize.elementwise import find_root  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    def excess(effect: Floats, m: Floats, n: Floats) -> Floats:
        return mcnemar_power(effect, m, n, level=level) - power

    m, n = np.broadcast_arrays(np.atleast_1d(np.asarray(discordant, float)), np.asarray(n, float))
    # NaN where even the effect 1 has less power
    effect = find_root(excess, (0.0, 1.0), args=(m, n), tolerances={"xatol": 1e-7}).x
    return np.asarray(effect, dtype=np.float64)


def mcnemar_power(
    effect: npt.ArrayLike, discordant: npt.ArrayLike, n: npt.ArrayLike, *, level: float = 0.95
) -> Floats:
    """Return the probability that McNemar's exact test finds a difference in accuracy, `effect`.

    The other parameters are those of :func:`minimum_detectable_effect`, which is the inverse.

    Notes
    -----
    The number of discordant items is not known before the test. It is binomial, with the share
    ``discordant / n``, or `effect` where that is more, and the power is the mean over it (of 65 numbers
    within 4.5 standard deviations where there are more). Taking it as given, or the normal approximation
    (Miettinen 1968; Connor 1987), promises too much for few items.
    """
    from scipy.special import betainc, gammaln  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    values = np.broadcast_arrays(*(np.asarray(value, dtype=np.float64) for value in (effect, discordant, n)))
    difference, m, total = (np.atleast_1d(value)[..., None] for value in values)
    difference = np.abs(difference)
    share = np.minimum(np.maximum(m / total, difference), 1)
    reach = 4.5 * np.sqrt(total * share * (1 - share)) + 4
    first = np.floor(np.maximum(total * share - reach, 0))
    last = np.ceil(np.minimum(total * share + reach, total))
    counts = np.rint(first + np.maximum((last - first) / 64, 1) * np.arange(65))  # discordant items
    k = np.minimum(counts, total)
    with np.errstate(invalid="ignore", divide="ignore"):
        logs = [
            np.where(count > 0, count * np.log(q), 0) for count, q in ((k, share), (total - k, 1 - share))
        ]
        one_side = np.where(share > 0, (1 + difference / share) / 2, 0.5)
    log_p = sum(logs) - gammaln(k + 1) - gammaln(total - k + 1) + gammaln(total + 1)
    weights = np.where(counts > total, 0, np.exp(log_p))
    critical = _critical_counts(int(k.max(initial=0)).bit_length(), 1 - level)[k.astype(np.int64)]
    possible = critical <= k
    of_count = betainc(np.where(possible, critical, 1), np.where(possible, k - critical + 1, 1), one_side)
    power = (weights * possible * of_count).sum(axis=-1) / weights.sum(axis=-1)
    return np.asarray(power, dtype=np.float64)


@cache
def _critical_counts(bits: int, alpha: float) -> Floats:
    """Return how many of 0 ... 2^bits discordant items must be on one side for p <= alpha; m + 1: none."""
    from scipy.special import bdtr, ndtri  # noqa: PLC0415 - slow

    m = np.arange(2**bits + 1)
    fewer = np.minimum(
        np.ceil((m + ndtri(alpha / 2) * np.sqrt(m)) / 2) + 1, m // 2
    )  # items of the other side
    while (excess := (fewer >= 0) & (2 * bdtr(np.maximum(fewer, 0), m, 0.5) > alpha)).any():
        fewer -= excess
    return np.asarray(m - np.maximum(fewer, -1), dtype=np.float64)


def describe_mde(difference: float, mde: float) -> str:
    """Return the smallest detectable difference in points as text; "" where none can be promised."""
    smaller = " (observed: smaller)" if abs(difference) < mde else ""
    return "" if np.isnan(mde) else f"{fixed(100 * mde, 1)}{smaller}"


def accuracy_tests(
    steps: npt.NDArray[np.integer[Any]], units: Units, sampling: BootstrapSettings, seeds: Seeds | None = None
) -> AccuracyTests:
    """Test the differences between the accuracies of k pairs of models on the same n items.

    Every view of two models has its interval and p from here, so a pair has the same in each. An interval
    excludes 0 exactly where p <= 1 - level.

    Parameters
    ----------
    steps : array of int (k, n)
        What the first model of a pair gets right of an item minus what the second does, times the least
        common multiple of their numbers of seeds.
    seeds : Seeds, optional
        Single runs by default.

    Notes
    -----
    Single runs by item: p is of the exact McNemar test, the interval is
    :func:`workbench.analysis.proportions.paired_interval`, and the smallest detectable difference that of
    :func:`minimum_detectable_effect`.

    Where both have several seeds, all three are of Welch's t: the variance is that of the mean difference
    between units (novels or items), plus that of each model's mean over its seeds, with the degrees of
    freedom of Satterthwaite (1946). Novels of different sizes count as sum(sizes)^2 / sum(sizes^2) novels.

    Otherwise p is of the exact sign-flip test of units, and the interval has the differences that this test
    does not reject. The smallest detectable difference is that of a t test of units, whose power is that of
    the sign-flip test but for some percent; NaN with fewer than 10 novels.
    """
    from scipy.special import chdtri, nctdtrinc, stdtr, stdtrit  # noqa: PLC0415 - slow to import

    k, n = steps.shape
    seeds = seeds or Seeds(np.ones((k, 2), dtype=np.int64), np.zeros((k, 2)))
    scales = np.lcm(*seeds.number.T)
    only_a, only_b = (steps > 0).sum(axis=1), (steps < 0).sum(axis=1)
    differences = steps.sum(axis=1) / (n * scales)
    p, (low, high) = mcnemar(only_a, only_b), paired_interval(only_a, only_b, n, level=sampling.level)
    by_seed = (seeds.number > 1).all(axis=1) & (units.number > 1)
    counted = (scales == 1) & (units.by == "item")
    flipped = ~by_seed & ~counted
    tests = np.where(counted, MCNEMAR, f"paired sign-flip test by {units.by}, exact")
    tests = np.where(by_seed, f"Welch t test by {units.by} and seed", tests)
    mde = np.full(k, np.nan)
    mde[counted] = minimum_detectable_effect((only_a + only_b)[counted], n, level=sampling.level)
    if not counted.all():
        sums = np.rint([units.sums(row) for row in steps]).astype(np.int64)
        sizes = np.bincount(units.codes, minlength=units.number).astype(np.float64)
        error, df = _standard_errors(sums / scales[:, None], sizes, seeds)
        critical = stdtrit(df, (1 + sampling.level) / 2)
        t, differ = by_seed & (error > 0), flipped & (sums != 0).any(axis=1)  # else as items
        p[t] = 2 * stdtr(df[t], -np.abs(differences[t]) / error[t])
        half = critical[t] * error[t]
        low[t], high[t] = differences[t] - half, differences[t] + half
        p[differ], _ = bootstrap.sign_flips(sums[differ], *sampling[1:])
        low[differ], high[differ] = bootstrap.sign_flip_intervals(
            sums[differ] / scales[differ][:, None], sizes, p[differ], sampling
        )
        possible = by_seed | (2.0 ** (1 - (sums != 0).sum(axis=1)) <= 1 - sampling.level)
        possible &= ~counted & (error > 0) & ((units.by == "item") | (units.number >= FEWEST_NOVELS))
        median = np.sqrt(chdtri(df, 0.5) / df)  # of estimated standard errors, as a share of the true one
        mde[possible] = (nctdtrinc(df, 1 - POWER, critical) / median * error)[possible]
    low, high = np.maximum(low, -1), np.minimum(high, 1)
    return AccuracyTests(only_a, only_b, differences, low, high, p, tests.tolist(), mde)


def _standard_errors(sums: Floats, sizes: Floats, seeds: Seeds) -> tuple[Floats, Floats]:
    """Return the standard errors of mean differences (k,), and their degrees of freedom.

    `sums` (k, units) are the differences of each unit, `sizes` (units,) its items.
    """
    n = sizes.sum()
    number = n**2 / (sizes**2).sum()
    residuals = sums - sums.sum(axis=1)[:, None] * sizes / n
    by_unit = (residuals**2).sum(axis=1) / n**2 * number / max(number - 1, 1)
    components = np.column_stack([by_unit, seeds.variance])
    freedom = np.maximum(np.column_stack([np.full(len(sums), number), seeds.number]) - 1, 1)
    variance = components.sum(axis=1)
    with np.errstate(invalid="ignore"):
        df = variance**2 / (components**2 / freedom).sum(axis=1)
    return np.sqrt(variance), df


def other_task(a: Mapping[str, set[Any]], b: Mapping[str, set[Any]]) -> bool:
    """Return whether two models read different texts or predict different units, so not comparable.

    What a model sees of a text, the query alone for instance, is not another text.
    """
    text_a, text_b = ({split_variant(str(variant))[0] for variant in each["variant"]} for each in (a, b))
    return text_a != text_b or a["unit"] != b["unit"]


def other_candidates(a: pa.Array, b: pa.Array) -> bool:
    """Return whether one of the items has other candidates for one model than for another.

    Both (n,) are digests as :meth:`ModelPredictions.candidates` gives them; null where they are not known.
    """
    return bool(pc.any(pc.not_equal(a, b), min_count=0).as_py())


def joint_candidates(candidates: pa.Array) -> str | None:
    """Return what is known of the candidates of items (n,) as if they were one item's.

    So `other_candidates` compares two models on the same items, in the same order, by one value of each.
    """
    return None if candidates.null_count else digest(*candidates.to_pylist())


def other_event(a: Mapping[str, set[Any]], b: Mapping[str, set[Any]]) -> bool:
    """Return whether probabilities of two models are of different events, so not comparable."""
    return other_task(a, b) or any(a[name] != b[name] for name in ("vocabulary_size", "unknown"))


def of_one_event(corrected: Floats, uncorrected: Floats) -> Floats:
    """Return log-probabilities of answers (m, n) that are of the same event for all models.

    Where some models have those of the sub-tokens alone, whatever follows them (``log_prob_uncorrected``),
    that is those of all models if all have them; else it is NaN for these models.
    """
    alone = np.array([is_uncorrected(*pair) for pair in zip(corrected, uncorrected, strict=True)])
    missing = np.isnan(corrected)
    if not alone.any() or (alone | missing.all(axis=1)).all():
        return corrected
    if not np.isnan(uncorrected[~missing]).any():
        return np.where(missing, np.nan, uncorrected)
    return np.where(alone[:, None], np.nan, corrected)


class AlignedPredictions:
    """The predictions of several models (m) on items (n) that all of them predicted.

    Attributes
    ----------
    labels : list of str (m,)
        Names of the models, unique, in the order given.
    item_ids : list of str (n,)
    answers : list of str (n,)
        Those given; where there are none, of the first model that knows it.
    by_seed : list of array of bool (n, replicates)
        Which replicates of each model are right; one column of a single run.
    shares : array of float (m, n)
        Share of the replicates that are right; 0 or 1 for a single run. Accuracies are their means.
    log_prob : array of float (m, n)
        ln p of the answers; NaN where there is none, minus infinity for probability 0.
    sampling : BootstrapSettings
        Confidence level, replicates and seed of the intervals.

    Parameters
    ----------
    models : sequence of ModelPredictions (m,)
    rows : array of int (m, n)
        The row of each model for each item.
    answers, book_ids : array of str (n,)
        What is known of the items; nulls are filled from the predictions.

    Raises
    ------
    DataError
        If two have different answers to one item, unless one of the items is renamed.
    """

    def __init__(
        self,
        item_ids: pa.Array,
        models: Sequence[ModelPredictions],
        rows: Ints,
        sampling: BootstrapSettings,
        *,
        answers: pa.Array,
        book_ids: pa.Array,
    ) -> None:
        self.sampling, self.item_ids = sampling, item_ids.to_pylist()
        self.n, self.m = len(item_ids), len(models)
        self.models, self.rows, self._book_ids = models, rows, book_ids
        self.labels = labels(models)
        self.answers = self._known_answers(answers)
        self.by_seed = [model.correct_by_seed[r] for model, r in self._each()]
        self.shares: Floats = np.stack([right.mean(axis=1) for right in self.by_seed])
        self._n_seeds: Ints = np.array([right.shape[1] for right in self.by_seed])
        self._log_probs: tuple[Floats, Floats] = (
            np.stack([model.log_prob[r] for model, r in self._each()]),
            np.stack([model.floats("log_prob_uncorrected")[r] for model, r in self._each()]),
        )
        self.log_prob: Floats = of_one_event(*self._log_probs)
        self._other_tasks: dict[tuple[int, int], bool] = {}
        # in the order of `evaluate`, so that a seed draws the same items
        self._order = np.asarray(pc.array_sort_indices(item_ids).to_numpy(), dtype=np.int64)

    def _each(self) -> Iterable[tuple[ModelPredictions, Ints]]:
        return zip(self.models, self.rows, strict=True)

    def _known_answers(self, merged: pa.Array) -> list[str]:
        for label, (model, rows) in zip(self.labels, self._each(), strict=True):
            if any(split_variant(str(name))[1] == RENAMED for name in model.values("variant", rows)):
                continue  # they are other names on purpose
            answers = model.strings("answer", rows)
            differ = pc.fill_null(pc.not_equal(answers, merged), fill_value=False)
            for k in np.flatnonzero(differ.to_numpy(zero_copy_only=False)).tolist():
                answer, expected = answers[k].as_py(), merged[k].as_py()
                if answer.casefold() != expected.casefold():
                    raise DataError(
                        f"{label!r} has the answer {answer!r} to the item {self.item_ids[k]!r}, expected"
                        f" {expected!r}",
                        remedy="compare predictions of these very items",
                    )
            merged = pc.coalesce(merged, answers)
        return list(merged.to_pylist())

    @cached_property
    def units(self) -> Units:
        """Units of resampling: novels if every item names one, else items."""
        book_ids = filled_column("book_id", self._book_ids, self.models, self.rows)
        return bootstrap.units(pd.Series(book_ids.to_pylist(), dtype="str"))

    @cached_property
    def candidates(self) -> list[pa.Array]:
        """What is known of the candidates that each model (m) had for the items (n,)."""
        return [model.candidates(rows) for model, rows in self._each()]

    def value_sets(self, k: int) -> dict[str, set[object]]:
        """Return the different values of the columns that name the variant of a model's predictions."""
        return self.models[k].value_sets(self.rows[k])

    @cached_property
    def protocols(self) -> list[str]:
        """The variant of the text that each model (m) read, and by which protocol it was counted."""
        rows = [
            {name: ", ".join(sorted(map(str, values))) or None for name, values in self.value_sets(k).items()}
            for k in range(self.m)
        ]
        return [f"{row['variant']}, {protocol_of(row)}" for row in rows]

    def tests(self, pairs: Ints, mask: Mask | None = None) -> AccuracyTests:
        """Test pairs of models (2, k) on all items or the items of `mask` (n,), at least one.

        p and the minimum detectable effect are NaN where two models read different variants of the text,
        predict different units or choose from other candidates.
        """
        order = self._order if mask is None else self._order[mask[self._order]]
        units, shares, size = self.units.subset(order), self.shares[:, order], max(1, _AT_ONCE // len(order))
        means = [right[order].mean(axis=0) for right in self.by_seed]
        variances = np.array([mean.var(ddof=1) / len(mean) if len(mean) > 1 else 0.0 for mean in means])
        blocks = []
        for start in range(0, max(1, pairs.shape[1]), size):
            a, b = block = pairs[:, start : start + size]
            seeds = Seeds(self._n_seeds[block].T, variances[block].T)
            scales = np.lcm(*self._n_seeds[block])
            steps = np.rint((shares[a] - shares[b]) * scales[:, None]).astype(np.int32)
            blocks.append(accuracy_tests(steps, units, self.sampling, seeds))
        names = AccuracyTests._fields
        joined: Any = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}
        tests = AccuracyTests(**joined | {"test": joined["test"].tolist()})
        other_task = [self._is_other_task(a, b) for a, b in pairs.T.tolist()]
        p, mde = (np.where(other_task, np.nan, values) for values in (tests.p, tests.mde))
        return tests._replace(p=p, mde=mde)

    def _is_other_task(self, a: int, b: int) -> bool:
        """Return whether two models do different tasks on the items; kept, as each selection asks again."""
        if (a, b) not in self._other_tasks:
            self._other_tasks[a, b] = other_task(self.value_sets(a), self.value_sets(b)) or other_candidates(
                self.candidates[a], self.candidates[b]
            )
        return self._other_tasks[a, b]

    def log_prob_difference(self, a: int, b: int) -> Floats:
        """Return ln p of one model minus that of another (n,).

        It is 0 where it is below the rounding of sums in single precision, and for two answers of
        probability 0.
        """
        first, second = self.log_prob[a], self.log_prob[b]
        size = np.maximum(np.minimum(np.abs(first), np.abs(second)), 1)
        with np.errstate(invalid="ignore"):
            apart = first - second
            return np.where((np.abs(apart) <= _ROUNDING * size) | (first == second), 0.0, apart)

    def log_prob_intervals(
        self, pairs: Ints, replicates: Floats | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return mean differences in ln p of pairs (2, k) on the items where both are known, and bounds.

        The bounds are NaN where an answer has probability 0 by one model alone, and where both models have
        several seeds, whose log-probabilities are not known one by one. Differences of `replicates`
        (resamples, m) of the models' means serve pairs whose log-probabilities are of the same items.
        """
        (a, b), units = pairs, self.units.subset(self._order)
        means, (usable, alike) = np.full(len(a), np.nan), np.zeros((2, len(a)), dtype=bool)
        for index, pair in enumerate(pairs.T):
            apart = self.log_prob_difference(*pair)
            means[index] = mean_of_known(apart)
            by_seed = bool((self._n_seeds[pair] > 1).all())
            usable[index] = not (by_seed or np.isnan(apart).all() or np.isinf(apart).any())
            alike[index] = (apart == 0).mean() > _MOSTLY
        drawn = np.full((self.sampling.resamples, len(a)), np.nan)
        if replicates is not None:
            none, infinite = np.isnan(self.log_prob), np.isneginf(self.log_prob)
            others = (none[a] != none[b]) | infinite[a] | infinite[b]
            shared: Mask = usable & ~alike & ~np.asarray(others.any(axis=1))
            drawn[:, shared] = replicates[:, a[shared]] - replicates[:, b[shared]]
            usable = usable & ~shared
        if usable.any():
            rows = np.stack([self.log_prob_difference(*pair) for pair in pairs.T[usable]])[:, self._order]
            drawn[:, usable], _ = bootstrap.resample(rows, rows[:0], units, *self.sampling[1:])
        bounds = bootstrap.intervals(drawn, self.sampling.level, units.number)
        return means, *bounds


def align(item_ids: pa.Array, models: Sequence[ModelPredictions]) -> Ints:
    """Return the row of each model (m) for each item, (m, all items); -1 where no answer is known."""
    rows = np.full((len(models), len(item_ids)), -1, dtype=np.int64)
    for model, of_model in zip(models, rows, strict=True):
        if (ids := model.table["item_id"].combine_chunks()).equals(item_ids):
            item = np.arange(len(item_ids))
        else:
            item = pc.fill_null(pc.index_in(ids, value_set=item_ids), -1).to_numpy()
        answered = np.flatnonzero((item >= 0) & pc.is_valid(model.table["correct"]).to_numpy())
        of_model[item[answered]] = answered
    return rows


def hint_without_common_items(first: Any, second: Any) -> str:
    """Return what to do where two columns of ids share no answered item; name an id of each if all differ."""
    remedy = "compare predictions of the same data set and split"
    if len(first) and len(second) and not pc.any(pc.is_in(first, value_set=second)).as_py():
        remedy += f", with the same ids; the first are {first[0].as_py()!r} and {second[0].as_py()!r}"
    return remedy


def mean_of_known(values: Floats) -> float:
    """Return the mean of the values that are not NaN; NaN of none, and of both infinities."""
    present = values[~np.isnan(values)]
    with np.errstate(invalid="ignore"):
        return float(present.mean()) if len(present) else math.nan
