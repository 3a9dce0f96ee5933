"""A question to several models: a passage as typed, read as items, whole and its last sentence alone."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.items.items import Items, items_from_text
from workbench.items.schema import DataError, Item, Span
from workbench.items.text import is_encodable

VERSIONS = ("passage", "sentence")
"""What a model gets: the whole passage, or the target sentence alone."""

LONGEST = 100_000
"""Characters that a passage may have."""

COLUMNS = (
    "prediction", "correct", "rank", "n_tied", "rank_is_bound", "n_choices", "known", "log_prob",
    "score_type", "vocabulary_size", "top_words", "top_log_probs", "candidate_scores",
)  # fmt: skip
"""What is kept of a row of predictions."""

Key = tuple[str, str]
"""Side (A, or B of a minimal pair) and version."""

_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")  # noqa: RUF001 - both apostrophes
_MANY = 1500  # words between which differences are looked for


class TypedQuestion(NamedTuple):
    """What a question depends on, as the reader typed it.

    Attributes
    ----------
    text, other : str
        The passage, and the second one of a minimal pair.
    word : str
        The word that rank and probability are of; empty: the last one, where no blank is marked.
    candidates : str
        Words to choose from, joined by ``|``; empty: none.
    pairs : bool
        Whether `other` is asked too.
    """

    text: str = ""
    other: str = ""
    word: str = ""
    candidates: str = ""
    pairs: bool = False

    @property
    def key(self) -> TypedQuestion:
        """What tells questions apart: a second passage that is not asked does not count."""
        return self if self.pairs else self._replace(other="")


@dataclass(frozen=True)
class Question:
    """A question, read.

    Attributes
    ----------
    number : int
        Of two questions, the one with the higher number is newer.
    passages, problems : mapping of side to Item, to str
        The passages that could be read, and why the others could not.
    versions : mapping of Key to Item
        What is asked.
    items : Items
        The different ones of these; a passage of one sentence is asked once.
    """

    number: int
    state: TypedQuestion
    asked: datetime
    passages: Mapping[str, Item]
    problems: Mapping[str, str]
    versions: Mapping[Key, Item]
    items: Items

    @cached_property
    def differences(self) -> dict[str, list[Span]]:
        """Where the two passages differ, word by word, by side; empty for one passage."""
        if len(self.passages) < 2:  # noqa: PLR2004 - a pair
            return {side: [] for side in self.passages}
        return dict(zip("AB", differences(self.passages["A"].text, self.passages["B"].text), strict=True))


def read_question(state: TypedQuestion, number: int = 0) -> Question:
    """Read what was typed; what is wrong with a passage stands in ``problems``."""
    texts = {"A": state.text} | ({"B": state.other} if state.pairs else {})
    passages: dict[str, Item] = {}
    problems: dict[str, str] = {}
    for side, text in texts.items():
        if not text.strip():
            continue
        try:
            passages[side] = item_of(text, word=state.word, candidates=state.candidates)
        except DataError as error:
            problems[side] = str(error).removeprefix("row 0: ")
    versions = {
        (side, version): item if version == "passage" else alone(item)
        for side, item in passages.items()
        for version in VERSIONS
    }
    items = Items.from_records({item.item_id: item for item in versions.values()}.values())
    return Question(number, state, datetime.now().astimezone(), passages, problems, versions, items)


def item_of(text: str, *, word: str = "", candidates: str = "") -> Item:
    """Return a passage as an item; see `TypedQuestion`.

    The target counts as one more candidate where it is none of them.

    Raises
    ------
    DataError
        As :func:`workbench.items.items.items_from_text`; or if the passage is longer than `LONGEST`
        characters.
    """
    if len(text) > LONGEST:
        raise DataError(
            f"the passage has {len(text):,} characters, expected {LONGEST:,} at most",
            remedy="leave the beginning out",
        )
    item = items_from_text(text)[0]
    if word.strip():
        item = filled(item, word.strip())
    choices = [choice.strip() for choice in candidates.split("|")] if candidates.strip() else []
    choices += [item.answer] if choices and item.answer is not None else []
    if not is_encodable(f"{word}{candidates}"):
        raise DataError("the word or a candidate holds half a surrogate pair, which no file can hold")
    return _named(replace(item, candidates=tuple(dict.fromkeys(filter(None, choices))) or None))


def filled(item: Item, word: str) -> Item:
    """Return the item with another word in the place of its answer, or in its empty blank."""
    start, end = item.answer_span
    text = f"{item.text[:start]}{word}{item.text[end:]}"
    first, last = item.sentences[-1]
    longer = len(word) - (end - start)
    return replace(
        item, text=text, answer=word, answer_span=(start, start + len(word)),
        sentences=(*item.sentences[:-1], (first, last + longer)),
    )  # fmt: skip


def alone(item: Item) -> Item:
    """Return the target sentence as an item by itself; a passage of one sentence is the same item."""
    first, last = item.sentences[-1]
    start, end = item.answer_span
    text = item.text[first:last]
    return _named(
        replace(item, text=text, answer_span=(start - first, end - first), sentences=((0, len(text)),))
    )


def differences(one: str, other: str) -> tuple[list[Span], list[Span]]:
    """Return the words that two texts do not share, as spans of neighbouring words in each.

    The words are compared in order (:class:`difflib.SequenceMatcher`); in texts of very many
    words all between the first and the last difference counts as different.
    """
    places = [[match.span() for match in _WORD.finditer(text)] for text in (one, other)]
    a, b = ([text[slice(*span)] for span in spans] for text, spans in zip((one, other), places, strict=True))
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    tail = next((i for i in range(shorter - head) if a[-1 - i] != b[-1 - i]), shorter - head)
    inner = [words[head : len(words) - tail] for words in (a, b)]
    if max(map(len, inner)) > _MANY:
        operations = [("replace", 0, len(inner[0]), 0, len(inner[1]))]
    else:
        operations = list(SequenceMatcher(None, inner[0], inner[1], autojunk=False).get_opcodes())
    spans: tuple[list[Span], list[Span]] = ([], [])
    for kind, a0, a1, b0, b1 in operations:
        for which, first, last in ((0, a0, a1), (1, b0, b1)):
            if kind != "equal" and first < last:
                here = places[which][head + first : head + last]
                spans[which].append((here[0][0], here[-1][1]))
    return spans


class Answer(NamedTuple):
    """What one model says to a question, after so many seconds: `COLUMNS` or ``{"error": str}`` by `Key`."""

    seconds: float
    replies: Mapping[Key, Mapping[str, Any]]

    @property
    def complete(self) -> bool:
        """Whether nothing went wrong."""
        return not any("error" in reply for reply in self.replies.values())


def answers(model: Any, question: Question, *, top_k: int, seed: int) -> dict[Key, dict[str, Any]]:
    """Ask a model; where that fails, once more for each version, so that one may fail alone."""
    items = question.items
    try:
        replies = _rows(model, items, top_k, seed)
    except BaseException as error:  # noqa: BLE001 - whatever a model does, the others go on
        replies = {item.item_id: {"error": error_text(error)} for item in items}
        if len(items) > 1:
            for place, item_id in enumerate(list(replies)):
                try:
                    replies |= _rows(model, items[place : place + 1], top_k, seed)
                except BaseException as alone_error:  # noqa: BLE001
                    replies[item_id] = {"error": error_text(alone_error)}
    none = {"error": "the model gave no answer"}
    return {key: replies.get(item.item_id, none) for key, item in question.versions.items()}


def error_text(error: BaseException) -> str:
    """Say what went wrong: the words of our own errors, of others their kind too."""
    if isinstance(error, DataError):
        return str(error)
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _rows(model: Any, items: Items, top_k: int, seed: int) -> dict[str, dict[str, Any]]:
    frame = model.predict(items, top_k, seed=seed)
    rows = frame.reindex(columns=["item_id", *COLUMNS]).to_dict("records")
    return {row.pop("item_id"): {name: _plain(value) for name, value in row.items()} for row in rows}


def _plain(value: Any) -> Any:
    """Return a cell as Python has it, None for what is missing; infinities are kept."""
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN is what differs from itself
        return None
    return value.item() if isinstance(value, np.generic) else value


def _named(item: Item) -> Item:
    """Give an item an id that depends on what is asked and nothing else."""
    parts: Sequence[Any] = (item.text, item.answer_span, item.sentences, item.candidates, item.tokenised)
    key = hashlib.blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return replace(item, item_id=f"{item.dataset}/{item.split}/{key}")
