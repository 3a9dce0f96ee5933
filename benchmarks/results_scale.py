"""What results of many items and models cost: read, measured, ranked, compared, and predicted by a cluster.

    python benchmarks/results_scale.py [--items 20000] [--models 5] [--listed 300] [--predicted 3000]

The items are those of ``benchmarks/browser.py``; predictions are drawn by lot, as in
``benchmarks/comparing.py``, with ten words and log-probabilities in every row. Each step runs in a process of
its own that has imported what it needs, so its memory is its own; the seconds are those of the processor, all
threads together, as figures of the clock depend on what else runs. The page of ``wb.compare`` is asked
without a browser: ``benchmarks/comparing.py`` has one.

The peer of the measures is what one writes by hand: pandas reads each run's whole table and computes
accuracy, perplexity and median rank, without an interval. The peer of one more model is the first one. The
list is of runs with a hundred items. The cluster has one and two workers on this machine, each with one
thread, and a 3-gram model of the sample.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _report import Row, tell
from _timing import memory
from browser import many
from comparing import runs as keep_runs

import workbench as wb
from workbench.predictions import store
from workbench.storage.paths import data_home

Numbers = dict[str, float]


@contextmanager
def timed(numbers: Numbers, name: str) -> Iterator[None]:
    """Note the seconds of the processor and of the clock."""
    start, clock = time.process_time(), time.perf_counter()
    yield
    numbers[name], numbers[f"{name}, clock"] = time.process_time() - start, time.perf_counter() - clock


def evaluate(numbers: Numbers, names: list[str], folder: Path) -> None:  # noqa: ARG001 - one form for all
    """Measure all models, and the first one alone."""
    import_module("workbench.evaluation.metrics")  # not a part of the time

    with timed(numbers, "one"):
        wb.evaluate(names[0])
    with timed(numbers, "all"):
        wb.evaluate(names)


def leaderboard(numbers: Numbers, names: list[str], folder: Path) -> None:  # noqa: ARG001 - as above
    """Rank all models, of which nothing is in the cache."""
    import_module("workbench.evaluation.leaderboard")

    with timed(numbers, "all"):
        wb.leaderboard(published=False)


def pandas(numbers: Numbers, names: list[str], folder: Path) -> None:  # noqa: ARG001 - as above
    """Do by hand what `evaluate` does, without intervals."""
    with timed(numbers, "all"):
        rows = []
        for name in names:
            frame = pd.read_parquet(data_home() / "runs" / name / "predictions.parquet")
            perplexity = np.exp(-frame["log_prob"].mean())
            rows.append((name, frame["correct"].mean(), perplexity, frame["rank"].median()))
        pd.DataFrame(rows)


def compare(numbers: Numbers, names: list[str], folder: Path) -> None:
    """Make the view, answer the page, and click."""
    from workbench.widgets.compare.compare import Compare  # noqa: PLC0415 - as above

    Compare.send = lambda *_args, **_options: None  # type: ignore[method-assign] # nobody is there
    items = wb.Items.from_parquet(folder / "items.parquet")
    with timed(numbers, "first paint"):
        view = wb.compare(items, names, None)
        view._handle_message(view, {"type": "open", "request": "a"}, [])  # noqa: SLF001 - what the page sends
    with timed(numbers, "all pairs"):
        view._handle_message(view, {"type": "measure"}, [])  # noqa: SLF001 - as above
        if view._measuring is not None and view._measuring.is_alive():  # noqa: SLF001 - as above
            view._measuring.join()  # noqa: SLF001 - as above
    labels = view.comparison.labels
    clicks: list[dict[str, Any]] = [
        *(
            {
                "type": "query",
                "request": "a",
                "state": {"facets": {f"{labels[-1]}: correct": [True], f"{other}: correct": [False]}},
            }
            for other in labels[:2]
        ),
        {"type": "query", "state": {"facets": {}, "sort": "disagreement"}, "request": "a"},
        {"type": "show", "index": len(items) // 2, "version": -1},
        {"type": "query", "state": {"where": f'"{labels[0]}: rank" <= 10', "sort": ""}, "request": "a"},
    ]
    for number, click in enumerate(clicks):
        if click["type"] == "show":
            click["version"] = view._listing.version  # noqa: SLF001 - as above
        with timed(numbers, f"click {number}"):
            view._handle_message(view, click, [])  # noqa: SLF001 - as above
    numbers["click"] = max(numbers[f"click {number}"] for number in range(len(clicks)))


def listed(numbers: Numbers, names: list[str], folder: Path) -> None:  # noqa: ARG001 - as above
    """List the runs of a store, and rank them by the measures in the cache."""
    import_module("workbench.evaluation.leaderboard")

    with timed(numbers, "runs"):
        store.runs()
    wb.leaderboard(published=False)
    with timed(numbers, "leaderboard"):
        wb.leaderboard(published=False)


def clustered(numbers: Numbers, names: list[str], folder: Path) -> None:  # noqa: ARG001 - as above
    """Predict by one worker and by two."""
    from distributed import Client, LocalCluster  # noqa: PLC0415 - as above

    from workbench.models import NGram  # noqa: PLC0415 - as above

    items = wb.Items.from_parquet(folder / "predicted.parquet")
    model = NGram.fit("sample", order=3)
    for workers in (1, 2):
        options: dict[str, Any] = {"n_workers": workers, "threads_per_worker": 1, "processes": True}
        with LocalCluster(dashboard_address="127.0.0.1:0", **options) as made, Client(made):  # type: ignore[no-untyped-call]
            store.predict(items[:300], model, seed=workers)  # it is loaded
            with timed(numbers, f"{workers}"):
                store.predict(items, model, seed=workers)


STEPS: dict[str, Callable[[Numbers, list[str], Path], None]] = {
    step.__name__: step for step in (evaluate, leaderboard, pandas, compare, listed, clustered)
}


def measured(step: str, home: Path, folder: Path, models: int) -> Numbers:
    """Run a step in a process of its own."""
    command = [sys.executable, __file__, "--step", step, "--folder", str(folder), "--models", str(models)]
    environment = os.environ | {"WORKBENCH_HOME": str(home)}
    output = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout  # noqa: S603 - ours
    numbers: Numbers = json.loads(output.splitlines()[-1])
    return numbers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--listed", type=int, default=300, help="runs of the store that is listed")
    parser.add_argument("--predicted", type=int, default=3000, help="items that the cluster predicts")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        numbers: Numbers = {}
        STEPS[options.step](numbers, [f"bench-{k}" for k in range(options.models)], options.folder)
        print(json.dumps(numbers | {"MB": memory()}))
        return
    with tempfile.TemporaryDirectory() as base:
        report(Path(base), options)


def report(folder: Path, options: argparse.Namespace) -> None:
    """Make the runs, run all steps and print what they cost."""
    items, home, small = many(options.items), folder / "home", folder / "small"
    items.to_parquet(folder / "items.parquet")
    many(options.predicted).to_parquet(folder / "predicted.parquet")
    for store_of_runs, stored, number in (
        (home, items, options.models),
        (small, items[:100], options.listed),
    ):
        os.environ["WORKBENCH_HOME"] = str(store_of_runs)
        keep_runs(stored, number)
    print(f"{options.models} models, {items!r}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.2f}\n")
    print(f"{'':40}{'processor s':>12}{'clock s':>10}{'peak MB':>10}")
    got: dict[str, Numbers] = {}
    for step in STEPS:
        models = options.listed if step == "listed" else options.models
        got[step] = measured(step, small if step == "listed" else home, folder, models)
        for name in [name for name in got[step] if f"{name}, clock" in got[step]]:
            numbers = got[step][name], got[step][f"{name}, clock"]
            print(f"{f'{step}: {name}':40}{numbers[0]:12.2f}{numbers[1]:10.2f}{got[step]['MB']:10.0f}")
    more = (got["evaluate"]["all"] - got["evaluate"]["one"]) / max(1, options.models - 1)
    by_hand, paint = got["pandas"]["all"], got["compare"]["first paint"]
    tell(Row("evaluate, intervals included", got["evaluate"]["all"], "s", peer="pandas", theirs=by_hand))
    tell(Row("evaluate, one more model", more, "s", peer="the first model", theirs=got["evaluate"]["one"]))
    tell(Row("wb.compare, first message", paint, "s", goal=5))
    tell(Row("wb.compare, slowest click", 1000 * got["compare"]["click"], "ms", goal=300))
    tell(Row("wb.runs", got["listed"]["runs"], "s", goal=2))
    tell(Row("wb.leaderboard, measures in the cache", got["listed"]["leaderboard"], "s", goal=2))
    one, two = (got["clustered"][f"{workers}, clock"] for workers in (1, 2))
    tell(Row("predict, two workers", two, "s", peer="one worker", theirs=one))
    ratio = one / two
    print(f"\none more model costs {more:.2f} s; two workers are {ratio:.2f} times as fast as one")


if __name__ == "__main__":
    main()
