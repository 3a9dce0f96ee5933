"""Project Gutenberg's texts without header, credits, production notes and footer.

The rules were made on the 522 texts of sentence completion (1991 to 2003) and on today's headers. A paragraph
near the beginning or the end is a production note (who scanned a text, in which other forms it comes, what
was changed) by what no novel says of itself: addresses, software, volunteers.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from workbench.storage.errors import DataError

Heading = tuple[str | None, str | None, int | None, str]
"""Title, author, year, and the text without them."""

_HEAD, _TAIL, _LAST = 60_000, 30_000, 400  # characters in which the name is, a footer or last line begins
_HEADER, _APART = 20_000, 2000  # characters before the first mark of a header, and between two of them
_NAMED, _CREDITS = 5000, 5  # characters of a header in which its title is, lines
_UNNAMED, _SHARE = 2000, 0.1  # characters without a name of Gutenberg's that are text; their share of a file
_FRONT, _BACK = 6000, 4000  # characters at the beginning and at the end in which notes are looked for
_LINES, _LENGTH = 16, 1500  # of a note in one paragraph
_NOTES = 12  # paragraphs that are notes, at the beginning
_SHORT = 60  # characters of a line that is a name or an address

_PG = r"project\s+gutenberg"
_PG_WORK = (  # its name for a text, with what follows in headers and footers, but not in a sentence
    rf"(?:(?:the|this|a)\s{{1,2}})?{_PG}(?:\W{{0,3}}$|'s\s\W{{0,3}}(?-i:[A-Z0-9])"
    r"|(?:'?s)?\s(?:\[?wiretap\]?\s|[0-9]+th\s)?(?:e-?text|e-?book|edit(?:ion)?|text)s?\b"
    r"(?=\W{0,9}(?:$|of\b|from\b|\w+\.txt|(?-i:[A-Z0-9]))))"
)
_PG_START = re.compile(
    r"^[^\w\n]{0,20}(?:\* ?(?P<start>START) OF (?:THIS|THE) PROJECT|END[* ]?THE SMALL PRINT).*\n"
    # a long title goes on to the last line of the paragraph that closes with asterisks
    r"(?(start)(?:(?:[^\S\n]*\S.*\n){0,9}.*\*{3}[^\S\n]*\n)?|(?:ETEXTS\*?Ver.*\n)?)",
    re.MULTILINE,
)
_PG_START_WORDS = ("START OF TH", "THE SMALL PRINT")  # one is in the line of each match
_PG_END = re.compile(  # after `before`, where a line starts; marks before its first word are read once
    r"(?P<before>\A|(?<=\w)[^\w\n]*+\n)\W*+(?:this is )?(?:the )?end (?:(?:of|if)\s?)?(?:the\swiretap/)?"
    rf"{_PG_WORK}",
    re.IGNORECASE | re.MULTILINE,
)
_PG_LAST = re.compile(rf"^\W*(end\s+of\W+)?{_PG_WORK}", re.IGNORECASE | re.MULTILINE)
_PG_FIELD = r"^{}:[ \t]*(\S.*?)[ \t]*$"
_PG_TITLE = re.compile(
    rf"{_PG}(?:'s)?(?: e-?(?:text|book))?(?: edition)?,?(?: of)?:? (.+?)(?:,? by (.+?))?\W*$",
    re.IGNORECASE | re.MULTILINE,
)
_PG_NAMES = re.compile(r"gutenberg|e-?text|e-?book|electronic", re.IGNORECASE)

_MADE = r"(?:scanned|prepared|produced|typed|proof(?:-?read|ed)?|transcribed|created)"
_PG_CREDIT = re.compile(  # who made the file, in one line; not "The light produced by the lamp"
    rf"""\s*+(?=[^\n]{{0,120}}\n)(?:
    [^\w\n]{{0,9}}{_PG_WORK}
    |[^\w\n]{{0,9}}(?:the\ |this\ )?(?:{_PG}\ )?e-?texts?\b(?=\ (?:of\b|(?:is\ |was\ )?(?:\w+\ )?{_MADE}\b))
    |(?:[^\w\n]{{0,9}}(?:this\ book\ )?|pages\ [^\n]{{1,9}}?)(?:(?:{_MADE}|edited)(?:,|\ and)\ ){{0,3}}
     {_MADE}\ by(?::|\W{{1,3}}(?-i:[A-Z])|(?:\ (?-i:[a-z]+)){{1,2}}\W{{0,2}}$)
    |[^\n]{{1,60}}(?-i:\ Scanned|\bproof)\ by\ (?-i:[A-Z])
    )[^\n]*\n\s*+""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)

_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.\w|\b(?:https?|ftp)://|\bwww\.\w|\b1-\d{3}-\d{3}-\d{4}\b")
_WORK = re.compile(  # what makes a paragraph with an address a note
    r"\bscan|\bproof|\be-?text|\be-?book|\berrors?\b|\be-?mail\b|\bcontact\b|\bsee\b|\bcontributed\b",
    re.IGNORECASE,
)
_ETEXT = r"(?:e-?text|e-?book|electronic\ (?:edition|version|text))"
_STRONG = re.compile(  # alone enough for a note, in lower case
    rf"""\b(?:ocr(?:ed)?\b|[78]-bit\b|{_ETEXT}\ (?:\w+\ ){{0,2}}{_MADE}\b
        |(?:html|electronic)\ (?:version|edition)\ (?:by|was|is)
        |th(?:is|e)\ (?:file|e-?text|e-?book)\ was\ (?:\w+\ )?{_MADE}\b
        |this\ e-?text\b|proofed\ (?:by|against)\b|proof-?read(?:ing)?\ (?:by|team)\b
        |in\ the\ public\ domain\ in\b|claimed\ as\ copyright\b|(?:e-?text|pg)\ (?:edition|version|\#)
        |transcriber's?\ notes?\b|transcribed\ from\ (?:the|an?)\ .{{0,60}}edition)
    |this\ (?:file|e-?text|e-?book)\ should\ be\ named|editions\ of\ our\ e-?(?:texts|books)\ get
    |omnipage|wordscan|hewlett-packard|distributed\ proofread|gutenberg\ (?:also\ )?has\ (?:an?|other|the)\b
    |generously\ (?:made\ available|provided)\ by|internet\ archive\b|google\ (?:books|print)""",
    re.VERBOSE,
)
_CREDIT = re.compile(  # where the lines of a credit begin
    rf"""\W{{0,9}}(?:(?:(?:this|the)\ )?{_ETEXT}\ (?:was\ |is\ )?|(?=(?-i:[A-Z])))
        (?:{_MADE}(?:,|\ and)\ ){{0,3}}{_MADE}
        (?:\ by(?:\ |:|$)(?:(?-i:[A-Z\[(])|$|the\ (?-i:[A-Z]))|\ with\ (?-i:[A-Z])|\ from\ (?:images|scans))
    |\W{{0,9}}(?:scanner|ocr|proof(?:ed|ing))(?:\ by)?:\ ?\S
    |(?-i:.*(?:[ .]Scanned(?:\ and(?:\ proofed)?)?\s*$|Scanned\ and\ ))""",
    re.IGNORECASE | re.VERBOSE,
)
_PROSE = re.compile(
    r"\b(?:was|were|had|is|are|went|came|said|he|she|it|they|his|her|him|them|my)\b|[?!]|\.\W+\w+ [a-z]"
)
_NOTE_HEADING = re.compile(
    r"[\W_]*(?:transcriber|proofreader|e-?text|digiti[sz]er|preparer)'?s?'?[ ']{1,2}(?:end)?notes?\b",
    re.IGNORECASE,
)
_BRACKET = re.compile(r"[ \t]*[\[{](?=\W{0,3}(?:note\b|this\b|transcri|e-?text))", re.IGNORECASE)
_CHANGES = re.compile(
    r"spelling|punctuation|hyphen|italic|footnote|\berrors?\b|inconsisten|transcri|corrected|printed|e-?text"
    r"|original (?:text|book|edition|page)|e-?book|ascii|accent|illustration|underscore|changed (?:to|from)"
    r"|moved to|\bpage \d|\bcapital|\bversion\b",
    re.IGNORECASE,
)
_OPEN = re.compile(r"(?:[,&]|\b(?:and|by|of|the|with|from|for|to|at|in|online))[ \t]*$", re.IGNORECASE)


def is_gutenberg(text: str) -> bool:
    """Return whether a text names Project Gutenberg at its beginning, or has the marks of its headers."""
    return bool(re.search(_PG, text[:_HEAD], re.IGNORECASE) or _marks(text))


def _marks(text: str, begin: int = 0) -> list[re.Match[str]]:
    """Return the marks of headers after a place."""
    if not any(text.find(words, begin) >= 0 for words in _PG_START_WORDS):  # which takes less than a search
        return []
    return list(_PG_START.finditer(text, begin))


def without_boilerplate(text: str, source: str) -> Heading:
    """Return title, author and text of a book of Project Gutenberg (with LF at line ends).

    DataError, in which `source` is the file, if there are several books in it, or less than a tenth of the
    text is left. A warning tells where more than a tenth goes that is not Gutenberg's own.
    """
    text = text if text.endswith("\n") else f"{text}\n"
    begin = 0
    for mark in _marks(text[:_HEADER]):
        if begin and mark.start() - begin > _APART:
            break
        begin = mark.end()
    title, author = _title_and_author(text[:_NAMED])
    for _ in range(_CREDITS):
        if credit := _PG_CREDIT.match(text, begin):
            begin = credit.end()
    end = _footer(text, begin)
    _check_single(text, begin, end, source)
    body = text[begin:end].strip("\x1a \n")
    if last := _PG_LAST.search(body, max(0, len(body) - _LAST)):
        body = body[: last.start()].rstrip()
    _check_share(len(body), (text[:begin], text[end:]), source)
    if not _PG_CREDIT.match(body):  # more credits than `_CREDITS` are text
        start = end - len(text[begin:end].lstrip("\x1a \n"))
        before = text[:start].removesuffix("\n").rpartition("\n")[2]
        body = _without_front(_without_back(body), before).strip("\x1a \n")
    return title, author, None, f"{body}\n"


def _check_single(text: str, begin: int, end: int, source: str) -> None:
    """Raise DataError if a second header follows the first."""
    for mark in _marks(text, begin):
        is_licence = not mark["start"] and mark.start() >= end and len(text) - mark.end() < _UNNAMED
        if not is_licence:
            line = text.count("\n", 0, mark.start()) + 1
            problem = "expected one book, got a second header of Project Gutenberg"
            raise DataError(problem, file=source, line=line, hint="make a file of each book")


def _check_share(n_kept: int, dropped: Sequence[str], source: str) -> None:
    """Raise DataError if too little is left of a text, or warn if much goes that may be text."""
    gaps = (gap for text in dropped for gap in _PG_NAMES.split(text))
    n_unnamed = sum(len(gap) for gap in gaps if len(gap) > _UNNAMED)
    share = n_kept / max(1, n_kept + n_unnamed)
    if share < _SHARE:
        raise DataError(
            f"{share:.1%} of the text is left without what looks like header and footer of Project "
            f"Gutenberg, expected {_SHARE:.0%} or more",
            file=source,
            hint="remove both, and every line that names Project Gutenberg, or get the file again",
        )
    n_characters = n_kept + sum(map(len, dropped))
    if n_unnamed > _SHARE * n_characters:
        warnings.warn(
            f"{source}: {n_unnamed / n_characters:.0%} of the file is left out as header or footer of "
            "Project Gutenberg, but may be text of the book; remove them from the file yourself to keep it",
            stacklevel=2,
        )


def _footer(text: str, begin: int) -> int:
    """Return where the footer begins; the text's end if there is none."""
    start = max(begin, len(text) - _TAIL)
    line = text.find("\n", start - 1) + 1 if start else 0  # the first that begins there
    end = _PG_END.search(text[line:])
    return line + end.end("before") if end else len(text)


def _title_and_author(head: str) -> tuple[str | None, str | None]:
    """Return title and author that a header gives."""
    title, author = (re.search(_PG_FIELD.format(n), head, re.MULTILINE) for n in ("Title", "Author"))
    named = _PG_TITLE.search(head)
    by = author[1] if author else named and named[2] and named[2].strip(" *")
    return title[1] if title else named and named[1].strip(" *"), by


def _without_front(text: str, before: str) -> str:
    """Leave out the notes with which a text begins; `before` is the line of credits before it."""
    lines = text[:_TAIL].split("\n")
    removed: set[int] = set()
    n_characters = n_notes = note_end = 0
    n_changes: int | None = None
    for number, (start, end) in enumerate(_paragraphs(lines)):
        if start < note_end:
            removed |= set(range(start, end))
            continue
        goes_on = number == 0 and bool(_OPEN.search(before))
        note, note_end = _note(lines, start, end, n_changes=n_changes, goes_on=goes_on)
        n_changes = (1 if _NOTE_HEADING.match(lines[start]) else 2) if note else None
        removed |= set(note)
        n_notes += bool(note)
        n_characters += sum(map(len, lines[start:end]))
        if n_characters > _FRONT or n_notes >= _NOTES:
            break
    remaining = [line for number, line in enumerate(lines) if number not in removed]
    return "\n".join(remaining) + text[_TAIL:]


def _note(
    lines: Sequence[str], start: int, end: int, *, n_changes: int | None, goes_on: bool
) -> tuple[range, int]:
    """Return the lines of a paragraph that are a production note, and where the note ends that it begins."""
    paragraph = lines[start:end]
    joined = _joined(paragraph)
    if _BRACKET.match(paragraph[0]) and (_STRONG.search(joined.lower()) or _CHANGES.search(joined)):
        close = _closing(lines, start)
        return range(start, close), close
    if len(paragraph) > _LINES or len(joined) > _LENGTH:
        return range(0), 0
    if _NOTE_HEADING.match(paragraph[0]) or (
        n_changes is not None and len(set(map(str.lower, _CHANGES.findall(joined)))) >= n_changes
    ):
        return range(start, end), 0
    first = next((n for n in range(start, end) if _CREDIT.match(lines[n])), None)
    strong = [n for n in range(start, end) if _STRONG.search(lines[n].lower()) or _ADDRESS.search(lines[n])]
    if first is None and not goes_on:
        is_note = _STRONG.search(joined.lower()) or (
            _ADDRESS.search(joined)
            and (_WORK.search(joined) or " " not in joined or all(map(_is_short, paragraph)))
        )
        return (range(start, end) if is_note else range(0)), 0
    first = start if first is None or goes_on else first
    stop = max([first if goes_on else first + 1, *(n + 1 for n in strong)])
    while stop < end and (
        (goes_on and stop == start) or _OPEN.search(lines[stop - 1]) or lines[stop][:1].islower()
    ):
        stop += 1
    if not strong and _PROSE.search(_joined(lines[first:stop])) and not goes_on:
        return range(0), 0
    return range(first, stop), 0


def _is_short(line: str) -> bool:
    """Return whether a line is a name or an address, not a line of a paragraph."""
    return len(line.strip()) < _SHORT and not re.search(r"[a-z][.?!][\"']?$", line.strip())


def _closing(lines: Sequence[str], start: int) -> int:
    """Return the line after that in which a bracket closes; the paragraph's end if none does soon."""
    depth = 0
    for number in range(start, min(len(lines), start + 4 * _LINES)):
        depth += sum(map(lines[number].count, "[{")) - sum(map(lines[number].count, "]}"))
        if depth <= 0:
            return number + 1
    return next((n for n in range(start, len(lines)) if not lines[n].strip()), len(lines))


def _without_back(text: str) -> str:
    """Leave out the notes with which a text ends."""
    begin = text.rfind("\n", 0, max(0, len(text) - _TAIL)) + 1
    lines = text[begin:].split("\n")
    n_characters = 0
    for start, end in reversed(_paragraphs(lines)):
        joined = _joined(lines[start:end])
        n_characters += sum(map(len, lines[start:end]))
        if n_characters > _BACK or end - start > 4 * _LINES:
            break
        is_bracket = _BRACKET.match(joined) and _STRONG.search(joined.lower())
        if _NOTE_HEADING.match(joined) or is_bracket:
            del lines[start:]
        elif not _CHANGES.search(joined) and not _STRONG.search(joined.lower()):
            break
    return text[:begin] + "\n".join(lines)


def _paragraphs(lines: Sequence[str]) -> list[tuple[int, int]]:
    """Return where paragraphs begin and end, by numbers of lines."""
    paragraphs: list[tuple[int, int]] = []
    start = None
    for number, line in enumerate([*lines, ""]):
        if line.strip("\x1a \t\f\v"):
            start = number if start is None else start
        elif start is not None:
            paragraphs.append((start, number))
            start = None
    return paragraphs


def _joined(lines: Sequence[str]) -> str:
    return " ".join("\n".join(lines)[: 4 * _LENGTH].replace("\u2019", "'").split())
