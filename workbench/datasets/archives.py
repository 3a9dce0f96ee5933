"""Archives: read them from front to back without unpacking, or unpack them without trusting them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import shutil
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import pooch

from workbench.items.schema import DataError
from workbench.storage.files import atomic_folder, sweep

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")

_BROKEN = (
    EOFError, OSError, zlib.error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile,
    NotImplementedError, RuntimeError, ValueError, LookupError, OverflowError,
)  # fmt: skip
_OPENERS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open, b"BZ": bz2.open}
_LONGEST_HEADER = 1 << 24
_BLOCK = 1 << 16
_SPACE = ".unpacking-"

MAX_BYTES = 8 << 30
"""Largest total size of the files of an archive, unpacked."""
MAX_MEMBERS = 500_000


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
            return b"".join(iter(partial(self.stream.read, _BLOCK), b""))


def members(archive: Path | IO[bytes], name: str | None = None) -> Iterator[Member]:
    """Yield the regular files of an archive in order; nothing is written to disk.

    Parameters
    ----------
    archive : Path or binary stream
        A tar file (plain, gzip, xz or bzip2) or a zip file; a stream must be a plain tar.
    name : str, optional
        Name of the archive in messages.

    Raises
    ------
    DataError
        If it is not an archive, damaged, or truncated.
    """
    name = name or str(archive)
    with _undamaged(name):
        for entry in _entries(archive):
            if entry.kind == "file":
                with entry.open() as stream:
                    yield Member(name, entry.name, stream)


@dataclass(frozen=True)
class _Entry:
    """One entry of an archive; its kind is "file", "folder", or "other" for links and devices."""

    name: str
    size: int
    kind: str
    open: Callable[[], IO[bytes]]


def _entries(archive: Path | IO[bytes]) -> Iterator[_Entry]:
    if not isinstance(archive, Path):
        yield from _tar(archive)
        return
    with archive.open("rb") as raw:
        start = raw.read(2)
        raw.seek(0)
        if start == b"PK":
            yield from _zip(raw)
        elif start in _OPENERS:
            with _OPENERS[start](raw) as stream:
                yield from _tar(stream)
        else:
            yield from _tar(raw)


def _zip(raw: IO[bytes]) -> Iterator[_Entry]:
    kinds = {0: "file", stat.S_IFREG: "file", stat.S_IFDIR: "folder"}
    with zipfile.ZipFile(raw) as packed:
        for entry in packed.infolist():
            mode = stat.S_IFMT(entry.external_attr >> 16)
            kind = "folder" if entry.is_dir() else kinds.get(mode, "other")
            yield _Entry(entry.filename, entry.file_size, kind, partial(packed.open, entry))


def _tar(raw: IO[bytes]) -> Iterator[_Entry]:
    stream: Any = _Stream(raw)
    with tarfile.open(fileobj=stream, mode="r:", errors="replace", encoding="utf-8") as tar:
        for entry in tar:
            tar.members = []  # type: ignore[attr-defined]  # the list would grow with the archive
            kind = "file" if entry.isreg() else "folder" if entry.isdir() else "other"
            opener: Any = partial(tar.extractfile, entry)  # None for what is no file
            yield _Entry(entry.name, entry.size, kind, opener)


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


@contextmanager
def _undamaged(name: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except _BROKEN as error:
        raise DataError(
            f"this archive is damaged or cut short ({error or type(error).__name__})",
            file=name,
            remedy="download it again",
        ) from error


def unpack(archive: Path, sums: Mapping[str, str]) -> Path:
    """Unpack a tar or zip file beside itself, completely or not at all.

    An archive with a link, a device, a name that leads out of the folder, more than `MAX_MEMBERS` files or
    more than `MAX_BYTES` of them raises an error. One process at a time may unpack into a folder.

    Parameters
    ----------
    archive : Path
    sums : mapping of str to str
        The sha256 of some files in it.

    Returns
    -------
    Path
        The folder of the files, named as the archive's only folder or else as the archive; an existing one
        is replaced.

    Raises
    ------
    DataError
        If the archive is damaged, unsafe, or a sha256 differs.
    """
    sweep(archive.parent, f"{_SPACE}*", seconds=0)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=_SPACE) as space:
        out = Path(space) / archive.name.partition(".")[0]
        out.mkdir()
        try:
            _extract(archive, out)
        except DataError:
            raise
        except _BROKEN as error:
            raise _unusable(archive, f"it is damaged ({error or type(error).__name__})") from error
        for name, expected in sums.items():
            if not (out / name).is_file():
                raise _unusable(archive, f"it does not hold {name}")
            if (sha256 := pooch.file_hash(str(out / name))) != expected:
                raise _unusable(archive, f"the sha256 of {name} in it is {sha256}, expected {expected}")
        tops = list(out.iterdir())
        source = tops[0] if len(tops) == 1 and tops[0].is_dir() else out
        target = archive.parent / source.name
        with atomic_folder(target, replace=True) as new:
            new.rmdir()
            source.rename(new)
    return target


def _extract(archive: Path, out: Path) -> None:
    """Write the files of an archive; one with links, outside names or too much raises an error."""
    size = 0
    for number, entry in enumerate(_entries(archive), start=1):
        size += entry.size
        name = entry.name.replace("\\", "/")
        if name.startswith("/") or ".." in name.split("/") or re.match(r"[A-Za-z]:", name):
            raise _unusable(archive, f"{entry.name!r} in it leads out of the folder")
        if entry.size < 0:
            raise _unusable(archive, f"{entry.name!r} in it has {entry.size} bytes")
        if number > MAX_MEMBERS:
            raise _unusable(archive, f"it holds more than {MAX_MEMBERS:,} files")
        if size > MAX_BYTES:
            raise _unusable(archive, f"it holds more than {MAX_BYTES:,} bytes")
        if entry.kind == "other":
            raise _unusable(archive, f"{entry.name!r} in it is a link or a device")
        path = out / entry.name
        if entry.kind == "folder":
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        with entry.open() as content, path.open("wb") as file:
            shutil.copyfileobj(content, file, _BLOCK)


def _unusable(archive: Path, problem: str) -> DataError:
    return DataError(
        f"this archive cannot be unpacked: {problem}", file=archive, remedy="remove it and fetch it again"
    )
