"""The attention-sum reader: the sum of the attention to all mentions of a candidate.

Kadlec et al. (2016), "Text Understanding with the Attention Sum Reader Network".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.models.neural.network import AttentionWeights, sizes_of
from workbench.models.readers.encoding import PAD
from workbench.models.readers.reader import Ids, Mask, Reader, ReaderModule, Scores, mask_absent

States = Float[Tensor, "rows time states"]
Weights = Float[Tensor, "rows time"]

_SPREAD = 0.1  # the embeddings begin between this and its negative


class BiGRU(nn.Module):
    """Read rows of vectors in both directions by gated recurrent units (Cho et al. 2014).

    Each direction is a GRU of its own, and the second one reads each row reversed: padding stands at the end
    for both, so it changes no state. Packed sequences give the same states, and train 6 times slower on a CPU
    (450 tokens per row).

    Parameters
    ----------
    inputs : int
        Size of the vectors.
    width : int
        Units of each direction. Their recurrent matrices begin orthogonal, and the biases at 0.
    """

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.forwards, self.backwards = (nn.GRU(inputs, width, batch_first=True) for _ in range(2))
        for gru in (self.forwards, self.backwards):
            nn.init.zeros_(gru.get_parameter("bias_ih_l0"))
            nn.init.zeros_(gru.get_parameter("bias_hh_l0"))
            for gate in gru.get_parameter("weight_hh_l0").detach().chunk(3):
                nn.init.orthogonal_(gate)

    def forward(self, vectors: States, mask: Mask) -> tuple[States, Float[Tensor, "rows states"]]:
        """Return the states at each position and the last state of each direction; the mask marks words."""
        time = torch.arange(vectors.shape[1], device=vectors.device)
        lengths = mask.sum(1, keepdim=True).clamp_min(1)
        mirrored = torch.where(time < lengths, lengths - 1 - time, time)  # its own inverse
        read = self.forwards(vectors)[0]
        reversed_ = self.backwards(_vectors_at(vectors, mirrored))[0]
        ends = torch.cat([_vectors_at(read, lengths - 1), _vectors_at(reversed_, lengths - 1)], 2)[:, 0]
        return torch.cat([read, _vectors_at(reversed_, mirrored)], 2), ends


def _vectors_at(vectors: States, positions: Int[Tensor, "rows k"]) -> States:
    """Return the vectors at the positions of each row."""
    return vectors.gather(1, positions[..., None].expand(-1, -1, vectors.shape[2]))


def state_at(states: States, positions: Int[Tensor, " rows"]) -> Float[Tensor, "rows states"]:
    """Return the state at one position of each row."""
    return _vectors_at(states, positions[:, None])[:, 0]


def word_vectors(n_ids: int, size: int) -> nn.Embedding:
    """Return embeddings that begin uniform between -0.1 and 0.1, 0 for padding; gradients are sparse."""
    vectors = nn.Embedding(n_ids, size, padding_idx=PAD, sparse=True)
    with torch.no_grad():
        vectors.weight.uniform_(-_SPREAD, _SPREAD)[PAD] = 0
    return vectors


def attention_weights(
    states: States, query: Float[Tensor, "rows states"], mask: Mask
) -> Float[Tensor, "rows time"]:
    """Return the softmax of the products with a vector over the tokens of each row, 0 for padding."""
    products = torch.einsum("rts,rs->rt", states, query)
    products = products.masked_fill(~mask, torch.finfo(products.dtype).min)
    return products.softmax(1) * mask


def summed(weights: Weights, batch: Mapping[str, Tensor]) -> Scores:
    """Return ln of the weights of each candidate's mentions, summed: finite without a mention."""
    sums = weights.new_zeros(len(weights), batch["candidates"].shape[1] + 1)
    sums = sums.scatter_add(1, batch["slots"], weights)[:, 1:]
    return mask_absent(sums.clamp_min(torch.finfo(sums.dtype).tiny).log(), batch)


def is_mentioned(batch: Mapping[str, Tensor]) -> Float[Tensor, " rows"]:
    """Return 1 where the answer is mentioned in the context, else 0: no attention can be right."""
    return (batch["slots"] == batch["answer"][:, None] + 1).any(1).float()


def attention_to_words(
    names: tuple[str, ...], weights: Float[Tensor, "rows names time"], mask: Mask
) -> AttentionWeights:
    """Return weights on single tokens of the context."""
    begin = torch.arange(mask.shape[1], device=mask.device).expand(mask.shape)
    return AttentionWeights(names, weights, begin, begin + mask)


class AttentionSumModule(ReaderModule):
    """Point at tokens of the context by a product with the query.

    The attention is the softmax, over the tokens of the context, of the product of each token's states with
    the last states of the query. The loss is -ln of its sum over the mentions of the answer; a question whose
    answer is not in the context teaches nothing.

    Parameters
    ----------
    n_ids : int
    width : int
        Units of each direction.
    embedded : int
        Dimensions of the words' vectors, which context and query share.
    dropout : float
        Dropout of the words' vectors and the states; the paper has none.
    """

    def __init__(self, n_ids: int, *, width: int = 128, embedded: int = 256, dropout: float = 0.0) -> None:
        super().__init__()
        self.words = word_vectors(n_ids, embedded)
        self.context, self.query = BiGRU(embedded, width), BiGRU(embedded, width)
        self.dropout = nn.Dropout(dropout)

    def _read(self, encoder: BiGRU, ids: Ids) -> tuple[States, Float[Tensor, "rows states"]]:
        states, ends = encoder(self.dropout(self.words(ids)), ids != PAD)
        return self.dropout(states), self.dropout(ends)

    def weights(self, batch: Mapping[str, Tensor]) -> Weights:
        """Return the attention to each token of the context."""
        states, _ = self._read(self.context, batch["context"])
        _, query = self._read(self.query, batch["query"])
        return attention_weights(states, query, batch["context"] != PAD)

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return ln of the attention to all mentions of each candidate."""
        return summed(self.weights(batch), batch)

    def loss(self, batch: Mapping[str, Tensor]) -> Float[Tensor, " rows"]:
        """Return -ln of the attention to the answer's mentions."""
        return -self.scores(batch).gather(1, batch["answer"][:, None])[:, 0] * is_mentioned(batch)

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights:
        """Return the attention to each token."""
        return attention_to_words(("attention",), self.weights(batch)[:, None], batch["context"] != PAD)


class AttentionSum(Reader):
    """Choose the candidate with the most attention on its mentions in the context; made by `fit`.

    Kadlec et al. (2016). Pass ``validation`` and ``patience=2``: it overfits after about two epochs.

    Examples
    --------
    >>> from workbench.models import AttentionSum
    >>> questions = wb.load("sample", variant="cbt")[:8]
    >>> model = AttentionSum.fit(questions, width=8, embedded=8, epochs=1)
    >>> look = model.attend(questions[:1])[0]
    >>> look.rows, float(look.weights.sum().round(4))
    (('attention',), 1.0)
    """

    version = 1
    title = "Attention-sum reader"
    module = AttentionSumModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(AttentionSumModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 1e-3, "rows": 32, "clip": 10.0, "epochs": 2}
