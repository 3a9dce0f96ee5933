"""How long exact ranks of an n-gram model take, beside KenLM asked word by word, and beside ``nltk.lm``.

    python benchmarks/ngram.py [--texts PATH] [--n 15000] [--loop 20] [--order 5] [--vocabulary 60000]
                               [--nltk-tokens 100000] [--json out.json]
    python benchmarks/ngram.py --only build --texts PATH [PATH ...] [--tokens 203000000] [--pruning 0 0 1 1 1]

The model is fitted on the books in a path (file, folder, archive), else on the novels that $WORKBENCH_DATA
has, else on the sample's; one that was fitted before is found again. The contexts are what stands before
the blank in the target sentences of LAMBADA's development and control sets where $WORKBENCH_DATA has them,
else of the sample; repeated until there are enough, and shuffled by seed.

1. Ours: from words to log-probability, exact rank, ties and ten best words of all contexts; the
   first run in a new process, with the model's arrays mapped from disk, then three more.
2. The plain loop: ``kenlm.Model.BaseScore`` for every word of the vocabulary, for some of the contexts; the
   median is taken times their number. What both say of these contexts must agree: ranks, ties and
   words exactly, log-probabilities to 1e-5.
3. ``nltk.lm``, order 3, trained on the first tokens of the same text, as our model of this part is; its
   score of some words in a few contexts, taken times the vocabulary and the contexts. Its smoothing
   is not ours, so times alone are compared.
4. From text to a model that answers: ``NGram.fit`` anew, from a corpus on disk; beside it KenLM's ``lmplz``
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
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from _report import Row, tell
from _timing import memory, novels, timed

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
NLTK = {"order": 3, "contexts": 3, "words": 150}
NLTK_MODELS = ("KneserNeyInterpolated", "StupidBackoff")


def blanks(n: int) -> tuple[str, list[tuple[list[str], str]]]:
    """Give the words before `n` blanks, with the words that are to be ranked."""
    try:
        items, name = wb.Items.concat([wb.load("lambada", "dev"), wb.load("lambada", "control")]), "LAMBADA"
    except wb.DataError:
        items, name = wb.load("sample", "dev"), "the sample"
    results = [(list(p.left), str(item.answer).lower()) for item, p in passages(items, lower=True)]
    repeated = (results * -(-n // len(results)))[:n]
    random.Random(0).shuffle(repeated)  # noqa: S311 - no secret
    return f"{name} ({len(results):,} different)", repeated


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Fit the model, and a small one for the part on nltk."""
    start = time.perf_counter()
    texts = Corpus.of(options.texts or novels())
    read = time.perf_counter()
    fit = NGram.fit(texts, order=options.order, vocabulary=options.vocabulary)
    fitted = time.perf_counter()
    lines, left = [], options.nltk_tokens
    for line in texts.lines():
        words = line.split(" ")[:left]
        lines.append(" ".join(words))
        left -= len(words)
        if left <= 0:
            break
    small = NGram.fit(lines, order=NLTK["order"], vocabulary=None)
    (options.folder / "lines.txt").write_text("\n".join(lines), encoding="utf-8")
    return {
        "reading": read - start,
        "fitting": fitted - read,
        "model": str(fit.folder),
        "small": str(small.folder),
        "vocabulary": len(fit.vocabulary),
        "n-grams": fit.info["report"]["n_grams"],
        "tokens": texts.n_tokens,
        "disk MB": sum(file.stat().st_size for file in fit.folder.iterdir()) / 1e6,
        "arrays MB": sum(file.stat().st_size for file in fit.folder.glob("*.npy")) / 1e6,
        "small vocabulary": len(small.vocabulary),
        "small tokens": options.nltk_tokens - max(left, 0),
    }


def ranked(fit: NGram, rows: list[tuple[list[str], str]]) -> dict[str, Any]:
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


def ours(options: argparse.Namespace, rows: list[tuple[list[str], str]]) -> dict[str, Any]:
    """Rank all contexts, several times."""
    before = memory()
    start = time.perf_counter()
    fit = NGram(options.model)
    results = ranked(fit, rows)
    taken = [time.perf_counter() - start, *timed(3, lambda: ranked(fit, rows))[0]]
    sample = {name: values[: options.loop].tolist() for name, values in results.items()}
    return {"taken": taken, "some": sample, "known": float(results["known"].mean()), "before MB": before}


def loop(options: argparse.Namespace, rows: list[tuple[list[str], str]]) -> dict[str, Any]:
    """Ask KenLM for every word, in some of the contexts."""
    import kenlm  # type: ignore[import-not-found]  # noqa: PLC0415 - it would count for the other parts

    fit = NGram(options.model)
    model, words = kenlm.Model(str(fit.binary)), list(fit.vocabulary)
    index = {word: place for place, word in enumerate(words)}
    taken: list[float] = []
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
        taken.append(time.perf_counter() - start)
        best = sorted(range(len(words)), key=lambda place: (-scores[place], place))[:TOP]
        for name, value in zip(
            sample, (answer in index, log10, rank, scores.count(log10), best), strict=True
        ):
            sample[name].append(value)
    return {"taken": taken, "some": sample}


def predict(options: argparse.Namespace, _: object) -> dict[str, Any]:
    """Predict items, from their text to the table of predictions, as users do."""
    try:
        items = wb.load("lambada", "dev")
    except wb.DataError:
        items = wb.load("sample", "dev")
    start = time.perf_counter()
    frame = NGram(options.model).predict(items)
    return {
        "items": len(items),
        "taken": time.perf_counter() - start,
        "accuracy": float(frame["p_correct"].mean()),
        "perplexity": float(np.exp(-frame["log_prob"].mean())),
        "median rank": float(frame["rank"].median()),
    }


def toolkit(options: argparse.Namespace, rows: list[tuple[list[str], str]]) -> dict[str, Any]:
    """Rank with models of nltk, and with ours of the same lines."""
    import nltk.lm  # type: ignore[import-untyped]  # noqa: PLC0415 - it would count for the other parts
    from nltk.lm.preprocessing import padded_everygram_pipeline  # type: ignore[import-untyped]  # noqa: PLC0415

    fit, order = NGram(options.small), NLTK["order"]
    start = time.perf_counter()
    ranked(fit, rows)
    results: dict[str, Any] = {"ours": (time.perf_counter() - start) / len(rows)}
    lines = [line.split() for line in (options.folder / "lines.txt").read_text(encoding="utf-8").split("\n")]
    words = random.Random(0).sample(fit.vocabulary, min(NLTK["words"], len(fit.vocabulary)))  # noqa: S311
    for name in NLTK_MODELS:
        model = getattr(nltk.lm, name)(order=order)
        start = time.perf_counter()
        model.fit(*padded_everygram_pipeline(order, lines))
        fitting, taken = time.perf_counter() - start, []
        for left, _ in islice(rows, NLTK["contexts"]):
            context = ["<s>", *left][1 - order :]
            start = time.perf_counter()
            for word in words:
                model.score(word, context)
            taken.append((time.perf_counter() - start) / len(words))
        results[name] = {"fitting": fitting, "score": statistics.median(taken)}
    return results


def longer(corpus: Corpus, n: int) -> Iterator[Book]:
    """Give books of `n` words together: the corpus over and over, the repeats with words drawn anew."""
    table, rng = np.array(corpus.words, dtype=object), np.random.default_rng(0)
    for start in range(0, n, BOOK):
        places = np.arange(start, min(start + BOOK, n))
        drawn = (places >= corpus.n_tokens) & (rng.random(len(places)) < DRAWN)
        places[drawn] = rng.integers(corpus.n_tokens, size=drawn.sum())
        words = table[corpus.ids[places % corpus.n_tokens]].tolist()
        yield Book(f"{start}", "", None, None, " ".join(words), tokenised=True, source="")


def build(options: argparse.Namespace, rows: list[tuple[list[str], str]]) -> dict[str, Any]:
    """Make a model that answers, as we do and as KenLM's programs do."""
    texts = Corpus.of(options.texts or novels())
    if options.tokens:
        texts = Corpus.of(longer(texts, options.tokens))
    os.environ["WORKBENCH_HOME"] = str(options.folder / "home")  # where no model is
    results: dict[str, Any] = {}
    known = set(texts.vocabulary(options.vocabulary))
    names = ("lines.txt", "model.arpa", "model.binary")
    text, arpa, binary = (options.folder / name for name in names)
    with text.open("w", encoding="utf-8") as file:
        for line in texts.lines(known):
            file.write(re.sub("(?<!\\S)<unk>(?!\\S)", "<outside>", line) + "\n")
    place = ["-S", MEMORY, "-T", f"{options.folder}/"]
    lmplz = ["lmplz", "-o", str(options.order), *place, "--text", text, "--arpa", arpa, "--discount_fallback"]
    lmplz += ["--prune", *map(str, options.pruning)] if options.pruning else []
    for command in (lmplz, ["build_binary", *place, "probing", arpa, binary]):
        start = time.perf_counter()
        process = subprocess.Popen(  # noqa: S603 - KenLM's
            [find_program(str(command[0])), *command[1:]], stderr=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        assert not status, f"{command[0]} failed"
        results[str(command[0])] = time.perf_counter() - start
        results[f"{command[0]} CPU"] = usage.ru_utime + usage.ru_stime
        results[f"{command[0]} peak MB"] = usage.ru_maxrss * 1.024e-3
    results |= {f"{file.name} MB": file.stat().st_size / 1e6 for file in (arpa, binary)}
    for file in (text, arpa, binary):  # our files need the place
        file.unlink()
    model = {"order": options.order, "vocabulary": options.vocabulary, "pruning": options.pruning}
    start, before = time.perf_counter(), sum(os.times()[:4])
    fit = NGram.fit(texts, **model, memory=MEMORY)
    ranked(fit, rows[:1])
    results |= {
        "ours": time.perf_counter() - start,
        "ours CPU": sum(os.times()[:4]) - before,
        "ours MB": sum(file.stat().st_size for file in fit.folder.rglob("*") if file.is_file()) / 1e6,
        "n-grams": fit.info["report"]["n_grams"],
        "tokens": texts.n_tokens,
        "vocabulary": len(fit.vocabulary),
        "ours peak MB": memory(),
    }
    return results


PARTS: dict[str, Callable[[argparse.Namespace, list[tuple[list[str], str]]], dict[str, Any]]] = {
    "ours": ours,
    "loop": loop,
    "predict": predict,
    "toolkit": toolkit,
    "build": build,
}


def part(name: str, options: argparse.Namespace, **more: str) -> dict[str, Any]:
    """Run one part in a process of its own; return what it tells."""
    arguments = {
        "part": name,
        "folder": options.folder,
        "n": options.n,
        "loop": options.loop,
        "order": options.order,
    }
    arguments |= {"vocabulary": options.vocabulary, "nltk-tokens": options.nltk_tokens} | more
    given = {"texts": options.texts, "tokens": options.tokens, "pruning": options.pruning}
    arguments |= {option: value for option, value in given.items() if value}
    command = [sys.executable, __file__]
    for option, value in arguments.items():
        command += [f"--{option}", *map(str, value if isinstance(value, list) else [value])]
    if subprocess.run(command, check=False).returncode:  # noqa: S603 - this file
        raise SystemExit(f"the part {name!r} failed")
    results: dict[str, Any] = json.loads((options.folder / f"{name}.json").read_text(encoding="utf-8"))
    return results


def inside(options: argparse.Namespace) -> None:
    """Do one part and write down what was measured."""
    if options.part == "train":
        results = train(options)
    else:
        rows = json.loads((options.folder / "rows.json").read_text(encoding="utf-8"))
        results = PARTS[options.part](options, rows)
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1.024e-3
    results |= {"peak MB": memory(), "peak MB of programs": children}
    (options.folder / f"{options.part}.json").write_text(json.dumps(results), encoding="utf-8")


def compare(package: dict[str, Any], its: dict[str, Any]) -> float:
    """See that both say the same; return the greatest difference of natural log-probabilities."""
    for name in ("known", "rank", "tied", "top"):
        assert package[name] == its[name], f"{name} differs from the loop's"
    difference = float(np.abs(np.subtract(package["log10"], its["log10"])).max() * np.log(10))
    assert difference < CLOSE, "log-probabilities differ from the loop's"
    return difference


def report_build(build_: dict[str, Any]) -> None:
    """Print how long a model takes until it answers."""
    print(f"\nfrom a corpus of {build_['tokens']:,} tokens to a model that answers, ", end="")
    print(f"{build_['vocabulary']:,} words; n-grams {', '.join(f'{n:,}' for n in build_['n-grams'])}")
    print(f"ours: {build_['ours']:.1f} s ({build_['ours CPU']:.1f} s of processors), ", end="")
    print(f"{build_['ours MB']:,.0f} MB on disk, peak {build_['ours peak MB']:,.0f} MB beside lmplz")
    for name, file in (("lmplz", "model.arpa"), ("build_binary", "model.binary")):
        print(f"{name}: {build_[name]:.1f} s ({build_[f'{name} CPU']:.1f} s of processors), ", end="")
        print(f"{file} has {build_[f'{file} MB']:,.0f} MB, peak {build_[f'{name} peak MB']:,.0f} MB")
    ratio = build_["ours"] / (build_["lmplz"] + build_["build_binary"])
    print(f"ratio {ratio:.2f}, goal {GOAL_BUILD} at most: {'met' if ratio <= GOAL_BUILD else 'MISSED'}")
    programs, work = build_["lmplz"] + build_["build_binary"], f"n-gram fit, {build_['tokens']:,} tokens"
    peer, times = "lmplz and build_binary", 1 / GOAL_BUILD if build_["tokens"] >= LARGE else None
    tell(Row(work, build_["ours"], "s", peer=peer, theirs=programs, times=times))


def report(results: dict[str, Any], name: str, options: argparse.Namespace) -> None:
    """Print what was measured."""
    train_, package, plain = results["train"], results["ours"], results["loop"]
    user, tools = results["predict"], results["toolkit"]
    packages = ", ".join(f"{p} {version(p)}" for p in ("numpy", "kenlm", "nltk"))
    print(f"Python {sys.version.split()[0]}, {packages}; {os.cpu_count()} processors")
    print(f"load average at the end: {', '.join(f'{x:.2f}' for x in os.getloadavg())}\n")
    print(f"text: {train_['tokens']:,} tokens; order {options.order}, {train_['vocabulary']:,} words")
    print(f"n-grams by order: {', '.join(f'{n:,}' for n in train_['n-grams'])}")
    print(f"on disk: {train_['disk MB']:,.0f} MB, {train_['arrays MB']:,.0f} MB of them our arrays")
    print(
        f"reading the text took {train_['reading']:.1f} s, fitting {train_['fitting']:.1f} s (0: was there)"
    )
    programs = train_["peak MB of programs"]
    print(f"peak while fitting {train_['peak MB']:,.0f} MB, of KenLM's programs {programs:,.0f} MB\n")
    print(f"{options.n:,} contexts of {name}, {package['known']:.1%} of the words are known")
    first, rest = package["taken"][0], package["taken"][1:]
    print(f"ours, first run: {first:.3f} s; then {min(rest):.3f} to {max(rest):.3f} s")
    print(f"peak {package['peak MB']:,.0f} MB, {package['before MB']:,.0f} MB of them before the model")
    median = statistics.median(plain["taken"])
    print(f"plain loop: {median * 1e3:.1f} ms a context (median of {len(plain['taken'])}), ", end="")
    print(f"so {median * options.n:,.0f} s; peak {plain['peak MB']:,.0f} MB")
    difference = compare(package["some"], plain["some"])
    print(f"ranks, ties and best words are the same; log-probabilities differ by {difference:.1g} at most")
    for label, value in (("first run", first), ("median of later runs", statistics.median(rest))):
        ratio = median * options.n / value
        print(f"ratio, {label}: {ratio:,.0f}, goal {GOAL:,.0f}: {'met' if ratio >= GOAL else 'MISSED'}")
    peer, each = "KenLM, a loop over the words", 1e3 * first / options.n
    goal = GOAL if train_["tokens"] >= LARGE else None
    tell(Row(f"ranks, {options.n:,} contexts", each, "ms", peer=peer, theirs=1e3 * median, times=goal))
    print(f"\npredict, from {user['items']:,} items to the table: {user['taken']:.2f} s, ", end="")
    print(f"peak {user['peak MB']:,.0f} MB; accuracy {user['accuracy']:.4f}, ", end="")
    print(f"perplexity {user['perplexity']:,.0f}, median rank {user['median rank']:,.0f}\n")
    print(f"nltk.lm, order {NLTK['order']}, {train_['small tokens']:,} tokens, ", end="")
    print(f"{train_['small vocabulary']:,} words; ours: {tools['ours'] * 1e6:.1f} us a context")
    for each in NLTK_MODELS:
        one, fitting = tools[each]["score"], tools[each]["fitting"]
        repeated = one * train_["small vocabulary"]
        print(f"{each}: fitted in {fitting:.1f} s, {one * 1e6:,.0f} us a word, ", end="")
        print(f"so {repeated:,.2f} s a context; ratio {repeated / tools['ours']:,.0f}")
    report_build(results["build"])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--texts", type=Path, nargs="+", help="books to train on")
    parser.add_argument("--n", type=int, default=15_000, help="number of contexts")
    parser.add_argument("--loop", type=int, default=20, help="contexts that the plain loop gets")
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=60_000)
    parser.add_argument("--tokens", type=int, help="repeat the text of part 4 to so many")
    parser.add_argument("--pruning", type=int, nargs="+", help="counts to prune up to in part 4, by order")
    parser.add_argument("--nltk-tokens", type=int, default=100_000)
    parser.add_argument("--only", choices=["build"], help="do this part alone")
    parser.add_argument("--json", type=Path, help="file for what was measured")
    for hidden in ("--part", "--model", "--small"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        inside(options)
        return
    print(f"load average at the start: {', '.join(f'{x:.2f}' for x in os.getloadavg())}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        options.folder = Path(folder)
        name, rows = blanks(options.n)
        (options.folder / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
        if options.only:
            results = {"build": part("build", options)}
            report_build(results["build"])
            print(f"load average at the end: {', '.join(f'{x:.2f}' for x in os.getloadavg())}")
        else:
            results = {"train": part("train", options)}
            models = {"model": results["train"]["model"], "small": results["train"]["small"]}
            results |= {each: part(each, options, **models) for each in PARTS}
            report(results, name, options)
            for each in ("ours", "loop"):
                del results[each]["some"]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
