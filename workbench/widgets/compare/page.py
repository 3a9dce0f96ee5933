"""The static form of a comparison: its numbers and its items as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.evaluation.comparison import Comparison
from workbench.render.labels import label
from workbench.render.numbers import fixed
from workbench.widgets.compare.view import detectable_text
from workbench.widgets.shared.passages import answer_text, blanked_text

ORDERS = {
    "": "", "disagreement": "most disagreement first", "difference": "difference in ln p",
    "all wrong": "all wrong first", "only one right": "only one right first", "all right": "all right first",
}  # fmt: skip
"""What the orders of the list are called."""

Numbers = list[tuple[str, str]]


def model_numbers(
    comparison: Comparison, overview: Mapping[str, Any], accuracy: Sequence[tuple[str, str] | None]
) -> Numbers:
    """Return the measures of each model, and its accuracy on the listed items where these are not all."""
    heads, rows = [head for head, _ in overview["measures"]], []
    for model, listed in zip(overview["models"], accuracy, strict=True):
        texts = [model["spread"]] if model["spread"] else []
        for head, (value, interval, about) in zip(heads, model["measures"], strict=True):
            counted = about.partition("; ")[0]
            is_part = " items" in counted and f"{comparison.n:,} items" not in counted
            notes = [f"[{interval}]" if interval else "", f"({counted})" if is_part else ""]
            texts.append(" ".join(filter(None, [head, value, *notes])))
        texts += [f"of the listed items {listed[0]} ({listed[1]})"] if listed else []
        rows.append((model["label"], "; ".join(texts)))
    return rows


def difference_numbers(
    comparison: Comparison, overview: Mapping[str, Any], baseline: Mapping[str, Any] | None, best: int
) -> Numbers:
    """Return the differences from the baseline; without one, of the best model from each other one."""
    labels, pairs = comparison.labels, overview["pairs"]
    if not baseline:
        others = [k for k in range(comparison.m) if k != best] if pairs else []
        names = [f"{labels[best]} right, {labels[k]} wrong" for k in others]
        return [
            (name, pairs[best][k]["about"].removeprefix(": ")) for name, k in zip(names, others, strict=True)
        ]
    numbers = []
    for row in baseline["rows"]:
        text = (
            f"{row['difference']} points; {row['improvements']:,} improvements, {row['regressions']:,} "
            f"regressions; p {row['p']} (Holm){detectable_text(row['mde'])}"
        )
        numbers.append((f"{labels[row['k']]} minus {labels[baseline['k']]}", text))
    return numbers


def slice_numbers(
    comparison: Comparison, column: str, slices: Mapping[str, Any], visible: Sequence[int]
) -> Numbers:
    """Return the accuracies of the models in each bin of a column."""
    rows = []
    for group in slices["groups"]:
        texts = [
            f"{comparison.labels[k]} {bar[3]} {bar[4]}".rstrip()
            for k, bar in zip(visible, group["bars"], strict=True)
            if bar
        ]
        rows.append((f"{label(column)}: {group['label']}", "; ".join([f"{group['n']:,} items", *texts])))
    return rows


def settings_numbers(comparison: Comparison) -> Numbers:
    """Return how the intervals were computed, and the warnings."""
    how = comparison.sampling
    method = f"{100 * how.level:g} %, bootstrap with {how.resamples:,} replicates, seed {how.seed}"
    return [("Intervals", method), *(("Note", text) for text in comparison.warnings)]


def item_rows(
    comparison: Comparison, rows: Sequence[int], visible: Sequence[int]
) -> tuple[list[str], list[list[str]]]:
    """Return headings, and for each item its passage, its answer and the prediction of each model."""
    predictions = [prediction_texts(comparison, k, rows) for k in visible]
    cells = []
    for position, row in enumerate(rows):
        item = comparison.items[row]
        texts = [column[position] for column in predictions]
        cells.append(
            [
                item.item_id,
                blanked_text(item),
                (answer_text(item) if item.answer else comparison.answers[row]) or "?",
                *texts,
            ]
        )
    return ["Item", "Passage", "Answer", *(comparison.labels[k] for k in visible)], cells


def prediction_texts(comparison: Comparison, k: int, rows: Sequence[int]) -> list[str]:
    """Return the prediction of a model for each item: whether it is right, its rank, and ln p."""
    words = comparison.words(k)
    return [_prediction(comparison, k, row, words[row]) for row in rows]


def _prediction(comparison: Comparison, k: int, row: int, word: Any) -> str:
    if not comparison.mask[k, row]:
        return "not predicted"
    mark = "✓" if comparison.correct[k, row] else "✗"
    log_prob = comparison.log_prob[k, row]
    number = "" if np.isnan(log_prob) else f"ln p {fixed(log_prob, 2)}"
    number = "probability 0" if np.isneginf(log_prob) else number
    text = "no prediction" if pd.isna(word) else str(word)
    return ", ".join(filter(None, [f"{mark} {text}", comparison.rank_label(k, row), number]))
