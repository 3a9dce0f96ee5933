"""The most probable words of a vocabulary, and how many are above a given one, by branch and bound.

Words are paths of sub-tokens in a trie. The probability of a path can only fall as it goes on, so a path
whose log-probability is not above a bound needs no look at the words below it. The best open path is always
looked at first (best-first branch and bound: Lawler and Wood 1966).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush, heappushpop
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

ROOT = 0
TIE = 1e-5
"""Log-probabilities that differ by no more count as equal: sums of single-precision numbers, in batches of
different shapes, differ by about 1e-6."""


class Trie:
    """Words as paths of sub-tokens.

    Parameters
    ----------
    paths : iterable of sequence of int
        The sub-tokens of each word. An empty path is left out; several words may have the same.

    Attributes
    ----------
    parent, token : array (n,)
        The node above each node, and the sub-token that leads from there; node 0 is the root.
    depth : int
        Sub-tokens of the longest word.
    """

    def __init__(self, paths: Iterable[Sequence[int]]) -> None:
        place: dict[tuple[int, int], int] = {}
        parent, token = [-1], [-1]
        last: list[int] = []
        self.depth = 0
        for path in paths:
            node = ROOT
            for part in path:
                key = (node, part)
                found = place.get(key)
                if found is None:
                    found = place[key] = len(parent)
                    parent.append(node)
                    token.append(part)
                node = found
            last.append(node)
            self.depth = max(self.depth, len(path))
        self.parent, self.token = np.array(parent, dtype=np.int64), np.array(token, dtype=np.int64)
        self._last = np.array(last, dtype=np.int64)
        self._children, self._first = _grouped(self.parent[1:], len(parent))
        self._children = self._children + 1
        self._words, self._start = _grouped(self._last, len(parent))

    def __len__(self) -> int:
        return len(self.parent)

    def children(self, node: int) -> Integers:
        """Return the nodes below a node."""
        return self._children[self._first[node] : self._first[node + 1]]

    def words(self, node: int) -> list[int]:
        """Return the words that end at a node, by their place among the paths."""
        if node == ROOT:
            return []
        found: list[int] = self._words[self._start[node] : self._start[node + 1]].tolist()
        return found

    def node(self, word: int) -> int:
        """Return the node at which a word ends; the root for a word without sub-tokens."""
        return int(self._last[word])

    def path(self, node: int) -> list[int]:
        """Return the sub-tokens from the root to a node."""
        found = []
        while node != ROOT:
            found.append(int(self.token[node]))
            node = int(self.parent[node])
        return found[::-1]


class Found(NamedTuple):
    """What a search found.

    Attributes
    ----------
    rank : int
        1 + number of words that are known to be more probable than the answer.
    n_tied : int
        Words known to be as probable, the answer counted.
    is_bound : bool
        Whether there may be more of both, as the budget was spent.
    words : list of int
        The best words, none that was not looked at above any of them.
    log_probs : list of float
    expansions : int
        Number of paths after which the model was asked.
    """

    rank: int
    n_tied: int
    is_bound: bool
    words: list[int]
    log_probs: list[float]
    expansions: int


class Search:
    """Search the words of one trie for one item; the model's answers come from outside, in any batches.

    `take` says after which nodes the model is to be asked, `give` takes what it said, until `take` is empty.

    Parameters
    ----------
    trie : Trie
    first : array (children of the root,)
        Log-probability of each child of the root, in the order of ``trie.children(ROOT)``.
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
        self._heap: list[tuple[float, int, int]] = []  # best open child: -log-probability, stream, place
        self._streams: list[tuple[Integers, Floats]] = []  # the children of a node, the best first
        self._done: list[tuple[float, int]] = []
        self._best: list[float] = []  # the top_k best values, the worst of them first
        if answer is not None:
            self._add(answer, value)
        self._open(trie.children(ROOT), np.asarray(first, dtype=np.float64))

    def take(self, most: int) -> list[tuple[int, float]]:
        """Return the nodes to ask the model after next, with the log-probabilities of their sub-tokens.

        They are at most `most`; none where the search is over.
        """
        found: list[tuple[int, float]] = []
        unsure = 0
        while self._heap and len(found) < most:
            top = -self._heap[0][0]
            if not top > self._limit():
                break
            if not self._sure(top):
                unsure += 1  # may turn out to be below the best words: no more of them than may be needed
                if unsure > self.top_k:
                    break
            found.append((self._pop(), top))
            self.spent += 1
        return found

    def give(self, node: int, path: float, end: float, children: Floats) -> None:
        """Take what the model said after a node.

        Parameters
        ----------
        node : int
        path : float
            Log-probability of the node's sub-tokens.
        end : float
            That the word ends there.
        children : array
            That each of ``trie.children(node)`` comes next.
        """
        words = self.trie.words(node)
        if words:
            same = self.answer is not None and self.trie.node(self.answer) == node
            for word in words:
                if word != self.answer:
                    self._add(word, self.value if same else path + end)
        below = self.trie.children(node)
        if len(below):
            self._open(below, path + np.asarray(children, dtype=np.float64))

    @property
    def found(self) -> Found:
        """What is known by now."""
        left = -self._heap[0][0] if self._heap else -np.inf
        order = sorted(self._done, key=lambda pair: (-pair[0], pair[1]))
        sure = [pair for pair in order[: self.top_k] if not left > pair[0]]
        others = np.array([value for value, word in self._done if word != self.answer])
        return Found(
            rank=1 + int((others > self.value + TIE).sum()),
            n_tied=1 + int((np.abs(others - self.value) <= TIE).sum()),
            is_bound=self.answer is not None and left > self.value - TIE,
            words=[word for _, word in sure],
            log_probs=[value for value, _ in sure],
            expansions=self.spent,
        )

    def _limit(self) -> float:
        """Return the log-probability that an open path must be above to be looked at."""
        best = self._best
        if self.spent >= self.budget:
            return max(best, default=-np.inf)
        full = best[0] if len(best) == self.top_k else -np.inf
        return min(full, self.value - TIE)

    def _sure(self, top: float) -> bool:
        """Say whether a path must be looked at whatever is found first."""
        return self.spent < self.budget and top > self.value - TIE

    def _add(self, word: int, value: float) -> None:
        self._done.append((value, word))
        if len(self._best) < self.top_k:
            heappush(self._best, value)
        else:
            heappushpop(self._best, value)

    def _open(self, nodes: Integers, values: Floats) -> None:
        if len(nodes):
            order = np.argsort(-values, kind="stable")
            self._streams.append((nodes[order], values[order]))
            heappush(self._heap, (-float(values[order[0]]), len(self._streams) - 1, 0))

    def _pop(self) -> int:
        _, stream, place = heappop(self._heap)
        nodes, values = self._streams[stream]
        if place + 1 < len(nodes):
            heappush(self._heap, (-float(values[place + 1]), stream, place + 1))
        return int(nodes[place])


def _grouped(groups: Integers, n: int) -> tuple[Integers, Integers]:
    """Return places ordered by their group, and where each of `n` groups begins, shape (n + 1,)."""
    order = np.argsort(groups, kind="stable")
    return order, np.searchsorted(groups[order], np.arange(n + 1))
