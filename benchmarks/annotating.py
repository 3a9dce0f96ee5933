"""How long annotating takes, beside a plain loop that has the same pipeline tag one passage at a time.

    python benchmarks/annotating.py [--n 15000] [--pipeline en_narrative] [--workers 2] [--json out.json]

The plain loop makes a document of the same words for each passage and calls ``nlp(document)``, in one
process: every component of the pipeline runs, as spaCy loads it. That alone is what the ratio is
to; computing the same features from its tags is timed apart. What is measured of ours is all of
``annotate``: starting the workers, tagging, features, writing the cache, the table. Each runs in
a process of its own.

The passages are LAMBADA's development and control sets where $WORKBENCH_DATA has them, else the
sample; repeated, with another first letter, until there are enough.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import psutil  # type: ignore[import-untyped]
from _report import Row, tell
from _timing import end_processes

import workbench as wb
from workbench.analysis import tagging
from workbench.analysis.annotations import annotate, target_features
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
    """Tag one passage after the other; then compute the features."""
    import spacy  # noqa: PLC0415 - it would count for the other parts

    nlp = spacy.load(tagging.find_pipeline(pipeline).name)
    tagging.load(pipeline)  # what is imported once is not counted
    records = list(items)
    cut = [tokens.tokens(item) for item in records]
    start, used = time.perf_counter(), processor()
    docs = []
    for item_tokens in cut:
        doc = nlp(spacy.tokens.Doc(nlp.vocab, words=tokens.readable_tokens(item_tokens.words)))
        tags = [token.pos_ or token.tag_ for token in doc]
        docs.append((tags, doc[item_tokens.head].lemma_ if item_tokens.has_target else None))
    tagged, cpu = time.perf_counter() - start, processor() - used
    start = time.perf_counter()
    rows = [
        target_features(item, item_tokens, tags, lemma)
        for item, item_tokens, (tags, lemma) in zip(records, cut, docs, strict=True)
    ]
    return {
        "tagging": tagged,
        "cpu": cpu,
        "features": time.perf_counter() - start,
        "tokens": sum(len(item_tokens.words) for item_tokens in cut),
        "tags": [row.get("target_pos") for row in rows],
        "classes": [row["target_class"] for row in rows],
    }


def ours(items: wb.Items, pipeline: str) -> dict[str, Any]:
    """Annotate twice in this process."""
    start, used = time.perf_counter(), processor()
    first = annotate(items, pipeline)
    middle, cpu = time.perf_counter(), processor() - used
    second = annotate(items, pipeline)
    end = time.perf_counter()
    assert first["mentions"].equals(second["mentions"])
    return {
        "first": middle - start,
        "cpu": cpu,
        "second": end - middle,
        "tags": first["target_pos"].tolist(),
        "classes": first["target_class"].tolist(),
    }


def processor() -> float:
    """Return the seconds of processor time that this process and those that it ended took."""
    end_processes()
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def again(items: wb.Items, pipeline: str) -> dict[str, Any]:
    """Annotate in a new process what is in the cache."""
    start = time.perf_counter()
    annotate(items, pipeline)
    return {"first": time.perf_counter() - start}


def part(name: str, options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run one part in a process of its own; return what it tells, and the peak MB of all its tree."""
    file = folder / f"{name}.json"
    command = [sys.executable, __file__, "--part", name, "--folder", str(folder)]
    command += ["--pipeline", options.pipeline, "--workers", str(options.workers)]
    with subprocess.Popen(command, env=os.environ | {"WORKBENCH_HOME": str(folder)}) as process:  # noqa: S603
        most = 0.0
        while process.poll() is None:
            most = max(most, tree(psutil.Process(process.pid)))
            time.sleep(0.1)
    if process.returncode:
        raise SystemExit(f"the part {name!r} failed")
    results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return results | {"peak MB": most}


def tree(process: psutil.Process) -> float:
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
    if options.part == "loop":
        results = loop(items, options.pipeline)
    elif options.part == "ours":
        with joblib.parallel_config(n_jobs=options.workers):
            results = ours(items, options.pipeline)
    else:
        results = again(items, options.pipeline)
    (options.folder / f"{options.part}.json").write_text(json.dumps(results), encoding="utf-8")


def alike(one: Sequence[Any], other: Sequence[Any]) -> float:
    """Return the share of equal values, in per cent."""
    return 100 * sum(bool(a == b) for a, b in zip(one, other, strict=True)) / len(one)


def report(results: dict[str, dict[str, Any]], options: argparse.Namespace) -> None:
    """Print the table, and which goals are met."""
    plain, first_run, fresh = results["loop"], results["ours"], results["again"]
    n = plain["tokens"]
    print(f"{options.n:,} passages, {n:,} tokens, {options.pipeline}; {options.workers} workers")
    print(f"load average {os.getloadavg()[0]:.2f}\n")
    print(f"{'':36}{'seconds':>9}{'tokens/s':>11}{'peak MB':>9}")
    rows = (
        ("plain loop: nlp(document)", plain["tagging"], plain["peak MB"]),
        ("plain loop: features, apart", plain["features"], None),
        ("annotate, nothing in the cache", first_run["first"], first_run["peak MB"]),
        ("annotate again", first_run["second"], None),
        ("annotate again in a new process", fresh["first"], fresh["peak MB"]),
    )
    for name, seconds, memory in rows:
        print(f"{name:36}{seconds:9.2f}{n / seconds:11,.0f}{'' if memory is None else f'{memory:9.0f}'}")
    same = {name: alike(plain[name], first_run[name]) for name in ("tags", "classes")}
    print(f"\nCPU: plain loop {plain['cpu']:.1f} s, annotate {first_run['cpu']:.1f} s in all processes")
    print(f"same target tag in {same['tags']:.2f} %, same class in {same['classes']:.2f} % of the passages")
    ratio = plain["tagging"] / first_run["first"]
    speedup = (plain["tagging"] + plain["features"]) / first_run["first"]
    print(f"with the loop's features counted too, the ratio is {speedup:.2f}")
    figures = {
        "ratio": ratio,
        "second call": max(first_run["second"], fresh["first"]),
        "peak MB": first_run["peak MB"],
    }
    for name, value in figures.items():
        met = value >= GOALS[name] if name == "ratio" else value <= GOALS[name]
        print(f"{name}: {value:.2f}, goal {GOALS[name]}: {'met' if met else 'MISSED'}")
    peer = "nlp(document)"
    tell(
        Row(
            f"{options.n:,} passages",
            first_run["first"],
            "s",
            peer=peer,
            theirs=plain["tagging"],
            times=GOALS["ratio"],
        )
    )
    tell(Row("again, from the cache", figures["second call"], "s", goal=GOALS["second call"]))
    tell(
        Row(
            "peak memory", figures["peak MB"], "MB", peer=peer, theirs=plain["peak MB"], goal=GOALS["peak MB"]
        )
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=15_000, help="number of passages")
    parser.add_argument("--pipeline", default="en_narrative")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path, help="file for what was measured")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        inside(options)
        return
    with tempfile.TemporaryDirectory() as folder:
        passages(options.n).to_parquet(Path(folder) / "items.parquet")
        results = {name: part(name, options, Path(folder)) for name in ("loop", "ours", "again")}
    report(results, options)
    if options.json:
        for each in results.values():
            each.pop("tags", None)
            each.pop("classes", None)
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
