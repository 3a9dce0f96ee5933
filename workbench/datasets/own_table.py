"""A user's own table of passages: CSV, TSV, JSON, JSON lines or Parquet, read with pandas."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.items.items import COLUMNS, Items, items_from_frame
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_bytes
from workbench.storage.parquet import read_parquet
from workbench.storage.spreadsheet import separated_rows

ROLES = {
    "text": ("text", "passage", "sentence", "question"),
    "answer": ("answer", "target", "word"),
    "candidates": ("candidates", "choices", "options"),
    "item_id": ("item_id", "id"),
    "word_class": ("word_class",),
    "book_id": ("book_id", "book"),
}
"""The names under which a column is recognised, in any case; options of `items_from_frame` come first.

A column ``id`` names the items where each row has another one; else it is kept as any other column.
"""
MAX_COLUMNS = 10_000


def is_table(name: Path | str) -> bool:
    """Return whether a name is that of a file that :func:`read_table` reads."""
    return Path(name).suffix.lower() in _READERS


def read_table(path: Path | str, **options: Any) -> Items:
    """Make items of a table in a file; see :func:`workbench.load`.

    Columns are found by the names in `ROLES`; `options` are those of :func:`workbench.items_from_frame`.
    """
    path = Path(path)
    data = read_bytes(path, "this table")
    with reading(path, "this table"):
        frame = _READERS[path.suffix.lower()](data, path)
    if len(frame.columns) > MAX_COLUMNS:
        problem = f"this table has {len(frame.columns):,} columns, expected at most {MAX_COLUMNS:,}"
        raise DataError(problem, file=path, remedy="leave out columns")
    if not options and set(COLUMNS) <= set(frame) and frame.columns.is_unique:
        return Items.from_parquet(path)
    note = ""
    for role, known in ROLES.items():
        column = None if role in options else _column(frame, known, path)
        if column is None or any(column is value or column == value for value in options.values()):
            continue
        if role == "item_id" and str(column).lower() == "id" and not _names_rows(frame[column]):
            note = f"the column {column!r} has empty or equal cells, so ids are made of the passages"
            continue
        options[role] = column
    try:
        items = items_from_frame(frame, **options)
    except DataError as error:
        raise DataError(error.problem, file=path, remedy=error.remedy) from None
    items.attrs |= {"source": path.name} | ({"note": note} if note else {})
    return items


def _column(frame: pd.DataFrame, known: Sequence[str], path: Path) -> Any:
    """Return the column that has one of the `known` names, the first of them that is there, or None."""
    for name in known:
        columns = [column for column in frame.columns if str(column).lower() == name]
        if len(set(columns)) > 1:
            problem = f"the columns {' and '.join(map(repr, columns))} have one name but for case"
            raise DataError(problem, file=path, remedy="rename one of them")
        if columns:
            return columns[0]
    return None


def _names_rows(column: pd.Series[Any]) -> bool:
    """Return whether every cell of a column has a value, and each another one."""
    if not isinstance(column, pd.Series) or column.isna().any():
        return False
    names = column.map(str)
    return bool(names.is_unique and names.str.strip().all())


def _separated(data: bytes, path: Path, separator: str) -> pd.DataFrame:
    """Read words as words: an answer may be 1984, None or NA."""
    rows = separated_rows(data.decode("utf-8-sig"), path, separator)
    header = next(rows, (1, []))
    if not isinstance(header, DataError) and len(header[1]) > MAX_COLUMNS:  # pandas takes seconds for names
        return pd.DataFrame(columns=header[1])
    for row in (header, *rows):
        if isinstance(row, DataError):
            raise row
    names = {name for known in ROLES.values() for name in known}
    columns = pd.read_csv(io.BytesIO(data), sep=separator, nrows=0).columns
    types = {name: "str" for name in columns if str(name).lower() in names}
    return pd.read_csv(io.BytesIO(data), sep=separator, keep_default_na=False, na_values=[""], dtype=types)


_READERS: dict[str, Callable[[bytes, Path], pd.DataFrame]] = {
    ".csv": partial(_separated, separator=","),
    ".tsv": partial(_separated, separator="\t"),
    ".json": lambda data, _: pd.read_json(io.BytesIO(data), dtype=False),
    ".jsonl": lambda data, _: pd.read_json(io.BytesIO(data), dtype=False, lines=True),
    ".parquet": lambda data, path: read_parquet(path, data=data, what="this table").to_pandas(),
}
