"""A corpus on disk: ids, words and borders in a folder that is whole or not there."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.items.schema import DataError
from workbench.storage.cache import digest
from workbench.storage.files import sweep

VERSION = 1
"""Of the files' form: a store of another version counts as not there."""

MANIFEST = "manifest.json"
IDS, STARTS, COUNTS, WORDS, BOOKS = "ids.u32", "starts.i64", "counts.i64", "words.txt", "books.parquet"
FILES = (IDS, STARTS, COUNTS, WORDS, BOOKS)

_BLOCK = 1 << 22  # ids that are renumbered at a time
_LEFTOVER = 86_400  # seconds after which what was never finished is not being written any more
_ROOM = "make room, or let $WORKBENCH_HOME name a folder on another disk"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class Part(NamedTuple):
    """Some sentences of one book.

    Attributes
    ----------
    book : int
        Number of the book.
    words : sequence of str
        The types that `ids` count in; parts may share one.
    ids : uint32 array (tokens,)
    lengths : integer array (sentences,)
        Tokens of each sentence, none of them 0.
    """

    book: int
    words: Sequence[str]
    ids: np.ndarray
    lengths: np.ndarray


def write(
    folder: Path, parts: Iterable[Part], books: Sequence[tuple[str, str]], info: dict[str, Any]
) -> None:
    """Write a corpus; where a sound one lies there by then, that one stays.

    Parameters
    ----------
    folder : Path
        Made by this function, at one go: it is filled under another name and then renamed.
    parts : iterable of Part
        In the order of the text, each read once.
    books : sequence of (str, str)
        Identifier and title.
    info : dict
        What the manifest shall say besides.

    Raises
    ------
    DataError
        If there is no token in it, or the disk is full.
    """
    with scratch(folder.parent) as temporary:
        whole = temporary / "corpus"
        whole.mkdir()
        _fill(whole, parts, books, info)
        put(whole, folder, manifest)


def put(whole: Path, folder: Path, sound: Callable[[Path], object]) -> None:
    """Give a folder that was filled aside its name; where a sound one lies there by then, that one stays.

    Parameters
    ----------
    whole : Path
        In a folder of :func:`scratch`, where a torn one is moved that has the name.
    folder : Path
    sound : callable
        Returns None of a folder that is not there or not sound.

    Raises
    ------
    DataError
        If it cannot be renamed.
    """
    for _ in range(3):  # another process may do the same at the same time
        try:
            whole.rename(folder)
        except OSError:
            if sound(folder) is not None:
                return
            with contextlib.suppress(OSError):
                folder.rename(whole.parent / f"torn{time.monotonic_ns()}")
        else:
            return
    raise DataError("this folder cannot be written", file=folder, remedy="remove it")


@contextlib.contextmanager
def scratch(folder: Path, remedy: str = _ROOM) -> Iterator[Path]:
    """Give a folder for temporary files in a folder, and remove it, and old ones of killed processes.

    Raises
    ------
    DataError
        If the block fails because the disk is full, or the folder cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder, ".tmp-*", seconds=_LEFTOVER)
        temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".tmp-"))
    except OSError as error:
        raise DataError(
            f"no folder can be made here ({error.strerror})", file=folder, remedy=remedy
        ) from error
    try:
        yield temporary
    except OSError as error:
        if error.errno in _FULL:
            raise DataError(f"the disk is full ({error.strerror})", file=folder, remedy=remedy) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def manifest(folder: Path) -> dict[str, Any] | None:
    """Return what a corpus says of itself, None if it is not there, torn or changed."""
    return told(folder / MANIFEST, VERSION, FILES)


def told(file: Path, version: int, names: Sequence[str]) -> dict[str, Any] | None:
    """Return what a manifest says, None if it or a file that it lists is not there, torn or changed.

    Parameters
    ----------
    file : Path
        The manifest; it has ``version``, and ``files`` as :func:`listed` gives them.
    version : int
        Any other counts as not there.
    names : sequence of str
        The files beside it that have to be there.
    """
    try:
        found: dict[str, Any] = json.loads(file.read_bytes())
        files: dict[str, list[Any]] = found["files"]
        if found["version"] != version:
            return None
        if any((file.parent / name).stat().st_size != files[name][0] for name in names):
            return None
        if any(_sha256(file.parent / name) != files[name][1] for name in names):
            return None
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None
    return found


def listed(folder: Path, names: Sequence[str]) -> dict[str, list[Any]]:
    """Return size and SHA-256 of files."""
    return {name: [(folder / name).stat().st_size, _sha256(folder / name)] for name in names}


def _fill(
    folder: Path, parts: Iterable[Part], books: Sequence[tuple[str, str]], info: dict[str, Any]
) -> None:
    numbers: dict[str, int] = {}
    counts = np.zeros(1 << 16, np.int64)
    lengths: list[np.ndarray] = []
    size = np.zeros((2, len(books)), np.int64)  # sentences, tokens
    words: Sequence[str] | None = None
    with (folder / IDS).open("wb") as file:
        for part in parts:
            if part.words is not words:
                words = part.words
                given = (numbers.setdefault(word, len(numbers)) for word in words)
                local = np.fromiter(given, np.uint32, len(words))
                if len(numbers) > len(counts):
                    counts = np.append(counts, np.zeros(len(numbers), np.int64))
            file.write(local[part.ids].astype("<u4", copy=False).tobytes())
            counts[local] += np.bincount(part.ids, minlength=len(words))
            lengths.append(part.lengths.astype(np.int64))
            size[:, part.book] += len(part.lengths), len(part.ids)
    if not size[1].sum():
        remedy = "pass lines of words, books, or a path that holds some"
        raise DataError("there is no word in this text, nothing to train on", remedy=remedy)
    types = list(numbers)
    order = sorted(np.flatnonzero(counts).tolist(), key=lambda number: (-counts[number], types[number]))
    _renumber(folder / IDS, order, len(types))
    counts[order].astype("<i8").tofile(folder / COUNTS)
    starts = np.concatenate([[0], *lengths]).cumsum()
    starts.astype("<i8").tofile(folder / STARTS)
    (folder / WORDS).write_text("\n".join(types[number] for number in order), encoding="utf-8", newline="\n")
    columns = {"book_id": [name for name, _ in books], "title": [title for _, title in books]}
    first = np.concatenate([[0], size[0].cumsum()[:-1]])
    frame = pd.DataFrame(columns).assign(first=first, sentences=size[0], tokens=size[1])
    frame.to_parquet(folder / BOOKS, index=False)
    files = listed(folder, FILES)
    digests: list[str | bytes] = [str(files[name][1]) for name in (IDS, STARTS, WORDS)]
    content = digest(*digests, first.astype("<i8").tobytes())
    said = {"version": VERSION, **info, "sha256": content, "files": files}
    (folder / MANIFEST).write_text(json.dumps(said, indent=1), encoding="utf-8")


def _renumber(path: Path, order: list[int], types: int) -> None:
    """Give every word in the file its place in `order` as its number."""
    place = np.zeros(types, "<u4")
    place[order] = np.arange(len(order))
    with path.open("r+b") as file:  # not mapped: pages of a map count as memory
        while len(ids := np.fromfile(file, "<u4", _BLOCK)):
            file.seek(-ids.nbytes, os.SEEK_CUR)
            file.write(place[ids].tobytes())


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
