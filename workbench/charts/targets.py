"""Charts of annotations: context, classes, quoted speech, distances and lengths (Paperno et al. 2016).

Bars are shares with Wilson's 95 % intervals, one group per category and one bar per set. The paper's values
stand beside the sets that it analysed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
import pandas as pd

from workbench.analysis import statistics
from workbench.analysis.statistics import Sets
from workbench.charts import theme
from workbench.datasets import published
from workbench.render.labels import label
from workbench.storage.errors import DataError, check_option

Beside = bool | Mapping[str, str]
"""True: by the sets' items and names; False: none; or set name -> set of the paper."""

PublishedBars = Mapping[str, tuple[str, str]]
"""Label of a bar -> figure and quantity in the published table."""

STAND_IN = "the paper's input sample was not released: its values stand beside the unfiltered control set"
_SOURCES = {"lambada/dev": "lambada", "lambada/test": "lambada", "lambada/control": "input"}
_MARKS = ["set", "label", "share", "kind", "shape", "source"]
_SOURCE = ["set", "label", "source"]  # of the paper's values in a table

_HEIGHT = 260  # of a plot, in pixels
_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
_TICKS = 8
_WIDE = 6.5  # pixels a letter of a label
_ORDER = ("diamond", "triangle-up", "triangle-down")
_ASIDE = 0.77  # of a bar's width: the paper's mark stands beside the interval, which has the middle

_IN_CONTEXT: PublishedBars = {
    "in context": ("2a", "target (or its lemma) in context"),
    "not in context": ("text", "target (or its lemma) not in context"),
}
_CLASSES: PublishedBars = {"PN": ("2b", "proper nouns"), "CN": ("2b", "common nouns"), "V": ("2b", "verbs")}
_OUT: PublishedBars = {"PN": ("2c", "proper nouns among targets whose lemma is not in context")}
_AXIS = "PN proper noun, CN common noun, V verb, J adjective, R adverb, O other"
_SPEECH: PublishedBars = {"in the passage": ("text", "passages with quoted direct speech")}
_WIDTH = 460  # of a histogram, in pixels
_SPARE = 0.08  # of a bin, around it
_ROOM = 0.12  # of the height, for the means
_LINE = 84  # characters below the title of a histogram
_MEAN, _PAPER = "mean", "paper's mean"
_LENGTHS = {
    "n_tokens": ("tokens", "tokens per passage"),
    "n_context_sentences": ("sentences", "context sentences per passage"),
}
_FEW = 40  # pixels a bar where there are two groups only


def in_context(
    sets: Sets,
    *,
    by: Literal["lemma", "form"] = "lemma",
    within: Literal["passage", "context"] = "passage",
    paper: Beside = True,
    title: str | None = None,
) -> alt.LayerChart:
    """Draw the share of targets that occur elsewhere in their passage: Figure 2a.

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations (from ``wb.annotate``), or several by name: ``{"LAMBADA": a, "control": b}``.
    by : {"lemma", "form"}
        The form or its lemma (as in the paper), or the very form.
    within : {"passage", "context"}
        Region: the whole passage, or the sentences before the target sentence only.
    paper : bool, or mapping of str to str, default True
        Mark the paper's values: by the sets' items (LAMBADA's development and test set beside ``lambada``,
        the control set beside ``input``), or as the mapping says.
    title : str, optional
        Replaces the chart's title.

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals; its data hold the aggregates only.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named).

    Examples
    --------
    >>> chart = wb.charts.in_context({"LAMBADA": annotations}, by="form")
    """
    frames = statistics.named_sets(sets)
    subject = "Target" if by == "form" else "Target (or its lemma)"
    where = "in the passage" if within == "passage" else "in the context sentences"
    return _chart(
        statistics.count_in_context(frames, by=by, within=within),
        _published_marks(frames, paper, _IN_CONTEXT if (by, within) == ("lemma", "passage") else {}),
        frames,
        title or f"{subject} elsewhere {where}",
        top=1,
        bar=_FEW,
    )


def target_classes(sets: Sets, *, paper: Beside = True, title: str | None = None) -> alt.LayerChart:
    """Draw the classes of the targets, any number of sets side by side: Figure 2b.

    Parameters
    ----------
    sets, paper, title : see :func:`in_context`, as for the result

    Examples
    --------
    >>> chart = wb.charts.target_classes(annotations)
    """
    frames = statistics.named_sets(sets)
    return _chart(
        statistics.count_classes(frames),
        _published_marks(frames, paper, _CLASSES),
        frames,
        title or label("target_class"),
        axis=_AXIS,
    )


def target_classes_out_of_context(
    sets: Sets, *, by: Literal["lemma", "form"] = "lemma", paper: Beside = True, title: str | None = None
) -> alt.LayerChart:
    """Draw the classes of the targets that do not occur elsewhere in the passage: Figure 2c.

    Parameters
    ----------
    sets, by, paper, title : see :func:`in_context`, as for the result

    Examples
    --------
    >>> chart = wb.charts.target_classes_out_of_context(annotations)
    """
    frames = statistics.named_sets(sets)
    criterion = "no lemma" if by == "lemma" else "no such form"
    return _chart(
        statistics.count_classes_out_of_context(frames, by=by),
        _published_marks(frames, paper, _OUT if by == "lemma" else {}),
        frames,
        title or f"{label('target_class')} where {criterion} is in context",
        axis=_AXIS,
        share_title="share of these targets",
    )


def direct_speech(sets: Sets, *, paper: Beside = True, title: str | None = None) -> alt.LayerChart:
    """Draw the shares of passages with quoted speech and of targets within it (section 3.3).

    Parameters
    ----------
    sets, paper, title : see :func:`in_context`, as for the result

    Examples
    --------
    >>> chart = wb.charts.direct_speech(annotations)
    """
    frames = statistics.named_sets(sets)
    return _chart(
        statistics.count_direct_speech(frames),
        _published_marks(frames, paper, _SPEECH),
        frames,
        title or label("direct_speech"),
        top=1,
        bar=_FEW,
        share_title="share of the passages",
        without="without a value",
    )


def _chart(
    data: pd.DataFrame,
    marks: pd.DataFrame,
    frames: Mapping[str, pd.DataFrame],
    title: str,
    *,
    without: str = "without answer",
    **options: Any,
) -> alt.LayerChart:
    marked_sets = set(marks["set"])
    notes = [f"{name}: {STAND_IN}" for name in frames if name in marked_sets and _is_stand_in(frames[name])]
    heading = _heading(title, data, notes, without=without)
    return theme.themed(_bars(data, marks, heading=heading, **options), title, data, marks[_SOURCE])


def _heading(
    head: str, data: pd.DataFrame, notes: Sequence[str] = (), *, without: str, width: int = 56
) -> alt.TitleParams:
    lines = []
    for name, set_data in data.groupby("set", sort=False):
        n, missing = int(set_data["n"].iloc[0]), int(set_data["missing"].iloc[0])
        mean = f", mean {set_data['mean'].iloc[0]:.1f}" if "mean" in set_data and n else ""
        lines.append(f"{name}: n = {n:,}{mean}{f' ({missing:,} {without} excluded)' if missing else ''}")
    return theme.chart_title(head, [*lines, *notes], width=width)


def figure_2(
    *,
    lambada: pd.DataFrame | None = None,
    input: pd.DataFrame | None = None,  # noqa: A002 - what the paper calls it
    sentence: pd.DataFrame | None = None,
    names: Sequence[str] | None = None,
    paper: Beside = True,
    title: str | None = None,
) -> alt.VConcatChart:
    """Compose Figure 2 of the paper (Paperno et al. 2016): (a), (b) and (c) side by side.

    Parameters
    ----------
    lambada : DataFrame, optional
        Annotations of LAMBADA passages.
    input : DataFrame, optional
        Annotations of what people were given to judge. The paper's set was not released; the control set,
        which no filter has seen, is an imperfect stand-in, and the figure says so where it is passed.
    sentence : DataFrame, optional
        Annotations of items that were guessed from the sentence alone; in (b) only, as in the paper.
    names : sequence of str, optional
        Names of the sets that are given, in this order. By default ``LAMBADA``, ``control`` and ``sentence
        only``, and for other items their data set and split; with the filter of :meth:`Items.query`, if any.
    paper : bool, or mapping of str to str, default True
        Mark the paper's values, as :func:`in_context` does: only beside the sets that it analysed.
    title : str, optional
        A title above the panels.

    Returns
    -------
    alt.VConcatChart
        Sets that are not given are left out; (c) is about LAMBADA alone, as in the paper. All panels have
        one scale.

    Raises
    ------
    DataError
        If no set is given, names are not one for each set, or a column is missing.

    Examples
    --------
    >>> chart = wb.figure_2(lambada=annotations)
    """
    by_role = {"LAMBADA": lambada, "input": input, "sentence only": sentence}
    sets = {role: frame for role, frame in by_role.items() if frame is not None}
    if names is None:
        names = []
        for role, frame in sets.items():
            name = _set_name(frame, role)
            names.append(role if name in names else name)
    if not sets or isinstance(names, str) or len(set(names)) != len(sets) or len(names) != len(sets):
        raise DataError(
            f"expected one set or more with a name each, got {len(sets)} sets with the names {names!r:.80}",
            hint='pass lambada=wb.annotate(wb.load("lambada", "dev"))',
        )
    frames = dict(zip(names, sets.values(), strict=True))
    main = [name for name, role in zip(names, sets, strict=True) if role != "sentence only"]
    beside = _matched({name: frames[name] for name in main}, paper)
    counts: list[pd.DataFrame] = []
    sources: list[pd.DataFrame] = []

    def panel(head: str, count: Any, judged: Sequence[str], rows: PublishedBars) -> list[alt.LayerChart]:
        subset = {name: frame for name, frame in frames.items() if name in judged}
        if not subset:
            return []
        data = pd.DataFrame(count(subset))
        marks = _published_marks(subset, {name: key for name, key in beside.items() if name in subset}, rows)
        counts.append(pd.concat({head: data}, names=["panel"]).reset_index("panel"))
        sources.append(marks[_SOURCE])
        numbers = " / ".join(f"{n:,}" for n in data.drop_duplicates("set")["n"])
        heading = theme.chart_title(head, [f"n = {numbers}"])
        return [_bars(data, marks, heading=heading, top=1, colours=list(frames), bar=15, gap=13, height=220)]

    panels = [
        *panel("(a) Target in context", statistics.count_in_context, main, _IN_CONTEXT),
        *panel(f"(b) {label('target_class')}", statistics.count_classes, list(frames), _CLASSES),
        *panel(
            "(c) Class, not in context",
            statistics.count_classes_out_of_context,
            main[:1] if lambada is not None else [],
            _OUT,
        ),
    ]
    lines = [f"{_AXIS}. Bars: shares with Wilson's 95 % intervals."]
    stand_ins = [name for name in main if name in beside and _is_stand_in(frames[name])]
    lines += [f"{name}: {STAND_IN}." for name in stand_ins]
    row = theme.joined_panels(panels)
    figure: alt.VConcatChart = alt.vconcat(row, theme.note_below(lines), spacing=16)
    if title:
        figure.title = theme.chart_title(title, [], width=90)
    name = title or "Targets in context, and their classes"
    return theme.themed(figure, name, pd.concat(counts), pd.concat(sources))


def _set_name(frame: pd.DataFrame, role: str) -> str:
    """Return data set, split and filter of a set; of one that the paper has, its `role` in the figure."""
    sources = statistics.sources(frame)
    usual = role == "sentence only" or sources <= {"lambada/dev", "lambada/test"}
    name = role if usual else "control" if _is_stand_in(frame) else " + ".join(sorted(sources))
    return ", ".join(filter(None, (name, frame.attrs.get("filter"))))


# -- the paper's values


def _matched(frames: Mapping[str, pd.DataFrame], beside: Beside) -> dict[str, str]:
    """Return the set of the paper for each set of annotations, by the ids of its items or as `beside` says.

    The control set stands in for the paper's input; all other sets are shown without it.
    """
    papers = ("lambada", "input")
    if isinstance(beside, Mapping):
        if wrong := sorted((set(beside) - set(frames)) | (set(beside.values()) - set(papers))):
            hint = f"map one of {', '.join(frames)} to one of {', '.join(papers)}"
            raise DataError(f"paper= names {wrong[0]!r}", hint=hint)
        return dict(beside)
    sets = {}
    for name, frame in frames.items() if beside else ():
        paper_sets = {_SOURCES.get(source) for source in statistics.sources(frame)}
        if len(paper_sets) == 1 and (paper_set := paper_sets.pop()):
            sets[name] = paper_set
    return sets


def _is_stand_in(frame: pd.DataFrame) -> bool:
    return statistics.sources(frame) == {"lambada/control"}


def _published_marks(frames: Mapping[str, pd.DataFrame], beside: Beside, rows: PublishedBars) -> pd.DataFrame:
    """Return the paper's values as marks: a share and an entry in the legend; triangles mark bounds."""
    marks: list[dict[str, Any]] = []
    for name, paper_set in _matched(frames, beside).items():
        for bar, (figure, quantity) in rows.items():
            value = published.find_value(figure, paper_set, quantity)
            above = value is not None and value.high is None
            bound = None if value is None else value.low if above else value.high
            if value is None or bound is None:
                continue
            exact = value.low == value.high
            location = "text" if figure == "text" else f"Figure {figure}"
            marks.append({
                "set": name, "label": bar, "share": bound / 100,
                "kind": "paper" if exact else f"paper: {'>' if above else '<'}{bound:g} %",
                "shape": "diamond" if exact else "triangle-up" if above else "triangle-down",
                "source": f"{value.text} % ({location}, {paper_set})",
            })  # fmt: skip
    return pd.DataFrame(marks, columns=_MARKS)


def _published_means(frames: Mapping[str, pd.DataFrame], paper: Beside, quantity: str) -> dict[str, float]:
    """Return the paper's mean for each set of LAMBADA, by name."""
    means = {}
    for name, paper_set in _matched(frames, paper).items():
        splits = {source.rpartition("/")[2] for source in statistics.sources(frames[name])}
        rows = [*sorted(splits), "all"] if len(splits) == 1 else ["all"]
        values = [published.find_value("text", row, quantity) for row in rows]
        numbers = [value.about for value in values if value is not None and value.about is not None]
        if paper_set == "lambada" and numbers:
            means[name] = numbers[0]
    return means


# -- bars


def _bars(
    data: pd.DataFrame,
    marks: pd.DataFrame,
    *,
    heading: alt.TitleParams,
    axis: str | None = None,
    top: float | None = None,
    share_title: str = "share of the targets",
    colours: Sequence[str] = (),
    bar: int = 26,
    gap: int = 20,
    height: int = _HEIGHT,
) -> alt.LayerChart:
    """Draw shares of :mod:`workbench.analysis.statistics` with their intervals and the paper's values.

    `top` is the end of the vertical axis (0 to 1), `colours` are all sets that have a colour where the chart
    shows some of them; `bar` and `gap` (between groups) are in pixels.
    """
    names, labels = list(dict.fromkeys(data["set"])), list(dict.fromkeys(data["label"]))
    x = alt.X("label:N", sort=labels, title=axis, axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.2))
    offset = alt.XOffset("set:N", sort=names, scale=alt.Scale(domain=names, paddingInner=0.08))
    y = _vertical(pd.concat([data["high"], data["share"], marks["share"]]), share_title, top=top)
    base = alt.Chart(data).encode(x=x, xOffset=offset)
    bars = base.mark_bar().encode(
        y=y, color=_colour(colours or names), tooltip=_tooltip(alt.Tooltip("label:N", title="bar"))
    )
    error = base.mark_rule(color=theme.INK, strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    layers: list[Any] = [alt.layer(bars, error)]
    if len(marks):
        layers.append(_paper(marks, names, x, y))
    width = len(labels) * max(len(names) * bar + gap, *(_WIDE * len(str(label)) for label in labels))
    resolve = alt.Resolve(scale=alt.ScaleResolveMap(xOffset="independent"))
    return alt.LayerChart(layer=layers, resolve=resolve, width=width, height=height, title=heading)


def _colour(names: Sequence[str]) -> alt.Color:
    legend = alt.Legend(title=None, orient="bottom") if len(names) > 1 else None  # one is in the title
    return alt.Color("set:N", scale=theme.colours(names), legend=legend)


def _tooltip(value_tooltip: alt.Tooltip) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("set:N", title="set"),
        value_tooltip,
        *theme.share_tooltips(share="share", low="from", high="to"),
        alt.Tooltip("count:Q", format=",", title="count"),
        alt.Tooltip("n:Q", format=",", title="of"),
    ]


def _vertical(values: pd.Series[float], title: str, *, top: float | None = None, spare: float = 0) -> alt.Y:
    """Return a vertical axis of shares from 0 to a round number, `spare` of the height above all values."""
    largest = float(values.max()) if values.notna().any() else 1.0
    largest = max(largest / (1 - spare), 0.01) if top is None else top
    step = next((step for step in _STEPS if largest <= _TICKS * step), _STEPS[-1])
    end = top or float(np.ceil(round(largest / step, 6)) * step)
    ticks = [round(float(tick), 6) for tick in np.arange(0, end + step / 2, step) if tick <= 1]
    scale = alt.Scale(domain=[0, round(end, 6)], nice=False)
    return alt.Y("share:Q", scale=scale, axis=alt.Axis(format="%", values=ticks), title=title)


def _legend_of_shapes(**options: Any) -> alt.Legend:
    return alt.Legend(title=None, orient="bottom", symbolFillColor=theme.INK, symbolSize=70, **options)


def _paper(marks: pd.DataFrame, names: Sequence[str], x: alt.X, y: alt.Y) -> alt.Chart:
    """Draw the paper's values; a bound is a triangle that points towards the value."""
    legend = marks.drop_duplicates("kind").sort_values("shape", key=lambda column: column.map(_ORDER.index))
    aside = (marks["set"].map({name: i for i, name in enumerate(names)}).astype(float) + _ASIDE) / len(names)
    points = alt.Chart(marks.assign(aside=aside)).mark_point(
        filled=True, size=70, color=theme.INK, opacity=1, stroke="white", strokeWidth=0.8
    )
    chart: alt.Chart = points.encode(
        x=x,
        xOffset=alt.XOffset("aside:Q", scale=alt.Scale(domain=[0, 1], nice=False, zero=False)),
        y=y,
        shape=alt.Shape(
            "kind:N",
            scale=alt.Scale(domain=legend["kind"].tolist(), range=legend["shape"].tolist()),
            legend=_legend_of_shapes(),
        ),
        tooltip=[alt.Tooltip("set:N", title="set"), alt.Tooltip("source:N", title="paper")],
    )
    return chart


# -- histograms


def mention_distance(sets: Sets, *, width: int | None = None, title: str | None = None) -> alt.LayerChart:
    """Draw the distribution of the distance in tokens from the target to its last earlier mention.

    Shares are of the targets with an earlier mention.

    Parameters
    ----------
    sets, title : see :func:`in_context`, as for the result
    width : int, optional
        Tokens a bin; a round number by the data by default.

    Examples
    --------
    >>> chart = wb.charts.mention_distance(annotations, width=10)
    """
    data = statistics.histogram(sets, "mention_distance", first=1, width=width)
    title = title or label("mention_distance", unit=True)
    return _histogram(
        data,
        title,
        without="with no earlier mention",
        axis="tokens from the target back to its last earlier mention",
        share_title="share of targets with an earlier mention",
    )


def lengths(
    sets: Sets,
    *,
    column: Literal["n_tokens", "n_context_sentences"] = "n_tokens",
    width: int | None = None,
    paper: Beside = True,
    title: str | None = None,
) -> alt.LayerChart:
    """Draw the lengths of the passages, with the mean of each set (triangle) and the paper's (diamond).

    Parameters
    ----------
    sets, title : see :func:`in_context`, as for the result
    column : {"n_tokens", "n_context_sentences"}
        Tokens of the whole passage, or sentences before the target sentence.
    width
        Options of :func:`mention_distance`, in the units of `column`.
    paper : see :func:`in_context`
        It is about the paper's means (section 3.2).

    Examples
    --------
    >>> chart = wb.charts.lengths(annotations, column="n_context_sentences")
    """
    check_option("column", column, tuple(_LENGTHS))
    frames = statistics.named_sets(sets)
    unit, quantity = _LENGTHS[column]
    data = statistics.histogram(frames, column, width=width)
    measured = data.groupby("set", sort=False)["mean"].first().dropna().to_dict()
    rows = [(name, mean, _MEAN, f"{mean:.1f}") for name, mean in measured.items()]
    printed = _published_means(frames, paper, quantity)
    rows += [(name, mean, _PAPER, f"{mean:g}") for name, mean in printed.items()]
    means = pd.DataFrame(rows, columns=["set", "mean", "kind", "text"])
    title = title or label(column, unit=True)
    return _histogram(
        data, title, without="without a value", axis=unit, share_title="share of the passages", means=means
    )


def _dodge_bins(data: pd.DataFrame) -> pd.DataFrame:
    """Divide each bin among the sets, with a small gap around it."""
    set_index, names = pd.factorize(data["set"])
    span = data["x2"] - data["x"]
    each = span * (1 - _SPARE) / len(names)
    start = data["x"] + span * _SPARE / 2 + each * set_index
    values, last = data["first"].astype(str), data["last"].astype(str)
    values = values.where(data["last"] <= data["first"], values + "\u2013" + last)
    placed = data.assign(x=start, x2=start + each, middle=start + each / 2, values=values)
    return placed.drop(columns=["mean", "sd"])


def _histogram(
    data: pd.DataFrame,
    title: str,
    *,
    without: str,
    axis: str,
    share_title: str,
    means: pd.DataFrame | None = None,
) -> alt.LayerChart:
    names = list(dict.fromkeys(data["set"]))
    domain = [float(data["x"].min()), float(data["x2"].max())]
    x = alt.X("x:Q", title=axis, scale=alt.Scale(domain=domain, nice=False), axis=alt.Axis(grid=False))
    bins = _dodge_bins(data)
    bars = (
        alt.Chart(bins)
        .mark_rect()
        .encode(
            x=x,
            x2="x2:Q",
            y=_vertical(
                data["high"].where(data["count"] > 0), share_title, spare=0 if means is None else _ROOM
            ),
            y2=alt.datum(0),
            color=_colour(names),
            tooltip=_tooltip(alt.Tooltip("values:N", title=axis.split(" ", maxsplit=1)[0])),
        )
    )
    filled = alt.Chart(bins.query("count > 0"))  # an interval at each empty bin is noise
    error = filled.mark_rule(color=theme.INK, strokeWidth=1).encode(x="middle:Q", y="low:Q", y2="high:Q")
    layers: list[Any] = [bars, error]
    if means is not None and len(means):
        layers += _mean_marks(means, names)
    head = _heading(title, data, without=without, width=_LINE)
    chart = alt.LayerChart(layer=layers, width=_WIDTH, height=_HEIGHT, title=head)
    return theme.themed(chart, title, data.drop(columns=["x", "x2"]), *([] if means is None else [means]))


def _mean_marks(means: pd.DataFrame, names: Sequence[str]) -> list[alt.Chart]:
    """Draw the means above the bars in the colour of their set, and the paper's above them."""
    shape = alt.Shape(
        "kind:N",
        scale=alt.Scale(domain=[_MEAN, _PAPER], range=["triangle-down", "diamond"]),
        legend=_legend_of_shapes(values=list(dict.fromkeys(means["kind"]))),
    )
    tips = [alt.Tooltip("set:N"), alt.Tooltip("kind:N"), alt.Tooltip("text:N", title="value")]
    measured, paper = means[means["kind"] == _MEAN], means[means["kind"] == _PAPER]
    looks: dict[str, Any] = {"filled": True, "size": 80, "opacity": 1}
    points = alt.Chart(measured).mark_point(**looks)
    marks = [points.encode(x="mean:Q", y=alt.value(22), shape=shape, color=_colour(names), tooltip=tips)]
    if len(paper):  # screen readers name a layer without marks, too
        points = alt.Chart(paper).mark_point(**looks, color=theme.INK, stroke="white", strokeWidth=0.8)
        marks.append(points.encode(x="mean:Q", y=alt.value(8), shape=shape, tooltip=tips))
    return marks
