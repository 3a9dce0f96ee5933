"""SQLite databases, created atomically and changed only while their path leads to them."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from workbench.storage.errors import DataError, writing
from workbench.storage.files import check_target, scratch_folder

Identity = tuple[int, int] | None
"""Device and inode of a file; None if there is none."""

_OPEN_BESIDE = ("-wal", "-shm")  # files that a connection in WAL mode has open beside the database
_BESIDE = (*_OPEN_BESIDE, "-journal")
_ROOM = 256 << 10  # bytes: what the first changes of a new database take beside it


def create_database(
    path: Path, fill: Callable[[sqlite3.Connection], None], what: str, *, remedy: str
) -> None:
    """Create a database in WAL mode with the content that `fill` inserts, in one transaction, atomically.

    `what` says what the file is, such as "this campaign"; `remedy` is that for a database that is there
    already. DataError if there is a file, or the disk has no room for the database and its first changes.

    Notes
    -----
    The database is made without a write-ahead log: on a full disk, SQLite drops in silence what does not fit
    into the file when the connection is closed. A COMMIT with a journal in memory raises instead.
    """
    with writing(path, what):
        check_target(path, stat.S_ISREG, "a file")
    beside = [each for end in _BESIDE if os.path.lexists(each := _companion(path, end))]
    if os.path.lexists(path):
        raise DataError("there is a file already", file=path, remedy=remedy)
    if beside:
        raise DataError(
            f"there is a file already, a part of a database {path.name} that was moved or deleted",
            file=beside[0],
            remedy="move the database back, delete this file, or name another path",
        )
    with scratch_folder(path.parent) as folder:
        new, room = folder / "database", folder / "room"
        with closing(sqlite3.connect(new, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = MEMORY").fetchone()
            connection.execute("BEGIN IMMEDIATE")
            fill(connection)
            connection.execute("COMMIT")
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        with writing(path, what):
            with room.open("wb") as file:
                file.write(bytes(_ROOM))
                file.flush()
                os.fsync(file.fileno())
            room.unlink()
            with new.open("rb") as written:
                os.fsync(written.fileno())
            new.chmod(0o600)  # it holds what people answered
            try:
                os.link(new, path)  # unlike a renaming, it replaces nothing
            except FileExistsError:
                raise
            except OSError:  # a disk without hard links
                new.rename(path)
            _flush(path.parent)


def _companion(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _flush(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def check_regular(path: Path) -> None:
    """Raise an OSError if there is no regular file at a path, without opening it.

    Where a process opens and closes a database itself, it gives up the locks of all its connections to that
    database (POSIX, ``fcntl``), and another process takes its write-ahead log away.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise OSError(0, "not a regular file", str(path))


def file_identity(path: Path) -> Identity:
    """Return device and inode of a file, or None if it cannot be found."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


class MovedError(DataError):
    """The database was moved, deleted or replaced after it was opened, so nothing is saved."""


class OpenFiles:
    """The open files of a connection: a database, its ``-wal`` and its ``-shm``.

    Make it after a first transaction has begun, as SQLite opens them then. `what` says what the file is;
    ``database`` has device and inode of the database, or None.
    """

    def __init__(self, path: Path, what: str) -> None:
        self._what = what
        self._path = path.absolute()  # also after a change of the working directory
        real = self._path.resolve()  # SQLite names the others by it
        self._beside = {_companion(real, end): file_identity(_companion(real, end)) for end in _OPEN_BESIDE}
        self.database = file_identity(self._path)

    def check_database(self) -> None:
        """Raise MovedError if the path no longer leads to the opened database."""
        if file_identity(self._path) != self.database:
            raise MovedError(
                f"{self._what} is no longer at this path: it was moved, deleted or replaced after it was "
                "opened, and nothing is saved",
                file=self._path,
                remedy="move it back; or end what has it open, and open what is there now",
            )

    def check(self) -> None:
        """Raise MovedError if a path no longer leads to the open file."""
        self.check_database()
        for path, opened in self._beside.items():
            if file_identity(path) != opened:
                raise MovedError(
                    f"a part of {self._what} was moved, deleted or replaced, and nothing is saved",
                    file=path,
                    remedy=f"end what has {self._path.name} open, and open it again",
                )
