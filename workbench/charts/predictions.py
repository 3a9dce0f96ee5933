"""Charts of predictions: accuracy by a column and by protocol, and the log-probabilities of two models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pandas as pd

from workbench.charts import theme
from workbench.charts.models import counts, model_colour, panel_head
from workbench.evaluation.minimal_pairs import is_pairs
from workbench.evaluation.model_predictions import labels, predictions_of
from workbench.evaluation.significance import single_model
from workbench.evaluation.slices import bins_of, joined
from workbench.items.items import Items
from workbench.probing.context_accuracy import with_intervals
from workbench.render.labels import label
from workbench.render.numbers import percent, points, span
from workbench.storage.errors import check_option

if TYPE_CHECKING:
    from workbench.probing.protocols import ProtocolRuns

_MOST = 2000  # items that are points of their own
_CELLS = 36  # bins each way where there are more
_SIDE = 340  # pixels
_BAND = 56  # pixels a group
_KINDS = ("accuracy", "rises", "falls")  # of the bars of a waterfall
_OUTCOMES = ("both right", "only A right", "only B right", "both wrong")


def accuracy_by_column(
    runs: Any,
    annotations: Items | pd.DataFrame | None = None,
    *,
    by: str,
    bins: int | Sequence[float] | None = None,
    items: Items | None = None,
) -> pd.DataFrame:
    """Return the accuracy of models by a column, as :func:`accuracy` draws it.

    Columns are model, set (data set and split), group, accuracy (a fraction), n (items), low, high (Wilson's
    interval, 95 %); groups are in the order of the column's values, without empty ones.
    """
    sources = predictions_of(runs, items)
    frames = [
        joined(source, [by], items, annotations).assign(model=model)
        for source, model in zip(sources, labels(sources, by_set=True), strict=True)
    ]
    table = pd.concat(frames, ignore_index=True)
    table = table[table["correct"].notna()].reset_index(drop=True)
    check_option("by", by, [*map(str, table.columns)])
    groups = bins_of(by, table[by], bins)
    keys = ["model", "dataset", "split"]
    rows = [
        (model, f"{dataset}/{split}", group.label, set_rows["correct"].mean(), len(set_rows))
        for group in groups
        for (model, dataset, split), set_rows in table[group.mask].groupby(keys, sort=False)
    ]
    shares = with_intervals(rows, ["model", "set", "group", "accuracy", "n"])
    theme.check_table(shares, (), f"accuracy by {by!r}", "choose a column of numbers, words or truths")
    return shares


def accuracy(
    runs: Any,
    annotations: Items | pd.DataFrame | None = None,
    *,
    by: str,
    bins: int | Sequence[float] | None = None,
    items: Items | None = None,
) -> alt.HConcatChart | alt.LayerChart:
    """Draw the accuracy of models by any column, with Wilson's 95 % intervals: one panel a set of items.

    Minimal pairs (:func:`workbench.score_pairs`) are a dot plot: one line per set of pairs, the highest
    accuracy first.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Predictions; each model has a colour of its own.
    annotations : DataFrame or Items, optional
        One row per item, with ``item_id`` as a column or the index, where `by` is a column of it.
    by : str
        The column: a choice, a truth value or a number, such as ``target_class`` or ``mention_distance``; of
        the predictions, of annotations, or of one's own (``items.extra``), which a stored run knows.
    bins : int or sequence of float, optional
        Number of bins for a column of numbers (about equally many items each), or their edges.
        By default 5 ranges, or each value where there are few.
    items : Items, optional
        The predicted items.

    Returns
    -------
    alt.HConcatChart, or alt.LayerChart of minimal pairs
        Below each group is the number of its items.

    Raises
    ------
    DataError
        If there are no predictions, no such column, or it holds lists.

    Examples
    --------
    >>> chart = wb.charts.accuracy(runs, annotations, by="target_class")
    >>> chart = wb.charts.accuracy(runs, annotations, by="mention_distance", bins=[10, 40])
    """
    if is_pairs(runs):
        return _dot_plot(runs, by)
    data = accuracy_by_column(runs, annotations, by=by, bins=bins, items=items)
    models, groups = data["model"].unique().tolist(), data["group"].unique().tolist()
    shares = theme.share_axis(data, label("accuracy"))
    panels: list[Any] = []
    for name, set_data in data.groupby("set", sort=False):
        sizes = set_data.groupby("model", sort=False)["n"].sum().rename("n").reset_index()
        n = set_data.groupby("group", sort=False)["n"].agg(counts).to_dict()
        labels = {group: f"{group}\nn = {n[group]}" for group in groups if group in n}
        axis: dict[str, Any] = {"labelAngle": 0, "labelLimit": 120, "labelExpr": "split(datum.label, '\\n')"}
        base = alt.Chart(set_data.drop(columns="set").assign(label=set_data["group"].map(labels))).encode(
            x=alt.X("label:N", title=label(by, unit=True), sort=list(labels.values())).axis(**axis),
            xOffset=alt.XOffset("model:N", sort=models).scale(domain=models, padding=0.6),
            color=model_colour(models),
            tooltip=["model:N", alt.Tooltip("group:N", title=label(by)), alt.Tooltip("n:Q", format=","),
                     *theme.share_tooltips("accuracy", "low", "high")],
        )  # fmt: skip
        points = base.mark_point(filled=True, size=60, opacity=1).encode(y=alt.Y("accuracy:Q", **shares))
        letters = max(len(line) for text in labels.values() for line in text.split("\n"))
        wide = max(_BAND, 14 * len(models) + 18, 7 * letters + 14) * len(labels)
        head = panel_head(str(name), sizes)
        panels.append(
            alt.layer(theme.interval_bars(base, shares), points, title=head, width=wide, height=260)
        )
    return theme.panel_row(panels, f"Accuracy by {label(by).lower()}", data)


def _dot_plot(pairs: pd.DataFrame, by: str) -> alt.LayerChart:
    """Return the accuracies of models on minimal pairs, one line per value of a column."""
    check_option("by", by, [*map(str, pairs.columns)])
    groups = pairs.groupby(["model", by], sort=False, observed=True)["correct"]
    rows = [(model, group, float(right.mean()), len(right)) for (model, group), right in groups]
    data = with_intervals(rows, ["model", "group", "accuracy", "n"])
    theme.check_table(data, (), f"accuracy by {by!r}", "choose a column with values")
    models = data["model"].unique().tolist()
    means = data.groupby("group")["accuracy"].mean().sort_values(ascending=False, kind="stable")
    axis: dict[str, Any] = {
        "title": label("accuracy"), "scale": alt.Scale(domain=[0, 1]), "axis": alt.Axis(format="%")
    }  # fmt: skip
    base = alt.Chart(data).encode(
        y=alt.Y("group:N", title=label(by), sort=means.index.tolist()).axis(labelLimit=300),
        yOffset=alt.YOffset("model:N", sort=models).scale(domain=models, padding=0.6),
        color=model_colour(models),
        tooltip=["model:N", alt.Tooltip("group:N", title=label(by)), alt.Tooltip("n:Q", format=","),
                 *theme.share_tooltips("accuracy", "low", "high")],
    )  # fmt: skip
    intervals = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", **axis), x2="high:Q")
    dots = base.mark_point(filled=True, size=50, opacity=1).encode(
        x=alt.X("accuracy:Q", **axis), shape=theme.point_shapes(models, "model")
    )
    chance = alt.Chart(pd.DataFrame({"x": [0.5]})).mark_rule(color=theme.INK, strokeDash=[4, 3], opacity=0.6)
    height = max(22, 9 * len(models) + 6) * len(means)
    head = theme.chart_title("Accuracy on minimal pairs", ["95 % intervals (Wilson); dashed: chance"])
    layers = alt.LayerChart(layer=[chance.encode(x=alt.X("x:Q", **axis)), intervals, dots])
    chart = layers.properties(width=_SIDE, height=height, title=head)
    return theme.themed(chart, f"Accuracy on minimal pairs by {label(by)}", data)


def scatter(run_a: Any, run_b: Any) -> alt.LayerChart:
    """Draw the log-probabilities of the answers, one model against another.

    Above the diagonal the second model gives the answer a higher probability. Up to 2,000 items are points,
    whose tooltips name the item; more are counted in square bins.

    Parameters
    ----------
    run_a, run_b : Run, DataFrame or str
        Predictions of one model each, with log-probabilities; the items of both are drawn.

    Returns
    -------
    alt.LayerChart

    Raises
    ------
    DataError
        If there is not one model on each side, or no item has a finite log-probability of both.

    Examples
    --------
    >>> chart = wb.charts.scatter(runs[1], runs[1])
    """
    model_a, model_b = single_model(run_a, "the first run"), single_model(run_b, "the second run")
    columns = ["item_id", "answer", "log_prob", "correct"]
    pair = model_a[columns].merge(model_b[["item_id", "log_prob", "correct"]], on="item_id")
    finite = np.isfinite(pair[["log_prob_x", "log_prob_y"]].to_numpy(dtype=float)).all(axis=1)
    data = pair.loc[finite].rename(columns={"log_prob_x": "a", "log_prob_y": "b"})
    hint = "pass runs over the same items, of models whose score_type is log_prob"
    theme.check_table(data, (), "finite log-probabilities of both models", hint)
    first, second = data["correct_x"].astype(bool), data["correct_y"].astype(bool)
    cases = [first & second, first & ~second, second & ~first]
    data = data.assign(outcome=np.select(cases, _OUTCOMES[:3], _OUTCOMES[3]))
    low = float(data[["a", "b"]].to_numpy().min())
    scale = alt.Scale(domain=[min(1.03 * low, -1.0), 0], nice=False)
    names = labels([model_a, model_b])
    titles = [f"{name} ({letter}), ln p of the answer" for name, letter in zip(names, "AB", strict=True)]
    x, y = alt.X("a:Q", title=titles[0], scale=scale), alt.Y("b:Q", title=titles[1], scale=scale)
    if len(data) <= _MOST:
        colours = alt.Scale(domain=list(_OUTCOMES), range=[*theme.PALETTE[:3], theme.PALETTE[6]])
        numbers = [
            alt.Tooltip(f"{letter}:Q", format=".2f", title=f"ln p, {letter.upper()}") for letter in "ab"
        ]
        table = data[["item_id", "answer", "a", "b", "outcome"]]
        marks = alt.Chart(table).mark_point(filled=True, size=26, opacity=0.7)
        colour = alt.Color("outcome:N", title=None, scale=colours, legend=alt.Legend(orient="bottom"))
        marks = marks.encode(
            x=x, y=y, color=colour, shape=theme.point_shapes(_OUTCOMES, "outcome"),
            tooltip=[alt.Tooltip("item_id:N", title=label("item_id")), "answer:N", "outcome:N", *numbers],
        )  # fmt: skip
    else:
        table = _squares(data, scale)
        marks = alt.Chart(table).mark_rect().encode(
            x=x, y=y, x2="a2:Q", y2="b2:Q", tooltip=[alt.Tooltip("items:Q", format=",")],
            opacity=alt.Opacity("items:Q", title="items", scale=alt.Scale(type="log", range=[0.15, 1])),
            color=alt.value(theme.PALETTE[0]),
        )  # fmt: skip
    ends = pd.DataFrame({"a": scale.domain, "b": scale.domain})
    line = alt.Chart(ends).mark_line(color=theme.INK, strokeDash=[4, 3], strokeWidth=1, opacity=0.6)
    left_out = len(pair) - len(data)
    rest = f" ({left_out:,} without a finite log-probability left out)" if left_out else ""
    note = f"{len(data):,} items{rest}"
    name = f"{label('log_prob', unit=True)} of the answer"
    head = theme.chart_title(name, [note])
    layers = alt.LayerChart(layer=[line.encode(x=x, y=y), marks])
    return theme.themed(layers.properties(width=_SIDE, height=_SIDE, title=head), name, table)


def waterfall(result: ProtocolRuns) -> alt.LayerChart:
    """Draw the effect of each change of the protocol on the accuracy of a model.

    Parameters
    ----------
    result : ProtocolRuns
        As :func:`workbench.protocols` returns it.

    Returns
    -------
    alt.LayerChart
        One bar per step, from the accuracy before it to that after it, with the change and its paired
        interval; the first and the last bar are the accuracies themselves.

    Examples
    --------
    >>> variants = [wb.load("sample", "test", variant=name) for name in ("plain", "capitalised")]
    >>> protocols = [{"text": "plain"}, {"text": "capitalised"}]
    >>> chart = wb.charts.waterfall(wb.protocols(ngram, variants, protocols))
    """
    table: Any = getattr(result, "table", None)
    theme.check_table(table, ("factor", "after"), "the effect of protocols", "pass what wb.protocols returns")
    frame = table[table["factor"] != "total"]
    frame = frame.astype({f"difference_{end}": "float64" for end in ("low", "high")})  # NaN where not known
    accuracy = frame["accuracy"].to_numpy(dtype=float)
    first = {"label": f"first\n{frame['after'].iloc[0]}", "start": 0.0, "end": accuracy[0]}
    rows = [first | {"kind": _KINDS[0], "text": percent(accuracy[0])}]
    for before, row in zip(accuracy, frame.to_dict("records")[1:], strict=False):
        low, high = (float(row[f"difference_{end}"]) for end in ("low", "high"))
        change = float(row["difference"])
        rows.append({
            "label": f"{row['factor']}\n{row['before']} \N{RIGHTWARDS ARROW} {row['after']}",
            "start": before, "end": before + change, "low": before + low, "high": before + high,
            "kind": _KINDS[1 if change > 0 else 2 if change < 0 else 0],
            "text": f"{points(change)} {span(low, high, points)}".rstrip(),
            "gained": row["n_gained"], "lost": row["n_lost"],
        })  # fmt: skip
    if len(rows) > 1:
        last = {"label": f"last\n{table['after'].iloc[-1]}", "start": 0.0, "end": accuracy[-1]}
        rows.append(last | {"kind": _KINDS[0], "text": percent(accuracy[-1])})
    data = pd.DataFrame(rows, columns=[*rows[0], "low", "high", "gained", "lost"])
    data["edge"] = data[["start", "end", "high"]].max(axis=1)
    domain = [name for name in _KINDS if name in set(data["kind"])]
    grey, orange, green = theme.PALETTE[6], *theme.PALETTE[1:3]
    colours = dict(zip(_KINDS, (grey, green, orange), strict=True))
    scale = alt.Scale(domain=domain, range=[colours[name] for name in domain])
    top = min(1.0, 1.45 * max(float(data["edge"].max()), 0.01))
    longest = max(len(line) for text in data["label"] for line in text.split("\n"))
    axis = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=0, minExtent=7 * longest)
    base = alt.Chart(data).encode(y=alt.Y("label:N", title=None, sort=data["label"].tolist(), axis=axis))
    x: dict[str, Any] = {"title": label("accuracy"), "scale": alt.Scale(domain=[0, top])}
    x["axis"] = alt.Axis(format="%")
    bars = base.mark_bar(size=16).encode(
        x=alt.X("start:Q", **x), x2="end:Q",
        color=alt.Color("kind:N", title=None, scale=scale, legend=alt.Legend(orient="bottom")),
        tooltip=[
            alt.Tooltip("end:Q", title=label("accuracy"), format=".1%"),
            *(alt.Tooltip(f"{name}:Q", title=label(f"n_{name}")) for name in ("gained", "lost")),
        ],
    )  # fmt: skip
    rules = base.transform_filter("datum.low != null").mark_rule(color=theme.INK, strokeWidth=1.5, clip=True)
    rules = rules.encode(x=alt.X("low:Q", **x), x2="high:Q")
    ticks = base.mark_tick(color=theme.INK, thickness=2, size=16).encode(x=alt.X("end:Q", **x))
    texts = base.mark_text(align="left", dx=6, color=theme.INK).encode(
        x=alt.X("edge:Q", **x), text=alt.Text("text:N")
    )
    level = 100 * result.comparison.sampling.level
    note = f"{result.comparison.n:,} items; in brackets: {level:g} % paired intervals (points)"
    name = f"{result.model}: accuracy by protocol"
    head = theme.chart_title(name, [note])
    layers = alt.LayerChart(layer=[bars, ticks, rules, texts])
    return theme.themed(layers.properties(width=_SIDE + 80, height=46 * len(data), title=head), name, frame)


def _squares(data: pd.DataFrame, scale: alt.Scale) -> pd.DataFrame:
    """Return the number of items in each square bin that has one."""
    low, high = map(float, scale.domain)
    edges = np.linspace(low, high, _CELLS + 1)
    counts, _, _ = np.histogram2d(data["a"], data["b"], bins=[edges, edges])
    across, up = np.nonzero(counts)
    return pd.DataFrame(
        {"a": edges[across], "a2": edges[across + 1], "b": edges[up], "b2": edges[up + 1],
         "items": counts[across, up].astype(int)}
    )  # fmt: skip
