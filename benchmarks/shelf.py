"""How fast novels are read and checked; near-duplicates by MinHash beside a comparison of all pairs.

    python benchmarks/shelf.py [--texts PATH] [--pairs 60] [--json out.json]

The novels are those in a path (file, folder, archive), else the sample's.

1. `construction.read_shelf` with one and with two processes, each in a home of its own, so that nothing is
   there from earlier runs: words a second by the clock, and processor time.
2. Near-duplicates among some of the novels and one planted copy of each tenth, of which one word in twenty is
   another: ours (sketches, candidates, exact comparison of those) and the plain loop (exact comparison of
   the n-gram sets of all pairs). Pairs with a containment of a half or more must be the same. Processor time
   of one process, in one run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import sys
import tempfile
import time
from importlib.metadata import version
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from _report import Row, tell
from _timing import end_processes

import workbench as wb
from workbench import construction
from workbench.construction import novel_checks as dup

LEAST = 0.5  # containment of a pair
CHANGED = 20  # one word in so many of a planted copy


def processor_time() -> float:
    """Return the processor time of this process and of those that it started and that have ended."""
    end_processes()
    parts = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(part.ru_utime + part.ru_stime for part in parts)


def shelf(texts: Path | str, workers: int, home: Path) -> dict[str, Any]:
    """Read and check the novels."""
    os.environ["WORKBENCH_HOME"] = str(home)
    start, used = time.perf_counter(), processor_time()
    with joblib.parallel_config(n_jobs=workers):
        made = construction.read_shelf(texts)
    taken = time.perf_counter() - start
    words = int(made.frame["words"].sum())
    return {
        "novels": len(made.frame),
        "words": words,
        "seconds": taken,
        "words a second": words / taken,
        "processor seconds": processor_time() - used,
        "digest": made.manifest.digest,
    }


def with_copies(texts: dict[str, str]) -> dict[str, str]:
    """Add a copy of each tenth novel with other words here and there."""
    rng = random.Random(0)  # noqa: S311 - no secret
    copies = {}
    for name in islice(texts, 0, None, 10):
        words = texts[name].split()
        copies[f"{name} copied"] = " ".join(
            rng.choice(words) if rng.random() < 1 / CHANGED else word for word in words
        )
    return texts | copies


def by_sketches(texts: dict[str, str]) -> tuple[list[dup.Pair], int]:
    """Return the pairs that share much, and how many were compared."""
    sketches = {name: dup.minhash_segments(dup.text_codes(text)) for name, text in texts.items()}
    pairs = dup.compare_pairs(texts.__getitem__, dup.candidates(sketches))
    return [pair for pair in pairs if pair.containment >= LEAST], len(pairs)


def by_all_pairs(texts: dict[str, str]) -> list[tuple[str, str]]:
    """Return the pairs that share much, by comparing all."""
    sets = {name: dup.shingles(text) for name, text in texts.items()}
    pairs = []
    for one, other in combinations(sorted(sets), 2):
        shared = len(np.intersect1d(sets[one], sets[other], assume_unique=True))
        if shared >= LEAST * max(1, min(len(sets[one]), len(sets[other]))):
            pairs.append((one, other))
    return pairs


def near_duplicates(texts: Path | str, n: int) -> dict[str, Any]:
    """Find near-duplicates both ways."""
    novels = with_copies({book.book_id: book.text for book in islice(wb.books(texts), n)})
    for text in novels.values():  # the words of all tokens are known to both
        dup.text_codes(text)
    start = time.process_time()
    pairs, compared = by_sketches(novels)
    middle = time.process_time()
    plain = by_all_pairs(novels)
    end = time.process_time()
    assert [(pair.one, pair.other) for pair in pairs] == plain, "the pairs differ from the plain loop's"
    return {
        "novels": len(novels),
        "pairs": len(pairs),
        "compared": compared,
        "all pairs": len(novels) * (len(novels) - 1) // 2,
        "ours": middle - start,
        "plain": end - middle,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, default="sample", help="novels")
    parser.add_argument("--pairs", type=int, default=60, help="novels for the second part")
    parser.add_argument("--json", type=Path, help="file for what was measured")
    options = parser.parse_args()
    packages = ", ".join(f"{p} {version(p)}" for p in ("datasketch", "lingua-language-detector", "numpy"))
    print(f"Python {sys.version.split()[0]}, {packages}; {os.cpu_count()} processors")
    print(f"load average at the start: {', '.join(f'{x:.2f}' for x in os.getloadavg())}", flush=True)
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for workers in (1, 2):
            one = results[f"{workers} workers"] = shelf(options.texts, workers, Path(folder, str(workers)))
            print(
                f"{workers} workers: {one['novels']:,} novels, {one['words']:,} words in"
                f" {one['seconds']:.1f} s, {one['words a second']:,.0f} words a second;"
                f" {one['words'] / one['processor seconds']:,.0f} a second of processor time",
                flush=True,
            )
        first, second = (results[f"{workers} workers"] for workers in (1, 2))
        assert first["digest"] == second["digest"], "the outcome depends on the number of processes"
        print(f"ratio by the clock {first['seconds'] / second['seconds']:.2f}; the outcomes are the same")
    found = results["near-duplicates"] = near_duplicates(options.texts, options.pairs)
    print(
        f"near-duplicates among {found['novels']} novels: {found['pairs']} pairs, the same by both;"
        f" ours {found['ours']:.1f} s ({found['compared']} of {found['all pairs']:,} pairs compared),"
        f" all pairs {found['plain']:.1f} s of processor time: ratio {found['plain'] / found['ours']:.1f}"
    )
    tell(
        Row(
            f"near-duplicates of {found['novels']} novels",
            found["ours"],
            "s of processor time",
            peer="all pairs",
            theirs=found["plain"],
        )
    )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
