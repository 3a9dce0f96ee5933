# ruff: noqa: RUF001 - typographic apostrophes are meant
"""What the browser marks where no annotations say it: mentions and speech, found from the text."""

import dataclasses

import pytest
from clozes import cloze
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.mentions import mentions
from workbench.analysis.speech import speech


def words(item, spans):
    return [item.text[start:end] for start, end in spans]


def mentioned(text, answer):
    item = cloze(f"{text} . and then the {{{answer}}}")
    return words(item, mentions(item))


@pytest.mark.parametrize(
    ("text", "answer", "found"),
    [
        ("the Dog and a DOG and dogs", "dog", ["Dog", "DOG", "dogs"]),
        ("dogs", "dog", ["dogs"]),
        ("one dog", "dogs", ["dog"]),
        ("the dog 's tail , the dog's ear , the dog’s nose", "dog", ["dog", "dog's", "dog’s"]),
        ("a box of boxes", "box", ["box", "boxes"]),
        ("he walked and is walking", "walk", ["walked", "walking"]),
        ("they walk", "walked", ["walk"]),
        ("walking is good", "walked", ["walking"]),
        ("he loved and is loving", "love", ["loved", "loving"]),
        ("he stopped , stopping there", "stop", ["stopped", "stopping"]),
        ("the ladies carried it", "lady", ["ladies"]),
        ("he tried and tries and cried", "try", ["tried", "tries"]),
        ("wolves with knives", "wolf", ["wolves"]),
        ("wolves with knives", "knife", ["knives"]),
        ("Émile and ÉMILE", "émile", ["Émile", "ÉMILE"]),
        ("the 1920s car", "car", ["car"]),
    ],
)
def test_a_mention_is_the_answer_in_any_regular_form(text, answer, found):
    assert mentioned(text, answer) == found


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("r and s", "ring"),
        ("a ring", "r"),
        ("the cat sat", "dog"),
        ("the thing", "the-thing"),
        ("a dogma", "dog"),
        ("hot dogged", "dot"),
        ("some thing", "the"),
        ("bring a king", "ing"),
        ("as a bus", "bu"),
    ],
)
def test_what_is_no_mention(text, answer):
    item = cloze(f"{text} . and {{{answer}}}")
    assert mentions(item) == []


def test_without_an_answer_nothing_is_a_mention():
    assert mentions(cloze("the dog saw {}")) == []


CASED = st.lists(
    st.sampled_from(["Dog", "dogs", "DOG's", "Cat", "Walked", "walking", "WALK", "É", ".", "''"])
)


@given(CASED, st.sampled_from(["Dog", "walk", "WALKED", "cats", "é"]))
def test_lower_case_changes_no_mention(tokens, answer):
    item = cloze(f"{' '.join(tokens)} {{{answer}}}")
    lowered = dataclasses.replace(item, text=item.text.lower(), answer=item.answer.lower())
    assert mentions(lowered) == mentions(item)


@given(st.text("`'“”\" a", max_size=30))
def test_speech_spans_are_in_order_and_apart(text):
    item = cloze(text + "{}")
    found = speech(item)
    edges = [edge for span in found for edge in span]
    assert edges == sorted(edges)
    assert all(0 <= start < end <= len(text) for start, end in found)
