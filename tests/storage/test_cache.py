"""Tables on disk by key: whole, checked, bounded."""

import hashlib
import os

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.storage import cache as disk
from workbench.storage.cache import Cache, content, digest, fingerprint, make_room

COLUMNS = {
    "word": (pa.string(), st.text(st.characters(exclude_categories=["Cs"]), max_size=5)),
    "known": (pa.bool_(), st.booleans()),
    "count": (pa.int64(), st.integers(-5, 5)),
    "share": (pa.float64(), st.floats(0, 1)),
    "spans": (pa.list_(pa.int32()), st.lists(st.integers(0, 3), max_size=3)),
}
SCHEMA = pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()])
ROWS = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in COLUMNS.items()})
TABLES = st.lists(ROWS, max_size=6)
ONE = [{"word": "heron", "known": True, "count": 3, "share": 0.5, "spans": [1, 2]}]


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.fixture
def kept(no_data):
    assert no_data.is_dir()
    return Cache("things", SCHEMA)


@given(TABLES, TABLES, st.integers(0, 6))
def test_the_digest_tells_tables_apart_and_not_how_they_lie_in_memory(one, other, cut):
    assert (content(table(one)) == content(table(other))) == (one == other)
    parts = pa.concat_tables([table(one[:cut]), table(one[cut:])])
    sliced = table([*ONE, *one, *ONE]).slice(1, len(one))
    assert content(parts) == content(sliced) == content(table(one))


@given(rows=TABLES)
def test_what_is_put_is_what_one_gets(tmp_path_factory, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        kept = Cache("things", SCHEMA)
        kept.put("k", table(rows))
        assert kept.get("k").equals(table(rows))


def test_torn_files_count_as_not_there_and_are_written_anew(kept):
    kept.put("k", table(ONE))
    whole = kept.path("k").read_bytes()
    for cut in range(0, len(whole), 5):
        kept.path("k").write_bytes(whole[:cut])
        assert kept.get("k") is None
    kept.put("k", table(ONE))
    assert kept.get("k").to_pylist() == ONE


def test_a_changed_byte_is_never_read_as_another_table(kept):
    kept.put("k", table(ONE * 50))
    whole, lost = kept.path("k").read_bytes(), 0
    for place in range(0, len(whole), 3):
        kept.path("k").write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        got = kept.get("k")
        assert got is None or got.to_pylist() == ONE * 50
        lost += got is None
    assert lost > len(whole) / 12  # the rest describes what is read anyway, as statistics do


def test_foreign_files_count_as_not_there(kept, no_data):
    make_room()
    assert not kept.folder.exists()
    assert kept.get("k") is None
    kept.put("k", table(ONE))
    assert pq.read_table(no_data / "cache" / "things" / "k.parquet").to_pylist() == ONE
    assert Cache("things", SCHEMA.remove(0)).get("k") is None
    assert Cache("things", SCHEMA.set(2, pa.field("count", pa.int32()))).get("k") is None
    kept.put("other", table(ONE))
    kept.path("other").rename(kept.path("k"))
    assert kept.get("k") is None
    pq.write_table(table(ONE), kept.path("k"))
    assert kept.get("k") is None
    wrong = {"key": "k", "sha256": content(table(ONE * 2))}
    pq.write_table(table(ONE).replace_schema_metadata(wrong), kept.path("k"))
    assert kept.get("k") is None
    kept.path("k").unlink()
    kept.path("k").mkdir()
    assert kept.get("k") is None


def test_what_was_not_used_for_longest_goes_first(kept):
    keys = [letter * 64 for letter in "abcd"]
    for age, key in enumerate(keys):
        kept.put(key, table(ONE))
        os.utime(kept.path(key), (1000 - age, 1000 - age))
    size = kept.path(keys[0]).stat().st_size
    assert kept.get(keys[2]) is not None  # used now
    make_room(3 * size)
    assert sorted(path.stem for path in kept.folder.iterdir()) == keys[:3]
    make_room(0)
    assert [path.stem for path in kept.folder.iterdir()] == keys[2:3]
    assert kept.get(keys[2]).to_pylist() == ONE


@given(*[st.lists(st.text("ab\0", max_size=2), max_size=3)] * 2)
def test_digests_see_where_parts_end(one, other):
    assert (digest(*one) == digest(*other)) == (one == other)


def test_a_fingerprint_changes_with_names_and_contents(tmp_path, monkeypatch):
    one, other = tmp_path / "one", tmp_path / "other"

    def now():
        return fingerprint([path for path in (other, one) if path.exists()], tmp_path)

    one.write_bytes(b"x" * 100)
    first = now()
    assert first == now()
    other.write_bytes(b"")
    assert len({first, second := now()}) == 2
    other.write_bytes(b"y")
    assert len({first, second, now()}) == 3
    other.rename(tmp_path / "third")
    assert now() == first
    one.write_bytes(b"x" * 99 + b"y")
    assert now() != first
    monkeypatch.setattr(disk, "_WHOLE", 50)
    monkeypatch.setattr(disk, "_ENDS", 10)
    large = now()
    one.write_bytes(b"x" * 98 + b"zy")
    assert now() != large


@given(
    st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=6), max_size=12),
    st.integers(0, 6),
    st.integers(0, 6),
)
def test_the_digest_of_text_is_that_of_its_bytes_however_it_lies_in_memory(rows, first, cut):
    """Slices, chunks, nulls with bytes behind them: against a digest that joins Python's strings."""
    whole = pa.array([*["x"] * first, *rows], pa.string())
    hidden = pc.if_else(pa.array([True] * first + [row is not None for row in rows]), whole, None)
    column = pa.chunked_array([hidden[:cut], hidden[cut:]], pa.string())[first:]
    expected = hashlib.sha256(f"text\0string\0{len(rows)}\0".encode())
    expected.update(bytes(row is not None for row in rows))
    expected.update(np.array([-1 if r is None else len(r.encode()) for r in rows], np.int32).tobytes())
    expected.update("".join(row or "" for row in rows).encode())
    assert content(pa.table({"text": column})) == expected.hexdigest()


def test_a_pipe_has_no_fingerprint(tmp_path):
    """A tokenizer that is a pipe: transformers passes over it, and reading it would never end."""
    (tmp_path / "a").write_text("text")
    os.mkfifo(tmp_path / "b")
    fingerprint([tmp_path / "a"], tmp_path)
    with pytest.raises(OSError, match="not a regular file"):
        fingerprint([tmp_path / "a", tmp_path / "b"], tmp_path)
