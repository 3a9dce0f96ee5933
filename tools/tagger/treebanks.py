"""Read Universal Dependencies treebanks in CoNLL-U, as far as tagging and lemmas need them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from workbench.analysis.tagging import UPOS
from workbench.datasets import sources
from workbench.storage.errors import DataError

_COLUMNS = 10
_GOLD = {
    "ewt-train": "en_ewt-ud-train.conllu",
    "ewt-dev": "en_ewt-ud-dev.conllu",
    "gum-train": "en_gum-ud-train-attribution-genres.conllu",
    "gum-dev": "en_gum-ud-dev.conllu",
}
TRAINING = ("ewt-train", "gum-train")
"""The treebanks that may be trained on."""


class Sentence(NamedTuple):
    """One sentence of a treebank: syntactic words, without multi-word tokens and empty nodes."""

    words: tuple[str, ...]
    upos: tuple[str, ...]
    lemmas: tuple[str, ...]
    space_after: tuple[bool, ...]
    """Whether a space follows each word; none does within a multi-word token (``do|n't``)."""
    doc: str
    """The document that the sentence is from; empty where the file names none."""


def find(name: str) -> Path:
    """Return the file of a treebank that the project knows, in the folders that hold the data.

    Parameters
    ----------
    name : str
        "ewt-train", "ewt-dev", "gum-train" (the genres whose licence allows training) or
        "gum-dev" (for evaluation only).

    Raises
    ------
    DataError
        If it is not there, with the folders that were searched.
    """
    searched = sources.search_roots("ud")
    if path := sources.find_first(searched, (_GOLD[name],)):
        return path
    raise DataError(
        f"found no {_GOLD[name]}; searched {', '.join(str(root.folder) for root in searched)}",
        hint="set WORKBENCH_DATA to a folder that holds the treebanks",
    )


def sentences(path: Path | str) -> Iterator[Sentence]:
    """Read a CoNLL-U file, sentence by sentence.

    Parameters
    ----------
    path : path
        A file as https://universaldependencies.org/format.html describes it.

    Returns
    -------
    iterator of Sentence

    Raises
    ------
    DataError
        With file and line, if a line has not ten columns, an unknown tag, an empty word or
        lemma, or a number out of order, or if the last sentence has no end.
    """
    doc = ""
    words: list[tuple[str, str, str]] = []
    spaces: list[bool] = []
    inside, after = 0, True  # last word of the multi-word token, and whether a space follows that
    number = 0
    with Path(path).open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            row = line.rstrip("\r\n")
            if row.startswith("#"):
                key, _, value = row[1:].partition("=")
                doc = value.strip() if key.strip() == "newdoc id" else doc
            elif row:
                cells = row.split("\t")
                if len(cells) != _COLUMNS:
                    raise DataError(f"{len(cells)} columns, expected {_COLUMNS}", file=path, line=number)
                space = "SpaceAfter=No" not in cells[9].split("|")
                if "-" in cells[0]:
                    inside, after = int(cells[0].partition("-")[2]), space
                elif "." not in cells[0]:
                    _check(cells, len(words) + 1, path, number)
                    words.append((cells[1], cells[3], cells[2]))
                    place = len(words)
                    spaces.append(space if place > inside else after and place == inside)
            elif words:
                yield _sentence(words, spaces, doc)
                words, spaces, inside = [], [], 0
    if words:
        raise DataError("the last sentence has no empty line after it", file=path, line=number)


def _check(cells: list[str], wanted: int, path: Path | str, line: int) -> None:
    if cells[0] != str(wanted):
        raise DataError(f"the word has the number {cells[0]!r}, expected {wanted}", file=path, line=line)
    if cells[3] not in UPOS:
        raise DataError(f"{cells[3]!r} is no tag of Universal Dependencies", file=path, line=line)
    if not cells[1] or not cells[2]:
        raise DataError("the word or its lemma is empty", file=path, line=line)


def _sentence(words: list[tuple[str, str, str]], spaces: list[bool], doc: str) -> Sentence:
    forms, tags, lemmas = zip(*words, strict=True)
    return Sentence(forms, tags, lemmas, tuple(spaces), doc)
