"""Items cut into bins by any column: the values of a choice, or ranges of a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial, reduce
from itertools import pairwise
from operator import and_
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.analysis.histograms import Bins, quantile_bins
from workbench.evaluation.reading import ModelPredictions, coalesced, floats
from workbench.items.items import Items, in_item_order
from workbench.items.query import Query
from workbench.render.labels import VALUE_LABELS, value_label
from workbench.storage.errors import DataError

Mask = npt.NDArray[np.bool_]

MOST = 12
"""Choices that have a bin of their own; the rarer ones share one."""

_FEW = 8  # different numbers up to which each has a bin of its own
_OF_ITEMS = ("dataset", "split", "variant", "word_class", "book_id")
_NO_SLICE = ("item_id", "answer", "text")
_NULL = {
    "mention_distance": "no earlier mention",
    "mention_sentence": "no earlier mention",
    "target_count": "no vocabulary",
}


class Bin(NamedTuple):
    """The items of `mask` (n,); `key` names the bin in a saved state, `label` is shown.

    Keys are such as ``is:NE``, ``from:5:to:9``, ``other``, ``null``; `query` is the typed filter that has the
    same items, None where there is none.
    """

    key: str
    label: str
    mask: Mask
    query: Query | None = None


class Slices:
    """The columns by which items (n) can be cut, each made when it is first asked for.

    They are those of `annotations` (``item_id`` is a column or the index; columns of lists are left out),
    those of one's own (``items.extra``, or as a run was stored with), and what `items`, or the predictions of
    `models` (m) in their `rows` (m, n), tell. DataError if the annotations have no ``item_id``, hold an item
    twice, or know none of the items.
    """

    def __init__(
        self,
        items: Items,
        annotations: Items | pd.DataFrame | None,
        models: Sequence[ModelPredictions],
        rows: npt.NDArray[np.int64],
    ) -> None:
        frame = items.frame
        self._makers: dict[str, Callable[[], pd.Series[Any]]] = {}
        self._bins: dict[str, list[Bin]] = {}
        if annotations is not None:
            table: Any = in_item_order(annotations, frame["item_id"])
            names = [str(name) for name in table.columns if name not in _NO_SLICE]
            self._makers |= {name: partial(table.__getitem__, name) for name in names}
        extra_columns = items.extra.set_axis(frame["item_id"])
        for columns in (extra_columns, *(model.item_columns for model in models)):
            extra: Any = columns.reindex(frame["item_id"]).reset_index(drop=True)
            for column in extra.columns:
                self._makers.setdefault(str(column), partial(extra.__getitem__, column))
        for name in _OF_ITEMS:
            self._makers.setdefault(name, partial(coalesced, name, items, models, rows))
        for name, other, make in (
            ("answer_in_passage", "in_context", lambda: pd.Series(_repeated(frame))),
            ("n_context_sentences", "n_context_sentences", lambda: frame["sentences"].map(len) - 1),
            ("n_words", "n_tokens", lambda: frame["text"].str.split().map(len)),
        ):
            if other not in self._makers:
                self._makers[name] = make

    @cached_property
    def names(self) -> list[str]:
        """Columns with at least two bins."""
        return [name for name in self._makers if len(self._cut(name)) > 1]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All columns, lists included: one row an item."""
        return pd.DataFrame(
            {name: make().to_numpy(dtype=object) for name, make in self._makers.items()}
        ).infer_objects()

    def bins(self, name: str) -> list[Bin]:
        """Return the bins of a column; every item is in just one."""
        if name not in self._makers:
            raise DataError(
                f"there is no column {name!r} to slice by", remedy=f"there are {', '.join(self.names)}"
            )
        return self._cut(name)

    def _cut(self, name: str) -> list[Bin]:
        if name not in self._bins:
            self._bins[name] = bins_of(name, self._makers[name]())
        return self._bins[name]


def _repeated(frame: pd.DataFrame) -> list[bool | None]:
    """Return whether each answer occurs elsewhere in its passage as a whole word, whatever the case."""
    columns = (frame[name].tolist() for name in ("text", "answer", "answer_span"))
    return [
        None if not isinstance(answer, str) else occurs(answer, f"{text[: span[0]]}\n{text[span[1] :]}")
        for text, answer, span in zip(*columns, strict=True)
    ]


def occurs(word: str, text: str) -> bool:
    """Return whether a word occurs in a text as a whole word, whatever the case."""
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
    null = values.isna().to_numpy(dtype=bool)
    unknown = Bin("null", _NULL.get(name, "not known"), null, Query("is missing", name))
    if null.all():
        return [unknown]
    kind, known = values.dtype, values[~null]
    if pd.api.types.is_bool_dtype(kind) or _all(known, (bool, np.bool_)):
        truth = values.where(~null, other=False).to_numpy(dtype=bool)
        bins = [
            Bin("is:yes", "yes", truth & ~null, Query("=", name, (True,))),
            Bin("is:no", "no", ~truth & ~null, Query("=", name, (False,))),
        ]
    elif pd.api.types.is_numeric_dtype(kind) or _all(known, (int, float, np.number)):
        bins = _ranges(name, floats(values), ~null, cuts)
    elif _all(known, (str,)):
        bins = _choices(name, values, null)
    else:
        return []
    return [part for part in (*bins, unknown) if part.mask.any()]


def _all(values: pd.Series[Any], kinds: tuple[type, ...]) -> bool:
    return all(isinstance(value, kinds) for value in values.tolist())


def _choices(name: str, values: pd.Series[Any], null: Mask) -> list[Bin]:
    codes, different = pd.factorize(values, sort=True)
    counts = np.bincount(codes[codes >= 0], minlength=len(different))
    frequent = np.argsort(-counts, kind="stable")[:MOST].tolist()
    if labels := VALUE_LABELS.get(name):  # in their customary order
        frequent = sorted(frequent, key=lambda code: [*labels, different[code]].index(different[code]))
    bins = [
        Bin(f"is:{word}", value_label(name, word), codes == code, Query("=", name, (word,)))
        for code, word in ((code, str(different[code])) for code in frequent)
    ]
    return [*bins, Bin("other", "other", ~np.isin(codes, frequent) & ~null)]


def _ranges(
    name: str, values: npt.NDArray[np.float64], known: Mask, cuts: int | Sequence[float] | None
) -> list[Bin]:
    """Cut numbers into ranges of about equal numbers of items, at readable edges."""
    numbers = values[known]
    integers = bool((numbers == np.round(numbers)).all() and np.isfinite(numbers).all())
    number = int if integers else float
    different = np.unique(numbers)
    if cuts is None and len(different) <= _FEW:
        texts = [f"{v:g}" if float(f"{v:g}") == v else repr(float(v)) for v in different]
        return [
            Bin(f"is:{text}", text, (values == v) & known, Query("=", name, (number(v),)))
            for text, v in zip(texts, different, strict=True)
        ]
    ranges = quantile_bins(numbers, cuts if isinstance(cuts, int) else 5)
    if cuts is not None and not isinstance(cuts, int):
        ranges = Bins(np.array([-np.inf, *sorted(cuts), np.inf]), np.nan)
    places, bins = ranges.place(values), []
    for place, (low, high) in enumerate(pairwise(ranges.edges.tolist())):
        key = f"from:{'' if low == -np.inf else f'{low:g}'}:to:{'' if high == np.inf else f'{high:g}'}"
        ends = [
            Query(sign, name, (number(end),)) for sign, end in ((">=", low), ("<", high)) if np.isfinite(end)
        ]
        query = reduce(and_, ends) if ends else ~Query("is missing", name)
        bins.append(Bin(key, _range(low, high, integers=integers), (places == place) & known, query))
    return bins


def _range(low: float, high: float, *, integers: bool) -> str:
    last = high - 1 if integers else high
    if low == -np.inf:
        return f"up to {last:,g}" if integers else f"below {high:,g}"
    if high == np.inf:
        return f"{low:,g} or more"
    if integers and last == low:
        return f"{low:,g}"
    return f"{low:,g} to {last:,g}" if integers else f"{low:,g} to below {high:,g}"
