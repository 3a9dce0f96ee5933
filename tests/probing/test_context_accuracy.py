"""Accuracy by how much of the context is read, beside a plain loop, and people's judgments."""

import numpy as np
import pandas as pd
import pytest
from braced_items import clozes
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from statsmodels.stats.proportion import proportion_confint

import workbench as wb
from workbench.items.items import Items
from workbench.models import MaximumFrequency
from workbench.probing.context_accuracy import expected_accuracy

WORDS = ["a", "b", "c"]
SENTENCE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def reader():
    """Return a model that reads all words before the blank."""
    return MaximumFrequency("context", query=True)


PASSAGE = st.tuples(st.lists(SENTENCE, max_size=3), SENTENCE, st.sampled_from(WORDS))


@settings(max_examples=10, deadline=None)
@given(st.lists(PASSAGE, min_size=1, max_size=4), st.sampled_from(["sentences", "words"]))
def test_models_read_so_much_and_no_more(passages, unit):
    texts = [" . ".join([*context, f"{left} {{{answer}}}"]) for context, left, answer in passages]
    items = clozes(*texts)
    model, seen = reader(), []

    class Watched(MaximumFrequency):
        def predict(self, items, top_k=10, *, seed=0):
            seen.append([item.text[: item.answer_span[0]].split() for item in items])
            return super().predict(items, top_k, seed=seed)

    reads = (0, 1, 2, None) if unit == "sentences" else (1, 3, None)
    curve = wb.context_accuracy({"m": Watched("context", query=True)}, items, reads, unit=unit)
    assert curve["reads"].tolist() == [str(k) if k is not None else "all" for k in reads]
    for k, words in zip(reads, seen, strict=True):
        for row, item in zip(words, items, strict=True):
            whole = item.text[: item.answer_span[0]].split()
            if k is None:
                expected = whole
            elif unit == "words":
                expected = whole[-k:]
            else:
                first = item.sentences[-1 - min(k, len(item.sentences) - 1)][0]
                expected = item.text[first : item.answer_span[0]].split()
            assert row == expected
    assert curve["accuracy"].iloc[-1] == pytest.approx(model.predict(items, 1)["p_correct"].mean())


NOVELS, EACH = 60, 8


@pytest.mark.parametrize("by_novel", [True, False])
@pytest.mark.parametrize("outcomes", [(0.0, 1.0), (0.0, 1 / 3, 0.5, 1.0)])
def test_intervals_are_as_wide_as_outcomes_differ_between_novels_or_items(by_novel, outcomes):
    """The oracle is the normal interval, with the standard error over novels or over items."""
    rng = np.random.default_rng(0)
    books = pd.Series(np.repeat([f"novel {k}" for k in range(NOVELS)], EACH))
    of_novel = rng.choice(outcomes, (NOVELS, 1))
    right = pd.Series(np.where(rng.random((NOVELS, EACH)) < 0.7, of_novel, rng.choice(outcomes)).ravel())
    gaps = [pd.Series([None], dtype=object), pd.Series([np.nan])]
    known = books if by_novel else books.where(books.index > 0)
    mean, low, high, n = expected_accuracy(pd.concat([right, gaps[1]]), pd.concat([known, gaps[0]]))
    assert (mean, n) == (pytest.approx(right.mean()), NOVELS * EACH)
    units = right.groupby(books).mean() if by_novel else right
    half = 1.96 * units.std() / np.sqrt(len(units))
    assert (mean - low, high - mean) == (pytest.approx(half, rel=0.15), pytest.approx(half, rel=0.15))
    if not by_novel and outcomes == (0.0, 1.0):
        wilson = proportion_confint(right.sum(), n, method="wilson")
        assert (low, high) == pytest.approx(wilson)


def test_a_curve_has_these_intervals_and_the_chart_holds_aggregates(items):
    model = reader()
    novels = [f"novel {k % 5}" for k in range(len(items))]
    for books in (None, novels):
        asked = Items(items.frame.assign(book_id=books))
        curve = wb.context_accuracy([model], asked, (0, None))
        assert (curve["n"] == len(items)).all()
        right = model.predict(asked, 1)["p_correct"]
        expected = expected_accuracy(right, asked.frame["book_id"])
        assert curve[["accuracy", "low", "high", "n"]].to_numpy()[-1].tolist() == [*expected]
    spec = wb.charts.context_curve(curve.iloc[::-1]).to_dict()
    data = next(iter(spec["datasets"].values()))
    assert len(data) == 2
    assert {row["reads"]: row["accuracy"] for row in data} == dict(
        zip(curve["reads"], curve["accuracy"], strict=True)
    )
    assert "items" not in data[0]
    assert spec["layer"][1]["encoding"]["x"]["scale"]["domain"] == ["0", "all"]


def judged(condition, shown, right):
    """Return judgments, one a row, each the last of its person."""
    return pd.DataFrame(
        {"condition": condition, "shown": shown, "correct": right, "prediction_correct": right,
         "last_answer": True}
    )  # fmt: skip


def test_people_stand_beside_models(items):
    judgments = pd.concat([
        judged("sentence", 0, [True, False, False, False]),
        judged("passage", 4, [True, True, False]),
        judged("unfolding", [0, 2, 2, 3], [True, True, True, False]),
        judged("passage", 4, [True]).assign(last_answer=False),
    ])  # fmt: skip
    curve = wb.context_accuracy(reader(), items, (None,), judgments=judgments)
    people = curve[curve["model"] == "people"].set_index("reads")
    assert people["accuracy"].to_dict() == {"0": 0.25, "all": pytest.approx(2 / 3)}
    assert people["n"].to_dict() == {"0": 4, "all": 3}
    unfolding = curve[curve["model"] == "people, unfolding"]
    assert unfolding[["reads", "accuracy", "n"]].to_numpy().tolist() == [
        ["0", 0.25, 4], ["1", 0.25, 4], ["2", 0.75, 4], ["3", 0.75, 4]
    ]  # fmt: skip
    steps = wb.charts.context_curve(curve).to_dict()["layer"][1]["encoding"]["x"]["scale"]["domain"]
    assert steps == ["0", "1", "2", "3", "all"]


def test_judgments_of_a_game_are_read(items, tmp_path):
    game = wb.guess(items[:2], protocol="unfolding", folder=tmp_path)
    try:
        curve = wb.context_accuracy(reader(), items[:2], (0,), judgments=game.judgments())
    finally:
        game.close()
    assert len(set(curve["model"])) == 1  # nobody has guessed


@pytest.mark.parametrize(
    "options",
    [
        {"reads": (-1,)}, {"reads": (0,), "unit": "words"},
        {"reads": (1.5,)}, {"reads": ()}, {"unit": "letters"},
        {"judgments": pd.DataFrame({"condition": []})},
        {"judgments": pd.DataFrame(), "unit": "words"},
    ],
)  # fmt: skip
def test_bad_input_is_named(items, options):
    refused(wb.context_accuracy, reader(), items, **options)
