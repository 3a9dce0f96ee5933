import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_training import Counting, Tiny, assert_close, perplexity, settings, weights

from workbench.items.schema import DataError
from workbench.training.distributed import World, _buckets
from workbench.training.loop import train


def alone(folder=None):
    network = Tiny()
    train(network, Counting(), settings(12, evaluations=2), evaluate=perplexity, folder=folder, device="cpu")
    return weights(network)


def test_two_processes_are_one_with_the_doubled_batch(tmp_path):
    program = Path(__file__).with_name("training_processes.py")
    done = subprocess.run(
        [sys.executable, program, "two", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = {
        name: [json.loads((tmp_path / name / f"{rank}.json").read_text()) for rank in (0, 1)]
        for name in "abcd"
    }
    wanted = alone()
    for name in "ac":  # at one go; interrupted and gone on with
        for rank in (0, 1):
            assert_close(load_file(tmp_path / name / f"{rank}.safetensors"), wanted, 1e-6)
            assert told[name][rank]["stopped"] == "finished"
            assert told[name][rank]["scores"] == 2  # both know what the first one found
    for rank in (0, 1):
        assert_close(load_file(tmp_path / "a" / f"{rank}-another.safetensors"), wanted, 1e-6)
    assert [one["stopped"] for one in told["b"]] == ["interrupted"] * 2
    assert [one["evaluated"] for one in told["a"]] == [2, 0]
    assert_close(alone(tmp_path / "copy"), wanted, 1e-6)  # begun by two, ended by one
    assert all("not a number in step 5" in one["problem"] for one in told["d"])


def test_rows_are_shared_without_rest():
    for whole in (2, 7, 64):
        for size in (1, 2):
            worlds = [World.__new__(World) for _ in range(size)]
            for rank, world in enumerate(worlds):
                world.rank, world.size = rank, size
            found = [row for world in worlds for row in range(whole)[world.rows(whole)]]
            assert found == list(range(whole))
    with pytest.raises(DataError, match="1 rows cannot be shared by 2"):
        worlds[0].rows(1)


def test_gradients_travel_in_groups_of_one_type(monkeypatch):
    monkeypatch.setattr("workbench.training.distributed._BUCKET", 100)
    tensors = [torch.zeros(n) for n in (10, 10, 10, 40)] + [torch.zeros(1, dtype=torch.float64)]
    groups = list(_buckets(tensors))
    assert [len(group) for group in groups] == [2, 1, 1, 1]
    assert [id(values) for group in groups for values in group] == [id(values) for values in tensors]
