"""Which items of a comparison a state leaves, and in which order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.analysis.binning import Mask
from workbench.evaluation.comparison import OUTCOMES, Comparison
from workbench.items.cells import check_encodable
from workbench.items.query import parse
from workbench.storage.errors import DataError
from workbench.widgets.shared.listing import STATE
from workbench.widgets.shared.search import TextSearch

Rows = npt.NDArray[np.int64]

NOTHING: dict[str, Any] = {
    "pair": None, "outcome": "only first", "bins": {}, "sort": "order", "against": None, "hidden": [],
    "query": "", "where": "",
}  # fmt: skip
"""A state in which nothing is chosen; see :class:`workbench.widgets.compare.compare.Compare`."""

SORTS = ("order", "disagreement", "difference", "all wrong", "only one right", "all right")
"""Orders of the list; ``difference`` is that of the log-probabilities of two models."""

_FIRST_COLUMN = "target_class"


class Selector:
    """The rows of a comparison (m models, n items) under what is chosen."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self._search: TextSearch | None = None
        self._masks: dict[str, dict[str, Mask]] = {}
        self._last: tuple[str, Mask] | None = None

    def checked(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state with all its parts, or raise DataError with what is wrong in it."""
        if not isinstance(chosen, Mapping):
            raise DataError(f"the state is {chosen!r}, expected a dict")
        state = NOTHING | dict(chosen)
        if unknown := set(state) - set(NOTHING):
            known = ", ".join(NOTHING)
            raise DataError(f"the state has no part {min(map(str, unknown))!r}; known are {known}")
        for part in ("pair", "against"):
            state[part] = self._two(state[part], part)
        if state["outcome"] not in OUTCOMES:
            raise DataError(f"there is no outcome {state['outcome']!r}; known are {', '.join(OUTCOMES)}")
        if state["sort"] not in SORTS:
            raise DataError(f"there is no order {state['sort']!r}; known are {', '.join(SORTS)}")
        hidden = state["hidden"] or []
        if isinstance(hidden, str) or not isinstance(hidden, Sequence):
            raise DataError(f"'hidden' is {hidden!r}, expected a list of models")
        for label in hidden:
            self._known(label)
        state["hidden"] = [label for label in self.comparison.labels if label in hidden]
        state["bins"] = self._checked_bins(state["bins"] or {})
        for part in ("query", "where"):
            if not isinstance(state[part], str):
                raise DataError(f"{part!r} is {state[part]!r}, expected text")
        check_encodable(state["query"], "the search")
        self._typed(state["where"])
        return state

    def fitting(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Return a state without what needs columns and bins that are no longer there."""
        bins = {
            column: [key for key in keys if key in self.bins(column)]
            for column, keys in chosen["bins"].items()
            if column in self.comparison.columns
        }
        where = chosen["where"]
        try:
            self._typed(where)
        except DataError:  # it names a column that is no longer there
            where = ""
        return dict(chosen) | {"bins": bins, "where": where}

    def column(self, name: Any) -> str:
        """Return the name of a column to slice by, or raise DataError.

        For "" it is the target's class, else the first one; "" where there is none.
        """
        columns = self.comparison.columns
        if name == "":
            return _FIRST_COLUMN if _FIRST_COLUMN in columns else next(iter(columns), "")
        if name in columns:
            return str(name)
        raise DataError(f"there is no column {name!r} to slice by; known are {', '.join(columns) or 'none'}")

    def shown(self, chosen: Mapping[str, Any]) -> list[int]:
        """Return the places of the models that are not hidden; of all where all are."""
        places = [k for k, label in enumerate(self.comparison.labels) if label not in chosen["hidden"]]
        return places or list(range(self.comparison.m))

    def against(self, chosen: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the two models whose log-probabilities are subtracted: chosen, or the pair, or the best."""
        return self._places(chosen["against"] or chosen["pair"]) or self._best_probable

    def two(self, chosen: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the two models whose numbers are shown: the pair, or those in `against`, or the best."""
        return self._places(chosen["pair"] or chosen["against"]) or self._best

    def scattered(self, chosen: Mapping[str, Any]) -> tuple[int, int] | None:
        """Return the two models whose log-probabilities are drawn: those of `two`, or the best with some."""
        return self._places(chosen["pair"] or chosen["against"]) or self._best_probable

    def _places(self, two: Sequence[str] | None) -> tuple[int, int] | None:
        labels = self.comparison.labels
        return (labels.index(two[0]), labels.index(two[1])) if two else None

    @cached_property
    def _best(self) -> tuple[int, int] | None:
        """The places of the two models of the highest accuracy; of equal ones, those given first."""
        return self._first_two(list(range(self.comparison.m)))

    @cached_property
    def _best_probable(self) -> tuple[int, int] | None:
        """As `_best`, among the models that have log-probabilities; where these are not two, of all."""
        known = np.flatnonzero(~np.isnan(self.comparison.log_prob).all(axis=1)).tolist()
        return self._first_two(known) or self._best

    def _first_two(self, models: list[int]) -> tuple[int, int] | None:
        accuracy = self.comparison.shares.mean(axis=1).round(12)  # sums of equal shares may differ
        ranked = sorted(models, key=lambda place: -accuracy[place])
        return (ranked[0], ranked[1]) if len(ranked) > 1 else None

    def mask(self, chosen: Mapping[str, Any], *, but: str | None = None, pair: bool = True) -> Mask:
        """Return the items that pass, shape (n,), but for the choices in the column `but` and of the pair."""
        left = self._found(chosen["query"]) & self._typed(chosen["where"])
        if pair and chosen["pair"]:
            first, second = map(self.comparison.labels.index, chosen["pair"])
            left = left & self.comparison.cell(first, second, chosen["outcome"])
        for column, keys in chosen["bins"].items():
            if column != but:
                masks = self.bins(column)
                left = left & np.logical_or.reduce([masks[key] for key in keys])
        return left

    def bins(self, column: str) -> dict[str, Mask]:
        """Return the items of each bin of a column, by its key."""
        if column not in self._masks:
            self._masks[column] = {one.key: one.mask for one in self.comparison.bins(column)}
        return self._masks[column]

    def rows(self, chosen: Mapping[str, Any], mask: Mask) -> Rows:
        """Return the places of the items of `mask` in the order of the list."""
        rows = np.flatnonzero(mask)
        return rows[np.argsort(self._weight(chosen)[rows], kind="stable")]

    def counts(self, chosen: Mapping[str, Any], mask: Mask) -> dict[str, int]:
        """Return how many items of `mask` all shown models, just one or none has right."""
        right = self.n_right(chosen)[mask]
        return {
            "all wrong": int((right == 0).sum()),
            "only one right": int((right == 1).sum()),
            "all right": int((right == len(self.shown(chosen))).sum()),
        }

    def n_right(self, chosen: Mapping[str, Any]) -> npt.NDArray[np.int64]:
        """Return how many of the shown models have each item right, shape (n,)."""
        if not chosen["hidden"]:
            return np.asarray(self.comparison.n_right, dtype=np.int64)
        return np.asarray(self.comparison.correct[self.shown(chosen)].sum(axis=0), dtype=np.int64)

    def prepare(self) -> None:
        """Make what the first search needs."""
        if self._search is None:
            self._search = TextSearch(self.comparison.items)

    def _weight(self, chosen: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        """Return what the list is sorted by, least first, NaN last."""
        sort, right = chosen["sort"], self.n_right(chosen).astype(float)
        two = self.against(chosen)
        if sort == "order" or (sort == "difference" and two is None):
            return np.zeros(self.comparison.n)
        if sort == "difference" and two is not None:
            values = self.comparison.log_prob
            with np.errstate(invalid="ignore"):  # both may be -inf: no difference is known
                return np.asarray(values[two[1]] - values[two[0]])
        if sort == "disagreement":
            return np.asarray(-right * (len(self.shown(chosen)) - right))
        if sort == "only one right":
            return np.where(right == 0, np.inf, right)
        return right if sort == "all wrong" else -right

    def _found(self, query: str) -> Mask:
        if not query.strip():
            return np.ones(self.comparison.n, dtype=bool)
        self.prepare()
        assert self._search is not None  # noqa: S101 - made in the line above
        return self._search.mask(STATE | {"query": query})

    def _typed(self, where: str) -> Mask:
        """Return the items that pass a typed filter, see `workbench.items.query`."""
        if not where.strip():
            return np.ones(self.comparison.n, dtype=bool)
        if self._last is None or self._last[0] != where:
            self._last = (where, parse(where).mask(self.comparison.frame))
        return self._last[1]

    def _two(self, value: Any, part: str) -> list[str] | None:
        if value is None or (not isinstance(value, str) and isinstance(value, Sequence) and not len(value)):
            return None
        if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:  # noqa: PLR2004 - a pair
            raise DataError(f"{part!r} is {value!r}, expected two models or None")
        two = [self._known(label) for label in value]
        if two[0] == two[1]:
            raise DataError(f"{part!r} names {two[0]!r} twice", remedy="name two different models")
        return two

    def _known(self, label: Any) -> str:
        if label not in self.comparison.labels:
            known = ", ".join(self.comparison.labels)
            raise DataError(f"there is no model {label!r}; known are {known}")
        return str(label)

    def _checked_bins(self, bins: Any) -> dict[str, list[str]]:
        if not isinstance(bins, Mapping):
            raise DataError(f"'bins' is {bins!r}, expected lists of bins by column")
        checked = {}
        for name, keys in bins.items():
            column = self.column(name) if name else name
            if column not in self.comparison.columns:
                raise DataError(f"there is no column {name!r} to slice by")
            if isinstance(keys, str) or not isinstance(keys, Sequence):
                raise DataError(f"the bins of {column!r} are {keys!r}, expected a list")
            known = self.bins(column)
            for key in keys:
                if key not in known:
                    names = ", ".join(known)
                    raise DataError(f"the column {column!r} has no bin {key!r}; known are {names}")
            if keys:
                checked[column] = [key for key in known if key in keys]
        return checked
