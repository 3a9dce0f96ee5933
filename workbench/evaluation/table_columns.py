"""Columns of Arrow tables of predictions as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.evaluation.bootstrap import Floats, Mask
from workbench.evaluation.model_predictions import NEEDED
from workbench.items.ablation import RENAMED, split_variant
from workbench.predictions.schema import SCHEMA
from workbench.predictions.signature import VARIANT

COLUMNS_READ = (*NEEDED, "prediction")
"""Columns of predictions that a comparison reads."""


def frame_table(frame: pd.DataFrame) -> pa.Table:
    """Return the columns `COLUMNS_READ` of a frame of predictions; null where it has none."""
    columns = {name: frame.get(name, [None] * len(frame)) for name in COLUMNS_READ}
    arrays = [pa.array(values, SCHEMA.field(name).type, from_pandas=True) for name, values in columns.items()]
    return pa.table(arrays, list(columns))


def numbers(table: pa.Table, name: str) -> Floats:
    """Return a column as numbers, null as NaN."""
    return np.asarray(table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)


def truths(table: pa.Table, name: str) -> Mask:
    """Return a column of Booleans, null as false."""
    return np.asarray(pc.fill_null(table[name], fill_value=False).to_numpy(), dtype=bool)


def texts(table: pa.Table, name: str) -> pa.Array:
    """Return a column of text."""
    return table[name].cast(pa.string()).combine_chunks()


def log_probs(table: pa.Table) -> Floats:
    """Return the natural log-probabilities of the answers; NaN where there is none, and of scores."""
    proper = pc.fill_null(pc.equal(table["score_type"], "log_prob"), fill_value=False).to_numpy()
    return np.where(proper, numbers(table, "log_prob"), np.nan)


def value_sets(table: pa.Table) -> dict[str, set[Any]]:
    """Return the different values of the variant and of each column of `VARIANT`, without null."""
    return {name: set(pc.unique(table[name]).to_pylist()) - {None} for name in ("variant", *VARIANT)}


def known_candidates(table: pa.Table) -> pa.Array:
    """Return what is known of the candidates of the items, for `other_candidates`.

    That is the digest (see :func:`workbench.predictions.schema.candidate_digests`). Null where nothing is
    known, or the items have other names on purpose.
    """
    return pa.nulls(len(table), pa.string()) if is_renamed(table) else texts(table, "candidates_digest")


def digests_of(frame: pd.DataFrame) -> pd.Series[Any]:
    """Return what `known_candidates` does, of a frame of predictions."""
    renamed = _is_renamed(frame["variant"].unique().tolist())
    return pd.Series(None, frame.index, dtype="str") if renamed else frame["candidates_digest"]


def is_renamed(table: pa.Table) -> bool:
    """Return whether names in the items were changed, which may be answers or candidates."""
    return _is_renamed(pc.unique(table["variant"]).to_pylist())


def _is_renamed(variants: Sequence[Any]) -> bool:
    return any(split_variant(str(variant))[1] == RENAMED for variant in variants)


def filled_texts(name: str, column: pa.Array, tables: Sequence[pa.Table]) -> pa.Array:
    """Return a column of text of items (n,), its nulls filled from the models' tables of n rows."""
    for table in tables:
        if column.null_count:
            column = pc.coalesce(column, texts(table, name))
    return column
