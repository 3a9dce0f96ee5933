"""Latent semantic analysis for sentence completion: a truncated SVD of sentences and words."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Literal, Self, cast, get_args

import numpy as np

from workbench.items.items import Items
from workbench.models.base import pad
from workbench.models.item_words import is_word
from workbench.models.vectors import Scope, VectorModel, Vectors, unit
from workbench.predictions.schema import Floats
from workbench.storage.errors import DataError, check_option, check_value
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus, Texts

Weighting = Literal["none", "tf-idf", "log-entropy"]

_SENTENCES = 80_000  # multiplied at a time
_SUMS = 4  # made concurrently: a constant, so that every machine adds in the same order
_BLOCK = 4, 16  # least and most vectors at once: with more, each takes less time, but more are needed
_TOLERANCE = 1e-8  # of residuals: the vectors are then as exact as float32 holds them
_ROUNDING = 1e-13  # of the greatest eigenvalue, or of 1 in a vector: what is smaller is rounding


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
    it scaled the vectors. The defaults are the best of 500 questions made of held-out books, with 95 % of
    the challenge's training texts: 44 % of them right, 42 % with tf-idf and 41 % with log-entropy (both
    without punctuation), 32 to 35 % with scaled vectors. Words that the model does not know have no vector
    and are left out; a candidate that it does not know has the cosine 0.

    Examples
    --------
    >>> from workbench.models import LSA
    >>> lsa = LSA.fit(wb.books("sample", "train"), dimensions=20, minimum=2)
    >>> questions = wb.load("sample", "test", variant="msrcc")
    >>> round(float(lsa.predict(questions)["p_correct"].mean()), 2)
    0.1
    """

    version = 2
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
        check_value("skip", skip, int(skip) == skip >= 0, "a whole number of 0 or more")
        self.scaled, self.skip, self.punctuation = scaled, skip, punctuation
        info = vectors.info
        self.name = f"LSA ({info['dimensions']}, {info['weighting']}{', scaled' if scaled else ''})"
        self._scale = np.asarray(vectors.arrays["s"]) if scaled else np.float32(1)

    def variant(self, **options: Any) -> LSA:
        """Return a model with the same vectors and other options, by the names of the class's options."""
        return LSA(self.vectors, **self._option_values | options)

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        dimensions: int = 300,
        weighting: Weighting = "none",
        minimum: int = 5,
        seed: int = 0,
        held_out: Items | None = None,
        **options: Any,
    ) -> Self:
        """Decompose the matrix of the sentences of a corpus and their words.

        Block Lanczos iterations on the words' side of the matrix find the exact vectors, until each residual
        is at most 1e-8 of the squared singular value: those of scikit-learn's `TruncatedSVD` with
        ``algorithm="arpack"``, which also makes the vectors of the sentences (5 GB for two million) and takes
        7 times as long for 2.3 million sentences (``python benchmarks/lsa.py``).

        The vectors are stored in ``cache/lsa``, and found there again for the same corpus and arguments.

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
        seed : int, default 0
            Starts the iterations.
        held_out : Items, optional
            Items that must not be in the texts: see :func:`workbench.contamination`.
        **options
            `scaled`, `scope`, `skip` and `punctuation` of the class.

        Raises
        ------
        DataError
            If an argument is unknown, or the corpus has no more words or sentences than dimensions.
        """
        check_option("weighting", weighting, get_args(Weighting))
        settings = {
            "dimensions": dimensions, "weighting": weighting, "minimum": minimum, "seed": seed,
        }  # fmt: skip
        return cls._fit(_decompose, texts, settings, held_out=held_out, options=options)

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the mean cosine of each word to the others of its sentence, shape (n, most words)."""
        rows, row_of = [], self.vectors.row_of
        for others, choices in zip(self._others(items), words, strict=True):
            context_ids = [row_of.get(word, -1) for word in others if self.punctuation or is_word(word)]
            units = unit(self._take([row for row in context_ids if row >= self.skip]))  # by falling frequency
            mean = units.mean(axis=0) if len(units) else np.zeros(units.shape[1])
            sums = [self._take(self.vectors.rows(self.form(word))).sum(axis=0) for word in choices]
            rows.append([float(unit(vector) @ mean) for vector in sums])
        return pad(rows)

    def _take(self, rows: Sequence[int]) -> Floats:
        """Return the vectors of words, shape (words, dimensions)."""
        taken = self.vectors.arrays["v"][np.array(rows, dtype=np.int64)].astype(np.float64)
        return np.asarray(taken * self._scale)


def _decompose(corpus: Corpus, info: dict[str, Any]) -> Vectors:
    """Return the singular vectors and values of the weighted matrix of sentences and words."""
    dimensions, minimum = info["dimensions"], info["minimum"]
    words, matrix = _matrix(corpus, minimum)
    weigh(matrix, info["weighting"])
    if not 0 < dimensions < min(matrix.shape) or not matrix.data.any():
        raise DataError(
            f"the texts have {matrix.shape[0]} sentences, {matrix.shape[1]} words seen {minimum} times or "
            f"more, {np.count_nonzero(matrix.data)} weights above 0: too few for {dimensions} dimensions",
            hint="take fewer dimensions, or more text",
        )
    row_blocks = [matrix[start : start + _SENTENCES] for start in range(0, matrix.shape[0], _SENTENCES)]
    del matrix  # the parts are copies
    v, s = _lanczos(row_blocks, dimensions, info["seed"])
    v[np.abs(v).max(axis=1) <= _ROUNDING] = 0  # words without weight, not vectors of any direction
    return Vectors(words, {"v": v.astype(np.float32), "s": s.astype(np.float32)}, info)


def _matrix(corpus: Corpus, minimum: int) -> tuple[list[str], Any]:
    """Return the words seen often enough, and how often each sentence has each: CSR (sentences, words)."""
    from scipy.sparse import csr_array  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    n = int(np.searchsorted(-np.asarray(corpus.counts), -minimum, side="right"))  # counts fall
    frequent = np.asarray(corpus.ids) < n
    ends = np.concatenate([[0], np.cumsum(frequent)])[np.asarray(corpus.starts)]
    ids = np.asarray(corpus.ids)[frequent].astype(np.int32)
    matrix = csr_array((np.ones(len(ids)), ids, ends.astype(np.int32)), shape=(len(ends) - 1, n))
    matrix.sum_duplicates()
    return list(corpus.words[:n]), matrix


def weigh(matrix: Any, weighting: Weighting) -> None:
    """Turn counts tf of words in sentences, floats in CSR (sentences N, words), into weights, in place.

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


def _lanczos(row_blocks: Sequence[Any], k: int, seed: int) -> tuple[Floats, Floats]:
    """Return the k first right singular vectors, as columns, and the singular values, falling.

    The rows of the matrix come in parts. Block Lanczos iterations (Golub and Underwood 1977) on the
    Gram matrix of the words, with full reorthogonalisation and thick restarts (Wu and Simon 2000), end
    when all k residuals are small.
    """
    n, rng = row_blocks[0].shape[1], np.random.default_rng(seed)
    width = int(np.clip(k // 12, *_BLOCK))
    n_columns = min(n, 4 * (k + width))  # columns of the basis, before it is reduced to the best half
    basis, projected = np.empty((n, n_columns), order="F"), np.zeros((n_columns, n_columns))
    block, size = np.linalg.qr(rng.standard_normal((n, min(n, width))))[0], 0
    largest, before = 0.0, np.full(k, np.nan)
    with (
        ThreadPoolExecutor(os.cpu_count()) as pool,
        progress_bar(label="LSA", unit="products") as bar,
    ):
        while True:
            start, size = size, size + block.shape[1]
            basis[:, start:size] = block
            image = _gram_product(row_blocks, block, pool)
            bar.update(size - start)
            largest = max(largest, float(np.linalg.norm(image)))
            along, block, below = _orthogonal(image, basis[:, :size], _ROUNDING * largest, rng)
            projected[:size, start:size], projected[start:size, :size] = along, along.T
            values, vectors = (array[..., ::-1] for array in np.linalg.eigh(projected[:size, :size]))
            residuals = np.sqrt(((below @ vectors[start:size, :k]) ** 2).sum(axis=0))
            allowed = np.maximum(_TOLERANCE * values[:k], _ROUNDING * values[0])
            converged = size >= k and bool((residuals <= allowed).all())
            exhausted = not below.diagonal().all()  # the random columns may show more of equal values
            if size == n or (converged and (not exhausted or np.allclose(values[:k], before, _TOLERANCE))):
                return basis[:, :size] @ vectors[:, :k], np.sqrt(np.maximum(values[:k], 0))
            before = values[:k] if converged else np.full(k, np.nan)
            block = block[:, : n - size]
            if size + block.shape[1] > n_columns:
                size = n_columns // 2
                basis[:, :size] = basis[:, : len(vectors)] @ vectors[:, :size]
                projected[:size, :size] = np.diag(values[:size])


def _gram_product(row_blocks: Sequence[Any], block: Floats, pool: ThreadPoolExecutor) -> Floats:
    """Return the Gram matrix of all rows, which come in parts, times a block of vectors."""

    def product(first: int) -> Floats:
        total = np.zeros(block.shape)
        for rows in row_blocks[first::_SUMS]:
            total += rows.T @ (rows @ block)
        return total

    return cast("Floats", sum(pool.map(product, range(_SUMS))))


def _orthogonal(
    image: Floats, basis: Floats, rounding: float, rng: np.random.Generator
) -> tuple[Floats, Floats, Floats]:
    """Return along, block and below: image = basis @ along + block @ below, the block orthonormal.

    Where nothing but rounding is left beside the basis, the block has random columns: the basis can grow.
    """
    along = basis.T @ image
    block, below = np.linalg.qr(image - basis @ along)
    empty = np.abs(below.diagonal()) <= rounding
    below[empty] = 0
    block[:, empty] = rng.standard_normal((len(block), int(empty.sum())))
    again = basis.T @ block
    block, upper = np.linalg.qr(block - basis @ again)
    return along + again @ below, block, upper @ below
