"""Novels as chapters of tagged sentences, for questions to be made from; and which novels may be used."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from workbench.items.items import Items
from workbench.items.tokens import readable_tokens
from workbench.storage import cache, files
from workbench.storage.errors import DataError
from workbench.storage.files import read_parquet
from workbench.storage.parallel import run_chunks
from workbench.storage.progress import progress_bar, report_progress
from workbench.texts.corpus import Corpus
from workbench.texts.overlap import held_out_books
from workbench.texts.tokenise import Novels, Part, checked_texts, prose_sentences

if TYPE_CHECKING:
    from tqdm import tqdm

Floats = npt.NDArray[np.float64]

NOVELS_VERSION = 3
"""Raised when a novel gives other chapters, sentences or tags: those of an earlier version are not used."""

_SCHEMA = pa.schema(
    {"chapter": pa.int32(), "sentence": pa.int32(), "words": pa.string(), "tags": pa.string()}
)
_DOCUMENT = 20  # sentences that are tagged as one document
_LITTLE = 1_000_000  # words that are tagged in this process: others take seconds to start
_AT_ONCE = 64  # novels whose words and tags are in memory
_NAMED = 5  # books in a message
_LETTERS = dict(zip(tagging.UPOS, map(chr, range(ord("a"), ord("z"))), strict=False))  # one letter a tag
_TAGS = {letter: tag for tag, letter in _LETTERS.items()}


class Chapter(NamedTuple):
    """A chapter: the numbers of its sentences in the novel, their words and tags (UPOS)."""

    numbers: list[int]
    words: list[list[str]]
    tags: list[list[str]]


class Novel(NamedTuple):
    """A novel by chapters."""

    book_id: str
    chapters: list[Chapter]


@dataclass
class TaggedNovels:
    """Tagged novels on disk: each iteration reads them again, one at a time."""

    files: dict[str, Path]  # Parquet files by id: those of the cache, linked
    attrs: dict[str, Any]  # of items made of them: pipeline, counts, dropped

    def __iter__(self) -> Iterator[Novel]:
        for book_id, path in self.files.items():
            yield _novel(book_id, read_parquet(path))

    def shown(self) -> Iterator[Novel]:
        """Yield the novels that questions are made of, with a bar."""
        total = len(self.files)
        with progress_bar(total, label="making questions", unit="novels") as bar:
            for novel in self:
                yield novel
                bar.update()


@contextmanager
def tagged_novels(
    novels: Novels,
    *,
    pipeline: str | Path = "en_narrative",
    held_out: Items | None = None,
    on_overlap: str = "raise",
) -> Iterator[TaggedNovels]:
    """Read novels, cut them into chapters and sentences, and tag every sentence once.

    DataError if there is no novel, an id occurs twice, or a novel is held out and `on_overlap` is "raise".

    Parameters are those of :func:`workbench.construction.childrens_book.questions`; tags are stored in
    ``cache/tagged-novels``.
    """
    sources.check_choice("mode", on_overlap, ("raise", "drop"), "on_overlap")
    tagger = _Tagger(pipeline)
    corpus = Corpus.of(checked_texts(novels, lines=False), lower=False)
    with files.temporary_folder(tagger.store.folder) as scratch:
        dropped: list[str] = []
        if held_out is not None:
            books, n, _ = held_out_books(held_out, corpus)
            dropped = books["book_id"].tolist()
            if dropped and on_overlap == "raise":
                rows = books.head(_NAMED).itertuples(index=False)
                names = "; ".join(f"{name}: {count:,}" for name, count in rows)
                others = f" and {len(books) - _NAMED:,} more" if len(books) > _NAMED else ""
                raise DataError(
                    f"{len(books):,} of the novels hold books that the {len(held_out):,} items to be tested"
                    f" on come from (by {n}-grams; novel and items): {names}{others}",
                    hint='leave them out, or pass on_overlap="drop"',
                )
        remaining = corpus.books[~corpus.books["book_id"].isin(dropped)]
        if not len(remaining):
            raise DataError("there is no novel to make questions from", hint="pass a path or books")
        tagged = tagger.tag(corpus, remaining, scratch)
        n_words = int(remaining["tokens"].sum())
        attrs = {"pipeline": tagger.source.label, "books": len(tagged), "words": n_words}
        if held_out is not None:
            attrs |= {"held_out": len(held_out), "dropped_books": dropped}
        yield TaggedNovels(tagged, attrs)


class _Tagger:
    """Tags novels with one pipeline; what was tagged before comes from the cache."""

    def __init__(self, pipeline: str | Path) -> None:
        self.source = tagging.find_pipeline(pipeline)
        self.store = cache.Cache("tagged-novels", _SCHEMA)
        self._identity = cache.digest(str(NOVELS_VERSION), self.source.label, self.source.identity)

    def tag(self, corpus: Corpus, books: pd.DataFrame, folder: Path) -> dict[str, Path]:
        """Tag novels of a corpus that are not in the cache; return links in the folder to all files."""
        sizes = dict(zip(books["book_id"], books["tokens"].tolist(), strict=True))
        rows = dict(zip(books["book_id"], books.index.tolist(), strict=True))
        keys = {book_id: self._key(corpus.book_part(row)) for book_id, row in rows.items()}
        paths = {book_id: folder / f"{row}.parquet" for book_id, row in rows.items()}
        untagged = [book_id for book_id in rows if not self._link(keys[book_id], paths[book_id])]
        total, words = (sum(sizes[book_id] for book_id in group) for group in (rows, untagged))
        label = f"tagging ({self.source.label})"
        with progress_bar(total, label=label, unit="words", initial=total - words) as bar:
            for start in range(0, len(untagged), _AT_ONCE):
                batch = untagged[start : start + _AT_ONCE]
                with report_progress(_update(bar)):
                    tables = run_chunks(
                        _tagged,
                        [
                            (_sentence_table(corpus.book_part(rows[book_id])), self.source.name)
                            for book_id in batch
                        ],
                        keys=[keys[book_id] for book_id in batch],
                        store=self.store,
                        in_process=words <= _LITTLE or tagging.stays_in_process(self.source.name),
                        label=label,
                        size=lambda chunk: sum(len(row.split()) for row in chunk[0]["words"].to_pylist()),
                    )
                for book_id, table in zip(batch, tables, strict=True):
                    if not self._link(keys[book_id], paths[book_id]):  # another process made room
                        pq.write_table(table, paths[book_id])
        cache.make_room()
        return paths

    def _key(self, part: Part) -> str:
        arrays = (part.ids.tobytes(), part.lengths.astype(np.int64).tobytes(), part.roles.tobytes())
        return cache.digest(self._identity, *arrays, *part.words)

    def _link(self, key: str, path: Path) -> bool:
        """Link the table of a novel to a path, where the bound of the cache does not remove it."""
        if self.store.get(key) is None:
            return False
        try:
            path.hardlink_to(self.store.path(key))
        except OSError:  # a disk without links
            shutil.copyfile(self.store.path(key), path)
        return True


def _update(bar: tqdm[Any]) -> Callable[[float, float], None]:
    """Return a callback that adds the progress of a batch to a shared bar."""
    done = 0.0

    def update(now: float, _: float) -> None:
        nonlocal done
        bar.update(now - done)
        done = now

    return update


def _sentence_table(part: Part) -> pa.Table:
    """Return the sentences of a novel's prose by chapters, without tags."""
    is_prose, numbers, chapters = prose_sentences(part)
    tokens = [part.words[id_] for id_ in part.ids.tolist()]
    ends = part.lengths.cumsum()
    bounds = zip((ends - part.lengths)[is_prose].tolist(), ends[is_prose].tolist(), strict=True)
    words = [" ".join(tokens[start:end]) for start, end in bounds]
    return pa.table([chapters.astype(np.int32), numbers.astype(np.int32), words, [""] * len(words)], _SCHEMA)


def _tagged(chunk: tuple[pa.Table, str]) -> pa.Table:
    """Tag every sentence of a novel with a pipeline, some at a time as one document."""
    table, pipeline = chunk
    sentences = [words.split() for words in table["words"].to_pylist()]
    starts = range(0, len(sentences), _DOCUMENT)
    documents = [readable_tokens(list(chain(*sentences[start : start + _DOCUMENT]))) for start in starts]
    tags, _ = tagging.tag(tagging.load(pipeline), documents, [None] * len(documents))
    letters = (_LETTERS[tag] for tag in chain(*tags))
    column = pa.array(["".join(islice(letters, len(sentence))) for sentence in sentences], pa.string())
    return pa.table([table["chapter"], table["sentence"], table["words"], column], _SCHEMA)


def _novel(book_id: str, table: pa.Table) -> Novel:
    chapters: list[Chapter] = []
    rows = zip(*(table[name].to_pylist() for name in _SCHEMA.names), strict=True)
    for _, group in groupby(rows, key=lambda row: row[0]):
        _, numbers, words, tags = zip(*group, strict=True)
        sentences = [[_TAGS[letter] for letter in row] for row in tags]
        chapters.append(Chapter(list(numbers), [row.split() for row in words], sentences))
    return Novel(book_id, chapters)


def keys(seed: int, book_id: str, purpose: str, n: int) -> Floats:
    """Return a random number below 1 for each of `n` places in a novel, which depends on no other novel."""
    return np.random.default_rng(seed_of(seed, book_id, purpose)).random(n)


def seed_of(*values: Any) -> int:
    """Return a 64-bit seed derived from a hash of the values."""
    return int(cache.digest(*map(str, values))[:16], 16)


def threshold(groups: Iterable[Floats], n: int) -> float:
    """Return the highest of the `n` lowest keys, 1 if there are no more; `n` and a novel's are in memory."""
    lowest: Floats = np.zeros(0)
    for group in groups:
        lowest = np.concatenate([lowest, group])
        if len(lowest) > n:
            lowest = np.partition(lowest, n)[: n + 1]  # one more tells that there are more
    return 1.0 if len(lowest) <= n else float(np.sort(lowest)[n - 1])


def split(novels: Novels, *, share: float = 0.1, seed: int = 0) -> tuple[list[Book], list[Book]]:
    """Split novels into those to train on and those to validate on, drawn at random.

    Which part a novel is in depends on the seed and the ids of all novels, and not on their order. DataError
    if there are fewer than two novels, or an id occurs twice.

    Parameters
    ----------
    novels : path, str, or iterable of books
        As for :func:`workbench.construction.childrens_book.questions`. All are held in memory.
    share, seed : float, int
        Share of the novels to validate on: at least one, and not all; and the seed of the draw.

    Returns
    -------
    train, validation : list of Book

    Examples
    --------
    >>> from workbench import construction
    >>> train, validation = construction.split("sample", share=0.2)
    >>> len(train), len(validation)
    (16, 4)
    """
    books = [book for book in checked_texts(novels, lines=False) if isinstance(book, Book)]
    if len(books) < 2:  # noqa: PLR2004 - one to train on, one to validate on
        raise DataError(f"expected two novels or more to split, got {len(books)}", hint="pass more novels")
    n = min(len(books) - 1, max(1, round(share * len(books))))
    drawn = {book.book_id for book in sorted(books, key=lambda book: seed_of(seed, book.book_id))[:n]}
    return [b for b in books if b.book_id not in drawn], [b for b in books if b.book_id in drawn]
