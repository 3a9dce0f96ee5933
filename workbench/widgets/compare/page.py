"""A comparison as one HTML document to mail: no script, no network, nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.evaluation.comparison import Comparison
from workbench.widgets.compare.page_items import items, number

SLICES = (
    "target_class", "lemma_in_context", "in_context", "answer_in_passage", "word_class", "direct_speech",
    "target_in_speech", "mention_distance", "dataset", "split", "n_context_sentences", "n_words",
)  # fmt: skip
"""Columns that are shown as slices where there are such, in this order."""

NAMES = {
    "target_class": "Class of the target",
    "lemma_in_context": "Target elsewhere in the passage, in any form",
    "in_context": "Target elsewhere in the passage, in this very form",
    "answer_in_passage": "Target elsewhere in the passage, in this very form",
    "word_class": "Class of the missing word",
    "direct_speech": "Quoted speech in the passage",
    "target_in_speech": "Target within quoted speech",
    "mention_distance": "Tokens since the last mention of the target",
    "dataset": "Data set",
    "split": "Split",
    "n_context_sentences": "Sentences before the target sentence",
    "n_words": "Words in the passage",
}
"""Headings of columns."""

_STYLE = Path(__file__).with_suffix(".css")
_SHUT = "default-src 'none'; style-src 'unsafe-inline'"
_MOST_SLICES = 8
_WIDTHS = '<colgroup><col class="a"><col><col class="c"></colgroup>'
_WIDE = 8  # models up to which the matrix has room for intervals
_LEAST = 0.001
_LEVEL = 0.05


def page(
    comparison: Comparison,
    mask: npt.ArrayLike | None = None,
    *,
    limit: int = 200,
    pair: tuple[int, int] | None = None,
    title: str = "Models side by side",
    columns: Sequence[str] | None = None,
) -> str:
    """Return a comparison as a document that needs nothing else.

    Parameters
    ----------
    comparison : Comparison
    mask : array of bool (n,) or of int (k,), optional
        Items to list, or their places in the order wanted; all by default.
    limit : int, default 200
        Items that are shown in full, at most.
    pair : (int, int), optional
        A cell of the matrix that `mask` stands for: the first model right, the second wrong.
    title : str
    columns : sequence of str, optional
        Columns to slice by; those of `SLICES` that there are by default.

    Returns
    -------
    str
        HTML, everything from data escaped; light and dark as the reader's system is.
    """
    chosen = np.arange(comparison.n) if mask is None else np.asarray(mask)
    rows = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
    names = list(columns) if columns is not None else [n for n in SLICES if n in comparison.columns]
    body = "".join(
        [
            f"<h1>{escape(title)}</h1>",
            _summary(comparison),
            _warnings(comparison.warnings),
            _models(comparison),
            _matrix(comparison, tuple(pair) if pair else None),
            _slices(comparison, names[:_MOST_SLICES] if columns is None else names),
            items(comparison, rows, max(limit, 0), tuple(pair) if pair else None),
        ]
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_SHUT}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE.read_text(encoding='utf-8')}</style></head>"
        f"<body>{body}</body></html>\n"
    )


def _summary(of: Comparison) -> str:
    sets = of.items.frame[["dataset", "split", "variant"]].drop_duplicates().to_numpy().tolist()
    told = ", ".join("/".join(map(str, one)) for one in sets[:6])
    how = of.drawing
    return (
        f'<p class="soft">{of.m:,} {"model" if of.m == 1 else "models"}, {of.n:,}'
        f" {'item' if of.n == 1 else 'items'} ({escape(told)}); {100 * how.level:g} % intervals, bootstrap"
        f" with {how.resamples:,} replicates, seed {how.seed}.</p>"
    )


def _warnings(said: Sequence[str]) -> str:
    lines = "".join(f"<li>{escape(text)}</li>" for text in said)
    return f'<ul class="notes">{lines}</ul>' if said else ""


def _models(of: Comparison) -> str:
    table = of.table()
    most = float(np.nanmax(table["accuracy_high"].to_numpy(dtype=float), initial=0)) or 1.0
    lines = []
    for row in _records(table):
        accuracy = [row[f"accuracy{end}"] for end in ("", "_low", "_high")]
        perplexity = _of(row, "perplexity")
        lines.append(
            f'<tr><th scope="row" class="name"><bdi>{escape(row["label"])}</bdi></th>'
            f'<td class="r" data-of="accuracy">{_percent(accuracy[0])} {_span(accuracy[1:], _share)}</td>'
            f'<td class="plot">{_bar(*(value / most for value in accuracy))}</td>'
            f'<td class="r" data-of="perplexity">{perplexity}{_fewer(row, of.n)}</td>'
            f'<td class="r" data-of="median rank">{_of(row, "median_rank")}</td></tr>'
        )
    head = "".join(
        f"<th{css}>{name}</th>"
        for name, css in (
            ("model", ""),
            ("accuracy", ' class="r"'),
            ("", ""),
            ("perplexity", ' class="r"'),
            ("median rank", ' class="r"'),
        )
    )
    how = " and ".join(dict.fromkeys(table["interval"].tolist()))
    return (
        f'<div class="wide"><table class="models"><thead><tr>{head}</tr></thead><tbody>{"".join(lines)}'
        '</tbody></table></div><p class="soft"><small>Intervals of the accuracies:'
        f" {escape(how)}.</small></p>"
    )


def _fewer(row: dict[str, Any], n: int) -> str:
    few = 0 < row["n_perplexity"] < n
    return f"<small>of {row['n_perplexity']:,} items</small>" if few else ""


def _of(row: dict[str, Any], name: str) -> str:
    if pd.isna(row[name]):
        return "–"  # noqa: RUF001 - a dash is meant
    return f"{number(row[name])} {_span([row[f'{name}_low'], row[f'{name}_high']], number)}"


def _matrix(of: Comparison, pair: tuple[int, ...] | None) -> str:
    pairs = _records(of.pairs())
    if not pairs:
        return ""
    cells = {}
    for row in pairs:
        cells[row["a"], row["b"]] = _cell(of, row, 1, pair)
        cells[row["b"], row["a"]] = _cell(of, row, -1, pair)
    short = of.m > _WIDE
    heads = [str(k + 1) if short else f"<bdi>{escape(_cut(name))}</bdi>" for k, name in enumerate(of.labels)]
    head = "".join(
        f'<th scope="col" title="{escape(name)}">{told}</th>'
        for name, told in zip(of.labels, heads, strict=True)
    )
    lines = "".join(
        f'<tr><th scope="row" class="name">{f"{a + 1} " if short else ""}<bdi>{escape(name)}</bdi></th>'
        + "".join('<td class="self"></td>' if a == b else cells[a, b] for b in range(of.m))
        + "</tr>"
        for a, name in enumerate(of.labels)
    )
    novels = (
        " Every item names its novel: intervals are of whole novels, and a cell's title tells the p of the"
        " sign-flip test by novel."
        if pairs[0]["p_novel"] == pairs[0]["p_novel"]
        else ""
    )
    return (
        "<h2>Differences in accuracy</h2><p class=soft>Row minus column, in points, with the interval of the"
        " paired bootstrap and p of the exact McNemar test, corrected for the number of pairs (Holm)."
        f" Coloured where p is below {_LEVEL}: blue where the row's model is better, orange where it is"
        f" worse.{novels}</p>"
        f'<div class="wide"><table class="matrix"><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _cell(of: Comparison, row: dict[str, Any], sign: int, pair: tuple[int, ...] | None) -> str:
    ends = ("a", "b") if sign > 0 else ("b", "a")
    places = tuple(row[end] for end in ends)
    bounds = sorted(sign * row[f"difference_{end}"] for end in ("low", "high"))
    points, span = _points(sign * row["difference"]), _span(bounds, _points)
    told = [
        f"{row[f'label_{ends[0]}']} minus {row[f'label_{ends[1]}']}: {points} points {span}".rstrip(),
        f"{row[f'n_only_{ends[0]}']:,} items only the first got right",
        f"{row[f'n_only_{ends[1]}']:,} only the second",
        f"p = {_p(row['p'])}, corrected {_p(row['p_holm'])}",
    ]
    if not pd.isna(row["p_novel"]):
        told.append(f"by novel p = {_p(row['p_novel'])}")
    if not pd.isna(row["log_prob_difference"]):
        told.append(f"mean ln p {sign * row['log_prob_difference']:+.3f}")
    sure = row["p_holm"] < _LEVEL
    css = [
        ("up" if sign * row["difference"] > 0 else "down") if sure else "",
        "chosen" if places == pair else "",
    ]
    inner = "" if of.m > _WIDE else f"<small>{escape(span)}</small>"
    title = escape("; ".join(told))
    return (
        f'<td class="{" ".join(filter(None, css))}" title="{title}">{points}{inner}'
        f"<small>p {_p(row['p_holm'], sign=True)}</small></td>"
    )


def _slices(of: Comparison, names: Sequence[str]) -> str:
    parts = []
    for name in names:
        frame = of.slices(name)
        most = float(np.nanmax(frame["high"].to_numpy(dtype=float), initial=0)) or 1.0
        lines = []
        for _, part in frame.groupby("key", sort=False):
            rows = part.to_dict("records")
            lines.append(
                f'<tr class="bin"><th colspan="3"><bdi>{escape(rows[0]["bin"])}</bdi>'
                f' <small class="soft">{rows[0]["n"]:,} items</small></th></tr>'
            )
            lines += [
                f'<tr title="{escape(row["label"])}: {_percent(row["accuracy"])}'
                f' {_span([row["low"], row["high"]], _share)}">'
                f'<th scope="row" class="who"><bdi>{escape(row["label"])}</bdi></th>'
                f'<td class="plot">{_bar(*(row[k] / most for k in ("accuracy", "low", "high")))}</td>'
                f'<td class="r">{_percent(row["accuracy"])}</td></tr>'
                for row in rows
            ]
        heading = escape(NAMES.get(name, name.replace("_", " ").capitalize()))
        parts.append(
            f"<section><h3>{heading}</h3><table>{_WIDTHS}<tbody>{''.join(lines)}</tbody></table></section>"
        )
    if not parts:
        return ""
    return (
        "<h2>Accuracy by kind of item</h2><p class=soft>Bars with Wilson intervals; each chart has a scale of"
        f' its own.</p><div class="slices">{"".join(parts)}</div>'
    )


def _bar(value: float, low: float, high: float) -> str:
    if value != value:  # noqa: PLR0124 - NaN: no items
        return '<span class="bar none"></span>'
    ends = "" if low != low else f";--l:{low:.2%};--h:{high:.2%}"  # noqa: PLR0124 - NaN
    return f'<span class="bar{"" if ends else " none"}" style="--v:{value:.2%}{ends}"></span>'


def _cut(text: str) -> str:
    return text if len(text) <= 24 else f"{text[:23]}…"  # noqa: PLR2004 - what a narrow column holds


def _span(bounds: Sequence[float], write: Any) -> str:
    return (
        "" if any(pd.isna(value) for value in bounds) else f"[{', '.join(write(value) for value in bounds)}]"
    )


def _percent(share: float) -> str:
    return "–" if pd.isna(share) else f"{100 * share:.1f} %"  # noqa: RUF001 - a dash is meant


def _share(share: float) -> str:
    return f"{100 * share:.1f}"


def _points(share: float) -> str:
    text = f"{100 * share:+.1f}"
    return "0.0" if text[1:] == "0.0" else text


def _p(p: float, *, sign: bool = False) -> str:
    if p < _LEAST:
        return f"< {_LEAST}"
    return f"{'= ' if sign else ''}{p:.2g}"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    records: Any = frame.to_dict("records")
    return list(records)
