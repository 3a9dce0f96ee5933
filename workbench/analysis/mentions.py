"""Mentions of the target elsewhere in the passage, with no tagger and in any case.

A token mentions the target if for some part of speech both have the same lemma. Three things in the release
would hide a mention, and are looked through: hyphens and dashes (``non-Tribe``, ``famine-they``), a
period after a name (``Alex.``), and a conjunction joined to a word (``Shaneand``).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import lru_cache

from workbench.analysis.lemmas import POSSESSIVE, Reading, default, fold_case
from workbench.items.items import Item, Span
from workbench.items.language import ENGLISH, language
from workbench.items.tokens import Tokens, tokens

JOINED = re.compile(r"([^\W\d_]{4,})(?:and|but)")
"""A word that a conjunction is joined to."""
_HYPHEN = re.compile(r"[-‐‑–—]+")  # noqa: RUF001 - dashes are meant


def mention_indices(tokens: Tokens) -> list[int]:
    """Return the indices of the tokens that mention the target, in order, without the answer itself.

    Of an answer of several tokens the head counts (see `Tokens.head`).
    """
    if not tokens.has_target:
        return []
    wanted = default().readings(tokens.words[tokens.head])
    return [
        index
        for index, word in enumerate(tokens.words)
        if not wanted.isdisjoint(_token_readings(word)) and not tokens.target <= index < tokens.end
    ]


def same_form(tokens: Tokens, indices: Sequence[int]) -> bool:
    """Return whether a mention at one of the indices has the target's form, ignoring case and possessive."""
    wanted = _bare(tokens.words[tokens.head]) if indices else ""
    return any(_bare(tokens.words[index]) == wanted for index in indices)


def mentions(item: Item) -> list[Span]:
    """Return the mentions of the target, before and after it, as spans in ``item.text``.

    In another language than English, whose lemmas are known, they have the form of the target.
    """
    item_tokens, is_english = tokens(item), language(item.variant) == ENGLISH
    indices = mention_indices(item_tokens)
    return [item_tokens.spans[index] for index in indices if is_english or same_form(item_tokens, [index])]


def sentence_of(tokens: Tokens, index: int) -> int:
    """Return the number of sentences from a token to the target sentence; 0 within it."""
    return len(tokens.sentences) - max(1, bisect_right(tokens.sentences, index))


@lru_cache(maxsize=1 << 16)
def _token_readings(word: str) -> frozenset[Reading]:
    """Return the readings of a token and of the words that were joined in it."""
    readings = default().readings
    forms = readings(word)
    pieces = _HYPHEN.split(word)
    if len(pieces) > 1:
        forms = forms.union(*(readings(piece) for piece in pieces if len(piece) > 1))
    elif (joined := JOINED.fullmatch(fold_case(word))) and not default().knows(word):
        forms |= readings(joined[1])
    return forms


@lru_cache(maxsize=1 << 16)
def _bare(word: str) -> str:
    return POSSESSIVE.sub("", fold_case(word))
