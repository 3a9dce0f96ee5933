import pyarrow as pa
import pyarrow.parquet as pq

from workbench.storage.files import read_parquet

ROWS = 100
COLUMNS = {
    "text": [f"passage {i}" for i in range(ROWS)],
    "word": pa.array(["dog", "cat"] * (ROWS // 2)).dictionary_encode(),
    "words": [["a", None, "b"], None] * (ROWS // 2),
    "spans": pa.array([[[0, 1], [2, 3]]] * ROWS, pa.list_(pa.list_(pa.int32(), 2))),
    "pair": pa.array([{"left": "l", "right": [1.0]}] * ROWS),
    "large": pa.array(["seen", None] * (ROWS // 2), pa.large_string()),
    "json": pa.array(['{"a": 1}'] * ROWS, pa.json_(pa.string())),
    "nothing": pa.nulls(ROWS),
    "number": range(ROWS),
}


def written(path, columns, **options):
    pq.write_table(pa.table(columns), path, **options)
    return path


def test_any_table_is_read_as_it_is(tmp_path):
    path = written(tmp_path / "a.parquet", COLUMNS)
    table = read_parquet(path)
    assert table.to_pylist() == pa.table(COLUMNS).to_pylist()
    assert table.column_names == list(COLUMNS)
    assert not any(pa.types.is_dictionary(field.type) for field in table.schema)
    assert read_parquet("a name", data=path.read_bytes()).column("words") == table["words"]
