"""Read predictions from runs, data frames or run names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.items.ablation import RENAMED, split_variant
from workbench.items.items import Items
from workbench.predictions.schema import (
    FROM_ANSWERS,
    OPTIONAL,
    SCHEMA,
    check_values,
    from_answers,
    from_table,
    typed_predictions,
)
from workbench.predictions.store import INFO, Run, find_run, open_run, run_folder
from workbench.storage.errors import DataError

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

VARIANT = ("unit", "filter", "vocabulary_size", "case", "unknown", "prompt", "bos", "detokenised")
"""Columns of predictions that tell results apart which must not be mixed up."""

NEEDED = (
    "item_id", "dataset", "split", "variant", "word_class", "book_id", "answer", "model", "system", "run",
    "score_type", "unit", "filter", "unknown", "case", "prompt", "bos", "correct", "known", "greedy_correct",
    "rank_is_bound", "rank", "n_tied", "vocabulary_size", "p_correct", "log_prob", "log_prob_uncorrected",
    "in_training", "detokenised", "candidates_digest",
)  # fmt: skip
"""Columns of predictions that evaluation reads."""

ANSWER_NOTES = "answer_notes"
"""Key of `ModelPredictions.info`: what is to be said of answers that were taken from words."""

BY_SEED = "correct_by_seed"
"""Column of pooled replicates: which of them are right on an item, a tuple of bool."""

_WORDS = ("item_id", "model", "prediction")
_IN_USE: WeakValueDictionary[tuple[str, str], pa.Table] = WeakValueDictionary()


_READ = (*NEEDED, "prediction", "n_choices")  # columns of a stored run that are read at once


@dataclass(frozen=True)
class ModelPredictions:
    """The predictions of one model in one run, as a frame and as an Arrow table.

    A stored run is made a frame only on demand: its Arrow table is read some ten times faster. A frame in
    `data` has the types of evaluation and is sorted by item. `info` is the record of the run. A `stored` run
    has the columns that evaluation reads in `data`, and others are read when they are asked for.
    """

    model: str
    run: str
    data: pa.Table | pd.DataFrame = field(repr=False)
    info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    stored: Run | None = field(default=None, repr=False)

    @cached_property
    def item_columns(self) -> pd.DataFrame:
        """The items' own columns as the run was stored with, indexed by ``item_id``; none without a run."""
        if self.stored is not None:
            return self.stored.item_columns
        folder = run_folder(str(self.info.get("run", self.run)))
        return open_run(folder).item_columns if folder else pd.DataFrame()

    @cached_property
    def frame(self) -> pd.DataFrame:
        """All columns, one row an item, sorted by item; see `evaluated`."""
        if isinstance(self.data, pd.DataFrame):
            return self.data
        return self._frame_of(self.data if self.stored is None else self.stored.read())

    @property
    def evaluated(self) -> pd.DataFrame:
        """The columns `NEEDED` and other available ones, one row an item, sorted by item; a new frame."""
        return self.data if isinstance(self.data, pd.DataFrame) else self._frame_of(self.data)

    def _frame_of(self, table: pa.Table) -> pd.DataFrame:
        return _sorted(from_table(table).assign(run=pd.Series(self.run, range(len(table)), "str")))

    @cached_property
    def table(self) -> pa.Table:
        """The columns `NEEDED` and ``prediction``, one row an item, in any order."""
        names = (*NEEDED, "prediction")
        if isinstance(self.data, pa.Table):
            return self.data.select(list(names))
        return pa.table([self._array(name) for name in names], names)

    def _array(self, name: str) -> pa.Array:
        """Return a column of the frame; null where it has none."""
        values = self.data.get(name, [None] * len(self.data))
        return pa.array(values, SCHEMA.field(name).type, from_pandas=True)

    def floats(self, name: str) -> Floats:
        """Return a column of `table` as numbers, null as NaN."""
        return np.asarray(self.table[name].cast(pa.float64()).to_numpy(), dtype=np.float64)

    def truths(self, name: str) -> npt.NDArray[np.bool_]:
        """Return a column of Booleans of `table`, null as false."""
        return np.asarray(pc.fill_null(self.table[name], fill_value=False).to_numpy(), dtype=bool)

    @cached_property
    def log_prob(self) -> Floats:
        """Natural log-probabilities of the answers; NaN where there is none, and of scores."""
        proper = pc.fill_null(pc.equal(self.table["score_type"], "log_prob"), fill_value=False).to_numpy()
        return np.where(proper, self.floats("log_prob"), np.nan)

    @cached_property
    def correct_by_seed(self) -> npt.NDArray[np.bool_]:
        """Whether each item is answered rightly, (n, replicates); one column where there are none."""
        if isinstance(self.data, pd.DataFrame) and BY_SEED in self.data:
            return by_seed(self.data)
        return self.truths("correct")[:, None]

    def strings(self, name: str, rows: Rows) -> pa.Array:
        """Return the text in the rows of a column of `table`."""
        return self.table[name].take(pa.array(rows)).cast(pa.string()).combine_chunks()

    def values(self, name: str, rows: Rows) -> set[Any]:
        """Return the unique values in the rows of a column of `table`, without null."""
        column = self.table[name]
        if len(rows) < len(column):  # rows are of different items: else these are all
            return _different(column.take(pa.array(rows)))
        if name not in self._all_values:
            self._all_values[name] = _different(column)
        return set(self._all_values[name])

    @cached_property
    def _all_values(self) -> dict[str, set[Any]]:
        """The different values of each column of `table` that was asked for."""
        return {}

    def value_sets(self, rows: Rows) -> dict[str, set[Any]]:
        """Return the unique values in the rows of the variant and of each column of `VARIANT`."""
        return {name: self.values(name, rows) for name in ("variant", *VARIANT)}

    def candidates(self, rows: Rows) -> pa.Array:
        """Return what is known of the candidates of the items in the rows, for `other_candidates`.

        That is the digest (see :func:`workbench.predictions.schema.candidate_digests`). Null where nothing is
        known, or the items have other names on purpose.
        """
        if any(split_variant(str(name))[1] == RENAMED for name in self.values("variant", rows)):
            return pa.nulls(len(rows), pa.string())
        digests = self.table["candidates_digest"].take(pa.array(rows))
        return digests.cast(pa.string()).combine_chunks()

    def cell(self, name: str, row: int) -> Any:
        """Return a single value: None where it is null, a list where there is one."""
        if isinstance(self.data, pa.Table):
            if name not in self.data.column_names and self.stored is not None:
                return self.stored.cell(name, row)
            return self.data[name][row].as_py()
        if name in self.table.column_names:
            return self.table[name][row].as_py()
        value = self.data[name].iloc[row] if name in self.data else None
        return list(value) if isinstance(value, list | tuple | np.ndarray) else None


def _different(column: pa.ChunkedArray) -> set[Any]:
    return set(pc.unique(column).to_pylist()) - {None}


def is_uncorrected(log_prob: Floats, uncorrected: Floats) -> bool:
    """Return whether log-probabilities (n,) are of the sub-tokens alone, without the end of the word.

    So they are in logs of lm-evaluation-harness: the two columns are equal.
    """
    both = np.isfinite(log_prob) & np.isfinite(uncorrected)
    return bool(both.any() and (log_prob == uncorrected)[both].all())


def by_seed(frame: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Return which replicates are right on each item, (n, replicates); of a single run one column."""
    if BY_SEED not in frame or not len(frame):
        return frame["correct"].fillna(value=False).to_numpy(dtype=bool)[:, None]
    return np.array(frame[BY_SEED].tolist(), dtype=bool)


def predictions_of(runs: Any, items: Items | None = None, *, pool: bool = False) -> list[ModelPredictions]:
    """Return the predictions of runs, frames of predictions or names of stored runs, one model and run each.

    With `pool`, those of :func:`workbench.evaluation.replicates.replicates` are one model, else as many as
    there are runs.

    They are in the order given, within one frame by order of appearance. Of a frame with ``item_id``,
    ``model`` and ``prediction`` alone (also ``log_prob``, ``rank``), the rest is taken from `items`: a
    prediction is correct by :func:`workbench.predictions.schema.same_word`. Raise DataError if something is
    none of these, a column is missing or of another type, or a value is not as
    :func:`workbench.predictions.schema.check_predictions` demands it.
    """
    read = partial(_read, items=items, pool=pool)
    with ThreadPoolExecutor() as threads:
        return [model for models in threads.map(read, as_list(runs)) for model in models]


def as_list(runs: Any) -> list[Any]:
    """Return the argument `runs` as a list; a single run, frame or name is one element."""
    single = isinstance(runs, str | pd.DataFrame) or not isinstance(runs, Iterable)
    return [runs] if single else list(runs)


def filled_column(name: str, column: pa.Array, models: Sequence[ModelPredictions], rows: Rows) -> pa.Array:
    """Return a column of text of items (n,), its nulls filled from the models' `rows` (m, n) for them."""
    for model, of_model in zip(models, rows, strict=True):
        if column.null_count:
            column = pc.coalesce(column, model.strings(name, of_model))
    return column


def _read(source: Any, items: Items | None = None, *, pool: bool = False) -> list[ModelPredictions]:
    if isinstance(pooled := getattr(source, "pooled", None), ModelPredictions):
        return [pooled] if pool else list(source.replicated)
    if isinstance(source, ModelPredictions):
        return [source]
    if isinstance(source, str):
        source = find_run(source)
    if isinstance(source, Run):
        return _of_run(source)
    info = {} if isinstance(source, pd.DataFrame) else getattr(source, "info", None) or {}
    frame = source if isinstance(source, pd.DataFrame) else getattr(source, "predictions", None)
    if not isinstance(frame, pd.DataFrame):
        remedy = "pass a run, a frame of predictions, the name of a run, or a list of these"
        raise DataError(f"there are no predictions in a {type(source).__name__}", remedy=remedy)
    lacking = {name: None for name in OPTIONAL if name in NEEDED and name not in frame.columns}
    frame = typed_predictions(frame.assign(**lacking))
    if any(name not in frame.columns for name in (*_WORDS, *NEEDED) if name not in OPTIONAL):
        frame = _completed(frame, items)
        info = {**info, ANSWER_NOTES: frame.attrs.get(ANSWER_NOTES, ())}
    run = None if isinstance(source, pd.DataFrame) else getattr(source, "run", None)
    return list(_split_frame(frame, run, info))


def _completed(frame: pd.DataFrame, items: Items | None) -> pd.DataFrame:
    """Return predictions with all columns; missing ones are computed from the words and the items."""
    lacking = next(name for name in (*_WORDS, *NEEDED) if name not in frame.columns and name not in OPTIONAL)
    if items is None or lacking in _WORDS:
        remedy = f"pass items= as well to a function that takes it, as wb.evaluate does; {FROM_ANSWERS}"
        raise DataError(
            f"the predictions have no column {lacking!r}",
            remedy=f"a frame needs {', '.join(_WORDS)}" if lacking in _WORDS else remedy,
        )
    asked = frame[frame["item_id"].isin(items.frame["item_id"])]
    if asked.empty:
        ids = [table["item_id"].iloc[0] if len(table) else None for table in (items.frame, frame)]
        problem = f"the predictions have none of the items: expected ids such as {ids[0]!r}, got {ids[1]!r}"
        remedy = "pass the items that were predicted; their ids are in items.frame['item_id']"
        raise DataError(problem, remedy=remedy)
    groups = asked.groupby("model", sort=False)
    frames = [from_answers(items, group, model=str(model)) for model, group in groups]
    completed = pd.concat(frames, ignore_index=True)
    notes = [f"{each['model'].iloc[0]}: {each.attrs['note']}" for each in frames if "note" in each.attrs]
    completed.attrs = {ANSWER_NOTES: notes}
    return completed


def list_answer_notes(models: Iterable[ModelPredictions]) -> list[str]:
    """Return notes on models whose answers are right but for white space and marks around the word."""
    return list(dict.fromkeys(note for model in models for note in model.info.get(ANSWER_NOTES, ())))


def _of_run(run: Run) -> list[ModelPredictions]:
    """Return the predictions of a stored run, whose values were checked then; nothing if it has no rows."""
    table = run.read(_READ).combine_chunks()
    name = _named(run.model, pc.unique(table["variant"]).to_pylist())
    shared = _shared(table, (run.model, run.run))
    return [ModelPredictions(name, run.run, shared, run.info, run)] if len(table) else []


def _shared(table: pa.Table, key: tuple[str, str]) -> pa.Table:
    """Return the equal table that is in use already, if there is one: a cell that is run again adds none."""
    earlier = _IN_USE.get(key)
    if earlier is not None and earlier.equals(table):
        return earlier
    _IN_USE[key] = table
    return table


def _split_frame(frame: pd.DataFrame, run: str | None, info: Mapping[str, Any]) -> Iterator[ModelPredictions]:
    """Split one frame by model and run."""
    frame = frame.assign(run=frame["run"].fillna(""))
    if run is not None:
        frame["run"] = frame["run"].where(frame["run"] != "", run)
    check_values(frame)
    for (model, name), subset in frame.groupby(["model", "run"], sort=False):
        label = _named(str(model), subset["variant"].dropna().unique())
        yield ModelPredictions(label, str(name), _sorted(subset), info)


def _named(model: str, variants: Iterable[Any]) -> str:
    """Return the name of a model, with its input if that is the query or passage alone."""
    inputs = {split_variant(str(variant))[1] for variant in variants}
    return model if "" in inputs else " ".join([model, *(f"({name})" for name in sorted(inputs))])


def labels(models: Sequence[ModelPredictions], *, by_set: bool = False) -> list[str]:
    """Return unique names of models: those of equal names are numbered in their order, as in ``LSTM #2``.

    With `by_set`, models on different data sets or splits may share a name, as where each set has a panel.
    """
    names = [model.model for model in models]
    sets = [tuple(map(traits_of(model).get, ("dataset", "split"))) for model in models] if by_set else names
    return numbered_names(names, sets)


def numbered_names(names: Sequence[str], sets: Sequence[Any] | None = None) -> list[str]:
    """Return unique names: equal ones, of those of one of the `sets`, are numbered in their order."""
    keys = list(zip(names, names if sets is None else sets, strict=True))
    return [
        f"{name} #{keys[: k + 1].count(keys[k])}" if keys.count(keys[k]) > 1 else name
        for k, name in enumerate(names)
    ]


def distinctions(models: Sequence[ModelPredictions]) -> pd.DataFrame:
    """Return the columns in which models of equal names differ, one row per model; see `differing`."""
    names = [model.model for model in models]
    return differing(names, [traits_of(model) for model in models] if len({*names}) < len(names) else [])


def differing(names: Sequence[str], traits: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the `traits` in which models of equal `names` differ, one row per model, null where it has none.

    The run is among them where nothing else tells two models apart.
    """
    frame = pd.DataFrame(list(traits), index=range(len(names)), dtype=object)
    name_of = pd.Series(list(names), frame.index)
    columns = [
        column for column in frame.columns
        if frame[[column]].assign(name=name_of).drop_duplicates()["name"].duplicated().any()
    ]  # fmt: skip
    others = [column for column in columns if column != "run"]
    if not frame[others].assign(name=name_of).duplicated().any():
        columns = others
    return frame[columns].convert_dtypes()


def traits_of(model: ModelPredictions) -> dict[str, Any]:
    """Return what may tell a model apart from others of its name: its variant, options, seed and run."""
    rows = np.arange(len(model.table))
    traits: dict[str, Any] = {}
    for name in ("dataset", "split", "variant", *VARIANT):
        values = sorted(model.values(name, rows), key=str)
        traits[name] = ", ".join(map(str, values)) if len(values) > 1 else next(iter(values), None)
    options = model.info.get("config")
    for name, value in (options if isinstance(options, Mapping) else {}).items():
        if name not in traits and isinstance(value, str | int | float):
            traits[str(name)] = value
    return {"seed": model.info.get("seed")} | traits | {"run": model.run}


_UNITS = {
    "word": "whole words", "whole-word": "whole words and their ends", "last-token": "the last token only",
}  # fmt: skip
_UNUSUAL = {"text": "BOS in the text", "omitted": "BOS left out", "unknown": "BOS not known"}
"""Beginnings of texts that are no habit of a tokenizer."""
_NO_PROMPT = (ValueError, TypeError, KeyError, OverflowError, RecursionError)


def _boundaries(prompt: Mapping[str, Any]) -> list[str]:
    """Return a prompt's changes at the beginning of the text, and before the answer, in words."""
    beginnings = {"nothing": "no BOS", "newline": "newline first", "mark": "BOS first"}
    space = "space encoded with the context" if prompt.get("space") == "context" else ""
    return list(filter(None, [beginnings.get(str(prompt.get("beginning")), ""), space]))


def protocol_of(row: Mapping[str, Any]) -> str:
    """Return in words by which protocol a result was counted, from columns of `VARIANT`.

    That is what the evaluation chooses: the unit, excluded words, detokenised texts, prompt, and a beginning
    that is not the tokenizer's habit. The vocabulary is the model's, and the draw of examples is chance.
    """
    values = {name: row.get(name) for name in VARIANT}
    unit, bos = values["unit"], values["bos"]
    words = [_UNITS.get(str(unit), unit if isinstance(unit, str) and unit else "unit not stated")]
    words += ["stop words excluded"] if values["filter"] == "stop-words" else []
    words += ["detokenised"] if str(values["detokenised"]) == "True" else []
    try:
        prompt = json.loads(str(values["prompt"]))
        shots, template = int(prompt["shots"]), str(prompt["template"])
    except _NO_PROMPT:
        words += [_short(str(values["prompt"]), 60)] if isinstance(values["prompt"], str) else []
    else:
        words += [f"{shots} {'example' if shots == 1 else 'examples'}"] if shots else []
        words += [f"template {_short(template, 40)!r}"] if template != "{text}" else []
        words += _boundaries(prompt)
    words += [_UNUSUAL[bos]] if bos in _UNUSUAL else []
    return ", ".join(words)


def is_of_papers(row: Mapping[str, Any]) -> bool:
    """Return whether a result was counted as in the papers' tables: words of the text as released."""
    return protocol_of(row) in {protocol_of({"unit": unit}) for unit in ("word", "whole-word")}


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _sorted(frame: pd.DataFrame) -> pd.DataFrame:
    """Sort by item, so that draws by a seed are independent of the order of the rows."""
    ids = pa.array(frame["item_id"], pa.large_string(), from_pandas=True)
    ascends = pc.all(pc.less_equal(ids[:-1], ids[1:]), min_count=0).as_py()
    if ascends and not ids.null_count and frame.index.equals(pd.RangeIndex(len(frame))):
        return frame
    return frame.sort_values("item_id", kind="stable", ignore_index=True)


def one_value(column: pd.Series[Any]) -> Any:
    """Return the value of a column: several are joined by commas, None where all are null."""
    values = [value for value in column.unique().tolist() if not pd.isna(value)]
    if len(values) <= 1:
        return values[0] if values else None
    return ", ".join(sorted(map(str, values)))


def floats(column: pd.Series[Any]) -> Floats:
    """Return a nullable column as numbers, null as NaN."""
    return np.asarray(column.astype("Float64").to_numpy(dtype=float, na_value=np.nan), dtype=np.float64)


def items_of(
    runs: Any,
    *,
    dataset: str | None = None,
    split: str | None = None,
    variant: str | None = None,
    path: Path | str | None = None,
) -> Items:
    """Load the items that predictions are about.

    `dataset`, `split`, `variant` and `path` are those of :func:`workbench.datasets.load`; the runs name what
    is not passed, the variant being that of most runs (of the whole items, if models saw a part of them).
    Raise DataError if they name several sets, or the items are not found.
    """
    from workbench.datasets import load  # noqa: PLC0415 - only where no items are given

    named: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    unnamed = dataset is None or split is None or variant is None
    for predictions in predictions_of(runs) if unnamed else ():
        sets, splits, forms = (
            [str(value) for value in predictions.table[name].unique().to_pylist() if value is not None]
            for name in ("dataset", "split", "variant")
        )
        forms = list(dict.fromkeys(split_variant(form)[0] for form in forms))
        for key in {(dataset or a, split or b) for a in sets for b in splits}:
            named.setdefault(key, Counter())[tuple(forms)] += 1
    if unnamed and len(named) != 1:
        names = ", ".join(" ".join(key) for key in named) or "none"
        raise DataError(
            f"expected predictions of one data set and split, got {names}",
            remedy="compare predictions of the same data set and split, and say which items",
        )
    (dataset, split), counts = next(iter(named.items()), ((dataset, split), Counter()))
    variants = (variant,) if variant is not None else counts.most_common(1)[0][0]
    return Items.concat(load(str(dataset), split, variant=name, path=path) for name in variants)


def run_of(name: str) -> Run:
    """Return a stored run by its name, or by the folder that it lies in."""
    folder = Path(name)
    if not (folder / INFO).is_file() or folder.name == name:
        return find_run(name)
    return open_run(folder.resolve())
