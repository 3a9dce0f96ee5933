"""Networks that are trained here: from the options of `fit` to a model that is found again, and its files."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from workbench.datasets.sources import check_choice
from workbench.storage import cache
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import atomic_path, json_value, read_json, write_atomic
from workbench.storage.paths import cache_home
from workbench.texts.batches import Batches
from workbench.training.history import Training
from workbench.training.settings import LENGTHS, TrainingSettings, torch_device

WEIGHTS, RECORD = "weights.safetensors", "training.json"
_CHECKPOINTS, _CONFIG = "checkpoints", "fit.json"  # beside the files of the model
_FINISHED = frozenset({"finished", "early"})
_SETTINGS = frozenset(field.name for field in fields(TrainingSettings)) - set(LENGTHS)


class TrainedNetwork:
    """A model whose network is trained here, and read from disk when it is first used.

    The constructor takes the network (None where it is read or built later), ``info``, ``device``, and what
    `_fit_or_load` gets as `ingredients`.

    Attributes
    ----------
    training_record : Training or None
        The history of the training.
    """

    title: ClassVar[str] = "Network"
    sizes: ClassVar[dict[str, Any]] = {}  # options of the network, and their defaults
    fit_defaults: ClassVar[dict[str, Any]] = {}  # options of batches and training, and their defaults
    _defaults: ClassVar[dict[str, Any]] = {}  # defaults that `fit_defaults` replaces
    _model_defaults: ClassVar[
        dict[str, Any]
    ] = {}  # options of the class that `fit` takes, and their defaults
    _lengths: ClassVar[tuple[str, ...]] = ("epochs", "tokens", "minutes")
    _evaluated_on: ClassVar[str] = "development"  # argument of `fit`: items that are evaluated
    _folder_name: ClassVar[str] = "neural"  # in the cache
    _training_version: ClassVar[int] = 1  # a training of another version is not found again
    training_record: Training | None = None
    dtype: str | None = "float32"
    _network: Any = None
    _wanted_device: str | None = None
    _folder, _digest = Path(), ""  # of the weights, as long as they are not read

    @classmethod
    def _label(cls, sizes: Mapping[str, Any]) -> str:
        """Return the name of a model of the given sizes."""
        del sizes
        return cls.title

    @classmethod
    def _named(cls, info: Mapping[str, Any]) -> str:
        """Return the name of a model, with the word interrupted if its training was."""
        label = cls._label(info.get("sizes", {}))
        return f"{label}, interrupted" if info.get("stopped") == "interrupted" else label

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names of what `fit` takes as ``**options``: of training, network, batches, class."""
        options = (cls._defaults, cls.fit_defaults, cls.sizes, cls._model_defaults)
        return sorted({*_SETTINGS, *cls._lengths}.union(*options))

    @classmethod
    def _sorted_options(
        cls, options: Mapping[str, Any], *, evaluated: bool
    ) -> tuple[TrainingSettings, dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Sort the options of `fit`: of training, of the network, of the batches, and of the class."""
        for name in options:
            check_choice("option", name, cls.option_names(), cls.__name__)
        model_options = {name: options.get(name, default) for name, default in cls._model_defaults.items()}
        defaults = {**cls._defaults, **cls.fit_defaults, **cls.sizes}
        options = {
            name: value
            for name, value in options.items()
            if name not in model_options and (name not in LENGTHS or value is not None)
        }
        if not options.keys().isdisjoint(LENGTHS):
            defaults = {name: value for name, value in defaults.items() if name not in LENGTHS}
        values = defaults | options
        if values.get("patience") is not None and not evaluated:
            name = cls._evaluated_on
            raise DataError(f"patience needs {name} items to measure on", hint=f"pass {name}=")
        of_training = values.keys() & (_SETTINGS | set(LENGTHS))
        return (
            TrainingSettings(**{name: values[name] for name in of_training}),
            {name: values[name] for name in cls.sizes},
            {name: values[name] for name in sorted(values.keys() - of_training - cls.sizes.keys())},
            model_options,
        )

    @classmethod
    def _fit_or_load(
        cls,
        settings: TrainingSettings,
        config: Mapping[str, Any],
        *,
        info: Mapping[str, Any],
        ingredients: Mapping[str, Any],
        batches: Callable[[], Batches],
        key: str,
        evaluate: Callable[[Self], dict[str, float]] | None,
        folder: Path | str | None,
        **options: Any,
    ) -> Self:
        """Return the model of a training; train it if it is not on disk yet.

        Under ``torchrun`` the first process decides what is on disk, and writes. `config` is what the weights
        depend on, but the class; `info` and `ingredients` are arguments of the constructor, the first with
        facts about the training. `key` is a digest of the training data, which a checkpoint must have to be
        continued; `options` are those of the class that do not change the weights. DataError if the folder,
        in place of the cache, holds another training, or the model cannot be written.
        """
        from accelerate.utils import broadcast_object_list  # noqa: PLC0415 - slow

        from workbench.training.history import progress_view  # noqa: PLC0415 - slow
        from workbench.training.loop import processes, train  # noqa: PLC0415 - slow

        model_type: Any = cls
        description = f"the options of {cls.__name__}"
        about = {"version": cls._training_version, "class": f"{cls.__module__}:{cls.__qualname__}", **config}
        first = processes(settings).is_main_process
        home, is_whole = Path(), False
        if first:
            home = _home(json_value(about, description), folder, cls._folder_name)
            with contextlib.suppress(DataError):  # not there yet, or damaged: weights are checked here
                is_whole = model_type.load(home, device="cpu").network is not None
        home, is_whole = broadcast_object_list([home, is_whole])
        cache.touch(home)
        if is_whole:
            return model_type.load(home, device=settings.device, **options)  # type: ignore[no-any-return]
        info = json_value(dict(info), description)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(settings.seed)
            network = model_type(None, info=info, **ingredients)._new_network()  # noqa: SLF001 - of this class

        def scores(network: Any) -> dict[str, float]:
            device = str(next(network.parameters()).device)
            return evaluate(model_type(network, info=info, device=device, **ingredients))  # type: ignore[misc]

        training = train(
            network, batches(), settings, evaluate=None if evaluate is None else scores,
            folder=home / _CHECKPOINTS, name=cls.title, progress=progress_view(), key=key,
        )  # fmt: skip
        network.zero_grad(set_to_none=True)  # gradients take as much memory as the weights
        info = {**info, "steps": training.steps, "stopped": training.stopped}
        model = model_type(network.eval(), info=info, device=settings.device, **ingredients, **options)
        model.training_record = training
        if training.stopped in _FINISHED and first:
            model.save(home)
            shutil.rmtree(home / _CHECKPOINTS, ignore_errors=True)
            cache.make_room()
        broadcast_object_list([None])  # it is written before another process looks
        return model  # type: ignore[no-any-return]

    @classmethod
    def load(
        cls, folder: Path | str, *, trust_remote_code: bool = False, device: str | None = None, **options: Any
    ) -> Self:
        """Read a model that `save` wrote; its weights are read when they are first used.

        The options are those of the class that replace the saved ones. DataError if the folder holds no model
        of this class.
        """
        model: Self = super().load(folder, trust_remote_code=trust_remote_code)  # type: ignore[misc]
        model.device = device
        model._set(options)
        return model

    def _set(self, options: Mapping[str, Any]) -> None:
        """Change options of the class."""
        raise NotImplementedError

    @property
    def device(self) -> str:
        """Device of the computation."""
        return str(torch_device(self._wanted_device))

    @device.setter
    def device(self, device: str | None) -> None:
        self._wanted_device = device

    @property
    def network(self) -> Any:
        """The network on its device, ready for prediction; read from disk when it is first used."""
        if self._network is None:
            with (
                reading(self._folder, "this network", hint="fit it again"),
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
            write_atomic(folder / RECORD, json.dumps(asdict(self.training_record)))

    def _read_network(self, folder: Path, digest: str) -> None:
        """Remember where the weights lie, and read the history of the training."""
        self._folder, self._digest = folder, digest
        cache.touch(folder)
        if (folder / RECORD).is_file():
            with reading(folder / RECORD, "this record of a training", hint="fit it again"):
                self.training_record = Training(**read_json(folder / RECORD))


def _tensors(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights, each tensor once, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}


def _weights_digest(tensors: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of all weights: names, types, shapes, bits."""
    chunks: list[str | bytes] = []
    for name, value in sorted(tensors.items()):
        chunks += [f"{name} {value.dtype} {tuple(value.shape)}"]
        chunks += [cache.digest(memoryview(value.reshape(-1).view(torch.uint8).numpy()))]  # type: ignore[arg-type]
    return cache.digest(*chunks)


def _read_weights(file: Path, network: nn.Module, expected: str) -> None:
    """Read weights into a network that was built with the same sizes."""
    with reading(file, "these weights", hint="fit it again"):
        tensors = load_file(file)
        if _weights_digest(tensors) != expected:
            raise ValueError("the weights are not those that were written")
        network.load_state_dict(tensors)


def _home(config: dict[str, Any], folder: Path | str | None, cached_in: str) -> Path:
    """Return a training's folder with its configuration; DataError if it holds a different training."""
    key = cache.digest(json.dumps(config, sort_keys=True))
    home = cache_home() / cached_in / key if folder is None else Path(folder)
    file = home / _CONFIG
    with contextlib.suppress(DataError), reading(file):
        if read_json(file)["key"] == key:
            return home
    if folder is not None and file.exists():  # in the cache, the name of the folder is the key
        raise DataError(
            "this folder holds a training with different texts or options, or a damaged one", file=file,
            hint="name another folder, or remove it",
        )  # fmt: skip
    write_atomic(file, json.dumps({"key": key, **config}, indent=1))
    return home
