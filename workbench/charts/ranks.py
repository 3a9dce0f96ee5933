"""Where models put the right word: the share of items whose answer is among the k best words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.charts import theme
from workbench.evaluation.reading import predictions_of
from workbench.items.schema import DataError

_NAMES = {"lambada/dev": "LAMBADA development", "lambada/test": "LAMBADA test", "lambada/control": "Control"}
_A_DECADE = 12  # points of a curve
_WIDTH, _HEIGHT = 330, 280
_TICKS = (1, 10, 100, 1000, 10_000, 100_000)


def shares(runs: Any) -> pd.DataFrame:
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
            found = np.searchsorted(rank, points, side="right") / len(rank)
            name = f"{dataset}/{split}"
            rows += [
                (source.model, name, int(k), float(s), len(rank)) for k, s in zip(points, found, strict=True)
            ]
    if not rows:
        raise DataError("no prediction has a rank", remedy="pass runs of models that rank a vocabulary")
    return pd.DataFrame(rows, columns=["model", "set", "k", "share", "n"])


def head(name: str, part: pd.DataFrame) -> alt.TitleParams:
    """Return the title of a set's panel; the column `n` says how many items it is drawn from."""
    n = " or ".join(f"{x:,}" for x in sorted(part["n"].unique().tolist()))
    return alt.TitleParams(text=_NAMES.get(name, name), subtitle=f"{n} items")


def of_models(models: Sequence[str]) -> alt.Color:
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
        As for :func:`shares`. At k = 1 a line shows the accuracy, ties counted as right; where it crosses
        a half, the median rank.

    Returns
    -------
    alt.HConcatChart

    Raises
    ------
    DataError
        If no prediction has a rank.
    """
    data = shares(runs)
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
            color=of_models(models),
            tooltip=["model:N", alt.Tooltip("k:Q", format=","), alt.Tooltip("share:Q", format=".1%")],
        )  # fmt: skip
        line = base.mark_line(interpolate="step-after", strokeWidth=2)
        points = base.mark_circle(size=90, opacity=0)  # something to point at
        panels.append(alt.layer(line, points, title=head(str(name), part), width=_WIDTH, height=_HEIGHT))
    return theme.row(panels)
