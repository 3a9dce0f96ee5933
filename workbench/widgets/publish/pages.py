"""The pages of a published site: the data and scripts that draw a view without a kernel."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from workbench.items.items import Items
from workbench.render.numbers import size
from workbench.render.results import Table
from workbench.storage.errors import DataError
from workbench.widgets.shared.list_widget import ListWidget
from workbench.widgets.shared.listing import facet
from workbench.widgets.shared.published import PublishedView, column_data
from workbench.widgets.shared.widget import Widget, read_assets, render

_FEW = 20  # rows of a table that needs no facets
_STATIC = 200  # rows of a view that is published as its static form


@dataclass(frozen=True)
class PublishedPage:
    """A page of a view."""

    view_type: str  # for the list of pages
    content: str = ""  # HTML that stands there without a script
    script: str = ""  # draws the view from `data`
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
            style=_markup(read_assets("publish/site.css")), notes=self.notes,
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
    if isinstance(view, ListWidget):
        return _list_page(view.published(notes=notes), max_items=max_items, max_bytes=max_bytes)
    if isinstance(view, Widget):
        note = "This view needs Python: the page shows its static form."
        return PublishedPage("static view", content=view.saved.render(_STATIC), notes=[note], about="static")
    altair = sys.modules.get("altair")
    if altair is not None and isinstance(view, altair.TopLevelMixin):
        return _chart_page(view)
    if isinstance(view, pd.DataFrame):
        return _table_page(view, max_items=max_items, max_bytes=max_bytes)
    raise DataError(
        f"the view {name!r:.80} is a {type(view).__name__}, expected a widget, a chart, or a table",
        hint="such as wb.browse(items), wb.compare(items, runs), wb.evaluate(runs), or a pandas frame",
    )


# -- lists


def _list_page(view: PublishedView, *, max_items: int, max_bytes: int) -> PublishedPage:
    n = len(view.items)

    def data_of(held: int) -> dict[str, Any]:
        rows = view.rows[:held] if view.in_order else np.sort(view.rows[:held])
        ids = set(view.items.frame["item_id"].iloc[rows])
        current = view.state["current"] if view.state["current"] in ids else ""
        return view.data(rows) | {"state": {**view.state, "current": current}}

    held, data = _fitting(data_of, min(len(view.rows), max_items), max_bytes)
    extent = _extent(held, len(view.rows), "item")
    notes = [*view.notes, *_left_out(extent, is_part=held < len(view.rows))]
    mask = np.zeros(n, dtype=bool)
    mask[view.rows[:held]] = True
    return PublishedPage(
        view.shows, content=_numbers(view.numbers), script=read_assets("publish/page.js"), data=data,
        notes=notes, about=_extent(held, n, "item"), has_state=True, items=view.items.where(mask),
        n_items=n, runs=view.runs, code=view.code,
    )  # fmt: skip


def _left_out(extent: str, *, is_part: bool) -> list[str]:
    return [f"{extent}; the others were left out."] if is_part else []


def _extent(held: int, n: int, noun: str) -> str:
    return f"{held:,} of {n:,} {noun}s" if held < n else f"{n:,} {noun}{'' if n == 1 else 's'}"


def _numbers(numbers: Sequence[tuple[str, str]]) -> str:
    """Return numbers as a table that folds; empty without any."""
    return render("publish/numbers.html", numbers=numbers) if numbers else ""


def _fitting(data_of: Callable[[int], dict[str, Any]], n: int, max_bytes: int) -> tuple[int, str]:
    """Return how many of n rows fit into a size, and their data as JSON; DataError if none does."""
    while True:
        text = script_json(data_of(n))
        size_in_bytes = len(text.encode())
        if size_in_bytes <= max_bytes or n == 0:
            return n, text
        if n == 1:
            raise DataError(
                f"one item or row takes {size(size_in_bytes)}, expected {size(max_bytes)} at most",
                hint="publish fewer columns, or raise max_megabytes",
            )
        n = max(1, min(n - 1, int(n * 0.95 * max_bytes / size_in_bytes)))


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
        raise DataError(f"the column {twice!r} occurs twice in a table", hint="rename one of them")
    table = table.reset_index(drop=True)
    names, has_facets = list(map(str, table.columns)), n > _FEW and not isinstance(frame, Table)
    table.columns = pd.Index(names)

    facets = {name: facet(name, table[name]) if has_facets else None for name in names}

    def data_of(held: int) -> dict[str, Any]:
        rows = table.iloc[:held]
        columns = [column_data(rows, name, facet=facets[name]) for name in names]
        return {"noun": "row", "n": held, "columns": columns, "shown": names, "state": {}}

    held, data = _fitting(data_of, min(n, max_items), max_bytes)
    extent = _extent(held, n, "row")
    layout = f"{frame.to_html()}<h2>All columns</h2>" if isinstance(frame, Table) else ""
    return PublishedPage(
        "table", content=layout, script=read_assets("publish/page.js"), data=data,
        notes=_left_out(extent, is_part=held < n),
        about=extent, has_state=True,
    )  # fmt: skip
