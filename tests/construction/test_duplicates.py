"""Near-duplicate texts: shared n-grams against plain sets of words, and whether planted copies are found."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_novels import altered, novel

from workbench.construction import novel_checks as dup
from workbench.texts.ngram_hash import normalise

TEXTS = st.lists(
    st.sampled_from(["the", "The", "cat,", "don't", "do n't", "--", "sat.", "a-b", "é", "1,000"])
)


def plain_n_grams(text, n=5):
    """Return the set of the n-grams of a text as tuples of words: the second implementation."""
    words = [word for token in text.split() for word in normalise(token)]
    n = min(n, len(words))
    return {tuple(words[start : start + n]) for start in range(len(words) - n + 1)} if n else set()


@given(TEXTS, TEXTS)
def test_shares_are_those_of_plain_sets(first, second):
    texts = {"a": " ".join(first), "b": " ".join(second)}
    [pair] = dup.compare_pairs(texts.__getitem__, [("a", "b")])
    a, b = plain_n_grams(texts["a"]), plain_n_grams(texts["b"])
    assert pair.jaccard == (len(a & b) / len(a | b) if a | b else 0)
    assert pair.one_in_other == (len(a & b) / len(a) if a else 0)
    assert pair.other_in_one == (len(a & b) / len(b) if b else 0)
    assert pair.jaccard <= pair.containment <= 1


@given(st.text(st.sampled_from("aBnt'.,!?\"-_()1 Éé’`LRBrsb"), max_size=12))  # noqa: RUF001 - apostrophe
def test_marks_and_capitals_around_a_token_make_no_difference(text):
    plain = [dup.text_codes(word).tolist() for token in text.split() for word in normalise(token)]
    assert dup.text_codes(text).tolist() == [code for codes in plain for code in codes]


def sketches(**texts):
    return {name: dup.minhash_segments(dup.text_codes(text)) for name, text in texts.items()}


@pytest.mark.parametrize("words", [0, 1, 4, 5, 100, 6000, 6200, 14_000])
def test_every_n_gram_is_in_one_segment(words):
    codes = dup.text_codes(novel(1, words))
    rows = dup.minhash_segments(codes)
    n = len(dup.n_gram_hashes(codes))
    assert len(rows) == (max(1, round(n / dup.SEGMENT)) if words else 0)
    if words:  # a minimum over all segments is that of the whole text
        from datasketch import MinHash  # noqa: PLC0415 - slow

        plain = MinHash(dup.PERMUTATIONS, seed=dup.SEED, scheme=dup.SCHEME, hashfunc=int)
        for value in dup.n_gram_hashes(codes).tolist():
            plain.update(value >> 32)
        assert np.array_equal(rows.min(axis=0), plain.hashvalues)


def test_planted_copies_are_found_and_nothing_else():
    one, two, three = (novel(seed, 20_000) for seed in range(3))
    found = dup.candidates(
        sketches(
            one=one,
            two=two,
            three=three,
            altered=altered(one, 0.05, seed=4),
            cut=" ".join(two.split()[6000:16_000]),
            omnibus=" ".join([novel(9, 3000), three, *(novel(seed, 20_000) for seed in range(20, 40))]),
        )
    )
    assert found == [("altered", "one"), ("cut", "two"), ("omnibus", "three")]


def test_a_licence_in_every_file_makes_no_pairs():
    licence = novel(100, 1000)
    texts = {f"n{seed}": f"{novel(seed, 90_000)} {licence}" for seed in range(3)}
    assert dup.candidates(sketches(**texts)) == []
    assert dup.candidates(sketches(one=licence, other=licence)) == [("one", "other")]


NAMES = st.sampled_from("abcdefgh")


@given(st.lists(st.tuples(NAMES, NAMES)))
def test_groups_are_connected_components(pairs):
    group = dup.connected_groups("abcdefgh", pairs)
    for name in "abcdefgh":  # everything that can be reached, by repeated search
        reached = {name}
        for _ in range(8):
            reached |= {b for pair in pairs for a, b in (pair, pair[::-1]) if a in reached}
        assert {other for other in group if group[other] == group[name]} == reached
        assert group[name] == min(reached)
