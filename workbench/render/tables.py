"""Tables as HTML, LaTeX and Markdown.

The templates are jinja2's. great-tables 1.1 has fixed colours (a dark theme is lost), 11 KB of style and
0.4 s a table, no numbered caption in LaTeX, and lets a table of 12 columns run over the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from workbench.render.numbers import MINUS, MISSING, in_unit

if TYPE_CHECKING:
    import jinja2

_DASH = "\N{EN DASH}"
_EACH = ("paper", "ours", "difference")
_HEAD = ("System", "Model")

_PLAIN = """
{%- if columns -%}
<table><thead><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr></thead><tbody>
{%- for row in rows %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor -%}
</tbody></table>{% endif %}
{%- if caption %}<p>{{ caption }}</p>{% endif %}
{%- if notes %}<ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul>{% endif %}
""".strip()

_RESULTS = """
<style>
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
</style>
<div class="wb-results"><table><caption>{{ title }}</caption><thead>
<tr><th colspan="2"></th>{% for name in columns %}<th class="g" colspan="3">{{ name }}</th>{% endfor -%}
<th></th></tr>
<tr>{% for name in head %}<th class="t">{{ name }}</th>{% endfor %}
{%- for _ in columns %}{% for name in each %}<th>{{ name }}</th>{% endfor %}{% endfor -%}
<th>n</th></tr></thead><tbody>
{%- for section, rows in sections.items() %}
{%- if section %}<tr class="s"><th colspan="{{ wide }}" scope="rowgroup">{{ section }}</th></tr>{% endif %}
{%- for row in rows %}<tr>{% for cell in row %}
{%- if loop.index <= 2 %}<td class="t">{{ cell }}</td>
{%- else %}{% set value, bracket, rest = cell.partition(" (") %}<td>{{ value }}
{%- if bracket %} <small>({{ rest }}</small>{% endif %}</td>{% endif %}{% endfor %}</tr>
{%- endfor %}{% endfor %}</tbody></table><ul>{% for note in notes %}<li>{{ note }}</li>{% endfor %}</ul></div>
""".strip()


class Grid(NamedTuple):
    """A table as text, before it is written in some language.

    Each of `columns` is a heading above paper, ours and difference; `sections` has, by name, rows of system,
    model, three cells a column, and the number of items.
    """

    title: str
    columns: list[str]
    sections: dict[str, list[list[str]]]
    notes: Sequence[str]


@cache
def _template(source: str) -> jinja2.Template:
    import jinja2  # noqa: PLC0415 - only what is shown needs it

    return jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)


def html_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, caption: str = "", notes: Sequence[str] = ()
) -> str:
    """Return a plain table as an escaped HTML fragment: a caption under it, then notes as a list."""
    return _template(_PLAIN).render(columns=columns, rows=rows, caption=caption, notes=notes)


def grid(frame: pd.DataFrame, title: str, notes: Sequence[str]) -> Grid:
    """Lay the cells of a results table out in rows."""
    columns = list(dict.fromkeys(frame["column"]))
    sections: dict[str, list[list[str]]] = {}
    records: list[dict[Any, Any]] = frame.to_dict("records")
    for start in range(0, len(records), len(columns)):
        cells = records[start : start + len(columns)]
        first = cells[0]
        counts = list(dict.fromkeys(f"{cell['n']:,}" for cell in cells if not pd.isna(cell["n"])))
        names = [MISSING if pd.isna(first[name]) else str(first[name]) for name in ("system", "model")]
        row = [*names, *(text for cell in cells for text in _cell(cell)), " / ".join(counts) or MISSING]
        sections.setdefault(first["section"], []).append(row)
    return Grid(title, columns, sections, notes)


def _cell(cell: dict[Any, Any]) -> list[str]:
    unit = cell["measured_in"]
    ours = in_unit(cell["ours"], unit)
    if not pd.isna(cell["low"]):
        ours += f" ({in_unit(cell['low'], unit)}{_DASH}{in_unit(cell['high'], unit)})"
    difference = in_unit(cell["difference"], unit)
    if not difference.startswith((MISSING, MINUS)):
        difference = f"+{difference}"
    return [MISSING if pd.isna(cell["printed"]) else str(cell["printed"]), ours, difference]


def results_html(table: Grid) -> str:
    """Return a table as an HTML fragment; colours follow JupyterLab's theme or the page."""
    wide = len(_HEAD) + len(_EACH) * len(table.columns) + 1
    return _template(_RESULTS).render(table._asdict(), head=_HEAD, each=_EACH, wide=wide)


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{",
    "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}",
    ">": r"\textgreater{}", "|": r"\textbar{}", _DASH: "--", MINUS: "$-$", "∞": r"$\infty$", "“": "``",
    "”": "''", '"': r"\textquotedbl{}",
}  # fmt: skip


def escape_latex(text: str) -> str:
    """Return text that LaTeX sets as it is."""
    return "".join(_LATEX.get(sign, sign) for sign in _line(text))


def latex(table: Grid, label: str) -> str:
    """Return a table in LaTeX with the rules of booktabs, made smaller where it is wider than the page."""
    first, each = len(_HEAD) + 1, len(_EACH)
    wide = len(_HEAD) + each * len(table.columns) + 1
    ends = [first + each * place for place in range(len(table.columns))]
    groups = [rf"\multicolumn{{{each}}}{{c}}{{{escape_latex(name)}}}" for name in table.columns]
    lines = [
        r"% needs \usepackage{booktabs,graphicx}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{escape_latex(table.title)}}}",
        rf"\label{{{label}}}",
        r"\resizebox{\ifdim\width>\linewidth \linewidth\else\width\fi}{!}{%",
        rf"\begin{{tabular}}{{{'l' * len(_HEAD)}{'r' * (wide - len(_HEAD))}}}",
        r"\toprule",
        rf"{' & '.join(['', '', *groups, ''])} \\",
        " ".join(rf"\cmidrule(lr){{{start}-{start + each - 1}}}" for start in ends),
        rf"{' & '.join([*_HEAD, *_EACH * len(table.columns), 'n'])} \\",
    ]
    for section, rows in table.sections.items():
        lines.append(r"\midrule")
        if section:
            lines += [rf"\multicolumn{{{wide}}}{{l}}{{\emph{{{escape_latex(section)}}}}} \\", r"\midrule"]
        lines += [rf"{' & '.join(map(escape_latex, row))} \\" for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}}"]
    if table.notes:
        lines += ["", rf"\smallskip{{\footnotesize {escape_latex(' '.join(table.notes))}\par}}"]
    return "\n".join([*lines, r"\end{table}", ""])


def markdown(table: Grid) -> str:
    """Return a table in GitHub Markdown, one table a section."""
    head = [*_HEAD, *(f"{name}: {each}" for name in table.columns for each in _EACH), "n"]
    rule = [":--"] * len(_HEAD) + ["--:"] * (len(head) - len(_HEAD))
    parts = [f"**{_markdown(table.title)}**"]
    for section, rows in table.sections.items():
        if section:
            parts.append(f"*{_markdown(section)}*")
        lines = [_row(head, _markdown), _row(rule, str), *(_row(row, _markdown) for row in rows)]
        parts.append("\n".join(lines))
    if table.notes:
        parts.append("\n".join(f"- {_markdown(note)}" for note in table.notes))
    return "\n\n".join(parts) + "\n"


def _row(cells: Sequence[str], write: Callable[[str], str]) -> str:
    return f"| {' | '.join(map(write, cells))} |"


def _markdown(text: str) -> str:
    escaped = re.sub(r"([\\`*_\[\]|~#])", r"\\\1", _line(text))
    return escaped.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _line(text: str) -> str:
    """Return text without breaks and control characters."""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", text)
