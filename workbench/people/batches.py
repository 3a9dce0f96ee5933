"""Batches of pages for crowdsourcing services and forms: exported as a table, and their answers imported."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.notes import text_digest
from workbench.items.schema import Item, content_digest
from workbench.people.judgments import (
    is_about,
    read_judgments,
    record_judgments,
    row_of,
)
from workbench.people.protocols import Protocol, ProtocolStep
from workbench.people.protocols import protocol as named_protocol
from workbench.people.reports import states
from workbench.people.tasks import (
    check_guesses,
    check_person,
    check_questions,
    n_shown_at_first,
    task_of,
)
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path, read_bytes
from workbench.storage.tables import read_frame

_BETWEEN = "|"  # candidates, and people, of one cell
_FORM = re.compile(r"(Input|Answer)\.")  # what MTurk writes before the columns of a form
_WORKERS = re.compile(
    r"(person|prolific|worker|participant|annotator|subject|respondent|rater|turker|user)(id|pid|name)?"
)


def export_step(
    items: Items,
    judgments: pd.DataFrame,
    protocol: str | Protocol = "lambada",
    path: Path | str = "step.csv",
    *,
    step: int | None = None,
    people: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Write the pages of the next step as a CSV file, for Prolific, MTurk, Label Studio or a form.

    Parameters
    ----------
    items : Items
        With answers; with candidates too where the protocol shows them.
    judgments : DataFrame
        What was judged so far: see `read_judgments`.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
    path : path, default "step.csv"
        The CSV file: one row per page, with the columns ``page``, ``step``, ``condition``, ``people`` (how
        many different people are to answer the page), ``guesses`` (words that may be typed for a task), and
        for each task ``item_1`` (a name without information on the item), ``context_1``, ``left_1``,
        ``right_1``, ``candidates_1`` and ``exclude_1``: the people who have judged the item at any step,
        separated by ``|``, who must not get this page.
    step : int, optional
        From 1; by default the first one that has open items.
    people : int, optional
        Most people for a page; by default as many as its items still need. With 1, an item that one person's
        answer stops is not given to others, which costs less and takes more rounds.
    seed : int, default 0
        Draws the order of the items.

    Returns
    -------
    DataFrame
        The rows that were written.

    Raises
    ------
    DataError
        If the step unfolds, which no form does, no item is open there, or an item lacks what is shown.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from workbench import people
    >>> judgments = people.read_judgments(folder := mkdtemp())
    >>> table = people.export_step(items, judgments, "lambada", f"{folder}/step.csv")
    >>> len(table), table["condition"].unique().tolist(), table["people"].unique().tolist()
    (3, ['passage'], [1])
    """
    chosen = named_protocol(protocol)
    check_questions(items, chosen, "export_step")
    table = states(items, judgments, chosen)
    is_open = (table["state"] == "open").to_numpy()
    number = int(table["step"][is_open].min()) if step is None and is_open.any() else step
    indices = np.flatnonzero(is_open & (table["step"] == number).to_numpy())
    if number is None or not len(indices):
        where = "any step" if number is None else f"step {number}"
        raise DataError(
            f"no item is open at {where}", hint="people.funnel(...) counts the items at each step"
        )
    described = chosen.steps[number - 1]
    if described.condition == "unfolding":
        raise DataError("no form unfolds a passage", hint="let people play wb.guess(items, 'unfolding')")
    order = np.random.default_rng(seed).permutation(indices)
    needed = described.people - table["n_judged"].to_numpy()
    needed = needed if people is None else np.minimum(needed, people)
    judged_by = _people_by_item(judgments)
    rows: list[dict[str, Any]] = []
    for n_people in sorted(set(needed[order]), reverse=True):  # all items of a page need as many
        numbers = order[needed[order] == n_people]
        for start in range(0, len(numbers), described.per_page):
            row: dict[str, Any] = {
                "page": len(rows) + 1, "step": number, "condition": described.condition,
                "people": int(n_people), "guesses": described.guesses,
            }  # fmt: skip
            for position, index in enumerate(numbers[start : start + described.per_page].tolist(), 1):
                item = items[index]
                row |= {f"{name}_{position}": cell for name, cell in _cells(item, described, chosen).items()}
                row[f"exclude_{position}"] = _BETWEEN.join(_judges(judged_by, item))
            rows.append(row)
    pages = pd.DataFrame(rows).fillna("")
    with atomic_path(path) as temporary:
        pages.to_csv(temporary, index=False)
    return pages


def _cells(item: Item, step: ProtocolStep, protocol: Protocol) -> dict[str, str]:
    """Return the cells of a task: what is shown, and a name made of that and of the item's id."""
    task = task_of(item, n_shown_at_first(item, step.condition), candidates=protocol.candidates)
    cells = {"context": "\n".join(task.sentences), "left": task.query[0], "right": task.query[1]}
    if task.candidates is not None:
        cells["candidates"] = _BETWEEN.join(task.candidates)
    return {"item": f"task-{content_digest(item.item_id, *cells.values())}", **cells}


def _people_by_item(judgments: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    by_item: dict[str, list[dict[str, Any]]] = defaultdict(list)
    pairs = judgments[["item_id", "text_digest", "person"]].drop_duplicates()
    for item_id, digest, person in pairs.astype(object).where(pairs.notna(), None).to_numpy().tolist():
        by_item[item_id].append({"text_digest": digest, "person": person})
    return by_item


def _judges(by_item: Mapping[str, Sequence[Mapping[str, Any]]], item: Item) -> list[str]:
    """Return the people who judged an item, at any step and in any variant."""
    digest = text_digest(item.text)
    return sorted({row["person"] for row in by_item.get(item.item_id, ()) if is_about(row, digest)})


@dataclass(frozen=True)
class ImportedAnswers:
    """Outcome of the answers in a file.

    Attributes
    ----------
    judgments : DataFrame
        The whole table of the folder, with the new judgments.
    n_added : int
        Judgments that were added to it.
    rejected : DataFrame
        What was not added: line of the file (of a DataFrame, the row's number from 1), person, item_id (where
        it is known), reason, problem.

    Examples
    --------
    >>> import pandas as pd
    >>> from workbench import people
    >>> print(people.ImportedAnswers(pd.DataFrame(), 3, pd.DataFrame({"reason": ["unknown item"]})))
    3 judgments added, 1 rejected (unknown item: 1)
    """

    judgments: pd.DataFrame
    n_added: int
    rejected: pd.DataFrame

    def __str__(self) -> str:
        counts = Counter(self.rejected["reason"])
        reasons = ", ".join(f"{reason}: {n:,}" for reason, n in sorted(counts.items()))
        rejected = f"{len(self.rejected):,} rejected{f' ({reasons})' if reasons else ''}"
        return f"{self.n_added:,} judgments added, {rejected}"


class _RejectionError(Exception):
    """Why an answer is not added; its arguments are the reason and the problem."""


def import_answers(
    answers: Path | str | pd.DataFrame,
    items: Items,
    protocol: str | Protocol = "lambada",
    folder: Path | str | None = None,
    *,
    person: str | None = None,
) -> ImportedAnswers:
    """Add the answers to the pages of `export_step` to the table of judgments.

    Parameters
    ----------
    answers : path or DataFrame
        A table (CSV, Excel, JSON, Parquet) with one row for each person and page: the person, the columns
        that were exported, and the words as ``guess_1``, ``guess_2`` ... (with several guesses ``guess_1_1``,
        ``guess_1_2`` ...). The names may begin with ``Input.`` and ``Answer.``, as in MTurk's files. Other
        columns are not read. An empty cell says that the person gave up.
    items : Items
        The items that were exported.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
    folder : path, optional
        Folder of the table, ``data/guess`` by default.
    person : str, optional
        Column that names the person; by default ``WorkerId``, ``PROLIFIC_PID``, ``annotator``,
        ``participant`` or the like.

    Returns
    -------
    ImportedAnswers
        Answers are added one by one, or rejected: ``unknown item``; ``other text`` (what the row shows is not
        what was exported for the item); ``other step`` (the protocol has no such step, or the item has not
        reached it); ``judged before`` (by this person, in this condition); ``both conditions`` (by this
        person, in another one); ``same answer before`` (the file, or this row, was imported before);
        ``invalid guess``; ``no answer`` (no such column); ``rejected`` (``AssignmentStatus``); ``invalid
        row`` (it names nobody, or cannot be read).

    Raises
    ------
    DataError
        If the file is not a table, or no column names the person or the step.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from workbench import people
    >>> folder = mkdtemp()
    >>> pages = people.export_step(items, people.read_judgments(folder), "lambada", f"{folder}/step.csv")
    >>> answered = pages.assign(WorkerId="W1", **{f"guess_{number}": "time" for number in range(1, 11)})
    >>> print(people.import_answers(answered, items, "lambada", folder))
    30 judgments added, 0 rejected
    """
    chosen = named_protocol(protocol)
    check_questions(items, chosen, "import_answers")
    frame, lines, rejected = _rows(answers)
    frame = frame.rename(columns=lambda name: _FORM.sub("", str(name), count=1))
    column = _person_column(frame, person)
    if "step" not in frame:
        raise DataError("the answers have no column 'step'", hint="give them the columns that were exported")
    batch = _Batch(items, chosen, states(items, read_judgments(folder), chosen)["step"].tolist())
    rows: list[dict[str, Any]] = []
    names = list(map(str, frame))
    origins: list[int] = []  # the lines of the file that `rows` come from
    for line, values in zip(lines, frame.astype(object).to_numpy().tolist(), strict=True):
        cells = {name: "" if pd.isna(cell) else str(cell) for name, cell in zip(names, values, strict=True)}
        for row, reason, problem in batch.answers(cells, cells[column], len(rows)):
            if reason:
                rejected.append({"line": line, **row, "reason": reason, "problem": problem})
            else:
                rows.append(row)
                origins.append(line)
    reasons = record_judgments(rows, folder)
    for line, row, reason in zip(origins, rows, reasons, strict=True):
        if reason:
            problem = f"{row['person']!r:.60} judged the item {row['item_id']} before"
            rejected.append({"line": line, **row, "reason": reason, "problem": problem})
    table = pd.DataFrame(rejected, columns=["line", "person", "item_id", "reason", "problem"])
    table = table.sort_values("line", kind="stable", ignore_index=True)
    return ImportedAnswers(read_judgments(folder), reasons.count(""), table)


class _Batch:
    """The items that were exported, their steps so far, and the names that the pages give them."""

    def __init__(self, items: Items, protocol: Protocol, reached: Sequence[int]) -> None:
        self.items, self.protocol, self.reached = items, protocol, reached
        self.start = datetime.now(UTC)
        self._named: dict[int, dict[str, int]] = {}  # by step: the index of each item by its name

    def answers(
        self, cells: Mapping[str, str], name: str, n_before: int
    ) -> Iterator[tuple[dict[str, Any], str, str]]:
        """Yield the judgments of a row, each with the reason and problem for which it is rejected, if any."""
        row: dict[str, Any] = {"person": name, "item_id": None}
        try:
            person, number = _checked_row(cells, name, len(self.protocol.steps))
        except _RejectionError as error:
            yield row, *error.args
            return
        step = self.protocol.steps[number - 1]
        n_tasks = next(n for n in count() if not cells.get(f"item_{n + 1}"))
        if not n_tasks:
            yield row, "unknown item", "the column item_1 is missing or empty"
        for position in range(1, n_tasks + 1):
            item = None
            try:
                item = self._item(cells[f"item_{position}"].strip(), number)
                guesses = self._guesses(cells, position, item, step)
            except _RejectionError as error:
                yield {**row, "item_id": None if item is None else item.item_id}, *error.args
                continue
            n_shown = n_shown_at_first(item, step.condition)
            answered = self.start + timedelta(microseconds=n_before + position)
            judgment = row_of(
                item, person, step=number, condition=step.condition, n_shown=n_shown, guesses=guesses,
                answered=answered,
            )  # fmt: skip
            yield judgment, "", ""

    def _item(self, name: str, number: int) -> Item:
        """Return the item that has a name on the pages of a step, if it has reached the step."""
        if number not in self._named:
            step = self.protocol.steps[number - 1]
            names = (_cells(item, step, self.protocol)["item"] for item in self.items)
            self._named[number] = {each: index for index, each in enumerate(names)}
        index = self._named[number].get(name)
        if index is None:
            raise _RejectionError("unknown item", f"no item was exported at step {number} as {name!r:.60}")
        if self.reached[index] < number:
            raise _RejectionError("other step", f"the item is at step {self.reached[index]}, not {number}")
        return self.items[index]

    def _guesses(self, cells: Mapping[str, str], position: int, item: Item, step: ProtocolStep) -> list[str]:
        """Return the guesses of a task whose text, where the row has it, is what was exported."""
        for name, expected in _cells(item, step, self.protocol).items():
            cell = cells.get(f"{name}_{position}", expected)
            if cell.split() != expected.split():
                problem = f"{name}_{position} is {cell!r:.60}, expected {expected!r:.60}"
                raise _RejectionError("other text", problem)
        columns = filter(re.compile(rf"guess_{position}(_\d+)?").fullmatch, cells)
        words = [cells[name].strip() for name in sorted(columns, key=lambda name: (len(name), name))]
        if not words:
            raise _RejectionError("no answer", f"there is no column guess_{position}")
        guesses = [word for word in words if word] or [""]
        try:
            return check_guesses(guesses, step, item, candidates=self.protocol.candidates)
        except DataError as error:
            raise _RejectionError("invalid guess", error.problem) from None


def _rows(
    answers: Path | str | pd.DataFrame,
) -> tuple[pd.DataFrame, Sequence[int], list[dict[str, Any]]]:
    """Return the rows of a table, the line of each, and as rejected the rows that cannot be read."""
    if isinstance(answers, pd.DataFrame):
        return answers, range(1, len(answers) + 1), []
    path = Path(answers)
    table = read_frame(read_bytes(path, "this file of answers"), path)
    problems = [(error.line, error.problem) for error in table.problems]
    rejected = [{"line": line, "reason": "invalid row", "problem": problem} for line, problem in problems]
    return table.frame, table.lines, rejected


def _person_column(frame: pd.DataFrame, person: str | None) -> str:
    """Return the column that names the people."""
    if person is not None and person in frame:
        return person
    plain = {str(name): re.sub(r"[^a-z]", "", str(name).casefold()) for name in frame}
    columns = [name for name, word in plain.items() if _WORKERS.fullmatch(word)]
    if person is not None or len(columns) != 1:
        problem = f"expected one column that names the person, got {', '.join(columns) or 'none'}"
        if person is not None:
            problem = f"the answers have no column {person!r}"
        raise DataError(problem, hint=f'pass person="...", one of {", ".join(map(str, frame))}'[:300])
    return columns[0]


def _checked_row(cells: Mapping[str, str], name: str, n_steps: int) -> tuple[str, int]:
    """Return the person and the step of a row."""
    if cells.get("AssignmentStatus", "").strip().casefold() == "rejected":
        raise _RejectionError("rejected", "the assignment was rejected")
    try:
        person = check_person(name)
    except DataError as error:
        raise _RejectionError("invalid row", error.problem) from None
    number = cells["step"].strip().removesuffix(".0")
    if number not in map(str, range(1, n_steps + 1)):
        raise _RejectionError("other step", f"expected a step from 1 to {n_steps}, got {number!r:.40}")
    return person, int(number)
