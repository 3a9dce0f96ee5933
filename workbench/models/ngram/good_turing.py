"""Back-off models by Katz with Good-Turing discounts: exact counts of n-grams, then the sorted arrays."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workbench.models.ngram.backoff import (
    SHIFT,
    WORD,
    BackOff,
    Singles,
    blocks_of,
    finish_levels,
    level_arrays,
    write_level,
)
from workbench.storage.errors import DataError, writing
from workbench.storage.files import temporary_folder
from workbench.storage.progress import progress_bar

if TYPE_CHECKING:
    from workbench.texts.corpus import Corpus

MOST = 32
"""Counts up to which `NGramCounts.count_of_counts` reaches."""

_NONE = np.uint32(2**32 - 1)  # there is no n-gram of this order that ends here
_BLOCK = 1 << 22  # tokens that a thread sorts in memory at a time, with about 80 bytes each
_THREADS = 2


K = 7
"""Counts up to this are discounted from order 2 on (the default of SRILM's ``-gt2max`` and higher)."""

_NOTHING = 1e-12  # a share of a context's count that is rounding error
_NEVER = -99.0  # SRILM's log10 of 0

Floats = NDArray[np.float64]


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
        Keys of each order, ascending. Order 1 has all V + 3 words, also those never seen.
    counts : tuple of uint32 (n-grams,)
        Counts of each order.
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


def count(
    corpus: Corpus,
    order: int,
    *,
    vocabulary: Sequence[str],
    cutoffs: Sequence[int] | None = None,
    folder: Path | str | None = None,
) -> NGramCounts:
    """Count the n-grams of a corpus, of all orders up to one.

    A sentence has one ``<s>`` before it and one ``</s>`` after it, as in SRILM and KenLM; no
    n-gram reaches from one sentence into the next. Memory holds 4 bytes per token and 12 per listed n-gram,
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
        Where temporary files lie, of up to 12 bytes per token, if there is more than one block. By
        default the system's temporary folder.

    Raises
    ------
    DataError
        If the corpus is too large for 32-bit counts, or the folder has no room.
    """
    least = tuple(cutoffs or (1,) * order)
    stream = _Stream(corpus, vocabulary)
    seen = np.zeros(stream.n_words + 3, np.int64)
    for number in range(len(stream.blocks)):
        seen += np.bincount(stream.words(number), minlength=len(seen))
    rows = [(np.arange(len(seen), dtype=np.uint64), seen.astype(np.uint32), _count_of_counts(seen[:-1]))]
    with temporary_folder(folder or tempfile.gettempdir()) as scratch:
        temporary = scratch if len(stream.blocks) > 1 else None
        ids = np.empty(stream.size, np.uint32)  # index of the n-gram of the order below that ends here
        for length in range(2, order + 1):
            last = length == order
            runs = _runs(stream, ids, temporary, length=length, store=not last)
            rows.append(_merged(runs, least[-1] if last else 1))
            if not last:
                for (span, *_), (keys, _) in zip(stream.blocks, runs, strict=True):
                    here = ids[span]
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
        self.starts = starts
        index = {word: number for number, word in enumerate(vocabulary)}
        self.n_words = len(index)
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
    stream: _Stream, ids: NDArray[np.uint32], folder: Path | None, *, length: int, store: bool
) -> list[_Run]:
    """Count the n-grams of one length in each block.

    `ids` holds at each position the index of the n-gram one shorter that ends there, from length 3 on;
    with `store` the index among those of this block and length, else nothing, is written there.
    """

    def run(number: int) -> _Run:
        words, here = stream.words(number), ids[stream.blocks[number][0]]
        context = (words if length == 2 else here)[:-1]  # noqa: PLR2004 - the context is a word
        usable = words[1:] != stream.n_words + 2
        usable &= context != _NONE
        key = (context[usable].astype(np.uint64) << SHIFT) | words[1:][usable]
        if store:
            keys, inverse, counts = _unique(key)
            here[:] = _NONE
            here[1:][usable] = inverse
        else:
            keys, counts = np.unique(key, return_counts=True)
        numbers = counts.astype(np.uint32)
        if folder is not None:
            keys, numbers = (
                _on_disk(array, folder / f"{length}-{number}-{array.dtype}") for array in (keys, numbers)
            )
        return keys, numbers

    n = len(stream.blocks)
    with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
        runs = pool.map(run, range(n))
        return list(progress_bar(n, label=f"{length}-grams", unit="blocks", iterable=runs))


def _unique(key: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.int64]]:
    """Return `numpy.unique` with inverse and counts, by two fast sorts of numbers alone."""
    position = np.arange(len(key), dtype=np.uint64)
    by_word = np.sort((key << SHIFT) | position) & WORD
    turn = by_word[np.sort((key[by_word] & ~WORD) | position) & WORD]
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
    for interval in range(len(edges) + 1):
        pieces = [slice(*border[interval : interval + 2]) for border in borders]
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


def discounts(count_of_counts: Sequence[int], gtmax: int) -> tuple[Floats, list[str]]:
    """Return the share of each small count that Good-Turing keeps, by Katz's rule.

    ``d_r = (r*/r - A) / (1 - A)`` with ``r* = (r + 1) n_{r+1} / n_r`` and ``A = (k + 1) n_{k+1} / n_1``:
    Katz (1987), equation 12. As in SRILM, `k` is lowered while n_{k+1} is 0, and a count whose
    discount is out of range, or has no n_r, is not discounted.

    Parameters
    ----------
    count_of_counts : sequence of int
        n_r at index r, to r = `gtmax` + 1 at least.
    gtmax : int
        k, the highest count that is discounted; 0 for none.

    Returns
    -------
    float64 (k + 1,), list of str
        d_r at index r (d_0 is 1 and is not used); notes on discounts that could not be computed.
    """
    n, k, notes = np.asarray(count_of_counts, np.float64), gtmax, []
    while k > 0 and n[k + 1] == 0:
        k -= 1
    if k < gtmax:
        notes.append(f"k is {k} instead of {gtmax}, as no n-gram was seen {gtmax + 1} times")
    if k and n[1] == 0:
        notes.append("nothing is discounted, as no n-gram was seen once")
        k = 0
    factors = np.ones(k + 1)
    if not k:
        return factors, notes
    common = (k + 1) * n[k + 1] / n[1]
    for r in range(1, k + 1):
        ratio = (r + 1) * n[r + 1] / (r * n[r]) if n[r] else np.inf
        factor = (ratio - common) / (1 - common) if common != 1 else np.inf
        if _NOTHING < factor <= 1 and ratio <= 1:
            factors[r] = factor
        else:
            notes.append(f"a count of {r} is not discounted: d = {factor:.3g} (r* / r = {ratio:.3g})")
    return factors, notes


def compile_counts(counts: NGramCounts, folder: Path, words: Sequence[str]) -> tuple[BackOff, dict[str, Any]]:
    """Estimate a back-off model of n-gram counts.

    A listed n-gram has the probability d_r r / C with its count r and its context's count C. What is
    left of a context goes to the words not listed there, in proportion to their probabilities after the
    context without its first word, so that each context sums to 1 over the vocabulary, ``</s>`` and
    ``<unk>`` (Katz 1987, equations 13-17). Order 1 is not discounted, as k = 1, SRILM's default for it, gives
    no usable d_1. The estimates are those of SRILM's ``ngram-count -unk -gtNmin``:

    - where nothing is left of a context and not every word is listed there, C grows by 1 (a rule of
      Doug Paul's); where all are listed and something is left, they are scaled to sum to 1;
    - words of the vocabulary, and ``<unk>``, that were never seen share what is left of order 1.

    Parameters
    ----------
    counts : NGramCounts
        Order 2 or more.
    folder : Path
        Where the arrays go; the manifest is written last.
    words : sequence of str (V,)
        The vocabulary, in the order of the numbers in `counts`.

    Returns
    -------
    BackOff
    dict
        ``discounts``: for each order the share of a count of 1, 2, ... that is kept; 1 for higher counts, 0
        for counts below the cutoff. ``notes``: where the rule could not be applied as it stands, and what
        was done instead.

    Raises
    ------
    DataError
        If the arrays cannot be written.
    """
    factors: list[Floats] = []
    notes: list[str] = []
    for n, (n_r, cutoff) in enumerate(zip(counts.count_of_counts, counts.cutoffs, strict=True), start=1):
        shares, remarks = discounts(n_r.tolist(), K if n > 1 else 0)
        shares[1:cutoff] = 0
        factors.append(shares)
        notes += [f"order {n}: {note}" for note in remarks]
    listed = [len(key) for key in counts.keys]
    sizes: dict[str, int] = {}
    with progress_bar(sum(listed), label="smoothing", unit="n-grams") as bar:
        for n, blocks in enumerate(_levels(counts, factors, notes), start=1):
            sizes |= write_level(folder, n, listed[n - 1], blocks)
            bar.update(listed[n - 1])
    model = finish_levels(folder, words, listed, sizes)
    return model, {"discounts": [shares[1:].tolist() for shares in factors], "notes": notes}


def _unigrams(counts: NGramCounts, notes: list[str]) -> Floats:
    """Return the probabilities of order 1, which is not discounted; that of ``<s>`` is 0."""
    seen = counts.counts[0].astype(np.float64)
    seen[-1] = 0
    unseen = seen == 0
    unseen[-1] = False
    probability: Floats = seen / (seen.sum() + bool(unseen.any()))
    if unseen.any():
        remainder = 1 - probability.sum()
        probability[unseen] = remainder / unseen.sum()
        note = f"{unseen.sum()} words that were never seen share {remainder:.3g}"
        notes.append(f"order 1: {note}{' (<unk> is one of them)' if unseen[-2] else ''}")
    return probability


def _discounted(counts: NDArray[np.uint32], factors: Floats) -> Floats:
    """Return counts times the share that is kept of them."""
    share = np.append(factors, 1.0)
    adjusted: Floats = counts * share[np.minimum(counts, len(factors))]
    return adjusted


def _levels(
    counts: NGramCounts, factors: Sequence[Floats], notes: list[str]
) -> Iterator[Iterator[dict[str, Any]]]:
    """Yield for each order its arrays in parts; add to the notes."""
    probability = _unigrams(counts, notes)
    logp = lower = _log10(probability)  # after the context, and after the shorter one
    shorter = np.zeros(len(logp), np.uint32)  # of each n-gram the index of its last n - 1 words
    scaled = 0
    for n in range(1, counts.order):
        key = counts.keys[n]
        context, word = (key >> SHIFT).astype(np.uint32), key & WORD
        if n == 1:
            shorter = word.astype(np.uint32)
        else:
            key = (shorter[context].astype(np.uint64) << SHIFT) | word
            shorter = np.searchsorted(counts.keys[n - 1], key).astype(np.uint32)
        del key, word
        share = _discounted(counts.counts[n], factors[n])
        weight, probability, full = _back_off(counts, n, context, share, probability[shorter])
        scaled += full
        yield _array_blocks(counts, n, logp, lower, _log10(weight))
        lower, logp = logp[shorter], _log10(probability)
    yield _array_blocks(counts, counts.order, logp, lower, None)
    if scaled:
        notes.append(f"{scaled} contexts that every word follows were scaled to sum to 1")


def _array_blocks(
    counts: NGramCounts, n: int, logp: Singles, lower: Singles, backoff: Singles | None
) -> Iterator[dict[str, Any]]:
    """Yield the arrays of an order in parts."""
    if n == 1:
        yield {"logp": logp, "backoff": backoff}
        return
    for rows in blocks_of(counts.keys[n - 1]):
        weights = None if backoff is None else backoff[rows]
        yield level_arrays(counts.keys[n - 1][rows], logp[rows], lower[rows], weights, counts.n_words)


def _back_off(
    counts: NGramCounts, n: int, context: NDArray[np.uint32], share: Floats, lower: Floats
) -> tuple[Floats, Floats, int]:
    """Return back-off weights of order n, probabilities of order n + 1, and how many contexts were scaled.

    `context` and `share` are index of the context and discounted count of each (n + 1)-gram, `lower`
    the probability of its last word after the context without its first word.
    """
    size = len(counts.keys[n - 1])
    followers = np.bincount(context, minlength=size)
    listed = np.bincount(context, share, size)
    total = counts.counts[n - 1].astype(np.float64)
    remaining = total - listed
    nothing = remaining <= _NOTHING * total
    full = followers == counts.n_words + 2
    grows = nothing & ~full & (followers > 0)
    total[grows] += 1
    remaining[grows] = total[grows] - listed[grows]
    total[full] = listed[full]
    elsewhere = 1 - np.bincount(context, lower, size)
    has = (followers > 0) & ~full
    weight = np.ones(size)
    np.divide(remaining, total * elsewhere, out=weight, where=has)
    return weight, share / total[context], int((full & ~nothing).sum())


def _log10(values: Floats) -> NDArray[np.float32]:
    """Return log10 as the 32-bit floats that KenLM holds."""
    logs = np.full(len(values), _NEVER)
    np.log10(values, out=logs, where=values > 0)
    return (logs + 0.0).astype(np.float32)
