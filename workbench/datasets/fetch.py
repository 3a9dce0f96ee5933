"""Fetch data sets: what the registry knows of them; download, check, unpack, and note the terms."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from pathlib import Path
from threading import Timer
from typing import Any
from urllib.parse import urljoin

from filelock import FileLock, Timeout
from requests import Response, Session
from requests.adapters import HTTPAdapter

from workbench.datasets import archives, sources
from workbench.storage import sealed
from workbench.storage.errors import DataError, reading, writing
from workbench.storage.files import (
    data_home,
    number_in_environment,
    open_regular,
    read_json,
    resource,
    sweep,
    write_atomic,
)
from workbench.storage.progress import progress_bar, say

LICENCE = "LICENCE.txt"
"""The file beside the data with licence and citation."""
TRIES = 5
PAUSE = 0.5
"""Seconds before the second try; each further pause is twice as long."""
MAX_BYTES = 8 << 30
"""Largest size of a file whose size is not known."""

_RECORD = ".fetched.json"
_LOCK = ".fetch.lock"
_CHUNK = 1 << 14  # what a broken connection loses at most, and what has to come within the time limit
_TEMPORARY = {408, 416, 425, 429}
_REDIRECTIONS = 10
_RANGE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/([0-9]{1,18}|\*)")
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|!--|html|head|body|script|\?xml)", re.IGNORECASE)
_MAGIC = {
    (".gz", ".tgz"): b"\x1f\x8b", (".xz", ".txz"): b"\xfd7zXZ\x00", (".bz2",): b"BZh", (".zip",): b"PK",
    (".parquet",): b"PAR1",
}  # fmt: skip
_TEXTS = (".txt", ".csv", ".tsv", ".json", ".jsonl", ".md", ".question")


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
    Environment variables: ``WORKBENCH_TIMEOUT``, the seconds in which an answer has to begin, and then to
    bring 16 kB or its end (30 by default);
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
        say(f"{dataset} is part of the workbench: nothing to fetch")
        return resource(it.shipped)
    where = data_home() / "raw" / dataset if folder is None else Path(folder).expanduser()
    there = _Folder(where)
    if dry_run:
        say(_plan(it, there))
        return where
    with writing(where, "the data"):
        _fetch(it, there, progress=progress)
    return where


def _fetch(it: Entry, there: _Folder, *, progress: bool) -> None:
    where = there.path
    sweep(where)
    if there.ready(it):
        with suppress(OSError, DataError):  # it is right, even in a folder that cannot be written to
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
        with suppress(DataError), reading(path):  # none, or a damaged one
            record = read_json(path / _RECORD)
            for name, kind in (("files", self.files), ("unpacked", self.unpacked)):
                kind.update({key: dict(known) for key, known in record[name].items()})

    def ready(self, it: Entry) -> bool:
        """Tell whether all is there and right."""
        by_hand = (path for pattern in it.patterns for path in self.path.glob(pattern))
        if it.manual and any(path.is_dir() or not _fault(path) for path in by_hand):
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
        if not path.is_file() or (remote.sha256 is None and _fault(path)):
            return False
        known = self.files.get(remote.name, {})
        stamp = _stamp(path)
        if known.get("stamp") == stamp and remote.sha256 in {None, known.get("sha256")}:
            return True
        if remote.bytes not in {None, stamp[0]}:
            return False
        sha256 = sealed.sha256(path)
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
            text = json.dumps({"files": self.files, "unpacked": self.unpacked}, indent=1)
            write_atomic(self.path / _RECORD, text)


def _get(remote: Remote, there: _Folder, *, progress: bool) -> None:
    if not there.has(remote):  # else another process was quicker
        target = there.path / remote.name
        if not there.is_right(remote):
            if target.exists():
                say(f"{target} is not the expected file: it will be replaced")
            address = _download(_Part(remote, target, progress=progress))
            sha256 = remote.sha256 or sealed.sha256(target)
            there.record(remote, sha256, address)
            say(f"{target}: {target.stat().st_size:,} bytes, sha256 {sha256}")
        there.save()
        if remote.unpack:
            folder = archives.unpack(target, remote.members)
            there.record_unpacked(remote, folder)
            say(f"{folder}: unpacked")
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
        except _TransferError as error:
            if error.restart:
                part.path.unlink(missing_ok=True)
            if tried == TRIES or not error.temporary:
                raise part.error(f"{address} cannot be downloaded: {error}") from error
        else:
            expected = part.remote.bytes or 0
            size, sha256 = part.path.stat().st_size, sealed.sha256(part.path)
            fault = None if part.remote.sha256 else _fault(part.path, part.target.name)
            if size >= expected and sha256 == (part.remote.sha256 or sha256) and not fault:
                part.path.replace(part.target)
                return
            if size >= expected or fault:
                part.path.unlink()
            if tried == TRIES or fault or not (size < expected or start):  # two pieces may be of two files
                raise part.error(
                    f"{address} is not the expected file: "
                    + (fault or f"it has {size:,} bytes and the sha256 {sha256},")
                    + ("" if fault else f" expected {expected or size:,} and {part.remote.sha256}")
                )
        time.sleep(PAUSE * 2 ** (tried - 1))


class _TransferError(Exception):
    """A server or a connection failed; where that is temporary, another try may help, or a restart."""

    def __init__(self, problem: str, *, temporary: bool, restart: bool = False) -> None:
        super().__init__(problem)
        self.temporary, self.restart = temporary, restart


class _Transport(HTTPAdapter):
    """Connections that are closed when a step takes too long.

    A time limit of requests is one for each read of a socket: a server that sends a byte now and then, or
    "100 Continue" for ever, never exceeds it.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds, self.expired = seconds, False
        self.sockets: list[socket.socket] = []

    def get_connection_with_tls_context(self, *args: Any, **options: Any) -> Any:
        """Return the pool of a host, whose sockets are noted from now on."""
        pool: Any = super().get_connection_with_tls_context(*args, **options)

        class Noted(pool.ConnectionCls):  # type: ignore[misc] # HTTP or HTTPS
            def connect(noted) -> None:  # noqa: N805
                super().connect()
                self.sockets.append(noted.sock)
                if self.expired:
                    raise TimeoutError

        pool.ConnectionCls = Noted
        return pool

    def close(self) -> None:
        """Close all connections, also those whose answer was not read to its end."""
        super().close()
        for opened in self.sockets:
            if (handle := opened.detach()) >= 0:
                os.close(handle)

    def _expire(self) -> None:
        self.expired = True
        for opened in self.sockets:
            with suppress(OSError):  # it is closed
                socket.socket.shutdown(opened, socket.SHUT_RDWR)  # below TLS

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Give a step its time, and make every error of it one of the transfer."""
        timer = Timer(self.seconds, self._expire)
        timer.start()
        problem = f"no answer within {self.seconds:g} seconds (WORKBENCH_TIMEOUT sets how long to wait)"
        try:
            yield
        except Exception as error:  # an answer can make http.client, urllib3 and requests fail in any way
            if not self.expired and "timed out" not in str(error):
                problem = _reason(error)
            raise _TransferError(problem, temporary=not isinstance(error, ValueError)) from error
        finally:
            timer.cancel()
        if self.expired:  # what was closed looks like the end of the file
            raise _TransferError(problem, temporary=True)


@contextmanager
def _asked(address: str, headers: Mapping[str, str]) -> Iterator[tuple[Response, Iterator[bytes]]]:
    """Yield the answer to a request and its content in blocks; the error for any that has no file.

    Redirections are followed here, as requests would read their content into memory.
    """
    transport = _Transport(number_in_environment("WORKBENCH_TIMEOUT", 30, "seconds"))
    with Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, transport)
        session.get_redirect_target = lambda _: None  # type: ignore[method-assign, assignment]
        for _ in range(_REDIRECTIONS + 1):
            with transport.limited():
                response = session.get(address, headers=headers, stream=True, timeout=transport.seconds)
                target = Session.get_redirect_target(session, response)
                if target is None:
                    break
                address = urljoin(address, target)
        else:
            raise _TransferError(f"more than {_REDIRECTIONS} redirections", temporary=False)
        code = response.status_code
        if code not in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
            raise _TransferError(
                f"the server answers {code} {response.reason[:60]}",
                temporary=code in _TEMPORARY or 500 <= code < 600,  # noqa: PLR2004 - errors of the server
                restart=code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            )
        yield response, iter(partial(_block, transport, response), b"")


def _block(transport: _Transport, response: Response) -> bytes:
    """Return content as it is: some servers call a .tgz "encoded", and it must stay packed."""
    with transport.limited():
        return bytes(response.raw.read(_CHUNK, decode_content=False))


class _Part:
    """The first bytes of a file, beside it on disk, to which the others are written.

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
        bar = progress_bar(
            self.remote.bytes, label=self.target.name, unit="B", shown=self.progress, initial=start
        )
        answer = _asked(address, headers)
        with answer as (response, blocks), bar, self.path.open("r+b" if start else "wb") as file:
            begin = self._begin(response, start)
            limit = self._limit(response, begin)
            file.truncate(begin)
            file.seek(begin)
            for block in blocks:
                if file.tell() + len(block) > limit:
                    self.path.unlink()
                    raise self.error(f"{self.remote.name} has more than the {limit:,} bytes expected")
                file.write(block)
                file.flush()  # to the system, so that it outlives this process
                bar.update(len(block))
            os.fsync(file.fileno())
        return start

    def _begin(self, response: Response, start: int) -> int:
        """Return which byte of the file the content begins with."""
        if response.status_code == HTTPStatus.OK:
            return 0
        part = response.headers.get("Content-Range", "")
        match = _RANGE.fullmatch(part)
        if not start or match is None or int(match[1]) != start:
            problem = f"asked for the bytes from {start:,}, the server sent another part ({part[:60]!r})"
            raise _TransferError(problem, temporary=start > 0, restart=True)
        return start

    def _limit(self, response: Response, begin: int) -> int:
        """Return how many bytes the file may have: as many as expected, announced and on the disk."""
        length = response.headers.get("Content-Length")
        if length is not None and re.fullmatch("[0-9]{1,18}", length) is None:
            raise self.error(f"{response.url} has a length that is none ({length[:60]!r})")
        most = self.remote.bytes or MAX_BYTES
        size = most if length is None else begin + int(length)
        if size > most or size != (self.remote.bytes or size):
            raise self.error(f"{response.url} has {size:,} bytes, expected {most:,}")
        if (length or self.remote.bytes) and size - begin > (
            free := shutil.disk_usage(self.path.parent).free
        ):
            problem = f"{size - begin:,} bytes are to come, and the disk has room for {free:,}"
            raise self.error(problem, "make room, or pass folder= a place on another disk")
        return size

    def error(self, problem: str, remedy: str | None = None) -> DataError:
        """Return an error that says what to do; a part with which nothing can be begun is removed."""
        if self.path.is_file() and not (self.remote.sha256 and self.path.stat().st_size):
            self.path.unlink()
        retry = "call wb.fetch again to resume" if self.path.is_file() else "try again later"
        return DataError(problem, remedy=remedy or f"{retry}, or download it by hand to {self.target}")


def _fault(path: Path, name: str | None = None) -> str | None:
    """Return why a file without checksum is not what its name says, by its first bytes, or None."""
    name = (name or path.name).lower()
    with open_regular(path) as file:
        head = file.read(512)
    if not head:
        return "it is empty"
    if _PAGE.match(head) and not name.endswith((".html", ".htm", ".xml")):
        return "it is a web page, perhaps one to log in"
    magic = next((magic for ends, magic in _MAGIC.items() if name.endswith(ends)), b"")
    if not head.startswith(magic) or (name.endswith(".tar") and head[257:262] != b"ustar"):
        return f"it does not begin as a {Path(name).suffix} file does"
    return "it is a binary file" if name.endswith(_TEXTS) and sources.is_binary(head) else None


def _reason(error: BaseException) -> str:
    """Return the innermost reason: what requests and urllib3 wrap around it says less."""
    while isinstance(inner := getattr(error, "reason", None) or error.__context__, BaseException):
        error = inner
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _locked(where: Path) -> AbstractContextManager[object]:
    """Take the folder's lock, which the block of a with statement holds."""
    lock = FileLock(where / _LOCK)
    try:
        return lock.acquire(timeout=0.1)
    except Timeout:
        say(f"another process is fetching into {where}: waiting for it")
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
    write_atomic(path, f"{before}\n{it.terms}" if before else it.terms)
    say(it.terms)


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]
