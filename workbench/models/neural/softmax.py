"""From states to words: a full softmax in chunks of rows, and PyTorch's adaptive one; both may be tied."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from workbench.storage.errors import check_option

Counts = Sequence[int] | npt.NDArray[np.int64]
Hidden = Float[Tensor, "n width"]
Target = Int[Tensor, " n"]
LogProb = Float[Tensor, " n"]
Mixture = tuple[LogProb, LogProb] | None
"""ln of the share of a softmax, and the probability of copying the target; p is the sum of both."""

LEAST = 1e-30  # probability whose inverse is still a float32
_ROWS = 512  # rows of a chunk at least: with fewer, reading the weights takes longer than the products
_LOGITS = {"cpu": 1 << 25, "cuda": 1 << 27}  # logits of a chunk with more rows
_ADAPTIVE = 512, 16  # classes and width from which clusters save time


class Softmax(nn.Module):
    """A layer that predicts the words of a vocabulary from states.

    The counts are those of the words in the training text: biases begin as ln p, so that training begins from
    word frequency. The weights of an embedding are those of the words, too ("tied", Press and Wolf 2017);
    where its width is another, a linear map without bias leads there.
    """

    def __init__(self, width: int, counts: Counts, embedding: nn.Embedding | None) -> None:
        super().__init__()
        self.n_words = len(counts)
        self._tied = [] if embedding is None else [embedding]  # a list: the embedding alone owns the weights
        self.inner = width if embedding is None else embedding.embedding_dim
        plain = self.inner == width
        self.project = nn.Identity() if plain else nn.Linear(width, self.inner, bias=False)

    @abstractmethod
    def forward(self, hidden: Hidden, target: Target) -> LogProb:
        """Return ln p of each row's target."""

    @abstractmethod
    def distribution(self, hidden: Hidden) -> Float[Tensor, "n n_words"]:
        """Return ln p of all words, for all rows at once."""

    def log_prob(self, hidden: Hidden, target: Target, mixture: Mixture = None) -> LogProb:
        """Return ln p of each row's target, mixed with the copied words."""
        log_prob: Tensor = self(hidden, target)
        return log_prob if mixture is None else mix(log_prob, *mixture)

    def loss(self, hidden: Hidden, target: Target, mixture: Mixture = None) -> Float[Tensor, ""]:
        """Return the mean of -ln p of the targets, in nats."""
        return -self.log_prob(hidden, target, mixture).mean()


class FullSoftmax(Softmax):
    """A softmax over all words.

    Equal to ``cross_entropy(linear(hidden, weight, bias), target)``, but the logits of one chunk of rows are
    in memory at a time: those of a chunk are computed again for the gradients.
    """

    def __init__(self, width: int, counts: Counts, *, embedding: nn.Embedding | None = None) -> None:
        super().__init__(width, counts, embedding)
        self.words = None if embedding else nn.Parameter(torch.empty(self.n_words, width))
        self.bias = nn.Parameter(log_shares(counts))
        if self.words is not None:
            nn.init.uniform_(self.words, -(width**-0.5), width**-0.5)  # as nn.Linear has it

    @property
    def weight(self) -> Tensor:
        """Weights of the words, Float[Tensor, "n_words inner"]."""
        return self._tied[0].weight if self.words is None else self.words

    def forward(self, hidden: Hidden, target: Target) -> LogProb:
        """Return ln p of each row's target."""
        states, weight = self.project(hidden), self.weight
        chunks = _chunks(len(hidden), self.n_words, hidden)
        if len(chunks) == 1:
            return _log_prob(states, weight, self.bias, target)
        return torch.cat([
            checkpoint(
                _log_prob, states[chunk], weight, self.bias, target[chunk],
                use_reentrant=False, preserve_rng_state=False,
            )
            for chunk in chunks
        ])  # fmt: skip

    def distribution(self, hidden: Hidden) -> Float[Tensor, "n n_words"]:
        """Return ln p of all words, for all rows at once."""
        return _logits(self.project(hidden), self.weight, self.bias).log_softmax(-1)


class AdaptiveSoftmax(Softmax):
    """PyTorch's adaptive softmax: frequent words in the head, the others in clusters (Grave et al. 2017).

    Its probabilities sum to 1; ``<unk>`` is in the head. Beyond
    :class:`torch.nn.AdaptiveLogSoftmaxWithLoss`, words may have any order, clusters have biases, and the
    words of the head may be tied. The clusters are narrower and have weights of their own; `cutoffs` are the
    number of words in the head, then where each cluster but the last ends, by falling count.
    """

    rank: Tensor | None

    def __init__(
        self, width: int, counts: Counts, *, cutoffs: Sequence[int], embedding: nn.Embedding | None = None
    ) -> None:
        super().__init__(width, counts, embedding)
        number = np.asarray(counts, dtype=np.int64)
        order = np.concatenate([[0], 1 + np.argsort(-number[1:], kind="stable")])
        ordered = np.array_equal(order, np.arange(self.n_words))
        rank = None if ordered else torch.as_tensor(np.argsort(order))  # of each word by falling count
        self.register_buffer("rank", rank, persistent=False)
        self.layer = nn.AdaptiveLogSoftmaxWithLoss(self.inner, self.n_words, list(cutoffs), head_bias=True)
        head, *tails = np.split(number[order], cutoffs)
        shares = log_shares(np.array([*head, *map(np.sum, tails)]))
        self.layer.head = _Logits(self.inner, shares, embedding, torch.as_tensor(order[: len(head)]))
        for tail, counts_of_tail in zip(self.layer.tail, tails, strict=True):
            cluster = cast("nn.Sequential", tail)
            cluster[1] = _Logits(cast("nn.Linear", cluster[0]).out_features, log_shares(counts_of_tail))

    def forward(self, hidden: Hidden, target: Target) -> LogProb:
        """Return ln p of each row's target."""
        states = self.project(hidden).to(self.layer.head.bias.dtype)
        log_prob: Tensor = self.layer(states, target if self.rank is None else self.rank[target]).output
        if torch.is_grad_enabled() and len(states):  # processes need a gradient of all weights, even 0
            log_prob = log_prob + sum(0 * tail(states[:1]).sum() for tail in self.layer.tail)
        return log_prob

    def distribution(self, hidden: Hidden) -> Float[Tensor, "n n_words"]:
        """Return ln p of all words, for all rows at once."""
        states = self.project(hidden).to(self.layer.head.bias.dtype)
        log_prob: Tensor = self.layer.log_prob(states)
        return log_prob if self.rank is None else log_prob[:, self.rank]


class _Logits(nn.Linear):
    """Logits of classes; the first ones may have the weights of words of an embedding."""

    words: Tensor

    def __init__(
        self, width: int, bias: Tensor, embedding: nn.Embedding | None = None, words: Tensor | None = None
    ) -> None:
        n_tied = 0 if embedding is None or words is None else len(words)
        super().__init__(width, len(bias) - n_tied)
        self.bias = nn.Parameter(bias)
        self._tied = [] if embedding is None else [embedding]
        self.register_buffer("words", None if embedding is None else words, persistent=False)

    def forward(self, hidden: Tensor) -> Tensor:
        weight = torch.cat([self._tied[0].weight[self.words], self.weight]) if self._tied else self.weight
        return _logits(hidden, weight, self.bias)


def softmax(
    variant: str,
    width: int,
    counts: Counts,
    *,
    embedding: nn.Embedding | None = None,
    cutoffs: Sequence[int] | None = None,
) -> Softmax:
    """Return the layer that predicts words, class 0 being ``<unk>``: a "full" or an "adaptive" softmax.

    With few words or narrow states, where clusters save no time, "adaptive" is the full one, too. Its cutoffs
    are by default 1/32 and 1/3 of the words: for words that follow Zipf's law these cost least in training,
    by the dynamic program of Grave et al. (2017, section 4.3).
    """
    n_words = len(counts)
    check_option("softmax", variant, ("full", "adaptive"))
    if variant == "full" or (cutoffs is None and (n_words < _ADAPTIVE[0] or width < _ADAPTIVE[1])):
        return FullSoftmax(width, counts, embedding=embedding)
    cutoffs = [n_words // 32, n_words // 3] if cutoffs is None else cutoffs
    return AdaptiveSoftmax(width, counts, cutoffs=cutoffs, embedding=embedding)


def mix(
    log_prob: Float[Tensor, "*shape"], share: Float[Tensor, "*shape"], copied: Float[Tensor, "*shape"]
) -> Float[Tensor, "*shape"]:
    """Return ln p of words from the softmax's ln p, ln of its share, and the probability of copying."""
    positive = copied > 0
    mass = torch.where(positive, copied.clamp_min(LEAST), 1.0).log()
    return torch.where(positive, torch.logaddexp(log_prob + share, mass), log_prob + share)


def log_shares(counts: Counts) -> Float[Tensor, " n_words"]:
    """Return ln p of words by frequency, with one more occurrence each."""
    number = torch.as_tensor(np.asarray(counts), dtype=torch.float64) + 1
    return (number / number.sum()).log().float()


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Return the logits in the dtype of the bias, also where autocast makes the products in another."""
    if torch.is_autocast_enabled(hidden.device.type):
        return functional.linear(hidden, weight).to(bias.dtype) + bias
    return functional.linear(hidden, weight, bias)


def _log_prob(hidden: Tensor, weight: Tensor, bias: Tensor, target: Tensor) -> Tensor:
    """Return ln p of the target of each row."""
    return -functional.cross_entropy(_logits(hidden, weight, bias), target, reduction="none")


def _chunks(n: int, n_words: int, like: Tensor) -> list[slice]:
    """Return the chunks of `n` rows that are computed at a time; at least one."""
    size = max(_ROWS, _LOGITS["cuda" if like.is_cuda else "cpu"] // n_words)
    number = max(1, -(-n // size))
    return [slice(*bounds) for bounds in pairwise(n * chunk // number for chunk in range(number + 1))]
