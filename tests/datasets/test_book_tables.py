"""Tables of whole books: every form gives the same books, and every advice to read them is right."""

import json

import builders as b
import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench import construction

CHAPTER = 'CHAPTER I\n\n"Caf\xe9," said the goat; it slept, and no one came.\n'
BOOKS = pd.DataFrame(
    {
        "id": ["0012", "a//b"],
        "text": [CHAPTER, CHAPTER.replace("goat", "boat")],
        "Title": ["The Goat", "The Boat"],
        "author": ["Jane Inchcape", None],
        "lang": ["en", "en"],
        "year": [1907, None],
    }
)
EXPECTED = [("0012", "The Goat", "Jane Inchcape", 1907, CHAPTER)]
EXPECTED += [("a//b", "The Boat", None, None, CHAPTER.replace("goat", "boat"))]


ENDINGS = ("jsonl", "json", "csv", "tsv", "parquet", "arrow", "feather")
FORMS = {  # names of files, and options
    **{f"books.{ending}": {} for ending in ENDINGS},
    "marked.jsonl": {},
    "books.ndjson": {"force_ascii": False},
    "utf16.csv": {"sep": ";", "encoding": "utf-16"},
}


def summary(reader):
    return [(book.book_id, book.title, book.author, book.year, book.text) for book in reader]


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same_books(tmp_path, name):
    b.write_table(tmp_path / name, BOOKS, **FORMS[name])
    if name == "marked.jsonl":
        (tmp_path / name).write_bytes(b"\xef\xbb\xbf" + (tmp_path / name).read_bytes())
    assert summary(wb.books(tmp_path / name)) == EXPECTED
    saved = {"state.json": "{}", "dataset_info.json": "{}", "README.md": "# Goats", "LICENSE.txt": "CC0"}
    assert summary(wb.books(b.write(tmp_path, saved))) == EXPECTED  # as a hub's folder
    b.write(tmp_path, {"novel.txt": "It rained."})  # beside which a table is a catalogue
    assert [book.book_id for book in wb.books(tmp_path)] == ["novel"]


def test_what_the_library_saves(tmp_path):
    datasets = pytest.importorskip("datasets")
    table = datasets.Dataset.from_pandas(BOOKS)
    table.save_to_disk(tmp_path / "one")
    assert summary(wb.books(tmp_path / "one")) == EXPECTED
    other = table.remove_columns("id")
    datasets.DatasetDict({"train": table, "test": other}).save_to_disk(tmp_path / "two")
    ids = [book.book_id for book in wb.books(tmp_path / "two")]
    assert ids == ["test/data-00000-of-00001-0000", "test/data-00000-of-00001-0001", "0012", "a//b"]


def test_a_table_is_a_shelf(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path / "home"))
    stories = list(wb.books("sample"))[:4]
    rows = [{"id": f"s{n}", "text": story.text, "title": story.title} for n, story in enumerate(stories)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    b.write(tmp_path, {"shelf/train.jsonl": lines + '{"id": "s0", "text": "x"}\n{"text": null}\n{"text"\n'})
    problem = "row 5 has the id 's0' of another row"
    refused(construction.read_shelf, tmp_path / "shelf")
    made = construction.read_shelf(tmp_path / "shelf", on_error="skip")
    reasons = made.frame.set_index("book_id")["reason"]
    assert reasons.index[reasons.isna()].tolist() == ["s0", "s1", "s2", "s3"]
    problems = ["row 5 has the id 's0'", "row 6 has no text", "this record cannot be read"]
    for number, problem in enumerate(problems, 4):
        assert reasons[f"train-{number:04d}"].startswith(f"cannot be read: {problem}")
    assert [file.name for file in made.manifest.inputs] == ["train.jsonl"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"TEXT": "x", "METADATA": '{"title": "T", "authors": ["A", "B"], "issued": "1907-01-02"}'},
         ("t-0000", "T", "A and B", 1907)),
        ({"text": "x", "metadata": {"title": "T", "text": "y"}, "title": None}, ("t-0000", "T", None, None)),
        ({"text": "x", "short_book_title": "T", "publication_date": 1907}, ("t-0000", "T", None, 1907)),
        ({"book": "x", "id": 12, "author": "", "year": 0}, ("12", "12", None, None)),
        ({"text": "x", "domain": "Horror"}, ("Horror/t-0000", "t-0000", None, None)),
        ({"text": "<html><title>U</title><p>x</html>", "title": "T"}, ("t-0000", "T", None, None)),
        ({"text": "# Title: U\n\n## Author: A\n\n-----\n\nx", "title": "T"}, ("t-0000", "T", "A", None)),
    ],
)  # fmt: skip
def test_columns_by_their_names(tmp_path, row, expected):
    (book,) = wb.books(b.write(tmp_path, {"t.jsonl": json.dumps(row)}) / "t.jsonl")
    assert ((book.book_id, book.title, book.author, book.year), book.text.strip()) == (expected, "x")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "name,page\nx,y\n"),
        ("a.jsonl", '{"name": "x"}'),
        ("a.jsonl", "[1]\n[2]"),
        ("a.jsonl", "7\n"),
        ("a.jsonl", '{"a":' * 9999),
        ("a.parquet", b"PAR1PAR1"),
        ("a.arrow", b"\xff\xff\xff\xff\0\1\0\0x"),
        ("a.xls", b"\xd0\xcf\x11\xe0\0"),
    ],
)
def test_what_is_no_table_of_books_is_one_error(tmp_path, name, content):
    folder = b.write(tmp_path, {name: content})
    refused(list, wb.books(folder / name))
    assert list(reader := wb.books(folder, on_error="skip")) == []
    assert reader.problems


@pytest.mark.parametrize("name", ["a.arrow", "a.feather"])
@pytest.mark.parametrize(("changes", "options"), [({"id": "category"}, {}), ({}, {"compression": "zstd"})])
def test_compressed_arrow_is_read(tmp_path, name, changes, options):
    path = b.write_table(tmp_path / name, BOOKS.astype(changes), **options)
    assert summary(wb.books(path)) == EXPECTED
