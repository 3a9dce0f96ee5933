"""Wrong options for the focus word of a sentence: sampled from an n-gram model, scored by the next word.

Steps 2 to 5 of Zweig and Burges (2012), "A Challenge Set for Advancing Language Modeling", section 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workbench.construction.childrens_book import SPLIT
from workbench.construction.novels import seed_of
from workbench.models.ngram.model import LN10, NGram
from workbench.texts.corpus import Corpus

if TYPE_CHECKING:
    from workbench.models.ngram.backoff import BackOff

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ALTERNATES_VERSION = 1
"""Raised when a sentence gets other alternates or scores: those of an earlier version are not used."""

N_OPTIONS = 4
"""Wrong options of a question."""

OUTCOMES = QUESTION, BEST, FEW = ("question", "the original scores best", "too few alternates")
"""What may become of a sentence with a focus word."""

_WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
_ROWS = 32  # distributions over the vocabulary in memory at a time
SCHEMA = pa.schema({
    "sentence": pa.int64(), "outcome": pa.string(), "words": pa.list_(pa.string()),
    "scores": pa.list_(pa.float64()), "answer_score": pa.float64(),
})  # fmt: skip


class Settings(NamedTuple):
    """What alternates depend on, beside the sentence; `novels`, `texts` and `model` are folders."""

    novels: Path
    texts: Path
    model: Path
    frequency: float
    minimum: int
    alternates: int
    best: int
    seed: int


class SentenceChunk(NamedTuple):
    """Sentences to find alternates for, and the positions of their focus words in the corpus."""

    settings: Settings
    sentences: list[int]
    tokens: list[int]


def rare_words(model: NGram, texts: Corpus, frequency: float, minimum: int) -> Bools:
    """Return which words of the vocabulary may be a focus word or an alternate, shape (vocabulary,).

    They are in lower case, occur `minimum` times or more in the texts, and are less than `frequency` of the
    tokens.
    """
    counts = dict(zip(texts.words, texts.counts.tolist(), strict=True))
    limit = frequency * texts.n_tokens
    return np.array(
        [
            minimum <= counts.get(word, 0) < limit and word.islower() and bool(_WORD.fullmatch(word))
            for word in model.vocabulary
        ],
        dtype=bool,
    )


def position(corpus: Corpus, sentence: int, token: int) -> tuple[str, str]:
    """Return the novel of a focus word, and the id of its question, with its numbers in the novel."""
    firsts = corpus.books["first"].to_numpy()
    book = int(np.searchsorted(firsts, sentence, side="right")) - 1
    book_id = str(corpus.books["book_id"].iat[book])
    number, index = sentence - int(firsts[book]), token - int(corpus.starts[sentence])
    return book_id, f"msrcc/{SPLIT}/{book_id}/{number:06d}-{index:03d}"


@lru_cache(maxsize=1)
def _generator(settings: Settings) -> tuple[Corpus, NGram, Ints]:
    """Return the novels, the model, and the ids of the rare words in its vocabulary."""
    model = NGram(settings.model)
    rare = rare_words(model, Corpus(settings.texts), settings.frequency, settings.minimum)
    return Corpus(settings.novels), model, np.flatnonzero(rare)


class _Sentence(NamedTuple):
    """Ids of the words before the blank from ``<s>`` on, in it, and after it up to ``</s>``."""

    left: list[int]
    answer: int
    right: list[int]


def find_alternates(chunk: SentenceChunk) -> pa.Table:
    """Do steps 2 to 5 for some sentences.

    Returns
    -------
    Table
        One row per sentence: ``sentence``, ``outcome`` (one of `OUTCOMES`), ``words`` (the best first),
        ``scores`` (natural log-probabilities of the next word), ``answer_score``.
    """
    novels, model, rare = _generator(chunk.settings)
    backoff = model.model
    sentences = []
    for sentence, token in zip(chunk.sentences, chunk.tokens, strict=True):
        first, stop = novels.starts[sentence], novels.starts[sentence + 1]
        tokens = [model.form(novels.words[id_]) for id_ in novels.ids[first:stop].tolist()]
        ids = [backoff.index["<s>"], *backoff.ids(tokens), backoff.index["</s>"]]
        index = token - int(first) + 1
        sentences.append(_Sentence(ids[:index], ids[index], ids[index + 1 :]))
    histories = np.array([focus.left[-2:] for focus in sentences], dtype=np.int64)
    values = (row for rows in backoff.distribution(histories, chunk=_ROWS) for row in rows)
    results = []
    for number, row in enumerate(values):
        focus, sentence = sentences[number], chunk.sentences[number]
        _, item_id = position(novels, sentence, chunk.tokens[number])
        rng = np.random.default_rng(seed_of(chunk.settings.seed, item_id, "alternates"))
        drawn = _sample(row, rare[rare != focus.answer], chunk.settings.alternates, rng)
        results.append({"sentence": sentence, **_outcome(backoff, focus, drawn, chunk.settings.best)})
    return pa.Table.from_pylist(results, SCHEMA)


def _sample(log10: npt.NDArray[Any], words: Ints, size: int, rng: np.random.Generator) -> Ints:
    """Sample different words by their probabilities, in the order in which they are drawn.

    The words with the highest sums of log-probability and Gumbel noise are a sample without replacement.
    """
    noisy = log10[words].astype(np.float64) * LN10 + rng.gumbel(size=len(words))
    if size < len(words):
        top = np.argpartition(-noisy, size)[:size]
        words, noisy = words[top], noisy[top]
    return np.asarray(words[np.lexsort((words, -noisy))])


def _outcome(backoff: BackOff, sentence: _Sentence, drawn: Ints, best: int) -> dict[str, Any]:
    """Do steps 3 to 5: return the outcome, and the best words with their scores."""
    if len(drawn) < N_OPTIONS:
        return {"outcome": FEW, "words": [], "scores": [], "answer_score": None}
    left_context, answer, right_context = sentence
    options = np.append(drawn, answer)
    totals = sentence_scores(backoff, left_context, options, right_context)
    if totals[-1] > totals[:-1].max():
        return {"outcome": BEST, "words": [], "scores": [], "answer_score": None}
    pairs = np.stack([np.full_like(options, left_context[-1]), options], axis=1)
    after = backoff.log10(pairs, np.full((len(options), 1), right_context[0]))[:, 0].astype(np.float64) * LN10
    order = np.argsort(-after[:-1], kind="stable")[:best]  # ties stay in the order in which they were drawn
    return {
        "outcome": QUESTION, "words": [backoff.words[id_] for id_ in drawn[order]],
        "scores": after[order].tolist(), "answer_score": float(after[-1]),
    }  # fmt: skip


def sentence_scores(backoff: BackOff, left: Sequence[int], options: Ints, right: Sequence[int]) -> Floats:
    """Return the part of a sentence's natural log-probability that depends on the word between two parts.

    The first id of those before is that of ``<s>``, the last of those after ``</s>``. The shape is that of
    `options`, the ids of words (n,).
    """
    width = backoff.order - 1
    before = backoff.contexts([left])
    total = backoff.log10(before, options[None])[0].astype(np.float64)
    rows = len(options)
    line = np.concatenate(
        [np.repeat(before, rows, axis=0), options[:, None], np.tile(right, (rows, 1))], axis=1
    )
    for step in range(1, min(width, len(right)) + 1):
        context = line[:, step : step + width]
        total += backoff.log10(context, line[:, step + width : step + width + 1])[:, 0]
    return np.asarray(total * LN10)
