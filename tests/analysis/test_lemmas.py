# ruff: noqa: RUF001 - typographic apostrophes are meant
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench.analysis import lemmas
from workbench.analysis.lemmas import Lemmas, any_same_root, default

BARE = Lemmas({}, {}, {})


def lemmas_of(form):
    return {lemma for _, lemma in default().readings(form)}


def same_root(one, other):
    return any_same_root(one, [other])


# The lemma comes first.
FORMS = {
    "NOUN": """dog dogs DOGS; wife wives; child children; man men; shoe shoes; bus buses; city cities;
        horse horses; class classes; milkman milkmen; news; ring""",
    "VERB": """walk walks walked walking; stop stops stopped stopping; hope hopes hoped hoping; seed;
        hop hops hopped hopping; stare stares stared staring; star starred starring; cry cries cried crying;
        die dies died dying; go goes went gone going; see sees saw seen seeing; take took taken taking;
        breathe breathing breathed; text texts texted texting; agree agreed agreeing""",
    "AUX": "be is was were been am are 's 're ’s; will 'll wo; can ca",
    "ADJ": "big bigger biggest; happy happier happiest; good better best; New; number",
    "ADV": "fast faster fastest; happily",
    "PART": "not n't n’t",
    "PRON": "I i me Me; they them 'em",
    "DET": "this these; a an",
    "NUM": "1000 1,000",
    "PROPN": "Wynn; James; McKay; American Americans; wynn",
}


@pytest.mark.parametrize(("pos", "families"), FORMS.items())
def test_the_lemma_of_a_form(pos, families):
    for forms in map(str.split, families.split(";")):
        assert {form: default().lemma(form, pos) for form in forms} == dict.fromkeys(forms, forms[0])


# A form, its lemmas (not all), and words that are none.
READINGS = """
    wives: wife; children: child; men: man, not me; left: left leave, not leaf; leaves: leaf leave, not left;
    found: find found; rose: rose rise; felt: felt feel; Wynns: wynn; James: james, not jam; James': james;
    Jameses: james; Wynn's: wynn; Wynn’s: wynn; Alex.: alex; evening: evening, not even;
    number: number, not numb; news: news, not new; his: his, not hi; seed: seed, not see;
    bed: bed, not be; happily: happily, not happy;
    goin': go; them: they; 's: 's, not be have; 1990's: 1990; --: --; better: good well
"""


def test_all_lemmas_of_a_form():
    for row in READINGS.split(";"):
        form, _, rest = row.strip().partition(": ")
        wanted, _, wrong = rest.partition(", not ")
        assert set(wanted.split()) <= lemmas_of(form), form
        assert lemmas_of(form).isdisjoint(wrong.split()), form


ONE_WORD = """left leave; leaves leaf; saw see; rings rang; dreams dreamed; phone phoned; him he; Miles mile;
    miss misses; glass glasses"""
TWO_WORDS = "left leaf; goods best; even evening; wonder wonderful; new news"


@pytest.mark.parametrize(("pairs", "same"), [(ONE_WORD, True), (TWO_WORDS, False)])
def test_forms_of_one_word_share_a_reading(pairs, same):
    readings = default().readings
    for one, other in map(str.split, pairs.split(";")):
        assert bool(readings(one) & readings(other)) is same, (one, other)


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
    content = {"format": 1, "exceptions": {"NOUN": {"oxen": "ox"}}, "cased": {"ADJ": {"New": "New"}},
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


DAMAGED = [
    "{", "[]", None,
    json.dumps({"format": 1}),
    json.dumps(table(kinds=[])),
]  # fmt: skip


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_or_missing_table_is_an_error_with_its_file(tmp_path, text):
    path = tmp_path / "lemmas.json"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    caught = refused(Lemmas.read, path)
    assert caught.file == str(path)


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


def test_words_of_one_root_and_of_none():
    families = [family.split() for family in FAMILIES.split(";")]
    pairs = [(first, other) for first, *others in families for other in others]
    assert [pair for pair in pairs if not same_root(*pair)] == []
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
