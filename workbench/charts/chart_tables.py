"""The numbers of a chart as tables, for screen readers and for copying: the frames that it was given."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from workbench.render.labels import label
from workbench.render.numbers import MISSING, quantity
from workbench.render.tables import html_table

MAX_ROWS = 500
"""Rows of a table, at most; charts hold aggregates, which are fewer."""

_DETAILS = Markup(
    "<style>.jp-OutputArea:has(.wb-chart-data) .vega-embed"
    "{{box-sizing:border-box;max-width:calc(100% - 8px)}}"
    ".jp-OutputArea:has(.wb-chart-data) .marks{{max-width:100%;height:auto}}"
    ".wb-chart-data table{{border-collapse:collapse}}"
    ".wb-chart-data :is(th,td){{padding:1px 12px 1px 0;text-align:right;font-weight:normal}}</style>"
    '<details class="wb-chart-data" style="margin:2px 0 6px"><summary>Table{name}</summary>'
    '<div tabindex="0" role="region" aria-label="Table{name}" style="overflow:auto;max-height:400px">'
    "{tables}</div></details>"
)


def tables_html(spec: Mapping[str, Any]) -> str:
    """Return the data of a Vega-Lite specification as collapsed, escaped HTML; "" without data.

    A chart of this package names its tables in ``usermeta``; those of another one are all its data sets.
    """
    tables = spec.get("usermeta", {}).get("datasets") or list(spec.get("datasets", {}).values())
    name, content = chart_name(spec), Markup("")
    for rows in filter(None, tables):
        columns = list(dict.fromkeys(name for row in rows[:MAX_ROWS] for name in row))
        cells = [[_text(row.get(name)) for name in columns] for row in rows[:MAX_ROWS]]
        notes = [f"The first {MAX_ROWS:,} of {len(rows):,} rows."] if len(rows) > MAX_ROWS else ()
        content += Markup(html_table(list(map(label, columns)), cells, notes=notes))  # noqa: S704 - escaped
    return str(_DETAILS.format(name=f": {name}" if name else "", tables=content)) if content else ""


def _text(value: Any) -> str:
    if value is None:
        return MISSING
    return quantity(value) if isinstance(value, float) else f"{value:,}" if type(value) is int else str(value)


def chart_name(spec: Mapping[str, Any]) -> str:
    """Return what a chart shows, or its title; "" without both."""
    title = spec.get("description") or spec.get("title") or ""
    text = title.get("text", "") if isinstance(title, Mapping) else title
    return " ".join(text).strip() if isinstance(text, list) else str(text)


# -- in notebooks

_waiting: list[str] = []


def show_below(spec: Mapping[str, Any]) -> None:
    """Show the tables of a chart below the outputs of the running notebook cell.

    An output has one form, so the tables are an output of their own. It comes when the cell is done: a chart
    that is displayed to replace another must stay one output.
    """
    from IPython.core.getipython import get_ipython  # noqa: PLC0415 - where a chart is shown, it is there

    shell: Any = get_ipython()
    if not hasattr(shell, "kernel") or threading.current_thread() is not threading.main_thread():
        return
    html = tables_html(spec)
    if not html or html in _waiting:
        return
    if not _waiting:
        shell.events.register("post_execute", _publish)
    _waiting.append(html)


def _publish() -> None:
    from IPython.core.getipython import get_ipython  # noqa: PLC0415 - a notebook is running
    from IPython.display import publish_display_data  # noqa: PLC0415

    shell: Any = get_ipython()
    shell.events.unregister("post_execute", _publish)
    html = "".join(_waiting)
    _waiting.clear()
    publish_display_data({"text/html": html, "text/plain": ""})  # type: ignore[no-untyped-call]
