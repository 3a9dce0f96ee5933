"""Read LitBank: direct speech and entities in a hundred works of fiction, for training and for scores.

LitBank (Bamman et al. 2019, 2020; Sims and Bamman 2020; CC BY 4.0) is looked for in the folder
``litbank`` of the data folder: ``litbank/quotations/tsv`` and ``litbank/entities_tsv``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from workbench.items.schema import Span
from workbench.storage.errors import DataError

QUOTATIONS = Path("litbank", "quotations", "tsv")
ENTITIES = Path("litbank", "entities_tsv")
_SOURCE = "get LitBank from https://github.com/dbamman/litbank and name the folder above it in WORKBENCH_DATA"
_AGAIN = "get the file again from https://github.com/dbamman/litbank"
_FIELDS = 7  # QUOTE, its name, sentence and token of its start, sentence and token of its end, its text


class Document(NamedTuple):
    """A text with its quotations.

    Attributes
    ----------
    name : str
        The file's name without ``_brat`` and ending.
    words : tuple of str
        All tokens.
    sentences : tuple of int
        Index of the first token of each sentence.
    quotations : tuple of (int, int)
        Token ranges, end excluded, in order and disjoint, quote marks included.
    """

    name: str
    words: tuple[str, ...]
    sentences: tuple[int, ...]
    quotations: tuple[Span, ...]


class Token(NamedTuple):
    """A word and its entity labels, the outermost layer first: ``("B-PER", "O", "O", "O")``."""

    word: str
    labels: tuple[str, ...]


class Entities(NamedTuple):
    """A text as sentences of tokens with entity labels."""

    name: str
    sentences: tuple[tuple[Token, ...], ...]


def data_folder() -> Path:
    """Return the folder that ``WORKBENCH_DATA`` names; DataError where it names none."""
    name = os.environ.get("WORKBENCH_DATA")
    if not name or not Path(name).is_dir():
        raise DataError(
            "WORKBENCH_DATA names no folder" if not name else f"WORKBENCH_DATA: there is no folder {name}",
            hint="set it to the folder that holds litbank/",
        )
    return Path(name)


def quotations(data: Path | None = None) -> Iterator[Document]:
    """Yield LitBank's texts with their direct speech, in the order of their files' names.

    Parameters
    ----------
    data : Path, optional
        The folder that holds ``litbank``; ``$WORKBENCH_DATA`` where it is left out.

    Raises
    ------
    DataError
        If there is no such folder, a text is missing, or an annotation does not fit its text;
        with the file, the line, and what can be done.
    """
    for path in _files(data, QUOTATIONS, "*.ann"):
        text = path.with_suffix(".txt")
        if not text.is_file():
            raise DataError("the text of this annotation is missing", file=text, hint=_AGAIN)
        rows = [line.split() for line in _lines(text)]
        starts = [0]
        for row in rows:
            starts.append(starts[-1] + len(row))
        words = tuple(word for row in rows for word in row)
        spans = []
        for number, line in enumerate(_lines(path), start=1):
            if line.startswith("QUOTE\t"):
                try:
                    spans.append((*_span(line, words, starts), number))
                except ValueError as error:
                    raise DataError(str(error), file=path, line=number, hint=_AGAIN) from None
        spans.sort()
        for left, right in pairwise(spans):
            if right[0] < left[1]:
                raise DataError(
                    f"this quotation overlaps that of line {left[2]}",
                    file=path,
                    line=right[2],
                    hint=_AGAIN,
                )
        yield Document(_name(path), words, tuple(starts[:-1]), tuple(span[:2] for span in spans))


def entities(data: Path | None = None) -> Iterator[Entities]:
    """Yield LitBank's texts with their entities (PER FAC GPE LOC VEH ORG), in the order of the files' names.

    Parameters
    ----------
    data : Path, optional
        The folder that holds ``litbank``; ``$WORKBENCH_DATA`` where it is left out.

    Raises
    ------
    DataError
        If there is no such folder, or a line is not a word and its labels; with the file, the
        line, and what can be done.

    Notes
    -----
    Entities nest: the layers of a token are labels of their own, ``B-`` or ``I-`` and the kind, or
    ``O``. A file has as many layers as its deepest entity needs, four or five.
    """
    for path in _files(data, ENTITIES, "*.tsv"):
        sentences: list[tuple[Token, ...]] = []
        current: list[Token] = []
        layers = 0
        for number, line in enumerate([*_lines(path), ""], start=1):
            if not line.strip():
                sentences += [tuple(current)] if current else []
                current = []
                continue
            word, *labels = line.removesuffix("\t").split("\t")
            layers = layers or len(labels)
            if problem := _wrong(word, labels, layers):
                raise DataError(problem, file=path, line=number, hint=_AGAIN)
            current.append(Token(word, tuple(labels)))
        yield Entities(_name(path), tuple(sentences))


def _files(data: Path | None, below: Path, pattern: str) -> list[Path]:
    folder = (data_folder() if data is None else data) / below
    if not (paths := sorted(folder.glob(pattern))):
        raise DataError(f"there is no file {pattern} in this folder", file=folder, hint=_SOURCE)
    return paths


def _name(path: Path) -> str:
    return path.stem.removesuffix("_brat")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"this is not UTF-8: {error}", file=path, hint=_AGAIN) from None


def _span(line: str, words: tuple[str, ...], starts: list[int]) -> Span:
    """Return the token range of a QUOTE line; ValueError says why it is none."""
    fields = line.split("\t")
    if len(fields) != _FIELDS:
        raise ValueError(f"{len(fields)} fields, expected {_FIELDS} with tabs between them")
    try:
        first, left, last, right = map(int, fields[2:6])
    except ValueError:
        raise ValueError(f"the places {' '.join(fields[2:6])} are not four whole numbers") from None
    sizes = [end - start for start, end in pairwise(starts)]
    for row, token in ((first, left), (last, right)):
        if not (0 <= row < len(sizes) and 0 <= token < sizes[row]):
            raise ValueError(f"there is no token {token} in sentence {row} of the text")
    begin, end = starts[first] + left, starts[last] + right + 1
    text = " ".join(words[begin:end])
    if text != fields[6]:
        raise ValueError(f"the text has {text[:40]!r} there, the annotation {fields[6][:40]!r}")
    return begin, end


def _wrong(word: str, labels: list[str], layers: int) -> str | None:
    """Return what is wrong with a line of entities, if anything is."""
    if not word or not labels:
        return "expected a word and its labels with tabs between them"
    if len(labels) != layers:
        return f"{len(labels)} labels, but {layers} in the lines before"
    strange = [label for label in labels if label != "O" and not label.startswith(("B-", "I-"))]
    return f"the label {strange[0]!r} is neither O nor B-... nor I-..." if strange else None
