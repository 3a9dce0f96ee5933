"""The SQLite database of a campaign: schema, creation, checks and transactions."""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from workbench.storage.errors import DataError, database_errors, reading
from workbench.storage.files import atomic_path

APPLICATION_ID = 0x574B4250
_MAGIC = b"SQLite format 3\0"
_PATIENCE = 60.0  # seconds to wait for another process's transaction
WHAT = "the campaign's database"
REMEDY = "restore a copy of the campaign, or create a new one with Campaign.create"

_SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8").split(";\n")[:-1]


def _errors(path: Path) -> AbstractContextManager[None]:
    return database_errors(path, WHAT, patience=_PATIENCE, remedy=REMEDY)


def create(path: Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Create a database with the tables of a campaign and the content that `fill` inserts, atomically.

    Raises
    ------
    DataError
        If something is there already, or it cannot be written.
    """
    with reading(path, "this campaign"):
        if path.exists():
            problem, remedy = "there is a file already", "open it with Campaign.open, or name another path"
            raise DataError(problem, file=path, remedy=remedy)
        for beside in (path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-journal")):
            if beside.exists():  # SQLite would take it for a part of the new database
                raise DataError(
                    f"there is a file already, a part of a database {path.name} that was moved or deleted",
                    file=beside,
                    remedy="move the database back, delete this file, or name another path",
                )
    with atomic_path(path) as temporary, _errors(path):
        with closing(sqlite3.connect(temporary)) as connection, connection:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute("BEGIN")
            for statement in _SCHEMA:
                connection.execute(statement)
            fill(connection)
        temporary.chmod(0o600)  # it holds what people answered


class Database:
    """A checked campaign database for any number of threads, processes and forks.

    There is one connection per process; its threads take turns.

    Parameters
    ----------
    path : Path

    Raises
    ------
    DataError
        If it is not a database, or not one of a campaign.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = 0
        self._lock = threading.RLock()
        try:
            self._connect()
            self._open()
        except DataError as error:
            name = getattr(error.__cause__, "sqlite_errorname", None)
            if name == "SQLITE_NOTADB" and not self._is_sqlite():
                raise self._other_file() from error.__cause__
            raise

    def __reduce__(self) -> tuple[type[Database], tuple[Path]]:
        return Database, (self.path,)

    def _connect(self) -> None:
        made = "create one with Campaign.create"
        with reading(self.path, "this campaign", remedy=made):
            if not self.path.stat().st_size or not self.path.is_file():
                raise self._other_file()  # SQLite would take an empty file for a new database
        with _errors(self.path):
            connection = sqlite3.connect(
                f"{self.path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=_PATIENCE,
                isolation_level=None,
                check_same_thread=False,
            )
            self._process, self._connection = os.getpid(), connection
            self.close = weakref.finalize(self, _close, connection, self._process)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA cell_size_check = ON")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")

    def _other_file(self) -> DataError:
        return DataError(
            "expected the SQLite database of a campaign, got another file",
            file=self.path,
            remedy="name the file that Campaign.create made",
        )

    def _is_sqlite(self) -> bool:
        """Return True if the file begins as SQLite's do.

        Not while it is open: closing it here would release the locks of this process's connection.
        """
        with reading(self.path, "this campaign"), self.path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC

    def _open(self) -> None:
        """Raise DataError for the database of another program; switch to the journal that readers share."""
        with self.reading() as connection:
            [application] = connection.execute("PRAGMA application_id").fetchone()
            if application != APPLICATION_ID or _schema(connection) != _expected_schema():
                raise DataError(
                    "expected the database of a campaign, got other tables or that of another program",
                    file=self.path,
                    remedy="name the file that Campaign.create made",
                )
            [mode] = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            with _errors(self.path):
                self._connection.execute("PRAGMA journal_mode = WAL").fetchone()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        if self._process != os.getpid():
            self._reconnect()
        with self._lock, _errors(self.path):
            connection = self._connection
            inner = connection.in_transaction  # of this thread: it holds the lock
            connection.execute("SAVEPOINT part" if inner else begin)
            try:
                yield connection
                connection.execute("RELEASE part" if inner else "COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK TO part" if inner else "ROLLBACK")
                        if inner:
                            connection.execute("RELEASE part")
                raise

    def _reconnect(self) -> None:
        """Connect in a fork; the parent's connection stays as it is."""
        self._lock = threading.RLock()
        self.close.detach()
        self._left_to_parent = self._connection
        self._connect()

    def reading(self) -> AbstractContextManager[sqlite3.Connection]:
        """Read one consistent state of the database, isolated from concurrent writes."""
        return self._transaction("BEGIN")

    def writing(self) -> AbstractContextManager[sqlite3.Connection]:
        """Change the database atomically; the change is on the disk when the block ends.

        Within another such block it is a part of that one, and is on the disk when that one ends.
        """
        return self._transaction("BEGIN IMMEDIATE")


def _close(connection: sqlite3.Connection, process: int) -> None:
    if process == os.getpid():  # closing a parent's connection would release the parent's locks
        connection.close()


def _schema(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Return all tables, indexes, views and triggers of a database with their definitions."""
    rows = connection.execute("SELECT type, name, tbl_name, ifnull(sql, '') FROM sqlite_schema").fetchmany(
        100
    )
    return {tuple(map(str, row)) for row in rows}


def _expected_schema() -> set[tuple[str, ...]]:
    connection = sqlite3.connect(":memory:")
    try:
        for statement in _SCHEMA:
            connection.execute(statement)
        return _schema(connection)
    finally:
        connection.close()
