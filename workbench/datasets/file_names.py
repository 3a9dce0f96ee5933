"""What the name of a file says: its split, and which part of a set it is."""

from __future__ import annotations

import re
from pathlib import Path

from workbench.storage.errors import DataError, reading

_SPLITS = {
    "control": r"control", "rejected": r"rejected", "train": r"train(ing)?",
    "dev": r"dev(elopment)?|valid(ation)?", "test": r"test(ing)?",
}  # fmt: skip
_SHARD = re.compile(  # a number of a total, perhaps with a digest; or the number alone, as the hub converts
    r"(?P<start>(?:.*[-_.])?)(?:(?P<number>\d+)-of-(?P<total>\d+)(?:-[0-9a-f]{8,})?|(?P<converted>0\d{3}))"
    r"(?P<end>\.\w+)"
)


def split_in_name(name: str) -> str | None:
    """Infer the split from the name of a file or folder, or return None."""
    words = "|".join(f"(?P<{split}>{pattern})" for split, pattern in _SPLITS.items())
    match = re.search(rf"(?:^|[^a-z])(?:{words})(?![a-z])", name.lower())
    return match.lastgroup if match else None


def split_of_file(path: Path) -> str | None:
    """Infer the split from the name of a file, or from its folder's if its name is a number."""
    return split_in_name(path.absolute().parent.name if path.stem.isdigit() else path.name)


def name_of_set(path: Path) -> str:
    """Return the name of a file without its ending, and without the number of a part."""
    match = _SHARD.fullmatch(path.name)
    return (match["start"].rstrip("-_.") or path.absolute().parent.name) if match else path.stem


def shards(path: Path) -> list[Path]:
    """Return the files of the set that a file is a part of, in order; it alone if its name is not of a part.

    ``train-00000-of-00002.parquet`` is the first of two, ``train/0000.parquet`` the first of those with the
    next numbers. DataError if one is missing.
    """
    match = _SHARD.fullmatch(path.name)
    if match is None or int(match["total"] or 0) == 1:
        return [path]
    start, total, end = match.group("start", "total", "end")
    digits = match["number"] or match["converted"]
    paths: dict[int, list[Path]] = {}
    with reading(path.parent, "this folder"):
        names = sorted(each.name for each in path.parent.iterdir())
    for other in filter(None, map(_SHARD.fullmatch, names)):
        if other.group("start", "total", "end") == (start, total, end):
            number = int(other["number"] or other["converted"])
            paths.setdefault(number, []).append(path.with_name(other[0]))
    n = int(total or max(paths) + 1)
    numbers = range(1, n + 1) if 0 not in paths and n in paths else range(n)
    for number in numbers:
        if len(files := paths.get(number, [])) != 1:
            name = f"{start}{number:0{len(digits)}d}{f'-of-{total}' if total else ''}{end}"
            there = f"there as {' and '.join(each.name for each in files)}" if files else "missing"
            hint = "put each part once into one folder"
            raise DataError(f"{name}, a part of this set, is {there}", file=path, hint=hint)
    return [paths[number][0] for number in numbers]
