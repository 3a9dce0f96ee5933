"""Fetch data sets of the registry: download, check, unpack, and write the terms.

Downloads use `requests`, not `pooch`, which cannot resume one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

from filelock import FileLock, Timeout
from requests import Response, Session

from workbench.datasets import archives, sources
from workbench.storage import files, sealed
from workbench.storage.errors import DataError, innermost, writing
from workbench.storage.progress import progress_bar, say

LICENCE = "LICENCE.txt"
"""The file beside the data with licence and citation."""
TRIES = 5
PAUSE = 0.5
"""Seconds before the second try; each further pause is twice as long."""

_LOCK = ".fetch.lock"
_CHUNK = 1 << 14  # what a broken connection loses at most
_TEMPORARY = {408, 416, 425, 429, *range(500, 600)}
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|!--|html|head|body|script|\?xml)", re.IGNORECASE)
_MAGIC = {
    (".gz", ".tgz"): b"\x1f\x8b", (".xz", ".txz"): b"\xfd7zXZ\x00", (".bz2",): b"BZh", (".zip",): b"PK",
    (".parquet",): b"PAR1",
}  # fmt: skip


@dataclass(frozen=True)
class Remote:
    """One published file.

    Its `addresses` are tried in order; there are none where no address is stable, and then neither size nor
    checksum are known. `members` has the sha256 of files in an archive, checked where it is unpacked.
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
    `notice` says what may not be passed on, for pages that show items to others.
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
    notice: str = ""

    @property
    def terms(self) -> str:
        """Licence and citation, as written beside the data."""
        return f"{self.title}\n\nLicence: {self.licence}\n\nPlease cite:\n{self.citation.strip()}\n"

    @property
    def published(self) -> bool:
        """Whether every file has an address."""
        return all(remote.addresses for remote in self.files)


def entry_of(dataset: str) -> Entry:
    """Return the entry of a data set in the registry or its package; DataError without one."""
    names = list(dict.fromkeys([*sources.registry(), *sources.readers()]))
    table = sources.table_of(sources.check_choice("data set", dataset, names, "the registry"))
    if not table:
        problem = f"the package of {dataset!r} does not say where to fetch it"
        raise DataError(problem, remedy="read its documentation, and put the files into data/raw")
    remotes = tuple(Remote(**remote) for remote in table.get("files", ()))
    entry = {key: value for key, value in table.items() if key != "reader"}
    return Entry(dataset=dataset, **{**entry, "files": remotes})


def entries() -> dict[str, Entry]:
    """Return the entries of the registry by the name of the data set."""
    return {name: entry_of(name) for name in sources.registry()}


def fetch(dataset: str, *, dry_run: bool = False, folder: Path | str | None = None) -> Path:
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
    Environment variables: ``WORKBENCH_TIMEOUT``, the seconds that a server may be silent (30 by default);
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
    it = entry_of(dataset)
    if it.shipped:
        say(f"{dataset} is part of the workbench: nothing to fetch")
        return files.resource(it.shipped)
    where = files.data_home() / "raw" / dataset if folder is None else Path(folder).expanduser()
    if dry_run:
        say(_plan(it, where))
        return where
    with writing(where, "the data"):
        _fetch(it, where)
    return where


def _fetch(it: Entry, where: Path) -> None:
    files.remove_stale_scratch(where)
    if _is_ready(it, where):
        with suppress(OSError, DataError):  # it is right, even in a folder that cannot be written to
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
            _get(remote, where)
        _note_terms(it, where)


def _is_ready(it: Entry, where: Path) -> bool:
    """Return whether all files of a data set are there and right."""
    if it.manual:
        by_hand = (path for pattern in it.patterns for path in where.glob(pattern))
        return any(path.is_dir() or not _fault(path) for path in by_hand)
    return all(_is_there(remote, where) for remote in it.files)


def _is_there(remote: Remote, where: Path) -> bool:
    """Return whether a file is complete; of an archive to unpack, the files with a known sha256."""
    if not remote.unpack:
        return _is_right(where / remote.name, remote.sha256, remote.bytes)
    homes = (where, archives.unpacked_folder(where / remote.name))
    members = remote.members.items()
    return bool(members) and all(any(_is_right(home / n, sha256) for home in homes) for n, sha256 in members)


def _is_right(path: Path, sha256: str | None, size: int | None = None) -> bool:
    return path.is_file() and size in {None, path.stat().st_size} and sealed.sha256(path) == sha256


def _get(remote: Remote, where: Path) -> None:
    if _is_there(remote, where):  # another process was quicker
        return
    target = where / remote.name
    if not _is_right(target, remote.sha256, remote.bytes):
        if target.exists():
            say(f"{target} is not the expected file: it will be replaced")
        _download(remote, target)
        say(f"{target}: {remote.bytes:,} bytes, sha256 {remote.sha256}")
    if remote.unpack:
        say(f"{archives.unpack(target, remote.members)}: unpacked")


def _download(remote: Remote, target: Path) -> None:
    """Download a file from the first of its addresses with the right content."""
    problems = []
    for address in remote.addresses:
        try:
            _download_from(address, remote, target)
        except _TransferError as error:
            problems.append(str(error))
        else:
            return
    retry = "call wb.fetch again to resume" if _partial_path(target).is_file() else "try again later"
    raise DataError("; ".join(problems), remedy=f"{retry}, or download it by hand to {target}")


class _TransferError(Exception):
    """Failure of a server or connection; if `temporary`, a retry may succeed."""

    def __init__(self, problem: str, *, temporary: bool) -> None:
        super().__init__(problem)
        self.temporary = temporary


def _download_from(address: str, remote: Remote, target: Path) -> None:
    """Retry after temporary failures of connection or server, then move the file to its name."""
    partial = _partial_path(target)
    for tried in range(1, TRIES + 1):
        start = partial.stat().st_size if partial.is_file() else 0
        start = start if start <= (remote.bytes or 0) else 0
        try:
            if start != remote.bytes:
                _transfer(address, remote, partial, start)
            _check(address, remote, partial, start)
        except _TransferError as error:
            if partial.is_file() and not partial.stat().st_size:
                partial.unlink()
            if tried == TRIES or not error.temporary:
                raise
        else:
            partial.replace(target)
            return
        time.sleep(PAUSE * 2 ** (tried - 1))


def _check(address: str, remote: Remote, partial: Path, start: int) -> None:
    """Remove a wrong partial file; retry if it is too short, or was continued and may mix two files."""
    size, sha256 = partial.stat().st_size, sealed.sha256(partial)
    if (size, sha256) == (remote.bytes, remote.sha256):
        return
    fault = _fault(partial, remote.name)
    if size < (remote.bytes or 0) and not fault:
        problem = f"{address} ends after {size:,} bytes, expected {remote.bytes:,}"
        raise _TransferError(problem, temporary=True)
    partial.unlink()
    fault = fault or f"it has the sha256 {sha256}, expected {remote.sha256}"
    raise _TransferError(f"{address} is not the expected file: {fault}", temporary=start > 0)


def _transfer(address: str, remote: Remote, partial: Path, start: int) -> None:
    """Append the missing bytes to a partial file, which stays when the connection breaks."""
    expected = remote.bytes or 0
    bar = progress_bar(expected, label=remote.name, unit="B", initial=start)
    with ExitStack() as opened, Session() as session, bar, partial.open("r+b" if start else "wb") as file:

        def close_later(response: Response, **_: object) -> None:
            opened.callback(response.close)

        session.hooks["response"] = [close_later]  # each that is followed, too, if that fails
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
        with _network(address) as seconds:
            response = session.get(address, headers=headers, stream=True, timeout=seconds)
        code = response.status_code
        if code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            partial.unlink()
        if code != HTTPStatus.OK and not (start and code == HTTPStatus.PARTIAL_CONTENT):
            problem = f"{address} cannot be downloaded: the server answers {code} {response.reason[:60]}"
            raise _TransferError(problem, temporary=code in _TEMPORARY)
        file.seek(start if code == HTTPStatus.PARTIAL_CONTENT else 0)
        file.truncate()
        while block := _block(response, address):
            if file.tell() + len(block) > expected:
                partial.unlink()
                problem = f"{address} is not the expected file: it has more than {expected:,} bytes"
                raise _TransferError(problem, temporary=start > 0)
            file.write(block)
            file.flush()  # to the system, so that it outlives this process
            bar.update(len(block))
        os.fsync(file.fileno())


@contextmanager
def _network(address: str) -> Iterator[float]:
    """Yield the time limit; convert errors of requests and its dependencies into errors of the transfer."""
    seconds = files.number_in_environment("WORKBENCH_TIMEOUT", 30, "seconds")
    try:
        yield seconds
    except Exception as error:
        inner = innermost(error)
        problem = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
        if "timed out" in str(error):
            problem = f"no answer within {seconds:g} seconds (WORKBENCH_TIMEOUT sets how long to wait)"
        temporary = not isinstance(error, ValueError)  # an address that leads nowhere
        raise _TransferError(f"{address} cannot be downloaded: {problem}", temporary=temporary) from error


def _block(response: Response, address: str) -> bytes:
    """Return the raw bytes without decoding Content-Encoding (some servers mislabel .tgz)."""
    with _network(address):
        return bytes(response.raw.read(_CHUNK, decode_content=False))


def _partial_path(target: Path) -> Path:
    """Return the first bytes of a file, beside it on disk, to which the others are written."""
    return target.with_name(f"{target.name}.part")


def _fault(path: Path, name: str | None = None) -> str | None:
    """Return the mismatch of a file's name and its first bytes, or None."""
    name = (name or path.name).lower()
    with files.open_regular(path) as file:
        head = file.read(512)
    if not head:
        return "it is empty"
    if _PAGE.match(head) and not name.endswith((".html", ".htm", ".xml")):
        return "it is a web page, perhaps one to log in"
    magic = next((magic for ends, magic in _MAGIC.items() if name.endswith(ends)), b"")
    if not head.startswith(magic) or (name.endswith(".tar") and head[257:262] != b"ustar"):
        return f"it does not begin as a {Path(name).suffix} file does"
    return None


def _locked(where: Path) -> AbstractContextManager[object]:
    """Lock a folder for the block of a with statement."""
    lock = FileLock(where / _LOCK)
    try:
        return lock.acquire(timeout=0.1)
    except Timeout:
        say(f"another process is fetching into {where}: waiting for it")
        return lock.acquire()


def _plan(it: Entry, where: Path) -> str:
    lines = [f"{it.dataset}: {it.title}", f"  licence: {it.licence}", f"  into: {where}"]
    is_ready = _is_ready(it, where)
    if not it.published and not is_ready:
        lines.append(f"  by hand: {' '.join(it.manual.split())} into this folder")
    for remote in it.files if is_ready or it.published else ():
        partial = _partial_path(where / remote.name)
        if is_ready or _is_there(remote, where):
            state = "there already"
        elif _is_right(where / remote.name, remote.sha256, remote.bytes):
            state = "there already, to be unpacked"
        elif partial.is_file():
            state = f"{partial.stat().st_size:,} of them are there"
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
    files.write_atomic(path, f"{before}\n{it.terms}" if before else it.terms)
    say(it.terms)
