"""How a typed word matches the answer: exactly, or but for case, number or spelling."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from workbench.analysis import lemmas

MATCHES = ("exact", "case", "number", "spelling", "no")
"""How a guess matches, the best first: the same word; the same but for case; singular and plural of one noun;
one letter added, left out or changed; not at all. Case does not count for the last three."""

_APOSTROPHES = str.maketrans("’‘ʼ`´", "'''''")  # noqa: RUF001 - as they are shown, and typed


def plain_word(word: str) -> str:
    """Return a typed word without white space around it, composed (NFC), with plain apostrophes."""
    return " ".join(unicodedata.normalize("NFC", word).translate(_APOSTROPHES).split())


def match(guess: str, answer: str) -> str:
    """Return which of `MATCHES` a guess is.

    White space around a guess and the shape of its apostrophes do not count.

    Examples
    --------
    >>> from workbench.people.matching import match
    >>> [match(guess, "Dogs") for guess in ("Dogs", "dogs", "dog", "docs", "cat", "")]
    ['exact', 'case', 'number', 'spelling', 'no', 'no']
    """
    guess, answer = plain_word(guess), plain_word(answer)
    if guess == answer:
        return "exact"
    guess, answer = guess.casefold(), answer.casefold()
    if not guess:
        return "no"
    if guess == answer:
        return "case"
    if _nouns(guess) & _nouns(answer):
        return "number"
    return "spelling" if _one_edit(guess, answer) else "no"


def best_match(guesses: Sequence[str], answer: str) -> str:
    """Return the best match of several guesses."""
    return min((match(guess, answer) for guess in guesses), key=MATCHES.index, default="no")


def _nouns(word: str) -> frozenset[str]:
    """Return the lemmas of a word read as a noun or name."""
    return frozenset(each.lemma for each in lemmas.default().readings(word) if each.kind == "N")


def _one_edit(a: str, b: str) -> bool:
    """Tell whether two different words are one letter apart."""
    if len(a) > len(b):
        a, b = b, a
    if len(b) - len(a) > 1:
        return False
    start = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), len(a))
    return a[start + (len(a) == len(b)) :] == b[start + 1 :]
