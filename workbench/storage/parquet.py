"""Parquet files, read within a bound: a few kilobytes of them can stand for terabytes."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from workbench.storage import files
from workbench.storage.errors import DataError, reading

_ROWS = 1 << 16
_FIXED = 1 << 24  # most bytes of a column of a fixed width that are decoded at a time
_REFERENCE = 8  # bytes that a value takes at least, once Python has it
_FOOTER, _HEADER = 1 << 22, 1 << 20  # most bytes of the description of all columns, and of a page


def read_parquet(
    file: Path | str,
    columns: Sequence[str] | None = None,
    *,
    data: bytes | None = None,
    what: str = "this Parquet file",
    remedy: str | None = None,
    limit: int | None = None,
) -> pa.Table:
    """Return the table in a Parquet file; text that is stored as a dictionary is plain text.

    Parameters
    ----------
    file : path
        A regular file; with `data`, its name for messages.
    columns : sequence of str, optional
        The columns to read, all by default; they come in the order of the file.
    data : bytes, optional
        The content of the file, where it is in memory already.
    what, remedy : str
        What the file is and what to do, for the DataError if it cannot be read.
    limit : int, optional
        Most bytes that the table may take; `workbench.storage.files.MAX_IN_MEMORY` by default.
    """
    limit = files.MAX_IN_MEMORY if limit is None else limit
    with reading(file, what, remedy=remedy):
        data = files.read_bytes(file, what) if data is None else data
        return pa.Table.from_batches(list(_batches(file, data, columns, _ROWS, limit, at_once=True)))


def iter_parquet(
    file: Path | str,
    columns: Sequence[str] | None = None,
    *,
    rows: int = _ROWS,
    what: str = "this Parquet file",
    remedy: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the table in a Parquet file in batches; the bound holds for each of them."""
    with reading(file, what, remedy=remedy):
        data = files.read_bytes(file, what)
        yield from _batches(file, data, columns, rows, files.MAX_IN_MEMORY, at_once=False)


def _batches(
    file: Path | str, data: bytes, columns: Sequence[str] | None, rows: int, limit: int, *, at_once: bool
) -> Iterator[pa.RecordBatch]:
    """Yield at least one batch; what is larger than the limit, at once or by batch, raises an error."""
    sizes = _page_sizes(memoryview(data), columns)
    if (sum(sizes) if at_once else max(sizes, default=0)) > limit:
        raise files.too_large(file, limit)
    metadata = pq.read_metadata(pa.BufferReader(data))
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    table = pq.ParquetFile(
        pa.BufferReader(data),
        metadata=metadata,
        read_dictionary=[leaf.path for leaf in leaves],  # it may hold a long text once that is meant often
        arrow_extensions_enabled=False,
    )
    fields = [field for field in table.schema_arrow if columns is None or field.name in columns]
    names = [field.name for field in fields]
    if lacking := set(columns or ()) - set(names):
        raise DataError(f"it lacks the column {min(lacking)}", file=file)
    schema = pa.schema([f.with_type(_plain(f.type)) for f in fields], table.schema_arrow.metadata)
    yield pa.RecordBatch.from_pylist([], schema)
    rows = min([rows, *(max(1, _FIXED // leaf.length) for leaf in leaves if leaf.length > 0)])
    size = 0
    for group in range(metadata.num_row_groups):  # Arrow does not join dictionaries of groups inside lists
        for batch in table.iter_batches(rows, [group], names, use_threads=False):
            batch.validate(full=True)
            size = _size(batch) + (size if at_once else 0)
            if size > limit:
                raise files.too_large(file, limit)
            yield batch.cast(schema)


def _page_sizes(data: memoryview, columns: Sequence[str] | None) -> list[int]:
    """Return the bytes that each page of some columns takes at least, once it is read.

    Arrow ends the process where the description of a column is missing, and a page of a few bytes may hold
    billions of values; so what Arrow will read is looked up before.
    """
    end = len(data) - 8
    length = int.from_bytes(data[-8:-4], "little")
    if bytes(data[-4:]) != b"PAR1" or length > end:
        raise ValueError("not a valid Parquet file")
    if length > _FOOTER:
        raise ValueError(f"its columns are described in {length:,} bytes, expected at most {_FOOTER:,}")
    sizes = []
    for chunk in (chunk[3] for group in _Thrift(data[end - length : end]).struct()[4] for chunk in group[1]):
        place, values = min(chunk[9], chunk.get(11) or chunk[9]), 0
        while values < chunk[5] and (columns is None or str(chunk[3][0], "utf-8") in columns):
            thrift = _Thrift(data[place : place + _HEADER])
            header = thrift.struct()
            place += thrift.tell() + max(header[3], 0)
            count = header.get(5, header.get(8, {1: 0}))[1]
            values += count
            sizes.append(max(header[2], (count or header.get(7, {1: 0})[1]) * _REFERENCE))
    return sizes


class _Thrift(io.BytesIO):
    """Values in Thrift's compact protocol, read one after another."""

    def struct(self) -> dict[int, Any]:
        """Return the fields of a structure by their numbers."""
        fields: dict[int, Any] = {}
        number = 0
        while head := self.read(1)[0]:
            number = number + (head >> 4) if head >> 4 else self.varint() >> 1
            fields[number] = self.value(head & 15)
        return fields

    def varint(self) -> int:
        number = 0
        for shift in range(0, 70, 7):
            byte = self.read(1)[0]
            number |= (byte & 127) << shift
            if byte == byte & 127:
                return number
        raise ValueError("a number has more than 64 bits")

    def value(self, kind: int) -> Any:
        match kind:
            case 1 | 2:
                return kind == 1
            case 3:
                return self.read(1)[0]
            case 4 | 5 | 6:
                number = self.varint()
                return number >> 1 ^ -(number & 1)
            case 7 | 8:
                return self.read(8 if kind == 7 else self.varint())  # noqa: PLR2004 - a double; else text
            case 9 | 10:
                head = self.read(1)[0]
                size = self.varint() if head >= 0xF0 else head >> 4  # noqa: PLR2004 - four bits say "longer"
                return [self.value(max(head & 15, 3)) for _ in range(size)]  # True takes a byte here
            case 12:
                return self.struct()
        raise ValueError("not a valid Parquet file")


def _plain(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column without dictionaries."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if not pa.types.is_nested(kind):
        return kind
    field = kind.value_field.with_type(_plain(kind.value_type))
    if pa.types.is_large_list(kind):
        return pa.large_list(field)
    return pa.list_(field, kind.list_size if pa.types.is_fixed_size_list(kind) else -1)


def _size(values: pa.RecordBatch | pa.Array) -> int:
    """Return the bytes that values take without their dictionaries."""
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
