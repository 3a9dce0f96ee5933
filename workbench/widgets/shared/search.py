"""Search for a text or regular expression in items: which match, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from workbench.items import text as wt
from workbench.items.items import Item, Items, Span
from workbench.storage.errors import DataError

FIELDS = ("passage", "sentence", "answer")
_MARKS = range(0xE000, 0xF900)


class TextSearch:
    """The texts of n items, searched for a state's ``search``."""

    def __init__(self, items: Items) -> None:
        frame = items.frame
        starts = [spans[-1][0] for spans in frame["sentences"]]
        columns = {
            "passage": frame["text"],
            "sentence": [text[start:] for text, start in zip(frame["text"], starts, strict=True)],
            "answer": frame["answer"].fillna(""),
            "id": frame["item_id"],
        }  # the items' own memory, but for the sentences: a notebook keeps many widgets of the same items
        self._texts = {name: pa.array(column, pa.large_string()) for name, column in columns.items()}
        self._tokenised = bool(frame["tokenised"].any())
        self._last: tuple[tuple[str, str, bool], NDArray[np.bool_]] | None = None

    def mask(self, state: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return the mask of items that match a state's ``search``, shape (n,); all for an empty one."""
        query, field, regex = state["search"].strip(), state["field"], state["regex"]
        if not query:
            return np.ones(len(self._texts["id"]), dtype=bool)
        if self._last is None or self._last[0] != (query, field, regex):
            mask = np.zeros(len(self._texts["id"]), dtype=bool)
            for pattern in patterns(query, regex=regex, tokenised=self._tokenised):
                mask |= _matches(self._texts[field], pattern)
            if "/" in query and not regex:
                mask |= pc.match_substring(self._texts["id"], query).to_numpy(zero_copy_only=False)
            mask.flags.writeable = False
            self._last = ((query, field, regex), mask)
        return self._last[1]


def patterns(query: str, *, regex: bool, tokenised: bool) -> list[str]:
    r"""Return the regular expressions (RE2's syntax) of a query.

    Plain text is taken as it is and, over tokenised items, also as the tokens it would
    be there, so that ``didn't`` finds ``did n't``.
    """
    if regex:
        return [query]
    forms = [query]
    if tokenised and (tokens := " ".join(wt.tokenize(query))) not in ("", query):
        forms.append(tokens)
    return ["".join(c if c.isalnum() or c in " _" or not c.isascii() else f"\\{c}" for c in f) for f in forms]


def hits(text: str, expressions: Iterable[str]) -> list[Span]:
    """Return the spans of the matches in `text`, in order and without overlap."""
    spans: list[Span] = []
    column = pa.array([text], pa.large_string())
    opening, closing = islice((mark for mark in map(chr, _MARKS) if mark not in text), 2)
    for pattern in expressions:
        try:
            replaced = pc.replace_substring_regex(column, f"(?i)({pattern})", f"{opening}\\1{closing}")
        except pa.ArrowInvalid:  # such as an open \Q, which takes our bracket for its own
            continue
        first, *others = replaced[0].as_py().split(opening)
        offset = len(first)
        for piece in others:
            inside, _, after = piece.partition(closing)
            if inside:
                spans.append((offset, offset + len(inside)))
            offset += len(inside) + len(after)
    merged: list[Span] = []
    for start, end in sorted(spans):
        if not merged or start >= merged[-1][1]:
            merged.append((start, end))
    return merged


def item_hits(item: Item, state: Mapping[str, Any]) -> list[Span]:
    """Return the matches of a state's search in the released text of an item."""
    query = state["search"].strip()
    if not query or state["field"] == "answer":
        return []
    first = item.sentences[-1][0] if state["field"] == "sentence" else 0
    spans = hits(item.text[first:], patterns(query, regex=state["regex"], tokenised=item.tokenised))
    return [(start + first, end + first) for start, end in spans]


def _matches(column: pa.Array, pattern: str) -> NDArray[np.bool_]:
    """Return the mask of texts (n,) that match a pattern, ignoring case; DataError if it is not valid."""
    try:
        rows = pc.match_substring_regex(column, pattern, ignore_case=True)
    except pa.ArrowInvalid as error:
        raise DataError(
            f"Invalid regular expression: {str(error).split(': ', 1)[-1]} (RE2 syntax; no look-around)"
        ) from error
    mask: NDArray[np.bool_] = rows.to_numpy(zero_copy_only=False)
    return mask
