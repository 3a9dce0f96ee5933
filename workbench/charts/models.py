"""Charts of models: where they put the right word, and what reading more of the passage is worth to them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.charts import theme
from workbench.evaluation.reading import predictions_of
from workbench.items.schema import DataError

Reads = int | str | None
"""How much of a passage a model reads: so many words, ``"sentence"``, or all (None)."""

_NAMES = {"lambada/dev": "LAMBADA development", "lambada/test": "LAMBADA test", "lambada/control": "Control"}
_A_DECADE = 12  # points of a curve
_WIDTH = 330
_TICKS = (1, 10, 100, 1000, 10_000, 100_000)


def answers_among(runs: Any) -> pd.DataFrame:
    """Return the share of items whose answer is among the k best words of a model.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Predictions that rank a vocabulary; rows without a rank (scores of candidates, unknown answers of
        items) are left out. An answer outside the vocabulary stands behind all words, as does one whose rank
        is but a bound.

    Returns
    -------
    DataFrame
        Columns model, set (data set and split), k, share (fraction), n (items with a rank).

    Raises
    ------
    DataError
        If no row has a rank.
    """
    rows = []
    for source in predictions_of(runs):
        ranked = source.frame[source.frame["rank"].notna() & source.frame["vocabulary_size"].notna()]
        for (dataset, split), part in ranked.groupby(["dataset", "split"], sort=False):
            last = max(int(part["rank"].max()), 10)
            points = np.unique(np.geomspace(1, last, 1 + math.ceil(_A_DECADE * math.log10(last))).astype(int))
            sure = part["known"].fillna(value=True) & ~part["rank_is_bound"].fillna(value=False)
            rank = np.sort(np.where(sure, part["rank"], last + 1).astype(int))
            shares = np.searchsorted(rank, points, side="right") / len(rank)
            name = f"{dataset}/{split}"
            rows += [
                (source.model, name, int(k), float(s), len(rank)) for k, s in zip(points, shares, strict=True)
            ]
    if not rows:
        raise DataError("no prediction has a rank", remedy="pass runs of models that rank a vocabulary")
    return pd.DataFrame(rows, columns=["model", "set", "k", "share", "n"])


def _head(name: str, part: pd.DataFrame) -> alt.TitleParams:
    """Return the title of a set's panel; the column `n` says how many items it is drawn from."""
    n = " or ".join(f"{x:,}" for x in sorted(part["n"].unique().tolist()))
    return alt.TitleParams(text=_NAMES.get(name, name), subtitle=f"{n} items")


def _colour(models: Sequence[str]) -> alt.Color:
    """Return the colours of models' lines, with a legend below."""
    colour: alt.Color = alt.Color("model:N", title=None).scale(theme.colours(models)).legend(
        orient="bottom", columns=3, columnPadding=24, symbolType="stroke", symbolStrokeWidth=3
    )  # fmt: skip
    return colour


def ranks(runs: Any) -> alt.HConcatChart:
    """Draw where models put the right word: one panel a set of items, one line a model.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        As for :func:`answers_among`. At k = 1 a line shows the accuracy, ties counted as right; where it
        crosses a half, the median rank.

    Returns
    -------
    alt.HConcatChart

    Raises
    ------
    DataError
        If no prediction has a rank.
    """
    data = answers_among(runs)
    models = data["model"].unique().tolist()
    top = min(1.0, 1.05 * float(data["share"].max()))
    panels: list[Any] = []
    for name, part in data.groupby("set", sort=False):
        last = int(part["k"].max())
        base = alt.Chart(part[["model", "k", "share"]]).encode(
            x=alt.X("k:Q", title="k best words").scale(type="log", domain=[1, last], nice=False).axis(
                values=[tick for tick in _TICKS if tick <= last], format="~s"
            ),
            y=alt.Y("share:Q", title="answer among them").scale(domain=[0, top]).axis(format="%"),
            color=_colour(models),
            tooltip=["model:N", alt.Tooltip("k:Q", format=","), alt.Tooltip("share:Q", format=".1%")],
        )  # fmt: skip
        line = base.mark_line(interpolate="step-after", strokeWidth=2)
        points = base.mark_circle(size=90, opacity=0)  # something to point at
        panels.append(alt.layer(line, points, title=_head(str(name), part), width=_WIDTH, height=280))
    return theme.panel_row(panels)


def accuracy_by_context(runs: Mapping[str, Mapping[Reads, Any]]) -> pd.DataFrame:
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
    table = pd.DataFrame(rows, columns=["model", "set", "reads", "accuracy", "n"])
    low, high = wilson((table["accuracy"] * table["n"]).to_numpy(), table["n"].to_numpy())
    return table.assign(low=low, high=high)


def context(runs: Mapping[str, Mapping[Reads, Any]]) -> alt.HConcatChart:
    """Draw accuracy by how much of the passage is read: one panel a set of items, one line a model.

    Parameters
    ----------
    runs : mapping
        As for :func:`accuracy_by_context`. With a model that is trained here, ``model.with_context(4)``
        reads the last four words before the blank, ``model.with_context("sentence")`` those of the target
        sentence.

    Returns
    -------
    alt.HConcatChart
        Bars are Wilson's intervals (95 %).

    Raises
    ------
    DataError
        If there are no predictions.
    """
    data = accuracy_by_context(runs)
    models, steps = data["model"].unique().tolist(), data["reads"].unique().tolist()
    top = min(1.0, 1.05 * max(float(data["high"].max()), 0.01))
    panels: list[Any] = []
    for name, part in data.groupby("set", sort=False):
        x = alt.X("reads:O", title="words read before the target").scale(domain=steps).axis(labelAngle=0)
        base = alt.Chart(part.drop(columns=["set", "n"])).encode(
            x=x,
            color=_colour(models),
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
        panels.append(alt.layer(bars, line, title=_head(str(name), part), width=_WIDTH, height=240))
    return theme.panel_row(panels)


def _label(reads: Reads) -> str:
    return "all" if reads is None else f"{reads:,}" if isinstance(reads, int) else str(reads)
