"""Predictions written to a file for others, and read back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.evaluation.interchange.records import FileRecord, Notes, number_of, truth_of
from workbench.evaluation.model_predictions import predictions_of
from workbench.items.items import Items, check_items
from workbench.items.text import is_encodable
from workbench.predictions import schema
from workbench.predictions.schema import OPTIONAL, SCHEMA
from workbench.storage.errors import DataError, check_option
from workbench.storage.files import atomic_path

SUFFIXES = (".csv", ".jsonl", ".parquet")
"""Endings that `export_results` writes by."""

_LISTS = {field.name for field in SCHEMA if pa.types.is_list(field.type)}
_WHOLE = 1 << 53  # beyond, not every whole number is a floating-point one


def export_results(runs: Any, path: Path | str, *, items: Items | None = None) -> Path:
    """Write predictions to one file that others, and :func:`import_results`, can read.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Runs, frames of predictions, or names of stored runs.
    path : path
        Its ending chooses the format: ``.csv`` (comma, UTF-8, a header; lists as JSON), ``.jsonl`` or
        ``.parquet``. An existing file is replaced, whole or not at all.
    items : Items, optional
        Adds a column ``text`` with the whole passages.

    Returns
    -------
    Path

    Raises
    ------
    DataError
        If the ending is another, there are no predictions, or they are not about `items`.

    Notes
    -----
    Columns and types are those of :data:`workbench.predictions.schema.SCHEMA`. Numbers are written in full.
    JSON has no infinity: it is the text ``"-inf"`` in JSON lines. CSV does not tell empty text from none:
    both read back as none, but for `run`. Words are kept exactly.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> path = wb.export_results(runs, f"{mkdtemp()}/predictions.csv")
    >>> len(wb.import_results(path, items).predictions) == 2 * len(items)
    True
    """
    check_items(items, "export_results", optional=True)
    path = Path(path)
    suffix = path.suffix.lower()
    check_option("the ending of the path", suffix, SUFFIXES)
    frames = predictions_of(runs)
    if not frames:
        raise DataError("there are no predictions to write")
    frame = schema.check_predictions(pd.concat(frames, ignore_index=True), items)
    table = schema.to_table(frame)
    if items is not None:
        texts = items.frame.set_index("item_id")["text"]
        table = table.append_column("text", pa.array(texts.loc[frame["item_id"]].tolist(), pa.string()))
    write: dict[str, Callable[..., None]] = {
        ".csv": _write_csv,
        ".jsonl": _write_lines,
        ".parquet": partial(pq.write_table, compression="zstd"),
    }
    with atomic_path(path) as temporary:
        write[suffix](table, temporary)
    return path


def _write_lines(table: pa.Table, path: Path) -> None:
    """Write JSON lines; `DataFrame.to_json` has 15 decimals, and null in place of -inf."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for row in table.to_pylist():
            plain = {name: _plain(value) for name, value in row.items()}
            file.write(json.dumps(plain, ensure_ascii=False, allow_nan=False) + "\n")


def _plain(value: Any) -> Any:
    """Return a value as JSON can hold it."""
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _write_csv(table: pa.Table, path: Path) -> None:
    columns = {name: pd.Series(table[name].to_pylist(), dtype=object) for name in table.column_names}
    for name in _LISTS & columns.keys():
        columns[name] = columns[name].map(_list_in_json, na_action="ignore")
    pd.DataFrame(columns).to_csv(path, index=False, lineterminator="\r\n")  # so that both are quoted


def _list_in_json(values: list[Any]) -> str:
    return json.dumps(_plain(values), ensure_ascii=False)


def is_predictions(record: FileRecord) -> bool:
    """Return whether a record has all columns of a predictions table."""
    return {field.name for field in SCHEMA} - set(OPTIONAL) <= set(record.fields)


def frame_of_records(records: Sequence[FileRecord], notes: Notes) -> tuple[pd.DataFrame, list[int]]:
    """Return records of a predictions table as a frame that is not checked yet, and their lines."""
    rows, lines = [], []
    for record in records:
        try:
            rows.append({field.name: _value(field, record.fields.get(field.name)) for field in SCHEMA})
        except ValueError as error:
            notes.bad(str(error), record.line, str(record.fields.get("item_id")))
        else:
            lines.append(record.line)
    values = {name: [row[name] for row in rows] for name in SCHEMA.names}
    columns = {name: pd.Series(v, dtype="object" if name in _LISTS else None) for name, v in values.items()}
    return pd.DataFrame(columns), lines


def _value(field: pa.Field, value: Any) -> Any:
    try:
        return _list(field.type.value_type, value) if field.name in _LISTS else _scalar(field, value)
    except ValueError as error:
        raise ValueError(f"the column {field.name!r} holds {error}") from None


def _scalar(field: pa.Field, value: Any) -> Any:
    if field.type in {pa.float64(), pa.bool_()}:
        return number_of(value) if field.type == pa.float64() else truth_of(value)
    if field.type == pa.int64():
        number = number_of(value)
        if not math.isnan(number) and not (abs(number) < _WHOLE and number.is_integer()):
            raise ValueError(f"no whole number: {value!r}")
        return None if math.isnan(number) else int(number)
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "" if field.name == "run" else None
    return _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"no text: {str(value)[:40]!r}")  # noqa: TRY004 - of a cell
    if not is_encodable(value):
        raise ValueError("half a surrogate pair")
    return value


def _list(element_type: pa.DataType, value: Any) -> list[Any] | None:
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else None
        except (ValueError, RecursionError):
            raise ValueError(f"no list: {value[:40]!r}") from None
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if not isinstance(value, list):
        raise ValueError(f"no list: {str(value)[:40]!r}")  # noqa: TRY004 - of a cell
    if element_type == pa.string():
        return [None if element is None else _text(element) for element in value]
    return [number_of(element) for element in value]
