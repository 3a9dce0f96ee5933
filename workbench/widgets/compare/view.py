"""One view of a comparison: what is chosen, the items that it leaves, and all of it as messages to a page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from workbench.evaluation.comparison import Comparison
from workbench.items.items import Items
from workbench.widgets.compare import parts as compare_parts
from workbench.widgets.compare.state import State
from workbench.widgets.shared import tables
from workbench.widgets.shared.facets import Mask

_FIRST_ROWS = 28
_TOP = ("pair", "bins", "sort", "against", "query")  # what brings the list back to its first item


class View:
    """A comparison under a state.

    Parameters
    ----------
    comparison : Comparison
    annotations : DataFrame, optional
        One row an item.

    Attributes
    ----------
    chosen : dict
        The state, checked.
    column : str
        The column of the chart.
    current : str
        Id of the item that is shown; "" where none is left.
    version : int
        Grows with every change of the list.
    rows : array of int
        Places of the listed items, in the list's order.
    """

    def __init__(self, comparison: Comparison, annotations: pd.DataFrame | None) -> None:
        self.chosen: dict[str, Any] = {}
        self.column, self.current, self.version = "", "", 0
        self._whole: dict[str, Any] | None = None
        self.take(comparison, annotations)
        self.rows = np.arange(comparison.n)

    def take(self, comparison: Comparison, annotations: pd.DataFrame | None) -> None:
        """Take a comparison of the same models and items in the place of the one before."""
        self.comparison, self.state = comparison, State(comparison)
        self._ids = comparison.items.frame["item_id"]
        self._place = {item_id: row for row, item_id in enumerate(self._ids)}
        self._annotations = tables.aligned(annotations, self._ids, "annotations")
        self._cut: tuple[Any, list[dict[str, Any]], int] | None = None

    def choose(self, chosen: Mapping[str, Any]) -> None:
        """Put a state in place of the one before; DataError leaves all as it was."""
        checked = self.state.checked(chosen)
        mask = self.state.mask(checked)
        self.counts = self.state.counts(checked, mask)
        self.rows = self.state.rows(checked, mask)
        moved = bool(self.chosen) and any(checked[part] != self.chosen[part] for part in _TOP)
        self.chosen = checked
        self.version += 1
        if moved or self.index(self.current) < 0:
            self.current = str(self._ids.iloc[self.rows[0]]) if len(self.rows) else ""

    def retake(self, comparison: Comparison, annotations: pd.DataFrame | None) -> None:
        """Take a comparison with other columns, and keep of the state what fits."""
        self.take(comparison, annotations)
        self.slice_by(self.column if self.column in comparison.columns else "")
        fitting = self.state.checked(self.state.fitting(self.chosen))
        if fitting != self.chosen:
            self.choose(fitting)

    def slice_by(self, column: str) -> None:
        """Choose the column of the chart, see `State.column`."""
        self.column = self.state.column(column)

    def index(self, item_id: str) -> int:
        """Return the place of an item in the list, -1 where it is not there."""
        found = np.flatnonzero(self.rows == self._place.get(item_id, -1))
        return int(found[0]) if len(found) else -1

    @property
    def mask(self) -> Mask:
        """The listed items, shape (n,)."""
        mask = np.zeros(self.comparison.n, dtype=bool)
        mask[self.rows] = True
        return mask

    @property
    def items(self) -> Items:
        """The listed items, in the order of the set."""
        return self.comparison.items.where(self.mask)

    def frame(self) -> pd.DataFrame:
        """Return the listed items in the list's order; see `Compare.to_frame`."""
        rows, made = self.rows, self.comparison
        frame = made.items.frame.iloc[rows][["item_id", "answer"]].reset_index(drop=True)
        columns: dict[str, Any] = {}
        for k, label in enumerate(made.labels):
            columns[f"{label}: right"] = made.correct[k, rows]
            columns[f"{label}: rank"] = made.rank[k, rows]
            columns[f"{label}: log_prob"] = made.log_prob[k, rows]
        columns |= {"n_right": made.n_right[rows], "disagreement": made.disagreement[rows]}
        extra = self._annotations.iloc[rows].reset_index(drop=True)
        extra = extra.loc[:, ~extra.columns.isin([*frame.columns, *columns])]
        return pd.concat([frame, pd.DataFrame(columns), extra], axis=1)

    def said(self) -> str:
        """Say what is chosen, after a colon; "" where nothing is."""
        chosen, parts = self.chosen, []
        if chosen["pair"]:
            parts.append("{} right, {} wrong".format(*chosen["pair"]))
        for column, keys in chosen["bins"].items():
            labels = [one.label for one in self.comparison.bins(column) if one.key in keys]
            parts.append(f"{compare_parts.title(column)}: {' or '.join(labels)}")
        if chosen["query"].strip():
            parts.append(f"passage holds “{chosen['query'].strip()}”")
        return f": {'; '.join(parts)}" if parts else ""

    # -- as messages

    @property
    def measured(self) -> bool:
        """Whether the measures and tests are computed: resampling takes a moment."""
        return self._whole is not None

    def told(self, *, quick: bool = False) -> dict[str, Any]:
        """Return what stays as it is: the models and their pairs; quick: without what is resampled."""
        made = self.comparison
        rest = {"type": "whole", "warnings": list(made.warnings), "total": made.n}
        if quick and not self.measured:
            return rest | {"models": compare_parts.models(made, quick=True), "pairs": None}
        if self._whole is None:
            self._whole = {"models": compare_parts.models(made), "pairs": compare_parts.pairs(made)}
        return rest | self._whole

    def shown(self) -> dict[str, Any]:
        """Return what follows from the state: slices, the list's first rows, the passage."""
        made, chosen, column, index = self.comparison, self.chosen, self.column, self.index(self.current)
        shown = self.state.shown(chosen)
        start = max(0, index - _FIRST_ROWS // 2)
        slices, sliced = self._slices(shown)
        return {
            "type": "view", "version": self.version, "n": len(self.rows), "chosen": chosen, "shown": shown,
            "against": self.state.against(chosen), "counts": self.counts, "column": column,
            "columns": [[c, compare_parts.title(c)] for c in made.columns],
            "labels": {c: {one.key: one.label for one in made.bins(c)} for c in chosen["bins"]},
            "slices": slices, "sliced": sliced,
            "index": index, "start": start, "rows": self.listed(start, start + _FIRST_ROWS),
            "passage": self.passage(index) if index >= 0 else None,
        }  # fmt: skip

    def _slices(self, shown: list[int]) -> tuple[list[dict[str, Any]], int]:
        """Return the chart, and how many items it counts; kept while a cell is chosen or the list sorted."""
        others = {name: keys for name, keys in self.chosen["bins"].items() if name != self.column}
        key = (self.column, others, self.chosen["query"], shown)
        if self._cut is None or self._cut[0] != key:
            of = self.state.mask(self.chosen, but=self.column, pair=False)
            slices = compare_parts.slices(self.comparison, self.column, of, shown)
            self._cut = (key, slices, int(of.sum()))
        return self._cut[1], self._cut[2]

    def listed(self, start: int, end: int) -> list[dict[str, Any]]:
        """Return rows of the list."""
        made, shown = self.comparison, self.state.shown(self.chosen)
        rows = [int(row) for row in self.rows[start : max(start, end)]]
        return [compare_parts.row(made, row, shown, made.items[row], self.chosen["query"]) for row in rows]

    def passage(self, index: int) -> dict[str, Any]:
        """Return the passage at a place of the list, and what the models expected in it."""
        row, made = int(self.rows[index]), self.comparison
        facts = [
            (compare_parts.title(str(name)), value)
            for name, value in self._annotations.iloc[row].items()
            if name in made.columns
        ]
        return compare_parts.passage(made, row, made.items[row], self.chosen["query"], facts)
