"""Passages of the shape of LAMBADA's, drawn from a stream."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from workbench.storage.errors import DataError
from workbench.texts.batches import Batch
from workbench.texts.stream import Ints, Stream

_BLOCK = 1 << 20  # sentences that are searched at a time
_ROUNDS = 4  # of the permutation
_LONGEST = 256  # tokens before the target

Words64 = npt.NDArray[np.uint64]


class Passages:
    """Batches of passages in the shape of LAMBADA's, drawn from all passages of a text.

    As in Paperno et al. (2016), a passage is a target sentence after the fewest whole sentences of the same
    book that have more than `minimum` tokens together. Its target is the last word of the target sentence;
    punctuation and quotes after it (tokens without a letter or a digit) are left out. The paper trained
    Sup-CBOW on about nine million passages. Passages with more than 256 tokens before the target, which occur
    in text without sentence ends, and those whose target is outside the vocabulary are left out.

    Passages are drawn without replacement until all were drawn, then again in another order. Passage k
    depends only on `seed` and k. An epoch is the passages 0 to `number` - 1, except for a rest of less than
    `rows`: in ascending order in the first epoch, in a random one in later epochs.

    Parameters
    ----------
    stream : Stream
    rows : int
        Passages in a batch.
    number : int
        Passages of an epoch.
    seed : int, default 0
    minimum : int, default 50
        The context has more tokens than this.

    Raises
    ------
    DataError
        If there is no such passage in the text, or no batch in an epoch.
    """

    carried, unit = False, "words"

    def __init__(self, stream: Stream, *, rows: int, number: int, seed: int = 0, minimum: int = 50) -> None:
        if not 1 <= rows <= number:
            raise DataError(
                f"expected at least {rows:,} passages for a batch, got {number:,}",
                remedy="ask for more passages, or fewer rows",
            )
        self.stream, self.rows, self.number, self.seed, self.minimum = stream, rows, number, seed, minimum
        self.steps = number // rows
        self.tokens = rows  # one word a row is predicted
        blocks = range(1, len(stream.starts) - 1, _BLOCK)  # the first sentence has no context
        targets = [
            self._target_sentences(first, min(first + _BLOCK, len(stream.starts) - 1)) for first in blocks
        ]
        self._targets = np.concatenate([np.zeros(0, np.uint32), *targets])
        if not len(self._targets):
            raise DataError(
                f"this text holds no sentence that ends in a known word after more than {minimum:,} tokens",
                remedy="pass more text, or a lower minimum",
            )

    @property
    def distinct(self) -> int:
        """Number of passages of the text."""
        return len(self._targets)

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return the passages of a step.

        Returns
        -------
        dict
            Extended ``ids``, int64 (rows, longest passage of the batch): all before the target, then 0;
            ``lengths`` (rows,) of the passages; ``target`` (rows,).
        """
        epoch, step = divmod(step, self.steps)
        numbers = np.arange(step * self.rows, (step + 1) * self.rows)
        if epoch:
            numbers = permuted(numbers, self.number, key=(self.seed, 1, epoch))
        first, target = self.places(numbers)
        width, selected = int((target - first).max()), rows or slice(None)
        first, target = first[selected], target[selected]
        lengths = target - first
        inside = np.arange(width) < lengths[:, None]  # (rows, width)
        places = (first[:, None] + np.arange(width))[inside]
        ids = np.zeros(inside.shape, np.int64)
        ids[inside] = self.stream.at(places)
        return {"ids": ids, "lengths": lengths, "target": self.stream.at(target)}

    def places(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return where passages begin in the text, and the places of their targets, by their k (n,)."""
        drawn = np.zeros(len(numbers), np.int64)
        rounds, inside = np.divmod(numbers, self.distinct)
        for each in np.unique(rounds).tolist():
            here = rounds == each
            drawn[here] = permuted(inside[here], self.distinct, key=(self.seed, 0, each))
        sentences = self._targets[drawn].astype(np.int64)
        return self.stream.starts[self._first(sentences)], self._last(sentences)

    def _first(self, sentences: Ints) -> Ints:
        """Return the first sentence of each passage, -1 where the text before it is too short."""
        starts = self.stream.starts
        return np.searchsorted(starts, starts[sentences] - self.minimum, side="left") - 1

    def _last(self, sentences: Ints) -> Ints:
        """Return the place of the last word of each sentence, -1 where there is no word."""
        starts, like = self.stream.starts, self.stream.words_like
        result = np.full(len(sentences), -1)
        rest, place = np.arange(len(sentences)), starts[sentences + 1] - 1
        while len(rest):
            is_word = like[self.stream.at(place)]
            result[rest[is_word]] = place[is_word]
            rest, place = rest[~is_word], place[~is_word] - 1
            inside = place >= starts[sentences[rest]]
            rest, place = rest[inside], place[inside]
        return result

    def _target_sentences(self, first: int, stop: int) -> npt.NDArray[np.uint32]:
        """Return which of the sentences `first` to `stop` - 1 are the last of a passage."""
        stream, sentences = self.stream, np.arange(first, stop)
        begins = self._first(sentences)
        books = stream.books["first"].to_numpy()
        of_book = books[np.searchsorted(books, sentences, side="right") - 1]
        sentences, begins = (array[begins >= of_book] for array in (sentences, begins))
        target = self._last(sentences)
        good = (target >= 0) & (target - stream.starts[begins] <= _LONGEST)
        good[good] = stream.at(target[good]) < stream.n_words
        return sentences[good].astype(np.uint32)


def permuted(numbers: Ints, n: int, *, key: tuple[int, ...]) -> Ints:
    """Return the places of numbers in a random permutation of 0 to `n` - 1, without the whole permutation.

    The permutation is a balanced Feistel network (Luby and Rackoff 1988, *How to construct pseudorandom
    permutations from pseudorandom functions*) over the next power of 4, walked until it comes back below
    `n` (Black and Rogaway 2002, *Ciphers with arbitrary finite domains*). Its rounds mix bits with the
    finaliser of SplitMix64 (Steele et al. 2014, *Fast splittable pseudorandom number generators*).

    Parameters
    ----------
    numbers : int64 array
        Each at least 0 and below `n`.
    n : int
    key : tuple of int
        Each key gives another permutation.
    """
    bits = np.uint64(max(1, -(-(n - 1).bit_length() // 2)))
    mask = (np.uint64(1) << bits) - np.uint64(1)
    keys = np.random.SeedSequence(key).generate_state(_ROUNDS, np.uint64)
    result = numbers.astype(np.uint64)
    walking = np.ones(result.shape, dtype=bool)
    while walking.any():
        left, right = result[walking] >> bits, result[walking] & mask
        for each in keys:
            left, right = right, left ^ (_splitmix64(right + each) & mask)
        result[walking] = (left << bits) | right
        walking = result >= n
    return result.astype(np.int64)


def _splitmix64(values: Words64) -> Words64:
    """Return the values after the finaliser of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
