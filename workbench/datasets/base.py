"""What the readers of all data sets share: names and choices, bad records, provenance."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from workbench.datasets.sources import File
from workbench.items.items import Items
from workbench.items.schema import DataError, Item
from workbench.storage.files import resource

SPLITS = ("train", "dev", "test", "control", "rejected")
ON_ERROR = ("raise", "skip")

_SPLIT_IN_NAME = {
    "control": r"control", "rejected": r"rejected", "train": r"train(ing)?",
    "dev": r"dev(elopment)?|valid(ation)?", "test": r"test(ing)?",
}  # fmt: skip


def choose(kind: str, value: str | None, names: Sequence[str], owner: str, default: str | None = None) -> str:
    """Return `value`, or the default where it is null.

    Raises
    ------
    DataError
        If `value` is none of `names`; the message lists them.
    """
    value = default if value is None else value
    if value in names:
        return str(value)
    close = difflib.get_close_matches(str(value), names, 1)
    raise DataError(
        f"{owner} has no {kind} {value!r}; there is {', '.join(names)}",
        remedy=f"did you mean {close[0]!r}?" if close else None,
    )


def split_in_name(name: str) -> str | None:
    """Return the split that a file's or folder's name tells, if it does."""
    words = "|".join(f"(?P<{split}>{pattern})" for split, pattern in _SPLIT_IN_NAME.items())
    found = re.search(rf"(?:^|[^a-z])(?:{words})(?![a-z])", name.lower())
    return found.lastgroup if found else None


def gather(
    dataset: str,
    records: Iterable[Item | DataError],
    on_error: str,
    *,
    files: Sequence[File] = (),
    attrs: dict[str, Any] | None = None,
) -> Items:
    """Build items from what a reader yields: good records, and errors in place of bad ones.

    Parameters
    ----------
    on_error : {"raise", "skip"}
        Raise the first error, or leave bad records out and keep their errors in ``.problems``.
    files : sequence of File
        What was read: named in ``attrs["source"]``, with ``attrs["sha256"]``.
    """
    choose("mode", on_error, ON_ERROR, "on_error")
    good: list[Item] = []
    problems: list[DataError] = []
    for record in records:
        if isinstance(record, Item):
            good.append(record)
        elif on_error == "raise":
            raise record
        else:
            problems.append(record)
    if not good and not problems:
        empty = DataError("there is no item in it", file=files[0].label if files else None)
        if on_error == "raise":
            raise empty
        problems.append(empty)
    about = provenance(dataset)
    if files:
        about["source"] = ", ".join(file.source for file in files)
        about["sha256"] = ", ".join(file.sha256 for file in files)
    return Items.from_records(good, attrs=about | (attrs or {}), problems=problems)


def provenance(dataset: str) -> dict[str, Any]:
    """Return licence, citation and title of a data set, as far as the registry knows them."""
    entry = _registry(resource("registry.toml")).get(dataset, {})
    return {key: entry[key] for key in ("title", "licence", "citation") if key in entry}


@cache
def _registry(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
