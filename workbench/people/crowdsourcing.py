"""Pages for crowdsourcing services as CSV: exported as tasks, imported from result files in MTurk's form."""

from __future__ import annotations

import hmac
import json
import re
import secrets
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.evaluation.interchange.records import FileRecord, read_records
from workbench.items.schema import Item
from workbench.people import assignment
from workbench.people.assignment import Page, RefusalError
from workbench.people.campaign import Campaign
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path

_DAY = 86_400.0
_NEEDED = ("AssignmentId", "WorkerId", "Input.page")
_LONGEST_ID = 200


@dataclass(frozen=True)
class ImportedPages:
    """Outcome of the rows of a result file.

    Attributes
    ----------
    accepted : DataFrame
        row (from 1), assignment, worker, page, and n_answers: rows that are saved, now or before.
    refused : DataFrame
        row, reason, problem, and all columns of the file as they were: nothing of a refused row is saved.

    Examples
    --------
    >>> import pandas as pd
    >>> from workbench import people
    >>> print(people.ImportedPages(accepted=pd.DataFrame(), refused=pd.DataFrame()))
    0 pages accepted, 0 refused
    """

    accepted: pd.DataFrame
    refused: pd.DataFrame

    def __str__(self) -> str:
        return f"{len(self.accepted):,} pages accepted, {len(self.refused):,} refused"


def export_pages(
    campaign: Campaign,
    path: Path | str,
    n: int | None = None,
    *,
    step: int | None = None,
    lease: float = 7 * _DAY,
) -> pd.DataFrame:
    """Reserve pages for external people, and write them as the input file of a crowdsourcing service.

    Parameters
    ----------
    campaign : Campaign
    path : path
        Of the CSV file: one row a page, with the columns ``page``, ``step``, ``condition``, ``guesses``, and
        for each task ``item_1`` (a name without information on the item), ``context_1``, ``left_1``,
        ``right_1``, ``candidates_1`` ...
    n : int, optional
        Most pages; all that are due by default.
    step : int, optional
        From 1; by default the last step that has full pages comes first.
    lease : float, default 604800
        Seconds (a week) for which the pages are reserved; answers that are imported later are refused.

    Returns
    -------
    DataFrame
        The exported rows.

    Raises
    ------
    DataError
        If the protocol unfolds, which no form does, or no page is due.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from workbench import people
    >>> campaign = people.Campaign.create(f"{mkdtemp()}/guesses.db", items)
    >>> table = people.export_pages(campaign, f"{mkdtemp()}/pages.csv")
    >>> len(table), table["condition"].unique().tolist()
    (3, ['passage'])
    """
    conditions = [each.condition for each in campaign.protocol.steps]
    steps = range(1, len(conditions) + 1)
    if "unfolding" in conditions or (step is not None and step not in steps):
        raise DataError(
            f"expected conditions that a form can show and a step from 1 to {len(conditions)}, got "
            f"{', '.join(conditions)} and step={step}",
            remedy="pass another step; to unfold passages let people judge in a widget or on the server",
        )
    pages: list[Page] = []
    with campaign.write_transaction() as connection:
        now = campaign.now()
        assignment.expire_pages(connection, now)
        while n is None or len(pages) < n:
            page = assignment.assign_page(
                connection, campaign.protocol, None, now,
                steps=None if step is None else [step - 1], lease=lease,
            )  # fmt: skip
            if page is None:
                break
            pages.append(assignment.page_of(connection, campaign.protocol, page))
        label = _labels(connection)
    if not pages:
        raise DataError("no page is due", remedy="wait for the pages that are out, or for their time to end")
    table = pd.DataFrame([_row(page, label) for page in pages])
    with atomic_path(path) as temporary:
        table.to_csv(temporary, index=False)
    return table


def _labels(connection: sqlite3.Connection) -> Callable[[str], str]:
    """Return the function that encodes item ids in exported pages, so that nobody can look up an answer.

    The id of an item may be its place in a release, or a digest of its text with the answer.
    """
    [secret] = connection.execute("SELECT value FROM campaign WHERE key = 'secret'").fetchone()
    secret = str(secret).encode()
    return lambda item_id: f"task-{hmac.new(secret, item_id.encode(), 'sha256').hexdigest()[:16]}"


def _row(page: Page, label: Callable[[str], str]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "page": page.id, "step": page.step, "condition": page.condition, "guesses": page.guesses
    }  # fmt: skip
    for number, task in enumerate(page.tasks, 1):
        row[f"item_{number}"] = label(task.item_id)
        row[f"context_{number}"] = "\n".join(task.sentences)
        row[f"left_{number}"], row[f"right_{number}"] = task.query
        if task.candidates is not None:
            row[f"candidates_{number}"] = "|".join(task.candidates)
    return row


def import_pages(campaign: Campaign, path: Path | str) -> ImportedPages:
    """Save the answers of exported pages from the result file of a crowdsourcing service.

    Parameters
    ----------
    campaign : Campaign
    path : path
        A table separated by commas or tabs, one row an assignment, its columns in any order:
        ``AssignmentId``, ``WorkerId``, the columns that were exported as ``Input.page``, ``Input.item_1``
        ..., and ``Answer.guess_1``, ``Answer.guess_2`` ... (with several guesses ``Answer.guess_1_1``,
        ``Answer.guess_1_2`` ...). Rows whose ``AssignmentStatus`` is ``Rejected`` are refused; other columns,
        such as ``WorkTimeInSeconds``, are not read.

    Returns
    -------
    ImportedPages
        A row is accepted as a whole or refused as a whole, by name: ``unknown page`` (this campaign did not
        export it), ``wrong page`` (its items are others), ``finished page`` (somebody else's answers are
        there), ``expired page`` (too late), ``duplicate subject`` (the worker had an item of the page in the
        same condition), ``both conditions`` (in another one), ``answered before`` (the same assignment with
        other answers), ``unanswered tasks``, ``invalid guess``, ``rejected``, ``invalid row`` (it
        names nobody, or lacks cells). To import a file again, or a row that is there twice, changes nothing.

    Raises
    ------
    DataError
        If the file is not a table or lacks a column.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from workbench import people
    >>> campaign = people.Campaign.create(f"{mkdtemp()}/guesses.db", items)
    >>> pages = people.export_pages(campaign, f"{mkdtemp()}/pages.csv", n=1).add_prefix("Input.")
    >>> answers = {f"Answer.guess_{number}": "time" for number in range(1, 11)}
    >>> answers |= {"AssignmentId": "A1", "WorkerId": "W1"}
    >>> pages.assign(**answers).to_csv(path := f"{mkdtemp()}/results.csv", index=False)
    >>> print(people.import_pages(campaign, path))
    1 pages accepted, 0 refused
    """
    rows = list(read_records(Path(path)))
    columns = list(dict.fromkeys(name for row in rows if isinstance(row, FileRecord) for name in row.fields))
    if rows and not columns:
        raise next(row for row in rows if isinstance(row, DataError))
    if columns and (lacking := [name for name in _NEEDED if name not in columns]):
        raise DataError(
            f"there is no column {lacking[0]!r}",
            file=path,
            remedy="take the service's file of results as it is",
        )
    accepted, refused = [], []
    for number, row in enumerate(rows, 1):
        if isinstance(row, DataError):
            refused.append({"row": number, "reason": "invalid row", "problem": row.problem})
            continue
        cells = {name: "" if (cell := row.fields.get(name)) is None else str(cell) for name in columns}
        try:
            accepted.append({"row": number, **_import_row(campaign, cells)})
        except RefusalError as error:
            refused.append({"row": number, "reason": error.reason, "problem": error.problem, **cells})
    table = pd.DataFrame(refused, columns=["row", "reason", "problem", *columns])
    return ImportedPages(
        pd.DataFrame(accepted, columns=["row", "assignment", "worker", "page", "n_answers"]),
        table.fillna(dict.fromkeys(columns, "")),
    )


def _import_row(campaign: Campaign, row: Mapping[str, str]) -> dict[str, Any]:
    """Save one row, or refuse it."""
    name, worker, number = (row[column].strip() for column in _NEEDED)
    if row.get("AssignmentStatus", "").strip().casefold() == "rejected":
        raise RefusalError(f"the assignment {name!r:.60} was rejected", "rejected")
    for field, value in (("AssignmentId", name), ("WorkerId", worker)):
        if not 1 <= len(value) <= _LONGEST_ID or "\0" in value:
            raise RefusalError(
                f"expected 1 to {_LONGEST_ID} characters as {field}, got {value!r:.60}", "invalid row"
            )
    if not (number.isascii() and number.isdigit() and assignment.is_id(int(number[:30]))):
        raise RefusalError(f"there is no page {number!r:.40}", "unknown page")
    with campaign.write_transaction() as connection:
        n_answers = _save_page(connection, campaign, (name, worker, int(number)), row)
    return {"assignment": name, "worker": worker, "page": int(number), "n_answers": n_answers}


def _save_page(
    connection: sqlite3.Connection, campaign: Campaign, names: tuple[str, str, int], row: Mapping[str, str]
) -> int:
    """Save the answers of a row to one page; return the number of answers."""
    name, worker, page = names
    protocol, now = campaign.protocol, campaign.now()
    assignment.expire_pages(connection, now)
    columns = connection.execute(
        "SELECT subject, step, state, assignment FROM pages WHERE id = ?", (page,)
    ).fetchone()
    if columns is None or (columns[0] is not None and columns[3] is None):
        raise RefusalError(f"page {page} was not exported", "unknown page")
    _, step_number, state, saved_name = columns
    step = protocol.steps[step_number]
    tasks = assignment.items_of_page(connection, page)
    guesses = [
        assignment.valid_guesses(words, step, item, candidates=protocol.candidates)
        for words, (_, item) in zip(_guesses(row, tasks, _labels(connection)), tasks, strict=True)
    ]
    if saved_name is not None:
        if name != saved_name:
            raise RefusalError(f"page {page} has the answers of another assignment", "finished page")
        if [(worker, list(words)) for words in guesses] != _saved_guesses(connection, page):
            problem = f"the assignment {name!r:.60} was imported before, with other answers"
            raise RefusalError(problem, "answered before")
        return len(tasks)
    if state != "open":
        raise RefusalError(f"the time for page {page} is over", "expired page", remedy="export new pages")
    if other := connection.execute("SELECT id FROM pages WHERE assignment = ?", (name,)).fetchone():
        raise RefusalError(f"the assignment {name!r:.60} is about page {other[0]}", "wrong page")
    subject = _worker(connection, worker, now)
    for number, item in tasks:
        seen = connection.execute(
            "SELECT step FROM assignments WHERE subject = ? AND item = ?", (subject, number)
        ).fetchone()
        if seen:
            same = protocol.steps[seen[0]].condition == step.condition
            problem = f"the worker {worker!r:.60} had the item {item.item_id} before"
            raise RefusalError(problem, "duplicate subject" if same else "both conditions")
    connection.execute(
        "UPDATE pages SET subject = ?, assignment = ?, state = 'submitted', submitted = ? WHERE id = ?",
        (subject, name, now, page),
    )
    connection.execute("UPDATE assignments SET subject = ? WHERE page = ?", (subject, page))
    for (number, item), words in zip(tasks, guesses, strict=True):
        assignment.record_judgment(
            connection, protocol, now, page=page, subject=subject, number=number, step=step_number, item=item,
            words=words, n_shown=len(item.context) if step.condition == "passage" else 0,
        )  # fmt: skip
    return len(tasks)


def _worker(connection: sqlite3.Connection, worker: str, now: float) -> int:
    """Return the number of a subject by name; a new one cannot sign in, because the token is not returned."""
    row = connection.execute("SELECT id FROM subjects WHERE name = ?", (worker,)).fetchone()
    if row:
        return int(row[0])
    return assignment.add_subject(connection, worker, secrets.token_urlsafe(32), now).id


def _saved_guesses(connection: sqlite3.Connection, page: int) -> list[tuple[str, list[str]]]:
    """Return the worker and the guesses of each task of a saved page."""
    saved = connection.execute(
        """SELECT s.name, a.guesses FROM assignments n
        JOIN answers a ON a.subject = n.subject AND a.item = n.item
        JOIN subjects s ON s.id = n.subject WHERE n.page = ? ORDER BY n.position""",
        (page,),
    ).fetchall()
    return [(worker, json.loads(words)) for worker, words in saved]


def _guesses(
    row: Mapping[str, str], tasks: Sequence[tuple[int, Item]], label: Callable[[str], str]
) -> list[list[str]]:
    """Return the guesses of a row for each task, in order."""
    answers = []
    for number, (_, item) in enumerate(tasks, 1):
        exported = row.get(f"Input.item_{number}", "")
        name = label(item.item_id)
        if name not in (exported, exported.removeprefix("'")):  # a formula may have been quoted
            problem = f"task {number} is about {exported!r:.60}, expected {name}"
            raise RefusalError(problem, "wrong page")
        names = filter(re.compile(rf"Answer\.guess_{number}(_\d+)?").fullmatch, row)
        words = [row[name].strip() for name in sorted(names, key=lambda name: (len(name), name))]
        if not words:
            raise RefusalError(f"there is no answer to task {number}", "unanswered tasks")
        answers.append([word for word in words if word] or [""])
    if row.get(f"Input.item_{len(tasks) + 1}"):
        raise RefusalError(f"the page has {len(tasks)} tasks, the row has more", "wrong page")
    return answers
