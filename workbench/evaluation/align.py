"""Predictions lined up by item: from runs, frames or run names to a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.evaluation.bootstrap import BootstrapSettings, Ints, Mask
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.model_predictions import PredictionSource, run_source, source_of, split_runs
from workbench.evaluation.table_columns import COLUMNS_READ, frame_table, is_renamed, texts
from workbench.evaluation.table_notes import comparison_notes
from workbench.items.items import Items
from workbench.predictions.schema import text_array
from workbench.predictions.store import Run
from workbench.storage.errors import DataError

_IN_USE: WeakValueDictionary[Path, pa.Table] = WeakValueDictionary()


def align(
    items: Items | None,
    runs: Any,
    *,
    annotations: Items | pd.DataFrame | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Comparison:
    """Line up the predictions of several models by item.

    Parameters
    ----------
    items : Items or None
        None for the items that all models predicted.
    runs : Run, DataFrame, str or Replicates, or several of these
        A frame needs ``item_id``, ``model`` and ``prediction`` alone if there are items. Replicates are one
        model.
    annotations : DataFrame or Items, optional
        From ``wb.annotate``, or any frame with ``item_id``: items can be sliced by its columns.
    level, resamples, seed : float, int, int
        Confidence level of the intervals, and number and seed of the bootstrap replicates and of the
        random choices of signs.

    Raises
    ------
    DataError
        If there are no predictions, a model has none of the items, or two have different answers to one item,
        unless the names in one of the items were changed (``wb.rename``).
    """
    sampling = BootstrapSettings(level, int(resamples), int(seed)).checked()
    predictions = list(split_runs(runs, items, pool=True))
    if not predictions:
        raise DataError("there are no predictions to compare", hint="pass runs that have some")
    tables = [_shared(each) if isinstance(each, Run) else frame_table(each) for each in predictions]
    sources = [
        run_source(each, table) if isinstance(each, Run) else source_of(each)
        for each, table in zip(predictions, tables, strict=True)
    ]
    item_ids = _answered_ids(tables) if items is None else text_array(items.frame["item_id"])
    rows = _rows_of_items(item_ids, tables)
    asked: Mask = np.asarray((rows >= 0).any(axis=0) if items is not None else (rows >= 0).all(axis=0))
    if not asked.any() or (rows < 0).all(axis=1).any():
        lost = np.flatnonzero((rows < 0).all(axis=1)).tolist()
        names = " and ".join(repr(sources[k].model) for k in (lost or range(len(sources)))[:2])
        which = "in common" if items is None else "of those given"
        first, second = tables[lost[0] if lost else 0]["item_id"], tables[-1]["item_id"]
        problem = f"{names} predicted no item {which} whose answer is known"
        raise DataError(problem, hint=_hint_without_common_items(first, item_ids if lost else second))
    subset = items if items is None or asked.all() else items.where(asked)
    ids = item_ids if asked.all() else item_ids.filter(pa.array(asked))
    rows = rows[:, asked]
    n_answered = [len(table) - table["correct"].null_count for table in tables]
    tables = [
        table if np.array_equal(row, np.arange(len(table))) else table.take(pa.array(row, mask=row < 0))
        for table, row in zip(tables, rows, strict=True)
    ]
    answers, book_ids = (
        pa.nulls(len(ids), pa.string()) if subset is None else text_array(subset.frame[name])
        for name in ("answer", "book_id")
    )
    comparison = Comparison(
        ids, predictions=predictions, sources=sources, tables=tables, rows=rows, sampling=sampling,
        answers=_answers(ids, sources, tables, answers), book_ids=book_ids, items=subset,
        annotations=annotations,
    )  # fmt: skip
    variants = None if items is None else set(items.frame["variant"].unique())
    n_items = {} if items is None else {"items given": len(items)}
    counts = n_items | dict(zip(comparison.labels, n_answered, strict=True))
    notes = comparison_notes(dict(zip(comparison.labels, tables, strict=True)), rows >= 0, counts, variants)
    comparison.warnings = [*notes, *dict.fromkeys(note for source in sources for note in source.notes)]
    return comparison


def _shared(run: Run) -> pa.Table:
    """Return the table of a run, the one in use if there is one: a cell that is run again adds none."""
    table = run.read(COLUMNS_READ).combine_chunks()
    earlier = _IN_USE.get(run.folder)
    if earlier is None or not earlier.equals(table):
        _IN_USE[run.folder] = earlier = table
    return earlier


def _answers(
    item_ids: pa.Array, sources: Sequence[PredictionSource], tables: Sequence[pa.Table], merged: pa.Array
) -> list[str]:
    """Return the answers of items, nulls filled from the predictions; DataError if two are different."""
    for source, table in zip(sources, tables, strict=True):
        if is_renamed(table):
            continue  # they are other names on purpose
        answers = texts(table, "answer")
        differ = pc.fill_null(pc.not_equal(answers, merged), fill_value=False)
        for k in np.flatnonzero(differ.to_numpy(zero_copy_only=False)).tolist():
            answer, expected = answers[k].as_py(), merged[k].as_py()
            if answer.casefold() != expected.casefold():
                raise DataError(
                    f"{source.model!r} has the answer {answer!r} to the item {item_ids[k].as_py()!r},"
                    f" expected {expected!r}",
                    hint="compare predictions of these very items",
                )
        merged = pc.coalesce(merged, answers)
    return list(merged.to_pylist())


def _answered_ids(tables: Sequence[pa.Table]) -> pa.Array:
    """Return the ids of the items that a model predicted and whose answer is known, sorted."""
    answered = (table["item_id"].filter(pc.is_valid(table["correct"])) for table in tables)
    chunks = [chunk for ids in answered for chunk in ids.chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string())).sort()


def _rows_of_items(item_ids: pa.Array, tables: Sequence[pa.Table]) -> Ints:
    """Return the row of each model (m) for each item, (m, all items); -1 where no answer is known."""
    rows = np.full((len(tables), len(item_ids)), -1, dtype=np.int64)
    for table, of_model in zip(tables, rows, strict=True):
        if (ids := table["item_id"].combine_chunks()).equals(item_ids):
            item = np.arange(len(item_ids))
        else:
            item = pc.fill_null(pc.index_in(ids, value_set=item_ids), -1).to_numpy()
        answered = np.flatnonzero((item >= 0) & pc.is_valid(table["correct"]).to_numpy())
        of_model[item[answered]] = answered
    return rows


def _hint_without_common_items(first: Any, second: Any) -> str:
    """Return what to do where two columns of ids share no answered item; name an id of each if all differ."""
    hint = "compare predictions of the same data set and split"
    if len(first) and len(second) and not pc.any(pc.is_in(first, value_set=second)).as_py():
        hint += f", with the same ids; the first are {first[0].as_py()!r} and {second[0].as_py()!r}"
    return hint
