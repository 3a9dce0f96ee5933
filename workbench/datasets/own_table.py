"""A user's own table of passages: CSV, TSV, JSON, JSON lines or Parquet, read with pandas."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.items.items import COLUMNS, Items, items_from_frame
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_bytes
from workbench.storage.parquet import read_parquet

ROLES = {
    "text": ("text", "passage", "sentence", "question"),
    "answer": ("answer", "target", "word"),
    "candidates": ("candidates", "choices", "options"),
    "item_id": ("item_id",),
    "word_class": ("word_class",),
    "book_id": ("book_id", "book"),
}
"""The names under which a column is recognised, in any case; options of `items_from_frame` come first."""
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
    names = {str(name).lower(): name for name in reversed(frame.columns)}
    for role, known in ROLES.items():
        column = next((names[name] for name in known if name in names), None)
        if column is not None and column not in options.values():
            options.setdefault(role, column)
    try:
        items = items_from_frame(frame, **options)
    except DataError as error:
        raise DataError(error.problem, file=path, remedy=error.remedy) from None
    items.attrs["source"] = path.name
    return items


def _separated(data: bytes, _: Path, separator: str) -> pd.DataFrame:
    """Read words as words: an answer may be 1984, None or NA."""
    text = io.TextIOWrapper(io.BytesIO(data), "utf-8-sig", newline="")
    header = next(filter(None, csv.reader(text, delimiter=separator)), [])
    if len(header) > MAX_COLUMNS:  # pandas takes seconds for names alone
        return pd.DataFrame(columns=header)
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
