"""A row of a user's table as a question: the place of its blank, its answer, and the words to choose from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pandas as pd

from workbench.items import text as wt
from workbench.items.cells import cell_choices, check_encodable, is_missing, shown, text_cell
from workbench.items.schema import Span, objects, unanswered
from workbench.storage.errors import DataError

MARKER = re.compile(r"_(?<![A-Za-z_]_)__+|XXXXX|@placeholder")  # a search for letters is quick
"""Marks of the blank: three or more underscores (not ``Mr. W____``), or those of CBT and CNN QA."""
_SCENE_RULE = re.compile(r"[\s_*~=-]*")

TEXTS, ANSWERS = ("text", "passage", "sentence", "question"), ("answer", "target", "word")
LABELS = ("ans", "label", "gold")
"""Columns of texts and of answers, in lower case; those of `LABELS` are answers beside candidates only."""
CONTEXTS, CONTINUATIONS = ("context", "prompt"), ("continuation", "completion")
"""Columns, in lower case, of a text and of the word that continues it."""

CANDIDATES = ("options", "candidates", "choices")
"""Columns, in lower case, that list the words to choose from."""
_LETTERS = "abcdefghij"
_CHOICES = {"{}": 3, "option_{}": 2, "{})": 2}
"""Names of the columns of choices, and how many at least tell them: `a` and `b` may be something else."""
_LABEL = re.compile(r"\s*\(?(?:(?P<letter>[A-Za-z])|(?P<number>\d{1,2})(?:\.0)?)[).:]?\s*")
_SENTENCE = re.compile(r"""\S.*\s\S.*[.!?]["'”’)]*\s*""", re.DOTALL)  # noqa: RUF001 - typographic quotes


class Sides(NamedTuple):
    """A text whose blank has a known place: what is before and after it."""

    before: str
    after: str = ""


class TableForm(NamedTuple):
    """How a table names its answers, by all of its rows.

    ``labels`` is whether letters or numbers name candidates, ``first`` the number of the first candidate;
    ``at_end`` is whether a row that has a mark, and its answer at the end, means the one at the end.
    """

    labels: bool
    first: int
    at_end: bool


def choice_columns(frame: pd.DataFrame, sentences: Iterable[Any]) -> list[Any]:
    """Return the columns with a choice each, such as ``a)`` to ``e)``; none unless a sentence has a blank."""
    columns = {str(name).lower(): name for name in reversed(list(frame))}
    if not columns.keys().isdisjoint(CANDIDATES) or not any(
        isinstance(cell, str) and MARKER.search(cell) for cell in sentences
    ):
        return []
    for form, least in _CHOICES.items():
        names = [columns[name] for letter in _LETTERS if (name := form.format(letter)) in columns]
        if len(names) >= least and all(_holds_text(frame[name]) for name in names[:least]):
            return names
    return []


def _holds_text(column: pd.Series[Any]) -> bool:
    return any(isinstance(cell, str) for cell in column.tolist())


def with_choices(frame: pd.DataFrame, columns: Sequence[Any]) -> pd.DataFrame:
    """Return a table with a column ``candidates`` in place of `columns` with a choice each."""
    choices = list(zip(*(frame[name].tolist() for name in columns), strict=True))
    return frame.drop(columns=list(columns)).assign(candidates=objects(choices).to_numpy())


def with_continuations(frame: pd.DataFrame, text: Any, answer: Any) -> tuple[pd.DataFrame, Any, Any]:
    """Return a table whose contexts know the place of their continuations, and its columns of both.

    All stays as it is without such columns, or where `text` or `answer` name others.
    """
    columns = {str(name).lower(): name for name in reversed(list(frame))}
    before, after = (
        next((columns[name] for name in names if name in columns), None)
        for names in (CONTEXTS, CONTINUATIONS)
    )
    is_text = text == before or (text == "text" and text not in frame)
    if before is None or after is None or not is_text or answer not in {None, "answer", after}:
        return frame, text, answer
    rows = list(map(continued, frame[before].tolist(), frame[after].tolist()))
    texts, answers = (objects([row[index] for row in rows]).to_numpy() for index in (0, 1))
    return (
        frame.assign(**{str(before): texts, str(after): answers}),
        before,
        None if answer is None else after,
    )


def continued(context: Any, continuation: Any) -> tuple[Any, str | None]:
    """Return a context with the place of its last word, and this word without the marks around it.

    A space is put between the two unless one of them has it. Cells that are no text stay as they are.
    """
    if not isinstance(context, str):
        return context, None
    if not isinstance(continuation, str) or not continuation.strip():
        return Sides(context if context[-1:].isspace() else f"{context} "), None
    space = "" if context[-1:].isspace() or continuation[0].isspace() else " "
    text = f"{context}{space}{continuation}".rstrip()
    word = len(text) - len(continuation.strip()), len(text)
    start, end = wt.without_marks(text, *word) or word
    return Sides(text[:start], text[end:]), text[start:end]


def table_form(frame: pd.DataFrame, columns: Mapping[str, Any]) -> TableForm:
    """Return how a table names its answers; `columns` are those of its texts, answers and candidates.

    Raise DataError where answers are numbers that may count from 0 as well as from 1.
    """
    answers, choices, texts = (
        frame[columns[role]].tolist() if role in columns else [] for role in ("answer", "candidates", "text")
    )
    n_labels, n_words, numbers, last = 0, 0, [], False
    for answer, cell in zip(answers, choices, strict=False):
        label = None if is_missing(answer) else _LABEL.fullmatch(str(answer))
        if label is None:
            n_words += not is_missing(answer)
            continue
        words: Sequence[str] = ()
        with suppress(DataError):  # which the row will raise
            words = cell_choices(cell) or ()
        if words and _text_of(answer) not in words:
            n_labels += 1
            numbers += [int(label["number"])] if label["number"] else []
            last |= bool(label["number"]) and numbers[-1] == len(words)
    labels = n_labels > n_words
    if labels and numbers and 0 not in numbers and not last:
        problem = f"the answers are numbers from {min(numbers)} to {max(numbers)}, counted from 0 or from 1"
        raise DataError(problem, hint="write the letter (a for the first candidate), or the word")
    ends = 0
    for text, answer in zip(texts, answers, strict=False):
        if isinstance(text, str) and isinstance(answer, str) and (marks := marks_of(text)):
            ends += 1 if _is_at_end(text, answer, marks, tokenised=None) else -1
    return TableForm(labels, 0 if 0 in numbers else 1, ends > 0)


def _answer(cell: Any, words: tuple[str, ...] | None, form: TableForm, row: Mapping[str, Any]) -> str | None:
    """Return the answer of a row; a letter or a number names one of its candidates."""
    is_number = words is not None and isinstance(cell, int | float) and not is_missing(cell)
    answer = _text_of(cell) if is_number else text_cell(row, "answer")
    if words is None or answer is None:
        return answer
    label = _LABEL.fullmatch(answer) if form.labels else None
    index = -1
    if label:
        index = (
            _LETTERS.find(label["letter"].lower()) if label["letter"] else int(label["number"]) - form.first
        )
    named = words[index] if 0 <= index < len(words) else None
    if answer in words and named not in {None, answer}:
        problem = f"the answer {shown(answer)} is a choice and the letter of another"
        raise DataError(problem, hint="write the word")
    if answer not in words and named is None:
        problem = f"the answer {shown(answer)} is not among the candidates {[*words]}, nor the letter of one"
        raise DataError(problem)
    return named or answer


def _text_of(cell: Any) -> str:
    """Return an answer as text; a column of whole numbers with a gap holds 2.0."""
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def marks_of(text: str) -> list[re.Match[str]]:
    """Return the marks of a blank; a line of underscores with text after it is a rule between scenes."""
    return [mark for mark in MARKER.finditer(text) if not _is_scene_rule(text, mark)]


def _is_scene_rule(text: str, mark: re.Match[str]) -> bool:
    start, end = text.rfind("\n", 0, mark.start()) + 1, text.find("\n", mark.end())
    return end >= 0 and bool(_SCENE_RULE.fullmatch(text, start, end)) and bool(text[end:].strip())


def built(row: Mapping[str, Any], *, form: TableForm, tokenised: bool | None) -> tuple[Any, ...]:
    """Return the id in a row, and the columns of an item from the text to the book, or raise DataError."""
    cell, choices = row["text"], cell_choices(row.get("candidates"))
    answer = _answer(row.get("answer"), choices, form, row)
    if not isinstance(cell, str | Sides) or not "".join(cell).strip():
        raise DataError(f"the text is {shown(cell)}, expected a passage")
    is_tokenised = wt.looks_tokenised("".join(cell)) if tokenised is None else tokenised
    if isinstance(cell, Sides):
        sides = cell
    else:
        sides, answer = _sides_and_answer(cell, answer, form, tokenised=is_tokenised)
    text = sides.before + (answer or "") + sides.after
    span = len(sides.before), len(sides.before) + len(answer or "")
    if not text.strip():
        raise DataError("the text is nothing but a blank")
    for label, pieces in (("the text", (text,)), ("a candidate", choices or ())):
        for piece in pieces:
            check_encodable(piece, label)
    if choices and _are_sentences(choices, text[: span[0]].strip(), text[span[1] :].strip()):
        problem = f"the candidates are whole sentences, {shown(choices[0])} the first, expected words"
        raise DataError(problem, hint="leave only the words that fill the blank")
    if fault := unanswered(text[slice(*span)], answer, choices):
        raise DataError(fault)
    spans = wt.sentences_around(text, span, tokenised=is_tokenised)
    item_id, word_class, book_id = (text_cell(row, name) for name in ("item_id", "word_class", "book_id"))
    sentences = wt.up_to_target(spans, span, len(text))
    return item_id, text, answer, span, sentences, choices, word_class, is_tokenised, book_id


def _sides_and_answer(
    text: str, answer: str | None, form: TableForm, *, tokenised: bool
) -> tuple[Sides, str | None]:
    """Return what is around the mark of a blank, else around the answer at the end, and the answer."""
    marks = marks_of(text)
    if not marks or (form.at_end and answer and _is_at_end(text, answer, marks, tokenised=tokenised)):
        start, end = _last_word(text, answer, tokenised=tokenised)
        return Sides(text[:start], text[end:]), text[start:end]
    if len(marks) > 1:
        problem = f"the text has {len(marks)} blanks ({', '.join(mark[0] for mark in marks)}), expected one"
        raise DataError(problem, hint="make one item for each")
    return Sides(text[: marks[0].start()], text[marks[0].end() :]), answer


def _is_at_end(text: str, answer: str, marks: Sequence[re.Match[str]], *, tokenised: bool | None) -> bool:
    """Return whether an answer is the last word, after all marks of a blank."""
    if answer not in text[marks[-1].end() :]:  # most are not, and this is quick
        return False
    is_tokenised = wt.looks_tokenised(text) if tokenised is None else tokenised
    return end_span(text, answer, tokenised=is_tokenised) is not None


def _are_sentences(choices: Sequence[str], left: str, right: str) -> bool:
    """Return whether all candidates are sentences: they end as one, or repeat the text around the blank."""
    if all(map(_SENTENCE.fullmatch, choices)):
        return True
    is_repeated = all(choice.startswith(left) and choice.endswith(right) for choice in choices)
    return is_repeated and len(f"{left} {right}".split()) > 1


def end_span(text: str, answer: str | None, *, tokenised: bool) -> Span | None:
    """Return the span of the last word if it is the answer, or if the answer is not known."""
    word, with_marks = wt.final_word(text, tokenised=tokenised), wt.last_word(text, tokenised=True)
    bare = wt.last_word(text, tokenised=tokenised)
    for span in (word, bare, with_marks):
        if span and (text[slice(*span)] == answer or (answer is None and span == word)):
            return span
    return None


def _last_word(text: str, answer: str | None, *, tokenised: bool) -> Span:
    """Return the span of the answer at the end of a text without a mark, or raise DataError."""
    span = end_span(text, answer, tokenised=tokenised)
    if span is None:
        word = wt.final_word(text, tokenised=tokenised)
        if word is None:
            raise DataError(f"the text {shown(text)} has no word", hint="mark the blank with ___")
        problem = f"the text ends with {shown(text[slice(*word)])}, not with the answer {shown(answer)}"
        raise DataError(problem, hint="mark the blank with ___, or end the text with the answer")
    if answer is None and not tokenised and wt.holds_unspaced(text[slice(*span)]):
        raise DataError(
            f"the last word of {shown(text)} is not known: its script has no spaces between words",
            hint="mark the blank with ___, or pass tokenised=True where words are between spaces",
        )
    return span
