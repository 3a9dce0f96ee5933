"""Several processes that train one network, each on its rows of every batch, as ``torchrun`` starts them."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn

from workbench.items.schema import DataError
from workbench.training.device import pick

Sent = TypeVar("Sent")

_BUCKET = 32 * 2**20  # bytes of gradients that travel together
_WAIT = timedelta(hours=6)  # for the first process, which evaluates alone


class World:
    """The processes that train one network; by itself, the only one.

    Gradients are summed once all pieces of a batch are done, not while they are computed: so each process
    may cut its rows into as many pieces as its memory asks for. It is what DistributedDataParallel computes
    (Li et al. 2020, "PyTorch Distributed", section 3.2), with the sum behind the backward pass.

    Attributes
    ----------
    rank, size : int
        Number of this process, and how many there are.
    device : torch.device
        Of this process.
    first : bool
        Whether it is the one that evaluates, writes and tells.
    """

    def __init__(self, device: torch.device, rank: int = 0, size: int = 1) -> None:
        self.device, self.rank, self.size = device, rank, size
        self.first = rank == 0
        self._told: Any = _talk() if size > 1 else None

    def rows(self, whole: int) -> slice:
        """Return this process's rows of a batch.

        Raises
        ------
        DataError
            If there are fewer rows than processes.
        """
        if whole < self.size:
            raise DataError(
                f"{whole} rows cannot be shared by {self.size} processes", remedy="pass more rows a batch"
            )
        return slice(self.rank * whole // self.size, (self.rank + 1) * whole // self.size)

    def sum(self, gradients: Iterable[Tensor]) -> None:
        """Replace tensors by their sums over all processes; they are the same everywhere then."""
        if self.size == 1:
            return
        for bucket in _buckets(gradients):
            flat = torch.cat([values.flatten() for values in bucket])
            dist.all_reduce(flat)
            parts = torch.split(flat, [values.numel() for values in bucket])
            for values, summed in zip(bucket, parts, strict=True):
                values.copy_(summed.view_as(values))

    def highest(self, *numbers: int) -> list[int]:
        """Return the highest that any process says, of each number; a GPU is not waited for."""
        if self.size == 1:
            return list(numbers)
        told = torch.tensor(numbers)
        dist.all_reduce(told, dist.ReduceOp.MAX, group=self._told)
        return [int(number) for number in told]

    def gather(self, mine: Sent) -> list[Sent]:
        """Return what each process has, to the first one; an empty list to the others."""
        if self.size == 1:
            return [mine]
        found: list[Any] | None = [None] * self.size if self.first else None
        dist.gather_object(mine, found, group=self._told)
        return found or []

    def from_first(self, what: Sent) -> Sent:
        """Return what the first process has."""
        if self.size == 1:
            return what
        sent = [what]
        dist.broadcast_object_list(sent, group=self._told)
        return sent[0]

    def same_weights(self, network: nn.Module) -> None:
        """Give the network of each process the weights of the first one's."""
        if self.size > 1:
            for values in network.state_dict().values():
                dist.broadcast(values, 0)


def world(device: str | None) -> World:
    """Join the processes that ``torchrun`` has started, if it has; else there is this one alone.

    ``RANK``, ``WORLD_SIZE`` and ``LOCAL_RANK`` in the environment say which of them this is. They talk by
    NCCL on GPUs, each process having the one with its local number, and by gloo on the CPU.

    Parameters
    ----------
    device : str, optional
        As for :func:`workbench.training.device.pick`.

    Raises
    ------
    DataError
        If there is no such device.
    """
    size = int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1
    if size == 1:
        return World(pick(device))
    local = int(os.environ.get("LOCAL_RANK", "0"))
    own = pick(f"cuda:{local}" if device in {None, "cuda"} and torch.cuda.is_available() else device)
    if own.type == "cuda":
        torch.cuda.set_device(own)
    if not dist.is_initialized():  # once: what `torchrun` tells of it is good for a single meeting
        dist.init_process_group("nccl" if own.type == "cuda" else "gloo", timeout=_WAIT)
        atexit.register(dist.destroy_process_group)
    return World(own, dist.get_rank(), dist.get_world_size())


@cache
def _talk() -> Any:
    """Return the group in which processes tell each other what is not on a GPU."""
    return dist.new_group(backend="gloo", timeout=_WAIT)


def _buckets(tensors: Iterable[Tensor]) -> Iterator[list[Tensor]]:
    """Yield tensors of one type in groups of about `_BUCKET` bytes, in the same order everywhere."""
    found: list[Tensor] = []
    for values in tensors:
        if found and (
            values.dtype != found[0].dtype or sum(other.nbytes for other in found) + values.nbytes > _BUCKET
        ):
            yield found
            found = []
        found.append(values)
    if found:
        yield found
