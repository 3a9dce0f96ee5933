"""Cache of results in ``cache/``, keyed by all that they depend on, within one size limit; digests.

An entry is a file or folder of a kind, named by its key: ``cache/<kind>/<key>``. The time of its last use is
that of the last change of it or of a file in it; `touch` notes a use. Whatever else lies there, and what
links lead to, stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from workbench.storage import files, paths
from workbench.storage.errors import DataError

GIGABYTES = 10.0
"""The bound, unless the environment variable `VARIABLE` gives another."""

VARIABLE = "WORKBENCH_CACHE_GB"

_KEY = re.compile(r"[0-9a-f]{64}(\.parquet|\.unfinished)?")
_TAG = (
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# What is here is made again when it is missing: https://bford.info/cachedir\n"
)
_RECENT = 3600  # seconds after its last use in which an entry stays
_WHOLE = 32 * 1024**2  # bytes up to which a file is read whole for a fingerprint
_ENDS = 1024**2


def digest(*values: str | bytes) -> str:
    """Return the SHA-256 of a sequence of values, in hexadecimal; the boundaries count."""
    sha256 = hashlib.sha256()
    for value in values:
        data = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
        sha256.update(len(data).to_bytes(8, "little"))
        sha256.update(data)
    return sha256.hexdigest()


def fingerprint(paths: Iterable[Path], base: Path) -> str:
    """Return the SHA-256 of the names below `base` and the contents of files in any order, in hexadecimal.

    Of a file of more than 32 MB (the weights of a transformer) the size, first and last megabyte count.
    """
    contents: list[str | bytes] = []
    for path in sorted(paths):
        size = path.stat().st_size
        contents += [path.relative_to(base).as_posix(), str(size)]
        with path.open("rb") as file:
            if size <= _WHOLE:
                contents.append(file.read())
                continue
            contents.append(file.read(_ENDS))
            file.seek(-_ENDS, os.SEEK_END)
            contents.append(file.read())
    return digest(*contents)


class Cache:
    """Tables on disk, by key, in the folder `name` of ``cache/``, with the columns of `schema`.

    A table is a Parquet file, written atomically, with checksums of its pages. A file that cannot be read, or
    has other columns, counts as absent. Several processes may use one cache at a time.
    """

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self.folder, self.schema = paths.cache_home() / name, schema

    def path(self, key: str) -> Path:
        """Return the path of the table of a key."""
        return self.folder / f"{key}.parquet"

    def get(self, key: str) -> pa.Table | None:
        """Return the table of a key, or None without a valid one."""
        path = self.path(key)
        try:
            table = files.read_parquet(path)
        except (DataError, MemoryError):
            return None
        if not table.schema.equals(self.schema):
            return None
        touch(path)
        return table.cast(self.schema)  # parquet has names of its own for what a list holds

    def put(self, key: str, table: pa.Table) -> None:
        """Store a table; DataError if it cannot be written."""
        with files.atomic_path(self.path(key)) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


class CacheEntry(NamedTuple):
    """A file or folder of the cache: its size in bytes, and the time of its last use (seconds since 1970)."""

    kind: str
    path: Path
    size: int
    used: float


def cache_limit() -> int:
    """Return the size limit of the cache in bytes; DataError if the variable is not a number of gigabytes."""
    return int(paths.number_in_environment(VARIABLE, GIGABYTES, "gigabytes") * 1e9)


def cache_entries() -> list[CacheEntry]:
    """Return the entries of the cache, the least recently used first; other files and links are left out."""
    entries = []
    for folder in _listed(paths.cache_home()):
        for path in () if folder.is_symlink() else _listed(folder):
            if _KEY.fullmatch(path.name) and not path.is_symlink():
                with contextlib.suppress(OSError):  # another process may remove it
                    times = [each.lstat().st_mtime for each in (path, *path.rglob("*"))]
                    entries.append(CacheEntry(folder.name, path, folder_size(path), max(times)))
    return sorted(entries, key=lambda entry: entry.used)


def _listed(folder: Path) -> list[Path]:
    with contextlib.suppress(DataError):  # such as lost+found
        return files.list_folder(folder)
    return []


def folder_size(path: Path) -> int:
    """Return the size of a file, or of all files below a folder, in bytes."""
    sizes = 0
    for file in (path, *path.rglob("*")):
        with contextlib.suppress(OSError):
            sizes += file.stat().st_size if file.is_file() else 0
    return sizes


def touch(path: Path) -> None:
    """Note that an entry is used now."""
    with contextlib.suppress(OSError):  # a cache that may only be read
        os.utime(path)


def make_room(limit: int | None = None) -> None:
    """Remove the least recently used entries until the cache is within `limit` (bytes; else `cache_limit`).

    What was used within the last hour stays. The folder is tagged, so that programs for backups leave it out.
    """
    limit, now = cache_limit() if limit is None else limit, time.time()
    tag = paths.cache_home() / "CACHEDIR.TAG"
    if tag.parent.is_dir() and not tag.exists():
        with contextlib.suppress(DataError):  # a cache that may only be read
            files.write_atomic(tag, _TAG)
    entries = cache_entries()
    total = sum(entry.size for entry in entries)
    for entry in entries:
        if total <= limit or now - entry.used < _RECENT:
            break
        with contextlib.suppress(OSError):
            files.remove(entry.path)
            total -= entry.size
