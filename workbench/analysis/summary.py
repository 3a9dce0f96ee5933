"""What the figures show, as numbers: counts, shares and their intervals, from annotations.

Every function takes one frame of annotations, or several by name, and returns a tidy frame with
one row a bar. Rows without an answer say nothing about the target; they are left out of `n` and
counted in `missing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from workbench.items.schema import DataError

Sets = pd.DataFrame | Mapping[str, pd.DataFrame]
"""One frame of annotations, or several by the name under which they are shown."""

CLASSES = {
    "PN": "proper noun",
    "CN": "common noun",
    "V": "verb",
    "J": "adjective",
    "R": "adverb",
    "O": "other",
}
"""Classes of the target in the order of the paper's Figure 2."""


def named(sets: Sets) -> dict[str, pd.DataFrame]:
    """Return the frames by name; a single frame is named after its items (``lambada/dev``).

    Raises
    ------
    DataError
        If there is no frame, or something is no frame.
    """
    if isinstance(sets, pd.DataFrame):
        sets = {_name(sets): sets}
    if not isinstance(sets, Mapping) or not sets:
        raise DataError(
            "there are no annotations to show",
            remedy='pass a frame from wb.annotate, or several by name: {"LAMBADA": a, "control": b}',
        )
    for name, frame in sets.items():
        if not isinstance(frame, pd.DataFrame):
            raise DataError(
                f"the set {name!r} is of type {type(frame).__name__}, expected a frame of annotations",
                remedy="make one with wb.annotate(items)",
            )
    return {str(name): frame for name, frame in sets.items()}


def sources(frame: pd.DataFrame) -> set[str]:
    """Return data set and split of the items, told from their ids: ``{"lambada/dev"}``."""
    if "item_id" not in frame.columns:
        return set()
    return set(frame["item_id"].astype("str").str.rsplit("/", n=1).str[0].dropna())


def _name(frame: pd.DataFrame) -> str:
    found = sorted(sources(frame))
    return found[0] if len(found) == 1 else "items"


def require(frame: pd.DataFrame, *columns: str, name: str = "") -> None:
    """Raise DataError if a frame of annotations lacks a column."""
    if missing := [column for column in columns if column not in frame.columns]:
        raise DataError(
            f"the annotations{f' of {name!r}' if name else ''} have no column {', '.join(missing)}",
            remedy="make them with wb.annotate(items)",
        )


def wilson(count: Any, n: Any, *, level: float = 0.95) -> tuple[Any, Any]:
    """Return the bounds of Wilson's score interval of shares (Wilson 1927).

    Parameters
    ----------
    count, n : int or array of int (k,)
        Cases, out of how many.
    level : float, default 0.95
        Confidence level.

    Returns
    -------
    low, high : array of float (k,)
        Shares between 0 and 1; NaN where `n` is 0.
    """
    from statsmodels.stats.proportion import proportion_confint  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    count, n = np.atleast_1d(np.asarray(count, dtype=float)), np.atleast_1d(np.asarray(n, dtype=float))
    low, high = np.full(count.shape, np.nan), np.full(count.shape, np.nan)
    some = n > 0
    if some.any():
        bounds = proportion_confint(count[some], n[some], alpha=1 - level, method="wilson")
        low[some], high[some] = np.clip(bounds, 0, 1)
    return low, high


def shares(rows: list[dict[str, Any]], level: float) -> pd.DataFrame:
    """Complete rows of counts with shares and intervals."""
    frame = pd.DataFrame(rows)
    count, n = frame["count"].to_numpy(dtype=float), frame["n"].to_numpy(dtype=float)
    frame["share"] = np.divide(count, n, out=np.full(len(frame), np.nan), where=n > 0)
    frame["low"], frame["high"] = wilson(count, n, level=level)
    return frame


def known(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return the values that are not null."""
    return column[column.notna()]


def _truth(frame: pd.DataFrame, column: str) -> pd.Series[Any]:
    """Return a column as nullable truth; a number of mentions is true where it is not 0."""
    if column.startswith("n_"):
        return frame[column].astype("Int64") > 0
    return frame[column].astype("boolean")


def in_context(
    sets: Sets,
    *,
    by: Literal["lemma", "form"] = "lemma",
    within: Literal["passage", "context"] = "passage",
    level: float = 0.95,
) -> pd.DataFrame:
    """Count the targets that occur elsewhere in their passage (Paperno et al. 2016, Figure 2a).

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    by : {"lemma", "form"}
        What counts as the target: the form or its lemma (as in the paper), or the very form.
    within : {"passage", "context"}
        Where to look: in the whole passage, or in the sentences before the target sentence
        only (there by lemma only).
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    DataFrame
        Two rows a set (in context, not in context): `set`, `column` and `value` (which
        annotation has which value), `label`, `count`, `n`, `missing`, and `share`, `low` and
        `high` between 0 and 1 (Wilson). For ``within="context"`` the column is
        `n_context_mentions` and the value tells if it is more than 0.

    Raises
    ------
    DataError
        If a column is missing, or the forms within the context sentences are asked for.
    """
    columns = {
        ("lemma", "passage"): "lemma_in_context",
        ("form", "passage"): "in_context",
        ("lemma", "context"): "n_context_mentions",
    }
    if (by, within) not in columns:
        raise DataError(
            f"there is no annotation for by={by!r} within={within!r}",
            remedy='use by="lemma" or "form" within="passage", or by="lemma" within="context"',
        )
    column = columns[by, within]
    rows = []
    for name, frame in named(sets).items():
        require(frame, column, name=name)
        truth = known(_truth(frame, column))
        for value, label in ((True, "in context"), (False, "not in context")):
            rows.append(
                {"set": name, "column": column, "value": value, "label": label}
                | counted(int((truth == value).sum()), len(truth), len(frame))
            )
    return shares(rows, level)


def counted(count: int, n: int, rows: int) -> dict[str, int]:
    """Return one bar's counts: of `rows` rows `n` have a value."""
    return {"count": count, "n": n, "missing": rows - n}


def classes(sets: Sets, *, level: float = 0.95) -> pd.DataFrame:
    """Count the classes of the targets (Paperno et al. 2016, Figure 2b).

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    DataFrame
        Six rows a set, one a class in the order of `CLASSES`; columns as for
        :func:`in_context`.

    Raises
    ------
    DataError
        If a column is missing or holds a class that is none of `CLASSES`.
    """
    return _classes({name: (frame, frame) for name, frame in named(sets).items()}, level)


def classes_out_of_context(
    sets: Sets, *, by: Literal["lemma", "form"] = "lemma", level: float = 0.95
) -> pd.DataFrame:
    """Count the classes of the targets that occur nowhere else in the passage (Figure 2c).

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    by : {"lemma", "form"}
        Whether neither form nor lemma occurs (as in the paper), or not the very form.
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    DataFrame
        As :func:`classes`, out of the `n` such targets; `missing` counts the rows without
        an answer.

    Raises
    ------
    DataError
        If a column is missing or holds a class that is none of `CLASSES`.
    """
    column = {"lemma": "lemma_in_context", "form": "in_context"}.get(by)
    if column is None:
        raise DataError(f"by={by!r} is unknown", remedy='use by="lemma" or by="form"')
    parts = {}
    for name, frame in named(sets).items():
        require(frame, column, name=name)
        outside = (frame[column].astype("boolean") == False).fillna(value=False)  # noqa: E712 - nullable
        parts[name] = (frame[outside.to_numpy(dtype=bool)], frame)
    return _classes(parts, level)


def _classes(parts: Mapping[str, tuple[pd.DataFrame, pd.DataFrame]], level: float) -> pd.DataFrame:
    """Count the classes in the first frame of each pair; the second one is the whole set."""
    rows = []
    for name, (part, whole) in parts.items():
        require(whole, "target_class", name=name)
        found = known(part["target_class"]).astype("str")
        if strange := sorted(set(found) - set(CLASSES)):
            raise DataError(f"the target class {strange[0]!r} is none of {' '.join(CLASSES)}")
        missing = int(whole["target_class"].isna().sum())
        rows += [
            {"set": name, "column": "target_class", "value": value, "label": value}
            | counted(int((found == value).sum()), len(found), len(found) + missing)
            for value in CLASSES
        ]
    return shares(rows, level)


def direct_speech(sets: Sets, *, level: float = 0.95) -> pd.DataFrame:
    """Count the passages with quoted speech, and the blanks within it (section 3.3).

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    DataFrame
        Two rows a set, the columns `direct_speech` and `target_in_speech`; otherwise as
        :func:`in_context`.
    """
    rows = []
    for name, frame in named(sets).items():
        for column, label in (("direct_speech", "in the passage"), ("target_in_speech", "around the target")):
            require(frame, column, name=name)
            truth = known(frame[column].astype("boolean"))
            rows.append(
                {"set": name, "column": column, "value": True, "label": label}
                | counted(int(truth.sum()), len(truth), len(frame))
            )
    return shares(rows, level)
