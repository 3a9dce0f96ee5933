"""Charts of whole numbers: how far back the target was mentioned, how long the passages are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd

from workbench.analysis import statistics
from workbench.analysis.statistics import Sets
from workbench.charts import theme
from workbench.charts.targets import HEIGHT, Beside, counted, legend, matched, tooltip, vertical
from workbench.datasets import published
from workbench.items.schema import DataError

BRUSH = "brush"
"""Name of the selection by dragging along the horizontal axis."""

_WIDTH = 460
_SPARE = 0.08
_ROOM = 0.12
_LINE = 84  # characters below the title
MEAN, PAPER = "mean", "paper's mean"
_LENGTHS = {
    "n_tokens": ("tokens", "Tokens of the passage", "tokens per passage"),
    "n_context_sentences": (
        "sentences",
        "Sentences before the target sentence",
        "context sentences per passage",
    ),
}


def mention_distance(
    sets: Sets, *, width: int | None = None, title: str | None = None, select: bool = False
) -> alt.LayerChart:
    """Draw how many tokens before the target its last earlier mention stands.

    Parameters
    ----------
    sets, title
        As for :func:`workbench.charts.in_context`.
    width : int, optional
        Tokens a bin; a round number by the data by default.
    select : bool, default False
        Let a range be brushed: an interval selection `BRUSH` whose field is `x`, in tokens: the rows with
        ``x[0] <= mention_distance <= x[1]``. Edges of bins lie half a token outside their values.

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals, shares of the targets with an earlier mention.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named).
    """
    data = statistics.histogram(sets, "mention_distance", first=1, width=width)
    title = title or "Tokens back to the last mention"
    head = counted(title, data, without="without a mention before", width=_LINE)
    axis = "tokens from the target back to its last earlier mention"
    return _bars(data, head=head, axis=axis, of="share of targets with an earlier mention", select=select)


def lengths(
    sets: Sets,
    *,
    column: Literal["n_tokens", "n_context_sentences"] = "n_tokens",
    width: int | None = None,
    paper: Beside = True,
    title: str | None = None,
    select: bool = False,
) -> alt.LayerChart:
    """Draw how long the passages are, with the mean of each set.

    Parameters
    ----------
    sets, title, paper
        As for :func:`workbench.charts.in_context`; the paper's means (section 3.2).
    column : {"n_tokens", "n_context_sentences"}
        Tokens of the whole passage, or sentences before the target sentence.
    width, select
        As for :func:`mention_distance`, in the units of `column`.

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals; means as triangles above them, the paper's as a diamond.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named), or `column` is none of these.
    """
    if column not in _LENGTHS:
        raise DataError(f"there are no lengths {column!r}", remedy=f"use {' or '.join(_LENGTHS)}")
    frames = statistics.named_sets(sets)
    unit, head, quantity = _LENGTHS[column]
    data = statistics.histogram(frames, column, width=width)
    means = _means(data, _published(frames, paper, quantity))
    heading = counted(title or head, data, without="without a value", width=_LINE)
    return _bars(data, head=heading, axis=unit, of="share of the passages", select=select, means=means)


def _published(frames: dict[str, pd.DataFrame], paper: Beside, quantity: str) -> dict[str, float]:
    """Return the paper's mean for each set of LAMBADA, by name."""
    means = {}
    for name, of in matched(frames, paper).items():
        splits = {source.rpartition("/")[2] for source in statistics.sources(frames[name])}
        rows = [*sorted(splits), "all"] if len(splits) == 1 else ["all"]
        values = [published.find_value("text", row, quantity) for row in rows]
        known = [value.about for value in values if value is not None and value.about is not None]
        if of == "lambada" and known:
            means[name] = known[0]
    return means


def _means(data: pd.DataFrame, paper: dict[str, float]) -> pd.DataFrame:
    rows = []
    for name, part in data.groupby("set", sort=False):
        mean = float(part["mean"].iloc[0])
        if mean == mean:  # noqa: PLR0124 - not a number where the set is empty
            rows.append({"set": str(name), "mean": mean, "kind": MEAN, "text": f"{mean:.1f}"})
        if str(name) in paper:
            value = paper[str(name)]
            rows.append({"set": str(name), "mean": value, "kind": PAPER, "text": f"{value:g}"})
    return pd.DataFrame(rows, columns=["set", "mean", "kind", "text"])


def _placed(data: pd.DataFrame) -> pd.DataFrame:
    """Divide each bin among the sets, with a little space around it."""
    names = list(dict.fromkeys(data["set"]))
    place = data["set"].map({name: i for i, name in enumerate(names)}).astype(float)
    span = data["x2"] - data["x"]
    each = span * (1 - _SPARE) / len(names)
    left = data["x"] + span * _SPARE / 2 + each * place
    values = data["first"].astype(str)
    several = data["last"] > data["first"]
    values = values.where(~several, values + "\u2013" + data["last"].astype(str))
    return data.assign(x=left, x2=left + each, middle=left + each / 2, values=values).drop(
        columns=["mean", "sd"]
    )


def _bars(
    data: pd.DataFrame,
    *,
    head: alt.TitleParams,
    axis: str,
    of: str,
    select: bool,
    means: pd.DataFrame | None = None,
) -> alt.LayerChart:
    names = list(dict.fromkeys(data["set"]))
    domain = [float(data["x"].min()), float(data["x2"].max())]
    x = alt.X("x:Q", title=axis, scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(grid=False))
    base = alt.Chart(_placed(data))
    bars = base.mark_rect().encode(
        x=x,
        x2="x2:Q",
        y=vertical(data["high"].where(data["count"] > 0), of, spare=0 if means is None else _ROOM),
        y2=alt.datum(0),
        color=alt.Color("set:N", scale=theme.colours(names), legend=legend(names)),
        tooltip=tooltip(alt.Tooltip("values:N", title=axis.split(" ", maxsplit=1)[0])),
    )
    if select:
        bars = bars.add_params(alt.selection_interval(name=BRUSH, encodings=["x"]))
    filled = alt.Chart(_placed(data).query("count > 0"))  # an interval at each empty bin is noise
    error = filled.mark_rule(color=theme.INK, strokeWidth=1).encode(x="middle:Q", y="low:Q", y2="high:Q")
    layers: list[Any] = [bars, error]
    if means is not None and len(means):
        layers += _mean_marks(means, names)
    chart = alt.LayerChart(layer=layers).properties(width=_WIDTH, height=HEIGHT, title=head)
    return theme.themed(chart)


def _mean_marks(means: pd.DataFrame, names: Sequence[str]) -> list[alt.Chart]:
    """Draw the means above the bars, in the colour of their set, and the paper's above them."""
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=[MEAN, PAPER], range=["triangle-down", "diamond"]),
        legend=alt.Legend(
            title=None,
            orient="bottom",
            symbolFillColor=theme.INK,
            symbolSize=70,
            values=list(dict.fromkeys(means["kind"])),
        ),
    )
    tips = [alt.Tooltip("set:N"), alt.Tooltip("kind:N"), alt.Tooltip("text:N", title="value")]
    measured, paper = means[means["kind"] == MEAN], means[means["kind"] == PAPER]
    looks: dict[str, Any] = {"filled": True, "size": 80, "opacity": 1}
    return [
        alt.Chart(measured)
        .mark_point(**looks)
        .encode(
            x="mean:Q",
            y=alt.value(22),
            shape=shape,
            color=alt.Color("set:N", scale=theme.colours(names), legend=legend(names)),
            tooltip=tips,
        ),
        alt.Chart(paper)
        .mark_point(**looks, color=theme.INK, stroke="white", strokeWidth=0.8)
        .encode(x="mean:Q", y=alt.value(8), shape=shape, tooltip=tips),
    ]
