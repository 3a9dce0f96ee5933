"""Data frames of results: a notebook shows the most important columns, Python has all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import pandas as pd

from workbench.render.labels import column_label, label, tooltip, value_label
from workbench.render.numbers import (
    MISSING,
    fixed,
    mid_rank,
    p_value,
    percent,
    perplexity,
    points,
    quantity,
    size,
    span,
)
from workbench.render.tables import (
    Cell,
    Grid,
    Heading,
    footnote_mark,
    grid_html,
    grid_latex,
    grid_markdown,
    grid_text,
)

WRITERS: Mapping[str, Callable[[Any], str]] = {
    "text": str,  # to the left
    "column": label,  # the name of a column, to the left
    "number": str,  # as it is, to the right
    "time": lambda moment: moment[:16].replace("T", " "),  # of 2026-11-22T20:35:42
    "printed percent": "{} %".format,
    "count": partial(fixed, digits=0),  # 1,234
    "share": partial(percent, unit=False),  # 0.123 as 12.3; the heading names the unit
    "percent": percent,  # 0.123 as 12.3 %
    "percentage": lambda number: f"{fixed(number, 1)} %",  # 12.3 as 12.3 %
    "points": points,  # 0.012 as +1.2; the heading names the unit
    "unsigned points": lambda share: fixed(100 * share, 1),  # 0.012 as 1.2; the heading names the unit
    "percentage points": lambda share: f"{points(share)} points",  # 0.012 as +1.2 points
    "quantity": quantity,  # 12.34
    "seconds": partial(quantity, digits=2),  # 0.12
    "perplexity": perplexity,  # 8.63
    "rank": mid_rank,  # 28.5
    "money": partial(fixed, digits=2),  # 1,234.50; the heading names the currency
    "signed": partial(quantity, digits=3, sign=True),  # +12.3
    "whole difference": partial(fixed, digits=0, sign=True),  # +12
    "effect": partial(fixed, digits=2, sign=True),  # +0.12
    "p": p_value,  # 0.012
    "p, bound": partial(p_value, is_bound=True),  # < 0.0005
    "size": size,  # bytes as 1.2 GB
}
_BOUNDS: Mapping[str, Callable[[Any], str]] = {
    "percent": WRITERS["share"], "percentage": partial(fixed, digits=1), "percentage points": points,
}  # fmt: skip
"""How bounds are written where the value beside them has the unit."""

_TEXT = ("text", "column")
_SETS = {"dataset", "split", "variant"}
_UNITS = {"share": "%", "points": "points", "unsigned points": "points"}


class TableColumn(NamedTuple):
    """Display settings of a column.

    Attributes
    ----------
    name : str
        Name in the frame.
    style : str, or (str, mapping of str to str)
        Number format, a key of `WRITERS`; or the column that decides the style of each row, and
        the styles by its values (else ``quantity``).
    interval : (str, str), optional
        Columns with the bounds in brackets.
    detail : str, optional
        A column with text that stands smaller beside the value.
    heading, tooltip : str, optional
        Labels in place of those in :mod:`workbench.render.labels`.
    """

    name: str
    style: str | tuple[str, Mapping[str, str]] = "text"
    interval: tuple[str, str] | None = None
    detail: str = ""
    heading: str = ""
    tooltip: str = ""


def with_interval(name: str, style: str, **texts: str) -> TableColumn:
    """Return a column whose interval is in ``<name>_low`` and ``<name>_high``."""
    return TableColumn(name, style, (f"{name}_low", f"{name}_high"), **texts)


class TableLayout(NamedTuple):
    """Display settings of a frame: a caption, columns, and columns whose values head a section of rows.

    `signature` names the column with the signatures of the rows: what they share stands under the table,
    what some have besides in a footnote. `folded` names a column of truth values: HTML shows the rows where
    it is true in a table of their own, which a click unfolds.
    """

    title: str
    columns: tuple[TableColumn, ...]
    sections: tuple[str, ...] = ()
    signature: str = ""
    folded: str = ""


class Table(pd.DataFrame):
    """A data frame of results that shows its most important columns.

    Every operation gives a plain DataFrame. ``.attrs["note"]`` says how the numbers were made,
    and ``.attrs["warnings"]``, a list, how they must not be read.
    """

    _metadata = ["_layout"]  # noqa: RUF012 - pandas keeps these attributes when it pickles

    def __init__(self, frame: pd.DataFrame, layout: TableLayout) -> None:
        super().__init__(frame)  # type: ignore[call-arg] # the stubs have __new__ alone
        self.attrs = dict(frame.attrs)
        self._layout = layout

    @property
    def frame(self) -> pd.DataFrame:
        """All columns, as a plain DataFrame."""
        return self.copy()

    def to_html(self) -> str:  # type: ignore[override]
        """Return the shown columns as an HTML fragment for light and dark pages, everything escaped."""
        layout = self._layout
        mask = self[layout.folded] if layout.folded else pd.Series(data=False, index=self.index)
        if mask.all() or not mask.any():
            return grid_html(self._grid())
        first, folded = (Table(self.frame[rows], layout._replace(folded="")) for rows in (~mask, mask))
        folded.attrs = {}
        summary = f"<summary>{label(layout.folded)} ({len(folded):,})</summary>"
        return f"{first.to_html()}<details>{summary}{folded.to_html()}</details>"

    def to_latex(self, label: str = "tab:results") -> str:  # type: ignore[override]
        r"""Return the shown columns as a LaTeX ``table``.

        It needs ``\usepackage{array,booktabs,graphicx}``.
        """
        return grid_latex(self._grid(), label)

    def to_markdown(self) -> str:  # type: ignore[override]
        """Return the shown columns as GitHub Markdown."""
        return grid_markdown(self._grid())

    def to_csv(self, path: Any = None, *, index: bool = False, **options: Any) -> Any:  # type: ignore[override]
        """Write all columns as CSV; options as for ``DataFrame.to_csv``."""
        return self.frame.to_csv(path, index=index, **options)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        return grid_text(self._grid())

    __str__ = __repr__

    def _grid(self) -> Grid:
        layout, note = self._layout, self.attrs.get("note", ())
        columns, footer, records = layout.columns, "", self.to_dict("records")
        marks: dict[str, str] = {}
        rest = [""] * len(records)
        if layout.signature:
            sets = _SETS.isdisjoint([*layout.sections, *(column.name for column in columns)])
            shared, rest = split_signatures(self[layout.signature], sets=sets)
            footer = f"{label(layout.signature)}: {shared}" if shared else ""
            marks = {text: footnote_mark(k) for k, text in enumerate(dict.fromkeys(filter(None, rest)))}
        named = next((k for k, column in enumerate(columns) if column.style in _TEXT), 0)
        sections: dict[str, list[list[Cell]]] = {}
        for row, signature in zip(records, rest, strict=True):
            heading = ", ".join(_named(name, row[name]) for name in layout.sections)
            cells = [_cell(column, row) for column in columns]
            cells[named] = cells[named]._replace(mark=marks.get(signature, ""))
            sections.setdefault(heading, []).append(cells)
        notes = tuple(filter(None, (note,) if isinstance(note, str) else note))
        footnotes = [(mark, f"{label(layout.signature)}: {text}") for text, mark in marks.items()]
        warned = self.attrs.get("warnings", ())
        return Grid(layout.title, list(map(_heading, columns)), sections, notes, footer, footnotes, warned)


def _heading(column: TableColumn) -> Heading:
    texts, style = column_label(column.name), column.style if isinstance(column.style, str) else ""
    unit = _UNITS.get(style, "" if texts.unit == "%" else texts.unit)
    text = column.heading or texts.label
    name = f"{text} ({unit})" if unit and style not in _TEXT else text
    return Heading(name, column.tooltip or tooltip(column.name), style not in _TEXT)


def _text(value: Any) -> str:
    missing = pd.api.types.is_scalar(value) and pd.isna(value)
    return MISSING if missing or value == "" else str(value)


def _named(name: str, value: Any) -> str:
    text = _text(value)
    return f"{label(name).lower()} not stated" if text == MISSING else value_label(name, text)


def _cell(column: TableColumn, row: dict[Any, Any]) -> Cell:
    value, style = row[column.name], column.style
    if not isinstance(style, str):
        style_column, styles = style
        style = styles.get(row[style_column], "quantity")
    text, detail = MISSING, ""
    if style in _TEXT:
        text = WRITERS[style](value_label(column.name, _text(value)))
    elif _text(value) != MISSING:
        write, ends = WRITERS[style], column.interval
        text = write(value)
        detail = span(row[ends[0]], row[ends[1]], _BOUNDS.get(style, write)) if ends else ""
    if column.detail and (remark := _text(row[column.detail])) != MISSING:
        remark = value_label(value if style == "column" else column.detail, remark)
        detail = f"{detail} ({remark})".lstrip()
    return Cell(text, detail)


def split_signatures(signatures: Iterable[Any], *, sets: bool = True) -> tuple[str, list[str]]:
    """Return the fields that all signatures share, and the other fields of each but the number of its items.

    `sets` is True if these name the items too.
    """
    split_rows = [[] if pd.isna(text) else str(text).split("|") for text in signatures]
    filled = [row for row in split_rows if row]
    shared = [field for field in filled[0] if all(field in row for row in filled)] if filled else []
    rest = [[field for field in (row if sets else row[1:]) if field not in shared] for row in split_rows]
    texts = ["|".join(field for field in row if not field.startswith("n:")) for row in rest]
    return "|".join(shared), texts
