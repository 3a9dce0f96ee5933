"""What a person sees of an item, and the check of what they type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.items.items import Items, check_items
from workbench.items.schema import Item
from workbench.items.text import is_encodable
from workbench.people.protocols import Condition, Protocol, ProtocolStep
from workbench.predictions.schema import plain_word
from workbench.storage.errors import DataError

LONGEST_GUESS = 200
"""Most characters of a guess, and of a person's name."""

_PLACEHOLDER = "word"  # stands for the answer while the text is laid out, so that nothing depends on it


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


def task_of(item: Item, n_sentences: int, *, candidates: bool) -> Task:
    """Return a task that shows the last `n_sentences` sentences of an item's context.

    Parameters
    ----------
    item : Item
    n_sentences : int
        All of them, if it exceeds their number.
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


def n_shown_at_first(item: Item, condition: Condition) -> int:
    """Return the number of context sentences that a condition shows before any guess."""
    return len(item.context) if condition == "passage" else 0


def check_guesses(guesses: Any, step: ProtocolStep, item: Item, *, candidates: bool) -> list[str]:
    """Return guesses without surrounding white space.

    DataError if there is none, there are too many or too long ones, or one is not a candidate. An empty guess
    says that the person gives up.
    """
    words = [guesses] if isinstance(guesses, str) else guesses
    if not isinstance(words, Sequence) or not all(
        isinstance(word, str) and is_encodable(word) and "\0" not in word for word in words
    ):
        raise DataError("expected guesses that are text")
    words = [" ".join(word.split()) for word in words]
    if not 1 <= len(words) <= step.guesses:
        expected = "1 guess" if step.guesses == 1 else f"1 to {step.guesses} guesses"
        raise DataError(f"expected {expected}, got {len(words)}")
    if long := [word for word in words if len(word) > LONGEST_GUESS]:
        raise DataError(f"a guess has {len(long[0]):,} characters, at most {LONGEST_GUESS} are taken")
    allowed = {plain_word(word) for word in item.candidates or ()} | {""}
    if candidates and (strange := [word for word in words if plain_word(word) not in allowed]):
        raise DataError(f"{strange[0]!r} is not one of the candidates")
    return words


def is_person(name: Any) -> bool:
    """Return whether a name is valid for a person."""
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_GUESS or "\0" in name:
        return False
    return name == " ".join(name.split()) and is_encodable(name)


def check_person(name: Any) -> str:
    """Return a person's name without surrounding white space; DataError if it is not valid."""
    person = " ".join(name.split()) if isinstance(name, str) else ""
    if not is_person(person):
        raise DataError(
            f"expected a name of 1 to {LONGEST_GUESS} characters, none of them NUL or half a surrogate pair, "
            f"got {name!r:.60}",
            hint="choose another name",
        )
    return person


def check_questions(items: Any, protocol: Protocol, caller: str) -> None:
    """Raise DataError unless there are items, with all that the protocol needs; `caller` takes them."""
    check_items(items, caller)
    assert isinstance(items, Items)  # noqa: S101 - for the type checker
    needed = ["answer", *(["candidates"] if protocol.candidates else [])]
    lacking = items.frame["item_id"][items.frame[needed].isna().any(axis=1)]
    if len(lacking) or not len(items):
        raise DataError(
            f"{caller} expected an item or more, each with {' and '.join(needed)}, got {len(items):,} items, "
            f"of which {len(lacking):,} have none: {', '.join(lacking[:1])}",
            hint=f"leave them out with items.where; the protocol {protocol.name} needs them",
        )
