"""Statistics of a data set as the paper reports them: its table and the numbers of its figures.

Except :func:`statistics`, each function takes annotations and returns one row per bar of a figure: `set`,
`column`, `value`, `label`, `count`, `n`, `missing` (rows without a value, not in `n`), and `share`, `low`,
`high` between 0 and 1 (Wilson's 95 % interval); DataError where the column is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from workbench.analysis.binning import whole_bins
from workbench.analysis.proportions import wilson
from workbench.datasets import published
from workbench.items.items import Items, check_items, in_item_order
from workbench.items.language import ENGLISH, language
from workbench.render.labels import VALUE_LABELS, label
from workbench.render.results import Table, TableColumn, TableLayout
from workbench.storage.errors import DataError

Sets = pd.DataFrame | Mapping[str, pd.DataFrame]
"""One frame of annotations, or several by the name under which they are shown."""

CLASSES = tuple(VALUE_LABELS["target_class"])
"""Classes of the target in the order of the paper's Figure 2."""

STATISTICS_COLUMNS = (
    "dataset", "split", "quantity", "value", "sd", "low", "high", "n", "unit", "paper", "paper_row", "note",
)  # fmt: skip
"""Columns of :func:`statistics`."""

_VALUES = ("unit", {"count": "count", "percent": "percentage"})
_PRINTED = ("unit", {"count": "number", "mean": "number", "percent": "printed percent"})
_SHOWN = (
    TableColumn("quantity"),
    TableColumn("value", _VALUES, ("low", "high")),
    TableColumn("sd", "quantity"),
    TableColumn("n", "count"),
    TableColumn("paper", _PRINTED),
)
_TITLE = "Statistics of the items"
_BAR_COLUMNS = (
    TableColumn("share", "share", ("low", "high")), TableColumn("count", "count", heading="Count"),
    TableColumn("n", "count"),
)  # fmt: skip
_MISSING = TableColumn("missing", "count", heading="Without a value")
_INTERVALS = "In brackets: Wilson's 95 % intervals of percentages."
_SD = "SD: sample standard deviation of means."
_PAPER_SPLITS = ("dev", "test")
_STAND_IN = "the paper's value is that of its input, which was not released"
_PERCENT = 100


def named_sets(sets: Sets) -> dict[str, pd.DataFrame]:
    """Return the frames by name, at least one; a single frame is named after its items (``lambada/dev``)."""
    if isinstance(sets, pd.DataFrame):
        names = sources(sets)
        return {names.pop() if len(names) == 1 else "items": sets}
    frames = {str(name): frame for name, frame in sets.items()} if isinstance(sets, Mapping) else {}
    if not frames or not all(isinstance(frame, pd.DataFrame) for frame in frames.values()):
        types = ", ".join(f"{name}: {type(frame).__name__}" for name, frame in frames.items())
        raise DataError(
            f"expected annotations, or several by name, got {types or type(sets).__name__}",
            hint='pass a frame from wb.annotate, or several: {"LAMBADA": a, "control": b}',
        )
    return frames


def sources(frame: pd.DataFrame) -> set[str]:
    """Return data set and split of annotated items, ``{"lambada/dev"}``; by ids in a frame made by hand."""
    if "item_id" not in frame.columns:
        return set()
    in_ids = frame["item_id"].astype("str").str.extract("^(.+/.+)/", expand=False).dropna()
    return set(frame.attrs.get("sources", in_ids))


def _column(frame: pd.DataFrame, column: str, name: str = "") -> pd.Series[Any]:
    """Return a column of the annotations; DataError if it is missing."""
    if column not in frame.columns:
        raise DataError(
            f"the annotations{f' of {name!r}' if name else ''} have no column {column}",
            hint="make them with wb.annotate(items)",
        )
    return frame[column]


def _bar(truth: pd.Series[Any], rows: int, **labels: object) -> dict[str, Any]:
    """Count one bar: the rows with a value for which `truth` holds; `rows` counts those without one too."""
    return labels | {"count": int(truth.sum()), "n": len(truth), "missing": rows - len(truth)}


def _shares(rows: list[dict[str, Any]], title: str, *names: TableColumn) -> Table:
    """Complete bars with shares and intervals; `names` are the columns that say what a bar counts."""
    frame = pd.DataFrame(rows)
    count, n = frame["count"].to_numpy(dtype=float), frame["n"].to_numpy(dtype=float)
    frame["share"] = np.divide(count, n, out=np.full(len(frame), np.nan), where=n > 0)
    frame["low"], frame["high"] = wilson(count, n)
    columns = (*names, *_BAR_COLUMNS, *([_MISSING] if frame["missing"].any() else []))
    return Table(frame, TableLayout(title, columns, ("set",)))


def _context_column(by: str, within: str) -> str:
    """Return the column that says whether a target occurs elsewhere."""
    columns = {
        ("lemma", "passage"): "lemma_in_context",
        ("form", "passage"): "in_context",
        ("lemma", "context"): "n_context_mentions",
    }
    if (by, within) not in columns:
        raise DataError(
            f"there is no annotation for by={by!r} within={within!r}",
            hint='use by="lemma" or "form" within="passage", or by="lemma" within="context"',
        )
    return columns[by, within]


def count_in_context(
    sets: Sets, *, by: Literal["lemma", "form"] = "lemma", within: Literal["passage", "context"] = "passage"
) -> Table:
    """Count the targets that occur elsewhere in their passage (Figure 2a), two rows per set.

    Parameters
    ----------
    sets : DataFrame, or mapping of str to DataFrame
        Annotations, or several by name.
    by, within : {"lemma", "form"}, {"passage", "context"}
        What counts as the target (the form or its lemma, as in the paper, or only the same form), in the
        passage or only in the sentences before the target sentence (by lemma only; the column is
        `n_context_mentions`, its value whether it is more than 0).
    """
    column = _context_column(by, within)
    rows = []
    for name, frame in named_sets(sets).items():
        values = _column(frame, column, name).dropna()
        truth = values.astype("Int64") > 0 if column.startswith("n_") else values.astype("boolean")
        for value, text in ((True, "in context"), (False, "not in context")):
            rows.append(_bar(truth == value, len(frame), set=name, column=column, value=value, label=text))
    return _shares(rows, f"Targets elsewhere in the {within}", TableColumn("label", heading="Target"))


def count_classes(sets: Sets) -> Table:
    """Count the classes of the targets (Figure 2b), six rows per set in the order of `CLASSES`."""
    return _classes(sets, None, "Target classes")


def count_classes_out_of_context(sets: Sets, *, by: Literal["lemma", "form"] = "lemma") -> Table:
    """Count the classes of the targets that occur nowhere else in the passage (Figure 2c).

    With ``by="lemma"``, as in the paper, neither form nor lemma occurs; with ``by="form"`` not the same form.
    Rows are those of :func:`count_classes`, out of the `n` such targets.
    """
    return _classes(sets, _context_column(by, "passage"), "Classes of targets that are not in context")


def _classes(sets: Sets, inside: str | None, title: str) -> Table:
    """Count the classes, only of the rows where the column `inside` is false if there is one."""
    rows = []
    for name, frame in named_sets(sets).items():
        rest = frame if inside is None else frame[_is_false(_column(frame, inside, name))]
        missing = int(_column(frame, "target_class", name).isna().sum())
        values = rest["target_class"].dropna().astype("str")
        n = len(values) + missing
        if unknown := sorted(set(values) - set(CLASSES)):
            raise DataError(f"the target class {unknown[0]!r} is not one of {' '.join(CLASSES)}")
        rows += [
            _bar(values == value, n, set=name, column="target_class", value=value, label=value)
            for value in CLASSES
        ]
    return _shares(rows, title, TableColumn("label", heading="Target class", codes="target_class"))


def _is_false(column: pd.Series[Any]) -> NDArray[np.bool_]:
    return (~column.astype("boolean")).fillna(value=False).to_numpy(dtype=bool)


def count_direct_speech(sets: Sets) -> Table:
    """Count the passages with quoted speech, and the blanks within it (section 3.3), two rows per set."""
    rows = []
    for name, frame in named_sets(sets).items():
        for column, text in (("direct_speech", "in the passage"), ("target_in_speech", "around the target")):
            truth = _column(frame, column, name).dropna().astype("boolean")
            rows.append(_bar(truth, len(frame), set=name, column=column, value=True, label=text))
    return _shares(rows, "Quoted direct speech", TableColumn("label", heading="Quoted speech"))


def histogram(sets: Sets, column: str, *, first: int | None = None, width: int | None = None) -> Table:
    """Count the whole numbers of a column in bins of equal width.

    DataError if a value lies below `first`, or the width is below 1.

    Parameters
    ----------
    sets, column
        Annotations, or several by name; ``mention_distance``, ``n_tokens``, ``n_context_sentences`` ...
    first, width : int, optional
        Least value of the first bin, and values per bin, at least 1; see
        :func:`workbench.analysis.binning.whole_bins`.

    Returns
    -------
    DataFrame
        One row per set and bin up to the largest value of any set, with empty bins; in place of `value` and
        `label` it has `first` and `last` (both within the bin), `x` and `x2` (its edges, half a unit
        outside), and `mean` and `sd` of the set's values.
    """
    frames = named_sets(sets)
    numbers = {n: _column(frame, column, n).dropna().to_numpy(np.int64) for n, frame in frames.items()}
    joined = np.concatenate(list(numbers.values()))
    if (first is not None and len(joined) and joined.min() < first) or (width is not None and width < 1):
        raise DataError(
            f"expected values of {column} from first={first} on and a bin width of 1 or more, got "
            f"{min(joined, default=None)} and width={width}",
            hint="leave first and width out",
        )
    bins = whole_bins(joined, first=first, width=width)
    rows = []
    for name, values in numbers.items():
        n, (mean, sd) = len(values), _mean_sd(values)
        of_set = {"n": n, "missing": len(frames[name]) - n, "mean": mean, "sd": sd}
        for start, count in zip(bins.starts.astype(int).tolist(), bins.count(values).tolist(), strict=True):
            last = start + int(bins.width) - 1
            labels = {"set": name, "column": column, "first": start, "last": last}
            rows.append(labels | {"x": start - 0.5, "x2": last + 0.5, "count": count} | of_set)
    ends = (TableColumn(end, "count") for end in ("first", "last"))
    return _shares(rows, label(column, unit=True), *ends)


def _mean_sd(values: NDArray[Any]) -> tuple[float, float]:
    """Return mean and sample standard deviation, NaN where there are too few values."""
    mean = float(values.mean()) if len(values) else np.nan
    return mean, float(values.std(ddof=1)) if len(values) > 1 else np.nan


class _Row(NamedTuple):
    """One quantity of :func:`statistics`."""

    quantity: str
    value: float
    unit: str
    n: int
    sd: float = np.nan
    low: float = np.nan
    high: float = np.nan
    note: str = ""


Annotations = pd.DataFrame | Mapping[str, pd.DataFrame] | Sequence[pd.DataFrame]
"""Annotations of one set, or of several by name or in their order."""


def statistics(
    items: Items | Mapping[str, Items] | Sequence[Items], annotations: Annotations | None = None
) -> Table:
    """Describe sets of items as the paper describes LAMBADA, beside the paper's values.

    Parameters
    ----------
    items : Items, or several by name or in a list
        Items of one or several data sets and splits. Several sets stand side by side: by the names of a
        mapping, else by data set and split.
    annotations : DataFrame, or several like the items, optional
        From ``wb.annotate(items)``; adds targets and quoted speech (sections 3.2 and 3.3).

    Returns
    -------
    Table
        A DataFrame that shows its most important columns in a notebook. One row per data set, split and
        quantity; of a data set in several splits also one for all of them
        (split ``all``). Languages have rows of their own, by a column `language` where one is not English.
        `value` with `sd` (sample standard deviation of means) or `low` and `high` (Wilson's
        95 % interval of percentages), the number `n` of cases, `unit` (``count``, ``mean``, ``percent``), the
        `paper`'s value as printed, its `paper_row` in the published tables, and a `note`. Null: unknown.
        Tokens include the answer and punctuation; context sentences are all but the target sentence.

        Of several sets one row per quantity, and for each set its name as the column of values, with
        ``sd_<name>``, ``low_<name>``, ``high_<name>``, ``n_<name>`` and ``paper_<name>``.

    Raises
    ------
    DataError
        If the annotations lack an item or hold one twice, or the sets have no names of their own.

    Examples
    --------
    >>> table = wb.statistics(items, annotations)
    >>> table.columns.tolist()
    ['dataset', 'split', 'quantity', 'value', 'sd', 'low', 'high', 'n', 'unit', 'paper', 'paper_row', 'note']
    >>> both = wb.statistics({"test": items, "control": wb.load("sample", "control")})
    >>> both[["quantity", "test", "control"]].values.tolist()[0]
    ['passages', 30.0, 180.0]
    """
    if isinstance(items, Mapping | Sequence) and not isinstance(items, str):
        return _side_by_side(items, annotations)
    check_items(items, "statistics")
    if annotations is not None and not isinstance(annotations, pd.DataFrame):
        raise DataError("expected the annotations as a DataFrame", hint="pass wb.annotate(items)")
    frame = _measured(items, annotations)
    rows: list[dict[str, Any]] = []
    for (dataset, code), group in frame.groupby(["dataset", "language"], sort=False):
        splits = {str(split): rest for split, rest in group.groupby("split", sort=False)}
        if len(splits) > 1:
            splits["all"] = group
        for split, rest in splits.items():
            labels = {"dataset": dataset, "split": split, "language": code}
            rows += [labels | row for row in _quantities(rest, annotated=annotations is not None)]
    sets = ("dataset", "split", *(["language"] if set(frame["language"]) != {ENGLISH} else []))
    table = pd.DataFrame(rows, columns=[*sets, *STATISTICS_COLUMNS[2:]])
    numbers = dict.fromkeys(("value", "sd", "low", "high"), "Float64")
    table = table.astype(numbers).astype({"n": "Int64", "paper": "str", "paper_row": "str"})
    table.attrs["note"] = (f"{_INTERVALS} {_SD}", *_row_notes(table))
    return Table(table, TableLayout(_TITLE, _SHOWN, sets))


def _side_by_side(items: Mapping[str, Items] | Sequence[Items], annotations: Annotations | None) -> Table:
    """Return the quantities of several sets, one column per set."""
    sets = _by_name(items)
    if isinstance(annotations, pd.DataFrame) or (annotations and len(annotations) > len(sets)):
        raise DataError("expected annotations for each set", hint="pass them by the names of the sets")
    beside = annotations or {}
    if not isinstance(beside, Mapping):
        beside = dict(zip(sets, beside, strict=False))
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    notes: list[pd.DataFrame] = []
    for name, of_set in sets.items():
        annotated = beside.get(name)
        table = pd.DataFrame(_quantities(_measured(of_set, annotated), annotated=annotated is not None))
        notes.append(table.assign(note=[f"{name}: {note}" if note else "" for note in table["note"]]))
        for row in table.to_dict("records"):
            cells = {f"{column}_{name}": row.get(column) for column in ("sd", "low", "high", "n", "paper")}
            key = row["quantity"], row["unit"]
            rows.setdefault(key, dict(zip(("quantity", "unit"), key, strict=True))).update(
                {name: row["value"]} | cells
            )
    columns = [TableColumn("quantity")]
    for name in sets:
        columns.append(TableColumn(name, _VALUES, (f"low_{name}", f"high_{name}"), heading=name))
        columns.append(TableColumn(f"paper_{name}", _PRINTED, heading=f"Paper ({name})"))
    frame = pd.DataFrame(list(rows.values()))
    frame.attrs["note"] = (_INTERVALS, *_row_notes(pd.concat(notes)))
    return Table(frame, TableLayout(_TITLE, tuple(columns)))


def _by_name(items: Mapping[str, Items] | Sequence[Items]) -> dict[str, Items]:
    """Return sets of items by name; those of a sequence are named after data set and split."""
    values = list(items.values() if isinstance(items, Mapping) else items)
    for of_set in values:
        check_items(of_set, "statistics")
    if isinstance(items, Mapping):
        names = [str(name) for name in items]
    else:
        pairs = [of_set.frame[["dataset", "split"]].drop_duplicates() for of_set in values]
        names = [" + ".join((pair["dataset"] + "/" + pair["split"]).tolist()) for pair in pairs]
    if not names or len({*names, "quantity", "unit"}) < len(names) + 2:
        problem = f"expected sets with different names, got {', '.join(names) or 'none'}"
        raise DataError(problem, hint='name them: wb.statistics({"plain": a, "capitalised": b})')
    return dict(zip(names, values, strict=True))


def _measured(items: Items, annotations: pd.DataFrame | None) -> pd.DataFrame:
    """Return items with their numbers of tokens and sentences, and their annotations."""
    frame = items.frame[["item_id", "dataset", "split", "answer", "candidates", "book_id"]]
    frame["language"] = items.frame["variant"].map(language)
    frame["tokens"] = [len(item.tokens) for item in items]
    frame["sentences"] = [len(item.sentences) - 1 for item in items]
    if annotations is not None:
        beside = in_item_order(annotations, frame["item_id"], complete=True)
        frame = frame.join(beside.loc[:, ~beside.columns.isin(frame.columns)])
    return frame


def _quantities(frame: pd.DataFrame, *, annotated: bool) -> list[dict[str, Any]]:
    """Describe items of a set, beside the paper's values where they are the items of LAMBADA."""
    rows = [*_described(frame), *(_annotated(frame) if annotated else ())]
    splits, is_english = set(frame["split"]), set(frame["language"]) == {ENGLISH}
    split = "all" if len(splits) > 1 else next(iter(splits), "")
    paper = is_english and set(frame["dataset"]) == {"lambada"}
    paper &= split != "all" or splits == set(_PAPER_SPLITS)
    return [row._asdict() | (_beside(split, row) if paper else {}) for row in rows]


def _row_notes(table: pd.DataFrame) -> list[str]:
    notes = table[table["note"] != ""].groupby("note", sort=False)["quantity"].unique()
    return [f"{', '.join(names)}: {note}." for note, names in notes.items()]


def _described(frame: pd.DataFrame) -> Iterator[_Row]:
    """Describe items without annotations."""
    n = len(frame)
    yield _Row("passages", n, "count", n)
    books = frame["book_id"].dropna()
    if len(books) == n:
        yield _Row("novels", books.nunique(), "count", n)
    else:
        yield _Row("novels", np.nan, "count", len(books), note=f"{n - len(books):,} items name no book")
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
    mean, sd = _mean_sd(values.to_numpy(dtype=float))
    return _Row(quantity, mean, "mean", len(values), sd=sd)


def _annotated(frame: pd.DataFrame) -> Iterator[_Row]:
    """Describe items by the available columns of their annotations."""

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
        outside = frame["target_class"][_is_false(frame["lemma_in_context"])]
        yield _percent("proper nouns among targets whose lemma is not in context", _is(outside, "PN"))


def _is(column: pd.Series[Any], value: str) -> pd.Series[Any]:
    return (column == value).astype("boolean").mask(column.isna())


def _percent(quantity: str, truth: pd.Series[Any]) -> _Row:
    present = truth.dropna()
    n, count = len(present), int(present.sum())
    low, high = (_PERCENT * float(bound[0]) for bound in wilson(count, n))
    missing = len(truth) - n
    note = f"{missing:,} without a value left out" if missing else ""
    return _Row(quantity, _PERCENT * count / n if n else np.nan, "percent", n, low=low, high=high, note=note)


def _beside(split: str, row: _Row) -> dict[str, str]:
    """Return the paper's value for a quantity of a split of LAMBADA, if there is one."""
    keys = [("text", split), ("4", split)]
    # A count of one split has no value that also holds for all splits; a mean has.
    if row.unit == "mean" and split in _PAPER_SPLITS:
        keys.append(("text", "all"))
    if row.unit == "percent" and split in {*_PAPER_SPLITS, "all", "control"}:
        analysed = "input" if split == "control" else "lambada"
        keys += [(figure, analysed) for figure in ("2a", "2b", "2c", "text")]
    for figure, name in keys:
        value = published.find_value(figure, name, row.quantity)
        if value is not None:
            notes = [row.note, _STAND_IN if name == "input" else ""]
            return {
                "paper": value.text,
                "paper_row": f"{figure} / {name} / {row.quantity}",
                "note": "; ".join(filter(None, notes)),
            }
    return {}
