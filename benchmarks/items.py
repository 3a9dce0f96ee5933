"""How long items take to build, to write and to read back, beside a plain frame of the same columns.

    python benchmarks/items.py [--n 100000] [--repeats 5] [--json out.json]

The goal is under two seconds for 100,000 items.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from _report import Row, tell
from _timing import timed

from workbench.items import text as wt
from workbench.items.items import COLUMNS, Item, Items

GOAL = 2.0  # seconds
PEERS = {
    "Items(frame)": "pd.DataFrame(columns)",
    "Items.from_records": "pd.DataFrame(columns)",
    "items.to_parquet": "frame.to_parquet",
    "Items.from_parquet": "pd.read_parquet",
}


def columns(n: int) -> dict[str, list[Any]]:
    """Make `n` passages of LAMBADA's shape: five sentences of fifteen words, the last word is the target."""
    rng = np.random.default_rng(0)
    words = np.array(["".join(letters) for letters in rng.choice(list("aeinorst"), (5000, 5))])
    made: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for number, row in enumerate(words[rng.integers(0, len(words), (n, 75))]):
        text = " . ".join(" ".join(row[start : start + 15]) for start in range(0, 75, 15))
        start = len(text) - len(row[-1])
        values = {
            "item_id": f"made/dev/{number:06d}", "dataset": "made", "split": "dev", "variant": "plain",
            "text": text, "answer": text[start:], "answer_span": (start, len(text)),
            "sentences": tuple(wt.sentences(text)), "tokenised": True, "meta": {},
        }  # fmt: skip
        for name in COLUMNS:
            made[name].append(values.get(name))
    return made


def measure(n: int, repeats: int, folder: Path) -> dict[str, list[float]]:
    """Return the seconds of every run of every step, and check that the steps give the same items."""
    made = columns(n)
    file, plain_file = folder / "items.parquet", folder / "plain.parquet"
    taken = {}
    taken["pd.DataFrame(columns)"], plain = timed(repeats, lambda: pd.DataFrame(made))
    taken["Items(frame)"], items = timed(repeats, lambda: Items(plain))
    taken["[Item(...), ...]"], records = timed(
        repeats, lambda: [Item(*row) for row in zip(*made.values(), strict=True)]
    )
    taken["Items.from_records"], built = timed(repeats, lambda: Items.from_records(records))
    taken["Items.from_frame(text)"], _ = timed(1, lambda: Items.from_frame(plain[["text"]]))
    taken["list(items)"], listed = timed(repeats, lambda: list(items))
    taken["items.to_parquet"], _ = timed(repeats, lambda: items.to_parquet(file))
    taken["Items.from_parquet"], again = timed(repeats, lambda: Items.from_parquet(file))
    bare = plain.drop(columns="meta")  # pandas cannot write a column of empty dicts
    taken["frame.to_parquet"], _ = timed(repeats, lambda: bare.to_parquet(plain_file))
    taken["pd.read_parquet"], _ = timed(repeats, lambda: pd.read_parquet(plain_file))
    assert listed == records
    pd.testing.assert_frame_equal(built.frame, items.frame)
    pd.testing.assert_frame_equal(again.frame, items.frame)
    return taken


def report(taken: dict[str, list[float]], n: int) -> None:
    """Print the table; each step beside what pandas takes for the same columns."""
    print(f"{n:,} items; load average {os.getloadavg()[0]:.2f}\n")
    print(f"{'step':24}{'median s':>10}{'max s':>8}{'items/s':>12}{'ours : pandas':>16}")
    for step, seconds in taken.items():
        middle = median(seconds)
        ratio = f"{middle / median(taken[PEERS[step]]):.1f}" if step in PEERS else ""
        print(f"{step:24}{middle:10.3f}{max(seconds):8.3f}{n / middle:12,.0f}{ratio:>16}")
    goal, building = GOAL * n / 100_000, ("Items(frame)", "Items.from_records")
    worst = max(median(taken[step]) for step in building)
    for step, peer in PEERS.items():
        tell(
            Row(
                f"{step}, {n:,} items",
                median(taken[step]),
                "s",
                peer=peer,
                theirs=median(taken[peer]),
                goal=goal if step in building else None,
            )
        )
    print("(from_frame also cuts the text into words and sentences, which no plain frame does)")
    print(f"\nbuilding: {worst:.2f} s, goal {goal:.1f} s: {'met' if worst < goal else 'MISSED'}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=100_000, help="number of items")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--json", type=Path, help="file for the seconds of every run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        taken = measure(options.n, options.repeats, Path(folder))
    report(taken, options.n)
    if options.json:
        options.json.write_text(json.dumps(taken, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
