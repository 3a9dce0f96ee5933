"""The softmax layers on a GPU: the same comparisons as on a CPU."""

import pytest
import torch
from softmaxes import (
    COUNTS,
    WIDTH,
    adaptive_is_its_formula,
    all_ways_agree,
    assert_close,
    batch,
    full_is_cross_entropy,
    gradients,
    half_is_close,
    layer_of,
    small_chunks,
)

from workbench.models.neural.softmax import softmax

EXACT = {"rtol": 1e-10, "atol": 1e-12}
CLOSE = {"rtol": 1e-4, "atol": 1e-5}
both_kinds = pytest.mark.parametrize("kind", ["full", "adaptive"])


@pytest.fixture(params=["one chunk", "many"], autouse=True)
def pieces(request, monkeypatch):
    if request.param == "many":
        small_chunks(monkeypatch)


@pytest.mark.parametrize("compare", [full_is_cross_entropy, adaptive_is_its_formula])
def test_values_and_gradients_are_those_of_plain_torch(compare):
    compare("cuda", torch.float64, **EXACT)
    compare("cuda", **CLOSE)


@both_kinds
def test_the_gpu_computes_what_the_cpu_computes(kind):
    layer = layer_of(kind)
    hidden, target = batch()
    expected = gradients(layer.loss(hidden, target), hidden, layer)
    hidden, target = batch("cuda")
    all_ways_agree(layer.cuda(), hidden, target, **CLOSE)
    assert_close(gradients(layer.loss(hidden, target), hidden, layer), expected, **CLOSE)


@both_kinds
def test_products_in_bfloat16(kind):
    layer, rows = layer_of(kind).cuda(), len(batch()[1])
    half_is_close("cuda", layer, layer.loss)
    half_is_close("cuda", layer, layer.loss, (torch.full((rows,), -0.5).cuda(), torch.rand(rows).cuda()))


@pytest.mark.slow
def test_compiled():
    layer = softmax("full", WIDTH, COUNTS).cuda()
    half_is_close("cuda", layer, torch.compile(layer.loss, fullgraph=True))
