"""ln p of all words after some contexts: copied words mixed in, ranks counted, best words picked."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from workbench.models.neural.networks.shapes import Float, Int


class Copies(NamedTuple):
    """Which words of the passage are copied with what probability, and how much is left to the softmax.

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


class Words(NamedTuple):
    """Natural log-probabilities of words after some contexts.

    Attributes
    ----------
    values : Float[Tensor, "rows columns"]
        First the classes of the softmax, ``<unk>`` among them as -inf, then words of the passage that are
        outside the vocabulary; -inf where a row has fewer.
    ids : Int[Tensor, "rows extra"]
        Extended ids of the latter; -1 where there is none.
    unknown : Float[Tensor, " rows"]
        ln p of any other word outside the vocabulary.
    """

    values: Tensor
    ids: Tensor
    unknown: Tensor

    def ranked(
        self, wanted: Int[Tensor, " rows"], top_k: int
    ) -> tuple[Float[Tensor, " rows"], Int[Tensor, "rows 2"], Int[Tensor, "rows k"], Float[Tensor, "rows k"]]:
        """Count the words above each answer, and pick the best.

        Parameters
        ----------
        wanted : Int[Tensor, " rows"]
            Extended ids; -1 for none.
        top_k : int

        Returns
        -------
        tuple
            ln p of the answers (NaN where none was asked); 1 + words strictly above, and words equal (both
            0 where the answer has no column); extended ids of the best words, the lower column first
            among equal ones; their ln p.
        """
        n_words = self.values.shape[1] - self.ids.shape[1]
        column = torch.where((wanted > 0) & (wanted < n_words), wanted, -1)
        if self.ids.shape[1]:
            match = (self.ids == wanted[:, None]) & (wanted[:, None] > 0)
            column = torch.where(match.any(1), n_words + match.int().argmax(1), column)
        there = column >= 0
        own = self.values.gather(1, column.clamp_min(0)[:, None])  # (rows, 1)
        rank = (self.values > own).sum(1) + 1
        tied = (self.values == own).sum(1)
        counts = torch.stack([rank, tied], 1) * there[:, None]
        log_prob = torch.where(there, own[:, 0], self.unknown)
        log_prob = torch.where(wanted < 0, torch.nan, log_prob)
        places, best = _top(self.values, min(top_k, n_words - 1))
        if self.ids.shape[1]:
            extra = self.ids.gather(1, (places - n_words).clamp_min(0))
            places = torch.where(places < n_words, places, extra)
        return log_prob, counts, places, best


def alone(values: Float[Tensor, "rows n_words"], share: float) -> Words:
    """Return what a softmax says, without copies; `share` is subtracted for one unknown word."""
    unknown = values[:, 0] - share
    values = values.clone()
    values[:, 0] = -torch.inf
    return Words(values, torch.empty(len(values), 0, dtype=torch.int64, device=values.device), unknown)


def mixed(values: Float[Tensor, "rows n_words"], copies: Copies, share: float) -> Words:
    """Mix the copies into what a softmax says; the sums are taken in double precision."""
    rows, n_words = values.shape
    kept = values + copies.keep[:, None].to(values.dtype)
    unknown = kept[:, 0] - share
    row, word, mass = _sums(copies)
    inside = word < n_words
    base = torch.where(
        inside, values[row, torch.where(inside, word, 0)].double(), values[row, 0].double() - share
    )
    both = torch.logaddexp(base + copies.keep[row].double(), mass.log())
    kept[row[inside], word[inside]] = both[inside].to(values.dtype)
    kept[:, 0] = -torch.inf
    far, own = row[~inside], both[~inside].to(values.dtype)  # sorted by row
    first = torch.searchsorted(far, torch.arange(rows, device=far.device))
    place = torch.arange(len(far), device=far.device) - first[far]
    width = int(place.max()) + 1 if len(far) else 0
    ids = torch.full((rows, width), -1, dtype=torch.int64, device=values.device)
    extra = torch.full((rows, width), -torch.inf, dtype=values.dtype, device=values.device)
    ids[far, place], extra[far, place] = word[~inside], own
    return Words(torch.cat([kept, extra], 1), ids, unknown)


def _sums(copies: Copies) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Return row, extended id and probability of each different word that is copied, sorted by row and id."""
    row, place = torch.nonzero((copies.copy > 0) & (copies.ids > 0), as_tuple=True)
    word = copies.ids[row, place]
    big = int(word.max()) + 1 if len(word) else 1
    pairs, which = torch.unique(row * big + word, return_inverse=True)
    mass = torch.zeros(len(pairs), dtype=torch.float64, device=word.device)
    mass.index_add_(0, which, copies.copy[row, place].double())
    return pairs // big, pairs % big, mass


def of_targets(
    values: Float[Tensor, "rows k"], targets: Int[Tensor, "rows k"], n_words: int, share: float,
    copies: Copies | None,
) -> Float[Tensor, "rows k"]:  # fmt: skip
    """Return ln p of some words in double precision, from what the softmax says of their classes.

    Parameters
    ----------
    values : Float[Tensor, "rows k"]
        ln p of the class of each word.
    targets : Int[Tensor, "rows k"]
        Extended ids.
    n_words, share, copies
        As for `mixed`.
    """
    found = values.double() - share * (targets >= n_words)
    if copies is None:
        return found
    same = targets[:, :, None] == copies.ids[:, None, :]  # (rows, k, time)
    same &= (targets > 0)[:, :, None]
    mass = torch.einsum("rkt,rt->rk", same.double(), copies.copy.double())
    return torch.logaddexp(found + copies.keep[:, None].double(), mass.log())


def _top(
    values: Float[Tensor, "rows columns"], k: int
) -> tuple[Int[Tensor, "rows k"], Float[Tensor, "rows k"]]:
    """Return the places of the best values, the best first, of equal ones the lower place first."""
    best, places = values.topk(k, dim=1)
    if k:
        unsure = ((values >= best[:, -1:]).sum(1) > k).nonzero()[:, 0]  # which of the equal ones were taken?
        for row in unsure.tolist():
            order = torch.argsort(values[row], descending=True, stable=True)[:k]
            places[row], best[row] = order, values[row, order]
    turn = torch.argsort(places, dim=1)
    places, best = places.gather(1, turn), best.gather(1, turn)
    turn = torch.argsort(best, dim=1, descending=True, stable=True)
    return places.gather(1, turn), best.gather(1, turn)
