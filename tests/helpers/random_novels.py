"""Novels made at random of the words of the sample, which share hardly any n-gram."""

from functools import cache

import numpy as np

import workbench as wb
from workbench.datasets.books import Book


@cache
def words():
    return np.array(sorted({word for book in wb.books("sample") for word in book.text.split()}))


def novel(seed, n):
    """Return a text of n words in sentences of ten."""
    drawn = np.random.default_rng(seed).choice([word for word in words() if word.isalpha()], n).tolist()
    return "\n\n".join(" ".join(drawn[at : at + 10]) + "." for at in range(0, n, 10))


def altered(text, share, seed):
    """Return a text of which a share of the words are others."""
    rng = np.random.default_rng(seed)
    others = rng.choice([word for word in words() if word.isalpha()], len(text.split())).tolist()
    is_other = rng.random(len(others)) < share
    pairs = zip(text.split(), others, is_other, strict=True)
    return " ".join(other if change else word for word, other, change in pairs)


def book(book_id, text, *, tokenised=False):
    return Book(book_id, book_id.title(), None, None, text, tokenised, "")
