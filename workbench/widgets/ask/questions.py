"""Questions as they are typed, parsed into items; and files of questions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import SequenceMatcher
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from workbench.items.cells import check_encodable
from workbench.items.items import Items, items_from_text
from workbench.items.schema import Item, Span, content_digest
from workbench.items.text import is_encodable, sentences_around
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_json

VERSIONS = ("passage", "sentence")
"""What a model sees: the whole passage, or the target sentence alone."""

LONGEST = 100_000
"""Characters that a passage may have."""

Key = tuple[str, str]
"""Side (A, or B of a minimal pair) and version."""

FORMAT = "workbench ask history 1"
"""What a file of questions begins with."""

_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")  # noqa: RUF001 - both apostrophes
_HIGHEST = 100  # alpha: so much more overflows nothing
_MANY = 1500  # words between which differences are looked for


class TypedQuestion(NamedTuple):
    """All settings of a question as typed; attributes as of `Ask`."""

    text: str = ""
    other: str = ""
    word: str = ""
    candidates: str = ""
    pairs: bool = False
    alpha: float = 0.0
    k: int = 10

    @property
    def key(self) -> TypedQuestion:
        """Identity of a question; ignores an unused second passage and an unused `k`."""
        key = self if self.pairs else self._replace(other="")
        return key if key.alpha else key._replace(k=_EMPTY.k)


_EMPTY = TypedQuestion()


def boosting_problem(alpha: Any, k: Any) -> str:
    """Return the problem of the boosting settings; empty if they are valid."""
    if isinstance(alpha, bool) or not isinstance(alpha, int | float) or not 0 <= alpha <= _HIGHEST:
        return f"alpha is {alpha!r:.80}, expected a number from 0 to {_HIGHEST}"
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= LONGEST:
        return f"k is {k!r:.80}, expected a number of words from 1 to {LONGEST:,}"
    return ""


@dataclass(frozen=True)
class Question:
    """A parsed question."""

    number: int  # the newer of two has the higher one
    state: TypedQuestion
    asked: datetime
    passages: Mapping[str, Item]  # by side, those that could be read
    problems: Mapping[str, str]  # by side, why the others could not
    versions: Mapping[Key, Item]  # of the passages, to predict
    items: Items  # the different ones of these: a passage of one sentence is asked once

    @cached_property
    def differences(self) -> dict[str, list[Span]]:
        """Differing words of the two passages, by side; empty for one passage."""
        if len(self.passages) < 2:  # noqa: PLR2004 - a pair
            return {side: [] for side in self.passages}
        return dict(zip("AB", differences(self.passages["A"].text, self.passages["B"].text), strict=True))


def typed_question(item: Item) -> TypedQuestion:
    """Return an item in its typed form: the text with ``___``, the target as word, the candidates."""
    start, end = item.answer_span
    text = f"{item.text[:start]}___{item.text[end:]}"
    return TypedQuestion(text, word=item.answer or "", candidates=join_candidates(item.candidates or ()))


def join_candidates(words: Iterable[str]) -> str:
    r"""Return candidates as they are typed: joined by ``|``, which is ``\|`` within a candidate."""
    return "|".join(re.sub(r"([|\\])", r"\\\1", word) for word in words)


def split_candidates(text: str) -> list[str]:
    """Return the candidates of what `join_candidates` or a person wrote."""
    written = re.findall(r"(?:\\[|\\]|[^|])+", text)
    return list(filter(None, (re.sub(r"\\([|\\])", r"\1", word).strip() for word in written)))


def read_question(state: TypedQuestion, *, sources: Mapping[str, Item] | None = None) -> Question:
    """Parse a typed question; errors of a passage are in ``problems``.

    A text that is a key of `sources` has the sentences and tokens of that item.
    """
    texts = {"A": state.text} | ({"B": state.other} if state.pairs else {})
    passages: dict[str, Item] = {}
    problems: dict[str, str] = {}
    for side, text in texts.items():
        if not text.strip():
            continue
        try:
            source = (sources or {}).get(text)
            passages[side] = item_of(text, word=state.word, candidates=state.candidates, source=source)
        except DataError as error:
            problems[side] = str(error).removeprefix("row 0: ")
    versions = {
        (side, version): item if version == "passage" else alone(item)
        for side, item in passages.items()
        for version in VERSIONS
    }
    items = Items.from_records({item.item_id: item for item in versions.values()}.values())
    return Question(0, state, datetime.now().astimezone(), passages, problems, versions, items)


def item_of(text: str, *, word: str = "", candidates: str = "", source: Item | None = None) -> Item:
    """Return a passage as an item; see `TypedQuestion`.

    The target is added to the candidates if it is missing. With a `source`, the item that has
    this text, only word and candidates are read.
    """
    if len(text) > LONGEST:
        raise DataError(
            f"the passage has {len(text):,} characters, expected {LONGEST:,} at most",
            hint="leave the beginning out",
        )
    item = source or items_from_text(text)[0]
    if word.strip() or source is not None:
        item = filled(item, word.strip())
    choices = split_candidates(candidates)
    if source is not None and candidates == typed_question(source).candidates:
        choices = list(source.candidates or ())
    choices += [item.answer] if choices and item.answer is not None else []
    for field, typed in (("the word", word), ("the list of candidates", candidates)):
        check_encodable(typed, field)
    return _with_content_id(replace(item, candidates=tuple(dict.fromkeys(choices)) or None))


def filled(item: Item, word: str) -> Item:
    """Return the item with a word in place of its answer or its empty blank; "" empties it."""
    start, end = item.answer_span
    text = f"{item.text[:start]}{word}{item.text[end:]}"
    first, last = item.sentences[-1]
    longer = len(word) - (end - start)
    return replace(
        item, text=text, answer=word or None, answer_span=(start, start + len(word)),
        sentences=(*item.sentences[:-1], (first, last + longer)),
    )  # fmt: skip


def alone(item: Item) -> Item:
    """Return the target sentence as an item; a passage of one sentence is unchanged.

    Sentences that follow are left out. A question of the Children's Book Test, which has a word class, is one
    numbered line: all of it is the target sentence.
    """
    first, last = item.sentences[-1]
    start, end = item.answer_span
    if item.word_class is None:
        blank = (start - first, end - first)
        spans = sentences_around(item.text[first:last], blank, tokenised=item.tokenised)
        last = first + next((stop for _, stop in spans if stop >= max(blank[1], 1)), last - first)
    text = item.text[first:last]
    return _with_content_id(
        replace(item, text=text, answer_span=(start - first, end - first), sentences=((0, len(text)),))
    )


def differences(text_a: str, text_b: str) -> tuple[list[Span], list[Span]]:
    """Return the words that differ between two texts, as spans of neighbouring words in each.

    The words are compared in order (:class:`difflib.SequenceMatcher`); in texts of very many
    words all between the first and the last difference counts as different.
    """
    matches = [list(_WORD.finditer(text)) for text in (text_a, text_b)]
    a, b = ([match.group() for match in words] for words in matches)
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    tail = next((i for i in range(shorter - head) if a[-1 - i] != b[-1 - i]), shorter - head)
    inner = [words[head : len(words) - tail] for words in (a, b)]
    if max(map(len, inner)) > _MANY:
        operations = [("replace", 0, len(inner[0]), 0, len(inner[1]))]
    else:
        operations = list(SequenceMatcher(None, inner[0], inner[1], autojunk=False).get_opcodes())
    spans: tuple[list[Span], list[Span]] = ([], [])
    for tag, a0, a1, b0, b1 in operations:
        for which, first, last in ((0, a0, a1), (1, b0, b1)):
            if tag != "equal" and first < last:
                changed = matches[which][head + first : head + last]
                spans[which].append((changed[0].start(), changed[-1].end()))
    return spans


def _with_content_id(item: Item) -> Item:
    """Set the id of an item to a digest of its content."""
    content: Sequence[Any] = (item.text, item.answer_span, item.sentences, item.candidates, item.tokenised)
    return replace(item, item_id=f"{item.dataset}/{item.split}/{content_digest(*content)}")


def read_history(path: Path | str) -> list[Question]:
    """Return the questions of a file that `Asking.save` wrote; its other content is ignored."""
    name, hint = "this history of questions", "save it again with save_history"
    data = read_json(path, name)
    with reading(path, name, hint=hint):
        entries = [_parse_entry(entry) for entry in data["questions"]]
    questions = []
    for number, (state, asked) in enumerate(entries, 1):
        question = read_question(state)
        if question.problems or not question.passages:
            problem = "; ".join(question.problems.values()) or "there is no passage"
            raise DataError(f"question {number} cannot be asked: {problem}", file=path, hint=hint)
        questions.append(replace(question, asked=asked))
    return questions


def _parse_entry(entry: Mapping[str, Any]) -> tuple[TypedQuestion, datetime]:
    """Return a question of a file and its time; TypeError or ValueError if it is not valid."""
    state = TypedQuestion(**{name: entry[name] for name in TypedQuestion._fields})
    for name, value in state._asdict().items():
        if type(value) is not type(getattr(_EMPTY, name)):
            raise TypeError(f"{name} is {value!r:.80}")
        if isinstance(value, str) and not is_encodable(value):
            raise ValueError(f"{name} holds half a surrogate pair")
    if problem := boosting_problem(state.alpha, state.k):
        raise ValueError(problem)
    return state, datetime.fromisoformat(entry["time"]).astimezone()
