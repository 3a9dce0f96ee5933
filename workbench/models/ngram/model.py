"""N-gram language models, with exact ranks over their vocabulary, and with a cache of the passage's words."""

from __future__ import annotations

import math
import operator
import shutil
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from workbench.items.changes import numbered, up_to, word_spans
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.models.item_words import Passage, ReadContext, lefts, passages, word_tokens
from workbench.models.ngram import estimate as estimating
from workbench.models.ngram.backoff import BackOff, Ids
from workbench.models.prediction_rows import Ranked
from workbench.models.text_scores import (
    Beginning,
    LongText,
    TextScores,
    check_beginning,
    scores_of_words,
)
from workbench.models.wrapper import WEIGHTS, Wrapper
from workbench.predictions.schema import UNKNOWN_SCORING, Floats, not_a_number
from workbench.storage.cache import make_room, touch
from workbench.storage.errors import DataError, check_option, check_value, reading
from workbench.texts.corpus import Corpus, Texts
from workbench.texts.overlap import check_held_out

LN10 = math.log(10)
_MAX_COUNT = 2**32 - 1  # counts have 32 bits
_KINDS = {"kneser-ney": "Kneser-Ney", "good-turing": "Good-Turing"}


class PositionScorer(Predictor):
    """A model that scores a word by a sum over its position and the positions after it.

    Attributes
    ----------
    after : bool
        Whether the words after the blank are scored too.
    """

    score_type = "log_prob"
    after: bool

    @abstractmethod
    def position_scores(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return natural log-probabilities by position, shape (n, most words, order).

        The first is that of the word, the others are those of the words after it; NaN where there is none.
        """

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities (n, most words) of words in the blank, if `after` with those after it.

        That is the part of the target sentence's natural log-probability that depends on the word.
        """
        values = self.position_scores(items, words)
        if not self.after:
            return values[:, :, 0]
        return np.where(np.isnan(values[:, :, 0]), np.nan, np.nansum(values, axis=2))

    def log_prob(self, items: Items) -> Floats:
        """Return the natural log-probability of each answer given the words before it, shape (n,)."""
        answers = items.frame["answer"].tolist()
        values = self.position_scores(items, [[a] if isinstance(a, str) else [] for a in answers])
        return values[:, 0, 0] if values.shape[1] else np.full(len(items), np.nan)

    def text_scores(
        self, items: Items, *, beginning: Beginning | None = None, window: LongText = "strided"
    ) -> TextScores:
        """Return the log-probabilities of texts after what stands before them in their sentence.

        A text at the beginning of a sentence comes after ``<s>``; ``</s>`` after it is not counted.
        """
        del window
        check_beginning(self.name, beginning, "BOS")
        starts = ["context" if any(words) else "BOS" for words in lefts(items, lower=False)]
        return scores_of_words(items, self.log_prob(items), starts)


class NGram(PositionScorer):
    """Predict a word by an n-gram model with Kneser-Ney or Good-Turing smoothing; made by `NGram.fit`.

    Parameters
    ----------
    folder : path
        The folder of the model.
    after : bool, default True
        Whether candidates are scored by all of the target sentence that depends on them, the words after
        the blank included, or by the words before it alone.
    unknown : {"shared", "unk"}, default "shared"
        How a word outside the vocabulary is counted: ``<unk>`` has the probability of all such words
        together; "shared" divides it by the number of different ones in the training text.
    name : str, optional
        The name in tables.
    checked_for : dict, optional
        The items that the texts were checked for (`fit` with ``held_out``).

    Examples
    --------
    >>> from workbench.models import NGram
    >>> ngram = NGram.fit(wb.books("sample", "train"), order=3)
    >>> ngram.expected(items[:1], top_k=3)["word"].tolist()
    ['.', ',', 'the']
    """

    version = 2
    fitted_on = "texts"
    options = ("after", "unknown", "name", "checked_for")

    def __init__(
        self,
        folder: Path | str,
        *,
        after: bool = True,
        unknown: str = "shared",
        name: str | None = None,
        checked_for: dict[str, Any] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.info = estimating.read_info(self.folder)
        touch(self.folder)
        check_option("unknown", unknown, UNKNOWN_SCORING[1:])
        self.after, self.unknown, self.checked_for = bool(after), unknown, checked_for
        with reading(self.folder, "this n-gram model", hint="fit it again"):
            self.order, self.lower = int(self.info["order"]), bool(self.info["lower"])
            self.smoothing = str(self.info["smoothing"])
            suffix = ", fallback discounts" if self.info["report"].get("fallback_discounts") else ""
            self.name = name or f"{self.order}-gram, {_KINDS[self.smoothing]}{suffix}"

    @classmethod
    def fit(
        cls,
        texts: Texts,
        *,
        order: int = 5,
        smoothing: str = "kneser-ney",
        vocabulary: int | Sequence[str] | None = 60_000,
        pruning: Sequence[int] | None = None,
        lower: bool = True,
        tokenised: bool | None = None,
        held_out: Items | None = None,
        memory: str = "2G",
        **options: Any,
    ) -> Self:
        """Estimate a model, or find the one of the same texts and settings.

        Parameters
        ----------
        texts : Corpus, path, book, or iterable of (str, path or book)
            A string is a sentence; a path is read as :func:`workbench.books` does.
        order : int, default 5
            Length of the longest n-grams.
        smoothing : {"kneser-ney", "good-turing"}
            Interpolated modified Kneser-Ney by ``lmplz`` (Heafield et al. 2013), or Katz back-off with
            Good-Turing discounts (Katz 1987).
        vocabulary : int, sequence of str or None
            The known words: the number of the most frequent ones (60,000: Paperno et al. 2016, section 5),
            a list, or all. Other words are counted as one, ``<unk>``.
        pruning : sequence of int, optional
            For each order, up to which count n-grams are left out: (0, 0, 0, 1) leaves out 4-grams that
            occur once; the last is for all higher orders too. The first is 0, and none is lower than the
            one before. An order of which nothing is left counts as not listed.
        lower : bool, default True
            Lower-case the texts, and the items.
        tokenised : bool, optional
            Whether the texts are tokens separated by spaces; by default this is detected.
        held_out : Items, optional
            Items that must not be in the texts: see :func:`workbench.contamination`.
        memory : str, default "2G"
            Memory for ``lmplz`` to sort in.
        **options
            `after`, `unknown` and `name` of the class, and `temporary`: the folder for the temporary files of
            ``lmplz``, by default that of the model.

        Raises
        ------
        DataError
            If the texts are empty or hold the items held out, a program is missing or fails, or the
            disk is full. No partial model is left.
        """
        check_option("smoothing", smoothing, tuple(_KINDS))
        check_value("order", order, isinstance(order, int) and order > 1, "a whole number of 2 or more")
        thresholds = [] if pruning is None else list(map(operator.index, pruning))
        valid = len(thresholds) <= order and thresholds == sorted(thresholds)
        valid = valid and thresholds[:1] in ([], [0]) and max(thresholds, default=0) < _MAX_COUNT
        expected = f"0, then counts that never fall, up to {_MAX_COUNT - 1:,}, at most one for each order"
        check_value("pruning", pruning, valid, expected)
        corpus = Corpus.of(texts, lower=lower, tokenised=tokenised)
        if corpus.lower != lower:
            raise DataError("the corpus is lower-cased" if corpus.lower else "the corpus is cased",
                            hint=f"pass lower={corpus.lower}")  # fmt: skip
        checked_for = check_held_out(corpus, held_out)
        folder = estimating.find_or_estimate(
            corpus, order=order, smoothing=smoothing, vocabulary=vocabulary, pruning=thresholds,
            memory=memory, temporary=options.pop("temporary", None),
        )  # fmt: skip
        model = cls(folder, checked_for=checked_for, **options)
        make_room()
        return model

    @classmethod
    def option_names(cls) -> list[str]:
        """Return the names of what `fit` takes as ``**options``."""
        return ["after", "unknown", "name", "temporary"]

    @property
    def systems(self) -> dict[str, str]:  # type: ignore[override] # depends on the smoothing
        """The row of the papers' table that the model reproduces, by data set."""
        if self.smoothing == "good-turing":
            return {"lambada": "N-Gram", "msrcc": f"Smoothed {self.order}-gram"}
        return {"lambada": "N-Gram", "cbt": "KNESER-NEY LANGUAGE MODEL"}

    @cached_property
    def model(self) -> BackOff:
        """The arrays of the model, mapped into memory."""
        return BackOff.open(self.folder)

    @property
    def vocabulary(self) -> list[str]:  # type: ignore[override] # read when it is asked for
        """The words that are ranked, the most frequent first."""
        return self.model.words

    @property
    def binary(self) -> Path:
        """KenLM's own model, which ``kenlm.Model`` reads; it is made when it is first asked for."""
        return estimating.kenlm_binary(self.folder, self.model)

    @property
    def config(self) -> dict[str, Any]:
        """The digest of the texts, the settings, and the options."""
        return self._option_values | self.info

    @property
    def context(self) -> ReadContext:
        """The last words before the blank in its sentence; the start of the sentence is one."""
        return ReadContext("before", self.order - 1, sentence=True, scores_rest=self.after)

    @property
    def training(self) -> dict[str, Any]:
        """The training text: digest, size, and whether it was checked for items."""
        return {**self.info["training"], "checked_for": self.checked_for}

    def form(self, word: str) -> str:
        """Return a word as the vocabulary has it."""
        return word.lower() if self.lower else word

    @property
    def unknown_share(self) -> float:
        """Natural logarithm of the number of words that share the probability of ``<unk>``; 0 for "unk"."""
        return math.log(max(1, int(self.info["unknown_types"]))) if self.unknown == "shared" else 0.0

    def blanks(self, items: Items) -> Iterator[tuple[list[int], list[int]]]:
        """Yield the ids of each target sentence from ``<s>`` to the blank, and from there to ``</s>``."""
        start, end = self.model.index["<s>"], self.model.index["</s>"]
        for _, passage in passages(items, lower=self.lower):
            yield [start, *self.model.ids(passage.left)], [*self.model.ids(passage.right), end]

    def answers(self, items: Items) -> Ids:
        """Return the id of each answer, -1 for one outside the vocabulary or of several tokens."""
        index, n_words = self.model.index, len(self.model.words)
        numbers = [index.get(self.form(a), -1) if isinstance(a, str) else -1 for a in items.frame["answer"]]
        ids = np.array(numbers, dtype=np.int64).reshape(-1)
        return np.where(ids < n_words, ids, -1)

    def position_scores(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities of words in the blank, and of each word after it.

        Parameters
        ----------
        items : Items (n,)
        words : sequence of sequence of str
            The words of each item, of one or more tokens.

        Returns
        -------
        array (n, most words, order)
            Natural logarithms: at 0 of the word in the blank, at 1 of the next word given it, and so on as
            far as it is in the context; the last may be the end of the sentence. NaN where there is none.
        """
        width = max((len(row) for row in words), default=0)
        scores = np.full((len(items), width, self.order), np.nan)
        contexts, wanted = [], []
        slots: list[int] = []
        unknown = self.model.index["<unk>"]
        shared = []  # where an unknown word is in the blank
        for row, (item, (left_words, right_words)) in enumerate(zip(items, self.blanks(items), strict=True)):
            first = len(left_words)
            for column, word in enumerate(words[row]):
                pieces = self.model.ids(word_tokens(item, word, lower=self.lower))
                line = [*left_words, *pieces, *right_words[: self.order - 1]]
                for position in range(first, len(line)):
                    step = max(0, position - first - len(pieces) + 1)
                    contexts.append(line[max(0, position - self.order + 1) : position])
                    wanted.append(line[position])
                    if not step and line[position] == unknown:
                        shared.append(len(slots))
                    slots.append((row * width + column) * self.order + step)
        ids = np.array(wanted, dtype=np.int64)[:, None]
        values = self.model.log10(self.model.contexts(contexts), ids)[:, 0].astype(float) * LN10
        values[shared] -= self.unknown_share
        if (bad := np.isnan(values)).any():  # not to be taken for a position without a word
            row = slots[int(bad.argmax())] // (width * self.order)
            raise not_a_number(
                np.nan,
                items.frame["item_id"].iloc[row],
                model=self.name,
                quantity="log-probability of a word",
            )
        flat = scores.reshape(-1)
        flat[slots] = 0
        np.add.at(flat, slots, values)
        return scores

    def contexts(self, items: Items) -> Ids:
        """Return the last words before each blank as ids, shape (n, order - 1); -1 where there are fewer."""
        start = self.model.index["<s>"]
        rows = [(start, *self.model.ids(words)) for words in lefts(items, lower=self.lower)]
        return self.model.contexts(rows)

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time."""
        for values in self.model.distribution(self.contexts(items), chunk=chunk):
            yield values.astype(float) * LN10

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among the vocabulary, exactly and without computing it all."""
        contexts, ids = self.contexts(items), self.answers(items)
        state, in_vocabulary = self.model.state(contexts), ids >= 0
        answer_values = self.model.log10(contexts, np.maximum(ids, 0)[:, None], state)[:, 0]
        above = self.model.count(state, answer_values)
        tied = self.model.count(state, answer_values, equal=True) - above
        values, words = self.model.top(contexts, top_k, state)
        log_prob = answer_values.astype(float) * LN10
        if not in_vocabulary.all():
            log_prob[~in_vocabulary] = self.log_prob(items.where(~in_vocabulary))
        names = np.array(self.model.words, dtype=object)[words]
        return Ranked(
            log_prob, above + 1, tied, in_vocabulary, names.tolist(), (values.astype(float) * LN10).tolist()
        )

    def cached(self, weight: float = 0.1, *, decay: float = 1.0) -> CachedNGram:
        """Return this model interpolated with the words of the context; see :class:`CachedNGram`."""
        return CachedNGram(self, weight, decay=decay)

    def _save(self, folder: Path) -> None:
        shutil.copytree(self.folder, folder / "model", ignore=shutil.ignore_patterns(".*"))

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        options = {name: config[name] for name in cls.options}
        return cls(folder / "model", **options)


class CachedNGram(Wrapper, PositionScorer):
    """Interpolate an n-gram model with the unigrams of the context.

    A word has the probability (1 - weight) P(word | n-gram context) + weight P(word | passage), where
    the second is its share of the passage's tokens before the blank, each token counting `decay` to the
    power of its distance. For a passage without tokens, the n-gram model is used alone.

    Parameters
    ----------
    base : NGram
    weight : float, default 0.1
        Weight of the cache, 0 <= weight < 1; :meth:`tuned` finds it on development data.
    decay : float, default 1
        1 counts all tokens alike (a plain unigram cache); less favours the last ones.

    Examples
    --------
    >>> cached = ngram.cached(0.2)
    >>> cached.name
    '3-gram, Kneser-Ney, cache 0.2'
    """

    version = 2
    options = ("weight", "decay")
    systems: ClassVar[dict[str, str]] = {
        "lambada": "N-Gram w/cache",
        "cbt": "KNESER-NEY LANGUAGE MODEL + CACHE",
    }
    base: NGram

    def __init__(self, base: NGram, weight: float = 0.1, *, decay: float = 1.0) -> None:
        check_value("weight", weight, 0 <= weight < 1, "0 <= weight < 1")
        check_value("decay", decay, 0 < decay <= 1, "0 < decay <= 1")
        self.base, self.weight, self.decay = base, float(weight), float(decay)
        self.unknown, self.after = base.unknown, base.after
        self.name = f"{base.name}, cache {weight:g}" + (f", decay {decay:g}" if decay < 1 else "")

    @property
    def context(self) -> ReadContext:
        """All before the blank: the cache holds its words."""
        return ReadContext("before", scores_rest=self.after)

    @property
    def vocabulary(self) -> list[str]:  # type: ignore[override] # read when it is asked for
        """The words that are ranked."""
        return self.base.vocabulary

    def text_scores(
        self, items: Items, *, beginning: Beginning | None = None, window: LongText = "strided"
    ) -> TextScores:
        """Return the log-probabilities of texts, word by word, as the cache holds the words of a text too."""
        scores = self.base.text_scores(items, beginning=beginning, window=window)
        words = [[span for span in word_spans(item) if span[0] >= item.answer_span[0]] for item in items]
        pairs = zip(items, words, strict=True)
        values = self.log_prob(numbered(up_to(item, word) for item, row in pairs for word in row))
        owners = np.repeat(np.arange(len(items)), list(map(len, words)))
        return scores._replace(log_prob=np.bincount(owners, values, len(items)).astype(float))

    def tuned(self, *sets: Items, weights: Sequence[float] = WEIGHTS, by: str = "accuracy") -> CachedNGram:
        """Return the model with the weight that is best on development or validation data.

        A weight that helps where the passage holds the answer costs accuracy where it does not: pass both
        kinds of items, and look at ``.trials`` of the result (:func:`workbench.charts.tuning` draws it).

        Parameters
        ----------
        *sets : Items
            One set or several, never those that are reported on; the mean over the sets decides.
        weights : sequence of float
            Weights to compare; of equally good ones the smallest is taken. A warning says where the best is
            at an edge.
        by : {"accuracy", "perplexity"}
            Highest expected accuracy, or lowest perplexity of the answers (geometric mean of the sets').

        Returns
        -------
        CachedNGram
            Its ``.trials`` is a DataFrame, one row per weight and set: weight, set (data set and split), n,
            accuracy (expected, a fraction), perplexity, median_rank, chosen.
        """
        return self._tuned(sets, by, weight=weights)

    def shares(self, passage: Passage) -> dict[str, float]:
        """Return the probability of each word by the cache alone."""
        words = [*passage.context, *passage.left]
        if self.decay == 1:
            return {word: count / len(words) for word, count in Counter(words).items()}
        weights = self.decay ** np.arange(len(words) - 1, -1, -1, dtype=float)
        total = weights.sum()
        shares: dict[str, float] = {}
        for word, weight in zip(words, weights, strict=True):
            shares[word] = shares.get(word, 0.0) + float(weight / total)
        return shares

    def _mix(self, plain: Floats, share: Floats) -> Floats:
        """Interpolate natural log-probabilities with shares."""
        with np.errstate(divide="ignore", invalid="ignore"):  # NaN where there is no word
            return np.asarray(np.logaddexp(np.log1p(-self.weight) + plain, np.log(self.weight * share)))

    def position_scores(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return log-probabilities as :meth:`NGram.position_scores` does, each interpolated with the cache.

        A word of several tokens has the product of its tokens' shares.
        """
        key = ("position", *items.frame["item_id"], *map(tuple, words))
        plain, share, has_cache = self._memoised(key, self._shares_by_position, items, words)
        mixed = np.where(np.isnan(plain), np.nan, self._mix(plain, share))
        return np.where(has_cache[:, None, None], mixed, plain)

    def _shares_by_position(
        self, items: Items, words: Sequence[Sequence[str]]
    ) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Return the n-gram model's scores, the shares in the same shape, and which items have words."""
        scores = self.base.position_scores(items, words)
        share, has_cache = np.zeros(scores.shape), np.zeros(len(scores), dtype=bool)
        for row, (item, passage) in enumerate(passages(items, lower=self.base.lower)):
            shares = self.shares(passage)
            has_cache[row] = bool(shares)
            after = [shares.get(word, 0.0) for word in passage.right[: self.base.order - 1]]
            share[row, :, 1 : len(after) + 1] = after
            for column, word in enumerate(words[row]):
                pieces = word_tokens(item, word, lower=self.base.lower)
                share[row, column, 0] = np.prod([shares.get(piece, 0.0) for piece in pieces])
        return scores, share, has_cache

    def distribution(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield natural log-probabilities of the whole vocabulary, (up to `chunk`, vocabulary) at a time."""
        passage_words = self._cached_words(items)
        start = 0
        for values in self.base.distribution(items, chunk=chunk):
            mixed = values + np.log1p(-self.weight)
            for row, (ids, share) in enumerate(passage_words[start : start + len(values)]):
                if not share:
                    mixed[row] = values[row]
                elif len(ids):
                    mixed[row, ids] = self._mix(values[row, ids], np.array(share))
            start += len(values)
            yield mixed

    def _cached_words(self, items: Items) -> list[tuple[Ids, list[float]]]:
        """Return the vocabulary's words of each passage, and their shares."""
        index, n_words = self.base.model.index, len(self.vocabulary)
        rows = []
        for _, passage in passages(items, lower=self.base.lower):
            pairs = [(index.get(w, n_words), s) for w, s in self.shares(passage).items()]
            pairs = [pair for pair in pairs if pair[0] < n_words] or [(0, 0.0)] * bool(pairs)
            rows.append((np.array([i for i, _ in pairs], dtype=np.int64), [s for _, s in pairs]))
        return rows

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among the vocabulary: only the passage's words change their order."""
        model = self.base.model
        ids, state, held, share, inside, plain10, own10, values10, words = self._memoised(
            ("ranking", *items.frame["item_id"], top_k), self._plain, items, top_k
        )
        scale = np.where(inside.any(axis=1), np.log1p(-self.weight), 0.0)[:, None]
        plain = plain10.astype(float) * LN10
        mixed = np.where(inside, self._mix(plain, share), -np.inf)
        is_answer = (held == ids[:, None]) & inside
        of_passage = is_answer.any(axis=1)
        alone = own10 * LN10 + scale[:, 0]
        answer_values = np.where(of_passage, np.where(is_answer, mixed, 0).sum(axis=1), alone)
        # Of the other words those count that are above the answer; where the cache adds nothing to it,
        # that is where they are above it in the n-gram model, rounding left out.
        bound = np.where(answer_values == alone, own10, (answer_values - scale[:, 0]) / LN10)
        counts = []
        for equal in (False, True):
            above = model.count(state, bound, equal=equal)
            leave = (plain10 >= bound[:, None]) if equal else (plain10 > bound[:, None])
            enter = (mixed >= answer_values[:, None]) if equal else (mixed > answer_values[:, None])
            counts.append(above + (inside * (enter.astype(int) - leave)).sum(axis=1))
        # The cache lifts words of the passage and no others, so the best others are among the model's best.
        values = values10.astype(float) * LN10 + scale
        twice = ((words[:, :, None] == held[:, None, :]) & inside[:, None, :]).any(axis=2)
        joined = np.concatenate([np.where(twice, -np.inf, values), mixed], axis=1)
        both = np.concatenate([words, held], axis=1)
        turn = np.lexsort((both, -joined), axis=1)[:, : min(top_k, len(self.vocabulary))]
        names = np.array(self.vocabulary, dtype=object)[np.take_along_axis(both, turn, axis=1)]
        best = np.take_along_axis(joined, turn, axis=1)
        rank, tied = counts[0] + 1, counts[1] - counts[0]
        return Ranked(self.log_prob(items), rank, tied, ids >= 0, names.tolist(), best.tolist())

    def _plain(self, items: Items, top_k: int) -> tuple[Any, ...]:
        """Return the values of the n-gram model and of the passages that `ranking` needs."""
        model, contexts, passage_words = self.base.model, self.base.contexts(items), self._cached_words(items)
        state = model.state(contexts)
        width = max((len(each) for each, _ in passage_words), default=0)
        held = np.zeros((len(items), width), dtype=np.int64)
        share, inside = np.zeros((len(items), width)), np.zeros((len(items), width), dtype=bool)
        for row, (each, shares) in enumerate(passage_words):
            held[row, : len(each)], share[row, : len(each)], inside[row, : len(each)] = each, shares, True
        ids = self.base.answers(items)
        own10 = model.log10(contexts, np.maximum(ids, 0)[:, None], state)[:, 0].astype(float)
        plain10 = model.log10(contexts, held, state)
        return ids, state, held, share, inside, plain10, own10, *model.top(contexts, top_k, state)
