"""Log-probabilities of texts, and of every word of a passage, by a causal model in one pass over each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from workbench.items.schema import Span
from workbench.models.base import PassageLogProbs
from workbench.models.pretrained.loading import Ids, padded
from workbench.models.pretrained.scoring import CausalScorer, no_scores, word_log_probs
from workbench.models.pretrained.subwords import Continuation
from workbench.models.text_scores import Beginning, LongText, TextScores, text_windows
from workbench.predictions.schema import Floats
from workbench.storage.errors import DataError

Integers = npt.NDArray[np.int64]

_LOGITS = 1 << 26  # of the positions that are asked of one row in one pass


def passage_log_probs(
    scorer: CausalScorer,
    passages: Sequence[tuple[str, Sequence[Span]]],
    *,
    top_k: int = 0,
    fail: Callable[[int], DataError],
    step: Callable[[float], object] = lambda _n: None,
) -> list[PassageLogProbs]:
    """Return natural log-probabilities of the words of texts and of their ends, and the best words.

    The sub-tokens are those of the whole text. One that reaches over several words belongs to the first of
    them, white space alone to the next word. A word is over if the next sub-token says so (`Subwords` of
    :mod:`workbench.models.pretrained.subwords`): the probability of this is counted with the word, and the
    next word's is divided by it, as that word comes after one that is over (Pimentel and Meister 2024,
    section 3). Between words that are joined, as ``did`` and ``n't`` may be, neither is done. The first
    word comes after the tokenizer's mark of a beginning, which the others see if the tokenizer adds it.

    A text that is longer than the model sees is read in windows, of which each word sees half at least.

    The best words come from the same pass. They are words of letters that are one sub-token with a space
    before it (:meth:`Subwords.whole_words`); a longer word is never among them. Their log-probability is that
    of the sub-token, given that the word before is over, without the end of the word, which would take a
    pass for each. So a word that is one sub-token is no more probable than it would be among the best.

    A passage is a text, and where its words stand, in order: all of the text but white space. `fail` gives
    the error of a passage of which a log-probability is not a number. `step` is called with the number of
    texts done; the first words are texts, too.

    The end is 0 where a word is joined to the next. Log-probabilities are NaN for a word without a sub-token
    of its own, and for the first one if the tokenizer has no mark. The first word, and one that is joined to
    the word before it, have no best words.
    """
    results = [PassageLogProbs(np.zeros((0, 2)), [], [])] * len(passages)
    numbers = [number for number, (_, spans) in enumerate(passages) if spans]
    words = [passages[number][1] for number in numbers]
    texts = [passages[number][0][: spans[-1][1]] for number, spans in zip(numbers, words, strict=True)]
    subwords, n = scorer.subwords, len(texts)
    offsets = [subwords.offsets(text) for text in texts]
    owners = [_owners(*passage) for passage in zip(offsets, texts, words, strict=True)]
    rows = [ids[: len(owner)] for ids, owner in zip(subwords.encode(texts), owners, strict=True)]
    lasts = [_lasts(owner) for owner in owners]
    begins = [int(last[0]) for last in lasts]
    has_mark = subwords.prefix is not None
    if has_mark:
        firsts = [text[: spans[last[0]][1]] for text, spans, last in zip(texts, offsets, lasts, strict=True)]
        pairs = subwords.pairs([[("", first)] for first in firsts])
        rows, begins = [*rows, *(head + tail for head, tail in pairs)], [*begins, *[0] * n]
    singles = subwords.whole_words()
    names = list(singles)
    top_k = min(top_k, len(names))
    values = _next_and_end(
        scorer,
        rows,
        begins,
        list(singles.values()),
        top_k,
        fail=lambda row: fail(numbers[row % n]),
        step=step,
    )
    for index, (owner, last) in enumerate(zip(owners, lasts, strict=True)):
        begin, who = begins[index], owner[last]
        sums = np.zeros(len(words[index]))
        np.add.at(sums, owner[begin + 1 :], values[index][begin:-1, 0])
        sums[who[0]] = values[n + index][:-1, 0].sum() if has_mark else np.nan
        end = values[index][last, 1]
        if has_mark:
            end[0] = values[n + index][-1, 1]
        is_over = subwords.ends[np.array(rows[index])[last[:-1] + 1]]
        end[:-1][~is_over] = 0.0  # joined to the next word
        log_probs = np.full((len(words[index]), 2), np.nan)
        log_probs[who] = np.stack([sums[who] + end - np.append(0.0, end[:-1]), end], axis=1)
        top_words: list[list[str]] = [[] for _ in words[index]]
        top_log_probs: list[list[float]] = [[] for _ in words[index]]
        if top_k:
            for after, word in zip(np.flatnonzero(is_over), who[1:][is_over], strict=True):
                best = values[index][last[after], 2:]
                top_words[word] = [names[number] for number in best[top_k:].astype(int)]
                top_log_probs[word] = (best[:top_k] - values[index][last[after], 1]).tolist()
        results[numbers[index]] = PassageLogProbs(log_probs, top_words, top_log_probs)
    return results


def text_scores(
    scorer: CausalScorer,
    texts: Sequence[Continuation],
    *,
    beginning: Beginning | None,
    window: LongText,
    fail: Callable[[int], DataError],
    step: Callable[[float], object] = lambda _n: None,
) -> TextScores:
    """Return the log-probabilities of texts after contexts; see `Predictor.text_scores`.

    A text without context comes after the mark of the beginning. Without that its first sub-token has no
    probability: it is not counted, and a text of one sub-token has NaN. Each text is a row of its own: in
    trees of texts that begin alike, SmolLM2 in single precision differs from a plain pass by 0.001 nats.

    `fail` gives the error of a text whose log-probability is not a number.
    """
    subwords, length = scorer.subwords, scorer.length
    usual = "nothing" if subwords.prefix is None else "BOS"
    starts = ["context" if before.strip() else beginning or usual for before, _ in texts]
    bare = [number for number, start in enumerate(starts) if start == "nothing"]
    marked = [number for number, start in enumerate(starts) if start != "nothing"]
    pairs: list[tuple[Ids, Ids]] = [([], [])] * len(texts)
    for number, pair in zip(marked, subwords.pairs([[texts[number]] for number in marked]), strict=True):
        pairs[number] = pair
    for number, ids in zip(
        bare, subwords.encode(["".join(texts[n]) for n in bare], special=False), strict=True
    ):
        pairs[number] = ids[:1], ids[1:]
    sizes = [len(before) + len(after) for before, after in pairs]
    long = [number for number, size in enumerate(sizes) if size > length]
    if long and window == "error":
        raise too_long(texts[long[0]][1], sizes[long[0]], length)
    short = [number for number, size in enumerate(sizes) if size <= length and pairs[number][1]]
    scores = no_scores(len(texts))
    scores[short] = scorer.score_pairs([pairs[number] for number in short], best=False, step=step)
    rows, firsts = [pairs[n][0] + pairs[n][1] for n in long], [len(pairs[n][0]) - 1 for n in long]
    values = _next_and_end(scorer, rows, firsts, (), 0, fail=lambda row: fail(long[row]), step=step)
    for number, start, columns in zip(long, firsts, values, strict=True):
        scores["log_prob"][number], scores["end"][number] = columns[start:-1, 0].sum(), columns[-1, 1]
    log_prob = word_log_probs(scores)
    if bad := [number for number in (*short, *long) if np.isnan(log_prob[number])]:
        raise fail(bad[0])
    strides = [length // 2 if size > length else 0 for size in sizes]
    return TextScores(log_prob, scores["log_prob"], [len(after) for _, after in pairs], starts, strides)


def too_long(text: str, size: int, length: int) -> DataError:
    """Return the error of a text of `size` sub-tokens, with its context, for a model that sees `length`."""
    return DataError(
        f"expected at most {length:,} sub-tokens with the context, got {size:,}: {text[:40]!r}",
        hint='shorten the text, or use window="strided"',
    )


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
    words: Sequence[int],
    top_k: int,
    *,
    fail: Callable[[int], DataError],
    step: Callable[[float], object],
) -> list[Floats]:
    """Return log-probabilities after each sub-token from a place on, (sub-tokens, 2 + 2 top_k) a row.

    They are those of the next sub-token, of a word's end, and of the best of some sub-tokens (`words`); then
    the numbers of these.
    """
    import torch  # noqa: PLC0415 - heavy

    singles = scorer.tensor(words)
    values = [np.full((len(ids), 2 + 2 * top_k), np.nan) for ids in rows]
    n_asked, length = max(_LOGITS // len(scorer.subwords.ends), 1), scorer.length
    blocks: list[tuple[int, int, range]] = []  # a row, the first sub-token that is seen, the positions asked
    for row, (ids, start) in enumerate(zip(rows, begins, strict=True)):
        blocks += [(row, *each) for each in text_windows(len(ids), length, first=start, limit=n_asked)]

    def work(batch: Sequence[int]) -> Floats:
        chosen = [blocks[index] for index in batch]
        ids, _ = padded([rows[row][first : asked.stop] for row, first, asked in chosen])
        asked_of = [[position - first for position in asked] for _, first, asked in chosen]
        following = [(row, (position + 1) % len(rows[row])) for row, _, asked in chosen for position in asked]
        logits = scorer.checkpoint.logits(ids, asked_of, use_cache=False)[0]
        norm, end = scorer.end_log_probs(logits)
        targets = scorer.tensor([rows[row][position] for row, position in following])
        value = logits.gather(1, targets[:, None]).double() - norm.double()[:, None]
        columns = [value, end.double()[:, None]]
        if top_k:
            best, index = logits[:, singles].topk(top_k)
            columns += [best.double() - norm.double()[:, None], index.double()]
        return np.asarray(torch.cat(columns, dim=1).cpu().numpy(), dtype=float)

    lengths, positions = [asked.stop - first for _, first, asked in blocks], [len(x) for _, _, x in blocks]
    for batch, result in scorer.batcher.run(lengths, work, positions=positions):
        for index, pairs in zip(
            batch, np.split(result, np.cumsum([positions[i] for i in batch])), strict=False
        ):
            row, _, asked = blocks[index]
            if np.isnan(pairs).any():
                raise fail(row)
            values[row][asked.start : asked.stop] = pairs
            step(int(asked.stop == len(rows[row])))
    return values
