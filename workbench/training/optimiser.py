"""The optimiser of the training loop: AdamW, and its lazy form for sparse gradients."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from workbench.training.settings import TrainingSettings

_EPSILON = 1e-8
_MOMENTS = ("mean", "square")


class AdamW:
    """Adam with weight decay beside the gradient (Loshchilov and Hutter 2019, algorithm 2).

    The steps are those of ``torch.optim.AdamW(fused=True)``, computed by its function. The class imports
    torch's compiler when the first one is made (torch 2.15: 1.5 seconds of processor time per process, 4 to 8
    seconds on a busy machine), which no option prevents. Matrices decay, vectors do not. Of a matrix with a
    sparse gradient only the rows that occur in a batch change, their means too, as with
    ``torch.optim.SparseAdam``, which has no weight decay: "lazy" Adam.
    """

    def __init__(self, trained: Mapping[str, Tensor], settings: TrainingSettings) -> None:
        self.trained, self.settings = trained, settings
        self._rows: dict[str, Tensor] = {}  # that occur, of the matrices with sparse gradients
        self._parts: dict[str, Tensor] = {}  # of each weight, with its gradient
        zeros = [{name: torch.zeros_like(weight) for name, weight in trained.items()} for _ in _MOMENTS]
        steps = {name: torch.zeros((), device=weight.device) for name, weight in trained.items()}
        self.state = {**dict(zip(_MOMENTS, zeros, strict=True)), "steps": steps}

    @torch.no_grad()
    def changed(self) -> list[Tensor]:
        """Return the weights that a step changes, with gradients: of sparse ones a copy of their rows."""
        self._rows, self._parts = {}, dict(self.trained)
        for name, weight in self.trained.items():
            if weight.grad is not None and weight.grad.is_sparse:
                gradient = weight.grad.coalesce()
                [self._rows[name]] = gradient.indices()
                self._parts[name] = weight[self._rows[name]]
                self._parts[name].grad = gradient.values()
        return list(self._parts.values())

    @torch.no_grad()
    def step(self, rate: float, *, skip: Tensor) -> None:
        """Update the weights of `changed` at a rate; skip the step where `skip`, on the same device, is 1."""
        for is_matrix, decay in ((True, self.settings.weight_decay), (False, 0.0)):
            names = [name for name, weight in self.trained.items() if (weight.ndim > 1) == is_matrix]
            if not names:
                continue
            weights = [self._parts[name] for name in names]
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            means, squares = (
                [self._occurring(name, self.state[moment][name]) for name in names] for moment in _MOMENTS
            )
            steps = [self.state["steps"][name] for name in names]
            adamw(
                weights, gradients, means, squares, [], steps, fused=True, found_inf=skip, lr=rate,
                beta1=self.settings.betas[0], beta2=self.settings.betas[1], weight_decay=decay, eps=_EPSILON,
                amsgrad=False, maximize=False,
            )  # fmt: skip
            for name, *updates in zip(names, weights, means, squares, strict=True):
                if name in self._rows:
                    tensors = (self.trained[name], *(self.state[moment][name] for moment in _MOMENTS))
                    for values, update in zip(tensors, updates, strict=True):
                        values.index_copy_(0, self._rows[name], update)

    def _occurring(self, name: str, values: Tensor) -> Tensor:
        """Return a copy of the rows that occur, or all where the gradient is not sparse."""
        return values[self._rows[name]] if name in self._rows else values

    def load(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Copy the `state` of another optimiser."""
        for moment, tensors in self.state.items():
            for name, values in tensors.items():
                values.copy_(state[moment][name])
