"""Two models on the same items: the difference, its interval, and a paired test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.evaluation import bootstrap as resampling
from workbench.evaluation.bootstrap import Units
from workbench.evaluation.reading import VARIANT, Source, check_options, floats, one_value, sources
from workbench.items.schema import DataError

Interval = tuple[float, float]

_MCNEMAR = "exact McNemar test"
_SMALL = 0.0001


@dataclass(frozen=True, slots=True)
class Significance:
    """How far apart two models are on the same items.

    Attributes
    ----------
    a, b : str
        The models (with their runs where the models have one name).
    n : int
        Items that both predicted and whose answer is known.
    accuracy_a, accuracy_b : float
        Fractions of right answers on these items.
    difference : float
        `accuracy_a` - `accuracy_b`.
    interval : (float, float)
        Percentile interval of the paired bootstrap of the difference; NaN for a single unit.
    p_value : float
        Two-sided, of `test`.
    test : str
        The exact McNemar test where items are resampled; a sign-flip test by novel where every
        item names its novel, exact for up to 16 novels that tell the models apart.
    n_only_a, n_only_b : int
        Items that only one of the two got right.
    resampled_by : {"item", "novel"}
    n_units : int
        Items or novels that were resampled.
    log_prob_difference : float or None
        Mean ln p of `a` minus that of `b`, per target word; None where not both give log-probabilities.
        The perplexity of `a` is that of `b` times exp(-difference).
    log_prob_interval : (float, float) or None
    log_prob_p_value : float or None
        Of a sign-flip test by unit; None also where one model gives an answer probability 0.
    level : float
    resamples, seed : int
    notes : tuple of str
        What else is to be known.
    """

    a: str
    b: str
    n: int
    accuracy_a: float
    accuracy_b: float
    difference: float
    interval: Interval
    p_value: float
    test: str
    n_only_a: int
    n_only_b: int
    resampled_by: str
    n_units: int
    log_prob_difference: float | None
    log_prob_interval: Interval | None
    log_prob_p_value: float | None
    level: float
    resamples: int
    seed: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        low, high = self.interval
        bounds = (
            ""
            if np.isnan(low)
            else f", {100 * self.level:g} % interval {100 * low:+.1f} to {100 * high:+.1f}"
        )
        return (
            f"{self.a} is right on {100 * self.accuracy_a:.1f} % and {self.b} on"
            f" {100 * self.accuracy_b:.1f} % of {self.n:,} items: a difference of"
            f" {100 * self.difference:+.1f} points{bounds}"
            f" ({_p(self.p_value)}, {self.test})."
        )

    def _repr_html_(self) -> str:
        """Show the two models, the difference and the notes."""
        span = f"{100 * self.level:g} % interval"
        rows = [
            ("", self.a, self.b, "difference", span, "p"),
            (
                "accuracy",
                f"{100 * self.accuracy_a:.1f} %",
                f"{100 * self.accuracy_b:.1f} %",
                f"{100 * self.difference:+.1f}",
                _span(self.interval, 100, 1),
                _p(self.p_value),
            ),
            ("right where the other is wrong", f"{self.n_only_a:,}", f"{self.n_only_b:,}", "", "", ""),
        ]
        if self.log_prob_difference is not None:
            bounds = _span(self.log_prob_interval, 1, 3)
            p = "" if self.log_prob_p_value is None else _p(self.log_prob_p_value)
            rows.append(("mean ln p per target word", "", "", f"{self.log_prob_difference:+.3f}", bounds, p))
        head, *body = (
            "".join(f"<{cell}>{escape(text)}</{cell}>" for text in row)
            for cell, row in zip(["th", *["td"] * len(rows)], rows, strict=False)
        )
        notes = " ".join([f"{self.n:,} items; {self.test}.", *self.notes])
        lines = "".join(f"<tr>{row}</tr>" for row in body)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table><p>{escape(notes)}</p>"


def significance(
    a: Any, b: Any, *, resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> Significance:
    """Test whether one model is better than another on the same items.

    The items of one novel are not independent: where every item names its novel (``book_id``),
    novels are resampled and their signs flipped as wholes; otherwise items are.

    Parameters
    ----------
    a, b : Run, DataFrame or str
        A run, a frame of predictions of one model, or the name of a run.
    resamples : int, default 10,000
        Bootstrap replicates, and random choices of signs.
    seed : int, default 0
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    Significance
        Difference in accuracy and in mean log-probability, with intervals and p.

    Raises
    ------
    DataError
        If one side holds several models, no item is in both, or the same item has another answer.

    References
    ----------
    McNemar 1947; Efron and Tibshirani 1993 (bootstrap, percentile interval); Fisher 1935,
    section 21 (sign flips).
    """
    check_options(level, resamples)
    return compare(_single(a, "a"), _single(b, "b"), resamples=resamples, seed=seed, level=level)


def _single(runs: Any, name: str) -> Source:
    found = sources(runs)
    if len(found) != 1:
        held = ", ".join(f"{source.model} {source.run}".strip() for source in found) or "none"
        raise DataError(f"{name} must hold the predictions of one model, found {len(found)}: {held}")
    return found[0]


class _Paired(NamedTuple):
    """Predictions of the items that both sides answered, in one order."""

    a: pd.DataFrame
    b: pd.DataFrame
    units: Units
    notes: list[str]


def compare(a: Source, b: Source, *, resamples: int, seed: int, level: float) -> Significance:
    """Compare two sources; see :func:`significance`."""
    pair = _paired(a, b)
    right_a, right_b = (floats(frame["correct"]) for frame in (pair.a, pair.b))
    difference = right_a - right_b
    only_a, only_b = int((difference > 0).sum()), int((difference < 0).sum())
    if pair.units.by == "novel":
        p, exact = resampling.sign_flip(difference, pair.units, resamples, seed)
        drawn = "exact" if exact else f"{resamples:,} random choices of signs"
        test = f"paired sign-flip test by novel, {drawn}"
    else:
        p, test = mcnemar(only_a, only_b), _MCNEMAR
    both = (_log_probs(pair.a), _log_probs(pair.b))
    likelier = _difference(*both)
    columns = np.column_stack([difference, np.where(np.isfinite(likelier), likelier, np.nan)])
    drawn_means = resampling.means(columns, pair.units, resamples, seed)
    spans = [resampling.interval(column, level, pair.units.number) for column in drawn_means.T]
    mean, p_log = None, None
    given = ~np.isnan(likelier)
    if given.any():
        mean = float(likelier[given].mean()) if not _both_ways(likelier) else np.nan
        if np.isfinite(likelier[given]).all():
            p_log = resampling.sign_flip(likelier[given], pair.units.of(given), resamples, seed)[0]
        else:
            pair.notes.append(
                "An answer has probability 0: the difference of the log-probabilities is infinite."
            )
        if given.sum() < len(given):
            pair.notes.append(f"Log-probabilities are compared on {int(given.sum()):,} items.")
    names = [a.model, b.model]
    if a.model == b.model and a.run != b.run:
        names = [f"{source.model} ({source.run or 'not stored'})" for source in (a, b)]
    n = len(difference)
    return Significance(
        a=names[0],
        b=names[1],
        n=n,
        accuracy_a=float(right_a.mean()),
        accuracy_b=float(right_b.mean()),
        difference=(only_a - only_b) / n,
        interval=spans[0],
        p_value=p,
        test=test,
        n_only_a=only_a,
        n_only_b=only_b,
        resampled_by=pair.units.by,
        n_units=pair.units.number,
        log_prob_difference=mean,
        log_prob_interval=spans[1] if p_log is not None else None,
        log_prob_p_value=p_log,
        level=level,
        resamples=resamples,
        seed=seed,
        notes=tuple(pair.notes),
    )


def _paired(a: Source, b: Source) -> _Paired:
    left, right = (source.frame[source.frame["correct"].notna()].set_index("item_id") for source in (a, b))
    common = left.index.intersection(right.index).sort_values()
    if not len(common):
        raise DataError(
            f"{a.model!r} and {b.model!r} have no item in common whose answer is known",
            remedy="compare predictions of the same data set and split",
        )
    notes = [
        f"{len(frame) - len(common):,} items that only {source.model} predicted are left out."
        for source, frame in ((a, left), (b, right))
        if len(frame) > len(common)
    ]
    left, right = left.loc[common], right.loc[common]
    answers = [frame["answer"].str.casefold() for frame in (left, right)]
    other = (answers[0] != answers[1]) & answers[0].notna() & answers[1].notna()
    if other.any():
        raise DataError(
            f"the item {common[int(other.argmax())]!r} has another answer in the other predictions"
        )
    for column in ("variant", *VARIANT):
        values = [one_value(frame[column]) for frame in (left, right)]
        if values[0] != values[1]:
            notes.append(f"They differ in {column}: {values[0]} and {values[1]}.")
    of = resampling.units(left["book_id"].where(left["book_id"].notna(), right["book_id"]))
    text = resampling.said(of.by, of.number)
    notes.append(f"{text[0].upper()}{text[1:]}.")
    if of.by == "item" and "lambada" in set(left["dataset"]):
        notes.append(f"{resampling.LAMBADA}.")
    return _Paired(left, right, of, notes)


def _log_probs(frame: pd.DataFrame) -> resampling.Floats:
    return np.where(frame["score_type"] == "log_prob", floats(frame["log_prob"]), np.nan)


def _difference(a: resampling.Floats, b: resampling.Floats) -> resampling.Floats:
    """Return a - b; two answers of probability 0 do not differ."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(a) & np.isneginf(b), 0.0, a - b)


def _both_ways(values: resampling.Floats) -> bool:
    return bool(np.isposinf(values).any() and np.isneginf(values).any())


def mcnemar(only_a: int, only_b: int) -> float:
    """Return the two-sided p of the exact test whether both counts come from one coin (McNemar 1947)."""
    from scipy.stats import binomtest  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    return float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p values for their number (Holm 1979); NaN stays, and does not count.

    Each p, from the smallest on, is multiplied by the number of those not smaller, and is no less
    than the one before it.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p)[: int((~np.isnan(p)).sum())]  # NaN sorts last
    found = np.full(p.shape, np.nan)
    found[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return [float(value) for value in found]


def _p(value: float) -> str:
    return f"p < {_SMALL}" if value < _SMALL else f"p = {value:.2g}"


def _span(interval: Interval | None, scale: float, digits: int) -> str:
    if interval is None or np.isnan(interval[0]):
        return ""
    return " to ".join(f"{scale * bound:+.{digits}f}" for bound in interval)
