"""A causal model of ``transformers``: reading it, and log-probabilities of sub-tokens in batches.

Only the positions that are asked for go through the model's head; what was computed for a context is used
again for all that follows it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from workbench.models.batching import Batcher
from workbench.models.pretrained.loading import length, read
from workbench.models.pretrained.subwords import Ids, Subwords

if TYPE_CHECKING:
    import torch

Floats = npt.NDArray[np.float64]
Places = Sequence[int] | npt.NDArray[np.int64]

_LOGITS = 1 << 26  # in a batch at most
_ROWS = 512
_TOKENS = {"cpu": 2048, "cuda": 32_768}
_CACHES = {"DynamicLayer", "DynamicSlidingWindowLayer"}


class Told(NamedTuple):
    """What a model says of sub-tokens that come after others.

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

    @classmethod
    def nothing(cls, n: int) -> Self:
        """Return what is said of `n` texts without sub-tokens."""
        return cls(np.full(n, np.nan), np.full(n, np.nan), np.zeros(n, dtype=bool))

    def at(self, places: Places) -> Told:
        """Return what is said of the texts at some places."""
        where = list(places)
        return Told(self.log_prob[where], self.end[where], self.greedy[where])

    def put(self, places: Places, found: Told) -> None:
        """Replace what is said at some places."""
        for mine, given in zip(self, found, strict=True):
            mine[list(places)] = given


class _Said(NamedTuple):
    """What a batch says of single sub-tokens and of ends of words, in turn."""

    values: Floats
    best: npt.NDArray[np.bool_]
    closing: npt.NDArray[np.bool_]

    def add(self, told: Told, owners: Sequence[int]) -> None:
        """Add it to what is told of their owners."""
        place, inner = np.array(owners, dtype=np.int64), ~self.closing
        np.add.at(told.log_prob, place[inner], self.values[inner])
        np.logical_and.at(told.greedy, place[inner], self.best[inner])
        told.end[place[self.closing]] = self.values[self.closing]


class Contexts(NamedTuple):
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


class Network:
    """A causal model and its tokenizer; the arguments are those of `pretrained.CausalLM`.

    Raises
    ------
    DataError
        If ``transformers`` is not installed, or there is no causal model with a fast tokenizer.
    """

    def __init__(
        self,
        path_or_name: Path | str,
        *,
        device: str | None = None,
        dtype: str | None = None,
        batch_tokens: int | None = None,
        eager: bool = False,
        **options: Any,
    ) -> None:
        self.model, tokenizer, self.device = read(
            path_or_name, device, dtype, kind="causal", eager=eager, **options
        )
        self.dtype = str(self.model.dtype).removeprefix("torch.")
        self.commit = getattr(self.model.config, "_commit_hash", None)
        self.length = length(self.model.config, tokenizer)
        head = self.model.get_output_embeddings()
        self.size = int(head.weight.shape[0])
        self.subwords = Subwords(tokenizer, self.size)
        most = batch_tokens or _TOKENS.get(self.device.partition(":")[0], _TOKENS["cpu"])
        self.batcher = Batcher(most, rows=_ROWS, positions=_LOGITS // self.size)
        self._head, self._shares = head, True
        self._positions = "position_ids" in inspect.signature(self.model.forward).parameters
        self._ends = self.tensor(np.flatnonzero(self.subwords.ends))

    def follow(
        self, pairs: Sequence[tuple[Ids, Ids]], *, step: Callable[[int], object] = lambda _n: None
    ) -> Told:
        """Return what the model says of sub-tokens after contexts, each seen in one go.

        Parameters
        ----------
        pairs : sequence of (ids, ids)
            What stands before, at least one sub-token, and what follows. What is longer than the model sees
            loses its beginning, as in lm-evaluation-harness: all but the last of the sub-tokens are seen, and
            the end of the word is asked with one sub-token less on the left.
        step : callable, optional
            Is told how many of the pairs are done.
        """
        told = Told(np.zeros(len(pairs)), np.full(len(pairs), np.nan), np.ones(len(pairs), dtype=bool))
        rows, asked = [], []  # what is seen, the places asked, whose it is
        for owner, (left, right) in enumerate(pairs):
            whole = left + right
            if len(whole) <= self.length:
                rows.append(whole)
                asked.append((owner, list(range(len(left) - 1, len(whole))), [*right, -1]))
                continue
            seen = whole[:-1][-self.length :]
            targets = right[-len(seen) :]
            rows += [seen, whole[-self.length :]]
            asked.append((owner, list(range(len(seen) - len(targets), len(seen))), targets))
            asked.append((owner, [self.length - 1], [-1]))

        def work(part: Sequence[int]) -> _Said:
            logits = self._logits([rows[place] for place in part], [asked[place][1] for place in part])
            return self._said(logits, [target for place in part for target in asked[place][2]])

        positions = [len(places) for _, places, _ in asked]
        for part, said in self.batcher.run([len(row) for row in rows], work, positions=positions):
            said.add(told, [asked[place][0] for place in part for _ in asked[place][1]])
            step(sum(asked[place][2][-1] == -1 for place in part))
        return told

    def contexts(self, ids: Sequence[Ids]) -> Iterator[tuple[list[int], Contexts]]:
        """Let the model see contexts, each of one sub-token at least; yield them in batches, and which."""
        lengths = [len(row) for row in ids]
        yield from self.batcher.run(lengths, lambda part: self._seen([ids[place] for place in part]))

    def _seen(self, ids: Sequence[Ids]) -> Contexts:
        import torch  # noqa: PLC0415 - heavy

        rows = list(ids)
        if self._shares:
            logits, cache = self._left(rows)
            if cache is None:
                self._shares = False
        if not self._shares:
            cache = None
            logits = self._logits(rows, [[len(row) - 1] for row in rows])
        return Contexts(rows, cache, torch.log_softmax(logits, dim=-1))

    def after(
        self, contexts: Contexts, owners: Sequence[int], paths: Sequence[Ids], *, every: bool = False
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield the logits of what comes after sub-tokens that follow contexts, in batches.

        Parameters
        ----------
        contexts : Contexts
        owners : sequence of int (n,)
            After which context each path comes.
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

        def work(part: Sequence[int]) -> torch.Tensor:
            mine = [owners[place] for place in part]
            ends = [list(range(0 if every else len(paths[p]) - 1, len(paths[p]))) for p in part]
            if contexts.cache is not None:
                return self._logits([paths[place] for place in part], ends, past=(contexts, mine))
            heads = [contexts.ids[owner] for owner in mine]
            rows = [head + paths[place] for head, place in zip(heads, part, strict=True)]
            shifted = [[len(head) + at for at in row] for head, row in zip(heads, ends, strict=True)]
            return self._logits(rows, shifted)

        lengths = [width + len(path) for path in paths]
        positions = [len(path) if every else 1 for path in paths]
        yield from self.batcher.run(lengths, work, positions=positions, factor=2)

    def told(self, contexts: Contexts, owners: Sequence[int], paths: Sequence[Ids]) -> Told:
        """Return what the model says of sub-tokens after contexts that it has seen."""
        n = len(paths)
        told = Told(np.zeros(n), np.full(n, np.nan), np.ones(n, dtype=bool))
        at, ids = self.tensor(list(owners)), self.tensor([path[0] for path in paths])
        told.log_prob[:] = contexts.first[at, ids].double().cpu().numpy()
        told.greedy[:] = (contexts.first.argmax(dim=-1)[at] == ids).cpu().numpy()
        for part, logits in self.after(contexts, owners, paths, every=True):
            targets = [target for place in part for target in [*paths[place][1:], -1]]
            self._said(logits, targets).add(told, [place for place in part for _ in paths[place]])
        return told

    def endings(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logarithm of the sum of each row, and the log-probability that the word is over."""
        norm = logits.logsumexp(dim=-1)
        return norm, logits.index_select(1, self._ends).logsumexp(dim=-1) - norm

    def _said(self, logits: torch.Tensor, targets: Sequence[int]) -> _Said:
        """Return what some logits say of targets; -1 is the word's end."""
        wanted, closing = self.tensor(targets), np.array(targets) == -1
        norm = logits.logsumexp(dim=-1)
        values = (logits.gather(1, wanted.clamp(min=0)[:, None])[:, 0].double() - norm.double()).cpu().numpy()
        if closing.any():
            _, end = self.endings(logits[self.tensor(np.flatnonzero(closing))])
            values[closing] = end.double().cpu().numpy()
        return _Said(values, (logits.argmax(dim=-1) == wanted).cpu().numpy(), closing)

    def _left(self, rows: list[Ids]) -> tuple[torch.Tensor, Any]:
        """Return the logits after contexts that are aligned at the right, and their keys and values."""
        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), dtype=np.int64)
        seen = np.zeros_like(ids)
        for index, row in enumerate(rows):
            ids[index, width - len(row) :], seen[index, width - len(row) :] = row, 1
        options = {"attention_mask": self.tensor(seen), "use_cache": True}
        if self._positions:
            options["position_ids"] = self.tensor(np.maximum(seen.cumsum(axis=1) - 1, 0))
        at = [[width - 1]] * len(rows)
        logits, cache = self._forward(ids, at, **options)
        layers = getattr(cache, "layers", None) or [None]
        fits = all(
            type(layer).__name__ in _CACHES and layer.keys is not None and len(layer.keys) == len(rows)
            for layer in layers
        )
        return logits, cache if fits else None

    def _logits(
        self,
        rows: Sequence[Ids],
        asked: Sequence[Sequence[int]],
        *,
        past: tuple[Contexts, list[int]] | None = None,
    ) -> torch.Tensor:
        """Return the logits at some places of each row, all in turn, (places, logits)."""
        width = max(map(len, rows))
        ids = np.zeros((len(rows), width), dtype=np.int64)  # what stands right of a row is not seen from it
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
        if past is None:
            return self._forward(ids, asked, use_cache=False)[0]
        contexts, owners = past
        whole = max(map(len, contexts.ids))
        lengths = np.array([len(contexts.ids[owner]) for owner in owners])
        seen = np.arange(whole + width)[None, :] >= (whole - lengths)[:, None]
        options: dict[str, Any] = {"attention_mask": self.tensor(seen.astype(np.int64)), "use_cache": True}
        if self._positions:
            places = lengths[:, None] + np.arange(width)[None, :]
            options["position_ids"] = self.tensor(np.minimum(places, self.length - 1))  # beyond is padding
        kept = _selected(contexts.cache, self.tensor(owners))
        return self._forward(ids, asked, past_key_values=kept, **options)[0]

    def _forward(
        self, ids: npt.NDArray[np.int64], asked: Sequence[Sequence[int]], **options: Any
    ) -> tuple[torch.Tensor, Any]:
        """Run the model, its head on the places asked alone."""
        import torch  # noqa: PLC0415 - heavy

        row = self.tensor([index for index, places in enumerate(asked) for _ in places])
        place = self.tensor([place for places in asked for place in places])

        def only_asked(_module: Any, given: tuple[Any, ...]) -> tuple[Any, ...]:
            states = given[0]
            return (states[row, place][None], *given[1:]) if states.shape[:2] == ids.shape else given

        hook = self._head.register_forward_pre_hook(only_asked)
        try:
            with torch.inference_mode():
                told = self.model(input_ids=self.tensor(ids), **options)
                logits = told.logits
                logits = logits[0] if logits.shape[:2] == (1, len(row)) else logits[row, place]
                return logits.float(), getattr(told, "past_key_values", None)
        finally:
            hook.remove()

    def tensor(self, values: Any) -> torch.Tensor:
        """Return whole numbers as a tensor where the model computes."""
        import torch  # noqa: PLC0415 - heavy

        return torch.from_numpy(np.asarray(values, dtype=np.int64)).to(self.device)


def _selected(cache: Any, rows: torch.Tensor) -> Any:
    """Return a cache that holds some rows of another, each as often as it is named."""
    found = copy.copy(cache)
    found.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in found.layers:
        layer.keys, layer.values = layer.keys.index_select(0, rows), layer.values.index_select(0, rows)
    return found
