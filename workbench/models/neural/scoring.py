"""Log-probabilities, exact ranks and best words of networks, in bounded memory.

Contexts are read in batches of similar length; of each only the last place goes through the softmax, in
chunks of rows. Where memory does not suffice, a batch or chunk is halved.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from workbench.items.items import Items
from workbench.items.tokens import tokens
from workbench.models.base import Predictor, pad
from workbench.models.device_memory import Batcher
from workbench.models.item_words import Attention, ReadContext
from workbench.models.neural.network import (
    SENTENCE,
    ContextStates,
    Copies,
    EncodedBlank,
    ItemEncoder,
    LanguageModule,
    WordScores,
    word_scores,
)
from workbench.models.prediction_rows import Ranked
from workbench.models.text_scores import (
    Beginning,
    LongText,
    TextScores,
    check_beginning,
    given_and_text,
    scores_of_words,
)
from workbench.predictions.schema import Floats

Context = Sequence[int]
Ids = npt.NDArray[np.int64]
Place = tuple[int, int]  # row and column of a continuation
T = TypeVar("T")

_CHUNK = {"cpu": 64 * 2**20, "cuda": 2**30}  # bytes of log-probabilities in a chunk
_BATCH = {"cpu": 1 << 13, "cuda": 1 << 16}  # words of contexts in a batch, padding counted
_PART = 8  # of which is a batch of continuations

_lock = Lock()  # of the list
_before: list[tuple[str, bool]] = []  # torch's settings, as each thread that computes in float32 found them


@contextmanager
def evaluating(network: LanguageModule) -> Iterator[None]:
    """Compute without gradients, dropout and reduced precision."""
    device_type = next(network.parameters()).device.type
    trained = network.training  # where it is not, another thread may use it too
    if trained:
        network.eval()
    try:
        with torch.no_grad(), torch.autocast(device_type, enabled=False), float32_products(device_type):
            yield
    finally:
        if trained:
            network.train()


@contextmanager
def float32_products(device_type: str) -> Iterator[None]:
    """Compute products of float32 in float32 on a GPU, too, not in TF32, as long as any thread needs it."""
    if device_type != "cuda":
        yield
        return
    with _lock:
        _before.append((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        torch.set_float32_matmul_precision("highest")
        torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        with _lock:
            precision, allowed = _before.pop()
            if not _before:  # the last thread restores what the first found
                torch.set_float32_matmul_precision(precision)
                torch.backends.cudnn.allow_tf32 = allowed


class AnswerRanks(NamedTuple):
    """Ranks of the answers of n contexts, and extended ids and ln p of the best words.

    The best word is first, of equal ones the lower id. An answer that is not ranked has rank and ties 0.
    """

    log_prob: Floats  # NaN where there is no answer
    rank: Ids  # 1 + words strictly more probable
    tied: Ids  # words exactly as probable
    top: list[list[int]]
    top_log_probs: list[list[float]]


class Scorer:
    """Computes the probabilities of words after contexts.

    The network is on the device where it shall compute; `share` is subtracted from ln p(``<unk>``) for one
    unknown word.
    """

    def __init__(self, network: LanguageModule, *, share: float = 0.0) -> None:
        self.network, self.share = network, share
        self.device = next(network.parameters()).device
        device = "cuda" if self.device.type == "cuda" else "cpu"
        self._batcher = Batcher(_BATCH[device])
        self._line_batcher = Batcher(_BATCH[device] // _PART)  # short rows: in large batches lengths differ
        self._chunker = Batcher(_CHUNK[device] // (4 * network.n_words))

    def last(
        self, contexts: Sequence[Context], read: Callable[[Tensor, Tensor], ContextStates] | None = None
    ) -> ContextStates:
        """Read non-empty contexts of extended ids; return the states that predict the words after them."""
        n, read = len(contexts), read or self.network.last
        hidden, copies = torch.empty(n, self.network.width, device=self.device), None
        for rows, states in self._batches(
            contexts, lambda _, batch: read(*self.padded(batch)), self.network.window
        ):
            hidden[rows] = states.hidden.float()
            if states.copies is None:
                continue
            ids, copy, keep = states.copies
            if copies is None:  # the first batch has the longest contexts
                copies = Copies(
                    ids.new_zeros(n, ids.shape[1]), hidden.new_zeros(n, ids.shape[1]), hidden.new_zeros(n)
                )
            copies.ids[rows, : ids.shape[1]] = ids
            copies.copy[rows, : ids.shape[1]] = copy.float()
            copies.keep[rows] = keep.float()
        return ContextStates(hidden, copies)

    def distribution(self, states: ContextStates, start: int, stop: int) -> Floats:
        """Return ln p of the words of the vocabulary, ``<unk>`` left out: float64 (stop - start, V)."""
        n_words = self.network.n_words
        chunks = self._chunks(
            start, stop, lambda rows: self.words(states, rows).log_probs[:, 1:n_words].double().cpu().numpy()
        )
        return np.concatenate(chunks) if chunks else np.zeros((0, n_words - 1))

    def ranked(self, states: ContextStates, targets: Ids, top_k: int) -> AnswerRanks:
        """Rank answers (extended ids, -1: none) among the vocabulary and unknown words that are copied."""
        ids = torch.from_numpy(targets).to(self.device)
        chunks = self._chunks(
            0, len(targets), lambda rows: [x.cpu() for x in self.words(states, rows).ranked(ids[rows], top_k)]
        )
        if not chunks:
            none = np.zeros(0, dtype=np.int64)
            return AnswerRanks(np.zeros(0), none, none, [], [])
        log_prob, counts, top, values = (torch.cat(tensors).numpy() for tensors in zip(*chunks, strict=True))
        return AnswerRanks(
            log_prob.astype(np.float64), counts[:, 0], counts[:, 1], top.tolist(), values.tolist()
        )

    def continuations(
        self, contexts: Sequence[Context], lines: Sequence[Sequence[Context]], pieces: Sequence[Sequence[int]]
    ) -> list[Floats]:
        """Return ln p of continuations of each context: a word and any words after it.

        `pieces` tells how many ids of each continuation are the word's: of these an unknown one has its share
        of ``<unk>``; for the words after it, which are the same whatever the word, all of ``<unk>`` counts.
        """
        several = any(len(line) > 1 for columns in lines for line in columns)
        # whether one pass gives the states for the first words and for the words after them
        once = several and self.network.stateful and not self.network.copies
        hidden = torch.empty(len(contexts) if once else 0, self.network.width, device=self.device)
        rest = [(cell, values.sum()) for cell, values in self._rest(contexts, lines, hidden)]
        states = ContextStates(hidden) if once else self.last(contexts)

        def firsts(rows: slice) -> list[Floats]:
            targets, lengths = self.padded([[line[0] for line in columns] for columns in lines[rows]])
            values = self.words(states, rows).log_prob(targets).double().cpu().numpy()
            return [row[:n].copy() for row, n in zip(values, lengths.tolist(), strict=True)]

        log_probs = [row for chunk in self._chunks(0, len(lines), firsts) for row in chunk]
        for (row, column), value in rest:
            log_probs[row][column] += value
        if states.copies is None and self.share:  # a network that copies counts unknown words itself
            for row, columns in enumerate(lines):
                for column, (line, n) in enumerate(zip(columns, pieces[row], strict=True)):
                    unknown = sum(number >= self.network.n_words for number in line[1:n])
                    log_probs[row][column] -= self.share * unknown
        return log_probs

    def words(self, states: ContextStates, rows: slice) -> WordScores:
        """Return ln p of all words after the contexts, mixed with the words of the passage."""
        batch = rows_of(states, rows)
        log_probs = self.network.output.distribution(batch.hidden).float()
        return word_scores(log_probs, self.share, batch.copies)

    def _rest(
        self, contexts: Sequence[Context], lines: Sequence[Sequence[Context]], hidden: Tensor
    ) -> Iterator[tuple[Place, Floats]]:
        """Yield row and column of each continuation of several words, and ln p of all but its first word.

        `hidden` (n, width) gets what predicts the word after each context; it is empty if that is not needed.
        """
        long = [[column for column, line in enumerate(columns) if len(line) > 1] for columns in lines]
        rows = [row for row, columns in enumerate(long) if columns or len(hidden)]
        window = self.network.window
        if not self.network.stateful:
            cells = [(row, column) for row in rows for column in long[row]]
            texts: list[Context] = [(*contexts[row], *lines[row][column]) for row, column in cells]
            rest = [len(lines[row][column]) for row, column in cells]

            def follow(indices: Sequence[int], batch: Sequence[Context]) -> list[Floats]:
                start = min(len(text) - rest[i] for i, text in zip(indices, batch, strict=True))
                return self._following(batch, start=max(0, start))  # 0 where less than `rest` fits

            # the last word is not read
            for indices, values in self._batches(texts, follow, None if window is None else window + 1):
                for i, value in zip(indices, values, strict=True):
                    yield cells[i], value[1 - rest[i] :]
            return
        texts = [contexts[row] for row in rows]
        for indices, (last, states) in self._batches(texts, lambda _, batch: self._states(batch), window):
            if len(hidden):
                hidden[indices] = last
            after = {rows[i]: state for i, state in zip(indices, states, strict=True)}
            yield from self._after(after, [(row, column) for row in after for column in long[row]], lines)

    def _after(
        self,
        states: dict[int, tuple[Tensor, ...]],
        cells: Sequence[Place],
        lines: Sequence[Sequence[Context]],
    ) -> Iterator[tuple[Place, Floats]]:
        """Yield places of continuations, and ln p of all but their first word, given the states before."""
        for indices, values in self._batches(
            [lines[row][column] for row, column in cells],
            lambda indices, batch: self._following(batch, [states[cells[i][0]] for i in indices]),
            batcher=self._line_batcher,
        ):
            yield from zip([cells[i] for i in indices], values, strict=True)

    def _states(self, contexts: Sequence[Context]) -> tuple[Tensor, list[tuple[Tensor, ...]]]:
        """Return the last states (rows, width) of contexts, and the carried states; the longest comes first.

        All are read up to the end of the shortest; the others go on from there.
        """
        ids, _ = self.padded(contexts)
        lengths = [len(context) for context in contexts]
        states: list[tuple[Tensor, ...]] = [()] * len(contexts)
        last = torch.empty(len(contexts), self.network.width, device=self.device)
        state, start, rows = None, 0, len(contexts)
        for stop in sorted(set(lengths)):
            hidden, after = self.network.remember(ids[:rows, start:stop], state)
            last[:rows], after = hidden, after or ()
            longer = sum(length > stop for length in lengths)
            for row in range(longer, rows):
                states[row] = tuple(tensor[row : row + 1] for tensor in after)
            state, start, rows = tuple(tensor[:longer] for tensor in after), stop, longer
        return last, states

    def _following(
        self, lines: Sequence[Context], states: Sequence[tuple[Tensor, ...]] | None = None, start: int = 0
    ) -> list[Floats]:
        """Return ln p of all but the first `start` + 1 words of each line, given the words before."""
        ids, lengths = self.padded(lines)
        state = None if states is None else tuple(_joined(tensors) for tensors in zip(*states, strict=True))
        values = self.network.following(ids, state, start=start, share=self.share).double().cpu().numpy()
        return [row[: n - 1 - start] for row, n in zip(values, lengths.tolist(), strict=True)]

    def padded(self, rows: Sequence[Context]) -> tuple[Tensor, Tensor]:
        """Return rows of ids as one tensor, padded by 0 at the right, and their lengths, on the device."""
        ids = pad_sequence([torch.tensor(row, dtype=torch.int64) for row in rows], batch_first=True)
        return ids.to(self.device), torch.tensor([len(row) for row in rows], device=self.device)

    def _batches(
        self,
        rows: Sequence[Context],
        work: Callable[[Sequence[int], Sequence[Context]], T],
        window: int | None = None,
        batcher: Batcher | None = None,
    ) -> Iterator[tuple[list[int], T]]:
        """Yield the row indices of batches and the results of `work`; rows are cut to `window` last words."""
        clipped = rows if window is None else [row[-window:] for row in rows]

        def evaluated(indices: Sequence[int]) -> T:
            with evaluating(self.network):
                return work(indices, [clipped[i] for i in indices])

        return (batcher or self._batcher).run([len(row) for row in clipped], evaluated)

    def _chunks(self, start: int, stop: int, work: Callable[[slice], T]) -> list[T]:
        """Return the result of `work` for each chunk of rows, in order."""

        def evaluated(rows: Sequence[int]) -> T:
            with evaluating(self.network):
                return work(slice(start + rows[0], start + rows[-1] + 1))

        return [result for _, result in self._chunker.run([1] * (stop - start), evaluated)]


def rows_of(states: ContextStates, rows: slice) -> ContextStates:
    """Return the states that predict the words after a subset of the contexts."""
    copies = None if states.copies is None else Copies(*(tensor[rows] for tensor in states.copies))
    return ContextStates(states.hidden[rows], copies)


def _joined(tensors: Sequence[Tensor]) -> Tensor:
    """Join tensors along the rows; shorter ones are padded along the second axis, ids by -1."""
    if tensors[0].ndim == 1:
        return torch.cat(list(tensors))
    rows = [row for tensor in tensors for row in tensor]
    return pad_sequence(rows, batch_first=True, padding_value=0 if tensors[0].is_floating_point() else -1)


class NetworkPredictor(Predictor):
    """A model that reads all words before the blank, as ids, and ranks a vocabulary."""

    score_type = "log_prob"
    vocabulary: Sequence[str]
    after: bool  # whether candidates are scored by the words after the blank too
    lower: bool  # whether words are lower-cased
    copies: bool = False  # whether the network copies words of the passage by itself

    @property
    @abstractmethod
    def encoder(self) -> ItemEncoder:
        """Encoder of items as ids."""

    @property
    @abstractmethod
    def unknown_types(self) -> int:
        """Different words outside the vocabulary in the training text."""

    @property
    @abstractmethod
    def network(self) -> LanguageModule:
        """The network on its device, ready for prediction."""

    @property
    def context(self) -> ReadContext:
        """Extent before the blank: as far as the network's window and the encoder reach."""
        reads = self.encoder.reads
        limits = [limit for limit in (self.network.window, reads) if isinstance(limit, int)]
        sentence = reads == SENTENCE
        return ReadContext("before", min(limits, default=None), sentence=sentence, scores_rest=self.after)

    @abstractmethod
    def with_context(self, reads: int | str | None) -> NetworkPredictor:
        """Return this model, its weights shared, as one that reads only so much before a blank."""

    def scorer(self) -> Scorer:
        """Return the scorer: it computes probabilities from ids."""
        return Scorer(self.network, share=self.unknown_share)

    @property
    def unknown_share(self) -> float:
        """Difference of ln p of ``<unk>`` and of one unknown word."""
        return math.log(self.unknown_types) if self.unknown == "shared" else 0.0

    def form(self, word: str) -> str:
        """Return a word as the vocabulary has it."""
        return word.lower() if self.lower else word

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities of words in the blank, if `after` with the words after it.

        That is the part of the target sentence's natural log-probability that depends on the word, shape
        (n, most words), NaN beyond the words of an item. A word of several tokens has the sum of theirs.
        """
        return self._score(items, words, after=self.after)

    def log_prob(self, items: Items) -> Floats:
        """Return the natural log-probability of each answer given the words before it, shape (n,)."""
        answers = items.frame["answer"].tolist()
        scores = self._score(items, [[a] if isinstance(a, str) else [] for a in answers], after=False)
        return scores[:, 0] if scores.shape[1] else np.full(len(items), np.nan)

    def text_scores(
        self, items: Items, *, beginning: Beginning | None = None, window: LongText = "strided"
    ) -> TextScores:
        """Return the log-probabilities of texts after what the network reads of their contexts.

        Without a context a text comes after ``<unk>``.
        """
        del window
        check_beginning(self.name, beginning, "nothing")
        starts = ["context" if before.strip() else "nothing" for before, _ in given_and_text(items)]
        return scores_of_words(items, self.log_prob(items), starts)

    def _score(self, items: Items, words: Sequence[Sequence[str]], *, after: bool) -> Floats:
        contexts, lines, n_pieces = [], [], []
        for row, (item, blank) in enumerate(self.encoder.blanks(items)):
            pieces = [self.encoder.word(item, word, blank) for word in words[row]]
            contexts.append(blank.ids)
            lines.append([(*ids, *(blank.right if after else ())) for ids in pieces])
            n_pieces.append([len(ids) for ids in pieces])
        return pad(self.scorer().continuations(contexts, lines, n_pieces))

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time.

        They sum to 1 with ``<unk>`` and, where the network copies, with the passage's unknown words.
        """
        scorer = self.scorer()
        states = scorer.last([blank.ids for _, blank in self.encoder.blanks(items)])
        for start in range(0, len(items), chunk):
            yield scorer.distribution(states, start, min(start + chunk, len(items)))

    def attend(self, items: Items) -> list[Attention]:
        """Return the network's attention before each blank; DataError if it has none.

        The weights of a pointer are the probability that a word is copied from a place, those of a memory
        network the attention of each hop.
        """
        looks = self._looks(items)
        predictions = self.predict(items, top_k=1)["prediction"].fillna("")
        return [look._replace(prediction=str(word)) for look, word in zip(looks, predictions, strict=True)]

    def _token_attention(self, items: Items) -> list[list[float]]:
        return [look.by_token(item) for item, look in zip(items, self._looks(items), strict=True)]

    def _looks(self, items: Items) -> list[Attention]:
        """Return the network's attention without its predictions."""
        network, looks = self.network, []
        for item, blank in self.encoder.blanks(items):
            ids = blank.ids if network.window is None else blank.ids[-network.window :]
            with evaluating(network):
                attention = network.attention_weights(Scorer(network).padded([ids])[0])
            if attention is None:
                return super().attend(items)
            item_tokens = tokens(item)
            first = item_tokens.target - len(ids)
            read = [] if ids == (0,) else range(first, item_tokens.target)
            visible = [i for i in read if item_tokens.spans[i][0] < item_tokens.spans[i][1]]
            spans = tuple(item_tokens.spans[i] for i in visible)
            weights = attention.weights[0].double().cpu().numpy()
            values = weights[:, [i - first for i in visible]]
            query = spans[-1] if spans and attention.has_query else None
            looks.append(Attention(item.item_id, self.name, attention.names, spans, values, query, ""))
        return looks

    def encode(self, items: Items) -> tuple[list[EncodedBlank], list[tuple[int, ...]]]:
        """Return the blanks of items, and the extended ids of the tokens of each answer, none without one."""
        blanks, answers = [], []
        for (item, blank), answer in zip(self.encoder.blanks(items), items.frame["answer"], strict=True):
            blanks.append(blank)
            answers.append(self.encoder.word(item, answer, blank) if isinstance(answer, str) else ())
        return blanks, answers

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among all words of the vocabulary, exactly.

        Where the network copies words of the passage, its words outside the vocabulary are ranked too,
        and an answer that is one of them counts as known.
        """
        blanks, answers = self.encode(items)
        targets = np.array([ids[0] if len(ids) == 1 else -1 for ids in answers], dtype=np.int64)
        scorer = self.scorer()
        ranks = scorer.ranked(scorer.last([blank.ids for blank in blanks]), targets, top_k)
        several = np.array([len(ids) > 1 for ids in answers], dtype=bool)
        if several.any():
            ranks.log_prob[several] = self.log_prob(items.where(several))
        n_words = self.encoder.n_words
        words = [
            [self.vocabulary[n - 1] if n < n_words else blank.unknown[n - n_words] for n in row]
            for row, blank in zip(ranks.top, blanks, strict=True)
        ]
        return Ranked(ranks.log_prob, ranks.rank, ranks.tied, ranks.rank > 0, words, ranks.top_log_probs)
