"""A bag of words: the sum of the words' vectors, a small network, a softmax."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.networks.base import Last, Network, State, known
from workbench.models.neural.networks.shapes import Float, Int
from workbench.models.neural.softmax import softmax


class BagOfWords(Network):
    """Predict a word from the sum of the vectors of a passage's words, whatever their order.

    The sum is normed (Ba et al. 2016, *Layer normalization*), as long passages have long sums, and goes
    through layers of rectified linear units. A word outside the vocabulary has no vector: it adds nothing.

    Trained on passages (:class:`workbench.texts.passages.Passages`), it predicts the target of each. As a
    language model it predicts each word from the sum of all words before it.

    Parameters
    ----------
    counts : sequence of int (V + 1,)
        Of ``<unk>`` and of the vocabulary's words in the training text.
    dimensions : int, default 200
        Of the words' vectors. They are zeros until `begin` is given some.
    hidden : int, default 512
        Units of a layer.
    layers : int, default 1
    dropout : float, default 0.2
        Of each layer's units.
    tuned : bool, default False
        Whether the vectors are trained with the rest.
    softmax : {"adaptive", "full"}
    """

    def __init__(
        self,
        counts: Sequence[int],
        *,
        dimensions: int = 200,
        hidden: int = 512,
        layers: int = 1,
        dropout: float = 0.2,
        tuned: bool = False,
        softmax: str = "adaptive",
    ) -> None:
        super().__init__()
        self.n_words, self.width, self.window = len(counts), hidden, None
        self.embedding = nn.EmbeddingBag(self.n_words, dimensions, mode="sum", padding_idx=0)
        nn.init.zeros_(self.embedding.weight)
        self.embedding.weight.requires_grad_(tuned)
        parts: list[nn.Module] = [nn.LayerNorm(dimensions)]
        for width in [dimensions, *[hidden] * (layers - 1)]:
            parts += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*parts)
        self.output = _softmax(softmax, hidden, counts)

    def begin(self, vectors: Float[Tensor, "words dimensions"]) -> None:
        """Take the vectors of the words, that of the word of id 1 first."""
        with torch.no_grad():
            self.embedding.weight[1:].copy_(vectors)

    def sums(self, ids: Int[Tensor, "rows time"]) -> Float[Tensor, "rows dimensions"]:
        """Return the sum of the vectors of some words, by their extended ids; 0 adds nothing."""
        found: Tensor = self.embedding(known(ids, self.n_words))
        return found

    def states(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return what predicts the word after each place, from the sum of all up to there; keep the sum."""
        vectors = functional.embedding(ids, self.embedding.weight, padding_idx=0)  # (rows, time, dimensions)
        sums = vectors.cumsum(1)
        if state is not None:
            sums = sums + state[0][:, None]
        return self.layers(sums), (sums[:, -1].detach(),)

    def forward(self, batch: dict[str, Tensor], state: State = None) -> tuple[Tensor, State]:
        """Return the mean of -ln p, in nats, and no state.

        Parameters
        ----------
        batch : dict
            ``"ids"``: extended ids of passages, padded with 0, Int[Tensor, "rows time"]; ``"target"``:
            the word that each lacks, Int[Tensor, " rows"]. Without ``"target"`` as for any network.
        state : tuple of Tensor, optional
            The sum of the text before, where there is no ``"target"``.
        """
        if "target" not in batch:
            return super().forward(batch, state)
        hidden = self.layers(self.sums(batch["ids"]))  # (rows, width)
        return self.output.loss(hidden, batch["target"]), None

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> Last:
        """Return what predicts the word that each passage lacks; the order of its words means nothing."""
        beyond = torch.arange(ids.shape[1], device=ids.device) >= lengths[:, None]  # (rows, time)
        return Last(self.layers(self.sums(ids.masked_fill(beyond, 0))))


_softmax = softmax  # the argument has the same name
