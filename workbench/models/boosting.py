"""Coherence boosting: a model in which the last words count less (Malkin et al. 2022)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from workbench.items.changes import shortened
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.models.wrapper import Wrapper
from workbench.predictions.schema import Floats
from workbench.storage.errors import check_value

WINDOWS = (3, 5, 10, 20)
"""Numbers of words of the short context that `Boosted.tuned` compares."""
ALPHAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
"""Values of alpha that `Boosted.tuned` compares; with 0 the model is its own."""


class Boosted(Wrapper):
    """A model with coherence boosting by its scores of short contexts; made by ``model.boosted(k, alpha)``.

    The log-probability of a word is ln p(word | whole text) + alpha (ln p(word | whole text) - ln p(word |
    last k words)), normalised over the vocabulary. So words gain that the model finds more probable for what
    stands before the last words. The weight of the short context alone is -alpha, beside 1 + alpha of the
    whole: a negative weight, as in the paper. With alpha 0 the order is the model's own.

    Parameters
    ----------
    base : Predictor
    k : int, default 10
        Number of words before the blank, by white space, in the short context.
    alpha : float, default 0.5
        Above 0, the last words count less. Choose it and `k` on one half of development data, and report the
        other half.

    Notes
    -----
    With a vocabulary, ``score_type`` is "log_prob". What follows the blank is scored as the model does, with
    the same weights. An answer outside the vocabulary has no log-probability. A model without a vocabulary
    chooses among candidates by the same sum without a norm: ``score_type`` is "score".

    The words of a :class:`workbench.models.CausalLM` without a vocabulary are its words of letters that are
    one sub-token, and their probabilities those of the sub-token, without the end of the word: two passes
    give those of all words exactly. One with a vocabulary chooses among candidates alone.

    References
    ----------
    Malkin, Wang and Jojic 2022, "Coherence boosting: When your pretrained language model is not paying
    enough attention", section 3. They count `k` in sub-tokens.

    Examples
    --------
    >>> model = ngram.cached(0.2).boosted(k=3, alpha=0.5)
    >>> model.name
    '3-gram, Kneser-Ney, cache 0.2, boosted by 0.5 over 3 words'
    """

    version = 1
    options = ("k", "alpha")
    _least: ClassVar[dict[str, int]] = {"k": 1}

    def __init__(self, base: Predictor, k: int = 10, alpha: float = 0.5) -> None:
        check_value("k", k, int(k) == k >= 1, "a number of words, 1 or more")
        check_value("alpha", alpha, math.isfinite(alpha), "a finite number")
        self.base, self.k, self.alpha = base, int(k), float(alpha)
        self.name = f"{base.name}, boosted by {alpha:g} over {k} words"
        self.device, self.dtype, self.mask = base.device, base.dtype, base.mask
        family = type(base)
        ranks = family.distribution is not Predictor.distribution
        if family.next_words is not Predictor.next_words:
            ranks = base.vocabulary is None and base.ranking_words.vocabulary is not None
        self.vocabulary = base.ranking_words.vocabulary if ranks else None
        self.score_type = "log_prob" if ranks else "score"

    def tuned(
        self,
        *sets: Items,
        windows: Sequence[int] = WINDOWS,
        alphas: Sequence[float] = ALPHAS,
        by: str = "accuracy",
    ) -> Boosted:
        """Return the model with the `k` and `alpha` that are best on one half of development data.

        The base model reads each passage whole once, and its last words once for each `k`, whatever the
        number of alphas. Report the chosen model on the other half.

        Parameters
        ----------
        *sets : Items
            One set or several, never those that are reported on; the mean over the sets decides.
        windows : sequence of int
            Values of `k` to compare.
        alphas : sequence of float
            Values of `alpha` to compare; of equally good ones the smallest is taken. A warning says where the
            best is at an edge of what was tried.
        by : {"accuracy", "perplexity"}
            Highest expected accuracy, or lowest perplexity of the answers (geometric mean of the sets').

        Returns
        -------
        Boosted
            Its ``.trials`` is a DataFrame, one row per setting and set: k, alpha, set (data set and split),
            n, accuracy (expected, a fraction), perplexity, median_rank, chosen;
            :func:`workbench.charts.tuning` draws it.

        Examples
        --------
        >>> tuned = ngram.cached(0.2).boosted().tuned(items[:12], windows=(1, 100), alphas=(0, 0.5, 8))
        >>> int(tuned.trials["chosen"].sum()), len(tuned.trials)
        (1, 6)
        """
        return self._tuned(sets, by, k=windows, alpha=alphas)

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time."""
        if self.vocabulary is None:
            return super().distribution(items, chunk=chunk)
        return (values - _norm(values) for values in self._sums(items, chunk))

    def log_prob(self, items: Items) -> Floats:
        """Return the natural log-probability of each answer; NaN for one outside the vocabulary."""
        return np.full(len(items), np.nan) if self.vocabulary is None else self._listed_log_prob(items)

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the weighted sum of the model's scores of words, less the norm over the vocabulary."""
        key = ("score", *map(tuple, words))
        scores = self._weighted(*self._both(key, items, lambda each: self.base.score(each, words)))
        if self.vocabulary is None or not len(items):
            return scores
        norms = np.concatenate([_norm(values) for values in self._sums(items, 256)])
        return np.asarray(scores - norms, dtype=float)

    def _short(self, items: Items) -> Items:
        return Items.from_records([shortened(item, self.k) for item in items])

    def _sums(self, items: Items, chunk: int) -> Iterator[Floats]:
        """Yield the weighted sums of both contexts' log-probabilities, before the norm."""
        for start in range(0, len(items), chunk):
            batch = items[start : start + chunk]
            yield self._weighted(*self._both(("next",), batch, self._next_words))

    def _next_words(self, items: Items) -> Floats:
        return next(iter(self.base.next_words(items, chunk=len(items))))

    def _both(self, key: tuple[Any, ...], items: Items, ask: Callable[[Items], Floats]) -> list[Floats]:
        """Return the base's results for the whole and the short texts."""
        key = (*key, *items.frame["item_id"])
        full = self._memoised((key, None), ask, items)
        return [full, self._memoised((key, self.k), lambda: ask(self._short(items)))]

    def _weighted(self, full: Any, short: Any) -> Floats:
        with np.errstate(invalid="ignore"):  # what is impossible after the whole text stays so
            values = full + self.alpha * (full - short)
        return np.asarray(np.where(np.isneginf(full), -np.inf, values), dtype=float)


def _norm(values: Floats) -> Floats:
    """Return the logarithm of the sum of the exponentials of each row, (rows, 1)."""
    with np.errstate(invalid="ignore"):  # what is not a number is an error where rows are made
        return np.asarray(np.logaddexp.reduce(values, axis=1, keepdims=True), dtype=float)
