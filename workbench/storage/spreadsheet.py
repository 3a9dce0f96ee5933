"""CSV whose text no spreadsheet runs as a formula."""

from __future__ import annotations

import re
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


def _quoted(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
