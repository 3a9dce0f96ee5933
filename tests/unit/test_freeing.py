"""Giving the memory of a GPU back."""

from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from workbench.models import offload as freeing
from workbench.models.baselines.chance import RandomWord
from workbench.models.neural.model import Neural
from workbench.models.offload import free


class Far(nn.Linear):
    """A module that says that it is on a GPU."""

    def __init__(self):
        super().__init__(1000, 10)
        self.where = torch.device("cuda:0")

    def to(self, device):
        self.where = torch.device(device)
        return self


@pytest.fixture(autouse=True)
def collected(monkeypatch):
    """Count the collections of garbage, which take half a second beside torch."""
    found = []
    monkeypatch.setattr(freeing.gc, "collect", lambda: found.append(1))
    return found


@pytest.fixture
def far(monkeypatch):
    real = freeing._tensors

    def tensors(network):
        where = getattr(network, "where", None)
        for tensor in real(network):
            yield tensor if where is None else SimpleNamespace(device=where, nbytes=tensor.nbytes)

    monkeypatch.setattr(freeing, "_tensors", tensors)
    monkeypatch.setattr(freeing, "_total", lambda networks: 40_040 * len(list(networks)))
    return Far()


def ours(**attributes):
    """Return an object of a class of the workbench."""
    kind = type("Model", (), {"__module__": "workbench.models.somewhere"})
    found = kind()
    vars(found).update(attributes)
    return found


def test_a_module_is_moved_and_stays(far, collected):
    assert free(far).startswith("Far: 40 kB given back; ")
    assert collected == [1]
    assert far.where.type == "cpu"
    assert free(far).startswith("Far: 40 kB on the cpu, nothing to free")


def test_a_model_of_the_workbench_takes_it_back_when_it_is_used(far):
    inner = ours(model=far, head=far)
    model = ours(name="GPT", _network=inner, more=[inner])
    assert free(model).startswith("GPT: 40 kB given back")
    assert far.where.type == "cpu"
    assert inner.model is not far
    assert free(model).startswith("GPT: given back already")
    assert inner.model.out_features == 10
    assert far.where.type == "cuda"
    assert (inner.model, inner.head) == (far, far)
    free(model)
    given = torch.ones(2, 1000)
    assert torch.equal(inner.head(given), far(given))
    assert far.where.type == "cuda"
    free(model)
    kept = inner.model
    kept.training = False
    assert not far.training
    assert inner.model is far


def test_two_models_that_share_weights(far):
    first, second = ours(name="A", network=far), ours(name="B", network=far)
    told = free(first, second)
    assert told.startswith("A: 40 kB given back; B: 40 kB on the cpu, nothing to free; ")


def test_a_frozen_holder_takes_it_back_too(far):
    frozen = dataclass(frozen=True)(type("Frozen", (), {"__annotations__": {"model": object}}))
    frozen.__module__ = "workbench.models.pretrained.filling"
    holder = frozen(far)
    assert free(ours(_filler=holder)).startswith("Model: 40 kB given back")
    assert far.where.type == "cpu"
    assert holder.model.out_features == 10
    assert holder.model is far
    assert far.where.type == "cuda"


def test_a_neural_model_moves_it_itself_when_it_is_used(far):
    model = object.__new__(Neural)
    vars(model).update(_network=far, _digest=None, _wanted_device="cpu", name="LSTM")
    assert free(model).startswith("LSTM: 40 kB given back")
    assert (model._network, far.where.type) == (far, "cpu")
    far.where, far.parameters = None, lambda: iter([SimpleNamespace(device="cuda:0")])  # as its weights say
    assert model.network is far
    assert far.where == torch.device("cpu")  # by its own property


def test_an_object_of_somebody_else_keeps_its_module(far):
    model = SimpleNamespace(network=far)
    assert free(model).startswith("SimpleNamespace: 40 kB given back")
    assert model.network is far


def test_models_without_weights():
    model = RandomWord()
    assert free(model).startswith(f"{model.name}: no weights, nothing to free; ")
    assert free(3, "text", None).count("no weights, nothing to free") == 3


def test_what_is_left_is_told(monkeypatch):
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
def test_the_memory_of_a_real_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    network = nn.Linear(4096, 4096, device="cuda")
    inner = ours(model=network)
    before = torch.cuda.memory_reserved()
    given = torch.ones(1, 4096, device="cuda")
    expected = network(given).cpu()
    told = free(ours(name="linear", _network=inner))
    assert told.startswith("linear: 67.1 MB given back; ")
    assert "free on cuda:0" in told
    assert torch.cuda.memory_reserved() <= before - 60e6
    assert torch.equal(inner.model(given).cpu(), expected)
    assert inner.model is network
