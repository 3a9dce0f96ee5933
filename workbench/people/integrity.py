"""Whether what a campaign's database holds is what was put there, and fits together."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

from workbench.people.database import REMEDY
from workbench.people.protocols import Protocol
from workbench.storage.errors import DataError

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


def unchanging_digest(connection: sqlite3.Connection) -> str:
    """Return a digest of all that never changes: the protocol, and the items in their order."""
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
