"""A chart of what tuning found: accuracy and perplexity on each set against the weight of a cache."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.charts import theme
from workbench.items.schema import DataError

_SETS = {"lambada/dev": "LAMBADA development", "lambada/control": "control"}
_SMALL = 0.05  # accuracies below need a decimal
_RIGHT = 0.7  # weights above have their label on the left


def tuning(trials: pd.DataFrame) -> alt.HConcatChart:
    """Draw accuracy and perplexity on each set against the weight of a cache.

    Parameters
    ----------
    trials : DataFrame
        The ``.trials`` of a tuned model, with the columns weight, set, accuracy (fraction), perplexity and
        chosen. Of other parameters (flatness) the chosen value is drawn.

    Returns
    -------
    alt.HConcatChart
        One line a set; a vertical line marks the chosen weight. Perplexity is on a logarithmic axis, and left
        out where there is none.

    Raises
    ------
    DataError
        If a column is missing.

    Examples
    --------
    >>> from workbench.models import NGram
    >>> ngram = NGram.fit(wb.books("sample"), order=2, progress=False)
    >>> cached = ngram.cached().tuned(wb.load("sample", "dev").sample(20), weights=(0, 0.1, 0.2, 0.4, 0.8))
    >>> chart = wb.charts.tuning(cached.trials)
    """
    needed = {"weight", "set", "accuracy", "perplexity", "chosen"}
    if missing := sorted(needed - set(trials.columns)):
        raise DataError(
            f"the trials have no column {', '.join(missing)}", remedy="pass .trials of a tuned model"
        )
    best = trials[trials["chosen"]].iloc[0]
    data = trials
    if "flatness" in data:
        data = data[data["flatness"] == best["flatness"]]
    data = data[sorted(needed - {"chosen"})].assign(set=data["set"].replace(_SETS))
    panels = [_panel(data, "accuracy", float(best["weight"]))]
    if data["perplexity"].notna().any():
        panels.append(_panel(data, "perplexity", float(best["weight"])))
    return theme.panel_row(panels)


def _panel(data: pd.DataFrame, measure: str, weight: float) -> alt.LayerChart:
    """Return the lines of a measure, one a set, with the chosen weight marked."""
    names, share = data["set"].unique().tolist(), measure == "accuracy"
    top = max(1.08 * float(data[measure].max()), 0.01)
    scale = alt.Scale(domain=[0, min(1.0, top)], nice=False) if share else alt.Scale(type="log", nice=False)
    unit = "~s" if not share else ".1%" if data[measure].max() < _SMALL else "%"
    y = alt.Y(f"{measure}:Q", title="accuracy" if share else "perplexity (log scale)", scale=scale)
    y = y.axis(format=unit)
    colour = (
        alt.Color("set:N", title=None)
        .scale(theme.colours(names))
        .legend(orient="bottom", symbolType="stroke")
    )
    tooltip: list[Any] = ["set:N", alt.Tooltip("weight:Q", title="weight of the cache")]
    tooltip.append(alt.Tooltip(f"{measure}:Q", format=".1%" if share else ",.0f"))
    x = alt.X("weight:Q", title="weight of the cache").scale(domain=[0, 1]).axis(format="~g")
    lines = (
        alt.Chart(data[np.isfinite(data[measure])])
        .mark_line(strokeWidth=2, point={"size": 45, "filled": True})
        .encode(x=x, y=y, color=colour, tooltip=tooltip)
    )
    mark = pd.DataFrame({"weight": [weight], "label": [f"chosen: {weight:g}"]})
    rule = alt.Chart(mark).mark_rule(color=theme.INK, strokeDash=[4, 3]).encode(x=x)
    left = weight > _RIGHT
    text = rule.mark_text(color=theme.INK, align="right" if left else "left", dx=-5 if left else 5, dy=-6)
    text = text.encode(text="label:N", y=alt.value(0))
    return alt.LayerChart(layer=[lines, rule, text], width=300, height=240)
