"""Back-off models by Katz with Good-Turing discounts, from counts to sorted arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.models.ngram.backoff import BackOff, Singles
from workbench.models.ngram.counts import SHIFT, WORD, NGramCounts
from workbench.models.ngram.levels import blocks_of, finish_levels, level_arrays, write_level
from workbench.storage.progress import progress_bar

K = 7
"""Counts up to this are discounted from order 2 on (the default of SRILM's ``-gt2max`` and higher)."""

_NOTHING = 1e-12  # a share of a context's count that is rounding error
_NEVER = -99.0  # SRILM's log10 of 0

Floats = NDArray[np.float64]


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


def compile_counts(
    counts: NGramCounts, folder: Path, words: Sequence[str], *, progress: bool = True
) -> tuple[BackOff, dict[str, Any]]:
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
    progress : bool, default True

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
    with progress_bar(sum(listed), label="smoothing", unit="n-grams", shown=progress) as bar:
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
        left = 1 - probability.sum()
        probability[unseen] = left / unseen.sum()
        note = f"{unseen.sum()} words that were never seen share {left:.3g}"
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
        yield _parts(counts, n, logp, lower, _log10(weight))
        lower, logp = logp[shorter], _log10(probability)
    yield _parts(counts, counts.order, logp, lower, None)
    if scaled:
        notes.append(f"{scaled} contexts that every word follows were scaled to sum to 1")


def _parts(
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
    left = total - listed
    nothing = left <= _NOTHING * total
    full = followers == counts.n_words + 2
    grows = nothing & ~full & (followers > 0)
    total[grows] += 1
    left[grows] = total[grows] - listed[grows]
    total[full] = listed[full]
    elsewhere = 1 - np.bincount(context, lower, size)
    has = (followers > 0) & ~full
    weight = np.ones(size)
    np.divide(left, total * elsewhere, out=weight, where=has)
    return weight, share / total[context], int((full & ~nothing).sum())


def _log10(values: Floats) -> NDArray[np.float32]:
    """Return log10 as the 32-bit floats that KenLM holds."""
    logs = np.full(len(values), _NEVER)
    np.log10(values, out=logs, where=values > 0)
    return (logs + 0.0).astype(np.float32)
