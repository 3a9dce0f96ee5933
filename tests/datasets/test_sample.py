"""The sample is whole, has the shapes of the real sets, and is what its builder makes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from refused import refused

import workbench as wb
from workbench.analysis.mentions import mentions
from workbench.items import text as wt
from workbench.storage.paths import resource

ROOT = Path(__file__).parents[2]
SAMPLE = resource("sample")


def rows(name):
    return [json.loads(line) for line in (SAMPLE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def test_there_is_as_much_as_promised():
    assert len(list((SAMPLE / "novels").glob("*.md"))) >= 16
    assert len(wb.load("sample")) >= 150
    assert len(wb.load("sample", "control")) >= 150
    counts = wb.load("sample", variant="cbt").frame["word_class"].value_counts()
    assert counts.reindex(["NE", "CN", "V", "P"]).ge(40).all()
    assert wb.load("sample", variant="CN").frame["word_class"].unique().tolist() == ["CN"]
    assert len(wb.load("sample", variant="msrcc")) >= 40


def test_stories_are_long_and_hold_dialogue():
    stories = list(wb.books("sample"))
    words = [len(book.text.split()) for book in stories]
    assert min(words) > 1_300
    assert sum(words) / len(words) > 1_450
    for book in stories:
        paragraphs = [p for p in book.text.split("\n\n") if p.strip()]
        assert sum('"' in p for p in paragraphs) > 0.3 * len(paragraphs), book.title


@pytest.mark.parametrize("split", ["dev", "control", "rejected"])
def test_passages_have_the_shape_of_the_release(split):
    plain = wb.load("sample", split)
    cased = wb.load("sample", split, variant="capitalised")
    running = wb.load("sample", split, variant="openai")
    assert plain.frame["item_id"].tolist() == cased.frame["item_id"].tolist()
    for low, high, detokenised in zip(plain, cased, running, strict=True):
        assert low.text == high.text.lower()
        assert low.sentences == high.sentences
        assert wt.tokenize(detokenised.text) == high.tokens
        assert len(detokenised.sentences) == len(high.sentences)
        assert low.right == ""
        assert high.text.endswith(f" {high.answer}")
        lengths = [len(sentence.split()) for sentence in low.context]
        assert sum(lengths) > 50 >= sum(lengths[1:])


def test_it_looks_like_the_real_thing():
    for split, low, high in (("dev", 0.7, 1), ("control", 0, 0.2)):
        mentioned = [bool(mentions(item)) for item in wb.load("sample", split)]
        assert low < sum(mentioned) / len(mentioned) < high
    kept = wb.load("sample", variant="capitalised")
    names = sum(item.answer[0].isupper() for item in kept) / len(kept)
    assert 0.35 < names < 0.6
    assert len(set(kept.frame["book_id"])) >= 16


def test_readings_decide_what_is_kept():
    readings = json.loads((SAMPLE / "readings.json").read_text(encoding="utf-8"))
    for row in (row for row in rows("passages") if row["split"] == "dev"):
        target = row["target"].lower()
        fits = [
            all(guess.lower() == target for guess in reading["passage"])
            and target not in [guess.lower() for guess in reading["sentence"]]
            for key, reading in readings.items()
            if key.startswith(f"{row['book']}/")
        ]
        assert any(fits), row


def test_questions_have_the_shape_of_the_book_test():
    for item in wb.load("sample", variant="cbt"):
        assert len(item.context) == 20
        assert len(item.candidates) == len(set(item.candidates)) == 10
        words = {word for sentence in item.context for word in sentence.split()}
        assert set(item.candidates) <= words
        assert item.query.count("_____") == 1


def test_completions_offer_five_words():
    items = wb.load("sample", variant="msrcc")
    for item in items:
        assert len(set(item.candidates)) == 5
        assert item.context == []
        assert all([item.left, item.right])
    assert {item.candidates.index(item.answer) for item in items} == {0, 1, 2, 3, 4}


VARIANTS = ["plain", "capitalised", "openai", "cbt", "NE", "CN", "V", "P", "msrcc"]
PARTS = [*(("dev", variant) for variant in VARIANTS), ("control", "plain"), ("rejected", "plain")]


@pytest.mark.parametrize(("split", "variant"), PARTS)  # so sentences are consecutive
def test_each_item_stands_in_the_story_that_it_names(split, variant):
    stories = {book.book_id: "".join(wt.tokenize(book.text)).lower() for book in wb.books("sample")}
    for item in wb.load("sample", split, variant=variant):
        tokens = item.tokens if item.tokenised else wt.tokenize(item.text)
        assert "".join(tokens).lower() in stories[item.book_id], item.item_id


def test_the_split_is_by_story():
    parts = {split: [book.book_id for book in wb.books("sample", split)] for split in ("train", "test")}
    assert sorted(parts["train"] + parts["test"]) == [book.book_id for book in wb.books("sample")]
    assert (len(parts["train"]), len(parts["test"])) == (12, 8)
    for variant in VARIANTS:
        every = wb.load("sample", variant=variant).frame
        for split, stories in parts.items():
            part = wb.load("sample", split, variant=variant).frame
            assert set(part["book_id"]) <= set(stories)
            assert set(part["split"]) == {split}
            of_stories = every[every["book_id"].isin(stories)].reset_index(drop=True)
            assert part.drop(columns=["split", "meta"]).equals(of_stories.drop(columns=["split", "meta"]))
    assert [len(wb.load("sample", split)) for split in ("dev", "train", "test")] == [222, 136, 86]


def stands_whole(items):
    return wb.contamination(items, wb.books("sample", "train")).frame["passage"]


def test_no_passage_of_the_held_out_stories_stands_in_those_to_train_on():
    for variant in VARIANTS:
        assert not stands_whole(wb.load("sample", "test", variant=variant)).any()
    assert stands_whole(wb.load("sample", "train")).all()


@pytest.mark.parametrize(("split", "variant"), [("valid", None), ("dev", "cloze"), ("control", "NE")])
def test_what_there_is_not_is_told(tmp_path, split, variant):
    refused(wb.load, "sample", split, variant=variant)
    refused(wb.load, "sample", path=tmp_path)
    refused(wb.books, "sample", "dev")


def test_building_again_gives_the_same_files(tmp_path):
    subprocess.run([sys.executable, SAMPLE / "build.py", tmp_path], check=True, cwd=ROOT, capture_output=True)
    for name in ("passages.jsonl", "completions.jsonl", "split.json"):
        assert (tmp_path / name).read_bytes() == (SAMPLE / name).read_bytes()


@pytest.mark.data
@pytest.mark.usefixtures("real_data")
def test_available_lists_what_can_be_loaded():
    listed = wb.available()
    listed = listed[listed["variant"] != "books"]
    assert listed["found"].sum() > 15
    for row in listed.itertuples():
        if row.found:
            assert len(wb.load(row.dataset, row.split, variant=row.variant)) > 0
        else:
            refused(wb.load, row.dataset, row.split, variant=row.variant)
