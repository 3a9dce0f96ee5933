"""Log-probabilities of words after contexts, by a causal model of ``transformers``, in batches.

A context is computed once for all that follows it: its keys and values are used again. Paths after contexts
are packed into rows of a batch, a tree in each row.
"""

from __future__ import annotations

import copy
import inspect
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.items.schema import Span
from workbench.models.device_memory import Batcher
from workbench.models.pretrained.loading import Checkpoint, Ids, log_norm, padded
from workbench.models.pretrained.subwords import Continuation, Subwords
from workbench.predictions.schema import Floats
from workbench.storage.errors import DataError

if TYPE_CHECKING:
    import torch

SCORES = np.dtype(
    [
        ("log_prob", float), ("end", float), ("greedy", bool), ("last", float), ("best", np.int64),
        ("stops", bool),
    ]
)  # fmt: skip
"""Scores of sub-tokens that follow others: the natural log-probability of all of them in turn, that of the
end of the word after them, whether each of them was the most probable one, the log-probability of the last
one given all before it, the most probable sub-token in its place, and whether the most probable sub-token
after the last one ends the word."""
Scores = npt.NDArray[np.void]

KINDS = {"gpt2", "gpt_neox", "llama", "mistral", "opt", "qwen2", "qwen3"}
"""Kinds of causal models whose layers see what a mask of four dimensions says; the tests compare them with a
plain forward pass."""
_LOGITS = 1 << 26  # in a batch at most
_ROWS = 512
_LENGTH = 2048  # where neither the model nor its tokenizer says how much it sees
_UNSET = 10**9  # tokenizers without a length have a greater one
_SHAREABLE = {"DynamicLayer", "DynamicSlidingWindowLayer"}  # caches whose rows can be selected
_JOINABLE = {"DynamicLayer"}  # caches that rows of other batches can be added to
_STATE_BYTES = 1 << 28  # of keys and values of contexts of several batches that are kept together
_PACKED = 32  # sub-tokens of paths after which a row is full
_RARE = -50.0  # ends of words of a lower log-probability are summed by themselves
_END = -1  # asks for the end of the word in place of a sub-token
_ALIKE = 8  # sub-tokens that contexts begin with for their states to be shared


def half_steps(
    step: Callable[[float], object], sizes: Sequence[int] | None = None
) -> Callable[[Sequence[int]], object]:
    """Return a callback for batches of contexts that counts half of what follows each; 1 by default."""
    return lambda rows: step((len(rows) if sizes is None else sum(sizes[row] for row in rows)) / 2)


def no_scores(n: int) -> Scores:
    """Return scores of `n` texts without sub-tokens: NaN, and not greedy."""
    return np.array([(np.nan, np.nan, False, np.nan, _END, False)] * n, dtype=SCORES)


def word_log_probs(scores: Scores) -> Floats:
    """Return the natural log-probability of the sub-tokens and the end of the word."""
    return np.asarray(scores["log_prob"] + scores["end"], dtype=float)


class EncodedContexts(NamedTuple):
    """Contexts that a model has seen, with their keys and values, aligned at the right.

    A model whose states cannot be shared has no `cache` and sees the contexts again each time.
    """

    ids: list[Ids]
    cache: Any
    first: torch.Tensor  # natural log-probabilities of what comes next, (contexts, vocabulary)


class CausalScorer:
    """Compute log-probabilities of continuations by a causal model; `encoding` is as for `Subwords`."""

    def __init__(self, checkpoint: Checkpoint, batch_tokens: int | None = None, **encoding: str) -> None:
        self.checkpoint, self.tensor = checkpoint, checkpoint.tensor
        self.length = _context_length(checkpoint.model.config, checkpoint.tokenizer)
        size = int(checkpoint.model.get_output_embeddings().weight.shape[0])
        self.subwords = Subwords(checkpoint.tokenizer, size, **encoding)
        tokens_per_batch = batch_tokens or checkpoint.batch_tokens
        on_cpu = checkpoint.device == "cpu"
        self.batcher = Batcher(tokens_per_batch, rows=_ROWS, positions=_LOGITS // size, concurrent=on_cpu)
        self._factor = 4 if on_cpu else 2  # contexts are in the rows, but not computed
        self._shares_states = True
        self._takes_positions = "position_ids" in inspect.signature(checkpoint.model.forward).parameters
        self._packs = self._takes_positions and _packs(checkpoint.model)
        self._ends = self.tensor(np.flatnonzero(self.subwords.ends))
        self._is_end = self.tensor(self.subwords.ends).float()

    def score(
        self,
        rows: Sequence[Sequence[Continuation]],
        *,
        alike: Sequence[Sequence[Continuation]] | None = None,
        step: Callable[[float], object] = lambda _n: None,
    ) -> Scores:
        """Return the scores of the continuations of each item (`rows`), all in turn.

        Those of a row are encoded alike (:meth:`Subwords.pairs`), or those of parts of the rows (`alike`).

        A context that those of an item share is seen once, unless it is too long for the model or has other
        sub-tokens before one of them. `step` is called with the number of continuations done.
        """
        pairs = self.subwords.pairs(alike or rows)
        groups = [range(*ends) for ends in pairwise(np.cumsum([0, *map(len, rows)]).tolist())]
        fits = [len(before) + len(after) <= self.length for before, after in pairs]
        shared = [
            group for group in groups if len(group) > 1
            and all(fits[number] and pairs[number][0] == pairs[group[0]][0] for number in group)
        ]  # fmt: skip
        single = sorted(set(range(len(pairs))).difference(*shared))
        scores = no_scores(len(pairs))
        scores[single] = self.score_pairs([pairs[number] for number in single], step=step)
        contexts_of_groups = [pairs[group[0]][0] for group in shared]
        seen = half_steps(step, list(map(len, shared)))
        for batch, contexts in self.contexts(contexts_of_groups, seen=seen):
            owners = [index for index, row in enumerate(batch) for _ in shared[row]]
            numbers = [number for row in batch for number in shared[row]]
            scores[numbers] = self.score_after(contexts, owners, [pairs[number][1] for number in numbers])
            step(len(numbers) / 2)
        return scores

    def score_pairs(
        self,
        pairs: Sequence[tuple[Ids, Ids]],
        *,
        best: bool = True,
        step: Callable[[float], object] = lambda _n: None,
    ) -> Scores:
        """Return the scores of sub-tokens after contexts of one sub-token at least, each pair in one go.

        Without `best` the most probable sub-tokens are not looked for.

        What is longer than the model sees loses its beginning, as in lm-evaluation-harness: all but the last
        of the sub-tokens are seen, and the end of the word is asked with one sub-token less on the left.
        `step` is called with the number of pairs done.
        """
        scores = _started(len(pairs))
        rows: list[Ids] = []
        asked: list[tuple[int, list[int], Ids]] = []  # of each row its pair, the positions, the targets
        for owner, (context, continuation) in enumerate(pairs):
            ids = context + continuation
            if len(ids) <= self.length:
                rows.append(ids)
                asked.append((owner, list(range(len(context) - 1, len(ids))), [*continuation, _END]))
                continue
            seen = ids[:-1][-self.length :]
            targets = continuation[-len(seen) :]
            rows += [seen, ids[-self.length :]]
            asked.append((owner, list(range(len(seen) - len(targets), len(seen))), targets))
            asked.append((owner, [self.length - 1], [_END]))

        def work(batch: Sequence[int]) -> Scores:
            logits = self._logits([rows[row] for row in batch], [asked[row][1] for row in batch])
            targets = [target for row in batch for target in asked[row][2]]
            return self._token_scores(logits, targets, best=best)

        positions = [len(columns) for _, columns, _ in asked]
        for batch, tokens in self.batcher.run([len(ids) for ids in rows], work, positions=positions):
            _add(scores, [asked[row][0] for row in batch for _ in asked[row][1]], tokens)
            step(sum(asked[row][2][-1] == _END for row in batch))
        return scores

    def score_variants(
        self, pairs: Sequence[tuple[Ids, Ids]], *, step: Callable[[float], object] = lambda _n: None
    ) -> Scores:
        """Return the scores of pairs as `score_pairs` does; contexts that begin alike share their beginning.

        So a text without one of its sentences, after the text itself, costs what follows that sentence.
        Models whose paths cannot stand in one row share nothing.
        """
        fits = [self._packs and self._shares_states and len(a) + len(b) <= self.length for a, b in pairs]
        groups = group_alike([context for context, _ in pairs], fits)
        single = [group[0][0] for group in groups if len(group) == 1]
        groups = [group for group in groups if len(group) > 1]
        scores = _started(len(pairs))
        scores[single] = self.score_pairs([pairs[index] for index in single], step=step)
        contexts_of_groups = [pairs[group[0][0]][0] for group in groups]
        seen = half_steps(step, list(map(len, groups)))
        for batch, contexts in self.contexts(contexts_of_groups, seen=seen):
            if contexts.cache is None:  # the model's states turned out not to be shared
                return self.score_pairs(pairs, step=step)
            members = [(owner, *pair) for owner, group in enumerate(batch) for pair in groups[group]]
            owners, indices, lengths = map(list, zip(*members, strict=True))
            paths = [pairs[index][0][n:] + pairs[index][1] for index, n in zip(indices, lengths, strict=True)]
            asked = [len(pairs[index][1]) + 1 for index in indices]
            for numbers, logits in self.next_logits(contexts, owners, paths, asked=asked, seen=lengths):
                targets = [(indices[n], target) for n in numbers for target in [*pairs[indices[n]][1], _END]]
                values = self._token_scores(logits, [target for _, target in targets])
                _add(scores, [index for index, _ in targets], values)
                step(len(numbers) / 2)
        return scores

    def contexts(
        self, ids: Sequence[Ids], *, seen: Callable[[Sequence[int]], object] = lambda _rows: None
    ) -> Iterator[tuple[list[int], EncodedContexts]]:
        """Yield contexts, of one sub-token at least, as the model has seen them: which, and their states.

        Those of several batches come together as long as their keys and values take little memory: what
        follows many contexts is then computed in few steps. `seen` is called with the contexts of each batch.
        """
        lengths = [len(row) for row in ids]
        rows: list[int] = []
        waiting: list[EncodedContexts] = []
        for batch, encoded in self.batcher.run(
            lengths, lambda batch: self._encode([ids[row] for row in batch])
        ):
            seen(batch)
            rows, waiting = [*rows, *batch], [*waiting, encoded]
            if not _fit_together([*waiting, encoded]):  # nor would the next, which is as large or smaller
                yield rows, _join(waiting)
                rows, waiting = [], []
        if waiting:
            yield rows, _join(waiting)

    def next_logits(
        self,
        contexts: EncodedContexts,
        owners: Sequence[int],
        paths: Sequence[Ids],
        *,
        asked: Sequence[int] | None = None,
        seen: Sequence[int] | None = None,
    ) -> Iterator[tuple[list[int], torch.Tensor]]:
        """Yield the logits after sub-tokens (`paths`) that follow contexts (`owners`), in batches.

        They are asked after so many sub-tokens at the end of each path (`asked`); by default after the last
        alone. Each path sees so many sub-tokens of its context (`seen`), by default all; those of a context
        that see as many share one row, however long. A batch is which of the paths, and their logits in
        single precision, (sub-tokens asked, logits), of all paths in turn.
        """
        width = max((len(contexts.ids[owner]) for owner in set(owners)), default=0)
        shares = self._packs and contexts.cache is not None
        n_tokens = 1 if not shares else _PACKED if seen is None else np.inf
        rows = pack_paths(owners, paths, n_tokens=n_tokens, asked=asked, seen=seen)

        def work(batch: Sequence[int]) -> torch.Tensor:
            return self._logits_after(contexts, [rows[row] for row in batch])

        lengths, positions = [width + len(row.ids) for row in rows], [len(row.asked) for row in rows]
        for batch, logits in self.batcher.run(lengths, work, positions=positions, factor=self._factor):
            yield [path for row in batch for path in rows[row].paths], logits

    def score_after(self, contexts: EncodedContexts, owners: Sequence[int], paths: Sequence[Ids]) -> Scores:
        """Return the scores of sub-tokens after contexts that the model has seen (see `next_logits`)."""
        scores = _started(len(paths))
        rows, ids = self.tensor(list(owners)), self.tensor([path[0] for path in paths])
        scores["log_prob"] = scores["last"] = contexts.first[rows, ids].double().cpu().numpy()
        scores["best"] = contexts.first.argmax(dim=-1)[rows].cpu().numpy()
        scores["greedy"] = scores["best"] == ids.cpu().numpy()
        for batch, logits in self.next_logits(contexts, owners, paths, asked=list(map(len, paths))):
            targets = [target for row in batch for target in [*paths[row][1:], _END]]
            _add(scores, [row for row in batch for _ in paths[row]], self._token_scores(logits, targets))
        return scores

    def end_log_probs(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the logarithm of each row's sum, and the log-probability that the word is over."""
        top = logits.amax(dim=-1, keepdim=True)
        shares = (logits - top).exp_()  # once for both sums
        norm = (shares.sum(dim=-1).log() + top[:, 0]).where(top[:, 0].isfinite(), float("nan"))
        end = shares.mul_(self._is_end).sum(dim=-1).log() + top[:, 0]
        rare = (end - norm < _RARE).nonzero()[:, 0]  # of so small a share little or nothing is left
        if len(rare):
            end[rare] = logits[rare].index_select(1, self._ends).logsumexp(dim=-1)
        return norm, end - norm

    def attention(self, context: str, spans: Sequence[Span]) -> Floats:
        """Return the attention at the last position of a context on parts of it, (layers, heads, spans).

        Each part has the sum of its sub-tokens. DataError if the model does not return its attention.
        """
        import torch  # noqa: PLC0415 - heavy

        ids = self.subwords.contexts([context])[0][-self.length :]
        with self.checkpoint.eager(), torch.inference_mode():
            output = self.checkpoint.model(
                input_ids=self.checkpoint.input_ids([ids]), output_attentions=True, logits_to_keep=1
            )
        if not output.attentions or output.attentions[0] is None:
            problem = f"{self.checkpoint.label} does not return its attention"
            raise DataError(problem, hint="take another checkpoint")
        last = [layer[0, :, -1].float().cpu().numpy() for layer in output.attentions]
        weights = np.stack(last)[:, :, ::-1]  # (layers, heads, sub-tokens), the last first
        sums = np.zeros((*weights.shape[:2], len(spans)))
        starts = [start for start, _ in spans]
        offsets = self.subwords.offsets(context)[::-1]  # special sub-tokens have none; the first may be cut
        for column, (start, end) in zip(range(weights.shape[2]), offsets, strict=False):
            token = bisect_right(starts, end - 1) - 1
            if start < end and token >= 0 and end - 1 < spans[token][1]:
                sums[:, :, token] += weights[:, :, column]
        return sums

    def _token_scores(self, logits: torch.Tensor, targets: Sequence[int], *, best: bool = True) -> Scores:
        """Return the scores of single sub-tokens, or of the end of a word."""
        scores = no_scores(len(targets))
        ids, is_end = self.tensor(targets), np.array(targets) == _END
        norm = log_norm(logits)
        values = logits.gather(1, ids.clamp(min=0)[:, None])[:, 0].double() - norm.double()
        scores["log_prob"] = values.cpu()
        if best:
            scores["best"] = logits.argmax(dim=-1).cpu()
        scores["last"], scores["greedy"] = scores["log_prob"], scores["best"] == np.array(targets)
        if is_end.any():
            _, end = self.end_log_probs(logits[self.tensor(np.flatnonzero(is_end))])
            scores["end"][is_end] = end.double().cpu()
            scores["stops"][is_end] = self.subwords.ends[scores["best"][is_end]]
        return scores

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
        """Return the logits after contexts, and their keys and values; None where rows cannot be selected."""
        ids, mask = padded(rows, pad_left=True)
        positions = np.maximum(mask.cumsum(axis=1) - 1, 0)
        asked = [[ids.shape[1] - 1]] * len(rows)
        logits, cache = self.checkpoint.logits(ids, asked, **self._options(mask, positions))
        layers = getattr(cache, "layers", None) or [None]
        fits = all(
            type(layer).__name__ in _SHAREABLE and layer.keys is not None and len(layer.keys) == len(rows)
            for layer in layers
        )
        return logits, cache if fits else None

    def _logits(self, rows: Sequence[Ids], asked: Sequence[Sequence[int]]) -> torch.Tensor:
        """Return the logits at the asked positions of each row, in order, (positions, logits)."""
        ids, _ = padded(rows)  # no position sees the padding, which is at the right
        return self.checkpoint.logits(ids, asked, use_cache=False)[0]

    def _logits_after(self, contexts: EncodedContexts, rows: Sequence[PathRow]) -> torch.Tensor:
        """Return the logits at the positions asked of rows that follow contexts, all in turn."""
        heads, asked = [contexts.ids[row.owner] for row in rows], [row.asked for row in rows]
        if contexts.cache is None:
            rows_with_heads = [head + row.ids for head, row in zip(heads, rows, strict=True)]
            shifted = [[len(head) + index for index in row] for head, row in zip(heads, asked, strict=True)]
            return self._logits(rows_with_heads, shifted)
        ids, _ = padded([row.ids for row in rows])
        steps, _ = padded([row.steps for row in rows])
        lengths = np.array([len(head) for head in heads])[:, None]
        pairs = zip(rows, heads, strict=True)
        seen = np.array([len(head) if row.seen is None else row.seen for row, head in pairs])[:, None]
        longest = max(map(len, contexts.ids))
        mask = np.arange(longest + ids.shape[1]) >= longest - lengths
        if self._packs:
            mask &= np.arange(mask.shape[1]) < longest - lengths + seen
            mask = tree_mask(mask[:, :longest], rows, ids.shape[1])
        positions = np.minimum(seen + steps, self.length - 1)  # beyond is padding
        cache, owners = _copied(contexts.cache), [row.owner for row in rows]
        if owners != list(range(len(contexts.ids))):
            cache.batch_select_indices(self.tensor(owners))  # as often as each is named
        options = self._options(mask, positions)
        return self.checkpoint.logits(ids, asked, past_key_values=cache, **options)[0]

    def _options(self, mask: npt.NDArray[Any], positions: npt.NDArray[np.int64]) -> dict[str, Any]:
        import torch  # noqa: PLC0415 - heavy

        visible = self.tensor(mask)
        if self._packs and mask.dtype == bool and mask.shape[1] == 1:  # of trees, added to the attention
            dtype = self.checkpoint.model.dtype
            visible = (1 - visible).to(dtype) * torch.finfo(dtype).min
        options = {"attention_mask": visible, "use_cache": True}
        return options | ({"position_ids": self.tensor(positions)} if self._takes_positions else {})


def _packs(model: Any) -> bool:
    """Return whether a model can score several paths in one row."""
    name = model.config.model_type
    is_known = name in KINDS and type(model).__module__.startswith(f"transformers.models.{name}.")
    return is_known and getattr(model.config, "sliding_window", None) is None


def _copied(cache: Any) -> Any:
    """Return a shallow copy of a key-value cache."""
    copied = copy.copy(cache)
    copied.layers = [copy.copy(layer) for layer in cache.layers]
    return copied


def _fit_together(batches: Sequence[EncodedContexts]) -> bool:
    """Return whether the states of batches can be put together, and take little memory."""
    layers = [layer for batch in batches for layer in getattr(batch.cache, "layers", [])]
    size = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    return size <= _STATE_BYTES and all(type(layer).__name__ in _JOINABLE for layer in layers)


def _join(batches: Sequence[EncodedContexts]) -> EncodedContexts:
    """Return several batches of contexts as one, their keys and values aligned at the right."""
    import torch  # noqa: PLC0415 - heavy

    if len(batches) == 1:
        return batches[0]
    ids, cache = [row for batch in batches for row in batch.ids], None
    if batches[0].cache is not None:
        cache, longest = _copied(batches[0].cache), max(map(len, ids))
        for index, layer in enumerate(cache.layers):
            for name in ("keys", "values"):
                states = [getattr(batch.cache.layers[index], name) for batch in batches]
                states = [torch.nn.functional.pad(x, (0, 0, longest - x.shape[-2], 0)) for x in states]
                setattr(layer, name, torch.cat(states))
    return EncodedContexts(ids, cache, torch.cat([batch.first for batch in batches]))


def _started(n: int) -> Scores:
    """Return empty scores of `n` texts, to which the scores of their sub-tokens are added."""
    return np.array([(0.0, np.nan, True, np.nan, _END, False)] * n, dtype=SCORES)


def _add(scores: Scores, owners: Sequence[int], tokens: Scores) -> None:
    """Add the scores of sub-tokens, or of ends of words, to the scores of their texts."""
    rows, is_inner = np.array(owners, dtype=np.int64), np.isnan(tokens["end"])
    np.add.at(scores["log_prob"], rows[is_inner], tokens["log_prob"][is_inner])
    np.logical_and.at(scores["greedy"], rows[is_inner], tokens["greedy"][is_inner])
    for name in ("last", "best"):  # numpy assigns in turn, so that the last sub-token of a text stays
        scores[name][rows[is_inner]] = tokens[name][is_inner]
    for name in ("end", "stops"):
        scores[name][rows[~is_inner]] = tokens[name][~is_inner]


def _context_length(config: Any, tokenizer: Any) -> int:
    """Return how many sub-tokens a model sees, found where lm-evaluation-harness looks for it."""
    inner = getattr(config, "text_config", None) or config
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if (value := getattr(inner, name, None)) is not None:
            return int(value)
    length = getattr(tokenizer, "model_max_length", None)
    return int(length) if length and length < _UNSET else _LENGTH


class PathRow(NamedTuple):
    """Paths after a context in one row, with common prefixes stored once."""

    owner: int  # the context
    seen: int | None  # how many sub-tokens of it are seen; None for all
    ids: Ids
    above: list[int]  # the place of the sub-token before each; -1 after the context
    steps: list[int]  # how many sub-tokens are between the context and each
    paths: list[int]  # which paths
    asked: list[int]  # the places asked, of one path after the other


def pack_paths(
    owners: Sequence[int],
    paths: Sequence[Ids],
    *,
    n_tokens: float,
    asked: Sequence[int] | None = None,
    seen: Sequence[int] | None = None,
) -> list[PathRow]:
    """Put the paths after each context (`owners`) into rows, which are full with `n_tokens` sub-tokens.

    The model is asked after the last sub-tokens of each path (`asked`), one by default; a path comes after
    the first `seen` sub-tokens of its context, all by default.
    """
    rows: list[PathRow] = []
    current: dict[tuple[int, int | None], tuple[PathRow, dict[tuple[int, int], int]]] = {}
    for index, (owner, path) in enumerate(zip(owners, paths, strict=True)):
        key = owner, None if seen is None else seen[index]
        row, nodes = current.get(key, (None, {}))
        if row is None or len(row.ids) >= n_tokens:
            row, nodes = PathRow(*key, [], [], [], [], []), {}
            rows.append(row)
            current[key] = row, nodes
        node, on_path = -1, []
        for step, token in enumerate(path):
            above, node = node, nodes.setdefault((node, token), len(row.ids))
            if node == len(row.ids):
                row.ids.append(token)
                row.above.append(above)
                row.steps.append(step)
            on_path.append(node)
        row.paths.append(index)
        row.asked.extend(on_path[-(1 if asked is None else asked[index]) :])
    return rows


def tree_mask(contexts: npt.NDArray[np.bool_], rows: Sequence[PathRow], width: int) -> npt.NDArray[np.bool_]:
    """Return the attention mask of the nodes: the context, the earlier nodes of the path, the node itself.

    `contexts` (rows, length) are the places of the contexts; the mask is (rows, 1, width, length + width).
    """
    tree = np.zeros((len(rows), width, width), dtype=bool)
    tree[:, np.arange(width), np.arange(width)] = True
    for visible, row in zip(tree, rows, strict=True):
        for node, above in enumerate(row.above):
            if above >= 0:
                visible[node] |= visible[above]
    seen = np.broadcast_to(contexts[:, None], (len(rows), width, contexts.shape[1]))
    return np.concatenate([seen, tree], axis=2)[:, None]


def group_alike(contexts: Sequence[Ids], fits: Sequence[bool]) -> list[list[tuple[int, int]]]:
    """Return groups of contexts in a row that begin as the first of the group: which, and how far.

    The last sub-token of a context, after which the model is asked, does not count. A context that does not
    fit into what the model sees is a group by itself.
    """
    groups: list[list[tuple[int, int]]] = []
    first: Ids = []
    for index, (ids, is_short) in enumerate(zip(contexts, fits, strict=True)):
        alike = next((n for n, (a, b) in enumerate(zip(ids, first, strict=False)) if a != b), len(first))
        n = min(alike, len(ids)) if is_short else 0
        if n >= _ALIKE:
            groups[-1].append((index, min(n, len(ids) - 1)))
        else:
            first = ids if is_short else []
            groups.append([(index, len(ids) - 1)])
    return groups
