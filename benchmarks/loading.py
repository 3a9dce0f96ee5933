"""How long every data set that is found takes to load.

    python benchmarks/loading.py [--cnn 93000] [--repeats 3] [--seconds 30] [--json out.json]

Data sets are looked for in $WORKBENCH_DATA; those that are not there are left out. CNN questions
are made here, in the release's form, and read by the workbench's reader and by a plain loop of
one process that gives the same items.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import joblib
import numpy as np
from _report import Row, tell
from _timing import timed

import workbench as wb
from workbench.datasets import cnn_qa
from workbench.items import text as wt

SETS: list[tuple[str, str, str | None]] = [
    ("sample", "dev", "plain"), ("lambada", "dev", "plain"), ("lambada", "dev", "capitalised"),
    ("lambada", "test", "plain"), ("lambada", "test", "openai"), ("lambada", "control", "plain"),
    ("cbt", "dev", None), ("cbt", "test", None), ("cbt", "train", None),
]  # fmt: skip
MSRCC = {"questions": "Holmes.machine_format.questions*.txt", "table": "testing_data*.csv"}
BOOKS = [("sample", None), ("lambada", "train"), ("cbt", "train"), ("cbt", "dev"), ("msrcc", "train")]


def sets() -> Iterator[tuple[str, Callable[[], wb.Items]]]:
    """Give a name and a loader for every data set that may be there."""
    for dataset, split, variant in SETS:
        name = " ".join(filter(None, (dataset, split, variant)))
        yield name, partial(wb.load, dataset, split, variant=variant)
    data = Path(os.environ.get("WORKBENCH_DATA", "/nowhere")).expanduser()
    for form, pattern in MSRCC.items():
        for file in sorted(data.rglob(pattern))[:1]:
            yield f"msrcc test {form}", partial(wb.load, "msrcc", path=file)


def cnn_questions(folder: Path, n: int) -> None:
    """Write `n` question files of the release's form and size (about 4.5 KB each)."""
    rng = np.random.default_rng(0)
    words = ["".join(letters) for letters in rng.choice(list("aeinorst"), (4000, 5))]
    words += [f"@entity{number}" for number in range(40)] * 10
    names = "\n".join(f"@entity{number}:Name {number}" for number in range(40))
    for number in range(n):
        chosen = [words[place] for place in rng.integers(0, len(words), 700)]
        article = " . ".join(" ".join(chosen[start : start + 22]) for start in range(0, 680, 22))
        query = f"{' '.join(chosen[680:690])} @placeholder {' '.join(chosen[690:])}"
        answer = f"@entity{number % 40}"
        text = f"http://example.org/{number}\n\n{article} .\n\n{query}\n\n{answer}\n\n{names}"
        (folder / f"{number:040x}.question").write_text(text, encoding="utf-8")


def plain_loop(folder: Path) -> wb.Items:
    """Read the questions one after the other, without any check: what one would write by hand."""
    items = []
    for file in sorted(folder.iterdir()):
        url, article, query, answer, *listed = file.read_text(encoding="utf-8").split("\n\n")
        pairs = [line.split(":", 1) for line in "\n\n".join(listed).splitlines()]
        pairs.sort(key=lambda pair: int(pair[0].removeprefix("@entity")))
        start = len(article) + 2
        place = start + query.index("@placeholder")
        text = f"{article}\n\n{query.replace('@placeholder', answer)}"
        item = wb.Item(
            item_id=f"cnnqa/train/{file.stem}", dataset="cnnqa", split="train", variant="cnn", text=text,
            answer=answer, answer_span=(place, place + len(answer)),
            sentences=(*wt.sentences(article), (start, len(text))),
            candidates=tuple(entity for entity, _ in pairs), meta={"url": url, "entities": dict(pairs)},
        )  # fmt: skip
        items.append(item)
    return wb.Items.from_records(items)


def cnn(n: int) -> dict[str, Any]:
    """Measure our reader and the plain loop on the same files, in turn, nothing of the other in memory."""
    taken: dict[str, list[float]] = {"plain": [], "ours": []}
    with tempfile.TemporaryDirectory() as base:
        folders = [Path(base) / name / "cnn" / "questions" / "training" for name in ("few", "all")]
        for folder, number in zip(folders, (200, n), strict=True):
            folder.mkdir(parents=True)
            cnn_questions(folder, number)
        readers: dict[str, Callable[[Path], wb.Items]] = {
            "plain": plain_loop,
            "ours": lambda folder: cnn_qa.load("train", path=folder),
        }
        few = [read(folders[0]).frame for read in readers.values()]
        assert few[0].equals(few[1]), "the two readers disagree"
        for name in [*readers, *readers]:
            gc.collect()
            start = time.perf_counter()
            items = readers[name](folders[1])
            taken[name].append(time.perf_counter() - start)
            assert len(items) == n
            del items
    return {"n": n, "cores": joblib.cpu_count(), **taken}


def stream(limit: float) -> dict[str, dict[str, float]]:
    """Read books for at most `limit` seconds a set."""
    rates = {}
    for dataset, split in BOOKS:
        try:
            start = time.perf_counter()
            records = wb.books(dataset, split)
            first = time.perf_counter() - start
        except wb.DataError:
            continue
        n = characters = 0
        for book in records:
            n, characters = n + 1, characters + len(book.text)
            if time.perf_counter() - start > limit:
                break
        seconds = time.perf_counter() - start
        name = " ".join(filter(None, (dataset, split)))
        rates[name] = {"books": n, "mb": characters / 1e6, "first": first, "seconds": seconds}
    return rates


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Run everything; print each row as soon as it is known."""
    print(f"{joblib.cpu_count()} cores, load average {os.getloadavg()[0]:.2f}\n")
    print(f"{'data set':28}{'items':>9}{'median s':>10}{'max s':>8}{'items/s':>11}")
    results: dict[str, Any] = {"load": {}}
    for name, load in sets():
        try:
            taken, items = timed(options.repeats, load)
        except wb.DataError as error:
            print(f"{name:28}  left out: {error.problem.partition(';')[0]}")
            continue
        results["load"][name] = {"items": len(items), "seconds": taken}
        middle = median(taken)
        print(f"{name:28}{len(items):9,}{middle:10.3f}{max(taken):8.3f}{len(items) / middle:11,.0f}")
    if options.cnn:
        results["cnn"] = records = cnn(options.cnn)
        for name, taken in (("cnnqa train (made)", records["ours"]), ("  plain loop", records["plain"])):
            rate = options.cnn / median(taken)
            print(f"{name:28}{options.cnn:9,}{median(taken):10.2f}{max(taken):8.2f}{rate:11,.0f}")
        ratio = median(records["ours"]) / median(records["plain"])
        print(f"  ours : plain loop = {ratio:.2f} on {records['cores']} cores")
        tell(
            Row(
                f"{options.cnn:,} CNN questions",
                median(records["ours"]),
                "s",
                peer="a plain loop",
                theirs=median(records["plain"]),
            )
        )
    print(f"\n{'books':28}{'books':>9}{'MB':>10}{'s':>8}{'MB/s':>11}{'first book s':>15}")
    results["books"] = stream(options.seconds)
    for name, row in results["books"].items():
        rate = row["mb"] / row["seconds"]
        print(
            f"{name:28}{row['books']:9,}{row['mb']:10.1f}{row['seconds']:8.2f}{rate:11.1f}{row['first']:15.3f}"
        )
    return results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cnn", type=int, default=93_000, help="CNN questions to make (0: none)")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30, help="longest time a set of books is read")
    parser.add_argument("--json", type=Path, help="file for the seconds of every run")
    options = parser.parse_args()
    results = measure(options)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
