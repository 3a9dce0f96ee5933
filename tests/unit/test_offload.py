"""Giving the memory of a GPU back."""

from types import SimpleNamespace

import accelerate.hooks
import pytest
import torch
from torch import nn

from workbench.models import offload
from workbench.models.baselines.chance import RandomWord
from workbench.models.neural.model import Neural
from workbench.models.offload import free


class Far(nn.Linear):
    """A module of 40 kB that says that it is on a GPU."""

    def __init__(self):
        super().__init__(1000, 10)
        self.where = torch.device("cuda:0")

    def to(self, device):
        self.where = torch.device(device)
        return self

    def parameters(self):
        yield SimpleNamespace(device=self.where, nbytes=40_040)


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    """Collect no garbage (half a second beside torch), and send no inputs to a GPU that is not there."""
    monkeypatch.setattr(offload.gc, "collect", lambda: None)
    monkeypatch.setattr(accelerate.hooks, "send_to_device", lambda inputs, _device, **_: inputs)


def workbench_object(**attributes):
    result = type("Model", (), {"__module__": "workbench.models.somewhere"})()
    vars(result).update(attributes)
    return result


@pytest.mark.parametrize("repeat", range(2))
def test_weights_leave_the_gpu_and_return_when_the_model_is_used(repeat):
    far = Far()
    inner = workbench_object(model=far, head=far)
    model = workbench_object(name="GPT", _network=inner, more=[inner])
    inputs = torch.ones(2, 1000)
    expected = far(inputs)
    for _ in range(1 + repeat):
        assert free(model).startswith("GPT: 40 kB given back; ")
        assert far.where.type == "cpu"
        assert free(model).startswith("GPT: 40 kB on the cpu, nothing to free; ")
        assert torch.equal(inner.model(inputs), expected)
        assert far.where.type == "cuda"


def test_bare_modules_and_models_that_share_weights():
    far = Far()
    assert free(far).startswith("Far: 40 kB given back; ")
    assert far.where.type == "cpu"
    far(torch.ones(1, 1000))
    report = free(workbench_object(name="A", network=far), workbench_object(name="B", network=far))
    assert report.startswith("A: 40 kB given back; B: 40 kB on the cpu, nothing to free; ")
    assert free(RandomWord(), 3, "text", None).count("no weights, nothing to free") == 4


def test_a_neural_model_moves_its_network_itself():
    far, model = Far(), object.__new__(Neural)
    vars(model).update(_network=far, _digest=None, _wanted_device="cpu", name="LSTM")
    assert free(model).startswith("LSTM: 40 kB given back")
    far(torch.ones(1, 1000))
    assert far.where.type == "cpu"
    far.where = torch.device("cuda:0")
    assert model.network is far
    assert far.where.type == "cpu"  # its property moves it to the model's device


def test_free_memory_is_reported(monkeypatch):
    emptied = []
    gpu = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 2,
        synchronize=lambda: None, empty_cache=lambda: emptied.append(1),
        memory_stats=lambda k: {"x": 1} if k else {}, mem_get_info=lambda _: (78.12e9, 85.1e9),
    )  # fmt: skip
    monkeypatch.setattr(torch, "cuda", gpu)
    assert free() == "78.1 of 85.1 GB free on cuda:1"
    assert emptied == [1]
    gpu.is_initialized = lambda: False
    assert free() == "no GPU was used"
    gpu.is_available = lambda: False
    assert free() == "no GPU here"
    assert emptied == [1]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_memory_of_a_real_gpu():
    network = nn.Linear(4096, 4096, device="cuda")
    before = torch.cuda.memory_reserved()
    inputs = torch.ones(1, 4096, device="cuda")
    expected = network(inputs).cpu()
    report = free(workbench_object(name="linear", _network=workbench_object(model=network)))
    assert report.startswith("linear: 67.1 MB given back; ")
    assert "free on cuda:0" in report
    assert torch.cuda.memory_reserved() <= before - 60e6
    assert torch.equal(network(inputs).cpu(), expected)
