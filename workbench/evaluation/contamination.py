"""Which items occur in a text that a model is trained on: a report, and a column to filter by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import pandas as pd

from workbench.items.items import Items, check_items
from workbench.render.numbers import percent
from workbench.render.tables import html_table
from workbench.texts.corpus import Corpus
from workbench.texts.overlap import Overlap, overlap
from workbench.texts.tokenise import checked_texts

_LINES = 10_000  # lines handed on together
_HALF = 0.5
_SHOWN = 5  # books named in a report

Part = tuple[str, list[str]]


@dataclass(frozen=True)
class Contamination(Overlap):
    """A report on n-grams shared by items and texts; attributes as of :class:`Overlap`.

    ``wb.browse(items, annotations=report.frame)`` makes the columns of ``frame`` filters.
    """

    @property
    def summary(self) -> pd.DataFrame:
        """Counts and shares: ``what``, ``n`` (words in an n-gram), ``found``, ``of``, ``share``."""
        frame = self.frame
        long = frame["query_words"] >= self.n
        counted = frame["n_grams"] > 0
        rows = [
            ("items whose whole passage occurs", frame["passage"].dropna()),
            ("items whose whole query occurs", frame["query"].dropna()),
            (f"... of a query of {self.n} words or more", frame.loc[long, "query"].dropna()),
            (f"items with half of their {self.n}-grams or more", frame.loc[counted, "share"] >= _HALF),
            (f"items with one {self.n}-gram or more", frame.loc[counted, "found"] > 0),
        ]
        counts = [(unit, self.n, int(column.sum()), len(column)) for unit, column in rows]
        n_found, total = (int(frame[name].sum()) for name in ("found", "n_grams"))
        counts.append((f"{self.n}-grams of the items", self.n, n_found, total))
        table = pd.DataFrame(counts, columns=["what", "n", "found", "of"])
        return table.assign(share=table["found"] / table["of"].where(table["of"] > 0))

    def by_book(self) -> pd.DataFrame:
        """Count items by the books that share something with them, those with most first.

        Columns ``book_id``, ``words``, ``items`` (with an n-gram in it), ``half`` (items with half of their
        n-grams or more in it).
        """
        rows = self.pairs.assign(half=self.pairs["share"] >= _HALF).groupby("book_id", sort=False)
        counts = rows.agg(items=("item_id", "size"), half=("half", "sum")).reset_index()
        table = self.texts.merge(counts, on="book_id")
        return table.sort_values(["half", "items"], ascending=False, kind="stable", ignore_index=True)

    def __str__(self) -> str:
        lines = [self._title()]
        for unit, _, n, total, share in self.summary.itertuples(index=False):
            lines.append(f"  {unit}: {n:,} of {total:,}{'' if pd.isna(share) else f' ({percent(share)})'}")
        rows = self.by_book()
        for book_id, words, items, half in rows.head(_SHOWN).itertuples(index=False):
            lines.append(f"  {book_id} ({words:,} words): shares with {items:,} items, half of {half:,}")
        if len(rows) > _SHOWN:
            lines.append(f"  and {len(rows) - _SHOWN:,} more books")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [
            (unit, f"{n:,}", f"{total:,}", "" if pd.isna(share) else percent(share))
            for unit, _, n, total, share in self.summary.itertuples(index=False)
        ]
        tables = [html_table(["unit", "found", "of", "share"], rows, caption=self._title())]
        if len(books := self.by_book()):
            first = f", the first {_SHOWN} of {len(books):,}" if len(books) > _SHOWN else ""
            names = ["book", "words", "items with an n-gram", "items with half of theirs"]
            head = books.head(_SHOWN).to_numpy().tolist()
            tables.append(html_table(names, head, caption=f"Books{first}"))
        return "".join(tables)

    def _title(self) -> str:
        texts = f"{int(self.texts['words'].sum()):,} words of {len(self.texts):,} books"
        return f"{len(self.frame):,} items against {texts}, {self.n}-grams"


def contamination(items: Items, texts: Any, *, n: int = 8) -> Contamination:
    """Find out which items occur in the texts that a model is trained on.

    Parameters
    ----------
    items : Items
        What the model will be tested on.
    texts : Corpus, path, str, book, or iterable of (str, path or book)
        What it is trained on. A path, or a string alone, is a file, folder or archive of books, or the name
        of a data set (``"msrcc"``). In an iterable a string is a line; lines are one book called ``lines``.
    n : int, default 8
        Words in an n-gram, 1 or more.

    Returns
    -------
    Contamination
        Its ``.frame`` has one row per item: item_id, passage and query (whether all of it occurs), found and
        n_grams (how many), share, and more; ``.summary`` the counts; ``.by_book()`` one row per book.

    Raises
    ------
    DataError
        If the texts hold no word or cannot be read, or there is no item.

    Examples
    --------
    >>> report = wb.contamination(items, list(wb.books("sample"))[:10])
    >>> clean = items.where(report.frame["share"].to_numpy() < 0.1)
    >>> 0 < len(clean) < len(items)
    True
    """
    check_items(items, "contamination")
    result = overlap(items, texts if isinstance(texts, Corpus) else _parts(texts), n=n)
    return Contamination(result.n, result.frame, result.pairs, result.texts)


def _parts(texts: Any) -> Iterator[Part]:
    """Yield ids of books with their words, cut at white space; lines that follow each other are one book."""
    for text_type, group in groupby(checked_texts(texts), type):
        if text_type is not str:
            yield from ((book.book_id, book.text.split()) for book in group)
        while lines := list(islice(group, _LINES)):
            yield "lines", " ".join(map(str, lines)).split()
