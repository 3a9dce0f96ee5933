"""Tags and notes on items: one JSON line per item, one file per data set.

A note names the text that it was written on by a digest of its letters and digits, so that it stays with the
passage: it shows on every variant of the text, and on no other passage that happens to have the same id. It
shows in every data set that has this text under this id: a table is one data set as a file, another as frame.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock

from workbench.items.schema import content_digest
from workbench.storage.errors import reading, writing
from workbench.storage.files import atomic_path, list_folder, read_bytes
from workbench.storage.paths import data_home


@dataclass(frozen=True, slots=True)
class Note:
    """Tags and a note on one item; `fields` are other fields of its line, written back unchanged."""

    item_id: str
    tags: tuple[str, ...] = ()
    note: str = ""
    updated: str = ""
    text_digest: str = ""  # empty in notes of before there were digests: they show on any text
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)


class NotesTable(pd.DataFrame):
    """Tags and notes, one row per item; without any a notebook says so.

    Every operation gives a plain DataFrame.
    """

    def _repr_html_(self) -> str:
        return str(pd.DataFrame(self)._repr_html_()) if len(self) else f"<p>{_NONE}</p>"  # type: ignore[operator]

    def __repr__(self) -> str:
        return repr(pd.DataFrame(self)) if len(self) else _NONE


_NONE = "no tags or notes yet"
_FIELDS = ("item_id", "tags", "note", "updated", "text_digest")
_Rows = dict[tuple[str, str], Note]  # by item id and digest of the text


def notes(dataset: str | None = None, *, folder: Path | str | None = None) -> NotesTable:
    """Return all tags and notes as a table, those on texts that are loaded no longer included.

    Parameters
    ----------
    dataset : str, optional
        Only those of this data set.
    folder : path, optional
        Folder of the notes; ``data/notes`` by default.

    Returns
    -------
    NotesTable
        A DataFrame: ``item_id``, ``tags`` (list of str), ``note``, ``updated`` (UTC), ``dataset``,
        ``text_digest`` (which text the note is on: two notes on one id with two digests are on two texts).

    Examples
    --------
    >>> wb.notes("sample").columns.tolist()
    ['item_id', 'tags', 'note', 'updated', 'dataset', 'text_digest']
    """
    files = _note_files(folder) if dataset is None else [_file(folder, dataset)]
    rows = [
        {**asdict(row), "tags": list(row.tags), "dataset": file.stem}
        for file in files
        for row in _read(file).values()
    ]
    frame = pd.DataFrame(rows, columns=["item_id", "tags", "note", "updated", "dataset", "text_digest"])
    frame["updated"] = pd.to_datetime(frame["updated"], utc=True, format="ISO8601", errors="coerce")
    return NotesTable(frame.rename_axis(columns="row"))  # the heading above the numbers of rows


def text_digest(text: str) -> str:
    """Return a short name of a text: the same for its tokenised, cased and lower-cased forms."""
    return content_digest("".join(filter(str.isalnum, text.casefold())))


def read_notes(
    datasets: Iterable[str], *, texts: Mapping[str, str] | None = None, folder: Path | str | None = None
) -> dict[str, Note]:
    """Return the notes of some data sets by item id.

    With `texts` (by item id) they are the notes on these texts, the last written ones of all data sets.
    """
    named = [_file(folder, dataset) for dataset in dict.fromkeys(datasets)]
    if texts is None:
        return {note.item_id: note for file in named for note in _read(file).values()}
    tables = {file: _read(file) for file in _note_files(folder)}
    result = {
        item_id: note
        for (item_id, digest), note in _latest(tables.values()).items()
        if item_id in texts and digest == text_digest(texts[item_id])
    }
    for file in named:
        for note in tables.get(file, {}).values():
            if not note.text_digest:
                result.setdefault(note.item_id, note)
    return result


def write_notes(
    dataset: str, changes: Mapping[str, Mapping[str, Any]], *, folder: Path | str | None = None
) -> dict[str, Note]:
    """Set tags or notes of several items, ``text``, ``tags`` and ``note`` by item id; return the new notes.

    The file is read again under a lock and replaced atomically, so notebooks that write at the
    same time lose nothing, and a killed kernel leaves the old file or the new one. A note without tags and
    text is removed, unless its line has other fields or another data set has a note on this text.
    """
    file = _file(folder, dataset)
    valid = {item_id: _valid_change(change) for item_id, change in changes.items()}
    written: dict[str, Note] = {}
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with writing(file), FileLock(file.with_name(f".{file.name}.lock")):  # against other threads and processes
        tables = {each: _read(each) for each in _note_files(folder)}
        latest, rows = _latest(tables.values()), tables.pop(file, {})
        others = set[tuple[str, str]]().union(*tables.values())
        for item_id, (text, tags, note) in valid.items():
            key = item_id, "" if text is None else text_digest(text)
            old = latest.get(key) or rows.get(key) or rows.pop((item_id, ""), None) or Note(item_id)
            new = Note(
                item_id,
                old.tags if tags is None else tags,
                old.note if note is None else note,
                datetime.now(UTC).isoformat(timespec="milliseconds"),
                key[1],
                old.fields,
            )
            rows[key] = written[item_id] = new
            if key not in others and not (new.tags or new.note or new.fields):
                del rows[key]
        with atomic_path(file) as temporary, temporary.open("w", encoding="utf-8") as out:
            for row in rows.values():
                line = {name: getattr(row, name) for name in _FIELDS} | dict(row.fields)
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
    return written


def _valid_change(change: Mapping[str, Any]) -> tuple[str | None, tuple[str, ...] | None, str | None]:
    """Return text, tags and note of a change; tags and note without space around them."""
    text, tags, note = (change.get(name) for name in ("text", "tags", "note"))
    if tags is not None:
        several = [tags] if isinstance(tags, str) else tags
        tags = tuple(dict.fromkeys(tag for each in several if (tag := each.strip())))
    return text, tags, None if note is None else note.strip()


def _home(folder: Path | str | None) -> Path:
    return data_home() / "notes" if folder is None else Path(folder)


def _file(folder: Path | str | None, dataset: str) -> Path:
    # a user names data sets freely; the name must not lead out of the folder
    name = re.sub(r"[^\w.-]+", "_", dataset).lstrip(".") or "_"
    return _home(folder) / f"{name}.jsonl"


def _note_files(folder: Path | str | None) -> list[Path]:
    return [file for file in list_folder(_home(folder)) if file.suffix == ".jsonl"]


def _latest(tables: Iterable[_Rows]) -> _Rows:
    """Return the note that was written last on each text."""
    rows: _Rows = {}
    for key, note in (pair for table in tables for pair in table.items()):
        earlier = rows.get(key)
        if key[1] and (earlier is None or _time(note) >= _time(earlier)):
            rows[key] = note
    return rows


def _time(note: Note) -> datetime:
    return datetime.fromisoformat(note.updated)


def _read(file: Path) -> _Rows:
    rows: _Rows = {}
    with reading(file, "these notes"):
        if not file.exists():
            return rows
    # only "\n" ends a line here: a note may hold any other line separator
    for number, line in enumerate(read_bytes(file, "these notes").split(b"\n"), start=1):
        if not line.strip():
            continue
        with reading(file, "this note", line=number, hint="mend or delete it; nothing was changed"):
            row: dict[str, Any] = json.loads(line.decode())
            if not isinstance(row["tags"], list):
                raise TypeError(f"tags are {row['tags']!r}, expected a list")
            fields = str(row["item_id"]), tuple(map(str, row["tags"])), str(row["note"]), row["updated"]
            others = {name: value for name, value in row.items() if name not in _FIELDS}
            read = Note(*fields, str(row.get("text_digest", "")), others)
            datetime.fromisoformat(read.updated)
            json.dumps(row, ensure_ascii=False).encode()  # half a surrogate pair could not be written again
        rows[read.item_id, read.text_digest] = read
    return rows
