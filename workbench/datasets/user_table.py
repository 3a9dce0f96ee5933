"""A user's own table of passages, in any file that `read_frame` reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.datasets import childrens_book, cnn_qa, sources
from workbench.datasets.question_tables import QuestionTable, in_file, read_shards
from workbench.datasets.sources import name_of_set, shards
from workbench.items import language
from workbench.items.cells import column_named, index_as_columns
from workbench.items.items import ITEM_COLUMNS, Items, items_from_frame
from workbench.items.questions import ANSWERS, CONTEXTS, CONTINUATIONS, LABELS, TEXTS, choice_columns
from workbench.items.schema import objects
from workbench.storage.errors import DataError
from workbench.storage.files import read_bytes
from workbench.storage.tables import JSON_ENDINGS, WORKBOOK_ENDINGS

ROLES = {
    "text": TEXTS,
    "candidates": ("candidates", "choices", "options"),
    "answer": ANSWERS,
    "word_class": ("word_class",),
    "book_id": ("book_id", "book"),
}
"""The names under which a column is recognised, in any case; options of `items_from_frame` come first."""
_WORDS = {name for names in (*ROLES.values(), CONTEXTS, CONTINUATIONS, ("item_id", "id")) for name in names}
"""Columns, in lower case, whose cells stay as they are written."""
BOOK_TEXTS = ("text", "content", "book", "book_text", "full_text")
"""Columns, in lower case, of the texts of books."""
_BOOK = 20_000  # characters of a text that is a book, not a passage
_QUESTIONS = (childrens_book.QUESTIONS, cnn_qa.QUESTIONS)
_LONGEST_NAME = 50  # letters, of at most three bytes each but for rare ones
_NUMBER = re.compile(r"[+-]?(?:0|[1-9]\d{0,14})(?:\.\d+)?(?:[eE][+-]?\d{1,3})?")  # 007 is a word
_TRUTHS = {"True": True, "False": False}
_TYPED = (*JSON_ENDINGS, ".parquet")  # tables whose cells have types
_REFUSED = (".xls", ".ods", ".arrow", ".feather")
ENDINGS = (".csv", ".tsv", ".tab", *_TYPED, *WORKBOOK_ENDINGS, *_REFUSED)
"""What the names of tables end in; the last four are not read, and the error says which forms are."""


def is_table(name: Path | str) -> bool:
    """Return whether a name is that of a table, which :func:`read_table` reads."""
    return Path(name).suffix.lower() in ENDINGS


def read_table(path: Path | str, *, on_error: str = "raise", **options: Any) -> Items:
    """Make items of a table in a file; see :func:`workbench.load`.

    Columns are found by the names in `ROLES`; `options` are those of :func:`workbench.items_from_frame`.
    """
    path = Path(path)
    paths = shards(path)
    frame, lines, problems, note = read_shards([(read_bytes(path, "this table"), path) for path in paths])
    numbers = lines if len(paths) == 1 else None
    if problems and on_error == "raise":
        raise problems[0]
    if path.suffix.lower() not in _TYPED:
        frame = _with_types(frame, _WORDS | {str(column).lower() for column in options.values()})
    frame = index_as_columns(frame).reset_index(drop=True)
    if not options and set(ITEM_COLUMNS) <= set(frame) and frame.columns.is_unique:
        return Items.concat(map(Items.from_parquet, paths)) if len(paths) > 1 else Items.from_parquet(path)
    notes = [note] if note else []
    _check_no_books(frame, path)
    table: QuestionTable[Any] | None = None  # of a data set, by columns that no option names
    if {"text", "candidates"}.isdisjoint(options) and frame.columns.is_unique:
        renamed = _with_answers(frame, options.get("answer"))
        table = next((table for table in _QUESTIONS if table.holds(renamed, path)), None)
    if table is not None:
        frame, bad = _questions(renamed, table, path, numbers)
        problems += bad
        if bad and on_error == "raise":
            raise bad[0]
        answer = None if options.get("answer", "answer") is None else "answer"
        options = {"candidates": "candidates", "tokenised": True} | options | {"answer": answer}
    word_class = childrens_book.class_in_name(path)
    try:
        if table is childrens_book.QUESTIONS and word_class and not column_named(frame, ["word_class"]):
            frame = frame.assign(word_class=word_class)
        _add_language(options, frame, path, notes)
        _add_roles(options, frame, path, notes)
        items = items_from_frame(frame, on_error=on_error, **options)
    except DataError as error:
        raise in_file(error, path, numbers) from None
    if table is not None:
        rows = items.frame
        spans = [table.sentences(text) for text in rows["text"]]
        items = Items(rows.assign(sentences=objects(spans)), attrs=items.attrs, problems=items.problems)
    notes += [items.attrs["note"]] if items.attrs else []
    source = ", ".join(shard.name for shard in paths)
    items.attrs = {"source": source} | ({"note": "; ".join(notes)} if notes else {})
    items.problems = (*problems, *(in_file(each, path, numbers) for each in items.problems))
    return items


def _with_types(frame: pd.DataFrame, words: set[str]) -> pd.DataFrame:
    """Return a table of text whose columns of numbers, or of True and False, hold them.

    `words` are the columns, in lower case, that stay text.
    """
    columns: dict[str, pd.Series[Any]] = {}
    for name in frame.columns:
        cells = frame[name].dropna()
        if name.lower() in words or cells.empty:
            continue
        if all(map(_NUMBER.fullmatch, cells)):
            columns[name] = pd.to_numeric(frame[name])
        elif cells.isin(_TRUTHS.keys()).all():
            columns[name] = frame[name].map(_TRUTHS)
    return frame.assign(**columns)


def dataset_name(path: Path) -> str:
    """Return the data set that a user's file is: its name, without its ending.

    Characters that are not a letter, a digit, ``_``, ``.`` or ``-`` become ``-``. Where a data set of that
    name is known, the file is another one: ``own-lambada``.
    """
    name = re.sub(r"[^\w.-]+", "-", name_of_set(path)).strip("-.")[:_LONGEST_NAME] or "own"
    return f"own-{name}" if name.lower() in sources.readers() else name


def _with_answers(frame: pd.DataFrame, column: Any) -> pd.DataFrame:
    """Return a table whose column of answers is called ``answer``."""
    if column not in frame.columns or column == "answer":
        return frame
    others = [name for name in frame if str(name).lower() == "answer"]
    return frame.drop(columns=others).rename(columns={column: "answer"})


def _questions(
    frame: pd.DataFrame, table: QuestionTable[Any], path: Path, lines: Sequence[int] | None
) -> tuple[pd.DataFrame, list[DataError]]:
    """Return questions that a data set knows as passages, and the errors of the rows that are none."""
    numbers, passages, problems = [], [], []
    for row in table.rows(frame, path, lines):
        if isinstance(row, DataError):
            problems.append(row)
        else:
            numbers.append(row[0])
            passages.append(table.passage(row[2]))
    further = [name for name in frame if str(name).lower() not in table.cells]
    columns = zip(
        ("text", "answer", "candidates"), zip(*passages, strict=True) if passages else [()] * 3, strict=True
    )
    result = frame.iloc[numbers][further]
    return result.assign(**{name: objects(values).to_numpy() for name, values in columns}), problems


def _add_language(options: dict[str, Any], frame: pd.DataFrame, path: Path, notes: list[str]) -> None:
    """Add the language in the file's name to the variant, unless language or variant are set otherwise."""
    names = {str(name).lower(): name for name in frame}
    columns = [names[name] for name in language.LANGUAGE_COLUMNS if name in names]
    unknown = [
        cell for name in columns for cell in frame[name].dropna().unique() if not language.language_code(cell)
    ]
    if unknown:
        notes.append(f"the column {columns[0]!r} holds {str(unknown[0])[:40]!r}, no language that is known")
    code = language.language_in_path(path)
    if code not in {None, language.ENGLISH} and not columns and not {"variant"} & {*options, *names}:
        options["variant"] = language.in_language("own", code)
        name = language.language_name(str(code))
        notes.append(f'taken as {name}, by the name of the file or folder; variant="own" if it is English')


def _add_roles(options: dict[str, Any], frame: pd.DataFrame, path: Path, notes: list[str]) -> None:
    """Add the columns with the name of a role, unless an option names another column; name the data set."""
    for role, names in ROLES.items():
        has_choices = "candidates" in options
        if role == "answer" and not has_choices and options.get("text") in frame.columns:
            has_choices = bool(choice_columns(frame, frame[options["text"]]))
        column = column_named(frame, (*names, *LABELS) if role == "answer" and has_choices else names)
        if role not in options and column is not None and column not in options.values():
            options[role] = column
        if role == "answer" and has_choices and role not in options and "candidates" not in options:
            notes.append(f'this table has no answers; wb.load("msrcc", path="{path}") reads them beside it')
    if "dataset" not in frame.columns:
        options.setdefault("dataset", dataset_name(path))


def _check_no_books(frame: pd.DataFrame, path: Path) -> None:
    """Raise DataError if most texts of a table are as long as a book, where no passage is."""
    columns = (frame[name] for name in frame if str(name).lower() in BOOK_TEXTS)
    for column in columns:
        texts = column.tolist() if isinstance(column, pd.Series) else []
        if sum(isinstance(text, str) and len(text) > _BOOK for text in texts) * 2 > len(texts):
            hint = "read them with wb.books, from JSON lines or Parquet with the books in a column `text`"
            raise DataError("its rows are whole books, not passages", file=path, hint=hint)
