"""Tables on disk by key: whole, checked, bounded."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.storage import cache as disk
from workbench.storage.cache import Cache, fingerprint, make_room

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


@given(rows=TABLES)
def test_what_is_put_is_what_one_gets(tmp_path_factory, rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WORKBENCH_HOME", str(tmp_path_factory.mktemp("home")))
        kept = Cache("things", SCHEMA)
        kept.put("k", table(rows))
        assert kept.get("k").equals(table(rows))


def damage_bytes(content):
    middle = len(content) // 3
    return content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage", [lambda _: b"", lambda content: content[:-9], lambda content: content[:40], damage_bytes]
)
def test_an_entry_that_does_not_read_counts_as_absent_and_is_written_anew(kept, damage):
    kept.put("k", table(ONE * 50))
    kept.path("k").write_bytes(damage(kept.path("k").read_bytes()))
    assert kept.get("k") is None
    kept.put("k", table(ONE))
    assert kept.get("k").to_pylist() == ONE


def test_other_columns_and_folders_count_as_absent(kept, no_data):
    make_room()
    assert not kept.folder.exists()
    assert kept.get("k") is None
    kept.put("k", table(ONE))
    assert pq.read_table(no_data / "cache" / "things" / "k.parquet").to_pylist() == ONE
    assert Cache("things", SCHEMA.remove(0)).get("k") is None
    assert Cache("things", SCHEMA.set(2, pa.field("count", pa.int32()))).get("k") is None
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
