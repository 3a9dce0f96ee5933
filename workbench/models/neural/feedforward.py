"""The feed-forward n-gram language model of Bengio et al. (2003, "A neural probabilistic language model").

It is not a system of Table 1 of Paperno et al. (2016), but one of the four language models that their
construction filters passages by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.model import Neural
from workbench.models.neural.network import NONE, States, WindowModule, sizes_of
from workbench.models.neural.softmax import softmax as softmax_layer
from workbench.storage.errors import check_value


class FeedForwardModule(WindowModule):
    """The last words' vectors side by side, a layer of tanh, a softmax.

    The next word is predicted from ``tanh(d + H x)``, where x are the vectors of the last order - 1 words
    (section 2 of the paper). A word that is not there, before the beginning of a text, has the vector 0.
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
        softmax: str = "adaptive",
    ) -> None:
        super().__init__()
        check_value("order", order, order > 1, "2 or more")
        embedded = embedded or width
        self.n_words, self.window, self.dropout, self.direct = len(counts), order - 1, dropout, direct
        self.width = width + direct * (order - 1) * embedded
        self.embedding = nn.Embedding(self.n_words, embedded)
        self.hidden = nn.Linear((order - 1) * embedded, width)
        self.output = softmax_layer(softmax, self.width, counts, embedding=self.embedding if tied else None)
        nn.init.normal_(self.embedding.weight, std=embedded**-0.5)  # times its root: see `read`
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)

    def read(self, ids: Int[Tensor, "rows places"]) -> States:
        """Return the hidden layer at the end of each window of order - 1 words."""
        words = self.embedding(ids.clamp_min(0)) * self.embedding.embedding_dim**0.5
        words = functional.dropout(words * (ids != NONE)[..., None], self.dropout, self.training)
        time = ids.shape[1] - self.window + 1
        x = torch.cat([words[:, first : first + time] for first in range(self.window)], -1)
        hidden = functional.dropout(self.hidden(x).tanh(), self.dropout, self.training)
        return torch.cat([hidden, x], -1) if self.direct else hidden


class FeedForward(Neural):
    """A network that sees the last words side by side.

    Make one by `fit`, which takes these options beside its own. What Paperno et al. (2016) took is not
    published; the order is that of Bengio et al. (2003), the width that of our other networks.

    order : int, default 5
        The n of its n-grams, 2 or more: it sees the last n - 1 words.
    width : int, default 512
        Units of the hidden layer (Bengio et al.: 50 to 100).
    embedded : int, optional
        Size of the words' vectors; the width by default (Bengio et al.: 30 to 100).
    direct : bool, default False
        Whether the softmax sees the words' vectors beside the hidden layer (their "direct connections").

    Defaults of the others: dropout 0 (of words' vectors and hidden layer), tied True (the paper has two
    sets of weights), softmax "adaptive", epochs 1, rows 64, length 35, learning_rate 0.003.
    """

    version = 1
    title = "Feed-forward n-gram"
    module = FeedForwardModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(FeedForwardModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"rows": 64, "length": 35, "learning_rate": 3e-3}

    @classmethod
    def _label(cls, sizes: Mapping[str, Any]) -> str:
        return super()._label(sizes).replace("n-gram", f"{sizes.get('order', 'n')}-gram", 1)
