"""Pretrained models on a GPU: the numbers of a plain calculation, or of the model itself, on a CPU."""

import numpy as np
import pandas as pd
import pytest
import torch
from plain_causal import TOKENS, Plain, before
from tiny_models import tiny_bert, tiny_gpt2, tiny_llama

import workbench as wb
from workbench.items.items import items_from_frame, items_from_text
from workbench.models.pretrained.causal import CausalLM, Scoring
from workbench.models.pretrained.masked import MaskedLM

WORDS = sorted({word for row in TOKENS for word in row.split()})
ITEMS = items_from_text(TOKENS)


@pytest.fixture(scope="module", params=["bytes", "llama"])
def folder(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param)
    return tiny_llama(path) if request.param == "llama" else tiny_gpt2(path)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert") / "tiny")


@pytest.fixture
def questions(no_data):
    """Give a few questions, and the candidates of each."""
    assert no_data.is_dir()
    items = wb.load("sample", "dev", variant="cbt").sample(4)
    return items, [list(item.candidates) for item in items]


@pytest.mark.parametrize("batch_tokens", [400, None])
def test_single_precision_is_that_of_a_plain_calculation(folder, batch_tokens):
    plain = Plain(folder)
    options = {"vocabulary": WORDS, "batch_tokens": batch_tokens, "scoring": Scoring(budget=None)}
    model = CausalLM(folder, dtype="float32", **options)
    assert model.device.startswith("cuda")
    frame = model.predict(ITEMS[:3], top_k=5)
    for row, item in zip(frame.itertuples(), ITEMS[:3], strict=True):
        values = plain.words(before(item), WORDS)
        answer = values[WORDS.index(item.answer)]
        assert row.log_prob == pytest.approx(answer, abs=1e-2)
        near = (np.abs(values - answer) <= 2e-2).sum()
        assert abs(row.rank - (1 + (values > answer + 1e-2).sum())) <= near
        np.testing.assert_allclose(row.top_log_probs, np.sort(values)[::-1][:5], atol=1e-2)
        assert row.greedy_correct == plain.says(before(item), item.answer)[2]


def test_half_precision_is_the_default_and_is_near(folder):
    model = CausalLM(folder)
    assert model.dtype == "bfloat16"
    exact = CausalLM(folder, device="cpu").log_prob(ITEMS)
    np.testing.assert_allclose(model.log_prob(ITEMS), exact, rtol=0.05, atol=1)
    assert model.predict(ITEMS)["prediction"].notna().any()


def test_candidates_are_scored_with_the_rest_of_the_sentence(folder):
    row = {"text": "The cat saw a ___ and fled .", "answer": "dog", "candidates": ["dog", "gate", "o'clock"]}
    items = items_from_frame(pd.DataFrame([row]), candidates="candidates")
    scores = CausalLM(folder, dtype="float32").predict(items)["candidate_scores"][0]
    plain = [Plain(folder).says("The cat saw a ", f"{word} and fled .")[0] for word in items[0].candidates]
    np.testing.assert_allclose(scores, plain, atol=1e-2)


def test_running_out_of_memory_halves_the_batch(folder):
    model = CausalLM(folder, dtype="float32", batch_tokens=10**9)
    expected = CausalLM(folder, dtype="float32").log_prob(ITEMS)
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated() + 3 * 2**20) / total)
    try:
        log_probs = model.log_prob(ITEMS)
    except wb.DataError:
        pytest.skip("one passage needs more than was left")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    np.testing.assert_allclose(log_probs, expected, atol=1e-2)


@pytest.mark.parametrize(
    ("options", "dtype", "near"),
    [
        ({"dtype": "float32", "within_word": "l2r"}, "float32", {"rtol": 1e-3, "atol": 1e-2}),
        ({"dtype": "float32", "over": "candidate"}, "float32", {"rtol": 1e-3, "atol": 1e-2}),
        ({}, "bfloat16", {"rtol": 0.05, "atol": 0.5}),
    ],
)
def test_masked_models_score_as_on_a_cpu(bert, questions, options, dtype, near):
    ours, theirs = (MaskedLM(bert, **options, **more) for more in ({}, {"device": "cpu"}))
    assert (ours.dtype, ours.device) == (dtype, "cuda:0")
    np.testing.assert_allclose(ours.score(*questions), theirs.score(*questions), **near)
