"""What all networks over words share: ids in, states and a softmax out, and words copied from the passage.

Class 0 is ``<unk>``; the words of the vocabulary follow by falling frequency. *Extended* ids go on beyond
them: each different word of a passage that is outside the vocabulary has one, so that it can be copied.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.models.neural.softmax import AdaptiveSoftmax, FullSoftmax

NONE = -1  # no word: before the beginning of a text

TextState = tuple[Tensor, ...] | None
"""What a network remembers of the text so far; every tensor has the rows first. None: the text begins."""


class Copies(NamedTuple):
    """Probabilities of copying the words of a passage.

    A word has the probability ``exp(keep) * softmax``, and the sum of `copy` over the places where it stands.

    Attributes
    ----------
    ids : Int[Tensor, "rows time"]
        Extended ids.
    copy : Float[Tensor, "rows time"]
        Probability of each place; 0 for padding.
    keep : Float[Tensor, " rows"]
        ln of the share of the softmax.
    """

    ids: Tensor
    copy: Tensor
    keep: Tensor


class ContextStates(NamedTuple):
    """What predicts the word after each context.

    Attributes
    ----------
    hidden : Float[Tensor, "rows width"]
        What the softmax predicts from.
    copies : Copies, optional
        None where nothing is copied.
    """

    hidden: Tensor
    copies: Copies | None = None


class LanguageModule(nn.Module):
    """A language model over the words of a vocabulary; sub-classes say how a text becomes states.

    Attributes
    ----------
    n_words : int
        Classes of the softmax.
    width : int
        Units of the states from which words are predicted.
    window : int or None
        Longest context that can be used, in words; None: any.
    stateful : bool
        Whether `states` returns what it remembers, so that it can go on with a text.
    output : FullSoftmax or AdaptiveSoftmax
    """

    n_words: int
    width: int
    window: int | None = None
    stateful: bool = True
    output: FullSoftmax | AdaptiveSoftmax

    @abstractmethod
    def states(
        self, ids: Int[Tensor, "rows time"], state: TextState = None
    ) -> tuple[Float[Tensor, "rows time width"], TextState]:
        """Return what the word after each place is predicted from, and what is remembered.

        Parameters
        ----------
        ids : Int[Tensor, "rows time"]
            Classes of the words (see :func:`known`).
        state : tuple of Tensor, optional
            What the network remembers of the text before; None: nothing is before.
        """

    def forward(self, batch: dict[str, Tensor], state: TextState = None) -> tuple[Tensor, TextState]:
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

    def remember(self, ids: Int[Tensor, "rows time"], state: TextState = None) -> TextState:
        """Return what is remembered after some words (extended ids)."""
        return self.states(known(ids, self.n_words), state)[1]

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> ContextStates:
        """Return what predicts the word after each context.

        Parameters
        ----------
        ids : Int[Tensor, "rows time"]
            Extended ids, padded at the right.
        lengths : Int[Tensor, " rows"]
            Words of each context, from one to `window`.
        """
        hidden, _ = self.states(known(ids, self.n_words))
        return ContextStates(hidden[torch.arange(len(ids), device=ids.device), lengths - 1])

    def following(
        self,
        ids: Int[Tensor, "rows time"],
        state: TextState = None,
        *,
        start: int = 0,
        share: float | None = None,  # noqa: ARG002 - of networks that copy
    ) -> Float[Tensor, "rows rest"]:
        """Return ln p of each word given all before it, shape (rows, time - 1 - start).

        A word outside the vocabulary counts as ``<unk>``, with the full probability of that class.

        Parameters
        ----------
        ids : Int[Tensor, "rows time"]
            Extended ids.
        state : tuple of Tensor, optional
            What is remembered of the text before.
        start : int, default 0
            Number of words after the first that are read but not predicted.
        share : float, optional
            Of networks that copy, which tell unknown words apart: what is subtracted from ln p(``<unk>``) for
            one of them; by default what the network was trained with.
        """
        ids = known(ids, self.n_words)
        hidden, _ = self.states(ids[:, :-1], state)
        hidden, target = hidden[:, start:], ids[:, 1 + start :]
        log_prob: Tensor = self.output(hidden.flatten(0, 1), target.flatten())
        return log_prob.view(target.shape)


def known(ids: Int[Tensor, "*shape"], n_words: int) -> Int[Tensor, "*shape"]:
    """Return the classes of words: 0, ``<unk>``, for extended ids beyond the vocabulary."""
    return torch.where(ids >= n_words, 0, ids)


def prepend(
    state: TextState, ids: Int[Tensor, "rows time"], size: int
) -> tuple[Int[Tensor, "rows all"], tuple[Int[Tensor, "rows size"]]]:
    """Return words with the `size` words before them, -1 where the text begins, and the last `size` words."""
    before = ids.new_full((len(ids), size), NONE) if state is None else state[0]
    ids = torch.cat([before, ids], 1)
    return ids, (ids[:, ids.shape[1] - size :],)


def right_aligned(
    ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"], size: int
) -> Int[Tensor, "rows size"]:
    """Return the last words of contexts that are padded at the right; -1 in front of shorter ones."""
    place = lengths[:, None] - size + torch.arange(size, device=ids.device)  # (rows, size)
    return ids.gather(1, place.clamp_min(0)).masked_fill(place < 0, NONE)


def mix(
    vocabulary: Float[Tensor, "*shape"], keep: Float[Tensor, "*shape"], copied: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Return ln p of words from what the softmax says, ln of its share, and the probability of copying."""
    positive = copied > 0
    mass = torch.where(positive, copied, 1.0).log()
    return torch.where(positive, torch.logaddexp(vocabulary + keep, mass), vocabulary + keep)


class WordScores(NamedTuple):
    """Natural log-probabilities of all words after some contexts.

    Attributes
    ----------
    log_probs : Float[Tensor, "rows columns"]
        First the classes of the softmax, ``<unk>`` among them as -inf, then words of the passage that are
        outside the vocabulary; -inf where a row has fewer.
    ids : Int[Tensor, "rows extra"]
        Extended ids of the latter; -1 where there is none.
    unknown : Float[Tensor, " rows"]
        ln p of any other word outside the vocabulary.
    """

    log_probs: Tensor
    ids: Tensor
    unknown: Tensor

    def log_prob(self, targets: Int[Tensor, "rows k"]) -> Float[Tensor, "rows k"]:
        """Return ln p of some words of each row, by their extended ids."""
        column = self._columns(targets)
        values = self.log_probs.gather(1, column.clamp_min(0))
        return torch.where(column >= 0, values, self.unknown[:, None])

    def ranked(
        self, targets: Int[Tensor, " rows"], top_k: int
    ) -> tuple[Float[Tensor, " rows"], Int[Tensor, "rows 2"], Int[Tensor, "rows k"], Float[Tensor, "rows k"]]:
        """Count the words above each answer, and pick the best.

        Parameters
        ----------
        targets : Int[Tensor, " rows"]
            Extended ids; -1 for none.
        top_k : int

        Returns
        -------
        tuple
            ln p of the answers (NaN where there is none); 1 + words strictly above, and words equal (both 0
            where the answer has no column); extended ids of the best words, the lower column first among
            equal ones; their ln p.
        """
        n_words = self.log_probs.shape[1] - self.ids.shape[1]
        log_prob, column = self.log_prob(targets[:, None]), self._columns(targets[:, None])
        rank, tied = (self.log_probs > log_prob).sum(1) + 1, (self.log_probs == log_prob).sum(1)
        counts = torch.stack([rank, tied], 1) * (column >= 0)
        places, best = _top(self.log_probs, min(top_k, n_words - 1))
        if self.ids.shape[1]:
            extra = self.ids.gather(1, (places - n_words).clamp_min(0))
            places = torch.where(places < n_words, places, extra)
        return torch.where(targets < 0, torch.nan, log_prob[:, 0]), counts, places, best

    def _columns(self, targets: Int[Tensor, "rows k"]) -> Int[Tensor, "rows k"]:
        """Return the columns of words, -1 for other words outside the vocabulary."""
        n_words = self.log_probs.shape[1] - self.ids.shape[1]
        column = torch.where((targets > 0) & (targets < n_words), targets, -1)
        if self.ids.shape[1] == 0:
            return column
        same = (self.ids[:, None] == targets[:, :, None]) & (targets > 0)[:, :, None]  # (rows, k, extra)
        return torch.where(same.any(-1), n_words + same.int().argmax(-1), column)


def word_scores(
    log_probs: Float[Tensor, "rows n_words"], share: float, copies: Copies | None = None
) -> WordScores:
    """Return the scores of all words: what a softmax says, with the copies mixed in (in double precision).

    Parameters
    ----------
    log_probs : Float[Tensor, "rows n_words"]
        ln p of each class by the softmax.
    share : float
        What is subtracted from ln p(``<unk>``) for one unknown word.
    copies : Copies, optional
    """
    rows, n_words = log_probs.shape
    if copies is None:
        values = log_probs.clone()
        values[:, 0] = -torch.inf
        ids = torch.empty(rows, 0, dtype=torch.int64, device=values.device)
        return WordScores(values, ids, log_probs[:, 0] - share)
    values = log_probs + copies.keep[:, None].to(log_probs.dtype)
    unknown = values[:, 0] - share
    row, word, mass = _copied_words(copies)
    inside = word < n_words
    plain = torch.where(
        inside, log_probs[row, torch.where(inside, word, 0)].double(), log_probs[row, 0].double() - share
    )
    mixed = torch.logaddexp(plain + copies.keep[row].double(), mass.log()).to(values.dtype)
    values[row[inside], word[inside]] = mixed[inside]
    values[:, 0] = -torch.inf
    row, word, mixed = row[~inside], word[~inside], mixed[~inside]  # sorted by row
    first = torch.searchsorted(row, torch.arange(rows, device=row.device))
    place = torch.arange(len(row), device=row.device) - first[row]
    width = int(place.max()) + 1 if len(row) else 0
    ids, extra = row.new_full((rows, width), -1), values.new_full((rows, width), -torch.inf)
    ids[row, place], extra[row, place] = word, mixed
    return WordScores(torch.cat([values, extra], 1), ids, unknown)


def _copied_words(copies: Copies) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Return row, extended id and probability of each different word that is copied, sorted by row and id."""
    row, place = torch.nonzero((copies.copy > 0) & (copies.ids > 0), as_tuple=True)
    word = copies.ids[row, place]
    size = int(word.max()) + 1 if len(word) else 1
    pairs, index = torch.unique(row * size + word, return_inverse=True)
    mass = torch.zeros(len(pairs), dtype=torch.float64, device=word.device)
    mass.index_add_(0, index, copies.copy[row, place].double())
    return pairs // size, pairs % size, mass


def _top(
    values: Float[Tensor, "rows columns"], k: int
) -> tuple[Int[Tensor, "rows k"], Float[Tensor, "rows k"]]:
    """Return the places of the best values, the best first, of equal ones the lower place first."""
    best, places = values.topk(k, dim=1)
    if k:
        ambiguous = ((values >= best[:, -1:]).sum(1) > k).nonzero()[:, 0]  # topk chose among equal values
        for row in ambiguous.tolist():
            order = torch.argsort(values[row], descending=True, stable=True)[:k]
            places[row], best[row] = order, values[row, order]
    order = torch.argsort(places, dim=1)
    places, best = places.gather(1, order), best.gather(1, order)
    order = torch.argsort(best, dim=1, descending=True, stable=True)
    return places.gather(1, order), best.gather(1, order)
