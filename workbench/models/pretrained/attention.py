"""Where a causal model looks when it is about to say the missing word."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from workbench.items import text as wt
from workbench.items.schema import Item
from workbench.items.tokens import tokens
from workbench.models.pretrained.network import Network


class Looked(NamedTuple):
    """A text and the tokens of its item in it.

    Attributes
    ----------
    before : str
        All that the model is given.
    spans : list of (int, int)
        Where in it the tokens before the answer stand, in order.
    n : int
        Number of all tokens of the item.
    """

    before: str
    spans: list[tuple[int, int]]
    n: int


def looked(item: Item, before: str, offset: int, *, readable: bool) -> Looked:
    """Find the tokens of an item in what a model is given.

    Parameters
    ----------
    item : Item
    before : str
        What the model is given.
    offset : int
        Where in that the item's own text begins.
    readable : bool
        Whether Treebank tokens are written as a book would.
    """
    cut = tokens(item)
    spans = list(cut.spans[: cut.target])
    if readable and item.tokenised:
        _, spans = wt.readable_spans(item.text, [*spans, item.answer_span])
        spans.pop()
    return Looked(before.rstrip(), [(start + offset, end + offset) for start, end in spans], len(cut.words))


def attention(
    network: Network, texts: Sequence[Looked], *, step: Callable[[int], object] = lambda _n: None
) -> list[list[float]]:
    """Return the attention of the last layer at the last position before the answer, summed by token.

    It is the mean over the layer's heads. What the model gives to a prompt or to special sub-tokens is left
    out, so the weights of an item sum to at most 1; the answer and what follows it have 0.
    """
    import torch  # noqa: PLC0415 - heavy

    ids = network.subwords.contexts([text.before for text in texts])
    places = network.subwords.spans([text.before for text in texts])
    found = []
    for text, row, spans in zip(texts, ids, places, strict=True):
        seen = row[-network.length :]
        with torch.inference_mode():
            told = network.model(input_ids=network.tensor([seen]), output_attentions=True, logits_to_keep=1)
        weights = told.attentions[-1][0, :, -1].float().mean(dim=0).cpu().numpy()
        sums = np.zeros(text.n)
        starts = [start for start, _ in text.spans]
        for weight, (start, end) in zip(weights[::-1], spans[::-1], strict=False):  # the beginning may be cut
            index = bisect_right(starts, end - 1) - 1
            if start < end and index >= 0 and end - 1 < text.spans[index][1]:
                sums[index] += weight
        found.append([float(value) for value in sums])
        step(1)
    return found
