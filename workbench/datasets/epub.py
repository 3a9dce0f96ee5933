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
from typing import Any, NamedTuple
from urllib.parse import unquote

from lxml import etree

from workbench.datasets import sources
from workbench.storage import files
from workbench.storage.errors import DataError, reading

_TREE = 16  # times its size that a parsed document may take in memory
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
_FONTS = {"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"}  # disguised, not encrypted
_DOCUMENTS = {"application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document"}
_UNPACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_DRM = "remove the protection if you may, or pass another edition"
_DAMAGED = "get the file again, or convert the book to plain text"

_ENCODING = re.compile(rb"""^\s*<\?xml[^>]{0,200}?encoding\s*=\s*["']([\w.:-]{1,40})["']""")
_DECLARATION = re.compile(r"\A\s*<\?xml.*?\?>", re.DOTALL)
_ENTITY = re.compile(r"&(?:\w{1,40};|(?!#\w{1,10};))|<(?=[\s\d])")
_SPACE = re.compile(r"[ \t\r\n]+")
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)
_LINE_END = "\ue000"  # of a line in <pre>, whose lines are kept

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
    "covernote", "fnanchor", "footnote", "footnotes", "fnote", "noteref", "endnotes",
    "tn", "tnote", "tnbox", "transnote", "transcribers-note", "transcriber-note", "transcribersnote",
}  # fmt: skip
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
    """Return title, author and text of an EPUB.

    Paragraphs are separated by blank lines and headings marked as in Markdown (``## Chapter I``). Covers,
    title pages, tables of contents, notes, and pages of copyright or licence are left out, by what the file
    calls them (``epub:type``, the guide, file names).

    Parameters
    ----------
    content : bytes
        The file.
    name : str
        What to call it in messages.

    Raises
    ------
    DataError
        If it is no EPUB, damaged, encrypted, or too large; it says which.
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
        self._left = files.MAX_IN_MEMORY // _TREE
        self._members = {entry.filename: entry for entry in packed.infolist()}

    def read(self) -> Epub:
        self._check_encryption()
        containers = self._parsed(_CONTAINER).iter("{*}rootfile")
        paths = [path for path in (entry.get("full-path") for entry in containers) if path]
        if not paths:
            raise self._error(f"{_CONTAINER} names no package document")
        package = self._parsed(_inside(paths[0], "", self._error))
        text = "\n\n".join(filter(None, (self._document(path) for path in self._spine(package, paths[0]))))
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

    def _check_encryption(self) -> None:
        methods = []
        if _ENCRYPTION in self._members:
            methods = [e.get("Algorithm") for e in self._parsed(_ENCRYPTION).iter("{*}EncryptionMethod")]
        is_locked = any(entry.flag_bits & 1 for entry in self._members.values())
        if is_locked or {method for method in methods if method} - _FONTS:
            problem = "expected an EPUB without protection, got an encrypted one (DRM)"
            raise DataError(problem, file=self._name, remedy=_DRM)

    def _bytes(self, path: str) -> bytes:
        if (entry := self._members.get(path)) is None:
            raise self._error(f"it has no file {path!r}, which it names")
        if entry.compress_type not in _UNPACKED:
            raise self._error(f"{path!r} in it is compressed by method {entry.compress_type}, not deflate")
        self._left -= entry.file_size
        if self._left < 0:
            raise files.too_large(self._name, files.MAX_IN_MEMORY // _TREE)
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
        lost = [error for error in parser.error_log if error.type in _LOST]
        if root is None or lost:
            reason = f": {lost[0].message} (line {lost[0].line})" if lost else ""
            raise self._error(f"{path!r} in it cannot be read to its end{reason}")
        return root

    def _spine(self, package: Any, place: str) -> Iterator[str]:
        """Yield the paths of the documents in the order in which they are read, each once."""
        folder = posixpath.dirname(place)
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
        spine = [e for e in package.iterfind("{*}spine/{*}itemref") if e.get("linear") != "no"]
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

    def _document(self, path: str) -> str:
        """Return the text of a document."""
        root = self._parsed(path)
        return _text(next(root.iter("{*}body"), root))


def read_html(content: bytes, name: str) -> Epub:
    """Return title, author and text of a book that is one HTML file; as :func:`read_epub`.

    Raises
    ------
    DataError
        If it is no text, or too large.
    """
    if len(content) > (limit := files.MAX_IN_MEMORY // _TREE):
        raise files.too_large(name, limit)
    declared = _CHARSET.search(content[:5000])
    data = _decoded(content, name, declared[1] if declared else None)
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, remove_comments=True, remove_pis=True)
    with reading(name, "this HTML file", remedy=_DAMAGED):
        root = etree.fromstring(data, parser)
        if root is None:
            raise DataError("there is no text in it", file=name, remedy=_DAMAGED)
        meta = {
            entry.get("name", "").lower().removeprefix("dcterms.").removeprefix("dc."): entry.get("content")
            for entry in root.iter("meta")
        }
        title = meta.get("title") or next(filter(None, map(_plain, root.iter("title"))), None)
        body = next(root.iter("body"), root)
        text = _text(body)
    return Epub(title, meta.get("creator"), None, f"{text}\n" if text else "")


def _text(body: Any) -> str:
    """Return the text of the body of a document."""
    if _types(body) & _PARTS:
        return ""
    blocks: list[list[str]] = [[""]]
    _collect(body, blocks)
    lines = ((mark, _SPACE.sub(" ", "".join(parts)).strip(f" {_LINE_END}")) for mark, *parts in blocks)
    return "\n\n".join(f"{mark}{line}" for mark, line in lines if line).replace(_LINE_END, "\n")


def _collect(element: Any, blocks: list[list[str]]) -> None:
    """Add the text of an element to the last block; an element that is a block itself begins a new one.

    The first string of a block is its mark. A heading is one block, whatever it holds. The parser bounds the
    depth of a document.
    """
    mark = blocks[-1][0]
    blocks[-1].append(element.text or "")
    for child in element:
        tag = etree.QName(child).localname.lower() if isinstance(child.tag, str) else ""
        is_block = tag in _BLOCKS and not mark
        if is_block:
            heading = _HEADING.fullmatch(tag)
            blocks.append([f"{'#' * int(heading[1])} " if heading else ""])
        elif tag == "br" or tag in _BLOCKS:
            blocks[-1].append(" ")
        if tag == "pre":
            _keep_lines(child)
        if tag and tag not in _SKIPPED and not _is_apparatus(child):
            _collect(child, blocks)
        if is_block:
            blocks.append([mark])
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


def _types(element: Any) -> set[str]:
    return set(element.get(_TYPE, element.get("epub:type", "")).lower().split())


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
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16")
    elif encoding not in {b"utf-8", b"utf8", b"us-ascii", b"ascii"}:
        with reading(name, "this document", remedy=_DAMAGED):
            text = data.decode(encoding.decode(), "replace")
    else:
        text = sources.decode(data, name)
    return _ENTITY.sub(_character, _DECLARATION.sub("", text, count=1)).encode("utf-8", "replace")


def _character(match: re.Match[str]) -> str:
    """Return an entity of HTML, or a sign that should be one, as references to its characters."""
    return "".join(f"&#{ord(character)};" for character in html.unescape(match[0]))
