"""Charts of the target: in context or not, its class, quoted speech (Paperno et al. 2016, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import pandas as pd

from workbench.analysis import statistics
from workbench.analysis.statistics import Sets
from workbench.charts import paper as beside
from workbench.charts import theme
from workbench.charts.bars import shares
from workbench.charts.paper import Beside

# By the label of a bar: figure and quantity in the published table.
IN_CONTEXT = {
    "in context": ("2a", "target (or its lemma) in context"),
    "not in context": ("text", "target (or its lemma) not in context"),
}
CLASSES = {"PN": ("2b", "proper nouns"), "CN": ("2b", "common nouns"), "V": ("2b", "verbs")}
OUT = {"PN": ("2c", "proper nouns among targets whose lemma is not in context")}
AXIS = "PN proper noun, CN common noun, V verb, J adjective, R adverb, O other"
SPEECH = {"in the passage": ("text", "passages with quoted direct speech")}

_FEW = 40  # pixels a bar where there are two groups only


def heading(
    head: str,
    data: pd.DataFrame,
    notes: Sequence[str] = (),
    *,
    without: str = "without answer",
    width: int = 56,
) -> alt.TitleParams:
    """Return a title that states how many rows stand behind each set, and what is left out.

    No line is longer than `width` characters.
    """
    lines = []
    for name, part in data.groupby("set", sort=False):
        n, missing = int(part["n"].iloc[0]), int(part["missing"].iloc[0])
        mean = f", mean {part['mean'].iloc[0]:.1f}" if "mean" in part and n else ""
        lines.append(f"{name}: n = {n:,}{mean}{f' ({missing:,} {without} left out)' if missing else ''}")
    return theme.title(head, [*lines, *notes], width=width)


def stand_in(frames: Mapping[str, pd.DataFrame], marks: pd.DataFrame) -> list[str]:
    """Return the line that says so where the control set stands beside the paper's input."""
    shown = set(marks["set"])
    return [
        f"{name}: {beside.STAND_IN}" for name in frames if name in shown and beside.is_stand_in(frames[name])
    ]


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
        Annotations (from ``wb.annotate``), or several by name:
        ``{"LAMBADA": a, "control": b}``.
    by : {"lemma", "form"}
        The form or its lemma (as in the paper), or the very form.
    within : {"passage", "context"}
        In the whole passage, or in the sentences before the target sentence only.
    paper : bool, or mapping of str to str, default True
        Mark the paper's values: by the sets' items (LAMBADA's development and test set
        beside ``lambada``, the control set beside ``input``), or as the mapping says.
    title : str, optional
        Instead of the chart's own.
    select : bool, default False
        Let bars be picked: a point selection called ``pick`` with the fields `set`,
        `column` and `value` (``LAMBADA``, ``lemma_in_context``, true).

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals; its data hold the aggregates only.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named).
    """
    frames = statistics.named(sets)
    data = statistics.in_context(frames, by=by, within=within)
    as_paper = by == "lemma" and within == "passage"
    marks = beside.marks(frames, paper, IN_CONTEXT if as_paper else {})
    what = "Target" if by == "form" else "Target (or its lemma)"
    where = "in the passage" if within == "passage" else "in the context sentences"
    return _drawn(
        data,
        marks,
        title=title or f"{what} elsewhere {where}",
        notes=stand_in(frames, marks),
        top=1,
        bar=_FEW,
        select=select,
    )


def _drawn(
    data: pd.DataFrame,
    marks: pd.DataFrame,
    *,
    title: str,
    notes: Sequence[str],
    select: bool,
    without: str = "without answer",
    **options: Any,
) -> alt.LayerChart:
    drawn = shares(
        data, marks, heading=heading(title, data, notes, without=without), select=select, **options
    )
    return theme.themed(drawn)


def target_classes(
    sets: Sets, *, paper: Beside = True, title: str | None = None, select: bool = False
) -> alt.LayerChart:
    """Draw the classes of the targets, any number of sets side by side: Figure 2b.

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    paper : bool, or mapping of str to str, default True
        As for :func:`in_context`.
    title : str, optional
        Instead of the chart's own.
    select : bool, default False
        Let bars be picked: a point selection called ``pick`` with the fields `set`,
        `column` and `value` (``LAMBADA``, ``target_class``, ``PN``).

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals; its data hold the aggregates only.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named).
    """
    frames = statistics.named(sets)
    marks = beside.marks(frames, paper, CLASSES)
    return _drawn(
        statistics.classes(frames),
        marks,
        title=title or "Class of the target",
        notes=stand_in(frames, marks),
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

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    by : {"lemma", "form"}
        Neither form nor lemma occurs (as in the paper), or not the very form.
    paper : bool, or mapping of str to str, default True
        As for :func:`in_context`.
    title : str, optional
        Instead of the chart's own.
    select : bool, default False
        As for :func:`target_classes`; the rows that a bar stands for are those out of
        context only (`lemma_in_context` or `in_context` is false).

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals; its data hold the aggregates only.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named).
    """
    frames = statistics.named(sets)
    marks = beside.marks(frames, paper, OUT if by == "lemma" else {})
    what = "no lemma" if by == "lemma" else "no such form"
    return _drawn(
        statistics.classes_out_of_context(frames, by=by),
        marks,
        title=title or f"Class of the target where {what} is in context",
        notes=stand_in(frames, marks),
        axis=AXIS,
        of="share of these targets",
        select=select,
    )


def direct_speech(
    sets: Sets, *, paper: Beside = True, title: str | None = None, select: bool = False
) -> alt.LayerChart:
    """Draw how many passages hold quoted speech, and how many targets lie within it.

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    paper : bool, or mapping of str to str, default True
        As for :func:`in_context` (Paperno et al. 2016, section 3.3).
    title : str, optional
        Instead of the chart's own.
    select : bool, default False
        Let bars be picked: a point selection called ``pick`` with the fields `set`,
        `column` and `value` (``LAMBADA``, ``direct_speech`` or ``target_in_speech``, true).

    Returns
    -------
    alt.LayerChart
        Bars with Wilson's 95 % intervals; its data hold the aggregates only.

    Raises
    ------
    DataError
        If a column of the annotations is missing (it is named).
    """
    frames = statistics.named(sets)
    marks = beside.marks(frames, paper, SPEECH)
    return _drawn(
        statistics.direct_speech(frames),
        marks,
        title=title or "Quoted speech",
        notes=stand_in(frames, marks),
        top=1,
        bar=_FEW,
        of="share of the passages",
        without="without a value",
        select=select,
    )
