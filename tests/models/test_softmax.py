"""The softmax layers against plain torch, finite differences and the papers' formulas."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused
from torch import nn
from torch.nn import functional

from workbench.models.neural.softmax import FullSoftmax, softmax

torch.set_num_threads(1)
EXACT = {"rtol": 1e-10, "atol": 1e-12}
CLOSE = {"cpu": {}, "cuda": {"rtol": 1e-4}}
COUNTS = [40, *(600 // i + 1 for i in range(1, 121))]  # 121 classes
WIDTH, ROWS = 16, 70
both_kinds = pytest.mark.parametrize("kind", ["full", "adaptive"])


def layer_of(kind, width=WIDTH, counts=COUNTS, **options):
    """Return a layer; the adaptive one has a head of 12 words and two clusters."""
    torch.manual_seed(0)
    return softmax(kind, width, counts, **{"cutoffs": [12, 40], **options})


def batch(device="cpu", dtype=torch.float32):
    """Return states and targets; frequent words are frequent."""
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(ROWS, WIDTH, generator=generator, dtype=torch.float64)
    shares = torch.tensor(COUNTS, dtype=torch.float64)
    target = torch.multinomial(shares, ROWS, replacement=True, generator=generator)
    return hidden.to(device, dtype).requires_grad_(), target.to(device)


def assert_close(results, expected, *, rtol=1.3e-6, atol=1e-5):
    """Compare tensors, or as many of them; torch's own function loads much first."""
    results, expected = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (results, expected))
    for one, other in zip(results, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(*(x.detach().cpu().numpy() for x in (one, other)), rtol=rtol, atol=atol)


def gradients(loss, hidden, layer):
    return torch.autograd.grad(loss, [hidden, *layer.parameters()])


def small_chunks(monkeypatch, rows=11):
    monkeypatch.setattr("workbench.models.neural.softmax._ROWS", rows)
    monkeypatch.setattr("workbench.models.neural.softmax._LOGITS", {"cpu": 1, "cuda": 1})


def full_is_cross_entropy(device, dtype=torch.float32, **close):
    """Compare values and gradients with torch's functions."""
    layer = layer_of("full").to(device, dtype)
    hidden, target = batch(device, dtype)
    logits = functional.linear(hidden, layer.weight, layer.bias)
    expected = functional.cross_entropy(logits, target)
    expected_gradients = gradients(expected, hidden, layer)
    for loss in (layer.loss(hidden, target), -layer(hidden, target).mean()):
        assert_close(loss, expected, **close)
        assert_close(gradients(loss, hidden, layer), expected_gradients, **close)


def adaptive_is_its_formula(device, dtype=torch.float32, **close):
    """Compare all log-probabilities with Grave et al. (2017), written down plainly."""
    layer = layer_of("adaptive").to(device, dtype)
    hidden, target = batch(device, dtype)
    head, tails = layer.layer.head, layer.layer.tail
    first = (hidden @ head.weight.t() + head.bias).log_softmax(1)
    parts = [first[:, :12]]
    for column, (down, words) in enumerate(tails, start=12):
        inside = (hidden @ down.weight.t() @ words.weight.t() + words.bias).log_softmax(1)
        parts.append(first[:, column, None] + inside)
    by_count = torch.tensor([0, *sorted(range(1, len(COUNTS)), key=lambda word: -COUNTS[word])])
    log_probs = torch.cat(parts, 1)[:, by_count.argsort()]
    assert_close(layer.distribution(hidden), log_probs, **close)
    expected = -log_probs.gather(1, target[:, None]).mean()
    loss = layer.loss(hidden, target)
    assert_close(loss, expected, **close)
    assert_close(gradients(loss, hidden, layer), gradients(expected, hidden, layer), **close)


def all_ways_agree(layer, hidden, target, **close):
    """See that what the layer says of words is the same in all its ways, and sums to one."""
    log_probs = layer.distribution(hidden)
    assert_close(log_probs.exp().sum(1), torch.ones(len(hidden)))
    assert_close(layer(hidden, target), log_probs.gather(1, target[:, None])[:, 0], **close)
    assert_close(layer.loss(hidden, target), -layer(hidden, target).mean(), **close)


@pytest.fixture(params=["one chunk", "many"])
def pieces(request, monkeypatch):
    """Give a batch in one chunk, then in several of unequal size."""
    if request.param == "many":
        small_chunks(monkeypatch)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("compare", [full_is_cross_entropy, adaptive_is_its_formula])
def test_values_and_gradients_are_those_of_plain_torch(compare, device):
    compare(device, **CLOSE[device])
    compare(device, torch.float64, **EXACT)


@pytest.mark.usefixtures("pieces")
@both_kinds
def test_a_mixture_is_what_its_formula_says(kind):
    layer = layer_of(kind)
    hidden, target = batch()
    share = torch.linspace(-4, -0.1, ROWS).requires_grad_()
    other = torch.rand(ROWS)
    other[:5] = 0  # nothing to be copied
    p = share.exp() * layer.distribution(hidden).exp().gather(1, target[:, None])[:, 0] + other
    expected, loss = -p.log().mean(), layer.loss(hidden, target, (share, other))
    assert_close(loss, expected)
    inputs = [hidden, share, *layer.parameters()]
    assert_close(torch.autograd.grad(loss, inputs), torch.autograd.grad(expected, inputs))


def test_improbable_words_have_a_finite_loss_and_gradient(monkeypatch):
    small_chunks(monkeypatch)
    layer = layer_of("full")
    hidden, target = batch()
    improbable = layer.loss(1e4 * hidden, target)
    assert 1000 < improbable < torch.inf
    assert torch.isfinite(torch.autograd.grad(improbable, hidden)[0]).all()


@both_kinds
@pytest.mark.parametrize("inner", [WIDTH, 6])
def test_tied_weights(kind, inner):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(len(COUNTS), inner)
            self.output = layer_of(kind, embedding=self.embedding, cutoffs=[12])

    network = Tied()
    hidden, target = batch()
    all_ways_agree(network.output, hidden, target)
    if kind == "full":  # a gradient like that of a plain softmax with the same weights
        states = hidden if inner == WIDTH else hidden @ network.output.project.weight.t()
        weight = network.embedding.weight
        loss = functional.cross_entropy(functional.linear(states, weight, network.output.bias), target)
        same = network.output.loss(hidden, target)
        assert_close(torch.autograd.grad(same, weight), torch.autograd.grad(loss, weight))
    state = network.state_dict()  # the weights are there once, and a copy is tied to its own embedding
    assert len({value.data_ptr() for value in state.values()}) == len(state)
    other = copy.deepcopy(network)
    before = network.output.distribution(hidden)
    with torch.no_grad():
        other.embedding.weight.zero_()
    assert torch.equal(network.output.distribution(hidden), before)
    assert not torch.allclose(other.output.distribution(hidden), before, atol=0.1)
    again = Tied()
    again.load_state_dict(state)
    assert torch.equal(again.output.distribution(hidden), before)


@pytest.mark.usefixtures("pieces")
@both_kinds
def test_products_in_bfloat16(kind, device):
    layer = layer_of(kind).to(device)
    hidden, target = batch(device)
    expected = layer.loss(hidden, target)
    expected_gradients = gradients(expected, hidden, layer)
    for states in (hidden, hidden.bfloat16()):
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = layer.loss(states, target)
        assert loss.dtype == torch.float32
        assert loss != expected  # it did round
        assert_close(loss, expected, rtol=0.01, atol=0)
        for one, other in zip(gradients(loss, hidden, layer), expected_gradients, strict=True):
            assert one.dtype == torch.float32
            assert (one - other).norm() < 0.03 * other.norm()


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_words_keep_their_numbers_whatever_their_counts(data):
    counts = data.draw(st.lists(st.integers(0, 50), min_size=2, max_size=30))
    cutoffs = sorted(data.draw(st.sets(st.integers(1, len(counts) - 1), min_size=1, max_size=2)))
    layer = softmax("adaptive", WIDTH, counts, cutoffs=cutoffs)
    target = torch.tensor(data.draw(st.lists(st.integers(0, len(counts) - 1), min_size=6, max_size=6)))
    all_ways_agree(layer, torch.randn(6, WIDTH), target, rtol=1e-4, atol=1e-5)
    p = layer.distribution(torch.zeros(1, WIDTH))[0].exp()
    assert_close(p, (torch.tensor(counts) + 1.0) / (sum(counts) + len(counts)), rtol=0, atol=0.2)


def test_clusters_that_no_target_is_in_have_gradients_of_zero():
    layer = layer_of("adaptive")
    layer.loss(batch()[0], torch.zeros(ROWS, dtype=torch.int64)).backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any() != (".tail." in name), name


def test_few_words_and_narrow_states_have_the_full_softmax():
    zipf = (1e7 / np.arange(1, 60_002)).astype(int)
    assert softmax("adaptive", 32, zipf).layer.cutoffs == [1875, 20_000, 60_001]
    assert isinstance(softmax("adaptive", 32, zipf[:500]), FullSoftmax)
    assert isinstance(softmax("adaptive", 8, zipf), FullSoftmax)
    refused(softmax, "hierarchical", WIDTH, COUNTS)
