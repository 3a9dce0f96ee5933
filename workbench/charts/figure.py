"""The paper's Figure 2 in one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt
import pandas as pd

from workbench.analysis import statistics
from workbench.charts import targets, theme
from workbench.charts.bars import shares
from workbench.charts.paper import STAND_IN, is_stand_in, marks
from workbench.items.schema import DataError


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
        Annotations of what people were given to judge. The paper's own set was not released;
        the control set, which no filter has seen, is an imperfect stand-in, and the figure
        says so where it is passed.
    sentence : DataFrame, optional
        Annotations of items that were guessed from the sentence alone; in (b) only, as in
        the paper.
    lambada_name, input_name, sentence_name : str, optional
        How the sets are called. The input is called ``control`` where its ids are the
        control set's, else ``input``.
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
    if input_name is None:
        input_name = "control" if stands_in else "input"
    given = [(lambada_name, lambada, "lambada"), (input_name, input, "input"), (sentence_name, sentence, "")]
    shown = [(name, frame, of) for name, frame, of in given if frame is not None]
    if not shown:
        raise DataError("no set is given", remedy="pass lambada=wb.annotate(wb.load('lambada', 'dev'))")
    frames = {name: frame for name, frame, _ in shown}
    if len(frames) < len(shown):
        raise DataError("two sets have one name", remedy="give each a name of its own")
    beside = {name: of for name, _, of in shown if of and paper}

    judged = {name: frame for name, frame in frames.items() if name in {lambada_name, input_name}}
    alone = {name: frame for name, frame in frames.items() if name == lambada_name}
    everything = list(frames)
    panels = []
    if judged:
        data = statistics.in_context(judged)
        panels.append(
            _panel(
                "(a) Target in context",
                data,
                judged,
                beside,
                targets.IN_CONTEXT,
                everything=everything,
                top=1,
            )
        )
    data = statistics.classes(frames)
    panels.append(
        _panel("(b) Class of the target", data, frames, beside, targets.CLASSES, everything=everything)
    )
    if alone:
        data = statistics.classes_out_of_context(alone)
        panels.append(
            _panel("(c) Class, not in context", data, alone, beside, targets.OUT, everything=everything)
        )
    lines = [f"{targets.AXIS}. Bars: shares with Wilson's 95 % intervals."]
    lines += [f"{input_name}: {STAND_IN}."] if stands_in else []
    return theme.row(panels, lines)


def _panel(
    head: str,
    data: pd.DataFrame,
    frames: Mapping[str, pd.DataFrame],
    beside: Mapping[str, str],
    rows: Mapping[str, tuple[str, str]],
    *,
    everything: Sequence[str],
    top: float | None = None,
) -> alt.LayerChart:
    """Draw one panel; the line below its title states n in the order of the bars."""
    marked = marks(frames, {name: of for name, of in beside.items() if name in frames}, rows)
    counts = data.drop_duplicates("set")["n"]
    line = f"n = {' / '.join(f'{n:,}' for n in counts)}"
    return shares(
        data,
        marked,
        heading=theme.title(head, [line]),
        top=top,
        colours=everything,
        bar=15,
        gap=13,
        height=220,
    )
