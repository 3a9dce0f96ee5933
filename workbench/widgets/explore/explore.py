"""The linked view: charts of the annotations above, the selected passages below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from workbench.items.items import Items, check_items
from workbench.render.labels import label, value_label
from workbench.storage.errors import check_option
from workbench.widgets.browser.browser import SCRIPTS, Browser
from workbench.widgets.shared.annotating import AUTO
from workbench.widgets.shared.widget import StaticView, closed_on_error, read_assets

PANELS = ("lemma_in_context", "in_context", "direct_speech", "target_class", "mention_distance", "n_tokens")
"""The columns that are charted; of the first two the one that is known."""

_MOST_BARS = 8


class Explorer(Browser):
    """A browser with charts above; made by :func:`explore`.

    Attributes
    ----------
    state : dict
        The view as plain values, of charts and list; see :class:`workbench.widgets.browser.browser.Browser`.
    """

    _verb, _shows = "explore", "charts and passages"
    _title = "Charts and passages"
    _esm = read_assets(*SCRIPTS, "shared/chart_table.js", "explore/charts.js", "browser/browser.js")
    _css = read_assets(
        "shared/list.css", "shared/chart_table.css", "browser/browser.css", "explore/explore.css"
    )

    @closed_on_error
    def __init__(self, items: Items, *, add_columns: Sequence[str] = (), **options: Any) -> None:
        self._further = list(add_columns)
        super().__init__(items, **options)
        if add_columns:
            self._arguments.append(f"add_columns={self._further!r}")
        if self._annotated:
            drawable = [str(name) for name in self._listing.table if name not in ("item_id", "answer")]
            for name in self._further:
                check_option("the column", name, drawable)

    def _view(self) -> dict[str, Any]:
        return super()._view() | {"charts": self._charts()}

    def _progress(self) -> dict[str, Any]:
        return super()._progress() | {"charts": self._charts()}

    def _charts(self) -> list[dict[str, Any]]:
        """Return the content of each chart: the name of its column, or why there is no chart."""
        # context by lemma, where that is known, as in Figure 2a of Paperno et al. (2016); else by form
        unused = "lemma_in_context" if "lemma_in_context" not in self._listing.table else "in_context"
        names = dict.fromkeys([*(name for name in PANELS if name != unused), *self._further])
        return [
            {"name": name, "title": label(name, unit=True), "limit": _MOST_BARS, "why": self._reason(name)}
            for name in names
        ]

    def _reason(self, name: str) -> str | None:
        """Return why a column has no chart, or None if it has one."""
        if name in self._listing.facets and self._listing.facets[name].value_type != "labels":
            return None
        table = self._listing.table
        if name not in table and not self._annotated:
            about = self._annotating.describe()
            progress = f"Analysing targets: {about['done']:,} of {about['total']:,} items."
            return str(about["problem"]) or progress
        if name not in table:
            return f"The annotations have no column “{name}”."
        cells = table[name].dropna()
        if cells.empty:
            return "Not known for any item."
        if len(values := set(map(str, cells))) > 1:
            return "The column holds no categories and no numbers."
        (value,) = values
        value = {"True": "yes", "False": "no"}.get(value, value)
        return f"The same wherever it is known: {value_label(name, value)}."

    def _published_open(self) -> list[str]:
        return [chart["name"] for chart in self._charts() if not chart["why"]]

    def _static(self, limit: int) -> StaticView:
        """Return the counts of the charts beside the numbers of the browser."""
        view, charts = super()._static(limit), []
        for chart in self._charts():
            facet = None if chart["why"] else self._listing.describe(chart["name"])
            charts.append((chart["title"], _bins_text(facet) if facet else chart["why"]))
        return replace(view, numbers=[*view.numbers, *charts])


def _bins_text(facet: Mapping[str, Any]) -> str:
    """Return the passing and the total items of each bin of a facet that has any."""
    missing = [facet["null"]] if facet["null"] else []
    bins = facet["bins"] if facet["kind"] == "numbers" else facet["bins"][:_MOST_BARS]
    rows = [row for row in [*bins, *missing] if row[2]]
    return "; ".join(f"{name}: {passing:,} of {total:,}" for _, name, total, passing in rows)


def explore(
    items: Items,
    annotations: Items | pd.DataFrame | Literal["auto"] | None = None,
    predictions: Any = None,
    *,
    add_columns: Sequence[str] = (),
    ask: Any = None,
    state: Mapping[str, Any] | None = None,
    height: int = 560,
) -> Explorer:
    """Explore items by charts of their annotations, with the passages behind each bar below.

    A click on a bar chooses it, a drag over a histogram chooses a range; the browser below
    shows just those passages. Choices in several charts combine (and). Pale bars count all
    items, full ones those that the choices elsewhere leave. What is chosen in the browser's
    own filters shows in the charts as well: both have one state, ``explorer.state``.

    Parameters
    ----------
    items : Items
        Items to explore.
    annotations : DataFrame or "auto", optional
        As for ``wb.browse``; by default the items are annotated while the view is already there. Charted
        are ``lemma_in_context`` (else ``in_context``), ``direct_speech``, ``target_class``,
        ``mention_distance`` (tokens) and ``n_tokens``.
    add_columns : sequence of str
        Columns with a chart beside the usual ones, of the annotations or your own (``items.extra``): bars
        for text and truth values, a histogram for numbers.
    predictions, ask, state
        As for ``wb.browse``: ``wb.explore(items, annotations, state=explorer.state)`` is the same view
        again.
    height : int
        Height of the browser in px; the charts above it take 248 more (454 below 760 px width), and those
        of `add_columns` 198 per row.

    Returns
    -------
    Explorer
        With ``state``, ``selection`` (Items), ``to_frame()`` and ``to_html()``.

    Raises
    ------
    DataError
        As ``wb.browse``, or if there is no such column.

    Examples
    --------
    >>> explorer = wb.explore(items, annotations)
    >>> len(explorer.selection)
    30
    >>> explorer.close()
    """
    check_items(items, "explore")
    return Explorer(
        items, annotations=AUTO if annotations is None else annotations, predictions=predictions,
        state=state or {}, ask=ask, height=height, add_columns=add_columns,
    )  # fmt: skip
