"""Predict items by the workers of a Dask cluster, in chunks, of which each is stored as soon as it is there.

The predictions are those of one process: a model predicts each item by itself, and ties are broken by item.
A model of the workbench goes to the workers as a saved folder; Dask pickles a user's own class.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa

from workbench.items.items import Items
from workbench.predictions import schema
from workbench.storage.cache import Cache, digest
from workbench.storage.files import temporary_folder
from workbench.storage.parallel import run_chunks

CHUNK = 100  # items that a worker predicts at a time
_DEVICE = b"device"
_LOCK = Lock()  # a worker may have several threads; a model is asked by one of them at a time
_loaded: list[tuple[ModelSource, Any]] = []  # the model that was used last


@dataclass(frozen=True)
class ModelSource:
    """How a worker gets a model: by its class and the folder that it is saved in, or as an object.

    A model of the workbench is saved once and loaded by each worker, and its files are compared with their
    checksums there. Dask pickles all others, as nothing tells whether they can be saved.
    """

    folder: Path | None
    model_type: type | None = None
    attention: bool = False
    model: Any = None

    def get(self) -> Any:
        """Return the model, loaded once per process."""
        if self.folder is None:
            return self.model
        if not _loaded or _loaded[0][0] != self:
            _loaded.clear()  # two of them may not fit into memory
            model = self.model_type.load(self.folder)  # type: ignore[union-attr] # a Predictor
            if self.attention:
                model.attention = True
            _loaded.append((self, model))
        return _loaded[0][1]


class PredictionChunk(NamedTuple):
    """Items that a worker predicts at a time."""

    source: ModelSource
    items: Items
    top_k: int
    seed: int


class ClusterPredictions(NamedTuple):
    """Predictions of workers, their devices, and the files of the stored chunks."""

    frame: pd.DataFrame
    device: str
    files: Sequence[Path]

    def forget(self) -> None:
        """Remove the stored chunks."""
        for file in self.files:
            with contextlib.suppress(OSError):
                file.unlink(missing_ok=True)


def predict_on_cluster(
    items: Items, model: Any, *, top_k: int, seed: int, key: str, home: Path
) -> ClusterPredictions:
    """Predict items by the workers of a cluster, which read the model from the same disk.

    `model` is a Predictor or an object with the same attributes that can be pickled, `key` the digest of what
    the predictions of an item depend on beside the items, `home` the folder in which the model is saved
    meanwhile. Raise WorkerError if the workers die repeatedly; see `run_chunks`.
    """
    chunks = [items[start : start + CHUNK] for start in range(0, len(items), CHUNK)]
    keys = [digest(key, *map(repr, chunk.frame.drop(columns="meta").to_numpy().tolist())) for chunk in chunks]
    store = Cache("predictions", schema.SCHEMA)
    with _sent(model, home) as source:
        tables = run_chunks(
            predict_chunk,
            [PredictionChunk(source, chunk, top_k, seed) for chunk in chunks],
            keys=keys,
            store=store,
            label=f"predict ({model.name})",
            size=lambda chunk: len(chunk.items),
            unit="items",
        )
    _loaded.clear()  # a single chunk is predicted in this process
    devices = {(table.schema.metadata or {}).get(_DEVICE, b"").decode() for table in tables} - {""}
    tables = [table.replace_schema_metadata(None) for table in tables]
    frame = schema.from_table(pa.concat_tables([schema.SCHEMA.empty_table(), *tables]))
    device = ", ".join(sorted(devices)) or str(model.device)
    return ClusterPredictions(frame, device, [store.path(key) for key in keys])


@contextlib.contextmanager
def _sent(model: Any, home: Path) -> Iterator[ModelSource]:
    """Yield how workers get a model."""
    if type(model).__module__.partition(".")[0] != "workbench":
        yield ModelSource(None, model=model)
        return
    with temporary_folder(home) as folder:
        model.save(folder / "model")
        attention = bool(getattr(model, "attention", False))
        yield ModelSource(folder / "model", type(model), attention)


def predict_chunk(chunk: PredictionChunk) -> pa.Table:
    """Predict the items of a chunk in this process; the table says on which device."""
    with _LOCK:
        model = chunk.source.get()
        frame = model.predict(chunk.items, chunk.top_k, seed=chunk.seed)
    table = schema.to_table(schema.check_predictions(frame.assign(run=""), chunk.items))
    return table.replace_schema_metadata({_DEVICE: str(model.device)})
