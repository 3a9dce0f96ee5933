"""From states to words: the full softmax, and which of the two is wanted."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.networks import chunked
from workbench.models.neural.networks.adaptive import AdaptiveSoftmax
from workbench.models.neural.networks.frequent import Counts, log_shares
from workbench.models.neural.networks.shapes import Float, Int

__all__ = ["AdaptiveSoftmax", "FullSoftmax", "softmax"]


class FullSoftmax(nn.Module):
    """A softmax over all words.

    Parameters
    ----------
    width : int
        Of what it predicts from.
    counts : sequence of int (n_words,)
        Of the words in the training text: biases begin as ln p, so that training begins from word frequency.
    embedding : nn.Embedding, optional
        Whose weights are the words' here too ("tied", Press and Wolf 2017). Where its width is another, a
        linear map without bias leads there.

    Notes
    -----
    Equal to ``functional.cross_entropy(functional.linear(hidden, weight, bias), target)``; memory grows with
    the rows of a chunk, not with those of the batch. See
    :mod:`workbench.models.neural.networks.chunked` for dtypes.
    """

    words: nn.Parameter | None

    def __init__(self, width: int, counts: Counts, *, embedding: nn.Embedding | None = None) -> None:
        super().__init__()
        self.n_words = len(counts)
        self._tied = [] if embedding is None else [embedding]  # a list: its weights are the embedding's alone
        own = None if embedding else nn.Parameter(torch.empty(self.n_words, width))
        self.register_parameter("words", own)
        self.bias = nn.Parameter(log_shares(counts))
        inner = width if embedding is None else embedding.embedding_dim
        self.project = None if inner == width else nn.Linear(width, inner, bias=False)
        if own is not None:
            nn.init.uniform_(own, -(width**-0.5), width**-0.5)  # as nn.Linear has it

    @property
    def weight(self) -> Tensor:
        """The words' weights, Float[Tensor, "n_words width"]."""
        if self.words is None:
            return self._tied[0].weight
        return self.words

    def forward(self, hidden: Float[Tensor, "n width"], target: Int[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Return ln p of each row's target."""
        return chunked.log_probs(self._projected(hidden), self.weight, self.bias, target)

    def loss(
        self,
        hidden: Float[Tensor, "n width"],
        target: Int[Tensor, " n"],
        mixture: tuple[Float[Tensor, " n"], Float[Tensor, " n"]] | None = None,
    ) -> Float[Tensor, ""]:
        """Return the mean of -ln p; faster than from :meth:`forward`.

        Parameters
        ----------
        hidden : Float[Tensor, "n width"]
        target : Int[Tensor, " n"]
        mixture : two of Float[Tensor, " n"], optional
            ln of the share of this softmax, and the probability that comes from elsewhere (a pointer); p is
            then the sum of both.
        """
        hidden = self._projected(hidden)
        return chunked.surprise(hidden, self.weight, self.bias, target, mixture) / len(target)

    def log_prob(self, hidden: Float[Tensor, "n width"], targets: Int[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Return ln p of some words in each row."""
        parts = chunked.chunks(len(hidden), self.n_words, hidden.device)
        return torch.cat([self.distribution(hidden[part]).gather(1, targets[part]) for part in parts])

    def distribution(self, hidden: Float[Tensor, "n width"]) -> Float[Tensor, "n n_words"]:
        """Return ln p of all words, for all rows at once."""
        return chunked.log_softmax(self._projected(hidden), self.weight, self.bias)

    def _projected(self, hidden: Tensor) -> Tensor:
        return hidden if self.project is None else functional.linear(hidden, self.project.weight)


def softmax(
    kind: str,
    width: int,
    counts: Counts,
    *,
    embedding: nn.Embedding | None = None,
    cutoffs: Sequence[int] | None = None,
) -> FullSoftmax | AdaptiveSoftmax:
    """Return the layer that predicts words.

    Parameters
    ----------
    kind : {"full", "adaptive"}
    width : int
        Of what it predicts from.
    counts : sequence of int (n_words,)
        Of the words in the training text; class 0 is ``<unk>``.
    embedding : nn.Embedding, optional
        Whose weights are used for the words (for those of the head, in the adaptive one).
    cutoffs : sequence of int, optional
        Of the adaptive softmax; chosen from the counts by default.

    Raises
    ------
    ValueError
        For another kind.
    """
    if kind == "full":
        return FullSoftmax(width, counts, embedding=embedding)
    if kind == "adaptive":
        return AdaptiveSoftmax(width, counts, embedding=embedding, cutoffs=cutoffs)
    raise ValueError(f"no such softmax: {kind!r}; there are 'full' and 'adaptive'")
