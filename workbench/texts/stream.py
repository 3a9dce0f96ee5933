"""A corpus as one row of word ids on disk: what networks are trained on, here or on another machine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items.schema import DataError
from workbench.storage import files
from workbench.storage.cache import digest
from workbench.texts import store

if TYPE_CHECKING:
    from workbench.texts.corpus import Corpus

VERSION = 1
"""Of the files' form: a stream of another version counts as not there."""

MANIFEST = "stream.json"
IDS, PLACES, UNKNOWN, LENGTHS = "ids.bin", "unknown-places.bin", "unknown-ids.bin", "sentences.bin"
COUNTS, LIKE, WORDS, BOOKS = "counts.bin", "words-like.bin", "words.txt", "books.parquet"
_FILES = (IDS, PLACES, UNKNOWN, LENGTHS, COUNTS, LIKE, WORDS, BOOKS)

_BLOCK = 1 << 22  # tokens that are turned at a time
_SHORT = 1 << 16  # ids up to which two bytes are enough
_LONG = 1 << 32  # places up to which four bytes are enough

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


class Stream:
    """A tokenised text as ids on disk, and the vocabulary that they count in; no other text is kept.

    Ids 1 to V are the words of the vocabulary. A word outside it is 0 for a network; its *extended* id,
    greater than V, tells it from the others. On disk a token takes two bytes (four where V + 1 > 65,536),
    one outside the vocabulary eight bytes more.

    Parameters
    ----------
    folder : Path
        Where it lies; :meth:`of` makes one. It names no other place, so it can be copied.

    Attributes
    ----------
    vocabulary : list of str (V,)
        The word of id 1 first.
    n_words : int
        V + 1.
    counts : int64 array (V + 1,)
        How often each id occurs; ``counts[0]`` is all that lies outside the vocabulary.
    unknown_types : int
        Different words outside the vocabulary.
    n_tokens : int
    words_like : bool array (V + 1 + unknown_types,)
        By extended id, whether there is a letter or a digit in the word. False for 0.
    books : pandas.DataFrame
        ``book_id``, ``title``, ``first`` (index of its first sentence), ``sentences``, ``tokens``.
    lower : bool
        Whether the words were lower-cased.
    sha256 : str
        Digest of the content.
    info : dict
        What it is, as JSON can hold it.

    Raises
    ------
    DataError
        If there is no whole, unchanged stream in the folder.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        told = _manifest(self.folder)
        if told is None:
            raise DataError(
                "there is no stream here, or it was changed", file=folder, remedy="make or copy it again"
            )
        self._types: dict[str, str] = told["types"]
        self.info: dict[str, Any] = told["info"] | {"sha256": told["sha256"]}
        self.sha256, self.lower = str(told["sha256"]), bool(self.info["lower"])
        self.vocabulary = (self.folder / WORDS).read_bytes().decode().split("\n")
        self.n_words = len(self.vocabulary) + 1
        self.counts = self._whole(COUNTS).astype(np.int64)
        self.words_like: Bools = self._whole(LIKE).astype(bool)
        self.unknown_types = len(self.words_like) - self.n_words
        self.books = pd.read_parquet(self.folder / BOOKS)
        self._ids, self._places, self._unknown = (self._mapped(name) for name in (IDS, PLACES, UNKNOWN))
        self.n_tokens = len(self._ids)

    def __reduce__(self) -> tuple[Any, ...]:
        return Stream, (self.folder,)

    def __repr__(self) -> str:
        return (
            f"Stream({self.n_tokens:,} tokens, {self.n_words - 1:,} words,"
            f" {self.unknown_types:,} unknown types, {len(self.books):,} books)"
        )

    @cached_property
    def starts(self) -> Ints:
        """Where each sentence starts, and the end: int64 (sentences + 1,). No sentence is empty."""
        lengths = self._whole(LENGTHS)
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        return starts

    def read(self, start: int, stop: int) -> Ints:
        """Return the extended ids of a stretch of the text.

        Parameters
        ----------
        start, stop : int
            Places in the text, as for a slice: both at least 0, and cut at the end of the text.

        Returns
        -------
        int64 array (stop - start,)
        """
        ids = self._ids[start:stop].astype(np.int64)
        edges = np.array([start, start + len(ids)], self._places.dtype)  # of its type: nothing is converted
        first, last = np.searchsorted(self._places, edges)
        ids[self._places[first:last].astype(np.int64) - start] = self._unknown[first:last]
        return ids

    def at(self, places: Ints) -> Ints:
        """Return the extended ids at some places of the text, int64 of the same shape."""
        ids = np.asarray(self._ids[places], dtype=np.int64)
        gaps = ids == 0
        found = np.searchsorted(self._places, places[gaps].astype(self._places.dtype))
        ids[gaps] = self._unknown[found]
        return ids

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: int | Sequence[str] = 60_000, *, progress: bool = True) -> Stream:
        """Return the stream of a corpus, from ``cache/stream`` where it was made before.

        Parameters
        ----------
        corpus : Corpus
        vocabulary : int or sequence of str, default 60,000
            The number of its most frequent words, or words in an order of their own, which is kept. Words
            that do not occur get ids, too. What KenLM reserves (``<s>``, ``</s>``, ``<unk>``) is left out,
            of a word that is given twice the second.
        progress : bool, default True
            Show a bar.

        Returns
        -------
        Stream

        Raises
        ------
        DataError
            If no word is left in the vocabulary, one of them holds a line end, or the disk is full.
        """
        words = _words(corpus, vocabulary)
        names = list(zip(corpus.books["book_id"], corpus.books["title"], strict=True))
        key = digest(str(VERSION), corpus.sha256, str(corpus.lower), repr(names), *words)
        home = files.data_home() / "cache" / "stream"
        if _manifest(home / key) is None:
            with store.scratch(home) as scratch:
                whole = scratch / "stream"
                whole.mkdir()
                _fill(whole, corpus, words, progress=progress)
                store.put(whole, home / key, _manifest)
        return cls(home / key)

    @classmethod
    def open(cls, folder: Path | str) -> Stream:
        """Return the stream that lies in a folder.

        Raises
        ------
        DataError
            If there is none, or it was changed.
        """
        return cls(folder)

    def copy(self, folder: Path | str) -> Stream:
        """Copy it into a folder of its own, for another machine: ids, vocabulary, titles of the books.

        Raises
        ------
        DataError
            If the folder holds something else, or the disk is full.
        """
        target = Path(folder)
        told = _manifest(target)
        if told is not None and told["sha256"] == self.sha256:
            return Stream(target)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise DataError("something else lies here", file=target, remedy="name a new folder, or remove it")
        with store.scratch(target.absolute().parent) as scratch:
            whole = scratch / "stream"
            whole.mkdir()
            for name in (*_FILES, MANIFEST):
                shutil.copyfile(self.folder / name, whole / name)
            store.put(whole, target, _manifest)
        return Stream(target)

    def _whole(self, name: str) -> npt.NDArray[Any]:
        return np.fromfile(self.folder / name, self._types[name])

    def _mapped(self, name: str) -> npt.NDArray[Any]:
        path = self.folder / name
        return np.memmap(path, self._types[name], "r") if path.stat().st_size else self._whole(name)


def _words(corpus: Corpus, vocabulary: int | Sequence[str]) -> list[str]:
    """Return the words that get ids."""
    from workbench.texts.corpus import RESERVED  # noqa: PLC0415 - a stream that was copied needs none of it

    if isinstance(vocabulary, str):
        raise DataError(f"a string is no vocabulary: {vocabulary[:60]!r}", remedy="pass a list of words")
    if isinstance(vocabulary, int):
        words = corpus.vocabulary(max(0, vocabulary))
    else:
        words = [word for word in dict.fromkeys(vocabulary) if word not in RESERVED]
    for word in words:
        if not word or "\n" in word:
            raise DataError(f"{word[:60]!r} is no word: it is empty, or holds the end of a line")
    if not words:
        raise DataError("there is no word in this vocabulary", remedy="pass words, or a number above 0")
    return words


def _fill(folder: Path, corpus: Corpus, words: list[str], *, progress: bool) -> None:
    """Write the files of a stream; the manifest comes last."""
    table = np.zeros(len(corpus.words), np.uint32)  # of each type its extended id
    ids = {word: number for number, word in enumerate(words, 1)}
    table[:] = [ids.get(word, 0) for word in corpus.words]
    outside = np.flatnonzero(table == 0)  # the most frequent first
    table[outside] = len(words) + 1 + np.arange(len(outside))
    short = "<u2" if len(words) < _SHORT else "<u4"
    types = {IDS: short, PLACES: "<u4" if corpus.n_tokens <= _LONG else "<i8", UNKNOWN: "<u4"}
    with (
        (corpus.folder / store.IDS).open("rb") as text,  # read, not mapped: pages of a map count as memory
        (folder / IDS).open("wb") as known,
        (folder / PLACES).open("wb") as places,
        (folder / UNKNOWN).open("wb") as unknown,
        _bar(corpus.n_tokens, shown=progress) as step,
    ):
        for start in range(0, corpus.n_tokens, _BLOCK):
            block = table[np.fromfile(text, "<u4", _BLOCK)]
            gaps = np.flatnonzero(block > len(words))
            unknown.write(block[gaps].astype("<u4", copy=False).tobytes())
            places.write((start + gaps).astype(types[PLACES]).tobytes())
            block[gaps] = 0
            known.write(block.astype(short).tobytes())
            step(len(block))
    lengths = np.diff(corpus.starts)
    types[LENGTHS] = "<u2" if lengths.max() < _SHORT else "<u4"
    lengths.astype(types[LENGTHS]).tofile(folder / LENGTHS)
    counts = np.zeros(len(words) + 1, "<i8")
    np.add.at(counts, np.where(table > len(words), 0, table), corpus.counts)
    types[COUNTS], types[LIKE] = "<i8", "|u1"
    counts.tofile(folder / COUNTS)
    like = np.zeros(len(words) + 1 + len(outside), "|u1")
    like[1 : len(words) + 1] = [any(map(str.isalnum, word)) for word in words]
    like[len(words) + 1 :] = [any(map(str.isalnum, corpus.words[number])) for number in outside]
    like.tofile(folder / LIKE)
    (folder / WORDS).write_text("\n".join(words), encoding="utf-8", newline="\n")
    corpus.books.to_parquet(folder / BOOKS, index=False)
    sizes = store.listed(folder, _FILES)
    info = {
        "corpus": corpus.sha256,
        "lower": corpus.lower,
        "tokens": corpus.n_tokens,
        "sentences": corpus.n_sentences,
        "books": len(corpus.books),
        "vocabulary": len(words),
        "unknown_tokens": int(counts[0]),
        "unknown_types": len(outside),
    }
    firsts = corpus.books["first"].to_numpy().astype("<i8").tobytes()  # parquet's bytes depend on its version
    content = digest(*(str(sizes[name][1]) for name in _FILES if name != BOOKS), firsts, str(corpus.lower))
    told = {"version": VERSION, "info": info, "types": types, "sha256": content, "files": sizes}
    (folder / MANIFEST).write_text(json.dumps(told, indent=1), encoding="utf-8")


def _manifest(folder: Path) -> dict[str, Any] | None:
    """Return what a stream says of itself, None if it is not there, torn or changed."""
    return store.told(folder / MANIFEST, VERSION, _FILES)


@contextmanager
def _bar(total: int, *, shown: bool) -> Iterator[Callable[[int], object]]:
    if not shown:
        yield lambda _: None
        return
    from tqdm.auto import tqdm  # noqa: PLC0415 - loads ipywidgets in a notebook

    with tqdm(total=total, desc="ids", unit=" tokens", unit_scale=True, leave=False) as bar:
        yield bar.update
