"""The paper's values, matched to the sets of annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from workbench.analysis import statistics
from workbench.datasets import published
from workbench.storage.errors import DataError

Beside = bool | Mapping[str, str]
"""True: by the sets' items and names; False: none; or set name -> set of the paper."""

_SETS = ("lambada", "input")
STAND_IN = "the paper's input sample was not released: its values stand beside the unfiltered control set"

_SOURCES = {"lambada/dev": "lambada", "lambada/test": "lambada", "lambada/control": "input"}
_COLUMNS = ["set", "label", "share", "kind", "shape", "source"]

PublishedBars = Mapping[str, tuple[str, str]]
"""Label of a bar -> figure and quantity in the published table."""


def matched(frames: Mapping[str, pd.DataFrame], beside: Beside) -> dict[str, str]:
    """Return the set of the paper for each set of annotations, by name.

    The ids of the items tell: LAMBADA's development and test sets are the paper's LAMBADA, the control set
    stands in for its input; all others are shown without it. A mapping with other names is a DataError.
    """
    if isinstance(beside, Mapping):
        if wrong := sorted((set(beside) - set(frames)) | (set(beside.values()) - set(_SETS))):
            raise DataError(
                f"paper= names {wrong[0]!r}",
                remedy=f"map one of {', '.join(frames)} to one of {', '.join(_SETS)}",
            )
        return dict(beside)
    sets = {}
    for name, frame in frames.items() if beside else ():
        paper_sets = {_SOURCES.get(source) for source in statistics.sources(frame)}
        if len(paper_sets) == 1 and (paper_set := paper_sets.pop()):
            sets[name] = paper_set
    return sets


def is_stand_in(frame: pd.DataFrame) -> bool:
    """Return True for the control set, which the paper did not analyse."""
    return statistics.sources(frame) == {"lambada/control"}


def published_marks(frames: Mapping[str, pd.DataFrame], beside: Beside, rows: PublishedBars) -> pd.DataFrame:
    """Return the paper's values as marks: a share and an entry in the legend; triangles mark bounds."""
    marks: list[dict[str, Any]] = []
    for name, paper_set in matched(frames, beside).items():
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
    return pd.DataFrame(marks, columns=_COLUMNS)


def published_means(frames: dict[str, pd.DataFrame], paper: Beside, quantity: str) -> dict[str, float]:
    """Return the paper's mean for each set of LAMBADA, by name."""
    means = {}
    for name, paper_set in matched(frames, paper).items():
        splits = {source.rpartition("/")[2] for source in statistics.sources(frames[name])}
        rows = [*sorted(splits), "all"] if len(splits) == 1 else ["all"]
        values = [published.find_value("text", row, quantity) for row in rows]
        numbers = [value.about for value in values if value is not None and value.about is not None]
        if paper_set == "lambada" and numbers:
            means[name] = numbers[0]
    return means
