"""Tables as HTML, LaTeX, Markdown and plain text.

The templates are jinja2's. great-tables 1.1 has fixed colours (a dark theme is lost), 11 KB of style and
0.4 s a table, no numbered caption in LaTeX, and lets a table of 12 columns run over the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.render.numbers import MINUS

if TYPE_CHECKING:
    import jinja2

_DASH = "\N{EN DASH}"


class Heading(NamedTuple):
    """The heading of a column; numbers stand to the right, text to the left."""

    text: str
    tooltip: str = ""
    numeric: bool = True


class Cell(NamedTuple):
    """A cell: its text, and what stands smaller beside it, such as an interval."""

    text: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.text} {self.detail}".strip()


class Grid(NamedTuple):
    """A table as text, before it is written in some language.

    `sections` has the rows by name ("": without a heading of their own); `groups` are headings above several
    columns, with their number; `footer` stands under the table, before the notes.
    """

    title: str
    headings: Sequence[Heading]
    sections: Mapping[str, Sequence[Sequence[Cell]]]
    notes: Sequence[str] = ()
    footer: str = ""
    groups: Sequence[tuple[str, int]] = ()


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
    """Return a plain table as an escaped HTML fragment: a caption under it, then notes as a list."""
    return _template("plain.html").render(columns=columns, rows=rows, caption=caption, notes=notes)


def grid_html(grid: Grid) -> str:
    """Return a table as an HTML fragment; colours follow JupyterLab's theme or the page."""
    return _template("grid.html").render(grid._asdict())


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", _DASH: "--", MINUS: "$-$", "∞": r"$\infty$", "“": "``",
    "”": "''", '"': r"\textquotedbl{}",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in _line(text))


def grid_latex(grid: Grid, label: str) -> str:
    """Return a table in LaTeX with the rules of booktabs, made smaller where it is wider than the page."""
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(grid.title)}}}",
        rf"\label{{{label}}}",
        r"\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{''.join('r' if heading.numeric else 'l' for heading in grid.headings)}}}",
        r"\toprule",
    ]
    if grid.groups:
        ends = [sum(width for _, width in grid.groups[: k + 1]) for k in range(len(grid.groups))]
        cells = [rf"\multicolumn{{{width}}}{{c}}{{{escape_latex(name)}}}" for name, width in grid.groups]
        rules = [
            rf"\cmidrule(lr){{{end - width + 1}-{end}}}"
            for (name, width), end in zip(grid.groups, ends, strict=True)
            if name
        ]
        lines += [rf"{' & '.join(cells)} \\", " ".join(rules)]
    lines.append(rf"{' & '.join(escape_latex(heading.text) for heading in grid.headings)} \\")
    for section, rows in grid.sections.items():
        lines.append(r"\midrule")
        if section:
            wide = len(grid.headings)
            lines += [rf"\multicolumn{{{wide}}}{{l}}{{\emph{{{escape_latex(section)}}}}} \\", r"\midrule"]
        lines += [rf"{' & '.join(escape_latex(str(cell)) for cell in row)} \\" for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if text := escape_latex(" ".join(filter(None, [grid.footer, *grid.notes]))):
        text = text.replace(r"\textbar{}", r"\textbar\allowbreak{}")  # signatures have no blanks
        lines += ["", rf"\smallskip{{\footnotesize {text}\par}}"]
    return "\n".join([*lines, r"\end{table}", ""])


def grid_markdown(grid: Grid) -> str:
    """Return a table in GitHub Markdown, one table a section."""
    above = [name for name, width in grid.groups for _ in range(width)] or [""] * len(grid.headings)
    head = [
        f"{name}: {heading.text}" if name else heading.text
        for name, heading in zip(above, grid.headings, strict=True)
    ]
    rule = ["--:" if heading.numeric else ":--" for heading in grid.headings]
    parts = [f"**{_markdown(grid.title)}**"] if grid.title else []
    for section, rows in (grid.sections or {"": []}).items():
        if section:
            parts.append(f"*{_markdown(section)}*")
        lines = [_row(head, _markdown), _row(rule, str)]
        parts.append("\n".join([*lines, *(_row(list(map(str, row)), _markdown) for row in rows)]))
    if grid.footer:
        parts.append(_markdown(grid.footer))
    if grid.notes:
        parts.append("\n".join(f"- {_markdown(note)}" for note in grid.notes))
    return "\n\n".join(parts) + "\n"


def grid_text(grid: Grid) -> str:
    """Return a table as plain text for a terminal."""
    rows = [list(map(str, row)) for part in grid.sections.values() for row in part]
    lines = text_table(
        [heading.text for heading in grid.headings], rows, [heading.numeric for heading in grid.headings]
    ).split("\n")
    parts, place = [lines[0]], 1
    for section, part in grid.sections.items():
        parts += [f"\n{section}"] if section else []
        parts += lines[place : place + len(part)]
        place += len(part)
    parts += [] if rows else ["no rows"]
    return "\n".join([*parts, *([f"\n{grid.footer}"] if grid.footer else []), *grid.notes])


def text_table(names: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool] = ()) -> str:
    """Return aligned lines: numbers to the right, text (by default the first column) to the left."""
    numeric = numeric or [column > 0 for column in range(len(names))]
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
    """Return text without breaks and control characters."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", text)
