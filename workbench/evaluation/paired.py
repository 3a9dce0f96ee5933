"""Models lined up by item, and paired tests of any two: the one place that aligns and tests pairs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.analysis.proportions import mcnemar
from workbench.evaluation import bootstrap, comparability
from workbench.evaluation.bootstrap import BootstrapSettings, Floats, Ints, Mask, Units
from workbench.evaluation.model_predictions import ModelPredictions, filled_column, labels, protocol_of
from workbench.items.ablation import SUBSTITUTIONS, split_variant
from workbench.render.numbers import fixed
from workbench.storage.errors import DataError

MCNEMAR = "exact McNemar test"
POWER = 0.8
"""Probability with which a test finds a difference of the minimum detectable effect (Cohen 1988)."""

_AT_ONCE = 4_000_000  # outcomes of items that are compared at once


class AccuracyTests(NamedTuple):
    """Paired tests of the accuracies of k pairs of models.

    `only_a` and `only_b` count the items that one of the two got right (of replicates: with more of its
    seeds), `difference` is the accuracy of the first minus that of the second, `low` and `high` its
    percentile interval, `p` two-sided, `test` the name of the test, and `mde` the minimum detectable effect:
    the least true difference that the test finds with a power of 80 % at the level of the interval (one test,
    not corrected). Each has k values.
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
        Items that only one of two models gets right (rounded), and all items that both predicted.
    level : float, default 0.95
        1 - the level of significance, which is two-sided.
    power : float, default 0.8
        Probability of a significant difference in the right direction.

    Returns
    -------
    array of float, one or more dimensions
        Between 0 and 1. NaN where so few items are discordant that none of their splits is significant.

    Notes
    -----
    As the test itself does, this takes the number of discordant items m as it is. The test is significant
    from c items of one side on; of m items, c or more fall to one side with probability `power` where each
    does with p = I^-1(c, m - c + 1; power), the inverse of the regularised incomplete beta function, so the
    difference is (2 p - 1) m / n. The normal approximation (Miettinen 1968; Connor 1987),
    (z_a + z_b) sqrt(m) / n, is a little less, as the exact test is conservative.
    """
    from scipy.special import betaincinv  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    m, n = np.broadcast_arrays(np.rint(np.atleast_1d(np.asarray(discordant, float))), np.asarray(n, float))
    critical, effect = _critical_counts(m, 1 - level), np.full(m.shape, np.nan)
    possible = critical <= m
    m, n, critical = m[possible], n[possible], critical[possible]
    effect[possible] = (2 * betaincinv(critical, m - critical + 1, power) - 1) * m / n
    return effect


def mcnemar_power(effect: float, discordant: float, n: int, *, level: float = 0.95) -> float:
    """Return the probability that McNemar's exact test finds a difference in accuracy, `effect`.

    The other parameters are those of :func:`minimum_detectable_effect`, which is the inverse.
    """
    from scipy.special import betainc  # noqa: PLC0415 - slow

    m = np.rint(np.atleast_1d(float(discordant)))
    [critical] = _critical_counts(m, 1 - level)
    if critical > m[0]:
        return 0.0
    return float(betainc(critical, m[0] - critical + 1, min(1.0, (1 + abs(effect) * n / m[0]) / 2)))


def _critical_counts(m: Floats, alpha: float) -> Floats:
    """Return how many of m discordant items (k,) must be on one side for p <= alpha; m + 1: none."""
    from scipy.special import bdtr, bdtrik  # noqa: PLC0415 - slow

    fewer = np.full(m.shape, -1.0)  # items of the other side
    possible = (m > 0) & (2.0 ** (1 - m) <= alpha)
    fewer[possible] = np.floor(bdtrik(alpha / 2, m[possible], 0.5)) + 1  # from above, whatever was rounded
    for _ in range(2):
        fewer -= possible & (2 * bdtr(fewer, m.astype(np.int64), 0.5) > alpha)
    return np.asarray(m - fewer, dtype=np.float64)


def describe_mde(difference: float, mde: float) -> str:
    """Return a note on a difference below the minimum detectable effect; "" for other differences."""
    if not abs(difference) < mde:
        return ""
    return (
        f"The difference is below the minimum detectable effect of {fixed(100 * mde, 1)} points: a true"
        f" difference of its size is missed in more than {100 * (1 - POWER):.0f} % of such comparisons."
    )


def accuracy_tests(
    steps: npt.NDArray[np.integer[Any]],
    units: Units,
    sampling: BootstrapSettings,
    scale: Sequence[int] | Ints = (1,),
) -> AccuracyTests:
    """Test the differences between the accuracies of k pairs of models on the same n items.

    Every view of two models has its interval and p from here, so a pair has the same in each.

    Parameters
    ----------
    steps : array of int (k, n)
        What the first model of a pair gets right of an item minus what the second does, times `scale`.
    scale : sequence of int (k,)
        Least common multiple of the pair's numbers of replicates; 1 for single runs.

    Notes
    -----
    Of single runs whose items are resampled, p is of the exact McNemar test, and a bootstrap replicate is
    three counts (only one right, only the other, neither), drawn from the multinomial distribution. Otherwise
    p is of the exact sign-flip test of units, and whole units are drawn.

    The minimum detectable effect is that of McNemar's test, else (z_a + z_b) times the bootstrap's standard
    error (Bloom 1995), which has in it how much alike the items of one novel are; with few novels it is too
    small, as the interval is. It is NaN where no outcome of the test could be significant.
    """
    n, scales = steps.shape[1], np.broadcast_to(np.asarray(scale), len(steps))
    only_a, only_b = (steps > 0).sum(axis=1), (steps < 0).sum(axis=1)
    counted = (scales == 1) & (units.by == "item")
    tests = np.where(counted, MCNEMAR, f"paired sign-flip test by {units.by}, exact")
    p, replicates = mcnemar(only_a, only_b), np.empty((sampling.resamples, len(steps)))
    for pair in np.flatnonzero(counted):
        shares = np.array([only_a[pair], only_b[pair], n - only_a[pair] - only_b[pair]]) / n
        counts = np.random.default_rng(sampling.seed).multinomial(n, shares, sampling.resamples)
        replicates[:, pair] = (counts[:, 0] - counts[:, 1]) / n
    if not counted.all():
        flipped = steps[~counted]
        sums = np.rint([units.sums(row) for row in flipped]).astype(np.int64)
        p[~counted], _ = bootstrap.sign_flips(sums, *sampling[1:])
        shares = flipped / scales[~counted][:, None]
        replicates[:, ~counted], _ = bootstrap.resample(shares, shares[:0], units, *sampling[1:])
    low, high = bootstrap.intervals(replicates, sampling.level, units.number)
    mde = minimum_detectable_effect(only_a + only_b, n, level=sampling.level)
    if not counted.all():
        z, errors = NormalDist().inv_cdf, replicates[:, ~counted].std(axis=0)
        possible = (errors > 0) & (2.0 ** (1 - units.number) <= 1 - sampling.level)
        mde[~counted] = np.where(possible, (z((1 + sampling.level) / 2) + z(POWER)) * errors, np.nan)
    differences = steps.sum(axis=1) / (n * scales)
    return AccuracyTests(only_a, only_b, differences, low, high, p, tests.tolist(), mde)


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
        If two have different answers to one item, unless one of the items has other words in place of some
        (:data:`workbench.items.ablation.SUBSTITUTIONS`).
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
        self.log_prob: Floats = comparability.of_one_event(*self._log_probs)
        # in the order of `evaluate`, so that a seed draws the same items
        self._order = np.asarray(pc.array_sort_indices(item_ids).to_numpy(), dtype=np.int64)

    def _each(self) -> Iterable[tuple[ModelPredictions, Ints]]:
        return zip(self.models, self.rows, strict=True)

    def _known_answers(self, merged: pa.Array) -> list[str]:
        for label, (model, rows) in zip(self.labels, self._each(), strict=True):
            if any(split_variant(str(name))[1] in SUBSTITUTIONS for name in model.values("variant", rows)):
                continue  # they are other words on purpose
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
        units, scale = self.units.subset(order), np.lcm(*self._n_seeds[pairs])
        shares, size = self.shares[:, order], max(1, _AT_ONCE // len(order))
        blocks = []
        for start in range(0, max(1, pairs.shape[1]), size):
            (a, b), scales = pairs[:, start : start + size], scale[start : start + size]
            steps = np.rint((shares[a] - shares[b]) * scales[:, None]).astype(np.int32)
            blocks.append(accuracy_tests(steps, units, self.sampling, scales))
        names = AccuracyTests._fields
        joined: Any = {name: np.concatenate([getattr(block, name) for block in blocks]) for name in names}
        tests = AccuracyTests(**joined | {"test": joined["test"].tolist()})
        sets = {k: self.value_sets(k) for k in np.unique(pairs).tolist()}
        other_task = [
            comparability.other_task(sets[a], sets[b])
            or comparability.other_candidates(self.candidates[a], self.candidates[b])
            for a, b in pairs.T.tolist()
        ]
        p, mde = (np.where(other_task, np.nan, values) for values in (tests.p, tests.mde))
        return tests._replace(p=p, mde=mde)

    def log_prob_difference(self, a: int, b: int) -> Floats:
        """Return ln p of one model minus that of another (n,); two answers of probability 0 do not differ."""
        first, second = self.log_prob[a], self.log_prob[b]
        with np.errstate(invalid="ignore"):
            return np.where(np.isneginf(first) & np.isneginf(second), 0.0, first - second)

    def log_prob_intervals(
        self, pairs: Ints, replicates: Floats | None = None
    ) -> tuple[Floats, Floats, Floats]:
        """Return mean differences in ln p of pairs (2, k) on the items where both are known, and bounds.

        The bounds are NaN where an answer has probability 0 by one model alone. Differences of `replicates`
        (resamples, m) of the models' means serve pairs whose log-probabilities are of the same items.
        """
        (a, b), units = pairs, self.units.subset(self._order)
        means, usable = np.full(len(a), np.nan), np.zeros(len(a), dtype=bool)
        for index, pair in enumerate(pairs.T):
            apart = self.log_prob_difference(*pair)
            means[index] = mean_of_known(apart)
            usable[index] = not (np.isnan(apart).all() or np.isinf(apart).any())
        drawn = np.full((self.sampling.resamples, len(a)), np.nan)
        if replicates is not None:
            none, infinite = np.isnan(self.log_prob), np.isneginf(self.log_prob)
            others = (none[a] != none[b]) | infinite[a] | infinite[b]
            shared: Mask = usable & ~np.asarray(others.any(axis=1))
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
