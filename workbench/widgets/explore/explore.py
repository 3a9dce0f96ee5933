"""The linked view: charts of the annotations above, the passages that are chosen in them below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ipywidgets
import numpy as np
import pandas as pd
import traitlets

from workbench.items.items import DataError, Items
from workbench.widgets.browser.browser import Browser
from workbench.widgets.explore import panels
from workbench.widgets.shared import static
from workbench.widgets.shared.facets import NO_FILTERS, Mask
from workbench.widgets.shared.widget import Widget, read, with_static


class _Listed(Browser):
    """A browser that tells the charts which rows pass."""

    def charts(self) -> dict[str, panels.Chart]:
        """Return the charts of the annotations, by column."""
        return {
            panel.name: panels.chart(
                panel, self._filters.facets.get(panel.name), self._annotations.get(panel.name)
            )
            for panel in panels.fitting(self._annotations.columns)
        }

    def passing(self, but: str | None = None) -> Mask:
        """Return the rows that pass all filters except that on the column `but`."""
        return self._filters.mask(self._applied, but=but)


class Charts(Widget):
    """The charts of a linked view; made by :func:`explore`.

    Attributes
    ----------
    state : dict
        What is drawn: numbers of items by bar, never items.
    """

    _esm = read("shared/page.js", "explore/explore.js")
    _css = read("explore/explore.css")
    state = traitlets.Dict().tag(sync=True)

    def __init__(self, browser: _Listed, **options: Any) -> None:
        super().__init__(**options)
        self._browser = browser
        self._charts = browser.charts()
        self._all = np.ones_like(browser.passing())
        self._draw()
        browser.observe(lambda _change: self._draw(), "filters")

    def _draw(self) -> None:
        """Count anew what the filters of the browser leave; the one state is there."""
        filters = self._browser.filters
        everything = self._browser.passing()
        drawn = []
        for name, chart in self._charts.items():
            chosen = filters["facets"].get(name)
            left = self._browser.passing(but=name) if chosen else everything
            drawn.append(
                {"name": name, "title": chart.panel.title, "chosen": chosen} | chart.counts(self._all, left)
            )
        words = panels.sentence(self._charts, filters)
        self.state = {
            "charts": drawn, "words": words, "shown": int(everything.sum()), "total": len(everything)
        }  # fmt: skip

    def _answer(self, message: Mapping[str, Any]) -> None:
        super()._answer(message)
        self.send({"type": "done", "lane": message.get("lane")})

    def _on_clear(self, _message: Mapping[str, Any]) -> None:
        self._browser.filters = NO_FILTERS

    def _on_query(self, _message: Mapping[str, Any]) -> None:
        self._browser.filters = self._browser.filters | {"query": ""}

    def _on_choose(self, message: Mapping[str, Any]) -> None:
        filters = self._browser.filters
        facets = {
            name: values
            for name, values in (filters["facets"] | message["chosen"]).items()
            if values is not None
        }
        self._browser.filters = filters | {"facets": facets}

    def _static(self) -> str:
        return static.charts(self.state)


class Explorer(ipywidgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """Charts with a browser below; made by :func:`explore`.

    Attributes
    ----------
    browser : Browser
        The browser below; its ``filters`` are the state of both.
    """

    def __init__(self, browser: _Listed, **options: Any) -> None:
        self.browser: Browser = browser
        self._charts = Charts(browser)
        super().__init__([self._charts, browser], **options)

    @property
    def selection(self) -> Items:
        """The items that pass, in order."""
        return self.browser.selection

    @property
    def filters(self) -> dict[str, Any]:
        """What is searched and chosen, as in ``Browser.filters``; setting it changes both views."""
        return dict(self.browser.filters)

    @filters.setter
    def filters(self, filters: Mapping[str, Any]) -> None:
        self.browser.filters = dict(filters)

    def to_frame(self) -> pd.DataFrame:
        """Return the shown items with annotations, tags and notes, one row an item."""
        return self.browser.to_frame()

    def to_html(self, *, limit: int = 200) -> str:
        """Return a page of its own: the charts, and the first `limit` shown items."""
        return static.charts(self._charts.state) + self.browser.to_html(limit=limit)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Add a static picture for pages that run no kernel."""
        return with_static(super()._repr_mimebundle_(**options), self.to_html(limit=1))


def explore(
    items: Items,
    annotations: pd.DataFrame | None = None,
    predictions: pd.DataFrame | None = None,
    *,
    query: str = "",
    field: str = "passage",
    regex: bool = False,
    facets: Mapping[str, Any] | None = None,
    reveal: bool = False,
    height: int = 560,
) -> Explorer:
    """Explore items by charts of their annotations, with the passages behind each bar below.

    A click on a bar chooses it, a drag over a histogram chooses a range; the browser below
    shows just those passages. Choices in several charts combine (and). Pale bars count all
    items, full ones those that the choices elsewhere leave. What is chosen in the browser's
    own filters shows in the charts as well: both have one state, ``explorer.filters``.

    Parameters
    ----------
    items : Items
        What to explore.
    annotations : DataFrame, optional
        One row an item, as ``wb.annotate(items)`` gives it, which is called where there are
        none. Charted are ``lemma_in_context`` (else ``in_context``), ``direct_speech``, ``target_class``,
        ``mention_distance`` (tokens) and ``n_tokens``; further columns become filters.
    predictions : DataFrame, optional
        Rows of the predictions table, as for ``wb.browse``.
    query, field, regex, facets
        Filters to start with, as for ``wb.browse``: ``wb.explore(items, annotations,
        **explorer.filters)`` is the same view again.
    reveal : bool
        Show the targets from the start.
    height : int
        Height of the browser in px; the charts above it take 238 more (422 below 760 px width).

    Returns
    -------
    Explorer
        With ``selection`` (Items), ``filters``, ``browser``, ``to_frame()`` and ``to_html()``.

    Raises
    ------
    DataError
        If the filters name what is not there, or a table has no ``item_id``.
    """
    if not isinstance(items, Items):
        raise DataError(
            f"explore takes Items, not {type(items).__name__}",
            remedy="load them with wb.load, or make them with Items.from_frame or wb.items_from_text",
        )
    if annotations is None:
        from workbench.analysis.annotations import annotate  # noqa: PLC0415 - heavy

        annotations = annotate(items)
    filters = NO_FILTERS | {"query": query, "field": field, "regex": regex, "facets": dict(facets or {})}
    return Explorer(
        _Listed(
            items,
            annotations=annotations,
            predictions=predictions,
            filters=filters,
            reveal=reveal,
            height=height,
        )
    )
