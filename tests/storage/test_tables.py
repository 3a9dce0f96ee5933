import json
import sys
import zipfile
from pathlib import Path

import hypothesis.strategies as st
import pandas as pd
import pytest
from hypothesis import given
from refused import refused

from workbench.construction.novel_checks import offensive_words
from workbench.datasets import load
from workbench.evaluation.interchange.import_results import import_results
from workbench.items.items import items_from_frame
from workbench.models.pretrained.subwords import read_vocabulary
from workbench.storage.tables import read_separated

CSV = Path("own.csv")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252")


def rows_of(table):
    assert table.problems == []
    return table.frame.fillna("").to_numpy().tolist()


@given(
    st.lists(st.tuples(*[st.text("aéü,;\t|\"'\n x1", max_size=8)] * 2), min_size=1, max_size=5),
    st.sampled_from(",;\t|"),
    st.sampled_from(ENCODINGS),
    st.sampled_from(["\n", "\r\n"]),
)
def test_a_table_is_the_same_in_every_form(rows, separator, encoding, end):
    rows = [(f"z{a}é", f"w{b}") for a, b in rows]
    text = pd.DataFrame(rows, columns=["text", "answer"]).to_csv(
        index=False, sep=separator, lineterminator=end
    )
    table = read_separated(text.encode(encoding), CSV)
    assert list(table.frame) == ["text", "answer"]
    assert rows_of(table) == [list(row) for row in rows]
    assert table.note == ("read as Windows-1252" if encoding == "cp1252" else "")


@pytest.mark.parametrize(
    ("lines", "header", "row"),
    [
        ("sep=;|a;b|1,5;2", ["a", "b"], ["1,5", "2"]),
        ("a;b|x, y, z;2", ["a", "b"], ["x, y, z", "2"]),
        ("a,b|x; y; z,2", ["a", "b"], ["x; y; z", "2"]),
        ("a|x y", ["a"], ["x y"]),
        ("a;b;;|1;2;;", ["a", "b"], ["1", "2"]),
        (" a ; b |1;2", ["a", "b"], ["1", "2"]),
        ("a,,b|1,2,3", ["a", "column 2", "b"], ["1", "2", "3"]),
        (",a|0,x|1,y", ["a"], ["x"]),
        (",a|1,x|2,y", ["a"], ["x"]),
        ("Unnamed: 0,a|0,x", ["a"], ["x"]),
        (",a|p7,x|p9,y", ["index", "a"], ["p7", "x"]),
        ("||a,b||1,2|||", ["a", "b"], ["1", "2"]),
        ("a,b|007,NA", ["a", "b"], ["007", "NA"]),
        ("a,b|None,1984", ["a", "b"], ["None", "1984"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_what_spreadsheets_and_programs_write_around_a_table(lines, header, row, end):
    table = read_separated(lines.replace("|", end).encode(), CSV)
    assert (list(table.frame), rows_of(table)[0]) == (header, row)


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", None),
        (b'""\n', None),
        (b"a,b,a\n1,2,3", 1),
        (b"\n\na;b;a\n1;2;3", 3),
        (b"a,b\n\x9d,2", 2),
        (b"\xff\xfea", 1),
        (b'a,b\n1,2\n3,"4\n', 3),
        (b'a\tb\n"Hello," he said.\tdog\n', 2),
        ("a,b\n1,2\n".encode("utf-16-le"), None),
        (b"PK\x03\x04\x14\0\0\0", None),
        (b"\x80\x04\x95\x12\0\0\0", None),
    ],
)
def test_what_is_no_table_is_one_error(content, line):
    caught = refused(read_separated, content, CSV)
    assert (caught.file, caught.line) == ("own.csv", line)


def test_a_row_that_is_broken_stands_alone():
    table = read_separated(b'sep=;\na;b\n1;2\n3\n"x\ny";5\n6;7;8\n9;10;;\n', CSV)
    assert table.frame.to_numpy().tolist() == [["1", "2"], ["x\ny", "5"]]
    assert (table.lines, [problem.line for problem in table.problems]) == ([3, 5], [4, 7, 8])


ROWS = [
    ["text", "answer", "p", "year"],
    ["The ___ ran, é.", "1984", 0.5, 1851],
    ["A ___ sat.", "NA", 2, 1900],
]


def workbook(folder, *sheets):
    with pd.ExcelWriter(folder / "own.xlsx") as writer:
        for number, rows in enumerate(sheets, 1):
            pd.DataFrame(rows).to_excel(writer, sheet_name=f"S{number}", header=False, index=False)
    return folder / "own.xlsx"


def test_a_workbook_without_the_library_says_how_to_save_it(tmp_path, monkeypatch):
    path = workbook(tmp_path, ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "lambada-workbench[excel]" in str(refused(load, path).hint)
    pd.DataFrame(ROWS[1:], columns=ROWS[0]).to_csv(
        tmp_path / "own.csv", sep=";", encoding="utf-8-sig", index=False
    )
    assert [item.answer for item in load(tmp_path / "own.csv")] == ["1984", "NA"]  # as the advice says


def test_a_workbook(tmp_path):
    items = load(workbook(tmp_path, [[""] * 4, *ROWS, [""] * 4], [["other"]]))
    assert [item.answer for item in items] == ["1984", "NA"]
    assert items.extra["p"].tolist() == [0.5, 2.0]
    assert items.extra["year"].tolist() == [1851, 1900]
    assert items.attrs["note"] == "read from the sheet 'S1', the first of 2"


def test_an_archive_that_is_no_workbook(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        archive.writestr("own.csv", "text\n")
    refused(load, tmp_path / "a.xlsx")


@pytest.mark.parametrize(("encoding", "separator"), [("utf-16", "\t"), ("cp1252", ";"), ("utf-8-sig", ",")])
def test_one_reader_for_items_results_and_lists_of_words(tmp_path, no_data, encoding, separator):
    assert no_data.is_dir()
    frame = pd.DataFrame({"text": ["The ___ ran, é."], "answer": ["chéri"], "ln p": ["-2.5"]})
    path = tmp_path / "own.csv"
    frame.to_csv(path, sep=separator, encoding=encoding, index=False)
    items = load(path)
    assert (items[0].answer, items[0].text) == ("chéri", "The chéri ran, é.")
    results = pd.DataFrame({"item_id": [items[0].item_id], "prediction": ["chéri"], "log_prob": ["-2.5"]})
    results.to_csv(path, sep=separator, encoding=encoding, index=False)
    imported = import_results(path, items, model="m", keep=False)
    assert imported.predictions["correct"].tolist() == [True]
    assert imported.predictions["log_prob"].tolist() == [-2.5]
    (tmp_path / "words.txt").write_bytes("chéri\nname\n".encode(encoding))
    assert offensive_words(tmp_path / "words.txt") == [("cheri",), ("name",)]  # as it compares them
    assert read_vocabulary(tmp_path / "words.txt", stop_words=False) == ("chéri", "name")


PASSAGES = ["The ___ ran.", "A ___ sat.", "One ___ ate."]
EXTRA = {
    "Int64": (["1", None, "3"], [1, None, 3]),
    "boolean": ([True, None, False], [True, None, False]),
    "string": (["x", None, "1984"], ["x", None, "1984"]),
    "string[pyarrow]": (["x", None, "1984"], ["x", None, "1984"]),
    "int64[pyarrow]": ([1, None, 3], [1, None, 3]),
    "double[pyarrow]": ([0.5, None, 3.0], [0.5, None, 3.0]),
    "bool[pyarrow]": ([True, None, False], [True, None, False]),
    "category": (["x", None, "y"], ["x", None, "y"]),
    "Float64": ([0.5, None, 2.0], [0.5, None, 2.0]),
}


@pytest.mark.parametrize("dtype", EXTRA)
@pytest.mark.parametrize("ending", ["", ".parquet"])
def test_nullable_and_arrow_columns(tmp_path, dtype, ending):
    values, expected = EXTRA[dtype]
    series = pd.Series(values, dtype="object" if dtype == "Int64" else dtype)
    series = series.astype("float").astype(dtype) if dtype == "Int64" else series
    words = "string[pyarrow]" if "pyarrow" in dtype else "string"
    frame = pd.DataFrame({"text": pd.Series(PASSAGES, dtype=words), "x": series})
    frame["answer"] = pd.Series(["dog", None, "NA"], dtype=words)
    if ending:
        frame.to_parquet(tmp_path / "own.parquet")
        items = load(tmp_path / "own.parquet")
    else:
        items = items_from_frame(frame)
    assert [item.answer for item in items] == ["dog", None, "NA"]
    assert [item.meta.get("x") for item in items] == expected


@pytest.mark.parametrize("kind", ["frame", ".parquet", ".csv"])
@pytest.mark.parametrize("name", ["item_id", "novel", None])
def test_an_index_that_matters(tmp_path, kind, name):
    frame = pd.DataFrame({"text": PASSAGES, "answer": "dog"}, index=pd.Index(["p7", "p9", "p1"], name=name))
    if kind == ".parquet":
        frame.to_parquet(tmp_path / "own.parquet")
    elif kind == ".csv":
        frame.to_csv(tmp_path / "own.csv")
    items = items_from_frame(frame) if kind == "frame" else load(tmp_path / f"own{kind}")
    if name == "item_id":
        assert [item.item_id for item in items] == ["p7", "p9", "p1"]
    else:
        assert items.extra[name or "index"].tolist() == ["p7", "p9", "p1"]


def test_an_index_of_numbers_is_none(tmp_path):
    frame = pd.DataFrame({"text": PASSAGES, "answer": "dog"})
    assert items_from_frame(frame.iloc[1:]).extra.empty
    frame.to_csv(tmp_path / "own.csv")
    assert load(tmp_path / "own.csv").extra.empty


@pytest.mark.parametrize(
    "content",
    [
        '[{"text": "A ___ sat.", "date": "1851-01-01"}]',
        '{"text": "A ___ sat.", "date": "1851-01-01"}\n',
        '\n{"text": "A ___ sat.", "date": "1851-01-01"}\n\n',
    ],
)
@pytest.mark.parametrize("ending", [".json", ".jsonl", ".ndjson"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_of_every_form(tmp_path, content, ending, encoding):
    (tmp_path / f"own{ending}").write_text(content, encoding=encoding)
    items = load(tmp_path / f"own{ending}")
    assert [(item.left, item.right) for item in items] == [("A ", " sat.")]
    assert items.extra["date"].tolist() == ["1851-01-01"]  # as it was written


def test_numbers_of_json_are_what_was_written(tmp_path):
    values = [-5.917389041257, 1234567890123456789, None]
    (tmp_path / "own.jsonl").write_text(
        "".join(f"{json.dumps({'text': 'A ___ sat.', 'x': value})}\n" for value in values)
    )
    assert [item.meta.get("x") for item in load(tmp_path / "own.jsonl")] == values


def test_bad_rows_of_a_table_are_left_out_where_that_is_asked_for(tmp_path):
    (tmp_path / "own.csv").write_text("text,answer\nA ___ sat.,cat\nA ___ b ___,x\nA ___ ran.,dog,x\n")
    (tmp_path / "own.jsonl").write_text('{"text": "A ___ sat."}\nx\n{"text": ""}\n')
    for name, answers, problems in (
        ("own.csv", ["cat"], ["line 4: this row has 3 cells", "line 3: the text has 2 blanks"]),
        ("own.jsonl", [None], ["line 2: this record cannot be read", "line 3: the text is ''"]),
    ):
        refused(load, tmp_path / name)
        items = load(tmp_path / name, on_error="skip")
        assert [item.answer for item in items] == answers
        assert len(items.problems) == 2
        for error, problem in zip(items.problems, problems, strict=True):
            assert problem in str(error)
            assert error.file == str(tmp_path / name)
