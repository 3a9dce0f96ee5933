"""Table of the files in ``data/cache``, `free` deletes entries: ``wb.cache()``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pandas as pd
import pyarrow as pa

from workbench.render.numbers import size
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage import cache as disk
from workbench.storage.errors import DataError, reading, reason
from workbench.storage.files import read_json, remove

_SHOWN = (
    TableColumn("kind"), TableColumn("content"), TableColumn("bytes", "size"), TableColumn("used", "time"),
)  # fmt: skip
_CORPUS = "corpus"  # a kind whose entries are files with a description
_KEY = 12  # letters of a name that are listed


class CacheTable(Table):
    """Content of the cache: one row per model or corpus, and one for all tables of a kind."""

    @classmethod
    def of_disk(cls) -> Self:
        """Read the present content of the cache."""
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for entry in disk.cache_entries():
            name = entry.path.name[:_KEY] if entry.path.is_dir() or entry.kind == _CORPUS else ""
            new = {"kind": entry.kind, "entry": name, "content": _content(entry.path), "bytes": 0, "files": 0}
            row = rows.setdefault((entry.kind, name), new)
            row["bytes"] += entry.size
            row["files"] += 1
            row["used"] = datetime.fromtimestamp(entry.used, UTC).isoformat(timespec="seconds")
        for (_, name), row in rows.items():
            if not name:
                row["content"] = f"{row['files']:,} tables"
        columns = ["kind", "entry", "content", "bytes", "used"]
        frame = pd.DataFrame(list(rows.values()), columns=columns)
        frame = frame.sort_values("bytes", ascending=False, ignore_index=True, kind="stable")
        title = f"Cache: {size(frame['bytes'].sum())} of {size(disk.cache_limit())}"
        return cls(frame, TableLayout(title, _SHOWN))

    def free(self, *names: str) -> Self:
        """Delete entries of the cache, and return the remaining ones.

        It is made again when it is needed. A warning names what cannot be deleted.

        `names` are kinds such as ``"annotations"``, or entries.
        """
        valid = {*self["kind"], *self["entry"]} - {""}
        if not names or set(names) - valid:
            problem = f"there is no {min(set(names) - valid)!r} in the cache" if names else "nothing is named"
            kind_list = ", ".join(sorted(set(self["kind"])))
            raise DataError(problem, hint=f"name an entry, or a kind: {kind_list or 'there is none'}")
        entries = [e for e in disk.cache_entries() if {e.kind, e.path.name[:_KEY]} & set(names)]
        for entry in entries:
            try:
                remove(entry.path)
            except OSError as error:
                label = f"{entry.kind} {entry.path.name[:_KEY]}"
                warnings.warn(f"{label} is not deleted: {reason(error)}", stacklevel=2)
        return self.of_disk()


def cache() -> CacheTable:
    """List the content of ``data/cache``, the largest first; ``wb.cache().free("annotations")`` deletes some.

    Returns
    -------
    CacheTable
        Columns: kind, entry (name of a model or corpus, empty for tables), content, bytes, used (time of the
        last use). The bound is 10 GB, or what ``WORKBENCH_CACHE_GB`` says.

    Examples
    --------
    >>> wb.cache().columns.tolist()
    ['kind', 'entry', 'content', 'bytes', 'used']
    """
    return CacheTable.of_disk()


def _content(path: Path) -> str:
    """Return the content of an entry in words, from its description."""
    if path.parent.name == _CORPUS:
        with suppress(DataError), reading(path), pa.memory_map(str(path)) as file:
            info = json.loads(pa.ipc.open_file(file).schema.metadata[b"workbench"])
            return f"texts of {info['tokens']:,} words{', lower-cased' if info['lower'] else ''}"
    for name, describe in _DESCRIPTIONS.items():
        with suppress(DataError), reading(path / name):
            text = describe(read_json(path / name))
            return text.encode().decode()  # half a surrogate pair is not text
    return "unfinished" if path.is_dir() else ""


def _ngram(info: Mapping[str, Any]) -> str:
    return f"{info['order']}-gram, {info['smoothing']}, {info['training']['tokens']:,} words of training text"


def _network(info: Mapping[str, Any]) -> str:
    width = info["sizes"].get("width", "")
    return f"{info['class'].partition(':')[2]} {width}".strip()


def _vectors(info: Mapping[str, Any]) -> str:
    return f"vectors of {len(info['words']):,} words"


_DESCRIPTIONS = {"ngram.json": _ngram, "fit.json": _network, "vectors.json": _vectors}
