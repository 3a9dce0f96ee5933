"""Fetch data sets: what the registry knows of them; download, check, unpack, and note the terms."""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout
from pooch import HTTPDownloader, file_hash

from workbench.datasets import archives, sources
from workbench.items.schema import DataError
from workbench.storage.files import atomic_path, data_home, resource
from workbench.storage.progress import progress_bar

LICENCE = "LICENCE.txt"
"""The file beside the data with licence and citation."""
TRIES = 5
PAUSE = 0.5
"""Seconds before the second try; each further pause is twice as long."""
MAX_BYTES = 8 << 30
"""Largest size of a file whose size is not known."""

_RECORD = ".fetched.json"
_LOCK = ".fetch.lock"
_CHUNK = 1 << 16  # what a broken connection loses at most
_TEMPORARY = {408, 416, 425, 429}


@dataclass(frozen=True)
class Remote:
    """One published file.

    Its `addresses` are tried in order; there are none where no address is stable. Size and checksum are None
    where they are not known. `members` has the sha256 of files in an archive, checked where it is unpacked.
    """

    name: str
    addresses: Sequence[str] = ()
    bytes: int | None = None
    sha256: str | None = None
    about: str = ""
    unpack: bool = False
    members: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One data set of the registry.

    `manual` says what to do by hand where there is no stable address; a file in the folder then fits one of
    `patterns`. `shipped` is the folder of the project's own data that holds the set, if it is ours.
    """

    dataset: str
    title: str
    licence: str
    citation: str
    about: str = ""
    files: tuple[Remote, ...] = ()
    manual: str = ""
    patterns: Sequence[str] = ()
    shipped: str = ""

    @property
    def terms(self) -> str:
        """Licence and citation, as they stand beside the data."""
        return f"{self.title}\n\nLicence: {self.licence}\n\nPlease cite:\n{self.citation.strip()}\n"

    @property
    def published(self) -> bool:
        """Whether every file has an address."""
        return all(remote.addresses for remote in self.files)


def entries() -> dict[str, Entry]:
    """Return what the registry knows, by the name of the data set."""
    result = {}
    for name, table in sources.registry().items():
        files = tuple(Remote(**remote) for remote in table.get("files", ()))
        result[name] = Entry(dataset=name, **{**table, "files": files})
    return result


def fetch(
    dataset: str, *, dry_run: bool = False, folder: Path | str | None = None, progress: bool = True
) -> Path:
    """Download a data set, check it, and return the folder that holds it.

    What is there already and right is not downloaded again, and an interrupted download resumes. A file is
    put in place only when its size and sha256 are right, and an archive is unpacked whole or not at all.
    Several processes may ask for the same data at once.

    Parameters
    ----------
    dataset : str
        Its name, such as ``"lambada"``; an unknown one raises an error that lists them.
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
        If there is no such data set, it cannot be had, or it is not what it should be; the message says
        what to do by hand instead.

    Notes
    -----
    Environment variables: ``WORKBENCH_TIMEOUT``, the seconds that a server may stay silent (30 by default);
    ``WORKBENCH_HOME``, the folder that holds ``raw/``, in place of ``data/``; and ``HTTP_PROXY``,
    ``HTTPS_PROXY`` and ``NO_PROXY``.

    Examples
    --------
    >>> wb.fetch("lambada", dry_run=True)
    lambada: The LAMBADA dataset
      licence: CC BY 4.0
      into: ...raw/lambada
      lambada-dataset.tar.gz: 334,527,694 bytes, to be fetched
        https://zenodo.org/record/2630551/files/lambada-dataset.tar.gz
    ...Path('...raw/lambada')
    """
    known = entries()
    it = known[sources.choose("data set", dataset, list(known), "the registry")]
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
    with _locked(where):
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
        if it.manual and any(any(self.path.glob(pattern)) for pattern in it.patterns):
            return True
        return bool(it.files) and all(map(self.has, it.files))

    def has(self, remote: Remote) -> bool:
        """Tell whether a file is there and right, unpacked where it should be."""
        if not remote.unpack:
            return self.is_right(remote)
        known = self.unpacked.get(remote.name, {})
        stamps = {self.path / name: stamp for name, stamp in dict(known.get("files", {})).items()}
        same = remote.sha256 in {None, known.get("sha256")}
        return (
            same and bool(stamps) and all(p.is_file() and _stamp(p) == stamp for p, stamp in stamps.items())
        )

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
        sha256 = file_hash(str(path))
        if (remote.sha256 or known.get("sha256")) not in {None, sha256}:
            return False
        self.record(remote, sha256, known.get("address"))
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

    def save(self) -> None:
        """Write the record, if there is something new in it."""
        if self.changed:
            with atomic_path(self.path / _RECORD) as path:
                text = json.dumps({"files": self.files, "unpacked": self.unpacked}, indent=1)
                path.write_text(text, encoding="utf-8")


def _get(remote: Remote, there: _Folder, *, progress: bool) -> None:
    if not there.has(remote):  # else another process was quicker
        target = there.path / remote.name
        if not there.is_right(remote):
            if target.exists():
                _say(f"{target} is not the expected file: it will be replaced")
            address = _download(_Part(remote, target, progress=progress))
            sha256 = remote.sha256 or file_hash(str(target))
            there.record(remote, sha256, address)
            _say(f"{target}: {target.stat().st_size:,} bytes, sha256 {sha256}")
        there.save()
        if remote.unpack:
            folder = archives.unpack(target, remote.members)
            there.record_unpacked(remote, folder)
            _say(f"{folder}: unpacked")
    there.save()


def _download(part: _Part) -> str:
    """Download a file from the first of its addresses that gives the right one; return that address."""
    problems = []
    for address in part.remote.addresses:
        try:
            _download_from(address, part)
        except DataError as error:
            problems.append(error)
        else:
            return address
    if len(problems) == 1:
        raise problems[0]
    raise DataError("; ".join(error.problem for error in problems), remedy=problems[-1].remedy)


def _download_from(address: str, part: _Part) -> None:
    """Try again where connection or server failed in a way that may pass, then put the file in place."""
    for tried in range(1, TRIES + 1):
        try:
            start = part.transfer(address)
        except OSError as error:  # those of requests are, and have no errno
            if error.errno is not None:
                raise
            response = getattr(error, "response", None)
            code = 0 if response is None else response.status_code
            if code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.path.unlink()
            refused = HTTPStatus.BAD_REQUEST <= code < HTTPStatus.INTERNAL_SERVER_ERROR
            if isinstance(error, ValueError) or (refused and code not in _TEMPORARY) or tried == TRIES:
                raise part.error(f"{address} cannot be downloaded: {_reason(error)}") from error
        else:
            expected = part.remote.bytes or 0
            size, sha256 = part.path.stat().st_size, file_hash(str(part.path))
            if size >= expected and sha256 == (part.remote.sha256 or sha256):
                part.path.replace(part.target)
                return
            if size >= expected:
                part.path.unlink()
            if tried == TRIES or not (size < expected or start):  # two pieces may be of two files
                raise part.error(
                    f"{address} is not the expected file: it has {size:,} bytes and the sha256 {sha256},"
                    f" expected {expected or size:,} and {part.remote.sha256}"
                )
        time.sleep(PAUSE * 2 ** (tried - 1))


class _Part:
    """The first bytes of a file, beside it on disk; pooch writes the others to it.

    Without a checksum nothing tells that they belong to the same file, so that it is begun anew.
    """

    def __init__(self, remote: Remote, target: Path, *, progress: bool) -> None:
        self.remote, self.target, self.progress = remote, target, progress
        self.path = target.with_name(f"{target.name}.part")

    def transfer(self, address: str) -> int:
        """Append what is missing; return how many bytes were there before."""
        start = self.path.stat().st_size if self.path.is_file() else 0
        if start and start == self.remote.bytes:
            return start
        if self.remote.sha256 is None or start > (self.remote.bytes or start):
            start = 0
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        options = {"headers": headers, "hooks": {"response": self._check}, "timeout": _timeout()}
        bar = progress_bar(
            self.remote.bytes, label=self.target.name, unit="B", shown=self.progress, initial=start
        )
        with (
            self.path.open("r+b" if start else "wb") as self._file,
            bar as self._bar,
            ExitStack() as self._responses,
        ):
            self._file.seek(0, os.SEEK_END)
            HTTPDownloader(chunk_size=_CHUNK, **options)(address, self, None)
            os.fsync(self._file.fileno())
        return start

    def _check(self, response: Any, **_: Any) -> None:
        """Hold an answer's size against what is expected and the disk has room for; find where it begins."""
        self._responses.callback(response.close)
        if response.status_code not in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
            return  # a redirection, or an error that pooch raises
        # as it is: some servers call a .tgz "encoded", and it must stay packed
        response.raw.headers.pop("Content-Encoding", None)
        begin = self._file.tell()
        if not response.headers.get("Content-Range", "").startswith(f"bytes {begin}-"):
            begin = 0
        self._file.truncate(begin)
        self._file.seek(begin)
        length = response.headers.get("Content-Length", "")
        size = begin + int(length) if length.isdecimal() else self.remote.bytes
        if size != (self.remote.bytes or size):
            raise self.error(f"{response.url} has {size:,} bytes, expected {self.remote.bytes:,}")
        if (size or 0) - begin > (free := shutil.disk_usage(self.target.parent).free):
            raise DataError(
                f"{(size or 0) - begin:,} bytes are to come, and the disk has room for {free:,}",
                file=self.target.parent,
                remedy="make room, or pass folder= a place on another disk",
            )
        self._limit = size or MAX_BYTES

    def write(self, block: bytes) -> None:
        """Append bytes; an endless file is broken off."""
        if self._file.tell() + len(block) > self._limit:
            self.path.unlink()
            raise self.error(f"{self.remote.name} has more than the {self._limit:,} bytes expected")
        self._file.write(block)
        self._bar.update(len(block))

    def flush(self) -> None:
        """Hand the bytes to the system, so that they outlive this process."""
        self._file.flush()

    def error(self, problem: str) -> DataError:
        """Return an error that says what to do; an empty part is removed."""
        if self.path.is_file() and not self.path.stat().st_size:
            self.path.unlink()
        retry = "call wb.fetch again to resume" if self.path.is_file() else "try again later"
        return DataError(problem, remedy=f"{retry}, or download it by hand to {self.target}")


def _timeout() -> float:
    setting = os.environ.get("WORKBENCH_TIMEOUT", "30")
    try:
        seconds = float(setting)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise DataError(f"WORKBENCH_TIMEOUT is {setting!r}, expected a number of seconds")
    return seconds


def _reason(error: BaseException) -> str:
    """Return the innermost reason: what requests and urllib3 wrap around it says less."""
    if "timed out" in str(error):
        return f"no answer within {_timeout():g} seconds (WORKBENCH_TIMEOUT sets how long to wait)"
    while isinstance(inner := getattr(error, "reason", None) or error.__context__, BaseException):
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _locked(where: Path) -> AbstractContextManager[object]:
    """Take the folder's lock, which the block of a with statement holds."""
    lock = FileLock(where / _LOCK)
    try:
        return lock.acquire(timeout=0.1)
    except Timeout:
        _say(f"another process is fetching into {where}: waiting for it")
        return lock.acquire()


def _plan(it: Entry, there: _Folder) -> str:
    lines = [f"{it.dataset}: {it.title}", f"  licence: {it.licence}", f"  into: {there.path}"]
    ready = there.ready(it)
    if not it.published and not ready:
        lines.append(f"  by hand: {' '.join(it.manual.split())} into this folder")
    for remote in it.files if ready or it.published else ():
        part = there.path / f"{remote.name}.part"
        if ready or there.has(remote):
            state = "there already"
        elif there.is_right(remote):
            state = "there already, to be unpacked"
        elif part.is_file():
            state = f"{part.stat().st_size:,} of them are there"
        else:
            state = "to be fetched" + (" and unpacked" if remote.unpack else "")
        size = "size not known" if remote.bytes is None else f"{remote.bytes:,} bytes"
        lines.append(f"  {remote.name}: {size}, {state}")
        lines += [f"    {address}" for address in remote.addresses]
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
