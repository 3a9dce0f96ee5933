"""What stands in a notebook for a comparison where no kernel runs: the table of models, no passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

_STYLE = (
    ".wct{color:inherit;font:13px/1.5 system-ui,sans-serif}.wct table{border-collapse:collapse}"
    ".wct :is(th,td){padding:2px 14px 2px 0;text-align:left;font-weight:400;border-bottom:1px solid #8886}"
    ".wct td{font-variant-numeric:tabular-nums}.wct th{max-width:28em;overflow-wrap:anywhere}"
)


def twin(models: Sequence[Mapping[str, Any]], said: str, warnings: Sequence[str]) -> str:
    """Return a comparison as a fragment of HTML, with a style that holds in it alone.

    Parameters
    ----------
    models : sequence of mapping
        As :func:`workbench.widgets.compare.parts.models` gives them.
    said : str
        What is chosen.
    warnings : sequence of str
        What must not be compared.
    """
    head = "".join(
        f'<th scope="col">{name}</th>' for name in ("Model", "Accuracy, %", "Perplexity", "Median rank")
    )
    rows = "".join(
        f'<tr><th scope="row"><bdi>{escape(one["label"])}</bdi></th>{_cell(one["accuracy"], 100)}'
        f"{_cell(one['perplexity'], 1)}{_cell(one['median_rank'], 1)}</tr>"
        for one in models
    )
    notes = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    return (
        f'<meta charset="utf-8"><style>{_STYLE}</style><div class="wct"><p>{escape(said)}</p>'
        f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><ul>{notes}</ul></div>"
    )


def _cell(measure: Sequence[float | None] | None, scale: float) -> str:
    if measure is None:
        return "<td>–</td>"  # noqa: RUF001 - a dash is meant
    value, *ends = (None if number is None else f"{scale * number:,.4g}" for number in measure)
    span = f" [{ends[0]}, {ends[1]}]" if None not in ends else ""
    return f"<td>{value}{span}</td>"
