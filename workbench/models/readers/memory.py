"""Memory networks: words, windows or sentences of the context as memories, and self-supervision.

Hill et al. (2016), "The Goldilocks Principle", section 3 and appendices A, C and E.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from workbench.models.neural.memory import MemoryModule as MemoryLanguageModule
from workbench.models.neural.network import NONE, AttentionWeights, sizes_of
from workbench.models.readers.embedding import window_ids
from workbench.models.readers.encoding import BLANK, PAD, UNKNOWN
from workbench.models.readers.reader import Ids, Reader, ReaderModule, Scores, any_blank, mask_absent
from workbench.storage.errors import DataError, check_option, check_value

UPDATES, TARGETS = ("paper", "cross-entropy"), ("candidates", "all", "text")
_SPREAD = 0.1  # standard deviation of weights in the beginning
_WIDTHS = {True: 300, False: 100}  # p with self-supervision, and without (appendix A)

Vectors = Float[Tensor, "memories width"]


class Memories(NamedTuple):
    """Memories of a batch of questions, concatenated."""

    row: Int[Tensor, " memories"]  # the question of each
    slot: Int[Tensor, " memories"]  # which one of that question it is
    begin: Int[Tensor, " memories"]  # its first token
    end: Int[Tensor, " memories"]  # the token after its last

    def padded(self, values: Tensor, rows: int, empty: float) -> Tensor:
        """Return values of the memories as (rows, most of a row), `empty` where a row has no more."""
        n_slots = int(self.slot.max()) + 1 if len(self.slot) else 1
        return values.new_full((rows, n_slots), empty).index_put((self.row, self.slot), values)

    def shares(self, scores: Float[Tensor, " memories"], rows: int) -> Float[Tensor, " memories"]:
        """Return the softmax of scores over the memories of each question."""
        return self.padded(scores, rows, -torch.inf).softmax(1)[self.row, self.slot]

    def times(self, rows: int) -> Float[Tensor, " memories"]:
        """Return the relative position of each memory in its question: from above 0 to 1, the last one."""
        return (self.slot + 1) / torch.bincount(self.row, minlength=rows)[self.row]


def memories_at(mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return row, number in its row, and column of each place that a mask (rows, time) has."""
    row, column = mask.nonzero(as_tuple=True)
    first = torch.searchsorted(row, torch.arange(len(mask), device=mask.device))
    return row, torch.arange(len(row), device=mask.device) - first[row], column


class Dictionary(nn.EmbeddingBag):
    """The sum of the vectors of words; with several positions, each has its own vectors.

    Gradients are sparse: a batch changes the vectors of its words only.
    """

    def __init__(self, n_ids: int, width: int, *, positions: int = 1) -> None:
        super().__init__(n_ids * positions, width, mode="sum", padding_idx=PAD, sparse=True)
        self.n_ids, self.positions = n_ids, positions
        nn.init.normal_(self.weight, std=_SPREAD)
        with torch.no_grad():
            self.weight[PAD] = 0

    def summed(self, ids: Int[Tensor, "n size"]) -> Float[Tensor, "n width"]:
        """Return the sum of the vectors of the words of each row; `PAD` adds nothing."""
        if self.positions > 1:
            offsets = self.n_ids * torch.arange(self.positions, device=ids.device)
            ids = torch.where(ids == PAD, PAD, ids + offsets)
        result: Tensor = self(ids)
        return result


class SoftMemoryModule(ReaderModule):
    """Read memories with soft attention in several hops, and score all words (section 3.2).

    With the embeddings ``c[i]`` (by A) and ``m[i]`` (by B) of the memories, and ``q`` of the query (by A),
    K times::

        a[i] = softmax over i of c[i] . q + w t[i]
        q    = H q + sum of a[i] m[i]

    and then the scores of words are ``U q``. All hops have the same A, B and H, which begins as the identity.
    t[i] is 1 for the last memory, 1/n for the first of n, and `time` its weight w. The loss is -ln p of the
    answer among all words.
    """

    def __init__(self, n_ids: int, *, width: int, hops: int, time: float, tied: bool) -> None:
        super().__init__()
        check_value("hops", hops, hops >= 1, "1 or more")
        self.n_ids, self.width, self.hops, self.time, self.tied = n_ids, width, hops, time, tied

    def _make(self, *, positions: int = 1) -> None:
        """Make the matrices: A, B, H and U."""
        self.keys = Dictionary(self.n_ids, self.width, positions=positions)
        self.values = Dictionary(self.n_ids, self.width, positions=positions)
        self.turn = nn.Parameter(torch.eye(self.width))
        centre = positions // 2 * self.n_ids  # tied to A: its vectors of the position in the middle
        self.words = slice(centre, centre + self.n_ids)
        if not self.tied:
            self.outputs = nn.Parameter(_SPREAD * torch.randn(self.n_ids, self.width))

    @property
    def output_weights(self) -> Tensor:
        """U, (ids, width)."""
        return self.keys.weight[self.words] if self.tied else self.outputs

    def memories(self, batch: Mapping[str, Tensor]) -> tuple[Memories, Any]:
        """Return the memories of a batch, and their content to embed."""
        raise NotImplementedError

    def embedded(self, dictionary: Dictionary, content: Any) -> Vectors:
        """Return the embeddings of memories."""
        raise NotImplementedError

    def query(self, batch: Mapping[str, Tensor]) -> Float[Tensor, "rows width"]:
        """Return the embeddings of the queries."""
        raise NotImplementedError

    def read(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Memories, list[Tensor]]:
        """Return the queries after the last hop, the memories, and their shares in each hop."""
        query, (memories, content) = self.query(batch), self.memories(batch)
        keys, values = self.embedded(self.keys, content), self.embedded(self.values, content)
        times, shares = self.time * memories.times(len(query)), []
        for _ in range(self.hops):
            shares.append(memories.shares((keys * query[memories.row]).sum(1) + times, len(query)))
            query = (query @ self.turn).index_add(0, memories.row, shares[-1][:, None] * values)
        return query, memories, shares

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return the scores of the candidates."""
        query, _, _ = self.read(batch)
        return mask_absent(torch.einsum("rw,rcw->rc", query, self.output_weights[batch["candidates"]]), batch)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return -ln p of the answer among all words."""
        return word_loss(self.read(batch)[0] @ self.output_weights.T, batch)

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights:
        """Return the shares of the memories in each hop."""
        _, memories, shares = self.read(batch)
        return _attention_to_memories(memories, shares, len(batch["query"]))


def word_loss(logits: Float[Tensor, "rows ids"], batch: Mapping[str, Tensor]) -> Float[Tensor, " rows"]:
    """Return -ln p of the answers among all words; neither padding nor blank is one."""
    answers = batch["candidates"].gather(1, batch["answer"][:, None])[:, 0]
    logits = torch.cat([logits[:, :UNKNOWN].detach() - torch.inf, logits[:, UNKNOWN:]], 1)
    return functional.cross_entropy(logits, answers, reduction="none")


def _attention_to_memories(memories: Memories, shares: list[Tensor], rows: int) -> AttentionWeights:
    """Return shares of memories as they are drawn, a row of weights for each hop."""
    begin, end = (memories.padded(values, rows, 0) for values in (memories.begin, memories.end))
    weights = torch.stack([memories.padded(values.float(), rows, 0.0) for values in shares], 1)
    return AttentionWeights(tuple(f"hop {hop}" for hop in range(1, len(shares) + 1)), weights, begin, end)


class WindowMemoryModule(SoftMemoryModule):
    """Memories are the windows around mentions of the candidates, the query is that around the blank.

    Parameters
    ----------
    n_ids : int
    window : int
        b, words of a window: odd.
    positions : bool
        Whether each position of the window has a dictionary of its own; else a window is a bag of words.
    width : int, optional
        p; by default 300 with self-supervision, else 100.
    hops : int
        K.
    time : float
        Weight of the time of a memory, 0 for none; the paper's is not stated.
    tied : bool
        Whether U has the weights of A, those of the position in the middle.
    self_supervised : bool
        Whether the attention is learnt by self-supervision (section 3.3): the supporting memory is the one
        with the best score among the windows of the answer. The network is then A alone; a candidate's score
        is the sum of the shares of its windows.
    update : {"paper", "cross-entropy"}
        How self-supervision learns. The loss is -ln of the supporting memory's share among itself and the
        windows of all other candidates. The paper updates only where the best of all windows is not the
        supporting memory: the loss of other questions is 0, and so is their gradient. It does not state its
        loss; the difference of the two scores generalised worse. "cross-entropy" is of every question.
    soft_weighting : bool
        Whether the shares of a candidate's windows are summed when it is tested (the paper), or the best one
        counts alone.
    windows : {"candidates", "all"}
        "all" compares the supporting memory with the windows around all words of the context (appendix E).
    targets : {"candidates", "all", "text"}
        With "all", what is read from the supporting memory also predicts the answer among all words
        (appendix E): -ln of its probability is added to the loss. "text" trains a language model (appendix
        E, "LM"; it needs all windows): in each step another word of the query is the blank, drawn at random.
    """

    def __init__(
        self,
        n_ids: int,
        *,
        window: int = 5,
        positions: bool = True,
        width: int | None = None,
        hops: int = 1,
        time: float = 1.0,
        tied: bool = False,
        self_supervised: bool = False,
        update: str = "paper",
        soft_weighting: bool = True,
        windows: str = "candidates",
        targets: str = "candidates",
    ) -> None:
        check_option("update", update, UPDATES)
        check_option("windows", windows, ("candidates", "all"))
        check_option("targets", targets, TARGETS)
        if targets == "text" and (windows != "all" or not self_supervised):
            raise DataError(
                "targets='text' needs all windows", hint="pass windows='all', self_supervised=True"
            )
        check_value("window", window, window > 0 and window % 2 == 1, "an odd number of words")
        width = _WIDTHS[self_supervised] if width is None else width
        super().__init__(n_ids, width=width, hops=hops, time=time, tied=tied)
        self.window = self.around = window
        self.self_supervised, self.update, self.soft_weighting = self_supervised, update, soft_weighting
        self.all_windows, self.all_targets = windows == "all", targets != "candidates"
        self.of_text = targets == "text"
        number = window if positions else 1
        if self_supervised and not self.all_targets:
            self.keys = Dictionary(n_ids, width, positions=number)
        else:
            self._make(positions=number)

    def query(self, batch: Mapping[str, Tensor]) -> Float[Tensor, "rows width"]:
        """Return the embeddings of the windows around the blanks."""
        return self.keys.summed(window_ids(batch["query"], batch["blank"][:, None], self.window)[:, 0])

    def memories(self, batch: Mapping[str, Tensor], *, every: bool = False) -> tuple[Memories, Tensor]:
        """Return the windows of the context as memories, and their words (M, window)."""
        context, half = batch["context"], self.window // 2
        row, slot, column = memories_at((context if every else batch["slots"]) > 0)
        ids = functional.pad(context, (half, half), value=PAD)
        ids = ids[row[:, None], column[:, None] + torch.arange(self.window, device=context.device)]
        end = torch.minimum(column + half + 1, (context != PAD).sum(1)[row])
        return Memories(row, slot, (column - half).clamp_min(0), end), ids

    def embedded(self, dictionary: Dictionary, content: Tensor) -> Vectors:
        """Return the embeddings of windows."""
        return dictionary.summed(content)

    def _slots(self, batch: Mapping[str, Tensor], *, every: bool) -> Tensor:
        """Return the candidate of each window, 1-based, 0 for none, (M,)."""
        return batch["slots"][(batch["context"] if every else batch["slots"]) > 0]

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return the scores of the candidates: with self-supervision the shares of their windows."""
        if not self.self_supervised:
            return super().scores(batch)
        rows, n_candidates = batch["candidates"].shape
        memories, shares = self._shares(batch)
        index = memories.row * n_candidates + self._slots(batch, every=False) - 1
        how = "sum" if self.soft_weighting else "amax"
        scores = shares.new_zeros(rows * n_candidates).scatter_reduce(0, index, shares, how)
        return mask_absent(scores.view(rows, n_candidates), batch)

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights:
        """Return the shares of the windows in each hop."""
        if not self.self_supervised:
            return super().attention_weights(batch)
        memories, shares = self._shares(batch)
        return _attention_to_memories(memories, [shares], len(batch["query"]))

    def _shares(self, batch: Mapping[str, Tensor]) -> tuple[Memories, Tensor]:
        """Return the windows, and their shares by their product with the query."""
        memories, ids = self.memories(batch)
        match = self._match(memories, ids, batch).double()
        return memories, memories.shares(match, len(batch["query"]))

    def _match(self, memories: Memories, ids: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the scores of windows: the product with the query, and their time."""
        query = self.query(batch)
        products = (self.keys.summed(ids) * query[memories.row]).sum(1)
        return products + self.time * memories.times(len(query))

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of each question."""
        if not self.self_supervised:
            return super().loss(batch)
        return self._supervised_loss(any_blank(batch) if self.of_text else batch)

    def _supervised_loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the loss of self-supervision: 0 where the context has no window of the answer."""
        with torch.set_grad_enabled(self.update != "paper"):
            match, right, windows = self._compared(batch)
        best, supporting = match.masked_fill(~right, -torch.inf).max(1)
        wrong = match.masked_fill(right, -torch.inf)
        learnt = best.isfinite()
        if self.update == "paper":
            learnt &= wrong.amax(1) >= best
            match, right, _ = self._compared({name: values[learnt] for name, values in batch.items()})
            wrong = match.masked_fill(right, -torch.inf)
            losses = torch.cat([match.gather(1, supporting[learnt, None]), wrong], 1)
        else:
            losses = torch.cat([best[:, None], wrong], 1)[learnt]
        losses = losses.logsumexp(1) - losses[:, 0]
        loss = losses.new_zeros(len(learnt)).masked_scatter(learnt, losses)
        if not self.all_targets:
            return loss
        read = self.values.summed(
            windows.gather(1, supporting[:, None, None].expand(-1, 1, self.window))[:, 0]
        )
        query = self.query(batch) @ self.turn + read * best.isfinite()[:, None]
        return loss + word_loss(query @ self.output_weights.T, batch)

    def _compared(self, batch: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return of the windows of each question: their scores, whether they are the answer's, their words.

        (rows, most), (rows, most), (rows, most, window); -inf, False and `PAD` where a row has no more.
        """
        rows = len(batch["answer"])
        memories, ids = self.memories(batch, every=self.all_windows)
        match = memories.padded(self._match(memories, ids, batch), rows, -torch.inf)
        answered = self._slots(batch, every=self.all_windows) == batch["answer"][memories.row] + 1
        words = torch.stack([memories.padded(column, rows, PAD) for column in ids.T], 2)
        return match, memories.padded(answered, rows, 0), words


class SententialMemoryModule(SoftMemoryModule):
    """Memories are the sentences of the context, the query is the target sentence.

    Sentences are embedded with position encoding (Sukhbaatar et al. 2015, section 4.1): the vector of word j
    of J is multiplied by ``(1 - j/J) - (k/p)(1 - 2j/J)`` in its dimension k of p.

    Parameters
    ----------
    n_ids : int
    width : int
        p.
    hops : int
        K.
    time : float
        Weight of the time of a memory, 0 for none.
    tied : bool
        Whether U has the weights of A.
    positions : bool
        Whether there is position encoding; else a sentence is a bag of words.
    """

    def __init__(
        self,
        n_ids: int,
        *,
        width: int = 100,
        hops: int = 1,
        time: float = 0.0,
        tied: bool = False,
        positions: bool = True,
    ) -> None:
        super().__init__(n_ids, width=width, hops=hops, time=time, tied=tied)
        self.positions = positions
        self._make()

    def query(self, batch: Mapping[str, Tensor]) -> Float[Tensor, "rows width"]:
        """Return the embeddings of the target sentences."""
        row, column = (batch["query"] != PAD).nonzero(as_tuple=True)
        lengths = torch.bincount(row, minlength=len(batch["query"]))
        fraction = (column + 1) / lengths[row]
        return self.embedded(self.keys, (batch["query"][row, column], fraction, lengths))

    def memories(self, batch: Mapping[str, Tensor]) -> tuple[Memories, Any]:
        """Return the sentences of the context as memories."""
        context = batch["context"]
        row, column = (context != PAD).nonzero(as_tuple=True)
        sentence = batch["sentences"][row, column]
        n = int(batch["sentences"].max()) + 1
        lengths = torch.bincount(row * n + sentence, minlength=len(context) * n).view(-1, n)
        rows, slots, _ = memories_at(lengths > 0)
        end = lengths.cumsum(1)
        begin = (end - lengths)[rows, slots]
        number = torch.searchsorted(rows * n + slots, row * n + sentence)
        sizes = lengths[rows, slots]
        fraction = (column + 1 - begin[number]) / sizes[number]
        return Memories(rows, slots, begin, end[rows, slots]), (context[row, column], fraction, sizes)

    def embedded(self, dictionary: Dictionary, content: Any) -> Vectors:
        """Return the embeddings of sentences, from all words, their j/J, and the sentences' lengths."""
        ids, fraction, lengths = content
        offsets = lengths.cumsum(0) - lengths
        plain: Tensor = dictionary(ids, offsets)
        if not self.positions:
            return plain
        ramp: Tensor = dictionary(ids, offsets, per_sample_weights=fraction.to(plain.dtype))
        share = torch.arange(1, self.width + 1, device=ids.device, dtype=plain.dtype) / self.width  # k/p
        return (1 - share) * plain + (2 * share - 1) * ramp


class LexicalMemoryModule(ReaderModule):
    """Memories are the last words before the blank, in the context and the query.

    It is the memory network of Sukhbaatar et al. (2015, section 5) as a language model
    (:class:`workbench.models.neural.memory.MemoryModule`): each memory has a vector of its age, the query is
    0.1 in all units, and half of the units are cut off at 0 after each hop. A candidate's score is ln p of it
    and of the words after the blank. The loss is the mean of -ln p of the answer and of these words; the
    paper does not say what its network learns to predict them from.

    Parameters
    ----------
    n_ids : int
    memory : int
        n, words that it remembers.
    width : int
        p.
    hops : int
        K.
    rectified : float
        Share of the units that is cut off at 0 after each hop.
    tied : bool
        Whether U has the weights of A.
    """

    def __init__(
        self,
        n_ids: int,
        *,
        memory: int = 200,
        width: int = 200,
        hops: int = 7,
        rectified: float = 0.5,
        tied: bool = False,
    ) -> None:
        super().__init__()
        self.model = MemoryLanguageModule(
            [1] * n_ids, memory=memory, width=width, hops=hops, rectified=rectified, tied=tied, softmax="full"
        )
        self.model.values.sparse = True
        self.model.keys.sparse = not tied
        self.memory = memory

    def _before(self, batch: Mapping[str, Tensor]) -> Ids:
        """Return the words before the blank, (rows, memory): `NONE` before a text, `BLANK` if it begins."""
        context, query = batch["context"], batch["query"]
        lengths = (context != PAD).sum(1, keepdim=True)
        ages = torch.arange(-self.memory, 0, device=query.device)
        position = lengths + batch["blank"][:, None] + ages  # in the text
        of_context = functional.pad(context, (0, 1)).gather(1, position.clamp(0, context.shape[1]))
        of_query = query.gather(1, (position - lengths).clamp(0, query.shape[1] - 1))
        words = torch.where(position < lengths, of_context, of_query).masked_fill(position < 0, NONE)
        return torch.cat([words[:, :-1], words[:, -1:].clamp_min(BLANK)], 1)

    def _log_probs(self, batch: Mapping[str, Tensor], before: Ids, words: Int[Tensor, " rows"]) -> Tensor:
        """Return ln p of words in the blank and of those after it, (rows, time), 0 for padding."""
        query, blank = batch["query"], batch["blank"][:, None]
        time = int((query.shape[1] - blank).max())
        position = blank + torch.arange(time, device=query.device)
        after = functional.pad(query, (0, 1)).gather(1, position.clamp_max(query.shape[1]))
        targets = torch.where(position == blank, words[:, None], after)
        mask = targets != PAD
        states = self.model.read(torch.cat([before, targets[:, :-1].masked_fill(~mask[:, :-1], UNKNOWN)], 1))
        values = self.model.output.log_prob(states[mask], targets[mask])
        return values.new_zeros(mask.shape).masked_scatter(mask, values)

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return ln p of each candidate and of the words after it."""
        before = self._before(batch)
        columns = [self._log_probs(batch, before, words).sum(1) for words in batch["candidates"].T]
        return mask_absent(torch.stack(columns, 1), batch)

    def loss(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the mean of -ln p of the answer and of the words after it."""
        answers = batch["candidates"].gather(1, batch["answer"][:, None])[:, 0]
        values = self._log_probs(batch, self._before(batch), answers)
        return -values.sum(1) / (values != 0).sum(1).clamp_min(1)

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights:
        """Return the shares of the words before the blank in each hop."""
        before = self._before(batch)
        absent = before == NONE
        position = (batch["context"] != PAD).sum(1, keepdim=True) + batch["blank"][:, None]
        begin = position + torch.arange(-self.memory, 0, device=before.device)
        begin = begin.masked_fill(absent, 0)
        names, weights, *_ = self.model.attention_weights(before)
        return AttentionWeights(names, weights, begin, torch.where(absent, 0, begin + 1))


class LexicalMemory(Reader):
    """A memory network with single words as memories; made by `fit` (sizes: `LexicalMemoryModule`)."""

    version = 1
    title = "Lexical memory"
    systems: ClassVar[dict[str, str]] = {"cbt": "MEMNNS (LEXICAL MEMORY)"}
    module = LexicalMemoryModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(LexicalMemoryModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 3e-3, "rows": 32}


class SententialMemory(Reader):
    """A memory network with sentences as memories; made by `fit` (sizes: `SententialMemoryModule`)."""

    version = 1
    title = "Sentential memory"
    module = SententialMemoryModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(SententialMemoryModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 1e-3, "rows": 64}

    @classmethod
    def _systems(cls, sizes: Mapping[str, Any]) -> dict[str, str]:
        return {"cbt": "MEMNNS (SENTENTIAL MEMORY + PE)"} if sizes["positions"] else {}


_BOTH = ("cbt", "cnnqa")
_PUBLISHED: dict[tuple[Any, ...], tuple[tuple[str, ...], str]] = {
    ("candidates", "candidates", False, True, True): (_BOTH, "MEMNNS (WINDOW MEMORY)"),
    ("candidates", "candidates", True, True, True): (_BOTH, "MEMNNS (WINDOW MEMORY + SELF-SUP.)"),
    ("all", "candidates", True, True, True): (("cbt",), "MEMNNS (ALL WINDOWS + SELF-SUP.)"),
    ("all", "all", True, True, True): (("cbt",), "MEMNNS (ALL WINDOWS + ALL TARGETS + SELF-SUP.)"),
    ("all", "text", True, True, True): (("cbt",), "MEMNNS (LM + SELF-SUP.)"),
    ("candidates", "candidates", True, False, True): (("cnnqa",), "MEMNNS (WINDOW MEM. + SELF-SUP.) -TIME"),
    ("candidates", "candidates", True, True, False): (
        ("cnnqa",),
        "MEMNNS (WINDOW MEM. + SELF-SUP.) -SOFT MEMORY WEIGHTING",
    ),
    ("candidates", "candidates", True, False, False): (
        ("cnnqa",),
        "MEMNNS (WINDOW MEM. + SELF-SUP.) -TIME -SOFT MEMORY WEIGHTING",
    ),
}
"""Data sets and row of the paper's tables by windows, targets, and whether a model has self-supervision, time
and soft weighting."""


class WindowMemory(Reader):
    """A memory network with windows around the candidates' mentions as memories.

    Made by `fit`, which takes the sizes of `WindowMemoryModule`: ``self_supervised=True`` is the
    paper's best model.

    Examples
    --------
    >>> from workbench.models import WindowMemory
    >>> questions = wb.load("sample", variant="cbt")
    >>> model = WindowMemory.fit(questions, self_supervised=True, width=8, epochs=1)
    >>> len(model.predict(questions)) == len(questions)
    True
    """

    version = 1
    title = "Window memory"
    module = WindowMemoryModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(WindowMemoryModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 3e-3, "rows": 64}

    @classmethod
    def _label(cls, sizes: Mapping[str, Any]) -> str:
        name = f"{cls.title} + self-supervision" if sizes["self_supervised"] else cls.title
        name += "".join(
            f", {sizes[size]} {size}" for size in ("windows", "targets") if sizes[size] != "candidates"
        )
        without = ["time"] * (not sizes["time"]) + ["soft weighting"] * (not sizes["soft_weighting"])
        return f"{name}, without {' and '.join(without)}" if without else name

    @classmethod
    def _systems(cls, sizes: Mapping[str, Any]) -> dict[str, str]:
        switches = (bool(sizes[name]) for name in ("self_supervised", "time", "soft_weighting"))
        datasets, row = _PUBLISHED.get((sizes["windows"], sizes["targets"], *switches), ((), ""))
        return dict.fromkeys(datasets, row)
