"""ln p of targets under a softmax over many classes, without the logits of all rows in memory at once.

Rows are taken in chunks. :func:`surprise` computes the gradients together with the sum, while the
probabilities of a chunk are at hand ("fused linear cross-entropy"). :func:`log_probs` tells each row's ln p;
for the gradients it computes the logits a second time, unless there is one chunk alone. Products are made in
the dtype that autocast says. Log-sum-exp, probabilities and sums over chunks are float32, or float64 where
all is float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from workbench.models.neural.networks.shapes import Float, Int

_ROWS = 512  # in a chunk at least: with fewer, reading the weights takes longer than the products
_CELLS = {"cpu": 1 << 25, "cuda": 1 << 27}  # logits in a chunk, where these are more rows
LEAST = 1e-30  # probability whose inverse is still a float32


def surprise(
    hidden: Float[Tensor, "n width"],
    weight: Float[Tensor, "k width"],
    bias: Float[Tensor, " k"],
    target: Int[Tensor, " n"],
    mixture: tuple[Float[Tensor, " n"], Float[Tensor, " n"]] | None = None,
) -> Float[Tensor, ""]:
    """Return the sum of -ln p of the targets, p being ``softmax(hidden @ weight.T + bias)``.

    Parameters
    ----------
    hidden, weight, bias : Tensor
    target : Int[Tensor, " n"]
        Classes.
    mixture : two of Float[Tensor, " n"], optional
        What each p is mixed with: ln of the share of the softmax, and what else adds to the probability of
        the target; the sum is then that of ``-ln(exp(share) * p + other)``.
    """
    if mixture is None and len(chunks(len(hidden), len(weight), hidden.device)) == 1:
        return -log_probs(hidden, weight, bias, target).sum()
    share, other = mixture or (None, None)
    inputs = (hidden, weight, bias, target, share, other, _dtype(hidden))
    if _wanted(hidden, weight, bias, share, other):
        found: Tensor = _Surprise.apply(*inputs)
        return found
    return _sum(*inputs, gradients=False)[0]


def log_probs(
    hidden: Float[Tensor, "n width"],
    weight: Float[Tensor, "k width"],
    bias: Float[Tensor, " k"],
    target: Int[Tensor, " n"],
) -> Float[Tensor, " n"]:
    """Return ln p of the target of each row, p being ``softmax(hidden @ weight.T + bias)``."""
    dtype = _dtype(hidden)
    if _wanted(hidden, weight, bias):
        found: Tensor = _LogProbs.apply(hidden, weight, bias, target, dtype)
        return found
    parts = _parts(hidden, weight, bias, target, dtype)
    return torch.cat([own for _, _, own, _ in parts])


def log_softmax(
    hidden: Float[Tensor, "n width"], weight: Float[Tensor, "k width"], bias: Float[Tensor, " k"]
) -> Float[Tensor, "n k"]:
    """Return ln p of all classes, for all rows at once."""
    return torch.log_softmax(torch.nn.functional.linear(hidden, weight).to(bias.dtype) + bias, -1)


def chunks(n: int, k: int, device: torch.device) -> list[slice]:
    """Return the parts of `n` rows of `k` logits that are worked on at a time; one at least."""
    size = max(_ROWS, _CELLS.get(device.type, _CELLS["cpu"]) // k)
    number = max(1, -(-n // size))
    bounds = [n * part // number for part in range(number + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]


def _dtype(hidden: Tensor) -> torch.dtype:
    """Return the dtype of the products."""
    kind = hidden.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else hidden.dtype


def _wanted(*inputs: Tensor | None) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)


def _parts(
    hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor, dtype: torch.dtype
) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
    """Yield each chunk: its rows, hidden in `dtype`, ln p of the targets, and p of all classes.

    On a CPU all chunks have their p in the same memory: it is expensive to get there.
    """
    n, k = len(hidden), len(weight)
    places = chunks(n, k, hidden.device)
    here = dtype == weight.dtype == bias.dtype and hidden.device.type == "cpu"
    here = here and not torch.compiler.is_compiling()
    most = max(place.stop - place.start for place in places)
    memory = torch.empty(most if here else 0, k, dtype=dtype, device=hidden.device)
    turned = weight.to(dtype).t()
    for place in places:
        rows, wanted = hidden[place].to(dtype), target[place, None]
        if not here:
            found = torch.log_softmax((rows @ turned).to(bias.dtype) + bias, -1)
            yield place, rows, found.gather(1, wanted)[:, 0], found.exp_()
            continue
        logits = torch.addmm(bias, rows, turned, out=memory[: len(rows)])
        p = torch.softmax(logits, 1, out=logits)  # a row is read before it is written
        own = p.gather(1, wanted)[:, 0]
        few = (own < LEAST).nonzero()[:, 0]
        own.log_()
        if len(few):  # too small to be told from p
            own[few] = torch.log_softmax(torch.addmm(bias, rows[few], turned), 1).gather(1, wanted[few])[:, 0]
        yield place, rows, own, p


class _Gradients:
    """Sums over chunks; `error` is p minus 1 at the target, the gradient of -ln p in the logits."""

    def __init__(self, weight: Tensor, bias: Tensor, dtype: torch.dtype) -> None:
        self.factor, self.dtype = weight.to(dtype), bias.dtype
        self.hidden: list[Tensor] = []
        self.weight, self.bias = torch.empty(0), torch.empty(0)

    def add(self, rows: Tensor, error: Tensor, scale: Tensor | None = None) -> None:
        """Add those of a chunk, `scale` times each row's."""
        if scale is None:
            of_bias = error.sum(0)
            error = error.to(rows.dtype)
            self.hidden.append(error @ self.factor)
        else:
            of_bias = (scale.to(error.dtype) @ error).to(self.dtype)
            error = error.to(rows.dtype)
            self.hidden.append((error @ self.factor) * scale[:, None])
            rows = (rows * scale[:, None]).to(rows.dtype)
        if len(self.hidden) == 1:
            self.weight, self.bias = (error.t() @ rows).to(self.dtype), of_bias
        elif rows.dtype == self.dtype:
            self.weight.addmm_(error.t(), rows)
            self.bias += of_bias
        else:
            self.weight += error.t() @ rows
            self.bias += of_bias

    def all(self, hidden: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return those of hidden, weight and bias."""
        return _joined(self.hidden).to(hidden.dtype), self.weight.to(weight.dtype), self.bias


def _sum(  # noqa: PLR0917 - inputs of an autograd function
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    target: Tensor,
    share: Tensor | None,
    other: Tensor | None,
    dtype: torch.dtype,
    *,
    gradients: bool = True,
) -> tuple[Tensor, ...]:
    """Return the sum of -ln p and, if wanted, its gradients in hidden, weight, bias, share and other."""
    found = bias.new_zeros(())
    sums, of_share, of_other = _Gradients(weight, bias, dtype), [], []
    for place, rows, own, p in _parts(hidden, weight, bias, target, dtype):
        part, scale = own, None
        if share is not None and other is not None:
            kept = own + share[place]
            part = torch.logaddexp(kept, other[place].clamp_min(LEAST).log())
            scale = (kept - part).exp()  # how much of the probability is the softmax'
            of_share.append(-scale)
            of_other.append(-(-part).exp())
        found = found - part.sum()
        if gradients:
            sums.add(rows, _less(p, target[place]), scale)
    if not gradients:
        return (found,)
    return found, *sums.all(hidden, weight), *(torch.cat(x) for x in (of_share, of_other) if x)


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _as_told(x: Tensor) -> AbstractContextManager[object]:
    """Let operations keep the dtypes that they are given."""
    kind = x.device.type
    return torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext()


def _less(p: Tensor, target: Tensor) -> Tensor:
    """Return p minus 1 at the target, in place."""
    p[torch.arange(len(p), device=p.device), target] -= 1
    return p


class _Surprise(torch.autograd.Function):
    """The sum of -ln p; the gradients are there before they are asked for."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Compute all, and keep the gradients."""
        with _as_told(inputs[0]):
            found, *gradients = _sum(*inputs)
        ctx.save_for_backward(*gradients)
        return found

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply them by what comes from above."""
        hidden, weight, bias, *mixture = (above.to(x.dtype) * x for x in ctx.saved_tensors)
        share, other = mixture or (None, None)
        return hidden, weight, bias, None, share, other, None


class _LogProbs(torch.autograd.Function):
    """ln p of each row."""

    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        """Keep the probabilities if there is one chunk."""
        hidden, weight, bias, target, ctx.dtype = inputs
        found, errors = [], []
        with _as_told(hidden):
            for place, _, own, p in _parts(*inputs):
                found.append(own)
                if len(own) == len(hidden):
                    errors = [_less(p, target[place]).to(ctx.dtype)]
        ctx.save_for_backward(hidden, weight, bias, target, *errors)
        return _joined(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor | None, ...]:
        """Use what was kept, or compute it again."""
        hidden, weight, bias, target, *errors = ctx.saved_tensors
        with _as_told(hidden):
            sums = _Gradients(weight, bias, ctx.dtype)
            if errors:
                sums.add(hidden.to(ctx.dtype), errors[0], -above)
            else:
                for place, rows, _, p in _parts(hidden, weight, bias, target, ctx.dtype):
                    sums.add(rows, _less(p, target[place]), -above[place])
            return *sums.all(hidden, weight), None, None
