"""A small decoder transformer over words with a pointer over the passage.

Beyond the papers of this project: it shows what broad context is worth. A language model like the others,
trained on the same novels, but one that can copy a word from where it stood before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.item_words import ALL
from workbench.models.neural.model import Neural
from workbench.models.neural.network import (
    AttentionWeights,
    ContextStates,
    Copies,
    LanguageModule,
    Lengths,
    States,
    Targets,
    TextState,
    WordIds,
    class_ids,
    sizes_of,
)
from workbench.models.neural.softmax import softmax as softmax_layer
from workbench.texts.batches import EncodedText, ShuffledBatches

COMMON = 1000  # the most frequent words, which are never hidden
_ELSEWHERE = 1 << 40  # beyond all extended ids


class PointerAttention(NamedTuple):
    """Copied words at positions of a text.

    ln of the share of the softmax and of each head, and the attention of each head: its rows sum to 1 over
    the places up to their own.
    """

    keep: Float[Tensor, "rows asked"]
    heads: Float[Tensor, "rows asked heads"]
    attention: Float[Tensor, "rows heads asked time"]

    def by_position(self) -> Float[Tensor, "rows asked time"]:
        """Return the probability that each place is copied."""
        return torch.einsum("rah,rhat->rat", self.heads.exp(), self.attention)

    def next_word(self, same: Bool[Tensor, "rows asked time"]) -> Float[Tensor, "rows asked"]:
        """Return the probability of copying the next word; `same` marks its positions."""
        mass = (self.attention * same[:, None]).sum(-1)  # (rows, heads, asked)
        return (self.heads.exp() * mass.transpose(1, 2)).sum(-1)


class Pointer(nn.Module):
    """Attention over the words read so far, in several heads, with a share for each and for the softmax.

    The query is the state from which the next word is predicted. The key of a place is made of the
    word that stands there and of the state that predicted it: a place is copied if its word fits, or if
    what led to it was like what was read last (as in the continuous cache of Grave et al. 2017).
    """

    def __init__(self, width: int, *, heads: int, size: int) -> None:
        super().__init__()
        self.heads, self.size = heads, size
        self.query = nn.Linear(width, heads * size, bias=False)
        self.key = nn.Linear(2 * width, heads * size, bias=False)
        self.share = nn.Linear(width, heads + 1)
        with torch.no_grad():
            self.share.bias.zero_()
            self.share.bias[-1] = math.log(4 * heads)  # the softmax begins with four fifths

    def forward(
        self,
        states: States,
        words: States,
        asked: Int[Tensor, "rows asked"] | None = None,
        absent: Bool[Tensor, "rows time"] | None = None,
    ) -> PointerAttention:
        """Return the copied words after each position, or after the positions asked for.

        Nothing is copied from places that are `absent`; where no other is, all is left to the softmax.
        """
        rows, time, _ = states.shape
        position = torch.arange(time, device=states.device)
        current, inputs = position, states
        if asked is not None:
            current, inputs = asked[:, None], states[torch.arange(rows, device=states.device)[:, None], asked]
        before = functional.pad(states, (0, 0, 1, 0))[:, :-1]  # what predicted each word
        query = self.query(inputs).view(rows, -1, self.heads, self.size).transpose(1, 2)
        key = self.key(torch.cat([before, words], -1)).view(rows, time, self.heads, self.size).transpose(1, 2)
        exact = torch.promote_types(states.dtype, torch.float32)
        scores = (query @ key.transpose(2, 3)).to(exact) / math.sqrt(self.size)  # (rows, heads, asked, time)
        later = position > current[..., None]  # (time, time), or (rows, 1, asked, time)
        if absent is not None:
            later = later | absent[:, None, None]
        attention = scores.masked_fill(later, -torch.inf).softmax(-1)
        share = self.share(inputs).to(exact).log_softmax(-1)
        keep, heads = share[..., -1], share[..., :-1]
        if absent is not None:
            none = later.all(-1)[:, 0]  # (rows, asked)
            attention = attention.masked_fill(none[:, None, :, None], 0.0)
            keep, heads = keep.masked_fill(none, 0.0), heads.masked_fill(none[..., None], -torch.inf)
        return PointerAttention(keep, heads, attention)


class Block(nn.Module):
    """A transformer block: causal attention, then a gated feed-forward layer, with residual connections.

    As in present-day language models: RMS norm before each part, rotary positions (Su et al. 2021), gates
    (Shazeer 2020), no biases.
    """

    def __init__(self, width: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.drop = heads, nn.Dropout(dropout)
        self.first, self.second = nn.RMSNorm(width), nn.RMSNorm(width)
        self.attend = nn.Linear(width, 3 * width, bias=False)
        self.joined = nn.Linear(width, width, bias=False)
        self.gated = nn.Linear(width, 2 * inner, bias=False)
        self.out = nn.Linear(inner, width, bias=False)

    def forward(self, x: States, turn: Float[Tensor, "2 time half"]) -> States:
        """Read the words before each position."""
        rows, time, width = x.shape
        projections = self.attend(self.first(x)).view(rows, time, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        query, key = _turned(projections[0], turn), _turned(projections[1], turn)  # (rows, heads, time, size)
        seen = functional.scaled_dot_product_attention(query, key, projections[2], is_causal=True)
        x = x + self.drop(self.joined(seen.transpose(1, 2).reshape(rows, time, width)))
        gate, value = self.gated(self.second(x)).chunk(2, -1)
        result: Tensor = x + self.drop(self.out(functional.silu(gate) * value))
        return result


class TransformerModule(LanguageModule):
    """Words of a vocabulary by softmax, words of the passage by copying.

    As in pointer sentinel mixture models (Merity et al. 2017), a word has the probability that the softmax
    gives it, and that of all earlier places where it stands; see :class:`Pointer`. ``<unk>`` stands for
    `unknown_types` different words: each has that share of its probability.
    """

    stateful = False
    turn: Tensor
    window: int

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
        hide: float = 0.15,
        pointer_heads: int = 4,
        pointer_size: int = 64,
        softmax: str = "full",
        tied: bool = True,
    ) -> None:
        super().__init__()
        self.n_words, self.width, self.window = len(counts), width, window
        self.unknown_types, self.dropout, self.hide = max(1, unknown_types), dropout, hide
        inner = inner or 64 * max(1, round(8 * width / 3 / 64))
        self.embedding = nn.Embedding(self.n_words, width)
        self.place = nn.Embedding(window, width)  # of unknown words: where each stood first
        self.again = nn.Parameter(torch.zeros(width))  # of words that stood before
        blocks = [Block(width, heads, inner, dropout) for _ in range(layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.RMSNorm(width)
        self.output = softmax_layer(softmax, width, counts, embedding=self.embedding if tied else None)
        self.pointer = Pointer(width, heads=pointer_heads, size=pointer_size) if pointer_heads else None
        half = width // heads // 2
        rate = 10_000.0 ** (-torch.arange(half) / half)
        angle = torch.arange(window)[:, None] * rate
        self.register_buffer("turn", torch.stack([angle.cos(), angle.sin()]), persistent=False)
        self._initialise(blocks)

    def _initialise(self, blocks: Sequence[Block]) -> None:
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)
        nn.init.normal_(self.place.weight, std=self.width**-0.5)
        for block in blocks:
            for layer in (block.attend, block.gated):
                nn.init.normal_(layer.weight, std=self.width**-0.5)
            for layer in (block.joined, block.out):  # what all blocks add together has the size of one
                nn.init.normal_(layer.weight, std=layer.in_features**-0.5 / (2 * len(blocks)) ** 0.5)

    def states(self, ids: WordIds, state: TextState = None) -> tuple[States, TextState]:
        """Return the states that predict the word after each position."""
        return self._read(ids)[0], state

    def _read(self, ids: WordIds) -> tuple[States, States]:
        """Return the states, and the embedded words."""
        time = ids.shape[1]
        same = (ids[:, :, None] == ids[:, None, :]) & (ids[:, :, None] != 0)
        first = same.int().argmax(-1)  # where the word stood first, (rows, time)
        here = torch.arange(time, device=ids.device)
        words = self.embedding(class_ids(ids, self.n_words)) * self.width**0.5
        words = words + self.place(first) * (ids >= self.n_words)[..., None] * self.width**0.5
        words = words + self.again * (same.any(-1) & (first < here))[..., None]
        x = words = functional.dropout(words, self.dropout, self.training)
        for block in self.blocks:
            x = block(x, self.turn[:, :time])
        return self.norm(x), words

    def forward(self, batch: dict[str, Tensor], state: TextState = None) -> tuple[Tensor, TextState]:
        """Return the mean of -ln p of the next words, in nats, and no state; training hides some words."""
        ids = batch["ids"]
        if self.training and self.hide:
            drawn = torch.rand(len(ids), self.n_words, device=ids.device) < self.hide  # anew for each row
            hidden = drawn.gather(1, class_ids(ids, self.n_words)) & (ids > COMMON) & (ids < self.n_words)
            ids = torch.where(hidden, ids + _ELSEWHERE, ids)
        return super().forward({"ids": ids}, state)

    def following(
        self, ids: WordIds, state: TextState = None, *, start: int = 0, share: float | None = None
    ) -> Float[Tensor, "rows rest"]:
        """Return ln p of each word; in a text longer than the window, given at least half a window before."""
        rest, done = ids.shape[1] - 1, min(ids.shape[1] - 1, self.window)
        begin = start if start < done else 0
        chunks = [super().following(ids[:, : done + 1], state, start=begin, share=share)]
        while done < rest:
            stop = min(done + max(1, self.window // 2), rest)
            first = stop - self.window
            text = ids[:, first : stop + 1]
            chunks.append(super().following(text, state, start=done - first, share=share))
            done = stop
        return torch.cat(chunks, 1)[:, start - begin :]

    def targets(
        self, ids: WordIds, state: TextState = None, *, start: int = 0, share: float | None = None
    ) -> Targets:
        """Return the states that predict the words after the first `start` + 1, within the window."""
        read, target = ids[:, :-1], ids[:, 1 + start :]
        states, words = self._read(read)
        flat, classes = states[:, start:].flatten(0, 1), class_ids(target, self.n_words).flatten()
        if self.pointer is None:
            return Targets(flat, classes, state=state)
        asked = torch.arange(start, read.shape[1], device=ids.device).expand(len(ids), -1) if start else None
        pointed = self.pointer(states, words, asked, None if self.training else read == 0)
        # an unknown word has its share of <unk>; one that stands in the passage differs from the others
        share = math.log(self.unknown_types) if share is None else share
        keep = pointed.keep - (target >= self.n_words) * share
        same = (read[:, None, :] == target[:, :, None]) & (target[:, :, None] != 0)
        return Targets(flat, classes, (keep.flatten(), pointed.next_word(same).flatten()), state)

    def last(self, ids: WordIds, lengths: Lengths) -> ContextStates:
        """Return the states that predict the word after each context, and the copied words."""
        states, words = self._read(ids)
        hidden = states[torch.arange(len(ids), device=ids.device), lengths - 1]
        if self.pointer is None:
            return ContextStates(hidden)
        pointed = self.pointer(states, words, lengths[:, None] - 1, ids == 0)
        return ContextStates(hidden, Copies(ids, pointed.by_position()[:, 0], pointed.keep[:, 0]))

    def attention_weights(self, ids: WordIds) -> AttentionWeights | None:
        """Return the probability that each place is copied: by all heads of the pointer, and by each."""
        if self.pointer is None:
            return None
        asked = torch.full((len(ids), 1), ids.shape[1] - 1, device=ids.device)
        pointed = self.pointer(*self._read(ids), asked, ids == 0)
        heads = pointed.heads.exp().transpose(1, 2) * pointed.attention[:, :, 0]  # (rows, heads, time)
        names = (ALL, *(f"pointer head {number}" for number in range(1, heads.shape[1] + 1)))
        return AttentionWeights(names, torch.cat([pointed.by_position(), heads], 1), has_query=True)


def _turned(
    x: Float[Tensor, "rows heads time size"], turn: Float[Tensor, "2 time half"]
) -> Float[Tensor, "rows heads time size"]:
    """Rotate pairs of numbers by the angle of their position."""
    first, second = x.float().chunk(2, -1)
    cos, sin = turn
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1).type_as(x)


class PointerTransformer(Neural):
    """A decoder transformer over words, mixed with a pointer over the passage.

    Make one by `fit`. Its options, with their defaults for a GPU:

    - width 512, layers 8, heads 8, `inner` (units of the gated part; by default 8/3 of the width),
      dropout 0.1;
    - window 256: words that it reads; `length`, the words of a training row, is at most that;
    - hide 0.15: share of the vocabulary's words, the 1,000 most frequent left out, that a row of a training
      batch does not know, drawn anew for each row;
    - pointer_heads 4, pointer_size 64; ``pointer_heads=0`` is the same transformer without a pointer;
    - softmax "full" ("adaptive" is faster on a CPU), tied True;
    - rows 128, length 256, learning_rate 1e-3, warm_up 0.04, weight_decay 0.05, epochs 4.

    Notes
    -----
    The words of a row are all predicted, each from those before it in the row; rows are cut from the text
    anew in each epoch. Nothing in the training knows of LAMBADA. What is hidden in a row can only be copied
    there, so the network learns early to copy words that it does not know.

    Examples
    --------
    >>> from workbench.models import PointerTransformer
    >>> sizes = {"width": 16, "layers": 1, "heads": 2, "rows": 8, "length": 32}
    >>> model = PointerTransformer.fit(wb.books("sample", "train"), tokens=2000, **sizes)
    >>> frame = model.predict(items)
    >>> bool(frame["rank"].notna().all())
    True
    """

    version = 1
    title = "Pointer transformer"
    sizes: ClassVar[dict[str, Any]] = sizes_of(TransformerModule)
    fit_defaults: ClassVar[dict[str, Any]] = {
        "epochs": 4.0, "rows": 128, "length": 256, "learning_rate": 1e-3, "warm_up": 0.04,
        "weight_decay": 0.05,
    }  # fmt: skip

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> LanguageModule:
        return TransformerModule(counts, unknown_types=info["unknown_types"], **info["sizes"])

    @classmethod
    def _batches(cls, stream: EncodedText, **how: Any) -> ShuffledBatches:
        return ShuffledBatches(stream, rows=how["rows"], length=how["length"], seed=how["seed"])

    @classmethod
    def _label(cls, sizes: Mapping[str, Any]) -> str:
        plain = "" if sizes.get("pointer_heads", 1) else " without pointer"
        shape = f" {sizes['layers']} x {sizes['width']}" if {"layers", "width"} <= set(sizes) else ""
        return cls.title + plain + shape
