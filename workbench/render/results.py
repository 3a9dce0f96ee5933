"""Data frames of results: a notebook shows the most important columns, Python has all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

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
from workbench.storage.errors import check_option

WRITERS: Mapping[str, Callable[[Any], str]] = {
    "text": str,  # to the left
    "column": label,  # the name of a column, to the left
    "time": lambda moment: moment[:16].replace("T", " "),  # of 2026-11-22T20:35:42, to the left
    "number": str,  # as it is, to the right
    "printed percent": "{} %".format,
    "count": partial(fixed, digits=0),  # 1,234
    "share": partial(percent, unit=False),  # 0.123 as 12.3; the heading names the unit
    "percent": percent,  # 0.123 as 12.3 %
    "percentage": lambda number: f"{fixed(number, 1)} %",  # 12.3 as 12.3 %
    "points": points,  # 0.012 as +1.2; the heading names the unit
    "unsigned points": lambda share: fixed(100 * share, 1),  # 0.012 as 1.2; the heading names the unit
    "percentage points": lambda share: f"{points(share)} points",  # 0.012 as +1.2 points
    "quantity": quantity,  # 12.34; all numbers of a column have as many decimals
    "seconds": quantity,  # 183, or 0.5 where one is shorter than 10
    "perplexity": perplexity,  # 8.63
    "rank": mid_rank,  # 28.5
    "money": partial(fixed, digits=2),  # 1,234.50; the heading names the currency
    "signed": partial(quantity, sign=True),  # +12.3; all numbers of a column have as many decimals
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

_TEXT = ("text", "column", "time")
_ALIGNED = ("quantity", "signed", "seconds")
_WHOLE = 1000  # numbers from here on have no decimals
_LARGE = 1e9  # and from here on a power of ten
_SETS = {"dataset", "split", "variant", "word_class"}
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
    codes : str, optional
        The column of :data:`workbench.render.labels.VALUE_LABELS` that has the values' labels, by default
        the one with the column's name.
    """

    name: str
    style: str | tuple[str, Mapping[str, str]] = "text"
    interval: tuple[str, str] | None = None
    detail: str = ""
    heading: str = ""
    tooltip: str = ""
    codes: str = ""


def with_interval(name: str, style: str, **texts: str) -> TableColumn:
    """Return a column whose interval is in ``<name>_low`` and ``<name>_high``."""
    return TableColumn(name, style, (f"{name}_low", f"{name}_high"), **texts)


class TableLayout(NamedTuple):
    """Display settings of a frame: a caption, columns, and columns whose values head a section of rows.

    `signature` names the column with the signatures of the rows: what they share stands under the table,
    what some have besides in a footnote; both open on a click in HTML. Columns without any value are not
    shown. `folded` names a column of truth values: HTML shows the rows where
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

    def to_latex(  # type: ignore[override]
        self,
        label: str = "tab:results",
        *,
        columns: Sequence[str] | None = None,
        width: Literal["page", "column"] = "page",
        signatures: bool = False,
    ) -> str:
        r"""Return a LaTeX ``table``, which needs ``\usepackage{array,booktabs,graphicx}``.

        Parameters
        ----------
        label : str, default "tab:results"
            Label for references.
        columns : sequence of str, optional
            Columns of the frame, in this order; by default those that are shown.
        width : {"page", "column"}
            Width that the table must fit: a page, to which it is shrunk, or one of two columns (3 inches).
            In a column no text is smaller than 7 points: long texts are broken, and intervals stand below
            their numbers where there is no room beside them.
        signatures : bool, default False
            Print what was measured, and how, below the table.

        Raises
        ------
        DataError
            If the frame has no such column, or the columns do not fit; the message names those that do.

        Examples
        --------
        >>> latex = wb.evaluate(runs).to_latex(columns=["model", "accuracy"], width="column")
        """
        check_option("width", width, ("page", "column"))
        grid = self._grid(columns, signatures=signatures)
        return grid_latex(grid, label, is_narrow=width == "column")

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

    def _grid(self, names: Sequence[str] | None = None, *, signatures: bool = True) -> Grid:
        """Return the columns that are shown, or those with these names, as text."""
        layout, note = self._layout, self.attrs.get("note", ())
        columns, footer, records = layout.columns, "", self.to_dict("records")
        if names is not None:
            columns = tuple(self._named_column(name) for name in names)
        elif records:
            columns = tuple(
                column for column in columns if any(_text(row[column.name]) != MISSING for row in records)
            )
        marks: dict[str, str] = {}
        rest = [""] * len(records)
        if layout.signature and signatures:
            sets = _SETS.isdisjoint([*layout.sections, *(column.name for column in columns)])
            shared, rest = split_signatures(self[layout.signature], sets=sets)
            footer = f"{label(layout.signature)}: {shared}" if shared else ""
            marks = {text: footnote_mark(k) for k, text in enumerate(dict.fromkeys(filter(None, rest)))}
        named = next((k for k, column in enumerate(columns) if column.style in _TEXT), 0)
        writers = [_column_writers(column, records) for column in columns]
        sections: dict[str, list[list[Cell]]] = {}
        for row, signature in zip(records, rest, strict=True):
            heading = ", ".join(_named(name, row[name]) for name in layout.sections)
            cells = [_cell(column, row, write) for column, write in zip(columns, writers, strict=True)]
            cells[named] = cells[named]._replace(mark=marks.get(signature, ""))
            sections.setdefault(heading, []).append(cells)
        notes = tuple(filter(None, (note,) if isinstance(note, str) else note))
        footnotes = [(mark, f"{label(layout.signature)}: {text}") for text, mark in marks.items()]
        warned = self.attrs.get("warnings", ())
        return Grid(layout.title, list(map(_heading, columns)), sections, notes, footer, footnotes, warned)

    def _named_column(self, name: str) -> TableColumn:
        """Return the settings of a column of the frame."""
        check_option("columns", name, [*map(str, self.columns)])
        plain = TableColumn(name, "quantity" if pd.api.types.is_float_dtype(self[name]) else "text")
        return next((column for column in self._layout.columns if column.name == name), plain)


def _heading(column: TableColumn) -> Heading:
    texts, style = column_label(column.name), column.style if isinstance(column.style, str) else ""
    unit = _UNITS.get(style, "" if texts.unit == "%" else texts.unit)
    text = column.heading or texts.label
    name = f"{text} ({unit})" if unit and style not in _TEXT else text
    return Heading(name, column.tooltip or tooltip(column.name), style not in _TEXT, bool(style))


def _text(value: Any) -> str:
    missing = pd.api.types.is_scalar(value) and pd.isna(value)
    return MISSING if missing or value == "" else str(value)


def _named(name: str, value: Any) -> str:
    text = _text(value)
    return f"{label(name).lower()} not stated" if text == MISSING else value_label(name, text)


def _style(column: TableColumn, row: Mapping[Any, Any]) -> str:
    if isinstance(column.style, str):
        return column.style
    decisive, styles = column.style
    return styles.get(row[decisive], "quantity")


def _column_writers(
    column: TableColumn, rows: Sequence[Mapping[Any, Any]]
) -> Mapping[str, Callable[[Any], str]]:
    """Return the formats of a column by style: numbers of one style have equally many decimals."""
    writers = dict(WRITERS)
    for style in _ALIGNED:
        values = [row[column.name] for row in rows if _style(column, row) == style]
        sizes = [abs(float(value)) for value in values if not pd.isna(value)]
        sizes = [size for size in sizes if 0 < size < math.inf]
        if not sizes or max(sizes) >= _LARGE:
            continue
        least, largest = (math.floor(math.log10(end(sizes))) for end in (min, max))
        decimals = 0 if min(sizes) >= _WHOLE else max(1, min(1 - least, max(2, 3 - largest)))
        if style == "seconds":
            decimals = int(least < 1)
        writers[style] = partial(fixed, digits=decimals, sign=style == "signed")
    return writers


def _cell(column: TableColumn, row: Mapping[Any, Any], writers: Mapping[str, Callable[[Any], str]]) -> Cell:
    value, style = row[column.name], _style(column, row)
    text, detail, number = MISSING, "", None
    if style in _TEXT:
        text = writers[style](value_label(column.codes or column.name, _text(value)))
    elif _text(value) != MISSING:
        write, ends = writers[style], column.interval
        text, number = write(value), None if isinstance(value, str) else float(value)
        detail = span(row[ends[0]], row[ends[1]], _BOUNDS.get(style, write)) if ends else ""
    if column.detail and (remark := _text(row[column.detail])) != MISSING:
        remark = value_label(value if style == "column" else column.detail, remark)
        detail = f"{detail} ({remark})".lstrip()
    return Cell(text, detail, number=number)


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
