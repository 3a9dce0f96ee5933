"""Masked models on a GPU say what they say on a CPU."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
import tiny_models

import workbench as wb
from workbench.models.pretrained.masked import MaskedLM

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.tiny_bert(tmp_path_factory.mktemp("bert") / "tiny")


@pytest.fixture
def questions(no_data):
    assert no_data.is_dir()
    return wb.load("sample", "dev", variant="cbt").sample(4)


@pytest.mark.parametrize("over", ["sentence", "candidate"])
def test_single_precision_is_the_same(folder, questions, over):
    words = [list(one.candidates) for one in questions]
    scores = [
        MaskedLM(folder, over=over, within_word="l2r", length=128, device=device, dtype="float32").score(
            questions, words
        )
        for device in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(scores[1], scores[0], rtol=1e-3, atol=1e-2)


def test_half_precision_is_the_default_and_close(folder, questions):
    words = [list(one.candidates) for one in questions]
    half, whole = MaskedLM(folder, length=128), MaskedLM(folder, length=128, device="cpu")
    assert (half.dtype, half.device) == ("bfloat16", "cuda:0")
    found, expected = (model.score(questions, words) for model in (half, whole))
    np.testing.assert_allclose(found, expected, rtol=0.05, atol=0.5)
    assert half.config != whole.config
