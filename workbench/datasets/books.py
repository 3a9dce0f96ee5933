"""Novels, read one at a time: to train on, and to make new items from."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from workbench.datasets import archives, sample, sources
from workbench.datasets.book_tables import BookRow, is_book_table, read_book_rows
from workbench.datasets.epub import read_epub, read_html
from workbench.datasets.file_names import shards
from workbench.datasets.model_files import refuse_language_model
from workbench.datasets.production_notes import header_end, licence_start, without_notes
from workbench.items import text as wt
from workbench.storage.errors import DataError
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


_UNKNOWN = re.compile(r"(?<!\S)<unk>(?!\S)")  # in place of a token, in texts made for language models
_FORM = re.compile(  # of a book, by the end of its file's name, as Project Gutenberg has them too
    r"\.(?:(?P<text>txt|md)(?:\.utf-?8)?|(?P<epub>epub)3?(?:\.(?:no)?images)?"
    r"|(?P<html>x?html?)(?:\.(?:no)?images)?|(?P<zip>zip))$",
    re.IGNORECASE,
)
_HTML = re.compile(r"\s*(?:<\?xml[^>]*>\s*)?<(?:!doctype html|html)\b", re.IGNORECASE)
_NO_BOOK = re.compile(r"(readme|licen[cs]e|\._)", re.IGNORECASE)
_CBT_TITLE = "_BOOK_TITLE_ : "
_MARKDOWN = re.compile(r"#{1,2} (Title|Author|Year): *(.*)")
_RULE = re.compile(r"\s*(-{3,}[ \t]*(\n|$))?\s*")
_PG = r"project\s+gutenberg"
_PG_WORK = (  # its name for a text, with what follows in headers and footers, but not in a sentence
    rf"(?:(?:the|this|a)\s{{1,2}})?{_PG}(?:\W{{0,3}}$|'s\s\W{{0,3}}(?-i:[A-Z0-9])"
    r"|(?:'?s)?\s(?:\[?wiretap\]?\s|[0-9]+th\s)?(?:e-?text|e-?book|edit(?:ion)?|text)s?\b"
    r"(?=\W{0,9}(?:$|of\b|from\b|edition\b|\w+\.txt|(?-i:[A-Z0-9]))))"
)
_PG_START = re.compile(
    r"^[^\w\n]{0,20}((?:(?<=\*)|(?<=\* ))(?P<start>START) OF (?:THIS|THE) PROJECT"
    r"|END[* ]?THE SMALL PRINT).*\n"
    # a long title goes on to the last line of the paragraph that closes with asterisks
    r"(?(start)(?:(?:[^\S\n]*\S.*\n){0,9}.*\*{3}[^\S\n]*\n)?|(?:ETEXTS\*?Ver.*\n)?)",
    re.IGNORECASE | re.MULTILINE,
)
_PG_START_WORDS = ("start of th", "the small print")  # one is in the line of each match
_PG_END = re.compile(  # after `before`, where a line starts; marks before its first word are read once
    rf"""(?P<before>\A|(?<=\w)[^\w\n]*+\n)\W*+
        (?:(?:this\ is\ )?(?:the\ )?end\ (?:(?:of|if)\s?)?(?:the\swiretap/)?{_PG_WORK}
        |(?P<next>{_PG_WORK}))""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_PG_LAST = re.compile(rf"^\W*(end\s+of\W+)?{_PG_WORK}", re.IGNORECASE | re.MULTILINE)
_MADE = r"(?:scanned|prepared|produced|typed|proof(?:ed|read)?)"
_PG_CREDIT = (
    re.compile(  # who made the file, in one line; no sentence such as "The light produced by the lamp"
        rf"""\s*+(?=[^\n]{{0,120}}\n)(?:
        [^\w\n]{{0,9}}{_PG_WORK}
        |[^\w\n]{{0,9}}(?:the\ |this\ )?(?:{_PG}\ )?e-?texts?\b
         (?=\ (?:of\b|(?:is\ |was\ )?(?:\w+\ )?(?:{_MADE}|created|transcribed)\b))
        |(?:[^\w\n]{{0,9}}(?:this\ book\ )?|pages\ [^\n]{{1,9}}?)(?:(?:{_MADE}|edited)(?:,|\ and)\ ){{0,3}}
         {_MADE}\ by(?::|\ ?$|\W{{1,3}}(?-i:[A-Z])|(?:\ (?-i:[a-z]+)){{1,2}}\W{{0,2}}$)
        |[^\n]{{1,60}}(?-i:(?<=\ )(?:Scanned|Prepared|Produced|Typed)|\bproof)\ by\ (?-i:[A-Z])
    )[^\n]*\n\s*+""",
        re.IGNORECASE | re.VERBOSE | re.MULTILINE,
    )
)
_PG_FIELD = r"^{}:[ \t]*(\S.*?)[ \t]*$"
_PG_TITLE = re.compile(
    rf"{_PG}(?:'s)?(?: e-?(?:text|book))?(?: edition)?,?(?: of)?:? (.+?)(?:,? by (.+?))?\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_PG_AFTER = re.compile(rf"(?:,| ?(?:\||--|\u2014)) ?(?:(?:a|the) )?{_PG}.*", re.IGNORECASE)  # in the title
_BY = re.compile(r"(.+), by (\S.*)")  # of a web page
_PG_NAMES = re.compile(r"gutenberg|e-?text|e-?book|electronic", re.IGNORECASE)
_HEAD, _TAIL, _LAST = 60_000, 30_000, 400  # characters in which a header ends, a footer or last line begins
_HEADER, _APART = 20_000, 2000  # characters of a header, and between two of its marks
_NAMED, _CREDITS = 5000, 5  # characters of a header in which its title is, lines
_UNNAMED, _SHARE = 2000, 0.1  # characters without a name of Gutenberg's that are text; their share of a file


class _Header(NamedTuple):
    """A header's marks: where the first begins, where the last ends, and which they are."""

    start: int
    end: int
    mark_types: frozenset[str]


Document = tuple[str, str, Callable[[], bytes | BookRow]]
"""Name with folders, source, and what reads the content, or a row of a table."""
Heading = tuple[str | None, str | None, int | None, str]
"""Title, author, year, and the text without them."""


class BookIterator(Iterator[Book]):
    """Books one after the other.

    ``problems`` has the errors of files that were left out under ``on_error="skip"``, of those that were read
    so far, and ``left_out`` the names of these files.
    """

    def __init__(self, documents: Iterator[Document], prefix: str, depth: int, on_error: str) -> None:
        first = next(documents, None)  # so that an error is raised now and not at the first book
        if first is None:
            problem = "there is no .txt, .md or .epub file in it, no .html or .zip, and no table of books"
            raise DataError(problem, remedy="pass a folder, file or archive of books")
        self.problems: list[DataError] = []
        self.left_out: list[str] = []
        self._books = self._read(chain([first], documents), prefix, depth, on_error)

    def __next__(self) -> Book:
        return next(self._books)

    def _read(self, documents: Iterator[Document], prefix: str, depth: int, on_error: str) -> Iterator[Book]:
        for name, source, content in documents:
            try:
                contents = list(_books(name, source, content(), prefix, depth))
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
        (the 522 Project Gutenberg texts to train on), "sample" (ours), or a folder, file or
        archive of ``.txt``, ``.md``, ``.html`` and ``.epub`` files, in a folder also those in a ``.zip``.
        Or a table with a book in each row, or a folder of such tables that has no other books: Parquet, JSON
        lines, JSON, CSV, or what ``datasets.Dataset.save_to_disk`` wrote; see Notes.
    split : str, optional
        "train" by default; cbt has "dev" and "test" too. The sample has "train" and "test" (whose items are
        ``wb.load("sample", "test")``), and gives the stories of both by default.
    path : path, optional
        Where the files of a data set are, as in :func:`workbench.datasets.load`.
    on_error : {"raise", "skip"}
        Raise the error of a file that cannot be read, or leave the file out and note the error in
        ``.problems``; of a damaged archive all that comes after the damage is left out.

    Raises
    ------
    DataError
        At once if nothing is there; while reading if a file is not text, is empty or damaged, or if less than
        a tenth of a book would be left without the header and licence of Project Gutenberg.

    Warns
    -----
    UserWarning
        With the file and the share, if more than a tenth of it is left out that does not look like
        Project Gutenberg's own header or licence.

    Notes
    -----
    Header, small print (at the beginning or the end), up to five lines of credits, production notes, and
    footer of a Project Gutenberg text are left out; a footer is looked for in the last 30,000 characters. A
    file with several such headers, or with text of a book before the first, is several books: the id of the
    second ends in ``#2``, and so on.

    The columns of a table are found by their names, in any case: ``text`` (or ``content``, ``book``),
    ``title``, ``author``, ``year``, and ``book_id`` or ``id``; without ids, rows are numbered. ``metadata``
    may hold all but the text by name. Of JSON lines and Arrow 16 rows are in memory at a time, of Parquet a
    group of rows; other tables are read at once.

    Examples
    --------
    >>> [book.title for book in wb.books("sample")][:2]
    ['A Room for the Inspector', 'Bees for the Bishop']
    """
    sources.check_choice("mode", on_error, sources.ON_ERROR, "on_error")
    paths, names, prefix = _located(str(dataset_or_path), split, path)
    return BookIterator(_documents(paths, names.inside), prefix, names.depth, on_error)


def book_files(
    dataset_or_path: str | Path, split: str | None = None, *, path: Path | str | None = None
) -> list[tuple[str, Path]]:
    """Return name and place of the files that `books` reads; an archive is one file."""
    listed: list[tuple[str, Path]] = []
    for location in _located(str(dataset_or_path), split, path)[0]:
        if sources.is_folder(location):
            inside = _files(location)
            listed += [(Path(file).relative_to(location).as_posix(), Path(file)) for file in inside]
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
    location = sources.expand_home(name)
    if path is not None or not (sources.is_file(location) or sources.is_folder(location)):
        names = [each for each in sources.readers() if each == "sample" or _sets(each)]
        problem = f"there is no file or folder {name!r}, and no data set of that name with books"
        raise DataError(problem, remedy=f"pass a path, or one of {', '.join(names)}")
    return _all_shards([location]), sources.BookFiles(()), ""


def _sets(name: str) -> Mapping[str, sources.BookFiles] | None:
    """Return the books of a data set by split; None for what has none, or is not a data set."""
    entry = sources.readers().get(name)
    return (entry and getattr(load_extension(entry), "books", None)) or None


def _find(name: str, wanted: sources.BookFiles, path: Path | str | None) -> list[Path]:
    roots = sources.search_roots(name, path)
    if path is not None and sources.is_file(roots[0].folder):
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
    sets = (shards(path) if is_book_table(path.name) else [path] for path in paths)
    return list(dict.fromkeys(chain.from_iterable(sets)))


def _documents(paths: Sequence[Path], inside: str) -> Iterator[Document]:
    """Find the files that may be books, in the paths themselves, in folders, and in archives."""
    common = paths[0].parent if len(paths) == 1 else None
    for path in paths:
        if sources.is_folder(path):
            for name in _files(path):
                relative = name[len(str(path)) + 1 :].replace("\\", "/")
                if archives.is_archive(name):
                    yield from _archive(Path(name), "*", f"{relative[: -len('.zip')]}/")
                elif is_book_table(name):
                    yield from _table(Path(name), relative)
                else:
                    yield relative, name, partial(_content, Path(name))
        elif archives.is_archive(path):
            yield from _archive(path, inside)
        elif is_book_table(path.name):
            yield from _table(path, path.name)
        else:
            name = path.name if common else "/".join(path.parts[-2:])
            yield name, str(path), partial(_content, path)


def _content(path: Path) -> bytes:
    refuse_language_model(path)
    return sources.File(path).data


def _archive(path: Path, inside: str, folder: str = "") -> Iterator[Document]:
    """Find the books in an archive; where it is damaged, the error is the content of the last."""
    try:
        for name, source, content in _packed(
            archives.members(path), sources.matcher(f"*/{inside}"), path.name
        ):
            yield f"{folder}{name}", source, content
    except DataError as error:
        yield f"{folder}{path.name}", str(path), partial(_raise, error)


def _files(folder: Path) -> list[str]:
    """Return the files of a folder that may be books; the tables where there is none."""
    listed = sources.walk(folder)
    tables = map(Path, filter(is_book_table, listed))
    return sorted(filter(_may_be_book, listed)) or sorted(map(str, _all_shards(tables)))


def _table(path: Path, name: str) -> Iterator[Document]:
    """Find the books in a table; where it cannot be read, the error is the content of the last."""
    try:
        for row in read_book_rows(path, str(PurePosixPath(name).with_suffix(""))):
            if isinstance(row, BookRow):
                yield f"{row.name}.txt", str(path), partial(BookRow._make, row)
            else:
                yield row[0], str(path), partial(_raise, row[1])
    except DataError as error:
        yield name, str(path), partial(_raise, error)


def _raise(error: DataError) -> bytes:
    raise error


def _packed(
    members: Iterator[archives.Member], wanted: Callable[[str], object], source: str
) -> Iterator[Document]:
    for member in members:
        if not wanted(f"/{member.name}"):
            continue
        if member.name.endswith(".tar"):  # LAMBADA's archive holds its novels in another one
            nested = archives.members(member.stream, f"{source}/{member.name}")
            yield from _packed(nested, wanted, f"{source}/{member.name}")
        elif _may_be_book(member.name) and not archives.is_archive(member.name):
            yield member.name, f"{source}/{member.name}", member.read


def _may_be_book(name: str) -> bool:
    return bool(_FORM.search(name)) and not _NO_BOOK.match(PurePosixPath(name).name)


def _id(name: str, prefix: str, depth: int) -> str:
    """Return the id of a file's book: the last parts of its path, or all, without the ending."""
    form = _FORM.search(name)
    path = PurePosixPath(name[: form.start()]) if form else PurePosixPath(name).with_suffix("")
    return "/".join(name for name in (prefix, *path.parts[-depth:]) if name not in {"", ".", "..", "/"})


def _books(name: str, source: str, content: bytes | BookRow, prefix: str, depth: int) -> Iterator[Book]:
    """Yield the books of a file; DataError if one is without text."""
    for book in _parsed_books(name, source, content, prefix, depth):
        if not book.text.strip():
            remedy = "leave it out, or get the file again"
            raise DataError("there is no text in it", file=source, remedy=remedy)
        yield book


def _parsed_books(
    name: str, source: str, content: bytes | BookRow, prefix: str, depth: int
) -> Iterator[Book]:
    title: str | None = None
    author: str | None = None
    year: int | None = None
    text, book_id, row = "", _id(name, prefix, depth), None
    if isinstance(content, BookRow):
        row, book_id = content, content.book_id or book_id
        content = content.text.encode("utf-8", "replace")
    form = (match := _FORM.search(name)) and match.lastgroup
    if form != "epub":
        text = sources.decode(content, source) if form != "html" else ""
        text = text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n")
        form = "html" if form == "html" or _HTML.match(text[:_LAST]) else "text"
    if form != "text":
        title, author, year, text = _document(content, source, form)
    if text.startswith(_CBT_TITLE):
        yield from _childrens(text, source, prefix)
        return
    headings: list[Heading] = [(title, author, year, text)]
    if _MARKDOWN.match(text) and form == "text":
        headings = [_markdown(text)]
    elif form != "text" or re.search(_PG, text[:_HEAD], re.IGNORECASE) or next(_marks(text), None):
        headings = _cleaned(text, source)
        headings[0] = (title or headings[0][0], author or headings[0][1], year, headings[0][3])
    if row:
        title, author, year, text = headings[0]
        headings[0] = (row.title or title, row.author or author, row.year or year, text)
    file = PurePosixPath(book_id).name.replace("_", " ")
    for number, (title, author, year, text) in enumerate(headings, start=1):
        own_id = f"{book_id}#{number}" if number > 1 else book_id
        head = text[:_HEAD]
        is_tokenised = wt.looks_tokenised(head) or bool(_UNKNOWN.search(head))
        yield Book(own_id, title or file, author, year, text, is_tokenised, source)


def _document(content: bytes, source: str, form: str | None) -> Heading:
    """Parse an EPUB or a page of HTML; a page's title may name the author."""
    title, author, year, text = (read_epub if form == "epub" else read_html)(content, source)
    title = _PG_AFTER.sub("", (title or "")[:_NAMED]) or None
    if named := _PG_TITLE.search(title or "") or _BY.fullmatch(title or ""):
        title, author = named[1], author or named[2]
    return title, author, year, text


def _childrens(text: str, source: str, prefix: str) -> Iterator[Book]:
    """Split the raw text of the Children's Book Test into its books."""
    for content in re.split(rf"^{_CBT_TITLE}", text, flags=re.MULTILINE)[1:]:
        heading, _, body = content.partition("\n")
        name = heading.removesuffix(".txt.out")
        author, _, title = name.replace("_", " ").rpartition("   ")
        book_id = f"{prefix}/{name}".lstrip("/")
        yield Book(book_id, title, author or None, None, body, tokenised=True, source=source)


def _markdown(text: str) -> Heading:
    """Parse and remove the headings ``# Title: ...``, ``## Author: ...``, ``## Year: ...`` and the rule."""
    fields: dict[str, str] = {}
    start = 0
    while heading := _MARKDOWN.match(text, start):
        fields[heading[1]] = heading[2].strip()
        start = heading.end()
        start += len(text[start : start + 100]) - len(text[start : start + 100].lstrip())
    rule = _RULE.match(text, start)
    year = re.search(r"[0-9]{4}", fields.get("Year", ""))
    body = text[rule.end() if rule else start :]
    return fields.get("Title"), fields.get("Author"), int(year[0]) if year else None, body


def _cleaned(text: str, source: str) -> list[Heading]:
    """Remove what `_gutenberg` does, the licence at the end of a text, and production notes."""
    text = text if text.endswith("\n") else f"{text}\n"
    marks = list(_marks(text))
    if marks and marks[-1][1][:3].upper() == "END" and not text[marks[-1].end() :].strip("\x1a \n"):
        text = text[: licence_start(text, marks[-1].end())]
    marks = [mark for mark in marks if mark.end() <= len(text)]
    end = 0 if marks else header_end(text)
    named = _title_and_author(text[:_NAMED]) if end else (None, None)
    text = text[end:]
    headings = []
    for title, author, year, body in _gutenberg(text, source):
        start = text.find(body[:_LAST].rstrip("\n"))
        line = text[max(0, start - _LAST) : start].removesuffix("\n").rpartition("\n")[2]
        # more credits than `_CREDITS` are text
        cleaned = body if _PG_CREDIT.match(body) else without_notes(body, before=line)
        if cleaned.strip():
            headings.append((named[0] or title, named[1] or author, year, cleaned))
        named = (None, None)
    if not headings:
        raise _too_short(source, 0)
    return headings


def _too_short(source: str, share: float) -> DataError:
    problem = (
        f"{share:.1%} of the text is left without what looks like header and licence of Project Gutenberg, "
        f"expected {_SHARE:.0%} or more"
    )
    remedy = "remove header and licence, and every line that names Project Gutenberg, or get the file again"
    return DataError(problem, file=source, remedy=remedy)


def _gutenberg(text: str, source: str) -> list[Heading]:
    """Parse and remove the header, the "small print" and the footer of a Project Gutenberg text.

    The texts are of the 1990s: their headers differ, so that title and author may be missing; none has
    the year of the book. A text with several headers is as many books. A warning tells where more than a
    tenth of it goes that is not Gutenberg's own.
    """
    headers = _headers(text)
    headings: list[Heading] = []
    unnamed = start = named = 0  # characters; where a book's header begins, and where its name may be
    for number, header in enumerate(headers, start=1):
        begin, is_last = header.end, number == len(headers)
        stop = len(text) if is_last else headers[number].start
        head = text[named : header.end if number > 1 else _NAMED][:_NAMED]
        for _ in range(_CREDITS):
            if credit := _PG_CREDIT.match(text, begin, stop):
                begin = credit.end()
        end, named = _footer(text, begin, stop, is_last=is_last)
        body = text[begin:end].strip("\x1a \n")
        if last := _PG_LAST.search(body, max(0, len(body) - _LAST)):
            body = body[: last.start()].rstrip()
        headings.append((*_title_and_author(head), None, f"{body}\n"))
        dropped = (text[start:begin], text[end:] if is_last else "")
        unnamed += sum(len(text) for gap in dropped for text in _PG_NAMES.split(gap) if len(text) > _UNNAMED)
        start = end
    n_kept = sum(len(body) for *_, body in headings)
    if n_kept < _SHARE * (n_kept + unnamed) and unnamed:
        raise _too_short(source, n_kept / (n_kept + unnamed))
    if unnamed > _SHARE * len(text):
        warnings.warn(
            f"{source}: {unnamed / len(text):.0%} of the file is left out as header or footer of Project "
            "Gutenberg, but may be text of the book; remove them from the file yourself to keep it",
            stacklevel=2,
        )
    return [heading for heading in headings if heading[3] != "\n"] or headings[:1]


def _headers(text: str) -> list[_Header]:
    """Return where headers are; the first at 0 and empty if there is text of a book before their marks."""
    headers: list[_Header] = []
    for mark in _marks(text):
        mark_type, last = mark[1][:3].upper(), headers[-1] if headers else None
        if (
            last
            and mark_type not in last.mark_types
            and mark.start() - last.end <= _APART
            and _footer(text, last.end, mark.start())[0] == mark.start()
        ):
            headers[-1] = last._replace(end=mark.end(), mark_types=last.mark_types | {mark_type})
        else:
            headers.append(_Header(mark.start(), mark.end(), frozenset({mark_type})))
    start = headers[0].start if headers else 0
    if not headers or start > _HEADER or _footer(text, 0, start)[0] < start:
        headers.insert(0, _Header(0, 0, frozenset()))
    return headers


def _marks(text: str) -> Iterator[re.Match[str]]:
    """Yield the matches of `_PG_START`; only lines that may match are tried in ASCII, whose case is plain."""
    if not text.isascii():
        yield from _PG_START.finditer(text)
        return
    lowered, lines, end = text.lower(), set[int](), 0
    for words in _PG_START_WORDS:
        offset = lowered.find(words)
        while offset >= 0 and (line_end := text.find("\n", offset)) >= 0:
            lines.add(text.rfind("\n", 0, offset) + 1)
            offset = lowered.find(words, line_end)
    for line in sorted(lines):
        if line >= end and (mark := _PG_START.match(text, line)):
            yield mark
            end = mark.end()


def _footer(text: str, begin: int, stop: int, *, is_last: bool = True) -> tuple[int, int]:
    """Return where a footer begins, and ends by its first words; `stop` twice if there is none.

    If the book is not the last, the next one's header may be there instead, which ends where it begins.
    """
    tail = max(begin, stop - _TAIL)
    line = text.find("\n", tail - 1) + 1 if tail else 0  # the first that begins there
    if (tail and not line) or "gutenberg" not in text[line:stop].lower():  # which takes less than a search
        return stop, stop
    for end in _PG_END.finditer(text[line:stop]):
        if not end["next"]:
            return line + end.end("before"), line + end.end()
        if not is_last:
            return line + end.end("before"), line + end.start("next")
    return stop, stop


def _title_and_author(head: str) -> tuple[str | None, str | None]:
    """Return title and author that a header gives."""
    title, author = (re.search(_PG_FIELD.format(n), head, re.MULTILINE) for n in ("Title", "Author"))
    named = _PG_TITLE.search(head)
    by = author[1] if author else named and named[2] and named[2].strip(" *")
    return title[1] if title else named and named[1].strip(" *"), by
