"""Cells of a user's table: as JSON can hold them, as text, as words to choose from; and errors about them."""

from __future__ import annotations

import ast
import json
import reprlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd

from workbench.items.text import is_encodable
from workbench.storage.errors import DataError

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def check_options(options: Mapping[str, Any], expected: str) -> None:
    """Raise DataError where an option is neither None nor a single name, or holds half a surrogate pair."""
    for option, value in options.items():
        if value is not None and (isinstance(value, list | tuple) or not pd.api.types.is_scalar(value)):
            hint = f"{option}={shown(value[0])}" if isinstance(value, list | tuple) and value else None
            raise DataError(f"{option} is {shown(value)}, expected {expected}", hint=hint)
        if value is not None and expected == "a name" and not isinstance(value, str):
            raise DataError(f"{option} is {shown(value)}, expected {expected}")
        if isinstance(value, str):
            check_encodable(value, option)


def check_encodable(text: str, description: str) -> None:
    """Raise DataError if a text cannot be written: it holds half a surrogate pair; `description` names it."""
    if not is_encodable(text):
        raise DataError(
            f"{description} holds half a surrogate pair, expected whole characters, got {shown(text)}",
            hint="leave it out, or write the character as a whole",
        )


def plain_cell(value: Any, column: str) -> Any:
    """Return a cell as a JSON value; None if missing, text if JSON has no such type."""
    if isinstance(value, np.ndarray | pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {plain_cell(str(k), column): plain_cell(v, column) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_cell(element, column) for element in value]
    value = value.item() if isinstance(value, np.generic) else value
    if is_missing(value):
        return None
    value = value if isinstance(value, str | bool | int | float) else str(value)
    if isinstance(value, str):
        check_encodable(value, f"the column {column!r}")
    return value


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN, NA or NaT."""
    return value is None or (pd.api.types.is_scalar(value) and bool(pd.isna(value)))


def column_named(frame: pd.DataFrame, names: Iterable[str]) -> Any:
    """Return the column that has one of the given names in any case, by the first name there, or None."""
    for name in names:
        columns = [column for column in frame.columns if str(column).lower() == name]
        if len(set(columns)) > 1:
            problem = f"the columns {' and '.join(map(repr, columns))} have one name but for case"
            raise DataError(problem, hint="rename one of them")
        if columns:
            return columns[0]
    return None


def shown(value: Any) -> str:
    """Return a value for a message, cut to a readable length."""
    return _SHORT.repr(value)


def text_cell(row: Mapping[str, Any], name: str) -> str | None:
    """Return the text of a cell, a number as text, None if missing; DataError for other types."""
    value = row.get(name)
    if isinstance(value, str):
        if not value.strip():
            raise DataError(f"the {name} is empty", hint="leave it null where it is not known")
        check_encodable(value, f"the {name}")
        return value
    if is_missing(value):
        return None
    if name == "answer" or not pd.api.types.is_scalar(value):
        expected = "a word" if name == "answer" else "text or a number"
        raise DataError(f"the {name} is {shown(value)}, expected {expected}")
    return str(value)


def listed_cell(value: Any, separator: str) -> Any:
    """Return the list of a cell: an array, or a list in JSON or Python, else text cut at the separator.

    What is neither a list nor text stays as it is. DataError for text that begins as a list of words but is
    no list in JSON or Python, such as an array of NumPy, which has no commas.
    """
    if not isinstance(value, str):
        return value.tolist() if isinstance(value, np.ndarray | pd.Series) else value
    text = value.strip()
    if text.startswith("[") and text.endswith("]"):
        with suppress(ValueError, RecursionError):
            return json.loads(text)
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            words = ast.literal_eval(text)
            if "".join(repr(words).split()) == "".join(text.split()):  # Python joins words without commas
                return words
        if text[1:].lstrip().startswith(("'", '"')):
            problem = f"expected a list of words in JSON, got {shown(text)}"
            raise DataError(problem, hint='write it as ["one", "two"], or as one|two')
    return value.split(separator)  # a bracket is a word too


def cell_choices(value: Any) -> tuple[str, ...] | None:
    """Return the candidates of a cell: a list, JSON, or joined by ``|``; None if missing."""
    if is_missing(value):
        return None
    words = listed_cell(value, "|")
    if not isinstance(words, Iterable) or isinstance(words, Mapping | pd.DataFrame):
        raise DataError(f"the candidates are {shown(value)}, expected a list of words")
    words = tuple(words)
    if not words or not all(isinstance(word, str) and word for word in words):
        raise DataError(f"the candidates are {shown(value)}, expected words")
    return words


def json_cell(value: Any) -> Any:
    """Return a cell as a CSV file has it: lists, arrays and mappings as JSON, all else as it is."""
    if isinstance(value, list | tuple | dict | np.ndarray):
        return json.dumps(value, ensure_ascii=False, default=np.ndarray.tolist)
    return value


def index_as_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with its index as columns too: levels with a name, and words without one as "index"."""
    if not any(frame.index.names) and (len(frame) == 0 or pd.api.types.is_numeric_dtype(frame.index)):
        return frame
    frame = frame.copy(deep=False)
    for number, name in enumerate(frame.index.names):
        column = name if name is not None else "index" if frame.index.nlevels == 1 else f"index {number}"
        if column not in frame.columns:
            frame.insert(len(frame.columns), column, frame.index.get_level_values(number).array)
    return frame
