"""Normalised words of texts, and rolling polynomial hashes of their n-grams (Karp & Rabin 1987).

Words do not depend on tokenisation (:func:`normalise`). Hashes of 64 bits stand for n-grams: with a million
n-grams and a text of a billion words, there is one false match in 18,000 such comparisons.
"""

# ruff: noqa: RUF001 - typographic apostrophes are meant

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from workbench.items.items import Items
from workbench.items.tokens import tokens
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus

Words = NDArray[np.int32]
Ints = NDArray[np.int64]
Hashes = NDArray[np.uint64]

BLOCK = 1 << 17
"""Words hashed at a time: they stay in a processor's cache."""

_BASE = np.uint64(0x9E3779B97F4A7C15)
_BLANK = -1  # a missing answer
_KNOWN = 1 << 21  # different tokens of a text whose words are cached
_BRACKETS = frozenset({"-lrb-", "-rrb-", "-lsb-", "-rsb-", "-lcb-", "-rcb-"})
_APOSTROPHES = str.maketrans(dict.fromkeys("’‘ʼ´`′", "'"))
_INNER = re.compile(r"(?<=\d)[.,:](?=\d)|(?<=\b[^\W\d_])\.(?=[^\W\d_])")  # 1,000 and a.m
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
_TAIL = re.compile(r"(?<=[^\W_])(?:n't|'(?:s|m|d|ll|re|ve))$")
# Contractions without an apostrophe before their second word, and the length of the first.
_TWO = {"cannot": 3, "gonna": 3, "wanna": 3, "gotta": 3, "gimme": 3, "lemme": 3, "tis": 1, "twas": 1}
_TWO |= {"d'ye": 1, "d'you": 1}

TokenisedTexts = Corpus | Iterable[tuple[str, Iterable[str]]]
"""A corpus, or books as pairs of their id and their tokens, one after the other.

Tokens may be words of any tokenisation, or running text split at white space. Consecutive pairs with the
same id are parts of one book.
"""


def normalise(token: str) -> tuple[str, ...]:
    """Return the normalised words of a token, or of a piece of running text without white space.

    Words are letters and digits, lower-cased, without accents. Contractions are two words as in the
    Treebank, whether the token was split there or not (``don't`` and ``do`` ``n't``: do nt; ``Tom's``:
    tom s; ``cannot``: can not). Other apostrophes and the periods of abbreviations are dropped
    (``o'clock``: oclock, ``a.m.``: am, ``1,000``: 1000). Every other mark separates words
    (``well-known``: well known). Marks alone and the names of brackets (``-LRB-``) give no word.
    """
    if token.isascii() and token.isalpha() and (lower := token.lower()) not in _TWO:
        return (lower,)  # most words: the rest takes eight times as long
    if token.lower() in _BRACKETS:
        return ()
    token = token.translate(_APOSTROPHES)
    if not token.isascii():
        token = "".join(c for c in unicodedata.normalize("NFKD", token) if not unicodedata.combining(c))
    words: list[str] = []
    for word in _WORD.findall(_INNER.sub("", token.casefold())):
        tails: list[str] = []
        end = len(word)
        while tail := _TAIL.search(word, max(0, end - len("n't")), end):
            tails.append(tail[0])
            end = tail.start()
        word = word[:end]  # noqa: PLW2901 - without its tails
        length = _TWO.get(word, 0)
        pieces = (word[:length], word[length:], *reversed(tails))
        words.extend(piece.replace("'", "") for piece in pieces if piece)
    return tuple(words)


class TokenNumbers(dict[str, tuple[int, ...]]):
    """The words of each token, as numbers of the items' words; 0 is any other word."""

    def __init__(self, numbers: dict[str, int]) -> None:
        super().__init__()
        self._numbers = numbers

    def __missing__(self, token: str) -> tuple[int, ...]:
        if len(self) > _KNOWN:
            self.clear()
        numbers = self[token] = tuple([self._numbers.get(word, 0) for word in normalise(token)])
        return numbers


class ItemWords:
    """The words of all items as one array of numbers."""

    def __init__(self, items: Items) -> None:
        self.items = items
        numbers: dict[str, int] = {}  # of words, from 1
        of_token: dict[str, tuple[int, ...]] = {}
        ids: list[int] = []
        first, query = [0], []
        for item in items:
            words, _, target, _, has_target, sentences = tokens(item)
            for index, word in enumerate(words):
                if index == sentences[-1]:
                    query.append(len(ids))
                if index == target and not has_target:
                    ids.append(_BLANK)
                if word not in of_token:
                    pieces = normalise(word)
                    of_token[word] = tuple([numbers.setdefault(piece, len(numbers) + 1) for piece in pieces])
                ids.extend(of_token[word])
            if len(query) < len(first):  # the target sentence holds nothing but a blank
                query.append(len(ids))
            if target == len(words) and not has_target:
                ids.append(_BLANK)
            first.append(len(ids))
        self.numbers = TokenNumbers(numbers)
        self.n_words = len(numbers)
        self.ids = np.array(ids, dtype=np.int32)  # (words,), -1 for a missing answer
        self.first = np.array(first, dtype=np.int64)  # (items + 1,): where each item begins
        self.query = np.array(query, dtype=np.int64)  # (items,): where its target sentence begins
        self.item = np.repeat(np.arange(len(items)), np.diff(self.first))  # (words,): the item of each word
        self.answered = np.ones(len(items), dtype=bool)  # (items,): whether the item has its answer
        self.answered[self.item[self.ids == _BLANK]] = False

    def n_grams(self, n: int) -> Ints:
        """Return the places of all n-grams: those within one item and without a missing answer."""
        if len(self.ids) < n:
            return np.empty(0, dtype=np.int64)
        blanks = np.concatenate([[0], np.cumsum(self.ids == _BLANK)])
        in_one_item = self.item[n - 1 :] == self.item[: len(self.item) - n + 1]
        return np.flatnonzero(in_one_item & (blanks[n:] == blanks[:-n]))


class TextReader:
    """Read texts as numbers of words, book by book.

    ``books`` has the number of each book by its id, ``words`` the number of words of each.
    """

    def __init__(self, numbers: TokenNumbers) -> None:
        self.numbers = numbers
        self.books: dict[str, int] = {}
        self.words: list[int] = []

    def read(self, texts: TokenisedTexts, tail: int) -> Iterator[tuple[int, Words]]:
        """Yield the number of a book, and a block of its words with the `tail` words before it."""
        pieces = self._stored(texts) if isinstance(texts, Corpus) else self._streamed(texts)
        total = len(texts.ids) if isinstance(texts, Corpus) else None
        with progress_bar(total, label="reading the texts", unit="tokens") as bar:
            for book_id, group in groupby(pieces, itemgetter(0)):
                book = self.books.setdefault(str(book_id), len(self.books))
                self.words += [0] * (len(self.books) - len(self.words))
                block = np.empty(0, dtype=np.int32)
                for _, numbers, n_tokens in group:
                    self.words[book] += len(numbers)
                    for start in range(0, len(numbers), BLOCK):
                        before = block[max(0, len(block) - tail) :]
                        block = np.concatenate([before, numbers[start : start + BLOCK]])
                        yield book, block
                    bar.update(n_tokens)

    def _streamed(self, books: Iterable[tuple[str, Iterable[str]]]) -> Iterator[tuple[str, Words, int]]:
        for book_id, words in books:
            tokens = list(words)
            numbers = chain.from_iterable(map(self.numbers.__getitem__, tokens))
            yield book_id, np.fromiter(numbers, dtype=np.int32), len(tokens)

    def _stored(self, corpus: Corpus) -> Iterator[tuple[str, Words, int]]:
        words_of_types = [self.numbers[word] for word in corpus.words]
        counts = np.array([len(words) for words in words_of_types], dtype=np.int64)
        flat = np.fromiter(chain.from_iterable(words_of_types), dtype=np.int32)
        first = np.cumsum(counts) - counts
        columns = (corpus.books[name] for name in ("book_id", "first", "tokens"))
        for book_id, sentence, n_tokens in zip(*columns, strict=True):
            begin = int(corpus.starts[sentence])
            for start in range(begin, begin + n_tokens, BLOCK):
                ids = corpus.ids[start : min(start + BLOCK, begin + n_tokens)]
                n = counts[ids]
                positions = np.repeat(first[ids] - np.cumsum(n) + n, n) + np.arange(n.sum())
                yield book_id, flat[positions], len(ids)


def word_codes(n: int) -> Hashes:
    """Return a random code for each of `n` words, 0 included."""
    return np.random.default_rng(8).integers(0, 1 << 64, size=n, dtype=np.uint64)


def rolling_hashes(values: Hashes, lengths: Iterable[int]) -> Iterator[tuple[int, Hashes]]:
    """Yield each length, in ascending order, with the hashes of all n-grams of that length."""
    hashes = values.copy()
    done = 1
    for length in lengths:
        if length > len(values):
            return
        for index in range(done, length):
            hashes = hashes[: len(values) - index]
            hashes *= _BASE
            hashes += values[index:]
        done = length
        yield length, hashes


class HashSet:
    """A set of hashes; ``hashes`` has them sorted."""

    def __init__(self, hashes: Hashes) -> None:
        self.hashes = np.unique(hashes)
        bits = min(27, max(16, len(self.hashes).bit_length() + 4))
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros(1 << bits, dtype=bool)
        self._table[self.hashes >> self._shift] = True

    def find(self, hashes: Hashes) -> tuple[Ints, Ints]:
        """Return the positions of those of `hashes` that are in the set, and their rows in the set."""
        positions = np.flatnonzero(self._table[hashes >> self._shift])
        rows = np.minimum(np.searchsorted(self.hashes, hashes[positions]), len(self.hashes) - 1)
        same = self.hashes[rows] == hashes[positions]
        return positions[same], rows[same]
