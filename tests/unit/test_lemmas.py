# ruff: noqa: RUF001 - typographic apostrophes are meant
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis import lemmas
from workbench.analysis.lemmas import FORMAT, Lemmas, any_same_root, default
from workbench.items.schema import DataError
from workbench.storage.files import resource

BARE = Lemmas({}, {}, {})


def lemmas_of(form):
    return {lemma for _, lemma in default().readings(form)}


def same_root(one, other):
    return any_same_root(one, [other])


@pytest.mark.parametrize(
    ("forms", "pos", "lemma"),
    [
        ("dog dogs DOGS", "NOUN", "dog"),
        ("wife wives", "NOUN", "wife"),
        ("child children", "NOUN", "child"),
        ("man men", "NOUN", "man"),
        ("shoe shoes", "NOUN", "shoe"),
        ("bus buses", "NOUN", "bus"),
        ("city cities", "NOUN", "city"),
        ("horse horses", "NOUN", "horse"),
        ("class classes", "NOUN", "class"),
        ("milkman milkmen", "NOUN", "milkman"),
        ("news", "NOUN", "news"),
        ("walk walks walked walking", "VERB", "walk"),
        ("stop stops stopped stopping", "VERB", "stop"),
        ("hope hopes hoped hoping", "VERB", "hope"),
        ("hop hops hopped hopping", "VERB", "hop"),
        ("stare stares stared staring", "VERB", "stare"),
        ("star starred starring", "VERB", "star"),
        ("cry cries cried crying", "VERB", "cry"),
        ("die dies died dying", "VERB", "die"),
        ("go goes went gone going", "VERB", "go"),
        ("see sees saw seen seeing", "VERB", "see"),
        ("take took taken taking", "VERB", "take"),
        ("breathe breathing breathed", "VERB", "breathe"),
        ("text texts texted texting", "VERB", "text"),
        ("agree agreed agreeing", "VERB", "agree"),
        ("be is was were been am are 's 're ’s", "AUX", "be"),
        ("will 'll wo", "AUX", "will"),
        ("can ca", "AUX", "can"),
        ("big bigger biggest", "ADJ", "big"),
        ("happy happier happiest", "ADJ", "happy"),
        ("good better best", "ADJ", "good"),
        ("fast faster fastest", "ADV", "fast"),
        ("not n't n’t", "PART", "not"),
        ("I i me Me", "PRON", "I"),
        ("they them 'em", "PRON", "they"),
        ("this these", "DET", "this"),
        ("a an", "DET", "a"),
        ("1000 1,000", "NUM", "1000"),
        ("Wynn", "PROPN", "Wynn"),
        ("James", "PROPN", "James"),
        ("McKay", "PROPN", "McKay"),
        ("Americans", "PROPN", "American"),
        ("wynn", "PROPN", "wynn"),
        ("New", "ADJ", "New"),
        ("number", "ADJ", "number"),
        ("happily", "ADV", "happily"),
        ("seed", "VERB", "seed"),
        ("ring", "NOUN", "ring"),
    ],
)
def test_the_lemma_of_a_form(forms, pos, lemma):
    assert {form: default().lemma(form, pos) for form in forms.split()} == dict.fromkeys(forms.split(), lemma)


@pytest.mark.parametrize(
    ("form", "some", "none"),
    [
        ("wives", {"wife"}, {"wive-"}),
        ("children", {"child"}, set()),
        ("men", {"man"}, {"me"}),
        ("left", {"left", "leave"}, {"leaf"}),
        ("leaves", {"leaf", "leave"}, {"left"}),
        ("found", {"find", "found"}, set()),
        ("rose", {"rose", "rise"}, set()),
        ("felt", {"felt", "feel"}, set()),
        ("Wynns", {"wynn"}, set()),
        ("James", {"james"}, {"jam"}),
        ("James'", {"james"}, set()),
        ("Jameses", {"james"}, set()),
        ("Wynn's", {"wynn"}, set()),
        ("Wynn’s", {"wynn"}, set()),
        ("Alex.", {"alex"}, set()),
        ("evening", {"evening"}, {"even"}),
        ("number", {"number"}, {"numb"}),
        ("news", {"news"}, {"new"}),
        ("his", {"his"}, {"hi"}),
        ("seed", {"seed"}, {"see"}),
        ("bed", {"bed"}, {"be"}),
        ("happily", {"happily"}, {"happy"}),
        ("goin'", {"go"}, set()),
        ("them", {"they"}, set()),
        ("'s", {"'s"}, {"be", "have"}),
        ("1990's", {"1990"}, set()),
        ("--", {"--"}, set()),
        ("better", {"good", "well"}, set()),
    ],
)
def test_all_lemmas_of_a_form(form, some, none):
    found = lemmas_of(form)
    assert some <= found
    assert not none & found


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("left", "leave", True),
        ("left", "leaf", False),
        ("leaves", "leaf", True),
        ("saw", "see", True),
        ("rings", "rang", True),
        ("goods", "best", False),  # good: a noun, and an adjective
        ("dreams", "dreamed", True),
        ("phone", "phoned", True),
        ("even", "evening", False),
        ("him", "he", True),
        ("Miles", "mile", True),
        ("miss", "misses", True),
        ("wonder", "wonderful", False),
        ("glass", "glasses", True),
        ("new", "news", False),
    ],
)
def test_forms_of_one_word_share_a_reading(one, other, same):
    readings = default().readings
    assert bool(readings(one) & readings(other)) is same


def test_rules_without_a_table():
    assert [BARE.lemma(form, "VERB") for form in ("blarging", "blargs", "blorted", "jabbed", "zoned")] == [
        "blarge", "blarg", "blort", "jab", "zone",
    ]  # fmt: skip
    assert BARE.lemma("snarks", "NOUN") == "snark"
    assert BARE.lemma("Snarks", "PROPN") == "Snarks"
    assert BARE.lemma("Snark", "INTJ") == "snark"


@given(st.text("abcdeinsgy'’.-", max_size=9), st.sampled_from(["NOUN", "VERB", "ADJ", "PROPN", "X"]))
def test_case_makes_no_difference_to_readings(form, pos):
    lemmatiser = default()
    assert lemmatiser.readings(form) == lemmatiser.readings(form.upper()) == lemmatiser.readings(form.title())
    assert lemmatiser.lemma(form, pos).lower() == lemmatiser.lemma(form.lower(), pos).lower()
    assert lemmatiser.readings(form)


@given(st.text("abeinsgdy", min_size=1, max_size=8))
def test_a_plural_and_a_possessive_can_be_of_any_rare_word(name):
    lemmatiser = default()
    if lemmatiser.readings(name) == BARE.readings(name):  # the table does not know it
        assert lemmatiser.readings(name) <= lemmatiser.readings(f"{name}'s")
        plural = f"{name}es" if name.endswith(("s", "x", "z", "ch", "sh")) else f"{name}s"
        if len(plural) > 3 and BARE.readings(plural) == lemmatiser.readings(plural):
            assert lemmatiser.readings(name) & lemmatiser.readings(plural)


def table(**changes):
    content = {"format": FORMAT, "exceptions": {"NOUN": {"oxen": "ox"}}, "cased": {"ADJ": {"New": "New"}},
             "irregular": {"VERB": {"saw": ["see"]}}, "strong": ["see"], "kinds": {"AN": ["new"]},
             "attested": {"verbs": ["see"], "others": ["ox"]}}  # fmt: skip
    return content | changes


def test_a_table_is_read(tmp_path):
    path = tmp_path / "lemmas.json"
    path.write_text(json.dumps(table()), encoding="utf-8")
    found = Lemmas.read(path)
    lemmas = {("Oxen", "NOUN"): "ox", ("New", "ADJ"): "New", ("new", "ADJ"): "new", ("saw", "VERB"): "see"}
    assert {pair: found.lemma(*pair) for pair in lemmas} == lemmas
    assert found.verbs == {"see"}
    assert found.words == {"see", "ox"}
    assert {kind for kind, _ in found.readings("new")} == set("NVAR")
    assert found.lemma("seed", "VERB") == "seed"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not a valid table of lemmas"),
        ("[]", "not a valid table of lemmas"),
        (json.dumps({"format": FORMAT}), "exceptions"),
        (json.dumps(table(format=0)), "format 0"),
        (json.dumps(table(kinds=[])), "not a valid table of lemmas"),
    ],
)
def test_a_damaged_table_is_an_error_with_its_file(tmp_path, text, told):
    path = tmp_path / "lemmas.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=told) as caught:
        Lemmas.read(path)
    assert caught.value.file == str(path)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="make tagger"):
        Lemmas.read(tmp_path / "none.json")


def test_the_table_that_ships_is_small():
    path = resource("en_narrative", "lemmatizer", "lemmas.json")
    assert path.stat().st_size < 1_500_000
    assert default() is default()


FAMILIES = """
    dead death deadly; died death; know knowledge; dehydrate dehydration; happily happiness; run runner;
    happy happily unhappy; choose choice; chosen choice; friend friendly friendship unfriendly; write writer;
    decided decision; beauty beautiful; believe belief; possible impossible possibility; dark darkness;
    honest honesty dishonest; silence silent silently; embarrassed embarrassment; king kingdom;
    apply application; Catholic Catholicism
"""
UNRELATED = """
    corn corner; numb number; part party; store story; state station; depart department; flow flower;
    ear early; even evening; list listen; moth mother; under stand; the they; he her; . ,; cat dog;
    dog dogs; dog dog; die died; 1990 1990s
"""  # the last row: forms of one word, which are mentions


def test_words_of_one_root():
    families = [family.split() for family in FAMILIES.split(";")]
    pairs = [(first, other) for first, *others in families for other in others]
    assert [pair for pair in pairs if not same_root(*pair)] == []


def test_words_of_no_common_root_and_forms_of_one_word():
    pairs = [tuple(pair.split()) for pair in UNRELATED.split(";")]
    assert [pair for pair in pairs if same_root(*pair)] == []


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
        assert lemmas.word_roots(word) == lemmas_of(word)
    assert {"happy", "happiness"} <= lemmas.word_roots("happiness")


def test_no_listed_word_is_listed_in_vain():
    listed = lemmas._UNRELATED
    assert all(not lemmas._bases(word) for word in listed)
    families = [row.split() for row in lemmas._FAMILIES.split(";")]
    assert all(len(family) > 1 for family in families)
    together = [word for family in families for word in family]
    assert {word for word in together if together.count(word) > 1} == set()


def test_each_listed_word_would_be_taken_apart(monkeypatch):
    listed = lemmas._UNRELATED
    monkeypatch.setattr(lemmas, "_UNRELATED", frozenset())
    assert {word for word in listed if not lemmas._bases(word)} == set()
