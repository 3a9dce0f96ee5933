"""Questions to several models, answered in one thread a model; a newer question replaces an older one."""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import Item, objects
from workbench.models.base import Predictor
from workbench.models.item_words import ReadContext, distinct, is_word, passages
from workbench.predictions.schema import check_predictions
from workbench.probing.influence import influence
from workbench.probing.surprisal import surprisal
from workbench.storage.errors import DataError, writing
from workbench.storage.files import write_atomic
from workbench.storage.progress import report_progress
from workbench.widgets.ask.questions import FORMAT, Key, Question, TypedQuestion, read_history, read_question
from workbench.widgets.shared.shading import Shading, shadings

ANSWER_COLUMNS = (
    "prediction", "correct", "rank", "n_tied", "rank_is_bound", "n_choices", "known", "log_prob",
    "score_type", "vocabulary_size", "top_words", "top_log_probs", "candidate_scores",
)  # fmt: skip
"""What is kept of a row of predictions."""

SETTLED = 1.5
"""Seconds without change after which a question is kept."""

_LAST = ("error", "seconds")
_TYPES = {
    "correct": "boolean", "rank": "Int64", "n_tied": "Int64", "rank_is_bound": "boolean",
    "n_choices": "Int64", "known": "boolean", "log_prob": "float64", "vocabulary_size": "Int64",
    "alpha": "float64", "k": "Int64",
}  # fmt: skip


class Shades(NamedTuple):
    """What the passage is shaded by: the influence of parts, perhaps against another word, or surprisal."""

    influence: str = ""
    against: str = ""
    surprisal: bool = False


class Answer(NamedTuple):
    """Answer of one model to a question, after some seconds: `ANSWER_COLUMNS` or ``{"error": str}`` by `Key`.

    One that is not `final` is followed by another one; its ranks may be lower bounds. `context` is the extent
    of the passage that the model reads, `inputs` the text that it reads; `shadings` has by side the shading
    of the passage, or the reason why there is none. The model was boosted by `alpha`: 0 where that was asked
    of a model without log-probabilities.
    """

    seconds: float
    replies: Mapping[Key, Mapping[str, Any]]
    final: bool = True
    context: ReadContext | None = None
    inputs: Mapping[Key, str] = {}
    shadings: Mapping[str, Shading | str] | None = None
    alpha: float = 0.0

    @property
    def complete(self) -> bool:
        """True if the answer is final and without an error."""
        return self.final and not any("error" in reply for reply in self.replies.values())


Replies = dict[str, dict[str, Any]]
"""What a model says, by the id of the item."""


def answers(
    model: Any, question: Question, *, top_k: int, seed: int, shades: Callable[[], Shades] = Shades
) -> Iterator[Answer]:
    """Yield a model's answer in steps: without a search for exact ranks, with it, with `shades`.

    Where the question has an `alpha`, all this is of the boosted model, if it has log-probabilities.
    """
    alpha = question.state.alpha if can_be_boosted(model) else 0.0
    try:
        model = model.boosted(question.state.k, alpha) if alpha else model
    except BaseException as error:  # noqa: BLE001 - whatever a model does, the others go on
        yield Answer(0.0, {key: {"error": error_text(error)} for key in question.versions})
        return
    for answer in _answers(model, question, top_k, seed):
        chosen = shades() if answer.final else Shades()
        is_shaded = bool(chosen.influence or chosen.surprisal)
        answer = answer._replace(final=answer.final and not is_shaded, alpha=alpha)  # noqa: PLW2901
        yield answer
        if is_shaded:
            yield answer._replace(final=True, shadings=_shadings(model, question, chosen))


def can_be_boosted(model: Any) -> bool:
    """Return True if a model has log-probabilities."""
    try:
        return isinstance(model, Predictor) and model.score_type == "log_prob"
    except Exception:  # noqa: BLE001 - a model of one's own
        return False


def _shadings(model: Any, question: Question, shades: Shades) -> dict[str, Shading | str]:
    """Return the shading of each passage, or the error as text."""
    by_side: dict[str, Shading | str] = {}
    for side, item in question.passages.items():
        items = Items.from_records([item])
        try:
            if shades.surprisal:
                by_side[side] = shadings(items, surprisal=surprisal(model, items))["surprisal"]
                continue
            against = shades.against.strip() or None
            frame = influence(model, items, shades.influence, against)  # type: ignore[arg-type]  # checked there
            value = "influence" if against is None else "contrast"
            shading = shadings(items, influence=frame, value=value)[value]
            if against is not None:
                other = "the best other word" if against == "prediction" else f"“{against}”"
                shading = shading._replace(label=f"influence, “{item.answer}” against {other}")
            by_side[side] = shading
        except BaseException as error:  # noqa: BLE001 - whatever a model does, the answer stays
            by_side[side] = error_text(error)
    return by_side


def _answers(model: Any, question: Question, top_k: int, seed: int) -> Iterator[Answer]:
    """Yield a model's answer; before a search for exact ranks, yield one without it."""
    start = time.perf_counter()
    context, inputs = _context(model), _inputs(model, question)
    model = model.ranking_words if isinstance(model, Predictor) else model

    def answer(replies: Replies, *, final: bool) -> Answer:
        none = {"error": "the model gave no answer"}
        by_key = {key: replies.get(item.item_id, none) for key, item in question.versions.items()}
        return Answer(time.perf_counter() - start, by_key, final, context, inputs)

    replies = _quick_replies(model, question.items, top_k, seed)
    is_open = np.array([_is_open(replies.get(item.item_id), top_k) for item in question.items], dtype=bool)
    if replies:
        yield answer(replies, final=not is_open.any())
    if is_open.any():
        yield answer(replies | _replies(model, question, is_open, top_k, seed), final=True)


def _context(model: Any) -> ReadContext | None:
    """Return the context that a model reads, or None if it is unknown."""
    try:
        context = getattr(model, "context", None)
    except Exception:  # noqa: BLE001 - a model of one's own
        return None
    return context if isinstance(context, ReadContext) else None


def _inputs(model: Any, question: Question) -> dict[Key, str]:
    """Return the text that a model reads of each version; empty if unknown."""
    try:
        texts = {key: model.input_text(item) for key, item in question.versions.items()}
    except Exception:  # noqa: BLE001 - a model of one's own
        return {}
    return {key: text for key, text in texts.items() if isinstance(text, str)}


def _quick_replies(model: Any, items: Items, top_k: int, seed: int) -> Replies:
    """Return a model's replies without a search for exact ranks; empty if none is needed, or on an error."""
    try:
        quick = model.quick(items) if isinstance(model, Predictor) else None
        return {} if quick is None else _rows(quick, items, top_k, seed)
    except BaseException:  # noqa: BLE001 - the model itself says what is wrong
        return {}


def _is_open(reply: Mapping[str, Any] | None, top_k: int) -> bool:
    """Return True if the rank is a bound, or best words are missing."""
    if reply is None or reply["rank_is_bound"]:
        return True
    n_words = reply["n_choices"] or reply["vocabulary_size"] or top_k
    return len(reply["top_words"] or ()) < min(top_k, n_words)


def _replies(model: Any, question: Question, mask: npt.NDArray[np.bool_], top_k: int, seed: int) -> Replies:
    """Ask a model about some items; on an error ask about each item alone, so that only one fails."""
    items = question.items.where(mask)
    try:
        items = _with_words(model, question, items)
        replies = _rows(model, items, top_k, seed)
    except BaseException as error:  # noqa: BLE001 - whatever a model does, the others go on
        replies = {item.item_id: {"error": error_text(error)} for item in items}
        if len(items) > 1:
            for index, item_id in enumerate(list(replies)):
                try:
                    replies |= _rows(model, items[index : index + 1], top_k, seed)
                except BaseException as alone_error:  # noqa: BLE001
                    replies[item_id] = {"error": error_text(alone_error)}
    return replies


def _with_words(model: Any, question: Question, items: Items) -> Items:
    """Return the items; for a model without a vocabulary, with the words of the passages as candidates."""
    if not isinstance(model, Predictor) or model.vocabulary is not None:
        return items
    if items.frame["candidates"].notna().any() or model.choices(items) is not None:
        return items
    whole_passages = Items.from_records({i.item_id: i for i in question.passages.values()}.values())
    words = [w for _, each in passages(whole_passages, lower=False) for w in each.words if is_word(w)]
    return Items.from_records(replace(item, candidates=_choices(words, item.answer)) for item in items)


def _choices(words: Sequence[str], answer: str | None) -> tuple[str, ...] | None:
    """Return the distinct words, ignoring case, with the answer as it is spelt."""
    choices = distinct(words, lower=True, answer=answer)
    return tuple(dict.fromkeys([*choices, *([answer] if answer else [])])) or None


def error_text(error: BaseException) -> str:
    """Return an error as text: the message of a DataError; for others with their type."""
    text = str(error)
    if not isinstance(error, DataError):
        text = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return text.encode("utf-8", "backslashreplace").decode()  # half a surrogate pair could not be sent


def _rows(model: Any, items: Items, top_k: int, seed: int) -> dict[str, dict[str, Any]]:
    with report_progress(lambda _done, _total: None):  # the page has a line of its own
        frame = check_predictions(model.predict(items, top_k, seed=seed), items)
    rows: Any = frame[["item_id", *ANSWER_COLUMNS]].to_dict("records")
    replies = {row.pop("item_id"): {name: _plain(value) for name, value in row.items()} for row in rows}
    for item in items:
        scores = replies.get(item.item_id, {}).get("candidate_scores")
        if scores and item.candidates and item.answer in item.candidates:
            replies[item.item_id]["answer_score"] = scores[item.candidates.index(item.answer)]
    return replies


def _plain(value: Any) -> Any:
    """Convert a cell to a Python value, missing ones to None; infinities are kept."""
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN is what differs from itself
        return None
    return value.item() if isinstance(value, np.generic) else value


# -- the answers of several models


@dataclass(eq=False)
class AskedQuestion:
    """A question with its present answers, by index of the model; `settled` if it is to be stored."""

    question: Question
    answers: dict[int, Answer] = field(default_factory=dict)
    settled: bool = False
    start: float = field(default_factory=time.perf_counter)

    @property
    def age(self) -> float:
        """Seconds since the question was asked."""
        return time.perf_counter() - self.start


Inbox = SimpleQueue[AskedQuestion | None]
"""What a model is asked; only the newest entry counts, and None is the end."""


class Asking:
    """Questions to several models, each of which answers in its own thread.

    A model that computes is never interrupted: when it is done, an answer to an outdated question is dropped
    and it goes on with the newest one. A model may answer in two steps (see `answers`); the second one is not
    begun where a newer question has come. The threads end when this is closed or no longer used.

    A question is kept once all have answered and `settle` seconds have passed without a new one; None: never.
    The `listener` is called with ``"asked"``, ``"answer"`` (of the model at the index) and ``"kept"``, in
    this order for each question, one call at a time: after a newer question, no answer to an older one.
    """

    def __init__(
        self,
        models: Mapping[str, Any],
        *,
        top_k: int = 10,
        seed: int = 0,
        settle: float | None = SETTLED,
        listener: Callable[[str, AskedQuestion, int], None] | None = None,
    ) -> None:
        self.models: dict[str, Any] = dict(models)
        self.labels = list(self.models)
        self.boosts = any(map(can_be_boosted, self.models.values()))
        self.top_k, self.seed, self.settle = top_k, seed, settle
        self._listener = listener
        self.lock = threading.RLock()
        self._news = threading.Condition(self.lock)
        self.sources: dict[str, Item] = {}  # items that were put in, by their typed text
        self.current = AskedQuestion(read_question(TypedQuestion()))
        self.history: list[AskedQuestion] = []
        self.shades = Shades()  # computed after the answer
        self.closed = False
        self._number = 0
        self._timer: threading.Timer | None = None
        self._inboxes: list[Inbox] = [SimpleQueue() for _ in self.models]
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _close, self._inboxes)

    # -- asking

    def ask(self, state: TypedQuestion, *, anew: bool = False) -> AskedQuestion:
        """Ask all models, and return at once; stored answers are used, unless `anew`."""
        question = read_question(state, sources=self.sources)
        with self.lock:
            self._number += 1
            old = self._stored(state)
            if old is not None:
                question = old.question
            stored = {} if old is None or anew else {i: a for i, a in old.answers.items() if a.complete}
            record = AskedQuestion(replace(question, number=self._number, state=state), stored)
            self.current = record
            self._notify("asked", record)
            if self._asked and not self._threads and not self.closed:
                self._start()
            for inbox in () if self.closed else self._inboxes:
                inbox.put(record)
            self._news.notify_all()
            self._wait_for_quiet()
        return record

    def take(self, index: int, number: int, answer: Answer) -> bool:
        """Add an answer of the model at `index`; return True if its question is still current."""
        with self.lock:
            record = self.current
            if self.closed or not self._asked or record.question.number != number:
                return False
            record.answers[index] = answer
            self._notify("answer", record, index)
            if record.settled and self.complete:
                self._keep(record)
            self._news.notify_all()
            return True

    @property
    def complete(self) -> bool:
        """True if every model has answered the current question."""
        return self._asked and len(self._final) == len(self.models)

    @property
    def _final(self) -> set[int]:
        """Return the indices of the models with a final answer to the current question."""
        return {index for index, answer in self.current.answers.items() if answer.final}

    def wait(self, timeout: float | None = None) -> None:
        """Wait until every model has answered the current question, and store it; see `Ask.wait`."""
        with self._news:
            done = self._news.wait_for(lambda: self.closed or self.complete or not self._asked, timeout)
            if self.closed or not self._asked:
                problems = ["this was closed"] if self.closed else self.current.question.problems.values()
                raise DataError("; ".join(problems) or "there is no passage", hint="set .text of wb.ask")
            if not done:
                slow = [label for i, label in enumerate(self.labels) if i not in self._final]
                raise TimeoutError(f"still thinking after {timeout:g} s: {', '.join(slow)}")
            self._keep(self.current)

    @property
    def _asked(self) -> bool:
        return bool(self.current.question.passages)

    # -- the history

    def keep(self, number: int | None = None, *, now: bool = False) -> None:
        """Store the current question once all have answered, or (`now`) with the present answers.

        With a number, only if this is still the number of the current question.
        """
        with self.lock:
            record = self.current
            if self.closed or not self._asked or number not in {None, record.question.number}:
                return
            record.settled = True
            if now or self.complete:
                self._keep(record)

    def _keep(self, record: AskedQuestion) -> None:
        old = self._stored(record.question.state)
        if old is record:
            return
        if old is None:
            self.history.append(record)
        else:
            self.history[self.history.index(old)] = record
        self._notify("kept", record)

    def _stored(self, state: TypedQuestion) -> AskedQuestion | None:
        return next((r for r in self.history if r.question.state.key == state.key), None)

    def past(self, number: Any) -> AskedQuestion:
        """Return a question of the history by its number, from 1."""
        n = len(self.history)
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= n:
            raise DataError(f"the history has no question {number!r:.80}", hint=f"it has {n} questions")
        return self.history[number - 1]

    def save(self, path: Path | str) -> None:
        """Write the questions of the history as JSON for `load`."""
        with self.lock:
            questions: list[dict[str, Any]] = [
                {"time": record.question.asked.isoformat(), **record.question.state._asdict(),
                 "answers": _finite(self._rows([record]))}
                for record in self.history
            ]  # fmt: skip
        text = json.dumps({"format": FORMAT, "questions": questions}, indent=1, allow_nan=False)
        with writing(path, "this history"):
            write_atomic(Path(path), text)

    def load(self, path: Path | str) -> None:
        """Add the questions of a file that `save` wrote, without answers."""
        questions = read_history(path)
        with self.lock:
            for question in questions:
                if self._stored(question.state) is None:
                    self.history.append(AskedQuestion(question, settled=True))
            if questions:
                self._notify("kept", self.history[-1])

    def items(self) -> Items:
        """Return the passages of the history as items without duplicates."""
        with self.lock:
            by_id = {i.item_id: i for r in self.history for i in r.question.passages.values()}
        return Items.from_records(by_id.values())

    def questions(self) -> pd.DataFrame:
        """Return the history, one row per question; ``predictions`` has the best word of each model."""
        with self.lock:
            rows = [
                (n, record.question.asked, *record.question.state, self._best(record))
                for n, record in enumerate(self.history, 1)
            ]
        names = ("question", "time", *TypedQuestion._fields, "predictions")
        cells = {name: objects([row[index] for row in rows]) for index, name in enumerate(names)}
        texts = dict.fromkeys(("text", "other", "word", "candidates"), "str")
        types = {"question": "int64", "pairs": "bool", "alpha": "float64", "k": "int64"}
        return pd.DataFrame(cells).astype(types | texts)

    def _best(self, record: AskedQuestion) -> dict[str, str | None]:
        return {
            self.labels[index]: reply.get("prediction")
            for index, answer in sorted(record.answers.items())
            if (reply := answer.replies.get(("A", "passage")))
        }

    def frame(self, records: Sequence[AskedQuestion]) -> pd.DataFrame:
        """Return one row per question (from 1), model, side and version; see `Ask.to_frame`."""
        with self.lock:
            rows = self._rows(records)
        first = ("question", "model", "side", "version", "item_id", "text", "word")
        names = (*first, "alpha", "k", *ANSWER_COLUMNS, *_LAST)
        cells = {name: objects([row.get(name) for row in rows]) for name in names}
        texts = (*first[1:], "prediction", "score_type", "error")
        types = {"question": "int64", "seconds": "float64"} | _TYPES | dict.fromkeys(texts, "str")
        return pd.DataFrame(cells).astype(types)

    def _rows(self, records: Sequence[AskedQuestion]) -> list[dict[str, Any]]:
        """Return the replies to questions, one row per question, model, side and version."""
        return [
            {
                "question": number, "model": self.labels[index], "side": side, "version": version,
                "item_id": record.question.versions[side, version].item_id,
                "text": record.question.versions[side, version].text,
                "word": record.question.versions[side, version].answer, "alpha": answer.alpha,
                "k": record.question.state.k if answer.alpha else None, "seconds": answer.seconds, **reply,
            }
            for number, record in enumerate(records, 1)
            for index, answer in sorted(record.answers.items())
            for (side, version), reply in answer.replies.items()
        ]  # fmt: skip

    # -- the threads

    def close(self) -> None:
        """End the threads once their current computation is done. No more events are sent."""
        with self._news:
            self.closed = True
            if self._timer is not None:
                self._timer.cancel()
            _close(self._inboxes)
            self.models = dict.fromkeys(self.models)  # a reference to this holds no model
            self._news.notify_all()

    def _start(self) -> None:
        me = weakref.ref(self)
        for index, (label, model) in enumerate(self.models.items()):
            ask = partial(answers, model, top_k=self.top_k, seed=self.seed, shades=partial(_shades, me))
            work = (me, index, self._inboxes[index], ask)
            thread = threading.Thread(target=_work, args=work, name=f"ask {label}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def _wait_for_quiet(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.settle is not None and self._asked and not self.closed:
            call = (weakref.ref(self), self.current.question.number)
            self._timer = threading.Timer(self.settle, _settled, call)
            self._timer.daemon = True
            self._timer.start()

    def _notify(self, event: str, record: AskedQuestion, index: int = -1) -> None:
        if self._listener is not None and not self.closed:
            self._listener(event, record, index)


def _finite(value: Any) -> Any:
    """Return a value for JSON: infinities as text."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def _shades(asking: weakref.ref[Asking]) -> Shades:
    owner = asking()
    return Shades() if owner is None else owner.shades


def _work(
    asking: weakref.ref[Asking], index: int, inbox: Inbox, ask: Callable[[Question], Iterator[Answer]]
) -> None:
    """Answer the questions of the inbox until its end; holds no reference to the `Asking`."""
    while (record := _newest(inbox)) is not None:
        stored = record.answers.get(index)
        if (stored is not None and stored.final) or not record.question.passages:
            continue
        for answer in ask(record.question):
            owner = asking()
            if owner is None or not owner.take(index, record.question.number, answer):
                break  # the rest is no longer asked for
            del owner
        owner = None
        del record


def _newest(inbox: Inbox) -> AskedQuestion | None:
    entry = inbox.get()
    while not inbox.empty():
        entry = inbox.get()
    return entry


def _settled(asking: weakref.ref[Asking], number: int) -> None:
    if (owner := asking()) is not None:
        owner.keep(number)


def _close(inboxes: Sequence[Inbox]) -> None:
    for inbox in inboxes:
        inbox.put(None)
