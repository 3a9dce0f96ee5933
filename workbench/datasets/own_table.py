"""A user's own table of passages: CSV, TSV, JSON, JSON lines or Parquet, read with pandas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.items.items import COLUMNS, Items, items_from_frame
from workbench.items.schema import DataError

ROLES = {
    "text": ("text", "passage", "sentence", "question"),
    "answer": ("answer", "target", "word"),
    "candidates": ("candidates", "choices", "options"),
    "item_id": ("item_id",),
    "word_class": ("word_class",),
    "book_id": ("book_id", "book"),
}
"""The names under which a column is recognised, in any case; options of `items_from_frame` come first."""


def is_table(name: Path | str) -> bool:
    """Return whether a name is that of a file that :func:`read_table` reads."""
    return Path(name).suffix.lower() in _READERS


def read_table(path: Path | str, **options: Any) -> Items:
    """Make items of a table in a file; see :func:`workbench.load`.

    Columns are found by the names in `ROLES`; `options` are those of :func:`workbench.items_from_frame`.
    """
    path = Path(path)
    if not path.is_file():
        raise DataError("there is no such file", file=path, remedy="pass the path of your table")
    try:
        frame: pd.DataFrame = _READERS[path.suffix.lower()](path)
    except (ValueError, OSError) as error:
        raise DataError(f"this table cannot be read ({error})", file=path) from error
    if not options and set(COLUMNS) <= set(frame):
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


def _separated(path: Path, separator: str) -> pd.DataFrame:
    """Read words as words: an answer may be 1984, None or NA."""
    names = {name for known in ROLES.values() for name in known}
    columns = pd.read_csv(path, sep=separator, nrows=0).columns
    types = {name: "str" for name in columns if str(name).lower() in names}
    return pd.read_csv(path, sep=separator, keep_default_na=False, na_values=[""], dtype=types)


_READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    ".csv": partial(_separated, separator=","),
    ".tsv": partial(_separated, separator="\t"),
    ".json": lambda path: pd.read_json(path, dtype=False),
    ".jsonl": lambda path: pd.read_json(path, dtype=False, lines=True),
    ".parquet": pd.read_parquet,
}
