"""Which of the paper's numbers stand beside which set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from workbench.analysis import statistics
from workbench.datasets import published
from workbench.items.schema import DataError

Beside = bool | Mapping[str, str]
"""True: by the sets' items and names; False: none; or set name -> set of the paper."""

SETS = ("lambada", "input")
STAND_IN = "the paper's input sample was not released: its values stand beside the unfiltered control set"

_SOURCES = {"lambada/dev": "lambada", "lambada/test": "lambada", "lambada/control": "input"}
_COLUMNS = ["set", "label", "share", "kind", "shape", "source"]
_PERCENT = 100


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
    found = {}
    for name, frame in frames.items():
        kinds = {_SOURCES.get(source) for source in statistics.sources(frame)}
        if len(kinds) == 1 and (kind := kinds.pop()):
            found[name] = kind
    return found


def is_stand_in(frame: pd.DataFrame) -> bool:
    """Tell if a set is the control set, which the paper did not analyse."""
    return statistics.sources(frame) == {"lambada/control"}


def marks(
    frames: Mapping[str, pd.DataFrame], beside: Beside, rows: Mapping[str, tuple[str, str]]
) -> pd.DataFrame:
    """Return the paper's values for a chart of shares.

    Parameters
    ----------
    frames : mapping of str to DataFrame
        The sets that are shown.
    beside : bool, or mapping of str to str
        As for :func:`matched`.
    rows : mapping of str to (str, str)
        By the label of a bar: figure and quantity in the published table.

    Returns
    -------
    DataFrame
        `set`, `label`, `share` (0 to 1), `kind` (its entry in the legend), `shape` and
        `source`. A value with one bound stands at that bound.
    """
    found: list[dict[str, Any]] = []
    for name, of in matched(frames, beside).items():
        for label, (figure, quantity) in rows.items():
            value = published.find(figure, of, quantity)
            if value is None:
                continue
            exact = value.low is not None and value.low == value.high
            above = value.high is None
            bound = value.low if above else value.high
            if bound is None:
                continue
            kind = "paper" if exact else f"paper: {'>' if above else '<'}{bound:g} %"
            place = "text" if figure == "text" else f"Figure {figure}"
            found.append(
                {
                    "set": name,
                    "label": label,
                    "share": bound / _PERCENT,
                    "kind": kind,
                    "shape": "diamond" if exact else "triangle-up" if above else "triangle-down",
                    "source": f"{value.text} % ({place}, {of})",
                }
            )
    return pd.DataFrame(found, columns=_COLUMNS)
