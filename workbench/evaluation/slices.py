"""Items cut into bins by any column: the values of a choice, or ranges of a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.analysis.statistics import CLASS_NAMES
from workbench.evaluation.rows import Rows
from workbench.items.items import Items
from workbench.items.schema import DataError

Mask = npt.NDArray[np.bool_]

MOST = 12
"""Choices that have a bin of their own; the rarer ones share one."""

_RANGES = 5
_FEW = 8  # different numbers up to which each has a bin of its own
_OF_ITEMS = ("dataset", "split", "variant", "word_class", "book_id")
_NO_SLICE = ("item_id", "answer", "text")
_NULL = {
    "mention_distance": "no mention before",
    "mention_sentence": "no mention before",
    "target_count": "no vocabulary",
}
_LABELS: dict[str, dict[Any, str]] = {
    "target_class": dict(CLASS_NAMES),
    "word_class": {"NE": "named entity", "CN": "common noun", "V": "verb", "P": "preposition"},
}
_EDGES = np.array([1, 1.5, 2, 2.5, 3, 4, 5, 6, 8])


class Bin(NamedTuple):
    """Some of the items.

    Attributes
    ----------
    key : str
        Names the bin in a state that is kept: ``is:NE``, ``from:5:to:9``, ``other``, ``null``.
    label : str
        For readers.
    mask : array of bool (n,)
    """

    key: str
    label: str
    mask: Mask


class Columns:
    """Columns by which items can be cut.

    Parameters
    ----------
    items : Items (n,)
    annotations : DataFrame, optional
        With ``item_id`` as a column or index; its columns of lists are left out.
    found : sequence of Rows
        Predictions, which may name the items' novels and word classes.
    places : array of int (m, n)
        Their rows for the items.

    Raises
    ------
    DataError
        If the annotations have no ``item_id``, hold an item twice, or know none of the items.
    """

    def __init__(
        self,
        items: Items,
        annotations: pd.DataFrame | None,
        found: Sequence[Rows],
        places: npt.NDArray[np.int64],
    ) -> None:
        self._frame = items.frame
        self._makers: dict[str, Callable[[], pd.Series[Any]]] = {}
        self._values: dict[str, pd.Series[Any]] = {}
        self._bins: dict[str, list[Bin]] = {}
        beside = _beside(annotations, self._frame["item_id"])
        for name in beside.columns:
            if name not in _NO_SLICE:
                self._makers[str(name)] = partial(_column, beside, name)
        for name in _OF_ITEMS:
            self._makers.setdefault(name, partial(self._of_items, name, found, places))
        if "in_context" not in beside:
            self._makers["answer_in_passage"] = lambda: pd.Series(_repeated(self._frame))
        if "n_context_sentences" not in beside:
            self._makers["n_context_sentences"] = lambda: self._frame["sentences"].map(len) - 1
        if "n_tokens" not in beside:
            self._makers["n_words"] = lambda: self._frame["text"].str.split().map(len)

    def _of_items(self, name: str, found: Sequence[Rows], places: npt.NDArray[np.int64]) -> pd.Series[Any]:
        known = pa.array(self._frame[name], pa.string(), from_pandas=True)
        for one, index in zip(found, places, strict=True):
            if known.null_count:
                known = pc.coalesce(known, one.table[name].take(pa.array(index)).combine_chunks())
        return pd.Series(known.to_pylist(), dtype="str")

    @cached_property
    def names(self) -> list[str]:
        """Columns with at least two bins."""
        return [name for name in self._makers if len(self._cut(name)) > 1]

    def bins(self, name: str) -> list[Bin]:
        """Return the bins of a column; every item is in just one."""
        if name not in self._makers:
            raise DataError(
                f"there is no column {name!r} to slice by", remedy=f"there are {', '.join(self.names)}"
            )
        return self._cut(name)

    def _cut(self, name: str) -> list[Bin]:
        if name not in self._bins:
            self._bins[name] = cut(name, self._makers[name]())
        return self._bins[name]


def _column(frame: pd.DataFrame, name: str) -> pd.Series[Any]:
    return frame[name]


def _beside(annotations: pd.DataFrame | None, ids: pd.Series[Any]) -> pd.DataFrame:
    """Return annotations in the order of the items."""
    if annotations is None:
        return pd.DataFrame(index=range(len(ids)))
    if "item_id" in annotations.columns:
        annotations = annotations.set_index("item_id")
    elif annotations.index.name != "item_id":
        raise DataError(
            "the annotations have no column 'item_id'", remedy="make them with wb.annotate(items)"
        )
    annotations = annotations.set_axis(annotations.index.astype("str"))
    if annotations.index.has_duplicates:
        twice = annotations.index[annotations.index.duplicated()][0]
        raise DataError(f"the annotations hold the item {twice!r} twice", remedy="pass one row an item")
    if len(ids) and set(annotations.index.tolist()).isdisjoint(ids.tolist()):
        raise DataError(
            f"the annotations know none of the items, {ids.iloc[0]!r} the first",
            remedy="pass the annotations that belong to these items",
        )
    return annotations.reindex(ids).reset_index(drop=True)


def _repeated(frame: pd.DataFrame) -> list[bool | None]:
    """Tell whether each answer occurs elsewhere in its passage as a whole word, whatever the case."""
    columns = (frame[name].tolist() for name in ("text", "answer", "answer_span"))
    return [
        None if not isinstance(answer, str) else occurs(answer, f"{text[: span[0]]}\n{text[span[1] :]}")
        for text, answer, span in zip(*columns, strict=True)
    ]


def occurs(word: str, text: str) -> bool:
    """Tell whether a word occurs in a text as a whole, whatever the case."""
    word, text = word.casefold(), text.casefold()
    start = text.find(word)
    while start >= 0 and word:
        end = start + len(word)
        if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
            return True
        start = text.find(word, start + 1)
    return False


def cut(name: str, values: pd.Series[Any]) -> list[Bin]:
    """Cut the items by one column; no bin is empty."""
    null = values.isna().to_numpy(dtype=bool)
    unknown = Bin("null", _NULL.get(name, "not known"), null)
    if null.all():
        return [unknown]
    kind = values.dtype
    if pd.api.types.is_bool_dtype(kind) or _all(values[~null], (bool, np.bool_)):
        truth = values.where(~null, other=False).to_numpy(dtype=bool)
        found = [Bin("is:yes", "yes", truth & ~null), Bin("is:no", "no", ~truth & ~null)]
    elif pd.api.types.is_numeric_dtype(kind) or _all(values[~null], (int, float, np.number)):
        found = _ranges(
            np.asarray(values.astype("Float64").to_numpy(dtype=float, na_value=np.nan), float), ~null
        )
    elif _all(values[~null], (str,)):
        found = _choices(name, values, null)
    else:
        return []  # lists and spans
    return [one for one in (*found, unknown) if one.mask.any()]


def _all(values: pd.Series[Any], kinds: tuple[type, ...]) -> bool:
    return all(isinstance(value, kinds) for value in values.tolist())


def _choices(name: str, values: pd.Series[Any], null: Mask) -> list[Bin]:
    codes, different = pd.factorize(values, sort=True)
    counts = np.bincount(codes[codes >= 0], minlength=len(different))
    order = np.argsort(-counts, kind="stable")
    own = order[:MOST].tolist()
    labels = _LABELS.get(name, {})
    if name in _LABELS:  # in their customary order
        own = sorted(own, key=lambda place: [*labels, different[place]].index(different[place]))
    texts = [str(different[place]) for place in own]
    found = [
        Bin(f"is:{text}", labels.get(text, text), codes == place)
        for text, place in zip(texts, own, strict=True)
    ]
    return [*found, Bin("other", "other", ~np.isin(codes, own) & ~null)]


def _ranges(values: npt.NDArray[np.float64], some: Mask) -> list[Bin]:
    """Cut numbers into ranges of about equal numbers of items, at readable edges."""
    held = values[some]
    whole = bool((held == np.round(held)).all()) and bool(np.isfinite(held).all())
    different = np.unique(held)
    if len(different) <= _FEW:
        texts = [f"{v:g}" if float(f"{v:g}") == v else repr(float(v)) for v in different]
        return [
            Bin(f"is:{text}", text, (values == v) & some) for text, v in zip(texts, different, strict=True)
        ]
    inner = np.quantile(held, np.arange(1, _RANGES) / _RANGES, method="lower")
    edges = sorted({_readable(edge, whole=whole) for edge in inner if np.isfinite(edge)})
    edges = [edge for edge in edges if different[0] < edge <= different[-1]]
    bounds = [-np.inf, *edges, np.inf]
    found = []
    for low, high in pairwise(bounds):
        key = f"from:{'' if low == -np.inf else f'{low:g}'}:to:{'' if high == np.inf else f'{high:g}'}"
        found.append(Bin(key, _range(low, high, whole=whole), (values >= low) & (values < high) & some))
    infinite = np.isposinf(values) & some
    if infinite.any():
        last = found[-1]
        found[-1] = last._replace(mask=last.mask | infinite)
    return found


def _readable(value: float, *, whole: bool) -> float:
    """Round to two readable digits, upwards or downwards, whichever is nearer."""
    if abs(value) < np.finfo(float).tiny or not np.isfinite(value):
        return 0.0
    size = 10.0 ** np.floor(np.log10(abs(value)))
    if whole and size <= 1:
        return float(value)
    steps = np.concatenate([_EDGES, [10]]) if size > 10 or not whole else np.arange(10, 101, 5) / 10  # noqa: PLR2004
    nearest = steps[np.abs(steps - abs(value) / size).argmin()]
    return float(np.sign(value) * nearest * size)


def _range(low: float, high: float, *, whole: bool) -> str:
    last = high - 1 if whole else high
    if low == -np.inf:
        return f"up to {last:,g}" if whole else f"below {high:,g}"
    if high == np.inf:
        return f"{low:,g} or more"
    if whole and last == low:
        return f"{low:,g}"
    return f"{low:,g} to {last:,g}" if whole else f"{low:,g} to below {high:,g}"
