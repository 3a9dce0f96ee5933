"""The data of a published view: columns of text with their facets, which one script lists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.binning import Binning
from workbench.items.items import Items
from workbench.items.query import Cells, values_of
from workbench.render.labels import column_label
from workbench.widgets.shared.passages import BLANK_MARK, blanked_text, cell_text

Rows = NDArray[np.intp]


@dataclass(frozen=True)
class PublishedView:
    """The content of the page of a list."""

    shows: str  # type of the view, for the list of pages
    items: Items
    rows: Rows  # the items of the page, those that the view lists first
    in_order: bool  # whether the page lists them in the order of `rows`, not of the items
    data: Callable[[Rows], dict[str, Any]]  # columns of the rows that the page holds
    state: Mapping[str, Any]  # facets, search, sort and current item at the start
    notes: Sequence[str]  # sentences above the list
    numbers: Sequence[tuple[str, str]]  # of all items
    runs: Sequence[Any]  # stored ones that the view shows, or their names
    code: str  # Python that makes the view


def column_data(
    table: pd.DataFrame,
    name: str,
    *,
    facet: Binning | None = None,
    hidden: bool = False,
    opened: bool = False,
) -> dict[str, Any]:
    """Return a column of a page: its values in their order, each with its text, and their number per row.

    A row without a value has the number -1, and a row of several labels a list of numbers. The bins of a
    `facet` are choices of the page; it is `opened` from the start. The cells of a `hidden` column show on a
    click.
    """
    column, cells = values_of(table[name]).reset_index(drop=True), Cells(table, name)
    codes: Any
    if cells.value_type == "labels":
        words = [
            [] if missing else list(map(str, cell))
            for cell, missing in zip(column, cells.missing, strict=True)
        ]
        values = texts = sorted({word for row in words for word in row})
        number_of = {word: number for number, word in enumerate(values)}
        codes = [[number_of[word] for word in row] for row in words]
    else:
        values, texts, codes = _distinct(column, cells)
    labels = {} if facet is None else {each.facet[0]: each.label for each in facet.bins if each.facet}
    if facet is not None and cells.value_type != "numbers":
        texts = [labels.get(value, text) for value, text in zip(values, texts, strict=True)]
    return column_label(name)._asdict() | {
        "name": name, "kind": cells.value_type, "values": values, "texts": texts, "codes": codes,
        "hidden": hidden,
        "facet": facet and {
            "open": opened, "bins": [{"label": each.label, "facet": each.facet} for each in facet.bins],
        },
    }  # fmt: skip


def _distinct(column: pd.Series[Any], cells: Cells) -> tuple[list[Any], list[str], list[int]]:
    """Return the values of a column in their order, their texts, and the number of each row's value."""
    present = np.flatnonzero(~cells.missing)
    codes = np.full(len(column), -1)
    if cells.value_type == "numbers":
        numbers, first, index = np.unique(cells.data[present], return_index=True, return_inverse=True)
        largest = sys.float_info.max  # JSON has no infinite numbers
        values = [int(v) if v == int(v) else v for v in np.clip(numbers, -largest, largest).tolist()]
        codes[present] = index
        return values, [cell_text(column.iloc[row]) for row in present[first]], codes.tolist()
    if cells.value_type == "yes or no":
        codes[present] = np.asarray(cells.data)[present]
        return [False, True], ["no", "yes"], codes.tolist()
    if cells.value_type == "text":
        words: list[str] = cells.data.to_pylist()
        different = sorted({words[row] for row in present}, key=lambda word: (word.casefold(), word))
        number_of = {word: number for number, word in enumerate(different)}
        codes[present] = [number_of[words[row]] for row in present]
        return different, different, codes.tolist()
    return [], [], codes.tolist()


def passages_data(items: Items, rows: Rows) -> dict[str, list[str]]:
    """Return the readable text before and after the blank of each item."""
    texts = [blanked_text(items[int(row)]).partition(BLANK_MARK) for row in rows]
    return {"before": [text[0] for text in texts], "after": [text[2] for text in texts]}
