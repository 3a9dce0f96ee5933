"""The Microsoft Research Sentence Completion Challenge: one word of one Sherlock Holmes sentence.

Zweig and Burges (2011), "The Microsoft Research Sentence Completion Challenge", MSR-TR-2011-129.
The official files have five lines per question, ``12c) ... [word] ...``; a CSV table of the
questions, with another of the answers, is in use too. Both give the same items.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from workbench.datasets import sources
from workbench.datasets.question_tables import read_shards
from workbench.items.questions import MARKER
from workbench.items.schema import Item
from workbench.storage.errors import DataError

LETTERS = "abcde"
_LINE = re.compile(r"([0-9]{1,6})([a-e])\) (.*)", re.DOTALL)
_WORD = re.compile(r"\[([^\[\]]+)\]")
_COLUMNS = ("id", "question", *(f"{letter})" for letter in LETTERS))
_HINT = 'correct it, or leave it out with on_error="skip"'

T = TypeVar("T")


class Completion(NamedTuple):
    """A sentence around its blank, and the words to choose from."""

    left: str
    right: str
    words: tuple[str, ...]


def _parse(file: sources.File, _split: str, _variant: str) -> Iterator[Item | DataError]:
    """Yield the items of a file of questions; their ids have the question's own number: ``msrcc/test/0012``.

    Answers lie beside the questions; a table may have them too. Without them, answers are null and blanks
    empty.
    """
    is_text = file.path.suffix.lower() == ".txt"
    questions, problems = _sort_out(_official(file) if is_text else _table(file), file)
    yield from problems
    key = file if not is_text and "answer" in _columns(file) else file.companion
    if key is None:
        problem = f"the answers file {_answer_names(file)[0]} is missing beside it"
        yield DataError(problem, file=file.path, hint="put it there")
        yield from (_item(number, question, None) for number, question in questions.items())
        return
    answers, problems = _sort_out(_answers(key, questions) if is_text else _letters(key), key)
    yield from problems
    for number, question in questions.items():
        if letter := answers.get(number):
            yield _item(number, question, question.words[LETTERS.index(letter)])
        elif key is not file:  # which has an error for each answer that is not a letter
            yield DataError(f"there is no answer to question {number}", file=key.path, hint=_HINT)


def _answer_names(file: sources.File) -> tuple[str, ...]:
    """Return the names an answers file may have: the questions' name with its other word, else any."""
    name, any_name = (
        file.name,
        "*machine_format.answers*.txt" if file.path.suffix.lower() == ".txt" else "test_answer*.csv",
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
    return DataError(problem, file=file.path, line=line, hint=_HINT)


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


def _rows(file: sources.File, columns: tuple[str, ...]) -> Iterator[tuple[int, dict[Any, Any]] | DataError]:
    """Yield the rows of a table, by columns in lower case, each with its line; the error of others."""
    frame, lines, problems, _ = read_shards([(shard.data, shard.path) for shard in file.shards])
    yield from problems
    frame.columns = frame.columns.str.lower()
    if not set(columns) <= set(frame):
        problem = f"expected the columns {', '.join(columns)}, got {', '.join(map(str, frame))}"
        hint = f'read a table of your own with wb.load("{file.path}")'
        yield DataError(problem, file=file.path, hint=hint)
        return
    for line, row in zip(lines, frame.to_dict("records"), strict=True):
        if re.fullmatch(r"[0-9]{1,6}", str(row["id"])):
            yield line, row
        else:
            yield _wrong(f"the id is {row['id']!r}, expected a number", file, line)


def _columns(file: sources.File) -> set[str]:
    """Return the columns of a table in lower case."""
    return {str(name).lower() for name in read_shards([(file.shards[0].data, file.path)]).frame}


def _table(file: sources.File) -> Iterator[tuple[int, int, Completion] | DataError]:
    """Yield the questions of a table."""
    for record in _rows(file, _COLUMNS):
        if isinstance(record, DataError):
            yield record
            continue
        line, row = record
        sides = MARKER.split(str(row["question"]))
        words = tuple(row[f"{letter})"] for letter in LETTERS)
        if len(sides) != 2:  # noqa: PLR2004 - before and after the blank
            yield _wrong(f"found {row['question']!r:.60}, expected a sentence with one ___", file, line)
        elif not all(isinstance(word, str) and word for word in words):
            yield _wrong(f"the choices are {words}, expected five words", file, line)
        else:
            yield line, int(row["id"]), Completion(sides[0], sides[1], words)


def _letters(file: sources.File) -> Iterator[tuple[int, int, str] | DataError]:
    """Yield the letters of a table of answers."""
    for record in _rows(file, ("id", "answer")):
        if isinstance(record, DataError):
            yield record
            continue
        line, row = record
        letter = str(row["answer"]).strip().lower()
        if letter in tuple(LETTERS):
            yield line, int(row["id"]), letter
        else:
            yield _wrong(f"the answer is {letter!r}, expected one of a b c d e", file, line)


def _item(number: int, question: Completion, answer: str | None) -> Item:
    text = f"{question.left}{answer or ''}{question.right}"
    start = len(question.left)
    return Item(
        item_id=f"msrcc/test/{number:04d}",
        dataset="msrcc",
        split="test",
        variant="plain",
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
            *(f"*msrcc*/test[-/]*{ending}" for ending in sources.HUB),
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
