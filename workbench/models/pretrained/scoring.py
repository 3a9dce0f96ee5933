"""Log-probabilities of words after contexts, by a causal model of ``transformers``, in batches.

`Subwords` splits texts where words begin and knows which sub-tokens end a word. A context is computed once
for all that follows it: its keys and values are used again.
"""

from __future__ import annotations

import copy
import inspect
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.models.device_memory import Batcher
from workbench.models.pretrained.loading import Checkpoint, Ids, is_plain, log_norm, padded
from workbench.models.pretrained.paths import PathRow, group_alike, pack_paths, tree_mask
from workbench.runs.predictions import Floats
from workbench.storage.errors import DataError

if TYPE_CHECKING:
    import torch

SCORES = np.dtype(
    [("log_prob", float), ("end", float), ("greedy", bool), ("last", float), ("best", np.int64)]
)
"""Scores of sub-tokens that follow others: the natural log-probability of all of them in turn, that of the
end of the word after them, whether each of them was the most probable one, the log-probability of the last
one given all before it, and the most probable sub-token in its place."""
Scores = npt.NDArray[np.void]
Continuation = tuple[str, str]
"""A text, and what follows it: the pair of which a causal model gives the conditional probability."""

WORD_CHARACTERS = frozenset("'’ʼ-‐‑_\u00ad\u200c\u200d")  # noqa: RUF001 - apostrophes and hyphens are meant
"""Characters that continue a word beside letters, digits and combining marks: apostrophes, hyphens, the
underscore, and invisible characters."""

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


def no_scores(n: int) -> Scores:
    """Return scores of `n` texts without sub-tokens: NaN, and not greedy."""
    return np.array([(np.nan, np.nan, False, np.nan, _END)] * n, dtype=SCORES)


def word_log_probs(scores: Scores) -> Floats:
    """Return the natural log-probability of the sub-tokens and the end of the word."""
    return np.asarray(scores["log_prob"] + scores["end"], dtype=float)


class Subwords:
    """A tokenizer of ``transformers`` that splits texts where their words begin.

    The split is that of lm-evaluation-harness (Gao et al., ``TemplateLM._encode_pair`` and
    ``loglikelihood``), so that the sub-tokens are the same. For the ends of words see
    :mod:`workbench.models.pretrained.causal`.

    Parameters
    ----------
    tokenizer : PreTrainedTokenizerFast
    size : int
        Number of logits of the model, which may be more than the tokenizer has sub-tokens.

    Attributes
    ----------
    ends : array of bool (size,)
        Which sub-tokens, coming next, mean that the word is over: those that begin with a character that
        no word continues with (white space, punctuation), and special ones except the unknown one. One that
        begins with a letter, a digit, a combining mark or one of `WORD_CHARACTERS` continues the word; so
        does one that holds only a part of a character, as the character may be a letter.
    prefix : int or None
        Sub-token before a text that is empty: the beginning of a text (BOS), or else its end.
    adds_bos : bool
        Whether the tokenizer puts a mark of the beginning before a text. A text that begins with that mark
        itself gets no other one, as in lm-evaluation-harness since 0.4.9.2.
    """

    def __init__(self, tokenizer: Any, size: int) -> None:
        self.tokenizer = tokenizer
        self.ends = np.zeros(size, dtype=bool)
        for index, surface in zip(range(size), _surfaces(tokenizer), strict=False):
            self.ends[index] = surface is None or ends_word(surface)
        unknown = tokenizer.unk_token_id
        if unknown is not None and unknown != tokenizer.eos_token_id and unknown < size:
            self.ends[unknown] = False
        first = tokenizer.bos_token_id
        self.prefix = tokenizer.eos_token_id if first is None else first
        [marked], [bare] = (tokenizer(["a"], add_special_tokens=add)["input_ids"] for add in (True, False))
        self.adds_bos = bool(marked) and marked[:1] != bare[:1]
        marks = {self.prefix, *(marked[:1] if self.adds_bos else ())} - {None}
        self._marks = tuple(tokenizer.decode([mark]) for mark in sorted(marks))

    def whole_words(self) -> dict[str, int]:
        """Return the words of letters that are one sub-token with a space before them, with the sub-token."""
        surfaces = islice(_surfaces(self.tokenizer), len(self.ends))
        texts = [(surface or b"").decode(errors="replace") for surface in surfaces]
        return {text[1:]: index for index, text in enumerate(texts) if text[:1] == " " and text[1:].isalpha()}

    def encode(self, texts: Sequence[str], *, special: bool = True) -> list[Ids]:
        """Return the sub-tokens of texts; `special` adds what the tokenizer puts around a text."""
        rows: list[Ids] = [[]] * len(texts)
        has_mark = [special and self.has_mark(text) for text in texts]
        for without in sorted(set(has_mark)):
            indices = [index for index, value in enumerate(has_mark) if value == without]
            batch = [texts[index] for index in indices]
            ids = self.tokenizer(batch, add_special_tokens=special and not without, verbose=False)
            for index, row in zip(indices, ids["input_ids"], strict=True):
                rows[index] = row
        return rows

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return where the sub-tokens of a text are in it; DataError if the tokenizer does not say that."""
        try:
            encoding = self.tokenizer(
                text, add_special_tokens=not self.has_mark(text), return_offsets_mapping=True, verbose=False
            )
            offsets: list[tuple[int, int]] = encoding["offset_mapping"]
        except (NotImplementedError, KeyError):
            offsets = []
        if text.strip() and not any(start < end for start, end in offsets):
            raise DataError(
                f"the tokenizer does not say where in the text its sub-tokens are: {text.strip()[:40]!r}",
                remedy="attention needs this: take the fast tokenizer of the model, with its tokenizer.json",
            )
        return offsets

    def has_mark(self, text: str) -> bool:
        """Tell whether a text begins with the tokenizer's own mark of the beginning."""
        return bool(self._marks) and text.startswith(self._marks)

    def beginnings(self, texts: Sequence[str]) -> list[str]:
        """Return what stands first in each text: one of :data:`workbench.runs.predictions.BOS`."""
        kinds = {True: "added", False: "none"}
        return ["text" if self.has_mark(text) else kinds[self.adds_bos or not text] for text in texts]

    def contexts(self, texts: Sequence[str]) -> list[Ids]:
        """Return the sub-tokens of what stands before words; an empty text has the prefix."""
        texts = [text.rstrip() for text in texts]
        if self.prefix is None and not all(texts):
            raise DataError("there is no text before the word, and the tokenizer has no mark for that")
        return [ids if text else [self.prefix] for text, ids in zip(texts, self.encode(texts), strict=True)]

    def pairs(self, continuations: Sequence[Continuation]) -> list[tuple[Ids, Ids]]:
        """Return the sub-tokens of texts and of what follows them.

        White space at the end of a text belongs to what follows. Both are encoded as one text, which is
        split after as many sub-tokens as the first alone has. Where nothing is left then, as the end of the
        first and the beginning of the second are one sub-token, what follows is encoded by itself.
        """
        joined = self.encode([before + after for before, after in continuations])
        heads = self.contexts([before for before, _ in continuations])
        pairs = []
        for (before, after), ids, head in zip(continuations, joined, heads, strict=True):
            left = before.rstrip()
            right = before[len(left) :] + after
            tail = ids[len(head) :]
            if not (left and tail):
                [tail] = self.encode([right], special=False)
                if not left and tail[:1] == head and len(tail) > 1:
                    tail = tail[1:]
            if not tail:
                raise DataError(f"the tokenizer leaves no sub-token of {right[:40]!r}")
            pairs.append((head, tail))
        return pairs

    def words(self, words: Sequence[str], lead: str, anchor: str) -> list[Ids]:
        """Return the sub-tokens of words after a text (`anchor`) and white space (`lead`) alone."""
        skip = len(self.encode([anchor])[0]) if anchor else 0
        texts = [f"{anchor}{lead}{word}" for word in words]
        # a quarter of the time that the tokenizer of transformers takes for as many texts
        encodings = self.tokenizer.backend_tokenizer.encode_batch_fast(texts, add_special_tokens=bool(anchor))
        return [encoding.ids[skip:] for encoding in encodings]

    def text(self, ids: Sequence[int], context: Sequence[int] = ()) -> str:
        """Return the text of sub-tokens as it is written after those of a context."""
        text = self.tokenizer.decode([*context, *ids], clean_up_tokenization_spaces=False)
        skip = len(self.tokenizer.decode(list(context), clean_up_tokenization_spaces=False)) if context else 0
        return str(text)[skip:]


class EncodedContexts(NamedTuple):
    """Contexts that a model has seen, with their keys and values, aligned at the right.

    A model whose states cannot be shared has no `cache` and sees the contexts again each time.
    """

    ids: list[Ids]
    cache: Any
    first: torch.Tensor  # natural log-probabilities of what comes next, (contexts, vocabulary)


class CausalScorer:
    """Compute log-probabilities of continuations by a causal model.

    Parameters
    ----------
    checkpoint : Checkpoint
    batch_tokens : int, optional
        Sub-tokens in a batch: 512 on a CPU, 32,768 on a GPU.
    """

    def __init__(self, checkpoint: Checkpoint, batch_tokens: int | None = None) -> None:
        self.checkpoint, self.tensor = checkpoint, checkpoint.tensor
        self.length = _context_length(checkpoint.model.config, checkpoint.tokenizer)
        size = int(checkpoint.model.get_output_embeddings().weight.shape[0])
        self.subwords = Subwords(checkpoint.tokenizer, size)
        most = batch_tokens or checkpoint.batch_tokens
        on_cpu = checkpoint.device == "cpu"
        self.batcher = Batcher(most, rows=_ROWS, positions=_LOGITS // size, concurrent=on_cpu)
        self._factor = 4 if on_cpu else 2  # contexts are in the rows, but not computed
        self._shares_states = True
        self._takes_positions = "position_ids" in inspect.signature(checkpoint.model.forward).parameters
        self._packs = self._takes_positions and _packs(checkpoint.model)
        self._ends = self.tensor(np.flatnonzero(self.subwords.ends))
        self._is_end = self.tensor(self.subwords.ends).float()

    def score(
        self, rows: Sequence[Sequence[Continuation]], *, step: Callable[[int], object] = lambda _n: None
    ) -> Scores:
        """Return the scores of all continuations in turn.

        Parameters
        ----------
        rows : sequence of sequence of (str, str) (n,)
            The continuations of each item. A context that they share is seen once, unless it is too long for
            the model or has other sub-tokens before one of them.
        step : callable, optional
            Progress callback: called with the number of continuations done.
        """
        pairs = self.subwords.pairs([continuation for row in rows for continuation in row])
        groups = [range(*ends) for ends in pairwise(np.cumsum([0, *map(len, rows)]).tolist())]
        shared = [group for group in groups if self._share_context([pairs[place] for place in group])]
        single = sorted(set(range(len(pairs))).difference(*shared))
        scores = no_scores(len(pairs))
        scores[single] = self.score_pairs([pairs[place] for place in single], step=step)
        for batch, contexts in self.contexts([pairs[group[0]][0] for group in shared]):
            owners = [index for index, row in enumerate(batch) for _ in shared[row]]
            places = [place for row in batch for place in shared[row]]
            scores[places] = self.score_after(contexts, owners, [pairs[place][1] for place in places])
            step(len(places))
        return scores

    def score_pairs(
        self, pairs: Sequence[tuple[Ids, Ids]], *, step: Callable[[int], object] = lambda _n: None
    ) -> Scores:
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
        scores = _started(len(pairs))
        rows: list[Ids] = []
        asked: list[tuple[int, list[int], Ids]] = []  # of each row its pair, the positions, the targets
        for owner, (left, right) in enumerate(pairs):
            ids = left + right
            if len(ids) <= self.length:
                rows.append(ids)
                asked.append((owner, list(range(len(left) - 1, len(ids))), [*right, _END]))
                continue
            seen = ids[:-1][-self.length :]
            targets = right[-len(seen) :]
            rows += [seen, ids[-self.length :]]
            asked.append((owner, list(range(len(seen) - len(targets), len(seen))), targets))
            asked.append((owner, [self.length - 1], [_END]))

        def work(batch: Sequence[int]) -> Scores:
            logits = self._logits([rows[row] for row in batch], [asked[row][1] for row in batch])
            return self._token_scores(logits, [target for row in batch for target in asked[row][2]])

        positions = [len(places) for _, places, _ in asked]
        for batch, tokens in self.batcher.run([len(ids) for ids in rows], work, positions=positions):
            _add(scores, [asked[row][0] for row in batch for _ in asked[row][1]], tokens)
            step(sum(asked[row][2][-1] == _END for row in batch))
        return scores

    def score_variants(
        self, pairs: Sequence[tuple[Ids, Ids]], *, step: Callable[[int], object] = lambda _n: None
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
        for batch, contexts in self.contexts([pairs[group[0][0]][0] for group in groups]):
            if contexts.cache is None:  # the model's states turned out not to be shared
                return self.score_pairs(pairs, step=step)
            members = [(owner, *pair) for owner, group in enumerate(batch) for pair in groups[group]]
            owners, indices, seen = map(list, zip(*members, strict=True))
            paths = [pairs[index][0][n:] + pairs[index][1] for index, n in zip(indices, seen, strict=True)]
            asked = [len(pairs[index][1]) + 1 for index in indices]
            for numbers, logits in self.next_logits(contexts, owners, paths, asked=asked, seen=seen):
                targets = [(indices[n], target) for n in numbers for target in [*pairs[indices[n]][1], _END]]
                values = self._token_scores(logits, [target for _, target in targets])
                _add(scores, [index for index, _ in targets], values)
                step(len(numbers))
        return scores

    def contexts(self, ids: Sequence[Ids]) -> Iterator[tuple[list[int], EncodedContexts]]:
        """Yield contexts, of one sub-token at least, as the model has seen them: which, and their states.

        Those of several batches come together as long as their keys and values take little memory: what
        follows many contexts is then computed in few steps.
        """
        lengths = [len(row) for row in ids]
        rows: list[int] = []
        waiting: list[EncodedContexts] = []
        for batch, encoded in self.batcher.run(
            lengths, lambda batch: self._encode([ids[row] for row in batch])
        ):
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
        """Yield the logits of what comes after sub-tokens that follow contexts, in batches.

        Parameters
        ----------
        contexts : EncodedContexts
        owners : sequence of int (n,)
            The context of each path.
        paths : sequence of list of int (n,)
            One sub-token at least.
        asked : sequence of int (n,), optional
            After how many sub-tokens at the end of each path; after the last alone by default.
        seen : sequence of int (n,), optional
            How many sub-tokens of its context each path sees; all by default. Those of a context that see as
            many share one row, however long.

        Yields
        ------
        list of int, Tensor (sub-tokens asked, of all paths in turn; logits)
            Which of the paths, and their logits in single precision.
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

    def _share_context(self, pairs: Sequence[tuple[Ids, Ids]]) -> bool:
        """Return whether several continuations have the same context, and none is too long."""
        return len(pairs) > 1 and all(
            left == pairs[0][0] and len(left) + len(right) <= self.length for left, right in pairs
        )

    def _token_scores(self, logits: torch.Tensor, targets: Sequence[int]) -> Scores:
        """Return the scores of single sub-tokens, or of the end of a word."""
        scores = no_scores(len(targets))
        ids, is_end = self.tensor(targets), np.array(targets) == _END
        norm = log_norm(logits)
        values = logits.gather(1, ids.clamp(min=0)[:, None])[:, 0].double() - norm.double()
        scores["log_prob"], scores["best"] = values.cpu(), logits.argmax(dim=-1).cpu()
        scores["last"], scores["greedy"] = scores["log_prob"], scores["best"] == np.array(targets)
        if is_end.any():
            _, end = self.end_log_probs(logits[self.tensor(np.flatnonzero(is_end))])
            scores["end"][is_end] = end.double().cpu()
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
        ids, mask = padded(rows, left=True)
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
        """Return the logits at some positions of each row, all in turn, (positions, logits)."""
        ids, _ = padded(rows)  # no position sees the padding, which is at the right
        return self.checkpoint.logits(ids, asked, use_cache=False)[0]

    def _logits_after(self, contexts: EncodedContexts, rows: Sequence[PathRow]) -> torch.Tensor:
        """Return the logits at the positions asked of rows that follow contexts, all in turn."""
        heads, asked = [contexts.ids[row.owner] for row in rows], [row.asked for row in rows]
        if contexts.cache is None:
            rows_with_heads = [head + row.ids for head, row in zip(heads, rows, strict=True)]
            shifted = [[len(head) + place for place in row] for head, row in zip(heads, asked, strict=True)]
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
    """Return whether paths of a model can stand in one row."""
    return is_plain(model) and getattr(model.config, "sliding_window", None) is None


def _copied(cache: Any) -> Any:
    """Return a cache with layers of its own, whose keys and values are those of the other until replaced."""
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
    """Return scores of `n` texts to which those of their sub-tokens are to be added."""
    return np.array([(0.0, np.nan, True, np.nan, _END)] * n, dtype=SCORES)


def _add(scores: Scores, owners: Sequence[int], tokens: Scores) -> None:
    """Add the scores of sub-tokens, or of ends of words, to those of the texts that they belong to."""
    rows, is_inner = np.array(owners, dtype=np.int64), np.isnan(tokens["end"])
    np.add.at(scores["log_prob"], rows[is_inner], tokens["log_prob"][is_inner])
    np.logical_and.at(scores["greedy"], rows[is_inner], tokens["greedy"][is_inner])
    for name in ("last", "best"):  # numpy assigns in turn, so that the last sub-token of a text stays
        scores[name][rows[is_inner]] = tokens[name][is_inner]
    scores["end"][rows[~is_inner]] = tokens["end"][~is_inner]


def _context_length(config: Any, tokenizer: Any) -> int:
    """Return how many sub-tokens a model sees, found where lm-evaluation-harness looks for it."""
    inner = getattr(config, "text_config", None) or config
    for name in ("n_positions", "max_position_embeddings", "n_ctx"):
        if (value := getattr(inner, name, None)) is not None:
            return int(value)
    length = getattr(tokenizer, "model_max_length", None)
    return int(length) if length and length < _UNSET else _LENGTH


def anchor_of(context: str, lead: str) -> str:
    """Return a short text after which words have the sub-tokens that they have after a context.

    After white space that is any letter; directly after another character, that character.
    """
    if not context:
        return ""
    return "a" if lead or context[-1].isalnum() else context[-1]


def ends_word(surface: bytes) -> bool:
    """Return whether bytes that come after a word show that it is over."""
    first = surface.decode(errors="surrogateescape")[:1]  # a surrogate (Cs) for a part of a character
    return bool(first) and not (
        first.isalnum() or first in WORD_CHARACTERS or unicodedata.category(first) in {"Mn", "Mc", "Me", "Cs"}
    )


def _surfaces(tokenizer: Any) -> Iterator[bytes | None]:
    """Yield the bytes that each sub-token stands for, a space before it included; None for special ones."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode  # noqa: PLC0415 - heavy, an extra

    table: Any = bytes_to_unicode  # has no types
    letters = {letter: bytes([value]) for value, letter in table().items()}
    decoders = str(tokenizer.backend_tokenizer.decoder.__getstate__())  # JSON, perhaps of several
    special, added = set(tokenizer.all_special_ids), tokenizer.added_tokens_decoder
    for index, token in enumerate(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))):
        if index in special or token is None:
            yield None
        elif index in added:
            yield str(added[index].content).replace("▁", " ").encode()
        elif '"ByteLevel"' in decoders:
            yield b"".join(letters.get(char, char.encode()) for char in token)
        elif '"WordPiece"' in decoders:
            yield (token[2:] if token.startswith("##") else f" {token}").encode()
        elif len(token) == len("<0x00>") and token.startswith("<0x") and '"ByteFallback"' in decoders:
            yield bytes.fromhex(token[3:5])
        else:
            yield token.replace("▁", " ").encode()
