"""Log-probabilities, ranks and best words of networks, against slow loops over one passage at a time."""

import math

import known_networks
import numpy as np
import pytest
import torch
from known_networks import (
    CHOICES,
    CHOSEN,
    CLOSE,
    COPY,
    ITEMS,
    TABLE,
    TYPES,
    WORDS,
    Copying,
    Planted,
    networks,
)

from workbench.items.items import items_from_text
from workbench.models.neural.scoring import Scorer
from workbench.predictions import schema

torch.set_num_threads(1)
NETWORKS = networks()


@pytest.fixture(params=NETWORKS)
def kind(request):
    return request.param


@pytest.fixture
def ours(kind):
    return known_networks.model(NETWORKS[kind])


def test_planted_weights_give_known_numbers():
    frame = known_networks.model(Planted()).predict(ITEMS, 3)
    row = frame.iloc[0]  # after w3: w5 is one of five equal words
    assert row["log_prob"] == pytest.approx(math.log(TABLE[3, 5]), abs=1e-6)
    above = int((TABLE[3, 1:] > TABLE[3, 5]).sum())
    assert (row["rank"], row["n_tied"], row["known"]) == (above + 1, 5, True)
    row = frame.iloc[1]  # after w4
    assert (row["prediction"], row["rank"], row["n_tied"], row["correct"]) == ("w7", 1, 1, True)
    assert row["top_words"] == ["w7", "w1", "w2"]  # of equal ones the more frequent
    row = frame.iloc[4]  # W3, to the model w3
    assert row["log_prob"] == pytest.approx(math.log(TABLE[3, 4]), abs=1e-6)
    row = frame.iloc[5]  # nothing before: <unk>
    assert row["log_prob"] == pytest.approx(math.log(TABLE[0, 1]), abs=1e-6)
    row = frame.iloc[6]  # an answer that nobody knows
    assert row["log_prob"] == pytest.approx(math.log(TABLE[1, 0] / TYPES), abs=1e-6)
    assert (row["rank"], row["known"]) == (len(WORDS) + 1, False)
    whole = known_networks.model(Planted(), unknown="unk").predict(ITEMS, 3)
    assert whole["log_prob"].iloc[6] == pytest.approx(math.log(TABLE[1, 0]), abs=1e-6)
    row = frame.iloc[7]  # of two tokens: never, seen
    assert row["log_prob"] == pytest.approx(math.log(TABLE[10, 0] / TYPES * TABLE[0, 0] / TYPES), abs=1e-6)


def test_unknown_words_that_are_copied_are_ranked():
    frame = known_networks.model(Copying()).predict(ITEMS, 20)
    row = frame.iloc[3]  # "never w1 w2 . w2 seen never w2": never stands at 1 and 7 of 8 places
    p = 0.6 * TABLE[2, 0] / TYPES + 0.4 * 8 / 36
    assert row["known"]
    assert row["log_prob"] == pytest.approx(math.log(p), abs=1e-6)
    assert {"never", "seen", "."} < set(row["top_words"])
    assert row["top_log_probs"][row["top_words"].index("never")] == pytest.approx(math.log(p), abs=1e-6)
    assert "<unk>" not in {word for words in frame["top_words"] for word in words}


def test_everything_is_as_a_slow_loop_says(kind, device):
    ours = known_networks.model(NETWORKS[kind], device=device)
    frame = schema.check_predictions(ours.predict(ITEMS, 5), ITEMS)
    ranked = False
    for row, (log_prob, words) in zip(frame.itertuples(), known_networks.slow(ours, ITEMS), strict=True):
        assert row.log_prob == pytest.approx(log_prob, abs=CLOSE)
        np.testing.assert_allclose(row.top_log_probs, [value for value, _ in words[:5]], atol=CLOSE)
        values = {word: value for value, word in words}
        np.testing.assert_allclose(row.top_log_probs, [values[word] for word in row.top_words], atol=CLOSE)
        answer = row.answer.lower()
        assert row.known == (answer in values)
        if not row.known:
            assert row.rank == len(WORDS) + 1
            continue
        ranked |= answer not in WORDS
        surely = sum(value > values[answer] + CLOSE for value in values.values())
        perhaps = sum(value > values[answer] - CLOSE for value in values.values())
        assert surely < row.rank <= perhaps
        assert row.n_tied <= perhaps - surely
    assert ranked == (kind in COPY)


def test_distributions_are_those_of_a_slow_loop_in_chunks(ours):
    parts = list(ours.distribution(ITEMS, chunk=3))
    assert [len(part) for part in parts] == [3, 3, 2]
    values = np.concatenate(parts)
    assert values.shape == (len(ITEMS), len(WORDS))
    for row, (_, words) in zip(values, known_networks.slow(ours, ITEMS), strict=True):
        known_words = {word: value for value, word in words}
        np.testing.assert_allclose(row, [known_words[word] for word in WORDS], atol=CLOSE)


WAYS = [(kind, True, "shared") for kind in NETWORKS]
for other in "lstm", "copying", "short-sighted":
    WAYS += [(other, False, "shared"), (other, True, "unk")]


@pytest.mark.parametrize(("kind", "after", "unknown"), WAYS)
def test_candidates_are_scored_with_the_words_after_them(kind, after, unknown, device):
    ours = known_networks.model(NETWORKS[kind], device=device, after=after, unknown=unknown)
    got = ours.score(CHOSEN, CHOICES)
    wanted = known_networks.slow_scores(ours, CHOSEN, CHOICES, copies=kind in COPY)
    assert got.shape == (len(CHOSEN), 4)
    for row, own in zip(got, wanted, strict=True):
        np.testing.assert_allclose(row[: len(own)], own, atol=5 * CLOSE)
        assert np.isnan(row[len(own) :]).all()
    frame = schema.check_predictions(ours.predict(CHOSEN), CHOSEN)
    for row, own, choices in zip(frame.itertuples(), wanted, CHOICES, strict=True):
        np.testing.assert_allclose(row.candidate_scores, own, atol=5 * CLOSE)
        assert own[choices.index(row.prediction)] > max(own) - 10 * CLOSE


def test_words_after_the_blank_are_read_once_per_context():
    network = Planted()
    known_networks.model(network).score(CHOSEN.where(np.arange(len(CHOSEN)) == 6), CHOICES[6:7])
    lengths = [shape[1] for shape in network.asked]
    context = len(known_networks.TEXTS[6].partition("___")[0].split())
    assert lengths.count(context) == 1  # for the word itself and what follows it
    assert max(lengths) == context


@pytest.mark.parametrize(("tokens", "size"), [(1, 1), (7, 3), (1000, 1)])
def test_batches_and_chunks_change_nothing(kind, tokens, size):
    network = NETWORKS[kind]
    contexts = [blank.ids for _, blank in known_networks.model(network).encoder.blanks(ITEMS)]
    wanted = np.array([5, 7, 2, -1, 4, 1, known_networks.N_WORDS, 3])

    def ranked(scorer):
        return scorer.ranked(scorer.last(contexts), wanted, 4)

    whole = ranked(Scorer(network))
    scorer = Scorer(network)
    scorer._batcher.tokens, scorer._chunker.tokens = tokens, size
    got = ranked(scorer)
    np.testing.assert_allclose(got.log_prob, whole.log_prob, atol=CLOSE)
    np.testing.assert_allclose(got.top_log_probs, whole.top_log_probs, atol=CLOSE)
    if kind in {"planted", "not carried", "copying"}:  # nothing is rounded
        np.testing.assert_array_equal(got.rank, whole.rank)
        np.testing.assert_array_equal(got.tied, whole.tied)
        assert got.top == whole.top


@pytest.mark.parametrize("name", ["transformer", "lstm with a cache"])
def test_a_network_is_left_as_it_was(name):
    network = networks()[name.split()[0]].train()
    ours = known_networks.model(network)
    ours = ours.cached() if "cache" in name else ours
    assert network.training
    first = ours.predict(ITEMS)
    assert network.training
    assert ours.predict(ITEMS).equals(first)  # no dropout
    assert all(weight.requires_grad and weight.grad is None for weight in network.parameters())
    assert torch.is_grad_enabled()


def test_no_items_and_no_words():
    ours = known_networks.model(Planted())
    empty = ITEMS.where(np.zeros(len(ITEMS), dtype=bool))
    assert ours.log_prob(empty).shape == (0,)
    assert ours.ranking(empty).top_words == []
    assert list(ours.distribution(empty)) == []
    assert ours.score(ITEMS[:2], [[], []]).shape == (2, 0)
    frame = ours.predict(items_from_text(["w1 w2 ___"], tokenised=True))
    assert frame["rank"].isna().all()
    assert frame["prediction"].iloc[0] in WORDS
