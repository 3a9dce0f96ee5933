"""Texts copied to disk in pieces, and the pieces cut into sentences and tokens by several processes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from workbench.items import text as wt
from workbench.storage import cache, parallel
from workbench.storage.errors import DataError
from workbench.storage.progress import progress_bar

if TYPE_CHECKING:
    from workbench.datasets.books import Book

VERSION = 2
"""Raised when a text gives other tokens or sentences: those of an earlier version are not used again."""

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


class _Piece(NamedTuple):
    """A piece of work: the number of its book, its place in the file in bytes, how it is tokenised."""

    key: str
    book: int
    file: Path
    offset: int
    size: int
    lines: bool
    tokenised: bool
    lower: bool


class Part(NamedTuple):
    """Some sentences of one book."""

    book: int  # its number
    words: Sequence[str]  # the types that `ids` count in; parts may share one
    ids: np.ndarray  # (tokens,), uint32
    lengths: np.ndarray  # (sentences,): tokens of each, none of them 0


class BookText(NamedTuple):
    """A book, or consecutive lines, which are a book called "lines"."""

    book_id: str
    title: str
    lines: bool  # one sentence a line
    tokenised: bool
    pieces: Iterable[str]  # its text; each piece of lines lacks the end of its last line


def read_texts(texts: Iterable[Any], *, tokenised: bool | None = None) -> Iterator[BookText]:
    """Yield books and groups of lines, to be read one after the other.

    `tokenised` overrides what books declare. DataError if one of the texts is neither a string nor a book.
    """
    for are_lines, group in groupby(texts, lambda text: isinstance(text, str)):
        if are_lines:
            lines = joined_lines(group)
            yield BookText("lines", "", lines=True, tokenised=tokenised is not False, pieces=lines)
            continue
        for book in group:
            text, name = getattr(book, "text", None), getattr(book, "book_id", None)
            if not isinstance(text, str) or not isinstance(name, str):
                raise DataError(
                    f"expected a book or a line to train on, got a {type(book).__name__}: {str(book)[:60]!r}",
                    remedy="pass books or paths, or lines in a list",
                )
            declared = getattr(book, "tokenised", None)
            is_tokenised = bool(declared if tokenised is None else tokenised)
            title = str(getattr(book, "title", None) or "")
            pieces = cut_into_pieces(text, tokenised=is_tokenised)
            yield BookText(name, title, lines=False, tokenised=is_tokenised, pieces=pieces)


class Tokeniser:
    """Copies texts to a file, in pieces that processes cut into tokens, with a key for each.

    The file must exist until all `parts` were read. Options are those of :meth:`Corpus.of`.
    """

    def __init__(self, path: Path, *, lower: bool, tokenised: bool | None) -> None:
        self.path, self.lower, self.tokenised = path, lower, tokenised
        self.books: list[tuple[str, str]] = []  # identifier and title
        self._pieces: list[_Piece] = []

    @property
    def key(self) -> str:
        """A digest of all that the corpus depends on."""
        owners = [piece.book for piece in self._pieces]
        return cache.digest(repr(self.books), repr(owners), *(piece.key for piece in self._pieces))

    def read(self, texts: Iterable[str | Book], *, progress: bool) -> None:
        """Copy all texts to the file; DataError if one of them is neither a string nor a book."""
        with self.path.open("wb") as file, progress_bar(label="reading", unit="B", shown=progress) as bar:
            for text in read_texts(texts, tokenised=self.tokenised):
                self.books.append((text.book_id, text.title))
                how = (text.lines, text.tokenised, self.lower)
                for piece in text.pieces:
                    content = utf8(piece)
                    key = cache.digest(str(VERSION), repr(how), content)
                    place = (file.tell(), len(content))
                    self._pieces.append(_Piece(key, len(self.books) - 1, self.path, *place, *how))
                    file.write(content)
                    bar.update(len(content))

    def parts(self, *, workers: int | None, progress: bool) -> Iterator[Part]:
        """Yield the tokens of every piece in order; pieces that were cut before come from disk."""
        store = cache.Cache("corpus-parts", _SCHEMA)
        parallel.run_chunks(
            _store,
            [(piece, store) for piece in self._pieces if not store.path(piece.key).is_file()],
            workers=1 if sum(piece.size for piece in self._pieces) < _FEW else workers,
            progress="tokenising" if progress else None,
            size=_size,
            unit="characters",
        )
        for piece in self._pieces:  # one at a time: a large text is not held in memory
            table = store.get(piece.key)
            if table is None:  # damaged, or removed by another process that made room
                table = _tokenise(piece)
            words, ids, lengths = (column.combine_chunks().values for column in table.columns)
            yield Part(piece.book, words.to_pylist(), ids.to_numpy(), lengths.to_numpy())
        cache.make_room()


def cut_into_pieces(text: str, *, tokenised: bool, size: int = PIECE) -> Iterator[str]:
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


def joined_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines joined to pieces of at least `PIECE` characters, but for the last."""
    pending: list[str] = []
    size = 0
    for line in lines:
        pending.append(line)
        size += len(line) + 1
        if size >= PIECE:
            yield "\n".join(pending)
            pending, size = [], 0
    if pending:
        yield "\n".join(pending)


def _tokenise(piece: _Piece) -> pa.Table:
    """Return the types of a piece, its tokens as indices into them, and the lengths of its sentences."""
    with piece.file.open("rb") as file:
        file.seek(piece.offset)
        text = file.read(piece.size).decode()
    if piece.lines:
        split: Callable[[str], list[str]] = str.split if piece.tokenised else _running
        lines = [words for line in text.split("\n") if (words := split(line))]
        words, ids = _numbered(list(chain.from_iterable(lines)))
        lengths = np.fromiter(map(len, lines), np.uint32)
    else:
        if not piece.tokenised:
            text = wt.without_emphasis(text)
        tokens, paragraphs = wt.tokens_and_paragraphs(text, tokenised=piece.tokenised)
        words, ids = _numbered(tokens)
        kinds = np.frombuffer("".join(map(wt.kind_of_token, words)).encode(), np.uint8)  # of types: quicker
        edges = wt.edges_of_kinds(kinds[ids].tobytes().decode()).union(paragraphs)
        lengths = np.diff(sorted(edges)).astype(np.uint32)
    if piece.lower:  # the types, not each token
        words, places = _numbered([word.lower() for word in words])
        ids = places[ids]
    columns = (pa.array(words, pa.string()), pa.array(ids), pa.array(lengths))
    lists = [pa.ListArray.from_arrays(pa.array([0, len(column)], pa.int32()), column) for column in columns]
    return pa.table(lists, schema=_SCHEMA)


def _running(line: str) -> list[str]:
    """Return the tokens of a line of running text."""
    return wt.tokenize(wt.without_emphasis(line))


def _numbered(tokens: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the types by their first occurrence, and each token as an index into them."""
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    ids = np.fromiter(map(numbers.__getitem__, tokens), np.uint32, len(tokens))
    return list(numbers), ids


def _store(work: tuple[_Piece, cache.Cache]) -> bool:
    """Tokenise a piece and store the result, in the process that computes it."""
    piece, store = work
    store.put(piece.key, _tokenise(piece))
    return True


def _size(work: tuple[_Piece, cache.Cache]) -> int:
    return work[0].size


def utf8(text: str) -> bytes:
    """Return a text in UTF-8, NUL as a blank, as KenLM's programs end a word there."""
    text = text.replace("\0", " ")
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which no file can hold
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
