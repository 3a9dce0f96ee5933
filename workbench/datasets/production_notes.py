"""Production notes of digital editions: who scanned a text, in which other forms it comes, what was changed.

The phrases are those of Project Gutenberg's files from 1991 on, collected from the 522 texts of sentence
completion and from later headers and licences. Only paragraphs near the beginning and the end are looked at,
and a paragraph is a note by what no novel says of itself: addresses, software, volunteers, licence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FRONT, _BACK = 6000, 4000  # characters at the beginning and at the end in which notes are looked for
_LICENCE = 30_000  # characters of a header or licence without marks
_LINES, _LENGTH = 16, 1500  # of a note in one paragraph
_NOTES = 12  # paragraphs that are notes, at the beginning

LICENCE = re.compile(  # what only the licence and the information around it say; quick, as in lower case
    r"""copyright\ laws\ are\ changing\ all\ over|this\ header\ should\ be\ the\ first\ thing
    |(?:at|important\ information\ in)\ (?:the\ (?:bottom|top)\ of\ )?this\ (?:file|header)\.
    |"?legal\ small\ print|the\ small\ print!|"small\ print!?"|encourage\ you\ to\ keep\ this\ file
    |world\ of\ free\ plain\ vanilla|readable\ by\ both\ humans
    |these\ e-?(?:books|texts)\ (?:were\ )?prepared\ by
    |information\ on\ contacting\ project\ gutenberg|information\ about\ project\ gutenberg
    |we\ need\ your\ donations|this\ (?:file|e-?text|e-?book)\ should\ be\ named
    |corrected\ editions\ of\ our|based\ on\ separate\ sources\ get
    |e-?(?:texts|books)\ are\ (?:usually|often)\ created\ from
    |trying\ to\ release\ all\ our|to\ be\ sure\ you\ have\ an\ up\ to\ date
    |neither\ this\ list(?:ing)?\ nor\ its\ contents|million\ dollars\ for\ each\ hour\ we\ work
    |start\ at\ our\ web\ ?sites?\ at|download\ our\ e-?books\ before
    |can\ (?:get\ up\ to\ date|now\ get)\ .{0,30}gut
    |goal\ of\ project\ gutenberg\ is|briefest\ record\ of\ our\ progress
    |(?:project\ )?gutenberg\ literary\ archive\ foundation|gutenberg\ association
    |gutenberg(?:-tm|\u2122|\ (?:tm|licen[cs]e|is\ a\ (?:registered\ )?trade-?mark))
    |(?:e-?text|e-?book|readers?)\ is\ (?:for\ the\ use\ of\ anyone|otherwise\ provided)
    |(?:this|header|trailer)\ .{0,30}may\ be\ reprinted\ only\ when|some\ states\ do\ not\ allow\ disclaimers
    |(?:public\ domain|copyrighted)\ e-?(?:texts|books)\b|statement\ here\?\ you\ know:\ lawyers
    |if\ you\ discover\ a\ defect\ in\ this|start:\ full\ licen[cs]e|e-?texts,\ the\ project\ expends
    |by\ using\ or\ reading\ any\ part\ of\ this|etext\d\d/|gutindex|what\ if\ you\ \*want\*\ to\ send
    |(?:posting|release|last\ updated?)(?:\ date)?:\ .{0,40}\[e-?(?:book|text)\ \#|\[e-?(?:book|text)\ \#\d
    |\[yes,\ we\ are\ .{0,30}ahead\ of\ schedule|this\ file\ was\ (?:first|last)\ (?:posted|updated)""",
    re.VERBOSE,
)
_FIELD = re.compile(
    r"(?:title|author|editor|translator|illustrator|release date|posting date|last updated|edition|language"
    r"|character set encoding|credits|most recently updated|original publication|date)(?: \w+)?: \S"
    r"|\W*\*{2}|\(?#\d+ in our series"
    r"|\W{0,9}(?:the |this )?project gutenberg.{0,9}\b(?:e-?text|e-?book|edition) of\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}\.\w|\b(?:https?|ftp)://|\bwww\.\w|\b1-\d{3}-\d{3}-\d{4}\b")
_ETEXT = r"(?:e-?text|e-?book|electronic\ (?:edition|version|text)|digital\ (?:edition|text)|html)"
_MADE = r"(?:scanned|prepared|produced|typed|proof(?:-?read|ed)?|transcribed|digiti[sz]ed|created|converted)"
_STRONG = re.compile(  # alone enough for a note, in lower case
    rf"""\b(?:ocr(?:ed)?\b|plain\ ascii\b|[78]-bit\b|{_ETEXT}\ (?:\w+\ ){{0,2}}(?:{_MADE}|made)\b
        |(?:html|epub|pdf|electronic)\ (?:version|edition)\ (?:of\ this|by|was|is|prepared|produced)
        |(?:images|scans)\ (?:\w+\ ){{0,2}}(?:generously|courtesy)|images\ of\ the\ original\ pages
        |th(?:is|e)\ (?:file|e-?text|e-?book)\ was\ (?:\w+\ )?{_MADE}\b
        |this\ (?:text|document)\ was\ (?:scanned|proofed|digiti[sz]ed)|this\ e-?text\b
        |scanned\ and\ (?:proofed|edited)\b|proofed\ (?:by|against)\b|proof-?read(?:ing)?\ (?:by|team)\b
        |in\ the\ public\ domain\ in\b|claimed\ as\ copyright\b|e-?text\ (?:edition|version|\#)
        |pg\ (?:e-?text|edition)|transcriber's?\ notes?\b|transcribed\ from\ (?:the|an?)\ .{{0,60}}edition)
    |omnipage|wordscan|hewlett-packard|distributed\ proofread|gutenberg\ (?:also\ )?has\ (?:an?|other|the)\b
    |generously\ (?:made\ available|provided)\ by|internet\ archive\b|google\ (?:books|print)""",
    re.VERBOSE,
)
_WORK = re.compile(  # what makes a paragraph with an address a note
    r"\bscan|\bproof|\betext|\be-text|\be-?book|\berrors?\b|\bmistakes?\b|transcri|\bprepared\b|\bproduced\b|\bdonated\b"
    r"|\be-?mail\b|\bcontact\b|\bversion|\bfile\b|\bimages?\b|\bhtml\b|\bsee\b|\btyped\b|\bcontributed\b|\bavailable\b",
    re.IGNORECASE,
)
_THANKS = re.compile(
    r"""\W*(?:(?:many|special|with|our|grateful)\ )*(?:thanks\b|(?:I|we)\ (?:\w+\ ){0,3}thank\b
        |(?:I|we)\ (?:are|am)\ (?:\w+\ )?(?:grateful|indebted)\b
        |(?:the\ )?(?:transcriber|producer|proof-?reader)s?\b.{0,80}\bthank)
    .{0,400}?\b(?:proof-?(?:read|ing)|scann(?:ed|ing)\b|transcri|digiti[sz]|e-?texts?\b|OCR\b)""",
    re.IGNORECASE | re.VERBOSE,
)
_CREDIT = re.compile(  # where the lines of a credit begin
    rf"""\W{{0,9}}(?:(?:(?:this|the)\ )?{_ETEXT}\ (?:edition\ |was\ |is\ )*|(?=(?-i:[A-Z])))
        (?:{_MADE}(?:,|\ and|,?\ &)\ ){{0,3}}{_MADE}
        (?:\ by(?:\ |:|$)(?:(?-i:[A-Z\[(])|$|the\ (?-i:[A-Z])|an?\ (?:volunteer|friend))
            |\ with\ (?-i:[A-Z])|\ from\ (?:images|scans|page|an?\ (?:scan|photo|image)))
    |\W{{0,9}}(?:scanner|ocr|spell-?check|scann(?:ed|ing)|proof(?:ed|ing)|e-?text)(?:\ by)?:\ ?\S""",
    re.IGNORECASE | re.VERBOSE,
)
_PROSE = re.compile(
    r"\b(?:was|were|had|is|are|went|came|said|he|she|it|they|his|her|him|them|my)\b|[?!]|\.\W+\w+ [a-z]"
)
NOTE_HEADING = re.compile(
    r"[\W_]*(?:transcriber'?s?'?s?|proofreader'?s?'?|e-?text|digiti[sz]er'?s?|preparer'?s?)"
    r"[ ']{1,2}(?:end)?notes?\b"
    r"|[\W_]*notes? (?:on|about|to) (?:this|the) (?:e-?text|e-?book|electronic)",
    re.IGNORECASE,
)
_BRACKET = re.compile(
    r"[ \t]*[\[{](?=\W{0,3}(?:note\b|this\b|transcri|e-?text|etext|redactor))",
    re.IGNORECASE,
)
_CHANGES = re.compile(
    r"spelling|misspel|punctuation|hyphen|typograph|italic|footnote|typo\b|\berrors?\b|inconsisten|transcri|scann"
    r"|corrected|misprint|printed|original (?:text|book|edition|page)|e-?text|e-?book|ascii|html|accent"
    r"|illustration|underscore|proofread|changed (?:to|from)|moved to|table of contents|greek|\bversion\b"
    r"|\bpage \d|\bcapital",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"(?:[,&]|\b(?:and|by|of|the|with|from|for|to|at|in|online|distributed|project))[ \t]*$", re.IGNORECASE
)
_INLINE = re.compile(
    r"[ .]{1,2}Scanned(?: and(?: proofed)?)?\s*$|\s(?:Scanned|Proofed)(?: and proofed)? by [A-Z]|Scanned and "
)
_SMALL_PRINT = re.compile(r"\*\W*START\W{1,4}THE SMALL PRINT|START: FULL LICEN[CS]E", re.IGNORECASE)
_NAMED = re.compile(r"this (?:file|e-?text|e-?book) should be named", re.IGNORECASE)
_ABOUT = re.compile(  # the information before the licence, from its end to its first line
    LICENCE.pattern.replace("\\ ", "[ ]") + r"|gutenberg|\be-?(?:text|book)s?\b|donat"
    r"|\bhttp|\bftp\b|@|\.zip\b|\btax|50[ ]states|three[ ]pages|\bhart\b"
    r"|p\.[ ]?o\.[ ]box|wire[ ]transfer|responded|requirements[ ]for[ ]other[ ]states|in[ ]progress|\bemail\b"
    r"|solicit|various[ ]questions|\d{4}[ ]+(?:january|july|november|december|october)|^[\W\d]*$|salt[ ]lake",
    re.IGNORECASE | re.VERBOSE,
)
_FIELDS = 6  # lines of a paragraph of a header
_SHORT = 60  # characters of a line that is a name or an address


def without_notes(text: str, *, before: str = "") -> str:
    r"""Return a text (with LF at line ends) without licence and production notes at its beginning and end.

    `before` is the line of credits before the text, which may go on in its first lines.

    Examples
    --------
    >>> note = "This file was produced from images generously made available by\nThe Internet Archive"
    >>> without_notes(f"{note}\n\nTHE WEIR\n\nIt rained.\n")
    'THE WEIR\n\nIt rained.\n'
    """
    body = _without_front(_without_back(text), before).strip("\x1a \n")
    return f"{body}\n"


def licence_start(text: str, end: int) -> int:
    """Return where the licence begins that ends at `end`, with the information on the project before it."""
    begin = text.rfind("\n", 0, max(0, end - _LICENCE)) + 1
    lines = text[begin:end].split("\n")
    paragraphs = _paragraphs(lines)
    joined = [_joined(lines[start:stop]) for start, stop in paragraphs]
    small_print = [number for number, paragraph in enumerate(joined) if _SMALL_PRINT.search(paragraph)]
    if not small_print:
        return end
    first = number = small_print[-1]
    while number > 0 and _ABOUT.search(joined[number - 1]) and not _NAMED.search(joined[number]):
        number -= 1
        if all(LICENCE.search(paragraph.lower()) for paragraph in joined[number:first]):
            first = number
    if _NAMED.search(joined[number]):
        first = number
    return begin + sum(len(line) + 1 for line in lines[: paragraphs[first][0]])


def header_end(text: str) -> int:
    """Return where a header without marks ends that a text begins with; 0 if there is none."""
    lines = text[:_LICENCE].split("\n")
    last = 0
    for start, end in _paragraphs(lines):
        if LICENCE.search(_joined(lines[start:end]).lower()):
            last = end
        elif end - start > _FIELDS or not _FIELD.match(lines[start]):
            break
        elif last:
            last = end
    return min(len(text), sum(len(line) + 1 for line in lines[:last]))


def _without_front(text: str, before: str) -> str:
    """Leave out the header without marks and the notes with which a text begins."""
    if end := header_end(text):
        text, before = text[end:], ""
    lines = text[:_LICENCE].split("\n")
    removed: set[int] = set()
    offset, notes, of_heading = 0, 0, 0
    n_changes: int | None = None
    for number, (start, end) in enumerate(_paragraphs(lines)):
        paragraph = lines[start:end]
        goes_on = number == 0 and bool(_OPEN.search(before))
        if start < of_heading:
            removed |= set(range(start, end))
            continue
        note, of_heading = _note(lines, start, end, n_changes=n_changes, goes_on=goes_on)
        n_changes = (1 if NOTE_HEADING.match(paragraph[0]) else 2) if note else None
        removed |= set(note)
        notes += bool(note)
        offset += sum(map(len, paragraph))
        if offset > _FRONT or notes >= _NOTES:
            break
    if not removed:
        return text
    lines = [line for number, line in enumerate(lines) if number not in removed]
    return "\n".join(lines) + text[_LICENCE:]


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
    if (
        NOTE_HEADING.match(paragraph[0])
        or (n_changes is not None and len(set(map(str.lower, _CHANGES.findall(joined)))) >= n_changes)
        or _THANKS.match(joined)
    ):
        return range(start, end), 0
    first = next((n for n in range(start, end) if _CREDIT.match(lines[n]) or _INLINE.search(lines[n])), None)
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
    """Return whether a line is a name or an address, no line of a paragraph."""
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
    """Leave out the licence and the notes with which a text ends."""
    begin = text.rfind("\n", 0, max(0, len(text) - _LICENCE)) + 1
    lines = text[begin:].split("\n")
    paragraphs = _paragraphs(lines)
    while paragraphs and LICENCE.search(_joined(lines[slice(*paragraphs[-1])]).lower()):
        paragraphs.pop()
    if not paragraphs:
        return text[:begin]
    del lines[paragraphs[-1][1] :]
    length = 0
    for number in range(len(paragraphs) - 1, -1, -1):
        start, end = paragraphs[number]
        length += sum(map(len, lines[start:end]))
        if length > _BACK or end - start > 4 * _LINES:
            break
        joined = _joined(lines[start:end])
        if number and (
            NOTE_HEADING.match(joined) or (_BRACKET.match(joined) and _STRONG.search(joined.lower()))
        ):
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
