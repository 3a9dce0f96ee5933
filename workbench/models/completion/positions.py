"""What models share that score a word and, apart from it, each word after it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.runs.predictions import Floats


class Positional(Predictor):
    """A model whose score of a word is a sum over the word's place and those after it.

    Attributes
    ----------
    after : bool
        Whether the words after the blank count.
    """

    score_type = "log_prob"
    after: bool

    @abstractmethod
    def position_scores(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return natural log-probabilities place by place, shape (n, most words, order).

        The first is that of the word, each further one that of a word after the blank; NaN where there
        is none.
        """

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities of words in the blank, with those of the words after it where `after`.

        Returns
        -------
        array (n, most words)
            The part of the target sentence's natural log-probability that depends on the word.
        """
        values = self.position_scores(items, words)
        if not self.after:
            return values[:, :, 0]
        return np.where(np.isnan(values[:, :, 0]), np.nan, np.nansum(values, axis=2))

    def log_prob(self, items: Items) -> Floats:
        """Return the natural log-probability of each answer given what stands before it, shape (n,)."""
        answers = items.frame["answer"].tolist()
        values = self.position_scores(items, [[a] if isinstance(a, str) else [] for a in answers])
        return values[:, 0, 0] if values.shape[1] else np.full(len(items), np.nan)
