"""A small decoder transformer over words that points back into the passage.

Blocks as in present-day language models: RMS norm before each part, rotary positions (Su et al. 2021), a
gated feed-forward part (Shazeer 2020), no biases.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.networks.base import Last, Network, State, known, recent
from workbench.models.neural.networks.pointer import Pointer, mixed
from workbench.models.neural.networks.shapes import Float, Int
from workbench.models.neural.softmax import softmax as layer

COMMON = 1000
"""The most frequent words, which are never hidden."""

_ELSEWHERE = 1 << 40  # beyond all extended ids


class Block(nn.Module):
    """Attention to the words before, then a gated feed-forward part; both are added to what came in."""

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attend = nn.Linear(width, 3 * width, bias=False)
        self.joined = nn.Linear(width, width, bias=False)
        self.gated = nn.Linear(width, 2 * inner, bias=False)
        self.out = nn.Linear(inner, width, bias=False)

    def forward(
        self, x: Float[Tensor, "rows time width"], turn: Float[Tensor, "2 time half"]
    ) -> Float[Tensor, "rows time width"]:
        """Read the words before each place."""
        rows, time, width = x.shape
        parts = self.attend(self.first(x)).view(rows, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key = _turned(parts[0], turn), _turned(parts[1], turn)  # (rows, heads, time, size)
        seen = functional.scaled_dot_product_attention(query, key, parts[2], is_causal=True)
        x = x + self._dropped(self.joined(seen.transpose(1, 2).reshape(rows, time, width)))
        gate, value = self.gated(self.second(x)).chunk(2, -1)
        return x + self._dropped(self.out(functional.silu(gate) * value))

    def _dropped(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.dropout, self.training)


class PointerTransformer(Network):
    """Words of a vocabulary by softmax, words of the passage by copying; see :class:`Pointer`.

    Parameters
    ----------
    counts : sequence of int (V + 1,)
        Of ``<unk>`` and of the vocabulary's words in the training text.
    unknown_types : int
        Different words that ``<unk>`` stands for: each has that share of its probability.
    width, layers, heads : int
        Of the transformer.
    inner : int, optional
        Units of the gated part, 8/3 of the width by default, in multiples of 64.
    dropout : float
        Of the embedded words and of what each part adds.
    window : int
        Most words that it reads.
    pointer_heads, pointer_size : int
        Of the pointer; without heads there is none.
    softmax : {"full", "adaptive"}
        Over the vocabulary.
    tied : bool
        Whether words are embedded by the weights of the softmax.
    hide : float
        Share of the vocabulary's words, the `COMMON` most frequent left out, that are made unknown in a row
        of a training batch, drawn anew for each row: a word that is not known can only be copied.
    """

    turn: Tensor

    def __init__(
        self,
        counts: Sequence[int],
        *,
        unknown_types: int,
        width: int = 512,
        layers: int = 8,
        heads: int = 8,
        inner: int | None = None,
        dropout: float = 0.1,
        window: int = 256,
        pointer_heads: int = 4,
        pointer_size: int = 64,
        softmax: str = "full",
        tied: bool = True,
        hide: float = 0.0,
    ) -> None:
        super().__init__()
        self.n_words, self.width, self.window = len(counts), width, window
        self.unknown_types, self.dropout, self.hide = max(1, unknown_types), dropout, hide
        inner = inner or 64 * round(8 * width / 3 / 64)
        self.embedding = nn.Embedding(self.n_words, width)
        self.place = nn.Embedding(window, width)  # of unknown words: where each stood first
        self.again = nn.Parameter(torch.zeros(width))  # of words that stood before
        blocks = [Block(width, heads, inner, dropout) for _ in range(layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.RMSNorm(width)
        self.output = layer(softmax, width, counts, embedding=self.embedding if tied else None)
        self.pointer = Pointer(width, heads=pointer_heads, size=pointer_size) if pointer_heads else None
        half = width // heads // 2
        rate = 10_000.0 ** (-torch.arange(half) / half)
        angle = torch.arange(window)[:, None] * rate
        self.register_buffer("turn", torch.stack([angle.cos(), angle.sin()]), persistent=False)
        self._begin(blocks)

    def _begin(self, blocks: Sequence[Block]) -> None:
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)
        nn.init.normal_(self.place.weight, std=self.width**-0.5)
        for block in blocks:
            for part in (block.attend, block.gated):
                nn.init.normal_(part.weight, std=self.width**-0.5)
            for part in (block.joined, block.out):  # what all blocks add together has the size of one
                nn.init.normal_(part.weight, std=part.in_features**-0.5 / (2 * len(blocks)) ** 0.5)

    def states(
        self, ids: Int[Tensor, "rows time"], state: State = None
    ) -> tuple[Float[Tensor, "rows time width"], State]:
        """Return what predicts the word after each place, shape (rows, time, width)."""
        return self._read(ids)[0], state

    def _read(
        self, ids: Int[Tensor, "rows time"]
    ) -> tuple[Float[Tensor, "rows time width"], Float[Tensor, "rows time width"]]:
        """Return the states, and the embedded words."""
        time = ids.shape[1]
        same = (ids[:, :, None] == ids[:, None, :]) & (ids[:, :, None] != 0)
        first = same.int().argmax(-1)  # where the word stood first, (rows, time)
        here = torch.arange(time, device=ids.device)
        words = self.embedding(known(ids, self.n_words)) * self.width**0.5
        words = words + self.place(first) * (ids >= self.n_words)[..., None] * self.width**0.5
        words = words + self.again * (same.any(-1) & (first < here))[..., None]
        x = words = functional.dropout(words, self.dropout, self.training)
        for block in self.blocks:
            x = block(x, self.turn[:, :time])
        return self.norm(x), words

    def forward(self, batch: dict[str, Tensor], state: State = None) -> tuple[Tensor, State]:
        """Return the mean of -ln p of the next words, in nats, and no state."""
        ids = batch["ids"]
        if self.training and self.hide:
            ids = self._hidden(ids)
        states, classes, mixture = self._asked(ids)
        return self.output.loss(states, classes, mixture), state

    def _hidden(self, ids: Int[Tensor, "rows time"]) -> Int[Tensor, "rows time"]:
        """Return ids in which some words of each row are unknown ones, all mentions of a word the same."""
        drawn = torch.rand(len(ids), self.n_words, device=ids.device) < self.hide
        chosen = drawn.gather(1, known(ids, self.n_words)) & (ids > COMMON) & (ids < self.n_words)
        return torch.where(chosen, ids + _ELSEWHERE, ids)

    def following(
        self,
        ids: Int[Tensor, "rows time"],
        state: State = None,
        *,
        start: int = 0,
        share: float | None = None,
    ) -> Float[Tensor, "rows rest"]:
        """Return ln p of each word given those before it, shape (rows, time - 1 - start).

        Of a text longer than the window each word has at least the half of it before.
        """
        del state
        window = len(self.place.weight)
        rest, done = ids.shape[1] - 1, min(ids.shape[1] - 1, window)
        begin = start if start < done else 0
        found = [self._said(ids[:, : done + 1], begin, share)]
        while done < rest:
            stop = min(done + max(1, window // 2), rest)
            first = stop - window
            found.append(self._said(ids[:, first : stop + 1], done - first, share))
            done = stop
        return torch.cat(found, 1)[:, start - begin :]

    def _said(
        self, ids: Int[Tensor, "rows time"], start: int, share: float | None
    ) -> Float[Tensor, "rows rest"]:
        """Return ln p of each word given those before it, in a text no longer than the window."""
        states, classes, mixture = self._asked(ids, start, share)
        found: Tensor = self.output(states, classes)
        return (found if mixture is None else mixed(found, *mixture)).view(len(ids), -1)

    def _asked(
        self, ids: Int[Tensor, "rows time"], start: int = 0, share: float | None = None
    ) -> tuple[Tensor, Tensor, tuple[Tensor, Tensor] | None]:
        """Return states and the classes that follow them, and what the softmax is mixed with, place by place.

        That is ln of its share, and the probability that the word is copied; None without a pointer.
        """
        given, wanted = ids[:, :-1], ids[:, 1 + start :]
        states, words = self._read(given)
        flat, classes = states[:, start:].flatten(0, 1), known(wanted, self.n_words).flatten()
        if self.pointer is None:
            return flat, classes, None
        asked = torch.arange(start, given.shape[1], device=ids.device).expand(len(ids), -1) if start else None
        copied = self.pointer(states, words, asked, None if self.training else given == 0)
        # an unknown word has its share of <unk>; one that stands in the passage can be told from the others
        less = math.log(self.unknown_types) if share is None else share
        kept = copied.keep - (wanted >= self.n_words) * less
        same = (given[:, None, :] == wanted[:, :, None]) & (wanted[:, :, None] != 0)
        return flat, classes, (kept.flatten(), copied.of(same).flatten())

    def last(self, ids: Int[Tensor, "rows time"], lengths: Int[Tensor, " rows"]) -> Last:
        """Return what predicts the word after each context, and what it copies."""
        ids, lengths = recent(ids, lengths, self.window)
        states, words = self._read(ids)
        row = torch.arange(len(ids), device=ids.device)
        hidden = states[row, lengths - 1]
        if self.pointer is None:
            return Last(hidden)
        copied = self.pointer(states, words, lengths[:, None] - 1, ids == 0)
        return Last(hidden, ids, copied.places()[:, 0], copied.keep[:, 0])


def _turned(
    x: Float[Tensor, "rows heads time size"], turn: Float[Tensor, "2 time half"]
) -> Float[Tensor, "rows heads time size"]:
    """Turn pairs of numbers by the angle of their place."""
    one, other = x.float().chunk(2, -1)
    cos, sin = turn
    return torch.cat([one * cos - other * sin, one * sin + other * cos], -1).type_as(x)
