import csv
import io

import builders as b
import pandas as pd
import pytest
from refused import refused

from workbench.datasets import load
from workbench.storage.errors import DataError


def read(folder, files, **options):
    return load("msrcc", path=b.write(folder, files), **options)


def test_an_item(tmp_path):
    items = read(tmp_path, b.OFFICIAL)
    assert [item.item_id for item in items] == ["msrcc/test/0001", "msrcc/test/0002", "msrcc/test/0003"]
    assert items[1].text == "He looked at me and said nothing."
    assert items[1].query == "He _____ at me and said nothing."
    assert items[1].candidates == ("boiled", "looked", "grew", "rang", "froze")
    assert items[2].tokens[:4] == ["The", "hound", "'s", "howl"]
    assert items[0].sentences == ((0, len(items[0].text)),)
    assert items.frame.equals(read(tmp_path / "table", b.CSV).frame)
    assert read(tmp_path / "both", b.OFFICIAL | b.CSV).attrs["source"] == f"{b.QUESTIONS}, {b.ANSWERS}"
    suffixed = {name.replace(".txt", ".half.txt"): content for name, content in b.OFFICIAL.items()}
    assert len(read(tmp_path / "suffix", suffixed)) == 3


@pytest.mark.parametrize(
    ("files", "folder", "pack", "archive"),
    [(b.OFFICIAL, "x/Data/", b.tar, "any.tar.gz"), (b.CSV, "", b.zipped, "any.zip")],
)
@pytest.mark.usefixtures("no_data")
def test_archives(tmp_path, files, folder, pack, archive):
    packed = pack({"README": "x"} | {folder + name: content for name, content in files.items()})
    items = load("msrcc", path=b.write(tmp_path, {archive: packed}) / archive)
    assert len(items) == 3
    assert items.attrs["source"] == ", ".join(files)


def test_there_is_only_a_test_set(tmp_path):
    for split in ("train", "tset"):
        refused(load, "msrcc", split, path=tmp_path)


def test_questions_are_checked_before_answers_are_missed(tmp_path):
    with pytest.raises(DataError):
        read(tmp_path, {b.QUESTIONS: b.OFFICIAL[b.QUESTIONS]})
    refused(read, tmp_path, {b.QUESTIONS: "1a) A [b] c.\noops\n"})
    refused(read, tmp_path / "b", {b.TABLE: b.CSV[b.TABLE]})


def test_without_answers_the_blank_stays_empty(tmp_path):
    items = read(tmp_path, {b.QUESTIONS: b.OFFICIAL[b.QUESTIONS]}, on_error="skip")
    assert items[1].answer is None
    assert items[1].text == "He  at me and said nothing."
    assert items[1].passage == "He _____ at me and said nothing."
    assert len(items.problems) == 1


@pytest.mark.parametrize(
    ("form", "name", "change"),
    [
        (b.OFFICIAL, b.QUESTIONS, ("2c)", "2d)")),
        (b.OFFICIAL, b.QUESTIONS, ("[grew] at me", "[grew] at us")),
        (b.OFFICIAL, b.QUESTIONS, ("[grew]", "grew")),
        (b.OFFICIAL, b.ANSWERS, ("[looked]", "[stared]")),
        (b.OFFICIAL, b.ANSWERS, ("2b)", None)),
        (b.OFFICIAL, b.ANSWERS, ("1a)", b.OFFICIAL[b.ANSWERS] + "1a)")),
        (b.CSV, b.TABLE, ("He _____", "He ___ and ____")),
        (b.CSV, b.TABLE, ("\n2,", "\ntwo,")),
        (b.CSV, b.TABLE, ("boiled", "")),
        (b.CSV, b.TABLE, ("id,question", "nr,text")),
        (b.CSV, b.KEY, ("2,b", "2,f")),
        (b.CSV, b.KEY, ("id", "nr")),
    ],
)
def test_bad_files(tmp_path, form, name, change):
    files, (old, new) = dict(form), change
    files[name] = files[name].split(old)[0] if new is None else files[name].replace(old, new)
    raised = refused(read, tmp_path, files)
    assert raised.file
    items = read(tmp_path, files, on_error="skip")
    assert items.problems


def test_tables_that_a_spreadsheet_saved(tmp_path):
    expected = read(tmp_path / "release", b.CSV)
    (folder := tmp_path / "saved").mkdir()
    for name, content in b.CSV.items():
        frame = pd.read_csv(io.StringIO(content), dtype=str, keep_default_na=False)
        frame.to_csv(folder / name, sep=";", encoding="utf-8-sig", index=False, lineterminator="\r\n")
    assert read(folder, {}).frame.equals(expected.frame)


def test_a_quoted_line_end_and_two_blanks(tmp_path):
    files = dict(b.CSV)
    question = next(csv.DictReader(io.StringIO(files[b.TABLE])))["question"]
    header, first, *others = csv.reader(io.StringIO(files[b.TABLE]))
    first[1] = question.replace("_____", "\n_____")
    others[0][1] = "He _____ and _____ ."
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=";").writerows([header, first, *others])
    files[b.TABLE] = buffer.getvalue()
    refused(read, tmp_path, files)
    items = read(tmp_path, files, on_error="skip")
    assert "\n" in items[0].left
    assert len(items) == len(others)


@pytest.mark.parametrize(
    ("ending", "columns", "by"),
    [("csv", "{})", "letter"), ("tsv", "{}", "word"), ("jsonl", "option_{}", "letter"),
     ("parquet", "{})", "letter")],
)  # fmt: skip
def test_a_table_keeps_its_choices(tmp_path, ending, columns, by):
    expected = read(tmp_path / "release", b.CSV)
    frame = pd.read_csv(io.StringIO(b.CSV[b.TABLE])).rename(
        columns={f"{x})": columns.format(x) for x in "abcde"}
    )
    letters = pd.read_csv(io.StringIO(b.CSV[b.KEY]))["answer"].tolist()
    frame["answer"] = letters if by == "letter" else expected.frame["answer"]
    path = b.write_table(tmp_path / f"mine.{ending}", frame)
    if columns == "{})":  # as in the release
        assert load("msrcc", path=path).frame.equals(expected.frame)
    else:
        refused(load, "msrcc", path=path)
    names = ["text", "answer", "answer_span", "sentences", "candidates", "tokenised"]
    assert load(path).frame[names].equals(expected.frame[names])
    frame.drop(columns="answer").to_csv(tmp_path / "mine.csv", index=False)
    items = load(tmp_path / "mine.csv")
    assert items.frame["candidates"].equals(expected.frame["candidates"])
    assert "no answers" in items.attrs["note"]
    refused(load, "msrcc", path=tmp_path / "mine.csv")


@pytest.mark.parametrize("change", [{"a": [1, 2], "b": [3, 4]}, {"a": ["x", "y"], "b": ["u", "v"]}])
def test_other_columns_called_a_and_b_are_no_choices(tmp_path, change):
    frame = pd.DataFrame({"text": ["The ___ ran.", "A ___ sat."], "answer": ["dog", "cat"]} | change)
    frame.to_csv(tmp_path / "mine.csv", index=False)
    items = load(tmp_path / "mine.csv")
    assert items.frame["candidates"].isna().all()
    assert items.extra.to_dict("list") == change


@pytest.mark.data
def test_real_questions(real_data):
    folder = real_data / "msrcc"
    items = load("msrcc")
    assert len(items) == 520
    assert items.frame.equals(load("msrcc", path=folder / "testing_data_first520.csv").frame)
