"""Texts as words that can be compared, and finding the n-grams of one among those of another.

Two texts become words that know nothing of tokenisation (:func:`normalise`), and numbers. Rolling
polynomial hashes of 64 bits (Karp & Rabin 1987) are looked up in a table of bits and then among
sorted hashes, and what is found is compared word by word: a hash that happens to be the same finds
nothing that is not there.
"""

# ruff: noqa: RUF001 - typographic apostrophes are meant

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.items.items import Items
from workbench.items.tokens import tokens

Words = NDArray[np.int32]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

BLOCK = 1 << 17
"""Words hashed at a time: they stay in a processor's cache."""

_BASE = np.uint64(0x9E3779B97F4A7C15)
_BLANK = -1  # a missing answer
_READ = 1 << 20  # tokens of a corpus read at a time
_PAIRS = 1 << 21  # pairs of places compared at a time
_KNOWN = 1 << 21  # different tokens of a text kept with what they stand for
_BRACKETS = frozenset({"-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"})
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ´`′", "'"))
_INNER = re.compile(r"(?<=\d)[.,:](?=\d)|(?<=\b[^\W\d_])\.(?=[^\W\d_])")  # 1,000 and a.m
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_TAIL = re.compile(r"(?<=[^\W_])(?:n't|'(?:s|m|d|ll|re|ve))$")
_TWO = {"cannot": 3, "gonna": 3, "wanna": 3, "gotta": 3, "gimme": 3, "lemme": 3, "tis": 1, "twas": 1}
_TWO |= {"d'ye": 1, "d'you": 1}


@runtime_checkable
class TokenisedText(Protocol):
    """What is used of a :class:`workbench.texts.corpus.Corpus`."""

    @property
    def words(self) -> Sequence[str]:
        """All types."""

    @property
    def ids(self) -> Any:
        """The text as indices into `words`."""

    @property
    def starts(self) -> Any:
        """Where each sentence starts in `ids`, and the end."""

    @property
    def books(self) -> pd.DataFrame:
        """Each book's id and first sentence."""


Texts = TokenisedText | Iterable[tuple[str, Iterable[str]]]
"""A tokenised corpus, or books as pairs of their id and their tokens, one after the other.

Tokens may be cut in any way, down to running text split at white space. Pairs of the same id that
follow each other are parts of one book.
"""


def normalise(token: str) -> tuple[str, ...]:
    """Return the words that a token, or a piece of running text without white space, stands for.

    Letters and digits only, lower-cased, without accents. Contractions are two words as in the Treebank,
    whether the token was cut there or not (``don't`` and ``do`` ``n't``: do nt; ``Tom's``: tom s;
    ``cannot``: can not), other apostrophes and the periods of abbreviations go without a gap (``o'clock``:
    oclock, ``a.m.``: am, ``1,000``: 1000), and every other mark parts words (``well-known``: well known).
    Marks alone and the names of brackets (``-LRB-``) are no word.
    """
    if token.lower() in _BRACKETS:
        return ()
    token = token.translate(_APOSTROPHES)
    if not token.isascii():
        token = "".join(c for c in unicodedata.normalize("NFKD", token) if not unicodedata.combining(c))
    words: list[str] = []
    for word in _WORD.findall(_INNER.sub("", token.casefold())):
        tails: list[str] = []
        while tail := _TAIL.search(word):
            tails.append(tail[0])
            word = word[: tail.start()]  # noqa: PLW2901 - it loses its tail
        cut = _TWO.get(word, 0)
        parts = (word[:cut], word[cut:], *reversed(tails))
        words.extend(part.replace("'", "") for part in parts if part)
    return tuple(words)


class Numbers(dict[str, tuple[int, ...]]):
    """What tokens stand for, as numbers of the items' words; 0 is any other word."""

    def __init__(self, known: dict[str, int]) -> None:
        super().__init__()
        self._known = known

    def __missing__(self, token: str) -> tuple[int, ...]:
        if len(self) > _KNOWN:
            self.clear()
        made = self[token] = tuple([self._known.get(word, 0) for word in normalise(token)])
        return made


class Wanted:
    """The items as one row of numbered words.

    Attributes
    ----------
    numbers : Numbers
        Number of each of their words, from 1.
    ids : int32 (words,)
    first : int64 (items + 1,)
        Where each item begins.
    query : int64 (items,)
        Where its target sentence begins.
    item : int64 (words,)
        The item of each word.
    """

    def __init__(self, items: Items) -> None:
        self.items = items
        known: dict[str, int] = {}
        cut: dict[str, tuple[int, ...]] = {}
        ids: list[int] = []
        first, query = [0], []
        for item in items:
            words, _, target, _, has_target, sentences = tokens(item)
            for place, word in enumerate(words):
                if place == sentences[-1]:
                    query.append(len(ids))
                if place == target and not has_target:
                    ids.append(_BLANK)
                if word not in cut:
                    parts = normalise(word)
                    cut[word] = tuple([known.setdefault(part, len(known) + 1) for part in parts])
                ids.extend(cut[word])
            if len(query) < len(first):  # the target sentence holds nothing but a blank
                query.append(len(ids))
            if target == len(words) and not has_target:
                ids.append(_BLANK)
            first.append(len(ids))
        self.numbers = Numbers(known)
        self.n_words = len(known)
        self.ids = np.array(ids, dtype=np.int32)
        self.first = np.array(first, dtype=np.int64)
        self.query = np.array(query, dtype=np.int64)
        self.item = np.repeat(np.arange(len(items)), np.diff(self.first))
        blanks = np.zeros(len(items), dtype=bool)
        blanks[self.item[self.ids == _BLANK]] = True
        self.answered = ~blanks

    @property
    def most(self) -> int:
        """Words of the longest item."""
        return int(np.diff(self.first).max())

    def grams(self, n: int) -> Ints:
        """Return where n-grams of n words begin: those within one item and without a blank."""
        if len(self.ids) < n:
            return np.empty(0, dtype=np.int64)
        blanks = np.concatenate([[0], np.cumsum(self.ids == _BLANK)])
        in_one_item = (self.item[n - 1 :] == self.item[: len(self.item) - n + 1]) & (
            blanks[n:] == blanks[:-n]
        )
        return np.flatnonzero(in_one_item)


class Reader:
    """Reads texts as numbers, and keeps where books begin."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers
        self.books: dict[str, int] = {}
        self.words: list[int] = []  # of each book
        self._firsts: list[int] = []
        self._book: list[int] = []
        self._length = 0

    def read(self, texts: Texts, *, progress: bool) -> Iterator[Words]:
        """Yield the words of the texts, with a 0 between books."""
        from tqdm.auto import tqdm  # noqa: PLC0415 - only where something is computed

        corpus = texts if isinstance(texts, TokenisedText) else None
        total = None if corpus is None else len(corpus.ids)
        parts = self._streamed(cast("Any", texts)) if corpus is None else self._stored(corpus)
        before = None
        with tqdm(
            total=total,
            unit=" tokens",
            unit_scale=True,
            desc="reading the texts",
            disable=not progress,
        ) as bar:
            for book_id, numbers, n_tokens in parts:
                if book_id != before:
                    before = book_id
                    self._begin(book_id)
                    yield np.zeros(1, dtype=np.int32)
                self.words[self._book[-1]] += len(numbers)
                self._length += len(numbers)
                bar.update(n_tokens)
                yield numbers

    def place(self, at: Ints) -> Ints:
        """Return the number of the book that holds each of some places, which ascend."""
        begin = max(0, bisect_right(self._firsts, int(at[0])) - 1)
        starts = np.array(self._firsts[begin:])
        books = np.array(self._book[begin:])
        return np.asarray(books[np.searchsorted(starts, at, "right") - 1])

    def _begin(self, book_id: str) -> None:
        number = self.books.setdefault(str(book_id), len(self.books))
        if number == len(self.words):
            self.words.append(0)
        self._firsts.append(self._length)
        self._book.append(number)
        self._length += 1

    def _streamed(self, parts: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, Words, int]]:
        for book_id, words in parts:
            listed = words if isinstance(words, list) else list(words)
            numbers = chain.from_iterable(map(self.numbers.__getitem__, listed))
            yield book_id, np.fromiter(numbers, dtype=np.int32), len(listed)

    def _stored(self, corpus: TokenisedText) -> Iterator[tuple[str, Words, int]]:
        meanings = [self.numbers[word] for word in corpus.words]
        many = np.array([len(meaning) for meaning in meanings], dtype=np.int64)
        flat = np.fromiter(chain.from_iterable(meanings), dtype=np.int32)
        first = np.cumsum(many) - many
        starts, books = np.asarray(corpus.starts), corpus.books
        for book_id, sentence, n_tokens in zip(
            books["book_id"], books["first"], books["tokens"], strict=True
        ):
            begin = int(starts[sentence])
            for at in range(begin, begin + n_tokens, _READ):
                ids = np.asarray(corpus.ids[at : min(at + _READ, begin + n_tokens)])
                n = many[ids]
                if len(n) and n.min() == n.max() == 1:
                    places = first[ids]
                else:  # types of no word, or of several
                    places = np.repeat(first[ids] - np.cumsum(n) + n, n) + np.arange(n.sum())
                yield book_id, flat[places], len(ids)


def blocks(pieces: Iterator[Words], step: int, tail: int) -> Iterator[tuple[int, Words]]:
    """Cut a stream into blocks of `step` words, each with the `tail` words that follow it."""
    held: list[Words] = []
    length = offset = 0
    for piece in pieces:
        held.append(piece)
        length += len(piece)
        if length < step + tail:
            continue
        joined = np.concatenate(held)
        begin = 0
        for begin in range(0, length - tail - step + 1, step):
            yield offset + begin, joined[begin : begin + step + tail]
        held = [joined[begin + step :].copy()]
        length, offset = len(held[0]), offset + begin + step
    if length:
        yield offset, np.concatenate(held)


def codes(n: int) -> Hashes:
    """Return a random code for every number of a word, 0 included."""
    return np.random.default_rng(8).integers(0, 1 << 64, size=n, dtype=np.uint64)


def rolling(values: Hashes, lengths: Iterable[int]) -> Iterator[tuple[int, Hashes]]:
    """Yield for each of some lengths (ascending) the hashes of all n-grams of that length."""
    hashes = values.copy()
    done = 1
    for length in lengths:
        if length > len(values):
            return
        for place in range(done, length):
            hashes = hashes[: len(values) - place]
            hashes *= _BASE
            hashes += values[place:]
        done = length
        yield length, hashes


class Grams:
    """Places in the items where n-grams of one length begin, by hash."""

    def __init__(self, ids: Words, places: Ints, hashes: Hashes, length: int) -> None:
        self.ids, self.length = ids, length
        order = np.argsort(hashes, kind="stable")
        self.places, self.hashes = places[order], hashes[order]
        bits = min(27, max(16, len(places).bit_length() + 4))
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, dtype=bool)
        self._table[hashes >> self._shift] = True

    def find(self, block: Words, hashes: Hashes) -> tuple[Ints, Ints]:
        """Return all pairs of a place in the items and one in the block whose n words are the same."""
        at = np.flatnonzero(self._table[hashes >> self._shift])
        low = np.searchsorted(self.hashes, hashes[at], "left")
        many = np.searchsorted(self.hashes, hashes[at], "right") - low
        at, low, many = at[many > 0], low[many > 0], many[many > 0]
        ends = np.cumsum(many)
        parts: list[tuple[Ints, Ints]] = []
        begin = 0
        while begin < len(at):  # a part holds at most _PAIRS pairs, or those of one place
            end = max(begin + 1, int(np.searchsorted(ends, ends[begin] - many[begin] + _PAIRS, "right")))
            n = many[begin:end]
            item_places = self.places[np.repeat(low[begin:end] - np.cumsum(n) + n, n) + np.arange(n.sum())]
            text_places = np.repeat(at[begin:end], n)
            for word in range(self.length):
                same = self.ids[item_places + word] == block[text_places + word]
                if not same.all():
                    item_places, text_places = item_places[same], text_places[same]
            parts.append((item_places, text_places))
            begin = end
        if not parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        return np.concatenate([item_places for item_places, _ in parts]), np.concatenate(
            [text_places for _, text_places in parts]
        )
