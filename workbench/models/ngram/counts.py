"""Exact counts of the n-grams of a corpus, in sorted arrays that form a trie."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.storage.errors import DataError, writing
from workbench.storage.files import scratch_folder
from workbench.storage.parallel import cores
from workbench.storage.progress import progress_bar

if TYPE_CHECKING:
    from workbench.texts.corpus import Corpus

MOST = 32
"""Counts up to which `NGramCounts.count_of_counts` reaches."""

SHIFT, WORD = np.uint64(32), np.uint64(2**32 - 1)
"""A key is ``context << SHIFT | word``; ``key & WORD`` is the last word."""

_NONE = np.uint32(2**32 - 1)  # there is no n-gram of this order that ends here
_BLOCK = 1 << 22  # tokens that a thread sorts in memory at a time, with about 80 bytes each
_THREADS = 2


@dataclass(frozen=True, eq=False)
class NGramCounts:
    """How often each n-gram of the orders 1 to `order` was seen.

    Words are numbers: 0 to V - 1 are the words of the vocabulary in its order, V is ``</s>``, V + 1
    is ``<unk>``, V + 2 is ``<s>``. N-grams are indices into the arrays of their order. The key of an n-gram
    is the index of its first n - 1 words, in the order below, times 2^32, plus its last word. So n-grams
    are sorted by their words, those of one context are adjacent, and the keys form a trie.

    Attributes
    ----------
    n_words : int
        V, words in the vocabulary.
    keys : tuple of uint64 (n-grams,)
        For each order the keys, ascending. Order 1 has all V + 3 words, also those never seen.
    counts : tuple of uint32 (n-grams,)
        For each order the counts.
    count_of_counts : int64 (order, MOST + 1)
        ``[n - 1, r]``: n-grams of order n that were seen r times, before any cutoff, without those that
        end in ``<s>``, as it is never predicted. Column 0 is 0.
    cutoffs : tuple of int (order,)
        Least count of the n-grams that are listed.
    """

    n_words: int
    keys: tuple[NDArray[np.uint64], ...]
    counts: tuple[NDArray[np.uint32], ...]
    count_of_counts: NDArray[np.int64]
    cutoffs: tuple[int, ...]

    @property
    def order(self) -> int:
        """Length of the longest n-grams."""
        return len(self.keys)

    def grams(self, order: int, first: int = 0, stop: int | None = None) -> NDArray[np.uint32]:
        """Return the words of the n-grams `first` to `stop` of an order: uint32 (n, order)."""
        key = self.keys[order - 1][first:stop]
        words = np.empty((len(key), order), np.uint32)
        for column in range(order - 1, 0, -1):
            words[:, column] = key & WORD
            key = self.keys[column - 1][key >> SHIFT]
        words[:, 0] = key
        return words


def check_cutoffs(cutoffs: Sequence[int] | None, order: int) -> tuple[int, ...]:
    """Return cutoffs as a tuple, ones for None; `DataError` if they cannot be applied."""
    least_counts = (1,) * order if cutoffs is None else tuple(int(least) for least in cutoffs)
    if len(least_counts) != order or least_counts[0] != 1 or any(b < a for a, b in pairwise(least_counts)):
        raise DataError(
            f"the cutoffs {least_counts} are not {order} numbers that begin with 1 and never fall",
            remedy=f"give one least count an order, such as {(1,) * (order - 1) + (2,)}",
        )
    return least_counts


def count(
    corpus: Corpus,
    order: int,
    *,
    vocabulary: Sequence[str],
    cutoffs: Sequence[int] | None = None,
    folder: Path | str | None = None,
    progress: bool = True,
) -> NGramCounts:
    """Count the n-grams of a corpus, of all orders up to one.

    A sentence has one ``<s>`` before it and one ``</s>`` after it, as in SRILM and KenLM; no
    n-gram reaches from one sentence into the next. Memory holds 4 bytes a token and 12 a listed n-gram,
    besides the block that is sorted.

    Parameters
    ----------
    corpus : Corpus
        Its `words`, `ids` and `starts` are used.
    order : int
        Length of the longest n-grams, 1 or more.
    vocabulary : sequence of str
        Words that count as themselves; the others count as ``<unk>``. A word that the corpus does not
        have is seen 0 times.
    cutoffs : sequence of int, optional
        For each order the least count of the n-grams that are listed. The first is 1, as the vocabulary
        says which words there are; none is less than the one before. What an n-gram begins or ends
        with is seen as often at least, so it is listed too.
    folder : path, optional
        Where temporary files lie, of up to 12 bytes a token, if there is more than one block. By
        default the system's temporary folder.
    progress : bool, default True

    Raises
    ------
    DataError
        If the corpus is empty or too large for 32-bit counts, the vocabulary has a word twice,
        the cutoffs are not usable, or the folder has no room.
    """
    least = check_cutoffs(cutoffs, order)
    stream = _Stream(corpus, vocabulary)
    seen = np.zeros(stream.n_words + 3, np.int64)
    for number in range(len(stream.blocks)):
        seen += np.bincount(stream.words(number), minlength=len(seen))
    rows = [(np.arange(len(seen), dtype=np.uint64), seen.astype(np.uint32), _count_of_counts(seen[:-1]))]
    with scratch_folder(folder or tempfile.gettempdir()) as scratch:
        temporary = scratch if len(stream.blocks) > 1 else None
        at = np.empty(stream.size, np.uint32)  # index of the n-gram of the order below that ends here
        for length in range(2, order + 1):
            last = length == order
            runs = _runs(stream, at, temporary, length=length, place=not last, progress=progress)
            rows.append(_merged(runs, least[-1] if last else 1))
            if not last:
                for (span, *_), (keys, _) in zip(stream.blocks, runs, strict=True):
                    here = at[span]
                    complete = here != _NONE
                    here[complete] = np.searchsorted(rows[-1][0], keys)[here[complete]]
            del runs
            for file in temporary.glob(f"{length}-*") if temporary else ():
                file.unlink()
    listed, counts, count_of_counts = (list(column) for column in zip(*rows, strict=True))
    moved: NDArray[np.uint64] | None = None  # old index to new, in the order below
    for n in range(1, order):  # the lower orders are cut now that nothing builds on them
        if moved is not None:
            listed[n] = (moved[listed[n] >> SHIFT] << SHIFT) | (listed[n] & WORD)
        stays = counts[n] >= least[n]
        moved = None if stays.all() else np.cumsum(stays, dtype=np.uint64) - np.uint64(1)
        if moved is not None:
            listed[n], counts[n] = listed[n][stays], counts[n][stays]
    return NGramCounts(stream.n_words, tuple(listed), tuple(counts), np.stack(count_of_counts), least)


_Run = tuple[NDArray[np.uint64], NDArray[np.uint32]]  # keys, strictly ascending, and their counts


class _Stream:
    """The words of a corpus as models have them, ``<s>`` and ``</s>`` among them, in blocks of sentences."""

    def __init__(self, corpus: Corpus, vocabulary: Sequence[str]) -> None:
        self.ids, starts = corpus.ids, np.asarray(corpus.starts, np.int64)
        if len(starts) < 2 or starts[-1] == 0:  # noqa: PLR2004 - a start and an end
            raise DataError("the corpus has no words", remedy="give texts with at least one sentence")
        self.starts = starts
        index = {word: place for place, word in enumerate(vocabulary)}
        self.n_words = len(index)
        if len(index) < len(vocabulary):
            raise DataError("the vocabulary has a word twice", remedy="name each word once")
        self.number = np.array([index.get(word, self.n_words + 1) for word in corpus.words], np.uint32)
        begins = starts + 2 * np.arange(len(starts))
        self.size = int(begins[-1])
        if self.size >= int(_NONE):
            raise DataError(f"the corpus has {self.size:,} tokens; 2^32 - 2 is the most that can be counted")
        cuts = np.searchsorted(begins, np.arange(_BLOCK, self.size, _BLOCK))
        borders = np.unique([0, *cuts, len(starts) - 1])
        self.blocks = [  # where they lie among all tokens, and in which sentences they begin and stop
            (slice(int(begins[first]), int(begins[stop])), first, stop) for first, stop in pairwise(borders)
        ]

    def words(self, number: int) -> NDArray[np.uint32]:
        """Return the words of a block."""
        _, first, stop = self.blocks[number]
        starts = self.starts[first : stop + 1]
        begins = starts - starts[0] + 2 * np.arange(len(starts))
        words = np.empty(begins[-1], np.uint32)
        inner = np.ones(len(words), bool)
        inner[begins[:-1]] = inner[begins[1:] - 1] = False
        words[begins[:-1]], words[begins[1:] - 1] = self.n_words + 2, self.n_words
        words[inner] = self.number[self.ids[starts[0] : starts[-1]]]
        return words


def _runs(
    stream: _Stream, at: NDArray[np.uint32], folder: Path | None, *, length: int, place: bool, progress: bool
) -> list[_Run]:
    """Count the n-grams of one length in each block.

    `at` holds at each place the index of the n-gram one shorter that ends there, from length 3 on;
    with `place` the index among those of this block and length, else nothing, is written there.
    """

    def run(number: int) -> _Run:
        words, here = stream.words(number), at[stream.blocks[number][0]]
        context = (words if length == 2 else here)[:-1]  # noqa: PLR2004 - the context is a word
        usable = words[1:] != stream.n_words + 2
        usable &= context != _NONE
        key = (context[usable].astype(np.uint64) << SHIFT) | words[1:][usable]
        if place:
            keys, inverse, counts = _unique(key)
            here[:] = _NONE
            here[1:][usable] = inverse
        else:
            keys, counts = np.unique(key, return_counts=True)
        numbers = counts.astype(np.uint32)
        if folder is not None:
            keys, numbers = (
                _on_disk(part, folder / f"{length}-{number}-{part.dtype}") for part in (keys, numbers)
            )
        return keys, numbers

    n = len(stream.blocks)
    with ThreadPoolExecutor(min(_THREADS, cores())) as pool:
        runs = pool.map(run, range(n))
        return list(progress_bar(n, label=f"{length}-grams", unit="blocks", shown=progress, iterable=runs))


def _unique(key: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
    """Return what `numpy.unique` does, with inverse and counts, by two fast sorts of numbers alone."""
    place = np.arange(len(key), dtype=np.uint64)
    by_word = np.sort((key << SHIFT) | place) & WORD
    turn = by_word[np.sort((key[by_word] & ~WORD) | place) & WORD]
    key = key[turn]
    is_first = np.concatenate(([True], key[1:] != key[:-1]))[: len(key)]
    inverse = np.empty(len(key), np.uint32)
    inverse[turn] = np.cumsum(is_first, dtype=np.uint32) - np.uint32(1)
    first = np.flatnonzero(is_first)
    return key[first], inverse, np.diff(first, append=len(key))


def _on_disk(array: NDArray[Any], path: Path) -> NDArray[Any]:
    with writing(path, "this table of counts"):
        path.write_bytes(array.data)  # ndarray.tofile does not see that the disk was full when it closes
    return np.memmap(path, array.dtype, "r", shape=array.shape) if array.size else array


def _merged(runs: list[_Run], least: int) -> tuple[*_Run, NDArray[np.int64]]:
    """Add up the counts of sorted runs; return keys and counts from `least` on, and the count of counts.

    Keys are cut into ranges of about `_BLOCK` entries of all runs, and each range is sorted in memory.
    """
    step = max(1, _BLOCK // (64 * len(runs)))
    sample = np.sort(np.concatenate([run[::step] for run, _ in runs]))
    edges = sample[:: max(1, _BLOCK // step)][1:]
    borders = [np.concatenate(([0], np.searchsorted(run, edges), [len(run)])) for run, _ in runs]
    total = sum(len(run) for run, _ in runs)
    keys, counts = np.empty(total, np.uint64), np.empty(total, np.uint32)
    count_of_counts = np.zeros(MOST + 1, np.int64)
    filled = 0
    for part in range(len(edges) + 1):
        pieces = [slice(*border[part : part + 2]) for border in borders]
        key, number = (
            np.concatenate([run[column][piece] for run, piece in zip(runs, pieces, strict=True)])
            for column in (0, 1)
        )
        if not len(key):
            continue
        if len(runs) > 1:
            sort = np.argsort(key, kind="stable")
            key, number = key[sort], number[sort]
            first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
            key, number = key[first], np.add.reduceat(number, first, dtype=np.uint32)
        count_of_counts += _count_of_counts(number)
        stays = number >= least
        key, number = key[stays], number[stays]
        keys[filled : filled + len(key)], counts[filled : filled + len(key)] = key, number
        filled += len(key)
    return keys[:filled], counts[:filled], count_of_counts


def _count_of_counts(counts: NDArray[Any]) -> NDArray[np.int64]:
    """Return how many counts are r, for r of 0 to `MOST`; 0 for r = 0."""
    numbers = np.bincount(counts[counts <= MOST].astype(np.int64), minlength=MOST + 1)
    numbers[0] = 0
    return numbers
