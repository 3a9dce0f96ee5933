"""A list of items under one state: a typed filter, a text search, an order and the current item."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.binning import NULL, Binning, Mask, binning
from workbench.items.cells import check_encodable
from workbench.items.items import Items
from workbench.items.query import Query, all_of, of_facets, parse, values_of
from workbench.items.schema import objects
from workbench.render.labels import column_label, label
from workbench.storage.errors import DataError, check_option
from workbench.widgets.shared.passages import cell_text
from workbench.widgets.shared.search import FIELDS, TextSearch

STATE: dict[str, Any] = {
    "where": "", "query": "", "field": "passage", "regex": False, "sort": "", "current": "",
}  # fmt: skip
"""The state in which all items are listed; see :class:`Listing`."""

ITEM_FACETS = ("dataset", "split", "variant", "word_class", "book_id")
TAGS = "tags"

_LARGEST = sys.float_info.max  # NaN and infinity are not ends of a range
_LIMIT = 200  # values of a facet that are sent to the page
_MANY = (list, tuple, set, frozenset, np.ndarray)
_WORDS = {"yes": True, "no": False, "unknown": None, "(none)": None, "not known": None}


@lru_cache(maxsize=64)
def clauses(where: str) -> tuple[Query, ...]:
    """Return the clauses of a typed filter that are joined by ``and``; empty for an empty filter."""
    return parse(where).clauses if where.strip() else ()


def columns_clause(where: str, columns: Collection[str]) -> Query | None:
    """Return the part of a typed filter on these columns only, or None."""
    matching = [clause for clause in clauses(where) if set(clause.columns) <= set(columns)]
    return all_of(matching) if matching else None


def replace_clause(where: str, columns: Collection[str], query: Query | None) -> str:
    """Return a typed filter with another clause on these columns, in place of the previous one."""
    typed = clauses(where)
    replaced_at = [index for index, clause in enumerate(typed) if set(clause.columns) <= set(columns)]
    if query is None and not replaced_at:
        return where
    first = replaced_at[0] if replaced_at else len(typed)
    rest = [clause for index, clause in enumerate(typed) if index not in replaced_at]
    merged = [*rest[:first], *([query] if query is not None else []), *rest[first:]]
    return str(all_of(merged)) if merged else ""


class Listing:
    """Items (n) with columns to filter and sort by, under a state.

    A state has the parts of `STATE`: ``where``, a filter in the language of ``Items.query``; ``query``, text
    to search for in a ``field``, as a regular expression if ``regex``; ``sort``, a column, in descending
    order with ``-`` before it; and ``current``, the id of an item. A clause of the filter that names one
    column alone is the choice of that column.

    Attributes
    ----------
    rows : array of int
        Places of the listed items, in their order.
    version : int
        Grows with every change of the list.
    table : DataFrame (n rows)
        The columns that a filter can name.
    """

    def __init__(self, items: Items, columns: Mapping[str, pd.Series[Any]]) -> None:
        frame = items.frame
        self.table = frame[["item_id", "answer", *ITEM_FACETS]].assign(**dict(columns))
        names = map(str, self.table)
        self.sortable = [name for name in names if not _cell_types(self.table[name]) & {dict, *_MANY}]
        self.facets: MutableMapping[str, Binning] = {}
        for name in (*ITEM_FACETS, *columns):
            made = facet(name, self.table[name])
            if made and not (name == "variant" and self.table[name].equals(frame["word_class"])):
                self.facets[name] = made
        self._start(items)

    def _start(self, items: Items) -> None:
        """List all items."""
        self.items = items
        self._row_of = {item_id: row for row, item_id in enumerate(items.frame["item_id"].tolist())}
        self._masks: dict[str, Mask] = {}
        self.state, self.version = dict(STATE), 0
        self.rows, self._index = np.arange(len(items)), np.arange(len(items))
        self.apply({})

    @cached_property
    def search(self) -> TextSearch:
        """The text search, made on first use."""
        return TextSearch(self.items)

    def set_tags(self, rows: Sequence[Sequence[str]]) -> None:
        """Set the tags of the items, which are a facet and a column."""
        self.table[TAGS] = objects([list(row) or None for row in rows])
        self.facets[TAGS] = binning(TAGS, self.table[TAGS])
        self._masks = {}

    # -- the state

    def checked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a complete, valid state, or raise DataError with the problem."""
        checked = STATE | dict(state)
        for name in checked:
            check_option("the filter", name, list(STATE))
        check_option("field", checked["field"], FIELDS)
        for name in ("where", "query", "sort", "current"):
            checked[name] = str(checked[name] or "")
        checked |= {"where": checked["where"].strip(), "regex": bool(checked["regex"])}
        check_encodable(checked["query"], "the search")
        if column := checked["sort"].removeprefix("-"):
            check_option("sort", column, self.sortable)
        return checked

    def apply(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Apply a state, and return it complete; DataError leaves the list unchanged.

        The current item stays while it is listed; else it is the first one.
        """
        checked, before = self.checked(state), self.state
        current = checked["current"]
        moved = {name for name, value in checked.items() if value != before.get(name)} - {"current"}
        rows, index = self.rows, self._index
        if moved or not self.version:
            mask, order = self._passing(checked), self._order(checked)
            rows = order[mask[order]]
            index = np.full(len(self.items), -1)
            index[rows] = np.arange(len(rows))
        listed = current in self._row_of and index[self._row_of[current]] >= 0
        if current and not listed and current != before["current"]:
            raise DataError(f"the item {current!r} is not among those shown", remedy="loosen the filters")
        if not listed:
            checked["current"] = str(self.items.frame["item_id"].iloc[rows[0]]) if len(rows) else ""
        if moved or not self.version:
            self.version += 1
        self.rows, self._index, self.state = rows, index, checked
        return dict(checked)

    def index(self, item_id: str) -> int:
        """Return the position of an item in the list, or -1 if it is not listed."""
        row = self._row_of.get(item_id)
        return -1 if row is None else int(self._index[row])

    def row_of(self, item_id: str) -> int:
        """Return the row of an item."""
        return self._row_of[item_id]

    @property
    def selection(self) -> Items:
        """The listed items, in their order."""
        if self.state["sort"]:
            frame = self.items.frame.iloc[self.rows].reset_index(drop=True)
            return Items(frame, attrs=self.items.attrs)
        mask = np.zeros(len(self.items), dtype=bool)
        mask[self.rows] = True
        return self.items.where(mask)

    # -- what passes

    def mask(self, *, but: Collection[str] = ()) -> Mask:
        """Return the mask of passing rows, shape (n,), ignoring the choices of some columns."""
        return self._passing(self.state, but)

    def _passing(self, state: Mapping[str, Any], but: Collection[str] = ()) -> Mask:
        mask = np.ones(len(self.items), dtype=bool)
        if state["query"].strip():
            mask = self.search.mask(state)
        for clause in clauses(state["where"]):
            if not set(clause.columns) <= set(but):
                mask = mask & self._clause(clause)
        return mask

    def _clause(self, clause: Query) -> Mask:
        text = str(clause)
        if text not in self._masks:
            if len(self._masks) > _LIMIT:
                self._masks = {}
            self._masks[text] = clause.mask(self._table_of(clause.columns))
        return self._masks[text]

    def _table_of(self, columns: Collection[str]) -> pd.DataFrame:
        """Return the table with at least the available ones of these columns."""
        del columns
        return self.table

    def _order(self, state: Mapping[str, Any]) -> NDArray[np.intp]:
        """Return all rows in the order of a state; missing values come last."""
        sort: str = state["sort"]
        if not sort:
            return np.arange(len(self.items))
        column = values_of(self.table[sort.removeprefix("-")]).reset_index(drop=True)
        if not pd.api.types.is_numeric_dtype(column):
            column = column.astype("str").str.casefold().where(column.notna())
        return column.sort_values(ascending=not sort.startswith("-"), kind="stable").index.to_numpy()

    # -- the choices of columns

    def choose(self, where: str, choices: Mapping[str, Any]) -> str:
        """Return a typed filter with changed choices of columns; None removes the choice of a column.

        A choice is a dict with ``keys`` of the column's bins, or with a closed ``range`` of numbers, None for
        an open end; with ``exclude``, the other rows are listed.
        """
        for name, choice in choices.items():
            where = replace_clause(where, [name], self._choice(self.facets[name], choice))
        return where

    def _choice(self, column: Binning, choice: Mapping[str, Any] | None) -> Query | None:
        if choice is None:
            return None
        if "range" in choice:
            query = of_facets({column.name: _range(column.name, choice["range"])})
        else:
            query = column.query(choice.get("keys", ()))
        return ~query if query is not None and choice.get("exclude") else query

    def chosen(self, name: str) -> tuple[list[str], bool, tuple[float, float] | None]:
        """Return the bins in a column's clause, whether it excludes them, and its range."""
        query = columns_clause(self.state["where"], [name])
        if query is None:
            return [], False, None
        excluded = query.operator == "not"
        inner = query.subqueries[0] if excluded else query
        span = inner.interval if inner.operator != "is missing" else None
        if span and self.facets[name].integers:
            span = float(np.ceil(span[0])), float(np.floor(span[1]))
        return self.facets[name].chosen(inner, self._clause(inner)), excluded, span

    def describe(self, name: str) -> dict[str, Any]:
        """Return a facet as the page draws it: the total and the passing rows of each bin.

        The numbers are those that a click would give: all other filters hold, the facet's own does not.
        """
        column = self.facets[name]
        keys, excluded, span = self.chosen(name)
        clause = columns_clause(self.state["where"], [name])
        counts = column.count(self.mask(but=[name] if clause else ()))
        rows = [
            [b.key, b.label, len(b.rows), count]
            for index, (b, count) in enumerate(zip(column.bins, counts, strict=True))
            if index < _LIMIT or b.key in keys or b.key == NULL
        ]
        described = column_label(name)._asdict() | {
            "kind": "numbers" if column.ranges else "choice",
            "bins": [row for row in rows if row[0] != NULL], "more": len(column.bins) - len(rows),
            "null": next((row for row in rows if row[0] == NULL), None),
            "keys": keys, "excluded": excluded, "text": self._phrase((name,), clause) if clause else None,
        }  # fmt: skip
        if column.ranges:
            described["starts"] = [_finite(b.low) for b in column.ranges]
            described["ends"] = [_finite(b.high) for b in column.ranges]
            described["range"] = [_finite(end) for end in span] if span else None
        return described

    def words(self) -> list[tuple[str, dict[str, str]]]:
        """Describe each search and choice, with the change of the state that removes it."""
        state = self.state
        terms: list[tuple[str, dict[str, str]]] = []
        if words := state["query"].strip():
            how = "matches the expression" if state["regex"] else "contains"
            terms.append((f"{state['field']} {how} “{words}”", {"query": ""}))
        groups: dict[tuple[str, ...], list[Query]] = {}
        for clause in clauses(state["where"]):
            groups.setdefault(self._group(clause), []).append(clause)
        for names, queries in groups.items():
            rest = [clause for clause in clauses(state["where"]) if self._group(clause) != names]
            terms.append((self._phrase(names, all_of(queries)), {"where": str(all_of(rest)) if rest else ""}))
        return terms

    def _group(self, clause: Query) -> tuple[str, ...]:
        """Return the columns of the choice that a clause belongs to."""
        return clause.columns

    def _phrase(self, names: tuple[str, ...], query: Query) -> str:
        """Describe a choice of bins or of a range of a column."""
        name = names[0]
        if len(names) > 1 or name not in self.facets:
            return str(query)
        keys, excluded, span = self.chosen(name)
        column, inner = self.facets[name], query.subqueries[0] if excluded else query
        chosen = column.query(keys)
        if column.ranges and span and _finite(span[0]) in (span[0], None):
            text = _span_text(*span, column_label(name).unit)
        elif chosen is not None and set(chosen.alternatives) == set(inner.alternatives):
            text = " or ".join(b.label for b in column.bins if b.key in keys)
        else:
            return str(query)
        return f"{label(name)}: {f'not {text}' if excluded else text}"


def facet(name: str, column: pd.Series[Any]) -> Binning | None:
    """Return the bins of a column to choose from, or None if it is not suitable.

    These are columns of other objects, of one value only, and of text or labels that differ from row to row
    (ids, notes, tokens).
    """
    types = _cell_types(column)
    cells = [cell for cell in column.head(1000) if isinstance(cell, _MANY)]
    nested = any(isinstance(value, (dict, *_MANY)) for cell in cells for value in cell)
    if nested or dict in types or (types & set(_MANY) and types - set(_MANY)):
        return None
    made = binning(name, column)
    n = sum(b.key != NULL for b in made.bins)
    if made.value_type == "labels":
        return made if n <= _LIMIT else None
    if made.value_type in ("numbers", "nothing"):
        return made if n > 1 else None
    return made if len(made.bins) > 1 and not (n > _LIMIT and n > len(column) / 2) else None


def facets_filter(facets: Any, listing: Listing) -> str:
    """Return choices by column as a typed filter: ``{"split": ["dev"], "n_tokens": [60, 80]}``.

    ``[None]`` chooses missing numbers, and ``{"not": [...]}`` excludes.
    """
    filters = []
    for name, choice in facets.items():
        check_option("the column", name, list(listing.facets))
        excluded = isinstance(choice, Mapping)
        values = choice.get("not") if excluded else choice
        listed = isinstance(values, Sequence) and all(map(pd.api.types.is_scalar, values))
        if isinstance(values, str) or not listed:
            raise DataError(f"the filter {name!r} is {values!r}, expected a list")
        column = listing.facets[name]
        if column.value_type == "numbers":
            values = _range(name, values)
        else:
            texts = {b.query.operands[0] for b in column.bins if b.query.operator == "="}
            values = [_WORDS.get(v, v) if isinstance(v, str) and v not in texts else v for v in values]
        query = of_facets({name: values if column.value_type == "numbers" else [*dict.fromkeys(values)]})
        if query is not None:
            filters.append(~query if excluded else query)
    return str(all_of(filters)) if filters else ""


def _range(name: str, values: Any) -> list[float | None]:
    """Return the ends of a range; DataError unless they are numbers or None."""
    numbers = isinstance(values, Sequence) and all(
        end is None or (isinstance(end, (int, float)) and not isinstance(end, bool) and abs(end) <= _LARGEST)
        for end in values
    )
    if not numbers or (list(values) not in ([], [None]) and len(values) != 2):  # noqa: PLR2004 - two ends
        expected = "[lowest, highest], or [None] for missing values"
        raise DataError(f"the filter {name!r} is {values!r:.80}, expected {expected}")
    return list(values)


def _cell_types(column: pd.Series[Any]) -> set[type]:
    return {type(value) for value in column.head(1000)} - {type(None), type(pd.NA), float}


def _finite(number: float) -> float | None:
    """Return a number for the page, None for an infinite one."""
    if not np.isfinite(number):
        return None
    rounded = float(f"{number:.12g}")
    return int(rounded) if rounded == int(rounded) else rounded


def _span_text(low: float, high: float, unit: str) -> str:
    """Describe a range of numbers with its unit."""
    ends, below = [cell_text(_finite(end)) for end in (low, high)], _finite(high) not in (high, None)
    if low == high:
        text = ends[0]
    elif np.isfinite([low, high]).all():
        text = f"{ends[0]} to {'below ' if below else ''}{ends[1]}"
    elif np.isfinite(low):
        text = f"{ends[0]} or more"
    else:
        text = f"{'below' if below else 'at most'} {ends[1]}" if np.isfinite(high) else "any number of"
    return f"{text} {unit}".rstrip()
