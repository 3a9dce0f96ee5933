"""Tables of a data set's questions, one per row: their format, and the loop over the rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import pandas as pd

from workbench.datasets.sources import File
from workbench.items.cells import index_as_columns
from workbench.items.questions import Sides
from workbench.items.schema import Span
from workbench.storage.errors import DataError
from workbench.storage.tables import TableFrame, read_frame

_ROW = re.compile(r"row (\d+): ")
_WITH_LINES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson")

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

    def rows(
        self, frame: pd.DataFrame, path: Path, lines: Sequence[int] | None
    ) -> Iterator[Row[Question] | DataError]:
        """Yield the questions of a frame, and the errors of the rows that hold none; see :func:`in_file`."""
        frame = frame.loc[:, ~frame.columns.duplicated()].iloc[:, ::-1]
        names = {column: str(column).lower() for column in frame}  # of equal ones the first is read
        for number, cells in enumerate(frame.to_dict("records")):
            row = {names[column]: cell for column, cell in cells.items()}
            try:
                question = self.read(row)
            except DataError as error:
                yield in_file(DataError(f"row {number}: {error.problem}", hint=error.hint), path, lines)
            else:
                yield number, row, question

    def rows_of_file(self, file: File) -> Iterator[Row[Question] | DataError]:
        """Yield the questions of a file's parts, numbered as one set."""
        n_before = 0
        for shard in file.shards:
            frame, lines, problems, _ = read_frame(shard.data, shard.path)
            yield from problems
            if not self.holds(frame, shard.path):
                problem = f"expected the columns {self.columns}, got {', '.join(map(str, frame))}"
                hint = f'read a table of your own with wb.load("{shard.path}")'
                raise DataError(problem, file=shard.path, hint=hint)
            for row in self.rows(frame, shard.path, lines):
                yield row if isinstance(row, DataError) else (n_before + row[0], *row[1:])
            n_before += len(frame)


def in_file(error: DataError, path: Path, lines: Sequence[int] | None) -> DataError:
    """Return an error of a table with its file, and that of ``row 3``, from 0, with its line.

    `lines` are those of the rows; without them, and where a file has no lines, rows are counted from 1.
    """
    match = _ROW.match(error.problem)
    if match is None:
        return DataError(error.problem, file=path, hint=error.hint)
    number, problem = int(match[1]), error.problem[match.end() :]
    hint = f'{error.hint or "correct it"}, or leave the row out with on_error="skip"'
    if lines is not None and path.suffix.lower() in _WITH_LINES:
        return DataError(problem, file=path, line=lines[number], hint=hint)
    row = number + 1 if lines is None else lines[number]
    return DataError(f"row {row}, counted from 1: {problem}", file=path, hint=hint)


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
