"""Charts of models, trainings and constructions: their numbers against slow counts."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_predictions import made, scores
from refused import refused
from statsmodels.stats.proportion import proportion_confint

from workbench import charts
from workbench.charts.construction import funnel_counts
from workbench.charts.models import (
    accuracy_by_context,
    accuracy_by_window,
    answers_among,
    training_curves,
    training_html,
)
from workbench.charts.predictions import accuracy_by_column
from workbench.construction.manifest import Manifest, Step
from workbench.probing.context_accuracy import expected_accuracy
from workbench.training.history import Training

FRAMES = [
    made(120, seed=1).assign(model="one"),
    made(90, seed=2, start="lambada/control").assign(model="two"),
]


def rows_of(spec):
    return [row for rows in spec["datasets"].values() for row in rows]


def test_shares_are_those_of_a_slow_count():
    found = answers_among(FRAMES)
    sets = found[["model", "set"]].drop_duplicates().to_numpy().tolist()
    assert sets == [["one", "lambada/dev"], ["two", "lambada/control"]]
    for row in found.itertuples():
        frame = FRAMES[row.model == "two"]
        known = [one for one in frame.itertuples() if one.known]
        among = sum(one.rank + (one.n_tied - 1) / 2 <= row.k for one in known)
        assert row.share == pytest.approx(among / len(frame))
        assert row.n == len(frame)
    assert found["k"].min() == 1


def test_a_bound_is_no_rank_and_choices_are_no_vocabulary():
    frame = made(50, seed=3).assign(rank_is_bound=[n % 2 == 0 for n in range(50)])
    sure = [row for row in frame.itertuples() if row.known and not row.rank_is_bound]
    for row in answers_among(frame).itertuples():
        assert row.share == pytest.approx(sum(one.rank + (one.n_tied - 1) / 2 <= row.k for one in sure) / 50)


def test_the_chart_shows_them_and_stays_small():
    chart = charts.ranks(FRAMES)
    spec = chart.to_dict()
    assert [panel["title"]["text"] for panel in spec["hconcat"]] == ["LAMBADA development", "Control"]
    assert len(str(spec)) < 60_000
    assert {(row["k"], row["share"]) for row in rows_of(spec)} == set(
        answers_among(FRAMES)[["k", "share"]].itertuples(index=False, name=None)
    )


def frames():
    dev, control = made(120, seed=1), made(90, seed=2, start="lambada/control")
    return {
        "one": {4: dev.assign(model="a"), None: [dev.assign(model="b"), control.assign(model="b")]},
        "two": {1_000: dev.assign(model="c"), "sentence": control.assign(model="d")},
    }


def test_the_numbers_are_those_of_a_plain_count():
    given, found = frames(), accuracy_by_context(frames())
    less = made(40, seed=3)
    known = less.index >= 10
    unanswered = less.assign(**{name: less[name].where(known) for name in ("answer", "correct", "p_correct")})
    assert accuracy_by_context({"one": {None: unanswered}})["n"].tolist() == [30]
    assert found[["model", "set", "reads"]].to_numpy().tolist() == [
        ["one", "lambada/dev", "4"],
        ["one", "lambada/dev", "all"],
        ["one", "lambada/control", "all"],
        ["two", "lambada/dev", "1,000"],
        ["two", "lambada/control", "sentence"],
    ]
    wanted = [given["one"][4], *given["one"][None], given["two"][1_000], given["two"]["sentence"]]
    for row, frame in zip(found.itertuples(), wanted, strict=True):
        expected = expected_accuracy(frame["p_correct"], frame["book_id"])
        assert (row.accuracy, row.low, row.high, row.n) == expected
        assert row.accuracy == pytest.approx(sum(frame["p_correct"]) / len(frame))


def test_the_chart_shows_them():
    spec = charts.context_curve(frames()).to_dict()
    assert [panel["title"]["text"] for panel in spec["hconcat"]] == ["LAMBADA development", "Control"]
    drawn = {(row["model"], row["reads"], row["accuracy"]) for row in rows_of(spec)}
    wanted = accuracy_by_context(frames())[["model", "reads", "accuracy"]]
    assert drawn == set(wanted.itertuples(index=False, name=None))
    x = spec["hconcat"][0]["layer"][0]["encoding"]["x"]
    assert x["scale"]["domain"] == ["4", "1,000", "sentence", "all"]


@pytest.mark.parametrize(
    ("draw", "runs"),
    [
        (charts.context_curve, {"one": {}}),
        (charts.ranks, scores(made(5)).assign(rank=None)),
        (charts.ranks, made(5).assign(vocabulary_size=None)),
    ],
)
def test_without_predictions_or_ranks_it_says_so(draw, runs):
    refused(draw, runs)


# -- accuracy by a column, two models, and scales


def test_accuracy_by_a_column_is_a_plain_count():
    table = pd.DataFrame({"item_id": FRAMES[0]["item_id"], "size": range(120)})
    shares = accuracy_by_column(FRAMES[0], table, by="size", bins=[30, 100])
    assert shares["group"].tolist() == ["up to 29", "30 to 99", "100 or more"]
    assert shares["n"].tolist() == [30, 70, 20]
    right = FRAMES[0]["correct"].astype(bool)
    for row, part in zip(shares.itertuples(), (right[:30], right[30:100], right[100:]), strict=True):
        assert row.accuracy == part.mean()
        low, high = proportion_confint(part.sum(), len(part), method="wilson")
        assert (row.low, row.high) == (pytest.approx(low), pytest.approx(high))
    assert len(accuracy_by_column(FRAMES[0], table, by="size", bins=3)) == 3
    panels = charts.accuracy(FRAMES, by="split").to_dict()["hconcat"]
    assert [panel["title"]["text"] for panel in panels] == ["LAMBADA development", "Control"]
    refused(charts.accuracy, FRAMES, by="mood")


def test_a_scatter_shows_items_or_counts_of_them():
    other = made(120, seed=5).assign(model="other")
    tables = charts.scatter(FRAMES[0], other).to_dict()["datasets"].values()
    [points] = [rows for rows in tables if len(rows) > 2]
    both = FRAMES[0].merge(other, on="item_id")
    both = both[np.isfinite(both[["log_prob_x", "log_prob_y"]]).all(axis=1)]
    assert [row["item_id"] for row in points] == both["item_id"].tolist()
    assert [row["a"] for row in points] == both["log_prob_x"].tolist()
    many = [made(2100, seed=seed) for seed in (1, 2)]
    spec = charts.scatter(*many).to_dict()
    counted = [row["items"] for row in rows_of(spec) if "items" in row]
    finite = np.isfinite([frame["log_prob"].astype(float) for frame in many]).all(axis=0)
    assert sum(counted) == finite.sum()
    assert len(counted) <= 36 * 36
    refused(charts.scatter, FRAMES, other)


def test_models_whose_lines_coincide_have_marks_of_their_own():
    same = [FRAMES[0].assign(model=f"model {k}") for k in range(5)]
    spec = charts.ranks(same).to_dict()
    drawn = [row for row in rows_of(spec) if row["marked"]]
    assert {row["model"] for row in drawn} == {f"model {k}" for k in range(5)}
    assert len({row["k"] for row in drawn}) == len(drawn), "no mark lies on another"


def test_accuracies_of_a_training_begin_at_zero():
    history = pd.DataFrame({"tokens": [1, 2], "loss": [9.0, 8.0], "tokens_per_second": [1.0, 1.0]})
    scores = pd.DataFrame({"step": [1, 2], "tokens": [1, 2], "seconds": [1, 2], "accuracy": [0.0, 0.0]})
    last = charts.training_curves(history, scores).to_dict()["concat"][-1]
    assert last["encoding"]["y"]["scale"]["domain"] == [0, 1]


def of_classes(seed, classes=("NE", "V")):
    frame = made(60, seed=seed)
    return frame.assign(word_class=[classes[row % len(classes)] for row in range(len(frame))])


def test_accuracy_by_window_is_the_mean_over_seeds_of_each_class():
    several, one = [of_classes(1), of_classes(2)], of_classes(3)
    table = accuracy_by_window({1: several, "sentence": one})
    keys = [("1", "named entity"), ("1", "verb"), ("sentence", "named entity"), ("sentence", "verb")]
    assert list(zip(table["window"], table["word_class"], strict=True)) == keys
    for row, (frames_, name) in zip(
        table.itertuples(), [(several, "NE"), (several, "V"), ([one], "NE"), ([one], "V")], strict=True
    ):
        of_class = [frame[frame["word_class"] == name].set_index("item_id") for frame in frames_]
        means = sum(frame["p_correct"] for frame in of_class) / len(frames_)
        expected = expected_accuracy(means, of_class[0]["book_id"])
        assert (row.accuracy, row.low, row.high, row.n) == pytest.approx(expected)
    refused(charts.windows, {1: made(5)})


def test_the_goldilocks_curve_shows_each_class():
    spec = charts.windows({1: of_classes(1), 5: of_classes(2), "sentence": of_classes(3)}).to_dict()
    assert {(row["window"], row["word_class"]) for row in rows_of(spec)} == {
        (window, name)
        for window in ("1", "5", "sentence")
        for name in ("named entity (n = 30)", "verb (n = 30)")
    }
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == ["1", "5", "sentence"]


def test_models_without_ranks_are_named():
    without = scores(made(20, seed=4)).assign(model="no ranks here", rank=None)
    other = scores(made(5, start="cbt/dev")).assign(model="of choices", vocabulary_size=None)
    panels = charts.ranks([*FRAMES, without, other]).to_dict()["hconcat"]
    heads = [" ".join(panel["title"]["subtitle"]).strip() for panel in panels]
    assert heads == ["120 items no ranks: no ranks here; of choices (cbt/dev)", "90 items"]
    assert len({len(panel["title"]["subtitle"]) for panel in panels}) == 1  # titles at one height
    assert answers_among(FRAMES).attrs["unranked"] == []


def test_each_group_of_a_column_has_its_number_of_items():
    first = FRAMES[0].assign(model="a", word_class=["NE"] * 70 + ["V"] * 50)
    second = first.iloc[:100].assign(model="b")
    spec = charts.accuracy([first, second], by="word_class").to_dict()
    assert {row["label"] for row in rows_of(spec)} == {"named entity\nn = 70", "verb\nn = 30 or 50"}
    (panel,) = spec["hconcat"]
    axis = panel["layer"][0]["encoding"]["x"]
    assert axis["sort"] == ["named entity\nn = 70", "verb\nn = 30 or 50"]
    assert axis["axis"]["labelExpr"] == "split(datum.label, '\\n')"


def test_variants_of_one_model_are_apart_and_sets_are_panels():
    plain = made(120, seed=1)
    other = made(120, seed=2, right=0.9, variant="capitalised")
    shares = accuracy_by_column([plain, other], by="known")
    assert set(shares["model"]) == {"made #1", "made #2"}
    assert shares.groupby("model")["n"].sum().tolist() == [120, 120]
    control = made(120, seed=3, start="lambada/control")
    assert set(accuracy_by_column([plain, control], by="known")["model"]) == {"made"}
    assert set(answers_among([plain, other])["model"]) == {"made #1", "made #2"}


# -- trainings

EVIL = "<img src=x onerror=alert(1)> & 'quoted'"


def trained(losses, scores=(), **options):
    history = [
        {"step": k, "tokens": 1000 * k, "seconds": float(k), "loss": loss, "tokens_per_second": 5.0}
        for k, loss in enumerate(losses, start=1)
    ]
    rows = [{"step": k, "tokens": 10 * k, "seconds": 1.0, **row} for k, row in enumerate(scores, start=1)]
    return Training("x", steps=len(losses), history=history, scores=rows, **options)


def panels_of(training):
    spec = training_curves(training.to_frame(), training.scores_frame()).to_dict()
    scored = training.scores_frame().columns.drop(["step", "tokens", "seconds"])
    names = ["loss", "tokens_per_second", *scored]
    rows = [spec["datasets"][panel["data"]["name"]] for panel in spec["concat"]]
    points = [[(row["tokens"], row["value"]) for row in table] for table in rows]
    return dict(zip(names, zip(spec["concat"], points, strict=True), strict=True))


def test_the_curve_is_the_data_with_labelled_axes():
    panel, points = panels_of(trained([5.0, math.nan, math.inf, None, 3.5]))["loss"]
    assert points == [(1000, 5.0), (5000, 3.5)]  # what is not finite is left out
    assert panel["title"]["text"] == "training loss"
    assert panel["encoding"]["y"]["title"] == "nats per word"
    assert panel["encoding"]["x"]["title"] == "words trained on"


def test_a_single_point_is_drawn():
    (one, _), (two, _) = (panels_of(trained(losses))["loss"] for losses in ([5.0], [5.0, 4.0]))
    assert one["mark"]["point"]
    assert not two["mark"]["point"]


def test_each_score_has_the_axis_of_its_kind():
    result = panels_of(
        trained([5.0], [{"accuracy": 0.25, "perplexity": 90.0}, {"accuracy": 0.5, "perplexity": 0.0}])
    )
    panel, points = result["accuracy"]
    assert points == [(10, 25.0), (20, 50.0)]
    assert panel["encoding"]["y"]["title"] == "%"
    assert panel["encoding"]["y"]["scale"]["domain"] == [0, 52.5]  # never below 0
    panel, points = result["perplexity"]
    assert points == [(10, 90.0)]  # no logarithm of 0
    assert panel["encoding"]["y"]["scale"]["type"] == "log"


def test_a_long_history_is_averaged():
    losses = np.random.default_rng(0).random(6000)
    _, points = panels_of(trained(losses.tolist()))["loss"]
    assert len(points) == 150
    assert [loss for _, loss in points] == pytest.approx(losses.reshape(150, 40).mean(axis=1))


def test_html_has_numbers_curves_and_notes_escaped():
    training = trained([5.0, 4.0], notes=[EVIL])
    training.name = EVIL
    html = training_html(training)
    assert html.count("<svg") == 1
    assert "currentColor" in html  # light or dark as the page
    assert "loss 4.000" in html
    assert "<img" not in html
    assert html.count("onerror=alert(1)&gt;") == 2
    assert "<svg" not in training_html(Training("x", steps=9))


# -- constructions


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 50), st.sampled_from(("novels", "passages"))), min_size=1
    )
)
def test_every_item_is_counted_once(steps):
    manifest = Manifest(
        steps=[
            Step(f"step {place}", kept + dropped, kept, {"reason": dropped}, unit=unit)
            for place, (kept, dropped, unit) in enumerate(steps)
        ],
        versions={},
    )
    counts = funnel_counts(manifest.to_frame())
    by_place = counts.groupby("place")["n"].sum()
    assert by_place.tolist() == [kept + dropped for kept, dropped, _ in steps]
    assert counts[counts["outcome"] == "kept"]["n"].tolist() == [kept for kept, *_ in steps]
    assert counts["share"].between(0, 1).all()


def test_what_is_still_open_is_neither_kept_nor_dropped():
    steps = pd.DataFrame(
        {"step": [1], "condition": ["passage"], "n_in": [10], "n_open": [4], "n_dropped": [5], "n_out": [1]}
    )
    counts = funnel_counts(steps)
    assert dict(zip(counts["outcome"], counts["n"], strict=True)) == {"kept": 1, "dropped": 5, "open": 4}
    assert set(counts["step"]) == {"1. passage"}


def test_a_panel_for_each_unit_and_a_colour_for_each_outcome():
    steps = pd.DataFrame(
        {"step": ["a", "b"], "n_in": [10, 70], "n_out": [8, 70], "unit": ["novels", "items"]}
    )
    spec = charts.funnel(steps).to_dict()
    assert [panel["layer"][0]["encoding"]["x"]["title"] for panel in spec["vconcat"]] == ["novels", "items"]
    assert [row["label"] for row in rows_of(spec) if "label" in row] == ["8 (80.0%)", "70 (100.0%)"]
    assert spec["vconcat"][0]["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["kept", "dropped"]


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"step": ["a"]}),
        "steps",
        pd.DataFrame({"step": [], "n_in": [], "n_out": []}),
    ],
)
def test_a_frame_that_is_no_funnel_is_an_error(frame):
    refused(charts.funnel, frame)
