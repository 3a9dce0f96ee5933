"""Items as extended ids: what networks read before a blank, and what follows it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.items import Items
from workbench.models.passage import parts, passages
from workbench.schema import Item


@dataclass
class Blank:
    """The words around the blank of an item.

    Attributes
    ----------
    ids : tuple of int
        Extended ids of all words before the blank, of the context and of the target sentence; never
        empty: a 0 where there is no word. An id above V is ``V + 1`` plus the place in `unknown`.
    right : tuple of int
        Those after it.
    unknown : list of str
        Words outside the vocabulary: those of the passage, then those of candidates.
    """

    ids: tuple[int, ...] = ()
    right: tuple[int, ...] = ()
    unknown: list[str] = field(default_factory=list)


class Reader:
    """Turns the words of items into extended ids.

    Parameters
    ----------
    vocabulary : sequence of str (V,)
        The word of id 1 first.
    lower : bool
        Whether words are lower-cased.
    """

    def __init__(self, vocabulary: Sequence[str], *, lower: bool) -> None:
        self.index = {word: number for number, word in enumerate(vocabulary, 1)}
        self.n_words, self.lower = len(vocabulary) + 1, lower

    def blanks(self, items: Items) -> Iterator[tuple[Item, Blank]]:
        """Yield every item with what is around its blank."""
        for item, passage in passages(items, lower=self.lower):
            blank = Blank()
            blank.ids = self.ids((*passage.context, *passage.left), blank) or (0,)
            blank.right = self.ids(passage.right, blank)
            yield item, blank

    def word(self, item: Item, word: str, blank: Blank) -> tuple[int, ...]:
        """Return the extended ids of a candidate's tokens; those not known yet are added to the blank's."""
        return self.ids(parts(item, word, lower=self.lower), blank)

    def ids(self, words: Iterable[str], blank: Blank) -> tuple[int, ...]:
        """Return extended ids; words outside the vocabulary are numbered in the order of the passage."""
        local = {word: self.n_words + place for place, word in enumerate(blank.unknown)}
        found = []
        for word in words:
            number = self.index.get(word)
            if number is None:
                number = local.get(word)
                if number is None:
                    number = local[word] = self.n_words + len(blank.unknown)
                    blank.unknown.append(word)
            found.append(number)
        return tuple(found)
