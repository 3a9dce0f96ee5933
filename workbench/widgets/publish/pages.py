"""The pages of a published site: the data and scripts that draw a view without a kernel."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from workbench.items.items import Items
from workbench.render.labels import label, tooltip
from workbench.render.numbers import size
from workbench.render.results import Table
from workbench.storage.errors import DataError
from workbench.widgets.shared.passages import cell_text
from workbench.widgets.shared.published import PublishedView, column_data
from workbench.widgets.shared.widget import Widget, read_assets, render

_HOSTS = ("publish/query.js", "publish/listing.js", "publish/comparison.js", "publish/attention.js")
_STATIC = 10  # passages, or words of a list, of a view that is published as a static page


@dataclass(frozen=True)
class PublishedPage:
    """A page of a view."""

    view_type: str  # for the list of pages
    content: str = ""  # HTML that stands there without a script
    script: str = ""  # draws the view from `data`
    style: str = ""
    data: str = ""  # JSON
    notes: Sequence[str] = ()  # sentences above the view
    about: str = ""  # number of items or rows, for the list of pages
    has_state: bool = False  # whether the address's fragment is the state of the view
    items: Items | None = None  # that the page holds, of `n_items`
    n_items: int = 0
    runs: Sequence[Any] = field(default=())
    code: str = ""

    def html(self, heading: str, title: str, file: str, links: Sequence[tuple[str, str]]) -> str:
        """Return the page under a heading, in a site with a title and links to its pages."""
        digest = b64encode(sha256(self.script.encode()).digest()).decode() if self.script else ""
        return render(
            "publish/page.html", heading=heading, title=title, file=file, links=links, digest=digest,
            style=_markup(self.style + read_assets("publish/site.css")), notes=self.notes,
            content=_markup(self.content), has_state=self.has_state,
            script=_markup(self.script), data=[("wp-data", _markup(self.data))] if self.data else [],
        )  # fmt: skip


def _markup(text: str) -> Markup:
    return Markup(text)  # noqa: S704 - our own scripts and sheets, HTML that is escaped, JSON without "<"


def script_json(value: Any) -> str:
    """Return a value as JSON that is safe inside a script element."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        text = json.dumps(value, allow_nan=False, separators=(",", ":"), default=_plain)
    return text.replace("<", "\\u003c")


def _plain(value: Any) -> Any:
    """Convert a value of NumPy or pandas for JSON."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if value is pd.NA or value is pd.NaT:
        return None
    return list(value) if isinstance(value, set | frozenset) else str(value)


def make_page(view: Any, name: str, *, max_items: int, max_bytes: int, notes: bool) -> PublishedPage:
    """Return the page of a view, with as many items as fit."""
    published = getattr(view, "published", None)
    if isinstance(view, Widget) and callable(published):
        return _widget_page(view, published(notes=notes), max_items=max_items, max_bytes=max_bytes)
    if isinstance(view, Widget):
        note = "This view needs Python: the page shows it as a notebook keeps it."
        return PublishedPage("static view", content=view.saved.render(_STATIC), notes=[note], about="static")
    altair = sys.modules.get("altair")
    if altair is not None and isinstance(view, altair.TopLevelMixin):
        return _chart_page(view)
    if isinstance(view, pd.DataFrame):
        return _table_page(view, max_items=max_items, max_bytes=max_bytes)
    html = getattr(view, "_repr_html_", None)
    if callable(html) and not isinstance(view, type) and isinstance(text := html(), str):
        return PublishedPage("page", content=text, about=type(view).__name__)
    raise DataError(
        f"the view {name!r:.80} is a {type(view).__name__}, expected a widget, a chart, or a table",
        remedy="such as wb.browse(items), wb.compare(items, runs), wb.evaluate(runs)",
    )


# -- widgets


def _widget_page(widget: Widget, view: PublishedView, *, max_items: int, max_bytes: int) -> PublishedPage:
    n = len(view.items)
    rows, texts, head = _fit_rows(view, max_items=max_items, max_bytes=max_bytes)
    data = head[:-1] + f',"items":[{",".join(texts)}]}}'
    held = f"{len(rows):,} of {n:,} items"
    notes = [f"{held}; the others were left out."] if len(rows) < n else []
    if notes and view.host.startswith("publishedComparison"):
        notes.append("The table of the models and the matrix are of all items, the rest of those listed.")
    draws = f"publishedPage.start({view.host}, render);"
    script = "\n".join([str(widget._esm), read_assets(*_HOSTS, "publish/site.js"), draws])  # noqa: SLF001 - anywidget's
    ids = np.zeros(n, dtype=bool)
    ids[rows] = True
    return PublishedPage(
        view.shows, script=script, style=str(widget._css), data=data,  # noqa: SLF001
        notes=notes, about=held if notes else f"{n:,} item{'' if n == 1 else 's'}", has_state=True,
        items=view.items.where(ids), n_items=n, runs=view.runs, code=view.code,
    )  # fmt: skip


def _fit_rows(view: PublishedView, *, max_items: int, max_bytes: int) -> tuple[list[int], list[str], str]:
    """Return the rows whose items fit, ascending, and these as JSON with the head; listed items are first."""
    n = len(view.items)
    others = np.setdiff1d(np.arange(n), view.first, assume_unique=True)
    order = np.concatenate([np.asarray(view.first, dtype=np.intp), others])[:max_items]
    texts: dict[int, str] = {}
    head = script_json(view.head(np.sort(order)))
    room = max_bytes - len(head.encode())
    for row in map(int, order):
        text = script_json(view.item(row))
        room -= len(text.encode()) + 1
        if room < 0:
            break
        texts[row] = text
    if n and not texts:
        raise DataError(
            f"the view takes more than {size(max_bytes)} without any item",
            remedy="publish fewer items or columns, or raise max_megabytes",
        )
    rows = sorted(texts)
    if len(rows) < len(order):
        head = script_json(view.head(np.asarray(rows, dtype=np.intp)))
    return rows, [texts[row] for row in rows], head


# -- charts


def _chart_page(chart: Any) -> PublishedPage:
    from workbench.charts import saving, theme  # noqa: PLC0415 - Altair is slow to import

    spec = theme.complete(chart.to_dict())
    content = saving.chart_html(spec)
    if not theme.has_look(spec):  # its text is black in any page
        content = f'<div class="wp-paper">{content}</div>'
    return PublishedPage("chart", content=content, script=saving.chart_script())


# -- tables


def _table_page(frame: pd.DataFrame, *, max_items: int, max_bytes: int) -> PublishedPage:
    n = len(frame)
    table = pd.DataFrame(frame)
    if not isinstance(table.index, pd.RangeIndex):
        names = [f"index {k}" if name is None else str(name) for k, name in enumerate(table.index.names)]
        table = table.reset_index(names=names, allow_duplicates=True)
    levels = (name if isinstance(name, tuple) else (name,) for name in table.columns)
    table = table.set_axis([" ".join(filter(None, map(str, name))) for name in levels], axis="columns")
    if table.columns.has_duplicates:
        twice = table.columns[table.columns.duplicated()][0]
        raise DataError(f"the column {twice!r} occurs twice in a table", remedy="rename one of them")
    table = table.reset_index(drop=True)
    held = min(n, max_items)
    while True:
        page_table = table.iloc[:held]
        columns = [
            column_data(page_table, name, ranked=True) | {"label": label(name), "tooltip": tooltip(name)}
            for name in map(str, page_table)
        ]
        texts = [[cell_text(page_table[name].iloc[row]) for name in page_table] for row in range(held)]
        data = script_json({"columns": columns, "texts": texts})
        if len(data.encode()) <= max_bytes or held <= 1:
            break
        held = max(1, min(held - 1, int(held * 0.95 * max_bytes / len(data.encode()))))
    extent = f"{held:,} of {n:,} rows"
    shared = read_assets("shared/page.js", "publish/query.js", "publish/site.js", "publish/table.js")
    layout = f"{frame.to_html()}<h2>All columns</h2>" if isinstance(frame, Table) else ""
    return PublishedPage(
        "table", content=layout, script=f"{shared}\npublishedTable.start();", data=data,
        notes=[f"{extent}; the others were left out."] if held < n else [],
        about=extent if held < n else f"{n:,} row{'' if n == 1 else 's'}", has_state=True,
    )  # fmt: skip
