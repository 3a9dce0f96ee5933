"""Rank a vocabulary by a causal model without asking about every word, and write the most probable word.

Words are paths of sub-tokens in a trie. The probability of a path can only fall as it goes on, so a path
whose log-probability is not above a bound needs no look at the words below it. The best open path is always
looked at first (best-first branch and bound: Lawler and Wood 1966).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.models.pretrained.loading import Ids
from workbench.models.pretrained.scoring import (
    CausalScorer,
    EncodedContexts,
    Scores,
    no_scores,
    word_log_probs,
)
from workbench.runs.predictions import Floats

if TYPE_CHECKING:
    import torch

Integers = npt.NDArray[np.int64]

ROOT = 0
TIE = 1e-5
"""Log-probabilities that differ by no more count as equal: sums of single-precision numbers, in batches of
different shapes, differ by about 1e-6."""

BROKEN = -1
"""Stands for the sub-token that a model would write whose logits are not numbers."""

_PATHS = 64  # of one item in a batch
_NEGLIGIBLE = 1e-4  # probability of beginnings of words that need no look
_LONGEST_WORD = 12  # sub-tokens of a word that is written


class Trie:
    """Words as paths of sub-tokens.

    Parameters
    ----------
    paths : sequence of sequence of int
        The sub-tokens of each word. A word with an empty path is never found; several may have the same.

    Attributes
    ----------
    parent, token : array (n,)
        The node above each node, and the sub-token that leads from there; node 0 is the root.
    depth : int
        Sub-tokens of the longest word.
    n_words : int
        Words with a path.
    """

    def __init__(self, paths: Sequence[Sequence[int]]) -> None:
        nodes: dict[tuple[int, int], int] = {}
        self._words: dict[int, list[int]] = {}
        for word, path in enumerate(paths):
            node = ROOT
            for step in path:
                node = nodes.setdefault((node, step), len(nodes) + 1)
            if path:
                self._words.setdefault(node, []).append(word)
        self.parent, self.token = np.array([(-1, -1), *nodes], dtype=np.int64).T
        self.depth = max(map(len, paths), default=0)
        self.n_words = sum(map(len, self._words.values()))
        self._children = np.argsort(self.parent, kind="stable")[1:]
        self._first = np.searchsorted(self.parent[self._children], np.arange(len(self.parent) + 1))

    def children(self, node: int) -> Integers:
        """Return the nodes below a node."""
        return self._children[self._first[node] : self._first[node + 1]]

    def words(self, node: int) -> list[int]:
        """Return the indices of the words that end at a node."""
        return self._words.get(node, [])

    def path(self, node: int) -> Ids:
        """Return the sub-tokens from the root to a node."""
        path = []
        while node != ROOT:
            path.append(int(self.token[node]))
            node = int(self.parent[node])
        return path[::-1]


class SearchResult(NamedTuple):
    """Rank of an answer, and the best words."""

    rank: int  # 1 + number of words that are known to be more probable than the answer
    n_tied: int  # words known to be as probable, the answer counted
    is_bound: bool  # whether there may be more of both, as the budget was spent
    words: list[int]  # the best; no word that was not looked at is above any of them
    log_probs: list[float]


class Search:
    """Search the words of a trie for one item; the model's answers come from outside, in any batches.

    `take` returns the nodes after which the model is to be asked, `give` takes its answers, until `take`
    returns none.

    Parameters
    ----------
    trie : Trie
    first : array (children of the root,)
        Log-probability of each child of the root, in the order of ``trie.children``, as for all nodes.
    answer : int, optional
        The word that is to be ranked.
    value : float, optional
        Its log-probability, that of its end included.
    top_k : int, default 10
        Number of best words that are wanted.
    budget : int, optional
        Number of nodes after which the search for the rank and for more than the best word ends. The best
        word is searched to the end whatever the budget.
    """

    def __init__(
        self,
        trie: Trie,
        first: Floats,
        *,
        answer: int | None = None,
        value: float = np.inf,
        top_k: int = 10,
        budget: int | None = None,
    ) -> None:
        self.trie, self.answer, self.top_k = trie, answer, max(top_k, 1)
        self.value = np.inf if answer is None else value
        self.budget = np.inf if budget is None else budget
        self.spent = 0
        self.broken = False  # whether a log-probability was NaN, which nothing can be compared with
        self._heap: list[tuple[float, int, int]] = []  # best open child: -log-probability, stream, place
        self._streams: list[tuple[Integers, Floats]] = []  # the children of a node, the best first
        self._values: list[tuple[float, int]] = []  # of all words that were reached
        self._best: list[float] = []  # the top_k best values, the worst of them first
        if answer is not None:
            self._add(answer, value)
        self._open(trie.children(ROOT), np.asarray(first, dtype=np.float64))

    def take(self, most: int) -> list[tuple[int, float]]:
        """Return at most `most` nodes to ask the model about next, with the log-probabilities."""
        nodes: list[tuple[int, float]] = []
        unsure = 0
        while self._heap and not self.broken and len(nodes) < most:
            top = -self._heap[0][0]
            if not top > self._limit():
                break
            if not (self.spent < self.budget and top > self.value - TIE):
                unsure += 1  # may turn out to be below the best words: no more of them than may be needed
                if unsure > self.top_k:
                    break
            nodes.append((self._pop(), top))
            self.spent += 1
        return nodes

    def give(self, node: int, path: float, end: float, children: Floats) -> None:
        """Take the log-probabilities of a node's path, of the word's end after it, and of its children."""
        words = self.trie.words(node)
        value = self.value if self.answer in words else path + end
        for word in words:
            if word != self.answer:
                self._add(word, value)
        self._open(self.trie.children(node), path + np.asarray(children, dtype=np.float64))

    @property
    def result(self) -> SearchResult:
        """What is known so far; the best word has NaN where the model gave that for any word."""
        if self.broken:
            return SearchResult(0, 0, is_bound=False, words=[0], log_probs=[np.nan])
        bound = -self._heap[0][0] if self._heap else -np.inf
        best = sorted(self._values, key=lambda pair: (-pair[0], pair[1]))[: self.top_k]
        sure = [pair for pair in best if not bound > pair[0]]
        others = np.array([value for value, word in self._values if word != self.answer])
        above = int((others > self.value + TIE).sum())
        if np.isneginf(self.value):  # as probable as all words that were not looked at: not at all
            n_tied = self.trie.n_words - above
        else:
            n_tied = 1 + int((np.abs(others - self.value) <= TIE).sum())
        return SearchResult(
            rank=1 + above,
            n_tied=n_tied,
            is_bound=self.answer is not None and bound > self.value - TIE,
            words=[word for _, word in sure],
            log_probs=[value for value, _ in sure],
        )

    def _limit(self) -> float:
        """Return the log-probability that an open path must be above to be looked at."""
        if self.spent >= self.budget:
            return max(self._best, default=-np.inf)
        full = self._best[0] if len(self._best) == self.top_k else -np.inf
        return min(full, self.value - TIE)

    def _add(self, word: int, value: float) -> None:
        self.broken |= bool(np.isnan(value))
        self._values.append((value, word))
        if len(self._best) < self.top_k:
            heappush(self._best, value)
        else:
            heappushpop(self._best, value)

    def _open(self, nodes: Integers, values: Floats) -> None:
        if len(nodes):
            order = np.argsort(-values, kind="stable")
            self.broken |= bool(np.isnan(values[order[-1]]))  # NaN comes last
            self._streams.append((nodes[order], values[order]))
            heappush(self._heap, (-float(values[order[0]]), len(self._streams) - 1, 0))

    def _pop(self) -> int:
        _, stream, place = heappop(self._heap)
        nodes, values = self._streams[stream]
        if place + 1 < len(nodes):
            heappush(self._heap, (-float(values[place + 1]), stream, place + 1))
        return int(nodes[place])


class WordQuery(NamedTuple):
    """What is asked about an item."""

    context: Ids  # before the word; where it leaves no room for a word, the first sub-tokens are not seen
    path: Ids  # sub-tokens of the answer; empty where there is none
    word: int | None  # index of the answer in the vocabulary


def rank_words(
    scorer: CausalScorer,
    trie: Trie,
    queries: Sequence[WordQuery],
    *,
    top_k: int,
    budget: int | None,
    step: Callable[[int], object],
) -> tuple[list[SearchResult], Scores]:
    """Rank the answer of each item among the words of a trie (see `Search`); return its scores, too.

    `step` is a progress callback: it is called with the number of items done.
    """
    results: dict[int, SearchResult] = {}
    scores = no_scores(len(queries))
    top = scorer.tensor(trie.token[trie.children(ROOT)])
    for batch, contexts in _contexts(scorer, queries, trie.depth, scores):
        first = contexts.first.index_select(1, top).double().cpu().numpy()
        answers = [queries[owner].word for owner in batch]
        searches = [
            Search(trie, values, answer=answer, value=value, top_k=top_k, budget=budget)
            for values, answer, value in zip(
                first, answers, word_log_probs(scores[batch]).tolist(), strict=True
            )
        ]
        _run(scorer, trie, contexts, searches)
        results |= {owner: search.result for owner, search in zip(batch, searches, strict=True)}
        step(len(batch))
    return [results[index] for index in range(len(queries))], scores


def _run(
    scorer: CausalScorer,
    trie: Trie,
    contexts: EncodedContexts,
    searches: Sequence[Search | CoverageSearch],
) -> None:
    """Ask the model whatever the searches need, for all of them at once."""
    while taken := [(place, *node) for place, search in enumerate(searches) for node in search.take(_PATHS)]:
        paths = [trie.path(node) for _, node, _ in taken]
        for batch, logits in scorer.next_logits(contexts, [place for place, _, _ in taken], paths):
            norm, end = scorer.end_log_probs(logits)
            below = [trie.children(taken[index][1]) for index in batch]
            sizes = [len(nodes) for nodes in below]
            rows = scorer.tensor(np.repeat(np.arange(len(batch)), sizes))
            tokens = scorer.tensor(trie.token[np.concatenate(below)])
            values = (logits[rows, tokens].double() - norm.double()[rows]).cpu().numpy()
            children = np.split(values, np.cumsum(sizes)[:-1])
            for index, closing, log_probs in zip(batch, end.double().cpu().tolist(), children, strict=True):
                place, node, value = taken[index]
                searches[place].give(node, value, closing, log_probs)


def write_words(
    scorer: CausalScorer, queries: Sequence[WordQuery], *, step: Callable[[int], object]
) -> tuple[list[Ids], Scores]:
    """Let the model write a word: the most probable sub-token, one after the other, until the word is over.

    Return the sub-tokens of the words, 12 at most, and the scores of the answers. The last sub-token is
    `BROKEN` where a logit after those before it is not a number.
    """
    words: list[Ids] = [query.path for query in queries]
    scores = no_scores(len(queries))
    waiting: list[tuple[int, EncodedContexts]] = []  # words that most others of their batch are shorter than

    def finish() -> None:
        owners = [owner for owner, _ in waiting]
        for part, contexts in scorer.joined([context for _, context in waiting]):
            _write_on(scorer, contexts, [words[owners[row]] for row in part], list(range(len(part))))
            step(len(part))
        waiting.clear()

    for batch, contexts in _contexts(scorer, queries, 1, scores):
        first = _most_probable(contexts.first)
        others = [place for place, owner in enumerate(batch) if not scores["greedy"][owner]]
        for place in others:
            words[batch[place]] = [first[place]]
        others = [place for place in others if first[place] != BROKEN]
        paths = [words[owner] for owner in batch]
        unfinished = _write_on(scorer, contexts, paths, others, most=1)
        singles = scorer.alone(contexts, unfinished)
        if singles is None:
            unfinished, singles = _write_on(scorer, contexts, paths, unfinished), []
        waiting += zip([batch[place] for place in unfinished], singles, strict=True)
        step(len(batch) - len(singles))
        if sum(len(context.ids[0]) for _, context in waiting) >= scorer.batcher.tokens:
            finish()
    finish()
    return words, scores


def _write_on(
    scorer: CausalScorer,
    contexts: EncodedContexts,
    paths: Sequence[Ids],
    places: Sequence[int],
    *,
    most: int = _LONGEST_WORD,
) -> list[int]:
    """Add the next sub-tokens to the words at some places, until they are over or for so many steps.

    Return the places of the words that are not over.
    """
    room = [min(_LONGEST_WORD, scorer.length - len(ids)) for ids in contexts.ids]
    unfinished = [place for place in places if len(paths[place]) < room[place]]
    for _ in range(most):
        asked, unfinished = unfinished, []
        for part, logits in scorer.next_logits(contexts, asked, [paths[place] for place in asked]):
            tokens = _most_probable(logits)
            for place, token in zip([asked[index] for index in part], tokens, strict=True):
                if token == BROKEN:
                    paths[place].append(token)
                elif not scorer.subwords.ends[token]:
                    paths[place].append(token)
                    if len(paths[place]) < room[place]:
                        unfinished.append(place)
    return unfinished


def _most_probable(logits: torch.Tensor) -> Ids:
    """Return the most probable sub-token of each row; `BROKEN` where the highest logit is not a number."""
    values, tokens = logits.max(dim=-1)
    return tokens.where(values.isfinite(), BROKEN).tolist()


def _contexts(
    scorer: CausalScorer, queries: Sequence[WordQuery], room: int, scores: Scores
) -> Iterator[tuple[list[int], EncodedContexts]]:
    """Yield contexts, cut so that a word of `room` sub-tokens fits behind them, and score their answers.

    After the last one, answers whose contexts were cut are scored again, with as much as the model can see.
    """
    limits = [max(scorer.length - max(room, len(query.path)), 1) for query in queries]
    visible = [query.context[-limit:] for query, limit in zip(queries, limits, strict=True)]
    for batch, contexts in scorer.contexts(visible):
        places = [place for place, owner in enumerate(batch) if queries[owner].path]
        owners = [batch[place] for place in places]
        scores[owners] = scorer.score_after(contexts, places, [queries[owner].path for owner in owners])
        yield batch, contexts
    cut = [index for index, query in enumerate(queries) if query.path and len(query.context) > limits[index]]
    scores[cut] = scorer.score_pairs([(queries[index].context, queries[index].path) for index in cut])


class CoverageSearch:
    """Sum the probabilities of the words of a trie after one context, the most probable beginnings first.

    A word that another one goes on to after its end, as "1,000" does after "1", is part of that one and
    counts once. For `take` and `give` see `Search`.

    Attributes
    ----------
    covered : float
        Probability that the text goes on with one of the words that were reached.
    """

    def __init__(self, trie: Trie, first: Floats, ends: npt.NDArray[np.bool_], *, budget: float) -> None:
        self._trie, self._ends, self._budget = trie, ends, budget
        self._heap: list[tuple[float, int]] = []
        self.covered = 0.0
        self._open(trie.children(ROOT), np.asarray(first, dtype=np.float64))

    @property
    def open(self) -> float:
        """Probability of the beginnings of words that were not looked at."""
        return float(np.exp([-value for value, _ in self._heap]).sum())

    def take(self, most: int) -> list[tuple[int, float]]:
        """Return at most `most` nodes to ask the model about next, with the log-probabilities."""
        n = min(most, len(self._heap), int(min(self._budget, most))) if self.open > _NEGLIGIBLE else 0
        self._budget -= n
        return [(node, -value) for value, node in (heappop(self._heap) for _ in range(n))]

    def give(self, node: int, path: float, end: float, children: Floats) -> None:
        """Take the log-probabilities of a node's path, of the word's end after it, and of its children."""
        nodes, values = self._trie.children(node), path + np.asarray(children, dtype=np.float64)
        if self._trie.words(node):
            self.covered += float(np.exp(path + end))
            inner = ~self._ends[self._trie.token[nodes]]
            nodes, values = nodes[inner], values[inner]
        self._open(nodes, values)

    def _open(self, nodes: Integers, values: Floats) -> None:
        for node, value in zip(nodes.tolist(), values.tolist(), strict=True):
            heappush(self._heap, (-value, node))


def cover(
    scorer: CausalScorer,
    trie: Trie,
    contexts: Sequence[Ids],
    *,
    budget: int | None,
    step: Callable[[int], object],
) -> list[tuple[float, float]]:
    """Return the probability of a trie's words after each context: at least, and at most."""
    shares: dict[int, tuple[float, float]] = {}
    top = scorer.tensor(trie.token[trie.children(ROOT)])
    limits = max(scorer.length - max(trie.depth, 1), 1)
    for batch, encoded in scorer.contexts([context[-limits:] for context in contexts]):
        first = encoded.first.index_select(1, top).double().cpu().numpy()
        most = np.inf if budget is None else budget
        searches = [CoverageSearch(trie, row, scorer.subwords.ends, budget=most) for row in first]
        _run(scorer, trie, encoded, searches)
        shares |= {
            owner: (each.covered, each.covered + each.open)
            for owner, each in zip(batch, searches, strict=True)
        }
        step(len(batch))
    return [shares[index] for index in range(len(contexts))]
