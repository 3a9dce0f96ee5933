"""Minimal pairs as predictions: their rows, where they come from, and what measures and compares them."""

import json

import numpy as np
import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench.analysis.proportions import mcnemar, wilson
from workbench.evaluation.minimal_pairs import differing_words, pair_items
from workbench.items.schema import objects
from workbench.models.base import Predictor
from workbench.models.text_scores import given_and_text, scores_of_words
from workbench.predictions.schema import PREDICTION_COLUMNS, check_values

pytestmark = pytest.mark.usefixtures("home")


class Letters(Predictor):
    """A model whose log-probability of a text is made of its letters: -1 for each of some, -2 for others."""

    score_type, version = "log_prob", 1

    def __init__(self, name, letters):
        self.name, self.letters, self.asked = name, letters, []

    @property
    def config(self):
        return {"letters": self.letters}

    def score(self, items, words):
        raise NotImplementedError

    def text_scores(self, items, **_options):
        self.asked += list(given_and_text(items))
        texts = items.frame["answer"]
        sums = [-float(sum(2 - (letter in self.letters) for letter in text)) for text in texts]
        return scores_of_words(items, np.array(sums), ["BOS"] * len(items))


PAIRS = [("one a", "one b"), ("b two", "c two"), ("a b c", "a c b"), ("is a", "is a a")]
LINES = [
    {"sentence_good": f"it {good} {n}", "sentence_bad": f"it {bad} {n}", "UID": uid, "field": field,
     "linguistics_term": "terms", "simple_LM_method": True, "pairID": str(n), "crucial_item": crucial}
    for uid, field, good, bad, crucial in (
        ("first", "syntax", "a", "b", None), ("second", "syntax", "b", "c", "c"),
        ("third", "other", "x", "a", None),
    )
    for n in range(6)
]  # fmt: skip


@pytest.fixture
def blimp(tmp_path):
    """Give a folder of three sets in BLiMP's form."""
    folder = tmp_path / "blimp"
    folder.mkdir()
    for uid in ("first", "second", "third"):
        rows = [{k: v for k, v in row.items() if v is not None} for row in LINES if row["UID"] == uid]
        (folder / f"{uid}.jsonl").write_text(
            "".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8"
        )
    (folder / "README.md").write_text("sets", encoding="utf-8")
    return folder


def test_a_row_says_which_text_is_more_probable():
    frame = wb.score_pairs(Letters("a", "a"), PAIRS)
    assert set(PREDICTION_COLUMNS) <= set(frame)
    check_values(frame)
    assert frame["log_prob_good"].tolist() == [-9, -10, -9, -7]
    assert frame["difference"].tolist() == [1, 0, 0, 3]
    assert frame["correct"].tolist()[::3] == [True, True]
    assert frame["p_correct"].tolist() == [1, 0.5, 0.5, 1]
    assert frame["answer"].tolist() == ["a", "b", "b c", "a"]
    assert frame["prediction"].tolist()[::3] == ["a", "a"]
    expected = [-9 / 2 + 10 / 2, 0, 0, -7 / 2 + 10 / 3]
    np.testing.assert_allclose(frame["difference_per_word"], expected)
    np.testing.assert_allclose(frame["difference_per_character"][3], -7 / 4 + 10 / 6)
    by_word = wb.score_pairs(Letters("a", "a"), PAIRS, normalise="word")
    assert by_word["correct"][3] == (expected[3] > 0)
    assert by_word["difference"].tolist() == frame["difference"].tolist()
    draws = [wb.score_pairs(Letters("a", "a"), PAIRS, seed=seed)["correct"][1] for seed in range(20)]
    assert {True, False} == set(draws)


def test_both_texts_are_given_the_context():
    model = Letters("a", "a")
    frame = pd.DataFrame({"good": ["he left", "he sat"], "bad": ["left he", "sat he"], "why": [1, 2]})
    pairs = wb.score_pairs(model, frame.assign(context=["So .", None]), good="good", bad="bad")
    assert model.asked == [("So . ", "he left"), ("So . ", "left he"), ("", "he sat"), ("", "sat he")]
    assert pairs["why"].tolist() == [1, 2]
    assert pair_items(pairs)[0].text == "So . he left"
    assert pair_items(pairs)[0].context == ["So ."]


def test_files_of_blimp_are_read_with_all_their_columns(blimp, monkeypatch):
    models = [Letters("a", "a"), Letters("b", "b")]
    pairs = wb.score_pairs(models, blimp)
    assert len(pairs) == 2 * 18
    for row, line in zip(pairs[:18].to_dict("records"), LINES, strict=True):
        for name, value in line.items():
            assert row[name] == value or (value is None and pd.isna(row[name]))
        assert row["item_id"] == f"blimp/{line['UID']}/{line['pairID']}"
        assert row["book_id"] == f"set: {line['UID']}"
    monkeypatch.setenv("WORKBENCH_DATA", str(blimp.parent))
    for source in ("blimp/", str(blimp), pd.DataFrame(LINES), blimp.parent / "all.csv"):
        pd.DataFrame(LINES).to_csv(blimp.parent / "all.csv", index=False)
        again = wb.score_pairs(models, source)
        for name in ("difference", "correct", "item_id", "UID", "book_id"):
            assert again[name].tolist() == pairs[name].tolist(), name
    one = wb.score_pairs(models[0], blimp / "second.jsonl")
    assert one["UID"].unique().tolist() == ["second"]


def test_files_without_a_column_of_sets_are_sets(tmp_path):
    for name in ("verbs", "nouns"):
        pd.DataFrame(PAIRS, columns=["sentence_good", "sentence_bad"]).to_csv(
            tmp_path / f"{name}.csv", index=False
        )
    frame = wb.score_pairs(Letters("a", "a"), tmp_path)
    assert frame["book_id"].unique().tolist() == ["set: nouns", "set: verbs"]
    assert frame["item_id"].is_unique


@pytest.mark.data
def test_the_real_sets_are_read_as_they_are(real_data):
    frame = wb.score_pairs(Letters("a", "a"), real_data / "blimp")
    assert len(frame) == 800
    files = sorted((real_data / "blimp").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    for row, line in zip(frame.to_dict("records"), rows, strict=True):
        assert all(row[name] == value for name, value in line.items())
    items = pair_items(frame)
    for item, line in zip(items, rows, strict=True):
        assert item.text == line["sentence_good"]
        other = item.text[: item.answer_span[0]] + item.candidates[1] + item.text[item.answer_span[1] :]
        assert other == line["sentence_bad"]


@pytest.mark.parametrize(("good", "bad", "words"), [
    ("Who did he help?", "Who did he help who?", ("help?", "help who?")),
    ("he is here now", "he are here now", ("is", "are")),
    ("a rough store and many", "a store and many rough", ("rough store and many", "store and many rough")),
    ("yes", "yes yes", ("yes", "yes yes")), ("so it is", "it is", ("so it", "it")),
    ("a  b", "a b", ("a  b", "a b")),
])  # fmt: skip
def test_the_words_that_differ(good, bad, words):
    spans = differing_words(good, bad)
    assert tuple(text[slice(*span)] for text, span in zip((good, bad), spans, strict=True)) == words


def test_bad_pairs_are_one_error_with_the_row(tmp_path):
    model, table = Letters("a", "a"), pd.DataFrame(LINES[:3])
    for name, value in (("sentence_bad", " "), ("sentence_good", None), ("sentence_bad", "it a 1")):
        broken = table.copy()
        broken.loc[1, name] = value
        assert "row 1" in str(refused(wb.score_pairs, model, broken))
        broken.to_json(tmp_path / "pairs.jsonl", orient="records", lines=True)
        assert "pairs.jsonl, line 2" in str(refused(wb.score_pairs, model, tmp_path / "pairs.jsonl"))
    assert "row 0" in str(refused(wb.score_pairs, model, [("a", "b", "c")]))
    assert "'good'" in str(refused(wb.score_pairs, model, table, good="good"))
    refused(wb.score_pairs, model, table.assign(model="x"))
    refused(wb.score_pairs, model, [])
    refused(wb.score_pairs, model, tmp_path / "none")
    refused(wb.score_pairs, model, table, normalise="letter")
    refused(wb.score_pairs, [], table)


def test_sets_are_measured_apart_and_together(blimp):
    pairs = wb.score_pairs([Letters("a", "a"), Letters("b", "b")], blimp)
    table = wb.evaluate(pairs, by="UID")
    assert table["interval"].tolist() == ["Wilson"] * 6
    rows = table[table["model"] == "a"]
    by_set = pairs[pairs["model"] == "a"].groupby("UID")["correct"]
    assert rows["accuracy"].tolist() == by_set.mean().tolist()
    low, high = wilson(by_set.sum().to_numpy(float), np.full(3, 6))
    np.testing.assert_allclose(rows[["accuracy_low", "accuracy_high"]].to_numpy(float).T, [low, high])
    unequal = pairs.drop(index=pairs.index[pairs["item_id"].isin(["blimp/first/0", "blimp/first/1"])])
    table = wb.evaluate(unequal)
    assert table["resampled_by"].tolist() == ["set", "set"]
    assert table["n_sets"].tolist() == [3, 3]
    rows = unequal[unequal["model"] == "a"]
    assert table["accuracy"][0] == rows["correct"].mean()
    assert table["accuracy_over_sets"][0] == pytest.approx(rows.groupby("UID")["correct"].mean().mean())
    shown = table.to_latex()
    assert "over sets" in " ".join(shown.split())
    assert "Perplexity" not in shown
    assert "3 sets" in table.attrs["note"][0]


def test_two_models_are_tested_within_a_set_and_over_sets(blimp):
    models = [Letters("a", "a"), Letters("b", "b"), Letters("c", "abc")]
    pairs = wb.score_pairs(models, blimp)
    refused(wb.significance, pairs)
    refused(wb.significance, "one run")
    two = pairs[pairs["model"] != "c"]
    refused(wb.significance, two[two["item_id"] != "blimp/first/0"].iloc[:-1])
    whole = wb.significance(two)
    assert (whole.a, whole.b, whole.n, whole.n_units, whole.resampled_by) == ("a", "b", 18, 3, "set")
    assert whole.test == "paired sign-flip test by set, exact"
    a, b = (two[two["model"] == name] for name in "ab")
    assert whole.difference == pytest.approx(a["correct"].mean() - b["correct"].mean())
    difference = a["difference"].to_numpy() - b["difference"].to_numpy()
    assert whole.log_prob_difference == pytest.approx(difference.mean())
    assert whole.log_prob_interval[0] <= difference.mean() <= whole.log_prob_interval[1]
    assert "ln p(good) - ln p(bad) (nats)" in whole.to_markdown()
    table = wb.significance(two, by="UID")
    assert table["UID"].tolist() == ["first", "second", "third"]
    for row in table.itertuples():
        right = [each[each["UID"] == row.UID]["correct"].to_numpy(bool) for each in (a, b)]
        only = [(x & ~y).sum() for x, y in (right, right[::-1])]
        assert (row.n_only_a, row.n_only_b) == tuple(only)
        assert row.p_value == pytest.approx(float(mcnemar(np.array(only[:1]), np.array(only[1:]))[0]))
        assert row.interval_low <= row.difference <= row.interval_high
    assert (table["p_holm"] >= table["p_value"]).all()
    assert "first" in table.to_latex()
    refused(wb.significance, two, by="nothing")
    refused(wb.significance, a, b, by="UID")
    separate = wb.significance(a, b)
    assert separate.p_value == whole.p_value
    assert separate.log_prob_difference == whole.log_prob_difference


def test_the_other_views_take_pairs(blimp):
    pairs = wb.score_pairs([Letters("a", "a"), Letters("b", "b")], blimp)
    board = wb.leaderboard(pairs)
    assert board["place"].tolist() == [1, 1] or board["place"].tolist() == [1, 2]
    copies = pd.concat(
        [pairs.assign(UID=pairs["UID"] + str(n), item_id=pairs["item_id"] + str(n)) for n in range(6)]
    )
    [shown] = wb.charts.accuracy(copies, by="UID").usermeta["datasets"]
    shown = pd.DataFrame(shown).set_index(["model", "group"])
    assert len(shown) == 2 * 18  # no two sets are put together
    right = copies.groupby(["model", "UID"])["correct"].agg(["mean", "sum", "size"]).loc[shown.index.tolist()]
    assert shown["accuracy"].tolist() == right["mean"].tolist()
    bounds = wilson(right["sum"].to_numpy(float), right["size"].to_numpy())
    np.testing.assert_allclose(shown[["low", "high"]].to_numpy().T, bounds)
    refused(wb.charts.accuracy, pairs, by="nothing")
    view = wb.compare(pairs)
    try:
        assert view.code == "wb.compare(pairs)"
        assert len(view.selection) == 18
        assert "UID" in view.comparison.columns
        assert view._row(0)["text"] == ["it ", "a | b", " 0"]
        assert "a | b" in view.to_html()
    finally:
        view.close()
    refused(wb.compare, pairs[["item_id", "model"]])


def test_two_plain_lists_are_measured():
    answers = ["lamp", "goat", "it's", "sea", "Ann"]
    table = wb.evaluate(predictions=["lamp", "gate", "it\u2019s", None, "ann."], answers=answers)
    assert table["accuracy"].tolist() == [0.6]
    low, high = wilson(np.array([3.0]), np.array([5]))
    assert (table["accuracy_low"][0], table["accuracy_high"][0]) == pytest.approx((low[0], high[0]))
    assert table["n"].tolist() == [5]
    for lists in ((["a"], None), (["a"], ["a", "b"]), ("a", "a"), ([], []), (["a"], [None]), (["a"], [""])):
        refused(wb.evaluate, predictions=lists[0], answers=lists[1])
    refused(wb.evaluate, "run", predictions=["a"], answers=["a"])


def test_a_column_of_objects_keeps_its_values():
    table = pd.DataFrame(PAIRS, columns=["sentence_good", "sentence_bad"]).assign(tags=objects([["x"]] * 4))
    assert wb.score_pairs(Letters("a", "a"), table)["tags"].tolist() == [["x"]] * 4
