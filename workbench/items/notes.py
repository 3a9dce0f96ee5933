"""Tags and notes that a reader leaves on items: one JSON line an item, one file a data set."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from workbench.items.schema import DataError
from workbench.storage.files import atomic_path, data_home

_THREADS = threading.Lock()


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader left on one item."""

    item_id: str
    tags: tuple[str, ...] = ()
    note: str = ""
    updated: str = ""


def notes(dataset: str | None = None, *, folder: Path | str | None = None) -> pd.DataFrame:
    """Return all tags and notes as a table.

    Parameters
    ----------
    dataset : str, optional
        Only those of this data set.
    folder : path, optional
        Where they lie; ``data/notes`` by default.

    Returns
    -------
    DataFrame
        ``item_id``, ``tags`` (list of str), ``note``, ``updated`` (UTC), ``dataset``.
    """
    home = _folder(folder)
    files = sorted(home.glob("*.jsonl")) if dataset is None else [_file(home, dataset)]
    rows = [
        {**asdict(found), "tags": list(found.tags), "dataset": file.stem}
        for file in files
        for found in _read(file).values()
    ]
    frame = pd.DataFrame(rows, columns=["item_id", "tags", "note", "updated", "dataset"])
    frame["updated"] = pd.to_datetime(frame["updated"], utc=True, format="ISO8601")
    return frame


def read_notes(datasets: Iterable[str], *, folder: Path | str | None = None) -> dict[str, Note]:
    """Return what stands on the items of these data sets, by item id."""
    found: dict[str, Note] = {}
    for dataset in dict.fromkeys(datasets):
        found |= _read(_file(_folder(folder), dataset))
    return found


def write_note(
    dataset: str,
    item_id: str,
    *,
    tags: Iterable[str] | None = None,
    note: str | None = None,
    folder: Path | str | None = None,
) -> Note:
    """Set the tags or the note of one item (None leaves it as it is) and return what stands now.

    The file is read again under a lock before it is replaced as a whole, so notebooks that
    write at the same time lose nothing, and a killed kernel leaves the old file or the new one.
    """
    file = _file(_folder(folder), dataset)
    with _locked(file):
        found = _read(file)
        old = found.get(item_id, Note(item_id))
        new = Note(
            item_id,
            old.tags if tags is None else tuple(dict.fromkeys(t for tag in tags if (t := tag.strip()))),
            old.note if note is None else note.strip(),
            datetime.now(UTC).isoformat(timespec="milliseconds"),
        )
        found[item_id] = new
        if not (new.tags or new.note):
            del found[item_id]
        with atomic_path(file) as temporary, temporary.open("w", encoding="utf-8") as out:
            out.writelines(json.dumps(asdict(row), ensure_ascii=False) + "\n" for row in found.values())
    return new


def _folder(folder: Path | str | None) -> Path:
    return data_home() / "notes" if folder is None else Path(folder)


def _file(folder: Path, dataset: str) -> Path:
    # a user names data sets freely; the name must not lead out of the folder
    name = re.sub(r"[^\w.-]+", "_", dataset).lstrip(".") or "_"
    return folder / f"{name}.jsonl"


def _read(file: Path) -> dict[str, Note]:
    found: dict[str, Note] = {}
    if not file.is_file():
        return found
    # only "\n" ends a line here: a note may hold any other line separator
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            row: dict[str, Any] = json.loads(line.decode())
            read = Note(str(row["item_id"]), _tags(row["tags"]), str(row["note"]), row["updated"])
            datetime.fromisoformat(read.updated)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"this line holds no note ({error})",
                file=file,
                line=number,
                remedy="mend or delete the line; nothing was changed",
            ) from error
        found[read.item_id] = read
    return found


def _tags(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError(f"tags are {value!r}, expected a list")
    return tuple(map(str, value))


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold a lock that other threads and, where the system has file locks, processes respect."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with _THREADS, file.with_name(f".{file.name}.lock").open("w") as handle:
        try:
            import fcntl  # noqa: PLC0415 - not on Windows
        except ModuleNotFoundError:
            yield
            return
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
