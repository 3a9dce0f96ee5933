"""Forward and backward over a batch, in as many pieces as the memory asks for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from workbench.items.schema import DataError
from workbench.training.settings import Settings

State = tuple[Tensor, ...] | None
"""What a network remembers of the text so far; every tensor has the rows first."""

Random = tuple[Tensor, ...]
"""States of the random numbers: of the CPU, and of the GPU where one computes."""


class Gradients:
    """Computes the gradient of the mean loss of a batch, and adapts to what the device can do.

    Parameters
    ----------
    network : nn.Module
        ``network(batch, state)`` is the mean of -ln p over the predicted words, and the state after it.
    settings : Settings
    device : torch.device
    whole : int
        Rows of the whole batch, over all processes: a row counts 1 / `whole`, so every row is to predict
        the same number of words.
    rows : int
        Those of this process.
    micro_rows : int, optional
        Rows at a time; all by default. It is halved where the memory does not suffice.
    say : callable
        Takes what happened, in words.
    """

    def __init__(
        self,
        network: nn.Module,
        settings: Settings,
        device: torch.device,
        *,
        whole: int,
        rows: int,
        say: Callable[[str], None],
        micro_rows: int | None = None,
    ) -> None:
        self.network, self.device, self.whole, self.rows, self.say = network, device, whole, rows, say
        self.micro_rows = min(micro_rows or rows, rows)
        self.trained = {name: weight for name, weight in network.named_parameters() if weight.requires_grad}
        if not self.trained:
            raise DataError("this network has no parameter to train", remedy="pass one with requires_grad")
        on_gpu = device.type == "cuda"
        half = on_gpu and torch.cuda.is_bf16_supported(including_emulation=False)
        self._half = (settings.precision or ("bfloat16" if half else "float32")) == "bfloat16"
        self._compiled = on_gpu if settings.compile is None else settings.compile
        self._forward: Callable[..., Any] = torch.compile(network) if self._compiled else network

    def __call__(self, batch: dict[str, Tensor], state: State) -> tuple[Tensor, State]:
        """Set the gradients; return this process's share of the mean loss, on the device, and the new state.

        Raises
        ------
        DataError
            If not even one row fits into the memory.
        """
        random = random_state(self.device)
        while True:
            again = ""
            try:
                return self._sum(batch, state)
            except torch.OutOfMemoryError:
                again = "memory"
            except Exception as error:
                if not self._compiled:
                    raise
                again = f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            set_random_state(random, self.device)  # only here are the tensors of the failed step free again
            self.clear()
            if again == "memory":
                self.halve("the device is out of memory")
            else:
                self._compiled, self._forward = False, self.network
                self.say(f"torch.compile failed, so the network runs as it is ({again})")

    def all(self) -> list[Tensor]:
        """Return the gradients, in the order of the parameters."""
        return [weight.grad for weight in self.trained.values() if weight.grad is not None]

    def clear(self) -> None:
        """Forget the gradients."""
        for weight in self.trained.values():
            weight.grad = None

    def halve(self, reason: str) -> None:
        """Take half as many rows at a time."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        if self.micro_rows == 1:
            raise DataError(
                f"{reason}: one row of a batch does not fit into the memory of {self.device}",
                remedy="make the network narrower or the rows shorter, or use another device",
            )
        self.micro_rows = (self.micro_rows + 1) // 2
        pieces = -(-self.rows // self.micro_rows)
        told = f"{self.micro_rows:,} rows at a time now, {pieces:,} pieces a step"
        self.say(f"{reason}: {told}, same gradient but for dropout")

    def _sum(self, batch: dict[str, Tensor], state: State) -> tuple[Tensor, State]:
        self.clear()
        total = torch.zeros((), device=self.device)
        after: list[State] = []
        given = len(next(iter(batch.values())))
        for start in range(0, given, self.micro_rows):
            rows = slice(start, min(start + self.micro_rows, given))
            part = {name: values[rows] for name, values in batch.items()}
            before = None if state is None else tuple(values[rows] for values in state)
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self._half):
                loss, left = self._forward(part, before)
            loss = loss * ((rows.stop - rows.start) / self.whole)
            loss.backward()
            total += loss.detach()
            after.append(None if left is None else tuple(values.detach() for values in left))
        for weight in self.trained.values():  # one that had no part in this step has the gradient 0
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        return total, _joined(after)


def _joined(states: list[State]) -> State:
    known = [state for state in states if state is not None]
    return tuple(torch.cat(parts) for parts in zip(*known, strict=True)) if known else None


def to_device(batch: dict[str, np.ndarray], device: torch.device) -> dict[str, Tensor]:
    """Return the arrays of a batch as tensors; the copy to a GPU is not waited for."""
    tensors = {name: torch.from_numpy(np.array(values)) for name, values in batch.items()}
    if device.type != "cuda":
        return {name: values.to(device) for name, values in tensors.items()}
    return {name: values.pin_memory().to(device, non_blocking=True) for name, values in tensors.items()}


def random_state(device: torch.device) -> Random:
    """Return where the random numbers of the CPU stand, and of this GPU: uint8 tensors."""
    gpu = (torch.cuda.get_rng_state(device),) if device.type == "cuda" else ()
    return (torch.get_rng_state(), *gpu)


def set_random_state(state: Random, device: torch.device) -> None:
    """Put the random numbers where they stood."""
    torch.set_rng_state(state[0])
    if device.type == "cuda" and len(state) > 1:
        torch.cuda.set_rng_state(state[1], device)


def seed(number: int, device: torch.device) -> None:
    """Let the random numbers of the CPU, and of this GPU, begin at a number."""
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        with torch.cuda.device(device):
            torch.cuda.manual_seed(number)


def own_random(device: torch.device) -> contextlib.AbstractContextManager[None]:
    """Return a context after which the random numbers stand where they stood before."""
    gpus = (
        [torch.cuda.current_device() if device.index is None else device.index]
        if device.type == "cuda"
        else []
    )
    return torch.random.fork_rng(devices=gpus)
