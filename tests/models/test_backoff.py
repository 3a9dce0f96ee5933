"""Log-probabilities, ranks, ties and best words against KenLM, asked for every word of the vocabulary."""

import random
import shutil
from itertools import product

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from ngrams import Loop, arpa, by_value, compiled, fitted, new_home, random_grams, text

from workbench.items.items import items_from_text
from workbench.models.ngram.model import NGram
from workbench.storage.errors import DataError

QUICK = {"tokenised": True, "memory": "60M"}


def check(model, rows, scores, wanted, *, k=10):
    """Compare all that a model says of contexts (lists of words) with KenLM's scores of all words."""
    contexts, n = model.contexts([model.ids(row) for row in rows]), len(rows)
    state = model.state(contexts)
    expected = scores[np.arange(n), wanted]
    log10 = model.log10(contexts, wanted[:, None], state)[:, 0]
    assert log10.dtype == np.float32
    np.testing.assert_array_equal(log10, expected)
    above, both = model.count(state, log10), model.count(state, log10, equal=True)
    np.testing.assert_array_equal(above, (scores > expected[:, None]).sum(axis=1))
    np.testing.assert_array_equal(both - above, (scores == expected[:, None]).sum(axis=1))
    values, words = model.top(contexts, k)
    best = by_value(scores, k)
    np.testing.assert_array_equal(words, best)
    np.testing.assert_array_equal(values, np.take_along_axis(scores, best, axis=1))
    chunks = list(model.distribution(contexts, chunk=97))
    assert all(len(chunk) == 97 for chunk in chunks[:-1])
    np.testing.assert_array_equal(np.concatenate(chunks), scores)
    return both - above


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    size=st.tuples(st.integers(2, 5), st.integers(1, 7)),
    ties=st.booleans(),
    gaps=st.booleans(),
)
def test_any_model_is_as_kenlm_has_it(tmp_path_factory, seed, size, ties, gaps):
    folder = tmp_path_factory.mktemp("model")
    words, grams = random_grams(seed, order=size[0], n_words=size[1], ties=ties, gaps=gaps)
    file = arpa(grams, folder / "m.arpa", ragged=bool(seed % 2))
    try:
        loop = Loop(file, words)
    except OSError as error:  # it makes room for a few gaps only, and has two orders at least
        assert (gaps and "ProbingSizeException" in str(error)) or len(grams) == 1  # noqa: PT017 - the rest is good
        return
    model = compiled(file, folder / "m", words)
    chosen = random.Random(seed)  # noqa: S311 - no secret
    rows = [(*start, *chosen.choices([*words, "<unk>", "unheard"], k=chosen.randint(0, 6)))
            for start in [(), ("<s>",)] * 20]  # fmt: skip
    rows += [gram for level in grams for gram in level if gram[-1] != "</s>"][:40]  # those that are listed
    scores = np.array([loop.scores(row) for row in rows])
    wanted = np.array(chosen.choices(range(len(words)), k=len(rows)))
    check(model, rows, scores, wanted, k=chosen.randint(1, len(words) + 2))
    shutil.rmtree(folder)


def test_all_contexts_of_a_model_full_of_ties(tmp_path):
    words, grams = random_grams(11, order=4, n_words=4, ties=True, share=0.6)
    file = arpa(grams, tmp_path / "m.arpa")
    model, loop = compiled(file, tmp_path / "m", words), Loop(file, words)
    rows = [row for n in range(5) for row in product([*words, "<unk>"], repeat=n)]
    scores = np.array([loop.scores(row) for row in rows])
    tied = [check(model, rows, scores, np.full(len(rows), word), k=3) for word in range(len(words))]
    assert (np.array(tied) > 1).mean() > 0.1
    assert (np.array(tied) == 1).mean() > 0.1


MODELS = {
    "Kneser-Ney, order 2": {"order": 2},
    "Kneser-Ney, order 5": {"order": 5},
    "Kneser-Ney, order 5, pruned": {"order": 5, "pruning": (0, 0, 1, 1, 2)},
    "Kneser-Ney, all words": {"order": 3, "vocabulary": None},
    "Kneser-Ney, fixed discounts": {"order": 5, "n_lines": 60, "vocabulary": 150},
    "Good-Turing, order 3": {"order": 3, "smoothing": "good-turing"},
    "Good-Turing, order 5, pruned": {"order": 5, "smoothing": "good-turing", "pruning": (0, 0, 0, 1, 1)},
}


def random_contexts(n, seed=1):
    """Draw contexts: from the text or at random, at the start of a sentence or not, with unknown words."""
    chosen, lines = random.Random(seed), [line.split() for line in text()]  # noqa: S311 - no secret
    types = sorted({word for line in lines for word in line})
    for _ in range(n):
        line = chosen.choice(lines)
        place = chosen.randint(0, len(line))
        begin, length = chosen.random() < 0.3, chosen.randint(0, 6)
        if begin:
            context = line[: min(place, length)]
        elif chosen.random() < 0.8:
            context = line[max(0, place - length) : place]
        else:
            context = chosen.choices(types, k=length)
        if context and chosen.random() < 0.2:
            context[chosen.randrange(len(context))] = chosen.choice(["never seen", "<unk>", *types[-40:]])
        after = line[place] if place < len(line) else chosen.choice(types)
        yield ["<s>"] * begin + context, after if chosen.random() < 0.7 else chosen.choice(types)


@pytest.mark.parametrize("name", MODELS)
def test_thousands_of_contexts_of_fitted_models(name):
    fit = fitted(**MODELS[name])
    model, loop = fit.model, Loop(fit.binary, fit.vocabulary)
    drawn = list(random_contexts(800 if name == "Kneser-Ney, order 5" else 400))
    rows = [context for context, _ in drawn]
    scores = np.array([loop.scores(row) for row in rows])
    places = {word: place for place, word in enumerate(fit.vocabulary)}
    wanted = np.array([places.get(word, 0) for _, word in drawn])
    tied = check(model, rows, scores, wanted, k=25)
    assert (tied > 1).any()
    nodes = model.state(model.contexts([model.ids(row) for row in rows])).nodes
    listed = np.array(nodes).T >= 0
    assert listed[:, -1].any()  # else the highest order was never asked
    assert not listed[:, -1].all()


@settings(max_examples=25)
@given(
    lines=st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=9), min_size=1, max_size=12),
    order=st.integers(2, 4),
    n_words=st.integers(1, 8),
    pruning=st.sampled_from([None, (0, 1), (0, 0, 1), (0, 9), (0, 0, 9), (0, 1, 9)]),
    smoothing=st.sampled_from(["kneser-ney", "good-turing"]),
)
@example(lines=["a", "a", "acbcb"], order=3, n_words=2, pruning=None, smoothing="kneser-ney")  # weights of 0
def test_any_fit_is_as_kenlm_has_it(lines, order, n_words, pruning, smoothing):
    """Also where all n-grams of an order were pruned."""
    pruning = pruning and pruning[:order]
    options = {"smoothing": smoothing, "pruning": pruning, "vocabulary": n_words}
    with new_home():
        fit = NGram.fit([" ".join(line) for line in lines], order=order, **options, **QUICK)
        model = fit.model
        try:
            loop = Loop(fit.binary, fit.vocabulary)
        except DataError as error:
            if "Bad backoff -inf" in error.problem:  # KenLM cannot load its own table
                return
            raise
        rows = [line[:place] for line in lines[:5] for place in range(len(line) + 1)]
        rows += [["<s>", *row] for row in rows]
        scores = np.array([loop.scores(row) for row in rows])
        assert len(model.levels) == order
        check(model, rows, scores, np.arange(len(rows)) % len(fit.vocabulary), k=3)


@pytest.mark.parametrize("smoothing", ["kneser-ney", "good-turing"])
@pytest.mark.parametrize(
    ("line", "pruning", "sizes"), [("a b c", (0, 1), (6, 0)), ("a b c a b", (0, 1, 1), (6, 1, 0))]
)
def test_a_model_without_n_grams_of_an_order_predicts_by_the_lower_ones(line, pruning, sizes, smoothing):
    with new_home():
        fit = NGram.fit([line], order=len(pruning), pruning=pruning, smoothing=smoothing, **QUICK)
        assert tuple(len(level["logp"]) for level in fit.model.levels) == sizes
        table = fit.predict(items_from_text("x a b", dataset="lambada", tokenised=True))
        assert sorted(table["top_words"][0]) == ["a", "b", "c"]
        assert table["rank"][0] <= 3


@pytest.mark.parametrize("tied", ["two lists", "nearly all"])
def test_ties_are_by_frequency(tmp_path, tied):
    words, all_tied = [f"w{i:03d}" for i in range(300)], tied == "nearly all"
    level = {(w,): (-3.0 if i % 50 or not all_tied else -2.5, 0) for i, w in enumerate(words)}
    level |= {("</s>",): (-3.0, 0), ("<unk>",): (-3.0, 0), ("<s>",): (-99, -0.5)}
    if all_tied:
        pairs = {("<s>", w): (-3.5, 0) for w in words[::3]}  # just what backing off gives
    else:
        pairs = {("<s>", w): (-9.0, 0) for w in words[:40]} | {("<s>", w): (-3.5, 0) for w in words[100:140]}
    file = arpa([level, pairs], tmp_path / "m.arpa")
    model, loop = compiled(file, tmp_path / "m", words), Loop(file, words)
    scores = np.array([loop.scores([]), loop.scores(["<s>"])])
    for k in (1, 9, 10, 11, 100, 300):
        check(model, [[], ["<s>"]], scores, np.array([3, 120]), k=k)
