"""Predictions lined up by item: from runs, frames or run names to a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.evaluation.bootstrap import BootstrapSettings, Ints, Mask
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.model_predictions import ModelPredictions, predictions_of
from workbench.evaluation.table_notes import comparison_notes
from workbench.items.ablation import RENAMED, split_variant
from workbench.items.items import Items
from workbench.predictions.schema import text_array
from workbench.storage.errors import DataError


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
        All items that a model predicted without any.
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
        If there are no predictions, the models have no item in common, or two have different answers to one
        item, unless the names in one of the items were changed (``wb.rename``).
    """
    sampling = BootstrapSettings(level, int(resamples), int(seed)).checked()
    models = predictions_of(runs, items, pool=True)
    if not models:
        raise DataError("there are no predictions to compare", remedy="pass runs that have some")
    item_ids = _answered_ids(models) if items is None else text_array(items.frame["item_id"])
    rows = _rows_of_items(item_ids, models)
    common: Mask = np.asarray((rows >= 0).all(axis=0))
    if not common.any():
        lost = [model for model, row in zip(models, rows, strict=True) if not (row >= 0).any()]
        names = " and ".join(repr(model.model) for model in (lost or models)[:2])
        which = "in common" if items is None else "of those given" if lost else "in common, of those given,"
        ids = [model.table["item_id"] for model in (models[0], models[-1])]
        ids = [lost[0].table["item_id"], item_ids] if lost else ids
        problem = f"{names} predicted no item {which} whose answer is known"
        raise DataError(problem, remedy=_hint_without_common_items(*ids))
    subset = items if items is None or common.all() else items.where(common)
    ids = item_ids if common.all() else item_ids.filter(pa.array(common))
    answers, book_ids = (
        pa.nulls(len(ids), pa.string()) if subset is None else text_array(subset.frame[name])
        for name in ("answer", "book_id")
    )
    comparison = Comparison(
        ids, models, rows[:, common], sampling, answers=_answers(ids, models, rows[:, common], answers),
        book_ids=book_ids, items=subset, annotations=annotations,
    )  # fmt: skip
    variants = None if items is None else set(items.frame["variant"].unique())
    comparison.warnings = comparison_notes(comparison.labels, models, rows, comparison.log_prob, variants)
    return comparison


def _answers(
    item_ids: pa.Array, models: Sequence[ModelPredictions], rows: Ints, merged: pa.Array
) -> list[str]:
    """Return the answers of items, nulls filled from the predictions; DataError if two are different."""
    for model, of_model in zip(models, rows, strict=True):
        if any(split_variant(str(variant))[1] == RENAMED for variant in model.values("variant", of_model)):
            continue  # they are other names on purpose
        answers = model.strings("answer", of_model)
        differ = pc.fill_null(pc.not_equal(answers, merged), fill_value=False)
        for k in np.flatnonzero(differ.to_numpy(zero_copy_only=False)).tolist():
            answer, expected = answers[k].as_py(), merged[k].as_py()
            if answer.casefold() != expected.casefold():
                raise DataError(
                    f"{model.model!r} has the answer {answer!r} to the item {item_ids[k].as_py()!r}, expected"
                    f" {expected!r}",
                    remedy="compare predictions of these very items",
                )
        merged = pc.coalesce(merged, answers)
    return list(merged.to_pylist())


def _answered_ids(models: Sequence[ModelPredictions]) -> pa.Array:
    """Return the ids of the items that a model predicted and whose answer is known, sorted."""
    answered = (model.table["item_id"].filter(pc.is_valid(model.table["correct"])) for model in models)
    chunks = [chunk for ids in answered for chunk in ids.chunks]
    return pc.unique(pa.chunked_array(chunks, pa.string())).sort()


def _rows_of_items(item_ids: pa.Array, models: Sequence[ModelPredictions]) -> Ints:
    """Return the row of each model (m) for each item, (m, all items); -1 where no answer is known."""
    rows = np.full((len(models), len(item_ids)), -1, dtype=np.int64)
    for model, of_model in zip(models, rows, strict=True):
        if (ids := model.table["item_id"].combine_chunks()).equals(item_ids):
            item = np.arange(len(item_ids))
        else:
            item = pc.fill_null(pc.index_in(ids, value_set=item_ids), -1).to_numpy()
        answered = np.flatnonzero((item >= 0) & pc.is_valid(model.table["correct"]).to_numpy())
        of_model[item[answered]] = answered
    return rows


def _hint_without_common_items(first: Any, second: Any) -> str:
    """Return what to do where two columns of ids share no answered item; name an id of each if all differ."""
    remedy = "compare predictions of the same data set and split"
    if len(first) and len(second) and not pc.any(pc.is_in(first, value_set=second)).as_py():
        remedy += f", with the same ids; the first are {first[0].as_py()!r} and {second[0].as_py()!r}"
    return remedy
