"""What holds of a training on the CPU holds on a GPU."""

# ruff: noqa: E402 - the tiny network is that of the unit tests

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit"))

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

import tiny_training as tiny
from tiny_training import Counting, Tiny, assert_close, settings, weights

from workbench.training.loop import train


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_learns_and_tells_how(tmp_path, compiled, precision):
    tiny.it_learns_and_tells_how("cuda", tmp_path, compile=compiled, precision=precision)


def test_not_a_number(tmp_path):
    tiny.it_stops_where_a_number_is_none("cuda", tmp_path, tolerance=1e-5)


def test_a_number_is_looked_for_now_and_then_and_the_weights_wait(tmp_path):
    """Nobody looks before step 20, twelve steps after the bad one."""
    tiny.it_stops_where_a_number_is_none("cuda", tmp_path, tolerance=1e-5, log_every=20)


def test_out_of_memory():
    tiny.out_of_memory_changes_nothing_but_the_pieces("cuda", tolerance=1e-4)


def test_interrupted_and_gone_on_with(tmp_path):
    tiny.it_goes_on_as_if_it_had_never_stopped("cuda", tmp_path, tolerance=1e-4)


def test_it_computes_what_the_cpu_computes():
    here, there = Tiny(), Tiny()
    train(here, Counting(), settings(), device="cuda")
    train(there, Counting(), settings(), device="cpu")
    assert_close(weights(here), weights(there), 1e-3)


def test_the_memory_that_is_told_is_what_is_taken():
    network = Tiny(width=512)
    training = train(network, Counting(rows=64, length=64), settings(3), device="cuda", name="wide")
    told = float(training.fits.split("about ")[1].split(" of ")[0]) * 1e9
    assert torch.cuda.max_memory_allocated() == pytest.approx(told, rel=0.3, abs=0.1e9)
