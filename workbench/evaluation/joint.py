"""Resampling and tests of many models at once: one draw of items or novels serves all models and pairs.

So the replicates of a difference are the differences of the models' replicates: they are paired. What is
drawn is what :mod:`workbench.evaluation.bootstrap` draws by the same seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.evaluation import bootstrap as resampling
from workbench.evaluation.bootstrap import Floats, Units

Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_BLOCK = 1_500_000  # weights held at a time
_EXACT = 16  # novels up to which every choice of signs is tried, as `resampling.sign_flip` does
_LEAST = 2
_SPARE = 48  # items on each side beyond those among which the median is expected


class Replicates(NamedTuple):
    """Bootstrap replicates of the models' measures.

    Attributes
    ----------
    accuracy, log_prob, median_rank : array (resamples, m)
        Fraction right, mean ln p and median rank; NaN where a model has no values, minus infinity
        where an answer that was drawn has probability 0.
    extra : array (resamples, k)
        Means of further columns.
    """

    accuracy: Floats
    log_prob: Floats
    median_rank: Floats
    extra: Floats


def weights(number: int, resamples: int, seed: int) -> Iterator[Singles]:
    """Yield how often each unit is drawn, (some resamples, units) at a time."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // max(number, 1))
    for start in range(0, resamples, block):
        found = np.empty((min(block, resamples - start), number), dtype=np.float32)
        for row in found:  # the same stream as for 64 bits, in half the room
            row[:] = np.bincount(rng.integers(0, number, size=number, dtype=np.int32), minlength=number)
        yield found


def _ahead(blocks: Iterator[Singles]) -> Iterator[Singles]:
    """Yield the same, the next one being made while one is worked on."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = pool.submit(next, blocks, None)
            yield block


def replicates(  # noqa: PLR0917 - what is resampled, and how
    correct: Mask, log_prob: Floats, rank: Floats, extra: Floats, of: Units, resamples: int, seed: int
) -> Replicates:
    """Resample the measures of all models together.

    Parameters
    ----------
    correct, log_prob, rank : arrays (m, n)
        Log-probabilities and ranks are NaN where there is none.
    extra : array (k, n)
        Columns whose means are wanted too; NaN: no value.
    of : Units
        Units of the n items.
    resamples, seed : int
    """
    means = _Means(np.vstack([correct.astype(float), log_prob, extra]), of)
    medians = [_Median(row, of) for row in rank]
    ranked, which = _different(~np.isnan(rank))
    parts = [*(median.lower for median in medians), *(unit_sums(row, of) for row in ranked)]
    columns = np.hstack([means.columns, np.column_stack(parts).astype(np.float32)])
    wide, m = means.columns.shape[1], len(correct)
    found, middle = [], []
    for drawn in _ahead(weights(of.number, resamples, seed)):
        total = (drawn @ columns).astype(np.float64)
        found.append(means.of(total[:, :wide]))
        counts = np.rint(total[:, wide:]).astype(np.int64)
        units_first = np.ascontiguousarray(drawn.T)  # then the weights of an item lie together
        middle.append(
            [
                median.of(units_first, counts[:, k], counts[:, m + which[k]])
                for k, median in enumerate(medians)
            ]
        )
    whole = np.vstack(found)
    return Replicates(whole[:, :m], whole[:, m : 2 * m], np.hstack(middle).T, whole[:, 2 * m :])


def _different(masks: Mask) -> tuple[list[Mask], list[int]]:
    """Return the different rows, and which of them each row is."""
    rows = {row.tobytes(): row for row in masks}
    places = {key: place for place, key in enumerate(rows)}
    return list(rows.values()), [places[row.tobytes()] for row in masks]


class _Means:
    """Means over items of columns that may lack values: sums and counts of the units."""

    def __init__(self, values: Floats, of: Units) -> None:
        none, lost = np.isnan(values), np.isneginf(values)
        finite = ~(none | lost)
        with np.errstate(invalid="ignore"):
            count = finite.sum(axis=1)
            self.about = np.where(finite, values, 0).sum(axis=1) / np.maximum(count, 1)
        self.about[(values == np.round(values)).all(axis=1)] = 0  # whole numbers are summed without an error
        self.k = len(values)
        patterns, self.pattern = _different(~none)
        self.holed = np.flatnonzero(lost.any(axis=1))
        above = np.where(finite, values - self.about[:, None], 0)
        parts = [*above, *patterns, *lost[self.holed]]
        self.columns = np.column_stack([unit_sums(part, of) for part in parts]).astype(np.float32)
        self.n_patterns = len(patterns)

    def of(self, total: Floats) -> Floats:
        """Return the means of resamples from the weighted sums of `columns`."""
        k, n = self.k, self.n_patterns
        count = total[:, k : k + n][:, self.pattern]
        found: Floats = np.full(count.shape, np.nan)
        np.divide(total[:, :k], count, out=found, where=count > 0)
        found += self.about
        for place, column in enumerate(self.holed):
            found[total[:, k + n + place] > 0, column] = -np.inf
        return found


class _Median:
    """Weighted medians of one column: only items near its middle are looked at."""

    def __init__(self, values: Floats, of: Units) -> None:
        some = np.flatnonzero(~np.isnan(values))
        order = some[np.argsort(values[some], kind="stable")]
        self.values, self.codes = values[order], of.codes[order]
        self.half = len(order) // 2
        self.lower = np.bincount(self.codes[: self.half], minlength=of.number)

    def of(self, drawn: Singles, below: Ints, n: Ints) -> Floats:
        """Return the medians of resamples, shape (r,).

        Parameters
        ----------
        drawn : array (units, r)
        below, n : arrays (r,)
            How many of the drawn items are in the lower half of the whole (see `lower`), and how many
            have a value.
        """
        found = np.full(drawn.shape[1], np.nan)
        left = np.flatnonzero(n > 0)
        reach = _SPARE + int(1.25 * np.abs(below - n // 2).max(initial=0))
        while len(left):
            low, high = max(0, self.half - reach), min(len(self.values), self.half + reach)
            near = np.take(drawn, self.codes[low:high], axis=0)
            sums = np.cumsum(near if len(left) == len(found) else near[:, left], axis=0)
            before = below[left] - (sums[self.half - low - 1] if self.half > low else 0)
            wanted = [(n[left] - 1) // 2 - before, n[left] // 2 - before]  # places among `sums`
            inside = (wanted[0] >= 0) & (wanted[1] < sums[-1])
            places = [np.count_nonzero(sums <= place.astype(np.float32), axis=0)[inside] for place in wanted]
            found[left[inside]] = (self.values[low + places[0]] + self.values[low + places[1]]) / 2
            left, reach = left[~inside], 2 * reach
        return found


def unit_sums(values: npt.NDArray[np.generic], of: Units) -> Floats:
    """Return the sum over the items of each unit."""
    if of.by == "item":
        return values.astype(np.float64)
    return np.bincount(of.codes, values.astype(np.float64), of.number).astype(np.float64)


def intervals(found: Floats, level: float, number: int) -> tuple[Floats, Floats]:
    """Return the percentile intervals of columns; see :func:`workbench.evaluation.bootstrap.interval`."""
    low, high = np.full(found.shape[1], np.nan), np.full(found.shape[1], np.nan)
    whole = ~np.isnan(found).any(axis=0)
    if number >= _LEAST and whole.any():
        low[whole] = np.quantile(found[:, whole], (1 - level) / 2, axis=0, method="lower")
        high[whole] = np.quantile(found[:, whole], (1 + level) / 2, axis=0, method="higher")
    for place in np.flatnonzero(~whole):
        low[place], high[place] = resampling.interval(found[:, place], level, number)
    return low, high


def wilson(count: Floats, n: Floats, level: float) -> tuple[Floats, Floats]:
    """Return Wilson's score interval of shares (Wilson 1927), NaN where `n` is 0; any shape."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.asarray(count, dtype=float) / n
        middle = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        low, high = np.clip(middle - half, 0, 1), np.clip(middle + half, 0, 1)
        none, all_ = (np.asarray(count) == 0) & (n > 0), (np.asarray(count) == n) & (n > 0)
        return np.where(none, 0, low), np.where(all_, 1, high)


def mcnemar(only_a: Ints, only_b: Ints) -> Floats:
    """Return the two-sided p of the exact test (McNemar 1947) of each pair of counts, shape (k,).

    It is twice the probability that a fair coin shows the rarer side so rarely or more so, at most 1.
    """
    n, least = only_a + only_b, np.minimum(only_a, only_b)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n.max(initial=0) + 1)))])  # ln k!
    found = np.ones(len(n))
    for place, (total, rarer) in enumerate(zip(n.tolist(), least.tolist(), strict=True)):
        if total > 2 * rarer:
            k = np.arange(rarer + 1)
            tail = np.exp(logs[total] - logs[k] - logs[total - k] - total * np.log(2)).sum()
            found[place] = min(1.0, 2 * float(tail))
    return found


def sign_flips(sums: Floats, resamples: int, seed: int) -> Floats:
    """Return the p of the sign-flip test by novel of many differences, shape (k,).

    Parameters
    ----------
    sums : array (k, novels)
        Sums of the differences of each novel's items.
    resamples, seed : int
        See :func:`workbench.evaluation.bootstrap.sign_flip`, which each p is equal to where at most
        16 novels tell the two apart; else the choices of signs are shared by all.
    """
    number = sums.shape[1]
    some = (np.abs(sums) > 0).sum(axis=1)
    found = np.ones(len(sums))
    wanted = np.abs(sums.sum(axis=1)) - 1e-9 * np.abs(sums).sum(axis=1)
    many = np.flatnonzero(some > _EXACT)
    few = np.flatnonzero((some > 0) & (some <= _EXACT))
    if number <= _EXACT:
        count, tried = np.zeros(len(sums), dtype=np.int64), 0
        for signs in _all_signs(number):
            count += (np.abs(signs @ sums.T) >= wanted).sum(axis=0)
            tried += len(signs)
        found[few] = (count / tried)[few]
    else:
        novels = Units(np.arange(number), number, "novel")
        for place in few:
            found[place] = resampling.sign_flip(sums[place], novels, resamples, seed)[0]
    if len(many):
        count = np.zeros(len(many), dtype=np.int64)
        for signs in _some_signs(number, resamples, seed):
            count += (np.abs(signs @ sums[many].T) >= wanted[many]).sum(axis=0)
        found[many] = (1 + count) / (1 + resamples)
    return found


def _all_signs(number: int) -> Iterator[Floats]:
    """Yield every choice of signs; that of the first one may stay, for the sum's sign does not count."""
    half = 2 ** (number - 1)
    for start in range(0, half, 4096):
        choices = np.arange(start, min(half, start + 4096))[:, None] >> np.arange(number)
        yield (2 * (choices & 1) - 1).astype(np.float64)


def _some_signs(number: int, resamples: int, seed: int) -> Iterator[Floats]:
    """Yield choices of signs by seed, as `resampling.sign_flip` draws them."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // number)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        bits = np.unpackbits(rng.integers(0, 256, size=(rows, -(-number // 8)), dtype=np.uint8), axis=1)
        yield bits[:, :number] * 2.0 - np.float64(1)
