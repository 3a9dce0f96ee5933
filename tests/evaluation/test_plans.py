"""Plans, and the looks at planned items: what counts, what is printed, two writers, damage."""

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from html_page import Page
from made_predictions import items_of, made
from refused import refused
from scipy.stats import binom

import workbench as wb
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.paired import minimum_detectable_effect

QUICK = {"resamples": 20}
FIRST, SECOND = made(40, seed=1), made(40, seed=2, model="second")
ITEMS = items_of(FIRST)


@pytest.fixture
def planned(no_data):  # noqa: ARG001 - the store is empty
    return wb.plan(ITEMS, hypothesis="The first is better.", effect=0.1, discordant=0.3)


def notes(table):
    _, planned, text = table.attrs["note"].partition("Planned")
    return [planned + text] if planned else []


def looks():
    return int(wb.plans()["looks"].item())


def test_a_plan_says_what_it_is_of(planned, no_data):
    assert (planned.n, planned.dataset, planned.split, planned.looks) == (40, "lambada", "dev", ())
    assert planned.item_ids == tuple(ITEMS.frame["item_id"])
    assert datetime.fromisoformat(planned.created).tzinfo is not None
    assert planned.mde == minimum_detectable_effect(12, 40)[0]
    shown = Page(planned._repr_html_()).text
    for text in ("The first is better.", "+10.0 points", "30.0 % of the items are discordant"):
        assert text in shown
        assert text in str(planned)
    assert wb.plan(ITEMS, hypothesis="The first is better. ", effect=0.1, discordant=0.3) == planned
    assert len(list((no_data / "plans").glob("*.json"))) == len(wb.plans()) == 1
    wb.plan(ITEMS, hypothesis="Another.", models=["first", wb.models.RandomWord("passage")])
    assert wb.plans()["hypothesis"].tolist()[::-1] == ["The first is better.", "Another."]
    assert "5.0 % of the items" not in str(planned)


def test_the_power_of_a_plan_is_that_of_a_plain_loop(planned):
    p = (1 + 0.1 / 0.3) / 2
    wanted = sum(
        binom.pmf(m, 40, 0.3) * binom.pmf(k, m, p)
        for m in range(41)
        for k in range(m // 2 + 1, m + 1)
        if 2 * binom.sf(k - 1, m, 0.5) <= 0.05
    )
    assert planned.power == pytest.approx(wanted)


def test_each_look_at_new_results_counts_once(planned):
    line = f"Planned {planned.created[:10]}, look {{}}: The first is better."
    assert notes(wb.evaluate(FIRST, **QUICK)) == [line.format(1)]
    assert notes(wb.evaluate([FIRST], by="known", **QUICK)) == [line.format(1)]
    assert line.format(2) in wb.significance(FIRST, SECOND, **QUICK).notes
    assert notes(wb.leaderboard([FIRST, SECOND], published=False, **QUICK)) == [line.format(2)]
    right = {"prediction": SECOND["answer"], "correct": True, "p_correct": 1.0, "rank": 1}
    better = SECOND.assign(**right)  # other results of the same model
    assert notes(wb.leaderboard([FIRST, better], published=False, **QUICK)) == [line.format(3)]
    compared = Comparison.of(ITEMS, [FIRST, made(40, seed=3, model="third")], **QUICK)
    assert compared.plans == (line.format(4),)
    assert line.format(4) in str(compared)
    assert line.format(4) in wb.hardest([FIRST, SECOND], ITEMS).warnings
    again = wb.plan(ITEMS, hypothesis="The first is better.", effect=0.1, discordant=0.3)
    assert [(look.function, look.models) for look in again.looks] == [
        ("evaluate", ("made",)), ("significance", ("second",)), ("leaderboard", ("second",)),
        ("compare", ("third",)),
    ]  # fmt: skip
    assert "Look 4" in str(again)


@pytest.mark.usefixtures("planned")
def test_a_part_of_the_items_is_a_look_and_other_items_are_none():
    assert notes(wb.evaluate(FIRST[:5], **QUICK)) != []
    assert looks() == 1
    other = FIRST.assign(item_id=[f"lambada/dev/other{k}" for k in range(40)])
    assert notes(wb.evaluate(other, **QUICK)) == []
    assert notes(wb.evaluate(FIRST.assign(dataset="mine"), **QUICK)) == []
    assert looks() == 1
    assert notes(wb.evaluate(FIRST[["item_id", "model", "prediction"]], items=ITEMS, **QUICK)) != []


@pytest.mark.usefixtures("no_data")
def test_stored_runs_of_the_items_are_named_in_the_plan():
    run = wb.keep(ITEMS, FIRST)
    planned = wb.plan(ITEMS, hypothesis="Late.")
    assert planned.runs_before == (run.run,)
    assert notes(wb.evaluate(run, **QUICK)) == [planned.line.replace("look 0", "look 1")]
    assert "(after 1 stored run of these items), look 0: Late." in planned.line
    assert looks() == 1
    assert notes(wb.leaderboard(published=False, **QUICK)) != []  # the same results, from the store
    assert looks() == 1


@pytest.mark.usefixtures("planned")
def test_threads_lose_no_look():
    frames = [made(40, seed=seed, model=f"model {seed}") for seed in range(8)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda frame: wb.evaluate(frame, resamples=2), frames))
    assert looks() == 8


@pytest.mark.parametrize(
    "options",
    [
        {"hypothesis": "\ud800"},
        {"measure": "f1"},
        {"effect": 0},
        {"effect": 0.3, "discordant": 0.2},
        {"discordant": 2},
        {"level": 95},
        {"measure": "perplexity", "effect": 0.1},
    ],
)
def test_what_is_no_plan_is_refused(options, no_data):
    refused(wb.plan, ITEMS, **{"hypothesis": "It works."} | options)
    assert not (no_data / "plans").exists()
