"""Log-probabilities of every word of a passage by a causal model, in one pass over the passage."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.items.schema import Span
from workbench.models.pretrained.loading import Ids, padded
from workbench.models.pretrained.scoring import CausalScorer
from workbench.runs.predictions import Floats
from workbench.storage.errors import DataError

Integers = npt.NDArray[np.int64]

_LOGITS = 1 << 26  # of the positions that are asked of one row in one pass


class _Block(NamedTuple):
    """Positions of a row that are asked in one pass, which sees the sub-tokens from `first` to `stop`."""

    row: int
    first: int
    start: int
    stop: int


def passage_log_probs(
    scorer: CausalScorer,
    texts: Sequence[str],
    words: Sequence[Sequence[Span]],
    *,
    fail: Callable[[int], DataError],
    step: Callable[[int], object] = lambda _n: None,
) -> list[Floats]:
    """Return natural log-probabilities of the words of texts, and of their ends.

    The sub-tokens are those of the whole text. One that reaches over several words belongs to the first of
    them, white space alone to the next word. A word is over if the next sub-token says so
    (:class:`workbench.models.pretrained.scoring.Subwords`): the probability of this is counted with the word,
    and the next word's is divided by it, as that word comes after one that is over (Pimentel and Meister
    2024, section 3). Between words that are joined, as ``did`` and ``n't`` may be, neither is done. The first
    word comes after the tokenizer's mark of a beginning, which the others see if the tokenizer adds it.

    A text that is longer than the model sees is read in windows, of which each word sees half at least.

    Parameters
    ----------
    scorer : CausalScorer
    texts : sequence of str (n,)
    words : sequence of sequence of (int, int) (n,)
        Where the words of each text stand, in order: one at least, and all of the text but white space.
    fail : callable
        Returns the error of a text of which a log-probability is not a number.
    step : callable, optional
        Progress callback: called with the number of texts done; the first words are texts, too.

    Returns
    -------
    list of array (words, 2)
        Of each word given those before it, its end included, and of its end alone (0 where it is joined to
        the next). NaN for a word without a sub-token of its own, which is counted with the one before, and
        for the first word where the tokenizer has no mark.
    """
    subwords, n = scorer.subwords, len(texts)
    texts = [text[: spans[-1][1]] for text, spans in zip(texts, words, strict=True)]
    owners = [_owners(subwords.offsets(text), text, spans) for text, spans in zip(texts, words, strict=True)]
    rows = [ids[: len(owner)] for ids, owner in zip(subwords.encode(texts), owners, strict=True)]
    lasts = [_lasts(owner) for owner in owners]
    begins = [int(last[0]) for last in lasts]
    has_mark = subwords.prefix is not None
    if has_mark:
        firsts = [spans[owner[last[0]]][1] for spans, owner, last in zip(words, owners, lasts, strict=True)]
        pairs = subwords.pairs([("", text[:end]) for text, end in zip(texts, firsts, strict=True)])
        rows, begins = [*rows, *(head + tail for head, tail in pairs)], [*begins, *[0] * n]
    values = _next_and_end(scorer, rows, begins, fail=lambda row: fail(row % n), step=step)
    results = []
    for index, (owner, last) in enumerate(zip(owners, lasts, strict=True)):
        begin, who = begins[index], owner[last]
        sums = np.zeros(len(words[index]))
        np.add.at(sums, owner[begin + 1 :], values[index][begin:-1, 0])
        sums[who[0]] = values[n + index][:-1, 0].sum() if has_mark else np.nan
        end = values[index][last, 1]
        if has_mark:
            end[0] = values[n + index][-1, 1]
        end[:-1][~subwords.ends[np.array(rows[index])[last[:-1] + 1]]] = 0.0  # joined to the next word
        result = np.full((len(words[index]), 2), np.nan)
        result[who] = np.stack([sums[who] + end - np.append(0.0, end[:-1]), end], axis=1)
        results.append(result)
    return results


def _owners(offsets: Sequence[Span], text: str, words: Sequence[Span]) -> Integers:
    """Return the word of each sub-token, -1 for a mark before the first, without marks after the last."""
    ends = [end for _, end in words]
    owners: list[int] = []
    n_shown, owner = 0, -1
    for start, end in offsets:
        if start < end:
            visible = end - len(text[start:end].lstrip())
            owner = max(owner, min(bisect_right(ends, visible), len(ends) - 1))
            n_shown = len(owners) + 1
        owners.append(owner)
    return np.array(owners[:n_shown], dtype=np.int64)


def _lasts(owner: Integers) -> Integers:
    """Return the place of the last sub-token of each word that has one."""
    last = np.flatnonzero(np.append(owner[1:] != owner[:-1], True))
    return last[owner[last] >= 0]


def _next_and_end(
    scorer: CausalScorer,
    rows: Sequence[Ids],
    begins: Sequence[int],
    *,
    fail: Callable[[int], DataError],
    step: Callable[[int], object],
) -> list[Floats]:
    """Return log-probabilities after each sub-token from a place on: of the next one, and of a word's end."""
    import torch  # noqa: PLC0415 - heavy

    values = [np.full((len(ids), 2), np.nan) for ids in rows]
    most, length = max(_LOGITS // len(scorer.subwords.ends), 1), scorer.length
    blocks = []
    for row, (ids, begin) in enumerate(zip(rows, begins, strict=True)):
        start = begin
        while start < len(ids):
            stop = min(len(ids), start + most, max(length, start + max(length // 2, 1)))
            blocks.append(_Block(row, max(0, stop - length), start, stop))
            start = stop

    def work(batch: Sequence[int]) -> Floats:
        ids, _ = padded([rows[each.row][each.first : each.stop] for each in map(blocks.__getitem__, batch)])
        asked = [range(blocks[index].start, blocks[index].stop) for index in batch]
        places = [
            [position - blocks[index].first for position in part]
            for index, part in zip(batch, asked, strict=True)
        ]
        logits = scorer.checkpoint.logits(ids, places, use_cache=False)[0]
        norm, end = scorer.end_log_probs(logits)
        following = [[*rows[blocks[index].row][1:], 0] for index in batch]  # nothing comes after the last
        targets = [row[position] for row, part in zip(following, asked, strict=True) for position in part]
        value = logits.gather(1, scorer.tensor(targets)[:, None])[:, 0].double() - norm.double()
        return np.asarray(torch.stack([value, end.double()], dim=1).cpu().numpy(), dtype=float)

    lengths = [each.stop - each.first for each in blocks]
    positions = [each.stop - each.start for each in blocks]
    for batch, result in scorer.batcher.run(lengths, work, positions=positions):
        parts = np.split(result, np.cumsum([positions[index] for index in batch])[:-1])
        for block, part in zip(map(blocks.__getitem__, batch), parts, strict=True):
            if np.isnan(part).any():
                raise fail(block.row)
            values[block.row][block.start : block.stop] = part
            step(int(block.stop == len(rows[block.row])))
    return values
