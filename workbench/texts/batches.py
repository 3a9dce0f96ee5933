"""A text as the ids of a vocabulary, and its batches: words or passages that a network sees at each step.

An `EncodedText` reads the ids of a corpus. A batch depends on the step alone: a run that stopped continues
with the number of its last step, and several processes take different rows of the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workbench.storage.cache import digest
from workbench.storage.errors import DataError
from workbench.texts.corpus import RESERVED, Corpus

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


Batch = dict[str, Ints]
_SEARCHED = 1 << 20  # sentences that are searched at a time
_ROUNDS = 4  # of the permutation
_LONGEST = 256  # tokens before the target

Words64 = npt.NDArray[np.uint64]


class EncodedText:
    """A tokenised text as ids, and the vocabulary that they count in.

    Ids 1 to V are the words of the vocabulary. A word outside it is 0 for a network; its *extended* id,
    greater than V, distinguishes it from the others.

    Parameters
    ----------
    corpus : Corpus
    vocabulary : int or sequence of str, default 60,000
        The number of its most frequent words, or words, whose order is preserved. Words that do not occur get
        ids, too. What KenLM reserves (``<s>``, ``</s>``, ``<unk>``) and duplicates are left out.

    Attributes
    ----------
    vocabulary : list of str (V,)
        The word of id 1 first; `n_words` is V + 1.
    counts : int64 array (V + 1,)
        How often each id occurs; ``counts[0]`` is all that is outside the vocabulary.
    is_word : bool array (V + 1 + unknown_types,)
        By extended id, whether there is a letter or a digit in the word. False for 0.
    starts, books, lower
        As :class:`workbench.texts.corpus.Corpus` has them.
    sha256 : str
        Digest of the content.

    Raises
    ------
    DataError
        If no word is left in the vocabulary, or one of them holds the end of a line.
    """

    def __init__(self, corpus: Corpus, vocabulary: int | Sequence[str] = 60_000) -> None:
        words = self.vocabulary = _words(corpus, vocabulary)
        self._ids, self.books, self.lower = corpus.ids, corpus.books, corpus.lower
        self.starts: Ints = corpus.starts
        id_of_word = {word: number for number, word in enumerate(words, 1)}
        ids = np.array([id_of_word.get(word, 0) for word in corpus.words], np.uint32)
        outside = np.flatnonzero(ids == 0)  # the most frequent first
        self.n_words, self.n_tokens, self.unknown_types = len(words) + 1, corpus.n_tokens, len(outside)
        self.counts = np.zeros(self.n_words, np.int64)
        np.add.at(self.counts, ids, corpus.counts)
        ids[outside] = self.n_words + np.arange(len(outside))
        self._id_of_type = ids  # extended id of each type of the corpus
        by_id = ("", *words, *(corpus.words[number] for number in outside))
        self.is_word = np.array([any(map(str.isalnum, word)) for word in by_id])
        self.sha256 = stream_sha256(corpus.sha256, words, lower=corpus.lower)

    def __repr__(self) -> str:
        sizes = f"{self.n_tokens:,} tokens, {self.n_words - 1:,} words, {self.unknown_types:,} unknown types"
        return f"EncodedText({sizes}, {len(self.books):,} books)"

    def at(self, positions: Ints | slice) -> Ints:
        """Return the extended ids at some places of the text, int64 of the same shape."""
        ids: Ints = self._id_of_type[self._ids[positions]].astype(np.int64)
        return ids


def stream_sha256(corpus: str, words: Sequence[str], *, lower: bool) -> str:
    """Return the digest of a stream: of the digest of its corpus, and its vocabulary."""
    return digest("stream", corpus, str(lower), *words)


def _words(corpus: Corpus, vocabulary: int | Sequence[str]) -> list[str]:
    """Return the words that get ids."""
    if isinstance(vocabulary, int):
        words = corpus.vocabulary(max(0, vocabulary))
    else:
        words = [word for word in dict.fromkeys(vocabulary) if word not in RESERVED]
    if isinstance(vocabulary, str) or not words or any(not word or "\n" in word for word in words):
        raise DataError(
            f"expected a vocabulary, got {vocabulary!r:.80}",
            hint="pass a list of words, none empty or with the end of a line in it, or a number above 0",
        )
    return words


class Batches(Protocol):
    """Batches, as a training loop uses them."""

    rows: int  # of a batch, over all processes
    carried: bool  # whether each row continues where it stopped, so that a recurrent state is carried along
    steps: int  # of an epoch; later steps belong to the next epochs
    tokens: int  # words that are predicted in a step
    unit: str  # what is counted by `tokens`, in reports: "words" or "questions"

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return the arrays of a step, rows first: of all rows, or of a slice of them."""


class _FixedLength:
    """Batches of rows of a fixed length."""

    unit = "words"

    def __init__(self, stream: EncodedText, *, rows: int, length: int) -> None:
        if rows < 1 or length < 1 or stream.n_tokens < rows * length + 1:
            raise DataError(
                f"a text of {stream.n_tokens:,} words gives no {rows:,} rows of {length:,}",
                hint=f"pass fewer rows, shorter ones, or more text: {rows * length + 1:,} words at least",
            )
        self.stream, self.rows, self.length = stream, rows, length
        self.tokens = rows * length

    def _read(self, firsts: Ints) -> Batch:
        """Return `length` + 1 ids from each place on."""
        return {"ids": self.stream.at(firsts[:, None] + np.arange(self.length + 1))}  # (rows, length + 1)


class ContiguousBatches(_FixedLength):
    """Contiguous batches for truncated back-propagation through time: `length` words in each row of a step.

    The text is divided into as many parts as there are rows; each row reads its part from step to step. An
    epoch is the text once, except for less than ``rows * length`` words at its end. In the next epoch each
    row reads the part that follows, so only the row at the end of the text jumps to the beginning. DataError
    if the text is too short for one step.
    """

    carried = True

    def __init__(self, stream: EncodedText, *, rows: int, length: int) -> None:
        super().__init__(stream, rows=rows, length=length)
        self.steps = (stream.n_tokens - 1) // self.tokens

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return extended ``ids``, int64 (rows, length + 1): the last of a row is the first a step later."""
        rows_read = np.arange(self.rows)[rows or slice(None)]
        pieces = (rows_read * self.steps + step) % (self.rows * self.steps)
        return self._read(pieces * self.length)


class ShuffledBatches(_FixedLength):
    """Pieces of the text in random order, another one in each epoch.

    In an epoch no word is predicted twice, and all but fewer than ``(rows + 1) * length`` are predicted.
    The places where the text is divided are drawn anew for each epoch, too. Parameters and errors are those
    of `ContiguousBatches`, and `seed`.
    """

    carried = False

    def __init__(self, stream: EncodedText, *, rows: int, length: int, seed: int = 0) -> None:
        super().__init__(stream, rows=rows, length=length)
        self.seed = seed
        # as many as there are wherever the first window begins, or one
        self.steps = max(1, (stream.n_tokens - length) // self.tokens)

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return extended ``ids``, int64 (rows, length + 1): consecutive words in each row."""
        epoch, step = divmod(step, self.steps)
        words = self.stream.n_tokens - 1
        offset, order = _shuffled(self.seed, epoch, words, self.length, words - self.steps * self.tokens)
        selected = order[step * self.rows : (step + 1) * self.rows][rows or slice(None)]
        return self._read(offset + selected.astype(np.int64) * self.length)


@lru_cache(maxsize=4)
def _shuffled(
    seed: int, epoch: int, words: int, length: int, slack: int
) -> tuple[int, npt.NDArray[np.uint32]]:
    """Return where an epoch's first window begins, and its windows in random order."""
    rng = np.random.default_rng([seed, epoch])
    offset = int(rng.integers(min(length, slack + 1)))
    order = rng.permutation(np.arange((words - offset) // length, dtype=np.uint32))
    order.flags.writeable = False  # it is shared
    return offset, order


class PassageBatches:
    """Batches of passages in the shape of LAMBADA's, drawn from all passages of a text.

    As in Paperno et al. (2016), a passage is a target sentence after the fewest whole sentences of the same
    book that have more than `minimum` tokens together. Its target is the last word of the target sentence;
    punctuation and quotes after it (tokens without a letter or a digit) are left out. The paper trained Sup-
    CBOW on about nine million passages. Passages with more than 256 tokens before the target, which occur in
    text without sentence ends, and those whose target is outside the vocabulary are left out.

    Passages are drawn without replacement until all were drawn, then again in another order. Passage k
    depends only on `seed` and k. An epoch is the passages 0 to `number` - 1, except for a rest of less than
    `rows`: in ascending order in the first epoch, in a random one in later epochs. DataError if there is no
    such passage in the text, or no batch in an epoch.
    """

    carried, unit = False, "words"

    def __init__(
        self, stream: EncodedText, *, rows: int, number: int, seed: int = 0, minimum: int = 50
    ) -> None:
        if not 1 <= rows <= number:
            raise DataError(
                f"expected at least {rows:,} passages for a batch, got {number:,}",
                hint="ask for more passages, or fewer rows",
            )
        self.stream, self.rows, self.number, self.seed, self.minimum = stream, rows, number, seed, minimum
        self.steps = number // rows
        self.tokens = rows  # one word a row is predicted
        blocks = range(1, len(stream.starts) - 1, _SEARCHED)  # the first sentence has no context
        targets = [
            self._target_sentences(first, min(first + _SEARCHED, len(stream.starts) - 1)) for first in blocks
        ]
        self._targets = np.concatenate([np.zeros(0, np.uint32), *targets])
        if not len(self._targets):
            raise DataError(
                f"this text holds no sentence that ends in a known word after more than {minimum:,} tokens",
                hint="pass more text, or a lower minimum",
            )

    @property
    def distinct(self) -> int:
        """Number of passages of the text."""
        return len(self._targets)

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return the passages of a step.

        They are extended ``ids``, int64 (rows, longest passage of the batch): all before the target, then 0;
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
        positions = (first[:, None] + np.arange(width))[inside]
        ids = np.zeros(inside.shape, np.int64)
        ids[inside] = self.stream.at(positions)
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
        starts, like = self.stream.starts, self.stream.is_word
        result = np.full(len(sentences), -1)
        rest, position = np.arange(len(sentences)), starts[sentences + 1] - 1
        while len(rest):
            is_word = like[self.stream.at(position)]
            result[rest[is_word]] = position[is_word]
            rest, position = rest[~is_word], position[~is_word] - 1
            inside = position >= starts[sentences[rest]]
            rest, position = rest[inside], position[inside]
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

    Each `key` gives another one. The permutation is a balanced Feistel network (Luby and Rackoff 1988, *How
    to construct pseudorandom permutations from pseudorandom functions*) over the next power of 4, walked
    until it comes back below `n` (Black and Rogaway 2002, *Ciphers with arbitrary finite domains*). Its
    rounds mix bits with the finaliser of SplitMix64 (Steele et al. 2014, *Fast splittable pseudorandom number
    generators*).
    """
    bits = np.uint64(max(1, -(-(n - 1).bit_length() // 2)))
    mask = (np.uint64(1) << bits) - np.uint64(1)
    keys = np.random.SeedSequence(key).generate_state(_ROUNDS, np.uint64)
    result = numbers.astype(np.uint64)
    walking = np.ones(result.shape, dtype=bool)
    while walking.any():
        high, low = result[walking] >> bits, result[walking] & mask
        for each in keys:
            high, low = low, high ^ (_splitmix64(low + each) & mask)
        result[walking] = (high << bits) | low
        walking = result >= n
    return result.astype(np.int64)


def _splitmix64(values: Words64) -> Words64:
    """Return the values after the finaliser of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
