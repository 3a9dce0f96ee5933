"""Unpack an archive without trusting it: whole or not at all, and nothing outside its folder."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pooch

from workbench.datasets.download import scratch
from workbench.items.schema import DataError

MAX_BYTES = 8 << 30
"""What the files of an archive may have together, unpacked."""
MAX_MEMBERS = 500_000

_MAX_READ = 1 << 24
_BROKEN = (
    EOFError, OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile,
    NotImplementedError, RuntimeError, ValueError, LookupError, OverflowError,
)  # fmt: skip
_OPENERS: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open, b"BZ": bz2.open}


def unpack(archive: Path, sums: Mapping[str, str]) -> Path:
    """Unpack a tar or zip file beside itself, whole or not at all.

    Only files and folders are unpacked, at most `MAX_MEMBERS` with `MAX_BYTES` together; an
    archive with a link, a device or a name that leads elsewhere is refused.

    Parameters
    ----------
    archive : Path
        What to unpack.
    sums : mapping of str to str
        The sha256 of some of the files in it.

    Returns
    -------
    Path
        The folder that holds the files. One of that name that was there is replaced.

    Raises
    ------
    DataError
        If the archive is damaged, unsafe, or not what it should be.
    """
    with scratch(archive.parent) as space:
        out = space / archive.name.partition(".")[0]
        out.mkdir()
        try:
            with archive.open("rb") as raw:
                start = raw.read(2)
                raw.seek(0)
                if start == b"PK":
                    _unzip(raw, out, archive)
                else:
                    with _OPENERS.get(start, lambda same: same)(raw) as stream:
                        _untar(stream, out, archive)
        except DataError:
            raise
        except _BROKEN as error:
            raise _unusable(archive, f"it is damaged ({error or type(error).__name__})") from error
        for name, expected in sums.items():
            if not (out / name).is_file():
                raise _unusable(archive, f"it does not hold {name}")
            if (found := pooch.file_hash(str(out / name))) != expected:
                raise _unusable(archive, f"the sha256 of {name} in it is {found}, expected {expected}")
        tops = list(out.iterdir())
        source = tops[0] if len(tops) == 1 and tops[0].is_dir() else out
        target = archive.parent / source.name
        if target.exists():
            target.rename(space / ".old")
        source.rename(target)
    return target


def _unusable(archive: Path, problem: str) -> DataError:
    return DataError(
        f"this archive cannot be unpacked: {problem}", file=archive, remedy="remove it and fetch it again"
    )


@dataclass
class _Room:
    """What may still come out of an archive."""

    archive: Path
    members: int = 0
    size: int = 0

    def admit(self, name: str, size: int) -> None:
        """Count one member, and refuse it if its name leads out of the folder."""
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
    """The stream that tarfile reads: refuses headers of absurd length, and to end without an end mark."""

    raw: Any
    archive: Path

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MAX_READ:
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
