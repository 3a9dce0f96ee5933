"""The networks do on a GPU what they do on a CPU: the same checks as in the unit tests, and equal numbers."""

import checked_networks as checked
import pytest
import torch

from workbench.models.neural.feedforward import FeedForward as ForwardPredictor
from workbench.models.neural.memory import MemoryNetwork as MemoryPredictor
from workbench.models.neural.recurrent import LSTM, ElmanRNN

CLOSE = 1e-4  # of sums in another order; products of float32 are in float32 here


@pytest.fixture(autouse=True)
def exact():
    before = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    yield
    torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before


@pytest.fixture(params=checked.FAMILIES)
def made(request):
    return checked.FAMILIES[request.param]


def test_carried_state_is_one_long_text(made):
    checked.carries(checked.lively(made(dropout=0.5)), device="cuda", tolerance=CLOSE)
    checked.reads_the_last(checked.lively(made()), device="cuda", tolerance=CLOSE)


def test_half_precision(made):
    checked.trains_in_half_precision(made(), device="cuda")


@pytest.mark.parametrize("at", [0, 4, 9])
def test_the_future_changes_nothing(made, at):
    ids, other = checked.drawn((2, 10), at), checked.drawn((10,), at + 100)
    checked.ignores_the_future(checked.lively(made()), ids, at, other, device="cuda")


def test_equals_the_cpu_with_its_gradients(made):
    network = checked.lively(made())
    ids = checked.drawn((3, 50))
    found = []
    for device in ("cpu", "cuda"):
        network.to(device).zero_grad()
        first, state = network({"ids": ids[:, :30].to(device)})
        second, _ = network({"ids": ids[:, 29:].to(device)}, state)
        (first + second).backward()
        gradients = torch.cat([weight.grad.flatten().cpu() for weight in network.parameters()])
        found.append((torch.stack([first, second]).detach().cpu(), gradients))
    checked.near(found[1][0], found[0][0], CLOSE)
    checked.near(found[1][1], found[0][1], CLOSE)


def test_compiled_is_the_same(made):
    network = checked.lively(made()).cuda()
    batch = {"ids": checked.drawn((3, 41), device="cuda")}
    plain, _ = network(batch)
    compiled, _ = torch.compile(network)(batch)
    assert abs(plain.item() - compiled.item()) < CLOSE


@pytest.mark.parametrize("kind", [LSTM, ElmanRNN, ForwardPredictor, MemoryPredictor])
def test_predictors(no_data, kind):
    more = {"memory": 6, "hops": 2} if kind is MemoryPredictor else {}
    checked.fits(kind, no_data / "model", device="cuda", precision="float32", compile=False, **more)
