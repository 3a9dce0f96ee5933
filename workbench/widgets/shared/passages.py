"""Display of an item: its text in marked pieces, and the cells of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.items import Item, Items, Span, in_item_order
from workbench.items.tokens import tokens
from workbench.predictions.schema import typed_predictions
from workbench.render.numbers import with_minus
from workbench.storage.errors import DataError

BLANK_MARK = "▁▁▁"
_SNIPPET = 160
_BEFORE_HIT = 40

SPANS = ("mentions", "speech", "names")
_PREDICTION = ("model", "prediction", "correct", "rank", "log_prob")
_SEQUENCES = (list, tuple, np.ndarray)


def snippet(item: Item, hit: Span | None) -> tuple[str, str, str]:
    """Return the text of a list row: before, inside and after the first search hit.

    Without a hit it is the end of the target sentence. The answer is never shown.
    """
    start, end = item.sentences[-1]
    if hit is None:
        text, (query, blank) = item.readable([(start, end), item.answer_span])
        left_text, right_text = text[query[0] : blank[0]], text[blank[1] : query[1]]
        if len(left_text) > _SNIPPET // 2:
            left_text = f"…{left_text[-_SNIPPET // 2 :].partition(' ')[2]}"
        return _one_line(f"{left_text}{BLANK_MARK}{right_text[:_SNIPPET]}"), "", ""
    text, (hit, blank) = item.readable([hit, item.answer_span])
    text = f"{text[: blank[0]]}{BLANK_MARK}{text[blank[1] :]}"
    longer = len(BLANK_MARK) - (blank[1] - blank[0])
    start = hit[0] + longer if hit[0] >= blank[1] else min(hit[0], blank[0])
    end = max(start, hit[1] if hit[1] <= blank[0] else max(hit[1], blank[1]) + longer)
    first = max(0, start - _BEFORE_HIT)
    before = f"{'…' if first else ''}{text[first:start]}"
    return _one_line(before), _one_line(text[start:end]), _one_line(text[end : end + _SNIPPET])


def blanked_text(item: Item) -> str:
    """Return the readable text of an item with a blank in place of the answer."""
    readable = item.readable_parts()
    return f"{readable.context}{readable.left}{BLANK_MARK}{readable.right}"


def answer_text(item: Item) -> str:
    """Return what stands in the blank of an item in a list: both words of a pair, the right one first."""
    words = item.candidates or ()
    if len(words) == 2 and item.answer in words:  # noqa: PLR2004 - a pair
        return " | ".join(sorted(words, key=lambda word: word != item.answer))
    return item.answer or "?"


def item_kind(item: Item, *further: str | None) -> list[str]:
    """Return the known ones of variant, word class and further names of an item, each once."""
    return [name for name in dict.fromkeys((item.variant, item.word_class, *further)) if name]


def words_around(item: Item) -> set[str]:
    """Return the case-folded words of an item without its target."""
    split = tokens(item)
    return {word.casefold() for word in split.words[: split.target] + split.words[split.end :]}


def cell_text(value: Any) -> str:
    """Format a cell of a table: short numbers, yes or no, nothing if missing."""
    if isinstance(value, (set, frozenset)):
        return ", ".join(sorted(map(cell_text, value)))
    if isinstance(value, (list, tuple, np.ndarray)):
        return ", ".join(map(cell_text, value))
    if pd.isna(value):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, (float, np.floating)) else str(value)


def score_bars(scores: Sequence[float | None]) -> list[tuple[float, str]]:
    """Return the bars of scores that are not probabilities: a length from 0 to 1, and the number.

    A bar is as long as the score compared with the best one; where a score is below 0, the lowest has none.
    Nothing is normalised: the words of a list are but some of those that were ranked.
    """
    values = [math.nan if score is None or not math.isfinite(score) else score for score in scores]
    largest = max((abs(value) for value in values if not math.isnan(value)), default=0.0) or 1.0
    scaled = [value / largest for value in values]  # the difference of two is finite then
    finite = [value for value in scaled if not math.isnan(value)]
    low, high = min([0.0, *finite]), max(finite, default=0.0)
    lengths = [(v - low) / (high - low) if high > low and not math.isnan(v) else 0.0 for v in scaled]
    return [(length, score_text(value)) for length, value in zip(lengths, values, strict=True)]


def score_text(score: float) -> str:
    """Format a score with four digits; "none" if it is missing."""
    return "none" if math.isnan(score) else with_minus(f"{score:.4g}")


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


# -- tables, one row per item


def align_to_items(table: Items | pd.DataFrame | None, ids: pd.Series[Any], name: str) -> pd.DataFrame:
    """Return the table's rows in the order of the items, without the id; no columns for None."""
    if table is None:
        return pd.DataFrame(index=range(len(ids)))
    return in_item_order(table, ids, name).reset_index(drop=True)


def marks(columns: pd.DataFrame, frame: pd.DataFrame) -> dict[str, list[list[Span] | None]]:
    """Return the annotations that are spans to mark in the passages: a list or None per item, by column.

    The annotations (n rows) are in the order of the items' frame; of their columns `SPANS` are looked at. One
    that holds anything but lists (a number of mentions) is left alone; a span must lie within its text.
    """
    spans_by_name: dict[str, list[list[Span] | None]] = {}
    for name in SPANS:
        if name not in columns:
            continue
        values = columns[name].tolist()
        if not all(isinstance(value, _SEQUENCES) or pd.isna(value) for value in values):
            continue
        rows = [
            [(int(start), int(end)) for start, end in value] if isinstance(value, _SEQUENCES) else None
            for value in values
        ]
        for item_id, text, spans in zip(frame["item_id"], frame["text"], rows, strict=True):
            if spans and not all(0 <= start < end <= len(text) for start, end in spans):
                raise DataError(
                    f"the annotations' {name} do not fit the text of {item_id!r}",
                    hint="annotate these very items: spans of another variant lie elsewhere",
                )
        spans_by_name[name] = rows
    return spans_by_name


def predictions_table(runs: Any, items: Items) -> pd.DataFrame | None:
    """Return predictions as one table: one or several runs, frames or names of runs, as `wb.compare` takes.

    A single frame keeps its columns, and needs no more than ``item_id`` and ``model``. Of several runs, each
    model has the name that a comparison gives it.
    """
    if runs is None:
        return None
    if isinstance(runs, pd.DataFrame):
        return typed_predictions(runs)
    from workbench.evaluation.model_predictions import labels, predictions_of  # noqa: PLC0415 - slow to import

    models = predictions_of(runs, items, pool=True)
    if not models:
        raise DataError("there are no predictions to show", hint="pass runs that have some, or None")
    tables = [frame.assign(model=name) for frame, name in zip(models, labels(models), strict=True)]
    return pd.concat(tables, ignore_index=True)


def stored_runs(runs: Any) -> tuple[list[Any], bool]:
    """Return the stored runs among runs, frames and names, one or several, and whether there are others."""
    listed = list(runs) if isinstance(runs, list | tuple) else [runs] * (runs is not None)
    stored = [run for run in listed if isinstance(run, str) or isinstance(getattr(run, "run", None), str)]
    return stored, len(stored) < len(listed)


def prediction_cells(table: pd.DataFrame | None) -> dict[str, list[list[str]]]:
    """Return the formatted cells of the predictions, by item id."""
    if table is None:
        return {}
    if missing := {"item_id", "model"} - set(table.columns):
        raise DataError(f"the predictions have no column {min(missing)!r}")
    rows: dict[str, list[list[str]]] = {}
    cells = [table[c].tolist() if c in table else [None] * len(table) for c in _PREDICTION]
    for item_id, model, guess, correct, rank, log_prob in zip(table["item_id"], *cells, strict=True):
        mark = "" if pd.isna(correct) else "right" if correct else "wrong"
        numbers = cell_text(rank), with_minus(cell_text(log_prob))
        rows.setdefault(item_id, []).append([cell_text(model), cell_text(guess), mark, *numbers])
    return rows


def token_weights(table: pd.DataFrame | None) -> dict[str, dict[str, Sequence[float]]]:
    """Return the attention of each model to the tokens of each item, by item id and model, as predicted."""
    weights: dict[str, dict[str, Sequence[float]]] = {}
    if table is not None and "attention" in table:
        rows = table.loc[table["attention"].notna(), ["item_id", "model", "attention"]]
        for item_id, model, values in rows.itertuples(index=False):
            weights.setdefault(item_id, {})[cell_text(model)] = values
    return weights


def outcomes(table: pd.DataFrame | None, ids: pd.Series[Any]) -> dict[str, pd.Series[Any]]:
    """Return the correctness of each answer, one column per model."""
    if table is None or "correct" not in table:
        return {}
    columns = {}
    for model, rows in table.groupby("model", sort=False):
        right = rows.drop_duplicates("item_id").set_index("item_id")["correct"].reindex(ids)
        columns[f"{model} is"] = right.map({True: "right", False: "wrong"}).reset_index(drop=True)
    return columns
