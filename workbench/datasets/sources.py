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
from workbench.datasets.file_names import shards, split_in_name, split_of_file
from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.storage.errors import DataError, reading
from workbench.storage.files import read_bytes
from workbench.storage.packages import extensions, load_extension
from workbench.storage.paths import data_home, resource
from workbench.storage.progress import say
from workbench.storage.tables import encoding_of_mark

_BINARY = (
    b"\x1f\x8b", b"PK\x03\x04", b"\xfd7zXZ\x00", b"BZh9", b"PAR1", b"%PDF", b"\x7fELF", b"\x89PNG",
    b"7z\xbc\xaf",
)  # fmt: skip
Matcher = Callable[[str], Any]
Part = tuple[str, str]
"""Split and variant."""

ON_ERROR = ("raise", "skip")


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

    @property
    def label(self) -> str:
        """The name for messages: the path as it was given."""
        return str(self.path)

    @property
    def source(self) -> str:
        """The name that goes into ``items.attrs``: no folder of this machine."""
        return self.name.encode("utf-8", "replace").decode()

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
        """Return the lines of all parts of the text, without their ends and without blank ones at the end."""
        return [line for shard in self.shards for line in lines(decode(shard.data, shard.label))]

    def beside(self, *patterns: str) -> File | None:
        """Return the first file in the same folder whose name fits a pattern."""
        with reading(self.path.parent, "this folder"):
            paths = sorted(filter(is_file, self.path.parent.iterdir()))
        return next((File(path) for p in patterns for path in paths if matcher(p)(path.name)), None)


def is_binary(data: bytes) -> bool:
    """Return whether bytes are not text, by a zero byte or the signature of a binary format."""
    return b"\0" in data or data.startswith(_BINARY)


def decode(data: bytes, name: str | Path) -> str:
    """Read bytes as text: UTF-8 without its mark; lines that are not UTF-8 as Windows-1252 or Latin-1.

    UTF-16 and UTF-32 are known by their marks.
    """
    encoding = encoding_of_mark(data)
    if encoding and encoding != "utf-8-sig":
        with reading(name, f"this text in {encoding.upper()}", hint="save it again as UTF-8"):
            data = data.decode(encoding).encode("utf-8", "replace")
    if is_binary(data):
        raise DataError(
            "this is a binary file, expected UTF-8 text", file=name, hint="unpack it, or pass the text file"
        )
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return data.decode()
    except UnicodeDecodeError:  # no multi-byte character holds a line end: lines can be read one by one
        end = b"\n" if b"\n" in data else b"\r"
        return end.decode().join(map(_decode_line, data.split(end)))


def _decode_line(line: bytes) -> str:
    for encoding in ("utf-8", "cp1252"):
        with suppress(UnicodeDecodeError):
            return line.decode(encoding)
    return line.decode("latin-1")


def lines(text: str) -> list[str]:
    """Split at line feeds only: novels hold form feeds and U+2028, which end no line of a file.

    Where there is no line feed at all, lines end in carriage returns, as on old Macintosh computers.
    """
    text = text if "\n" in text else text.replace("\r", "\n")
    result = [line.removesuffix("\r") for line in text.split("\n")]
    while result and not result[-1].strip():
        result.pop()
    return result


def matcher(pattern: str) -> Matcher:
    """Return a test of names against a glob, of paths where the glob has a ``/``; case does not matter."""
    fits = re.compile(fnmatch.translate(pattern.lower())).match
    deep = "/" in pattern
    return lambda name: fits((name if deep else name.rpartition("/")[2]).lower())


def is_file(path: os.PathLike[str] | str) -> bool:
    """Return True for an existing regular file; False if it cannot be determined, as for a link to itself."""
    return os.path.isfile(path)  # noqa: PTH113 - `Path.is_file` raises OSError for a name that is too long


def is_folder(path: Path | str) -> bool:
    """Return True for an existing folder; False if it cannot be determined."""
    return os.path.isdir(path)  # noqa: PTH112


def expand_home(path: Path | str) -> Path:
    """Expand ``~``; return the path unchanged if that fails."""
    return Path(os.path.expanduser(path))  # noqa: PTH111 - `Path.expanduser` raises RuntimeError


def walk(root: Path) -> list[str]:
    """Return the paths of all files below a folder, hidden ones left out, near ones first."""
    files: list[str] = []
    seen: set[tuple[int, int]] = set()
    folders = [str(root)]
    for folder in folders:  # grows while it is read
        try:
            status = os.stat(folder)  # noqa: PTH116 - paths of 100,000 files are kept as plain text
            if (status.st_dev, status.st_ino) in seen:  # a link that leads back
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as entries:
                here = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue  # a folder that may not be read holds nothing for us, nor does what is none
        for entry in here:
            if not entry.name.startswith((".", "__")):
                is_one = entry.is_file(follow_symlinks=False) or is_file(entry)
                (files if is_one else folders).append(entry.path)
    return files


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
        folder = expand_home(path)
        if not (is_file(folder) or is_folder(folder)):
            raise DataError("there is no such file or folder", file=path)
        if is_folder(folder):
            with reading(folder, "this folder"):
                next(folder.iterdir(), None)
        # what a user points at is taken for this data set, whatever its folders are called
        name = "" if is_file(folder) else f"/{Path(os.path.abspath(folder)).name}"  # noqa: PTH100 - no link
        return [_scan(folder, f"{dataset}{name}")]
    folders = [expand_home(os.environ["WORKBENCH_DATA"])] if os.environ.get("WORKBENCH_DATA") else []
    return [_scan(folder, folder.name) for folder in dict.fromkeys([*folders, data_home() / "raw"])]


def _scan(folder: Path, label: str) -> Root:
    if is_file(folder):
        return Root(folder, [(f"{label}/{folder.name}", str(folder))])
    start = len(str(folder).rstrip(os.sep)) + 1
    return Root(folder, [(f"{label}/{p[start:].replace(os.sep, '/')}", p) for p in walk(folder)])


def as_single_file(path: Path | str | None) -> File | None:
    """Return the file that `path` names, if it is one and no archive."""
    if path is None or is_archive(path) or not is_file(location := expand_home(path)):
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
        for archive in _archives(root, ("*",) if is_file(root.folder) else archives):
            yield _scan(unpacked(archive), dataset)


def find_file(
    dataset: str, patterns: Sequence[str], archives: Sequence[str], path: Path | str | None
) -> File:
    """Return the file that `path` names, or else one file as :func:`find_files` finds it."""
    return as_single_file(path) or find_files(dataset, {"": patterns}, archives=archives, path=path)[""]


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
    locations = ", ".join(
        f"{r.folder}{'' if is_file(r.folder) or is_folder(r.folder) else ' (not there)'}" for r in searched
    )
    return DataError(
        f"found no {' or '.join(names)}; searched {locations} with subfolders",
        hint=f'get it with wb.fetch("{dataset}"), or pass path= a folder, file or archive',
    )


def from_disk(root: Root, patterns: Sequence[str]) -> File | None:
    """Return the one file that fits the first pattern that any fits, the first part of a set; else None."""
    for pattern in patterns:
        files = [File(path) for path in root.matching(pattern) if not is_archive(path)]
        if files:
            return _only(list(dict.fromkeys(file.shards[0] for file in files)), pattern)
    return None


def _archives(root: Root, patterns: Sequence[str]) -> list[Path]:
    return [path for pattern in patterns for path in root.matching(pattern) if is_archive(path)]


def _only(files: Sequence[File], pattern: str) -> File:
    if len(files) > 1 and len({file.sha256 for file in files}) > 1:
        raise DataError(
            f"several files fit {pattern}: {', '.join(file.label for file in files)}",
            hint="pass path= the one you mean",
        )
    return files[0]


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


def note_split(file: File, split: str) -> str:
    """Return a note, printed once, on a file whose name says another split than it is read as; else ""."""
    if (named := split_of_file(file.path)) in {None, split}:
        return ""
    note = f"the name of {file.source} says {named}, and it is read as {split}"
    _print_once(note)
    return note


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
        empty = DataError("there is no item in it", file=files[0].label if files else None)
        if on_error == "raise":
            raise empty
        problems.append(empty)
    entry = table_of(dataset)
    about = {key: entry[key] for key in ("title", "licence", "citation") if key in entry}
    if files:
        about["source"] = ", ".join(file.source for file in files)
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
    if not file.name.lower().endswith(".parquet"):
        if b"\r" in file.data and b"\n" not in file.data:
            faults.append("has lines that end in carriage returns")
        if not file.data.endswith((b"\n", b"\r")):
            faults.append("has no end of its last line, so it may be cut short")
    if faults:
        _print_once(f"{file.label} {' and '.join(faults)}")
    return f"{file.name} {' and '.join(faults)}" if faults else ""


@lru_cache(maxsize=1000)
def _print_once(line: str) -> None:
    say(line, file=sys.stderr)  # a warning would be an error where warnings are


def registry() -> dict[str, Any]:
    """Return the tables of ``data/registry.toml``, one a data set."""
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
    variant_in_name, variant_in_file : callable
        Return the variant that a file's name, or a `File` by its content, tells, or None.
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
    variant_in_name: Callable[[str], str | None] = lambda _: None
    variant_in_file: Callable[[File], str | None] = lambda _: None
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
            depth = 3 if file.path.stem.isdigit() else 2  # the hub's folders are called as variants
            folders = "/".join(file.path.absolute().parts[-depth:])
            by_content = None if variant in variants else self.variant_in_file(file)
            variant = (
                variant or by_content or self.variant_in_name(file.name) or self.variant_in_name(folders)
            )
            variant = variant or self.variant
            if variant is None:
                problem = "the name of this file does not tell the variant"
                raise DataError(problem, file=file.label, hint=f"pass variant=, one of {', '.join(variants)}")
            if variant == by_content:  # in a language that was not released, too
                variants = list(dict.fromkeys([*variants, variant]))
        if variant or self.variant:
            variants = [check_choice("variant", variant, variants, self.name, self.variant)]
        split = self._choose_split(split, variants, any_part=file is not None, path=path)
        table = f"{self.name}-{variants[0]}"  # such as lambada-openai, a release with a licence of its own
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
        lacking = " ".join(name for name in variants if name not in files) if file is None else ""
        note = f"no questions found for {lacking}" if lacking else note_split(file, split) if file else ""
        records = chain.from_iterable(self.parse(each, split, name) for name, each in files.items())
        read = [each for f in files.values() for each in (*f.shards, f.companion) if each]
        attrs = {"note": note} if note else {}
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
        of_variant = [split for split, variant in self.files if variant in variants] or [
            split for split, variant in self.files if any(name.startswith(f"{variant}-") for name in variants)
        ]
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
            yield *key, find_first(searched, patterns, () if key in self.loose else self.archives)
        for split, books in self.books.items():
            yield split, "books", find_first(searched, books.patterns)
