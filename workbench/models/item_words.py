"""Words of the context and the query, as models read them, and attention weights on them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import Item, Span
from workbench.items.tokens import tokens
from workbench.storage.errors import DataError

Side = Literal["before", "both", "none"]

ALL = "all"
"""Name of a row that says how the others come together; without it that is their mean."""


class Passage(NamedTuple):
    """The tokens of an item without its answer."""

    context: tuple[str, ...]  # before the target sentence
    left: tuple[str, ...]  # of the target sentence, before the blank
    right: tuple[str, ...]  # after it

    @property
    def words(self) -> tuple[str, ...]:
        """All tokens."""
        return self.context + self.left + self.right


class ReadContext(NamedTuple):
    """The extent of a passage that a model reads to predict the word in the blank.

    Attributes
    ----------
    side : {"before", "both", "none"}
        The text before the blank, that on both sides of it, or nothing of the passage.
    words : int, optional
        How many of the nearest words it reads at most, on each side; all by default.
    sentence : bool, default False
        Whether it reads the target sentence alone.
    scores_rest : bool, default False
        Whether a candidate is scored together with the words that follow it in the target sentence.

    Examples
    --------
    >>> from workbench.models.item_words import ReadContext
    >>> ngram.context
    ReadContext(side='before', words=2, sentence=True, scores_rest=True)
    """

    side: Side
    words: int | None = None
    sentence: bool = False
    scores_rest: bool = False

    def spans(self, item: Item) -> list[Span]:
        """Return the spans of the words that it reads in the item's text, without the scored words."""
        item_tokens = tokens(item)
        first = item_tokens.sentences[-1] if self.sentence else 0
        before = list(item_tokens.spans[first : item_tokens.target])
        after = list(item_tokens.spans[item_tokens.end :])
        if self.words is not None:
            before, after = before[max(0, len(before) - self.words) :], after[: self.words]
        read = {"before": before, "both": before + after, "none": []}[self.side]
        return [(start, end) for start, end in read if start < end]


def passages(items: Items, *, lower: bool) -> Iterator[tuple[Item, Passage]]:
    """Yield every item with its tokens, lower-cased or as written."""
    for item in items:
        yield item, _passage(item, lower=lower)


def _passage(item: Item, *, lower: bool) -> Passage:
    item_tokens = tokens(item)
    words = tuple([word.lower() for word in item_tokens.words]) if lower else item_tokens.words
    first = item_tokens.sentences[-1]
    return Passage(words[:first], words[first : item_tokens.target], words[item_tokens.end :])


def lefts(items: Items, *, lower: bool) -> Iterator[Sequence[str]]:
    """Yield the tokens of the target sentence before the blank, as `passages` does but for the rest."""
    for item in items:
        if item.tokenised:
            yield (item.left.lower() if lower else item.left).split()
        else:
            yield _passage(item, lower=lower).left


def word_tokens(item: Item, word: str, *, lower: bool) -> tuple[str, ...]:
    """Return the tokens of a candidate, cut as the item's text is; a word without any is its own."""
    word = word.lower() if lower else word
    return tuple(word.split() if item.tokenised else wt.tokenize(word)) or (word,)


def distinct(words: Iterable[str], *, lower: bool, answer: str | None = None) -> list[str]:
    """Return the different words in the order of their first occurrence.

    Where case does not count, each is spelt as it is most often. Only the answer keeps its own spelling:
    a model that cannot tell them apart is not to lose by a capital letter.
    """
    if not lower:
        return list(dict.fromkeys(words))
    spellings: dict[str, Counter[str]] = {}
    for word in words:
        spellings.setdefault(word.lower(), Counter())[word] += 1
    chosen = {form: counts.most_common(1)[0][0] for form, counts in spellings.items()}
    if answer is not None and answer.lower() in chosen:
        chosen[answer.lower()] = answer
    return list(chosen.values())


def occurrences(words: Sequence[str], wanted: tuple[str, ...], positions: Sequence[int]) -> list[int]:
    """Return the positions of a sequence of words, given the positions of its first word."""
    if len(wanted) == 1:
        return list(positions)
    return [position for position in positions if tuple(words[position : position + len(wanted)]) == wanted]


def positions_of(words: Iterable[str]) -> dict[str, list[int]]:
    """Return the positions of each word; an empty word, which is the blank, has none."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(words):
        if word:
            positions.setdefault(word, []).append(position)
    return positions


def is_word(token: str) -> bool:
    """Return whether a token has a letter or digit."""
    return any(map(str.isalnum, token))


class Attention(NamedTuple):
    """Attention weights of a model in one item.

    Attributes
    ----------
    item_id, model : str
    rows : tuple of str (K,)
        What each row of weights is of: ``hop 1``, ``layer 2, head 3``, or `ALL`.
    spans : tuple of (int, int) (S,)
        Characters in ``item.text``, end excluded. They may overlap, as windows do.
    weights : float array (K, S)
        0 or more; a row sums to at most 1.
    query : (int, int) or None
        The part of the text that asked, such as the window around the blank.
    prediction : str
        The word that the model chose.
    """

    item_id: str
    model: str
    rows: tuple[str, ...]
    spans: tuple[Span, ...]
    weights: npt.NDArray[np.float64]
    query: Span | None
    prediction: str

    def row_weights(self, row: str = "") -> npt.NDArray[np.float64]:
        """Return the weights (S,) of one row, or the mean of a group of rows; DataError if there is none.

        A part of a name before the comma, as ``layer 2``, is the mean of the rows that begin so; by default
        it is that of all rows, by the row `ALL` or else by their mean.
        """
        name = row or ALL
        if name in self.rows:
            return np.asarray(self.weights[self.rows.index(name)], dtype=np.float64)
        members = [index for index, each in enumerate(self.rows) if not row or each.startswith(f"{row}, ")]
        if not members and row:
            raise DataError(
                f"{self.model} has no row {row!r:.80} of attention", hint=f"choose {self.rows[0]!r}"
            )
        if not members:
            return np.zeros(len(self.spans))
        return np.asarray(self.weights[members].mean(axis=0), dtype=np.float64)

    def by_token(self, item: Item, *, window: int = 0) -> list[float]:
        """Return one weight per token of the item, of all rows together.

        Each part's weight is spread evenly over the tokens that it touches. Where parts are windows of so
        many tokens, cut off at the ends of the text, the token in the centre has all of it.
        """
        spans = tokens(item).spans
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        sums = np.zeros(len(spans))
        for (start, end), weight in zip(self.spans, self.row_weights(), strict=True):
            first, last = bisect_right(ends, start), bisect_left(starts, end)
            if window:
                first = first + window // 2 if first else max(0, last - 1 - window // 2)
                last = first + 1
            sums[first:last] += weight / max(1, last - first)
        return [float(value) for value in sums]

    def predicted(self, item: Item) -> list[Span]:
        """Return the spans of the prediction in the text, outside the blank; case is ignored."""
        item_tokens, word = tokens(item), self.prediction.casefold()
        positions = [*range(item_tokens.target), *range(item_tokens.end, len(item_tokens.words))]
        same = [item_tokens.spans[i] for i in positions if item_tokens.words[i].casefold() == word]
        return [(start, end) for start, end in same if start < end]
