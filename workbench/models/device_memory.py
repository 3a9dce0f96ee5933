"""Memory of a CPU or GPU: batches that fit into it, and weights that are moved off it.

``accelerate.utils.find_executable_batch_size`` is not used: it runs ``gc.collect()`` before each call (0.5 s
with torch and transformers loaded) and starts the whole work again after a failure.
"""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from workbench.storage.errors import DataError

if TYPE_CHECKING:
    from torch import nn

Result = TypeVar("Result")

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


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
                            remedy='free memory (wb.free(...)), or compute on another device (device="cpu")',
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


def free(*models: object) -> str:
    """Move the weights of models to the CPU and free the GPU's memory, torch's reserve included.

    The weights wait in the memory of the CPU, and return to the GPU when the model is next used
    (``accelerate.cpu_offload_with_hook``). Memory that a notebook still refers to, such as the outputs of
    networks, is not freed.

    Parameters
    ----------
    *models : object
        Models of the workbench, or torch modules. Without any, only torch's reserve is given back.

    Returns
    -------
    str
        One line: what each model gave back, and what is free now.

    Examples
    --------
    >>> report = wb.free()
    """
    reports = [f"{getattr(model, 'name', type(model).__name__)}: {_offload(model)}" for model in models]
    gc.collect()
    return "; ".join([*reports, _free_memory()])


def _offload(model: object) -> str:
    """Move the networks of a model to the CPU, and report it."""
    networks = list(_networks(model)) if "torch" in sys.modules else []  # without torch it holds none
    if not networks:
        return "no weights, nothing to free"
    modules = [(holder, network, [*network.parameters(), *network.buffers()]) for holder, network in networks]
    tensors = {id(tensor): tensor for *_, weights in modules for tensor in weights}.values()
    size = sum(tensor.nbytes for tensor in tensors if tensor.device.type != "cpu")
    if not size:
        return f"{_bytes(sum(tensor.nbytes for tensor in tensors))} on the cpu, nothing to free"
    from accelerate import cpu_offload_with_hook  # noqa: PLC0415 - slow
    from accelerate.hooks import remove_hook_from_module  # noqa: PLC0415 - slow

    for holder, network, weights in modules:
        home = next((tensor.device for tensor in weights if tensor.device.type != "cpu"), None)
        if hasattr(type(holder), "network"):  # a property that moves it to the holder's device
            network.to("cpu")
        elif home is not None:
            remove_hook_from_module(network)  # of the last time
            cpu_offload_with_hook(network, execution_device=home)
    return f"{_bytes(size)} given back"


def _networks(model: object) -> Iterator[tuple[object, nn.Module]]:
    """Yield the network of a model and those of the models that it uses, each with its holder."""
    from torch import nn  # noqa: PLC0415 - slow

    if isinstance(model, nn.Module):
        yield None, model
        return
    attributes = getattr(model, "__dict__", {})
    checkpoint = getattr(attributes.get("_checkpoint"), "model", None)
    for network in (attributes.get("_network"), attributes.get("network"), checkpoint):
        if isinstance(network, nn.Module):
            yield model, network
    bases = [attributes["base"]] if "base" in attributes else []
    for base in [*bases, *attributes.get("models", ())]:
        yield from _networks(base)


def _free_memory() -> str:
    """Free torch's reserve of GPU memory; return the free memory of each GPU in use."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return "no GPU here"
    if not torch.cuda.is_initialized():
        return "no GPU was used"
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    reports = []
    for k in [k for k in range(torch.cuda.device_count()) if torch.cuda.memory_stats(k)] or [0]:
        available, total = torch.cuda.mem_get_info(k)
        reports.append(f"{available / 1e9:.1f} of {total / 1e9:.1f} GB free on cuda:{k}")
    return ", ".join(reports)


def _bytes(size: float) -> str:
    unit, letters = next(((unit, letters) for unit, letters in _UNITS if size >= unit), (1.0, "bytes"))
    return f"{size / unit:.3g} {letters}"
