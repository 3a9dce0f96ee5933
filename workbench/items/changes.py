"""Items that are changed to be asked about: their text up to a word, without a part, with other words.

All spans follow what is changed, so that each result is a valid item.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate

from workbench.items import text as wt
from workbench.items.items import Item, Items, Span

_WORD = re.compile(r"\S+")
_LETTERS = re.compile(r"[^\W_](?:\S*[^\W_])?")  # of a word, without the punctuation before and after


def word_spans(item: Item) -> list[Span]:
    """Return the words of a passage with its answer: split at white space and at the answer's edges.

    So ``(dog),`` with the answer ``dog`` is three words. Without an answer, the words before the blank.
    """
    start, end = item.answer_span
    last = len(item.text) if item.answer is not None else start
    ranges = [(0, start), (start, end), (end, last)]
    return [match.span() for bounds in ranges for match in _WORD.finditer(item.text, *bounds)]


def numbered(records: Iterable[Item]) -> Items:
    """Make items of changed ones, with unique ids: the item's id and a number."""
    return Items.from_records(
        replace(record, item_id=f"{record.item_id} [{number}]") for number, record in enumerate(records)
    )


def up_to(item: Item, word: Span) -> Item:
    """Return an item whose text ends with one of its words as the answer, without candidates."""
    start, end = word
    return replace(
        item,
        text=item.text[:end],
        answer=item.text[start:end],
        answer_span=word,
        sentences=wt.up_to_target(item.sentences, word, end),
        candidates=None,
    )


def without(item: Item, span: Span) -> Item:
    """Return an item without a part of its text before the blank, and without superfluous white space.

    That is the white space after the part where it begins a sentence, else that before it; none where the
    part is joined to the next word. A sentence of which nothing is left is none.
    """
    (start, end), text = span, item.text
    if not text[end : end + 1].strip():
        if any(start == first for first, _ in item.sentences) or not text[:start].strip():
            end += len(text[end:]) - len(text[end:].lstrip())
        else:
            start = len(text[:start].rstrip())

    def moved(other: Span) -> Span:
        first, last = (min(edge, start) if edge < end else edge - end + start for edge in other)
        return first, last

    context = [moved(sentence) for sentence in item.sentences[:-1]]
    return replace(
        item,
        text=text[:start] + text[end:],
        answer_span=moved(item.answer_span),
        sentences=(
            *(sentence for sentence in context if sentence[0] < sentence[1]),
            moved(item.sentences[-1]),
        ),
    )


def masked(item: Item, span: Span, word: str) -> Item:
    """Return an item with a neutral word in place of each word in a part of its text before the blank.

    A word is replaced from its first letter or digit to its last, so that punctuation stays; a part that has
    neither letters nor digits is replaced as a whole.
    """
    text = item.text[slice(*span)]
    changed = _LETTERS.sub(lambda _match: word, text)
    return with_replacements(item, [(span, changed if _LETTERS.search(text) else word)])


def shortened(item: Item, k: int) -> Item:
    """Return an item whose text begins with the last `k` words before its blank; all, if there are fewer."""
    starts = [start for start, _ in word_spans(item) if start < item.answer_span[0]]
    first = starts[-k] if len(starts) > k else 0
    start, end = item.answer_span
    return replace(
        item,
        text=item.text[first:],
        answer_span=(start - first, end - first),
        sentences=tuple((max(a - first, 0), b - first) for a, b in item.sentences if b > first or b == end),
    )


def with_replacements(item: Item, changes: Sequence[tuple[Span, str]]) -> Item:
    """Return an item with other text in place of spans, in order and apart; its answer and all spans follow.

    A span lies within a sentence, and within the answer or outside of it. The candidates stay.
    """
    starts, ends = ([span[side] for span, _ in changes] for side in (0, 1))
    growth = [len(new) - (end - start) for (start, end), new in changes]
    shifts = [0, *accumulate(growth)]
    pieces, done = [], 0
    for (start, end), new in changes:
        pieces += [item.text[done:start], new]
        done = end

    def moved(span: Span) -> Span:
        first, last = span
        return first + shifts[bisect_left(starts, first)], last + shifts[bisect_right(ends, last)]

    text, (start, end) = "".join([*pieces, item.text[done:]]), moved(item.answer_span)
    return replace(
        item,
        text=text,
        answer=None if item.answer is None else text[start:end],
        answer_span=(start, end),
        sentences=tuple(map(moved, item.sentences)),
    )


def with_answer(item: Item, word: str) -> Item:
    """Return an item with another word as its answer, without candidates."""
    return replace(with_replacements(item, [(item.answer_span, word)]), answer=word, candidates=None)
