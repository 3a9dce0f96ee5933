import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis import lemmas as roots
from workbench.analysis.lemmas import any_same_root, default, same_root


@pytest.mark.parametrize(
    "family",
    [
        "dead death deadly",
        "died death",
        "know knowledge",
        "dehydrate dehydration",
        "happily happiness",
        "happy happily unhappy",
        "choose choice",
        "chosen choice",
        "friend friendly friendship unfriendly",
        "run runner",
        "write writer",
        "decided decision",
        "beauty beautiful",
        "believe belief",
        "possible impossible possibility",
        "honest honesty dishonest",
        "silence silent silently",
        "embarrassed embarrassment",
        "king kingdom",
        "apply application",
        "Catholic Catholicism",
        "dark darkness",
    ],
)
def test_words_of_one_root(family):
    first, *others = family.split()
    assert [other for other in others if not same_root(first, other)] == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("dog", "dogs"),  # a mention
        ("dog", "dog"),
        ("die", "died"),
        ("corn", "corner"),
        ("numb", "number"),
        ("part", "party"),
        ("store", "story"),
        ("state", "station"),
        ("depart", "department"),
        ("flow", "flower"),
        ("ear", "early"),
        ("even", "evening"),
        ("list", "listen"),
        ("moth", "mother"),
        ("under", "stand"),
        ("the", "they"),
        ("he", "her"),
        (".", ","),
        ("1990", "1990s"),
        ("cat", "dog"),
    ],
)
def test_words_of_no_common_root_and_forms_of_one_word(one, other):
    assert not same_root(one, other)


WORDS = st.one_of(
    st.sampled_from(["dead", "Death", "deadly", "dogs", "DOG", "dogged", "happy", "unhappily", "Story"]),
    st.text("abcdeiklmnorsty", max_size=8),
)


@given(WORDS, WORDS)
def test_the_relation_is_symmetric_and_knows_no_case(one, other):
    assert same_root(one, other) == same_root(other, one) == same_root(one.upper(), other.title())
    assert not same_root(one, one)


@given(WORDS, st.lists(WORDS, max_size=5))
def test_any_is_any(word, others):
    assert any_same_root(word, others) == any(same_root(word, other) for other in others)


def test_what_is_taken_off_leaves_attested_words():
    for word in ("blargness", "snarkful", "unblarg", "zzment"):
        assert roots.roots(word) == default().lemmas(word)
    assert {"happy", "happiness"} <= roots.roots("happiness")


def test_no_listed_word_is_listed_in_vain():
    listed = roots._UNRELATED
    assert all(not roots._bases(word) for word in listed)
    families = [row.split() for row in roots._FAMILIES.split(";")]
    assert all(len(family) > 1 for family in families)
    together = [word for family in families for word in family]
    assert {word for word in together if together.count(word) > 1} == set()


def test_each_listed_word_would_be_taken_apart(monkeypatch):
    listed = roots._UNRELATED
    monkeypatch.setattr(roots, "_UNRELATED", frozenset())
    assert {word for word in listed if not roots._bases(word)} == set()
