"""Two models on the same items: the difference, its interval, and a paired test."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.proportions import mcnemar
from workbench.evaluation import bootstrap
from workbench.evaluation.bootstrap import Drawing, Floats, Ints, Units
from workbench.evaluation.comparability import (
    list_differences,
    list_training,
    of_one_event,
    other_event,
    other_task,
)
from workbench.evaluation.reading import (
    VARIANT,
    ModelPredictions,
    by_seed,
    floats,
    labels,
    predictions_of,
    words_of,
)
from workbench.render.numbers import p_value, percent, points
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import DataError
from workbench.storage.spreadsheet import Formulas, write_csv

Interval = tuple[float, float]

MCNEMAR = "exact McNemar test"
_P_KINDS = {"p": "p", "p, bound": "p, bound"}


@dataclass(frozen=True, slots=True)
class Significance:
    """Paired comparison of two models.

    Attributes
    ----------
    a, b : str
        Names of the models (with their runs where the names are equal).
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
        The exact McNemar test where items are resampled; where novels are, the exact sign-flip test by novel.
        Of replicates the exact sign-flip test of the means over seeds, by item or novel.
    n_only_a, n_only_b : int
        Items that only one of the two got right; of replicates, that it got right with more of its seeds.
    resampled_by : {"item", "novel"}
    n_units : int
        Items or novels that were resampled.
    log_prob_difference : float or None
        Mean ln p of `a` minus that of `b`, per target word; None where not both give log-probabilities.
        The perplexity of `a` is that of `b` times exp(-difference).
    log_prob_interval : (float, float) or None
    log_prob_p_value : float or None
        Of a sign-flip test by unit; None also where one model gives an answer probability 0.
    log_prob_p_is_bound : bool
        Whether this p is the least that the random choices of signs can give: the exact one is lower.
    level : float
    resamples, seed : int
    notes : tuple of str
        What was left out or resampled, and in what the predictions differ.
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
    log_prob_p_is_bound: bool
    level: float
    resamples: int
    seed: int
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        low, high = self.interval
        span = f", {100 * self.level:g} % interval {points(low)} to {points(high)}"
        p = "no p: not the same task" if np.isnan(self.p_value) else f"p {p_value(self.p_value, sign=True)}"
        return (
            f"{self.a} is right on {percent(self.accuracy_a)} and {self.b} on {percent(self.accuracy_b)} of"
            f" {self.n:,} items: a difference of {points(self.difference)} points"
            f"{'' if np.isnan(low) else span} ({p}, {self.test})."
        )

    @property
    def frame(self) -> pd.DataFrame:
        """All numbers, one row: the attributes, intervals in two columns each."""
        values = asdict(self) | {"notes": " ".join(self.notes)}
        for name in ("interval", "log_prob_interval"):
            low, high = values.pop(name) or (None, None)
            values |= {f"{name}_low": low, f"{name}_high": high}
        return pd.DataFrame([values])

    @property
    def table(self) -> Table:
        """The comparison as a table: accuracies, items that one of the two got right, log-probabilities."""
        names = ("quantity", "kind", "a", "b", "difference", "low", "high", "p", "p_kind")
        right = ("right where the other is wrong", "count", self.n_only_a, self.n_only_b)
        accuracies = (self.accuracy_a, self.accuracy_b)
        rows: list[tuple[Any, ...]] = [
            ("accuracy", "share", *accuracies, self.difference, *self.interval, self.p_value, "p"),
            (*right, self.n_only_a - self.n_only_b, None, None, None, "p"),
        ]
        if self.log_prob_difference is not None:
            bounds = self.log_prob_interval or (None, None)
            log_probs = ("mean ln p per target word (nats)", "nats", None, None, self.log_prob_difference)
            p_kind = "p, bound" if self.log_prob_p_is_bound else "p"
            rows.append((*log_probs, *bounds, self.log_prob_p_value, p_kind))
        kinds = {"share": "percentage points", "count": "whole difference", "nats": "signed"}
        columns = (
            TableColumn("quantity"),
            *(
                TableColumn(
                    side, ("kind", {"share": "percent", "count": "count"}), heading=name, tooltip="Model."
                )
                for side, name in (("a", self.a), ("b", self.b))
            ),
            TableColumn("difference", ("kind", kinds), ("low", "high"), tooltip="First minus second model."),
            TableColumn("p", ("p_kind", _P_KINDS), tooltip=f"Of the difference in accuracy: {self.test}."),
        )
        frame = pd.DataFrame(rows, columns=list(names))
        frame.attrs["note"] = (
            f"{self.n:,} items; {self.test}.",
            f"In brackets: {100 * self.level:g} % intervals of the paired bootstrap.",
            f"{self.resamples:,} replicates, seed {self.seed}.",
            *self.notes,
        )
        return Table(frame, TableLayout(f"{self.a} and {self.b} on the same items", columns))

    def to_html(self) -> str:
        """Return the table as an HTML fragment."""
        return self.table.to_html()

    def to_latex(self) -> str:
        """Return the table in LaTeX."""
        return self.table.to_latex("tab:significance")

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        return self.table.to_markdown()

    def to_csv(self, path: Any = None, *, formulas: Formulas = "keep") -> Any:
        """Write `frame` as CSV; return it as text without a path; formulas as for `write_csv`."""
        return write_csv(self.frame, path, formulas=formulas)

    def _repr_html_(self) -> str:
        return self.to_html()


def significance(
    a: Any, b: Any, *, resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> Significance:
    """Test whether one model is better than another on the same items.

    The items of one novel are not independent: where every item names its novel (``book_id``),
    novels are resampled and their signs flipped as wholes; otherwise items are.

    Parameters
    ----------
    a, b : Run, DataFrame, str or Replicates
        A run, a frame of predictions of one model, the name of a run, or what ``wb.replicates`` returns.
    resamples, seed : int
        Number and seed of the bootstrap replicates, and of the random choices of signs.
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    Significance

    Raises
    ------
    DataError
        If one side holds several models, no item is in both, or the same item has another answer.

    References
    ----------
    McNemar 1947; Efron and Tibshirani 1993 (percentile interval); Fisher 1935, section 21 (sign flips).

    Examples
    --------
    >>> test = wb.significance(runs[1], runs[0])
    >>> test.n == len(items), 0 <= test.p_value <= 1
    (True, True)
    """
    drawing = Drawing(level, resamples, seed).checked()
    return compare_pair(_single(a, "a"), _single(b, "b"), drawing)


def _single(runs: Any, name: str) -> ModelPredictions:
    models = predictions_of(runs, pool=True)
    if len(models) != 1:
        held = ", ".join(f"{model.model} {model.run}".strip() for model in models) or "none"
        raise DataError(f"{name} must hold the predictions of one model, found {len(models)}: {held}")
    return models[0]


def compare_pair(a: ModelPredictions, b: ModelPredictions, drawing: Drawing) -> Significance:
    """Compare the predictions of two models; see :func:`significance`."""
    level, resamples, seed = drawing
    left, right, notes = _paired(a, b)
    of = bootstrap.units(left["book_id"].where(left["book_id"].notna(), right["book_id"]))
    text = bootstrap.describe_resampling(of.by, of.number)
    notes.append(f"{text[0].upper()}{text[1:]}.")
    if of.by == "item" and "lambada" in set(left["dataset"]):
        notes.append(f"{bootstrap.LAMBADA}.")
    seeds = [by_seed(frame) for frame in (left, right)]
    correct = [right_by_seed.mean(axis=1) for right_by_seed in seeds]
    difference = correct[0] - correct[1]
    n_seeds = [right_by_seed.shape[1] for right_by_seed in seeds]
    only_a, only_b = int((difference > 0).sum()), int((difference < 0).sum())
    test = test_name(of, several=max(n_seeds) > 1)
    if test == MCNEMAR:
        p = float(mcnemar(only_a, only_b)[0])
    else:
        p, _, _ = bootstrap.sign_flip(whole_numbers(difference, *n_seeds), of, resamples, seed)
    columns = (frame["log_prob"].where(frame["score_type"] == "log_prob") for frame in (left, right))
    uncorrected = np.stack([floats(frame["log_prob_uncorrected"]) for frame in (left, right)])
    log_probs = log_prob_difference(*of_one_event(np.stack([*map(floats, columns)]), uncorrected))
    rows = np.stack([difference, np.where(np.isfinite(log_probs), log_probs, np.nan)])
    drawn, _ = bootstrap.resample(rows, rows[:0], of, resamples, seed)
    low, high = (bound.tolist() for bound in bootstrap.intervals(drawn, level, of.number))
    p_log_prob, is_bound = None, False
    if (known := ~np.isnan(log_probs)).any():
        if np.isfinite(log_probs[known]).all():
            units = of.of(known)
            p_log_prob, exact, is_bound = bootstrap.sign_flip(log_probs[known], units, resamples, seed)
            signs = "exact" if exact else f"{resamples:,} random choices of signs"
            notes.append(f"p of the log-probabilities is of a sign-flip test by {of.by}, {signs}.")
        else:
            notes.append("An answer has probability 0: the difference of the log-probabilities is infinite.")
        if not known.all():
            notes.append(f"Log-probabilities are compared on {int(known.sum()):,} items.")
    names = [a.model, b.model] if a.model != b.model or a.run == b.run else labels([a, b])
    counts = [int(frame["in_training"].fillna(value=False).sum()) for frame in (left, right)]
    notes[:0] = list_training((name, k, len(left)) for name, k in zip(names, counts, strict=True))
    sets = [_value_sets(frame) for frame in (left, right)]
    if other_task(*sets):
        p = np.nan
        notes.append("There is no p: they do not do the same task.")
    if other_event(*sets):
        p_log_prob, is_bound = None, False
    return Significance(
        a=names[0],
        b=names[1],
        n=len(difference),
        accuracy_a=float(correct[0].mean()),
        accuracy_b=float(correct[1].mean()),
        difference=float(difference.mean()),
        interval=(low[0], high[0]),
        p_value=p,
        test=test,
        n_only_a=only_a,
        n_only_b=only_b,
        resampled_by=of.by,
        n_units=of.number,
        log_prob_difference=mean_of_known(log_probs) if known.any() else None,
        log_prob_interval=None if p_log_prob is None else (low[1], high[1]),
        log_prob_p_value=p_log_prob,
        log_prob_p_is_bound=is_bound,
        level=level,
        resamples=resamples,
        seed=seed,
        notes=tuple(notes),
    )


def _value_sets(frame: pd.DataFrame) -> dict[str, set[Any]]:
    """Return the different values of the variant and of each column of `VARIANT`, null left out."""
    return {
        name: {value for value in frame[name].unique().tolist() if not pd.isna(value)}
        for name in ("variant", *VARIANT)
    }


def _paired(a: ModelPredictions, b: ModelPredictions) -> tuple[pd.DataFrame, pd.DataFrame, list[str]]:
    """Return the predictions of the items that both sides answered, in one order, and notes on them."""
    left, right = (side.frame[side.frame["correct"].notna()].set_index("item_id") for side in (a, b))
    common = left.index.intersection(right.index).sort_values()
    if not len(common):
        raise DataError(
            f"{a.model!r} and {b.model!r} have no item in common whose answer is known",
            remedy="compare predictions of the same data set and split",
        )
    notes = [
        f"{len(frame) - len(common):,} items that only {side.model} predicted are excluded."
        for side, frame in ((a, left), (b, right))
        if len(frame) > len(common)
    ]
    left, right = left.loc[common], right.loc[common]
    answers = [frame["answer"].str.casefold() for frame in (left, right)]
    other = (answers[0] != answers[1]) & answers[0].notna() & answers[1].notna()
    if other.any():
        raise DataError(
            f"the item {common[int(other.argmax())]!r} has different answers in the two sets of predictions"
        )
    names = [a.model, b.model] if a.model != b.model else labels([a, b])
    sides = dict(zip(names, (left, right), strict=True))
    texts = {name: words_of("variant", frozenset(frame["variant"].dropna())) for name, frame in sides.items()}
    if len(set(texts.values())) > 1:
        notes.append(f"They read different variants: {' and '.join(texts.values())}.")
    sets = {name: _value_sets(side) for name, side in sides.items()}
    proper = [name for name, side in sides.items() if side["log_prob"].notna().any()]
    lost = {name: int((side["known"] == False).sum()) for name, side in sides.items()}  # noqa: E712 - of nulls
    notes += list_differences(sets, proper, lost, len(common))
    return left, right, notes


def test_name(of: Units, *, several: bool) -> str:
    """Return the test of a difference in accuracy; `several`: a side is the mean of replicates."""
    return f"paired sign-flip test by {of.by}, exact" if several or of.by == "novel" else MCNEMAR


def whole_numbers(differences: Floats, *n_seeds: int) -> Ints:
    """Return differences of means over seeds as multiples of the least step between such differences."""
    return np.rint(differences * math.lcm(*n_seeds)).astype(np.int64)


def log_prob_difference(a: Floats, b: Floats) -> Floats:
    """Return ln p of one model minus that of another (n,); two answers of probability 0 do not differ."""
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(a) & np.isneginf(b), 0.0, a - b)


def mean_of_known(values: Floats) -> float:
    """Return the mean of the values that are not NaN; NaN of none, and of both infinities."""
    known = values[~np.isnan(values)]
    with np.errstate(invalid="ignore"):
        return float(known.mean()) if len(known) else np.nan
