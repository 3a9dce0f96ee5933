"""The Stanford attentive reader: a word from the mean of the states that it attends to.

Chen et al. (2016), "A Thorough Examination of the CNN/Daily Mail Reading Comprehension Task", section 3.2,
after Hermann et al. (2015).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from workbench.models.neural.network import AttentionWeights, sizes_of
from workbench.models.readers.attention_sum import (
    BiGRU,
    States,
    Weights,
    attention_to_words,
    attention_weights,
    word_vectors,
)
from workbench.models.readers.encoding import PAD
from workbench.models.readers.reader import Reader, ReaderModule, Scores, mask_absent


class AttentiveModule(ReaderModule):
    """Score a candidate by its output vector and the attended mean of the context's states.

    The attention is the softmax of ``q W p`` over the tokens of the context: q are the last states of the
    query, p those of the token. The loss is -ln of the answer's share among the candidates. The paper begins
    with GloVe's vectors of words; here all begin at random.

    Parameters
    ----------
    n_ids : int
    width : int
        Units of each direction.
    embedded : int
        Dimensions of the words' vectors, which context and query share.
    dropout : float
        Dropout of the words' vectors.
    """

    def __init__(self, n_ids: int, *, width: int = 128, embedded: int = 100, dropout: float = 0.2) -> None:
        super().__init__()
        self.words, self.outputs = word_vectors(n_ids, embedded), word_vectors(n_ids, 2 * width)
        self.context, self.query = BiGRU(embedded, width), BiGRU(embedded, width)
        self.bilinear = nn.Linear(2 * width, 2 * width, bias=False)
        self.dropout = nn.Dropout(dropout)

    def attended(self, batch: Mapping[str, Tensor]) -> tuple[States, Weights]:
        """Return the states of the context, and the attention to each of them."""
        ids, query = batch["context"], batch["query"]
        states, _ = self.context(self.dropout(self.words(ids)), ids != PAD)
        _, question = self.query(self.dropout(self.words(query)), query != PAD)
        return states, attention_weights(states, self.bilinear(question), ids != PAD)

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return the products of the attended mean with the candidates."""
        states, weights = self.attended(batch)
        mean = torch.einsum("rt,rts->rs", weights, states)
        return mask_absent(torch.einsum("rs,rcs->rc", mean, self.outputs(batch["candidates"])), batch)

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights:
        """Return the attention to each token."""
        return attention_to_words(("attention",), self.attended(batch)[1][:, None], batch["context"] != PAD)


class AttentiveReader(Reader):
    """Choose the candidate that fits the states attended to; made by `fit`.

    Chen et al. (2016), trained with AdamW where the paper has plain gradient descent at a rate of 0.1.
    Candidates outside the vocabulary have the same score: it is meant for few, anonymised candidates.
    """

    version = 1
    title = "Attentive reader"
    module = AttentiveModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(AttentiveModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 1e-3, "rows": 32, "clip": 10.0, "epochs": 5}
