import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from refused import refused
from tokenizers import Tokenizer
from tokenizers.processors import RobertaProcessing

import workbench as wb
from workbench.items.items import Item, Items
from workbench.models.base import Predictor
from workbench.models.pretrained.masked import MaskedLM

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_models.tiny_bert(tmp_path_factory.mktemp("bert") / "tiny", positions=96)


@pytest.fixture(scope="module")
def roberta(tmp_path_factory):
    """Make a RoBERTa: byte pairs, spaces within sub-tokens, positions that begin after the padding's."""
    path = tmp_path_factory.mktemp("roberta") / "tiny"
    pairs = Tokenizer.from_str(tiny_models.byte_pairs(500).to_str())
    pairs.add_special_tokens(["<s>", "</s>", "<pad>", "<mask>"])
    ends = [(name, pairs.token_to_id(name)) for name in ("</s>", "<s>")]
    pairs.post_processor = RobertaProcessing(*ends, trim_offsets=True, add_prefix_space=False)
    marks = {"bos": "<s>", "cls": "<s>", "eos": "</s>", "sep": "</s>", "pad": "<pad>", "mask": "<mask>"}
    marks = {f"{name}_token": mark for name, mark in marks.items()}
    words = transformers.PreTrainedTokenizerFast(tokenizer_object=pairs, **marks)
    words.save_pretrained(path)
    config = transformers.RobertaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=1,
        num_attention_heads=4, max_position_embeddings=len(words) + 80, pad_token_id=words.pad_token_id,
    )  # fmt: skip
    return tiny_models.written(transformers.RobertaForMaskedLM, config, path)


def item(text, blank, candidates, *, begin=0, name="i", tokenised=True):
    start = text.index(blank, begin)
    return Item(
        item_id=name, dataset="own", split="dev", variant="plain", text=text, answer=blank,
        answer_span=(start, start + len(blank)),
        sentences=((0, begin), (begin, len(text))) if begin else ((0, len(text)),),
        candidates=tuple(candidates), tokenised=tokenised,
    )  # fmt: skip


STORY = "the colonel came home . he opened the inspector 's letter , and read it ."
ITEMS = Items.from_records(
    [
        item(STORY, "letter", ["letter", "extraordinary", "hat", "Letter"], begin=24, name="a"),
        item("Bruno fed the goats.", "Bruno", ["Bruno", "Annika"], tokenised=False, name="b"),
        item("they never saw the colonel", "colonel", ["sea", "colonel", "well-known"], name="c"),
    ]
)


@cache
def loaded(folder):
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    return transformers.AutoTokenizer.from_pretrained(folder), model


def plainly(folder, item, word, *, over="sentence", l2r=False, text=None):
    """Calculate a pseudo-log-likelihood with one text at a time, one mask at a time, and the whole head."""
    words, model = loaded(folder)
    start, end = item.answer_span
    whole = text or item.text[:start] + word + item.text[end:]
    encoding = words(
        whole, return_offsets_mapping=True, return_special_tokens_mask=True, split_special_tokens=True
    )
    assert words.mask_token_id not in encoding["input_ids"]
    ids, groups = torch.tensor([encoding["input_ids"]]), np.array(encoding.word_ids(0), dtype=float)
    first, last = (item.sentences[-1][0], len(whole)) if over == "sentence" else (start, start + len(word))
    total = 0.0
    for place, (left, right) in enumerate(encoding["offset_mapping"]):
        if encoding["special_tokens_mask"][place] or right <= first or left >= last:
            continue
        hidden = ids.clone()
        hidden[0, place] = words.mask_token_id
        if l2r:  # the rest of the word too
            hidden[0, place:][groups[place:] == groups[place]] = words.mask_token_id
        with torch.no_grad():
            total += float(model(hidden).logits[0, place].log_softmax(0)[ids[0, place]])
    return total


@pytest.mark.parametrize("over", ["sentence", "candidate"])
@pytest.mark.parametrize("within_word", ["original", "l2r"])
@pytest.mark.parametrize("kind", ["folder", "roberta"])
def test_scores_are_those_of_a_plain_loop(kind, over, within_word, request):
    folder = request.getfixturevalue(kind)
    tokens = {"sentence": 60, "candidate": 1}[over] if within_word == "l2r" else 9999
    model = MaskedLM(folder, over=over, within_word=within_word, batch_tokens=tokens, device="cpu")
    words = [list(one.candidates) for one in ITEMS]
    scores = model.score(ITEMS, words)
    assert scores.shape == (3, 4)
    for row, one in enumerate(ITEMS):
        expected = [plainly(folder, one, word, over=over, l2r=within_word == "l2r") for word in words[row]]
        np.testing.assert_allclose(scores[row, : len(expected)], expected, rtol=2e-5, atol=2e-5)
        assert np.isnan(scores[row, len(expected) :]).all()
    if kind == "roberta":  # positions begin after the padding's
        tokenizer = model._checkpoint.tokenizer
        assert model.length == 80 + len(tokenizer) - (tokenizer.pad_token_id + 1)
    refused(model.score, ITEMS[:1], [["letter", " "]])
    assert model.score(ITEMS[:1], [[]]).shape == (1, 0)


def test_only_what_is_masked_goes_through_the_head(folder):
    model, positions = MaskedLM(folder, device="cpu"), []
    head = model._checkpoint.model.get_output_embeddings()
    head.register_forward_hook(lambda _m, states, _o: positions.append(states[0].shape[:-1].numel()))
    model.score(ITEMS[2:], [["colonel"]])
    assert sum(positions) == len(model._checkpoint.tokenizer.tokenize(ITEMS[2].text))


def test_the_table_and_the_saved_model(folder, tmp_path):
    frame = MaskedLM(folder, device="cpu").predict(ITEMS)
    assert set(frame["score_type"]) == {"score"}
    assert frame[["log_prob", "vocabulary_size"]].isna().all(axis=None)
    assert frame["model"].unique().tolist() == ["tiny (PLL)"]
    bare = Item("x", "own", "dev", "plain", "he went home", "home", (8, 12), ((0, 12),))
    refused(MaskedLM(folder, device="cpu").predict, Items.from_records([bare]))
    model = MaskedLM(folder, over="candidate", within_word="l2r", text="detokenised", device="cpu")
    assert model.name == "tiny (PLL-word-l2r of the candidate)"
    assert str(folder) not in json.dumps(model.config)
    assert (model.device, model.dtype, model.length) == ("cpu", "float32", 96)
    model.save(tmp_path / "saved")
    (Path(folder) / "added.json").write_text("{}", "utf-8")
    refused(Predictor.load, tmp_path / "saved")
    (Path(folder) / "added.json").unlink()


def test_a_long_text_loses_its_beginning_for_all_candidates(tmp_path):
    folder = tiny_models.tiny_bert(tmp_path / "bert", positions=60)
    before, candidates = "the . " * 100, ["letter", "extraordinary hat"]
    long = item(before + STORY, "letter", candidates, begin=len(before) + 24)
    model = MaskedLM(folder, device="cpu")
    room = 58 - len(loaded(folder)[0].tokenize(STORY.replace("letter", candidates[1])))
    left = " ".join((["the", "."] * 100)[-room:]) + " "
    short = item(left + STORY, "letter", candidates, begin=len(left) + 24)
    scores, expected = (model.score(Items.from_records([one]), [candidates]) for one in (long, short))
    np.testing.assert_allclose(scores, expected, rtol=1e-6)

    words = ["read", "extraordinary thing"]  # of a sentence that is too long, too
    long = item(f"{'the . ' * 40}and read it", "read", words)
    room = 58 - len(loaded(folder)[0].tokenize("and extraordinary thing it"))
    left = " ".join((["the", "."] * 40)[-room:])
    [scores] = model.score(Items.from_records([long]), [words])
    expected = [plainly(folder, long, word, text=f"{left} and {word} it") for word in words]
    np.testing.assert_allclose(scores, expected, rtol=2e-5)
    right = item(f"he {'came home , ' * 30}", "he", ["he", "she"])
    with pytest.raises(wb.DataError):
        model.score(Items.from_records([right]), [["he"]])


def test_detokenised_texts(folder):
    cut = item("`` i have it , '' said ada . `` do n't lose the letter ! ''", "letter", ["letter"], begin=29)
    text = "“i have it,” said ada. “don’t lose the key!”"  # noqa: RUF001 - typographic quotes
    shown = item(text, "key", ["key"], begin=23, tokenised=False)
    model = MaskedLM(folder, text="detokenised", device="cpu")
    scores = [model.score(Items.from_records([one]), [["key"]]) for one in (cut, shown)]
    np.testing.assert_array_equal(*scores)
    as_is = MaskedLM(folder, device="cpu")
    np.testing.assert_array_equal(*(one.score(ITEMS[1:2], [["Bruno"]]) for one in (model, as_is)))


@pytest.mark.parametrize("text", ["[SEP] {} é", "a [MASK][SEP]b <>"])
def test_marks_in_a_text_are_text(folder, text):
    hostile = item(f"{text} the letter .", "letter", ["letter", "[MASK]"])
    expected = [plainly(folder, hostile, word) for word in hostile.candidates]
    scores = MaskedLM(folder, device="cpu").score(Items.from_records([hostile]), [hostile.candidates])
    np.testing.assert_allclose(scores[0], expected, rtol=2e-5)


def test_errors_say_what_to_do(folder, tmp_path, monkeypatch):
    causal = tiny_models.tiny_gpt2(tmp_path / "gpt2")
    for path, options in (
        (folder, {"over": "word"}),
        (tmp_path / "nothing", {}),
        (causal, {}),
        (folder, {"dtype": "float7"}),
        (folder, {"precision": "float32"}),
    ):
        refused(MaskedLM, path, **options)
    asked = []

    def read(*_args, **options):
        asked.append(options["trust_remote_code"])
        raise OSError("seen")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", read)
    for options in ({}, {"trust_remote_code": True}):  # code of others stays off
        refused(MaskedLM, folder, **options)
    assert asked == [False, True]
    monkeypatch.setitem(sys.modules, "transformers", None)
    refused(MaskedLM, folder)
