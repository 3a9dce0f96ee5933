"""Rows of the predictions table, from scores of words or from a ranking of a vocabulary.

A log-probability that is NaN is an error, as it compares with nothing and its rank would be 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import objects
from workbench.predictions.schema import Floats, frame_of, not_a_number, nullable
from workbench.storage.errors import DataError


class Ranked(NamedTuple):
    """Ranks of the answers of `n` items among all words of a model's vocabulary, and the best words."""

    log_prob: Floats  # natural log-probability of the answer; NaN where the item has none
    rank: npt.NDArray[np.int64]  # 1 + number of words strictly more probable; 0 without an answer
    n_tied: npt.NDArray[np.int64]  # words exactly as probable as the answer, itself counted
    known: npt.NDArray[np.bool_]  # whether the answer is in the vocabulary
    top_words: list[list[str]]  # the most probable words, the best first; one of NaN counts as the best
    top_log_probs: list[list[float]]


def from_scores(
    items: Items,
    scores: Floats,
    words: Sequence[Sequence[str]],
    *,
    model: str,
    score_type: str,
    log_prob: Floats | None = None,
    seed: int = 0,
    top_k: int = 10,
    dtype: str | None = None,
    **variant: Any,
) -> pd.DataFrame:
    """Make the rows of n items with words to choose from.

    Parameters
    ----------
    scores : array (n, m)
        Score of each word, higher is better; what is beyond an item's words is not looked at.
    words : sequence of sequence of str
        The words of each item; no word twice.
    score_type : {"log_prob", "score"}
    log_prob : array (n,), optional
        Natural log-probability of the answers.
    seed : int, default 0
        Decides among words with the same best score, for each item by itself.
    top_k : int, default 10
        Number of best words that are stored.
    dtype : str, optional
        Precision of the model, which an error names.
    **variant
        Columns such as ``system``, ``vocabulary_size``, ``unit``.

    Raises
    ------
    DataError
        If the score of a word is NaN, a log-probability is plus infinity, or an item has no words.
    """
    frame = items.frame
    infinite = score_type == "score"
    values, inside = check_scores(items, scores, words, model=model, dtype=dtype, infinite=infinite)
    length = inside.sum(axis=1)
    pairs = zip(words, frame["answer"].tolist(), strict=True)
    answer_column = np.array(
        [list(row).index(answer) if answer in row else -1 for row, answer in pairs], dtype=np.int64
    )
    best = values.max(axis=1, initial=-np.inf)
    chosen = _draw((values == best[:, None]) & inside, frame["item_id"].tolist(), seed)
    has, offered = frame["answer"].notna().to_numpy(), answer_column >= 0
    answer_scores = np.where(offered, values[np.arange(len(frame)), np.maximum(answer_column, 0)], np.nan)
    rank = np.where(offered, 1 + (values > answer_scores[:, None]).sum(axis=1), length + 1)
    tied = np.where(offered, ((values == answer_scores[:, None]) & inside).sum(axis=1), 1)
    order = np.argsort(-values, axis=1, kind="stable")[:, :top_k]
    tops = [row[: min(top_k, n)].tolist() for row, n in zip(order, length, strict=True)]
    candidates = frame["candidates"].tolist()
    are_candidates = [c is not None and list(c) == list(w) for c, w in zip(candidates, words, strict=True)]
    columns = {
        "model": model,
        "score_type": score_type,
        "prediction": [row[index] for row, index in zip(words, chosen, strict=True)],
        "correct": nullable((chosen == answer_column) & offered, has),
        "p_correct": np.where(has, np.where(offered & (rank == 1), 1 / tied, 0.0), np.nan),
        "log_prob": np.full(len(frame), np.nan) if log_prob is None else log_prob,
        "rank": nullable(rank, has),
        "n_tied": nullable(tied, has),
        "n_choices": length,
        "known": nullable(offered, has),
        "top_words": objects([[row[i] for i in top] for row, top in zip(words, tops, strict=True)]),
        "top_log_probs": objects([values[i, top].tolist() for i, top in enumerate(tops)]),
        "candidate_scores": objects(
            [values[i, : length[i]].tolist() if are_candidates[i] else None for i in range(len(frame))]
        ),
    }
    return frame_of(frame, columns, variant)


def check_scores(
    items: Items,
    scores: Floats,
    words: Sequence[Sequence[str]],
    *,
    model: str,
    dtype: str | None = None,
    infinite: bool = False,
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return scores (n, most words), -inf beyond the words of an item, and where there are words.

    DataError if an item has no words, or the score of a word is NaN or, unless `infinite`, plus infinity.
    """
    length = np.array([len(row) for row in words], dtype=np.int64)
    if (length == 0).any():
        which = items.frame["item_id"].iloc[int((length == 0).argmax())]
        raise DataError(f"the model {model!r} has no words to choose from for {which}")
    width = int(length.max(initial=0))
    inside = np.arange(width)[None, :] < length[:, None]
    values = np.where(inside, np.asarray(scores, dtype=float)[:, :width], -np.inf)
    bad = np.isnan(values) if infinite else ~(values < np.inf)
    if bad.any():
        row, column = np.unravel_index(int(bad.argmax()), bad.shape)
        item_id, quantity = items.frame["item_id"].iloc[row], "score of a candidate"
        raise not_a_number(values[row, column], item_id, model=model, dtype=dtype, quantity=quantity)
    return values, inside


def check_ranked(items: Items, ranked: Ranked, *, model: str, dtype: str | None = None) -> None:
    """Raise DataError if the log-probability of a word is NaN or plus infinity, or minus infinity for all."""
    in_vocabulary = ranked.known & items.frame["answer"].notna().to_numpy()
    check_answers(items, ranked.log_prob, in_vocabulary, model=model, dtype=dtype)
    length = np.array([len(row) for row in ranked.top_log_probs], dtype=np.int64)
    values = np.fromiter(chain.from_iterable(ranked.top_log_probs), float, int(length.sum()))
    owner = np.repeat(np.arange(len(length)), length)
    first = np.append(True, np.diff(owner) > 0)[: len(owner)]
    bad = ~(values < np.inf) | (first & np.isneginf(values))
    if bad.any():
        index = int(bad.argmax())
        row = int(owner[index])
        item_id = items.frame["item_id"].iloc[row]
        if np.isneginf(values[index]):
            problem = (
                f"no word of the vocabulary has a probability above 0 for {item_id} by the model {model!r}"
            )
            raise DataError(problem, hint="fit the model on more text, or check that its weights are finite")
        quantity = "log-probability of a word"
        raise not_a_number(values[index], item_id, model=model, dtype=dtype, quantity=quantity)


def check_answers(
    items: Items, log_prob: Floats, needed: npt.NDArray[np.bool_], *, model: str, dtype: str | None
) -> None:
    """Raise DataError where the log-probability of an answer is needed and is NaN or plus infinity."""
    bad = needed & ~(np.asarray(log_prob, dtype=float) < np.inf)
    if bad.any():
        row = int(bad.argmax())
        raise not_a_number(log_prob[row], items.frame["item_id"].iloc[row], model=model, dtype=dtype)


def from_ranking(
    items: Items,
    ranked: Ranked,
    *,
    model: str,
    vocabulary_size: int,
    seed: int = 0,
    top_k: int | None = None,
    dtype: str | None = None,
    **variant: Any,
) -> pd.DataFrame:
    """Make the rows of items whose answer is one of all words of a vocabulary.

    An answer that is none of them has the rank after the last. All best words are stored by default. There
    should be two at least: the prediction is the second where the answer shares the first rank and the seed
    decides against it. The rest is as for :func:`from_scores`, errors as for :func:`check_ranked`.
    """
    check_ranked(items, ranked, model=model, dtype=dtype)
    frame = items.frame
    has = frame["answer"].notna().to_numpy()
    in_vocabulary = ranked.known & has
    rank = np.where(in_vocabulary, ranked.rank, vocabulary_size + 1)
    tied = np.where(in_vocabulary, ranked.n_tied, 1)
    share = np.where(in_vocabulary & (rank == 1), 1 / np.maximum(tied, 1), 0.0)
    ids = frame["item_id"].tolist()
    correct = (share == 1) | np.array(
        [0 < p < 1 and _uniform(name, seed) < p for p, name in zip(share, ids, strict=True)], dtype=bool
    )
    columns = {
        "model": model,
        "score_type": "log_prob",
        "prediction": [
            _prediction(top, answer, right=right, tied=0 < p < 1)
            for top, answer, right, p in zip(ranked.top_words, frame["answer"], correct, share, strict=True)
        ],
        "correct": nullable(correct, has),
        "p_correct": np.where(has, share, np.nan),
        "log_prob": np.where(has, ranked.log_prob, np.nan),
        "rank": nullable(rank, has),
        "n_tied": nullable(tied, has),
        "n_choices": vocabulary_size,
        "known": nullable(in_vocabulary, has),
        "top_words": objects([row[:top_k] for row in ranked.top_words]),
        "top_log_probs": objects([row[:top_k] for row in ranked.top_log_probs]),
        "candidate_scores": objects([None] * len(frame)),
    }
    return frame_of(frame, columns, {"vocabulary_size": vocabulary_size} | variant)


def _prediction(top: Sequence[str], answer: Any, *, right: bool, tied: bool) -> str | None:
    """Return the best of a model's words that agrees with the draw: the answer, or another word."""
    if right:
        return next((word for word in top if word.casefold() == str(answer).casefold()), str(answer))
    others = (word for word in top if not tied or word.casefold() != str(answer).casefold())
    return next(others, None)


def _uniform(item_id: str, seed: int) -> float:
    """Return a number in [0, 1) that depends on the item and the seed alone."""
    code = hashlib.blake2b(f"{seed}\0{item_id}".encode(), digest_size=8).digest()
    return (int.from_bytes(code, "little") >> 11) / 2**53


def _draw(tied: npt.NDArray[np.bool_], ids: Sequence[str], seed: int) -> npt.NDArray[np.int64]:
    """Return for every row the place of one true value, each as likely as the others."""
    count = tied.sum(axis=1)
    wanted = np.array([int(_uniform(name, seed) * n) for name, n in zip(ids, count, strict=True)])
    return np.asarray((np.cumsum(tied, axis=1) == wanted[:, None] + 1).argmax(axis=1), dtype=np.int64)
