"""CSV: rows that know their line, and text that no spreadsheet runs as a formula."""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path

Formulas = Literal["keep", "quote"]
"""What is done with text that a spreadsheet would run as a formula."""

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def spreadsheet_safe(frame: pd.DataFrame, formulas: Formulas = "quote") -> pd.DataFrame:
    r"""Return a frame whose text, names of rows and columns included, a spreadsheet shows and does not run.

    ``"quote"`` puts an apostrophe before text that begins with ``=``, ``+``, ``-``, ``@``, a tab or an end of
    line (after apostrophes, too); ``"keep"`` changes nothing. To read text back as it was, take one off:
    ``frame.replace(r"^'(?='*[=+\-@\t\r\n])", "", regex=True)``.

    Examples
    --------
    >>> import pandas as pd
    >>> from workbench.storage.spreadsheet import spreadsheet_safe
    >>> print(spreadsheet_safe(pd.DataFrame({"word": ["=1+1", "dog"], "ln p": [-2.5, -3.0]})).to_csv(index=False))
    word,ln p
    '=1+1,-2.5
    dog,-3.0
    <BLANKLINE>
    """  # noqa: E501 - as it is typed
    if formulas not in ("keep", "quote"):
        raise DataError(f"formulas is {formulas!r}", remedy='use "keep" or "quote"')
    return frame if formulas == "keep" else frame.map(_quoted).rename(index=_quoted, columns=_quoted)


def write_csv(
    frame: pd.DataFrame, path: Any = None, *, index: bool = False, formulas: Formulas = "keep", **options: Any
) -> Any:
    """Write a frame as CSV, to a file atomically; return it as text without a path."""
    safe = pd.DataFrame(spreadsheet_safe(frame, formulas))
    if not isinstance(path, str | Path):
        return safe.to_csv(path, index=index, **options)
    with atomic_path(path) as temporary:
        return safe.to_csv(temporary, index=index, **options)


def separated_rows(text: str, path: Path, separator: str) -> Iterator[tuple[int, list[str]] | DataError]:
    """Yield the filled rows of a table, each with its line, the header first.

    In the place of a row that is broken, or has more or fewer cells than the header, stands its error. Raise
    DataError if the header names a column twice. pandas fills short rows up, takes the first cell of long
    ones for an index, renames columns, and does not tell lines.
    """
    csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))  # a passage may be long
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    remedy = "put quotes around cells that hold separators or line ends, and leave no cell out"
    header: list[str] | None = None
    while True:
        line, problem, row = reader.line_num + 1, "", []
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = f"this is not a row of a table ({error})"
            if "end of data" in str(error):
                problem = "the file ends within this row: was it written or downloaded to its end?"
        if not (problem or any(cell.strip() for cell in row)):
            continue
        if header is None and not problem:
            header = row
            names = Counter(cell.strip() for cell in header if cell)
            if twice := [name for name, count in names.items() if count > 1]:
                problem = f"the column {twice[0]!r} occurs twice"
                raise DataError(problem, file=path, line=line, remedy="rename one of them")
        elif header is not None and not problem and len(row) != len(header):
            problem = f"this row has {len(row)} cells, expected {len(header)} ({', '.join(header):.80})"
        yield DataError(problem, file=path, line=line, remedy=remedy) if problem else (line, row)


def _quoted(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
