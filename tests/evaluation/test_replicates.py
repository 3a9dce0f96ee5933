"""Means over seeds and their spread, against numbers by hand and plain numpy."""

import json
import pickle
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from html_page import Page
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import items_of, made, run, scores
from refused import refused

import workbench as wb
from workbench.analysis.proportions import wilson
from workbench.evaluation.align import align
from workbench.models.baselines.chance import RandomWord

RIGHT = np.array([[1, 1, 0, 0, 1, 0], [1, 0, 0, 1, 1, 0], [1, 1, 0, 0, 1, 1]], dtype=bool)  # seeds, items
CLASSES = ["NE", "NE", "NE", "CN", "CN", "CN"]


def predicted(right, **columns):
    """Return the predictions of a model that is right on some items."""
    right = np.asarray(right, dtype=bool)
    frame = made(len(right), oov=0, tied=0, start="cbt/test")
    words = [answer if ok else f"not {answer}" for answer, ok in zip(frame["answer"], right, strict=True)]
    rank = np.where(right, 1, 3)
    values = {"correct": right, "prediction": words, "rank": rank, "p_correct": right.astype(float)}
    return frame.assign(**values | columns)


def runs_of(right, **columns):
    """Return a run a seed, each with its record."""
    return [
        run(predicted(row, **columns), f"run-{seed}", config={"width": 8, "seed": seed}, seed=0)
        for seed, row in enumerate(right)
    ]


def bootstrapped(values, resamples=2000, seed=0, level=0.95):
    """Return the percentile interval of the mean, in plain numpy."""
    rng, n = np.random.default_rng(seed), len(values)
    means = np.sort([values[rng.integers(0, n, size=n, dtype=np.int32)].mean() for _ in range(resamples)])
    places = (1 - level) / 2 * (resamples - 1), (1 + level) / 2 * (resamples - 1)
    return means[int(np.floor(places[0]))], means[int(np.ceil(places[1]))]


def test_the_mean_and_the_spread_are_those_worked_by_hand():
    table = wb.replicates(runs_of(RIGHT, word_class=CLASSES, variant=CLASSES))
    assert table["word_class"].tolist() == ["all", "NE", "CN"]
    row = table.iloc[0]
    assert (row["n"], row["n_seeds"]) == (6, 3)
    assert row["accuracy"] == pytest.approx((3 + 3 + 4) / 18)  # 3, 3 and 4 of 6
    assert (row["seed_min"], row["seed_max"]) == (0.5, pytest.approx(4 / 6))
    # about the mean 10/18 of 1/2, 1/2, 2/3: deviations -1/18, -1/18, 2/18
    assert row["seed_sd"] == pytest.approx(np.sqrt((1 + 1 + 4) / 18**2 / 2))
    assert row["spread"] == "± 9.6 between 3 seeds"
    assert row["interval"] == "bootstrap by item"
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx(bootstrapped(RIGHT.mean(axis=0)))
    assert table["accuracy"].tolist()[1:] == pytest.approx([5 / 9, 5 / 9])
    assert table["seed_sd"].tolist()[1:] == pytest.approx(
        [np.std([2, 1, 2], ddof=1) / 3, np.std([1, 2, 2], ddof=1) / 3]
    )
    text = Page(table.to_html()).text
    assert "55.6 [" in text
    assert "(± 9.6 between 3 seeds)" in text
    assert "seeds 0, 1, 2" in text


def test_the_order_of_the_items_in_a_run_does_not_matter():
    frames = [predicted(row, word_class=CLASSES, variant=CLASSES) for row in RIGHT]
    sorted_runs, others = (
        [
            SimpleNamespace(run=f"run-{n}", predictions=frame.iloc[order], info={"seed": n})
            for n, frame in enumerate(frames)
        ]
        for order in ([0, 1, 2, 3, 4, 5], [5, 0, 3, 1, 4, 2])
    )
    pd.testing.assert_frame_equal(wb.replicates(others), wb.replicates(sorted_runs))


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 5), st.integers(2, 30), st.integers(0, 10_000))
def test_seeds_and_items_are_two_sides(k, n, seed):
    rng = np.random.default_rng(seed)
    right = rng.random((k, n)) < rng.random()
    table = wb.replicates(runs_of(right), resamples=200)
    row = table.iloc[0]
    accuracies = right.sum(axis=1) / n
    assert row["accuracy"] == pytest.approx(right.mean())
    assert row["seed_sd"] == pytest.approx(pd.Series(accuracies).std())
    assert (row["seed_min"], row["seed_max"]) == (accuracies.min(), accuracies.max())
    if 0 < right.mean() < 1:
        expected = bootstrapped(right.mean(axis=0), resamples=200)
    else:
        expected = [float(bound[0]) for bound in wilson(right.mean() * n, n)]
    assert (row["accuracy_low"], row["accuracy_high"]) == pytest.approx(expected)


def test_equal_runs_have_no_spread_and_the_accuracy_of_one():
    one = runs_of([RIGHT[0]] * 3)
    row = wb.replicates(one).iloc[0]
    assert (row["seed_sd"], row["seed_min"], row["seed_max"]) == (0, 0.5, 0.5)
    assert row["accuracy"] == wb.evaluate(one[0])["accuracy"].iloc[0]


def test_the_pooled_predictions_are_means_votes_and_medians():
    words = [["dog", "cat"], ["Dog", "cow"], ["cat", "word1"]]
    log_probs, ranks = [[-1.0, -2.0], [-2.0, -4.0], [-6.0, -np.inf]], [[1, 5], [1, 3], [9, 1]]
    answers = ["dog", "word1"]
    frames = [
        made(2, oov=0, tied=0).assign(
            answer=answers, prediction=row, log_prob=ln_p, rank=rank, n_tied=rank, p_correct=[0.5, 0.25],
            correct=[word.casefold() == answer for word, answer in zip(row, answers, strict=True)],
        )
        for row, ln_p, rank in zip(words, log_probs, ranks, strict=True)
    ]  # fmt: skip
    pooled = wb.replicates([run(frame, str(k)) for k, frame in enumerate(frames)]).pooled
    assert pooled["prediction"].tolist() == ["dog", "cat"]  # two of three; else the first run's
    assert pooled["correct"].tolist() == [True, False]
    assert pooled["correct_by_seed"].tolist() == [(True, True, False), (False, False, True)]
    assert pooled["log_prob"].tolist() == [-3.0, -np.inf]
    assert pooled["rank"].tolist() == [1, 3]
    assert pooled["n_tied"].tolist() == [1, 3]
    row = wb.evaluate(wb.replicates([run(frame, str(k)) for k, frame in enumerate(frames)])).iloc[0]
    assert row["accuracy"] == 0.5
    assert row["perplexity"] == np.inf


@pytest.mark.parametrize(
    "change",
    [
        lambda b: run(b.predictions.assign(model="other"), "b"),
        lambda b: run(b.predictions.iloc[1:], "b"),
        lambda b: run(b.predictions.assign(variant="capitalised"), "b"),
        lambda b: run(b.predictions, "b", config={"width": 9, "seed": 1}),
        lambda b: run(b.predictions, "run-0", config=b.info["config"]),
    ],
)
def test_runs_that_differ_in_more_than_the_seed_are_refused(change):
    a, b, _ = runs_of(RIGHT)
    refused(wb.replicates, [a, change(b)])
    refused(wb.replicates, a)


def test_what_training_made_of_a_seed_may_differ():
    runs = []
    for k, row in enumerate(RIGHT):
        info = {"settings": {"seed": k, "clip": 1}, "steps": 9 + k}
        runs.append(run(predicted(row), f"r{k}", seed=0, config={"info": info, "weights": f"{k}f"}))
    assert "seeds 0, 1, 2" in wb.replicates(runs).to_markdown()


def test_stored_runs_of_several_seeds(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    items, model = wb.load("sample", "dev", variant="cbt"), RandomWord("passage")
    runs = [wb.predict(items, model, seed=seed) for seed in (3, 4, 5)]
    table = wb.replicates([runs[0], runs[1].run, runs[2]])
    accuracies = [r.predictions["correct"].mean() for r in runs]
    assert table["accuracy"].iloc[0] == pytest.approx(np.mean(accuracies))
    assert table["seed_sd"].iloc[0] == pytest.approx(np.std(accuracies, ddof=1))
    assert table["word_class"].tolist() == ["all", "NE", "CN", "V", "P"]
    again = pickle.loads(pickle.dumps(table))  # noqa: S301 - our own
    assert again.pooled.equals(table.pooled)
    assert str(again) == str(table)


def compared():
    """Return items, replicates of one model, and a single run of another."""
    rng = np.random.default_rng(5)
    right = rng.random((3, 120)) < 0.6
    runs = runs_of(right)
    other = scores(predicted(rng.random(120) < 0.4, model="other"))
    return items_of(other), wb.replicates(runs), runs, run(other, "other")


def test_a_comparison_shows_replicates_as_one_row():
    items, several, runs, other = compared()
    comparison = align(items, [several, other])
    table, pairs = comparison.table(), comparison.pairs().iloc[0]
    assert comparison.labels == ["made", "other"]
    measured = wb.evaluate([several, other])
    names = ["accuracy", "accuracy_low", "accuracy_high", "perplexity", "median_rank", "seed_sd", "seed_min"]
    for name in names:
        assert table[name].tolist() == pytest.approx(measured[name].astype(float).tolist(), nan_ok=True)
    assert table["interval"].tolist() == measured["interval"].tolist() == ["bootstrap by item", "Wilson"]
    assert table["spread"].tolist() == [several["spread"].iloc[0], ""]
    shares = np.mean([r.predictions["correct"].astype(float) for r in runs], axis=0)
    apart = shares - other.predictions["correct"].astype(float).to_numpy()
    assert pairs["difference"] == pytest.approx(apart.mean())
    error = apart.std() / np.sqrt(120)
    bounds = apart.mean() - 1.96 * error, apart.mean() + 1.96 * error
    assert (pairs["difference_low"], pairs["difference_high"]) == pytest.approx(bounds, abs=0.2 * error)
    assert pairs["test"] == "paired sign-flip test by item, exact"
    rng = np.random.default_rng(1)
    flips = np.abs((rng.choice([-1, 1], (20_000, 120)) * apart).mean(axis=1))
    p = (flips >= abs(apart.mean()) - 1e-12).mean()
    assert pairs["p"] == pytest.approx(p, abs=4 * np.sqrt(p * (1 - p) / 2000) + 1e-3)
    part = comparison.pair(0, 1, np.arange(120) < 50)
    assert part["difference"] == pytest.approx(apart[:50].mean())
    assert part["test"] == "paired sign-flip test by item, exact"
    significance = wb.significance(several, other)
    assert significance.difference == pytest.approx(apart.mean())
    assert "sign-flip test by item" in significance.test
    slices = comparison.slices(comparison.columns[0]) if comparison.columns else None
    assert slices is None or (slices.groupby("label")["n"].sum() == 120).all()


def test_singles_are_compared_as_before_beside_replicates():
    items, several, runs, other = compared()
    alone = align(items, [runs[0], other]).pairs().iloc[0]
    beside = align(items, [runs[0], other, several]).pairs()
    pair = beside[(beside["a"] == 0) & (beside["b"] == 1)].iloc[0]
    columns = ["difference", "difference_low", "difference_high", "p", "test", "n_only_a", "n_only_b"]
    assert pair[columns].tolist() == alone[columns].tolist()
    assert beside["test"].tolist() == ["exact McNemar test", *["paired sign-flip test by item, exact"] * 2]


def test_the_widget_and_its_pages_show_the_spread():
    items, several, _, other = compared()
    widget = wb.compare(items, [several, other], None)
    try:
        for page in (widget.to_html(), widget.saved.html()):
            assert several["spread"].iloc[0] in Page(page).text
        assert "sign-flip test by item, exact" in Page(widget.to_html()).text
        widget._on_measure({})
        rows = widget._overview()
        assert [row["spread"] for row in rows["models"]] == [several["spread"].iloc[0], ""]
        assert rows["pairs"][0][1]["test"] == "paired sign-flip test by item, exact"
        widget.state = {"pair": ["made", "other"]}
        json.dumps(widget._view())
    finally:
        widget.close()


def test_tables_of_the_papers_and_leaderboards_have_one_row():
    words = {"word_class": "NE", "variant": "NE", "system": "MEMNNS (WINDOW MEMORY)"}
    several = wb.replicates(runs_of(np.tile(RIGHT, 20), **words))
    table = wb.table("cbt", [several])
    cell = table.frame[table.frame["n_seeds"].notna()].iloc[0]
    assert (cell["model"], cell["published"], cell["n"], cell["n_seeds"]) == ("made", 0.493, 120, 3)
    assert cell["ours"] == pytest.approx(10 / 18)
    assert cell["seed_sd"] == pytest.approx(np.std([1 / 2, 1 / 2, 2 / 3], ddof=1))
    assert "SD of 3 seeds9.6" in Page(table.to_html()).text
    assert "made: 0, 1, 2" in table.to_markdown()
    board = wb.leaderboard(several, published=False)
    assert board["spread"].tolist() == several["spread"].tolist()[:1]
    assert "between 3 seeds" in Page(board.to_html()).text
    assert "spread" not in wb.leaderboard(several.replicated[0], published=False)
