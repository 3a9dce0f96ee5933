"""Chunks of work in processes and on a Dask cluster, of which some die."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dask_cluster import cluster
from patience import PATIENCE

from workbench.storage import parallel
from workbench.storage.parallel import WorkerError, run_chunks

CHUNKS = [[n, n + 1] for n in range(0, 24, 2)]
KEYS = [f"key {chunk[0]}" for chunk in CHUNKS]
SQUARES = [[n * n for n in chunk] for chunk in CHUNKS]


class Kept(dict):
    """A store in memory that counts."""

    put = dict.__setitem__


def squares(chunk):
    return [n * n for n in chunk]


def marked(task):
    """Square, and leave a file for every time a chunk is worked on."""
    folder, chunk = task
    (Path(folder) / f"{chunk[0]}.{os.getpid()}.{time.monotonic_ns()}").touch()
    return squares(chunk)


def dying(task):
    """Die once, at the fifth chunk: as by ``kill -9``."""
    folder, chunk = task
    first = not list(Path(folder).glob("8.*"))
    marked(task)
    return deadly(chunk) if first else squares(chunk)


def deadly(chunk):
    if 8 in chunk:
        os.kill(os.getpid(), signal.SIGKILL)
    return squares(chunk)


def failing(chunk):
    if 8 in chunk:
        raise TimeoutError("it is 8")
    return squares(chunk)


def threads(_):
    return {name: os.environ.get(name) for name in parallel._THREADS}


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
    """Return the options that say where the chunks are worked on."""
    return {"workers": 2} if request.param == "processes" else {"client": request.getfixturevalue("dask")}


@pytest.mark.parametrize("workers", [1, 2])
def test_results_are_in_order_and_kept(workers):
    store = Kept()
    assert run_chunks(squares, CHUNKS, keys=KEYS, store=store, workers=workers) == SQUARES
    assert store == dict(zip(KEYS, SQUARES, strict=True))
    assert run_chunks(squares, [], workers=workers) == []


def test_what_is_kept_is_not_worked_on_again(where, tmp_path):
    store = Kept({"key 0": "kept", "key 22": "kept too"})
    tasks = [(str(tmp_path), chunk) for chunk in CHUNKS]
    results = run_chunks(marked, tasks, keys=KEYS, store=store, **where)
    assert results == ["kept", *SQUARES[1:-1], "kept too"]
    assert worked_on(tmp_path) == [0, *[1] * 10, 0]
    assert str(os.getpid()) not in {path.name.split(".")[1] for path in tmp_path.iterdir()}


def test_a_worker_that_dies_loses_nothing(where, tmp_path):
    store = Kept()
    tasks = [(str(tmp_path), chunk) for chunk in CHUNKS]
    assert run_chunks(dying, tasks, keys=KEYS, store=store, **where) == SQUARES
    assert len(store) == len(CHUNKS)
    assert worked_on(tmp_path)[4] == 2  # the deadly one
    assert "client" in where or sum(worked_on(tmp_path)) <= len(CHUNKS) + 2  # and that of the other worker


def test_an_error_comes_back_as_it_is_and_what_was_done_is_kept(where):
    store = Kept()
    with pytest.raises(TimeoutError, match="it is 8"):
        run_chunks(failing, CHUNKS, keys=KEYS, store=store, **where)
    assert "client" in where or store
    assert "key 8" not in store


def test_keys_and_store_belong_together():
    for wrong in ({"keys": KEYS}, {"store": Kept()}, {"store": Kept(), "keys": ["one"]}):
        with pytest.raises(ValueError, match="one key for each"):
            run_chunks(squares, CHUNKS, **wrong)


def test_the_bar_counts_what_is_kept(capsys, monkeypatch):
    monkeypatch.delenv("TQDM_DISABLE")
    store = Kept({"key 0": "kept"})
    run_chunks(squares, CHUNKS, keys=KEYS, store=store, workers=1, label="squares", size=len)
    assert "squares" in (bar := capsys.readouterr().err)
    assert "2.00/24.0" in bar  # two numbers are in the chunk that is stored


def test_a_chunk_that_kills_every_worker_ends_in_one_error():
    store = Kept()
    places = [*range(3, len(CHUNKS)), *range(3)]  # the deadly chunk is the second of those that are started
    chunks, names = [CHUNKS[n] for n in places], [KEYS[n] for n in places]
    with pytest.raises(WorkerError, match=r"died 3 times .*, 1 chunks are left .* workers=1"):
        run_chunks(deadly, chunks, keys=names, store=store, workers=2)
    assert store == {key: value for key, value in zip(KEYS, SQUARES, strict=True) if key != "key 8"}


def test_a_worker_computes_with_one_thread():
    assert run_chunks(threads, [0, 1], workers=2) == [dict.fromkeys(parallel._THREADS, "1")] * 2


SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from workbench.storage.parallel import run_chunks
signal.signal(signal.SIGINT, signal.default_int_handler)  # a test run in the background ignores it
sys.path[:0] = {folders!r}
import test_parallel as work

class Store:
    def get(self, key): return None
    def put(self, key, value): Path({folder!r}, key).write_text(str(value)); print("put", flush=True)

if __name__ == "__main__":
    run_chunks(work.slow, range(10**5), keys=[f"kept{{n}}" for n in range(10**5)], store=Store(), workers=2)
"""


def slow(n):
    Path(os.environ["MARKS"], f"pid{os.getpid()}").touch()
    time.sleep(0.05)
    return n


def alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to see which processes live")
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_an_end_in_the_middle_keeps_what_was_done_and_leaves_no_process(tmp_path, name):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folders=sys.path, folder=str(tmp_path)))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    run = subprocess.Popen([sys.executable, script], env=os.environ | {"MARKS": str(tmp_path)}, **options)
    for _ in range(5):
        assert run.stdout.readline() == "put\n"
    run.send_signal(getattr(signal, name))
    _, errors = run.communicate(timeout=PATIENCE)
    assert run.returncode in ({130, -signal.SIGINT} if name == "SIGINT" else {-signal.SIGKILL})
    assert 5 <= len(list(tmp_path.glob("kept*"))) < 10**5
    if name == "SIGINT":
        assert errors.count("Traceback") == errors.count("KeyboardInterrupt")  # of this process, no worker's
    pids = [int(path.name[3:]) for path in tmp_path.glob("pid*")]
    assert pids
    until = time.monotonic() + PATIENCE
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not any(map(alive, pids))


def test_a_chunk_that_kills_every_dask_worker_ends_in_one_error(dask):
    store = Kept()
    with pytest.raises(WorkerError, match="gave a chunk up"):
        run_chunks(deadly, CHUNKS, keys=KEYS, store=store, client=dask)
    assert "key 8" not in store
    assert run_chunks(squares, CHUNKS, client=dask) == SQUARES  # the cluster lives on


def test_a_cluster_without_workers_is_not_waited_for_forever(monkeypatch):
    monkeypatch.setattr(parallel, "_PATIENCE", 0.5)
    monkeypatch.setattr(parallel, "_LOOK", 0.2)
    with cluster(n_workers=0) as client, pytest.raises(WorkerError, match="has had no worker for"):
        run_chunks(squares, CHUNKS, client=client)
