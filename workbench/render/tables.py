"""Tables as HTML, LaTeX, Markdown and plain text.

The templates are jinja2's. great-tables 1.1 has fixed colours (a dark theme is lost), 11 KB of style and
0.4 s a table, no numbered caption in LaTeX, and lets a table of 12 columns run over the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from numbers import Integral
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.render.numbers import MINUS, MISSING
from workbench.storage.errors import DataError

if TYPE_CHECKING:
    import jinja2

_DASH = "\N{EN DASH}"
_NUMBER = re.compile(
    rf"(?P<integer>(?:[<>\u2264\u2265] )?[+\-{MINUS}]?[\d,]+)(?P<fraction>\.\d+)?(?P<suffix>e[+\-]\d+|\D+)?$"
)
_QUANTITY = re.compile(rf"[+\-{MINUS}]?\d[\d,.]*( %| of [\d,]+)?$|{MISSING}$")
_LONG = 28  # letters of a text that is not broken
_MANY = 40  # rows: a longer table would not fit a page if its texts were broken
_LINE, _SHORT_LINE = 14, 8  # letters of a line of a heading above numbers, on a page and in a column
_LEAST_SORTED = 3  # rows of a section
_COLUMN_WIDTH = 219  # points: one of the two columns of ACL; those of other conferences are wider
_SIZE, _LEAST_SIZE = 8, 7  # points, of text in such a column: as it is set, and as it is shrunk
_LEAST_TEXT, _LEAST_LONG = 60.0, 14  # points of a text that is broken; letters of one that is not
_SLIM, _BROAD = " .,:;|!'()[]ijlft", "mw%+<>=" + MINUS


class Heading(NamedTuple):
    """The heading of a column; numbers stand to the right, text to the left.

    A click on one that is `sortable` sorts an HTML table by the column.
    """

    text: str
    tooltip: str = ""
    numeric: bool = True
    sortable: bool = False


class Cell(NamedTuple):
    """A cell: its text, a detail such as an interval in smaller type, the mark of a footnote, its number."""

    text: str
    detail: str = ""
    mark: str = ""
    number: float | None = None

    def __str__(self) -> str:
        return " ".join(filter(None, [self.text, self.detail, f"[{self.mark}]" if self.mark else ""]))


class Grid(NamedTuple):
    """A table as text, independent of the output format.

    `sections` has the rows by name ("": without a heading of their own). Under the table stand the
    `warnings`, and what HTML shows on a click: the notes, the `footer`, the `footnotes` (mark and text).
    """

    title: str
    headings: Sequence[Heading]
    sections: Mapping[str, Sequence[Sequence[Cell]]]
    notes: Sequence[str] = ()
    footer: str = ""
    footnotes: Sequence[tuple[str, str]] = ()
    warnings: Sequence[str] = ()


class _Column(NamedTuple):
    """Common properties of the cells of a column.

    All numbers get the room of the longest `fraction` (from the decimal point on) and of the longest `suffix`
    (a unit), so that their decimal points are aligned; `ragged` is True if some are shorter.
    """

    detailed: bool
    fraction: str
    suffix: str
    ragged: bool
    longest: int
    detail_length: int

    @property
    def width(self) -> int:
        """Number of columns on the page: one for numbers, one for details."""
        return 1 + self.detailed

    @property
    def room(self) -> str:
        """Width of the decimals and units of a column, as CSS; "" if all are equal."""
        return f"{len(self.fraction) + 1.2 * len(self.suffix):g}ch" if self.ragged else ""


def _columns(grid: Grid) -> list[_Column]:
    columns = []
    for k, heading in enumerate(grid.headings):
        cells = [row[k] for rows in grid.sections.values() for row in rows]
        ends = [number_parts(cell.text)[1:] for cell in cells if cell.text] if heading.numeric else []
        fraction, suffix = (max((end[i] for end in ends), key=len, default="") for i in (0, 1))
        detailed = heading.numeric and any(cell.detail for cell in cells)
        longest, detail = (
            max(map(len, texts), default=0) for texts in (map(str, cells), (cell.detail for cell in cells))
        )
        fraction = re.sub(r"\d", "0", fraction)
        columns.append(
            _Column(
                detailed,
                fraction,
                suffix,
                len({(len(end[0]), end[1]) for end in ends}) > 1,
                longest,
                detail,
            )
        )
    return columns


def number_parts(text: str) -> tuple[str, str, str]:
    """Split a number into the digits before the decimal point, the decimals, and the unit after it."""
    match = _NUMBER.match(text)
    return (match["integer"], match["fraction"] or "", match["suffix"] or "") if match else (text, "", "")


def is_aligned(text: str) -> bool:
    """Return True for text aligned at the decimal point: a number or a missing one, not ``6 of 30``."""
    return bool(_NUMBER.match(text)) or text == MISSING


def footnote_mark(k: int) -> str:
    """Return the mark of the footnote `k`, counted from 0: a to z, then aa, ab and so on."""
    return (footnote_mark(k // 26 - 1) if k >= 26 else "") + chr(ord("a") + k % 26)  # noqa: PLR2004 - letters


@cache
def _template(name: str) -> jinja2.Template:
    import jinja2  # noqa: PLC0415 - only what is shown needs it

    loader = jinja2.FileSystemLoader(Path(__file__).parent)
    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, loader=loader).get_template(
        name
    )


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "", notes: Sequence[str] = ()
) -> str:
    """Return a plain table as an escaped HTML fragment: a caption under it, then notes as a list.

    Numbers stand to the right, text to the left; whole numbers get their thousands separated.
    """
    cells = [[_plain(value) for value in row] for row in rows]
    numeric = [
        all(not text or _QUANTITY.match(text) for text in column) for column in zip(*cells, strict=True)
    ]
    numeric = numeric or [False] * len(columns)
    return _template("plain.html").render(
        columns=columns, rows=cells, numeric=numeric, caption=caption, notes=notes
    )


def _plain(value: Any) -> str:
    if isinstance(value, Integral) and not isinstance(value, bool):
        value = f"{value:,}"
    text = str(value)
    return MINUS + text[1:] if text.startswith("-") and text != MISSING and _QUANTITY.match(text) else text


def grid_html(grid: Grid) -> str:
    """Return a table as an HTML fragment; colours follow JupyterLab's theme or the page."""
    columns = _columns(grid)
    is_sortable = any(len(rows) >= _LEAST_SORTED for rows in grid.sections.values())
    return _template("grid.html").render(
        grid._asdict(), columns=columns, parts=number_parts, is_aligned=is_aligned, is_sortable=is_sortable
    )


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", _DASH: "--", MINUS: "$-$", "∞": r"$\infty$", "“": "``",
    "”": "''", '"': "''", "≤": r"$\leq$", "≥": r"$\geq$", "±": r"$\pm$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Escape the special characters of LaTeX."""
    return "".join(_LATEX.get(sign, sign) for sign in _line(text))


def grid_latex(grid: Grid, label: str, *, is_narrow: bool = False) -> str:
    """Return a table in LaTeX with the rules of booktabs, shrunk if it is wider than the page.

    Decimal points are aligned without a further package: intervals are a column of their own, and numbers
    that have fewer digits after the point get the room of those that lack. A narrow table fits a column of
    `_COLUMN_WIDTH` with text of 7 points or more.
    """
    columns = _columns(grid)
    is_long = sum(map(len, grid.sections.values())) > _MANY
    text_width, is_stacked = "" if is_long else "15em", False
    if is_narrow:
        text_width, is_stacked = _narrow_layout(grid, columns)
    if is_stacked:
        columns = [column._replace(detailed=False) for column in columns]
    separation, size = ("2pt", rf"\fontsize{{{_SIZE}}}{{9.6}}\selectfont") if is_narrow else ("4pt", "")
    specification = [
        _latex_column(heading, column, text_width, _LEAST_LONG if is_narrow else _LONG)
        for heading, column in zip(grid.headings, columns, strict=True)
    ]
    headings = [
        _latex_heading(heading, column, _SHORT_LINE if is_narrow else _LINE)
        for heading, column in zip(grid.headings, columns, strict=True)
    ]
    lines = [
        r"% needs \usepackage{array,booktabs,graphicx}",
        r"\begin{table}",
        rf"\centering\setlength{{\tabcolsep}}{{{separation}}}{size}",
        rf"\caption{{{escape_latex(grid.title)}}}",
        rf"\label{{{label}}}",
        r"\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{''.join(specification)}}}",
        r"\toprule",
        rf"{' & '.join(headings)} \\",
    ]
    for section, rows in grid.sections.items():
        lines.append(r"\midrule")
        if section:
            wide = sum(column.width for column in columns)
            lines += [rf"\multicolumn{{{wide}}}{{l}}{{\emph{{{escape_latex(section)}}}}} \\", r"\midrule"]
        write = _stacked_cell if is_stacked else _latex_cell
        lines += [rf"{{}}{' & '.join(map(write, row, grid.headings, columns))} \\" for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    notes = [escape_latex(text) for text in (*grid.warnings, grid.footer) if text]
    notes += [rf"\textsuperscript{{{mark}}}\,{escape_latex(text)}" for mark, text in grid.footnotes]
    notes += [escape_latex(" ".join(grid.notes))] if grid.notes else []
    for text in notes:
        broken = text.replace(r"\textbar{}", r"\textbar\allowbreak{}")  # signatures have no blanks
        lines += ["", rf"\smallskip{{\footnotesize\raggedright {broken}\par}}"]
    return "\n".join([*lines, r"\end{table}", ""])


def _narrow_layout(grid: Grid, columns: Sequence[_Column]) -> tuple[str, bool]:
    """Return the width of long texts in a narrow table, and whether details stand below their numbers.

    DataError if there is no room for all columns.
    """
    width = (
        0.97 * _COLUMN_WIDTH * _SIZE / _LEAST_SIZE
    )  # of what is shrunk to the least size; widths are estimates
    for is_stacked in (False, True):
        numbers: list[float] = []
        texts: list[float] = []
        words = [_LEAST_TEXT]
        for k, (heading, column) in enumerate(zip(grid.headings, columns, strict=True)):
            cells = [row[k] for rows in grid.sections.values() for row in rows]
            if not heading.numeric:
                text_width = max(map(_points, [heading.text, *map(str, cells)]))
                (texts if column.longest > _LEAST_LONG else numbers).append(text_width)
                words += [_points(word) for cell in cells for word in re.split(r"\s|(?<=[+-])", str(cell))]
                continue
            value = max((_points(cell.text) for cell in cells), default=0.0)
            detail = max((_points(cell.detail) for cell in cells), default=0.0)
            cell_width = max(value, detail) if is_stacked else value + detail + 4 * column.detailed
            numbers.append(max(cell_width, *map(_points, _heading_lines(heading, _SHORT_LINE))))
        room = width - 4 * len(columns) - sum(numbers)
        if sum(texts) <= room:
            return "", is_stacked
        if texts and room / len(texts) >= max(words):
            return f"{room / len(texts):.0f}pt", is_stacked
    names = ", ".join(heading.text for heading in grid.headings)
    problem = f"these {len(columns)} columns do not fit a column of {_COLUMN_WIDTH} pt: {names}"
    raise DataError(problem, hint='choose fewer, as in columns=["model", "accuracy"], or width="page"')


def _points(text: str) -> float:
    """Return about the width of a text in Computer Modern of `_SIZE`, in points."""
    return sum(
        4.3 if sign.isdigit() else 2.6 if sign in _SLIM else 6.4 if sign.isupper() or sign in _BROAD else 4.2
        for sign in text
    )


def _latex_column(heading: Heading, column: _Column, text_width: str, longest: int) -> str:
    if heading.numeric:
        return r"r@{\enspace}l" if column.detailed else "r"
    is_broken = text_width and column.longest > longest
    return rf">{{\raggedright\arraybackslash}}p{{{text_width}}}" if is_broken else "l"


def _heading_lines(heading: Heading, letters: int) -> list[str]:
    return wrap(heading.text, letters, break_long_words=False, break_on_hyphens=False) or [""]


def _latex_heading(heading: Heading, column: _Column, letters: int) -> str:
    if not heading.numeric:
        return escape_latex(heading.text)
    lines = _heading_lines(heading, letters)
    side, text = "c" if column.detailed else "r", r" \\ {}".join(map(escape_latex, lines))
    if len(lines) > 1:
        text = rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}{text}\end{{tabular}}"
    return rf"\multicolumn{{2}}{{c}}{{{text}}}" if column.detailed else text


def _latex_cell(cell: Cell, heading: Heading, column: _Column) -> str:
    mark = rf"\textsuperscript{{{cell.mark}}}" if cell.mark else ""
    if not heading.numeric:
        texts = " ".join(filter(None, [escape_latex(cell.text), escape_latex(cell.detail)]))
        return texts.replace("+", r"+\allowbreak{}") + mark
    integer, fraction, suffix = number_parts(cell.text)
    text = escape_latex(integer + fraction) if cell.text != MISSING else "--"
    aligned = is_aligned(cell.text)
    text += _phantom(column.fraction[len(fraction) :]) if aligned else ""
    if suffix == column.suffix or not aligned:
        text += escape_latex(suffix)
    else:
        text += (rf"\rlap{{{escape_latex(suffix)}}}" if suffix else "") + _phantom(column.suffix)
    return f"{text}{mark}{f' & {escape_latex(cell.detail)}' if column.detailed else ''}".rstrip()


def _stacked_cell(cell: Cell, heading: Heading, column: _Column) -> str:
    """Return a number with its detail below it."""
    text = _latex_cell(cell._replace(detail="") if heading.numeric else cell, heading, column)
    if not heading.numeric or not cell.detail:
        return text
    return rf"\begin{{tabular}}[t]{{@{{}}r@{{}}}}{text} \\ {{}}{escape_latex(cell.detail)}\end{{tabular}}"


def _phantom(text: str) -> str:
    return rf"\phantom{{{escape_latex(text)}}}" if text else ""


def grid_markdown(grid: Grid) -> str:
    """Return a table in GitHub Markdown, one table a section."""
    head = [heading.text for heading in grid.headings]
    rule = ["--:" if heading.numeric else ":--" for heading in grid.headings]
    blocks = [f"**{_markdown(grid.title)}**"] if grid.title else []
    for section, rows in (grid.sections or {"": []}).items():
        if section:
            blocks.append(f"*{_markdown(section)}*")
        lines = [_row(head, _markdown), _row(rule, str)]
        blocks.append("\n".join([*lines, *(_row(list(map(str, row)), _markdown) for row in rows)]))
    blocks += [_markdown(text) for text in _below(grid)]
    if grid.notes:
        blocks.append("\n".join(f"- {_markdown(note)}" for note in grid.notes))
    return "\n\n".join(blocks) + "\n"


def _below(grid: Grid) -> list[str]:
    """Return the text below a table: warnings, shared values, and the footnotes."""
    return [
        *filter(None, [*grid.warnings, grid.footer]),
        *(f"[{mark}] {text}" for mark, text in grid.footnotes),
    ]


def grid_text(grid: Grid) -> str:
    """Return a table as plain text for a terminal."""
    columns = _columns(grid)
    rows = [
        list(map(_text_cell, row, grid.headings, columns)) for rows in grid.sections.values() for row in rows
    ]
    lines = _text_table(
        [heading.text for heading in grid.headings], rows, [heading.numeric for heading in grid.headings]
    ).split("\n")
    blocks, position = [lines[0]], 1
    for section, section_rows in grid.sections.items():
        blocks += [f"\n{section}"] if section else []
        blocks += lines[position : position + len(section_rows)]
        position += len(section_rows)
    blocks += [] if rows else ["no rows"]
    return "\n".join([*blocks, *(f"\n{text}" for text in _below(grid)), *grid.notes])


def _text_cell(cell: Cell, heading: Heading, column: _Column) -> str:
    if not heading.numeric:
        return str(cell)
    integer, fraction, suffix = number_parts(cell.text)
    text = integer
    if is_aligned(cell.text):
        text += fraction.ljust(len(column.fraction)) + suffix.ljust(len(column.suffix))
    mark = f" [{cell.mark}]" if cell.mark else ""
    return f"{text} {cell.detail:<{column.detail_length}}{mark}" if column.detailed else f"{text}{mark}"


def _text_table(names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]) -> str:
    """Return aligned lines: numbers to the right, text to the left."""
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ).rstrip()
        for row in [names, *rows]
    )


def _row(cells: Sequence[str], write: Callable[[str], str]) -> str:
    return f"| {' | '.join(map(write, cells))} |"


def _markdown(text: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", _line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _line(text: str) -> str:
    """Return text without line breaks and control characters."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", text)
