"""How typed words match answers."""

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

from workbench.people.protocols import MATCHES, _one_edit, best_match, match

LETTERS = st.text(alphabet="abcé'", max_size=5)


@pytest.mark.parametrize(
    ("guess", "answer", "expected"),
    [
        ("Nora", "nora", "case"),
        (" nora ", "nora", "exact"),
        ("o’clock", "o'clock", "exact"),  # noqa: RUF001
        ("children", "child", "number"),
        ("Wolf", "wolves", "number"),
        ("colonnel", "colonel", "spelling"),
        ("colnel", "colonel", "spelling"),
        ("colomel", "colonel", "spelling"),
        ("cloonel", "colonel", "no"),
        ("walked", "walk", "no"),
        ("general", "colonel", "no"),
        ("", "a", "no"),
        ("“Nora.”", "nora", "case"),
        (" nora! ", "nora", "exact"),
        ("(wolf)", "wolves", "number"),
        ("cafe\u0301", "café", "exact"),
    ],
)
def test_matches(guess, answer, expected):
    assert match(guess, answer) == expected


def distance(a, b):
    """Return the Levenshtein distance."""
    if not a or not b:
        return len(a) + len(b)
    return min(distance(a[1:], b) + 1, distance(a, b[1:]) + 1, distance(a[1:], b[1:]) + (a[0] != b[0]))


@given(LETTERS, LETTERS)
@example("ab", "a")
@example("ab", "ba")
def test_one_edit_is_levenshteins_distance_of_one(a, b):
    if a != b:
        assert _one_edit(a, b) == (distance(a, b) == 1)


@given(st.lists(st.text(max_size=8), max_size=4), st.text(min_size=1, max_size=8))
def test_the_best_match_is_one_of_the_matches(guesses, answer):
    matches = [match(guess, answer) for guess in guesses]
    assert set(matches) <= set(MATCHES)
    assert best_match(guesses, answer) == min(matches, key=MATCHES.index, default="no")
