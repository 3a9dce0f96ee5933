"""Display names of columns: a short label, a unit, and one sentence for a tooltip.

Widgets, charts and tables take them from here; they are in ``labels.csv``, one row per column of items,
annotations, predictions and results. Columns of a user's own are called by their name. So are values, but for
the codes of `VALUE_LABELS`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

_FILE = Path(__file__).with_suffix(".csv")
_BOUNDS = {"_low": "lower bound", "_high": "upper bound"}
_CORRECTIONS = {
    "p_bonferroni": "Bonferroni", "p_sidak": "Šidák", "p_holm-sidak": "Holm-Šidák",
    "p_fdr_bh": "Benjamini-Hochberg", "p_fdr_by": "Benjamini-Yekutieli",
}  # fmt: skip

VALUE_LABELS: Mapping[str, Mapping[str, str]] = {
    "target_class": {
        "PN": "proper noun", "CN": "common noun", "V": "verb", "J": "adjective", "R": "adverb", "O": "other",
    },
    "word_class": {"NE": "named entity", "CN": "common noun", "V": "verb", "P": "preposition"},
    "here": {"True": "yes", "False": "no"},
}  # fmt: skip
"""Meaning of the codes of a column, by column, in their customary order."""


class ColumnLabel(NamedTuple):
    """Display name of a column, the unit of its numbers ("" without one), and its description."""

    label: str
    unit: str
    tooltip: str


@cache
def _labels() -> dict[str, ColumnLabel]:
    with _FILE.open(encoding="utf-8", newline="") as lines:
        return {row.pop("name"): ColumnLabel(**row) for row in csv.DictReader(lines)}


@cache
def column_label(name: str) -> ColumnLabel:
    """Return label, unit and tooltip of a column; of an unknown column its name, as words."""
    if name in _labels():
        return _labels()[name]
    if method := _CORRECTIONS.get(name):
        return ColumnLabel(f"p ({method})", "", f"p value corrected for the number of tests ({method}).")
    for end, bound in _BOUNDS.items():
        stem = _labels().get(name.removesuffix(end))
        if name.endswith(end) and stem:
            text = f"{bound.capitalize()} of the confidence interval."
            return ColumnLabel(f"{stem.label}, {bound}", stem.unit, text)
    return ColumnLabel((name.replace("_", " ").strip() if name.isidentifier() else "") or name, "", "")


def label(name: str, *, unit: bool = False) -> str:
    """Return the label of a column, optionally with its unit in brackets: ``Passage length (tokens)``."""
    entry = column_label(name)
    return f"{entry.label} ({entry.unit})" if unit and entry.unit else entry.label


def value_label(name: str, value: str) -> str:
    """Return the label of a code in a column, or the value itself."""
    return VALUE_LABELS.get(name, {}).get(value, value)


def tooltip(name: str) -> str:
    """Return the description of a column in one sentence; "" for an unknown column."""
    return column_label(name).tooltip
