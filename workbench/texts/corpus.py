"""A training text as ids on disk: cut into tokens once, found again by its content."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.schema import DataError
from workbench.storage import cache, files
from workbench.texts import store
from workbench.texts.tokenise import Readable, Spool

RESERVED = frozenset({"<s>", "</s>", "<unk>", "<UNK>"})
"""Words that KenLM gives a meaning of its own."""

_BLOCK = 1 << 18  # tokens that are written as lines at a time


class Corpus:
    """A tokenised text, read from disk where it is used.

    Parameters
    ----------
    folder : Path
        Where it lies; :meth:`of` makes one.
    name : str
        What it is called in messages.

    Attributes
    ----------
    words : list of str
        All types by falling count, then by code points. They hold no white space and no NUL.
    counts : int64 array (types,)
    ids : uint32 array (tokens,)
        The text as indices into `words`; mapped into memory.
    starts : int64 array (sentences + 1,)
        Where each sentence starts in `ids`, and the end. No sentence is empty.
    books : pandas.DataFrame
        ``book_id``, ``title``, ``first`` (index of its first sentence), ``sentences``, ``tokens``. Lines
        that came as strings are a book ``lines``.
    lower : bool
        Whether the words were lower-cased.
    sha256 : str
        Digest of the content: ids, words, where sentences and books begin.
    """

    def __init__(self, folder: Path, name: str = "") -> None:
        told = store.manifest(folder)
        if told is None:
            raise DataError("there is no corpus here, or it was changed", file=folder, remedy="make it again")
        self.folder, self.name = folder, name
        self.lower, self.sha256 = bool(told["lower"]), str(told["sha256"])
        self.words = (folder / store.WORDS).read_bytes().decode().split("\n")
        self.counts = np.fromfile(folder / store.COUNTS, "<i8")
        self.starts = np.fromfile(folder / store.STARTS, "<i8")
        self.ids = np.memmap(folder / store.IDS, "<u4", "r")
        self.books = pd.read_parquet(folder / store.BOOKS)

    def __reduce__(self) -> tuple[Any, ...]:
        return Corpus, (self.folder, self.name)

    def __repr__(self) -> str:
        return (
            f"Corpus({self.name!r}, {self.n_tokens:,} tokens, {len(self.words):,} types,"
            f" {self.n_sentences:,} sentences, {len(self.books):,} books)"
        )

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
        texts: Corpus | Readable | Iterable[str | Readable],
        *,
        lower: bool = True,
        tokenised: bool | None = None,
        workers: int | None = None,
        progress: bool = True,
        name: str = "",
    ) -> Corpus:
        """Cut texts into sentences and tokens, or find the result of the same texts again.

        A run that is killed goes on where it stopped, and a second one only reads and hashes.

        Parameters
        ----------
        texts : iterable of (str or book), book, or Corpus
            A string is a sentence a line, its words apart by white space. A book is anything with ``text``,
            ``tokenised``, ``book_id`` and ``title``; its sentences are those of
            :func:`workbench.items.text.sentences`. Texts are read once, one at a time. A corpus is returned.
        lower : bool, default True
            Lower-case every token after it was cut.
        tokenised : bool, optional
            What holds for all texts, whatever they say: False cuts lines too by
            :func:`workbench.items.text.tokenize`.
        workers : int, optional
            Processes that cut; all cores by default. The result does not depend on it.
        progress : bool, default True
            Show bars.
        name : str
            What the corpus is called in messages.

        Returns
        -------
        Corpus
            NUL counts as white space, half a surrogate pair becomes U+FFFD. Books longer than some 500,000
            characters are cut at the end of a paragraph (a line, if tokenised), where a straight quotation
            that was never closed ends too.

        Raises
        ------
        DataError
            If there is no word in it, something is no text, or the disk is full.
        """
        if isinstance(texts, Corpus):
            return texts
        home = files.data_home() / "cache" / "corpus"
        with store.scratch(home) as scratch:
            spool = Spool(scratch / "texts", lower=lower, tokenised=tokenised)
            spool.read(texts, progress=progress)
            folder = home / spool.key
            if store.manifest(folder) is None:
                parts = spool.parts(workers=workers, progress=progress)
                store.write(folder, parts, spool.books, {"lower": lower})
        return cls(folder, name)

    def lines(self, vocabulary: Collection[str] | None = None) -> Iterator[str]:
        """Yield the sentences, words joined by blanks, as ``lmplz`` reads them.

        Parameters
        ----------
        vocabulary : collection of str, optional
            All other words become ``<unk>``. What KenLM reserves (``<s>``, ``</s>``, ``<unk>``) always does.
        """
        wanted = None if vocabulary is None else set(vocabulary)
        known = (word not in RESERVED and (wanted is None or word in wanted) for word in self.words)
        shown = [word if is_known else "<unk>" for word, is_known in zip(self.words, known, strict=True)]
        table = np.array([*shown, "\n"], dtype=object)
        first = 0
        while first < self.n_sentences:
            start = self.starts[first]
            last = max(first + 1, int(np.searchsorted(self.starts, start + _BLOCK, "right")) - 1)
            ids = self.ids[start : self.starts[last]].astype(np.int64)
            ids = np.insert(ids, self.starts[first + 1 : last + 1] - start, len(self.words))
            yield from " ".join(table[ids]).removesuffix(" \n").split(" \n ")
            first = last

    def vocabulary(self, n: int | None = 60_000) -> list[str]:
        """Return the most frequent words, at most `n`, without those that KenLM reserves."""
        words = [
            word for word in self.words[: None if n is None else n + len(RESERVED)] if word not in RESERVED
        ]
        return words[:n]

    def without(self, book_ids: str | Collection[str]) -> Corpus:
        """Return the corpus without some of its books; it lies on disk too.

        Raises
        ------
        DataError
            If there is no book of such a name, or none is left.
        """
        given = {book_ids} if isinstance(book_ids, str) else set(book_ids)
        if unknown := sorted(given - set(self.books["book_id"])):
            remedy = "corpus.books lists them"
            raise DataError(
                f"there is no book {unknown[0]!r} in this corpus", file=self.folder, remedy=remedy
            )
        kept = self.books[~self.books["book_id"].isin(given)]
        if len(kept) == len(self.books):
            return self
        names = list(zip(kept["book_id"], kept["title"], strict=True))
        rows = kept.index.to_numpy().astype("<i8").tobytes()
        key = cache.digest("without", str(store.VERSION), self.sha256, str(self.lower), repr(names), rows)
        folder = files.data_home() / "cache" / "corpus" / key
        if store.manifest(folder) is None:
            store.write(folder, self._of_books(kept), names, {"lower": self.lower})
        return Corpus(folder, self.name)

    def _of_books(self, books: pd.DataFrame) -> Iterator[store.Part]:
        for number, (first, sentences) in enumerate(zip(books["first"], books["sentences"], strict=True)):
            starts = self.starts[first : first + sentences + 1]
            yield store.Part(number, self.words, self.ids[starts[0] : starts[-1]], np.diff(starts))
