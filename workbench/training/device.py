"""What a network is trained on, and whether it fits: told in one line before it begins."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from workbench.items.schema import DataError
from workbench.training.gradients import Gradients, State, own_random
from workbench.training.optimiser import AdamW
from workbench.training.settings import Settings

_COPIES = 4  # of each parameter: itself, its gradient, and AdamW's two means
_SAMPLE = 4_000_000  # parameters on which AdamW's step is timed
_FEW = 8  # the part of the rows that tells how much memory all need
_GROUP = Path("/sys/fs/cgroup")
_ANY = 1 << 40  # bytes, where nobody says how many there are


def pick(device: str | None = None) -> torch.device:
    """Return a device by its name; without one a GPU where there is one, else the CPU.

    Parameters
    ----------
    device : str, optional
        ``cpu``, ``cuda``, ``cuda:1``, ...

    Raises
    ------
    DataError
        If there is no such device.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise DataError(f"{device!r} is no device", remedy="pass cpu, cuda, or cuda:1") from error
    if found.type not in {"cpu", "cuda"}:
        raise DataError(f"nothing is trained on {device!r}", remedy="pass cpu, cuda, or cuda:1")
    if found.type == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (found.index or 0) >= there:
            known = f"cuda:0 to cuda:{there - 1}" if there > 1 else "cuda" if there else "no GPU"
            several = "start fewer processes, or " if "LOCAL_RANK" in os.environ else ""
            remedy = f"{several}pass device='cpu' or leave it out"
            raise DataError(f"there is no {device} here, {known}", remedy=remedy)
        if found.index is None:
            found = torch.device("cuda", torch.cuda.current_device())
    return found


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What a training asks of a device.

    Attributes
    ----------
    name : str
        Of what is trained.
    parameters : int
    needed, free : int
        Bytes of memory, without what other programs use.
    device : str
    seconds : float
        Of a step, as two steps on trial took.
    steps : int
        Steps that are left.
    tokens : int
        Words a step.
    """

    name: str
    parameters: int
    needed: int
    free: int
    device: str
    seconds: float
    steps: int
    tokens: int

    @property
    def minutes(self) -> float:
        """Minutes that the steps will take, evaluations not counted."""
        return self.steps * self.seconds / 60

    def __str__(self) -> str:
        """Return it in one line."""
        size, minutes = self.parameters, self.minutes
        many = f"{size / 1e6:,.1f} M" if size >= 100_000 else f"{size:,}"  # noqa: PLR2004 - 0.1 M
        takes = f"about {minutes:,.0f} min" if minutes >= 1 else "less than a minute"
        return (
            f"{self.name or 'network'}: {many} parameters; about {max(self.needed / 1e9, 0.1):,.1f} of "
            f"{self.free / 1e9:,.1f} GB memory on {self.device}; "
            f"{self.steps:,} steps of {self.tokens:,} words, {takes}"
        )


def trial(
    gradients: Gradients,
    batch: dict[str, Tensor],
    *,
    name: str,
    steps: int,
    tokens: int,
    carried: bool,
    later: int = 0,
) -> Fit:
    """Compute the gradients of a batch twice, and nothing else; tell what a training will need.

    Where the memory does not suffice fewer rows are taken at a time, then and later. The weights, the
    random numbers and the gradients are as before afterwards.

    Parameters
    ----------
    gradients : Gradients
    batch : dict of Tensor
        This process's rows of any step.
    name : str
        Of what is trained.
    steps : int
        Steps that are left.
    tokens : int
        Words a step, of all processes together.
    carried : bool
        Whether the second batch is given the state after the first.
    later : int, default 0
        Bytes of a GPU that are to be taken yet, such as AdamW's means where it is not made.

    Raises
    ------
    DataError
        If not even one row fits.
    """
    device, size = gradients.device, sum(weight.numel() for weight in gradients.trained.values())
    with own_random(device):
        needed, free = _fitted(gradients, batch, later)
        part = {key: values[: gradients.micro_rows] for key, values in batch.items()}
        state: State = None
        for _ in range(3 if device.type == "cuda" else 2):  # where it is compiled, also with a state, first
            after, seconds = _timed(gradients, part, state)
            state = after if carried else None
        seconds = seconds * gradients.rows / len(next(iter(part.values()))) + _optimiser_seconds(size, device)
        gradients.clear()
    threads = torch.get_num_threads()
    where = f"cpu ({threads} thread{'s' if threads > 1 else ''})" if device.type == "cpu" else str(device)
    return Fit(
        name=name, parameters=size, needed=needed, free=free, device=where, seconds=seconds, steps=steps,
        tokens=tokens,
    )  # fmt: skip


def _fitted(gradients: Gradients, batch: dict[str, Tensor], later: int) -> tuple[int, int]:
    """Take as many rows at a time as the memory holds; return the bytes needed and free."""
    device, itself = gradients.device, sum(weight.nbytes for weight in gradients.trained.values())
    free = memory(device)
    while True:
        rows = gradients.micro_rows
        if device.type == "cuda":  # it says how much it was, and when it was too much
            torch.cuda.reset_peak_memory_stats(device)
            gradients({key: values[:rows] for key, values in batch.items()}, None)
            needed = torch.cuda.max_memory_allocated(device) + later
        else:  # it does neither, so a few rows tell of all
            few = max(1, rows // _FEW)
            with _kept([*gradients.network.state_dict().values(), *batch.values()]) as kept:
                gradients({key: values[:few] for key, values in batch.items()}, None)
            needed = _COPIES * itself + sum(kept.values()) * rows // few
        if needed <= free or gradients.micro_rows == 1:
            return needed, free
        if gradients.micro_rows == rows:
            gradients.halve(f"{needed / 1e9:,.1f} GB would be needed, {free / 1e9:,.1f} are free")


@contextlib.contextmanager
def room(device: torch.device) -> Iterator[None]:
    """Say in one line that a device has no memory left, where nothing smaller can be tried."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise DataError(
            f"{device} is out of memory beside the gradients",
            remedy="make the network smaller, or free what else is on the device",
        ) from error


def memory(device: torch.device) -> int:
    """Return the bytes that this process can have on a device, with what it holds of a GPU already."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    found = _ANY
    with contextlib.suppress(AttributeError):  # Windows has no such call
        found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, StopIteration, ValueError):  # no Linux
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        found = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    with contextlib.suppress(OSError, StopIteration, ValueError):  # no control group, or one without a limit
        limit = int((_GROUP / "memory.max").read_text(encoding="ascii"))
        lines = (_GROUP / "memory.stat").read_text(encoding="ascii").splitlines()
        found = min(found, limit - next(int(line.split()[1]) for line in lines if line.startswith("anon ")))
    return max(found, 0)


def wait(device: torch.device) -> None:
    """Wait until a GPU has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _timed(gradients: Gradients, batch: dict[str, Tensor], state: State) -> tuple[State, float]:
    """Compute a batch's gradients; return the state after it and the seconds."""
    wait(gradients.device)
    start = time.perf_counter()
    _, after = gradients(batch, state)
    wait(gradients.device)
    return after, time.perf_counter() - start


@contextlib.contextmanager
def _kept(known: Iterable[Tensor]) -> Iterator[dict[int, int]]:
    """Give the bytes of what is kept for a backward pass beside what is there anyway, by place."""
    told: dict[int, int] = {}
    own = {values.untyped_storage().data_ptr() for values in known}

    def keep(values: Tensor) -> Tensor:
        storage = values.untyped_storage()
        if storage.data_ptr() not in own:
            told[storage.data_ptr()] = storage.nbytes()
        return values.detach()

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda values: values):
        yield told


def _optimiser_seconds(size: int, device: torch.device) -> float:
    """Return how long AdamW takes for a step of so many parameters, measured on fewer."""
    weight = torch.zeros(min(size, _SAMPLE), device=device)
    weight.grad = torch.zeros_like(weight)
    optimiser, bad = AdamW({"": weight}, Settings(steps=1)), torch.zeros((), device=device)
    optimiser.step(0.0, bad)
    wait(device)
    start = time.perf_counter()
    optimiser.step(0.0, bad)
    wait(device)
    return (time.perf_counter() - start) * size / weight.numel()
