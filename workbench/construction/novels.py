"""Novels as chapters of tagged sentences, for questions to be made from; and which novels may be used."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.analysis import tagging
from workbench.datasets import sources
from workbench.datasets.books import Book
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.tokens import readable_tokens
from workbench.storage import cache, files
from workbench.storage.errors import DataError
from workbench.storage.parallel import run_chunks
from workbench.storage.parquet import read_parquet
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import lines_or_books
from workbench.texts.overlap import held_out_books

if TYPE_CHECKING:
    from distributed import Client
    from tqdm import tqdm

Floats = npt.NDArray[np.float64]
Novels = str | Path | Book | Iterable[Path | Book]
"""A path, the name of a data set with books, a book, or several; read once, one book at a time."""

VERSION = 2
"""Raised when a novel gives other chapters, sentences or tags: those of an earlier version are not used."""

_SCHEMA = pa.schema({"chapter": pa.int32(), "words": pa.string(), "tags": pa.string()})
_DOCUMENT = 20  # sentences that are tagged as one document
_LITTLE = 1_000_000  # words that are tagged in this process: others take seconds to start
_AT_ONCE = 64  # novels whose words and tags are in memory
_NAMED = 5  # books in a message
_LETTERS = dict(zip(tagging.UPOS, map(chr, range(ord("a"), ord("z"))), strict=False))  # one letter a tag
_TAGS = {letter: tag for tag, letter in _LETTERS.items()}

_NUMBER = r"(?:[IVXLC]+|\d+)\b\.?"
_NUMBERED = rf"(?:(?:CHAPTER|Chapter|BOOK|Book|PART|Part)[ \t]+{_NUMBER})"
_HEADING = re.compile(rf"^[ \t]*(?:\#{{1,6}}[ \t]|{_NUMBERED}|[IVXLC]+\.?[ \t]*$).*\n?", re.MULTILINE)
_RULE = re.compile(r"^(?:[^\w\n]|_)++$", re.MULTILINE)  # of stars or dashes, between scenes
# In the raw text of the release a heading stands in the line of the first sentence, in capitals.
_CAPITALS = r"[A-Z][A-Z'-]+"
_OPENING = re.compile(
    rf"(?:{_NUMBERED}|[IVXLC]+ (?={_CAPITALS} {_CAPITALS} )|{_CAPITALS}(?: {_CAPITALS})+ (?=[A-Z]))"
)
_TITLE = re.compile(rf"{_NUMBERED}[ .]*")


class Chapter(NamedTuple):
    """A chapter: the number of its first sentence in the novel, and words and tags (UPOS) by sentence."""

    first: int
    words: list[list[str]]
    tags: list[list[str]]


class Novel(NamedTuple):
    """A novel by chapters."""

    book_id: str
    chapters: list[Chapter]


@dataclass
class TaggedNovels:
    """Tagged novels on disk: each iteration reads them again, one at a time.

    Attributes
    ----------
    files : dict
        The Parquet file of each novel, by its id.
    attrs : dict
        What items made of them note: the pipeline, the number of novels and words, and the novels dropped.
    """

    files: dict[str, Path] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Novel]:
        for book_id, path in self.files.items():
            yield _novel(book_id, read_parquet(path))


def checked_novels(novels: Any, *, with_lines: bool = False) -> Iterator[Any]:
    """Yield novels, and lines where they are allowed; DataError for others, or an id that occurs twice."""
    ids: set[str] = set()
    for book in lines_or_books(novels):
        if isinstance(book, Book):
            if book.book_id in ids:
                problem = f"the novel {book.book_id!r} occurs twice"
                raise DataError(problem, remedy="pass it once, or rename a file")
            ids.add(book.book_id)
        elif not (with_lines and isinstance(book, str)):
            expected = "a novel or a sentence" if with_lines else "a novel"
            problem = f"expected {expected}, got {type(book).__name__}: {str(book)[:60]!r}"
            raise DataError(problem, remedy="pass a path or books, such as wb.books(path)")
        yield book


@contextmanager
def tagged_novels(
    novels: Novels,
    *,
    pipeline: str | Path = "en_narrative",
    held_out: Items | None = None,
    on_overlap: str = "raise",
    workers: int | None = None,
    client: Client | None = None,
    progress: bool = True,
) -> Iterator[TaggedNovels]:
    """Read novels, cut them into chapters and sentences, and tag every sentence once.

    Parameters
    ----------
    novels : Novels
    pipeline : str or Path
        See :func:`workbench.analysis.tagging.find_pipeline`. Tags are stored in ``cache/tagged-novels``.
    held_out : Items, optional
        Items to be tested on. No novel that they come from may be used
        (see :func:`workbench.texts.overlap.held_out_books`).
    on_overlap : {"raise", "drop"}
        What to do with such novels.
    workers, client
        Who tags them: so many processes (by default all cores, or this process where it is little work), or
        a Dask cluster that has the same version of the project and of the pipeline.
    progress : bool

    Raises
    ------
    DataError
        If there is no novel, an id occurs twice, or a novel is held out and `on_overlap` is "raise".
    """
    sources.choose("mode", on_overlap, ("raise", "drop"), "on_overlap")
    tagger = _Tagger(pipeline)
    with files.scratch_folder(tagger.store.folder) as scratch:
        result = TaggedNovels()
        words = tagger.read(novels, result.files, scratch, progress=progress)
        dropped: list[str] = []
        if held_out is None:
            deque(words, maxlen=0)
        else:
            books, n, _ = held_out_books(held_out, words, progress=False)
            dropped = books["book_id"].tolist()
            if dropped and on_overlap == "raise":
                raise _overlapping(books, n, len(held_out))
        for book_id in dropped:
            del result.files[book_id]
        if not result.files:
            raise DataError("there is no novel to make questions from", remedy="pass a path or books")
        n_words = tagger.tag(result.files, workers=workers, client=client, progress=progress)
        result.attrs = {"pipeline": tagger.source.label, "books": len(result.files), "words": n_words}
        if held_out is not None:
            result.attrs |= {"held_out": len(held_out), "dropped_books": dropped}
        yield result


class _Tagger:
    """Cuts and tags novels with one pipeline; what was tagged before comes from the cache."""

    def __init__(self, pipeline: str | Path) -> None:
        self.source = tagging.find_pipeline(pipeline)
        self.store = cache.Cache("tagged-novels", _SCHEMA)
        self._identity = cache.digest(str(VERSION), self.source.label, self.source.identity)
        self._keys: dict[str, str] = {}  # in the cache, of the novels still to be tagged
        self._sizes: dict[str, int] = {}  # words of all novels

    def read(
        self, novels: Novels, paths: dict[str, Path], folder: Path, *, progress: bool
    ) -> Iterator[tuple[str, list[str]]]:
        """Write each novel to the folder, tagged or not; add its path; yield its id and words."""
        with progress_bar(label="reading novels", unit="words", shown=progress) as bar:
            for book in checked_novels(novels):
                key = cache.digest(self._identity, str(book.tokenised), book.text)
                if (table := self.store.get(key)) is None:
                    table = _cut(book)
                    self._keys[book.book_id] = key
                paths[book.book_id] = folder / f"{len(paths)}.parquet"
                pq.write_table(table, paths[book.book_id], compression="zstd")
                words = " ".join(table["words"].to_pylist()).split()
                self._sizes[book.book_id] = len(words)
                bar.update(len(words))
                yield book.book_id, words

    def tag(
        self,
        paths: dict[str, Path],
        *,
        workers: int | None = 1,
        client: Client | None = None,
        progress: bool,
    ) -> int:
        """Tag the novels that are not in the cache; return the number of words of all."""
        total = sum(self._sizes[book_id] for book_id in paths)
        left = [book_id for book_id in paths if book_id in self._keys]
        words = sum(self._sizes[book_id] for book_id in left)
        if workers is None and words <= _LITTLE:
            workers = 1
        label = f"tagging ({self.source.label})"
        with progress_bar(total, label=label, unit="words", initial=total - words, shown=progress) as bar:
            for start in range(0, len(left), _AT_ONCE):
                part = left[start : start + _AT_ONCE]
                tables = run_chunks(
                    _tagged,
                    [(read_parquet(paths[book_id]), self.source.name) for book_id in part],
                    keys=[self._keys[book_id] for book_id in part],
                    store=self.store,
                    workers=workers,
                    client=client,
                    progress=_update(bar),
                    size=lambda chunk: sum(len(row.split()) for row in chunk[0]["words"].to_pylist()),
                )
                for book_id, table in zip(part, tables, strict=True):
                    pq.write_table(table, paths[book_id], compression="zstd")
        cache.make_room()
        return total


def _update(bar: tqdm[Any]) -> Callable[[int, int], None]:
    """Return a callback that is told how much of a part is done, and moves a bar that others move, too."""
    done = 0

    def update(now: int, _: int) -> None:
        nonlocal done
        bar.update(now - done)
        done = now

    return update


def _cut(book: Book) -> pa.Table:
    """Cut a novel into chapters and sentences, without tags."""
    chapters, words = [], []
    for number, sentences in enumerate(chapters_of(book)):
        chapters += [number] * len(sentences)
        words += [" ".join(sentence) for sentence in sentences]
    return pa.table([chapters, words, [""] * len(words)], _SCHEMA)


def _tagged(chunk: tuple[pa.Table, str]) -> pa.Table:
    """Tag every sentence of a novel with a pipeline, some at a time as one document."""
    table, pipeline = chunk
    sentences = [words.split() for words in table["words"].to_pylist()]
    starts = range(0, len(sentences), _DOCUMENT)
    documents = [readable_tokens(list(chain(*sentences[start : start + _DOCUMENT]))) for start in starts]
    tags, _ = tagging.tag(tagging.load(pipeline), documents, [None] * len(documents))
    letters = (_LETTERS[tag] for tag in chain(*tags))
    column = pa.array(["".join(islice(letters, len(sentence))) for sentence in sentences], pa.string())
    return pa.table([table["chapter"], table["words"], column], _SCHEMA)


def _novel(book_id: str, table: pa.Table) -> Novel:
    chapters: list[Chapter] = []
    rows = zip(*(table[name].to_pylist() for name in _SCHEMA.names), strict=True)
    for _, group in groupby(enumerate(rows), key=lambda row: row[1][0]):
        part = list(group)
        words = [row[1].split() for _, row in part]
        chapters.append(Chapter(part[0][0], words, [[_TAGS[letter] for letter in row[2]] for _, row in part]))
    return Novel(book_id, chapters)


def chapters_of(book: Book) -> list[list[list[str]]]:
    """Cut a novel into chapters, these into sentences, and these into Treebank tokens.

    A chapter begins at a heading: of Markdown, or a line such as ``CHAPTER IV. THE FEAST`` or ``IV``. In
    tokenised text a line ends a sentence, and a heading may stand in the line of the first sentence, as in
    the raw text of the Children's Book Test; it stays there then. In running text, rules are left out
    and marks of emphasis are taken off the words, by :func:`workbench.items.text.without_emphasis`.
    """
    parts = chapter_texts(book.text, tokenised=book.tokenised)
    if book.tokenised:
        cut = [list(chain.from_iterable(map(wt.sentence_tokens, part.splitlines()))) for part in parts]
    else:
        cut = [wt.sentence_tokens(part, tokenised=False) for part in parts]
    return [chapter for chapter in cut if chapter]


def chapter_texts(text: str, *, tokenised: bool) -> list[str]:
    """Cut the text of a novel into chapters, as `chapters_of` finds them; some may be empty."""
    if not tokenised:
        return _HEADING.split(wt.without_emphasis(_RULE.sub("", text)))
    parts: list[list[str]] = [[]]
    for line in text.splitlines(keepends=True):
        if heading := _OPENING.match(line):
            parts.append([])
        if not (heading and _TITLE.fullmatch(line.rstrip())):
            parts[-1].append(line)
    return list(map("".join, parts))


def _overlapping(books: pd.DataFrame, n: int, n_items: int) -> DataError:
    names = "; ".join(f"{name}: {count:,}" for name, count in books.head(_NAMED).itertuples(index=False))
    others = f" and {len(books) - _NAMED:,} more" if len(books) > _NAMED else ""
    return DataError(
        f"{len(books):,} of the novels hold books that the {n_items:,} items to be tested on come from"
        f" (by {n}-grams; novel and items): {names}{others}",
        remedy='leave them out, or pass on_overlap="drop"',
    )


def keys(seed: int, book_id: str, part: str, n: int) -> Floats:
    """Return a random number below 1 for each of `n` places in a novel, which depends on no other novel."""
    return np.random.default_rng(seed_of(seed, book_id, part)).random(n)


def seed_of(*parts: Any) -> int:
    """Return a number below 2**64 that stands for its parts, to seed a generator."""
    return int(cache.digest(*map(str, parts))[:16], 16)


def threshold(parts: Iterable[Floats], n: int | None) -> float:
    """Return the highest of the `n` lowest keys, 1 if there are no more than `n` or `n` is null.

    At most `n` keys and those of one novel are in memory.
    """
    if n is None:
        return 1.0
    lowest: Floats = np.zeros(0)
    for part in parts:
        lowest = np.concatenate([lowest, part])
        if len(lowest) > n:
            lowest = np.partition(lowest, n)[: n + 1]  # one more tells that there are more
    return 1.0 if len(lowest) <= n else float(np.sort(lowest)[n - 1]) if n else -1.0


def split(novels: Novels, *, share: float = 0.1, seed: int = 0) -> tuple[list[Book], list[Book]]:
    """Split novels into those to train on and those to validate on, drawn at random.

    Which part a novel is in depends on the seed and the ids of all novels, and not on their order.

    Parameters
    ----------
    novels : path, str, or iterable of books
        As for :func:`workbench.construction.childrens_book.questions`. All are held in memory.
    share : float, default 0.1
        Share of the novels to validate on: at least one, and not all.
    seed : int, default 0

    Returns
    -------
    train, validation : list of Book

    Raises
    ------
    DataError
        If there are fewer than two novels, or an id occurs twice.

    Examples
    --------
    >>> from workbench import construction
    >>> train, validation = construction.split("sample", share=0.2)
    >>> len(train), len(validation)
    (16, 4)
    """
    books = list(checked_novels(novels))
    if len(books) < 2:  # noqa: PLR2004 - one to train on, one to validate on
        raise DataError(f"expected two novels or more to split, got {len(books)}", remedy="pass more novels")
    n = min(len(books) - 1, max(1, round(share * len(books))))
    drawn = {book.book_id for book in sorted(books, key=lambda book: seed_of(seed, book.book_id))[:n]}
    return [b for b in books if b.book_id not in drawn], [b for b in books if b.book_id in drawn]
