"""What the tests of the softmax share, on a CPU and on a GPU."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from workbench.models.neural.softmax import softmax

COUNTS = [40, *(600 // i + 1 for i in range(1, 121))]  # 121 classes
WIDTH, ROWS = 16, 70


def batch(device="cpu", dtype=torch.float32):
    """Return states and targets; frequent words are frequent."""
    made = torch.Generator().manual_seed(3)
    hidden = torch.randn(ROWS, WIDTH, generator=made, dtype=torch.float64)
    target = torch.multinomial(
        torch.tensor(COUNTS, dtype=torch.float64), ROWS, replacement=True, generator=made
    )
    return hidden.to(device, dtype).requires_grad_(), target.to(device)


def assert_close(found, wanted, *, rtol=1.3e-6, atol=1e-5):
    """Compare tensors, or as many of them; torch's own function loads much first."""
    found, wanted = ([x] if isinstance(x, torch.Tensor) else list(x) for x in (found, wanted))
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(
            one.detach().cpu().numpy(), other.detach().cpu().numpy(), rtol=rtol, atol=atol
        )


def gradients(loss, hidden, layer):
    """Return those of the states and of all parameters."""
    return torch.autograd.grad(loss, [hidden, *layer.parameters()])


def small_chunks(monkeypatch, rows=11):
    """Let a chunk have few rows."""
    monkeypatch.setattr("workbench.models.neural.networks.chunked._ROWS", rows)
    monkeypatch.setattr("workbench.models.neural.networks.chunked._CELLS", {"cpu": 1, "cuda": 1})


def full_is_cross_entropy(device, dtype=torch.float32, **close):
    """Compare values and gradients with torch's functions."""
    torch.manual_seed(0)
    layer = softmax("full", WIDTH, COUNTS).to(device, dtype)
    hidden, target = batch(device, dtype)
    logits = functional.linear(hidden, layer.weight, layer.bias)
    wanted = functional.cross_entropy(logits, target)
    expected = gradients(wanted, hidden, layer)
    for loss in (layer.loss(hidden, target), -layer(hidden, target).mean()):
        assert_close(loss, wanted, **close)
        assert_close(gradients(loss, hidden, layer), expected, **close)


def adaptive_is_torchs(device, dtype=torch.float32, **close):
    """Compare values, gradients and distributions with torch's module of the same weights."""
    torch.manual_seed(0)
    layer = softmax("adaptive", WIDTH, COUNTS, cutoffs=[12, 40]).to(device, dtype)
    other = torch.nn.AdaptiveLogSoftmaxWithLoss(WIDTH, len(COUNTS), [12, 40], head_bias=True).to(
        device, dtype
    )
    with torch.no_grad():
        layer.place = None  # words stay in the order of their numbers
        other.head.weight.copy_(layer.head)
        other.head.bias.copy_(layer.bias)
        for theirs, ours in zip(other.tail, layer.tails, strict=True):
            theirs[0].weight.copy_(ours.down.weight)
            theirs[1].weight.copy_(ours.words)
            ours.bias.zero_()
    hidden, target = batch(device, dtype)
    output, loss = other(hidden, target)
    assert_close(layer(hidden, target), output, **close)
    assert_close(layer.distribution(hidden), other.log_prob(hidden), **close)
    theirs = gradients(loss, hidden, other)
    matched = [layer.head, layer.bias, *(p for tail in layer.tails for p in (tail.down.weight, tail.words))]
    for own in (layer.loss(hidden, target), -layer(hidden, target).mean()):
        assert_close(own, loss, **close)
        assert_close(torch.autograd.grad(own, [hidden, *matched]), theirs, **close)


def all_ways_agree(layer, hidden, target, **close):
    """See that what the layer says of words is the same in all its ways, and sums to one."""
    whole = layer.distribution(hidden)
    assert_close(whole.exp().sum(1), torch.ones_like(whole[:, 0]))
    assert_close(layer(hidden, target), whole.gather(1, target[:, None])[:, 0], **close)
    assert_close(layer.loss(hidden, target), -layer(hidden, target).mean(), **close)
    some = torch.stack([target, target.flip(0), torch.zeros_like(target)], 1)
    assert_close(layer.log_prob(hidden, some), whole.gather(1, some), **close)
