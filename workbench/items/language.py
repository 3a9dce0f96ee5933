"""The language of items: a code at the end of their variant (``openai-de``), none for English.

A table names it in a column, a file in its name or that of its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.storage.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

LANGUAGE_COLUMNS = ("lang", "language")
"""Columns, in lower case, that tell the language of a row."""
ENGLISH = "en"
_TABLE = """
ar Arabic ara, bg Bulgarian bul, bn Bengali ben, ca Catalan cat, cs Czech ces cze, da Danish dan, de German deu ger,
el Greek ell gre, en English eng, es Spanish spa, et Estonian est, eu Basque eus, fa Persian fas per, fi Finnish fin,
fr French fra fre, he Hebrew heb, hi Hindi hin, hr Croatian hrv, hu Hungarian hun, id Indonesian ind, is Icelandic isl,
it Italian ita, ja Japanese jpn, ka Georgian kat, ko Korean kor, la Latin lat, lt Lithuanian lit, lv Latvian lav,
nl Dutch nld dut, no Norwegian nor nob nb, pl Polish pol, pt Portuguese por, ro Romanian ron rum, ru Russian rus,
sk Slovak slk, sl Slovenian slv, sr Serbian srp, sv Swedish swe, sw Swahili swa, th Thai tha, tr Turkish tur,
uk Ukrainian ukr, ur Urdu urd, vi Vietnamese vie, zh Chinese zho chi
"""  # noqa: E501 - ISO 639-1 code, English name, ISO 639-2 codes
_ROWS = [row.split() for row in _TABLE.split(",")]
_NAMES = {code: name for code, name, *_ in _ROWS}
_CODES = {word.lower(): row[0] for row in _ROWS for word in row}
_IN_NAMES = {*re.findall(r"\w+", "da de en es fi fr hu it ja ko nl pl pt ru sv zh")}
"""Codes that count in names of files, where others are words (``is``, ``no``) or abbreviations (``tr``)."""
_ENDING = re.compile(r"-([a-z]{2})(?: \([a-z ]+\))?\Z")
_BESIDE = re.compile(r"\d*|train(ing)?|dev(elopment)?|valid(ation)?|test(ing)?|control|v|of")


@lru_cache(maxsize=1024)
def language(variant: Any) -> str:
    """Return the code of a variant's language: "de" of ``openai-mt-de``, "en" of ``plain``."""
    match = _ENDING.search(str(variant))
    return match[1] if match and match[1] in _NAMES else ENGLISH


def languages_of(variants: Iterable[Any]) -> list[str]:
    """Return the languages of variants, sorted; nulls have none."""
    return sorted({language(variant) for variant in variants if isinstance(variant, str)})


def language_name(code: str) -> str:
    """Return the English name of a language."""
    return _NAMES[code]


def in_language(variant: str, code: str | None) -> str:
    """Return a variant with the code of a language at its end; English and None (unknown) change nothing."""
    if code is None or code == language(variant):
        return variant
    if language(variant) != ENGLISH:
        raise DataError(
            f"the language is {language_name(code)}, the variant {variant!r}", hint="correct one of the two"
        )
    return f"{variant}-{code}"


def folder_of(split: str, variant: str) -> str:
    """Return the part of an id before its last: the split, and the variant of another language."""
    return split if language(variant) == ENGLISH else f"{split}/{variant}"


def language_code(cell: Any) -> str | None:
    """Return the code of a language that a cell names: ``de``, ``de-AT``, ``deu_Latn`` or ``German``."""
    word = re.split(r"[-_]", cell.strip().lower())[0] if isinstance(cell, str) else ""
    return _CODES.get(word)


def languages_of_rows(frame: pd.DataFrame) -> list[str | None]:
    """Return the language that each row of a table names; None where it names none."""
    columns = [frame[name].tolist() for name in frame if str(name).lower() in LANGUAGE_COLUMNS]
    cells = zip(*columns, strict=True) if columns else [()] * len(frame)
    return [next(filter(None, map(language_code, row)), None) for row in cells]


def language_in_path(path: Path) -> str | None:
    """Return the language at the end of a file's name, else of its folder's name: ``test_de.csv``.

    At the end of a folder's name of several words, ``it`` is not a language.
    """
    for name, codes in ((path.stem, _IN_NAMES), (path.absolute().parent.name, _IN_NAMES - {"it"})):
        words = [word for word in re.split(r"[\W_]+", name.lower()) if not _BESIDE.fullmatch(word)]
        word = words[-1] if words else ""
        code = _CODES.get(word)
        if code and (word in (codes if len(words) > 1 else _IN_NAMES) or word == _NAMES[code].lower()):
            return code
    return None
