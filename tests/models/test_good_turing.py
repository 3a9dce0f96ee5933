import subprocess
from collections import Counter, defaultdict
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngrams import Loop, Sentences

from workbench.models.ngram.estimate import save_arpa
from workbench.models.ngram.good_turing import compile_counts, count, discounts
from workbench.models.ngram.kenlm import find_program

LOW = 1e-9


class Katz:
    """The model from its definition, slowly: probabilities by dictionaries, loops and recursion."""

    def __init__(self, lines, vocabulary, cutoffs, gtmax):
        self.events = [*vocabulary, "</s>", "<unk>"]
        self.counts, self.following = Counter(), defaultdict(Counter)
        self.cutoffs = cutoffs
        order = len(cutoffs)
        known = set(vocabulary)
        for line in lines:
            padded = ["<s>", *(word if word in known else "<unk>" for word in line), "</s>"]
            for n in range(1, order + 1):
                for first in range(len(padded) - n + 1):
                    gram = tuple(padded[first : first + n])
                    if gram[-1] != "<s>":
                        self.counts[gram] += 1
                        self.following[gram[:-1]][gram[-1]] += 1
        self.kept = {n: self._kept(n, gtmax if n > 1 else 0) for n in range(1, order + 1)}
        self.p, self.alpha = cache(self._p), cache(self._alpha)

    def _kept(self, n, k):
        n_r = Counter(number for gram, number in self.counts.items() if len(gram) == n)
        while k and not n_r[k + 1]:
            k -= 1
        kept = {}
        if n_r[1]:
            for r in range(1, k + 1):
                if n_r[r] and n_r[1] != (k + 1) * n_r[k + 1]:
                    better = (r + 1) * n_r[r + 1] / n_r[r]
                    a = (k + 1) * n_r[k + 1] / n_r[1]
                    d = (better / r - a) / (1 - a)
                    if LOW < d <= 1 and better <= r:
                        kept[r] = d
        return kept

    def shares(self, context):
        """Return for the listed words of a context their probabilities."""
        n, following = len(context) + 1, self.following[context]
        total = sum(following.values())
        shares = {
            word: self.kept[n].get(number, 1) * number
            for word, number in following.items()
            if number >= self.cutoffs[n - 1]
        }
        given = sum(shares.values())
        if shares and len(shares) < len(self.events) and given > total - LOW:
            total += 1
        elif n > 1 and len(shares) == len(self.events):
            total = given
        return {word: share / total for word, share in shares.items()}

    def _alpha(self, context):
        shares = self.shares(context)
        elsewhere = sum(self.p(context[1:], word) for word in self.events if word not in shares)
        return (1 - sum(shares.values())) / elsewhere

    def _p(self, context, word):
        shares = self.shares(context)
        if not context:
            left = 1 - sum(shares.values())
            unseen = len(self.events) - len(shares)
            if unseen:
                return shares.get(word, left / unseen)
            return shares[word] + left / len(self.events)
        if word in shares:
            return shares[word]
        if not shares:
            return self.p(context[1:], word)
        return self.alpha(context) * self.p(context[1:], word)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def build(folder, lines, cutoffs, gtmax=7, vocabulary=None):
    corpus = Sentences(lines)
    words = corpus.words if vocabulary is None else list(vocabulary)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.models.ngram.good_turing._BLOCK", 64)
        patch.setattr("workbench.models.ngram.backoff._ROWS", 7)
        patch.setattr("workbench.models.ngram.good_turing.K", gtmax)
        counts = count(corpus, len(cutoffs), vocabulary=words, cutoffs=cutoffs)
        model, report = compile_counts(counts, folder, words)
    save_arpa(model, folder / "model.arpa")
    return Loop(folder / "model.arpa", []), report, Katz(lines, words, cutoffs, gtmax)


def check(model, katz, contexts):
    """Compare the probabilities of all events with Katz's, and their sum with 1."""
    for context in contexts:
        log_probs = model.scores(context, katz.events)
        assert log_probs == pytest.approx([np.log10(katz.p(context, w)) for w in katz.events], abs=2e-5)
        assert (10.0**log_probs).sum() == pytest.approx(1, abs=1e-5)


def zipf(n):
    """Return sentences of a Markov chain with Zipf's frequencies."""
    draw = np.random.default_rng(0)
    steps = (draw.zipf(1.4, draw.integers(1, 9)) for _ in range(n))
    return [[f"w{i}" for i in np.cumsum(row % 40) % 40] for row in steps]


texts = st.lists(st.lists(st.sampled_from("aaabbcdef"), min_size=1, max_size=9), min_size=1, max_size=12)


@settings(max_examples=50)
@given(
    texts,
    st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=4).map(sorted),
    st.sampled_from([0, 1, 2, 7]),
    st.sampled_from([None, "a", "ab", "cxay", ""]),
)
def test_small_corpora_are_as_defined(folder, lines, higher, gtmax, vocabulary):
    model, _, katz = build(folder, lines, (1, *higher), gtmax, vocabulary)
    assert model.model.order == len(higher) + 1
    contexts = [context for context in katz.following if len(context) <= len(higher)]
    known = katz.events[0]
    contexts += [("<unk>",), (known, "<unk>"), ("<s>", known)][: 3 if len(higher) > 1 else 1]
    check(model, katz, contexts)


@pytest.mark.parametrize(
    ("cutoffs", "gtmax"),
    [((1, 1, 1), 7), ((1, 1, 1, 2), 7), ((1, 2, 3), 5), ((1, 1, 1, 1, 1), 3)],
)
def test_larger_corpora_are_as_defined(folder, cutoffs, gtmax):
    lines = zipf(500)
    vocabulary = Sentences(lines).words[:30]
    model, report, katz = build(folder, lines, cutoffs, gtmax, vocabulary)
    contexts = [context for context in katz.following if len(context) < len(cutoffs)]
    draw = np.random.default_rng(1)
    places = draw.choice(len(contexts), min(60, len(contexts)), replace=False)
    check(model, katz, [contexts[place] for place in places])
    used = [share for shares in report["discounts"][1:] for share in shares if 0 < share < 1]
    assert len(used) >= 2  # this was about discounts
    for n, shares in enumerate(report["discounts"], 1):
        for r, share in enumerate(shares, 1):
            assert share == pytest.approx(0 if r < cutoffs[n - 1] else katz.kept[n].get(r, 1))


def test_a_trie_can_be_built_of_it_and_says_the_same(folder):
    """KenLM's trie wants the beginning and the end of each n-gram listed."""
    lines = zipf(300)
    model, _, _ = build(folder, lines, (1, 1, 2, 3), vocabulary=Sentences(lines).words[:30])
    command = [find_program("build_binary"), "trie", folder / "model.arpa", folder / "model.trie"]
    subprocess.run(command, check=True, capture_output=True, cwd=folder)
    trie = Loop(folder / "model.trie", []).model
    for line in map(" ".join, lines[:200]):
        assert trie.score(line) == pytest.approx(model.model.score(line), abs=1e-5)


def test_a_small_model_as_arpa(folder):
    build(folder, [["a", "b"], ["a", "a"]], (1, 1, 1))
    sections = (folder / "model.arpa").read_text().split("\n\n")
    assert sections[0] == "\\data\\\nngram 1=5\nngram 2=5\nngram 3=4"
    assert sections[-1] == "\\end\\\n"
    unigrams = [line.split("\t") for line in sections[1].splitlines()[1:]]
    assert [row[1] for row in unigrams] == ["a", "b", "</s>", "<unk>", "<s>"]
    # counts 3, 1, 2 of 6; <unk> was never seen, so the total grows by 1 for it
    assert [float(row[0]) for row in unigrams[:4]] == pytest.approx(np.log10([3 / 7, 1 / 7, 2 / 7, 1 / 7]))
    assert unigrams[4][0] == "-99"
    assert float(unigrams[2][2]) == 0  # nothing follows the end
    bigrams = [line.split("\t")[1] for line in sections[2].splitlines()[1:]]
    assert bigrams == ["a a", "a b", "a </s>", "b </s>", "<s> a"]
    assert [len(line.split("\t")) for line in sections[3].splitlines()[1:]] == [2] * 4


@pytest.mark.parametrize("lines", [[["a"]], [["a"] * 50], [["a"]] * 50, [list("abc")]])
def test_tiny_corpora_are_estimated_without_discounts_and_that_is_said(folder, lines):
    _, report, _ = build(folder, lines, (1, 1, 1))
    assert all(share == 1 for shares in report["discounts"] for share in shares)
    assert any("order 2" in note for note in report["notes"])
    assert any("<unk>" in note for note in report["notes"])


def test_unknown_words_have_what_the_words_outside_the_vocabulary_were_counted(folder):
    lines = [["a", "b"], ["a", "c"], ["d", "a"]]
    model, report, _ = build(folder, lines, (1, 1), vocabulary="a")
    assert 10 ** model.scores((), ["<unk>"])[0] == pytest.approx(3 / 9)
    assert model.scores(("a",), ["<unk>"]) == model.scores(("a",), ["zebra"])
    assert not any("<unk>" in note for note in report["notes"])


def test_contexts_that_every_word_follows_are_scaled(folder):
    # each of the four follows "a", and what was seen once is discounted
    lines = [["a", "b", "a"], ["x"], ["a", "a", "x"], ["x"]]
    model, report, katz = build(folder, lines, (1, 1), 2, vocabulary="ab")
    assert report["discounts"][1] == pytest.approx((1 / 2, 3 / 8))
    assert any("scaled" in note for note in report["notes"])
    assert set(katz.following["a",]) == set(katz.events)
    check(model, katz, [("a",)])


# Church and Gale (1991), bigrams of 22 million words of AP newswire: n_1 to n_8, and r* to three digits
N_R = [0, 2_018_046, 449_721, 188_933, 105_668, 68_379, 48_190, 35_709, 27_710]
R_STAR = [0.446, 1.26, 2.24, 3.24, 4.22, 5.19, 6.21]


def test_discounts_of_published_counts():
    kept, notes = discounts(N_R, 7)
    assert notes == []
    share = 8 * N_R[8] / N_R[1]
    assert [r * (kept[r] * (1 - share) + share) for r in range(1, 8)] == pytest.approx(R_STAR, rel=3e-3)


@pytest.mark.parametrize("k", [2, 5, 7])
def test_discounts_keep_katzs_two_conditions(k):
    """What is taken away is the mass of n_1, in proportion to what Good-Turing would take."""
    kept, _ = discounts(N_R, k)
    r, n = np.arange(1, k + 1), np.array(N_R, float)
    assert (n[r] * (1 - kept[r]) * r).sum() == pytest.approx(n[1])
    ratio = (1 - kept[r]) / (1 - (r + 1) * n[r + 1] / (r * n[r]))
    assert ratio == pytest.approx(ratio[0])


@pytest.mark.parametrize(
    ("n_r", "gtmax", "kept", "said"),
    [
        ([0, 10, 4, 0, 0, 0], 4, [1], "d = 0"),  # k falls to 1, and 2 n_2 / n_1 is A itself
        ([0, 10, 0, 0, 0, 0], 4, [], "k is 0"),
        ([0, 0, 5, 3, 2, 1], 4, [], "no n-gram was seen once"),
        ([0, 10, 6, 2, 0], 2, [1, 1], "a count of 1"),  # r* / r above 1
        ([0, 9, 3, 3, 3], 2, [1, 1], "d = inf"),  # A = 1
        ([0, 100, 30, 0, 5], 3, [0.5, None, 1], "a count of 3"),
        ([0, 2, 2, 2, 2], 3, [1, 1, 1], "a count of 1"),  # A above 1
    ],
)
def test_discounts_that_cannot_be_had_are_said(n_r, gtmax, kept, said):
    found, notes = discounts(n_r, gtmax)
    assert any(said in note for note in notes)
    assert found[1:] == pytest.approx([share if expected is None else expected
                                       for share, expected in zip(found[1:], kept, strict=True)])  # fmt: skip
