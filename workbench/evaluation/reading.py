"""Predictions from whatever names them: runs, frames, or names of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.runs.predictions import OPTIONAL

VARIANT = ("unit", "filter", "vocabulary_size", "unknown", "prompt")
"""Columns of predictions that tell results apart which must not be mixed up."""

_KINDS = {
    **dict.fromkeys(("item_id", "dataset", "split", "variant", "word_class", "book_id", "answer"), "str"),
    **dict.fromkeys(("model", "system", "run", "score_type", "unit", "filter", "unknown", "prompt"), "str"),
    **dict.fromkeys(("correct", "known", "greedy_correct", "rank_is_bound"), "boolean"),
    **dict.fromkeys(("rank", "n_tied", "vocabulary_size"), "Int64"),
    **dict.fromkeys(("p_correct", "log_prob", "log_prob_uncorrected"), "float64"),
}
NEEDED = tuple(_KINDS)
"""Columns of predictions that evaluation reads."""


class Source(NamedTuple):
    """The predictions of one model in one run, sorted by item, and what is known of the run."""

    model: str
    run: str
    frame: pd.DataFrame
    info: Mapping[str, Any]


def sources(runs: Any) -> list[Source]:
    """Return the predictions that something stands for, one model and run each.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Runs, frames of predictions, or names of stored runs.

    Returns
    -------
    list of Source
        In the order given; within one frame by order of appearance. A frame without rows gives none.

    Raises
    ------
    DataError
        If something is none of these, a column is missing or of another kind, or a model has two
        predictions for one item.
    """
    found: list[Source] = []
    for one in several(runs):
        if isinstance(one, str):
            from workbench.runs.store import find  # noqa: PLC0415 - reads DuckDB

            one = find(one)  # noqa: PLW2901 - the run of that name
        frame = one if isinstance(one, pd.DataFrame) else getattr(one, "predictions", None)
        if not isinstance(frame, pd.DataFrame):
            raise DataError(
                f"there are no predictions in a {type(one).__name__}",
                remedy="pass a run, a frame of predictions, the name of a run, or a list of these",
            )
        if frame is one:
            found += _apart(frame, None, {})
        else:
            found += _apart(frame, getattr(one, "run", None), getattr(one, "info", None) or {})
    return found


def several(runs: Any) -> Iterable[Any]:
    """Return what was passed as runs one by one: a single run, frame or name is one."""
    single = isinstance(runs, str | pd.DataFrame) or not isinstance(runs, Iterable)
    return [runs] if single else runs


def _apart(frame: pd.DataFrame, name: str | None, info: Mapping[str, Any]) -> Iterable[Source]:
    """Give the models and runs of one frame apart."""
    frame = frame.assign(**{n: None for n in OPTIONAL if n in NEEDED and n not in frame.columns})
    if lacking := [column for column in NEEDED if column not in frame.columns]:
        raise DataError(
            f"the predictions have no column {lacking[0]!r}",
            remedy="make them with wb.predict, or with the functions of workbench.runs.predictions",
        )
    try:
        frame = frame.astype({name: kind for name, kind in _KINDS.items() if str(frame[name].dtype) != kind})
    except (TypeError, ValueError) as error:
        raise DataError(f"a column of the predictions is of a strange type: {error}") from None
    if name is not None:
        frame["run"] = frame["run"].where(frame["run"].fillna("") != "", name)
    frame["run"] = frame["run"].fillna("")
    if frame["item_id"].isna().any() or frame["model"].isna().any():
        raise DataError("the predictions have a row without item_id or model")
    for (model, run), part in frame.groupby(["model", "run"], sort=False):
        twice = part["item_id"].duplicated()
        if twice.any():
            raise DataError(
                f"the model {model!r} has two predictions for the item {part['item_id'][twice].iloc[0]!r}",
                remedy="give each set of predictions a run or model name of its own",
            )
        # sorted, so that what is drawn by a seed does not depend on the order of the rows
        ordered = part.sort_values("item_id", kind="stable", ignore_index=True)
        yield Source(str(model), str(run), ordered, info)


def joined(frame: pd.DataFrame, items: Items | None, annotations: pd.DataFrame | None) -> pd.DataFrame:
    """Add columns of items and of annotations to predictions, by ``item_id``.

    A column that the predictions have keeps its values; items fill what is null in it.

    Raises
    ------
    DataError
        If the annotations have no ``item_id`` or hold one twice, or something given knows none of
        the predicted items.
    """
    for what, other in (("items", items), ("annotations", annotations)):
        if other is None:
            continue
        beside = other.frame if isinstance(other, Items) else other
        if "item_id" not in beside.columns:
            raise DataError(
                f"the {what} have no column 'item_id'", remedy="make them with wb.annotate(items)"
            )
        beside = beside.assign(item_id=beside["item_id"].astype("str")).set_index("item_id")
        if beside.index.has_duplicates:
            raise DataError(f"the {what} hold the item {beside.index[beside.index.duplicated()][0]!r} twice")
        if len(frame) and not frame["item_id"].isin(beside.index).any():
            raise DataError(
                f"the {what} know none of the predicted items, {frame['item_id'].iloc[0]!r} the first",
                remedy=f"pass the {what} that belong to these predictions",
            )
        beside = beside.reindex(frame["item_id"])
        beside.index = frame.index
        for column in beside.columns:
            if column not in frame.columns:
                frame[column] = beside[column]
            elif what == "items" and _KINDS.get(column) == "str" and frame[column].isna().any():
                frame[column] = frame[column].where(frame[column].notna(), beside[column].astype("str"))
    return frame


def one_value(column: pd.Series[Any]) -> Any:
    """Return what a column holds: its value, several joined by commas, or None."""
    found = [value for value in column.unique().tolist() if not pd.isna(value)]
    if len(found) <= 1:
        return found[0] if found else None
    return ", ".join(sorted(map(str, found)))


def check_options(level: float, resamples: int) -> None:
    """Raise DataError if a confidence level or a number of resamples makes no sense."""
    if not 0 < level < 1:
        raise DataError(f"the confidence level {level} is not between 0 and 1", remedy="use 0.95")
    if int(resamples) != resamples or resamples < 1:
        raise DataError(f"there cannot be {resamples} resamples", remedy="use 2000")


def floats(column: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Return a nullable column as numbers, null as NaN."""
    return np.asarray(column.astype("Float64").to_numpy(dtype=float, na_value=np.nan), dtype=np.float64)
