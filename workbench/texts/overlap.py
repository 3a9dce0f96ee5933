"""Which items occur in a text that a model is trained on: whole passages, queries, and n-grams.

The hashes of the items' n-grams (:mod:`workbench.texts.ngram_hash`) are one set, past which the texts stream.
Brown et al. 2020, "Language Models are Few-Shot Learners", appendix C, also look for items by their 8- to
13-grams.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from workbench.items.items import Items
from workbench.items.schema import objects
from workbench.predictions.store import items_digest
from workbench.storage.cache import Cache, digest, make_room
from workbench.storage.errors import DataError
from workbench.storage.progress import report_progress
from workbench.texts import ngram_hash
from workbench.texts.batches import stream_sha256
from workbench.texts.corpus import Corpus
from workbench.texts.ngram_hash import Ints, TokenisedTexts, Words

_BOOKS = 3  # books listed for an item
_MERGE = 1 << 20  # matches collected before they are merged
_PASSAGE = 50  # words of a passage, at least
_PASSAGES, _SENTENCES = (13, 3), (8, 5)  # n, and number of items that must come from a book
_NAMED = 10  # books in a message
_SHARE = 0.5  # of its n-grams that an item must share with its book ...
_WHOLE = pa.schema([("passage", pa.bool_())])  # see `passages_in_training`
_VERSION = 1  # of what is kept of it
_FEW = 3  # ... and at least this number: fewer may be chance


@dataclass(frozen=True)
class Overlap:
    """What items share with a text.

    Attributes
    ----------
    n : int
        Words in an n-gram.
    frame : DataFrame
        One row per item, in their order: ``item_id``; ``passage`` and ``query`` (nullable booleans: whether
        all n-grams of the text, and all of the target sentence with its answer, stand in one book; missing
        where the item has no answer, or no word); ``query_words`` (words of the target sentence: a short one
        may be found by chance); ``n_grams`` and ``found`` (how many the item has, and how many of them
        occur); ``share`` (found / n_grams, missing where there is none); ``books`` (ids of up to three books
        that hold most of its n-grams, most first). A text or sentence with fewer than n words is one n-gram.
    pairs : DataFrame
        One row per item and book that have n-grams in common: ``item_id``, ``book_id``, ``found``
        (n-grams of the item in that book), ``share``.
    texts : DataFrame
        One row per book read: ``book_id``, ``words`` (after normalising).
    """

    n: int
    frame: pd.DataFrame
    pairs: pd.DataFrame
    texts: pd.DataFrame


def overlap(items: Items, texts: TokenisedTexts, *, n: int = 8) -> Overlap:
    """Return which items, and which of their n-grams, occur in a text.

    Parameters
    ----------
    items : Items
    texts : Corpus or iterable of (str, iterable of str)
        A corpus, or book ids with tokens (see `TokenisedTexts`). Read once, in a memory that does not grow
        with it. N-grams cross the borders of sentences, and neither those of books nor a blank without an
        answer.
    n : int, default 8
        Words in an n-gram, 1 or more.

    Raises
    ------
    DataError
        If there is no item, or no word in the texts.
    """
    if n < 1 or not len(items):
        raise DataError(f"expected n of 1 or more and items, got n={n} and {len(items)} items")
    words = ngram_hash.ItemWords(items)
    matches = _Matches(words, n)
    reader = ngram_hash.TextReader(words.numbers)
    for book, block in reader.read(texts, n - 1):
        matches.add(block, book)
    if not sum(reader.words):
        raise DataError("the texts hold no word", hint="pass the text that the model is trained on")
    return matches.result(reader)


def source_books(result: Overlap, *, least: int = 3) -> pd.DataFrame:
    """Return the books of a text that items come from: ``book_id`` and ``items`` (how many come from it).

    An item comes from a book that holds half of its n-grams, and at least three of them. At least `least`
    items must come from a book (all, if there are fewer). Those with most items come first.
    """
    pairs = result.pairs[(result.pairs["share"] >= _SHARE) & (result.pairs["found"] >= _FEW)]
    counts = pairs["book_id"].value_counts()
    counts = counts[counts >= max(1, min(least, len(result.frame)))]
    return counts.rename_axis("book_id").reset_index(name="items")


def held_out_books(held_out: Items, texts: TokenisedTexts) -> tuple[pd.DataFrame, int, int]:
    """Return the books that items to be tested on come from, for which nothing may be learnt from them.

    They are those of `source_books` with n-grams of n words and a number `least` of items, which are returned
    too: 13 and 3 where half of the items have 50 words or more, else 8 and 5.
    """
    lengths = sorted(len(item.tokens) for item in held_out)
    n, least = _PASSAGES if lengths and lengths[len(lengths) // 2] >= _PASSAGE else _SENTENCES
    return source_books(overlap(held_out, texts, n=n), least=least), n, least


_CLEAN: set[tuple[object, ...]] = set()
"""Digests of texts and items that this process has compared, and of which no book was in both."""


def check_held_out(corpus: Corpus, held_out: Items | None) -> dict[str, Any] | None:
    """Return the number and a digest of the items that a corpus was checked for, None without items.

    Raises
    ------
    DataError
        If the corpus holds a book that items come from (see `held_out_books`).

    Notes
    -----
    Titles play no part. In real texts the two cases are far apart. Of the 2,000 named-entity questions for
    validation of the Children's Book Test, 670 come from one of the 522 books to train on for sentence
    completion. They share at least two thirds of their 13-grams with that book (617 of them at least 99 %),
    and none of the 2,000 shares a single 13-gram with any other. Sentences share more by chance: 16 of 520
    questions of sentence completion have an 8-gram in those books, and none shares more than a quarter.
    """
    if held_out is None:
        return None
    checked = {"items": len(held_out), "sha256": items_digest(held_out)}
    if (corpus.sha256, checked["sha256"]) in _CLEAN:
        return checked
    books, n, least = held_out_books(held_out, corpus)
    if not len(books):
        _CLEAN.add((corpus.sha256, checked["sha256"]))
        return checked
    titles = dict(zip(corpus.books["book_id"], corpus.books["title"], strict=True))
    named = "; ".join(
        f"{name}{f' ({titles[name]})' if titles[name] else ''}: {count:,}"
        for name, count in books.head(_NAMED).itertuples(index=False)
    )
    others = f" and {len(books) - _NAMED:,} more" if len(books) > _NAMED else ""
    ids = str(books["book_id"].tolist())
    if others:
        ids = f"source_books(overlap(items, corpus, n={n}), least={least})['book_id']"
    raise DataError(
        f"the texts hold {len(books):,} of the books that the {len(held_out):,} items to be tested on come "
        f"from, with so many items in each: {named}{others}",
        hint=f"train without them: corpus.without({ids})",
    )


def passages_in_training(items: Items, sha256: str, vocabulary: Sequence[str] | None = None) -> Any:
    """Return which items stand whole in the texts that a model was fitted on, a nullable column (n,).

    It is the column `passage` of `overlap`, kept in the cache by digests of texts and items: null where the
    item has no answer, or no word, and all null if the corpus is not at hand. `sha256` is the digest of the
    corpus, or of a stream of it with this `vocabulary`.
    """
    cached, key = Cache("passages", _WHOLE), digest(str(_VERSION), sha256, items_digest(items))
    table = cached.get(key)
    if table is None:
        corpus = Corpus.find(lambda corpus, _: corpus == sha256)
        if corpus is None and vocabulary is not None:
            corpus = Corpus.find(
                lambda corpus, lower: stream_sha256(corpus, vocabulary, lower=lower) == sha256
            )
        if corpus is None or not len(items):
            return pd.array([pd.NA] * len(items), dtype="boolean")
        with report_progress(lambda _done, _total: None):  # measures and views ask for it
            passage = overlap(items, corpus).frame["passage"]
        table = pa.table([pa.array(passage, from_pandas=True)], schema=_WHOLE)
        with suppress(DataError):  # a cache that may only be read, or a full disk
            cached.put(key, table)
            make_room()
    return pd.array(table["passage"].to_pylist(), dtype="boolean")


class _Matches:
    """Matches of the items' n-grams in the texts read so far: their hashes, by book."""

    def __init__(self, words: ngram_hash.ItemWords, n: int) -> None:
        self._words, self._n = words, n
        self._codes = ngram_hash.word_codes(words.n_words + 1)
        regular = words.n_grams(n)
        passages, queries = (self._shorter(begin) for begin in (words.first[:-1], words.query))
        starts = np.concatenate([regular, passages, queries])
        self._item = item = words.item[starts]  # (n-grams,): the item of each
        self._in_passage = np.arange(len(starts)) < len(regular) + len(passages)
        self._in_query = (starts >= words.query[item]) & ~(self._in_passage & np.isin(starts, passages))
        lengths = np.minimum(n, words.first[item + 1] - starts)
        self._lengths = np.unique(lengths).tolist()
        hashes = np.empty(len(starts), dtype=np.uint64)
        for length, every in ngram_hash.rolling_hashes(self._codes[np.maximum(words.ids, 0)], self._lengths):
            hashes[lengths == length] = every[starts[lengths == length]]
        self._set = ngram_hash.HashSet(hashes)
        self._rows = np.searchsorted(self._set.hashes, hashes)  # (n-grams,): the row of each in the set
        self._keys = np.empty(0, dtype=np.int64)  # book * rows of the set + row
        self._new: list[Ints] = []

    def _shorter(self, begin: Ints) -> Ints:
        """Return where passages or queries of fewer than n words begin: each is one n-gram."""
        size = self._words.first[1:] - begin
        return begin[self._words.answered & (size > 0) & (size < self._n)]

    def add(self, block: Words, book: int) -> None:
        """Add the matches in a block of the words of a book."""
        for _, hashes in ngram_hash.rolling_hashes(self._codes[block], self._lengths):
            _, rows = self._set.find(hashes)
            if len(rows):
                self._new.append(_unique(book * len(self._set.hashes) + rows))
        if sum(map(len, self._new)) > max(_MERGE, len(self._keys)):
            self._keys, self._new = _unique(np.concatenate([self._keys, *self._new])), []

    def result(self, reader: ngram_hash.TextReader) -> Overlap:
        """Count the matches by item and by book."""
        words, names, ids = self._words, list(reader.books), self._words.items.frame["item_id"]
        n_items = len(ids)
        keys = _unique(np.concatenate([self._keys, *self._new]))
        book, row = np.divmod(keys, max(1, len(self._set.hashes)))
        n_gram, match = _equal_pairs(self._rows, row)
        item_and_book = self._item[n_gram] * len(names) + book[match]

        def counted(wanted: Any) -> tuple[Ints, Ints, Ints, Ints]:
            """Count some n-grams: items, books and numbers of matches; and all of them by item."""
            pairs, counts = np.unique(item_and_book[wanted[n_gram]], return_counts=True)
            return *np.divmod(pairs, len(names)), counts, np.bincount(self._item[wanted], minlength=n_items)

        item, book, counts, n_grams = counted(self._in_query)
        query = np.isin(np.arange(n_items), item[counts == n_grams[item]])
        item, book, counts, n_grams = counted(self._in_passage)
        passage = np.isin(np.arange(n_items), item[counts == n_grams[item]])
        order = np.lexsort((book, -counts, item))
        item, book, counts = item[order], book[order], counts[order]
        ends = np.searchsorted(item, np.arange(1, n_items))
        named = [tuple(names[number] for number in numbers[:_BOOKS]) for numbers in np.split(book, ends)]
        matched = np.bincount(self._item[_unique(n_gram[self._in_passage[n_gram]])], minlength=n_items)
        divisor = np.where(n_grams == 0, np.nan, n_grams)
        frame = pd.DataFrame(
            {
                "item_id": ids,
                "passage": pd.array(passage, dtype="boolean"),
                "query": pd.array(query, dtype="boolean"),
                "query_words": words.first[1:] - words.query,
                "n_grams": n_grams,
                "found": matched,
                "share": matched / divisor,
                "books": objects(named),
            }
        )
        frame.loc[~words.answered | (np.diff(words.first) == 0), "passage"] = pd.NA
        frame.loc[~words.answered | (frame["query_words"] == 0), "query"] = pd.NA
        pairs = pd.DataFrame(
            {
                "item_id": ids.to_numpy()[item],
                "book_id": np.array(names, dtype=object)[book],
                "found": counts,
                "share": counts / divisor[item],
            }
        ).astype({"item_id": "str", "book_id": "str"})
        texts = pd.DataFrame({"book_id": pd.array(names, dtype="str"), "words": reader.words})
        return Overlap(self._n, frame, pairs, texts)


def _equal_pairs(first: Ints, second: Ints) -> tuple[Ints, Ints]:
    """Return all pairs of positions in two arrays with the same value."""
    order = np.argsort(first, kind="stable")
    low, high = (np.searchsorted(first, second, side, sorter=order) for side in ("left", "right"))
    n = high - low
    positions = np.repeat(low - np.cumsum(n) + n, n) + np.arange(n.sum())
    return order[positions], np.repeat(np.arange(len(second)), n)


def _unique(values: Ints) -> Ints:
    """Return the sorted unique values; on these keys several times faster than np.unique."""
    values = np.sort(values)
    is_first = np.concatenate([[True], values[1:] != values[:-1]])[: len(values)]
    unique: Ints = values[is_first]
    return unique
