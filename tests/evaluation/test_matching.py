import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench import datasets
from workbench.evaluation.interchange import records
from workbench.evaluation.interchange.records import (
    Index,
    Match,
    Notes,
    ResultRow,
    match_rows,
    resolve_variants,
    text_key,
)
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.storage.errors import DataError

TOKENS = ["he", "did", "n't", "``", "''", "-lrb-", "-rrb-", ",", ".", "café", "o'clock", "--", "?", "Ann"]
WORDS = st.lists(st.sampled_from(TOKENS), min_size=1, max_size=12)


def own(texts, variant="own"):
    frame = pd.DataFrame({"text": texts, "answer": [text.split()[-1] for text in texts]})
    return Items.from_frame(frame, variant=variant)


def rows_of(*texts):
    return [ResultRow(line, "m", text, {}) for line, text in enumerate(texts, 1)]


@pytest.fixture
def notes(tmp_path):
    return Notes(tmp_path / "file.csv", "report")


@given(WORDS)
def test_the_readable_form_has_the_key_of_the_tokens(words):
    text = " ".join(words)
    assert text_key(wt.readable(text)) == text_key(text)
    assert text_key(text.upper()) == text_key(text)
    assert text_key(" ".join(wt.tokenize(wt.readable(text)))) == text_key(text)
    assert text_key(f"  {text}\n") == text_key(text)


def test_the_three_forms_of_the_sample_have_one_key():
    forms = [datasets.load("sample", "dev", variant=v) for v in ("plain", "capitalised", "openai")]
    keys = [[text_key(text) for text in items.frame["text"]] for items in forms]
    assert keys[0] == keys[1] == keys[2]
    assert len(set(keys[0])) == len(keys[0])
    for items, form in zip(forms, [(True, False), (True, True), (False, True)], strict=True):
        assert (items.frame["text"].map(records.text_form) == form).mean() > 0.95


@pytest.mark.data
def test_no_two_passages_of_lambada_share_a_key_but_those_that_are_the_same(real_data):
    frame = datasets.load("lambada", "dev", path=real_data).frame
    keys = frame["text"].map(text_key)
    assert keys.nunique() >= len(frame) - 2
    readable = frame["text"][::5].map(lambda text: text_key(wt.readable(text)))
    assert readable.tolist() == keys[::5].tolist()


def test_texts_are_found_by_wording_then_by_letters_and_digits():
    index = Index(own(["He saw the “dog” Rex", "he saw the `` dog '' rex", "one thing more"]))
    assert index.find("He saw the “dog” Rex") == Match((0,), "text")
    assert index.find('He saw  the "dog" Rex') == Match((0,), "text")
    assert index.find('he saw the " dog " rex') == Match((1,), "text")
    assert index.find("HE SAW the dog rex") == Match((0, 1), "letters")
    assert index.find("One thing, more.") == Match((2,), "letters")
    assert index.find("one thing _____") == Match((2,), "text")
    assert index.find("one thing") == Match((2,), "text")
    assert index.find("another") == index.find("...") == index.find("") == Match((), "")


def test_what_cannot_be_told_apart_is_reported_and_not_guessed(notes):
    items = own(["a b c", "a b c", "A b, c", "d e f"])
    index = Index(items)
    placed = match_rows(rows_of("A B C", "d e f", "g", items[2].item_id), index, notes)
    assert [(one.row.line, one.item_index, one.how) for one in placed] == [(2, 3, "text"), (4, 2, "id")]
    report = notes.frame()[["line", "problem", "text"]].to_numpy().tolist()
    assert report == [[1, "3 items have this text", "A B C"], [3, "no item has this id or text", "g"]]
    assert not notes.frame()["kept"].any()


def test_items_of_one_text_are_told_apart_by_order_only_where_all_are_answered(notes):
    index = Index(own(["a b c", "d e f", "a b c"]))
    rows = [*rows_of("a b c", "a b c"), ResultRow(3, "other", "a b c", {})]
    assert [(one.row.line, one.item_index) for one in match_rows(rows, index, notes)] == [(1, 0), (2, 2)]
    assert notes.frame()["line"].tolist() == [3]


def test_a_text_of_another_form_needs_the_variant(notes):
    plain = own(["he did n't go , ann", "she said , `` go '' , bob"], variant="plain")
    cased = rows_of("He didn't go, Ann", 'She said, "go", Bob')
    refused(resolve_variants, cased, plain, notes, None, None)
    placed, variants = resolve_variants(cased, plain, notes, "openai", None)
    assert ([one.item_index for one in placed], variants) == ([0, 1], ["openai", "openai"])
    assert resolve_variants(cased, plain, notes, None, "plain")[1] == ["plain", "plain"]
    assert not len(notes.frame())
    placed, variants = resolve_variants([*rows_of("he did n't go , ann"), cased[1]], plain, notes, None, None)
    assert ([one.item_index for one in placed], variants) == ([0], ["plain"])
    assert notes.frame()["line"].tolist() == [2]
    with pytest.raises(DataError):
        resolve_variants(rows_of("unheard of"), plain, notes, None, None)
