"""How long exact ranks of an n-gram model take, beside KenLM asked word by word, and how long it is fitted.

    python benchmarks/ngram.py [--texts PATH] [--n 15000] [--loop 20] [--order 5] [--vocabulary 60000]
    python benchmarks/ngram.py --only build --texts PATH [PATH ...] [--tokens 203000000] [--pruning 0 0 1 1 1]

The model is fitted on the books in a path (file, folder, archive), else on the novels that $WORKBENCH_DATA
has, else on the sample's; one that was fitted before is found again. The contexts are what stands before
the blank in the target sentences of LAMBADA's development and control sets where $WORKBENCH_DATA has them,
else of the sample; repeated until there are enough, and shuffled by seed.

1. Ours: from words to log-probability, exact rank, ties and ten best words of all contexts; the
   first run in a new process, with the model's arrays mapped from disk.
2. The plain loop: ``kenlm.Model.BaseScore`` for every word of the vocabulary, for some of the contexts; the
   median is taken times their number. What both say of these contexts must agree: ranks, ties and
   words exactly, log-probabilities to 1e-5.
3. From text to a model that answers: ``NGram.fit`` anew, from a corpus on disk; beside it KenLM's ``lmplz``
   to an ARPA file and ``build_binary``, from the same text in a file, with the same memory. With ``--tokens``
   the text is repeated to that length, and in the repeats 13 of 100 words are drawn anew: the novels and
   the Holmes training data (70 million tokens) then have about as many n-grams as the release's novels.

Each part runs in a process of its own. Peak memory counts the pages of mapped files that were touched.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from _report import Row, tell
from _timing import memory, novels

import workbench as wb
from workbench.datasets.books import Book
from workbench.models.item_words import passages
from workbench.models.ngram.kenlm import find_program
from workbench.models.ngram.model import NGram
from workbench.texts.corpus import Corpus

GOAL = 1000.0  # times the plain loop
GOAL_BUILD = 1.1  # times lmplz and build_binary
LARGE = 10_000_000  # tokens; goals are not for models that are made in seconds
MEMORY = "2G"  # for lmplz to sort in
BOOK = 76_000  # words of a book, as in the release
DRAWN = 0.13  # of the words of a repeat
CLOSE = 1e-5  # natural log-probabilities that count as equal
TOP = 10

Contexts = list[tuple[list[str], str]]
"""The words before each blank, and the word that is to be ranked."""


def blanks(n: int) -> Contexts:
    """Give `n` contexts."""
    try:
        items = wb.Items.concat([wb.load("lambada", "dev"), wb.load("lambada", "control")])
    except wb.DataError:
        items = wb.load("sample", "dev")
    results = [(list(p.left), str(item.answer).lower()) for item, p in passages(items, lower=True)]
    repeated = (results * -(-n // len(results)))[:n]
    random.Random(0).shuffle(repeated)  # noqa: S311 - no secret
    return repeated


def train(options: argparse.Namespace, _: Contexts) -> dict[str, Any]:
    """Fit the model."""
    texts = Corpus.of(options.texts or novels())
    model = NGram.fit(texts, order=options.order, vocabulary=options.vocabulary)
    return {"model": str(model.folder), "vocabulary": len(model.vocabulary), "tokens": texts.n_tokens}


def ranked(fit: NGram, rows: Contexts) -> dict[str, Any]:
    """Compute all that is asked for, with our arrays."""
    model = fit.model
    contexts = model.contexts([model.ids(["<s>", *left]) for left, _ in rows])
    ids = np.array([model.index.get(answer, len(model.words)) for _, answer in rows])
    known = ids < len(model.words)
    ids = np.where(known, ids, 0)
    state = model.state(contexts)
    log10 = model.log10(contexts, ids[:, None], state)[:, 0]
    above = model.count(state, log10)
    tied = model.count(state, log10, equal=True) - above
    _, words = model.top(contexts, TOP, state)
    return {"known": known, "log10": log10, "rank": above + 1, "tied": tied, "top": words}


def ours(options: argparse.Namespace, rows: Contexts) -> dict[str, Any]:
    """Rank all contexts."""
    start = time.perf_counter()
    results = ranked(NGram(options.model), rows)
    seconds = time.perf_counter() - start
    sample = {name: values[: options.loop].tolist() for name, values in results.items()}
    return {"seconds": seconds, "sample": sample}


def loop(options: argparse.Namespace, rows: Contexts) -> dict[str, Any]:
    """Ask KenLM for every word, in some of the contexts."""
    import kenlm  # type: ignore[import-not-found]  # noqa: PLC0415 - it would count for the other parts

    fit = NGram(options.model)
    model, words = kenlm.Model(str(fit.binary)), list(fit.vocabulary)
    index = {word: place for place, word in enumerate(words)}
    seconds: list[float] = []
    sample: dict[str, list[Any]] = {name: [] for name in ("known", "log10", "rank", "tied", "top")}
    for left, answer in rows[: options.loop]:
        start = time.perf_counter()
        state, after = kenlm.State(), kenlm.State()
        model.BeginSentenceWrite(state)
        for word in left:
            model.BaseScore(state, word, after)
            state, after = after, state
        scores = [model.BaseScore(state, word, after) for word in words]
        log10 = scores[index.get(answer, 0)]
        rank = 1 + sum(score > log10 for score in scores)
        seconds.append(time.perf_counter() - start)
        best = sorted(range(len(words)), key=lambda place: (-scores[place], place))[:TOP]
        values = (answer in index, log10, rank, scores.count(log10), best)
        for name, value in zip(sample, values, strict=True):
            sample[name].append(value)
    return {"seconds": statistics.median(seconds), "sample": sample}


def longer(corpus: Corpus, n: int) -> Iterator[Book]:
    """Give books of `n` words together: the corpus over and over, the repeats with words drawn anew."""
    table, rng = np.array(corpus.words, dtype=object), np.random.default_rng(0)
    for start in range(0, n, BOOK):
        places = np.arange(start, min(start + BOOK, n))
        drawn = (places >= corpus.n_tokens) & (rng.random(len(places)) < DRAWN)
        places[drawn] = rng.integers(corpus.n_tokens, size=drawn.sum())
        words = table[corpus.ids[places % corpus.n_tokens]].tolist()
        yield Book(f"{start}", "", None, None, " ".join(words), tokenised=True, source="")


def build(options: argparse.Namespace, rows: Contexts) -> dict[str, Any]:
    """Make a model that answers, as we do and as KenLM's programs do."""
    texts = Corpus.of(options.texts or novels())
    if options.tokens:
        texts = Corpus.of(longer(texts, options.tokens))
    os.environ["WORKBENCH_HOME"] = str(options.folder / "home")  # where no model is
    known = set(texts.vocabulary(options.vocabulary))
    names = ("lines.txt", "model.arpa", "model.binary")
    text, arpa, binary = (options.folder / name for name in names)
    with text.open("w", encoding="utf-8") as file:
        for line in texts.lines(known):
            file.write(re.sub("(?<!\\S)<unk>(?!\\S)", "<outside>", line) + "\n")
    place = ["-S", MEMORY, "-T", f"{options.folder}/"]
    lmplz = ["-o", str(options.order), *place, "--text", text, "--arpa", arpa, "--discount_fallback"]
    lmplz += ["--prune", *map(str, options.pruning)] if options.pruning else []
    start = time.perf_counter()
    for name, arguments in (("lmplz", lmplz), ("build_binary", [*place, "probing", arpa, binary])):
        subprocess.run([find_program(name), *arguments], check=True, stderr=subprocess.DEVNULL)  # noqa: S603
    programs = time.perf_counter() - start
    for file in (text, arpa, binary):  # our files need the place
        file.unlink()
    start = time.perf_counter()
    model = NGram.fit(
        texts, order=options.order, vocabulary=options.vocabulary, pruning=options.pruning, memory=MEMORY
    )
    ranked(model, rows[:1])
    seconds = time.perf_counter() - start
    n_grams = model.info["report"]["n_grams"]
    return {"seconds": seconds, "programs": programs, "tokens": texts.n_tokens, "n-grams": n_grams}


PARTS: dict[str, Callable[[argparse.Namespace, Contexts], dict[str, Any]]] = {
    "train": train,
    "ours": ours,
    "loop": loop,
    "build": build,
}


def part(name: str, options: argparse.Namespace, **more: str) -> dict[str, Any]:
    """Run one part in a process of its own; return what it tells."""
    names = ("folder", "n", "loop", "order", "vocabulary", "texts", "tokens", "pruning")
    arguments = {option: getattr(options, option) for option in names} | more
    command = [sys.executable, __file__, "--part", name]
    for option, value in arguments.items():
        if value is not None:
            command += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - this file
        raise SystemExit(f"the part {name!r} failed")
    results: dict[str, Any] = json.loads((options.folder / f"{name}.json").read_text(encoding="utf-8"))
    return results


def compare(package: dict[str, Any], plain: dict[str, Any]) -> None:
    """See that both say the same."""
    for name in ("known", "rank", "tied", "top"):
        assert package[name] == plain[name], f"{name} differs from the loop's"
    difference = float(np.abs(np.subtract(package["log10"], plain["log10"])).max() * np.log(10))
    assert difference < CLOSE, "log-probabilities differ from the loop's"


def report_ranks(options: argparse.Namespace) -> None:
    """Measure and print how long ranks take."""
    fitted = part("train", options)
    package, plain = (part(name, options, model=fitted["model"]) for name in ("ours", "loop"))
    compare(package["sample"], plain["sample"])
    print(f"{fitted['tokens']:,} tokens, order {options.order}, {fitted['vocabulary']:,} words; ", end="")
    print(f"{options.n:,} contexts: {package['seconds']:.3f} s, peak {package['peak MB']:,.0f} MB")
    print(f"plain loop: {1e3 * plain['seconds']:.1f} ms a context, peak {plain['peak MB']:,.0f} MB; ", end="")
    print("ranks, ties, best words and log-probabilities are the same")
    peer, each = "KenLM, a loop over the words", 1e3 * package["seconds"] / options.n
    goal = GOAL if fitted["tokens"] >= LARGE else None
    work = f"ranks, {options.n:,} contexts"
    tell(Row(work, each, "ms", peer=peer, theirs=1e3 * plain["seconds"], times=goal))


def report_build(options: argparse.Namespace) -> None:
    """Measure and print how long a model takes until it answers."""
    result = part("build", options)
    print(f"{result['tokens']:,} tokens; n-grams {', '.join(f'{n:,}' for n in result['n-grams'])}")
    print(f"fit: {result['seconds']:.1f} s, peak {result['peak MB']:,.0f} MB beside lmplz; ", end="")
    print(f"lmplz and build_binary {result['programs']:.1f} s")
    times = 1 / GOAL_BUILD if result["tokens"] >= LARGE else None
    work, peer = f"n-gram fit, {result['tokens']:,} tokens", "lmplz and build_binary"
    tell(Row(work, result["seconds"], "s", peer=peer, theirs=result["programs"], times=times))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, nargs="+", help="books to train on")
    parser.add_argument("--n", type=int, default=15_000, help="number of contexts")
    parser.add_argument("--loop", type=int, default=20, help="contexts that the plain loop gets")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=60_000)
    parser.add_argument("--tokens", type=int, help="repeat the text of part 3 to so many")
    parser.add_argument("--pruning", type=int, nargs="+", help="counts to prune up to in part 3, by order")
    parser.add_argument("--only", choices=["build"], help="do this part alone")
    for hidden in ("--part", "--model"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        rows = json.loads((options.folder / "rows.json").read_text(encoding="utf-8"))
        results = PARTS[options.part](options, rows) | {"peak MB": memory()}
        (options.folder / f"{options.part}.json").write_text(json.dumps(results), encoding="utf-8")
        return
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        (options.folder / "rows.json").write_text(json.dumps(blanks(options.n)), encoding="utf-8")
        if not options.only:
            report_ranks(options)
        report_build(options)


if __name__ == "__main__":
    main()
