"""Items cut into bins by any column, and predictions joined with columns by which they are grouped."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from workbench.analysis.binning import Bin, Binning, Bins, binning, quantile_bins
from workbench.evaluation.model_predictions import NEEDED, PredictionSource, source_of
from workbench.evaluation.table_columns import filled_texts
from workbench.items.items import ITEM_COLUMNS, Items, in_item_order
from workbench.predictions.schema import PREDICTION_COLUMNS, text_array
from workbench.render.labels import VALUE_LABELS
from workbench.storage.errors import DataError, check_option

MOST = 12
"""Choices that have a bin of their own; the rarer ones share one."""

OF_PREDICTIONS = set(PREDICTION_COLUMNS) - set(ITEM_COLUMNS)
"""Columns of predictions that items do not have."""

_FEW = 8  # different numbers up to which each has a bin of its own
_OF_ITEMS = ("dataset", "split", "variant", "word_class", "book_id")
_SAMPLE = 1000  # items among which two different values of a text are sought first
_NO_SLICE = ("item_id", "answer", "text")


class Slices:
    """The columns by which items (n) can be cut, each made when it is first asked for.

    They are those of `annotations` (``item_id`` is a column or the index; columns of lists are left out),
    custom ones (``items.extra``, or as a run was stored with), and what `items`, or the `tables` (m)
    of predictions of the n items, tell; `sources` (m) are where these are from. DataError if the annotations
    have no ``item_id``, hold an item twice, or have none of the items.
    """

    def __init__(
        self,
        items: Items,
        annotations: Items | pd.DataFrame | None,
        sources: Sequence[PredictionSource],
        tables: Sequence[pa.Table],
    ) -> None:
        frame = items.frame
        self._makers: dict[str, Callable[[], pd.Series[Any]]] = {}
        self._binnings: dict[str, Binning] = {}
        if annotations is not None:
            table: Any = in_item_order(annotations, frame["item_id"])
            names = [str(name) for name in table.columns if name not in _NO_SLICE]
            self._makers |= {name: partial(table.__getitem__, name) for name in names}
        extra_columns = items.extra.set_axis(frame["item_id"])
        for columns in (extra_columns, *(source.item_columns for source in sources)):
            if columns.empty:
                continue
            extra: Any = columns.reindex(frame["item_id"]).reset_index(drop=True)
            for column in extra.columns:
                self._makers.setdefault(str(column), partial(extra.__getitem__, column))
        for name in _OF_ITEMS:
            column = text_array(frame[name])
            self._makers.setdefault(name, partial(_filled, name, column, tables))
        for name, (other, make) in _OF_TEXT.items():
            if other not in self._makers:
                self._makers[name] = cache(partial(make, frame))
        self._frame = frame

    @cached_property
    def names(self) -> list[str]:
        """Columns with at least two bins; columns made of many texts need two different values."""
        return [name for name in self._makers if self._is_divided(name)]

    def _is_divided(self, name: str) -> bool:
        if name in _OF_TEXT and len(_OF_TEXT[name][1](self._frame.head(_SAMPLE)).unique()) > 1:
            return True
        return len(self._binning_of(name).bins) > 1

    @property
    def all_names(self) -> list[str]:
        """All columns, with columns of lists and of one value."""
        return list(self._makers)

    def column(self, name: str) -> pd.Series[Any]:
        """Return one of `all_names`, one row per item."""
        return pd.Series(self._makers[name]().to_numpy(dtype=object)).infer_objects()

    def binning(self, name: str) -> Binning:
        """Return a column cut into bins; every item is in just one."""
        check_option("the column", name, self.all_names)
        return self._binning_of(name)

    def _binning_of(self, name: str) -> Binning:
        if name not in self._binnings:
            self._binnings[name] = _binning(name, self._makers[name](), None)
        return self._binnings[name]


_OF_TEXT: dict[str, tuple[str, Callable[[pd.DataFrame], pd.Series[Any]]]] = {
    "answer_in_passage": ("in_context", lambda frame: pd.Series(_repeated(frame))),
    "n_context_sentences": ("n_context_sentences", lambda frame: frame["sentences"].map(len) - 1),
    "n_words": ("n_tokens", lambda frame: pd.Series([len(text.split()) for text in frame["text"].tolist()])),
}
"""Columns that are made of the items' texts, unless there is an annotation of the name that comes first."""


def _filled(name: str, column: pa.Array, tables: Sequence[pa.Table]) -> pd.Series[Any]:
    return pd.Series(pd.array(filled_texts(name, column, tables), dtype="str"))


def _repeated(frame: pd.DataFrame) -> list[bool | None]:
    """Return whether each answer occurs elsewhere in its passage as a whole word, in any case."""
    columns = (frame[name].tolist() for name in ("text", "answer", "answer_span"))
    return [
        None if not isinstance(answer, str) else occurs(answer, f"{text[: span[0]]}\n{text[span[1] :]}")
        for text, answer, span in zip(*columns, strict=True)
    ]


def occurs(word: str, text: str) -> bool:
    """Return whether a word occurs in a text as a whole word, in any case."""
    word, text = word.casefold(), text.casefold()
    start = text.find(word)
    while start >= 0 and word:
        end = start + len(word)
        if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            return True
        start = text.find(word, start + 1)
    return False


def bins_of(name: str, values: pd.Series[Any], cuts: int | Sequence[float] | None = None) -> list[Bin]:
    """Cut the items by one column; no bin is empty, and a column of lists has none.

    `cuts` is into how many ranges numbers are cut, or where.
    """
    return _binning(name, values, cuts).bins


def _binning(name: str, values: pd.Series[Any], cuts: int | Sequence[float] | None) -> Binning:
    def rule(numbers: npt.NDArray[np.float64]) -> Bins | None:
        if cuts is not None and not isinstance(cuts, int):
            return Bins(np.array([-np.inf, *sorted(cuts), np.inf]), np.nan)
        if cuts is None and len(np.unique(numbers)) <= _FEW:
            return None
        return quantile_bins(numbers, cuts or 5)

    binned = binning(name, values, rule=rule, limit=MOST)
    bins = [] if binned.value_type == "labels" else [b for b in binned.bins if len(b.rows)]
    return replace(binned, bins=bins)


def check_group_names(names: Sequence[str], results: Collection[str], *tables: pd.DataFrame) -> None:
    """Raise DataError if results cannot be grouped by a custom column because of its name.

    It is the name of a column of `results`, or of predictions, and one of the `tables` of items has it.
    """
    for name in names:
        if name in results:
            problem = f"results have a column {name!r} already, so they cannot be grouped by one of this name"
        elif name in OF_PREDICTIONS and any(name in table for table in tables):
            problem = f"the items have a column {name!r} of their own, and the predictions have one too"
        else:
            continue
        raise DataError(problem, hint="give the column of the items another name")


def grouped(frame: pd.DataFrame, names: Sequence[str]) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Return the groups of a frame by columns, with their values; codes are in their customary order."""
    return list(frame.groupby([_ordered(frame[name]) for name in names], dropna=False, observed=True))


def _ordered(column: pd.Series[Any]) -> pd.Series[Any]:
    codes = list(VALUE_LABELS.get(str(column.name), ()))
    others = [value for value in sorted(column.dropna().unique()) if value not in codes] if codes else []
    return column.astype(pd.CategoricalDtype([*codes, *others], ordered=True)) if codes else column


def joined(
    predictions: pd.DataFrame,
    names: Sequence[str],
    items: Items | None = None,
    annotations: Items | pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Return predictions with the columns of items and of annotations, by ``item_id``.

    A column that the predictions have keeps its values; items fill its nulls. Of `names`, those that are
    still missing come from the custom columns that the run was stored with.
    """
    frame, origin = predictions.copy(deep=False), source_of(predictions)
    if not OF_PREDICTIONS.isdisjoint(names):
        tables = [each for each in (items, annotations) if each is not None]
        custom = [each.extra if isinstance(each, Items) else each for each in tables]
        check_group_names(names, (), origin.item_columns, *custom)
    texts = {name for name in NEEDED if name in frame and frame[name].dtype == "str"}
    of_items = None
    if items is not None:
        extra = items.extra
        of_items = items.frame.join(extra[[name for name in extra if name not in ITEM_COLUMNS]])
    for source, other in (("items", of_items), ("annotations", annotations)):
        if other is None:
            continue
        beside = in_item_order(other, frame["item_id"], source)
        for column in beside.columns:
            if column not in frame.columns:
                frame[column] = beside[column]
            elif source == "items" and column in texts and frame[column].isna().any():
                frame[column] = frame[column].where(frame[column].notna(), beside[column].astype("str"))
    if any(name not in frame for name in names):
        stored = origin.item_columns.reindex(frame["item_id"]).set_axis(frame.index)
        frame = frame.join(stored[[name for name in names if name in stored and name not in frame]])
    return frame
