"""All runs of the store, ranked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from workbench.evaluation.metrics import measure, note, typed
from workbench.evaluation.paper import literature
from workbench.evaluation.reading import NEEDED, VARIANT, Source, check_options, one_value, sources
from workbench.evaluation.significance import compare, holm
from workbench.items.schema import DataError

_MEASURED = (
    "n", "n_known", "accuracy", "accuracy_low", "accuracy_high", "interval", "accuracy_known", "perplexity",
    "median_rank", "resampled_by", "n_novels",
)  # fmt: skip
_PUBLISHED = ("published", "source")
_REPORTED = (
    "Published rows are as their sources print them: on all items, without intervals or tests, and by "
    "rules of their own."
)
_AGAINST = ("difference", "difference_low", "difference_high", "n_paired", "p", "p_holm")


def leaderboard(
    runs: Any = None,
    *,
    dataset: str | None = None,
    split: str | None = None,
    by: str | Sequence[str] = ("dataset", "split", "variant"),
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    published: bool = True,
) -> pd.DataFrame:
    """Rank runs by accuracy, and test each against the best.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these, optional
        What to rank; all stored runs by default.
    dataset, split : str, optional
        Only items of these.
    by : str or sequence of str, default ("dataset", "split", "variant")
        Columns of the predictions; each combination of their values has a ranking of its own.
    level : float, default 0.95
        Confidence level of the intervals.
    resamples : int, default 2000
        Bootstrap replicates, and random choices of signs.
    seed : int, default 0
    published : bool, default True
        Whether to rank what others report (``data/published``) among the runs of the same data sets.
        Such rows have no items: no `n`, no interval, no test. Where a source does not say which variant
        it is about, the row is in a group of its own. They are left out where `by` names a column that
        only items have, such as ``book_id``.

    Returns
    -------
    DataFrame
        One row a group, model and run, the best first:

        columns of `by`, `place` (equal accuracies share one), `model`, `system`, `run`
        `unit`, `filter`, `vocabulary_size`, `unknown`
            What was predicted and how answers outside the vocabulary were counted; results that
            differ here must not be compared blindly.
        `n` ... `n_novels`
            As :func:`workbench.evaluation.metrics.evaluate` gives them; accuracies are fractions.
        `difference`, `difference_low`, `difference_high`, `n_paired`
            Accuracy minus that of the best, with the interval of the paired bootstrap, on the
            `n_paired` items that both predicted.
        `p`, `p_holm`
            Of the paired test of :func:`workbench.evaluation.significance.significance` against the
            best; corrected within the group (Holm 1979). The best was chosen by the same data, so
            they are a guide and no proof.

        Null for the best itself, and where two runs have no item in common.

        `published`, `source`
            Whether the row is one of those (all are not with ``published=False``), and the paper and table
        it is from.

    Raises
    ------
    DataError
        If a column is missing, or an option makes no sense.
    """
    check_options(level, resamples)
    names = list(dict.fromkeys([by] if isinstance(by, str) else by))
    found = sources(stored(dataset, split) if runs is None else runs)
    groups = _groups(found, names, {"dataset": dataset, "split": split})
    reported = _reported(names, {"dataset": dataset, "split": split}, groups) if published else {}
    rows: list[dict[str, Any]] = []
    for key in sorted(groups.keys() | reported.keys(), key=lambda key: tuple(map(str, key))):
        ranked = _ranked(groups.get(key, []), level=level, resamples=resamples, seed=seed)
        ranked = _placed(ranked, reported.get(key, []))
        rows += [dict(zip(names, key, strict=True)) | row for row in ranked]
    head = [*names, *(name for name in ("place", "model", "system", "run", *VARIANT) if name not in names)]
    table = typed(pd.DataFrame(rows, columns=[*head, *_MEASURED, *_AGAINST, *_PUBLISHED]))
    table = table.astype(dict.fromkeys(("place", "n_paired"), "Int64"))
    table = table.astype({name: "Float64" for name in _AGAINST if name != "n_paired"})
    table = table.astype({"published": "bool", "source": "str"})
    datasets = {str(value) for source in found for value in source.frame["dataset"].dropna().unique()}
    measured = table[~table["published"]]
    said = note(measured, datasets, level=level, resamples=resamples, seed=seed)
    if len(table) > len(measured):
        said += f" {_REPORTED}"
    table.attrs["note"] = said
    return table


def _groups(
    found: list[Source], names: list[str], wanted: dict[str, str | None]
) -> dict[tuple[Any, ...], list[Source]]:
    """Cut predictions into groups, each with a ranking of its own; rows without an answer are left out."""
    groups: dict[tuple[Any, ...], list[Source]] = {}
    for source in found:
        frame = source.frame
        for column, value in wanted.items():
            if value is not None:
                frame = frame[frame[column] == value]
        if lacking := [name for name in names if name not in frame.columns]:
            raise DataError(f"the predictions have no column {lacking[0]!r} to group by")
        parts: Any = frame.groupby(names, dropna=False, observed=True) if names else [((), frame)]
        for values, part in parts:
            key = tuple("" if pd.isna(value) else value for value in values)  # nulls do not equal each other
            if part["correct"].notna().any():
                groups.setdefault(key, []).append(source._replace(frame=part.reset_index(drop=True)))
    return groups


def stored(dataset: str | None = None, split: str | None = None) -> pd.DataFrame:
    """Return the predictions of all stored runs, without their long columns."""
    from workbench.runs.store import query  # noqa: PLC0415 - reads DuckDB

    wanted = {"dataset": dataset, "split": split}
    quoted = {column: value.replace("'", "''") for column, value in wanted.items() if value is not None}
    conditions = [f"{column} = '{value}'" for column, value in quoted.items()]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    columns = ", ".join(f'"{name}"' for name in NEEDED)
    found = query(f"SELECT {columns} FROM predictions{where}")  # noqa: S608 - names are ours, values escaped
    return pd.DataFrame(found)


def _ranked(group: list[Source], *, level: float, resamples: int, seed: int) -> list[dict[str, Any]]:
    """Measure the runs of one group and compare each with the best."""
    measured = [measure(source.frame, level=level, resamples=resamples, seed=seed) for source in group]

    def worth(place: int) -> tuple[float, float, str, str]:
        row, source = measured[place], group[place]
        return -row["accuracy"], row.get("perplexity", np.inf), source.model, source.run

    order = sorted(range(len(group)), key=worth)
    rows: list[dict[str, Any]] = []
    for place in order:
        source, row = group[place], measured[place]
        head = {"model": source.model, "system": one_value(source.frame["system"]), "run": source.run}
        variant = {name: one_value(source.frame[name]) for name in VARIANT}
        against = _against(source, group[order[0]], level, resamples, seed) if rows else {}
        rows.append(head | variant | row | against)
    for row, corrected in zip(rows, holm([row.get("p", np.nan) for row in rows]), strict=True):
        row["p_holm"] = corrected
    return rows


def _reported(
    names: list[str], wanted: dict[str, str | None], groups: dict[tuple[Any, ...], list[Source]]
) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Return what others report, by group; see `workbench.evaluation.paper.literature`."""
    present = {
        str(d) for group in groups.values() for s in group for d in s.frame["dataset"].dropna().unique()
    }
    table = literature.rows(names, wanted, present)
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in [] if table is None else table.to_dict("records"):
        told = {str(name): value for name, value in row.items() if not pd.isna(value)}
        key = tuple(told.get(name, "") for name in names)
        found.setdefault(key, []).append(told | {"published": True})
    return found


def _placed(ranked: list[dict[str, Any]], reported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort measured and reported rows into one ranking; of equal ones, which share a place, ours first."""
    ours = [{"published": False} | row for row in ranked]
    theirs = sorted(reported, key=lambda row: (row.get("perplexity", np.inf), row["model"]))
    rows = sorted([*ours, *theirs], key=lambda row: -row["accuracy"])  # stable
    for number, row in enumerate(rows):
        equal = number and row["accuracy"] == rows[number - 1]["accuracy"]
        row["place"] = rows[number - 1]["place"] if equal else number + 1
    return rows


def _against(source: Source, best: Source, level: float, resamples: int, seed: int) -> dict[str, Any]:
    mine, theirs = (set(s.frame["item_id"][s.frame["correct"].notna()]) for s in (source, best))
    if not mine & theirs:
        return {}
    found = compare(source, best, resamples=resamples, seed=seed, level=level)
    low, high = found.interval
    return {
        "difference": found.difference,
        "difference_low": low,
        "difference_high": high,
        "n_paired": found.n,
        "p": found.p_value,
    }
