"""Pretrained causal language models of ``transformers``: the probability of the whole last word.

A word consists of sub-tokens, so its probability is that of all of them in turn and of a sub-token after them
with which no word goes on. Without the latter "tea" would have the probability of all words that begin with
it, and the probabilities of words would sum to more than 1 (Pimentel and Meister 2024, "How to Compute the
Probability of a Word", section 3; Oh and Schuler 2024, "Leading Whitespaces of Language Models' Subword
Vocabulary Pose a Confound for Calculating Word Probabilities").
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import pandas as pd

from workbench.items import text as wt
from workbench.items.changes import word_spans
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.items.tokens import tokens
from workbench.models.base import PassageLogProbs, pad
from workbench.models.item_words import Attention
from workbench.models.prediction_rows import Ranked, check_answers, from_ranking, from_scores
from workbench.models.pretrained import search
from workbench.models.pretrained.loading import PretrainedModel, Text
from workbench.models.pretrained.passages import passage_log_probs, text_scores
from workbench.models.pretrained.prompts import Prompt, PromptedModel, Scored, has_answers
from workbench.models.pretrained.scoring import CausalScorer, Scores, no_scores, word_log_probs
from workbench.models.pretrained.subwords import (
    Continuation,
    anchor_of,
    cased_forms,
    is_lowered,
    read_vocabulary,
)
from workbench.models.text_scores import Beginning, LongText, TextScores
from workbench.predictions.schema import Floats, not_a_number, nullable
from workbench.storage import cache
from workbench.storage.errors import DataError, check_option
from workbench.storage.progress import progress_bar

Case = Literal["auto", "as-is", "sum"]
Correct = Literal["words", "greedy", "whole-word", "last-token"]
Filter = Literal["none", "stop-words"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """How the words of a vocabulary are scored and ranked by a :class:`CausalLM`.

    Parameters
    ----------
    case : {"auto", "as-is", "sum"}
        What a word of the vocabulary stands for. "as-is": for itself alone, spelt as in the items. "sum": for
        all its cased forms, whose probabilities are added, in texts that have an upper-case letter: the word
        as it stands, with its first letter in upper case ("Sheila"), with that of each part too
        ("Jean-Luc", "O'Brien", "McDonald"), and all in upper case. So an answer is right, or has a rank, by
        its letters whatever their case, as for a model that lower-cases texts; the prediction is the most
        probable form. "auto" is "sum" for 100 words or more of which less than one in 1,000 has an
        upper-case letter, such as the vocabulary of an n-gram model, else "as-is".
    filter : {"none", "stop-words"}
        Whether `STOP_WORDS`, and words with neither letter nor digit, are removed from the vocabulary ("a
        stop-word filter", Radford et al. 2019, section 3.3): they are neither predicted nor counted in ranks.
        Items with candidates know no filter.
    budget : int, default 100
        How many beginnings of words the model is asked about for the rank of one answer; None for any number.
        Where that is not enough, ``rank`` is a lower bound and ``rank_is_bound`` is true. The best words
        are exact whatever the budget (sums over forms to 0.0001 nats): with 0, the model is asked about what
        these need alone.

    Raises
    ------
    DataError
        If `case` or `filter` is another word.

    Examples
    --------
    >>> from workbench.models import CausalLM, Scoring
    >>> model = CausalLM(gpt2, vocabulary=ngram.vocabulary, scoring=Scoring(budget=20))
    >>> model.budget
    20
    """

    case: Case = "auto"
    filter: Filter = "none"
    budget: int | None = 100

    def __post_init__(self) -> None:
        """Check the choices."""
        check_option("case", self.case, get_args(Case))
        check_option("filter", self.filter, get_args(Filter))


class CausalLM(PromptedModel, PretrainedModel):
    """Predict a word by a causal language model (GPT-2, Pythia, Llama, ...).

    Parameters
    ----------
    {model} Or a model that is loaded, whose weights are shared.
    vocabulary : iterable of str, mapping, Corpus or path, optional
        The words among which answers are ranked. A mapping of words to counts, or a file with a word on each
        line and perhaps a tab and its count. Without it there is no rank.
    {text}
    correct : {"words", "greedy", "whole-word", "last-token"}, optional
        "words": the prediction is the most probable word of the vocabulary. "greedy": it is what the model
        writes, the most probable sub-token one after the other, and an answer is correct if each of its
        sub-tokens is the most probable one, as in lm-evaluation-harness; there is no rank then.
        "whole-word": as "greedy", and the most probable sub-token after them ends the word, so that the model
        writes the answer and no longer word that begins with it.
        "last-token": an answer is correct if its last sub-token is the most probable one after the others,
        which are given, and ``log_prob`` is of this sub-token alone (``unit`` says so); some results that
        were published are of this easier task (Malkin et al. 2022, table 1). The default is the first with a
        vocabulary and the second without.
    candidates : {"sentence", "rest"}
        What is scored of an item with candidates. "sentence": the candidate and the rest of its sentence,
        which orders candidates as the whole sentence does. "rest": the words after the blank alone, given
        the candidate ("partial scoring", Trinh and Le 2018), so that a rare word is not less probable for
        being rare; where nothing follows the blank, the candidate's ``log_prob``.
    prompt : Prompt, optional
        What stands before the passage.
    scoring : Scoring, optional
        How the words of a vocabulary are scored, and how far ranks are searched for.
    attention : bool, default False
        Whether rows hold how the last layer's attention, at the position before the answer, is spread over
        the tokens of the item: the mean over the heads, summed over the sub-tokens of each token.
    {loading}

    Raises
    ------
    DataError
        If ``transformers`` is not installed, there is no causal model with a fast tokenizer whose sub-tokens
        hold the white space before words, or arguments do not go together.

    Notes
    -----
    ``log_prob`` is ln p(sub-tokens | context) + ln p(the word is over | context, sub-tokens), where the word
    is over if the next sub-token begins with white space or punctuation, or is the end of the text (see
    :class:`workbench.models.pretrained.subwords.Subwords`). So the probabilities of words of letters, digits,
    apostrophes, hyphens and underscores, in any case, sum to at most 1 where all have different sub-tokens.
    A word with another character in it, such as "1,000", "U.S." or "word”", may go on where a shorter one is
    over ("1", "U", "word"), whose probability then holds its own. ``log_prob_uncorrected`` has the first term
    alone, as lm-evaluation-harness has it; context and word are split as there: white space before the word
    belongs to it.

    Where a sub-token reaches over the edge of context and word, as those of several words do ("the boy ran
    home"), both are of the text from that sub-token on, given all before: the words of the context in it
    count with the answer. The candidates of an item are then scored from where the sub-tokens of their
    texts first differ, so that they are ordered as the whole texts. Such a model ranks no vocabulary.

    That is the answer as it is written, also where a word stands for several forms: ranks and the
    log-probabilities of the best words are of the forms together, which are no less probable.

    Examples
    --------
    >>> from workbench.models import CausalLM
    >>> model = CausalLM(gpt2, vocabulary=ngram.vocabulary)  # a folder of save_pretrained
    >>> len(model.predict(items[:2], top_k=3))
    2
    """

    version = 2
    score_type = "log_prob"
    options = ("text", "correct", "candidates", "dtype", "name", "attention")

    def __init__(
        self,
        path_or_name: Path | str | CausalLM,
        *,
        vocabulary: Any = None,
        text: Text = "as-is",
        correct: Correct | None = None,
        candidates: Scored = "sentence",
        prompt: Prompt | None = None,
        scoring: Scoring = Scoring(),
        attention: bool = False,
        name: str | None = None,
        **loading: Any,
    ) -> None:
        check_option("candidates", candidates, get_args(Scored))
        words = read_vocabulary(vocabulary, stop_words=scoring.filter == "stop-words")
        self.correct: str = correct or ("greedy" if words is None else "words")
        check_option("correct", self.correct, get_args(Correct))
        if self.correct == "words" and words is None:
            problem = "correct='words' needs words to choose from"
            raise DataError(problem, hint="pass vocabulary=, or correct='greedy'")
        if self.correct != "words" and scoring.filter != "none":
            problem = "what a model writes cannot be filtered"
            raise DataError(problem, hint="pass vocabulary= and correct='words'")
        if prompt is not None and prompt.space == "context" and words is not None:
            problem = "words of a vocabulary are encoded with the space before them"
            raise DataError(problem, hint='leave out vocabulary=, or use Prompt(space="word")')
        super().__init__(path_or_name, variant="causal", text=text, **loading)
        words = words if self.correct == "words" else None
        self.case: str = scoring.case
        if self.case == "auto":
            self.case = "sum" if is_lowered(words) else "as-is"
        if self.case == "sum":
            if words is None:
                raise DataError("case='sum' needs words that have forms", hint="pass vocabulary=")
            words = tuple(dict.fromkeys(word.lower() for word in words))
        self.vocabulary = words
        self._source["vocabulary"] = self.vocabulary
        self.filter, self.prompt, self.budget = scoring.filter, prompt, scoring.budget
        self.candidates: str = candidates
        self.attention = bool(attention)
        remarks = (
            text == "detokenised" and text,
            candidates == "rest" and "words after the blank",
            {"last-token": "last sub-token", "whole-word": "whole word"}.get(self.correct),
        )
        remark = ", ".join(text for text in remarks if text)
        self.name = name or self._checkpoint.label + (f" ({remark})" if remark else "")
        encoding = {} if prompt is None else {"beginning": prompt.beginning, "space": prompt.space}
        self._scorer = CausalScorer(self._checkpoint, self._batch_tokens, **encoding)
        self._index_words()

    def _index_words(self) -> None:
        self._index = {word: index for index, word in enumerate(self.vocabulary or ())}
        self._trie = lru_cache(maxsize=8)(self._build_trie)

    @cached_property
    def ranking_words(self) -> CausalLM:
        """The model with the words of letters that are one sub-token, where it has no vocabulary."""
        words = tuple(self._scorer.subwords.whole_words()) if self.correct == "greedy" else ()
        if not words:
            return self
        model = copy.copy(self)
        model.vocabulary, model.correct = words, "words"
        model._index_words()  # noqa: SLF001 - a copy of this class
        return model

    @property
    def config(self) -> dict[str, Any]:
        """The model's name, the digest of its files, and its options."""
        return super().config | {
            **{field.name: getattr(self, field.name) for field in fields(Scoring)},
            "vocabulary": None if self.vocabulary is None else cache.digest(*self.vocabulary),
            "prompt": None if self.prompt is None else json.loads(self.prompt.to_json()),
        }

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the log-probability of each word with the rest of the sentence, shape (n, most words).

        With ``candidates="rest"`` it is that of the rest after the word. Where nothing follows the blank it
        is that of the word and its end.
        """
        scores = self._score(self._continuations(items, words))
        return self._word_scores(items, scores, [len(row) for row in words])

    def log_prob(self, items: Items) -> Floats:
        """Return the log-probability of each answer and its end, not of the text after it; NaN without one.

        Items in a row whose texts begin alike share what the model computes of the beginning.
        """
        scores, has = no_scores(len(items)), has_answers(items)
        pairs = self._scorer.subwords.pairs(self._answers(items))
        with progress_bar(len(pairs), label=self.name, unit="texts") as bar:
            scores[has] = self._scorer.score_variants(pairs, step=bar.update)
        return word_log_probs(scores)

    def passage_log_probs(self, items: Items, *, top_k: int = 0) -> list[PassageLogProbs]:
        """Return log-probabilities of every word of each passage, in one pass over it.

        See :func:`workbench.models.pretrained.passages.passage_log_probs`. DataError for a prompt.
        """
        if self.prompt is not None:
            problem = f"{self.name} has a prompt, and the words of the passage alone are asked about"
            raise DataError(problem, hint="load the model without prompt=")
        detokenise = self.text == "detokenised"
        pairs = [
            wt.readable_spans(item.text, spans) if detokenise and item.tokenised else (item.text, spans)
            for item, spans in ((item, word_spans(item)) for item in items)
        ]
        ids, number = items.frame["item_id"].tolist(), "log-probability of a word"

        def fail(row: int) -> DataError:
            return not_a_number(np.nan, ids[row], model=self.name, dtype=self.dtype, quantity=number)

        with progress_bar(2 * len(pairs), label=self.name, unit="texts") as bar:
            return passage_log_probs(self._scorer, pairs, top_k=top_k, fail=fail, step=bar.update)

    def text_scores(
        self, items: Items, *, beginning: Beginning | None = None, window: LongText = "strided"
    ) -> TextScores:
        """Return the log-probabilities of texts after their contexts, of which a prompt is a part.

        See :func:`workbench.models.pretrained.passages.text_scores`.
        """
        ids, number = items.frame["item_id"].tolist(), "log-probability of a text"
        with progress_bar(len(items), label=self.name, unit="texts") as bar:
            return text_scores(
                self._scorer, list(chain(*self._answers(items))), beginning=beginning, window=window,
                fail=lambda row: not_a_number(
                    np.nan, ids[row], model=self.name, dtype=self.dtype, quantity=number
                ),
                step=bar.update,
            )  # fmt: skip

    def next_words(self, items: Items, *, chunk: int = 256) -> Iterator[Floats]:
        """Yield log-probabilities of words that are one sub-token (`ranking_words`), without their ends."""
        model = self.ranking_words
        if self.correct != "greedy" or model.vocabulary is None:
            raise DataError(f"{self.name} is asked about next words", hint="load it without vocabulary=")
        for start in range(0, len(items), chunk):
            batch = items[start : start + chunk]
            contexts = self._scorer.subwords.contexts([self._split(item).before for item in batch])
            values = np.zeros((len(batch), len(model.vocabulary)))
            for key, rows in self._by_lead(batch).items():
                _, trie = model._trie(*key)  # noqa: SLF001 - a copy of this class
                values[rows] = search.next_log_probs(self._scorer, trie, [contexts[row] for row in rows])
            yield values

    def ranking(self, items: Items, *, top_k: int = 10) -> Ranked:
        """Rank the answers among the words of the vocabulary; `predict` says which ranks are bounds.

        Raises
        ------
        DataError
            If there is no vocabulary.
        """
        if self.vocabulary is None:
            self.distribution(items)
        return self._rank(items, top_k)[0]

    def _by_lead(self, items: Items) -> dict[tuple[str, str, bool], list[int]]:
        """Return the indices of items by the text before their words, or forms of words."""
        groups: dict[tuple[str, str, bool], list[int]] = {}
        for index, item in enumerate(items):
            text = self._split(item)
            key = text.lead, anchor_of(text.context, text.lead), self.case == "sum" and _is_cased(item)
            groups.setdefault(key, []).append(index)
        return groups

    def _predict(self, items: Items, top_k: int, seed: int) -> pd.DataFrame:
        columns, words = self._columns(items), self._offered(items)
        if words is not None:
            return self._choose(items, words, columns, seed=seed, top_k=top_k)
        if self.vocabulary is None:
            return self._write(items, columns)
        ranked, scores, bounds = self._rank(items, max(top_k, 2))
        has = has_answers(items)
        columns |= self._answer_columns(items, scores)
        columns["rank_is_bound"] = nullable(np.array(bounds, dtype=bool), has & ranked.known)
        return from_ranking(
            items, ranked, model=self.name, dtype=self.dtype, seed=seed, top_k=top_k, **columns
        )

    def _columns(self, items: Items) -> dict[str, Any]:
        columns = {**super()._columns(items), "filter": self.filter}
        if self.case == "sum":
            columns["case"] = ["sum" if _is_cased(item) else None for item in items]
        columns["bos"] = self._scorer.subwords.beginnings([self._split(item).context for item in items])
        return columns

    def _choose(
        self, items: Items, words: Sequence[Sequence[str]], columns: dict[str, Any], **options: Any
    ) -> pd.DataFrame:
        """Return the rows of items with candidates; the answer alone is scored with them."""
        pairs = list(zip(self._continuations(items, words), self._answers(items), strict=True))
        rows, has = [row + answer for row, answer in pairs], has_answers(items)
        scores, answer_scores = self._score(rows, list(chain(*pairs))), no_scores(len(items))
        answers = np.cumsum([len(row) for row in rows])[has] - 1  # the last of their rows
        answer_scores[has] = scores[answers]
        values = self._word_scores(items, np.delete(scores, answers), [len(row) for row in words])
        columns |= {"filter": "none", "case": None, "vocabulary_size": pd.NA}
        columns |= self._answer_columns(items, answer_scores)
        return from_scores(
            items, values, words, model=self.name, score_type=self.score_type,
            log_prob=word_log_probs(answer_scores), dtype=self.dtype, **options, **columns,
        )  # fmt: skip

    def _write(self, items: Items, columns: dict[str, Any]) -> pd.DataFrame:
        """Return the rows of generated predictions: a word, or the last sub-token of the answer.

        An answer is correct where each of its sub-tokens, or the last one, is the most probable one.
        """
        queries, has = self._queries(items), has_answers(items)
        is_last = self.correct == "last-token"
        if is_last and not search.shares_words():
            scores = no_scores(len(items))
            scores[has] = self._score(self._answers(items))
        else:
            with progress_bar(len(items), label=self.name, unit="items") as bar:
                written, scores = search.write_words(self._scorer, queries, step=bar.update)
        if is_last:
            paths = [query.scored[1] for query in queries]
            written = [
                [*path[:-1], best][: len(path)]
                for path, best in zip(paths, scores["best"].tolist(), strict=True)
            ]
        columns |= self._answer_columns(items, scores)
        for item_id, path in zip(items.frame["item_id"], written, strict=True):
            if path[-1:] == [search.BROKEN]:
                quantity = "log-probability of a sub-token"
                raise not_a_number(np.nan, item_id, model=self.name, dtype=self.dtype, quantity=quantity)
        correct = scores["greedy"] & has
        if self.correct == "whole-word":
            columns["unit"], correct = "whole-word", correct & scores["stops"]
        if is_last:
            columns |= {"unit": "last-token", "log_prob_uncorrected": np.nan}
            pairs = zip(written, paths, strict=True)
            correct = np.array([path == answer for path, answer in pairs], dtype=bool) & has
        text = self._scorer.subwords.text
        contexts = [query.scored[0] if is_last else query.context for query in queries]
        words = [text(path, context).strip() for path, context in zip(written, contexts, strict=True)]
        if not is_last:  # of a sub-token of several words the first
            words = [
                word if path == query.path else word.partition(" ")[0]
                for word, path, query in zip(words, written, queries, strict=True)
            ]
        log_prob = scores["last"] if is_last else word_log_probs(scores)
        return self._written_rows(items, words, correct, log_prob, columns)

    def _answer_columns(self, items: Items, scores: Scores) -> dict[str, Any]:
        """Return the columns about the answers' sub-tokens; null without an answer."""
        has = has_answers(items)
        check_answers(items, word_log_probs(scores), has, model=self.name, dtype=self.dtype)
        return {
            "log_prob_uncorrected": np.where(has, scores["log_prob"], np.nan),
            "greedy_correct": nullable(scores["greedy"], has),
        }

    def _rank(self, items: Items, top_k: int) -> tuple[Ranked, Scores, list[bool]]:
        """Rank the answers; those after the same white space are searched together."""
        queries, scores = self._queries(items), no_scores(len(items))
        results: dict[int, search.SearchResult] = {}
        top_words: dict[int, list[str]] = {}
        with progress_bar(len(items), label=self.name, unit="items") as bar:
            for key, members in self._by_lead(items).items():
                forms, trie = self._trie(*key)
                batch_results, scores[members] = search.rank_words(
                    self._scorer, trie, [queries[index] for index in members],
                    top_k=top_k, budget=self.budget, step=bar.update,
                )  # fmt: skip
                for index, result in zip(members, batch_results, strict=True):
                    results[index], top_words[index] = result, [forms[form] for form in result.forms]
        ordered = [results[index] for index in range(len(items))]
        ranked = Ranked(
            word_log_probs(scores),
            np.array([result.rank for result in ordered], dtype=np.int64),
            np.array([result.n_tied for result in ordered], dtype=np.int64),
            np.array([query.word is not None for query in queries], dtype=bool),
            [top_words[index] for index in range(len(items))],
            [result.log_probs for result in ordered],
        )
        return ranked, scores, [result.is_bound for result in ordered]

    def _queries(self, items: Items) -> list[search.WordQuery]:
        """Return the sub-tokens of the contexts and the answers.

        The model writes words, and those of a vocabulary are compared, after the context's own sub-tokens.
        """
        texts, subwords = [self._split(item) for item in items], self._scorer.subwords
        contexts = subwords.contexts([text.before for text in texts])
        pairs = iter(subwords.pairs([[(text.before, text.word)] for text in texts if text.word]))
        queries = []
        for text, context, answer in zip(texts, contexts, items.frame["answer"], strict=True):
            if not text.word:
                queries.append(search.WordQuery(context, [], None, ([], [])))
                continue
            scored = next(pairs)
            path = scored[1] if scored[0] == context else []
            if not path and self.vocabulary is not None:  # as its words are encoded
                [path] = subwords.words([text.word], text.lead, anchor_of(text.context, text.lead))
            word = self._index.get(answer.lower() if self.case == "sum" else answer)
            queries.append(search.WordQuery(context, path, word, scored))
        return queries

    def _answers(self, items: Items) -> list[list[Continuation]]:
        """Return the answer of each item without the text after it; empty without an answer."""
        texts = [self._split(item) for item in items]
        return [[(text.before, text.word)] if text.word else [] for text in texts]

    def _score(
        self,
        rows: Sequence[Sequence[Continuation]],
        alike: Sequence[Sequence[Continuation]] | None = None,
    ) -> Scores:
        n = sum(map(len, rows))
        with progress_bar(n, label=self.name, unit="texts") as bar:
            return self._scorer.score(rows, alike=alike, step=bar.update)

    def _word_scores(self, items: Items, scores: Scores, sizes: Sequence[int]) -> Floats:
        """Return the scores of the words of each item: with their end, where nothing follows them."""
        is_last = np.repeat([not self._split(item).after for item in items], sizes)
        values = np.where(is_last, word_log_probs(scores), scores["log_prob"])
        return pad(np.split(values, np.cumsum(sizes)[:-1]))

    def _build_trie(self, lead: str, anchor: str, by_form: bool) -> tuple[Sequence[str], search.Trie]:  # noqa: FBT001
        """Return the words, or their forms, and their sub-tokens after white space and a text."""
        forms, words = self.vocabulary or (), None
        if by_form:
            forms_of = list(map(cased_forms, forms))
            forms = tuple(chain.from_iterable(forms_of))
            words = np.repeat(np.arange(len(forms_of)), [len(row) for row in forms_of])
        written = [wt.readable(form) for form in forms] if self.text == "detokenised" else forms
        return forms, search.Trie(self._scorer.subwords.words(written, lead, anchor), words)

    def attend(self, items: Items) -> list[Attention]:
        """Return the attention of each layer and head at the last position before each blank.

        Parts are the tokens of the items: a token has the sum of its sub-tokens. What the model gives to a
        prompt or to special sub-tokens is left out, so a row sums to at most 1.
        """
        predictions = self.predict(items, top_k=1)["prediction"]
        looks = []
        for item, prediction in zip(items, predictions, strict=True):
            split, weights = tokens(item), self._attention(item)
            layers, heads, _ = weights.shape
            rows = [f"layer {a}, head {b}" for a in range(1, layers + 1) for b in range(1, heads + 1)]
            read = np.flatnonzero(weights.any(axis=(0, 1)))
            spans = tuple(split.spans[position] for position in read)
            query = next((span for span in reversed(split.spans[: split.target]) if span[0] < span[1]), None)
            chosen = "" if pd.isna(prediction) else str(prediction)
            values = weights[:, :, read].reshape(len(rows), -1)
            looks.append(Attention(item.item_id, self.name, tuple(rows), spans, values, query, chosen))
        return looks

    def _token_attention(self, items: Items) -> list[list[float]]:
        """Return the attention of the last layer, the mean over its heads."""
        with progress_bar(len(items), label=self.name, unit="attention") as bar:
            return [self._attention(item)[-1].mean(axis=0).tolist() for item in items if not bar.update()]

    def _attention(self, item: Item) -> Floats:
        """Return the attention at the last position before the answer: (layers, heads, tokens).

        The answer and what follows it have 0.
        """
        split = tokens(item)
        detokenise = self.text == "detokenised"
        offset = 0 if self.prompt is None else len(self.prompt.prefix(item, detokenise=detokenise))
        spans = list(split.spans[: split.target])
        if detokenise and item.tokenised:
            _, spans = wt.readable_spans(item.text, [*spans, item.answer_span])
            spans.pop()
        spans = [(start + offset, end + offset) for start, end in spans]
        weights = self._scorer.attention(self._split(item).context, spans)
        return np.pad(weights, ((0, 0), (0, 0), (0, len(split.words) - len(spans))))

    def _save(self, folder: Path) -> None:
        if self.prompt is not None:
            raise DataError("a model with a prompt is not saved", hint="save it without, and pass prompt=")
        super()._save(folder)

    @classmethod
    def _load(cls, folder: Path, config: dict[str, Any], **options: Any) -> Self:
        scoring = Scoring(**{field.name: config[field.name] for field in fields(Scoring)})
        return super()._load(folder, config, scoring=scoring, **options)


def _is_cased(item: Item) -> bool:
    """Return whether a text has an upper-case letter outside the answer."""
    start, end = item.answer_span
    text = item.text[:start] + item.text[end:]
    return text != text.lower()
