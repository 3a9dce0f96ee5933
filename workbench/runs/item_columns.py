"""The items' own columns that are stored with a run, so that its results can be grouped by them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.items.items import Items
from workbench.storage import cache
from workbench.storage.errors import DataError, reading
from workbench.storage.files import atomic_path
from workbench.storage.parquet import read_parquet

COLUMNS = "columns.parquet"

_LONGEST, _MOST_TEXTS, _MOST_COLUMNS = 100, 200, 100  # letters, different texts, and columns of one's own


def item_columns(folder: Path) -> pd.DataFrame:
    """Return the items' own columns that are stored in the folder of a run, indexed by ``item_id``."""
    frame: pd.DataFrame = _columns(folder).to_pandas()
    return frame.astype({"item_id": "str"}).set_index("item_id")


def _columns(folder: Path) -> pa.Table:
    file, content, remedy = folder / COLUMNS, "the items' own columns", "remove this file and predict again"
    if not os.path.isfile(file):  # noqa: PTH113 - of a long name
        return pa.table({"item_id": pa.array([], pa.string())})
    table = read_parquet(file, what=content, remedy=remedy)
    with reading(file, content, remedy=remedy):
        written = table.schema.metadata[b"sha256"].decode()
        table = table.replace_schema_metadata(None)
        if cache.content(table) != written:
            raise DataError(f"{content} are not those that were written", file=file, remedy=remedy)
        return table


def write_item_columns(folder: Path, items: Items) -> None:
    """Store the items' own columns in the folder of a run, beside others that it has; see `predict`."""
    extra = items.extra.set_axis(pd.Index(items.frame["item_id"], name="item_id"))
    columns = extra[[name for name in extra if _is_condition(extra[name])][:_MOST_COLUMNS]]
    if columns.empty:
        return
    stored = None
    with contextlib.suppress(DataError):  # a damaged file is replaced
        stored = _columns(folder)
        others = item_columns(folder).drop(columns=columns.columns, errors="ignore")
        columns = columns.join(others.iloc[:, : _MOST_COLUMNS - len(columns.columns)])
    table = pa.table({str(name): _array(values) for name, values in columns.reset_index().items()})
    if stored is not None and table.select(sorted(table.column_names)).equals(
        stored.select(sorted(stored.column_names))
    ):
        return
    with atomic_path(folder / COLUMNS) as temporary:
        written = table.replace_schema_metadata({"sha256": cache.content(table)})
        pq.write_table(written, temporary, compression="zstd")


def _is_condition(column: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers, truth values or a few short texts: no passages."""
    values = column.dropna()
    value_type = pd.api.types.infer_dtype(values)
    if value_type == "string":
        return values.nunique() <= _MOST_TEXTS and bool((values.str.len() <= _LONGEST).all())
    return value_type == "boolean" or pd.api.types.is_numeric_dtype(column)


def _array(column: pd.Series[Any]) -> pa.Array:
    """Return a column as an Arrow array; text is plain text."""
    array = pa.array(column, from_pandas=True)
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array
