import numpy as np
import pandas as pd
import pytest
from made_predictions import made, run, scores, unknown_answers
from statsmodels.stats.multitest import multipletests

from workbench import datasets
from workbench.evaluation.leaderboard import leaderboard
from workbench.evaluation.metrics import evaluate
from workbench.evaluation.significance import significance
from workbench.items import DataError
from workbench.results import keep

QUICK = {"resamples": 200}
RUNS = [
    made(120, seed=1, right=0.2, model="low", run="r1"),
    made(120, seed=2, right=0.6, model="high", run="r2", system="N-Gram", vocabulary_size=60_000),
    scores(made(120, seed=3, right=0.4, model="middle", run="r3")),
    made(120, seed=4, right=0.3, model="low", run="r4", variant="capitalised"),
    made(80, seed=5, right=0.3, model="low", run="r1", start="cbt/test", books=8),
]


def test_runs_are_ranked_by_accuracy_within_each_variant():
    table = leaderboard(RUNS, **QUICK)
    groups = table.groupby(["dataset", "split", "variant"])["run"].agg(list).to_dict()
    assert groups == {
        ("cbt", "test", "plain"): ["r1"],
        ("lambada", "dev", "capitalised"): ["r4"],
        ("lambada", "dev", "plain"): ["r2", "r3", "r1"],
    }
    assert table["place"].tolist() == [1, 1, 1, 2, 3]
    first = table[table["run"] == "r2"].iloc[0]
    assert (first["system"], first["vocabulary_size"], first["unit"]) == ("N-Gram", 60_000, "word")
    assert table["resampled_by"].tolist() == ["novel", "item", "item", "item", "item"]


def test_the_numbers_are_those_of_evaluate_and_significance():
    table = leaderboard(RUNS[:3], **QUICK).set_index("run")
    measured = evaluate(RUNS[:3], **QUICK).set_index("run")
    for column in ("n", "accuracy", "accuracy_low", "accuracy_high", "perplexity", "median_rank"):
        assert table[column].dropna().to_dict() == measured[column].dropna().to_dict()
    assert table.loc["r2", ["difference", "p", "p_holm"]].isna().all()
    found = {
        name: significance(frame, RUNS[1], **QUICK) for name, frame in (("r1", RUNS[0]), ("r3", RUNS[2]))
    }
    for name, one in found.items():
        row = table.loc[name]
        assert (row["difference"], row["p"], row["n_paired"]) == (one.difference, one.p_value, 120)
        assert (row["difference_low"], row["difference_high"]) == one.interval
    wanted = multipletests([one.p_value for one in found.values()], method="holm")[1]
    assert table.loc[list(found), "p_holm"].to_numpy(dtype=float) == pytest.approx(wanted)


def test_equal_accuracies_share_a_place():
    again = RUNS[0].assign(run="again")
    table = leaderboard([RUNS[0], again, RUNS[1]], **QUICK)
    assert table["place"].tolist() == [1, 2, 2]
    assert table["run"].tolist() == ["r2", "again", "r1"]
    assert leaderboard([again, RUNS[1], RUNS[0]], **QUICK).equals(table)


def test_runs_on_other_items_are_not_compared():
    table = leaderboard([RUNS[0], made(50, seed=9, first=500, right=0.9)], **QUICK)
    assert table.loc[1, ["difference", "p", "p_holm"]].isna().all()
    part = leaderboard([RUNS[1], made(50, seed=9, right=0.1)], **QUICK)
    assert part["n"].tolist() == [120, 50]
    assert part["n_paired"].tolist() == [pd.NA, 50]


def test_what_is_ranked_can_be_chosen():
    assert set(leaderboard(RUNS, dataset="cbt", **QUICK)["dataset"]) == {"cbt"}
    assert not len(leaderboard(RUNS, split="train", **QUICK))
    one = leaderboard(RUNS[:4], by="split", **QUICK)
    assert len(one) == 4
    assert list(one.columns[:2]) == ["split", "place"]
    assert len(leaderboard(RUNS[:4], by=(), **QUICK)) == 4
    assert not len(leaderboard([unknown_answers(made(4))], **QUICK))
    empty = leaderboard([], **QUICK)
    assert not len(empty)
    assert list(empty.columns) == list(leaderboard(RUNS, **QUICK).columns)
    with pytest.raises(DataError, match="colour"):
        leaderboard(RUNS, by="colour")


@pytest.mark.usefixtures("no_data")
def test_all_stored_runs_are_ranked():
    assert not len(leaderboard(**QUICK))
    kept = []
    for number, variant in enumerate(["plain", "plain", "msrcc"]):
        items = datasets.load("sample", "dev", variant=variant)
        copied = items.frame[["item_id", "dataset", "split", "variant", "word_class", "book_id", "answer"]]
        frame = made(len(items), seed=number, right=0, **copied, model=f"m{number}")
        kept.append(keep(items, frame.assign(top_words=[["a"]] * len(items)), name=f"run{number}"))
    stored = leaderboard(**QUICK)
    assert stored["run"].tolist() == ["run2", "run1", "run0"]
    assert stored["place"].tolist() == [1, 1, 1]
    assert stored["perplexity"].iloc[1] < stored["perplexity"].iloc[2]  # decides among equal accuracies
    assert stored["variant"].tolist() == ["msrcc", "plain", "plain"]
    pd.testing.assert_frame_equal(stored, leaderboard(kept, **QUICK))
    pd.testing.assert_frame_equal(stored, leaderboard(["run0", "run1", "run2"], **QUICK))
    assert len(leaderboard(dataset="sample", split="dev", **QUICK)) == 3
    assert not len(leaderboard(dataset="it's", **QUICK))


def test_the_note_says_how():
    note = leaderboard(RUNS, **QUICK).attrs["note"]
    assert "200 replicates" in note
    assert "8 novels were resampled as wholes" in note
    assert "LAMBADA's release" in note
    assert np.isfinite(leaderboard(run(RUNS[0]), **QUICK)["accuracy"].astype(float)).all()
