"""A user's own table of passages, in any file that `read_frame` reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.datasets import childrens_book, cnn_qa
from workbench.datasets.sources import MAX_COLUMNS, QuestionTable, is_books
from workbench.items.items import COLUMNS, Items, index_as_columns, items_from_frame
from workbench.items.schema import objects
from workbench.storage.errors import DataError
from workbench.storage.files import read_bytes
from workbench.storage.spreadsheet import JSON_ENDINGS, read_frame

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
ENDINGS = (".csv", ".tsv", ".tab", *JSON_ENDINGS, ".parquet", ".xlsx", ".xls", ".ods", ".arrow", ".feather")
"""What the names of tables end in; the last four are told what to do."""


def is_table(name: Path | str) -> bool:
    """Return whether a name is that of a table, which :func:`read_table` reads."""
    return Path(name).suffix.lower() in ENDINGS


def read_table(path: Path | str, *, on_error: str = "raise", **options: Any) -> Items:
    """Make items of a table in a file; see :func:`workbench.load`.

    Columns are found by the names in `ROLES`; `options` are those of :func:`workbench.items_from_frame`.
    """
    path = Path(path)
    words = {name for names in ROLES.values() for name in names}
    frame, problems, note = read_frame(read_bytes(path, "this table"), path, words=words, limit=MAX_COLUMNS)
    if len(frame.columns) > MAX_COLUMNS:
        problem = f"this table has {len(frame.columns):,} columns, expected at most {MAX_COLUMNS:,}"
        raise DataError(problem, file=path, remedy="leave out columns")
    if problems and on_error == "raise":
        raise problems[0]
    frame = index_as_columns(frame)
    if not options and set(COLUMNS) <= set(frame) and frame.columns.is_unique:
        return Items.from_parquet(path)
    notes = [note] if note else []
    if is_books(frame):
        problem = "the rows are whole books, not passages"
        raise DataError(problem, file=path, remedy=f'read them with wb.books("{path}")')
    cnn_qa.check_no_summaries(frame, path)
    reader = _reader(frame, options)
    if reader is not None:
        frame, bad = _questions(frame, reader, path, on_error)
        problems += bad
        options = {"answer": "answer", "candidates": "candidates", "tokenised": True} | options
    _add_roles(options, frame, path, notes)
    try:
        items = items_from_frame(frame, on_error=on_error, **options)
    except DataError as error:
        raise DataError(error.problem, file=path, remedy=error.remedy) from None
    if reader is not None:
        rows = items.frame
        spans = [reader.sentences(text) for text in rows["text"]]
        items = Items(rows.assign(sentences=objects(spans)), problems=items.problems)
    items.attrs |= {"source": path.name} | ({"note": "; ".join(notes)} if notes else {})
    located = [DataError(each.problem, file=path, remedy=each.remedy) for each in items.problems]
    items.problems = (*problems, *located)
    return items


def _reader(frame: pd.DataFrame, options: Mapping[str, Any]) -> QuestionTable | None:
    """Return the data set whose questions a table holds, in columns that no option names."""
    if {"text", "answer", "candidates"} & {*options} or not frame.columns.is_unique:
        return None
    return next((each for each in (childrens_book.QUESTIONS, cnn_qa.QUESTIONS) if each.holds(frame)), None)


def _questions(
    frame: pd.DataFrame, reader: QuestionTable, path: Path, on_error: str
) -> tuple[pd.DataFrame, list[DataError]]:
    """Return questions that a data set's reader knows as passages, and the rows that are none.

    The word class is that of the file's name, where it tells one and the table does not.
    """
    rows, problems = [], []
    names = {column: str(column).lower() for column in frame}
    for number, row in enumerate(frame.to_dict("records")):
        try:
            text, answer, candidates = reader.passage({names[column]: cell for column, cell in row.items()})
        except DataError as error:
            remedy = 'correct the row, or leave it out with on_error="skip"'
            problems.append(DataError(f"row {number}: {error.problem}", file=path, remedy=remedy))
            if on_error == "raise":
                raise problems[0] from None
            continue
        further = {column: cell for column, cell in row.items() if names[column] not in reader.cells}
        rows.append(further | {"text": text, "answer": answer, "candidates": candidates})
    table = pd.DataFrame(rows, columns=None if rows else ["text", "answer", "candidates"])
    word_class = childrens_book.class_in_name("/".join(path.absolute().parts[-2:]))
    if reader is childrens_book.QUESTIONS and "word_class" not in names.values() and word_class:
        table["word_class"] = word_class
    return table, problems


def _add_roles(options: dict[str, Any], frame: pd.DataFrame, path: Path, notes: list[str]) -> None:
    """Add the columns that have the name of a role, where no option names another one."""
    for role, names in ROLES.items():
        column = None if role in options else _column(frame, names, path)
        if column is None or any(column is value or column == value for value in options.values()):
            continue
        if role == "item_id" and str(column).lower() == "id" and not _names_rows(frame[column]):
            notes.append(f"the column {column!r} has empty or equal cells, so ids are made of the passages")
            continue
        options[role] = column


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
