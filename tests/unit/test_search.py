import math

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from workbench.models.pretrained.search import ROOT, TIE, Search, Trie

LETTERS = 4
PATHS = st.lists(
    st.lists(st.integers(0, LETTERS - 1), min_size=1, max_size=4), min_size=1, max_size=40
)  # words with the same path too


class Language:
    """Sub-tokens whose probabilities depend on all before them; the last logit is the word's end."""

    def __init__(self, seed, peak):
        self.seed, self.peak, self.asked = seed, peak, 0

    def after(self, path):
        rng = np.random.default_rng([self.seed, *path, len(path)])
        logits = rng.normal(size=LETTERS + 1) * self.peak
        return logits - np.log(np.exp(logits).sum())

    def word(self, path):
        return sum(self.after(path[:n])[letter] for n, letter in enumerate(path)) + self.after(path)[-1]


def run(search, trie, language, most=7):
    while taken := search.take(most):
        assert len(taken) <= most
        for node, value in taken:
            path = trie.path(node)
            assert math.isclose(value, language.word(path) - language.after(path)[-1], abs_tol=1e-12)
            log_probs = language.after(path)
            language.asked += 1
            search.give(node, value, log_probs[-1], log_probs[trie.token[trie.children(node)]])
    return search.result


def start(trie, language, **options):
    first = language.after([])[trie.token[trie.children(ROOT)]]
    return Search(trie, first, **options)


def test_a_trie_keeps_the_words():
    trie = Trie([[1, 2], [1], [], [1, 2], [3, 4, 5]])
    words = {tuple(trie.path(node)): trie.words(node) for node in range(len(trie.parent))}
    # a word without sub-tokens is never found
    assert words == {(): [], (1,): [1], (1, 2): [0, 3], (3,): [], (3, 4): [], (3, 4, 5): [4]}
    assert trie.depth == 3


@given(PATHS, st.integers(0, 1000), st.sampled_from([0.3, 2.0, 6.0]), st.integers(1, 12), st.data())
def test_ranks_and_best_words_are_those_of_a_look_at_every_word(paths, seed, peak, top_k, data):
    language, trie = Language(seed, peak), Trie(paths)
    values = np.array([language.word(path) for path in paths])
    answer = data.draw(st.integers(0, len(paths) - 1))
    gaps = np.abs(values - values[answer])
    assume(((gaps < TIE / 10) | (gaps > TIE * 10)).all())
    most = data.draw(st.integers(1, 9))
    search = start(trie, language, answer=answer, value=values[answer], top_k=top_k)
    result = run(search, trie, language, most)
    assert result.rank == 1 + (values > values[answer] + TIE).sum()
    assert result.n_tied == (gaps <= TIE).sum()
    assert not result.is_bound
    assert result.words == sorted(range(len(paths)), key=lambda w: (-values[w].round(12), w))[:top_k]
    np.testing.assert_allclose(result.log_probs, values[result.words], atol=1e-12)
    assert language.asked < len(trie.parent)


@given(PATHS, st.integers(0, 1000), st.integers(0, 20), st.data())
def test_where_the_budget_ends_the_rank_is_a_bound_and_the_best_word_is_right(paths, seed, budget, data):
    language, trie = Language(seed, 2.0), Trie(paths)
    values = np.array([language.word(path) for path in paths])
    answer = data.draw(st.integers(0, len(paths) - 1))
    true = 1 + (values > values[answer] + TIE).sum()
    result = run(start(trie, language, answer=answer, value=values[answer], budget=budget), trie, language)
    assert result.rank <= true
    assert result.is_bound or result.rank == true
    assert values[result.words[0]] == values.max()
    assert values[result.words].tolist() == sorted(values, reverse=True)[: len(result.words)]
    assert language.asked <= max(budget, math.exp(-values.max()) * trie.depth + 1)


def test_nothing_is_asked_about_paths_below_the_bound():
    trie = Trie([[0], [1], [2], [2, 3]])
    search = Search(trie, np.log([0.6, 0.3, 0.1]), answer=0, value=math.log(0.5), top_k=1)
    [(node, value)] = search.take(9)
    assert (trie.path(node), value) == ([0], math.log(0.6))
    search.give(node, value, math.log(0.5 / 0.6), np.zeros(0))
    assert search.take(9) == []
    assert search.result == (1, 1, False, [0], [math.log(0.5)])


def test_without_an_answer_there_are_the_best_words_only():
    language, paths = Language(3, 2.0), [[0], [1], [2], [1, 1], [3, 0]]
    trie, values = Trie(paths), [language.word(path) for path in paths]
    result = run(start(trie, language, top_k=2), trie, language)
    assert result.words == np.argsort(values)[::-1][:2].tolist()
    assert not result.is_bound


def test_impossible_paths_are_not_looked_at():
    trie = Trie([[0], [1]])
    search = Search(trie, np.array([0.0, -np.inf]), top_k=5)
    [(node, value)] = search.take(5)
    search.give(node, value, -1.0, np.zeros(0))
    assert search.take(5) == []
    assert search.result.words == [0]
