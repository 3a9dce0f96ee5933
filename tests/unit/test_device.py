import re

import pytest
import torch
from tiny_training import Counting, Tiny, equal, settings, weights
from torch import nn

from workbench.items.schema import DataError
from workbench.training import device
from workbench.training.device import Fit, memory, pick, trial
from workbench.training.gradients import Gradients, to_device
from workbench.training.loop import train

CPU = torch.device("cpu")
FIT = {"name": "LSTM", "needed": 900_000_000, "free": 21_300_000_000, "device": "cpu (2 threads)"}


def gradients_of(network, said, **more):
    return Gradients(
        network, settings(**more), CPU, whole=8, rows=8, say=said.append, micro_rows=more.get("micro_rows")
    )


def test_the_line_tells_what_fits():
    fit = Fit(**FIT, parameters=38_100_000, seconds=0.3566, steps=5216, tokens=4096)
    assert str(fit) == (
        "LSTM: 38.1 M parameters; about 0.9 of 21.3 GB memory on cpu (2 threads); "
        "5,216 steps of 4,096 words, about 31 min"
    )
    small = Fit(**FIT, parameters=512, seconds=0.01, steps=10, tokens=40)
    assert "LSTM: 512 parameters" in str(small)
    assert str(small).endswith("less than a minute")


def test_the_device_is_picked_by_name():
    assert pick("cpu") == CPU
    assert pick(None).type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(DataError, match="'warp' is no device"):
        pick("warp")
    with pytest.raises(DataError, match="there is no cuda:99 here"):
        pick("cuda:99")
    with pytest.raises(DataError, match="nothing is trained on 'meta'"):
        pick("meta")


def test_no_memory_beside_the_gradients_is_told_in_a_line(monkeypatch):
    def full(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("workbench.training.run.AdamW", full)
    with pytest.raises(DataError, match="cpu is out of memory beside the gradients"):
        train(Tiny(), Counting(), settings(), device="cpu")


def test_memory_is_what_is_free():
    assert 10**8 < memory(CPU) < 10**14


def test_a_trial_changes_nothing():
    network, said = Tiny(dropout=0.3), []
    before, random = weights(network), torch.get_rng_state()
    batch = to_device(Counting().batch(0), CPU)
    fit = trial(gradients_of(network, said), batch, name="Tiny", steps=7, tokens=40, carried=True)
    assert equal(weights(network), before)
    assert torch.equal(torch.get_rng_state(), random)
    assert all(weight.grad is None for weight in network.parameters())
    assert fit.parameters == sum(weight.numel() for weight in network.parameters())
    assert fit.seconds > 0
    assert re.fullmatch(r"cpu \(\d+ threads?\)", fit.device)
    assert said == []


class Known(nn.Module):
    """A network of which one can tell what it keeps: what tanh gave, and what was looked up in."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(11, 500))

    def forward(self, batch, _state=None):
        return self.weight[batch["ids"]].tanh().sum(), None


def test_the_memory_that_is_needed_is_what_a_network_keeps():
    network = Known()
    batch = to_device(Counting().batch(0), CPU)
    fit = trial(gradients_of(network, []), batch, name="", steps=1, tokens=40, carried=False)
    kept = 8 * 6 * 500 * 4  # (rows, length + 1, width) in single precision
    assert fit.needed == 4 * network.weight.nbytes + kept  # itself, its gradient, AdamW's two means


def test_too_little_memory_takes_fewer_rows_from_the_beginning(monkeypatch):
    whole, pieces = Tiny(), Tiny()
    train(whole, Counting(), settings(), device="cpu")
    batch = to_device(Counting().batch(0), CPU)
    needed = [
        trial(
            gradients_of(Tiny(), [], micro_rows=rows), batch, name="", steps=1, tokens=1, carried=True
        ).needed
        for rows in (8, 2)
    ]
    assert needed[1] < needed[0]
    monkeypatch.setattr(device, "memory", lambda _: needed[1])
    training = train(pieces, Counting(), settings(), device="cpu")
    assert [note.partition(": ")[2] for note in training.notes] == [
        "4 rows at a time now, 2 pieces a step, same gradient but for dropout",
        "2 rows at a time now, 4 pieces a step, same gradient but for dropout",
    ]
    for name, values in weights(pieces).items():
        torch.testing.assert_close(values, weights(whole)[name], rtol=0, atol=1e-5)
