"""Search and facets over items: the rows that filters let through, and the counts beside choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workbench.analysis.histograms import even_bins
from workbench.items import text as wt
from workbench.items.items import DataError, Item, Items, Span
from workbench.render.labels import column_label

Mask = NDArray[np.bool_]

FIELDS = ("passage", "sentence", "answer")
NO_FILTERS: dict[str, Any] = {"query": "", "field": "passage", "regex": False, "facets": {}}
ITEM_FACETS = ("dataset", "split", "variant", "word_class", "book_id")
TAGS = "tags"
NONE = "(none)"
YES, NO, UNKNOWN = "yes", "no", "unknown"
_BINS = 24
_MOST = 200
_MANY = (list, tuple, set, frozenset, np.ndarray)
_MARKS = range(0xE000, 0xF900)


@dataclass(frozen=True)
class Category:
    """A column of categories: one code an item into `names`, commonest first."""

    names: list[str]
    codes: NDArray[np.int32]

    def mask(self, chosen: Sequence[str]) -> Mask:
        """Return the rows whose category is among `chosen`."""
        wanted = [self.names.index(name) for name in chosen if name in self.names]
        return np.isin(self.codes, wanted)

    def describe(self, rows: Mask, chosen: Sequence[str]) -> dict[str, Any]:
        """Return the choices with their counts among `rows`."""
        counts = np.bincount(self.codes[rows], minlength=len(self.names)).tolist()
        shown = [
            [name, count]
            for place, (name, count) in enumerate(zip(self.names, counts, strict=True))
            if place < _MOST or name in chosen
        ]
        return {"kind": "category", "choices": shown, "more": len(self.names) - len(shown)}


class Labels:
    """A column of label sets, as tags are: a row may carry any number of them."""

    def __init__(self, rows: Iterable[Iterable[str]]) -> None:
        sets = [frozenset(row) for row in rows]
        names = sorted(frozenset().union(*sets))
        self.masks = {name: np.array([name in row for row in sets], dtype=bool) for name in names}
        self._none = np.array([not row for row in sets], dtype=bool)

    def mask(self, chosen: Sequence[str]) -> Mask:
        """Return the rows that carry one of `chosen`; NONE stands for rows without any."""
        mask = np.zeros(len(self._none), dtype=bool)
        for name in chosen:
            mask |= self.masks.get(name, self._none if name == NONE else False)
        return mask

    def describe(self, rows: Mask, chosen: Sequence[str]) -> dict[str, Any]:
        """Return the labels with their counts among `rows`, and the rows without any."""
        counts = {name: int((mask & rows).sum()) for name, mask in self.masks.items()}
        counts |= {name: 0 for name in chosen if name not in counts}
        counts[NONE] = counts.get(NONE, 0) + int((self._none & rows).sum())
        return {"kind": "category", "choices": [[name, n] for name, n in counts.items()], "more": 0}


@dataclass(frozen=True)
class Number:
    """A column of numbers, chosen from by a closed range; missing values are outside every range."""

    values: NDArray[np.float64]

    def mask(self, chosen: Sequence[float | None]) -> Mask:
        """Return the rows inside the range; None leaves an end open."""
        low, high = chosen
        inside = ~np.isnan(self.values)
        if low is not None:
            inside &= self.values >= low
        if high is not None:
            inside &= self.values <= high
        return inside

    def describe(self, rows: Mask, chosen: Sequence[float | None]) -> dict[str, Any]:  # noqa: ARG002 - as its twins
        """Return the ends of the whole column and a histogram of `rows` over it."""
        known = self.values[np.isfinite(self.values)]
        if not len(known):
            return {"kind": "number", "low": None, "high": None, "bars": []}
        low, high = float(known.min()), float(known.max())
        bars = even_bins(low, high, _BINS).count(self.values[rows & np.isfinite(self.values)])
        return {"kind": "number", "low": low, "high": high, "bars": bars.tolist()}


Facet = Category | Labels | Number


def facet(column: pd.Series[Any]) -> Facet | None:
    """Make a facet of a column: numbers a range, anything else categories; None where it tells nothing.

    Truth values, nullable or not, are the categories YES, NO and UNKNOWN, in this order. Lists are label
    sets; columns of other objects, of one value only, or of text or labels that differ from row to row (ids,
    notes, tokens) have nothing to choose by.
    """
    kinds = {type(value) for value in column.head(1000)} - {type(None), type(pd.NA), float}
    if kinds and kinds <= set(_MANY):
        return _labels([list(value) if isinstance(value, _MANY) else [] for value in column])
    if pd.api.types.infer_dtype(column, skipna=True) == "boolean":
        truth = column.astype(object).map({True: YES, False: NO}).fillna(UNKNOWN)
        order = [name for name in (YES, NO, UNKNOWN) if (truth == name).any()]
        return _category(truth, order) if len(order) > 1 else None
    if pd.api.types.is_numeric_dtype(column):
        values = column.to_numpy(dtype=float, na_value=np.nan)
        return Number(values) if len(np.unique(values[~np.isnan(values)])) > 1 else None
    if kinds & {dict, *_MANY}:
        return None
    names = column.astype("str").where(column.notna(), NONE)
    counts = names.value_counts()
    if len(counts) < 2 or (len(counts) > _MOST and len(counts) > len(names) / 2):  # noqa: PLR2004 - a choice needs two
        return None
    return _category(names, counts.index.tolist())


def _category(names: pd.Series[Any], order: list[str]) -> Category:
    return Category(order, pd.Categorical(names, categories=order).codes.astype(np.int32))


def _labels(rows: list[list[Any]]) -> Labels | None:
    if any(isinstance(part, (dict, *_MANY)) for row in rows for part in row):
        return None
    labels = Labels([set(map(str, row)) for row in rows])
    return labels if 0 < len(labels.masks) <= _MOST else None


class Filters:
    """The rows of n items under a search and facets; `columns` (n,) are further ones to choose by."""

    def __init__(self, items: Items, columns: Mapping[str, pd.Series[Any]]) -> None:
        frame = items.frame
        self._n = len(frame)
        self._last: tuple[tuple[str, str, bool], Mask] | None = None
        self.facets: dict[str, Facet] = {}
        for name, column in [(n, frame[n]) for n in ITEM_FACETS] + list(columns.items()):
            made = facet(column)
            if made and not (name == "variant" and column.equals(frame["word_class"])):
                self.facets[name] = made
        texts, starts = frame["text"].tolist(), [spans[-1][0] for spans in frame["sentences"]]
        values = {
            "passage": texts,
            "sentence": [text[start:] for text, start in zip(texts, starts, strict=True)],
            "answer": [answer if isinstance(answer, str) else "" for answer in frame["answer"]],
            "id": frame["item_id"].tolist(),
        }
        self._fields = {name: pa.array(column, pa.large_string()) for name, column in values.items()}
        self._tokenised = bool(frame["tokenised"].any())

    def checked(self, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Return the filters with all their parts, or raise DataError with what is wrong in them."""
        checked = NO_FILTERS | dict(filters)
        if unknown := set(checked) - set(NO_FILTERS):
            raise DataError(f"there is no filter {min(unknown)!r}; known are {', '.join(NO_FILTERS)}")
        if checked["field"] not in FIELDS:
            raise DataError(f"there is no field {checked['field']!r}; known are {', '.join(FIELDS)}")
        for name, chosen in checked["facets"].items():
            if name not in self.facets:
                known = ", ".join(self.facets)
                raise DataError(f"there is no column {name!r} to filter by; known are {known}")
            if isinstance(chosen, str) or not isinstance(chosen, Sequence):
                raise DataError(f"the filter {name!r} is {chosen!r}, expected a list")
            if isinstance(self.facets[name], Number) and not _is_range(chosen):
                raise DataError(f"the filter {name!r} is {chosen!r}, expected [lowest, highest]")
        checked["facets"] = {
            name: [(YES if value else NO) if isinstance(value, bool) else value for value in chosen]
            for name, chosen in checked["facets"].items()
            if len(chosen)
        }
        checked["query"], checked["regex"] = str(checked["query"]), bool(checked["regex"])
        return checked

    def apply(self, filters: Mapping[str, Any]) -> tuple[Mask, dict[str, dict[str, Any]]]:
        """Return the rows that pass, and each facet as the others leave it.

        The counts beside a facet's choices are those that a click would give: all other
        filters hold, the facet's own does not.
        """
        mask = self._search(filters)
        chosen = filters["facets"]
        masks = {name: self.facets[name].mask(chosen[name]) for name in chosen}
        described = {}
        for name, made in self.facets.items():
            others = [mask for other, mask in masks.items() if other != name]
            counts = made.describe(_all(mask, others), chosen.get(name, ()))
            described[name] = column_label(name)._asdict() | counts
        return _all(mask, masks.values()), described

    def mask(self, filters: Mapping[str, Any], *, but: str | None = None) -> Mask:
        """Return the rows that pass all of the checked `filters` except that on the column `but`."""
        chosen = {name: values for name, values in filters["facets"].items() if name != but}
        return _all(self._search(filters), (self.facets[name].mask(chosen[name]) for name in chosen))

    def _search(self, filters: Mapping[str, Any]) -> Mask:
        query = filters["query"].strip()
        if not query:
            return np.ones(self._n, dtype=bool)
        key = (query, filters["field"], filters["regex"])
        if self._last is not None and self._last[0] == key:  # a facet is clicked: the search stands
            return self._last[1]
        column = self._fields[filters["field"]]
        mask = np.zeros(self._n, dtype=bool)
        for pattern in patterns(query, regex=filters["regex"], tokenised=self._tokenised):
            mask |= _matches(column, pattern)
        if "/" in query and not filters["regex"]:
            mask |= pc.match_substring(self._fields["id"], query).to_numpy(zero_copy_only=False)
        mask.flags.writeable = False
        self._last = (key, mask)
        return mask


def patterns(query: str, *, regex: bool, tokenised: bool) -> list[str]:
    r"""Return the regular expressions (RE2's syntax) that a query stands for.

    Plain text is taken as it is and, over tokenised items, also as the tokens it would
    be there, so that ``didn't`` finds ``did n't``.
    """
    if regex:
        return [query]
    forms = [query]
    if tokenised and (tokens := " ".join(wt.tokenize(query))) not in ("", query):
        forms.append(tokens)
    return ["".join(c if c.isalnum() or c in " _" or not c.isascii() else f"\\{c}" for c in f) for f in forms]


def hits(text: str, expressions: Iterable[str]) -> list[Span]:
    """Return where the patterns match in `text`, in order and without overlap."""
    spans: list[Span] = []
    column = pa.array([text], pa.large_string())
    opening, closing = islice((mark for mark in map(chr, _MARKS) if mark not in text), 2)
    for pattern in expressions:
        try:
            replaced = pc.replace_substring_regex(column, f"(?i)({pattern})", f"{opening}\\1{closing}")
        except pa.ArrowInvalid:  # such as an open \Q, which takes our bracket for its own
            continue
        first, *others = replaced[0].as_py().split(opening)
        place = len(first)
        for piece in others:
            inside, _, after = piece.partition(closing)
            if inside:
                spans.append((place, place + len(inside)))
            place += len(inside) + len(after)
    merged: list[Span] = []
    for start, end in sorted(spans):
        if not merged or start >= merged[-1][1]:
            merged.append((start, end))
    return merged


def item_hits(item: Item, filters: Mapping[str, Any]) -> list[Span]:
    """Return where in the released text of an item the search of checked filters matches."""
    query = filters["query"].strip()
    if not query or filters["field"] == "answer":
        return []
    first = item.sentences[-1][0] if filters["field"] == "sentence" else 0
    spans = hits(item.text[first:], patterns(query, regex=filters["regex"], tokenised=item.tokenised))
    return [(start + first, end + first) for start, end in spans]


def _matches(column: pa.Array, pattern: str) -> Mask:
    try:
        matches = pc.match_substring_regex(column, pattern, ignore_case=True)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"this is no regular expression: {error}", remedy="RE2's syntax is understood (no look-around)"
        ) from error
    mask: Mask = matches.to_numpy(zero_copy_only=False)
    return mask


def _all(first: Mask, others: Iterable[Mask]) -> Mask:
    for mask in others:
        first = first & mask
    return first


def _is_range(chosen: Sequence[Any]) -> bool:
    return len(chosen) == 2 and all(  # noqa: PLR2004 - two ends
        end is None or (isinstance(end, (int, float)) and not isinstance(end, bool)) for end in chosen
    )
