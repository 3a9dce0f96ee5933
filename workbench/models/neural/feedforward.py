"""The feed-forward n-gram language model of Bengio et al. (2003, "A neural probabilistic language model").

It is no system of Table 1 of Paperno et al. (2016), but one of the four language models that their
construction filters passages by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.items.schema import DataError
from workbench.models.neural.model import Neural
from workbench.models.neural.network import (
    NONE,
    ContextStates,
    LanguageModule,
    TextState,
    known,
    prepend,
    right_aligned,
)
from workbench.models.neural.softmax import softmax as softmax_layer


class FeedForward(Neural):
    """A network that sees the last words side by side.

    Make one by `fit`, which takes these options beside its own. What Paperno et al. (2016) took is not
    published; the order is that of Bengio et al. (2003), the width that of our other networks.

    order : int, default 5
        The n of its n-grams: it sees the last n - 1 words.
    width : int, default 512
        Units of the hidden layer (Bengio et al.: 50 to 100).
    embedded : int, optional
        Size of the words' vectors; the width by default (Bengio et al.: 30 to 100).
    direct : bool, default False
        Whether the softmax sees the words' vectors beside the hidden layer (their "direct connections").
    dropout : float, default 0
        Share of the words' vectors and of the hidden layer that is set to 0 in training.
    tied : bool, default True
        Whether words are embedded by the weights of the softmax (Press and Wolf 2017); the paper has two
        sets of weights.
    softmax : {"adaptive", "full"}, default "adaptive"
        Both give exact probabilities of all words; the first is many times faster on a CPU.
    epochs : float, default 1
        Times the text is read.
    rows : int, default 64
        Parts of the corpus that are read side by side. On a GPU 256 is faster.
    length : int, default 35
        Words of each that are predicted at once.
    learning_rate : float, default 0.003
        Of AdamW; all other :class:`workbench.training.settings.TrainingSettings` may be given too.
    """

    version = 1
    title = "Feed-forward n-gram"
    sizes: ClassVar[dict[str, Any]] = {
        "order": 5, "width": 512, "embedded": None, "direct": False, "dropout": 0.0, "tied": True,
        "softmax": "adaptive",
    }  # fmt: skip
    trained: ClassVar[dict[str, Any]] = {"epochs": 1.0, "rows": 64, "length": 35, "learning_rate": 3e-3}

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> LanguageModule:
        return FeedForwardModule(counts, **info["sizes"])

    @classmethod
    def _named(cls, info: Mapping[str, Any]) -> str:
        """Return the title with its order, and the width."""
        order = info.get("sizes", {}).get("order")
        return super()._named(info).replace("n-gram", "n-gram" if order is None else f"{order}-gram", 1)


class FeedForwardModule(LanguageModule):
    """The last words' vectors side by side, a layer of tanh, a softmax.

    The next word is predicted from ``tanh(d + H x)``, where x are the vectors of the last order - 1 words
    (section 2 of the paper).

    Parameters
    ----------
    counts : sequence of int (V + 1,)
        Of ``<unk>`` and of the vocabulary's words in the training text.
    order, width, embedded, direct, dropout, tied, softmax
        As for :class:`FeedForward`; the order is at least 2.

    Notes
    -----
    A word that is not there, before the beginning of a text, has the vector 0. The state is the last
    order - 2 words, shape (rows, order - 2).
    """

    window: int

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
        self.width = width + direct * (order - 1) * embedded
        self.embedding = nn.Embedding(self.n_words, embedded)
        self.hidden = nn.Linear((order - 1) * embedded, width)
        self.output = softmax_layer(softmax, self.width, counts, embedding=self.embedding if tied else None)
        nn.init.normal_(self.embedding.weight, std=embedded**-0.5)  # times its root: see `_hidden`
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)

    def states(
        self, ids: Int[Tensor, "rows time"], state: TextState = None
    ) -> tuple[Float[Tensor, "rows time width"], TextState]:
        """Return the hidden layer after each word, and the last words."""
        ids, state = prepend(state, ids, self.window - 1)  # (rows, order - 2 + time)
        return self._hidden(ids), state

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> ContextStates:
        """Return what predicts the word after each context, without the words before."""
        ids = right_aligned(known(ids, self.n_words), lengths, self.window)
        return ContextStates(self._hidden(ids)[:, 0])

    def _hidden(self, ids: Int[Tensor, "rows all"]) -> Float[Tensor, "rows time width"]:
        """Return the hidden layer at the end of each window of order - 1 words."""
        words = self.embedding(ids.clamp_min(0)) * self.embedding.embedding_dim**0.5
        words = functional.dropout(words * (ids != NONE)[..., None], self.dropout, self.training)
        x = windows(words, self.window)  # (rows, time, (order - 1) * embedded)
        hidden = functional.dropout(self.hidden(x).tanh(), self.dropout, self.training)
        return torch.cat([hidden, x], -1) if self.direct else hidden


def windows(
    words: Float[Tensor, "rows all embedded"], size: int
) -> Float[Tensor, "rows time size_x_embedded"]:
    """Return the vectors of each `size` adjacent words side by side, the oldest first.

    Returns
    -------
    Float[Tensor, "rows all-size+1 size*embedded"]
    """
    time = words.shape[1] - size + 1
    return torch.cat([words[:, first : first + time] for first in range(size)], -1)
