# ruff: noqa: RUF001, RUF003 - typographic apostrophes are meant

import json

import numpy as np
import pandas as pd
import pytest

from workbench.items import text as wt
from workbench.items.items import DataError, items_from_frame, items_from_text

pytest.importorskip("transformers")

import torch
from plain_causal import ITEMS, TOKENS, WORDS, Plain, makers, model

from workbench.models.base import Predictor
from workbench.models.pretrained.prompts import Prompt

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return makers(tmp_path_factory.mktemp)


def test_texts_are_given_as_printed_where_that_is_asked(folders):
    text = "`` I ca n't , '' she said . `` He 's gone to the fair"
    mine, plain = (
        model(folders("bytes"), text="detokenised", vocabulary=["fair", "o'clock"]),
        Plain(folders("bytes")),
    )
    items = items_from_text([text])
    assert items.frame["tokenised"].all()
    frame = mine.predict(items)
    shown = wt.readable(text).removesuffix("fair")
    assert frame["log_prob"][0] == pytest.approx(sum(plain.says(shown, "fair")[:2]), abs=1e-4)
    values = plain.words(shown, ["fair", "o’clock"])
    np.testing.assert_allclose(sorted(frame["top_log_probs"][0]), sorted(values), atol=1e-4)
    assert set(frame["top_words"][0]) == {"fair", "o'clock"}
    assert frame["model"][0] == "tiny (detokenised)"


def test_a_prompt_with_examples_and_words_between(folders):
    prompt = Prompt(
        "Q: {text} ____ ->", examples=items_from_text(sorted(TOKENS, key=len)[:3]), shots=1, seed=1
    )
    mine, plain = model(folders("bytes"), prompt=prompt, attention=True), Plain(folders("bytes"), 256)
    item = ITEMS[-1:]
    row = mine.predict(item).iloc[0]
    context = prompt.before(item[0])
    assert row["log_prob"] == pytest.approx(sum(plain.says(context, item[0].answer)[:2]), abs=1e-4)
    assert json.loads(row["prompt"])["shots"] == 1
    assert mine.config["prompt"] == json.loads(row["prompt"])
    assert 0 < sum(row["attention"]) < 1
    again = model(folders("bytes")).predict(item).iloc[0]["log_prob"]
    assert row["log_prob"] != again


@pytest.mark.parametrize("text", ["as-is", "detokenised"])
@pytest.mark.parametrize("kind", ["bytes", "llama"])
def test_attention_is_that_of_the_last_layer_by_token(folders, kind, text):
    items = items_from_text(["`` I ca n't , '' she said to the soldier", "Tea"])
    frame = model(folders(kind), attention=True, text=text).predict(items)
    first, bare = frame["attention"]
    assert len(first) == 11
    assert first[10] == 0  # the answer
    assert (np.array(first[:10]) > 0).sum() >= 9  # "can" of "can’t" counts for "n’t", where it ends
    assert (
        sum(first) == pytest.approx(1, abs=0.01) if kind == "bytes" else sum(first) < 1
    )  # the mark before it
    assert list(bare) == [0]
    transformers = pytest.importorskip("transformers")
    network = transformers.AutoModelForCausalLM.from_pretrained(folders(kind), attn_implementation="eager")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folders(kind))
    shown = items[0].text if text == "as-is" else wt.readable(items[0].text)
    ids = tokenizer(shown.removesuffix(" soldier"))["input_ids"]
    with torch.inference_mode():
        told = network(torch.tensor([ids]), output_attentions=True)
    weights = told.attentions[-1][0, :, -1].mean(0)
    last = len(tokenizer(" the", add_special_tokens=False)["input_ids"])
    assert first[9] == pytest.approx(float(weights[-last:].sum()), abs=1e-5)
    assert model(folders(kind)).predict(items)["attention"].isna().all()


def test_items_without_an_answer_are_answered(folders):
    frame = pd.DataFrame({"text": ["She took the ___", "He saw a ___"], "answer": [None, "dog"]})
    items = items_from_frame(frame)
    for options in ({}, {"vocabulary": WORDS[:30]}):
        got = model(folders("bytes"), **options).predict(items)
        assert got["log_prob"].notna().tolist() == [False, True]
        assert got["correct"].isna().tolist() == [True, False]
        assert got["greedy_correct"].isna().tolist() == [True, False]
    assert got["prediction"].notna().all()


def test_models_are_saved_and_loaded(folders, tmp_path):
    mine = model(folders("bytes"), vocabulary=WORDS, text="detokenised", name="mine", budget=30)
    mine.save(tmp_path / "saved")
    again = Predictor.load(tmp_path / "saved")
    assert again.config == mine.config
    assert again.vocabulary == mine.vocabulary
    assert mine.config["digest"] != model(folders("llama")).config["digest"]
    with pytest.raises(DataError, match="prompt"):
        model(folders("bytes"), prompt=Prompt()).save(tmp_path / "other")


def test_vocabularies_come_in_many_forms(folders, tmp_path):
    file = tmp_path / "words.txt"
    file.write_text("<s>\t9\nthe\t5\ncat\t3\ncat\t1\n", encoding="utf-8")
    for given in (
        file,
        {"<s>": 9, "the": 5, "cat": 3},
        ["the", "cat", "the"],
        type("C", (), {"words": ["the", "cat"]})(),
    ):
        assert model(folders("bytes"), vocabulary=given).vocabulary == ("the", "cat")
    for given in ("the cat", [], [3], tmp_path / "none"):
        with pytest.raises(DataError):
            model(folders("bytes"), vocabulary=given)


def test_what_is_no_model_is_refused(folders, tmp_path):
    transformers = pytest.importorskip("transformers")
    with pytest.raises(DataError, match="no causal model"):
        model(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        model(tmp_path / "none")
    network = transformers.AutoModelForCausalLM.from_pretrained(folders("bytes"))
    transformers.AutoTokenizer.from_pretrained(folders("bytes")).save_pretrained(tmp_path)
    network.config.save_pretrained(tmp_path)
    torch.save(network.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(DataError, match="safetensors"):
        model(tmp_path)
    for options in (
        {"text": "raw"},
        {"correct": "words"},
        {"correct": "some"},
        {"dtype": "int3"},
        {"filter": "x"},
    ):
        with pytest.raises(DataError):
            model(folders("bytes"), **options)
    with pytest.raises(DataError, match="ranks no vocabulary"):
        model(folders("bytes")).ranking(ITEMS)
