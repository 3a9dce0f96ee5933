"""LAMBADA's rule: which sentences of a novel end a passage; found for some novels at a time, in any process.

A chunk of novels becomes two files: the tokens, one sentence a line, and one record a candidate.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.construction.novels import chapter_texts
from workbench.items import text as wt
from workbench.storage import files
from workbench.storage.errors import DataError
from workbench.storage.sealed import sealed_folder
from workbench.texts.tokenise import PIECE, cut_into_pieces

Ints = npt.NDArray[np.int64]

VERSION = 3
"""Raised when the same novels give other candidates or files: those of an earlier version are not used."""

REASONS = (
    "short target sentence", "last word not of letters only", "too few tokens before", "too many tokens",
)  # fmt: skip
"""Why a sentence is the last one of no candidate; the first that applies is counted."""

RECORD = np.dtype(
    [
        ("start", "<u8"), ("length", "<u4"),  # bytes of the passage in the text of its chunk
        ("sentence", "<u4"),  # the number of the target sentence in its novel
        ("context", "<u2"), ("tokens", "<u2"),  # sentences before the target sentence, tokens of all
    ]
)  # fmt: skip

TEXT, RECORDS, CHUNK = "text.txt", "records.npy", "chunk.json"
"""Files of a chunk: its tokens, one sentence a line; one record a candidate; counts."""

_LONGEST = (1 << 16) - 1  # tokens that a record can count
_MIXED, _LETTERS = 1, 2  # kinds of tokens with a letter or a digit


class Rule(NamedTuple):
    """Which passages are candidates: see :meth:`Candidates.of`."""

    minimum: int = 50
    shortest: int = 10
    longest: int = 256


class Source(NamedTuple):
    """A novel in the file of all texts: its place in bytes, and how it is read."""

    book_id: str
    title: str
    offset: int
    size: int
    lines: bool  # one sentence a line
    tokenised: bool


class NovelChunk(NamedTuple):
    """Work for one process: some novels, and the folder that their candidates are written to."""

    folder: Path
    texts: Path
    sources: tuple[Source, ...]
    rule: Rule


def checked_rule(minimum: int, shortest: int, longest: int) -> Rule:
    """Return the rule; DataError if no passage can follow it."""
    if minimum < 0 or shortest < 1 or not minimum < longest <= _LONGEST:
        raise DataError(
            f"expected minimum >= 0, shortest >= 1, minimum < longest <= {_LONGEST:,}, got minimum={minimum},"
            f" shortest={shortest}, longest={longest}",
            remedy="pass other numbers of tokens; LAMBADA's are 50, 10 and 256",
        )
    return Rule(int(minimum), int(shortest), int(longest))


def find(chunk: NovelChunk) -> bool:
    """Find the candidates of some novels, and write the folder of the chunk, sealed; return True."""
    kinds: dict[str, int] = {}
    books, tables, is_cased = [], [np.zeros(0, RECORD)], False
    dropped = np.zeros(len(REASONS), np.int64)
    with sealed_folder(chunk.folder, CHUNK, replace=True) as new:
        with (new / TEXT).open("wb") as file:
            for source in chunk.sources:
                counts = dict.fromkeys(("sentences", "tokens", "candidates"), 0)
                for chapter in _chapters(chunk.texts, source):
                    start, sentences = file.tell(), [_measured([], kinds)[1]]
                    for tokenised in chapter:
                        text, sizes = _measured(tokenised, kinds)
                        file.write(text.encode())
                        sentences.append(sizes)
                        is_cased = is_cased or text != text.lower()
                    columns = _Sizes(*np.concatenate(sentences).T)
                    records, reasons = _candidates(columns, start, counts["sentences"], chunk.rule)
                    dropped += reasons
                    tables.append(records)
                    counts["sentences"] += len(columns.tokens)
                    counts["tokens"] += int(columns.tokens.sum())
                    counts["candidates"] += len(records)
                books.append(counts)
        with (new / RECORDS).open("wb") as file:
            np.save(file, np.concatenate(tables))
        reasons = dict(zip(REASONS, dropped.tolist(), strict=True))
        content = json.dumps({"books": books, "dropped": reasons, "cased": is_cased})
        (new / CHUNK).write_text(content, encoding="utf-8")
    return True


def _chapters(path: Path, source: Source) -> Iterator[Iterator[list[list[str]]]]:
    """Yield the chapters of a novel: each yields lists of sentences, these are lists of tokens."""
    with files.open_regular(path) as file:
        file.seek(source.offset)
        if source.lines:
            yield _lines(file, source.size)
            return
        text = file.read(source.size).decode()
    for chapter in chapter_texts(text, tokenised=source.tokenised):
        pieces = cut_into_pieces(chapter, tokenised=source.tokenised)
        yield (wt.sentence_tokens(piece, tokenised=source.tokenised) for piece in pieces)


def _lines(file: IO[bytes], size: int) -> Iterator[list[list[str]]]:
    """Yield the sentences of a text that has one a line, some at a time."""
    while size > 0 and (block := file.read(min(size, PIECE))):
        block += b"" if len(block) == size else file.readline()  # the text ends with a line
        size -= len(block)
        yield [tokens for line in block.decode().split("\n") if (tokens := line.split())]


class _Sizes(NamedTuple):
    """Of each sentence of a chapter, int64 (sentences,)."""

    tokens: Ints
    bytes: Ints  # the line feed after it included
    kind: Ints  # of its last token with a letter or a digit; 0 where there is none
    after: Ints  # bytes after that token, spaces included and the line feed left out
    n_after: Ints  # tokens after it


def _measured(sentences: list[list[str]], kinds: dict[str, int]) -> tuple[str, Ints]:
    """Return sentences as lines, and their `_Sizes` as the columns of an array.

    `kinds` remembers the kinds of tokens.
    """
    rows = []
    lines = [" ".join(tokens) for tokens in sentences]
    for tokens, line in zip(sentences, lines, strict=True):
        kind = after = n_after = 0
        for token in reversed(tokens):
            kind = kinds[token] if token in kinds else kinds.setdefault(token, _kind(token))
            if kind:
                break
            after += len(token.encode()) + 1
            n_after += 1
        rows.append((len(tokens), len(line.encode()) + 1, kind, after, n_after))
    text = "".join(f"{line}\n" for line in lines)
    return text, np.array(rows, np.int64).reshape(-1, len(_Sizes._fields))


def _kind(token: str) -> int:
    """Return whether a token is of letters only, has a letter or a digit, or neither."""
    return _LETTERS if token.isalpha() else _MIXED if any(map(str.isalnum, token)) else 0


def _candidates(sizes: _Sizes, start: int, sentence: int, rule: Rule) -> tuple[npt.NDArray[Any], Ints]:
    """Return the candidates of a chapter, and how many of its sentences have none, by reason.

    `start` is the byte at which its text starts, `sentence` the number of its first sentence in the novel.
    """
    n = len(sizes.tokens)
    tokens, places = (np.concatenate([[0], column.cumsum()]) for column in (sizes.tokens, sizes.bytes))
    first = np.searchsorted(tokens, tokens[:n] - rule.minimum, side="left") - 1  # of the context, or -1
    length = tokens[1:] - sizes.n_after - tokens[first]
    faults = (
        sizes.tokens < rule.shortest, sizes.kind != _LETTERS, first < 0, length > rule.longest,
    )  # fmt: skip
    reason = np.select(faults, range(len(faults)), -1)
    rows = np.flatnonzero(reason < 0)
    records = np.zeros(len(rows), RECORD)
    begins, ends = places[first[rows]], places[rows + 1] - 1 - sizes.after[rows]
    records["start"], records["length"] = start + begins, ends - begins
    records["sentence"], records["context"] = sentence + rows, rows - first[rows]
    records["tokens"] = length[rows]
    return records, np.bincount(reason[reason >= 0], minlength=len(faults))
