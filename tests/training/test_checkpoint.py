import json
import os
import random
import warnings
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
import torch
from refused import refused
from saved_models import flipped
from tiny_training import Tiny, equal, weights

from workbench.storage import files
from workbench.storage.errors import DataError
from workbench.training import checkpoint
from workbench.training.checkpoint import INFO, STATE, WEIGHTS, TrainingState


def one(step, **info):
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor([step])}
    state = {"random": [[torch.arange(4, dtype=torch.uint8)]], "carried": []}
    return TrainingState(step, {"text": {"key": "x"}}, {"seconds": 1.5, **info}, tensors, state)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_read_is_what_was_saved(tmp_path):
    checkpoint.save_checkpoint(tmp_path / "new", one(12, history=[1, 2]))
    assert names(tmp_path / "new" / "step-00000012") == sorted([WEIGHTS, STATE, INFO])
    state = checkpoint.newest(tmp_path / "new")
    assert (state.step, state.identity) == (12, {"text": {"key": "x"}})
    assert state.info == {"seconds": 1.5, "history": [1, 2]}
    assert equal(state.weights, one(12).weights)
    assert torch.equal(state.state["random"][0][0], torch.arange(4, dtype=torch.uint8))
    assert state.state["carried"] == []


def test_the_last_and_those_to_be_kept_stay(tmp_path):
    (tmp_path / "step-notes.txt").touch()
    with patch("shutil.rmtree"):  # as of a killed process
        (tmp_path / "step").mkdir()
        files.remove_folder(tmp_path / "step")
    for step in range(1, 6):
        checkpoint.save_checkpoint(tmp_path, one(step), keep=[2])
    assert names(tmp_path) == ["step-00000002", "step-00000005", "step-notes.txt"]
    assert checkpoint.newest(tmp_path).step == 5


def test_the_info_of_the_same_step_is_written_again(tmp_path):
    checkpoint.save_checkpoint(tmp_path, one(3))
    before = (tmp_path / "step-00000003" / WEIGHTS).stat().st_ino
    checkpoint.save_checkpoint(tmp_path, one(3, stopped="early"))
    assert checkpoint.newest(tmp_path).info["stopped"] == "early"
    assert (tmp_path / "step-00000003" / WEIGHTS).stat().st_ino == before


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGES = [flip, Path.unlink, lambda path: path.write_bytes(b""), lambda path: os.truncate(path, 9)]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", [WEIGHTS, STATE, INFO])
def test_damaged_ones_are_passed_over_and_removed(tmp_path, damage, name):
    checkpoint.save_checkpoint(tmp_path, one(1))
    checkpoint.save_checkpoint(tmp_path, one(2), keep=[1])
    damage(tmp_path / "step-00000002" / name)
    with pytest.warns(UserWarning, match="step-00000002: this checkpoint is damaged and removed"):
        assert checkpoint.newest(tmp_path).step == 1
    assert names(tmp_path) == ["step-00000001"]


@pytest.mark.parametrize(
    "content", ["[]", "{}", "null", "[" * 100_000, '{"sha256": 1, "version": 2}', "\x00"]
)
def test_strange_info_is_damage(tmp_path, content):
    checkpoint.save_checkpoint(tmp_path, one(1))
    (tmp_path / "step-00000001" / INFO).write_text(content)
    with pytest.warns(UserWarning, match="from the beginning where there is none"):
        assert checkpoint.newest(tmp_path) is None
    assert names(tmp_path) == []
    assert checkpoint.newest(tmp_path / "none") is None


@pytest.mark.parametrize("name", [WEIGHTS, STATE, INFO])
def test_a_pipe_is_no_checkpoint(tmp_path, name):
    checkpoint.save_checkpoint(tmp_path, one(1))
    file = tmp_path / "step-00000001" / name
    file.unlink()
    os.mkfifo(file)
    refused("step-00000001: this checkpoint cannot be read", checkpoint.newest, tmp_path)


@pytest.mark.parametrize("name", [WEIGHTS, STATE, INFO])
@pytest.mark.parametrize("seed", range(8))
def test_five_changed_bytes_never_give_another_state(tmp_path, name, seed):
    checkpoint.save_checkpoint(tmp_path, one(1, history=[1.5, 2.5]))
    flipped(tmp_path / "step-00000001" / name, random.Random(seed))  # noqa: S311 - no secret
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            state = checkpoint.newest(tmp_path)
        except DataError:  # of another version
            return
    assert state is None
    assert len(caught) == 1


def test_one_of_another_version_is_neither_used_nor_removed(tmp_path):
    checkpoint.save_checkpoint(tmp_path, one(1))
    info = tmp_path / "step-00000001" / INFO
    info.write_text(json.dumps({**json.loads(info.read_text()), "version": 0}))
    refused("version 2, got 0", checkpoint.newest, tmp_path)
    assert info.exists()


def test_one_that_cannot_be_read_now_stays(tmp_path, monkeypatch):
    checkpoint.save_checkpoint(tmp_path, one(1))
    monkeypatch.setattr(checkpoint, "load_file", Mock(side_effect=OSError(116, "Stale file handle")))
    refused(r"cannot be read \(Stale file handle\)", checkpoint.newest, tmp_path)
    assert names(tmp_path) == ["step-00000001"]


@pytest.mark.parametrize("error", [OSError(28, "No space left"), checkpoint.SafetensorError("No space left")])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, error):
    checkpoint.save_checkpoint(tmp_path, one(1))
    monkeypatch.setattr(checkpoint, "save_file", Mock(side_effect=error))
    refused("No space left", checkpoint.save_checkpoint, tmp_path, one(2))
    assert names(tmp_path) == ["step-00000001"]


def test_tied_weights_are_saved_once_and_stay_tied():
    network, other = Tiny(seed=1), Tiny(seed=2)
    tensors = checkpoint.weights(network)
    assert "embedding.weight" in tensors
    assert "output.weight" not in tensors
    checkpoint.set_weights(other, tensors)
    assert equal(weights(other), weights(network))
    assert other.output.weight is other.embedding.weight
