"""Checkpoints: everything that a training needs to go on as if it had never stopped, whole or not there."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from workbench.items.schema import DataError
from workbench.storage.files import atomic_path

VERSION = 1
"""Of the files' form."""

WEIGHTS, REST, STATE = "weights.safetensors", "optimiser.safetensors", "state.json"

_ASIDE = ".aside-"
_NAME = re.compile(r"step-\d{8,}")


@dataclass
class Checkpoint:
    """A training after some steps.

    Attributes
    ----------
    step : int
        Steps that are done.
    identity : dict
        What the training is of, part by part, as JSON holds it: it goes on with the same only.
    told : dict
        What else is to be known, as JSON holds it.
    weights : dict of Tensor
        As `weights` gives them.
    rest : dict of Tensor
        The optimiser's means, carried states and the states of the random numbers, by names.
    """

    step: int
    identity: dict[str, Any]
    told: dict[str, Any]
    weights: dict[str, Tensor] = field(default_factory=dict)
    rest: dict[str, Tensor] = field(default_factory=dict)


def name_of(step: int) -> str:
    """Return the name of a checkpoint's folder."""
    return f"step-{step:08d}"


def save(folder: Path, checkpoint: Checkpoint, *, keep: Iterable[int] = ()) -> Path:
    """Write a checkpoint; afterwards remove the others.

    It is filled aside and then renamed, so a process that is killed leaves it whole or not at all. A
    checkpoint of the same step has the same tensors, so only what is told is written anew then.

    Parameters
    ----------
    folder : Path
        Of the training; made where it is missing.
    checkpoint : Checkpoint
    keep : iterable of int
        Steps of older checkpoints that stay.

    Returns
    -------
    Path
        The folder of the checkpoint.

    Raises
    ------
    DataError
        If it cannot be written, as on a full disk; older ones are untouched then.
    """
    place = folder / name_of(checkpoint.step)
    try:
        if place.is_dir():
            with atomic_path(place / STATE) as temporary:
                temporary.write_bytes(_state(checkpoint, _sizes(place)))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            _fill(folder, place, checkpoint)
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or error
        raise DataError(
            f"the checkpoint cannot be written ({why})",
            file=place,
            remedy="make room, or pass another folder; what was saved before is untouched",
        ) from error
    prune(folder, {checkpoint.step, *keep})
    return place


def prune(folder: Path, keep: Iterable[int]) -> None:
    """Remove the checkpoints of all other steps, such as those that a killed process left."""
    names = {name_of(step) for step in keep}
    for place in _all(folder):
        if place.name not in names:
            _remove(place)


def newest(folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, None without one; torn ones are removed.

    Raises
    ------
    DataError
        If it is of another version of this program, or cannot be read now.
    """
    for leftover in folder.glob(f"{_ASIDE}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for place in sorted(_all(folder), key=lambda path: int(path.name[5:]), reverse=True):
        if (found := read(place)) is not None:
            return found
        _remove(place)
    return None


def read(place: Path) -> Checkpoint | None:
    """Return the checkpoint in a folder, its tensors on the CPU, None if it is torn or changed.

    Raises
    ------
    DataError
        If it is of another version of this program, or cannot be read now.
    """
    try:
        told = json.loads((place / STATE).read_bytes())
        digest, version = told.pop("sha256"), told["version"]
        if version != VERSION:
            raise DataError(  # noqa: TRY301 - passed on below
                f"a checkpoint of version {version}, expected {VERSION}",
                file=place,
                remedy="go on with the version of this program that wrote it, or remove it",
            )
        if digest != _digest(told) or told["files"] != _sizes(place):
            return None
        return Checkpoint(
            step=told["step"], identity=told["identity"], told=told["told"],
            weights=load_file(place / WEIGHTS), rest=load_file(place / REST),
        )  # fmt: skip
    except DataError:
        raise
    except (FileNotFoundError, SafetensorError, ValueError, KeyError, TypeError, AttributeError):
        return None
    except OSError as error:  # it may be sound
        raise DataError(
            f"this checkpoint cannot be read ({error.strerror or error})",
            file=place,
            remedy="try again; remove it only if it is damaged",
        ) from error


def weights(network: nn.Module) -> dict[str, Tensor]:
    """Return a network's tensors by name; of names for the same tensor (tied weights) the first."""
    found: dict[str, Tensor] = {}
    seen: set[tuple[Any, ...]] = set()
    for name, values in network.state_dict().items():
        place = (values.data_ptr(), values.shape, values.stride()) if values.numel() else (name,)
        if place not in seen:
            seen.add(place)
            found[name] = values
    return found


def put(network: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Give a network the weights of another one that is built alike.

    Raises
    ------
    DataError
        If it is built otherwise.
    """
    own = weights(network)
    if problem := differ(shapes(own), shapes(tensors)):
        raise DataError(f"these weights are of another network: {problem}", remedy="build it as it was")
    with torch.no_grad():
        for name, values in own.items():
            values.copy_(tensors[name])


def shapes(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return type and shape of each tensor, in words."""
    return {name: f"{str(values.dtype)[6:]} {tuple(values.shape)}" for name, values in tensors.items()}


def joined(parts: Sequence[tuple[tuple[Tensor, ...] | None, tuple[Tensor, ...]]]) -> dict[str, Tensor]:
    """Return the carried states of all processes, joined, and their random numbers, by name."""
    states = [state for state, _ in parts if state is not None]
    found = {f"carried/{n}": torch.cat(values) for n, values in enumerate(zip(*states, strict=True))}
    for rank, (_, random) in enumerate(parts):
        found |= {f"random/{rank}/{n}": values for n, values in enumerate(random)}
    return found


def numbered(tensors: dict[str, Tensor], prefix: str) -> tuple[Tensor, ...]:
    """Return the tensors ``prefix/0``, ``prefix/1``, ... in order."""
    count = sum(name.rpartition("/")[0] == prefix for name in tensors)
    return tuple(tensors[f"{prefix}/{number}"] for number in range(count))


def differ(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Return in words where two mappings differ first; nothing if they are equal."""
    for name in [*here, *there]:
        if here.get(name) != there.get(name):
            return f"{name} is {there.get(name, 'missing')} there and {here.get(name, 'missing')} here"
    return ""


def _fill(folder: Path, place: Path, checkpoint: Checkpoint) -> None:
    aside = Path(tempfile.mkdtemp(dir=folder, prefix=_ASIDE))
    try:
        for name, tensors in ((WEIGHTS, checkpoint.weights), (REST, checkpoint.rest)):
            save_file(
                {key: values.detach().cpu().contiguous() for key, values in tensors.items()}, aside / name
            )
        (aside / STATE).write_bytes(_state(checkpoint, _sizes(aside)))
        for name in (WEIGHTS, REST, STATE):
            _to_disk(aside / name)
        aside.chmod(0o755)
        aside.rename(place)
        _to_disk(folder)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _state(checkpoint: Checkpoint, files: dict[str, list[Any]]) -> bytes:
    told = {
        "version": VERSION, "step": checkpoint.step, "identity": checkpoint.identity, "told": checkpoint.told,
        "files": files,
    }  # fmt: skip
    return json.dumps({**told, "sha256": _digest(told)}, indent=1).encode()


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _sizes(place: Path) -> dict[str, list[Any]]:
    """Return size and SHA-256 of the files with tensors."""
    found: dict[str, list[Any]] = {}
    for name in (WEIGHTS, REST):
        with (place / name).open("rb") as file:
            found[name] = [(place / name).stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()]
    return found


def _to_disk(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _all(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if path.is_dir() and _NAME.fullmatch(path.name)]


def _remove(place: Path) -> None:
    """Remove a folder; it has another name before it is in pieces."""
    aside = place.parent / f"{_ASIDE}{place.name}"
    with contextlib.suppress(OSError):
        place.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
