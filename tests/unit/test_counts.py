import tracemalloc
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngrams import Sentences, small_files
from nltk.util import ngrams

from workbench.items.schema import DataError
from workbench.models.ngram.counts import MOST, NGramCounts, count


def expected(lines, order, words):
    """Count with dictionaries; keys are tuples of words."""
    known = set(words)
    found = Counter()
    for line in lines:
        padded = ["<s>", *(word if word in known else "<unk>" for word in line), "</s>"]
        found.update(ngrams(padded, order))
    return found


def listed(counts, order, words):
    """Return what is listed of an order, with its counts, as tuples of words."""
    names = np.array([*words, "</s>", "<unk>", "<s>"], object)
    rows = map(tuple, names[counts.grams(order)].tolist())
    return dict(zip(rows, counts.counts[order - 1].tolist(), strict=True))


texts = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=9), min_size=1, max_size=12)


@given(texts, st.integers(1, 5), st.sampled_from([1, 2, 7, 1000]), st.sampled_from(["all", "ab", "cxay"]))
def test_counts_are_those_of_a_loop(lines, order, block, vocabulary):
    corpus = Sentences(lines)
    words = corpus.words if vocabulary == "all" else list(vocabulary)
    listed_words = None if vocabulary == "all" else words
    counts = count(corpus, order, vocabulary=listed_words, block=block, progress=False)
    assert counts.order == order
    for n in range(1, order + 1):
        wanted = expected(lines, n, words)
        found = listed(counts, n, words)
        assert {gram: number for gram, number in found.items() if number} == wanted
        if n == 1:
            assert len(found) == len(words) + 3
        assert len(found) == len(counts.keys[n - 1])  # none twice
        assert (np.diff(counts.keys[n - 1].astype(object)) > 0).all()
        assert counts.keys[n - 1].dtype == np.uint64
        assert counts.counts[n - 1].dtype == np.uint32
        of_counts = Counter(number for gram, number in wanted.items() if gram[-1] != "<s>")
        assert counts.count_of_counts[n - 1].tolist() == [of_counts[r] for r in range(MOST + 1)]


@settings(max_examples=30)
@given(texts, st.lists(st.integers(1, 4), min_size=1, max_size=3).map(sorted), st.sampled_from([3, 1000]))
def test_cutoffs_when_counting_and_afterwards_are_the_same(lines, higher, block):
    corpus, cutoffs = Sentences(lines), (1, *higher)
    order = len(cutoffs)
    all_of_them = count(corpus, order, block=block, progress=False)
    for counts in (
        count(corpus, order, cutoffs=cutoffs, block=block, progress=False),
        all_of_them.cut(cutoffs),
        all_of_them.cut((1, *(2 if least > 1 else 1 for least in higher))).cut(cutoffs),
    ):
        assert counts.cutoffs == cutoffs
        assert (counts.count_of_counts == all_of_them.count_of_counts).all()
        for n, least in enumerate(cutoffs[1:], 2):
            wanted = {g: c for g, c in expected(lines, n, corpus.words).items() if c >= least}
            assert listed(counts, n, corpus.words) == wanted


@settings(max_examples=30)
@given(texts, st.integers(1, 3), st.data())
def test_lookup_is_the_dictionary(lines, order, data):
    corpus = Sentences(lines)
    counts = count(corpus, 3, block=5, progress=False)
    size = len(corpus.words) + 3
    numbers = st.integers(-2, size + 1) | st.sampled_from([-1, 2**31, 2**32, 2**40])
    rows = data.draw(st.lists(st.lists(numbers, min_size=order, max_size=order), max_size=20))
    grams = np.array([*rows, *counts.grams(order).tolist()], np.int64).reshape(-1, order)
    names = dict(enumerate([*corpus.words, "</s>", "<unk>", "<s>"]))
    wanted = expected(lines, order, corpus.words)
    found = counts.lookup(grams)
    assert found.tolist() == [wanted[tuple(names.get(i) for i in gram)] for gram in grams.tolist()]


def test_every_listed_n_gram_begins_and_ends_with_listed_ones():
    draw = np.random.default_rng(0)
    corpus = Sentences([[f"w{i}" for i in draw.zipf(1.5, 12) % 30] for _ in range(400)])
    counts = count(corpus, 4, cutoffs=(1, 1, 2, 3), block=500, progress=False)
    for n in (2, 3, 4):
        grams = counts.grams(n)
        assert len(grams) > 10
        assert (counts.lookup(grams[:, 1:]) > 0).all()
        assert (counts.lookup(grams[:, :-1]) > 0).all()


def test_one_word():
    counts = count(Sentences([["a"]]), 4, progress=False)
    assert [len(key) for key in counts.keys] == [4, 2, 1, 0]
    assert counts.lookup([[2 + 1, 0, 1]]).tolist() == [1]
    assert counts.lookup([[3, 0, 1, 1]]).tolist() == [0]
    assert counts.lookup(np.empty((0, 2), np.int64)).tolist() == []


@pytest.mark.parametrize("shape", [(2, 0), (2, 4), (3,)])
def test_rows_that_cannot_be_looked_up(shape):
    counts = count(Sentences([["a", "b"]]), 3, progress=False)
    with pytest.raises(ValueError, match="1 to 3"):
        counts.lookup(np.zeros(shape, int))


@pytest.mark.parametrize(
    ("lines", "options", "problem"),
    [
        ([], {}, "no words"),
        ([[]], {}, "no words"),
        ([["a"]], {"vocabulary": ["a", "a"]}, "twice"),
        *(([["a"]], {"cutoffs": cutoffs}, "never fall") for cutoffs in [(1,), (2, 2), (1, 0), (1, 1, 1)]),
    ],
)
def test_what_cannot_be_counted(lines, options, problem):
    with pytest.raises(DataError, match=problem):
        count(Sentences(lines), 2, progress=False, **options)
    with pytest.raises(DataError, match="lower cutoffs"):
        count(Sentences([["a"]]), 2, cutoffs=(1, 2), progress=False).cut((1, 1))


def test_temporary_files_lie_where_they_should_and_go(tmp_path):
    corpus = Sentences([list("abcab")] * 50)
    made = []

    class Watched:
        words, starts = corpus.words, corpus.starts

        @property
        def ids(self):
            return self

        def __getitem__(self, span):
            made.extend(path.name for path in tmp_path.rglob("*") if path.is_file())
            return corpus.ids[span]

    counts = count(Watched(), 3, block=60, folder=tmp_path, progress=False)
    assert any(name.startswith("2-") for name in made)
    assert list(tmp_path.iterdir()) == []
    assert listed(counts, 3, corpus.words) == expected([list("abcab")] * 50, 3, corpus.words)


def test_memory_is_bounded_by_the_block_and_what_is_listed(tmp_path):
    draw = np.random.default_rng(0)

    random = SimpleNamespace(
        words=[str(i) for i in range(3000)],
        ids=np.minimum(draw.zipf(1.3, 1_000_000) - 1, 2999).astype(np.uint32),
        starts=np.arange(0, 1_000_001, 10),
    )
    peaks = []
    for block in (50_000, 1 << 23):
        tracemalloc.start()
        counts = count(random, 3, cutoffs=(1, 2, 4), block=block, folder=tmp_path, progress=False)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert isinstance(counts, NGramCounts)
    assert peaks[0] < 0.6 * peaks[1]


def test_a_full_disk_is_one_clear_error_and_leaves_nothing(tmp_path):
    corpus = Sentences([list("abcab")] * 50)
    with small_files(16), pytest.raises(DataError, match="more room"):
        count(corpus, 3, block=60, folder=tmp_path, progress=False)
    assert list(tmp_path.iterdir()) == []
