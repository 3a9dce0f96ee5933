"""Conditions on the columns of a table, written in SQL, and the columns as typed values.

A condition is what follows WHERE in DuckDB's SQL: ``n_tokens >= 60 and not direct_speech``,
``target_class in ('CN', 'NE')``, ``answer ilike '%ing%'``, ``list_contains(tags, 'hard')``,
``mention_distance is null``. The name of a column with spaces or signs is in double quotes
(``"3-gram: correct"``), text in single quotes. A row without a value passes no comparison, nor its negation;
only ``x is null``.

It is evaluated on the columns that it names, in a database in memory without access to files, to the network
or to its own settings. It is one expression: queries inside it are refused.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workbench.items.cells import check_encodable
from workbench.storage.errors import DataError

_MANY = (list, tuple, set, frozenset, np.ndarray)
_LISTED = 6  # columns in a message
_HEAD = "SELECT NULL FROM items WHERE "
_REFUSED = {
    "SUBQUERY": "a query inside it",
    "STAR": "an asterisk or COLUMNS",
    "POSITIONAL_REFERENCE": "a column by its number",
}
_EXAMPLE = "a condition is, for example: target_class = 'CN' and n_tokens > 60"


class Reference(NamedTuple):
    """A name in a condition, and where it stands in its UTF-8 bytes."""

    identifiers: tuple[str, ...]  # more than one if it is written with dots
    start: int
    end: int


@cache
def _database() -> Any:
    """Return the database in memory in which conditions are read and evaluated."""
    import duckdb  # noqa: PLC0415 - slow to import

    return duckdb.connect(
        ":memory:",
        config={
            "enable_external_access": "false", "python_enable_replacements": "false",
            "errors_as_json": "true", "lock_configuration": "true",
        },
    )  # fmt: skip


def _syntax_tree(text: str) -> dict[str, Any]:
    """Return DuckDB's syntax tree of one or several statements, or its error."""
    with _database().cursor() as cursor:
        (tree,) = cursor.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    return json.loads(tree)  # type: ignore[no-any-return]


@lru_cache(maxsize=64)
def references(where: str) -> tuple[Reference, ...]:
    """Return the names of columns in a condition, in the order of the text; none for an empty condition.

    DataError unless the text is one expression on columns.
    """
    check_encodable(where, "the condition")
    if not where.strip():
        return ()
    tree = _syntax_tree(_HEAD + where)
    if tree["error"] and tree["error_type"] == "parser":
        byte = int(tree["position"]) - len(_HEAD)
        raise _refusal(where, f"the condition has a {tree['error_message']}", byte, hint=_EXAMPLE)
    statements = [] if tree["error"] else tree["statements"]
    plain = _syntax_tree(_HEAD + "true")["statements"]
    expression = statements[0]["node"].pop("where_clause", None) if len(statements) == 1 else None
    plain[0]["node"].pop("where_clause")
    if expression is None or statements != plain:  # whatever else is there follows a condition
        raise DataError(f"expected one condition, got {where!r:.200}", hint=_EXAMPLE)
    return tuple(_references(where, expression))


def _references(where: str, node: Any, parameters: frozenset[str] = frozenset()) -> Iterator[Reference]:
    """Yield the names of columns in a part of a syntax tree, without those of lambda `parameters`."""
    if isinstance(node, list):
        for child in node:
            yield from _references(where, child, parameters)
    if not isinstance(node, dict):
        return
    node_class, byte = node.get("class"), node.get("query_location", 0) - len(_HEAD)
    if node_class in _REFUSED:
        raise _refusal(where, f"a condition cannot have {_REFUSED[node_class]}", byte, hint=_EXAMPLE)
    if node_class == "COLUMN_REF":
        identifiers = tuple(node["column_names"])
        if identifiers[0] not in parameters:
            yield Reference(identifiers, byte, byte + node.get("query_location_length", 1))
        return
    if node_class == "LAMBDA":
        names = (each.identifiers[0] for each in _references(where, node["lhs"]))
        yield from _references(where, node["expr"], parameters.union(names))
        return
    for child in node.values():
        yield from _references(where, child, parameters)


def _character(where: str, byte: int) -> int:
    return len(where.encode()[: max(0, byte)].decode(errors="ignore"))


def _refusal(where: str, problem: str, byte: int, end: int | None = None, *, hint: str = "") -> DataError:
    """Return the error about a place of a condition (in bytes), to which a line of carets points."""
    start = _character(where, byte)
    first = where.rfind("\n", 0, start) + 1
    line = where[first:].split("\n", 1)[0]
    width = 1 if end is None else max(1, _character(where, end) - start)
    carets = " " * (start - first) + "^" * min(width, max(1, len(line) - (start - first)))
    return DataError(f"{problem}{f' -- {hint}' if hint else ''}\n{line}\n{carets}")


def columns_of(where: str, names: Iterable[str]) -> list[str]:
    """Return the columns that a condition uses, of those with these names; case does not matter.

    DataError if there is no such column, with the names that are like it, or if two of them differ only in
    case.
    """
    names, columns = list(names), dict[str, str]()
    for reference in references(where):
        name = ".".join(reference.identifiers)
        matches = [name] if name in names else [each for each in names if each.lower() == name.lower()]
        if len(reference.identifiers) > 1 or not matches:
            close = difflib.get_close_matches(name, names)
            listed = ", ".join(map(quoted, close or names[:_LISTED]))
            text = "'{}'".format(name.replace("'", "''"))
            hint = (
                f"did you mean {listed}?" if close else f"text is quoted ({text}); columns are {listed} ..."
            )
            raise _refusal(
                where, f"there is no column {quoted(name)}", reference.start, reference.end, hint=hint
            )
        column = columns.setdefault(matches[0].lower(), matches[0])
        if column != matches[0]:
            problem = f"the columns {quoted(column)} and {quoted(matches[0])} differ only in case"
            raise DataError(f"{problem}, which SQL does not tell apart", hint="rename one of them")
    return list(columns.values())


def quoted(name: str) -> str:
    """Return the name of a column as SQL has it: in double quotes unless it is a plain word."""
    plain = name.isascii() and name.isidentifier() and name.lower() not in _keywords()
    return name if plain else '"{}"'.format(name.replace('"', '""'))


@cache
def _keywords() -> frozenset[str]:
    query = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category != 'unreserved'"
    with _database().cursor() as cursor:
        return frozenset(word for (word,) in cursor.execute(query).fetchall())


def where_mask(frame: pd.DataFrame, where: str) -> NDArray[np.bool_]:
    """Return the rows of a frame for which a condition holds, as an array of bool (n,).

    Every error in the condition is a DataError that shows the place.
    """
    import duckdb  # noqa: PLC0415 - slow to import

    columns = columns_of(where, map(str, frame.columns))
    if not where.strip():
        return np.ones(len(frame), dtype=np.bool_)
    row = "row_" + "_".join(columns)  # longer than the name of any column that is used
    arrays = {name: Cells(frame, name).arrow() for name in columns}
    head = f"SELECT {quoted(row)} FROM items WHERE "  # noqa: S608 - names are quoted, the condition is checked
    mask = np.zeros(len(frame), dtype=np.bool_)
    with _database().cursor() as cursor:
        cursor.register("items", pa.table(arrays | {row: np.arange(len(frame))}))
        try:
            mask[cursor.execute(head + where).fetchnumpy()[row]] = True
        except duckdb.Error as error:
            raise _evaluation_error(where, str(error), len(head.encode())) from None
    return mask


def _evaluation_error(where: str, text: str, first: int) -> DataError:
    """Return an error of DuckDB as one about the condition, which begins at the byte `first` of the query."""
    _, _, details = text.partition(": ")
    message = json.loads(details) if details.startswith("{") else {"exception_message": text}
    location = message.get("location", f"[{message.get('position', first)},1]")
    start, length = map(int, location.strip("[]").split(","))
    problem = f"the condition: {message['exception_message']}"
    return _refusal(where, problem, start - first, start - first + length)


def values_of(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of categories as a column of their values, with missing ones; another as it is."""
    is_categorical = isinstance(column.dtype, pd.CategoricalDtype)
    return column.astype(object).convert_dtypes() if is_categorical else column


class Cells:
    """A column as typed values: numbers, text, labels (lists of text), "yes or no", or nothing.

    ``missing`` is an array of bool (n,); ``data`` has numbers or truth values (NumPy), text (Arrow), or a
    tuple of labels per row.
    """

    def __init__(self, frame: pd.DataFrame, name: str) -> None:
        column = values_of(frame[name])
        self.missing: NDArray[np.bool_] = column.isna().to_numpy(dtype=bool)
        self.value_type = "text"
        self.data: Any = None
        inferred = pd.api.types.infer_dtype(column, skipna=True)
        if any(isinstance(cell, _MANY) for cell in column.head(1000)):
            rows = [cell if isinstance(cell, _MANY) else () for cell in column]
            self.value_type, self.data = "labels", [tuple(map(str, row)) for row in rows]
            self.missing = np.array([not len(row) for row in rows], dtype=np.bool_)
        if self.missing.all():
            self.value_type = "nothing"
        elif inferred == "boolean":
            self.value_type = "yes or no"
            self.data = column.astype("boolean").to_numpy(dtype=bool, na_value=False)
        elif pd.api.types.is_numeric_dtype(column) or inferred in {
            "integer",
            "floating",
            "mixed-integer-float",
        }:
            self.value_type, self.data = "numbers", column.to_numpy(dtype=float, na_value=np.nan)
        elif self.value_type == "text":
            self.data = pa.array(column.astype("str"), pa.large_string(), from_pandas=True)

    def arrow(self) -> pa.Array:
        """Return the column as an Arrow array with nulls."""
        if self.value_type == "nothing":
            return pa.nulls(len(self.missing))
        return self.data if self.value_type == "text" else pa.array(self.data, mask=self.missing)

    def equal(self, values: Sequence[Any]) -> NDArray[np.bool_]:
        """Return the rows with one of the values, as an array of bool (n,)."""
        if self.value_type == "labels":
            return np.array([not set(values).isdisjoint(row) for row in self.data], dtype=np.bool_)
        if self.value_type == "text":
            rows = pc.is_in(self.data, value_set=pa.array(values, pa.large_string()))
            return np.asarray(rows, dtype=np.bool_) & ~self.missing
        if self.value_type == "nothing":
            return np.zeros(len(self.missing), dtype=np.bool_)
        return np.isin(self.data, values) & ~self.missing
