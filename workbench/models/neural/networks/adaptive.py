"""The adaptive softmax: frequent words first, the others in clusters (Grave et al. 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.networks import chunked
from workbench.models.neural.networks.frequent import Counts, cuts, log_shares, narrow, order
from workbench.models.neural.networks.shapes import Float, Int


class AdaptiveSoftmax(nn.Module):
    """A softmax over the frequent words and over clusters of the others, and one within each cluster.

    "Efficient softmax approximation for GPUs", Grave et al. 2017. Its probabilities are exact: they sum to 1.
    ``<unk>`` is in the head.

    Parameters
    ----------
    width : int
        Of what it predicts from.
    counts : sequence of int (n_words,)
        Of the words in the training text: words are ordered by them, biases begin as ln p, and the cutoffs
        follow.
    embedding : nn.Embedding, optional
        Whose weights are used for the words of the head. The clusters, which are narrower, have their own.
        Where its width is another, a linear map without bias leads there.
    cutoffs : sequence of int, optional
        Words in the head, then where each cluster ends but for the last, by falling count; with none it is
        a full softmax. Default: :func:`workbench.models.neural.networks.frequent.cuts`.
    divide : float, default 4
        Each cluster is that many times narrower than the one before.

    Raises
    ------
    ValueError
        For cutoffs that do not rise or leave no word for a part.

    Notes
    -----
    Equal to :class:`torch.nn.AdaptiveLogSoftmaxWithLoss` with ``head_bias=True`` where the clusters' biases,
    which that one has not, are zero. A cluster that no target is in gets gradients of zero, so that all
    parameters have one in each step of each process.
    """

    cuts: Tensor
    place: Tensor | None

    def __init__(
        self,
        width: int,
        counts: Counts,
        *,
        embedding: nn.Embedding | None = None,
        cutoffs: Sequence[int] | None = None,
        divide: float = 4.0,
    ) -> None:
        super().__init__()
        self.n_words = len(counts)
        by_count = order(counts)
        falling = np.asarray(counts, dtype=np.int64)[by_count]
        cutoffs = cuts(falling, width) if cutoffs is None else [int(c) for c in cutoffs]
        self.cutoffs, self.clusters = [*cutoffs, self.n_words], len(cutoffs)
        if any(stop <= start for start, stop in pairwise([0, *self.cutoffs])):
            raise ValueError(f"cutoffs have to rise, from 1 to {self.n_words - 1}: {cutoffs}")
        moved = not np.array_equal(by_count, np.arange(self.n_words))
        place = torch.as_tensor(np.argsort(by_count)) if moved else None
        self.register_buffer("place", place, persistent=False)
        self.register_buffer("cuts", torch.tensor(cutoffs, dtype=torch.int64), persistent=False)
        self._tied = [] if embedding is None else [embedding]  # a list: its weights are the embedding's alone
        inner = width if embedding is None else embedding.embedding_dim
        self.project = None if inner == width else nn.Linear(width, inner, bias=False)
        own = self.clusters + (0 if self._tied else self.cutoffs[0])
        self.head = nn.Parameter(torch.empty(own, inner).uniform_(-(inner**-0.5), inner**-0.5))
        parts = [falling[start:stop] for start, stop in pairwise(self.cutoffs)]
        sums = np.array([part.sum() for part in parts], dtype=falling.dtype)
        self.bias = nn.Parameter(log_shares(np.concatenate([falling[: self.cutoffs[0]], sums])))
        self.tails = nn.ModuleList(
            Cluster(inner, narrow(inner, divide, i), part) for i, part in enumerate(parts, 1)
        )

    @property
    def weight(self) -> Tensor:
        """Weights of the head: of its words by falling count, then of the clusters."""
        if not self._tied:
            return self.head
        words, size = self._tied[0].weight, self.cutoffs[0]
        frequent = words[:size] if self.place is None else words[self.place.argsort()[:size]]
        return torch.cat([frequent, self.head])

    def forward(self, hidden: Float[Tensor, "n width"], target: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return ln p of each row's target."""
        states, first, rows, tails = self._split(hidden, target)
        found = chunked.log_probs(states, self.weight, self.bias, first)
        others = [tail.log_probs(part, wanted) for tail, part, wanted in tails]
        return found.index_add(0, rows, torch.cat(others)) if others else found

    def loss(
        self,
        hidden: Float[Tensor, "n width"],
        target: Int[Tensor, " n"],
        mixture: tuple[Float[Tensor, " n"], Float[Tensor, " n"]] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the mean of -ln p; `mixture` is as :meth:`FullSoftmax.loss` has it."""
        if mixture is not None:
            share, other = mixture
            found = torch.logaddexp(self(hidden, target) + share, other.clamp_min(chunked.LEAST).log())
            return -found.mean()
        states, first, _, tails = self._split(hidden, target)
        total = chunked.surprise(states, self.weight, self.bias, first)
        for tail, part, wanted in tails:
            total = total + tail.surprise(part, wanted)
        return total / len(target)

    def log_prob(self, hidden: Float[Tensor, "n width"], targets: Int[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Return ln p of some words in each row."""
        parts = []
        for part in chunked.chunks(len(hidden), self.n_words, hidden.device):
            states, place = self._projected(hidden[part]), self._placed(targets[part])
            cluster = torch.bucketize(place, self.cuts, right=True)  # (rows, k), 0 the head
            head = chunked.log_softmax(states, self.weight, self.bias)
            found = head.gather(1, torch.where(cluster == 0, place, self.cutoffs[0] + cluster - 1))
            for number, tail in enumerate(self._clusters(), 1):
                here = cluster == number
                row, column = here.nonzero(as_tuple=True)
                needed = here.any(1)
                where = needed.cumsum(0)[row] - 1  # among the rows that are needed
                word = place[row, column] - self.cutoffs[number - 1]
                own = tail.log_softmax(states[needed])[where, word]
                found = found.index_put((row, column), own, accumulate=True)
            parts.append(found)
        return torch.cat(parts)

    def distribution(self, hidden: Float[Tensor, "n width"]) -> Float[Tensor, "n n_words"]:
        """Return ln p of all words, for all rows at once."""
        states, size = self._projected(hidden), self.cutoffs[0]
        head = chunked.log_softmax(states, self.weight, self.bias)
        parts = [head[:, :size]]
        parts += [
            tail.log_softmax(states) + head[:, size + i, None] for i, tail in enumerate(self._clusters())
        ]
        found = torch.cat(parts, 1)
        return found if self.place is None else found[:, self.place]

    def _projected(self, hidden: Tensor) -> Tensor:
        return hidden if self.project is None else functional.linear(hidden, self.project.weight)

    def _clusters(self) -> list[Cluster]:
        return cast("list[Cluster]", list(self.tails))

    def _placed(self, target: Tensor) -> Tensor:
        """Return the places of words by falling count."""
        return target if self.place is None else self.place[target]

    def _split(
        self, hidden: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, list[tuple[Cluster, Tensor, Tensor]]]:
        """Return states, the head's targets, the rows of the clusters, and each one's states and targets."""
        states, place = self._projected(hidden), self._placed(target)
        if not self.clusters:
            return states, place, place[:0], []
        cluster = torch.bucketize(place, self.cuts, right=True)  # (n,), 0 the head
        first = torch.where(cluster == 0, place, self.cutoffs[0] + cluster - 1)
        sizes = torch.bincount(cluster, minlength=self.clusters + 1).tolist()
        rows = cluster.argsort(stable=True)[sizes[0] :]
        parts = torch.split(states.index_select(0, rows), sizes[1:])
        wanted = torch.split(place[rows], sizes[1:])
        tails = zip(self._clusters(), parts, wanted, self.cutoffs, strict=False)
        return states, first, rows, [(tail, part, words - cut) for tail, part, words, cut in tails]


class Cluster(nn.Module):
    """Words of a cluster, predicted from narrower states.

    Parameters
    ----------
    width, inner : int
        Of the states, before and after a linear map without bias.
    counts : sequence of int (k,)
        Of its words.
    """

    def __init__(self, width: int, inner: int, counts: Counts) -> None:
        super().__init__()
        self.down = nn.Linear(width, inner, bias=False)
        self.words = nn.Parameter(torch.empty(len(counts), inner).uniform_(-(inner**-0.5), inner**-0.5))
        self.bias = nn.Parameter(log_shares(counts))

    def log_probs(self, hidden: Float[Tensor, "n width"], target: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return ln p of each row's target, given the cluster."""
        return chunked.log_probs(self.down(hidden), self.words, self.bias, target)

    def surprise(self, hidden: Float[Tensor, "n width"], target: Int[Tensor, " n"]) -> Float[Tensor, ""]:
        """Return the sum of -ln p of the targets, given the cluster."""
        return chunked.surprise(self.down(hidden), self.words, self.bias, target)

    def log_softmax(self, hidden: Float[Tensor, "n width"]) -> Float[Tensor, "n k"]:
        """Return ln p of all its words, given the cluster."""
        return chunked.log_softmax(self.down(hidden), self.words, self.bias)
