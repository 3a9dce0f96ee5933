import json

import builders as b
import pandas as pd
import pytest
from refused import refused

from workbench.datasets import load

NAME = "cbtest_NE_valid_2000ex.txt"


def read(folder, content=None, *args, **options):
    if content is not None:
        folder = b.write(folder, {NAME: content}) / NAME
    return load("cbt", *args, path=folder, **options)


def test_an_item(tmp_path):
    item = read(tmp_path, b.cbt())[1]
    assert item.item_id == "cbt/dev/NE/000001"
    assert (item.answer, item.word_class, item.variant, item.tokenised) == ("goose", "NE", "NE", True)
    assert item.text.split("\n")[-1] == "The goose ran ."
    assert item.context == [f"Sentence {i} tells of the {b.WORDS[i % 10]} ." for i in range(1, 21)]
    assert (item.left, item.right) == ("The ", " ran .")
    assert item.candidates == tuple(b.WORDS)


def test_all_classes_or_one(tmp_path):
    files = {"V_valid_2000ex": b.cbt(2), "P_test_2500ex": b.cbt(1), "CN_train": b.cbt(4)}
    files = {f"cbtest_{name}.txt": content for name, content in files.items()}
    folder = b.write(tmp_path, {NAME: b.cbt()} | files)
    assert read(folder).frame["word_class"].tolist() == ["NE"] * 3 + ["V"] * 2
    note = "no questions found for CN P; cbtest_NE_valid_2000ex.txt differs"
    assert read(folder).attrs["note"].startswith(note)
    assert len(read(folder, None, "dev", variant="V")) == 2
    assert "note" not in read(folder, None, "dev", variant="V").attrs
    assert len(read(folder, None, "test")) == 1
    assert len(read(folder, None, "train")) == 4
    refused(read, folder, None, "test", variant="CN")
    refused(read, folder, variant="ADJ")
    refused(read, folder, None, "control")


NINE = b.WORDS[:9]


@pytest.mark.parametrize(
    ("listed", "place"),
    [
        ("|".join(NINE) + "||", 9),
        ("|".join(NINE[:4]) + "|||" + "|".join(NINE[4:]), 4),
        ("||" + "|".join(NINE), 0),
        ("|".join(NINE) + "|", 9),
        ("|".join(NINE[:4]) + "||" + "|".join(NINE[4:]), 4),
    ],
)
def test_a_bar_may_be_a_candidate(tmp_path, listed, place):
    item = read(tmp_path, b.cbt(1, candidates=listed))[0]
    assert item.candidates == (*NINE[:place], "|", *NINE[place:])


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b.cbt_block(context=19), "expected line 20|expected 21"),
        (b.cbt_block().replace("\n7 ", "\n8 "), "expected line 7"),
        (b.cbt_block(query="No blank ."), "XXXXX 0 times"),
        (b.cbt_block(candidates="|".join(NINE)), "9 candidates, expected 10"),
        (b.cbt_block(candidates="|".join([*b.WORDS, "more"])), "11 candidates"),
        (b.cbt_block(answer="duck"), "'duck' is not among"),
        (b.cbt_block().replace("\t", " "), "0 tabs"),
        (b.cbt_block()[:200], "expected 21 lines|expected line"),
    ],
)
def test_bad_questions_name_the_line(tmp_path, block, message):
    content = "\n".join([b.cbt_block(), block if block.endswith("\n") else block + "\n", b.cbt_block()])
    raised = refused(read, tmp_path, content)
    assert 23 <= raised.line <= 23 + 21
    assert message != "expected line 7" or raised.line == 22 + 7
    assert str(raised.file).endswith(NAME)
    items = read(tmp_path, content, on_error="skip")
    assert [item.item_id[-1] for item in items] == ["0", "2"]
    assert len(items.problems) == 1


def test_an_unknown_name_needs_the_class(tmp_path):
    path = b.write(tmp_path, {"mine.txt": b.cbt()}) / "mine.txt"
    refused(read, path)
    assert set(read(path, variant="CN").frame["word_class"]) == {"CN"}


@pytest.mark.usefixtures("no_data")
def test_the_archive_has_all_classes(tmp_path):
    files = {f"CBTest/data/cbtest_{c}_valid_2000ex.txt": b.cbt(1) for c in ("NE", "CN", "V", "P")}
    folder = b.write(tmp_path, {"CBTest.tgz": b.tar({"CBTest/data/cbt_valid.txt": "x", **files})})
    items = read(folder)
    assert items.frame["word_class"].tolist() == ["NE", "CN", "V", "P"]
    assert "cbtest_NE_valid_2000ex.txt" in items.attrs["source"]


@pytest.mark.data
@pytest.mark.usefixtures("real_data")
def test_real_questions():
    items = load("cbt", "dev", variant="NE")
    assert len(items) == 2000
    assert items.attrs["sha256"] == "6ac395170a959ceb50cc3b37d57fc985164ba233054327e475533b61237ef9c1"
    assert all(len(item.sentences) == 21 and len(item.candidates) == 10 for item in items)


@pytest.mark.parametrize("form", ["parquet", "jsonl", "json", "csv"])
def test_the_hubs_library_writes_the_same_questions(tmp_path, form):
    hub = pytest.importorskip("datasets")
    block = b.cbt_block(candidates="|".join(b.WORDS[:9]) + "||").replace("Sentence 3 ", "Sentence | ")
    release = f"{b.cbt()}\n{block}"
    expected = read(tmp_path / "release", release)
    assert expected[3].candidates[-1] == "|"
    rows = b.hub_rows(release)
    path = tmp_path / f"cbt_ne_valid.{form}"
    if form == "csv":
        pd.DataFrame([{k: json.dumps(v) if k == "sentences" else "|".join(v) if k == "options" else v
                       for k, v in row.items()} for row in rows]).to_csv(path, index=False)  # fmt: skip
    else:
        table = hub.Dataset.from_list(rows)
        table.to_parquet(path) if form == "parquet" else table.to_json(path)
    same = load("cbt", "dev", path=path)
    columns = [name for name in expected.frame if name != "meta"]
    assert same.frame[columns].equals(expected.frame[columns])
    assert load("cbt", "dev", variant="NE", path=tmp_path / path.name).frame.equals(same.frame)
    own = load(path)
    for name in ("text", "answer", "answer_span", "sentences", "candidates", "word_class", "tokenised"):
        assert own.frame[name].tolist() == expected.frame[name].tolist(), name
    assert len(own[0].sentences) == 21
    if form in {"parquet", "jsonl"}:
        (tmp_path / "hub" / "NE").mkdir(parents=True)
        path.rename(tmp_path / "hub" / "NE" / f"validation-00000-of-00001.{form}")
        assert load("cbt", "dev", path=tmp_path / "hub").frame[columns].equals(same.frame[columns])


WRITTEN = {
    "json": json.dumps,
    "python": repr,
    "separated": lambda words: ("|" if len(words) == 10 else "\n").join(words),
}


@pytest.mark.parametrize(
    ("form", "column"), [("json", "options"), ("python", "choices"), ("separated", "Candidates")]
)
def test_lists_in_cells_of_text_and_other_names_of_the_options(tmp_path, column, form):
    words = [*b.WORDS[:8], "it's", '"']
    expected = read(tmp_path / "release", b.cbt(candidates="|".join(words), answer="it's"))
    rows = [row | {name: WRITTEN[form](row[name]) for name in ("sentences", "options")}
            for row in b.hub_rows(b.cbt(candidates="|".join(words), answer="it's"))]  # fmt: skip
    path = tmp_path / "cbt_ne_valid.csv"
    pd.DataFrame(rows).rename(columns={"options": column}).to_csv(path, index=False)
    names = ["text", "answer", "answer_span", "sentences", "candidates", "word_class", "tokenised"]
    for items in (load("cbt", "dev", path=path), load(path)):
        assert items.frame[names].equals(expected.frame[names])
        assert items.extra.empty
