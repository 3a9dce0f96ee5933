from collections import Counter
from itertools import chain, pairwise

import numpy as np
import pytest
from builders import book, lines
from toy_ngram import ToyNGram

from workbench.models.completion.validation import held_out, validation_questions
from workbench.storage.errors import DataError
from workbench.texts.corpus import Corpus


@pytest.fixture(scope="module")
def texts():
    books = {name: lines(seed, 150) for seed, name in enumerate(("one", "two", "three"))}
    return {name: [line.lower() for line in sentences] for name, sentences in books.items()}


@pytest.fixture
def corpus(no_data, texts):
    del no_data
    return Corpus.of([book(*pair) for pair in texts.items()], progress=False, workers=1)


def ask(corpus, **options):
    defaults = {"n": 40, "books": ["two"], "frequency": 0.02, "minimum": 2, "alternates": 12, "best": 6}
    return validation_questions(corpus, **{**defaults, **options})


def test_questions(corpus, texts):
    items = ask(corpus)
    assert len(items) == 40
    counts = Counter(word for line in texts["one"] + texts["three"] for word in line.split())
    for item in items:
        assert item.text in texts["two"]
        assert item.text[slice(*item.answer_span)] == item.answer
        assert len(set(item.candidates)) == 5
        assert item.answer in item.candidates
        assert all(2 <= counts[word] < 0.02 * counts.total() for word in item.candidates)
        assert all(word.isalpha() for word in item.candidates)
        assert (item.dataset, item.variant, item.book_id) == ("held-in", "synthetic", "two")
        assert len(item.left.split()) >= 2
        assert item.right.split()
    assert len(items.frame["item_id"].unique()) == 40
    places = Counter(item.candidates.index(item.answer) for item in items)
    assert len(places) == 5  # the answer stands anywhere
    assert "no part of a released set" in items.attrs["note"]


def test_decoys_follow_the_words_before_in_the_other_books(no_data):
    del no_data
    other = [f"a very {w} one ." for w in ("big", "red", "tall", "wet", "odd")]
    other += [f"no very {w} one ." for w in ("sly", "shy")] + ["some far off one ."] * 3
    asked = ["a very big thing ."]
    train, test = book("train", other * 2), book("test", asked)
    corpus = Corpus.of([train, test], progress=False, workers=1)
    seen = set()
    for seed in range(25):
        items = ask(corpus, books=["test"], frequency=0.2, n=1, seed=seed)
        if items[0].answer == "big":
            seen |= set(items[0].candidates)
    assert seen == {"big", "red", "tall", "wet", "odd", "sly", "shy"}  # the last two after "very" alone


def test_the_same_seed_gives_the_same_questions_whatever_the_blocks(corpus, monkeypatch):
    first = ask(corpus, seed=3)
    monkeypatch.setattr("workbench.models.completion.validation._BLOCK", 17)
    assert ask(corpus, seed=3).frame.equals(first.frame)
    assert not ask(corpus, seed=4).frame.equals(first.frame)


def test_the_four_steps_by_a_loop(corpus, texts):
    ngram = ToyNGram(texts["one"] + texts["three"], order=3)
    plain = ask(corpus, n=400, alternates=10**6)  # every word that can follow
    ranked = ask(corpus, n=400, alternates=10**6, best=4, ngram=ngram)
    by_text = {(item.text, item.answer): item for item in ranked}
    sentences = [line.split() for line in texts["one"] + texts["three"]]
    follow = {pair for words in sentences for pair in pairwise(words)}
    counts = Counter(chain(*sentences))
    limit = 0.02 * counts.total()
    kept = 0
    for item in plain:
        left, right = item.left.split(), item.right.split()
        rare = [w for v, w in follow if v == left[-1] and 2 <= counts[w] < limit and w.isalpha()]
        rare = [w for w in rare if w != item.answer]

        def score(word, place, left=left, right=right):
            words = ["<s>", *left, word, *right, "</s>"]
            at = len(left) + 1 + place
            return np.log(ngram.p(words[:at], words[at]))

        best = sorted(rare, key=lambda w: -score(w, 1))
        total = {w: sum(score(w, k) for k in range(3)) for w in [*rare, item.answer]}
        made = by_text.get((item.text, item.answer))
        if all(total[w] < total[item.answer] for w in rare):
            assert made is None
            continue
        kept += 1
        worst = score(best[3], 1)  # ties may be broken either way
        assert made is not None
        assert all(score(w, 1) >= worst - 1e-12 for w in made.candidates if w != item.answer)
    assert 0 < kept == len(ranked)


def test_which_books_are_held_out(corpus):
    assert len(held_out(corpus)) == 1
    assert len(held_out(corpus, share=0.99)) == 2
    assert {held_out(corpus, seed=s)[0] for s in range(20)} == {"one", "two", "three"}
    with pytest.raises(DataError, match="one book"):
        held_out(corpus.without(["one", "two"]))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"books": ["four"]}, "no book 'four'"),
        ({"books": ["one", "two", "three"]}, "all books are held out"),
        ({"minimum": 10**6}, "no question"),
        ({"lengths": (50, 60)}, "no question"),
    ],
)
def test_wrong_books(corpus, options, problem):
    with pytest.raises(DataError, match=problem):
        ask(corpus, **options)
