import torch
from tiny_training import Tiny, equal, weights

from workbench.storage.checksums import SUMS
from workbench.training import checkpoint
from workbench.training.checkpoint import INFO, STATE, WEIGHTS, TrainingState


def one(step, **info):
    tensors = {"a": torch.arange(6.0).view(2, 3).T, "b": torch.tensor([step])}
    state = {"random": [[torch.arange(4, dtype=torch.uint8)]], "carried": []}
    return TrainingState(step, "x", {"seconds": 1.5, **info}, tensors, state)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_what_is_read_is_what_was_saved(tmp_path):
    checkpoint.save_checkpoint(tmp_path / "new", one(12, history=[1, 2]))
    assert names(tmp_path / "new" / "step-00000012") == sorted([WEIGHTS, STATE, INFO, SUMS])
    state = checkpoint.newest(tmp_path / "new")
    assert (state.step, state.identity) == (12, "x")
    assert state.info == {"seconds": 1.5, "history": [1, 2]}
    assert equal(state.weights, one(12).weights)
    assert torch.equal(state.state["random"][0][0], torch.arange(4, dtype=torch.uint8))
    assert state.state["carried"] == []


def test_the_last_and_those_to_be_kept_stay(tmp_path):
    (tmp_path / "step-notes.txt").touch()
    for step in range(1, 6):
        checkpoint.save_checkpoint(tmp_path, one(step), keep=[2])
    assert names(tmp_path) == ["step-00000002", "step-00000005", "step-notes.txt"]
    assert checkpoint.newest(tmp_path).step == 5


def test_the_same_step_is_written_again(tmp_path):
    checkpoint.save_checkpoint(tmp_path, one(3))
    checkpoint.save_checkpoint(tmp_path, one(3, stopped="early"))
    assert checkpoint.newest(tmp_path).info["stopped"] == "early"


def test_tied_weights_are_saved_once_and_stay_tied():
    network, other = Tiny(seed=1), Tiny(seed=2)
    tensors = checkpoint.weights(network)
    assert "embedding.weight" in tensors
    assert "output.weight" not in tensors
    other.load_state_dict(tensors, strict=False)
    assert equal(weights(other), weights(network))
    assert other.output.weight is other.embedding.weight
