import json

import pytest
import torch
from tiny_training import Tiny, equal, weights

from workbench.items.schema import DataError
from workbench.training import checkpoint
from workbench.training.checkpoint import REST, STATE, WEIGHTS, Checkpoint


def one(step, **more):
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor([step])}
    rest = {"random/0/0": torch.arange(4, dtype=torch.uint8)}
    return Checkpoint(step, {"text": {"key": "x"}}, {"seconds": 1.5, **more}, tensors, rest)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_read_is_what_was_saved(tmp_path):
    place = checkpoint.save(tmp_path / "new", one(12, history=[1, 2]))
    assert place == tmp_path / "new" / "step-00000012"
    assert names(place) == sorted([WEIGHTS, REST, STATE])
    found = checkpoint.newest(tmp_path / "new")
    assert (found.step, found.identity, found.told) == (
        12,
        {"text": {"key": "x"}},
        {"seconds": 1.5, "history": [1, 2]},
    )
    assert equal(found.weights, one(12).weights)
    assert equal(found.rest, one(12).rest)
    assert found.rest["random/0/0"].dtype == torch.uint8


def test_the_last_and_those_to_be_kept_stay(tmp_path):
    (tmp_path / "step-notes.txt").touch()
    for step in range(1, 6):
        checkpoint.save(tmp_path, one(step), keep=[2])
    assert names(tmp_path) == ["step-00000002", "step-00000005", "step-notes.txt"]
    assert checkpoint.newest(tmp_path).step == 5


def test_the_same_step_is_told_anew(tmp_path):
    checkpoint.save(tmp_path, one(3))
    before = (tmp_path / "step-00000003" / WEIGHTS).stat().st_ino
    checkpoint.save(tmp_path, one(3, stopped="early"))
    assert checkpoint.newest(tmp_path).told["stopped"] == "early"
    assert (tmp_path / "step-00000003" / WEIGHTS).stat().st_ino == before


def cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [cut, flip, lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize("name", [WEIGHTS, REST, STATE])
def test_torn_ones_are_passed_over_and_removed(tmp_path, harm, name):
    checkpoint.save(tmp_path, one(1))
    checkpoint.save(tmp_path, one(2), keep=[1])
    (tmp_path / ".aside-left").mkdir()
    harm(tmp_path / "step-00000002" / name)
    assert checkpoint.newest(tmp_path).step == 1
    assert names(tmp_path) == ["step-00000001"]


@pytest.mark.parametrize("told", ["[]", "{}", "null", '{"sha256": 1, "version": 1}', "\x00", '{"sha256": 5}'])
def test_strange_states_are_torn(tmp_path, told):
    checkpoint.save(tmp_path, one(1))
    (tmp_path / "step-00000001" / STATE).write_text(told)
    assert checkpoint.newest(tmp_path) is None
    assert names(tmp_path) == []


def test_no_folder_has_none(tmp_path):
    assert checkpoint.newest(tmp_path / "none") is None
    assert not (tmp_path / "none").exists()


def test_one_of_another_version_is_neither_used_nor_removed(tmp_path):
    place = checkpoint.save(tmp_path, one(1)) / STATE
    place.write_text(json.dumps({**json.loads(place.read_text()), "version": 0}))
    with pytest.raises(DataError, match="version 0, expected 1"):
        checkpoint.newest(tmp_path)
    assert place.exists()


def test_one_that_cannot_be_read_now_stays(tmp_path, monkeypatch):
    for step in (1, 2):
        checkpoint.save(tmp_path, one(step), keep=[1])

    def stale(*_):
        raise OSError(116, "Stale file handle")

    with monkeypatch.context() as broken:
        broken.setattr(checkpoint, "load_file", stale)
        with pytest.raises(DataError, match=r"cannot be read \(Stale file handle\)"):
            checkpoint.newest(tmp_path)
    assert checkpoint.newest(tmp_path).step == 2
    assert len(names(tmp_path)) == 2


@pytest.mark.parametrize("wrong", ["full", "serialised"])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, wrong):
    checkpoint.save(tmp_path, one(1))

    def full(*_):
        raise (
            OSError(28, "No space left on device")
            if wrong == "full"
            else checkpoint.SafetensorError("No space left")
        )

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(DataError, match="No space left"):
        checkpoint.save(tmp_path, one(2))
    assert names(tmp_path) == ["step-00000001"]
    assert checkpoint.newest(tmp_path).step == 1


def test_tied_weights_are_kept_once_and_stay_tied():
    network, other = Tiny(seed=1), Tiny(seed=2)
    kept = checkpoint.weights(network)
    assert "embedding.weight" in kept
    assert "output.weight" not in kept
    checkpoint.put(other, kept)
    assert equal(weights(other), weights(network))
    assert other.output.weight is other.embedding.weight


def test_weights_of_another_network_are_refused():
    with pytest.raises(
        DataError, match=r"embedding.weight is float32 \(11, 6\) there and float32 \(11, 5\) here"
    ):
        checkpoint.put(Tiny(width=5), checkpoint.weights(Tiny()))
    kept = checkpoint.weights(Tiny())
    del kept["output.bias"]
    with pytest.raises(DataError, match=r"output\.bias is missing there"):
        checkpoint.put(Tiny(), kept)


def test_states_of_several_processes_are_joined_in_order():
    parts = [
        ((torch.full((2, 3), float(rank)), torch.full((2,), rank)), (torch.tensor([rank]),))
        for rank in range(11)
    ]
    found = checkpoint.joined(parts)
    first, second = checkpoint.numbered(found, "carried")
    assert first[:, 0].tolist() == [float(rank) for rank in range(11) for _ in range(2)]
    assert second.tolist() == [rank for rank in range(11) for _ in range(2)]
    assert checkpoint.numbered(found, "random/10") == (torch.tensor([10]),)
    assert checkpoint.numbered(found, "random/11") == ()
    assert checkpoint.joined([(None, (torch.tensor([1]),))]) == {"random/0/0": torch.tensor([1])}
