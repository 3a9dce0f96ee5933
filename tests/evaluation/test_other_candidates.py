"""Models that chose from other candidates are not compared by a test, and have no common ranking."""

import numpy as np
import pyarrow as pa
import pytest
from braced_items import cloze
from made_predictions import made
from refused import refused

import workbench as wb
from workbench.evaluation.align import align
from workbench.evaluation.paired import joint_candidates, other_candidates
from workbench.items.items import Items
from workbench.models import RandomWord
from workbench.predictions.schema import candidate_digests, from_answers

WORDS = ["dog", "cat", "cow", "hen", "fox", "owl", "bee", "ant", "elk", "emu"]
TOLD = "not the same task, so there is no p. Number of candidates: 10 (“"


def questions(k, n=60):
    """Return the same questions with k candidates each, the answer among them."""
    draw = np.random.default_rng(0)
    rows = [draw.permutation(WORDS).tolist() for _ in range(n)]
    return Items.from_records(
        cloze(f"It rained . The {{{row[0]}}} ran .", item_id=f"own/dev/{i}", candidates=sorted(row[:k]))
        for i, row in enumerate(rows)
    )


@pytest.mark.usefixtures("home")
def test_the_same_items_with_other_candidates_are_not_the_same_task():
    ten, three = questions(10), questions(3)
    model = RandomWord("passage")
    runs = [wb.predict(ten, model), wb.predict(three, model), wb.predict(ten, model, seed=1)]
    for a, b in (runs[:2], [run.predictions for run in runs[:2]]):
        test = wb.significance(a, b)
        assert np.isnan([test.p_value, test.mde]).all()
        pairs = align(ten, [a, b], resamples=20)
        assert pairs.pairs()[["p", "p_holm", "mde"]].isna().all(axis=None)
        assert TOLD in pairs.warnings[0]
        board = wb.leaderboard([a, b], resamples=20)
        assert board[["place", "p"]].isna().all(axis=None)
    same = [runs[0], runs[2]]
    assert 0 < wb.significance(*same).p_value <= 1
    assert wb.leaderboard(same, resamples=20)["place"].notna().all()
    assert not wb.evaluate(same, resamples=20).attrs["warnings"]
    part = wb.leaderboard([*same, runs[1]], resamples=20).set_index("run")
    assert part["place"].notna().to_dict() == {
        runs[0].run: True, runs[1].run: False, runs[2].run: True
    }  # fmt: skip


def test_answers_of_other_programs_hold_the_candidates_that_they_had():
    items = questions(10), questions(3)
    a, b = (
        from_answers(each, dict.fromkeys(each.frame["item_id"], "dog"), model=name)
        for each, name in zip(items, "ab", strict=True)
    )
    assert np.isnan(wb.significance(a, b).p_value)
    answers = [frame[["item_id", "model", "prediction"]] for frame in (a, b)]
    assert wb.significance(*answers, items=items[0]).p_value == 1  # the items that are passed
    board = wb.leaderboard(answers, items=items[0], published=False)
    assert board["place"].tolist() == [1, 1]
    assert wb.table("lambada", answers, items=items[0]).frame["ours"].isna().all()
    refused(wb.significance, *answers)
    [run] = wb.import_results(answers[0], items[0]).runs
    assert wb.significance(run, answers[1], items=items[0]).p_value == 1


def test_the_order_and_the_case_of_candidates_do_not_count_and_their_number_does():
    def digest(*words):
        [one] = candidate_digests(questions(3, 1).frame.assign(candidates=[list(words) or None]))
        return one

    assert digest("a", "b", "c") == digest("c", "a", "B")
    assert digest("a", "b", "c").startswith("3:")
    assert len({digest("a", "b", "c"), digest("a", "b", "d"), digest("a", "b"), digest("a", "b", "b")}) == 4
    assert digest() == "0"


TEN = "10:aaaa"


@pytest.mark.parametrize(
    ("a", "b", "differ"),
    [
        (TEN, TEN, False), (TEN, "10:bbbb", True), (TEN, "3:cccc", True), (TEN, "0", True),
        (TEN, None, False), ("0", "0", False), (None, None, False),
    ],
)  # fmt: skip
def test_candidates_are_compared_by_digest(a, b, differ):
    for beside in (TEN, "0"):
        sides = [pa.array([beside, each], pa.string()) for each in (a, b)]
        assert other_candidates(*sides) == other_candidates(*sides[::-1]) == differ
    alone = [pa.array([joint_candidates(pa.array([each] * 3, pa.string()))], pa.string()) for each in (a, b)]
    assert other_candidates(*alone) == differ


def test_vocabularies_of_models_are_not_candidates():
    a, b = made(40, model="a"), made(40, seed=1, model="b", n_choices=60_000, vocabulary_size=60_000)
    assert 0 < wb.significance(a, b).p_value <= 1
    assert wb.leaderboard([a, b], published=False)["place"].notna().all()


@pytest.mark.usefixtures("home")
def test_digests_of_a_frame_stay_and_others_are_those_of_the_items():
    items = questions(3, 4)
    frame = RandomWord("passage").predict(items)
    other = frame.assign(candidates_digest=["10:aaaa", None, None, None])
    [run] = wb.import_results(other, items).runs
    kept = run.predictions["candidates_digest"].tolist()
    assert kept == ["10:aaaa", *frame["candidates_digest"][1:]]
