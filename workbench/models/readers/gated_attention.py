"""The gated-attention reader: the query gates the states of the context, layer by layer.

Dhingra et al. (2017), "Gated-Attention Readers for Text Comprehension".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from workbench.models.neural.network import AttentionWeights, sizes_of
from workbench.models.readers.attention_sum import (
    BiGRU,
    States,
    Weights,
    attention_to_words,
    attention_weights,
    is_mentioned,
    state_at,
    summed,
    word_vectors,
)
from workbench.models.readers.encoding import PAD, RESERVED
from workbench.models.readers.reader import Ids, Mask, Reader, ReaderModule, Scores

_FEATURE = 2  # dimensions of the query-word feature, as in the authors' code


class GatedAttentionModule(ReaderModule):
    """Point at tokens of the context after several readings of it.

    Each layer reads the context and the query by GRUs of its own. Between two layers, the states of each
    token of the context are multiplied by the query as this token attends to it. In the last layer the
    attention is the softmax of the products with the query's state at the blank. A candidate's share is the
    sum over its mentions; the loss is -ln of the answer's share among the candidates. The authors' vectors of
    characters are left out, and so are pretrained vectors of words.

    Parameters
    ----------
    n_ids : int
    width : int
        Units of each direction.
    embedded : int
        Dimensions of the words' vectors, which context and query share.
    layers : int
        K.
    dropout : float
        Dropout between layers, as in the authors' code.
    feature : bool
        Whether the last layer knows which tokens are in the query (the paper's qe-comm).
    """

    def __init__(
        self,
        n_ids: int,
        *,
        width: int = 128,
        embedded: int = 128,
        layers: int = 3,
        dropout: float = 0.4,
        feature: bool = True,
    ) -> None:
        super().__init__()
        self.words = word_vectors(n_ids, embedded)
        sizes = [embedded, *[2 * width] * (layers - 1)]
        sizes[-1] += _FEATURE * feature
        self.contexts = nn.ModuleList([BiGRU(size, width) for size in sizes])
        self.queries = nn.ModuleList([BiGRU(embedded, width) for _ in sizes])
        self.in_query = nn.Embedding(2, _FEATURE) if feature else None
        self.dropout = nn.Dropout(dropout)

    def weights(self, batch: Mapping[str, Tensor]) -> list[Weights]:
        """Return the attention of the blank to each token of the context, layer by layer."""
        ids, query = batch["context"], batch["query"]
        read, asked = self.words(ids), self.words(query)
        weights: list[Weights] = []
        last = len(self.contexts)
        for layer, (of_context, of_query) in enumerate(zip(self.contexts, self.queries, strict=True), 1):
            if layer == last and self.in_query is not None:
                read = torch.cat([read, self.in_query(shared(ids, query).long())], 2)
            states, _ = of_context(read, ids != PAD)
            question, _ = of_query(asked, query != PAD)
            weights.append(attention_weights(states, state_at(question, batch["blank"]), ids != PAD))
            if layer < last:
                read = self.dropout(gated(states, question, query != PAD))
        return weights

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return ln of the attention to all mentions of each candidate."""
        return summed(self.weights(batch)[-1], batch)

    def loss(self, batch: Mapping[str, Tensor]) -> Float[Tensor, " rows"]:
        """Return -ln of the answer's share; 0 where the answer is not in the context."""
        return super().loss(batch) * is_mentioned(batch)

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights:
        """Return the attention of the blank to each token; only that of the last layer decides."""
        weights = self.weights(batch)
        names = tuple(f"layer {layer}" for layer in range(1, len(weights) + 1))
        return attention_to_words(names, torch.stack(weights, 1), batch["context"] != PAD)


def gated(states: States, question: States, mask: Mask) -> States:
    """Return the states of the context times the query that each of them attends to."""
    products = torch.einsum("rts,rqs->rtq", states, question)
    shares = products.masked_fill(~mask[:, None], -torch.inf).softmax(2)
    return states * torch.einsum("rtq,rqs->rts", shares, question)


def shared(ids: Ids, query: Ids) -> Mask:
    """Return which tokens of the context are known words of the query."""
    return ((ids[:, :, None] == query[:, None]) & (query >= RESERVED)[:, None]).any(2)


class GatedAttention(Reader):
    """Read the context several times, each time in the light of the query; made by `fit`.

    Dhingra et al. (2017), with the product as gate.
    """

    version = 1
    title = "Gated-attention reader"
    module = GatedAttentionModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(GatedAttentionModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 5e-4, "rows": 32, "clip": 10.0, "epochs": 5}
