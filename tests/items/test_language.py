from pathlib import Path

import builders as b
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

import workbench as wb
from workbench.analysis.annotations import cached_annotations
from workbench.analysis.mentions import mentions
from workbench.analysis.speech import speech
from workbench.evaluation.align import align
from workbench.items import language
from workbench.predictions.schema import from_answers

GERMAN = ["Die Aale kamen. »Sie sehen dies«, sagte sie. Das sind die", "Ich rief sie beim Namen: Ada"]
ENGLISH = ["The heron stood in the reeds. Only the eels saw the heron"]
COMPLETION = [{"id": 7, "question": "Er ___ heim.", "a)": "ging", "b)": "sang", "answer": "a"}]
CODES = ["de", "fr", "ru", "zh", "it"]


def written(path, texts, **columns):
    return b.write_table(path, pd.DataFrame({"text": texts, **columns}))


@given(st.sampled_from(["own", "openai", "NE", "openai-mt"]), st.sampled_from([*CODES, "en", None]))
def test_a_variant_has_one_language(variant, code):
    named = language.in_language(variant, code)
    assert language.language(named) == (code or "en")
    assert language.language(f"{named} (query only)") == (code or "en")
    assert language.in_language(named, code) == named
    if code not in {None, "en"}:
        refused(language.in_language, named, "es")


@given(st.text(max_size=8))
def test_any_variant_cell_and_name_can_be_asked(text):
    assert len(language.language(text)) == 2
    assert language.language_code(text) is None or language.language_code(text) in language.languages_of(
        [f"x-{language.language_code(text)}"]
    )
    language.language_in_path(Path(text.replace("\0", "") or "a"))


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("own_de.csv", "de"), ("test.de.csv", "de"), ("de/test.jsonl", "de"), ("DE.CSV", "de"),
        ("mine_it.csv", "it"), ("lambada_test_ru.jsonl", "ru"), ("lambada_openai_mt_fr/test.jsonl", "fr"),
        ("german/x.csv", "de"), ("it/test-00000-of-00001.parquet", "it"), ("lambada_german_test.csv", "de"),
        ("x_en.csv", "en"), ("mine.csv", None), ("what_it/mine.csv", None), ("cs_papers.csv", None),
        ("items_tr.csv", None), ("no/context_is.csv", None), ("russian_novels/a.csv", None),
    ],
)  # fmt: skip
def test_the_language_of_a_name(name, code):
    assert language.language_in_path(Path(name)) == code


@pytest.mark.parametrize(
    ("ending", "column", "cells"),
    [
        (".csv", "lang", ["de", "de", "en"]),
        (".jsonl", "Language", ["German", "German", "English"]),
        (".parquet", "language", ["de-AT", "deu_Latn", None]),
    ],
)
def test_a_column_tells_the_language_of_each_row(tmp_path, ending, column, cells):
    path = written(tmp_path / f"mine{ending}", GERMAN + ENGLISH, **{column: cells})
    items = wb.load(path)
    assert items.frame["variant"].tolist() == ["own-de", "own-de", "own"]
    assert [item.item_id.rpartition("/")[0] for item in items] == ["own/dev/own-de"] * 2 + ["own/dev"]
    assert items.extra[column].dropna().tolist() == [cell for cell in cells if cell]
    items.to_csv(tmp_path / "again.csv")
    assert wb.load(tmp_path / "again.csv").frame["item_id"].equals(items.frame["item_id"])


def test_bad_rows_of_a_language_stay_problems(tmp_path):
    path = written(tmp_path / "mine.jsonl", [*GERMAN, None], lang="de")
    path.write_text(path.read_text(encoding="utf-8") + "{\n", encoding="utf-8")
    items = wb.load(path, on_error="skip")
    assert set(items.frame["variant"]) == {"own-de"}
    assert (len(items), len(items.problems)) == (2, 2)
    refused(wb.load, path)


def test_a_language_that_is_not_known_is_noted(tmp_path):
    items = wb.load(written(tmp_path / "own_de.csv", ENGLISH, language=["formal"]))
    assert items.frame["variant"].tolist() == ["own"]
    assert "holds 'formal', no language that is known" in items.attrs["note"]
    refused(wb.load, written(tmp_path / "a.csv", GERMAN, lang="de"), variant="openai-fr")


def test_the_name_of_a_file_tells_the_language_where_nothing_else_does(tmp_path):
    path = written(tmp_path / "lambada_test_ru.jsonl", GERMAN)
    items = wb.load(path)
    assert set(items.frame["variant"]) == {"own-ru"}
    assert "taken as Russian, by the name of the file" in items.attrs["note"]
    as_the_note_says = wb.load(path, variant="own")
    assert set(as_the_note_says.frame["variant"]) == {"own"}
    for options in ({}, {"variant": "openai-ru"}):
        items = wb.load("lambada", path=path, **options)
        assert items.frame["item_id"].tolist() == [f"lambada/test/openai-ru/{i:06d}" for i in range(2)]
    refused(wb.load, "lambada", path=path, variant="openai-fi")


@pytest.fixture(scope="module")
def items():
    return wb.items_from_frame(pd.DataFrame({"text": GERMAN + ENGLISH, "lang": ["de", "de", "en"]}))


@pytest.fixture
def runs(items):
    words = {"A": ["die", "Ada", "x"], "B": ["x", "Ada", "heron"]}
    answers = (pd.DataFrame({"item_id": items.frame["item_id"], "prediction": w}) for w in words.values())
    return [from_answers(items, frame, model=name) for name, frame in zip(words, answers, strict=True)]


def test_measures_of_languages_stand_apart(items, runs):
    for by in (None, "language"):
        table = wb.evaluate(runs, by=by)
        rows = table[["model", "language", "n", "accuracy"]].to_numpy().tolist()
        assert rows == [["A", "de", 2, 1.0], ["A", "en", 1, 0.0], ["B", "de", 2, 0.5], ["B", "en", 1, 1.0]]
    assert len(wb.evaluate(runs, by="variant")) == 4
    assert "language" not in wb.evaluate(runs, by="variant")
    assert "language" not in wb.evaluate([run[run["variant"] == "own"] for run in runs])
    described = wb.statistics(items)
    passages = described[described["quantity"] == "passages"]
    assert passages[["language", "value"]].to_numpy().tolist() == [["de", 2], ["en", 1]]
    assert "language" not in wb.statistics(items[2:])
    assert "language" in wb.statistics(items[:2])


def test_what_is_over_several_languages_says_so(items, runs):
    (warning,) = align(items, runs).warnings
    assert "Language: German and English." in warning
    assert warning in wb.significance(*runs).notes
    assert (
        align(items[:2], runs).warnings[0].endswith("2 (“items given”); 3 (“A”, “B”); 2 are common to all.")
    )
    board = wb.leaderboard(runs, by=["dataset", "split"], published=False)
    assert board["place"].isna().all()
    assert "Language: German and English." in board.attrs["warnings"][-1]
    assert wb.leaderboard(runs, published=False)["place"].tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("name", "variant", "word_class"), [("lambada", "openai", None), ("cbt", "NE", "NE")]
)
def test_a_papers_table_has_languages_in_rows_of_their_own(runs, monkeypatch, name, variant, word_class):
    monkeypatch.setattr("workbench.datasets.published.released_size", lambda *_: 2)
    run = runs[0].assign(dataset=name, split="test", word_class=word_class)
    run["variant"] = run["variant"].str.replace("own", variant)
    system = {"lambada": "Random capitalized word from passage"}.get(name, "Kneser-Ney language model")
    frame = wb.table(name, run.assign(system=system)).frame
    ours = frame[frame["model"].notna() & (frame["measure"] == "accuracy") & frame["ours"].notna()]
    assert ours["n"].tolist() == [1, 2] or ours["n"].tolist() == [2, 1]
    assert ours["difference"].isna().all()  # German items are not those of the paper


def test_only_english_is_analysed(items):
    refused(wb.annotate, items)
    assert cached_annotations(items[:2]) is None
    assert speech(items[0]) == []
    assert [items[0].text[slice(*span)] for span in mentions(items[0])] == ["Die"]  # not "dies"
    assert [items[2].text[slice(*span)] for span in mentions(items[2])] == ["heron"]
    assert len(wb.annotate(items.where(np.array([False, False, True])))) == 1


@pytest.mark.parametrize("by", ["name", "column"])
def test_questions_of_released_forms_have_a_language(tmp_path, by):
    frames = {
        "cbt": pd.DataFrame(b.hub_rows(b.cbt())),
        "cnnqa": pd.DataFrame([b.hub_row(b.cnn())]),
        "msrcc": pd.DataFrame(COMPLETION),
    }
    for dataset, frame in frames.items():
        path = tmp_path / (f"{dataset}_de.jsonl" if by == "name" else f"{dataset}.jsonl")
        table = frame if by == "name" else frame.assign(language="de")
        table.to_json(path, orient="records", lines=True)
        assert wb.load(path)[0].variant == "own-de"
