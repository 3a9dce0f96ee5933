"""Texts copied to disk in pieces, and the pieces cut into sentences and tokens by several processes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import pyarrow as pa

from workbench.items import text as wt
from workbench.items.schema import DataError
from workbench.storage import cache, parallel
from workbench.storage.progress import progress_bar

PIECE = 1 << 19
"""Characters of a piece of work, or up to twice as many: some 100,000 tokens."""

_FEW = 1 << 21  # bytes up to which this process does the work: starting others takes a second
_SCHEMA = pa.schema(
    {"words": pa.list_(pa.string()), "ids": pa.list_(pa.uint32()), "lengths": pa.list_(pa.uint32())}
)
# Where a long text may be cut, the best first: at paragraphs of running text, at sentences of tokens.
_CUTS = {
    False: (re.compile(r"\n\s*\n"), re.compile(r"[.!?][\"'”’)]*\s"), re.compile(r"\s")),  # noqa: RUF001 - quotes
    True: (
        re.compile(
            r"(?<=\s)(?:\.|[!?]+)(?!\S)(?!\s+(?:''|[\"'”’)\]}]|-R[RSC]B-|\.|[!?]+)(?!\S))",  # noqa: RUF001 - quotes
            re.IGNORECASE,
        ),
        re.compile(r"\s"),
    ),
}
_AHEAD = 64  # characters that a cut may look ahead


@runtime_checkable
class Readable(Protocol):
    """A book, as :func:`workbench.books` gives them."""

    @property
    def book_id(self) -> str:
        """Its name."""

    @property
    def title(self) -> str | None:
        """What it is called."""

    @property
    def text(self) -> str:
        """All of it."""

    @property
    def tokenised(self) -> bool:
        """Whether words are space-separated tokens."""


class _Piece(NamedTuple):
    """A piece of work: where its text lies, in bytes, and how it is cut into tokens."""

    file: str
    offset: int
    size: int
    lines: bool
    tokenised: bool
    lower: bool


class Part(NamedTuple):
    """Some sentences of one book.

    Attributes
    ----------
    book : int
        Number of the book.
    words : sequence of str
        The types that `ids` count in; parts may share one.
    ids : uint32 array (tokens,)
    lengths : integer array (sentences,)
        Tokens of each sentence, none of them 0.
    """

    book: int
    words: Sequence[str]
    ids: np.ndarray
    lengths: np.ndarray


class Tokeniser:
    """Copies texts to a file, in pieces that processes cut into tokens, with a key for each.

    Parameters
    ----------
    path : Path
        The file; it has to stay until the tokens were taken.
    lower : bool
        Lower-case the tokens.
    tokenised : bool or None
        What holds for all texts, whatever they say.

    Attributes
    ----------
    books : list of (str, str)
        Identifier and title of each book. A run of lines is a book ``lines``.
    """

    def __init__(self, path: Path, *, lower: bool, tokenised: bool | None) -> None:
        self.path, self.lower, self.tokenised = path, lower, tokenised
        self.books: list[tuple[str, str]] = []
        self._pieces: list[_Piece] = []
        self._keys: list[str] = []
        self._owners: list[int] = []  # of each piece, the number of its book

    @property
    def key(self) -> str:
        """A digest of all that the corpus depends on."""
        return cache.digest(repr(self.books), repr(self._owners), *self._keys)

    def read(self, texts: Readable | Iterable[str | Readable], *, progress: bool) -> None:
        """Copy all texts to the file, one after the other.

        Raises
        ------
        DataError
            If one of them is neither a string nor a book.
        """
        with self.path.open("wb") as file, progress_bar(label="reading", unit="B", shown=progress) as bar:
            for text, lines, tokenised in self._texts(texts):
                content = _encoded(text)
                self._pieces.append(
                    _Piece(str(self.path), file.tell(), len(content), lines, tokenised, self.lower)
                )
                self._keys.append(cache.digest(_code(), repr((lines, tokenised, self.lower)), content))
                self._owners.append(len(self.books) - 1)
                file.write(content)
                bar.update(len(content))

    def _texts(self, texts: Readable | Iterable[str | Readable]) -> Iterator[tuple[str, bool, bool]]:
        """Yield pieces of text, if they are lines, if they are tokenised; and note the books."""
        if isinstance(texts, str | bytes | Path):
            raise _no_text(texts)
        lines: list[str] | None = None  # held back; None outside a run of lines
        held = 0
        for text in cast("Iterable[Any]", [texts] if hasattr(texts, "book_id") else texts):
            if not isinstance(text, str):
                if lines:
                    yield "\n".join(lines), True, self.tokenised is not False
                lines = None
                yield from self._book(text)
                continue
            if lines is None:
                self.books.append(("lines", ""))
                lines, held = [], 0
            lines.append(text)
            held += len(text) + 1
            if held >= PIECE:
                yield "\n".join(lines), True, self.tokenised is not False
                lines, held = [], 0
        if lines:
            yield "\n".join(lines), True, self.tokenised is not False

    def _book(self, book: Any) -> Iterator[tuple[str, bool, bool]]:
        text, name, is_tokenised = (getattr(book, part, None) for part in ("text", "book_id", "tokenised"))
        if not isinstance(text, str) or not isinstance(name, str):
            raise _no_text(book)
        tokenised = bool(is_tokenised if self.tokenised is None else self.tokenised)
        self.books.append((name, str(getattr(book, "title", None) or "")))
        for piece in split_text(text, tokenised=tokenised):
            yield piece, False, tokenised

    def parts(self, *, workers: int | None, progress: bool) -> Iterator[Part]:
        """Yield the tokens of every piece in order; pieces that were cut before come from disk."""
        pieces = cache.Cache("corpus-parts")
        parallel.run_chunks(
            _keep,
            [(piece, pieces, key) for piece, key in zip(self._pieces, self._keys, strict=True)],
            keys=self._keys,
            store=_There(pieces),
            workers=1 if sum(piece.size for piece in self._pieces) < _FEW else workers,
            progress="tokenising" if progress else None,
            size=_size,
        )
        for piece, key, owner in zip(self._pieces, self._keys, self._owners, strict=True):
            table = pieces.get(key, _SCHEMA)  # one at a time: a large text is not held in memory
            if table is None:  # torn, or removed by another process that made room
                table = _tokenise(piece)
            words, ids, lengths = (column.combine_chunks().values for column in table.columns)
            yield Part(owner, words.to_pylist(), ids.to_numpy(), lengths.to_numpy())
        pieces.trim()


def split_text(text: str, *, tokenised: bool, size: int = PIECE) -> Iterator[str]:
    """Cut a text into pieces of `size` to twice as many characters, where sentences end if possible.

    Tokens are cut between sentences of :func:`workbench.items.text.sentences`, running text after a
    paragraph. Where there is none, after what looks like a sentence or else at white space; text without any
    stays whole. Pieces joined are the text.
    """
    start = 0
    while len(text) - start > 2 * size:
        last = start + 2 * size
        matches = (pattern.search(text, start + size, last + _AHEAD) for pattern in _CUTS[tokenised])
        end = next((match.end() for match in matches if match and match.end() <= last), None)
        if end is None:
            break
        yield text[start:end]
        start = end
    yield text[start:]


def _tokenise(piece: _Piece) -> pa.Table:
    """Cut a piece into sentences and tokens: its types, its tokens as numbers, the sentences' lengths."""
    with Path(piece.file).open("rb") as file:
        file.seek(piece.offset)
        text = file.read(piece.size).decode()
    if piece.lines:
        split: Callable[[str], list[str]] = str.split if piece.tokenised else wt.tokenize
        sentences = [words for line in text.split("\n") if (words := split(line))]
    else:
        sentences = wt.sentence_tokens(text, tokenised=piece.tokenised)
    joined = " ".join(chain.from_iterable(sentences))
    tokens = (joined.lower() if piece.lower else joined).split(" ") if joined else []
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    ids = np.fromiter(map(numbers.__getitem__, tokens), np.uint32, len(tokens))
    lengths = np.fromiter(map(len, sentences), np.uint32, len(sentences))
    columns = (pa.array(list(numbers), pa.string()), pa.array(ids), pa.array(lengths))
    lists = [pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column) for column in columns]
    return pa.table(lists, schema=_SCHEMA)


def _keep(work: tuple[_Piece, cache.Cache, str]) -> bool:
    """Cut a piece and keep the result on disk, from the process that made it."""
    piece, pieces, key = work
    pieces.put(key, _tokenise(piece))
    return True


class _There:
    """Which pieces are on disk, as :func:`workbench.storage.parallel.run_chunks` asks for them."""

    def __init__(self, pieces: cache.Cache) -> None:
        self.pieces = pieces

    def get(self, key: str) -> bool | None:
        """Say whether a piece was kept; whether it is sound is seen when it is read."""
        return self.pieces.path(key).is_file() or None

    def put(self, key: str, value: bool) -> None:  # noqa: FBT001 - a store's method
        """Do nothing: `_keep` did."""


def _size(work: tuple[_Piece, cache.Cache, str]) -> int:
    return work[0].size


@lru_cache(maxsize=1)
def _code() -> str:
    """Return a digest of the code that tokens depend on."""
    here = Path(__file__).resolve()
    return cache.code([here, here.parents[1] / "items" / "text.py"], here.parents[1])


def _encoded(text: str) -> bytes:
    text = text.replace("\0", " ")  # KenLM's programs end a word there
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which no file can hold
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _no_text(text: object) -> DataError:
    remedy = "pass books, or lines in a list; workbench.texts.sources.corpus_of reads paths"
    return DataError(f"a {type(text).__name__} is no text to train on: {str(text)[:60]!r}", remedy=remedy)
