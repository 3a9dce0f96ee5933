import dataclasses

import pytest
from braced_items import cloze, passages
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis import mentions, speech
from workbench.analysis.annotations import FEATURES, n_names, target_features, vocative
from workbench.analysis.lemmas import any_same_root
from workbench.items.tokens import tokens

OF_TARGET = {
    "target_pos", "target_class", "target_lemma", "in_context", "lemma_in_context", "n_mentions",
    "n_context_mentions", "mention_distance", "mention_sentence", "same_root", "vocative",
}  # fmt: skip


def tagged(item, names=()):
    """Tag by hand: the names given are PROPN, punctuation PUNCT, all else NOUN."""
    words = tokens(item).words
    kinds = {True: "PROPN", False: "NOUN"}
    return [kinds[w.lower() in names] if any(map(str.isalnum, w)) else "PUNCT" for w in words]


def features(item, tags=None, lemma=None):
    """Return the row of an item; without tags no word is a name."""
    cut = tokens(item)
    return target_features(item, cut, tags or tagged(item), lemma)


def test_a_row_counted_by_hand():
    item = cloze(
        "Tom died . Ann saw the dead man . `` His death , Ann , '' said Tom , `` killed the men and {Tom}"
    )
    row = features(item, tagged(item, {"tom", "ann"}), "Tom")
    assert set(row) == set(FEATURES.names) - {"target_count"}
    assert row == {
        "target_pos": "PROPN", "target_class": "PN", "target_lemma": "Tom",
        "in_context": True, "lemma_in_context": True, "n_mentions": 2, "n_context_mentions": 1,
        "mention_distance": 7, "mention_sentence": 0, "same_root": False, "vocative": False,
        "direct_speech": True, "target_in_speech": True,
        "n_names": 2, "n_context_sentences": 2, "n_tokens": 25,
        "mentions": [(0, 3), (63, 66)], "speech": [(34, 57), (69, 94)],
        "names": [(0, 3), (11, 14), (49, 52), (63, 66), (91, 94)],
    }  # fmt: skip
    assert [item.text[slice(*span)] for span in row["mentions"]] == ["Tom", "Tom"]
    assert [item.text[slice(*span)] for span in row["names"]] == ["Tom", "Ann", "Ann", "Tom", "Tom"]


def test_mentions_before_and_after_a_blank_in_the_middle():
    item = cloze("the dogs ran . he ran . a {dog} saw the dog")
    row = features(item, tagged(item), "dog")
    assert (row["n_mentions"], row["n_context_mentions"]) == (2, 1)
    assert (row["mention_distance"], row["mention_sentence"]) == (7, 2)
    assert row["in_context"]
    late = features(cloze("he ran . a {dog} saw the dogs"))
    assert late["mention_distance"] is late["mention_sentence"] is None
    assert (late["in_context"], late["lemma_in_context"]) == (False, True)
    assert (late["n_mentions"], late["n_context_mentions"]) == (1, 0)


def test_without_an_answer_nothing_is_said_of_the_target():
    item = cloze("`` Go , '' said Ann Lee . `` She saw {} here . ''")
    row = features(item, tagged(item, {"ann", "lee"}))
    assert not OF_TARGET & set(row)
    assert (row["direct_speech"], row["target_in_speech"], row["mentions"]) == (True, True, [])
    assert (row["n_names"], row["n_context_sentences"], row["n_tokens"]) == (1, 1, 14)


def test_an_empty_context_and_an_empty_item():
    row = features(cloze("{dog}"), ["NOUN"], "dog")
    assert (row["n_mentions"], row["n_context_sentences"], row["n_tokens"], row["n_names"]) == (0, 0, 1, 0)
    assert (row["target_class"], row["in_context"]) == ("CN", False)
    empty = features(cloze("{}"), [])
    assert (empty["n_tokens"], empty["n_names"], empty["direct_speech"], empty["speech"]) == (0, 0, False, [])


def test_an_answer_of_several_tokens():
    item = cloze("York is old . he likes {New York}")
    tags = ["PROPN", "VERB", "ADJ", "PUNCT", "PRON", "VERB", "PROPN", "PROPN"]
    row = features(item, tags, "York")
    assert (row["target_pos"], row["mention_distance"], row["mention_sentence"]) == ("PROPN", 6, 1)
    assert (row["n_names"], row["n_tokens"]) == (1, 8)


CLASSES = {"PROPN": "PN", "NOUN": "CN", "VERB AUX": "V", "ADJ": "J", "ADV": "R", "PRON NUM PUNCT X INTJ": "O"}


@pytest.mark.parametrize(("tags", "wanted"), CLASSES.items())
def test_the_class_of_a_target(tags, wanted):
    for pos in tags.split():
        row = features(cloze("a {b}"), ["DET", pos])
        assert (row["target_pos"], row["target_class"]) == (pos, wanted)


WITHIN = [
    "he said , `` go {home} now . ''", "he said , `` go {} now . ''", "he said , `` go {}",
]  # fmt: skip
OUTSIDE = [
    "he said `` go now '' {home} .", "he said {} `` go now '' .", "he said `` go now '' {} .",
    "he said `` go now . '' {}", "he went {}", "{} `` go now '' he said",
]  # fmt: skip


@pytest.mark.parametrize(("texts", "within"), [(WITHIN, True), (OUTSIDE, False)])
def test_a_blank_within_speech(texts, within):
    for marked in texts:
        assert features(cloze(marked))["target_in_speech"] is within, marked


ADDRESSED = [
    "`` I love you , {john}", "`` I love you , {john} , '' she said", "`` I love you , my dear {john} !",
    "`` I love you , {john} smith . ''", "`` I love you , mr. {smith} . ''", "`` {john} , come here . ''",
    "`` oh {john} , come here . ''", "`` yes , {sir} . ''", "`` my {darling} , '' he said",
    "“ I love you , {john} . ”",
]  # fmt: skip
NOT_ADDRESSED = [
    "`` I love you , {john} and mary . ''",  # something follows
    "`` I love {john}",
    "`` the love of , well , the {boys}",
    "`` I saw mary , {john} , and mary . ''",  # a list
    "`` this is my brother , {john} . ''",  # explains the noun
    "she loved him , {john} .",  # no speech
    "`` go . '' then , {john} left",
    "`` I love you , {table} .",  # no term of address
]


@pytest.mark.parametrize(("texts", "addressed"), [(ADDRESSED, True), (NOT_ADDRESSED, False)])
def test_who_is_addressed(texts, addressed):
    for marked in texts:
        item = cloze(marked)
        row = features(item, tagged(item, {"john", "mary", "smith", "mr."}))
        assert row["vocative"] is addressed, marked


def test_a_verb_is_no_term_of_address():
    item = cloze("`` to live , {love} . ''")
    cut = tokens(item)
    kinds = ["PUNCT", "PART", "VERB", "PUNCT", "VERB", "PUNCT", "PUNCT"]
    assert not vocative(cut, kinds, (0, 7))
    assert vocative(cut, [*kinds[:4], "NOUN", *kinds[5:]], (0, 7))


COUNTS = {
    "": 0, "john saw john": 1, "john smith saw JOHN and smith": 1, "john smith saw mary smith": 1,
    "john saw mary": 2, "mr. smith saw mr. jones": 2, "john saw smith . then john smith left": 1,
    "smith 's dog and the smiths": 1, "mary , john , smith": 3, "dr. and mr.": 2,
}  # fmt: skip


@pytest.mark.parametrize(("text", "n"), COUNTS.items())
def test_distinct_names(text, n):
    known = {"john", "smith", "smiths", "mary", "jones", "mr.", "dr."}
    words = text.split()
    assert n_names(words, ["PROPN" if word.lower() in known else "VERB" for word in words]) == n


def slow_names(words, tags):
    """Join runs that share a word until nothing changes."""
    runs, last = [], "VERB"
    for word, tag in zip(words, tags, strict=True):
        if tag == "PROPN":
            if last != "PROPN":
                runs.append(set())
            runs[-1].add(word)
        last = tag
    while any(a & b for i, a in enumerate(runs) for b in runs[:i]):
        pair = next((a, b) for i, a in enumerate(runs) for b in runs[:i] if a & b)
        runs = [run for run in runs if run is not pair[0] and run is not pair[1]] + [pair[0] | pair[1]]
    return len(runs)


@given(st.lists(st.tuples(st.sampled_from(["zed", "wix", "yop", "vab", "qun"]), st.booleans()), max_size=12))
def test_names_as_a_slow_loop_joins_them(pairs):
    words, tags = [word for word, _ in pairs], ["PROPN" if name else "VERB" for _, name in pairs]
    assert n_names(words, tags) == slow_names(words, tags)


@given(passages(), st.data())
def test_a_row_holds_together(item, data):
    cut = tokens(item)
    n = len(cut.words)
    tags = data.draw(st.lists(st.sampled_from(["PROPN", "NOUN", "PUNCT"]), min_size=n, max_size=n))
    row = features(item, tags)
    assert row["mentions"] == mentions.mentions(item)
    assert row["speech"] == speech.speech(item)
    if item.answer is None:
        assert not OF_TARGET & set(row)
        return
    found = mentions.mention_indices(cut)
    assert row["n_mentions"] == len(found) >= row["n_context_mentions"]
    assert row["lemma_in_context"] == bool(found) >= row["in_context"]
    earlier = [i for i in found if i < cut.target]
    assert row["mention_distance"] == min((cut.target - i for i in earlier), default=None)
    assert row["same_root"] == any(any_same_root(cut.words[cut.head], [word]) for word in cut.words)
    assert row["vocative"] <= row["target_in_speech"] <= row["direct_speech"]
    ends = [sum(start <= i for start in cut.sentences) for i in (*earlier[-1:], cut.target)]
    assert row["mention_sentence"] == (ends[-1] - ends[0] if earlier else None)


@given(passages())
def test_lower_case_changes_nothing_that_needs_no_tags(item):
    lowered = dataclasses.replace(item, text=item.text.lower(), answer=item.answer and item.answer.lower())
    assert features(lowered) == features(item)
