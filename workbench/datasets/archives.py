"""Archives: unpack them into the cache, or read them from front to back, as novels are."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from workbench.storage import cache
from workbench.storage.errors import reading
from workbench.storage.files import temporary_folder
from workbench.storage.paths import cache_home

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")

_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open, b"BZ": bz2.open}
_ZSTANDARD, _LOCAL_HEADER = 93, 30  # a method of compression in a zip file; bytes before each file in it
_AGAIN = "remove it and fetch it again"


def is_archive(path: Path | str) -> bool:
    """Return whether a file is an archive, by its name."""
    return str(path).lower().endswith(ARCHIVES)


@dataclass(frozen=True)
class Member:
    """One file inside an archive; to be read before the next one is asked for."""

    archive: str
    name: str
    stream: IO[bytes]

    def read(self) -> bytes:
        """Return the content."""
        with _undamaged(self.archive):
            return self.stream.read()


def members(archive: Path | IO[bytes], name: str | None = None) -> Iterator[Member]:
    """Yield the regular files of a tar or zip file in order; nothing is written to disk.

    `archive` is a path, or a stream of a plain tar (a file may be packed by gzip, xz or bzip2), and `name`
    what messages call it. DataError if it is not an archive, damaged or truncated.
    """
    name = name or str(archive)
    with _undamaged(name):
        if not isinstance(archive, Path):
            yield from _tar(archive, name)
            return
        with archive.open("rb") as raw:
            if _begins(raw) == b"PK":
                yield from _zip(raw, name)
            else:
                with _decompressed(raw) as stream:
                    yield from _tar(stream, name)


def _begins(raw: IO[bytes]) -> bytes:
    """Return the first two bytes of a file, which tell its form; it is then at its beginning again."""
    start = raw.read(2)
    raw.seek(0)
    return start


def _decompressed(raw: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    """Open a tar file that may be packed by gzip, xz or bzip2."""
    opener = _OPENERS.get(_begins(raw), nullcontext)
    return opener(raw)  # type: ignore[no-any-return]


def _zip(raw: IO[bytes], name: str) -> Iterator[Member]:
    with zipfile.ZipFile(raw) as packed:
        for entry in packed.infolist():
            if not entry.is_dir():
                is_zstandard = entry.compress_type == _ZSTANDARD
                with _open_zstandard(raw, entry) if is_zstandard else packed.open(entry) as stream:
                    yield Member(name, entry.filename, stream)


def _open_zstandard(raw: IO[bytes], entry: zipfile.ZipInfo) -> IO[bytes]:
    """Open a file in a zip that is compressed with Zstandard, which Python's own reader does not know."""
    raw.seek(entry.header_offset)
    header = raw.read(_LOCAL_HEADER)
    if header[:4] != b"PK\3\4" or entry.flag_bits & 1:
        raise ValueError(f"{entry.filename!r} in it is encrypted or has no header")
    raw.seek(sum(struct.unpack("<HH", header[26:30])), os.SEEK_CUR)  # its name, and what is added to it
    with pa.input_stream(pa.py_buffer(raw.read(entry.compress_size)), compression="zstd") as stream:
        content = stream.read()
    if zlib.crc32(content) != entry.CRC:
        raise ValueError(f"{entry.filename!r} in it has another checksum")
    return io.BytesIO(content)


def _tar(raw: IO[bytes], name: str) -> Iterator[Member]:
    with _open_tar(raw) as tar:
        for entry in tar:
            tar.members = []  # type: ignore[attr-defined]  # the list would hold 380,000 of CNN's questions
            content = tar.extractfile(entry) if entry.isreg() else None
            if content is not None:
                with content:
                    yield Member(name, entry.name, content)


def _open_tar(raw: IO[bytes]) -> tarfile.TarFile:
    stream: Any = _CompleteStream(raw)
    return tarfile.open(fileobj=stream, mode="r:", errors="replace", encoding="utf-8")


class _CompleteStream:
    """The stream that tarfile reads; EOFError if it ends before the end mark, which tarfile overlooks."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self.seek, self.tell, self.seekable = raw.seek, raw.tell, raw.seekable

    def read(self, size: int) -> bytes:
        data = self._raw.read(size)
        if len(data) < size:
            raise EOFError("it ends too early")
        return data


def _undamaged(name: str) -> AbstractContextManager[None]:
    return reading(name, "this archive is damaged or cut short and", hint="download it again")


def unpacked(archive: Path) -> Path:
    """Return the folder with the files of an archive, which is unpacked once into the cache.

    Tar files in it are left out: LAMBADA's novels are read where they are. DataError if the archive is
    damaged, or holds a path that leads out of the folder.
    """
    with reading(archive, "this archive"):
        key = cache.fingerprint([archive], archive.parent)
    home = cache_home() / "releases"
    folder = home / key
    if not folder.is_dir():
        with temporary_folder(home) as space:
            out = space / key / archive.name
            out.mkdir(parents=True)
            with reading(archive, "this archive is damaged, unsafe or cut short and", hint=_AGAIN):
                _extract(archive, out)
            os.sync()  # once, where each of CNN's 380,000 files would take minutes
            with suppress(OSError):  # another process was faster
                (space / key).rename(folder)
        cache.make_room()
    cache.touch(folder)
    return folder / archive.name


def _extract(archive: Path, out: Path) -> None:
    """Write the files of an archive, but for tar files in it; an error if a path leads out of the folder."""
    with archive.open("rb") as raw:
        if _begins(raw) != b"PK":
            with _decompressed(raw) as stream, _open_tar(stream) as tar:
                tar.extractall(
                    out, (entry for entry in tar if not entry.name.endswith(".tar")), filter="data"
                )
            return
    with zipfile.ZipFile(archive) as packed:
        names = [name for name in packed.namelist() if not name.endswith(".tar")]
        for name in names:
            if not (out / name).resolve().is_relative_to(out.resolve()):
                raise ValueError(f"{name!r} in it leads out of the folder")
        packed.extractall(out, names)  # noqa: S202 - the paths are checked above
