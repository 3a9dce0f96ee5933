"""A comparison as static HTML: a self-contained page, and the table of a saved notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.paired import describe_mde
from workbench.items.marked_text import pieces
from workbench.items.tokens import tokens
from workbench.predictions.measures import Measure
from workbench.render.labels import column_label, label
from workbench.render.numbers import MINUS, fixed, p_value, percent, points, span, with_minus
from workbench.widgets.compare.view import (
    DASH,
    baseline_rows,
    model_answers,
    share_text,
    split_labels,
)
from workbench.widgets.shared.widget import render

_SLICES = (
    "target_class", "lemma_in_context", "in_context", "answer_in_passage", "word_class", "direct_speech",
    "target_in_speech", "mention_distance", "dataset", "split", "n_context_sentences", "n_words",
)  # fmt: skip
"""The columns that are shown as slices where there are such, in this order."""

ORDERS = {
    "": "original order", "disagreement": "most disagreement first", "difference": "difference in ln p",
    "all wrong": "all wrong first", "only one right": "only one right first", "all right": "all right first",
}  # fmt: skip
"""What the orders of the list are called."""

Rows = npt.NDArray[np.int64]

_MOST_SLICES = 12
_WIDE = 8  # models up to which the matrix has room for intervals
_LONGEST = 24  # letters of a name in a narrow column
_LEVEL = 0.05
_MANY = 1000


def comparison_page(
    comparison: Comparison,
    rows: npt.NDArray[np.int64] | None = None,
    *,
    limit: int = 200,
    filters: Sequence[str] = (),
    sort: str = "",
    pair: tuple[int, int] | None = None,
    outcome: str = "any",
    column: str = "",
    models: Sequence[int] | None = None,
    baseline: int | None = None,
    facts: Callable[[int], Sequence[tuple[str, str]]] | None = None,
) -> str:
    """Return a comparison as a self-contained page: escaped HTML, light or dark as the reader's system is.

    Parameters
    ----------
    rows : array of int (k,), optional
        Places of the items to list, in the order wanted; all by default. In full are shown `limit` of them.
    filters, sort : sequence of str, str
        How `rows` were chosen, in words, and their order, one of ``selection.SORTS``.
    pair, outcome : (int, int), str
        Two models whose difference on `rows` is stated, and the cell of the two (one of
        ``comparison.OUTCOMES``) that `rows` were chosen by; there is nothing to test then.
    column : str
        The column whose slices come first.
    models : sequence of int, optional
        Models whose predictions are listed; all by default.
    baseline : int, optional
        A model of which the others are shown as differences, instead of all pairs.
    facts : callable, optional
        Returns what an item is annotated with, by its place: names and values.
    """
    rows = np.arange(comparison.n) if rows is None else rows
    models = list(range(comparison.m)) if models is None else models
    custom = [name for name in comparison.columns if not column_label(name).tooltip and name not in _SLICES]
    columns = [name for name in dict.fromkeys((column, *custom, *_SLICES)) if name in comparison.columns]
    table, pairs = comparison.table(), _records(comparison.pairs())
    names = split_labels(comparison.labels)
    turned = {"only first": 1, "only second": -1}.get(outcome)  # cells of the matrix
    cell = tuple(pair[::turned]) if pair and turned else None
    return render(
        "compare/page.html",
        summary=_summary(comparison),
        warnings=comparison.warnings,
        measures=[
            *(column_label(each.name).label.lower() for each in comparison.measures),
            *(label(str(name)).lower() for name in comparison.distinctions),
        ],
        models=_models(comparison, table),
        intervals=" and ".join(dict.fromkeys(table["interval"].tolist())),
        heads=[(name, str(k + 1) if comparison.m > _WIDE else _cut(name, *names[k]))
               for k, name in enumerate(comparison.labels)],
        matrix=_matrix(comparison, pairs, cell) if pairs and baseline is None else [],
        differences=_named_rows(baseline_rows(comparison, baseline), comparison.labels),
        tests=" or ".join(dict.fromkeys(row["test"] for row in pairs)),
        level=_LEVEL,
        slices=[_slices(comparison, name) for name in columns[:_MOST_SLICES]],
        n=f"{comparison.n:,}",
        filters=filters,
        numbers=_numbers(comparison, rows, models, pair if outcome == "any" else None) if filters else [],
        order=ORDERS.get(sort, sort),
        items=_items(comparison, rows, max(limit, 0), models, facts),
    )  # fmt: skip


def models_table(
    models: Sequence[Mapping[str, Any]],
    measures: Sequence[tuple[str, str]],
    summary: str,
    warnings: Sequence[str],
    baseline: Mapping[str, Any] | None = None,
) -> str:
    """Return the tables of models and, with a baseline, of the models against it as HTML.

    `measures` are headings and tooltips.
    """
    heads = ["Model", *(heading for heading, _ in measures)]
    labels = [model["label"] for model in models]
    return render(
        "compare/static.html", summary=summary, heads=heads, models=models, warnings=warnings,
        differences=_named_rows(baseline, labels),
    )  # fmt: skip


def _named_rows(baseline: Mapping[str, Any] | None, labels: Sequence[str]) -> dict[str, Any] | None:
    """Return the rows of `baseline_rows` with labels of the models in place of their indices."""
    if baseline is None:
        return None
    rows = [{**row, "label": labels[row["k"]]} for row in baseline["rows"]]
    return {"label": labels[baseline["k"]], "rows": rows}


def _summary(comparison: Comparison) -> str:
    sets = comparison.items.frame[["dataset", "split", "variant"]].drop_duplicates().to_numpy().tolist()
    names, how = ", ".join("/".join(map(str, key)) for key in sets[:6]), comparison.sampling
    counts = f"{_counted(comparison.m, 'model')}, {_counted(comparison.n, 'item')}"
    interval = f"{100 * how.level:g} % intervals, bootstrap with {how.resamples:,} replicates"
    return f"{counts} ({names}); {interval}, seed {how.seed}."


def _models(comparison: Comparison, table: pd.DataFrame) -> list[dict[str, Any]]:
    top = float(np.nanmax(table["accuracy_high"].to_numpy(dtype=float), initial=0)) or 1.0
    models = []
    for row in _records(table):
        accuracy, low, high = (row[f"accuracy{end}"] for end in ("", "_low", "_high"))
        cells = [
            (column_label(each.name).label.lower(), *_measure(row, each, comparison.n))
            for each in comparison.measures
        ]
        cells += [
            (label(str(name)).lower(), DASH if pd.isna(row[name]) else str(row[name]), "")
            for name in map(str, comparison.distinctions)
        ]
        models.append({
            "label": row["label"], "measures": cells, "spread": row["spread"],
            "bar": _bar(accuracy / top, low / top, high / top),
        })  # fmt: skip
    return models


def _measure(row: Mapping[str, Any], measure: Measure, n: int) -> tuple[str, str]:
    """Return a measure with its interval, and the number of its items if not all."""
    value, low, high = (row[name] for name in measure.columns)
    if pd.isna(value):
        return DASH, ""
    write, write_value = (share_text, percent) if measure.format == "share" else (_number, _number)
    counted = row[measure.count] if measure.count else n
    return f"{write_value(value)} {span(low, high, write)}", f"of {counted:,} items" if counted < n else ""


def _matrix(
    comparison: Comparison, pairs: Sequence[Mapping[str, Any]], chosen: tuple[int, ...] | None
) -> list[Any]:
    cells = {(row[a], row[b]): _cell(comparison, row, a, b, chosen) for row in pairs for a, b in ("ab", "ba")}
    m, labels = comparison.m, enumerate(comparison.labels)
    return [
        (name, f"{a + 1} " if m > _WIDE else "", [cells.get((a, b)) for b in range(m)]) for a, name in labels
    ]


def _cell(
    comparison: Comparison, row: Mapping[str, Any], a: str, b: str, chosen: tuple[int, ...] | None
) -> dict[str, Any]:
    """Return the matrix cell of the models `a` (row) and `b` (column)."""
    sign = 1 if a == "a" else -1
    difference = sign * row["difference"]
    low, high = sorted(sign * row[f"difference_{end}"] for end in ("low", "high"))
    interval = span(low, high, points)
    title = [
        f"{row[f'label_{a}']} minus {row[f'label_{b}']}: {points(difference)} points {interval}".rstrip(),
        f"{row[f'n_only_{a}']:,} items only the first got right", f"{row[f'n_only_{b}']:,} only the second",
        f"p = {p_value(row['p'])}, corrected {p_value(row['p_holm'])} ({row['test']})",
        f"smallest detectable difference {describe_mde(difference, row['mde']) or DASH}",
    ]  # fmt: skip
    if not pd.isna(row["log_prob_difference"]):
        title.append(f"mean ln p {fixed(sign * row['log_prob_difference'], 3, sign=True)}")
    better = ("up" if difference > 0 else "down") if row["p_holm"] < _LEVEL else ""
    css = [better, "chosen" if (row[a], row[b]) == chosen else ""]
    return {
        "css": " ".join(filter(None, css)), "title": "; ".join(title), "points": points(difference),
        "span": None if comparison.m > _WIDE else interval, "p": p_value(row["p_holm"], sign=True),
    }  # fmt: skip


def _slices(comparison: Comparison, name: str) -> tuple[str, list[Any]]:
    """Return the chart of a column: its heading, and the name, size and model rows of each bin."""
    frame = comparison.slices(name)
    top = float(np.nanmax(frame["high"].to_numpy(dtype=float), initial=0)) or 1.0
    bins = []
    for _, bin_rows in frame.groupby("key", sort=False):
        rows = _records(bin_rows)
        models = [
            {"label": row["label"], "accuracy": percent(row["accuracy"]),
             "title": f"{row['label']}: {percent(row['accuracy'])} "
             + span(row["low"], row["high"], share_text),
             "bar": _bar(*(row[k] / top for k in ("accuracy", "low", "high")))}
            for row in rows
        ]  # fmt: skip
        bins.append((rows[0]["bin"], f"{rows[0]['n']:,}", models))
    return label(name, unit=True), bins


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun if n == 1 else noun + 's'}"


def _numbers(
    comparison: Comparison, rows: Rows, models: Sequence[int], pair: tuple[int, int] | None
) -> list[str]:
    """Return the accuracy of each model on the listed items, and the difference of two models."""
    mask = np.isin(np.arange(comparison.n), rows)
    if not mask.any():
        return []
    shares, labels = comparison.shares[:, mask], comparison.labels
    low, high = wilson(shares.sum(axis=1), int(mask.sum()), level=comparison.sampling.level)
    lines = [f"{labels[k]}: {percent(shares[k].mean())} {span(low[k], high[k], share_text)}" for k in models]
    if pair is None:
        return lines
    values = comparison.pair(*pair, mask)
    interval = span(values["difference_low"], values["difference_high"], points)
    p = p_value(values["p"], sign=True)
    names = " minus ".join(labels[k] for k in pair)
    lines.append(
        f"{names}: {points(values['difference'])} points {interval}, p {p} ({values['test']});"
        f" smallest detectable difference {describe_mde(values['difference'], values['mde']) or DASH};"
        " exploratory"
    )
    return lines


def _items(
    comparison: Comparison, rows: Rows, limit: int, models: Sequence[int], facts: Any
) -> dict[str, Any]:
    n = len(rows)
    first = f", the first {limit:,} of them here" if limit < n else ""
    listed = [int(row) for row in rows[:limit]]
    return {
        "any": n > 0, "count": f"{n:,} of {_counted(comparison.n, 'item')}{first}",
        "rows": [_item(comparison, row, models) | {"facts": facts(row) if facts else []} for row in listed],
    }  # fmt: skip


def _item(comparison: Comparison, row: int, models: Sequence[int]) -> dict[str, Any]:
    item = comparison.items[row]
    context, query = pieces(item, {})
    answers = model_answers(comparison, row, models, item)["models"]
    top, words = comparison.top(row), tokens(item).words
    return {
        "kind": [item.item_id, *filter(None, [item.book_id, item.word_class])],
        "answer": comparison.answers[row], "context": context, "query": query,
        "right": f"{int(comparison.correct[models, row].sum())} of {len(models)} right",
        "models": [answer | {"attention": _attention(top[answer["k"]], words)} for answer in answers],
    }  # fmt: skip


def _attention(top: Mapping[str, Any], words: Sequence[str]) -> list[tuple[str, str]]:
    """Return each word with its weight relative to the strongest; empty if the weights do not fit."""
    weights = top["attention"]
    if weights is None or len(weights) != len(words):
        return []
    strongest = max(weights, default=0.0) or 1.0
    return [
        (f"{max(0.0, weight) / strongest:.0%}", word) for weight, word in zip(weights, words, strict=True)
    ]


def _bar(value: float, low: float, high: float) -> str:
    """Return the style of a bar with its interval; empty without items."""
    if pd.isna(value):
        return ""
    return f"--v:{value:.2%}" + ("" if pd.isna(low) else f";--l:{low:.2%};--h:{high:.2%}")


def _cut(name: str, shared: str, rest: str) -> str:
    """Shorten a name for a narrow column, first the prefix that it shares with others."""
    text = f"…{rest}" if shared and len(name) > _LONGEST else name
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _number(value: float) -> str:
    """Format a score, perplexity or rank with three digits, or all before the decimal point."""
    if pd.isna(value):
        return ""
    if np.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    return with_minus(f"{value:,.0f}" if abs(value) >= _MANY else f"{value:.3g}")


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    records: Any = frame.to_dict("records")
    return list(records)
