"""Installed packages: versions, this package's commit, and extensions by entry points."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections import Counter
from collections.abc import Collection
from functools import cache
from importlib.metadata import EntryPoint, distributions, version
from pathlib import Path
from platform import python_version
from typing import Any

from workbench.storage.errors import DataError, reason

DISTRIBUTION = "lambada-workbench"
"""The name by which this package is installed."""


@cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group; a warning names a package whose list cannot be read."""
    entries: dict[tuple[str, str], EntryPoint] = {}
    for package in distributions():
        try:
            points = package.entry_points.select(group=group)
        except Exception as error:  # noqa: BLE001 - one damaged package hides no other
            warnings.warn(f"{package.name!a} has unreadable entry points ({reason(error)})", stacklevel=3)
            continue
        for point in points:
            # a package that is on the path twice is imported from the first folder
            entries.setdefault((package.name, point.name), point)
    return tuple(entries.values())


def extensions(group: str, reserved: Collection[str] = ()) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name, without importing anything.

    A warning names those that are left out: with a name that is one of the `reserved`, or that several
    packages give.
    """
    entries = _entry_points(group)
    counts = Counter(entry.name for entry in entries)
    for name in sorted(counts.keys() & set(reserved)):
        warnings.warn(f"{name!a} in {group} is left out: the workbench has this name itself", stacklevel=2)
    for name in sorted(name for name, count in counts.items() if count > 1):
        warnings.warn(f"{name!a} in {group} is left out: several packages give this name", stacklevel=2)
    return {entry.name: entry for entry in entries if entry.name not in reserved and counts[entry.name] == 1}


def load_extension(entry: EntryPoint) -> Any:
    """Import the object of an entry point; any error of its package becomes a DataError."""
    try:
        return entry.load()
    except (Exception, SystemExit) as error:
        raise DataError(
            f"{entry.name!r} cannot be imported from {entry.value}: {reason(error)}",
            hint="install its package anew, or remove it",
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
