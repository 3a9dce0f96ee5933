"""The numbers of a chart as tables, for screen readers and for copying.

A chart's tooltips name its columns, with titles and formats; a data set without tooltips has the columns of
its axes. Data that only place a label or a line of text have no table.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from markupsafe import Markup

from workbench.render.numbers import MISSING
from workbench.render.tables import html_table

MAX_ROWS = 500
"""Rows of a table, at most; charts hold aggregates, which are fewer."""

_PARTS = ("layer", "hconcat", "vconcat", "concat")
_AXES = ("x", "y", "color", "column", "row", "facet")
_DETAILS = Markup(
    "<style>.wb-chart-data table{{border-collapse:collapse}}"
    ".wb-chart-data :is(th,td){{padding:1px 12px 1px 0;text-align:right;font-weight:normal}}</style>"
    '<details class="wb-chart-data" style="margin:2px 0 6px"><summary>Table{name}</summary>'
    '<div tabindex="0" role="region" aria-label="Table{name}" style="overflow:auto;max-height:400px">'
    "{tables}</div></details>"
)


class _Column(NamedTuple):
    """A field of the data, its heading and the format of its values, in the notation of D3."""

    field: str
    title: str
    format: str


class ChartTable(NamedTuple):
    """The numbers of one data set of a chart, as text.

    `n_rows` counts those that the data set has; `rows` holds at most `MAX_ROWS` of them.
    """

    title: str
    headings: list[str]
    rows: list[list[str]]
    n_rows: int


def chart_tables(spec: Mapping[str, Any]) -> list[ChartTable]:
    """Return the numbers of a chart, of a Vega-Lite specification with named data sets, as Altair writes it.

    There is a table for each data set that marks with tooltips show, or axes where none has tooltips.
    """
    datasets: Mapping[str, list[dict[str, Any]]] = spec.get("datasets", {})
    hinted: dict[str, dict[str, _Column]] = {}
    plain: dict[str, dict[str, _Column]] = {}
    titles: dict[str, str] = {}
    for name, title, encoding in _units(spec, "", "", {}):
        if not datasets.get(name):
            continue
        tips = encoding.get("tooltip") or []
        tips = tips if isinstance(tips, list) else [tips]
        axes = [encoding.get(channel) or {} for channel in _AXES]
        if tips:
            hints = [tip.get("field") for tip in tips]
            tips = [
                a for a in axes[:2] if a.get("type") in {"nominal", "ordinal"} and a.get("field") not in hints
            ] + tips
        for definition in tips or (axes if encoding.get("x") and encoding.get("y") else []):
            column = _column(definition)
            if column and column.field in datasets[name][0]:
                (hinted if tips else plain).setdefault(name, {}).setdefault(column.field, column)
                titles.setdefault(name, title)
    return [
        ChartTable(
            titles[name],
            [column.title for column in columns.values()],
            [
                [_text(row.get(c.field), c.format) for c in columns.values()]
                for row in datasets[name][:MAX_ROWS]
            ],
            len(datasets[name]),
        )
        for name, columns in (hinted or plain).items()
    ]


def _units(
    spec: Mapping[str, Any], name: str, title: str, encoding: Mapping[str, Any]
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield data set, title and encoding of each mark; nested charts inherit them."""
    name = spec.get("data", {}).get("name", name)
    title = _heading(spec.get("title")) or title
    encoding = {**encoding, **spec.get("encoding", {})}
    if "mark" in spec:
        yield name, title, encoding
    for key in _PARTS:
        for inner in spec.get(key, ()):
            yield from _units(inner, name, title, encoding)
    if "spec" in spec:
        yield from _units(spec["spec"], name, title, encoding)


def _heading(title: Any) -> str:
    text = title.get("text", "") if isinstance(title, Mapping) else title or ""
    return " ".join(text).strip() if isinstance(text, list) else str(text)


def _column(definition: Mapping[str, Any]) -> _Column | None:
    """Return the column of a channel; None if it has no field of its own."""
    field = definition.get("field")
    if not isinstance(field, str) or "aggregate" in definition:
        return None
    field = field.replace("\\", "")  # before a dot or a bracket in a name
    axis = definition.get("axis") or {}
    return _Column(
        field, _heading(definition.get("title")) or field, definition.get("format") or axis.get("format", "")
    )


def _text(value: Any, notation: str) -> str:
    """Format a value in D3's notation; Python's own has all that charts use."""
    if value is None or value != value:  # noqa: PLR0124 - not a number
        return MISSING
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split("\n"))
    try:
        text = format(int(value) if notation == "," and value == int(value) else value, notation or ".6g")
    except ValueError:  # of D3 alone
        text = format(value, ".6g")
    return text.replace("%", " %")


def first_title(spec: Mapping[str, Any]) -> str:
    """Return the title of a chart or of its first panel that has one; "Chart" if none has."""
    return next((title for _, title, _ in _units(spec, "", "", {}) if title), "Chart")


def tables_html(spec: Mapping[str, Any]) -> str:
    """Return the tables of a chart as collapsed, escaped HTML; "" without tables."""
    tables = chart_tables(spec)
    name = first_title(spec)
    content = Markup("")
    for title, headings, rows, n_rows in tables:
        notes = [f"The first {len(rows):,} of {n_rows:,} rows."] if n_rows > len(rows) else ()
        content += Markup("<p>{}</p>").format(title) if len(tables) > 1 else ""
        content += Markup(html_table(headings, rows, notes=notes))  # noqa: S704 - escaped by the template
    return str(_DETAILS.format(name=f": {name}", tables=content)) if tables else ""


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
