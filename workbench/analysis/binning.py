"""A column cut into bins: values of a choice, labels, or ranges of a number, each with its typed filter."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import groupby, pairwise
from math import inf, nextafter
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.histograms import Bins, open_bins
from workbench.items.query import Cells, Query, all_of, any_of, between, is_one_of
from workbench.render.labels import VALUE_LABELS, value_label
from workbench.storage.errors import DataError

Mask = NDArray[np.bool_]
Cut = Callable[[NDArray[np.float64]], Bins | None]

MISSING = {
    "mention_distance": "no earlier mention",
    "mention_sentence": "no earlier mention",
    "target_count": "no vocabulary",
    "tags": "(none)",
}
"""What a missing value of a column means; "not known" for all others."""

_EXACT = 2**52  # whole numbers below it are exact

NULL = "null"
"""Key of the bin of rows without a value."""


@dataclass(frozen=True, eq=False)
class Bin:
    """Some rows of a column.

    Attributes
    ----------
    key : str
        Name in a message or a saved state, such as ``is:NE``, ``from:5:to:9``, ``other`` or ``null``.
    label : str
        Name that a reader sees.
    query : Query
        The filter that lists these rows.
    rows : array of int (k,)
        Their places in the column of `size` rows.
    low, high : float
        Least and greatest number of a range; NaN for other bins.
    """

    key: str
    label: str
    query: Query
    rows: NDArray[np.intp]
    size: int
    low: float = np.nan
    high: float = np.nan

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

    A row is in one bin, but for `kind` ``"labels"``, where it may be in any number. Rows without a value are
    the last bin; infinite numbers beyond all ranges are in none.

    Attributes
    ----------
    name : str
        The column.
    kind : str
        What it holds: ``numbers``, ``text``, ``labels``, ``yes or no`` or ``nothing``.
    bins : list of Bin
    integers : bool
        Whether all its numbers are whole.
    """

    name: str
    kind: str
    bins: list[Bin]
    integers: bool = False

    @property
    def ranges(self) -> list[Bin]:
        """The bins that are ranges of numbers, in ascending order."""
        return [b for b in self.bins if not np.isnan(b.low)]

    def count(self, mask: Mask | None = None) -> list[int]:
        """Return the number of rows of each bin, of those in `mask` (n,) only if it is passed."""
        return [len(b.rows) if mask is None else int(np.count_nonzero(mask[b.rows])) for b in self.bins]

    def query(self, keys: Collection[Any]) -> Query | None:
        """Return the filter for the rows of some bins, adjoining ranges as one; None without any bin.

        Raises
        ------
        DataError
            If there is no such bin.
        """
        known = {b.key: b for b in self.bins}
        if unknown := [key for key in keys if key not in known]:
            names = ", ".join([*known][:20])
            raise DataError(f"the column {self.name!r} has no bin {unknown[0]!r}; known are {names}")
        chosen = [b for b in self.bins if b.key in keys]
        values = [b.query.operands[0] for b in chosen if b.query.operator == "=" and not b.is_range]
        parts = [is_one_of(self.name, values)] if values else []
        places = [(place, b) for place, b in enumerate(self.ranges) if b in chosen and b.is_range]
        for _, adjoining in groupby(enumerate(places), lambda pair: pair[0] - pair[1][0]):
            run = [b for _, (_, b) in adjoining]
            parts.append(_range_query(self.name, run[0].low, run[-1].high, integers=self.integers))
        parts += [b.query for b in chosen if not b.is_range and b.query.operator != "="]
        return any_of(parts) if parts else None

    def chosen(self, query: Query, mask: Mask) -> list[str]:
        """Return the keys of the bins that a filter on this column lists; `mask` (n,) are its rows."""
        parts = query.alternatives
        if self.kind == "labels":
            return [b.key for b in self.bins if b.query in parts]
        spans = [part.interval for part in parts if part.operator != "is missing"]
        if self.kind != "numbers" or None in spans:
            return [b.key for b in self.bins if mask[b.rows].any()]
        listed = [b for b in self.ranges if any(s and s[0] <= b.high and b.low <= s[1] for s in spans)]
        return [b.key for b in listed] + [
            b.key for b in self.bins if b.key == NULL and len(spans) < len(parts)
        ]


def binning(name: str, column: pd.Series[Any], *, cut: Cut = open_bins, limit: int | None = None) -> Binning:
    """Cut a column (n rows) into bins, none of them empty but for ranges of numbers.

    Values of a choice come in their customary order, else the commonest first; the rows without a value come
    last.

    Parameters
    ----------
    name : str
        The column's name.
    column : Series (n,)
        Numbers, text, truth values, or a list of labels a row.
    cut : callable
        Chooses the ranges of a column of numbers (its finite ones); None makes one bin of each number.
    limit : int, optional
        Values of a choice that have a bin of their own; the rarer ones share one.
    """
    cells, bins, integers = Cells(column.to_frame(name), name), [], False
    if cells.kind == "yes or no":
        for truth, word in ((True, "yes"), (False, "no")):
            rows = np.flatnonzero(~cells.missing & (cells.data == truth))
            bins.append(Bin(f"is:{word}", word, Query("=", name, (truth,)), rows, len(column)))
    elif cells.kind == "labels":
        for word in sorted(frozenset[str]().union(*cells.data)):
            rows = np.flatnonzero([word in labels for labels in cells.data])
            bins.append(Bin(f"is:{word}", word, Query("=", name, (word,)), rows, len(column)))
    elif cells.kind == "text":
        bins = _choices(name, cells.data, limit)
    elif cells.kind == "numbers":
        known = cells.data[np.isfinite(cells.data)]
        integers = bool((known == np.round(known)).all() and (np.abs(known) < _EXACT).all())
        bins = _ranges(name, cells.data, cut, integers=integers)
    missing = np.flatnonzero(cells.missing)
    bins.append(Bin(NULL, MISSING.get(name, "not known"), Query("is missing", name), missing, len(column)))
    return Binning(name, cells.kind, [b for b in bins if len(b.rows) or b.is_range], integers)


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
        Bin(
            f"is:{words[code]}", value_label(name, words[code]), is_one_of(name, [words[code]]), rows[code], n
        )
        for code in frequent
    ]
    if not rare:
        return bins
    others = Query("not in", name, tuple(words[code] for code in frequent))
    return [*bins, Bin("other", "other", others, np.sort(np.concatenate([rows[code] for code in rare])), n)]


def _ranges(name: str, values: NDArray[np.float64], cut: Cut, *, integers: bool) -> list[Bin]:
    """Return the ranges of numbers that `cut` chooses, or a bin a number."""
    finite = values[np.isfinite(values)]
    ranges = cut(finite) if len(finite) and finite.min() < finite.max() else None
    if ranges is None:
        different = np.unique(values[~np.isnan(values)])
        texts = [f"{v:g}" if float(f"{v:g}") == v else repr(float(v)) for v in different]
        return [
            Bin(f"is:{text}", text, between(name, v, v), np.flatnonzero(values == v), len(values), v, v)
            for text, v in zip(texts, different.tolist(), strict=True)
        ]
    places, bins = ranges.place(values), []
    for place, (low, end) in enumerate(pairwise(ranges.edges.tolist())):
        key = f"from:{'' if low == -inf else f'{low:.12g}'}:to:{'' if end == inf else f'{end:.12g}'}"
        high = end - 1 if integers or end == inf else nextafter(end, -inf)
        query = _range_query(name, low, high, integers=integers)
        rows = np.flatnonzero(places == place)
        bins.append(Bin(key, _range_label(low, end, integers=integers), query, rows, len(values), low, high))
    return bins


def _range_query(name: str, low: float, high: float, *, integers: bool) -> Query:
    """Return the filter for a range; one of numbers that are not whole ends before the next edge."""
    if integers or not np.isfinite(high):
        return between(name, low, high)
    below = Query("<", name, (nextafter(high, inf),))
    return all_of([between(name, low, inf), below]) if np.isfinite(low) else below


def _range_label(low: float, end: float, *, integers: bool) -> str:
    last = end - 1 if integers else end
    if low == -inf:
        return f"up to {last:,g}" if integers else f"below {end:,g}"
    if end == inf:
        return f"{low:,g} or more"
    if integers and last == low:
        return f"{low:,g}"
    return f"{low:,g} to {last:,g}" if integers else f"{low:,g} to below {end:,g}"
