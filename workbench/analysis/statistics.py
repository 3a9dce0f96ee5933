"""The table of data set statistics of the paper (Paperno et al. 2016, section 3.2), for any set."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.analysis.summary import require, wilson
from workbench.datasets import published
from workbench.items.items import Items
from workbench.items.schema import DataError

COLUMNS = (
    "dataset", "split", "quantity", "value", "sd", "low", "high", "n", "unit", "paper", "paper_row", "note",
)  # fmt: skip

_PAPER_SPLITS = ("dev", "test")
_STAND_IN = "the paper's value is that of its input, which was not released"
_PERCENT = 100


class _Row(NamedTuple):
    """One quantity: its value, and what belongs to it."""

    quantity: str
    value: float
    unit: str
    n: int
    sd: float = np.nan
    low: float = np.nan
    high: float = np.nan
    note: str = ""


def statistics(items: Items, annotations: pd.DataFrame | None = None) -> pd.DataFrame:
    """Describe a set as the paper describes LAMBADA, beside the paper's values.

    Parameters
    ----------
    items : Items
        Of one data set or several, of one split or several.
    annotations : DataFrame, optional
        From ``wb.annotate(items)``; adds what is known about the targets and about quoted
        speech (sections 3.2 and 3.3).

    Returns
    -------
    DataFrame
        One row a data set, split and quantity; where a data set comes in several splits, one
        for all of them too (split ``all``). `value` with `sd` (sample standard deviation of
        means) or `low` and `high` (Wilson's 95 % interval of percentages), the `n` it stands
        on, `unit` (``count``, ``mean``, ``percent``), the `paper`'s value as printed with the
        row of the published table it is from, and a `note`. Null: not known (the novels,
        where an item names none) or not given.

        Tokens are those of :attr:`Item.tokens`, the answer included, punctuation counted;
        context sentences are all but the target sentence.

    Raises
    ------
    DataError
        If there are no items, or the annotations lack a column or an item, or hold one twice.
    """
    if not len(items):
        raise DataError("there are no items to describe", remedy="load some: wb.load('lambada', 'dev')")
    frame = items.frame[["item_id", "dataset", "split", "answer", "candidates", "book_id"]]
    frame["tokens"] = [len(item.tokens) for item in items]
    frame["sentences"] = [len(item.sentences) - 1 for item in items]
    if annotations is not None:
        frame = _joined(frame, annotations)
    rows: list[dict[str, Any]] = []
    for dataset, part in frame.groupby("dataset", sort=False):
        splits = {str(split): rest for split, rest in part.groupby("split", sort=False)}
        if len(splits) > 1:
            splits["all"] = part
        for split, rest in splits.items():
            found = [*_described(rest), *(_annotated(rest) if annotations is not None else ())]
            paper = str(dataset) == "lambada" and (split != "all" or set(part["split"]) == set(_PAPER_SPLITS))
            for row in found:
                place = {"dataset": dataset, "split": split}
                rows.append(place | row._asdict() | (_beside(split, row) if paper else {}))
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    numbers = dict.fromkeys(("value", "sd", "low", "high"), "Float64")
    return table.astype(numbers).astype({"n": "Int64", "paper": "str", "paper_row": "str"})


def _joined(frame: pd.DataFrame, annotations: pd.DataFrame) -> pd.DataFrame:
    require(annotations, "item_id")
    ids = annotations["item_id"]
    if ids.duplicated().any():
        raise DataError(f"the annotations hold the item {ids[ids.duplicated()].iloc[0]!r} twice")
    if lacking := sorted(set(frame["item_id"]) - set(ids)):
        raise DataError(
            f"the annotations lack {len(lacking):,} items, {lacking[0]!r} the first",
            remedy="annotate these items: wb.annotate(items)",
        )
    new = [name for name in annotations.columns if name == "item_id" or name not in frame.columns]
    return frame.merge(annotations[new], on="item_id", how="left", validate="one_to_one")


def _described(frame: pd.DataFrame) -> Iterator[_Row]:
    """Describe items by what they hold."""
    n = len(frame)
    yield _Row("passages", n, "count", n)
    books = frame["book_id"]
    named = int(books.notna().sum())
    novels = books.nunique() if named == n else np.nan
    note = "" if named == n else f"{n - named:,} items name no book"
    yield _Row("novels", novels, "count", named, note=note)
    yield _mean("context sentences per passage", frame["sentences"])
    yield _mean("tokens per passage", frame["tokens"])
    yield _Row("tokens", int(frame["tokens"].sum()), "count", n)
    answers = frame["answer"].dropna()
    yield _Row("answers", len(answers), "count", n)
    yield _Row("different answers", answers.nunique(), "count", len(answers))
    candidates = frame["candidates"].dropna()
    if len(candidates):
        yield _mean("candidates per item", candidates.map(len))


def _mean(quantity: str, values: pd.Series[Any]) -> _Row:
    column = values.to_numpy(dtype=float)
    sd = float(column.std(ddof=1)) if len(column) > 1 else np.nan
    return _Row(quantity, float(column.mean()), "mean", len(column), sd=sd)


def _annotated(frame: pd.DataFrame) -> Iterator[_Row]:
    """Describe items by what was found in them, as far as the columns are there."""

    def has(*columns: str) -> bool:
        return set(columns) <= set(frame.columns)

    if has("direct_speech"):
        yield _percent("passages with quoted direct speech", frame["direct_speech"].astype("boolean"))
    if has("lemma_in_context"):
        inside = frame["lemma_in_context"].astype("boolean")
        yield _percent("target (or its lemma) in context", inside)
        yield _percent("target (or its lemma) not in context", ~inside)
    if has("target_class"):
        classes = frame["target_class"]
        for quantity, name in (("proper nouns", "PN"), ("common nouns", "CN"), ("verbs", "V")):
            yield _percent(quantity, _is(classes, name))
    if has("target_pos"):
        yield _percent("pronouns", _is(frame["target_pos"], "PRON"))
    if has("target_class", "lemma_in_context"):
        outside = frame[(~frame["lemma_in_context"].astype("boolean")).fillna(value=False)]
        quantity = "proper nouns among targets whose lemma is not in context"
        yield _percent(quantity, _is(outside["target_class"], "PN"))


def _is(column: pd.Series[Any], value: str) -> pd.Series[Any]:
    return (column == value).astype("boolean").mask(column.isna())


def _percent(quantity: str, truth: pd.Series[Any]) -> _Row:
    known = truth.dropna()
    n, count = len(known), int(known.sum())
    low, high = (_PERCENT * float(bound[0]) for bound in wilson(count, n))
    missing = len(truth) - n
    note = f"{missing:,} without a value left out" if missing else ""
    return _Row(quantity, _PERCENT * count / n if n else np.nan, "percent", n, low=low, high=high, note=note)


def _beside(split: str, row: _Row) -> dict[str, str]:
    """Return the paper's value for a quantity of a split of LAMBADA, if it gives one."""
    own = [("text", split), ("4", split)]
    whole = [("text", "all")] if split in _PAPER_SPLITS else []
    of = "input" if split == "control" else "lambada" if split in {*_PAPER_SPLITS, "all"} else None
    analysed: Sequence[tuple[str, str]] = (
        [(figure, of) for figure in ("2a", "2b", "2c", "text")] if of else []
    )
    # What is counted per set has no value that holds for all of them as well as for each.
    places = [*own, *(whole if row.unit == "mean" else []), *(analysed if row.unit == "percent" else [])]
    for figure, name in places:
        value = published.find(figure, name, row.quantity)
        if value is not None:
            found = {"paper": value.text, "paper_row": f"{figure} / {name} / {row.quantity}"}
            stand_in = [_STAND_IN] if name == "input" else []
            return found | {"note": "; ".join(filter(None, [row.note, *stand_in]))}
    return {}
