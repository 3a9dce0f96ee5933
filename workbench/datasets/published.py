"""Numbers printed in the papers, read from ``data/published``; none is typed into code.

A column ``perplexity`` is that of the target. What papers on diffusion models call the perplexity of LAMBADA,
per token of whole passages, is in no table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pandas as pd

from workbench.storage import paths

ANALYSIS = "lambada_analysis"
"""The table of what Paperno et al. 2016 say about their data (sections 3 and 4, Figure 2)."""

_NUMBER = r"(\d+(?:\.\d+)?)"
_FORMS = {
    "exact": re.compile(rf"{_NUMBER}"),
    "above": re.compile(rf">{_NUMBER}(?: \(about {_NUMBER}\))?"),
    "below": re.compile(rf"<{_NUMBER}(?: \(about {_NUMBER}\))?"),
    "range": re.compile(rf"{_NUMBER} ?[-\u2013] ?{_NUMBER}"),
}


class Value(NamedTuple):
    """One published number.

    ``low`` and ``high`` are its bounds: both the number itself where it is exact, None where a side is open.
    ``about`` is the best single number: the exact one, or what "about" says in brackets; ``text`` is how it
    is printed: ``>80 (about 84)``.
    """

    low: float | None
    high: float | None
    about: float | None
    text: str


def published_table(name: str) -> pd.DataFrame:
    """Read one of the tables in ``data/published``, every cell as it is printed."""
    return pd.read_csv(paths.resource("published", f"{name}.csv"), dtype=str, keep_default_na=False)


@cache
def _sizes() -> dict[tuple[str, str, str], int]:
    rows = published_table("sizes").to_dict("records")
    return {(row["dataset"], row["split"], row["word_class"]): int(row["n"]) for row in rows}


def released_size(dataset: str, split: str, word_classes: Iterable[str] = ()) -> int | None:
    """Return the number of items of a split, or of its questions of some word classes; None if unknown.

    Examples
    --------
    >>> from workbench.datasets.published import released_size
    >>> released_size("lambada", "dev"), released_size("cbt", "test", ["NE", "V"])
    (4869, 5000)
    """
    counts = [_sizes().get((dataset, split, word_class)) for word_class in (list(word_classes) or [""])]
    return sum(filter(None, counts)) if all(counts) else None


def parse_value(text: str) -> Value:
    """Read a number as papers print it: ``48``, ``<15``, ``84-86`` or ``>80 (about 84)``."""
    for form, pattern in _FORMS.items():
        if match := pattern.fullmatch(text.strip()):
            first, *others = (None if group is None else float(group) for group in match.groups())
            second = others[0] if others else None
            low, high, about = {
                "exact": (first, first, first),
                "above": (first, None, second),
                "below": (None, first, second),
                "range": (first, second, None),
            }[form]
            if low is not None and high is not None and low > high:
                break
            return Value(low, high, about, text.strip())
    raise ValueError(f"{text!r} is not a number as printed in papers, such as 48, <15 or >80 (about 84)")


@cache
def _values() -> dict[tuple[str, ...], Value]:
    rows = published_table(ANALYSIS).to_dict("records")
    keys = ("figure", "set", "quantity")
    return {tuple(r[k] for k in keys): parse_value(r["value"]) for r in rows}


def find_value(figure: str, subset: str, quantity: str) -> Value | None:
    """Return one number of the table `ANALYSIS`, or None if it is not in the paper.

    Parameters
    ----------
    figure : str
        Where it stands: a figure (``2b``), a section (``3.1``) or ``text``.
    subset : str
        The set it is about: ``lambada``, ``input``, ``dev``, ``test``, ``all`` ...
    quantity : str
        What it says, in the words of the table: ``proper nouns``.

    Examples
    --------
    >>> find_value("2b", "lambada", "proper nouns").about
    48.0
    """
    return _values().get((figure, subset, quantity))
