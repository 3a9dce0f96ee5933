"""A campaign: items, people, a protocol and all answers in one database."""

from __future__ import annotations

import json
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from workbench.evaluation.interchange.agreement import Agreement
from workbench.items.items import Items, check_items
from workbench.items.text import is_encodable
from workbench.people import assignment, database, reports
from workbench.people.assignment import (
    LONGEST_GUESS,
    Page,
    RefusalError,
    Subject,
    Task,
    item_from_record,
    record_of,
)
from workbench.people.protocols import Protocol
from workbench.people.protocols import protocol as named_protocol
from workbench.render.results import Table
from workbench.storage.errors import DataError, reading

_SEEDS = 1 << 63


class Campaign:
    """People's judgments of items: assignments, answers and the state of each item.

    Make one with :meth:`create` or :meth:`open`. Its state is one SQLite database and nothing else: every
    answer is on the disk before :meth:`answer` returns, so a killed process or a lost connection costs none.
    Threads, processes and forks may use one database at the same time. No subject ever gets an item in two
    conditions, or in two steps, and no item is given to more people than its step still needs; a page that is
    not answered in time is assigned to another person.

    Attributes
    ----------
    path : Path
        The database.
    protocol : Protocol

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from workbench import people
    >>> campaign = people.Campaign.create(f"{mkdtemp()}/guesses.db", items[:3])
    >>> ada = campaign.add_subject("Ada")
    >>> page = campaign.next_page(ada.id)
    >>> page.condition, len(page.tasks), page.tasks[0].guesses
    ('passage', 3, ())
    >>> for task in page.tasks:
    ...     campaign.answer(page.id, ada.id, task.item_id, ["time"])
    >>> campaign.submit(page.id, ada.id)
    >>> campaign.states()["state"].tolist()
    ['dropped', 'dropped', 'dropped']
    """

    path: Path
    protocol: Protocol

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._database = database.Database(self.path)
        self._clock: Callable[[], float] = time.time
        with self.read_transaction() as connection:
            settings = dict(connection.execute("SELECT key, value FROM campaign").fetchall())
            self.protocol = Protocol.from_json(settings["protocol"])
            self._attrs = json.loads(settings["attrs"])
            self.seed = int(settings["seed"])

    @classmethod
    def create(
        cls,
        path: Path | str,
        items: Items,
        protocol: str | Protocol = "lambada",
        seed: int = 0,
        **settings: Any,
    ) -> Self:
        """Create the database of a new campaign, and open it.

        Parameters
        ----------
        path : path
            A new file.
        items : Items
            With answers; with candidates too where the protocol shows them.
        protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
        seed : int, default 0
            Draws the order in which the items are given out, and their steps where the protocol says so.
        **settings
            Of :func:`workbench.people.protocol`: ``people``, ``per_page``, ``price``, ``lease`` ...

        Returns
        -------
        Campaign

        Raises
        ------
        DataError
            If there is a file already, an item lacks what the protocol needs, or a setting is wrong.

        Examples
        --------
        >>> from tempfile import mkdtemp
        >>> from workbench import people
        >>> people.Campaign.create(f"{mkdtemp()}/guesses.db", items, protocol="unfolding", people=2)
        Campaign(30 items, protocol unfolding: 30 open, 0 kept, 0 dropped)
        """
        chosen = named_protocol(protocol, **settings)
        check_items(items, "Campaign.create")
        needed = ["answer", *(["candidates"] if chosen.candidates else [])]
        lacking = items.frame["item_id"][items.frame[needed].isna().any(axis=1)]
        if len(lacking) or not len(items):
            raise DataError(
                f"expected an item or more, each with {' and '.join(needed)}, got {len(items):,} items, of "
                f"which {len(lacking):,} have none: {', '.join(lacking[:1])}",
                remedy=f"leave them out with items.where; the protocol {chosen.name} needs them",
            )
        order = np.random.default_rng(abs(int(seed)) % _SEEDS).permutation(len(items)).tolist()
        steps = [position % len(chosen.steps) if chosen.drawn else 0 for position in order]
        people, frame = [chosen.steps[step].people for step in steps], items.frame

        def fill(connection: sqlite3.Connection) -> None:
            connection.executemany(
                "INSERT INTO campaign VALUES (?, ?)",
                [
                    ("protocol", chosen.to_json()),
                    ("seed", str(int(seed))),
                    ("attrs", json.dumps(items.attrs, default=str)),
                    ("secret", secrets.token_hex(16)),
                ],
            )
            connection.executemany(
                "INSERT INTO items (number, item_id, place, answer, step, vacant) VALUES (?, ?, ?, ?, ?, ?)",
                zip(
                    *(range(len(items)), frame["item_id"], order, frame["answer"], steps, people),
                    strict=True,
                ),
            )
            connection.executemany("INSERT INTO records VALUES (?, ?)", enumerate(map(record_of, items)))

        database.create(Path(path), fill)
        return cls(path)

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Open a campaign; DataError if the file is not a valid campaign database."""
        return cls(path)

    def now(self) -> float:
        """Return the time in seconds since 1970, against which leases are checked."""
        return self._clock()

    def close(self) -> None:
        """Close the database; all answers are kept."""
        self._database.close()

    @contextmanager
    def read_transaction(self) -> Iterator[sqlite3.Connection]:
        """Read one consistent state of the database, isolated from concurrent writes."""
        with (
            reading(self.path, "this campaign", remedy=database.REMEDY),
            self._database.reading() as connection,
        ):
            yield connection

    @contextmanager
    def write_transaction(self) -> Iterator[sqlite3.Connection]:
        """Change the database atomically.

        What the campaign does within this block, in one thread, is on the disk when the block ends. A call
        that is refused undoes only what it did itself.
        """
        with (
            reading(self.path, "this campaign", remedy=database.REMEDY),
            self._database.writing() as connection,
        ):
            yield connection

    def add_subject(self, name: str | None = None) -> Subject:
        """Add a person, and return number, name and token.

        Parameters
        ----------
        name : str, optional
            By default "subject" and a number.

        Raises
        ------
        RefusalError
            If the name is taken (``duplicate subject``).
        """
        if name is not None:
            name = " ".join(str(name).split())
            if not name or len(name) > LONGEST_GUESS or not is_encodable(name) or "\0" in name:
                raise DataError(
                    f"expected a name of 1 to {LONGEST_GUESS} characters, none of them NUL or half a "
                    f"surrogate pair, got {name!r:.60}",
                    remedy="choose another name",
                )
        token = secrets.token_urlsafe(32)
        with self.write_transaction() as connection:
            return assignment.add_subject(connection, name, token, self._clock())

    def subject(self, token: str) -> Subject:
        """Return the person with a token; RefusalError (``unknown subject``) if there is none."""
        with self.read_transaction() as connection:
            row = connection.execute(
                "SELECT id, name FROM subjects WHERE token_sha256 = ?", (assignment.token_digest(str(token)),)
            ).fetchone()
        if row is None:
            raise RefusalError("nobody has this token", "unknown subject", remedy="sign in with another one")
        return Subject(*row)

    def next_page(self, subject_id: int) -> Page | None:
        """Return the open page of a subject, or else a new one; None if no item is due.

        No item is due if all have stopped, are being judged by others, or were given to this subject before.
        """
        now = self._clock()
        with self.write_transaction() as connection:
            if not connection.execute("SELECT 1 FROM subjects WHERE id = ?", (subject_id,)).fetchone():
                raise RefusalError(f"there is no subject {subject_id!r:.40}", "unknown subject")
            assignment.expire_pages(connection, now)
            page = assignment.open_page(connection, subject_id)
            if page is None:
                page = assignment.assign_page(connection, self.protocol, subject_id, now)
            return None if page is None else assignment.page_of(connection, self.protocol, page)

    def page(self, page_id: int, subject_id: int) -> Page:
        """Return a present or past page of a subject; RefusalError if it is unknown or another subject's."""
        with self.read_transaction() as connection:
            assignment.page_state(connection, page_id, subject_id)
            return assignment.page_of(connection, self.protocol, page_id)

    def answer(  # noqa: PLR0917 - what a form sends, in its order
        self,
        page_id: int,
        subject_id: int,
        item_id: str,
        guesses: Sequence[str],
        shown: int | None = None,
        seconds: float | None = None,
    ) -> Task | None:
        """Save an answer of a subject. It is on the disk when this returns.

        The same answer may be sent again; nothing changes then.

        Parameters
        ----------
        page_id, subject_id : int
        item_id : str
        guesses : sequence of str
            The words, in order; an empty word if the subject gives up.
        shown : int, optional
            Number of context sentences that were shown.
        seconds : float, optional
            Time that the subject took.

        Returns
        -------
        Task or None
            In unfolding after a wrong guess: the same item with one more sentence. Else None.

        Raises
        ------
        RefusalError
            With a ``reason``: the page is unknown, another subject's, expired or submitted, the item is not
            on it or was answered with other words, or the guesses are not valid.
        """
        with self.write_transaction() as connection:
            return assignment.save_answer(
                connection,
                self.protocol,
                self._clock(),
                page=page_id,
                subject=subject_id,
                item_id=item_id,
                guesses=guesses,
                n_shown=shown,
                seconds=seconds,
            )

    def submit(self, page_id: int, subject_id: int) -> None:
        """Close a page whose tasks are all answered; repeating it changes nothing.

        RefusalError if a task has no answer, or the page is unknown, another subject's or expired.
        """
        with self.write_transaction() as connection:
            assignment.submit_page(connection, page_id, subject_id, self._clock())

    def subjects(self) -> pd.DataFrame:
        """Return the people: subject, name, n_pages (submitted), n_judgments."""
        with self.read_transaction() as connection:
            return reports.subjects(connection)

    def judgments(self) -> pd.DataFrame:
        """Return all answers in the order of arrival, one row each (see :mod:`.reports`)."""
        with self.read_transaction() as connection:
            return reports.judgments(connection, self.protocol)

    def states(self) -> pd.DataFrame:
        """Return the state of each item: item_id, step, state (open, kept, dropped), reason, n.

        ``step`` is the step that it is at or stopped at, ``n`` the people who judged it, in all steps.
        """
        with self.read_transaction() as connection:
            return reports.states(connection)

    def funnel(self) -> Table:
        """Return the number of items that entered and left each step.

        Columns: step, condition, n_in, n_open, n_dropped, n_out, and the shares of all items that the step
        dropped (``dropped_share``, with Wilson's 95 % interval) and let pass (``passed_share``).
        """
        with self.read_transaction() as connection:
            return reports.step_counts(connection, self.protocol)

    def costs(self) -> Table:
        """Return the costs of the submitted pages: one row a step and one for all.

        Columns: step, condition, n_pages (submitted), n_judgments, n_uncounted (of items that had stopped
        before), price (of a page), cost (dollars), cost_per_kept.
        """
        with self.read_transaction() as connection:
            return reports.costs(connection, self.protocol)

    def agreement(self) -> dict[str, Agreement]:
        """Return the agreement of people, by condition: pairs, Fleiss' kappa, Krippendorff's alpha.

        The first guess counts; of unfolding the last one.
        """
        return reports.agreements(self.judgments())

    def survivors(self) -> Items:
        """Return the items that passed every step, in their order."""
        with self.read_transaction() as connection:
            rows = connection.execute(
                """SELECT r.record FROM items i JOIN records r ON r.item = i.number
                WHERE i.state = 'kept' ORDER BY i.number"""
            ).fetchall()
        return self._items(record for (record,) in rows)

    def items(self) -> Items:
        """Return all items of the campaign, in their order."""
        with self.read_transaction() as connection:
            rows = connection.execute("SELECT record FROM records ORDER BY item").fetchall()
        return self._items(record for (record,) in rows)

    def _items(self, records: Any) -> Items:
        with reading(self.path, "an item of this campaign"):
            return Items.from_records((item_from_record(record) for record in records), attrs=self._attrs)

    def predictions(self, subject: int | str | Subject | None = None) -> pd.DataFrame:
        """Return people's answers as predictions, which tables and :func:`workbench.compare` take.

        Parameters
        ----------
        subject : int, str or Subject, optional
            One person, by number or name; all by default, each as a model of their own (``person: Ada``).

        Returns
        -------
        DataFrame
            See :mod:`workbench.predictions.schema`. The prediction is the first guess (of unfolding the last
            one), ``top_words`` are all; ``correct`` is whether the prediction counts as right by the
            protocol. Where the target sentence stood alone, the variant ends in ``(query only)``.

        Notes
        -----
        In the protocol ``lambada`` another person guessed the items of the second step before, so a share
        of right answers there is not an estimate for all items.
        """
        name = self._name_of(subject)
        return reports.predictions(self.judgments(), self.items(), name)

    def _name_of(self, subject: int | str | Subject | None) -> str | None:
        if subject is None or isinstance(subject, Subject):
            return None if subject is None else subject.name
        people = self.subjects()
        column = "name" if isinstance(subject, str) else "subject"
        for value, name in zip(people[column].tolist(), people["name"].tolist(), strict=True):
            if value == subject:
                return str(name)
        raise RefusalError(f"there is no subject {subject!r:.60}", "unknown subject")

    def unfolding(self) -> pd.DataFrame:
        """Return the cumulative share of items guessed by the number of context sentences.

        Columns: n_context_sentences, n (judgments), n_guessed, share, low, high (Wilson's 95 %). An item with
        a shorter context counts with the words that were guessed from all of it.
        """
        return reports.unfolding(self.judgments())

    def __len__(self) -> int:
        with self.read_transaction() as connection:
            return int(connection.execute("SELECT count(*) FROM items").fetchone()[0])

    def __repr__(self) -> str:
        with self.read_transaction() as connection:
            counts = dict(connection.execute("SELECT state, count(*) FROM items GROUP BY state").fetchall())
        states = ", ".join(f"{counts.get(state, 0):,} {state}" for state in ("open", "kept", "dropped"))
        return f"Campaign({sum(counts.values()):,} items, protocol {self.protocol.name}: {states})"
