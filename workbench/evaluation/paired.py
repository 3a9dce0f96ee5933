"""Paired tests of two models: p, an interval that agrees with it, and the smallest detectable difference.

All views and tables test pairs here, so a pair has one p and one interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.analysis.proportions import mcnemar, paired_interval
from workbench.evaluation import bootstrap
from workbench.evaluation.bootstrap import BootstrapSettings, Floats, Ints, Mask, Units
from workbench.evaluation.model_predictions import (
    is_uncorrected,
)
from workbench.items.ablation import split_variant
from workbench.render.numbers import fixed
from workbench.storage.cache import digest

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


def tests_of_pairs(
    shares: Floats, pairs: Ints, units: Units, sampling: BootstrapSettings, seeds: Seeds
) -> AccuracyTests:
    """Test pairs of models (2, k) by the shares of their replicates that are right on items (m, n)."""
    size, blocks = max(1, _AT_ONCE // shares.shape[1]), []
    for start in range(0, max(1, pairs.shape[1]), size):
        block = slice(start, start + size)
        (a, b), of_block = pairs[:, block], Seeds(seeds.number[block], seeds.variance[block])
        scales = np.lcm(*of_block.number.T)
        steps = np.rint((shares[a] - shares[b]) * scales[:, None]).astype(np.int32)
        blocks.append(accuracy_tests(steps, units, sampling, of_block))
    names = AccuracyTests._fields
    joined: Any = {name: np.concatenate([getattr(test, name) for test in blocks]) for name in names}
    return AccuracyTests(**joined | {"test": joined["test"].tolist()})


def log_prob_difference(first: Floats, second: Floats) -> Floats:
    """Return ln p of answers (n,) by one model minus that by another.

    It is 0 where it is below the rounding of sums in single precision, and for two answers of probability 0.
    """
    size = np.maximum(np.minimum(np.abs(first), np.abs(second)), 1)
    with np.errstate(invalid="ignore"):
        apart = first - second
        return np.where((np.abs(apart) <= _ROUNDING * size) | (first == second), 0.0, apart)


def log_prob_intervals(
    log_prob: Floats,
    pairs: Ints,
    units: Units,
    sampling: BootstrapSettings,
    *,
    by_seed: Mask,
    replicates: Floats | None = None,
) -> Floats:
    """Return mean differences in ln p (m, n) of pairs (2, k) on the items where both are known, and bounds.

    The bounds (3, k in all) are NaN where an answer has probability 0 by one model alone, and `by_seed` (k,):
    where both models have several seeds, whose log-probabilities are not known one by one. Differences of
    `replicates` (resamples, m) of the models' means serve pairs whose log-probabilities are of the same
    items.
    """
    a, b = pairs
    means, (usable, alike) = np.full(len(a), np.nan), np.zeros((2, len(a)), dtype=bool)
    for index, (first, second) in enumerate(pairs.T):
        apart = log_prob_difference(log_prob[first], log_prob[second])
        means[index] = mean_of_known(apart)
        usable[index] = not (by_seed[index] or np.isnan(apart).all() or np.isinf(apart).any())
        alike[index] = (apart == 0).mean() > _MOSTLY
    drawn = np.full((sampling.resamples, len(a)), np.nan)
    if replicates is not None:
        none, infinite = np.isnan(log_prob), np.isneginf(log_prob)
        others = (none[a] != none[b]) | infinite[a] | infinite[b]
        shared: Mask = usable & ~alike & ~np.asarray(others.any(axis=1))
        drawn[:, shared] = replicates[:, a[shared]] - replicates[:, b[shared]]
        usable = usable & ~shared
    if usable.any():
        rows = [log_prob_difference(log_prob[k], log_prob[j]) for k, j in pairs.T[usable]]
        drawn[:, usable], _ = bootstrap.resample(np.stack(rows), log_prob[:0], units, *sampling[1:])
    return np.stack([means, *bootstrap.intervals(drawn, sampling.level, units.number)])


def other_task(a: Mapping[str, set[Any]], b: Mapping[str, set[Any]]) -> bool:
    """Return whether two models read different texts or predict different units, so not comparable.

    What a model sees of a text, the query alone for instance, is not another text.
    """
    text_a, text_b = ({split_variant(str(variant))[0] for variant in each["variant"]} for each in (a, b))
    return text_a != text_b or a["unit"] != b["unit"]


def other_candidates(a: pa.Array, b: pa.Array) -> bool:
    """Return whether one of the items has other candidates for one model than for another.

    Both (n,) are digests of the candidates; null where they are not known.
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


def mean_of_known(values: Floats) -> float:
    """Return the mean of the values that are not NaN; NaN of none, and of both infinities."""
    present = values[~np.isnan(values)]
    with np.errstate(invalid="ignore"):
        return float(present.mean()) if len(present) else math.nan
