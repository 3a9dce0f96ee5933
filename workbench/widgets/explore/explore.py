"""The linked view: charts of the annotations above, the passages that are chosen in them below."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal

import ipywidgets
import numpy as np
import pandas as pd
import traitlets
from numpy.typing import NDArray

from workbench.analysis import histograms
from workbench.items.items import Items
from workbench.render.labels import VALUE_LABELS, label, tooltip
from workbench.storage.errors import DataError
from workbench.widgets.browser.browser import Browser
from workbench.widgets.shared.annotating import AUTO
from workbench.widgets.shared.facets import (
    MISSING,
    NO,
    NO_FILTERS,
    NONE,
    UNKNOWN,
    YES,
    Category,
    Facet,
    Mask,
    Number,
    chosen_values,
)
from workbench.widgets.shared.passages import cell_text, check_items
from workbench.widgets.shared.widget import HEAD, SavedPage, Widget, closed_on_error, read_assets, render

_MOST_BARS = 8
_WIDE, _HIGH = 250, 100  # of a static histogram, in px


@dataclass(frozen=True)
class Panel:
    """What a chart shows: a column, its heading, and how values are called.

    Attributes
    ----------
    name : str
        The column; `title` is its heading.
    labels : mapping
        What values are called at their bars, in reading order.
    phrases, span : mapping, str
        What values (by default as at the bars) and a range are called where it is said what is chosen.
    missing : str
        What rows without a value are called.
    prefix : str
        What stands before values and ranges where it is said what is chosen.
    """

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    phrases: Mapping[str, str] = field(default_factory=dict)
    span: str = "{}"
    missing: str = "not known"
    prefix: str = ""

    @property
    def title(self) -> str:
        """The heading: what the column is called, with its unit."""
        return label(self.name, unit=True)


_TRUTH = {YES: "yes", NO: "no"}
_CONTEXT = {YES: "in context", NO: "not in context", UNKNOWN: "in context or not is not known"}
PANELS = (
    Panel("lemma_in_context", _TRUTH, _CONTEXT),
    Panel("in_context", _TRUTH, _CONTEXT),
    Panel(
        "direct_speech", _TRUTH,
        {YES: "with direct speech", NO: "without direct speech", UNKNOWN: "speech or not is not known"},
    ),
    Panel(
        "target_class", VALUE_LABELS["target_class"],
        {"O": "other class", NONE: "class not known"},
    ),
    Panel("mention_distance", span="mention {} tokens back", missing=MISSING["mention_distance"]),
    Panel("n_tokens", span="{} tokens"),
)  # fmt: skip


@dataclass(frozen=True)
class BarChart:
    """A chart of categories, one bar a value, in reading order; the rarest of many are left out."""

    panel: Panel
    facet: Category

    def counts(self, everything: Mask, left: Mask) -> dict[str, Any]:
        """Return a row a bar: value, label, number of all items, number among those `left`."""
        codes, names = self.facet.codes, self.facet.names
        both = [np.bincount(codes[rows], minlength=len(names)).tolist() for rows in (everything, left)]
        ranks = {name: place for place, name in enumerate(self.panel.labels)}
        order = sorted(
            range(min(len(names), _MOST_BARS)),
            key=lambda k: (names[k] in (NONE, UNKNOWN), ranks.get(names[k], len(ranks)), k),
        )
        rows = [[names[k], self._label(names[k]), both[0][k], both[1][k]] for k in order]
        return {"kind": "bars", "rows": rows, "more": len(names) - len(rows)}

    def _label(self, value: str) -> str:
        return self.panel.missing if value in (NONE, UNKNOWN) else self.panel.labels.get(value, value)

    def phrase(self, chosen: Sequence[Any]) -> str:
        """Say what is chosen."""
        names = [self.panel.phrases.get(value, self._label(value)) for value in map(str, chosen)]
        return f"{self.panel.prefix}{' or '.join(names)}"


class BinChart:
    """A chart of numbers (n,), NaN where missing, in even bins, the last open where few lie beyond."""

    def __init__(self, panel: Panel, values: NDArray[np.float64]) -> None:
        self.panel, finite = panel, np.isfinite(values)
        known = values[finite]
        self.bins = histograms.open_bins(known)
        n, places = len(self.bins.starts), self.bins.place(values)
        self._places = np.where(finite, np.where(places < 0, n - 1, places), n)  # n is for missing values
        starts, width = self.bins.starts, self.bins.width
        if (known == np.round(known)).all():
            self._starts: list[Any] = starts.astype(int).tolist()
            ends: list[Any] = (starts + width - 1).astype(int).tolist()
            names = [f"{a}" if a == b else f"{a} to {b}" for a, b in zip(self._starts, ends, strict=True)]
        else:  # a range is closed: it ends at the greatest value of the bin
            self._starts = starts.tolist()
            greatest = pd.Series(known).groupby(self._places[finite]).max()
            ends = greatest.reindex(range(n)).fillna(pd.Series(self._starts)).tolist()
            names = [f"{start:.4g} to {start + width:.4g}" for start in self._starts]
        if self.bins.open:
            ends[-1], names[-1] = None, f"{self._starts[-1]:.6g} or more"
        self._ends, self._names = ends, names

    def counts(self, everything: Mask, left: Mask) -> dict[str, Any]:
        """Return the bins' numbers of all items and of those `left`, and those without a value."""
        n = len(self._starts)
        total, part = (
            np.bincount(self._places[rows], minlength=n + 1).tolist() for rows in (everything, left)
        )
        return {
            "kind": "bins", "starts": self._starts, "ends": self._ends, "names": self._names,
            "total": total[:-1], "left": part[:-1], "missing": [self.panel.missing, total[-1], part[-1]],
        }  # fmt: skip

    def phrase(self, chosen: Sequence[Any]) -> str:
        """Say what is chosen."""
        is_missing = list(chosen) == [None]
        text = self.panel.missing if is_missing else self.panel.span.format(_ends(chosen))
        return f"{self.panel.prefix}{text}"


@dataclass(frozen=True)
class NoChart:
    """No chart, and why."""

    panel: Panel
    why: str

    def counts(self, _everything: Mask, _left: Mask) -> dict[str, Any]:
        """Return the reason."""
        return {"kind": "nothing", "why": self.why}

    def phrase(self, chosen: Sequence[Any]) -> str:
        """Say what is chosen."""
        return ", ".join(map(str, chosen))


Chart = BarChart | BinChart | NoChart


def chart(panel: Panel, facet: Facet | None, column: pd.Series[Any] | None) -> Chart:
    """Make the chart of a column (n,), given as the browser filters by it and as it is."""
    if column is None:
        return NoChart(panel, f"The annotations have no column “{panel.name}”.")
    known = column.dropna()
    if known.empty:
        return NoChart(panel, "Not known for any item.")
    if isinstance(facet, Category):
        return BarChart(panel, facet)
    if isinstance(facet, Number) and np.isfinite(facet.values).any():
        return BinChart(panel, facet.values)
    if len(values := set(map(str, known))) == 1:
        (value,) = values
        value = {"True": YES, "False": NO}.get(value, value)
        return NoChart(panel, f"The same wherever it is known: {panel.labels.get(value, value)}.")
    return NoChart(panel, "The column holds no categories and no numbers.")


def sentence(charts: Mapping[str, Chart], filters: Mapping[str, Any]) -> list[list[str | None]]:
    """Return what is searched, typed and chosen, in words, each with the column.

    In place of a column, "" stands for the search and None for the typed condition.
    """
    words: list[list[str | None]] = []
    if filters["query"].strip():
        how = "matches the expression" if filters["regex"] else "contains"
        words.append(["", f"{filters['field']} {how} “{filters['query'].strip()}”"])
    if filters["where"]:
        words.append([None, filters["where"]])
    for name, choice in filters["facets"].items():
        chosen, excluded = chosen_values(choice)
        if name in charts:
            text = charts[name].phrase(chosen)
        else:
            is_range = any(value is None or isinstance(value, (int, float)) for value in chosen)
            values = _ends(chosen) if is_range else " or ".join(map(str, chosen))
            text = f"{label(name)}: {values}"
        words.append([name, f"not ({text})" if excluded else text])
    return words


def _ends(chosen: Sequence[float | None]) -> str:
    if len(chosen) == 1:
        return "missing"
    low, high = (None if end is None else cell_text(end) for end in chosen)
    if low is None or high is None:
        return f"{low} or more" if low is not None else "any number of" if high is None else f"at most {high}"
    return low if low == high else f"{low} to {high}"


class _Listed(Browser):
    """A browser that tells the charts what its columns are, and which rows pass."""

    _verb = "explore"
    listener: Callable[[], None] | None = None

    def __init__(self, items: Items, *, columns: Sequence[str], **options: Any) -> None:
        super().__init__(items, **options)
        if columns:
            self._arguments.append(f"columns={list(columns)!r}")

    def column(self, name: str) -> tuple[Facet | None, pd.Series[Any] | None]:
        """Return a column as it is filtered by and as it is; None where it is not."""
        return self._filters.facets.get(name), self._filters.table.get(name)

    def charted(self) -> list[str]:
        """Return the names of all columns that a chart can be asked of."""
        return [str(name) for name in self._filters.table if name not in ("item_id", "answer")]

    def passing(self, but: str | None = None) -> Mask:
        """Return the rows that pass all filters except that on the column `but`."""
        return self._filters.mask(self._applied, but=but)

    @property
    def waits(self) -> str:
        """What is waited for, or went wrong, while there are no annotations; empty where there are some."""
        if self._annotated:
            return ""
        about = self._annotating.describe()
        return about["problem"] or f"Analysing targets: {about['done']:,} of {about['total']:,} items."

    def _send_progress(self) -> None:
        super()._send_progress()
        if self.listener is not None:
            self.listener()


class Charts(Widget):
    """The charts of a linked view; made by :func:`explore`.

    Attributes
    ----------
    state : dict
        What is drawn: numbers of items by bar, never items.
    """

    _esm = read_assets("shared/page.js", "explore/explore.js")
    _css = read_assets("explore/explore.css")
    # which a page only reads
    state = traitlets.Dict().tag(sync=True, from_json=lambda _value, widget: widget.state)

    @closed_on_error
    def __init__(self, browser: _Listed, columns: Sequence[str] = (), **options: Any) -> None:
        super().__init__(**options)
        self._browser, self._columns, self._lock = browser, columns, threading.RLock()
        self._all = np.ones_like(browser.passing())
        self._made = False
        browser.listener = self._draw  # in the thread that annotates
        self._draw()
        browser.observe(lambda _change: self._draw(), "filters")

    def _make(self) -> None:
        """Make the charts of the columns that are there."""
        # context by lemma, where that is known, as in Figure 2a of Paperno et al. (2016); else by form
        unused = "lemma_in_context" if self._browser.column("lemma_in_context")[1] is None else "in_context"
        panels = [panel for panel in PANELS if panel.name != unused]
        usual = {panel.name for panel in panels}
        panels += [
            Panel(name, prefix=f"{label(name)}: ", missing="missing")
            for name in self._columns
            if name not in usual
        ]
        waits, known = self._browser.waits, self._browser.charted()
        lacking = [name for name in self._columns if name not in known]
        if lacking and not waits:
            raise DataError(f"there is no column {lacking[0]!r} to draw; known are {', '.join(known)}")
        self._charts: dict[str, Chart] = {
            panel.name: NoChart(panel, waits)
            if waits and panel.name not in known
            else chart(panel, *self._browser.column(panel.name))
            for panel in panels
        }
        self._made = not waits

    def _draw(self) -> None:
        """Count anew what the filters of the browser leave; the one state is there."""
        with self._lock:
            if not self._made:
                self._make()
            filters = self._browser.filters
            everything = self._browser.passing()
            drawn = []
            for name, each in self._charts.items():
                choice = filters["facets"].get(name)
                values, excluded = chosen_values(choice)
                left = self._browser.passing(but=name) if choice else everything
                head: dict[str, Any] = {
                    "name": name, "title": each.panel.title, "tooltip": tooltip(name),
                    "chosen": None if excluded else values, "excluded": values if excluded else None,
                }  # fmt: skip
                drawn.append(head | each.counts(self._all, left))
            words = sentence(self._charts, filters)
            self.state = {
                "charts": drawn, "words": words, "shown": int(everything.sum()), "total": len(everything)
            }  # fmt: skip

    def _answer(self, message: Mapping[str, Any]) -> None:
        super()._answer(message)
        self.send({"type": "done", "lane": message.get("lane")})

    def _on_clear(self, _message: Mapping[str, Any]) -> None:
        self._browser.filters = NO_FILTERS | {"sort": self._browser.filters["sort"]}

    def _on_query(self, _message: Mapping[str, Any]) -> None:
        self._browser.filters = self._browser.filters | {"query": ""}

    def _on_where(self, _message: Mapping[str, Any]) -> None:
        self._browser.filters = self._browser.filters | {"where": ""}

    def _on_choose(self, message: Mapping[str, Any]) -> None:
        filters = self._browser.filters
        facets = filters["facets"] | message["chosen"]
        facets = {name: values for name, values in facets.items() if values is not None}
        self._browser.filters = filters | {"facets": facets}

    def _on_open(self, _message: Mapping[str, Any]) -> None:
        """Answer, so that the page knows of a kernel."""

    def _static(self, most: int) -> str:  # noqa: ARG002 - it holds no passages
        return _static_charts(self.state)


class Explorer(ipywidgets.VBox):  # type: ignore[misc] # ipywidgets has no types
    """Charts with a browser below; made by :func:`explore`.

    Attributes
    ----------
    browser : Browser
        The browser below; its ``filters`` are the state of both.
    """

    @closed_on_error
    def __init__(self, browser: _Listed, columns: Sequence[str] = (), **options: Any) -> None:
        self.browser: Browser = browser
        pages: list[Callable[[int], str]] = []
        self.saved = SavedPage(lambda most: "".join(page(most) for page in pages))
        super().__init__([browser], **options)
        self._charts = Charts(browser, columns)
        self.children = (self._charts, browser)
        pages += [part.saved.render for part in self.children]
        for part in (self._charts, browser):
            part.keep_in(self.saved)

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
        return (
            HEAD + _static_charts(self._charts.state) + self.browser.to_html(limit=limit).removeprefix(HEAD)
        )

    def close(self) -> None:
        """Close the charts and the browser; the page in the notebook stays."""
        self.saved.close()
        for part in (*self.children, self.layout):
            part.close()
        super().close()

    def _ipython_display_(self) -> None:
        """Show the live view, and the static page beside it."""
        self.saved.show(super()._repr_mimebundle_())


def _static_charts(state: Mapping[str, Any]) -> str:
    """Return the charts as an HTML fragment that stands by itself, everything from data escaped."""
    words = "; ".join(str(text) for _, text in state["words"])
    summary = f"{state['shown']:,} of {state['total']:,} items{': ' if words else ''}{words}"
    draw = {"bars": _static_bars, "bins": _static_bins}
    charts = [chart | draw.get(chart["kind"], dict)(chart) for chart in state["charts"]]
    return render("explore/static.html", summary=summary, charts=charts)


def _static_bars(chart: Mapping[str, Any]) -> dict[str, Any]:
    most, chosen = max(total for *_, total, _ in chart["rows"]), chart["chosen"]
    return {
        "bars": [
            (label, f"{total / most:.2%}", f"{left / most:.2%}", f"{left:,} of {total:,}",
             bool(chosen) and value not in chosen)
            for value, label, total, left in chart["rows"]
        ]
    }  # fmt: skip


def _static_bins(chart: Mapping[str, Any]) -> dict[str, Any]:
    starts, ends, most = chart["starts"], chart["ends"], max(1, *chart["total"])
    low, high = (chart["chosen"] or (None, None)) if chart["chosen"] != [None] else (inf, -inf)
    low, high = -inf if low is None else low, inf if high is None else high
    wide, bins = _WIDE / len(starts), []
    for place, (start, end) in enumerate(zip(starts, ends, strict=True)):
        total, left = chart["total"][place], chart["left"][place]
        every = -(-len(starts) // 5)
        tick = "" if place % every or (ends[-1] is None and len(starts) - place < every) else f"{start:.6g}"
        bins.append({
            "x": f"{10 + place * wide:.1f}", "width": f"{wide * 0.9:.1f}",
            "title": f"{chart['names'][place]}: {left:,} of {total:,}",
            "off": not (start <= high and (inf if end is None else end) >= low),
            "all": _HIGH * total / most, "left": _HIGH * left / most,
            "tick": tick if end is not None else f"≥ {start:.6g}",
        })  # fmt: skip
    missing, total, left = chart["missing"]
    note = f"{missing}: {left:,} of {total:,}; " if total else ""
    return {"bins": bins, "wide": _WIDE + 20, "high": _HIGH, "note": f"{note}highest bar {most:,}"}


def explore(
    items: Items,
    annotations: Items | pd.DataFrame | Literal["auto"] | None = None,
    predictions: Any = None,
    *,
    columns: Sequence[str] = (),
    query: str = "",
    field: str = "passage",
    regex: bool = False,
    facets: Mapping[str, Any] | None = None,
    where: str = "",
    sort: str = "",
    table: Sequence[str] | bool = False,
    ask: Any = None,
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
    annotations : DataFrame or "auto", optional
        As for ``wb.browse``; by default the items are annotated while the view is already there. Charted
        are ``lemma_in_context`` (else ``in_context``), ``direct_speech``, ``target_class``,
        ``mention_distance`` (tokens) and ``n_tokens``.
    columns : sequence of str
        Further columns to chart, of the annotations or of one's own (``items.extra``): bars for text and
        truth values, a histogram for numbers.
    predictions, query, field, regex, facets, where, sort, table, ask, reveal
        As for ``wb.browse``: ``wb.explore(items, annotations, **explorer.filters)`` is the same view again.
    height : int
        Height of the browser in px; the charts above it take 238 more (422 below 760 px width), and those
        of `columns` 198 a row.

    Returns
    -------
    Explorer
        With ``selection`` (Items), ``filters``, ``browser``, ``to_frame()`` and ``to_html()``.

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
    filters = {"query": query, "field": field, "regex": regex, "facets": facets or {}, "where": where}
    browser = _Listed(
        items, annotations=AUTO if annotations is None else annotations, predictions=predictions,
        filters=filters | {"sort": sort}, ask=ask, table=table, reveal=reveal, height=height, columns=columns,
    )  # fmt: skip
    return Explorer(browser, columns)
