import math

import numpy as np
import pytest
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
        assert len(taken) <= most + search.top_k
        assert len(set(taken)) == len(taken)
        for node in taken:
            path = trie.path(node)
            value = search.log_prob[node]
            assert math.isclose(value, language.word(path) - language.after(path)[-1], abs_tol=1e-12)
            log_probs = language.after(path)
            language.asked += 1
            search.give(node, log_probs[-1], log_probs[trie.token[trie.children(node)]])
    return search.result


def start(trie, language, **options):
    first = language.after([])[trie.token[trie.children(ROOT)]]
    return Search(trie, first, **options)


def test_a_trie_keeps_the_words():
    trie = Trie([[1, 2], [1], [], [1, 2], [3, 4, 5]])
    ends, below = (
        {
            tuple(trie.path(node)): trie.form[slice(first, end)].tolist()
            for node, (first, end) in enumerate(trie.slices[:, [0, column]])
        }
        for column in (1, 2)
    )
    # a word without sub-tokens is never found
    assert ends == {(): [], (1,): [1], (1, 2): [0, 3], (3,): [], (3, 4): [], (3, 4, 5): [4]}
    assert below == {
        (): [1, 0, 3, 4], (1,): [1, 0, 3], (1, 2): [0, 3], (3,): [4], (3, 4): [4], (3, 4, 5): [4]
    }  # fmt: skip
    assert trie.depth == 3
    assert (trie.n_words, trie.size) == (4, 5)
    trie = Trie([[1], [2], [2], [], [3], [2]], [0, 0, 0, 0, 1, 1])
    assert (trie.forms(0), trie.forms(1)) == ([0, 1], [4, 5])
    assert trie.form.tolist() == [0, 1, 5, 4]  # each path of a word counts once


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
    np.testing.assert_allclose(values[result.words], sorted(values, reverse=True)[:10])
    tenth = np.exp(sorted(values, reverse=True)[:10][-1]) if len(paths) > 10 else 0
    assert language.asked <= budget + (trie.depth / tenth + 10 if tenth else len(trie.parent))


@given(PATHS, st.integers(0, 1000), st.sampled_from([0.3, 2.0, 6.0]), st.integers(1, 12), st.data())
def test_a_word_has_the_probability_of_all_its_forms(paths, seed, peak, top_k, data):
    language = Language(seed, peak)
    words = sorted(data.draw(st.lists(st.integers(0, 9), min_size=len(paths), max_size=len(paths))))
    words = np.unique(words, return_inverse=True)[1].tolist()
    paths, words = map(list, zip(*dict.fromkeys(zip(map(tuple, paths), words, strict=True)), strict=True))
    trie, forms = Trie(paths, words), [language.word(path) for path in paths]
    values = np.full(max(words) + 1, -np.inf)
    for word, value in zip(words, forms, strict=True):
        values[word] = np.logaddexp(values[word], value)
    answer = data.draw(st.integers(0, max(words)))
    order = np.argsort(-values)
    gaps = np.abs(np.append(values - values[answer], np.diff(values[order])))
    assume(((gaps < TIE / 100) | (gaps > TIE * 10)).all())
    search = start(trie, language, answer=answer, value=values[answer], top_k=top_k)
    result = run(search, trie, language, data.draw(st.integers(1, 9)))
    assert (result.rank, result.is_bound) == (1 + (values > values[answer] + TIE).sum(), False)
    assert result.n_tied == (np.abs(values - values[answer]) <= TIE).sum()
    np.testing.assert_allclose(values[result.words], values[order[:top_k]], atol=1e-4)
    np.testing.assert_allclose(result.log_probs, values[result.words], atol=1e-4)
    for word, form in zip(result.words, result.forms, strict=True):
        best = max(value for value, of in zip(forms, words, strict=True) if of == word)
        assert word == answer or (words[form] == word and math.isclose(forms[form], best, abs_tol=1e-4))


def test_rare_answers_are_ranked_below_the_least_number():
    trie = Trie([[0], [1], [2]])
    first = np.array([-0.1, -1100.0, -1101.0])
    search = Search(trie, first, answer=1, value=-1100.5)
    for node in search.take(9):
        search.give(node, -0.5, np.zeros(0))
    assert search.take(9) == []
    assert (search.result.rank, search.result.n_tied) == (2, 1)
    assert search.result.log_probs == pytest.approx([-0.6, -1100.5, -1101.5])


def test_nothing_is_asked_about_paths_below_the_bound():
    trie = Trie([[0], [1], [2], [2, 3]])
    search = Search(trie, np.log([0.6, 0.3, 0.1]), answer=1, value=math.log(0.2), top_k=1)
    [node] = search.take(9)  # nor about the answer, whose probability is known
    assert (trie.path(node), search.log_prob[node]) == ([0], math.log(0.6))
    search.give(node, math.log(0.5 / 0.6), np.zeros(0))
    assert search.take(9) == []
    assert search.result == (2, 1, False, [0], [0], [math.log(0.5)])


def test_without_an_answer_there_are_the_best_words_only():
    language, paths = Language(3, 2.0), [[0], [1], [2], [1, 1], [3, 0]]
    trie, values = Trie(paths), [language.word(path) for path in paths]
    result = run(start(trie, language, top_k=2), trie, language)
    assert result.words == np.argsort(values)[::-1][:2].tolist()
    assert not result.is_bound


def test_impossible_paths_are_not_looked_at():
    trie = Trie([[0], [1]])
    search = Search(trie, np.array([0.0, -np.inf]), top_k=5)
    [node] = search.take(5)
    search.give(node, -1.0, np.zeros(0))
    assert search.take(5) == []
    assert search.result.words == [0]
