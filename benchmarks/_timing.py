"""Timing repeated runs of one piece of work, its memory, and the options of what is timed."""

from __future__ import annotations

import argparse
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


def model_options(doc: str | None, *, n: int, repeats: int, **others: str) -> argparse.Namespace:
    """Return the options of a script that times a network, saved or with random weights, on `n` items."""
    import torch  # noqa: PLC0415 - slow

    parser = argparse.ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--model")
    parser.add_argument("--n", type=int, default=n)
    parser.add_argument("--vocabulary", type=int, default=60_000)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--repeats", type=int, default=repeats)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--json")
    for name, default in others.items():
        parser.add_argument(f"--{name}", default=default)
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    return options
