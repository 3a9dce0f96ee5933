"""Novels and lines taken in, and cut into chapters, sentences and tokens.

The numbers of sentences count all of a text, headings and rules between scenes too, so they are the same for
whatever is made of it: training texts, passages and questions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from workbench.datasets.books import Book, books
from workbench.items import text as wt
from workbench.storage import cache, parallel
from workbench.storage.checksums import sha256
from workbench.storage.errors import DataError
from workbench.storage.progress import progress_bar, report_progress

TOKENISER_VERSION = 3
"""Raised when a text gives other tokens or sentences: those of an earlier version are not used again."""

PROSE, OPENING, HEADING, RULE = range(4)
"""Roles of a sentence: prose, prose that opens a chapter, then a heading, and a rule between scenes."""

PIECE = 1 << 19
"""Characters of a piece of work, or up to twice as many: some 100,000 tokens."""

Novels = str | Path | Book | Iterable[Path | Book]
"""A path, the name of a data set with books, a book, or several; read once, one book at a time."""

_FEW = 1 << 21  # bytes up to which this process does the work: starting others takes a second
_AT_ONCE = 64  # pieces whose tokens are in memory
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
_LINE_END = re.compile(r"\n")
_SENTENCE_MARK = re.compile(r"<(?<![^\s\0]<)/?s>(?![^\s\0])")  # of texts that were made for language models
_SENTENCE_END = "\x1e"  # a line in place of a mark; it is white space
_AHEAD = 64  # characters that a cut may look ahead
_LINES = 1000  # of a text that tell whether its lines are sentences
_BOUNDARY = ord("|")  # between the kinds of tokens of two segments

_NUMBER = r"(?:[IVXLC]+|\d+)\b\.?"
_NUMBERED = rf"(?:(?:CHAPTER|Chapter|BOOK|Book|PART|Part)[ \t]+{_NUMBER})"
_HEADING = rf"[ \t]*(?:\#{{1,6}}[ \t]|{_NUMBERED}|[IVXLC]+\.?[ \t]*$).*\n?"
_HEADING_OR_RULE = re.compile(rf"^(?:(?P<heading>{_HEADING})|[^\S\n]*+(?=\S)(?:[^\w\n]|_)++$)", re.MULTILINE)
# In tokenised text, as the raw text of the Children's Book Test, a heading stands in the line of the first
# sentence, in capitals.
_CAPITALS = r"[A-Z][A-Z'-]+"
_OPENING_LINE = re.compile(
    rf"(?:{_NUMBERED}|[IVXLC]+ (?={_CAPITALS} {_CAPITALS} )|{_CAPITALS}(?: {_CAPITALS})+ (?=[A-Z]))"
)
_TITLE = re.compile(rf"{_NUMBERED}[ .]*")


class TextLayout(NamedTuple):
    """How a text is read."""

    lines: bool  # each line is a sentence, whatever its marks
    tokenised: bool
    line_ends: bool = False  # a line of tokens ends a sentence, as marks do


class Piece(NamedTuple):
    """A piece of a text: the number of its book, its place in the file in bytes, its layout."""

    book: int
    file: Path
    offset: int
    size: int
    layout: TextLayout


class Part(NamedTuple):
    """Consecutive sentences of one book."""

    book: int  # its number
    words: Sequence[str]  # the types that `ids` count in
    ids: np.ndarray  # (tokens,), uint32
    lengths: np.ndarray  # (sentences,): tokens of each, none of them 0
    roles: np.ndarray  # (sentences,), uint8: `PROSE`, `OPENING`, `HEADING` or `RULE`


def checked_texts(texts: Any, *, lines: bool = True) -> Iterator[Any]:
    """Yield the books of novels, and lines where they are allowed: all that takes novels in reads them here.

    `texts` are those of :meth:`workbench.texts.corpus.Corpus.of`; without `lines`, of books only
    :class:`workbench.Book`. DataError if a string alone names no books, something is neither a book nor an
    allowed line, or an id occurs twice.
    """
    if isinstance(texts, str):
        texts, lines = books(texts), False
    is_single = isinstance(texts, Path | bytes) or hasattr(texts, "book_id")
    is_single |= not isinstance(texts, Iterable)
    every = chain.from_iterable(
        books(text) if isinstance(text, Path) else [text] for text in ([texts] if is_single else texts)
    )
    ids: set[str] = set()
    for text in every:
        if isinstance(text, str) and lines:
            yield text
            continue
        content, book_id = getattr(text, "text", None), getattr(text, "book_id", None)
        is_like_book = lines and isinstance(content, str) and isinstance(book_id, str)
        if not (isinstance(text, Book) or is_like_book):
            expected = "a novel or a line of text" if lines else "a novel"
            problem = f"expected {expected}, got {type(text).__name__}: {str(text)[:60]!r}"
            hint = "pass a path or books, such as wb.books(path)" + ", or lines in a list" * lines
            raise DataError(problem, hint=hint)
        if book_id in ids:
            problem = f"the novel {book_id!r} occurs twice"
            raise DataError(problem, hint="pass it once, or rename a file")
        ids.add(str(book_id))
        yield text


def _grouped(texts: Iterable[Any]) -> Iterator[Any]:
    """Yield books, and iterators over lines in a row."""
    for are_lines, group in groupby(texts, lambda text: isinstance(text, str)):
        if are_lines:
            yield group
        else:
            yield from group


def _without_marks(text: str) -> str:
    """Return a text with a line that ends a sentence in place of each ``<s>`` and ``</s>``."""
    return _SENTENCE_MARK.sub(f"\n{_SENTENCE_END}\n", text)


def has_sentence_lines(text: str) -> bool:
    """Return whether most of the first lines of tokens end with a sentence; else they are wrapped."""
    ends = []
    for line in text.split("\n", _LINES)[:_LINES]:
        if tokens := line.split():
            marks = map(wt.kind_of_token, reversed(tokens))
            ends.append(next((mark == "e" for mark in marks if mark != "f"), False))
    return 2 * sum(ends) > len(ends)


class Tokeniser:
    """Copies texts to a file, in pieces that processes cut into tokens.

    The file must exist until all `parts` were read. `tokenised` overrides what books declare. ``books`` has
    id and title of each book (lines in a row are a book "lines"), ``pieces`` the pieces in the order of the
    texts.
    """

    def __init__(self, path: Path, *, tokenised: bool | None = None) -> None:
        self.path, self.tokenised = path, tokenised
        self.books: list[tuple[str, str]] = []
        self.pieces: list[Piece] = []

    @property
    def key(self) -> str:
        """A digest of all that the tokens depend on."""
        layouts = [(piece.book, piece.size, *piece.layout) for piece in self.pieces]
        return cache.digest(str(TOKENISER_VERSION), repr(self.books), repr(layouts), sha256(self.path))

    def read(self, texts: Any) -> None:
        """Copy all texts to the file; the errors are those of `checked_texts`."""
        n_groups = 0
        with self.path.open("wb") as file, progress_bar(label="reading", unit="B") as bar:
            for book in _grouped(checked_texts(texts)):
                if isinstance(book, Iterator):
                    n_groups += 1
                    self.books.append(("lines" if n_groups == 1 else f"lines {n_groups}", ""))
                    layout = TextLayout(lines=True, tokenised=self.tokenised is not False)
                    pieces = joined_lines(map(_without_marks, book))
                else:
                    self.books.append((book.book_id, getattr(book, "title", None) or ""))
                    declared = getattr(book, "tokenised", None)
                    is_tokenised = bool(declared if self.tokenised is None else self.tokenised)
                    text = _without_marks(book.text)
                    has_line_ends = is_tokenised and has_sentence_lines(text)
                    layout = TextLayout(lines=False, tokenised=is_tokenised, line_ends=has_line_ends)
                    pieces = cut_into_pieces(text, layout)
                for piece in pieces:
                    content = utf8(piece)
                    position = (self.path, file.tell(), len(content))
                    self.pieces.append(Piece(len(self.books) - 1, *position, layout))
                    file.write(content)
                    bar.update(len(content))

    def parts(self) -> Iterator[Part]:
        """Yield the tokens of every piece in order, some pieces at a time: a large text is not in memory."""
        total = sum(piece.size for piece in self.pieces)
        with progress_bar(total, label="tokenising", unit="characters") as bar:
            for start in range(0, len(self.pieces), _AT_ONCE):
                pieces, begun = self.pieces[start : start + _AT_ONCE], bar.n
                with report_progress(lambda done, _, begun=begun: bar.update(begun + done - bar.n)):  # type: ignore[misc]
                    blocks = parallel.run_chunks(
                        tokenise, pieces, in_process=total < _FEW, size=lambda piece: piece.size
                    )
                yield from blocks


def prose_sentences(part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return which sentences of a book are prose, and of these the numbers, and the chapters from 0 on."""
    is_prose = part.roles <= OPENING
    chapters = np.isin(part.roles, (HEADING, OPENING)).cumsum()
    return is_prose, np.flatnonzero(is_prose), chapters[is_prose]


def cut_into_pieces(text: str, layout: TextLayout, *, size: int = PIECE) -> Iterator[str]:
    """Cut a text into pieces of `size` to twice as many characters, where sentences end if possible.

    Tokens are cut between sentences of :func:`workbench.items.text.sentences`, or at lines that end one;
    running text after a paragraph. Where there is none, after what looks like a sentence or else at white
    space; text without any stays whole. Pieces joined are the text.
    """
    patterns = (*((_LINE_END,) if layout.line_ends else ()), *_CUTS[layout.tokenised])
    start = 0
    while len(text) - start > 2 * size:
        last = start + 2 * size
        matches = (pattern.search(text, start + size, last + _AHEAD) for pattern in patterns)
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


def segments(text: str, layout: TextLayout) -> Iterator[tuple[int, str]]:
    """Yield the headings of a text, the rules between its scenes, and the prose between them, with roles.

    A heading is one of Markdown, or a line such as ``CHAPTER IV. THE FEAST`` or ``IV``. In tokenised text it
    may stand in the line of the first sentence, as in the raw text of the Children's Book Test, and stays
    there. Running text has no marks of emphasis any more (:func:`workbench.items.text.without_emphasis`).
    """
    if layout.tokenised:
        yield from _token_segments(text, line_ends=layout.line_ends)
        return
    text, end = wt.without_emphasis(text), 0
    for match in _HEADING_OR_RULE.finditer(text):
        yield PROSE, text[end : match.start()]
        yield HEADING if match["heading"] else RULE, match[0]
        end = match.end()
    yield PROSE, text[end:]


def _token_segments(text: str, *, line_ends: bool) -> Iterator[tuple[int, str]]:
    role, lines = PROSE, list[str]()
    for line in text.split("\n"):
        heading = _OPENING_LINE.match(line)
        if lines and (heading or line_ends or line.strip(" ") == _SENTENCE_END):
            yield role, "\n".join(lines)
            role, lines = PROSE, []
        if heading and _TITLE.fullmatch(line.rstrip()):
            yield HEADING, line
            continue
        role = OPENING if heading else role
        lines.append(line)
    yield role, "\n".join(lines)


def n_chapters(text: str, *, tokenised: bool) -> int:
    """Return the number of chapters of a text: each begins at a heading, or with the text, and has prose."""
    n, is_open = 0, False
    for role, segment in segments(text, TextLayout(lines=False, tokenised=tokenised)):
        is_open = is_open and role not in (HEADING, OPENING)
        if role in (PROSE, OPENING) and segment.strip() and not is_open:
            n, is_open = n + 1, True
    return n


def tokenise(piece: Piece) -> Part:
    """Return the tokens of a piece."""
    with piece.file.open("rb") as file:
        file.seek(piece.offset)
        text = file.read(piece.size).decode()
    if not piece.layout.lines:
        return Part(piece.book, *_cut(text, piece.layout))
    split = str.split if piece.layout.tokenised else lambda line: wt.tokenize(wt.without_emphasis(line))
    lines = [words for line in text.split("\n") if (words := split(line))]
    lengths = np.fromiter(map(len, lines), np.uint32)
    return Part(
        piece.book, *_numbered(list(chain.from_iterable(lines))), lengths, np.zeros(len(lengths), np.uint8)
    )


def _cut(text: str, layout: TextLayout) -> tuple[list[str], np.ndarray, np.ndarray, np.ndarray]:
    """Return types, ids, and the lengths and roles of sentences; no sentence crosses a border of segments."""
    tokens: list[str] = []
    starts, segment_roles, paragraphs = list[int](), list[int](), list[int]()
    for role, segment in segments(text, layout):
        pieces, blanks = wt.tokens_and_paragraphs(segment, tokenised=layout.tokenised)
        if pieces:
            starts.append(len(tokens))
            segment_roles.append(role)
            paragraphs += [len(tokens) + blank for blank in blanks]
            tokens += pieces
    words, ids = _numbered(tokens)
    type_kinds = np.frombuffer("".join(map(wt.kind_of_token, words)).encode(), np.uint8)  # fewer than tokens
    inner = np.array(starts[1:], np.int64)
    marked = np.insert(type_kinds[ids], inner, _BOUNDARY)
    ends = np.array(sorted(wt.edges_of_kinds(marked.tobytes().decode())), np.int64)
    ends -= np.searchsorted(inner + np.arange(len(inner)), ends, side="left")
    edges = np.unique(np.concatenate([ends, starts, paragraphs]).astype(np.int64))
    lengths = np.diff(edges).astype(np.uint32)
    owners = np.searchsorted(starts, edges[:-1], side="right") - 1
    roles = np.array(segment_roles, np.uint8)[owners]
    roles[(roles == OPENING) & ~np.isin(edges[:-1], starts)] = PROSE  # but the first sentence
    return words, ids, lengths, roles


def _numbered(tokens: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Return the types by their first occurrence, and each token as an index into them."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    ids = np.fromiter(map(numbers.__getitem__, tokens), np.uint32, len(tokens))
    return list(numbers), ids


def utf8(text: str) -> bytes:
    """Return a text in UTF-8, NUL as a blank, as KenLM's programs end a word there."""
    text = text.replace("\0", " ")
    try:
        return text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which no file can hold
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
