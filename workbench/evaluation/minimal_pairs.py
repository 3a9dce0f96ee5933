"""Predictions of minimal pairs: their columns, the pairs as items, and measures that only pairs have."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from workbench.items import text as wt
from workbench.items.items import Item, Items, Span
from workbench.items.schema import objects
from workbench.predictions.schema import PREDICTION_COLUMNS
from workbench.predictions.signature import SET_PREFIX
from workbench.storage.errors import DataError

PAIR_COLUMNS = ("sentence_good", "sentence_bad", "context")
PAIR_RESULTS = (
    "log_prob_good", "log_prob_bad", "difference", "difference_per_word", "difference_per_character",
)  # fmt: skip
OVER_SETS = "accuracy_over_sets"
"""Column of the mean over sets of the accuracy of each set."""

_WORD = re.compile(r"\S+")


def is_pairs(frame: Any) -> bool:
    """Return whether this is a frame of :func:`workbench.score_pairs`."""
    return isinstance(frame, pd.DataFrame) and {*PAIR_COLUMNS, *PAIR_RESULTS} <= set(frame.columns)


def pair_models(frame: Any, caller: str) -> list[pd.DataFrame]:
    """Return the rows of each model in a frame of pairs; DataError for anything else."""
    if not is_pairs(frame):
        problem = f"{caller} with one argument takes a frame of wb.score_pairs, got {type(frame).__name__}"
        raise DataError(problem, hint="pass predictions of two models, or the frame with all its columns")
    return [rows for _, rows in frame.groupby("model", sort=False)]


def pair_items(pairs: pd.DataFrame) -> Items:
    """Return pairs as items with two candidates: the words from the first that differs to the last.

    `pairs` has ``item_id``, ``dataset``, ``book_id`` and `PAIR_COLUMNS`; further columns but those of
    predictions are the items' own.
    """
    further = [name for name in pairs if name not in {*PREDICTION_COLUMNS, *PAIR_COLUMNS, *PAIR_RESULTS}]
    extra: Any = pairs[further].astype(object).to_dict("records")
    records = []
    names = ("item_id", "dataset", "book_id", *PAIR_COLUMNS)
    for row, meta in zip(zip(*(pairs[name].tolist() for name in names), strict=True), extra, strict=True):
        item_id, dataset, book_id, good, bad, context = row
        text, begin = wt.after_context(good, context if isinstance(context, str) else "")
        (start, end), other = differing_words(good, bad)
        sentences = wt.up_to_target(wt.sentences(text, tokenised=False), (begin, len(text)), len(text))
        answer = good[start:end]
        records.append(
            Item(
                item_id, dataset, "test", "plain", text, answer, (begin + start, begin + end), sentences,
                (answer, bad[slice(*other)]), tokenised=False,
                book_id=book_id if isinstance(book_id, str) else None,
                meta={name: value for name, value in meta.items() if not _is_null(value)},
            )
        )  # fmt: skip
    return Items.from_records(records)


def _is_null(value: Any) -> bool:
    return value is None or value is pd.NA or value != value  # noqa: PLR0124 - NaN


def differing_words(good: str, bad: str) -> tuple[Span, Span]:
    """Return the spans of the words of two texts from the first that differs to the last.

    Where one text has words more and no other difference, a word beside them belongs to both spans.

    Examples
    --------
    >>> from workbench.evaluation.minimal_pairs import differing_words
    >>> good, bad = "Who did he help?", "Who did he help who?"
    >>> [text[slice(*span)] for text, span in zip((good, bad), differing_words(good, bad))]
    ['help?', 'help who?']
    """
    spans = [[match.span() for match in _WORD.finditer(text)] for text in (good, bad)]
    a, b = ([text[slice(*span)] for span in row] for text, row in zip((good, bad), spans, strict=True))
    shortest = min(len(a), len(b))
    if a == b:  # white space alone differs
        return (0, len(good)), (0, len(bad))
    first = next((n for n in range(shortest) if a[n] != b[n]), shortest)
    rest = shortest - first
    last = next((n for n in range(rest) if a[-1 - n] != b[-1 - n]), rest)
    if first + last == shortest:
        first, last = (first, last - 1) if last else (first - 1, last)
    good_span, bad_span = ((row[first][0], row[len(row) - 1 - last][1]) for row in spans)
    return good_span, bad_span


def measures_over_sets(frame: pd.DataFrame) -> dict[str, Any]:
    """Return the mean over sets of their accuracies, and how many there are; nothing without sets."""
    sets = frame["book_id"].astype("str")
    if not len(frame) or not sets.str.startswith(SET_PREFIX).all():
        return {}
    shares = frame["correct"].astype(float).groupby(sets).mean()
    return {OVER_SETS: float(shares.mean()), "n_sets": len(shares)}


def with_pairs(predictions: pd.DataFrame, pairs: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """Return predictions of pairs with the texts, the scores and the own columns, most telling first."""
    further = [name for name in pairs if name not in {*PREDICTION_COLUMNS, *PAIR_COLUMNS}]
    head = ["item_id", "model"]
    rest = [name for name in PREDICTION_COLUMNS if name not in {*head, "correct"}]
    columns = {name: pairs[name].to_numpy() for name in (*further, *PAIR_COLUMNS)}
    columns |= {name: scores[name].to_numpy() for name in scores}
    frame = predictions.assign(**{str(name): values for name, values in columns.items()})
    frame["context"] = objects(frame["context"].tolist())
    return frame[[*head, *PAIR_COLUMNS, *PAIR_RESULTS[:3], "correct", *PAIR_RESULTS[3:], *further, *rest]]
