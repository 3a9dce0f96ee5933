"""What can be seen on the surface of a passage, with no tagger: mentions by form, quoted speech."""

# ruff: noqa: RUF001 - typographic apostrophes are meant

from __future__ import annotations

import re

from workbench.items import Item, Span

_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_ENDINGS = (
    ("ies", "y"), ("ied", "y"), ("ves", "f"), ("ves", "fe"),
    ("s", ""), ("es", ""), ("ed", ""), ("ed", "e"), ("d", ""), ("ing", ""), ("ing", "e"),
)  # fmt: skip
_CLITIC = re.compile(r"(?:'s|’s|'|’)$")
_LEAST_STEM = 3
_OPENING = {"``": "''", "“": "”"}
_STRAIGHT = '"'


def mentions(item: Item) -> list[Span]:
    """Return the earlier mentions of the answer, as spans in ``item.text``.

    A mention is the answer itself in any case, with a possessive ``'s``, or in a regular
    inflection (plural, past, participle; final consonant doubled). This is what the paper
    underlines in its Figure 1 (Paperno et al. 2016) as far as it shows without a
    lemmatiser; irregular forms are left to the annotations.
    """
    if item.answer is None:
        return []
    wanted = _stems(item.answer)
    start = item.answer_span[0]
    return [
        match.span()
        for match in _WORD.finditer(item.text, 0, start)
        if not wanted.isdisjoint(_stems(match.group()))
    ]


def speech(item: Item) -> list[Span]:
    """Return the spans of quoted speech between double quotes, quote marks included.

    Treebank quotes (`` and ''), typographic and straight ones are known. Speech that is
    still open where the text ends runs to its end; a closing mark without an opening one
    closes speech that began before the passage.
    """
    spans: list[Span] = []
    opened: int | None = None
    closing = ""
    for match in re.finditer(r"``|''|[“”\"]", item.text):
        mark = match.group()
        if opened is not None and mark in (closing, _STRAIGHT):
            spans.append((opened, match.end()))
            opened = None
        elif opened is None and mark in _OPENING:
            opened, closing = match.start(), _OPENING[mark]
        elif opened is None and mark == _STRAIGHT:
            opened, closing = match.start(), mark
        elif opened is None and not spans:
            spans.append((0, match.end()))
    if opened is not None:
        spans.append((opened, len(item.text)))
    return spans


def _stems(word: str) -> frozenset[str]:
    base = _CLITIC.sub("", word.lower())
    found = {base}
    for ending, instead in _ENDINGS:
        if base.endswith(ending) and len(base) - len(ending) >= _LEAST_STEM - (instead == "y"):
            stem = base[: len(base) - len(ending)]
            found.add(stem + instead)
            if ending in ("ed", "ing") and stem[-1] == stem[-2]:
                found.add(stem[:-1])
    return frozenset(found)
