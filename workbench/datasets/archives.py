"""Archives: read them from front to back without unpacking, or unpack them without trusting them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
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
            return self.stream.read()


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
        if not isinstance(archive, Path):
            yield from _tar(archive, name)
        elif archive.name.lower().endswith(".zip"):
            with zipfile.ZipFile(archive) as packed:
                for entry in packed.infolist():
                    if not entry.is_dir():
                        with packed.open(entry) as stream:
                            yield Member(name, entry.filename, stream)
        else:
            with archive.open("rb") as raw:
                opener = _OPENERS.get(raw.read(2))
                raw.seek(0)
                if opener is None:
                    yield from _tar(raw, name)
                else:
                    with opener(raw) as stream:
                        yield from _tar(stream, name)


def _tar(raw: IO[bytes], name: str) -> Iterator[Member]:
    with tarfile.open(fileobj=_Endless(raw), mode="r|", errors="replace", encoding="utf-8") as tar:  # type: ignore[call-overload]
        for entry in tar:
            tar.members = []  # the list would grow with the archive
            if entry.isreg() and (stream := tar.extractfile(entry)) is not None:
                yield Member(name, entry.name, stream)


class _Endless:
    """A stream that must not end: a complete tar has an end mark, and nothing reads past it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        if not data and size:
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
        The folder of the files; an existing one is replaced.

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
            with archive.open("rb") as raw:
                start = raw.read(2)
                raw.seek(0)
                if start == b"PK":
                    _unzip(raw, out, archive)
                else:
                    opener = _OPENERS.get(start)
                    with nullcontext(raw) if opener is None else opener(raw) as stream:
                        _untar(stream, out, archive)
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


def _unusable(archive: Path, problem: str) -> DataError:
    return DataError(
        f"this archive cannot be unpacked: {problem}", file=archive, remedy="remove it and fetch it again"
    )


@dataclass
class _Room:
    """Count of the files and bytes that came out of an archive."""

    archive: Path
    members: int = 0
    size: int = 0

    def admit(self, name: str, size: int) -> None:
        """Count one member; raise an error if it is one too many, or its name leads out of the folder."""
        self.members += 1
        self.size += size
        parts = name.replace("\\", "/").split("/")
        if name.startswith(("/", "\\")) or ".." in parts or re.match(r"[A-Za-z]:", name):
            raise _unusable(self.archive, f"{name!r} in it leads out of the folder")
        if size < 0:
            raise _unusable(self.archive, f"{name!r} in it has {size} bytes")
        if self.members > MAX_MEMBERS:
            raise _unusable(self.archive, f"it holds more than {MAX_MEMBERS:,} files")
        if self.size > MAX_BYTES:
            raise _unusable(self.archive, f"it holds more than {MAX_BYTES:,} bytes")


@dataclass
class _Bounded:
    """The stream that tarfile reads: raises an error for a header of absurd length, and at its end."""

    raw: Any
    archive: Path

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise _unusable(self.archive, f"a header in it has {size:,} bytes")
        data: bytes = self.raw.read(size)
        if size and not data:
            raise EOFError("it ends too early")
        return data

    def seek(self, position: int) -> int:
        return int(self.raw.seek(position))

    def tell(self) -> int:
        return int(self.raw.tell())


def _untar(stream: Any, out: Path, archive: Path) -> None:
    room = _Room(archive)
    bounded: Any = _Bounded(stream, archive)
    with tarfile.open(fileobj=bounded, mode="r:") as tar:
        for member in tar:
            tar.members = []  # type: ignore[attr-defined]  # the list would grow with the archive
            room.admit(member.name, member.size)
            if not (member.isreg() or member.isdir()):
                raise _unusable(archive, f"{member.name!r} in it is a link or a device")
            tar.extract(member, out, filter="data")


def _unzip(raw: IO[bytes], out: Path, archive: Path) -> None:
    room = _Room(archive)
    with zipfile.ZipFile(raw) as packed:
        for entry in packed.infolist():
            room.admit(entry.filename, entry.file_size)
            kind = stat.S_IFMT(entry.external_attr >> 16)
            if kind not in {0, stat.S_IFREG, stat.S_IFDIR}:
                raise _unusable(archive, f"{entry.filename!r} in it is a link or a device")
            packed.extract(entry, out)
