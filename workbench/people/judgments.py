"""The table of judgments: one row per answer, on disk as JSON lines, one file per person.

Lines are only ever appended, and are on the disk before the next task is shown. A judgment names its item by
id and by a digest of the text's letters and digits, so that the judgments of one person can be about many
data sets, and the same id elsewhere is another item.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from filelock import FileLock

from workbench.items.items import Items
from workbench.items.notes import text_digest
from workbench.items.schema import Item, objects
from workbench.items.text import is_encodable
from workbench.people.protocols import Condition, Protocol
from workbench.people.protocols import protocol as named_protocol
from workbench.people.tasks import is_person
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import list_folder, read_bytes
from workbench.storage.paths import data_home

JUDGMENT_COLUMNS = (
    "item_id", "text_digest", "variant", "person", "step", "condition", "shown", "guesses", "response_time",
    "answered",
)  # fmt: skip
"""Columns of the table: ``text_digest`` and ``variant`` of the item's text (null: any); ``step`` of the
protocol, from 1; ``shown`` context sentences; ``guesses``, a list of words, an empty one where the person
gave up; ``response_time`` in seconds, or null; ``answered``, a time in UTC."""

SCORED = (
    "item_id", "person", "step", "condition", "shown", "guesses", "prediction", "answer", "match", "correct",
    "prediction_correct", "last_answer", "response_time", "answered",
)  # fmt: skip
"""Columns of `score_judgments`."""

JUDGED, BOTH, REPEATED = "judged before", "both conditions", "same answer before"
"""Why a judgment is not added to the table."""

_WHAT = "this file of judgments"
_SQLITE = b"SQLite format 3\0"
_Row = Mapping[str, Any]


def judgments_home(folder: Path | str | None) -> Path:
    """Return the folder of a table; ``data/guess`` by default."""
    return data_home() / "guess" if folder is None else Path(folder)


def read_judgments(folder: Path | str | None = None) -> pd.DataFrame:
    """Return the table of judgments in a folder, in the order of the answers.

    Parameters
    ----------
    folder : path, optional
        Folder of the JSON lines, one file per person; ``data/guess`` by default. A folder that does not exist
        is an empty table.

    Returns
    -------
    DataFrame
        One row per judgment, with the columns of :data:`workbench.people.judgments.JUDGMENT_COLUMNS`.

    Raises
    ------
    DataError
        If a line is damaged, or the folder holds the database of a campaign or game, which versions before
        0.1.0 wrote.

    Examples
    --------
    >>> from workbench import people
    >>> len(people.read_judgments("an-empty-table"))
    0
    """
    home = judgments_home(folder)
    check_folder(home)
    files = [file for file in list_folder(home) if file.suffix == ".jsonl"]
    return judgments_of(row for file in files for row in _read(file))


def add_judgments(judgments: pd.DataFrame, folder: Path | str | None = None) -> pd.DataFrame:
    """Append judgments to the table in a folder, and return those that were not added.

    Nobody judges an item twice, or in two conditions: what breaks this rule is not added.

    Parameters
    ----------
    judgments : DataFrame
        With the columns of :data:`workbench.people.judgments.JUDGMENT_COLUMNS`, such as `simulate` makes;
        ``text_digest``, ``variant`` and ``response_time`` may be missing.
    folder : path, optional
        ``data/guess`` by default.

    Returns
    -------
    DataFrame
        The rows that were not added, with the column ``reason``: ``judged before``, ``both conditions``, or
        ``same answer before`` where the table has this very judgment.

    Raises
    ------
    DataError
        If a row is not valid, or a file cannot be read or written.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from workbench import people
    >>> folder, judgments = mkdtemp(), people.simulate(items)
    >>> len(people.add_judgments(judgments, folder)), len(people.add_judgments(judgments, folder))
    (0, 45)
    """
    rows = []
    names = [str(name) for name in judgments]
    for cells in judgments.astype(object).where(judgments.notna(), None).to_numpy().tolist():
        values = dict(zip(names, cells, strict=True))
        if isinstance(values.get("answered"), datetime):
            values["answered"] = values["answered"].isoformat()
        try:
            rows.append(_checked(values))
        except (TypeError, ValueError) as error:
            problem = f"this is not a judgment ({error}): {values!r:.100}"
            raise DataError(problem, hint=f"give it the columns {', '.join(JUDGMENT_COLUMNS)}") from error
    reasons = record_judgments(rows, folder)
    rejected = [{**row, "reason": reason} for row, reason in zip(rows, reasons, strict=True) if reason]
    return pd.DataFrame(rejected, columns=[*JUDGMENT_COLUMNS, "reason"])


def record_judgments(rows: Sequence[_Row], folder: Path | str | None) -> list[str]:
    """Append valid rows to the files of their people; return "" for each, or why it was not added.

    What is added is on the disk when this returns. Threads and processes may call it at the same time.
    """
    home = judgments_home(folder)
    check_folder(home)
    reasons = [""] * len(rows)
    by_person: dict[str, list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        by_person[row["person"]].append(index)
    for person, indices in by_person.items():
        file = _file(home, person)
        with writing(file, _WHAT):
            home.mkdir(parents=True, exist_ok=True)
            with FileLock(home / f".{file.name}.lock"):
                by_item = _by_item(row for row in _read(file) if row["person"] == person)
                for index in indices:
                    reasons[index] = conflict(by_item, rows[index])
                    if not reasons[index]:
                        by_item[rows[index]["item_id"]].append(rows[index])
                _append(file, [rows[index] for index in indices if not reasons[index]])
    return reasons


def _by_item(rows: Iterable[_Row]) -> dict[str, list[_Row]]:
    by_item: dict[str, list[_Row]] = defaultdict(list)
    for row in rows:
        by_item[row["item_id"]].append(row)
    return by_item


def conflict(by_item: Mapping[str, Sequence[_Row]], new: _Row) -> str:
    """Return why a person may not give a judgment after those that they gave before, by item; "" if they may.

    In unfolding, an item is judged once with each number of sentences.
    """
    for row in by_item.get(new["item_id"], ()):
        if not is_about(row, new["text_digest"]):
            continue
        if row["condition"] != new["condition"]:
            return BOTH
        if new["condition"] != "unfolding" or row["shown"] == new["shown"]:
            return REPEATED if all(row[name] == new[name] for name in ("step", "guesses")) else JUDGED
    return ""


def is_about(row: _Row, digest: str | None) -> bool:
    """Return whether a judgment of an item with this id is about the text with this digest."""
    return row["text_digest"] is None or digest is None or bool(row["text_digest"] == digest)


def row_of(item: Item, person: str, *, step: int, condition: str, n_shown: int, guesses: list[str],
           seconds: float | None = None, answered: datetime | None = None) -> dict[str, Any]:  # fmt: skip
    """Return a row of the table, by default of now; `step` counts from 1."""
    return {
        "item_id": item.item_id, "text_digest": text_digest(item.text), "variant": item.variant,
        "person": person, "step": step, "condition": condition, "shown": n_shown, "guesses": guesses,
        "response_time": seconds, "answered": (answered or datetime.now(UTC)).isoformat(),
    }  # fmt: skip


def judgments_of(rows: Iterable[_Row]) -> pd.DataFrame:
    """Return rows as a table, in the order of the answers."""
    frame = pd.DataFrame(list(rows), columns=list(JUDGMENT_COLUMNS))
    frame["guesses"] = objects(frame["guesses"].tolist())
    for name in ("step", "shown"):
        frame[name] = frame[name].astype(int)
    frame["response_time"] = frame["response_time"].astype(float)
    frame["answered"] = pd.to_datetime(frame["answered"], utc=True, format="ISO8601")
    return frame.sort_values("answered", kind="stable", ignore_index=True)


def read_person(folder: Path | str | None, person: str) -> list[_Row]:
    """Return one person's rows of the table in a folder, in the order of the answers."""
    home = judgments_home(folder)
    check_folder(home)
    return [row for row in _read(_file(home, person)) if row["person"] == person]


def check_folder(home: Path) -> None:
    """Raise DataError for a file in place of a folder, and for a database of a campaign or game in either."""
    for path in [home] if home.is_file() else list_folder(home):
        if path.suffix == ".jsonl" or not path.is_file():
            continue
        with reading(path, _WHAT), path.open("rb") as file:
            start = file.read(len(_SQLITE))
        if start == _SQLITE:
            raise DataError(
                "databases of campaigns and games are no longer read; commit a21fd8b1 reads this one",
                file=path,
                hint=f"with that commit, run people.Campaign.open({str(path)!r}).judgments().rename("
                'columns={"name": "person"}).to_json("judgments.jsonl", orient="records", lines=True, '
                'date_format="iso"); then move the database away, and run people.add_judgments('
                'pandas.read_json("judgments.jsonl", lines=True), folder)',
            )
    if home.is_file():
        raise DataError("expected a folder of judgments, got a file", file=home, hint="pass its folder")


def file_size(folder: Path | str | None, person: str) -> int:
    """Return the size of a person's file in bytes, which grows with each judgment; 0 if there is none."""
    file = _file(judgments_home(folder), person)
    with reading(file, _WHAT):
        return file.stat().st_size if file.exists() else 0


def _file(home: Path, person: str) -> Path:
    # a name must not lead out of the folder; people whose names differ in other characters share a file
    name = re.sub(r"[^\w.-]+", "_", person).lstrip(".")[:80] or "_"
    return home / f"{name}.jsonl"


def _read(file: Path) -> list[_Row]:
    with reading(file, _WHAT):
        if not file.exists():
            return []
    *lines, rest = read_bytes(file, _WHAT).split(b"\n")
    if rest:
        raise DataError(
            "the last line of this file of judgments is incomplete",
            file=file,
            line=len(lines) + 1,
            hint="delete this line; its answer was not confirmed as saved",
        )
    rows: list[_Row] = []
    for number, line in enumerate(lines, start=1):
        with reading(file, "this judgment", line=number, hint="mend or delete it; nothing was changed"):
            rows.append(_checked(json.loads(line.decode())))
    return rows


def _checked(values: _Row) -> dict[str, Any]:
    """Return the columns of a judgment; TypeError or ValueError if it is not valid."""
    row = {name: values.get(name) for name in JUDGMENT_COLUMNS}
    guesses, seconds = row["guesses"], row["response_time"]
    if not isinstance(guesses, list) or not guesses:
        raise TypeError("its guesses are not a list of words")
    for text in (row["item_id"], *guesses, *(row[name] for name in ("text_digest", "variant") if row[name])):
        if not isinstance(text, str) or not is_encodable(text):
            raise TypeError(f"{text!r:.40} is not text")
    if not is_person(row["person"]):
        raise ValueError(f"nobody can be called {row['person']!r:.40}")
    if row["condition"] not in get_args(Condition):
        raise ValueError(f"the condition {row['condition']!r:.40} is unknown")
    for name, least in (("step", 1), ("shown", 0)):
        number = row[name]
        if not isinstance(number, int) or number < least:
            raise ValueError(f"{name} is {number!r:.40}")
    if seconds is not None and not (isinstance(seconds, int | float) and 0 <= seconds < math.inf):
        raise ValueError(f"response_time is {seconds!r:.40}")
    if datetime.fromisoformat(str(row["answered"])).tzinfo is None:
        raise ValueError("its time has no time zone")
    return row


def _append(file: Path, rows: Sequence[_Row]) -> None:
    """Append rows in one write that reaches the disk; a full disk leaves the file as it was."""
    data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()
    if not data:
        return
    with file.open("ab", buffering=0) as out:
        size = out.tell()
        try:
            while data:  # a disk that is nearly full takes a part, then raises the system's error
                data = data[out.write(data) :]
            os.fsync(out.fileno())
        except OSError:
            out.truncate(size)
            raise


def score_judgments(
    items: Items, judgments: pd.DataFrame, protocol: str | Protocol = "lambada"
) -> pd.DataFrame:
    """Return the judgments of these items at the steps of a protocol, with what came of each.

    Judgments of other items, texts, variants and steps are left out.

    Parameters
    ----------
    items : Items
    judgments : DataFrame
        See `read_judgments`.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
        Its ``accept`` says which matches are right.

    Returns
    -------
    DataFrame
        One row per judgment: item_id, person, step, condition, shown, guesses; ``prediction``, the first
        guess; ``answer``; ``match``, the best of all guesses (:data:`workbench.people.protocols.MATCHES`);
        ``correct`` and ``prediction_correct``, whether any guess and whether the first one counts as right;
        ``last_answer``, whether it was this person's last one about the item; response_time, answered.

    Raises
    ------
    DataError
        If a person has two judgments of an item, or a column is missing.

    Examples
    --------
    >>> from workbench import people
    >>> frame = people.score_judgments(items, people.simulate(items), "lambada")
    >>> frame["condition"].unique().tolist()
    ['passage', 'sentence']
    """
    chosen = named_protocol(protocol)
    if missing := [name for name in JUDGMENT_COLUMNS if name not in judgments]:
        raise DataError(
            f"the judgments have no column {missing[0]!r}", hint="pass what people.read_judgments returns"
        )
    items_frame = items.frame
    asked = pd.DataFrame({
        "item_id": items_frame["item_id"], "digest": list(map(text_digest, items_frame["text"])),
        "item_variant": items_frame["variant"], "answer": items_frame["answer"],
        "candidates": items_frame["candidates"], "n_context": items_frame["sentences"].map(len) - 1,
    })  # fmt: skip
    rows = judgments[list(JUDGMENT_COLUMNS)].merge(asked, on="item_id")  # in the order of the judgments
    steps = {(number, step.condition) for number, step in enumerate(chosen.steps, 1)}
    mask = np.array([key in steps for key in zip(rows["step"], rows["condition"], strict=True)], dtype=bool)
    mask &= rows["text_digest"].isna() | (rows["text_digest"] == rows["digest"])
    mask &= rows["variant"].isna() | (rows["variant"] == rows["item_variant"])
    rows = rows[mask].reset_index(drop=True)
    unfolds = rows["condition"] == "unfolding"
    twice = rows.duplicated(["item_id", "person"], keep=False) & ~unfolds
    twice |= rows.duplicated(["item_id", "person", "shown"])
    if twice.any():
        row = rows[twice].iloc[0]
        raise DataError(
            f"{row['person']!r:.60} has two judgments of the item {row['item_id']}",
            hint="leave one of them out: nobody judges an item twice",
        )
    answers = list(zip(rows["guesses"], rows["answer"], rows["candidates"], strict=True))
    matches = [chosen.match(words, answer, candidates) for words, answer, candidates in answers]
    first = [chosen.match(words[:1], answer, candidates) for words, answer, candidates in answers]
    accept = set(chosen.accept)
    rows["prediction"] = pd.Series([words[0] for words in rows["guesses"]], dtype="str")
    rows["match"] = pd.Series(matches, dtype="str")
    rows["correct"] = pd.Series([each in accept for each in matches], dtype=bool)
    rows["prediction_correct"] = pd.Series([each in accept for each in first], dtype=bool)
    later = rows.duplicated(["item_id", "person"], keep="last")
    scored: pd.DataFrame = rows.assign(
        last_answer=~later & (~unfolds | rows["correct"] | (rows["shown"] >= rows["n_context"]))
    )
    return scored[list(SCORED)]
