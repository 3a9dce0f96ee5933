"""The items that several models find hardest, or disagree about."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.evaluation.comparison import Comparison
from workbench.evaluation.model_predictions import as_list, items_of
from workbench.items.items import Items, check_items
from workbench.items.schema import BLANK
from workbench.render.numbers import fixed
from workbench.render.tables import html_table
from workbench.storage.errors import DataError, check_option

By = Literal["difficulty", "disagreement", "alone", "variance", "all wrong"]
_SHOWN = 20


@dataclass(frozen=True)
class Hardest:
    """Items in an order by the results of several models.

    Attributes
    ----------
    items : Items
    frame : DataFrame
        One row an item in the same order:

        `item_id`, `answer`
        `n_right`, `n_models`
            How many of how many models are right.
        `disagreement`
            0 where all are right or all are wrong, 1 where half of them are.
        `alone`
            The only model that is right, null where none or several are.
        `mean_log_prob`, `variance`
            Mean and variance over the models of ln p of the answer; minus infinity and NaN where a model
            gives it probability 0, NaN where none gives log-probabilities (variance: fewer than two).
    by : str
    warnings : tuple of str
        What must not be compared, and why.
    """

    items: Items
    frame: pd.DataFrame
    by: str
    warnings: tuple[str, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.frame)

    def _repr_html_(self) -> str:
        """Show the first items with the end of their passages."""
        columns = ("item", "end of the passage", "answer", "right", "alone", "mean ln p", "variance")
        rows = []
        for item, row in zip(self.items[:_SHOWN], self.frame.to_dict("records"), strict=False):
            readable = item.readable_parts()
            query = f"{readable.left}{BLANK}{readable.right}"
            right = f"{row['n_right']} of {row['n_models']}"
            numbers = [fixed(row[name], 2) for name in ("mean_log_prob", "variance")]
            values = [item.item_id, query, row["answer"], right, row["alone"], *numbers]
            rows.append(["" if pd.isna(value) else value for value in values])
        note = f"; the first {_SHOWN} are shown" if len(self) > _SHOWN else ""
        caption = f"{len(self):,} items by {self.by}{note}."
        return html_table(columns, rows, caption=caption, notes=self.warnings)


def hardest(runs: Any, items: Items | None = None, *, by: By = "difficulty", n: int | None = None) -> Hardest:
    """Order items by how hard models find them, or how far the models disagree.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Runs, frames of predictions, or names of stored runs.
    items : Items, optional
        Items of the predictions; by default the data set, split and variant that these name.
    by : str, default "difficulty"
        What comes first; ties are in the order of the items:

        ``difficulty``
            Fewest models right, then the lowest mean ln p.
        ``disagreement``
            Right by about half of the models, then the largest variance of ln p.
        ``alone``
            Only those that one model is right about, by model in the order given, the others' lowest
            mean ln p first. Needs two models.
        ``variance``
            Largest variance of ln p; those without one are left out.
        ``all wrong``
            Only those that no model is right about, the lowest mean ln p first.
    n : int, optional
        Number of items; all by default.

    Returns
    -------
    Hardest

    Raises
    ------
    DataError
        If the models have no item in common, the items are not found, or an option is invalid.

    Examples
    --------
    >>> hard = wb.hardest(runs, items, by="all wrong", n=5)
    >>> len(hard.items)
    5
    """
    check_items(items, "hardest", optional=True)
    check_option("by", by, get_args(By))
    if n is not None and n < 1:
        raise DataError(f"expected a positive number of items, got n={n}", remedy="omit n for all of them")
    runs = as_list(runs)
    comparison = Comparison.of(items_of(runs) if items is None else items, runs)
    if by == "alone" and comparison.m == 1:
        raise DataError("one model cannot be right alone", remedy="pass several runs")
    frame = _frame(comparison)
    order = _order(comparison, frame, by)[:n]
    # by position, as `where` keeps the order of the items
    ordered = Items(comparison.items.frame.iloc[order], attrs=comparison.items.attrs)
    return Hardest(ordered, frame.iloc[order].reset_index(drop=True), by, tuple(comparison.warnings))


def _frame(comparison: Comparison) -> pd.DataFrame:
    log_prob = comparison.log_prob
    present = ~np.isnan(log_prob)
    count = np.where(present.any(axis=0), present.sum(axis=0), np.nan)
    mean = np.where(present, log_prob, 0).sum(axis=0) / count
    with np.errstate(invalid="ignore", over="ignore"):  # of a probability 0, or almost 0
        squares = np.where(present, (log_prob - mean) ** 2, 0).sum(axis=0)
    alone = (comparison.n_right == 1) & (comparison.m > 1)
    labels = np.array([*comparison.labels], dtype=object)[comparison.correct.argmax(axis=0)]
    return pd.DataFrame(
        {
            "item_id": comparison.items.frame["item_id"],
            "answer": pd.Series(comparison.answers, dtype="str"),
            "n_right": comparison.n_right,
            "n_models": comparison.m,
            "disagreement": comparison.disagreement,
            "alone": pd.Series(np.where(alone, labels, None), dtype="str"),
            "mean_log_prob": mean,
            "variance": np.where(count > 1, squares / count, np.nan),
        }
    )


def _order(comparison: Comparison, frame: pd.DataFrame, by: str) -> npt.NDArray[np.int64]:
    """Return the chosen items' places, in order; a stable sort keeps that of the items among equals."""
    mean, variance = frame["mean_log_prob"].to_numpy(), frame["variance"].to_numpy()
    unlikely = np.where(np.isnan(mean), np.inf, mean)  # lowest first, those without one last
    varied = np.where(np.isnan(variance), np.inf, -variance)
    n_right = comparison.n_right
    sort_keys: dict[str, tuple[list[Any], npt.NDArray[np.bool_]]] = {
        "difficulty": ([n_right, unlikely], n_right >= 0),
        "disagreement": ([-comparison.disagreement, varied], n_right >= 0),
        "alone": ([comparison.correct.argmax(axis=0), unlikely], n_right == 1),
        "variance": ([varied], ~np.isnan(variance)),
        "all wrong": ([unlikely], n_right == 0),
    }
    keys, chosen = sort_keys[by]
    order = np.lexsort(keys[::-1])
    return np.asarray(order[chosen[order]], dtype=np.int64)
