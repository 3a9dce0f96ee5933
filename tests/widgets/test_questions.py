"""How a question is read: the blank, the target sentence alone, and where two passages differ."""

from difflib import ndiff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.items.items import items_from_text
from workbench.widgets.ask.questions import LONGEST, TypedQuestion, alone, differences, item_of, read_question

TEXT = "Nobody trusted the keeper. But the first man out of the storm was the keeper"


# -- the blank at the end of a text


@pytest.mark.parametrize(
    ("text", "context", "left", "right"),
    [
        ("He went out. She said ___ \n", ["He went out."], "She said ", " \n"),
        ("It rained. ___ ran.", ["It rained."], "", " ran."),
        ("`` why ? ___ '' she said .", ["`` why ?"], "", " '' she said ."),
        ("It rained. She saw ___. He left.", ["It rained."], "She saw ", ". He left."),
    ],
)
def test_a_bare_blank_belongs_to_its_sentence(text, context, left, right):
    item = items_from_text(text)[0]
    assert (item.context, item.left, item.right, item.answer) == (context, left, right, None)


WORD = st.sampled_from(["he", "ran", "said", "Mr.", "why", "dog", "``", "''", '"', ".", "?", "!", "...", ","])


@given(st.lists(WORD, max_size=12), st.lists(WORD, max_size=6), st.booleans())
def test_a_bare_blank_cuts_as_a_word_in_it_does(before, after, tokenised):
    text = " ".join([*before, "___", *after])
    if not before and not after:
        return
    empty = items_from_text(text, tokenised=tokenised)[0]
    full = items_from_text(text, answers=["Q"], tokenised=tokenised)[0]
    assert (empty.context, empty.left, empty.right) == (full.context, full.left, full.right)


# -- reading a question


def test_the_last_word_is_the_target_and_a_named_word_takes_its_place():
    item = item_of(TEXT + ".")
    assert (item.answer, item.right, item.variant, item.tokenised) == ("keeper", ".", "own", False)
    item = item_of(TEXT + ".", word=" old baker ")
    left = "But the first man out of the storm was the "
    assert (item.answer, item.left, item.right) == ("old baker", left, ".")
    assert item.context == ["Nobody trusted the keeper."]
    assert item_of("It rained. The ___ ran.", word="dog").text == "It rained. The dog ran."
    assert item_of("It rained. The ___ ran.").answer is None


def test_candidates_hold_the_target_once_and_blanks_do_not_count():
    assert item_of(TEXT, candidates=" baker| keeper||baker ").candidates == ("baker", "keeper")
    assert item_of(TEXT, candidates="baker").candidates == ("baker", "keeper")
    assert item_of("The ___ ran", candidates="dog|cat").candidates == ("dog", "cat")
    assert item_of(TEXT, candidates=" ").candidates is None


def test_the_target_sentence_alone():
    whole = item_of(TEXT, word="baker", candidates="a")
    item = alone(whole)
    assert item.text == "But the first man out of the storm was the baker"
    assert (item.answer, item.text[: item.answer_span[0]], item.context) == ("baker", item.left, [])
    assert (item.candidates, item.tokenised) == (whole.candidates, whole.tokenised)
    assert item.item_id != whole.item_id
    one = item_of("The first man was the keeper")
    assert alone(one) == one
    tokenised = alone(item_of("he ran . `` i wo n't , '' said ___"))
    assert (tokenised.text, tokenised.tokenised) == ("`` i wo n't , '' said ", True)
    assert alone(item_of("It rained. ___")).text == ""


TYPED = st.text(alphabet=st.sampled_from("ab .?!\"'_,\n\té😀\u2028\ud800<&"), max_size=40)


@given(TYPED, TYPED, st.text(max_size=6), st.text(alphabet="ab| ", max_size=8), st.booleans())
def test_whatever_is_typed_is_read_or_told(text, other, word, candidates, pairs):
    question = read_question(TypedQuestion(text, other, word, candidates, pairs))
    sides = {"A": text} | ({"B": other} if pairs else {})
    typed = {side for side, given_ in sides.items() if given_.strip()}
    assert set(question.passages) | set(question.problems) == typed
    assert not set(question.passages) & set(question.problems)
    assert all(question.problems.values())
    for side, item in question.passages.items():
        sentence = question.versions[side, "sentence"]
        assert item.text[item.sentences[-1][0] :].startswith(sentence.text)
        assert item.right.startswith(sentence.right)  # later sentences are left out
        assert (sentence.left, sentence.answer) == (item.left, item.answer)
        if word.strip():
            assert item.answer == word.strip()
    assert question.items.frame["item_id"].is_unique


def test_what_cannot_be_read_is_told():
    assert read_question(TypedQuestion("a ___ b ___")).problems["A"].startswith("the text has 2 blanks")
    assert read_question(TypedQuestion("___")).problems["A"] == "the text is nothing but a blank"
    assert "expected 100,000 at most" in read_question(TypedQuestion("a " * LONGEST)).problems["A"]
    assert "half a surrogate" in read_question(TypedQuestion("a \ud800 b")).problems["A"]
    found = read_question(TypedQuestion("a b", "___", pairs=True))
    assert (set(found.passages), set(found.problems)) == ({"A"}, {"B"})


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        ("the keeper, he", "the old baker, he", (["keeper"], ["old baker"])),
        ("a b c", "a b c", ([], [])),
        ("a b", "a b c d", ([], ["c d"])),
        ("isn't it", "is it", (["isn't"], ["is"])),
        ("a a a", "a a", (["a"], [])),
    ],
)
def test_differences(one, other, words):
    pairs = zip((one, other), differences(one, other), strict=True)
    assert tuple([text[a:b] for a, b in spans] for text, spans in pairs) == words


LETTERS = st.lists(st.sampled_from("abcd"), max_size=9)


@given(LETTERS, LETTERS)
def test_what_is_not_marked_is_the_same(a, b):
    one, other = " ".join(a), " ".join(b)
    kept = []
    for text, spans in zip((one, other), differences(one, other), strict=True):
        marked = {place for start, end in spans for place in range(start, end)}
        kept.append([c for place, c in enumerate(text) if c != " " and place not in marked])
    assert kept[0] == kept[1]
    slow = sum(line.startswith("  ") for line in ndiff(a, b))
    assert len(kept[0]) >= min(slow, 1)


def test_differences_of_very_long_texts_are_found_at_once():
    one = " ".join(f"w{i % 7}" for i in range(20_000))
    spans, _ = differences(f"x {one} y", f"x z {one[3:]} q y")
    assert [span[0] for span in spans] == [2]
