"""The feed-forward n-gram network of Bengio et al. (2003, "A neural probabilistic language model")."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.items.schema import DataError
from workbench.models.neural.networks.base import Last, Network, State, known
from workbench.models.neural.networks.shapes import Float, Int
from workbench.models.neural.softmax import softmax as layer

NONE = -1  # no word: before the beginning of a text


class FeedForward(Network):
    """The last words' vectors side by side, a layer of tanh, a softmax.

    The next word is predicted from ``tanh(d + H x)``, where x are the vectors of the last order - 1 words
    (section 2 of the paper).

    Parameters
    ----------
    counts : sequence of int (V + 1,)
        Of ``<unk>`` and of the vocabulary's words in the training text.
    order : int, default 5
        The n of its n-grams: it sees the last n - 1 words. At least 2.
    width : int, default 512
        Units of the hidden layer.
    embedded : int, optional
        Size of the words' vectors; the width by default.
    direct : bool, default False
        Whether the softmax sees the words' vectors beside the hidden layer (their "direct connections").
    dropout : float, default 0
        Share of the words' vectors and of the hidden layer that is set to 0 in training.
    tied : bool, default True
        Whether words are embedded by the weights of the softmax; the paper has two sets.
    softmax : {"full", "adaptive"}
        Kind of softmax.

    Notes
    -----
    A word that is not there, before the beginning of a text, has the vector 0. The state is the last
    order - 2 words, shape (rows, order - 2).
    """

    def __init__(
        self,
        counts: Sequence[int],
        *,
        order: int = 5,
        width: int = 512,
        embedded: int | None = None,
        direct: bool = False,
        dropout: float = 0.0,
        tied: bool = True,
        softmax: str = "full",
    ) -> None:
        super().__init__()
        if order < 2:  # noqa: PLR2004 - one word predicts the next
            raise DataError(f"order is {order}, expected 2 or more")
        embedded = embedded or width
        self.n_words, self.window, self.dropout, self.direct = len(counts), order - 1, dropout, direct
        self._more = order - 2  # words that it sees beside the last
        self.width = width + direct * (order - 1) * embedded
        self.embedding = nn.Embedding(self.n_words, embedded)
        self.hidden = nn.Linear((order - 1) * embedded, width)
        self.output = layer(softmax, self.width, counts, embedding=self.embedding if tied else None)
        nn.init.normal_(self.embedding.weight, std=embedded**-0.5)  # times its root: see `_seen`
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)

    def states(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return the hidden layer after each word, and the last words."""
        ids = after(state, ids, self._more)  # (rows, order - 2 + time)
        return self._seen(ids), (last_of(ids, self._more),)

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> Last:
        """Return what predicts the word after each context, without the words before."""
        return Last(self._seen(ending(known(ids, self.n_words), lengths, self._more + 1))[:, 0])

    def _seen(self, ids: Int[Tensor, "rows all"]) -> Float[Tensor, "rows time width"]:
        """Return the hidden layer at the end of each window of so many words."""
        words = self.embedding(ids.clamp_min(0)) * self.embedding.embedding_dim**0.5
        words = functional.dropout(words * (ids != NONE)[..., None], self.dropout, self.training)
        x = windows(words, self._more + 1)  # (rows, time, (order - 1) * embedded)
        hidden = functional.dropout(self.hidden(x).tanh(), self.dropout, self.training)
        return torch.cat([hidden, x], -1) if self.direct else hidden


def windows(
    words: Float[Tensor, "rows all embedded"], size: int
) -> Float[Tensor, "rows time size_x_embedded"]:
    """Return the vectors of `size` words on end side by side, the oldest first.

    Parameters
    ----------
    words : Float[Tensor, "rows all embedded"]
    size : int

    Returns
    -------
    Float[Tensor, "rows all-size+1 size*embedded"]
    """
    time = words.shape[1] - size + 1
    return torch.cat([words[:, first : first + time] for first in range(size)], -1)


def after(state: State, ids: Int[Tensor, "rows time"], size: int) -> Int[Tensor, "rows all"]:
    """Return words with the `size` words before them; -1 where the text begins."""
    before = ids.new_full((len(ids), size), NONE) if state is None else state[0]
    return torch.cat([before, ids], 1)


def last_of(ids: Int[Tensor, "rows all"], size: int) -> Int[Tensor, "rows size"]:
    """Return the last words of each row, none where `size` is 0."""
    return ids[:, ids.shape[1] - size :]


def ending(
    ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"], size: int
) -> Int[Tensor, "rows size"]:
    """Return the last words of contexts that are padded at the right; -1 in front of shorter ones."""
    place = lengths[:, None] - size + torch.arange(size, device=ids.device)  # (rows, size)
    return ids.gather(1, place.clamp_min(0)).masked_fill(place < 0, NONE)
