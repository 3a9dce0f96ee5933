"""Run the benchmarks one after another, each once the machine is quiet; end with one table of what they told.

    python benchmarks/_table.py [NAME ...] [--markdown] [--wait 120]

A name stands for all scripts that begin with it. The load average is read before each script, so what it
does itself does not count, and after it. What was measured on a busy machine is marked as not to be quoted.
A script that fails does not stop the others.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from _report import VARIABLE, Row

from workbench.render.numbers import quantity
from workbench.render.tables import Cell, Grid, Heading, grid_markdown, grid_text

FOLDER = Path(__file__).parent
QUIET = 1.0  # load average below which figures may be quoted
PAUSE = 10  # seconds between two looks at the load
HEADINGS = [
    Heading(name, numeric=name in {"ours", "ratio", "load before", "after"})
    for name in ("benchmark", "work", "ours", "peer", "ratio", "goal", "verdict", "load before", "after")
]
EMPTY = [Cell("")] * 5  # from the work to the goal
VERDICTS = {None: "", True: "met", False: "MISSED"}

Load = Callable[[], float]


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


@dataclass(frozen=True)
class Outcome:
    """What a script told, how it failed if it did, and the load average before and after it."""

    script: str
    rows: Sequence[Row]
    problem: str
    before: float
    after: float

    def cells(self) -> list[list[Cell]]:
        """Return the rows of the table."""
        mark = "" if self.before < QUIET else "(not to be quoted)"
        lines = [[*numbers(row), Cell(VERDICTS[row.met], mark)] for row in self.rows]
        if self.problem:
            lines.append([*EMPTY, Cell(f"FAILED: {self.problem}")])
        lines = lines or [[*EMPTY, Cell("no peer, no goal")]]
        loads = [Cell(f"{value:.2f}") for value in (self.before, self.after)]
        return [[Cell(self.script), *line, *loads] for line in lines]


def numbers(row: Row) -> list[Cell]:
    """Return what stands between the name of the script and the verdict."""
    ratio, sign = row.times_peer, "at least" if row.higher else "at most"
    goals = [] if row.goal is None else [f"{sign} {quantity(row.goal)} {row.unit}"]
    goals += [] if row.times is None else [f"{quantity(row.times)} times"]
    return [
        Cell(row.work),
        Cell(f"{quantity(row.ours)} {row.unit}"),
        Cell("" if row.theirs is None else f"{row.peer}: {quantity(row.theirs)} {row.unit}"),
        Cell("" if ratio is None else quantity(ratio, digits=3)),
        Cell(", ".join(goals)),
    ]


def quiet(load: Load, wait: float) -> float:
    """Wait until the load average is low, for so many seconds at most; return it."""
    until = time.monotonic() + wait
    while (value := load()) >= QUIET and (left := until - time.monotonic()) > 0:
        print(f"load average {value:.2f}; waiting until it is below 1, {left:.0f} s at most", flush=True)
        time.sleep(min(PAUSE, left))
    return value


def run(script: Path, load: Load, wait: float) -> Outcome:
    """Run a script and read what it told."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.jsonl"
        print(f"== {script.name}", flush=True)
        before = quiet(load, wait)
        command = [sys.executable, str(script)]
        code = subprocess.run(command, check=False, env=os.environ | {VARIABLE: str(file)}).returncode  # noqa: S603 - ours
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    problem = (
        "" if not code else f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
    )
    return Outcome(script.stem, [Row(**json.loads(line)) for line in lines], problem, before, load())


def table(outcomes: Sequence[Outcome]) -> Grid:
    """Return the table."""
    notes = [
        "ratio: how many times as good as the peer; a goal in times is one of the ratio",
        f"not to be quoted: the load average was {QUIET:g} or more before the script began",
    ]
    return Grid("", HEADINGS, {"": [line for each in outcomes for line in each.cells()]}, notes)


def main(arguments: Sequence[str] | None = None, folder: Path = FOLDER, load: Load = load_average) -> int:
    """Run the scripts and print the table; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="beginnings of names; all scripts by default")
    parser.add_argument("--markdown", action="store_true", help="the table in Markdown")
    parser.add_argument(
        "--wait", type=float, default=120, help="longest time for the load to fall, in seconds"
    )
    options = parser.parse_args(arguments)
    scripts = [file for file in sorted(folder.glob("*.py")) if not file.name.startswith("_")]
    for name in options.names:
        if not any(file.name.startswith(name) for file in scripts):
            parser.error(
                f"no benchmark begins with {name!r}; there are {', '.join(file.stem for file in scripts)}"
            )
    chosen = [file for file in scripts if file.name.startswith(tuple(options.names) or "")]
    outcomes: list[Outcome] = []
    stopped = False
    try:
        for script in chosen:
            outcomes += [run(script, load, options.wait)]
    except KeyboardInterrupt:
        stopped = True
        print("stopped; what was measured until then:")
    print("\n" + (grid_markdown if options.markdown else grid_text)(table(outcomes)), flush=True)
    return int(stopped or any(each.problem for each in outcomes))


if __name__ == "__main__":
    sys.exit(main())
