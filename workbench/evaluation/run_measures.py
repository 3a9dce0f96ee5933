"""Measures of runs, and tests of each against the best; those of stored runs are in the cache."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from workbench.evaluation.align import align
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.metrics import chance_text, is_random, measure_all, subset_of
from workbench.evaluation.model_predictions import (
    NEEDED,
    columns_read,
    from_source,
    predictions_of,
    source_of,
    traits_of,
)
from workbench.evaluation.paired import joint_candidates, other_candidates
from workbench.evaluation.slices import OF_PREDICTIONS, check_group_names, grouped, joined
from workbench.evaluation.table_columns import digests_of
from workbench.items.items import Items
from workbench.items.language import language
from workbench.predictions import store
from workbench.predictions.measures import MEASURES
from workbench.predictions.signature import VARIANT, one_value
from workbench.storage.cache import Cache, digest, make_room
from workbench.storage.errors import DataError, check_option

SETS = ("dataset", "split", "variant")
"""Columns by which runs are ranked unless others are asked for."""

MEASURED = (
    "n", "n_known", "accuracy", "accuracy_low", "accuracy_high", "interval",
    *(each.name for each in MEASURES if each.name not in {"accuracy", "expected_accuracy"}),
    "resampled_by", "n_novels", "share_in_training", "signature", "chance", "subset",
)  # fmt: skip
"""Columns that the measures of a run have in a ranking."""

Group = tuple[Any, ...]
"""The values of the columns that a ranking is by."""

_Subset = tuple[Group, pd.DataFrame]

_VERSION = 12  # of measures and tests in the cache: raised where results or labels change
_SCHEMA = pa.schema([("value", pa.string())])
_TEST = ("difference", "difference_low", "difference_high", "p", "mde")


@dataclass(frozen=True)
class MeasuredRun:
    """Measures of one model's predictions for a group of items, and the predictions, read on demand.

    `key` tells the predictions of a stored run apart from all others.
    """

    group: Group
    row: dict[str, Any]
    key: str | None
    predictions: Callable[[], pd.DataFrame]


class RunMeasures:
    """Measures and tests of runs, by the columns `names`, of the items that are `chosen`.

    Those of stored runs are in the cache, by the settings, the name of the run and the checksum of its
    predictions. Where the cache cannot be written, they are computed each time.
    """

    def __init__(self, names: Sequence[str], chosen: Mapping[str, Any], sampling: BootstrapSettings) -> None:
        self.names, self.sampling = list(names), sampling
        chosen = {name: value for name, value in chosen.items() if value is not None}
        self.groups = {name: value for name, value in chosen.items() if name in names}
        self.chosen = {name: value for name, value in chosen.items() if name not in names}
        versions = [_VERSION, MEASURED, metadata.version("lambada-workbench"), np.__version__, pd.__version__]
        self._settings = json.dumps([versions, self.names, self.chosen, sampling], default=str)
        self._cache, self._has_grown = Cache("measures", _SCHEMA), False

    def of_runs(self, runs: Any, items: Items | None = None) -> list[MeasuredRun]:
        """Measure runs, or frames of predictions."""
        models = predictions_of(runs, items, pool=True, columns=columns_read(self.names))
        if models:
            columns = {str(name) for model in models for name in joined(model, self.names)}
            for name in self.names:
                check_option("by", name, sorted(columns))
        subsets = self._subsets(models)
        return self._measured(lambda: subsets, None)

    def of_stored(self) -> list[MeasuredRun]:
        """Measure all stored runs; a damaged one is left out, with a warning that names it.

        Of a run that is in the cache no predictions are read.
        """
        measured: list[MeasuredRun] = []
        columns = set(NEEDED)
        for run in map(store.find_run, store.runs()["run"]):
            if not OF_PREDICTIONS.isdisjoint(self.names):
                check_group_names(self.names, (), run.item_columns)
            try:
                if not set(NEEDED).issuperset(self.names):
                    columns.update(map(str, run.item_columns))
                key = digest(self._settings, run.run, run.info["file_sha256"])
                measured += self._measured(partial(self._subsets_of_run, run), key)
            except DataError as error:
                warnings.warn(f"the run {run.run!r} is left out: {error}", stacklevel=3)
        for name in self.names:
            check_option("by", name, sorted(columns))
        return measured

    def against(self, runs: Sequence[MeasuredRun], best: MeasuredRun) -> list[dict[str, Any]]:
        """Test runs against the best: a difference, its interval and p; nothing where no item is common."""
        of_best = cache(best.predictions)

        def test(run: MeasuredRun) -> dict[str, float]:
            return _test(run.predictions(), of_best(), self.sampling)

        keys = [run.key and best.key and digest(run.key, best.key) for run in runs]
        return [self._cached(key, partial(test, run)) for key, run in zip(keys, runs, strict=True)]

    def close(self) -> None:
        """Keep the cache within its limit, if it has grown."""
        if self._has_grown:
            make_room()

    def _cached(self, key: str | None, compute: Callable[[], Any]) -> Any:
        """Return the result of a key from the cache; else compute it, and store it where there is a key."""
        if key is None:
            return compute()
        if (table := self._cache.get(key)) is not None:
            return json.loads(table["value"][0].as_py())
        text = json.dumps(compute(), default=_plain)
        with contextlib.suppress(DataError, OSError):  # a cache that may only be read, or a full disk
            self._cache.put(key, pa.table([[text]], schema=_SCHEMA))
            self._has_grown = True
        return json.loads(text)

    def _measured(self, subsets: Callable[[], list[_Subset]], key: str | None) -> list[MeasuredRun]:
        """Return the measures of predictions by group; `key` is that of a stored run."""

        def measures() -> list[Any]:
            groups = subsets()
            values = measure_all((frame for _, frame in groups), self.sampling)
            return [[group, _row(frame, row)] for (group, frame), row in zip(groups, values, strict=True)]

        def predictions(number: int) -> pd.DataFrame:
            return subsets()[number][1]

        measured = []
        for number, (values, row) in enumerate(self._cached(key, measures)):
            group = dict(zip(self.names, values, strict=True))
            if all(group[name] == value for name, value in self.groups.items()):
                subset_key = key and digest(key, str(number))
                measured.append(MeasuredRun(tuple(values), row, subset_key, partial(predictions, number)))
        return measured

    def _subsets_of_run(self, run: store.Run) -> list[_Subset]:
        return self._subsets(predictions_of(run, pool=True, columns=columns_read(self.names)))

    def _subsets(self, models: Sequence[pd.DataFrame]) -> list[_Subset]:
        """Cut predictions into groups for separate rankings; rows without an answer are left out."""
        subsets: list[_Subset] = []
        for model in models:
            columns = joined(model, self.names)
            frame = columns.assign(**{name: None for name in self.names if name not in columns})
            for column, value in self.chosen.items():
                frame = frame[frame[column] == value]
            for values, rows in grouped(frame, self.names) if self.names else [((), frame)]:
                group = tuple("" if pd.isna(value) else value for value in values)  # nulls are not equal
                if rows["correct"].notna().any():
                    subsets.append((group, from_source(rows.reset_index(drop=True), source_of(model))))
        return subsets


def _plain(value: Any) -> Any:
    return value.item()  # a number of numpy


def _row(frame: pd.DataFrame, measured: Mapping[str, Any]) -> dict[str, Any]:
    source, asked = source_of(frame), frame[frame["correct"].notna()]
    row = {"model": source.model, "system": one_value(frame["system"]), "run": source.run}
    variant = {name: one_value(frame[name]) for name in VARIANT}
    return row | variant | dict(measured) | {
        "chance": chance_text(frame["p_correct"].mean()) if is_random(frame) else "",
        "subset": subset_of(frame), "traits": traits_of(frame), "sets": _sets(frame),
        "item_ids": digest(json.dumps(asked["item_id"].tolist())),
        "candidates": joint_candidates(pa.array(digests_of(asked), pa.string(), from_pandas=True)),
    }  # fmt: skip


def same_items(a: MeasuredRun, b: MeasuredRun) -> bool:
    """Return whether two runs are on the same items, with the same candidates where they have some."""
    return a.row["item_ids"] == b.row["item_ids"] and not _other_candidates(a, b)


def _other_candidates(a: MeasuredRun, b: MeasuredRun) -> bool:
    """Return whether two runs on the same items have other candidates."""
    return other_candidates(*(pa.array([run.row["candidates"]], pa.string()) for run in (a, b)))


def _sets(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    """Return the data sets, splits and languages that predictions are about."""
    columns = frame[["dataset", "split", "variant"]].drop_duplicates().fillna("").to_numpy().tolist()
    return sorted({(dataset, split, language(variant)) for dataset, split, variant in columns})


def _test(a: pd.DataFrame, b: pd.DataFrame, sampling: BootstrapSettings) -> dict[str, float]:
    """Test two models on the items that both answered; empty if there is none."""
    ids = [frame["item_id"][frame["correct"].notna()] for frame in (a, b)]
    if not ids[0].isin(ids[1]).any():
        return {}
    comparison = align(None, [a, b], **sampling._asdict())
    test = comparison.tests(np.array([[0], [1]]))
    values = (test.difference[0], test.low[0], test.high[0], test.p[0], test.mde[0])
    return {"n_paired": comparison.n, **dict(zip(_TEST, map(float, values), strict=True))}
