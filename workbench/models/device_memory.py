"""Batches that fit into the memory of a CPU or GPU.

``accelerate.utils.find_executable_batch_size`` is not used: it runs ``gc.collect()`` before each call (0.5 s
with torch and transformers loaded) and starts the whole work again after a failure.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import numpy as np

from workbench.storage.errors import DataError

Result = TypeVar("Result")


class Batcher:
    """Split rows into batches, the longest rows first; where memory runs out, into smaller ones.

    Parameters
    ----------
    tokens : int
        Tokens in a batch at most, padding counted. A longer row is a batch by itself. Halved whenever memory
        runs out, and stays so for later calls of `run`.
    rows, positions : int, optional
        Rows, and positions for which logits are computed (see `run`), in a batch at most.
    concurrent : bool, default False
        Whether a CPU computes several batches at once, each by a share of torch's threads: most matrices are
        too small to be shared by threads without loss.

    Examples
    --------
    >>> batcher = Batcher(tokens=8)
    >>> for rows, total in batcher.run([2, 4, 3], lambda rows: sum(rows)):
    ...     print(rows, total)
    [1, 2] 3
    [0] 0
    """

    def __init__(
        self, tokens: int, *, rows: int | None = None, positions: int | None = None, concurrent: bool = False
    ) -> None:
        self.tokens, self.rows, self.positions, self.concurrent = max(tokens, 1), rows, positions, concurrent

    def run(
        self,
        lengths: Sequence[int],
        work: Callable[[list[int]], Result],
        *,
        positions: Sequence[int] | None = None,
        factor: int = 1,
    ) -> Iterator[tuple[list[int], Result]]:
        """Yield the row indices of each batch and the result of `work` for them.

        Parameters
        ----------
        lengths : sequence of int (n,)
            Tokens of each row. Rows of one length keep their order.
        work : callable
            Gets the indices of the rows of a batch, the longest first. Called again with fewer rows where
            memory runs out (for one row, that is an error); by several threads where batches are computed
            at once.
        positions : sequence of int (n,), optional
            Positions of each row for which logits are computed; one each by default.
        factor : int, default 1
            How many times as many tokens as usual may be in a batch.

        """
        order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
        start, waiting = 0, deque[tuple[list[int], Callable[[], Result]]]()
        n_batches = -(-sum(lengths) // (self.tokens * factor))
        with _workers(n_batches // 2 if self.concurrent else 1) as (submit, n_workers):
            while start < len(order) or waiting:
                while start < len(order) and len(waiting) < n_workers:
                    batch = self._next(order, start, lengths, positions, factor)
                    waiting.append((batch, submit(work, batch)))
                    start += len(batch)
                batch, compute = waiting.popleft()
                try:
                    result = compute()
                except (RuntimeError, MemoryError) as error:
                    if not is_out_of_memory(error):
                        raise
                    if len(batch) == 1:
                        raise DataError(
                            f"memory does not suffice for a single text of {lengths[batch[0]]} tokens",
                            hint='free memory (del a model), or compute on another device (device="cpu")',
                        ) from error
                else:
                    yield batch, result
                    del result  # or its memory is taken while the next batch is computed
                    continue
                start -= sum(map(len, [batch, *(later for later, _ in waiting)]))
                waiting.clear()
                _clear_device_cache()  # after the handler: the traceback holds the failed batch's tensors
                self.tokens = max(len(batch) // 2 * max(int(lengths[batch[0]]), 1) // factor, 1)

    def _next(
        self,
        order: list[int],
        start: int,
        lengths: Sequence[int],
        positions: Sequence[int] | None,
        factor: int,
    ) -> list[int]:
        """Return the rows of the batch that begins at `start`."""
        longest = max(int(lengths[order[start]]), 1)
        n_rows = min(self.tokens * factor // longest, self.rows or len(order))
        batch = order[start : start + max(n_rows, 1)]
        if self.positions is not None:
            sums = np.cumsum([1 if positions is None else positions[row] for row in batch])
            batch = batch[: max(int((sums <= self.positions).sum()), 1)]
        return batch


@contextmanager
def _workers(n_workers: int) -> Iterator[tuple[Callable[..., Callable[[], Any]], int]]:
    """Yield a function that submits a call and returns its future result, and the number of workers.

    One is computed when its result is asked for; several, at most one for each of torch's threads, at once.
    """
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch and n_workers > 1 else 1
    n_workers = min(n_workers, threads)
    if torch is None or n_workers <= 1:
        yield partial, 1
        return
    pool = ThreadPoolExecutor(n_workers, initializer=torch.set_num_threads, initargs=(threads // n_workers,))
    try:
        yield lambda work, batch: pool.submit(work, batch).result, n_workers
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)  # what threads that begin later have


def is_out_of_memory(error: Exception) -> bool:
    """Return whether an error says that the memory of a CPU or a GPU does not suffice."""
    import torch  # noqa: PLC0415 - slow
    from accelerate.utils.memory import should_reduce_batch_size  # noqa: PLC0415 - slow

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or should_reduce_batch_size(error)


def _clear_device_cache() -> None:
    from accelerate.utils.memory import clear_device_cache  # noqa: PLC0415 - slow

    clear_device_cache()
