"""What all networks share: texts in pieces, padded contexts, and copied words against sums and loops."""

import math

import checked_networks as checked
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

from workbench.items.items import items_from_text
from workbench.models.neural.feedforward import FeedForward
from workbench.models.neural.memory import MemoryNetwork
from workbench.models.neural.network import Copies, class_ids, word_scores
from workbench.models.neural.recurrent import LSTM, ElmanRNN

torch.set_num_threads(1)
CLOSE = {"cpu": 1e-5, "cuda": 1e-4}  # sums in another order
ROW = st.lists(st.sampled_from([-3.0, -2.0, -1.5, -1.0]), min_size=6, max_size=6)


@pytest.fixture(params=checked.FAMILIES)
def family(request):
    torch.manual_seed(0)
    return checked.FAMILIES[request.param]


def test_the_loss_is_the_mean_over_all_following_words(family):
    network, n_words = family().eval(), checked.N_WORDS
    ids = checked.drawn((4, 9), n_words=n_words + 10)
    classes = class_ids(ids, n_words)
    assert classes.tolist() == [[i if i < n_words else 0 for i in row] for row in ids.tolist()]
    loss, _ = network({"ids": ids})
    log_prob = network.following(ids)
    assert log_prob.shape == (4, 8)
    checked.near(loss, -log_prob.mean())
    assert torch.equal(log_prob, network.following(classes))
    hidden = network.last(ids[2:3, :6], torch.tensor([6])).hidden
    checked.near(network.output.distribution(hidden)[0, classes[2, 6]], log_prob[2, 5])


@st.composite
def copies(draw):
    rows, time, n_words = draw(st.integers(1, 4)), draw(st.integers(0, 7)), draw(st.integers(2, 6))
    size = {"min_size": rows * time, "max_size": rows * time}
    ids = torch.tensor(draw(st.lists(st.integers(0, n_words + 3), **size)), dtype=torch.int64)
    copy = torch.tensor(draw(st.lists(st.sampled_from([0.0, 0.1, 0.25, 1.0]), **size)), dtype=torch.float64)
    ids, copy = ids.view(rows, time), torch.where(ids > 0, copy, 0).view(rows, time)
    total = copy.sum(1, keepdim=True)
    copy = torch.where(total > 0, copy / total.clamp_min(1e-9) * 0.5, 0)
    log_probs = torch.randn(rows, n_words, generator=torch.Generator().manual_seed(rows)).double()
    return log_probs.log_softmax(1), Copies(ids, copy, torch.log1p(-copy.sum(1)))


@given(copies(), st.sampled_from([0.0, math.log(3)]))
def test_copies_are_mixed_in_as_the_sum_says(drawn, share):
    log_probs, copies_ = drawn
    rows, n_words = log_probs.shape
    scores = word_scores(log_probs, share, copies_)
    targets = torch.arange(1, n_words + 4).expand(rows, -1)
    words = scores.log_prob(targets).exp()
    for row in range(rows):
        p = log_probs[row].exp() * math.exp(copies_.keep[row])
        p = [*p[1:].tolist(), *[p[0].item() * math.exp(-share)] * 4]  # of each word by itself
        places = list(zip(copies_.ids[row].tolist(), copies_.copy[row].tolist(), strict=True))
        for word in range(1, n_words + 4):
            p[word - 1] += sum(c for id_, c in places if id_ == word)
        np.testing.assert_allclose(words[row], p, rtol=1e-9)
        np.testing.assert_allclose(scores.log_probs[row, 1:n_words].exp(), p[: n_words - 1], rtol=1e-9)
        assert scores.log_probs[row, 0] == -torch.inf
        ranked = scores.ids[row][scores.ids[row] >= 0].tolist()
        assert sorted(ranked) == sorted({id_ for id_, c in places if id_ >= n_words and c})
        extra = scores.log_probs[row, n_words:].exp()
        np.testing.assert_allclose(extra[: len(ranked)], [p[id_ - 1] for id_ in ranked], rtol=1e-9)
        assert not extra[len(ranked) :].any()


@given(st.lists(ROW, min_size=1, max_size=5), st.integers(0, 7), st.integers(-1, 5))
def test_ranks_and_best_words_are_counted(rows, k, target):
    scores = word_scores(torch.tensor(rows), 0.0)
    log_prob, counts, places, best = scores.ranked(torch.full((len(rows),), target), k)
    for row, values in enumerate(rows):
        order = sorted(range(1, 6), key=lambda place: (-values[place], place))[:k]
        assert places[row].tolist() == order
        assert best[row].tolist() == [values[place] for place in order]
        if target <= 0:
            assert counts[row].tolist() == [0, 0]
            assert math.isnan(log_prob[row]) if target < 0 else log_prob[row] == values[0]
        else:
            above = sum(value > values[target] for value in values[1:])
            assert counts[row].tolist() == [above + 1, values[1:].count(values[target])]
            assert log_prob[row] == values[target]


def carries(network, device):
    """A text in pieces is the same as the text at once; each row for itself."""
    network.to(device).eval()
    tolerance = CLOSE[device]
    ids = checked.drawn((3, 23), device=device)
    with torch.no_grad():
        whole, end = network.states(ids)
        state, parts = None, []
        for piece in (ids[:, :1], ids[:, 1:8], ids[:, 8:9], ids[:, 9:11], ids[:, 11:]):
            hidden, state = network.states(piece, state)
            parts.append(hidden)
        checked.near(torch.cat(parts, 1), whole, tolerance)
        assert len(state) == len(end)
        for one, other in zip(state, end, strict=True):
            assert one.shape[0] == 3  # rows first
            assert not one.requires_grad
            checked.near(one, other, tolerance)
        _, middle = network.states(ids[:, :11])
        alone, _ = network.states(ids[1:2, 11:], tuple(part[1:2] for part in middle))
        checked.near(alone, whole[1:2, 11:], tolerance)
        log_probs = network.following(ids)
        for start in (1, 5, 21):
            checked.near(network.following(ids, start=start), log_probs[:, start:], tolerance)
        assert log_probs.shape == (3, 22)
        for state in (middle, network.remember(ids[:, :11])[1]):
            checked.near(network.following(ids[:, 11:], state), log_probs[:, 11:], tolerance)
        # the state is worth something: without it the words after are predicted otherwise
        assert (network.states(ids[:, 11:])[0] - whole[:, 11:]).abs().max() > 100 * tolerance


def reads_the_last(network, device):
    """Contexts that are padded at the right are the same as each alone, word by word; extended ids are 0."""
    network.to(device).eval()
    lengths = [17, 1, 9, 2, 20, 5]
    ids = torch.zeros(len(lengths), 20, dtype=torch.int64)
    for row, length in enumerate(lengths):
        ids[row, :length] = checked.drawn((length,), seed=row)
    ids[0, 15], ids[4, 19] = checked.N_WORDS + 3, checked.N_WORDS
    with torch.no_grad():
        last = network.last(ids.to(device), torch.tensor(lengths, device=device))
        assert last.copies is None
        for row, length in enumerate(lengths):
            alone = torch.where(ids >= checked.N_WORDS, 0, ids)[row : row + 1, :length].to(device)
            state = None
            for at in range(length):
                hidden, state = network.states(alone[:, at : at + 1], state)
            checked.near(last.hidden[row], hidden[0, -1], CLOSE[device])


@pytest.mark.parametrize("sizes", [{}, {"order": 2, "memory": 1}, {"order": 5, "memory": 40, "chunk": 64}])
def test_a_family_reads_a_text_in_pieces_and_padded_contexts(family, sizes, device):
    network = checked.lively(family(**sizes))
    reads_the_last(network, device)
    if network.window != 1:  # else there is nothing to carry
        carries(checked.lively(family(dropout=0.5, **sizes)), device)


def test_a_family_trains_in_half_precision(family, device):
    network = family().to(device).eval()  # without dropout
    ids = checked.drawn((4, 40), device=device)
    results = []
    for half in (False, True):
        network.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=half):
            first, state = network({"ids": ids[:, :20]})
            second, _ = network({"ids": ids[:, 19:]}, state)
        assert not [part for part in state or () if part.dtype == torch.float16]  # too narrow unscaled
        (first + second).backward()
        gradient = torch.cat([p.grad.flatten() for p in network.parameters()])
        results.append((first.item(), second.item(), gradient))
    (*losses, whole), (*losses_half, half) = results
    np.testing.assert_allclose(losses_half, losses, rtol=0.02)
    assert torch.cosine_similarity(whole, half, dim=0) > 0.99


@settings(max_examples=16)
@given(st.sampled_from([*checked.FAMILIES]), st.integers(0, 9), st.integers(0, 99), st.integers(2, 12))
def test_the_future_and_other_rows_change_nothing(name, at, seed, size):
    ids, other = checked.drawn((2, 10), seed), checked.drawn((10,), seed + 100)
    network = checked.lively(checked.FAMILIES[name](order=size, memory=size, chunk=size)).eval()
    with torch.no_grad():
        before, _ = network.states(ids)
        changed = ids.clone()
        changed[0, at:] = other[at:]
        after, _ = network.states(changed)
    assert torch.equal(before[1:], after[1:])
    checked.near(after[0, :at], before[0, :at], 1e-6)
    assert torch.equal(ids[0], changed[0]) == torch.equal(before[0, at:], after[0, at:])


@settings(max_examples=20)
@given(st.sampled_from(["forward", "memory"]), st.integers(1, 8), st.integers(0, 11), st.integers(0, 99))
def test_a_family_with_a_window_sees_just_so_many_words(name, size, at, seed):
    network = checked.lively(checked.FAMILIES[name](order=size + 1, memory=size)).eval()
    ids = checked.drawn((1, 12), seed)
    changed = ids.clone()
    changed[0, at] = (ids[0, at] + 1) % checked.N_WORDS
    with torch.no_grad():
        moved = (network.states(ids)[0] - network.states(changed)[0]).abs().amax(-1)[0] > 1e-7
    assert moved.tolist() == [at <= place < at + size for place in range(12)]


def test_dropout_is_for_training_and_no_gradient_flows_into_the_batch_before(family):
    network, ids = family(dropout=0.5), checked.drawn((2, 9))
    first, second = (network.train()({"ids": ids})[0] for _ in range(2))
    assert first != second
    first, state = network.eval()({"ids": ids})
    assert first == network({"ids": ids})[0]
    for _ in range(2):  # a second time: nothing of the state was freed
        network({"ids": ids}, state)[0].backward()


@pytest.mark.parametrize(
    ("name", "sizes"), [("forward", {"order": 1}), ("memory", {"memory": 0}), ("memory", {"hops": 0})]
)
def test_sizes_that_cannot_be(name, sizes):
    refused(checked.FAMILIES[name], **sizes)


@pytest.mark.parametrize(
    ("predictor", "names", "sizes"),
    [
        (LSTM, ("LSTM 48", "LSTM"), {}),
        (ElmanRNN, ("RNN 2 x 48", "RNN"), {"layers": 2}),
        (FeedForward, ("Feed-forward 4-gram 48", None), {"order": 4}),
        (MemoryNetwork, ("Memory Network 48", "Memory Network"), {"memory": 6, "hops": 2}),
    ],
)
@pytest.mark.usefixtures("no_data")
def test_a_predictor_learns_twelve_sentences(predictor, names, sizes, device):
    lines = checked.SENTENCES.strip().splitlines()
    options = {
        "rows": 2, "length": 59, "epochs": 40, "learning_rate": 0.04, "evaluations": 0, "width": 48,
        "softmax": "full", "device": device, "precision": "float32", "compile": False,
    } | sizes  # fmt: skip
    model = predictor.fit(lines, **options)
    texts = [f"{' '.join(line.split()[:-2])} ___ ." for line in lines]
    items = items_from_text(texts, answers=[line.split()[-2] for line in lines], tokenised=True, split="dev")
    frame = model.predict(items, 2)
    assert (frame["correct"] & (frame["rank"] == 1)).all()
    total = np.concatenate(list(model.distribution(items)))
    assert total.shape == (12, checked.N_WORDS - 1)
    assert ((np.exp(total).sum(1) > 0.9) & (np.exp(total).sum(1) < 1 + 1e-5)).all()  # the rest is <unk>'s
    assert (model.name, model.systems.get("lambada")) == names


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_computes_what_a_cpu_does_and_compiled_too(family):
    network, ids, results = checked.lively(family()), checked.drawn((3, 50)), []
    for place in ("cpu", "cuda"):
        network.to(place).zero_grad()
        first, state = network({"ids": ids[:, :30].to(place)})
        second, _ = network({"ids": ids[:, 29:].to(place)}, state)
        (first + second).backward()
        gradients = torch.cat([weight.grad.flatten().cpu() for weight in network.parameters()])
        results.append(torch.cat([torch.stack([first, second]).detach().cpu(), gradients]))
    checked.near(*results, CLOSE["cuda"])
    compiled, _ = torch.compile(network)({"ids": ids[:, :30].cuda()})
    checked.near(compiled.detach(), first.detach(), CLOSE["cuda"])
