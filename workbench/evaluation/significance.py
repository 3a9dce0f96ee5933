"""Two models on the same items: the difference, its interval, and a paired test."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.proportions import holm
from workbench.evaluation import bootstrap
from workbench.evaluation.align import align
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.minimal_pairs import is_pairs, pair_models
from workbench.evaluation.model_predictions import predictions_of, source_of
from workbench.evaluation.paired import (
    log_prob_difference,
    other_event,
)
from workbench.evaluation.replicates import training_seeds
from workbench.evaluation.table_notes import trained_note, units_note
from workbench.items.items import Items, check_items
from workbench.render.labels import label
from workbench.render.numbers import fixed, p_value, percent, points
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import DataError, check_option

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Significance:
    """Paired comparison of two models.

    Attributes
    ----------
    a, b : str
        Names of the models (numbered where they are equal).
    n : int
        Items that both predicted and whose answer is known.
    accuracy_a, accuracy_b : float
        Fractions of right answers on these items.
    difference : float
        `accuracy_a` - `accuracy_b`.
    interval : (float, float)
        Interval of the difference, which excludes 0 exactly where `p_value` <= 1 - `level`.
    p_value : float
        Two-sided, of `test`.
    test : str
        The exact McNemar test by item; the exact sign-flip test by novel where every item names its novel.
        Welch's t test over units and seeds where both have several seeds; where only one has, the exact
        sign-flip test of its means over seeds, by item or novel.
    mde : float
        Smallest detectable difference (minimum detectable effect): the least true one that the test finds
        with a power of 80 % at the level of the interval (see
        :func:`workbench.evaluation.paired.accuracy_tests`); NaN where none can be promised.
    n_only_a, n_only_b : int
        Items that only one of the two got right; of replicates, that it got right with more of its seeds.
    resampled_by : {"item", "novel"}
    n_units : int
        Items or novels that were resampled.
    n_log_prob : int
        Items on which log-probabilities are compared.
    log_prob_difference : float or None
        Mean `quantity` of `a` minus that of `b`; None where not both give log-probabilities. The perplexity
        of `a` is that of `b` times exp(-difference). Differences of an item below the rounding of single
        precision are 0.
    log_prob_interval : (float, float) or None
    log_prob_p_value : float or None
        p of a sign-flip test by unit; None also where one model gives an answer probability 0, and where both
        have several seeds.
    log_prob_p_is_bound : bool
        Whether this p is the least that the random choices of signs can give: the exact one is lower.
    level : float
    resamples, seed : int
    quantity : str
        ln p per target word; of minimal pairs ln p(good) - ln p(bad).
    notes : tuple of str
        What was left out, and what must not be compared.
    distinctions : tuple of (str, value, value)
        Columns in which two models of one name differ, with the values of `a` and `b`.
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
    mde: float
    n_only_a: int
    n_only_b: int
    resampled_by: str
    n_units: int
    n_log_prob: int
    log_prob_difference: float | None
    log_prob_interval: Interval | None
    log_prob_p_value: float | None
    log_prob_p_is_bound: bool
    level: float
    resamples: int
    seed: int
    quantity: str = "ln p per target word"
    notes: tuple[str, ...] = ()
    distinctions: tuple[tuple[str, Any, Any], ...] = ()

    def __str__(self) -> str:
        low, high = self.interval
        span = f", {100 * self.level:g} % interval {points(low)} to {points(high)}"
        p = "no p: not the same task" if np.isnan(self.p_value) else f"p {p_value(self.p_value, sign=True)}"
        mde = (
            ""
            if np.isnan(self.mde)
            else f"; smallest detectable difference {fixed(100 * self.mde, 1)} points"
        )
        return (
            f"{self.a} is right on {percent(self.accuracy_a)} and {self.b} on {percent(self.accuracy_b)} of"
            f" {self.n:,} items: a difference of {points(self.difference)} points"
            f"{'' if np.isnan(low) else span} ({p}, {self.test}{mde})."
        )

    @property
    def frame(self) -> pd.DataFrame:
        """All numbers, one row: the attributes, intervals and distinctions in two columns each."""
        values = asdict(self) | {"notes": " ".join(self.notes)}
        for name in ("interval", "log_prob_interval"):
            low, high = values.pop(name) or (None, None)
            values |= {f"{name}_low": low, f"{name}_high": high}
        for name, of_a, of_b in values.pop("distinctions"):
            values |= {f"{name}_a": of_a, f"{name}_b": of_b}
        return pd.DataFrame([values])

    @property
    def table(self) -> Table:
        """The comparison as a table: what tells the models apart, accuracies, counts, log-probabilities."""
        names = ("quantity", "kind", "a", "b", "difference", "low", "high", "p", "p_kind", "mde")
        right = ("only this model right", "count", self.n_only_a, self.n_only_b)
        accuracies = (self.accuracy_a, self.accuracy_b)
        rows: list[tuple[Any, ...]] = []
        for name, *values in self.distinctions:
            texts = [None if value is None else str(value) for value in values]
            rows.append((label(name), "text", *texts, None, None, None, None, "p", None))
        rows += [
            ("accuracy", "share", *accuracies, self.difference, *self.interval, self.p_value, "p", self.mde),
            (*right, self.n_only_a - self.n_only_b, None, None, None, "p", None),
        ]
        if self.log_prob_difference is not None:
            bounds = self.log_prob_interval or (None, None)
            items = f", {self.n_log_prob:,} items" if self.n_log_prob < self.n else ""
            quantity = f"mean {self.quantity} (nats){items}"
            log_probs = (quantity, "nats", None, None, self.log_prob_difference)
            p_kind = "p, bound" if self.log_prob_p_is_bound else "p"
            rows.append((*log_probs, *bounds, self.log_prob_p_value, p_kind, None))
        units = {"share": "percentage points", "count": "whole difference", "nats": "signed"}
        of_model = ("kind", {"share": "percent", "count": "count", "text": "text"})
        columns = (
            TableColumn("quantity"),
            TableColumn("a", of_model, heading=self.a, tooltip="Model."),
            TableColumn("b", of_model, heading=self.b, tooltip="Model."),
            TableColumn("difference", ("kind", units), ("low", "high"), tooltip="First minus second model."),
            TableColumn("p", ("p_kind", {name: name for name in ("p", "p, bound")}),
                        tooltip=f"Of the difference in accuracy: {self.test}."),
            TableColumn("mde", "unsigned points"),
        )  # fmt: skip
        frame = pd.DataFrame(rows, columns=list(names))
        frame.attrs["note"] = (
            f"{self.n:,} items; {self.test}.",
            f"In brackets: {100 * self.level:g} % intervals.",
            *self.notes,
        )
        return Table(frame, TableLayout(f"{self.a} and {self.b} on the same items", columns))

    def to_html(self) -> str:
        """Return the table as an HTML fragment."""
        return self.table.to_html()

    def to_latex(self, label: str = "tab:significance", **options: Any) -> str:
        """Return the table in LaTeX; options as for the method of a table."""
        return self.table.to_latex(label, **options)

    def to_markdown(self) -> str:
        """Return the table in Markdown."""
        return self.table.to_markdown()

    def to_csv(self, path: Any = None) -> Any:
        """Write `frame` as CSV; return it as text without a path."""
        return self.frame.to_csv(path, index=False)

    def _repr_html_(self) -> str:
        return self.to_html()


def significance(
    a: Any,
    b: Any = None,
    *,
    by: str | None = None,
    items: Items | None = None,
    resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> Significance | Table:
    """Test whether one model is better than another on the same items.

    The items of one novel are not independent: where every item names its novel (``book_id``), novels are
    the units of the test; otherwise items are. Where both have several seeds, seeds are units too.

    Parameters
    ----------
    a, b : Run, DataFrame, str or Replicates
        A run, a frame of predictions of one model, the name of a run, or what ``wb.replicates`` returns. A
        frame of :func:`workbench.score_pairs` with two models on the same pairs stands alone, as `a`: within
        one set pairs are the units, over several sets these are.
    by : str, optional
        Column of a frame of pairs, such as ``"UID"``: one test for each of its values.
    items : Items, optional
        What the predictions are about, for frames with ``item_id``, ``model`` and ``prediction`` alone.
    resamples, seed : int
        Number and seed of the random choices of signs (more than 14 novels, log-probabilities), and of the
        bootstrap replicates of log-probabilities.
    level : float, default 0.95
        Confidence level of the intervals.

    Returns
    -------
    Significance
        With `by`, a table with one row per group: the attributes of `Significance`, and `p_holm`, corrected
        for the number of groups.

    Raises
    ------
    DataError
        If one side holds several models, no item is in both, the same item has another answer, or a frame of
        pairs has not two models on the same pairs.

    References
    ----------
    McNemar 1947; Tango 1998 and Clopper and Pearson 1934 (interval by item); Fisher 1935, section 21, and
    Hartigan 1969 (sign flips, and their interval); Welch 1947 and Satterthwaite 1946 (seeds); Connor 1987 and
    Bloom 1995 (minimum detectable effect); Efron and Tibshirani 1993 (interval of log-probabilities).

    Examples
    --------
    >>> test = wb.significance(runs[1], runs[0])
    >>> test.n == len(items), 0 <= test.p_value <= 1
    (True, True)
    """
    check_items(items, "significance", optional=True)
    sampling = BootstrapSettings(level, resamples, seed).checked()
    if b is None:
        return _compare_pairs(a, by, sampling)
    if by is not None:
        raise DataError(
            "by= groups a frame of pairs alone", hint="pass the frame of wb.score_pairs as one argument"
        )
    sides = single_model(a, "a", items, pool=True), single_model(b, "b", items, pool=True)
    return compare_pair(*sides, sampling)


def _compare_pairs(pairs: Any, by: str | None, sampling: BootstrapSettings) -> Significance | Table:
    """Compare the two models of a frame of minimal pairs; with `by` for each of its groups."""
    models = pair_models(pairs, "significance")
    if len(models) != 2 or {*models[0]["item_id"]} != {*models[1]["item_id"]}:  # noqa: PLR2004 - a and b
        names = ", ".join(str(each["model"].iloc[0]) for each in models)
        problem = f"expected two models on the same pairs, got {len(models)}: {names}"
        raise DataError(problem, hint="pass the rows of two models: pairs[pairs['model'].isin([a, b])]")
    if by is None:
        return compare_pair(single_model(models[0], "a"), single_model(models[1], "b"), sampling)
    check_option("by", by, [*map(str, pairs.columns)])
    first, second = models
    keys, rows = [], []
    for key, members in first.groupby(by, dropna=False, observed=True):
        others = second[second["item_id"].isin(members["item_id"])]
        keys.append(key)
        rows.append(compare_pair(single_model(members, "a"), single_model(others, "b"), sampling))
    frame = pd.concat([each.frame for each in rows], ignore_index=True)
    frame.insert(0, by, keys)
    frame["p_holm"] = holm(frame["p_value"].to_numpy(float))
    frame.attrs["note"] = tuple(dict.fromkeys(note for each in rows for note in each.notes))
    columns = (
        TableColumn(by), TableColumn("n", "count"),
        TableColumn("accuracy_a", "share", heading=rows[0].a),
        TableColumn("accuracy_b", "share", heading=rows[0].b),
        TableColumn("difference", "points", ("interval_low", "interval_high")),
        TableColumn("p_value", "p", heading="p"), TableColumn("p_holm", "p"),
        TableColumn("log_prob_difference", "signed", ("log_prob_interval_low", "log_prob_interval_high"),
                    heading=f"{rows[0].quantity} (nats)"),
    )  # fmt: skip
    return Table(frame, TableLayout(f"{rows[0].a} and {rows[0].b} on the same pairs", columns))


def _trained_note(compared: Comparison) -> list[str]:
    """Return the note on models of which p knows a single training."""
    number = [right.shape[1] for right in compared.by_seed]
    if min(number) > 1:
        return []
    return trained_note([
        label for label, source, k in zip(compared.labels, compared.sources, number, strict=True)
        if k > 1 or training_seeds(source.info)
    ])  # fmt: skip


def single_model(runs: Any, name: str, items: Items | None = None, *, pool: bool = False) -> pd.DataFrame:
    """Return predictions of one model; DataError, which calls them by `name`, if there are others or none."""
    models = predictions_of(runs, items, pool=pool)
    if len(models) != 1:
        sources = map(source_of, models)
        held = ", ".join(f"{source.model} {source.run}".strip() for source in sources) or "none"
        raise DataError(
            f"{name} must hold the predictions of one model, found {len(models)}: {held}",
            hint="pass one run, or the runs of several seeds as wb.replicates(runs)",
        )
    return models[0]


def compare_pair(a: pd.DataFrame, b: pd.DataFrame, sampling: BootstrapSettings) -> Significance:
    """Compare the predictions of two models; see :func:`significance`."""
    compared, pair = align(None, [a, b], **sampling._asdict()), np.array([[0], [1]])
    are_pairs = is_pairs(a) and is_pairs(b)
    if are_pairs:
        differences = [frame.set_index("item_id")["difference"].loc[compared.item_ids] for frame in (a, b)]
        compared.log_prob = np.stack([values.to_numpy(float) for values in differences])
    units, test, accuracies = compared.units, compared.tests(pair), compared.shares.mean(axis=1)
    is_few = units.number <= bootstrap.FEW_AT_LOW_ACCURACY and accuracies.min() < bootstrap.LOW_ACCURACY
    notes = [*compared.warnings, *_trained_note(compared)]
    if not are_pairs or units.by != "item":  # pairs of one set are the units of a test of this set
        notes += units_note(units.by, units.number, is_few=is_few)
    (mean,), *bounds = compared.log_prob_intervals(pair)
    log_probs = log_prob_difference(*compared.log_prob)
    present, p_log_prob, is_bound = ~np.isnan(log_probs), None, False
    by_seed = all(right.shape[1] > 1 for right in compared.by_seed)
    if not by_seed and present.any() and np.isfinite(log_probs[present]).all():
        p_log_prob, _, is_bound = bootstrap.sign_flip(
            log_probs[present], units.subset(present), sampling.resamples, sampling.seed
        )
    if other_event(*compared.value_sets):
        p_log_prob, is_bound = None, False
    traits: Any = compared.distinctions.astype(object).replace({pd.NA: None}).to_dict("list")
    return Significance(
        a=compared.labels[0], b=compared.labels[1], n=compared.n,
        accuracy_a=float(accuracies[0]), accuracy_b=float(accuracies[1]),
        difference=float(test.difference[0]), interval=(float(test.low[0]), float(test.high[0])),
        p_value=float(test.p[0]), test=test.test[0], mde=float(test.mde[0]),
        n_only_a=int(test.only_a[0]), n_only_b=int(test.only_b[0]),
        resampled_by=units.by, n_units=units.number,
        n_log_prob=int(present.sum()),
        log_prob_difference=float(mean) if present.any() else None,
        log_prob_interval=None if p_log_prob is None else (float(bounds[0][0]), float(bounds[1][0])),
        log_prob_p_value=p_log_prob, log_prob_p_is_bound=is_bound,
        **sampling._asdict(), notes=tuple(notes),
        quantity="ln p(good) - ln p(bad)" if are_pairs else "ln p per target word",
        distinctions=tuple((name, *values) for name, values in traits.items()),
    )  # fmt: skip
