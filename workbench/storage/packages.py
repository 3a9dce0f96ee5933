"""Installed packages: versions, this package's commit, and extensions by entry points.

An entry point that is wrong is left out with a warning.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions, version
from pathlib import Path
from platform import python_version
from typing import Any

from workbench.storage.errors import DataError, reason

_NAME = re.compile(r"\w[\w.+-]{,99}")


DISTRIBUTION = "lambada-workbench"
"""The name by which this package is installed."""


def extensions(group: str, reserved: Collection[str] = ()) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing anything.

    A warning names those that are left out: of a package whose list cannot be read, with a name that is none
    or is one of the `reserved`, or with a name that two packages give.
    """
    named, unread = _entry_points(group, _state_of_the_path())
    for problem in unread:
        warnings.warn(problem, stacklevel=2)
    result = {}
    for name, entries in named.items():
        problem = "" if _NAME.fullmatch(name) else "not a valid name"
        problem = "the workbench has this name itself" if name in reserved else problem
        problem = "several packages give this name" if len(entries) > 1 else problem
        if problem:
            packages = ", ".join(map(ascii, sorted(entries)))
            warnings.warn(f"{name!a} in {group}, of {packages}, is left out: {problem}", stacklevel=2)
        else:
            (result[name],) = entries.values()
    return result


def _state_of_the_path() -> tuple[tuple[str, int, int], ...]:
    """Return the folders of the path and their times, which change with each installed or removed package."""
    state = []
    for folder in sys.path:
        with suppress(OSError, ValueError):
            status = Path(folder).stat()
            state.append((folder, status.st_ino, status.st_mtime_ns))
    return tuple(state)


@lru_cache(maxsize=16)
def _entry_points(
    group: str, state: tuple[tuple[str, int, int], ...]
) -> tuple[dict[str, dict[str, EntryPoint]], list[str]]:
    """Return the entry points of a group, by name and package, and a warning for each unreadable list.

    Reading the lists of 250 packages takes 12 ms, so each state of the path is read once.
    """
    del state
    named: defaultdict[str, dict[str, EntryPoint]] = defaultdict(dict)
    unread: list[str] = []
    seen: set[str] = set()
    for number, package in enumerate(distributions()):
        with suppress(Exception):  # what cannot be read is named below
            if group not in (package.read_text("entry_points.txt") or ""):
                continue  # before its name is parsed, which takes a millisecond
        title = f"package {number} of the path"
        try:
            title = str(package.name)
            if title in seen:  # the first on the path is the one that is imported
                continue
            seen.add(title)
            for entry in package.entry_points.select(group=group):
                named[entry.name][title] = entry
        except Exception as error:  # noqa: BLE001 - whatever lies on the path
            unread.append(f"the entry points of {title!a} cannot be read ({reason(error)})")
    return dict(named), unread


def load_extension(entry: EntryPoint) -> Any:
    """Import the object of an entry point; any error of its package becomes a DataError."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise DataError(
            f"{entry.name!r} cannot be imported from {entry.value}: {reason(error)}",
            remedy="install its package anew, or remove it",
        ) from error


def commit() -> str | None:
    """Return the commit of the checkout, with ``+`` if files differ; None without a checkout."""
    git = shutil.which("git")
    root = Path(__file__).parents[2]
    if git is None or not (root / ".git").exists():
        return None

    def run(*arguments: str) -> str | None:
        command = [git, "-C", str(root), *arguments]
        process = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - git itself
        return process.stdout.strip() if process.returncode == 0 else None

    head = run("rev-parse", "HEAD")
    return head and head + ("+" if run("status", "--porcelain", "--untracked-files=no") else "")


def library_versions(*names: str) -> dict[str, str]:
    """Return the versions of Python, this package, and the named distributions."""
    installed = {name: version(name) for name in sorted({DISTRIBUTION, *names})}
    return {"python": python_version(), **installed}
