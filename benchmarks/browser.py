"""How quick the passage browser is in a real JupyterLab, beside itables on the same items.

    python benchmarks/browser.py [--items 15000] [--repeats 20] [--cold 5] [--json out.json]

Times are taken in the page: from the event (the browser's own time stamp of the key or click; for
a first paint, the call that runs the cell) until the frame after the change was handed over for
painting. The items are LAMBADA's development set, where $WORKBENCH_DATA holds it, else the sample,
repeated under new ids. itables gets all rows (maxBytes=0), else it would cut the table.

The goals, on two cores: first paint under 1 s, any key or click under 100 ms, and a saved
notebook that grows by less than 50 KB.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
from _lab import Lab, Notebook, chromium, guarded, lab
from _report import Row, tell
from _trial import Subject, Trial
from nbclient import NotebookClient

import workbench as wb

WORDS = ["remember", "question", "children", "building", "together"]
REGEX = "said.*she?"  # every beginning of it is a regular expression, too
LOAD = 'import workbench as wb\nitems = wb.Items.from_parquet("items.parquet")\n'
NOTED = """import pandas as pd
texts = items.frame["text"].str
annotations = pd.DataFrame({"item_id": items.frame["item_id"], "n_tokens": texts.split().str.len(),
    "first_letter": texts[0], "speech": texts.contains("``", regex=False)})
"""

BROWSER_READY = """document.querySelector(".wb-row .wb-snippet:not(.wb-hint)")
    && document.querySelector(".wb-query")?.textContent"""
TABLE_READY = """document.querySelectorAll(".dt-container tbody td").length > 10
    && /of [\\d,]+ /.test(document.querySelector(".dt-info")?.textContent)"""
FRAME = 'frame = items.frame[["item_id", "dataset", "split", "variant", "text", "answer"]]\n'
BROWSE = Subject(
    "wb.browse", LOAD, "import workbench.widgets.browser.browser", "wb.browse(items)", BROWSER_READY
)
ITABLE = Subject(
    "ITable", LOAD + FRAME, "import itables.widget",
    "from itables.widget import ITable\nITable(frame, maxBytes=0)", TABLE_READY,
)  # fmt: skip
SHOW = Subject(  # its library has to be in the notebook beforehand, so no first paint is cold
    "itables.show", LOAD + FRAME + "import itables\nitables.init_notebook_mode(connected=False)", "pass",
    "itables.show(frame, maxBytes=0, connected=False)", TABLE_READY,
)  # fmt: skip
ANNOTATED = Subject(
    "wb.browse annotated", LOAD + NOTED, BROWSE.imports, "wb.browse(items, annotations)", BROWSER_READY
)
SUBJECTS = (BROWSE, ITABLE, SHOW, ANNOTATED)


RESET = ".wb-button[title='Remove search and filters']"
JUMP = """() => {
    const list = document.querySelector(".wb-list");
    list.dispatchEvent(new Event("go")); // the start of the time
    list.scrollTop = 1e9;
}"""
GOALS = {"first paint": 1000.0, "saved notebook": 50.0, "": 100.0}


def many(n: int) -> wb.Items:
    """Return `n` items: a whole development set over and over, each time with new ids."""
    try:
        frame = wb.load("lambada", "dev").frame
    except wb.DataError:
        frame = wb.load("sample").frame
    frame = pd.concat([frame] * (n // len(frame) + 1), ignore_index=True).head(n)
    frame["item_id"] = [f"bench/dev/{number:06d}" for number in range(n)]
    return wb.Items(frame)


def use_browser(trial: Trial, repeats: int) -> None:
    """Search, filter and read in the passage browser."""
    page, count, last = trial.page, ".wb-count", 'document.querySelector(".wb-spacer").lastChild'
    press = page.keyboard.press
    page.locator(".wb-search").focus()
    for number in range(repeats):
        trial.keys("key in the search", WORDS[number % len(WORDS)], count)
    page.locator(".wb-button", has_text=".*").click()
    page.locator(".wb-search").focus()
    for _ in range(repeats):
        trial.keys("key in a regex", REGEX, count)
    page.locator(".wb-button", has_text=".*").click()
    for name in ("first_letter", "speech"):
        page.locator(f".wb-facet[data-name={name}]").click()
        for number in range(repeats):
            chip = page.locator(".wb-chip").nth(number % page.locator(".wb-chip").count())
            trial.time("click on a choice", chip.click, "click", count)
        press("Escape")
        page.locator(RESET).click()
    page.locator(".wb-facet[data-name=n_tokens]").click()
    box = page.locator(".wb-range input").first
    for number in range(repeats):
        box.focus()
        trial.keys("key in a range", str(60 + number), count)
    press("Escape")
    page.locator(".wb-list").focus()
    for _ in range(repeats):
        trial.time("j", lambda: press("j"), "keydown", ".wb-passage")
        trial.time("space", lambda: press(" "), "keydown", ".wb-passage")
    for _ in range(repeats):
        trial.time("reset", page.locator(RESET).click, "click", count)
        shown = f"{last}.ariaPosInSet === {last}.ariaSetSize && {last}.querySelector('.wb-id')"
        trial.time("jump to the end", lambda: page.evaluate(JUMP), "go", ".wb-spacer", shown)


def use_table(trial: Trial, repeats: int) -> None:
    """Search and page in a table of itables."""
    page, rows = trial.page, ".dt-container tbody"
    for number in range(repeats):
        page.locator(".dt-search input").focus()
        trial.keys("key in the search", WORDS[number % len(WORDS)], rows)
    for _ in range(repeats):
        trial.time("jump to the end", page.locator(".dt-paging-button.last").click, "click", rows)
        trial.time("back to the start", page.locator(".dt-paging-button.first").click, "click", rows)


def with_state_kb(subject: Subject, folder: Path) -> float:
    """Return the KB by which a notebook grows that nbclient runs and saves with the widgets' state."""
    path = folder / "state.ipynb"
    notebook = nbformat.read(folder / f"{subject.name}.ipynb", 4)  # type: ignore[no-untyped-call]
    sizes = []
    for run in (False, True):
        for cell in notebook.cells:
            cell.outputs = []
        notebook.metadata.pop("widgets", None)
        if run:
            NotebookClient(
                notebook, store_widget_state=True, timeout=300, resources={"metadata": {"path": str(folder)}}
            ).execute()
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        sizes.append(path.stat().st_size / 1000)
    return sizes[1] - sizes[0]


def measure(running: Lab, notebook: Notebook, cold: int, repeats: int) -> dict[str, dict[str, list[float]]]:
    """Measure all subjects; return the values, in ms or KB, by measure and subject."""
    results: dict[str, dict[str, list[float]]] = {}
    trials = [Trial(notebook, subject) for subject in SUBJECTS]
    for _ in range(cold):  # in turn, so that what else the machine does meets all of them
        for trial in trials:
            for name in ("cold", "imported") if trial.subject is not SHOW else ("imported",):
                trial.open(warm=name == "imported")
                trial.first_paint(f"first paint, {name}")
                trial.close()
    for trial in trials:
        trial.open(warm=True)
        for _ in range(repeats):
            trial.first_paint("first paint, again")
            trial.again()
        trial.first_paint("first paint, again")
        kb = {"saved notebook, KB": trial.saved_kb()}
        if trial.subject is ANNOTATED:  # with more facets to count than the bare one
            use_browser(trial, repeats)
        elif trial.subject is not BROWSE:
            use_table(trial, repeats)
        trial.close()
        kb["saved notebook with widget state, KB"] = with_state_kb(trial.subject, running.folder)
        for name, taken in (trial.taken | {name: [value] for name, value in kb.items()}).items():
            results.setdefault(name, {})[trial.subject.name] = taken
    return results


def report(results: dict[str, dict[str, list[float]]]) -> None:
    """Print each measure as median, 95th percentile and maximum; then ours beside the others."""
    print(f"{'':38}{'':22}{'n':>5}{'median':>10}{'p95':>10}{'max':>10}{'ours : it':>12}")
    for name, by_subject in results.items():
        goal = next(goal for start, goal in GOALS.items() if name.startswith(start))
        ours = next((s.name for s in (BROWSE, ANNOTATED) if s.name in by_subject), "")
        for number, (subject, taken) in enumerate(by_subject.items()):
            middle, p95, most = np.median(taken), np.percentile(taken, 95), max(taken)
            is_ours = subject.startswith("wb.")
            ratio = "" if is_ours or not ours else f"{np.median(by_subject[ours]) / middle:.3f}"
            verdict = (
                ("" if most <= goal else "  max over goal" if p95 <= goal else "  GOAL MISSED")
                if is_ours
                else ""
            )
            print(
                f"{name if not number else '':38}{subject:22}{len(taken):5}"
                f"{middle:10.1f}{p95:10.1f}{most:10.1f}{ratio:>12}{verdict}"
            )
        if ours:
            high = {subject: float(np.percentile(taken, 95)) for subject, taken in by_subject.items()}
            work, unit = (name.removesuffix(", KB"), "KB") if name.endswith("KB") else (f"{name}, p95", "ms")
            tell(Row(work, high[ours], unit, peer="itables", theirs=high.get(ITABLE.name), goal=goal))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=15_000)
    parser.add_argument("--repeats", type=int, default=20, help="repeats of everything in an open page")
    parser.add_argument("--cold", type=int, default=5, help="first paints with a new page and kernel")
    parser.add_argument("--json", type=Path, help="file for every single value")
    options = parser.parse_args()
    items = many(options.items)
    print(f"{items!r}\n{os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f} before")
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as base, lab(Path(base)) as running, chromium() as browser:
        items.to_parquet(running.folder / "items.parquet")
        with guarded(browser, running) as page:
            results = measure(running, Notebook(page, running), options.cold, options.repeats)
        assert not running.foreign, f"the page asked other hosts: {running.foreign}"
    print(f"and {os.getloadavg()[0]:.2f} after, {time.perf_counter() - start:.0f} s; times in ms\n")
    report(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
