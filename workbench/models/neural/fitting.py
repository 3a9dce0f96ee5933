"""A training that is done once: what was trained is found again by all that its weights depend on."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from workbench.storage import cache
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import atomic_path, data_home, open_regular, read_json, sweep, write_atomic
from workbench.training.history import Training
from workbench.training.settings import TrainingSettings, torch_device

WEIGHTS, RECORD = "weights.safetensors", "training.json"
STOPPED = {"interrupted": ", interrupted", "not a number": ", stopped"}
"""What is added to the name of a model whose training did not end."""

_CHECKPOINTS, _CONFIG = "checkpoints", "fit.json"  # beside the files of the model
_FINISHED = frozenset({"finished", "early"})


def fitted(
    kind: Any,
    config: dict[str, Any],
    settings: TrainingSettings,
    train: Callable[[Path], Any],
    *,
    cached_in: str,
    folder: Path | str | None,
    **options: Any,
) -> Any:
    """Return the model of a training; it is trained if it is not on disk yet.

    Under ``torchrun`` the first process decides what is on disk, and writes.

    Parameters
    ----------
    kind : type of Predictor
        It has ``network`` and ``training_record``, and its ``load`` takes ``device`` and `options`.
    config : dict
        All that the weights depend on, as JSON can hold it.
    settings : TrainingSettings
    train : callable
        Takes the folder of the checkpoints, and returns the trained model.
    cached_in : str
        The folder of the cache.
    folder : path or None
        Where model and checkpoints lie instead of the cache.

    Raises
    ------
    DataError
        If the folder holds another training, or the model cannot be written.
    """
    from accelerate.utils import broadcast_object_list  # noqa: PLC0415 - slow

    from workbench.training.loop import processes  # noqa: PLC0415 - slow

    first = processes(settings).is_main_process
    on_disk: list[Any] = [None, False]
    if first:
        home = _home(config, folder, cached_in)
        on_disk = [home, _is_whole(kind, home)]
    home, is_whole = broadcast_object_list(on_disk)
    cache.hold(train, home)  # as long as it is trained
    if is_whole:
        _remove_leftovers(home)
        return kind.load(home, device=settings.device, **options)
    model = train(home / _CHECKPOINTS)
    if model.training_record.stopped in _FINISHED and first:
        model.save(home)
        _remove_leftovers(home)
        cache.make_room()
    broadcast_object_list([None])  # it is written before another process looks
    return model


class TrainedNetwork:
    """What models share whose network is trained here: it is read from disk when it is first used.

    Attributes
    ----------
    training_record : Training or None
        The history of the training.
    """

    training_record: Training | None = None
    dtype: str | None = "float32"
    _network: Any = None
    _wanted_device: str | None = None
    _folder, _digest = Path(), ""  # of the weights, as long as they are not read

    @property
    def device(self) -> str:
        """Where it computes."""
        return str(torch_device(self._wanted_device))

    @device.setter
    def device(self, device: str | None) -> None:
        self._wanted_device = device

    @property
    def network(self) -> Any:
        """The network on its device, ready for prediction; read from disk when it is first used."""
        if self._network is None:
            with (
                reading(self._folder, "this network", remedy="fit it again"),
                torch.random.fork_rng(devices=[]),  # weights are drawn, then read
            ):
                network = self._new_network().eval()
                _read_weights(self._folder / WEIGHTS, network, self._digest)
            self._network = network
        if str(next(self._network.parameters()).device) != self.device:
            self._network.to(self.device)
        return self._network

    def _new_network(self) -> nn.Module:
        """Build the network, its weights drawn by torch's generator."""
        raise NotImplementedError

    @property
    def _weights_sha256(self) -> str:
        """The SHA-256 of the weights."""
        return self._digest if self._network is None else _weights_digest(_tensors(self._network))

    def _save_network(self, folder: Path) -> None:
        """Write the weights and the history of the training."""
        weights = folder / WEIGHTS
        with atomic_path(weights) as path, writing(weights, "these weights", SafetensorError):
            save_file(_tensors(self.network), path)
        if self.training_record is not None:
            write_atomic(folder / RECORD, json.dumps(self.training_record.to_json()))

    def _read_network(self, folder: Path, digest: str) -> None:
        """Remember where the weights lie, and read the history of the training."""
        self._folder, self._digest = folder, digest
        cache.hold(self, folder)
        if (folder / RECORD).is_file():
            self.training_record = Training.from_json(read_json(folder / RECORD))


def _tensors(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights, each tensor once, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}


def _weights_digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of all weights: names, types, shapes, bits."""
    parts: list[str | bytes] = []
    for name, value in sorted(tensors.items()):
        parts += [f"{name} {value.dtype} {tuple(value.shape)}"]
        parts += [cache.digest(memoryview(value.reshape(-1).view(torch.uint8).numpy()))]  # type: ignore[arg-type]
    return cache.digest(*parts)


def _read_weights(file: Path, network: nn.Module, expected: str) -> None:
    """Read weights into a network that was built with the same sizes."""
    with reading(file, "these weights", remedy="fit it again"):
        open_regular(file).close()  # a pipe in its place would be waited for
        tensors = load_file(file)
        if any(name.startswith("output.tails.") for name in tensors):
            raise ValueError("the model has the adaptive softmax of an earlier version")
        if _weights_digest(tensors) != expected:
            raise ValueError("the weights are not those that were written")
        network.load_state_dict(tensors)


def _home(config: dict[str, Any], folder: Path | str | None, cached_in: str) -> Path:
    """Return the folder of a training, with its configuration in it; DataError if it is of another one."""
    key = cache.digest(json.dumps(config, sort_keys=True))
    home = data_home() / "cache" / cached_in / key if folder is None else Path(folder)
    file = home / _CONFIG
    with contextlib.suppress(DataError), reading(file):
        if read_json(file)["key"] == key:
            return home
    if folder is not None and file.exists():  # in the cache, the name of the folder is the key
        raise DataError(
            "this folder holds a training with other texts or options, or a damaged one", file=file,
            remedy="name another folder, or remove it",
        )  # fmt: skip
    write_atomic(file, json.dumps({"key": key, **config}, indent=1))
    return home


def _remove_leftovers(home: Path) -> None:
    """Remove what a finished model does not need, and a killed process may have left."""
    shutil.rmtree(home / _CHECKPOINTS, ignore_errors=True)
    sweep(home)


def _is_whole(kind: Any, home: Path) -> bool:
    """Return whether a finished model is in a folder."""
    with contextlib.suppress(DataError):  # not there yet, or damaged
        return kind.load(home, device="cpu").network is not None  # weights are checked as they are read
    return False
