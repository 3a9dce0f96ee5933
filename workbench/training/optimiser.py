"""The optimisers of the training loop: torch's AdamW, and its lazy form for sparse gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from workbench.training.settings import TrainingSettings

_EPSILON = 1e-8


def dense_optimiser(weights: Sequence[Tensor], settings: TrainingSettings) -> torch.optim.AdamW:
    """Return AdamW (Loshchilov and Hutter 2019) for weights; matrices decay, vectors do not."""
    groups = [
        {"params": [weight for weight in weights if weight.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [weight for weight in weights if weight.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=settings.betas, eps=_EPSILON, fused=True)


class SparseAdamW:
    """AdamW for matrices with sparse gradients: only the rows of a batch change, and their means ("lazy").

    It stays as long as ``torch.optim.SparseAdam`` (torch 2.15) has no weight decay.
    """

    def __init__(self, weights: Sequence[Tensor], settings: TrainingSettings) -> None:
        self.weights, self.settings = list(weights), settings
        self.state = [
            {
                "step": torch.zeros((), device=weight.device),
                "mean": torch.zeros_like(weight),
                "square": torch.zeros_like(weight),
            }
            for weight in self.weights
        ]
        self._indices: list[Tensor] = []
        self._rows: list[Tensor] = []

    @torch.no_grad()
    def rows(self) -> list[Tensor]:
        """Return copies of the rows that occur, with their gradients: what `step` updates."""
        self._indices, self._rows = [], []
        for weight in self.weights:
            gradient = weight.grad.coalesce()  # type: ignore[union-attr] # it was computed
            [index] = gradient.indices()
            rows = weight[index]
            rows.grad = gradient.values()
            self._indices.append(index)
            self._rows.append(rows)
        return self._rows

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Update the rows at a learning rate."""
        for weight, state, index, rows in zip(
            self.weights, self.state, self._indices, self._rows, strict=True
        ):
            mean, square = state["mean"][index], state["square"][index]
            adamw(
                [rows], [rows.grad], [mean], [square], [], [state["step"]], fused=True,  # type: ignore[list-item]
                lr=rate, beta1=self.settings.betas[0], beta2=self.settings.betas[1],
                weight_decay=self.settings.weight_decay, eps=_EPSILON, amsgrad=False, maximize=False,
            )  # fmt: skip
            for values, update in ((weight, rows), (state["mean"], mean), (state["square"], square)):
                values.index_copy_(0, index, update)

    def load(self, state: Sequence[dict[str, Tensor]]) -> None:
        """Copy the `state` of another optimiser."""
        for tensors, others in zip(self.state, state, strict=True):
            for name, values in tensors.items():
                values.copy_(others[name])
