"""Tables whose rows are whole books: Parquet, JSON lines, CSV, and what the library ``datasets`` saves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from workbench.datasets.question_tables import BOOK_TEXTS
from workbench.datasets.sources import decode
from workbench.datasets.user_table import is_table
from workbench.storage import files
from workbench.storage.errors import DataError, reading
from workbench.storage.tables import encoding_of_mark, read_frame

COLUMNS = {
    "text": BOOK_TEXTS,
    "title": ("title", "book_title", "short_book_title"),
    "author": ("author", "authors", "creator"),
    "year": ("year", "publication_year", "publication_date", "issued", "date"),
    "book_id": ("book_id", "id", "item_id", "text_id", "gutenberg_id"),
}
"""The names under which a column is recognised, in any case; the first that is there counts."""

_METADATA = "metadata"  # a column whose cells have the other fields by name, or JSON of them
_ABOUT = {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"}
_ROWS = 16  # that are in memory at a time
_BROKEN = "correct the row, or write the table anew"
_REWRITE = "get the file again, or write the table anew"
_UTF8 = {None, "utf-8-sig"}
_MAGIC = b"ARROW1\0\0"  # of a file of Arrow, before what is a stream


class BookRow(NamedTuple):
    """A row of a table: the name of a book, its id where there is a column of them, and its text."""

    name: str
    book_id: str | None
    title: str | None
    author: str | None
    year: int | None
    text: str


def is_book_table(name: str) -> bool:
    """Return whether a file may be a table of books, by its name."""
    return is_table(name) and PurePosixPath(name).name not in _ABOUT


def read_book_rows(path: Path, prefix: str) -> Iterator[BookRow | tuple[str, DataError]]:
    """Yield the books of a table; a row that is none as a name and its error.

    A book has the name of its ``domain``, if there is such a column, and the number of its row after
    `prefix`. Of JSON lines and Arrow some rows are in memory at a time, of Parquet a group of rows; other
    tables are read at once.
    """
    ids: set[str] = set()
    is_first = True
    for number, record in enumerate(_records(path)):
        name, where = f"{prefix}-{number:04d}", f"row {number + 1} "
        if isinstance(record, DataError):
            yield name, record
            continue
        columns = _roles(record)
        if is_first and "text" not in columns:
            expected, there = ", ".join(COLUMNS["text"]), ", ".join(record)[:200] or "none"
            problem = f"expected a column of texts ({expected}), got {there}"
            raise DataError(problem, file=path, remedy='rename the column of texts to "text"')
        is_first = False
        cells = {role: record[column] for role, column in columns.items() if record[column] is not None}
        cells = _metadata(record) | cells
        if not isinstance(text := cells.get("text"), str) or not text.strip():
            yield name, DataError(f"{where}has no text", file=path, remedy=_BROKEN)
            continue
        book_id = _plain(cells.get("book_id"))
        if book_id in ids:
            remedy = "leave one of them out, or rename the column of ids: rows have numbers then"
            yield name, DataError(f"{where}has the id {book_id!r} of another row", file=path, remedy=remedy)
            continue
        if book_id:
            ids.add(book_id)
        if isinstance(domain := record.get("domain"), str):
            file = PurePosixPath(name)
            name = str(file.parent / domain / file.name)
        year = re.search(r"(?<!\d)\d{4}(?!\d)", str(cells.get("year")))
        title, author = _plain(cells.get("title")), _plain(cells.get("author"))
        yield BookRow(name, book_id, title, author, int(year[0]) if year else None, text)


def _records(path: Path) -> Iterator[dict[str, Any] | DataError]:
    ending = path.suffix.lower()
    with reading(path, "this table of books"), path.open("rb") as file:
        start = file.read(len(_MAGIC))
    with reading(path, "this table of books", remedy=_REWRITE):
        if start.startswith(b"PAR1"):
            for batch in pq.ParquetFile(path).iter_batches(_ROWS):
                yield from _wanted(batch).to_pylist()
        elif start == _MAGIC or start.startswith(b"\xff\xff\xff\xff"):
            yield from _arrow(path, len(_MAGIC) if start == _MAGIC else 0)
        elif ending in {".jsonl", ".ndjson"} and start[:1] != b"[" and encoding_of_mark(start) in _UTF8:
            yield from _json_lines(path)
        else:
            data = files.read_bytes(path)
            table = read_frame(data, path)
            for record in _wanted(table.frame).to_dict("records"):
                yield {str(name): cell for name, cell in record.items()}
            yield from table.problems


def _wanted(table: Any) -> Any:
    """Return the columns of a table that say something of a book, of a batch or a frame."""
    is_batch = isinstance(table, pa.RecordBatch)
    names = list(table.schema.names if is_batch else table.columns)
    wanted = {_METADATA, "domain", *(name for names in COLUMNS.values() for name in names)}
    columns = [name for name in names if str(name).lower() in wanted]
    columns = columns if "text" in _roles(columns) else names  # for the error
    return table.select(columns) if is_batch else table[columns]


def _json_lines(path: Path) -> Iterator[dict[str, Any] | DataError]:
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                with reading(path, "this record", line=number, remedy=_BROKEN):
                    record = json.loads(decode(line, path))
            except DataError as error:
                yield DataError(error.problem, file=path, line=number, remedy=error.remedy)
                continue
            problem = f"expected names with values, got {str(record)[:40]!r}"
            is_record = isinstance(record, dict)
            yield record if is_record else DataError(problem, file=path, line=number, remedy=_BROKEN)


def _arrow(path: Path, start: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of a stream of Arrow."""
    with pa.memory_map(str(path)) as file:
        file.seek(start)
        for batch in pa.ipc.open_stream(file):
            batch.validate(full=True)
            wanted = _wanted(batch)
            for begin in range(0, len(wanted), _ROWS):
                yield from wanted.slice(begin, _ROWS).to_pylist()


def _roles(names: Any) -> dict[str, str]:
    """Return the columns of a table by their roles."""
    by_name = {str(name).lower(): name for name in reversed(list(names))}
    roles = {role: next(filter(by_name.get, names), None) for role, names in COLUMNS.items()}
    return {role: by_name[name] for role, name in roles.items() if name}


def _metadata(record: dict[str, Any]) -> dict[str, Any]:
    """Return what a cell of metadata says of a book, by role."""
    cell = next((cell for name, cell in record.items() if name.lower() == _METADATA), None)
    if isinstance(cell, str):
        with suppress(ValueError, RecursionError):
            cell = json.loads(cell)
    return (
        {r: cell[name] for r, name in _roles(cell).items() if r != "text"} if isinstance(cell, dict) else {}
    )


def _plain(cell: Any) -> str | None:
    """Return the text of a cell, of several names one after the other; None where it is empty."""
    if isinstance(cell, list):
        return " and ".join(filter(None, map(_plain, cell))) or None
    is_text = isinstance(cell, str | int) and not isinstance(cell, bool)
    return " ".join(str(cell).encode("utf-8", "replace").decode().split()) or None if is_text else None
