"""Items from one's own passages: a table, or a list of texts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from workbench.items import cloze
from workbench.items.items import Items
from workbench.items.schema import COLUMNS, DataError, Item, Span

MARKER = re.compile(r"_{3,}|XXXXX|@placeholder")
"""What marks the blank in a text: three or more underscores, or what CBT and CNN QA write."""


def items_from_frame(
    frame: pd.DataFrame,
    *,
    text: str = "text",
    answer: str | None = "answer",
    candidates: str | None = None,
    item_id: str | None = None,
    word_class: str | None = None,
    book_id: str | None = None,
    dataset: str = "own",
    split: str = "dev",
    variant: str = "own",
    tokenised: bool | None = None,
) -> Items:
    """Make items from a table, one row an item.

    Parameters
    ----------
    frame : DataFrame
        A table; a whole frame of items (with all their columns) is taken as it is.
    text : str
        The column with the texts. One ``___``, ``XXXXX`` or ``@placeholder`` marks the blank;
        without a mark the last word is the answer.
    answer : str or None
        The column with the answers; it may be absent or hold nulls: then a marked blank stays
        empty. Without a mark an answer must be the last word.
    candidates : str, optional
        The column with the choices: sequences of words, or words joined by ``|``.
    item_id, word_class, book_id : str, optional
        Columns with these; ids are ``own/dev/000000`` and so on without one.
    dataset, split, variant : str
        What to call the set.
    tokenised : bool, optional
        Whether words are space-separated tokens; guessed for every text by default.

    Raises
    ------
    DataError
        If a column is missing or a row is not what it should be; the message names the row.
    """
    if not isinstance(frame, pd.DataFrame):
        raise DataError(f"this is a {type(frame).__name__}, expected a pandas DataFrame")
    named = {"candidates": candidates, "item_id": item_id, "word_class": word_class, "book_id": book_id}
    if (
        set(COLUMNS) <= set(frame.columns)
        and not any(named.values())
        and (text, answer) == ("text", "answer")
    ):
        return Items(frame)
    columns = {name: column for name, column in named.items() if column is not None}
    columns["text"] = text
    if answer is not None and (answer != "answer" or answer in frame.columns):
        columns["answer"] = answer
    for column in columns.values():
        if column not in frame.columns:
            raise DataError(
                f"there is no column {column!r}; there is {', '.join(map(str, frame.columns))}",
                remedy="name the column, such as text=",
            )
    cells = {name: frame[column].tolist() for name, column in columns.items()}
    about: dict[str, Any] = {"dataset": dataset, "split": split, "variant": variant}

    def records() -> Iterator[Item]:
        for number, label in enumerate(frame.index):
            row = {name: values[number] for name, values in cells.items()}
            try:
                yield _item(row, number, about, tokenised=tokenised)
            except DataError as error:
                raise DataError(f"row {label}: {error.problem}", remedy=error.remedy) from None

    return Items.from_records(records())


def items_from_text(
    texts: str | Iterable[str],
    *,
    answers: Sequence[str | None] | None = None,
    candidates: Sequence[Sequence[str] | None] | None = None,
    **options: Any,
) -> Items:
    """Make items from texts; see :func:`items_from_frame` for the blank and the other options.

    Parameters
    ----------
    texts : str or iterable of str
        One text, or several.
    answers, candidates : sequence, optional
        One entry a text.
    """
    given: dict[str, Any] = {"text": [texts] if isinstance(texts, str) else list(texts)}
    for name, values in (("answer", answers), ("candidates", candidates)):
        if values is None:
            continue
        given[name] = [values] if isinstance(values, str) else list(values)
        if len(given[name]) != len(given["text"]):
            raise DataError(f"there are {len(given[name])} {name} entries for {len(given['text'])} texts")
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in given.items()})
    if candidates is not None:
        options = {"candidates": "candidates", **options}
    return items_from_frame(frame, **options)


def _item(row: Mapping[str, Any], number: int, about: Mapping[str, Any], *, tokenised: bool | None) -> Item:
    text, answer = row["text"], _text(row, "answer")
    if not isinstance(text, str) or not text.strip():
        raise DataError(f"the text is {text!r}, expected a passage")
    marks = list(MARKER.finditer(text))
    if len(marks) > 1:
        raise DataError(
            f"the text has {len(marks)} blanks ({', '.join(mark[0] for mark in marks)}), expected one",
            remedy="make one item for each",
        )
    known = cloze.looks_tokenised(text) if tokenised is None else tokenised
    if marks:
        start, end = marks[0].span()
        text = text[:start] + (answer or "") + text[end:]
        span = start, start + len(answer or "")
    else:
        span = _last_word(text, answer, tokenised=known)
        answer = text[slice(*span)]
    if not text.strip():
        raise DataError("the text is nothing but a blank")
    choices = _choices(row.get("candidates"))
    for piece in (text, *(choices or ())):
        if not cloze.is_encodable(piece):
            raise DataError("the text holds half a surrogate pair, which no file can hold")
    spans = cloze.sentences(text, span, tokenised=known)
    return Item(
        item_id=_text(row, "item_id") or f"{about['dataset']}/{about['split']}/{number:06d}",
        text=text,
        answer=answer,
        answer_span=span,
        sentences=cloze.up_to_target(spans, span, len(text)),
        candidates=choices,
        word_class=_text(row, "word_class"),
        book_id=_text(row, "book_id"),
        tokenised=known,
        **about,
    )


def _last_word(text: str, answer: str | None, *, tokenised: bool) -> Span:
    whole = cloze.last_word(text, tokenised=True) or (0, 0)
    bare = cloze.last_word(text, tokenised=tokenised) or whole
    for span in (bare, whole):
        if answer is None or text[slice(*span)] == answer:
            return span
    raise DataError(
        f"the text ends with {text[slice(*bare)]!r}, not with the answer {answer!r}",
        remedy="mark the blank with ___, or end the text with the answer",
    )


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if isinstance(value, str):
        if not value.strip():
            raise DataError(f"the {name} is empty", remedy="leave it null where it is not known")
        return value
    if value is None or value is pd.NA or value != value:  # noqa: PLR0124 - NaN is what differs from itself
        return None
    if name == "answer":
        raise DataError(f"the answer is {value!r}, expected a word")
    return str(value)


def _choices(value: Any) -> tuple[str, ...] | None:
    if value is None or value is pd.NA or isinstance(value, float):
        return None
    words = value.split("|") if isinstance(value, str) else value
    if not isinstance(words, Iterable):
        raise DataError(f"the candidates are {value!r}, expected a list of words")
    words = tuple(words)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise DataError(f"the candidates are {value!r}, expected words")
    return words
