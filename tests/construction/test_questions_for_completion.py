"""Sentence completion questions: the five steps beside a slow implementation, draws, order, failures."""

import math
from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from builders import lines
from hypothesis import given
from hypothesis import strategies as st
from ngrams import kenlm
from random_novels import book as book_of
from refused import refused
from scipy.stats import chisquare

import workbench as wb
from workbench.construction import alternates as steps
from workbench.construction import sentence_completion as completion
from workbench.construction.novels import seed_of
from workbench.models import NGram, RandomWord
from workbench.storage.errors import DataError
from workbench.texts.corpus import Corpus

OPTIONS = {"frequency": 0.01, "minimum": 2, "alternates": 12, "best": 6}


def book(name, sentences):
    return book_of(name, " ".join(sentences), tokenised=True)


BOOKS = [book(name, lines(seed, 60)) for seed, name in enumerate(("one", "two", "three"))]
OTHERS = [book(f"other {seed}", lines(seed, 150)) for seed in (10, 11)]


@pytest.fixture(scope="module")
def texts():
    return Corpus.of(OTHERS, lower=False)


@pytest.fixture(scope="module")
def model(texts):
    return NGram.fit(texts, order=4, lower=False, vocabulary=None)


def make(novels=BOOKS, texts=OTHERS, **options):
    return completion.questions(novels, texts, **{**OPTIONS, **options})


def records(items):
    return items.frame.to_json(orient="records", double_precision=15)


class Slow:
    """The five steps for one sentence at a time, in plain Python, with KenLM's probabilities."""

    def __init__(self, model, texts, frequency=0.01, minimum=2):
        self.kenlm = kenlm.Model(str(model.binary))
        counts = Counter(chain(*(line.split() for book in texts for line in book.text.split("\n"))))
        self.words = model.vocabulary
        self.rare = [
            word
            for word in self.words
            if minimum <= counts[word] < frequency * counts.total()
            and all(part.isalpha() and part.islower() for part in word.split("-"))
        ]

    def p(self, history, word):
        """Return ln p(word | words before)."""
        state, after = kenlm.State(), kenlm.State()
        if history[0] == "<s>":
            self.kenlm.BeginSentenceWrite(state)
            history = history[1:]
        else:
            self.kenlm.NullContextWrite(state)
        for each in history:
            self.kenlm.BaseScore(state, each, after)
            state, after = after, kenlm.State()
        return self.kenlm.BaseScore(state, word, after) * math.log(10)

    def whole(self, tokens):
        line = ["<s>", *tokens, "</s>"]
        return sum(self.p(line[:at], line[at]) for at in range(1, len(line)))

    def options(self, tokens, place, item_id, alternates=12, best=6):
        """Return the outcome, the best words and their scores."""
        answer, left = tokens[place], tokens[:place]
        words = [word for word in self.rare if word != answer]
        rng = np.random.default_rng(seed_of(0, item_id, "alternates"))
        noise = rng.gumbel(size=len(words))
        keys = {word: self.p(left[-2:], word) + noise[i] for i, word in enumerate(words)}
        drawn = sorted(words, key=lambda word: -keys[word])[:alternates]
        scores = {word: self.whole([*left, word, *tokens[place + 1 :]]) for word in [*drawn, answer]}
        if all(scores[answer] > scores[word] + 1e-9 for word in drawn):
            return steps.BEST, [], []
        after = {word: self.p([left[-1], word], tokens[place + 1]) for word in drawn}
        ranked = sorted(drawn, key=lambda word: -after[word])[:best]
        return steps.QUESTION, ranked, [after[word] for word in ranked]


def test_the_five_steps_by_a_loop(model):
    items = make(model=model)
    slow = Slow(model, OTHERS)
    by_sentence = {(item.book_id, int(item.item_id[-10:-4])): item for item in items}
    outcomes, with_focus = Counter(), 0
    for novel in BOOKS:
        for number, sentence in enumerate(novel.text.split(" . ")):
            tokens = f"{sentence.removesuffix(' .')} .".split()
            foci = [at for at in range(2, len(tokens) - 1) if tokens[at] in slow.rare]
            item = by_sentence.pop((novel.book_id, number), None)
            with_focus += bool(foci)
            if not foci:
                assert item is None
                continue
            name = f"msrcc/built/{novel.book_id}/{number:06d}"
            made = [slow.options(tokens, at, f"{name}-{at:03d}") for at in foci]
            if item is None:
                outcomes[steps.BEST] += 1
                has_best = steps.BEST in [outcome for outcome, *_ in made]
                assert has_best or items.attrs["steps"][completion.REPEATED]
                continue
            assert item.tokens == tokens
            outcome, words, scores = made[foci.index(int(item.item_id[-3:]))]
            assert outcome == steps.QUESTION
            assert item.meta["alternates"] == words
            assert item.meta["scores"] == pytest.approx(scores, abs=1e-5)
            assert item.meta["answer_score"] == pytest.approx(
                slow.p([item.left.split()[-1], item.answer], item.right.split()[0]), abs=1e-5
            )
    assert not by_sentence
    counts = items.attrs["steps"]
    assert counts["with a focus word"] == counts["tried"] == with_focus
    assert outcomes[steps.BEST] == counts[steps.BEST] + counts[completion.REPEATED] > 0
    assert counts["questions"] == len(items) == with_focus - outcomes[steps.BEST]
    assert counts["sentences"] == sum(novel.text.count(" .") for novel in BOOKS)


def test_the_form_is_that_of_the_challenge(model):
    items = make(model=model)
    frame = items.frame
    assert set(zip(frame["dataset"], frame["split"], frame["variant"], strict=True)) == {
        ("msrcc", "built", "novels")
    }
    assert frame["text"].is_unique
    for item in items:
        assert len(set(item.candidates)) == 5
        assert item.candidates.count(item.answer) == 1
        assert set(item.candidates) - {item.answer} <= set(item.meta["alternates"])
        assert item.answer not in item.meta["alternates"]
        assert item.meta["scores"] == sorted(item.meta["scores"], reverse=True)
        assert len(item.left.split()) >= 2
        assert item.right.split()
        assert item.answer.islower()
    places = Counter(item.candidates.index(item.answer) for item in items)
    assert chisquare([places[place] for place in range(5)]).pvalue > 1e-3
    run = RandomWord("vocabulary", vocabulary=model.vocabulary).predict(items)
    assert run["p_correct"].mean() == pytest.approx(0.2)


def test_top_options_are_the_best_ones_and_random_ones_are_not_always(model):
    top = make(model=model, choose="top")
    assert all(set(item.candidates) == {item.answer, *item.meta["alternates"][:4]} for item in top)
    assert {item.meta["choice"] for item in top} == {"top"}
    drawn = make(model=model)
    ranks = Counter(
        item.meta["alternates"].index(word) for item in drawn for word in set(item.candidates) - {item.answer}
    )
    assert chisquare([ranks[rank] for rank in range(6)]).pvalue > 1e-3


def test_words_are_sampled_one_after_the_other_by_their_probabilities():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    rng = np.random.default_rng(0)
    pairs = Counter(tuple(steps._sample(np.log10(p), np.arange(4), 2, rng).tolist()) for _ in range(8000))
    expected = {(a, b): p[a] * p[b] / (1 - p[a]) for a in range(4) for b in range(4) if a != b}
    assert set(pairs) == set(expected)
    assert chisquare([pairs[k] for k in expected], [8000 * v for v in expected.values()]).pvalue > 1e-3


def test_the_result_depends_on_neither_order_nor_other_novels(model):
    items = make(model=model)
    assert records(make(BOOKS[::-1], OTHERS, model=model)) == records(items)
    alone = make(BOOKS[1:2], model=model)
    of_two = items.where((items.frame["book_id"] == "two").to_numpy())
    texts = set(of_two.frame["text"])  # a sentence of two books is asked about in one of them
    assert records(alone.where(alone.frame["text"].isin(texts).to_numpy())) == records(of_two)
    assert records(make(model=model, seed=1)) != records(items)


def test_fewer_questions_are_some_of_more(model, monkeypatch):
    every = make(model=model)
    monkeypatch.setattr(completion, "_BLOCK", 30)
    assert records(make(model=model)) == records(every)
    assert make(model=model).attrs == every.attrs
    ids = [set(make(model=model, number=n).frame["item_id"]) for n in (1, 5, 20, 10**6)]
    assert [len(some) for some in ids] == [1, 5, 20, len(every)]
    assert all(fewer <= more for fewer, more in pairwise(ids))
    few = make(model=model, number=5).attrs["steps"]
    assert few["tried"] == 5 + few[steps.BEST] + few[steps.FEW] + few[completion.REPEATED]


def test_a_sentence_is_asked_about_once(model):
    twice = [book("a", [BOOKS[0].text, BOOKS[0].text]), book("b", [BOOKS[0].text])]
    items = make(twice, model=model)
    assert items.frame["text"].is_unique
    assert set(items.frame["text"]) >= set(make(twice[:1], model=model).frame["text"])
    counts = items.attrs["steps"]
    assert counts[completion.REPEATED] > 0
    assert counts["tried"] == sum(counts[name] for name in (steps.BEST, completion.REPEATED, "questions"))


def test_marks_of_emphasis_and_headings_are_no_sentences(model):
    word = Slow(model, OTHERS).rare[0]
    for mark in ("*", "__", "##", "|"):
        refused(
            make,
            [book("marked", [f"the old {word} {mark} sat down ."])],
            model=model,
        )


def test_without_texts_each_half_is_asked_about_by_a_model_of_the_other(monkeypatch):
    fitted = []
    fit = completion._fitted

    def recorded(corpus, *arguments, **options):
        fitted.append(set(corpus.books["book_id"]))
        return fit(corpus, *arguments, **options)

    monkeypatch.setattr(completion, "_fitted", recorded)
    items = make([*BOOKS, *OTHERS], None)
    names = {book.book_id for book in (*BOOKS, *OTHERS)}
    assert len(fitted) == 2
    assert fitted[0] | fitted[1] == names
    assert not fitted[0] & fitted[1]
    assert set(items.frame["book_id"]) == names


def test_novels_that_are_in_the_texts():
    prose = [f"{a} {b} {c} {d} one {e} ." for a, b, c, d, e in np.random.default_rng(5).choice(
        [f"{x}{y}" for x in "qrstuvwxyz" for y in "aeiou"], (80, 5))]  # fmt: skip
    novels = [*BOOKS, book("twin", prose)]
    with pytest.raises(DataError) as raised:
        make(novels, [*OTHERS, book("copy", prose)])
    assert "drop" in str(raised.value)
    assert records(make(novels, [*OTHERS, book("copy", prose)], on_overlap="drop")) == records(
        make(novels, OTHERS)
    )
    corpus = Corpus.of([*OTHERS, book("copy", prose)], lower=False)
    told = NGram.fit(corpus, order=3, lower=False)
    refused(make, novels, corpus, model=told, on_overlap="drop")


def test_a_model_in_lower_case():
    model = NGram.fit(OTHERS, order=3, vocabulary=None)
    items = make(model=model)
    assert len(items) > 20
    texts = Corpus.of(OTHERS)
    is_rare = steps.rare_words(model, texts, 0.01, 2)
    assert is_rare[model.vocabulary.index("x-ray")]  # as the docstring says
    assert all(item.answer.islower() for item in items)
    assert any(item.text.startswith("The ") for item in items)


@pytest.mark.parametrize(
    "options",
    [
        {"minimum": 10**6},
        {"frequency": 1e-9},
        {"lengths": (50, 60)},
        {"novels": [book("plain", ["the old Ann sat ."])]},
        {"novels": BOOKS[:1], "texts": None},
        {"novels": [BOOKS[0], BOOKS[0]]},
        {"number": 0},
        {"frequency": 2},
        {"best": 3},
        {"best": 30},
        {"lengths": (9, 3)},
        {"choose": "people"},
        {"on_overlap": "skip"},
        {"model": "a model"},
    ],
)
def test_what_cannot_be_done(options):
    refused(make, **options)


def test_a_model_needs_its_own_texts_and_words(model):
    def of_words(*words):
        return NGram.fit(OTHERS, order=3, lower=False, vocabulary=list(words))

    refused(make, model=model, texts=None)
    refused(make, model=model, texts=OTHERS[:1])
    refused(make, model=of_words("the"))
    few = of_words("the", "old", "ak", "al", "am", ".")
    refused(make, model=few)


@pytest.fixture(scope="module")
def item(model):
    return make(model=model)[0]


@given(data=st.data(), seed=st.integers(0, 9))
def test_options_are_four_alternates_in_an_order_of_the_item(item, data, seed):
    words = data.draw(st.permutations(item.meta["alternates"])).copy()[:4]
    made = completion.choose_options(item, words, choice="Ann", seed=seed)
    again = completion.choose_options(item, words[::-1], choice="Ann", seed=seed)
    assert made.candidates == again.candidates
    assert sorted(made.candidates) == sorted([item.answer, *words])
    assert made.meta == {**item.meta, "choice": "Ann"}


def test_options_that_are_no_alternates(item):
    for words in (["ak"] * 4, [], ["none", "nor", "no", "not"]):
        refused(completion.choose_options, item, words, choice="Ann")
    official = wb.load("sample", variant="msrcc")[0]
    refused(completion.choose_options, official, ["a"], choice="Ann")
