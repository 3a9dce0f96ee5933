import json
import subprocess
import sys

import pandas as pd
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from patience import PATIENCE
from refused import refused

from workbench.items import notes as remarks
from workbench.items.notes import notes, read_notes, write_notes
from workbench.storage.errors import DataError

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def write_note(dataset, item_id, *, folder=None, **change):
    return write_notes(dataset, {item_id: change}, folder=folder)[item_id]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.lists(ANY, max_size=3), ANY), min_size=1, max_size=5))
@example([("a", ['"quoted"', "\u2028", "x\ny"], "line\r\nline\x85line\u2029line\x0c")])
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_again(tmp_path_factory, drawn):
    folder = tmp_path_factory.mktemp("notes")
    expected = {}
    for item_id, tags, note in drawn:
        left = write_note("x", item_id, tags=tags, note=note, folder=folder)
        kept = tuple(dict.fromkeys(tag.strip() for tag in tags if tag.strip()))
        assert (left.item_id, left.tags, left.note) == (item_id, kept, note.strip())
        expected[item_id] = left
    expected = {key: note for key, note in expected.items() if note.tags or note.note}
    assert read_notes(["x"], folder=folder) == expected
    table = notes("x", folder=folder).set_index("item_id")
    assert {key: (tuple(row["tags"]), row["note"]) for key, row in table.iterrows()} == {
        key: (note.tags, note.note) for key, note in expected.items()
    }


def test_one_part_can_be_set_alone_and_nothing_is_nothing(tmp_path):
    write_note("x", "x/1", tags=["plot", " plot ", "", "name"], folder=tmp_path)
    assert write_note("x", "x/1", note=" odd ", folder=tmp_path).tags == ("plot", "name")
    assert write_note("x", "x/1", tags="plot", folder=tmp_path).tags == ("plot",)
    assert write_note("x", "x/1", tags=[], folder=tmp_path).note == "odd"
    write_note("x", "x/1", note="", folder=tmp_path)
    assert read_notes(["x"], folder=tmp_path) == {}
    assert read_notes(["never", "seen"], folder=tmp_path / "nowhere") == {}


def test_the_table_of_all_notes(tmp_path, monkeypatch):
    monkeypatch.setenv("WORKBENCH_HOME", str(tmp_path))
    empty = notes()
    assert list(empty.columns) == ["item_id", "tags", "note", "updated", "dataset", "text_digest"]
    assert len(empty) == 0
    assert str(empty["updated"].dt.tz) == "UTC"
    begin = pd.Timestamp.now("UTC")
    write_note("x", "x/1", tags=["plot"])
    write_note("y", "y/1", note="see")
    write_note("x", "x/2", note="too")
    table = notes()
    assert table["item_id"].tolist() == ["x/1", "x/2", "y/1"]
    assert table["dataset"].tolist() == ["x", "x", "y"]
    assert table["tags"].tolist() == [["plot"], [], []]
    assert table["updated"].between(begin.floor("s"), pd.Timestamp.now("UTC")).all()
    assert notes("y")["item_id"].tolist() == ["y/1"]
    assert (tmp_path / "notes" / "x.jsonl").is_file()


def test_a_note_shows_in_every_data_set_that_has_its_text_under_its_id(tmp_path):
    text, both = "She sat .", ("own", "mine")
    write_note("mine", "7", text=text, tags=["odd"], note="see", folder=tmp_path)
    assert write_note("own", "7", text=text, note="seen", folder=tmp_path).tags == ("odd",)
    for dataset in both:
        [note] = read_notes([dataset], texts={"7": text, "8": text}, folder=tmp_path).values()
        assert (note.tags, note.note) == (("odd",), "seen")
        assert not read_notes([dataset], texts={"7": "She ran ."}, folder=tmp_path)
    write_note("own", "7", text=text, tags=[], note="", folder=tmp_path)  # the last word, for both
    for dataset in both:
        [note] = read_notes([dataset], texts={"7": text}, folder=tmp_path).values()
        assert (note.tags, note.note) == ((), "")


def test_a_note_stays_with_its_text(tmp_path):
    write_note("own", "7", tags=["old"], note="from before", folder=tmp_path)
    one, other, cased = "he did n't run .", "She sat .", "He didn't run."
    for texts in ({"7": one}, {"7": other}, None):
        assert read_notes(["own"], texts=texts, folder=tmp_path)["7"].tags == ("old",)
    assert write_note("own", "7", text=one, note="mine", folder=tmp_path).tags == ("old",)
    assert read_notes(["own"], texts={"7": cased}, folder=tmp_path)["7"].note == "mine"
    assert read_notes(["own"], texts={"7": other}, folder=tmp_path) == {}
    write_note("own", "7", text=other, tags=["new"], folder=tmp_path)
    assert read_notes(["own"], texts={"7": one}, folder=tmp_path)["7"].tags == ("old",)
    assert read_notes(["own"], texts={"7": other}, folder=tmp_path)["7"].tags == ("new",)
    table = notes("own", folder=tmp_path)
    assert table["item_id"].tolist() == ["7", "7"]
    assert table["text_digest"].nunique() == 2
    assert table["tags"].tolist() == [["old"], ["new"]]


def test_times_by_hand_are_read(tmp_path):
    times = ["2026-01-02T03:04:05.678+00:00", "2026-01-02T03:04:05+01:00", "2026-01-02"]
    rows = [{"item_id": f"x/{i}", "tags": [], "note": "n", "updated": time} for i, time in enumerate(times)]
    (tmp_path / "x.jsonl").write_text("\n\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert notes("x", folder=tmp_path)["updated"].dt.hour.tolist() == [3, 2, 0]


GOOD = '{"item_id": "x/0", "tags": ["a"], "note": "", "updated": "2026-01-02T03:04:05+00:00"}'


@pytest.mark.parametrize(
    "line",
    [
        *(b"{", b"[1]", b'{"item_id": "x/1"}', b'{"item_id": "\xff"}'),
        GOOD.replace('["a"]', '"a"').encode(),
        GOOD.replace("2026-01-02", "yesterday").encode(),
    ],
)
def test_a_broken_line_is_told_and_nothing_is_changed(tmp_path, line):
    file = tmp_path / "x.jsonl"
    content = GOOD.encode() + b"\n\n" + line + b"\n" + GOOD.encode()
    file.write_bytes(content)
    for act, arguments in ((notes, ()), (read_notes, (["x"],)), (write_note, ("x", "x/2"))):
        with pytest.raises(DataError) as caught:
            act(*arguments, folder=tmp_path)
        assert (caught.value.file, caught.value.line) == (str(file), 3)
        assert caught.value.hint
    assert file.read_bytes() == content


@pytest.mark.parametrize("name", ["..", "", "../../up", "/etc/x", "a\\b", "C:x", ".hidden", "a\nb", "a\0b"])
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    folder = tmp_path / "in" / "notes"
    write_note(name, "x/1", note="here", folder=folder)
    assert read_notes([name], folder=folder)["x/1"].note == "here"
    assert notes(name, folder=folder)["note"].tolist() == ["here"]
    assert notes(folder=folder)["note"].tolist() == ["here"]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.parent for path in files} == {folder}
    assert [path.suffix for path in files if not path.name.startswith(".")] == [".jsonl"]


def test_a_writer_that_fails_leaves_the_old_notes(tmp_path, monkeypatch):
    write_note("x", "x/1", note="old", folder=tmp_path)
    before = (tmp_path / "x.jsonl").read_bytes()

    def dump(row, **options):
        if row["item_id"] == "x/2":
            raise KeyboardInterrupt
        return json.JSONEncoder(**options).encode(row)

    monkeypatch.setattr(remarks.json, "dumps", dump)
    with pytest.raises(KeyboardInterrupt):
        write_note("x", "x/2", note="new", folder=tmp_path)
    monkeypatch.undo()
    assert (tmp_path / "x.jsonl").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"x.jsonl", ".x.jsonl.lock"}
    write_note("x", "x/2", note="new", folder=tmp_path)
    assert set(read_notes(["x"], folder=tmp_path)) == {"x/1", "x/2"}


WRITER = """
import sys
from threading import Thread
from workbench.items.notes import write_notes
folder, who = sys.argv[1:]
def write_note(dataset, item_id, *, folder, **change):
    write_notes(dataset, {item_id: change}, folder=folder)
def write(thread):
    for i in range(15):
        write_note("x", f"{who}/{thread}/{i}", tags=[who], note=str(i), folder=folder)
        write_note("x", "shared", note=who, folder=folder)
threads = [Thread(target=write, args=(t,)) for t in range(2)]
[t.start() for t in threads]
[t.join() for t in threads]
"""


def test_writers_at_the_same_time_lose_nothing(tmp_path):
    people = ("ada", "bob")
    running = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), who]) for who in people]
    assert [process.wait(timeout=PATIENCE) for process in running] == [0, 0]
    written = read_notes(["x"], folder=tmp_path)
    expected = {f"{who}/{t}/{i}" for who in people for t in range(2) for i in range(15)}
    assert set(written) == expected | {"shared"}
    assert all(written[key].tags == (key.split("/")[0],) for key in expected)


def test_notes_that_cannot_be_written_are_one_error(tmp_path):
    (tmp_path / "file").touch()
    refused(write_note, "x", "x/1", note="new", folder=tmp_path / "file")
    refused(notes, folder=tmp_path / "file")


@pytest.mark.parametrize(
    ("item_id", "change"),
    [
        ("x/\ud800", {"note": "n"}),
        ("x/1", {"note": "a\ud800"}),
        ("x/1", {"tags": ["plot", "\udfff"]}),
        ("x/1", {"note": 5}),
        ("x/1", {"tags": [None]}),
    ],
)
def test_what_is_no_text_changes_nothing(tmp_path, item_id, change):
    write_note("x", "x/1", note="old", folder=tmp_path)
    before = (tmp_path / "x.jsonl").read_bytes()
    with pytest.raises((DataError, AttributeError)):
        write_note("x", item_id, **change, folder=tmp_path)
    assert (tmp_path / "x.jsonl").read_bytes() == before


def test_fields_of_others_are_written_again(tmp_path):
    others = {"author": "Ada", "rating": {"plot": [1, 2.5, None]}, "tag": "x"}
    row = {**others, **json.loads(GOOD)}
    (tmp_path / "x.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    for item_id, text, change in (
        ("x/1", None, {"note": "another item"}),
        ("x/0", None, {"note": "new"}),
        ("x/0", "The text.", {"tags": ["b"]}),  # the note is tied to a text
        ("x/0", "The text.", {"tags": [], "note": ""}),
    ):
        write_note("x", item_id, text=text, **change, folder=tmp_path)
        rows = (tmp_path / "x.jsonl").read_text(encoding="utf-8").splitlines()
        [there] = [row for row in map(json.loads, rows) if row["item_id"] == "x/0"]
        assert {name: there[name] for name in others} == others
    assert (there["tags"], there["note"]) == ([], "")
    note = read_notes(["x"], folder=tmp_path)["x/0"]
    assert note.fields == others
    assert len({note, note}) == 1
    assert notes("x", folder=tmp_path).columns.tolist()[:2] == ["item_id", "tags"]


def test_without_notes_a_notebook_says_so(tmp_path):
    table = notes("x", folder=tmp_path)
    assert (repr(table), table._repr_html_()) == ("no tags or notes yet", "<p>no tags or notes yet</p>")
    write_note("x", "x/1", tags=["odd"], folder=tmp_path)
    assert "odd" in notes("x", folder=tmp_path)._repr_html_()
