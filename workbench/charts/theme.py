"""The look of charts on light and dark pages, in notebooks without a network, and in files.

Text, axes, error bars and the paper's marks have the colour ``currentColor``: in a page it is
the colour of the text around the chart, so the chart follows JupyterLab's theme and changes with
it. :func:`workbench.charts.saving.save` puts a colour of its own in its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import Any, TypeVar

import altair as alt
import pandas as pd
from altair.utils import update_nested

from workbench.charts.chart_tables import show_below
from workbench.storage.errors import DataError

Chart = TypeVar("Chart", alt.LayerChart, alt.HConcatChart, alt.VConcatChart, alt.ConcatChart)

INK = "currentColor"
"""Stands for the colour of text until a chart is shown or saved."""

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#707070", "#F0E442")
"""Colours of the sets: Okabe and Ito's with a darker grey. Under every colour vision deficiency any two
differ by 7.5 or more (CIEDE2000). Those first stand out from white and from black by at least 3 to 1. From
the ninth set on they recur."""

SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross")

_GENERIC = "sans-serif"
FONT = f"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', {_GENERIC}"

_INKED = ("color", "fill", "stroke", "value")
_DATA = {"data", "datasets"}
_TITLES = {"title", "text", "subtitle"}
_UNDRAWABLE = re.compile("[^\t\n\r -\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_IN_EXPRESSIONS = str.maketrans({"\\": "\N{SET MINUS}", "\n": " ", "\r": " "})
_NAMES = {
    "if", "constructor", "toString", "toLocaleString", "valueOf", "hasOwnProperty", "isPrototypeOf",
    "propertyIsEnumerable", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__",
}  # fmt: skip
_RENDERER = "workbench"
_SCRIPT = "_esm"  # of a widget
_VEGA_LITE, _VEGA = "application/vnd.vegalite.v5+json", "application/vnd.vega.v5+json"
_LAB_VEGA_LITE = "5.21"  # what JupyterLab's Vega 5 draws
_BESIDE = 190  # pixels of a window beside a chart, in JupyterLab
_SHRUNK = 0.93  # of its width: a chart is shrunk so far before it wraps

CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": INK, "titleColor": INK, "labelFontSize": 11, "labelLimit": 0, "titleFontSize": 12,
        "titleFontWeight": "normal", "domainColor": INK, "tickColor": INK, "gridColor": INK,
        "domainOpacity": 0.5, "tickOpacity": 0.5, "gridOpacity": 0.12,
    },
    "axisX": {"labelSeparation": 6},
    "legend": {
        "labelColor": INK, "titleColor": INK, "labelFontSize": 11, "labelLimit": 0, "titleFontSize": 11,
        "symbolStrokeWidth": 1,
    },
    "title": {
        "color": INK, "subtitleColor": INK, "fontSize": 14, "fontWeight": "bold", "subtitleFontSize": 11,
        "subtitlePadding": 4, "anchor": "start", "frame": "group", "offset": 10, "limit": 0,
    },
}  # fmt: skip
"""The Vega-Lite configuration of all charts."""

VEGA_LITE_VERSION = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
"""Of Vega-Lite, as what draws files calls it."""

# Without a link to an editor on another host, and as SVG, whose colours change with the page's.
EMBED = {"renderer": "svg", "actions": {"export": True, "source": False, "compiled": False, "editor": False}}


def colours(names: Sequence[str]) -> alt.Scale:
    """Return the colour scale of the sets, in their order."""
    return alt.Scale(domain=list(names), range=[PALETTE[index % len(PALETTE)] for index in range(len(names))])


def themed(chart: Chart, name: str, *tables: pd.DataFrame) -> Chart:
    """Apply the look of this package to a new chart, and return it.

    `name` says what it shows, to screen readers and above its numbers, which are in `tables`. It is changed
    in place here and elsewhere, as a method such as ``properties`` copies each part of a chart several times
    for each level above it: of a figure of three panels 130 times.
    """
    return _with_look(chart, name, [alt.to_values(table)["values"] for table in tables])


def _with_look(chart: Chart, name: str, tables: Sequence[Any]) -> Chart:
    chart.description, chart.config = name, alt.Config(**CONFIG)
    chart.usermeta = {"embedOptions": EMBED, "look": _RENDERER, "datasets": list(tables)}
    return chart


def panel_row(panels: Sequence[alt.LayerChart], name: str, table: pd.DataFrame) -> alt.HConcatChart:
    """Return panels side by side with one legend, as a chart of this package."""
    return themed(joined_panels(panels), name, table)


def joined_panels(panels: Sequence[alt.LayerChart]) -> alt.HConcatChart:
    """Return panels side by side with one legend, without a look."""
    scale = alt.ScaleResolveMap(color="shared", shape="shared", xOffset="independent")
    return alt.HConcatChart(hconcat=level_titles(panels), spacing=30, resolve=alt.Resolve(scale=scale))


def level_titles(panels: Sequence[alt.LayerChart]) -> list[alt.LayerChart]:
    """Return panels whose plots begin at one height: shorter titles get empty lines.

    Vega-Lite sets a title upwards from its plot.
    """
    titles: list[dict[str, list[str]]] = [
        {name: _lines(panel.title, name) for name in ("text", "subtitle")}
        if isinstance(panel.title, alt.TitleParams | str)
        else {"text": [], "subtitle": []}
        for panel in panels
    ]
    longest = {name: max(len(title[name]) for title in titles) for name in ("text", "subtitle")}
    level = []
    for panel, title in zip(panels, titles, strict=True):
        padded = {name: [*title[name], *[" "] * (longest[name] - len(title[name]))] for name in title}
        if not title["text"] or padded == title:
            level.append(panel)
            continue
        options = panel.title.to_dict() if isinstance(panel.title, alt.TitleParams) else {}
        level.append(panel.properties(title=alt.TitleParams(**{**options, **padded})))
    return level


def _lines(title: alt.TitleParams | str, name: str) -> list[str]:
    text = (title if name == "text" else "") if isinstance(title, str) else title.to_dict().get(name, "")
    return list(text) if isinstance(text, list) else [text] if text else []


def note_below(lines: Sequence[str]) -> alt.Chart:
    """Return lines of text below a chart; they are not a title, so a title may be set."""
    table = pd.DataFrame({"line": list(lines), "place": range(len(lines))})
    y = alt.Y("place:O", axis=None)
    text: alt.Chart = alt.Chart(table, width=20, height=15 * len(lines)).mark_text(
        align="left", baseline="middle", fontSize=11, color=INK
    ).encode(y=y, x=alt.value(0), text="line:N")  # fmt: skip
    return text


def side_by_side(*charts: alt.LayerChart) -> alt.HConcatChart:
    """Return charts of this package side by side, as one chart.

    In a notebook they stand one below the other where the window has no room for them side by side.

    Parameters
    ----------
    *charts : alt.LayerChart
        Two or more; each keeps its own legend.

    Examples
    --------
    >>> bars = wb.charts.in_context(annotations), wb.charts.target_classes(annotations)
    >>> chart = wb.charts.side_by_side(*bars)
    """
    bare = [chart.copy(deep=False) for chart in charts]
    name = "; ".join(chart.description for chart in charts if isinstance(chart.description, str))
    tables = [
        table for chart in bare if isinstance(chart.usermeta, dict) for table in chart.usermeta["datasets"]
    ]
    for chart in bare:  # Altair joins no charts that have a configuration
        chart.config, chart.usermeta, chart.description = alt.Undefined, alt.Undefined, alt.Undefined
    scale = alt.ScaleResolveMap(color="independent", shape="independent", xOffset="independent")
    row = alt.HConcatChart(hconcat=level_titles(bare), spacing=36, resolve=alt.Resolve(scale=scale))
    return _with_look(row, name, tables)


def chart_title(head: str, lines: Sequence[str], *, width: int = 62) -> alt.TitleParams:
    """Return a title with lines below it, wrapped at `width` characters."""
    return alt.TitleParams(
        text=wrap(head, width=46), subtitle=[wrapped for line in lines for wrapped in wrap(line, width)]
    )


def check_table(table: Any, columns: Sequence[str], description: str, hint: str) -> None:
    """Raise DataError unless a table is a frame with these columns and at least one row."""
    if not isinstance(table, pd.DataFrame):
        problem = f"a {type(table).__name__}"
    elif missing := [name for name in columns if name not in table.columns]:
        problem = f"no column {', '.join(map(repr, missing))}"
    elif not len(table):
        problem = "no row"
    else:
        return
    raise DataError(f"{description}: expected a DataFrame with rows, got {problem}", hint=hint)


def share_axis(data: pd.DataFrame, title: str) -> dict[str, Any]:
    """Return a vertical axis in percent from 0 to just above the upper bounds `high`."""
    top = min(1.0, 1.05 * max(float(data["high"].max()), 0.01))
    return {"title": title, "scale": alt.Scale(domain=[0, top]), "axis": alt.Axis(format="%")}


def share_tooltips(*columns: str, **titles: str) -> list[alt.Tooltip]:
    """Return tooltips of columns of shares in percent; keyword arguments set their titles."""
    return [
        *(alt.Tooltip(f"{column}:Q", format=".1%") for column in columns),
        *(alt.Tooltip(f"{column}:Q", format=".1%", title=title) for column, title in titles.items()),
    ]


def interval_bars(base: alt.Chart, axis: dict[str, Any]) -> alt.Chart:
    """Return vertical lines from the column `low` to the column `high`."""
    bars: alt.Chart = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q", **axis), y2="high:Q")
    return bars


def point_shapes(names: Sequence[str], column: str) -> alt.Shape:
    """Return the shapes of points by set or model, so that colours are not needed; one legend has both."""
    scale = alt.Scale(domain=list(names), range=[SHAPES[index % len(SHAPES)] for index in range(len(names))])
    return alt.Shape(f"{column}:N", title=None, scale=scale, legend=alt.Legend(orient="bottom", columns=3))


def curve_layers(base: alt.Chart, column: str, axis: dict[str, Any]) -> list[Any]:
    """Return lines with points and intervals of a column of shares; one shape a colour."""
    line = base.mark_line(strokeWidth=2, point={"size": 60, "filled": True})
    colour = base.encoding.color
    if isinstance(colour, alt.Color):
        line = line.encode(
            shape=point_shapes(colour["scale"]["domain"], colour["shorthand"].removesuffix(":N"))
        )
    return [interval_bars(base, axis), line.encode(y=alt.Y(f"{column}:Q", **axis))]


def changed(spec: Any, ends: str | tuple[str, ...], change: Callable[[Any], Any]) -> Any:
    """Return a specification with `change` applied to the values of keys with these endings, except data."""
    if isinstance(spec, list):
        return [changed(value, ends, change) for value in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        key: value if key in _DATA
        else change(value) if key.lower().endswith(ends) and isinstance(value, str | int | float)
        else changed(value, ends, change)
        for key, value in spec.items()
    }  # fmt: skip


def drawable(spec: Any, *, titles: bool = True) -> Any:
    """Return a specification, or a part of one, with only characters that can be drawn.

    The library that draws ends the process at a character that SVG cannot hold. Vega-Lite puts titles into
    expressions without escaping them, and Vega takes a text that is just "if" for a name.
    """
    if isinstance(spec, str):
        return f"{spec} " if spec in _NAMES else _UNDRAWABLE.sub("\N{REPLACEMENT CHARACTER}", spec)
    if isinstance(spec, list):
        return [drawable(each, titles=titles) for each in spec]
    if not isinstance(spec, dict):
        return spec
    return {
        drawable(key): _title(drawable(value)) if titles and key in _TITLES
        else drawable(value, titles=titles and key not in _DATA)
        for key, value in spec.items()
    }  # fmt: skip


def _title(text: Any) -> Any:
    if isinstance(text, list):
        return [_title(line) for line in text]
    return text.translate(_IN_EXPRESSIONS) if isinstance(text, str) else text


def complete(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a drawable specification; this package's charts regain the look lost by a changed `config`.

    What draws files omits text in a font that is not installed, so each font is followed by a general one.
    """
    spec = changed(
        drawable(spec), "font", lambda font: font if _GENERIC in str(font) else f"{font}, {_GENERIC}"
    )
    if not has_look(spec):
        return spec
    return {**spec, "config": update_nested(CONFIG, spec.get("config", {}), copy=True)}


def has_look(spec: dict[str, Any]) -> bool:
    """Return True if a specification has this package's look, which takes its colours from the page."""
    return bool(spec.get("usermeta", {}).get("look") == _RENDERER)


def page_colours(*, dark: bool) -> tuple[str, str]:
    """Return the colours of text and background of a light or dark page."""
    return ("#dddddd", "#111111") if dark else ("#222222", "#ffffff")


def coloured(spec: dict[str, Any], *, dark: bool) -> dict[str, Any]:
    """Return a specification with the colours of a light or dark page."""
    ink, paper = page_colours(dark=dark)
    spec = dict(changed(complete(spec), _INKED, lambda colour: ink if colour == INK else colour))
    spec.pop("usermeta", None)
    # A background that the chart chose for itself stays, unless it chose none at all.
    if spec.get("config", {}).get("background", "transparent") == "transparent":
        spec.setdefault("config", {})["background"] = paper
    return spec


def picture(spec: dict[str, Any], *, dark: bool | None = False) -> str:
    """Return a chart's specification as SVG; with ``dark=None`` in the colours of the page around it."""
    import vl_convert  # noqa: PLC0415 - takes a while to import

    spec = complete(spec) if dark is None else coloured(spec, dark=dark)
    return str(vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE_VERSION))


def wrapping(spec: dict[str, Any], version: str = VEGA_LITE_VERSION) -> dict[str, Any]:
    """Return panels side by side as a Vega specification that wraps at the width of the window.

    The number of columns is a fixed number in Vega-Lite, and a signal in Vega. Other charts are as they were.
    """
    import vl_convert  # noqa: PLC0415 - takes a while to import

    n = max(len(row.get("hconcat", ())) for row in [spec, *spec.get("vconcat", ())])
    if not has_look(spec) or not n:
        return spec
    width = float(picture(spec).partition('width="')[2].partition('"')[0])
    fitting = f"clamp(floor((windowSize()[0] - {_BESIDE}) / {_SHRUNK * width / n:.0f}), 1, {n})"
    resized = {"events": {"source": "window", "type": "resize"}, "update": fitting}
    vega: dict[str, Any] = vl_convert.vegalite_to_vega(spec, vl_version=version)
    vega["signals"] = [*vega.get("signals", []), {"name": "columns", "init": fitting, "on": [resized]}]
    vega["autosize"] = {"type": "pad", "resize": True}
    for group in [vega, *vega["marks"]]:
        if "layout" in group:  # that of rows above each other has one column
            group["layout"].setdefault("columns", {"signal": "columns"})
    return vega


# -- in notebooks


class _Bundle:
    """The script of `altair.JupyterChart`, made on first use because that takes a second."""

    def __get__(self, _instance: Any, _owner: Any) -> str:
        alt.JupyterChart.enable_offline(offline=False)
        alt.JupyterChart.enable_offline()
        return str(getattr(alt.JupyterChart, _SCRIPT))


def offline() -> None:
    """Show charts in notebooks with the installed libraries, unless another renderer was chosen.

    Examples
    --------
    >>> wb.charts.offline()
    """
    setattr(alt.JupyterChart, _SCRIPT, _Bundle())
    if _RENDERER not in alt.renderers.names():
        alt.renderers.register(_RENDERER, _render)
    if alt.renderers.active == "default":
        alt.renderers.enable(_RENDERER)


def _render(spec: dict[str, Any], **options: Any) -> Any:
    """Return a live chart, and a picture for saved pages and viewers.

    The tables of a chart of this package follow below.

    JupyterLab draws the specification itself, so a chart lives with no network and no kernel, in a notebook
    that is opened again too. It has Vega-Lite 5, which reads what Altair writes for 6.
    """
    live = {**complete(spec), "$schema": "https://vega.github.io/schema/vega-lite/v5.json"}
    if has_look(live):
        show_below(live)
    live = wrapping(live, _LAB_VEGA_LITE)
    form = _VEGA_LITE if "vega-lite" in live["$schema"] else _VEGA
    metadata = {form: {"embed_options": {**EMBED, **(options.get("embed_options") or {})}}}
    return {form: live, "image/svg+xml": picture(spec)}, metadata
