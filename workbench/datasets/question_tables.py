"""Tables of a data set's questions, one a row: their format, and the loop over the rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pandas as pd

from workbench.datasets.sources import File
from workbench.items import language
from workbench.items.cells import index_as_columns
from workbench.items.questions import Sides
from workbench.items.schema import Span
from workbench.storage.errors import DataError
from workbench.storage.tables import TableFrame, read_frame

TABLES = (".parquet", ".jsonl", ".json", ".csv", ".tsv")
BOOK_TEXTS = ("text", "content", "book", "book_text", "full_text")
"""Columns, in lower case, of the texts of books."""
_BOOK = 20_000  # characters of a text that is a book, not a passage

Question = TypeVar("Question")
Row = tuple[int, Mapping[str, Any], Question]
"""A row's number from 0, its cells by column in lower case, and the question."""


class QuestionTable(NamedTuple, Generic[Question]):
    """The format of a data set's questions in a table.

    ``columns`` are those that are expected, in words; ``cells`` those, in lower case, that make the passage
    and hold text. ``holds`` returns whether a frame (of a file, for messages) holds such questions; ``read``
    returns the question of a row, with columns in lower case, or raises DataError. ``passage`` returns the
    text around a question's blank, its answer and candidates; ``sentences`` those of such a text.
    """

    columns: str
    cells: Collection[str]
    holds: Callable[[pd.DataFrame, Path], bool]
    read: Callable[[Mapping[str, Any]], Question]
    passage: Callable[[Question], tuple[Sides, str | None, Sequence[str]]]
    sentences: Callable[[str], tuple[Span, ...]]

    def rows(self, frame: pd.DataFrame, label: Path | str) -> Iterator[Row[Question] | DataError]:
        """Yield the questions of a frame, and the errors of the rows that hold none."""
        frame = frame.loc[:, ~frame.columns.duplicated()].iloc[:, ::-1]
        names = {column: str(column).lower() for column in frame}  # of equal ones the first is read
        for number, cells in enumerate(frame.to_dict("records")):
            row = {names[column]: cell for column, cell in cells.items()}
            try:
                question = self.read(row)
            except DataError as error:
                hint = 'correct the row, or leave it out with on_error="skip"'
                yield DataError(f"row {number}: {error.problem}", file=label, hint=hint)
            else:
                yield number, row, question

    def rows_of_file(self, file: File, variant: str) -> Iterator[tuple[Row[Question], str] | DataError]:
        """Yield the questions of a file's parts, each with `variant` in the language of the row or file."""
        n_before = 0
        code = language.language_in_path(file.path)
        for shard in file.shards:
            frame, _, problems, _ = read_frame(shard.data, shard.path)
            yield from problems
            check_no_books(frame, shard.path, "whole books, not questions")
            if not self.holds(frame, shard.path):
                problem = f"expected the columns {self.columns}, got {', '.join(map(str, frame))}"
                hint = f'read a table of your own with wb.load("{shard.label}")'
                raise DataError(problem, file=shard.label, hint=hint)
            for row in self.rows(frame, shard.label):
                if isinstance(row, DataError):
                    yield row
                else:
                    number, cells, question = row
                    of_row = language.in_language(variant, language.language_of_row(cells) or code)
                    yield (n_before + number, cells, question), of_row
            n_before += len(frame)


def in_file(error: DataError, path: Path | str) -> DataError:
    """Return an error of a table with its file; that of a row says that the row can be left out."""
    hint = error.hint
    if error.problem.startswith("row "):
        hint = f'{hint or "correct it"}, or leave the row out with on_error="skip"'
    return DataError(error.problem, file=path, hint=hint)


def read_shards(shards: Sequence[tuple[bytes, Path]]) -> TableFrame:
    """Return the rows of all parts of a table; DataError if they have different columns."""
    tables = [read_frame(data, path) for data, path in shards]
    if len(tables) == 1:
        return tables[0]
    frames = [index_as_columns(table.frame) for table in tables]
    for (_, path), frame in zip(shards, frames, strict=True):
        if set(frame) != set(frames[0]):
            columns, expected = (", ".join(map(str, each))[:200] for each in (frame, frames[0]))
            problem = f"expected the columns of its first part, {expected}, got {columns}"
            raise DataError(problem, file=path, hint="write all parts with the same columns")
    lines = [line for table in tables for line in table.lines]
    problems = [problem for table in tables for problem in table.problems]
    notes = dict.fromkeys(table.note for table in tables if table.note)
    return TableFrame(pd.concat(frames, ignore_index=True), lines, problems, "; ".join(notes))


def check_no_books(frame: pd.DataFrame, path: Path, problem: str) -> None:
    """Raise DataError, with the message `problem`, if the rows of a table are whole books."""
    columns = (frame[name] for name in frame if str(name).lower() in BOOK_TEXTS)
    if not any(isinstance(column, pd.Series) and are_books(column) for column in columns):
        return
    hint = "read them with wb.books, from JSON lines or Parquet with the books in a column `text`"
    raise DataError(f"its rows are {problem}", file=path, hint=hint)


def are_books(texts: Iterable[Any]) -> bool:
    """Return whether most cells are as long as a book, where no passage is."""
    long = [isinstance(text, str) and len(text) > _BOOK for text in texts]
    return sum(long) * 2 > len(long)
