"""A text as ids in one file: tokenised once, then read from disk for the same texts."""

from __future__ import annotations

import contextlib
import hashlib
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
import pyarrow as pa

from workbench.datasets.books import Book
from workbench.storage import cache, files, paths
from workbench.storage.checksums import sha256
from workbench.storage.errors import DataError, reading
from workbench.texts.tokenise import Part, Tokeniser

CORPUS_VERSION = 3
"""Version of the file's format."""

UNKNOWN_MARKS = frozenset({"<unk>", "<UNK>"})
RESERVED = UNKNOWN_MARKS | {"<s>", "</s>"}
"""Words with a special meaning in KenLM."""

_LINES = 1 << 18  # tokens that are written as lines at a time
_BLOCK = 1 << 22  # ids that are renumbered at a time
_INFO = b"workbench"  # the key of JSON in the metadata of a file
_COLUMNS: dict[str, pa.DataType] = {
    "ids": pa.uint32(), "starts": pa.int64(), "roles": pa.uint8(), "words": pa.string(), "counts": pa.int64(),
}  # fmt: skip
_BOOK_COLUMNS: dict[str, pa.DataType] = {
    "book_id": pa.string(), "title": pa.string(), "first": pa.int64(), "sentences": pa.int64(),
    "tokens": pa.int64(),
}  # fmt: skip
_SCHEMA = pa.schema(
    {name: pa.large_list(data_type) for name, data_type in (_COLUMNS | _BOOK_COLUMNS).items()}
)


class Corpus:
    """A tokenised text on disk: an Arrow file that is mapped into memory.

    Parameters
    ----------
    path : Path
        The file, as :meth:`of` writes it.
    name : str
        Name in messages.

    Attributes
    ----------
    words : list of str
        All types by descending count, then by code points. None contains white space or NUL.
    counts : int64 array (types,)
    ids : uint32 array (tokens,)
        The text as indices into `words`.
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

    def __init__(self, path: Path, name: str = "") -> None:
        self.path, self.name = path, name
        cache.touch(path)
        with reading(path, "this corpus", hint="make it again"):
            table = _opened(path).read_all()
            content = _info(table.schema)
            self.lower, self.sha256 = bool(content["lower"]), str(content["sha256"])
            columns = {name: table[name].chunk(0).flatten() for name in _SCHEMA.names}
            self.words: list[str] = columns["words"].to_pylist()
            self.ids, self.starts, self.roles, self.counts = (
                columns[name].to_numpy() for name in ("ids", "starts", "roles", "counts")
            )
            self.books: pd.DataFrame = pa.table({name: columns[name] for name in _BOOK_COLUMNS}).to_pandas()
        _IN_USE.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.path, self.name)

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

        Later calls only read and hash the texts.

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
            cased, path = (
                home / cache.digest(str(CORPUS_VERSION), tokeniser.key, str(is_lower))
                for is_lower in (False, lower)
            )
            corpus = None
            with contextlib.suppress(DataError):  # not there yet, or damaged
                corpus = cls(path, name)
            if corpus is None:
                blocks = tokeniser.parts()
                with contextlib.suppress(DataError):  # tokenised before, with the capitals
                    blocks = cls(cased).blocks()
                _write(path, blocks, tokeniser.books, lower=lower)
                corpus = cls(path, name)
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
            for path in files.list_folder(paths.cache_home() / "corpus"):
                with contextlib.suppress(DataError), reading(path):
                    content = _info(_opened(path).schema)
                    if wanted(str(content["sha256"]), bool(content["lower"])):
                        return cls(path)
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
            raise DataError(problem, file=self.path, hint="corpus.books lists them")
        remaining = self.books[~self.books["book_id"].isin(removed)]
        if len(remaining) == len(self.books):
            return self
        names = list(zip(remaining["book_id"], remaining["title"], strict=True))
        rows = remaining.index.to_numpy().astype("<i8").tobytes()
        content = (self.sha256, self.roles.tobytes(), str(self.lower))
        key = cache.digest("without", str(CORPUS_VERSION), *content, repr(names), rows)
        path = paths.cache_home() / "corpus" / key
        with contextlib.suppress(DataError):
            return Corpus(path, self.name)
        _write(path, self.blocks(remaining.index), names, lower=self.lower)
        return Corpus(path, self.name)

    def blocks(self, rows: Iterable[int] | None = None) -> Iterator[Part]:
        """Yield the sentences of each book, or of those in some rows of `books`, numbered anew."""
        for number, row in enumerate(self.books.index if rows is None else rows):
            yield self.book_part(row)._replace(book=number)

    def book_part(self, row: int) -> Part:
        """Return the sentences of the book in a row of `books`, with no types but its own."""
        first, n = self.books[["first", "sentences"]].iloc[row].tolist()
        starts = self.starts[first : first + n + 1]
        used, ids = np.unique(self.ids[starts[0] : starts[-1]], return_inverse=True)
        words = [self.words[number] for number in used.tolist()]
        return Part(row, words, ids.astype(np.uint32), np.diff(starts), self.roles[first : first + n])


_IN_USE: WeakSet[Corpus] = WeakSet()

Texts = Corpus | str | Path | Book | Iterable[str | Path | Book]
"""What a model can be fitted on; a string alone is a path or a data set, a string in a list is a line."""


def _opened(path: Path) -> pa.RecordBatchFileReader:
    """Open the file of a corpus; an error if it is not one, or incomplete."""
    file = pa.ipc.open_file(pa.memory_map(str(path)))
    if not file.schema.equals(_SCHEMA):
        raise ValueError("it has other columns")
    return file


def _info(schema: pa.Schema) -> dict[str, Any]:
    """Return what the metadata of a file say of its corpus."""
    content: dict[str, Any] = json.loads(schema.metadata[_INFO])
    return content


def _write(path: Path, parts: Iterable[Part], books: Sequence[tuple[str, str]], *, lower: bool) -> None:
    """Write a corpus in place of none, or of a damaged one; DataError if it has no token."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    counts = np.zeros(1 << 16, np.int64)
    lengths: list[np.ndarray] = []
    roles: list[np.ndarray] = []
    sentences, tokens = np.zeros((2, len(books)), np.int64)
    with files.atomic_path(path) as temporary:
        ids_file = temporary.with_name("ids")
        with ids_file.open("wb") as file:
            for block in parts:
                words = map(str.lower, block.words) if lower else block.words
                local = np.fromiter(map(numbers.__getitem__, words), np.uint32, len(block.words))
                if len(numbers) > len(counts):
                    counts = np.append(counts, np.zeros(len(numbers), np.int64))
                file.write(local[block.ids].astype("<u4", copy=False).tobytes())
                np.add.at(counts, local, np.bincount(block.ids, minlength=len(local)))
                lengths.append(block.lengths.astype(np.int64))
                roles.append(block.roles)
                sentences[block.book] += len(block.lengths)
                tokens[block.book] += len(block.ids)
        if not tokens.sum():
            hint = "pass lines of words, books, or a path that holds some"
            raise DataError("there is no word in these texts", hint=hint)
        types = list(numbers)
        order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (-counts[number], types[number]))
        _renumber(ids_file, order, len(types))
        ordered = [types[number] for number in order]
        starts = np.concatenate([[0], *lengths]).cumsum()
        first = np.concatenate([[0], sentences.cumsum()[:-1]])
        contents = (starts.astype("<i8").tobytes(), "\n".join(ordered).encode())
        digests = [sha256(ids_file), *(hashlib.sha256(content).hexdigest() for content in contents)]
        info = {
            "lower": lower,
            "tokens": int(tokens.sum()),
            "sha256": cache.digest(*digests, first.astype("<i8").tobytes()),
        }
        columns: tuple[Any, ...] = (
            np.memmap(ids_file, "<u4", "r"), starts, np.concatenate(roles), ordered, counts[order],
            *zip(*books, strict=True), first, sentences, tokens,
        )  # fmt: skip
        lists = [
            pa.LargeListArray.from_arrays(
                pa.array([0, len(values)], pa.int64()), pa.array(values, column.type.value_type)
            )
            for values, column in zip(columns, _SCHEMA, strict=True)
        ]
        schema = _SCHEMA.with_metadata({_INFO: json.dumps(info)})
        with pa.ipc.new_file(str(temporary), schema) as writer:
            writer.write_table(pa.table(lists, schema=schema))


def _renumber(path: Path, order: list[int], types: int) -> None:
    """Renumber the words in the file by their places in `order`."""
    new_ids = np.zeros(types, "<u4")
    new_ids[order] = np.arange(len(order))
    with path.open("r+b") as file:  # not a memory map: its pages would count as used memory
        while len(ids := np.fromfile(file, "<u4", _BLOCK)):
            file.seek(-ids.nbytes, os.SEEK_CUR)
            file.write(new_ids[ids].tobytes())
