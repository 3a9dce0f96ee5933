"""What a long session costs: memory of kernel and page over many clicks, and over re-runs of the cell.

    python benchmarks/long_use.py [--clicks 500] [--runs 50] [--widgets browse explore ask compare]

Each widget shows LAMBADA's development set (where $WORKBENCH_DATA holds it, else the sample) in a real
JupyterLab. Clicks and keys go round a list of all that a reader does; the round ends where it began, so
whatever grows from round to round is a leak. Then the cell that shows the widget is run again and again.

Of the kernel: memory (PSS), objects that Python tracks, those of the workbench, widgets, comms, threads and
open files, after a collection of garbage. Of the page, after one: the heap of its scripts, DOM nodes,
listeners and documents. At the end: what a click added on average after the first fifth of them, what a run
added after the first fifth of them, and the size of the saved notebook.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from _lab import Notebook, chromium, guarded, lab
from _trial import HELPERS, Subject, Trial
from browser import BROWSER_READY, many
from comparing import FIRST, READY, runs
from playwright.sync_api import CDPSession

from workbench.datasets.books import books
from workbench.models.ngram.model import NGram

MODELS = 4
ITEMS = 4869
Act = tuple[str, ...]
"""("click", selector), ("key", selector, key), ("fill", selector, text) or ("select", selector, value)."""

LIST = ".wb-list"
SEARCH: list[Act] = [
    ("fill", ".wb-search", "house"), ("fill", ".wb-search", "said"), ("key", ".wb-search", "ArrowDown"),
    ("key", LIST, "j"), ("key", LIST, " "), ("key", LIST, " "), ("key", LIST, "End"), ("key", LIST, "Home"),
    ("fill", ".wb-search", ""),
]  # fmt: skip
BROWSE: list[Act] = [
    *SEARCH, *[("key", LIST, key) for key in ("j", "PageDown", "k", "End", "Home", "x", "j", "x", "Escape")],
    ("select", ".wb-field", "answer"), ("fill", ".wb-search", "ing"), ("fill", ".wb-search", ""),
    ("select", ".wb-field", "passage"),
    ("click", ".wb-facet[data-name=target_class]"), ("click", ".wb-chip >> nth=0"),
    ("click", ".wb-chip >> nth=1"), ("click", ".wb-exclude"), ("key", ".wb-panel button >> nth=0", "Escape"),
    ("click", ".wb-facet[data-name=n_tokens]"), ("fill", ".wb-range input >> nth=0", "60"),
    ("fill", ".wb-range input >> nth=1", "90"), ("key", ".wb-range input >> nth=1", "Escape"),
    ("click", "button:text-is('Clear') >> nth=0"),
    ("fill", ".wb-line", "n_tokens > 60 and not direct_speech"), ("key", ".wb-line", "Enter"),
    ("fill", ".wb-line", ""), ("key", ".wb-line", "Enter"),
    ("select", ".wb-sort", "n_tokens"), ("click", ".wb-sorting button"), ("select", ".wb-sort", ""),
    ("click", "button:text-is('Table')"), ("key", LIST, "End"), ("key", LIST, "Home"),
    ("click", "button:text-is('Table')"), ("click", "button:text-is('Show targets')"),
    ("click", "button:text-is('Show targets')"), ("key", LIST, "?"), ("key", ".wb-panel button", "Escape"),
    ("key", LIST, "t"), ("fill", ".wb-panel input", "seen"), ("key", ".wb-panel input", "Enter"),
    ("key", LIST, "1"), ("key", LIST, "n"), ("fill", ".wb-panel textarea", "a note"),
    ("key", ".wb-panel textarea", "Control+Enter"), ("key", LIST, "n"), ("fill", ".wb-panel textarea", ""),
    ("key", ".wb-panel textarea", "Control+Enter"), ("click", ".wb-row >> nth=2"), ("key", LIST, "Home"),
    ("click", "button:text-is('Download')"), ("click", ".wb-panel button:text-is('CSV')"),
]  # fmt: skip
EXPLORE: list[Act] = [
    *[("click", f"[data-chart=target_class] .we-row >> nth={place}") for place in (0, 1, 2, 2)],
    ("click", "[data-chart=direct_speech] .we-row >> nth=0"),
    *[("key", "[data-chart=n_tokens] [role=slider] >> nth=0", key) for key in ("ArrowRight", "Home")],
    ("click", "[data-chart=n_tokens] .we-plot"), ("click", "[data-chart=mention_distance] .we-plot"),
    ("click", ".wb-choice >> nth=0"), ("click", ".we-head > .wb-button"), *SEARCH,
    ("fill", ".wb-line", "target_class = V"), ("key", ".wb-line", "Enter"),
    ("click", ".we-head > .wb-button"),
]  # fmt: skip
PASSAGES = [f"It was late. Nobody but the {word} knew of the" for word in ("boy", "house", "keeper", "sea")]
ASK: list[Act] = [
    *[act for text in PASSAGES for act in (
        ("fill", ".wa-text >> nth=0", f"{text} letter"), ("key", ".wa-text >> nth=0", "Control+Enter"),
        ("fill", ".wa-line >> nth=0", "house"), ("key", ".wa-line >> nth=0", "Enter"),
        ("fill", ".wa-line >> nth=1", "house|letter|sea"), ("key", ".wa-line >> nth=1", "Enter"),
        ("fill", ".wa-line >> nth=1", ""), ("fill", ".wa-line >> nth=0", ""),
        ("click", "button:text-is('Keep')"),
    )],
    ("click", "button:text-is('Minimal pair')"), ("fill", ".wa-text >> nth=1", f"{PASSAGES[0]} sea"),
    ("click", "button:text-is('Minimal pair')"), ("click", ".wa-past:has-text('boy') >> nth=0"),
    ("click", ".wa-past:has-text('keeper') >> nth=0"),
]  # fmt: skip
COMPARE: list[Act] = [
    *[("click", f"[data-pair={pair}]") for pair in ("AB", "BA", "DC", "DC")],
    *[("click", f".wc-group >> nth={place}") for place in (0, 1, 1)],
    *[("select", ".wb-sort", value) for value in ("all wrong", "difference", "disagreement", "")],
    ("click", ".wb-row >> nth=2"),
    *[("key", ".wb-list", key) for key in ("j", "PageDown", "End", "Home", "k")],
    *[("select", ".wc-column", value) for value in ("mention_distance", "n_tokens", "target_class")],
    *[("click", f".wc-models input >> nth={place}") for place in (0, 1, 0, 1)],
    ("fill", ".wb-search", "house"), ("fill", ".wb-search", ""),
    ("fill", ".wb-line", "n_tokens > 60"), ("key", ".wb-line", "Enter"),
    ("fill", ".wb-line", ""), ("key", ".wb-line", "Enter"), ("click", ".wc-swap"),
    ("click", "[data-pair=AC]"),
    ("click", ".wc-swap"), ("click", ".wc-clear"), ("key", ".wb-list", "?"),
    ("key", ".wc-ask-keys", "Escape"),
]  # fmt: skip

DRAWN = FIRST.split("runs = ")[0] + FIRST[FIRST.index("random, n") :]  # items and annotations
SUBJECTS = {
    "browse": (BROWSE, ".wb-browser",
               Subject("long browse", DRAWN, "wb.browse", "wb.browse(items, annotations)", BROWSER_READY)),
    "explore": (EXPLORE, ".we-charts",
                Subject("long explore", DRAWN, "wb.explore", "wb.explore(items, annotations)",
                        BROWSER_READY)),
    "ask": (ASK, ".wa-ask",
            Subject("long ask", "import workbench as wb\nfrom workbench.models.ngram.model import NGram\n"
                    "models = [NGram(MODEL), NGram(MODEL)]", "wb.ask", "wb.ask(models)",
                    "document.querySelector('.wa-ask[data-state=empty]')")),
    "compare": (COMPARE, ".wc-compare",
                Subject("long compare", FIRST.replace("MODELS", str(MODELS)), "wb.compare",
                        "wb.compare(items, runs, annotations)",
                        f"{READY}\n&& document.querySelector('.wc-cell')")),
}  # fmt: skip
IDLE = """() => [...document.querySelectorAll(".wb-browser, .we-charts, .wa-ask, .wc-compare")]
    .every((node) => !node.dataset.waits && !/typing|thinking/.test(node.dataset.state ?? ""))"""
KERNEL = """
import gc, json, os, threading
from pathlib import Path
import comm, ipywidgets
for _ in range(3): gc.collect()
_kinds = [type(each).__module__ or "" for each in gc.get_objects()]
print(json.dumps({
    "PSS, MB": int(Path("/proc/self/smaps_rollup").read_text().split("Pss:")[1].split()[0]) / 1024,
    "objects": len(_kinds), "workbench": sum(str(kind).startswith("workbench") for kind in _kinds),
    "widgets": len(ipywidgets.widgets.widget._instances), "comms": len(comm.get_comm_manager().comms),
    "threads": threading.active_count(), "files": len(os.listdir("/proc/self/fd")),
}))
del _kinds
"""
PAGE = {
    "heap, MB": "JSHeapUsedSize",
    "nodes": "Nodes",
    "listeners": "JSEventListeners",
    "documents": "Documents",
}


def act(notebook: Notebook, what: Act) -> None:
    """Click, press or fill, and wait until kernel and page are at rest."""
    how, selector, *value = what
    place = notebook.page.locator(f".jp-Notebook {selector}").first
    ways: dict[str, Any] = {
        "click": place.click, "key": place.press, "fill": place.fill, "select": place.select_option
    }  # fmt: skip
    ways[how](*value)
    notebook.page.wait_for_function(IDLE)


def measure(notebook: Notebook, cdp: CDPSession) -> dict[str, float]:
    """Return the numbers of kernel and page, after a collection of garbage."""
    notebook.ready()
    numbers: dict[str, float] = json.loads(notebook.evaluate(KERNEL))
    cdp.send("HeapProfiler.collectGarbage")
    metrics = {each["name"]: each["value"] for each in cdp.send("Performance.getMetrics")["metrics"]}
    return numbers | {name: metrics[key] / (2**20 if "MB" in name else 1) for name, key in PAGE.items()}


def table(unit: str, step: int, rows: list[dict[str, float]]) -> None:
    """Print the measures, and what one click or run added after the first step."""
    print(f"{unit:>18}" + "".join(f"{name:>11}" for name in rows[0]))
    for number, row in enumerate(rows):
        print(f"{number * step:18}" + "".join(f"{value:11.1f}" for value in row.values()))
    if len(rows) > 2:  # noqa: PLR2004 - two at least after the first step
        n = (len(rows) - 2) * step
        growth = [(last - first) / n for first, last in zip(rows[1].values(), rows[-1].values(), strict=True)]
        print(f"{'growth each':>18}" + "".join(f"{value:11.3f}" for value in growth), flush=True)


def again(trial: Trial, root: str) -> None:
    """Run the cell again, and wait for a new view."""
    page = trial.page
    page.evaluate(
        "(root) => document.querySelectorAll(root).forEach((node) => node.classList.add('old'))", root
    )
    trial.notebook.command("notebook:run-cell")
    # a truth value: what is returned, such as a node, would be kept for this script
    page.wait_for_function(f"() => !document.querySelector('.old') && Boolean({trial.subject.ready})")
    page.wait_for_function(IDLE)


def session(trial: Trial, acts: list[Act], root: str, clicks: int, times: int) -> None:
    """Use one widget for long, then run its cell again and again."""
    cdp = trial.page.context.new_cdp_session(trial.page)
    cdp.send("Performance.enable")
    trial.open(warm=True)
    trial.page.evaluate(HELPERS)
    trial.first_paint("first paint")
    trial.page.wait_for_function(IDLE)

    def repeat(unit: str, total: int, one: Callable[[int], Any]) -> None:
        step, rows = max(1, total // 5), [measure(trial.notebook, cdp)]
        for number in range(total):
            one(number)
            if (number + 1) % step == 0:
                rows.append(measure(trial.notebook, cdp))
        table(unit, step, rows)

    clicks -= clicks % (5 * len(acts)) if clicks > 5 * len(acts) else 0  # whole rounds between measures
    repeat(
        f"{trial.subject.name}: clicks", clicks, lambda number: act(trial.notebook, acts[number % len(acts)])
    )
    repeat("runs of the cell", times, lambda _number: again(trial, root))
    print(f"the saved notebook grew by {trial.saved_kb():.1f} KB\n", flush=True)
    trial.close()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clicks", type=int, default=500)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--widgets", nargs="+", choices=SUBJECTS, default=list(SUBJECTS))
    options = parser.parse_args()
    items = many(ITEMS)
    print(f"{items!r}\n{os.cpu_count()} cores, load average {os.getloadavg()[0]:.2f} before\n")
    with tempfile.TemporaryDirectory() as base, lab(Path(base)) as running, chromium() as browser:
        os.environ["WORKBENCH_HOME"] = str(running.home)
        items.to_parquet(running.folder / "items.parquet")
        runs(items, MODELS)
        model = NGram.fit(list(books("sample")), order=3, vocabulary=2000).folder
        for name in options.widgets:
            acts, root, named = SUBJECTS[name]
            subject = replace(named, load=named.load.replace("MODEL)", f"{str(model)!r})"))
            with guarded(browser, running) as page:
                trial = Trial(Notebook(page, running), subject)
                session(trial, acts, root, options.clicks, options.runs)
        assert not running.foreign, f"the page asked other hosts: {running.foreign}"


if __name__ == "__main__":
    main()
