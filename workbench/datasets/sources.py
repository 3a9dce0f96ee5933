"""Releases as data for the readers of data sets: finding and decoding files, bad records.

Those of an archive are read where it was unpacked, in the cache.
"""

from __future__ import annotations

import difflib
import fnmatch
import hashlib
import os
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from importlib.metadata import EntryPoint
from itertools import chain
from pathlib import Path
from typing import Any

from workbench.datasets.archives import is_archive, unpacked
from workbench.items.items import Items
from workbench.items.language import ENGLISH, language
from workbench.items.schema import Item
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_bytes
from workbench.storage.packages import extensions, load_extension
from workbench.storage.paths import data_home, resource
from workbench.storage.progress import say
from workbench.storage.tables import encoding_of_mark

Matcher = Callable[[str], Any]
Part = tuple[str, str]
"""Split and variant."""

ON_ERROR = ("raise", "skip")
HUB = (".parquet", ".jsonl")
"""How the names of files of the Hugging Face hub end."""

_SPLITS = {
    "control": r"control", "rejected": r"rejected", "train": r"train(ing)?",
    "dev": r"dev(elopment)?|valid(ation)?", "test": r"test(ing)?",
}  # fmt: skip
_SHARD = re.compile(  # a number of a total, perhaps with a digest; or the number alone, as the hub converts
    r"(?P<start>(?:.*[-_.])?)(?:(?P<number>\d+)-of-(?P<total>\d+)(?:-[0-9a-f]{8,})?|(?P<converted>0\d{3}))"
    r"(?P<end>\.\w+)"
)


@dataclass(frozen=True)
class File:
    """One file: its content, and its name in messages.

    `companion` is a second file that belongs to it, such as the answers to its questions.
    """

    path: Path
    companion: File | None = None

    @property
    def name(self) -> str:
        """The file's own name, without its folders."""
        return self.path.name

    @cached_property
    def data(self) -> bytes:
        """The content, as it is."""
        return read_bytes(self.path)

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of the content, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @cached_property
    def shards(self) -> tuple[File, ...]:
        """The files of the set that this one is a part of; DataError if one is missing."""
        paths = shards(self.path)
        return (self,) if paths == [self.path] else tuple(map(File, paths))

    def lines(self) -> list[str]:
        """Return the lines of the text, without their ends and without blank ones at the end."""
        return lines(decode(self.data, self.path))

    def beside(self, *patterns: str) -> File | None:
        """Return the first file in the same folder whose name fits a pattern."""
        paths = sorted(filter(Path.is_file, self.path.parent.iterdir()))
        return next((File(path) for p in patterns for path in paths if matcher(p)(path.name)), None)


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


def decode(data: bytes, name: str | Path) -> str:
    """Read bytes as text: UTF-8 without its mark; lines that are not UTF-8 as Windows-1252 or Latin-1.

    UTF-16 and UTF-32 are known by their marks.
    """
    encoding = encoding_of_mark(data)
    if encoding and encoding != "utf-8-sig":
        with reading(name, f"this text in {encoding.upper()}", hint="save it again as UTF-8"):
            return data.decode(encoding)
    if b"\0" in data:
        raise DataError(
            "this is a binary file, expected UTF-8 text",
            file=name,
            hint="unpack it, or pass the text file",
        )
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode()
    except UnicodeDecodeError:  # no multi-byte character holds a line end: lines can be read one by one
        return "\n".join(map(_decode_line, data.split(b"\n")))


def _decode_line(line: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return line.decode(encoding)
    return line.decode("latin-1")


def lines(text: str) -> list[str]:
    """Split at LF, CR LF and CR only: novels hold form feeds and U+2028, which end no line of a file."""
    result = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    while result and not result[-1].strip():
        result.pop()
    return result


def matcher(pattern: str) -> Matcher:
    """Return a test of names against a glob, of paths where the glob has a ``/``; case does not matter."""
    fits = re.compile(fnmatch.translate(pattern.lower())).match
    deep = "/" in pattern
    return lambda name: fits((name if deep else name.rpartition("/")[2]).lower())


def walk(root: Path) -> list[str]:
    """Return the paths of all files below a folder, hidden ones left out, near ones first."""
    files: list[str] = []
    seen: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        folders[:] = [] if real in seen else [name for name in folders if not name.startswith((".", "__"))]
        if real not in seen:  # a link may lead back
            files += [os.path.join(folder, name) for name in names if not name.startswith((".", "__"))]  # noqa: PTH118 - 100,000 of them
        seen.add(real)
    return sorted(files, key=lambda path: (path.count(os.sep), path))


@dataclass(frozen=True)
class Root:
    """A folder that was searched: every file with the name that patterns are held against."""

    folder: Path
    files: list[tuple[str, str]]  # (label with folders, path)

    def matching(self, pattern: str) -> list[Path]:
        """Return the files with a matching name; a pattern with ``/`` is matched with the folders too."""
        fits = matcher(pattern)
        return [Path(path) for label, path in self.files if fits(label)]


def search_roots(dataset: str, path: Path | str | None = None) -> list[Root]:
    """Return the folders to search, each scanned once: `path`, which must be there, or the usual places."""
    if path is not None:
        location = Path(path).expanduser()
        if not location.exists():
            raise DataError("there is no such file or folder", file=path)
        # what a user points at is taken for this data set, whatever its folders are called
        return [_scan(location, dataset if location.is_file() else f"{dataset}/{location.absolute().name}")]
    folders = [Path(os.environ["WORKBENCH_DATA"]).expanduser()] if os.environ.get("WORKBENCH_DATA") else []
    return [_scan(folder, folder.name) for folder in dict.fromkeys([*folders, data_home() / "raw"])]


def _scan(folder: Path, label: str) -> Root:
    if folder.is_file():
        return Root(folder, [(f"{label}/{folder.name}", str(folder))])
    start = len(str(folder).rstrip(os.sep)) + 1
    return Root(folder, [(f"{label}/{p[start:].replace(os.sep, '/')}", p) for p in walk(folder)])


def as_single_file(path: Path | str | None) -> File | None:
    """Return the file that `path` names, if it is one and no archive."""
    if path is None or is_archive(path) or not (location := Path(path).expanduser()).is_file():
        return None
    return File(location)


def find_files(
    dataset: str,
    wanted: Mapping[str, Sequence[str]],
    *,
    archives: Sequence[str] = (),
    path: Path | str | None = None,
) -> dict[str, File]:
    """Find at least one of the files of a data set, in `path` or the usual places, or raise DataError.

    `wanted` has the patterns of each file, the official name first; several files that fit a pattern equally
    well are an error. `archives` has patterns of the archives that hold the files.
    """
    searched = search_roots(dataset, path)
    for root in with_unpacked(dataset, searched, archives):
        files = {key: file for key, patterns in wanted.items() if (file := from_disk(root, patterns))}
        if files:
            return files
    raise missing(dataset, [patterns[0] for patterns in wanted.values()], searched)


def with_unpacked(dataset: str, searched: Sequence[Root], archives: Sequence[str]) -> Iterator[Root]:
    """Yield each folder that is searched, then the archives in it that fit the patterns, unpacked."""
    for root in searched:
        yield root
        for archive in _archives(root, ("*",) if root.folder.is_file() else archives):
            yield _scan(unpacked(archive), dataset)


def find_first(
    searched: Sequence[Root], patterns: Sequence[str] = (), archives: Sequence[str] = ()
) -> Path | None:
    """Return the first file that fits the patterns in their order, else the first such archive."""
    for root in searched:
        for pattern in patterns:
            if paths := root.matching(pattern):
                return paths[0]
        if packed := _archives(root, archives):
            return packed[0]
    return None


def missing(dataset: str, names: Sequence[str], searched: Sequence[Root]) -> DataError:
    """Return the error for files that are nowhere."""
    locations = ", ".join(f"{r.folder}{'' if r.folder.exists() else ' (not there)'}" for r in searched)
    return DataError(
        f"found no {' or '.join(names)}; searched {locations} with subfolders",
        hint=f'get it with wb.fetch("{dataset}"), or pass path= a folder, file or archive',
    )


def from_disk(root: Root, patterns: Sequence[str]) -> File | None:
    """Return the one file that fits the first pattern that any fits, the first part of a set; else None."""
    for pattern in patterns:
        paths = dict.fromkeys(shards(path)[0] for path in root.matching(pattern) if not is_archive(path))
        files = [File(path) for path in paths]
        if len(files) > 1 and len({file.sha256 for file in files}) > 1:
            problem = f"several files fit {pattern}: {', '.join(map(str, paths))}"
            raise DataError(problem, hint="pass path= the one you mean")
        if files:
            return files[0]
    return None


def _archives(root: Root, patterns: Sequence[str]) -> list[Path]:
    return [path for pattern in patterns for path in root.matching(pattern) if is_archive(path)]


def check_choice(
    role: str, value: str | None, names: Sequence[str], owner: str, default: str | None = None
) -> str:
    """Return `value`, or the default where it is null; the error for any other name lists `names`."""
    value = default if value is None else value
    if value in names:
        return str(value)
    other = split_in_name(str(value)) if role == "split" else None  # such as "validation"
    close = [other] if other in names else difflib.get_close_matches(str(value), names, 1)
    raise DataError(
        f"{owner} has no {role} {value!r}; there is {', '.join(names)}",
        hint=f"did you mean {close[0]!r}?" if close else None,
    )


def items_from_records(
    dataset: str,
    records: Iterable[Item | DataError],
    on_error: str,
    *,
    files: Sequence[File] = (),
    attrs: dict[str, Any] | None = None,
) -> Items:
    """Build items from a reader's records, with errors in place of bad ones.

    ``on_error="raise"`` raises the first error, "skip" keeps them in ``.problems``. `files`, those that were
    read, are named in ``attrs["source"]``, with ``attrs["sha256"]``; ``attrs["note"]`` says
    what :func:`compare_published` says of them.
    """
    good: list[Item] = []
    problems: list[DataError] = []
    for record in records:
        if isinstance(record, Item):
            good.append(record)
        elif on_error == "raise":
            raise record
        else:
            problems.append(record.with_traceback(None))  # which would keep what the reader had in hand
    if not good and not problems:
        empty = DataError("there is no item in it", file=files[0].path if files else None)
        if on_error == "raise":
            raise empty
        problems.append(empty)
    entry = table_of(dataset)
    about = {key: entry[key] for key in ("title", "licence", "citation") if key in entry}
    if files:
        about["source"] = ", ".join(file.name for file in files)
        about["sha256"] = ", ".join(file.sha256 for file in files)
    about |= attrs or {}
    if remarks := [note for file in files if (note := compare_published(dataset, file))]:
        about["note"] = "; ".join([*([about["note"]] if "note" in about else []), *remarks])
    return Items.from_records(good, attrs=about, problems=problems)


def compare_published(dataset: str, file: File) -> str:
    """Describe the differences of a file from the published one of its name, and incomplete lines.

    What differs is also printed to standard error, once in a process.
    """
    remotes = table_of(dataset).get("files", ())
    sums = [(r["name"], r.get("sha256")) for r in remotes]
    sums += [pair for r in remotes for pair in r.get("members", {}).items()]
    published = {name.rpartition("/")[2].lower(): sha256 for name, sha256 in sums}.get(file.name.lower())
    if file.sha256 == published:
        return ""
    faults = [f"differs from the published file (it has {len(file.data):,} bytes)"] if published else []
    if not file.name.lower().endswith(".parquet") and not file.data.endswith((b"\n", b"\r")):
        faults.append("has no end of its last line, so it may be cut short")
    if faults:
        _print_once(f"{file.path} {' and '.join(faults)}")
    return f"{file.name} {' and '.join(faults)}" if faults else ""


@lru_cache(maxsize=1000)
def _print_once(line: str) -> None:
    say(line, file=sys.stderr)  # a warning would be an error where warnings are


def registry() -> dict[str, Any]:
    """Return the tables of ``data/registry.toml``, one per data set."""
    return _parse_registry(resource("registry.toml").read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _parse_registry(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def readers() -> dict[str, EntryPoint]:
    """Return the readers of data sets by name: of the registry, then of other packages.

    Each is a `Release`, or another object (a module, say) with its `load` and perhaps other members of it.
    """
    group = "workbench.datasets"
    tables = {name: table["reader"] for name, table in registry().items() if "reader" in table}
    built_in = {name: EntryPoint(name, reader, group) for name, reader in tables.items()}
    return built_in | dict(sorted(extensions(group, built_in).items()))


def table_of(dataset: str) -> Mapping[str, Any]:
    """Return the table of a data set in the registry, or the terms of another package's reader."""
    if (table := registry().get(dataset)) is not None:
        return dict(table)
    entry = readers().get(dataset)
    return getattr(load_extension(entry), "terms", {}) if entry else {}


@dataclass(frozen=True)
class BookFiles:
    """Where the books of a split are.

    `patterns` are those of the files and archives, the best first, and `inside` is that of members of an
    archive. Ids have the last `depth` parts of a file's path, or all (0).
    """

    patterns: tuple[str, ...]
    inside: str = "*"
    depth: int = 0


@dataclass(frozen=True, kw_only=True)
class Release:
    """A data set's release: the names of its files, and the function that parses one of them.

    Attributes
    ----------
    name : str
    files : mapping of (split, variant) to sequence of str
        Patterns of each part's file: globs, the official name first; one with a ``/`` is held against
        folders too.
    parse : callable
        ``parse(file, split, variant)`` yields the items of a `File`, and a DataError for each bad record.
    archives, loose : sequence of str, collection of (split, variant)
        Patterns of the archives that hold the files, and the parts that they do not hold.
    split, variant : str
        What is loaded where none is asked for. Without a usual variant, it is all variants that are there.
    variant_of : callable
        Returns the variant that the path of a file names, or None.
    companion : callable
        Returns the patterns of the second file that lies beside a file.
    books : mapping of str to BookFiles
        The books behind the items, by split.
    terms : mapping
        Terms of another package's data set, as in ``data/registry.toml``: title, licence, citation, and the
        files that :func:`workbench.fetch` gets.
    """

    name: str
    files: Mapping[Part, Sequence[str]]
    parse: Callable[[File, str, str], Iterable[Item | DataError]]
    archives: Sequence[str] = ()
    loose: Collection[Part] = ()
    split: str = "dev"
    variant: str | None = "plain"
    variant_of: Callable[[Path], str | None] = lambda _: None
    companion: Callable[[File], Sequence[str]] = lambda _: ()
    books: Mapping[str, BookFiles] = field(default_factory=dict)
    terms: Mapping[str, Any] = field(default_factory=dict)

    def load(
        self,
        split: str | None = None,
        *,
        variant: str | None = None,
        path: Path | str | None = None,
        on_error: str = "raise",
    ) -> Items:
        """Read one split; see :func:`workbench.datasets.load`."""
        variants = list(dict.fromkeys(name for _, name in self.files))
        if (file := as_single_file(path)) is not None:
            split = split or split_of_file(file.path)
            by_name = self.variant_of(file.path)
            variant = variant or by_name or self.variant
            if variant is None:
                problem = "the name of this file does not tell the variant"
                raise DataError(problem, file=path, hint=f"pass variant=, one of {', '.join(variants)}")
            if variant == by_name:  # in a language that was not released, too
                variants = list(dict.fromkeys([*variants, variant]))
        if variant or self.variant:
            variants = [check_choice("variant", variant, variants, self.name, self.variant)]
        split = self._choose_split(split, variants, any_part=file is not None, path=path)
        table = f"{self.name}-{variants[0]}"  # such as lambada-openai, a release with another licence
        dataset = table if table in registry() else self.name
        if file is not None:
            files = {variants[0]: file}
        else:
            wanted = {name: self.files[split, name] for name in variants if (split, name) in self.files}
            try:
                files = find_files(dataset, wanted, archives=self.archives, path=path)
            except DataError as error:
                raise self._other_variant(error, split, path) from None
        files = {name: replace(f, companion=f.beside(*self.companion(f))) for name, f in files.items()}
        lacking = " ".join(name for name in variants if name not in files)
        attrs = {"note": f"no questions found for {lacking}"} if lacking else {}
        records = chain.from_iterable(self.parse(each, split, name) for name, each in files.items())
        read = [each for f in files.values() for each in (*f.shards, f.companion) if each]
        return items_from_records(dataset, records, on_error, files=read, attrs=attrs)

    def _other_variant(self, error: DataError, split: str, path: Path | str | None) -> DataError:
        """Return an error about missing files, with the variants of the split that were found instead."""
        if not error.problem.startswith("found no "):
            return error
        roots = search_roots(self.name, path)
        others = [
            f'variant="{name}"'
            for (s, name), names in self.files.items()
            if s == split and find_first(roots, names)
        ]
        if not others:
            return error
        hint = f"pass {' or '.join(others)}"
        hint += f", which is here; or {error.hint}" if path is None and error.hint else ""
        return DataError(error.problem, hint=hint)

    def _choose_split(
        self, split: str | None, variants: Collection[str], *, any_part: bool, path: Path | str | None
    ) -> str:
        """Return the split; a file that the user names may be of `any_part`, one that is not released too."""
        names = {*variants, *(name.partition("-")[0] for name in variants)}  # of openai-ru also openai
        of_variant = [split for split, variant in self.files if variant in names]
        usual = self.split if self.split in of_variant else of_variant[0]
        splits = list(dict.fromkeys([split for split, _ in self.files] if any_part else of_variant))
        if split in self.books and split not in splits:
            problem = f"the split {split!r} of {self.name} is running text, not items"
            option = "" if path is None else f', path="{path}"'
            raise DataError(problem, hint=f'read it with wb.books("{self.name}", "{split}"{option})')
        return check_choice("split", split, splits, self.name, usual)

    def at_hand(self, searched: Sequence[Root]) -> Iterator[tuple[str, str, Path | None]]:
        """Yield split, variant ("books" for books) and place, None where it is not on this machine."""
        for key, patterns in self.files.items():
            path = find_first(searched, patterns, () if key in self.loose else self.archives)
            if path or language(key[1]) == ENGLISH:
                yield *key, path
        for split, books in self.books.items():
            yield split, "books", find_first(searched, books.patterns)
