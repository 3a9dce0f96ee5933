"""What made a result: the commit of this package, and the versions of packages."""

from __future__ import annotations

import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from platform import python_version

DISTRIBUTION = "lambada-workbench"
"""The name by which this package is installed."""


def commit() -> str | None:
    """Return the commit of the package's checkout, with ``+`` where files differ; None without a checkout."""
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
    """Return the versions of Python, this package, and distributions by their names."""
    installed = {name: version(name) for name in sorted({DISTRIBUTION, *names})}
    return {"python": python_version(), **installed}
