"""Checksums of files: of downloads, and of the folders of saved models in their ``SHA256SUMS``.

That file is as ``sha256sum`` writes and checks it.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workbench.storage import files
from workbench.storage.errors import DataError, reading

SUMS = "SHA256SUMS"
_THREADS = 4


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path) -> None:
    """Write the checksums of all visible files below a folder into its ``SHA256SUMS``."""
    (folder / SUMS).unlink(missing_ok=True)
    names = [path.relative_to(folder) for path in folder.rglob("*") if path.is_file()]
    visible = [name for name in names if not any(segment.startswith(".") for segment in name.parts)]
    lines = [f"{sha256(folder / name)}  {name.as_posix()}\n" for name in sorted(visible)]
    files.write_atomic(folder / SUMS, "".join(lines))


def check_checksums(folder: Path, *, what: str, hint: str) -> None:
    """Compare the files of a folder with its ``SHA256SUMS``.

    DataError if a file differs or is missing, or the list is damaged or missing. `what` says what the folder
    holds, and `hint` what to do then.
    """
    file = folder / SUMS
    with reading(file, f"the list of checksums of {what}", hint=hint):
        expected = [line.split("  ", 1) for line in file.read_bytes().decode().splitlines()]
        pairs = [(folder / name, checksum) for checksum, name in expected]
        if not pairs:
            raise ValueError("it is empty")

    def check(path: Path, checksum: str) -> None:
        with reading(path, f"this file of {what}", hint=hint):
            if sha256(path) != checksum:
                raise DataError(f"this file of {what} is damaged or was changed", file=path, hint=hint)

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(check, *zip(*pairs, strict=True)))
