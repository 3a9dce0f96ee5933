"""How long novels take to become all candidate passages of LAMBADA's rule, beside a plain loop over tokens.

    python benchmarks/passages.py [--texts PATH] [--tokens 20000000] [--workers 1 2]

The novels are those of a path, else those that $WORKBENCH_DATA has, else the sample's. Their tokens, cased,
are written as an archive of tokenised novels of the size of those in LAMBADA's release, over and over, each
time from another sentence on, until there are as many words as asked for. Full scale: ``--tokens
203000000``.

1. Ours: `CandidatePassages.of` the archive, with each number of processes. It reads, cuts, writes the tokens
   and a record a candidate, and checksums; the digests must be equal.
2. The plain loop, one process: each novel's ``str.split``, sentences and rule token by token; the places of
   candidates are written as an array. It stores no text and no checksums, and cannot resume. It must find as
   many.
3. A sample: items of 5,000 candidates that are drawn.

Each part runs in a process of its own, with a cache of its own. Seconds of the processor are summed over all
processes; on a busy machine they are the better measure. Peak memory is that of the largest process.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import joblib
from _report import Row, tell
from _timing import end_processes, novels

from workbench.construction.candidates import CandidatePassages, Rule
from workbench.storage.cache import folder_size

RELEASE = {"tokens": 203_000_000, "novels": 2662}
GOAL = {"minutes": 5.0, "MB": 4000.0}
_CLOSING = frozenset(["''", '"', "'", "”", "’", ")", "]", "}", "-rrb-", "-rsb-", "-rcb-", "."])  # noqa: RUF001 - quotes


def write(options: argparse.Namespace) -> dict[str, Any]:
    """Write the archive of tokenised novels."""
    source = CandidatePassages.of(novels(options.texts))
    sentences = [line for text in source.texts() for line in text.splitlines()]
    lengths = [line.count(" ") + 1 for line in sentences]
    size, n_tokens, n_novels, place = RELEASE["tokens"] // RELEASE["novels"], 0, 0, 0
    with tarfile.open(options.folder / "novels.tar", "w") as archive:
        while n_tokens < options.tokens:
            lines, n = [], 0
            while n < size:
                lines.append(sentences[place % len(sentences)])
                n += lengths[place % len(sentences)]
                place += 1
            data = " ".join(lines).encode()
            member = tarfile.TarInfo(f"train-novels/genre/novel-{n_novels:05}.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            n_tokens, n_novels = n_tokens + n, n_novels + 1
    size = (options.folder / "novels.tar").stat().st_size
    return {"tokens": n_tokens, "novels": n_novels, "MB": size / 1e6}


def ours(options: argparse.Namespace) -> dict[str, Any]:
    """Find the candidates, and draw some."""
    start = time.perf_counter()
    with joblib.parallel_config(n_jobs=options.workers[0]):
        candidates = CandidatePassages.of(options.folder / "novels.tar")
    found = time.perf_counter() - start
    start = time.perf_counter()
    items = candidates.sample(5000)
    drawn = time.perf_counter() - start
    results = {"seconds": found, "candidates": len(candidates), "sha256": candidates.sha256}
    results |= {"sampling": drawn, "items": len(items), "disk MB": folder_size(candidates.folder) / 1e6}
    results |= {"statistics": candidates.statistics, "dropped": candidates.dropped}
    shutil.rmtree(options.folder / "home")
    return results


def sentences_of(tokens: list[str]) -> Iterator[tuple[int, int]]:
    """Yield first and last token of each sentence, by a plain loop."""
    first, ended = 0, False
    for place, token in enumerate(tokens):
        is_end = set(token) <= {"?", "!"} or (token[0] == "." and len(token) == 1)
        if ended and not is_end and token.lower() not in _CLOSING:
            yield first, place
            first, ended = place, False
        ended = ended or is_end
    yield first, len(tokens)


def plain(options: argparse.Namespace) -> dict[str, Any]:
    """Find the candidates by a plain loop."""
    rule = Rule()
    start = time.perf_counter()
    places = array("q")
    with tarfile.open(options.folder / "novels.tar") as archive:
        for member in archive:
            file = archive.extractfile(member)
            assert file is not None
            tokens = file.read().decode().split()
            spans = list(sentences_of(tokens))
            for number, (begin, end) in enumerate(spans):
                last = end - 1
                while last >= begin and not any(map(str.isalnum, tokens[last])):
                    last -= 1
                if end - begin < rule.shortest or last < begin or not tokens[last].isalpha():
                    continue
                first = number
                while first and begin - spans[first][0] <= rule.minimum:
                    first -= 1
                context = begin - spans[first][0]
                if context > rule.minimum and context + last + 1 - begin <= rule.longest:
                    places.extend((spans[first][0], last))
    with (options.folder / "plain.i64").open("wb") as out:
        places.tofile(out)
    return {"seconds": time.perf_counter() - start, "candidates": len(places) // 2}


PARTS = {"write": write, "ours": ours, "plain": plain}


def part(name: str, options: argparse.Namespace, workers: int = 1) -> dict[str, Any]:
    """Run one part in a process of its own, in a home of its own; return what it measured."""
    command = [sys.executable, __file__, "--part", name, "--folder", str(options.folder)]
    command += ["--tokens", str(options.tokens), "--workers", str(workers)]
    command += ["--texts", str(options.texts)] if options.texts else []
    home = {"WORKBENCH_HOME": str(options.folder / "home"), "WORKBENCH_CACHE_GB": "1000"}
    if subprocess.run(command, check=False, env=os.environ | home).returncode:  # noqa: S603 - this file
        raise SystemExit(f"the part {name!r} failed")
    results: dict[str, Any] = json.loads((options.folder / f"{name}.json").read_text(encoding="utf-8"))
    return results


def report(results: dict[str, Any]) -> None:
    """Print what was measured."""
    written, loop = results["write"], results["plain"]
    digests = {one["sha256"] for one in results["ours"].values()}
    counts = {one["candidates"] for one in results["ours"].values()} | {loop["candidates"]}
    assert len(digests) == 1, "the files depend on the number of processes"
    assert len(counts) == 1, f"the loop finds other candidates: {counts}"
    print(f"{written['tokens']:,} tokens, {written['novels']:,} novels, {written['MB']:,.0f} MB")
    print(f"plain loop: {loop['seconds']:.1f} s, {loop['processor s']:.1f} of the processor; ", end="")
    print(f"{loop['candidates']:,} candidates; peak {loop['peak MB']:,.0f} MB")
    share = written["tokens"] / RELEASE["tokens"]  # of the goal, which is that of all tokens
    peer, goal = "a plain loop", 60 * GOAL["minutes"] * share
    for workers, one in results["ours"].items():
        print(
            f"{workers} processes: {one['seconds']:.1f} s, {one['processor s']:.1f} of the processor; ",
            end="",
        )
        print(f"peak {one['peak MB']:,.0f} MB; {one['disk MB']:,.0f} MB on disk; ", end="")
        print(f"{one['items']:,} items made in {one['sampling']:.1f} s")
        work = f"{written['tokens']:,} tokens, workers: {workers}"
        tell(Row(work, one["seconds"], "s", peer=peer, theirs=loop["seconds"], goal=goal))
        work = f"peak memory, workers: {workers}"
        tell(Row(work, one["peak MB"], "MB", peer=peer, theirs=loop["peak MB"], goal=GOAL["MB"]))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, help="novels")
    parser.add_argument("--tokens", type=int, default=20_000_000, help="words in the shape of the release")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of processes")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        result = PARTS[options.part](options)
        end_processes()
        usage = [resource.getrusage(kind) for kind in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        result["processor s"] = sum(each.ru_utime + each.ru_stime for each in usage)
        result["peak MB"] = max(each.ru_maxrss for each in usage) * 1.024e-3
        (options.folder / f"{options.part}.json").write_text(json.dumps(result), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        results: dict[str, Any] = {"write": part("write", options), "plain": part("plain", options)}
        results["ours"] = {workers: part("ours", options, workers) for workers in options.workers}
    report(results)


if __name__ == "__main__":
    main()
