"""A list of items under one state: facets, a condition in SQL, a search, an order, the current item.

The state is a plain dict that lives in the kernel and rebuilds the view. Clicks write facets, people write
the condition; neither is parsed from the other.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.binning import MISSING, NULL, Binning, Mask, binning
from workbench.items.cells import check_encodable
from workbench.items.items import Items
from workbench.items.query import Cells, columns_of, quoted, values_of, where_mask
from workbench.items.schema import objects
from workbench.render.labels import column_label, label
from workbench.storage.errors import DataError, check_option, check_value
from workbench.widgets.shared.passages import cell_text
from workbench.widgets.shared.search import FIELDS, TextSearch

STATE: dict[str, Any] = {
    "facets": {}, "where": "", "search": "", "field": "passage", "regex": False, "sort": "", "current": "",
}  # fmt: skip
"""The state in which all items are listed; see :class:`Listing`."""

ITEM_FACETS = ("dataset", "split", "variant", "word_class", "book_id")
TAGS = "tags"

_LARGEST = sys.float_info.max  # NaN and infinity are not ends of a range
_ORIGIN = ("dataset", "split", "variant")
_SEVERAL = 2  # values of one of these that are named
_MAX_VALUES = 200  # of a facet that are sent to the page
_SEQUENCES = (list, tuple, set, frozenset, np.ndarray)
_FACET_TYPES: dict[str, tuple[type, ...]] = {
    "numbers": (int, float), "text": (str,), "labels": (str,), "yes or no": (bool,), "nothing": (),
}  # fmt: skip


class Listing:
    """Items (n) with columns to filter and sort by, under a state.

    A row is listed if all parts of the state say so. ``facets`` holds a choice per column: of a column of
    numbers a closed range ``[low, high]``, with None for an open end, or ``[None]`` for the rows without a
    number; of any other column a list of its values, in which None stands for the rows without a value.
    ``where`` is a condition in SQL (:mod:`workbench.items.query`); ``search`` a text to search for in a
    ``field``, as a regular expression if ``regex``. ``sort`` is a column, in descending order with ``-``
    before it, and ``current`` the id of an item.

    Attributes
    ----------
    rows : array of int
        Places of the listed items, in their order.
    version : int
        Grows with every change of the list.
    table : DataFrame (n rows)
        The columns that a condition can name.
    """

    def __init__(self, items: Items, columns: Mapping[str, pd.Series[Any]]) -> None:
        frame = items.frame
        self.table = frame[["item_id", "answer", *ITEM_FACETS]].assign(**dict(columns))
        names = map(str, self.table)
        self.sortable = [name for name in names if not _cell_types(self.table[name]) & {dict, *_SEQUENCES}]
        self.facets: MutableMapping[str, Binning] = {}
        for name in (*ITEM_FACETS, *columns):
            column_bins = facet(name, self.table[name])
            if column_bins and not (name == "variant" and self.table[name].equals(frame["word_class"])):
                self.facets[name] = column_bins
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
        for name in state:
            check_option("an entry of the state", name, list(STATE))
        checked = STATE | dict(state)
        facets = checked["facets"] or {}
        check_value("facets", facets, isinstance(facets, Mapping), "a choice by the name of a column")
        checked["facets"] = {
            name: choice for name, values in facets.items() if (choice := self._checked_facet(name, values))
        }
        check_option("field", checked["field"], FIELDS)
        for name in ("where", "search", "sort", "current"):
            checked[name] = str(checked[name] or "")
        checked |= {"where": checked["where"].strip(), "regex": bool(checked["regex"])}
        check_encodable(checked["search"], "the search")
        if column := checked["sort"].removeprefix("-"):
            check_option("sort", column, self.sortable)
        return checked

    def _checked_facet(self, name: str, values: Any) -> list[Any]:
        """Return the choice of a column, or raise DataError."""
        check_option("the facet", name, list(self.facets))
        value_type = self.facets[name].value_type
        if not isinstance(values, list | tuple):
            raise DataError(f"the facet {name!r} is {values!r:.80}, expected a list")
        choice = [None if value is None else value for value in values]
        valid = all(
            value is None
            or (
                isinstance(value, _FACET_TYPES[value_type])
                and isinstance(value, bool) == (value_type == "yes or no")
            )
            for value in choice
        )
        if value_type == "numbers":
            expected = "[lowest, highest], or [None] for rows without a number"
            valid = valid and all(value is None or abs(value) <= _LARGEST for value in choice)
            valid = valid and (choice in ([], [None]) or len(choice) == 2)  # noqa: PLR2004 - two ends
        else:
            expected = f"values of the column ({value_type}), or None for rows without one"
        if not valid:
            raise DataError(f"the facet {name!r} is {values!r:.80}, expected {expected}")
        return choice if value_type == "numbers" else list(dict.fromkeys(choice))

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
            raise DataError(f"the item {current!r} is not among those shown", hint="loosen the filters")
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
        if state["search"].strip():
            mask = self.search.mask(state)
        if where := state["where"]:
            mask = mask & self._cached(where, partial(self._condition_mask, where))
        for name, values in state["facets"].items():
            if name not in but:
                mask = mask & self._cached(f"{name}: {values!r}", partial(self._facet_mask, name, values))
        return mask

    def _condition_mask(self, where: str) -> Mask:
        return where_mask(self._table_of(columns_of(where, self.names)), where)

    def _facet_mask(self, name: str, values: Sequence[Any]) -> Mask:
        return facet_mask(self._table_of([name]), name, values)

    def _cached(self, key: str, compute: Callable[[], Mask]) -> Mask:
        """Return the mask of a facet or condition, computed when it is first needed."""
        if key not in self._masks:
            if len(self._masks) > _MAX_VALUES:
                self._masks = {}
            self._masks[key] = compute()
        return self._masks[key]

    @property
    def names(self) -> list[str]:
        """The names of the columns of the table."""
        return list(map(str, self.table))

    def _table_of(self, columns: Collection[str]) -> pd.DataFrame:
        """Return the table with at least these columns."""
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

    # -- facets, as the page and its summary show them

    def describe(self, name: str) -> dict[str, Any]:
        """Return a facet as the page draws it: the total and the passing rows of each bin.

        The numbers are those that a click would give: all other filters hold, the facet's own does not.
        """
        column, chosen = self.facets[name], self.state["facets"].get(name)
        counts = column.count(self.mask(but=[name] if chosen else ()))
        rows = [
            [b.facet, b.label, len(b.rows), count]
            for index, (b, count) in enumerate(zip(column.bins, counts, strict=True))
            if index < _MAX_VALUES or b.key == NULL or (chosen and b.facet and b.facet[0] in chosen)
        ]
        return column_label(name)._asdict() | {
            "kind": "numbers" if column.value_type == "numbers" else "choice",
            "bins": [row for row in rows if row[0] != [None]], "more": len(column.bins) - len(rows),
            "null": next((row for row in rows if row[0] == [None]), None),
            "text": self._phrase(name) if chosen else None,
        }  # fmt: skip

    def words(self) -> list[tuple[str, dict[str, Any]]]:
        """Describe each facet, the condition and the search, with the change of state that removes it."""
        state = self.state
        terms: list[tuple[str, dict[str, Any]]] = [
            (self._phrase(name), {"facets": self._facets_without(name)}) for name in state["facets"]
        ]
        if state["where"]:
            terms.append((state["where"], {"where": ""}))
        if words := state["search"].strip():
            how = "matches the expression" if state["regex"] else "contains"
            terms.append((f"{state['field']} {how} “{words}”", {"search": ""}))
        return terms

    def _facets_without(self, *names: str) -> dict[str, Any]:
        return {name: values for name, values in self.state["facets"].items() if name not in names}

    def _phrase(self, name: str) -> str:
        """Describe the facet of a column."""
        column, values = self.facets[name], self.state["facets"][name]
        if column.value_type == "numbers" and values != [None]:
            low, high = values
            text = range_text(low, high, column_label(name).unit)
        else:
            labels = {b.facet[0]: b.label for b in column.bins if b.facet}
            null = MISSING.get(name, "not known")
            text = " or ".join(labels.get(v, null if v is None else cell_text(v)) for v in values)
        return f"{label(name)}: {text}"

    @cached_property
    def origin(self) -> str:
        """Data set, split and variant of the items: ``sample, dev, capitalised``; many are left out."""
        values = [self.items.frame[name].dropna().unique().tolist() for name in _ORIGIN]
        names = [" and ".join(map(str, each)) for each in values if len(each) <= _SEVERAL]
        return ", ".join(dict.fromkeys(filter(None, names)))

    @cached_property
    def varying(self) -> list[str]:
        """The columns to sort by in which the items differ."""
        columns = {name: self.table[name] for name in self.sortable}
        mixed = {name: cells.astype("str") for name, cells in columns.items() if cells.dtype == object}
        return [name for name, cells in (columns | mixed).items() if len(cells.unique()) > 1]

    def example(self, columns: Iterable[str]) -> str:
        """Return a condition on the first of these columns of text, ``genre = 'fantasy'``; "" without one."""
        for name in columns:
            for each in self.facets[name].bins:
                if self.facets[name].value_type == "text" and each.facet and each.facet[0] is not None:
                    value = str(each.facet[0]).replace("'", "''")
                    return f"{quoted(name)} = '{value}'"
        return ""

    def completions(self) -> list[str]:
        """Return the columns as a condition names them."""
        return list(map(quoted, self.names))


def facet_mask(table: pd.DataFrame, name: str, values: Sequence[Any]) -> Mask:
    """Return the rows of a table that a facet lists, as an array of bool (n,); see :class:`Listing`."""
    cells = Cells(table, name)
    if cells.value_type == "numbers" and list(values) != [None]:
        low, high = (
            end if value is None else value for value, end in zip(values, (-np.inf, np.inf), strict=True)
        )
        return np.asarray((low <= cells.data) & (cells.data <= high))
    mask = cells.equal([value for value in values if value is not None])
    return mask | cells.missing if None in values else mask


def facet(name: str, column: pd.Series[Any]) -> Binning | None:
    """Return the bins of a column to choose from, or None if it is not suitable.

    These are columns of other objects, of one value only, and of text or labels that differ from row to row
    (ids, notes, tokens).
    """
    types = _cell_types(column)
    cells = [cell for cell in column.head(1000) if isinstance(cell, _SEQUENCES)]
    nested = any(isinstance(value, (dict, *_SEQUENCES)) for cell in cells for value in cell)
    if nested or dict in types or (types & set(_SEQUENCES) and types - set(_SEQUENCES)):
        return None
    column_bins = binning(name, column)
    n = sum(b.key != NULL for b in column_bins.bins)
    if column_bins.value_type == "labels":
        return column_bins if n <= _MAX_VALUES else None
    if column_bins.value_type in ("numbers", "nothing"):
        return column_bins if n > 1 else None
    is_id = n > _MAX_VALUES and n > len(column) / 2
    return column_bins if len(column_bins.bins) > 1 and not is_id else None


def _cell_types(column: pd.Series[Any]) -> set[type]:
    return {type(value) for value in column.head(1000)} - {type(None), type(pd.NA), float}


def range_text(low: float | None, high: float | None, unit: str) -> str:
    """Describe a range of numbers with its unit; a range of a bin ends just below the next one."""
    rounded = [None if end is None else float(f"{end:.12g}") for end in (low, high)]
    first, last = (
        cell_text(None if end is None else int(end) if end == int(end) else end) for end in rounded
    )
    below = rounded[1] != high
    if low == high:
        text = first or "any number of"
    elif low is None:
        text = f"{'below' if below else 'at most'} {last}"
    else:
        text = f"{first} or more" if high is None else f"{first} to {'below ' if below else ''}{last}"
    return f"{text} {unit}".rstrip()
