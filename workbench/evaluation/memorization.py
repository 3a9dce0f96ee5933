"""Predictions of items with substituted words: the new answer, the original one, or another word."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.evaluation.model_predictions import predictions_of
from workbench.items.items import Items, check_items
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError

OUTCOMES = ("substitute", "original", "other")
_LAYOUT = TableLayout(
    "Predictions where the answer was replaced",
    (
        TableColumn("model"),
        TableColumn("n", "count"),
        *(with_interval(name, "share") for name in (*OUTCOMES, "memorization_ratio")),
    ),
)


def memorization(runs: Any, items: Items, *, originals: Any = None, level: float = 0.95) -> Table:
    """Count how often models predict the new answer of changed items, the original one, or another word.

    Parameters
    ----------
    runs : Run, DataFrame, str, or several
        Predictions of `items`.
    items : Items
        Of :func:`workbench.rename` or :func:`workbench.swap_mentions`. Those with a new answer count.
    originals : Run, DataFrame, str, or several, optional
        Predictions of the unchanged items by the same models, in the same order: then only items count that
        the model had right, as in the paper.
    level : float, default 0.95
        Of Wilson's intervals.

    Returns
    -------
    Table
        One row a model: ``model``; ``n``, the number of items; ``substitute``, ``original`` and ``other``,
        shares of the items for which that is predicted, case apart; and ``memorization_ratio``, original /
        (original + substitute). NaN: there are no such items. Each has an interval (``_low``, ``_high``).

    Raises
    ------
    DataError
        If no item has an answer that was replaced, predictions are of none of them, or the numbers of runs
        differ.

    References
    ----------
    Longpre et al. 2021, "Entity-Based Knowledge Conflicts in Question Answering", section 4.

    Examples
    --------
    >>> swapped = wb.swap_mentions(items, annotations=annotations)
    >>> table = wb.memorization(ngram.cached(0.5).predict(swapped), swapped)
    >>> int(table["n"].iloc[0]) == len(swapped)
    True
    """
    check_items(items, "memorization")
    models, before = predictions_of(runs), predictions_of(originals) if originals is not None else None
    if before is not None and len(before) != len(models):
        raise DataError(f"there are {len(models)} runs and {len(before)} of the originals, expected as many")
    extra = items.extra.set_axis(items.frame["item_id"])
    if "original_answer" not in extra or not extra["answer_renamed"].any():
        raise DataError(
            "no item has an answer that was replaced", remedy="pass items of wb.rename or wb.swap_mentions"
        )
    old = extra["original_answer"][extra["answer_renamed"]].str.casefold()
    new = items.frame.set_index("item_id")["answer"].str.casefold()
    rows = []
    for k, model in enumerate(models):
        words = model.frame.set_index("item_id")["prediction"].str.casefold()
        words = words[words.index.isin(old.index)]
        if before is not None:
            right = before[k].frame.set_index("item_id")["correct"]
            words = words[right.reindex(words.index).fillna(value=False).to_numpy(dtype=bool)]
        follows = (words == new[words.index]).to_numpy(dtype=bool, na_value=False)
        stays = (words == old[words.index]).to_numpy(dtype=bool, na_value=False)
        counts = (follows.sum(), stays.sum(), (~follows & ~stays).sum())
        row = {"model": model.model, "n": len(words)}
        for name, count in zip(OUTCOMES, counts, strict=True):
            row |= _share(name, int(count), len(words), level)
        rows.append(row | _share("memorization_ratio", int(counts[1]), int(counts[0] + counts[1]), level))
    return Table(pd.DataFrame(rows), _LAYOUT)


def _share(name: str, count: int, n: int, level: float) -> dict[str, float]:
    [low], [high] = wilson(count, n, level=level)
    return {name: count / n if n else np.nan, f"{name}_low": float(low), f"{name}_high": float(high)}
