"""Tables that a reader brings, set beside the items: annotations and predictions, one row an item."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.items import DataError, Span
from workbench.widgets.shared.passages import plain

SPANS = ("mentions", "speech", "names")
_PREDICTION = ("model", "prediction", "correct", "rank", "log_prob")
_MANY = (list, tuple, np.ndarray)


def aligned(table: pd.DataFrame | None, ids: pd.Series[Any], what: str) -> pd.DataFrame:
    """Return the table's rows in the order of the items, without the id.

    Raises
    ------
    DataError
        If there is no ``item_id``, or an item has two rows.
    """
    if table is None:
        return pd.DataFrame(index=range(len(ids)))
    if "item_id" in table.columns:
        table = table.set_index("item_id")
    elif table.index.name != "item_id":
        raise DataError(f"the {what} have no column 'item_id'", remedy="name the column of the items' ids so")
    if table.index.has_duplicates:
        twice = table.index[table.index.duplicated()][0]
        raise DataError(f"the {what} hold the item {twice!r} twice", remedy="pass one row an item")
    return table.reindex(ids).reset_index(drop=True)


def marks(columns: pd.DataFrame, frame: pd.DataFrame) -> dict[str, list[list[Span] | None]]:
    """Return the columns of `columns` that hold spans to mark in the passages.

    Parameters
    ----------
    columns : DataFrame, n rows
        Annotations in the order of the items; ``mentions``, ``speech`` and ``names`` are looked at. A
        column of these names that holds anything but lists (a number of mentions) is left alone.
    frame : DataFrame, n rows
        The items' frame.

    Returns
    -------
    dict of str to list (n,)
        For each such column the spans of each item, as characters in its text; None where
        they are not known.

    Raises
    ------
    DataError
        If a span does not lie within its text.
    """
    found: dict[str, list[list[Span] | None]] = {}
    for name in SPANS:
        if name not in columns:
            continue
        values = columns[name].tolist()
        if not all(isinstance(value, _MANY) or pd.isna(value) for value in values):
            continue
        rows = [_spans(value) if isinstance(value, _MANY) else None for value in values]
        for item_id, text, spans in zip(frame["item_id"], frame["text"], rows, strict=True):
            if spans and not all(0 <= start < end <= len(text) for start, end in spans):
                raise DataError(
                    f"the annotations' {name} do not fit the text of {item_id!r}",
                    remedy="annotate these very items: spans of another variant lie elsewhere",
                )
        found[name] = rows
    return found


def by_item(table: pd.DataFrame | None) -> dict[str, list[list[str]]]:
    """Return the cells of the predictions as shown, by item id."""
    if table is None:
        return {}
    if missing := {"item_id", "model"} - set(table.columns):
        raise DataError(f"the predictions have no column {min(missing)!r}")
    rows: dict[str, list[list[str]]] = {}
    cells = [table[c].tolist() if c in table else [None] * len(table) for c in _PREDICTION]
    for item_id, model, guess, correct, *numbers in zip(table["item_id"], *cells, strict=True):
        mark = "" if pd.isna(correct) else "right" if correct else "wrong"
        rows.setdefault(item_id, []).append([plain(model), plain(guess), mark, *map(plain, numbers)])
    return rows


def outcomes(table: pd.DataFrame | None, ids: pd.Series[Any]) -> dict[str, pd.Series[Any]]:
    """Return a column a model: whether its answer to each item is right."""
    if table is None or "correct" not in table:
        return {}
    columns = {}
    for model, rows in table.groupby("model", sort=False):
        right = rows.drop_duplicates("item_id").set_index("item_id")["correct"].reindex(ids)
        columns[f"{model} is"] = right.map({True: "right", False: "wrong"}).reset_index(drop=True)
    return columns


def _spans(pairs: Iterable[Iterable[int]]) -> list[Span]:
    return [(int(start), int(end)) for start, end in pairs]
