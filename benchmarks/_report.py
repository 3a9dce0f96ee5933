"""What a benchmark tells of its work: rows of the table with which ``make bench`` ends."""

from __future__ import annotations

import json
import os
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path

VARIABLE = "WORKBENCH_BENCH_ROWS"  # names the file that rows are added to


@dataclass(frozen=True)
class Row:
    """One measured number, beside a peer's or a goal.

    Attributes
    ----------
    peer, theirs : str, float or None
        The peer's name, and its number in the same unit.
    ratio : float or None
        How many times as good as the peer's ours is; from the two numbers where it is not told.
    goal, times : float or None
        The goal of our number, in its unit, and of the ratio.
    higher : bool
        Whether the higher number is the better one.
    """

    work: str
    ours: float
    unit: str
    _: KW_ONLY
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    goal: float | None = None
    times: float | None = None
    higher: bool = False

    @property
    def times_peer(self) -> float | None:
        """How many times as good as the peer's our number is."""
        if self.ratio is not None or self.theirs is None:
            return self.ratio
        return self.ours / self.theirs if self.higher else self.theirs / self.ours

    @property
    def met(self) -> bool | None:
        """Whether all goals are met; None if there is none."""
        verdicts = []
        if self.goal is not None:
            verdicts.append(self.ours >= self.goal if self.higher else self.ours <= self.goal)
        if self.times is not None:
            verdicts.append(self.times_peer is not None and self.times_peer >= self.times)
        return all(verdicts) if verdicts else None


def tell(row: Row) -> None:
    """Add a row to the file that the environment variable names; without it, do nothing."""
    if file := os.environ.get(VARIABLE):
        with Path(file).open("a", encoding="utf-8") as out:
            out.write(json.dumps(asdict(row), default=float) + "\n")
