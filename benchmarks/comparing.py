"""How quick the comparison of models is in a real JupyterLab, beside pandas on the same predictions.

    python benchmarks/comparing.py [--models 20] [--items 15000] [--repeats 10]

Times are taken in the page, as in ``benchmarks/browser.py``: from the call that runs the cell, or the time
stamp of the click or key, until the frame after the change. The items are LAMBADA's development set, where
$WORKBENCH_DATA holds it, else the sample, repeated under new ids; predictions and annotations are drawn by
lot, with ten words and log-probabilities in every row, and are kept as runs before.

The peer is what one writes by hand with pandas, in the same kernel: reading the same runs, one merged table
of what is right, the accuracies, and the HTML of the first 40 of the items that one model has right and
another wrong. It computes no interval and no test, shows no passage and cannot be clicked.

The goals, on two cores: first paint under 2 s, any click under 150 ms.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from _lab import Notebook, chromium, guarded, lab
from _report import Row, tell
from _trial import Subject, Trial
from browser import many

import workbench as wb
from workbench.predictions import schema
from workbench.predictions import store as results

WORDS = 10
PAINT, CELL = "first paint, imported", "cell, until the items change"
GOALS = {PAINT: 2000.0, "click": 150.0}  # ms
FIRST = """import numpy as np, pandas as pd
import workbench as wb
from workbench.predictions.store import find_run
items = wb.Items.from_parquet("items.parquet")
runs = [find_run(f"bench-{k}") for k in range(MODELS)]
random, n = np.random.default_rng(1), len(items)
annotations = pd.DataFrame({
    "item_id": items.frame["item_id"], "target_class": random.choice(["PN", "CN", "V", "J", "R", "O"], n),
    "direct_speech": pd.array(random.random(n) < 0.7, dtype="boolean"),
    "mention_distance": pd.array(random.geometric(0.03, n), dtype="Int64"),
    "n_tokens": pd.array(random.integers(51, 200, n), dtype="Int64"),
})
"""
SHOW = "from workbench import compare\nwidget = compare(items, runs, annotations)\nwidget"
READY = """document.querySelector(".wb-row .wc-mark") && document.querySelector(".wc-card li")"""
PEER = """def by_hand():
    import time
    start = time.perf_counter()
    table = None
    for k, run in enumerate(runs):
        part = run.predictions[["item_id", "prediction", "correct", "rank", "log_prob"]]
        part = part.rename(columns={c: f"{c} {k}" for c in part.columns if c != "item_id"})
        table = part if table is None else table.merge(part, on="item_id")
    shares = table[[f"correct {k}" for k in range(len(runs))]].mean()
    merged = time.perf_counter()
    differing = table[(table["correct 1"] & ~table["correct 0"]).astype(bool)]
    differing.head(40).to_html()
    return 1000 * (merged - start), 1000 * (time.perf_counter() - merged)
"""


def runs(items: wb.Items, models: int) -> None:
    """Keep runs of models that are right more and more often."""
    frame = items.frame
    answers = frame["answer"].to_numpy(dtype=object)
    vocabulary = np.array([f"word{k}" for k in range(5000)], dtype=object)
    n = len(frame)
    for k in range(models):
        random = np.random.default_rng([7, k])
        right = random.random(n) < 0.1 + 0.5 * k / models
        words = vocabulary[random.integers(0, len(vocabulary), (n, WORDS))]
        words[right, 0] = answers[right]
        rows = frame[["item_id", "dataset", "split", "variant", "word_class", "book_id", "answer"]].assign(
            model=f"model {k}", system=None, run="", prediction=words[:, 0], correct=right,
            p_correct=right.astype(float), score_type="log_prob", log_prob=-random.gamma(3, 2, n),
            rank=np.where(right, 1, random.integers(2, 20_000, n)), n_tied=1, n_choices=60_000, known=True,
            top_words=words.tolist(),
            top_log_probs=np.sort(-random.gamma(3, 1, (n, WORDS)))[:, ::-1].tolist(),
            candidate_scores=None, unit="word", filter="none", vocabulary_size=60_000, unknown="shared",
        )  # fmt: skip
        results.keep(items, schema.check_predictions(pd.DataFrame(rows)), name=f"bench-{k}")


def measure(trial: Trial, repeats: int, models: int) -> None:
    """Click cells, bars, orders and rows, and page down."""
    page = trial.page
    last = chr(ord("A") + min(models, 26) - 1)
    pairs = [f"{a}{b}" for a in last + chr(ord(last) - 1) for b in "AB"]

    def timed(name: str, act: object, event: str, watched: str) -> None:
        trial.time(name, act, event, watched)  # type: ignore[arg-type] # a bound method
        trial.notebook.ready()

    for number in range(repeats):
        cell = page.locator(f"[data-pair={pairs[number % len(pairs)]}]")
        cell.scroll_into_view_if_needed()
        timed(CELL, cell.click, "click", ".wb-spacer")
    for number in range(repeats):
        group = page.locator(".wc-group").nth(number % 3)
        timed("bar, until the items change", group.click, "click", ".wb-spacer")
    page.locator(".wc-clear").click()
    trial.notebook.ready()
    for number in range(repeats):
        sort = page.locator(".wb-sort")
        value = ("all wrong", "difference", "disagreement", "")[number % 4]
        timed("sort", lambda s=sort, v=value: s.select_option(v), "change", ".wb-spacer")
    for number in range(repeats):
        row = page.locator(".wb-row").nth(1 + number % 5)
        timed("row, until the passage changes", row.click, "click", ".wb-passage")
    page.locator(".wb-list").focus()
    for _ in range(repeats):
        timed(
            "page down, until the passage changes",
            lambda: page.keyboard.press("PageDown"),
            "keydown",
            ".wb-passage",
        )
    for number in range(repeats):
        column = page.locator(".wc-column")
        value = ("mention_distance", "n_tokens", "target_class")[number % 3]
        timed("other column", lambda c=column, v=value: c.select_option(v), "change", ".wc-groups")
    for number in range(repeats):
        box = page.locator(".wc-models input").nth(number % models)
        timed("hide a model", box.click, "click", ".wb-spacer")
    page.locator(".wb-search").focus()
    trial.keys("a letter of a search", "house", ".wb-spacer")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, default=20)
    parser.add_argument("--items", type=int, default=15_000)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    items = many(options.items)
    print(f"{options.models} models, {items!r}\n{os.cpu_count()} cores, load {os.getloadavg()[0]:.2f} before")
    load = FIRST.replace("MODELS", str(options.models)) + PEER
    subject = Subject("wb.compare", load, "import workbench.widgets.compare.compare", SHOW, READY)
    with tempfile.TemporaryDirectory() as base, lab(Path(base)) as running, chromium() as browser:
        items.to_parquet(running.folder / "items.parquet")
        os.environ["WORKBENCH_HOME"] = str(running.home)
        runs(items, options.models)
        with guarded(browser, running) as page:
            trial = Trial(Notebook(page, running), subject)
            trial.open(warm=True)
            trial.first_paint(PAINT)
            page.wait_for_selector(".wc-cell")
            saved = trial.saved_kb()
            measure(trial, options.repeats, options.models)
            seconds_by_hand = trial.notebook.evaluate(
                "print(*np.median([by_hand() for _ in range(3)], axis=0))"
            )
            trial.close()
        assert not running.foreign, f"the page asked other hosts: {running.foreign}"
    print(f"and {os.getloadavg()[0]:.2f} after; the saved notebook grows by {saved:.1f} KB; times in ms\n")
    print(f"{'':40}{'n':>5}{'median':>10}{'p95':>10}{'max':>10}")
    paint, click = (float(value) for value in seconds_by_hand.split())
    by_hand = {PAINT: paint, CELL: click}
    for name, taken in trial.taken.items():
        numbers = [float(value) for value in (np.median(taken), np.percentile(taken, 95), max(taken))]
        print(f"{name:40}{len(taken):5}" + "".join(f"{value:10.1f}" for value in numbers))
        goal = GOALS.get(name, GOALS["click"])
        tell(Row(f"{name}, p95", numbers[1], "ms", peer="pandas", theirs=by_hand.get(name), goal=goal))
    first, cell = trial.taken[PAINT][0], float(np.median(trial.taken[CELL]))
    print(
        f"\npandas by hand: {paint:.0f} ms to the accuracies, {click:.1f} ms for a cell's HTML, and no page"
    )
    print(f"ratio, widget to pandas: first paint {first / paint:.2f}, cell {cell / click:.2f}")


if __name__ == "__main__":
    main()
