"""The cache beside an n-gram model, against a slow loop over tokens and vocabulary."""

import math
from collections import Counter

import numpy as np
import pytest
from ngrams import Loop, asked, fitted, slow_log_probs
from refused import refused

import workbench as wb
from workbench.items.items import items_from_text
from workbench.items.tokens import tokens
from workbench.models.base import Predictor
from workbench.models.ngram.model import NGram
from workbench.predictions import schema

OPTIONS = [(0.1, 1.0), (0.3, 0.5), (0.0, 1.0), (0.05, 1e-6)]
SMALL = {"order": 3, "n_lines": 2000}
MORE = items_from_text(
    ["___ w1 w2", "never . unheard ___", "never never ___ w3", "w1 w2 w1 w3 ___", "w1 . w1 w1 ___",
     "never . ___ ."],
    answers=["w1", "w2", "never", "w1", "w2", "never"], tokenised=True, split="test",
)  # fmt: skip


@pytest.fixture(params=["kneser-ney", "good-turing"])
def base(request):
    return fitted(smoothing=request.param, **SMALL)


@pytest.fixture(params=OPTIONS, ids=str)
def cached(base, request):
    weight, decay = request.param
    return base.cached(weight, decay=decay)


@pytest.fixture(scope="module")
def items():
    return wb.Items.concat([asked(90), MORE])


def before(item):
    cut = tokens(item)
    words = [word.lower() for word in cut.words[: cut.target]]
    return words, words[cut.sentences[-1] :]


def share(word, words, decay):
    """Return a word's part of the tokens of a passage, the last of which counts 1."""
    weights = [decay**distance for distance in range(len(words))]
    own = [weight for weight, other in zip(weights, reversed(words), strict=True) if other == word]
    return math.fsum(own) / math.fsum(weights) if words else 0


def mixed(plain, part, weight, words):
    """Return the natural log-probability of a word."""
    return math.log((1 - weight) * math.exp(plain) + weight * part) if words else plain


def slow(model, items):
    """Return log-probabilities of the vocabulary, and what two words share if they are tied exactly."""
    loop, found, same = Loop(model.base.binary, model.vocabulary), [], []
    for item in items:
        words, left = before(item)
        plain = loop.scores(["<s>", *left])
        parts = Counter({word: share(word, words, model.decay) for word in set(words)})
        found.append([])
        same.append([])
        for word, value in zip(model.vocabulary, plain.tolist(), strict=True):
            own = parts[word]
            if own and model.weight * own < 1e-14 * math.exp(value * math.log(10)):
                own = 0.0  # lost in double precision
            found[-1].append(mixed(value * math.log(10), own, model.weight, words))
            same[-1].append((value, own if model.weight else 0.0))
    return np.array(found), same


def test_everything_is_as_the_formula_says(cached, items):
    scores, same = slow(cached, items)
    got = np.concatenate(list(cached.distribution(items, chunk=40)))
    np.testing.assert_allclose(got, scores, rtol=1e-11)
    assert (np.exp(got).sum(axis=1) < 1 + 1e-5).all()
    frame = schema.check_predictions(cached.predict(items, 8), items)
    places = {word: place for place, word in enumerate(cached.vocabulary)}
    tied = []
    for i, row in enumerate(frame.itertuples()):
        top = [places[word] for word in row.top_words]
        assert len(set(top)) == 8
        assert (np.diff(scores[i, top]) < 1e-11).all()
        np.testing.assert_allclose(row.top_log_probs, scores[i, top], rtol=1e-11)
        assert (np.delete(scores[i], top) < scores[i, top].min() + 1e-11).all()
        place = places.get(row.answer)
        assert row.known == (place is not None)
        if place is None:
            assert row.rank == len(places) + 1
            continue
        equal = np.array([other == same[i][place] for other in same[i]])
        above = (scores[i] > scores[i, place]) & ~equal
        assert (row.rank, row.n_tied) == (above.sum() + 1, equal.sum()), (row.item_id, row.answer)
        assert row.log_prob == pytest.approx(scores[i, place], rel=1e-6)
        tied.append(equal.sum())
    assert max(tied) > 1
    assert min(tied) == 1


@pytest.mark.parametrize(("weight", "decay"), [(0.0, 1.0), (0.3, 0.5)])
def test_words_that_the_cache_does_not_lift_keep_their_ties(base, weight, decay):
    """Rounding must not part what the n-gram model has as equal."""
    rare, last = base.vocabulary[-40:], " ".join(base.vocabulary[:60])
    texts = [f"{' '.join(rare)} . {last} . {start} ___" for start in ("w1", base.vocabulary[7], last)]
    items = items_from_text([t for t in texts for _ in rare], answers=rare * 3, tokenised=True)
    model = base.cached(weight, decay=decay)
    own, general = model.ranking(items), Predictor.ranking(model, items)
    assert (own.n_tied > 1).mean() > 0.2
    np.testing.assert_array_equal((own.rank, own.n_tied), (general.rank, general.n_tied))
    if weight == 0:
        alone = base.ranking(items)
        np.testing.assert_array_equal((own.rank, own.n_tied), (alone.rank, alone.n_tied))
        assert own.top_words == alone.top_words


def test_scores_of_candidates(cached, items):
    some = items[:40]
    words = [["w1", "w2 w3", "unheard", "never w1", *before(item)[0][:1]] for item in some]
    found, after = cached.position_scores(some, words), cached.base.order - 1
    score = cached.score(some, words)
    of_kenlm = slow_log_probs(cached.base, some, words)
    unknown, known = cached.base.unknown_share, set(cached.vocabulary)
    for i, item in enumerate(some):
        passage, _ = before(item)
        cut = tokens(item)
        right = [word.lower() for word in cut.words[cut.end :]]
        for j, word in enumerate(words[i]):
            pieces, values = word.split(), of_kenlm[i][j]
            plain = sum(values[: len(pieces)]) - unknown * sum(piece not in known for piece in pieces)
            parts = [share(piece, passage, cached.decay) for piece in pieces]
            wanted = [mixed(plain, math.prod(parts), cached.weight, passage)]
            for other, value in zip([*right, "</s>"][:after], values[len(pieces) :], strict=False):
                wanted.append(mixed(value, share(other, passage, cached.decay), cached.weight, passage))
            np.testing.assert_allclose(found[i, j, : len(wanted)], wanted, rtol=1e-6)
            assert np.isnan(found[i, j, len(wanted) :]).all()
            assert score[i, j] == pytest.approx(sum(wanted), rel=1e-6)


def test_scores_before_the_blank_alone(base, items):
    model = NGram(base.folder, after=False).cached(0.3)
    words = [["w1", "w2"]] * len(items)
    np.testing.assert_array_equal(model.score(items, words), model.position_scores(items, words)[:, :, 0])


def test_an_unknown_answer_of_the_passage_is_likely_and_has_the_last_rank(base):
    model = base.cached(0.5)
    frame = model.predict(MORE[2:3])
    assert frame["rank"].tolist() == [len(base.vocabulary) + 1]
    assert not frame["known"][0]
    assert frame["log_prob"][0] == pytest.approx(math.log(0.5), abs=0.05)


@pytest.mark.parametrize("by", ["accuracy", "perplexity"])
def test_the_weight_is_the_one_that_does_best_on_all_sets(base, items, by):
    sets = {"mine/dev": items[:40], "mine/test": MORE}
    weights = [0.5, 0.0, 0.01, 0.2, 0.9]
    tuned = base.cached(0.1, decay=0.9).tuned(*sets.values(), weights=weights, by=by)
    trials = tuned.trials
    columns = ["weight", "set", "n", "accuracy", "perplexity", "median_rank", "chosen"]
    assert (trials.columns.tolist(), len(trials)) == (columns, 2 * len(weights))
    sets = dict(zip(trials["set"].unique(), sets.values(), strict=True))
    for row in trials.itertuples():
        frame = base.cached(row.weight, decay=0.9).predict(sets[row.set])
        assert row.n == len(frame)
        assert row.accuracy == pytest.approx(frame["p_correct"].mean())
        assert row.perplexity == pytest.approx(math.exp(-frame["log_prob"].mean()))
        assert row.median_rank == (frame["rank"] + (frame["n_tied"] - 1) / 2).median()
    score = trials["accuracy"] if by == "accuracy" else -np.log(trials["perplexity"])
    means = score.groupby(trials["weight"]).mean()
    assert tuned.weight == means.index[means == means.max()].min()
    assert set(trials["weight"][trials["chosen"]]) == {tuned.weight}
    assert (tuned.decay, tuned.base) == (0.9, base)


@pytest.mark.parametrize(
    "options", [{"weight": 1}, {"weight": -0.1}, {"weight": math.nan}, {"decay": 0}, {"decay": 1.1}]
)
def test_what_is_no_weight_is_told(base, options):
    refused(base.cached, **options)
    refused(base.cached().tuned, MORE, by="luck")
    refused(base.cached().tuned)


def test_a_vocabulary_smaller_than_what_is_asked_for(items):
    few = fitted(order=2, vocabulary=5, n_lines=2000).cached(0.3)
    ranked = few.ranking(items, top_k=10)
    assert {len(row) for row in ranked.top_words} == {5}
    assert all(sorted(row) == sorted(few.vocabulary) for row in ranked.top_words)
    assert np.isfinite(ranked.top_log_probs).all()
