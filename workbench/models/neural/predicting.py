"""Scores and ranks of words from what a network says of ids; plain networks and cached ones share it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.models.base import Predictor, pad
from workbench.models.neural.encoding import Blank, Reader
from workbench.models.rows import Ranked
from workbench.runs.predictions import Floats

if TYPE_CHECKING:
    from workbench.models.neural.networks.base import Network
    from workbench.models.neural.scoring import Scorer


class WordByWord(Predictor):
    """A model that reads all words before the blank, as ids, and ranks a vocabulary.

    Attributes
    ----------
    after : bool
        Whether candidates are scored by the words after the blank too.
    lower : bool
        Whether words are lower-cased.
    unknown_types : int
        Different words outside the vocabulary in the training text.
    reader : Reader
        How items become ids.
    """

    score_type = "log_prob"
    after: bool
    lower: bool

    @property
    @abstractmethod
    def reader(self) -> Reader:
        """How items become ids."""

    @property
    @abstractmethod
    def unknown_types(self) -> int:
        """Different words outside the vocabulary in the training text."""

    @property
    @abstractmethod
    def network(self) -> Network:
        """The network on its device, ready for prediction."""

    @abstractmethod
    def with_context(self, reads: int | str | None) -> Self:
        """Return this model, its weights shared, as one that reads only so much before a blank.

        Parameters
        ----------
        reads : int, "sentence" or None
            Number of words, those of the target sentence, or all.
        """

    @abstractmethod
    def scorer(self) -> Scorer:
        """Return what computes probabilities from ids."""

    @property
    def copies(self) -> bool:
        """Whether the network copies words of the passage by itself."""
        return False

    @property
    def unknown_share(self) -> float:
        """What is subtracted from the natural log-probability of ``<unk>`` for one unknown word."""
        return math.log(self.unknown_types) if self.unknown == "shared" else 0.0

    def form(self, word: str) -> str:
        """Return a word as the vocabulary has it."""
        return word.lower() if self.lower else word

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities of words in the blank, with those of the words after it where `after`.

        Returns
        -------
        array (n, most words)
            The part of the target sentence's natural log-probability that depends on the word. A word of
            several tokens has the product of theirs. NaN beyond the words of an item.
        """
        return self._score(items, words, after=self.after)

    def log_prob(self, items: Items) -> Floats:
        """Return the natural log-probability of each answer given what stands before it, shape (n,)."""
        answers = items.frame["answer"].tolist()
        found = self._score(items, [[a] if isinstance(a, str) else [] for a in answers], after=False)
        return found[:, 0] if found.shape[1] else np.full(len(items), np.nan)

    def _score(self, items: Items, words: Sequence[Sequence[str]], *, after: bool) -> Floats:
        blanks, lines = [], []
        for row, (item, blank) in enumerate(self.reader.blanks(items)):
            blanks.append(blank)
            lines.append(
                [
                    (*self.reader.word(item, word, blank), *(blank.right if after else ()))
                    for word in words[row]
                ]
            )
        n_pieces = [[len(line) - (len(blank.right) if after else 0) for line in row]
                    for blank, row in zip(blanks, lines, strict=True)]  # fmt: skip
        return pad(self.scorer().lines([blank.ids for blank in blanks], lines, n_pieces))

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time.

        They sum to 1 with ``<unk>`` and, where the network copies, with the passage's unknown words.
        """
        scorer = self.scorer()
        lasts = scorer.last([blank.ids for blank in self._blanks(items)])
        for start in range(0, len(items), chunk):
            yield scorer.distribution(lasts, start, min(start + chunk, len(items)))

    def _blanks(self, items: Items) -> list[Blank]:
        return [blank for _, blank in self.reader.blanks(items)]

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among all words of the vocabulary, exactly.

        Where the network copies words of the passage, its words outside the vocabulary are ranked too,
        and an answer that is one of them counts as known.
        """
        answers = items.frame["answer"].tolist()
        wanted, blanks, several = [], [], np.zeros(len(items), dtype=bool)
        for row, (item, blank) in enumerate(self.reader.blanks(items)):
            pieces = self.reader.word(item, answers[row], blank) if isinstance(answers[row], str) else ()
            several[row] = len(pieces) > 1
            wanted.append(pieces[0] if len(pieces) == 1 else -1)
            blanks.append(blank)
        scorer = self.scorer()
        found = scorer.ranked(
            scorer.last([blank.ids for blank in blanks]), np.array(wanted, dtype=np.int64), top_k
        )
        log_prob = found.log_prob
        if several.any():
            log_prob[several] = self.log_prob(items.where(several))
        words = [
            [self._word(number, blank) for number in row]
            for row, blank in zip(found.top, blanks, strict=True)
        ]
        return Ranked(log_prob, found.rank, found.tied, found.rank > 0, words, found.values)

    def _word(self, number: int, blank: Blank) -> str:
        """Return the word of an extended id."""
        n_words, words = self.reader.n_words, self.vocabulary or ()
        return words[number - 1] if number < n_words else blank.unknown[number - n_words]

    def expected(self, items: Items, *, top_k: int = 10) -> pd.DataFrame:
        """Return what the model expects in each blank, of all its vocabulary, candidates or not.

        Returns
        -------
        DataFrame (n * top_k,)
            Columns item_id, place (1 is the most probable), word, log_prob (natural).
        """
        ranked = self.ranking(items, top_k=top_k)
        rows = [
            (item_id, place, word, value)
            for item_id, words, values in zip(
                items.frame["item_id"], ranked.top_words, ranked.top_log_probs, strict=True
            )
            for place, (word, value) in enumerate(zip(words, values, strict=True), 1)
        ]
        return pd.DataFrame(rows, columns=["item_id", "place", "word", "log_prob"])
