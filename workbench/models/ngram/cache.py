"""A cache of the passage's words beside an n-gram model (Kuhn and De Mori 1990)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.baselines.passage import Passage, parts, passages
from workbench.models.completion.positions import Positional
from workbench.models.ngram.backoff import Ids
from workbench.models.ngram.model import LN10, NGram
from workbench.models.rows import Ranked
from workbench.runs.predictions import Floats

WEIGHTS = (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
"""What :meth:`CachedNGram.tuned` tries."""


class _Mixed(NamedTuple):
    """What is known of the words of one passage: ids, natural log-probabilities mixed and of the n-grams."""

    ids: Ids
    mixed: Floats
    plain: Floats


class CachedNGram(Positional):
    """An n-gram model interpolated with the unigrams of the context.

    A word has the probability (1 - weight) P(word | n-gram context) + weight P(word | passage), where
    the second is its share of the passage's tokens before the blank, each token counting `decay` to the
    power of its distance. A passage without a token has the n-gram model alone.

    Parameters
    ----------
    base : NGram
    weight : float, default 0.1
        Of the cache, from 0 to below 1. To be tuned on development data: :meth:`tuned`.
    decay : float, default 1
        1 counts all tokens alike (a plain unigram cache); less favours the last ones.
    """

    systems: ClassVar[dict[str, str]] = {
        "lambada": "N-Gram w/cache",
        "cbt": "KNESER-NEY LANGUAGE MODEL + CACHE",
    }

    def __init__(self, base: NGram, weight: float = 0.1, *, decay: float = 1.0) -> None:
        if not 0 <= weight < 1:
            raise DataError(f"the weight of the cache is {weight}, expected 0 <= weight < 1")
        if not 0 < decay <= 1:
            raise DataError(f"the decay is {decay}, expected 0 < decay <= 1")
        self.base, self.weight, self.decay = base, float(weight), float(decay)
        self.unknown, self.after = base.unknown, base.after
        self.name = f"{base.name}, cache {weight:g}" + (f", decay {decay:g}" if decay < 1 else "")

    @property
    def config(self) -> dict[str, Any]:
        """The n-gram model's, and the options."""
        return {"weight": self.weight, "decay": self.decay, "base": self.base.config}

    @property
    def training(self) -> dict[str, Any]:
        """The n-gram model's."""
        return self.base.training

    @property
    def vocabulary(self) -> list[str]:  # type: ignore[override] # read when it is asked for
        """The words that it ranks."""
        return self.base.vocabulary

    def form(self, word: str) -> str:
        """Return a word as the vocabulary has it."""
        return self.base.form(word)

    def tuned(self, items: Items, *, weights: Sequence[float] = WEIGHTS, by: str = "accuracy") -> CachedNGram:
        """Return the same with the weight that does best on items: development or validation data.

        Parameters
        ----------
        items : Items
            Never those that are reported on.
        weights : sequence of float
            What is tried; of equally good ones the smallest is taken.
        by : {"accuracy", "perplexity"}
            Expected accuracy, or mean natural log-probability of the answers.
        """
        if by not in {"accuracy", "perplexity"}:
            raise DataError(f"by is {by!r}, expected accuracy or perplexity")
        found = self.trials(items, weights=weights)
        order = -found["accuracy"] if by == "accuracy" else found["perplexity"]
        return CachedNGram(self.base, float(found["weight"].iloc[int(order.argmin())]), decay=self.decay)

    def trials(self, items: Items, *, weights: Sequence[float] = WEIGHTS) -> pd.DataFrame:
        """Return expected accuracy (fraction) and perplexity of the answers for every weight."""
        rows = []
        for weight in sorted(weights):
            frame = CachedNGram(self.base, weight, decay=self.decay).predict(items, 1)
            perplexity = float(np.exp(-frame["log_prob"].mean()))
            rows.append((weight, float(frame["p_correct"].mean()), perplexity))
        return pd.DataFrame(rows, columns=["weight", "accuracy", "perplexity"])

    def shares(self, passage: Passage) -> dict[str, float]:
        """Return the probability of each word by the cache alone."""
        words = [*passage.context, *passage.left]
        if self.decay == 1:
            return {word: count / len(words) for word, count in Counter(words).items()}
        weights = self.decay ** np.arange(len(words) - 1, -1, -1, dtype=float)
        total = weights.sum()
        found: dict[str, float] = {}
        for word, weight in zip(words, weights, strict=True):
            found[word] = found.get(word, 0.0) + float(weight / total)
        return found

    def _mix(self, plain: Floats, share: Floats) -> Floats:
        """Interpolate natural log-probabilities with shares."""
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN where there is no word
            return np.asarray(np.logaddexp(np.log1p(-self.weight) + plain, np.log(self.weight * share)))

    def position_scores(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities as :meth:`NGram.position_scores` does, each interpolated with the cache.

        A word of several tokens has the product of its tokens' shares.
        """
        found = self.base.position_scores(items, words)
        for row, (item, passage) in enumerate(passages(items, lower=self.base.lower)):
            shares = self.shares(passage)
            if not shares:
                continue
            own = [
                float(np.prod([shares.get(piece, 0.0) for piece in parts(item, word, lower=self.base.lower)]))
                for word in words[row]
            ]
            after = [shares.get(word, 0.0) for word in passage.right[: self.base.order - 1]]
            share = np.zeros(found.shape[1:])
            share[: len(own), 0] = own
            share[:, 1 : len(after) + 1] = after
            found[row] = np.where(np.isnan(found[row]), np.nan, self._mix(found[row], share))
        return found

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time."""
        known = self._known(items)
        start = 0
        for values in self.base.distribution(items, chunk=chunk):
            mixed = values + np.log1p(-self.weight)
            for row, (ids, share) in enumerate(known[start : start + len(values)]):
                if not share:
                    mixed[row] = values[row]
                elif len(ids):
                    mixed[row, ids] = self._mix(values[row, ids], np.array(share))
            start += len(values)
            yield mixed

    def _known(self, items: Items) -> list[tuple[Ids, list[float]]]:
        """Return the vocabulary's words of each passage, and their shares."""
        index, n_words = self.base.model.index, len(self.vocabulary)
        found = []
        for _, passage in passages(items, lower=self.base.lower):
            pairs = [(index.get(w, n_words), s) for w, s in self.shares(passage).items()]
            pairs = [pair for pair in pairs if pair[0] < n_words] or [(0, 0.0)] * bool(pairs)
            found.append((np.array([i for i, _ in pairs], dtype=np.int64), [s for _, s in pairs]))
        return found

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among the vocabulary: only the passage's words change their order."""
        model, ids = self.base.model, self.base.answers(items)
        contexts = self.base.contexts(items)
        known = self._known(items)
        state = model.state(contexts)
        width = max((len(each) for each, _ in known), default=0)
        held = np.zeros((len(ids), width), dtype=np.int64)
        share, inside = np.zeros((len(ids), width)), np.zeros((len(ids), width), dtype=bool)
        for row, (each, shares) in enumerate(known):
            held[row, : len(each)], share[row, : len(each)], inside[row, : len(each)] = each, shares, True
        scale = np.where(inside.any(axis=1), np.log1p(-self.weight), 0.0)[:, None]
        plain10 = model.log10(contexts, held, state)
        plain = plain10.astype(float) * LN10
        mixed = np.where(inside, self._mix(plain, share), -np.inf)
        own10 = model.log10(contexts, np.maximum(ids, 0)[:, None], state)[:, 0].astype(float)
        mine = (held == ids[:, None]) & inside
        of_passage = mine.any(axis=1)
        alone = own10 * LN10 + scale[:, 0]
        own = np.where(of_passage, np.where(mine, mixed, 0).sum(axis=1), alone)
        # Of the other words those count that are above the answer; where the cache adds nothing to it,
        # that is where they are above it in the n-gram model, rounding left out.
        bound = np.where(own == alone, own10, (own - scale[:, 0]) / LN10)
        counts = []
        for equal in (False, True):
            above = model.count(state, bound, len(ids), equal=equal)
            leave = (plain10 >= bound[:, None]) if equal else (plain10 > bound[:, None])
            enter = (mixed >= own[:, None]) if equal else (mixed > own[:, None])
            counts.append(above + (inside * (enter.astype(int) - leave)).sum(axis=1))
        # The cache lifts words of the passage and no others, so the best others are among the model's best.
        values10, words = model.top(contexts, top_k, state)
        values = values10.astype(float) * LN10 + scale
        twice = ((words[:, :, None] == held[:, None, :]) & inside[:, None, :]).any(axis=2)
        joined = np.concatenate([np.where(twice, -np.inf, values), mixed], axis=1)
        both = np.concatenate([words, held], axis=1)
        turn = np.lexsort((both, -joined), axis=1)[:, : min(top_k, len(self.vocabulary))]
        names = np.array(self.vocabulary, dtype=object)[np.take_along_axis(both, turn, axis=1)]
        best = np.take_along_axis(joined, turn, axis=1)
        rank, tied = counts[0] + 1, counts[1] - counts[0]
        return Ranked(self.log_prob(items), rank, tied, ids >= 0, names.tolist(), best.tolist())

    def _save(self, folder: Path) -> None:
        self.base.save(folder / "base")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        return cls(NGram.load(folder / "base"), config["weight"], decay=config["decay"])
