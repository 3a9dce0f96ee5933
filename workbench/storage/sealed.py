"""Sealed folders: written atomically, with checksums of all files that are compared on reading.

The checksums lie in ``SHA256SUMS``, as ``sha256sum`` writes and checks it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from workbench.storage import files
from workbench.storage.errors import DataError, reading

SUMS = "SHA256SUMS"

_SETTLED = 2  # seconds after which another change of a file would change its times


def sha256(path: Path) -> str:
    """Return the SHA-256 of a regular file, cached by its size and times of change."""
    about = path.stat()
    identity = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    is_settled = time.time() - max(about.st_mtime, about.st_ctime) > _SETTLED
    return (_compute if is_settled else _compute.__wrapped__)(path, identity)


@lru_cache(maxsize=4096)
def _compute(path: Path, _identity: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def sealed_folder(folder: Path, main: str, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder; it is sealed and replaces `folder` if the block succeeds.

    `replace` and errors as of :func:`workbench.storage.files.atomic_folder`.
    """
    with files.atomic_folder(folder, replace=replace) as new:
        yield new
        seal(new, main)


def seal(folder: Path, main: str) -> None:
    """Write the checksums of all visible files below a folder, that of the `main` file last."""
    (folder / SUMS).unlink(missing_ok=True)
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    visible = sorted(name.as_posix() for name in names if not any(entry[0] == "." for entry in name.parts))
    visible.sort(key=lambda name: name == main)
    digests = _sums((folder / name for name in visible), "this folder")
    lines = [f"{digest}  {name}\n" for digest, name in zip(digests, visible, strict=True)]
    files.write_atomic(folder / SUMS, "".join(lines))


def check_seal(folder: Path, main: str, *, what: str, remedy: str, required: bool = True) -> None:
    """Compare the files of a folder with their checksums, which list the `main` file last.

    DataError if a file differs or is missing, or the list is damaged or missing. If it is not `required`, as
    users have models of earlier versions without one, there is a warning instead. Each file is read once a
    process; a later call looks at its size and times.
    """
    file = folder / SUMS
    if not required and not os.path.lexists(file):
        warnings.warn(
            f"{folder}: {what} has no {SUMS}, so damage would not be detected; save it again", stacklevel=3
        )
        return
    with reading(file, "this list of checksums", remedy=remedy):
        *lines, end = files.read_bytes(file).decode().split("\n")
        expected = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
        if end or not lines or lines[-1][66:] != main or len(expected) != len(lines):
            raise ValueError("it is damaged")
        paths = [folder / name for name in expected]
    for path, digest, original in zip(paths, _sums(paths, what, remedy), expected.values(), strict=True):
        if digest != original:
            raise DataError(f"this file of {what} is damaged or was changed", file=path, remedy=remedy)


def write_arrays(folder: Path, main: str, arrays: Mapping[str, np.ndarray], **content: Any) -> None:
    """Write arrays as ``.npy``, and their names and other content as JSON into the `main` file."""
    for name, array in arrays.items():
        with (folder / f"{name}.npy").open("wb") as file:
            np.save(file, array)
    text = json.dumps({**content, "arrays": sorted(arrays)})
    (folder / main).write_text(text, encoding="utf-8")


def read_arrays(
    folder: Path, main: str, *, what: str, remedy: str, required: bool = True
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the content of the `main` file and the memory-mapped arrays that `write_arrays` wrote.

    DataError if the folder is not sealed, or damaged; see `check_seal`.
    """
    with reading(folder, what, remedy=remedy):
        content = files.read_json(folder / main, what)
        check_seal(folder, main, what=what, remedy=remedy, required=required)
        return content, {
            str(name): np.load(folder / f"{name}.npy", mmap_mode="r") for name in content["arrays"]
        }


def _sums(paths: Iterable[Path], what: str, remedy: str | None = None) -> list[str]:
    def checked(path: Path) -> str:
        with reading(path, f"this file of {what}", remedy=remedy):
            return sha256(path)

    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(checked, paths))
