"""The public-domain novels that the tagger learns from, as Treebank tokens, one sentence a line.

Two collections are read: novels of 1895 to 1963 and children's books, and the texts that come with
the sentence completion challenge. Books of the Children's Book Test are left out, so that
nothing built on the tagger has seen them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from workbench.datasets import sources
from workbench.datasets.books import Book, books
from workbench.items.text import sentences, tokenize
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path

BOOK = "<book>"
"""First word of the line before each book; its name follows."""
_TESTED = re.compile(r"alice in wonderland|golden road|yellow fairy book|jungle book", re.IGNORECASE)


def collect(path: Path) -> None:
    """Write all sentences of all books to a file, about 70 million tokens."""
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        for book in untested():
            text = " ".join(tokenize(book.text))
            file.write(f"{BOOK} {book.book_id}\n")
            file.writelines(f"{text[start:end]}\n" for start, end in sentences(text))


def read(path: Path) -> Iterator[list[list[str]]]:
    """Read the books, each a list of sentences, each a list of tokens."""
    book: list[list[str]] = []
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith(BOOK):
                if book:
                    yield book
                book = []
            else:
                book.append(line.split())
    if book:
        yield book


def untested() -> Iterator[Book]:
    """Read all books but those that the Children's Book Test is made of."""
    searched = sources.search_roots("novels")
    path = sources.find_first(searched, ("novels.tar.xz",))
    if path is None:
        raise DataError(
            f"found no novels.tar.xz; searched {', '.join(str(root.folder) for root in searched)}",
            hint="set WORKBENCH_DATA to a folder that holds the novels",
        )
    yield from books(path)
    yield from (book for book in books("msrcc", "train") if not _TESTED.search(book.title or ""))
