"""A comparison as the page draws it: formatted text and lengths of bars."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import exp
from os.path import commonprefix
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.binning import Mask
from workbench.analysis.proportions import wilson
from workbench.evaluation.comparison import OUTCOMES, Comparison
from workbench.evaluation.paired import POWER, describe_mde
from workbench.items import text as wt
from workbench.items.items import Item
from workbench.predictions.measures import Measure
from workbench.render.labels import column_label, label
from workbench.render.numbers import (
    fixed,
    p_value,
    percent,
    points,
    probability,
    span,
    with_minus,
)
from workbench.render.results import WRITERS
from workbench.widgets.shared.passages import BLANK_MARK, answer_text, score_bars, snippet, words_around
from workbench.widgets.shared.search import item_hits

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#707070", "#F0E442")
"""Colours of the models as in charts (Okabe and Ito's), without the import of Altair."""

DASH = "\N{EN DASH}"
_WAIT = "…"
_LEVEL = 0.05
_DENSE = 12  # models up to which a rank from 100 has room in the list
_HIGHEST = 100
_THOUSAND = 1000
_MOST_POINTS, _SQUARES = 2000, 40  # of a scatter
_LONGEST, _COMMON = 48, 16  # letters of a name, and of what it shares with another one
_SHARED = 6  # letters from which a beginning that names share is worth cutting
_TOPS = (0.02, 0.05, 0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.8, 1.0)  # ends of the axis of accuracies


def share_text(share: float) -> str:
    """Format a share in percent without the unit."""
    return percent(share, unit=False)


def short_labels(labels: Sequence[str]) -> list[str]:
    """Return the labels; those of more than 48 letters are cut, first in what they share with another one."""
    names = []
    for name, (common, unique) in zip(labels, split_labels(labels), strict=True):
        if len(name) <= _LONGEST:
            names.append(name)
            continue
        end = _cut(unique, _LONGEST - _COMMON if common else _LONGEST)
        room = _LONGEST - len(end)
        names.append((common if len(common) <= room else f"{common[: room - 1]}…") + end)
    return names


def _cut(text: str, length: int) -> str:
    """Cut a text in its middle."""
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[: length - 1 - half]}…{text[-half:]}"


def split_labels(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Split each label into the prefix that it shares with another one, and the rest.

    Where room is short, the shared part can be cut without loss. It ends at a word's beginning and is empty
    where it is short.
    """
    pairs = []
    for index, name in enumerate(labels):
        others = [other for i, other in enumerate(labels) if i != index]
        shared = max((len(commonprefix([name, other])) for other in others), default=0)  # noqa: RUF071 - no paths
        shared = max(name.rfind(mark, 0, min(shared, len(name) - 1)) + 1 for mark in " -_/(,")
        shared = shared if shared >= _SHARED else 0
        pairs.append((name[:shared], name[shared:]))
    return pairs


def letters(index: int) -> str:
    """Return the short name of a model: A to Z, then AA, AB and so on."""
    first, last = divmod(index, 26)
    return (letters(first - 1) if first else "") + chr(ord("A") + last)


# -- the models and their pairs


def model_rows(comparison: Comparison, *, quick: bool = False) -> list[dict[str, Any]]:
    """Return one row per model: names, colour and measures; `quick` omits resampled values."""
    table = comparison.points() if quick else comparison.table()
    rows, names = table.to_dict("records"), short_labels(comparison.labels)
    ends = [_values(row, "accuracy") for row in rows]
    top = max(0.01, *(high for *_, high in ends if not np.isnan(high)))
    return [
        {
            "label": row["label"], "name": names[index], "key": letters(index),
            "colour": PALETTE[index % len(PALETTE)], "palette_round": index // len(PALETTE),
            "spread": row["spread"], "bar": [_length(value, top) for value in ends[index]],
            "measures": [
                *(_measure_cell(each, row, quick=quick) for each in comparison.measures),
                *((_text(row[name]), "", "") for name in comparison.distinctions),
            ],
        }
        for index, row in enumerate(rows)
    ]  # fmt: skip


def _text(value: Any) -> str:
    return DASH if pd.isna(value) else str(value)


def _values(row: Mapping[Any, Any], name: str) -> tuple[float, float, float]:
    """Return a measure and its interval, which is the value itself if unknown."""
    value = row[name]
    bounds = (row.get(f"{name}_{end}", np.nan) for end in ("low", "high"))
    low, high = (value if pd.isna(bound) else bound for bound in bounds)
    return value, low, high


def _length(value: float, largest: float) -> float:
    return 0.0 if pd.isna(value) else round(min(1.0, value / largest), 4)


def _measure_cell(measure: Measure, row: Mapping[Any, Any], *, quick: bool) -> tuple[str, str, str]:
    """Return a measure as text, its interval, and its number of items or why it is missing."""
    value, write = row[measure.name], WRITERS[measure.format]
    bounds = [row.get(f"{measure.name}_{end}", np.nan) for end in ("low", "high")]
    if pd.isna(value):
        return _WAIT if quick else DASH, "", measure.missing
    if np.isinf(value):
        return "∞", "", "an answer has probability 0"
    interval = "" if pd.isna(bounds).any() else DASH.join(map(write, bounds))
    text = measure.coverage.format(n=f"{row[measure.count or 'n']:,}")
    method = row.get("interval") if measure.interval == "share" else None
    about = [f"{text} ({method})" if method else text, interval and f"interval {interval}"]
    return write(value), interval, "; ".join(filter(None, about))


def model_table(comparison: Comparison, models: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the table of models as the page draws it: headings with tooltips, and rows.

    Columns without a value in any row of `model_rows` are left out.
    """
    heads = [
        *((measure_heading(each), column_label(each.name).tooltip) for each in comparison.measures),
        *((label(str(name)), column_label(str(name)).tooltip) for name in comparison.distinctions),
    ]
    filled = [
        index
        for index in range(len(heads))
        if any(row["measures"][index][0] not in {DASH, _WAIT} for row in models)
    ]
    return {
        "measures": [heads[index] for index in filled],
        "models": [{**row, "measures": [row["measures"][index] for index in filled]} for row in models],
    }


def measure_heading(measure: Measure) -> str:
    """Return the label of a measure, with the unit of a share."""
    return column_label(measure.name).label + (", %" if measure.format == "share" else "")


def pair_cells(comparison: Comparison) -> list[list[dict[str, Any] | None]]:
    """Return the cells of the matrix (m, m), row minus column, None on the diagonal.

    ``text`` is the difference, ``about`` continues "A right, B wrong", ``size`` is the difference beside the
    greatest one, from 0 to 1, ``sure`` whether p is below .05 after Holm's correction.
    """
    cells: list[list[dict[str, Any] | None]] = [[None] * comparison.m for _ in range(comparison.m)]
    pairs = comparison.pairs()
    largest = max(0.02, *pairs["difference"].abs(), 0)
    for row in pairs.to_dict("records"):
        for a, b, sign in (("a", "b", 1), ("b", "a", -1)):
            difference = sign * row["difference"]
            p, holm = (_p_text(row[name], missing="not known") for name in ("p", "p_holm"))
            cells[row[a]][row[b]] = {
                "text": points(difference), "size": _length(abs(difference), largest), "less": difference < 0,
                "sure": bool(row["p_holm"] < _LEVEL),
                "difference": _difference(row, sign), "p": _p_text(row["p"]), "test": row["test"],
                "mde": _mde(row),
                "about": f": {row[f'n_only_{a}']:,} items; the other way: {row[f'n_only_{b}']:,}. Difference"
                f" {points(difference)} points{_bounds(row, sign, share_text)}; {row['test']} p {p},"
                f" Holm {holm}{detectable_text(_mde(row))}",
            }  # fmt: skip
    return cells


def baseline_rows(comparison: Comparison, baseline: int | None) -> dict[str, Any] | None:
    """Return the differences of the other models from a baseline, one row each; None without one.

    A row has the place ``k`` of the model, the texts of its ``difference``, ``p`` and ``mde``, the numbers of
    ``improvements`` (only it right) and ``regressions`` (only the baseline right), and ``sure``: whether p is
    below .05 after Holm's correction.
    """
    if baseline is None:
        return None
    table = comparison.differences(baseline)
    rows = [
        {
            "k": row["a"], "difference": _difference(row), "p": _p_text(row["p_holm"]),
            "mde": _mde(row, "p_holm"),
            "sure": bool(row["p_holm"] < _LEVEL), "less": row["difference"] < 0,
            "improvements": row["n_only_a"], "regressions": row["n_only_b"],
            "about": f"{row['test']}: p {_p_text(row['p'], missing='not known')}, corrected"
            f" for {len(table)} tests {_p_text(row['p_holm'])} (Holm), {_p_text(row['p_fdr_bh'])} (false"
            " discovery rate)",
        }
        for row in table.to_dict("records")
    ]  # fmt: skip
    return {"k": baseline, "rows": rows}


def _p_text(p: float, *, missing: str = DASH) -> str:
    return missing if pd.isna(p) else p_value(p)


def _bounds(row: Mapping[Any, Any], sign: int, write: Callable[[float], str]) -> str:
    low, high = sorted(sign * row[f"difference_{end}"] for end in ("low", "high"))
    return f" {span(low, high, write)}".rstrip()


def _difference(row: Mapping[Any, Any], sign: int = 1) -> str:
    value = row["difference"]
    return DASH if pd.isna(value) else points(sign * value) + _bounds(row, sign, points)


def _mde(row: Mapping[Any, Any], p: str = "p") -> tuple[str, str]:
    """Return the smallest detectable difference in points, and how often it is found; "" if `p` is small."""
    text = "" if row[p] < _LEVEL else describe_mde(row["difference"], row["mde"])
    return text, f"found in {100 * POWER:.0f} % of such comparisons" if text else ""


def detectable_text(mde: tuple[str, str]) -> str:
    """Return the smallest detectable difference as the end of a sentence."""
    return f"; smallest detectable difference {mde[0]}" if mde[0] else ""


# -- the items that are listed


def selected_numbers(
    comparison: Comparison,
    mask: Mask,
    two: tuple[int, int] | None,
    *,
    in_cell: bool,
    cells: Sequence[Sequence[Mapping[str, Any] | None]] | None,
) -> dict[str, Any]:
    """Return the numbers of two models (or the first) on all items and on a part of them, and accuracies.

    The part is that of `mask` (n,).

    Items that were chosen by the outcome of these two (`in_cell`) leave nothing to test. `cells` are
    `pair_cells`, where the differences on all items are known already.
    """
    n, level, listed = int(mask.sum()), comparison.sampling.level, list(two or (0,))
    accuracies = accuracy_texts(comparison.shares[:, mask], level)
    is_all = n == comparison.n
    differences: list[tuple[str, str, str, tuple[str, str]]] = []
    if two is not None:
        cell = cells[two[0]][two[1]] if cells else None
        names = ("difference", "p", "test", "mde")
        differences = [tuple(cell[name] for name in names) if cell else (_WAIT, _WAIT, "", ("", ""))] * 2
        if not is_all:
            pair = comparison.pair(*two, mask)
            if in_cell:
                pair |= {"p": np.nan, "difference_low": np.nan, "mde": np.nan}
            differences[1] = _difference(pair), _p_text(pair["p"]), pair["test"], _mde(pair)
    remark = "" if is_all else "by outcome" if in_cell else "exploratory"
    selections = (
        ("all", comparison.n, accuracy_texts(comparison.shares, level), ""),
        *([] if is_all else [("selected", n, accuracies, remark)]),
    )
    return {
        "two": two, "whole": is_all, "n": n,
        "rows": [
            {"name": name, "n": number, "shares": [values[k] for k in listed], "remark": text,
             "difference": differences[index] if two else None}
            for index, (name, number, values, text) in enumerate(selections)
        ],
        "accuracy": [None if is_all or not n else pair for pair in accuracies],
    }  # fmt: skip


def accuracy_texts(shares: NDArray[np.float64], level: float) -> list[tuple[str, str]]:
    """Return the accuracy and the Wilson interval of each model on its items among those (m, n), as text."""
    right, n = np.nansum(shares, axis=1), (~np.isnan(shares)).sum(axis=1)
    low, high = wilson(right, n, level=level)
    return [
        (percent(right[k] / n[k]), f"Wilson interval {share_text(low[k])} to {percent(high[k])}")
        if n[k] else (DASH, "")
        for k in range(len(shares))
    ]  # fmt: skip


def outcome_counts(comparison: Comparison, two: tuple[int, int], others: Mask) -> dict[str, int]:
    """Return how many items each cell of two models has, among those that pass the other filters."""
    return {name: int((comparison.cell(*two, name) & others).sum()) for name in OUTCOMES}


def slice_bars(comparison: Comparison, column: str, mask: Mask, visible: Sequence[int]) -> dict[str, Any]:
    """Return the chart of a column: its ticks, and the size and bars of each bin, one bar per model.

    A bar is the accuracy and its Wilson interval as parts of the axis, and both as text; None without items.
    A bin has the ``facet`` that lists its items, None where several rare values share it, and a ``name`` in
    two parts: what it shares with that of another bin, and the rest.
    """
    table = comparison.slices(column, mask) if column else pd.DataFrame({"key": [], "high": []})
    largest = float(np.nanmax(table["high"].to_numpy(dtype=float, na_value=np.nan), initial=0))
    top = next(end for end in _TOPS if end >= min(largest, 1.0))
    groups: list[dict[str, Any]] = []
    facets = {each.key: each.facet for each in comparison.bins(column)} if column else {}
    for key, rows_of_bin in table.groupby("key", sort=False):
        rows = [rows_of_bin.iloc[k] for k in visible]
        groups.append({
            "facet": facets[str(key)], "label": str(rows_of_bin["bin"].iloc[0]),
            "n": int(rows_of_bin["n"].max()),
            "bars": [
                None if pd.isna(row["accuracy"]) else
                [*(_length(row[name], top) for name in ("accuracy", "low", "high")), percent(row["accuracy"]),
                 span(row["low"], row["high"], share_text)]
                for row in rows
            ],
        })  # fmt: skip
    names = split_labels([group["label"] for group in groups])
    groups = [group | {"name": name} for group, name in zip(groups, names, strict=True)]
    ticks = [f"{100 * top * fraction:.3g} %" for fraction in (0, 0.5, 1)]
    return {"groups": groups, "ticks": ticks, "n": int(mask.sum())}


def scatter_points(comparison: Comparison, two: tuple[int, int] | None, mask: Mask) -> dict[str, Any]:
    """Return ln p of the answers by two models on the items of `mask` (n,).

    Up to 2,000 items are points: ln p by each model, the outcome (0 both wrong, 1 and 2 only one right, 3
    both right) and the item's place; more are counted in squares.
    """
    if two is None:
        return {"two": None, "n": 0}
    values = comparison.log_prob[list(two)]
    rows = np.flatnonzero(mask & np.isfinite(values).all(axis=0))
    low = min(float(np.floor(values[:, rows].min())) if len(rows) else -1.0, -1.0)
    head = {
        "two": two, "n": len(rows), "left_out": int(mask.sum()) - len(rows), "low": low, "cut": _SQUARES,
        "ticks": [with_minus(f"{value:g}") for value in (low, low / 2, 0)],
    }  # fmt: skip
    if len(rows) > _MOST_POINTS:
        edges = np.linspace(low, 0, _SQUARES + 1)
        counts, _, _ = np.histogram2d(values[0, rows], values[1, rows], bins=[edges, edges])
        return head | {"bins": [[int(i), int(j), int(counts[i, j])] for i, j in np.argwhere(counts)]}
    outcome = comparison.correct[two[0]] + 2 * comparison.correct[two[1]]
    points_ = zip(*values[:, rows].round(3).tolist(), outcome[rows].tolist(), rows.tolist(), strict=True)
    return head | {"points": list(map(list, points_))}


def item_row(
    comparison: Comparison, row: int, visible: Sequence[int], item: Item, state: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a row of the list: text before, inside and after the highlight, and the marks.

    A mark is whether a shown model is right (None: not predicted), the rank of the answer as far as there is
    room, and in full.
    """
    spans = item_hits(item, state)
    if spans:
        before, inside, after = snippet(item, spans[0])
    else:
        text, inside = snippet(item, None)[0], answer_text(item)
        before, _, after = text.partition(BLANK_MARK)
    marks = []
    for k in visible:
        text, rank = comparison.rank_label(k, row), comparison.rank[k, row]
        is_long = pd.isna(rank) or (rank >= _HIGHEST and len(visible) > _DENSE)
        mark = "○" if is_long else f"{'=' if text.startswith('tied') else ''}{_short(rank)}"
        right = bool(comparison.correct[k, row])
        marks.append([right, "" if right else mark, text] if comparison.mask[k, row] else [None, DASH, ""])
    return {"id": item.item_id, "text": [before, inside, after], "hit": bool(spans), "marks": marks}


def _short(rank: float) -> str:
    if rank >= _THOUSAND**2 - _THOUSAND / 2:
        return f"{rank / _THOUSAND**2:.0f}M"
    return f"{rank / _THOUSAND:.0f}k" if rank >= _THOUSAND else f"{rank:.0f}"


def model_answers(
    comparison: Comparison, row: int, models: Sequence[int], item: Item, *, limit: int | None = None
) -> dict[str, Any]:
    """Return the best words of some models for the blank of an item, with probabilities on one scale.

    Of each model there are ``words``, up to a `limit`: the word, the length of its bar, whether it is in the
    passage, whether it is the answer, and the number; ``last`` has that of an answer that is not among them.
    """
    around, top = words_around(item), comparison.top(row)
    chances = [
        exp(min(value, 0.0))
        for k in models
        if top[k]["score_type"] == "log_prob"
        for value in (top[k]["log_probs"] or [])[:limit]
        if not pd.isna(value)
    ]
    scale = max(chances, default=0.0)
    return {
        "models": [{"k": k, **_answer(top[k], around, scale, limit)} for k in models],
        "scale": f"0{DASH}{probability(scale)}" if scale else "",
    }


def _answer(top: Mapping[str, Any], around: set[str], scale: float, limit: int | None) -> dict[str, Any]:
    answer = top["answer"] or ""
    words, values = list(top["words"] or [])[:limit], (top["log_probs"] or [])[:limit]
    is_probability = top["score_type"] == "log_prob"
    bars = [_probability_bar(value, scale) for value in values] if is_probability else score_bars(values)
    log_prob = top["answer_log_prob"]
    number = "" if log_prob is None else f"ln p {fixed(log_prob, 2)} ({probability(exp(log_prob))})"
    number = "probability 0" if log_prob is not None and np.isneginf(log_prob) else number
    lines = [
        (_readable(word), length, _in_passage(word, around), word.casefold() == answer.casefold(), text)
        for word, (length, text) in zip(words, bars or [(0.0, "")] * len(words), strict=False)
    ]
    length, text = _probability_bar(log_prob, scale)
    last = (_readable(answer), length, _in_passage(answer, around), True, text)
    return {
        "scores": bool(words) and not is_probability, "words": lines, "label": top["label"],
        "last": [] if any(same for *_, same, _ in lines) else [last],
        "correct": bool(top["correct"]),
        "prediction": None if top["prediction"] is None else _readable(top["prediction"]),
        "text": " · ".join(filter(None, [top["rank_label"], number])) or "rank and probability not known",
    }  # fmt: skip


def _probability_bar(log_prob: float | None, scale: float) -> tuple[float, str]:
    if log_prob is None or pd.isna(log_prob):
        return 0.0, ""
    p = exp(min(log_prob, 0.0))
    return _length(p, scale or 1.0), probability(p)


def _readable(word: str) -> str:
    return wt.readable(word) if len(word.split()) == 1 else word


def _in_passage(word: str, around: set[str]) -> bool:
    pieces = word.casefold().split()
    return bool(pieces) and all(piece in around for piece in pieces)
