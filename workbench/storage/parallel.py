"""Run chunks of work in processes or on the user's Dask cluster; finished chunks are stored."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from workbench.storage.packages import DISTRIBUTION, commit
from workbench.storage.progress import progress_bar

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")
Results = Generator[tuple[int, R], None, None]  # number and result of each chunk, as they end

_TRIES = 4  # the first time, and three times after a process died
_PATIENCE = 180.0  # seconds for which a cluster may be without any worker
_LOOK = 0.2  # seconds between two looks at a cluster
_AGAIN = " -- often memory ran out: call again with fewer workers; in a cache, finished chunks are on disk"
_POOL = threading.Lock()  # all threads share the processes, which end with the first error
_started: list[int] = []  # the id of this process, if `run_chunks` started it


class WorkerError(RuntimeError):
    """Workers died repeatedly, cannot be reached, or have another version of the workbench."""


class Store(Protocol[R]):
    """Finished chunks by key, such as a cache on disk."""

    def get(self, key: str) -> R | None:
        """Return the result stored under a key, or None."""

    def put(self, key: str, value: R) -> None:
        """Store a result."""


def run_chunks(
    function: Callable[[T], R],
    chunks: Sequence[T],
    *,
    keys: Sequence[str] = (),
    store: Store[R] | None = None,
    in_process: bool = False,
    label: str | None = None,
    size: Callable[[T], int] | None = None,
    unit: str = "chunks",
) -> list[R]:
    """Return the result of a function for each chunk; both are pickled, and no result is None.

    The workers of the open ``dask.distributed.Client`` do the work, else as many processes as
    ``joblib.parallel_config(n_jobs=...)`` says, one for each core by default. This process does it with
    ``n_jobs=1``, for a single chunk, within a worker, and with `in_process`.

    Chunks whose `keys` are in the store are not worked on again, and every other result is stored as soon as
    it is there, so that a run that was killed resumes. `label` is that of a progress bar, in which `size`
    counts the units of a chunk. WorkerError if workers die repeatedly or have another version of the
    workbench, or if the cluster is gone or has had no worker for three minutes.
    """
    results = {} if store is None else {n: x for n, x in enumerate(map(store.get, keys)) if x is not None}
    missing = {index: chunk for index, chunk in enumerate(chunks) if index not in results}
    sizes = [1 if size is None else size(chunk) for chunk in chunks]
    start = sum(sizes[index] for index in results)
    bar = progress_bar(sum(sizes), label=label or "", unit=unit, shown=label is not None, initial=start)
    with bar, closing(_results(function, missing, in_process=in_process)) as made:
        for index, result in made:
            results[index] = result
            if store is not None:
                store.put(keys[index], result)
            bar.update(sizes[index])
    return [results[index] for index in range(len(chunks))]


def in_worker() -> bool:
    """Return True in a process that `run_chunks` started (not in a Dask worker)."""
    return bool(_started)


def dask_client() -> Client | None:
    """Return the open Dask client, None if there is none, within a worker, and where joblib has n_jobs=1."""
    try:
        client: Client = sys.modules["distributed"].default_client()
    except (KeyError, ValueError):  # distributed is not imported, or no client is open
        return None
    return None if client.asynchronous or _n_jobs() == 1 else client


def _n_jobs() -> int | None:
    """Return the number of processes that joblib is set to, if any; 1 within a worker of joblib or Dask."""
    from joblib.parallel import get_active_backend  # noqa: PLC0415 - slow to import

    backend, n_jobs = get_active_backend()
    with suppress(KeyError, ValueError):  # distributed is not imported, or this is no task
        sys.modules["distributed"].get_worker()
        return 1
    return 1 if backend.nesting_level else n_jobs


def _results(function: Callable[[T], R], missing: dict[int, T], *, in_process: bool) -> Results[R]:
    """Choose where to work."""
    from joblib import effective_n_jobs  # noqa: PLC0415 - slow to import

    if len(missing) > 1 and not in_process:
        task = partial(_run, function, _version())
        if (client := dask_client()) is not None:
            return _on_cluster(task, missing, client)
        n_jobs = _n_jobs()
        n_jobs = min(effective_n_jobs(-1 if n_jobs is None else n_jobs), len(missing))
        if n_jobs > 1:
            return _in_processes(task, missing, n_jobs)
    return ((index, function(chunk)) for index, chunk in missing.items())


@cache
def _version() -> str:
    return f"{version(DISTRIBUTION)}, commit {commit()}"


def _run(function: Callable[[T], R], expected: str, index: int, chunk: T) -> tuple[int, R]:
    """Work on a chunk in a worker."""
    if _version() != expected:
        raise WorkerError(
            f"expected version {expected} of the workbench in each worker, got {_version()}"
            " -- install the same version everywhere, and start the workers and this process again"
        )
    return index, function(chunk)


def _in_processes(task: Callable[[int, T], tuple[int, R]], missing: dict[int, T], n_jobs: int) -> Results[R]:
    """Work in processes, which later calls use again; where one dies, what is missing is started again."""
    from joblib import Parallel, delayed, parallel_config  # noqa: PLC0415 - slow to import
    from joblib.externals.loky.process_executor import TerminatedWorkerError  # noqa: PLC0415 - as above

    names = sorted(name for name in os.environ if name.startswith("WORKBENCH_"))
    settings = (Path.cwd(), tuple(sys.path), *(os.environ[name] for name in names))  # others: new processes
    for _ in range(_TRIES):
        with _POOL, suppress(TerminatedWorkerError):
            with parallel_config("loky", inner_max_num_threads=1, initializer=_start, initargs=settings):
                pool = Parallel(n_jobs, batch_size=1, max_nbytes=None, return_as="generator_unordered")
                results = pool(delayed(task)(index, chunk) for index, chunk in missing.copy().items())
            try:
                for index, result in results:
                    del missing[index]
                    yield index, result
                return
            finally:
                with warnings.catch_warnings(action="ignore"):  # of joblib, where results are not used
                    results.close()
        for index in list(missing)[:n_jobs]:  # what was worked on comes last
            missing[index] = missing.pop(index)
    raise WorkerError(f"worker processes died {_TRIES} times, {len(missing)} chunks are left{_AGAIN}")


def _start(*_: object) -> None:
    """Prepare a process: Ctrl-C is for the one that waits for it."""
    _started.append(os.getpid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _on_cluster(task: Callable[[int, T], tuple[int, R]], missing: dict[int, T], client: Any) -> Results[R]:
    """Work on the workers of a cluster, whose scheduler gives the chunks of one that dies to others."""
    from distributed import CancelledError, KilledWorker, as_completed  # noqa: PLC0415 - slow to import

    futures = set(client.map(task, list(missing), list(missing.values()), pure=False))
    completed: Any = as_completed(futures, with_results=True, raise_errors=False)  # type: ignore[no-untyped-call]
    seen = time.monotonic()  # when a worker was there
    try:
        while futures:
            batch = completed.next_batch(block=False)
            for future, result in batch:
                if future.status in {"error", "cancelled"}:
                    future.result()
                futures.remove(future)
                yield result
            if not batch:
                time.sleep(_LOOK)
                if client.status == "running" and client.nthreads():
                    seen = time.monotonic()
            if time.monotonic() - seen > _PATIENCE:
                raise WorkerError(f"the Dask cluster has had no worker for {_PATIENCE:.0f} s{_AGAIN}")
    except (KilledWorker, CancelledError, OSError) as error:
        if isinstance(error, OSError) and client.status == "running":
            raise  # of the function, not of the connection
        raise WorkerError(f"the Dask cluster gave a chunk up or went away ({error}){_AGAIN}") from error
    finally:
        if client.status == "running":
            client.cancel(list(futures))
