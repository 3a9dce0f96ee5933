"""The tables of a stored run: predictions, read by columns and single rows, and the items' own columns.

Predictions are compared with their checksum when they are opened. What evaluation needs is a small part of
them: the best words of all items take more room than all other columns together.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workbench.items.items import Items
from workbench.predictions import schema
from workbench.storage.checksums import sha256
from workbench.storage.errors import DataError, reading
from workbench.storage.files import atomic_path, read_parquet

TABLE, ITEM_COLUMNS = "predictions.parquet", "columns.parquet"
LONG = ("top_words", "top_log_probs", "candidate_scores", "attention")
"""Columns of lists, which are read row by row."""

ENCODED = (
    "dataset", "split", "variant", "word_class", "book_id", "model", "system", "run", "score_type", "unit",
    "filter", "unknown", "case", "prompt", "bos",
)  # fmt: skip
"""Columns of text with few values."""

AGAIN = "remove the folder and predict again"
_GROUP = 8_192  # rows of a row group: a single row of the long columns is read in a few milliseconds
_WHAT = "the predictions"
_CONSTANTS = "constants"  # metadata of the file: columns of a single value, as JSON
_LONGEST = 1000  # letters of such a value
_LONG_TEXT, _MOST_TEXTS, _MOST_COLUMNS = 100, 200, 100  # letters, different texts, and columns of one's own


def write_table(table: pa.Table, folder: Path) -> dict[str, str]:
    """Write the predictions of a run; return the checksum of the file, named as the run's description has it.

    More than half of the columns have one value in all rows. They are named in the metadata of the file with
    this value, so that evaluation need not read them.
    """
    file = folder / TABLE
    written = table.replace_schema_metadata({_CONSTANTS: json.dumps(_constants(table))})
    pq.write_table(written, file, compression="zstd", row_group_size=_GROUP, write_statistics=False)
    return {"file_sha256": sha256(file)}


def _constants(table: pa.Table) -> dict[str, Any]:
    """Return the columns that have one value in all rows, and this value: a text, number, bool or None."""
    constants: dict[str, Any] = {}
    for name in table.column_names if len(table) else ():
        column = table[name]
        if column.null_count == len(column):
            constants[name] = None
        elif not column.null_count and not pa.types.is_nested(column.type):
            first = column[0].as_py()
            is_writable = not isinstance(first, float) and len(str(first)) <= _LONGEST
            if is_writable and pc.all(pc.equal(column, column[0])).as_py():
                constants[name] = first
    return constants


class RunTable:
    """The predictions of a stored run, read as they are asked for, by its folder and its description."""

    def __init__(self, folder: Path, info: Mapping[str, Any]) -> None:
        self.folder, self.info = folder, info
        self._lock = Lock()
        self._last: tuple[tuple[int, tuple[str, ...]], pa.Table] | None = None  # row group and columns

    def __reduce__(self) -> tuple[type[RunTable], tuple[Path, Mapping[str, Any]]]:
        return RunTable, (self.folder, self.info)  # another process maps the file anew

    @cached_property
    def _file(self) -> pq.ParquetFile:
        """The file, once it is compared with its checksum; DataError if it is not as it was written."""
        file = self.folder / TABLE
        with reading(file, _WHAT, remedy=AGAIN):
            if sha256(file) != self.info.get("file_sha256"):
                raise DataError(f"{_WHAT} are not those that were written", file=file, remedy=AGAIN)
            return pq.ParquetFile(file, memory_map=True)

    @cached_property
    def _constants(self) -> dict[str, Any]:
        """Columns that have one value in all rows, with this value."""
        metadata = self._file.schema_arrow.metadata or {}
        constants: dict[str, Any] = json.loads(metadata.get(_CONSTANTS.encode(), b"{}"))
        return constants

    def columns(self, names: Sequence[str] | None = None, *, encoded: bool = False) -> pa.Table:
        """Return columns of `SCHEMA` (all by default), in its order."""
        with reading(self.folder / TABLE, _WHAT, remedy=AGAIN):
            return self._typed(names, ENCODED if encoded else ())

    def row(self, row: int, names: Sequence[str]) -> dict[str, Any]:
        """Return cells of a row; the last row group stays in memory."""
        with self._lock, reading(self.folder / TABLE, _WHAT, remedy=AGAIN):
            group, index = divmod(row, self._file.metadata.row_group(0).num_rows)
            key = group, tuple(names)
            if self._last is None or self._last[0] != key:
                self._last = key, self._file.read_row_group(group, list(names))
            table = self._last[1]
            return {name: table[name][index].as_py() for name in names}

    def _typed(self, names: Sequence[str] | None, encoded: Sequence[str]) -> pa.Table:
        """Read columns with the types of `SCHEMA`, or dictionaries of these."""
        wanted = schema.COLUMNS if names is None else names
        present = [name for name in schema.COLUMNS if name in wanted]
        constants = self._constants
        read = [name for name in present if name not in constants] or present[:1]
        table = pq.read_table(
            self.folder / TABLE, columns=read, read_dictionary=list(encoded), memory_map=True
        ).unify_dictionaries()
        columns = [
            table[name]
            if name in read
            else _repeated(constants[name], len(table), schema.SCHEMA.field(name).type, name in encoded)
            for name in present
        ]
        return schema.cast(pa.Table.from_arrays(columns, present), wanted, encoded)


def _repeated(value: Any, n: int, arrow_type: pa.DataType, encoded: bool) -> pa.Array:  # noqa: FBT001 - private
    """Return a column of one value in n rows, a dictionary where it is `encoded`."""
    if not encoded:
        return pa.repeat(pa.scalar(value, arrow_type), n)
    if value is None:
        return pa.nulls(n, pa.dictionary(pa.int32(), arrow_type))
    return pa.DictionaryArray.from_arrays(np.zeros(n, dtype=np.int32), pa.array([value], arrow_type))


# -- the items' own columns, by which results can be grouped


def item_columns(folder: Path) -> pd.DataFrame:
    """Return the items' own columns that are stored in the folder of a run, indexed by ``item_id``."""
    frame: pd.DataFrame = _columns(folder).to_pandas()
    return frame.astype({"item_id": "str"}).set_index("item_id")


def _columns(folder: Path) -> pa.Table:
    file, content = folder / ITEM_COLUMNS, "the items' own columns"
    remedy = "remove this file and predict again"
    if not os.path.isfile(file):  # noqa: PTH113 - of a long name
        return pa.table({"item_id": pa.array([], pa.string())})
    return read_parquet(file, what=content, remedy=remedy)


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
    with atomic_path(folder / ITEM_COLUMNS) as temporary:
        pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _is_condition(column: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers, truth values or a few short texts: no passages."""
    values = column.dropna()
    value_type = pd.api.types.infer_dtype(values)
    if value_type == "string":
        return values.nunique() <= _MOST_TEXTS and bool((values.str.len() <= _LONG_TEXT).all())
    return value_type == "boolean" or pd.api.types.is_numeric_dtype(column)


def _array(column: pd.Series[Any]) -> pa.Array:
    """Return a column as an Arrow array; text is plain text."""
    array = pa.array(column, from_pandas=True)
    return array.cast(pa.string()) if pa.types.is_large_string(array.type) else array
