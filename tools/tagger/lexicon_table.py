"""Count the lexicon of the tagger in novels: who is written with a capital, and who stands beside whom.

The vectors are made as for distributional part-of-speech tagging (Schuetze 1995; Levy and
Goldberg 2014 for the weighting): positive pointwise mutual information of a form with the
frequent words one and two places to its left and right, reduced by a randomised singular value
decomposition (Halko, Martinsson and Tropp 2011).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import novels
import numpy as np
import treebanks
from numpy.typing import NDArray

from workbench.analysis.tagger.network import SCALE, Lexicon, fold_token
from workbench.storage.files import atomic_path

WIDTH = 64
_VECTORS, _WORDS = 45_000, 110_000  # forms with a vector, forms in all
_CONTEXTS = 1_200
_BOOKS = 4  # a form of fewer books is a word of those books, as an unseen novel has its own
_OWN_RANK, _OWN_COUNT = 8_000, 2
_SEEN = 3  # uses within a sentence, to tell how often a form is capitalised
_OFFSETS = (-2, -1, 1, 2)
_EDGE, _RARE = -1, 0


class Counts(NamedTuple):
    """What is counted of folded forms."""

    uses: Counter[str]
    books: Counter[str]
    inside: Counter[str]
    """Uses within a sentence: after a word or a comma, where only a name has a capital."""
    capital: Counter[str]


def count(path: Path) -> Counts:
    """Count the forms of all novels."""
    counts = Counts(Counter(), Counter(), Counter(), Counter())
    written: Counter[str] = Counter()
    for book in novels.read(path):
        forms: Counter[str] = Counter()
        for sentence in book:
            forms.update(map(fold_token, sentence))
            written.update(
                word
                for before, word in pairwise(sentence)
                if word[0].isalpha() and (before[-1].isalnum() or before == ",")
            )
        counts.uses.update(forms)
        counts.books.update(forms.keys())
    for word, n in written.items():
        counts.inside[fold_token(word)] += n
        counts.capital[fold_token(word)] += n * word[0].isupper()
    return counts


def vectors(path: Path, words: list[str], width: int = WIDTH, seed: int = 0) -> NDArray[np.int8]:
    """Return a vector of each word, shape (words, width), of unit variance as int8 in steps of 1/32."""
    ids = _numbers(path, words)
    size, kinds = len(words) + 1, _CONTEXTS + 2
    columns = np.where(ids == _EDGE, kinds - 1, np.where(ids > _CONTEXTS, _RARE, ids))
    parts = []
    for offset in _OFFSETS:
        here = ids[2:-2]
        beside = columns[2 + offset : len(columns) - 2 + offset].copy()
        beside[ids[2 + offset // 2 : len(ids) - 2 + offset // 2] == _EDGE] = kinds - 1
        known = here > 0
        places = here[known].astype(np.int64) * kinds + beside[known]
        pairs = np.bincount(places, minlength=size * kinds).reshape(size, kinds)[1:].astype(np.float32)
        parts.append(_information(pairs))
    reduced = _reduce(np.concatenate(parts, axis=1), width, seed)
    steps = np.clip(np.round(reduced * np.sqrt(width) * SCALE), -127, 127)
    return np.asarray(steps, dtype=np.int8)


def _numbers(path: Path, words: list[str]) -> NDArray[np.int32]:
    """Return the novels as numbers of words from 1, 0 for another word, -1 between sentences."""
    number = {word: place for place, word in enumerate(words, start=1)}
    parts = [np.full(2, _EDGE, dtype=np.int32)]
    for book in novels.read(path):
        flat: list[int] = []
        for sentence in book:
            flat += [number.get(fold_token(word), _RARE) for word in sentence]
            flat.append(_EDGE)
        parts.append(np.array([*flat, _EDGE], dtype=np.int32))
    return np.concatenate(parts)


def _information(pairs: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weigh counts: positive pointwise mutual information, discounted where there are few."""
    share = pairs.sum(axis=0) ** 0.75
    expected = np.where(share > 0, share / np.maximum(share.sum(), 1e-9), 1)
    conditional = pairs / np.maximum(pairs.sum(axis=1, keepdims=True), 1)
    with np.errstate(divide="ignore"):
        weighed = np.log(conditional / expected)
    return np.asarray(np.maximum(weighed, 0) * pairs / (pairs + 1), dtype=np.float32)


def _reduce(table: NDArray[np.float32], width: int, seed: int) -> NDArray[np.float32]:
    """Return the leading singular vectors, scaled by the root of their values, rows of length 1."""
    draw = np.random.default_rng(seed).standard_normal((table.shape[1], width + 20)).astype(np.float32)
    basis = table @ draw
    for _ in range(3):
        basis, _ = np.linalg.qr(basis)
        right, _ = np.linalg.qr(table.T @ basis)
        basis = table @ right
    left, values, _ = np.linalg.svd(basis, full_matrices=False)
    vectors_of_words = left[:, :width] * np.sqrt(values[:width])
    return np.asarray(
        vectors_of_words / np.maximum(np.linalg.norm(vectors_of_words, axis=1, keepdims=True), 1e-6)
    )


def make(path: Path, target: Path, gold: Iterable[treebanks.Sentence]) -> None:
    """Write the lexicon of the novels in `path` to a file."""
    counts = count(path)
    taught = Counter(fold_token(word) for sentence in gold for word in sentence.words)
    common = [word for word, _ in counts.uses.most_common() if counts.books[word] >= _BOOKS][:_WORDS]
    extra = sorted(set(taught) - set(common))
    words = [*common, *(word for word in extra if taught[word] >= _OWN_COUNT)]
    table = vectors(path, common[:_VECTORS])
    names, uses = np.zeros(len(words) + 1, np.uint8), np.zeros(len(words) + 1, np.uint8)
    embedded = np.zeros(len(words) + 1, bool)
    for row, word in enumerate(words, start=1):
        if counts.inside[word] >= _SEEN and counts.books[word] >= _BOOKS:
            names[row] = 1 + round(10 * counts.capital[word] / counts.inside[word])
        if counts.books[word] >= _BOOKS:
            uses[row] = counts.uses[word].bit_length()
        embedded[row] = taught[word] >= _OWN_COUNT or row <= _OWN_RANK
    lexicon = Lexicon(tuple(words), np.concatenate([np.zeros_like(table[:1]), table]), names, uses, embedded)
    with atomic_path(target) as temporary:
        temporary.write_bytes(lexicon.to_bytes())
