"""How quick the linked view is in a real JupyterLab: from a click on a bar to the passages.

    python benchmarks/exploring.py [--items 15000] [--repeats 20]

Times are taken in the page, as in ``benchmarks/browser.py``: from the time stamp of the click
(or key) until the frame after the change. The items are LAMBADA's development set, where
$WORKBENCH_DATA holds it, else the sample, repeated under new ids; the annotations are drawn by lot.

The goals, on two cores: first paint under 1 s, a click under 200 ms.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

import numpy as np
from _lab import Notebook, chromium, guarded, lab
from _report import Row, tell
from _trial import Subject, Trial
from browser import many

LOAD = """import numpy as np, pandas as pd
import workbench as wb
items = wb.Items.from_parquet("items.parquet")
random, n = np.random.default_rng(1), len(items)
mentioned = pd.array(random.random(n) < 0.8, dtype="boolean")
distance = pd.array(random.geometric(0.03, n), dtype="Int64")
distance[~mentioned.astype(bool)] = pd.NA
annotations = pd.DataFrame({
    "item_id": items.frame["item_id"], "target_class": random.choice(list("PCVJRO"), n),
    "lemma_in_context": mentioned, "direct_speech": pd.array(random.random(n) < 0.7, dtype="boolean"),
    "mention_distance": distance, "n_tokens": pd.array(random.integers(51, 200, n), dtype="Int64"),
    "target_lemma": random.choice([f"lemma{i}" for i in range(3000)], n),
    "mentions": [[(0, 3), (5, 7)]] * n, "speech": [[(0, 20)]] * n,
})
"""
SUBJECT = Subject(
    "wb.explore", LOAD, "import workbench.widgets.explore.explore",
    "from workbench.widgets.explore.explore import explore\nexplore(items, annotations)",
    """document.querySelector(".we-bin") && document.querySelector(".wb-row .wb-snippet:not(.wb-hint)")""",
)  # fmt: skip
COUNT, SAID = ".wb-count", ".we-charts .wb-said"
PAINT = "first paint, imported"
GOALS = {PAINT: 1000.0, "click": 200.0}  # ms


def measure(trial: Trial, repeats: int) -> None:
    """Click, drag and steer by key."""
    page = trial.page
    for name, watched in (
        ("click, until the passages change", COUNT),
        ("click, until the bar is marked", SAID),
    ):
        for number in range(repeats):
            row = page.locator("[data-chart=target_class] .we-row").nth(number % 6)
            trial.time(name, row.click, "click", watched)
            trial.notebook.ready()
    page.locator(".wb-search").fill("the")
    trial.notebook.ready()
    for number in range(repeats):
        row = page.locator("[data-chart=lemma_in_context] .we-row").nth(number % 2)
        trial.time("click beside a search", row.click, "click", COUNT)
        trial.notebook.ready()
    page.locator(".we-head > .wb-button", has_text="Clear").click()
    trial.notebook.ready()
    page.locator("[data-chart=n_tokens] [role=slider]").first.focus()
    for _ in range(repeats):
        trial.time("key at a range", lambda: page.keyboard.press("ArrowRight"), "keydown", COUNT)
        trial.notebook.ready()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=15_000)
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    items = many(options.items)
    print(f"{items!r}\n{os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f} before")
    with tempfile.TemporaryDirectory() as base, lab(Path(base)) as running, chromium() as browser:
        items.to_parquet(running.folder / "items.parquet")
        with guarded(browser, running) as page:
            trial = Trial(Notebook(page, running), SUBJECT)
            trial.open(warm=True)
            trial.first_paint(PAINT)
            saved = trial.saved_kb()
            measure(trial, options.repeats)
            trial.close()
        assert not running.foreign, f"the page asked other hosts: {running.foreign}"
    print(f"and {os.getloadavg()[0]:.2f} after; the saved notebook grows by {saved:.1f} KB; times in ms\n")
    print(f"{'':36}{'n':>5}{'median':>10}{'p95':>10}{'max':>10}")
    for name, taken in trial.taken.items():
        print(
            f"{name:36}{len(taken):5}{np.median(taken):10.1f}"
            f"{np.percentile(taken, 95):10.1f}{max(taken):10.1f}"
        )
        goal = GOALS.get(name, GOALS["click"])
        tell(Row(f"{name}, p95", float(np.percentile(taken, 95)), "ms", goal=goal))


if __name__ == "__main__":
    main()
