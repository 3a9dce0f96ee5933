"""Saved models of other people, and damaged ones: no code of theirs runs, and no number changes unnoticed."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import saved_models
from refused import refused

from workbench.models import Reversed, WordDistance, registry
from workbench.models.base import FILE, Predictor
from workbench.storage.checksums import write_checksums
from workbench.storage.errors import DataError

pytestmark = pytest.mark.usefixtures("home")

EVIL = """
from pathlib import Path
Path({marker!r}).touch()
from transformers import PretrainedConfig
class EvilConfig(PretrainedConfig):
    model_type = "evil"
"""


def with_code(folder, marker):
    """Write a pretrained model that needs code of its own, which leaves a file where it runs."""
    folder.mkdir()
    (folder / "evil.py").write_text(EVIL.format(marker=str(marker)), encoding="utf-8")
    config = {"model_type": "evil", "auto_map": {"AutoConfig": "evil.EvilConfig"}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def write_model(folder, model, config, **source):
    folder.mkdir(parents=True)
    (folder / FILE).write_text(json.dumps({"model": model, "config": config}), encoding="utf-8")
    if source:
        (folder / "source.json").write_text(json.dumps(source), encoding="utf-8")
    write_checksums(folder)


# fmt: off
OPTIONS = {
    "causal-lm": (
        "text", "correct", "filter", "case", "candidates", "budget", "dtype", "name", "attention",
    ),
    "masked-lm": ("text", "over", "within_word", "length", "dtype", "name"),
}
# fmt: on
VALUES = {
    "text": "as-is",
    "correct": "greedy",
    "filter": "none",
    "over": "sentence",
    "within_word": "original",
    "attention": False,
    "case": "as-is",
    "candidates": "sentence",
}  # fmt: skip


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("model", OPTIONS)
def test_no_file_lets_code_of_a_model_run(model, wrapped, tmp_path, monkeypatch):
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    marker = tmp_path / "ran"
    with_code(tmp_path / "pretrained", marker)
    config = {name: VALUES.get(name) for name in OPTIONS[model]} | {"digest": ""}
    for trusts in (True, False):
        saved = tmp_path / f"saved-{trusts}"
        source = {"path_or_name": str(tmp_path / "pretrained"), "revision": None}
        source |= {"trust_remote_code": True} if trusts else {}
        write_model(saved / "model" if wrapped else saved, model, config, **source)
        if wrapped:
            (saved / FILE).write_text(json.dumps({"model": "reversed", "config": {"model": {}}}))
            write_checksums(saved)
        with pytest.raises(DataError):
            Predictor.load(saved)
        assert not marker.exists()
        with pytest.raises(DataError):  # the argument of `load` decides
            Predictor.load(saved, trust_remote_code=True)
        assert marker.exists() != trusts


@pytest.mark.parametrize(
    "place", ["evil_module:Evil", "evil_module", "workbench.evil_module:Evil", "os:system"]
)
def test_no_file_decides_what_is_imported(place, tmp_path, monkeypatch):
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / FILE).write_text(json.dumps({"model": place, "config": {}}), encoding="utf-8")
    write_checksums(tmp_path)
    refused(Predictor.load, tmp_path)
    assert "evil_module" not in sys.modules


class Chatty(Predictor):
    """A model with an argument that is no part of its configuration."""

    name = "chatty"

    def __init__(self, size=1, *, log=None, trust_remote_code=False):
        self.size = size
        assert not trust_remote_code, "set by a file"
        if log is not None:
            Path(log).touch()

    @property
    def config(self):
        return {"size": self.size}

    def score(self, items, words):
        return np.zeros((len(items), max(map(len, words))))


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("word-distance", WordDistance(3).config | {"colour": "red"}),
        ("word-distance", {"decay": []}),
        ("sliding-window", {"trust_remote_code": True}),
        (registry.import_path_of(Chatty), {"size": 2, "trust_remote_code": True}),
        ("reversed", {"model": {}, "size": True}),
        ("lsa", {}), ("random-word", []), ("causal-lm", {"digest": ""}), ("lstm", {"info": 3}),
        ("ngram", None),
    ],
)  # fmt: skip
def test_a_file_sets_no_other_argument(name, config, tmp_path):
    write_model(tmp_path / "m", name, config, path_or_name=".", revision=None)
    write_model(tmp_path / "m" / "model", "word-distance", WordDistance(3).config)
    with pytest.raises(DataError):
        Predictor.load(tmp_path / "m")


@pytest.mark.parametrize("option", ["trust_remote_code", "anything"])
def test_a_source_lets_no_code_run(option, folders, tmp_path):
    saved_models.made("causal-lm", folders).save(tmp_path / "m")
    file = tmp_path / "m" / "source.json"
    source = json.loads(file.read_text()) | {option: "cpu"}
    file.write_text(json.dumps(source), encoding="utf-8")
    write_checksums(tmp_path / "m")
    refused(Predictor.load, tmp_path / "m")


def test_wrappers_of_saved_models_are_whole(tmp_path):
    model = Reversed(WordDistance(3))
    model.save(tmp_path)
    inner = tmp_path / "model" / FILE
    inner.write_text(inner.read_text().replace("3", "4"), encoding="utf-8")
    refused(Predictor.load, tmp_path)
