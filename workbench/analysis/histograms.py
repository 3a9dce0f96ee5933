"""How whole numbers spread over a set: mention distances and lengths, in bins of equal width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.summary import Sets, counted, known, named, require, shares
from workbench.items.schema import DataError

_NICE = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500)
_BINS = 16


def bin_width(values: Sequence[np.ndarray[Any, Any]]) -> int:
    """Choose a round width by which the middle 98 percent of all values lie in about 16 bins."""
    joined = np.concatenate([np.asarray(part, dtype=float) for part in values]) if values else np.array([])
    if not len(joined):
        return 1
    low, high = np.quantile(joined, [0.01, 0.99])
    wanted = (high - low + 1) / _BINS
    return next((width for width in _NICE if width >= wanted), _NICE[-1])


def histogram(
    sets: Sets, column: str, *, first: int | None = None, width: int | None = None, level: float = 0.95
) -> pd.DataFrame:
    """Count whole numbers in bins of equal width.

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    column : str
        A column of whole numbers.
    first : int, optional
        Least value of the first bin; where it is not given, the bin (of those that would begin
        at 1) of the smallest value of any set.
    width : int, optional
        Values a bin; chosen by :func:`bin_width` where it is not given.
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    DataFrame
        One row a set and bin up to the largest value of any set: `set`, `column`, `first`
        and `last` (both within the bin), `x` and `x2` (its edges, half a unit outside),
        `count`, `n`, `missing`, `share`, `low`, `high`, and `mean` and `sd` of the set's
        values. All bins are there, empty ones too.

    Raises
    ------
    DataError
        If the column is missing or a value lies below `first`, or the width is below 1.
    """
    frames = named(sets)
    values = {}
    for name, frame in frames.items():
        require(frame, column, name=name)
        values[name] = known(frame[column]).to_numpy(dtype=np.int64)
        if first is not None and len(values[name]) and values[name].min() < first:
            raise DataError(f"the column {column} holds {values[name].min()}, expected {first} or more")
    if width is None:
        width = bin_width(list(values.values()))
    if width < 1:
        raise DataError(f"a bin of width {width} holds nothing", remedy="use a width of 1 or more")
    if first is None:
        least = min((int(part.min()) for part in values.values() if len(part)), default=1)
        first = 1 + (least - 1) // width * width
    last = max((int(part.max()) for part in values.values() if len(part)), default=first)
    starts = np.arange(first, last + 1, width)
    rows = []
    for name, part in values.items():
        counts = np.bincount((part - first) // width, minlength=len(starts))
        mean = float(part.mean()) if len(part) else np.nan
        sd = float(part.std(ddof=1)) if len(part) > 1 else np.nan
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            place = {"first": start, "last": start + width - 1, "x": start - 0.5, "x2": start + width - 0.5}
            rows.append(
                {"set": name, "column": column}
                | place
                | counted(count, len(part), len(frames[name]))
                | {"mean": mean, "sd": sd}
            )
    return shares(rows, level)


def distances(sets: Sets, *, width: int | None = None, level: float = 0.95) -> pd.DataFrame:
    """Count the tokens back from the target to its last earlier mention.

    Returns
    -------
    DataFrame
        As :func:`histogram` of `mention_distance` from 1 on; `missing` counts the targets
        without an earlier mention and the rows without an answer.
    """
    return histogram(sets, "mention_distance", first=1, width=width, level=level)


def lengths(
    sets: Sets, column: str = "n_tokens", *, width: int | None = None, level: float = 0.95
) -> pd.DataFrame:
    """Count the lengths of the passages: their tokens, or their context sentences.

    Returns
    -------
    DataFrame
        As :func:`histogram` of `column`.
    """
    return histogram(sets, column, width=width, level=level)
