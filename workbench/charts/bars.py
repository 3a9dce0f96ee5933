"""Charts of shares: one group of bars a category, one bar a set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.charts import theme

PICK = "pick"
"""Name of the selection by click; its fields are `FIELDS`."""

FIELDS = ("set", "column", "value")
"""What a picked bar stands for: the rows of `set` whose annotation `column` has this `value`."""

HEIGHT = 260

BAR, GAP = 26, 20
"""Width of a bar and between the groups, in pixels."""

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
_TICKS = 8
_WIDE = 6.5  # pixels a letter of a label
_ORDER = ("diamond", "triangle-up", "triangle-down")
_ASIDE = 0.77  # of a bar's width: the paper's mark stands beside the interval, which has the middle


def shares(
    data: pd.DataFrame,
    marks: pd.DataFrame,
    *,
    heading: alt.TitleParams,
    axis: str | None = None,
    top: float | None = None,
    of: str = "share of the targets",
    select: bool = False,
    colours: Sequence[str] = (),
    bar: int = BAR,
    gap: int = GAP,
    height: int = HEIGHT,
) -> alt.LayerChart:
    """Draw shares with their intervals, and the paper's values.

    Parameters
    ----------
    data : DataFrame
        From :mod:`workbench.analysis.statistics`.
    marks : DataFrame
        From :func:`workbench.charts.paper.marks`.
    heading : TitleParams
        Title and the lines below it.
    axis : str, optional
        Title of the horizontal axis.
    top : float, optional
        End of the vertical axis (0 to 1); by the data where it is not given.
    of : str
        Title of the vertical axis.
    select : bool, default False
        Let bars be picked: the selection `pick`.
    colours : sequence of str, optional
        All sets that have a colour, where the chart shows some of them.
    bar, gap, height : int
        Width of a bar and between groups, height of the plot, in pixels.
    """
    names, labels = list(dict.fromkeys(data["set"])), list(dict.fromkeys(data["label"]))
    x = alt.X("label:N", sort=labels, title=axis, axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.2))
    offset = alt.XOffset("set:N", sort=names, scale=alt.Scale(domain=names, paddingInner=0.08))
    y = vertical(pd.concat([data["high"], data["share"], marks["share"]]), of, top=top)
    base = alt.Chart(data).encode(x=x, xOffset=offset)
    bars = base.mark_bar().encode(
        y=y,
        color=alt.Color("set:N", scale=theme.colours(colours or names), legend=legend(colours or names)),
        tooltip=tooltip(alt.Tooltip("label:N", title="bar")),
    )
    if select:
        pick = alt.selection_point(name=PICK, fields=list(FIELDS))
        bars = bars.encode(opacity=alt.condition(pick, alt.value(1.0), alt.value(0.35))).add_params(pick)
    error = base.mark_rule(color=theme.INK, strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    layers: list[Any] = [alt.layer(bars, error)]
    if len(marks):
        layers.append(_paper(marks, names, x, y))
    width = len(labels) * max(len(names) * bar + gap, *(_WIDE * len(str(label)) for label in labels))
    chart: alt.LayerChart = alt.layer(*layers).resolve_scale(xOffset="independent")
    return chart.properties(width=width, height=height, title=heading)


def legend(names: Sequence[str]) -> alt.Legend | None:
    """Return the legend of the sets: none where there is only one, which the title names."""
    return alt.Legend(title=None, orient="bottom") if len(names) > 1 else None


def tooltip(what: alt.Tooltip) -> list[alt.Tooltip]:
    """Return what a bar tells: its set, what it is, share, interval and counts."""
    return [
        alt.Tooltip("set:N", title="set"),
        what,
        alt.Tooltip("share:Q", format=".1%", title="share"),
        alt.Tooltip("low:Q", format=".1%", title="from"),
        alt.Tooltip("high:Q", format=".1%", title="to"),
        alt.Tooltip("count:Q", format=",", title="count"),
        alt.Tooltip("n:Q", format=",", title="of"),
    ]


def vertical(values: pd.Series[float], of: str, *, top: float | None = None, spare: float = 0) -> alt.Y:
    """Return a vertical axis of shares from 0 to a round number above all values.

    `spare` is the part of the height that stays free above them.
    """
    largest = float(values.max()) if values.notna().any() else 1.0
    largest = max(largest / (1 - spare), 0.01) if top is None else top
    step = next((step for step in _STEPS if largest <= _TICKS * step), _STEPS[-1])
    end = top or float(np.ceil(round(largest / step, 6)) * step)
    ticks = [round(float(tick), 6) for tick in np.arange(0, end + step / 2, step) if tick <= 1]
    scale = alt.Scale(domain=[0, round(end, 6)], nice=False)
    return alt.Y("share:Q", scale=scale, axis=alt.Axis(format="%", values=ticks), title=of)


def _paper(marks: pd.DataFrame, names: Sequence[str], x: alt.X, y: alt.Y) -> alt.Chart:
    """Draw the paper's values; a bound is a triangle that points to where the value lies."""
    kinds = marks.drop_duplicates("kind").sort_values("shape", key=lambda column: column.map(_ORDER.index))
    aside = (marks["set"].map({name: i for i, name in enumerate(names)}).astype(float) + _ASIDE) / len(names)
    points = alt.Chart(marks.assign(aside=aside)).mark_point(
        filled=True, size=70, color=theme.INK, opacity=1, stroke="white", strokeWidth=0.8
    )
    chart: alt.Chart = points.encode(
        x=x,
        xOffset=alt.XOffset("aside:Q", scale=alt.Scale(domain=[0, 1], nice=False, zero=False)),
        y=y,
        shape=alt.Shape(
            "kind:N",
            scale=alt.Scale(domain=kinds["kind"].tolist(), range=kinds["shape"].tolist()),
            legend=alt.Legend(title=None, orient="bottom", symbolFillColor=theme.INK, symbolSize=70),
        ),
        tooltip=[alt.Tooltip("set:N", title="set"), alt.Tooltip("source:N", title="paper")],
    )
    return chart
