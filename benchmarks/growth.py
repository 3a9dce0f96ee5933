"""How the time of what users wait for grows: three sizes of each work, with one process and with all cores.

    python benchmarks/growth.py [--texts novels.tar.xz] [--only WORK ...]

The novels are those of a path, else those that $WORKBENCH_DATA has, else the sample's; a sixteenth of them,
a quarter, all. The passages are LAMBADA's where $WORKBENCH_DATA holds them, else the sample's, repeated
under new ids. Each size is measured once, in a process of its own that has imported what it needs, with
nothing in the cache; the workers that it starts are counted. There is no peer here: the other scripts have
one each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import joblib
import pandas as pd
from _timing import novels as _novels
from _timing import timed
from annotating import passages
from harness import OFFLINE, make

import workbench as wb
from workbench.models import LSA, NGram
from workbench.texts.corpus import Corpus

SHARES = (1 / 16, 1 / 4, 1)  # of the novels
CORES = os.cpu_count() or 1
Row = tuple[str, float, str, int, float]  # work, size, its unit, processes, seconds


def novels(share: float, options: argparse.Namespace) -> list[wb.Book]:
    """Return the first of the novels."""
    found = _novels(options.texts)
    books = list(wb.books(found)) if isinstance(found, Path) else found
    return books[: max(1, round(share * len(books)))]


def tokens(share: float, options: argparse.Namespace) -> Iterator[Row]:
    """Novels to ids, as every model of words needs them."""
    books = novels(share, options)
    for processes in dict.fromkeys((CORES, 1)):
        with tempfile.TemporaryDirectory() as home:
            os.environ["WORKBENCH_HOME"] = home
            with joblib.parallel_config(n_jobs=processes):
                [taken] = timed(1, partial(Corpus.of, books))[0]
            size = Corpus.of(books).n_tokens / 1e6
        yield "novels to ids", size, "million words", processes, taken


def counting(share: float, options: argparse.Namespace) -> Iterator[Row]:
    """Fit an n-gram model to the novels, and rank answers in its vocabulary."""
    corpus = Corpus.of(novels(share, options))
    size = corpus.n_tokens / 1e6
    [taken] = timed(1, lambda: NGram.fit(corpus, order=5, vocabulary=60_000))[0]
    yield "5-gram model, 60,000 words", size, "million words", CORES, taken
    if share < 1:
        return
    model = NGram.fit(corpus, order=5, vocabulary=60_000)
    for n in (1000, 4000, 16_000):
        items = passages(n)
        [taken] = timed(1, partial(model.predict, items))[0]
        yield "5-gram: ranks of all words", n, "passages", CORES, taken


def lsa(share: float, options: argparse.Namespace) -> Iterator[Row]:
    """Singular vectors of the novels' sentences."""
    corpus = Corpus.of(novels(share, options))
    dimensions = 300 if corpus.n_tokens > 1_000_000 else 10  # noqa: PLR2004 - the sample has few words
    [taken] = timed(1, lambda: LSA.fit(corpus, dimensions=dimensions))[0]
    yield f"LSA, {dimensions} dimensions", corpus.n_tokens / 1e6, "million words", CORES, taken


def annotating(share: float, _: argparse.Namespace) -> Iterator[Row]:
    """Parts of speech, lemmas, mentions and speech of every passage."""
    items = passages(round(16_000 * share))
    for processes in dict.fromkeys((CORES, 1)):
        with tempfile.TemporaryDirectory() as home:
            os.environ["WORKBENCH_HOME"] = home
            with joblib.parallel_config(n_jobs=processes):
                [taken] = timed(1, partial(wb.annotate, items))[0]
        yield "annotate", len(items), "passages", processes, taken


def pretrained(share: float, _: argparse.Namespace) -> Iterator[Row]:
    """Log-probabilities of the answers by a model of GPT-2's smallest size."""
    from workbench.models import CausalLM  # noqa: PLC0415 - slow

    items = passages(round(256 * share))
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), "small", items)
        model = CausalLM(folder, device="cpu")
        model.log_prob(items[:8])
        [taken] = timed(1, lambda: model.log_prob(items))[0]
    yield "GPT-2 small: log-probability", len(items), "passages", CORES, taken


def models(share: float, _: argparse.Namespace) -> Iterator[Row]:
    """Make the page that compares models, before a browser has it."""
    from comparing import runs  # noqa: PLC0415 - needs a browser's driver

    from workbench.predictions.store import find_run  # noqa: PLC0415

    items, n = passages(15_000), round(32 * share)
    runs(items, n)
    [taken] = timed(1, lambda: wb.compare(items, [find_run(f"bench-{k}") for k in range(n)]))[0]
    yield "comparison, 15,000 passages", n, "models", 1, taken


WORKS = {work.__name__: work for work in (tokens, counting, lsa, annotating, pretrained, models)}


def inside(options: argparse.Namespace) -> None:
    """Measure one size, and print its rows."""
    warnings.simplefilter("ignore")
    os.environ.update(OFFLINE)
    with tempfile.TemporaryDirectory() as home:
        os.environ["WORKBENCH_HOME"] = home
        for row in WORKS[options.part](options.share, options):
            print("row", json.dumps(row), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, help="novels")
    parser.add_argument("--only", nargs="*", choices=WORKS, default=list(WORKS))
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        inside(options)
        return
    print(f"{CORES} processors, load average at the start {os.getloadavg()[0]:.2f}", flush=True)
    rows: list[Row] = []
    texts = ["--texts", str(options.texts)] if options.texts else []
    for part in options.only:
        for share in SHARES:
            command = [sys.executable, __file__, "--part", part, "--share", str(share), *texts]
            output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - ours
            for line in output.splitlines():
                if line.startswith("row "):
                    rows.append(json.loads(line[4:]))
                    print(*rows[-1], flush=True)
    table = pd.DataFrame(rows, columns=["work", "size", "unit", "processes", "seconds"])
    table["a thousand"] = 1000 * table["seconds"] / table["size"]
    print("\n" + table.round(3).to_string(index=False))


if __name__ == "__main__":
    main()
