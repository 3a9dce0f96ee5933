from collections import Counter
from functools import partial

import pandas as pd
import pytest
from made_predictions import items_of, made, run, scores, unknown_answers
from refused import refused
from statsmodels.stats.multitest import multipletests

from workbench.datasets import published
from workbench.evaluation import bootstrap
from workbench.evaluation.leaderboard import leaderboard, published_scores
from workbench.evaluation.metrics import evaluate
from workbench.evaluation.significance import significance
from workbench.predictions import store
from workbench.predictions.store import TABLE, keep

QUICK = {"resamples": 50}
ours = partial(leaderboard, published=False)
RUNS = [
    made(120, seed=1, right=0.2, model="low", run="r1"),
    made(120, seed=2, right=0.6, model="high", run="r2", system="N-Gram", vocabulary_size=60_000),
    scores(made(120, seed=3, right=0.4, model="middle", run="r3")),
    made(120, seed=4, right=0.3, model="low", run="r4", variant="capitalised"),
    made(80, seed=5, right=0.3, model="low", run="r1", start="cbt/test", books=8),
]


def test_runs_are_ranked_by_accuracy_within_each_variant():
    table = ours(RUNS, **QUICK)
    assert table[["dataset", "split", "variant", "place", "run"]].to_numpy().tolist() == [
        ["cbt", "test", "plain", 1, "r1"],
        ["lambada", "dev", "capitalised", 1, "r4"],
        *(["lambada", "dev", "plain", place, run] for place, run in enumerate(("r2", "r3", "r1"), 1)),
    ]
    first = table[table["run"] == "r2"].iloc[0]
    assert (first["system"], first["vocabulary_size"], first["unit"]) == ("N-Gram", 60_000, "word")
    assert table["resampled_by"].tolist() == ["novel", "item", "item", "item", "item"]


PROMPT = '{"template": "{text}", "shots": 5, "seed": 1}'
PROTOCOLS = {
    "whole words": {},
    "whole words and their ends": {"unit": "whole-word"},
    "the last token only": {"unit": "last-token"},
    "whole words, stop words excluded": {"filter": "stop-words"},
    "whole words, detokenised": {"detokenised": True},
    "whole words, 5 examples": {"prompt": PROMPT},
    "whole words, BOS left out": {"bos": "omitted"},
    "whole words, newline first": {
        "prompt": '{"template": "{text}", "shots": 0, "seed": 1, "beginning": "newline"}'
    },
}


def test_results_of_different_protocols_are_never_ranked_together():
    runs = [
        made(60, seed=seed, right=right, model=f"{name} {seed}", **columns)
        for name, columns in PROTOCOLS.items()
        for seed, right in ((1, 0.2), (2, 0.7))
    ]
    table = ours(runs, **QUICK)
    assert set(table["protocol"]) == set(PROTOCOLS)
    for name, group in table.groupby("protocol"):
        assert group["place"].tolist() == [1, 2]
        assert group["model"].tolist() == [f"{name} 2", f"{name} 1"]
        assert group["difference"].notna().tolist() == [False, True]
    for by in ("dataset", ()):
        assert set(ours(runs, by=by, **QUICK).groupby("protocol").size()) == {2}
    usual = [
        made(60, seed=seed, model=f"m{seed}", bos=bos) for seed, bos in enumerate(("added", "none", None))
    ]
    assert ours(usual, **QUICK)["place"].tolist() == [1, 2, 3]
    html = table.to_html()
    assert all(f"plain, {name}" in html for name in PROTOCOLS)


@pytest.mark.parametrize("prompt", ["Q:", "[1]", '{"shots": Infinity, "template": 1}'])
def test_a_prompt_of_another_program_is_a_protocol_of_its_own(prompt):
    names = ours([made(30, seed=1, prompt=prompt), made(30, seed=2, model="b")], **QUICK)["protocol"]
    assert len(set(names)) == 2
    assert "whole words" in set(names)


def test_a_run_stands_among_the_published_results_of_its_protocol():
    last = made(60, start="lambada/test", variant="openai", unit="last-token", model="mine")
    table = leaderboard([last], **QUICK)
    group = table[table["protocol"] == "the last token only"].query("variant == 'openai'")
    assert "mine" in group["model"].tolist()
    published_rows = group[group["published"]]
    assert "GPT-2 117M, last sub-token" in published_rows["model"].tolist()
    assert published_rows["source"].notna().all()
    assert table["published"].tolist() == [False] + [True] * (len(table) - 1)
    assert set(table["protocol"]) == {"the last token only"}  # no group without a run
    html = table.to_html()
    assert f"<summary>Published ({len(table) - 1})</summary>" in html
    assert html.index("mine") < html.index("<details>") < html.index("GPT-2 117M, last sub-token")


def test_equal_accuracies_share_a_place():
    again = RUNS[0].assign(run="again")
    table = ours([RUNS[0], again, RUNS[1]], **QUICK)
    assert table[["place", "run"]].to_numpy().tolist() == [[1, "r2"], [2, "again"], [2, "r1"]]
    assert ours([again, RUNS[1], RUNS[0]], **QUICK).equals(table)


def test_runs_on_other_items_are_not_compared():
    table = ours([RUNS[0], made(50, seed=9, first=500, right=0.9)], **QUICK)
    assert table.loc[1, ["difference", "p", "p_holm"]].isna().all()
    part = ours([RUNS[1], made(50, seed=9, right=0.1)], **QUICK)
    assert part["n"].tolist() == [120, 50]
    assert part["n_paired"].tolist() == [pd.NA, 50]


def test_the_best_is_one_of_those_on_all_items():
    part = made(50, seed=9, right=0.9, model="part")
    table = ours([RUNS[0], part, RUNS[1]], **QUICK).set_index("model")
    assert table["place"].dropna().to_dict() == {"high": 1, "low": 2}
    assert table.loc["high", ["difference", "p", "n_paired"]].isna().all()
    wanted = significance(part, RUNS[1], **QUICK)
    assert table.loc["part", ["difference", "n_paired"]].tolist() == [wanted.difference, 50]


def test_places_are_given_among_runs_on_the_same_items():
    parts = [
        made(80, seed=k, first=first, right=right, model=name)
        for k, (name, first, right) in enumerate([("a", 0, 0.2), ("b", 80, 0.9), ("c", 40, 0.5)])
    ]
    table = ours(parts, **QUICK)
    assert table["place"].isna().all()
    table = ours([*parts, made(80, seed=9, right=0.4, model="d")], **QUICK).set_index("model")
    assert table["place"].dropna().to_dict() == {"d": 1, "a": 2}
    assert table["n_paired"].fillna(0).to_dict() == {"d": 0, "a": 80, "b": 0, "c": 40}
    assert pd.isna(table.loc["b", "difference"])
    assert ">n paired<" in ours([*parts, made(80, seed=9, model="d")], **QUICK).to_html()


@pytest.mark.parametrize(
    ("sizes", "placed"),
    [
        ((120, 50, 50), {1, 2}),  # a single run is no contest
        ((120, 120, 50, 50, 50), {0, 1}),  # the most items
        ((120, 50), {0}),
    ],
)
def test_the_largest_set_of_identical_items_has_the_places(sizes, placed):
    frames = [made(n, seed=k, model=str(k), oov=0, start="lambada/test") for k, n in enumerate(sizes)]
    assert set(ours(frames, **QUICK).dropna(subset="place")["model"].astype(int)) == placed
    table = leaderboard(frames, **QUICK)
    beside = table[table["protocol"] == "whole words"]
    several = len(placed) > 1
    assert beside.loc[beside["published"], "place"].isna().all() == several
    assert set(table.dropna(subset="place").query("not published")["model"].astype(int)) == (
        placed if several else set()
    )


def test_runs_with_other_candidates_have_no_common_ranking():
    frames = [
        made(80, seed=k, model=str(k), candidates_digest=digest)
        for k, digest in enumerate(["10:aaaa", "3:bbbb", "10:aaaa", None, "0"])
    ]
    two = ours(frames[:2], **QUICK)
    assert two[["place", "p", "mde"]].isna().all(axis=None)
    assert two["difference"].notna().sum() == 1
    three = ours(frames[:3], **QUICK).set_index("model")
    assert set(three.dropna(subset="place").index) == {"0", "2"}
    assert three.loc["1", ["p", "place"]].isna().all()
    mixed = ours([*frames[:2], made(60, model="part", candidates_digest="10:aaaa")], **QUICK)
    assert mixed["place"].isna().all()
    assert not ours(frames[3:], **QUICK)["place"].isna().any()  # not known beside no candidates
    assert ours([frames[0], frames[4]], **QUICK)["place"].isna().all()


def test_there_is_no_place_among_several_data_sets_or_splits():
    splits = [RUNS[0], made(120, seed=2, model="test", start="lambada/test")]
    for runs, by in ((splits, "variant"), (splits, "dataset"), ([RUNS[0], RUNS[4]], "variant")):
        assert ours(runs, by=by, **QUICK)["place"].isna().all()
        beside = leaderboard(runs, by=by, **QUICK)
        assert beside.loc[~beside["published"], "place"].isna().all()
    assert ours(splits, **QUICK)["place"].tolist() == [1, 1]


def test_rows_of_one_model_are_named_by_what_differs():
    plain = [run(made(60, seed=seed), f"hash-{seed}", seed=seed) for seed in (1, 2)]
    wide = run(made(60, seed=3), "hash-3", seed=1, config={"width": 8})
    openai = run(made(60, seed=4, variant="openai"), "hash-4", seed=1)
    board = ours([*plain, wide, openai], by="dataset", **QUICK).set_index("run")
    assert board["variant"].to_dict() == dict.fromkeys(("hash-1", "hash-2", "hash-3"), "plain") | {
        "hash-4": "openai"
    }
    assert board["seed"].to_dict() == {"hash-1": 1, "hash-2": 2, "hash-3": 1, "hash-4": 1}
    assert board["width"].dropna().to_dict() == {"hash-3": 8}
    assert [name for name in ("Variant", "Seed", "width") if f">{name}<" in board.to_html()]


def test_what_is_ranked_can_be_chosen():
    assert set(ours(RUNS, dataset="cbt", **QUICK)["dataset"]) == {"cbt"}
    one = ours(RUNS[:3], by="split", **QUICK)
    assert len(one) == len(ours(RUNS[:3], by=(), **QUICK)) == 3
    assert list(one.columns[:3]) == ["split", "protocol", "place"]
    assert not len(ours([unknown_answers(made(4))], **QUICK))
    empty = ours(RUNS, split="train", **QUICK)
    assert not len(empty)
    assert list(empty.columns) == list(ours(RUNS, **QUICK).columns)
    refused(ours, RUNS, by="colour")


def store_runs(number, **columns):
    for seed in range(number):
        frame = made(40, seed=seed, right=seed / 10, model=f"m{seed}", top_words=[["a"]] * 40, **columns)
        keep(items_of(frame), frame, name=f"run{seed}")


def counted(monkeypatch):
    """Count what is drawn and what is read from now on."""
    counts = Counter()

    def counting(function, name):
        def call(*arguments, **options):
            counts[name] += 1
            return function(*arguments, **options)

        return call

    for owner, name in ((bootstrap, "_weights"), (store.Run, "read")):
        monkeypatch.setattr(owner, name, counting(getattr(owner, name), name))
    return counts


@pytest.mark.usefixtures("no_data")
def test_nothing_is_read_or_drawn_for_runs_that_are_known(monkeypatch):
    store_runs(3)
    cold = ours(**QUICK)
    direct = ours([f"run{seed}" for seed in range(3)], **QUICK)  # by name: never from what is known
    counts = counted(monkeypatch)
    warm = ours(**QUICK)
    assert not counts
    pd.testing.assert_frame_equal(cold, direct, check_exact=True)
    pd.testing.assert_frame_equal(warm, direct, check_exact=True)
    assert warm.attrs["note"] == direct.attrs["note"]
    chosen = ours(split="dev", **QUICK)
    assert not counts
    pd.testing.assert_frame_equal(chosen, direct, check_exact=True)
    assert not len(ours(split="test", **QUICK))
    for other in ({"by": "known", "split": "dev"}, {"level": 0.9}):
        first = ours(**QUICK | other)
        assert counts.pop("read") >= 3
        counts.clear()
        pd.testing.assert_frame_equal(first, ours(**QUICK | other), check_exact=True)
        assert not counts
    frame = made(40, start="lambada/test")
    keep(items_of(frame, dataset="lambada", split="test"), frame)
    assert leaderboard(**QUICK)["published"].any()
    counts.clear()
    assert leaderboard(**QUICK)["published"].any()
    assert not counts


@pytest.mark.usefixtures("no_data")
def test_a_new_run_is_the_only_one_that_is_measured(monkeypatch):
    store_runs(3)
    ours(**QUICK)
    frame = made(40, seed=9, right=0.05, model="new")
    keep(items_of(frame), frame, name="new")
    counts = counted(monkeypatch)
    table = ours(**QUICK)
    assert counts["read"] == 3  # its own, twice, and the best that it is compared with
    store.runs().delete("run2")  # the best: all others are compared with another
    assert len(table) == 4
    pd.testing.assert_frame_equal(ours(**QUICK), ours(["run0", "run1", "new"], **QUICK))


@pytest.mark.usefixtures("no_data")
def test_a_ranking_of_stored_runs_has_the_measures_of_evaluate():
    store_runs(3)
    table = ours()
    names = [f"run{seed}" for seed in range(3)]
    measured = evaluate(names).set_index("run")
    for column in ("n", "accuracy", "accuracy_low", "accuracy_high", "perplexity", "median_rank"):
        assert table.set_index("run")[column].to_dict() == measured[column].to_dict()
    others = table[table["p"].notna()]
    for column, method in (("p_holm", "holm"), ("p_fdr_bh", "fdr_bh")):
        assert others[column].tolist() == pytest.approx(multipletests(others["p"], method=method)[1].tolist())


def test_what_is_known_stays_and_a_damaged_run_is_not_measured_again(no_data):
    store_runs(2)
    known = ours(**QUICK)
    file = no_data / "runs" / "run1" / TABLE
    file.write_bytes(file.read_bytes()[:-9])
    pd.testing.assert_frame_equal(ours(**QUICK), known)
    for resamples in (40, 60):
        with pytest.warns(UserWarning, match="the run 'run1' is left out"):
            assert ours(resamples=resamples)["run"].tolist() == ["run0"]
        file.unlink(missing_ok=True)


def test_a_difference_stands_beside_the_minimum_detectable_effect():
    frames = [
        made(120, seed=k, right=right, model=f"m{k}", oov=0) for k, right in enumerate((0.8, 0.75, 0.1))
    ]
    table = ours(frames, **QUICK)
    low, high = (table[table["model"] == name].iloc[0] for name in ("m2", "m1"))
    assert abs(low["difference"]) > low["mde"] > 0
    assert abs(high["difference"]) < high["mde"]
    assert table[table["place"] == 1]["mde"].isna().all()


TEST = [
    made(120, seed=1, right=0.05, model="low", run="r1", start="lambada/test"),
    made(120, seed=2, right=0.9, model="high", run="r2", start="lambada/test", variant="openai"),
]


def test_published_scores_are_rows_without_items():
    plain, table = ours(TEST, **QUICK), leaderboard(TEST, **QUICK)
    assert not plain["published"].any()
    measured, theirs = table[~table["published"]], table[table["published"]]
    columns = plain.columns.drop(["place", "system", "case", "prompt", "bos", "detokenised", "source"])
    pd.testing.assert_frame_equal(measured[columns].reset_index(drop=True), plain[columns], check_dtype=False)
    assert theirs[["n", "p", "p_holm", "accuracy_low", "difference"]].isna().all(axis=None)
    printed = published.published_table("lambada_table1")
    group = table[(table["split"] == "test") & (table["variant"] == "plain")]
    for row in printed[printed["set"] == "lambada"].to_dict("records"):
        score = group[group["model"] == row["system"]].iloc[0]
        assert score["accuracy"] == pytest.approx(float(row["accuracy_percent"]) / 100)
        assert (str(int(score["perplexity"])) if row["perplexity"] else "") == row["perplexity"]
    group = group[group["protocol"] == "whole words"]
    assert group["published"].is_monotonic_increasing
    assert group.loc[~group["published"], "place"].isna().all()  # 120 of 5,153 items
    assert group.loc[~group["published"], "subset"].tolist() == ["of 5,153"]
    reported = group[group["published"]]
    accuracies = reported["accuracy"].tolist()
    assert reported["place"].tolist() == [1 + sum(b > a for b in accuracies) for a in accuracies]
    openai = table[(table["variant"] == "openai") & (table["protocol"] == "whole words")]
    assert openai["model"].tolist()[:3] == ["high", "Qwen2.5 72B Instruct, bfloat16", "OPT 66B"]
    assert openai.loc[openai["model"].str.startswith("GPT-2"), "perplexity"].tolist() == [40.06]


def test_what_published_scores_are_shown():
    assert set(leaderboard([])["dataset"]) == {"lambada", "cbt", "msrcc", "cnnqa"}
    assert set(leaderboard(TEST, split="control")["split"]) == {"control"}
    classes = leaderboard([], dataset="cbt", split="test", by=["split", "word_class"])
    best = classes[classes["place"] == 1].set_index("word_class")["accuracy"]
    assert best.to_dict() == {"NE": 0.891, "CN": 0.933, "V": 0.828, "P": 0.806}
    trained = classes[~classes["model"].str.contains("HUMANS|GPT|BookTest")]
    best = trained.groupby("word_class")["accuracy"].max()
    assert best[["NE", "CN"]].tolist() == [0.754, 0.731]


def test_no_other_results_are_shown_than_those_asked_for():
    assert not leaderboard(TEST, by="book_id", **QUICK)["published"].any()


def test_every_published_number_is_in_the_leaderboard_once():
    table = published_scores()
    assert not table.duplicated(["dataset", "split", "variant", "word_class", "model"]).any()
    later = published.published_table("later_results").set_index("system")["accuracy_percent"].astype(float)
    listed = table[table["model"].isin(later.index) & ~table["source"].str.startswith("Children")]
    assert sorted(later) == pytest.approx(sorted(100 * listed["accuracy"]))
    assert table["accuracy"].between(0, 1).all()
    for name in ("cbt_test_table2", "cbt_table4", "cbt_validation", "cnnqa_table3", "msrcc_table1"):
        assert set(published.published_table(name)["system"]) <= set(table["model"])
