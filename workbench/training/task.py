"""What a training is asked to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from workbench.texts.batches import Batches
from workbench.training.checkpoint import shapes, weights
from workbench.training.progress import Watch
from workbench.training.settings import Settings

Evaluate = Callable[[nn.Module], dict[str, float]]


@dataclass
class Task:
    """What was asked of :func:`workbench.training.loop.train`."""

    network: nn.Module
    batches: Batches
    settings: Settings
    evaluate: Evaluate | None
    folder: Path | None
    watch: Watch
    name: str
    key: str

    def identity(self) -> dict[str, Any]:
        """Return what it is of, as JSON holds it; a checkpoint of anything else is refused."""
        batches, first = self.batches, hashlib.sha256()
        for name, values in sorted(batches.batch(0).items()):
            first.update(f"{name} {values.dtype} {values.shape} ".encode() + values.tobytes())
        told = {name: getattr(batches, name) for name in ("rows", "tokens", "steps", "carried")}
        return {
            "network": shapes(weights(self.network)),
            "settings": self.settings.identity(),
            "batches": {"kind": type(batches).__name__, **told, "first": first.hexdigest()},
            "text": {"key": self.key},
        }
