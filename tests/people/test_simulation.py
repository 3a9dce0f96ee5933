"""Simulated people, what judgments cost, and how much context a word needs."""

import numpy as np
import pandas as pd
import pytest
from refused import refused
from scipy.stats import binomtest

import workbench as wb
from workbench import people
from workbench.models import MaximumFrequency, RandomWord
from workbench.people import (
    PAPER_RATES,
    Rates,
    expected_cost,
    protocol,
    simulate,
    unfold,
    with_context_sentences,
)
from workbench.people.reports import unfolding
from workbench.storage.errors import DataError


def many(n):
    """Return `n` passages of the sample, each several times under other names."""
    frame = wb.load("sample", "dev").frame
    parts = [frame.assign(item_id=frame["item_id"] + f"/{k}") for k in range(-(-n // len(frame)))]
    return wb.Items(pd.concat(parts, ignore_index=True))[:n]


@pytest.mark.parametrize("rates", [PAPER_RATES, Rates(((0.3, 0.3), (0.2, 0.2), (0.4, 0.4)))])
def test_rates_come_out_as_they_were_configured(rates):
    items = many(1500)
    judgments = simulate(items, subjects=rates, seed=1)
    funnel = people.funnel(items, judgments)
    assert funnel["n_open"].sum() == 0
    for n, share in zip(funnel["n_dropped"], rates.middle, strict=True):
        assert binomtest(int(n), 1500, share).pvalue > 1e-4
    assert len(people.survivors(items, judgments)) == funnel["n_out"].iloc[-1]
    assert not judgments.duplicated(["person", "item_id"]).any()
    assert judgments["answered"].is_monotonic_increasing
    expected = expected_cost(1500, Rates(tuple((share, share) for share in rates.middle)), level=0.9999)
    assert len(judgments) == pytest.approx(expected["n_judgments"].iloc[-1], rel=0.1)
    by_step = judgments.groupby("step").size()
    assert by_step.tolist() == pytest.approx(expected["n_judgments"].tolist()[:-1], rel=0.25)


def test_the_rates_of_the_paper_are_those_of_its_survivors():
    first, second, third = PAPER_RATES.dropped
    assert (first, second, third) == ((0.84, 0.86), (0.06, 0.07), (0.03, 0.05))
    assert 1 - sum(PAPER_RATES.middle) == pytest.approx(1 / 25, abs=0.01)


def test_a_model_takes_the_place_of_people():
    items = wb.load("sample", "dev").sample(40)
    model = RandomWord("passage")
    chosen = protocol("lambada", people=(1, 1, 2))
    judgments = simulate(items, chosen, model, n_subjects=4)
    right = model.predict(items)["correct"].to_numpy(dtype=bool)
    states = people.states(items, judgments, chosen)
    assert (states["step"].eq(1).to_numpy() == ~right).all()
    table = people.predictions(items, judgments, chosen)
    whole = table[~table["variant"].str.endswith("(query only)")]
    expected = model.predict(items).set_index("item_id")["prediction"]
    assert (whole["prediction"] == expected.loc[whole["item_id"]].to_numpy()).all()


def test_models_choose_among_candidates_and_unfold():
    questions = wb.load("sample", variant="cbt")[:12]
    models = [MaximumFrequency("context"), RandomWord()]
    chosen = protocol("cbt", people=2, accept=("exact", "case"))
    judgments = simulate(questions, chosen, models, n_subjects=2)
    table = people.predictions(questions, judgments, chosen)
    for model, (_, group) in zip(models, table.groupby("model"), strict=True):
        expected = model.predict(questions).set_index("item_id")["prediction"]
        assert (group["prediction"] == expected.loc[group["item_id"]].to_numpy()).all()
    alone = protocol("unfolding", people=1)
    judgments = simulate(questions, alone, models[0], n_subjects=1)
    scored = people.score_judgments(questions, judgments, alone)
    pd.testing.assert_frame_equal(unfolding(scored), unfold(questions, models[0]))
    assert len(people.agreement(questions, judgments, alone)) == 1


def test_the_majority_is_one_model_a_condition():
    questions = wb.load("sample", variant="cbt")[:12]
    models = [MaximumFrequency("context"), MaximumFrequency("context"), RandomWord()]
    judgments = simulate(questions, "cbt", models, n_subjects=3)
    table = people.predictions(questions, judgments, "cbt", majority=True)
    assert table["model"].unique().tolist() == ["majority of 3 people"]
    expected = models[0].predict(questions).set_index("item_id")["prediction"]
    assert (table["prediction"] == expected.loc[table["item_id"]].to_numpy()).all()
    agreement = people.agreement(questions, judgments, "cbt")["passage"]
    assert (agreement.n_people, agreement.n_items, agreement.n_answers) == (3, 12, 36)
    assert 1 / 3 <= agreement.pairwise <= 1
    rows = wb.evaluate([table, people.predictions(questions, judgments, "cbt", person="subject 1")])
    assert sorted(rows["model"]) == ["majority of 3 people", "person: subject 1"]
    refused(people.predictions, questions, judgments, "cbt", person="nobody")
    refused(people.predictions, questions, judgments, "cbt", person="subject 1", majority=True)


def test_unfolding_of_a_model_is_its_first_right_prediction_by_length():
    items = wb.load("sample", "dev").sample(3)
    model = RandomWord("passage")
    curve = unfold(items, model)
    longest = max(len(item.context) for item in items)
    right = np.zeros((len(items), longest + 1), dtype=bool)
    for place in range(len(items)):
        for n in range(longest + 1):
            item = with_context_sentences(items[place : place + 1], n)
            assert item[0].context == items[place].context[max(0, len(items[place].context) - n) :]
            assert item[0].query == items[place].query
            right[place, n] = model.predict(item)["correct"].iloc[0]
    assert curve["n_guessed"].tolist() == np.logical_or.accumulate(right, axis=1).sum(axis=0).tolist()
    assert curve["n_context_sentences"].tolist() == list(range(longest + 1))
    with pytest.raises(DataError):
        with_context_sentences(items, -1)


def test_the_expected_cost_is_that_of_a_calculation_by_hand():
    dropped = (0.85, 0.065, 0.045)
    table = expected_cost(100_000, Rates(tuple((share, share) for share in dropped)))
    third = 1 - (1 - dropped[2] / 0.085) ** (1 / 10)  # that one person guesses the word from the sentence
    judgments = [100_000, 15_000, 8_500 * sum((1 - third) ** k for k in range(10))]
    costs = [judgments[0] / 10 * 0.22, judgments[1] / 10 * 0.22, judgments[2] / 20 * 0.15]
    assert table["n_in"].tolist() == pytest.approx([100_000, 15_000, 8_500, 100_000], rel=0.01)
    assert table["n_judgments"].tolist() == pytest.approx([*judgments, sum(judgments)], rel=0.01)
    assert table["cost"].tolist() == pytest.approx([*costs, sum(costs)], rel=0.01)
    assert table["cost_per_kept"].iloc[-1] == pytest.approx(sum(costs) / 4_000, rel=0.01)
    assert (table["cost_low"] <= table["cost"]).all()
    assert (table["cost"] <= table["cost_high"]).all()


def test_the_papers_rates_explain_its_cost_only_where_few_items_pass():
    def cost(*dropped):
        rates = Rates(tuple((share, share) for share in dropped))
        return expected_cost(200_000, rates)["cost_per_kept"].iloc[-1]

    assert cost(0.85, 0.065, 0.045) < 1.24  # dollars in the paper, where one in 25 passes
    assert cost(0.86, 0.07, 0.05) > 1.24  # one in 50


def test_what_cannot_be_simulated_is_refused():
    items = wb.load("sample", "dev")[:3]
    refused(simulate, items, n_subjects=11)
    refused(simulate, items, subjects=[])
    refused(simulate, items, "cbt", RandomWord())
    refused(simulate, items, "unfolding", Rates(((0.1, 0.1),)))
    refused(simulate, items, "lambada", Rates(((0.1, 0.1),)))
    for dropped in (((0.5, 0.4),), ((-1, 0),), ((0.6, 0.7), (0.6, 0.7))):
        with pytest.raises(DataError):
            Rates(dropped)
    for options in ({"n_items": 0}, {"level": 1}):
        with pytest.raises(DataError):
            expected_cost(**{"n_items": 10} | options)
    with pytest.raises(DataError):
        expected_cost(10, protocol=protocol("cbt"))
