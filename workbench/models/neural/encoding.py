"""Items as extended ids: what networks read before a blank, and what follows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.passage import parts, passages
from workbench.storage.errors import DataError

SENTENCE = "sentence"


def check_reads(reads: int | str | None) -> int | str | None:
    """Return how much a model reads before a blank; DataError if it is no such length."""
    valid = reads > 0 if isinstance(reads, int) else reads in {SENTENCE, None}
    if isinstance(reads, bool) or not valid:
        raise DataError(f"reads is {reads!r}, expected a number of words, 'sentence', or None for all")
    return reads


def reads_suffix(reads: int | str | None) -> str:
    """Return what is added to a model's name for how much it reads."""
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
        """Yield every item with what is around its blank."""
        for item, passage in passages(items, lower=self.lower):
            blank = EncodedBlank()
            before = passage.left if self.reads == SENTENCE else (*passage.context, *passage.left)
            most = self.reads if isinstance(self.reads, int) else len(before)
            blank.ids = self.ids(before[-most:], blank) or (0,)
            blank.right = self.ids(passage.right, blank)
            yield item, blank

    def word(self, item: Item, word: str, blank: EncodedBlank) -> tuple[int, ...]:
        """Return the extended ids of a candidate's tokens; those not known yet are added to the blank's."""
        return self.ids(parts(item, word, lower=self.lower), blank)

    def ids(self, words: Iterable[str], blank: EncodedBlank) -> tuple[int, ...]:
        """Return extended ids; words outside the vocabulary are numbered in the order of the passage."""
        local = {word: self.n_words + place for place, word in enumerate(blank.unknown)}
        numbers = []
        for word in words:
            number = self.index.get(word, local.get(word))
            if number is None:
                number = local[word] = self.n_words + len(blank.unknown)
                blank.unknown.append(word)
            numbers.append(number)
        return tuple(numbers)
