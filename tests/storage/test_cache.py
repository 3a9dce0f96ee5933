"""Tables on disk by key: whole, checked, bounded."""

import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from workbench.storage import cache as disk
from workbench.storage.cache import Cache, digest, fingerprint, make_room

SCHEMA = pa.schema({
    "word": pa.string(), "known": pa.bool_(), "count": pa.int64(), "share": pa.float64(),
    "spans": pa.list_(pa.int32()),
})  # fmt: skip
ONE = [{"word": "heron", "known": True, "count": 3, "share": 0.5, "spans": [1, 2]}]


def table(rows):
    return pa.Table.from_pylist(rows, SCHEMA)


@pytest.fixture
def kept(no_data):
    assert no_data.is_dir()
    return Cache("things", SCHEMA)


def test_what_is_put_is_what_one_gets(kept):
    rows = [*ONE, dict.fromkeys(SCHEMA.names), {**ONE[0], "word": "é", "spans": []}]
    for content in (rows, []):
        kept.put("k", table(content))
        assert kept.get("k").equals(table(content))


def test_an_entry_with_a_changed_byte_counts_as_absent_and_is_written_anew(kept):
    kept.put("k", table(ONE * 50))
    content = kept.path("k").read_bytes()
    middle = len(content) // 3
    changed = content[:middle] + bytes([content[middle] ^ 0x55]) + content[middle + 1 :]
    kept.path("k").write_bytes(changed)
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


def test_results_of_other_parts_have_other_keys():
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4


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
