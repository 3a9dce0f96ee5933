# ruff: noqa: RUF001 - typographic apostrophes are meant

import dataclasses

import pytest
from braced_items import cloze, passages
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.analysis.lemmas import default, fold_case
from workbench.analysis.mentions import mention_indices, mentions, same_form, sentence_of
from workbench.items.tokens import tokens


def words(item):
    return [item.text[start:end] for start, end in mentions(item)]


# What `test_lemmas.py` shows of readings is not repeated here.
MENTIONS = [
    ("the Dog and a DOG and dogs", "dog", ["Dog", "DOG", "dogs"]), ("one dog", "dogs", ["dog"]),
    ("the dog 's tail , the dog's ear , the dog’s nose", "dog", ["dog", "dog's", "dog’s"]),
    ("he saw her and had seen her", "see", ["saw", "seen"]),
    ("the Wynns and Wynn 's and Wynns'", "Wynn", ["Wynns", "Wynn", "Wynns'"]),
    ("I saw Alex. he left", "Alex", ["Alex."]),
    ("a non-Tribe person and Tribe-like", "Tribe", ["non-Tribe", "Tribe-like"]),
    ("Michael or Shaneand sat , SHANEAND", "Shane", ["Shaneand", "SHANEAND"]),
    ("not even in the evening", "even", ["even"]),
    ("he left and leaves and the leaf", "leave", ["left", "leaves"]),
    ("he left and leaves and the leaf", "leaf", ["leaves", "leaf"]),
    ("Émile and ÉMILE", "émile", ["Émile", "ÉMILE"]),
    ("born in 1990 , the 1990's", "1990", ["1990", "1990's"]),
    ("it is a snowboard and stitchover", "board", []), ("the brigand and the brig", "brig", ["brig"]),
    ("a thousand and an island", "isl", []), ("the , . ' s", "'s", []), ("as a bus", "bu", []),
    ("happily he was happiest", "happy", ["happiest"]), ("his this thus", "hi", []),
    ("the cat and the thing", "the-thing", []),
    ("a dogma , hot dogged , a bring , a king", "dog", ["dogged"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer", "mentioned"), MENTIONS)
def test_a_mention_is_any_form_of_the_word(text, answer, mentioned):
    assert words(cloze(f"{text} . and then the {{{answer}}}")) == mentioned


def test_mentions_stand_before_and_after_a_blank_in_the_middle():
    item = cloze("the dog ran . a {dog} saw the dogs and hot-dogs")
    assert mentions(item) == [(4, 7), (28, 32), (37, 45)]
    cut = tokens(item)
    assert mention_indices(cut) == [1, 8, 10]
    assert same_form(cut, mention_indices(cut))
    assert not same_form(cut, [8, 10])
    assert same_form(tokens(cloze("the DOG saw {dog}")), [1])
    assert [sentence_of(cut, index) for index in (0, 3, 4, 8)] == [1, 1, 0, 0]


def test_nothing_is_a_mention_without_an_answer_or_a_context():
    assert mentions(cloze("the dog saw {} dog")) == mentions(cloze("{dog}")) == []
    assert mention_indices(tokens(cloze("{}"))) == []
    assert not same_form(tokens(cloze("the dog saw {}")), [])
    assert mentions(cloze("dog {dog}")) == [(0, 3)]


def test_of_an_answer_of_several_tokens_the_head_counts():
    assert words(cloze("York and New England . he likes {New York} and York's")) == ["York", "York's"]
    assert words(cloze("he did and does . he {did n't} do n't")) == ["did", "does", "do"]


def test_running_text():
    item = cloze("“Wynn’s dog,” said the Wynns’ boy. He saw “{Wynn}”", tokenised=False)
    assert words(item) == ["Wynn", "Wynns"]
    glued = cloze("The dogs barked. The red-{dog} barked at the hot-dog.", tokenised=False)
    assert words(glued) == ["dogs", "hot-dog"]


def slow(item):
    """Find mentions by comparing all pairs of readings, without a cache."""
    cut = tokens(item)
    wanted = default()._readings(cut.words[cut.head]) if cut.has_target else ()
    places = []
    for index, word in enumerate(cut.words):
        parts = [word, *(part for part in word.split("-") if len(part) > 1)]
        if any(one == other for part in parts for other in default()._readings(part) for one in wanted):
            places.append(index)
    return [index for index in places if index not in range(cut.target, cut.target + cut.n_target)]


WORDS = st.sampled_from(
    ["Dog", "dogs", "DOG's", "hot-dog", "Walked", "walking", "saw", "see", "SEEN", "Wynns", "wynn", "men",
     "man", "was", "is", "his", "He", "him", "better", "good", "É", ".", "''", ",", "--", "-", "1990", "left",
     "leaves", "leaf"]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=12)


@given(TEXTS, WORDS, TEXTS)
def test_the_same_as_a_slow_loop(left, answer, right):
    item = cloze(f"{' '.join(left)} {{{answer}}} {' '.join(right)}")
    assert mention_indices(tokens(item)) == slow(item)


@given(TEXTS, WORDS, TEXTS)
def test_lower_case_changes_no_mention(left, answer, right):
    item = cloze(f"{' '.join(left)} {{{answer}}} {' '.join(right)}")
    lowered = dataclasses.replace(item, text=item.text.lower(), answer=item.answer.lower())
    assert mentions(lowered) == mentions(item)
    same = [same_form(cut, mention_indices(cut)) for cut in (tokens(lowered), tokens(item))]
    assert same[0] == same[1]


@given(passages())
def test_every_same_form_is_a_mention(item):
    cut = tokens(item)
    found = mention_indices(cut)
    assert found == sorted(set(found))
    if item.answer and " " not in item.answer:
        forms = [fold_case(word) for word in cut.words]
        same = {i for i, form in enumerate(forms) if form == forms[cut.target]} - {cut.target}
        assert same <= set(found)
        assert not same or same_form(cut, found)


@pytest.mark.data
def test_names_without_a_mention_in_the_development_set(real_data):  # noqa: ARG001 - skips
    plain, cased = (wb.load("lambada", "dev", variant=variant) for variant in ("plain", "capitalised"))
    names, without, in_context = 0, [], 0
    for lower, upper in zip(plain, cased, strict=True):
        assert mentions(lower) == mentions(upper)
        in_context += bool(mentions(lower))
        if upper.answer[0].isupper():
            names += 1
            if not mentions(upper):
                without.append(upper.answer)
    assert names == sum(item.answer[0].isupper() for item in cased) > 2000
    assert without == ["Catholic"]  # the passage has Catholicism: another word
    assert 0.86 < in_context / len(plain) < 0.87
