"""Log-probabilities of texts, beside plain loops, kenlm, a server and minicons."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from refused import refused

import workbench as wb

pytest.importorskip("transformers")

import completion_server as servers
import tiny_models
import torch
import transformers
from tokenizers import processors

from workbench.items.text import tokenize
from workbench.models import CausalLM, MaskedLM, RandomWord, ServerModel
from workbench.probing import texts as module
from workbench.storage.progress import report_progress

torch.set_num_threads(1)

CLOSE = 1e-4
TEXTS = [
    "The keys are on the table.",
    "The keys is on the table.",
    "She left",
    "The keys are",
    "“No,” he said.",
]
CONTEXTS = ["Nobody had seen them.", "He looked. ", "The man said that", "", "Well,\n"]

pytestmark = pytest.mark.usefixtures("home")


class Plain:
    """Sum log-probabilities with one forward pass per text, by a model of `transformers`."""

    def __init__(self, folder):
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()

    @torch.inference_mode()
    def __call__(self, text, context="", *, bos=True):
        tokenizer = self.tokenizer
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        n_before = 1
        if bos:
            ids = [tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id, *ids]
        if context:
            whole = f"{context}{'' if context[-1].isspace() else ' '}{text}"
            first = [tokenizer.bos_token_id] if tokenizer.name_or_path.endswith(("llama", "marked")) else []
            before = tokenizer(context.rstrip(), add_special_tokens=False)["input_ids"]
            ids = first + tokenizer(whole, add_special_tokens=False)["input_ids"]
            n_before = len(first) + len(before)
        values = self.model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
        return sum(float(values[place - 1, ids[place]]) for place in range(n_before, len(ids)))


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    """Give folders of tiny models by their tokenizer: without BOS, with one, and with ``</s>`` at the end."""
    folder = tmp_path_factory.mktemp("tiny")
    folders = {"bytes": tiny_models.tiny_gpt2(folder / "bytes", positions=256)}
    folders["llama"] = tiny_models.tiny_llama(folder / "llama")
    marked = transformers.AutoTokenizer.from_pretrained(folders["llama"])
    marked.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    folders["marked"] = tiny_models.tiny_llama(folder / "marked")
    marked.save_pretrained(folders["marked"])
    assert marked("a")["input_ids"][-1] == 2
    return folders


def blimp(real_data):
    """Return all texts of the eight sets."""
    files = sorted((real_data / "blimp").glob("*.jsonl"))
    rows = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [row[name] for row in rows for name in ("sentence_good", "sentence_bad")]


@pytest.mark.parametrize("kind", ["bytes", "llama", "marked"])
def test_sums_are_those_of_a_plain_loop(tokenizers, kind):
    plain, model = Plain(tokenizers[kind]), CausalLM(tokenizers[kind], device="cpu")
    frame = wb.score_texts(model, TEXTS)
    expected = [plain(text) for text in TEXTS]
    np.testing.assert_allclose(frame["log_prob_uncorrected"], expected, atol=CLOSE)
    assert frame["beginning"].tolist() == ["BOS"] * 5
    assert (frame["log_prob"] < frame["log_prob_uncorrected"]).all()
    np.testing.assert_allclose(frame["bits_per_word"], -frame["log_prob"] / math.log(2) / frame["n_words"])
    assert frame["n_words"].tolist() == [6, 6, 2, 3, 3]
    sizes = [len(plain.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in TEXTS]
    assert frame["n_subtokens"].tolist() == sizes
    bare = wb.score_texts(model, TEXTS, beginning="nothing")
    expected = [plain(text, bos=False) for text in TEXTS]
    np.testing.assert_allclose(bare["log_prob_uncorrected"], expected, atol=CLOSE)
    assert bare["n_subtokens"].tolist() == [size - 1 for size in sizes]
    assert set(bare["beginning"]) == {"nothing"}


@pytest.mark.parametrize("kind", ["bytes", "llama", "marked"])
def test_texts_after_contexts_are_those_of_a_plain_loop(tokenizers, kind):
    plain, model = Plain(tokenizers[kind]), CausalLM(tokenizers[kind], device="cpu")
    frame = wb.score_texts(model, TEXTS, given=CONTEXTS)
    expected = [plain(text, context) for text, context in zip(TEXTS, CONTEXTS, strict=True)]
    np.testing.assert_allclose(frame["log_prob_uncorrected"], expected, atol=CLOSE)
    assert frame["beginning"].tolist() == ["context", "context", "context", "BOS", "context"]
    shared = wb.score_texts(model, TEXTS, given=CONTEXTS[0])
    assert shared["log_prob"][0] == pytest.approx(frame["log_prob"][0], abs=CLOSE)
    assert frame["given"].tolist() == CONTEXTS


@pytest.mark.data
@pytest.mark.parametrize("kind", ["bytes", "llama", "marked"])
def test_all_texts_of_blimp_are_those_of_a_plain_loop(tokenizers, kind, real_data):
    texts, plain = blimp(real_data), Plain(tokenizers[kind])
    frame = wb.score_texts(CausalLM(tokenizers[kind], device="cpu"), texts)
    np.testing.assert_allclose(frame["log_prob_uncorrected"], list(map(plain, texts)), atol=CLOSE)


@pytest.mark.data
def test_the_real_model_says_what_a_plain_loop_says(smollm, link_converted, home, real_data):
    link_converted(home)
    texts, model = blimp(real_data)[::64], CausalLM(smollm, device="cpu", dtype="float32")
    plain = Plain.__new__(Plain)
    plain.tokenizer, plain.model = model._checkpoint.tokenizer, model._checkpoint.model
    for beginning, bos in (("BOS", True), ("nothing", False)):
        frame = wb.score_texts(model, texts, beginning=beginning)
        expected = [plain(text, bos=bos) for text in texts]
        np.testing.assert_allclose(frame["log_prob_uncorrected"], expected, atol=CLOSE)


def test_minicons_says_the_same(smollm):
    stored = json.loads(Path(__file__).with_name("minicons.json").read_text(encoding="utf-8"))
    model = CausalLM(smollm, device="cpu", dtype="float32")
    for case, options in (
        ("nothing", {"beginning": "nothing"}),
        ("BOS", {"beginning": "BOS"}),
        ("context", {"given": stored["given"]}),
    ):
        frame = wb.score_texts(model, stored["texts"], **options)
        np.testing.assert_allclose(frame["log_prob_uncorrected"], stored[case], atol=CLOSE, err_msg=case)


def test_a_tokenizer_without_any_mark_counts_from_the_second_sub_token(tokenizers, tmp_path):
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizers["bytes"])
    folder = tmp_path / "bare"
    transformers.AutoModelForCausalLM.from_pretrained(tokenizers["bytes"]).save_pretrained(folder)
    bare = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer.backend_tokenizer)
    bare.save_pretrained(folder)
    model, plain = CausalLM(folder, device="cpu"), Plain(tokenizers["bytes"])
    frame = wb.score_texts(model, [*TEXTS, "a"])
    expected = [plain(text, bos=False) for text in TEXTS]
    np.testing.assert_allclose(frame["log_prob_uncorrected"][:5], expected, atol=CLOSE)
    assert math.isnan(frame["log_prob"][5])
    assert set(frame["beginning"]) == {"nothing"}


@torch.inference_mode()
def test_long_texts_are_read_in_strides_or_refused(tokenizers):
    text = " ".join(TEXTS * 12)
    model, plain = CausalLM(tokenizers["bytes"], device="cpu"), Plain(tokenizers["bytes"])
    frame = wb.score_texts(model, [text, TEXTS[0]], given=["", "So."])
    ids = [plain.tokenizer.bos_token_id, *plain.tokenizer(text)["input_ids"]]
    assert len(ids) > 2 * 256
    total = 0.0
    for start in [0, *range(256, len(ids), 128)]:  # of the later windows the second half is new
        stop = 256 if start == 0 else min(len(ids), start + 128)
        seen = ids[max(0, stop - 256) : stop]
        values = plain.model(torch.tensor([seen])).logits[0].double().log_softmax(-1)
        for place in range(start, min(stop, len(ids) - 1)):
            total += float(values[place - stop + len(seen), ids[place + 1]])
    assert frame["log_prob_uncorrected"][0] == pytest.approx(total, abs=1e-3)
    assert frame["stride"].tolist() == [128, 0]
    error = refused(wb.score_texts, model, [text], window="error")
    assert "expected at most 256 sub-tokens" in str(error)


def test_an_n_gram_model_says_what_kenlm_says(sample_ngram):
    kenlm = pytest.importorskip("kenlm")
    theirs, frame = kenlm.Model(str(sample_ngram.binary)), wb.score_texts(sample_ngram, TEXTS)
    for text, log_prob in zip(TEXTS, frame["log_prob"], strict=True):
        words = [word.lower() for word in tokenize(text)]
        scores = list(theirs.full_scores(" ".join(words), bos=True, eos=False))
        unknown = sum(is_unknown for *_, is_unknown in scores) * sample_ngram.unknown_share
        expected = sum(score for score, *_ in scores) * math.log(10) - unknown
        assert log_prob == pytest.approx(expected, abs=CLOSE)
    assert frame[["log_prob_uncorrected", "n_subtokens"]].isna().all(axis=None)
    given = wb.score_texts(sample_ngram, "the door", given="He opened")
    words = [
        wb.score_texts(sample_ngram, text)["log_prob"][0] for text in ("He opened the door", "He opened")
    ]
    assert given["log_prob"][0] == pytest.approx(words[0] - words[1], abs=CLOSE)
    assert given["beginning"].tolist() == ["context"]


@torch.inference_mode()
def plain_pll(folder, text, context="", *, l2r=True):
    """Mask one sub-token of a text after the other, with the rest of its word if `l2r`."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    start = len(context) + 1 if context else 0
    encoding = tokenizer(f"{context} {text}" if context else text, return_offsets_mapping=True)
    ids, words, total = torch.tensor([encoding["input_ids"]]), encoding.word_ids(), 0.0
    for place, (_, end) in enumerate(encoding["offset_mapping"]):
        if words[place] is None or end <= start:
            continue
        hidden = ids.clone()
        for other in range(place, len(words)):
            if other == place or (l2r and words[other] == words[place]):
                hidden[0, other] = tokenizer.mask_token_id
        total += float(model(hidden).logits[0, place].double().log_softmax(-1)[ids[0, place]])
    return total


def test_a_masked_model_says_what_a_plain_loop_says(folders):
    folder = folders("bert")
    frame = wb.score_texts(MaskedLM(folder, device="cpu"), TEXTS)
    np.testing.assert_allclose(frame["log_prob"], [plain_pll(folder, text) for text in TEXTS], atol=CLOSE)
    assert set(frame["measure"]) == {"PLL-word-l2r"}
    assert frame["beginning"].tolist() == ["BOS"] * 5  # [CLS]
    original = MaskedLM(folder, device="cpu", within_word="original")
    frame = wb.score_texts(original, TEXTS, given="nobody came .")
    expected = [plain_pll(folder, text, "nobody came .", l2r=False) for text in TEXTS]
    np.testing.assert_allclose(frame["log_prob"], expected, atol=CLOSE)
    assert set(frame["measure"]) == {"PLL"}


def test_a_masked_model_reads_a_long_text_in_windows(tmp_path):
    model = MaskedLM(tiny_models.tiny_bert(tmp_path / "short", positions=24), device="cpu")
    long = "the colonel came home and he opened the letter of the inspector and read it again and again ."
    frame = wb.score_texts(model, [long, "he came"])
    assert frame["stride"].tolist() == [11, 0]
    assert frame["n_subtokens"][0] > 22
    assert np.isfinite(frame["log_prob"]).all()
    refused(wb.score_texts, model, long, window="error")


def test_a_server_says_what_the_same_weights_say_here(folders, tmp_path):
    for kind, beginning in (("bytes", "nothing"), ("llama", "BOS")):
        folder = servers.taught(folders(kind), tmp_path / kind)
        here = wb.score_texts(
            CausalLM(folder, device="cpu"), TEXTS[:4], given=CONTEXTS[:4], beginning=beginning
        )
        with servers.served(servers.TinyCompletions(folder).complete) as (url, _):
            there = wb.score_texts(ServerModel(url), TEXTS[:4], given=CONTEXTS[:4])
        sums = "log_prob_uncorrected"
        np.testing.assert_allclose(there[sums], here[sums], atol=1e-4)
        assert there["log_prob"].isna().all()
        assert there[["n_subtokens", "beginning"]].equals(here[["n_subtokens", "beginning"]])


def test_a_stored_slice_is_found_again(sample_ngram, monkeypatch):
    monkeypatch.setattr(module, "_SLICE", 2)
    asked, steps = [], []
    real = type(sample_ngram).text_scores

    def failing(self, items, **options):
        asked.append(len(items))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(self, items, **options)

    monkeypatch.setattr(type(sample_ngram), "text_scores", failing)
    with pytest.raises(KeyboardInterrupt):
        wb.score_texts(sample_ngram, TEXTS)
    with report_progress(lambda n, total: steps.append((n, total))):
        frame = wb.score_texts(sample_ngram, TEXTS)
    assert asked == [2, 2, 2, 1]  # the first slice was stored
    assert steps[-1] == (5, 5)
    pd.testing.assert_frame_equal(frame, wb.score_texts(sample_ngram, TEXTS))
    assert len(asked) == 4
    cached = sample_ngram.cached(0.3)
    two = wb.score_texts([sample_ngram, cached], TEXTS)
    assert two["model"].tolist() == [sample_ngram.name] * 5 + [cached.name] * 5


def test_what_has_no_probability_of_a_text_says_so(sample_ngram):
    error = refused(wb.score_texts, RandomWord("passage"), TEXTS)
    assert "has no probability of a text" in str(error)
    refused(wb.score_texts, sample_ngram, ["a text", " "])
    refused(wb.score_texts, sample_ngram, ["a text", None])
    refused(wb.score_texts, sample_ngram, TEXTS, given=["one", "two"])
    refused(wb.score_texts, sample_ngram, TEXTS, beginning="nothing")
    refused(wb.score_texts, sample_ngram, TEXTS, window="cut")
    refused(wb.score_texts, [], TEXTS)
    refused(wb.score_texts, "no model", TEXTS)
