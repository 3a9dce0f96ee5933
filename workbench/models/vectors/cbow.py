"""Vectors of words by CBOW, and the word that is most like the sum of the passage's: Unsup-CBOW.

CBOW is the "continuous bag of words" of Mikolov et al. (2013), with negative sampling, trained by gensim.
Unsup-CBOW is a baseline of Paperno et al. (2016, section 4): "the target word is predicted by cosine
similarity between the passage vector and the target word vector", and the passage vector "comes from
adding pre-trained CBOW vectors of the words in the passage".
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self, get_args

import numpy as np
import numpy.typing as npt

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.base import pad
from workbench.models.passage import one_of
from workbench.models.vectors.vectors import Matrix, Scope, VectorModel, Vectors, around, cached, unit
from workbench.runs.predictions import Floats
from workbench.storage import cache
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out

_VERSION = 1  # of what is computed: vectors of another version count as not there
_BLOCK = 1 << 20  # tokens turned into words at a time


class CBOW(VectorModel):
    """Score a word by the cosine of its vector with the sum of the vectors of the passage's words.

    Make one by `CBOW.fit`.

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
    """

    version = 1
    fitted_on = "texts"
    name = "Unsup-CBOW"
    systems: ClassVar[dict[str, str]] = {"lambada": "Unsup-CBOW"}
    score_type = "log_prob"
    options = ("scope", "checked_for")

    def __init__(
        self, vectors: Vectors, *, scope: Scope = "passage", checked_for: dict[str, Any] | None = None
    ) -> None:
        one_of("scope", scope, get_args(Scope))
        super().__init__(vectors, checked_for)
        self.scope: Scope = scope
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
        workers: int = 1,
        progress: bool = True,
        **options: Any,
    ) -> Self:
        """Train vectors on the sentences of a corpus.

        The vectors are kept in ``cache/cbow``, and found there again for the same corpus and arguments.

        Parameters
        ----------
        texts : Corpus, path, book, or iterable of (str, path or book)
            As :meth:`workbench.texts.corpus.Corpus.of` takes them.
        dimensions, window, epochs, negative, sample
            As `gensim.models.Word2Vec` has them. The paper names none of them; these are gensim's own
            values but for 200 dimensions.
        vocabulary : int, default 60,000
            Number of the most frequent words that get vectors.
        seed : int, default 0
        workers : int, default 1
            Threads. With one, the same seed gives the same vectors; with more it does not, as they
            write into one matrix without waiting for each other.
        held_out : Items, optional
            Items that must not be in the texts: see :func:`workbench.contamination`.
        progress : bool, default True
        **options
            `scope`, as for the class.

        Raises
        ------
        DataError
            If the corpus is empty.
        """
        corpus = Corpus.of(texts, progress=progress)
        options["checked_for"] = check_held_out(corpus, held_out, progress=progress)
        how = {
            "corpus": corpus.sha256,
            "lower": corpus.lower,
            "dimensions": dimensions,
            "window": window,
            "epochs": epochs,
            "vocabulary": vocabulary,
            "negative": negative,
            "sample": sample,
            "seed": seed,
            "workers": workers,
        }
        key = cache.digest(json.dumps([_VERSION, how], sort_keys=True))
        return cls(cached("cbow", key, lambda: _train(corpus, how, progress=progress)), **options)

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the log-probability of each word, shape (n, most words)."""
        passages = self._passages(items)
        norms = np.concatenate([np.zeros(0), *(_log_sum(v) for _, v in self._cosines(passages))])
        rows = []
        for passage, norm, choices in zip(passages, norms, words, strict=True):
            places = [np.array(self.vectors.rows(self.form(word)), dtype=np.int64) for word in choices]
            rows.append([float(unit(self.input[at].sum(axis=0)) @ passage) - float(norm) for at in places])
        return pad(rows)

    def log_prob(self, items: Items) -> Floats:
        """Return the log-probability of each answer; NaN for an answer outside the vocabulary."""
        ids = self._answers(items)
        log_probs = np.full(len(items), np.nan)
        for start, values in self._cosines(self._passages(items)):
            answer_ids = ids[start : start + len(values)]
            there = np.flatnonzero(answer_ids >= 0)
            log_probs[start + there] = values[there, answer_ids[there]] - _log_sum(values)[there]
        return log_probs

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield log-probabilities of all words, (up to `chunk`, vocabulary) at a time."""
        for _, values in self._cosines(self._passages(items), chunk):
            yield values - _log_sum(values)[:, None]

    @cached_property
    def _units(self) -> Matrix:
        return np.asarray(unit(np.asarray(self.input)), dtype=np.float32)

    def _passages(self, items: Items) -> Matrix:
        """Return the sum of each passage's vectors, made length 1: float32 (n, dimensions)."""
        place, vectors = self.vectors.place, self.input
        sums = np.zeros((len(items), vectors.shape[1]))
        lower = bool(self.vectors.info["lower"])
        for index, others in enumerate(around(items, scope=self.scope, lower=lower)):
            rows = [place[word] for word in others if word in place]
            sums[index] = vectors[rows].sum(axis=0, dtype=np.float64)
        return unit(sums).astype(np.float32)

    def _cosines(self, passages: Matrix, chunk: int = 256) -> Iterator[tuple[int, Floats]]:
        """Yield the cosines of all words, float64 (up to `chunk`, vocabulary), and where they begin."""
        for start in range(0, len(passages), chunk):
            yield start, (passages[start : start + chunk] @ self._units.T).astype(np.float64)

    def _answers(self, items: Items) -> npt.NDArray[np.int64]:
        """Return the row of each answer, -1 for one outside the vocabulary."""
        place, answers = self.vectors.place, items.frame["answer"].tolist()
        rows = [place.get(self.form(a), -1) if isinstance(a, str) else -1 for a in answers]
        return np.array(rows, dtype=np.int64)


def _log_sum(values: Floats) -> Floats:
    """Return ln sum exp of each row; the values lie within -1 and 1."""
    return np.asarray(np.log(np.exp(values).sum(axis=1)))


class _Sentences:
    """The sentences of a corpus as lists of words, as often as they are asked for."""

    def __init__(self, corpus: Corpus, bar: Any) -> None:
        self.corpus, self.bar = corpus, bar

    def __iter__(self) -> Iterator[list[str]]:
        words = np.array(self.corpus.words, dtype=object)
        starts, at = np.asarray(self.corpus.starts), 0
        while at < len(starts) - 1:
            end = max(at + 1, int(np.searchsorted(starts, starts[at] + _BLOCK, side="right")) - 1)
            block = words[np.asarray(self.corpus.ids[starts[at] : starts[end]])].tolist()
            cuts = (starts[at : end + 1] - starts[at]).tolist()
            for first, stop in pairwise(cuts):
                yield block[first:stop]
            self.bar.update(end - at)
            at = end


def _train(corpus: Corpus, how: dict[str, Any], *, progress: bool) -> Vectors:
    from gensim.models import Word2Vec  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    n, sentences = min(how["vocabulary"], len(corpus.words)), len(corpus.starts) - 1
    if not n or how["vocabulary"] < 1:
        raise DataError("there are no words to train vectors of")
    model = Word2Vec(
        sg=0, hs=0, vector_size=how["dimensions"], window=how["window"], epochs=how["epochs"], min_count=1,
        negative=how["negative"], sample=how["sample"], seed=how["seed"], workers=how["workers"],
    )  # fmt: skip
    counts = np.asarray(corpus.counts)[:n].tolist()
    model.build_vocab_from_freq(dict(zip(corpus.words[:n], counts, strict=True)), corpus_count=sentences)
    total = sentences * how["epochs"]
    with progress_bar(total, label="CBOW", unit="sentences", shown=progress) as bar:
        model.train(_Sentences(corpus, bar), total_examples=sentences, epochs=how["epochs"])
    place = model.wv.key_to_index
    order = np.array([place[word] for word in corpus.words[:n]])
    arrays = {"input": model.wv.vectors[order], "output": model.syn1neg[order]}
    return Vectors(corpus.words[:n], arrays, how)
