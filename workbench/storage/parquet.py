"""Parquet files, read within a size limit: a few kilobytes can expand to terabytes."""

from __future__ import annotations

import mmap
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workbench.storage import files
from workbench.storage.errors import DataError, reading

_ROWS = 1 << 16
_FIXED = 1 << 24  # most bytes of a column of a fixed width that are decoded at a time
_REFERENCE = 8  # bytes that a value takes at least, once Python has it
_FOOTER, _HEADER = 1 << 22, 1 << 20  # most bytes of the description of all columns, and of a page
_SHORT = 1 << 10  # bytes that hold the description of most pages


def read_parquet(
    file: Path | str,
    columns: Sequence[str] | None = None,
    *,
    data: bytes | None = None,
    what: str = "this Parquet file",
    remedy: str | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Return the table in a Parquet file, with dictionary columns as plain text.

    `columns` are all by default; they come in the order of the file. `data` is the content of the file, where
    it is in memory already. `what` and `remedy` are for the DataError if it cannot be read. The table may
    take `limit` bytes, else `workbench.storage.files.MAX_IN_MEMORY`.
    """
    limit = files.MAX_IN_MEMORY if limit is None else limit
    with reading(file, what, remedy=remedy):
        data = files.read_bytes(file, what) if data is None else data
        return pa.Table.from_batches(list(_batches(file, data, columns, _ROWS, limit, at_once=True)))


class MappedParquet:
    """A memory-mapped Parquet file, of which only the requested columns and rows are read.

    For files that are written once and then only read: where another process shortens the file, reading it
    ends this process. Parameters, bounds and errors as of `read_parquet`. ``names`` are its columns,
    ``metadata`` (bytes to bytes) is that of its schema.
    """

    def __init__(
        self, file: Path | str, *, what: str = "this Parquet file", remedy: str | None = None
    ) -> None:
        self.file, self._what, self._remedy = file, what, remedy
        with reading(file, what, remedy=remedy), files.open_regular(file) as opened:
            self._data = memoryview(mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))
            self._parsed = _parse(self._data)
            self._ends = np.cumsum([group[3] for group in self._parsed[0][4]])
            schema = self._parsed[1].schema_arrow
            self.names: list[str] = schema.names
            self.metadata: dict[bytes, bytes] = schema.metadata or {}

    def table(
        self, columns: Sequence[str] | None = None, *, group: int | None = None, encoded: Collection[str] = ()
    ) -> pa.Table:
        """Return the named columns (all by default), in the order of the file, of one row group or all.

        The columns of text that are `encoded` stay dictionaries: those with few values take less time and
        memory.
        """
        limit, parsed = files.MAX_IN_MEMORY, self._parsed
        with reading(self.file, self._what, remedy=self._remedy):
            batches = _batches(
                self.file, self._data, columns, _ROWS, limit, at_once=True, parsed=parsed, group=group,
                encoded=encoded,
            )  # fmt: skip
            table = pa.Table.from_batches(list(batches))
            return table.unify_dictionaries() if encoded and group is None else table

    def group_of(self, row: int) -> tuple[int, int]:
        """Return the number of the row group that holds a row, and the row's index in it."""
        group = int(np.searchsorted(self._ends, row, side="right"))
        return group, row - (int(self._ends[group - 1]) if group else 0)


def iter_parquet(
    file: Path | str, columns: Sequence[str] | None = None, *, rows: int = _ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield the table in a Parquet file in batches; the limit applies to each batch."""
    with reading(file, "this Parquet file"):
        data = files.read_bytes(file, "this Parquet file")
        yield from _batches(file, data, columns, rows, files.MAX_IN_MEMORY, at_once=False)


def _batches(
    file: Path | str,
    data: bytes | memoryview,
    columns: Sequence[str] | None,
    rows: int,
    limit: int,
    *,
    at_once: bool,
    parsed: tuple[dict[int, Any], pq.ParquetFile] | None = None,
    group: int | None = None,
    encoded: Collection[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield at least one batch; raise an error if the data exceed the limit, at once or by batch."""
    footer, table = _parse(data) if parsed is None else parsed
    sizes = _page_sizes(memoryview(data), footer, columns, group)
    if (sum(sizes) if at_once else max(sizes, default=0)) > limit:
        raise files.too_large(file, limit)
    fields = [field for field in table.schema_arrow if columns is None or field.name in columns]
    names = [field.name for field in fields]
    if lacking := set(columns or ()) - set(names):
        raise DataError(f"it lacks the column {min(lacking)}", file=file)
    plain = [field if field.name in encoded else field.with_type(_plain(field.type)) for field in fields]
    schema, metadata = pa.schema(plain, table.schema_arrow.metadata), table.metadata
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    yield pa.RecordBatch.from_pylist([], schema)
    rows = min([rows, *(max(1, _FIXED // leaf.length) for leaf in leaves if leaf.length > 0)])
    size = 0
    groups = range(metadata.num_row_groups) if group is None else [group]
    for number in groups:  # Arrow does not join dictionaries of groups inside lists
        for batch in table.iter_batches(rows, [number], names, use_threads=False):
            batch.validate(full=True)
            size = _size(batch) + (size if at_once else 0)
            if size > limit:
                raise files.too_large(file, limit)
            yield batch.cast(schema)


def _parse(data: bytes | memoryview) -> tuple[dict[int, Any], pq.ParquetFile]:
    """Return the metadata of a file, and the file as Arrow opens it."""
    footer, content = _footer(memoryview(data)), pa.py_buffer(data)
    metadata = pq.read_metadata(pa.BufferReader(content))
    table = pq.ParquetFile(
        pa.BufferReader(content),
        metadata=metadata,
        # it may hold a long text once that is meant often
        read_dictionary=[metadata.schema.column(i).path for i in range(metadata.num_columns)],
        arrow_extensions_enabled=False,
    )
    return footer, table


def _footer(data: memoryview) -> dict[int, Any]:
    """Return the metadata of a file and its columns, by field number."""
    end = len(data) - 8
    length = int.from_bytes(data[-8:-4], "little")
    if bytes(data[-4:]) != b"PAR1" or length > end:
        raise ValueError("not a valid Parquet file")
    if length > _FOOTER:
        raise ValueError(f"its columns are described in {length:,} bytes, expected at most {_FOOTER:,}")
    footer = _Thrift(data[end - length : end]).struct()
    for group in footer[4]:
        for chunk in group[1]:
            chunk[3]  # an error where a column is not described
    return footer


def _page_sizes(
    data: memoryview, footer: dict[int, Any], columns: Sequence[str] | None, group: int | None
) -> list[int]:
    """Return the minimal size of each page of the columns in memory, in bytes.

    Arrow ends the process where the description of a column is missing, and a page of a few bytes may hold
    billions of values; so what Arrow will read is looked up before.
    """
    sizes = []
    groups = footer[4] if group is None else [footer[4][group]]
    for chunk in (chunk[3] for group in groups for chunk in group[1]):
        position, values = min(chunk[9], chunk.get(11) or chunk[9]), 0
        while values < chunk[5] and (columns is None or str(chunk[3][0], "utf-8") in columns):
            try:
                thrift = _Thrift(data[position : position + _SHORT])
                header = thrift.struct()
            except IndexError:  # a header with long values in its statistics
                thrift = _Thrift(data[position : position + _HEADER])
                header = thrift.struct()
            position += thrift.position + max(header[3], 0)
            count = header.get(5, header.get(8, {1: 0}))[1]
            values += count
            sizes.append(max(header[2], (count or header.get(7, {1: 0})[1]) * _REFERENCE))
    return sizes


class _Thrift:
    """Reader of Thrift's compact protocol; IndexError at the end."""

    def __init__(self, data: memoryview) -> None:
        self._data, self.position = bytes(data), 0

    def struct(self) -> dict[int, Any]:
        """Return the fields of a structure by field number."""
        fields: dict[int, Any] = {}
        number, data = 0, self._data
        while head := data[self.position]:
            self.position += 1
            step = head >> 4
            number = number + step if step else self.varint() >> 1
            fields[number] = self.value(head & 15)
        self.position += 1
        return fields

    def varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self._data[self.position]
            self.position += 1
            number |= (byte & 127) << shift
            if byte < 128:  # noqa: PLR2004 - the last byte
                return number
        raise ValueError("a number has more than 64 bits")

    def _bytes(self, size: int) -> bytes:
        self.position += size
        return self._data[self.position - size : self.position]

    def value(self, type_code: int) -> Any:
        match type_code:
            case 4 | 5 | 6:
                number = self.varint()
                return number >> 1 ^ -(number & 1)
            case 1 | 2:
                return type_code == 1
            case 3:
                return self._bytes(1)[0]
            case 7 | 8:
                return self._bytes(8 if type_code == 7 else self.varint())  # noqa: PLR2004 - a double; else text
            case 9 | 10:
                head = self._bytes(1)[0]
                size = self.varint() if head >= 0xF0 else head >> 4  # noqa: PLR2004 - four bits say "longer"
                return [self.value(max(head & 15, 3)) for _ in range(size)]  # True takes a byte here
            case 12:
                return self.struct()
        raise ValueError("not a valid Parquet file")


def _plain(data_type: pa.DataType) -> pa.DataType:
    """Return the type of a column without dictionaries."""
    if pa.types.is_dictionary(data_type):
        return data_type.value_type
    if pa.types.is_map(data_type):
        return pa.map_(_plain(data_type.key_type), _plain(data_type.item_type))
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_plain(field.type)) for field in data_type])
    if not pa.types.is_nested(data_type):
        return data_type
    field = data_type.value_field.with_type(_plain(data_type.value_type))
    if pa.types.is_large_list(data_type):
        return pa.large_list(field)
    return pa.list_(field, data_type.list_size if pa.types.is_fixed_size_list(data_type) else -1)


def _size(values: pa.RecordBatch | pa.Array) -> int:
    """Return the size of values without their dictionaries, in bytes."""
    if isinstance(values, pa.RecordBatch):
        return sum(map(_size, values.columns))
    if pa.types.is_dictionary(values.type):
        lengths = pc.take(pc.binary_length(values.dictionary), values.indices)
        return int(pc.sum(lengths).as_py() or 0) + len(values) * _REFERENCE
    if pa.types.is_struct(values.type):
        return sum(map(_size, values.flatten())) + len(values) * _REFERENCE
    if pa.types.is_map(values.type):
        values = pa.ListArray.from_arrays(values.offsets, values.values)
    if pa.types.is_nested(values.type):
        return _size(values.flatten()) + len(values) * _REFERENCE
    return max(int(values.nbytes), len(values) * _REFERENCE)


def text_array(column: Any) -> pa.Array:
    """Return a pandas column of text as one Arrow array; that of items put together has a chunk a set."""
    array = pa.array(column, pa.string(), from_pandas=True)
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
