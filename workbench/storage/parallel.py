"""Work spread over processes or the workers of a Dask cluster, with progress; what is done is kept."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from workbench.storage.cluster import WorkerError, on_cluster

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Store", "WorkerError", "chunked_map", "cores", "in_worker", "run_chunks"]

T = TypeVar("T")
R = TypeVar("R")

_TRIES = 3  # times that processes may die one after the other before a chunk is finished
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


class Store(Protocol[R]):
    """Where finished chunks are kept, by key: a cache on disk, for example."""

    def get(self, key: str) -> R | None:
        """Return what is kept under a key, None if there is nothing."""

    def put(self, key: str, value: R) -> None:
        """Keep a result."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def chunked_map(
    function: Callable[[T], R],
    items: Iterable[T],
    *,
    workers: int | None = None,
    chunk: int = 256,
    serial: int = 2_000,
    progress: str | None = None,
    total: int | None = None,
) -> Iterator[R]:
    """Apply a function to many items in other processes; the results come in the items' order.

    Few items, one core, or a call from inside a worker: then it is a plain loop. The items
    are read as the results are taken, so neither has to fit into memory at once.

    Parameters
    ----------
    function : callable
        A function of a module (it is sent by name), of one item.
    items : iterable
        Its arguments; they and the results are pickled.
    workers : int, optional
        Number of processes; all cores by default.
    chunk : int
        Items sent at a time.
    serial : int
        Up to this many items are worked on here: starting processes takes about a second.
    progress : str, optional
        Label of a progress bar; no bar without it.
    total : int, optional
        Number of items, for the bar, where `items` has no length.

    Yields
    ------
    The results.

    Raises
    ------
    Exception
        Whatever `function` raises, as it is.
    """
    total = len(items) if total is None and isinstance(items, Sequence) else total
    workers = cores() if workers is None else workers
    source = iter(items)
    first = list(islice(source, serial + 1))
    inside = multiprocessing.parent_process() is not None
    source = chain(first, source)
    if len(first) <= serial or workers < 2 or inside:  # noqa: PLR2004 - one worker is none
        results: Iterator[R] = map(function, source)
    else:
        results = _spread(function, source, workers, chunk)
    if progress is None:
        yield from results
        return
    from tqdm.auto import tqdm  # noqa: PLC0415 - loads ipywidgets in a notebook

    yield from tqdm(results, desc=progress, total=total, unit_scale=True, disable=len(first) <= serial)


def _spread(function: Callable[[T], R], items: Iterator[T], workers: int, chunk: int) -> Iterator[R]:
    waiting: deque[Future[list[R]]] = deque()
    with _pool(workers) as pool:
        try:
            while True:
                while len(waiting) < 2 * workers and (part := list(islice(items, chunk))):
                    with _without_main(function):
                        waiting.append(pool.submit(_apply, function, part))
                if not waiting:
                    return
                yield from waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _apply(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    return [function(item) for item in items]


@contextmanager
def _without_main(function: Callable[..., Any]) -> Iterator[None]:
    """Let workers start without running the user's script again, unless `function` lives there.

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
    progress: str | None = None,
    size: Callable[[T], int] | None = None,
) -> list[R]:
    """Apply a function to chunks of work, here, in other processes, or on a Dask cluster.

    Chunks that the store holds are not worked on again; every other result goes to the store as
    soon as it is there, in whatever order the chunks end. A run that is interrupted or killed
    thus goes on where it was when it is called again.

    Parameters
    ----------
    function : callable
        A function of a module (it is sent by name), of one chunk; its result is not None.
    chunks : sequence
        Its arguments. They and the results are pickled where they travel: keep them small.
    keys : sequence of str, optional
        The key of each chunk in the store.
    store : Store, optional
        Where finished chunks are kept; used from this process alone.
    workers : int, optional
        Number of processes; all cores by default, at most one a chunk. With one, and within a
        process that was itself started for such work, the chunks are worked on here.
    client : distributed.Client, optional
        A Dask client, in place of processes. Chunks of a worker that dies go to another one.
    progress : str, optional
        Label of a progress bar (``tqdm.auto``); no bar without it.
    size : callable, optional
        What a chunk counts in the bar; 1 by default.

    Returns
    -------
    list
        The results, in the order of the chunks.

    Raises
    ------
    WorkerError
        If workers die without finishing anything, or a cluster has no worker left.
    Exception
        Whatever `function` raises, as it is; chunks that were finished are in the store.
    """
    if (store is None) != (keys is None) or (keys is not None and len(keys) != len(chunks)):
        raise ValueError("a store needs one key for each chunk")
    results: dict[int, R] = {}
    if store is not None and keys is not None:
        kept = ((index, store.get(key)) for index, key in enumerate(keys))
        results.update((index, result) for index, result in kept if result is not None)
    left = [index for index in range(len(chunks)) if index not in results]
    sizes = [1 if size is None else size(chunk) for chunk in chunks]
    with (
        _bar(progress, sum(sizes), sum(sizes[index] for index in results)) as step,
        closing(_work(function, chunks, left, workers, client)) as work,
    ):
        for index, result in work:
            results[index] = result
            if store is not None and keys is not None:
                store.put(keys[index], result)
            step(sizes[index])
    return [results[index] for index in range(len(chunks))]


@contextmanager
def _bar(label: str | None, total: int, done: int) -> Iterator[Callable[[int], Any]]:
    if label is None:
        yield lambda _: None
        return
    from tqdm.auto import tqdm  # noqa: PLC0415 - loads ipywidgets in a notebook

    with tqdm(desc=label, total=total, initial=done, unit_scale=True) as bar:
        yield bar.update


_Done = Generator[tuple[int, R], None, None]


def _work(
    function: Callable[[T], R],
    chunks: Sequence[T],
    left: list[int],
    workers: int | None,
    client: Client | None,
) -> _Done[R]:
    """Yield the number and the result of every chunk that is left, as they end."""
    workers = min(cores() if workers is None else workers, len(left))
    if client is not None:
        yield from on_cluster(function, chunks, left, client)
    elif workers < 2 or multiprocessing.parent_process() is not None:  # noqa: PLR2004 - one worker is none
        for index in left:
            yield index, function(chunks[index])
    else:
        yield from _in_processes(function, chunks, left, workers)


def _in_processes(function: Callable[[T], R], chunks: Sequence[T], left: list[int], workers: int) -> _Done[R]:
    """Work in one pool after the other, until all is done: a pool ends with the first worker that dies."""
    deaths = 0
    while left:
        done: set[int] = set()
        try:
            with closing(_in_pool(function, chunks, left, workers)) as work:
                for index, result in work:
                    done.add(index)
                    yield index, result
        except BrokenProcessPool:
            deaths = 0 if done else deaths + 1
            if deaths == _TRIES:
                raise WorkerError(
                    f"worker processes died {deaths} times one after the other, {len(left)} chunks are left"
                    " -- most often memory ran out: call again with workers=1; where a cache is used, what"
                    " was finished is kept"
                ) from None
            rest = [index for index in left if index not in done]
            left = rest[workers:] + rest[:workers]  # what ran when it died comes last: the others get done
            workers = workers if done else max(1, workers // 2)  # fewer of them need less memory
        left = [index for index in left if index not in done]


def _in_pool(function: Callable[[T], R], chunks: Sequence[T], left: list[int], workers: int) -> _Done[R]:
    source, running = iter(left), dict[Future[R], int]()
    broken: BaseException | None = None
    with _pool(workers) as pool:
        while True:
            try:
                for index in islice(source, 0 if broken else 2 * workers - len(running)):
                    with _without_main(function):
                        running[pool.submit(function, chunks[index])] = index
            except BrokenProcessPool as error:
                broken = error
            if not running:
                break
            failed = None
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                index, fault = running.pop(future), future.exception()
                if fault is None:
                    yield index, future.result()
                elif isinstance(fault, BrokenProcessPool):
                    broken = fault
                else:
                    failed = fault
            if failed is not None:
                raise failed
        if broken is not None:
            raise broken


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give fresh processes; where the block ends early, what runs in them is given up."""
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


_started: list[int] = []  # the id of this process, if it was started here


def in_worker() -> bool:
    """Tell if this process was started here for nothing but work (a Dask worker was not)."""
    return bool(_started)


def _start() -> None:
    """Prepare a worker process, before it imports anything that computes."""
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
