"""Near-duplicate novels: pairs that share their word 5-grams, found by MinHash and verified exactly.

A novel is cut into segments. MinHash (Broder 1997) with locality-sensitive hashing finds the segments of
different novels that look alike, so a short novel is found in an omnibus of any size, which a sketch of whole
novels would miss. The shared 5-grams of each candidate pair are then counted.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.texts.ngram_hash import Hashes, normalise, rolling_hashes

Sketch = npt.NDArray[np.uint32]
"""The MinHash values of the segments of a novel: (segments, `PERMUTATIONS`)."""

SHINGLE = 5
"""Words of an n-gram."""
SEGMENT = 4096
"""N-grams of a segment; the last one may have fewer or up to half as many more."""
BANDS, ROWS = 42, 3
"""Segments are alike if all values of a band are equal: half of the segments with a Jaccard of 0.25 are."""
PERMUTATIONS = BANDS * ROWS
SEED, SCHEME = 1, "affine32"
_LEAST = 0.05  # share of the segments of the shorter novel that must be like one of the other
_KNOWN = 1 << 20  # tokens whose words are cached
_MARKS = '.,;:!?"'  # around a token
_SETS = 64  # n-gram sets in memory

PARAMETERS: dict[str, Any] = {
    "shingle": f"{SHINGLE} normalised words",
    "shingle_hash": "polynomial, 64 bits, of BLAKE2b-64 word codes",
    "segment": SEGMENT,
    "minhash_permutations": PERMUTATIONS,
    "minhash_bands": BANDS,
    "minhash_rows": ROWS,
    "minhash_scheme": SCHEME,
    "minhash_seed": SEED,
}
"""What a manifest names."""


class Pair(NamedTuple):
    """How much two novels share.

    Attributes
    ----------
    one, other : str
        Their ids, in order.
    jaccard : float
        Shared n-grams as a share of all different n-grams of both.
    one_in_other, other_in_one : float
        Containment: shared n-grams as a share of those of one, and of the other.
    """

    one: str
    other: str
    jaccard: float
    one_in_other: float
    other_in_one: float

    @property
    def containment(self) -> float:
        """The greater containment: how much of the smaller novel the larger one holds."""
        return max(self.one_in_other, self.other_in_one)


class _Codes(dict[str, tuple[int, ...]]):
    """The codes of the normalised words of each token, which no process or machine changes."""

    def __missing__(self, token: str) -> tuple[int, ...]:
        if len(self) > _KNOWN:
            self.clear()
        if token.isascii() and (plain := token.strip(_MARKS).lower()) != token:
            codes = self[token] = self[plain]  # marks and capitals give no other words: normalised once
            return codes
        words = (hashlib.blake2b(word.encode(), digest_size=8).digest() for word in normalise(token))
        codes = self[token] = tuple([int.from_bytes(word, "little") for word in words])
        return codes


_codes = _Codes()


def text_codes(text: str) -> Hashes:
    """Return a code of 64 bits for each normalised word of a text, tokenised or not."""
    return np.fromiter(chain.from_iterable(map(_codes.__getitem__, text.split())), np.uint64)


def n_gram_hashes(codes: Hashes, n: int = SHINGLE) -> Hashes:
    """Return the hashes of the n-grams at their places; of a shorter text the hash of all its words."""
    n = min(n, len(codes))
    return next(hashes for _, hashes in rolling_hashes(codes, [n])) if n else codes


def shingles(text: str) -> Hashes:
    """Return the set of the hashes of a text's n-grams, sorted.

    Hashes of 64 bits stand for n-grams: different n-grams of two novels of 100,000 words have the same one in
    one of two billion pairs of novels.
    """
    return np.unique(n_gram_hashes(text_codes(text)))


def sketch(codes: Hashes) -> Sketch:
    """Return the MinHash values of each segment of a text."""
    from datasketch import MinHash  # noqa: PLC0415 - slow

    empty = MinHash(PERMUTATIONS, seed=SEED, scheme=SCHEME, hashfunc=int)
    hashes = (n_gram_hashes(codes) >> np.uint64(32)).astype(np.uint32)
    n = max(1, round(len(hashes) / SEGMENT))
    bounds = [*range(0, n * SEGMENT, SEGMENT), len(hashes)]
    rows = np.empty((n if len(hashes) else 0, PERMUTATIONS), np.uint32)
    for number in range(len(rows)):
        segment = empty.copy()
        segment.update_batch(hashes[bounds[number] : bounds[number + 1]].tolist())
        rows[number] = segment.hashvalues
    return rows


def candidates(sketches: Mapping[str, Sketch]) -> list[tuple[str, str]]:
    """Return the pairs of novels that may share much, sorted: segments of both look alike.

    Of the novel with fewer segments one in twenty must be like a segment of the other, so that a licence that
    many files have in common makes no pairs of them.
    """
    from datasketch import LeanMinHash, MinHashLSH  # noqa: PLC0415 - slow

    index = MinHashLSH(num_perm=PERMUTATIONS, params=(BANDS, ROWS))
    alike: defaultdict[tuple[str, str], tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for name in sorted(sketches):
        rows = [LeanMinHash(seed=SEED, hashvalues=row, scheme=SCHEME) for row in sketches[name]]
        for number, row in enumerate(rows):
            for other, place in index.query(row):
                matched = alike[other, name]
                matched[0].add(place)
                matched[1].add(number)
        for number, row in enumerate(rows):
            index.insert((name, number), row, check_duplication=False)
    pairs = []
    for (one, other), matched in alike.items():
        n, is_alike = min(
            (len(sketches[name]), len(places)) for name, places in zip((one, other), matched, strict=True)
        )
        if is_alike >= _LEAST * n:
            pairs.append((one, other))
    return sorted(pairs)


def compare_pairs(text: Callable[[str], str], pairs: Sequence[tuple[str, str]]) -> list[Pair]:
    """Return how much the novels of each pair share, counted exactly; `text` gives a text by its id."""
    n_grams = lru_cache(maxsize=_SETS)(lambda name: shingles(text(name)))
    result = []
    for one, other in pairs:
        first, second = n_grams(one), n_grams(other)
        shared = len(np.intersect1d(first, second, assume_unique=True))
        union = len(first) + len(second) - shared
        shares = (shared / size if size else 0.0 for size in (union, len(first), len(second)))
        result.append(Pair(one, other, *shares))
    return result


def groups(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the group of each name, called by its smallest member: names of a pair are in one group."""
    parent = {name: name for name in names}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for one, other in pairs:
        first, last = sorted((root(one), root(other)))
        parent[last] = first
    return {name: root(name) for name in parent}
