from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from statsmodels.discrete.conditional_models import ConditionalLogit
from toy_ngram import ToyNGram

from workbench.datasets import books, load
from workbench.items.items import Items, items_from_text
from workbench.items.text import tokenize
from workbench.models.completion import positional
from workbench.models.completion.positional import Generating, NextWord, Positional, Reversed, WordTwoOn
from workbench.models.completion.simple import Simple4Gram, ngram_counts
from workbench.texts.corpus import Corpus

TEXT = [
    "the cat sat on the mat .",
    "the dog sat on the rug .",
    "a dog ate the old bone .",
    "the king 's old dog slept on the rug .",
    "he saw the cat , and the cat saw him .",
]
ASKED = items_from_text(
    ["the ___ sat on the rug .", "The old ___ .", "___ slept on the rug and the king 's mat .",
     "he saw the ___"],
    answers=["dog", "cat", "it", "cat"],
    candidates=[["cat", "dog", "bone", "zebra"], ["bone", "cat", "king 's"], ["it", "dog"],
                ["cat", "mat", "him"]],
    tokenised=True,
)  # fmt: skip
UNANSWERED = items_from_text("the ___ sat .", candidates=[["cat", "dog"]])


def of(lines):
    return Corpus.of(lines)


@pytest.fixture
def corpus(no_data):
    del no_data
    return of(TEXT)


@pytest.fixture(scope="module")
def toy():
    return ToyNGram(TEXT, order=3)


def words(items):
    return [list(row) for row in items.frame["candidates"]]


def slow_points(lines, left, focus, right, points):
    """Every n-gram of the whole sentence that has all of the focus, found by looking for it as a string."""
    sentence, end = [*left, *focus, *right], len(left) + len(focus)
    total = 0
    for n, value in points.items():
        for start in range(max(end - n, 0), min(len(left), len(sentence) - n) + 1):
            gram = " ".join(sentence[start : start + n])
            total += value * any(f" {gram} " in f" {line} " for line in lines)
    return total


def test_points_by_hand(corpus):
    [row] = Simple4Gram(corpus).score(ASKED[:1], words(ASKED[:1]))
    # the cat | cat sat | the cat sat | cat sat on | the cat sat on | cat sat on the ; the dog likewise
    assert row.tolist() == [1 + 1 + 2 + 2 + 3 + 3, 12, 0, 0]


@settings(max_examples=20)
@given(data=st.data())
def test_points_of_random_texts(tmp_path_factory, data):
    line = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6).map(" ".join)
    lines = data.draw(st.lists(line, min_size=1, max_size=8))
    left, right = data.draw(line), data.draw(line)
    candidates = ["a", "b", "z", "a b"]
    items = items_from_text(f"{left} ___ {right}", candidates=[candidates], tokenised=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        corpus = of(lines)
        for points in ({2: 1, 3: 2, 4: 3}, {1: 5}, {3: 1.5, 6: 2}):
            [row] = Simple4Gram(corpus, points=points).score(items, [candidates])
            assert row.tolist() == [
                slow_points(lines, left.split(), focus.split(), right.split(), points) for focus in candidates
            ]


def test_a_match_does_not_reach_over_sentences(corpus):
    items = items_from_text("saw ___", answers=["him"], candidates=[["him", "."]], tokenised=True)
    assert Simple4Gram(corpus).score(items, words(items)).tolist() == [[1, 0]]
    grams = [[corpus.words.index(word) for word in gram] for gram in ((".", "the"), ("on", "the"))]
    assert [ngram_counts(corpus, np.array([gram])).item() for gram in grams] == [0, 3]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_occurrences_in_a_text_of_several_blocks(no_data, monkeypatch, n):
    del no_data
    monkeypatch.setattr("workbench.models.completion.simple.BLOCK", 64)
    rng = np.random.default_rng(n)
    sentences = [rng.choice(list("abcde"), rng.integers(1, 9)).tolist() for _ in range(200)]
    corpus = of(map(" ".join, sentences))
    grams = np.unique(rng.integers(0, 5, (40, n)), axis=0)
    counts = Counter(tuple(words[i : i + n]) for words in sentences for i in range(len(words) - n + 1))
    wanted = [counts[tuple(corpus.words[g] for g in gram)] for gram in grams]
    assert sum(wanted) > 0
    assert ngram_counts(corpus, grams).tolist() == wanted
    monkeypatch.setattr("workbench.models.completion.simple._count", None)  # from the cache
    assert ngram_counts(corpus, grams).tolist() == wanted


def test_how_often_it_must_occur(corpus):
    row = Simple4Gram(corpus, points={2: 1}, minimum=3).score(ASKED[:1], words(ASKED[:1]))
    assert row.tolist() == [[1, 0, 0, 0]]  # the cat, three times


def test_the_next_word_and_the_word_two_on(toy):
    scores = NextWord(toy).score(ASKED, words(ASKED))
    # p(next | previous word, option): the cat -> sat
    assert scores[0, 0] == pytest.approx(-np.log(toy.p(["the", "cat"], "sat")))
    assert scores[2, 1] == pytest.approx(-np.log(toy.p(["<s>", "dog"], "slept")))
    assert scores[3, 0] == pytest.approx(-np.log(toy.p(["the", "cat"], "</s>")))
    assert np.isnan(scores[1]).tolist() == [False, False, False, True]
    two = WordTwoOn(toy).score(ASKED, words(ASKED))
    assert two[0, 1] == pytest.approx(np.log(toy.p(["dog", "sat"], "on")))
    assert two[1, 1] == pytest.approx(np.log(toy.p(["cat", "."], "</s>")))
    assert two[3].tolist()[:3] == [0, 0, 0]  # the sentence is over: all are as good
    both = Positional(toy).score(ASKED, words(ASKED))
    np.testing.assert_allclose(both, scores + two)
    weighed = Positional(toy, weights={0: 0.5, 2: 3}).score(ASKED, words(ASKED))
    np.testing.assert_allclose(weighed, 0.5 * toy.position_scores(ASKED, words(ASKED))[..., 0] + 3 * two)


def test_the_lowest_score(toy):
    low = Reversed(toy)
    np.testing.assert_array_equal(low.score(ASKED, words(ASKED)), -toy.score(ASKED, words(ASKED)))
    assert low.score_type == "score"
    assert low.systems == {"msrcc": "Smoothed 3-gram, lowest"}
    best, worst = toy.predict(ASKED), low.predict(ASKED)
    for first, last in zip(best["top_log_probs"], worst["top_log_probs"], strict=True):
        assert last == [-value for value in first[::-1]]
    assert worst["prediction"].tolist()[1] == "king 's"  # unknown as a whole


def test_the_generating_model(toy):
    items, released = (Items(ASKED.frame.assign(dataset="msrcc", split=s)) for s in ("built", "test"))
    high, low = Generating(toy).predict(items), Generating(toy, lowest=True).predict(items)
    assert high["system"].unique().tolist() == ["Generating model"]
    assert low["system"].unique().tolist() == ["Generating model, lowest"]
    assert high["log_prob"].notna().all()
    assert low["log_prob"].isna().all()
    assert Generating(toy).predict(released)["system"].isna().all()  # the paper's own model is not at hand


@pytest.mark.parametrize(
    "make",
    [
        lambda: Simple4Gram(TEXT, points={}),
        lambda: Simple4Gram(TEXT, minimum=0),
        lambda: Positional(ToyNGram(TEXT, order=2)),
        lambda: Positional(ToyNGram(TEXT), weights={}),
        lambda: Positional.fit(ToyNGram(TEXT), UNANSWERED),
    ],
)
@pytest.mark.usefixtures("no_data")
def test_what_cannot_be(make):
    refused(make)


def choices(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(300, 5, 3))
    utility = values @ [0.8, -1.2, 0.1] + rng.gumbel(size=(300, 5))
    return values, utility.argmax(axis=1)


def test_the_weights_are_those_of_statsmodels():
    values, answers = choices(1)
    outcome = (np.arange(5) == answers[:, None]).ravel()
    groups = np.repeat(np.arange(len(values)), 5)
    other = ConditionalLogit(outcome.astype(int), values.reshape(-1, 3), groups=groups).fit(disp=False)
    np.testing.assert_allclose(positional.conditional_logit(values, answers), other.params, atol=1e-3)


def test_the_weights_where_items_have_fewer_choices_and_a_ridge_pulls_towards_zero():
    values, answers = choices(2)
    longer = np.concatenate([values, np.full((len(values), 2, 3), np.nan)], axis=1)
    weights = [positional.conditional_logit(values, answers, ridge=ridge) for ridge in (0, 10, 1000)]
    np.testing.assert_allclose(positional.conditional_logit(longer, answers, ridge=10), weights[1])
    assert (np.diff([np.abs(row).sum() for row in weights]) < 0).all()


def test_answers_that_are_told_without_error():
    values = np.zeros((4, 2, 1))
    values[:, 0] = 1.0
    refused(positional.conditional_logit, values, np.zeros(4, dtype=int))
    assert positional.conditional_logit(values, np.zeros(4, dtype=int), ridge=0.1)[0] > 1


def test_fitted_weights_are_recorded(toy):
    model = Positional.fit(toy, ASKED, positions=(0, 1, 2), ridge=2)
    assert list(model.weights) == [0, 1, 2]
    assert model.config["fitted"]["questions"] == 4
    assert model.config["fitted"]["dataset"] == ["own"]
    other = Positional.fit(toy, ASKED[:3], positions=(0, 1, 2), ridge=2)
    assert other.config["fitted"]["sha256"] != model.config["fitted"]["sha256"]


@pytest.mark.data
def test_real_questions(real_data, no_data, monkeypatch):
    monkeypatch.setenv("WORKBENCH_DATA", str(real_data))
    del no_data
    items = load("msrcc")
    assert len(items) == 520
    corpus = Corpus.of([next(iter(books("msrcc", "train")))])
    frame = Simple4Gram(corpus).predict(items)
    assert frame["system"].eq("Simple 4-gram").all()
    lines = list(corpus.lines())
    for item, (_, row) in zip(items[:12], frame[:12].iterrows(), strict=True):
        left, right = ([word.lower() for word in tokenize(side)] for side in (item.left, item.right))
        assert row["candidate_scores"] == [
            slow_points(lines, left, [word], right, {2: 1, 3: 2, 4: 3}) for word in item.candidates
        ]
