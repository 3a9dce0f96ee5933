"""A continuous cache beside a neural language model (Grave, Joulin and Usunier 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.base import Predictor
from workbench.models.neural.batching import Context, quiet, sorted_by_length
from workbench.models.neural.encoding import Reader
from workbench.models.neural.predicting import WordByWord
from workbench.models.neural.scoring import Ids, Scorer, padded
from workbench.runs.predictions import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.models.neural.networks.base import Network
    from workbench.models.neural.networks.cache import Cached

WEIGHTS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)
FLATNESSES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0)
"""What :meth:`CachedNeural.tuned` tries."""


class CachedNeural(WordByWord):
    """A network interpolated with the words of the passage, each weighted by the state that it followed.

    A word has the probability (1 - weight) P(word | network) + weight P(word | passage), where the second is
    the softmax over the earlier places i of the passage of flatness * h[t] . h[i], summed over those
    places after which the word stands; h are the network's states. So a word outside the vocabulary can be
    predicted where it stands in the passage, and is ranked.

    Parameters
    ----------
    base : Neural
        A model that was trained.
    weight : float, default 0.1
        Of the cache, from 0 to below 1. To be tuned on development data: :meth:`tuned`.
    flatness : float, default 0.3
        0 makes it a cache of unigrams; the higher it is, the more similar states count.
    """

    version = 1
    fitted_on = "a model"

    def __init__(self, base: WordByWord, weight: float = 0.1, *, flatness: float = 0.3) -> None:
        if not 0 <= weight < 1:
            raise DataError(f"the weight of the cache is {weight}, expected 0 <= weight < 1")
        if not 0 <= flatness < np.inf:
            raise DataError(f"the flatness is {flatness}, expected 0 or more")
        if base.copies:
            raise DataError(f"{base.name} copies from the passage by itself", remedy="use it without a cache")
        self.base, self.weight, self.flatness = base, float(weight), float(flatness)
        self.unknown, self.after, self.lower = base.unknown, base.after, base.lower
        self.vocabulary = base.vocabulary
        self.name = f"{base.name}, cache {weight:g}, flatness {flatness:g}"

    @property
    def config(self) -> dict[str, Any]:
        """The network's, and the options."""
        return {"weight": self.weight, "flatness": self.flatness, "base": self.base.config}

    @property
    def training(self) -> dict[str, Any]:
        """The network's."""
        return self.base.training

    @property
    def device(self) -> str:  # known when torch is asked
        """Where it computes."""
        return self.base.device

    @device.setter
    def device(self, device: str) -> None:
        self.base.device = device

    @property
    def reader(self) -> Reader:
        """How items become ids."""
        return self.base.reader

    @property
    def unknown_types(self) -> int:
        """Different words outside the vocabulary in the training text."""
        return self.base.unknown_types

    @property
    def network(self) -> Network:
        """The network without the cache."""
        return self.base.network

    def scorer(self) -> CachedScorer:
        """Return what computes probabilities from ids."""
        from workbench.models.neural.networks.cache import Cached  # noqa: PLC0415 - all torch

        base = self.base.network
        was = base.training
        base.eval()
        network = Cached(base, self.weight, self.flatness, share=self.unknown_share)
        network.train(was)
        return CachedScorer(network, share=self.unknown_share)

    def with_context(self, reads: int | str | None) -> Self:
        """Return the same of a network that reads only so much; see :meth:`Neural.with_context`."""
        return type(self)(self.base.with_context(reads), self.weight, flatness=self.flatness)

    def tuned(
        self,
        items: Items,
        *,
        weights: Sequence[float] = WEIGHTS,
        flatnesses: Sequence[float] = FLATNESSES,
        by: str = "accuracy",
    ) -> CachedNeural:
        """Return the same with the options that do best on items: development or validation data.

        Parameters
        ----------
        items : Items
            Never those that are reported on.
        weights, flatnesses : sequence of float
            What is tried; of equally good ones the smallest are taken.
        by : {"accuracy", "perplexity"}
            Expected accuracy, or mean natural log-probability of the answers.
        """
        if by not in {"accuracy", "perplexity"}:
            raise DataError(f"by is {by!r}, expected accuracy or perplexity")
        found = self.trials(items, weights=weights, flatnesses=flatnesses)
        best = found.iloc[int((-found["accuracy"] if by == "accuracy" else found["perplexity"]).argmin())]
        return CachedNeural(self.base, float(best["weight"]), flatness=float(best["flatness"]))

    def trials(
        self,
        items: Items,
        *,
        weights: Sequence[float] = WEIGHTS,
        flatnesses: Sequence[float] = FLATNESSES,
    ) -> pd.DataFrame:
        """Return expected accuracy (fraction) and perplexity of the answers for all weights and flatnesses.

        The network reads each passage once, whatever is tried. Items with candidates, and answers of
        several tokens, are predicted anew for each.
        """
        pairs = list(product(sorted(weights), sorted(flatnesses)))
        models = [CachedNeural(self.base, weight, flatness=flatness) for weight, flatness in pairs]
        asked = self._asked(items)
        if asked is None:
            frames = (model.predict(items, 1) for model in models)
            found = [
                (float(frame["p_correct"].mean()), _perplexity(frame["log_prob"].to_numpy()))
                for frame in frames
            ]
        else:
            found = self.scorer().trials(*asked, pairs)
        rows = [(*pair, *scores) for pair, scores in zip(pairs, found, strict=True)]
        return pd.DataFrame(rows, columns=["weight", "flatness", "accuracy", "perplexity"])

    def _asked(self, items: Items) -> tuple[list[Context], Ids] | None:
        """Return contexts and answers, None where some item has candidates or an answer of several tokens."""
        if items.frame["candidates"].notna().any():
            return None
        contexts: list[Context] = []
        wanted: list[int] = []
        for (item, blank), answer in zip(self.reader.blanks(items), items.frame["answer"], strict=True):
            pieces = self.reader.word(item, answer, blank) if isinstance(answer, str) else (-1,)
            if len(pieces) != 1:
                return None
            contexts.append(blank.ids)
            wanted.append(pieces[0])
        return contexts, np.array(wanted, dtype=np.int64)

    def _save(self, folder: Path) -> None:
        self.base.save(folder / "base")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        base = Predictor.load(folder / "base")
        if not isinstance(base, WordByWord):
            raise DataError(f"expected a neural model, got {base.name}", file=folder / "base")
        return cls(base, config["weight"], flatness=config["flatness"])


class CachedScorer(Scorer):
    """Computes what a network with a cache says of words after contexts."""

    network: Cached

    def _remembered(self, ids: Tensor, state: Any) -> Any:
        return self.network.read(ids, state)[1]

    @quiet
    def trials(
        self, contexts: Sequence[Context], wanted: Ids, pairs: Sequence[tuple[float, float]]
    ) -> list[tuple[float, float]]:
        """Return expected accuracy and perplexity of the answers for pairs of weight and flatness."""
        import torch  # noqa: PLC0415 - slow

        from workbench.models.neural.networks.cache import shares  # noqa: PLC0415 - all torch
        from workbench.models.neural.networks.words import Copies, mixed  # noqa: PLC0415

        hidden = torch.empty(len(contexts), self.network.width, device=self.where)
        seen: list[tuple[Tensor, Tensor]] = [(hidden, hidden)] * len(contexts)
        order = sorted_by_length(contexts, self.network.window)
        for rows, (last, words, alike) in self.bounded(
            order, lambda _, batch: self.network.looked(*self.padded(batch))
        ):
            hidden[rows] = last.float()
            for place, row in enumerate(rows):
                there = alike[place] > -torch.inf
                seen[row] = (words[place][there], alike[place][there])
        ids = torch.from_numpy(wanted).to(self.where)
        sums = [(np.zeros(0), np.zeros(0))] * len(pairs)

        def work(rows: slice) -> list[tuple[Floats, Floats]]:
            values = self.network.output.distribution(hidden[rows]).float()
            found = []
            for weight, flatness in pairs:
                held = [(words, *shares(alike, weight, flatness)) for words, alike in seen[rows]]
                words, copy, keep = zip(*held, strict=True)
                copies = Copies(padded(words), padded(copy), torch.stack(keep))
                log_prob, counts, _, _ = mixed(values, copies, self.share).ranked(ids[rows], 0)
                rank, tied = counts.double().T
                right = torch.where(rank == 1, 1 / tied.clamp_min(1), 0.0)
                found.append((log_prob.double().cpu().numpy(), right.cpu().numpy()))
            return found

        for part in self.chunks(len(contexts), work):
            sums = [(np.append(a, c), np.append(b, d)) for (a, b), (c, d) in zip(sums, part, strict=True)]
        has = wanted >= 0
        return [(float(right[has].mean()), _perplexity(log_prob[has])) for log_prob, right in sums]


def _perplexity(log_prob: Floats) -> float:
    return float(np.exp(min(700.0, -float(np.nanmean(log_prob)))))
