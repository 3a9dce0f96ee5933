"""The items of a comparison under one state: the cell of two models, the bins, and the order."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.binning import Binning
from workbench.evaluation.comparison import Comparison
from workbench.items.query import columns_of
from workbench.render.numbers import with_minus
from workbench.storage.errors import DataError, check_option, check_value
from workbench.widgets.shared.listing import STATE, Listing, range_text

STATE_OF_COMPARE: dict[str, Any] = {
    **STATE, "column": "", "pair": None, "hidden": [], "attention": "", "baseline": "", "shade": "",
}  # fmt: skip
"""The state in which all items are listed; see :class:`workbench.widgets.compare.compare.Compare`."""

SORTS = ("", "disagreement", "difference", "all wrong", "only one right", "all right")
"""Orders of the list; ``difference`` is by the log-probabilities of two models."""

_FIRST_COLUMN = "target_class"
_WORDS = {
    "only first": "{0} right, {1} wrong", "both right": "{0} and {1} both right",
    "both wrong": "{0} and {1} both wrong",
}  # fmt: skip

_RIGHT = {True: "right", False: "wrong", None: "not predicted"}

Rows = NDArray[np.int64]


class _Facets(UserDict[str, Binning]):
    """The columns to filter by, each cut into bins on first use; those of the models have no bins."""

    def __init__(self, comparison: Comparison) -> None:
        types = {"log_prob": "numbers", "correct": "yes or no"}
        names = {
            f"{name}: {column}": value_type
            for name in comparison.labels
            for column, value_type in types.items()
        }
        super().__init__({name: Binning(name, value_type, []) for name, value_type in names.items()})
        self._comparison = comparison

    def __getitem__(self, name: str) -> Binning:
        return self._comparison.binning(name) if name in self._comparison.columns else self.data[name]

    def __contains__(self, name: object) -> bool:
        return name in self._comparison.columns or name in self.data

    def __iter__(self) -> Iterator[str]:
        return chain(self._comparison.columns, self.data)

    def __len__(self) -> int:
        return len(self._comparison.columns) + len(self.data)


class ComparedItems(Listing):
    """The items of a comparison (m models, n items) under a state.

    Beside the parts of a list's state it has the ``column`` of the chart; a ``pair`` of models whose numbers
    are shown; models that are ``hidden``; the model whose ``attention`` is shown; the ``baseline``, a model
    of which the others are shown as differences, or ""; and the ``shade`` of the passage. The facets
    ``{"A: correct": [True], "B: correct": [False]}`` are a cell of two models.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.sortable = [*SORTS]
        self.facets = _Facets(comparison)
        self._correct = {f"{label}: correct": k for k, label in enumerate(comparison.labels)}
        self._start(comparison.items)

    @property
    def names(self) -> list[str]:
        """The names of the columns of the table."""
        return self.comparison.frame_columns

    @cached_property
    def table(self) -> pd.DataFrame:  # type: ignore[override]  # made when a filter first needs it
        """The columns of items, annotations and models."""
        return self.comparison.frame

    def _table_of(self, columns: Collection[str]) -> pd.DataFrame:
        in_frame = set(columns) <= set(self.comparison.frame_columns)
        return self.comparison.frame_of(columns) if in_frame else self.table

    # -- the state

    def checked(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a complete, valid state, or raise DataError with the problem."""
        state = {**STATE_OF_COMPARE, **state}
        check_option("sort", state["sort"], SORTS)
        hidden = [self._model(label) for label in state["hidden"]]
        checked = super().checked({k: v for k, v in state.items() if k in STATE or k not in STATE_OF_COMPARE})
        return checked | {
            "column": self._column(state["column"]), "pair": self._pair(state["pair"]),
            "hidden": [label for label in self.comparison.labels if label in hidden],
            **{name: self._model(state[name]) if state[name] else "" for name in ("attention", "baseline")},
            "shade": str(state["shade"] or ""),
        }  # fmt: skip

    def fitting(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state without the facets and the condition on columns that are missing here."""
        facets = {name: values for name, values in state["facets"].items() if name in self.facets}
        column = state["column"] if state["column"] in self.comparison.columns else ""
        return dict(state) | {
            "facets": facets,
            "where": self._fitting_condition(state["where"]),
            "column": column,
        }

    def _fitting_condition(self, where: str) -> str:
        try:
            columns_of(where, self.names)
        except DataError:
            return ""
        return where

    @property
    def first_column(self) -> str:
        """The column of the first slices: the target's class, else the first column; "" without any."""
        columns = self.comparison.columns
        return _FIRST_COLUMN if _FIRST_COLUMN in columns else next(iter(columns), "")

    def _column(self, name: Any) -> str:
        columns = self.comparison.columns
        if not name:
            return self.first_column
        check_option("column", name, list(columns))
        return str(name)

    def _model(self, label: Any) -> str:
        check_option("the model", label, self.comparison.labels)
        return str(label)

    def _pair(self, pair: Any) -> list[str] | None:
        if not pair:
            return None
        labels = list(dict.fromkeys(map(self._model, pair)))
        check_value("pair", pair, len(labels) == len(pair) == 2, "two different models")  # noqa: PLR2004 - a pair
        return labels

    # -- the cell of two models

    def outcome(self, state: Mapping[str, Any] | None = None) -> tuple[int, int, str] | None:
        """Return the two models whose facets choose a cell, and the cell, or None.

        Of two models of which one is right, that one is the first.
        """
        facets = (state or self.state)["facets"]
        chosen = {self._correct[name]: values for name, values in facets.items() if name in self._correct}
        if len(chosen) != 2 or any(values not in ([True], [False]) for values in chosen.values()):  # noqa: PLR2004 - a pair
            return None
        (first, (right,)), (second, (other_right,)) = chosen.items()
        if right == other_right:
            return first, second, "both right" if right else "both wrong"
        return (first, second, "only first") if right else (second, first, "only first")

    @property
    def cell_columns(self) -> tuple[str, ...]:
        """The columns of the facets that choose a cell of two models; empty without a cell."""
        cell = self.outcome()
        return tuple(f"{self.comparison.labels[k]}: correct" for k in cell[:2]) if cell else ()

    def words(self) -> list[tuple[str, dict[str, Any]]]:
        """Describe each facet, the condition and the search; a cell of two models is one term."""
        if not self.cell_columns:
            return super().words()
        halves = {self._phrase(name) for name in self.cell_columns}
        cell = (self.cell_text, {"facets": self._facets_without(*self.cell_columns)})
        return [cell, *(term for term in super().words() if term[0] not in halves)]

    def _phrase(self, name: str) -> str:
        """Describe the facet of a column; those of models by their names."""
        if name in self.comparison.columns:
            return super()._phrase(name)
        model, values = name.rpartition(": ")[0], self.state["facets"][name]
        if name in self._correct:
            return f"{model} {' or '.join(_RIGHT[value] for value in values)}"
        text = "not known" if values == [None] else with_minus(range_text(values[0], values[1], ""))
        return f"ln p by {model}: {text}"

    @property
    def cell_text(self) -> str:
        """The cell of two models in words: ``LSTM right, 3-gram wrong``; "" without a cell."""
        cell = self.outcome()
        return _WORDS[cell[2]].format(*(self.comparison.labels[k] for k in cell[:2])) if cell else ""

    # -- the models

    def visible_models(self, state: Mapping[str, Any] | None = None) -> list[int]:
        """Return the indices of the models that are not hidden; of all models if all are hidden."""
        labels, hidden = self.comparison.labels, (state or self.state)["hidden"]
        return [k for k, label in enumerate(labels) if label not in hidden] or list(range(len(labels)))

    def baseline(self) -> int | None:
        """Return the index of the baseline, or None without one."""
        label = self.state["baseline"]
        return self.comparison.labels.index(label) if label else None

    def shown_pair(self) -> tuple[int, int] | None:
        """Return the two models whose numbers are shown: of the cell, or the pair, or the best two."""
        return self._cell(self.state) or self._chosen_pair(self.state) or self.best

    def scatter_pair(self) -> tuple[int, int] | None:
        """Return the models of the scatter plot: as `shown_pair`, among those with log-probabilities."""
        return self._cell(self.state) or self._chosen_pair(self.state) or self.best_probable

    def difference_pair(self, state: Mapping[str, Any] | None = None) -> tuple[int, int] | None:
        """Return the models of the column ``difference``: the pair before the cell."""
        state = state or self.state
        return self._chosen_pair(state) or self._cell(state) or self.best_probable

    def _cell(self, state: Mapping[str, Any]) -> tuple[int, int] | None:
        cell = self.outcome(state)
        return cell and cell[:2]

    def _chosen_pair(self, state: Mapping[str, Any]) -> tuple[int, int] | None:
        labels, pair = self.comparison.labels, state["pair"]
        return (labels.index(pair[0]), labels.index(pair[1])) if pair else None

    @cached_property
    def best(self) -> tuple[int, int] | None:
        """The indices of the best model and the next best one, of the same protocol if possible.

        Of equal ones, those that were passed first.
        """
        return self._first_two(list(range(self.comparison.m)))

    @cached_property
    def best_probable(self) -> tuple[int, int] | None:
        """As `best`, among the models with log-probabilities; among all if there are fewer than two."""
        models = np.flatnonzero(~np.isnan(self.comparison.log_prob).all(axis=1)).tolist()
        return self._first_two(models) or self.best

    def _first_two(self, models: list[int]) -> tuple[int, int] | None:
        accuracy = np.nanmean(self.comparison.shares, axis=1).round(12)  # sums of equal shares may differ
        ranked = sorted(models, key=lambda model: -accuracy[model])
        protocols = self.comparison.protocols
        same = [model for model in ranked[1:] if protocols[model] == protocols[ranked[0]]]
        return (ranked[0], (same or ranked[1:])[0]) if len(ranked) > 1 else None

    # -- the order of the list

    def counts(self) -> dict[str, int]:
        """Return how many listed items the visible models, exactly one or none answered correctly.

        Those count that predicted the item, if there are some.
        """
        right, wrong = (counts[self.rows] for counts in self._n_right_and_wrong(self.state))
        return {
            "all wrong": int(((right == 0) & (wrong > 0)).sum()),
            "only one right": int((right == 1).sum()),
            "all right": int(((wrong == 0) & (right > 0)).sum()),
        }

    def _n_right_and_wrong(self, state: Mapping[str, Any]) -> tuple[Rows, Rows]:
        """Return how many visible models are right and wrong on each item (n,)."""
        models = self.visible_models(state)
        right = self.comparison.correct[models].sum(axis=0)
        return right, self.comparison.mask[models].sum(axis=0) - right

    def _order(self, state: Mapping[str, Any]) -> NDArray[np.intp]:
        return np.argsort(self._weight(state), kind="stable")

    def _weight(self, state: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return the sort keys of the list, ascending, NaN last."""
        sort, (right, wrong) = state["sort"], self._n_right_and_wrong(state)
        if sort == "difference" and (pair := self.difference_pair(state)):
            with np.errstate(invalid="ignore"):  # both may be -inf: no difference is known
                return np.asarray(self.comparison.log_prob[pair[1]] - self.comparison.log_prob[pair[0]])
        weights: dict[str, NDArray[np.float64]] = {
            "disagreement": -self.comparison.disagreement_of(self.visible_models(state)),
            "all wrong": np.where(right + wrong == 0, np.inf, right),
            "only one right": np.where(right == 0, np.inf, right),
            "all right": np.where(right + wrong == 0, np.inf, wrong),
        }  # fmt: skip
        return weights.get(sort, np.zeros(self.comparison.n))
