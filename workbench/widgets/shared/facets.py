"""Search and facets over items: the rows that filters let through, and the counts beside choices."""

from __future__ import annotations

import sys
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
from workbench.items.cells import check_encodable
from workbench.items.items import Item, Items, Span
from workbench.items.query import Query, of_facets, parse
from workbench.items.schema import objects
from workbench.render.labels import column_label
from workbench.storage.errors import DataError

Mask = NDArray[np.bool_]

FIELDS = ("passage", "sentence", "answer")
NO_FILTERS: dict[str, Any] = {
    "query": "", "field": "passage", "regex": False, "facets": {}, "where": "", "sort": "",
}  # fmt: skip
ITEM_FACETS = ("dataset", "split", "variant", "word_class", "book_id")
TAGS = "tags"
NONE = "(none)"
YES, NO, UNKNOWN = "yes", "no", "unknown"
MISSING = {"mention_distance": "no earlier mention"}
"""What a missing number of a column means; "missing" for all others."""

_BINS = 24
_MOST = 200
_LARGEST = sys.float_info.max  # of a number; NaN and infinity are no ends of a range
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
        """Return the rows inside the range; None leaves an end open, and ``[None]`` is for missing values."""
        if len(chosen) == 1:
            return np.isnan(self.values)
        low, high = chosen
        inside = ~np.isnan(self.values)
        if low is not None:
            inside &= self.values >= low
        if high is not None:
            inside &= self.values <= high
        return inside

    def describe(self, rows: Mask, chosen: Sequence[float | None]) -> dict[str, Any]:  # noqa: ARG002 - as its twins
        """Return the ends of the whole column, a histogram of `rows` over it, and how many have no value."""
        finite, missing = np.isfinite(self.values), np.isnan(self.values)
        known = self.values[finite]
        described: dict[str, Any] = {
            "kind": "number", "low": None, "high": None, "bars": [],
            "whole": bool((known == np.round(known)).all()),
            "missing": int((missing & rows).sum()) if missing.any() else None,
        }  # fmt: skip
        if len(known):
            low, high = float(known.min()), float(known.max())
            bars = even_bins(low, high, _BINS).count(self.values[rows & finite]).tolist()
            described |= {"low": low, "high": high, "bars": bars}
        return described


Facet = Category | Labels | Number


def facet(column: pd.Series[Any]) -> Facet | None:
    """Make a facet of a column: numbers a range, anything else categories; None where it tells nothing.

    Truth values, nullable or not, are the categories YES, NO and UNKNOWN, in this order. Lists are label
    sets; columns of other objects, of one value only, or of text or labels that differ from row to row (ids,
    notes, tokens) have nothing to choose by.
    """
    kinds = _kinds(column)
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


def _kinds(column: pd.Series[Any]) -> set[type]:
    return {type(value) for value in column.head(1000)} - {type(None), type(pd.NA), float}


def _category(names: pd.Series[Any], order: list[str]) -> Category:
    return Category(order, pd.Categorical(names, categories=order).codes.astype(np.int32))


def _labels(rows: list[list[Any]]) -> Labels | None:
    if any(isinstance(part, (dict, *_MANY)) for row in rows for part in row):
        return None
    labels = Labels([set(map(str, row)) for row in rows])
    return labels if 0 < len(labels.masks) <= _MOST else None


class Filters:
    """The rows of n items under a search, facets and a typed condition, and their order.

    `columns` (n,) are those to choose and sort by besides the items' own.
    """

    def __init__(self, items: Items, columns: Mapping[str, pd.Series[Any]]) -> None:
        frame = items.frame
        self._n = len(frame)
        self._last: tuple[tuple[str, str, bool], Mask] | None = None
        self._parsed: tuple[str, Mask] | None = None
        self.facets: dict[str, Facet] = {}
        self.table = frame[["item_id", "answer", *ITEM_FACETS]].assign(**dict(columns))
        self.sortable = [str(name) for name in self.table if not _kinds(self.table[name]) & {dict, *_MANY}]
        for name in (*ITEM_FACETS, *columns):
            made = facet(self.table[name])
            if made and not (name == "variant" and self.table[name].equals(frame["word_class"])):
                self.facets[name] = made
        starts = [spans[-1][0] for spans in frame["sentences"]]
        columns_of_text = {
            "passage": frame["text"],
            "sentence": [text[start:] for text, start in zip(frame["text"], starts, strict=True)],
            "answer": frame["answer"].fillna(""),
            "id": frame["item_id"],
        }  # the items' own memory, but for the sentences: a notebook keeps many widgets of the same items
        self._fields = {name: pa.array(column, pa.large_string()) for name, column in columns_of_text.items()}
        self._tokenised = bool(frame["tokenised"].any())

    def set_tags(self, rows: Sequence[Sequence[str]]) -> None:
        """Set the tags of the items, a facet and a column as others are."""
        self.facets[TAGS] = Labels(rows)
        self.table[TAGS] = objects([list(row) or None for row in rows])
        self._parsed = None

    def checked(self, filters: Mapping[str, Any]) -> dict[str, Any]:  # noqa: C901 - one check a part
        """Return the filters with all their parts, or raise DataError with what is wrong in them."""
        checked = NO_FILTERS | dict(filters)
        if unknown := set(checked) - set(NO_FILTERS):
            raise DataError(
                f"there is no filter {min(map(str, unknown))!r}; known are {', '.join(NO_FILTERS)}"
            )
        if checked["field"] not in FIELDS:
            raise DataError(f"there is no field {checked['field']!r}; known are {', '.join(FIELDS)}")
        facets = {}
        if not isinstance(checked["facets"], Mapping):
            raise DataError(f"the facets are {checked['facets']!r:.80}, expected lists of values by column")
        for name, choice in checked["facets"].items():
            if name not in self.facets:
                known = ", ".join(self.facets)
                raise DataError(f"there is no column {name!r} to filter by; known are {known}")
            chosen, excluded = chosen_values(choice)
            listed = isinstance(chosen, Sequence) and all(map(pd.api.types.is_scalar, chosen))
            if isinstance(chosen, str) or not listed:
                raise DataError(f"the filter {name!r} is {chosen!r}, expected a list")
            if isinstance(self.facets[name], Number) and not _is_range(chosen):
                expected = "[lowest, highest], or [None] for missing values"
                raise DataError(f"the filter {name!r} is {chosen!r}, expected {expected}")
            if len(chosen):
                names = [(YES if value else NO) if isinstance(value, bool) else value for value in chosen]
                facets[name] = {"not": names} if excluded else names
        for part in ("query", "where", "sort"):
            checked[part] = str(checked[part] or "")
        check_encodable(checked["query"], "the search")
        if (column := checked["sort"].removeprefix("-")) and column not in self.sortable:
            known = ", ".join(map(str, self.sortable))
            raise DataError(f"there is no column {column!r} to sort by; known are {known}")
        return checked | {
            "facets": facets,
            "where": checked["where"].strip(),
            "regex": bool(checked["regex"]),
        }

    def order(self, sort: str) -> NDArray[np.intp]:
        """Return all rows sorted by a column, in descending order with ``-`` before it; missing come last."""
        if not sort:
            return np.arange(self._n)
        column = self.table[sort.removeprefix("-")].reset_index(drop=True)
        if not pd.api.types.is_numeric_dtype(column):
            column = column.astype("str").str.casefold().where(column.notna())
        ascending = not sort.startswith("-")
        return column.sort_values(ascending=ascending, kind="stable").index.to_numpy()

    def text(self, filters: Mapping[str, Any]) -> str:
        """Return the facets of checked filters and the typed condition as one text, as it could be typed."""
        clicked, where = self._clicked(filters["facets"]), filters["where"]
        if clicked is None:
            return str(where)
        return str(clicked & parse(where) if where else clicked)

    def typed(self, text: str, filters: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked filters after their :meth:`text` was edited; facets that still begin it stay."""
        text, clicked = text.strip(), self._clicked(filters["facets"])
        rest = text.removeprefix(str(clicked)).strip()
        if clicked is not None and text.startswith(str(clicked)):
            where = rest.removeprefix("and ").strip()
            if not rest or (where != rest and parse(text) == clicked & parse(where)):
                return {**filters, "where": where}
        return {**filters, "facets": {}, "where": text}

    def _clicked(self, facets: Mapping[str, Any]) -> Query | None:
        query = None
        for name, choice in facets.items():
            chosen, excluded = chosen_values(choice)
            values: dict[str, Any] = {} if isinstance(self.facets[name], Number) else {NONE: None}
            if pd.api.types.infer_dtype(self.table[name], skipna=True) == "boolean":
                values = {YES: True, NO: False, UNKNOWN: None}
            part = of_facets({name: [values.get(value, value) for value in chosen]})
            if part is not None:
                part = ~part if excluded else part
                query = part if query is None else query & part
        return query

    def _where(self, text: str) -> Mask:
        if not text:
            return np.ones(self._n, dtype=bool)
        if self._parsed is None or self._parsed[0] != text:
            self._parsed = (text, parse(text).mask(self.table))
        return self._parsed[1]

    def apply(self, filters: Mapping[str, Any]) -> tuple[Mask, dict[str, dict[str, Any]]]:
        """Return the rows that pass, and each facet as the others leave it.

        The counts beside a facet's choices are those that a click would give: all other
        filters hold, the facet's own does not.
        """
        mask = self._search(filters) & self._where(filters["where"])
        chosen = filters["facets"]
        masks = {name: self._chosen(name, chosen[name]) for name in chosen}
        described = {}
        for name, made in self.facets.items():
            others = [mask for other, mask in masks.items() if other != name]
            counts = made.describe(_all(mask, others), chosen_values(chosen.get(name, ()))[0])
            described[name] = column_label(name)._asdict() | counts
            if "missing" in counts:
                described[name]["missing_label"] = MISSING.get(name, "missing")
        return _all(mask, masks.values()), described

    def mask(self, filters: Mapping[str, Any], *, but: str | None = None) -> Mask:
        """Return the rows that pass all of the checked `filters` except that on the column `but`."""
        chosen = {name: values for name, values in filters["facets"].items() if name != but}
        mask = self._search(filters) & self._where(filters["where"])
        return _all(mask, (self._chosen(name, chosen[name]) for name in chosen))

    def _chosen(self, name: str, choice: Any) -> Mask:
        chosen, excluded = chosen_values(choice)
        mask = self.facets[name].mask(chosen)
        return ~mask if excluded else mask

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
            f"Invalid regular expression: {str(error).split(': ', 1)[-1]} (RE2 syntax; no look-around)"
        ) from error
    mask: Mask = matches.to_numpy(zero_copy_only=False)
    return mask


def _all(first: Mask, others: Iterable[Mask]) -> Mask:
    for mask in others:
        first = first & mask
    return first


def chosen_values(choice: Any) -> tuple[Any, bool]:
    """Return the values that a facet's choice names, and whether it excludes them (``{"not": [...]}``)."""
    return (choice.get("not"), True) if isinstance(choice, Mapping) else (choice, False)


def _is_range(chosen: Sequence[Any]) -> bool:
    if list(chosen) in ([], [None]):
        return True
    return len(chosen) == 2 and all(  # noqa: PLR2004 - two ends
        end is None or (isinstance(end, (int, float)) and not isinstance(end, bool) and abs(end) <= _LARGEST)
        for end in chosen
    )
