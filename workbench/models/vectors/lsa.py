"""Latent semantic analysis: the word that is most like the other words of its sentence.

Zweig and Burges (2012), section 4.3, after Deerwester et al. (1990): each sentence of the training
texts is a document, the matrix of sentences and words is reduced to 300 dimensions by a singular
value decomposition, and the choice is the word with the highest mean cosine to every other word of
the sentence.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal, cast, get_args

import numpy as np

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.base import pad
from workbench.models.passage import is_word, one_of
from workbench.models.vectors.vectors import Scope, VectorModel, Vectors, around, cached, unit
from workbench.runs.predictions import Floats
from workbench.storage import cache
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out

Weighting = Literal["none", "tf-idf", "log-entropy"]
Solver = Literal["arpack", "randomized"]

_VERSION = 1  # of what is computed: vectors of another version count as not there
_BLOCK = 20_000  # sentences whose part of the matrix stays in a processor's cache
_PARTS = 4  # sums that are made side by side: always as many, so that every machine adds in the same order


class LSA(VectorModel):
    """Score a word by its mean cosine to the other words of the sentence.

    Make one by `LSA.fit`.

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
    """

    version = 1
    fitted_on = "texts"
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
        one_of("scope", scope, get_args(Scope))
        super().__init__(vectors, checked_for)
        self.scaled, self.skip, self.punctuation = scaled, skip, punctuation
        self.scope: Scope = scope
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
    ) -> LSA:
        """Decompose the matrix of the sentences of a corpus and their words.

        The vectors are kept in ``cache/lsa``, and found there again for the same corpus and arguments.

        Parameters
        ----------
        texts : Corpus, path, book, or iterable of (str, path or book)
            As :meth:`workbench.texts.corpus.Corpus.of` takes them.
        dimensions : int, default 300
            Singular vectors that are kept.
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
            `scaled`, `scope`, `skip` and `punctuation`, as for the class.

        Raises
        ------
        DataError
            If an argument is unknown, or the corpus has no more words or sentences than dimensions.
        """
        one_of("weighting", weighting, get_args(Weighting))
        one_of("solver", solver, get_args(Solver))
        corpus = Corpus.of(texts, progress=progress)
        options["checked_for"] = check_held_out(corpus, held_out, progress=progress)
        how = {
            "corpus": corpus.sha256,
            "lower": corpus.lower,
            "dimensions": dimensions,
            "weighting": weighting,
            "minimum": minimum,
            "solver": solver,
            "seed": seed,
        }

        def make() -> Vectors:
            words, matrix = _matrix(corpus, minimum)
            if not 0 < dimensions < min(matrix.shape):
                raise DataError(
                    f"the texts have {matrix.shape[0]} sentences and {matrix.shape[1]} words seen {minimum} "
                    f"times or more, too few for {dimensions} dimensions",
                    remedy="take fewer dimensions, or more text",
                )
            weigh(matrix, weighting)
            if not matrix.data.any():
                raise DataError("every word is spread evenly over the sentences", remedy="pass more text")
            solve = _lanczos if solver == "arpack" else _randomized
            v, s = solve(matrix, dimensions, seed, progress=progress)
            return Vectors(words, {"v": v.astype(np.float32), "s": s.astype(np.float32)}, how)

        key = cache.digest(json.dumps([_VERSION, how], sort_keys=True))
        return cls(cached("lsa", key, make), **options)

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the mean cosine of each word to the others of its sentence, shape (n, most words)."""
        rows = []
        lower = bool(self.vectors.info["lower"])
        for others, choices in zip(around(items, scope=self.scope, lower=lower), words, strict=True):
            units = unit(self._take(self._count(others)))
            mean = units.mean(axis=0) if len(units) else np.zeros(units.shape[1])
            rows.append([float(unit(self._sum(self.form(word))) @ mean) for word in choices])
        return pad(rows)

    def _count(self, others: Sequence[str]) -> list[int]:
        """Return the rows of those of the other words that count."""
        place = self.vectors.place
        rows = [place.get(word, -1) for word in others if self.punctuation or is_word(word)]
        return [row for row in rows if row >= self.skip]  # rows stand by falling frequency

    def _take(self, rows: Sequence[int]) -> Floats:
        taken = self.vectors.arrays["v"][np.array(rows, dtype=np.int64)].astype(np.float64)
        return np.asarray(taken * self._scale)

    def _sum(self, word: str) -> Floats:
        return np.asarray(self._take(self.vectors.rows(word)).sum(axis=0))


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
    n = matrix.shape[0]
    tf, columns = matrix.data, matrix.indices
    many = matrix.shape[1]
    if weighting == "tf-idf":
        seen = np.bincount(columns, minlength=many)
        tf *= np.log(n / np.maximum(seen, 1))[columns]
    elif weighting == "log-entropy":
        total = np.bincount(columns, weights=tf, minlength=many)
        # sum p ln p = (sum tf ln tf) / total - ln total
        inner = np.bincount(columns, weights=tf * np.log(tf), minlength=many)
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
    blocks = [matrix[at : at + _BLOCK] for at in range(0, matrix.shape[0], _BLOCK)]

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


def _randomized(matrix: Any, k: int, seed: int, *, progress: bool) -> tuple[Floats, Floats]:
    from sklearn.decomposition import TruncatedSVD  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    del progress
    svd = TruncatedSVD(k, algorithm="randomized", n_iter=7, random_state=seed).fit(matrix)
    return svd.components_.T, svd.singular_values_
