"""Reading of files, and atomic writes of files and folders."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import platform
import shutil
import stat
import tempfile
import time
import uuid
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from workbench.storage.errors import DataError, reading, writing

if TYPE_CHECKING:
    import pyarrow as pa

MAX_IN_MEMORY = 2 << 30
"""Largest content of a file, unpacked, that is read into memory, in bytes."""

_SCRATCH = ".partial-"
_SCRATCH_HERE = f"{_SCRATCH}{zlib.crc32(platform.node().encode()):08x}-"  # made by this computer
_REPLACED = ".replaced"  # in a scratch folder: what another folder takes the place of
_LOCKABLE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_DAY = 86_400  # seconds


def open_regular(path: Path | str) -> IO[bytes]:
    """Open a regular file for reading.

    OSError if there is none, it may not be read, or it is a folder, a pipe or a device, which could keep a
    reader waiting for ever.
    """
    name = os.fspath(path)
    if "\0" in name:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), name)
    handle = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe is opened without waiting
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(0, "not a regular file", name)
    return open(handle, "rb")  # noqa: PTH123 - of a handle; the caller closes it


def read_bytes(path: Path | str, what: str = "this file", *, limit: int | None = None) -> bytes:
    """Return the content of a regular file of at most `limit` bytes (else `MAX_IN_MEMORY`).

    `what` says what the file is, such as "this vocabulary". DataError if it cannot be read, is not a regular
    file, or is larger.
    """
    limit = MAX_IN_MEMORY if limit is None else limit
    with reading(path, what), open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise too_large(path, limit)
        return file.read()


def read_json(path: Path | str, what: str = "this file", *, limit: int | None = None) -> Any:
    """Return the content of a JSON file; DataError as of `read_bytes`, and if it is not JSON in UTF-8."""
    data = read_bytes(path, what, limit=limit)
    with reading(path, what):
        return json.loads(data.decode("utf-8-sig"))


def read_parquet(
    file: Path | str,
    columns: Sequence[str] | None = None,
    *,
    data: bytes | None = None,
    what: str = "this Parquet file",
    remedy: str | None = None,
) -> pa.Table:
    """Return the table in a Parquet file, with dictionary columns as plain text.

    `columns` are all by default; they come in the order of the file. `data` is the content of the file, where
    it is in memory already. `what` and `remedy` are for the DataError if it cannot be read. The checksums of
    pages are compared where the file has them.
    """
    import pyarrow as pa  # noqa: PLC0415 - slow
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow

    with reading(file, what, remedy=remedy):
        source = file if data is None else pa.BufferReader(data)
        with pq.ParquetFile(source, page_checksum_verification=True) as parquet:
            if lacking := set(columns or ()) - set(parquet.schema_arrow.names):
                raise DataError(f"it lacks the column {min(lacking)}", file=file)
            table = parquet.read(columns)
        table.validate(full=True)
        types = [field.type for field in table.schema]
        plain = [each.value_type if pa.types.is_dictionary(each) else each for each in types]
        fields = [field.with_type(each) for field, each in zip(table.schema, plain, strict=True)]
        return table.cast(pa.schema(fields, table.schema.metadata))


def list_folder(folder: Path) -> list[Path]:
    """Return the visible content of a folder, sorted; nothing if it is missing.

    DataError if it may not be listed, or is not a folder.
    """
    with reading(folder, "this folder"), contextlib.suppress(FileNotFoundError):
        return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    return []


def too_large(path: Path | str, limit: int) -> DataError:
    """Return the error for a file larger than the limit for memory."""
    return DataError(
        f"it holds more than {limit:,} bytes, unpacked", file=path, remedy="split it into smaller files"
    )


def path_in(folder: Path, name: str) -> Path:
    """Return the path of a file named by a list in a folder; DataError if it leads out of the folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise DataError(f"expected the name of a file in this folder, got {name!r}", file=folder)
    return folder / path


def map_array(folder: Path, name: str) -> Any:
    """Map the array of a ``.npy`` file named by a list in its folder into memory, read only."""
    import numpy as np  # noqa: PLC0415 - slow

    path = path_in(folder, f"{name}.npy")
    with open_regular(path):  # no pipe, which would keep NumPy waiting
        array = np.load(path, mmap_mode="r")
    if not isinstance(array, np.ndarray):
        raise TypeError("it holds no array")
    return array


def remove_stale_scratch(home: Path) -> None:
    """Remove stale scratch folders (unlocked, or untouched for a day)."""
    with contextlib.suppress(OSError), os.scandir(home) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(_SCRATCH)]:
            with contextlib.suppress(OSError):  # another process removes it, or only it may
                _remove_unused(home / name)


def _remove_unused(path: Path) -> None:
    handle = os.open(path, _LOCKABLE)
    try:
        unused = _lock(handle) if path.name.startswith(_SCRATCH_HERE) else None
        if unused is None:
            unused = time.time() - max(each.lstat().st_mtime for each in (path, *path.rglob("*"))) > _DAY
        if unused and path.is_dir():
            for old in (path / _REPLACED).glob("*"):  # killed between two renamings
                if not (path.parent / old.name).exists():
                    old.rename(path.parent / old.name)
            shutil.rmtree(path)
        elif unused:
            path.unlink()
    finally:
        os.close(handle)


def _lock(handle: int) -> bool | None:
    """Lock an open file or folder; False if another process has the lock, None on a disk without locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _locked_folder(home: Path) -> tuple[Path, int]:
    """Make and lock a scratch folder; return it and the handle that has the lock."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH_HERE, dir=home))
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:  # else it was swept
            handle = os.open(folder, _LOCKABLE)
            stack.callback(os.close, handle)
            if _lock(handle) is not False and os.path.samestat(os.fstat(handle), folder.lstat()):
                stack.pop_all()
                return folder, handle


@contextmanager
def scratch_folder(home: Path | str) -> Iterator[Path]:
    """Yield a new hidden folder in `home` and remove it afterwards; `home` is made if missing.

    What killed processes left in `home` is removed first. DataError if no folder can be made there.

    Notes
    -----
    The folder is locked while it is used, and the lock ends with its process. `remove_stale_scratch` removes
    what it can lock, and holds the lock meanwhile. A removal between the making of a folder and its locking
    is noticed: the lock is busy or the folder is gone, and another one is made. Once a folder is locked and
    still has its name, no removal gets the lock. A lock may hold on one computer only, and some disks have
    none: the name says which computer made the folder; where no lock can tell, it goes when nothing was
    written for a day.
    """
    home = Path(home)
    with writing(home, "this folder"):
        check_target(home, stat.S_ISDIR, "a folder")
        home.mkdir(parents=True, exist_ok=True)
        remove_stale_scratch(home)
        folder, handle = _locked_folder(home)
    try:
        with _full_disk(home):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


@contextmanager
def _full_disk(path: Path) -> Iterator[None]:
    """Convert OSErrors of writing into DataError; errors of networks and of missing files are unchanged."""
    try:
        yield
    except OSError as error:
        if type(error) is not OSError:  # a missing file, a lost connection and others have their own class
            raise
        with writing(path):
            raise


def check_target(path: Path, is_kind: Callable[[int], bool], expected: str) -> None:
    """Raise an OSError if a path cannot be written, or is not of the expected type."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), str(path))
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, "its name holds half a surrogate pair", str(path)) from None
    with contextlib.suppress(FileNotFoundError):
        if not is_kind(path.stat().st_mode):
            raise OSError(0, f"what is there is not {expected}", str(path))


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path of the same name; the file replaces `path` only if the block succeeds.

    The file is flushed to the disk before it is renamed, so a reader sees the old content or the new one,
    never a part. The folder is made where it is missing. DataError if the file cannot be written.
    """
    target = Path(path)
    with writing(target):
        check_target(target, stat.S_ISREG, "a file")
    with scratch_folder(target.parent) as space, _full_disk(target):
        temporary = space / target.name
        yield temporary
        with writing(target):
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o644)
            temporary.replace(target)


def write_atomic(path: Path | str, content: str | bytes) -> None:
    """Write a file by `atomic_path`; text in UTF-8."""
    with atomic_path(path) as temporary:
        temporary.write_bytes(content.encode() if isinstance(content, str) else content)


@contextmanager
def atomic_folder(path: Path | str, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it replaces `path` only if the block succeeds.

    An existing folder is replaced if `replace`. Else the first one stays and the new one is dropped: right
    where the name is a key of the content, so that both hold the same. DataError if it cannot be written.

    Notes
    -----
    Every file is flushed to disk before the folder is renamed. While an existing folder is replaced, there is
    a moment in which `path` does not exist; if the process is killed then, the next `remove_stale_scratch`
    puts it back.
    """
    target = Path(path)
    with writing(target, "this folder"):
        check_target(target, stat.S_ISDIR, "a folder")
    with scratch_folder(target.parent) as space, _full_disk(target):
        new, old = space / "new", space / _REPLACED / target.name
        new.mkdir()
        yield new
        with writing(target, "this folder"):
            for file in new.rglob("*"):
                if file.is_file():
                    with file.open("rb") as written:
                        os.fsync(written.fileno())
            if replace and target.exists():
                old.parent.mkdir()
                target.rename(old)
            try:
                new.rename(target)
            except OSError:
                if not target.is_dir():
                    if old.exists():
                        old.rename(target)
                    raise


def remove_folder(path: Path) -> None:
    """Remove a folder, renamed first so that a killed process leaves no partial folder; may raise OSError.

    Of a link to a folder the link is removed, and what it leads to stays.
    """
    if path.is_symlink():
        path.unlink()
        return
    aside = path.with_name(f"{_SCRATCH_HERE}{uuid.uuid4().hex}")
    path.rename(aside)
    shutil.rmtree(aside, ignore_errors=True)
