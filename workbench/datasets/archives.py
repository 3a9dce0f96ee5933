"""Archives: read them from front to back without unpacking, or unpack them without trusting them."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import io
import lzma
import os
import re
import shutil
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from workbench.storage import files
from workbench.storage.errors import DataError, reading
from workbench.storage.files import atomic_folder, scratch_folder
from workbench.storage.sealed import sha256

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")

_LONGEST_HEADER = 1 << 24
_LZMA_MEMORY = 1 << 28  # bytes; `xz -9` needs a quarter
_HEADER = 512  # bytes of a header of a tar file
_ZSTANDARD, _LOCAL_HEADER = 93, 30  # a method of compression in a zip file; bytes before each file in it
_RATIO = 50  # text is packed to a fifth or a tenth; small files may hold `MAX_IN_MEMORY` all the same
_BLOCK = 1 << 16
_AGAIN = "remove it and fetch it again"


def is_archive(path: Path | str) -> bool:
    """Return whether a file is an archive, by its name."""
    return str(path).lower().endswith(ARCHIVES)


@dataclass(frozen=True)
class Member:
    """One file inside an archive; to be read before the next one is asked for."""

    archive: str
    name: str
    size: int
    stream: IO[bytes]
    digests: dict[str, bytes]

    def read(self) -> bytes:
        """Return the content; DataError if it is too large, or differs from an entry of the same name."""
        if self.size > files.MAX_IN_MEMORY:
            raise files.too_large(f"{self.archive}/{self.name}", files.MAX_IN_MEMORY)
        with _undamaged(self.archive):
            content = b"".join(iter(partial(self.stream.read, _BLOCK), b""))
        digest = hashlib.sha256(content).digest()
        if self.digests.setdefault(self.name, digest) != digest:
            problem = f"it holds {self.name} twice, with different contents"
            raise DataError(problem, file=self.archive, remedy="pass the file you mean, unpacked")
        return content


def members(archive: Path | IO[bytes], name: str | None = None) -> Iterator[Member]:
    """Yield the regular files of a tar or zip file in order; nothing is written to disk.

    `archive` is a path, or a stream of a plain tar (a file may be packed by gzip, xz or bzip2), and `name`
    what messages call it. DataError if it is not an archive, damaged or truncated, or holds far more than its
    size lets expect.
    """
    name = name or str(archive)
    digests: dict[str, bytes] = {}
    with _undamaged(name):
        # what a stream holds is counted where it comes from
        for entry in _bounded(archive) if isinstance(archive, Path) else _tar(archive):
            if entry.file_type == "file":
                with entry.open() as stream:
                    yield Member(name, entry.name, entry.size, stream, digests)


@dataclass(frozen=True)
class _Entry:
    """One entry of an archive; its type is "file", "folder", or "other" for links and devices."""

    name: str
    size: int
    file_type: str
    open: Callable[[], IO[bytes]]


def _bounded(archive: Path) -> Iterator[_Entry]:
    """Yield the entries of an archive; DataError if it holds far more than its size lets expect."""
    limit = max(files.MAX_IN_MEMORY, archive.stat().st_size * _RATIO)
    size = 0
    for entry in _entries(archive):
        size += entry.size + _HEADER
        if size > limit:
            raise files.too_large(archive, limit)
        yield entry


def _entries(archive: Path) -> Iterator[_Entry]:
    openers: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7": _open_xz, b"BZ": bz2.open}
    with files.open_regular(archive) as raw:
        start = raw.read(2)
        raw.seek(0)
        if start == b"PK":
            yield from _zip(raw)
        elif start in openers:
            with openers[start](raw) as stream:
                yield from _tar(stream)
        else:
            yield from _tar(raw)


def _open_xz(raw: IO[bytes]) -> Any:
    """Open an xz file, which may ask for 4 GB, with a bound on memory; `lzma.open` has no option for it."""
    file: Any = lzma.LZMAFile(raw)  # noqa: SIM115 - the caller closes it
    reader = file._buffer.raw  # noqa: SLF001
    reader._decomp_args["memlimit"] = _LZMA_MEMORY  # noqa: SLF001 - for each further stream in the file
    reader._decompressor = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)  # noqa: SLF001
    return file


def _zip(raw: IO[bytes]) -> Iterator[_Entry]:
    types = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    with zipfile.ZipFile(raw) as packed:
        for entry in packed.infolist():
            if entry.compress_type == zipfile.ZIP_LZMA:
                raise ValueError("it is compressed with LZMA, expected deflate")  # whose memory has no bound
            mode = stat.S_IFMT(entry.external_attr >> 16)
            file_type = "folder" if entry.is_dir() else types.get(mode, "other")
            zstandard = entry.compress_type == _ZSTANDARD
            opener: Any = partial(_open_zstandard, raw, entry) if zstandard else partial(packed.open, entry)
            yield _Entry(entry.filename, entry.file_size, file_type, opener)


def _open_zstandard(raw: IO[bytes], entry: zipfile.ZipInfo) -> IO[bytes]:
    """Open a file in a zip that is compressed with Zstandard, which Python's own reader does not know."""
    if entry.file_size > files.MAX_IN_MEMORY:
        raise files.too_large(entry.filename, files.MAX_IN_MEMORY)
    raw.seek(entry.header_offset)
    header = raw.read(_LOCAL_HEADER)
    if header[:4] != b"PK\3\4" or entry.flag_bits & 1:
        raise ValueError(f"{entry.filename!r} in it is encrypted or has no header")
    raw.seek(sum(struct.unpack("<HH", header[26:30])), os.SEEK_CUR)  # its name, and what is added to it
    with pa.input_stream(pa.py_buffer(raw.read(entry.compress_size)), compression="zstd") as stream:
        content = stream.read(entry.file_size + 1)
    if len(content) != entry.file_size or zlib.crc32(content) != entry.CRC:
        raise ValueError(f"{entry.filename!r} in it has another size or checksum")
    return io.BytesIO(content)


def _tar(raw: IO[bytes]) -> Iterator[_Entry]:
    stream: Any = _Stream(raw)
    with tarfile.open(fileobj=stream, mode="r:", errors="replace", encoding="utf-8") as tar:
        for entry in tar:
            tar.members = []  # type: ignore[attr-defined]  # the list would grow with the archive
            if entry.size < 0:
                raise ValueError(f"{entry.name!r} in it has {entry.size} bytes")
            file_type = "file" if entry.isreg() else "folder" if entry.isdir() else "other"
            opener: Any = partial(tar.extractfile, entry)  # None for what is not a file
            yield _Entry(entry.name, entry.size, file_type, opener)


class _Stream:
    """The stream that tarfile reads: it must not end before the end mark, nor hold a huge header."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.seek, self.tell, self.seekable = raw.seek, raw.tell, raw.seekable

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise ValueError(f"a header in it has {size:,} bytes")
        data = self._raw.read(size)
        if len(data) < size:  # tarfile takes a header that is cut short for the end
            raise EOFError("it ends too early")
        return data


def _undamaged(name: str) -> AbstractContextManager[None]:
    return reading(name, "this archive is damaged or cut short and", remedy="download it again")


def unpacked_folder(archive: Path) -> Path:
    """Return the folder that has the files of an archive without a common folder, beside it."""
    return archive.with_name(archive.name.partition(".")[0])


def unpack(archive: Path, sums: Mapping[str, str]) -> Path:
    """Unpack a tar or zip file beside itself, completely or not at all, and return the folder of its files.

    The folder is named as the archive's only folder or else as the archive; an existing one is replaced.
    `sums` has the sha256 of some files. DataError if one differs, or the archive is damaged, holds far more
    than its size lets expect, a link, a device, or a name that leads out of the folder. One process at a time
    may unpack into a folder.
    """
    with scratch_folder(archive.parent) as space:
        out = space / unpacked_folder(archive).name
        out.mkdir()
        with reading(archive, "this archive is damaged, unsafe or cut short and", remedy=_AGAIN):
            for entry in _bounded(archive):
                _extract(entry, out)
        for name, expected in sums.items():
            digest = sha256(out / name) if (out / name).is_file() else "missing"
            if digest != expected:
                problem = f"the sha256 of {name} in it is {digest}, expected {expected}"
                raise DataError(problem, file=archive, remedy=_AGAIN)
        tops = list(out.iterdir())
        source = tops[0] if len(tops) == 1 and tops[0].is_dir() else out
        target = archive.parent / source.name
        with atomic_folder(target, replace=True) as new:
            new.rmdir()
            source.rename(new)
    return target


def _extract(entry: _Entry, out: Path) -> None:
    """Write an entry of an archive into a folder; ValueError if it leads out or is a link or device."""
    # `filter="data"` of tarfile does the same for tar files, but puts absolute names inside and allows links
    name = entry.name.replace("\\", "/")
    if name.startswith("/") or ".." in name.split("/") or re.match(r"[A-Za-z]:", name):
        raise ValueError(f"{entry.name!r} in it leads out of the folder")
    if entry.file_type == "other":
        raise ValueError(f"{entry.name!r} in it is a link or a device")
    path = out / entry.name
    if entry.file_type == "folder":
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with entry.open() as content, path.open("wb") as file:
        shutil.copyfileobj(content, file, _BLOCK)
