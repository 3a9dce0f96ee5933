"""A network on disk: its weights as safetensors, checked when they are read; its words and their counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.items.schema import DataError
from workbench.storage import cache
from workbench.storage.files import atomic_path
from workbench.training.history import Training

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.models.neural.networks.base import Network

FILE, VOCABULARY, COUNTS, RECORD = "weights.safetensors", "vocabulary.txt", "counts.json", "training.json"


def _tensors(network: Network) -> dict[str, Tensor]:
    """Return what is kept of a network: each tensor once, on the CPU."""
    return {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}


def digest(network: Network) -> str:
    """Return the SHA-256 of all weights: names, types, shapes, bits."""
    return _digest(_tensors(network))


def _digest(tensors: dict[str, Tensor]) -> str:
    import torch  # noqa: PLC0415 - slow

    parts: list[str | bytes] = []
    for name, value in sorted(tensors.items()):
        parts += [f"{name} {value.dtype} {tuple(value.shape)}"]
        parts += [cache.digest(memoryview(value.reshape(-1).view(torch.uint8).numpy()))]  # type: ignore[arg-type]
    return cache.digest(*parts)


def versions(network: Network) -> tuple[Any, ...]:
    """Return what changes when some weights are changed in place."""
    return tuple((value.data_ptr(), value._version) for value in network.state_dict().values())  # noqa: SLF001


def write(folder: Path, network: Network) -> None:
    """Write the weights into a folder, whole or not at all."""
    from safetensors.torch import save_file  # noqa: PLC0415 - slow

    with atomic_path(folder / FILE) as path:
        save_file(_tensors(network), path)


def write_words(folder: Path, words: Sequence[str], counts: Sequence[int], record: Training | None) -> None:
    """Write a vocabulary (V,), the counts (V + 1,) of ``<unk>`` and its words, and how the training went."""
    with atomic_path(folder / VOCABULARY) as path:
        path.write_text("\n".join(words), encoding="utf-8", newline="\n")
    with atomic_path(folder / COUNTS) as path:
        path.write_text(json.dumps(list(counts)), encoding="utf-8")
    if record is not None:
        with atomic_path(folder / RECORD) as path:
            path.write_text(json.dumps(record.to_json()), encoding="utf-8")


def read_words(folder: Path) -> tuple[list[str], list[int], Training | None]:
    """Return what `write_words` wrote; OSError or ValueError where it is not there or torn."""
    words = (folder / VOCABULARY).read_bytes().decode().split("\n")
    counts = json.loads((folder / COUNTS).read_text(encoding="utf-8"))
    record = folder / RECORD
    told = Training.from_json(json.loads(record.read_text(encoding="utf-8"))) if record.is_file() else None
    return words, counts, told


def read(folder: Path, network: Network, expected: str | None) -> str:
    """Read weights into a network that was built with the same sizes; return their digest.

    Raises
    ------
    DataError
        If they are not there, damaged, of another network, or their digest is not the one expected.
    """
    from safetensors import SafetensorError  # noqa: PLC0415 - slow
    from safetensors.torch import load_file  # noqa: PLC0415

    try:
        found = load_file(folder / FILE)
        network.load_state_dict(found)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise DataError(
            f"the weights cannot be read: {str(error)[:300]}", file=folder / FILE, remedy="fit it again"
        ) from None
    said = _digest(found)
    if expected not in {None, said}:
        raise DataError("the weights are not those that were written", file=folder, remedy="fit it again")
    return said
