"""Trainings that are killed and resumed, and trainings in two processes: one program runs them all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_training
from safetensors.torch import load_file
from tiny_training import Bags, Counting, Draws, Tiny, assert_close, perplexity, settings, weights

from workbench.training import checkpoint
from workbench.training.loop import train


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    program = Path(tiny_training.__file__).with_name("training_processes.py")
    done = subprocess.run([sys.executable, program, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def test_killed_in_the_middle_it_comes_to_the_same_weights(folder):
    whole, pieces = folder / "killed" / "whole", folder / "killed" / "pieces"
    for name in (checkpoint.WEIGHTS, checkpoint.STATE):
        expected = (whole / "step-00000020" / name).read_bytes()
        assert (pieces / "step-00000020" / name).read_bytes() == expected
    records = [checkpoint.newest(run).info["training"]["scores"] for run in (whole, pieces)]
    scores = [[(row["step"], row["perplexity"]) for row in rows] for rows in records]
    assert scores[0] == scores[1]
    assert len(scores[0]) == 4


def alone(folder=None):
    network = Tiny()
    train(network, Counting(), settings(12, evaluations=2), evaluate=perplexity, folder=folder)
    return weights(network)


def test_two_processes_are_one_with_the_doubled_batch(folder):
    folder = folder / "two"
    results = {
        name: [json.loads((folder / name / f"{rank}.json").read_text()) for rank in (0, 1)] for name in "abcd"
    }
    expected, sparse = alone(), Bags()
    train(sparse, Draws(), settings(12))
    for name in "ac":  # at one go; interrupted and resumed
        for rank in (0, 1):
            assert_close(load_file(folder / name / f"{rank}.safetensors"), expected, 1e-6)
            assert results[name][rank]["stopped"] == "finished"
            assert results[name][rank]["scores"] == 2  # both know what the first one measured
    for rank in (0, 1):
        assert_close(load_file(folder / "a" / f"{rank}-another.safetensors"), expected, 1e-6)
        assert_close(load_file(folder / "a" / f"{rank}-sparse.safetensors"), weights(sparse), 1e-6)
    assert [one["stopped"] for one in results["b"]] == ["interrupted"] * 2
    assert [one["evaluated"] for one in results["a"]] == [2, 0]
    assert_close(alone(folder / "copy"), expected, 1e-6)  # begun by two, ended by one
    assert all("in step 5" in one["problem"] for one in results["d"])
