import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from softmaxes import (
    COUNTS,
    ROWS,
    WIDTH,
    adaptive_is_torchs,
    all_ways_agree,
    assert_close,
    batch,
    full_is_cross_entropy,
    gradients,
    small_chunks,
)
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from workbench.models.neural.networks import chunked, frequent
from workbench.models.neural.softmax import softmax

EXACT = {"rtol": 1e-10, "atol": 1e-12}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture(params=["one chunk", "many"])
def pieces(request, monkeypatch):
    """Give a batch in one chunk, then in several of unequal size."""
    if request.param == "many":
        small_chunks(monkeypatch)
    return request.param


@pytest.mark.usefixtures("pieces")
def test_full_is_cross_entropy():
    full_is_cross_entropy("cpu")
    full_is_cross_entropy("cpu", torch.float64, **EXACT)


@pytest.mark.usefixtures("pieces")
def test_adaptive_is_torchs_module():
    adaptive_is_torchs("cpu")
    adaptive_is_torchs("cpu", torch.float64, **EXACT)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_gradients_against_finite_differences(kind):
    layer = softmax(kind, 4, COUNTS[:15], cutoffs=[4, 9]).double()
    hidden = torch.randn(25, 4, dtype=torch.float64, requires_grad=True)
    target = torch.arange(25) % 15
    mixture = torch.linspace(-2, -0.1, 25).double().requires_grad_(), torch.rand(25).double().requires_grad_()
    inputs = hidden, *layer.parameters()
    weights = torch.randn(25, dtype=torch.float64)  # not the same for all rows
    _against_differences(lambda: layer.loss(hidden, target) ** 2, inputs)
    _against_differences(lambda: weights @ layer(hidden, target), inputs)
    _against_differences(lambda: layer.loss(hidden, target, mixture).sin(), (*inputs, *mixture))


def _against_differences(value, inputs):
    for x, gradient in zip(inputs, torch.autograd.grad(value(), inputs), strict=True):
        way = torch.randn_like(x)
        with torch.no_grad():
            x.add_(way, alpha=1e-6)
            high = value()
            x.sub_(way, alpha=2e-6)
            low = value()
            x.add_(way, alpha=1e-6)
        assert ((high - low) / 2e-6).item() == pytest.approx(
            (gradient * way).sum().item(), rel=1e-5, abs=1e-8
        )


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_a_mixture_is_what_its_formula_says(kind):
    layer = softmax(kind, WIDTH, COUNTS, cutoffs=[12, 40])
    hidden, target = batch()
    share = torch.linspace(-4, -0.1, ROWS).requires_grad_()
    other = torch.rand(ROWS)
    other[:5] = 0  # nothing to be copied
    other.requires_grad_()
    p = share.exp() * layer.distribution(hidden).exp().gather(1, target[:, None])[:, 0] + other
    wanted, found = -p.log().mean(), layer.loss(hidden, target, (share, other))
    assert_close(found, wanted)
    inputs = [hidden, share, *layer.parameters()]
    assert_close(torch.autograd.grad(found, inputs), torch.autograd.grad(wanted, inputs))
    found, wanted = (
        torch.autograd.grad(x, other)[0][5:]
        for x in (
            layer.loss(hidden, target, (share, other)),
            -(share.exp() * layer(hidden, target).exp() + other).log().mean(),
        )
    )
    assert_close(found, wanted)


class Largest(TorchFunctionMode):
    """Notes how many numbers the largest result of an operation has."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        if isinstance(found, torch.Tensor):
            self.numbers = max(self.numbers, found.numel())
        return found


def test_logits_of_all_rows_are_never_there_at_once(monkeypatch):
    small_chunks(monkeypatch)
    layer = softmax("full", WIDTH, COUNTS)
    hidden, target = batch()
    most = 10 * len(COUNTS)  # 70 rows in seven chunks
    for way in (
        layer.loss,
        lambda *given: layer(*given).sum(),
        lambda h, t: layer.log_prob(h, t[:, None]).sum(),
    ):
        with Largest() as seen:
            way(hidden, target)
        assert most <= seen.numbers < 2 * most
    with Largest() as seen:
        layer(hidden, target).sum().backward()
    assert most <= seen.numbers < max(2 * most, layer.weight.numel() + 1)


def test_no_gradients_are_computed_where_none_are_asked_for():
    layer = softmax("full", WIDTH, COUNTS)
    hidden, target = batch()
    wanted = layer.loss(hidden, target)
    with torch.no_grad():
        found = layer.loss(hidden, target)
        assert not layer(hidden, target).requires_grad
    assert not found.requires_grad
    assert torch.equal(found, wanted)


@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_words_that_are_all_but_impossible(kind, pieces):
    del pieces
    layer = softmax(kind, 2, [5, 4, 3, 2, 1, 1], cutoffs=[3])
    with torch.no_grad():
        layer.bias.zero_()
        weight = layer.words if kind == "full" else layer.head
        weight.copy_(torch.tensor([[0.0, 0], [1, 0], [0, 1], *([[0.0, 0.0]] * (len(weight) - 3))]))
    hidden = torch.tensor([[200.0, 0.0], [0.0, 1000.0], [90.0, 90.0]], requires_grad=True)
    target = torch.tensor([0, 1, 2])
    found = layer(hidden, target)
    assert found.tolist() == pytest.approx([-200.0, -1000.0, -np.log(2)])
    assert layer.loss(hidden, target).item() == pytest.approx((1200 + np.log(2)) / 3)
    assert torch.isfinite(torch.autograd.grad(found.sum(), hidden)[0]).all()


@pytest.mark.parametrize("kind", ["full", "adaptive"])
@pytest.mark.parametrize("inner", [WIDTH, 6])
def test_tied_weights(kind, inner):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(len(COUNTS), inner)
            self.output = softmax(kind, WIDTH, COUNTS, embedding=self.embedding, cutoffs=[12, 40])

    network = Tied()
    hidden, target = batch()
    size = len(COUNTS) if kind == "full" else 12
    frequent_ = torch.as_tensor(frequent.order(COUNTS))[:size] if kind == "adaptive" else slice(None)
    assert torch.equal(network.output.weight[:size], network.embedding.weight[frequent_])
    # a gradient like that of a plain softmax with the same weights
    states = hidden if inner == WIDTH else hidden @ network.output.project.weight.t()
    logits = functional.linear(states, network.output.weight, network.output.bias)
    head = target if kind == "full" else torch.zeros_like(target)  # 0 is in the head
    expected = torch.autograd.grad(functional.cross_entropy(logits, head), network.embedding.weight)[0]
    found = torch.autograd.grad(network.output.loss(hidden, head), network.embedding.weight)[0]
    assert_close(found, expected)
    # the weights are kept once, and a copy is tied to its own embedding
    kept = network.state_dict()
    assert len({value.data_ptr() for value in kept.values()}) == len(kept)
    other = copy.deepcopy(network)
    with torch.no_grad():
        other.embedding.weight.zero_()
    assert not other.output.weight[:size].any()
    assert network.output.weight[:size].any()
    all_ways_agree(network.output, hidden, target)
    again = Tied()
    again.load_state_dict(kept)
    assert torch.equal(again.output(hidden, target), network.output(hidden, target))


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_products_in_bfloat16(kind):
    layer = softmax(kind, WIDTH, COUNTS, cutoffs=[12, 40])
    hidden, target = batch()
    wanted = layer.loss(hidden, target)
    expected = gradients(wanted, hidden, layer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = layer.loss(hidden, target), -layer(hidden, target).mean()
    for loss in losses:
        assert loss.dtype == torch.float32
        assert loss != wanted  # it did round
        assert_close(loss, wanted, rtol=0.01, atol=0)
        found = gradients(loss, hidden, layer)
        assert {x.dtype for x in found} == {torch.float32}
        for one, other in zip(found, expected, strict=True):
            assert (one - other).norm() < 0.03 * other.norm()


def test_training_begins_from_word_frequency():
    for kind in ("full", "adaptive"):
        layer = softmax(kind, WIDTH, COUNTS, cutoffs=[12, 40])
        said = layer.distribution(torch.zeros(1, WIDTH))[0].exp()
        shares = torch.tensor(COUNTS) / sum(COUNTS)
        assert (said - shares).abs().max() < 0.04 * shares.max()


@given(data=st.data())
@settings(max_examples=25, deadline=None)
def test_any_counts_and_cutoffs(data):
    counts = data.draw(st.lists(st.integers(0, 50), min_size=2, max_size=30))
    cutoffs = sorted(data.draw(st.sets(st.integers(1, len(counts) - 1), max_size=4)))
    layer = softmax("adaptive", 5, counts, cutoffs=cutoffs)
    hidden = torch.randn(6, 5)
    target = torch.tensor(data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=6, max_size=6)))
    all_ways_agree(layer, hidden, target, rtol=1e-4, atol=1e-5)
    by_count = frequent.order(counts)
    assert by_count[0] == 0  # <unk> is in the head
    assert sorted(by_count) == list(range(len(counts)))
    assert all(counts[a] >= counts[b] for a, b in pairwise(by_count[1:]))


def test_one_cluster_is_the_full_softmax():
    counts = list(range(30, 0, -1))
    full, adaptive = softmax("full", WIDTH, counts), softmax("adaptive", WIDTH, counts, cutoffs=[])
    with torch.no_grad():
        adaptive.head.copy_(full.words)
    hidden, target = batch()
    target %= 30
    assert torch.equal(adaptive.bias, full.bias)
    assert torch.equal(adaptive.distribution(hidden), full.distribution(hidden))
    assert torch.equal(adaptive.loss(hidden, target), full.loss(hidden, target))


def test_clusters_that_no_target_is_in_have_gradients_of_zero():
    layer = softmax("adaptive", WIDTH, COUNTS, cutoffs=[12, 40])
    hidden, _ = batch()
    layer.loss(hidden, torch.zeros(ROWS, dtype=torch.int64)).backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any() != name.startswith("tails"), name


def test_words_keep_their_numbers_whatever_their_counts():
    counts = [1, 5, 80, 2, 300, 7, 9]
    layer = softmax("adaptive", WIDTH, counts, cutoffs=[2, 4])
    assert frequent.order(counts).tolist() == [0, 4, 2, 6, 5, 1, 3]
    with torch.no_grad():
        layer.bias.copy_(torch.tensor([0.0, 20, 0, 0]))  # the second of the head: word 4
    assert layer.distribution(torch.zeros(1, WIDTH)).argmax() == 4


def test_cuts_cost_least(monkeypatch):
    monkeypatch.setattr(frequent, "_PART", 1 << 12)
    counts = np.array([30, *(2000 / np.arange(1, 40)).astype(int)])
    p = np.concatenate([[0], np.cumsum(counts) / counts.sum()])

    def cost(cutoffs):
        bounds = [0, *cutoffs, len(counts)]
        found = 0.0
        for number, (start, stop) in enumerate(pairwise(bounds)):
            words = stop - start if number else stop + len(cutoffs)
            rows = 2048 * (p[stop] - p[start] if number else 1)
            found += words * (64 * (rows + 64) + 32 * rows) + (4096 if number else 0)
        return found

    n = len(counts)
    every = [[], *([a] for a in range(1, n)), *([a, b] for a in range(1, n) for b in range(a + 1, n))]
    found = frequent.cuts(counts, 64)
    assert len(found) == 2
    assert cost(found) == pytest.approx(min(map(cost, every)))


def test_cuts_of_sixty_thousand_words_and_of_a_few():
    zipf = (1e7 / np.arange(1, 60_002)).astype(int).tolist()
    found = frequent.cuts(zipf, 512)
    assert len(found) == 2
    assert 500 < found[0] < 10_000 < found[1] < 40_000
    assert frequent.cuts(COUNTS, 64) == frequent.cuts([3], 64) == frequent.cuts([0, 0], 64) == []
    assert softmax("adaptive", WIDTH, COUNTS).cutoffs == [len(COUNTS)]


def test_chunks_cover_all_rows():
    for n in (0, 1, 511, 512, 513, 5000):
        parts = chunked.chunks(n, 60_001, torch.device("cpu"))
        assert [i for part in parts for i in range(part.start, part.stop)] == list(range(n))


@pytest.mark.parametrize("cutoffs", [[0, 5], [5, 5], [9, 4], [7, len(COUNTS)], [-1]])
def test_cutoffs_that_leave_a_part_empty(cutoffs):
    with pytest.raises(ValueError, match="have to rise"):
        softmax("adaptive", WIDTH, COUNTS, cutoffs=cutoffs)


def test_another_kind():
    with pytest.raises(ValueError, match="'full' and 'adaptive'"):
        softmax("hierarchical", WIDTH, COUNTS)
