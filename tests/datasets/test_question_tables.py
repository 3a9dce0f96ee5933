"""Tables of data sets, as the hub has them: all parts are read, a row that is none stands alone."""

import csv
import io
import json
from functools import partial

import builders as b
import pandas as pd
import pytest
from refused import refused

from workbench.datasets import books, load

ROWS = {
    "cbt": b.hub_rows(b.cbt()),
    "cnnqa": [b.hub_row(b.cnn())] * 2,
    "msrcc": [row | {"answer": "a"} for row in csv.DictReader(io.StringIO(b.CSV[b.TABLE]))],
}
BAD = {
    "cbt": [
        {"options": b.WORDS[:9]},
        {"options": [*b.WORDS[:9], ""]},
        {"options": [*b.WORDS[:8], "", "", "x"]},
        {"options": None},
        {"answer": "elsewhere"},
        {"answer": None},
        {"question": "No blank ."},
        {"question": "XXXXX and XXXXX ."},
        {"sentences": ["One ."] * 19},
        {"sentences": "One ."},
    ],
    "cnnqa": [
        {"answer": "@entity99"},
        {"question": "@placeholder and @placeholder"},
        {"article": None},
    ],
    "msrcc": [
        {"answer": "f"},
        {"question": "No blank."},
        {"c)": ""},
    ],
}


@pytest.mark.parametrize(
    ("dataset", "change"), [(name, change) for name, changes in BAD.items() for change in changes]
)
def test_a_row_that_is_no_question_is_left_out_alone(tmp_path, dataset, change):
    first, second, *others = ROWS[dataset]
    rows = [first, second | change, *others]
    path = b.write(tmp_path, {"x_ne.jsonl": b.text(map(json.dumps, rows))}) / "x_ne.jsonl"
    for read in (partial(load, dataset, path=path), partial(load, path)):
        refused(read)
        items = read(on_error="skip")
        assert (len(items), len(items.problems)) == (len(rows) - 1, 1)


@pytest.mark.parametrize("dataset", ["cbt", "cnnqa"])
def test_another_table_is_named_by_its_columns(tmp_path, dataset):
    path = b.write(tmp_path, {"a_ne.jsonl": '{"text": "The ___ ran .", "answer": "dog"}\n'}) / "a_ne.jsonl"
    refused(load, dataset, path=path)
    assert load(path)[0].answer == "dog"


@pytest.mark.parametrize("dataset", ["cbt", "cnnqa"])
def test_a_mark_outside_the_place_of_the_blank_is_text(tmp_path, dataset):
    row = json.loads(json.dumps(ROWS[dataset][0]))
    column = "sentences" if dataset == "cbt" else "article"
    marked = "He saw ___ , XXXXX and @placeholder ."
    row[column] = [marked, *row[column][1:]] if dataset == "cbt" else f"{marked} {row[column]}"
    path = b.write(tmp_path, {"x_ne.jsonl": json.dumps(row) + "\n"}) / "x_ne.jsonl"
    for items in (load(dataset, path=path), load(path)):
        assert items[0].text.startswith(marked)
        assert (len(items), items[0].answer, items.problems) == (1, row["answer"], ())


QUESTIONS = [b.hub_row(b.cnn()) | {"id": name} for name in "abc"]
PASSAGES = [{"text": text, "domain": None} for text in b.PLAIN]
PARTS = {
    "cbt": ("train", {"variant": "P"}, "data/P", ROWS["cbt"]),
    "cnnqa": ("validation", {}, "cnn", QUESTIONS),
    "dailymail": ("test", {"variant": "dailymail"}, "dailymail", QUESTIONS),
    "lambada": ("test", {}, "lambada/plain_text", PASSAGES),
    "lambada dev": ("validation", {}, "3.0.0", PASSAGES),
    "msrcc": ("test", {}, "data", ROWS["msrcc"]),
}
NAMES = (
    "{split}-{n:05d}-of-00003", "{split}-{n:05d}-of-00003-6f3344faa23e9b{n}a", "{split}-{m:05d}-of-00003",
    "{split}/{n:04d}",
)  # fmt: skip


@pytest.mark.parametrize(
    ("part", "name"),
    [*((part, f"{NAMES[0]}.parquet") for part in PARTS), ("cbt", f"{NAMES[0]}.jsonl"),
     *(("cnnqa", f"{name}.parquet") for name in NAMES[1:])],
)  # fmt: skip
def test_all_parts_of_a_set_are_read(tmp_path, part, name):
    split, options, folder, rows = PARTS[part]
    assert len(rows) == 3
    dataset = {"dailymail": "cnnqa"}.get(part, part.partition(" ")[0])
    frame = pd.DataFrame(rows)
    whole = b.write_table(tmp_path / f"whole/{folder}/{split}-00000-of-00001.parquet", frame)
    expected = load(dataset, path=whole, **options)
    paths = [tmp_path / "hub" / folder / name.format(split=split, n=n, m=n + 1) for n in range(3)]
    for number, path in enumerate(paths):
        b.write_table(path, frame.iloc[[number]].reset_index(drop=True))
    places = [tmp_path / "hub", tmp_path / "hub" / folder, *paths]
    for place in places:
        items = load(dataset, expected[0].split, path=place, **options)
        assert items.frame.equals(expected.frame), place
        assert items.attrs["source"].split(", ") == [path.name for path in paths]
        assert "note" not in items.attrs
    if part != "lambada":  # running text would need the option tokenised
        assert load(paths[1])[2].answer == expected[2].answer
    if dataset != "lambada":  # the folder tells the variant
        assert load(dataset, expected[0].split, path=paths[0]).frame.equals(expected.frame)
    paths[1].unlink()
    for place in (*places[:3], paths[2]):
        refused(load, dataset, expected[0].split,
                path=place, **options)  # fmt: skip


def test_parts_of_novels_and_of_own_tables(tmp_path):
    paths = [tmp_path / f"books-{n}-of-2.jsonl" for n in (1, 2)]
    for number, path in enumerate(paths):
        b.write_table(path, pd.DataFrame({"text": [f"novel {number}"], "title": [str(number)]}))
    for place in (tmp_path, *paths):
        assert [book.title for book in books(place)] == ["0", "1"]
    b.write_table(paths[0], pd.DataFrame({"text": ["The ___ ran ."], "answer": ["dog"]}))
    refused(load, paths[1])
    paths[0].unlink()
    for read, place in ((books, tmp_path), (books, paths[1]), (load, paths[1])):
        refused(read, place)
    packed = b.zipped({"lambada/test-00000-of-00002.jsonl": b.OPENAI})
    b.write(tmp_path, {"lambada.zip": packed})
    refused(load, "lambada", "test", path=tmp_path / "lambada.zip")
    b.write(tmp_path / "years", {"2019.csv": "text,answer\nThe ___ ran .,dog\n", "2020.csv": ""})
    assert len(load(tmp_path / "years" / "2019.csv")) == 1
