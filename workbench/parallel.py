"""Work spread over processes, in order, with progress."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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
    # Fresh processes: a fork of one with threads (Jupyter, torch, pyarrow) may hang, and warns from 3.12 on.
    context = multiprocessing.get_context("spawn")
    waiting: deque[Future[list[R]]] = deque()
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
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
