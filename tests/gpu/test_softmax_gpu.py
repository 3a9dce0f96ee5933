"""The softmax layers on a GPU: the same comparisons as on a CPU."""

import pytest
import torch
from softmaxes import (
    COUNTS,
    WIDTH,
    adaptive_is_torchs,
    all_ways_agree,
    assert_close,
    batch,
    full_is_cross_entropy,
    gradients,
    small_chunks,
)

from workbench.models.neural.softmax import softmax

EXACT = {"rtol": 1e-10, "atol": 1e-12}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(params=["one chunk", "many"], autouse=True)
def pieces(request, monkeypatch):
    if request.param == "many":
        small_chunks(monkeypatch)
    return request.param


def test_full_is_cross_entropy():
    full_is_cross_entropy("cuda", torch.float64, **EXACT)
    full_is_cross_entropy("cuda", **CLOSE)


def test_adaptive_is_torchs_module():
    adaptive_is_torchs("cuda", torch.float64, **EXACT)
    adaptive_is_torchs("cuda", **CLOSE)


@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_all_ways_agree(kind):
    layer = softmax(kind, WIDTH, COUNTS, cutoffs=[12, 40]).cuda()
    all_ways_agree(layer, *batch("cuda"), **CLOSE)


@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_the_gpu_says_what_the_cpu_says(kind):
    layer = softmax(kind, WIDTH, COUNTS, cutoffs=[12, 40])
    hidden, target = batch()
    wanted = gradients(layer.loss(hidden, target), hidden, layer)
    hidden, target = batch("cuda")
    layer.cuda()
    assert_close(gradients(layer.loss(hidden, target), hidden, layer), wanted, **CLOSE)


@pytest.mark.parametrize("kind", ["full", "adaptive"])
def test_products_in_bfloat16(kind):
    layer = softmax(kind, WIDTH, COUNTS, cutoffs=[12, 40]).cuda()
    hidden, target = batch("cuda")
    share, other = torch.full((len(target),), -0.5).cuda(), torch.rand(len(target)).cuda()
    for mixture in (None, (share, other)):
        wanted = layer.loss(hidden, target, mixture)
        expected = gradients(wanted, hidden, layer)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = layer.loss(hidden, target, mixture)
        assert loss.dtype == torch.float32
        assert_close(loss, wanted, rtol=0.01, atol=0)
        for one, its in zip(gradients(loss, hidden, layer), expected, strict=True):
            assert one.dtype == torch.float32
            assert (one - its).norm() < 0.03 * its.norm()


@pytest.mark.slow
def test_compiled():
    layer = softmax("full", WIDTH, COUNTS).cuda()
    hidden, target = batch("cuda")
    compiled = torch.compile(layer.loss, fullgraph=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        wanted, found = layer.loss(hidden, target), compiled(hidden, target)
    assert_close(found, wanted, rtol=0.01, atol=0)
    pairs = zip(gradients(found, hidden, layer), gradients(wanted, hidden, layer), strict=True)
    assert all((one - other).norm() < 0.03 * other.norm() for one, other in pairs)
