"""Simulated people, what campaigns cost, and how much context a word needs."""

import numpy as np
import pandas as pd
import pytest
from refused import refused
from scipy.stats import binomtest

import workbench as wb
from workbench.models import MaximumFrequency, RandomWord
from workbench.people import (
    PAPER_RATES,
    Campaign,
    Rates,
    expected_cost,
    protocol,
    simulate,
    unfold,
    with_context_sentences,
)
from workbench.storage.errors import DataError


def many(n):
    """Return `n` passages of the sample, each several times under other names."""
    frame = wb.load("sample", "dev").frame
    parts = [frame.assign(item_id=frame["item_id"] + f"/{k}") for k in range(-(-n // len(frame)))]
    return wb.Items(pd.concat(parts, ignore_index=True))[:n]


@pytest.fixture
def make(tmp_path):
    made = []

    def of(items, kind="lambada", **settings):
        made.append(Campaign.create(tmp_path / f"{len(made)}.db", items, kind, **settings))
        return made[-1]

    yield of
    for campaign in made:
        campaign.close()


@pytest.mark.parametrize("rates", [PAPER_RATES, Rates(((0.3, 0.3), (0.2, 0.2), (0.4, 0.4)))])
def test_rates_come_out_as_they_were_configured(make, rates):
    campaign = make(many(1500))
    simulate(campaign, rates, seed=1)
    funnel = campaign.funnel()
    assert funnel["n_open"].sum() == 0
    for n, share in zip(funnel["n_dropped"], rates.middle, strict=True):
        assert binomtest(int(n), 1500, share).pvalue > 1e-4
    frame = campaign.judgments()
    assert not frame.duplicated(["subject", "item_id"]).any()
    assert frame["counted"].all()
    expected = expected_cost(1500, Rates(tuple((share, share) for share in rates.middle)), level=0.9999)
    total, costs = expected.iloc[-1], campaign.costs().iloc[-1]
    # people of a step may take a page that is not full, so there are more pages than judgments need
    assert costs["n_judgments"] == pytest.approx(total["n_judgments"], rel=0.1)
    assert costs["cost"] >= total["cost_low"]
    assert costs["cost"] <= total["cost_high"] * 1.1


def test_a_simulation_goes_on_where_it_was_stopped(make, monkeypatch):
    from workbench.people import simulation  # noqa: PLC0415

    monkeypatch.setattr(simulation, "_PAGES", 3)
    campaign, calls = make(many(120)), []
    judge = simulation._judge_page

    def stopping(*arguments):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return judge(*arguments)

    monkeypatch.setattr(simulation, "_judge_page", stopping)
    even = Rates(((0.2, 0.2), (0.2, 0.2), (0.2, 0.2)))
    with pytest.raises(KeyboardInterrupt):
        simulate(campaign, even)
    assert len(campaign.judgments()) == 6 * 10  # two transactions of three pages
    simulate(campaign, even)
    assert campaign.funnel()["n_open"].sum() == 0
    assert campaign.judgments().groupby(["item_id", "step"]).size().loc[:, 1].max() == 1


def test_a_model_takes_the_place_of_people(make):
    items = wb.load("sample", "dev").sample(40)
    model = RandomWord("passage")
    campaign = make(items, people=(1, 1, 2))
    simulate(campaign, model, n_subjects=4)
    right = model.predict(items)["correct"].to_numpy(dtype=bool)
    states = campaign.states().set_index("item_id")
    stopped_first = states["step"].eq(1).reindex(items.frame["item_id"]).to_numpy()
    assert (stopped_first == ~right).all()
    table = campaign.predictions()
    whole = table[~table["variant"].str.endswith("(query only)")]
    expected = model.predict(items).set_index("item_id")["prediction"]
    assert (whole["prediction"] == expected.loc[whole["item_id"]].to_numpy()).all()


def test_models_choose_among_candidates_and_unfold(make):
    questions = wb.load("sample", variant="cbt")[:12]
    models = [MaximumFrequency("context"), RandomWord()]
    campaign = make(questions, "cbt", people=2, accept=("exact", "case"))
    simulate(campaign, models, n_subjects=2)
    table = campaign.predictions()
    for model, (_, part) in zip(models, table.groupby("model"), strict=True):
        expected = model.predict(questions).set_index("item_id")["prediction"]
        assert (part["prediction"] == expected.loc[part["item_id"]].to_numpy()).all()
    unfolding = make(questions, "unfolding", people=1)
    simulate(unfolding, models[0], n_subjects=1)
    pd.testing.assert_frame_equal(unfolding.unfolding(), unfold(questions, models[0]))
    assert len(unfolding.agreement()) == 1


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


def test_what_cannot_be_simulated_is_refused(make):
    items = wb.load("sample", "dev")[:3]
    campaign = make(items)
    refused(simulate, campaign, n_subjects=11)
    refused(simulate, campaign, [])
    refused(simulate, make(items, "unfolding"), Rates(((0.1, 0.1),)))
    refused(simulate, campaign, Rates(((0.1, 0.1),)))
    for dropped in (((0.5, 0.4),), ((-1, 0),), ((0.6, 0.7), (0.6, 0.7))):
        with pytest.raises(DataError):
            Rates(dropped)
    for options in ({"n_items": 0}, {"level": 1}):
        with pytest.raises(DataError):
            expected_cost(**{"n_items": 10} | options)
    with pytest.raises(DataError):
        expected_cost(10, protocol=protocol("cbt"))
