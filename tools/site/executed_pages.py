"""Run the Python blocks of a page, and write what each shows below it.

The blocks run in order in one namespace, as a reader would type them. What the last line of a block gives is
shown as a notebook would show it: charts are drawn by Vega in the page, with their picture where no script
runs; widgets are their static pages, which open and close by clicks; tables are HTML. Nothing is loaded from
elsewhere.
"""

from __future__ import annotations

import ast
import contextlib
import io
import re
import traceback
import warnings
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_ROOTS = (
    (":root\\b", ":host"),
    (r"(?<![\w.-])body\{", ".body{"),
    (r"<body>", '<div class="body">'),
    (r"</body>", "</div>"),
)
LISTED = 6
"""Items that the page of a list holds."""

_VIEW = """\
<div class="wb-view" tabindex="0" role="region" aria-label="Output">
<template shadowrootmode="open">{content}</template></div>
"""


class PageError(RuntimeError):
    """A block of a page that fails."""


def run_page(text: str, path: Path) -> str:
    """Return a page with what its Python blocks show.

    Parameters
    ----------
    text : str
        The page in Markdown.
    path : Path
        The file, to name it in errors.

    Raises
    ------
    PageError
        If a block fails; the message has the lines of the page.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    pieces, position = [], 0
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # progress bars go there
        warnings.simplefilter("error", UserWarning)  # what a reader of the page would be warned of
        for match in BLOCK.finditer(text):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                value = _run_block(match[1], path, text.count("\n", 0, match.start(1)), names)
            pieces += [text[position : match.end()], "\n", markup(printed.getvalue() or None), markup(value)]
            position = match.end()
    return "".join([*pieces, text[position:]])


def _run_block(source: str, path: Path, line: int, names: dict[str, Any]) -> Any:
    """Run a block that begins at a line of a page; return the value of its last expression, or None."""
    tree = ast.parse("\n" * line + source, str(path))
    shows = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    last = ast.Expression(tree.body.pop().value) if shows else None  # type: ignore[attr-defined]
    try:
        exec(compile(tree, str(path), "exec"), names)  # noqa: S102 - the project's own pages
        return None if last is None else eval(compile(last, str(path), "eval"), names)  # noqa: S307
    except Exception as error:
        raise PageError(f"{path}: a block fails\n{traceback.format_exc()}") from error


def markup(value: Any) -> str:
    """Return what shows a value, as Markdown that holds raw HTML; nothing for None."""
    if value is None:
        return ""
    if type(value).__module__.startswith("altair"):
        from workbench.charts import saving, theme  # noqa: PLC0415 - slow

        spec = theme.complete(value.to_dict())
        return _raw(saving.chart_html(spec, picture=theme.picture(spec, dark=None)))
    if hasattr(value, "saved_key"):
        return _raw(_VIEW.format(content=_body(value.to_html(limit=LISTED))))
    if hasattr(value, "_repr_html_"):
        html = value._repr_html_().replace("<th></th>", "<td></td>")  # pandas has headings of nothing
        return _raw(_VIEW.format(content=_body(html)))
    return f"\n```text\n{str(value).strip()}\n```\n"


def _body(page: str) -> str:
    """Return a static page as a part of another one: its root and body are elements of its own."""
    part = re.sub(r"<!DOCTYPE html>\s*|<meta [^>]*>\s*|</?(html|head)\b[^>]*>|<title>.*?</title>", "", page)
    for pattern, replacement in _ROOTS:
        part = re.sub(pattern, replacement, part)
    return part


def _raw(content: str) -> str:
    """Return HTML as a block of MyST that is passed on as it is; a line of the content never ends it."""
    return f"\n``````````{{raw}} html\n{content}\n``````````\n"
