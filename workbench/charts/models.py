"""Charts of models: training curves, caches, ranks of the answer, context and influence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.charts import theme
from workbench.evaluation.model_predictions import labels, predictions_of
from workbench.predictions.schema import mid_ranks
from workbench.probing.context_accuracy import CONTEXT_COLUMNS, expected_accuracy
from workbench.probing.influence import DISTANCES, influence_by_distance
from workbench.render.labels import VALUE_LABELS, column_label, label
from workbench.storage.errors import DataError
from workbench.training.history import Training, is_share

Reads = int | str | None
"""Context that a model reads: a number of words, ``"sentence"``, or all (None)."""

_NAMES = {"lambada/dev": "LAMBADA development", "lambada/test": "LAMBADA test", "lambada/control": "Control"}
_A_DECADE = 12  # points of a curve
_WIDTH = 330
_LINE = 54  # characters below the title of a panel
_POINTS = 150  # of a training's curve; more are averaged
_RIGHT = 0.7  # weights of a cache above have their label on the left
_SMALL = 0.05  # accuracies below need a decimal
_UNFOLDING = ("n_context_sentences", "n", "n_guessed", "share", "low", "high")
_TICKS = (1, 10, 100, 1000, 10_000, 100_000)
_DISTANCES = tuple(2**power for power in range(11))  # in words, on an axis


def answers_among(runs: Any) -> pd.DataFrame:
    """Return the share of items whose answer is among the k best words of a model, as `ranks` draws it.

    Columns are model, set (data set and split), k, share (fraction), n (items with a rank);
    ``.attrs["unranked"]`` lists model and set where no row has a rank.
    """
    rows = []
    unranked: list[tuple[str, str]] = []
    sources = predictions_of(runs)
    for source, model in zip(sources, labels(sources, by_set=True), strict=True):
        has_rank = source["rank"].notna() & source["vocabulary_size"].notna()
        ranked = source[has_rank]
        sets = source["dataset"].astype("str") + "/" + source["split"].astype("str")
        unranked += [(model, name) for name in sets.unique() if name not in set(sets[has_rank])]
        for (dataset, split), set_frame in ranked.groupby(["dataset", "split"], sort=False):
            ranks = mid_ranks(set_frame["rank"], set_frame["n_tied"])
            last = max(math.ceil(ranks.max()), 10)
            points = np.unique(np.geomspace(1, last, 1 + math.ceil(_A_DECADE * math.log10(last))).astype(int))
            sure = set_frame["known"].fillna(value=True) & ~set_frame["rank_is_bound"].fillna(value=False)
            ranks = np.sort(np.where(sure, ranks, last + 1))
            n, shares = len(ranks), np.searchsorted(ranks, points, side="right") / len(ranks)
            name = f"{dataset}/{split}"
            rows += [(model, name, int(k), float(s), n) for k, s in zip(points, shares, strict=True)]
    table = pd.DataFrame(rows, columns=["model", "set", "k", "share", "n"])
    theme.check_table(table, (), "ranks of predictions", "pass runs of models that rank a vocabulary")
    table.attrs["unranked"] = list(dict.fromkeys(unranked))
    return table


def panel_head(name: str, data: pd.DataFrame, note: str = "") -> alt.TitleParams:
    """Return the title of a set's panel, with the number of items in column `n`."""
    lines = [f"{counts(data['n'])} items", *wrap(note, _LINE)]
    return alt.TitleParams(text=_NAMES.get(name, name), subtitle=lines[0] if len(lines) == 1 else lines)


def counts(n: pd.Series[Any]) -> str:
    """Return the distinct numbers of a column: ``1,234``, ``90 or 120``; a range for more than two."""
    values = [f"{value:,}" for value in sorted(n.unique().tolist())]
    return " or ".join(values) if len(values) <= 2 else f"{values[0]} to {values[-1]}"  # noqa: PLR2004


def model_colour(models: Sequence[str], column: str = "model") -> alt.Color:
    """Return the colours of models, or of the values of another column, with a legend below."""
    colour: alt.Color = alt.Color(f"{column}:N", title=None).scale(theme.colours(models)).legend(
        orient="bottom", columns=3, columnPadding=24, symbolType="stroke", symbolStrokeWidth=3
    )  # fmt: skip
    return colour


def ranks(runs: Any) -> alt.HConcatChart:
    """Draw the ranks of the answers: one panel a set of items, one line and marker a model.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Predictions that rank a vocabulary; rows without a rank (scores of candidates, unknown answers of
        items) are left out, and the chart names models that have none. An answer outside the vocabulary
        stands behind all words, as does one whose rank is but a bound; one tied with other words has their
        mean rank. At k = 1 a line shows the accuracy, ties counted as wrong; where it crosses a half, the
        median rank.

    Raises
    ------
    DataError
        If no row has a rank.

    Examples
    --------
    >>> chart = wb.charts.ranks(runs)
    """
    data = answers_among(runs)
    models = data["model"].unique().tolist()
    top = min(1.0, 1.05 * float(data["share"].max()))
    panels: list[Any] = []
    notes = _unranked_notes(data)
    for name, set_data in data.groupby("set", sort=False):
        last = int(set_data["k"].max())
        step = set_data.groupby("model").cumcount()
        turn = set_data["model"].map({model: index for index, model in enumerate(models)})
        marked = (step % len(models) == turn) | (len(models) == 1)  # in turns, for lines that coincide
        base = alt.Chart(set_data[["model", "k", "share"]].assign(marked=marked)).encode(
            x=alt.X("k:Q", title="k best words").scale(type="log", domain=[1, last], nice=False).axis(
                values=[tick for tick in _TICKS if tick <= last], format="~s"
            ),
            y=alt.Y("share:Q", title="target in top k").scale(domain=[0, top]).axis(format="%"),
            color=model_colour(models),
            tooltip=["model:N", alt.Tooltip("k:Q", format=","), alt.Tooltip("share:Q", format=".1%")],
        )  # fmt: skip
        line = base.mark_line(interpolate="step-after", strokeWidth=2)
        points = base.mark_circle(size=90, opacity=0)  # something to point at
        marks = base.transform_filter("datum.marked").mark_point(filled=True, size=55, opacity=1)
        marks = marks.encode(shape=theme.point_shapes(models, "model"))
        panels.append(
            alt.layer(
                line, marks, points, width=_WIDTH, height=280,
                title=panel_head(str(name), set_data, notes.get(str(name), "")),
            )
        )  # fmt: skip
    return theme.panel_row(panels, "Ranks of the answers", data)


def _unranked_notes(data: pd.DataFrame) -> dict[str, str]:
    """Return the models without ranks, by set; the first panel names those of sets without a panel."""
    sets = data["set"].unique().tolist()
    names: dict[str, list[str]] = {}
    for model, name in data.attrs["unranked"]:
        drawn = name in sets
        names.setdefault(name if drawn else sets[0], []).append(
            model if drawn else f"{model} ({_NAMES.get(name, name)})"
        )
    return {name: f"no ranks: {'; '.join(models)}" for name, models in names.items()}


def accuracy_by_context(runs: Mapping[str, Mapping[Reads, Any]]) -> pd.DataFrame:
    """Return the accuracy of models by how much they read, as :func:`context_curve` draws it.

    Columns are those of :func:`workbench.context_accuracy`, and ``set`` (data set and split).
    """
    rows = [
        (
            model,
            "words",
            f"{dataset}/{split}",
            _label(reads),
            *expected_accuracy(data["p_correct"], data["book_id"]),
        )
        for model, by_reads in runs.items()
        for reads, several in by_reads.items()
        for source in predictions_of(several)
        for (dataset, split), data in source.dropna(subset=["p_correct"]).groupby(
            ["dataset", "split"], sort=False
        )
    ]
    return pd.DataFrame(rows, columns=["model", "unit", "set", *CONTEXT_COLUMNS[2:]])


def context_curve(
    data: pd.DataFrame | Mapping[str, Mapping[Reads, Any]],
) -> alt.LayerChart | alt.HConcatChart:
    """Draw accuracy by how much of the context is read, one line per model or for people.

    Parameters
    ----------
    data : DataFrame or mapping
        As :func:`workbench.context_accuracy` returns it; several may be joined if their unit is the same. Or
        for each model, by its name, how many words were read and the predictions that this gave: a run, a
        frame, the name of a run, or several of these: ``{"LSTM": {4: run, "sentence": run, None: run}}``,
        where None is all. With a model that is trained here, ``model.with_context(4)`` reads the last four
        words before the blank, ``model.with_context("sentence")`` the target sentence only.

    Returns
    -------
    alt.LayerChart or alt.HConcatChart
        Bars are 95 % intervals. Runs have a panel for each set of items.

    Raises
    ------
    DataError
        If a column is missing, there is no row, or units differ.

    Examples
    --------
    >>> chart = wb.charts.context_curve(wb.context_accuracy(ngram.cached(0.2), items, reads=(0, None)))
    >>> shorter = wb.predict(items, NGram.fit(wb.books("sample", "train"), order=2))
    >>> chart = wb.charts.context_curve({"n-gram": {1: shorter, 2: runs[1]}})
    """
    by_set = isinstance(data, Mapping)
    data = accuracy_by_context(data) if isinstance(data, Mapping) else data
    theme.check_table(data, CONTEXT_COLUMNS, "the curve", "pass what wb.context_accuracy returns")
    if len(units := data["unit"].unique()) != 1:
        raise DataError(f"expected a curve in one unit, got {len(units)}", hint="draw each unit by itself")
    title = {"sentences": "sentences of context read", "words": "words read before the target"}.get(
        units[0], units[0]
    )

    def order(step: str) -> tuple[bool, float]:
        digits = step.replace(",", "")
        return step == "all", float(digits) if digits.isdigit() else np.inf

    def panel(set_data: pd.DataFrame, head: alt.TitleParams, size: tuple[int, int]) -> alt.LayerChart:
        x = ("reads", title, sorted(data["reads"].unique().tolist(), key=order))
        set_data = set_data[list(CONTEXT_COLUMNS)].drop(columns="unit")
        return interval_curves(data, set_data, x, ("accuracy", "accuracy"), head=head, size=size)

    chart_name = "Accuracy by the context that is read"
    if by_set:
        sets = data.groupby("set", sort=False)
        panels = [panel(set_data, panel_head(str(name), set_data), (_WIDTH, 240)) for name, set_data in sets]
        return theme.panel_row(panels, chart_name, data)
    head = theme.chart_title(chart_name, [f"n = {counts(data['n'])}; bars: 95 % intervals"])
    return theme.themed(panel(data, head, (_WIDTH + 120, 260)), chart_name, data)


def interval_curves(
    data: pd.DataFrame,
    drawn: pd.DataFrame,
    x: tuple[str, str, Sequence[Any]],
    y: tuple[str, str],
    *,
    by: tuple[str, str] = ("model", "model"),
    n: str = "items",
    tooltip: Sequence[alt.Tooltip] = (),
    head: alt.TitleParams | None = None,
    size: tuple[int, int],
) -> alt.LayerChart:
    """Return lines of shares over steps, with their intervals side by side at each step.

    `drawn` is the subset of `data` to draw; all of `data` decides the colours and the vertical axis. `x`, `y`
    and `by` (a line each) are a column and its title, `x` with the order of its steps.
    """
    (step, title, steps), (share, axis), (line, heading) = x, y, by
    names = data[line].unique().tolist()
    base = alt.Chart(drawn).encode(
        x=alt.X(f"{step}:O", title=title).scale(domain=list(steps)).axis(labelAngle=0),
        xOffset=alt.XOffset(f"{line}:N").scale(domain=names, padding=4),
        color=model_colour(names, line),
        tooltip=[
            alt.Tooltip(f"{line}:N", title=heading),
            alt.Tooltip(f"{step}:O", title=title),
            *tooltip,
            *theme.share_tooltips(share, "low", "high"),
            alt.Tooltip("n:Q", title=n, format=","),
        ],
    )
    layers = theme.curve_layers(base, share, theme.share_axis(data, axis))
    heading_above = alt.Undefined if head is None else head
    return alt.LayerChart(layer=layers, width=size[0], height=size[1], title=heading_above)


def accuracy_by_window(runs: Mapping[int | str, Any]) -> pd.DataFrame:
    """Return the accuracy of memory networks by the size of their memories and the class of the missing word.

    Columns are window (text), word_class (its name), accuracy (expected, a fraction), n (items), low, high
    (95 % interval, as of :func:`workbench.context_accuracy`).
    """
    rows: list[tuple[Any, ...]] = []
    for window, several in runs.items():
        frames = predictions_of(several)
        frame = pd.concat([frame[frame["word_class"].notna()] for frame in frames])
        columns = frame.groupby(["word_class", "item_id"])[["p_correct", "book_id"]]
        classes = columns.agg({"p_correct": "mean", "book_id": "first"}).groupby("word_class")
        for name, text in VALUE_LABELS["word_class"].items():
            if name in classes.groups:
                of_class = classes.get_group(name)
                values = expected_accuracy(of_class["p_correct"], of_class["book_id"])
                rows.append((_label(window), text, *values))
    table = pd.DataFrame(rows, columns=["window", "word_class", *CONTEXT_COLUMNS[3:]])
    theme.check_table(table, (), "accuracy by window", "pass predictions with a class of the missing word")
    return table


def windows(runs: Mapping[int | str, Any]) -> alt.LayerChart:
    """Draw accuracy by the size of the memories, one line a class: the Goldilocks curve.

    Hill et al. (2016), "The Goldilocks Principle", section 5: between a word and a sentence there is a size
    of memories that is best, another one for each class of the missing word.

    Parameters
    ----------
    runs : mapping
        By the words of a window, or ``"sentence"``, the predictions: a run, a frame, the name of a run, or
        several of these, such as those of several seeds, whose mean is taken. Drawn in the order given.

    Returns
    -------
    alt.LayerChart
        Bars are 95 % intervals; the legend has the number of questions of each class.

    Raises
    ------
    DataError
        If there are no predictions of items with a class of the missing word.

    Examples
    --------
    >>> from workbench.models import MaximumFrequency
    >>> questions = wb.load("sample", variant="cbt")
    >>> run = wb.predict(questions, MaximumFrequency("context"))
    >>> chart = wb.charts.windows({1: run, "sentence": run})
    """
    data = accuracy_by_window(runs)
    n = data.groupby("word_class")["n"].agg(counts)
    data["word_class"] += " (n = " + data["word_class"].map(n) + ")"
    x = ("window", "words of a memory", data["window"].unique().tolist())
    by = ("word_class", "missing word")
    size = (_WIDTH, 240)
    chart = interval_curves(data, data, x, ("accuracy", "accuracy"), by=by, n="questions", size=size)
    return theme.themed(chart, "Accuracy by the words of a memory", data)


def context_needed(curves: Mapping[str, pd.DataFrame]) -> alt.LayerChart:
    """Draw the cumulative share of items guessed by the number of context sentences.

    Parameters
    ----------
    curves : mapping
        For each person or model, by name, a frame as :func:`workbench.people.unfold` or the method
        ``context_shares`` of a game returns it.

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
    frames = []
    for name, frame in curves.items():
        hint = "pass what context_shares() of a game returns once an item is finished"
        theme.check_table(frame, _UNFOLDING, f"the curve of {name!r:.60}", hint)
        frames.append(frame[list(_UNFOLDING)].assign(model=str(name)))
    data = pd.concat(frames, ignore_index=True)
    column = "n_context_sentences"
    x = (column, label(column), range(int(data[column].max()) + 1))
    guessed = [alt.Tooltip("n_guessed:Q", format=",", title="guessed")]
    name = "Context that is needed"
    head = theme.chart_title(name, [f"{counts(data['n'])} items; bars: 95 % (Wilson)"])
    size = (420, 280)
    chart = interval_curves(data, data, x, ("share", "items guessed"), tooltip=guessed, head=head, size=size)
    return theme.themed(chart, name, data)


def _label(reads: Reads) -> str:
    return "all" if reads is None else f"{reads:,}" if isinstance(reads, int) else str(reads)


def influence_curve(
    parts: Any,
    value: str = "influence",
    *,
    edges: Any = DISTANCES,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> alt.LayerChart:
    """Draw the mean influence of parts by their distance from the answer, one line per model.

    Parameters
    ----------
    parts : DataFrame or mapping of str to DataFrame
        What :func:`wb.influence` returned, for one or several models by name.
    value, edges, level, resamples, seed
        Options of :func:`workbench.probing.influence.influence_by_distance`, which computes the means and
        their bootstrap intervals.

    Returns
    -------
    alt.LayerChart
        Bars are the intervals; the distance has a logarithmic scale. It holds one row per model and bin.

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
            values=[tick for tick in _DISTANCES if tick <= last], format="~s"
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
    zero = alt.Chart().mark_rule(color=theme.INK, opacity=0.4, aria=False).encode(y=alt.datum(0))
    n_missing = data.attrs["n_missing"]
    n = counts(data.groupby("model")["n"].max())
    facts = [f"{n} items; bars: {level:.0%} bootstrap intervals over items"]
    if n_missing:
        facts.append(f"{n_missing:,} parts without a finite value are not counted")
    layers = [zero, *theme.curve_layers(base, value, axis)]
    name = f"{label(value)} by distance"
    title = theme.chart_title(name, facts)
    return theme.themed(alt.LayerChart(layer=layers, width=420, height=240, title=title), name, data)


# -- the curves of a training


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

    Examples
    --------
    >>> import pandas as pd
    >>> history = pd.DataFrame({"tokens": [1000, 2000], "loss": [9.1, 8.2], "tokens_per_second": [800, 900]})
    >>> chart = wb.charts.training_curves(history)
    """
    columns = ["tokens", "loss", "tokens_per_second"]
    theme.check_table(history, columns, "the history", "pass model.training_record.to_frame()")
    unit = history.attrs.get("unit", "words")
    points = history[columns].apply(pd.to_numeric, errors="coerce")
    if len(points) > _POINTS:
        points = points.groupby(np.arange(len(points)) * _POINTS // len(points)).mean()
    points.attrs["unit"] = unit
    loss = "nats per word" if unit == "words" else "per question"
    panels = [
        _curve(points, "loss", ("training loss", loss), alt.Scale(zero=False)),
        _curve(points, "tokens_per_second", ("speed", f"{unit} per second"), alt.Scale(zero=True)),
    ]
    if scores is not None:
        panels += [_score_curve(scores, name) for name in scores.columns.drop(["step", "tokens", "seconds"])]
    chart = alt.concat(*panels, columns=3, spacing=24)
    return theme.themed(chart, "Curves of the training", points, *([] if scores is None else [scores]))


def training_html(training: Training) -> str:
    """Return a training as HTML: its numbers, and its curves as SVG that follows the page's theme."""
    curves = ""
    if training.history or training.scores:
        chart = training_curves(training.to_frame(), training.scores_frame())
        curves = theme.picture(chart.to_dict(), dark=None)
    return training.to_html(curves)


def _curve(
    frame: pd.DataFrame, column: str, titles: tuple[str, str], scale: alt.Scale, *, marked: bool = False
) -> Any:
    values = pd.DataFrame({"tokens": frame["tokens"], "value": frame[column]})  # a score has any name
    unit = frame.attrs.get("unit", "words")
    finite = values.replace([np.inf, -np.inf], np.nan).dropna()
    head = alt.TitleParams(titles[0], fontSize=12, offset=6)
    point = {"filled": True, "size": 24, "color": theme.PALETTE[0]} if marked or len(finite) == 1 else False
    return (
        alt.Chart(finite, width=190, height=130, title=head)
        .mark_line(color=theme.PALETTE[0], strokeWidth=1.8, point=point)
        .encode(
            x=alt.X("tokens:Q", title=f"{unit} trained on")
            .axis(tickCount=4, format="~s")
            .scale(nice=False, domainMin=0),
            y=alt.Y("value:Q", title=titles[1], scale=scale).axis(tickCount=4, format="~s"),
        )
    )


def _score_curve(scores: pd.DataFrame, name: str) -> Any:
    """Return the panel of a score: a share in percent from 0, others on a logarithmic axis."""
    label = name.replace("_", " ")
    values = pd.to_numeric(scores[name], errors="coerce")
    values = 100 * values if is_share(name) else values.where(values > 0)
    frame = pd.DataFrame({"tokens": scores["tokens"], name: values})
    frame.attrs.update(scores.attrs)
    scale, unit = alt.Scale(type="log", nice=False), f"{label} (log scale)"
    if is_share(name):  # without an end, all of it 0 would be drawn from -1 to 1
        highest = float(values.max()) if values.notna().any() else 0.0
        scale, unit = alt.Scale(domain=[0, max(1.0, 1.05 * highest)]), "%"
    return _curve(frame, name, (f"development {label}", unit), scale, marked=True)


def tuning(trials: pd.DataFrame) -> alt.HConcatChart:
    """Draw accuracy and perplexity on each set against the weight of a cache, or the alpha of boosting.

    Parameters
    ----------
    trials : DataFrame
        The ``.trials`` of a tuned model, with the columns weight (or alpha), set, accuracy (fraction),
        perplexity and chosen. Of other parameters (flatness, k) the chosen value is drawn.

    Returns
    -------
    alt.HConcatChart
        One line per set; a vertical line marks the chosen weight. Perplexity is on a logarithmic axis, and
        left out without one.

    Raises
    ------
    DataError
        If a column is missing.

    Examples
    --------
    >>> from workbench.models import NGram
    >>> ngram = NGram.fit(wb.books("sample", "train"), order=2)
    >>> cached = ngram.cached().tuned(wb.load("sample", "dev").sample(20), weights=(0, 0.1, 0.2, 0.4, 0.8))
    >>> chart = wb.charts.tuning(cached.trials)
    """
    parameter = "alpha" if "alpha" in getattr(trials, "columns", ()) else "weight"
    needed = (parameter, "set", "accuracy", "perplexity", "chosen")
    theme.check_table(trials, needed, "the table of trials", "pass .trials of a tuned model")
    best = trials[trials["chosen"]].iloc[0]
    data = trials
    for other in {"flatness", "k"} & set(data):
        data = data[data[other] == best[other]]
    data = data[sorted(set(needed) - {"chosen"})].assign(set=data["set"].replace(_NAMES))
    panels = [_trial_panel(data, "accuracy", parameter, float(best[parameter]))]
    if data["perplexity"].notna().any():
        panels.append(_trial_panel(data, "perplexity", parameter, float(best[parameter])))
    name = f"Trials of the {'weight of the cache' if parameter == 'weight' else parameter}"
    return theme.panel_row(panels, name, data)


def _trial_panel(data: pd.DataFrame, measure: str, parameter: str, value: float) -> alt.LayerChart:
    names, share = data["set"].unique().tolist(), measure == "accuracy"
    top = max(1.08 * float(data[measure].max()), 0.01)
    scale = alt.Scale(domain=[0, min(1.0, top)], nice=False) if share else alt.Scale(type="log", nice=False)
    unit = "~s" if not share else ".1%" if data[measure].max() < _SMALL else "%"
    title = "accuracy" if share else "perplexity (log scale)"
    y = alt.Y(f"{measure}:Q", title=title, scale=scale).axis(format=unit)
    colour = alt.Color("set:N", title=None).scale(theme.colours(names))
    colour = colour.legend(orient="bottom", symbolType="stroke")
    is_weight = parameter == "weight"
    title, last = ("weight of the cache", 1.0) if is_weight else ("alpha", float(data[parameter].max()))
    values = alt.Tooltip(f"{measure}:Q", format=".1%" if share else ",.0f")
    tooltip: list[Any] = ["set:N", alt.Tooltip(f"{parameter}:Q", title=title), values]
    x = alt.X(f"{parameter}:Q", title=title).axis(format="~g")
    x = x.scale(domain=[min(0.0, float(data[parameter].min())), last])
    lines = (
        alt.Chart(data[np.isfinite(data[measure])])
        .mark_line(strokeWidth=2, point={"size": 45, "filled": True})
        .encode(x=x, y=y, color=colour, tooltip=tooltip)
    )
    mark = pd.DataFrame({parameter: [value], "label": [f"chosen: {value:g}"]})
    rule = alt.Chart(mark).mark_rule(color=theme.INK, strokeDash=[4, 3]).encode(x=x)
    flip = value > _RIGHT * last
    text = rule.mark_text(color=theme.INK, align="right" if flip else "left", dx=-5 if flip else 5, dy=-6)
    text = text.encode(text="label:N", y=alt.value(0))
    return alt.LayerChart(layer=[lines, rule, text], width=300, height=240)
