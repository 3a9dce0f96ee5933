"""Models that compare vectors of words: LSA for sentence completion, Unsup-CBOW for LAMBADA."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np
import numpy.typing as npt

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.models.base import Predictor, pad
from workbench.models.passage import is_word, one_of, passages
from workbench.runs.predictions import Floats
from workbench.storage import cache
from workbench.storage.checksums import SUMS, check_checksums, write_checksums
from workbench.storage.errors import DataError, reading
from workbench.storage.files import atomic_path, data_home, map_array, read_json, write_atomic
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out

Matrix = npt.NDArray[np.float32]
Scope = Literal["sentence", "passage"]
Weighting = Literal["none", "tf-idf", "log-entropy"]
Solver = Literal["arpack", "randomized"]

_FILE = "vectors.json"
_VERSION = 1  # of what is computed: vectors of another version count as absent
_SENTENCES = 20_000  # whose part of the matrix fits into a processor's cache
_PARTS = 4  # concurrent sums: a constant, so that every machine adds in the same order
_TOKENS = 1 << 20  # turned into words at a time


class Vectors:
    """Words, and arrays with a row for each of them.

    Parameters
    ----------
    words : sequence of str (n,)
    arrays : mapping of str to array
        Arrays (n, ...) of float32 have a row for each word, others belong to all.
    info : mapping
        How they were made, as JSON can hold it.
    """

    def __init__(
        self, words: Sequence[str], arrays: Mapping[str, npt.NDArray[Any]], info: Mapping[str, Any]
    ) -> None:
        self.words, self.arrays, self.info = list(words), dict(arrays), dict(info)

    @cached_property
    def place(self) -> dict[str, int]:
        """The row of each word."""
        return {word: index for index, word in enumerate(self.words)}

    def rows(self, word: str) -> list[int]:
        """Return the row of a word; of an unknown word those of its tokens (``mother 's``)."""
        row = self.place.get(word)
        if row is not None:
            return [row]
        parts = wt.tokenize(word)
        return [self.place[part] for part in parts if part in self.place] if len(parts) > 1 else []

    def write(self, folder: Path) -> None:
        """Write all into a folder, the manifest after the arrays: it marks them as complete."""
        for name in (_FILE, SUMS):
            (folder / name).unlink(missing_ok=True)
        for name, array in self.arrays.items():
            with atomic_path(folder / f"{name}.npy") as path, path.open("wb") as file:
                np.save(file, array)
        manifest = {"info": self.info, "arrays": sorted(self.arrays), "words": self.words}
        write_atomic(folder / _FILE, json.dumps(manifest))
        write_checksums(folder, _FILE)

    @classmethod
    def read(cls, folder: Path) -> Vectors:
        """Map what `write` wrote into memory; DataError if there are none, or damaged ones."""
        what, remedy = "these vectors", "make them again"
        with reading(folder, what, remedy=remedy):
            manifest = read_json(folder / _FILE, what)
            check_checksums(folder, _FILE, what=what, remedy=remedy)
            arrays = {name: map_array(folder, name) for name in manifest["arrays"]}
            return cache.hold(cls(manifest["words"], arrays, manifest["info"]), folder)


class VectorModel(Predictor):
    """A model that has a vector for each word of its training texts.

    Attributes
    ----------
    options : tuple of str
        Attributes that are arguments, too: `config` holds them, and `load` passes them.
    """

    fitted_on = "texts"
    options: ClassVar[tuple[str, ...]] = ()

    def __init__(self, vectors: Vectors, scope: Scope, checked_for: dict[str, Any] | None) -> None:
        one_of("scope", scope, get_args(Scope))
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
        progress: bool,
        options: dict[str, Any],
    ) -> Self:
        """Return a model with the vectors of a corpus, made or found in ``cache/``."""
        corpus = Corpus.of(texts, progress=progress)
        checked_for = check_held_out(corpus, held_out, progress=progress)
        info = {"corpus": corpus.sha256, "lower": corpus.lower, **settings}
        key = cache.digest(json.dumps([_VERSION, info], sort_keys=True))
        folder = data_home() / "cache" / cls.__name__.lower() / key
        try:
            vectors = Vectors.read(folder)
        except DataError:  # not there yet, or damaged
            cache.remove(folder)
            make(corpus, info, progress=progress).write(folder)
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
        return {"vectors": self.vectors.info, **{name: getattr(self, name) for name in self.options}}

    @property
    def training(self) -> dict[str, Any]:
        """What the vectors were trained on."""
        return {"corpus": self.vectors.info["corpus"], "checked_for": self.checked_for}

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


class LSA(VectorModel):
    """Score a word by its mean cosine to the other words of the sentence; made by `LSA.fit`.

    Zweig and Burges (2012), section 4.3, after Deerwester et al. (1990): each sentence of the training
    texts is a document, and the matrix of sentences and words is reduced to 300 dimensions by a singular
    value decomposition.

    Parameters
    ----------
    vectors : Vectors
        Words with their right singular vectors ``v`` (n, dimensions), and the singular values ``s``.
    scaled : bool, default False
        Whether the vector of a word is ``v * s``, so that its products are those of the matrix's
        columns, or ``v`` alone.
    scope : {"sentence", "passage"}
        Which words count as the others: those of the target sentence, or of all sentences.
    skip : int, default 0
        Number of the most frequent words of the training texts that do not count as others.
    punctuation : bool, default True
        Whether tokens without a letter or digit count as others.
    checked_for : dict, optional
        The items that the texts were checked for (`fit` with ``held_out``).

    Notes
    -----
    The paper says "every other word in the sentence", and neither how it weighted the matrix nor whether
    it scaled the vectors. The defaults are what 500 questions of `validation_questions` preferred, with 95 %
    of the challenge's training texts: 44 % of them right, 42 % with tf-idf and 41 % with log-entropy (both
    without punctuation), 32 to 35 % with scaled vectors. Words that the model does not know have no vector
    and are left out; a candidate that it does not know has the cosine 0.

    Examples
    --------
    >>> from workbench.models import LSA
    >>> lsa = LSA.fit(wb.books("sample"), dimensions=20, minimum=2, progress=False)
    >>> questions = wb.load("sample", variant="msrcc")
    >>> round(float(lsa.predict(questions)["p_correct"].mean()), 2)
    0.56
    """

    version = 1
    systems: ClassVar[dict[str, str]] = {"msrcc": "Average LSA similarity"}
    options = ("scaled", "scope", "skip", "punctuation", "checked_for")

    def __init__(
        self,
        vectors: Vectors,
        *,
        scaled: bool = False,
        scope: Scope = "sentence",
        skip: int = 0,
        punctuation: bool = True,
        checked_for: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(vectors, scope, checked_for)
        self.scaled, self.skip, self.punctuation = scaled, skip, punctuation
        info = vectors.info
        self.name = f"LSA ({info['dimensions']}, {info['weighting']}{', scaled' if scaled else ''})"
        self._scale = np.asarray(vectors.arrays["s"]) if scaled else np.float32(1)

    def variant(self, **options: Any) -> LSA:
        """Return a model with the same vectors and other options, named as those of the class."""
        return LSA(self.vectors, **{name: getattr(self, name) for name in self.options} | options)

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        dimensions: int = 300,
        weighting: Weighting = "none",
        minimum: int = 5,
        solver: Solver = "arpack",
        seed: int = 0,
        held_out: Items | None = None,
        progress: bool = True,
        **options: Any,
    ) -> Self:
        """Decompose the matrix of the sentences of a corpus and their words.

        The vectors are kept in ``cache/lsa``, and found there again for the same corpus and arguments.

        Parameters
        ----------
        texts : Corpus, path, book, or iterable of (str, path or book)
            As :meth:`workbench.texts.corpus.Corpus.of` takes them.
        dimensions : int, default 300
            Number of singular vectors.
        weighting : {"none", "tf-idf", "log-entropy"}
            What the matrix holds for a word in a sentence; see `weigh`.
        minimum : int, default 5
            Words seen less often are not in the vocabulary (section 4.2 has that for the n-grams).
        solver : {"arpack", "randomized"}
            "arpack" finds the exact vectors by Lanczos iterations on the words' side of the matrix,
            as scikit-learn's `TruncatedSVD` does with ``algorithm="arpack"``, but never makes the
            vectors of the sentences: for two million of them these alone take 5 GB. "randomized" is
            `TruncatedSVD` itself (Halko et al. 2011), which does.
        seed : int, default 0
            Starts the iterations.
        held_out : Items, optional
            Items that must not be in the texts: see :func:`workbench.contamination`.
        progress : bool, default True
        **options
            `scaled`, `scope`, `skip` and `punctuation` of the class.

        Raises
        ------
        DataError
            If an argument is unknown, or the corpus has no more words or sentences than dimensions.
        """
        one_of("weighting", weighting, get_args(Weighting))
        one_of("solver", solver, get_args(Solver))
        settings = {"dimensions": dimensions, "weighting": weighting, "minimum": minimum, "solver": solver}
        return cls._fit(
            _decompose,
            texts,
            settings | {"seed": seed},
            held_out=held_out,
            progress=progress,
            options=options,
        )

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the mean cosine of each word to the others of its sentence, shape (n, most words)."""
        rows, place = [], self.vectors.place
        for others, choices in zip(self._others(items), words, strict=True):
            known = [place.get(word, -1) for word in others if self.punctuation or is_word(word)]
            units = unit(self._take([row for row in known if row >= self.skip]))  # by falling frequency
            mean = units.mean(axis=0) if len(units) else np.zeros(units.shape[1])
            sums = [self._take(self.vectors.rows(self.form(word))).sum(axis=0) for word in choices]
            rows.append([float(unit(vector) @ mean) for vector in sums])
        return pad(rows)

    def _take(self, rows: Sequence[int]) -> Floats:
        """Return the vectors of words, shape (words, dimensions)."""
        taken = self.vectors.arrays["v"][np.array(rows, dtype=np.int64)].astype(np.float64)
        return np.asarray(taken * self._scale)


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
    >>> cbow = CBOW.fit(wb.books("sample"), dimensions=20, epochs=1, progress=False)
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
        workers: int = 1,
        progress: bool = True,
        **options: Any,
    ) -> Self:
        """Train vectors on the sentences of a corpus.

        The vectors are kept in ``cache/cbow``; `texts`, `held_out` and `progress` are as in `LSA.fit`.

        Parameters
        ----------
        dimensions, window, epochs, negative, sample
            As `gensim.models.Word2Vec` has them. The paper names none of them; these are gensim's own
            values but for 200 dimensions.
        vocabulary : int, default 60,000
            Number of the most frequent words that get vectors.
        workers : int, default 1
            Threads. With one, the same seed gives the same vectors; with more it does not, as they
            write into one matrix without waiting for each other.
        **options
            `scope` of the class.

        Raises
        ------
        DataError
            If the corpus is empty.
        """
        settings = {
            "dimensions": dimensions, "window": window, "epochs": epochs, "vocabulary": vocabulary,
            "negative": negative, "sample": sample, "seed": seed, "workers": workers,
        }  # fmt: skip
        return cls._fit(_train, texts, settings, held_out=held_out, progress=progress, options=options)

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the log-probability of each word, shape (n, most words)."""
        passage_vectors = self._passages(items)
        norms = np.concatenate([np.zeros(0), *map(_log_sum, self._cosines(passage_vectors))])
        rows = []
        for passage, norm, choices in zip(passage_vectors, norms, words, strict=True):
            places = [np.array(self.vectors.rows(self.form(word)), dtype=np.int64) for word in choices]
            rows.append([float(unit(self.input[at].sum(axis=0)) @ passage) - float(norm) for at in places])
        return pad(rows)

    def log_prob(self, items: Items) -> Floats:
        """Return the log-probability of each answer; NaN for an answer outside the vocabulary."""
        place, log_probs = self.vectors.place, []
        rows = (row for values in self.distribution(items) for row in values)
        for answer, row in zip(items.frame["answer"], rows, strict=True):
            at = place.get(self.form(answer)) if isinstance(answer, str) else None
            log_probs.append(np.nan if at is None else row[at])
        return np.array(log_probs, dtype=float)

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield log-probabilities of all words, (up to `chunk`, vocabulary) at a time."""
        for values in self._cosines(self._passages(items), chunk):
            yield values - _log_sum(values)[:, None]

    @cached_property
    def _units(self) -> Matrix:
        return np.asarray(unit(np.asarray(self.input)), dtype=np.float32)

    def _passages(self, items: Items) -> Matrix:
        """Return the sum of each passage's vectors, made length 1: float32 (n, dimensions)."""
        place, vectors = self.vectors.place, self.input
        sums = np.zeros((len(items), vectors.shape[1]))
        for index, others in enumerate(self._others(items)):
            rows = [place[word] for word in others if word in place]
            sums[index] = vectors[rows].sum(axis=0, dtype=np.float64)
        return unit(sums).astype(np.float32)

    def _cosines(self, passage_vectors: Matrix, chunk: int = 256) -> Iterator[Floats]:
        """Yield the cosines of all words, float64 (up to `chunk`, vocabulary)."""
        for start in range(0, len(passage_vectors), chunk):
            yield (passage_vectors[start : start + chunk] @ self._units.T).astype(np.float64)


def unit(rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return rows of length 1; a row of zeros stays one, so its cosine with any other is 0."""
    length = np.sqrt(np.einsum("...i,...i->...", rows, rows))[..., None]
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 0))


def _log_sum(values: Floats) -> Floats:
    """Return ln sum exp of each row; the values lie within -1 and 1."""
    return np.asarray(np.log(np.exp(values).sum(axis=1)))


def _decompose(corpus: Corpus, info: dict[str, Any], *, progress: bool) -> Vectors:
    """Return the singular vectors and values of the weighted matrix of sentences and words."""
    dimensions, minimum = info["dimensions"], info["minimum"]
    words, matrix = _matrix(corpus, minimum)
    if not 0 < dimensions < min(matrix.shape):
        raise DataError(
            f"the texts have {matrix.shape[0]} sentences and {matrix.shape[1]} words seen {minimum} "
            f"times or more, too few for {dimensions} dimensions",
            remedy="take fewer dimensions, or more text",
        )
    weigh(matrix, info["weighting"])
    if not matrix.data.any():
        raise DataError("every word is spread evenly over the sentences", remedy="pass more text")
    if info["solver"] == "arpack":
        v, s = _lanczos(matrix, dimensions, info["seed"], progress=progress)
    else:
        from sklearn.decomposition import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow
            TruncatedSVD,
        )

        svd = TruncatedSVD(dimensions, algorithm="randomized", n_iter=7, random_state=info["seed"])
        v, s = svd.fit(matrix).components_.T, svd.singular_values_
    return Vectors(words, {"v": v.astype(np.float32), "s": s.astype(np.float32)}, info)


def _matrix(corpus: Corpus, minimum: int) -> tuple[list[str], Any]:
    """Return the words seen often enough, and how often each sentence has each: CSR (sentences, words)."""
    from scipy.sparse import csr_array  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    n = int(np.searchsorted(-np.asarray(corpus.counts), -minimum, side="right"))  # counts fall
    known = np.asarray(corpus.ids) < n
    ends = np.concatenate([[0], np.cumsum(known)])[np.asarray(corpus.starts)]
    ids = np.asarray(corpus.ids)[known].astype(np.int32)
    matrix = csr_array((np.ones(len(ids)), ids, ends.astype(np.int32)), shape=(len(ends) - 1, n))
    matrix.sum_duplicates()
    return list(corpus.words[:n]), matrix


def weigh(matrix: Any, weighting: Weighting) -> None:
    """Turn counts of words in sentences into weights, in place.

    Parameters
    ----------
    matrix : CSR array (sentences N, words)
        Counts tf, as floating-point numbers.
    weighting : {"none", "tf-idf", "log-entropy"}
        "none": tf. "tf-idf": tf * ln(N / sentences that have the word). "log-entropy": log2(1 + tf)
        * (1 + sum p ln p / ln N) with p = tf / count of the word (Dumais 1991).
    """
    n, n_words = matrix.shape
    tf, columns = matrix.data, matrix.indices
    if weighting == "tf-idf":
        seen = np.bincount(columns, minlength=n_words)
        tf *= np.log(n / np.maximum(seen, 1))[columns]
    elif weighting == "log-entropy":
        total = np.bincount(columns, weights=tf, minlength=n_words)
        # sum p ln p = (sum tf ln tf) / total - ln total
        inner = np.bincount(columns, weights=tf * np.log(tf), minlength=n_words)
        total = np.maximum(total, 1)
        weight = 1 + (inner / total - np.log(total)) / np.log(max(n, 2))
        np.log2(1 + tf, out=tf)
        tf *= weight[columns]


def _lanczos(matrix: Any, k: int, seed: int, *, progress: bool) -> tuple[Floats, Floats]:
    """Return the k first right singular vectors, as columns, and the singular values, falling."""
    from scipy.sparse.linalg import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow
        LinearOperator,
        eigsh,
    )

    n = matrix.shape[1]
    blocks = [matrix[at : at + _SENTENCES] for at in range(0, matrix.shape[0], _SENTENCES)]

    def part(first: int, vector: Floats) -> Floats:
        total = np.zeros(n)
        for block in blocks[first::_PARTS]:  # while it is in the cache
            total += block.T @ (block @ vector)
        return total

    with (
        ThreadPoolExecutor(os.cpu_count()) as pool,
        progress_bar(label="LSA", unit="products", shown=progress) as bar,
    ):

        def product(vector: Floats) -> Floats:
            bar.update()
            flat = np.ascontiguousarray(vector).reshape(-1)
            return cast("Floats", sum(pool.map(part, range(_PARTS), [flat] * _PARTS)))

        gram = LinearOperator((n, n), matvec=product, dtype=np.float64)
        start = np.random.default_rng(seed).standard_normal(n)
        values, vectors = eigsh(gram, k=k, which="LM", v0=start, tol=1e-9)
    order = np.argsort(-values, kind="stable")
    return vectors[:, order], np.sqrt(np.maximum(values[order], 0))


class _Sentences:
    """The sentences of a corpus as lists of words, as often as they are asked for."""

    def __init__(self, corpus: Corpus, bar: Any) -> None:
        self.corpus, self.bar = corpus, bar

    def __iter__(self) -> Iterator[list[str]]:
        words = np.array(self.corpus.words, dtype=object)
        starts, at = np.asarray(self.corpus.starts), 0
        while at < len(starts) - 1:
            end = max(at + 1, int(np.searchsorted(starts, starts[at] + _TOKENS, side="right")) - 1)
            block = words[np.asarray(self.corpus.ids[starts[at] : starts[end]])].tolist()
            cuts = (starts[at : end + 1] - starts[at]).tolist()
            for first, stop in pairwise(cuts):
                yield block[first:stop]
            self.bar.update(end - at)
            at = end


def _train(corpus: Corpus, info: dict[str, Any], *, progress: bool) -> Vectors:
    """Return the input and output vectors that gensim trains."""
    from gensim.models import Word2Vec  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    n, sentences = min(info["vocabulary"], len(corpus.words)), len(corpus.starts) - 1
    if not n or info["vocabulary"] < 1:
        raise DataError("there are no words to train vectors of")
    model = Word2Vec(
        sg=0, hs=0, vector_size=info["dimensions"], window=info["window"], epochs=info["epochs"], min_count=1,
        negative=info["negative"], sample=info["sample"], seed=info["seed"], workers=info["workers"],
    )  # fmt: skip
    counts = np.asarray(corpus.counts)[:n].tolist()
    model.build_vocab_from_freq(dict(zip(corpus.words[:n], counts, strict=True)), corpus_count=sentences)
    total = sentences * info["epochs"]
    with progress_bar(total, label="CBOW", unit="sentences", shown=progress) as bar:
        model.train(_Sentences(corpus, bar), total_examples=sentences, epochs=info["epochs"])
    place = model.wv.key_to_index
    order = np.array([place[word] for word in corpus.words[:n]])
    arrays = {"input": model.wv.vectors[order], "output": model.syn1neg[order]}
    return Vectors(corpus.words[:n], arrays, info)
