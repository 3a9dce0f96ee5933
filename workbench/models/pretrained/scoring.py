"""Log-probabilities of sub-tokens that follow contexts, by a causal model of ``transformers``, in batches.

Only the positions that are asked for go through the model's head. A context is computed once for all that
follows it: its keys and values are used again.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from workbench.models.batching import Batcher
from workbench.models.pretrained.loading import Checkpoint
from workbench.models.pretrained.subwords import Continuation, Ids, Subwords
from workbench.runs.predictions import Floats

if TYPE_CHECKING:
    import torch

Indices = Sequence[int] | npt.NDArray[np.int64]

_LOGITS = 1 << 26  # in a batch at most
_ROWS = 512
_TOKENS = {"cpu": 2048, "cuda": 32_768}
_LENGTH = 2048  # where neither the model nor its tokenizer says how much it sees
_UNSET = 10**9  # tokenizers without a length have a greater one
_SHAREABLE = {"DynamicLayer", "DynamicSlidingWindowLayer"}  # caches whose rows can be selected


class ContinuationScores(NamedTuple):
    """Scores of sub-tokens that follow others.

    Attributes
    ----------
    log_prob : array (n,)
        Natural log-probability of all of them in turn.
    end : array (n,)
        That the word is over after them.
    greedy : array of bool (n,)
        Whether each was the most probable one.
    """

    log_prob: Floats
    end: Floats
    greedy: npt.NDArray[np.bool_]

    @property
    def log_prob_of_word(self) -> Floats:
        """Natural log-probability of the sub-tokens and the end of the word."""
        return self.log_prob + self.end

    @classmethod
    def missing(cls, n: int) -> Self:
        """Return scores of `n` texts without sub-tokens: NaN, and not greedy."""
        return cls(np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, dtype=bool))

    @classmethod
    def started(cls, n: int) -> Self:
        """Return scores of `n` texts to which those of their sub-tokens are to be added."""
        return cls(np.zeros(n), np.full(n, np.nan), np.ones(n, dtype=bool))

    def at(self, rows: Indices) -> ContinuationScores:
        """Return the scores of some texts."""
        index = list(rows)
        return ContinuationScores(self.log_prob[index], self.end[index], self.greedy[index])

    def put(self, rows: Indices, scores: ContinuationScores) -> None:
        """Replace the scores of some texts."""
        for column, values in zip(self, scores, strict=True):
            column[list(rows)] = values

    def add(self, owners: Sequence[int], tokens: ContinuationScores) -> None:
        """Add the scores of sub-tokens, or of ends of words, to those of the texts that they belong to."""
        rows, inner = np.array(owners, dtype=np.int64), np.isnan(tokens.end)
        np.add.at(self.log_prob, rows[inner], tokens.log_prob[inner])
        np.logical_and.at(self.greedy, rows[inner], tokens.greedy[inner])
        self.end[rows[~inner]] = tokens.end[~inner]


class EncodedContexts(NamedTuple):
    """Contexts that a model has seen.

    Attributes
    ----------
    ids : list of list of int (n,)
    cache : Any
        Keys and values of their sub-tokens, aligned at the right; None for a model whose states cannot be
        shared, which then sees the contexts again each time.
    first : Tensor (n, logits)
        Natural log-probability of what comes next.
    """

    ids: list[Ids]
    cache: Any
    first: torch.Tensor


class CausalScorer:
    """Compute log-probabilities of continuations by a causal model.

    Parameters
    ----------
    checkpoint : Checkpoint
    batch_tokens : int, optional
        Sub-tokens in a batch: 2,048 on a CPU, 32,768 on a GPU.
    """

    def __init__(self, checkpoint: Checkpoint, batch_tokens: int | None = None) -> None:
        self.model, self.device = checkpoint.model, checkpoint.device
        self.length = _context_length(self.model.config, checkpoint.tokenizer)
        self._head = self.model.get_output_embeddings()
        size = int(self._head.weight.shape[0])
        self.subwords = Subwords(checkpoint.tokenizer, size)
        most = batch_tokens or _TOKENS.get(self.device.partition(":")[0], _TOKENS["cpu"])
        self.batcher = Batcher(most, rows=_ROWS, positions=_LOGITS // size)
        self._shares_states = True
        self._takes_positions = "position_ids" in inspect.signature(self.model.forward).parameters
        self._ends = self.tensor(np.flatnonzero(self.subwords.ends))

    def score(
        self, rows: Sequence[Sequence[Continuation]], *, step: Callable[[int], object] = lambda _n: None
    ) -> ContinuationScores:
        """Return the scores of continuations.

        Parameters
        ----------
        rows : sequence of sequence of (str, str) (n,)
            The continuations of each item. A context that they share is seen once, unless it is too long for
            the model or has other sub-tokens before one of them.
        step : callable, optional
            Progress callback: called with the number of continuations done.

        Returns
        -------
        ContinuationScores
            Of all continuations in turn.
        """
        pairs = self.subwords.pairs([continuation for row in rows for continuation in row])
        shared: list[list[int]] = []
        single: list[int] = []
        first = 0
        for row in rows:
            places = list(range(first, first + len(row)))
            first += len(row)
            if len(row) > 1 and self._share_context([pairs[place] for place in places]):
                shared.append(places)
            else:
                single += places
        scores = ContinuationScores.missing(len(pairs))
        scores.put(single, self.score_pairs([pairs[place] for place in single], step=step))
        for batch, contexts in self.contexts([pairs[places[0]][0] for places in shared]):
            owners = [(index, place) for index, row in enumerate(batch) for place in shared[row]]
            places = [place for _, place in owners]
            paths = [pairs[place][1] for place in places]
            scores.put(places, self.score_after(contexts, [index for index, _ in owners], paths))
            step(len(places))
        return scores

    def score_pairs(
        self, pairs: Sequence[tuple[Ids, Ids]], *, step: Callable[[int], object] = lambda _n: None
    ) -> ContinuationScores:
        """Return the scores of sub-tokens after contexts, each pair computed in one go.

        Parameters
        ----------
        pairs : sequence of (ids, ids) (n,)
            The context, at least one sub-token, and what follows. What is longer than the model sees loses
            its beginning, as in lm-evaluation-harness: all but the last of the sub-tokens are seen, and
            the end of the word is asked with one sub-token less on the left.
        step : callable, optional
            Progress callback: called with the number of pairs done.
        """
        scores = ContinuationScores.started(len(pairs))
        rows: list[Ids] = []
        asked: list[tuple[int, list[int], Ids]] = []  # of each row its pair, the positions, the targets
        for owner, (left, right) in enumerate(pairs):
            ids = left + right
            if len(ids) <= self.length:
                rows.append(ids)
                asked.append((owner, list(range(len(left) - 1, len(ids))), [*right, -1]))
                continue
            seen = ids[:-1][-self.length :]
            targets = right[-len(seen) :]
            rows += [seen, ids[-self.length :]]
            asked.append((owner, list(range(len(seen) - len(targets), len(seen))), targets))
            asked.append((owner, [self.length - 1], [-1]))

        def work(batch: Sequence[int]) -> ContinuationScores:
            logits = self._logits([rows[row] for row in batch], [asked[row][1] for row in batch])
            return self._token_scores(logits, [target for row in batch for target in asked[row][2]])

        positions = [len(places) for _, places, _ in asked]
        for batch, tokens in self.batcher.run([len(ids) for ids in rows], work, positions=positions):
            scores.add([asked[row][0] for row in batch for _ in asked[row][1]], tokens)
            step(sum(asked[row][2][-1] == -1 for row in batch))
        return scores

    def contexts(self, ids: Sequence[Ids]) -> Iterator[tuple[list[int], EncodedContexts]]:
        """Yield contexts, of one sub-token at least, as the model has seen them: which, and their states."""
        lengths = [len(row) for row in ids]
        yield from self.batcher.run(lengths, lambda batch: self._encode([ids[row] for row in batch]))

    def next_logits(
        self, contexts: EncodedContexts, owners: Sequence[int], paths: Sequence[Ids], *, every: bool = False
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield the logits of what comes after sub-tokens that follow contexts, in batches.

        Parameters
        ----------
        contexts : EncodedContexts
        owners : sequence of int (n,)
            The context of each path.
        paths : sequence of list of int (n,)
            One sub-token at least.
        every : bool, default False
            After each sub-token of a path, and not after the last alone.

        Yields
        ------
        list of int
            Which of the paths.
        Tensor
            (paths, or sub-tokens of all of them in turn; logits), in single precision.
        """
        width = max((len(contexts.ids[owner]) for owner in set(owners)), default=0)

        def work(batch: Sequence[int]) -> torch.Tensor:
            asked = [list(range(0 if every else len(paths[row]) - 1, len(paths[row]))) for row in batch]
            parents = [owners[row] for row in batch]
            if contexts.cache is not None:
                return self._logits([paths[row] for row in batch], asked, past=(contexts, parents))
            heads = [contexts.ids[owner] for owner in parents]
            ids = [head + paths[row] for head, row in zip(heads, batch, strict=True)]
            shifted = [[len(head) + place for place in row] for head, row in zip(heads, asked, strict=True)]
            return self._logits(ids, shifted)

        lengths = [width + len(path) for path in paths]
        positions = [len(path) if every else 1 for path in paths]
        yield from self.batcher.run(lengths, work, positions=positions, factor=2)

    def score_after(
        self, contexts: EncodedContexts, owners: Sequence[int], paths: Sequence[Ids]
    ) -> ContinuationScores:
        """Return the scores of sub-tokens after contexts that the model has seen (see `next_logits`)."""
        scores = ContinuationScores.started(len(paths))
        rows, ids = self.tensor(list(owners)), self.tensor([path[0] for path in paths])
        scores.log_prob[:] = contexts.first[rows, ids].double().cpu().numpy()
        scores.greedy[:] = (contexts.first.argmax(dim=-1)[rows] == ids).cpu().numpy()
        for batch, logits in self.next_logits(contexts, owners, paths, every=True):
            targets = [target for row in batch for target in [*paths[row][1:], -1]]
            scores.add([row for row in batch for _ in paths[row]], self._token_scores(logits, targets))
        return scores

    def end_log_probs(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logarithm of each row's sum, and the log-probability that the word is over."""
        norm = logits.logsumexp(dim=-1)
        return norm, logits.index_select(1, self._ends).logsumexp(dim=-1) - norm

    def tensor(self, values: Any) -> torch.Tensor:
        """Return integers as a tensor on the model's device."""
        import torch  # noqa: PLC0415 - heavy

        return torch.from_numpy(np.asarray(values, dtype=np.int64)).to(self.device)

    def _share_context(self, pairs: Sequence[tuple[Ids, Ids]]) -> bool:
        """Return whether all have the same context, and none is too long."""
        context = pairs[0][0]
        return all(left == context and len(left) + len(right) <= self.length for left, right in pairs)

    def _token_scores(self, logits: torch.Tensor, targets: Sequence[int]) -> ContinuationScores:
        """Return the scores of single sub-tokens; of a word's end, target -1, as `end`."""
        ids, is_end = self.tensor(targets), np.array(targets) == -1
        norm = logits.logsumexp(dim=-1)
        values = (logits.gather(1, ids.clamp(min=0)[:, None])[:, 0].double() - norm.double()).cpu().numpy()
        ends = np.full(len(targets), np.nan)
        if is_end.any():
            _, end = self.end_log_probs(logits[self.tensor(np.flatnonzero(is_end))])
            ends[is_end] = end.double().cpu().numpy()
        return ContinuationScores(values, ends, (logits.argmax(dim=-1) == ids).cpu().numpy())

    def _encode(self, ids: list[Ids]) -> EncodedContexts:
        import torch  # noqa: PLC0415 - heavy

        cache = None
        if self._shares_states:
            logits, cache = self._encode_cached(ids)
            self._shares_states = cache is not None
        if cache is None:
            logits = self._logits(ids, [[len(row) - 1] for row in ids])
        return EncodedContexts(ids, cache, torch.log_softmax(logits, dim=-1))

    def _encode_cached(self, rows: list[Ids]) -> tuple[torch.Tensor, Any]:
        """Return the logits after contexts that are aligned at the right, and their keys and values."""
        width = max(map(len, rows))
        ids, mask = np.zeros((2, len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            ids[index, width - len(row) :], mask[index, width - len(row) :] = row, 1
        options = {"attention_mask": self.tensor(mask), "use_cache": True}
        if self._takes_positions:
            options["position_ids"] = self.tensor(np.maximum(mask.cumsum(axis=1) - 1, 0))
        logits, cache = self._forward(ids, [[width - 1]] * len(rows), **options)
        layers = getattr(cache, "layers", None) or [None]
        fits = all(
            type(layer).__name__ in _SHAREABLE and layer.keys is not None and len(layer.keys) == len(rows)
            for layer in layers
        )
        return logits, cache if fits else None

    def _logits(
        self,
        rows: Sequence[Ids],
        asked: Sequence[Sequence[int]],
        *,
        past: tuple[EncodedContexts, list[int]] | None = None,
    ) -> torch.Tensor:
        """Return the logits at some positions of each row, all in turn, (positions, logits)."""
        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), dtype=np.int64)  # padded at the right, which no position sees
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
        if past is None:
            return self._forward(ids, asked, use_cache=False)[0]
        contexts, owners = past
        lengths = np.array([len(contexts.ids[owner]) for owner in owners])
        longest = max(map(len, contexts.ids))
        mask = np.arange(longest + width)[None, :] >= (longest - lengths)[:, None]
        options: dict[str, Any] = {"attention_mask": self.tensor(mask.astype(np.int64)), "use_cache": True}
        if self._takes_positions:
            positions = lengths[:, None] + np.arange(width)[None, :]
            options["position_ids"] = self.tensor(np.minimum(positions, self.length - 1))  # beyond is padding
        cache = _select_rows(contexts.cache, self.tensor(owners))
        return self._forward(ids, asked, past_key_values=cache, **options)[0]

    def _forward(
        self, ids: npt.NDArray[np.int64], asked: Sequence[Sequence[int]], **options: Any
    ) -> tuple[torch.Tensor, Any]:
        """Run the model, its head on the asked positions only."""
        import torch  # noqa: PLC0415 - heavy

        row = self.tensor([index for index, places in enumerate(asked) for _ in places])
        place = self.tensor([place for places in asked for place in places])

        def only_asked(_module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
            states = inputs[0]
            return (states[row, place][None], *inputs[1:]) if states.shape[:2] == ids.shape else inputs

        hook = self._head.register_forward_pre_hook(only_asked)
        try:
            with torch.inference_mode():
                output = self.model(input_ids=self.tensor(ids), **options)
                logits = output.logits
                logits = logits[0] if logits.shape[:2] == (1, len(row)) else logits[row, place]
                return logits.float(), getattr(output, "past_key_values", None)
        finally:
            hook.remove()


def _select_rows(cache: Any, rows: torch.Tensor) -> Any:
    """Return a cache that holds some rows of another, each as often as it is named."""
    selection = copy.copy(cache)
    selection.layers = [copy.copy(layer) for layer in cache.layers]
    selection.batch_select_indices(rows)
    return selection


def _context_length(config: Any, tokenizer: Any) -> int:
    """Return how many sub-tokens a model sees, found where lm-evaluation-harness looks for it."""
    inner = getattr(config, "text_config", None) or config
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if (value := getattr(inner, name, None)) is not None:
            return int(value)
    length = getattr(tokenizer, "model_max_length", None)
    return int(length) if length and length < _UNSET else _LENGTH
