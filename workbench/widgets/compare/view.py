"""One view of a comparison: what is chosen, the items that it leaves, and all of it as messages to a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import exp, isfinite
from operator import and_, or_
from os.path import commonprefix
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.binning import Mask
from workbench.analysis.mentions import mentions
from workbench.analysis.proportions import wilson
from workbench.evaluation.comparison import OUTCOMES, Comparison
from workbench.items import text as wt
from workbench.items.items import Item, Items, Span
from workbench.items.pieces import pieces
from workbench.items.query import Query, parse
from workbench.items.tokens import tokens
from workbench.render.labels import column_label, label
from workbench.runs.measures import SHOWN, Measure
from workbench.widgets.compare.selector import Selector
from workbench.widgets.shared.listing import STATE
from workbench.widgets.shared.passages import (
    BLANK_MARK,
    align_to_items,
    cell_text,
    score_bars,
    snippet,
    text_and_spans,
    words_around,
)
from workbench.widgets.shared.search import item_hits

_FIRST_ROWS = 28
_TOP = (
    "pair",
    "outcome",
    "bins",
    "sort",
    "against",
    "query",
    "where",
)  # what brings the list back to its first item

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#F0E442")
"""Colours of the models: those of the charts (Okabe and Ito's), without what draws charts."""

_WORDS = 10  # of a model, as bars
_WEIGHTS = 0xE000  # first of the letters that stand for tokens
_MOST_WEIGHTS = 2000
_MOST_POINTS, _SQUARES = 2000, 40  # of a scatter
_SHARED = 6  # letters from which a beginning that names share is worth cutting


class View:
    """A comparison, with annotations (one row an item), under a state.

    Attributes
    ----------
    chosen : dict
        The state, checked.
    column, current : str
        The column of the chart, and the id of the item that is shown ("" where none is left).
    version : int
        Grows with every change of the list.
    rows : array of int
        Places of the listed items, in the list's order.
    """

    def __init__(self, comparison: Comparison, annotations: Items | pd.DataFrame | None) -> None:
        self.chosen: dict[str, Any] = {}
        self.column, self.current, self.version = "", "", 0
        self._whole: dict[str, Any] | None = None
        self.take(comparison, annotations)
        self.rows = np.arange(comparison.n)

    def take(self, comparison: Comparison, annotations: Items | pd.DataFrame | None) -> None:
        """Take a comparison of the same models and items in the place of the one before."""
        self.comparison, self.selector = comparison, Selector(comparison)
        self._ids = comparison.items.frame["item_id"]
        self._place = {item_id: row for row, item_id in enumerate(self._ids)}
        self._annotations = align_to_items(annotations, self._ids, "annotations")
        self._cut: tuple[Any, list[dict[str, Any]], int] | None = None

    def choose(self, chosen: Mapping[str, Any]) -> None:
        """Put a state in place of the one before; DataError leaves all as it was."""
        checked = self.selector.checked(chosen)
        mask = self.selector.mask(checked)
        self.counts = self.selector.counts(checked, mask)
        self.selected = self._selected(checked, mask)
        self.rows = self.selector.rows(checked, mask)
        moved = bool(self.chosen) and any(checked[part] != self.chosen[part] for part in _TOP)
        self.chosen = checked
        self.version += 1
        if moved or self.index(self.current) < 0:
            self.current = str(self._ids.iloc[self.rows[0]]) if len(self.rows) else ""

    def retake(self, comparison: Comparison, annotations: Items | pd.DataFrame | None) -> None:
        """Take a comparison with other columns, and keep of the state what fits."""
        self.take(comparison, annotations)
        self.slice_by(self.column if self.column in comparison.columns else "")
        fitting = self.selector.checked(self.selector.fitting(self.chosen))
        if fitting != self.chosen:
            self.choose(fitting)

    def slice_by(self, column: str) -> None:
        """Choose the column of the chart, see `Selector.column`."""
        self.column = self.selector.column(column)

    def index(self, item_id: str) -> int:
        """Return the place of an item in the list, -1 where it is not there."""
        places = np.flatnonzero(self.rows == self._place.get(item_id, -1))
        return int(places[0]) if len(places) else -1

    @property
    def items(self) -> Items:
        """The listed items, in the order of the set."""
        mask = np.zeros(self.comparison.n, dtype=bool)
        mask[self.rows] = True
        return self.comparison.items.where(mask)

    def frame(self) -> pd.DataFrame:
        """Return the listed items in the list's order; see `Compare.to_frame`."""
        rows, made = self.rows, self.comparison
        names = made.frame.columns.tolist()
        names = names[: names.index("disagreement") + 1]  # then come columns of the items
        frame = made.frame[names].iloc[rows].reset_index(drop=True)
        frame.insert(1, "passage", [text_and_spans(made.items[int(row)], [])[0] for row in rows])
        extra = self._annotations.iloc[rows].reset_index(drop=True)
        return pd.concat([frame, extra.loc[:, ~extra.columns.isin(frame.columns)]], axis=1)

    def filters(self) -> list[str]:
        """Return what is chosen, each filter in words."""
        chosen, parts = self.chosen, []
        if chosen["pair"]:
            parts.append(self.outcome())
        for column, keys in chosen["bins"].items():
            labels = [one.label for one in self.comparison.bins(column) if one.key in keys]
            parts.append(f"{label(column)}: {' or '.join(labels)}")
        if chosen["query"].strip():
            parts.append(f"passage contains “{chosen['query'].strip()}”")
        if chosen["where"].strip():
            parts.append(str(parse(chosen["where"])))
        return parts

    def facts(self, row: int) -> list[tuple[str, str]]:
        """Return the annotations of the item at a place of the comparison: labels and values."""
        values = self._annotations.iloc[row].items()
        columns = self.comparison.columns
        return [(label(str(name), unit=True), cell_text(value)) for name, value in values if name in columns]

    def _selected(self, chosen: Mapping[str, Any], mask: Mask) -> dict[str, Any]:
        """Return the numbers of the listed items, and how many each cell of the two models would list."""
        made, two = self.comparison, self.selector.two(chosen)
        n = int(mask.sum())
        shares = made.shares[:, mask].mean(axis=1) if n else np.full(made.m, np.nan)
        low, high = wilson(made.shares[:, mask].sum(axis=1), n, level=made.drawing.level)
        numbers: dict[str, Any] = {
            "n": n, "whole": n == made.n,
            "accuracy": [list(map(_finite, row)) for row in zip(shares, low, high, strict=True)],
        }  # fmt: skip
        if two is None:
            return numbers | {"two": None}
        others = mask if chosen["pair"] is None else self.selector.mask(chosen, pair=False)
        pair = made.pair(*two, mask)
        return numbers | {
            "two": two, "cells": {name: int((made.cell(*two, name) & others).sum()) for name in OUTCOMES},
            **{name: _finite(pair[name]) for name in ("difference", "difference_low", "difference_high")},
            "p": _finite(pair["p"]), "test": pair["test"],
        }  # fmt: skip

    def outcome(self) -> str:
        """Return the chosen cell of two models in words; "" where none is."""
        pair = self.chosen["pair"]
        return outcome_text(pair[0], pair[1], self.chosen["outcome"]) if pair else ""

    def typed(self) -> str:
        """Return what was clicked as a typed filter; "" where nothing was, or a bin has no such form."""
        pair, outcome = self.chosen["pair"], self.chosen["outcome"]
        parts: list[Query] = []
        if pair and outcome != "any":
            rights = {"only first": (True, False), "only second": (False, True)}
            signs = rights.get(outcome, (outcome == "both right",) * 2)
            models = [Query("is true", f"{model}: correct") for model in pair]
            parts += [query if sign else ~query for query, sign in zip(models, signs, strict=True)]
        for column, keys in self.chosen["bins"].items():
            queries = [one.query for one in self.comparison.bins(column) if one.key in keys]
            if None in queries:
                return ""
            parts.append(reduce(or_, filter(None, queries)))
        return str(reduce(and_, parts)) if parts else ""

    # -- as messages

    def overview(self, *, quick: bool = False) -> dict[str, Any]:
        """Return what stays as it is: the models and their pairs; quick: without what is resampled."""
        made = self.comparison
        rest = {
            "type": "whole",
            "warnings": list(made.warnings),
            "total": made.n,
            "measures": measure_heads(),
        }
        if quick and self._whole is None:  # resampling takes a moment
            return rest | {"models": model_rows(made, quick=True), "pairs": None}
        if self._whole is None:
            self._whole = {"models": model_rows(made), "pairs": pair_rows(made)}
        return rest | self._whole

    def shown(self) -> dict[str, Any]:
        """Return what follows from the state: slices, the list's first rows, the passage."""
        made, chosen, column, index = self.comparison, self.chosen, self.column, self.index(self.current)
        shown = self.selector.shown(chosen)
        start = max(0, index - _FIRST_ROWS // 2)
        slices, sliced = self._slices(shown)
        return {
            "type": "view", "version": self.version, "n": len(self.rows), "chosen": chosen, "shown": shown,
            "against": self.selector.against(chosen), "counts": self.counts, "column": column,
            "selected": self.selected, "outcome": self.outcome(), "typed": self.typed(),
            "columns": [[c, label(c, unit=True)] for c in made.columns],
            "labels": {c: {one.key: one.label for one in made.bins(c)} for c in chosen["bins"]},
            "slices": slices, "sliced": sliced,
            "index": index, "start": start, "rows": self.listed(start, start + _FIRST_ROWS),
            "passage": self.passage(index) if index >= 0 else None,
        }  # fmt: skip

    def _slices(self, shown: list[int]) -> tuple[list[dict[str, Any]], int]:
        """Return the chart, and how many items it counts; kept while a cell is chosen or the list sorted."""
        others = {name: keys for name, keys in self.chosen["bins"].items() if name != self.column}
        key = (self.column, others, self.chosen["query"], shown)
        if self._cut is None or self._cut[0] != key:
            of = self.selector.mask(self.chosen, but=self.column, pair=False)
            slices = slice_rows(self.comparison, self.column, of, shown)
            self._cut = (key, slices, int(of.sum()))
        return self._cut[1], self._cut[2]

    def scatter(self, where: str) -> dict[str, Any]:
        """Return ln p of the answers by the two models, under `where` in place of the typed filter.

        Up to 2,000 items are points: ln p by each model, the outcome (0 both wrong, 1 and 2 only one right, 3
        both right) and the item's place; more are counted in squares.
        """
        made, two = self.comparison, self.selector.scattered(self.chosen)
        if two is None:
            return {"type": "scatter", "two": None, "n": 0}
        mask = self.selector.mask(self.chosen | {"where": where}, pair=False)
        values = made.log_prob[list(two)]
        rows = np.flatnonzero(mask & np.isfinite(values).all(axis=0))
        low = float(np.floor(values[:, rows].min())) if len(rows) else -1.0
        low = min(low, -1.0)
        head = {
            "type": "scatter", "two": two, "n": len(rows), "left_out": int(mask.sum()) - len(rows),
            "low": low, "cut": _SQUARES,
        }  # fmt: skip
        if len(rows) > _MOST_POINTS:
            edges = np.linspace(low, 0, _SQUARES + 1)
            counts, _, _ = np.histogram2d(values[0, rows], values[1, rows], bins=[edges, edges])
            places = np.argwhere(counts)
            return head | {"bins": [[int(i), int(j), int(counts[i, j])] for i, j in places]}
        outcome = made.correct[two[0]] + 2 * made.correct[two[1]]
        points = zip(*values[:, rows].round(3).tolist(), outcome[rows].tolist(), rows.tolist(), strict=True)
        return head | {"points": list(map(list, points))}

    def listed(self, start: int, end: int) -> list[dict[str, Any]]:
        """Return rows of the list."""
        made, shown = self.comparison, self.selector.shown(self.chosen)
        rows = [int(row) for row in self.rows[start : max(start, end)]]
        return [item_row(made, row, shown, made.items[row], self.chosen["query"]) for row in rows]

    def passage(self, index: int) -> dict[str, Any]:
        """Return the passage at a place of the list, and what the models expected in it."""
        row, made = int(self.rows[index]), self.comparison
        return passage_view(made, row, made.items[row], self.chosen["query"], self.facts(row))


# -- the parts of the messages


def _finite(value: Any) -> float | None:
    """Return a number as JSON can hold it; None for one that is missing or infinite."""
    if value is None or pd.isna(value):
        return None
    return float(value) if isfinite(value) else None


def outcome_text(first: str, second: str, outcome: str) -> str:
    """Say in words which cell of two models is meant, see `workbench.evaluation.comparison.OUTCOMES`."""
    forms = {
        "only first": "{0} right, {1} wrong", "only second": "{0} wrong, {1} right",
        "both right": "{0} and {1} both right", "both wrong": "{0} and {1} both wrong",
        "any": "{0} and {1}, whatever the outcome",
    }  # fmt: skip
    return forms[outcome].format(first, second)


def split_labels(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Cut each label into what it shares with the beginning of another one, and the rest.

    Where room is short, the shared part can be cut without loss. It ends at a word's beginning and is empty
    where it is short or the whole label.
    """
    parts = []
    for place, name in enumerate(labels):
        others = [other for at, other in enumerate(labels) if at != place]
        shared = max((len(commonprefix([name, other])) for other in others), default=0)  # noqa: RUF071 - no paths
        shared = 0 if shared == len(name) else max(name.rfind(mark, 0, shared) + 1 for mark in " -_/(,")
        shared = shared if shared >= _SHARED else 0
        parts.append((name[:shared], name[shared:]))
    return parts


def letters(place: int) -> str:
    """Return the short name of a model: A to Z, then AA, AB and so on."""
    first, last = divmod(place, 26)
    return (letters(first - 1) if first else "") + chr(ord("A") + last)


def model_rows(comparison: Comparison, *, quick: bool = False) -> list[dict[str, Any]]:
    """Return one row a model: its names, its colour and its measures; quick: without their intervals."""
    table = comparison.points() if quick else comparison.table()
    rows, names = [], split_labels(comparison.labels)
    for place, row in enumerate(table.to_dict("records")):
        rows.append({
            "label": row["label"], "name": names[place], "key": letters(place),
            "colour": PALETTE[place % len(PALETTE)],
            "lap": place // len(PALETTE), "n": comparison.n, "interval": cell_text(row.get("interval", "")),
            "spread": row["spread"],
            "infinite": [each.name for each in SHOWN if np.isinf(row[each.name])],
            "coverage": {each.name: _coverage(each, row) for each in SHOWN},
            **{each.name: _measured(row, each.name) for each in SHOWN},
        })  # fmt: skip
    return rows


def measure_heads() -> list[dict[str, str]]:
    """Return the measures of the table of models: name, kind, heading and tooltip."""
    return [
        {"name": each.name, "kind": each.kind, "heading": measure_heading(each),
         "tooltip": column_label(each.name).tooltip}
        for each in SHOWN
    ]  # fmt: skip


def measure_heading(measure: Measure) -> str:
    """Return the label of a measure, with the unit of a share."""
    return column_label(measure.name).label + (", %" if measure.kind == "share" else "")


def _coverage(measure: Measure, row: Mapping[Any, Any]) -> str:
    """Return the tooltip of a number: the items that it is of, or why there is none."""
    if pd.isna(row[measure.name]):
        return measure.missing
    if np.isinf(row[measure.name]):
        return "an answer has probability 0"
    interval = row.get("interval") if measure.interval == "share" else None
    text = measure.coverage.format(n=f"{row[measure.count or 'n']:,}")
    return f"{text} ({interval})" if interval else text


def pair_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """Return one row a pair of models, as ``Comparison.pairs`` gives them."""
    names = ("difference", "difference_low", "difference_high", "p", "p_holm")
    return [
        {name: int(row[name]) for name in ("a", "b", "n_only_a", "n_only_b")}
        | {name: _finite(row.get(name)) for name in names}
        | {"test": row["test"]}
        for row in comparison.pairs().to_dict("records")
    ]


def slice_rows(comparison: Comparison, column: str, rows: Any, shown: Sequence[int]) -> list[dict[str, Any]]:
    """Return one row a bin of a column: how many of `rows` it holds, and each shown model's accuracy."""
    drawn = []
    table = comparison.slices(column, rows) if column else pd.DataFrame({"key": []})
    for key, part in table.groupby("key", sort=False):
        values = part[["accuracy", "low", "high"]].to_numpy(dtype=float, na_value=np.nan)[list(shown)]
        group = [list(map(_finite, row)) for row in values]
        drawn.append({"key": key, "label": part["bin"].iloc[0], "n": int(part["n"].iloc[0]), "values": group})
    return drawn


def item_row(
    comparison: Comparison, place: int, shown: Sequence[int], item: Item, query: str
) -> dict[str, Any]:
    """Return what a row of the list shows: text before, inside and after what stands out, and the marks."""
    spans = item_hits(item, STATE | {"query": query})
    if spans:
        before, inside, after = snippet(item, spans[0])
    else:
        text, inside = snippet(item, None)[0], item.answer or "?"
        before, _, after = text.partition(BLANK_MARK)
    return {
        "id": item.item_id, "text": [before, inside, after], "hit": bool(spans),
        "marks": [
            [bool(comparison.correct[k, place]), _finite(comparison.rank[k, place]), text]
            for k, text in ((k, comparison.rank_label(k, place)) for k in shown)
        ],
    }  # fmt: skip


def passage_view(
    comparison: Comparison, place: int, item: Item, query: str, facts: Sequence[tuple[str, str]]
) -> dict[str, Any]:
    """Return the item at a place, with its annotations (`facts`), and what each model expected in its blank.

    ``context`` and ``query`` are pieces of text with the letters of their marks and the index of their token
    (None where no model tells its attention).
    """
    cut, inside = tokens(item), words_around(item)
    answers = [_model(top, item, inside) for top in comparison.top(place)]
    weighted = any(model["attention"] for model in answers) and len(cut.words) <= _MOST_WEIGHTS
    marks: dict[str, Sequence[Span]] = {
        "m": mentions(item),
        "h": item_hits(item, STATE | {"query": query}),
    }
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
        "facts": list(map(list, facts)),
    }  # fmt: skip


def _kinds(kinds: str) -> tuple[str, int | None]:
    weights = [ord(letter) - _WEIGHTS for letter in kinds if ord(letter) >= _WEIGHTS]
    return "".join(letter for letter in kinds if ord(letter) < _WEIGHTS), weights[0] if weights else None


def _model(top: Mapping[str, Any], item: Item, inside: set[str]) -> dict[str, Any]:
    words = list(top["words"] or [])[:_WORDS]
    values = [np.nan if pd.isna(value) else value for value in (top["log_probs"] or [])[:_WORDS]]
    probable = top["score_type"] == "log_prob"
    bars: list[tuple[float, str | None]] = (
        [(0.0 if np.isnan(value) else exp(min(value, 0.0)), None) for value in values]
        if probable
        else [*score_bars(values)]
    )
    answer = (item.answer or "").casefold()
    attention = top.get("attention")
    weights = [] if attention is None else [_finite(weight) or 0 for weight in attention]
    return {
        "probable": probable,
        "words": [
            [_shown(word), length, _inside(word, inside), bool(answer) and word.casefold() == answer, score]
            for word, (length, score) in zip(words, bars, strict=False)
        ],
        "correct": bool(top["correct"]), "prediction": top["prediction"], "rank": top["rank_label"],
        "log_prob": _finite(top["answer_log_prob"]),
        "impossible": top["answer_log_prob"] is not None and top["answer_log_prob"] == -np.inf,
        "attention": weights or None,
    }  # fmt: skip


def _shown(word: str) -> str:
    return wt.readable(word) if len(word.split()) == 1 else word


def _inside(word: str, inside: set[str]) -> bool:
    parts = word.casefold().split()
    return bool(parts) and all(part in inside for part in parts)


def _measured(row: Mapping[Any, Any], name: str) -> list[float | None] | None:
    values = [_finite(row.get(part)) for part in (name, f"{name}_low", f"{name}_high")]
    return None if values[0] is None else values
