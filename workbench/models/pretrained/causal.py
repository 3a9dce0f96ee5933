"""Pretrained causal language models, read by ``transformers``: the probability of the whole last word.

A word is cut into sub-tokens, so its probability is that of all of them in turn and of a sub-token after them
with which no word goes on. Without the latter "tea" would have the probability of all words that begin with
it, and the probabilities of words would sum to more than 1 (Pimentel and Meister 2024, "How to Compute the
Probability of a Word", section 3; Oh and Schuler 2024, "Leading Whitespaces of Language Models' Subword
Vocabulary Pose a Confound for Calculating Word Probabilities").
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd

from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import DataError, Item, objects
from workbench.models.base import Predictor, pad
from workbench.models.baselines.passage import one_of
from workbench.models.pretrained.attention import attention, looked
from workbench.models.pretrained.loading import known_as
from workbench.models.pretrained.network import Network, Told
from workbench.models.pretrained.rows import about, of_written
from workbench.models.pretrained.scoring import Wanted, told_of
from workbench.models.pretrained.search import Asked, searched, written
from workbench.models.pretrained.subwords import anchor_of
from workbench.models.pretrained.texts import Feeder, Prompts
from workbench.models.pretrained.trie import Found, Trie
from workbench.models.pretrained.words import vocabulary_of
from workbench.models.rows import Ranked, from_ranking, from_scores
from workbench.runs.predictions import Floats, nullable
from workbench.storage import cache
from workbench.storage.files import atomic_path

Text = Literal["as-is", "detokenised"]
Correct = Literal["words", "greedy"]
Filter = Literal["none", "stop-words"]

_SOURCE = "source.json"


class CausalLM(Predictor):
    """Predict a word by a causal language model (GPT-2, Pythia, Llama, ...).

    Parameters
    ----------
    path_or_name : path or str
        A folder with a model and its tokenizer in the form of ``transformers``, or the name of one on the
        hub. Weights are read as safetensors only.
    vocabulary : iterable of str, mapping, Corpus or path, optional
        The words among which answers are ranked (see `pretrained_words.vocabulary_of`), spelt as in the
        items: nothing is lower-cased. Without it there is no rank.
    text : {"as-is", "detokenised"}
        Whether texts of Treebank tokens are given as they are, or as a book would print them
        (:func:`workbench.items.text.readable`). Running text is always given as it is.
    correct : {"words", "greedy"}, optional
        "words": the prediction is the most probable word of the vocabulary. "greedy": it is what the model
        writes, the most probable sub-token one after the other, and an answer is correct if each of its
        sub-tokens is the most probable one, as lm-evaluation-harness has it; there is no rank then. The
        default is the first with a vocabulary and the second without.
    filter : {"none", "stop-words"}
        Whether `pretrained_words.STOP_WORDS`, and what has neither letter nor digit, are taken out of the
        vocabulary ("a stop-word filter", Radford et al. 2019, section 3.3): they are neither predicted nor
        counted in ranks. Items with candidates know no filter.
    prompt : Prompt, optional
        What stands before the passage.
    budget : int, default 1000
        How many beginnings of words the model is asked about for the rank of one answer. Where that is
        not enough, ``rank`` is at least what it says and ``rank_is_bound`` is true; the best word is found
        whatever the budget.
    batch_tokens : int, optional
        Sub-tokens in a batch: 2,048 on a CPU, 32,768 on a GPU.
    device, dtype : str, optional
        By default a GPU where there is one, and there bfloat16; else single precision. Logarithms are
        always taken in single precision.
    revision : str, optional
        Of a model on the hub.
    trust_remote_code : bool, default False
        Whether code that comes with the model may run.
    name : str, optional
        What tables call it.
    attention : bool, default False
        Whether rows tell how the last layer's attention, at the position before the answer, is spread over
        the tokens of the item: the mean over the heads, summed over the sub-tokens of each token.
    progress : bool, default True

    Raises
    ------
    DataError
        If ``transformers`` is not installed, there is no causal model with a fast tokenizer, or arguments
        do not go together.

    Notes
    -----
    ``log_prob`` is ln p(sub-tokens | context) + ln p(the word is over | context, sub-tokens), where the word
    is over if the next sub-token begins with white space or punctuation, or is the end of the text (see
    :class:`workbench.models.pretrained.subwords.Subwords`). So the probabilities of words of letters, digits,
    apostrophes and hyphens sum to at most 1. ``log_prob_uncorrected`` has the first term alone, as
    lm-evaluation-harness has it; context and word are cut as there: white space before the word belongs to
    it.

    Candidates are scored by ln p(candidate and the rest of the sentence | all before); where nothing follows
    the blank, by the candidate's ``log_prob``.
    """

    version = 1
    score_type = "log_prob"

    def __init__(
        self,
        path_or_name: Path | str,
        *,
        vocabulary: Any = None,
        text: Text = "as-is",
        correct: Correct | None = None,
        filter: Filter = "none",  # noqa: A002 - the name of the column
        prompt: Prompts | None = None,
        budget: int | None = 1000,
        batch_tokens: int | None = None,
        device: str | None = None,
        dtype: str | None = None,
        revision: str | None = None,
        trust_remote_code: bool = False,
        name: str | None = None,
        attention: bool = False,
        progress: bool = True,
    ) -> None:
        one_of("text", text, get_args(Text))
        one_of("filter", filter, get_args(Filter))
        words = vocabulary_of(vocabulary, stop_words=filter == "stop-words")
        self.correct: str = correct or ("greedy" if words is None else "words")
        one_of("correct", self.correct, get_args(Correct))
        if self.correct == "words" and words is None:
            raise DataError(
                "correct='words' needs words to choose from", remedy="pass vocabulary=, or correct='greedy'"
            )
        if self.correct == "greedy" and filter != "none":
            raise DataError(
                "what a model writes cannot be filtered", remedy="pass vocabulary= and correct='words'"
            )
        self.vocabulary = words if self.correct == "words" else None
        self.text, self.filter, self.prompt, self.budget = text, filter, prompt, budget
        self._feed, self.attention, self.progress = Feeder(text == "detokenised", prompt), attention, progress
        self._source = {"path_or_name": str(path_or_name), "revision": revision}
        self._network = Network(
            path_or_name, device=device, dtype=dtype, batch_tokens=batch_tokens, eager=attention,
            revision=revision, trust_remote_code=trust_remote_code,
        )  # fmt: skip
        self.device, self.dtype = self._network.device, self._network.dtype
        self._label, self._digest = known_as(path_or_name, self._network.commit or revision)
        self.name = name or self._label + (" (detokenised)" if text == "detokenised" else "")
        self._place = {word: index for index, word in enumerate(self.vocabulary or ())}
        self.expansions: list[int] = []  # of the last ranking, by item
        self._trie = lru_cache(maxsize=8)(self._built)

    @property
    def config(self) -> dict[str, Any]:
        """The model's name and the digest of its files, and how it is used."""
        return {
            "model": self._label,
            "digest": self._digest,
            "vocabulary": None if self.vocabulary is None else cache.digest(*self.vocabulary),
            "text": self.text,
            "correct": self.correct,
            "filter": self.filter,
            "prompt": None if self.prompt is None else json.loads(self.prompt.told()),
            "budget": self.budget,
            "dtype": self.dtype,
            "name": self.name,
            "attention": self.attention,
        }

    @property
    def training(self) -> dict[str, Any]:
        """The model, as what it was trained on is not known."""
        return {"pretrained": self._label}

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the log-probability of each word with the rest of the sentence, shape (n, most words).

        Where nothing follows the blank it is that of the word and its end.
        """
        told = self._told([[self._feed.sentence(*pair) for pair in row] for row in _each(items, words)])
        return pad(self._scores(items, told, [len(row) for row in words]))

    def log_prob(self, items: Items) -> Floats:
        """Return the log-probability of each answer and its end, whatever follows; NaN without an answer."""
        found = np.full(len(items), np.nan)
        told = self._told(self._feed.alone(items))
        found[items.frame["answer"].notna().to_numpy()] = told.log_prob + told.end
        return found

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among the words of the vocabulary; `predict` says which ranks are bounds.

        Raises
        ------
        DataError
            If there is no vocabulary.
        """
        if self.vocabulary is None:
            next(self.distribution(items))
        return self._search(items, top_k)[0]

    def _predict(self, items: Items, top_k: int, seed: int) -> pd.DataFrame:
        more, words = self._columns(items), self.choices(items)
        has = items.frame["answer"].notna().to_numpy()
        if words is not None:
            return self._choose(items, words, more, has, seed=seed, top_k=top_k)
        if self.vocabulary is None:
            return self._write(items, more)
        ranked, told, bound = self._search(items, max(top_k, 2))
        more |= about(told, has)
        more["rank_is_bound"] = nullable(np.array(bound, dtype=bool), has & ranked.known)
        return from_ranking(items, ranked, model=self.name, seed=seed, top_k=top_k, **more)

    def _columns(self, items: Items) -> dict[str, Any]:
        more = {**super()._columns(items), "filter": self.filter, "prompt": self._feed.told(items)}
        if self.attention:
            texts = [
                looked(
                    item, self._feed.fed(item).before, self._feed.offset(item), readable=self._feed.readable
                )
                for item in items
            ]
            with self._bar(len(items), "attention") as step:
                more["attention"] = objects(attention(self._network, texts, step=step))
        return more

    def _choose(
        self, items: Items, words: Sequence[Sequence[str]], more: dict[str, Any], has: Any, **options: Any
    ) -> pd.DataFrame:
        """Make the rows of items with candidates; the answer alone is asked with them."""
        own = self._feed.alone(items)
        asked = [[self._feed.sentence(*pair) for pair in row] for row in _each(items, words)]
        told = self._told([row + alone for row, alone in zip(asked, own, strict=True)])
        sizes = [len(row) for row in words]
        kinds = [[False] * n + [True] * len(alone) for n, alone in zip(sizes, own, strict=True)]
        alone = np.array([kind for row in kinds for kind in row], dtype=bool)
        scores = pad(self._scores(items, told.at(np.flatnonzero(~alone)), sizes))
        mine = Told.nothing(len(items))
        mine.put(np.flatnonzero(has), told.at(np.flatnonzero(alone)))
        more |= {"filter": "none", "vocabulary_size": pd.NA} | about(mine, has)
        return from_scores(
            items, scores, words, model=self.name, score_type=self.score_type,
            log_prob=mine.log_prob + mine.end, **options, **more,
        )  # fmt: skip

    def _write(self, items: Items, more: dict[str, Any]) -> pd.DataFrame:
        """Make the rows of what the model writes."""
        asked = self._asked(items)
        with self._bar(len(items)) as step:
            ids, told = written(self._network, asked, step=step)
        texts = [self._network.subwords.text(row, one.context) for one, row in zip(asked, ids, strict=True)]
        return of_written(items, texts, told, model=self.name, **more)

    def _search(self, items: Items, top_k: int) -> tuple[Ranked, Told, list[bool]]:
        """Rank the answers; those after the same white space are searched together."""
        words, texts = self.vocabulary or (), [self._feed.fed(item) for item in items]
        asked = self._asked(items)
        groups: dict[tuple[str, str], list[int]] = {}
        for index, text in enumerate(texts):
            groups.setdefault((text.lead, anchor_of(text.context, text.lead)), []).append(index)
        found: dict[int, Found] = {}
        told = Told.nothing(len(items))
        with self._bar(len(items)) as step:
            for how, members in groups.items():
                some, about = searched(
                    self._network, self._trie(*how), [asked[index] for index in members],
                    top_k=top_k, budget=self.budget, step=step,
                )  # fmt: skip
                told.put(members, about)
                found |= dict(zip(members, some, strict=True))
        order = [found[index] for index in range(len(items))]
        self.expansions = [one.expansions for one in order]
        ranked = Ranked(
            told.log_prob + told.end,
            np.array([one.rank for one in order], dtype=np.int64),
            np.array([one.n_tied for one in order], dtype=np.int64),
            np.array([one.word is not None for one in asked], dtype=bool),
            [[words[word] for word in one.words] for one in order],
            [one.log_probs for one in order],
        )
        return ranked, told, [one.is_bound for one in order]

    def _asked(self, items: Items) -> list[Asked]:
        """Return the sub-tokens of the contexts and the answers."""
        texts = [self._feed.fed(item) for item in items]
        there = [text for text in texts if text.word]
        subwords = self._network.subwords
        pairs = iter(subwords.pairs([text.before for text in there], [text.word for text in there]))
        bare = iter(subwords.contexts([text.before for text in texts if not text.word]))
        found = []
        for text, answer in zip(texts, items.frame["answer"], strict=True):
            left, path = next(pairs) if text.word else (next(bare), [])
            found.append(Asked(left, path, self._place.get(answer) if text.word else None))
        return found

    def _told(self, rows: Sequence[Sequence[Wanted]]) -> Told:
        with self._bar(sum(map(len, rows)), "texts") as step:
            return told_of(self._network, rows, step=step)

    def _scores(self, items: Items, told: Told, sizes: Sequence[int]) -> list[Floats]:
        """Return what is said of words as their scores: with their end, where nothing follows them."""
        closes = np.repeat([self._feed.closes(item) for item in items], sizes)
        values = np.where(closes, told.log_prob + told.end, told.log_prob)
        return np.split(values, np.cumsum(sizes)[:-1])

    def _built(self, lead: str, anchor: str) -> Trie:
        """Return the vocabulary as it is cut after some white space."""
        words = self.vocabulary or ()
        if self._feed.readable:
            words = tuple(wt.readable(word) for word in words)
        return Trie(self._network.subwords.words(words, lead, anchor))

    @contextmanager
    def _bar(self, n: int, unit: str = "items") -> Iterator[Callable[[int], object]]:
        from tqdm.auto import tqdm  # noqa: PLC0415 - only where something is computed

        with tqdm(total=n, desc=self.name, unit=f" {unit}", disable=not self.progress, leave=False) as bar:
            yield bar.update

    def _save(self, folder: Path) -> None:
        if self.prompt is not None:
            raise DataError("a model with a prompt is not saved", remedy="save it without, and pass prompt=")
        told = {**self._source, "vocabulary": self.vocabulary}
        with atomic_path(folder / _SOURCE) as path:
            path.write_text(json.dumps(told), encoding="utf-8")

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any]) -> Self:
        names = ("text", "correct", "filter", "budget", "dtype", "name", "attention")
        told = json.loads((folder / _SOURCE).read_text(encoding="utf-8"))
        model = cls(**told, **{name: config[name] for name in names})
        if model.config["digest"] != config["digest"]:
            raise DataError("the model is another than the one that was saved", file=folder)
        return model


def _each(items: Items, words: Sequence[Sequence[str]]) -> Iterator[list[tuple[Item, str]]]:
    """Yield each item with its words."""
    for item, row in zip(items, words, strict=True):
        yield [(item, word) for word in row]
