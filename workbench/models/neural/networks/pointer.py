"""Copying from the passage: a mixture of the softmax over the vocabulary and of earlier words.

The idea is that of pointer networks for language models (Merity et al. 2017, "Pointer sentinel mixture
models"): the probability of a word is the share that the softmax gives it, and that of all earlier places
where it stands. Words are told apart by their extended ids, so that one outside the vocabulary can be copied.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.networks.shapes import Bool, Float, Int


class Copied(NamedTuple):
    """What is copied at some places of a text.

    Attributes
    ----------
    keep : Float[Tensor, "rows asked"]
        ln of the share of the softmax.
    heads : Float[Tensor, "rows asked heads"]
        ln of each head's share.
    attention : Float[Tensor, "rows heads asked time"]
        Of each head; each row sums to 1 over the places up to its own.
    """

    keep: Tensor
    heads: Tensor
    attention: Tensor

    def places(self) -> Float[Tensor, "rows asked time"]:
        """Return the probability that each place is copied."""
        return torch.einsum("rah,rhat->rat", self.heads.exp(), self.attention)

    def of(self, same: Bool[Tensor, "rows asked time"]) -> Float[Tensor, "rows asked"]:
        """Return the probability of copying the next word; `same` tells where it stands."""
        mass = (self.attention * same[:, None]).sum(-1)  # (rows, heads, asked)
        return (self.heads.exp() * mass.transpose(1, 2)).sum(-1)


class Pointer(nn.Module):
    """Attention over the words read so far, in several heads, with a share for each and for the softmax.

    The query is the state from which the next word is predicted. The key of a place is made of the
    word that stands there and of the state that predicted it: a place is copied if its word fits, or if
    what led to it was like what was read last (as in the continuous cache of Grave et al. 2017).

    Parameters
    ----------
    width : int
        Of the states and of the embedded words.
    heads : int, default 4
    size : int, default 64
        Of the keys of a head.
    """

    def __init__(self, width: int, *, heads: int = 4, size: int = 64) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.query = nn.Linear(width, heads * size, bias=False)
        self.key = nn.Linear(2 * width, heads * size, bias=False)
        self.share = nn.Linear(width, heads + 1)
        with torch.no_grad():
            self.share.bias.zero_()
            self.share.bias[-1] = math.log(4 * heads)  # the softmax begins with four fifths

    def forward(
        self,
        states: Float[Tensor, "rows time width"],
        words: Float[Tensor, "rows time width"],
        asked: Int[Tensor, "rows asked"] | None = None,
        absent: Bool[Tensor, "rows time"] | None = None,
    ) -> Copied:
        """Say what is copied after each place, or after those asked for, of the words up to it.

        Nothing is copied from places that are `absent`; where no other is, all is left to the softmax.
        """
        rows, time, _ = states.shape
        place = torch.arange(time, device=states.device)
        at, asking = place, states
        if asked is not None:
            at, asking = asked[:, None], states[torch.arange(rows, device=states.device)[:, None], asked]
        before = functional.pad(states, (0, 0, 1, 0))[:, :-1]  # what predicted each word
        query = self.query(asking).view(rows, -1, self.heads, self.size).transpose(1, 2)
        key = self.key(torch.cat([before, words], -1)).view(rows, time, self.heads, self.size).transpose(1, 2)
        exact = torch.promote_types(states.dtype, torch.float32)
        scores = (query @ key.transpose(2, 3)).to(exact) / math.sqrt(self.size)  # (rows, heads, asked, time)
        later = place > at[..., None]  # (time, time), or (rows, 1, asked, time)
        if absent is not None:
            later = later | absent[:, None, None]
        attention = scores.masked_fill(later, -torch.inf).softmax(-1)
        share = self.share(asking).to(exact).log_softmax(-1)
        keep, heads = share[..., -1], share[..., :-1]
        if absent is not None:
            none = later.all(-1)[:, 0]  # (rows, asked)
            attention = attention.masked_fill(none[:, None, :, None], 0.0)
            keep, heads = keep.masked_fill(none, 0.0), heads.masked_fill(none[..., None], -torch.inf)
        return Copied(keep, heads, attention)


def mixed(
    vocabulary: Float[Tensor, "*shape"], keep: Float[Tensor, "*shape"], copied: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Return ln p of words from what the softmax says, ln of its share, and the probability of copying."""
    some = copied > 0
    mass = torch.where(some, copied, 1.0).log()
    return torch.where(some, torch.logaddexp(vocabulary + keep, mass), vocabulary + keep)
