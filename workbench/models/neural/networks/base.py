"""What all networks share: ids in, states and a softmax out."""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from workbench.models.neural.networks.shapes import Float, Int
from workbench.models.neural.softmax import AdaptiveSoftmax, FullSoftmax

State = tuple[Tensor, ...] | None
"""What a network remembers of the text so far; every tensor has the rows first. None: the text begins."""


class Last(NamedTuple):
    """What predicts the word after each context.

    A word has the probability ``exp(keep) * softmax``, and the sum of ``copy`` over the places of the context
    where it stands.

    Attributes
    ----------
    hidden : Float[Tensor, "rows width"]
        What the softmax predicts from.
    ids : Int[Tensor, "rows time"], optional
        Extended ids of the words that can be copied.
    copy : Float[Tensor, "rows time"], optional
        Probability that the word is copied from each place; 0 for padding.
    keep : Float[Tensor, " rows"], optional
        ln of the share of the softmax; None: all of it, nothing is copied.
    """

    hidden: Tensor
    ids: Tensor | None = None
    copy: Tensor | None = None
    keep: Tensor | None = None


class Network(nn.Module):
    """A language model over the words of a vocabulary; sub-classes say how a text becomes states.

    Attributes
    ----------
    n_words : int
        Classes of the softmax: 0 is ``<unk>``, the words of the vocabulary follow by falling frequency.
    width : int
        Of the states from which words are predicted.
    window : int or None
        Longest context that can be used, in words; None: any.
    output : FullSoftmax or AdaptiveSoftmax
    """

    n_words: int
    width: int
    window: int | None = None
    output: FullSoftmax | AdaptiveSoftmax

    @abstractmethod
    def states(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return what the word after each place is predicted from, and what is remembered.

        Parameters
        ----------
        ids : Int[Tensor, "rows time"]
            Classes of the words (see :func:`known`).
        state : tuple of Tensor, optional
            What the network remembers of the text before; None: nothing is before.
        """

    def forward(self, batch: dict[str, Tensor], state: State = None) -> tuple[Tensor, State]:
        """Return the mean of -ln p of the words after the first, in nats, and what is remembered.

        Parameters
        ----------
        batch : dict
            ``"ids"``: extended ids, Int[Tensor, "rows length+1"]; each word but the last is read, each but
            the first predicted.
        state : tuple of Tensor, optional
            What was remembered of the text before.
        """
        ids = known(batch["ids"], self.n_words)
        hidden, state = self.states(ids[:, :-1], state)  # (rows, length, width)
        return self.output.loss(hidden.flatten(0, 1), ids[:, 1:].flatten()), state

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> Last:
        """Return what predicts the word after each context.

        Parameters
        ----------
        ids : Int[Tensor, "rows time"]
            Extended ids, padded at the right.
        lengths : Int[Tensor, " rows"]
            Words of each context, at least one.
        """
        ids, lengths = recent(ids, lengths, self.window)
        hidden, _ = self.states(known(ids, self.n_words))
        row = torch.arange(len(ids), device=ids.device)
        return Last(hidden[row, lengths - 1])

    def following(
        self,
        ids: Int[Tensor, "rows time"],
        state: State = None,
        *,
        start: int = 0,
        share: float | None = None,  # noqa: ARG002 - of networks that copy
    ) -> Float[Tensor, "rows rest"]:
        """Return ln p of each word given all before it, shape (rows, time - 1 - start).

        A word outside the vocabulary counts as ``<unk>``, with the whole probability of that class.

        Parameters
        ----------
        ids : Int[Tensor, "rows time"]
            Extended ids.
        state : tuple of Tensor, optional
            What is remembered of the text before.
        start : int, default 0
            Of so many words after the first nothing is said; they are read only.
        share : float, optional
            Of networks that copy, which tell unknown words apart: what is subtracted from ln p(``<unk>``) for
            one of them; by default what the network was trained with.
        """
        ids = known(ids, self.n_words)
        hidden, _ = self.states(ids[:, :-1], state)
        hidden, wanted = hidden[:, start:], ids[:, 1 + start :]
        found: Tensor = self.output(hidden.flatten(0, 1), wanted.flatten())
        return found.view(wanted.shape)


def known(ids: Int[Tensor, "*shape"], n_words: int) -> Int[Tensor, "*shape"]:
    """Return the classes of words: 0, ``<unk>``, for extended ids beyond the vocabulary."""
    return torch.where(ids >= n_words, 0, ids)


def recent(
    ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"], window: int | None
) -> tuple[Int[Tensor, "rows most"], Int[Tensor, " rows"]]:
    """Return the last words of contexts that are padded at the right, `window` at most, padded likewise."""
    time = ids.shape[1]
    if window is None or time <= window:
        return ids, lengths
    start = (lengths - window).clamp_min(0)
    place = start[:, None] + torch.arange(window, device=ids.device)  # (rows, window)
    found = ids.gather(1, place.clamp_max(time - 1))
    lengths = lengths - start
    return found.masked_fill(torch.arange(window, device=ids.device) >= lengths[:, None], 0), lengths
