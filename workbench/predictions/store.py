"""The store of runs: predictions on disk with their origin; found again, never overwritten.

A run depends on the items and on the model's class, version and config; commit and packages are stored with
it. Columns are read when they are needed, as the best words of all items take more room than all others.
"""

from __future__ import annotations

import copy
import functools
import importlib.metadata
import json
import os
import platform
import re
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.items.items import Items, check_items
from workbench.items.language import language
from workbench.predictions import clustered, schema
from workbench.predictions.model_versions import is_outdated, outdated_warning
from workbench.predictions.signature import SIGNED, signature_of
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage import cache
from workbench.storage.cache import folder_size
from workbench.storage.checksums import sha256
from workbench.storage.errors import DataError, reading
from workbench.storage.files import atomic_folder, json_value, list_folder, remove, temporary_folder
from workbench.storage.packages import commit
from workbench.storage.parallel import dask_client
from workbench.storage.paths import data_home, resource

INFO, TABLE = "run.json", "predictions.parquet"
ITEM_COLUMN = "item: "
"""What the names of the items' own columns begin with in the table of a run."""

_ROW_GROUP = 2_048  # rows: one row of the best words is read in 1.5 ms
_LONG_TEXT, _MOST_TEXTS, _MOST_COLUMNS = 100, 200, 100  # letters, different texts, custom columns
_AGAIN = "remove the folder and predict again"

_PACKAGES = (
    "kenlm", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy", "gensim", "torch", "tokenizers",
    "transformers",
)  # fmt: skip
_LISTED = {
    **dict.fromkeys(("run", "model", "dataset", "split", "variant"), "str"),
    "n": "Int64", "accuracy": "float64", "finished": "str", "seconds": "float64", "device": "str",
    "seed": "Int64", "bytes": "Int64", "version": "Int64",
}  # fmt: skip
_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "Int64": (int,), "float64": (int, float)}
_WRITTEN = {name: _LISTED[name] for name in ("run", "model", "dataset", "split", "variant", "n", "accuracy")}
_WRITTEN |= {"file_sha256": "str"}


@dataclass(frozen=True)
class Run:
    """One model's predictions for a set of items, stored in a folder of the name `run`.

    `info` is ``run.json``: model, version, config, seed, git commit, data and their digest, package versions,
    device, seconds, and information about the training texts.
    """

    run: str
    folder: Path
    info: dict[str, Any]

    @property
    def predictions(self) -> pd.DataFrame:
        """The predictions, see :mod:`workbench.predictions.schema`; DataError if they are damaged."""
        return schema.from_table(self.read())

    @property
    def item_columns(self) -> pd.DataFrame:
        """The items' own columns that are stored with the run, indexed by ``item_id``; see `predict`."""
        with reading(self._file, "the items' own columns", hint=_AGAIN), self._open() as parquet:
            names = [name for name in parquet.schema_arrow.names if name.startswith(ITEM_COLUMN)]
            frame: pd.DataFrame = parquet.read(["item_id", *names]).to_pandas()
            frame.columns = frame.columns.str.removeprefix(ITEM_COLUMN)
            return frame.astype({"item_id": "str"}).set_index("item_id")

    def read(self, columns: Sequence[str] = schema.PREDICTION_COLUMNS) -> pa.Table:
        """Return columns of the predictions, those of `schema.CATEGORIES` as dictionaries."""
        with reading(self._file, "the predictions", hint=_AGAIN), self._open() as parquet:
            table = parquet.read(list(columns)).unify_dictionaries()
            return schema.cast(table, columns, schema.CATEGORIES)

    def cell(self, column: str, row: int) -> Any:
        """Return a single value; the last row group that was read of a column stays in memory."""
        with reading(self._file, "the predictions", hint=_AGAIN):
            group, index = divmod(row, self._metadata.row_group(0).num_rows)
            last, values = self._row_groups.get(column, (None, None))
            if last != group:
                with self._open() as parquet:
                    values = parquet.read_row_group(group, [column])[column]
                self._row_groups[column] = group, values
            return values[index].as_py()

    @cached_property
    def _row_groups(self) -> dict[str, Any]:
        """The row group that was read last of each column: its number and the values."""
        return {}

    def _open(self) -> pq.ParquetFile:
        options = {"memory_map": True, "read_dictionary": schema.CATEGORIES}
        return pq.ParquetFile(self._file, metadata=self._metadata, **options)

    @property
    def _file(self) -> Path:
        return self.folder / TABLE

    @cached_property
    def _metadata(self) -> pq.FileMetaData:
        """Metadata of the table; DataError unless it is the file that was written."""
        if sha256(self._file) != self.info["file_sha256"]:
            problem = "the predictions are not those that were written"
            raise DataError(problem, file=self._file, hint=_AGAIN)
        return pq.read_metadata(self._file, memory_map=True)

    @property
    def model(self) -> str:
        """Name of the model."""
        return str(self.info["model"])

    @property
    def signature(self) -> str:
        """What was measured and how, as :func:`workbench.evaluate` states it; one line per language.

        Two numbers are comparable where their signatures agree in all but the model.
        """
        frame = schema.from_table(self.read(SIGNED))
        groups = frame.groupby(frame["variant"].map(language))
        return "\n".join(signature_of(group[group["correct"].notna()]) for _, group in groups)

    def __len__(self) -> int:
        return int(self.info["n"])

    def __repr__(self) -> str:
        accuracy = self.info.get("accuracy")
        text = "" if accuracy is None else f", accuracy={100 * accuracy:.1f} %"
        return f"Run({self.run!r}, model={self.model!r}, n={len(self):,}{text})"


class NotStoredError(DataError):
    """Predictions were made, but could not be stored. They are in the attribute `predictions`."""

    predictions: pd.DataFrame


def predict(
    items: Items,
    model: Any,
    *,
    top_k: int = 10,
    seed: int = 0,
    attention: bool = False,
) -> Run:
    """Predict items with a model and store the run; a stored run of the same is returned, not repeated.

    Parameters
    ----------
    items : Items
    model : Predictor
        Any model of :mod:`workbench.models`, or an object with the same attributes.
    top_k : int, default 10
        Number of best words in each row.
    seed : int, default 0
        Decides among equal scores.
    attention : bool, default False
        Fill the column ``attention`` with one weight per token, which :func:`wb.browse` and
        :func:`wb.compare` show. DataError if the model has no attention.

    Returns
    -------
    Run
        ``run.predictions`` is the table, one row per item: item_id, model, prediction, correct, p_correct,
        log_prob, rank, top_words, in_training, ... (:data:`workbench.predictions.schema.PREDICTION_COLUMNS`);
        the folder is in ``runs/`` (see :func:`workbench.storage.paths.data_home`).

    Raises
    ------
    DataError
        If the predictions are invalid, an item has none, or JSON cannot represent the model's config;
        nothing is stored then. If the store cannot be written to, before anything is predicted.
    NotStoredError
        A DataError, if the store became full or unwritable meanwhile. ``error.predictions`` (in a notebook
        ``sys.last_value.predictions``) is the table, which ``wb.import_results(error.predictions, items)``
        stores.

    Notes
    -----
    A run is the same if these are: items (text, answers, candidates), the model's class, its `version` and
    config, seed and `top_k`. The models of the workbench raise `version` (an int, attribute of the class)
    when their results change. A class of your own is predicted with anew each time, since nothing tells
    that its code has changed; give it a ``version = 1`` to have its runs found again, and raise that when
    you change its code. Some runs of the language model of the set-up come with the workbench
    (``data/published/runs``): they are found in the same way, and read where they lie.

    Where a ``dask.distributed.Client`` is open, its workers predict the items, 100 at a time. They read a
    model of the workbench, which is saved for them, from the same disk; any other model is pickled. Each
    chunk is stored in ``cache/predictions`` as soon as it is predicted. The chunk of a worker that dies goes
    to another one, and a call that is repeated after it was killed predicts what is missing. The run is the
    one that a single process stores, but for rounding where the numbers of a network depend on the other
    items of a batch. With ``joblib.parallel_config(n_jobs=1)`` this process predicts.

    Custom columns (``items.extra``) are stored with the run where they hold numbers, truth values, or
    at most 200 different texts of at most 100 characters, so that results can be grouped by them. They change
    no result, and a run that is found again keeps those that it was stored with: for another column, pass
    ``items=`` to the function that groups by it.

    Examples
    --------
    >>> run = wb.predict(items, ngram)
    >>> run.predictions[["item_id", "prediction", "rank"]].shape
    (30, 3)
    """
    check_items(items, "predict")
    schema.check_model(model, "predict")
    if attention:
        model = copy.copy(model)
        vars(model)["attention"] = True
    info = {**model_identity(model), "seed": int(seed), "top_k": int(top_k), "items": items_digest(items)}
    once = "" if info["version"] is not None else str(time.time_ns())
    name = _name(items, model.name, cache.digest(json.dumps(info, sort_keys=True), once))
    home = data_home() / "runs"
    if folder := run_folder(name):
        return open_run(folder)
    with temporary_folder(home):  # the store may be written to
        pass
    training = {"checked_for": None} | model.training if model.training else {}
    training = json_value(training, f"the training of {model.name!r}")
    in_training = model.in_training(items) if hasattr(model, "in_training") else None
    start = time.perf_counter()
    if dask_client() is None or len(items) <= clustered.CHUNK:
        made = clustered.ClusterPredictions(model.predict(items, top_k, seed=seed), str(model.device), ())
    else:
        identity = json.dumps({key: value for key, value in info.items() if key != "items"}, sort_keys=True)
        key = cache.digest(identity, once)
        made = clustered.predict_on_cluster(items, model, top_k=top_k, seed=seed, key=key, home=home)
    seconds = time.perf_counter() - start
    frame = schema.with_digests(schema.check_predictions(made.frame.assign(run=""), items), items)
    if in_training is not None:
        frame["in_training"] = frame["item_id"].map(in_training).astype("boolean")
    if lacking := set(items.frame["item_id"]) - set(frame["item_id"]):
        raise DataError(f"{model.name!r} predicts nothing for {len(lacking):,} items, such as {min(lacking)}")
    if others := set(frame["model"]) - {model.name}:
        raise DataError(f"the predictions of {model.name!r} name another model, {min(others)!r}")
    info |= {"device": made.device, "seconds": seconds, "training": training}
    try:
        run = _store(name, frame, items, info)
    except DataError as error:
        problem = f"the predictions are made, but not stored: {error.problem}"
        hint = "make room; wb.import_results(error.predictions, items) stores them then"
        not_stored = NotStoredError(problem, file=error.file, hint=hint)
        not_stored.predictions = frame
        raise not_stored from error
    made.forget()
    return run


def keep(items: Items, frame: pd.DataFrame, *, name: str | None = None, **info: Any) -> Run:
    """Store the predictions of one model, at least one, as a run; see :func:`workbench.import_results`.

    The name is made from the data set, the model and the content by default, and `info` is further
    information for ``run.json``. A run of the same content and information is found again. DataError if the
    predictions are invalid, or another run has the name already.
    """
    frame = schema.with_digests(schema.check_predictions(frame.assign(run=""), items), items)
    model = str(frame["model"].iloc[0])
    info = {"model": model, "items": items_digest(items)} | json_value(info, "the information")
    content = pa.BufferOutputStream()
    pq.write_table(schema.to_table(frame), content)
    info["key"] = cache.digest(content.getvalue().to_pybytes(), json.dumps(info, sort_keys=True))
    name = name or _name(items, model, info["key"])
    folder = run_folder(name)
    run = open_run(folder) if folder else _store(name, frame, items, info)
    if run.info.get("key") != info["key"]:
        problem = f"there is a run {name!r} already, and none is overwritten"
        raise DataError(problem, hint="use another name")
    return run


_SHOWN = (
    TableColumn("run"), TableColumn("model"), TableColumn("n", "count"), TableColumn("accuracy", "share"),
    TableColumn("finished", "time"), TableColumn("seconds", "seconds"), TableColumn("bytes", "size"),
)  # fmt: skip
_SET = ("dataset", "split", "variant")


class RunsTable(Table):
    """The stored runs, one row per run, newest first."""

    def by(self, column: str) -> Table:
        """Count the runs by a column such as "model", or by "items": runs, finished (the newest), bytes."""
        columns = list(_SET) if column == "items" else [column]
        groups = self.frame.groupby(columns, dropna=False, sort=False)
        aggregates = {"runs": ("run", "size"), "finished": ("finished", "max"), "bytes": ("bytes", "sum")}
        layout = (*map(TableColumn, columns), TableColumn("runs", "count"), *_SHOWN[4:5], *_SHOWN[6:7])
        return Table(groups.agg(**aggregates).reset_index(), TableLayout(f"Stored runs by {column}", layout))

    def delete(self, *names: str) -> RunsTable:
        """Delete runs by their names, and return the remaining ones.

        DataError if one does not exist, and then none is deleted. A run goes as a whole: its folder is
        renamed first. Damaged runs, which no list shows, go too.
        """
        folders = {folder.name: folder for folder in list_folder(data_home() / "runs")}
        for name in names:
            if name not in folders:
                raise _missing(name)
        for name in names:
            remove(folders[name])
        return runs()


def runs() -> RunsTable:
    """List the stored runs, newest first, one row per run; those that come with the workbench are left out.

    Columns: run, model, dataset, split, variant, n, accuracy (fraction), finished, seconds, device, seed,
    bytes, version (of the model), outdated (its results have changed since, which a warning says too).
    ``wb.runs().by("model")`` and ``.by("items")`` group them, ``.delete("name", ...)`` deletes some.

    Examples
    --------
    >>> set(wb.runs()["model"]) >= {run.model for run in runs}
    True
    """
    infos = _infos()
    data = {}
    for name, dtype in _LISTED.items():
        values = [value if _fits(value := info.get(name), dtype) else None for info in infos]
        data[name] = pd.Series(values, dtype=dtype)
    data["outdated"] = pd.Series([is_outdated(info) for info in infos], dtype=bool)
    table = pd.DataFrame(data).sort_values("finished", ascending=False, ignore_index=True, kind="stable")
    if names := table.loc[table["outdated"], "run"].tolist():
        table.attrs["warnings"] = [outdated_warning(names)]
    return RunsTable(table, TableLayout("Stored runs", _SHOWN, _SET))


def _fits(value: Any, dtype: str) -> bool:
    """Return whether a column of a type can hold a value."""
    is_kind = isinstance(value, _KINDS[dtype]) and not isinstance(value, bool)
    return is_kind and not (isinstance(value, int) and abs(value) >= 2**63)


def find_run(name: str) -> Run:
    """Return a run by its name, the user's or one that comes with the workbench.

    DataError if it is missing or its folder is damaged.
    """
    if folder := run_folder(name):
        return open_run(folder)
    raise _missing(name)


def run_folder(name: str) -> Path | None:
    """Return the folder of a stored run, the user's or one that comes with the workbench; None if none is."""
    if name and not name.startswith(".") and name == Path(name).name:
        for home in (data_home() / "runs", resource("published", "runs")):
            if os.path.isdir(home / name):  # noqa: PTH112 - of a long name
                return home / name
    return None


def _missing(name: str) -> DataError:
    near = [info["run"] for info in _infos() if name.lower() in info["run"].lower()]
    hint = f"did you mean {', '.join(near[:5])}?" if near else "wb.runs() lists the stored runs"
    return DataError(f"there is no run {name!r}", hint=hint)


def open_run(folder: Path) -> Run:
    """Return the run in a folder, wherever that is; DataError if it is damaged, or another run's."""
    return Run(folder.name, folder, _info(folder))


def _infos() -> list[dict[str, Any]]:
    """Return the descriptions of all runs; a damaged one is left out with a warning."""
    infos = []
    for folder in list_folder(data_home() / "runs"):
        try:
            infos.append(_info(folder) | {"bytes": folder_size(folder)})
        except DataError as error:
            if not isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):  # it is not a run
                warnings.warn(f"a run is left out: {error}", stacklevel=4)
    return infos


def _info(folder: Path) -> dict[str, Any]:
    """Return the description of the run in a folder; DataError if it is damaged, or another run's."""
    file = folder / INFO
    with reading(file, "the description of this run", hint=_AGAIN):
        info: dict[str, Any] = json.loads(file.read_bytes())
        json.dumps(info, ensure_ascii=False).encode()  # half a surrogate pair is not text
        datetime.fromisoformat(info["finished"])
        for name, dtype in _WRITTEN.items():
            if not (_fits(info.get(name), dtype) or (info.get(name) is None and name == "accuracy")):
                raise ValueError(f"its {name} is {info.get(name)!r:.40}")
    if info["run"] != folder.name:
        problem = f"expected the run {folder.name!r}, got {info['run']!r}"
        raise DataError(problem, file=file, hint="give the folder the name of its run again")
    return info


def _store(name: str, frame: pd.DataFrame, items: Items, info: dict[str, Any]) -> Run:
    """Write checked predictions as a run: complete or not at all; another process may have been first."""
    table = schema.to_table(frame.assign(run=name))
    for column, values in _item_columns(items, frame["item_id"]).items():
        table = table.append_column(f"{ITEM_COLUMN}{column}", pa.array(values, from_pandas=True))
    about = {
        "run": name,
        **{column: "+".join(items.frame[column].unique().tolist()) for column in _SET},
        "n": len(frame),
        "accuracy": float(frame["correct"].mean()) if frame["correct"].notna().any() else None,
        **info,
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
    with atomic_folder(data_home() / "runs" / name) as folder:
        pq.write_table(table, folder / TABLE, compression="zstd", row_group_size=_ROW_GROUP)
        about |= {"file_sha256": sha256(folder / TABLE)} | _made_with()
        (folder / INFO).write_text(json.dumps(about, indent=1, ensure_ascii=False), encoding="utf-8")
    return find_run(name)


def _item_columns(items: Items, ids: pd.Series[str]) -> pd.DataFrame:
    """Return the items' own columns by which results can be grouped, in the order of the `ids`."""
    extra = items.extra
    extra = extra[[name for name in extra if _is_condition(extra[name])][:_MOST_COLUMNS]]
    return extra.set_axis(items.frame["item_id"]).loc[ids.tolist()]


def _is_condition(column: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers, truth values or a few short texts: no passages."""
    values = column.dropna()
    value_type = pd.api.types.infer_dtype(values)
    if value_type == "string":
        return values.nunique() <= _MOST_TEXTS and bool((values.str.len() <= _LONG_TEXT).all())
    return value_type == "boolean" or pd.api.types.is_numeric_dtype(column)


def _name(items: Items, model: str, key: str) -> str:
    first = items.frame.iloc[0] if len(items) else {"dataset": "none", "split": "none"}
    words = re.sub(r"[^a-z0-9]+", "-", f"{first['dataset']} {first['split']} {model}".lower()).strip("-")
    return f"{words[:80]}-{key[:10]}"


def items_digest(items: Items) -> str:
    """Return the SHA-256 of all columns of items but `meta`."""
    frame = items.frame.drop(columns="meta")
    return cache.digest(*(repr(frame[name].tolist()) for name in frame))


def model_identity(model: Any) -> dict[str, Any]:
    """Return the settings that determine a model's results, apart from the items, as JSON values.

    Its name, class, version and config. The version is None for a user's class without one of its own, as
    nothing tells whether its code has changed.
    """
    config = {**model.config, "attention": True} if getattr(model, "attention", False) else model.config
    return {
        "model": model.name,
        "class": f"{type(model).__module__}:{type(model).__qualname__}",
        "version": json_value(_version(model), f"the version of {model.name!r}"),
        "config": json_value(config, f"the config of {model.name!r}"),
    }


def _version(model: object) -> Any:
    """Return the version of a model's results; None for a user's class without a `version`.

    A `version` that it inherits speaks of another class.
    """
    model_type = type(model)
    declared = model_type.__module__.partition(".")[0] == "workbench" or "version" in vars(model_type)
    return getattr(model, "version", None) if declared else None


@functools.cache
def _made_with() -> dict[str, Any]:
    """Return the commit, Python and versions of the packages that models compute with, as first asked.

    What was installed or committed later is not what this process runs.
    """
    installed = {name: list(importlib.metadata.distributions(name=name)) for name in _PACKAGES}
    versions = {name: copies[0].version for name, copies in installed.items() if copies}
    return {"git": commit(), "python": platform.python_version(), "packages": versions}
