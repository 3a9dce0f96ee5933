"""Inference on counts for all tables: intervals, McNemar's exact test, corrections for many tests."""

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


def paired_interval(
    only_a: npt.ArrayLike, only_b: npt.ArrayLike, n: npt.ArrayLike, *, level: float = 0.95
) -> tuple[Floats, Floats]:
    """Return the bounds of the difference between two accuracies on the same items.

    `only_a` and `only_b` (int or array of int) of the `n` items are right by one of the two alone.

    The interval is the hull of Tango's score interval (Tango 1998) and of (2 q - 1) m / n, where q are the
    limits of Clopper and Pearson (1934) of the share of `only_a` among the m discordant items. It excludes 0
    exactly where McNemar's exact test has p <= 1 - `level`.
    """
    counts = [np.atleast_1d(np.asarray(value, dtype=np.float64)) for value in (only_a, only_b, n)]
    a, b, total = np.broadcast_arrays(*counts)
    return _paired_lower(a, b, total, level), -_paired_lower(b, a, total, level)


def _paired_lower(a: Floats, b: Floats, n: Floats, level: float) -> Floats:
    from scipy.special import betaincinv  # noqa: PLC0415 - slow to import

    share = np.where(a > 0, betaincinv(np.maximum(a, 1), b + 1, (1 - level) / 2), 0.0)
    exact = (2 * share - 1) * (a + b) / n
    z = NormalDist().inv_cdf((1 + level) / 2)
    low, high = np.full(a.shape, -1.0), (a - b) / n
    for _ in range(50):  # bisection
        middle = (low + high) / 2
        linear = a + b - (2 * n - a + b) * middle
        q = (linear + np.sqrt(linear**2 + 8 * n * b * middle * (1 - middle))) / (4 * n)
        variance = n * (2 * q + middle * (1 - middle))
        outside = (a - b - n * middle) ** 2 > z * z * variance
        low, high = np.where(outside, middle, low), np.where(outside, high, middle)
    hull = np.minimum(low, exact)
    return np.where((exact > 0) & (hull <= 0), exact, hull)  # McNemar's test decides


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
