import math
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from braced_items import cloze, clozes, passages
from hypothesis import given, settings
from refused import refused

from workbench.datasets import lambada
from workbench.items.items import Items
from workbench.models.baselines.chance import RandomWord

WORDS = ["ash", "bay", "cat", "dog", "elm"]
CHOICES = clozes("Ann saw a {cat} .", "it ran to the {elm} .", "the {fig}", "a {} .", dataset="msrcc")


def test_a_vocabulary_word():
    rows = RandomWord(vocabulary=WORDS).predict(CHOICES, top_k=3)
    assert rows["log_prob"].tolist()[:2] == [pytest.approx(-math.log(5))] * 2
    assert rows["log_prob"].isna().tolist() == [False, False, True, True]
    assert rows["rank"].tolist() == [1, 1, 6, pd.NA]
    assert rows["n_tied"].tolist() == [5, 5, 1, pd.NA]
    assert rows["known"].tolist() == [True, True, False, pd.NA]
    assert rows["p_correct"].tolist()[:3] == [0.2, 0.2, 0]
    assert rows["top_words"].map(lambda top: len(set(top) & set(WORDS))).tolist() == [3] * 4
    assert rows["top_log_probs"].map(set).tolist() == [{-math.log(5)}] * 4
    assert set(rows["vocabulary_size"]) == {5}
    assert set(rows["model"]) == {"Random vocabulary word"}
    scores = RandomWord(vocabulary=WORDS).score(CHOICES[:1], [["cat", "fig"]])
    assert scores.tolist() == [[pytest.approx(-math.log(5)), -math.inf]]


def test_an_unknown_answer_may_count_as_one_more_word():
    rows = RandomWord(vocabulary=WORDS, unknown="unk").predict(CHOICES)
    assert rows["log_prob"].tolist()[:3] == [pytest.approx(-math.log(6))] * 3
    assert rows["rank"].tolist()[2] == 6
    assert rows["p_correct"].tolist()[2] == 0
    assert set(rows["unknown"]) == {"unk"}


@pytest.mark.parametrize(("top_k", "n"), [(1, 800), (10, 300)])
def test_the_predictions_are_uniform(top_k, n):
    items = Items.from_records(cloze("a {cat}", f"lambada/dev/{i}") for i in range(n))
    model = RandomWord(vocabulary=WORDS)
    rows = model.predict(items, top_k, seed=3)
    counts = Counter(rows["prediction"])
    assert set(counts) == set(WORDS)
    spread = 5 * math.sqrt(n * 0.2 * 0.8)  # five standard deviations
    assert all(abs(count - n / 5) < spread for count in counts.values())
    assert not model.predict(items, top_k, seed=4)["prediction"].equals(rows["prediction"])
    assert model.predict(items, top_k, seed=3).equals(rows)


def test_candidates_are_chosen_from():
    items = clozes("a {cat} .", dataset="msrcc", candidates=tuple(WORDS))
    for model in (RandomWord(), RandomWord("passage"), RandomWord("capitalised"), RandomWord("vocabulary")):
        rows = model.predict(items)
        assert rows["p_correct"].tolist() == [0.2]
        assert (rows["rank"].item(), rows["n_tied"].item(), rows["n_choices"].item()) == (1, 5, 5)
        assert rows["system"].tolist() == ["Chance"]
    assert RandomWord().predict(items)["candidate_scores"].item() == [-math.log(5)] * 5
    assert RandomWord("passage").predict(items)["log_prob"].isna().all()


@given(passages())
@settings(max_examples=15)
def test_words_of_the_passage(item):
    items = Items.from_records([item])
    start, end = item.answer_span
    pool = f"{item.text[:start]} {item.text[end:]}".split()
    if not pool:
        refused(RandomWord("passage").predict, items)
        return
    by_types, by_tokens = (RandomWord("passage", unit=unit).predict(items) for unit in ("types", "tokens"))
    assert by_types["n_choices"].item() == len(set(pool))
    for rows, choices in ((by_types, set(pool)), (by_tokens, pool)):
        assert rows["prediction"].item() in pool
        if item.answer is None:
            assert np.isnan(rows["p_correct"].item())
        else:
            expected = sum(word == item.answer for word in choices) / len(choices)
            assert rows["p_correct"].item() == pytest.approx(expected)


def test_tokens_are_drawn_in_proportion():
    items = Items.from_records(cloze("a a a b c {a} c", f"lambada/dev/{i}") for i in range(600))
    rows = RandomWord("passage", unit="tokens").predict(items)
    assert set(rows["p_correct"]) == {0.5}
    share = Counter(rows["prediction"])
    for word, p in (("a", 1 / 2), ("b", 1 / 6), ("c", 1 / 3)):
        assert abs(share[word] - 600 * p) < 5 * math.sqrt(600 * p * (1 - p))
    assert set(rows["model"]) == {"Random word from passage, by tokens"}


def test_capitalised_words():
    items = clozes("Then Tom saw Ann . He saw {Tom} .", "it saw {it} .", dataset="lambada")
    rows = RandomWord("capitalised").predict(items)
    assert rows["n_choices"].tolist() == [4, 3]  # the second has none: all its words
    assert rows["p_correct"].tolist() == pytest.approx([1 / 4, 1 / 3])
    assert rows["system"].tolist() == ["Random capitalized word from passage"] * 2
    refused(RandomWord("capitalised").predict, items[1:])


@pytest.mark.parametrize(
    "names", [["tom", "ann lee"], [(5, 8), (13, 20)], [(0, 3), (5, 8), (13, 16), (17, 20)]]
)
def test_proper_nouns_of_the_annotations(names):
    items = clozes("then tom saw ann lee . he saw {tom} .", dataset="lambada")
    annotations = pd.DataFrame({"item_id": ["lambada/dev/0"], "names": [names]})
    model = RandomWord("capitalised", annotations=annotations)
    rows = model.predict(items)
    assert rows["n_choices"].item() == 3
    assert rows["p_correct"].item() == pytest.approx(1 / 3)
    assert rows["model"].item() == "Random proper noun from passage (annotations)"
    assert rows["system"].isna().all()  # it is not what was published
    refused(model.predict, clozes("a {b}", dataset="own"))


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"choices": "word"},
        {"unit": "lines"},
        {"unknown": "shared"},
        {"vocabulary": []},
        {"vocabulary": ["a", "b", "a"]},
        {"vocabulary": "a b"},
        {"choices": "capitalised", "annotations": pd.DataFrame({"item_id": ["a"]})},
    ],
)
def test_strange_arguments(arguments):
    refused(lambda: RandomWord(**arguments).predict(CHOICES))


@pytest.mark.data
def test_the_published_rows(real_data):
    items = lambada.RELEASE.load("dev", variant="capitalised", path=real_data / "lambada")
    for choices, published in (("passage", 1.6), ("capitalised", 7.3)):
        rows = RandomWord(choices).predict(items)
        assert 100 * rows["p_correct"].mean() == pytest.approx(published, abs=0.05)  # of the test set
        spread = 5 * math.sqrt(rows["p_correct"].mean() / len(items))
        assert abs(rows["correct"].mean() - rows["p_correct"].mean()) < spread
