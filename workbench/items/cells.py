"""Cells of a user's table: as JSON can hold them, as text, as words to choose from; and errors about them."""

from __future__ import annotations

import json
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.text import is_encodable
from workbench.storage.errors import DataError

_DEEPEST = 20  # lists in lists of a cell
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def check_options(options: Mapping[str, Any], what: str) -> None:
    """Raise DataError where an option is neither None nor a single name, or holds half a surrogate pair."""
    for option, value in options.items():
        if value is not None and (isinstance(value, list | tuple) or not pd.api.types.is_scalar(value)):
            remedy = f"{option}={shown(value[0])}" if isinstance(value, list | tuple) and value else None
            raise DataError(f"{option} is {shown(value)}, expected {what}", remedy=remedy)
        if value is not None and what == "a name" and not isinstance(value, str):
            raise DataError(f"{option} is {shown(value)}, expected {what}")
        if isinstance(value, str):
            check_encodable(value, option)


def check_encodable(text: str, what: str) -> None:
    """Raise DataError if a text cannot be written, which `what` names: it holds half a surrogate pair."""
    if not is_encodable(text):
        raise DataError(
            f"{what} holds half a surrogate pair, expected whole characters, got {shown(text)}",
            remedy="leave it out, or write the character as a whole",
        )


def plain_cell(value: Any, column: str, depth: int = 0) -> Any:
    """Return a cell as JSON can hold it; None for what is missing, the text of what has no such form."""
    if isinstance(value, np.ndarray | pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        value = value.tolist()
    if isinstance(value, list | tuple | Mapping):
        if depth == _DEEPEST:
            problem = (
                f"the column {column!r} has a cell that holds itself, or more than {_DEEPEST} lists in lists"
            )
            raise DataError(problem, remedy="leave the column out, or make text of it")
        if isinstance(value, Mapping):
            return {plain_cell(str(k), column): plain_cell(v, column, depth + 1) for k, v in value.items()}
        return [plain_cell(part, column, depth + 1) for part in value]
    value = value.item() if isinstance(value, np.generic) else value
    if _is_missing(value):
        return None
    value = value if isinstance(value, str | bool | int | float) else str(value)
    if isinstance(value, str):
        check_encodable(value, f"the column {column!r}")
    return value


def _is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NA or NaT."""
    try:
        return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))
    except ArithmeticError:  # a signalling NaN of decimal numbers
        return True


def shown(value: Any) -> str:
    """Return a value for a message, cut to a readable length."""
    return _SHORT.repr(value)


def text_cell(row: Mapping[str, Any], name: str) -> str | None:
    """Return the text of a cell, a number as text, None for what is missing; DataError for all else."""
    value = row.get(name)
    if isinstance(value, str):
        if not value.strip():
            raise DataError(f"the {name} is empty", remedy="leave it null where it is not known")
        check_encodable(value, f"the {name}")
        return value
    if _is_missing(value):
        return None
    if name == "answer" or not pd.api.types.is_scalar(value):
        expected = "a word" if name == "answer" else "text or a number"
        raise DataError(f"the {name} is {shown(value)}, expected {expected}")
    return str(value)


def cell_choices(value: Any) -> tuple[str, ...] | None:
    """Return the words to choose from: of a list, JSON, or joined by ``|``; None for what is missing."""
    if _is_missing(value):
        return None
    words = value.tolist() if isinstance(value, np.ndarray | pd.Series) else value
    if isinstance(value, str):
        try:
            words = json.loads(value) if value.startswith("[") else value.split("|")
        except ValueError:  # a bracket is a word too
            words = value.split("|")
    if not isinstance(words, Iterable) or isinstance(words, Mapping | pd.DataFrame):
        raise DataError(f"the candidates are {shown(value)}, expected a list of words")
    words = tuple(words)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise DataError(f"the candidates are {shown(value)}, expected words")
    return words
