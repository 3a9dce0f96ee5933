"""The columns of the annotations: their names, order and types, as a table of Arrow and as a frame."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pandas as pd
import pyarrow as pa

from workbench.items.schema import Span, objects

_SPANS = pa.list_(pa.int32())  # start, end, start, end ...
FEATURES = pa.schema(
    [
        ("target_pos", pa.string()),
        ("target_class", pa.string()),
        ("target_lemma", pa.string()),
        ("in_context", pa.bool_()),
        ("lemma_in_context", pa.bool_()),
        ("n_mentions", pa.int64()),
        ("n_context_mentions", pa.int64()),
        ("mention_distance", pa.int64()),
        ("mention_sentence", pa.int64()),
        ("same_root", pa.bool_()),
        ("vocative", pa.bool_()),
        ("direct_speech", pa.bool_()),
        ("target_in_speech", pa.bool_()),
        ("n_names", pa.int64()),
        ("n_context_sentences", pa.int64()),
        ("n_tokens", pa.int64()),
        ("target_count", pa.int64()),
        ("mentions", _SPANS),
        ("speech", _SPANS),
        ("names", _SPANS),
    ]
)
"""The columns of the table in order, but for ``item_id`` before and ``pipeline`` after them."""

_DTYPES = {pa.string(): "str", pa.bool_(): "boolean", pa.int64(): "Int64"}


def table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Return rows, as :func:`workbench.analysis.targets.features` gives them, as a table of `FEATURES`."""
    return pa.table([_column([row[field.name] for row in rows], field.type) for field in FEATURES], FEATURES)


def _column(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    if kind == _SPANS:
        values = [[edge for span in spans for edge in span] for spans in values]
    return pa.array(values, kind)


def frame(
    features: pa.Table, ids: Sequence[str], counts: Sequence[int | None], pipeline: str
) -> pd.DataFrame:
    """Return the annotations of items.

    Parameters
    ----------
    features : pyarrow.Table
        The columns of `FEATURES`, one row an item.
    ids : sequence of str
        Names of the items.
    counts : sequence of (int or None)
        Their targets' counts in the vocabulary.
    pipeline : str
        Name and version of the pipeline.
    """
    columns: dict[str, Any] = {"item_id": pd.Series(ids, dtype="str")}
    for field in FEATURES:
        values = features[field.name]
        if field.type == _SPANS:
            columns[field.name] = objects(list(_pairs(values.combine_chunks())))
        else:
            columns[field.name] = pd.array(values.to_pylist(), dtype=_DTYPES[field.type])
    columns["target_count"] = pd.array(counts, dtype="Int64")
    columns["pipeline"] = pd.Series([pipeline] * len(ids), dtype="str")
    return pd.DataFrame(columns)


def _pairs(column: pa.ListArray) -> Iterator[list[Span]]:
    flat = column.flatten().tolist()
    pairs = list(zip(flat[::2], flat[1::2], strict=True))
    edges = [0, *column.value_lengths().to_numpy().cumsum().tolist()]
    for start, end in pairwise(edges):
        yield pairs[start // 2 : end // 2]
