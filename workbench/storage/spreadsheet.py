"""User tables in the formats of spreadsheets; protection against text run as a formula."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import zipfile
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import date, time
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from workbench.storage import files
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_parquet

"""What is done with text that a spreadsheet would run as a formula."""

JSON_ENDINGS = (".json", ".jsonl", ".ndjson")
SAVE = 'save it as "CSV UTF-8" (in a spreadsheet: File, Save As)'
_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")
_SEPARATORS = ",;\t"
_SAMPLE, _ENOUGH = 50, 10_000  # rows that determine the separator; columns of a worksheet
_BOMS = (  # UTF-32 first: its mark begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"), (codecs.BOM_UTF8, "utf-8-sig"),
)  # fmt: skip
_FOREIGN = (  # what a file begins with, what that is, and what to do
    (b"\xd0\xcf\x11\xe0", "a workbook of Excel 97 to 2003", SAVE),
    (b"PK\x03\x04", "a workbook or another zip archive", SAVE),
    (b"PAR1", "a Parquet file", "give it a name that ends in .parquet"),
    (b"ARROW1", "an Arrow file", "write it anew: pandas.read_feather(path).to_parquet(...)"),
    (b"\xff\xff\xff\xff", "an Arrow stream, as datasets.save_to_disk writes it",
     "write it anew: datasets.Dataset.from_file(path).to_parquet(...)"),
    (b"\x1f\x8b", "a file that gzip compressed", "unpack it with gunzip"),
    (b"BZh9", "a file that bzip2 compressed", "unpack it with bunzip2"),
    (b"\xfd7zXZ", "a file that xz compressed", "unpack it with unxz"),
    (b"\x28\xb5\x2f\xfd", "a file that zstd compressed", "unpack it with unzstd"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"\x89HDF", "an HDF5 file", "write the table as CSV or Parquet"),
    (b"\x80\x04\x95", "a Python pickle, which is never read", "write the table as CSV or Parquet"),
    (b"\x80\x05\x95", "a Python pickle, which is never read", "write the table as CSV or Parquet"),
    (b"%PDF", "a PDF document", "save its table as CSV"),
    (b"{\\rtf", "a document in rich text", "save it as plain text"),
    (b"version https://git-lfs", "a pointer of Git LFS, not the file", "fetch it with `git lfs pull`"),
    (b"<!doctype html", "a web page", "download the file itself, not the page that shows it"),
    (b"<html", "a web page", "download the file itself, not the page that shows it"),
)  # fmt: skip
_BROKEN = "put quotes around cells that hold separators or line ends, and leave no cell out"
_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:[.\s'’]\d{3})+),\d+(?:[eE][+-]?\d+)?")  # noqa: RUF001
_GROUPS = re.compile(r"[.\s'’]")  # noqa: RUF001 - what groups digits in Switzerland
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
_POINT = re.compile(r"[+-]?\d+\.\d+(?:[eE][+-]?\d+)?")


Row = tuple[int, list[str]]
"""A line, counted from 1, and its cells."""


class TableFrame(NamedTuple):
    """A table as a frame; its unreadable rows, and a note on the format."""

    frame: pd.DataFrame
    problems: list[DataError]
    note: str = ""


class TableRows(NamedTuple):
    """The header, the rows (an error in place of a bad one), and a note on the format."""

    header: list[str]
    rows: list[Row | DataError]
    note: str


def read_rows(data: bytes, path: Path, *, words: Collection[str] = ()) -> TableRows:
    r"""Return the rows of a table that a spreadsheet, a program or a person wrote.

    The separator is a comma, a semicolon or a tab, whichever fits header and rows; the text is UTF-8, UTF-16,
    UTF-32 or Windows-1252; an Excel workbook is read with openpyxl. An unnamed first column of numbers in
    order is left out, another one is called "index". In files with semicolons or tabs, columns of numbers
    with a decimal comma get a point, unless they are among the `words` (in lower case). `path` is for
    messages.

    DataError if it is not a table, is empty, or has a duplicate column. A broken row, or one with more or
    fewer cells than the header, is a DataError in its place.

    Examples
    --------
    >>> from pathlib import Path
    >>> from workbench.storage.spreadsheet import read_rows
    >>> table = read_rows("answer;ln p\nchéri;-2,5\n".encode("cp1252"), Path("mine.csv"))
    >>> table.header, table.rows
    (['answer', 'ln p'], [(2, ['chéri', '-2.5'])])
    >>> table.note
    "read as Windows-1252; the column 'ln p' has a decimal comma"
    """
    notes: list[str] = []
    if data.startswith(b"PK\x03\x04"):
        separator, first, rows = ";", 1, list(_worksheet(data, path, notes))
    else:
        text = decoded_text(data, path, notes)
        if not text.strip():
            raise DataError("this table cannot be read: the file is empty", file=path)
        separator, first, text = _separator(text, path)
        rows = _parse_rows(text, path, separator)
    (line, header), rows = _equal_rows(rows, path, skipped=first - 1)
    cells = [row[1] for row in rows if not isinstance(row, DataError)]
    _name_columns(header, cells)
    if twice := [name for name, count in Counter(header).items() if count > 1]:
        raise DataError(
            f"the column {twice[0]!r} occurs twice", file=path, line=line, remedy="rename one of them"
        )
    if separator != ",":
        notes += _points(header, cells, {*words}, is_certain=separator == ";")
    return TableRows(header, rows, "; ".join(notes))


def read_frame(data: bytes, path: Path, *, words: Collection[str] = (), limit: int) -> TableFrame:
    """Return a table in a file: JSON (a list, an object a line, a frame), Parquet, or a form of `read_rows`.

    Parameters
    ----------
    data, path, words
        Options of `read_rows`.
    limit : int
        Most columns; of a file with more, the frame has their names and no row, which takes less time.

    Raises
    ------
    DataError
        If the file as a whole cannot be read.
    """
    with reading(path, "this table"):
        if data.startswith(b"PAR1"):
            return TableFrame(read_parquet(path, data=data, what="this table").to_pandas(), [])
        if path.suffix.lower() in JSON_ENDINGS and not data.startswith(tuple(mark for mark, *_ in _FOREIGN)):
            records, problems = _json_records(decoded_text(data, path), path)
            names = list(dict.fromkeys(name for record in records for name in record))
            rows = records if len(names) <= limit else []
            return TableFrame(pd.DataFrame(rows, columns=names, dtype=object), problems)
        header, rows_, note = read_rows(data, path, words=words)
        problems = [row for row in rows_ if isinstance(row, DataError)]
        if len(header) > limit:
            return TableFrame(pd.DataFrame(columns=header), problems, note)
        buffer = io.StringIO(newline="")
        csv.writer(buffer).writerows([header, *(row[1] for row in rows_ if not isinstance(row, DataError))])
        buffer.seek(0)
        types = {name: "str" for name in header if name.lower() in words}
        options: Any = {"keep_default_na": False, "na_values": [""], "skip_blank_lines": False}
        return TableFrame(pd.read_csv(buffer, dtype=types, **options), problems, note)


def _json_records(text: str, path: Path) -> tuple[list[dict[str, Any]], list[DataError]]:
    """Return the records of JSON or JSON lines, and the invalid lines."""
    value = parsed_json(text)
    if isinstance(value, Exception):
        values = json_lines(text)
        if len(values) <= 1 or text.lstrip().split("\n", 1)[0].strip() in {"[", "{"}:
            raise DataError(f"this JSON cannot be read ({value})", file=path)
    else:
        if isinstance(value, dict):
            if isinstance(rows := value.get("data", value.get("rows")), list):  # as the hub's viewer has them
                value = [row.get("row", row) if isinstance(row, dict) else row for row in rows]
            elif value and all(isinstance(column, dict) for column in value.values()):  # as pandas has them
                value = pd.DataFrame(value, dtype=object).to_dict("records")
            else:
                value = [value]
        values = list(enumerate(value if isinstance(value, list) else [value], 1))
    records, problems = [], []
    for number, record in values:
        if isinstance(record, dict):
            records.append(record)
        else:
            fault = record if isinstance(record, Exception) else f"it is {str(record)[:40]!r}"
            problem = f"this record cannot be read ({fault}), expected names with values"
            problems.append(DataError(problem, file=path, line=number, remedy="correct it, or leave it out"))
    return records, problems


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


def decoded_text(data: bytes, path: Path, notes: list[str] | None = None) -> str:
    """Return the text of a file in UTF-8, UTF-16, UTF-32 or Windows-1252; a note names the last.

    DataError if it is not text (it says what it is and what to do), or is damaged (it says in which line).
    """
    for mark, name, remedy in _FOREIGN:
        if data.startswith(mark) or (mark.startswith(b"<") and data[:16].lower().startswith(mark)):
            raise DataError(f"this is {name}, expected text", file=path, remedy=remedy)
    encoding = encoding_of_mark(data) or "utf-8"
    halves = data[:2000:2], data[1:2000:2]
    if encoding == "utf-8" and max(zeros := [half.count(b"\0") for half in halves]) * 2 > len(halves[0]):
        encoding = "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding.startswith("utf-") and not encoding.startswith("utf-8"):
            problem = f"this is not valid {encoding[:6].upper()} text ({error.reason})"
            raise DataError(problem, file=path, remedy=SAVE) from None
        text, position = data.decode("cp1252", "replace"), error.start
        readable = data.decode("utf-8", "replace")
        is_damaged = sum(char > "\x7f" for char in readable) >= 2 * readable.count("\ufffd")
        if encoding == "utf-8" and not is_damaged:
            position = text.find("\ufffd")  # a byte that Windows-1252 lacks
        if position >= 0:
            raise DataError(
                f"invalid UTF-8 byte 0x{data[position]:02x}, so the file cannot be read",
                file=path,
                line=data.count(b"\n", 0, position) + 1,
                remedy=f"restore the file, or {SAVE}",
            ) from None
        if notes is not None:
            notes.append("read as Windows-1252")
    return text


def _separator(text: str, path: Path) -> tuple[str, int, str]:
    """Return the separator, the line of the header, and the text without Excel's separator line."""
    if mark := re.match(r"sep=([,;\t|])(?:\r?\n|\r)", text):
        return mark[1], 2, text[mark.end() :]

    def fit(separator: str) -> tuple[bool, float, int]:
        rows = list(islice(_cells(text, separator, csv.QUOTE_MINIMAL), _SAMPLE + 1))
        lengths = [0 if isinstance(row[1], str) else len(row[1]) for row in rows]
        alike = sum(length == lengths[0] for length in lengths) / len(lengths) if lengths else 0
        return lengths[:1] > [1], alike, (lengths or [0])[0]

    order = _SEPARATORS[::-1] if path.suffix.lower() in {".tsv", ".tab"} else _SEPARATORS
    return max(order, key=fit), 1, text


def _parse_rows(text: str, path: Path, separator: str) -> list[Row | DataError]:
    """Return the non-empty rows; quotation marks in a tab-separated table may be plain characters."""
    rows = list(_cells(text, separator, csv.QUOTE_MINIMAL))
    if separator == "\t" and any(isinstance(cells, str) for _, cells in rows):
        plain = list(_cells(text, separator, csv.QUOTE_NONE))
        if len({len(cells) for _, cells in plain}) == 1:
            rows = plain
    return [
        DataError(cells, file=path, line=line, remedy=_BROKEN) if isinstance(cells, str) else (line, cells)
        for line, cells in rows
    ]


def _cells(text: str, separator: str, quoting: Any) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each non-empty row with its first line, or the error."""
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a passage may be long
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True, quoting=quoting)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = f"this is not a row of a table ({error})"
            if "end of data" in str(error):
                problem = "the file ends within this row: was it written or downloaded to its end?"
            yield line, problem
            continue
        if any(cell.strip() for cell in row):
            yield line, row


def _worksheet(data: bytes, path: Path, notes: list[str]) -> Iterator[Row | DataError]:
    """Yield the non-empty rows of the first sheet of an Excel workbook as text."""
    with reading(path, "this archive", remedy="save it again"), zipfile.ZipFile(io.BytesIO(data)) as archive:
        size = sum(member.file_size for member in archive.infolist())
        names = archive.namelist()
    if "xl/workbook.xml" not in names:
        is_document = "mimetype" in names or any(name.endswith(".iwa") for name in names)
        name, remedy = ("a document of another office program", SAVE) if is_document else ("a zip archive",
            "unpack it")  # fmt: skip
        raise DataError(f"this is {name}, expected a table", file=path, remedy=remedy)
    if size > files.MAX_IN_MEMORY // 8:  # a cell of 20 bytes becomes a Python object
        raise files.too_large(path, files.MAX_IN_MEMORY // 8)
    try:
        import openpyxl  # noqa: PLC0415 - few have workbooks
    except ImportError:
        problem = "this is an Excel workbook, which is read with openpyxl, and that is not installed"
        raise DataError(problem, file=path, remedy=f"{SAVE}, or run `pip install openpyxl`") from None
    with reading(path, "this Excel workbook", remedy=SAVE):
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        if len(book.worksheets) > 1:
            notes.append(f"read from the sheet {sheet.title!r}, the first of {len(book.worksheets)}")
        width = None
        for line, values in enumerate(sheet.iter_rows(values_only=True, max_col=_ENOUGH + 1), 1):
            cells = [_cell_text(value) for value in values[:width]]
            if any(cell.strip() for cell in cells):
                while width is None and not cells[-1].strip():
                    cells.pop()
                width = width or len(cells) + 1
                yield line, cells + [""] * (width - 1 - len(cells))


def _cell_text(value: Any) -> str:
    if isinstance(value, date | time):
        return value.isoformat()
    return (
        "" if value is None else str(int(value) if isinstance(value, float) and value.is_integer() else value)
    )


def _equal_rows(
    rows: list[Row | DataError], path: Path, *, skipped: int
) -> tuple[Row, list[Row | DataError]]:
    """Return the header with its line, and the rows padded to its length; `skipped` lines came before."""
    if not rows:
        raise DataError("this table has no row", file=path)
    if isinstance(rows[0], DataError):
        raise rows[0]
    header = [name.strip() for name in rows[0][1]]
    good = [row[1] for row in rows[1:] if not isinstance(row, DataError)]
    while len(header) > 1 and not header[-1] and not any("".join(c[len(header) - 1 :]).strip() for c in good):
        header.pop()
    result: list[Row | DataError] = []
    for row in rows[1:]:
        line, problem, remedy = 0, "", _BROKEN
        if isinstance(row, DataError):
            line, problem = row.line or 0, row.problem
        else:
            line, cells = row
            while len(cells) > len(header) and not cells[-1].strip():
                cells.pop()
            if len(cells) != len(header):
                problem = f"this row has {len(cells)} cells, expected {len(header)} ({', '.join(header):.80})"
        line += skipped
        result.append(DataError(problem, file=path, line=line, remedy=remedy) if problem else (line, cells))
    return (rows[0][0] + skipped, header), result


def _name_columns(header: list[str], rows: list[list[str]]) -> None:
    """Name unnamed columns; drop a first column of row numbers."""
    if len(header) > 1 and header[0] in {"", "Unnamed: 0"}:
        header[0] = "index"
        numbers = [cells[0] for cells in rows]
        if numbers in ([str(i + start) for i in range(len(numbers))] for start in (0, 1)):
            for cells in (header, *rows):
                del cells[0]
    header[:] = [name or f"column {number}" for number, name in enumerate(header, 1)]


def _points(header: list[str], rows: list[list[str]], words: set[str], *, is_certain: bool) -> Iterator[str]:
    """Replace the decimal comma by a point in columns of numbers; yield a note on each."""
    columns = [index for index, name in enumerate(header) if name.lower() not in words]
    is_certain &= not any(_POINT.fullmatch(row[index].strip()) for row in rows for index in columns)
    for index in columns:
        cells = [cell for row in rows if (cell := row[index].strip())]
        decimals = [cell for cell in cells if _DECIMAL.fullmatch(cell)]
        if not decimals or not all(_DECIMAL.fullmatch(cell) or _INTEGER.fullmatch(cell) for cell in cells):
            continue
        if not is_certain and all(_THOUSANDS.fullmatch(cell) for cell in decimals):
            continue  # 1,234 may be a thousand and more
        for row in rows:
            row[index] = _GROUPS.sub("", row[index]).replace(",", ".")
        yield f"the column {header[index]!r} has a decimal comma"
