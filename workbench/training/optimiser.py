"""AdamW on named parameters, by torch's fused kernel."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.optim.adamw import adamw

from workbench.training.settings import TrainingSettings

_EPSILON = 1e-8


class AdamW:
    """Adam with weight decay beside the gradient (Loshchilov and Hutter 2019, algorithm 2).

    It is ``torch.optim.AdamW(fused=True)`` without the class, whose first use imports the compiler: 2 to 11
    seconds a process. Matrices decay, vectors do not.
    """

    def __init__(self, trained: Mapping[str, Tensor], settings: TrainingSettings) -> None:
        self.trained, self.settings = trained, settings
        self._means = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        self._squares = {name: torch.zeros_like(weight) for name, weight in trained.items()}
        self._steps = {name: torch.zeros((), device=weight.device) for name, weight in trained.items()}

    @torch.no_grad()
    def step(self, rate: float, *, skip: Tensor) -> None:
        """Change the weights at a learning rate; nothing changes where `skip`, on the same device, is 1."""
        for is_matrix, decay in ((True, self.settings.weight_decay), (False, 0.0)):
            names = [name for name, weight in self.trained.items() if (weight.ndim > 1) == is_matrix]
            weights = [self.trained[name] for name in names]
            if not names:
                continue
            adamw(
                weights,
                [weight.grad for weight in weights if weight.grad is not None],
                [self._means[name] for name in names],
                [self._squares[name] for name in names],
                [],
                [self._steps[name] for name in names],
                fused=True,
                found_inf=skip,
                amsgrad=False,
                beta1=self.settings.betas[0],
                beta2=self.settings.betas[1],
                lr=rate,
                weight_decay=decay,
                eps=_EPSILON,
                maximize=False,
            )

    def state(self) -> dict[str, dict[str, Tensor]]:
        """Return the running means and the number of steps of each parameter."""
        return {"mean": self._means, "square": self._squares, "steps": self._steps}

    def load(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take over what `state` of another one returned."""
        for kind, tensors in self.state().items():
            for name, values in tensors.items():
                values.copy_(state[kind][name])
