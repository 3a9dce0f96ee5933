"""Results tables as HTML, LaTeX and Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

MISSING = "-"
_MINUS, _DASH = "\N{MINUS SIGN}", "\N{EN DASH}"

_STYLE = """
.wb-results{color:var(--jp-content-font-color1,inherit);font:13px/1.5 var(--jp-ui-font-family,system-ui,
sans-serif);overflow-x:auto}
.wb-results table{border-collapse:collapse;font:inherit;color:inherit;background:transparent}
.wb-results caption{caption-side:top;text-align:left;font-weight:600;padding:4px 0;color:inherit}
.wb-results :is(th,td){padding:2px 8px;border:0;text-align:right;white-space:nowrap;background:transparent}
.wb-results table .t{text-align:left!important}
.wb-results thead tr:last-child th,.wb-results .s th{border-bottom:1px solid var(--jp-border-color1,#8888)}
.wb-results table .g{text-align:center!important;border-bottom:1px solid var(--jp-border-color2,#8886)}
.wb-results table .s th{text-align:left!important;padding-top:10px}
.wb-results small,.wb-results ul{color:var(--jp-content-font-color2,inherit)}
.wb-results ul{font-size:12px;margin:6px 0;padding-left:18px;max-width:90ch}
""".strip()
_EACH = ("paper", "ours", "difference")
_HEAD = ("System", "Model")
_LARGE = 1e9


class Grid(NamedTuple):
    """A table as text, before it is written in some language.

    Attributes
    ----------
    columns : list of str
        Headings, each above paper, ours and difference.
    sections : dict of str to list of list of str
        By name, rows of system, model, three cells a column, and the number of items.
    """

    columns: list[str]
    sections: dict[str, list[list[str]]]


def number(value: Any, unit: str) -> str:
    """Return a number as it is shown: percents with one digit, fractions with three."""
    if pd.isna(value):
        return MISSING
    size = abs(value)
    if np.isinf(size):
        text = "∞"
    elif size >= _LARGE:
        text = f"{size:.2e}"
    elif unit == "rank":
        text = f"{size:.1f}".removesuffix(".0")
    else:
        whole = unit == "per target word" and size >= 100  # noqa: PLR2004 - three digits are enough
        text = f"{size:.{3 if unit == 'fraction' else 0 if whole else 1}f}"
    return f"{_MINUS}{text}" if value < 0 else text


def grid(frame: pd.DataFrame) -> Grid:
    """Lay the cells of a results table out in rows."""
    columns = list(dict.fromkeys(frame["column"]))
    sections: dict[str, list[list[str]]] = {}
    rows: list[dict[Any, Any]] = frame.to_dict("records")
    for start in range(0, len(rows), len(columns)):
        cells = rows[start : start + len(columns)]
        first = cells[0]
        counts = list(dict.fromkeys(f"{cell['n']:,}" for cell in cells if not pd.isna(cell["n"])))
        line = [_text(first["system"]), _text(first["model"])]
        for cell in cells:
            line += _cell(cell)
        sections.setdefault(first["section"], []).append([*line, " / ".join(counts) or MISSING])
    return Grid(columns, sections)


def _text(value: Any) -> str:
    return MISSING if pd.isna(value) else str(value)


def _cell(cell: dict[Any, Any]) -> list[str]:
    unit = cell["measured_in"]
    ours = number(cell["ours"], unit)
    if not pd.isna(cell["low"]):
        ours += f" ({number(cell['low'], unit)}{_DASH}{number(cell['high'], unit)})"
    difference = number(cell["difference"], unit)
    if not difference.startswith((MISSING, _MINUS)):
        difference = f"+{difference}"
    return [_text(cell["printed"]), ours, difference]


def html(table: Grid, title: str, notes: Sequence[str]) -> str:
    """Write a table as an HTML fragment; colours follow JupyterLab's theme or the page."""
    wide = len(_HEAD) + len(_EACH) * len(table.columns) + 1
    groups = "".join(f'<th class="g" colspan="{len(_EACH)}">{escape(name)}</th>' for name in table.columns)
    each = "".join(f"<th>{name}</th>" for name in _EACH) * len(table.columns)
    names = "".join(f'<th class="t">{name}</th>' for name in _HEAD)
    body = ""
    for section, rows in table.sections.items():
        if section:
            body += f'<tr class="s"><th colspan="{wide}" scope="rowgroup">{escape(section)}</th></tr>'
        for row in rows:
            left = "".join(f'<td class="t">{escape(cell)}</td>' for cell in row[: len(_HEAD)])
            right = "".join(f"<td>{_small(escape(cell))}</td>" for cell in row[len(_HEAD) :])
            body += f"<tr>{left}{right}</tr>"
    said = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return (
        f'<style>{_STYLE}</style><div class="wb-results"><table><caption>{escape(title)}</caption><thead>'
        f'<tr><th colspan="{len(_HEAD)}"></th>{groups}<th></th></tr><tr>{names}{each}<th>n</th></tr></thead>'
        f"<tbody>{body}</tbody></table><ul>{said}</ul></div>"
    )


def _small(cell: str) -> str:
    value, bracket, rest = cell.partition(" (")
    return f"{value} <small>({rest}</small>" if bracket else value


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", _DASH: "--", _MINUS: "$-$", "∞": r"$\infty$", "“": "``",
    "”": "''", '"': r"\textquotedbl{}",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in _line(text))


def latex(table: Grid, title: str, notes: Sequence[str], label: str) -> str:
    """Write a table in LaTeX, with the rules of booktabs."""
    many, first = len(table.columns), len(_HEAD) + 1
    wide = len(_HEAD) + len(_EACH) * many + 1
    ends = [first + len(_EACH) * place for place in range(many)]
    groups = [rf"\multicolumn{{{len(_EACH)}}}{{c}}{{{escape_latex(name)}}}" for name in table.columns]
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(title)}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{'l' * len(_HEAD)}{'r' * (wide - len(_HEAD))}}}",
        r"\toprule",
        rf"{' & '.join(['', '', *groups, ''])} \\",
        " ".join(rf"\cmidrule(lr){{{start}-{start + len(_EACH) - 1}}}" for start in ends),
        rf"{' & '.join([*_HEAD, *_EACH * many, 'n'])} \\",
    ]
    for section, rows in table.sections.items():
        lines.append(r"\midrule")
        if section:
            lines += [rf"\multicolumn{{{wide}}}{{l}}{{\emph{{{escape_latex(section)}}}}} \\", r"\midrule"]
        lines += [rf"{' & '.join(map(escape_latex, row))} \\" for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}"]
    if notes:
        lines += ["", rf"\smallskip{{\footnotesize {escape_latex(' '.join(notes))}\par}}"]
    return "\n".join([*lines, r"\end{table}", ""])


def markdown(table: Grid, title: str, notes: Sequence[str]) -> str:
    """Write a table in GitHub Markdown, one table a section."""
    head = [*_HEAD, *(f"{name}: {each}" for name in table.columns for each in _EACH), "n"]
    rule = [":--"] * len(_HEAD) + ["--:"] * (len(head) - len(_HEAD))
    parts = [f"**{_markdown(title)}**"]
    for section, rows in table.sections.items():
        if section:
            parts.append(f"*{_markdown(section)}*")
        lines = [_row(head, _markdown), _row(rule, str), *(_row(row, _markdown) for row in rows)]
        parts.append("\n".join(lines))
    if notes:
        parts.append("\n".join(f"- {_markdown(note)}" for note in notes))
    return "\n\n".join(parts) + "\n"


def _row(cells: Sequence[str], write: Callable[[str], str]) -> str:
    return f"| {' | '.join(map(write, cells))} |"


def _markdown(text: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", _line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _line(text: str) -> str:
    """Return text without breaks and control characters."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", text)
