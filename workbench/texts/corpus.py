"""A training text as ids on disk: tokenised once, then read from disk for the same texts."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from weakref import WeakSet

import numpy as np
import pandas as pd

from workbench.datasets.books import Book
from workbench.storage import cache, files, paths
from workbench.storage.checksums import sha256
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_parquet
from workbench.texts.tokenise import Part, Tokeniser

CORPUS_VERSION = 2
"""Version of the files' format."""

MANIFEST = "manifest.json"
IDS, STARTS, COUNTS, WORDS, BOOKS = "ids.u32", "starts.i64", "counts.i64", "words.txt", "books.parquet"
ROLES = "roles.u8"

UNKNOWN_MARKS = frozenset({"<unk>", "<UNK>"})
RESERVED = UNKNOWN_MARKS | {"<s>", "</s>"}
"""Words with a special meaning in KenLM."""

_LINES = 1 << 18  # tokens that are written as lines at a time
_BLOCK = 1 << 22  # ids that are renumbered at a time


class Corpus:
    """A tokenised text on disk.

    Parameters
    ----------
    folder : Path
        Folder of its files, as :meth:`of` writes them.
    name : str
        Name in messages.

    Attributes
    ----------
    words : list of str
        All types by descending count, then by code points. None contains white space or NUL.
    counts : int64 array (types,)
    ids : uint32 array (tokens,)
        The text as indices into `words`; mapped into memory.
    starts : int64 array (sentences + 1,)
        Where each sentence starts in `ids`, and the end. No sentence is empty.
    roles : uint8 array (sentences,)
        ``PROSE``, ``OPENING``, ``HEADING`` or ``RULE`` of :mod:`workbench.texts.tokenise`.
    books : pandas.DataFrame
        ``book_id``, ``title``, ``first`` (index of its first sentence), ``sentences``, ``tokens``. Lines
        that came as strings are a book ``lines``.
    lower : bool
        Whether the words were lower-cased.
    sha256 : str
        Digest of the content: ids, words, where sentences and books begin.
    """

    def __init__(self, folder: Path, name: str = "") -> None:
        content = _read_manifest(folder)
        if content is None:
            raise DataError("there is no corpus here, or it was changed", file=folder, hint="make it again")
        self.folder, self.name = folder, name
        cache.touch(folder)
        with reading(folder, "this corpus", hint="make it again"):
            self.lower, self.sha256 = bool(content["lower"]), str(content["sha256"])
            self.words = (folder / WORDS).read_bytes().decode().split("\n")
            self.counts = np.fromfile(folder / COUNTS, "<i8")
            self.starts = np.fromfile(folder / STARTS, "<i8")
            self.roles = np.fromfile(folder / ROLES, "|u1")
            self.ids = np.memmap(folder / IDS, "<u4", "r")
            self.books = read_parquet(folder / BOOKS).to_pandas()
        _IN_USE.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.folder, self.name)

    def __repr__(self) -> str:
        sizes = f"{self.n_tokens:,} tokens, {len(self.words):,} types, {self.n_sentences:,} sentences"
        return f"Corpus({self.name!r}, {sizes}, {len(self.books):,} books)"

    @property
    def n_tokens(self) -> int:
        """Number of tokens."""
        return len(self.ids)

    @property
    def n_sentences(self) -> int:
        """Number of sentences."""
        return len(self.starts) - 1

    @classmethod
    def of(
        cls,
        texts: Texts,
        *,
        lower: bool = True,
        tokenised: bool | None = None,
        name: str = "",
    ) -> Corpus:
        """Return the corpus of texts; tokenise them if they are new.

        A run that was killed continues where it stopped. Later runs only read and hash the texts.

        Parameters
        ----------
        texts : Corpus, path, str, book, or iterable of (str, path or book)
            A path, or a string alone, is a file, folder or archive of books, or the name of a data set, read
            as :func:`workbench.books` does. In an iterable a string is a line of text, one sentence of words
            separated by white space. A book is a :class:`workbench.Book`, or anything with ``text``,
            ``tokenised``, ``book_id`` and ``title``; its sentences are those of
            :func:`workbench.items.text.sentences`. None crosses a heading, a rule between scenes, or, where
            most lines of tokens end with a sentence, a line. The marks ``<s>`` and ``</s>`` are boundaries of
            sentences; a warning says how many words are ``<unk>``. Texts are read once, one at a time. Marks
            of emphasis are taken off running text before it is tokenised, by
            :func:`workbench.items.text.without_emphasis`.
        lower : bool, default True
            Lower-case the tokens.
        tokenised : bool, optional
            Overrides what the texts declare. False also tokenises lines, by
            :func:`workbench.items.text.tokenize`, without their marks of emphasis; lines and books of tokens
            keep theirs.
        name : str
            Name of the corpus in messages.

        Returns
        -------
        Corpus
            NUL counts as white space, and an unpaired surrogate becomes U+FFFD. Books longer than about
            500,000 characters are split at the end of a paragraph (of a line, if tokenised), which also ends
            an open straight quotation.

        Raises
        ------
        DataError
            If the texts contain no word, one cannot be read or is neither a string nor a book, an id occurs
            twice, or the disk is full.
        """
        if isinstance(texts, Corpus):
            return texts
        home = paths.cache_home() / "corpus"
        with files.temporary_folder(home) as scratch:
            tokeniser = Tokeniser(scratch / "texts", tokenised=tokenised)
            tokeniser.read(texts)
            folder = home / cache.digest(tokeniser.key, str(lower))
            corpus = None
            with contextlib.suppress(DataError):  # not there yet, or damaged
                corpus = cls(folder, name)
            if corpus is None:
                blocks = tokeniser.parts()
                _write(folder, blocks, tokeniser.books, lower=lower)
                corpus = cls(folder, name)
        cache.make_room()
        n_unknown = sum(corpus.counts[corpus.words.index(mark)] for mark in UNKNOWN_MARKS & set(corpus.words))
        if n_unknown:
            warnings.warn(
                f"{n_unknown:,} of the {corpus.n_tokens:,} words of the text are <unk>: which words these "
                "were is lost, so probabilities and perplexities of unknown words mean little",
                stacklevel=2,
            )
        return corpus

    @classmethod
    def find(cls, wanted: Callable[[str, bool], bool]) -> Corpus | None:
        """Return a corpus that is in use or in the cache, None if there is none.

        `wanted` takes `sha256` and `lower` of a corpus, and says whether it is the one.
        """
        for corpus in list(_IN_USE):
            if wanted(corpus.sha256, corpus.lower):
                return corpus
        with contextlib.suppress(DataError):
            for folder in files.list_folder(paths.cache_home() / "corpus"):
                with contextlib.suppress(DataError), reading(folder):
                    content = files.read_json(folder / MANIFEST)
                    if wanted(str(content["sha256"]), bool(content["lower"])):
                        return cls(folder)
        return None

    def lines(self, vocabulary: Collection[str] | None = None) -> Iterator[str]:
        """Yield the sentences, words joined by blanks, as ``lmplz`` reads them.

        Words outside the vocabulary, and always those that KenLM reserves, become ``<unk>``.
        """
        wanted = None if vocabulary is None else set(vocabulary)
        is_listed = (word not in RESERVED and (wanted is None or word in wanted) for word in self.words)
        types = [word if listed else "<unk>" for word, listed in zip(self.words, is_listed, strict=True)]
        table = np.array([*types, "\n"], dtype=object)
        first = 0
        while first < self.n_sentences:
            start = self.starts[first]
            last = max(first + 1, int(np.searchsorted(self.starts, start + _LINES, "right")) - 1)
            ids = self.ids[start : self.starts[last]].astype(np.int64)
            ids = np.insert(ids, self.starts[first + 1 : last + 1] - start, len(self.words))
            yield from " ".join(table[ids]).removesuffix(" \n").split(" \n ")
            first = last

    def vocabulary(self, n: int | None = 60_000) -> list[str]:
        """Return the most frequent words, at most `n`, without those that KenLM reserves."""
        return [word for word in self.words if word not in RESERVED][:n]

    def without(self, book_ids: str | Collection[str]) -> Corpus:
        """Return the corpus without some of its books; it is stored on disk too.

        Raises
        ------
        DataError
            If there is no book with such an id, or none is left.
        """
        removed = {book_ids} if isinstance(book_ids, str) else set(book_ids)
        if unknown := sorted(removed - set(self.books["book_id"])):
            problem = f"there is no book {unknown[0]!r} in this corpus"
            raise DataError(problem, file=self.folder, hint="corpus.books lists them")
        remaining = self.books[~self.books["book_id"].isin(removed)]
        if len(remaining) == len(self.books):
            return self
        names = list(zip(remaining["book_id"], remaining["title"], strict=True))
        rows = remaining.index.to_numpy().astype("<i8").tobytes()
        content = (self.sha256, self.roles.tobytes(), str(self.lower))
        key = cache.digest("without", str(CORPUS_VERSION), *content, repr(names), rows)
        folder = paths.cache_home() / "corpus" / key
        if _read_manifest(folder) is None:
            _write(folder, self._of_books(remaining), names, lower=self.lower)
        return Corpus(folder, self.name)

    def book_part(self, row: int) -> Part:
        """Return the sentences of the book in a row of `books`, with no types but its own."""
        first, n = self.books[["first", "sentences"]].iloc[row].tolist()
        starts = self.starts[first : first + n + 1]
        used, ids = np.unique(self.ids[starts[0] : starts[-1]], return_inverse=True)
        words = [self.words[number] for number in used.tolist()]
        return Part(row, words, ids.astype(np.uint32), np.diff(starts), self.roles[first : first + n])

    def _of_books(self, books: pd.DataFrame) -> Iterator[Part]:
        for number, (first, n) in enumerate(books[["first", "sentences"]].itertuples(index=False)):
            starts = self.starts[first : first + n + 1]
            roles = self.roles[first : first + n]
            yield Part(number, self.words, self.ids[starts[0] : starts[-1]], np.diff(starts), roles)


_IN_USE: WeakSet[Corpus] = WeakSet()

Texts = Corpus | str | Path | Book | Iterable[str | Path | Book]
"""What a model can be fitted on; a string alone is a path or a data set, a string in a list is a line."""


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    """Return the manifest of a folder, None if it or one of its files is absent or incomplete."""
    with contextlib.suppress(DataError), reading(folder):
        content: dict[str, Any] = files.read_json(folder / MANIFEST)
        files.check_sizes(folder, content["bytes"])
        if content["version"] == CORPUS_VERSION:
            return content
    return None


def _write(folder: Path, blocks: Iterable[Part], books: Sequence[tuple[str, str]], *, lower: bool) -> None:
    """Write a corpus in place of none, or of a damaged one; DataError if it has no token."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    counts = np.zeros(1 << 16, np.int64)
    lengths: list[np.ndarray] = []
    roles: list[np.ndarray] = []
    size = np.zeros((2, len(books)), np.int64)  # sentences, tokens
    words: Sequence[str] | None = None
    with files.atomic_folder(folder, replace=folder.exists()) as path:
        with (path / IDS).open("wb") as file:
            for block in blocks:
                if block.words is not words:
                    words = block.words
                    types = map(str.lower, words) if lower else words
                    local = np.fromiter(map(numbers.__getitem__, types), np.uint32, len(words))
                    if len(numbers) > len(counts):
                        counts = np.append(counts, np.zeros(len(numbers), np.int64))
                file.write(local[block.ids].astype("<u4", copy=False).tobytes())
                np.add.at(counts, local, np.bincount(block.ids, minlength=len(words)))
                lengths.append(block.lengths.astype(np.int64))
                roles.append(block.roles)
                size[:, block.book] += len(block.lengths), len(block.ids)
        if not size[1].sum():
            hint = "pass lines of words, books, or a path that holds some"
            raise DataError("there is no word in this text, nothing to train on", hint=hint)
        every = list(numbers)
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (-counts[number], every[number]))
        _renumber(path / IDS, order, len(every))
        (path / COUNTS).write_bytes(counts[order].astype("<i8").data)  # `tofile` sees no disk get full
        starts = np.concatenate([[0], *lengths]).cumsum()
        (path / STARTS).write_bytes(starts.astype("<i8").data)
        (path / ROLES).write_bytes(np.concatenate(roles).tobytes())
        (path / WORDS).write_text(
            "\n".join(every[number] for number in order), encoding="utf-8", newline="\n"
        )
        columns = {"book_id": [name for name, _ in books], "title": [title for _, title in books]}
        first = np.concatenate([[0], size[0].cumsum()[:-1]])
        frame = pd.DataFrame(columns).assign(first=first, sentences=size[0], tokens=size[1])
        frame.to_parquet(path / BOOKS, index=False)
        digests = [sha256(path / name) for name in (IDS, STARTS, WORDS)]
        content = cache.digest(*digests, first.astype("<i8").tobytes())  # not of Parquet, which has versions
        manifest = {
            "version": CORPUS_VERSION, "lower": lower, "tokens": int(size[1].sum()), "sha256": content,
            "bytes": files.file_sizes(path),
        }  # fmt: skip
        (path / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _renumber(path: Path, order: list[int], types: int) -> None:
    """Renumber the words in the file by their places in `order`."""
    new_ids = np.zeros(types, "<u4")
    new_ids[order] = np.arange(len(order))
    with path.open("r+b") as file:  # not a memory map: its pages would count as used memory
        while len(ids := np.fromfile(file, "<u4", _BLOCK)):
            file.seek(-ids.nbytes, os.SEEK_CUR)
            file.write(new_ids[ids].tobytes())
