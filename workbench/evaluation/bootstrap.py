"""Resampling over units that may hold several items: items, or whole novels.

Units are drawn once and every column is measured on the same draws, so the replicates of a difference are the
differences of the models' replicates. scipy.stats.bootstrap draws items only, one statistic at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from threading import Lock
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.predictions.signature import resampling_unit
from workbench.storage.errors import DataError

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FEW = 20
"""Novels below which intervals from resampled novels are known to be too narrow."""
FEW_AT_LOW_ACCURACY, LOW_ACCURACY = 50, 0.1
"""The same, where a model is right on less than this share of the items."""

_BLOCK = 1_500_000  # weights held at a time
_KEPT = 16_000_000  # weights kept of all draws, 64 MB
_DRAWS: dict[tuple[int, int, int], list[Singles]] = {}
_LOCK = Lock()
_SIGNS = 2_000_000  # signs held at a time
_EXACT = 16  # units up to which every choice of signs is tried: 65,536 of them
_EXACT_INTERVAL = 14  # the same for an interval, where every choice needs memory
_SPREAD = 2  # units from which there is a spread
_SPARE = 48  # items on each side beyond those among which a median is expected


class BootstrapSettings(NamedTuple):
    """How intervals are made: confidence level, bootstrap replicates, seed."""

    level: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def checked(self) -> BootstrapSettings:
        """Return these settings; DataError if the level or the number of replicates is not valid."""
        is_whole = int(self.resamples) == self.resamples
        if not (0 < self.level < 1 and is_whole and self.resamples >= 1):
            raise DataError(
                "expected a confidence level between 0 and 1 and a positive number of resamples, "
                f"got {self.level} and {self.resamples}",
                hint="use level=0.95, resamples=2000",
            )
        return self


class Units(NamedTuple):
    """Units of resampling: `codes` (n,) has the unit of each item, from 0 to `number` - 1."""

    codes: Ints
    number: int
    by: Literal["novel", "set", "item"]

    def subset(self, rows: Mask | Ints) -> Units:
        """Return the units of a subset of the items, in the order of `rows`."""
        codes = self.codes[rows]
        if self.by == "item":
            return Units(np.arange(len(codes)), len(codes), "item")
        units, codes = np.unique(codes, return_inverse=True)
        if self.by == "set" and len(units) == 1:
            return Units(np.arange(len(codes)), len(codes), "item")
        return Units(codes.astype(np.int64), len(units), self.by)

    def sums(self, values: npt.ArrayLike) -> Floats:
        """Return the sum over the items of each unit."""
        return np.bincount(self.codes, np.asarray(values, dtype=float), self.number).astype(np.float64)


def units(book_id: pd.Series[Any]) -> Units:
    """Return novels, or sets of pairs, as units where every item names one, else items."""
    if (unit := resampling_unit(book_id)) != "item":
        codes, books = pd.factorize(book_id, sort=True)
        return Units(codes.astype(np.int64), len(books), unit)
    return Units(np.arange(len(book_id), dtype=np.int64), len(book_id), "item")


def resample(
    means: Floats, medians: Floats, units: Units, resamples: int, seed: int
) -> tuple[Floats, Floats]:
    """Return bootstrap replicates of means and medians over items, whole units drawn with replacement.

    Parameters
    ----------
    means, medians : array (k, n), array (m, n)
        Rows of the n items. NaN: no value; minus infinity makes each mean that holds it minus infinity.

    Returns
    -------
    means, medians : array (resamples, k), array (resamples, m)
        NaN where a replicate holds no value.
    """
    return resample_all([(means, medians)], units, resamples, seed)[0]


def resample_all(
    rows: Sequence[tuple[Floats, Floats]], units: Units, resamples: int, seed: int
) -> list[tuple[Floats, Floats]]:
    """Return the results of `resample` for several pairs of means and medians, equal to the last bit.

    The units are drawn once for all of them.
    """
    statistics = [_Statistics(*pair, units) for pair in rows]
    for drawn in _weights(units.number, resamples, seed):
        weights = drawn.astype(np.float64)
        for each in statistics:
            each.add(drawn, weights)
    return [(np.vstack(each.means), np.vstack(each.medians)) for each in statistics]


class _Statistics:
    """The replicates of means (k, n) and medians (m, n), a block after the other."""

    def __init__(self, means: Floats, medians: Floats, units: Units) -> None:
        none, infinite = np.isnan(means), np.isneginf(means)
        # rows often lack the same values
        masks: dict[bytes, Mask] = {}
        keys = [mask.tobytes() for mask in np.vstack([~none, ~np.isnan(medians)])]
        for key in keys:
            masks.setdefault(key, np.frombuffer(key, dtype=bool))
        self._which = np.array([[*masks].index(key) for key in keys], dtype=np.int64)
        self._middles = [_Median(row, units) for row in medians]
        self._infinite = np.flatnonzero(infinite.any(axis=1))
        rows = [*np.where(none | infinite, 0.0, means), *masks.values(), *infinite[self._infinite]]
        lower = (middle.lower for middle in self._middles)
        self._columns = np.column_stack([*(units.sums(row) for row in rows), *lower])
        self._k, self._ends = len(means), np.cumsum([len(means), len(masks), len(self._infinite)])
        self.means, self.medians = [np.empty((0, len(means)))], [np.empty((0, len(medians)))]

    def add(self, drawn: Singles, weights: Floats) -> None:
        """Add the replicates of a block of draws (r, units), in single and in double precision."""
        total, counts, lost, lower = np.split(weights @ self._columns, self._ends, axis=1)
        n, k = counts[:, self._which], self._k
        block = np.divide(total, n[:, :k], out=np.full(total.shape, np.nan), where=n[:, :k] > 0)
        for index, column in enumerate(self._infinite):
            block[lost[:, index] > 0, column] = -np.inf
        self.means.append(block)
        if self._middles:
            by_unit = np.ascontiguousarray(drawn.T)  # then the weights of an item lie together
            below, size = (np.rint(values).astype(np.int64) for values in (lower, n[:, k:]))
            columns = [m.resample(by_unit, below[:, j], size[:, j]) for j, m in enumerate(self._middles)]
            self.medians.append(np.column_stack(columns))


def _weights(number: int, resamples: int, seed: int) -> Iterable[Singles]:
    """Return how often each unit is drawn, (a block of resamples, units) at a time; the last are cached."""
    key = (number, resamples, seed)
    if number * resamples > _KEPT:
        return _draw_weights(*key)
    with _LOCK:
        blocks = _DRAWS.get(key)
    blocks = list(_draw_weights(*key)) if blocks is None else blocks
    with _LOCK:
        _DRAWS.pop(key, None)
        _DRAWS[key] = blocks  # the last is the one that was used last
        while sum(n * rows for n, rows, _ in _DRAWS) > _KEPT:
            del _DRAWS[next(iter(_DRAWS))]
    return blocks


def _draw_weights(number: int, resamples: int, seed: int) -> Iterator[Singles]:
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // max(number, 1))
    for start in range(0, resamples, block):
        weights = np.empty((min(block, resamples - start), number), dtype=np.float32)
        for row in weights:
            row[:] = np.bincount(rng.integers(0, number, size=number, dtype=np.int32), minlength=number)
        weights.flags.writeable = False
        yield weights


class _Median:
    """Weighted medians of one row: looking only at items near its middle takes a 60th of the time."""

    def __init__(self, values: Floats, units: Units) -> None:
        present = np.flatnonzero(~np.isnan(values))
        order = present[np.argsort(values[present], kind="stable")]
        self.values, self.codes = values[order], units.codes[order]
        self.half = len(order) // 2
        self.lower = np.bincount(self.codes[: self.half], minlength=units.number)

    def resample(self, drawn: Singles, below: Ints, n: Ints) -> Floats:
        """Return the medians (r,) of `drawn` (units, r): of `n` values each, `below` in the lower half."""
        medians = np.full(drawn.shape[1], np.nan)
        remaining = np.flatnonzero(n > 0)
        reach = _SPARE + int(1.25 * np.abs(below - n // 2).max(initial=0))
        while len(remaining):
            low, high = max(0, self.half - reach), min(len(self.values), self.half + reach)
            near = np.take(drawn, self.codes[low:high], axis=0)
            sums = np.cumsum(near if len(remaining) == len(medians) else near[:, remaining], axis=0)
            before = below[remaining] - (sums[self.half - low - 1] if self.half > low else 0)
            middle = [(n[remaining] - 1) // 2 - before, n[remaining] // 2 - before]  # places among `sums`
            inside = (middle[0] >= 0) & (middle[1] < sums[-1])
            indices = [np.count_nonzero(sums <= k.astype(np.float32), axis=0)[inside] for k in middle]
            medians[remaining[inside]] = (self.values[low + indices[0]] + self.values[low + indices[1]]) / 2
            remaining, reach = remaining[~inside], 2 * reach
        return medians


def intervals(columns: Floats, level: float, number: int) -> tuple[Floats, Floats]:
    """Return the percentile intervals, (k,) each (Efron 1979), of bootstrap replicates of `number` units.

    Of the replicates (resamples, k), NaN does not count. NaN for a single unit, and where none counts.
    """
    if number < _SPREAD:
        low, high = np.full((2, columns.shape[1]), np.nan)
        return low, high
    # order statistics, outwards: between infinite replicates there is nothing to interpolate
    last = np.maximum((~np.isnan(columns)).sum(axis=0) - 1, 0)
    bounds = np.floor(last * ((1 - level) / 2)), np.ceil(last * ((1 + level) / 2))
    columns = np.sort(columns, axis=0)  # NaN last
    low, high = (np.take_along_axis(columns, k.astype(np.int64)[None], 0)[0] for k in bounds)
    return low, high


def sign_flip(
    differences: npt.NDArray[Any], units: Units, resamples: int, seed: int
) -> tuple[float, bool, bool]:
    """Test whether paired differences of items (n,) are symmetric about 0, as `sign_flips` does.

    Return p, whether it is exact (every choice of signs counts), and whether it is only an upper bound.
    """
    sums = units.sums(differences)
    if exact := np.issubdtype(differences.dtype, np.integer):
        sums = np.rint(sums).astype(np.int64)
    sums = sums[sums != 0]
    p, is_bound = sign_flips(sums[None], resamples, seed)
    return float(p[0]), bool(exact or len(sums) <= _EXACT), bool(is_bound[0])


def sign_flips(sums: Floats | Ints, resamples: int, seed: int) -> tuple[Floats, Mask]:
    """Test whether differences are symmetric about 0, the signs of whole units being flipped.

    The statistic is the mean over items (Fisher 1935, section 21). The test is exact for whole numbers, and
    for up to 16 units; otherwise signs are chosen at random. scipy.stats.permutation_test with "samples" does
    that for one pair in 30 times the time, and has no exact test of more units.

    Parameters
    ----------
    sums : array (k, units)
        Finite sums of the differences of each unit's items, for each pair of models.
    resamples, seed : int
        Random choices of signs where more than 16 units tell a pair apart, the same for all pairs.

    Returns
    -------
    p : array of float (k,)
        Two-sided: of all choices of signs, or (1 + as extreme) / (1 + resamples).
    is_bound : array of bool (k,)
        Whether no random choice was as extreme, so that the exact p is lower.
    """
    p, is_bound = np.ones(len(sums)), np.zeros(len(sums), dtype=bool)
    number = (sums != 0).sum(axis=1)  # the other units change nothing
    if np.issubdtype(sums.dtype, np.integer):
        for row in np.flatnonzero(number):
            p[row] = _exact_sign_flip(sums[row][sums[row] != 0])
        return p, is_bound
    size = np.abs(sums).sum(axis=1)
    observed = np.abs(sums.sum(axis=1)) - 1e-9 * size  # rounding must not break ties
    for row in np.flatnonzero((number > 0) & (number <= _EXACT)):
        choices = np.arange(2 ** number[row])[:, None] >> np.arange(number[row])
        p[row] = (np.abs((2.0 * (choices & 1) - 1) @ sums[row][sums[row] != 0]) >= observed[row]).mean()
    many = np.flatnonzero(number > _EXACT)
    count = np.zeros(len(many), dtype=np.int64)
    for positive in _random_subsets(sums.shape[1], resamples if len(many) else 0, seed):
        count += (np.abs((2 * positive - 1) @ sums[many].T) >= observed[many]).sum(axis=0)
    p[many], is_bound[many] = (1 + count) / (1 + resamples), count == 0
    return p, is_bound


def sign_flip_intervals(
    sums: Floats | Ints, sizes: Floats, p: Floats, sampling: BootstrapSettings
) -> tuple[Floats, Floats]:
    """Return the differences per item that the sign-flip test does not reject, (k,) each.

    A difference d is tested by flipping the signs of ``sums - d * sizes``. A choice of signs is as extreme as
    the observed one exactly where d lies between the mean over the flipped units and that over the others, so
    the bounds are order statistics of these means (Hartigan 1969): exact for up to 14 units, else of random
    choices of signs.

    Parameters
    ----------
    sums : array (k, units)
        Sum of the differences of each unit's items, for each pair of models.
    sizes : array (units,)
        Items of each unit.
    p : array (k,)
        Of the test of d = 0: an interval has 0 exactly where p is above 1 - level.

    Returns
    -------
    low, high : array of float (k,)
        Infinite where so few units differ that no outcome is significant.
    """
    exact = sums.shape[1] <= _EXACT_INTERVAL
    number = 2 ** (sums.shape[1] - 1) - 1 if exact else sampling.resamples
    rank = int((1 - sampling.level) * (number + 1))  # of the choices, the observed one being the first
    bounds = np.empty((2, len(sums)))
    width = max(1, _SIGNS // (number + 1))
    for start in range(0, len(sums), width):
        columns = np.column_stack([sizes, sums[start : start + width].T])
        total, means = columns.sum(axis=0), np.full((2, number + 1, columns.shape[1] - 1), np.nan)
        filled = 1  # the first choice flips no unit
        subsets = _all_subsets(sums.shape[1]) if exact else _random_subsets(len(sizes), number, sampling.seed)
        for subset in subsets:
            flipped = subset @ columns
            with np.errstate(invalid="ignore"):
                for mean, sums_of_side in zip(means, (flipped, total - flipped), strict=True):
                    mean[filled : filled + len(subset)] = sums_of_side[:, 1:] / sums_of_side[:, :1]
            filled += len(subset)
        significant = p[start : start + width] <= 1 - sampling.level
        for row, (sign, choose) in enumerate(((1, np.fmin), (-1, np.fmax))):
            ends = sign * choose(*means)
            ends[np.isnan(means).any(axis=0)] = -np.inf  # all units on one side
            not_above = (ends <= 0).sum(axis=0)
            above = significant & (sign * total[1:] > 0)
            index = np.where(above, np.maximum(rank, not_above), np.minimum(rank, not_above - 1))
            index = np.minimum(index, number)
            ordered = np.partition(ends, np.unique(index), axis=0)
            bounds[row, start : start + width] = sign * np.take_along_axis(ordered, index[None], 0)[0]
    return bounds[0], bounds[1]


def _random_subsets(number: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield random subsets of units, (a block of resamples, units) at a time, as 0 and 1."""
    rng, block = np.random.default_rng(seed), max(1, _SIGNS // max(number, 1))
    for start in range(0, resamples, block):
        shape = (min(block, resamples - start), -(-number // 8))
        bits = np.unpackbits(rng.integers(0, 256, size=shape, dtype=np.uint8), axis=1)
        yield bits[:, :number].astype(np.float64)


def _all_subsets(number: int) -> Iterator[Floats]:
    """Yield all subsets of units without the last unit but the empty one, as 0 and 1, in one block."""
    subsets = np.arange(1, 2 ** (number - 1))[:, None] >> np.arange(number)
    yield (subsets & 1).astype(np.float64)


def _exact_sign_flip(sums: Ints) -> float:
    """Return the share of sign assignments with a sum at least as far from 0; `sums` (units,) has no 0.

    The k units of one size that are positive follow a binomial distribution (Pagano and Tritchler 1983).
    """
    sizes, counts = np.unique(np.abs(sums), return_counts=True)
    sizes //= np.gcd.reduce(sizes)
    ratio = int(np.abs(sums).sum()) // int(sizes @ counts)
    shares = np.ones(1)  # of the choices, by the sum of the positive units
    for index in np.argsort(-counts, kind="stable"):
        size, binomial = int(sizes[index]), _binomial(int(counts[index]))
        wider = np.zeros(len(shares) + size * (len(binomial) - 1))
        if len(shares) == 1:
            wider[::size] = binomial
        else:
            for k, share in enumerate(binomial):
                wider[size * k : size * k + len(shares)] += share * shares
        shares = wider
    distance = np.abs(2 * np.arange(len(shares)) - (len(shares) - 1))
    extreme = distance >= abs(int(sums.sum())) // ratio
    return 1.0 if extreme.all() else min(1.0, float(shares[extreme].sum()))


@cache
def _binomial(n: int) -> Floats:
    """Return the probability of each number of heads in `n` throws of a coin."""
    from scipy.special import gammaln  # type: ignore[import-untyped]  # noqa: PLC0415 - slow to import

    k = np.arange(n + 1)
    log_p = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) - n * np.log(2)
    return np.asarray(np.exp(log_p), dtype=np.float64)
