"""Chunks of work in processes and on a Dask cluster, of which some die."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chunk_work import deadly, dying, failing, home, lacking, marked, nested, process, squares, threads
from dask_cluster import cluster
from distributed import Client
from joblib import parallel_config
from patience import PATIENCE

from workbench.storage import parallel
from workbench.storage.parallel import WorkerError, run_chunks

CHUNKS = [[n, n + 1] for n in range(0, 24, 2)]
KEYS = [f"key {chunk[0]}" for chunk in CHUNKS]
SQUARES = [[n * n for n in chunk] for chunk in CHUNKS]


class Kept(dict):
    """A store in memory that counts."""

    put = dict.__setitem__


class Closing(Kept):
    """A store that closes a cluster as soon as a chunk is put into it."""

    def __init__(self, cluster):
        super().__init__()
        self.cluster = cluster

    def put(self, key, value):
        del key, value
        self.cluster.close()


def worked_on(folder):
    """Return how often each chunk was worked on."""
    return [len(list(folder.glob(f"{chunk[0]}.*"))) for chunk in CHUNKS]


@pytest.fixture(scope="module")
def dask():
    """Give a client of a real scheduler with two worker processes."""
    with cluster() as client:
        yield client


@pytest.fixture(params=["processes", "dask"])
def where(request):
    """Say where the chunks are worked on."""
    if request.param == "dask":
        with request.getfixturevalue("dask").as_current():
            yield "dask"
    else:
        with parallel_config(n_jobs=2):
            yield "processes"


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_results_are_in_order_and_kept(n_jobs):
    store = Kept()
    with parallel_config(n_jobs=n_jobs):
        assert run_chunks(squares, CHUNKS, keys=KEYS, store=store) == SQUARES
        assert store == dict(zip(KEYS, SQUARES, strict=True))
        assert run_chunks(squares, []) == []


def test_what_is_kept_is_not_worked_on_again(where, tmp_path):
    store = Kept({"key 0": "kept", "key 22": "kept too"})
    tasks = [(str(tmp_path), chunk) for chunk in CHUNKS]
    results = run_chunks(marked, tasks, keys=KEYS, store=store)
    assert results == ["kept", *SQUARES[1:-1], "kept too"], where
    assert worked_on(tmp_path) == [0, *[1] * 10, 0]
    assert str(os.getpid()) not in {path.name.split(".")[1] for path in tmp_path.iterdir()}


def test_a_worker_that_dies_loses_nothing(where, tmp_path):
    store = Kept()
    tasks = [(str(tmp_path), chunk) for chunk in CHUNKS]
    assert run_chunks(dying, tasks, keys=KEYS, store=store) == SQUARES, where
    assert len(store) == len(CHUNKS)
    assert worked_on(tmp_path)[4] == 2  # the deadly one


def test_an_error_comes_back_as_it_is_and_what_was_done_is_kept(where):
    store = Kept()
    with pytest.raises(TimeoutError, match="it is 8"):
        run_chunks(failing, CHUNKS, keys=KEYS, store=store)
    assert store, where
    assert "key 8" not in store
    assert run_chunks(squares, CHUNKS) == SQUARES


def test_a_module_that_workers_lack_is_an_error(where):
    with pytest.raises(ModuleNotFoundError, match="not_installed_here"):
        run_chunks(lacking, CHUNKS)
    assert run_chunks(squares, CHUNKS) == SQUARES, where


def test_a_worker_of_another_version_is_an_error(where, monkeypatch):
    monkeypatch.setattr(parallel, "_version", lambda: "0.0.1, commit 1234")
    store = Kept()
    with pytest.raises(WorkerError, match=r"expected version 0\.0\.1, commit 1234"):
        run_chunks(squares, CHUNKS, keys=KEYS, store=store)
    assert not store, where


def test_work_in_a_worker_stays_there(where):
    rows = run_chunks(nested, range(4))
    assert {is_none for is_none, _ in rows} == {True}, where
    assert all(len(set(pids)) == 1 and os.getpid() not in pids for _, pids in rows)


def test_the_bar_counts_what_is_kept(capsys, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE")
    store = Kept({"key 0": "kept"})
    run_chunks(squares, CHUNKS, keys=KEYS, store=store, label="squares", size=len)
    assert "squares" in (bar := capsys.readouterr().err)
    assert "2 of 24 chunks" in bar  # two numbers are in the chunk that is stored


def test_a_chunk_that_kills_every_worker_ends_in_one_error():
    store = Kept()
    with parallel_config(n_jobs=2), pytest.raises(WorkerError, match="died 4 times"):
        run_chunks(deadly, CHUNKS, keys=KEYS, store=store)
    assert "key 8" not in store
    assert set(store) <= set(KEYS)
    assert all(store[key] == value for key, value in zip(KEYS, SQUARES, strict=True) if key in store)


def test_processes_are_used_again_but_not_with_another_home(monkeypatch):
    with parallel_config(n_jobs=2):
        monkeypatch.setenv("WORKBENCH_HOME", "one")
        assert run_chunks(home, range(2)) == ["one", "one"]
        first = {*run_chunks(process, range(20)), *run_chunks(process, range(20))}
        assert len(first) <= 2
        monkeypatch.setenv("WORKBENCH_HOME", "other")
        assert run_chunks(home, range(2)) == ["other", "other"]
        assert first.isdisjoint(run_chunks(process, range(20)))


def test_one_process_is_this_one(dask):
    with dask.as_current(), parallel_config(n_jobs=1):
        assert set(run_chunks(process, range(3))) == {os.getpid()}
    with dask.as_current():
        assert set(run_chunks(process, range(3), in_process=True)) == {os.getpid()}
        assert run_chunks(process, range(1)) == [os.getpid()]
        assert os.getpid() not in run_chunks(process, range(3))


def test_a_worker_computes_with_one_thread():
    with parallel_config(n_jobs=2):
        assert run_chunks(threads, [0, 1]) == [("1", "1")] * 2


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from workbench.storage.parallel import run_chunks
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
sys.path[:0] = {folders!r}
import chunk_work, joblib

class Store:
    def get(self, key): return None
    def put(self, key, value): Path({folder!r}, key).write_text(str(value)); print("put", flush=True)

with joblib.parallel_config(n_jobs=2):  # processes do not run this script, so it needs no guard
    run_chunks(chunk_work.slow, range(10**5), keys=[f"kept{{n}}" for n in range(10**5)], store=Store())
"""


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see which processes live")
def test_ctrl_c_keeps_what_was_done_and_leaves_no_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folders=sys.path, folder=str(tmp_path)))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "start_new_session": True}
    run = subprocess.Popen([sys.executable, script], env=os.environ | {"MARKS": str(tmp_path)}, **options)
    for _ in range(5):
        assert run.stdout.readline() == "put\n"
    os.killpg(run.pid, signal.SIGINT)  # as a terminal or Jupyter does
    _, errors = run.communicate(timeout=PATIENCE)
    assert run.returncode in {130, -signal.SIGINT}
    assert 5 <= len(list(tmp_path.glob("kept*"))) < 10**5
    assert errors.count("Traceback") == errors.count("KeyboardInterrupt")  # of this process, no worker's
    pids = [int(path.name[3:]) for path in tmp_path.glob("pid*")]
    assert pids
    until = time.monotonic() + PATIENCE
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(alive, pids))


def test_a_chunk_that_kills_every_dask_worker_ends_in_one_error(dask):
    store = Kept()
    with dask.as_current():
        with pytest.raises(WorkerError, match="gave a chunk up"):
            run_chunks(deadly, CHUNKS, keys=KEYS, store=store)
        assert "key 8" not in store
        assert run_chunks(squares, CHUNKS) == SQUARES  # the cluster lives on


def test_a_cluster_without_workers_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(parallel, "_PATIENCE", 0.5)
    error = pytest.raises(WorkerError, match="has had no worker for")
    with cluster(n_workers=0) as client, client.as_current(), error:
        run_chunks(squares, CHUNKS)


def test_a_cluster_that_goes_away_is_an_error():
    with cluster() as client, client.as_current(), pytest.raises(WorkerError, match="went away"):
        run_chunks(squares, CHUNKS, keys=KEYS, store=Closing(client.cluster))


def test_the_client_is_found_by_itself_while_it_is_open(dask):
    assert parallel.dask_client() is None
    with Client(dask.scheduler.address) as client:
        assert parallel.dask_client() is client
        with parallel_config(n_jobs=1):
            assert parallel.dask_client() is None
    assert parallel.dask_client() is None
