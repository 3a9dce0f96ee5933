"""What the tests of the softmax share, on a CPU and on a GPU."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from workbench.models.neural.softmax import softmax

COUNTS = [40, *(600 // i + 1 for i in range(1, 121))]  # 121 classes
WIDTH, ROWS = 16, 70


def layer_of(kind, width=WIDTH, counts=COUNTS, **options):
    """Return a layer; the adaptive one has a head of 12 words and two clusters."""
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
        np.testing.assert_allclose(
            one.detach().cpu().numpy(), other.detach().cpu().numpy(), rtol=rtol, atol=atol
        )


def gradients(loss, hidden, layer):
    """Return those of the states and of all parameters."""
    return torch.autograd.grad(loss, [hidden, *layer.parameters()])


def small_chunks(monkeypatch, rows=11):
    """Let a chunk have few rows."""
    monkeypatch.setattr("workbench.models.neural.softmax._ROWS", rows)
    monkeypatch.setattr("workbench.models.neural.softmax._LOGITS", {"cpu": 1, "cuda": 1})


def full_is_cross_entropy(device, dtype=torch.float32, **close):
    """Compare values and gradients with torch's functions."""
    torch.manual_seed(0)
    layer = softmax("full", WIDTH, COUNTS).to(device, dtype)
    hidden, target = batch(device, dtype)
    logits = functional.linear(hidden, layer.weight, layer.bias)
    expected = functional.cross_entropy(logits, target)
    expected_gradients = gradients(expected, hidden, layer)
    for loss in (layer.loss(hidden, target), -layer(hidden, target).mean()):
        assert_close(loss, expected, **close)
        assert_close(gradients(loss, hidden, layer), expected_gradients, **close)


def adaptive_is_its_formula(device, dtype=torch.float32, **close):
    """Compare all log-probabilities with Grave et al. (2017), written down plainly."""
    torch.manual_seed(0)
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
    assert_close(log_probs.exp().sum(1), torch.ones_like(log_probs[:, 0]))
    assert_close(layer(hidden, target), log_probs.gather(1, target[:, None])[:, 0], **close)
    assert_close(layer.loss(hidden, target), -layer(hidden, target).mean(), **close)


def half_is_close(device, layer, loss_of, *mixture):
    """Compare loss and gradients under autocast to bfloat16 with those in float32."""
    hidden, target = batch(device)
    expected = layer.loss(hidden, target, *mixture)
    expected_gradients = gradients(expected, hidden, layer)
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = loss_of(hidden, target, *mixture)
    assert loss.dtype == torch.float32
    assert loss != expected  # it did round
    assert_close(loss, expected, rtol=0.01, atol=0)
    for one, other in zip(gradients(loss, hidden, layer), expected_gradients, strict=True):
        assert one.dtype == torch.float32
        assert (one - other).norm() < 0.03 * other.norm()
