"""Measures of runs, and tests of each against the best: kept in the cache, by the files of the runs."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from workbench.evaluation import bootstrap
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.metrics import chance_text, is_random, measure_all, subset_of
from workbench.evaluation.model_predictions import (
    BY_SEED,
    NEEDED,
    VARIANT,
    ModelPredictions,
    one_value,
    predictions_of,
    traits_of,
)
from workbench.evaluation.paired import accuracy_tests, joint_candidates, other_candidates, other_task
from workbench.evaluation.significance import compare_pair
from workbench.evaluation.slices import OF_PREDICTIONS, check_group_names, grouped, joined
from workbench.items.items import Items
from workbench.items.language import language
from workbench.predictions import store
from workbench.predictions.measures import MEASURES
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

_VERSION = 11  # of measures and tests that are kept: raised where results or labels change
_KEPT = 20_000  # measures and tests of one setting
_CACHE, _KNOWN = "measures", pa.schema([("key", pa.string()), ("value", pa.string())])
_USUAL = BootstrapSettings()


@dataclass(frozen=True)
class MeasuredRun:
    """Predictions of one model for a group of items: the measures, and the predictions on demand.

    `row` is empty where no answer is known; `key` tells the predictions apart from all others.
    """

    group: Group
    datasets: list[str]
    row: dict[str, Any]
    key: str | None
    predictions: Callable[[], ModelPredictions]


class RunMeasures:
    """Measures and tests of runs, by the columns `names`, of the items that are `chosen`.

    Those of stored runs are kept in one table of the cache a setting. Each has a key that digests the name of
    the run and the checksum of its predictions, so it holds for these alone. Writers replace the table as a
    whole: what one of two misses is computed again. Without a cache that can be written, everything is
    computed.
    """

    def __init__(
        self,
        names: Sequence[str] = SETS,
        chosen: Mapping[str, Any] | None = None,
        sampling: BootstrapSettings = _USUAL,
    ) -> None:
        self.names, self.sampling = list(names), sampling
        self.columns = set(NEEDED)  # and those of one's own that stored runs have, where `names` needs some
        chosen = {name: value for name, value in (chosen or {}).items() if value is not None}
        self.groups = {name: value for name, value in chosen.items() if name in names}
        self.chosen = {name: value for name, value in chosen.items() if name not in names}
        versions = [_VERSION, MEASURED, metadata.version("lambada-workbench"), np.__version__, pd.__version__]
        self._key = digest(json.dumps([versions, self.names, self.chosen, sampling], default=str))
        self._earlier: dict[str, str] | None = None
        self._used: dict[str, str] = {}

    def of_runs(self, runs: Any, items: Items | None = None) -> list[MeasuredRun]:
        """Measure runs, or frames of predictions."""
        models = predictions_of(runs, items, pool=True)
        if models:
            columns = {str(name) for model in models for name in joined(model, self.names)}
            for name in self.names:
                check_option("by", name, sorted(columns))
        return list(self._measured(lambda: models, None))

    def of_stored(self) -> list[MeasuredRun]:
        """Measure all stored runs; a damaged one is left out, with a warning that names it."""
        measured: list[MeasuredRun] = []
        for name in store.runs()["run"]:
            if not OF_PREDICTIONS.isdisjoint(self.names):
                check_group_names(self.names, (), store.find_run(name).item_columns)
            try:
                measured += self.of_run(name)
            except DataError as error:
                warnings.warn(f"the run {name!r} is left out: {error}", stacklevel=3)
        for name in self.names:
            check_option("by", name, sorted(self.columns))
        return measured

    def of_run(self, name: str) -> list[MeasuredRun]:
        """Measure a stored run, without its long columns; if it is known, no predictions are read."""
        run = store.find_run(name)
        if not set(NEEDED).issuperset(self.names):
            self.columns.update(map(str, run.item_columns))
        read = cache(lambda: predictions_of(run, pool=True))  # once it is needed
        return list(self._measured(read, digest(name, run.info["file_sha256"])))

    def against(self, runs: Sequence[MeasuredRun], best: MeasuredRun) -> list[dict[str, Any]]:
        """Test runs against the best: a difference, its interval and p; nothing where no item is common."""
        keys = [digest(run.key, best.key) if run.key and best.key else None for run in runs]
        return self._cached(keys, lambda missing: _compared([runs[k] for k in missing], best, self.sampling))

    def save(self) -> None:
        """Store the new measures, and of the others those used last."""
        if self._earlier is None or self._used.keys() <= self._earlier.keys():
            return
        rows = list((self._used | self._read() | self._used).items())[:_KEPT]
        keys, values = zip(*rows, strict=True)
        with contextlib.suppress(DataError, OSError):  # a cache that may only be read, or a full disk
            Cache(_CACHE, _KNOWN).put(self._key, pa.table([keys, values], schema=_KNOWN))
            make_room()

    def _cached(self, keys: Sequence[str | None], compute: Callable[[list[int]], Iterable[Any]]) -> list[Any]:
        """Return stored measures by key; others are computed by index, and stored under their key."""
        if self._earlier is None:
            self._earlier = self._read() if any(keys) else None
        earlier = self._earlier or {}
        texts = {k: earlier[key] for k, key in enumerate(keys) if key in earlier}
        missing = [k for k in range(len(keys)) if k not in texts]
        values = dict(zip(missing, compute(missing) if missing else (), strict=True))
        for k, key in enumerate(keys):
            if key is not None:
                self._used[key] = texts[k] if k in texts else json.dumps(values[k], default=_plain)
                values[k] = json.loads(self._used[key])
        return [values[k] for k in range(len(keys))]

    def _read(self) -> dict[str, str]:
        table = None
        with contextlib.suppress(DataError, OSError):
            table = Cache(_CACHE, _KNOWN).get(self._key)
        return {} if table is None else dict(zip(*(column.to_pylist() for column in table), strict=True))

    def _measured(
        self, models: Callable[[], list[ModelPredictions]], source_key: str | None
    ) -> Iterator[MeasuredRun]:
        """Measure predictions by group; each model also has a row without any.

        `source_key` digests the files of a stored run.
        """

        @cache
        def groups() -> dict[Group, list[ModelPredictions]]:
            return _groups(models(), self.names, self.chosen)

        def predictions(group: Group, number: int) -> ModelPredictions:
            return groups()[group][number]

        def measured() -> list[Any]:
            rows: list[Any] = [[[], 0, _datasets(model), {}] for model in models()]
            of_groups = [(group, *pair) for group, held in groups().items() for pair in enumerate(held)]
            values = measure_all((model.evaluated for *_, model in of_groups), self.sampling)
            for (group, number, model), measured_values in zip(of_groups, values, strict=True):
                rows.append([group, number, _datasets(model), _row(model, measured_values)])
            return rows

        [rows] = self._cached([source_key], lambda _: [measured()])
        for values, number, datasets, row in rows:
            group = tuple(values)
            wanted = dict(zip(self.names, group, strict=True)) if row else {}
            if row and any(wanted[name] != value for name, value in self.groups.items()):
                continue
            key = source_key and digest(source_key, json.dumps([values, number], default=_plain))
            yield MeasuredRun(group, datasets, row, key, partial(predictions, group, number))


def _plain(value: Any) -> Any:
    return value.item()  # a number of numpy


def _datasets(model: ModelPredictions) -> list[str]:
    return sorted(map(str, model.evaluated["dataset"].dropna().unique()))


def _row(model: ModelPredictions, measured: Mapping[str, Any]) -> dict[str, Any]:
    frame = model.evaluated
    row = {"model": model.model, "system": one_value(frame["system"]), "run": model.run}
    variant = {name: one_value(frame[name]) for name in VARIANT}
    return row | variant | dict(measured) | {
        "chance": chance_text(frame["p_correct"].mean()) if is_random(frame) else "",
        "subset": subset_of(frame), "traits": traits_of(model), "sets": _sets(frame),
        "item_ids": digest(json.dumps(frame["item_id"][frame["correct"].notna()].tolist())),
        "candidates": joint_candidates(model.candidates(np.flatnonzero(frame["correct"].notna()))),
        "outcomes": _outcomes(frame),
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


def _outcomes(frame: pd.DataFrame) -> dict[str, Any] | None:
    """Return a digest of the items, which of them are right (bits, in hexadecimal), and the protocol.

    They serve tests of a run against another on the same items; None for several seeds.
    """
    if BY_SEED in frame:
        return None
    frame = frame[frame["correct"].notna()]
    columns = [frame["item_id"], frame["answer"].str.casefold(), frame["book_id"].fillna("")]
    right = frame["correct"].to_numpy(dtype=bool)
    values = {name: sorted(frame[name].dropna().unique()) for name in ("variant", "unit")}
    items = digest(json.dumps([column.tolist() for column in columns]))
    return {"items": items, "right": np.packbits(right).tobytes().hex(), "values": values}


def _right(run: MeasuredRun) -> npt.NDArray[np.bool_]:
    bits = np.frombuffer(bytes.fromhex(run.row["outcomes"]["right"]), dtype=np.uint8)
    return np.unpackbits(bits, count=run.row["n"]).astype(bool)


def _groups(
    models: list[ModelPredictions], names: list[str], chosen: dict[str, Any]
) -> dict[Group, list[ModelPredictions]]:
    """Group predictions for separate rankings; rows without an answer are left out."""
    groups: dict[Group, list[ModelPredictions]] = {}
    for model in models:
        columns = joined(model, names)
        frame = columns.assign(**{name: None for name in names if name not in columns})
        for column, value in chosen.items():
            frame = frame[frame[column] == value]
        for values, rows in grouped(frame, names) if names else [((), frame)]:
            key = tuple("" if pd.isna(value) else value for value in values)  # nulls do not equal each other
            if rows["correct"].notna().any():
                groups.setdefault(key, []).append(replace(model, data=rows.reset_index(drop=True)))
    return groups


def _compared(
    runs: Sequence[MeasuredRun], best: MeasuredRun, sampling: BootstrapSettings
) -> Iterator[dict[str, Any]]:
    """Test runs against the best; runs on the best's items are tested at once, which is faster."""
    outcomes = best.row["outcomes"]
    alike = [
        run for run in runs
        if outcomes and run.row["outcomes"] and run.row["outcomes"]["items"] == outcomes["items"]
    ]  # fmt: skip
    tests = dict(zip(map(id, alike), _compared_at_once(alike, best, sampling), strict=True))
    for run in runs:
        yield tests[id(run)] if id(run) in tests else _compared_alone(run, best, sampling)


def _compared_alone(run: MeasuredRun, best: MeasuredRun, sampling: BootstrapSettings) -> dict[str, Any]:
    sides = run.predictions(), best.predictions()
    ids = [frame["item_id"][frame["correct"].notna()] for frame in (side.evaluated for side in sides)]
    if not ids[0].isin(ids[1]).any():
        return {}
    result = compare_pair(*sides, sampling)
    return _tested(result.n, (result.difference, *result.interval, result.p_value, result.mde))


def _compared_at_once(
    runs: Sequence[MeasuredRun], best: MeasuredRun, sampling: BootstrapSettings
) -> Iterator[dict[str, Any]]:
    """Compare several runs on the items of the best as `compare_pair` does, from outcomes."""
    if not runs:
        return
    frame = best.predictions().evaluated
    units = bootstrap.units(frame["book_id"][frame["correct"].notna()])
    steps = np.stack([_right(run) for run in runs]).astype(np.int8) - _right(best)
    tests = accuracy_tests(steps, units, sampling)
    of_best = _value_sets(best)
    numbers = (tests.difference, tests.low, tests.high, tests.p, tests.mde)
    for run, *values in zip(runs, *numbers, strict=True):
        if other_task(_value_sets(run), of_best) or _other_candidates(run, best):
            values[3:] = np.nan, np.nan
        yield _tested(best.row["n"], values)


def _value_sets(run: MeasuredRun) -> dict[str, set[Any]]:
    return {name: set(values) for name, values in run.row["outcomes"]["values"].items()}


def _tested(n: int, values: Sequence[float]) -> dict[str, Any]:
    names = ("difference", "difference_low", "difference_high", "p", "mde")
    return {"n_paired": n, **{name: float(value) for name, value in zip(names, values, strict=True)}}
