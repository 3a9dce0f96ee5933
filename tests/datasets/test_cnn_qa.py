import json

import builders as b
import pandas as pd
import pytest
from refused import refused

from workbench.datasets import available, load
from workbench.storage.errors import DataError


def read(folder, files, *args, **options):
    return load("cnnqa", *args, path=b.write(folder, files), **options)


@pytest.mark.parametrize("content", [b.cnn(), b.cnn() + "\n", b.cnn().replace("\n", "\r\n") + "\r\n"])
def test_an_item(tmp_path, content):
    item = read(tmp_path, {"one.question": content})[0]
    assert item.item_id == "cnnqa/all/one"
    assert item.answer == "@entity3"
    assert item.query == "_____ sails to @entity1 on friday"
    assert item.text.endswith("\n\n@entity3 sails to @entity1 on friday")
    assert item.candidates == ("@entity1", "@entity3", "@entity20")
    names = ("Port Ellery: East", "Ada Brine", "Thursday")
    assert item.meta["entities"] == dict(zip(item.candidates, names, strict=True))
    assert item.meta["url"] == "http://news.example/ferry"
    assert item.context[0] == "the ferry of @entity1 is back ."
    assert item.tokenised


def tree():
    return {
        f"{variant}/questions/{split}/{variant}{n}.question": b.cnn()
        for variant in ("cnn", "dailymail")
        for split, count in (("training", 3), ("validation", 2), ("test", 1))
        for n in range(count)
    }


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("variant", ["cnn", "dailymail"])
@pytest.mark.parametrize(("split", "n"), [("train", 3), ("dev", 2), ("test", 1), (None, 2)])
def test_the_released_folders(tmp_path, packed, variant, split, n):
    path = b.write(tmp_path, {"all.tgz": b.tar(tree())} if packed else tree())
    items = load("cnnqa", split, variant=variant, path=path / "all.tgz" if packed else path)
    assert len(items) == n
    assert items[0].item_id.endswith(f"{variant}0")
    assert "note" not in items.attrs


@pytest.mark.parametrize("packed", [True, False])
def test_a_folder_without_splits_is_one_set(tmp_path, packed):
    files = {"a.question": b.cnn(), "b.question": b.cnn()}
    path = b.write(tmp_path, {"all.tgz": b.tar(files)} if packed else files) / ("all.tgz" if packed else "")
    for split in (None, "all"):
        assert load("cnnqa", split, path=path).frame["item_id"].tolist() == ["cnnqa/all/a", "cnnqa/all/b"]
    for split in ("train", "dev", "test"):
        with pytest.raises(DataError):
            load("cnnqa", split, path=path)
        refused(load, "cnnqa", split, path=b.write(tmp_path, files) / "a.question")


def test_what_is_listed_as_available_is_there(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_DATA", str(b.write(tmp_path, {"cnn/a.question": b.cnn()})))
    listed = available()[lambda frame: (frame["dataset"] == "cnnqa") & frame["found"]]
    assert listed["split"].tolist() == ["all"]
    assert len(load("cnnqa")) == 1


def test_a_folder_or_file_tells_what_it_is(tmp_path):
    path = b.write(tmp_path, tree())
    items = load("cnnqa", path=path / "dailymail/questions/test")
    assert (items[0].split, items[0].variant) == ("test", "dailymail")
    assert load("cnnqa", path=path / "cnn/questions/test/cnn0.question")[0].split == "test"


def test_nothing_there(tmp_path, no_data):
    refused(load, "cnnqa", path=tmp_path)
    refused(load, "cnnqa")
    with pytest.raises(DataError):
        load("cnnqa", path=b.write(no_data, {"s.tgz": b.tar({"a.story": "x"})}) / "s.tgz")


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b.cnn().replace("\n\n@entity3\n\n", "\n\n"), 7),
        (b.cnn(answer="@entity9"), 7),
        (b.cnn(question="no blank"), 5),
        (b.cnn().replace("@entity20:", "@entity20 "), 9),
        ("", 1),
        (b.cnn()[: b.cnn().index("\n@entity1:")], 9),
    ],
)
def test_bad_files(tmp_path, content, line):
    files = {"b.question": content} | dict.fromkeys(("a.question", "c.question"), b.cnn())
    raised = refused(read, tmp_path, files)
    assert raised.line == line
    items = read(tmp_path, files, on_error="skip")
    assert [item.item_id for item in items] == ["cnnqa/all/a", "cnnqa/all/c"]
    assert len(items.problems) == 1


@pytest.mark.data
@pytest.mark.usefixtures("real_data")
def test_real_questions():
    items = load("cnnqa")
    assert len(items) == 5
    assert all("@placeholder" not in item.text for item in items)
    refused(load, "cnnqa", "train")


@pytest.mark.parametrize("form", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize(("article", "query"), [("article", "question"), ("context", "query")])
def test_a_table_holds_the_same_questions(tmp_path, form, article, query):
    hub = pytest.importorskip("datasets")
    expected = read(tmp_path / "release", {"one.question": b.cnn()})
    row = b.hub_row(b.cnn())
    row[article], row[query] = row.pop("article"), row.pop("question")
    path = tmp_path / f"cnn_test.{form}"
    if form == "csv":
        pd.DataFrame([row | {"entities": "\n".join(row["entities"])}]).to_csv(path, index=False)
    else:
        table = hub.Dataset.from_list([row])
        table.to_parquet(path) if form == "parquet" else table.to_json(path)
    same = load("cnnqa", "test", path=path)
    assert same[0].item_id == "cnnqa/test/one"
    own = load(path)
    for name in ("text", "answer", "answer_span", "sentences", "candidates", "tokenised"):
        assert same.frame[name].tolist() == expected.frame[name].tolist(), name
        assert own.frame[name].tolist() == expected.frame[name].tolist(), name
    assert same[0].meta == expected[0].meta


@pytest.mark.parametrize(
    ("column", "form"), [("entities", json.dumps), ("candidates", repr), ("options", list)]
)
def test_the_entities_of_a_table_may_be_text_or_candidates(tmp_path, column, form):
    row = b.hub_row(b.cnn())
    expected = read(tmp_path / "release", {"one.question": b.cnn()})
    names = row.pop("entities") if column == "entities" else [*expected[0].candidates]
    del row["entities" if "entities" in row else "url"]
    path = tmp_path / ("cnn_test.jsonl" if form is list else "cnn_test.csv")
    frame = pd.DataFrame([row | {column: form(names)}])
    frame.to_json(path, orient="records", lines=True) if form is list else frame.to_csv(path, index=False)
    for items in (load("cnnqa", "test", path=path), load(path)):
        assert items[0].candidates == expected[0].candidates


def test_articles_with_highlights_are_no_questions(tmp_path):
    story = "The ferry is back .\n\nIt sails on Friday .\n\n@highlight\n\nFerry sails\n"
    folder = b.write(tmp_path / "stories", {"a.story": story})
    table = pytest.importorskip("datasets").Dataset.from_dict(
        {"article": [story], "highlights": ["Ferry sails"], "id": ["a"]}
    )
    table.to_parquet(tmp_path / "a.parquet")
    for call in (
        lambda: load("cnnqa", path=folder),
        lambda: load("cnnqa", path=folder / "a.story"),
        lambda: load("cnnqa", path=tmp_path / "a.parquet"),
        lambda: load(tmp_path / "a.parquet"),
    ):
        refused(call)
