"""Get a file over HTTP, from where an earlier try stopped; nothing wrong is put in place."""

from __future__ import annotations

import logging
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pooch
import requests
import urllib3
from tqdm.auto import tqdm

from workbench.items.schema import DataError

TRIES = 5
PAUSE = 0.5
"""Seconds before the second try; each further pause is twice as long."""
LONGEST_PAUSE = 30.0
MAX_BYTES = 8 << 30
"""How long a file of unknown size may be."""

_CHUNK = 1 << 18
_DAY = 86_400
_AGENT = f"lambada-workbench (pooch {pooch.__version__})"
_BUSY = {408, 425, 429, 500, 502, 503, 504}
_NOT_SATISFIABLE = 416
_PARTIAL = 206
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+|\*)")


class _TryAgainError(Exception):
    """The connection or the server failed in a way that may pass."""

    def __init__(self, problem: str, wait: float = 0.0) -> None:
        self.wait = wait
        super().__init__(problem)


def timeout() -> float:
    """Return ``$WORKBENCH_TIMEOUT``: how long a server may stay silent, in seconds."""
    given = os.environ.get("WORKBENCH_TIMEOUT", "30")
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1
    if not 0 < seconds <= _DAY:
        raise DataError(f"WORKBENCH_TIMEOUT is {given!r}, expected a number of seconds, at most a day")
    return seconds


def part_of(target: Path) -> Path:
    """Return where the first bytes of a file lie until it is whole."""
    return target.with_name(f"{target.name}.part")


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Make an empty hidden folder for the block; what a killed process left there goes too."""
    space = folder / ".fetching"
    shutil.rmtree(space, ignore_errors=True)
    space.mkdir()
    try:
        yield space
    finally:
        shutil.rmtree(space, ignore_errors=True)


def download(
    addresses: Sequence[str],
    target: Path,
    *,
    size: int | None = None,
    sha256: str | None = None,
    progress: bool = True,
) -> str:
    """Get a file; it is put in place only when it is whole and right.

    Parameters
    ----------
    addresses : sequence of str
        Where the file is published, tried in this order.
    target : Path
        Where it goes; the part that has come so far is beside it, with ``.part`` at its end.
    size, sha256 : optional
        What the file must be, as far as known. Without a checksum a part is only continued if the
        server says that the file is still the same.
    progress : bool
        Show a progress bar.

    Returns
    -------
    str
        The address that the file came from.

    Raises
    ------
    DataError
        If no address gives the right file; the message names the addresses.
    """
    pooch.get_logger().setLevel(logging.WARNING)  # its notes repeat what is said here
    problems = []
    for address in addresses:
        get = _Download(part_of(target), size, sha256, progress)
        known = None if sha256 is None else f"sha256:{sha256}"
        try:
            with scratch(target.parent) as space:
                done = pooch.retrieve(address, known, fname=target.name, path=space, downloader=get)
                Path(done).replace(target)
        except DataError as error:
            problems.append(error)
        else:
            get.forget()
            return address
    if len(problems) == 1:
        raise problems[0]
    raise DataError("; ".join(error.problem for error in problems), remedy=problems[-1].remedy)


@dataclass
class _Download:
    """What pooch calls: goes on with a part, tries again, and hands over nothing wrong."""

    part: Path
    size: int | None
    sha256: str | None
    progress: bool

    @property
    def tag(self) -> Path:
        """The file that keeps what the server called this version of the file."""
        return self.part.with_name(f"{self.part.name}.tag")

    def forget(self) -> None:
        """Remove the part."""
        self.part.unlink(missing_ok=True)
        self.tag.unlink(missing_ok=True)

    def __call__(self, url: str, output_file: str, _pooch: Any) -> None:
        """Download `url` to `output_file`."""
        for tried in range(1, TRIES + 1):
            try:
                began = self._transfer(url)
                self._check(url, began)
                break
            except (_TryAgainError, requests.RequestException, urllib3.exceptions.HTTPError) as error:
                hopeless = isinstance(error, (ValueError, requests.TooManyRedirects))  # a malformed address
                if tried == TRIES or hopeless:
                    raise self._error(f"{url} cannot be had: {_plain(error)}") from error
                time.sleep(max(PAUSE * 2 ** (tried - 1), getattr(error, "wait", 0.0)))
        self.part.replace(output_file)

    def _transfer(self, url: str) -> int:
        """Add what is missing to the part; return how much was there before."""
        have = self._usable()
        if have and have == self.size:
            return have
        headers = {"Accept-Encoding": "identity", "User-Agent": _AGENT}
        if have:
            headers["Range"] = f"bytes={have}-"
            if self.sha256 is None:
                headers["If-Range"] = self.tag.read_text(encoding="utf-8")
        with (
            requests.Session() as session,
            session.get(url, headers=headers, stream=True, timeout=timeout()) as response,
        ):
            began, total = self._extent(url, response, have)
            self._check_room(url, total, began)
            if not began:
                self._start(response)
            self._write(url, response, began, total)
        return began

    def _usable(self) -> int:
        """Return how many bytes can be kept; a part that cannot be continued is removed."""
        have = self.part.stat().st_size if self.part.is_file() else 0
        too_long = self.size is not None and have > self.size
        if too_long or (self.sha256 is None and not self.tag.is_file()):
            self.forget()
            return 0
        return have

    def _extent(self, url: str, response: requests.Response, have: int) -> tuple[int, int | None]:
        """Return where the answer begins in the file, and how long the file is."""
        code = response.status_code
        if code == _NOT_SATISFIABLE:
            self.forget()
            raise _TryAgainError("the part that is here does not fit the file")
        if code in _BUSY:
            wait = response.headers.get("Retry-After", "")
            seconds = min(float(wait), LONGEST_PAUSE) if wait.isdecimal() else 0.0
            raise _TryAgainError(f"the server answers {code} {response.reason}", seconds)
        if not response.ok:
            raise self._error(f"{url} cannot be had: the server answers {code} {response.reason}")
        if code == _PARTIAL:
            found = _RANGE.match(response.headers.get("Content-Range", ""))
            if found is None or int(found[1]) != have:
                self.forget()
                raise _TryAgainError("the server sends another part of the file than was asked for")
            return have, None if found[2] == "*" else int(found[2])
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if length.isdecimal() else None

    def _check_room(self, url: str, total: int | None, began: int) -> None:
        if total is not None and total != (self.size or total):
            self.forget()
            raise self._error(f"{url} has {total:,} bytes, expected {self.size:,}")
        wanted = (total or self.size or 0) - began
        if wanted > (free := shutil.disk_usage(self.part.parent).free):
            raise DataError(
                f"{wanted:,} bytes are to come, and the disk has room for {free:,}",
                file=self.part.parent,
                remedy="make room, or pass folder= a place on another disk",
            )

    def _start(self, response: requests.Response) -> None:
        """Begin an empty part, and note which version of the file it will hold."""
        self.tag.unlink(missing_ok=True)
        self.part.write_bytes(b"")
        tag = response.headers.get("ETag", "")
        tag = response.headers.get("Last-Modified", "") if not tag or tag.startswith("W/") else tag
        if tag and self.sha256 is None:
            self.tag.write_text(tag, encoding="utf-8")

    def _write(self, url: str, response: requests.Response, began: int, total: int | None) -> None:
        limit = total or self.size or MAX_BYTES
        have = began
        bar = tqdm(
            desc=self.part.stem, total=total or self.size, initial=began, unit="B", unit_scale=True,
            disable=not self.progress,
        )  # fmt: skip
        with bar, self.part.open("ab") as file:
            # the bytes as they are: some servers call a .tgz "encoded", and it must stay packed
            for block in response.raw.stream(_CHUNK, decode_content=False):
                have += len(block)
                if have > limit:
                    break
                file.write(block)
                bar.update(len(block))
            file.flush()
            os.fsync(file.fileno())
        if have > limit:
            self.forget()
            raise self._error(f"{url} has more than the {limit:,} bytes expected")
        if have < (total or self.size or 0):
            raise _TryAgainError(f"the connection ended after {have:,} bytes")

    def _check(self, url: str, began: int) -> None:
        """Hold the part against the checksum; a wrong one that was pieced together gets a second chance."""
        if self.sha256 is None:
            return
        found = pooch.file_hash(str(self.part))
        if found == self.sha256:
            return
        self.forget()
        problem = f"its sha256 is {found}, expected {self.sha256}"
        if began:
            raise _TryAgainError(problem)
        raise self._error(f"{url} is not the file it should be: {problem}; it was removed")

    def _error(self, problem: str) -> DataError:
        here, name = self.part.parent, self.part.stem
        kept = "call wb.fetch again to go on where it stopped" if self.part.is_file() else "try again later"
        return DataError(problem, remedy=f"{kept}, or download it by hand to {here / name}")


def _plain(error: Exception) -> str:
    """Return the innermost reason: what requests and urllib3 wrap around it says less."""
    if isinstance(error, (requests.Timeout, urllib3.exceptions.TimeoutError)):
        return f"no answer within {timeout():g} seconds (WORKBENCH_TIMEOUT sets how long to wait)"
    inner: BaseException = error
    while (cause := getattr(inner, "reason", None) or inner.__context__) and isinstance(cause, BaseException):
        inner = cause
    if isinstance(inner, OSError) and inner.strerror:
        return f"no connection ({inner.strerror})"
    return str(inner) or str(error) or type(error).__name__
