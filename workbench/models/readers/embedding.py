"""Supervised embedding models: a part of the question and a word, in one space.

Hill et al. (2016), "The Goldilocks Principle", section 4.3, after Weston et al. (2010). Memory networks
without hops: there is no attention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.network import sizes_of
from workbench.models.readers.encoding import PAD, UNKNOWN
from workbench.models.readers.reader import Ids, Reader, ReaderModule, Scores, mask_absent
from workbench.storage.errors import check_option

PARTS = ("context+query", "query", "window", "window+position")
"""What is embedded."""


def window_ids(ids: Ids, centres: Ids, size: int) -> Tensor:
    """Return the words around positions (rows, places, size), `PAD` beyond the ends of a text.

    `ids` are (rows, time), `centres` (rows, places); the `size` of a window is odd.
    """
    half = size // 2
    padded = functional.pad(ids, (half, half), value=PAD)
    positions = centres[..., None] + torch.arange(size, device=ids.device)  # in `padded`
    return padded.gather(1, positions.flatten(1)).view(positions.shape)


class BagModule(ReaderModule):
    """Score a word by the product of its embedding with the summed embeddings of a part of the question.

    S(q, w) = phi(q) A^T B phi(w). The loss is -ln p of the answer among all words of the vocabulary, as for
    the paper's memory networks; it does not state that of its embedding models. The blank and words outside
    the vocabulary have vectors, too.

    Parameters
    ----------
    n_ids : int
    reads : {"context+query", "query", "window", "window+position"}
        The window is of the query, around its blank; with positions each has a matrix of its own.
    width : int
        p, dimensions of the embeddings.
    window : int
        b, words of the window.
    """

    def __init__(
        self, n_ids: int, *, reads: str = "window+position", width: int = 300, window: int = 5
    ) -> None:
        super().__init__()
        check_option("reads", reads, PARTS)
        self.reads, self.window, self.n_ids = reads, window, n_ids
        self.around = window if reads in {"window", "window+position"} else None
        positions = window if reads == "window+position" else 1
        self.inputs = nn.EmbeddingBag(n_ids * positions, width, mode="sum", padding_idx=PAD, sparse=True)
        self.outputs = nn.Embedding(n_ids, width, padding_idx=PAD)
        for weights in (self.inputs.weight, self.outputs.weight):
            nn.init.normal_(weights, std=width**-0.5)
            with torch.no_grad():
                weights[PAD] = 0

    def embedded(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the embedding of the words read, (rows, width)."""
        ids = batch["query"]
        if self.reads == "context+query":
            ids = torch.cat([batch["context"], ids], 1)
        elif self.around is not None:
            ids = window_ids(ids, batch["blank"][:, None], self.window)[:, 0]
            if self.reads == "window+position":
                ids = torch.where(
                    ids == PAD, PAD, ids + self.n_ids * torch.arange(self.window, device=ids.device)
                )
        summed: Tensor = self.inputs(ids)
        return summed

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return the products with the candidates."""
        products = torch.einsum("rw,rcw->rc", self.embedded(batch), self.outputs(batch["candidates"]))
        return mask_absent(products, batch)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return -ln p of the answer among all words."""
        answers = batch["candidates"].gather(1, batch["answer"][:, None])[:, 0]
        products = self.embedded(batch) @ self.outputs.weight.T  # (rows, ids)
        products[:, :UNKNOWN] = -torch.inf  # neither padding nor blank is a word
        return functional.cross_entropy(products, answers, reduction="none")


class EmbeddingReader(Reader):
    """Score words by embeddings of words and of a part of the question; made by `fit`."""

    version = 1
    title = "Embedding model"
    module = BagModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(BagModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 1e-3, "rows": 64}

    @classmethod
    def _label(cls, sizes: Mapping[str, Any]) -> str:
        return f"{cls.title} ({sizes['reads']})"

    @classmethod
    def _systems(cls, sizes: Mapping[str, Any]) -> dict[str, str]:
        return {"cbt": f"EMBEDDING MODEL ({sizes['reads'].upper()})"}
