"""Locations on disk, and atomic writes of files and folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parent


def data_home() -> Path:
    """Return the folder that holds ``raw/``, ``cache/``, ``runs/`` and ``notes/``.

    ``$WORKBENCH_HOME`` where it is set; else ``data/`` of the checkout that this
    package runs from; else ``data/`` of the working directory.
    """
    if home := os.environ.get("WORKBENCH_HOME"):
        return Path(home).expanduser()
    if (_CHECKOUT / "pyproject.toml").is_file():
        return _CHECKOUT / "data"
    return Path.cwd() / "data"


def resource(*parts: str) -> Path:
    """Return the path of a file or folder that ships with the project's ``data/``."""
    installed = _PACKAGE / "_data"
    return (installed if installed.is_dir() else _CHECKOUT / "data").joinpath(*parts)


def sweep(home: Path, pattern: str, *, seconds: float = 3600) -> None:
    """Remove folders that killed processes left: those into which nothing was written for so many seconds."""
    for folder in home.glob(pattern):
        with contextlib.suppress(OSError):  # another process may remove it too
            written = max(path.stat().st_mtime for path in (folder, *folder.rglob("*")))
            if time.time() - written > seconds:
                shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def atomic_path(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; it replaces `path` only if the block ends well.

    The file is flushed to the disk before it is renamed, so a reader sees the old
    content or the new one, never a part. The folder is made where it is missing.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path | str, *, replace: bool = False) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; it takes that place only if the block ends without an error.

    Parameters
    ----------
    path : path
        The folder to publish; its parent is created.
    replace : bool
        Whether an existing folder is replaced. By default the first one stays and the new one is dropped:
        right where the name is a key of the content, so that both hold the same.

    Notes
    -----
    Every file is flushed to disk before the folder is renamed. Folders that killed processes left beside it
    are removed after an hour. While an existing folder is replaced, there is a moment in which `path` does
    not exist; a process that is killed then leaves the old folder beside it, under a hidden name.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}.partial-"
    sweep(target.parent, f"{prefix}*")
    space = Path(tempfile.mkdtemp(dir=target.parent, prefix=prefix))
    new, old = space / "new", space / "old"
    new.mkdir()
    try:
        yield new
        for file in new.rglob("*"):
            if file.is_file():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
        if replace and target.exists():
            target.rename(old)
        try:
            new.rename(target)
        except OSError:
            if not target.is_dir():
                if old.exists():
                    old.rename(target)
                raise
    finally:
        shutil.rmtree(space, ignore_errors=True)
