"""How long novels take to become ids on disk, beside a plain loop over words; and how fast batches are read.

    python benchmarks/tokens.py [--texts PATH] [--tokens 20000000] [--vocabulary 60000]

The novels are those of a path, else those that $WORKBENCH_DATA has, else the sample's.

1. Ours: `Corpus` and `EncodedText` of the novels, from running text: cut into sentences and tokens,
   lower-cased, counted, numbered, with checksums; nothing is there from earlier runs.
2. A text of the shape of LAMBADA's training novels (203 million words, tokenised, lower-cased, 2,662
   novels) with as many words as asked for: the novels' tokens over and over, each time with other borders of
   the books, and every 400th word a new one, so that the number of types grows as with new novels.
   Ours again, from the archive to the ids; and the plain loop: `collections.Counter` over ``str.split``,
   then a dictionary's ids of each word, written as an array. It knows no sentences, no unknown words apart,
   and cannot go on where it stopped. The ids of both must be equal. Full scale: ``--tokens 203000000``.
3. Batches of that stream, in random order of steps, in words (of passages: of LAMBADA's shape) a second.

Each part runs in a process of its own. Peak memory is that of the main process.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _report import Row, tell
from _timing import memory
from _timing import novels as timed_novels

from workbench.storage.cache import digest
from workbench.texts.batches import Batches, ContiguousBatches, EncodedText, PassageBatches, ShuffledBatches
from workbench.texts.corpus import Corpus

RELEASE = {"tokens": 203_000_000, "novels": 2662}
NEW = 400  # every so many words one that occurs nowhere else
GOAL = {"MB": 2000.0, "passages a second": 20_000.0, "running text": 2e6, "tokenised": 3e6}
LARGE = 10_000_000  # tokens; below, starting two processes takes most of the time


def novels(options: argparse.Namespace) -> dict[str, Any]:
    """From running text to a stream."""
    start = time.perf_counter()
    corpus = Corpus.of(timed_novels(options.texts))
    cut = time.perf_counter()
    EncodedText(corpus, options.vocabulary)
    results = {"corpus": str(corpus.path), "cutting": cut - start, "numbering": time.perf_counter() - cut}
    return results | {
        "tokens": corpus.n_tokens,
        "types": len(corpus.words),
        "disk MB": corpus.path.stat().st_size / 1e6,
    }


def repeated(corpus: Corpus, n: int) -> Iterator[list[str]]:
    """Give the words of novels, as many as asked for together."""
    size, made = RELEASE["tokens"] // RELEASE["novels"], 0
    table, rng = np.array(corpus.words, dtype=object), np.random.default_rng(0)
    while made < n:
        first = int(rng.integers(corpus.n_sentences))
        start = int(corpus.starts[first])
        words = table[np.asarray(corpus.ids[start : start + min(size, n - made)])].tolist()
        for place in range(0, len(words), NEW):
            words[place] = f"new{made + place}"
        made += len(words)
        yield words


def write(options: argparse.Namespace) -> dict[str, Any]:
    """Write the archive of novels in the shape of the release."""
    books = 0
    with tarfile.open(options.folder / "novels.tar", "w") as archive:
        for books, words in enumerate(repeated(Corpus(Path(options.corpus)), options.tokens), 1):
            data = " ".join(words).encode()
            member = tarfile.TarInfo(f"train-novels/genre/novel-{books:05}.txt")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return {"books": books, "MB": (options.folder / "novels.tar").stat().st_size / 1e6}


def ours(options: argparse.Namespace) -> dict[str, Any]:
    """From the archive to a stream."""
    start = time.perf_counter()
    corpus = Corpus.of(options.folder / "novels.tar", tokenised=True)
    cut = time.perf_counter()
    stream = EncodedText(corpus, options.vocabulary)
    done = time.perf_counter()
    results: dict[str, Any] = {"cutting": cut - start, "numbering": done - cut, "peak MB": memory()}
    ids = stream.at(slice(None)) if stream.n_tokens < 50_000_000 else None  # noqa: PLR2004 - memory
    results |= {"tokens": stream.n_tokens, "types": len(corpus.words), "sentences": corpus.n_sentences}
    results |= {"disk MB": corpus.path.stat().st_size / 1e6, "stream": str(corpus.path)}
    return results | {"ids": None if ids is None else member(np.where(ids < stream.n_words, ids, 0))}


def plain(options: argparse.Namespace) -> dict[str, Any]:
    """From the archive to ids, by a plain loop."""

    def texts() -> Iterator[str]:
        with tarfile.open(options.folder / "novels.tar") as archive:
            for member in archive:
                file = archive.extractfile(member)
                assert file is not None
                yield file.read().decode().lower()

    start = time.perf_counter()
    counts: Counter[str] = Counter()
    for text in texts():
        counts.update(text.split())
    best = sorted(counts, key=lambda word: (-counts[word], word))[: options.vocabulary]
    index = {word: number for number, word in enumerate(best, 1)}
    with (options.folder / "plain.u16").open("wb") as file:
        for text in texts():
            np.array([index.get(word, 0) for word in text.split()], np.uint16).tofile(file)
    results: dict[str, Any] = {"seconds": time.perf_counter() - start, "peak MB": memory()}
    return results | {"ids": member(np.fromfile(options.folder / "plain.u16", "<u2"))}


def batches(options: argparse.Namespace) -> dict[str, Any]:
    """Read batches of each kind."""
    stream = EncodedText(Corpus(Path(options.stream)), options.vocabulary)
    results: dict[str, Any] = {}
    kinds: dict[str, Batches] = {
        "contiguous": ContiguousBatches(stream, rows=256, length=64),
        "windows": ShuffledBatches(stream, rows=64, length=256),
        "passages": PassageBatches(stream, rows=256, number=1_000_000),
    }
    for name, kind in kinds.items():
        steps = np.random.default_rng(0).integers(kind.steps, size=options.steps).tolist()
        kind.batch(0)
        start = time.perf_counter()
        for step in steps:
            kind.batch(step)
        results[name] = kind.tokens * len(steps) / (time.perf_counter() - start)
    return results | {"peak MB": memory()}


PARTS = {"novels": novels, "write": write, "ours": ours, "plain": plain, "batches": batches}


def member(ids: np.ndarray) -> str:
    """Return a digest of ids."""
    return digest(ids.astype("<u2").tobytes())


def part(name: str, options: argparse.Namespace, **more: str) -> dict[str, Any]:
    """Run one part in a process of its own, in a home of its own; return what it tells."""
    arguments = {name: getattr(options, name) for name in ("folder", "tokens", "vocabulary", "steps")} | more
    arguments |= {"texts": options.texts} if options.texts else {}
    command = [sys.executable, __file__, "--part", name]
    for option, value in arguments.items():
        command += [f"--{option}", str(value)]
    home = {"WORKBENCH_HOME": str(options.folder / "home")}
    if subprocess.run(command, check=False, env=os.environ | home).returncode:  # noqa: S603 - this file
        raise SystemExit(f"the part {name!r} failed")
    results: dict[str, Any] = json.loads((options.folder / f"{name}.json").read_text(encoding="utf-8"))
    return results


def report(results: dict[str, Any]) -> None:
    """Print what was measured."""
    running, package, plain_loop, read = (results[name] for name in ("novels", "ours", "plain", "batches"))
    if package["ids"] is not None:
        assert package["ids"] == plain_loop["ids"], "the ids differ from the loop's"
    peer, their_mb = "a plain loop", plain_loop["peak MB"]
    for kind, result, seconds in (
        ("running text", running, None),
        ("tokenised", package, plain_loop["seconds"]),
    ):
        n = result["tokens"]
        speed = n / (result["cutting"] + result["numbering"])
        print(f"{kind}: {n:,} tokens, {result['types']:,} types; {speed:,.0f} a second; ", end="")
        print(f"peak {result['peak MB']:,.0f} MB, {result['disk MB']:,.1f} MB on disk")
        theirs, goal = seconds and n / seconds, GOAL[kind] if n >= LARGE else None
        work = f"{n:,} tokens to ids, {kind}"
        tell(Row(work, speed, "tokens/s", peer=peer, theirs=theirs, goal=goal, higher=True))
    print(f"plain loop over the latter: {plain_loop['seconds']:.1f} s, peak {their_mb:,.0f} MB")
    print(f"words a second: contiguous {read['contiguous']:,.0f}, windows {read['windows']:,.0f}; ", end="")
    print(f"passages a second: {read['passages']:,.0f}")
    tell(Row("peak memory", package["peak MB"], "MB", peer=peer, theirs=their_mb, goal=GOAL["MB"]))
    goal = GOAL["passages a second"]
    tell(Row("batches of passages", read["passages"], "passages/s", goal=goal, higher=True))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, help="novels")
    parser.add_argument("--tokens", type=int, default=20_000_000, help="words in the shape of the release")
    parser.add_argument("--vocabulary", type=int, default=60_000)
    parser.add_argument("--steps", type=int, default=400, help="batches read of each kind")
    for hidden in ("--part", "--corpus", "--stream"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        results = PARTS[options.part](options)
        results.setdefault("peak MB", memory())
        (options.folder / f"{options.part}.json").write_text(json.dumps(results), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        results = {"novels": part("novels", options)}
        results["write"] = part("write", options, corpus=results["novels"]["corpus"])
        results |= {name: part(name, options) for name in ("ours", "plain")}
        results["batches"] = part("batches", options, stream=results["ours"]["stream"])
    report(results)


if __name__ == "__main__":
    main()
