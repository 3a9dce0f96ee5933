"""What a run depends on: the items, the model's version; and, for the record, commit and packages."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.storage import cache

_PACKAGES = (
    "kenlm", "numpy", "pandas", "pyarrow", "scikit-learn", "scipy", "gensim", "torch", "tokenizers",
    "transformers",
)  # fmt: skip


def items_digest(items: Items) -> str:
    """Return the SHA-256 of all columns of items but `meta`."""
    frame = items.frame
    columns = [name for name in frame.columns if name != "meta"]
    return cache.digest(*(repr(frame[name].tolist()) for name in columns))


def json_value(value: Any, what: str) -> Any:
    """Return a value as JSON represents it: tuples as lists, keys as text; `what` names it in the error.

    Raises
    ------
    DataError
        If JSON cannot represent it.
    """
    try:
        return json.loads(json.dumps(value, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{what} cannot be written as JSON: {error}",
            remedy="use text, numbers, None, and lists and dicts of these",
        ) from None


def version(model: object) -> Any:
    """Return the version of a model's results, None for a user's class without a `version` of its own.

    Nothing tells reliably that the code of such a class has changed since a run was stored, so that None
    means: never take a stored run for this model's. A `version` that it inherits speaks of another class.
    """
    kind = type(model)
    declared = kind.__module__.partition(".")[0] == "workbench" or "version" in vars(kind)
    return getattr(model, "version", None) if declared else None


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


def versions() -> dict[str, str]:
    """Return the versions of the packages that models compute with, as far as they are installed."""
    installed = {name: list(importlib.metadata.distributions(name=name)) for name in _PACKAGES}
    return {name: copies[0].version for name, copies in installed.items() if copies}
