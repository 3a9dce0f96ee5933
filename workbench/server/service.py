"""Access of the server to a campaign: one thread writes, and waiting writes are flushed together."""

from __future__ import annotations

import asyncio
import ipaddress
import queue
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from workbench.people import Campaign, Page, RefusalError, Subject, Task
from workbench.people.assignment import token_digest

T = TypeVar("T")

TOKEN = re.compile(r"[\w-]{20,100}", re.ASCII)
"""What a token looks like."""

_SHORTEST = (
    0.02  # seconds for which calls may join a transaction; as long as the last flush took, if that is more
)
_FRESH = 10.0  # seconds for which a page that was assigned with the one before is shown from memory
_MOST_FORMS = 10_000  # kept in memory; others are read again
# the other answers of a form still count
_OF_THE_TASK = {"answered before", "invalid guess", "wrong context"}


class GroupCommits:
    """Run functions in one thread, all waiting ones in one transaction of a campaign.

    A flush takes as long as ten answers on a good disk and a hundred on a busy one, so that many people at
    once need one for all that wait. Nothing is returned before it is on the disk.

    Parameters
    ----------
    campaign : Campaign
    """

    def __init__(self, campaign: Campaign) -> None:
        self._campaign = campaign
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="campaign", daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], T]) -> T:
        """Return the result of a function once it is on the disk; raise its error."""
        future: Future[T] = Future()
        self._calls.put((function, future))
        return await asyncio.wrap_future(future)

    def close(self) -> None:
        """Finish the waiting functions, and stop."""
        self._calls.put(None)
        self._thread.join()

    def _work(self) -> None:
        flush = 0.0
        while call := self._calls.get():
            calls, outcomes = [call], []
            last = start = time.monotonic()
            try:
                with self._campaign.write_transaction():
                    for function, _ in calls:  # it grows meanwhile
                        outcomes.append(_outcome(function))
                        last = time.monotonic()
                        if last - start < max(_SHORTEST, flush) and not self._calls.empty():
                            following = self._calls.get()
                            if following is None:
                                self._calls.put(None)  # the end: after this transaction
                            else:
                                calls.append(following)
            except Exception as error:  # noqa: BLE001 - nothing is on the disk, and every caller learns why
                outcomes = [(None, error)] * len(calls)
            flush = time.monotonic() - last
            for (_, future), (value, failure) in zip(calls, outcomes, strict=True):
                if not future.set_running_or_notify_cancel():
                    continue
                if failure is None:
                    future.set_result(value)
                else:
                    future.set_exception(failure)


def _outcome(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """Return the result or the error of a function."""
    try:
        return function(), None
    except Exception as error:  # noqa: BLE001 - whatever it is, its caller gets it
        return None, error


class WrongTokens:
    """Count wrong tokens by address, and delay the answer to further ones.

    Parameters
    ----------
    burst : int, default 20
        Wrong tokens before an address has to wait.
    pause : float, default 3.0
        Seconds after which one more is allowed.
    most : int, default 10_000
        Addresses that are remembered.
    """

    def __init__(self, burst: int = 20, pause: float = 3.0, limit: int = 10_000) -> None:
        self.burst, self.pause, self.limit = burst, pause, limit
        self.clock: Callable[[], float] = time.monotonic
        self._free_at: OrderedDict[str, float] = (
            OrderedDict()
        )  # when the address has no wrong token to its name

    def wait(self, address: str) -> float:
        """Return the waiting time of an address in seconds; 0 without one."""
        debt = self._free_at.get(_network(address), 0.0) - self.clock()
        return max(0.0, debt - (self.burst - 1) * self.pause)

    def add(self, address: str) -> None:
        """Record a wrong token."""
        key = _network(address)
        self._free_at[key] = max(self._free_at.get(key, 0.0), self.clock()) + self.pause
        self._free_at.move_to_end(key)
        while len(self._free_at) > self.limit:
            self._free_at.popitem(last=False)


def _network(address: str) -> str:
    """Return an IPv4 address, or the network of an IPv6 address, as one machine has many."""
    try:
        if (parsed := ipaddress.ip_address(address)).version == 6:  # noqa: PLR2004 - IPv6
            return str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    except ValueError:
        return address
    return address


class TooManyError(Exception):
    """An address has sent too many wrong tokens.

    Attributes
    ----------
    seconds : float
        Waiting time in seconds.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass(frozen=True)
class TaskAnswer:
    """The form's data on one task: words, number of context sentences shown, seconds taken."""

    guesses: Sequence[str]
    n_shown: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class FormOutcome:
    """Outcome of a form: the current page (None: submitted), and refusals by index of the task."""

    page: Page | None
    refused: Mapping[int, RefusalError]


class Form(NamedTuple):
    """Content of the form of a page: condition, words a task, the items in their order."""

    condition: str
    guesses: int
    item_ids: tuple[str, ...]


class Service:
    """Access of the handlers to a campaign.

    Parameters
    ----------
    campaign : Campaign
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self.wrong_tokens = WrongTokens()
        self._commits = GroupCommits(campaign)
        self._subjects: dict[str, Subject] = {}  # by hash of the token; only tokens that are right
        self._forms: OrderedDict[tuple[int, int], Form] = OrderedDict()  # by page and subject
        self._following: dict[int, tuple[float, Page | None]] = {}  # by subject: since when, the next page

    def close(self) -> None:
        """Finish the waiting writes; the campaign stays open."""
        self._commits.close()

    async def subject(self, token: str) -> Subject | None:
        """Return the subject of a token, or None."""
        if not TOKEN.fullmatch(token):
            return None
        digest = token_digest(token)
        if digest not in self._subjects:
            try:
                self._subjects[digest] = await self._commits.run(lambda: self.campaign.subject(token))
            except RefusalError:
                return None
        return self._subjects[digest]

    async def sign_in(self, token: str, address: str) -> Subject | None:
        """Return the subject of a token, or None; TooManyError after too many wrong tokens from an address.

        A right one is always accepted, as many people may share the address.
        """
        subject = await self.subject(token)
        if subject is None and TOKEN.fullmatch(token):
            if seconds := self.wrong_tokens.wait(address):
                raise TooManyError(seconds)
            self.wrong_tokens.add(address)
        return subject

    async def next_page(self, subject: Subject) -> Page | None:
        """Return the current page of the subject, or a new one."""
        since, page = self._following.pop(subject.id, (-_FRESH, None))
        if time.monotonic() - since < _FRESH:
            return page
        return await self._commits.run(lambda: self._next_page(subject))

    def _next_page(self, subject: Subject) -> Page | None:
        page = self.campaign.next_page(subject.id)
        if page is not None:
            self._remember(page, subject)
        return page

    async def form(self, page: int, subject: Subject) -> Form:
        """Return the content of the form of a page; RefusalError if it is not the subject's."""
        if form := self._forms.get((page, subject.id)):
            return form
        return await self._commits.run(lambda: self._form(page, subject))

    async def answer(self, page: int, subject: Subject, index: int, answer: TaskAnswer) -> Task | None:
        """Save the answer to a task of a page by its index; return the next task about the item, if any."""
        self._following.pop(subject.id, None)
        return await self._commits.run(lambda: self._answer(page, subject, index, answer))

    async def answer_form(
        self, page: int, subject: Subject, answers: Mapping[int, TaskAnswer], *, send: bool
    ) -> FormOutcome:
        """Save the answers of a form by index of the task, and optionally submit the page.

        The next page is assigned in the same flush, as the browser requests it at once.

        Returns
        -------
        FormOutcome
            An answer that is refused does not keep the others from being saved.

        Raises
        ------
        RefusalError
            If the page is refused as a whole.
        """
        following: list[Page | None] = []
        self._following.pop(subject.id, None)

        def work() -> FormOutcome:
            refused = {}
            for index, answer in answers.items():
                try:
                    self._answer(page, subject, index, answer)
                except RefusalError as error:
                    if error.reason not in _OF_THE_TASK:
                        raise
                    refused[index] = error
            if send:
                try:
                    self.campaign.submit(page, subject.id)
                    if not refused:
                        following.append(self._next_page(subject))
                        return FormOutcome(None, {})
                except RefusalError as error:
                    if error.reason != "unanswered tasks":
                        raise
            return FormOutcome(self.campaign.page(page, subject.id), refused)

        outcome = await self._commits.run(work)
        for each in following:
            self._following[subject.id] = time.monotonic(), each
        return outcome

    def _answer(self, page: int, subject: Subject, index: int, answer: TaskAnswer) -> Task | None:
        item_ids = self._form(page, subject).item_ids
        if index >= len(item_ids):
            raise RefusalError(f"there is no task {index} on page {page}", "item not on the page")
        return self.campaign.answer(
            page, subject.id, item_ids[index], answer.guesses, shown=answer.n_shown, seconds=answer.seconds
        )

    def _form(self, page: int, subject: Subject) -> Form:
        """Return the form of a page. Browsers do not get the items' ids, which may reveal the answers."""
        if (page, subject.id) not in self._forms:
            self._remember(self.campaign.page(page, subject.id), subject)
        return self._forms[page, subject.id]

    def _remember(self, page: Page, subject: Subject) -> None:
        item_ids = tuple(task.item_id for task in page.tasks)
        self._forms[page.id, subject.id] = Form(page.condition, page.guesses, item_ids)
        if len(self._forms) > _MOST_FORMS:
            self._forms.popitem(last=False)
