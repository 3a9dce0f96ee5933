"""Readers that attend to the context: attention-sum, gated-attention, Stanford attentive."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from workbench.items.items import items_from_text
from workbench.models import AttentionSum, AttentiveReader, GatedAttention
from workbench.models.readers import attention_sum
from workbench.models.readers.attention_sum import AttentionSumModule, BiGRU, attention_weights
from workbench.models.readers.attentive import AttentiveModule
from workbench.models.readers.encoding import PAD, RESERVED, UNKNOWN, Questions
from workbench.models.readers.gated_attention import GatedAttentionModule, gated, shared

torch.set_num_threads(1)

WORDS = [f"w{number}" for number in range(30)]
NAMES = tuple(WORDS[:8])
UNSEEN = [f"x{number}" for number in range(8)]
KINDS = {
    AttentionSum: {"width": 12, "embedded": 16, "epochs": 6, "learning_rate": 0.01},
    GatedAttention: {"width": 12, "embedded": 16, "epochs": 6, "learning_rate": 0.01, "dropout": 0.0},
    AttentiveReader: {"width": 16, "embedded": 16, "epochs": 6, "learning_rate": 0.02, "dropout": 0.0},
}


MODULES = {
    "attention-sum": AttentionSumModule,
    "gated": GatedAttentionModule,
    "gated, one layer": lambda n, **sizes: GatedAttentionModule(n, layers=1, feature=False, **sizes),
    "attentive": AttentiveModule,
}


def after_marker(rng, names):
    """Return a context and the word after its marker, which is the answer."""
    chosen = rng.choice(names, 4, replace=False)
    words = list(rng.permutation(np.repeat(chosen, 2)))
    place = rng.integers(len(words))
    return [*words[:place], "marker", *words[place:]], words[place], chosen


def in_query(rng, names):
    """Return a context, one of its words, which the query repeats, and four of them."""
    chosen = rng.choice(names, 4, replace=False)
    return list(rng.permutation(chosen)), chosen[0], chosen


def planted(number, seed, rule=after_marker, names=NAMES):
    rng = np.random.default_rng(seed)
    rows = [rule(rng, names) for _ in range(number)]
    hint = [f"{answer} is" if rule is in_query else "it was" for _, answer, _ in rows]
    return items_from_text(
        [f"{' '.join(words)} . {left} ___ here" for (words, _, _), left in zip(rows, hint, strict=True)],
        answers=[str(answer) for _, answer, _ in rows],
        candidates=[list(map(str, rng.permutation(chosen))) for _, _, chosen in rows], tokenised=True,
    )  # fmt: skip


def made(module, seed=0):
    """Return a network with random weights, large enough that attention is not uniform."""
    torch.manual_seed(seed)
    network = module(len(WORDS) + RESERVED, width=5, embedded=6).eval()
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(torch.randn(weight.shape) * 0.5)
    return network


def questions(seed=0, number=7):
    """Return questions of very different lengths; some candidates stand twice, some not at all."""
    rng = np.random.default_rng(seed)
    texts, candidates = [], []
    for size in rng.integers(0, 25, number):
        texts.append(" ".join([*rng.choice([*WORDS, "."], size), ". never", *rng.choice(WORDS, 2), "___ w1"]))
        candidates.append(rng.choice(WORDS, rng.integers(2, 9), replace=False).tolist())
    answers = [row[0] for row in candidates]
    items = items_from_text(texts, answers=answers, candidates=candidates, tokenised=True)
    return Questions.of(items, WORDS)


def tensors(batch):
    return {name: torch.from_numpy(values) for name, values in batch.items()}


def test_both_directions_are_those_of_packed_sequences():
    torch.manual_seed(0)
    ours, theirs = BiGRU(3, 4), nn.GRU(3, 4, batch_first=True, bidirectional=True)
    for gru, suffix in ((ours.forwards, ""), (ours.backwards, "_reverse")):
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            getattr(gru, name).data.normal_()
            getattr(theirs, name + suffix).data.copy_(getattr(gru, name))
    lengths = torch.tensor([3, 7, 1, 5])
    mask, vectors = torch.arange(7) < lengths[:, None], torch.randn(4, 7, 3)
    packed, last = theirs(pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False))
    expected, _ = pad_packed_sequence(packed, batch_first=True)
    states, ends = ours(vectors, mask)
    torch.testing.assert_close(states[mask], expected[mask])
    torch.testing.assert_close(ends, torch.cat([last[0], last[1]], 1))


def test_mentions_are_summed_as_in_a_loop():
    rng = np.random.default_rng(1)
    slots = torch.from_numpy(rng.integers(0, 4, (5, 9)))
    slots[0] = 0  # no candidate is mentioned
    candidates = torch.tensor([[5, 6, 7]] * 4 + [[5, 6, PAD]])
    slots[4][slots[4] == 3] = 0
    weights = torch.from_numpy(rng.dirichlet(np.ones(9), 5))
    scores = attention_sum.summed(weights, {"slots": slots, "candidates": candidates})
    for row in range(5):
        for slot in range(1, 4):
            total = sum(weights[row, at].item() for at in range(9) if slots[row, at] == slot)
            score = scores[row, slot - 1].item()
            if candidates[row, slot - 1] == PAD:
                assert score == -math.inf
            elif total == 0:
                assert -1000 < score < -700, "finite, and below any that is mentioned"
            else:
                assert math.isclose(score, math.log(total))


def test_attention_is_a_softmax_over_words():
    torch.manual_seed(0)
    states, query = torch.randn(2, 4, 3, dtype=torch.double), torch.randn(2, 3, dtype=torch.double)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    weights = attention_weights(states, query, mask)
    for row in range(2):
        powers = [math.exp(float(states[row, t] @ query[row])) if mask[row, t] else 0.0 for t in range(4)]
        expected = [power / sum(powers) for power in powers]
        np.testing.assert_allclose(weights[row].tolist(), expected, rtol=1e-9)
    assert not attention_weights(states, query, torch.zeros_like(mask)).any(), "an empty context"


def test_gates_are_those_of_a_loop():
    torch.manual_seed(0)
    states, question = torch.randn(2, 4, 3, dtype=torch.double), torch.randn(2, 5, 3, dtype=torch.double)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    result = gated(states, question, mask).numpy()
    for row in range(2):
        words = question[row][mask[row]].numpy()
        for place in range(4):
            state = states[row, place].numpy()
            powers = np.exp(words @ state)
            np.testing.assert_allclose(result[row, place], state * (powers / powers.sum() @ words))


def test_only_known_words_are_shared_with_the_query():
    ids = torch.tensor([[5, UNKNOWN, 6, PAD]])
    assert shared(ids, torch.tensor([[6, UNKNOWN, PAD]])).tolist() == [[False, False, True, False]]


@pytest.mark.parametrize("name", MODULES)
def test_padding_changes_no_score(name):
    network, encoded = made(MODULES[name]), questions()
    with torch.no_grad():
        together = network.scores(tensors(encoded.batch(range(len(encoded)))))
        looked = network.attention_weights(tensors(encoded.batch(range(len(encoded)))))
        for row in range(len(encoded)):
            [alone] = network.scores(tensors(encoded.batch([row])))
            torch.testing.assert_close(together[row, : len(alone)], alone, rtol=1e-4, atol=1e-4)
            assert (together[row, len(alone) :] == -torch.inf).all()
            size = int(np.diff(encoded.arrays["context_starts"])[row])
            sums = torch.ones(len(looked.names)) if size else torch.zeros(len(looked.names))
            torch.testing.assert_close(looked.weights[row].sum(1), sums)
            assert not looked.weights[row, :, size:].any()
            assert (looked.end - looked.begin)[row].tolist()[:size] == [1] * size


@pytest.mark.parametrize("module", [AttentionSumModule, GatedAttentionModule])
def test_a_question_without_a_mention_of_the_answer_teaches_nothing(module):
    network, batch = made(module), tensors(questions().batch(range(7)))
    mentioned = attention_sum.is_mentioned(batch).bool()
    rows = [tensors(questions().batch([row])) for row in range(7)]
    assert mentioned.tolist() == [row["answer"].item() + 1 in row["slots"] for row in rows]
    assert 0 < mentioned.sum() < 7
    loss = network.loss(batch)
    assert loss[mentioned].min() > 0
    assert not loss[~mentioned].any()
    scores = network.scores(batch)[mentioned].double()
    chosen = scores[range(len(scores)), batch["answer"][mentioned]]
    share = scores.logsumexp(1) if module is GatedAttentionModule else 0.0
    torch.testing.assert_close(loss[mentioned].double(), share - chosen, rtol=1e-4, atol=1e-5)


def test_the_attention_of_a_summed_candidate_is_its_score():
    items = planted(3, 2)
    network = made(AttentionSumModule)
    model = AttentionSum(network, words=WORDS, info={"sizes": {}}, device="cpu")
    scores = model.score(items, [item.candidates for item in items])
    for item, look, row in zip(items, model.attend(items), scores, strict=True):
        sums = dict.fromkeys(item.candidates, 0.0)
        for (start, end), weight in zip(look.spans, look.weights[0], strict=True):
            if item.text[start:end] in sums:
                sums[item.text[start:end]] += weight
        np.testing.assert_allclose(np.log(list(sums.values())), row, rtol=1e-4)
        assert look.prediction == max(sums, key=sums.get)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Give a trained reader of each kind: the answer is the word after a marker."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        yield {kind: kind.fit(planted(1000, 0), **options, device="cpu") for kind, options in KINDS.items()}


def accuracy(model, items):
    return float(model.predict(items)["correct"].mean())


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_rule_is_learnt_whatever_the_candidates_are_called(trained, kind):
    model = trained[kind]
    first, second = planted(300, 1), planted(300, 1, names=NAMES[::-1])  # the same but for the names
    results = [accuracy(model, items) for items in (first, second)]
    assert min(results) > 0.9
    assert abs(results[0] - results[1]) < 0.07
    if kind is not AttentiveReader:  # it may look at the neighbours, whose states know the answer
        looks = zip(first[:40], model.attend(first[:40]), strict=True)
        pointed = [
            item.text[slice(*look.spans[int(look.weights[-1].argmax())])] == item.answer
            for item, look in looks
        ]
        assert np.mean(pointed) > 0.8


def test_words_outside_the_vocabulary_cannot_be_matched(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    learnt, unknown = planted(500, 3, in_query), planted(400, 4, in_query, UNSEEN)
    model = GatedAttention.fit(learnt, **KINDS[GatedAttention], device="cpu")
    assert accuracy(model, planted(200, 5, in_query)) > 0.9
    assert abs(accuracy(model, unknown) - 0.25) < 0.1


def test_only_pointing_readers_find_words_outside_the_vocabulary(trained):
    items = planted(200, 6, names=UNSEEN)
    assert accuracy(trained[AttentionSum], items) > 0.6
    scores = trained[AttentiveReader].score(items, [item.candidates for item in items])
    assert not np.ptp(scores, axis=1).any(), "all unknown words have one vector"
