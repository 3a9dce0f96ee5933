"""The base class of models that compare word vectors, and Unsup-CBOW for LAMBADA."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import numpy.typing as npt

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.models.base import Predictor, pad
from workbench.models.item_words import ReadContext, passages
from workbench.predictions.schema import Floats
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option, check_value, reading
from workbench.storage.files import atomic_folder, read_arrays, write_arrays
from workbench.storage.paths import cache_home
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out

Matrix = npt.NDArray[np.float32]
Scope = Literal["sentence", "passage"]

_FILE = "vectors.json"
_TOKENS = 1 << 20  # turned into words at a time


class Vectors:
    """Words (n,), and arrays: those (n, ...) of float32 have a row for each word, others belong to all.

    `info` says how they were made, as JSON can hold it.
    """

    def __init__(
        self, words: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]
    ) -> None:
        self.words, self.arrays, self.info = list(words), dict(arrays), dict(info)

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def rows(self, word: str) -> list[int]:
        """Return the row of a word; of an unknown word the rows of its tokens (``mother 's``)."""
        row = self.row_of.get(word)
        if row is not None:
            return [row]
        pieces = wt.tokenize(word)
        return [self.row_of[piece] for piece in pieces if piece in self.row_of] if len(pieces) > 1 else []

    def write(self, folder: Path) -> None:
        """Write all into a folder, in place of what is there."""
        with atomic_folder(folder, replace=True) as new:
            write_arrays(new, _FILE, self.arrays, info=self.info, words=self.words)

    @classmethod
    def read(cls, folder: Path) -> Vectors:
        """Map vectors of `write` into memory; DataError if they are missing or damaged."""
        description, hint = "these vectors", "make them again"
        manifest, arrays = read_arrays(folder, _FILE, what=description, hint=hint)
        with reading(folder, description, hint=hint):
            cache.touch(folder)
            return cls(manifest["words"], arrays, manifest["info"])


class VectorModel(Predictor):
    """A model that has a vector for each word of its training texts."""

    fitted_on = "texts"

    def __init__(self, vectors: Vectors, scope: Scope, checked_for: dict[str, Any] | None) -> None:
        check_option("scope", scope, get_args(Scope))
        self.vectors, self.checked_for = vectors, checked_for
        self.scope: Scope = scope

    @classmethod
    def _fit(
        cls,
        make: Callable[..., Vectors],
        texts: Texts,
        settings: dict[str, Any],
        *,
        held_out: Items | None,
        options: dict[str, Any],
    ) -> Self:
        """Return a model with the vectors of a corpus, made or found in ``cache/``."""
        corpus = Corpus.of(texts)
        checked_for = check_held_out(corpus, held_out)
        info = {"corpus": corpus.sha256, "lower": corpus.lower, **settings}
        key = cache.digest(json.dumps([cls.version, info], sort_keys=True))
        folder = cache_home() / cls.__name__.lower() / key
        try:
            vectors = Vectors.read(folder)
        except DataError:  # not there yet, or damaged
            make(corpus, info).write(folder)
            vectors = Vectors.read(folder)
            cache.make_room()
        return cls._with(vectors, **options, checked_for=checked_for)

    @classmethod
    def _with(cls, vectors: Vectors, **options: Any) -> Self:
        make: Any = cls  # subclasses have options of their own
        model: Self = make(vectors, **options)
        return model

    @property
    def config(self) -> dict[str, Any]:
        """How the vectors were made, and how they are used."""
        return {"vectors": self.vectors.info, **self._option_values}

    @property
    def training(self) -> dict[str, Any]:
        """Training data of the vectors."""
        return {"corpus": self.vectors.info["corpus"], "checked_for": self.checked_for}

    @property
    def context(self) -> ReadContext:
        """The words of the passage, or of the target sentence, in no order."""
        return ReadContext("both", sentence=self.scope == "sentence")

    def form(self, word: str) -> str:
        """Return a word as the training texts have it."""
        return word.lower() if self.vectors.info["lower"] else word

    def _others(self, items: Items) -> Iterator[tuple[str, ...]]:
        """Yield for each item the tokens of its sentence, or of the whole passage, without the answer."""
        for _, passage in passages(items, lower=bool(self.vectors.info["lower"])):
            yield passage.words if self.scope == "passage" else passage.left + passage.right

    def _save(self, folder: Path) -> None:
        self.vectors.write(folder / "vectors")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        return cls._with(Vectors.read(folder / "vectors"), **{name: config[name] for name in cls.options})


class CBOW(VectorModel):
    """Score a word by the cosine of its vector with the sum of the passage's; made by `CBOW.fit`.

    Unsup-CBOW of Paperno et al. (2016, section 4): "the target word is predicted by cosine similarity between
    the passage vector and the target word vector", and the passage vector "comes from adding pre-trained CBOW
    vectors of the words in the passage". The vectors are those of Mikolov et al. (2013), with negative
    sampling, trained by gensim.

    Parameters
    ----------
    vectors : Vectors
        Words with their ``input`` and ``output`` vectors (n, dimensions); the first are what is called
        the word's vector.
    scope : {"passage", "sentence"}
        Which words are added up: those of the whole passage without the answer, or those of the target
        sentence. A word counts as often as it occurs.
    checked_for : dict, optional
        The items that the texts were checked for (`fit` with ``held_out``).

    Notes
    -----
    The paper gives a perplexity of 57,040 on LAMBADA with 60,000 words, so its probabilities are nearly
    uniform. It does not say how cosines became probabilities. Here they are the softmax of the
    cosines over the vocabulary, which lie between 1 / (1 + (n - 1) e^2) and 1 / (1 + (n - 1) / e^2).
    Words without a vector are not added; a candidate without one has the cosine 0, and an answer
    outside the vocabulary has no probability.

    Examples
    --------
    >>> from workbench.models import CBOW
    >>> cbow = CBOW.fit(wb.books("sample", "train"), dimensions=20, epochs=1)
    >>> len(cbow.predict(items))
    30
    """

    version = 1
    name = "Unsup-CBOW"
    systems: ClassVar[dict[str, str]] = {"lambada": "Unsup-CBOW"}
    score_type = "log_prob"
    options = ("scope", "checked_for")

    def __init__(
        self, vectors: Vectors, *, scope: Scope = "passage", checked_for: dict[str, Any] | None = None
    ) -> None:
        super().__init__(vectors, scope, checked_for)
        self.vocabulary = vectors.words

    @property
    def input(self) -> Matrix:
        """The words' vectors, float32 (n, dimensions), mapped from the disk."""
        return self.vectors.arrays["input"]

    @property
    def output(self) -> Matrix:
        """The vectors that predict the words, float32 (n, dimensions), mapped from the disk."""
        return self.vectors.arrays["output"]

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        dimensions: int = 200,
        window: int = 5,
        epochs: int = 5,
        vocabulary: int = 60_000,
        negative: int = 5,
        sample: float = 1e-3,
        seed: int = 0,
        held_out: Items | None = None,
        **options: Any,
    ) -> Self:
        """Train vectors on the sentences of a corpus.

        The vectors are stored in ``cache/cbow``; `texts` and `held_out` are as in `LSA.fit`.

        Parameters
        ----------
        dimensions, window, epochs, negative, sample
            As `gensim.models.Word2Vec` has them. The paper names none of them; these are gensim's own
            values but for 200 dimensions.
        vocabulary : int, default 60,000
            Number of the most frequent words that get vectors.
        **options
            `scope` of the class.

        Raises
        ------
        DataError
            If the corpus is empty.
        """
        settings = {
            "dimensions": dimensions, "window": window, "epochs": epochs, "vocabulary": vocabulary,
            "negative": negative, "sample": sample, "seed": seed,
        }  # fmt: skip
        return cls._fit(_train, texts, settings, held_out=held_out, options=options)

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the log-probability of each word, shape (n, most words)."""
        passage_vectors = self._passages(items)
        norms = np.concatenate([np.zeros(0), *map(_log_sum, self._cosines(passage_vectors))])
        rows = []
        for passage, norm, choices in zip(passage_vectors, norms, words, strict=True):
            indices = [np.array(self.vectors.rows(self.form(word)), dtype=np.int64) for word in choices]
            rows.append([float(unit(self.input[ids].sum(axis=0)) @ passage) - float(norm) for ids in indices])
        return pad(rows)

    def log_prob(self, items: Items) -> Floats:
        """Return the log-probability of each answer; NaN for an answer outside the vocabulary."""
        return self._listed_log_prob(items)

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield log-probabilities of all words, (up to `chunk`, vocabulary) at a time."""
        for values in self._cosines(self._passages(items), chunk):
            yield values - _log_sum(values)[:, None]

    @cached_property
    def _units(self) -> Matrix:
        return np.asarray(unit(np.asarray(self.input)), dtype=np.float32)

    def _passages(self, items: Items) -> Matrix:
        """Return the sum of each passage's vectors, made length 1: float32 (n, dimensions)."""
        row_of, vectors = self.vectors.row_of, self.input
        sums = np.zeros((len(items), vectors.shape[1]))
        for index, others in enumerate(self._others(items)):
            rows = [row_of[word] for word in others if word in row_of]
            sums[index] = vectors[rows].sum(axis=0, dtype=np.float64)
        return unit(sums).astype(np.float32)

    def _cosines(self, passage_vectors: Matrix, chunk: int = 256) -> Iterator[Floats]:
        """Yield the cosines of all words, float64 (up to `chunk`, vocabulary)."""
        for start in range(0, len(passage_vectors), chunk):
            yield (passage_vectors[start : start + chunk] @ self._units.T).astype(np.float64)


def unit(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of length 1; a row of zeros stays one, so its cosine with any other is 0.

    One whose length is not finite is NaN.
    """
    length = np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., None]
    length = np.where(np.isfinite(length), length, np.nan).astype(length.dtype)
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length != 0))


def _log_sum(values: Floats) -> Floats:
    """Return ln sum exp of each row; the values lie within -1 and 1."""
    return np.asarray(np.log(np.exp(values).sum(axis=1)))


class _Sentences:
    """The sentences of a corpus as lists of words, as often as they are asked for."""

    def __init__(self, corpus: Corpus, bar: Any) -> None:
        self.corpus, self.bar = corpus, bar

    def __iter__(self) -> Iterator[list[str]]:
        words = np.array(self.corpus.words, dtype=object)
        starts, start = np.asarray(self.corpus.starts), 0
        while start < len(starts) - 1:
            end = max(start + 1, int(np.searchsorted(starts, starts[start] + _TOKENS, side="right")) - 1)
            block = words[np.asarray(self.corpus.ids[starts[start] : starts[end]])].tolist()
            cuts = (starts[start : end + 1] - starts[start]).tolist()
            for first, stop in pairwise(cuts):
                yield block[first:stop]
            self.bar.update(end - start)
            start = end


def _train(corpus: Corpus, info: dict[str, Any]) -> Vectors:
    """Return the input and output vectors that gensim trains."""
    from gensim.models import Word2Vec  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    for name in ("vocabulary", "dimensions", "window", "epochs"):
        check_value(name, info[name], info[name] >= 1, "1 or more")
    n, sentences = min(info["vocabulary"], len(corpus.words)), len(corpus.starts) - 1
    model = Word2Vec(
        sg=0, hs=0, vector_size=info["dimensions"], window=info["window"], epochs=info["epochs"], min_count=1,
        negative=info["negative"], sample=info["sample"], seed=info["seed"],
        workers=1,  # threads would write into one matrix without waiting: other vectors each time
    )  # fmt: skip
    counts = np.asarray(corpus.counts)[:n].tolist()
    model.build_vocab_from_freq(dict(zip(corpus.words[:n], counts, strict=True)), corpus_count=sentences)
    total = sentences * info["epochs"]
    with progress_bar(total, label="CBOW", unit="sentences") as bar:
        model.train(_Sentences(corpus, bar), total_examples=sentences, epochs=info["epochs"])
    row_of = model.wv.key_to_index
    order = np.array([row_of[word] for word in corpus.words[:n]])
    arrays = {"input": model.wv.vectors[order], "output": model.syn1neg[order]}
    return Vectors(corpus.words[:n], arrays, info)
