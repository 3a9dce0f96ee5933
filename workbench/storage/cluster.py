"""Work on the workers of a Dask cluster, of which any may die at any time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from distributed import Client

T = TypeVar("T")
R = TypeVar("R")

_PATIENCE = 180.0  # seconds for which a cluster may be without any worker
_LOOK = 2.0  # seconds between two looks at a cluster that has finished nothing in between
_KEPT = "; where a cache is used, what was finished is kept"


class WorkerError(RuntimeError):
    """Workers died or went away, again and again; says what to do about it."""


def on_cluster(
    function: Callable[[T], R], chunks: Sequence[T], left: Sequence[int], client: Client
) -> Iterator[tuple[int, R]]:
    """Apply a function to chunks on a Dask cluster; yield number and result as they end.

    The chunks are sent a few ahead of the work, so that a scheduler never holds all of them.
    When a worker dies, the scheduler gives its chunks to another one, and so often as
    ``distributed.scheduler.allowed-failures`` says for one chunk.

    Parameters
    ----------
    function : callable
        A function of one chunk, of a module that the workers can import.
    chunks : sequence
        The work, of which the numbers in `left` are to be done.
    left : sequence of int
        These numbers.
    client : distributed.Client
        A client that is not asynchronous.

    Raises
    ------
    WorkerError
        If there is no worker for three minutes, the scheduler has gone, or a chunk was given up
        because every worker that had it died.
    """
    import distributed  # noqa: PLC0415 - slow to import

    if client.asynchronous:
        raise TypeError("this Dask client is asynchronous, expected one made with asynchronous=False")
    running: dict[Any, int] = {}
    gone = (distributed.KilledWorker, distributed.CancelledError, OSError)
    try:
        yield from _run(function, chunks, iter(left), client, running)
    except gone as error:
        if isinstance(error, OSError) and client.status == "running":
            raise  # of the function, not of the connection
        raise WorkerError(
            f"the Dask cluster gave a chunk up or went away ({error}) -- see the logs of its workers, most"
            f" often memory ran out; call again with fewer threads a worker{_KEPT}"
        ) from error
    finally:
        if running and client.status == "running":
            client.cancel(list(running))  # type: ignore[no-untyped-call]


def _run(
    function: Callable[[T], R],
    chunks: Sequence[T],
    left: Iterator[int],
    client: Client,
    running: dict[Any, int],
) -> Iterator[tuple[int, R]]:
    seen = time.monotonic()  # when a worker was there
    while True:
        threads = sum(client.nthreads().values())  # type: ignore[no-untyped-call]
        seen = time.monotonic() if threads else seen
        for index in islice(left, max(0, 2 * max(threads, 2) - len(running))):
            running[client.submit(function, chunks[index], pure=False, retries=1)] = index
        if not running:
            return
        if time.monotonic() - seen > _PATIENCE:
            raise WorkerError(
                f"the Dask cluster has had no worker for {_PATIENCE:.0f} s"
                f" -- start workers and call again{_KEPT}"
            )
        for future in _ended(running):
            try:
                result = future.result(timeout=_LOOK)
            except TimeoutError:
                if future.status == "error":  # of the function itself
                    raise
                continue  # the worker that held the result is gone: it is made again
            yield running.pop(future), result


def _ended(running: dict[Any, int]) -> list[Any]:
    from distributed import wait  # noqa: PLC0415 - slow to import

    try:
        return list(wait(list(running), timeout=_LOOK, return_when="FIRST_COMPLETED").done)  # type: ignore[no-untyped-call]
    except TimeoutError:
        return []
