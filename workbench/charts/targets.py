"""Charts of the targets: in context or not, their classes, quoted speech (Paperno et al. 2016, Figure 2).

Bars are shares with Wilson's 95 % intervals, one group a category and one bar a set. The paper's values stand
beside the sets that it analysed.
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
from workbench.items.schema import DataError

PICK = "pick"
"""Name of the selection by click; its fields are `FIELDS`."""

FIELDS = ("set", "column", "value")
"""What a picked bar stands for: the rows of `set` whose annotation `column` has this `value`."""

HEIGHT = 260

BAR, GAP = 26, 20
"""Width of a bar and between the groups, in pixels."""

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2)
_TICKS = 8
_WIDE = 6.5  # pixels a letter of a label
_ORDER = ("diamond", "triangle-up", "triangle-down")
_ASIDE = 0.77  # of a bar's width: the paper's mark stands beside the interval, which has the middle

Beside = bool | Mapping[str, str]
"""True: by the sets' items and names; False: none; or set name -> set of the paper."""

SETS = ("lambada", "input")
STAND_IN = "the paper's input sample was not released: its values stand beside the unfiltered control set"

_SOURCES = {"lambada/dev": "lambada", "lambada/test": "lambada", "lambada/control": "input"}
_COLUMNS = ["set", "label", "share", "kind", "shape", "source"]
_PERCENT = 100

PublishedBars = Mapping[str, tuple[str, str]]
"""By the label of a bar: figure and quantity in the published table."""

IN_CONTEXT: PublishedBars = {
    "in context": ("2a", "target (or its lemma) in context"),
    "not in context": ("text", "target (or its lemma) not in context"),
}
CLASSES: PublishedBars = {"PN": ("2b", "proper nouns"), "CN": ("2b", "common nouns"), "V": ("2b", "verbs")}
OUT: PublishedBars = {"PN": ("2c", "proper nouns among targets whose lemma is not in context")}
AXIS = "PN proper noun, CN common noun, V verb, J adjective, R adverb, O other"
SPEECH: PublishedBars = {"in the passage": ("text", "passages with quoted direct speech")}

_FEW = 40  # pixels a bar where there are two groups only


def in_context(
    sets: Sets,
    *,
    by: Literal["lemma", "form"] = "lemma",
    within: Literal["passage", "context"] = "passage",
    paper: Beside = True,
    title: str | None = None,
    select: bool = False,
) -> alt.LayerChart:
    """Draw how many targets occur elsewhere in their passage: Figure 2a.

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations (from ``wb.annotate``), or several by name: ``{"LAMBADA": a, "control": b}``.
    by : {"lemma", "form"}
        The form or its lemma (as in the paper), or the very form.
    within : {"passage", "context"}
        In the whole passage, or in the sentences before the target sentence only.
    paper : bool, or mapping of str to str, default True
        Mark the paper's values: by the sets' items (LAMBADA's development and test set beside ``lambada``,
        the control set beside ``input``), or as the mapping says.
    title : str, optional
        Replaces the chart's title.
    select : bool, default False
        Let bars be picked: a point selection `PICK` with the fields `FIELDS` (``LAMBADA``,
        ``lemma_in_context``, true).

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals; its data hold the aggregates only.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named).
    """
    frames = statistics.named_sets(sets)
    what = "Target" if by == "form" else "Target (or its lemma)"
    where = "in the passage" if within == "passage" else "in the context sentences"
    return _chart(
        statistics.count_in_context(frames, by=by, within=within),
        published_marks(frames, paper, IN_CONTEXT if (by, within) == ("lemma", "passage") else {}),
        frames,
        title or f"{what} elsewhere {where}",
        top=1,
        bar=_FEW,
        select=select,
    )


def target_classes(
    sets: Sets, *, paper: Beside = True, title: str | None = None, select: bool = False
) -> alt.LayerChart:
    """Draw the classes of the targets, any number of sets side by side: Figure 2b.

    Parameters, result and errors are as for :func:`in_context`; a picked bar stands for a value of
    ``target_class``.
    """
    frames = statistics.named_sets(sets)
    return _chart(
        statistics.count_classes(frames),
        published_marks(frames, paper, CLASSES),
        frames,
        title or "Class of the target",
        axis=AXIS,
        select=select,
    )


def target_classes_out_of_context(
    sets: Sets,
    *,
    by: Literal["lemma", "form"] = "lemma",
    paper: Beside = True,
    title: str | None = None,
    select: bool = False,
) -> alt.LayerChart:
    """Draw the classes of the targets that occur nowhere else in the passage: Figure 2c.

    Parameters, result and errors are as for :func:`in_context`. A picked bar stands for a value of
    ``target_class`` among the rows out of context (``lemma_in_context`` or ``in_context`` is false).
    """
    frames = statistics.named_sets(sets)
    what = "no lemma" if by == "lemma" else "no such form"
    return _chart(
        statistics.count_classes_out_of_context(frames, by=by),
        published_marks(frames, paper, OUT if by == "lemma" else {}),
        frames,
        title or f"Class of the target where {what} is in context",
        axis=AXIS,
        of="share of these targets",
        select=select,
    )


def direct_speech(
    sets: Sets, *, paper: Beside = True, title: str | None = None, select: bool = False
) -> alt.LayerChart:
    """Draw how many passages hold quoted speech, and how many targets lie within it (section 3.3).

    Parameters, result and errors are as for :func:`in_context`; a picked bar stands for
    ``direct_speech`` or ``target_in_speech`` being true.
    """
    frames = statistics.named_sets(sets)
    return _chart(
        statistics.count_direct_speech(frames),
        published_marks(frames, paper, SPEECH),
        frames,
        title or "Quoted speech",
        top=1,
        bar=_FEW,
        of="share of the passages",
        without="without a value",
        select=select,
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
    shown = set(marks["set"])
    notes = [f"{name}: {STAND_IN}" for name in frames if name in shown and is_stand_in(frames[name])]
    heading = counted(title, data, notes, without=without)
    return theme.themed(bars(data, marks, heading=heading, **options))


def counted(
    head: str, data: pd.DataFrame, notes: Sequence[str] = (), *, without: str, width: int = 56
) -> alt.TitleParams:
    """Return a title that states how many rows stand behind each set, and how many are left out.

    No line is longer than `width` characters.
    """
    lines = []
    for name, part in data.groupby("set", sort=False):
        n, missing = int(part["n"].iloc[0]), int(part["missing"].iloc[0])
        mean = f", mean {part['mean'].iloc[0]:.1f}" if "mean" in part and n else ""
        lines.append(f"{name}: n = {n:,}{mean}{f' ({missing:,} {without} left out)' if missing else ''}")
    return theme.chart_title(head, [*lines, *notes], width=width)


def figure_2(
    *,
    lambada: pd.DataFrame | None = None,
    input: pd.DataFrame | None = None,  # noqa: A002 - what the paper calls it
    sentence: pd.DataFrame | None = None,
    lambada_name: str = "LAMBADA",
    input_name: str | None = None,
    sentence_name: str = "sentence only",
    paper: bool = True,
) -> alt.HConcatChart:
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
    lambada_name, input_name, sentence_name : str, optional
        How the sets are called. The input is called ``control`` where its ids are the control set's, else
        ``input``.
    paper : bool, default True
        Mark the paper's values.

    Returns
    -------
    alt.HConcatChart
        Sets that are not given are left out; (c) is about LAMBADA alone, as in the paper.

    Raises
    ------
    DataError
        If no set is given, two have one name, or a column is missing.
    """
    stands_in = input is not None and is_stand_in(input)
    input_name = input_name or ("control" if stands_in else "input")
    sets = {"lambada": (lambada_name, lambada), "input": (input_name, input), "": (sentence_name, sentence)}
    named = [(name, frame, of) for of, (name, frame) in sets.items() if frame is not None]
    if not named:
        raise DataError("no set is given", remedy="pass lambada=wb.annotate(wb.load('lambada', 'dev'))")
    frames = {name: frame for name, frame, _ in named}
    if len(frames) < len(named):
        raise DataError("two sets have one name", remedy="give each a name of its own")
    beside = {name: of for name, _, of in named if of and paper}

    def panel(
        head: str, count: Any, judged: Sequence[str], rows: PublishedBars, top: float | None = None
    ) -> list[alt.LayerChart]:
        """Draw one panel; the line below its title states n in the order of the bars."""
        part = {name: frame for name, frame in frames.items() if name in judged}
        if not part:
            return []
        data = count(part)
        marks = published_marks(part, {name: of for name, of in beside.items() if name in part}, rows)
        numbers = " / ".join(f"{n:,}" for n in data.drop_duplicates("set")["n"])
        heading = theme.chart_title(head, [f"n = {numbers}"])
        return [bars(data, marks, heading=heading, top=top, colours=list(frames), bar=15, gap=13, height=220)]

    panels = [
        *panel(
            "(a) Target in context", statistics.count_in_context, [lambada_name, input_name], IN_CONTEXT, 1
        ),
        *panel("(b) Class of the target", statistics.count_classes, list(frames), CLASSES),
        *panel("(c) Class, not in context", statistics.count_classes_out_of_context, [lambada_name], OUT),
    ]
    lines = [f"{AXIS}. Bars: shares with Wilson's 95 % intervals."]
    lines += [f"{input_name}: {STAND_IN}."] if stands_in else []
    return theme.panel_row(panels, lines)


# -- bars


def bars(
    data: pd.DataFrame,
    marks: pd.DataFrame,
    *,
    heading: alt.TitleParams,
    axis: str | None = None,
    top: float | None = None,
    of: str = "share of the targets",
    select: bool = False,
    colours: Sequence[str] = (),
    bar: int = BAR,
    gap: int = GAP,
    height: int = HEIGHT,
) -> alt.LayerChart:
    """Draw shares with their intervals, and the paper's values.

    Parameters
    ----------
    data : DataFrame
        From :mod:`workbench.analysis.statistics`.
    marks : DataFrame
        From :func:`published_marks`.
    heading : TitleParams
        Title and the lines below it.
    axis : str, optional
        Title of the horizontal axis.
    top : float, optional
        End of the vertical axis (0 to 1); by the data where it is not given.
    of : str
        Title of the vertical axis.
    select : bool, default False
        Let bars be picked: the selection `pick`.
    colours : sequence of str, optional
        All sets that have a colour, where the chart shows some of them.
    bar, gap, height : int
        Width of a bar and between groups, height of the plot, in pixels.
    """
    names, labels = list(dict.fromkeys(data["set"])), list(dict.fromkeys(data["label"]))
    x = alt.X("label:N", sort=labels, title=axis, axis=alt.Axis(labelAngle=0), scale=alt.Scale(padding=0.2))
    offset = alt.XOffset("set:N", sort=names, scale=alt.Scale(domain=names, paddingInner=0.08))
    y = vertical(pd.concat([data["high"], data["share"], marks["share"]]), of, top=top)
    base = alt.Chart(data).encode(x=x, xOffset=offset)
    bars = base.mark_bar().encode(
        y=y,
        color=alt.Color("set:N", scale=theme.colours(colours or names), legend=legend(colours or names)),
        tooltip=tooltip(alt.Tooltip("label:N", title="bar")),
    )
    if select:
        pick = alt.selection_point(name=PICK, fields=list(FIELDS))
        bars = bars.encode(opacity=alt.condition(pick, alt.value(1.0), alt.value(0.35))).add_params(pick)
    error = base.mark_rule(color=theme.INK, strokeWidth=1.5).encode(y="low:Q", y2="high:Q")
    layers: list[Any] = [alt.layer(bars, error)]
    if len(marks):
        layers.append(_paper(marks, names, x, y))
    width = len(labels) * max(len(names) * bar + gap, *(_WIDE * len(str(label)) for label in labels))
    chart: alt.LayerChart = alt.layer(*layers).resolve_scale(xOffset="independent")
    return chart.properties(width=width, height=height, title=heading)


def legend(names: Sequence[str]) -> alt.Legend | None:
    """Return the legend of the sets: none where there is only one, which the title names."""
    return alt.Legend(title=None, orient="bottom") if len(names) > 1 else None


def tooltip(what: alt.Tooltip) -> list[alt.Tooltip]:
    """Return what a bar tells: its set, what it is, share, interval and counts."""
    return [
        alt.Tooltip("set:N", title="set"),
        what,
        alt.Tooltip("share:Q", format=".1%", title="share"),
        alt.Tooltip("low:Q", format=".1%", title="from"),
        alt.Tooltip("high:Q", format=".1%", title="to"),
        alt.Tooltip("count:Q", format=",", title="count"),
        alt.Tooltip("n:Q", format=",", title="of"),
    ]


def vertical(values: pd.Series[float], of: str, *, top: float | None = None, spare: float = 0) -> alt.Y:
    """Return a vertical axis of shares from 0 to a round number above all values.

    `spare` is the part of the height that stays free above them.
    """
    largest = float(values.max()) if values.notna().any() else 1.0
    largest = max(largest / (1 - spare), 0.01) if top is None else top
    step = next((step for step in _STEPS if largest <= _TICKS * step), _STEPS[-1])
    end = top or float(np.ceil(round(largest / step, 6)) * step)
    ticks = [round(float(tick), 6) for tick in np.arange(0, end + step / 2, step) if tick <= 1]
    scale = alt.Scale(domain=[0, round(end, 6)], nice=False)
    return alt.Y("share:Q", scale=scale, axis=alt.Axis(format="%", values=ticks), title=of)


def _paper(marks: pd.DataFrame, names: Sequence[str], x: alt.X, y: alt.Y) -> alt.Chart:
    """Draw the paper's values; a bound is a triangle that points to where the value lies."""
    kinds = marks.drop_duplicates("kind").sort_values("shape", key=lambda column: column.map(_ORDER.index))
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
            scale=alt.Scale(domain=kinds["kind"].tolist(), range=kinds["shape"].tolist()),
            legend=alt.Legend(title=None, orient="bottom", symbolFillColor=theme.INK, symbolSize=70),
        ),
        tooltip=[alt.Tooltip("set:N", title="set"), alt.Tooltip("source:N", title="paper")],
    )
    return chart


# -- the paper's values


def matched(frames: Mapping[str, pd.DataFrame], beside: Beside) -> dict[str, str]:
    """Return, by the name of a set, the set of the paper that it is shown beside.

    The ids of the items tell: LAMBADA's development and test sets are the paper's LAMBADA,
    the control set stands in for its input; all others are shown without it.

    Raises
    ------
    DataError
        If a mapping names a set that is not shown, or that the paper does not have.
    """
    if isinstance(beside, Mapping):
        if wrong := sorted((set(beside) - set(frames)) | (set(beside.values()) - set(SETS))):
            raise DataError(
                f"paper= names {wrong[0]!r}",
                remedy=f"map one of {', '.join(frames)} to one of {', '.join(SETS)}",
            )
        return dict(beside)
    if not beside:
        return {}
    sets = {}
    for name, frame in frames.items():
        kinds = {_SOURCES.get(source) for source in statistics.sources(frame)}
        if len(kinds) == 1 and (kind := kinds.pop()):
            sets[name] = kind
    return sets


def is_stand_in(frame: pd.DataFrame) -> bool:
    """Tell if a set is the control set, which the paper did not analyse."""
    return statistics.sources(frame) == {"lambada/control"}


def published_marks(frames: Mapping[str, pd.DataFrame], beside: Beside, rows: PublishedBars) -> pd.DataFrame:
    """Return the paper's values for a chart of shares.

    Parameters
    ----------
    frames : mapping of str to DataFrame
        The sets that are shown.
    beside : bool, or mapping of str to str
        As for :func:`in_context`.
    rows : mapping of str to (str, str)
        By the label of a bar: figure and quantity in the published table.

    Returns
    -------
    DataFrame
        `set`, `label`, `share` (0 to 1), `kind` (its entry in the legend), `shape` and
        `source`. A value with one bound stands at that bound.
    """
    marks: list[dict[str, Any]] = []
    for name, of in matched(frames, beside).items():
        for label, (figure, quantity) in rows.items():
            value = published.find_value(figure, of, quantity)
            above = value is not None and value.high is None
            bound = None if value is None else value.low if above else value.high
            if value is None or bound is None:
                continue
            exact = value.low == value.high
            place = "text" if figure == "text" else f"Figure {figure}"
            marks.append({
                "set": name, "label": label, "share": bound / _PERCENT,
                "kind": "paper" if exact else f"paper: {'>' if above else '<'}{bound:g} %",
                "shape": "diamond" if exact else "triangle-up" if above else "triangle-down",
                "source": f"{value.text} % ({place}, {of})",
            })  # fmt: skip
    return pd.DataFrame(marks, columns=_COLUMNS)
