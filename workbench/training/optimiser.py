"""AdamW on named parameters, by torch's fused kernel."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from workbench.training.settings import Settings

_EPSILON = 1e-8


class AdamW:
    """Adam with weight decay beside the gradient (Loshchilov and Hutter 2019, algorithm 2).

    It is ``torch.optim.AdamW(fused=True)`` without the class, whose first use loads the compiler: seconds, on
    a CPU for nothing. Its memory is taken at once. Matrices decay, vectors do not.

    Parameters
    ----------
    trained : mapping
        Parameters by their names.
    settings : Settings
    """

    def __init__(self, trained: Mapping[str, Tensor], settings: Settings) -> None:
        self.trained, self.settings = trained, settings
        self.means = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        self.squares = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        self.steps = {name: torch.zeros((), device=weight.device) for name, weight in trained.items()}

    @torch.no_grad()
    def step(self, rate: float, bad: Tensor) -> None:
        """Take a step at a learning rate, none where `bad`, on the same device, is 1."""
        matrices = [name for name, weight in self.trained.items() if weight.ndim > 1]
        vectors = [name for name, weight in self.trained.items() if weight.ndim <= 1]
        for names, decay in ((matrices, self.settings.weight_decay), (vectors, 0.0)):
            if names:
                weights = [self.trained[name] for name in names]
                adamw(
                    weights,
                    [weight.grad for weight in weights if weight.grad is not None],
                    [self.means[name] for name in names],
                    [self.squares[name] for name in names],
                    [],
                    [self.steps[name] for name in names],
                    fused=True,
                    found_inf=bad,
                    amsgrad=False,
                    beta1=self.settings.betas[0],
                    beta2=self.settings.betas[1],
                    lr=rate,
                    weight_decay=decay,
                    eps=_EPSILON,
                    maximize=False,
                )

    def tensors(self) -> dict[str, Tensor]:
        """Return all that it remembers, by name."""
        kinds = (("mean", self.means), ("square", self.squares), ("steps", self.steps))
        return {f"optimiser/{name}/{kind}": values for kind, held in kinds for name, values in held.items()}

    @torch.no_grad()
    def put(self, tensors: Mapping[str, Tensor]) -> None:
        """Remember what another one remembered."""
        for name, values in self.tensors().items():
            values.copy_(tensors[name])
