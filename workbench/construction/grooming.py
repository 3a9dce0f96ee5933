"""A person's choice of the options of questions: four of thirty, saved at once, taken up again later.

Zweig and Burges (2012), "A Challenge Set for Advancing Language Modeling", section 2.3.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from workbench.construction.alternates import N_OPTIONS
from workbench.construction.sentence_completion import alternates_of, choose_options
from workbench.items.items import Items
from workbench.items.schema import content_digest, objects
from workbench.storage.errors import DataError, database_errors, reading, writing
from workbench.storage.paths import data_home

GUIDELINES = (
    "All sentences are grammatical.",
    "The answer is clearly a better fit than each of the options.",
    "Nothing might cause offence or controversy.",
    "Ideally it takes some thought to find the answer.",
)
"""What the paper tells the people who choose."""

REASONS = (
    "fewer than four grammatical options",
    "fewer than four options clearly worse than the answer",
    "offensive or controversial",
    "no thought needed",
    "poor sentence",
)
"""Why a question may be rejected as a whole."""

STATES = OPEN, BEGUN, DONE, REJECTED, USED = ("open", "begun", "done", "rejected", "sentence used")
"""States of a question; a sentence is used where another question with it is done."""

_FILE = "choices.sqlite"
_WHAT = "this file of choices"
_WAIT = 30.0  # seconds that a write waits for another process
_TABLE = """\
CREATE TABLE IF NOT EXISTS choices (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    question TEXT NOT NULL,
    subject TEXT NOT NULL,
    item_id TEXT NOT NULL,
    words TEXT NOT NULL,
    reason TEXT NOT NULL,
    time TEXT NOT NULL
)"""
_INDEX = "CREATE INDEX IF NOT EXISTS by_question ON choices (subject, question)"
_LAST = "SELECT words, reason FROM choices WHERE subject = ? AND question = ? ORDER BY number DESC LIMIT 1"
_ALL = "SELECT question, words, reason, max(number) FROM choices WHERE subject = ? GROUP BY question"
_NEWEST = "SELECT number, question FROM choices WHERE subject = ? ORDER BY number DESC"
_INSERT = "INSERT INTO choices (question, subject, item_id, words, reason, time) VALUES (?, ?, ?, ?, ?, ?)"


class Choice(NamedTuple):
    """What a person chose of one question: some alternates, or why it is rejected ("" where it is not)."""

    words: tuple[str, ...] = ()
    reason: str = ""


class Grooming:
    """The choices of one person among the alternates of questions, in a file that every change goes to.

    A choice belongs to a question by its id, sentence, answer and alternates: it is there again with any set
    that holds the question, and with no other one. Several processes may use the file at a time.

    Parameters
    ----------
    questions : Items
        Of :func:`workbench.construction.sentence_completion.questions`.
    subject : str, default ""
        Who chooses; each person has choices of their own.
    folder : path, optional
        Folder of the file; ``data/grooming`` by default.

    Raises
    ------
    DataError
        If there is no question, one has no alternates, or the file cannot be read or written.

    Examples
    --------
    >>> from workbench import construction
    >>> from workbench.construction.grooming import Grooming
    >>> made = construction.sentence_completion.questions("sample", frequency=1e-3, minimum=2)
    >>> grooming = Grooming(made, "an example")
    >>> for word in made[0].meta["alternates"][:4]:
    ...     grooming.pick(made[0].item_id, word)
    >>> [len(item.candidates) for item in grooming.items()], grooming.undo() == made[0].item_id
    ([5], True)
    """

    def __init__(self, questions: Items, subject: str = "", *, folder: Path | str | None = None) -> None:
        self.questions, self.subject = questions, subject
        self.path = (data_home() / "grooming" if folder is None else Path(folder)) / _FILE
        self.alternates = {item.item_id: alternates_of(item) for item in questions}
        self._keys = {
            item.item_id: content_digest(item.item_id, item.text, item.answer, *self.alternates[item.item_id])
            for item in questions
        }
        self._ids = {key: item_id for item_id, key in self._keys.items()}
        self._texts = {item.item_id: " ".join(item.text.split()) for item in questions}
        self._choices: dict[str, Choice] = {}
        with writing(self.path, _WHAT):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._connected() as connection:
            for key, words, reason, _ in connection.execute(_ALL, [self.subject]).fetchall():
                if key in self._ids:
                    self._choices[self._ids[key]] = self._read(words, reason)
        self._users = {  # of each sentence, the question that is done
            self._texts[item_id]: item_id for item_id in self._choices if self._is_done(item_id)
        }

    # -- what is chosen

    def choice(self, item_id: str) -> Choice:
        """Return what was chosen of a question."""
        return self._choices.get(item_id, Choice())

    def state(self, item_id: str) -> str:
        """Return the state of a question, one of `STATES`."""
        choice = self.choice(item_id)
        if choice.reason:
            return REJECTED
        if len(choice.words) == N_OPTIONS:
            return DONE
        if self._users.get(self._texts[item_id], item_id) != item_id:
            return USED
        return BEGUN if choice.words else OPEN

    def counts(self) -> dict[str, int]:
        """Return how many questions are in each state."""
        counts = Counter(map(self.state, self._keys))
        return {state: counts[state] for state in STATES}

    def items(self) -> Items:
        """Return the questions that are done, with the options that were chosen."""
        name = f"groomed by {self.subject}" if self.subject else "groomed"
        done = [
            choose_options(item, self._choices[item.item_id].words, choice=name)
            for item in self.questions
            if self.state(item.item_id) == DONE
        ]
        return Items.from_records(
            done, attrs={**self.questions.attrs, "choice": name, "grooming": self.counts()}
        )

    def to_frame(self) -> pd.DataFrame:
        """Return one row a question: ``item_id``, ``state``, ``options`` (list of str), ``reason``."""
        ids = list(self._keys)
        return pd.DataFrame(
            {
                "item_id": pd.array(ids, dtype="str"),
                "state": pd.array([self.state(item_id) for item_id in ids], dtype="str"),
                "options": objects([list(self.choice(item_id).words) for item_id in ids]),
                "reason": pd.array([self.choice(item_id).reason for item_id in ids], dtype="str"),
            }
        )

    # -- changes

    def pick(self, item_id: str, word: str) -> None:
        """Choose an alternate, or take it back; DataError if four are chosen, or the question is closed."""
        alternates = self.alternates[item_id]

        def changed(choice: Choice) -> Choice:
            if word not in alternates:
                problem = f"{word!r:.80} is not one of the alternates of {item_id}"
            elif choice.reason:
                problem = "the question is rejected; take that back first"
            elif self.state(item_id) == USED:
                other = self._users[self._texts[item_id]]
                problem = f"its sentence is used in {other}, which is done; take an option of that one back"
            elif word in choice.words:
                return Choice(tuple(each for each in choice.words if each != word))
            elif len(choice.words) == N_OPTIONS:
                problem = f"{N_OPTIONS} options are chosen; take one back first"
            else:
                return Choice((*choice.words, word))
            raise DataError(f"the option cannot be chosen: {problem}")

        self._change(item_id, changed)

    def reject(self, item_id: str, reason: str) -> None:
        """Reject a question for one of `REASONS`; "" takes that back."""
        if reason not in {"", *REASONS}:
            raise DataError(
                f"the reason {reason!r:.80} is unknown", remedy=f"use one of {'; '.join(REASONS)}"
            )
        self._change(item_id, lambda choice: choice._replace(reason=reason))

    def undo(self) -> str | None:
        """Take the last change back; return the id of its question, None if there is none."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            for number, key in connection.execute(_NEWEST, [self.subject]):
                if key in self._ids:
                    connection.execute("DELETE FROM choices WHERE number = ?", [number])
                    item_id = self._ids[key]
                    choice = self._stored(connection, item_id)
                    break
            else:
                return None
        self._take(item_id, choice)
        return item_id

    # -- the file

    def _errors(self) -> AbstractContextManager[None]:
        return database_errors(self.path, _WHAT, patience=_WAIT, remedy="move it away, or restore a copy")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which is committed where the block ends well."""
        with self._errors(), closing(sqlite3.connect(self.path, timeout=_WAIT)) as connection, connection:
            connection.execute(_TABLE)
            connection.execute(_INDEX)
            yield connection

    def _change(self, item_id: str, changed: Callable[[Choice], Choice]) -> None:
        """Save what a function makes of the choice as the file has it now, if that is another one."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")  # nobody else changes it in between
            choice = self._stored(connection, item_id)
            self._take(item_id, choice)
            new = changed(choice)
            if new != choice:
                time = datetime.now(UTC).isoformat(timespec="milliseconds")
                words = json.dumps(new.words)
                row = [self._keys[item_id], self.subject, item_id, words, new.reason, time]
                connection.execute(_INSERT, row)
        self._take(item_id, new)

    def _stored(self, connection: sqlite3.Connection, item_id: str) -> Choice:
        row = connection.execute(_LAST, [self.subject, self._keys[item_id]]).fetchone()
        return Choice() if row is None else self._read(*row)

    def _read(self, words: str, reason: str) -> Choice:
        with reading(self.path, "a choice", remedy="move the file away"):
            return Choice(tuple(json.loads(words)), reason)

    def _take(self, item_id: str, choice: Choice) -> None:
        self._choices[item_id] = choice
        text = self._texts[item_id]
        if self._is_done(item_id):
            self._users[text] = item_id
        elif self._users.get(text) == item_id:
            del self._users[text]

    def _is_done(self, item_id: str) -> bool:
        choice = self._choices[item_id]
        return len(choice.words) == N_OPTIONS and not choice.reason


def next_open(grooming: Grooming, ids: Sequence[str], index: int) -> int:
    """Return the index of the next question that is open or begun, after `index` and then from the start."""
    for step in range(1, len(ids) + 1):
        other = (index + step) % len(ids)
        if grooming.state(ids[other]) in {OPEN, BEGUN}:
            return other
    return index
