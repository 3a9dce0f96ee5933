"""What a passage is worth: accuracy of models that read more and more of what stands before the blank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import altair as alt
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.charts import theme
from workbench.charts.ranks import head, of_models
from workbench.evaluation.reading import predictions_of
from workbench.items.schema import DataError

_WIDTH, _HEIGHT = 330, 240
_ALL = "all"

Reads = int | str | None


def worth(runs: Mapping[str, Mapping[Reads, Any]]) -> pd.DataFrame:
    """Return the accuracy of models by how much they read.

    Parameters
    ----------
    runs : mapping
        For each model, by its name, how much was read and the predictions that this gave: a run, a frame, the
        name of a run, or several of these. ``{"LSTM": {4: run, "sentence": run, None: run}}``; None is all.
        They are drawn in the order given.

    Returns
    -------
    DataFrame
        Columns model, set (data set and split), reads, accuracy (expected, a fraction), n (items), low, high
        (Wilson's interval, 95 %).

    Raises
    ------
    DataError
        If there are no predictions.
    """
    rows = []
    for model, by_reads in runs.items():
        for reads, several in by_reads.items():
            for source in predictions_of(several):
                answered = source.frame[source.frame["p_correct"].notna()]
                for (dataset, split), part in answered.groupby(["dataset", "split"], sort=False):
                    row = (model, f"{dataset}/{split}", _label(reads), part["p_correct"].mean(), len(part))
                    rows.append(row)
    if not rows:
        raise DataError("there are no predictions", remedy="pass for each model {how much it read: its runs}")
    found = pd.DataFrame(rows, columns=["model", "set", "reads", "accuracy", "n"])
    low, high = wilson((found["accuracy"] * found["n"]).to_numpy(), found["n"].to_numpy())
    return found.assign(low=low, high=high)


def seen(runs: Mapping[str, Mapping[Reads, Any]]) -> alt.HConcatChart:
    """Draw what a passage is worth: one panel a set of items, one line a model.

    Parameters
    ----------
    runs : mapping
        As for :func:`worth`. With a model that is trained here, ``model.with_context(4)`` reads the last four
        words before the blank, ``model.with_context("sentence")`` those of the target sentence.

    Returns
    -------
    alt.HConcatChart
        Bars are Wilson's intervals (95 %).

    Raises
    ------
    DataError
        If there are no predictions.
    """
    data = worth(runs)
    models, steps = data["model"].unique().tolist(), data["reads"].unique().tolist()
    top = min(1.0, 1.05 * max(float(data["high"].max()), 0.01))
    panels: list[Any] = []
    for name, part in data.groupby("set", sort=False):
        x = alt.X("reads:O", title="words read before the target").scale(domain=steps).axis(labelAngle=0)
        base = alt.Chart(part.drop(columns=["set", "n"])).encode(
            x=x,
            color=of_models(models),
            tooltip=[
                "model:N",
                alt.Tooltip("reads:O", title="read"),
                *(alt.Tooltip(f"{column}:Q", format=".1%") for column in ("accuracy", "low", "high")),
            ],
        )
        value = alt.Y("accuracy:Q", title="accuracy").scale(domain=[0, top]).axis(format="%")
        bars = base.mark_rule(strokeWidth=1.5).encode(
            y=alt.Y("low:Q", title="accuracy").scale(domain=[0, top]).axis(format="%"), y2="high:Q"
        )
        line = base.mark_line(strokeWidth=2, point={"size": 55, "filled": True}).encode(y=value)
        panels.append(alt.layer(bars, line, title=head(str(name), part), width=_WIDTH, height=_HEIGHT))
    return theme.row(panels)


def _label(reads: Reads) -> str:
    return _ALL if reads is None else f"{reads:,}" if isinstance(reads, int) else str(reads)
