"""Texts to train on, however they are given: paths are read as books."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from workbench.datasets.books import Book, books
from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.runs import fingerprint as provenance
from workbench.texts.corpus import Corpus
from workbench.texts.overlap import refuse
from workbench.texts.tokenise import Readable

Texts = Corpus | str | Path | Book | Readable | Iterable[str | Path | Book | Readable]
"""What a model can be fitted on; a string alone is a path or a data set, a string in a list is a line."""


def corpus_of(texts: Texts, **options: Any) -> Corpus:
    """Return the corpus of texts.

    Parameters
    ----------
    texts : Corpus, path, str, book, or iterable of (str, path or book)
        A path, or a string alone, is a file, folder or archive of books, or the name of a data set, read as
        :func:`workbench.books` does. In an iterable a string is a line of text, one sentence.
    **options
        As :meth:`workbench.texts.corpus.Corpus.of` has them.

    Returns
    -------
    Corpus

    Raises
    ------
    DataError
        As `Corpus.of` and :func:`workbench.books` do.
    """
    if isinstance(texts, str):
        return Corpus.of(_named(texts), **options)
    if isinstance(texts, Corpus):
        return Corpus.of(texts, **options)
    readable: Any = [texts] if isinstance(texts, Path) or hasattr(texts, "book_id") else texts
    return Corpus.of(_read(readable), **options)


def check_held_out(corpus: Corpus, held_out: Items | None, *, progress: bool = True) -> dict[str, Any] | None:
    """Refuse a corpus that holds the books of some items; return what is to be kept of the check.

    Returns
    -------
    dict or None
        How many items, and their digest; None without items.

    Raises
    ------
    DataError
        If it holds them (see :func:`workbench.texts.overlap.refuse`), with the books to leave out.
    """
    if held_out is None:
        return None
    refuse(held_out, corpus, progress=progress)
    return {"items": len(held_out), "sha256": provenance.items_digest(held_out)}


def _named(name: str) -> Iterator[Readable]:
    """Return the books of a path or data set; DataError at once if there are none."""
    try:
        return books(name)
    except DataError as error:
        raise DataError(
            f"expected a file, folder, archive or data set of novels, got the string {name[:60]!r}",
            remedy="pass lines of text in a list; " + (error.remedy or "name a path that exists"),
        ) from error


def _read(texts: Iterable[str | Path | Readable]) -> Iterator[str | Readable]:
    for text in texts:
        if isinstance(text, Path):
            yield from books(text)
        else:
            yield text
