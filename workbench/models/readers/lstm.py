"""LSTMs of the Children's Book Test: language models that rank a candidate by the sentence with it in place.

Hill et al. (2016), "The Goldilocks Principle", section 4.4 and appendix A. `QueryLSTM` is trained on running
text, `ContextualLSTM` on questions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from workbench.items.items import Items
from workbench.models.neural.network import AttentionWeights, sizes_of
from workbench.models.neural.recurrent import LSTM, RecurrentModule
from workbench.models.readers.encoding import PAD, UNKNOWN
from workbench.models.readers.reader import Ids, Reader, ReaderModule, Scores, mask_absent
from workbench.storage.errors import check_option
from workbench.texts.corpus import Texts

READS = {"query": "sentence", "context+query": None}
"""What is read before the blank, and what language models call it."""

_SYSTEMS: dict[object, str] = {reads: f"LSTMS ({name.upper()})" for name, reads in READS.items()}

_ALIKE = 5.0  # logit of a word of the context that is among the last words of the query, before training

Vectors = Float[Tensor, "rows time width"]


class QueryLSTM(LSTM):
    """An LSTM language model that ranks candidates by the probability of the query with each in the blank.

    It is trained on running text in its own case, as the paper's LSTMs were; the optimiser is AdamW, the
    paper's SGD. `fit` takes the options of :class:`LSTM`.

    Notes
    -----
    Scores leave out p(q1 ... qk-1), which is the same for all candidates. Words outside the vocabulary share
    one probability, so candidates among them tie. What stands before the blank is
    read once, and what follows it once per candidate. `with_context` gives the other reading of the same
    weights: "sentence" is the query alone, None the context and the query.

    Examples
    --------
    >>> from workbench.models import QueryLSTM
    >>> model = QueryLSTM.fit(wb.books("sample"), reads="query", width=16, tokens=2000)
    >>> model.name
    'LSTM 16, sentence alone'
    """

    version = 1

    @property
    def systems(self) -> dict[str, str]:  # type: ignore[override]
        """The row of the paper's table that the model reproduces, by the text that it reads."""
        row = _SYSTEMS.get(self.reads)
        return {} if row is None else {"cbt": row}

    @classmethod
    def fit(  # type: ignore[override] # its further options are passed on
        cls, texts: Texts, *, reads: str = "context+query", lower: bool = False, **options: Any
    ) -> Self:
        """Train a network, or find the one that was trained of the same texts and options.

        Parameters
        ----------
        texts : as for `LSTM.fit`
        reads : {"context+query", "query"}
            Whether it reads the context before the query. Both have the same training.
        lower : bool, default False
            Lower-case the texts, and the items.
        **options
            Those of `LSTM.fit`.
        """
        check_option("reads", reads, tuple(READS))
        return super().fit(texts, lower=lower, **options).with_context(READS[reads])


class _Memory(NamedTuple):
    """The context as attention reads it; vectors of padding are 0."""

    words: Vectors
    windows: Vectors  # the mean of the words around each


class ContextualModule(ReaderModule):
    """An LSTM language model of the query that attends to windows of the context at each word.

    The attention is that of Rush et al. (2015, section 3.2, "attention-based encoder"): the last `window`
    words of the query ask, the words of the context answer, and what is read are the means of the `window`
    words around them. It is added to the input and to the output of the LSTM, as Mikolov and Zweig (2012)
    do with a topic. All words share their vectors, those of the softmax included.

    The loss of a question is the mean of -ln p of the query's words, the answer among them. A candidate is
    scored by ln p of it and of the words after it. The paper does not state how the parts are joined.

    Parameters
    ----------
    n_ids : int
    width : int
        Units of the LSTM, and size of the words' vectors.
    window : int
        Words of a window: odd.
    """

    def __init__(self, n_ids: int, *, width: int = 256, window: int = 5) -> None:
        super().__init__()
        self.width, self.window = width, window
        n_words = n_ids - UNKNOWN  # class 0 is UNKNOWN; the words are ordered by frequency
        self.language = RecurrentModule([0, *(n_words // rank for rank in range(1, n_words))], width=width)
        self.ask = nn.Conv1d(width, width, window)
        with torch.no_grad():  # at the beginning it looks at words that have just been read
            self.ask.weight += _ALIKE * width**-0.5 * torch.eye(width)[..., None]
        self.to_input = nn.Linear(width, width, bias=False)
        self.to_output = nn.Linear(width, width, bias=False)

    def embedded(self, ids: Ids) -> Vectors:
        """Return the vectors of words, 0 for padding and the blank."""
        vectors: Tensor = self.language.embedding((ids - UNKNOWN).clamp_min(0)) * self.width**0.5
        return vectors * (ids >= UNKNOWN)[..., None]

    def memory(self, batch: Mapping[str, Tensor]) -> _Memory:
        """Return the context as attention reads it."""
        words = self.embedded(batch["context"])
        half = self.window // 2
        means = functional.avg_pool1d(words.transpose(1, 2), self.window, stride=1, padding=half)
        return _Memory(words, means.transpose(1, 2))

    def attended(
        self, ids: Ids, memory: _Memory, context: Ids
    ) -> tuple[Vectors, Vectors, Float[Tensor, "rows time context"]]:
        """Return the inputs of the LSTM, the vector read from the context, and the weights of its words.

        `ids` (rows, window - 1 + time) has `window` - 1 words before the first input. There may be several
        rows in a row for each context.
        """
        words = self.embedded(ids)
        asking = self.ask(words.transpose(1, 2)).transpose(1, 2)  # (rows, time, width)
        grouped = asking.reshape(len(context), -1, self.width)
        match = grouped @ memory.words.transpose(1, 2) * self.width**-0.5  # (contexts, rows * time, context)
        match = match.masked_fill((context == PAD)[:, None], torch.finfo(match.dtype).min)
        weights = match.softmax(-1)
        read = (weights @ memory.windows).view(asking.shape)
        inputs = words[:, self.window - 1 :] + self.to_input(read)
        return inputs, read, weights.view(*asking.shape[:2], -1)

    def run(self, inputs: Any, state: tuple[Tensor, Tensor] | None = None) -> Any:
        """Return the output of the LSTM, and its state at the end."""
        with torch.autocast(self.ask.weight.device.type, enabled=False):  # as `RecurrentModule` has it
            return self.language.layers(inputs, state)

    def log_prob(self, hidden: Vectors, read: Vectors, targets: Ids) -> Float[Tensor, "rows time"]:
        """Return ln p of words, 0 for padding."""
        real = targets != PAD
        states = (hidden + self.to_output(read))[real]
        values = self.language.output.log_prob(states, targets[real] - UNKNOWN)
        return torch.zeros(targets.shape, device=values.device).masked_scatter(real, values.float())

    def loss(self, batch: Mapping[str, Tensor]) -> Float[Tensor, " rows"]:
        """Return the mean of -ln p of the words of each query."""
        answers = batch["candidates"].gather(1, batch["answer"][:, None])
        query = batch["query"].scatter(1, batch["blank"][:, None], answers)
        before = functional.pad(query[:, :-1], (self.window, 0), value=PAD)
        inputs, read, _ = self.attended(before, self.memory(batch), batch["context"])
        log_probs = self.log_prob(self.run(inputs)[0], read, query)
        return -log_probs.sum(1) / (query != PAD).sum(1)

    def before(
        self, batch: Mapping[str, Tensor], memory: _Memory
    ) -> tuple[Vectors, Vectors, tuple[Tensor, Tensor], Float[Tensor, "rows context"]]:
        """Read each query up to its blank.

        Return output and what is read (rows, 1, width), the state, and the context's words' weights.
        """
        blank = batch["blank"]
        ids = functional.pad(batch["query"][:, : int(blank.max())], (self.window, 0), value=PAD)
        inputs, read, weights = self.attended(ids, memory, batch["context"])
        lengths = (blank + 1).cpu()  # a vector of zeros stands before the first word
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        _, (h, c) = self.run(packed)
        row = torch.arange(len(blank), device=blank.device)
        return h.transpose(0, 1), read[row, blank, None], (h, c), weights[row, blank]

    def scores(self, batch: Mapping[str, Tensor]) -> Scores:
        """Return ln p of each candidate and of the words after it, given the words before.

        The words before are read once, the candidates and the words after them as one batch.
        """
        query, blank, candidates = batch["query"], batch["blank"], batch["candidates"]
        rows, n = candidates.shape
        memory = self.memory(batch)
        hidden, read, state, _ = self.before(batch, memory)
        first = self.log_prob(hidden.expand(-1, n, -1), read.expand(-1, n, -1), candidates)
        padded = functional.pad(query, (self.window, query.shape[1]), value=PAD)
        left_positions = blank[:, None] + torch.arange(1, self.window, device=blank.device)  # in `padded`
        n_after = int((query != PAD).sum(1).sub(blank + 1).max())
        right_positions = blank[:, None] + self.window + 1 + torch.arange(n_after, device=blank.device)
        if n_after == 0:
            return mask_absent(first, batch)
        after = padded.gather(1, right_positions)
        segments = [padded.gather(1, left_positions), after[:, :-1]]
        lead, rest = (segment[:, None].expand(-1, n, -1) for segment in segments)
        lines = torch.cat([lead, candidates[..., None], rest], -1).flatten(0, 1)
        inputs, read, _ = self.attended(lines, memory, batch["context"])
        output, _ = self.run(inputs, tuple(tensor.repeat_interleave(n, 1) for tensor in state))  # type: ignore[arg-type]
        log_probs = self.log_prob(output, read, after.repeat_interleave(n, 0))
        return mask_absent(first + log_probs.sum(1).view(rows, n), batch)

    def attention_weights(self, batch: Mapping[str, Tensor]) -> AttentionWeights:
        """Return the weights of the windows of the context when the word in the blank is predicted."""
        context = batch["context"]
        *_, weights = self.before(batch, self.memory(batch))
        position, half = torch.arange(context.shape[1], device=context.device), self.window // 2
        length = (context != PAD).sum(1, keepdim=True)
        begin = (position - half).clamp_min(0).expand_as(context)
        end = torch.minimum(position + half + 1, length)
        real = position < length
        return AttentionWeights(("blank",), (weights * real)[:, None], begin * real, end * real)


class ContextualLSTM(Reader):
    """An LSTM that reads the query word by word, and attends to windows of the context; made by `fit`.

    It learns to predict all words of the queries of questions. The paper trained it on running text, which
    "proved much more effective" there. The text keeps its case by default; the optimiser is AdamW, the
    paper's SGD.
    Words outside the vocabulary share one probability, so candidates among them tie.

    Notes
    -----
    A training can miss what the context tells: on a rule that needs attention (eight words of 32 units) one
    of six seeds stayed near chance, the others answered all questions. Compare several seeds.
    """

    version = 1
    title = "Contextual LSTM"
    systems: ClassVar[dict[str, str]] = {"cbt": "CONTEXTUAL LSTMS (WINDOW CONTEXT)"}
    module = ContextualModule
    sizes: ClassVar[dict[str, Any]] = sizes_of(ContextualModule)
    fit_defaults: ClassVar[dict[str, Any]] = {"learning_rate": 2e-3}

    @classmethod
    def fit(cls, questions: Items, *, lower: bool = False, **options: Any) -> Self:
        """Train a network as :meth:`Reader.fit` does, with its options; words are as written by default."""
        return super().fit(questions, lower=lower, **options)
