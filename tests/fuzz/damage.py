"""Damage files; every change is drawn by a `random.Random`, so that a seed repeats it.

A packed file (gzip, zip, tar, parquet, npy, safetensors, JSON) is damaged outside, in its bytes, or inside:
its content is changed and packed again as a valid file.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import struct
import tarfile
import zipfile
from contextlib import suppress
from functools import partial

import builders
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SPECIAL = [
    b"\0", b"\r", b"\r\n", b"\n\n", b"\t", b"\x0c", b"\x1a", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\xa8",
    b"\xc2\x85", b"'" * 40, b'"', b"``", b"''", b"...", b"_____", b"XXXXX", b"@placeholder", b"@entity9",
    b"|", b",", b";", b"\\", b"[", b"{", b"9" * 400, b"-1", b"1e999", b"NaN", b"../", b"<script>", b"=1+1",
    "\u00e9\U0001f642".encode(), b"\xed\xa0\x80", b"\xc3", b"%s", b" ", b"null", b"[" * 100_000,
    *(struct.pack("<Q", number) for number in (0, 1, 2**31 - 1, 2**32 - 1, 2**62, 2**64 - 1)),
]  # fmt: skip
VALUES = [
    None, True, False, "", "x", "../x", "/dev/zero", "\0", "\ud800", [], {}, [[]], {"a": 1}, ["x", 1],
    0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, float("nan"), float("inf"), 1e308,
]  # fmt: skip
ENCODINGS = ["utf-16", "utf-8-sig", "cp1252", "utf-32", "cp500"]


def damage(folder, rng):
    """Change one or two files of a folder, or what they are."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for file in rng.sample(files, min(len(files), rng.choice([1, 1, 1, 2]))):
        if rng.random() > 0.08:
            file.write_bytes(changed(file.read_bytes(), file.name, rng))
            continue
        file.unlink()
        turn = rng.randrange(5)
        if turn == 0:
            file.mkdir()
        elif turn == 1:
            os.mkfifo(file)
        elif turn < 4:
            file.symlink_to(file.name if turn == 2 else "/dev/zero")


def changed(data, name, rng):
    """Return the bytes of a file, changed: by its kind, which its name tells, or as mere bytes."""
    inside = next((inside for ending, inside in PACKED.items() if name.endswith(ending)), None)
    if inside is not None and rng.random() < 0.6:
        return inside(data, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data = spliced(data, rng)
    return data


def spliced(data, rng):
    """Return bytes with a span of them, or a line, removed, repeated, overwritten or written otherwise."""
    start = rng.randrange(len(data) + 1)
    end = min(len(data), start + rng.choice([0, 1, 1, 4, 8, 30, 5000, len(data)]))
    if rng.random() < 0.4:
        start = data.rfind(b"\n", 0, start) + 1
        end = data.find(b"\n", start) + 1 or len(data)
    old = data[start:end]
    new = rng.choice([
        b"", b"", old * 2, old * 30, old[::-1], bytes(len(old)), b"\xff" * len(old), rng.randbytes(len(old)),
        rng.choice(SPECIAL), rng.choice(SPECIAL) + old, bytes(byte ^ 1 << rng.randrange(8) for byte in old),
        old.decode("latin-1").encode(rng.choice(ENCODINGS), "replace"),
        old.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8", b""])),
    ])  # fmt: skip
    return data[:start] + new + data[end:]


def places(value, path=()):
    """Yield the path to every value within a JSON value."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from places(part, (*path, key))


def altered(value, rng):
    """Return a JSON value with a part replaced, removed, renamed or nested."""
    value = json.loads(json.dumps(value, default=str))
    path = rng.choice([path for path in places(value) if path] or [()])
    if not path:
        return {"a": value}
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    key = path[-1]
    old, turn = parent.pop(key), rng.randrange(6)
    if turn == 1 and isinstance(parent, dict):
        parent[rng.choice(["x", "", "trust_remote_code", f"{key} "])] = old
    elif turn:
        new = rng.choice([*VALUES, [old], {"0": old}, str(old)])
        if turn > 3 and isinstance(old, int | float):
            new = rng.choice([old + 1, -old, old * 2])
        elif turn > 3 and isinstance(old, str | list) and old:
            new = rng.choice([old[:-1], old[1:], old * 2, old[::-1]])
        parent.insert(key, new) if isinstance(parent, list) else parent.update({key: new})
    return value


def json_bytes(data, rng):
    value = altered(json.loads(data) if data else {}, rng)
    return json.dumps(value, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def json_lines(data, rng):
    lines = data.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join([*lines[:at], json_bytes(lines[at], rng), *lines[at + 1 :]])


def compressed(library, data, rng):
    content = library.decompress(data)
    return library.compress(changed(content, "x.tar" if content[257:262] == b"ustar" else "x", rng))


def zipped(data, rng):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return builders.zipped(other_members(members, rng))


def tar(data, rng):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = {entry.name: archive.extractfile(entry).read() for entry in archive if entry.isfile()}
    members = other_members(members, rng)
    if rng.random() < 0.1:
        special = tarfile.TarInfo()
        special.type = rng.choice([tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.SYMTYPE])
        special.linkname = rng.choice([*members, "/dev/zero"])
        members[rng.choice([*members, "x"])] = special
    return builders.tar(members, "w")


def other_members(members, rng):
    """Return members of an archive with one of them renamed, removed or changed."""
    name = rng.choice([*members])
    content, turn = members.pop(name), rng.randrange(4)
    if turn == 0:
        name = rng.choice(
            ["x", name.upper(), f"../../{name}", f"/etc/{name}", name * 40, f"{name}/", "\u00e9"]
        )
    return members | ({} if turn == 1 else {name: content if turn == 0 else changed(content, name, rng)})


def parquet(data, rng):
    """Write the table again with a column or the metadata changed."""
    table = pq.read_table(pa.BufferReader(data))
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"pandas"}
    at, turn = rng.randrange(table.num_columns), rng.randrange(7)
    name, column = table.column_names[at], table.column(at)
    if turn == 0:
        table = table.remove_column(at)
    elif turn == 1:
        table = table.append_column(name, column)
    elif turn == 2:
        rows = [rng.randrange(len(table)) for _ in range(len(table) * rng.randrange(3))]
        table = table.take(pa.array(rows, pa.int64()))  # with a type: there may be none
    elif turn == 3 and metadata:
        key = rng.choice(sorted(metadata))
        metadata[key] = changed(metadata[key], "x.json" if metadata[key][:1] in b"{[" else "x", rng)
    elif turn == 4:
        types = [column.type, pa.binary(), pa.int64(), pa.timestamp("ns"), pa.list_(pa.string()), pa.null()]
        table = table.set_column(at, name, pa.nulls(len(table), rng.choice(types)))
    else:
        values = [
            altered({"a": value}, rng).get("a") if rng.random() < 0.3 else value
            for value in column.to_pylist()
        ]
        array = pa.array([str(value).encode("utf-8", "replace") for value in values], pa.binary())
        with suppress(pa.ArrowException, IndexError, TypeError, ValueError, OverflowError):
            array = pa.array(values, column.type)
        table = table.set_column(at, name, array)
    out = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata or None), out)
    return out.getvalue()


def npy(data, rng):
    array = np.load(io.BytesIO(data)).copy()
    turn = rng.randrange(5)
    if turn == 0 and array.size:
        array.flat[rng.randrange(array.size)] = rng.choice([0, 1, 7, 100])
    elif turn == 1 and array.ndim:
        array = array[rng.sample(range(len(array)), len(array) // rng.choice([1, 2]))]
    elif turn == 2 and not array.dtype.names:
        array = array.astype(rng.choice(["<f4", "<f8", "<i4", "<u1", ">i8", "?", "S1"]))
    elif turn == 3:
        array = array[None]
    else:
        array = np.zeros(rng.choice([(), (0,), (3,), (2, 2)]), array.dtype)
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def safetensors(data, rng):
    """Change the header or the numbers of a file of tensors."""
    (size,) = struct.unpack("<Q", data[:8])
    header, body = data[8 : 8 + size], data[8 + size :]
    if rng.random() < 0.5:
        return data[: 8 + size] + spliced(body, rng)[: len(body)]
    header = json_bytes(header, rng)
    return struct.pack("<Q", len(header)) + header + body


PACKED = {
    ".gz": partial(compressed, gzip), ".xz": partial(compressed, lzma), ".bz2": partial(compressed, bz2),
    ".zip": zipped, ".epub": zipped, ".tar": tar, ".parquet": parquet, ".npy": npy,
    ".safetensors": safetensors, ".json": json_bytes, ".jsonl": json_lines,
}  # fmt: skip
