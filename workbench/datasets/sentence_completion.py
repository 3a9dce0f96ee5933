"""The Microsoft Research Sentence Completion Challenge: one word of one Sherlock Holmes sentence.

Zweig and Burges (2011), "The Microsoft Research Sentence Completion Challenge", MSR-TR-2011-129.
The official files have five lines a question, ``12c) ... [word] ...``; a CSV table with the same
questions goes round too. Both give the same items.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from typing import NamedTuple, TypeVar

from workbench.datasets import sources
from workbench.datasets.question_tables import TABLES, check_no_books, in_file, read_shards
from workbench.items.cells import column_named
from workbench.items.items import items_from_frame
from workbench.items.language import folder_of, in_language, language_in_path
from workbench.items.questions import ANSWERS, LABELS, choice_columns
from workbench.items.schema import Item
from workbench.storage.errors import DataError

LETTERS = "abcde"
_LINE = re.compile(r"([0-9]{1,6})([a-e])\) (.*)", re.DOTALL)
_WORD = re.compile(r"\[([^\[\]]+)\]")
_SENTENCES = ("question", "sentence", "text")
_COLUMNS = f"question (with ___), {', '.join(f'{letter})' for letter in LETTERS)} and answer"
_HINT = 'correct it, or leave it out with on_error="skip"'


T = TypeVar("T")


class Completion(NamedTuple):
    """A sentence around its blank, and the words to choose from."""

    left: str
    right: str
    words: tuple[str, ...]


def _parse(file: sources.File, _split: str, variant: str) -> Iterator[Item | DataError]:
    """Yield the items of a file of questions; their ids have the question's own number: ``msrcc/test/0012``.

    Answers lie beside the questions; a table may have them too. Without them, answers are null and blanks
    empty.
    """
    if file.path.suffix.lower() in TABLES:
        yield from _table(file, variant)
        return
    variant = in_language(variant, language_in_path(file.path))
    questions, problems = _sort_out(_official(file), file)
    yield from problems
    answers: dict[int, str] | None = None
    if file.companion is None:
        yield _unanswered(file)
    else:
        answers, problems = _sort_out(_answers(file.companion, questions), file.companion)
        yield from problems
    yield from _items(questions, answers, file.companion, variant)


def _unanswered(file: sources.File) -> DataError:
    problem = f"the answers file {_answer_names(file)[0]} is missing beside it"
    return DataError(problem, file=file.label, hint="put it there")


def _answer_names(file: sources.File) -> tuple[str, ...]:
    """Return the names an answers file may have: the questions' name with its other word, else any."""
    name, any_name = (
        file.name,
        "test_answer*.csv" if file.path.suffix.lower() in TABLES else "*machine_format.answers*.txt",
    )
    for word, other in (("questions", "answers"), ("testing_data", "test_answer")):
        if word in name.lower():
            return re.sub(word, other, glob.escape(name), flags=re.IGNORECASE), any_name
    return (any_name,)


def _sort_out(
    records: Iterator[tuple[int, int, T] | DataError], file: sources.File
) -> tuple[dict[int, T], list[DataError]]:
    """Split records (line, number, value) into values by number and errors."""
    good: dict[int, T] = {}
    problems: list[DataError] = []
    for record in records:
        if isinstance(record, DataError):
            problems.append(record)
        elif record[1] in good:
            problems.append(_wrong(f"the number {record[1]} occurs twice", file, record[0]))
        else:
            good[record[1]] = record[2]
    return good, problems


def _wrong(problem: str, file: sources.File, line: int) -> DataError:
    return DataError(problem, file=file.label, line=line, hint=_HINT)


def _lines(file: sources.File) -> Iterator[tuple[int, int, tuple[str, Completion]] | DataError]:
    """Read lines ``12c) ... [word] ...``: the letter, and the sentence with its one word."""
    for line, content in enumerate(file.lines(), 1):
        match = _LINE.fullmatch(content)
        words = _WORD.findall(match[3]) if match else []
        if match and len(words) == 1:
            before, after = match[3].split(f"[{words[0]}]")
            yield line, int(match[1]), (match[2], Completion(before, after, (words[0],)))
        elif content.strip():
            yield _wrong(f"found {content[:40]!r}, expected '12c) ... [word] ...' with one word", file, line)


def _official(file: sources.File) -> Iterator[tuple[int, int, Completion] | DataError]:
    choices: dict[int, list[tuple[int, str, Completion]]] = {}
    for record in _lines(file):
        if isinstance(record, DataError):
            yield record
        else:
            choices.setdefault(record[1], []).append((record[0], *record[2]))
    for number, rows in choices.items():
        line, _, first = rows[0]
        letters = "".join(letter for _, letter, _ in rows)
        if letters != LETTERS:
            yield _wrong(f"question {number} has lines {' '.join(letters)}, expected a b c d e", file, line)
        elif len({(row.left, row.right) for _, _, row in rows}) > 1:
            problem = f"the lines of question {number} differ in more than the word in brackets"
            yield _wrong(problem, file, line)
        else:
            yield line, number, Completion(first.left, first.right, tuple(row.words[0] for _, _, row in rows))


def _answers(
    file: sources.File, questions: dict[int, Completion]
) -> Iterator[tuple[int, int, str] | DataError]:
    for record in _lines(file):
        if isinstance(record, DataError):
            yield record
            continue
        line, number, (letter, answer) = record
        word, asked = answer.words[0], questions.get(number)
        if asked and word != (there := asked.words[LETTERS.index(letter)]):
            yield _wrong(f"the answer {number}{letter}) is {word!r}, the question has {there!r}", file, line)
        else:
            yield line, number, letter


def _table(file: sources.File, variant: str) -> Iterator[Item | DataError]:
    """Yield the items of a table: its answers are letters, numbers or the words, those beside it letters."""
    frame, _, problems, _ = read_shards([(shard.data, shard.path) for shard in file.shards])
    yield from problems
    check_no_books(frame, file.path, "whole books, not questions")
    text, answer = (column_named(frame, names) for names in (_SENTENCES, (*ANSWERS, *LABELS)))
    number = column_named(frame, ["id"])
    is_beside = answer is None and file.companion is not None
    if text is None or not choice_columns(frame, frame[text]) or (is_beside and number is None):
        problem = f"expected the columns {_COLUMNS}, got {', '.join(map(str, frame))}"
        hint = f'read a table of your own with wb.load("{file.label}")'
        yield DataError(problem, file=file.label, hint=hint)
        return
    if is_beside and file.companion:
        letters, problems = _letters(file.companion)
        yield from problems
        answers = frame[number].astype(str).map(letters)
        for each in frame.loc[answers.isna(), number]:
            yield _lacks_answer(each, file.companion)
        frame, answer = frame.assign(answer=answers)[answers.notna()], "answer"
    variant = in_language(variant, language_in_path(file.path))
    frame = frame.assign(row=range(len(frame)))
    try:
        items = items_from_frame(frame, text=text, answer=answer, variant=variant, on_error="skip")
    except DataError as error:
        raise in_file(error, file.label) from None
    yield from (in_file(each, file.label) for each in items.problems)
    for item in items:
        position = int(item.item_id) if re.fullmatch(r"[0-9]{1,6}", item.item_id) else item.meta["row"]
        start, end = item.answer_span
        question = Completion(item.text[:start], item.text[end:], item.candidates or ())
        yield _item(position, question, item.answer, item.variant)
    if answer is None:
        yield _unanswered(file)


def _letters(file: sources.File) -> tuple[dict[str, str], list[DataError]]:
    """Return the letters of a table of answers by the number of the question, and the errors of its rows."""
    try:
        frame, lines, problems, _ = read_shards([(shard.data, shard.path) for shard in file.shards])
    except DataError as error:
        return {}, [error]
    number, answer = (column_named(frame, names) for names in (["id"], (*ANSWERS, *LABELS)))
    if number is None or answer is None:
        problem = f"the columns are {', '.join(map(str, frame))[:80]}, expected id, answer"
        return {}, [_wrong(problem, file, 1)]
    letters: dict[str, str] = {}
    for line, name, cell in zip(lines, frame[number].astype(str), frame[answer], strict=True):
        letter = str(cell).strip().lower()
        if letter not in tuple(LETTERS):
            problems.append(_wrong(f"the answer is {letter!r}, expected one of a b c d e", file, line))
        elif name in letters:
            problems.append(_wrong(f"the number {name} occurs twice", file, line))
        else:
            letters[name] = letter
    return letters, problems


def _lacks_answer(number: object, beside: sources.File | None) -> DataError:
    label = beside.label if beside else None
    return DataError(f"there is no answer to question {number}", file=label, hint=_HINT)


def _items(
    questions: dict[int, Completion],
    answers: dict[int, str] | None,
    beside: sources.File | None,
    variant: str,
) -> Iterator[Item | DataError]:
    for number, question in questions.items():
        answer = None
        if answers is not None:
            if number not in answers:
                yield _lacks_answer(number, beside)
                continue
            answer = question.words[LETTERS.index(answers[number])]
        yield _item(number, question, answer, variant)


def _item(number: int, question: Completion, answer: str | None, variant: str) -> Item:
    text = f"{question.left}{answer or ''}{question.right}"
    start = len(question.left)
    return Item(
        item_id=f"msrcc/{folder_of('test', variant)}/{number:04d}",
        dataset="msrcc",
        split="test",
        variant=variant,
        text=text,
        answer=answer,
        answer_span=(start, start + len(answer or "")),
        sentences=((0, len(text)),),
        candidates=question.words,
        # commas stand alone, but "him." and "don't" do not: words have to be cut from running text
        tokenised=False,
    )


RELEASE = sources.Release(
    name="msrcc",
    files={
        ("test", "plain"): (
            "Holmes.machine_format.questions.txt",
            "Holmes.machine_format.questions*.txt",
            "testing_data.csv",
            "testing_data*.csv",
            *(f"*msrcc*/test[-/]*{ending}" for ending in TABLES),
        )
    },
    parse=_parse,
    archives=("MSR_Sentence_Completion_Challenge_V1.tar.gz", "MSR_Sentence_Completion*"),
    companion=_answer_names,
    books={
        "train": sources.BookFiles(
            (
                "*/holmes_training_data/*.txt",
                "holmes_training_data*.*z*",
                "holmes_training_data*.tar",
                "*/holmes_data_set/*.txt",
                "MSR_Sentence_Completion*.t*gz",
            ),
            inside="*holmes*/*.txt",
            depth=1,
        )
    },
)
