"""What holds of a training on the CPU holds on a GPU."""

import pytest
import tiny_training as tiny
from tiny_training import Counting, Tiny, assert_close, settings, weights

from workbench.training.loop import train


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_learns_and_records_how(tmp_path, compiled, precision):
    tiny.it_learns_and_records_how("cuda", tmp_path, compile=compiled, precision=precision)


def test_not_a_number(tmp_path):
    tiny.a_loss_that_is_not_finite_stops_it("cuda", tmp_path)


def test_the_step_is_known_although_the_loss_is_read_later(tmp_path):
    """Nothing is read before step 20, twelve steps after the bad one."""
    tiny.a_loss_that_is_not_finite_stops_it("cuda", tmp_path, log_every=20)


def test_interrupted_and_gone_on_with(tmp_path):
    tiny.it_continues_as_if_it_had_never_stopped("cuda", tmp_path, tolerance=1e-4)


def test_it_computes_what_the_cpu_computes():
    here, there = Tiny(), Tiny()
    train(here, Counting(), settings(device="cuda"))
    train(there, Counting(), settings())
    assert_close(weights(here), weights(there), 1e-3)
