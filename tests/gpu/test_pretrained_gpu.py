"""A pretrained model on a GPU says what a plain calculation on the CPU says."""

# ruff: noqa: E402 - the tiny models are those of the unit tests

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit"))

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

from plain_causal import Plain
from tiny_models import texts, tiny_gpt2, tiny_llama

from workbench.items.items import items_from_frame, items_from_text
from workbench.models.pretrained.causal import CausalLM

TOKENS = [row for row in texts() if len(row) < 420 and " ." in row][:6]
WORDS = sorted({word for row in TOKENS for word in row.split()})
ITEMS = items_from_text(TOKENS)


@pytest.fixture(scope="module", params=["bytes", "llama"])
def folder(request, tmp_path_factory):
    place = tmp_path_factory.mktemp(request.param)
    return tiny_llama(place) if request.param == "llama" else tiny_gpt2(place, tokenizer="bytes")


def before(item):
    return item.text[: item.answer_span[0]]


@pytest.mark.parametrize("batch_tokens", [400, None])
def test_single_precision_is_that_of_a_plain_calculation(folder, batch_tokens):
    plain = Plain(folder)
    mine = CausalLM(
        folder, vocabulary=WORDS, dtype="float32", batch_tokens=batch_tokens, budget=None, progress=False
    )
    assert mine.device.startswith("cuda")
    frame = mine.predict(ITEMS[:3], top_k=5)
    for row, item in zip(frame.itertuples(), ITEMS[:3], strict=True):
        values = plain.words(before(item), WORDS)
        own = values[WORDS.index(item.answer)]
        assert row.log_prob == pytest.approx(own, abs=1e-2)
        assert abs(row.rank - (1 + (values > own + 1e-2).sum())) <= (np.abs(values - own) <= 2e-2).sum()
        np.testing.assert_allclose(row.top_log_probs, np.sort(values)[::-1][:5], atol=1e-2)
        assert row.greedy_correct == plain.says(before(item), item.answer)[2]


def test_half_precision_is_the_default_and_is_near(folder):
    mine = CausalLM(folder, progress=False)
    assert mine.dtype == "bfloat16"
    exact = CausalLM(folder, device="cpu", progress=False).log_prob(ITEMS)
    np.testing.assert_allclose(mine.log_prob(ITEMS), exact, rtol=0.05, atol=1)
    assert mine.predict(ITEMS)["prediction"].notna().any()


def test_candidates_are_scored_with_the_rest_of_the_sentence(folder):
    frame = pd.DataFrame(
        {
            "text": ["The cat saw a ___ and fled ."],
            "answer": ["dog"],
            "candidates": [["dog", "gate", "o'clock"]],
        }
    )
    items = items_from_frame(frame, candidates="candidates")
    row = CausalLM(folder, dtype="float32", progress=False).predict(items).iloc[0]
    told = [Plain(folder).says("The cat saw a ", f"{word} and fled .")[0] for word in items[0].candidates]
    np.testing.assert_allclose(row["candidate_scores"], told, atol=1e-2)


def test_running_out_of_memory_halves_the_batch(folder):
    mine = CausalLM(folder, dtype="float32", progress=False, batch_tokens=10**9)
    wanted = CausalLM(folder, dtype="float32", progress=False).log_prob(ITEMS)
    held = torch.cuda.memory_allocated()
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.empty_cache()
    torch.cuda.set_per_process_memory_fraction((held + 3 * 2**20) / total)
    try:
        got = mine.log_prob(ITEMS)
    except torch.OutOfMemoryError:
        pytest.skip("one passage needs more than was left")
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    np.testing.assert_allclose(got, wanted, atol=1e-2)
