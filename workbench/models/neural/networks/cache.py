"""A continuous cache beside any network: a word is likely again after a state like the one before it.

Grave, Joulin and Usunier 2017, "Improving Neural Language Models with a Continuous Cache", equations 2 to 4.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from workbench.models.neural.networks.base import Last, Network, State, known
from workbench.models.neural.networks.pointer import mixed
from workbench.models.neural.networks.shapes import Float, Int


class Cached(Network):
    """A network mixed with a cache of the states that it had since the text began.

    With states ``h[i]`` and the words ``x[i + 1]`` that followed them, the word after ``h[t]`` is w with the
    probability ``(1 - weight) p(w) + weight q(w)``; ``q(w)`` is the sum over i < t with ``x[i + 1] = w`` of
    the softmax over i of ``flatness * h[t] . h[i]``. After the first word of a text nothing is cached: the
    network speaks alone.

    Parameters
    ----------
    base : Network
    weight : float
        Of the cache, from 0 to below 1.
    flatness : float
        0 counts all places alike; the higher, the more the most similar states count.
    share : float, default 0
        What is subtracted from ln p(``<unk>``) for one unknown word, which is not cached.
    """

    def __init__(self, base: Network, weight: float, flatness: float, *, share: float = 0.0) -> None:
        super().__init__()
        self.base, self.output, self.n_words, self.width = base, base.output, base.n_words, base.width
        self.weight, self.flatness, self.share = weight, flatness, share
        device = next(base.parameters()).device
        carried = base.states(torch.zeros(1, 1, dtype=torch.int64, device=device))[1] is not None
        self.window = None if carried else base.window  # one that carries its words on reads any text

    def states(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return the network's states, and what it and the cache remember; see :meth:`read`."""
        return self.read(ids, state)

    def read(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return the network's states, and what it and the cache remember.

        Parameters
        ----------
        ids : Int[Tensor, "rows time"]
            Extended ids: words outside the vocabulary are cached too.
        state : tuple of Tensor, optional
            The network's own; cached states (rows, cached, width) and the words that followed them (rows,
            cached), -1 where there is none; and the last state (rows, width).
        """
        *own, keys, words, last = (None, None, None) if state is None else state
        hidden, new = self.base.states(known(ids, self.n_words), tuple(own) or None)
        if new is None:
            return hidden, None
        keys, words = self._pairs(hidden[:, :-1], ids, keys, words, last)
        return hidden, (*new, keys, words, hidden[:, -1])

    def _pairs(
        self,
        hidden: Float[Tensor, "rows rest width"],
        ids: Int[Tensor, "rows time"],
        keys: Tensor | None,
        words: Tensor | None,
        last: Tensor | None,
    ) -> tuple[Float[Tensor, "rows cached width"], Int[Tensor, "rows cached"]]:
        """Return states with the words after them: those remembered, and those of this stretch of text."""
        if keys is None or words is None or last is None:
            return hidden, ids[:, 1:]
        return torch.cat([keys, last[:, None], hidden], 1), torch.cat([words, ids], 1)

    def looked(
        self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]
    ) -> tuple[Float[Tensor, "rows width"], Int[Tensor, "rows rest"], Float[Tensor, "rows rest"]]:
        """Return the last state of each context, the words cached, and how alike their states are to it.

        The similarity ``h[t] . h[i]`` is -inf where nothing is cached.
        """
        hidden, _ = self.base.states(known(ids, self.n_words))
        row, place = torch.arange(len(ids), device=ids.device), torch.arange(ids.shape[1], device=ids.device)
        query = hidden[row, lengths - 1]  # (rows, width)
        alike = torch.einsum("rtw,rw->rt", hidden[:, :-1].float(), query.float())  # (rows, time - 1)
        words = ids[:, 1:]
        there = (place[1:] < lengths[:, None]) & (words != 0)
        return query, words, alike.masked_fill(~there, -torch.inf)

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> Last:
        """Return what predicts the word after each context, and what is copied from the cache."""
        query, words, alike = self.looked(ids, lengths)
        copy, keep = shares(alike, self.weight, self.flatness)
        return Last(query, words, copy, keep)

    def following(
        self,
        ids: Int[Tensor, "rows time"],
        state: State = None,
        *,
        start: int = 0,
        share: float | None = None,
    ) -> Float[Tensor, "rows rest"]:
        """Return ln p of each word given all before it, shape (rows, time - 1 - start).

        An unknown word has its share of ``<unk>``, and what is cached of it.
        """
        given, wanted = ids[:, :-1], ids[:, 1:]
        *own, keys, words, last = (None, None, None) if state is None else state
        hidden, _ = self.base.states(known(given, self.n_words), tuple(own) or None)
        classes = known(wanted, self.n_words)
        plain = self.output(hidden.flatten(0, 1), classes.flatten()).view(classes.shape)
        plain = plain - (self.share if share is None else share) * (wanted >= self.n_words)
        keys, words = self._pairs(hidden[:, :-1], given, keys, words, last)  # (rows, cached, width)
        place = torch.arange(wanted.shape[1], device=ids.device)
        before = words.shape[1] - wanted.shape[1] + 1 + place  # cached by the time of each place
        there = torch.arange(words.shape[1], device=ids.device) < before[:, None]  # (rest, cached)
        there = there & (words > 0)[:, None]
        alike = torch.einsum("rtw,rcw->rtc", hidden.float(), keys.float()).masked_fill(~there, -torch.inf)
        copy, keep = shares(alike, self.weight, self.flatness)
        same = words[:, None] == wanted[:, :, None]  # (rows, rest, cached)
        return mixed(plain, keep, (copy * same).sum(-1))[:, start:]


def shares(
    alike: Float[Tensor, "*shape cached"], weight: float, flatness: float
) -> tuple[Float[Tensor, "*shape cached"], Float[Tensor, "*shape"]]:
    """Return the probability that each place is copied, and ln of what is left to the network.

    Parameters
    ----------
    alike : Float[Tensor, "*shape cached"]
        Similarities of the states; -inf where nothing is cached. Without any, all is left to the network.
    weight, flatness : float
    """
    there = alike > -torch.inf
    some = there.any(-1)
    scores = torch.where(there, flatness * torch.where(there, alike, 0), -torch.inf)
    scores = torch.where(some[..., None], scores, 0.0)  # a softmax over nothing is not a number
    copy = weight * scores.softmax(-1) * there
    return copy, torch.where(some, math.log1p(-weight), 0.0).to(alike.dtype)
