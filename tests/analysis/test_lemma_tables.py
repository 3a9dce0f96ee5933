import json
from collections import Counter

import lemma_tables as tables
import pytest
import treebanks
from conllu import row
from hypothesis import given
from hypothesis import strategies as st

from workbench.analysis.lemmas import Lemmas, default

IRREGULAR = "# a remark\nVERB see saw seen\nVERB dream+ dreamt\nNOUN man men\nADJ good better best\n"
GOLD = Counter({
    ("dogs", "NOUN", "dog"): 6, ("New", "ADJ", "New"): 5, ("new", "ADJ", "new"): 9,
    ("the", "PRON", "they"): 1, ("the", "DET", "the"): 99, ("Thais", "PROPN", "Thai"): 2,
    ("trousers", "NOUN", "trousers"): 2, ("saw", "VERB", "sew"): 1, ("for", "ADV", "forever"): 1,
    ("ever", "X", "_"): 1, ("GOD", "PROPN", "God"): 3, ("big", "ADJ", "big"): 1,
})  # fmt: skip
INFLECTED = "hope hopes hoped hoping shoe shoes big bigger biggest potato potatoes seed see"
WORDS = Counter(dict.fromkeys(INFLECTED.split(), 30))


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "lemmas.json"
    tables.write(path, tables.learn(GOLD, WORDS, IRREGULAR))
    return path


def test_what_is_learnt(small):
    lemmatiser = Lemmas.read(small)
    pairs = {
        ("shoes", "NOUN"): "shoe",  # sho is no word
        ("saw", "VERB"): "see",  # once is a misprint
        ("potatoes", "NOUN"): "potato", ("trousers", "NOUN"): "trousers", ("hoping", "VERB"): "hope",
        ("dreamt", "VERB"): "dream", ("dreamed", "VERB"): "dream", ("seed", "VERB"): "seed",
        ("bigger", "ADJ"): "big", ("biggest", "ADV"): "big", ("better", "ADJ"): "good",
        ("New", "ADJ"): "New", ("new", "ADJ"): "new", ("the", "DET"): "the",
        ("Thais", "PROPN"): "Thai", ("GOD", "PROPN"): "God",
    }  # fmt: skip
    assert {pair: lemmatiser.lemma(*pair) for pair in pairs} == pairs
    assert not lemmatiser.readings("the") & lemmatiser.readings("they")  # one in a hundred is an error
    assert lemmatiser.verbs >= {"hope", "see"}
    assert lemmatiser.words >= {"shoe", "big"}
    assert "shoes" not in lemmatiser.words


def test_slips_of_the_treebanks_are_not_learnt():
    gold = Counter({
        ("60th", "ADJ", "100th"): 9, ("lo9nger", "ADV", "long"): 1, ("16's", "NOUN", "16"): 2,
        ("1,8", "NUM", "1.8"): 2, ("dishonest", "ADJ", "dishon"): 1, ("dishonest", "ADJ", "dishonest"): 1,
        ("freed", "VERB", "fre"): 1, ("bigg", "ADJ", "big"): 1, ("renamed", "VERB", "rename"): 1,
        ("reputed", "VERB", "reput"): 1,
        ("Kiwis", "PROPN", "Kiwi"): 2, ("kolkhozy", "NOUN", "kolkhoz"): 1, ("kolkhoz", "NOUN", "kolkhoz"): 1,
    })  # fmt: skip
    learnt = tables.learn(gold, WORDS, "")
    lemmatiser = Lemmas(learnt["exceptions"], learnt["cased"], {})
    pairs = {
        ("60th", "ADJ"): "60th", ("lo9nger", "ADV"): "lo9nger", ("16's", "NOUN"): "16", ("1,8", "NUM"): "1.8",
        ("dishonest", "ADJ"): "dishonest", ("Dishonest", "ADJ"): "dishonest", ("bigg", "ADJ"): "big",
        ("renamed", "VERB"): "rename", ("reputed", "VERB"): "repute",
        ("Kiwis", "PROPN"): "Kiwi", ("kolkhozy", "NOUN"): "kolkhoz",
    }  # fmt: skip
    assert {pair: lemmatiser.lemma(*pair) for pair in pairs} == pairs
    assert "fre" not in learnt["attested"]["others"] + learnt["attested"]["verbs"]


def test_the_same_data_give_the_same_file(small, tmp_path):
    shuffled = Counter(dict(reversed(GOLD.items()))), Counter(dict(reversed(WORDS.items())))
    other = tmp_path / "other.json"
    tables.write(other, tables.learn(*shuffled, IRREGULAR))
    assert other.read_bytes() == small.read_bytes()
    assert list(json.loads(small.read_text(encoding="utf-8"))["strong"]) == ["see"]


def test_accuracy_is_a_share_of_words(small, tmp_path):
    rows = [("New", "ADJ", "New"), ("dogs", "NOUN", "dog"), ("oxen", "NOUN", "ox"), ("GOD", "PROPN", "God")]
    lines = [row(n, w, lm, p) for n, (w, p, lm) in enumerate(rows, start=1)]
    path = tmp_path / "x.conllu"
    path.write_text("\n".join([*lines, "", ""]), encoding="utf-8")
    lemmatiser = Lemmas.read(small)
    assert tables.accuracy(lemmatiser, path) == 0.75
    assert tables.accuracy(lemmatiser, path, lower=True) == 0.75
    assert tables.accuracy(Lemmas({}, {}, {}), path) == 0.25  # dog alone
    assert tables.accuracy(Lemmas({}, {}, {}), path, lower=True) == 0.75


VERBS = {
    "walk": "walking walked walks", "hope": "hoping hoped hopes", "hop": "hopping hopped hops",
    "cry": "crying cried cries", "play": "playing played plays", "die": "dying died dies",
    "agree": "agreeing agreed agrees", "watch": "watching watched watches", "fix": "fixing fixed fixes",
    "visit": "visiting visitting visited visitted visits", "quit": "quitting quitted quits",
    "cook": "cooking cooked cooks",
}  # fmt: skip


def test_the_regular_forms_of_verbs():
    for verb, forms in VERBS.items():
        assert set().union(*tables.inflect(verb).values()) == set(forms.split())


@given(st.text("abcdeghiklmnoprstuy", min_size=3, max_size=9))
def test_forms_that_are_words_come_back_to_their_verb(verb):
    forms = tables.inflect(verb)
    words = Counter({verb: 50} | {form: 50 for several in forms.values() for form in several})
    learnt = tables.learn(Counter({(verb, "VERB", verb): 1}), words, "")
    lemmatiser = Lemmas(learnt["exceptions"], {}, {})
    for form in forms["ing"] | forms["ed"]:
        if form not in words or form == verb:
            continue
        found = lemmatiser.lemma(form, "VERB")
        assert found == verb or form in set().union(*tables.inflect(found).values())


def test_words_in_lower_case_are_counted():
    words = tables.vocabulary(["The dog's old-fashioned dog, a Dog; dogs!", "dog"])
    assert words == {"dog": 3, "a": 1, "dogs": 1}


@pytest.mark.parametrize("name", ["ewt-dev", "gum-dev"])
@pytest.mark.data
def test_the_table_that_ships_is_right(real_data, name):  # noqa: ARG001 - skips
    path = treebanks.find(name)
    share = tables.accuracy(default(), path)
    assert min(share, tables.accuracy(default(), path, lower=True)) >= 0.98
    right = total = 0  # the oracle reads the file by itself
    for line in path.read_text(encoding="utf-8").splitlines():
        cells = line.split("\t")
        if cells[0].isdigit():
            total += 1
            right += default().lemma(cells[1], cells[3]) == cells[2]
    assert share == right / total
