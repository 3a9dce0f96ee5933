"""The memory network of Paperno et al. (2016): the last words as memories, read several times.

It is "similar to the one with which [Hill et al.] reached the best results on the CBT data set" (section 4).
Of theirs (2016, section 3.1) the lexical memory predicts over a vocabulary: the end-to-end memory network
as a language model (Sukhbaatar et al. 2015, section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.model import Neural
from workbench.models.neural.network import NONE, AttentionWeights, States, WindowModule, class_ids, sizes_of
from workbench.models.neural.softmax import softmax as softmax_layer
from workbench.storage.errors import check_value

QUERY = 0.1  # each unit of the first query (Sukhbaatar et al. 2015, section 5)
_SPREAD = 0.05  # standard deviation of weights in the beginning (Sukhbaatar et al. 2015, section 5)
Vectors = Float[Tensor, "rows places width"]


class MemoryModule(WindowModule):
    """Several readings, "hops", of the last words; a softmax.

    With the last n words ``x[i]`` of age i, ``u = 0.1``, and ``hops`` times::

        p[i] = softmax over i of u . (A x[i] + T_A[i])
        u    = r(H u + sum of p[i] (C x[i] + T_C[i]))

    where r cuts negative values off in half of the units. The next word is predicted from the last u. All
    hops have the same A, C and H ("layer-wise, RNN-like" sharing). Each of the words has its own place in
    memory, with its age; the first query is the same for all texts.

    Notes
    -----
    Attention begins as 1 / age in place of even, and H close to the identity. With all weights drawn around
    0, as in the paper, the last word is lost in the mean of all: 100 steps on a small text left the network
    at the perplexity of word frequencies, from here they brought it to little more than half of that.
    """

    slopes: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        *,
        memory: int = 100,
        width: int = 200,
        hops: int = 7,
        rectified: float = 0.5,
        dropout: float = 0.0,
        tied: bool = False,
        softmax: str = "adaptive",
        chunk: int = 64,
    ) -> None:
        super().__init__()
        check_value("memory", memory, memory >= 1, "1 or more")
        check_value("hops", hops, hops >= 1, "1 or more")
        self.n_words, self.width, self.window = len(counts), width, memory
        self.hops, self.dropout, self.chunk = hops, dropout, chunk
        self.keys = nn.Embedding(self.n_words, width)  # A
        self.values = nn.Embedding(self.n_words, width)  # C
        self.key_ages = nn.Parameter(torch.empty(memory, width))  # T_A, the oldest first
        self.value_ages = nn.Parameter(torch.empty(memory, width))  # T_C
        self.turn = nn.Parameter(torch.empty(width, width))  # H, transposed
        slopes = torch.ones(width)  # of negative units: 1 leaves a unit as it is, 0 cuts it off
        slopes[width - round(width * rectified) :] = 0
        self.register_buffer("slopes", slopes, persistent=False)
        self.output = softmax_layer(softmax, width, counts, embedding=self.keys if tied else None)
        self._initialise()

    @torch.no_grad()
    def _initialise(self) -> None:
        for weight in (self.keys.weight, self.values.weight, self.key_ages, self.value_ages):
            nn.init.normal_(weight, std=_SPREAD)
        memory, width = self.key_ages.shape
        age = torch.arange(memory, 0, -1.0)
        self.key_ages.sub_(age.log()[:, None] / (QUERY * width))  # u . T_A = -ln age
        self.turn.copy_(torch.eye(width) + _SPREAD / 5 * torch.randn(width, width))

    def _memories(self, ids: Int[Tensor, "rows places"]) -> tuple[Tensor, Tensor, Tensor]:
        """Return keys and values (rows, places, width) of words, and a mask, -inf where there is none."""
        words, absent = ids.clamp_min(0), ids == NONE
        keys, values = self.keys(words), self.values(words)
        return keys, values, torch.zeros_like(absent, dtype=keys.dtype).masked_fill(absent, -torch.inf)

    def read(self, ids: Int[Tensor, "rows places"]) -> States:
        """Return the last query at the end of each `memory` words, computed a chunk at a time."""
        keys, values, mask = self._memories(ids)
        before, chunks = self.window - 1, []
        for start in range(0, ids.shape[1] - before, self.chunk):
            chunk = slice(start, start + self.chunk + before)
            chunks.append(self.attend(keys[:, chunk], values[:, chunk], mask[:, chunk]))
        return functional.dropout(torch.cat(chunks, 1), self.dropout, self.training)

    def attention_weights(self, ids: Int[Tensor, "rows time"]) -> AttentionWeights:
        """Return the attention of each hop to the words of each context."""
        ids, time = class_ids(ids, self.n_words), ids.shape[1]
        ids = functional.pad(ids, (self.window - time, 0), value=NONE)
        hops: list[Tensor] = []
        self.attend(*self._memories(ids), hops)
        names = tuple(f"hop {number}" for number in range(1, len(hops) + 1))
        return AttentionWeights(names, torch.cat(hops, 1)[:, :, self.window - time :])

    def attend(
        self,
        keys: Vectors,
        values: Vectors,
        mask: Float[Tensor, "rows places"],
        hops: list[Tensor] | None = None,
    ) -> States:
        """Read the memory before each position of a text in several hops, at all positions at once.

        Keys and values are ``A x`` and ``C x`` of the words; the mask is -inf where there is no word, else 0.
        Every word has the `memory` words up to it in memory: scores and sums are products of matrices over
        all pairs, (time x places), of which that band is used, so no vectors are copied for each place. Ages
        and the first query are the same everywhere: products with one small matrix. The attention of each
        hop, (rows, time, memory), is appended to `hops`, if that is a list.
        """
        memory, width = self.key_ages.shape
        rows, length, _ = keys.shape
        across, ages = keys.transpose(1, 2), self.key_ages.t()
        first = QUERY * keys.sum(-1) + mask  # (rows, places)
        scores = first.unfold(1, memory, 1) + QUERY * self.key_ages.sum(-1)  # (rows, time, memory)
        turned = QUERY * self.turn.sum(0)  # (width,), then (rows, time, width)
        query = keys
        for hop in range(self.hops):
            if hop:
                turned = query @ self.turn
                scores = _band(torch.baddbmm(mask[:, None], query, across), memory) + query @ ages
            attention = scores.softmax(-1)  # (rows, time, memory)
            if hops is not None:
                hops.append(attention)
            answer = torch.baddbmm(turned + attention @ self.value_ages, _wide(attention, length), values)
            # PReLU with slopes of 1 and 0: half of the units are left as they are, half cut off at 0
            query = functional.prelu(answer.view(-1, width), self.slopes.to(answer.dtype))
            query = query.view(rows, -1, width)
        return query


def _band(scores: Float[Tensor, "rows time places"], memory: int) -> Float[Tensor, "rows time memory"]:
    """Return each position's scores of the words up to it: a view whose rows each begin one word later."""
    rows, time, length = scores.shape
    return scores.as_strided((rows, time, memory), (time * length, length + 1, 1))


def _wide(attention: Float[Tensor, "rows time memory"], length: int) -> Float[Tensor, "rows time places"]:
    """Scatter each position's shares of the words up to it to these words' positions: `_band` inverted."""
    rows, time, memory = attention.shape
    longer = functional.pad(attention, (0, length + 1 - memory))  # by one, so each row begins one later
    return longer.view(rows, -1)[:, : time * length].view(rows, time, length)


class MemoryNetwork(Neural):
    """An end-to-end memory network over the last words.

    Make one by `fit`, which takes these options beside its own. What Paperno et al. (2016) took is not
    published; the defaults are those of Hill et al. (2016) with the memory that Sukhbaatar et al. (2015)
    took for their larger text (Text8), as long as the longest contexts of LAMBADA.

    memory : int, default 100
        Words that it remembers (Hill et al.: 200).
    width : int, default 200
        Size of the words' vectors and of the query (Hill et al.'s p).
    hops : int, default 7
        Readings of the memory (Hill et al.'s K).
    rectified : float, default 0.5
        Share of the units that is cut off at 0 after each hop.
    chunk : int, default 64
        Words of each row that are computed at once; changes nothing but memory and speed. Their scores are
        rows * chunk * (chunk + memory) numbers per hop.

    Defaults of the others: dropout 0 (of the last query), tied False (if True, the softmax has the weights
    by which memories are found, A; the papers have a third set), softmax "adaptive", epochs 1, rows 64,
    length 64 (the memory before is there too, so a longer piece costs less a word), learning_rate 0.006 (the
    papers: plain gradient descent, 0.01).
    """

    version = 1
    title = "Memory Network"
    systems: ClassVar[dict[str, str]] = {"lambada": "Memory Network"}
    module = MemoryModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(MemoryModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"rows": 64, "length": 64, "learning_rate": 6e-3}
