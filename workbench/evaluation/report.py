"""A comparison as plain text, for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from workbench.evaluation.comparison import Comparison

_LEAST = 0.0001
_MOST = 6  # models whose slices a terminal is wide enough for
_MANY = 1000


def told(of: Comparison) -> str:
    """Return the models, the pairs, the slices and the warnings as text."""
    how = of.drawing
    head = (
        f"{of.m:,} {'model' if of.m == 1 else 'models'} on {of.n:,} {'item' if of.n == 1 else 'items'};"
        f" {100 * how.level:g} % intervals"
    )
    parts = [head, _models(of)]
    if of.m > 1:
        parts.append("Pairs, the difference in points, p of the exact McNemar test (Holm):\n" + _pairs(of))
    if of.m <= _MOST:
        parts += [f"Accuracy by {column}:\n{_slices(of, column)}" for column in of.columns]
    if of.warnings:
        parts.append("Mind:\n" + "\n".join(f"- {text}" for text in of.warnings))
    return "\n\n".join(parts)


def _models(of: Comparison) -> str:
    rows = [
        (
            row["label"],
            _span(row, "accuracy", lambda share: f"{100 * share:.1f}"),
            _span(row, "perplexity", _number),
            _span(row, "median_rank", _number),
        )
        for row in records(of.table())
    ]
    return _columns(["model", "accuracy %", "perplexity", "median rank"], rows)


def _pairs(of: Comparison) -> str:
    rows = [
        (
            f"{row['label_a']} - {row['label_b']}",
            _span(row, "difference", lambda share: f"{100 * share:+.1f}"),
            f"{row['n_only_a']:,} / {row['n_only_b']:,}",
            _p(row["p"]),
            _p(row["p_holm"]),
            "" if pd.isna(row["p_novel"]) else _p(row["p_novel"]),
        )
        for row in records(of.pairs())
    ]
    names = ["pair", "difference", "only one right", "p", "p (Holm)", "p by novel"]
    width = len(names) if any(row[-1] for row in rows) else len(names) - 1
    return _columns(names[:width], [row[:width] for row in rows])


def _slices(of: Comparison, column: str) -> str:
    frame = of.slices(column)
    rows = [
        (
            str(part["bin"].iloc[0]),
            f"{part['n'].iloc[0]:,}",
            *(f"{100 * share:.1f}" for share in part["accuracy"]),
        )
        for _, part in frame.groupby("key", sort=False)
    ]
    return _columns([column, "n", *of.labels], rows)


def _columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Set columns in line, the first to the left, the others to the right."""
    wide = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, wide, strict=True))
        ).rstrip()
        for row in [names, *rows]
    )


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of a table, each by the names of its columns."""
    return [dict(zip(map(str, frame.columns), row, strict=True)) for row in frame.itertuples(index=False)]


def _span(row: Mapping[str, Any], name: str, write: Callable[[float], str]) -> str:
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))
    if pd.isna(value):
        return "-"
    return write(value) + ("" if pd.isna(low) else f" [{write(low)}, {write(high)}]")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= _MANY else f"{value:.4g}"


def _p(value: float) -> str:
    return f"< {_LEAST}" if value < _LEAST else f"{value:.2g}"
