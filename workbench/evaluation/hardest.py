"""The items that several models find hardest, or disagree about."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.evaluation.comparison import Comparison
from workbench.evaluation.reading import several
from workbench.evaluation.rows import loaded
from workbench.items import text as wt
from workbench.items.items import Items
from workbench.items.schema import DataError

By = Literal["difficulty", "disagreement", "alone", "variance", "all wrong"]
_SHOWN = 20


@dataclass(frozen=True)
class Hardest:
    """Items in the order of what was asked for.

    Attributes
    ----------
    items : Items
        A set like any other: ``.to_parquet(path)`` keeps it.
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
        What they are ordered by.
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
        head = ("item", "end of the passage", "answer", "right", "alone", "mean ln p", "variance")
        cells = "".join(f"<th>{name}</th>" for name in head)
        lines = []
        for item, row in zip(self.items[:_SHOWN], self.frame.to_dict("records"), strict=False):
            values = (
                item.item_id,
                wt.readable(item.query) if item.tokenised else item.query,
                row["answer"],
                f"{row['n_right']} of {row['n_models']}",
                row["alone"],
                _number(row["mean_log_prob"]),
                _number(row["variance"]),
            )
            texts = ["" if pd.isna(value) else str(value) for value in values]
            lines.append("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in texts) + "</tr>")
        more = f"{len(self):,} items by {self.by}"
        shown = f"; the first {_SHOWN} are shown" if len(self) > _SHOWN else ""
        notes = "".join(f"<li>{escape(text)}</li>" for text in self.warnings)
        return (
            f"<table><thead><tr>{cells}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
            f"<p>{escape(more)}{shown}.</p>{f'<ul>{notes}</ul>' if notes else ''}"
        )


def hardest(runs: Any, items: Items | None = None, *, by: By = "difficulty", n: int | None = None) -> Hardest:
    """Order items by what models make of them.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Runs, frames of predictions, or names of stored runs.
    items : Items, optional
        What they are about; loaded by the data set, split and variant that the predictions name by default.
    by : str, default "difficulty"
        What comes first, ties in the order of the items:

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
        At most so many; all by default.

    Returns
    -------
    Hardest
        ``.items`` and ``.frame``.

    Raises
    ------
    DataError
        If the models have no item in common, the items are not found, or an option makes no sense.
    """
    if by not in get_args(By):
        raise DataError(f"by={by!r} is unknown", remedy=f"use one of {', '.join(get_args(By))}")
    if n is not None and n < 1:
        raise DataError(f"there cannot be {n} items", remedy="leave n out for all of them")
    runs = list(several(runs))
    found = Comparison.of(loaded(runs) if items is None else items, runs)
    if by == "alone" and found.m == 1:
        raise DataError("one model cannot be right alone", remedy="pass several runs")
    frame = _frame(found)
    chosen = _order(found, frame, by)[: len(frame) if n is None else n]
    # by position, as `where` keeps the order of the items
    ordered = Items(found.items.frame.iloc[chosen], attrs=found.items.attrs)
    return Hardest(ordered, frame.iloc[chosen].reset_index(drop=True), by, tuple(found.warnings))


def _frame(found: Comparison) -> pd.DataFrame:
    frame = found.items.frame
    single = found.n_right == 1 if found.m > 1 else np.zeros(found.n, dtype=bool)
    labels = np.array([*found.labels], dtype=object)[found.correct.argmax(axis=0)]
    return pd.DataFrame(
        {
            "item_id": frame["item_id"],
            "answer": pd.Series(found.answers, dtype="str"),
            "n_right": found.n_right,
            "n_models": found.m,
            "disagreement": found.disagreement,
            "alone": pd.Series(np.where(single, labels, None), dtype="str"),
            "mean_log_prob": mean_log_prob(found),
            "variance": np.where(np.isneginf(found.log_prob).any(axis=0), np.nan, found.variance),
        }
    )


def mean_log_prob(found: Comparison) -> npt.NDArray[np.float64]:
    """Return the mean over the models of ln p of each answer (n,); NaN where none gives one."""
    some = ~np.isnan(found.log_prob)
    total, count = np.where(some, found.log_prob, 0).sum(axis=0), some.sum(axis=0)
    mean: npt.NDArray[np.float64] = np.full(found.n, np.nan)
    np.divide(total, count, out=mean, where=count > 0)
    return mean


def _order(found: Comparison, frame: pd.DataFrame, by: str) -> npt.NDArray[np.int64]:
    """Return the chosen items' places, in order; a stable sort keeps that of the items among equals."""
    mean = frame["mean_log_prob"].to_numpy()
    unlikely = np.where(np.isnan(mean), np.inf, mean)  # lowest first, those without one last
    variance = frame["variance"].to_numpy()
    varied = np.where(np.isnan(variance), np.inf, -variance)
    everything = np.ones(found.n, dtype=bool)
    keys, chosen = {
        "difficulty": ([found.n_right, unlikely], everything),
        "disagreement": ([-found.disagreement, varied], everything),
        "alone": ([found.correct.argmax(axis=0), unlikely], found.n_right == 1),
        "variance": ([varied], ~np.isnan(variance)),
        "all wrong": ([unlikely], found.n_right == 0),
    }[by]
    order = np.lexsort(keys[::-1])
    return np.asarray(order[chosen[order]], dtype=np.int64)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.2f}"
