"""The end-to-end memory network as a language model (Sukhbaatar et al. 2015, section 5).

It is the "lexical memory" of Hill et al. (2016, section 3.1), and what Paperno et al. (2016) call Memory
Network: each of the last n words lies in a place of its own in memory, with its age, and a query that is the
same for all texts reads the memory several times before the next word is predicted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.items.schema import DataError
from workbench.models.neural.networks.base import Last, Network, State, known
from workbench.models.neural.networks.feedforward import NONE, after, ending, last_of
from workbench.models.neural.networks.shapes import Float, Int
from workbench.models.neural.softmax import softmax as layer

QUERY = 0.1  # each unit of the first query (Sukhbaatar et al. 2015, section 5)
_SPREAD = 0.05  # standard deviation of weights in the beginning (Sukhbaatar et al. 2015, section 5)


class Weights(NamedTuple):
    """What reading a memory needs beside the words.

    Attributes
    ----------
    key_ages, value_ages : Float[Tensor, "memory width"]
        Added to the words' vectors, for the oldest word first (T_A and T_C of the paper).
    turn : Float[Tensor, "width width"]
        What a query is multiplied by from one hop to the next, ``u @ turn`` (H of the paper, transposed).
    slopes : Float[Tensor, " width"]
        Of negative units: 1 leaves a unit as it is, 0 cuts it off at 0.
    """

    key_ages: Tensor
    value_ages: Tensor
    turn: Tensor
    slopes: Tensor


class MemoryNetwork(Network):
    """Several readings, "hops", of the last words; a softmax.

    With the last n words ``x[i]`` of age i, ``u = 0.1``, and ``hops`` times::

        p[i] = softmax over i of u . (A x[i] + T_A[i])
        u    = r(H u + sum of p[i] (C x[i] + T_C[i]))

    where r cuts negative values off in half of the units. The next word is predicted from the last u. All
    hops have the same A, C and H ("layer-wise, RNN-like" sharing).

    Parameters
    ----------
    counts : sequence of int (V + 1,)
        Of ``<unk>`` and of the vocabulary's words in the training text.
    memory : int, default 100
        Words that it remembers.
    width : int, default 200
        Of the words' vectors and of the query.
    hops : int, default 7
    rectified : float, default 0.5
        Share of the units that is cut off at 0.
    dropout : float, default 0
        Share of the last u that is set to 0 in training; the paper has none.
    tied : bool, default False
        Whether the softmax has the weights A. The papers have a matrix of its own for it.
    softmax : {"full", "adaptive"}
        Kind of softmax.
    chunk : int, default 64
        Words of a text that are computed at once, which bounds the memory: the scores of a chunk are
        rows * chunk * (chunk + memory) numbers a hop.

    Notes
    -----
    The state is the last memory - 1 words, shape (rows, memory - 1), -1 where the text begins. Places
    without a word are not read. See :func:`read` for how the hops are computed.

    Attention begins as 1 / age in place of even, and H close to the identity. With weights that are all drawn
    around 0, as in the paper, the last word is lost in the mean of all: 100 steps on a small text left the
    network at the perplexity of word frequencies, from here they brought it to little more than half of that.
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
        softmax: str = "full",
        chunk: int = 64,
    ) -> None:
        super().__init__()
        if memory < 1 or hops < 1:
            raise DataError(f"memory is {memory} and hops {hops}, expected 1 or more of each")
        self.n_words, self.width, self.window = len(counts), width, memory
        self.hops, self.dropout, self.chunk = hops, dropout, chunk
        self.keys = nn.Embedding(self.n_words, width)  # A
        self.values = nn.Embedding(self.n_words, width)  # C
        self.key_ages = nn.Parameter(torch.empty(memory, width))  # T_A, the oldest first
        self.value_ages = nn.Parameter(torch.empty(memory, width))  # T_C
        self.turn = nn.Parameter(torch.empty(width, width))  # H, transposed
        slopes = torch.ones(width)
        slopes[width - round(width * rectified) :] = 0
        self.register_buffer("slopes", slopes, persistent=False)
        self.output = layer(softmax, width, counts, embedding=self.keys if tied else None)
        self._begin()

    @torch.no_grad()
    def _begin(self) -> None:
        for weight in (self.keys.weight, self.values.weight, self.key_ages, self.value_ages):
            nn.init.normal_(weight, std=_SPREAD)
        memory, width = self.key_ages.shape
        age = torch.arange(memory, 0, -1.0)
        self.key_ages.sub_(age.log()[:, None] / (QUERY * width))  # u . T_A = -ln age
        self.turn.copy_(torch.eye(width) + _SPREAD / 5 * torch.randn(width, width))

    @property
    def weights(self) -> Weights:
        """What reading needs beside the words."""
        return Weights(self.key_ages, self.value_ages, self.turn, self.slopes)

    def states(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return the last query after each word, and the last words."""
        more = len(self.key_ages) - 1
        ids = after(state, ids, more)  # (rows, memory - 1 + time)
        return self._read(ids, self.chunk), (last_of(ids, more),)

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> Last:
        """Return what predicts the word after each context, without the words before."""
        return Last(self._read(ending(known(ids, self.n_words), lengths, len(self.key_ages)), 1)[:, 0])

    def _read(self, ids: Int[Tensor, "rows places"], chunk: int) -> Float[Tensor, "rows time width"]:
        """Return the last query at the end of each `memory` words, computed so many at a time."""
        there, absent = ids.clamp_min(0), ids == NONE
        keys, values = self.keys(there), self.values(there)  # (rows, places, width)
        nothing = torch.zeros_like(absent, dtype=keys.dtype).masked_fill(absent, -torch.inf)
        more, found = len(self.key_ages) - 1, []
        for at in range(0, ids.shape[1] - more, chunk):
            part = slice(at, at + chunk + more)
            found.append(read(keys[:, part], values[:, part], nothing[:, part], self.weights, self.hops))
        queries = torch.cat(found, 1) if len(found) > 1 else found[0]
        return functional.dropout(queries, self.dropout, self.training)


def read(
    keys: Float[Tensor, "rows places width"],
    values: Float[Tensor, "rows places width"],
    nothing: Float[Tensor, "rows places"],
    weights: Weights,
    hops: int,
) -> Float[Tensor, "rows time width"]:
    """Read the memory before each place of a text in several hops, at all places at once.

    Every word of the text has the `memory` words up to it in memory: a band of all pairs of words. Scores and
    sums are therefore products of matrices over all pairs, (time x places), of which the band is used; no
    word's vectors are ever copied for each place that sees it. Ages are the same everywhere, so their part is
    a product with one small matrix. So is the first query: its scores are one number a word.

    Parameters
    ----------
    keys, values : Float[Tensor, "rows places width"]
        Of the words: ``A x`` and ``C x``.
    nothing : Float[Tensor, "rows places"]
        0 where there is a word, -inf where there is none.
    weights : Weights
    hops : int

    Returns
    -------
    Float[Tensor, "rows time width"]
        The query after the last hop at the end of each `memory` words; time is places - memory + 1.
    """
    memory, width = weights.key_ages.shape
    rows, places, _ = keys.shape
    time = places - memory + 1
    across, ages = keys.transpose(1, 2), weights.key_ages.t()
    first = QUERY * keys.sum(-1) + nothing  # (rows, places)
    scores = first.unfold(1, memory, 1) + QUERY * weights.key_ages.sum(-1)  # (rows, time, memory)
    turned = QUERY * weights.turn.sum(0)  # (width,), then (rows, time, width)
    query = keys
    for hop in range(hops):
        if hop:
            turned = query @ weights.turn
            scores = _band(torch.baddbmm(nothing[:, None], query, across), memory) + query @ ages
        seen = scores.softmax(-1)  # (rows, time, memory)
        answer = torch.baddbmm(turned + seen @ weights.value_ages, _wide(seen, places), values)
        # PReLU with slopes of 1 and 0: half of the units are left as they are, half cut off at 0
        query = functional.prelu(answer.view(-1, width), weights.slopes.to(answer.dtype))
        query = query.view(rows, time, width)
    return query


def _band(scores: Float[Tensor, "rows time places"], memory: int) -> Float[Tensor, "rows time memory"]:
    """Return each place's scores of the words up to it: a view whose rows begin one word later each."""
    rows, time, places = scores.shape
    return scores.as_strided((rows, time, memory), (time * places, places + 1, 1))


def _wide(seen: Float[Tensor, "rows time memory"], places: int) -> Float[Tensor, "rows time places"]:
    """Put the shares of the words up to each place where these words stand: `_band` backwards, else 0."""
    rows, time, memory = seen.shape
    longer = functional.pad(seen, (0, places + 1 - memory))  # rows one longer, so that each begins one later
    return longer.view(rows, -1)[:, : time * places].view(rows, time, places)
