"""Predictions of a Dask cluster: those of one process, each chunk stored once, whatever dies meanwhile."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dask_cluster import cluster, kill_workers

import workbench as wb
from workbench.models import NGram, RandomWord
from workbench.models.base import Predictor, pad
from workbench.predictions import clustered, store
from workbench.storage.errors import DataError
from workbench.storage.paths import data_home

TIMES = {"finished", "seconds", "file_sha256"}
CHUNK = 7


class Length(Predictor):
    """Longer words are better, plus a number that only the object has: Dask pickles such a model."""

    name, version = "length", 1

    def __init__(self, folder, *, least=0.0):
        self.folder, self.least = str(folder), least

    @property
    def config(self):
        return {}

    def score(self, items, words):
        del items
        return pad([[len(word) + self.least for word in row] for row in words])

    def choices(self, items):
        return [item.text.split()[:5] for item in items]

    def predict(self, items, top_k=10, *, seed=0):
        first = items.frame["item_id"].iloc[0].replace("/", "-")
        number = len(list(Path(self.folder).iterdir()))
        Path(self.folder, f"{first}.{os.getpid()}.{number}").touch()  # who predicted which chunk
        return super().predict(items, top_k, seed=seed)


@pytest.fixture(scope="module")
def dask():
    """Give a function that predicts by two workers of a real scheduler."""
    with cluster() as client:

        def on_cluster(*arguments, **options):
            with client.as_current():
                return store.predict(*arguments, **options)

        yield on_cluster


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Make many chunks of few items."""
    monkeypatch.setattr(clustered, "CHUNK", CHUNK)


@pytest.fixture
def items():
    return wb.load("sample")[:60]


def home(tmp_path, monkeypatch, name):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / name))
    return tmp_path / name


def content(run):
    """Return the bytes of a run's predictions and its description, but for times."""
    info = json.loads((run.folder / "run.json").read_text(encoding="utf-8"))
    return (run.folder / "predictions.parquet").read_bytes(), {k: info[k] for k in info if k not in TIMES}


def test_a_cluster_stores_the_run_of_one_process(dask, items, tmp_path, monkeypatch):
    model = NGram.fit("sample", order=3)
    home(tmp_path, monkeypatch, "one")
    alone = store.predict(items, model, seed=3)
    base = home(tmp_path, monkeypatch, "cluster")
    run = dask(items, model, seed=3)
    assert run.run == alone.run
    assert content(run) == content(alone)
    assert run.info["file_sha256"] == alone.info["file_sha256"]
    assert not list((base / "cache" / "predictions").iterdir()), "the chunks are in the run"
    assert sorted(path.name for path in (base / "runs").iterdir()) == [run.run]


def test_a_killed_worker_changes_nothing_and_its_chunk_alone_is_done_again(items, tmp_path, monkeypatch):
    (folder := tmp_path / "asked").mkdir()
    home(tmp_path, monkeypatch, "one")
    alone = store.predict(items, Length(tmp_path / "asked", least=0.5))
    for file in folder.iterdir():
        file.unlink()
    home(tmp_path, monkeypatch, "cluster")
    chunks_left = kill_workers(monkeypatch)
    with cluster() as client, client.as_current():
        run = store.predict(items, Length(folder, least=0.5))
    n = -(-len(items) // CHUNK)
    assert chunks_left == [("predict_chunk", n - 1)]
    assert content(run) == content(alone)
    asked = [path.name.rsplit(".", 2)[:2] for path in folder.iterdir()]
    assert len({name for name, _ in asked}) == n
    assert n <= len(asked) <= n + 3, "what the killed worker held, two chunks at most, is predicted again"
    assert str(os.getpid()) not in {process for _, process in asked}
    assert len({process for _, process in asked}) >= 2


def test_a_call_that_was_killed_goes_on_where_it_was(dask, items, tmp_path, monkeypatch):
    (folder := tmp_path / "asked").mkdir()
    base = home(tmp_path, monkeypatch, "home")
    put, stored = clustered.Cache.put, []

    def interrupted(cache, key, table):
        put(cache, key, table)
        stored.append(key)
        if len(stored) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(clustered.Cache, "put", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dask(items, Length(folder))
    assert len(list((base / "cache" / "predictions").glob("*.parquet"))) == 4
    assert store.runs().empty
    done = {chunk_ids(path) for path in (base / "cache" / "predictions").glob("*.parquet")}
    for file in folder.iterdir():
        file.unlink()
    run = dask(items, Length(folder))
    again = {path.name.rsplit(".", 2)[0].replace("-", "/") for path in folder.iterdir()}
    assert not done & again, "a stored chunk is not predicted again"
    assert len(done | again) == -(-len(items) // CHUNK)
    assert run.predictions["item_id"].tolist() == items.frame["item_id"].tolist()


def chunk_ids(path):
    return pq.read_table(path)["item_id"][0].as_py()


def test_stored_chunks_are_of_this_model_seed_and_these_items(dask, items, tmp_path, monkeypatch):
    home(tmp_path, monkeypatch, "home")
    monkeypatch.setattr(clustered.ClusterPredictions, "forget", lambda _: None)  # the chunks stay
    monkeypatch.setattr(clustered, "CHUNK", 20)
    (folder := tmp_path / "asked").mkdir()

    def asked(items, model, **options):
        for file in folder.iterdir():
            file.unlink()
        dask(items, model, **options)
        return len(list(folder.iterdir()))

    assert asked(items, Length(folder)) == 3
    assert asked(items[:40], Length(folder)) == 0
    assert asked(items[20:], Length(folder)) == 0
    assert asked(items, Length(folder), seed=1) == 3
    assert asked(items, Length(folder), top_k=2) == 3
    other = Length(folder)
    other.name = "another name"
    assert asked(items, other) == 3


def test_a_fault_of_a_worker_is_the_fault_of_the_call(dask, items, tmp_path, monkeypatch):
    base = home(tmp_path, monkeypatch, "home")
    model = NGram.fit("sample", order=2)
    load = "the weights of this model are damaged"
    monkeypatch.setattr(type(model), "_save", lambda _, folder: (folder / "counts.npy").write_text(load))
    with pytest.raises(DataError):
        dask(items, model)
    assert store.runs().empty
    assert not list((base / "runs").iterdir()), "the model that was saved for workers is removed"


def test_a_model_is_loaded_once_a_process(items, tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    model, loads = RandomWord("passage"), []
    load = RandomWord.load
    monkeypatch.setattr(RandomWord, "load", lambda folder: (loads.append(folder), load(folder))[1])
    with clustered._sent(model, data_home() / "runs") as source:
        tables = [clustered.predict_chunk(clustered.PredictionChunk(source, items[:3], 2, 0)) for _ in "ab"]
    assert len(loads) == 1
    assert tables[0].equals(tables[1])
    assert tables[0].schema.metadata == {b"device": b"cpu"}
    assert np.array_equal(tables[0]["top_words"].combine_chunks().value_lengths(), [2, 2, 2])
    clustered._loaded.clear()


def test_attention_reaches_the_workers(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    model = RandomWord("passage")
    model.attention = True
    with clustered._sent(model, data_home() / "runs") as source:
        assert source.get().attention is True
    clustered._loaded.clear()
