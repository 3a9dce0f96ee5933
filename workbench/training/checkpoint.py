"""Checkpoints: the state of a training to continue exactly, complete or absent.

Accelerate's ``save_state`` writes in place, so a kill leaves half of it, and it has no state carried from
batch to batch.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from workbench.storage.cache import digest
from workbench.storage.checksums import check_checksums, write_checksums
from workbench.storage.errors import DataError, writing
from workbench.storage.files import atomic_folder, read_json, remove
from workbench.texts.batches import Batches
from workbench.training.settings import TrainingSettings

WEIGHTS, STATE, INFO = "weights.safetensors", "state.pt", "info.json"

CHECKPOINT_VERSION = 3
"""Form of the files; raised when a checkpoint of an earlier form is not continued."""


_FOLDERS = "step-" + 8 * "[0-9]"


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

    DataError if it cannot be written, as on a full disk; older ones are untouched then.
    """
    target = folder / folder_name(checkpoint.step)
    with (
        writing(target, "this checkpoint", RuntimeError, SafetensorError),
        atomic_folder(target, replace=True) as path,
    ):
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in checkpoint.weights.items()}
        save_file(tensors, path / WEIGHTS)
        torch.save(checkpoint.state, path / STATE)
        info = {"step": checkpoint.step, "identity": checkpoint.identity, "info": checkpoint.info}
        (path / INFO).write_text(json.dumps(info, indent=1), encoding="utf-8")
        write_checksums(path)
    names = {folder_name(step) for step in (checkpoint.step, *keep)}
    for path in folder.glob(_FOLDERS):
        if path.name not in names:
            with contextlib.suppress(OSError):
                remove(path)


def newest(folder: Path) -> TrainingState | None:
    """Return the newest complete checkpoint, or None; a warning names damaged ones."""
    for path in sorted(folder.glob(_FOLDERS), reverse=True):
        try:
            return read_checkpoint(path)
        except DataError as error:
            warnings.warn(
                f"this checkpoint is damaged, an earlier one is used if there is one: {error}", stacklevel=2
            )
    return None


def read_checkpoint(path: Path) -> TrainingState:
    """Return the checkpoint in a folder, its tensors on the CPU; DataError if it is damaged or missing."""
    check_checksums(path, what="this checkpoint", hint=f"remove {path.parent} to train anew")
    return TrainingState(
        **read_json(path / INFO),
        weights=load_file(path / WEIGHTS),
        state=torch.load(path / STATE, weights_only=True),
    )


def weights(network: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a network by name; of tied weights the first name only."""
    names = {name for name, _ in chain(network.named_parameters(), network.named_buffers())}
    return {name: tensor for name, tensor in network.state_dict().items() if name in names}


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
