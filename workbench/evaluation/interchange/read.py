"""Records of a file that someone else wrote: CSV, JSON lines, a JSON array or parquet, each with its line."""

from __future__ import annotations

import csv
import io
import json
import math
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


class Record(NamedTuple):
    """One record: its line in the file (in parquet its row), counted from 1, and its fields."""

    line: int
    fields: Mapping[str, Any]


class Notes:
    """What is to be said about the records of a file.

    Parameters
    ----------
    path : path
    on_error : {"raise", "report"}
        Whether a bad record stops the reading, or is left out and noted.
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
        self.note(problem.problem, problem.line, text, kept=False)

    def note(self, problem: str, line: int | None = None, text: str | None = None, *, kept: bool) -> None:
        """Say something of a record that is no error."""
        self._rows.append((line, problem, (text or "")[:_START], kept))

    def frame(self) -> pd.DataFrame:
        """Return all notes: line, problem, text (its start), kept (whether the record is used)."""
        kinds = {"line": "Int64", "problem": "str", "text": "str", "kept": "bool"}
        rows = sorted(self._rows, key=lambda row: (row[0] is None, row[0] or 0))
        return pd.DataFrame(rows, columns=list(kinds)).astype(kinds)


def read(path: Path) -> Iterator[Record | DataError]:
    """Read the records of a file, whatever of the four forms it has; the content tells which.

    Yields
    ------
    Record or DataError
        In the order of the file. Empty lines are skipped; a bad record gives an error and reading goes on
        behind it where that can be told, else ends.

    Raises
    ------
    DataError
        If there is no such file, or it is empty, no text, or broken as a whole.
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise DataError("there is no such file", file=path) from None
    except OSError as error:
        raise DataError(f"this cannot be read ({error.strerror})", file=path, remedy=_files(path)) from None
    if data.startswith(_PARQUET):
        return _parquet(data, path)
    text = _decoded(data, path)
    if not text.strip():
        raise DataError("the file is empty", file=path)
    start = text.lstrip()[0]
    if start == "[":
        return _array(text, path)
    return _lines(text, path) if start == "{" else _csv(text, path)


def _files(path: Path) -> str | None:
    if not path.is_dir():
        return None
    inside = sorted(str(p.relative_to(path)) for p in path.rglob("samples_*.jsonl"))
    return f"pass one file of the folder{', as ' + inside[0] if inside else ''}"


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


def _parsed(text: str, path: Path, line: int, *, last: bool) -> Record | DataError:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = _ENDS if last else f"this is no JSON ({error})"
        return DataError(problem, file=path, line=line, remedy=_LEAVE)
    if not isinstance(found, dict):
        problem = f"this is JSON, but no record with names and values: {text[:40]!r}"
        return DataError(problem, file=path, line=line, remedy=_LEAVE)
    return Record(line, found)


def _lines(text: str, path: Path) -> Iterator[Record | DataError]:
    """Read JSON lines, or one object, which is then asked what it is."""
    lines = text.split("\n")  # not splitlines: JSON strings may hold other separators of lines
    filled = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    try:
        json.loads(filled[0][1])
    except (ValueError, RecursionError):
        if len(filled) > 1 and (whole := _whole(text)) is not None:
            return _object(whole, path)
    return (_parsed(line, path, number, last=number == filled[-1][0]) for number, line in filled)


def _whole(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _object(found: dict[str, Any], path: Path) -> Iterator[Record | DataError]:
    if "results" in found and not isinstance(found["results"], list):
        raise DataError(
            "these are results over all items, expected one record an item",
            file=path,
            remedy="run lm-evaluation-harness with --log_samples and pass its samples_*.jsonl",
        )
    values = list(found.values())
    if values and all(isinstance(value, dict) for value in values):  # by number, as {"0": {...}}
        return (Record(number, value) for number, value in enumerate(values, 1))
    return iter([Record(1, found)])


def _array(text: str, path: Path) -> Iterator[Record | DataError]:
    """Read a JSON array entry by entry, so that the line of each is known."""
    decoder = json.JSONDecoder()
    at, line = text.index("[") + 1, 1
    counted = 0
    while True:
        at = _skip(text, at, ",")
        line, counted = line + text.count("\n", counted, at), at
        if at >= len(text):
            yield DataError("the file ends within its list", file=path, line=line, remedy=_LEAVE)
            return
        if text[at] == "]":
            if text[at + 1 :].strip():
                line += text.count("\n", at, _skip(text, at + 1, ""))
                yield DataError("something follows the end of the list", file=path, line=line)
            return
        try:
            found, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            cut = isinstance(error, json.JSONDecodeError) and not text[error.pos :].strip()
            problem = _ENDS if cut else f"this is no JSON ({error})"
            yield DataError(problem, file=path, line=line, remedy=_LEAVE)
            return
        if isinstance(found, dict):
            yield Record(line, found)
        else:
            problem = f"this is no record with names and values: {text[at : at + 40]!r}"
            yield DataError(problem, file=path, line=line, remedy=_LEAVE)
        at = end


def _skip(text: str, at: int, more: str) -> int:
    while at < len(text) and (text[at].isspace() or text[at] in more):
        at += 1
    return at


def _csv(text: str, path: Path) -> Iterator[Record | DataError]:
    """Read a table with a header; the separator is the one that the header holds most of."""
    header = text.lstrip("\r\n").split("\n", 1)[0]
    separator = "\t" if path.suffix.lower() == ".tsv" else max(_SEPARATORS, key=header.count)
    limit = csv.field_size_limit(_FIELD)
    try:
        names: list[str] | None = None
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        rows: list[Record | DataError] = []
        while True:
            line = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                cut = "end of data" in str(error)
                problem = _ENDS if cut else f"this is no row of a table ({error})"
                rows.append(DataError(problem, file=path, line=line, remedy=_LEAVE))
                continue
            if not any(cell.strip() for cell in row):
                continue
            if names is None:
                names = _header(row, path, line)
            elif len(row) != len(names):
                problem = f"there are {len(row)} fields, the header has {len(names)}"
                rows.append(DataError(problem, file=path, line=line, remedy=_LEAVE))
            else:
                rows.append(Record(line, {n: cell or None for n, cell in zip(names, row, strict=True)}))
    finally:
        csv.field_size_limit(limit)
    return iter(rows)


def _header(row: list[str], path: Path, line: int) -> list[str]:
    names = [cell.strip() for cell in row]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DataError(f"the header names {min(twice)!r} twice", file=path, line=line)
    return names


def _parquet(data: bytes, path: Path) -> Iterator[Record | DataError]:
    try:
        rows = pq.read_table(pa.BufferReader(data)).to_pylist()
    except (pa.ArrowException, OSError, ValueError) as error:
        problem = f"this is no whole parquet file ({error})"
        raise DataError(problem, file=path, remedy="download or write it again") from None
    return (Record(number, row) for number, row in enumerate(rows, 1))


def text_of(value: Any) -> str | None:
    """Return a cell as text, None where it is empty; raise ValueError if it is no text that can be kept."""
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
