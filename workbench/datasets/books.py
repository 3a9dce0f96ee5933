"""Novels, read one at a time: to train on, and to make new items from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow.parquet as pq

from workbench.datasets import archives, sample, sources
from workbench.datasets.gutenberg import Heading, is_gutenberg, without_boilerplate
from workbench.datasets.sources import shards
from workbench.items import text as wt
from workbench.storage.errors import DataError, reading
from workbench.storage.packages import load_extension
from workbench.storage.paths import resource


@dataclass(frozen=True)
class Book:
    """One book.

    Attributes
    ----------
    book_id : str
        Stable: the data set and split where there is one, then the file's name without its end.
    title, author : str or None
        As the file says, else the title is the file's name.
    year : int or None
        Year of publication.
    text : str
        The text without the headers and licences around it.
    tokenised : bool
        Whether words are space-separated tokens.
    source : str
        The file it was read from.

    Examples
    --------
    >>> book = next(iter(wb.books("sample")))
    >>> book.title, len(book.text.split())
    ('A Room for the Inspector', 1704)
    """

    book_id: str
    title: str
    author: str | None
    year: int | None
    text: str
    tokenised: bool
    source: str


_TEXT = re.compile(r"\.(txt|md)(\.utf-?8)?$", re.IGNORECASE)  # the end of a name, as of Project Gutenberg's
_TABLE = re.compile(r"\.(jsonl|ndjson|parquet)$", re.IGNORECASE)
_OTHER_BOOK = re.compile(r"\.(epub3?|x?html?)(\.(no)?images)?$", re.IGNORECASE)
_OTHER_TABLE = re.compile(r"\.(csv|tsv|tab|json|arrow|feather|xlsx?)$", re.IGNORECASE)
_NO_BOOK = re.compile(r"(readme|licen[cs]e|\._)", re.IGNORECASE)
_HTML = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html)\b", re.IGNORECASE)
_UNKNOWN = re.compile(r"(?<!\S)<unk>(?!\S)")  # in place of a token, in texts made for language models
_CBT_TITLE = "_BOOK_TITLE_ : "
_MARKDOWN = re.compile(r"#{1,2} (Title|Author|Year): *(.*)\s*")
_RULE = re.compile(r"(?:-{3,}[ \t]*(?:\n|$))?\s*")
_YEAR = re.compile(r"[0-9]{4}")
_COLUMNS = ("book_id", "title", "author", "year", "text")
_ROWS = 16  # of a table that are in memory at a time
_HEAD = 60_000  # characters that tell whether a text is tokenised
_MODEL_HEAD = 1 << 12  # bytes of a file that tell what it is
_LANGUAGE_MODEL = re.compile(
    rb"mmap lm http://kheafield\.com|SRILM_BINARY_NGRAM|blmt |(?:[^\0]{0,1000}\n)?\\data\\\s+ngram +1 *="
)

Document = tuple[str, Callable[[], Iterable[Book]]]
"""A file's name with its folders, and what reads its books."""


class BookIterator(Iterator[Book]):
    """Books one after the other.

    ``problems`` has the errors of files that were left out under ``on_error="skip"``, of those that were read
    so far, and ``left_out`` the names of these files.
    """

    def __init__(self, documents: Iterator[Document], on_error: str) -> None:
        first = next(documents, None)  # so that an error is raised now and not at the first book
        if first is None:
            problem = "there is no .txt or .md file in it, and no table of books in .jsonl or .parquet"
            raise DataError(problem, hint="pass a folder, file or archive of books")
        self.problems: list[DataError] = []
        self.left_out: list[str] = []
        self._books = self._read(chain([first], documents), on_error)

    def __next__(self) -> Book:
        return next(self._books)

    def _read(self, documents: Iterator[Document], on_error: str) -> Iterator[Book]:
        for name, read in documents:
            try:
                contents = list(read())
            except DataError as error:
                if on_error == "raise":
                    raise
                self.problems.append(error.with_traceback(None))  # which would keep the file's content
                self.left_out.append(name)
            else:
                yield from contents


def books(
    dataset_or_path: str | Path,
    split: str | None = None,
    *,
    path: Path | str | None = None,
    on_error: str = "raise",
) -> BookIterator:
    """Read books one after the other; only one file is in memory at a time.

    Parameters
    ----------
    dataset_or_path : str or path
        "lambada" (its 2,662 training novels), "cbt" (the books behind the questions), "msrcc"
        (the 522 Project Gutenberg texts to train on), "sample" (ours), or a folder, file, tar or zip of
        ``.txt`` and ``.md`` files, in a folder also those in a ``.zip``. Or a table with a book in each row,
        or a folder of such tables that has no other books: JSON lines or Parquet; see Notes.
    split : str, optional
        "train" by default; cbt has "dev" and "test" too. The sample has "train" and "test" (whose items are
        ``wb.load("sample", "test")``), and gives the stories of both by default.
    path : path, optional
        Where the files of a data set are, as in :func:`workbench.datasets.load`.
    on_error : {"raise", "skip"}
        Raise the error of a file that cannot be read, or leave the file out and note the error in
        ``.problems``; of a damaged archive or table all that comes after the damage is left out.

    Raises
    ------
    DataError
        At once if nothing is there; while reading if a file is not plain text, is empty or damaged, has
        several headers of Project Gutenberg, or if less than a tenth of it would be left without them.

    Warns
    -----
    UserWarning
        With the file and the share, if more than a tenth of it is left out that does not look like
        Project Gutenberg's own header or licence.

    Notes
    -----
    Header, small print, up to five lines of credits, production notes, and
    footer of a Project Gutenberg text are left out; a footer is looked for in the last 30,000 characters.

    A table has the column ``text``, and perhaps ``title``, ``author``, ``year`` and ``book_id``; without ids,
    rows are numbered.

    Examples
    --------
    >>> [book.title for book in wb.books("sample")][:2]
    ['A Room for the Inspector', 'Bees for the Bishop']
    """
    sources.check_choice("mode", on_error, sources.ON_ERROR, "on_error")
    paths, names, prefix = _located(str(dataset_or_path), split, path)
    return BookIterator(_Reader(names, prefix).documents(paths), on_error)


def book_files(
    dataset_or_path: str | Path, split: str | None = None, *, path: Path | str | None = None
) -> list[tuple[str, Path]]:
    """Return name and place of the files that `books` reads; an archive is one file."""
    listed: list[tuple[str, Path]] = []
    for location in _located(str(dataset_or_path), split, path)[0]:
        if location.is_dir():
            listed += [(file.relative_to(location).as_posix(), file) for file in _files(location)]
        else:
            listed.append((location.name, location))
    return listed


def _located(
    name: str, split: str | None, path: Path | str | None
) -> tuple[list[Path], sources.BookFiles, str]:
    """Return where books are, how they are called there, and what their ids begin with."""
    if name == "sample":
        if split is not None:
            sources.check_choice("split", split, sample.STORIES, "sample (books)")
        splits = [split] if split else sample.STORIES
        names = sorted(chain.from_iterable(map(sample.story_names, splits)))
        paths = [resource("sample", "novels") / f"{story}.md" for story in names]
        return paths, sources.BookFiles((), depth=1), name
    if sets := _sets(name):
        split = sources.check_choice("split", split, list(sets), f"{name} (books)", "train")
        return _find(name, sets[split], path), sets[split], f"{name}/{split}"
    location = Path(name).expanduser()
    if path is not None or not location.exists():
        names = [each for each in sources.readers() if each == "sample" or _sets(each)]
        problem = f"there is no file or folder {name!r}, and no data set of that name with books"
        raise DataError(problem, hint=f"pass a path, or one of {', '.join(names)}")
    return _all_shards([location]), sources.BookFiles(()), ""


def _sets(name: str) -> Mapping[str, sources.BookFiles] | None:
    """Return the books of a data set by split; None for what has none, or is not a data set."""
    entry = sources.readers().get(name)
    return (entry and getattr(load_extension(entry), "books", None)) or None


def _find(name: str, wanted: sources.BookFiles, path: Path | str | None) -> list[Path]:
    roots = sources.search_roots(name, path)
    if path is not None and roots[0].folder.is_file():
        return _all_shards([roots[0].folder])
    for root in roots:
        for pattern in wanted.patterns:
            if paths := root.matching(pattern):
                return _all_shards(paths if "/" in pattern else paths[:1])
    if path is not None and name != "cbt":  # novels unpacked under another name
        return [roots[0].folder]
    raise sources.missing(name, wanted.patterns, roots)


def _all_shards(paths: Iterable[Path]) -> list[Path]:
    """Return paths with all parts of the tables among them; DataError if a part is missing."""
    sets = (shards(path) if _TABLE.search(path.name) else [path] for path in paths)
    return list(dict.fromkeys(chain.from_iterable(sets)))


def _files(folder: Path) -> list[Path]:
    """Return the files of a folder that may be books; the tables where there is none."""
    listed = sources.walk(folder)
    texts = [Path(name) for name in listed if name.lower().endswith(".zip") or _may_be_book(name)]
    tables = (Path(name) for name in listed if _TABLE.search(name))
    return sorted(texts or _all_shards(tables), key=str)


def _may_be_book(name: str) -> bool:
    """Return whether a file is to be read, by its name; EPUB and HTML raise an error when they are."""
    has_form = _TEXT.search(name) or _OTHER_BOOK.search(name)
    return bool(has_form) and not _NO_BOOK.match(PurePosixPath(name).name)


@dataclass(frozen=True)
class _Reader:
    """Finds and reads books: ids begin with `prefix`, and `names` says which parts of a path they have."""

    names: sources.BookFiles
    prefix: str

    def documents(self, paths: Sequence[Path]) -> Iterator[Document]:
        """Find the files that may be books, in the paths themselves, in folders, and in archives."""
        for path in paths:
            if path.is_dir():
                for file in _files(path):
                    yield from self._file(file, file.relative_to(path).as_posix())
            elif archives.is_archive(path):
                yield from self._archive(path, path.name, self.names.inside)
            else:
                yield from self._file(path, path.name if len(paths) == 1 else "/".join(path.parts[-2:]))

    def _file(self, path: Path, name: str) -> Iterator[Document]:
        if archives.is_archive(path):
            yield from self._archive(path, name, "*", f"{name[: -len('.zip')]}/")
        elif _TABLE.search(name):
            yield from self._table(path, name)
        else:
            yield name, partial(self._read, name, str(path), partial(_content, path))

    def _archive(self, path: Path, name: str, inside: str, folder: str = "") -> Iterator[Document]:
        """Find the books in an archive; where it is damaged, the error is the content of the last."""
        wanted = sources.matcher(f"*/{inside}")
        try:
            for member, source in _members(archives.members(path), wanted, path.name):
                member_name = f"{folder}{member.name}"
                yield member_name, partial(self._read, member_name, source, member.read)
        except DataError as error:
            yield name, partial(_raise, error)

    def _table(self, path: Path, name: str) -> Iterator[Document]:
        """Find the books in a table; where it is damaged, the error is the content of the last."""
        stem = _TABLE.sub("", name)
        try:
            for number, record in enumerate(_records(path)):
                row = f"{stem}-{number:04d}"
                yield row, partial(self._read_row, row, path, number, record)
        except DataError as error:
            yield name, partial(_raise, error)

    def _read(self, name: str, source: str, content: Callable[[], bytes]) -> Iterator[Book]:
        """Yield the books of a file."""
        if _OTHER_BOOK.search(name):
            raise _no_plain_text(source)
        if _OTHER_TABLE.search(name):
            problem = "expected books in plain text, JSON lines or Parquet, got another table"
            hint = "write it as JSON lines or Parquet with the books in a column `text`"
            raise DataError(problem, file=source, hint=hint)
        text = sources.decode(content(), source)
        if text.startswith(_CBT_TITLE):
            yield from self._childrens_books(text.replace("\r\n", "\n"), source)
        else:
            yield _book(text, source, self._id(_TEXT.sub("", name)))

    def _read_row(self, name: str, path: Path, number: int, record: Any) -> Iterator[Book]:
        """Yield the book of a row."""
        is_row = isinstance(record, dict) and isinstance(record.get("text"), str)
        if not is_row:
            expected = "expected a text in the column `text`"
            problem = f"{expected} of row {number + 1}, got {str(record)[:60]!r}"
            raise DataError(problem, file=path, hint='correct the row, or pass on_error="skip"')
        cells = {name: str(record[name]) for name in _COLUMNS if record.get(name) is not None}
        text = cells["text"].encode("utf-8", "replace").decode()
        book = _book(text, str(path), cells.get("book_id", self._id(name)))
        title, author = cells.get("title", book.title), cells.get("author", book.author)
        yield replace(book, title=title, author=author, year=_year(cells.get("year", "")) or book.year)

    def _id(self, name: str) -> str:
        """Return the id of a book: the last parts of its path, or all."""
        folders = PurePosixPath(name).parts[-self.names.depth :]
        return "/".join(name for name in (self.prefix, *folders) if name not in {"", ".", "..", "/"})

    def _childrens_books(self, text: str, source: str) -> Iterator[Book]:
        """Split the raw text of the Children's Book Test into its books."""
        for content in re.split(rf"^{_CBT_TITLE}", text, flags=re.MULTILINE)[1:]:
            heading, _, body = content.partition("\n")
            name = heading.removesuffix(".txt.out")
            author, _, title = name.replace("_", " ").rpartition("   ")
            book_id = f"{self.prefix}/{name}".lstrip("/")
            yield _with_text(Book(book_id, title, author or None, None, body, tokenised=True, source=source))


def _book(text: str, source: str, book_id: str) -> Book:
    """Return the book of a text; DataError if it is a page of HTML, or there is no text in it."""
    if _HTML.match(text):
        raise _no_plain_text(source)
    text = text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n")
    if _MARKDOWN.match(text):
        title, author, year, body = _markdown(text)
    elif is_gutenberg(text):
        title, author, year, body = without_boilerplate(text, source)
    else:
        title, author, year, body = None, None, None, text
    title = title or PurePosixPath(book_id).name.replace("_", " ")
    is_tokenised = wt.looks_tokenised(body[:_HEAD]) or bool(_UNKNOWN.search(body[:_HEAD]))
    return _with_text(Book(book_id, title, author, year, body, is_tokenised, source))


def _with_text(book: Book) -> Book:
    if not book.text.strip():
        raise DataError(
            "there is no text in it", file=book.source, hint="leave it out, or get the file again"
        )
    return book


def _no_plain_text(source: str) -> DataError:
    file = PurePosixPath(source)
    hint = f"convert it first: pandoc -t plain -o {file.stem}.txt {file.name}"
    return DataError("expected plain text or Markdown, got an EPUB or HTML file", file=source, hint=hint)


def _raise(error: DataError) -> Iterator[Book]:
    raise error


def _content(path: Path) -> bytes:
    refuse_language_model(path)
    return sources.File(path).data


def refuse_language_model(path: Path) -> None:
    """Raise DataError if a file is an n-gram model in ARPA format, or in that of KenLM, SRILM or IRSTLM."""
    with reading(path), path.open("rb") as file:
        start = file.read(_MODEL_HEAD)
    if _LANGUAGE_MODEL.match(start):
        raise DataError(
            "this is an n-gram model of another program, which is not read",
            file=path,
            hint="fit one on the text that it was estimated from: NGram.fit(text, order=...)",
        )


def _members(
    members: Iterator[archives.Member], wanted: Callable[[str], object], source: str
) -> Iterator[tuple[archives.Member, str]]:
    """Yield the members of an archive that may be books, each with its source."""
    for member in members:
        location = f"{source}/{member.name}"
        if not wanted(f"/{member.name}"):
            continue
        if member.name.endswith(".tar"):  # LAMBADA's archive holds its novels in another one
            yield from _members(archives.members(member.stream, location), wanted, location)
        elif _may_be_book(member.name):
            yield member, location


def _records(path: Path) -> Iterator[Any]:
    """Yield the rows of a table; DataError if it is damaged, or has no column of texts."""
    if path.suffix.lower() != ".parquet":
        with reading(path, "this table of books"), path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    with reading(path, "this row", line=number, hint="correct the row"):
                        record = json.loads(sources.decode(line, path))
                    yield record
        return
    with reading(path, "this table of books", hint="get the file again, or write the table anew"):
        table = pq.ParquetFile(path)
        columns = [name for name in _COLUMNS if name in table.schema_arrow.names]
        if "text" not in columns:
            problem = f"expected a column `text`, got {', '.join(table.schema_arrow.names)[:200]}"
            raise DataError(problem, file=path, hint="rename the column of texts")
        for batch in table.iter_batches(_ROWS, columns=columns):
            yield from batch.to_pylist()


def _year(text: str) -> int | None:
    year = _YEAR.search(text)
    return int(year[0]) if year else None


def _markdown(text: str) -> Heading:
    """Parse and remove the headings ``# Title: ...``, ``## Author: ...``, ``## Year: ...`` and the rule."""
    fields: dict[str, str] = {}
    start = 0
    while heading := _MARKDOWN.match(text, start):
        fields[heading[1]] = heading[2].strip()
        start = heading.end()
    if rule := _RULE.match(text, start):
        start = rule.end()
    return fields.get("Title"), fields.get("Author"), _year(fields.get("Year", "")), text[start:]
