"""Rank a vocabulary by a causal model without scoring every word, and write the most probable word.

Words are paths of sub-tokens in a trie. The probability of a path can only fall as it goes on, so the words
below a path are skipped if its log-probability is not above a bound. The best open path is expanded first
(best-first branch and bound: Lawler and Wood 1966).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.models.pretrained.loading import Ids
from workbench.models.pretrained.scoring import (
    CausalScorer,
    EncodedContexts,
    Scores,
    half_steps,
    no_scores,
    word_log_probs,
)
from workbench.predictions.schema import Floats
from workbench.storage.cache import digest

if TYPE_CHECKING:
    import torch

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

ROOT = 0
TIE = 1e-5
"""Log-probabilities that differ by no more count as equal: sums of single-precision numbers, in batches of
different shapes, differ by about 1e-6."""

BROKEN = -1
"""Placeholder of a sub-token that a model writes where its logits are not numbers."""

_ABOVE = float(np.exp(TIE))  # how many times as probable as the answer a word above it is
_SLACK = TIE / 2  # share of a probability that may be unknown where words are compared with the answer
_CLOSE = 1e-4  # the same of the best words: their order and log-probabilities are exact to this
_EXPONENT = 600.0  # exponentials of twice as much are no numbers
_PATHS = 256  # of one item in a batch
_LONGEST_WORD = 12  # sub-tokens of a word that is written
_SHARED: ContextVar[dict[tuple[int, str], tuple[list[Ids], Scores]] | None]
_SHARED = ContextVar("_SHARED", default=None)


class Trie:
    """Forms of words as paths of sub-tokens, in the order of the paths: those below a node are a slice.

    A form with an empty path is never found. Several words may have the same path; forms of one word with the
    same path are one form. The `words` of the forms ascend; by default each form is a word of its own.

    Attributes
    ----------
    parent, token : array (n,)
        The node above each node, and the sub-token that leads from there; node 0 is the root.
    slices : array (n, 3)
        Range of forms below a node: the first, the first after those that end at the node, and the end.
    form, word : array (forms with a path,)
        Which form, and which word that is.
    depth : int
        Sub-tokens of the longest form.
    n_words, size : int
        Words with a path, and all words.
    """

    def __init__(self, paths: Sequence[Sequence[int]], words: Sequence[int] | Integers | None = None) -> None:
        self.paths = paths
        owner = np.arange(len(paths)) if words is None else np.asarray(words, dtype=np.int64)
        length = np.array([len(path) for path in paths], dtype=np.int64)
        self.depth, self.size = int(length.max(initial=0)), int(owner.max(initial=-1)) + 1
        grid = np.full((len(paths), self.depth), -1)
        grid[np.arange(self.depth) < length[:, None]] = np.fromiter(chain.from_iterable(paths), np.int64)
        order = np.lexsort((owner, *grid.T[::-1]))
        order = order[length[order] > 0]
        rows = grid[order]
        shared = np.cumprod(rows[1:] == rows[:-1], axis=1).sum(axis=1)  # the padding counted
        again = (shared == self.depth) & (owner[order[1:]] == owner[order[:-1]])
        is_first, shared = np.append(True, ~again)[: len(order)], np.append(0, shared)[: len(order)]
        self.form = order[is_first]
        self.word = owner[self.form]
        self._set_nodes(rows[is_first], length[self.form], np.minimum(shared[is_first], length[self.form]))
        self.n_words = len(np.unique(self.word))

    def _set_nodes(self, rows: Integers, length: Integers, shared: Integers) -> None:
        """Set the nodes: for each form those that it does not share with the form before it."""
        counts = length - shared
        first = np.repeat(np.arange(len(rows)), counts)
        depth = np.arange(len(first)) - np.repeat(np.cumsum(counts) - length, counts)
        self.token = np.append(-1, rows[first, depth])
        self.parent = np.arange(-1, len(first))  # the node before it, if that is on the same form's path
        inner, end = first.copy(), first.copy()
        above = np.zeros(0, dtype=np.int64)
        for level in range(self.depth):
            nodes = np.flatnonzero(depth == level)
            starts = np.flatnonzero(shared <= level)
            end[nodes] = np.append(starts, len(rows))[np.searchsorted(starts, first[nodes], side="right")]
            ending = np.flatnonzero(length == level + 1)
            owners = nodes[np.searchsorted(first[nodes], ending, side="right") - 1]
            np.add.at(inner, owners, 1)
            if level:
                nearest = np.searchsorted(first[above], first[nodes], side="right") - 1
                self.parent[1 + nodes] = 1 + above[nearest]
            else:
                self.parent[1 + nodes] = ROOT
            above = nodes
        self.slices = np.vstack([[[0, 0, len(rows)]], np.column_stack([first, inner, end])])
        self._children = np.argsort(self.parent, kind="stable")[1:]
        self._first = np.searchsorted(self.parent[self._children], np.arange(len(self.parent) + 1))

    def children(self, node: int) -> Integers:
        """Return the nodes below a node."""
        return self._children[self._first[node] : self._first[node + 1]]

    def path(self, node: int) -> Ids:
        """Return the sub-tokens from the root to a node."""
        path = []
        while node != ROOT:
            path.append(int(self.token[node]))
            node = int(self.parent[node])
        return path[::-1]

    def forms(self, word: int) -> list[int]:
        """Return the forms of a word, each path once."""
        forms: list[int] = np.sort(self.form[self.word == word]).tolist()
        return forms


class SearchResult(NamedTuple):
    """Rank of an answer, and the best words."""

    rank: int  # 1 + number of words that are known to be more probable than the answer
    n_tied: int  # words known to be as probable, the answer counted
    is_bound: bool  # whether there may be more of both, as the budget was spent
    words: list[int]  # the best; no other word is above any of them
    forms: list[int]  # the most probable form of each
    log_probs: list[float]


class Search:
    """Rank the answer of one item among the words of a trie; the caller runs the model, in any batches.

    The probability of a word is the sum of those of its forms. A form whose end is not known is at most as
    probable as the longest beginning of it that is known, so each word has a lower and an upper bound. `take`
    returns the nodes after which the model is run, `give` stores what it returned, until `take` returns none.
    Only nodes are taken that decide whether a word is above the answer, or among the best.

    `first` are the log-probabilities of the children of the root, in the order of ``trie.children``, as for
    all nodes. `answer` is the word that is to be ranked, `value` its log-probability, that of its end
    included, and `form` its most probable form. The search for the rank ends after `budget` nodes; that for
    the `top_k` best words goes on to the end.
    """

    def __init__(
        self,
        trie: Trie,
        first: Floats,
        *,
        answer: int | None = None,
        value: float = np.inf,
        form: int | None = None,
        top_k: int = 10,
        budget: int | None = None,
    ) -> None:
        self.trie, self.answer, self.top_k = trie, answer, max(top_k, 1)
        self.budget: float = np.inf if budget is None else budget
        self.spent = 0
        self.broken = answer is not None and bool(np.isnan(value))  # NaN can be compared with nothing
        self.log_prob = np.zeros(len(trie.parent))  # of the path of each node that is known
        # an answer may be less probable than the least number: probabilities are multiples of exp(_shift)
        self._shift = max(min(0.0, value + _EXPONENT), -_EXPONENT) if np.isfinite(value) else 0.0
        self._value = np.inf if answer is None else float(np.exp(value - self._shift))
        self._form = answer if form is None else form
        self._bound = np.zeros(len(trie.form))  # of the probability of each form, from above
        self._node = np.zeros(len(trie.form), dtype=np.int64)  # to ask about next; ROOT: the bound is exact
        self._open(ROOT, np.asarray(first, dtype=np.float64))

    def take(self, limit: int) -> list[int]:
        """Return the nodes to run the model on next: at most `limit` for the rank and a few others."""
        if self.broken or not len(self._bound):
            return []
        lower, upper = self._bounds()
        is_open = _open_words(lower, upper, _CLOSE)
        positive = lower[lower > 0]
        best = np.partition(positive, -self.top_k)[-self.top_k] if len(positive) >= self.top_k else 0.0
        within = int(min(limit, max(self.budget - self.spent, 0)))
        nodes = self._next_nodes(self._undecided(lower, upper))[:within] if within else []
        # others may turn out to be below the best words: no more of them than may be needed
        others = self._next_nodes(is_open & (upper > best))[: self.top_k]
        nodes = list(dict.fromkeys([*nodes, *others]))
        self.spent += len(nodes)
        return nodes

    def give(self, node: int, end: float, children: Floats) -> None:
        """Set the log-probabilities of the word's end after a node's path, and of its children."""
        first, inner, _ = self.trie.slices[node]
        self._bound[first:inner] = np.exp(self.log_prob[node] + end - self._shift)
        self._node[first:inner] = ROOT
        self.broken |= bool(np.isnan(end))
        self._open(node, self.log_prob[node] + np.asarray(children, dtype=np.float64))

    @property
    def result(self) -> SearchResult:
        """The result so far; the best word has NaN if the model gave NaN for any word."""
        if self.broken:
            return SearchResult(0, 0, is_bound=False, words=[0], forms=[0], log_probs=[np.nan])
        lower, upper = self._bounds()
        is_open = _open_words(lower, upper, _CLOSE)
        limit = max(upper[is_open], default=0.0)
        best = np.argsort(-lower, kind="stable")[: self.top_k]
        best = best[~is_open[best] & (lower[best] >= limit) & (lower[best] > 0)]
        above, tied = int((lower > self._value * _ABOVE).sum()), 1
        if self.answer is not None:
            near = (
                ~_open_words(lower, upper, _SLACK)
                & (lower >= self._value / _ABOVE)
                & (lower <= self._value * _ABOVE)
            )
            # one of probability 0 is as probable as all words that were not looked at
            tied = int(near.sum()) if self._value else self.trie.n_words - above
        with np.errstate(divide="ignore"):
            values = np.log(lower[best]) + self._shift
        return SearchResult(
            rank=1 + above,
            n_tied=tied,
            is_bound=bool(self._undecided(lower, upper).any()),
            words=best.tolist(),
            forms=[self._best_form(word) for word in best.tolist()],
            log_probs=values.tolist(),
        )

    def _bounds(self) -> tuple[Floats, Floats]:
        """Return a lower and an upper bound of the probability of each word."""
        word, size = self.trie.word, self.trie.size
        exact = np.flatnonzero(self._node == ROOT)
        lower: Floats = np.bincount(word[exact], self._bound[exact], size).astype(float)
        upper: Floats = np.bincount(word, self._bound, size).astype(float)
        if self.answer is not None:
            lower[self.answer] = upper[self.answer] = self._value
        return lower, upper

    def _undecided(self, lower: Floats, upper: Floats) -> Mask:
        """Return the words that may be above or below the answer."""
        near = (upper > self._value / _ABOVE) & (lower <= self._value * _ABOVE)
        return np.asarray(near & _open_words(lower, upper, _SLACK))

    def _next_nodes(self, words: Mask) -> list[int]:
        """Return the next nodes of some words, the best first: of each its most probable form."""
        trie = self.trie
        forms = np.flatnonzero(words[trie.word] & (self._node != ROOT))
        bound, word = self._bound[forms], trie.word[forms]
        top = np.full(trie.size, -1.0)
        np.maximum.at(top, word, bound)
        nodes = np.unique(self._node[forms[bound == top[word]]])
        order = np.argsort(-self.log_prob[nodes], kind="stable")
        ordered: list[int] = nodes[order].tolist()
        return ordered

    def _best_form(self, word: int) -> int:
        if word == self.answer and self._form is not None:
            return self._form
        indices = np.flatnonzero((self.trie.word == word) & (self._node == ROOT))
        return int(self.trie.form[indices[self._bound[indices].argmax()]])

    def _open(self, node: int, log_probs: Floats) -> None:
        """Set the log-probabilities of the paths of a node's children."""
        children, (_, inner, end) = self.trie.children(node), self.trie.slices[node].tolist()
        self.broken |= bool(np.isnan(log_probs).any())
        self.log_prob[children] = log_probs
        sizes = self.trie.slices[children, 2] - self.trie.slices[children, 0]
        self._bound[inner:end] = np.repeat(np.exp(log_probs - self._shift), sizes)
        self._node[inner:end] = np.repeat(children, sizes)


def _open_words(lower: Floats, upper: Floats, share: float) -> Mask:
    """Return the words with more than a share of their probability still unknown."""
    return np.asarray(upper - lower > share * lower)


class WordQuery(NamedTuple):
    """The context of an item, and the sub-tokens of its answer."""

    context: Ids  # before the word; where it leaves no room for a word, the first sub-tokens are not seen
    path: Ids  # sub-tokens of the answer after it; empty where there are none
    word: int | None  # index of the answer in the vocabulary
    scored: tuple[Ids, Ids]  # context and answer whose scores are returned


def rank_words(
    scorer: CausalScorer,
    trie: Trie,
    queries: Sequence[WordQuery],
    *,
    top_k: int,
    budget: int | None,
    step: Callable[[float], object],
) -> tuple[list[SearchResult], Scores]:
    """Rank the answer of each item among the words of a trie (see `Search`); return its scores, too.

    `step` is a progress callback: it is called with the number of items done.
    """
    results: dict[int, SearchResult] = {}
    scores = no_scores(len(queries))
    top = scorer.tensor(trie.token[trie.children(ROOT)])
    for batch, contexts in _contexts(scorer, queries, trie.depth, scores, step=step):
        first = contexts.first.index_select(1, top).double().cpu().numpy()
        answers = _answer_forms(scorer, trie, contexts, [queries[owner] for owner in batch], scores[batch])
        searches = [
            Search(trie, values, answer=queries[owner].word, value=value, form=form,
                   top_k=top_k, budget=budget)
            for owner, values, (value, form) in zip(batch, first, answers, strict=True)
        ]  # fmt: skip
        _run(scorer, trie, contexts, searches, step=step)
        results |= {owner: search.result for owner, search in zip(batch, searches, strict=True)}
    return [results[index] for index in range(len(queries))], scores


def _answer_forms(
    scorer: CausalScorer, trie: Trie, contexts: EncodedContexts, queries: Sequence[WordQuery], scores: Scores
) -> list[tuple[float, int | None]]:
    """Return the log-probability of each answer's forms together, and the most probable of them.

    A single form is the answer as it is written.
    """
    forms = [[] if query.word is None else trie.forms(query.word) for query in queries]
    values = [dict.fromkeys(few, value) for few, value in zip(forms, word_log_probs(scores), strict=True)]
    others = [
        (index, form) for index, (few, query) in enumerate(zip(forms, queries, strict=True)) for form in few
        if len(few) > 1 and trie.paths[form] != query.path
    ]  # fmt: skip
    others_scores = scorer.score_after(
        contexts, [index for index, _ in others], [list(trie.paths[form]) for _, form in others]
    )
    for (index, form), value in zip(others, word_log_probs(others_scores).tolist(), strict=True):
        values[index][form] = value
    with np.errstate(invalid="ignore"):  # what is not a number is found where rows are made
        return [
            (float(np.logaddexp.reduce(list(each.values()))), max(each, key=each.__getitem__))
            if each else (float(value), None)
            for each, value in zip(values, word_log_probs(scores), strict=True)
        ]  # fmt: skip


def _run(
    scorer: CausalScorer,
    trie: Trie,
    contexts: EncodedContexts,
    searches: Sequence[Search],
    *,
    step: Callable[[float], object],
) -> None:
    """Score the pending prefixes of all searches in batches; `step` gets half of each that is finished."""
    running = list(range(len(searches)))
    while running:
        wanted = {owner: searches[owner].take(_PATHS) for owner in running}
        running = [owner for owner, nodes in wanted.items() if nodes]
        step((len(wanted) - len(running)) / 2)
        taken = [(owner, node) for owner, nodes in wanted.items() for node in nodes]
        paths = [trie.path(node) for _, node in taken]
        for batch, logits in scorer.next_logits(contexts, [owner for owner, _ in taken], paths):
            norm, end = scorer.end_log_probs(logits)
            below = [trie.children(taken[index][1]) for index in batch]
            sizes = [len(nodes) for nodes in below]
            rows = scorer.tensor(np.repeat(np.arange(len(batch)), sizes))
            tokens = scorer.tensor(trie.token[np.concatenate(below)])
            values = (logits[rows, tokens].double() - norm.double()[rows]).cpu().numpy()
            children = np.split(values, np.cumsum(sizes)[:-1])
            for index, closing, log_probs in zip(batch, end.double().cpu().tolist(), children, strict=True):
                owner, node = taken[index]
                searches[owner].give(node, closing, log_probs)


def next_log_probs(scorer: CausalScorer, trie: Trie, contexts: Sequence[Ids]) -> Floats:
    """Return natural log-probabilities after contexts of a trie's words, without their ends, (n, words).

    Minus infinity for words of several sub-tokens.
    """
    values = np.full((len(contexts), len(trie.paths)), -np.inf)
    single = [form for form, path in enumerate(trie.paths) if len(path) == 1]
    tokens = scorer.tensor([trie.paths[form][0] for form in single])
    for batch, encoded in scorer.contexts([context[-scorer.length :] for context in contexts]):
        first = encoded.first.index_select(1, tokens).double().cpu().numpy()
        values[np.array(batch)[:, None], single] = first
    return values


@contextmanager
def sharing_words(*, share: bool = True) -> Iterator[None]:
    """Share the words that models write after the same texts within this context."""
    token = _SHARED.set({} if share else None)
    try:
        yield
    finally:
        _SHARED.reset(token)


def shares_words() -> bool:
    """Return whether models share the words that they write (`sharing_words`)."""
    return _SHARED.get() is not None


def write_words(
    scorer: CausalScorer, queries: Sequence[WordQuery], *, step: Callable[[float], object]
) -> tuple[list[Ids], Scores]:
    """Generate a word greedily: the most probable sub-tokens, until the word ends.

    Return the sub-tokens of the words, 12 at most, and the scores of the answers. The last sub-token is
    `BROKEN` where a logit after those before it is not a number. Within `sharing_words`, what was written
    after the same contexts is returned again.
    """
    if (shared := _SHARED.get()) is not None:
        texts = [(query.context, query.path) for query in queries]
        key = id(scorer.checkpoint.model), digest(repr(texts))
        if key not in shared:
            with sharing_words(share=False):
                shared.clear()  # of other texts
                shared[key] = write_words(scorer, queries, step=step)
        written, scores = shared[key]
        return [list(ids) for ids in written], scores.copy()
    words: list[Ids] = [query.path for query in queries]
    scores = no_scores(len(queries))
    for batch, contexts in _contexts(scorer, queries, 1, scores, step=step):
        first = _most_probable(contexts.first)
        others = [row for row, owner in enumerate(batch) if not scores["greedy"][owner]]
        for row in others:
            words[batch[row]] = [first[row]]
        others = [row for row in others if first[row] != BROKEN]
        step((len(batch) - len(others)) / 2)
        _write_on(scorer, contexts, [words[owner] for owner in batch], others, step=step)
    return words, scores


def _write_on(
    scorer: CausalScorer,
    contexts: EncodedContexts,
    paths: Sequence[Ids],
    rows: Sequence[int],
    *,
    step: Callable[[float], object],
) -> None:
    """Add sub-tokens to the words of `rows` until they end; `step` gets half of each that ends."""
    room = [min(_LONGEST_WORD, scorer.length - len(ids)) for ids in contexts.ids]
    unfinished = [row for row in rows if len(paths[row]) < room[row]]
    while unfinished:
        asked, unfinished = unfinished, []
        for batch, logits in scorer.next_logits(contexts, asked, [paths[row] for row in asked]):
            tokens = _most_probable(logits)
            for row, token in zip([asked[index] for index in batch], tokens, strict=True):
                if token == BROKEN:
                    paths[row].append(token)
                elif not scorer.subwords.ends[token]:
                    paths[row].append(token)
                    if len(paths[row]) < room[row]:
                        unfinished.append(row)
        step((len(asked) - len(unfinished)) / 2)


def _most_probable(logits: torch.Tensor) -> Ids:
    """Return the most probable sub-token of each row; `BROKEN` where the highest logit is not a number."""
    values, tokens = logits.max(dim=-1)
    return tokens.where(values.isfinite(), BROKEN).tolist()


def _contexts(
    scorer: CausalScorer,
    queries: Sequence[WordQuery],
    room: int,
    scores: Scores,
    *,
    step: Callable[[float], object],
) -> Iterator[tuple[list[int], EncodedContexts]]:
    """Yield contexts, cut so that a word of `room` sub-tokens fits behind them, and score their answers.

    After the last one, answers whose contexts were cut are scored again, with as much as the model can see,
    and those that are scored after other sub-tokens (`WordQuery.scored`). `step` gets half of each context.
    """
    limits = [max(scorer.length - max(room, len(query.path)), 1) for query in queries]
    visible = [query.context[-limit:] for query, limit in zip(queries, limits, strict=True)]
    for batch, contexts in scorer.contexts(visible, seen=half_steps(step)):
        rows = [row for row, owner in enumerate(batch) if queries[owner].path]
        owners = [batch[row] for row in rows]
        scores[owners] = scorer.score_after(contexts, rows, [queries[owner].path for owner in owners])
        yield batch, contexts
    again = [
        index for index, query in enumerate(queries)
        if query.scored[1]
        and (len(query.context) > limits[index] or query.scored != (query.context, query.path))
    ]  # fmt: skip
    scores[again] = scorer.score_pairs([queries[index].scored for index in again])
