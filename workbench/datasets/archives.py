"""Read archives from front to back, without unpacking anything to the disk."""

from __future__ import annotations

import bz2
import gzip
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from workbench.items.schema import DataError

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.xz", ".txz", ".tar.bz2", ".zip")

_BROKEN = (
    EOFError, OSError, zlib.error, lzma.LZMAError, struct.error, tarfile.TarError, zipfile.BadZipFile,
    NotImplementedError, RuntimeError, ValueError, LookupError, OverflowError,
)  # fmt: skip
_UNPACK: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"\xfd7": lzma.open, b"BZ": bz2.open}


def is_archive(path: Path | str) -> bool:
    """Tell by its name whether a file is an archive that can be read here."""
    return str(path).lower().endswith(ARCHIVES)


@dataclass(frozen=True)
class Member:
    """One file inside an archive; to be read before the next one is asked for."""

    archive: str
    name: str
    stream: IO[bytes]

    def read(self) -> bytes:
        """Return the whole content."""
        with _whole(self.archive):
            return self.stream.read()


def members(archive: Path | IO[bytes], name: str | None = None) -> Iterator[Member]:
    """Read through an archive and give its regular files in order; nothing is written to disk.

    Parameters
    ----------
    archive : Path or binary stream
        A tar file (plain, gzip, xz or bzip2) or a zip file; a stream must be a plain tar.
    name : str, optional
        What to call it in messages.

    Raises
    ------
    DataError
        If it is no archive, damaged, or cut short.
    """
    name = name or str(archive)
    with _whole(name):
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
                unpack = _UNPACK.get(raw.read(2))
                raw.seek(0)
                if unpack is None:
                    yield from _tar(raw, name)
                else:
                    with unpack(raw) as stream:
                        yield from _tar(stream, name)


def _tar(raw: IO[bytes], name: str) -> Iterator[Member]:
    with tarfile.open(fileobj=_Endless(raw), mode="r|", errors="replace", encoding="utf-8") as tar:  # type: ignore[call-overload]
        for entry in tar:
            tar.members = []  # the list would grow with the archive
            if entry.isreg() and (stream := tar.extractfile(entry)) is not None:
                yield Member(name, entry.name, stream)


class _Endless:
    """A stream that must not end: a whole tar has an end mark, and nobody reads past it."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        data = self._raw.read(size)
        if not data and size:
            raise EOFError("it ends too early")
        return data


@contextmanager
def _whole(name: str) -> Iterator[None]:
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
