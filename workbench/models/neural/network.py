"""The base class of networks: word ids in, states and a softmax out, words copied from the passage.

Class 0 is ``<unk>``; the words of the vocabulary follow. *Extended* ids go on beyond them: each different
word of a passage that is outside the vocabulary has one, so that it can be copied.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.item_words import passages, word_tokens
from workbench.models.neural.softmax import Hidden, Mixture, Softmax, Target
from workbench.storage.errors import check_value

NONE = -1  # no word: before the beginning of a text

WordIds = Int[Tensor, "rows time"]
Lengths = Int[Tensor, " rows"]
States = Float[Tensor, "rows time width"]
TextState = tuple[Tensor, ...] | None
"""What a network remembers of the text so far; every tensor has the rows first. None: the text begins."""


SENTENCE = "sentence"


class Copies(NamedTuple):
    """Probabilities of copying the words of a passage.

    A word has the probability ``exp(keep) * softmax``, and the sum of `copy` over the places where it stands;
    `copy` is 0 for padding. The ids are extended ones.
    """

    ids: Int[Tensor, "rows time"]
    copy: Float[Tensor, "rows time"]
    keep: Float[Tensor, " rows"]


class ContextStates(NamedTuple):
    """Inputs of the softmax that predict the word after each context, and the copied words."""

    hidden: Float[Tensor, "rows width"]
    copies: Copies | None = None


class Targets(NamedTuple):
    """Inputs of the softmax for words of a text, row by row, position by position, and the state after it."""

    hidden: Hidden
    classes: Target
    mixture: Mixture = None
    state: TextState = None


class AttentionWeights(NamedTuple):
    """Attention weights of a network in each text of a batch, on its words or longer segments.

    Attributes
    ----------
    names : tuple of str (K,)
        Names of hops, heads or layers; ``all`` is all of them together.
    weights : Tensor (rows, K, S)
        0 or more; each sums to at most 1. 0 for padding.
    begin, end : Tensor (rows, S), optional
        First token of each segment, and the one after its last; by default the segments are the words.
    has_query : bool, default False
        Whether the last word is the query, not a vector that all texts share.
    """

    names: tuple[str, ...]
    weights: Float[Tensor, "rows names parts"]
    begin: Int[Tensor, "rows parts"] | None = None
    end: Int[Tensor, "rows parts"] | None = None
    has_query: bool = False


class LanguageModule(nn.Module):
    """A language model over the words of a vocabulary; sub-classes say how a text becomes states.

    Their constructors take the counts (V + 1,) of ``<unk>`` and of the vocabulary's words in the training
    text, and, as keywords, the sizes that the predictor of the family describes.

    Attributes
    ----------
    n_words, width : int
        Classes of the softmax, and units of the states from which words are predicted.
    window : int or None
        Longest context that can be used, in words; None: any.
    stateful : bool
        Whether `states` returns what it remembers, so that it can go on with a text.
    copies : bool
        Whether `last` returns copies.
    """

    n_words: int
    width: int
    window: int | None = None
    stateful: bool = True
    copies: bool = False
    output: Softmax

    @abstractmethod
    def states(self, ids: WordIds, state: TextState = None) -> tuple[States, TextState]:
        """Return the state that predicts the word after each position, and the carried state.

        The ids are classes (see :func:`class_ids`); `state` is what is remembered of the text before.
        """

    def targets(
        self,
        ids: WordIds,
        state: TextState = None,
        *,
        start: int = 0,
        share: float | None = None,  # noqa: ARG002 - of networks that copy
    ) -> Targets:
        """Return the states that predict the words after the first `start` + 1, as `following`."""
        ids = class_ids(ids, self.n_words)
        hidden, state = self.states(ids[:, :-1], state)  # (rows, time - 1, width)
        return Targets(hidden[:, start:].flatten(0, 1), ids[:, 1 + start :].flatten(), state=state)

    def forward(self, batch: dict[str, Tensor], state: TextState = None) -> tuple[Tensor, TextState]:
        """Return the mean of -ln p of the words after the first, in nats, and the carried state.

        The batch has ``"ids"``, extended ids (rows, length + 1): each word but the last is read, each but the
        first predicted.
        """
        hidden, classes, mixture, state = self.targets(batch["ids"], state)
        return self.output.loss(hidden, classes, mixture), state

    def remember(
        self, ids: WordIds, state: TextState = None
    ) -> tuple[Float[Tensor, "rows width"], TextState]:
        """Return the state after the words (extended ids), and the carried state."""
        hidden, state = self.states(class_ids(ids, self.n_words), state)
        return hidden[:, -1], state

    def last(self, ids: WordIds, lengths: Lengths) -> ContextStates:
        """Return what predicts the word after contexts of 1 to `window` extended ids, padded at the right."""
        hidden, _ = self.states(class_ids(ids, self.n_words))
        return ContextStates(hidden[torch.arange(len(ids), device=ids.device), lengths - 1])

    def attention_weights(self, ids: WordIds) -> AttentionWeights | None:
        """Return the attention that predicts the word after contexts of one length; None if there is none."""
        del ids
        return None

    def following(
        self, ids: WordIds, state: TextState = None, *, start: int = 0, share: float | None = None
    ) -> Float[Tensor, "rows rest"]:
        """Return ln p of each word (extended ids) given all before it, but for `start` after the first one.

        A word outside the vocabulary counts as ``<unk>``, with the full probability of that class. For
        networks that copy, which tell unknown words apart, `share` is subtracted from ln p(``<unk>``) for one
        of them; by default what the network was trained with.
        """
        hidden, classes, mixture, _ = self.targets(ids, state, start=start, share=share)
        return self.output.log_prob(hidden, classes, mixture).view(len(ids), -1)


class WindowModule(LanguageModule):
    """A language model of the last `window` words; its state is all of them but one.

    Before the beginning of a text there is :data:`NONE`.
    """

    window: int

    @abstractmethod
    def read(self, ids: Int[Tensor, "rows places"]) -> States:
        """Return the states that predict the word after each `window` adjacent words."""

    def states(self, ids: WordIds, state: TextState = None) -> tuple[States, TextState]:
        """Return the states that predict the word after each position, and the last words."""
        size = self.window - 1
        before = ids.new_full((len(ids), size), NONE) if state is None else state[0]
        ids = torch.cat([before, ids], 1)
        return self.read(ids), (ids[:, ids.shape[1] - size :],)

    def last(self, ids: WordIds, lengths: Lengths) -> ContextStates:
        """Return the states that predict the word after each context, from its last words alone."""
        ids = class_ids(ids, self.n_words)
        position = lengths[:, None] - self.window + torch.arange(self.window, device=ids.device)
        ids = ids.gather(1, position.clamp_min(0)).masked_fill(position < 0, NONE)  # (rows, window)
        return ContextStates(self.read(ids)[:, 0])


def class_ids(ids: Int[Tensor, "*shape"], n_words: int) -> Int[Tensor, "*shape"]:
    """Return the classes of words: 0, ``<unk>``, for extended ids beyond the vocabulary."""
    return torch.where(ids >= n_words, 0, ids)


def sizes_of(network: type[nn.Module]) -> dict[str, Any]:
    """Return the sizes of a network class with their defaults: the constructor's keyword-only options."""
    options = inspect.signature(network).parameters.values()
    return {
        option.name: option.default
        for option in options
        if option.kind is option.KEYWORD_ONLY and option.default is not option.empty
    }


class WordScores(NamedTuple):
    """Natural log-probabilities of all words after each context.

    The columns are the classes of the softmax, ``<unk>`` among them as -inf, then words of the passage that
    are outside the vocabulary, -inf where a row has fewer. `ids` are the extended ids of the latter, -1 where
    there is none, and `unknown` is ln p of any other word outside the vocabulary.
    """

    log_probs: Float[Tensor, "rows columns"]
    ids: Int[Tensor, "rows extra"]
    unknown: Float[Tensor, " rows"]

    def log_prob(self, targets: Int[Tensor, "rows k"]) -> Float[Tensor, "rows k"]:
        """Return ln p of words of each row, by their extended ids."""
        column = self._columns(targets)
        values = self.log_probs.gather(1, column.clamp_min(0))
        return torch.where(column >= 0, values, self.unknown[:, None])

    def ranked(
        self, targets: Int[Tensor, " rows"], top_k: int
    ) -> tuple[Float[Tensor, " rows"], Int[Tensor, "rows 2"], Int[Tensor, "rows k"], Float[Tensor, "rows k"]]:
        """Count the words above each answer (an extended id; -1 for none), and pick the best.

        Returned are ln p of the answers (NaN where there is none); 1 + words strictly above, and words equal
        (both 0 where the answer has no column); extended ids of the best words, of equal ones the lower
        column first; their ln p.
        """
        n_words = self.log_probs.shape[1] - self.ids.shape[1]
        log_prob, column = self.log_prob(targets[:, None]), self._columns(targets[:, None])
        rank, tied = (self.log_probs > log_prob).sum(1) + 1, (self.log_probs == log_prob).sum(1)
        counts = torch.stack([rank, tied], 1) * (column >= 0)
        indices, best = _top(self.log_probs, min(top_k, n_words - 1))
        if self.ids.shape[1]:
            extra = self.ids.gather(1, (indices - n_words).clamp_min(0))
            indices = torch.where(indices < n_words, indices, extra)
        return torch.where(targets < 0, torch.nan, log_prob[:, 0]), counts, indices, best

    def _columns(self, targets: Int[Tensor, "rows k"]) -> Int[Tensor, "rows k"]:
        """Return the columns of words, -1 for other words outside the vocabulary."""
        n_words = self.log_probs.shape[1] - self.ids.shape[1]
        column = torch.where((targets > 0) & (targets < n_words), targets, -1)
        if self.ids.shape[1] == 0:
            return column
        same = (self.ids[:, None] == targets[:, :, None]) & (targets > 0)[:, :, None]  # (rows, k, extra)
        return torch.where(same.any(-1), n_words + same.int().argmax(-1), column)


def word_scores(
    log_probs: Float[Tensor, "rows n_words"], share: float, copies: Copies | None = None
) -> WordScores:
    """Return the scores of all words: ln p by a softmax, with the copies mixed in (in double precision).

    `share` is subtracted from ln p(``<unk>``) for one unknown word.
    """
    rows, n_words = log_probs.shape
    if copies is None:
        values = log_probs.clone()
        values[:, 0] = -torch.inf
        ids = torch.empty(rows, 0, dtype=torch.int64, device=values.device)
        return WordScores(values, ids, log_probs[:, 0] - share)
    values = log_probs + copies.keep[:, None].to(log_probs.dtype)
    unknown = values[:, 0] - share
    row, word, mass = _copied_words(copies)
    inside = word < n_words
    plain = torch.where(
        inside, log_probs[row, torch.where(inside, word, 0)].double(), log_probs[row, 0].double() - share
    )
    mixed = torch.logaddexp(plain + copies.keep[row].double(), mass.log()).to(values.dtype)
    values[row[inside], word[inside]] = mixed[inside]
    values[:, 0] = -torch.inf
    row, word, mixed = row[~inside], word[~inside], mixed[~inside]  # sorted by row
    first = torch.searchsorted(row, torch.arange(rows, device=row.device))
    slot = torch.arange(len(row), device=row.device) - first[row]
    width = int(slot.max()) + 1 if len(row) else 0
    ids, extra = row.new_full((rows, width), -1), values.new_full((rows, width), -torch.inf)
    ids[row, slot], extra[row, slot] = word, mixed
    return WordScores(torch.cat([values, extra], 1), ids, unknown)


def _copied_words(copies: Copies) -> tuple[Int[Tensor, " n"], Int[Tensor, " n"], Float[Tensor, " n"]]:
    """Return row, extended id and probability of each different word that is copied, sorted by row and id."""
    row, position = torch.nonzero((copies.copy > 0) & (copies.ids > 0), as_tuple=True)
    word = copies.ids[row, position]
    size = int(word.max()) + 1 if len(word) else 1
    pairs, index = torch.unique(row * size + word, return_inverse=True)
    mass = torch.zeros(len(pairs), dtype=torch.float64, device=word.device)
    mass.index_add_(0, index, copies.copy[row, position].double())
    return pairs // size, pairs % size, mass


def _top(
    values: Float[Tensor, "rows columns"], k: int
) -> tuple[Int[Tensor, "rows k"], Float[Tensor, "rows k"]]:
    """Return the indices of the best values, the best first; of equal ones the lower index first."""
    best, indices = values.topk(k, dim=1)
    if k:
        ambiguous = ((values >= best[:, -1:]).sum(1) > k).nonzero()[:, 0]  # topk chose among equal values
        for row in ambiguous.tolist():
            order = torch.argsort(values[row], descending=True, stable=True)[:k]
            indices[row], best[row] = order, values[row, order]
    order = torch.argsort(indices, dim=1)
    indices, best = indices.gather(1, order), best.gather(1, order)
    order = torch.argsort(best, dim=1, descending=True, stable=True)
    return indices.gather(1, order), best.gather(1, order)


def reads_suffix(reads: int | str | None) -> str:
    """Return the suffix of a model's name for its context size; DataError for one that is not valid."""
    valid = reads in {None, SENTENCE} or (isinstance(reads, int) and reads > 0)
    check_value("reads", reads, valid, "a number of words, 'sentence', or None for all")
    if isinstance(reads, int):
        return f", last {f'{reads:,} words' if reads > 1 else 'word'}"
    return "" if reads is None else f", {reads} alone"


@dataclass
class EncodedBlank:
    """Extended ids of the words before and after the blank of an item; a 0 where no word is before it.

    An id above V is ``V + 1`` plus the place in `unknown`, the words outside the vocabulary: those of the
    passage, then those of candidates.
    """

    ids: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    unknown: list[str] = field(default_factory=list)


class ItemEncoder:
    """Turns the words of items into extended ids: 1 for the first word of the vocabulary.

    `reads` says how much stands before a blank: so many words, or those of the target sentence ("sentence");
    all by default.
    """

    def __init__(self, vocabulary: Sequence[str], *, lower: bool, reads: int | str | None = None) -> None:
        self.index = {word: number for number, word in enumerate(vocabulary, 1)}
        self.n_words, self.lower, self.reads = len(vocabulary) + 1, lower, reads

    def blanks(self, items: Items) -> Iterator[tuple[Item, EncodedBlank]]:
        """Yield every item with the encoded words around its blank."""
        for item, passage in passages(items, lower=self.lower):
            blank = EncodedBlank()
            before = passage.left if self.reads == SENTENCE else (*passage.context, *passage.left)
            n_read = self.reads if isinstance(self.reads, int) else len(before)
            blank.ids = self.ids(before[-n_read:], blank) or (0,)
            blank.right = self.ids(passage.right, blank)
            yield item, blank

    def word(self, item: Item, word: str, blank: EncodedBlank) -> tuple[int, ...]:
        """Return the extended ids of a candidate's tokens; those not known yet are added to the blank's."""
        return self.ids(word_tokens(item, word, lower=self.lower), blank)

    def ids(self, words: Iterable[str], blank: EncodedBlank) -> tuple[int, ...]:
        """Return extended ids; words outside the vocabulary are numbered in the order of the passage."""
        local = {word: self.n_words + index for index, word in enumerate(blank.unknown)}
        numbers = []
        for word in words:
            number = self.index.get(word, local.get(word))
            if number is None:
                number = local[word] = self.n_words + len(blank.unknown)
                blank.unknown.append(word)
            numbers.append(number)
        return tuple(numbers)
