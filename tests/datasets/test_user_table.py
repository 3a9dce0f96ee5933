import json
from functools import partial

import builders as b
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refused import refused

from workbench.datasets import load
from workbench.evaluation.leaderboard import leaderboard
from workbench.items.cells import listed_cell
from workbench.items.items import items_from_frame, items_from_text
from workbench.models import MaximumFrequency
from workbench.predictions.store import predict
from workbench.storage.errors import DataError

ROWS = [
    {"Passage": "The ___ ran.", "Target": "None", "choices": "None|NA", "year": 1851, "split": "test"},
    {"Passage": 'He said: "NA', "Target": "NA", "choices": None, "year": None, "split": None},
]


@pytest.mark.parametrize("suffix", [".csv", ".TSV", ".json", ".jsonl", ".parquet"])
def test_a_table_of_each_kind(tmp_path, suffix):
    items = load(str(b.write_table(tmp_path / f"own{suffix}", pd.DataFrame(ROWS))))
    assert [item.answer for item in items] == ["None", "NA"]
    assert [item.candidates for item in items] == [("None", "NA"), None]
    assert items.frame["split"].tolist() == ["test", "dev"]
    assert items[0].item_id.startswith("own/test/")
    assert items.extra["year"].dropna().tolist() == [1851]
    assert items.attrs == {"source": f"own{suffix}"}
    assert len(items.query("year > 1800")) == 1


def test_options_come_first(tmp_path):
    path = b.write_table(tmp_path / "own.csv", pd.DataFrame(ROWS))
    refused(load, path, text="text")
    items = load(path, "train", answer=None, candidates=None, dataset="mine")
    assert (items[0].answer, items[0].candidates) == (None, None)
    assert (items[0].dataset, items[0].split) == ("mine", "train")
    assert items[0].meta["choices"] == "None|NA"
    refused(load, path, path=tmp_path)
    with pytest.raises(TypeError, match="only a table of your own"):
        load("sample", text="passage")


def test_what_cannot_be_read_is_named(tmp_path):
    for name, content in {"a.csv": b"\x81,b\n", "b.jsonl": b"{", "c.parquet": b"PAR1", "d.csv": b""}.items():
        refused(load, b.write(tmp_path, {name: content}) / name)
    with pytest.raises(DataError):
        load(tmp_path / "\ud800.csv")
    refused(load, "nowhere.csv")


def test_items_that_were_kept_are_read_as_they_are(tmp_path):
    items = items_from_text("It rained . The ___ ran .", answers=["dog"], tokenised=False)
    items.to_parquet(tmp_path / "kept.parquet")
    assert load(tmp_path / "kept.parquet").frame.equals(items.frame)


def test_a_column_that_occurs_twice_is_named(tmp_path):
    table = pa.table([["The ___ ran."], ["dog"], ["cat"]], names=["text", "answer", "answer"])
    pq.write_table(table, tmp_path / "a.parquet")
    refused(load, tmp_path / "a.parquet")


def separated(folder, *lines):
    path = folder / "own.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "lines",
    [
        ["text,answer,genre", "The ___ ran.,dog"],
        ["text,answer", "The ___ ran.,dog,x"],
        ["text,answer", '"The', '___ ran.",dog', "", "A ___.,b,c"],
        ["text,answer", "The ___ ran.,dog", "A ___ b ___,x"],
        ["text,answer,text", "The ___ ran.,dog,The cat."],
        ["text,answer,Text", "The ___ ran.,dog,The cat."],
    ],
)  # fmt: skip
def test_rows_of_other_lengths_and_names_that_occur_twice_are_refused(tmp_path, lines):
    refused(load, separated(tmp_path, *lines))


CHOICES = [["dog", "cat", "cow", "ant", "bee"], ["an", "I", "he", "it", "we"], ["b", "c", "d", "e", "f"]]
QUESTIONS = ["The ___ ran.", "Then ___ sat.", "It is ___ here."]
ANSWERS = ["cat", "we", "b"]
LABELS = {
    "letters": ["b", "e", "a"], "capitals": ["B)", "(E)", "A."], "from 0": [1, 4, 0], "from 1": [2, 5, 1],
    "as text": ["2", "5", "1"], "words": ANSWERS,
}  # fmt: skip


@pytest.mark.parametrize(
    ("labels", "column"),
    [*((labels, "answer") for labels in LABELS),
     *(("letters", column) for column in ("ans", "label", "gold", "solution"))],
)  # fmt: skip
@pytest.mark.parametrize("form", ["columns", "list"])
def test_letters_numbers_and_words_name_the_choice(tmp_path, labels, column, form):
    frame = pd.DataFrame({"question": QUESTIONS, column: LABELS[labels], "year": [1851, 1900, 1920]})
    if form == "columns":
        frame[[f"{letter})" for letter in "abcde"]] = CHOICES
    else:
        frame["options"] = CHOICES
    for suffix in (".csv", ".jsonl"):
        path = b.write_table(tmp_path / f"own{suffix}", frame)
        ways = [load(path, answer=column), load(path, text="question", answer=column)]
        ways += [load(path)] if column != "solution" else []
        lists = {"candidates": "options"} if form == "list" else {}
        ways.append(items_from_frame(frame, text="question", answer=column, **lists))
        for items in ways:
            assert [item.answer for item in items] == ANSWERS
            assert [list(item.candidates) for item in items] == CHOICES
            assert items.extra.columns.tolist() == ["year"]


@pytest.mark.parametrize(
    "answers",
    [
        [1, 2, 3],
        [0, 4, 5],
        ["cat", "we", "a"],  # the others are words
        ["b", "e", "c"],
    ],
)
def test_a_label_that_may_name_two_choices_is_refused(answers):
    frame = pd.DataFrame({"text": QUESTIONS, "answer": answers, "candidates": CHOICES})
    refused(items_from_frame, frame, candidates="candidates")


WHOLE = [["A dog ran.", "A cat ran.", "A cow ran."], ["one dog saw it", "one cat saw it", "one ant saw it"]]


@pytest.mark.parametrize("choices", WHOLE)
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_choices_that_are_whole_sentences_are_refused(tmp_path, choices, on_error):
    row = {"question": "A ___ ran." if choices is WHOLE[0] else "one ___ saw it", "ans": "a"}
    row |= dict(zip(("a)", "b)", "c)"), choices, strict=True))
    path = b.write_table(tmp_path / "sat.csv", pd.DataFrame([row, row | {"question": "A ___ man is ___."}]))
    refused(load, path, on_error=on_error)


@pytest.mark.parametrize(
    ("suffix", "line", "start"),
    [(".csv", 4, "the text"), (".jsonl", 3, "the text"), (".json", None, "row 3, counted from 1: the text"),
     (".parquet", None, "row 3, counted from 1: the text")],
)  # fmt: skip
def test_a_bad_row_is_named_by_its_line(tmp_path, suffix, line, start):
    frame = pd.DataFrame(
        {"id": ["p1", "p2", "p3"], "text": ["The ___ ran.", "A ___ sat.", " "], "answer": "dog"}
    )
    path = b.write_table(tmp_path / f"own{suffix}", frame)
    raised = refused(load, path)
    assert (raised.line, raised.problem[: len(start)]) == (line, start)
    if suffix == ".parquet":
        frame.set_index(pd.Index([7, 8, 9])).to_parquet(path)
        assert refused(load, path).problem == raised.problem


def test_a_text_file_is_read_as_passages_or_books(tmp_path):
    path = b.write(tmp_path, {"own.txt": b.text(b.PLAIN)}) / "own.txt"
    assert f'wb.load("lambada", path="{path}")' in refused(load, path).hint
    assert len(load("lambada", path=path)) == 3


def test_a_row_whose_answer_is_no_candidate_is_left_out_alone(tmp_path):
    frame = pd.DataFrame({
        "text": ["The ___ barked.", "The ___ purred.", "And so came the cow"],
        "answer": ["dog", "cat", None], "candidates": ["dog|cat", "dog|cow", "dog|cat"],
    })  # fmt: skip
    path = b.write_table(tmp_path / "own.csv", frame)
    for read in (partial(load, path), partial(items_from_frame, frame, candidates="candidates")):
        items = read(on_error="skip")
        assert ([item.answer for item in items], len(items.problems)) == (["dog"], 2)
        refused(read)


CONTINUED = [
    ("They came in for the", "pie", "They came in for the pie", "pie"),
    ("They came in for the", " pie\n", "They came in for the pie", "pie"),
    ("They came in for the ", "Pie", "They came in for the Pie", "Pie"),
    ("One ___ ran.\n\n_____\n\nShe said,", '"Nadia', 'One ___ ran.\n\n_____\n\nShe said, "Nadia', "Nadia"),
    ("They came in for the", "pie.", "They came in for the pie.", "pie"),
]


@pytest.mark.parametrize(("context", "continuation", "text", "answer"), CONTINUED)
def test_a_context_and_its_continuation_are_one_passage(tmp_path, context, continuation, text, answer):
    for names in (["context", "continuation"], ["Prompt", "completion"]):
        frame = pd.DataFrame([[context, continuation], ["He flew his", "kite"]], columns=names)
        path = b.write_table(tmp_path / "own.jsonl", frame)
        for items in (
            load(path),
            load(path, text=names[0]),
            load(path, text=names[0], answer=names[1]),
            items_from_frame(frame),
            items_from_frame(frame, text=names[0]),
        ):
            assert (items[0].text, items[0].answer, items[0].right.strip(".")) == (text, answer, "")
            assert (items[1].text, items.extra.empty) == ("He flew his kite", True)
        asked = load(path, text=names[0], answer=None)
        assert (asked[1].answer, asked[1].passage) == (None, "He flew his _____")


def test_an_answer_that_is_not_at_the_end_of_its_text_is_an_error(tmp_path):
    frame = pd.DataFrame({"context": ["He flew his"], "answer": ["kite"]})
    path = b.write_table(tmp_path / "own.csv", frame)
    for read in (partial(load, path), partial(items_from_frame, frame)):
        refused(read, text="context")


def test_a_file_is_a_data_set_of_its_name(tmp_path):
    frame = pd.DataFrame({"text": ["The ___ ran."], "answer": ["dog"]})
    names = {"mine.csv": "mine", "my set (2).v1.jsonl": "my-set-2-.v1", "LAMBADA.csv": "own-LAMBADA",
             "...csv": "own", "\u5c0f" * 80 + ".csv": "\u5c0f" * 50}  # fmt: skip
    for file, name in names.items():
        path = b.write_table(tmp_path / file, frame)
        items = load(path)
        assert (items[0].dataset, items.frame["item_id"].tolist()) == (name, ids_of(frame))
        assert load(path, dataset="x")[0].dataset == "x"
    assert load(b.write_table(tmp_path / "a.csv", frame.assign(dataset="told")))[0].dataset == "told"


def test_a_leaderboard_keeps_files_apart(tmp_path):
    frame = pd.DataFrame(
        {"text": ["A dog ran. The ___ sat.", "A cat ran. The ___ sat."], "answer": ["dog", "dog"]}
    )
    paths = [b.write_table(tmp_path / name, frame) for name in ("one.csv", "two.csv")]
    runs = [predict(load(path), MaximumFrequency("context")) for path in paths]
    table = leaderboard(runs, published=False)
    assert table["dataset"].tolist() == ["one", "two"]
    assert [run.run.split("-")[:2] for run in runs] == [["one", "dev"], ["two", "dev"]]


def ids_of(frame):
    return items_from_frame(frame).frame["item_id"].tolist()


@pytest.mark.parametrize("ids", [{}, {"id": ["x", "y", "z"]}, {"ID": [3, 1, 2]}, {"id": [1, 1, 2]},
    {"id": [1, None, 2]}, {"item_id": ["p", "q", "r"], "id": [3, 1, 2]}])  # fmt: skip
def test_a_table_has_the_same_ids_by_file_and_by_frame(tmp_path, ids):
    frame = pd.DataFrame({"text": QUESTIONS, "answer": ANSWERS} | ids)
    path = b.write_table(tmp_path / "mine.csv", frame)
    items, same = load(path), items_from_frame(pd.read_csv(path))
    assert items.frame["item_id"].tolist() == same.frame["item_id"].tolist() == ids_of(frame)
    assert items.attrs.get("note") == same.attrs.get("note")


def test_an_id_is_the_id_where_each_row_has_its_own(tmp_path):
    items = load(separated(tmp_path, "ID,text,answer", "a1,The ___ ran.,dog", "007,The ___ sat.,cat"))
    assert [item.item_id for item in items] == ["a1", "007"]
    assert items.extra.empty
    items = load(separated(tmp_path, "id,text,answer", "1,The ___ ran.,dog", "1,The ___ sat.,cat"))
    assert items[0].item_id.startswith("own/dev/")
    assert items.extra["id"].tolist() == ["1", "1"]
    assert "'id' has empty or equal cells" in items.attrs["note"]


@pytest.mark.parametrize(
    ("suffix", "column"),
    [*((suffix, "text") for suffix in (".csv", ".json", ".jsonl", ".parquet")),
     (".tsv", "content"), (".parquet", "content")],
)  # fmt: skip
def test_rows_of_whole_novels_name_the_reader_of_books(tmp_path, suffix, column):
    frame = pd.DataFrame({column: ["It was a very long day . " * 1000] * 2, "domain": "x"})
    path = b.write_table(tmp_path / f"novels{suffix}", frame)
    for dataset, options in (("cbt", {"variant": "NE"}), ("msrcc", {}), ("cnnqa", {})):
        refused(load, dataset, path=path, **options)
    refused(load, path)


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("['a', \"it's\"]", ["a", "it's"]),
        ("['a','b']", ["a", "b"]),
        ('["a", "b"]', ["a", "b"]),
        ("a|b", ["a", "b"]),
        ("[|]", ["[", "]"]),
        ("[a]", ["[a]"]),
        ("[" * 10**5 + "]" * 10**5, ["[" * 10**5 + "]" * 10**5]),
    ],
)
def test_a_list_of_a_cell(cell, words):
    assert listed_cell(cell, "|") == words


@pytest.mark.parametrize("cell", ["['a' 'b'\n 'c']", "['a', b]", "['a' \"b\"]"])
def test_a_cell_that_is_no_list_of_python_is_refused(cell):
    refused(listed_cell, cell, "|")


@given(st.lists(st.text(max_size=6), min_size=1, max_size=5))
def test_a_list_that_python_wrote_is_read(words):
    for cell in (repr(words), json.dumps(words)):
        assert listed_cell(cell, "|") == words


def test_further_columns_of_text_hold_numbers_where_all_cells_are_numbers(tmp_path):
    lines = ["text,answer,n,code,flag,p,tweet", "A ___ sat.,1984,3,007,True,0.5,1234567890123456789",
             "A ___ ran.,NA,,010,False,-2e-05,2"]  # fmt: skip
    items = load(separated(tmp_path, *lines))
    assert [item.answer for item in items] == ["1984", "NA"]
    assert items[0].meta == {"n": 3, "code": "007", "flag": True, "p": 0.5, "tweet": "1234567890123456789"}
    assert items[1].meta == {"code": "010", "flag": False, "p": -2e-05, "tweet": "2"}
