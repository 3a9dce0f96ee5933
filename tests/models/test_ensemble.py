"""Ensembles and the exclusion of words of the query, against numbers by hand."""

import numpy as np
import pandas as pd
import pytest
from braced_items import clozes
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.items.items import Items
from workbench.models import Ensemble, ExcludeCooccurring, MaximumFrequency, WordDistance
from workbench.models.base import Predictor, pad
from workbench.storage.errors import DataError

WORDS = ["ann", "bob", "cat"]
ITEMS = clozes(
    "it rained . then {ann} ran to bob .", "it rained . {bob} ran .", dataset="cbt", candidates=tuple(WORDS)
)


class Fixed(Predictor):
    """A model with the same scores for every item."""

    config, training = {}, {}

    def __init__(self, scores, score_type="score", name="fixed", system=None):
        self.name, self.score_type, self.scores = name, score_type, scores
        self.systems = {} if system is None else {"cnnqa": system, "cbt": system}

    def score(self, items, words):
        return pad([[self.scores[WORDS.index(word)] for word in row] for row in words] or [[]] * len(items))


def scores(model, items=ITEMS):
    return np.array(model.score(items, items.frame["candidates"].tolist()))


def test_the_mean_is_of_probabilities_not_of_scores():
    probable = Fixed(np.log([0.2, 0.1, 0.1]), "log_prob")  # of the candidates alone: 0.5, 0.25, 0.25
    sharp = Fixed([0.0, np.log(8.0), 0.0])  # 0.1, 0.8, 0.1
    shares = Fixed([0.3, 0.3, 0.4])  # sum to 1: kept
    model = Ensemble([probable, sharp, shares])
    expected = [(0.5 + 0.1 + 0.3) / 3, (0.25 + 0.8 + 0.3) / 3, (0.25 + 0.1 + 0.4) / 3]
    assert scores(model) == pytest.approx(np.array([expected, expected]))
    frame = model.predict(ITEMS)
    assert frame["prediction"].tolist() == ["bob", "bob"]
    assert frame["correct"].tolist() == [False, True]
    assert frame["candidate_scores"].iloc[0] == pytest.approx(expected)
    assert model.name == "ensemble of 3 x fixed"


def test_the_sizes_of_the_scores_do_not_decide():
    loud, quiet = Fixed([0.0, 100.0, 0.0]), Fixed([2.0, 0.0, 0.0])
    mean = np.mean([loud.scores, quiet.scores], axis=0)
    assert mean.argmax() == 1
    assert scores(Ensemble([loud, quiet, quiet])).argmax(axis=1).tolist() == [0, 0]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-5, 0), min_size=3, max_size=3), st.floats(-50, 0))  # log-probabilities
def test_one_model_keeps_its_order_and_a_constant_changes_nothing(values, constant):
    one = scores(Ensemble([Fixed(values, "log_prob")]))[0]
    shifted = scores(Ensemble([Fixed([value + constant for value in values], "log_prob")]))[0]
    assert one == pytest.approx(shifted)
    assert one.sum() == pytest.approx(1)
    assert one == pytest.approx(np.exp(values) / np.exp(values).sum())


def test_items_may_have_different_numbers_of_words_and_impossible_ones():
    model = Ensemble([Fixed([0.0, -np.inf, 0.0]), Fixed([-np.inf, -np.inf, 0.0])])
    values = model.score(ITEMS, [["ann", "bob", "cat"], ["bob"]])
    assert values[0] == pytest.approx([0.25, 0, 0.75])
    assert values[1, 0] == 1  # no word is possible for any model: all are alike
    assert np.isnan(values[1, 1:]).all()


def test_runs_make_the_ensemble_that_their_models_make(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    items = wb.load("sample", "dev", variant="cbt")
    models = [WordDistance(), MaximumFrequency("context")]
    runs = [wb.predict(items, model) for model in models]
    made = wb.predict(items, Ensemble(models)).predictions
    for members in (runs, [run.run for run in runs], [run.predictions for run in runs]):
        of_runs = Ensemble(members)
        frame = wb.predict(items, of_runs).predictions
        columns = ["item_id", "model", "prediction", "correct", "candidate_scores"]
        pd.testing.assert_frame_equal(frame[columns], made[columns])
    assert {Ensemble(one).name for one in (runs[0], runs[0].run)} == {"ensemble of 1 x Word distance (m = 5)"}
    refused(of_runs.predict, ITEMS)
    refused(of_runs.save, tmp_path / "saved")


@pytest.mark.parametrize("members", [[], [3], [pd.DataFrame({"model": ["a", "b"]})]])
def test_what_is_no_ensemble_is_refused(members):
    with pytest.raises(DataError):
        Ensemble(members)


def test_predictions_without_candidates_are_refused():
    frame = Fixed([1.0, 2.0, 3.0]).predict(ITEMS)
    refused(Ensemble([frame.assign(candidate_scores=None)]).predict, ITEMS)


def test_words_of_the_query_are_not_chosen():
    base = Fixed([1.0, 3.0, 2.0])
    model = ExcludeCooccurring(base)
    frame = model.predict(ITEMS)
    assert base.predict(ITEMS)["prediction"].tolist() == ["bob", "bob"]
    assert frame["prediction"].tolist() == ["cat", "bob"]  # bob occurs in the first query, beside the blank
    assert scores(model)[0] == pytest.approx([1, 3 - 2 - 1, 2])
    assert frame["log_prob"].isna().all()


def test_an_answer_that_occurs_in_the_query_counts_as_wrong():
    items = clozes("it rained . {Bob} met bob .", dataset="cbt", candidates=("ann", "Bob", "cat"))
    model = ExcludeCooccurring(MaximumFrequency("context", query=True))
    frame = model.predict(items)
    assert frame["correct"].tolist() == [False]
    assert frame["rank"].tolist() == [3]


def test_where_all_words_occur_in_the_query_all_stay():
    items = clozes("it rained . ann , cat and bob met {ann} .", dataset="cbt", candidates=tuple(WORDS))
    base = Fixed([1.0, 3.0, 2.0])
    assert ExcludeCooccurring(base).predict(items)["prediction"].tolist() == ["bob"]


def test_words_of_several_tokens_occur_as_wholes_on_one_side_of_the_blank():
    class Same(Fixed):
        def score(self, _items, words):
            return pad([[0.0] * len(row) for row in words])

    words = ["new york", "york", "the new", "new", "yor"]
    item = clozes("it rained . the new {york} york was cold .", dataset="cbt")
    values = ExcludeCooccurring(Same([])).score(item, [words])[0]
    assert dict(zip(words, values < 0, strict=True)) == {
        "new york": False, "york": True, "the new": True, "new": True, "yor": False,
    }  # fmt: skip


def test_rows_of_the_papers_tables_are_found():
    base = Fixed([1.0, 3.0, 2.0], system="MEMNNS (WINDOW MEMORY + SELF-SUP.)")
    several = Ensemble([base, base])
    cnn = Items(ITEMS.frame.assign(dataset="cnnqa", split="test", variant="cnn"))
    models = [base, several, ExcludeCooccurring(several), ExcludeCooccurring(base)]
    tables = {name: wb.table(name, [m.predict(cnn) for m in models]) for name in ("cnnqa", "cnnqa-ablation")}
    ours = {
        name: table.frame[table.frame["model"].notna() & table.frame["published"].notna()]
        for name, table in tables.items()
    }
    assert [set(ours[name]["model"]) for name in tables] == [
        {model.name for model in models[:3]}, {models[0].name, models[3].name},
    ]  # fmt: skip
    other = Fixed([1.0, 3.0, 2.0], system="MEMNNS (WINDOW MEMORY)")
    assert Ensemble([base, other]).systems == {}
