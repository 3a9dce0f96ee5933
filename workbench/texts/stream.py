"""A text as the ids of a vocabulary, read from a corpus or from a copy that holds no other words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.storage import files
from workbench.storage.cache import digest
from workbench.storage.errors import DataError, reading
from workbench.storage.parquet import read_parquet
from workbench.storage.sealed import sealed_folder
from workbench.texts import corpus as on_disk
from workbench.texts.corpus import BOOKS, COUNTS, IDS, RESERVED, STARTS, WORDS, Corpus

LIKE = "words-like.u1"
"""The file that a copy has beside those of a corpus: which ids are words with a letter or a digit."""

_BLOCK = 1 << 22  # tokens that are copied at a time

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


@dataclass(kw_only=True, eq=False, repr=False)
class Stream:
    """A tokenised text as ids, and the vocabulary that they count in.

    Ids 1 to V are the words of the vocabulary. A word outside it is 0 for a network; its *extended* id,
    greater than V, distinguishes it from the others. Make one by `of`, which reads the ids of a corpus where
    they are, or by `open`, which reads a copy.

    Attributes
    ----------
    vocabulary : list of str (V,)
        The word of id 1 first.
    n_words : int
        V + 1.
    ids : uint32 array (tokens,)
    table : uint32 array, optional
        Extended id of each of `ids`; by default they are extended ids.
    counts : int64 array (V + 1,)
        How often each id occurs; ``counts[0]`` is all that is outside the vocabulary.
    unknown_types : int
        Different words outside the vocabulary.
    n_tokens : int
    words_like : bool array (V + 1 + unknown_types,)
        By extended id, whether there is a letter or a digit in the word. False for 0.
    starts, books, lower
        As :class:`workbench.texts.corpus.Corpus` has them.
    sha256 : str
        Digest of the content.
    info : dict
        Sizes and digests, as JSON can hold them.
    folder : Path
        Of the corpus or the copy.
    """

    vocabulary: list[str]
    ids: np.ndarray
    table: np.ndarray | None = None
    counts: Ints
    words_like: Bools
    starts: Ints
    books: pd.DataFrame
    info: dict[str, Any]
    folder: Path

    def __post_init__(self) -> None:
        """Set what follows from the rest."""
        self.n_words, self.n_tokens = len(self.vocabulary) + 1, len(self.ids)
        self.unknown_types = len(self.words_like) - self.n_words
        self.sha256, self.lower = str(self.info["sha256"]), bool(self.info["lower"])

    def __repr__(self) -> str:
        sizes = f"{self.n_tokens:,} tokens, {self.n_words - 1:,} words, {self.unknown_types:,} unknown types"
        return f"Stream({sizes}, {len(self.books):,} books)"

    def read(self, start: int, stop: int) -> Ints:
        """Return the extended ids of the text from `start` to `stop` - 1, both at least 0."""
        return self.at(slice(start, stop))

    def at(self, places: Ints | slice) -> Ints:
        """Return the extended ids at some places of the text, int64 of the same shape."""
        ids = np.asarray(self.ids[places])
        return (ids if self.table is None else self.table[ids]).astype(np.int64)

    @classmethod
    def of(cls, corpus: Corpus, vocabulary: int | Sequence[str] = 60_000) -> Stream:
        """Return a corpus as the ids of a vocabulary.

        Parameters
        ----------
        corpus : Corpus
        vocabulary : int or sequence of str, default 60,000
            The number of its most frequent words, or words, whose order is preserved. Words that do not occur
            get ids, too. What KenLM reserves (``<s>``, ``</s>``, ``<unk>``) and duplicates are left out.

        Raises
        ------
        DataError
            If no word is left in the vocabulary, or one of them holds the end of a line.
        """
        words = _words(corpus, vocabulary)
        known = {word: number for number, word in enumerate(words, 1)}
        table = np.array([known.get(word, 0) for word in corpus.words], np.uint32)  # extended id of each type
        outside = np.flatnonzero(table == 0)  # the most frequent first
        table[outside] = len(words) + 1 + np.arange(len(outside))
        counts = np.zeros(len(words) + 1, np.int64)
        np.add.at(counts, np.where(table > len(words), 0, table), corpus.counts)
        by_id = ("", *words, *(corpus.words[number] for number in outside))
        info = {
            "corpus": corpus.sha256,
            "lower": corpus.lower,
            "tokens": corpus.n_tokens,
            "sentences": corpus.n_sentences,
            "books": len(corpus.books),
            "vocabulary": len(words),
            "unknown_tokens": int(counts[0]),
            "unknown_types": len(outside),
            "sha256": stream_sha256(corpus.sha256, words, lower=corpus.lower),
        }
        return cls(
            vocabulary=words, ids=corpus.ids, table=table, counts=counts, info=info, folder=corpus.folder,
            words_like=np.array([any(map(str.isalnum, word)) for word in by_id]), starts=corpus.starts,
            books=corpus.books,
        )  # fmt: skip

    @classmethod
    def open(cls, folder: Path | str) -> Stream:
        """Return the stream that `copy` wrote; DataError if there is none, or it was changed."""
        path = Path(folder)
        content = on_disk.read_manifest(path)
        if content is None or "stream" not in content:
            problem = "there is no stream here, or it was changed"
            raise DataError(problem, file=folder, remedy="make or copy it again")
        with reading(path, "this stream", remedy="make or copy it again"):
            return cls(
                vocabulary=(path / WORDS).read_bytes().decode().split("\n"),
                ids=np.memmap(path / IDS, "<u4", "r"),
                counts=np.fromfile(path / COUNTS, "<i8"),
                words_like=np.fromfile(path / LIKE, "|u1").astype(bool),
                starts=np.fromfile(path / STARTS, "<i8"),
                books=read_parquet(path / BOOKS).to_pandas(),
                info=content["stream"],
                folder=path,
            )

    def copy(self, folder: Path | str) -> Stream:
        """Copy it into a folder of its own, for another machine: ids, vocabulary, titles of the books.

        The copy has the form of a corpus, without the words outside the vocabulary. DataError if the folder
        holds something else, or the disk is full.
        """
        target = Path(folder)
        files.sweep(target.parent)
        content = on_disk.read_manifest(target)
        if content is not None and content.get("stream") == self.info:
            return Stream.open(target)
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            problem = "expected an empty folder, got one that holds something else"
            raise DataError(problem, file=target, remedy="name a new folder, or remove it")
        with sealed_folder(target, on_disk.MANIFEST, replace=target.exists()) as path:
            with (path / IDS).open("wb") as file:
                for start in range(0, self.n_tokens, _BLOCK):
                    file.write(self.read(start, start + _BLOCK).astype("<u4").tobytes())
            for name, array, kind in (
                (STARTS, self.starts, "<i8"), (COUNTS, self.counts, "<i8"), (LIKE, self.words_like, "|u1")
            ):  # fmt: skip
                (path / name).write_bytes(array.astype(kind).data)  # `tofile` sees no disk get full
            (path / WORDS).write_text("\n".join(self.vocabulary), encoding="utf-8", newline="\n")
            self.books.to_parquet(path / BOOKS, index=False)
            info = {"lower": self.lower, "stream": json.loads(json.dumps(self.info))}
            on_disk.write_manifest(path, info, self.books["first"].to_numpy())
        return Stream.open(target)


def stream_sha256(corpus: str, words: Sequence[str], *, lower: bool) -> str:
    """Return the digest of a stream: of the digest of its corpus, and its vocabulary."""
    return digest("stream", corpus, str(lower), *words)


def _words(corpus: Corpus, vocabulary: int | Sequence[str]) -> list[str]:
    """Return the words that get ids."""
    if isinstance(vocabulary, str):
        raise DataError(
            f"expected a vocabulary, got the string {vocabulary[:60]!r}", remedy="pass a list of words"
        )
    if isinstance(vocabulary, int):
        words = corpus.vocabulary(max(0, vocabulary))
    else:
        words = [word for word in dict.fromkeys(vocabulary) if word not in RESERVED]
    for word in words:
        if not word or "\n" in word:
            raise DataError(
                f"expected words in the vocabulary, got {word[:60]!r}",
                remedy="leave out words that are empty or hold the end of a line",
            )
    if not words:
        raise DataError("there is no word in this vocabulary", remedy="pass words, or a number above 0")
    return words
