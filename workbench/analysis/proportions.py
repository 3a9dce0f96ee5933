"""Inference on counts for all tables: Wilson's interval, McNemar's exact test, corrections for many tests."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def wilson(count: npt.ArrayLike, n: npt.ArrayLike, *, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the bounds of Wilson's score interval of shares (Wilson 1927) at a confidence level.

    `count` cases out of `n` (int or array of int, broadcast) give two arrays of float, of one or more
    dimensions, between 0 and 1; NaN where `n` is 0.
    """
    # statsmodels' proportion_confint is the same, but 0.9 s of imports delay the first view of a comparison
    count, n = np.broadcast_arrays(np.atleast_1d(np.asarray(count, float)), np.asarray(n, float))
    z = NormalDist().inv_cdf((1 + level) / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = count / n
        centre = (share + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
        low = np.where((count == 0) & (n > 0), 0.0, np.clip(centre - half, 0, 1))
        high = np.where((count == n) & (n > 0), 1.0, np.clip(centre + half, 0, 1))
    return low, high


def mcnemar(only_a: npt.ArrayLike, only_b: npt.ArrayLike) -> Floats:
    """Return the p of McNemar's exact test (McNemar 1947), two-sided.

    `only_a` and `only_b` (int or array of int) are the items that only one of the two got right; p is 1
    where both are 0.
    """
    from scipy.special import bdtr  # type: ignore[import-untyped]  # noqa: PLC0415 - binomial, for arrays

    a, b = np.atleast_1d(np.asarray(only_a, np.int64)), np.atleast_1d(np.asarray(only_b, np.int64))
    return np.asarray(np.minimum(1, 2 * bdtr(np.minimum(a, b), a + b, 0.5)), dtype=np.float64)


def holm(p_values: npt.ArrayLike) -> Floats:
    """Correct p values for their number (Holm 1979); NaN stays, and does not count."""
    # statsmodels' multipletests does the same, after 0.7 s of imports and without NaN
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]  # NaN sorts last
    corrected = np.full(p.shape, np.nan)
    corrected[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return corrected


def benjamini_hochberg(p_values: npt.ArrayLike) -> Floats:
    """Correct p values for the false discovery rate (Benjamini and Hochberg 1995); NaN stays, uncounted.

    Rejecting all corrected values up to 0.05 keeps the expected share of false rejections among them at 5 %,
    for independent tests and for positively dependent ones; Holm's correction bounds the probability of any.
    """
    p = np.asarray(p_values, dtype=float)  # not multipletests, as for `holm`
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]
    corrected, number = np.full(p.shape, np.nan), len(order)
    steps = p[order] * number / np.arange(1, number + 1)
    corrected[order] = np.minimum(1, np.minimum.accumulate(steps[::-1])[::-1])
    return corrected
