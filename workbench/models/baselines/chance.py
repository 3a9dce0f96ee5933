"""Guessing at random: a word of the vocabulary, of the passage, or a capitalised one of the passage.

Paperno et al. (2016), "The LAMBADA dataset", section 4 and table 1; for items with candidates, one of these.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.items.tokens import Tokens, tokens
from workbench.models.base import Predictor, pad
from workbench.models.item_words import ReadContext, distinct
from workbench.models.prediction_rows import Ranked, from_ranking
from workbench.predictions.schema import UNKNOWN_SCORING, Floats, nullable
from workbench.storage.cache import digest
from workbench.storage.errors import DataError, check_option, check_value
from workbench.storage.files import read_json, write_atomic

Choices = Literal["vocabulary", "passage", "capitalised"]

_NAMES = {
    "vocabulary": "Random vocabulary word",
    "passage": "Random word from passage",
    "capitalised": "Random capitalised word from passage",
    "annotations": "Random proper noun from passage (annotations)",
}


class RandomWord(Predictor):
    """Draw a word at random; all choices are equally likely.

    The choices of items with candidates are these. The expected accuracy is in ``p_correct``.

    Parameters
    ----------
    choices : {"vocabulary", "passage", "capitalised"}
        The choices for an item without candidates. Words of the passage are the tokens of context and
        query, punctuation included, without the answer; capitalised ones begin with a capital letter,
        those that begin a sentence included. If there are none, all words of the passage are choices.
    vocabulary : sequence of str, optional
        Different words; ``"vocabulary"`` needs them for items without candidates.
    annotations : DataFrame, optional
        For ``"capitalised"`` and items in lower case: a table with ``item_id`` and ``names``, the proper
        nouns of each passage as words or as spans of characters. The choices are then the words of names.
        That is a better guess than any capitalised word, so the model has another name and stands for no
        published row.
    unit : {"types", "tokens"}
        Whether all different words of the passage are equally likely, or all tokens.
    unknown : {"none", "unk"}
        Whether an answer outside the vocabulary is not counted, or counted as ``<unk>``, which is then
        one more equally likely word.

    Notes
    -----
    The paper does not say how it drew. On the development set in its original case, different words
    as written give an expected accuracy of 1.61 %, capitalised ones 7.27 %; published for the test set are
    1.6 and 7.3 %.

    Examples
    --------
    >>> from workbench.models import RandomWord
    >>> frame = RandomWord("passage").predict(items)
    >>> round(float(frame["p_correct"].mean()), 2)
    0.01
    """

    version = 1

    def __init__(
        self,
        choices: Choices = "vocabulary",
        *,
        vocabulary: Iterable[str] | None = None,
        annotations: pd.DataFrame | None = None,
        unit: Literal["types", "tokens"] = "types",
        unknown: Literal["none", "unk"] = "none",
    ) -> None:
        check_option("choices", choices, get_args(Choices))
        check_option("unit", unit, ("types", "tokens"))
        check_option("unknown", unknown, UNKNOWN_SCORING[:2])
        words = None if choices != "vocabulary" or vocabulary is None else tuple(vocabulary)
        valid = words is None or (not isinstance(vocabulary, str) and len(words) == len(set(words)) > 0)
        check_value("vocabulary", vocabulary, valid, "a list of words, none of them twice")
        self.word_source, self.unit, self.unknown = choices, unit, unknown
        self.vocabulary = words
        self._known = frozenset(words or ())
        self._names = None if annotations is None else _names(annotations)
        self.name = _NAMES[choices if annotations is None else "annotations"]
        if unit == "tokens":
            self.name += ", by tokens"
        row = _NAMES[choices].replace("capitalised", "capitalized")
        systems = {"msrcc": "Chance"} | ({"lambada": row} if annotations is None else {})
        self.systems = systems  # type: ignore[misc] # by the choices
        self.score_type = "log_prob" if choices == "vocabulary" else "score"

    @property
    def context(self) -> ReadContext:
        """Nothing; its choices may be the words of the whole passage."""
        return ReadContext("none" if self.word_source == "vocabulary" else "both")

    @property
    def config(self) -> dict[str, Any]:
        """The arguments, with digests of vocabulary and names."""
        names = None if self._names is None else json.dumps(self._names, sort_keys=True)
        return {
            "choices": self.word_source,
            "unit": self.unit,
            "unknown": self.unknown,
            "vocabulary": None if self.vocabulary is None else digest(*self.vocabulary),
            "names": None if names is None else digest(names),
        }

    def choices(self, items: Items) -> list[list[str]] | None:
        """Return the different words of each passage; None for the vocabulary."""
        pools = self._pools(items)
        return None if pools is None else [distinct(pool, lower=False) for pool in pools]

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return scores, shape (n, most words).

        With ``choices="vocabulary"`` they are natural log-probabilities, -inf for words that are no choices;
        else all are 0.
        """
        if self.word_source != "vocabulary":
            return pad([[0.0] * len(row) for row in words])
        rows = []
        for row, candidates in zip(words, items.frame["candidates"].tolist(), strict=True):
            choices = self._known if candidates is None else frozenset(candidates)
            inside = self._inside(len(choices), listed=candidates is not None)
            other = inside if candidates is None and self.unknown == "unk" else -math.inf
            rows.append([inside if word in choices else other for word in row])
        return pad(rows)

    def _inside(self, n: int, *, listed: bool) -> float:
        """Return the natural log-probability of each of `n` words, candidates or the vocabulary."""
        return -math.log(n + (self.unknown == "unk" and not listed)) if n else 0.0

    def log_prob(self, items: Items) -> Floats:
        """Return the natural log-probability of each answer; NaN where it cannot be counted."""
        values = super().log_prob(items)
        return np.where(np.isfinite(values), values, np.nan)

    def ranking(self, items: Items, *, top_k: int = 10, seed: int = 0) -> Ranked:
        """Rank the answers: all words share the first place. The best words are a random sample."""
        if self.vocabulary is None:
            raise DataError(f"{self.name!r} has no vocabulary", hint="pass a list of words as vocabulary=")
        size = len(self.vocabulary)
        tops = []
        for item_id in items.frame["item_id"]:
            source = hashlib.blake2b(f"top\0{seed}\0{item_id}".encode(), digest_size=16).digest()
            rng = np.random.default_rng(int.from_bytes(source, "little"))
            drawn = rng.choice(size, min(top_k, size), replace=False)
            tops.append([self.vocabulary[index] for index in drawn])
        in_vocabulary = np.array([answer in self._known for answer in items.frame["answer"]], dtype=bool)
        return Ranked(
            log_prob=self.log_prob(items),
            rank=np.ones(len(items), dtype=np.int64),
            n_tied=np.full(len(items), size, dtype=np.int64),
            known=in_vocabulary,
            top_words=tops,
            top_log_probs=[[self._inside(size, listed=False)] * len(top) for top in tops],
        )

    def _predict(self, items: Items, top_k: int, seed: int) -> pd.DataFrame:
        has_candidates = items.frame["candidates"].notna().any()
        if self.word_source == "vocabulary" and not has_candidates:
            ranked = self.ranking(items, top_k=max(top_k, 2), seed=seed)
            columns = self._columns(items)
            return from_ranking(items, ranked, model=self.name, seed=seed, top_k=top_k, **columns)
        frame = super()._predict(items, top_k, seed).assign(unknown="none")
        return self._by_tokens(frame, items, seed) if self.unit == "tokens" and not has_candidates else frame

    def _by_tokens(self, frame: pd.DataFrame, items: Items, seed: int) -> pd.DataFrame:
        """Replace what depends on how often each word occurs."""
        share, drawn = [], []
        for item, pool in zip(items, self._pools(items) or (), strict=True):
            share.append(Counter(pool)[item.answer or ""] / len(pool))
            source = hashlib.blake2b(f"{seed}\0{item.item_id}".encode(), digest_size=8).digest()
            drawn.append(pool[int.from_bytes(source, "little") % len(pool)])
        has = frame["answer"].notna().to_numpy()
        correct = np.array([w == a for w, a in zip(drawn, frame["answer"], strict=True)], dtype=bool)
        return frame.assign(
            prediction=drawn, correct=nullable(correct, has), p_correct=np.where(has, share, np.nan)
        )

    def _pools(self, items: Items) -> list[list[str]] | None:
        """Return the tokens that are the choices of each item; None for the vocabulary."""
        if self.word_source == "vocabulary":
            return None
        pools, cased = [], self._names is not None
        for item in items:
            item_tokens = tokens(item)
            positions = [*range(item_tokens.target), *range(item_tokens.end, len(item_tokens.words))]
            drawn_from = positions
            if self._names is not None:
                drawn_from = _named(item, item_tokens, positions, self._names)
            elif self.word_source == "capitalised":
                drawn_from = [i for i in positions if item_tokens.words[i][:1].isupper()]
                cased = cased or bool(drawn_from)
            pools.append([item_tokens.words[i] for i in drawn_from or positions])
        if self.word_source == "capitalised" and not cased:
            raise DataError(
                "none of these passages has a capitalised word",
                hint="load a variant in its original case, or pass annotations= a table with item_id"
                " and names, such as wb.annotate(items)",
            )
        return pools

    def _save(self, folder: Path) -> None:
        content = {"vocabulary": self.vocabulary, "names": self._names}
        write_atomic(folder / "words.json", json.dumps(content))

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        content = read_json(folder / "words.json", "this vocabulary")
        names = content["names"]
        table = None if names is None else pd.DataFrame(list(names.items()), columns=["item_id", "names"])
        options = {name: config[name] for name in ("choices", "unit", "unknown")}
        return cls(**options, vocabulary=content["vocabulary"], annotations=table)


def _names(annotations: pd.DataFrame) -> dict[str, list[Any]]:
    if lacking := {"item_id", "names"} - set(annotations.columns):
        raise DataError(
            f"the annotations have no column {min(lacking)!r}",
            hint="add one: the proper nouns of each passage, as words or as spans of characters",
        )
    table = zip(annotations["item_id"].tolist(), annotations["names"].tolist(), strict=True)
    return {
        item_id: [name if isinstance(name, str) else [int(edge) for edge in name] for name in names]
        for item_id, names in table
    }


def _named(item: Item, item_tokens: Tokens, positions: list[int], names: dict[str, list[Any]]) -> list[int]:
    """Return the places of words that belong to names."""
    if item.item_id not in names:
        raise DataError(f"the annotations lack {item.item_id}", hint="annotate these items")
    words = {word.lower() for name in names[item.item_id] if isinstance(name, str) for word in name.split()}
    spans = [name for name in names[item.item_id] if not isinstance(name, str)]
    return [
        i
        for i in positions
        if item_tokens.words[i].lower() in words
        or any(start <= item_tokens.spans[i][0] and item_tokens.spans[i][1] <= end for start, end in spans)
    ]
