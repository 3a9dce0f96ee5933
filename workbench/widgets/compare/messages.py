"""A comparison of models as plain values that travel to a page: models, pairs, slices, rows, a passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import exp, isfinite
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.mentions import mentions
from workbench.evaluation.comparison import Comparison
from workbench.items import text as wt
from workbench.items.items import Item, Span
from workbench.items.tokens import tokens
from workbench.widgets.explore.explore import PANELS
from workbench.widgets.shared.facets import hits, patterns
from workbench.widgets.shared.passages import BLANK_MARK, cell_text, pieces, snippet

_TITLES = {panel.name: panel.title for panel in PANELS}

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")
"""Colours of the models: those of the charts (Okabe and Ito's), without what draws charts."""

_WORDS = 10  # of a model, as bars
_WEIGHTS = 0xE000  # first of the letters that stand for tokens
_MOST_WEIGHTS = 2000


def finite_or_none(value: Any) -> float | None:
    """Return a number as JSON can hold it; None for one that is missing or infinite."""
    if value is None or pd.isna(value):
        return None
    return float(value) if isfinite(value) else None


def letters(place: int) -> str:
    """Return the short name of a model: A to Z, then AA, AB and so on."""
    first, last = divmod(place, 26)
    return (letters(first - 1) if first else "") + chr(ord("A") + last)


def column_title(column: str) -> str:
    """Return what a column is called where readers choose it."""
    return _TITLES.get(column, column.replace("_", " "))


def model_rows(comparison: Comparison, *, quick: bool = False) -> list[dict[str, Any]]:
    """Return one row a model: its names, its colour and its measures; quick: without their intervals."""
    table = comparison.points() if quick else comparison.table()
    rows = []
    for place, row in enumerate(table.to_dict("records")):
        perplexity = row["perplexity"]
        rows.append({
            "label": row["label"], "key": letters(place), "colour": PALETTE[place % len(PALETTE)],
            "lap": place // len(PALETTE), "n": comparison.n, "interval": cell_text(row.get("interval", "")),
            "infinite": not pd.isna(perplexity) and not isfinite(perplexity),
            "n_perplexity": int(finite_or_none(row["n_perplexity"]) or 0),
            **{of: _measured(row, of) for of in ("accuracy", "perplexity", "median_rank")},
        })  # fmt: skip
    return rows


def pair_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row a pair of models, as ``Comparison.pairs`` gives them."""
    names = ("difference", "difference_low", "difference_high", "p", "p_holm", "p_novel")
    return [
        {name: int(row[name]) for name in ("a", "b", "n_only_a", "n_only_b")}
        | {name: finite_or_none(row.get(name)) for name in names}
        for row in comparison.pairs().to_dict("records")
    ]


def slice_rows(comparison: Comparison, column: str, rows: Any, shown: Sequence[int]) -> list[dict[str, Any]]:
    """Return one row a bin of a column: how many of `rows` it holds, and each shown model's accuracy."""
    if not column:
        return []
    table = comparison.slices(column, rows)
    bins = comparison.bins(column)
    m = comparison.m
    drawn = []
    values = [table[name].to_numpy(dtype=float, na_value=np.nan) for name in ("n", "accuracy", "low", "high")]
    for place, one in enumerate(bins):
        group = [[finite_or_none(column[place * m + k]) for column in values[1:]] for k in shown]
        drawn.append({"key": one.key, "label": one.label, "n": int(values[0][place * m]), "values": group})
    return drawn


def item_row(
    comparison: Comparison, place: int, shown: Sequence[int], item: Item, query: str
) -> dict[str, Any]:
    """Return what a row of the list shows: text before, inside and after what stands out, and the marks."""
    spans = hit_spans(item, query)
    if spans:
        before, inside, after = snippet(item, spans[0])
    else:
        text, inside = snippet(item, None)[0], item.answer or "?"
        before, _, after = text.partition(BLANK_MARK)
    ranks = comparison.rank[:, place]
    return {
        "id": item.item_id, "text": [before, inside, after], "hit": bool(spans),
        "marks": [
            [bool(comparison.correct[k, place]), None if np.isnan(ranks[k]) else float(ranks[k])]
            for k in shown
        ],
    }  # fmt: skip


def hit_spans(item: Item, query: str) -> list[Span]:
    """Return where the passage holds what is searched."""
    query = query.strip()
    return hits(item.text, patterns(query, regex=False, tokenised=item.tokenised)) if query else []


def passage_view(
    comparison: Comparison, place: int, item: Item, query: str, facts: Sequence[tuple[str, Any]]
) -> dict[str, Any]:
    """Return one passage, and what each model expected in its blank.

    Parameters
    ----------
    comparison : Comparison
    place : int
        Of the item.
    item : Item
        The same item.
    query : str
        What is searched, to be marked.
    facts : sequence of (name, value)
        Annotations of the item.

    Returns
    -------
    dict
        ``context`` and ``query`` are pieces of text with the letters of their marks and the index of
        their token (None where no model tells its attention); ``models`` has an entry a model.
    """
    cut = tokens(item)
    inside = {word.casefold() for at, word in enumerate(cut.words) if not cut.target <= at < cut.end}
    answers = [_model(top, item, inside) for top in comparison.top(place)]
    weighted = any(model["attention"] for model in answers) and len(cut.words) <= _MOST_WEIGHTS
    marks: dict[str, Sequence[Span]] = {"m": mentions(item), "h": hit_spans(item, query)}
    if weighted:
        marks |= {chr(_WEIGHTS + at): [span] for at, span in enumerate(cut.spans) if span[1] > span[0]}
    parts = pieces(item, marks)
    for model in answers:
        if model["attention"] and (not weighted or len(model["attention"]) != len(cut.words)):
            model["attention"] = None
    context, target = ([[text, *_kinds(kinds)] for text, kinds in part] for part in parts)
    kind = [item.variant, item.word_class if item.word_class != item.variant else None, item.book_id]
    return {
        "id": item.item_id, "kind": [k for k in kind if k], "answer": item.answer, "context": context,
        "query": target, "candidates": item.candidates, "models": answers,
        "facts": [[name, cell_text(value)] for name, value in facts],
    }  # fmt: skip


def _kinds(kinds: str) -> tuple[str, int | None]:
    weights = [ord(letter) - _WEIGHTS for letter in kinds if ord(letter) >= _WEIGHTS]
    return "".join(letter for letter in kinds if ord(letter) < _WEIGHTS), weights[0] if weights else None


def _model(top: Mapping[str, Any], item: Item, inside: set[str]) -> dict[str, Any]:
    words, values = list(top["words"] or [])[:_WORDS], list(top["log_probs"] or [])[:_WORDS]
    probable = top["score_type"] == "log_prob"
    parts = [exp(min(value, 0.0)) for value in values] if probable else shares(values)
    answer = (item.answer or "").casefold()
    attention = top.get("attention")
    weights = [] if attention is None else [finite_or_none(weight) or 0 for weight in attention]
    return {
        "probable": probable,
        "words": [
            [_shown(word), part, _inside(word, inside), bool(answer) and word.casefold() == answer]
            for word, part in zip(words, parts, strict=True)
        ],
        "correct": bool(top["correct"]), "prediction": top["prediction"], "rank": finite_or_none(top["rank"]),
        "bound": bool(top.get("rank_is_bound")), "log_prob": finite_or_none(top["answer_log_prob"]),
        "impossible": top["answer_log_prob"] is not None and top["answer_log_prob"] == -np.inf,
        "attention": weights or None,
    }  # fmt: skip


def shares(scores: Sequence[float]) -> list[float]:
    """Return scores as shares of their sum, the least of them taken as 0 where one is negative.

    Scores are no probabilities: the shares say how they compare with each other, and nothing more. Scores
    that are all equal have equal shares.
    """
    values = np.nan_to_num(np.asarray(scores, dtype=float), nan=0.0, posinf=0.0, neginf=0.0)
    if not len(values):
        return []
    values = values / (float(np.abs(values).max()) or 1.0)
    values = values - min(float(values.min()), 0.0)
    total = float(values.sum())
    parts: list[float] = (values / total if total > 0 else np.full(len(values), 1 / len(values))).tolist()
    return parts


def _shown(word: str) -> str:
    return wt.readable(word) if len(word.split()) == 1 else word


def _inside(word: str, inside: set[str]) -> bool:
    parts = word.casefold().split()
    return bool(parts) and all(part in inside for part in parts)


def _measured(row: Mapping[Any, Any], name: str) -> list[float | None] | None:
    values = [finite_or_none(row.get(part)) for part in (name, f"{name}_low", f"{name}_high")]
    return None if values[0] is None else values
