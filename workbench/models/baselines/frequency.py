"""Baselines that count the candidates, or compare the query with the context; they learn nothing.

Hill et al. (2016), "The Goldilocks Principle", section 4.1 and appendix A (the text is lower-cased).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.items.schema import DataError
from workbench.models.baselines.distance import WordDistance
from workbench.models.baselines.passage_baseline import PassageBaseline
from workbench.models.passage import (
    Passage,
    is_word,
    occurrences,
    one_of,
    places_of,
)
from workbench.runs.predictions import Floats
from workbench.storage.cache import digest
from workbench.storage.files import atomic_path
from workbench.texts.sources import Texts, corpus_of

__all__ = ["MaximumFrequency", "SlidingWindow", "WordDistance"]

_SAME = 1e-9  # sums of logarithms that differ by less are equal
_NOWHERE = -(2**40)  # before all tokens
_WEIGHTS = ("inverse", "idf", "none")
_OVERLAPS = ("tokens", "bag", "types")
_LENGTHS = ("set", "words")


class MaximumFrequency(PassageBaseline):
    """Choose the word that is most frequent in a corpus or in the context of the item.

    Hill et al. (2016), section 4.1. A candidate of several tokens counts in the context as often as they
    stand there in a row, in a corpus as often as the rarest of them.

    Parameters
    ----------
    where : {"corpus", "context"}
    corpus : Corpus or mapping of str to int, optional
        The training corpus, or its words' counts; needed for ``"corpus"``.
    query : bool, default False
        Whether the target sentence counts as context.
    lower : bool, default True
        Whether case does not count.

    Notes
    -----
    Scores are counts. Without candidates, both choose from the words of the passage.
    """

    version = 1
    fitted_on = "texts"
    title = "Maximum frequency"
    _defaults: ClassVar[dict[str, Any]] = {"where": None, "query": False, "lower": True, "counts": None}

    def __init__(
        self,
        where: Literal["corpus", "context"],
        *,
        corpus: Any = None,
        query: bool = False,
        lower: bool = True,
    ) -> None:
        one_of("where", where, ("corpus", "context"))
        if (where == "corpus") != (corpus is not None):
            problem = "needs a corpus" if corpus is None else "counts in the context, and takes no corpus"
            raise DataError(
                f"MaximumFrequency({where!r}) {problem}", remedy="pass corpus= with 'corpus' alone"
            )
        super().__init__(where=where, query=query, lower=lower)
        options = [f"{k} = {v}" for k, v in (("query", query), ("lower", lower)) if v != self._defaults[k]]
        self.name = f"{self.title} ({', '.join([where, *options])})"
        rows = {"cbt": f"MAXIMUM FREQUENCY ({where.upper()})"}
        if where == "context":
            rows["cnnqa"] = "MAXIMUM FREQUENCY (ARTICLE)"
        self.systems = rows  # type: ignore[misc] # by where it counts
        self.counts: dict[str, int] | None = None
        self._training: dict[str, Any] = {}
        if corpus is not None:
            self.counts, self._training = _counts(corpus, lower=lower)
            listed = json.dumps(sorted(self.counts.items()))
            self._options["counts"] = digest(listed)

    @classmethod
    def fit(
        cls, texts: Texts, *, lower: bool = True, tokenised: bool | None = None, progress: bool = True
    ) -> Self:
        """Count the words of texts, as :func:`workbench.texts.sources.corpus_of` takes them."""
        corpus = corpus_of(texts, lower=lower, tokenised=tokenised, progress=progress)
        return cls("corpus", corpus=corpus, lower=lower)

    @property
    def training(self) -> dict[str, Any]:
        """The corpus: its digest and number of tokens."""
        return dict(self._training)

    def _score(
        self, context: Sequence[str], passage: Passage, wanted: Sequence[tuple[str, ...]]
    ) -> Sequence[float]:
        del passage
        if self.counts is not None:
            return [min(self.counts.get(token, 0) for token in word) for word in wanted]
        counts = Counter(context)
        where = places_of(context) if any(len(word) > 1 for word in wanted) else {}
        return [
            counts[word[0]] if len(word) == 1 else len(occurrences(context, word, where.get(word[0], ())))
            for word in wanted
        ]

    def _save(self, folder: Path) -> None:
        if self.counts is None:
            return
        table = pa.table({"word": list(self.counts), "count": list(self.counts.values())})
        with atomic_path(folder / "counts.parquet") as path:
            pq.write_table(table.replace_schema_metadata({"training": json.dumps(self._training)}), path)

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        options = {name: config[name] for name in ("where", "query", "lower")}
        if config["where"] == "context":
            return cls(**options)
        table = pq.read_table(folder / "counts.parquet")
        counts = zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)
        model = cls(corpus=dict(counts), **options)
        model._training = json.loads(table.schema.metadata[b"training"])
        return model


class SlidingWindow(PassageBaseline):
    """Choose the word which, with the query, has most in common with some window of the context.

    Hill et al. (2016), section 4.1, after Richardson et al. (2013), "MCTest", algorithm 1: the
    query with the candidate is a bag of words S, the window as long as S has different words, and the score
    is the most that one window reaches: the sum, over its tokens that are in S, of log(1 + 1 / count
    in the context). The first names no formula ("word-overlap weighted TFIDF-style based on frequencies
    in the context"), so what the second defines is the default, and other readings are options.

    Parameters
    ----------
    weight : {"inverse", "idf", "none"}
        Of a word that occurs c times among the n tokens of the context: log(1 + 1 / c), log(n / c), or 1.
    overlap : {"tokens", "bag", "types"}
        Whether a word counts as often as it is in the window, at most as often as it is in the query with
        the candidate, or once.
    length : {"set", "words"}
        Whether the window has as many tokens as the query with the candidate has different words, or tokens.
    punctuation : bool, default True
        Whether tokens without letter or digit count as words.
    query : bool, default False
        Whether the target sentence counts as context.
    lower : bool, default True
        Whether case does not count.
    """

    version = 1
    title = "Sliding window"
    systems: ClassVar[dict[str, str]] = {"cbt": "SLIDING WINDOW", "cnnqa": "SLIDING WINDOW"}
    _defaults: ClassVar[dict[str, Any]] = {
        "weight": "inverse", "overlap": "tokens", "length": "set", "punctuation": True, "query": False,
        "lower": True,
    }  # fmt: skip

    def __init__(
        self,
        *,
        weight: Literal["inverse", "idf", "none"] = "inverse",
        overlap: Literal["tokens", "bag", "types"] = "tokens",
        length: Literal["set", "words"] = "set",
        punctuation: bool = True,
        query: bool = False,
        lower: bool = True,
    ) -> None:
        one_of("weight", weight, _WEIGHTS)
        one_of("overlap", overlap, _OVERLAPS)
        one_of("length", length, _LENGTHS)
        self.weight, self.overlap, self.length, self.punctuation = weight, overlap, length, bool(punctuation)
        super().__init__(
            weight=weight, overlap=overlap, length=length, punctuation=self.punctuation, query=query,
            lower=lower,
        )  # fmt: skip

    def _score(self, context: Sequence[str], passage: Passage, wanted: Sequence[tuple[str, ...]]) -> Floats:
        if not self.punctuation:
            context = [word for word in context if is_word(word)]
        asked = [w for w in passage.left + passage.right if self.punctuation or is_word(w)]
        where = places_of(context)
        inside = Counter(asked)
        shared = self._spots(inside, inside, where)
        places: list[int] = []
        earlier: list[int] = []
        often: list[int] = []
        n_places, sizes = [], []
        for word in wanted:
            bag = inside + Counter(word) if self.overlap == "bag" else inside
            new = inside.keys().isdisjoint(word)
            before = len(places)
            for part in (
                shared if new else self._spots(inside.keys() - set(word), bag, where),
                self._spots(set(word), bag, where),
            ):
                places += part[0]
                earlier += part[1]
                often += part[2]
            n_places.append(len(places) - before)
            sizes.append(len(inside.keys() | set(word)) if self.length == "set" else len(asked) + len(word))
        if not places:
            return np.zeros(len(wanted))
        place, row = np.array(places, dtype=np.int64), np.repeat(np.arange(len(wanted)), n_places)
        # a token counts in all windows that begin in first ... place
        first = np.maximum(place - np.repeat(sizes, n_places), earlier) + 1
        low = int(first.min())
        change = np.zeros((len(wanted), len(context) - low + 1))
        weight = self._weights(np.array(often), len(context))
        np.add.at(change, (row, first - low), weight)
        np.add.at(change, (row, place - low + 1), -weight)
        return _snapped(change.cumsum(axis=1).max(axis=1))

    def _spots(
        self, words: Iterable[str], bag: Mapping[str, int], where: Mapping[str, list[int]]
    ) -> tuple[list[int], list[int], list[int]]:
        """Return where some words stand, for each place the one that no window may hold too, and its count.

        A word that may count k times is one too many in a window that reaches back to the k-th token
        of the same word before it.
        """
        places: list[int] = []
        earlier: list[int] = []
        often: list[int] = []
        for word in words:
            if spots := where.get(word):
                k = {"tokens": len(spots), "types": 1, "bag": bag[word]}[self.overlap]
                places += spots
                often += [len(spots)] * len(spots)
                earlier += [_NOWHERE] * min(k, len(spots)) + spots[: max(len(spots) - k, 0)]
        return places, earlier, often

    def _weights(self, counts: Any, n: int) -> Any:
        """Return the weight of words that occur so often among `n`."""
        if self.weight == "none":
            return np.ones(len(counts))
        return np.log1p(1 / counts) if self.weight == "inverse" else np.log(n / counts)


def _snapped(values: Floats) -> Floats:
    """Return values of which those that differ by a rounding error are equal."""
    order = np.argsort(values)
    ordered = values[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > _SAME)
    snapped = np.empty(len(values))
    snapped[order] = ordered[first].repeat(np.diff(first, append=len(values)))
    return snapped


def _counts(corpus: Any, *, lower: bool) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the counts of a corpus' words, and what it is."""
    if isinstance(corpus, Mapping):
        pairs = [(str(word), int(count)) for word, count in corpus.items()]
        training: dict[str, Any] = {}
    elif hasattr(corpus, "words") and hasattr(corpus, "counts"):
        pairs = list(zip(corpus.words, np.asarray(corpus.counts).tolist(), strict=True))
        training = {"corpus": corpus.sha256}
    else:
        raise DataError(
            f"the corpus is a {type(corpus).__name__}",
            remedy="pass a Corpus, or a mapping of words to counts",
        )
    counts: Counter[str] = Counter()
    for word, count in pairs:
        counts[word.lower() if lower else word] += count
    if not counts:
        raise DataError("the corpus holds no word")
    return dict(counts), {**training, "n_tokens": sum(counts.values())}
