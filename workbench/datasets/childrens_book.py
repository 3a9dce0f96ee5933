"""The Children's Book Test: one word of a sentence, after twenty sentences of context.

Hill et al. (2016), "The Goldilocks Principle: Reading Children's Books with Explicit Memory
Representations", ICLR. One file for each class of the missing word and each split.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.datasets import sources
from workbench.datasets.question_tables import QuestionTable
from workbench.items import text as wt
from workbench.items.cells import listed_cell
from workbench.items.questions import CANDIDATES, Sides
from workbench.items.schema import WORD_CLASSES, Item
from workbench.storage.errors import DataError

BLANK = "XXXXX"
N_CONTEXT = 20
N_CANDIDATES = 10

_ARCHIVES = ("CBTest.tgz", "CBTest*")
_NAMES = {"train": ("train", "train"), "dev": ("valid_2000ex", "valid"), "test": ("test_2500ex", "test")}
SPLITS = tuple(_NAMES)
Question = tuple[list[str], str, str, list[str]]
"""Twenty sentences, query with its blank, answer, candidates."""
QUESTION_COLUMNS = ("sentences", "question", "answer")
_LINE = re.compile(r"(\d+) (.*)", re.DOTALL)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SPREAD = ("least", "mean", "most")

STATISTICS = {
    "# of examples (all / distinct)": ("questions", "distinct questions"),
    **{
        f"# of words in {theirs} (min, mean, max)": tuple(f"words in the {ours}, {x}" for x in _SPREAD)
        for theirs, ours in (("stories", "context"), ("questions", "query"))
    },
    "Vocabulary size": ("vocabulary",),
    "# of distinct candidates": ("distinct candidates",),
    "# of ex with cand missing from story+q (#, prop)": (
        "questions with a candidate that is not in the text",
    ),
    "# of ex with answer missing from story+q (#, prop)": ("questions whose answer is not in the text",),
}
"""Quantities in the release's files of statistics, by the lines that hold them."""


def released_statistics(path: Path | str | None = None) -> dict[tuple[str, str, str], float]:
    """Read the release's statistics of its questions (``stats/stats_NE.txt`` ...).

    Returns
    -------
    dict
        From word class, split and quantity (the values of `STATISTICS`) to the number. Empty, where no such
        file is on this machine and no `path` is given.

    Raises
    ------
    DataError
        If `path` holds no such file, or a number cannot be read.
    """
    wanted = {name: (f"stats_{name}.txt",) for name in WORD_CLASSES}
    searched = sources.search_roots("cbt", path)
    if path is None and not sources.find_first(searched, [*chain(*wanted.values())], _ARCHIVES):
        return {}
    files = sources.find_files("cbt", wanted, archives=_ARCHIVES, path=path)
    return {
        (word_class, *key): value for word_class, file in files.items() for key, value in _statistics(file)
    }


def _statistics(file: sources.File) -> Iterator[tuple[tuple[str, str], float]]:
    split: str | None = None
    for number, line in enumerate(file.lines(), 1):
        heading, *values = line.split("\t")
        heading = heading.rstrip(" :")
        if heading == "PROCESSING":
            split = sources.split_in_name(values[0].rpartition("/")[2]) if values else None
        names = STATISTICS.get(heading, ())
        for name, value in zip(names, [*values, *[""] * len(names)], strict=False):
            if split is None or not _NUMBER.fullmatch(value):
                problem = f"expected the number of {name!r} of a split, got {value!r}"
                raise DataError(problem, file=file.path, line=number, hint='get it with wb.fetch("cbt")')
            yield (split, name), float(value)


def class_in_name(path: Path) -> str | None:
    """Infer the word class from the name of a file, else of its folders, or return None."""
    for name in (path.name, "/".join(path.absolute().parts[-3:])):
        if match := re.search(r"(?:^|[_/-])(NE|CN|V|P)(?=[_./-])", name, re.IGNORECASE):
            return match[1].upper()
    return None


def _parse(file: sources.File, split: str, word_class: str) -> Iterator[Item | DataError]:
    if file.path.suffix.lower() != ".txt":
        for row in QUESTIONS.rows_of_file(file):
            if isinstance(row, DataError):
                yield row
            else:
                number, _, question = row
                yield _item(f"cbt/{split}/{word_class}/{number:06d}", question)
        return
    lines = file.lines()
    if any(line.startswith("_BOOK_TITLE_ : ") for line in lines[:20]):
        problem = "these are whole books, not questions"
        raise DataError(problem, file=file.path, hint=f'read them with wb.books("{file.path}")')
    for index, block in enumerate(_blocks(lines)):
        try:
            yield _question(block, file, f"cbt/{split}/{word_class}/{index:06d}")
        except DataError as error:
            yield error


def _holds_questions(frame: pd.DataFrame, _path: Path) -> bool:
    """Return whether a table has the columns of questions."""
    names = {str(name).lower() for name in frame}
    return names.issuperset(QUESTION_COLUMNS) and not names.isdisjoint(CANDIDATES)


def _question_of(row: Mapping[str, Any]) -> Question:
    """Return sentences, query with its blank, answer and candidates of a row of the table that the hub has.

    Empty options are the candidate ``|``, at which the list was split, where the text holds that word and
    there are ten candidates with it.
    """
    sentences = _texts(row, "sentences", "\n")
    options = _texts(row, next(name for name in CANDIDATES if name in row), "|")
    query, answer = row["question"], row["answer"]
    if not isinstance(query, str) or query.count(BLANK) != 1 or len(sentences) != N_CONTEXT:
        raise DataError(
            f"expected {N_CONTEXT} sentences and a question that holds {BLANK} once, got {len(sentences)} "
            f"sentences and {str(query)[:60]!r}"
        )
    sentences, query = [sentence.rstrip("\r\n") for sentence in sentences], query.rstrip("\r\n")
    if all(sentence.startswith(f"{number} ") for number, sentence in enumerate(sentences, 1)):
        sentences = [sentence.partition(" ")[2] for sentence in sentences]
        query = query.removeprefix(f"{N_CONTEXT + 1} ")
    candidates = options
    if "" in options:
        is_bar = not answer or any("|" in text.split() for text in (*sentences, query))
        candidates = _candidates("|".join(options)) if is_bar and "|" not in options else []
        answer = answer or "|"
    if len(candidates) != N_CANDIDATES or answer not in candidates:
        raise DataError(
            f"expected {N_CANDIDATES} options and the answer {str(answer)[:40]!r} among them, got {options}"
        )
    return sentences, query, answer, candidates


def _texts(row: Mapping[str, Any], name: str, separator: str) -> list[str]:
    texts: Any = listed_cell(row[name], separator)
    is_list = isinstance(texts, list) and texts != [row[name]]
    if not is_list or not all(isinstance(text, str) for text in texts):
        raise DataError(f"the {name} are {str(row[name])[:60]!r}, expected a list of texts")
    return [*texts]


def _blocks(lines: list[str]) -> Iterator[list[tuple[int, str]]]:
    """Yield the lines of each question, each line with its number in the file."""
    numbered = enumerate(lines, 1)
    groups = groupby(numbered, key=lambda line: not line[1].strip())
    return (list(group) for is_blank, group in groups if not is_blank)


def _question(block: list[tuple[int, str]], file: sources.File, item_id: str) -> Item:
    def wrong(problem: str, line: int) -> DataError:
        hint = 'correct the question, or leave it out with on_error="skip"'
        return DataError(problem, file=file.path, line=line, hint=hint)

    sentences: list[str] = []
    for expected, (line, content) in enumerate(block, 1):
        match = _LINE.fullmatch(content)
        if match is None or match[1] != str(expected) or expected > N_CONTEXT + 1:
            raise wrong(
                f"found {content[:40]!r}, expected line {expected} of a question: 20 numbered sentences,"
                " then line 21 with query, answer and candidates",
                line,
            )
        sentences.append(match[2])
    last = block[-1][0]
    if len(block) != N_CONTEXT + 1:
        raise wrong(f"the question ends after line {len(block)}, expected 21 lines", last)
    query, *columns = sentences.pop().split("\t")
    if len(columns) != 3:  # noqa: PLR2004 - answer, nothing, candidates
        raise wrong(f"line 21 has {len(columns)} tabs, expected query, answer, nothing, candidates", last)
    answer, _, listed = columns
    if query.count(BLANK) != 1:
        raise wrong(f"the query holds {BLANK} {query.count(BLANK)} times, expected once", last)
    candidates = _candidates(listed)
    if len(candidates) != N_CANDIDATES:
        raise wrong(f"there are {len(candidates)} candidates, expected {N_CANDIDATES}", last)
    if not answer or answer not in candidates:
        raise wrong(f"the answer {answer[:40]!r} is not among the candidates {listed[:200]!r}", last)
    return _item(item_id, (sentences, query, answer, candidates))


def _item(item_id: str, question: Question) -> Item:
    context, query, answer, candidates = question
    _, split, word_class, _ = item_id.split("/")
    sentences = [*context, query.replace(BLANK, answer)]
    spans = tuple(wt.joined_spans(sentences))
    start = spans[-1][0] + query.index(BLANK)
    return Item(
        item_id=item_id,
        dataset="cbt",
        split=split,
        variant=word_class,
        text="\n".join(sentences),
        answer=answer,
        answer_span=(start, start + len(answer)),
        sentences=spans,
        candidates=tuple(candidates),
        word_class=word_class,
    )


def _candidates(listed: str) -> list[str]:
    """Split the list at ``|``, which in four questions of the release is a candidate itself.

    Such a candidate leaves two empty fields (one where its neighbour's bar is missing).
    """
    fields = listed.split("|")
    if "" not in fields:
        return fields
    for per_bar in (2, 1):
        reading: list[str] = []
        for empty, group in groupby(fields, key=lambda field: not field):
            run = list(group)
            reading += ["|"] * -(-len(run) // per_bar) if empty else run
        if len(reading) == N_CANDIDATES:
            return reading
    return [field for field in fields if field]


def _sides(context: str, query: str) -> Sides:
    before, after = query.split(BLANK)
    return Sides(f"{context}\n{before}", after)


QUESTIONS = QuestionTable(
    columns="sentences, question, answer and options",
    cells=frozenset({*QUESTION_COLUMNS, *CANDIDATES, "text"}),
    holds=_holds_questions,
    read=_question_of,
    passage=lambda question: (_sides("\n".join(question[0]), question[1]), question[2], question[3]),
    sentences=lambda text: tuple(wt.joined_spans(text.split("\n"))),
)
"""How a table of the user holds these questions."""

RELEASE = sources.Release(
    name="cbt",
    files={
        (split, word_class): (
            f"cbtest_{word_class}_{full}.txt",
            f"cbtest_{word_class}_{short}*.txt",
            *(f"*/{word_class}/*{short}*{ending}" for ending in sources.HUB),
        )
        for split, (full, short) in _NAMES.items()
        for word_class in WORD_CLASSES
    },
    parse=_parse,
    archives=_ARCHIVES,
    variant=None,
    variant_of=class_in_name,
    books={
        split: sources.BookFiles((f"cbt_{name}.txt", "CBTest.tgz", "CBTest*.t*gz"), f"*cbt_{name}.txt")
        for split, (_, name) in _NAMES.items()
    },
)
