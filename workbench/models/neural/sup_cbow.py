"""Sup-CBOW: the sum of a passage's CBOW vectors, and a small network that predicts the word it lacks.

The baseline of Paperno et al. (2016, section 4) that was "weakly tailored to the task at hand": "a simple
neural network that takes as input a bag-of-word representation of the passage and attempts to predict the
final word. The input representation comes from adding pre-trained CBOW vectors of the words in the passage",
trained on about nine million passages of LAMBADA's shape from the training novels. Its layers and their sizes
stand in no published text; those here are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from workbench.items.items import Items
from workbench.items.schema import DataError, Item
from workbench.models.neural.encoding import Blank, Reader
from workbench.models.neural.model import Neural
from workbench.models.vectors.cbow import CBOW
from workbench.models.vectors.vectors import Matrix
from workbench.storage import cache
from workbench.texts.sources import Texts, corpus_of
from workbench.texts.stream import Stream

if TYPE_CHECKING:
    from workbench.models.neural.networks.bag import BagOfWords
    from workbench.texts.passages import Passages

_given: ContextVar[Matrix | None] = ContextVar("_given", default=None)  # vectors that a network begins with


class SupCBOW(Neural):
    """Predict the missing word from all other words of the passage, whatever their order.

    It sees the whole passage without its answer: context and target sentence, and the words after the
    blank where there are any. Make one by `fit`.
    """

    version = 1
    title: ClassVar[str] = "Sup-CBOW"
    systems: ClassVar[dict[str, str]] = {"lambada": "Sup-CBOW"}
    sizes: ClassVar[dict[str, Any]] = {
        "dimensions": 200, "hidden": 512, "layers": 1, "dropout": 0.2, "tuned": False, "softmax": "adaptive",
        "vectors": "",
    }  # fmt: skip
    trained: ClassVar[dict[str, Any]] = {
        "epochs": 1.0, "passages": 1_000_000, "rows": 256, "minimum": 50, "learning_rate": 1e-3
    }  # fmt: skip

    @classmethod
    def fit(
        cls,
        texts: Texts | Stream,
        *,
        cbow: CBOW | None = None,
        vocabulary: int | Sequence[str] = 60_000,
        lower: bool | None = None,
        tokenised: bool | None = None,
        seed: int = 0,
        progress: bool = True,
        **options: Any,
    ) -> Self:
        """Train a network on passages that are drawn from a text.

        Parameters
        ----------
        texts : Stream, Corpus, path, str, book, or iterable of (str, path or book)
            As for :meth:`Neural.fit`; with a stream, `cbow` is to be given. Of lines, one is a sentence.
        cbow : CBOW, optional
            The vectors that are added. By default they are trained on the same texts, with `seed`, for as
            many words, in ``dimensions`` (200).
        vocabulary, lower, tokenised, seed, progress
            As for :meth:`Neural.fit`.
        **options
            ``passages`` (1,000,000; the paper took about nine million) of an epoch, their ``minimum`` of
            context (50: more tokens than these), and ``rows`` (256) of a batch: see
            :class:`workbench.texts.passages.Passages`. Of the network (:class:`BagOfWords`): ``hidden``
            (512), ``layers`` (1), ``dropout`` (0.2), ``tuned`` (False), ``softmax``. All others as for
            :meth:`Neural.fit`.

        Returns
        -------
        SupCBOW

        Raises
        ------
        DataError
            As for :meth:`Neural.fit`; if no passage of the texts has that shape, or the vectors are of
            cased words and the texts are lower-cased, or the other way round.
        """
        if not isinstance(texts, Stream):
            texts = corpus_of(texts, lower=lower is not False, tokenised=tokenised, progress=progress)
            stream = Stream.of(texts, vocabulary, progress=progress)
            if cbow is None:
                cbow = CBOW.fit(
                    texts, dimensions=options.get("dimensions", cls.sizes["dimensions"]), seed=seed,
                    vocabulary=len(stream.vocabulary), held_out=options.get("held_out"), progress=progress,
                )  # fmt: skip
        elif cbow is None:
            raise DataError("a stream of ids has no text to train CBOW on", remedy="pass cbow=")
        else:
            stream = texts
        vectors = _of(cbow, stream)
        if options.get("dimensions", vectors.shape[1]) != vectors.shape[1] or "vectors" in options:
            raise DataError(f"the vectors that are added have {vectors.shape[1]} dimensions, of cbow")
        options |= {"dimensions": vectors.shape[1], "vectors": cache.digest(vectors.tobytes())}
        with _begun(vectors):
            return super().fit(
                texts, vocabulary=vocabulary, lower=lower, tokenised=tokenised, seed=seed, progress=progress,
                **options,
            )  # fmt: skip

    @classmethod
    def _build(cls, info: Mapping[str, Any], counts: Sequence[int]) -> BagOfWords:
        import torch  # noqa: PLC0415 - slow

        from workbench.models.neural.networks.bag import BagOfWords  # noqa: PLC0415 - all torch

        sizes = {name: value for name, value in info["sizes"].items() if name != "vectors"}
        network, vectors = BagOfWords(counts, **sizes), _given.get()
        if vectors is not None:
            network.begin(torch.from_numpy(vectors))
        return network

    @classmethod
    def _batches(cls, stream: Stream, **how: Any) -> Passages:
        from workbench.texts.passages import Passages  # noqa: PLC0415 - only where something is trained

        number = how["passages"]
        rows = min(how["rows"], number)
        return Passages(stream, rows=rows, number=number, seed=how["seed"], minimum=how["minimum"])

    def with_context(self, reads: int | str | None) -> Self:  # noqa: ARG002 - of all models
        """Refuse: it adds the words of the whole passage, those after the blank too."""
        raise DataError(f"{self.title} reads the whole passage, in no order", remedy="take another model")

    @cached_property
    def reader(self) -> Reader:
        """How items become ids: all words but the answer stand before the blank."""
        return _Whole(self.vocabulary or (), lower=self.lower)


class _Whole(Reader):
    """Turns items into the ids of all their words but the answer."""

    def blanks(self, items: Items) -> Iterator[tuple[Item, Blank]]:
        """Yield every item with all that is around its blank."""
        for item, blank in super().blanks(items):
            blank.ids, blank.right = blank.ids + blank.right, ()
            yield item, blank


def _of(cbow: CBOW, stream: Stream) -> Matrix:
    """Return the vectors of a stream's words, float32 (V, dimensions); zeros for a word that has none."""
    if bool(cbow.vectors.info["lower"]) != stream.lower:
        raise DataError("either the vectors or the texts are lower-cased", remedy="fit both on one corpus")
    rows = np.array([cbow.vectors.place.get(word, -1) for word in stream.vocabulary])
    found: Matrix = np.zeros((len(rows), cbow.input.shape[1]), np.float32)
    found[rows >= 0] = cbow.input[rows[rows >= 0]]
    return found


@contextmanager
def _begun(vectors: Matrix) -> Iterator[None]:
    """Let networks that are built meanwhile begin with some vectors."""
    token = _given.set(vectors)
    try:
        yield
    finally:
        _given.reset(token)
