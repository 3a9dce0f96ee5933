"""Books in EPUB and HTML as text: an EPUB's documents in the order of its spine, headings as in Markdown.

EPUB 2 and 3 (W3C, https://www.w3.org/TR/epub-33/): a zip file whose ``META-INF/container.xml`` names the
package document, which has the title, the author and the spine, the order of the XHTML documents.
"""

from __future__ import annotations

import html
import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from lxml import etree

from workbench.datasets import sources
from workbench.datasets.production_notes import NOTE_HEADING
from workbench.storage.errors import DataError, reading
from workbench.storage.tables import encoding_of_mark

_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_FONTS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}  # disguised, not encrypted
_DOCUMENTS = {"application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"}
_DRM = "remove the protection if you may, or pass another edition"
_DAMAGED = "get the file again, or convert the book to plain text"

_ENCODING = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_DECLARATION = re.compile(r"\A\s*<\?xml.*?\?>", re.DOTALL)
_ENTITY = re.compile(r"&(?:\w{1,40};|(?!#\w{1,10};))|<(?=[\s\d])")
_SPACE = re.compile(r"[ \t\r\n]+")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_USUAL = {  # which files are said to be in that are in UTF-8 or Windows-1252
    b"utf-8", b"utf8", b"us-ascii", b"ascii", b"iso-8859-1", b"latin-1", b"latin1", b"windows-1252",
    b"cp1252",
}  # fmt: skip
_LINE_END = "\ue000"  # of a line in <pre>, whose lines are kept
_LINK, _UNLINK, _LISTED, _NOTED = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
"""In blocks: where a link begins and ends, a block of a list, and the mark of a note."""
_MARKS = dict.fromkeys(map(ord, (_LINK, _UNLINK, _LISTED, _NOTED)))

_BLOCKS = {
    "address", "article", "aside", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt",
    "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hgroup", "hr", "html", "li", "main", "ol", "p", "pre", "section", "summary", "table", "tbody",
    "td", "tfoot", "th", "thead", "tr", "ul",
}  # fmt: skip
_HEADING = re.compile(r"h([1-6])")
_SKIPPED = {
    "audio", "button", "canvas", "head", "iframe", "img", "input", "link", "math", "meta", "nav",
    "noscript", "object", "rp", "rt", "script", "select", "style", "svg", "template", "textarea",
    "title", "video",
}  # fmt: skip
_PARTS = {  # of a book, by epub:type, that are no text of its author
    "bibliography", "colophon", "copyright-page", "cover", "footnote", "footnotes", "imprint", "index",
    "landmarks", "loi", "lot", "noteref", "other-credits", "page-list", "pagebreak", "rearnote",
    "rearnotes", "endnote", "endnotes", "title-page", "titlepage", "toc",
}  # fmt: skip
_GUIDE = {  # the same, by the guide of EPUB 2
    "bibliography", "colophon", "copyright-page", "cover", "index", "loi", "lot", "notes", "title-page",
    "toc",
}  # fmt: skip
_APPARATUS = {  # by class or id: Project Gutenberg's header and licence, contents, numbers of pages, notes
    "pg-boilerplate", "pg-header", "pg-footer", "pg-machine-header", "pgheader", "pgfooter",
    "contents", "toc", "pagenum", "pageno", "page-number", "pb", "lineno", "linenum",
    "loi", "tableofcontents", "table-of-contents", "titlepage", "title-page", "copyrightpage",
    "copyright-page", "covernote", "fnanchor", "footnote", "footnotes", "fnote", "noteref", "endnotes",
    "tn", "tnote", "tnotes", "tnbox", "transnote", "transnotes", "trans-note", "transcribers-note",
    "transcriber-note", "transcribersnote",
}  # fmt: skip
_LISTS, _BOXES = {"dl", "ol", "table", "ul"}, {"aside", "blockquote", "div", "section", "table"}
_LINKED = re.compile(f"{_LINK}([^{_UNLINK}]*){_UNLINK}?")
_CONTENTS = re.compile(r"\W*(?:(?:the )?(?:table of )?contents|(?:list of )?illustrations)\W*", re.IGNORECASE)
_NUMERAL = r"(?:chap(?:ter)?|part|book|page|[ivxlc]{1,7})"
_NUMERALS = re.compile(rf"\b{_NUMERAL}\b", re.IGNORECASE)
_NUMBER = re.compile(rf"[\W\d_]*(?:{_NUMERAL}\b[\W\d_]*)*", re.IGNORECASE)
_ENTRY = re.compile(r"\b(?:(?:CHAPTER|Chapter|BOOK|Book|PART|Part) [\dIVXLC]+\.?|[IVXLC]{1,7}\.|\d{1,3}\.) ")
_NOTE_MARK = re.compile(r"\s*(?:\[\s*(?:\d{1,4}|[A-Za-z])\s*\]|[*\u2020\u2021])\s*")  # a link to a note
_NOTE_BLOCK = re.compile(rf"[\s{_LISTED}{_LINK}{_UNLINK}]*{_NOTED}")
_RUN = 3  # links in blocks one after another that are contents without a heading
_ENTRY_LENGTH, _NOTE_LENGTH = 120, 8000  # characters of an entry of contents, of a note in a box
_LONGEST_MARK = 6  # characters of a superscript that is the mark of a note
_NAMES = re.compile(
    r"(?:cover(?:-?page)?|title-?page|(?:un)?copyright(?:-?page)?|colophon|imprint|(?:table-?of-?)?contents"
    r"|toc|nav)\d*",
    re.IGNORECASE,
)
_TYPE = "{http://www.idpf.org/2007/ops}type"
_EVENT, _ROLE = "{http://www.idpf.org/2007/opf}event", "{http://www.idpf.org/2007/opf}role"
_LOST = {  # errors after which the rest of a document is not read
    etree.ErrorTypes.ERR_DOCUMENT_END,
    etree.ErrorTypes.ERR_RESOURCE_LIMIT,
    etree.ErrorTypes.ERR_DOCUMENT_EMPTY,
}


class Epub(NamedTuple):
    """What an EPUB holds: title, author, year of the first publication where they are named, and the text."""

    title: str | None
    author: str | None
    year: int | None
    text: str


class _Entry(NamedTuple):
    """An entry of the package's list of files."""

    path: str
    media_type: str
    properties: list[str]
    fallback: str | None


def read_epub(content: bytes, name: str) -> Epub:
    """Return title, author and text of an EPUB; `name` is what messages call it.

    Paragraphs are separated by blank lines and headings marked as in Markdown (``## Chapter I``). Covers,
    title pages, tables of contents, notes, and pages of copyright or licence are left out, by what the file
    calls them (``epub:type``, the guide, file names). DataError if it is not an EPUB, damaged or
    encrypted; it says which.
    """
    with (
        reading(name, "this EPUB is damaged or incomplete and", remedy=_DAMAGED),
        zipfile.ZipFile(io.BytesIO(content)) as packed,
    ):
        return _Package(packed, name).read()


class _Package:
    """An open EPUB."""

    def __init__(self, packed: zipfile.ZipFile, name: str) -> None:
        self._packed, self._name = packed, name
        self._members = {entry.filename: entry for entry in packed.infolist()}

    def read(self) -> Epub:
        if self._is_encrypted():
            problem = "expected an EPUB without protection, got an encrypted one (DRM)"
            raise DataError(problem, file=self._name, remedy=_DRM)
        containers = self._parsed(_CONTAINER).iter("{*}rootfile")
        paths = [path for path in (entry.get("full-path") for entry in containers) if path]
        if not paths:
            raise self._error(f"{_CONTAINER} names no package document")
        package = self._parsed(_inside(paths[0], "", self._error))
        documents = map(self._parsed, self._spine(package, paths[0]))
        text = "\n\n".join(filter(None, (_text(next(root.iter("{*}body"), root)) for root in documents)))
        authors = [e for e in package.iter("{*}creator") if e.get(_ROLE, "aut") == "aut"]
        dates = [e for e in package.iter("{*}date") if e.get(_EVENT) == "original-publication"]
        year = re.search(r"[0-9]{4}", _plain(dates[0])) if dates else None
        return Epub(
            next(filter(None, map(_plain, package.iter("{*}title"))), None),
            " and ".join(filter(None, map(_plain, authors))) or None,
            int(year[0]) if year else None,
            f"{text}\n" if text else "",
        )

    def _error(self, problem: str) -> DataError:
        return DataError(problem, file=self._name, remedy=_DAMAGED)

    def _is_encrypted(self) -> bool:
        methods = []
        if _ENCRYPTION in self._members:
            methods = [e.get("Algorithm") for e in self._parsed(_ENCRYPTION).iter("{*}EncryptionMethod")]
        is_locked = any(entry.flag_bits & 1 for entry in self._members.values())
        return bool(is_locked or {method for method in methods if method} - _FONTS)

    def _bytes(self, path: str) -> bytes:
        if (entry := self._members.get(path)) is None:
            raise self._error(f"it has no file {path!r}, which it names")
        return self._packed.read(entry)

    def _parsed(self, path: str) -> Any:
        """Parse a document of XML; nothing outside it is read, and no entity of its own is expanded."""
        parser = etree.XMLParser(
            encoding="utf-8",
            recover=True,
            resolve_entities=False,
            load_dtd=False,
            no_network=True,
            remove_comments=True,
            remove_pis=True,
        )
        content, name = self._bytes(path), f"{self._name}/{path}"
        with reading(name, "this document of an EPUB", remedy=_DAMAGED):
            root = etree.fromstring(_decoded(content, name), parser)
        lost = _lost(parser)
        if root is None or lost:
            raise self._error(f"{path!r} in it cannot be read to its end{lost}")
        return root

    def _spine(self, package: Any, path: str) -> Iterator[str]:
        """Yield the paths of the documents in the order in which they are read, each once."""
        folder = posixpath.dirname(path)
        entries = {
            entry.get("id"): _Entry(
                _inside(entry.get("href", ""), folder, self._error),
                entry.get("media-type", ""),
                entry.get("properties", "").split(),
                entry.get("fallback"),
            )
            for entry in package.iterfind("{*}manifest/{*}item")
            if "://" not in entry.get("href", "")
        }
        front = {
            _inside(reference.get("href", ""), folder, self._error)
            for reference in package.iterfind("{*}guide/{*}reference")
            if reference.get("type", "").lower() in _GUIDE
        } | {entry.path for entry in entries.values() if "nav" in entry.properties}
        spine = list(package.iterfind("{*}spine/{*}itemref"))
        spine = [e for e in spine if e.get("linear") != "no"] or spine  # where all are "no", readers show all
        if not spine:
            raise self._error("it has no spine, the order of its documents")
        seen: set[str] = set()
        for reference in spine:
            path = self._document_of(entries, reference.get("idref"))
            stem = posixpath.splitext(posixpath.basename(path))[0]
            if path and path not in seen | front and not _NAMES.fullmatch(stem):
                seen.add(path)
                yield path

    def _document_of(self, entries: dict[str, _Entry], name: str | None) -> str:
        """Return the path of an entry, or of the first text to fall back on; "" for a picture without one."""
        visited: set[str | None] = set()
        if name not in entries:
            raise self._error(f"its spine names {name!r}, which is not in its list of files")
        while name in entries and name not in visited:
            visited.add(name)
            entry = entries[name]
            if entry.media_type in _DOCUMENTS:
                return entry.path
            name = entry.fallback
        return ""


def read_html(content: bytes, name: str) -> Epub:
    """Return title, author and text of a book that is one HTML file; as :func:`read_epub`."""
    declared = _CHARSET.search(content[:5000])
    data = _decoded(content, name, declared[1] if declared else None)
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    with reading(name, "this HTML file", remedy=_DAMAGED):
        root = etree.fromstring(data, parser)
        lost = _lost(parser, etree.ErrorTypes.ERR_RESOURCE_LIMIT)
        if root is None or lost:
            raise DataError(f"it cannot be read to its end{lost}", file=name, remedy=_DAMAGED)
        meta: dict[str, list[str]] = {}
        for entry in root.iter("meta"):
            name = entry.get("name", "").lower().removeprefix("dcterms.").removeprefix("dc.")
            if value := _SPACE.sub(" ", entry.get("content", "")).strip():
                meta.setdefault(name, []).append(value)
        title = next(iter(meta.get("title", filter(None, map(_plain, root.iter("title"))))), None)
        authors = dict.fromkeys(map(_person, meta.get("creator", meta.get("author", []))))
        body = next(root.iter("body"), root)
        text = _text(body)
    return Epub(title, " and ".join(authors) or None, None, f"{text}\n" if text else "")


def _lost(parser: Any, *categories: int) -> str:
    """Return why the rest of a document was not read, as the end of a message; "" if all of it was."""
    errors = (error for error in parser.error_log if error.type in (categories or _LOST))
    return next((f": {error.message.strip()} (line {error.line})" for error in errors), "")


def _person(name: str) -> str:
    """Return a name as it is read, of "Inchcape, Jane, 1860-1930" as libraries have it."""
    inverted = re.fullmatch(r"([^,]+), ([^,]+), [^,]*\d{3,4}[^,]*", name)
    return f"{inverted[2]} {inverted[1]}" if inverted else name


def _text(body: Any) -> str:
    """Return the text of the body of a document."""
    if _types(body) & _PARTS:
        return ""
    blocks: list[list[str]] = [[""]]
    _collect(body, blocks, "")
    lines = ((mark, _SPACE.sub(" ", "".join(pieces))) for mark, *pieces in blocks)
    filled = [
        (mark, line)
        for mark, line in lines
        if line.translate(_MARKS).strip(f" {_LINE_END}") and (mark or not _NOTE_BLOCK.match(line))
    ]
    plain = (f"{mark}{line.translate(_MARKS).strip(f' {_LINE_END}')}" for mark, line in _narrated(filled))
    return "\n\n".join(plain).replace(_LINE_END, "\n")


def _narrated(blocks: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the blocks that are no contents: links and numbers after such a heading, or several links."""
    start = 0
    while start < len(blocks):
        is_titled = bool(_CONTENTS.fullmatch(blocks[start][1].translate(_MARKS)))
        end, n_links = start + is_titled, 0
        while end < len(blocks) and (entry := _entry(*blocks[end], is_titled=is_titled)):
            n_links += entry == "link"
            end += 1
        run_end = max(end, start + 1)
        while end > start + is_titled and _entry(*blocks[end - 1], is_titled=False) == "number":
            end -= 1  # which may be that of a chapter
        if end <= start + is_titled or not (is_titled or n_links >= _RUN):
            end = run_end  # all of it, so that no block is looked at for each before it
            yield from blocks[start:end]
        start = end


def _entry(mark: str, block: str, *, is_titled: bool) -> str:
    """Return what a block is in contents: "link", "number", "entry" (where they have a title), or ""."""
    if mark:
        return ""
    text = block.translate(_MARKS).strip()
    links = sum(sum(map(str.isalnum, link)) for link in _LINKED.findall(block))
    if links and links > sum(map(str.isalpha, _NUMERALS.sub("", _LINKED.sub(" ", block)))):
        return "link"
    if _NUMBER.fullmatch(text):
        return "entry" if _LISTED in block else "number"
    if not is_titled:
        return ""
    n_entries = len(_ENTRY.findall(text)) if _ENTRY.match(text) else 0
    return "entry" if _LISTED in block or n_entries * _ENTRY_LENGTH > len(text) else ""


def _collect(element: Any, blocks: list[list[str]], listed: str) -> None:
    """Add the text of an element to the last block; an element that is a block itself begins a new one.

    The first string of a block is its mark, the second says whether it is in a list or table. A heading is
    one block, whatever it holds. The parser bounds the depth of a document.
    """
    mark = blocks[-1][0]
    blocks[-1].append(element.text or "")
    for child in element:
        tag = etree.QName(child).localname.lower() if isinstance(child.tag, str) else ""
        is_block = tag in _BLOCKS and not mark
        if is_block:
            heading = _HEADING.fullmatch(tag)
            inside = _LISTED if tag in _LISTS else listed
            blocks.append([f"{'#' * int(heading[1])} " if heading else "", inside])
        elif tag == "br" or tag in _BLOCKS:
            blocks[-1].append(" ")
        if tag == "pre":
            _keep_lines(child)
        if tag and tag not in _SKIPPED and not _is_apparatus(child) and not _is_note(tag, child):
            is_link = tag == "a" and _is_internal(child.get("href", ""))
            if is_link and not mark and _is_note_mark(child):
                blocks[-1].append(_NOTED)
            else:
                blocks[-1].append(_LINK if is_link else "")
                _collect(child, blocks, _LISTED if tag in _LISTS else listed)
                blocks[-1].append(_UNLINK if is_link else "")
        if is_block:
            blocks.append([mark, listed])
        elif tag in _BLOCKS:
            blocks[-1].append(" ")
        blocks[-1].append(child.tail or "")


def _keep_lines(element: Any) -> None:
    """Mark the ends of lines in an element."""
    for child in element.iter():
        child.text = child.text and child.text.replace("\n", _LINE_END)
        if child is not element:
            child.tail = child.tail and child.tail.replace("\n", _LINE_END)


def _is_apparatus(element: Any) -> bool:
    """Return whether an element is a note, a page number, a title page or the like."""
    identity = {name.lower() for name in (element.get("id", ""), *element.get("class", "").split())}
    return bool(_types(element) & _PARTS or identity & _APPARATUS)


def _is_note(tag: str, element: Any) -> bool:
    """Return whether an element is a box with a note of who made the file, not a part of the book."""
    if tag not in _BOXES:
        return False
    texts = filter(str.strip, element.itertext())
    start = " ".join(" ".join(islice(texts, 3)).replace("\u2019", "'").split())
    return bool(NOTE_HEADING.match(start)) and sum(map(len, islice(texts, _NOTE_LENGTH))) < _NOTE_LENGTH


def _is_note_mark(link: Any) -> bool:
    """Return whether a link is the mark of a note: a superscript, or a number in brackets."""
    text = "".join(islice(link.itertext(), _RUN))
    tags = [link.getparent().tag, *(child.tag for child in islice(link, _RUN))]
    is_raised = any(isinstance(tag, str) and etree.QName(tag).localname.lower() == "sup" for tag in tags)
    return (is_raised and len(text) < _LONGEST_MARK) or bool(_NOTE_MARK.fullmatch(text))


def _is_internal(href: str) -> bool:
    """Return whether a reference leads to a place in the book, not to a picture."""
    return bool(href) and "://" not in href and not href.lower().endswith((".jpg", ".jpeg", ".png", ".gif"))


def _types(element: Any) -> set[str]:
    roles = element.get("role", "").lower().split()
    types = element.get(_TYPE, element.get("epub:type", "")).lower().split()
    return {*types, *(role.removeprefix("doc-") for role in roles if role.startswith("doc-"))}


def _plain(element: Any) -> str:
    return _SPACE.sub(" ", "".join(element.itertext())).strip()


def _inside(href: str, folder: str, error: Any) -> str:
    """Return the path in the archive of a reference in a file of a folder; an error if it leads out."""
    path = posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))
    if path.startswith(("/", "../")) or path == "..":
        raise error(f"the name {href!r} in it leads out of it")
    return path


def _decoded(data: bytes, name: str, charset: bytes | None = None) -> bytes:
    """Return a document in UTF-8 without its declaration, with characters for the entities of HTML."""
    declared = _ENCODING.match(data)
    encoding = (declared[1] if declared else charset or b"utf-8").lower()
    if encoding_of_mark(data) or encoding in _USUAL:
        text = sources.decode(data, name)
    else:
        with reading(name, "this document", remedy=_DAMAGED):
            text = data.decode(encoding.decode(), "replace")
    return _ENTITY.sub(
        lambda match: "".join(f"&#{ord(character)};" for character in html.unescape(match[0])),
        _DECLARATION.sub("", text, count=1),
    ).encode("utf-8", "replace")
