"""Items that are changed to be asked about: their text up to a word, without a part, from a word on.

What is changed is the text before the blank; all spans follow, so that each result is a valid item.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from workbench.items import text as wt
from workbench.items.items import Item, Items, Span

_WORD = re.compile(r"\S+")


def word_spans(item: Item) -> list[Span]:
    """Return the words of a passage with its answer: what white space separates, cut at the answer's edges.

    So ``(dog),`` with the answer ``dog`` is three words. Without an answer, the words before the blank.
    """
    start, end = item.answer_span
    last = len(item.text) if item.answer is not None else start
    ranges = [(0, start), (start, end), (end, last)]
    return [match.span() for left, right in ranges for match in _WORD.finditer(item.text, left, right)]


def numbered(records: Iterable[Item]) -> Items:
    """Make items of changed ones, each with an id of its own: that of the item, and a number."""
    return Items.from_records(
        replace(record, item_id=f"{record.item_id} [{number}]") for number, record in enumerate(records)
    )


def up_to(item: Item, word: Span) -> Item:
    """Return an item whose text ends with one of its words, which is the answer; it has no candidates."""
    start, end = word
    return replace(
        item,
        text=item.text[:end],
        answer=item.text[start:end],
        answer_span=word,
        sentences=wt.up_to_target(item.sentences, word, end),
        candidates=None,
    )
