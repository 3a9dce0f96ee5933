"""A continuous cache beside a neural language model: words are likely again after similar states.

Grave, Joulin and Usunier 2017, "Improving Neural Language Models with a Continuous Cache", equations 2 to 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from workbench.items.items import Items
from workbench.models.neural.network import (
    ContextStates,
    Copies,
    ItemEncoder,
    LanguageModule,
    Lengths,
    States,
    Targets,
    TextState,
    WordIds,
    class_ids,
    word_scores,
)
from workbench.models.neural.scoring import Context, Ids, NetworkPredictor, Scorer, rows_of
from workbench.models.wrapper import WEIGHTS, Wrapper, summary
from workbench.predictions.schema import mid_ranks
from workbench.storage.errors import DataError, check_value

FLATNESSES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0, 5.0)
"""Values that :meth:`CachedNeural.tuned` tries."""


class CachedNeural(NetworkPredictor, Wrapper):
    """A network interpolated with the words of the passage, each weighted by the state that it followed.

    After the place t of a passage, a word w has the probability ``(1 - weight) p(w) + weight q(w)``; ``q(w)``
    is the softmax over the earlier places i of ``flatness * h[t] . h[i]``, summed over those after which w
    stands; h are the network's states. So a word outside the vocabulary can be predicted where it stands in
    the passage, and is ranked. After the first word of a text the network speaks alone.

    Parameters
    ----------
    base : Neural
    weight : float, default 0.1
        Weight of the cache, from 0 to below 1; tune it on development data: :meth:`tuned`.
    flatness : float, default 0.3
        0 makes it a cache of unigrams; the higher it is, the more similar states count.

    Examples
    --------
    >>> from workbench.models import LSTM
    >>> lstm = LSTM.fit(wb.books("sample", "train"), width=16, tokens=2000)
    >>> lstm.cached(0.2).name
    'LSTM 16, cache 0.2, flatness 0.3'
    """

    version = 1
    dtype = "float32"
    options = ("weight", "flatness")
    base: NetworkPredictor

    def __init__(self, base: NetworkPredictor, weight: float = 0.1, *, flatness: float = 0.3) -> None:
        check_value("weight", weight, 0 <= weight < 1, "0 <= weight < 1")
        check_value("flatness", flatness, 0 <= flatness < np.inf, "0 or more")
        if base.copies:
            raise DataError(f"{base.name} copies from the passage by itself", hint="use it without a cache")
        self.base, self.weight, self.flatness = base, float(weight), float(flatness)
        self.unknown, self.after, self.lower = base.unknown, base.after, base.lower
        self.vocabulary, self.copies = base.vocabulary, True
        self.name = f"{base.name}, cache {weight:g}, flatness {flatness:g}"

    @property
    def device(self) -> str:  # known when torch is asked
        """Device of the computation."""
        return self.base.device

    @device.setter
    def device(self, device: str) -> None:
        self.base.device = device

    @property
    def encoder(self) -> ItemEncoder:
        """Encoder of items as ids."""
        return self.base.encoder

    @property
    def unknown_types(self) -> int:
        """Different words outside the vocabulary in the training text."""
        return self.base.unknown_types

    @property
    def network(self) -> LanguageModule:
        """The network without the cache."""
        return self.base.network

    def scorer(self) -> CachedScorer:
        """Return the scorer: it computes probabilities from ids."""
        network = CacheModule(self.network, self.weight, self.flatness)
        return CachedScorer(network.train(self.network.training), share=self.unknown_share)

    def with_context(self, reads: int | str | None) -> CachedNeural:
        """Return the same of a network that reads only so much; see :meth:`Neural.with_context`."""
        return self._with(self.base.with_context(reads))

    def tuned(
        self,
        *sets: Items,
        weights: Sequence[float] = WEIGHTS,
        flatnesses: Sequence[float] = FLATNESSES,
        by: str = "accuracy",
    ) -> CachedNeural:
        """Return the same with the options that do best on items: development or validation data.

        The network reads each passage once; items with candidates or with answers of several tokens are read
        once per trial.

        Parameters
        ----------
        *sets : Items
            One set or several, never those that are reported on; the mean over the sets decides.
        weights, flatnesses : sequence of float
            What is tried; of equally good ones the smallest are taken. A warning says where the best is at
            an edge.
        by : {"accuracy", "perplexity"}
            Highest expected accuracy, or lowest perplexity of the answers (geometric mean of the sets').

        Returns
        -------
        CachedNeural
            Its ``.trials`` is a DataFrame, one row per setting and set: weight, flatness, set (data set and
            split), n, accuracy (expected, a fraction), perplexity, median_rank, chosen.
        """
        return self._tuned(sets, by, weight=weights, flatness=flatnesses)

    def _measures(self, items: Items, models: Sequence[Any]) -> list[tuple[int, float, float, float]]:
        blanks, answers = self.encode(items)
        if items.frame["candidates"].notna().any() or any(len(ids) != 1 for ids in answers):
            return super()._measures(items, models)
        targets = np.array([ids[0] for ids in answers], dtype=np.int64)
        pairs = [(model.weight, model.flatness) for model in models]
        return self.scorer().trials([blank.ids for blank in blanks], targets, pairs, len(self.vocabulary) + 1)


class CacheModule(LanguageModule):
    """A network mixed with a cache of the states that it had since the text began; see :class:`CachedNeural`.

    It takes extended ids everywhere: words outside the vocabulary are cached, too. It remembers what the
    network does, the cached states, the words that followed them, and the last state.
    """

    copies = True

    def __init__(self, base: LanguageModule, weight: float, flatness: float) -> None:
        super().__init__()
        self.base, self.output, self.n_words, self.width = base, base.output, base.n_words, base.width
        self.weight, self.flatness = weight, flatness
        self.stateful = base.stateful
        self.window = None if base.stateful else base.window  # one that carries its words on reads any text

    def states(self, ids: WordIds, state: TextState = None) -> tuple[States, TextState]:
        """Return the network's states, and the memory of network and cache."""
        hidden, after, keys, words = self._read(ids, state)
        return hidden, None if after is None else (*after, keys, words, hidden[:, -1])

    def _read(
        self, ids: WordIds, state: TextState
    ) -> tuple[States, TextState, Float[Tensor, "rows cached width"], Int[Tensor, "rows cached"]]:
        """Return states, the network's memory, and all cached states with the words after them."""
        *before, keys, words, last = state or (None, None, None)
        hidden, after = self.base.states(class_ids(ids, self.n_words), tuple(before) or None)
        if keys is None or words is None or last is None:
            return hidden, after, hidden[:, :-1], ids[:, 1:]
        keys = torch.cat([keys, last[:, None], hidden[:, :-1]], 1)
        return hidden, after, keys, torch.cat([words, ids], 1)

    def remember(
        self, ids: WordIds, state: TextState = None
    ) -> tuple[Float[Tensor, "rows width"], TextState]:
        """Return the last state, and the memory of network and cache."""
        hidden, state = self.states(ids, state)
        return hidden[:, -1], state

    def similarities(self, ids: WordIds, lengths: Lengths) -> ContextStates:
        """Return the last state of each context, and in place of copies how similar it is to those cached."""
        hidden, _ = self.base.states(class_ids(ids, self.n_words))
        query = hidden[torch.arange(len(ids), device=ids.device), lengths - 1].float()  # (rows, width)
        similarity = torch.einsum("rtw,rw->rt", hidden[:, :-1].float(), query)  # (rows, time - 1)
        return ContextStates(query, Copies(ids[:, 1:], similarity, torch.zeros_like(query[:, 0])))

    def last(self, ids: WordIds, lengths: Lengths) -> ContextStates:
        """Return the states that predict the word after each context, and the words copied from the cache."""
        return copied(self.similarities(ids, lengths), self.weight, self.flatness)

    def targets(
        self, ids: WordIds, state: TextState = None, *, start: int = 0, share: float | None = None
    ) -> Targets:
        """Return the states that predict the words after the first `start` + 1.

        An unknown word has its share of ``<unk>`` (all of it by default), and what is cached of it.
        """
        hidden, _, keys, words = self._read(ids[:, :-1], state)
        query, target = hidden[:, start:], ids[:, 1 + start :]
        position = torch.arange(start, hidden.shape[1], device=ids.device)
        n_cached = words.shape[1] - hidden.shape[1] + 1 + position  # by the time of each place
        cached = torch.arange(words.shape[1], device=ids.device) < n_cached[:, None]  # (rest, cached)
        cached = cached & (words > 0)[:, None]
        similarity = torch.einsum("rtw,rcw->rtc", query.float(), keys.float())
        copy, keep = cache_shares(similarity.masked_fill(~cached, -torch.inf), self.weight, self.flatness)
        keep = keep - (share or 0.0) * (target >= self.n_words)
        copied = (copy * (words[:, None] == target[:, :, None])).sum(-1)
        classes = class_ids(target, self.n_words).flatten()
        return Targets(query.flatten(0, 1), classes, (keep.flatten(), copied.flatten()))


def copied(states: ContextStates, weight: float, flatness: float) -> ContextStates:
    """Return the states that predict the words after contexts, from `CacheModule.similarities`."""
    if states.copies is None:
        return states
    words, similarity, _ = states.copies
    similarity = similarity.masked_fill(words == 0, -torch.inf)
    return ContextStates(states.hidden, Copies(words, *cache_shares(similarity, weight, flatness)))


def cache_shares(
    similarity: Float[Tensor, "*shape cached"], weight: float, flatness: float
) -> tuple[Float[Tensor, "*shape cached"], Float[Tensor, "*shape"]]:
    """Return the probability that each position is copied, and ln of the network's share.

    The similarities are -inf where nothing is cached; without any, all is left to the network.
    """
    cached = similarity > -torch.inf
    nonempty = cached.any(-1)
    scores = torch.where(cached, flatness * torch.where(cached, similarity, 0), -torch.inf)
    scores = torch.where(nonempty[..., None], scores, 0.0)  # a softmax over nothing is not a number
    copy = weight * scores.softmax(-1) * cached
    return copy, torch.where(nonempty, math.log1p(-weight), 0.0).to(similarity.dtype)


class CachedScorer(Scorer):
    """Computes the probabilities of words after contexts, by a network with a cache."""

    network: CacheModule

    def trials(
        self, contexts: Sequence[Context], targets: Ids, pairs: Sequence[tuple[float, float]], last: int
    ) -> list[tuple[int, float, float, float]]:
        """Return `TRIAL_MEASURES` for pairs of weight and flatness; unknown answers have the rank `last`."""
        states = self.last(contexts, self.network.similarities)
        wanted = torch.from_numpy(targets).to(self.device)

        def work(rows: slice) -> list[Tensor]:
            chunk, scores = rows_of(states, rows), []
            log_probs = self.network.output.distribution(chunk.hidden).float()
            if log_probs.amax(1).isnan().any():  # in words that are not the answer, too
                raise DataError(
                    "the network gives log-probabilities that are NaN",
                    hint="check its weights: load or train it again",
                )
            for weight, flatness in pairs:
                copies = copied(chunk, weight, flatness).copies
                log_prob, counts, _, _ = word_scores(log_probs, self.share, copies).ranked(wanted[rows], 0)
                rank, tied = counts.double().T
                correct = torch.where(rank == 1, 1 / tied.clamp_min(1), 0.0)
                rank, tied = torch.where(rank > 0, rank, last), tied.clamp_min(1)
                scores.append(torch.stack([correct, log_prob.double(), rank, tied]).cpu())
            return scores

        chunks = zip(*self._chunks(0, len(targets), work), strict=True)  # the chunks of each pair
        measures = (torch.cat(chunk, 1).numpy() for chunk in chunks)
        return [summary(p, log_prob, mid_ranks(*ranks)) for p, log_prob, *ranks in measures]
