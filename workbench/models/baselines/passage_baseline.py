"""Baselines that look at an item's passage: candidates are counted, or the query is laid over the context.

Hill et al. (2016), "The Goldilocks Principle", section 4.1 and appendix A (the text is lower-cased).
"""

from __future__ import annotations

import inspect
import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from workbench.items.items import Items
from workbench.models.base import Predictor, pad
from workbench.models.item_words import (
    Passage,
    ReadContext,
    distinct,
    is_word,
    occurrences,
    passages,
    positions_of,
    word_tokens,
)
from workbench.predictions.schema import Floats
from workbench.storage.cache import digest
from workbench.storage.errors import DataError, check_option, check_value
from workbench.storage.files import atomic_path, read_parquet
from workbench.texts.corpus import Corpus, Texts

_SAME = 1e-9  # sums of logarithms that differ by less are equal
_NOWHERE = -(2**40)  # before all tokens
Weight = Literal["inverse", "idf", "none"]
Overlap = Literal["tokens", "bag", "types"]
Length = Literal["set", "words"]
Within = Literal["query", "context"]
Where = Literal["corpus", "context"]


class PassageBaseline(Predictor):
    """A model that scores a word by its positions in the passage of the item.

    Items without candidates are chosen from the different words of their passage.

    Parameters
    ----------
    query : bool
        Whether the target sentence belongs to the context, with an empty token for its blank.
    lower : bool
        Whether words are compared without regard to case.
    """

    title: ClassVar[str]

    def __init__(self, *, query: bool, lower: bool, **options: Any) -> None:
        self.query, self.lower = bool(query), bool(lower)
        self._options = {**options, "query": self.query, "lower": self.lower}
        parameters = inspect.signature(type(self)).parameters
        defaults = {k: each.default for k, each in parameters.items() if each.kind is each.KEYWORD_ONLY}
        changed = [f"{k} = {v}" for k, v in self._options.items() if k not in defaults or v != defaults[k]]
        self.name = self.title + (f" ({', '.join(changed)})" if changed else "")

    @property
    def config(self) -> dict[str, Any]:
        """The arguments."""
        return dict(self._options)

    @property
    def context(self) -> ReadContext | None:
        """The whole passage."""
        return ReadContext("both")

    def choices(self, items: Items) -> list[list[str]]:
        """Return the different words of each passage."""
        return [
            distinct(passage.words, lower=self.lower, answer=item.answer)
            for item, passage in passages(items, lower=False)
        ]

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Score words by the passages of the items; shape (n, most words)."""
        rows = []
        for (item, passage), row in zip(passages(items, lower=self.lower), words, strict=True):
            wanted = [word_tokens(item, word, lower=self.lower) for word in row]
            context = (*passage.context, *passage.left, "", *passage.right) if self.query else passage.context
            rows.append(self._score(context, passage, wanted) if wanted else [])
        return pad(rows)

    @abstractmethod
    def _score(
        self, context: Sequence[str], passage: Passage, wanted: Sequence[tuple[str, ...]]
    ) -> Sequence[float] | Floats:
        """Score the words of one item, each given as its tokens."""


class MaximumFrequency(PassageBaseline):
    """Choose the word that is most frequent in a corpus or in the context of the item.

    Hill et al. (2016), section 4.1. A candidate of several tokens counts in the context as often as they
    stand there in a row, in a corpus as often as the rarest of them.

    Parameters
    ----------
    where : {"corpus", "context"}
    corpus : Corpus or mapping of str to int, optional
        The training corpus, or its words' counts; needed for ``"corpus"``.
    query, lower : bool
        See `PassageBaseline`.

    Examples
    --------
    >>> from workbench.models import MaximumFrequency
    >>> questions = wb.load("sample", variant="cbt")
    >>> round(float(MaximumFrequency("context").predict(questions)["p_correct"].mean()), 2)
    0.17
    """

    version = 1
    fitted_on = "texts"
    title = "Maximum frequency"

    def __init__(
        self,
        where: Where,
        *,
        corpus: Any = None,
        query: bool = False,
        lower: bool = True,
    ) -> None:
        check_option("where", where, get_args(Where))
        valid = (where == "corpus") == (corpus is not None)
        check_value("corpus", corpus, valid, "a corpus with where='corpus', and only then")
        super().__init__(where=where, query=query, lower=lower)
        self.name = self.name.replace("where = ", "")
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

    @property
    def context(self) -> ReadContext | None:
        """The whole passage, or nothing of it; it does not say where the target sentence is left out."""
        if self.counts is not None:
            return ReadContext("none")
        return super().context if self.query else None

    @classmethod
    def fit(cls, texts: Texts, *, lower: bool = True, tokenised: bool | None = None) -> Self:
        """Count the words of texts, as :meth:`workbench.texts.corpus.Corpus.of` takes them."""
        corpus = Corpus.of(texts, lower=lower, tokenised=tokenised)
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
        where = positions_of(context) if any(len(word) > 1 for word in wanted) else {}
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
        table = read_parquet(folder / "counts.parquet", what="this table of counts")
        counts = zip(table["word"].to_pylist(), table["count"].to_pylist(), strict=True)
        model = cls(corpus=dict(counts), **options)
        model._training = json.loads(table.schema.metadata[b"training"])
        return model


class SlidingWindow(PassageBaseline):
    """Choose the word that, with the query, has the largest overlap with a window of the context.

    Hill et al. (2016), section 4.1, after Richardson et al. (2013), "MCTest", algorithm 1: the
    query with the candidate is a bag of words S, the window is as long as S has different words, and the
    score is the maximum over windows of the sum, over the tokens that are in S, of log(1 + 1 / count
    in the context). Hill et al. give no formula ("word-overlap weighted TFIDF-style based on frequencies
    in the context"), so the definition of Richardson et al. is the default, and other readings are options.

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
    query, lower : bool
        See `PassageBaseline`.
    """

    version = 1
    title = "Sliding window"
    systems: ClassVar[dict[str, str]] = {"cbt": "SLIDING WINDOW", "cnnqa": "SLIDING WINDOW"}

    def __init__(
        self,
        *,
        weight: Weight = "inverse",
        overlap: Overlap = "tokens",
        length: Length = "set",
        punctuation: bool = True,
        query: bool = False,
        lower: bool = True,
    ) -> None:
        check_option("weight", weight, get_args(Weight))
        check_option("overlap", overlap, get_args(Overlap))
        check_option("length", length, get_args(Length))
        self.weight, self.overlap, self.length, self.punctuation = weight, overlap, length, bool(punctuation)
        super().__init__(
            weight=weight, overlap=overlap, length=length, punctuation=self.punctuation, query=query,
            lower=lower,
        )  # fmt: skip

    def _score(self, context: Sequence[str], passage: Passage, wanted: Sequence[tuple[str, ...]]) -> Floats:
        if not self.punctuation:
            context = [word for word in context if is_word(word)]
        asked = [w for w in passage.left + passage.right if self.punctuation or is_word(w)]
        where = positions_of(context)
        inside = Counter(asked)
        shared = self._spots(inside, inside, where)
        spots: list[tuple[int, int, int]] = []
        n_places, sizes = [], []
        for word in wanted:
            bag = inside + Counter(word) if self.overlap == "bag" else inside
            before = len(spots)
            if inside.keys().isdisjoint(word):
                spots += shared
            else:
                spots += self._spots(inside.keys() - set(word), bag, where)
            spots += self._spots(set(word), bag, where)
            n_places.append(len(spots) - before)
            sizes.append(len(inside.keys() | set(word)) if self.length == "set" else len(asked) + len(word))
        if not spots:
            return np.zeros(len(wanted))
        position, earlier, often = np.array(spots, dtype=np.int64).T
        row = np.repeat(np.arange(len(wanted)), n_places)
        # a token counts in all windows that begin in first ... place
        first = np.maximum(position - np.repeat(sizes, n_places), earlier) + 1
        low = int(first.min())
        change = np.zeros((len(wanted), len(context) - low + 1))
        weight = self._weights(often, len(context))
        np.add.at(change, (row, first - low), weight)
        np.add.at(change, (row, position - low + 1), -weight)
        return _snapped(change.cumsum(axis=1).max(axis=1))

    def _spots(
        self, words: Iterable[str], bag: Mapping[str, int], where: Mapping[str, list[int]]
    ) -> list[tuple[int, int, int]]:
        """Return the places of words, for each the place that no window may include too, and word counts.

        Where a word may count k times, a window must not reach back to the k-th of its tokens before.
        """
        spots = []
        for word in words:
            positions = where.get(word, [])
            k = {"tokens": len(positions), "types": 1, "bag": bag[word]}[self.overlap]
            blocked = [*[_NOWHERE] * k, *positions]
            spots += [(position, blocked[i], len(positions)) for i, position in enumerate(positions)]
        return spots

    def _weights(self, counts: Any, n: int) -> Any:
        """Return the weights of words by their counts among `n` tokens."""
        if self.weight == "none":
            return np.ones(len(counts))
        return np.log1p(1 / counts) if self.weight == "inverse" else np.log(n / counts)


class WordDistance(PassageBaseline):
    """Choose the word with a mention in the context that is surrounded by the words of the query.

    Hill et al. (2016), "The Goldilocks Principle", section 4.1, after Hermann et al. (2015): the query is
    aligned with the context so that its blank is on a mention of the candidate. Each of its other words
    costs the distance, in tokens, to the nearest equal word, at most `m`. The score is the lowest sum of
    all mentions, negated; a word that the context does not mention has a score below all others.

    Parameters
    ----------
    m : int, default 5
        The highest cost of a word; 5 was the best in the paper on CBT's validation questions.
    within : {"query", "context"}
        Where the nearest equal word may be: in the part of the context that is aligned with the query, as
        Hill et al. define it, or anywhere in the context, as Hermann et al. do.
    mention : bool, default True
        Whether the mention itself counts where it equals another word of the query, as by the formula of
        Hill et al.; it makes words of the query cheap candidates.
    punctuation : bool, default True
        Whether tokens of the query without letter or digit have a cost.
    query, lower : bool
        See `PassageBaseline`.
    """

    version = 1
    title = "Word distance"
    systems: ClassVar[dict[str, str]] = {"cbt": "WORD DISTANCE MODEL", "cnnqa": "WORD DISTANCE MODEL"}

    def __init__(
        self,
        m: int = 5,
        *,
        within: Within = "query",
        mention: bool = True,
        punctuation: bool = True,
        query: bool = False,
        lower: bool = True,
    ) -> None:
        check_value("m", m, int(m) == m >= 1, "a whole number from 1 on")
        check_option("within", within, get_args(Within))
        self.m, self.within = int(m), within
        self.mention, self.punctuation = bool(mention), bool(punctuation)
        super().__init__(
            m=self.m, within=within, mention=self.mention, punctuation=self.punctuation, query=query,
            lower=lower,
        )  # fmt: skip

    @classmethod
    def tuned(cls, items: Items, values: Iterable[int] = range(1, 11), **options: Any) -> Self:
        """Return the model with the first `m` of the best expected accuracy on items with answers."""
        models = [cls(m, **options) for m in values]
        if not models or not items.frame["answer"].notna().any():
            raise DataError("there is nothing to tune by", hint="pass values of m, and items with answers")
        return max(models, key=lambda model: float(model.predict(items, top_k=1)["p_correct"].mean()))

    def _score(self, context: Sequence[str], passage: Passage, wanted: Sequence[tuple[str, ...]]) -> Floats:
        where = positions_of(context)
        ids = {word: index for index, word in enumerate(where)}
        text = np.array([ids.get(word, -1) for word in context], dtype=np.int64)
        before, after = passage.left, passage.right
        asked = [ids.get(word, -2) for word in before + after]  # -1 and -2: nothing equals them
        counted = np.array([self.punctuation or is_word(word) for word in before + after], dtype=bool)
        scores = np.full(len(wanted), -self.m * int(counted.sum()) - 1.0)
        for size in {len(word) for word in wanted}:
            mentions = [
                (position, index)
                for index, word in enumerate(wanted)
                if len(word) == size
                for position in occurrences(context, word, where.get(word[0], ()))
            ]
            if mentions:
                position, index = np.array(mentions).T
                query = np.array([*asked[: len(before)], *[-2] * size, *asked[len(before) :]], dtype=np.int64)
                blank = slice(len(before), len(before) + size)
                cost = self._costs(text, query, position - len(before), blank)
                counted_cost = np.delete(cost, blank, axis=1)[:, counted]
                np.maximum.at(scores, index, -counted_cost.sum(axis=1).astype(float))
        return scores

    def _costs(self, text: Any, query: Any, starts: Any, blank: slice) -> Any:
        """Return the cost of each word of the query, aligned with the text at each start: (starts, query)."""
        length, reach = len(query), min(self.m, len(text) + len(query)) - 1
        margin = length + reach  # the query may hang over both ends
        padded = np.pad(text, margin, constant_values=-1)
        around = padded[starts[:, None] + margin + np.arange(-reach, length + reach)]
        if self.within == "query":
            around[:, :reach] = around[:, reach + length :] = -1
        if not self.mention:
            around[:, reach + blank.start : reach + blank.stop] = -1
        cost = np.full((len(starts), length), self.m)
        for far in range(reach, -1, -1):
            before = around[:, reach - far : reach - far + length] == query
            after = around[:, reach + far : reach + far + length] == query
            cost[before | after] = far
        return cost


def _snapped(values: Floats) -> Floats:
    """Return the values, equal where they differ by rounding errors."""
    order = np.argsort(values)
    ordered = values[order]
    first = np.flatnonzero(np.diff(ordered, prepend=-np.inf) > _SAME)
    snapped = np.empty(len(values))
    snapped[order] = ordered[first].repeat(np.diff(first, append=len(values)))
    return snapped


def _counts(corpus: Any, *, lower: bool) -> tuple[dict[str, int], dict[str, Any]]:
    """Return the word counts of a corpus and its description."""
    if isinstance(corpus, Mapping):
        pairs: Iterable[tuple[str, int]] = corpus.items()
        training: dict[str, Any] = {}
    elif hasattr(corpus, "words") and hasattr(corpus, "counts"):
        pairs = zip(corpus.words, np.asarray(corpus.counts).tolist(), strict=True)
        training = {"corpus": corpus.sha256}
    else:
        pairs, training = (), {}
    counts: Counter[str] = Counter()
    for word, count in pairs:
        counts[word.lower() if lower else word] += int(count)
    expected = "a Corpus, or a mapping of words to counts, with a word at least"
    check_value("corpus", corpus, bool(counts), expected)
    return dict(counts), {**training, "n_tokens": sum(counts.values())}
