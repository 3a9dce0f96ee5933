"""Records of a file that someone else wrote: CSV, JSON lines, a JSON array or parquet, each with its line."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.items.schema import DataError
from workbench.items.text import is_encodable

_FIELD = 1 << 30  # characters that one field of a CSV file may have
_SEPARATORS = ",;\t"
_PARQUET = b"PAR1"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_LEAVE = 'correct it, or have it reported and left out with on_error="report"'
_START = 80  # characters of a text that a note shows
_ENDS = "the file ends within this record: was it written or downloaded to its end?"


class FileRecord(NamedTuple):
    """One record: its line in the file (in parquet its row), counted from 1, and its fields."""

    line: int
    fields: Mapping[str, Any]


class Notes:
    """Notes on the records of a file.

    With `on_error` ``raise`` a bad record stops the reading, with ``report`` it is left out and noted.
    """

    def __init__(self, path: Path, on_error: str) -> None:
        if on_error not in {"raise", "report"}:
            raise DataError(f"on_error is {on_error!r}", remedy='use "raise" or "report"')
        self.path, self._raises = path, on_error == "raise"
        self._rows: list[tuple[int | None, str, str, bool]] = []

    def bad(self, problem: str | DataError, line: int | None = None, text: str | None = None) -> None:
        """Leave a record out, or raise DataError."""
        if isinstance(problem, str):
            problem = DataError(problem, file=self.path, line=line, remedy=_LEAVE)
        if self._raises:
            raise problem
        self.note(problem.problem, problem.line, text, used=False)

    def note(self, problem: str, line: int | None = None, text: str | None = None, *, used: bool) -> None:
        """Note something about a record that is no error."""
        self._rows.append((line, problem, (text or "")[:_START], used))

    def frame(self) -> pd.DataFrame:
        """Return all notes: line, problem, text (its start), kept (whether the record is used)."""
        kinds = {"line": "Int64", "problem": "str", "text": "str", "kept": "bool"}
        rows = sorted(self._rows, key=lambda row: (row[0] is None, row[0] or 0))
        return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def read_records(path: Path) -> Iterator[FileRecord | DataError]:
    """Read the records of a file in order; its content tells which of the four formats it has.

    A bad record gives an error in its place, and reading goes on behind it where its end is known. Raise
    DataError if there is no such file, or it is empty, no text, or broken as a whole.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError("there is no such file", file=path) from None
    except OSError as error:
        logs = sorted(path.rglob("samples_*.jsonl")) if path.is_dir() else []
        inside = f", as {logs[0].relative_to(path)}" if logs else ""
        remedy = f"pass one file of the folder{inside}" if path.is_dir() else None
        raise DataError(f"this cannot be read ({error.strerror})", file=path, remedy=remedy) from None
    if data.startswith(_PARQUET):
        return _parquet(data, path)
    text = _decoded(data, path)
    if not text.strip():
        raise DataError("the file is empty", file=path)
    start = text.lstrip()[0]
    if start == "[":
        return _array(text, path)
    return _lines(text, path) if start == "{" else _csv(text, path)


def _decoded(data: bytes, path: Path) -> str:
    if data.startswith(_UTF16):
        try:
            return data.decode("utf-16")
        except UnicodeDecodeError as error:
            raise DataError(f"this is no UTF-16 text ({error.reason})", file=path) from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"the byte 0x{data[error.start]:02x} is none of a text in UTF-8",
            file=path,
            line=data.count(b"\n", 0, error.start) + 1,
            remedy="save the file as UTF-8 (in a spreadsheet: CSV UTF-8)",
        ) from None


def _record(value: Any, path: Path, line: int, text: str) -> FileRecord | DataError:
    if isinstance(value, dict):
        return FileRecord(line, value)
    problem = f"this is JSON, but no record with names and values: {text[:40]!r}"
    return DataError(problem, file=path, line=line, remedy=_LEAVE)


def _lines(text: str, path: Path) -> Iterator[FileRecord | DataError]:
    """Read JSON lines, or one object, which is then asked what it is."""
    lines = text.split("\n")  # not splitlines: JSON strings may hold other separators of lines
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    values = [_json(line) for _, line in filled]
    if isinstance(values[0], Exception) and len(filled) > 1 and isinstance(value := _json(text), dict):
        yield from _object(value, path)
        return
    for (number, line), value in zip(filled, values, strict=True):
        if isinstance(value, Exception):
            problem = _ENDS if number == filled[-1][0] else f"this is no JSON ({value})"
            yield DataError(problem, file=path, line=number, remedy=_LEAVE)
        else:
            yield _record(value, path, number, line)


def _json(text: str) -> Any:
    """Return what a text holds, or the error."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return error


def _object(value: dict[str, Any], path: Path) -> Iterator[FileRecord]:
    if "results" in value and not isinstance(value["results"], list):
        raise DataError(
            "these are results over all items, expected one record an item",
            file=path,
            remedy="run lm-evaluation-harness with --log_samples and pass its samples_*.jsonl",
        )
    records = list(value.values())
    by_number = records and all(isinstance(record, dict) for record in records)  # as {"0": {...}}
    yield from (
        FileRecord(number, record) for number, record in enumerate(records if by_number else [value], 1)
    )


def _array(text: str, path: Path) -> Iterator[FileRecord | DataError]:
    """Read a JSON array entry by entry, so that the line of each is known."""
    decoder, space = json.JSONDecoder(), re.compile(r"[\s,]*")

    def error(problem: str) -> DataError:
        return DataError(problem, file=path, line=text.count("\n", 0, at) + 1, remedy=_LEAVE)

    at, counted, line = text.index("[") + 1, 0, 1
    while True:
        at = _end(space, text, at)
        line, counted = line + text.count("\n", counted, at), at
        if at >= len(text):
            yield error("the file ends within its list")
            return
        if text[at] == "]":
            at = _end(space, text, at + 1)
            if at < len(text):
                yield error("something follows the end of the list")
            return
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as problem:
            cut = isinstance(problem, json.JSONDecodeError) and not text[problem.pos :].strip()
            yield error(_ENDS if cut else f"this is no JSON ({problem})")
            return
        yield _record(value, path, line, text[at : at + 40])
        at = end


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    match = pattern.match(text, start)
    return match.end() if match else start


def _csv(text: str, path: Path) -> Iterator[FileRecord | DataError]:
    """Read a table with a header; the separator is the one that the header holds most of.

    pandas reads CSV too, but does not tell on which line a record stands.
    """
    header = text.lstrip("\r\n").split("\n", 1)[0]
    separator = "\t" if path.suffix.lower() == ".tsv" else max(_SEPARATORS, key=header.count)
    limit = csv.field_size_limit(_FIELD)
    try:
        return iter(list(_csv_rows(text, path, separator)))
    finally:
        csv.field_size_limit(limit)


def _csv_rows(text: str, path: Path, separator: str) -> Iterator[FileRecord | DataError]:
    names: list[str] | None = None
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        line, problem, row = reader.line_num + 1, "", []
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = _ENDS if "end of data" in str(error) else f"this is no row of a table ({error})"
        if problem or (names and any(cell.strip() for cell in row) and len(row) != len(names)):
            problem = problem or f"there are {len(row)} fields, the header has {len(names or ())}"
            yield DataError(problem, file=path, line=line, remedy=_LEAVE)
        elif any(cell.strip() for cell in row) and names is None:
            names = [cell.strip() for cell in row]
            if twice := {name for name in names if names.count(name) > 1}:
                raise DataError(f"the header names {min(twice)!r} twice", file=path, line=line)
        elif names and any(cell.strip() for cell in row):
            yield FileRecord(line, {name: cell or None for name, cell in zip(names, row, strict=True)})


def _parquet(data: bytes, path: Path) -> Iterator[FileRecord]:
    try:
        rows = pq.read_table(pa.BufferReader(data)).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"this is no valid parquet file ({error})"
        raise DataError(problem, file=path, remedy="download or write it again") from None
    return (FileRecord(number, row) for number, row in enumerate(rows, 1))


def text_of(value: Any) -> str | None:
    """Return a cell as text, None where it is empty; raise ValueError if it is no valid text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, (Mapping, list, tuple)):
        raise ValueError(f"a list or record, expected text: {str(value)[:40]!r}")  # noqa: TRY004 - of a cell
    text = value if isinstance(value, str) else str(value)
    if not is_encodable(text):
        raise ValueError("the text holds half a surrogate pair")
    return text if text.strip() else None


def number_of(value: Any) -> float:
    """Return a cell as a number, NaN where it is empty; raise ValueError if it is none."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return math.nan
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError(f"no number: {str(value)[:40]!r}")  # noqa: TRY004 - of a cell
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise ValueError(f"no number: {str(value)[:40]!r}") from None


def truth_of(value: Any) -> bool | None:
    """Return a cell as true or false, None where it is empty; raise ValueError if it is neither."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    known = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False, "": None,
             "nan": None}  # fmt: skip
    word = str(value).strip().lower()
    if word not in known:
        raise ValueError(f"neither true nor false: {str(value)[:40]!r}")
    return known[word]
