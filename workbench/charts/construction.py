"""Charts of the construction of a data set: what each step kept and dropped."""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from workbench.charts import theme

_COLUMNS = ("step", "n_in", "n_out")
_GREY, _BLUE = theme.PALETTE[6], theme.PALETTE[5]
_KINDS = {"kept": theme.PALETTE[2], "dropped": theme.PALETTE[1], "open": _BLUE, "not drawn": _GREY}
_WIDTH, _STEP = 380, 30  # pixels: of a panel, of a bar


def funnel_counts(steps: pd.DataFrame) -> pd.DataFrame:
    """Return how many items each step kept and dropped, one row per step and outcome.

    Parameters
    ----------
    steps : DataFrame
        As for :func:`funnel`, which raises the same errors.

    Returns
    -------
    DataFrame
        Columns unit, place (of the step), step, outcome (kept, dropped, open, not drawn), n, share (of what
        went in), reasons.
    """
    theme.check_table(steps, _COLUMNS, "the funnel", "pass manifest.to_frame() or people.funnel(...)")
    rows = []
    for step_number, row in enumerate(steps.to_dict("records"), 1):
        n_in, n_out = int(row["n_in"]), int(row["n_out"])
        n_open, not_drawn = (int(row.get(column, 0) or 0) for column in ("n_open", "n_not_drawn"))
        name = f"{row['step']}" if isinstance(row["step"], str) else f"{row['step']}. {row['condition']}"
        about = (row.get("unit", "items"), step_number, name)
        reasons = str(row.get("reasons") or "")
        numbers = (n_out, n_in - n_out - n_open - not_drawn, n_open, not_drawn)
        for outcome, n in zip(_KINDS, numbers, strict=True):
            rows.append((*about, outcome, n, n / n_in if n_in else 0.0, reasons))
    names = ["unit", "place", "step", "outcome", "n", "share", "reasons"]
    table = pd.DataFrame(rows, columns=names)
    return table[(table["n"] > 0) | (table["outcome"] == "kept")].reset_index(drop=True)


def funnel(steps: pd.DataFrame) -> alt.VConcatChart:
    """Draw what each step of a construction kept and dropped, one panel a unit (novels, passages).

    Parameters
    ----------
    steps : DataFrame
        What ``manifest.to_frame()`` or :func:`workbench.people.funnel` returns: one row per step with
        ``step``, ``n_in``, ``n_out``, and perhaps ``unit``, ``n_open`` (still being judged), ``n_not_drawn``
        (of a sample) and ``reasons``.

    Returns
    -------
    alt.VConcatChart
        The numbers at the bars are what the step kept, and its share of what went in.

    Raises
    ------
    DataError
        If a column is missing, or there is no step.

    Examples
    --------
    >>> import pandas as pd
    >>> steps = pd.DataFrame({"step": ["language", "duplicates"], "n_in": [10, 8], "n_out": [8, 7]})
    >>> chart = wb.charts.funnel(steps)
    """
    counts = funnel_counts(steps)
    colour_of = {key: colour for key, colour in _KINDS.items() if (counts["outcome"] == key).any()}
    colours = alt.Scale(domain=list(colour_of), range=list(colour_of.values()))
    panels: list[Any] = []
    for unit, unit_counts in counts.groupby("unit", sort=False):
        names = list(dict.fromkeys(unit_counts["step"]))
        y = alt.Y("step:N", title=None, sort=names).axis(labelLimit=220, ticks=False)
        bars = (
            alt.Chart(unit_counts)
            .mark_bar(height=_STEP - 12)
            .encode(
                x=alt.X("n:Q", title=str(unit), stack="zero").axis(format=",d", tickCount=4),
                y=y,
                color=alt.Color("outcome:N", title=None, scale=colours).legend(orient="top"),
                order=alt.Order("rank:Q"),
                tooltip=[
                    alt.Tooltip("step:N", title="step"),
                    alt.Tooltip("outcome:N", title="outcome"),
                    alt.Tooltip("n:Q", title=str(unit), format=","),
                    alt.Tooltip("share:Q", title="share of what went in", format=".1%"),
                    alt.Tooltip("reasons:N", title="dropped"),
                ],
            )
            .transform_calculate(rank=f"indexof({list(_KINDS)}, datum.outcome)")
        )
        totals = unit_counts.groupby("step", sort=False)["n"].sum()
        out = unit_counts[unit_counts["outcome"] == "kept"].set_index("step")
        captions = [f"{out.loc[name, 'n']:,} ({out.loc[name, 'share']:.1%})" for name in names]
        text = pd.DataFrame({"step": names, "n": [int(totals[name]) for name in names], "label": captions})
        labels = alt.Chart(text).mark_text(align="left", dx=5, color=theme.INK)
        labels = labels.encode(x="n:Q", y=y, text="label:N")
        panels.append(alt.layer(bars, labels, width=_WIDTH, height=_STEP * len(names)))
    return theme.themed(alt.vconcat(*panels, spacing=18), "What each step kept and dropped", counts)
