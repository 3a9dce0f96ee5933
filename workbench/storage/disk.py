"""What lies in ``cache/``: entries with their sizes and last uses, and one bound for all of them.

An entry is a file or folder of a kind: ``cache/<kind>/<entry>``. The time of its last use is that of its last
change, which every use sets. Hidden ones are being written, or were left by a killed process.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
import weakref
from pathlib import Path
from typing import NamedTuple, TypeVar

from workbench.storage.files import data_home

GIGABYTES = 10.0
"""The bound, unless the environment variable `VARIABLE` gives another."""

VARIABLE = "WORKBENCH_CACHE_GB"

T = TypeVar("T")

_NEW = 60  # seconds after its last use in which an entry is taken to be in use
_LEFTOVER = 3600  # seconds after which a file that was never finished is not being written any more
_REMOVED = ".removed"


class CacheEntry(NamedTuple):
    """A file or folder of the cache: its bytes, and when it was last used (seconds since 1970)."""

    kind: str
    path: Path
    size: int
    used: float


def cache_limit() -> int:
    """Return the bound of the cache in bytes; ValueError if the variable is not a number of gigabytes."""
    text = os.environ.get(VARIABLE) or str(GIGABYTES)
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = -1.0
    if not gigabytes >= 0:
        raise ValueError(f"expected a number of gigabytes in {VARIABLE}, got {text!r}")
    return int(gigabytes * 1e9)


def cache_entries() -> list[CacheEntry]:
    """Return what lies in the cache, the least recently used first."""
    entries = []
    for kind in _listed(data_home() / "cache"):
        for path in _listed(kind):
            with contextlib.suppress(OSError):  # another process may remove it
                entries.append(CacheEntry(kind.name, path, folder_size(path), path.stat().st_mtime))
    return sorted(entries, key=lambda entry: entry.used)


def folder_size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    if not path.is_dir():
        return path.stat().st_size
    sizes = 0
    for file in path.rglob("*"):
        with contextlib.suppress(OSError):
            sizes += file.stat().st_size if file.is_file() else 0
    return sizes


def _listed(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if not path.name.startswith(".")]
    except OSError:
        return []


def hold(owner: T, folder: Path) -> T:
    """Keep a folder from being removed as long as an object lives, and note that it is used now.

    The object is returned. The lock is on the folder itself, shared by processes, and ends with the process.
    """
    with contextlib.suppress(OSError):  # a folder that may only be read, or a disk without locks
        handle = os.open(folder, os.O_RDONLY)
        weakref.finalize(owner, os.close, handle)
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        os.utime(folder)
    return owner


def remove(path: Path) -> bool:
    """Remove a file or folder; return False where it is in use, and stays.

    A folder is renamed first, so a process that is killed leaves no half of it under its name.
    """
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return True
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        aside = path.with_name(f".{path.name}{_REMOVED}")
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def make_room(limit: int | None = None) -> None:
    """Remove what was not used for longest until the cache is within its bound.

    What an object of any process holds, or was used within the last minute, stays. Leftovers of killed
    processes go after an hour.

    Parameters
    ----------
    limit : int, optional
        Bytes; `cache_limit` by default.
    """
    limit, now = cache_limit() if limit is None else limit, time.time()
    for path in (data_home() / "cache").glob("*/.*"):
        with contextlib.suppress(OSError):
            is_old = now - path.stat().st_mtime > _LEFTOVER
            if path.name.endswith(_REMOVED):
                shutil.rmtree(path, ignore_errors=True)
            elif is_old and path.is_file():
                path.unlink()
    entries = cache_entries()
    total = sum(entry.size for entry in entries)
    for entry in entries:
        if total <= limit or now - entry.used < _NEW:
            break
        with contextlib.suppress(OSError):
            total -= entry.size if remove(entry.path) else 0
