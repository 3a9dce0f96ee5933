"""The work of reading, measuring and comparing runs grows with what is asked for; counted, not timed."""

import shutil
from threading import Event

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from made_predictions import items_of, made
from pandas.testing import assert_frame_equal
from random_predictions import ask, listening, predicted
from refused import refused

import workbench as wb
from workbench.evaluation import bootstrap, paired
from workbench.evaluation.align import align
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.metrics import measure, measure_all
from workbench.evaluation.model_predictions import NEEDED
from workbench.predictions import store
from workbench.widgets.compare import compare as widget

ITEMS = wb.load("sample")[:40]
LONG = {"top_words", "top_log_probs", "candidate_scores", "attention"}  # columns of lists


@pytest.fixture(autouse=True)
def home(no_data, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(no_data / "home"))
    return no_data / "home" / "runs"


@pytest.fixture
def reads(monkeypatch):
    """Return the columns and the number of rows of each table that is read from a run."""
    calls = []

    def counting(function):
        def counted(*arguments, **options):
            result = function(*arguments, **options)
            calls.append((result.column_names, len(result)))
            return result

        return counted

    monkeypatch.setattr(pq.ParquetFile, "read", counting(pq.ParquetFile.read))
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counting(pq.ParquetFile.read_row_group))
    return calls


def kept(n, models):
    """Store runs of n items; return the items and the names of the runs."""
    frames = [made(n, seed=k, right=0.2 + 0.1 * k, oov=0).assign(model=f"model {k}") for k in range(models)]
    items = items_of(frames[0])
    return items, [store.keep(items, frame, name=f"run-{n}-{k}").run for k, frame in enumerate(frames)]


def cells(calls):
    return sum(len(columns) * rows for columns, rows in calls)


@pytest.mark.parametrize(
    "use",
    [
        lambda _, runs: wb.evaluate(runs, by="word_class"),
        lambda _, runs: wb.leaderboard(runs, published=False),
        lambda items, runs: align(items, runs).table(),
    ],
    ids=["evaluate", "leaderboard", "compare"],
)
def test_no_column_of_lists_is_read_and_the_cells_grow_with_items_and_models(home, reads, use):
    counts = {}
    for n, models in ((30, 2), (60, 2), (60, 4)):
        items, runs = kept(n, models)
        reads.clear()
        use(items, runs)
        read = {name for columns, _ in reads for name in columns}
        assert set(NEEDED) <= read
        assert not read & LONG
        counts[n, models] = cells(reads)
        shutil.rmtree(home)
    assert counts[60, 2] == 2 * counts[30, 2]
    assert counts[60, 4] == 2 * counts[60, 2]


def test_an_item_reads_one_row_group_of_the_best_words(reads, monkeypatch):
    monkeypatch.setattr(store, "_ROW_GROUP", 8)
    frames = predicted(ITEMS, attentive=(1,))
    runs = [store.keep(ITEMS, frame, name=f"run-{k}") for k, frame in enumerate(frames)]
    comparison = align(ITEMS, runs)
    for place in (0, 7, 8, 39):
        reads.clear()
        top = comparison.top(place)
        for k, frame in enumerate(frames):
            row = frame.iloc[place]
            assert top[k]["words"] == row["top_words"]
            assert top[k]["log_probs"] == row["top_log_probs"]
            assert top[k]["attention"] == row["attention"]
        new_group = place != 7  # the group that was read last is kept
        assert {rows for _, rows in reads} == ({8} if new_group else set())
        assert all(set(columns) <= LONG for columns, _ in reads)


def test_a_list_of_runs_reads_no_table_and_a_ranking_that_was_measured_decodes_none(home, reads):
    _, runs = kept(30, 3)
    reads.clear()
    (home / runs[0] / store.TABLE).chmod(0o000)
    assert set(wb.runs()["run"]) == set(runs)
    (home / runs[0] / store.TABLE).chmod(0o644)
    before = wb.leaderboard(published=False)
    reads.clear()
    assert_frame_equal(pd.DataFrame(wb.leaderboard(published=False)), pd.DataFrame(before))
    assert not any("item_id" in columns for columns, _ in reads)


def test_a_filter_makes_the_columns_that_it_names(monkeypatch):
    items, runs = kept(30, 3)
    comparison = align(items, runs)
    whole, asked = comparison.frame, []
    assert comparison.frame_columns == whole.columns.tolist()
    frame_of = Comparison.frame_of
    monkeypatch.setattr(Comparison, "frame_of", lambda *args: (asked.append(args[1]), frame_of(*args))[1])
    view = listening(wb.compare(items, runs, None))
    ask(view, type="query", state={"where": "`model 1: rank` <= 5"}, request="a")
    assert [set(names) for names in asked] == [{"model 1: rank"}]
    assert len(view.selection) == int((whole["model 1: rank"] <= 5).sum()) > 0
    view.close()


def test_a_changed_table_is_refused(home):
    _, [name] = kept(5, 1)
    file = home / name / store.TABLE
    file.write_bytes(file.read_bytes().replace(b"model 0", b"model X"))
    refused(wb.evaluate, name)


def test_models_with_the_same_items_are_drawn_at_once_and_measure_the_same(monkeypatch):
    frames = [made(50, seed=k, books=books) for books in (None, 9) for k in range(3)]
    frames.append(made(31, seed=9))
    frames[1] = frames[1].assign(log_prob=np.nan, score_type="score")
    sampling = BootstrapSettings(resamples=200)
    alone = [measure(frame, sampling) for frame in frames]
    drawn, draws = bootstrap._draw_weights, []
    monkeypatch.setattr(bootstrap, "_KEPT", 0)
    monkeypatch.setattr(bootstrap, "_draw_weights", lambda *key: (draws.append(key), drawn(*key))[1])
    at_once = measure_all(iter(frames), sampling)
    assert sorted(draws) == sorted([(50, 200, 0), (9, 200, 0), (31, 200, 0)])
    for one, other in zip(alone, at_once, strict=True):
        assert one.keys() == other.keys()
        assert one == other, "to the last bit"


@pytest.mark.parametrize("books", [None, 9])
def test_pairs_in_blocks_are_the_pairs_at_once(monkeypatch, books):
    frames = [made(40, seed=k, books=books).assign(model=f"model {k}") for k in range(5)]
    items = items_of(frames[0])
    at_once = align(items, frames, resamples=100).pairs()
    monkeypatch.setattr(paired, "_AT_ONCE", 80)  # outcomes: two pairs
    assert_frame_equal(align(items, frames, resamples=100).pairs(), at_once)


def test_a_page_is_answered_while_many_models_are_resampled(monkeypatch):
    items, runs = kept(30, 3)
    expected = listening(wb.compare(items, runs, None))
    (measured,) = ask(expected, type="measure")
    started, goes_on, rows = Event(), Event(), widget.view.model_rows

    def slow(comparison, *, quick=False):
        if not quick:
            started.set()
            assert goes_on.wait(60)
        return rows(comparison, quick=quick)

    monkeypatch.setattr(widget.view, "model_rows", slow)
    monkeypatch.setattr(widget, "_IN_BACKGROUND", 0)
    view = listening(wb.compare(items, runs, None))
    note = {"type": "note", "text": "resampling 3 models for intervals and tests"}
    assert ask(view, type="measure") == [note], "a page that hears nothing says that the kernel is silent"
    assert started.wait(60)
    (answer,) = ask(view, type="query", state={"sort": "disagreement"}, request="a")
    assert (answer["type"], answer["state"]["sort"]) == ("view", "disagreement")
    assert ask(view, type="measure") == [note], "it is under way"
    goes_on.set()
    view._measuring.join(60)
    (_, whole) = view.sent  # the note, and what was measured
    assert (whole["models"], whole["pairs"]) == (measured["models"], measured["pairs"])
    assert whole["note"] == ""
    (again,) = ask(view, type="measure")
    assert again["pairs"] == measured["pairs"]
    view.close()
    expected.close()
