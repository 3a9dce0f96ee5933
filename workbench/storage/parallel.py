"""Run chunks of work in processes or on a Dask cluster, with progress; finished chunks are stored."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from workbench.storage.progress import progress_bar

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")
_Done = Generator[tuple[int, R], None, None]  # number and result of every chunk, as they end

_TRIES = 3  # times that processes may die one after the other before a chunk is finished
_PATIENCE = 180.0  # seconds for which a cluster may be without any worker
_LOOK = 2.0  # seconds between two looks at a cluster that has finished nothing in between
_RESUME = "; where a cache is used, finished chunks are on disk"
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class WorkerError(RuntimeError):
    """Worker processes or cluster workers died or became unreachable repeatedly."""


class Store(Protocol[R]):
    """Finished chunks by key, such as a cache on disk."""

    def get(self, key: str) -> R | None:
        """Return the result stored under a key, or None."""

    def put(self, key: str, value: R) -> None:
        """Store a result."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _without_main(function: Callable[..., Any]) -> Iterator[None]:
    """Start workers without running the user's script again, unless it defines `function`.

    A fresh process imports the main script to find its functions, and a script without
    ``if __name__ == "__main__"`` would then do all its work once more in each worker.
    """
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if function.__module__ == "__main__" or file is None:
        yield
        return
    main.__spec__, main.__file__ = None, None
    try:
        yield
    finally:
        main.__spec__, main.__file__ = spec, file


def run_chunks(
    function: Callable[[T], R],
    chunks: Sequence[T],
    *,
    keys: Sequence[str] | None = None,
    store: Store[R] | None = None,
    workers: int | None = None,
    client: Client | None = None,
    label: str | None = None,
    size: Callable[[T], int] | None = None,
    unit: str = "chunks",
) -> list[R]:
    """Apply a function to chunks of work in this process, in other processes, or on a Dask cluster.

    Chunks in the store are not computed again; every other result is stored as soon as it is there,
    in the order in which the chunks end. A run that was interrupted or killed thus resumes.

    Parameters
    ----------
    function : callable
        A function of one chunk, defined in a module (it is pickled by name); its result is not None.
    chunks : sequence
        Its arguments. They and the results are pickled: keep them small.
    keys, store : sequence of str and Store, optional
        Store of finished chunks, used from this process alone, and the key of each chunk in it.
    workers : int, optional
        Number of processes; all cores by default, at most one per chunk. With one, and within a
        worker process, the chunks are computed in this process.
    client : distributed.Client, optional
        A Dask client, in place of processes. Chunks of a worker that dies go to another one.
    label : str, optional
        Label of a progress bar; silent by default.
    size, unit : callable and str
        Units of a chunk in the bar (1 by default), and what they are.

    Returns
    -------
    list
        The results, in the order of the chunks.

    Raises
    ------
    WorkerError
        If workers die repeatedly without finishing anything, or a cluster has had no worker for three
        minutes or has gone. What `function` raises is raised, too.
    """
    if (store is None) != (keys is None) or (keys is not None and len(keys) != len(chunks)):
        raise ValueError("a store needs one key for each chunk")
    results: dict[int, R] = {}
    if store is not None and keys is not None:
        stored = ((index, store.get(key)) for index, key in enumerate(keys))
        results = {index: result for index, result in stored if result is not None}
    todo = [index for index in range(len(chunks)) if index not in results]
    workers = min(cores() if workers is None else workers, len(todo))
    done: _Done[R]
    if client is not None:
        done = _on_cluster(function, chunks, todo, client)
    elif workers < 2 or multiprocessing.parent_process() is not None:  # noqa: PLR2004 - one worker is none
        done = ((index, function(chunks[index])) for index in todo)
    else:
        done = _in_processes(function, chunks, todo, workers)
    sizes = [1] * len(chunks) if size is None else [size(chunk) for chunk in chunks]
    start = sum(sizes[index] for index in results)
    bar = progress_bar(sum(sizes), label=label or "", unit=unit, shown=label is not None, initial=start)
    with bar, closing(done):
        for index, result in done:
            results[index] = result
            if store is not None and keys is not None:
                store.put(keys[index], result)
            bar.update(sizes[index])
    return [results[index] for index in range(len(chunks))]


def _in_processes(function: Callable[[T], R], chunks: Sequence[T], todo: list[int], workers: int) -> _Done[R]:
    """Process chunks in one pool after another until all are done; a pool ends when a worker dies."""
    deaths = 0
    while todo:
        done: set[int] = set()
        fault: BaseException | None = None
        try:
            with _pool(workers) as pool:
                with _without_main(function):  # processes start while work is submitted
                    running = {pool.submit(function, chunks[index]): index for index in todo}
                while running and (fault is None or isinstance(fault, BrokenProcessPool)):
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        index, error = running.pop(future), future.exception()
                        if error is None:
                            done.add(index)
                            yield index, future.result()
                        elif fault is None or isinstance(fault, BrokenProcessPool):
                            fault = error
                if fault is not None:
                    raise fault
        except BrokenProcessPool:
            deaths = 0 if done else deaths + 1
            if deaths == _TRIES:
                raise WorkerError(
                    f"worker processes died {deaths} times one after the other, {len(todo)} chunks are left"
                    f" -- most often memory ran out: call again with workers=1{_RESUME}"
                ) from None
            rest = [index for index in todo if index not in done]
            todo = rest[workers:] + rest[:workers]  # what ran when it died comes last: the others get done
            workers = workers if done else max(1, workers // 2)  # fewer of them need less memory
        todo = [index for index in todo if index not in done]


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of fresh processes; they are terminated if the block ends early."""
    # Not forked: a fork of a process with threads (Jupyter, torch, pyarrow) may hang, and warns from 3.12 on.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_start)
    try:
        yield pool
    except BaseException:
        for process in list((pool._processes or {}).values()):  # noqa: SLF001 - public from Python 3.14 on
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _on_cluster(
    function: Callable[[T], R], chunks: Sequence[T], todo: Sequence[int], client: Client
) -> _Done[R]:
    # When a worker dies, the scheduler gives its chunk to another one, as often as the setting
    # distributed.scheduler.allowed-failures says.
    import distributed  # noqa: PLC0415 - slow to import

    if client.asynchronous:
        raise TypeError("this Dask client is asynchronous, expected one made with asynchronous=False")
    running: dict[Any, int] = {}
    gone = (distributed.KilledWorker, distributed.CancelledError, OSError)
    try:
        yield from _submit_chunks(function, chunks, iter(todo), client, running)
    except gone as error:
        if isinstance(error, OSError) and client.status == "running":
            raise  # of the function, not of the connection
        raise WorkerError(
            f"the Dask cluster gave a chunk up or went away ({error}) -- see the logs of its workers, most"
            f" often memory ran out; call again with fewer threads a worker{_RESUME}"
        ) from error
    finally:
        if running and client.status == "running":
            client.cancel(list(running))  # type: ignore[no-untyped-call]


def _submit_chunks(
    function: Callable[[T], R],
    chunks: Sequence[T],
    todo: Iterator[int],
    client: Client,
    running: dict[Any, int],
) -> _Done[R]:
    from distributed import wait as wait_on_cluster  # noqa: PLC0415 - slow to import

    seen = time.monotonic()  # when a worker was there
    while True:
        threads = sum(client.nthreads().values())  # type: ignore[no-untyped-call]
        seen = time.monotonic() if threads else seen
        for index in islice(todo, max(0, 2 * max(threads, 2) - len(running))):  # a scheduler never holds all
            running[client.submit(function, chunks[index], pure=False, retries=1)] = index
        if not running:
            return
        if time.monotonic() - seen > _PATIENCE:
            raise WorkerError(
                f"the Dask cluster has had no worker for {_PATIENCE:.0f} s"
                f" -- start workers and call again{_RESUME}"
            )
        ended: Any = ()
        with suppress(TimeoutError):
            ended = wait_on_cluster(list(running), timeout=_LOOK, return_when="FIRST_COMPLETED").done  # type: ignore[no-untyped-call]
        for future in ended:
            try:
                result = future.result(timeout=_LOOK)
            except TimeoutError:
                if future.status == "error":  # of the function itself
                    raise
                continue  # the worker that held the result is gone: it is made again
            yield running.pop(future), result


_started: list[int] = []  # the id of this process, if it was started here


def in_worker() -> bool:
    """Return True in a process that `run_chunks` started (not in a Dask worker)."""
    return bool(_started)


def _start() -> None:
    """Prepare a worker process before it imports numerical libraries."""
    _started.append(os.getpid())
    for name in _THREADS:  # there is one worker a core already
        os.environ[name] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that waits for this one
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A process that waits for work does not see that the one which would send it was killed.
    if (parent := multiprocessing.parent_process()) is not None:
        parent.join()
        os._exit(1)
