"""Score the quoted speech that the workbench finds against LitBank's gold quotations.

    WORKBENCH_DATA=folder python tools/tagger/speech_scores.py

The rules were tuned on the texts at even positions of the sorted file names. The score of the others
was seen once before the rules were final. Costs of speech that goes beyond the passage and of every
token in speech were added after that; they were chosen on the even half, and raised that of the other only.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import litbank
import numpy as np
from numpy.typing import NDArray

from workbench.analysis.speech import speech_spans
from workbench.items.schema import Span

PASSAGE = 75
"""Tokens of a short passage, about the mean of LAMBADA's development passages."""

Finder = Callable[[Sequence[str]], list[Span]]
Counts = NDArray[np.int64]


def scores(data: Path, *, find: Finder = speech_spans, draws: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Score a finder of quoted speech on LitBank.

    Parameters
    ----------
    data : Path
        The folder that holds ``litbank``.
    find : callable, default :func:`workbench.analysis.speech.speech_spans`
        From tokens to token ranges.
    draws, seed : int
        Of the bootstrap over documents (percentile interval, 95 %).

    Returns
    -------
    dict
        For the parts "tuned" (even positions), "other" (odd positions) and "all": the number of
        "documents", and for "span" (exact ranges) and "token" of whole texts and for
        "passage_token" (tokens of the same texts cut at sentence ends into passages of at least
        75 tokens) a dict of "precision", "recall", "f1" (micro) and "f1_interval" (two numbers).
        What is 0 of 0 is NaN.
    """
    documents = list(litbank.quotations(data))
    total = [counts(document.quotations, find(document.words)) for document in documents]
    cut = [
        sum((counts(gold, find(words))[1] for words, gold in passages(document)), np.zeros(3, np.int64))
        for document in documents
    ]
    tables = {
        "span": np.array([spans for spans, _ in total]),
        "token": np.array([tokens for _, tokens in total]),
        "passage_token": np.array(cut),
    }
    parts = {"tuned": slice(0, None, 2), "other": slice(1, None, 2), "all": slice(None)}
    return {
        part: {"documents": len(documents[rows])}
        | {name: _summary(table[rows], draws, seed) for name, table in tables.items()}
        for part, rows in parts.items()
    }


def counts(gold: Iterable[Span], predicted: Iterable[Span]) -> tuple[Counts, Counts]:
    """Count what is right, wrong and missed: of spans that are the very same, and of tokens."""
    pairs = (set(gold), set(predicted))
    tokens = [{index for start, end in spans for index in range(start, end)} for spans in pairs]
    return _counts(*pairs), _counts(*tokens)


def _counts(gold: set[Any], predicted: set[Any]) -> Counts:
    return np.array([len(gold & predicted), len(predicted - gold), len(gold - predicted)])


def f1(right: int, wrong: int, missed: int) -> tuple[float, float, float]:
    """Return precision, recall and F1; NaN for what is 0 of 0."""
    pairs = ((right, right + wrong), (right, right + missed), (2 * right, 2 * right + wrong + missed))
    precision, recall, both = (part / total if total else float("nan") for part, total in pairs)
    return precision, recall, both


def passages(
    document: litbank.Document, size: int = PASSAGE
) -> Iterator[tuple[tuple[str, ...], tuple[Span, ...]]]:
    """Cut a text at sentence ends into passages of at least `size` tokens, the last perhaps shorter."""
    ends = [*document.sentences[1:], len(document.words)]
    edges = [0]
    while edges[-1] < len(document.words):
        edges.append(ends[min(bisect_left(ends, edges[-1] + size), len(ends) - 1)])
    for begin, stop in pairwise(edges):
        inside = (
            (max(start, begin) - begin, min(end, stop) - begin)
            for start, end in document.quotations
            if start < stop and end > begin
        )
        yield document.words[begin:stop], tuple(inside)


def _summary(table: Counts, draws: int, seed: int) -> dict[str, Any]:
    """Sum the counts (documents, 3), and draw documents for the interval."""
    precision, recall, both = f1(*table.sum(axis=0).tolist())
    rng = np.random.default_rng(seed)
    drawn = table[rng.integers(0, len(table), size=(draws, len(table)))].sum(axis=1)  # (draws, 3)
    values = np.array([f1(*row)[2] for row in drawn.tolist()])
    interval = np.nanpercentile(values, [2.5, 97.5]).tolist() if not np.isnan(values).all() else [np.nan] * 2
    return {"precision": precision, "recall": recall, "f1": both, "f1_interval": tuple(interval)}


def main() -> None:
    """Print the scores."""
    print(f"{'part':6} {'of':14} {'texts':>5} {'precision':>9} {'recall':>7} {'F1':>7}  95 % interval of F1")
    for part, result in scores(litbank.data_folder()).items():
        for name in ("span", "token", "passage_token"):
            row = result[name]
            low, high = row["f1_interval"]
            print(
                f"{part:6} {name:14} {result['documents']:5} {row['precision']:9.4f} {row['recall']:7.4f}"
                f" {row['f1']:7.4f}  {low:.4f} to {high:.4f}"
            )


if __name__ == "__main__":
    main()
