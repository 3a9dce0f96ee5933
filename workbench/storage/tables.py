"""Tables in files of users: CSV, Excel, JSON and Parquet, with every cell as it is written."""

from __future__ import annotations

import codecs
import csv
import importlib.util
import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from workbench.storage.errors import DataError, reading

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
WORKBOOK_ENDINGS = (".xlsx", ".xlsm")
_EXPECTED = "a table: CSV, TSV, JSON lines, a list in JSON, Parquet (.parquet) or an Excel workbook (.xlsx)"
_SAVE = 'save it as "CSV UTF-8" (in a spreadsheet: File, Save As)'
_BROKEN = "put quotes around cells that hold separators or line ends, and leave no cell out"
_BOMS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"),
)  # fmt: skip


class TableFrame(NamedTuple):
    """A table as a frame, the line of each row, the rows that cannot be read, and a note on the file.

    In Parquet and in a list of JSON, lines are numbers of rows, counted from 1.
    """

    frame: pd.DataFrame
    lines: Sequence[int]
    problems: list[DataError]
    note: str = ""


def read_frame(data: bytes, path: Path) -> TableFrame:
    """Return the table in a file; the ending of its name says whether it is Parquet, Excel or JSON.

    Values of JSON and Parquet keep their types. Cells of other tables are text, None where they are empty:
    "NA" is a word, and "007" keeps its zeros. DataError if the file as a whole cannot be read.
    """
    ending = path.suffix.lower()
    if ending == ".parquet":
        with reading(path, "this Parquet table", hint="write or download it again"):
            frame = pd.read_parquet(io.BytesIO(data))
        return TableFrame(frame, range(1, len(frame) + 1), [])
    if ending in WORKBOOK_ENDINGS:
        return read_workbook(data, path)
    return _read_json(data, path) if ending in JSON_ENDINGS else read_separated(data, path)


def read_separated(data: bytes, path: Path) -> TableFrame:
    r"""Return the table in a text whose cells are separated by the character that separates its header.

    Examples
    --------
    >>> from pathlib import Path
    >>> from workbench.storage.tables import read_separated
    >>> table = read_separated("answer;year\nchéri;007\n".encode("cp1252"), Path("mine.csv"))
    >>> table.frame.to_dict("records"), table.note
    ([{'answer': 'chéri', 'year': '007'}], 'read as Windows-1252')
    """
    text = decoded_text(data, path, _EXPECTED)
    if not (header := re.search(r"[^\r\n]+", text)):
        raise DataError("this table cannot be read: the file is empty", file=path)
    try:
        separator = csv.Sniffer().sniff(header[0], delimiters=",;\t|").delimiter
    except csv.Error:
        separator = ","
    # pandas fills short rows in silence: the rows are counted by the standard library
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a passage may be long
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    lines, lengths = [1], []
    try:
        for row in reader:
            lengths.append(len(row))
            lines.append(reader.line_num + 1)
    except csv.Error as error:
        problem = f"this is not a row of a table ({error})"
        raise DataError(problem, file=path, line=lines[-1], hint=_BROKEN) from None
    with reading(path, "this table"):
        cells = pd.read_csv(
            io.StringIO(text), sep=separator, header=None, names=range(max(lengths)), index_col=False,
            dtype=str, keep_default_na=False, na_filter=False, skip_blank_lines=False,
        )  # fmt: skip
    note = "read as Windows-1252" if text_encoding(data) == "cp1252" else ""
    return _with_header(cells, lines, lengths, path, note)


def read_workbook(data: bytes, path: Path) -> TableFrame:
    """Return the table in the first sheet of an Excel workbook."""
    if importlib.util.find_spec("openpyxl") is None:
        problem = "this is an Excel workbook, which is read with openpyxl, and that is not installed"
        hint = f'run `pip install "lambada-workbench[excel]"`, or {_SAVE}'
        raise DataError(problem, file=path, hint=hint)
    with reading(path, "this Excel workbook", hint=_SAVE), pd.ExcelFile(io.BytesIO(data)) as book:
        cells = pd.read_excel(book, header=None, dtype=str, keep_default_na=False, na_filter=False)
        sheets = book.sheet_names
    note = f"read from the sheet {sheets[0]!r}, the first of {len(sheets)}" if len(sheets) > 1 else ""
    n_rows, width = cells.shape
    return _with_header(cells.fillna(""), range(1, n_rows + 1), [width] * n_rows, path, note)


def _with_header(
    cells: pd.DataFrame, lines: Sequence[int], lengths: Sequence[int], path: Path, note: str
) -> TableFrame:
    """Return the table of which `cells` are the header and the rows, blank ones included.

    Excel's line ``sep=;`` is left out, and so are unnamed columns without content. An unnamed first column
    is the index that pandas wrote: left out if it numbers the rows, else called "index".
    """
    filled = cells.apply(lambda column: column.str.strip() != "")
    rows = filled.index[filled.any(axis=1)].tolist()
    if rows and cells.loc[rows[0], 0] == "sep=":
        rows = rows[1:]
    if not rows:
        raise DataError("this table has no row", file=path)
    header, width = rows[0], lengths[rows[0]]
    names = cells.loc[header].str.strip().tolist()[:width]
    problems, good = [], []
    for row in rows[1:]:
        if lengths[row] == width:
            good.append(row)
            continue
        problem = f"this row has {lengths[row]} cells, expected {width} ({', '.join(names):.80})"
        problems.append(DataError(problem, file=path, line=lines[row], hint=_BROKEN))
    columns = {
        number: name or f"column {number + 1}"
        for number, name in enumerate(names)
        if name or filled.loc[good, number].any()
    }
    if names[0] in {"", "Unnamed: 0"} and 0 in columns:
        columns[0] = "index"
        if cells.loc[good, 0].tolist() in ([str(n + first) for n in range(len(good))] for first in (0, 1)):
            del columns[0]
    if repeated := [name for name, count in Counter(columns.values()).items() if count > 1]:
        problem = f"the column {repeated[0]!r} occurs twice"
        raise DataError(problem, file=path, line=lines[header], hint="rename one of them")
    frame = cells.loc[good, list(columns)].set_axis(list(columns.values()), axis=1).astype(object)
    frame = frame.where(frame != "", None).reset_index(drop=True)
    return TableFrame(frame, [lines[row] for row in good], problems, note)


def _read_json(data: bytes, path: Path) -> TableFrame:
    """Return the records of JSON lines, or of a list in JSON.

    The standard library reads them: `pandas.read_json` changed the last digit of 4,417 of 10,000
    log-probabilities, a number of 19 digits above a row without it, and names no line.
    """
    text = decoded_text(data, path, _EXPECTED)
    values = json_lines(text)
    if text.lstrip().startswith("["):
        with reading(path, "this list in JSON"):
            values = list(enumerate(json.loads(text), 1))
    if not values:
        raise DataError("this table cannot be read: the file is empty", file=path)
    records, lines, problems = [], [], []
    for line, value in values:
        if isinstance(value, dict):
            records.append(value)
            lines.append(line)
            continue
        fault = value if isinstance(value, Exception) else f"it is {str(value)[:40]!r}"
        problem = f"this record cannot be read ({fault}), expected names with values"
        problems.append(DataError(problem, file=path, line=line, hint="correct it, or leave it out"))
    names = dict.fromkeys(name for record in records for name in record)
    return TableFrame(pd.DataFrame(records, columns=list(names), dtype=object), lines, problems)


def parsed_json(text: str) -> Any:
    """Return the content of a JSON text, or the error."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        return error


def json_lines(text: str) -> list[tuple[int, Any]]:
    """Return the content or the error of each non-empty line of JSON lines, with the line number."""
    lines = text.split("\n")  # not splitlines: JSON strings may hold other separators of lines
    return [(number, parsed_json(line)) for number, line in enumerate(lines, 1) if line.strip()]


def encoding_of_mark(data: bytes) -> str | None:
    """Return the encoding of a text's byte order mark, or None without one."""
    return next((encoding for mark, encoding in _BOMS if data.startswith(mark)), None)


def text_encoding(data: bytes) -> str:
    """Return the encoding of a text: that of its mark, else UTF-8 where it is valid, else Windows-1252."""
    if encoding := encoding_of_mark(data):
        return encoding
    try:
        data.decode()
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def decoded_text(data: bytes, path: Path, expected: str = "text") -> str:
    """Return the text of a file by its `text_encoding`; DataError if the file is not text."""
    encoding = text_encoding(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        problem = f"expected {expected}, got a byte that {encoding} does not have ({error.reason})"
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(problem, file=path, line=line, hint=_SAVE) from None
    if "\0" in text:
        raise DataError(f"expected {expected}, got zero bytes, which are not text", file=path, hint=_SAVE)
    return text
