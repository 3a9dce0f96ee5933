"""Compare two sets of annotations, feature by feature."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis import statistics
from workbench.analysis.proportions import Floats, benjamini_hochberg, holm
from workbench.render.labels import label
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import check_option, check_value

SKIPPED = ("item_id", "pipeline", "mentions", "speech", "names")
"""Columns of the annotations that are no features."""

CORRECTIONS = ("holm", "bonferroni", "sidak", "holm-sidak", "fdr_bh", "fdr_by")

_COLUMNS = (
    "feature", "level", "kind", "a", "b", "n_a", "n_b", "median_a", "median_b",
    "difference", "low", "high", "cliff_delta", "cohen_h", "odds_ratio", "test", "p",
)  # fmt: skip
_LEVELS = 20
_LEAST = 2  # values from which a variance can be computed


def contrast(
    a: pd.DataFrame,
    b: pd.DataFrame,
    *,
    names: tuple[str, str] = ("a", "b"),
    level: float = 0.95,
    correction: str = "holm",
) -> Table:
    """Compare every feature of two sets of annotations.

    The sets are taken as independent samples of items; where items of one set come from few
    novels, the intervals are too narrow.

    Parameters
    ----------
    a, b : DataFrame
        Annotations, from ``wb.annotate``. Truth values, numbers, and texts of at most 20
        different values are features; a text gives one row per value.
    names : (str, str), default ("a", "b")
        Names of the sets in the columns.
    level : float, default 0.95
        Confidence level of the intervals.
    correction : {"holm", "bonferroni", "sidak", "holm-sidak", "fdr_bh", "fdr_by"}
        Correction of p for the number of tests.

    Returns
    -------
    Table
        A DataFrame that shows its most important columns in a notebook. One row per feature (a value of it),
        the largest effect first; null where a set has no value:

        `feature`, `level`, `kind`
            The column, its value where it is a text, and ``share`` or ``number``.
        one column for each name
            Shares between 0 and 1, or means; `median_<name>` for numbers; `n_<name>` the
            items that are not null.
        `difference`, `low`, `high`
            First minus second set, and its interval: Newcombe's for shares (Newcombe 1998,
            method 10), Welch's for means.
        `cliff_delta`
            Size of the effect from -1 to 1, comparable between features: how much more often a value of the
            first set is larger than one of the second than the other way round (Cliff 1993). For shares
            it is their difference.
        `cohen_h`, `odds_ratio`
            For shares: difference of arcsine-transformed shares (Cohen 1988, chapter 6), and
            odds in the first set over odds in the second.
        `test`, `p`, `p_<correction>`
            Fisher's exact test for shares, the Mann-Whitney test (normal approximation with
            correction for ties and continuity) for numbers; two-sided.

        ``.attrs["left_out"]`` names the columns that are not tested, with the reason: `target_pos` beside
        `target_class`, which is made from it.

    Raises
    ------
    DataError
        If something is not a frame, the names are equal, or level or correction are unknown.

    Examples
    --------
    >>> control = wb.annotate(wb.load("sample", "control"))
    >>> table = wb.contrast(annotations, control, names=("LAMBADA", "control"))
    >>> table.set_index("feature").loc["in_context", "test"]
    'Fisher'
    """
    frames = statistics.named_sets(dict(zip(names, (a, b), strict=True)))
    taken = {*_COLUMNS, ""} - {"a", "b"}
    are_names = len(frames) == 2 and not taken & set(frames)  # noqa: PLR2004 - two sets
    check_value("names", names, are_names, "two different names that are not columns of the result")
    check_value("level", level, 0 < level < 1, "a level between 0 and 1, such as 0.95")
    check_option("correction", correction, list(CORRECTIONS))
    left_out: dict[str, str] = {}
    rows: list[dict[str, Any]] = []
    for feature in dict.fromkeys([*a.columns, *b.columns]):
        if feature in SKIPPED:
            continue
        if feature == "target_pos" and "target_class" in a and "target_class" in b:
            left_out[feature] = f"{label('target_class')} is made from it"
            continue
        if feature not in a.columns or feature not in b.columns:
            left_out[feature] = f"only {names[0] if feature in a.columns else names[1]} has it"
            continue
        x, y = a[feature].dropna(), b[feature].dropna()
        comparison = _comparison_type(pd.concat([x.astype(object), y.astype(object)]))
        labels = {"feature": feature, "kind": "number" if comparison == "number" else "share"}
        if comparison == "number":
            rows.append(labels | _numbers(x.to_numpy(dtype=float), y.to_numpy(dtype=float), level))
        elif comparison == "truth":
            rows.append(labels | _shares(x.astype(bool), y.astype(bool), level))
        elif comparison == "text":
            rows += [
                labels | {"level": value} | _shares(x == value, y == value, level)
                for value in sorted({*x, *y})
            ]
        else:
            left_out[feature] = comparison
    table = _table(rows, names, correction)
    table.attrs["left_out"] = left_out
    table.attrs["note"] = (
        f"In brackets: {100 * level:g} % intervals (Newcombe's for shares, Welch's for means).",
        "Fisher's exact test for shares, the Mann-Whitney test for numbers.",
        *(f"{label(name)} is left out: {reason}." for name, reason in left_out.items()),
    )
    return Table(table, _layout(names, correction))


def _layout(names: tuple[str, str], correction: str) -> TableLayout:
    percent = ("kind", {"share": "percent"})
    points = ("kind", {"share": "percentage points", "number": "signed"})
    tooltips = {name: f"Share of items, or mean, in {name}." for name in names}
    columns = (
        TableColumn("feature", "column", detail="level"),
        *(TableColumn(name, percent, heading=name, tooltip=tooltips[name]) for name in names),
        TableColumn("difference", points, ("low", "high"), tooltip=f"{names[0]} minus {names[1]}."),
        TableColumn("cliff_delta", "effect"),
        TableColumn(f"p_{correction}", "p"),
    )
    return TableLayout(f"{names[0]} and {names[1]}: features of the items", columns)


def _table(rows: list[dict[str, Any]], names: tuple[str, str], correction: str) -> pd.DataFrame:
    named = {f"{prefix}{side}": f"{prefix}{name}" for prefix in ("", "n_", "median_")
             for side, name in zip("ab", names, strict=True)}  # fmt: skip
    table = pd.DataFrame(rows, columns=list(_COLUMNS)).rename(columns=named)
    table[f"p_{correction}"] = _corrected(table["p"].to_numpy(dtype=float), correction)
    size = table["cliff_delta"].astype(float).abs()
    return table.loc[size.sort_values(ascending=False, kind="stable").index].reset_index(drop=True)


def _corrected(p: Floats, correction: str) -> Floats:
    if quick := {"holm": holm, "fdr_bh": benjamini_hochberg}.get(correction):
        return quick(p)  # statsmodels takes 0.7 s to import
    from statsmodels.stats.multitest import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow
        multipletests,
    )

    corrected = np.full(p.shape, np.nan)
    mask = ~np.isnan(p)
    if mask.any():
        corrected[mask] = multipletests(p[mask], method=correction)[1]
    return corrected


def _comparison_type(values: pd.Series[Any]) -> str:
    """Return how a feature is compared, or why it is not."""
    if not len(values):
        return "it is empty"
    types = {type(value) for value in values.tolist()}
    if types <= {bool, np.bool_}:
        return "truth"
    if types.isdisjoint({bool, np.bool_}) and all(issubclass(k, int | float | np.number) for k in types):
        return "number"
    if types <= {str}:
        different = values.nunique()
        return "text" if different <= _LEVELS else f"it has {different:,} different values"
    return f"it holds {', '.join(sorted(cell_type.__name__ for cell_type in types))}"


def _shares(x: pd.Series[Any], y: pd.Series[Any], level: float) -> dict[str, Any]:
    """Compare the shares of true values."""
    from scipy.stats import fisher_exact  # type: ignore[import-untyped]  # noqa: PLC0415 - slow
    from statsmodels.stats.proportion import (  # type: ignore[import-untyped]  # noqa: PLC0415 - slow
        confint_proportions_2indep,
    )

    count_a, n_a, count_b, n_b = int(x.sum()), len(x), int(y.sum()), len(y)
    a = count_a / n_a if n_a else np.nan
    b = count_b / n_b if n_b else np.nan
    row = {"a": a, "b": b, "n_a": n_a, "n_b": n_b, "test": "Fisher"}
    if not n_a or not n_b:
        return row
    low, high = confint_proportions_2indep(
        count_a, n_a, count_b, n_b, compare="diff", method="newcomb", alpha=1 - level
    )
    cross, other = count_a * (n_b - count_b), count_b * (n_a - count_a)
    odds = cross / other if other else np.inf if cross else np.nan
    p = fisher_exact([[count_a, n_a - count_a], [count_b, n_b - count_b]]).pvalue
    return row | {
        "difference": a - b,
        "low": float(low),
        "high": float(high),
        "cliff_delta": a - b,
        "cohen_h": 2 * np.arcsin(np.sqrt(a)) - 2 * np.arcsin(np.sqrt(b)),
        "odds_ratio": odds,
        "p": min(float(p), 1.0),
    }


def _numbers(x: Floats, y: Floats, level: float) -> dict[str, Any]:
    """Compare two samples of numbers."""
    from scipy.stats import mannwhitneyu  # noqa: PLC0415 - slow

    row: dict[str, Any] = {"n_a": len(x), "n_b": len(y), "test": "Mann-Whitney"}
    for side, values in (("a", x), ("b", y)):
        if len(values):
            row |= {side: float(values.mean()), f"median_{side}": float(np.median(values))}
    if not len(x) or not len(y):
        return row
    low, high = _welch(x, y, level)
    if np.ptp(np.concatenate([x, y])) == 0:  # every value is the same one: the test divides by 0
        delta, p = 0.0, 1.0
    else:
        result = mannwhitneyu(x, y, alternative="two-sided", method="asymptotic")
        delta, p = 2 * float(result.statistic) / (len(x) * len(y)) - 1, float(result.pvalue)
    difference = row["a"] - row["b"]
    return row | {"difference": difference, "low": low, "high": high, "cliff_delta": delta, "p": min(p, 1.0)}


def _welch(x: Floats, y: Floats, level: float) -> tuple[float, float]:
    """Return Welch's interval of the difference of two means (Welch 1947)."""
    from scipy.stats import t  # noqa: PLC0415 - slow

    if min(len(x), len(y)) < _LEAST:
        return np.nan, np.nan
    difference = float(x.mean() - y.mean())
    variances = np.array([x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)])
    if not variances.sum():
        return difference, difference
    freedom = variances.sum() ** 2 / (variances**2 / np.array([len(x) - 1, len(y) - 1])).sum()
    half = float(t.ppf((1 + level) / 2, freedom) * np.sqrt(variances.sum()))
    return difference - half, difference + half
