"""Charts of people's guesses beside those of models."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import pandas as pd

from workbench.charts import theme
from workbench.charts.models import model_colour
from workbench.render.labels import label
from workbench.storage.errors import DataError

_COLUMNS = ("n_context_sentences", "n", "n_guessed", "share", "low", "high")
_SIDE_BY_SIDE = 0.09  # sentences between the bars of two curves


def context_needed(curves: Mapping[str, pd.DataFrame]) -> alt.LayerChart:
    """Draw the share of items that are guessed with at most so many sentences of context.

    Parameters
    ----------
    curves : mapping
        For each person or model, by name, a frame as :meth:`workbench.people.Campaign.unfolding` or
        :func:`workbench.people.unfold` returns it.

    Returns
    -------
    alt.LayerChart
        One line each; bars are Wilson's intervals (95 %).

    Raises
    ------
    DataError
        If there is no curve with judgments, or a frame lacks a column.

    Examples
    --------
    >>> chart = wb.charts.context_needed({"3-gram": wb.people.unfold(items, ngram)})
    """
    parts = []
    for name, frame in curves.items():
        if lacking := [column for column in _COLUMNS if column not in frame.columns]:
            remedy = "pass what Campaign.unfolding() returns"
            raise DataError(f"the curve of {name!r:.60} has no column {lacking[0]!r}", remedy=remedy)
        parts.append(frame[list(_COLUMNS)].assign(model=str(name)))
    data = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*_COLUMNS, "model"])
    if not len(data):
        raise DataError("there are no judgments to draw", remedy="finish an item first")
    names = data["model"].unique().tolist()
    shift = {name: (place - (len(names) - 1) / 2) * _SIDE_BY_SIDE for place, name in enumerate(names)}
    data["at"] = data["n_context_sentences"] + data["model"].map(shift)
    last = int(data["n_context_sentences"].max())
    top = min(1.0, 1.05 * max(float(data["high"].max()), 0.01))
    title, scale = "items guessed", alt.Scale(domain=[0, top])
    base = alt.Chart(data).encode(
        x=alt.X("at:Q", title=label("n_context_sentences"))
        .scale(domain=[-0.4, last + 0.4], nice=False)
        .axis(values=list(range(last + 1)), format="d", grid=False),
        color=model_colour(names),
        tooltip=[
            "model:N",
            alt.Tooltip("n_context_sentences:Q", title=label("n_context_sentences")),
            *(alt.Tooltip(f"{name}:Q", format=",", title=text) for name, text in _COUNTS.items()),
            *(alt.Tooltip(f"{name}:Q", format=".1%") for name in ("share", "low", "high")),
        ],
    )
    axis = alt.Axis(format="%")
    bars = base.mark_rule(strokeWidth=1.5).encode(
        y=alt.Y("low:Q", title=title, scale=scale, axis=axis), y2="high:Q"
    )
    line = base.mark_line(strokeWidth=2, point={"size": 55, "filled": True}).encode(
        y=alt.Y("share:Q", title=title, scale=scale, axis=axis)
    )
    numbers = " or ".join(f"{n:,}" for n in sorted(data["n"].unique().tolist()))
    head = theme.chart_title("Context that is needed", [f"{numbers} items; bars: 95 % (Wilson)"])
    layers = alt.LayerChart(layer=[bars, line])
    return theme.themed(layers.properties(title=head, width=420, height=280))


_COUNTS = {"n_guessed": "guessed", "n": "items"}
