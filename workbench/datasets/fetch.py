"""Fetch data sets: download what is not there, check it, unpack it, and say under which terms it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pooch import file_hash

from workbench.datasets import download, unpacking
from workbench.datasets.catalogue import Entry, Remote, describe, entry, names
from workbench.items.schema import DataError
from workbench.storage.files import atomic_path, data_home, resource

__all__ = ["LICENCE", "Entry", "Remote", "describe", "entry", "fetch", "names"]

LICENCE = "LICENCE.txt"
"""The file beside the data that holds licence and citation."""

_RECORD = ".fetched.json"
_LOCK = ".fetch.lock"


def fetch(
    dataset: str, *, dry_run: bool = False, folder: Path | str | None = None, progress: bool = True
) -> Path:
    """Download a data set, check it, and return the folder that holds it.

    What is there already and right is kept: then nothing is downloaded. A download that was
    broken off, by whatever, goes on where it stopped when it is called again. A file is put in
    place only when its size and sha256 are right, and an archive is unpacked whole or not at
    all. Several processes may ask for the same data at once.

    Parameters
    ----------
    dataset : str
        Its name, such as ``"lambada"``; :func:`describe` lists them.
    dry_run : bool
        Print what would be done, and change nothing.
    folder : path, optional
        Where to put it, in place of ``data/raw/<dataset>``, which :func:`workbench.load` searches.
    progress : bool
        Show a progress bar.

    Returns
    -------
    Path
        The folder, to be passed as `path` to :func:`workbench.load` if it is not the usual one.

    Raises
    ------
    DataError
        If there is no such data set, it cannot be had, or it is not what it should be. The
        message tells what to do by hand instead.

    Notes
    -----
    Environment variables:

    ``WORKBENCH_MIRROR``
        The base address of a mirror, used in place of the publishers': ``<mirror>/<file name>``.
    ``WORKBENCH_TIMEOUT``
        How many seconds a server may stay silent, 30 unless set. The whole may take any time.
    ``HTTP_PROXY``, ``HTTPS_PROXY``, ``NO_PROXY``
        Proxies, as elsewhere; in small letters, too.
    ``WORKBENCH_HOME``
        The folder that holds ``raw/``, in place of ``data/``.
    """
    it = entry(dataset)
    if it.shipped:
        _say(f"{dataset} is part of the workbench: nothing to fetch")
        return resource(it.shipped)
    where = data_home() / "raw" / dataset if folder is None else Path(folder).expanduser()
    there = _Folder(where)
    if dry_run:
        _say(_plan(it, there))
        return where
    try:
        _fetch(it, there, progress=progress)
    except OSError as error:
        raise DataError(
            f"the data cannot be written or read ({error.strerror or error})",
            file=error.filename or where,
            remedy="make it accessible, make room, or pass folder= another place",
        ) from error
    return where


def _fetch(it: Entry, there: _Folder, *, progress: bool) -> None:
    where = there.path
    if there.ready(it):
        with suppress(OSError):  # it is right, even in a folder that cannot be written to
            there.save()
            _note_terms(it, where)
        return
    if not it.published:
        raise DataError(
            f"{it.dataset} has no address that it can be fetched from",
            remedy=f"{' '.join(it.manual.split())} into {where}",
        )
    where.mkdir(parents=True, exist_ok=True)
    with _lock(where):
        for remote in it.files:
            _get(remote, _Folder(where), progress=progress)
        _note_terms(it, where)


class _Folder:
    """The folder of a data set, with the record of what was checked there before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changed = False
        self.files: dict[str, dict[str, Any]] = {}
        self.unpacked: dict[str, dict[str, Any]] = {}
        with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):  # none, or a damaged one
            record = json.loads((path / _RECORD).read_text(encoding="utf-8"))
            for name, kind in (("files", self.files), ("unpacked", self.unpacked)):
                kind.update({key: dict(known) for key, known in record[name].items()})

    def ready(self, it: Entry) -> bool:
        """Tell whether all is there and right."""
        if it.manual and next(chain.from_iterable(self.path.glob(p) for p in it.found), None):
            return True
        return bool(it.files) and all(self.has(remote) for remote in it.files)

    def has(self, remote: Remote) -> bool:
        """Tell whether a file is there and right, unpacked where it should be."""
        return self._is_unpacked(remote) if remote.unpack else self.is_right(remote)

    def is_right(self, remote: Remote) -> bool:
        """Tell whether a file is what it should be; its content is read only if it has changed."""
        path = self.path / remote.name
        if not path.is_file():
            return False
        known = self.files.get(remote.name, {})
        stamp = _stamp(path)
        if known.get("stamp") == stamp and remote.sha256 in {None, known.get("sha256")}:
            return True
        if remote.bytes not in {None, stamp[0]}:
            return False
        found = file_hash(str(path))
        if (remote.sha256 or known.get("sha256")) not in {None, found}:
            return False
        self.record(remote, found, known.get("address"))
        return True

    def record(self, remote: Remote, sha256: str, address: str | None) -> None:
        """Remember that a file was checked."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        stamp = _stamp(self.path / remote.name)
        self.files[remote.name] = {"stamp": stamp, "sha256": sha256, "address": address, "checked": now}
        self.changed = True

    def record_unpacked(self, remote: Remote, folder: Path) -> None:
        """Remember what an archive held."""
        files = (path for path in folder.rglob("*") if path.is_file())
        stamps = {path.relative_to(self.path).as_posix(): _stamp(path) for path in files}
        self.unpacked[remote.name] = {"sha256": self.files[remote.name]["sha256"], "files": stamps}
        self.changed = True

    def _is_unpacked(self, remote: Remote) -> bool:
        known = self.unpacked.get(remote.name, {})
        if remote.sha256 not in {None, known.get("sha256")}:
            return False
        stamps = dict(known.get("files", {}))
        paths = ((self.path / name, stamp) for name, stamp in stamps.items())
        return bool(stamps) and all(path.is_file() and _stamp(path) == stamp for path, stamp in paths)

    def save(self) -> None:
        """Write the record, if there is something new in it."""
        if self.changed:
            with atomic_path(self.path / _RECORD) as path:
                text = json.dumps({"files": self.files, "unpacked": self.unpacked}, indent=1)
                path.write_text(text, encoding="utf-8")


def _get(remote: Remote, there: _Folder, *, progress: bool) -> None:
    if there.has(remote):  # another process may have been quicker
        there.save()
        return
    target = there.path / remote.name
    if not there.is_right(remote):
        if target.exists():
            _say(f"{target} is not the file it should be: it will be replaced")
        address = download.download(
            remote.sources, target, size=remote.bytes, sha256=remote.sha256, progress=progress
        )
        sha256 = remote.sha256 or file_hash(str(target))
        there.record(remote, sha256, address)
        _say(f"{target}: {target.stat().st_size:,} bytes, sha256 {sha256}")
    there.save()
    if remote.unpack:
        unpacked = unpacking.unpack(target, remote.members)
        there.record_unpacked(remote, unpacked)
        there.save()
        _say(f"{unpacked}: unpacked")


@contextmanager
def _lock(where: Path) -> Iterator[None]:
    """Hold the folder's lock for the block."""
    lock = FileLock(where / _LOCK)
    try:
        lock.acquire(timeout=0.1)
    except Timeout:
        _say(f"another process is fetching into {where}: waiting for it")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _plan(it: Entry, there: _Folder) -> str:
    lines = [f"{it.dataset}: {it.title}", f"  licence: {it.licence}", f"  into: {there.path}"]
    ready = there.ready(it)
    if not it.published and not ready:
        lines.append(f"  by hand: {' '.join(it.manual.split())} into this folder")
    for remote in it.files if ready or it.published else ():
        part = download.part_of(there.path / remote.name)
        if ready or there.has(remote):
            state = "there already"
        elif there.is_right(remote):
            state = "there already, to be unpacked"
        elif part.is_file():
            state = f"{part.stat().st_size:,} of them are there"
        else:
            state = "to be fetched" + (" and unpacked" if remote.unpack else "")
        lines.append(f"  {remote.name}: {remote.size}, {state}")
        lines += [f"    {address}" for address in remote.sources]
    return "\n".join(lines)


def _note_terms(it: Entry, where: Path) -> None:
    """Print licence and citation and put them beside the data, the first time."""
    path = where / LICENCE
    before = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    if it.terms in before:
        return
    with atomic_path(path) as temporary:
        temporary.write_text(f"{before}\n{it.terms}" if before else it.terms, encoding="utf-8")
    _say(it.terms)


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - this is what the user asked to be told
