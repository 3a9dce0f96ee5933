"""Sup-CBOW: the sum of a passage's CBOW vectors, and a small network that predicts the word it lacks.

The baseline of Paperno et al. (2016, section 4) that was "weakly tailored to the task at hand", trained on
about nine million passages of LAMBADA's shape. Its layers and their sizes are not published; these are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.item_words import ReadContext
from workbench.models.neural.model import Neural
from workbench.models.neural.network import (
    ContextStates,
    EncodedBlank,
    ItemEncoder,
    LanguageModule,
    Lengths,
    States,
    TextState,
    WordIds,
    class_ids,
    sizes_of,
)
from workbench.models.neural.softmax import softmax as softmax_layer
from workbench.models.vectors import CBOW, Matrix
from workbench.storage import cache
from workbench.storage.errors import DataError
from workbench.texts.batches import EncodedText, PassageBatches
from workbench.texts.corpus import Corpus, Texts

_initial: ContextVar[Matrix | None] = ContextVar("_initial", default=None)  # vectors of new networks


class BagOfWordsModule(LanguageModule):
    """Predict a word from the sum of the vectors of a passage's words; their order is ignored.

    The sum is normed (Ba et al. 2016, *Layer normalization*), as long passages have long sums, and goes
    through layers of rectified linear units. A word outside the vocabulary has no vector: it adds nothing.

    Trained on passages (:class:`workbench.texts.batches.PassageBatches`), it predicts the target of each. As
    a language model it predicts each word from the sum of all words before it.

    The words' vectors are zeros until `set_vectors` is called.
    """

    def __init__(
        self,
        counts: Sequence[int],
        *,
        dimensions: int = 200,
        hidden: int = 512,
        layers: int = 1,
        dropout: float = 0.2,
        tuned: bool = False,
        softmax: str = "adaptive",
    ) -> None:
        super().__init__()
        self.n_words, self.width = len(counts), hidden
        self.embedding = nn.EmbeddingBag(self.n_words, dimensions, mode="sum", padding_idx=0)
        nn.init.zeros_(self.embedding.weight)
        self.embedding.weight.requires_grad_(tuned)
        modules: list[nn.Module] = [nn.LayerNorm(dimensions)]
        for width in [dimensions, *[hidden] * (layers - 1)]:
            modules += [nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout)]
        self.layers = nn.Sequential(*modules)
        self.output = softmax_layer(softmax, hidden, counts)

    def set_vectors(self, vectors: Float[Tensor, "words dimensions"]) -> None:
        """Set the vectors of the words, that of the word of id 1 first."""
        with torch.no_grad():
            self.embedding.weight[1:].copy_(vectors)

    def sums(self, ids: WordIds) -> Float[Tensor, "rows dimensions"]:
        """Return the sum of the vectors of words, by their extended ids; 0 adds nothing."""
        total: Tensor = self.embedding(class_ids(ids, self.n_words))
        return total

    def states(self, ids: WordIds, state: TextState = None) -> tuple[States, TextState]:
        """Return the states that predict the word after each position: running sums; and the last sum."""
        vectors = functional.embedding(ids, self.embedding.weight, padding_idx=0)  # (rows, time, dimensions)
        sums = vectors.cumsum(1)
        if state is not None:
            sums = sums + state[0][:, None]
        return self.layers(sums), (sums[:, -1].detach(),)

    def forward(self, batch: dict[str, Tensor], state: TextState = None) -> tuple[Tensor, TextState]:
        """Return the mean of -ln p, in nats, and no state.

        The ``"ids"`` are passages, padded with 0, and ``"target"`` the word that each lacks; without it the
        batch is one for any network.
        """
        if "target" not in batch:
            return super().forward(batch, state)
        hidden = self.layers(self.sums(batch["ids"]))  # (rows, width)
        return self.output.loss(hidden, batch["target"]), None

    def last(self, ids: WordIds, lengths: Lengths) -> ContextStates:
        """Return the states that predict the missing word of each passage; word order is ignored."""
        beyond = torch.arange(ids.shape[1], device=ids.device) >= lengths[:, None]  # (rows, time)
        return ContextStates(self.layers(self.sums(ids.masked_fill(beyond, 0))))


class _PassageEncoder(ItemEncoder):
    """Turns items into the ids of all their words but the answer."""

    def blanks(self, items: Items) -> Iterator[tuple[Item, EncodedBlank]]:
        """Yield every item with all that is around its blank."""
        for item, blank in super().blanks(items):
            blank.ids, blank.right = blank.ids + blank.right, ()
            yield item, blank


def _vectors(cbow: CBOW, stream: EncodedText) -> Matrix:
    """Return the vectors of a stream's words, float32 (V, dimensions); zeros for a word that has none."""
    if bool(cbow.vectors.info["lower"]) != stream.lower:
        raise DataError("either the vectors or the texts are lower-cased", hint="fit both on one corpus")
    rows = np.array([cbow.vectors.row_of.get(word, -1) for word in stream.vocabulary])
    vectors: Matrix = np.zeros((len(rows), cbow.input.shape[1]), np.float32)
    vectors[rows >= 0] = cbow.input[rows[rows >= 0]]
    return vectors


class SupCBOW(Neural):
    """Predict the missing word from the other words of the passage, in any order; made by `fit`.

    Examples
    --------
    >>> from workbench.models import CBOW, SupCBOW
    >>> cbow = CBOW.fit(wb.books("sample", "train"), dimensions=20, epochs=1)
    >>> model = SupCBOW.fit(wb.books("sample", "train"), cbow=cbow, passages=100)
    >>> frame = model.predict(items)
    >>> bool(frame["rank"].notna().all())
    True
    """

    version = 1
    title: ClassVar[str] = "Sup-CBOW"
    systems: ClassVar[dict[str, str]] = {"lambada": "Sup-CBOW"}
    sizes: ClassVar[dict[str, Any]] = sizes_of(BagOfWordsModule) | {"vectors": ""}  # their digest
    fit_defaults: ClassVar[dict[str, Any]] = {
        "passages": 1_000_000, "rows": 256, "minimum": 50, "learning_rate": 1e-3
    }  # fmt: skip

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        cbow: CBOW | None = None,
        vocabulary: int | Sequence[str] = 60_000,
        lower: bool | None = None,
        tokenised: bool | None = None,
        seed: int = 0,
        **options: Any,
    ) -> SupCBOW:
        """Train a network on passages that are drawn from a text.

        Parameters
        ----------
        texts, vocabulary, lower, tokenised, seed
            As for :meth:`Neural.fit`. Of lines, one is a sentence.
        cbow : CBOW, optional
            The vectors that are added. By default they are trained on the same texts, with `seed`, for as
            many words, in ``dimensions`` (200).
        **options
            ``passages`` (1,000,000; the paper took about nine million) of an epoch, their ``minimum`` of
            context (50: more tokens than these), and ``rows`` (256) of a batch: see
            :class:`workbench.texts.batches.PassageBatches`. Of the network ``hidden`` (512 units), ``layers``
            (1), ``dropout`` (0.2), ``tuned`` (False: the vectors stay as they are). All others as for
            :meth:`Neural.fit`.

        Raises
        ------
        DataError
            As for :meth:`Neural.fit`; if no passage has that shape, or only the vectors or the texts are
            lower-cased.
        """
        corpus = Corpus.of(texts, lower=lower is not False, tokenised=tokenised)
        stream = EncodedText(corpus, vocabulary)
        if cbow is None:
            cbow = CBOW.fit(
                corpus, dimensions=options.get("dimensions", cls.sizes["dimensions"]), seed=seed,
                vocabulary=len(stream.vocabulary), held_out=options.get("held_out") )  # fmt: skip
        vectors = _vectors(cbow, stream)
        if options.get("dimensions", vectors.shape[1]) != vectors.shape[1] or "vectors" in options:
            raise DataError(
                f"cbow decides the vectors, of {vectors.shape[1]} dimensions", hint="pass cbow alone"
            )
        options |= {"dimensions": vectors.shape[1], "vectors": cache.digest(vectors.tobytes())}
        token = _initial.set(vectors)
        try:
            return super().fit(
                corpus, vocabulary=vocabulary, lower=lower, tokenised=tokenised, seed=seed, **options,
            )  # fmt: skip
        finally:
            _initial.reset(token)

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> LanguageModule:
        sizes = {name: value for name, value in info["sizes"].items() if name != "vectors"}
        network, vectors = BagOfWordsModule(counts, **sizes), _initial.get()
        if vectors is not None:
            network.set_vectors(torch.from_numpy(vectors))
        return network

    @classmethod
    def _batches(cls, stream: EncodedText, **how: Any) -> PassageBatches:
        number = how["passages"]
        rows = min(how["rows"], number)
        return PassageBatches(stream, rows=rows, number=number, seed=how["seed"], minimum=how["minimum"])

    def with_context(self, reads: int | str | None) -> SupCBOW:  # noqa: ARG002 - of all models
        """Refuse: it adds the words of the whole passage, those after the blank too."""
        raise DataError(f"{self.title} reads the whole passage, in no order", hint="take another model")

    @property
    def context(self) -> ReadContext:
        """The whole passage."""
        return ReadContext("both")

    @cached_property
    def encoder(self) -> ItemEncoder:
        """The encoder of items: all words but the answer are read before the blank."""
        return _PassageEncoder(self.vocabulary, lower=self.lower)
