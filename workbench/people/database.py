"""The SQLite database of a campaign: schema, creation, checks and transactions."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path

from workbench.people.protocols import Protocol
from workbench.storage.errors import DataError, database_errors, reading
from workbench.storage.files import atomic_path

APPLICATION_ID = 0x574B4250
VERSION = 1
_MAGIC = b"SQLite format 3\0"
_PATIENCE = 60.0  # seconds to wait for another process's transaction
_LONGEST = 1 << 26  # bytes of one value
WHAT = "the campaign's database"
REMEDY = "restore a copy of the campaign, or create a new one with Campaign.create"

_SCHEMA = Path(__file__).with_name("schema.sql").read_text(encoding="utf-8").split(";\n")[:-1]
_CONTRADICTIONS = (
    ("an answer of nobody", "SELECT 1 FROM pragma_foreign_key_check"),
    (
        "a page and its tasks differ",
        """SELECT 1 FROM assignments a JOIN pages p ON p.id = a.page
        WHERE a.step <> p.step OR a.subject IS NOT p.subject""",
    ),
    (
        "an answer to a task that nobody had",
        """SELECT 1 FROM answers a LEFT JOIN assignments n ON n.subject = a.subject AND n.item = a.item
        WHERE n.page IS NULL OR n.step <> a.step""",
    ),
    (
        "a finished task without an answer",
        """SELECT 1 FROM assignments n WHERE n.state = 'finished' AND NOT EXISTS
        (SELECT 1 FROM answers a WHERE a.subject = n.subject AND a.item = n.item)""",
    ),
    ("an item that has stopped and is given out", "SELECT 1 FROM items WHERE state <> 'open' AND vacant > 0"),
)


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
            connection.execute(f"PRAGMA user_version = {VERSION}")
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
        If it is not a database, not one of a campaign or of this version, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = 0
        self._lock = threading.RLock()
        try:
            self._connect()
            self._check()
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
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST)
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

    def _check(self) -> None:
        with self.reading() as connection:
            [application] = connection.execute("PRAGMA application_id").fetchone()
            [version] = connection.execute("PRAGMA user_version").fetchone()
            schema = _schema(connection)
            if application != APPLICATION_ID:
                problem = "expected the database of a campaign, got that of another program"
                raise DataError(problem, file=self.path, remedy="name the file that Campaign.create made")
            if version != VERSION:
                raise DataError(
                    f"expected a campaign of version {VERSION}, got version {version}",
                    file=self.path,
                    remedy="open it with the version of the workbench that made it",
                )
            if schema != _expected_schema():
                raise DataError(
                    "the tables of this database are not those of a campaign", file=self.path, remedy=REMEDY
                )
            problems = [row[0] for row in connection.execute("PRAGMA quick_check(1)")]
            if problems != ["ok"]:
                text = " ".join(str(problems[:1]).split())
                raise DataError(
                    f"the campaign's database is damaged ({text:.200})", file=self.path, remedy=REMEDY
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


def unchanging_digest(connection: sqlite3.Connection) -> str:
    """Return a digest of the constant content: the protocol, and the items in their order."""
    hashed = hashlib.blake2b(digest_size=16)
    for row in connection.execute("SELECT key, value FROM campaign WHERE key <> 'digest' ORDER BY key"):
        hashed.update(repr(row).encode())
    for row in connection.execute("""SELECT i.number, i.item_id, i.place, i.answer, r.record FROM items i
        LEFT JOIN records r ON r.item = i.number ORDER BY i.number"""):
        hashed.update(repr(row).encode())
    return hashed.hexdigest()


def check_consistency(connection: sqlite3.Connection, protocol: Protocol, path: Path) -> None:
    """Raise DataError if items, pages and answers contradict each other or the protocol."""
    for problem, query in _CONTRADICTIONS:
        if connection.execute(query).fetchone():
            raise _damaged(path, problem)
    [last] = connection.execute(
        """SELECT max(step) FROM (SELECT max(step) AS step FROM items UNION ALL
        SELECT max(step) FROM pages UNION ALL SELECT max(step) FROM answers)"""
    ).fetchone()
    if last is None or last >= len(protocol.steps):
        raise _damaged(path, "no items, or a step that the protocol does not have")
    for number, step in enumerate(protocol.steps):
        if connection.execute(
            """SELECT 1 FROM items i LEFT JOIN (SELECT item, count(*) AS leased FROM assignments
                WHERE state = 'open' AND step = ? GROUP BY item) a ON a.item = i.number
            WHERE i.step = ? AND i.state = 'open' AND i.n_judged + i.vacant + ifnull(a.leased, 0) <> ?""",
            (number, number, step.people),
        ).fetchone():
            raise _damaged(path, f"an item that more or fewer than {step.people} people judge at its step")


def _damaged(path: Path, problem: str) -> DataError:
    return DataError(f"the campaign's database is damaged: {problem}", file=path, remedy=REMEDY)
