"""Checkpoints: the state of a training to continue exactly, complete or absent.

Accelerate's ``save_state`` writes in place, so a kill leaves half of it; it has no state carried from batch
to batch, and restores the generators of Python and numpy as well.
"""

from __future__ import annotations

import contextlib
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from workbench.storage.cache import digest
from workbench.storage.checksums import sha256
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import atomic_folder, remove, write_atomic
from workbench.texts.batches import Batches
from workbench.training.settings import TrainingSettings

WEIGHTS, STATE, INFO = "weights.safetensors", "state.pt", "info.json"

CHECKPOINT_VERSION = 2
"""Form of the files; raised when a checkpoint of an earlier form is not continued."""

_NAME = re.compile(r"step-\d{8,}")


@dataclass
class TrainingState:
    """The state of a training after a step."""

    step: int
    identity: str  # of the training: no other continues from here
    info: dict[str, Any]  # history and other numbers, as JSON can hold them
    weights: dict[str, Tensor]  # as `weights` returns them
    state: dict[str, Any]  # optimiser, carried state, random generators: tensors, and lists and dicts of them


def folder_name(step: int) -> str:
    """Return the name of a checkpoint's folder."""
    return f"step-{step:08d}"


def save_checkpoint(folder: Path, checkpoint: TrainingState, *, keep: Iterable[int] = ()) -> None:
    """Write a checkpoint into the folder of a training, then remove all steps but `keep`.

    A checkpoint of the same step has the same tensors: only its `info` is written again. DataError if it
    cannot be written, as on a full disk; older ones are untouched then.
    """
    target = folder / folder_name(checkpoint.step)
    with writing(target, "this checkpoint", RuntimeError, SafetensorError):
        if target.is_dir():
            write_atomic(target / INFO, _info(checkpoint, target))
        else:
            with atomic_folder(target) as path:
                save_file(
                    {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.weights.items()},
                    path / WEIGHTS,
                )
                torch.save(checkpoint.state, path / STATE)
                (path / INFO).write_bytes(_info(checkpoint, path))
    names = {folder_name(step) for step in (checkpoint.step, *keep)}
    for path in _all(folder):
        if path.name not in names:
            _remove(path)


def newest(folder: Path) -> TrainingState | None:
    """Return the newest complete checkpoint, or None; damaged ones are removed, with a warning."""
    for path in sorted(_all(folder), key=lambda path: int(path.name[5:]), reverse=True):
        if (checkpoint := read_checkpoint(path)) is not None:
            return checkpoint
        warnings.warn(
            f"{path}: this checkpoint is damaged and removed; the training goes on from an earlier one,"
            " or from the beginning where there is none",
            stacklevel=2,
        )
        _remove(path)
    return None


def read_checkpoint(path: Path) -> TrainingState | None:
    """Return the checkpoint in a folder, its tensors on the CPU, None if it is damaged.

    DataError if it cannot be read now.
    """
    hint = "try again; remove it only if it is damaged"
    with reading(path, "this checkpoint", hint=hint):  # which may be whole
        try:
            content = json.loads((path / INFO).read_bytes())
            checksum = content.pop("sha256")
            is_whole = checksum == digest(json.dumps(content, sort_keys=True))
            is_whole = is_whole and content["files"] == _digests(path)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return TrainingState(
            step=content["step"], identity=content["identity"], info=content["info"],
            weights=load_file(path / WEIGHTS), state=torch.load(path / STATE, weights_only=True),
        ) if is_whole else None  # fmt: skip


def weights(network: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a network by name; of tied weights the first name only."""
    tensors: dict[str, Tensor] = {}
    seen: set[tuple[Any, ...]] = set()
    for name, values in network.state_dict().items():
        key = (values.data_ptr(), values.shape, values.stride()) if values.numel() else (name,)
        if key not in seen:
            seen.add(key)
            tensors[name] = values
    return tensors


def set_weights(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Copy weights into a network that is built alike."""
    with torch.no_grad():
        for name, values in weights(network).items():
            values.copy_(tensors[name])


def identity(network: nn.Module, batches: Batches, settings: TrainingSettings, key: str) -> str:
    """Return a digest of a training: of its network, settings, first batch, and the `key` of its data."""
    shapes = {name: [str(tensor.dtype), list(tensor.shape)] for name, tensor in weights(network).items()}
    first = {
        name: [str(values.dtype), list(values.shape), digest(values.tobytes())]
        for name, values in batches.batch(0).items()
    }
    sizes = [getattr(batches, name) for name in ("rows", "tokens", "steps", "carried")]
    content = [CHECKPOINT_VERSION, shapes, settings.identity(), type(batches).__name__, sizes, first, key]
    return digest(json.dumps(content, sort_keys=True))


@contextlib.contextmanager
def only_process(folder: Path) -> Iterator[None]:
    """Be the only process that trains in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / ".lock", timeout=0):
            yield
    except Timeout as error:
        raise DataError(
            "another process trains here", file=folder, hint="wait for it, end it, or pass another folder"
        ) from error


def random_state(device: torch.device) -> list[Tensor]:
    """Return the state of the random generators: of the CPU, and of the GPU where one computes."""
    gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *gpu]


def set_random_state(state: list[Tensor], device: torch.device) -> None:
    """Set the random generators to a state."""
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)


def seed_generators(seed: int, device: torch.device) -> None:
    """Seed the generator of the CPU, and that of the GPU where one computes."""
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would disturb all GPUs
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


def _info(checkpoint: TrainingState, path: Path) -> bytes:
    content = {
        "step": checkpoint.step, "identity": checkpoint.identity, "info": checkpoint.info,
        "files": _digests(path),
    }  # fmt: skip
    return json.dumps({**content, "sha256": digest(json.dumps(content, sort_keys=True))}, indent=1).encode()


def _digests(path: Path) -> dict[str, str]:
    """Return the SHA-256 of the files with tensors."""
    return {name: sha256(path / name) for name in (WEIGHTS, STATE)}


def _all(folder: Path) -> list[Path]:
    return [path for path in folder.glob("step-*") if path.is_dir() and _NAME.fullmatch(path.name)]


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        remove(path)
