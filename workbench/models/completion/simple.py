"""The simple 4-gram of Zweig and Burges (2012), section 4.1: points for n-grams that occur in the texts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from workbench.items.items import Items
from workbench.models.base import Predictor, pad
from workbench.models.item_words import ReadContext, passages, word_tokens
from workbench.predictions.schema import Floats
from workbench.storage import cache
from workbench.storage.errors import check_value
from workbench.storage.progress import progress_bar
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.ngram_hash import BLOCK, HashSet, rolling_hashes, word_codes

Ints = npt.NDArray[np.int64]

POINTS = {2: 1, 3: 2, 4: 3}
"""Points of a bigram, a trigram and a 4-gram (section 4.1)."""

_VERSION = 1  # of what is counted
_SCHEMA = pa.schema([("count", pa.int64())])


class Simple4Gram(Predictor):
    """Count the n-grams of the sentence that hold the word and occur in the texts.

    A sentence gets "one for each bigram match, [...] two for each trigram match, and [...] three for
    each 4-gram match, where a match means that the N-gram in the test sentence containing the focus
    word occurs at least once in the background data" (section 4.1; 34 %).

    Parameters
    ----------
    corpus : Corpus
        The background data, read once for the n-grams of all items; their counts are kept in
        ``cache/simple-4-gram``.
    points : mapping of int to float, default {2: 1, 3: 2, 4: 3}
        Points by length of the n-gram.
    minimum : int, default 1
        How often an n-gram must occur to match.

    Notes
    -----
    N-grams do not cross the ends of a sentence, and the ends are no words. An answer of several tokens
    (``king 's``) must be in the n-gram as a whole. Ties are frequent; see ``p_correct`` in the predictions.

    Examples
    --------
    >>> from workbench.models import Simple4Gram
    >>> model = Simple4Gram.fit(wb.books("sample", "train"))
    >>> questions = wb.load("sample", "test", variant="msrcc")
    >>> round(float(model.predict(questions)["p_correct"].mean()), 2)
    0.24
    """

    version = 1
    fitted_on = "texts"
    name = "Simple 4-gram"
    systems: ClassVar[dict[str, str]] = {"msrcc": "Simple 4-gram"}

    def __init__(
        self,
        corpus: Corpus,
        *,
        points: dict[int, float] | dict[str, float] | None = None,
        minimum: int = 1,
    ) -> None:
        self.corpus, self.minimum = corpus, minimum
        self.points = {int(n): float(value) for n, value in (POINTS if points is None else points).items()}
        check_value(
            "points", points, min(self.points, default=0) >= 1, "points of n-grams of one word or more"
        )
        check_value("minimum", minimum, minimum >= 1, "1 or more")
        self._place = {word: index for index, word in enumerate(corpus.words)}

    @property
    def context(self) -> ReadContext:
        """The words of the target sentence that share an n-gram with the blank."""
        return ReadContext("both", max(self.points) - 1, sentence=True)

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        lower: bool = True,
        tokenised: bool | None = None,
        **options: Any,
    ) -> Self:
        """Return the model of texts, as :meth:`workbench.texts.corpus.Corpus.of` takes them.

        `options` are `points` and `minimum` of the class.
        """
        corpus = Corpus.of(texts, lower=lower, tokenised=tokenised)
        return cls(corpus, **options)

    @property
    def config(self) -> dict[str, Any]:
        """The points, and the corpus by its digest."""
        points = {str(n): value for n, value in self.points.items()}
        return {"corpus": self.corpus.sha256, "points": points, "minimum": self.minimum}

    @property
    def training(self) -> dict[str, Any]:
        """The corpus of the n-gram counts."""
        return {"corpus": self.corpus.sha256}

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the points of each word, shape (n, most words)."""
        scores = pad([[0.0] * len(row) for row in words])
        rows: dict[int, list[tuple[int, ...]]] = {n: [] for n in self.points}
        where: dict[int, list[tuple[int, int]]] = {n: [] for n in self.points}
        lower = self.corpus.lower
        for index, (item, passage) in enumerate(passages(items, lower=lower)):
            left_ids, right_ids = self._ids(passage.left), self._ids(passage.right)
            for column, word in enumerate(words[index]):
                focus = self._ids(word_tokens(item, word, lower=lower))
                for n in self.points:
                    grams = [gram for gram in _around(left_ids, focus, right_ids, n) if min(gram) >= 0]
                    rows[n] += grams
                    where[n] += [(index, column)] * len(grams)
        for n, points in self.points.items():
            if rows[n]:
                wanted, inverse = np.unique(np.array(rows[n], dtype=np.int64), axis=0, return_inverse=True)
                hit = ngram_counts(self.corpus, wanted) >= self.minimum
                cells = np.array(where[n])
                np.add.at(scores, (cells[:, 0], cells[:, 1]), points * hit[inverse.reshape(-1)])
        return scores

    def _ids(self, words: Sequence[str]) -> list[int]:
        return [self._place.get(word, -1) for word in words]

    def _save(self, folder: Path) -> None:
        shutil.copyfile(self.corpus.path, folder / "corpus")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        return cls(Corpus(folder / "corpus"), points=config["points"], minimum=config["minimum"])


def _around(
    left_ids: Sequence[int], focus: Sequence[int], right_ids: Sequence[int], n: int
) -> Iterator[tuple[int, ...]]:
    """Yield the n-grams that hold all of the focus."""
    before, after = list(left_ids[max(0, len(left_ids) - n) :]), list(right_ids[:n])
    line, offset = [*before, *focus, *after], len(before)
    for start in range(max(0, offset + len(focus) - n), min(offset, len(line) - n) + 1):
        yield tuple(line[start : start + n])


def ngram_counts(corpus: Corpus, grams: Ints) -> Ints:
    """Return how often n-grams (k, n), sorted indices into ``corpus.words``, occur within sentences: (k,)."""
    store = cache.Cache("simple-4-gram", _SCHEMA)
    rows = np.ascontiguousarray(grams, dtype=np.int64)
    key = cache.digest(str(_VERSION), corpus.sha256, str(rows.shape), rows.tobytes())
    table = store.get(key)
    if table is None:
        table = pa.table({"count": _count(corpus, rows)}, schema=_SCHEMA)
        store.put(key, table)
        cache.make_room()
    return np.asarray(table["count"].to_numpy())


def _count(corpus: Corpus, grams: Ints) -> Ints:
    k, n = grams.shape
    code = word_codes(len(corpus.words))
    [(_, [hashes])] = rolling_hashes(code[grams.T], [n])
    wanted = HashSet(hashes)
    starts, size = np.asarray(corpus.starts), len(corpus.ids)
    counts = np.zeros(k, dtype=np.int64)
    with progress_bar(size, label=f"{n}-grams", unit="tokens") as bar:
        for first in range(0, size, BLOCK):
            block = np.asarray(corpus.ids[first : first + BLOCK + n - 1]).astype(np.int32)
            bar.update(min(BLOCK, size - first))
            if len(block) < n:
                continue
            [(_, here)] = rolling_hashes(code[block], [n])
            position, rows = wanted.find(here)
            position += first
            inside = position + n <= starts[np.searchsorted(starts, position, side="right")]
            counts += np.bincount(rows[inside], minlength=k)
    result: Ints = counts[np.searchsorted(wanted.hashes, hashes)]
    return result
