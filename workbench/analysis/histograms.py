"""Bins of numbers for tables, charts and widgets: choose them with a function, sort values in with `Bins`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import inf, nextafter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NICE = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500)
_ABOUT = 16
_TAIL = 0.99
_EVEN = 24
_EXACT = 2.0**52  # numbers below it have a next one that is at most 1 away
_READABLE = np.array([1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10])


@dataclass(frozen=True)
class Bins:
    """Adjoining bins, each with its lower edge and without its upper one; the last has both.

    Attributes
    ----------
    edges : array of float (n + 1,)
        Edges in ascending order; the outer ones may be infinite.
    width : float
        Width of each bin (of an open last bin: where it would end); NaN where widths differ.
    """

    edges: NDArray[np.float64]
    width: float

    @property
    def starts(self) -> NDArray[np.float64]:
        """Lower edges, shape (n,)."""
        return self.edges[:-1]

    @property
    def open(self) -> bool:
        """Whether the last bin has no upper end."""
        return bool(np.isinf(self.edges[-1]))

    def place(self, values: ArrayLike) -> NDArray[np.intp]:
        """Return the number of each value's bin, shape as `values`; -1 for NaN and outside all bins."""
        values = np.asarray(values, dtype=float)
        places = np.searchsorted(self.edges, values, side="right") - 1
        places = np.where(values == self.edges[-1], len(self.edges) - 2, places)
        return np.where(places < len(self.edges) - 1, places, -1)

    def count(self, values: ArrayLike) -> NDArray[np.intp]:
        """Count the values in each bin, shape (n,)."""
        places = self.place(values)
        return np.bincount(places[places >= 0], minlength=len(self.edges) - 1)


def whole_bins(values: ArrayLike, *, first: int | None = None, width: int | None = None) -> Bins:
    """Choose bins of equal width that hold all of the whole numbers `values`, for the figures of a set.

    Parameters
    ----------
    values : array of int (n,)
    first : int, optional
        Least value of the first bin; by default that of the bin, of those that would begin at 1,
        with the smallest value.
    width : int, optional
        Values a bin; by default round, so that the middle 98 % of the values lie in about 16 bins.
    """
    values = np.asarray(values, dtype=float)
    if width is None:
        low, high = np.quantile(values, [0.01, 0.99]) if len(values) else (0, 0)
        width = next((w for w in _NICE if w >= (high - low + 1) / _ABOUT), _NICE[-1])
    if first is None:
        first = 1 + (int(values.min()) - 1) // width * width if len(values) else 1
    last = int(values.max()) if len(values) else first
    return Bins(np.arange(first, last + width + 1, width, dtype=float), width)


def open_bins(values: ArrayLike, *, most: int = 40) -> Bins:
    """Choose at most `most` bins of equal width (1, 2 or 5 times a power of ten), for the linked view.

    Bins of whole numbers are at least 1 wide. Where the highest 1 % of the values (array of float (n,),
    finite, not empty) lie far from the others, the last bin is open at its upper end and holds them. Numbers
    that are too large, or too near to each other, for round edges have even bins.
    """
    values = np.asarray(values, dtype=float)
    low, high = values.min(), values.max()
    size = max(abs(low), abs(high))
    if size >= _EXACT or 0 < high - low < max(size / _EXACT * 2**13, np.finfo(float).tiny * 2**13):
        bins = even_bins(low, high, _EVEN)
        bins.edges[-1] = nextafter(bins.edges[-1], inf)
        return bins
    tail = np.quantile(values, _TAIL, method="higher")
    far = high - low > 2 * (tail - low)  # a few far values would squeeze all others together
    top = tail if far and tail > low else high
    whole_numbers = bool((values == np.round(values)).all())
    least = 0 if whole_numbers or top == low else int(np.floor(np.log10(top - low) - np.log10(most)))
    widths = ((step * 10.0**power, power) for power in count(least) for step in (1, 2, 5))
    width, power = next((w, p) for w, p in widths if np.floor(top / w) - np.floor(low / w) < most)
    edges = np.arange(np.floor(low / width), np.floor(top / width) + 2) * width
    edges = np.round(edges, max(0, -power))  # 3 * 0.1 is not quite 0.3
    if high >= edges[-1]:
        edges[-1] = np.inf
    return Bins(edges, width)


def even_bins(low: float, high: float, n: int) -> Bins:
    """Return `n` bins of equal width from `low` to `high`, for the histogram of a filter."""
    high = high if high > low else low + 1
    places = np.arange(n + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        edges = (low * (n - places) + high * places) / n  # exact for whole numbers
        if not np.isfinite(edges).all():
            edges = low / n * (n - places) + high / n * places
    edges[[0, -1]] = low, high  # very large numbers are rounded
    return Bins(edges, high / n - low / n)


def quantile_bins(values: ArrayLike, n: int = 5) -> Bins:
    """Choose up to `n` bins with about equally many of `values`, at edges of one or two digits, for slices.

    The outer edges are infinite: bins serve values that come later, too.
    """
    values = np.asarray(values, dtype=float)
    different = np.unique(values)
    integers = bool(np.isfinite(values).all() and (values == np.round(values)).all())
    inner = np.quantile(values, np.arange(1, n) / n, method="lower")
    edges = sorted({_readable(edge, integers=integers) for edge in inner if np.isfinite(edge)})
    edges = [edge for edge in edges if different[0] < edge <= different[-1]]
    return Bins(np.array([-np.inf, *edges, np.inf]), np.nan)


def _readable(value: float, *, integers: bool) -> float:
    """Round to one or two readable digits, upwards or downwards, whichever is nearer."""
    if abs(value) < np.finfo(float).tiny:
        return 0.0
    size = 10.0 ** np.floor(np.log10(abs(value)))
    if integers and size <= 1:
        return float(value)
    steps: NDArray[Any] = _READABLE if size > 10 or not integers else np.arange(10, 101, 5) / 10  # noqa: PLR2004
    return float(np.sign(value) * steps[np.abs(steps - abs(value) / size).argmin()] * size)
