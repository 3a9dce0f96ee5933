"""Filters that are typed: ``target_class = CN and mention_distance > 40 and not direct_speech``.

===============================  ===================================================================
``n_tokens >= 60``               numbers are compared by ``=``, ``!=``, ``<``, ``<=``, ``>``, ``>=``
``target_class = CN``, ``!=``    the same text, in the same case (``==`` is ``=``)
``split in (dev, test)``         one of several values; ``not in``: none of them
``answer contains "ing"``        a part of the text, in any case; ``not contains``
``tags contains hard``           one label of a list, in any case (``=`` and ``in``: in the same case)
``direct_speech``, ``= false``   columns of yes and no
``mention_distance is missing``  or ``is null``; ``is not missing``
``and``, ``or``, ``not``, ``()`` or ``&``, ``|``, ``!``
===============================  ===================================================================

A value with spaces or signs is quoted (``"New York"``), as is a word of the language (``"missing"``) or a
number that is text (``book_id = "1342"``); the name of a column with spaces or signs is set in backticks.

A row without a value passes no comparison, neither ``x = a`` nor ``x != a``; only ``x is missing``. Logic has
two values: ``not (x > 3)`` holds for a row without a value, because ``x > 3`` does not.
"""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import lark
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workbench.items.cells import check_encodable
from workbench.storage.errors import DataError

_LISTED = 20  # suggestions
_EXACT = 2**53  # whole numbers up to this one are exact
_MANY = (list, tuple, set, frozenset, np.ndarray)
_TRUTH = {"true": True, "yes": True, "false": False, "no": False}
_ORDER = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
_Value = str | bool | float
_KINDS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "numbers": (int | float, ("=", "!=", ">", ">=", "<", "<=", "in", "not in")),
    "text": (str, ("=", "!=", "in", "not in", "contains", "not contains")),
    "labels": (str, ("contains", "not contains", "=", "!=", "in", "not in")),
    "yes or no": (bool, ("=", "!=", "in", "not in")),
}
"""What a column can hold: the type of the values that it is compared with, and the operators."""

_IN_WORD = r"[\w@.:/'-]"
_RESERVED = rf"(?!(?i:and|or|not|in|is|missing|null|contains|true|false)(?!{_IN_WORD}))"
_NAME = rf"{_RESERVED}[^\W\d]\w*(?:\.\w+)*"
_WORD = rf"{_RESERVED}[\w@]{_IN_WORD}*"
_NUMBER = rf"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!{_IN_WORD})"
_STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
_BACKTICKS = "`(?:[^`]|``)+`"
_GRAMMAR = r"""
    ?either: both (_OR both)*
    ?both: single (_AND single)*
    ?single: _NOT single -> negation
        | "(" either ")"
        | column -> truth
        | column OPERATOR value
        | column _IN "(" value ("," value)* ")" -> choice
        | column _NOT _IN "(" value ("," value)* ")" -> exclusion
        | column _CONTAINS part -> containing
        | column _NOT _CONTAINS part -> lacking
        | column _IS _MISSING -> missing
        | column _IS _NOT _MISSING -> present
    column: NAME | BACKTICKS
    value: NUMBER | TRUTH | STRING | WORD
    part: NUMBER | TRUTH | STRING | WORD
    OPERATOR: /==|!=|>=|<=|=|<|>/
    _AND: /and(?!\w)|&&?/i
    _OR: /or(?!\w)|\|\|?/i
    _NOT: /not(?!\w)|!(?!=)/i
    _IN: /in(?!\w)/i
    _IS: /is(?!\w)/i
    _CONTAINS: /contains(?!\w)/i
    _MISSING: /(missing|null)(?!\w)/i
    TRUTH.2: /(true|false)(?!<_IN_WORD>)/i
    NUMBER.2: /<_NUMBER>/
    NAME: /<_NAME>/
    WORD: /<_WORD>/
    BACKTICKS: /<_BACKTICKS>/
    STRING: /<_STRING>/s
    %ignore /\s+/
"""
_EXPECTED = {
    "NAME": "a column", "WORD": "a value", "OPERATOR": "an operator such as = or >", "_AND": "and",
    "_OR": "or", "_IN": "in", "_IS": "is", "_CONTAINS": "contains", "_NOT": "not", "_MISSING": "missing",
    "LPAR": "(", "RPAR": ")", "COMMA": "a comma", "$END": "the end",
}  # fmt: skip
_PIECES = re.compile(rf"""{_STRING}|{_BACKTICKS}|\s+|(?P<word>[`"'].*|[\w@]{_IN_WORD}*)|.""", re.DOTALL)


@dataclass(frozen=True, repr=False)
class Query:
    """A filter over the columns of a table: :func:`parse` reads one, ``str`` writes it.

    ``a & b``, ``a | b`` and ``~a`` combine filters.
    """

    operator: str  # and, or, not (of `subqueries`); is missing, is true, or a comparison (of `column`)
    column: str = ""
    operands: tuple[_Value, ...] = ()
    subqueries: tuple[Query, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the filter names, each once, in the order of the text."""
        inner = (name for subquery in self.subqueries for name in subquery.columns)
        return tuple(dict.fromkeys(inner)) if self.subqueries else (self.column,)

    @property
    def clauses(self) -> tuple[Query, ...]:
        """The filters that all have to hold: those joined by ``and``, or this one."""
        return self.subqueries if self.operator == "and" else (self,)

    @property
    def alternatives(self) -> tuple[Query, ...]:
        """The filters of which one has to hold: those joined by ``or``, one a value."""
        if self.operator == "or":
            return tuple(each for subquery in self.subqueries for each in subquery.alternatives)
        if self.operator == "is true":
            return (Query("=", self.column, (True,)),)
        if self.operator == "in":
            return tuple(Query("=", self.column, (value,)) for value in self.operands)
        return (self,)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The least and the greatest number that pass; None if the filter is not one range of numbers."""
        low, high = -math.inf, math.inf
        for clause in self.clauses:
            present = clause.operator == "not" and clause.subqueries[0].operator == "is missing"
            if clause.operator not in {"=", *_ORDER} and not present:
                return None
            for value in clause.operands:
                if isinstance(value, str | bool):
                    return None
                beyond = {"<": -math.inf, ">": math.inf}.get(clause.operator)
                end = float(value) if beyond is None else math.nextafter(value, beyond)
                low = max(low, end) if clause.operator in "=>=" else low
                high = min(high, end) if clause.operator in "=<=" else high
        return low, high

    def mask(self, frame: pd.DataFrame) -> NDArray[np.bool_]:
        """Return the rows of a frame that pass, as an array of bool (n,).

        DataError if the frame has no such column, or the column holds something else than it is compared
        with.
        """
        masks = [subquery.mask(frame) for subquery in self.subqueries]
        if masks:
            combine = operator.or_ if self.operator == "or" else operator.and_
            return ~masks[0] if self.operator == "not" else reduce(combine, masks)
        cells = Cells(frame, self.column)
        return cells.missing if self.operator == "is missing" else self._compare(cells) & ~cells.missing

    def _compare(self, cells: Cells) -> NDArray[np.bool_]:
        sign, values = ("=", [True]) if self.operator == "is true" else (self.operator, [*self.operands])
        if cells.value_type == "nothing":
            return ~cells.missing
        if cells.value_type == "yes or no":
            values = [_TRUTH.get(v.lower(), v) if isinstance(v, str) else v for v in values]
        value_type, operators = _KINDS[cells.value_type]
        fits = all(isinstance(v, value_type) and isinstance(v, bool) == (value_type is bool) for v in values)
        if sign not in operators or not fits:
            name, example = _write_column(self.column), cells.choices()[0]
            remedy = f"use {', '.join(operators)}; for example: {name} {operators[0]} {example}"
            if sign in operators and value_type is str and self.operator != "is true":
                quoted = Query(
                    sign, self.column, tuple(v if isinstance(v, str) else _write(v) for v in values)
                )
                remedy = f"quote the value: {quoted}"
            problem = f"the filter {str(self)!r} does not fit the column {name}"
            raise DataError(f"{problem}, which holds {cells.value_type}, such as {example}", remedy=remedy)
        if sign in _ORDER:
            return np.asarray(_ORDER[sign](cells.data, values[0]), dtype=bool)
        mask = cells.contain(str(values[0])) if sign.endswith("contains") else cells.equal(values)
        return ~mask if sign.startswith(("!", "not ")) else mask

    def __and__(self, other: Query) -> Query:
        return all_of([self, other])

    def __or__(self, other: Query) -> Query:
        return any_of([self, other])

    def __invert__(self) -> Query:
        return self.subqueries[0] if self.operator == "not" else Query("not", subqueries=(self,))

    def __repr__(self) -> str:
        return f"parse({str(self)!r})"

    def __str__(self) -> str:
        if self.operator == "not" and self.subqueries[0].operator == "is missing":
            return f"{_write_column(self.subqueries[0].column)} is not missing"
        if self.subqueries:
            looser = {"and": {"or"}, "not": {"and", "or"}}.get(self.operator, set())
            texts = [f"({each})" if each.operator in looser else str(each) for each in self.subqueries]
            return f"not {texts[0]}" if self.operator == "not" else f" {self.operator} ".join(texts)
        name, values = _write_column(self.column), ", ".join(map(_write, self.operands))
        if self.operator.endswith("in"):
            values = f"({values})"
        return name if self.operator == "is true" else f"{name} {self.operator} {values}".rstrip()


def all_of(queries: Iterable[Query]) -> Query:
    """Return the filter that holds where all of one or more hold."""
    return _joined("and", queries)


def any_of(queries: Iterable[Query]) -> Query:
    """Return the filter that holds where one of one or more holds."""
    return _joined("or", queries)


def is_one_of(column: str, values: Iterable[Any]) -> Query:
    """Return the filter for one of one or more values."""
    return _compared(column, "in", *values)


def between(column: str, low: float, high: float) -> Query:
    """Return the filter for a closed range of numbers; an infinite end is left open."""
    if low == high:
        return _compared(column, "=", low)
    ends = [_compared(column, sign, end) for sign, end in ((">=", low), ("<=", high)) if math.isfinite(end)]
    return all_of(ends or [~Query("is missing", column)])


def _joined(word: str, queries: Iterable[Query]) -> Query:
    subqueries: list[Query] = []
    for query in queries:
        subqueries += query.subqueries if query.operator == word else [query]
    return Query(word, subqueries=tuple(subqueries)) if len(subqueries) > 1 else subqueries[0]


def _compared(column: str, sign: str, *values: Any) -> Query:
    """Return a comparison in its one form: a choice of one value is "=", and 60.0 is 60."""
    if len(values) == 1:
        sign = {"==": "=", "in": "=", "not in": "!="}.get(sign, sign)
    return Query(sign, column, tuple(_plain(v) if _is_number(v) else v for v in values))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _plain(number: float) -> int | float:
    return int(number) if abs(number) <= _EXACT and number == int(number) else float(number)


def _write(value: _Value) -> str:
    if not isinstance(value, str):
        return str(value).lower() if isinstance(value, bool) else repr(value)
    bare = re.fullmatch(_WORD, value) and not re.fullmatch(_NUMBER, value)
    return value if bare else '"{}"'.format(re.sub(r'(["\\])', r"\\\1", value))


def _write_column(name: str) -> str:
    return name if re.fullmatch(_NAME, name) else f"`{name.replace('`', '``')}`"


def values_of(column: pd.Series[Any]) -> pd.Series[Any]:
    """Return a column of categories as a column of their values, with missing ones; another as it is."""
    is_categorical = isinstance(column.dtype, pd.CategoricalDtype)
    return column.astype(object).convert_dtypes() if is_categorical else column


class Cells:
    """A column: its type of values (a key of `_KINDS`, or "nothing"), and the rows without a value.

    ``missing`` is an array of bool (n,); ``data`` has numbers or truth values (NumPy), text (Arrow), or a
    frozenset of labels a row.
    """

    def __init__(self, frame: pd.DataFrame, name: str) -> None:
        if name not in frame.columns:
            names = [*map(str, frame.columns)]
            close = " or ".join(difflib.get_close_matches(name, names))
            remedy = f"{f'did you mean {close}? ' if close else ''}There are {', '.join(names)}"
            raise DataError(f"there is no column {name!r}", remedy=remedy)
        column = values_of(frame[name])
        self.missing: NDArray[np.bool_] = column.isna().to_numpy(dtype=bool)
        self.value_type = "text"
        self.data: Any = None
        inferred = pd.api.types.infer_dtype(column, skipna=True)
        if any(isinstance(cell, _MANY) for cell in column.head(1000)):
            rows = [cell if isinstance(cell, _MANY) else () for cell in column]
            self.value_type, self.data = "labels", [frozenset(map(str, row)) for row in rows]
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

    def choices(self) -> list[str]:
        """Return values as they are written in a filter: the commonest first, of numbers low to high."""
        if self.value_type in {"nothing", "yes or no"}:
            return ["true", "false"] * (self.value_type != "nothing")
        if self.value_type == "numbers":
            present = self.data[~self.missing]
            return [repr(_plain(v)) for v in np.unique(np.quantile(present, [0, 0.5, 1], method="lower"))]
        rows = self.data if self.value_type == "labels" else [[v] for v in self.data.drop_null().to_pylist()]
        return [_write(label) for label, _ in Counter(label for row in rows for label in row).most_common()]

    def equal(self, values: Sequence[Any]) -> NDArray[np.bool_]:
        """Return the rows with one of the values."""
        if self.value_type == "labels":
            return np.array([not row.isdisjoint(values) for row in self.data], dtype=np.bool_)
        if self.value_type == "text":
            return _array(pc.is_in(self.data, value_set=pa.array(values, pa.large_string())))
        return np.isin(self.data, values)

    def contain(self, text: str) -> NDArray[np.bool_]:
        """Return the rows with the part in their text, or with the label, in any case."""
        if self.value_type == "labels":
            rows = [{label.casefold() for label in row} for row in self.data]
            return np.array([text.casefold() in row for row in rows], dtype=np.bool_)
        return _array(pc.match_substring(self.data, text, ignore_case=True))


def _array(mask: Any) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(mask, fill_value=False), dtype=np.bool_)


def parse(text: str) -> Query:
    """Read a filter; the language is described at the top of this module.

    DataError says which character (from 1) is the first that does not fit, and what was expected.

    Examples
    --------
    >>> query = parse("split in (dev, test) & !(n_tokens>80 or answer contains 'ing')")
    >>> str(query)
    'split in (dev, test) and not (n_tokens > 80 or answer contains ing)'
    >>> query.columns
    ('split', 'n_tokens', 'answer')
    """
    check_encodable(text, "the filter")
    try:
        return _read(_parser().parse(text))
    except lark.UnexpectedInput as error:
        position = error.pos_in_stream
        if position is None or getattr(getattr(error, "token", None), "type", "") == "$END":
            position = len(text)
        accepted = _accepted(text, position)
        words = [word if " " in word else repr(word) for name, word in _EXPECTED.items() if name in accepted]
        piece = _PIECES.match(text, position)
        problem = (
            f"expected {' or '.join(words) or 'the end'}, there is {repr(piece[0]) if piece else 'the end'}"
        )
        remedy = 'a filter is, for example: target_class = CN and not (n_tokens > 80 or answer = "New York")'
        raise DataError(f"the filter, character {position + 1}: {problem}", remedy=remedy) from None


def _accepted(text: str, position: int) -> set[str]:
    """Return the types of tokens that fit at the first position where something else is."""
    reading = _parser().parse_interactive(text)
    accepted: set[str] = set()
    start = None
    with suppress(lark.UnexpectedInput):
        for token in reading.iter_parse():  # before it is taken in
            accepted, start = reading.accepts(), token.start_pos  # type: ignore[no-untyped-call]
    return accepted if start == position else reading.accepts()  # type: ignore[no-untyped-call]


@cache
def _parser() -> lark.Lark:
    grammar = re.sub(r"<(_[A-Z_]+)>", lambda match: globals()[match[1]].replace("/", r"\/"), _GRAMMAR)
    return lark.Lark(grammar, start="either", parser="lalr")


def _read(tree: Any) -> Query:
    """Return the filter of a tree of the grammar."""
    negated = False
    while tree.data == "negation":  # however many stand in a row
        tree, negated = tree.children[0], not negated
    if negated:
        return ~_read(tree)
    rule, (first, *others) = tree.data, tree.children
    if rule in {"either", "both"}:
        return (any_of if rule == "either" else all_of)(map(_read, tree.children))
    column = _read_token(first.children[0])
    if rule in {"missing", "present"}:
        return Query("is missing", column) if rule == "missing" else ~Query("is missing", column)
    if rule == "truth":
        return Query("is true", column)
    signs = {"choice": "in", "exclusion": "not in", "containing": "contains", "lacking": "not contains"}
    sign = signs[rule] if rule in signs else str(others.pop(0))
    return _compared(column, sign, *(_read_token(v.children[0], plain=v.data == "part") for v in others))


def _read_token(token: lark.Token, *, plain: bool = False) -> Any:
    """Return a name or value; if `plain`, a number or truth as the text that it is."""
    if token.type == "BACKTICKS":
        return token[1:-1].replace("``", "`")
    if token.type == "STRING":
        return re.sub(r"\\([\\\"'])", r"\1", token[1:-1])
    if token.type == "NUMBER" and not plain and math.isfinite(float(token)):
        return float(token)
    return _TRUTH[token.lower()] if token.type == "TRUTH" and not plain else str(token)


def of_facets(facets: Mapping[str, Sequence[Any]]) -> Query | None:
    """Return the filter of choices by column; None without any choice.

    Two numbers ``[low, high]`` are a closed range, with None for an open end. Anything else is a choice of
    values, in which None stands for a missing value.

    Examples
    --------
    >>> str(of_facets({"split": ["dev", "test"], "n_tokens": [60, None], "book_id": ["1342", None]}))
    'split in (dev, test) and n_tokens >= 60 and (book_id = "1342" or book_id is missing)'
    """
    clauses = [_of_facet(column, chosen) for column, chosen in facets.items() if len(chosen)]
    return all_of(clauses) if clauses else None


def _of_facet(column: str, chosen: Sequence[Any]) -> Query:
    values = [None if pd.isna(value) else value for value in chosen]
    if len(values) == 2 and all(v is None or _is_number(v) for v in values):  # noqa: PLR2004 - two ends
        low, high = (
            end if value is None else value for value, end in zip(values, (-math.inf, math.inf), strict=True)
        )
        return between(column, low, high)
    present = [value for value in values if value is not None]
    clauses = [is_one_of(column, present)] if present else []
    return any_of(clauses + [Query("is missing", column)] * (None in values))


def word_start(text: str, cursor: int) -> int:
    """Return where the word begins that ends at the cursor; after a space or sign, the cursor."""
    pieces = list(_PIECES.finditer(text, 0, cursor))
    return pieces[-1].start() if pieces and pieces[-1]["word"] else cursor


def suggest(text: str, cursor: int, frame: pd.DataFrame) -> list[str]:
    """Return completions at the cursor: columns, operators, values of the column before it.

    A suggestion replaces the text from :func:`word_start` to the cursor; the best come first, 20 at most.
    """
    start = word_start(text, cursor)
    written = text[start:cursor]
    typed = written.lstrip("`\"'").casefold()
    reading = _parser().parse_interactive(text[:start])
    try:
        tokens = list(reading.exhaust_lexer())
    except lark.UnexpectedInput:
        return []
    names = [_read_token(token) for token in tokens if token.type in {"NAME", "BACKTICKS"}]
    cells = Cells(frame, names[-1]) if names and names[-1] in frame.columns else None
    accepted: set[str] = reading.accepts()  # type: ignore[no-untyped-call]
    if "NAME" in accepted:
        options = [*map(_write_column, map(str, frame.columns)), "not"]
    elif "WORD" in accepted:
        options = [] if cells is None else cells.choices()
    elif "OPERATOR" in accepted:
        value_type = "text" if cells is None or cells.value_type == "nothing" else cells.value_type
        joints = ["and", "or"] if value_type == "yes or no" else []
        options = [*joints, *_KINDS[value_type][1], "is missing", "is not missing"]
    else:
        words = {name: word for name, word in _EXPECTED.items() if name not in {"COMMA", "$END"}}
        options = [word for name, word in words.items() if name in accepted]
    options = [option for option in options if typed in option.casefold() and option != written]
    return sorted(options, key=lambda option: not option.lstrip('`"').casefold().startswith(typed))[:_LISTED]
