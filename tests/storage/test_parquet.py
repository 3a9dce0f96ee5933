import contextlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refused import refused

from workbench.storage import files, parquet
from workbench.storage.errors import DataError
from workbench.storage.parquet import iter_parquet, read_parquet

ROWS = 1000
COLUMNS = {
    "text": [f"passage {i}" for i in range(ROWS)],
    "word": pa.array(["dog", "cat"] * (ROWS // 2)).dictionary_encode(),
    "words": [["a", None, "b"], None] * (ROWS // 2),
    "spans": pa.array([[[0, 1], [2, 3]]] * ROWS, pa.list_(pa.list_(pa.int32(), 2))),
    "pair": pa.array([{"left": "l", "right": [1.0]}] * ROWS),
    "names": pa.array([[("key", "value")]] * ROWS, pa.map_(pa.string(), pa.string())),
    "view": pa.array(["seen"] * ROWS, pa.string_view()),
    "large": pa.array(["seen", None] * (ROWS // 2), pa.large_string()),
    "json": pa.array(['{"a": 1}'] * ROWS, pa.json_(pa.string())),
    "fixed": pa.array([b"1234"] * ROWS, pa.binary(4)),
    "nothing": pa.nulls(ROWS),
    "number": range(ROWS),
}


def written(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize(
    "options", [{}, {"use_dictionary": False}, {"row_group_size": 70}, {"store_schema": False}]
)
def test_any_table_is_read_as_it_is(tmp_path, options):
    path = written(tmp_path / "a.parquet", COLUMNS, **options)
    table = read_parquet(path)
    assert table.to_pylist() == pq.read_table(path).to_pylist() == pa.table(COLUMNS).to_pylist()
    assert table.column_names == list(COLUMNS)
    assert not any(pa.types.is_dictionary(field.type) for field in table.schema)
    batches = list(iter_parquet(path, ["number", "text"], rows=64))
    assert pa.Table.from_batches(batches).to_pylist() == table.select(["text", "number"]).to_pylist()
    assert max(map(len, batches)) == 64
    assert read_parquet("a name", ["words"], data=path.read_bytes()).column("words") == table["words"]


def test_a_table_without_rows_has_its_columns(tmp_path):
    path = written(tmp_path / "a.parquet", pa.table(COLUMNS).slice(0, 0))
    assert read_parquet(path).schema.names == list(COLUMNS)


def test_a_frame_is_read_as_pandas_reads_it(tmp_path):
    frame = pd.DataFrame(
        {"a": ["x", None], "b": [1, None], "c": pd.to_datetime(["2020-01-01"] * 2)}, ["p", "q"]
    )
    frame.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(read_parquet(tmp_path / "a.parquet").to_pandas(), frame)


def repeated(text, times):
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([text]))


LONG = 100_000
BOMBS = {  # each takes a few kilobytes, and a hundred times the limit or more once it is read
    "text": repeated("x" * LONG, LONG),
    "bytes": repeated("x" * LONG, LONG).cast(pa.dictionary(pa.int32(), pa.binary())),
    "list": pa.ListArray.from_arrays(pa.array([0, LONG // 2, LONG], pa.int32()), repeated("x" * LONG, LONG)),
    "struct": pa.StructArray.from_arrays([repeated("x" * LONG, LONG)], ["a"]),
    "map": pa.MapArray.from_arrays(
        pa.array([0, LONG], pa.int32()), pa.array(map(str, range(LONG))), repeated("x" * LONG, LONG)
    ),
    "numbers in one row": pa.array([[0] * 1_000_000]),
    "no values": pa.nulls(1_000_000),
    "truth values": pa.array([True] * 1_000_000),
    "plain": pa.array(["x" * 2_000_000]),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("store_schema", [True, False])
def test_a_small_file_that_stands_for_much_is_refused(tmp_path, name, store_schema):
    path = written(
        tmp_path / "a.parquet", {"a": BOMBS[name], "b": pa.nulls(len(BOMBS[name]))}, store_schema=store_schema
    )
    refused("more than 1,000,000 bytes, unpacked", read_parquet, path, ["a"], limit=1_000_000)


def test_the_bound_counts_all_batches_of_a_table_and_each_of_an_iteration(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", {"a": repeated("x" * 1000, 100_000)})
    monkeypatch.setattr(files, "MAX_IN_MEMORY", 70_000_000)
    refused("more than 70,000,000 bytes", read_parquet, path)
    assert sum(map(len, iter_parquet(path))) == 100_000
    monkeypatch.setattr(files, "MAX_IN_MEMORY", 60_000_000)
    refused("more than 60,000,000 bytes", list, iter_parquet(path))
    assert sum(map(len, iter_parquet(path, rows=100))) == 100_000


def test_wide_values_of_a_fixed_width_are_decoded_few_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "_FIXED", 10_000)
    path = written(tmp_path / "a.parquet", {"a": pa.array([b"x" * 1000] * 1000, pa.binary(1000))})
    assert {len(batch) for batch in iter_parquet(path)} == {0, 10}


def test_a_long_description_of_columns_is_refused(tmp_path, monkeypatch):
    path = written(tmp_path / "a.parquet", {f"column {i}": [1] for i in range(100)})
    monkeypatch.setattr(parquet, "_FOOTER", 5000)
    refused(r"columns are described in .* expected at most 5,000", read_parquet, path)


def test_a_column_that_is_not_there(tmp_path):
    path = written(tmp_path / "a.parquet", {"a": [1]})
    refused(r"a\.parquet: it lacks the column text", read_parquet, path, ["text", "a"])


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_a_damaged_file_is_one_error_or_a_table(tmp_path, compression):
    whole = written(
        tmp_path / "a.parquet", pa.table(COLUMNS).slice(0, 50), compression=compression
    ).read_bytes()
    rng = np.random.default_rng(len(compression))
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 2, 8])):
            data[-rng.integers(1, rng.choice([600, len(data)]))] = rng.integers(256)
        if rng.random() < 0.2:
            del data[rng.integers(len(data)) :]
        with contextlib.suppress(DataError):  # any other error fails
            read_parquet("a.parquet", data=bytes(data)).to_pylist()
