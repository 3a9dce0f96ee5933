"""Timing repeated runs of one piece of work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def timed(repeats: int, work: Callable[[], T]) -> tuple[list[float], T]:
    """Return the seconds that each of some runs took, and what the last one gave."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        value = work()
        taken.append(time.perf_counter() - start)
    return taken, value
