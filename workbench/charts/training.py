"""Curves of a training: loss, speed and development scores over the words trained on."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.charts import theme
from workbench.charts.theme import picture
from workbench.training.history import Score, Training

_WIDTH, _HEIGHT = 190, 130
_POINTS = 150  # of a curve; more are averaged
_COLUMNS = 3


def training_curves(history: pd.DataFrame, scores: pd.DataFrame | None = None) -> alt.ConcatChart:
    """Draw the history of a training.

    Parameters
    ----------
    history : DataFrame
        As :meth:`workbench.training.history.Training.to_frame` returns it.
    scores : DataFrame, optional
        As :meth:`workbench.training.history.Training.scores_frame` returns it.

    Returns
    -------
    alt.ConcatChart
        A panel each for loss, speed and every score. A long history is averaged over equal stretches; values
        that are not finite are left out.
    """
    points = _averaged(history)
    panels = [
        _panel(points, "loss", ("training loss", "nats per word"), alt.Scale(zero=False)),
        _panel(points, "tokens_per_second", ("speed", "words per second"), alt.Scale(zero=True)),
    ]
    if scores is not None:
        panels += [_score_panel(scores, name) for name in scores.columns.drop(["step", "tokens", "seconds"])]
    return theme.themed(alt.concat(*panels, columns=_COLUMNS, spacing=24))


def training_html(training: Training) -> str:
    """Return a training as HTML: its numbers, and its curves as SVG in the colours of the page."""
    curves = ""
    if training.history or training.scores:
        chart = training_curves(training.to_frame(), training.scores_frame())
        curves = picture(chart.to_dict(), dark=None)
    return training.to_html(curves)


def _averaged(history: pd.DataFrame) -> pd.DataFrame:
    """Return at most `_POINTS` means of equal stretches of a history."""
    columns = ["tokens", "loss", "tokens_per_second"]
    points = history[columns].apply(pd.to_numeric, errors="coerce")
    if len(points) > _POINTS:
        points = points.groupby(np.arange(len(points)) * _POINTS // len(points)).mean()
    return pd.DataFrame(points)


def _panel(
    frame: pd.DataFrame, column: str, titles: tuple[str, str], scale: alt.Scale, *, marked: bool = False
) -> Any:
    """Return one curve over the words trained on, with the title of the panel and that of its axis."""
    finite = frame[["tokens", column]].replace([np.inf, -np.inf], np.nan).dropna()
    head = alt.TitleParams(titles[0], fontSize=12, offset=6)
    point = {"filled": True, "size": 24, "color": theme.PALETTE[0]} if marked else False
    return (
        alt.Chart(finite, width=_WIDTH, height=_HEIGHT, title=head)
        .mark_line(color=theme.PALETTE[0], strokeWidth=1.8, point=point)
        .encode(
            x=alt.X("tokens:Q", title="words trained on")
            .axis(tickCount=4, format="~s")
            .scale(nice=False, domainMin=0),
            y=alt.Y(f"{column}:Q", title=titles[1], scale=scale).axis(tickCount=4, format="~s"),
        )
    )


def _score_panel(scores: pd.DataFrame, name: str) -> Any:
    """Return the panel of a score: a share in percent from 0, perplexity and rank on a logarithmic axis."""
    score = Score.of(name)
    values = pd.to_numeric(scores[name], errors="coerce")
    values = 100 * values if score.percent else values.where(values > 0) if score.log else values
    frame = pd.DataFrame({"tokens": scores["tokens"], name: values})
    scale = alt.Scale(type="log", nice=False) if score.log else alt.Scale(zero=score.percent)
    unit = "%" if score.percent else f"{score.label} (log scale)" if score.log else score.label
    return _panel(frame, name, (f"development {score.label}", unit), scale, marked=True)
