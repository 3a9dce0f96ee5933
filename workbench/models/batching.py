"""Process rows of different lengths longest first, in batches that fit into memory.

Every model that reads texts of different lengths uses this one batcher. Where memory runs out, the batch and
all after it become half as large.

``accelerate.utils.find_executable_batch_size`` is not used: it runs ``gc.collect()`` before each call (0.5 s
with torch and transformers loaded) and starts the whole work again after a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from workbench.items.schema import DataError

Result = TypeVar("Result")


class Batcher:
    """Split rows into batches, the longest rows first.

    Parameters
    ----------
    tokens : int
        Tokens in a batch at most, padding counted. A longer row is a batch by itself. Halved whenever memory
        runs out, and stays so for later calls of `run`.
    rows : int, optional
        Rows in a batch at most.
    positions : int, optional
        Positions for which logits are computed in a batch at most (see `run`).

    Examples
    --------
    >>> batcher = Batcher(tokens=8)
    >>> for rows, total in batcher.run([2, 4, 3], lambda rows: sum(rows)):
    ...     print(rows, total)
    [1, 2] 3
    [0] 0

    Rows of a tensor that take the same memory each, in their order:

    >>> [total for _, total in Batcher(tokens=2).run([1] * 5, sum)]
    [1, 5, 4]
    """

    def __init__(self, tokens: int, *, rows: int | None = None, positions: int | None = None) -> None:
        self.tokens, self.rows, self.positions = max(tokens, 1), rows, positions

    def run(
        self,
        lengths: Sequence[int],
        work: Callable[[list[int]], Result],
        *,
        positions: Sequence[int] | None = None,
        factor: int = 1,
    ) -> Iterator[tuple[list[int], Result]]:
        """Yield the indices of the rows of each batch, and what `work` returned for them.

        Parameters
        ----------
        lengths : sequence of int (n,)
            Tokens of each row. Rows of one length keep their order.
        work : callable
            Gets the indices of the rows of a batch, the longest first. Called again with fewer rows where
            memory runs out.
        positions : sequence of int (n,), optional
            Positions of each row for which logits are computed; one each by default.
        factor : int, default 1
            How many times as many tokens as usual may be in a batch.

        Raises
        ------
        DataError
            If memory runs out for a single row.
        """
        order = np.argsort(-np.asarray(lengths, dtype=np.int64), kind="stable").tolist()
        start = 0
        while start < len(order):
            longest = max(int(lengths[order[start]]), 1)
            most = min(self.tokens * factor // longest, self.rows or len(order))
            batch = order[start : start + max(most, 1)]
            if self.positions is not None:
                sums = np.cumsum([1 if positions is None else positions[row] for row in batch])
                batch = batch[: max(int((sums <= self.positions).sum()), 1)]
            try:
                result = work(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(batch) == 1:
                    raise DataError(
                        f"memory does not suffice for a single text of {longest} tokens",
                        remedy='free memory (wb.free(...)), or compute on another device (device="cpu")',
                    ) from error
            else:
                yield batch, result
                del result  # or its memory is taken while the next batch is computed
                start += len(batch)
                continue
            _clear_device_cache()  # after the handler: the traceback holds the tensors of the failed batch
            self.tokens = max(len(batch) // 2 * longest // factor, 1)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that the memory of a CPU or a GPU does not suffice."""
    import torch  # noqa: PLC0415 - slow
    from accelerate.utils.memory import should_reduce_batch_size  # noqa: PLC0415 - slow

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or (
        isinstance(error, Exception) and should_reduce_batch_size(error)
    )


def _clear_device_cache() -> None:
    from accelerate.utils.memory import clear_device_cache  # noqa: PLC0415 - slow

    clear_device_cache()
