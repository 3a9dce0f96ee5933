"""How long annotating takes, beside a plain loop that has the same pipeline tag one passage at a time.

    python benchmarks/annotating.py [--n 15000] [--pipeline en_narrative] [--workers 2]

The plain loop makes a document of the same words for each passage and calls ``nlp(document)``, in one
process: every component of the pipeline runs, as spaCy loads it. What is measured of ours is all of
``annotate``: starting the workers, tagging, features, writing the cache, the table. Each runs in a process
of its own.

The passages are LAMBADA's development and control sets where $WORKBENCH_DATA has them, else the
sample; repeated, with another first letter, until there are enough.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import joblib
import psutil  # type: ignore[import-untyped]
from _report import Row, tell

import workbench as wb
from workbench.analysis import tagging
from workbench.analysis.annotations import annotate
from workbench.items import tokens

GOALS = {"ratio": 3.0, "second call": 0.5, "peak MB": 1500.0}


def passages(n: int) -> wb.Items:
    """Give `n` items with ids and texts of their own."""
    try:
        base = wb.Items.concat([wb.load("lambada", "dev"), wb.load("lambada", "control")])
    except wb.DataError:
        base = wb.load("sample", "dev")
    parts = []
    for copy in range(-(-n // len(base))):
        frame = base.frame
        if copy:
            letter = "abcdefghijklmnopqrstuvwxyz"[copy % 26]
            frame["text"] = [letter + text[1:] for text in frame["text"]]
            frame["item_id"] = [f"{name}/{copy}" for name in frame["item_id"]]
        parts.append(wb.Items(frame))
    return wb.Items.concat(parts)[:n]


def loop(items: wb.Items, pipeline: str) -> dict[str, Any]:
    """Tag one passage after the other."""
    import spacy  # noqa: PLC0415 - it would count for the other parts

    nlp = spacy.load(tagging.find_pipeline(pipeline).name)
    passage_tokens = [tokens.tokens(item) for item in items]
    start, tags = time.perf_counter(), []
    for item_tokens in passage_tokens:
        doc = nlp(spacy.tokens.Doc(nlp.vocab, words=tokens.readable_tokens(item_tokens.words)))
        tags.append(doc[item_tokens.head].pos_ if item_tokens.has_target else None)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "tags": tags, "tokens": sum(len(each.words) for each in passage_tokens)}


def ours(items: wb.Items, pipeline: str) -> dict[str, Any]:
    """Annotate what is not in the cache, or what is."""
    start = time.perf_counter()
    table = annotate(items, pipeline)
    return {"seconds": time.perf_counter() - start, "tags": table["target_pos"].tolist()}


def part(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run one part in a process of its own; return what it tells, and the peak MB of all its tree."""
    command = [sys.executable, __file__, "--part", name, "--folder", str(folder)]
    command += ["--pipeline", options.pipeline, "--workers", str(options.workers)]
    with subprocess.Popen(command, env=os.environ | {"WORKBENCH_HOME": str(folder)}) as process:  # noqa: S603
        most = 0.0
        while process.poll() is None:
            most = max(most, memory_of_tree(psutil.Process(process.pid)))
            time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"the part {name!r} failed")
    results: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return results | {"peak MB": most}


def memory_of_tree(process: psutil.Process) -> float:
    """Return the resident memory of a process and all below it, in MB; shared pages count for each."""
    total = 0.0
    try:
        for each in [process, *process.children(recursive=True)]:
            total += float(each.memory_info().rss)
    except psutil.NoSuchProcess:
        pass
    return total / 1e6


def inside(options: argparse.Namespace) -> None:
    """Do one part and write down what was measured."""
    items = wb.Items.from_parquet(options.folder / "items.parquet")
    with joblib.parallel_config(n_jobs=options.workers):
        results = (loop if options.part == "loop" else ours)(items, options.pipeline)
    (options.folder / f"{options.part}.json").write_text(json.dumps(results), encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=15_000, help="number of passages")
    parser.add_argument("--pipeline", default="en_narrative")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        inside(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        passages(options.n).to_parquet(Path(folder) / "items.parquet")
        plain, first, again = (part(name, options, Path(folder)) for name in ("loop", "ours", "again"))
    print(
        f"{options.n:,} passages, {plain['tokens']:,} tokens, {options.pipeline}; {options.workers} workers"
    )
    rows = (("plain loop", plain), ("annotate, nothing in the cache", first), ("annotate again", again))
    for name, result in rows:
        speed = plain["tokens"] / result["seconds"]
        print(f"{name:32}{result['seconds']:9.2f} s {speed:11,.0f} tokens/s {result['peak MB']:7.0f} MB")
    same = sum(a == b for a, b in zip(plain["tags"], first["tags"], strict=True))
    print(f"same target tag in {100 * same / options.n:.2f} % of the passages")
    peer, seconds, work = "nlp(document)", plain["seconds"], f"{options.n:,} passages"
    tell(Row(work, first["seconds"], "s", peer=peer, theirs=seconds, times=GOALS["ratio"]))
    tell(Row("again, from the cache", again["seconds"], "s", goal=GOALS["second call"]))
    tell(
        Row("peak memory", first["peak MB"], "MB", peer=peer, theirs=plain["peak MB"], goal=GOALS["peak MB"])
    )


if __name__ == "__main__":
    main()
