"""Formats of numbers: shares, probabilities, p values, perplexities, ranks, intervals.

A zero has no sign, a missing value is `MISSING`, an infinite one ∞; negative numbers have the sign `MINUS`.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pandas as pd

MISSING = "-"
MINUS = "\N{MINUS SIGN}"

_LEAST_P = 0.0001
_EPSILON = 1e-9
_EXACT = 1e15  # from here on a number has no digits after the point that count
_THOUSAND = 1000
_LARGE = 1e9


def fixed(value: float, digits: int, *, sign: bool = False) -> str:
    """Format a number with fixed decimals: ``1,234.5``, with `sign` ``+1,234.5``."""
    if pd.isna(value):
        return MISSING
    if np.isinf(value):
        return f"{MINUS}∞" if value < 0 else "+∞" if sign else "∞"
    text = f"{_half_up(value, digits):{'+' if sign else ''},.{digits}f}"
    return with_minus(text) if text.strip("+-0.") else text.strip("+-")


def with_minus(number: str) -> str:
    """Replace hyphens by `MINUS` in the text of a number, as pages and tables show it."""
    return number.replace("-", MINUS)


def _half_up(value: float, digits: int) -> float | Decimal:
    """Round to a number of decimals, halves away from zero, as scripts do."""
    number = float(value)
    return (
        number
        if abs(number) >= _EXACT
        else Decimal(number).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    )


def percent(share: float, *, unit: bool = True) -> str:
    """Format a share as a percentage with one decimal: ``12.3 %``."""
    return MISSING if pd.isna(share) else f"{fixed(100 * share, 1)}{' %' if unit else ''}"


def points(share: float) -> str:
    """Format a difference of shares in percentage points, with its sign: ``+1.2``."""
    return fixed(100 * share, 1, sign=True)


def probability(p: float) -> str:
    """Format a probability as a percentage of two or three digits: ``45.1 %``, ``0.0012 %``."""
    value = 100 * p
    if value == 0 or value >= 1e-4:  # noqa: PLR2004 - below, a power of ten: 3.1e-7 %
        value = max(value, 1.0) if value >= 0.995 else value  # noqa: PLR2004 - shown as 1.00, as its neighbours
        return f"{f'{value:#.3g}' if value >= 1 else f'{value:#.2g}' if value else '0'}".rstrip(".") + " %"
    return with_minus(f"{value:.1e} %".replace("e-0", "e-"))


def p_value(p: float, *, sign: bool = False, is_bound: bool = False) -> str:
    """Format a p value with two digits: ``0.023`` (with `sign` ``= 0.023``), or ``< 0.0001``.

    With `is_bound` it is the least that random choices can give, and the exact p is lower: ``< 0.0005``.
    """
    if pd.isna(p):
        return MISSING
    if p < _LEAST_P:
        return f"< {_LEAST_P}"
    if is_bound and p < 1:
        unit = 10.0 ** (np.floor(np.log10(p)) - 1)
        return f"< {np.ceil(p / unit - _EPSILON) * unit:.2g}"
    digits = 1 - int(np.floor(np.log10(p)))
    return f"{'= ' if sign else ''}{float(_half_up(p, digits)):.2g}"


def quantity(value: float, *, digits: int = 4, sign: bool = False) -> str:
    """Format a perplexity, a rank or a mean with four digits, from 1,000 on as an integer."""
    if pd.isna(value) or np.isinf(value) or _THOUSAND - 0.05 <= abs(value) < _LARGE:
        return fixed(value, 0, sign=sign)
    return with_minus(f"{value + 0.0:{'+' if sign and value else ''}.{digits}g}")


def rank_text(rank: float | None, n_tied: float | None = None, *, bound: bool = False) -> str:
    """Format the rank of an answer: ``rank 7``, ``tied 1-58`` with all ranks that tied words share.

    Parameters
    ----------
    rank : int or null
        1 + the number of words that are strictly better; null gives an empty text.
    n_tied : int or null
        Words with the same score, the answer included.
    bound : bool, default False
        Whether the rank is only known to be at least this: ``rank ≥ 7``.
    """
    if rank is None or pd.isna(rank):
        return ""
    if bound:
        return f"rank ≥ {rank:,.0f}"
    others = 0 if n_tied is None or pd.isna(n_tied) else n_tied - 1
    return f"tied {rank:,.0f}\N{EN DASH}{rank + others:,.0f}" if others > 0 else f"rank {rank:,.0f}"


def mid_rank(value: float) -> str:
    """Format a mid-rank with one decimal: ``28.5``, ``1,067.0``."""
    return fixed(value, 1)


def perplexity(value: float, *, sign: bool = False) -> str:
    """Format a perplexity with two decimals: ``8.63``, ``57,040.00``, from a billion on ``3.00e+12``."""
    if _LARGE <= abs(value) < np.inf:
        return f"{value:{'+' if sign else ''}.2e}"
    return fixed(value, 2, sign=sign)


def span(low: float, high: float, write: Callable[[float], str]) -> str:
    """Format an interval: ``[1.2, 3.4]``; empty if a bound is missing."""
    return "" if pd.isna(low) or pd.isna(high) else f"[{write(low)}, {write(high)}]"


def size(n_bytes: float) -> str:
    """Format a number of bytes: ``1.2 GB``, ``340 MB``, ``5 kB``."""
    for unit, name in ((1e9, "GB"), (1e6, "MB")):
        if n_bytes >= unit:
            return f"{n_bytes / unit:.{1 if n_bytes < 10 * unit else 0}f} {name}"
    return f"{n_bytes / 1e3:.0f} kB"


def in_unit(value: Any, unit: str, *, sign: bool = False) -> str:
    """Convert a number of the papers' tables to the unit of display: fractions to percentages.

    Parameters
    ----------
    value : number or null
    unit : {"percent", "fraction", "per target word", "rank"}
    sign : bool, default False
        Write the sign of positive numbers too.
    """
    if pd.isna(value):
        return MISSING
    if unit == "per target word":
        return perplexity(value, sign=sign)
    return fixed(100 * value if unit == "fraction" else value, 1, sign=sign)


def as_printed(text: str, unit: str) -> str:
    """Format a number with the digits that a paper prints: ``57,040``, the fraction ``0.716`` as ``71.6``."""
    return f"{Decimal(text).scaleb(2 if unit == 'fraction' else 0):,f}"
