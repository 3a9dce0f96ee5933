"""Finding the blank of an item and the sentence around it; what readers and users' tables share."""

from __future__ import annotations

import re
from collections.abc import Sequence

from workbench.items import text as wt
from workbench.items.schema import Span

_OPENING = "\"'`“‘«([{*_"  # noqa: RUF001 - typographic quotes are what novels hold
_CLOSING = ".,;:!?…\"'`”’»)]}*_"  # noqa: RUF001
_DETACHED = re.compile(r"(?<=\s)(?:[.,;:?!]|``|''|n't|'(?:s|ll|re|ve|d|m))(?=\s|$)")
_ATTACHED = re.compile(r"\w[,;:?!](?=\s|$)|\w{4,}\.(?=\s|$)|\w(?:n't|'(?:s|ll|re|ve|d|m))(?=\s|$)")


def sentences(text: str, answer: Span, *, tokenised: bool) -> list[Span]:
    """Cut a text into sentences; an empty blank counts as the word that would stand in it.

    So ``She said ___`` is one sentence, and in ``She left. ___`` the blank is a sentence of its own.
    """
    start, end = answer
    if start < end:
        return wt.sentences(text, tokenised=tokenised)
    spans = wt.sentences(f"{text[:start]}x{text[start:]}", tokenised=tokenised)
    return [(first - (first > start), last - (last > start)) for first, last in spans]


def up_to_target(spans: Sequence[Span], answer: Span, end: int) -> tuple[Span, ...]:
    """Make the sentence that holds the answer the last one: it takes all that follows, up to `end`."""
    before = [span for span in spans if span[1] <= answer[0] and span[1] < answer[1]]
    start = spans[len(before)][0] if len(before) < len(spans) else answer[0]
    return (*before, (min(start, answer[0]), max(end, answer[1])))


def last_word(text: str, *, tokenised: bool) -> Span | None:
    """Return the span of the last word; in running text without the quotes and stops around it."""
    end = len(text.rstrip())
    start = end - len(text[:end].rpartition(" ")[2].split()[-1]) if end else 0
    if tokenised:
        return (start, end) if end else None
    word = text[start:end]
    start, end = end - len(word.lstrip(_OPENING)), start + len(word.rstrip(_CLOSING))
    return (start, end) if start < end else None


def looks_tokenised(text: str) -> bool:
    """Guess whether the words are space-separated tokens: stops and clitics mostly stand alone."""
    return len(_DETACHED.findall(text)) > len(_ATTACHED.findall(text))


def is_encodable(text: str) -> bool:
    """Tell whether a text can be written: JSON may hold half a surrogate pair, which no file can."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
