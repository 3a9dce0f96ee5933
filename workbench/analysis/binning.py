"""A column cut into bins: values of a choice, labels, or ranges of a number, each with its facet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, pairwise
from math import inf, isfinite, nextafter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from workbench.items.query import Cells
from workbench.render.labels import VALUE_LABELS, value_label

_NICE = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500)
_ABOUT = 16
_LIMIT = 40
_TAIL = 0.99
_EVEN = 24
_READABLE = np.array([1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10])


MISSING = {
    "mention_distance": "no earlier mention",
    "mention_sentence": "no earlier mention",
    "target_count": "no vocabulary",
    "tags": "(none)",
}
"""What a missing value of a column means; "not known" for all others."""

_EXACT = 2.0**52  # whole numbers below it are exact, and numbers have a next one at most 1 away

NULL = "null"
"""Key of the bin of rows without a value."""


@dataclass(frozen=True)
class Bins:
    """Adjoining bins, each with its lower edge and without its upper one; the last has both."""

    edges: NDArray[np.float64]  # (n + 1,), in ascending order; the outer ones may be infinite
    width: float  # of each bin (of an open last bin: where it would end); NaN where widths differ

    @property
    def starts(self) -> NDArray[np.float64]:
        """Lower edges, shape (n,)."""
        return self.edges[:-1]

    @property
    def open(self) -> bool:
        """Whether the last bin has no upper end."""
        return bool(np.isinf(self.edges[-1]))

    def bin_index(self, values: ArrayLike) -> NDArray[np.intp]:
        """Return the number of each value's bin, shape as `values`; -1 for NaN and outside all bins."""
        values = np.asarray(values, dtype=float)
        indices = np.searchsorted(self.edges, values, side="right") - 1
        indices = np.where(values == self.edges[-1], len(self.edges) - 2, indices)
        return np.where(indices < len(self.edges) - 1, indices, -1)

    def count(self, values: ArrayLike) -> NDArray[np.intp]:
        """Count the values in each bin, shape (n,)."""
        indices = self.bin_index(values)
        return np.bincount(indices[indices >= 0], minlength=len(self.edges) - 1)


def whole_bins(values: ArrayLike, *, first: int | None = None, width: int | None = None) -> Bins:
    """Choose bins of equal width for all of the integers `values`, for the figures of a set.

    Parameters
    ----------
    values : array of int (n,)
    first, width : int, optional
        Least value of the first bin (by default that of the bin, of those that would begin at 1, with the
        smallest value); values per bin, by default round, so that the middle 98 % lie in about 16 bins.
    """
    values = np.asarray(values, dtype=float)
    if width is None:
        low, high = np.quantile(values, [0.01, 0.99]) if len(values) else (0, 0)
        width = next((w for w in _NICE if w >= (high - low + 1) / _ABOUT), _NICE[-1])
    if first is None:
        first = 1 + (int(values.min()) - 1) // width * width if len(values) else 1
    last = int(values.max()) if len(values) else first
    return Bins(np.arange(first, last + width + 1, width, dtype=float), width)


def open_bins(values: ArrayLike) -> Bins:
    """Choose at most 40 bins of equal width (1, 2 or 5 times a power of ten), for the linked view.

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
    least = 0 if whole_numbers or top == low else int(np.floor(np.log10(top - low) - np.log10(_LIMIT)))
    widths = ((step * 10.0**power, power) for power in count(least) for step in (1, 2, 5))
    width, power = next((w, p) for w, p in widths if np.floor(top / w) - np.floor(low / w) < _LIMIT)
    edges = np.arange(np.floor(low / width), np.floor(top / width) + 2) * width
    edges = np.round(edges, max(0, -power))  # 3 * 0.1 is not quite 0.3
    if high >= edges[-1]:
        edges[-1] = np.inf
    return Bins(edges, width)


def even_bins(low: float, high: float, n: int) -> Bins:
    """Return `n` bins of equal width from `low` to `high`, for the histogram of a filter."""
    high = high if high > low else low + 1
    steps = np.arange(n + 1)
    with np.errstate(over="ignore", invalid="ignore"):
        edges = (low * (n - steps) + high * steps) / n  # exact for whole numbers
        if not np.isfinite(edges).all():
            edges = low / n * (n - steps) + high / n * steps
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


Mask = NDArray[np.bool_]
BinRule = Callable[[NDArray[np.float64]], Bins | None]


@dataclass(frozen=True, eq=False)
class Bin:
    """A bin: rows of a column with one value or range."""

    key: str  # of all bins of the column, such as is:NE, from:5:to:9, other or null
    label: str  # that a reader sees
    facet: list[Any] | None  # that lists these rows: [value], or [low, high]; None for several rare values
    rows: NDArray[np.intp]  # (k,), their places in the column of `size` rows
    size: int

    @property
    def is_range(self) -> bool:
        """Whether the bin is one of adjoining ranges, which may be empty."""
        return self.key.startswith("from:")

    @property
    def mask(self) -> Mask:
        """The rows as an array of bool (n,)."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.rows] = True
        return mask


@dataclass(frozen=True, eq=False)
class Binning:
    """The bins of a column (n rows), of which facets, slices and the bars of charts are made.

    A row is in one bin, but for labels, where it may be in any number. Rows without a value are the last bin;
    infinite numbers beyond all ranges are in none.
    """

    name: str
    value_type: str  # numbers, text, labels, yes or no, or nothing
    bins: list[Bin]

    def count(self, mask: Mask | None = None) -> list[int]:
        """Return the number of rows of each bin, of those in `mask` (n,) only if it is passed."""
        return [len(b.rows) if mask is None else int(np.count_nonzero(mask[b.rows])) for b in self.bins]


def binning(
    name: str, column: pd.Series[Any], *, rule: BinRule = open_bins, limit: int | None = None
) -> Binning:
    """Cut a column (n rows) into bins, none of them empty but for ranges of numbers.

    Values of a choice come in their customary order, else the commonest first; the rows without a value come
    last.

    Parameters
    ----------
    name, column : str, Series (n,)
        Numbers, text, truth values, or a list of labels per row.
    rule : callable
        Chooses the ranges of a column of numbers (its finite ones); None makes one bin of each number.
    limit : int, optional
        Values of a choice that have a bin of their own; the rarer ones share one.
    """
    cells, bins = Cells(column.to_frame(name), name), []
    if cells.value_type == "yes or no":
        for truth, word in ((True, "yes"), (False, "no")):
            rows = np.flatnonzero(~cells.missing & (cells.data == truth))
            bins.append(Bin(f"is:{word}", word, [truth], rows, len(column)))
    elif cells.value_type == "labels":
        for word in sorted(frozenset[str]().union(*cells.data)):
            rows = np.flatnonzero([word in labels for labels in cells.data])
            bins.append(Bin(f"is:{word}", word, [word], rows, len(column)))
    elif cells.value_type == "text":
        bins = _choices(name, cells.data, limit)
    elif cells.value_type == "numbers":
        bins = _ranges(cells.data, rule)
    missing = np.flatnonzero(cells.missing)
    bins.append(Bin(NULL, MISSING.get(name, "not known"), [None], missing, len(column)))
    return Binning(name, cells.value_type, [b for b in bins if len(b.rows) or b.is_range])


def _choices(name: str, values: Any, limit: int | None) -> list[Bin]:
    """Return a bin for each value of a column of text (Arrow), and one for those beyond the limit."""
    codes, words = pd.factorize(np.asarray(values.to_pandas(), dtype=object))
    n = len(codes)
    by_code, counts = np.argsort(codes, kind="stable"), np.bincount(codes[codes >= 0], minlength=len(words))
    rows = np.split(by_code[np.count_nonzero(codes < 0) :], np.cumsum(counts)[:-1])
    order = sorted(range(len(words)), key=lambda code: (-counts[code], words[code]))
    frequent, rare = order[:limit], order[limit:] if limit else []
    if labels := [*VALUE_LABELS.get(name, ())]:
        frequent.sort(key=lambda code: [*labels, words[code]].index(words[code]))
    bins = [
        Bin(f"is:{words[code]}", value_label(name, words[code]), [words[code]], rows[code], n)
        for code in frequent
    ]
    if not rare:
        return bins
    return [*bins, Bin("other", "other", None, np.sort(np.concatenate([rows[code] for code in rare])), n)]


def _ranges(values: NDArray[np.float64], rule: BinRule) -> list[Bin]:
    """Return the ranges of numbers that `rule` chooses, or a bin per number."""
    finite, n = values[np.isfinite(values)], len(values)
    integers = bool((finite == np.round(finite)).all() and (np.abs(finite) < _EXACT).all())
    ranges = rule(finite) if len(finite) and finite.min() < finite.max() else None
    if ranges is None:
        different = np.unique(values[~np.isnan(values)])
        texts = [f"{v:g}" if float(f"{v:g}") == v else repr(float(v)) for v in different]
        return [
            Bin(
                f"is:{text}", text, range_facet(v, v) if isfinite(v) else None, np.flatnonzero(values == v), n
            )
            for text, v in zip(texts, different.tolist(), strict=True)
        ]
    indices, bins = ranges.bin_index(values), []
    for index, (low, end) in enumerate(pairwise(ranges.edges.tolist())):
        key = f"from:{'' if low == -inf else f'{low:.12g}'}:to:{'' if end == inf else f'{end:.12g}'}"
        facet = range_facet(low, end - 1 if integers else nextafter(end, -inf) if isfinite(end) else end)
        label = _range_label(low, end, integers=integers)
        bins.append(Bin(key, label, facet, np.flatnonzero(indices == index), n))
    return bins


def range_facet(low: float, high: float) -> list[Any]:
    """Return the facet of a closed range, with None for an infinite end, and whole numbers as such."""
    return [
        None if not isfinite(end) else int(end) if abs(end) <= _EXACT and end == int(end) else end
        for end in (low, high)
    ]


def _range_label(low: float, end: float, *, integers: bool) -> str:
    last = end - 1 if integers else end
    if low == -inf:
        return f"up to {last:,g}" if integers else f"below {end:,g}"
    if end == inf:
        return f"{low:,g} or more"
    if integers and last == low:
        return f"{low:,g}"
    return f"{low:,g} to {last:,g}" if integers else f"{low:,g} to below {end:,g}"
