"""The influence of the parts of a passage as a curve over their distance from the answer."""

from __future__ import annotations

from typing import Any

import altair as alt

from workbench.charts import theme
from workbench.charts.models import counts, model_colour
from workbench.probing.influence import DISTANCES, influence_by_distance
from workbench.render.labels import column_label, label

_WIDTH, _HEIGHT = 420, 240
_TICKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def influence_curve(
    parts: Any,
    value: str = "influence",
    *,
    edges: Any = DISTANCES,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> alt.LayerChart:
    """Draw the mean influence of parts by their distance from the answer, one line a model.

    Parameters
    ----------
    parts : DataFrame or mapping of str to DataFrame
        What :func:`wb.influence` returned, for one or several models by name.
    value, edges, level, resamples, seed
        As for :func:`workbench.probing.influence.influence_by_distance`, which computes the means and their
        bootstrap intervals, and raises the same errors.

    Returns
    -------
    alt.LayerChart
        Bars are the intervals; the distance has a logarithmic scale. It holds one row a model and bin.

    Examples
    --------
    >>> parts = wb.influence(ngram.cached(), items[:20], by="word")
    >>> chart = wb.charts.influence_curve({"with cache": parts})
    """
    data = influence_by_distance(parts, value, edges=edges, level=level, resamples=resamples, seed=seed)
    models = data["model"].unique().tolist()
    unit = column_label(value).unit
    last = int(data["last"].max())
    base = alt.Chart(data).encode(
        x=alt.X("distance:Q", title="words from the part to the answer").scale(type="log", base=2).axis(
            values=[tick for tick in _TICKS if tick <= last], format="~s"
        ),
        color=model_colour(models) if len(models) > 1 else alt.value(theme.PALETTE[0]),
        tooltip=[
            "model:N",
            *(alt.Tooltip(f"{name}:Q", title=title) for name, title in (("first", "from"), ("last", "to"))),
            *(alt.Tooltip(f"{name}:Q", format=".3f") for name in (value, "low", "high")),
            *(alt.Tooltip(f"{name}:Q", format=",") for name in ("n", "n_parts")),
        ],
    )  # fmt: skip
    axis = {"title": f"{label(value).lower()}, {unit}"}
    zero = alt.Chart().mark_rule(color=theme.INK, opacity=0.4).encode(y=alt.datum(0))
    n_missing = data.attrs["n_missing"]
    facts = [
        f"{counts(data.groupby('model')['n'].max())} items; bars: {level:.0%} bootstrap intervals over items"
    ]
    if n_missing:
        facts.append(f"{n_missing:,} parts without a finite value are not counted")
    layers = [zero, *theme.curve_layers(base, value, axis)]
    title = theme.chart_title("Influence by distance", facts)
    return theme.themed(alt.LayerChart(layer=layers, width=_WIDTH, height=_HEIGHT, title=title))
