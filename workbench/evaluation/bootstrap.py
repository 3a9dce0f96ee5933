"""Resampling over units that may hold several items: items, or whole novels.

Units are drawn once and every column is measured on the same draws, so the replicates of a difference are the
differences of the models' replicates. scipy.stats.bootstrap draws items only, one statistic at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.storage.errors import DataError

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

FEW = 20
"""Novels below which intervals from resampled novels are known to be too narrow."""
LAMBADA = "LAMBADA's release does not say which novel a passage is from"
"""Why its items cannot be resampled by novel."""

_BLOCK = 1_500_000  # weights held at a time
_SIGNS = 2_000_000  # signs held at a time
_EXACT = 16  # units up to which every choice of signs is tried: 65,536 of them
_SPREAD = 2  # units from which a spread can be told
_SPARE = 48  # items on each side beyond those among which a median is expected


class Drawing(NamedTuple):
    """How intervals are made: confidence level, bootstrap replicates, seed."""

    level: float = 0.95
    resamples: int = 2000
    seed: int = 0

    def checked(self) -> Drawing:
        """Return the same; DataError if the level or the number of replicates makes no sense."""
        if not 0 < self.level < 1:
            raise DataError(f"the confidence level {self.level} is not between 0 and 1", remedy="use 0.95")
        if int(self.resamples) != self.resamples or self.resamples < 1:
            raise DataError(
                f"expected a positive number of resamples, got {self.resamples}", remedy="use 2000"
            )
        return self


class Units(NamedTuple):
    """What is drawn as a whole: `codes` (n,) has the unit of each item, from 0 to `number` - 1."""

    codes: Ints
    number: int
    by: Literal["novel", "item"]

    def of(self, mask: Mask) -> Units:
        """Return the units of a part of the items."""
        units, codes = np.unique(self.codes[mask], return_inverse=True)
        return Units(codes.astype(np.int64), len(units), self.by)

    def sums(self, values: npt.ArrayLike) -> Floats:
        """Return the sum over the items of each unit."""
        return np.bincount(self.codes, np.asarray(values, dtype=float), self.number).astype(np.float64)


def units(book_id: pd.Series[Any]) -> Units:
    """Return novels as units where every item names one, else items."""
    if len(book_id) and book_id.notna().all():
        codes, books = pd.factorize(book_id, sort=True)
        return Units(codes.astype(np.int64), len(books), "novel")
    return Units(np.arange(len(book_id), dtype=np.int64), len(book_id), "item")


def describe_resampling(by: str, number: int) -> str:
    """Say in words what was resampled, and what that means."""
    if by == "novel":
        few = f"; with fewer than {FEW} novels such intervals are too narrow" if number < FEW else ""
        return f"whole novels were resampled ({number:,} novels){few}"
    return (
        "items were resampled, as not every item names its novel; items of one novel are not"
        " independent, so intervals may be too narrow"
    )


def resample(means: Floats, medians: Floats, of: Units, resamples: int, seed: int) -> tuple[Floats, Floats]:
    """Return bootstrap replicates of means and medians over items, whole units drawn with replacement.

    Parameters
    ----------
    means, medians : array (k, n), array (m, n)
        Rows whose means and medians are wanted. NaN: no value; minus infinity makes each mean that holds it
        minus infinity.
    of : Units
        Units of the n items.
    resamples, seed : int

    Returns
    -------
    means, medians : array (resamples, k), array (resamples, m)
        NaN where a replicate holds no value.
    """
    none, infinite = np.isnan(means), np.isneginf(means)
    # rows often lack the same values
    masks, which = np.unique(np.vstack([~none, ~np.isnan(medians)]), axis=0, return_inverse=True)
    middles = [_Median(row, of) for row in medians]
    holed = np.flatnonzero(infinite.any(axis=1))
    rows = [*np.where(none | infinite, 0.0, means), *masks, *infinite[holed]]
    columns = np.column_stack([*(of.sums(row) for row in rows), *(middle.lower for middle in middles)])
    k, ends = len(means), np.cumsum([len(means), len(masks), len(holed)])
    mean_blocks, median_blocks = [np.empty((0, k))], [np.empty((0, len(medians)))]
    for drawn in _weights(of.number, resamples, seed):
        total, counts, lost, lower = np.split(drawn @ columns, ends, axis=1)
        n = counts[:, which]
        block = np.divide(total, n[:, :k], out=np.full(total.shape, np.nan), where=n[:, :k] > 0)
        for place, column in enumerate(holed):
            block[lost[:, place] > 0, column] = -np.inf
        mean_blocks.append(block)
        if middles:
            by_unit = np.ascontiguousarray(drawn.T)  # then the weights of an item lie together
            below, size = (np.rint(part).astype(np.int64) for part in (lower, n[:, k:]))
            parts = [middle.of(by_unit, below[:, j], size[:, j]) for j, middle in enumerate(middles)]
            median_blocks.append(np.column_stack(parts))
    return np.vstack(mean_blocks), np.vstack(median_blocks)


def _weights(number: int, resamples: int, seed: int) -> Iterator[Singles]:
    """Yield how often each unit is drawn, (a block of resamples, units) at a time."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // max(number, 1))
    for start in range(0, resamples, block):
        weights = np.empty((min(block, resamples - start), number), dtype=np.float32)
        for row in weights:
            row[:] = np.bincount(rng.integers(0, number, size=number, dtype=np.int32), minlength=number)
        yield weights


class _Median:
    """Weighted medians of one row: only items near its middle are looked at.

    A cumulative sum over all of 5,153 items takes 60 times as long.
    """

    def __init__(self, values: Floats, of: Units) -> None:
        present = np.flatnonzero(~np.isnan(values))
        order = present[np.argsort(values[present], kind="stable")]
        self.values, self.codes = values[order], of.codes[order]
        self.half = len(order) // 2
        self.lower = np.bincount(self.codes[: self.half], minlength=of.number)

    def of(self, drawn: Singles, below: Ints, n: Ints) -> Floats:
        """Return the medians (r,) of the resamples `drawn` (units, r).

        `below` and `n` (r,) count the drawn items that are in the lower half of all, and that have a value.
        """
        medians = np.full(drawn.shape[1], np.nan)
        left = np.flatnonzero(n > 0)
        reach = _SPARE + int(1.25 * np.abs(below - n // 2).max(initial=0))
        while len(left):
            low, high = max(0, self.half - reach), min(len(self.values), self.half + reach)
            near = np.take(drawn, self.codes[low:high], axis=0)
            sums = np.cumsum(near if len(left) == len(medians) else near[:, left], axis=0)
            before = below[left] - (sums[self.half - low - 1] if self.half > low else 0)
            middle = [(n[left] - 1) // 2 - before, n[left] // 2 - before]  # places among `sums`
            inside = (middle[0] >= 0) & (middle[1] < sums[-1])
            places = [np.count_nonzero(sums <= place.astype(np.float32), axis=0)[inside] for place in middle]
            medians[left[inside]] = (self.values[low + places[0]] + self.values[low + places[1]]) / 2
            left, reach = left[~inside], 2 * reach
        return medians


def intervals(columns: Floats, level: float, number: int) -> tuple[Floats, Floats]:
    """Return the percentile intervals (Efron 1979) of bootstrap replicates of `number` units.

    Parameters
    ----------
    columns : array (resamples, k)
        NaN: that replicate holds no value, and does not count.

    Returns
    -------
    low, high : array (k,)
        NaN for a single unit, and where no replicate holds a value.
    """
    low, high = np.full((2, columns.shape[1]), np.nan)
    for place, column in enumerate(columns.T):
        values = column[~np.isnan(column)]
        if number >= _SPREAD and len(values):
            # order statistics, outwards: between infinite replicates there is nothing to interpolate
            low[place] = np.quantile(values, (1 - level) / 2, method="lower")
            high[place] = np.quantile(values, (1 + level) / 2, method="higher")
    return low, high


def sign_flip(differences: Floats, of: Units, resamples: int, seed: int) -> tuple[float, bool]:
    """Test whether paired differences of items (n,) are symmetric about 0, as `sign_flips` does.

    Returns
    -------
    p : float
    exact : bool
        Whether every choice of signs was tried.
    """
    sums = of.sums(differences)
    sums = sums[sums != 0]
    return float(sign_flips(sums[None], resamples, seed)[0]), len(sums) <= _EXACT


def sign_flips(sums: Floats, resamples: int, seed: int) -> Floats:
    """Test whether differences are symmetric about 0, the signs of whole units being flipped.

    The statistic is the mean over items (Fisher 1935, section 21). scipy.stats.permutation_test with
    "samples" does the same for one pair in 30 times the time.

    Parameters
    ----------
    sums : array (k, units)
        For each pair of models, finite sums of the differences of each unit's items.
    resamples, seed : int
        Random choices of signs where more than 16 units tell a pair apart, the same for all pairs.

    Returns
    -------
    array (k,)
        Two-sided p: of all choices of signs, or (1 + as extreme) / (1 + resamples).
    """
    p = np.ones(len(sums))
    size = np.abs(sums).sum(axis=1)
    observed = np.abs(sums.sum(axis=1)) - 1e-9 * size  # rounding must not break ties
    number = (sums != 0).sum(axis=1)  # the other units change nothing
    for row in np.flatnonzero((number > 0) & (number <= _EXACT)):
        choices = np.arange(2 ** number[row])[:, None] >> np.arange(number[row])
        p[row] = (np.abs((2.0 * (choices & 1) - 1) @ sums[row][sums[row] != 0]) >= observed[row]).mean()
    many = np.flatnonzero(number > _EXACT)
    rng, width = np.random.default_rng(seed), sums.shape[1]
    block, count = max(1, _SIGNS // max(width, 1)), np.zeros(len(many), dtype=np.int64)
    for start in range(0, resamples if len(many) else 0, block):
        shape = (min(block, resamples - start), -(-width // 8))
        bits = np.unpackbits(rng.integers(0, 256, size=shape, dtype=np.uint8), axis=1)[:, :width]
        count += (np.abs((2.0 * bits - 1) @ sums[many].T) >= observed[many]).sum(axis=0)
    p[many] = (1 + count) / (1 + resamples)
    return p
