import dataclasses
import itertools
import math
from collections import Counter

import pytest
from braced_items import cloze, clozes, of_sentences
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from workbench.datasets import childrens_book
from workbench.items.items import Items
from workbench.models.baselines.passage_baseline import MaximumFrequency, SlidingWindow, WordDistance
from workbench.texts.corpus import Corpus

READINGS = st.fixed_dictionaries({
    "weight": st.sampled_from(["inverse", "idf", "none"]), "length": st.sampled_from(["set", "words"]),
    "overlap": st.sampled_from(["tokens", "bag", "types"]), "punctuation": st.booleans(),
    "query": st.booleans(),
})  # fmt: skip
ALIGNMENTS = st.fixed_dictionaries({
    "within": st.sampled_from(["query", "context"]), "mention": st.booleans(), "punctuation": st.booleans(),
    "query": st.booleans(),
})  # fmt: skip


def plain(item, query):
    """Context, words before and after the blank, of tokenised text: lower-cased."""
    first, (start, end) = item.sentences[-1][0], item.answer_span
    context, left, right = (
        part.lower().split() for part in (item.text[:first], item.text[first:start], item.text[end:])
    )
    return ([*context, *left, None, *right] if query else context), left, right


def count_loop(item, word, query):
    context, _, _ = plain(item, query)
    wanted = word.lower().split()
    return sum(context[i : i + len(wanted)] == wanted for i in range(len(context)))


def window_loop(item, word, *, weight, overlap, length, punctuation, query):
    context, left, right = plain(item, query)
    asked = left + right
    if not punctuation:
        context = [w for w in context if w is not None and any(c.isalnum() for c in w)]
        asked = [w for w in asked if any(c.isalnum() for c in w)]
    asked = asked + word.lower().split()
    size = len(set(asked)) if length == "set" else len(asked)
    best, often = 0, Counter(context)
    for start in range(-size, len(context)):
        seen = Counter(context[max(start, 0) : max(start + size, 0)])
        total = 0
        for w in set(asked) & set(seen):
            times = {"tokens": seen[w], "bag": min(seen[w], asked.count(w)), "types": 1}[overlap]
            c = often[w]
            weights = {"inverse": math.log(1 + 1 / c), "idf": math.log(len(context) / c), "none": 1}
            total += times * weights[weight]
        best = max(best, total)
    return best


def distance_loop(item, word, m, *, within, mention, punctuation, query):
    context, left, right = plain(item, query)
    wanted = word.lower().split()
    full = left + wanted + right
    blank = range(len(left), len(left) + len(wanted))
    counted = [i for i in range(len(full)) if i not in blank]
    if not punctuation:
        counted = [i for i in counted if any(c.isalnum() for c in full[i])]
    sums = []
    for place in range(len(context)):
        if context[place : place + len(wanted)] != wanted:
            continue
        shift = place - len(left)  # word i of the query lies on context[i + shift]
        total = 0
        for i in counted:
            far = [m]
            for j in range(max(i + shift - m, 0), min(i + shift + m, len(context))):
                inside = 0 <= j - shift < len(full) or within == "context"
                if context[j] == full[i] and inside and (mention or j - shift not in blank):
                    far.append(abs(j - shift - i))
            total += min(far)
        sums.append(total)
    return -min(sums) if sums else -m * len(counted) - 1


@st.composite
def questions(draw):
    """Draw items with few different words, so that these meet."""
    word = st.sampled_from([*"aabbcdeA", ".", ",", "ox"])
    sentences = draw(st.lists(st.lists(word, min_size=1, max_size=9), min_size=1, max_size=4))
    answer = draw(st.sampled_from([*"abcz", "a b", "b . c", "Ox"]))
    others = draw(st.lists(st.sampled_from([*"abcdeyz", "c d", "a a", ",", "ox a b"]), max_size=6))
    place = draw(st.integers(0, len(sentences[-1])))
    candidates = tuple(dict.fromkeys([answer, *others]))
    return of_sentences(*sentences, place=place, answer=answer, candidates=candidates)


def scores(model, item):
    (row,) = model.score(Items.from_records([item]), [item.candidates])
    return row.tolist()


@given(questions(), st.booleans())
def test_counts_in_the_context_against_a_loop(item, query):
    expected = [count_loop(item, word, query) for word in item.candidates]
    assert scores(MaximumFrequency("context", query=query), item) == expected


@given(questions(), READINGS)
@settings(max_examples=40)
def test_the_sliding_window_against_a_loop(item, reading):
    expected = [window_loop(item, word, **reading) for word in item.candidates]
    result = scores(SlidingWindow(**reading), item)
    assert result == pytest.approx(expected, abs=1e-8)
    for (a, x), (b, y) in itertools.combinations(zip(result, expected, strict=True), 2):
        assert (a == b) == (abs(x - y) < 1e-10)  # ties are exact


@given(questions(), st.integers(1, 8), ALIGNMENTS)
@settings(max_examples=40)
def test_the_word_distance_against_a_loop(item, m, reading):
    expected = [distance_loop(item, word, m, **reading) for word in item.candidates]
    assert scores(WordDistance(m, **reading), item) == expected


TALE = "the old fox saw a hen . the hen saw the dog and ran . the old {hen} ran"
BY_HAND = cloze(TALE, candidates=("hen", "fox", "dog", "cat"))


def test_the_word_distance_by_hand():
    # "the old _ ran": on "the old fox saw" 0 0 5, ". the hen saw" 1 5 5, "saw the dog and" 1 5 5
    assert scores(WordDistance(), BY_HAND) == [-11, -5, -11, -16]
    # anywhere: the first is the same, then 1 5 4 and 1 5 1
    assert scores(WordDistance(within="context"), BY_HAND) == [-10, -5, -7, -16]


def test_the_sliding_window_by_hand():
    # windows of 4: "hen . the hen", "the old fox saw", "the dog and ran", and "the old fox saw" without a fox
    counts = [(2, 3, 2), (3, 1, 1), (3, 1, 1), (3, 1)]
    expected = [sum(math.log(1 + 1 / c) for c in row) for row in counts]
    assert scores(SlidingWindow(), BY_HAND) == pytest.approx(expected)


def test_the_most_frequent():
    assert scores(MaximumFrequency("context"), BY_HAND) == [2, 1, 1, 0]
    corpus = {"Hen": 2, "hen": 3, "dog": 7, "new": 4}
    assert scores(MaximumFrequency("corpus", corpus=corpus), BY_HAND) == [5, 0, 7, 0]
    assert scores(MaximumFrequency("corpus", corpus=corpus, lower=False), BY_HAND) == [3, 0, 7, 0]
    item = cloze("a {new dog}", candidates=("new dog", "new", "new cat"))
    assert scores(MaximumFrequency("corpus", corpus=corpus), item) == [4, 4, 0]


def test_a_corpus_and_its_counts_are_alike(no_data):
    assert no_data.is_dir()
    corpus = Corpus.of(["The dog ran .", "the hen and the dog"], lower=False)
    counts = {"the": 3, "dog": 2, "ran": 1, ".": 1, "hen": 1, "and": 1}
    by_corpus, by_counts = (MaximumFrequency("corpus", corpus=known) for known in (corpus, Counter(counts)))
    assert by_corpus.counts == counts
    assert by_corpus.config == by_counts.config
    assert by_corpus.training == {"corpus": corpus.sha256, "n_tokens": 9}
    assert by_counts.training == {"n_tokens": 9}
    assert MaximumFrequency("corpus", corpus={"the": 5}).config != by_counts.config


def test_running_text_is_cut_into_tokens():
    text = "The dog's bowl is full. I can't see the dog. Where is the {dog's} tail"
    item = cloze(text, tokenised=False, candidates=("dog's", "dog", "bowl"))
    assert scores(MaximumFrequency("context"), item) == [1, 2, 1]


MODELS = [
    MaximumFrequency("context"), MaximumFrequency("corpus", corpus={"the": 3, "hen": 9}), SlidingWindow(),
    WordDistance(),
]  # fmt: skip


def test_names_and_systems_are_those_of_the_papers():
    assert (WordDistance().name, SlidingWindow().name) == ("Word distance (m = 5)", "Sliding window")
    assert SlidingWindow().systems["cbt"] == "SLIDING WINDOW"
    assert MODELS[0].systems["cnnqa"] == "MAXIMUM FREQUENCY (ARTICLE)"
    assert MODELS[1].systems == {"cbt": "MAXIMUM FREQUENCY (CORPUS)"}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_items_without_candidates_are_chosen_from_the_passage(model):
    items = clozes(
        "The hen saw the fox . Then the {hen} ran .", "A {} .", "ada ! ada {ada}", dataset="lambada"
    )
    rows = model.predict(items)
    assert rows["n_choices"].tolist() == [7, 2, 2]
    assert rows["top_words"].map(set)[0] == {"the", "hen", "saw", "fox", ".", "Then", "ran"}
    assert rows["candidate_scores"].isna().all()
    assert rows["log_prob"].isna().all()
    assert rows["p_correct"].isna().tolist() == [False, True, False]
    assert rows["system"].isna().all()


def test_case_does_not_count_against_an_answer():
    items = clozes("HEN Hen Hen fox . a {hen}", "HEN Hen Hen fox . a {cat}")
    rows = MaximumFrequency("context").predict(items)
    assert rows["prediction"].tolist() == ["hen", "Hen"]
    assert rows["correct"].tolist() == [True, False]
    rows = MaximumFrequency("context", lower=False).predict(items)
    assert rows["prediction"].tolist() == ["Hen", "Hen"]


def test_m_is_tuned_on_items():
    items = Items.from_records([
        cloze("b x x x x a . b a y . c q {a} b", "x/dev/0", candidates=("a", "y")),
        dataclasses.replace(BY_HAND, item_id="x/dev/1"),
    ])  # fmt: skip
    accuracy = [WordDistance(m).predict(items)["p_correct"].mean() for m in range(1, 8)]
    assert len(set(accuracy)) > 1
    best = WordDistance.tuned(items, range(1, 8))
    assert best.m == 1 + accuracy.index(max(accuracy))
    assert not WordDistance.tuned(items, [4], mention=False).mention
    for these, values in ((items, []), (clozes("a {}", candidates=("b",)), [1])):
        refused(WordDistance.tuned, these, values)


@pytest.mark.parametrize(
    "make",
    [
        lambda: MaximumFrequency("corpus"),
        lambda: MaximumFrequency("corpus", corpus=["a"]),
        lambda: SlidingWindow(weight="tf"),
        lambda: SlidingWindow(length=5),
        lambda: WordDistance(0),
    ],
)
def test_strange_arguments(make):
    refused(make)


@pytest.mark.data
def test_real_questions_against_loops(real_data):
    questions = childrens_book.RELEASE.load("dev", variant="NE", path=real_data / "cbt").sample(10)
    words = questions.frame["candidates"].tolist()
    alignment = {"within": "query", "mention": True, "punctuation": True, "query": False}
    reading = {"weight": "inverse", "overlap": "tokens", "length": "set", "punctuation": True, "query": False}
    for item, row in zip(questions, words, strict=True):
        assert scores(MaximumFrequency("context"), item) == [count_loop(item, w, query=False) for w in row]
        assert scores(WordDistance(), item) == [distance_loop(item, w, 5, **alignment) for w in row]
        expected = [window_loop(item, w, **reading) for w in row]
        assert scores(SlidingWindow(), item) == pytest.approx(expected, abs=1e-8)
