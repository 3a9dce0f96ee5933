import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_predictions import items_of, made, run, scores, uniform, unknown_answers
from refused import refused
from scipy import stats
from sklearn.metrics import accuracy_score, log_loss
from statsmodels.stats.proportion import proportion_confint

from workbench import datasets
from workbench.charts.models import answers_among
from workbench.evaluation.align import align
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.metrics import METRIC_COLUMNS, evaluate, measure
from workbench.evaluation.paper import table as paper_table
from workbench.models import MaximumFrequency, RandomWord
from workbench.models.wrapper import measured
from workbench.predictions import measures
from workbench.predictions.schema import mid_ranks
from workbench.render.labels import column_label
from workbench.render.numbers import percent

FAST = settings(max_examples=6)
QUICK = {"resamples": 20}


def one(frame, **options):
    (row,) = evaluate(frame, **options).to_dict("records")
    return row


@pytest.mark.parametrize("level", [0.9, 0.95])
def test_accuracy_is_that_of_scikit_learn_with_the_interval_of_statsmodels(level):
    frame = made(500, seed=1)
    row = one(frame, level=level)
    for part, n, name in ((frame, "n", "accuracy"), (frame[frame["known"]], "n_known", "accuracy_known")):
        assert row[n] == len(part)
        assert row[name] == pytest.approx(accuracy_score(part["answer"], part["prediction"]))
        wanted = proportion_confint(part["correct"].sum(), len(part), alpha=1 - level, method="wilson")
        assert (row[f"{name}_low"], row[f"{name}_high"]) == pytest.approx(wanted)
    assert row["expected_accuracy"] == pytest.approx(frame["p_correct"].mean())
    assert (row["interval"], row["resampled_by"]) == ("Wilson", "item")
    assert pd.isna(row["n_novels"])


def test_perplexity_is_that_of_scikit_learns_log_loss():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(7), size=60)
    answers = rng.integers(0, 7, 60)
    frame = made(60, log_prob=np.log(p[np.arange(60), answers]))
    assert one(frame)["perplexity"] == pytest.approx(np.exp(log_loss(answers, p, labels=range(7))))


@pytest.mark.parametrize("vocabulary", [1, 2, 7, 60_000])
def test_a_uniform_model_has_the_perplexity_of_its_vocabulary(vocabulary):
    row = one(uniform(40, vocabulary))
    assert row["perplexity"] == pytest.approx(vocabulary, rel=1e-12)
    assert row["perplexity_low"] == pytest.approx(vocabulary)
    assert row["median_rank"] == row["median_rank_low"] == row["median_rank_high"] == (vocabulary + 1) / 2
    assert row["expected_accuracy"] == pytest.approx(1 / vocabulary)
    assert row["n_tied_items"] == (40 if vocabulary > 1 else 0)


def test_tables_tunings_and_charts_have_the_median_of_one_rank():
    frame = made(301, seed=3, right=0.1, oov=0, n_tied=58)
    slow = sorted((2 * row.rank + row.n_tied - 1) / 2 for row in frame.itertuples())[150]
    assert slow != frame["rank"].median()
    assert one(frame, resamples=10)["median_rank"] == slow
    assert measured(frame)[-1] == slow
    shares = answers_among(frame)
    assert (shares["share"] >= 0.5).tolist() == (shares["k"] >= slow).tolist()


def test_a_rank_of_which_ties_are_not_known_is_the_rank():
    assert mid_ranks([1, 4, None, 7], [58, pd.NA, 2, 1]).tolist()[:2] == [29.5, 4.0]
    assert np.isnan(mid_ranks([1, 4, None, 7], [58, pd.NA, 2, 1])).tolist() == [False, False, True, False]
    assert one(made(3, oov=0, right=0).assign(rank=[5, 7, 9], n_tied=None))["median_rank"] == 7


def test_the_bootstrap_is_that_of_scipy():
    frame = made(300, seed=2, tied=0.3)
    row = one(frame, resamples=4_999)
    values = frame["log_prob"].to_numpy()
    how = {"n_resamples": 4_999, "method": "percentile", "rng": np.random.default_rng(5)}
    low, high = stats.bootstrap((values,), np.mean, **how).confidence_interval
    error = 4 * values.std() / np.sqrt(300) / 40  # of a quantile, far in the tails of many replicates
    assert np.log([row["perplexity_high"], row["perplexity_low"]]) == pytest.approx([-low, -high], abs=error)
    ranks = frame["rank"].to_numpy(dtype=float) + (frame["n_tied"].to_numpy(dtype=float) - 1) / 2
    low, high = stats.bootstrap((ranks,), np.median, **how).confidence_interval
    assert row["median_rank"] == np.median(ranks)
    assert [row["median_rank_low"], row["median_rank_high"]] == pytest.approx([low, high], abs=12)
    assert row["median_rank_low"] < row["median_rank"] < row["median_rank_high"]


def test_novels_are_resampled_where_every_item_names_one():
    rng = np.random.default_rng(0)
    easy = rng.random(10) < 0.5  # a novel is easy or hard as a whole
    frame, right = made(400, books=10, seed=3, right=0, oov=0, tied=0), np.tile(easy, 40)
    words, ranks = np.where(right, frame["answer"], "other"), np.where(right, 1, frame["rank"])
    frame = frame.assign(correct=right, prediction=words, rank=ranks, p_correct=right.astype(float))
    row = one(frame)
    assert (row["interval"], row["resampled_by"], row["n_novels"]) == ("bootstrap by novel", "novel", 10)
    items = one(frame.assign(book_id=frame["book_id"].where(np.arange(400) > 0)))  # one item names none
    assert (items["interval"], items["resampled_by"]) == ("Wilson", "item")
    by_novel, by_item = (found["accuracy_high"] - found["accuracy_low"] for found in (row, items))
    assert by_novel > 3 * by_item


def test_intervals_that_may_be_too_narrow_are_named():
    for books, right, texts in ((5, 0.5, ["5 novels"]), (30, 0.5, []), (30, 0.05, ["30 novels"])):
        notes = evaluate(made(300, books=books, right=right, oov=0), **QUICK).attrs["note"]
        assert len(notes) == len(texts)
        assert all(text in note for text, note in zip(texts, notes, strict=True))
    assert "not every item names its novel" in evaluate(made(9), **QUICK).attrs["note"][0]


def test_where_resampling_says_nothing_wilson_does():
    none = one(made(90, books=5, right=0))
    assert none["interval"] == "Wilson"
    assert none["accuracy_low"] == 0 < none["accuracy_high"]
    single = one(made(90, books=1))
    assert (single["interval"], single["n_novels"]) == ("Wilson", 1)
    assert (pd.isna(single["perplexity_low"]), pd.isna(single["perplexity"])) == (True, False)


def test_an_impossible_answer_has_infinite_perplexity():
    frame = made(50)
    frame.loc[7, "log_prob"] = -np.inf
    row = one(frame)
    assert row["perplexity"] == row["perplexity_high"] == np.inf
    assert np.isfinite(row["perplexity_low"])  # some replicates do not draw it
    assert row["accuracy"] == one(made(50))["accuracy"]


@pytest.mark.parametrize("books", [None, 9])
def test_bits_are_the_mean_surprisal_and_the_binary_logarithm_of_the_perplexity(books):
    frame = made(200, books=books)
    row = one(frame)
    assert row["bits"] == pytest.approx(-np.log2(np.exp(frame["log_prob"].to_numpy(dtype=float))).mean())
    for end in ("", "_low", "_high"):
        assert row[f"bits{end}"] == pytest.approx(np.log2(row[f"perplexity{end}"]))
    assert row["bits_low"] < row["bits"] < row["bits_high"]
    row = one(scores(made()))
    assert (pd.isna(row["bits"]), pd.isna(row["perplexity"]), row["n_perplexity"]) == (True, True, 0)


class Brier(measures.Measure):
    name, quantity, format, better = "brier", "squared_error", "quantity", "lower"
    sources = ("log_prob",)

    def item_values(self, *sources):
        return (1 - np.exp(sources[0])) ** 2


def test_a_measure_may_compute_the_values_of_its_items(monkeypatch):
    monkeypatch.setattr(measures, "MEASURES", (*measures.MEASURES, Brier()))
    frame = made(200)
    errors = (1 - np.exp(frame["log_prob"].to_numpy(dtype=float))) ** 2
    row = measure(frame, BootstrapSettings())
    compared = align(items_of(frame), [frame]).table().iloc[0]
    assert row["brier"] == pytest.approx(errors.mean())
    assert row["brier_low"] < row["brier"] < row["brier_high"]
    assert compared[list(Brier().columns)].tolist() == [row[name] for name in Brier().columns]
    assert "brier" not in measure(scores(made()), BootstrapSettings(resamples=20))


def test_every_measure_is_in_results_and_comparisons():
    frame = made(60)
    table, compared = evaluate(frame, resamples=20), align(items_of(frame), [frame]).table()
    for each in measures.MEASURES:
        assert set(each.columns) <= set(table.columns)
        assert set(each.columns) <= set(compared.columns) or not each.in_tables
        assert (column_label(each.name).label in table.to_html()) == each.in_tables


@pytest.mark.parametrize("frame", [unknown_answers(made(5)), made(0)])
def test_groups_without_an_answer_are_no_error(frame):
    table = evaluate(frame)
    assert list(table.columns) == ["model", "run", *METRIC_COLUMNS, "chance", "subset"]
    assert table[["n", "n_perplexity", "n_tied_items"]].eq(0).all(axis=None)
    assert table[["accuracy", "accuracy_low", "perplexity", "median_rank"]].isna().all(axis=None)


def test_unanswered_items_change_nothing_else():
    frame = made(60, first=100)
    assert one(frame) == one(pd.concat([frame, unknown_answers(made(9))]))


@given(st.integers(1, 5), st.integers(0, 1000))
@FAST
def test_groups_add_up(groups, seed):
    rng = np.random.default_rng(seed)
    frame = made(60, seed=seed)
    kinds = pd.DataFrame({"item_id": frame["item_id"], "kind": rng.integers(0, groups, 60)})
    parts = evaluate(frame, by="kind", annotations=kinds.sample(frac=1, random_state=1), resamples=20)
    whole = one(frame, resamples=20)
    assert (parts["n"].sum(), parts["n_known"].sum()) == (whole["n"], whole["n_known"])
    assert (parts["accuracy"] * parts["n"]).sum() == pytest.approx(whole["accuracy"] * 60)
    logs = np.log(parts["perplexity"].to_numpy(dtype=float)) * parts["n"].to_numpy(dtype=float)
    assert logs.sum() == pytest.approx(60 * np.log(whole["perplexity"]))
    assert parts["n_tied_items"].sum() == whole["n_tied_items"]
    assert parts["kind"].is_monotonic_increasing


def test_groups_are_joined_by_item():
    items = datasets.load("sample", "dev")
    frame = made(len(items), right=0, **items.frame[["item_id", "answer"]])
    table = evaluate(frame.sample(frac=1, random_state=0), items=items, by=["book_id", "known"], resamples=20)
    truth = items.frame.set_index("item_id")["book_id"].loc[frame["item_id"]].to_numpy()
    wanted = frame.groupby([truth, frame["known"].to_numpy(dtype=bool)]).size()
    assert {(row.book_id, row.known): row.n for row in table.itertuples()} == wanted.to_dict()
    assert set(table["resampled_by"]) == {"novel"}
    few = evaluate(frame, items=items[:3], by="book_id", resamples=20)
    assert (few["n"].sum(), few["book_id"].isna().sum()) == (len(items), 1)


def test_runs_and_frames_of_several_models_are_read():
    stored = run(made(20, seed=1), "kept")
    table = evaluate([stored, pd.concat([made(20, seed=2, model="b", run="r2"), made(20, model="a")])])
    assert table[["model", "run"]].to_numpy().tolist() == [["made", "kept"], ["b", "r2"], ["a", ""]]
    assert stored.predictions["run"].eq("").all()  # what was given is not changed


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        ([made(3), None], {}),
        (made(3).drop(columns="known"), {}),
        (pd.concat([made(3), made(3)]), {}),
        (made(3), {"by": "colour"}),
        (made(3).assign(p_correct=2.0), {}),
        (made(3).assign(log_prob=0.5), {}),
        (made(3, oov=0, right=0).assign(rank=0), {}),
        (made(3, oov=0, right=1).assign(prediction="other"), {}),
        (made(3), {"level": 1}),
        (made(3), {"annotations": pd.DataFrame({"x": [1]})}),
        (made(3), {"annotations": pd.DataFrame({"item_id": ["z"]})}),
    ],
)
def test_what_is_wrong_is_said(arguments, options):
    refused(evaluate, arguments, **options)


def test_runs_on_other_items_or_with_other_candidates_are_named():
    each = zip("abc", (0, 10, 0), strict=True)
    frames = [made(30, oov=0, seed=first, first=first, model=name) for name, first in each]
    told = "did not predict the same items: 30 (“a”, “b”, “c”); 20 are common to all."
    [warning] = evaluate(frames, **QUICK).attrs["warnings"]
    assert warning.endswith(told)
    table = paper_table("lambada", frames, split="dev", **QUICK)
    assert any(note.endswith(told) for note in table.notes)
    apart = [frames[0], made(30, oov=0, model="b", start="lambada/test")]
    assert not evaluate([frames[0], frames[2]], **QUICK).attrs["warnings"]
    assert not evaluate(apart, **QUICK).attrs["warnings"]
    frames = [frames[0].assign(candidates_digest="10:aa"), frames[2].assign(candidates_digest="3:bb")]
    [warning] = evaluate(frames, **QUICK).attrs["warnings"]
    assert warning.endswith("Number of candidates: 10 (“a”); 3 (“c”).")


def test_a_random_baseline_shows_what_it_is_expected_to_get_right():
    items = datasets.load("sample", "dev")
    drawn, counted = (model.predict(items) for model in (RandomWord("passage"), MaximumFrequency("context")))
    told = f"{percent(drawn['p_correct'].mean())} expected"
    frames = [drawn.assign(run="a"), counted.assign(run="b")]
    assert evaluate(frames, **QUICK)["chance"].tolist() == [told, ""]
    assert f"({told})" in evaluate(frames, **QUICK).to_markdown()
    by_length = evaluate(frames, by="book_id", items=items, **QUICK)
    assert (by_length["chance"] != "").tolist() == (by_length["model"] == "Random word from passage").tolist()
    ranked = leaderboard(frames, published=False, **QUICK).set_index("run")["chance"]
    assert (ranked["a"], ranked["b"]) == (told, "")
    assert align(items, frames, **QUICK).points()["spread"].tolist() == [told, ""]
    cells = paper_table("lambada", frames, dataset="sample", **QUICK).to_markdown().split("\n")
    assert [line for line in cells if "| expected |" in line] == [
        f"|  | expected | {100 * drawn['p_correct'].mean():.1f} | - | - |"
    ]
