"""Assignment of items to people, and the checks of their answers, in one transaction each.

A task is readable text without the answer.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from workbench.items.schema import COLUMNS, Item
from workbench.items.text import is_encodable
from workbench.people.protocols import Condition, Protocol, ProtocolStep, best_match
from workbench.predictions.schema import plain_word
from workbench.storage.errors import DataError

_PLACEHOLDER = "word"  # stands for the answer while the text is laid out, so that nothing depends on it


LONGEST_GUESS = 200
"""Most characters of a guess, and of a subject's name."""


@dataclass(frozen=True)
class Task:
    """One item as a person sees it.

    Attributes
    ----------
    item_id : str
    sentences : tuple of str
        The context that may be shown, in reading order; empty if the target sentence stands alone.
    query : (str, str)
        The target sentence before and after the blank.
    candidates : tuple of str or None
        The words to choose from; None if a word is typed.
    guesses : tuple of str
        Last answer of this person; empty at first.
    finished : bool
        Whether nothing more is asked about this item.

    Examples
    --------
    >>> from workbench import people
    >>> task = people.Task("x/1", ("The dog barked.",), ("Nobody fed the ", "."))
    >>> task.shown, task.guesses
    (1, ())
    """

    item_id: str
    sentences: tuple[str, ...]
    query: tuple[str, str]
    candidates: tuple[str, ...] | None = None
    guesses: tuple[str, ...] = ()
    finished: bool = False

    @property
    def shown(self) -> int:
        """Number of context sentences shown."""
        return len(self.sentences)


@dataclass(frozen=True)
class Page:
    """Tasks assigned to one person.

    Attributes
    ----------
    id : int
    step : int
        Step of the protocol, from 1.
    condition : {"passage", "sentence", "unfolding"}
    guesses : int
        Words that may be typed for each task.
    tasks : tuple of Task
    expires : float
        Expiry time of the page, in seconds since 1970.

    Examples
    --------
    >>> from workbench import people
    >>> task = people.Task("x/1", (), ("Nobody fed the ", "."))
    >>> people.Page(1, step=3, condition="sentence", guesses=3, tasks=(task,), expires=0.0).tasks[0].query
    ('Nobody fed the ', '.')
    """

    id: int
    step: int
    condition: Condition
    guesses: int
    tasks: tuple[Task, ...]
    expires: float


def record_of(item: Item) -> str:
    """Return an item as JSON; `item_from_record` reads it."""
    return json.dumps({name: getattr(item, name) for name in COLUMNS}, ensure_ascii=False)


def item_from_record(record: str) -> Item:
    """Return the item that `record_of` wrote, without validation."""
    values = json.loads(record)
    values["sentences"] = tuple((int(start), int(end)) for start, end in values["sentences"])
    values["answer_span"] = (int(values["answer_span"][0]), int(values["answer_span"][1]))
    if values["candidates"] is not None:
        values["candidates"] = tuple(values["candidates"])
    return Item(**values)


def task_of(item: Item, n_sentences: int, *, candidates: bool) -> Task:
    """Return a task that shows the last `n_sentences` sentences of an item's context.

    Parameters
    ----------
    item : Item
    n_sentences : int
        More than there are: all.
    candidates : bool
        Whether the candidates are shown.
    """
    start, end = item.answer_span
    shift = len(_PLACEHOLDER) - (end - start)
    first, last = item.sentences[-1]
    spans = [*item.sentences[:-1], (first, last + shift), (start, start + len(_PLACEHOLDER))]
    text = f"{item.text[:start]}{_PLACEHOLDER}{item.text[end:]}"
    readable, spans_shown = replace(item, text=text).readable(spans)
    *context, (sentence_start, sentence_end), (blank, after) = spans_shown
    first = max(0, len(context) - n_sentences)
    return Task(
        item.item_id,
        tuple(readable[a:b] for a, b in context[first:]),
        (readable[sentence_start:blank], readable[after:sentence_end]),
        item.candidates if candidates else None,
    )


@dataclass(frozen=True)
class Subject:
    """A person who judges.

    Attributes
    ----------
    id : int
    name : str
    token : str or None
        What the person signs in with. It is known only when the subject is added: the database holds a hash.

    Examples
    --------
    >>> from workbench import people
    >>> people.Subject(1, "Ada")
    Subject(id=1, name='Ada', token=None)
    """

    id: int
    name: str
    token: str | None = None


class RefusalError(DataError):
    """A page or answer that a campaign refuses.

    Attributes
    ----------
    reason : str
        ``unknown subject``, ``duplicate subject``, ``unknown page``, ``page of another subject``,
        ``expired page``, ``finished page``, ``unanswered tasks``, ``item not on the page``,
        ``answered before``, ``wrong context`` or ``invalid guess``; of imported pages also
        ``both conditions``, ``wrong page``, ``rejected`` or ``invalid row``.
    """

    def __init__(self, problem: str, reason: str, remedy: str | None = None) -> None:
        super().__init__(problem, remedy=remedy)
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error with all its attributes."""
        return partial(RefusalError, remedy=self.remedy), (self.problem, self.reason)


def token_digest(token: str) -> str:
    """Return the digest of a token, as the database holds it."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def add_subject(connection: sqlite3.Connection, name: str | None, token: str, now: float) -> Subject:
    """Add a subject with a new name; by default "subject" and a number."""
    if name is None:
        [number] = connection.execute("SELECT count(*) + 1 FROM subjects").fetchone()
        while True:
            name = f"subject {number}"
            if not connection.execute("SELECT 1 FROM subjects WHERE name = ?", (name,)).fetchone():
                break
            number += 1
    elif connection.execute("SELECT 1 FROM subjects WHERE name = ?", (name,)).fetchone():
        raise RefusalError(
            f"there is a subject {name!r} already", "duplicate subject", remedy="choose another name"
        )
    number = connection.execute(
        "INSERT INTO subjects (name, token_sha256, added) VALUES (?, ?, ?)", (name, token_digest(token), now)
    ).lastrowid
    return Subject(int(number or 0), name, token)


def is_id(value: Any) -> bool:
    """Return True if a value can be the number of a page or subject."""
    return type(value) is int and 0 < value < 1 << 63


def expire_pages(connection: sqlite3.Connection, now: float) -> None:
    """Release the unanswered items of expired pages."""
    pages = connection.execute(
        "SELECT id FROM pages WHERE state = 'open' AND expires <= ?", (now,)
    ).fetchall()
    for (page,) in pages:
        connection.execute("UPDATE pages SET state = 'expired' WHERE id = ?", (page,))
        connection.execute(
            """UPDATE items SET vacant = vacant + 1 WHERE state = 'open' AND number IN (
                SELECT item FROM assignments WHERE page = ? AND state = 'open' AND step = items.step)""",
            (page,),
        )
        connection.execute(
            "UPDATE assignments SET state = 'released' WHERE page = ? AND state = 'open'", (page,)
        )


def assign_page(
    connection: sqlite3.Connection,
    protocol: Protocol,
    subject: int | None,
    now: float,
    *,
    steps: Sequence[int] | None = None,
    lease: float | None = None,
) -> int | None:
    """Reserve a page of items for a subject (None: an external one); return its id, None if none is due.

    Of the `steps`, the last one that fills a page is taken; if none does, the one with most items. Where each
    item has one step alone, the step of which the subject had fewest pages comes first.
    """
    best: tuple[int, list[int]] = (0, [])
    order = sorted(range(len(protocol.steps)) if steps is None else steps, reverse=True)
    if protocol.drawn:
        pages = dict(
            connection.execute(
                "SELECT step, count(*) FROM pages WHERE subject = ? GROUP BY step", (subject,)
            ).fetchall()
        )
        order.sort(key=lambda step: (pages.get(step, 0), step))
    for step in order:
        size = protocol.steps[step].per_page
        rows = connection.execute(
            """SELECT number FROM items WHERE step = ? AND vacant > 0 AND NOT EXISTS (
                SELECT 1 FROM assignments a WHERE a.subject = ? AND a.item = items.number
                AND NOT (a.step = items.step AND a.state = 'released'))
            ORDER BY place LIMIT ?""",
            (step, subject, size),
        ).fetchall()
        if len(rows) > len(best[1]):
            best = (step, [number for (number,) in rows])
        if len(rows) == size:
            best = (step, [number for (number,) in rows])
            break
    step, numbers = best
    if not numbers:
        return None
    page = connection.execute(
        "INSERT INTO pages (subject, step, assigned, expires) VALUES (?, ?, ?, ?)",
        (subject, step, now, now + (protocol.lease if lease is None else lease)),
    ).lastrowid
    for position, number in enumerate(numbers):
        connection.execute("DELETE FROM assignments WHERE subject = ? AND item = ?", (subject, number))
        connection.execute(
            "INSERT INTO assignments (page, position, item, subject, step) VALUES (?, ?, ?, ?, ?)",
            (page, position, number, subject, step),
        )
        connection.execute("UPDATE items SET vacant = vacant - 1 WHERE number = ?", (number,))
    return page


def open_page(connection: sqlite3.Connection, subject: int) -> int | None:
    """Return the page of a subject that is not yet submitted."""
    row = connection.execute(
        "SELECT id FROM pages WHERE subject = ? AND state = 'open'", (subject,)
    ).fetchone()
    return row[0] if row else None


def items_of_page(connection: sqlite3.Connection, page: int) -> list[tuple[int, Item]]:
    """Return the items of a page in order, each with its number."""
    rows = connection.execute(
        """SELECT r.item, r.record FROM assignments a JOIN records r ON r.item = a.item
        WHERE a.page = ? ORDER BY a.position""",
        (page,),
    )
    return [(number, item_from_record(record)) for number, record in rows]


def page_of(connection: sqlite3.Connection, protocol: Protocol, page: int) -> Page:
    """Return the current state of a page for its subject."""
    step, expires = connection.execute("SELECT step, expires FROM pages WHERE id = ?", (page,)).fetchone()
    rows = connection.execute(
        """SELECT a.item, a.subject, a.state, r.record FROM assignments a JOIN records r ON r.item = a.item
        WHERE a.page = ? ORDER BY a.position""",
        (page,),
    ).fetchall()
    tasks = tuple(
        _task(connection, protocol, step, item_from_record(record), (subject, number, state))
        for number, subject, state, record in rows
    )
    described = protocol.steps[step]
    return Page(page, step + 1, described.condition, described.guesses, tasks, expires)


def _task(
    connection: sqlite3.Connection,
    protocol: Protocol,
    step: int,
    item: Item,
    assigned: tuple[int | None, int, str],
) -> Task:
    subject, number, state = assigned
    condition = protocol.steps[step].condition
    row = connection.execute(
        "SELECT shown, guesses FROM answers WHERE subject = ? AND item = ? ORDER BY shown DESC LIMIT 1",
        (subject, number),
    ).fetchone()
    finished = state == "finished"
    n_shown = len(item.context) if condition == "passage" else 0
    if condition == "unfolding" and row:
        n_shown = row[0] if finished else row[0] + 1
    task = task_of(item, n_shown, candidates=protocol.candidates)
    return replace(task, guesses=tuple(json.loads(row[1])) if row else (), finished=finished)


def valid_guesses(guesses: Any, step: ProtocolStep, item: Item, *, candidates: bool) -> list[str]:
    """Return guesses without surrounding white space; refuse empty ones or too many."""
    words = [guesses] if isinstance(guesses, str) else guesses
    if not isinstance(words, Sequence) or not all(
        isinstance(word, str) and is_encodable(word) and "\0" not in word for word in words
    ):
        raise RefusalError("expected guesses that are text", "invalid guess")
    words = [" ".join(word.split()) for word in words]
    if not 1 <= len(words) <= step.guesses:
        expected = "1 guess" if step.guesses == 1 else f"1 to {step.guesses} guesses"
        raise RefusalError(f"expected {expected}, got {len(words)}", "invalid guess")
    if long := [word for word in words if len(word) > LONGEST_GUESS]:
        problem = f"a guess has {len(long[0]):,} characters, at most {LONGEST_GUESS} are taken"
        raise RefusalError(problem, "invalid guess")
    allowed = {plain_word(word) for word in item.candidates or ()} | {""}
    if candidates and (strange := [word for word in words if plain_word(word) not in allowed]):
        raise RefusalError(f"{strange[0]!r} is not one of the candidates", "invalid guess")
    return words


def page_state(connection: sqlite3.Connection, page: int, subject: int) -> tuple[int, str, float]:
    """Return step, state and expiry of a page; refuse an unknown page or another subject's."""
    row = (
        connection.execute("SELECT subject, step, state, expires FROM pages WHERE id = ?", (page,)).fetchone()
        if is_id(page)
        else None
    )
    if row is None:
        raise RefusalError(f"there is no page {page!r:.40}", "unknown page")
    if row[0] != subject:
        raise RefusalError(f"page {page} belongs to another subject", "page of another subject")
    return row[1], row[2], row[3]


def save_answer(
    connection: sqlite3.Connection,
    protocol: Protocol,
    now: float,
    *,
    page: int,
    subject: int,
    item_id: str,
    guesses: Sequence[str] | str,
    n_shown: int | None = None,
    seconds: float | None = None,
) -> Task | None:
    """Save an answer of a subject and advance the item; return the next task about it, or None."""
    step_number, state, expires = page_state(connection, page, subject)
    step = protocol.steps[step_number]
    row = None
    if isinstance(item_id, str) and is_encodable(item_id):
        row = connection.execute(
            """SELECT i.number, r.record, a.state FROM items i JOIN records r ON r.item = i.number
            JOIN assignments a ON a.item = i.number
            WHERE i.item_id = ? AND a.page = ?""",
            (item_id, page),
        ).fetchone()
    if row is None:
        raise RefusalError(f"the item {item_id!r:.80} is not on page {page}", "item not on the page")
    number, record, progress = row
    item = item_from_record(record)
    words = valid_guesses(guesses, step, item, candidates=protocol.candidates)
    seconds = _valid_seconds(seconds)
    before = connection.execute(
        "SELECT shown, guesses FROM answers WHERE subject = ? AND item = ? ORDER BY shown", (subject, number)
    ).fetchall()
    expected = {"passage": len(item.context), "sentence": 0, "unfolding": len(before)}[step.condition]
    n_shown = (expected if progress != "finished" else before[-1][0]) if n_shown is None else n_shown
    answered = dict(before)
    if n_shown in answered:
        if json.loads(answered[n_shown]) == words:  # sent again: nothing changes
            task = _task(connection, protocol, step_number, item, (subject, number, progress))
            return None if task.finished else task
        raise RefusalError("this item was answered before, with other words", "answered before")
    if state == "submitted":
        raise RefusalError(f"page {page} has been submitted", "finished page")
    if state == "expired" or expires <= now:
        raise RefusalError(
            f"the time for page {page} is over", "expired page", remedy="ask for the next page"
        )
    if progress == "finished":
        raise RefusalError("this item was answered before", "answered before")
    if n_shown != expected:
        problem = f"expected an answer with {expected} context sentences shown, got {n_shown!r:.40}"
        raise RefusalError(problem, "wrong context")
    finished = record_judgment(
        connection, protocol, now, page=page, subject=subject, number=number, step=step_number, item=item,
        words=words, n_shown=n_shown, seconds=seconds,
    )  # fmt: skip
    return None if finished else task_of(item, n_shown + 1, candidates=protocol.candidates)


def record_judgment(
    connection: sqlite3.Connection,
    protocol: Protocol,
    now: float,
    *,
    page: int,
    subject: int,
    number: int,
    step: int,
    item: Item,
    words: Sequence[str],
    n_shown: int,
    seconds: float | None = None,
) -> bool:
    """Insert a checked answer and advance its item; return whether the person has finished the item."""
    others = {*(item.candidates or ())} - {item.answer} if protocol.candidates else set()
    match = best_match([word for word in words if word not in others], str(item.answer))
    correct = match in protocol.accept
    condition = protocol.steps[step].condition
    finished = condition != "unfolding" or correct or n_shown >= len(item.context)
    counted = _count(connection, protocol, number, step, correct=correct) if finished else True
    connection.execute(
        """INSERT INTO answers (subject, item, shown, page, step, guesses, match, correct, counted, seconds,
        answered) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)""",
        (
            *(subject, number, n_shown, page, step, json.dumps(words, ensure_ascii=False)),
            *(match, correct, counted, seconds, now),
        ),
    )
    if finished:
        connection.execute(
            "UPDATE assignments SET state = 'finished' WHERE page = ? AND item = ?", (page, number)
        )
    return finished


def _valid_seconds(seconds: Any) -> float | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
        raise RefusalError(f"expected seconds of at least 0, got {seconds!r:.40}", "invalid guess")
    return float(seconds)


def _count(
    connection: sqlite3.Connection, protocol: Protocol, number: int, step: int, *, correct: bool
) -> bool:
    """Count a judgment and advance the item; return False if the item had stopped already."""
    now_at, state, n_judged, n_right = connection.execute(
        "SELECT step, state, n_judged, n_right FROM items WHERE number = ?", (number,)
    ).fetchone()
    if state != "open" or now_at != step:
        return False
    n_judged, n_right = n_judged + 1, n_right + correct
    outcome = protocol.steps[step].outcome(n_judged, n_right)
    if outcome == "passed" and step + 1 < len(protocol.steps) and not protocol.drawn:
        connection.execute(
            "UPDATE items SET step = ?, n_judged = 0, n_right = 0, vacant = ? WHERE number = ?",
            (step + 1, protocol.steps[step + 1].people, number),
        )
    elif outcome == "open":
        connection.execute(
            "UPDATE items SET n_judged = ?, n_right = ? WHERE number = ?", (n_judged, n_right, number)
        )
    else:
        kept_or_dropped = "kept" if outcome == "passed" else "dropped"
        reason = "passed every step" if outcome == "passed" else protocol.steps[step].drop_reason
        connection.execute(
            "UPDATE items SET state = ?, reason = ?, n_judged = ?, n_right = ?, vacant = 0 WHERE number = ?",
            (kept_or_dropped, reason, n_judged, n_right, number),
        )
    return True


def submit_page(connection: sqlite3.Connection, page: int, subject: int, now: float) -> None:
    """Close a page whose tasks are all answered; repeating it changes nothing."""
    _, state, _ = page_state(connection, page, subject)
    if state == "submitted":
        return
    [unfinished] = connection.execute(
        "SELECT count(*) FROM assignments WHERE page = ? AND state <> 'finished'", (page,)
    ).fetchone()
    [n_tasks] = connection.execute("SELECT count(*) FROM assignments WHERE page = ?", (page,)).fetchone()
    if state == "expired" and (unfinished or not n_tasks):
        raise RefusalError(
            f"the time for page {page} is over", "expired page", remedy="ask for the next page"
        )
    if unfinished:
        problem = f"{unfinished} of the tasks of page {page} have no answer"
        raise RefusalError(problem, "unanswered tasks", remedy="answer them; an empty guess is one")
    connection.execute("UPDATE pages SET state = 'submitted', submitted = ? WHERE id = ?", (now, page))
