"""What a person sees of an item: readable text, without the answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from workbench.items.schema import COLUMNS, Item
from workbench.people.protocols import Condition

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
        What this person has answered last; empty at first.
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
        """Number of context sentences that are shown."""
        return len(self.sentences)


@dataclass(frozen=True)
class Page:
    """Tasks that one person has been given.

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
        When the page is given to somebody else, in seconds since 1970.

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
    """Return the item that `record_of` wrote, unchecked."""
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
    shown, places = replace(item, text=text).readable(spans)
    *context, (left, right), (blank, after) = places
    first = max(0, len(context) - n_sentences)
    return Task(
        item.item_id,
        tuple(shown[a:b] for a, b in context[first:]),
        (shown[left:blank], shown[after:right]),
        item.candidates if candidates else None,
    )
