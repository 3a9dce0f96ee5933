"""Bootstrap and sign-flip tests over units that may hold several items: items, or whole novels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

Floats = npt.NDArray[np.float64]

FEW = 20
"""Novels below which intervals from resampled novels are known to be too narrow."""

_LEAST = 2  # units from which a spread can be told
_BLOCK = 2_000_000  # weights held at a time
_EXACT = 16  # units up to which every choice of signs is tried: 65,536 of them


class Units(NamedTuple):
    """What is drawn as a whole.

    Attributes
    ----------
    codes : array (n,)
        The unit of each item, from 0.
    number : int
    by : {"novel", "item"}
    """

    codes: npt.NDArray[np.int64]
    number: int
    by: Literal["novel", "item"]

    def of(self, chosen: npt.NDArray[np.bool_]) -> Units:
        """Return the units of some of the items."""
        found, codes = np.unique(self.codes[chosen], return_inverse=True)
        return Units(codes.astype(np.int64), len(found), self.by)


def units(book_id: pd.Series[Any]) -> Units:
    """Return novels as units where every item names one, else items."""
    if len(book_id) and book_id.notna().all():
        codes, books = pd.factorize(book_id, sort=True)
        return Units(codes.astype(np.int64), len(books), "novel")
    return Units(np.arange(len(book_id), dtype=np.int64), len(book_id), "item")


def _weights(number: int, resamples: int, seed: int, width: int) -> Iterator[Floats]:
    """Yield how often each unit is drawn, (some resamples, units) at a time; rows get `width` numbers."""
    rng = np.random.default_rng(seed)
    block = max(1, _BLOCK // max(width, 1))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        drawn = rng.integers(0, number, size=(rows, number), dtype=np.int64)
        drawn += np.arange(rows, dtype=np.int64)[:, None] * number
        counts = np.bincount(drawn.reshape(-1), minlength=rows * number)
        yield counts.reshape(rows, number).astype(np.float64)


def means(values: Floats, of: Units, resamples: int, seed: int) -> Floats:
    """Return bootstrap replicates of means over items, whole units drawn with replacement.

    Parameters
    ----------
    values : array (n, k)
        Columns are drawn together. NaN: no value; minus infinity makes each mean that holds it
        minus infinity.
    of : Units
        Units of the n items.
    resamples : int
    seed : int

    Returns
    -------
    array (resamples, k)
        NaN where a replicate holds no value.
    """
    k = values.shape[1]
    none, lost = np.isnan(values), np.isneginf(values)
    parts = [np.where(none | lost, 0.0, values), ~none, lost]
    sums = np.column_stack(
        [np.bincount(of.codes, column.astype(float), of.number) for part in parts for column in part.T]
    )
    total = np.vstack([weights @ sums for weights in _weights(of.number, resamples, seed, of.number)])
    above, count, infinite = total[:, :k], total[:, k : 2 * k], total[:, 2 * k :]
    found = np.divide(above, count, out=np.full_like(above, np.nan), where=count > 0)
    return np.where(infinite > 0, -np.inf, found)


def medians(values: Floats, of: Units, resamples: int, seed: int) -> Floats:
    """Return bootstrap replicates of the median over items, shape (resamples,); see `means`."""
    order = np.argsort(values, kind="stable")
    ordered, codes = values[order], of.codes[order]
    different, place = np.unique(ordered, return_inverse=True)
    last = np.flatnonzero(np.diff(place, append=len(different)))  # the last item of each value
    found = []
    for weights in _weights(of.number, resamples, seed, len(values)):
        below = np.cumsum(weights[:, codes], axis=1)[:, last]  # (rows, different): items up to each value
        n = below[:, -1:]
        low = (below <= (n - 1) // 2).sum(axis=1)
        high = (below <= n // 2).sum(axis=1)
        found.append((different[low] + different[high]) / 2)
    return np.concatenate(found)


def interval(replicates: Floats, level: float, number: int) -> tuple[float, float]:
    """Return the percentile interval of bootstrap replicates (Efron 1979), NaN for a single unit."""
    kept = replicates[~np.isnan(replicates)]
    if number < _LEAST or not len(kept):
        return np.nan, np.nan
    # order statistics, outwards: between infinite replicates there is nothing to interpolate
    low = np.quantile(kept, (1 - level) / 2, method="lower")
    high = np.quantile(kept, (1 + level) / 2, method="higher")
    return float(low), float(high)


def sign_flip(differences: Floats, of: Units, resamples: int, seed: int) -> tuple[float, bool]:
    """Test whether paired differences are symmetric about 0 (Fisher 1935, section 21).

    The signs of whole units are flipped; the statistic is the mean over items.

    Parameters
    ----------
    differences : array (n,)
        Finite differences of the items.
    of : Units
    resamples : int
        Random choices of signs where there are too many to try all.
    seed : int

    Returns
    -------
    p : float
        Two-sided; from random signs it is (1 + as extreme) / (1 + resamples).
    exact : bool
        Whether every choice of signs was tried.
    """
    sums = np.bincount(of.codes, differences, of.number)
    sums = sums[np.abs(sums) > 0]  # the others change nothing
    number = len(sums)
    if not number:
        return 1.0, True
    wanted = abs(float(sums.sum())) - 1e-9 * float(np.abs(sums).sum())  # rounding must not break ties
    if number <= _EXACT:
        choices = np.arange(2**number)[:, None] >> np.arange(number)
        extreme = np.abs((2.0 * (choices & 1) - 1) @ sums) >= wanted
        return float(extreme.mean()), True
    rng = np.random.default_rng(seed)
    count, block = 0, max(1, _BLOCK // number)
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        bits = np.unpackbits(rng.integers(0, 256, size=(rows, -(-number // 8)), dtype=np.uint8), axis=1)
        signs = 2.0 * bits[:, :number] - 1
        count += int((np.abs(signs @ sums) >= wanted).sum())
    return (1 + count) / (1 + resamples), False


def said(by: str, number: int) -> str:
    """Say in words what was resampled, and what that means."""
    if by == "novel":
        few = f"; with fewer than {FEW} novels such intervals are too narrow" if number < FEW else ""
        return f"{number:,} novels were resampled as wholes{few}"
    return (
        "items were resampled, because not every item names its novel; items of one novel are not"
        " independent, so intervals may be too narrow"
    )


LAMBADA = "LAMBADA's release does not say which novel a passage is from"
"""Why its items cannot be resampled by novel."""
