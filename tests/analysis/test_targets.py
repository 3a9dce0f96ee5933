import pytest
from braced_items import cloze

from workbench.analysis.annotations import FEATURES, target_features, vocative
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
        "n_context_sentences": 2, "n_tokens": 25,
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
    assert (row["n_context_sentences"], row["n_tokens"]) == (1, 14)


def test_an_empty_context_and_an_empty_item():
    row = features(cloze("{dog}"), ["NOUN"], "dog")
    assert (row["n_mentions"], row["n_context_sentences"], row["n_tokens"]) == (0, 0, 1)
    assert (row["target_class"], row["in_context"]) == ("CN", False)
    empty = features(cloze("{}"), [])
    assert (empty["n_tokens"], empty["direct_speech"], empty["speech"]) == (0, False, [])


def test_an_answer_of_several_tokens():
    item = cloze("York is old . he likes {New York}")
    tags = ["PROPN", "VERB", "ADJ", "PUNCT", "PRON", "VERB", "PROPN", "PROPN"]
    row = features(item, tags, "York")
    assert (row["target_pos"], row["mention_distance"], row["mention_sentence"]) == ("PROPN", 6, 1)
    assert row["n_tokens"] == 8


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
