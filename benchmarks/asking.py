"""How soon a model has answered an edit in a real JupyterLab, beside KenLM asked word by word.

    python benchmarks/asking.py [--model FOLDER | --texts PATH] [--repeats 15] [--order 5]
                                [--vocabulary 60000] [--causal FOLDER]

The model is one that was fitted before (the folder of an ``NGram``), else it is fitted on the books in a
path (file, folder, archive), else on those that $WORKBENCH_DATA has, else on the sample's. A question is a
passage with its last word hidden: log-probability, exact rank and ten best words, with the whole passage
and with the last sentence alone.

1. In the page: from the time stamp of a key until the frame after the answer is drawn. After a letter the
   widget waits for a pause of 250 ms first; Ctrl+Enter asks at once.
2. In Python, without a page: from setting ``.text`` until ``.wait()`` returns.
3. ``kenlm.Model.BaseScore`` for every word of the vocabulary after the words of the last sentence, then
   a sort: one loop a question, as the words before do not change the answer of an n-gram model. Ranks
   must be equal.
4. With ``--causal``, a causal model with the same vocabulary, in Python: a passage of 80 words, and a minimal
   pair of two short sentences. Time until the first answer (log-probability and ten best words) and until the
   exact ranks are known, beside a plain loop of ``transformers`` that computes the log-probability alone: one
   pass a text, without batches. Seconds are those of the processor, as each runs by itself.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from _lab import Notebook, chromium, guarded, lab
from _report import Row, tell
from _timing import novels
from _trial import HELPERS

from workbench.models.ngram.model import NGram
from workbench.texts.corpus import Corpus
from workbench.widgets.ask.ask import ask
from workbench.widgets.ask.asking import answers
from workbench.widgets.ask.questions import TypedQuestion, read_question

PASSAGE = (
    "All winter the old captain had kept the letter in his coat, and he had told nobody of it but "
    "his sister. On the morning that the ship came in he went down to the water and gave it to the "
)
QUESTIONS = {
    "a passage of 80 words": TypedQuestion(
        "All winter the old captain had kept the letter in his coat, and he had told nobody of it but his "
        "sister, who lived in the small white house above the harbour. She had begged him to burn it, and "
        "he had promised that he would, but he never did, because it was the only thing he had left of his "
        "wife. On the morning that the ship came in he went down to the water and gave it to his sister"
    ),
    "a pair of short sentences": TypedQuestion(
        "The keeper walked down to the river. He sat beside the gate",
        "The farmer walked down to the river. He sat beside the gate", pairs=True,
    ),
}  # fmt: skip
WORDS = ("captain", "sister", "man", "ship", "letter", "house", "water", "boy", "king", "sea")
DRAWN = """() => document.querySelector(".wa-target")?.textContent === {0!r}
    && document.querySelector(".wa-asked span")?.textContent === {0!r}
    && !document.querySelector(".wa-stale")"""
CELL = """from workbench.models.ngram.model import NGram
from workbench.widgets.ask.ask import ask
model = NGram({!r})
asker = ask(model, {!r})
asker"""


def words(repeats: int) -> list[str]:
    """Give the words to ask for, none twice in a row."""
    return [WORDS[number % len(WORDS)] for number in range(repeats)]


def in_the_page(fit: NGram, repeats: int) -> dict[str, list[float]]:
    """Edit the passage in a page; return ms by what was done."""
    taken: dict[str, list[float]] = {"a letter typed": [], "Ctrl+Enter": []}
    with tempfile.TemporaryDirectory() as base, lab(Path(base)) as running, chromium() as browser:
        with guarded(browser, running) as page:
            notebook = Notebook(page, running)
            notebook.open(running.write("asking.ipynb", CELL.format(str(fit.folder), f"{PASSAGE}end")))
            page.evaluate(HELPERS)
            notebook.run_all()
            page.wait_for_function(DRAWN.format("end"))
            box = page.locator(".wa-text").first
            for name, times in taken.items():
                for number, word in enumerate(words(repeats)):
                    key = "Control+Enter" if name == "Ctrl+Enter" else word[-1]
                    text = f"{PASSAGE}{word if name == 'Ctrl+Enter' else word[:-1]}"
                    # another passage each time, as kept questions are answered from the history
                    box.evaluate("(box, text) => { box.value = text; }", f"Day {number}, {name}. {text}")
                    box.press("Control+End")
                    page.evaluate(f"window.bench.arm('keydown', '.wa-ask', {DRAWN.format(word)})")
                    box.press(key)
                    times.append(page.evaluate("window.bench.result"))
        assert not running.foreign, f"the page asked other hosts: {running.foreign}"
    return taken


def in_python(fit: NGram, repeats: int) -> tuple[list[float], dict[str, tuple[int, float]]]:
    """Ask without a page; return ms, and rank and natural log-probability by word."""
    asker, taken = ask(fit), []
    results: dict[str, tuple[int, float]] = {}
    for number, word in enumerate(words(repeats)):
        start = time.perf_counter()
        asker.text = f"Day {number}. {PASSAGE}{word}"
        asker.wait()
        taken.append(1000 * (time.perf_counter() - start))
        row = asker.results().iloc[0]
        results[word] = int(row["rank"]), float(row["log_prob"])
    asker.close()
    return taken, results


def by_loop(fit: NGram, repeats: int) -> tuple[list[float], dict[str, tuple[int, float]]]:
    """Ask KenLM for every word."""
    import kenlm  # type: ignore[import-not-found]  # noqa: PLC0415 - the peer

    model, vocabulary = kenlm.Model(str(fit.binary)), list(fit.vocabulary)
    left = PASSAGE.rpartition(". ")[2].lower().split()
    taken = []
    results: dict[str, tuple[int, float]] = {}
    for word in words(repeats):
        start = time.perf_counter()
        state, after = kenlm.State(), kenlm.State()
        model.BeginSentenceWrite(state)
        for before in left:
            model.BaseScore(state, before, after)
            state, after = after, kenlm.State()
        scores = np.array([model.BaseScore(state, each, after) for each in vocabulary], dtype=np.float32)
        best = np.argsort(-scores, kind="stable")[:10]
        score = np.float32(model.BaseScore(state, word, after))
        rank = 1 + int((scores > score).sum())
        taken.append(1000 * (time.perf_counter() - start))
        assert len(best) == min(10, len(vocabulary))
        results[word] = rank, float(score) * float(np.log(10))
    return taken, results


def causal(path: str, vocabulary: Any, repeats: int) -> None:
    """Ask a causal model, and print seconds of the processor beside those of a plain loop."""
    import torch  # noqa: PLC0415 - slow
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415 - slow

    from workbench.models.pretrained.causal import CausalLM  # noqa: PLC0415 - slow

    model = CausalLM(path, vocabulary=vocabulary, device="cpu")
    tokenizer: Any = AutoTokenizer.from_pretrained(path)
    network: Any = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)

    def plain(text: str) -> float:
        """Return the log-probability of the last word, without that of its end."""
        context, _, word = text.rpartition(" ")
        ids = tokenizer([context, f" {word}"], add_special_tokens=False)["input_ids"]
        with torch.inference_mode():
            logits = network(torch.tensor([ids[0] + ids[1]])).logits[0].log_softmax(-1)
        return sum(float(logits[len(ids[0]) - 1 + n, token]) for n, token in enumerate(ids[1]))

    n_words = len(model.vocabulary or ())
    print(f"\n{model.name}, {n_words:,} words; seconds of the processor, the least of {repeats}")
    for name, state in QUESTIONS.items():
        question = read_question(state)
        times: list[tuple[float, ...]] = []
        for _ in range(repeats):
            start = time.process_time()
            steps = [(time.process_time() - start, a) for a in answers(model, question, top_k=10, seed=0)]
            start = time.process_time()
            for item in question.items:
                plain(item.text)
            times.append((steps[0][0], steps[-1][0], time.process_time() - start))
        first, whole, theirs = np.min(times, axis=0)
        bounds = sum(bool(reply["rank_is_bound"]) for reply in steps[-1][1].replies.values())
        print(
            f"  {name:28} first {first:6.2f} s, {first / theirs:5.1f} times the plain loop's {theirs:.2f} s"
        )
        print(f"  {'':28} exact {whole:6.2f} s, {whole / theirs:5.1f} times; {bounds} ranks stay bounds")
        peer = "transformers, ln p alone"
        tell(Row(f"{name}, first answer", first, "s", peer=peer, theirs=theirs))
        tell(Row(f"{name}, exact ranks", whole, "s", peer=peer, theirs=theirs))


def report(name: str, taken: list[float]) -> float:
    """Print median and range; return the median."""
    median = statistics.median(taken)
    print(f"{name:44}{len(taken):4}{median:10.1f}{np.percentile(taken, 95):10.1f}{max(taken):10.1f}")
    return median


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, help="folder of a model that was fitted before")
    parser.add_argument("--texts", type=Path, help="books to fit one on")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--vocabulary", type=int, default=60_000)
    parser.add_argument("--causal", help="folder or name of a causal model to ask, too")
    options = parser.parse_args()
    if options.model:
        fit = NGram(options.model)
    else:
        texts: Any = Corpus.of(novels(options.texts))
        fit = NGram.fit(texts, order=options.order, vocabulary=options.vocabulary)
    grams = ", ".join(f"{n:,}" for n in fit.info["report"]["n_grams"])
    print(f"{fit.name}, {len(fit.vocabulary):,} words; n-grams by order: {grams}")
    print(f"kenlm {version('kenlm')}; {os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f} before")
    page = in_the_page(fit, options.repeats)
    python, ours = in_python(fit, options.repeats)
    loop, theirs = by_loop(fit, options.repeats)
    known = [word for word in ours if word in fit.model.index]
    for word in known:
        assert ours[word][0] == theirs[word][0], f"the rank of {word!r} differs from KenLM's"
        assert abs(ours[word][1] - theirs[word][1]) < 1e-5, f"the probability of {word!r} differs"  # noqa: PLR2004
    print(f"and {os.getloadavg()[0]:.2f} after; {len(known)} ranks are equal to KenLM's; times in ms\n")
    print(f"{'':44}{'n':>4}{'median':>10}{'p95':>10}{'max':>10}")
    medians = {name: report(f"page: {name}", taken) for name, taken in page.items()}
    medians["Python"] = report("Python: .text set, until .wait() returns", python)
    one = report("KenLM's module, a loop over the words", loop)
    print("\nKenLM's loop alone, in times of:")
    for name, median in medians.items():
        print(f"  {name:30}{one / median:6.2f}")
        tell(Row(name, median, "ms", peer="KenLM, a loop over the words", theirs=one))
    if options.causal:
        causal(options.causal, fit.vocabulary, min(options.repeats, 3))


if __name__ == "__main__":
    main()
