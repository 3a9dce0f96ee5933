"""Names of passages, and passages with other names: what changes, and that nothing else does."""

import re
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from braced_items import LETTERS, cloze, clozes, passages
from hypothesis import given, settings
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.analysis import substitution
from workbench.analysis.names import FAMILIES, Name, families, name_spans, names, passage_names
from workbench.analysis.substitution import NamePool, in_case_of
from workbench.items.changes import with_replacements
from workbench.items.items import Items

POOL = [
    Name(*row)
    for row in (
        *((name, "first name", "feminine", 9) for name in ("martha", "olga", "bettina")),
        *((name, "first name", "masculine", 9) for name in ("boris", "sergei", "igor")),
        *((name, "first name", None, 9) for name in ("zanthe", "quorra", "ulmo")),
        *((name, "surname", None, 9) for name in ("miller", "jones")),
        *((name, "place", None, 9) for name in ("paris", "oslo")),
    )
]


def tagged(items, *proper):
    """Return annotations in which the words `proper` are names, wherever they stand as a whole token."""
    spans = [
        [match.span() for match in re.finditer(r"[\w]+", item.text) if match[0].lower() in proper]
        for item in items
    ]
    return pd.DataFrame({"item_id": items.frame["item_id"], "names": pd.Series(spans, dtype=object)})


def renamed_by(items, annotations, *, pool=POOL, **options):
    """Call `rename` where the items have the names of a pool too."""

    def with_pool(*arguments):
        return [*names(*arguments), *pool]

    with mock.patch.object(substitution, "names", with_pool):
        return wb.rename(items, annotations, **options)


def renamed(items, *proper, **options):
    return renamed_by(items, tagged(items, *proper), **options)


def test_all_forms_of_a_name_become_the_same_forms_of_one_other():
    text = "SHEILA sat . `` Sheila 's hat ! '' Boris said , sheila . The Smiths saw Mr. Smith and {Sheila}"
    items = clozes(text)
    [item] = renamed(items, "sheila", "boris", "smith")
    words = item.meta["renamed"]
    new = words["sheila"]
    assert new in {"martha", "olga", "bettina"}
    assert words["Boris"] in {"Sergei", "Igor"}
    assert words["Smith"] in {"Miller", "Jones"}
    assert (words["SHEILA"], words["Sheila"]) == (new.upper(), new.capitalize())
    assert item.answer == new.capitalize()
    assert item.meta["n_renamed"] == 3
    assert (item.meta["answer_renamed"], item.meta["original_answer"]) == (True, "Sheila")
    assert item.variant == "plain (renamed)"
    expected = text.replace("{", "").replace("}", "")
    for old, word in words.items():
        expected = re.sub(rf"\b{old}(?=s?\b)", word, expected)
    assert item.text == expected


def test_possessives_plurals_and_joined_words_of_running_text_follow():
    item = cloze("The Smiths met Sheila's dog, sheilaand Mr. Smith, near {Sheila}.", tokenised=False)
    [changed] = renamed(Items.from_records([item]), "smiths", "sheila", "smith")
    new, surname = changed.meta["renamed"]["Sheila"], changed.meta["renamed"]["Smith"]
    assert changed.text == f"The {surname}s met {new}'s dog, {new.lower()}and Mr. {surname}, near {new}."
    [item] = clozes("Sheila's hat , {Sheila}")  # one token
    spans = pd.DataFrame({"item_id": [item.item_id], "names": [[(0, 8), item.answer_span]]})
    [changed] = renamed_by(Items.from_records([item]), spans)
    assert changed.text == f"{changed.answer}'s hat , {changed.answer}" != item.text


def test_nicknames_become_forms_of_one_name():
    [item] = renamed(clozes("Thomas came . tom , Tommy and JAX ; jaxie saw {Tom}"), "thomas", "tom", "tommy",
                     "jax", "jaxie")  # fmt: skip
    new = {old.lower(): word.lower() for old, word in item.meta["renamed"].items()}
    rows = [row.strip().split("/") for text in FAMILIES.values() for row in text.split(",")]
    assert [new["thomas"], new["tom"], new["tommy"]] in rows
    assert [new["jax"], new["jaxie"]] in [row[1:] for row in rows]
    assert item.answer == new["tom"].capitalize()
    assert len(set(new.values())) == 5


def test_a_name_that_is_another_word_of_the_passage_stays():
    items = clozes(
        "Mark met Sheila . a mark was on {Mark}", "Will said , will you , {Sheila}", "The Nile , {Nile}"
    )
    for item, answer in zip(items, ("Mark", "Sheila", "Nile"), strict=True):
        spans = [[m.span() for m in re.finditer("Mark|Will|Sheila|Nile", item.text)]]
        table = pd.DataFrame({"item_id": [item.item_id], "names": spans})
        [changed] = renamed_by(Items.from_records([item]), table)
        assert {"Mark", "Will", "Nile"}.isdisjoint(changed.meta["renamed"])
        assert (changed.answer == answer) == (answer != "Sheila")
    [changed] = renamed(clozes("Mark met Sheila , {Mark}"), "mark", "sheila")
    assert set(changed.meta["renamed"]) == {"Mark", "Sheila"}


def test_new_names_are_of_the_kind_and_not_in_the_passage():
    pool = [row for row in POOL if row.name in {"martha", "olga", "paris", "oslo"}]
    [item] = renamed(clozes("martha saw sheila in london , {paris}"), "martha", "sheila", "london", "paris",
                     pool=pool)  # fmt: skip
    assert sorted(item.meta["renamed"].values()) == ["olga", "oslo"]  # no other is free


def test_candidates_follow_and_stay_different():
    item = cloze("Sheila saw Boris . XY saw {Boris} .", candidates=("Boris", "Sheila", "Olga", "dog"),
                 variant="NE", word_class="NE")  # fmt: skip
    [changed] = renamed(Items.from_records([item]), "sheila", "boris")
    words = changed.meta["renamed"]
    assert changed.candidates == (words["Boris"], words["Sheila"], "Olga", "dog")
    assert words["Sheila"] != "Olga"  # a candidate
    assert changed.answer == words["Boris"]


def test_frequency_gender_and_kind_of_names_follow_from_the_passages():
    texts = [
        "Mrs. Smith came . Zanthe sat down , her hat on her head , and she smiled , {Zanthe}",
        "Zanthe sat in Quorra . she ran , {hat}",
        "he met Ulmo Smith in Quorra , {hat}",
        "Tom sat in London , {Tom}",
        "Mr. Velm sat down , Velm said , {hat}",
    ]
    items = clozes(*texts)
    proper = tagged(items, "smith", "zanthe", "quorra", "ulmo", "tom", "london", "velm")
    table = names(items, proper["names"])
    rows = {row.name: row[1:] for row in table}
    assert all(rows[name][1] is None for name in ("smith", "quorra", "london"))
    assert rows["zanthe"] == ("first name", "feminine", 2)
    assert rows["smith"][::2] == ("surname", 2)
    assert rows["quorra"][::2] == ("place", 2)
    assert rows["london"][::2] == ("place", 1)
    assert rows["tom"] == ("first name", "masculine", 1)
    assert rows["ulmo"][0] == rows["velm"][0] == "first name"
    assert [row.n_items for row in table] == sorted((row.n_items for row in table), reverse=True)


def test_a_new_name_is_near_in_frequency():
    table = [Name(f"x{chr(97 + k // 26)}{chr(97 + k % 26)}", "surname", None, 200 - k) for k in range(200)]
    rng = np.random.default_rng(0)
    n = pd.Series({row.name: row.n_items for row in table})
    drawn = NamePool(table).drawn(Name("other", "surname", None, 100), rng)
    gaps = (np.log(n[drawn]) - np.log(100)).abs().to_numpy()
    plain = sorted(abs(np.log(k) - np.log(100)) for k in n if k > 2)
    np.testing.assert_allclose(sorted(gaps[:20]), plain[:20])
    np.testing.assert_allclose(gaps[20:], plain[20:])


NAMES = ("Sheila", "SHEILA", "sheila", "Boris", "boris", "Smith", "Tom", "Tommy", "thomas", "Paris", "Xyzzy")


@st.composite
def passages_with_names(draw):
    item = draw(passages(known=True))
    words = item.text.split(" ")
    for occurrence in draw(st.lists(st.integers(0, len(words) - 1), max_size=8)):
        words[occurrence] = draw(st.sampled_from(NAMES))
    text, answer = " ".join(filter(None, words)), draw(st.sampled_from([*NAMES, "hat"]))
    candidates = draw(st.sampled_from([None, (answer, "Olga", "hat", "Tom")]))
    return cloze(f"{text} {{{answer}}}", candidates=candidates)


@given(passages_with_names(), st.integers(0, 3))
@settings(max_examples=25, deadline=None)
def test_renaming_is_one_to_one_and_the_inverse_gives_the_text_back(item, seed):
    items = Items.from_records([item])
    proper = {name.lower() for name in NAMES}
    [changed] = renamed(items, *proper, seed=seed)  # from_records has checked all spans and the candidates
    check_inverse(item, changed)
    assert changed == renamed(items, *proper, seed=seed)[0]
    tokens = set(re.findall(r"\w+", item.text.lower()))
    assert tokens.isdisjoint(word.lower() for word in changed.meta["renamed"].values())
    for old, new in changed.meta["renamed"].items():
        assert new == in_case_of(old, new.lower())


def check_inverse(item, changed):
    """Check by a plain loop that only names differ, and that each span begins and ends at the same word."""
    forms = changed.meta["renamed"]
    back = {new: old for old, new in forms.items()}
    assert len(back) == len(forms)
    text, occurrence = "", 0
    edges = {}  # of the new text
    words = re.compile("|".join(sorted(map(re.escape, back), key=len, reverse=True)) or r"(?!)")
    while occurrence <= len(changed.text):
        edges.setdefault(len(text), occurrence)
        inside = changed.text[occurrence - 1 : occurrence].isalpha()
        if match := None if inside else words.match(changed.text, occurrence):
            text, occurrence = text + back[match[0]], match.end()
        else:
            text, occurrence = text + changed.text[occurrence : occurrence + 1], occurrence + 1
    assert text == item.text
    spans = ([*each.sentences, each.answer_span] for each in (item, changed))
    for old, new in zip(*spans, strict=True):
        assert new == (edges[old[0]], edges[old[1]])
    for name in ("item_id", "dataset", "split", "word_class", "tokenised", "book_id"):
        assert getattr(changed, name) == getattr(item, name)
    answer = changed.text[slice(*changed.answer_span)]
    assert changed.answer == answer
    assert (changed.candidates is None) == (item.candidates is None)
    if item.candidates:
        assert len(set(changed.candidates)) == len(set(item.candidates))
        assert changed.candidates[item.candidates.index(item.answer)] == answer


@pytest.fixture(scope="module")
def sample():
    """Give passages and questions of the sample, with their annotations."""
    items = Items.concat(
        [wb.load("sample", "dev").sample(30), wb.load("sample", "dev", variant="cbt").sample(10)]
    )
    return items, wb.annotate(items)


def test_the_sample_is_renamed_and_back(sample):
    items, annotations = sample
    changed = wb.rename(items, annotations=annotations)
    assert changed.extra["n_renamed"].mean() > 0.5
    for item, new in zip(items, changed, strict=True):
        check_inverse(item, new)
    again = wb.rename(items, annotations)
    assert again.frame.equals(changed.frame)
    other = wb.rename(items, annotations=annotations, seed=1)
    assert not other.frame["text"].equals(changed.frame["text"])
    refused(wb.rename, changed)


def judged(run, right):
    """Return predictions that are right or wrong as told, and say so in every column."""
    right = np.asarray(right, dtype=bool)
    words = run["answer"].where(right, "unheard")
    return run.assign(
        prediction=words, correct=right, p_correct=right.astype(float), rank=np.where(right, 1, 2)
    )


def test_runs_of_renamed_items_are_paired_with_those_of_the_whole():
    texts = [f"Sheila saw a {word} . the {word} saw {{Sheila}}" for word in ("dog", "cat", "hen", "fox")]
    items = clozes(*texts)
    changed = renamed(items, "sheila")
    model = wb.models.MaximumFrequency("context")
    runs = [model.predict(each) for each in (items, changed)]
    runs[1] = judged(runs[1], [not runs[0].loc[0, "correct"], *runs[0]["correct"][1:]])
    test = wb.significance(*runs)
    right = [run["correct"].to_numpy(dtype=bool) for run in runs]
    assert test.difference == pytest.approx(right[0].mean() - right[1].mean())
    assert (test.n, test.n_only_a + test.n_only_b) == (4, 1)
    assert test.b.endswith("(renamed)")
    assert not np.isnan(test.p_value)
    notes = " ".join(test.notes)
    assert "not evaluated alike. Variant" in notes
    assert "not the same task" not in notes
    widget = wb.compare(items, runs)
    answers = [each["answer"] for each in widget.comparison.top(1)]
    widget.close()
    assert answers == [items[1].answer, changed[1].answer]
    refused(wb.significance, runs[0], runs[1].assign(variant="plain", model="other"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(LETTERS, st.one_of(st.none(), LETTERS)), min_size=1, max_size=6), st.booleans())
def test_other_text_moves_all_spans(words, answered):
    text = " ".join(word for word, _ in words)
    item = cloze(f"{text} {{dog}} b ." if answered else f"{text} {{}} b .")
    occurrences = [match.span() for match in re.finditer(r"\S+", text)]
    changes = [(span, new) for span, (_, new) in zip(occurrences, words, strict=True) if new is not None]
    changed = with_replacements(item, changes)
    Items.from_records([changed])
    expected = " ".join(word if new is None else new for word, new in words)
    assert changed.text == expected + item.text[len(text) :]
    assert changed.right == item.right
    for old, new in zip(item.context, changed.context, strict=True):
        assert len(old.split()) == len(new.split())


def test_annotations_without_spans_are_refused(items):
    refused(wb.rename, items, pd.DataFrame({"item_id": items.frame["item_id"]}))


def test_the_listed_forms_are_names_of_one_role_each():
    for family, forms in families().items():
        assert len(forms) == 3, family
        assert sum(map(bool, forms)) > 1
        assert all(form.isalpha() or not form for form in forms), family


def test_an_occurrence_is_a_whole_word_of_the_passage(sample):
    items, annotations = sample
    for item, spans in zip(items, name_spans(items, annotations), strict=True):
        for name, occurrences in passage_names(item, spans).items():
            for occurrence in occurrences:
                assert item.text[occurrence.start : occurrence.end].lower() == name
                assert not item.text[occurrence.start - 1 : occurrence.start].isalpha()
