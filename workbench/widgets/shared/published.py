"""The data of a view, from which a static page answers the widget's script."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.binning import Binning
from workbench.items.items import Item, Items, Span
from workbench.items.query import Cells, Query, values_of
from workbench.render.labels import column_label
from workbench.widgets.shared.shading import Shading, attention_shading, shaded_passage

Rows = NDArray[np.intp]

_TEXTS = ("text", "labels")  # columns whose order is not that of their values in a script


@dataclass(frozen=True)
class PublishedView:
    """The content of a static page of a widget."""

    host: str  # the script's class that answers the widget's messages
    shows: str  # type of the view, for the list of pages
    items: Items
    first: Rows  # the items that the view lists, in their order: they come first where not all fit
    head: Callable[[Rows], dict[str, Any]]  # what is not of single items, for the rows that the page holds
    item: Callable[[int], dict[str, Any]]  # of a row
    runs: Sequence[Any]  # stored ones that the view shows, or their names
    code: str  # Python that makes the view


def column_data(table: pd.DataFrame, name: str, *, ranked: bool = False) -> dict[str, Any]:
    """Return a column for the script's filters: its type, and a value or None a row.

    Infinite numbers are the texts ``inf`` and ``-inf``. With `ranked`, text has the place of each value in
    the order by which lists are sorted.
    """
    column = values_of(table[name])
    cells = Cells(table, name)
    data: list[Any] = [None] * len(table)
    if cells.value_type == "numbers":
        data = [value if np.isfinite(value) else f"{value:f}" for value in cells.data.tolist()]
    elif cells.value_type == "yes or no":
        data = cells.data.tolist()
    elif cells.value_type == "text":
        data = cells.data.to_pylist()
    elif cells.value_type == "labels":
        data = [
            [] if missing else [*map(str, cell)] for cell, missing in zip(column, cells.missing, strict=True)
        ]
    data = [None if missing else value for value, missing in zip(data, cells.missing, strict=True)]
    is_whole = pd.api.types.infer_dtype(column, skipna=True) == "integer"
    described = {"name": name, "kind": cells.value_type, "data": data, "whole": is_whole}
    if ranked and cells.value_type in _TEXTS:
        folded = column.astype("str").str.casefold()
        described["rank"] = pd.factorize(folded, sort=True)[0].tolist()
    return described


def facet_data(binning: Binning) -> dict[str, Any]:
    """Return a facet for the script's counts: its labels, and the filter and ends of each bin."""
    return column_label(binning.name)._asdict() | {
        "name": binning.name, "kind": binning.value_type, "integers": binning.integers,
        "bins": [
            {"key": each.key, "label": each.label, "query": _query_data(each.query), "low": _end(each.low),
             "high": _end(each.high)}
            for each in binning.bins
        ],
    }  # fmt: skip


def _query_data(query: Query) -> dict[str, Any]:
    """Return a filter as nested mappings; infinite numbers are text."""
    operands = [_end(value) if isinstance(value, float) else value for value in query.operands]
    return {
        "op": query.operator, "column": query.column, "operands": operands,
        "parts": [_query_data(clause) for clause in query.subqueries],
    }  # fmt: skip


def _end(number: float) -> float | str | None:
    if np.isnan(number):
        return None
    return number if np.isfinite(number) else f"{number:f}"


def passage_variants(
    item: Item,
    marks: Mapping[str, Sequence[Span]],
    shadings: Mapping[str, Shading],
    weights: Mapping[str, Sequence[float]],
) -> dict[str, dict[str, Any]]:
    """Return the passage in pieces: plain (""), by shading (``s<name>``), by attention (``a<model>``)."""
    variants = {"": shaded_passage(item, marks, None)}
    attention = {f"a{name}": attention_shading(item, values) for name, values in weights.items()}
    for name, shading in ({f"s{name}": each for name, each in shadings.items()} | attention).items():
        passage = shaded_passage(item, marks, shading)
        if passage["shades"]:
            variants[name] = passage
    return variants
