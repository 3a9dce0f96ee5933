"""The guessing game of one person: its pages, and what the table of judgments says of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.notes import text_digest
from workbench.items.schema import content_digest
from workbench.people import Protocol, ProtocolStep, score_judgments
from workbench.people.judgments import (
    REPEATED,
    file_size,
    is_about,
    judgments_home,
    judgments_of,
    read_person,
    record_judgments,
    row_of,
)
from workbench.people.protocols import Condition
from workbench.people.protocols import protocol as named_protocol
from workbench.people.tasks import (
    Task,
    check_guesses,
    check_person,
    check_questions,
    n_shown_at_first,
    task_of,
)
from workbench.storage.errors import DataError, check_option, check_value

Answers = dict[int, list[Mapping[str, Any]] | None]

_COLUMNS = ("item_id", "variant", "text")

PLAYER = "me"
"""Name of the person who plays, where none is passed."""


def game_protocol(protocol: str | Protocol = "lambada", **settings: Any) -> Protocol:
    """Return a protocol for a single player.

    Each item is judged in one condition, which is drawn where there are several. Case does not count.

    Parameters
    ----------
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
        A Protocol is used unchanged, except for the settings passed.
    **settings
        ``condition``, of ``lambada`` and ``cbt``: ``"passage"``, ``"sentence"``, or ``"both"``, the default.
        Other settings as of :func:`workbench.people.protocol`.

    Examples
    --------
    >>> from workbench.widgets.guess.game import game_protocol
    >>> [(step.condition, step.guesses, step.per_page) for step in game_protocol("lambada").steps]
    [('passage', 1, 10), ('sentence', 3, 20)]
    """
    if not isinstance(protocol, str):
        return named_protocol(protocol, **settings)
    base = named_protocol(protocol)
    steps = {step.condition: step for step in base.steps}  # of lambada the second step is as the first one
    if protocol == "cbt":
        steps["sentence"] = replace(steps["passage"], condition="sentence")
    if (condition := settings.pop("condition", "both")) != "both":
        check_option("condition", condition, [*steps, "both"] if len(steps) > 1 else ["both"])
        steps = {condition: steps[condition]}
    alone = tuple(replace(step, people=1, passes="any", price=0.0) for step in steps.values())
    return named_protocol(replace(base, steps=alone, accept=("exact", "case")), **settings)


@dataclass(frozen=True)
class Page:
    """Tasks that are shown together.

    Attributes
    ----------
    id : int
        From 1.
    step : int
        Step of the protocol, from 1.
    condition : {"passage", "sentence", "unfolding"}
    guesses : int
        Words that may be typed for each task.
    tasks : tuple of Task
    """

    id: int
    step: int
    condition: Condition
    guesses: int
    tasks: tuple[Task, ...]


class Game:
    """One person's game, whose state is that person's file in a table of judgments.

    Items, protocol and seed give the pages; those items that the person has judged otherwise (in another
    condition, step or form of the text) are left out. So the same game goes on wherever it is opened.

    Parameters
    ----------
    items : Items
    protocol : Protocol
    person : str, optional
        "me" by default.
    folder : path, optional
        Folder of the table; ``data/guess`` by default.
    seed : int, default 0
        Draws the order of the items and the condition of each.
    """

    def __init__(
        self,
        items: Items,
        protocol: Protocol,
        person: str | None = None,
        folder: Path | str | None = None,
        seed: int = 0,
    ) -> None:
        check_questions(items, protocol, "guess")
        self.items, self.protocol = items, protocol
        self.person, self.folder = check_person(PLAYER if person is None else person), judgments_home(folder)
        self.key = content_digest(str(self.folder.absolute()), self.person)
        self._ids, self._variants, texts = (items.frame[name].tolist() for name in _COLUMNS)
        self._digests = list(map(text_digest, texts))
        order = np.random.default_rng(seed).permutation(len(items)).argsort().tolist()
        n_steps = len(protocol.steps)
        self._pages: list[tuple[int, list[int]]] = []  # step from 0, and items; pages of the steps alternate
        by_step = [_chunks(order[number::n_steps], step) for number, step in enumerate(protocol.steps)]
        for turn in range(max(map(len, by_step))):
            self._pages += [
                (number, pages[turn]) for number, pages in enumerate(by_step) if turn < len(pages)
            ]
        self._answers: tuple[int, Answers] | None = None  # as of the size of the file
        self._steps = {index: number for number, indices in self._pages for index in indices}

    def answers(self) -> Answers:
        """Return the person's answers to the items of this game, by index; None for items left out of it.

        The file is read where it has grown.
        """
        size = file_size(self.folder, self.person)
        if self._answers is None or size != self._answers[0]:
            self._answers = size, self._read()
        return self._answers[1]

    def _read(self) -> Answers:
        index_of = {item_id: index for index, item_id in enumerate(self._ids)}
        answers: Answers = {index: [] for index in range(len(self.items))}
        for row in read_person(self.folder, self.person):
            index = index_of.get(row["item_id"])
            if index is None or not is_about(row, self._digests[index]):
                continue
            if (rows := answers[index]) is not None:
                answers[index] = [*rows, row] if self._belongs(row, index) else None
        return answers

    def _belongs(self, row: Mapping[str, Any], index: int) -> bool:
        step = self._steps[index]
        condition, variant = self.protocol.steps[step].condition, self._variants[index]
        return (row["step"], row["condition"]) == (step + 1, condition) and row["variant"] in {None, variant}

    def is_finished(self, index: int, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether nothing more is asked about an item after a person's answers to it."""
        if not rows or self.protocol.steps[self._steps[index]].condition != "unfolding":
            return bool(rows)
        item, last = self.items[index], rows[-1]
        match = self.protocol.match(last["guesses"], item.answer, item.candidates)
        return match in self.protocol.accept or last["shown"] >= len(item.context)

    def finished_pages(self, answers: Answers) -> list[bool]:
        """Return whether each page is answered; one without items in the game is."""
        return [
            all(rows is None or self.is_finished(index, rows) for index, rows in self._rows(page, answers))
            for page in self._pages
        ]

    def item_ids(self, numbers: Sequence[int]) -> list[str]:
        """Return the ids of the items of some pages, from 1."""
        return [self._ids[index] for number in numbers for index in self._pages[number - 1][1]]

    def _rows(self, page: tuple[int, list[int]], answers: Answers) -> list[tuple[int, Any]]:
        return [(index, answers[index]) for index in page[1]]

    def next_page(self) -> Page | None:
        """Return the first page that is not answered; None if all are."""
        finished = self.finished_pages(self.answers())
        return self.page(finished.index(False) + 1) if False in finished else None

    def page(self, number: int) -> Page:
        """Return a page, from 1, as it is after the answers so far."""
        if not 1 <= number <= len(self._pages):
            raise DataError(f"there is no page {number}")
        step, _ = page = self._pages[number - 1]
        described = self.protocol.steps[step]
        tasks = [
            self._task(index, described, rows)
            for index, rows in self._rows(page, self.answers())
            if rows is not None
        ]
        return Page(number, step + 1, described.condition, described.guesses, tuple(tasks))

    def _task(self, index: int, step: ProtocolStep, rows: Sequence[Mapping[str, Any]]) -> Task:
        item, finished = self.items[index], self.is_finished(index, rows)
        n_shown = n_shown_at_first(item, step.condition)
        if rows and step.condition == "unfolding":
            n_shown = rows[-1]["shown"] + (not finished)
        task = task_of(item, n_shown, candidates=self.protocol.candidates)
        return replace(task, guesses=tuple(rows[-1]["guesses"]) if rows else (), finished=finished)

    def answer(
        self,
        number: int,
        item_id: str,
        guesses: Sequence[str],
        shown: int | None = None,
        seconds: float | None = None,
    ) -> Task | None:
        """Save an answer to a task of a page; it is on the disk when this returns.

        The same answer may be sent again; nothing changes then.

        Parameters
        ----------
        number : int
            Page.
        item_id : str
        guesses : sequence of str
            The words, in order; an empty word if the person gives up.
        shown : int, optional
            Number of context sentences that were shown.
        seconds : float, optional
            Time that the person took.

        Returns
        -------
        Task or None
            In unfolding after a wrong guess: the same item with one more sentence. Else None.

        Raises
        ------
        DataError
            If the task is not on the page, or was answered with other words, or a value is not valid.
        """
        task = self._task_on(number, item_id)
        step, item = self.protocol.steps[self._pages[number - 1][0]], self.items[item_id]
        words = check_guesses(guesses, step, item, candidates=self.protocol.candidates)
        n_shown = task.shown if shown is None else shown
        if not (isinstance(n_shown, int) and 0 <= n_shown <= task.shown) or (
            step.condition != "unfolding" and n_shown != task.shown
        ):
            raise DataError(
                f"expected an answer with {task.shown} context sentences shown, got {shown!r:.40}"
            )
        if seconds is not None:
            valid = isinstance(seconds, int | float) and 0 <= seconds < math.inf
            check_value("seconds", seconds, valid, "0 or more")
        row = row_of(
            item, self.person, step=self._pages[number - 1][0] + 1, condition=step.condition, n_shown=n_shown,
            guesses=words, seconds=seconds,
        )  # fmt: skip
        [reason] = record_judgments([row], self.folder)
        if reason not in {"", REPEATED}:
            raise DataError("this item was answered before, with other words or in another condition")
        task = self._task_on(number, item_id)
        return None if task.finished else task

    def _task_on(self, number: int, item_id: str) -> Task:
        for task in self.page(number).tasks:
            if task.item_id == item_id:
                return task
        raise DataError(f"the item {item_id!r:.80} is not on page {number}")

    def judgments(self) -> pd.DataFrame:
        """Return the person's judgments of the items; see :func:`workbench.people.score_judgments`."""
        return score_judgments(self.items, judgments_of(read_person(self.folder, self.person)), self.protocol)


def _chunks(indices: Sequence[int], step: ProtocolStep) -> list[list[int]]:
    return [list(indices[start : start + step.per_page]) for start in range(0, len(indices), step.per_page)]
