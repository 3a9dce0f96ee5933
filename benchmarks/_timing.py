"""Timing repeated runs of one piece of work, its memory, and the novels that it reads."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import workbench as wb

T = TypeVar("T")


def timed(repeats: int, work: Callable[[], T]) -> tuple[list[float], T]:
    """Return the seconds that each of some runs took, and what the last one gave."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        value = work()
        taken.append(time.perf_counter() - start)
    return taken, value


def novels(texts: Path | None = None) -> Path | list[wb.Book]:
    """Return the path to novels; without one those that $WORKBENCH_DATA has, else the sample's."""
    found = texts or wb.experiment_data("lambada").texts
    return found if isinstance(found, Path) else list(found)


def end_processes() -> None:
    """End the processes of joblib: processor time and memory are counted once they have ended."""
    from joblib.externals.loky import get_reusable_executor  # noqa: PLC0415 - slow to import

    get_reusable_executor().shutdown(wait=True)


def memory() -> float:
    """Return the most memory that this program has had, in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")  # rusage counts what was before exec, too
    return int(status.split("VmHWM:")[1].split()[0]) * 1.024e-3
