"""Predictions as Arrow columns, one model and run each: quick to line up, lists read a row at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.evaluation.reading import NEEDED, several, sources
from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.runs.predictions import SCHEMA

if TYPE_CHECKING:
    from workbench.runs.store import Run

_SCALARS = (*NEEDED, "prediction")
LISTS = ("top_words", "top_log_probs", "attention")
"""Columns of lists that a comparison shows."""


class Rows(NamedTuple):
    """The predictions of one model in one run, in any order.

    Attributes
    ----------
    model, run : str
    info : mapping
        What is known of the run.
    table : pyarrow.Table (k,)
        The columns that evaluation reads, and ``prediction``.
    lists : Table or DataFrame (k,)
        Where the columns of `LISTS` are, those that there are.
    """

    model: str
    run: str
    info: Mapping[str, Any]
    table: pa.Table
    lists: pa.Table | pd.DataFrame

    def floats(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column as numbers, null as NaN."""
        return np.asarray(self.table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)

    def truths(self, name: str) -> npt.NDArray[np.bool_]:
        """Return a column of Booleans, null as false."""
        return np.asarray(pc.fill_null(self.table[name], fill_value=False).to_numpy(), dtype=bool)

    def values(self, name: str, places: npt.NDArray[np.int64]) -> set[Any]:
        """Return the different values of some rows of a column, null left out."""
        return set(pc.unique(self.table[name].take(pa.array(places))).to_pylist()) - {None}

    def cell(self, name: str, place: int) -> Any:
        """Return a single value, None where it is null."""
        return self.table[name][place].as_py()

    def several(self, name: str, place: int) -> list[Any] | None:
        """Return a list of a row, None where there is none."""
        if isinstance(self.lists, pa.Table):
            found = self.lists[name][place].as_py() if name in self.lists.column_names else None
        else:
            found = self.lists[name].iloc[place] if name in self.lists else None
        return list(found) if isinstance(found, list | tuple | np.ndarray) else None


def rows(runs: Any) -> list[Rows]:
    """Return the predictions that something stands for; see :func:`workbench.evaluation.reading.sources`.

    Stored runs are read as Arrow tables, which is some ten times faster than as frames.

    Raises
    ------
    DataError
        As `sources` does.
    """
    with ThreadPoolExecutor() as pool:
        return [found for part in pool.map(_read, several(runs)) for found in part]


def _read(one: Any) -> list[Rows]:
    if isinstance(one, str):
        from workbench.runs.store import find  # noqa: PLC0415 - reads DuckDB

        one = find(one)
    table = getattr(one, "table", None)
    if isinstance(table, pa.Table):
        return list(_apart(table, str(one.run), getattr(one, "info", None) or {}))
    return [_from_frame(source.model, source.run, source.frame, source.info) for source in sources(one)]


def _apart(table: pa.Table, run: str, info: Mapping[str, Any]) -> Iterator[Rows]:
    """Give the models of one run apart; the folder's name is that of the run."""
    models = pc.unique(table["model"]).to_pylist()
    for model in models:
        part = table if len(models) == 1 else table.filter(pc.equal(table["model"], model))
        part = part.combine_chunks()
        _single(part["item_id"], model)
        yield Rows(model, run, info, part.select(list(_SCALARS)), part)


def _from_frame(model: str, run: str, frame: pd.DataFrame, info: Mapping[str, Any]) -> Rows:
    columns = {}
    for name in _SCALARS:
        kind = SCHEMA.field(name).type
        values = frame.get(name, None)
        try:
            columns[name] = (
                pa.nulls(len(frame), kind) if values is None else pa.array(values, kind, from_pandas=True)
            )
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise DataError(f"the column {name!r} of the predictions is strange: {error}") from None
    return Rows(model, run, info, pa.table(columns), frame)


def _single(ids: pa.ChunkedArray, model: str) -> None:
    if pc.count_distinct(ids).as_py() == len(ids):
        return
    counts = pc.value_counts(ids).to_pylist()
    twice = next(entry["values"] for entry in counts if entry["counts"] > 1)
    raise DataError(
        f"the model {model!r} has two predictions for the item {twice!r}",
        remedy="give each set of predictions a run or model name of its own",
    )


def loaded(
    runs: Any,
    *,
    dataset: str | None = None,
    split: str | None = None,
    variant: str | None = None,
    path: Path | str | None = None,
) -> Items:
    """Load the items that predictions are about.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        What is not given is what they name; the variant is that of most runs.
    dataset, split, variant, path : optional
        As for :func:`workbench.datasets.load`.

    Raises
    ------
    DataError
        If the runs name several sets, or the items are not found.
    """
    from workbench.datasets import load  # noqa: PLC0415 - only where no items are given

    named: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    for one in rows(runs) if dataset is None or split is None or variant is None else ():
        sets, splits, forms = (
            [str(value) for value in one.table[name].unique().to_pylist() if value is not None]
            for name in ("dataset", "split", "variant")
        )
        for key in {(dataset or a, split or b) for a in sets for b in splits}:
            named.setdefault(key, Counter())[tuple(forms)] += 1
    if len(named) > 1:
        raise DataError(
            f"the predictions are about several sets: {', '.join(' '.join(key) for key in named)}",
            remedy="compare predictions of the same data set and split, and say which items",
        )
    if not named and (dataset is None or split is None):
        raise DataError("there are no predictions", remedy="pass runs that have some")
    (dataset, split), found = next(iter(named.items()), ((dataset, split), Counter()))
    variants = (variant,) if variant is not None else found.most_common(1)[0][0]
    try:
        return Items.concat(load(str(dataset), split, variant=name, path=path) for name in variants)
    except DataError as error:
        raise DataError(
            f"the items of {dataset} {split} cannot be loaded: {error.problem}",
            file=error.file,
            remedy=error.remedy or "say which items, and where they are",
        ) from error


def run_of(name: str) -> Run:
    """Return a stored run by its name, or by the folder that it lies in.

    Raises
    ------
    DataError
        If there is none, or its folder is damaged.
    """
    from workbench.runs import store as results  # noqa: PLC0415 - reads DuckDB

    folder = Path(name)
    if not (folder / results.INFO).is_file() or folder.name == name:
        return results.find(name)
    return results.at(folder.resolve())
