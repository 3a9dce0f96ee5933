"""A comparison as text, for a terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from workbench.evaluation.comparison import Comparison
from workbench.render.labels import column_label, label
from workbench.render.numbers import fixed, p_value, percent, points, quantity, span
from workbench.render.tables import text_table

_MOST = 6  # models whose slices a terminal is wide enough for


def comparison_text(compared: Comparison) -> str:
    """Return the models, the pairs, the slices and the warnings as text, for a terminal."""
    counts = [
        f"{k:,} {noun}{'' if k == 1 else 's'}" for k, noun in ((compared.m, "model"), (compared.n, "item"))
    ]
    head = f"{' on '.join(counts)}; {100 * compared.sampling.level:g} % intervals"
    blocks = [head, _models_text(compared)]
    if compared.m > 1:
        pairs = compared.pairs()
        tests = " or ".join(dict.fromkeys(pairs["test"]))
        text = _pairs_text(pairs)
        about = "MDE: smallest detectable difference, 80 % power at this level"
        blocks.append(f"Pairs, the difference in percentage points, p of the {tests} ({about}):\n{text}")
    for column in compared.columns if compared.m <= _MOST else ():
        rows = [
            [group["bin"].iloc[0], f"{group['n'].iloc[0]:,}", *map(_percent, group["accuracy"])]
            for _, group in compared.slices(column).groupby("key", sort=False)
        ]
        blocks.append(f"Accuracy by {column}:\n{text_table([column, 'n', *compared.labels], rows)}")
    if compared.warnings:
        blocks.append("Warnings:\n" + "\n".join(f"- {text}" for text in compared.warnings))
    return "\n\n".join(blocks)


def _models_text(compared: Comparison) -> str:
    measures = compared.measures
    writers = {each.name: _percent if each.format == "share" else quantity for each in measures}
    apart = list(compared.distinctions.columns)
    rows = [
        [
            row["label"],
            *("" if pd.isna(row[name]) else str(row[name]) for name in apart),
            *(_with_span(row, name, write) for name, write in writers.items()),
            row["spread"],
        ]
        for row in compared.table().to_dict("records")
    ]
    names = [
        column_label(each.name).label.lower() + (" %" if each.format == "share" else "") for each in measures
    ]
    columns = ["model", *(label(str(name)).lower() for name in apart), *names]
    if any(row[-1] for row in rows):
        return text_table([*columns, "remark"], rows)
    return text_table(columns, [row[:-1] for row in rows])


def _pairs_text(pairs: pd.DataFrame) -> str:
    columns = ["pair", "difference", "MDE", "only one right", "p", "p (Holm)", "p (BH)"]
    rows = [
        [
            f"{row['label_a']} - {row['label_b']}",
            _with_span(row, "difference", points),
            fixed(100 * row["mde"], 1),
            f"{row['n_only_a']:,} / {row['n_only_b']:,}",
            *(p_value(row[name]) for name in ("p", "p_holm", "p_fdr_bh")),
        ]
        for row in pairs.to_dict("records")
    ]
    return text_table(columns, rows)


def _percent(share: float) -> str:
    return percent(share, unit=False)


def _with_span(row: dict[Any, Any], name: str, write: Callable[[float], str]) -> str:
    return f"{write(row[name])} {span(row[f'{name}_low'], row[f'{name}_high'], write)}".rstrip()
