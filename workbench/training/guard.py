"""Numbers that are none: no step is taken from them; the first is remembered, no GPU is waited for."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from workbench.training.gradients import State

_NAMED = 3  # parameters that a message names


class Guard:
    """Watches the loss and the gradients of each step.

    From the first that is not finite on `bad` is 1. AdamW takes no step then (it reads it where a
    gradient scaler would leave it), so the weights stay as they were before that step, however much later
    somebody looks.

    Parameters
    ----------
    trained : mapping
        Parameters by their names.
    device : torch.device
    step : int
        Steps that were done before.
    """

    def __init__(self, trained: Mapping[str, Tensor], device: torch.device, step: int = 0) -> None:
        self.trained = trained
        self.bad = torch.zeros((), device=device)
        self._good = torch.full((), float(step), dtype=torch.float64, device=device)  # steps that were finite
        self._what = torch.zeros(len(trained) + 2, dtype=torch.bool, device=device)  # what was not, then

    def look(self, loss: Tensor) -> Tensor:
        """Take note of a step; return the norm of its gradient, all parameters together."""
        gradients = [weight.grad for weight in self.trained.values() if weight.grad is not None]
        norms = torch.stack([*torch._foreach_norm(gradients)])  # noqa: SLF001 - what clip_grad_norm_ uses
        norm: Tensor = norms.norm()
        seen = torch.cat([norms, norm[None], loss[None]])  # (parameters + 2,)
        self._what = torch.where(self.bad == 0, ~seen.isfinite(), self._what)
        self.bad.copy_(self._what.any())
        self._good += 1 - self.bad
        return norm

    def kept(self, before: State, after: State) -> State:
        """Return the state after a step, the one before it if that was not finite."""
        if after is None:
            return None
        old = before or tuple(torch.zeros_like(values) for values in after)
        return tuple(torch.where(self.bad == 0, new, was) for was, new in zip(old, after, strict=True))

    def found(self) -> tuple[int, str] | None:
        """Return how many steps were sound, and what was not finite in the next; None if all were.

        It waits for the device.
        """
        if not self.bad.item():
            return None
        *weights, _, loss = self._what.tolist()
        names = [name for name, bad in zip(self.trained, weights, strict=True) if bad]
        told = ["the loss"] if loss else []
        if names:
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            told.append(f"the gradient of {', '.join(names[:_NAMED])}{more} ({len(names)} of {len(weights)})")
        return int(self._good.item()), " and ".join(told) or "the length of the gradient"
