"""Damage files: every change is drawn by a `random.Random`, so that a seed repeats it.

A packed file (gzip, xz, zip, tar, parquet, npy, safetensors) is damaged outside, in its bytes, or inside: its
content is changed and packed again as a valid file.
"""

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SPECIAL = [
    b"\0", b"\r", b"\r\n", b"\n\n", b"\t", b"\x0c", b"\x1a", b"\xef\xbb\xbf", b"\xff\xfe", b"\xe2\x80\xa8",
    b"\xc2\x85", b"'" * 40, b'"', b"``", b"''", b"...", b"_____", b"XXXXX", b"@placeholder", b"@entity9",
    b"|", b",", b";", b"\\", b"[", b"{", b"9" * 400, b"-1", b"1e999", b"NaN", b"../", b"<script>", b"=1+1",
    "\u00e9\U0001f642".encode(), b"\xed\xa0\x80", b"\xc3", b"%s", b" ",
]  # fmt: skip
NUMBERS = [0, -1, 1, 2**31, 2**63, -(2**63), 2**64, 10**30, 0.5, -0.0, float("nan"), float("inf"), 1e308]
WORDS = ["", "x", "../x", "/dev/zero", "\0", "\ud800"]
VALUES = [None, True, False, *WORDS, [], {}, [[]], {"a": 1}, ["x", 1], *NUMBERS]
ENCODINGS = ["utf-16", "utf-8-sig", "cp1252", "utf-32", "cp500"]
FILES = [b"", b"\n", b"null", b"[]", b"{}", b"PAR1PAR1", b"[" * 200_000]


def mutate(data, name, rng):
    """Return the bytes of a file, changed: by its kind, which its name tells, or as mere bytes."""
    packed = next((inside for ending, inside in PACKED.items() if name.endswith(ending)), None)
    if packed is not None and rng.random() < 0.6:
        return packed(data, rng)
    if name.endswith(".json") and rng.random() < 0.6:
        return json_bytes(altered(json.loads(data), rng), rng)
    if name.endswith(".jsonl") and rng.random() < 0.6:
        lines = data.split(b"\n")
        at = rng.randrange(len(lines))
        value = json.loads(lines[at]) if lines[at] else {}
        lines[at] = json_bytes(altered(value, rng), rng)
        return b"\n".join(lines)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        data = rng.choice(BYTES if packed or b"\n" not in data else BYTES + TEXT)(data, rng)
    return data


def mutate_folder(folder, rng):
    """Change one or two files of a folder, or what they are."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    for file in rng.sample(files, min(len(files), rng.choice([1, 1, 1, 2]))):
        if rng.random() > 0.08:
            file.write_bytes(mutate(file.read_bytes(), file.name, rng))
            continue
        content = rng.choice(files).read_bytes() if all(path.is_file() for path in files) else b""
        file.unlink()
        turn = rng.randrange(6)
        if turn == 0:
            file.mkdir()
        elif turn == 1:
            os.mkfifo(file)
        elif turn == 2:
            file.symlink_to(file.name)
        elif turn == 3:
            file.symlink_to("/dev/zero")
        elif turn == 4:
            file.write_bytes(content)


def _flip(data, rng):
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _cut(data, rng):
    return data[: rng.randrange(len(data) + 1)]


def _span(data, rng):
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice([1, 2, 4, 8, 30, 200, 5000]))


def _delete(data, rng):
    start, end = _span(data, rng)
    return data[:start] + data[end:]


def _double(data, rng):
    start, end = _span(data, rng)
    return data[:end] + data[start:end] * rng.choice([1, 1, 3, 50]) + data[end:]


def _swap(data, rng):
    (a, b), (c, d) = sorted([_span(data, rng), _span(data, rng)])
    return data if c < b else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _insert(data, rng):
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(SPECIAL) * rng.choice([1, 1, 1, 30]) + data[at:]


def _overwrite(data, rng):
    start, end = _span(data, rng)
    fill = rng.choice([bytes(end - start), b"\xff" * (end - start), rng.randbytes(end - start)])
    return data[:start] + fill + data[end:]


def _whole_number(data, rng):
    """Write a number of 4 or 8 bytes, as lengths and offsets of binary formats are."""
    number = rng.choice([0, 1, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**64 - 1])
    code = rng.choice(["<I", "<Q", ">I"])
    at = rng.randrange(len(data) + 1)
    bits = struct.pack(code, number & (2 ** (8 * struct.calcsize(code)) - 1))
    return data[:at] + bits + data[at + len(bits) :]


def _lines(change):
    def on_lines(data, rng):
        lines = data.split(b"\n")
        change(lines, rng.randrange(len(lines)), rng.randrange(len(lines)), rng)
        return b"\n".join(lines)

    return on_lines


def _swap_lines(lines, one, other, _rng):
    lines[one], lines[other] = lines[other], lines[one]


def _in_line(lines, at, _other, rng):
    line, special = lines[at], rng.choice(SPECIAL)
    place = rng.randrange(len(line) + 1)
    lines[at] = rng.choice([line[:place] + special + line[place:], line + special, line[:place]])


def _encode_line(lines, at, _other, rng):
    lines[at] = lines[at].decode("latin-1").encode(rng.choice(ENCODINGS), "replace")


def _split_line(lines, at, _other, rng):
    line = lines[at]
    place = rng.randrange(len(line) + 1)
    lines[at : at + 1] = [line[:place], line[place:]]


def _encode(data, rng):
    return data.decode("utf-8", "replace").encode(rng.choice(ENCODINGS), "replace")


def _line_ends(data, rng):
    return data.replace(b"\n", rng.choice([b"\r\n", b"\r", b"\n\n", b"\x0b", b"\xe2\x80\xa8", b""]))


def _anything(_data, rng):
    return rng.choice([*FILES, rng.randbytes(rng.randrange(300))])


BYTES = [_flip, _flip, _flip, _cut, _delete, _double, _swap, _insert, _overwrite, _whole_number, _anything]
TEXT = [
    _lines(_swap_lines), _lines(lambda lines, at, other, _: lines.insert(at, lines[other])),
    _lines(lambda lines, at, *_: lines.pop(at)), _lines(_in_line), _lines(_in_line), _lines(_encode_line),
    _lines(_split_line), _encode, _line_ends,
]  # fmt: skip


def places(value, path=()):
    """Yield the path to every value within a JSON value."""
    yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inside:
        yield from places(part, (*path, key))


def altered(value, rng):
    """Return a JSON value with a part replaced, removed, doubled or nested."""
    value = json.loads(json.dumps(value, default=str))
    path = rng.choice(list(places(value)))
    if not path:
        return rng.choice([*VALUES, [value], {"a": value}])
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    key, old, turn = path[-1], parent[path[-1]], rng.randrange(8)
    if turn == 0:
        del parent[key]
    elif turn == 1 and isinstance(parent, dict):
        parent[rng.choice(["x", "", "trust_remote_code", f"{key} "])] = parent.pop(key)
    elif turn == 2:
        parent[key] = rng.choice([[old], {"0": old}, str(old)])
    elif turn == 3 and isinstance(old, int | float):
        parent[key] = rng.choice([old + 1, -old, old * 2, *NUMBERS])
    elif turn == 4 and isinstance(old, str):
        parent[key] = rng.choice([old[:-1], old + "x", old.upper(), old * 2, old[::-1]])
    elif turn == 5 and isinstance(old, list) and old:
        parent[key] = rng.choice([old[1:], old + old[:1], old[::-1]])
    else:
        parent[key] = rng.choice(VALUES)
    return value


def json_bytes(value, rng):
    """Return JSON, now and then nested too deep, or with a key twice."""
    text = json.dumps(value, ensure_ascii=rng.random() < 0.5)
    if rng.random() < 0.04:
        deep = rng.choice(['{"a":', "["]) * 100_000
        text = rng.choice([deep, text.replace("{", '{"model": 1,', 1)])
    return text.encode("utf-8", "surrogatepass")


def _compressed(library):
    def inside(data, rng):
        content = library.decompress(data)
        return library.compress(mutate(content, "x.tar" if content[257:262] == b"ustar" else "x", rng))

    return inside


def _zip(data, rng):
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in _members(members, rng):
            archive.writestr(name or "x", content)
    return out.getvalue()


def _tar(data, rng):
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        members = [(entry.name, archive.extractfile(entry).read()) for entry in archive if entry.isfile()]
    out = io.BytesIO()
    with tarfile.open(
        fileobj=out, mode="w", format=rng.choice([tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
    ) as new:
        for name, content in _members(members, rng):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            if rng.random() < 0.05:
                entry.type, entry.linkname = (
                    rng.choice([tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.SYMTYPE]),
                    name,
                )
            new.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def _members(members, rng):
    """Change the content or the name of a member, or how often it is there."""
    at = rng.randrange(len(members))
    name, content = members[at]
    turn = rng.randrange(5)
    if turn == 0:
        names = [
            "",
            "x",
            name.upper(),
            f"../../{name}",
            f"/etc/{name}",
            name * 40,
            f"{name}/",
            "a" * 300,
            "\u00e9",
        ]
        members[at] = rng.choice(names), content
    elif turn == 1:
        members.insert(rng.randrange(len(members) + 1), (name, mutate(content, name, rng)))
    elif turn == 2:
        members.pop(at)
    else:
        members[at] = name, mutate(content, name, rng)
    return members


def _parquet(data, rng):
    """Write the table again with a column or the metadata changed."""
    table = pq.read_table(pa.BufferReader(data))
    metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key != b"pandas"}
    at = rng.randrange(table.num_columns)
    name, column, turn = table.column_names[at], table.column(at), rng.randrange(8)
    if turn == 0:
        table = table.remove_column(at)
    elif turn == 1:
        table = table.append_column(name, column)
    elif turn == 2:
        table = table.set_column(at, name, pa.nulls(len(table), column.type))
    elif turn == 3 and len(table):
        order = [rng.randrange(len(table)) for _ in range(rng.randrange(2 * len(table)))]
        table = table.take(pa.array(order, pa.int64()))
    elif turn == 4 and metadata:
        key = rng.choice(sorted(metadata))
        metadata[key] = mutate(metadata[key], "x.json" if metadata[key][:1] in b"{[" else "x", rng)
    elif turn == 5:
        kinds = [pa.binary(), pa.int64(), pa.float64(), pa.timestamp("ns"), pa.list_(pa.string()), pa.null()]
        table = table.set_column(at, name, pa.nulls(len(table), rng.choice(kinds)))
    else:
        values = [altered([value], rng) if rng.random() < 0.3 else [value] for value in column.to_pylist()]
        try:
            changed = pa.array([value[0] for value in values], column.type)
        except (pa.ArrowException, IndexError, KeyError, TypeError, ValueError, OverflowError):
            changed = pa.array([str(value).encode("utf-8", "replace") for value in values], pa.binary())
        table = table.set_column(at, name, changed)
    out = io.BytesIO()
    compression = rng.choice(["zstd", "none", "snappy"])
    pq.write_table(table.replace_schema_metadata(metadata or None), out, compression=compression)
    return out.getvalue()


def _npy(data, rng):
    array = np.load(io.BytesIO(data)).copy()
    turn = rng.randrange(6)
    if turn == 0 and array.size:
        array.flat[rng.randrange(array.size)] = rng.choice([0, 1, 7, 100])
    elif turn == 1:
        array = array[: len(array) // 2] if array.ndim else array
    elif turn == 2:
        array = array.view("<u4") if array.dtype.names else array  # records are not cast
        array = array.astype(rng.choice(["<f4", "<f8", "<i4", "<u1", ">i8", "?", "S1"]))
    elif turn == 3:
        array = array.reshape(-1)[::-1] if rng.random() < 0.5 else array[None]
    elif turn == 4 and array.size:
        order = rng.sample(range(len(array)), len(array))
        array = array[order]
    else:
        array = np.zeros(rng.choice([(), (0,), (3,), (2, 2)]), array.dtype)
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def _safetensors(data, rng):
    """Change the header or the numbers of a file of tensors."""
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    if rng.random() < 0.5:
        return data[: 8 + size] + _flip(body, rng)
    text = json_bytes(altered(header, rng), rng)
    return struct.pack("<Q", len(text)) + text + body


PACKED = {
    ".tar.gz": _compressed(gzip),
    ".tar.xz": _compressed(lzma),
    ".tar.bz2": _compressed(bz2),
    ".gz": _compressed(gzip),
    ".zip": _zip,
    ".epub": _zip,
    ".tar": _tar,
    ".parquet": _parquet,
    ".npy": _npy,
    ".safetensors": _safetensors,
}


def copied(folder, target):
    """Copy a folder, in place of what is there."""
    shutil.rmtree(target, ignore_errors=True)
    return Path(shutil.copytree(folder, target, symlinks=True))
