"""The table of judgments on disk: only appended, complete or one error, and nobody judges an item twice."""

import json
import multiprocessing
import sqlite3
from datetime import UTC, datetime

import pandas as pd
import pytest
from refused import refused

import workbench as wb
from workbench import people
from workbench.people import judgments as table
from workbench.people.judgments import BOTH, JUDGED, REPEATED, record_judgments, row_of
from workbench.storage.errors import DataError


@pytest.fixture(scope="module")
def items():
    return wb.load("sample", "dev")[:12]


def row(item, person="Ada", condition="passage", guesses=("x",), n_shown=None, **more):
    n_shown = (len(item.context) if condition == "passage" else 0) if n_shown is None else n_shown
    return row_of(item, person, step=1, condition=condition, n_shown=n_shown, guesses=list(guesses), **more)


def test_what_is_written_is_read_in_the_order_of_the_answers(items, tmp_path):
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (3, 1, 2)]
    rows = [
        row(item, person, answered=time, guesses=["“ä”\u2028\n", ""], seconds=1.5)
        for item, person, time in zip(items, ("Ada", "Bo", "../Ada"), times, strict=False)
    ]
    assert record_judgments(rows, tmp_path / "new") == ["", "", ""]
    assert sorted(path.name for path in (tmp_path / "new").glob("*.jsonl")) == [
        "Ada.jsonl",
        "Bo.jsonl",
        "_Ada.jsonl",
    ]
    frame = people.read_judgments(tmp_path / "new")
    assert frame["person"].tolist() == ["Bo", "../Ada", "Ada"]
    assert frame["guesses"].tolist() == [["“ä”\u2028\n", ""]] * 3
    assert frame.columns.tolist() == list(table.JUDGMENT_COLUMNS)
    assert frame["response_time"].tolist() == [1.5] * 3
    other = tmp_path / "other"
    assert len(people.add_judgments(frame, other)) == 0
    pd.testing.assert_frame_equal(people.read_judgments(other), frame)
    assert people.add_judgments(frame, other)["reason"].tolist() == [REPEATED] * 3
    assert len(people.read_judgments(tmp_path / "nothing")) == 0


def test_nobody_judges_an_item_twice_or_in_two_conditions(items, tmp_path):
    first = row(items[0])
    assert record_judgments([first, first], tmp_path) == ["", REPEATED]
    assert record_judgments([row(items[0], guesses=["y"])], tmp_path) == [JUDGED]
    assert record_judgments([row(items[0], condition="sentence")], tmp_path) == [BOTH]
    assert record_judgments([row(items[0], condition="unfolding")], tmp_path) == [BOTH]
    assert record_judgments([{**row(items[0]), "variant": "another one"}], tmp_path) == [REPEATED]
    assert record_judgments([{**first, "text_digest": "of another text"}], tmp_path) == [""]
    assert record_judgments([row(items[0], "Bo", "sentence")], tmp_path) == [""]
    unfolded = [row(items[1], condition="unfolding", n_shown=n, guesses=[f"{n}"]) for n in (0, 1, 0)]
    assert record_judgments(unfolded, tmp_path) == ["", "", REPEATED]
    assert record_judgments([row(items[1], condition="unfolding", n_shown=1)], tmp_path) == [JUDGED]
    assert len(people.read_judgments(tmp_path)) == 5


def test_a_table_that_breaks_the_rule_is_refused(items, tmp_path):
    record_judgments([row(item) for item in items[:3]], tmp_path)
    frame = people.read_judgments(tmp_path)
    twice = pd.concat([frame, frame[:1].assign(condition="sentence", step=3)], ignore_index=True)
    assert "two judgments" in refused(people.funnel, items, twice).problem
    refused(people.funnel, items, frame.drop(columns="shown"))
    refused(people.add_judgments, frame.assign(condition="dream"), tmp_path)
    others = frame.assign(text_digest="of other texts")
    assert people.funnel(items, others)["n_dropped"].tolist() == [0, 0, 0]
    assert people.funnel(items, frame.assign(variant="another"))["n_open"].tolist() == [12, 0, 0]
    assert people.funnel(items, frame.assign(text_digest=None))["n_dropped"].tolist() == [3, 0, 0]


DAMAGE = {
    "half a line": lambda lines: [*lines[:-1], lines[-1][:40]],
    "no end of the last line": lambda lines: [*lines[:-1], lines[-1].rstrip("\n")],
    "an empty line": lambda lines: [lines[0], "\n", *lines[1:]],
    "not JSON": lambda lines: ["{'item_id': 1}\n", *lines[1:]],
    "a list": lambda lines: ["[7]\n", *lines[1:]],
    "nested too deeply": lambda lines: ["[" * 100_000 + "\n", *lines[1:]],
    "another encoding": lambda lines: [*lines, "\udcff\n"],
    **{
        f"{name}: {value!r:.30}": lambda lines, name=name, value=value: [
            json.dumps({**json.loads(lines[0]), name: value}) + "\n", *lines[1:]
        ]
        for name, value in [
            ("item_id", None), ("item_id", 7), ("text_digest", 7), ("variant", ["plain"]), ("person", ""),
            ("person", " Ada"), ("person", "x" * 300), ("step", 0), ("step", "1"), ("step", 1.5),
            ("shown", -1), ("shown", None), ("condition", "dream"), ("condition", ["passage"]),
            ("guesses", []), ("guesses", "word"), ("guesses", [7]), ("guesses", ["\ud800"]),
            ("response_time", -1), ("response_time", "1"), ("response_time", float("nan")),
            ("answered", None), ("answered", "today"), ("answered", "2026-01-01"),
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_table_is_one_error_and_stays_as_it_is(name, items, tmp_path):
    record_judgments([row(item) for item in items[:3]], tmp_path)
    file = tmp_path / "Ada.jsonl"
    lines = DAMAGE[name](file.read_text(encoding="utf-8").splitlines(keepends=True))
    damaged = "".join(lines).encode("utf-8", "surrogateescape")
    file.write_bytes(damaged)
    error = refused(people.read_judgments, tmp_path)
    assert (error.file, bool(error.line), bool(error.hint)) == (str(file), True, True)
    refused(record_judgments, [row(items[5])], tmp_path)
    assert file.read_bytes() == damaged


@pytest.mark.parametrize("name", ["campaign.db", "game"])
def test_a_database_of_a_campaign_is_refused_by_name(name, items, tmp_path):
    connection = sqlite3.connect(tmp_path / name)
    connection.execute("CREATE TABLE campaign (key TEXT)")
    connection.commit()
    connection.close()
    for folder in (tmp_path, tmp_path / name):
        for call in (people.read_judgments, lambda where: record_judgments([row(items[0])], where),
                     lambda where: wb.guess(items, folder=where)):  # fmt: skip
            error = refused(call, folder)
            assert error.file == str(tmp_path / name)
            assert "a21fd8b1" in str(error)
            assert f"people.Campaign.open('{tmp_path / name}').judgments()" in error.hint


def test_a_table_that_a_campaign_exported_is_read(items, tmp_path):
    """The columns are those that the line in the error writes."""
    exported = pd.DataFrame(
        {
            "item_id": [item.item_id for item in items[:2]], "subject": [1, 2], "person": ["Ada", "Bo"],
            "page": 1, "step": 1, "condition": "passage", "shown": [len(item.context) for item in items[:2]],
            "guesses": [[items[0].answer], ["?"]], "prediction": "x", "correct": True, "counted": True,
            "response_time": [1.5, None],
            "answered": pd.to_datetime([1e9, 1e9 + 1], unit="s", utc=True),
        }
    )  # fmt: skip
    file = tmp_path / "judgments.jsonl"
    exported.to_json(file, orient="records", lines=True, date_format="iso")
    assert len(people.add_judgments(pd.read_json(file, lines=True), tmp_path / "table")) == 0
    frame = people.read_judgments(tmp_path / "table")
    assert people.states(items, frame)["state"].tolist()[:3] == ["open", "dropped", "open"]
    assert people.states(items, frame)["step"].tolist()[:3] == [2, 1, 1]


def test_a_full_disk_leaves_the_table_as_it_was(items, tmp_path, monkeypatch):
    record_judgments([row(items[0])], tmp_path)
    before = (tmp_path / "Ada.jsonl").read_bytes()

    def full(_number):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(table.os, "fsync", full)
    refused(record_judgments, [row(items[1])], tmp_path)
    assert (tmp_path / "Ada.jsonl").read_bytes() == before
    monkeypatch.undo()
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError):
        record_judgments([row(items[0])], tmp_path / "file" / "below")


def _judge(folder, first):
    for item in wb.load("sample", "dev")[:12]:
        record_judgments([row(item, guesses=[first])], folder)


def test_processes_append_to_one_file_and_the_first_answer_holds(items, tmp_path):
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_judge, args=(tmp_path, word)) for word in "abc"]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    frame = people.read_judgments(tmp_path)
    assert sorted(frame["item_id"]) == sorted(items.frame["item_id"])
