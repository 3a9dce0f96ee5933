from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngrams import Sentences
from nltk.util import ngrams

from workbench.models.ngram.backoff import SHIFT, WORD
from workbench.models.ngram.good_turing import MOST, count


def expected(lines, order, words):
    """Count with dictionaries; keys are tuples of words."""
    padded = (["<s>", *(word if word in words else "<unk>" for word in line), "</s>"] for line in lines)
    return Counter(gram for line in padded for gram in ngrams(line, order))


def grams(counts, order):
    """Return the words of the n-grams of an order, (n, order), by the keys of all shorter ones."""
    key = counts.keys[order - 1]
    columns = []
    for shorter in reversed(counts.keys[: order - 1]):
        columns.append(key & WORD)
        key = shorter[key >> SHIFT]
    return np.stack([key, *reversed(columns)], axis=1).astype(np.uint32)


def listed(counts, order, words):
    """Return what is listed of an order, with its counts, as tuples of words."""
    names = np.array([*words, "</s>", "<unk>", "<s>"], object)
    rows = map(tuple, names[grams(counts, order)].tolist())
    return dict(zip(rows, counts.counts[order - 1].tolist(), strict=True))


def counted(corpus, order, block=1000, **options):
    """Count with blocks of a few tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workbench.models.ngram.good_turing._BLOCK", block)
        return count(corpus, order, **{"vocabulary": corpus.words} | options)


texts = st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=9), min_size=1, max_size=12)


@given(texts, st.integers(1, 5), st.sampled_from([1, 2, 7, 1000]), st.sampled_from(["all", "ab", "cxay"]))
def test_counts_are_those_of_a_loop(lines, order, block, vocabulary):
    corpus = Sentences(lines)
    words = corpus.words if vocabulary == "all" else list(vocabulary)
    counts = counted(corpus, order, block, vocabulary=words)
    assert counts.order == order
    for n in range(1, order + 1):
        wanted, found = expected(lines, n, words), listed(counts, n, words)
        assert {gram: number for gram, number in found.items() if number} == wanted
        assert n > 1 or len(found) == len(words) + 3
        assert len(found) == len(counts.keys[n - 1])  # none twice
        assert (np.diff(counts.keys[n - 1].astype(object)) > 0).all()
        assert counts.keys[n - 1].dtype == np.uint64
        assert counts.counts[n - 1].dtype == np.uint32
        of_counts = Counter(number for gram, number in wanted.items() if gram[-1] != "<s>")
        assert counts.count_of_counts[n - 1].tolist() == [of_counts[r] for r in range(MOST + 1)]


@settings(max_examples=20)
@given(texts, st.lists(st.integers(1, 4), min_size=1, max_size=3).map(sorted), st.sampled_from([3, 1000]))
def test_rare_n_grams_are_left_out(lines, higher, block):
    corpus, cutoffs = Sentences(lines), (1, *higher)
    counts = counted(corpus, len(cutoffs), block, cutoffs=cutoffs)
    everything = counted(corpus, len(cutoffs), block)
    assert counts.cutoffs == cutoffs
    assert (counts.count_of_counts == everything.count_of_counts).all()
    for n, least in enumerate(cutoffs[1:], 2):
        wanted = {g: c for g, c in expected(lines, n, corpus.words).items() if c >= least}
        assert listed(counts, n, corpus.words) == wanted
