"""Read predictions from runs, data frames or run names."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from workbench.items.ablation import split_variant
from workbench.items.items import Items
from workbench.predictions.schema import (
    FROM_ANSWERS,
    OPTIONAL,
    PREDICTION_COLUMNS,
    check_values,
    from_answers,
    from_table,
    typed_predictions,
)
from workbench.predictions.signature import VARIANT, one_value
from workbench.predictions.store import Run, find_run, open_run, run_folder
from workbench.storage.errors import DataError

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

NEEDED = (
    "item_id", "dataset", "split", "variant", "word_class", "book_id", "answer", "model", "system", "run",
    "score_type", "unit", "filter", "unknown", "case", "prompt", "bos", "correct", "known", "greedy_correct",
    "rank_is_bound", "rank", "n_tied", "vocabulary_size", "p_correct", "log_prob", "log_prob_uncorrected",
    "in_training", "detokenised", "candidates_digest",
)  # fmt: skip
"""Columns of predictions that evaluation reads."""

BY_SEED = "correct_by_seed"
"""Column of pooled replicates: which of them are right on an item, a tuple of bool."""

_WORDS = ("item_id", "model", "prediction")
_SOURCE = "source"  # attribute of frames


@dataclass(frozen=True)
class PredictionSource:
    """Where the predictions of one model are from.

    `model` is its name, with its input if that is the query or passage alone, `info` what is stored of the
    run, `notes` the notes on answers that were taken from words, and `stored` the run on disk.
    """

    model: str
    run: str
    info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    stored: Run | None = field(default=None, repr=False)

    def __deepcopy__(self, _: Any) -> PredictionSource:
        return self  # pandas copies the attributes of a frame with it

    @cached_property
    def item_columns(self) -> pd.DataFrame:
        """The items' own columns as the run was stored with, indexed by ``item_id``; none without a run."""
        if self.stored is not None:
            return self.stored.item_columns
        folder = run_folder(str(self.info.get("run", self.run)))
        return open_run(folder).item_columns if folder else pd.DataFrame()

    @property
    def settings(self) -> dict[str, Any]:
        """The seed and the options of the model."""
        config = self.info.get("config")
        options = config.items() if isinstance(config, Mapping) else ()
        values = {str(name): value for name, value in options if isinstance(value, str | int | float)}
        return {"seed": self.info.get("seed")} | values


def source_of(frame: pd.DataFrame) -> PredictionSource:
    """Return where a frame of :func:`predictions_of` is from."""
    return frame.attrs[_SOURCE]  # type: ignore[no-any-return]


def from_source(frame: pd.DataFrame, source: PredictionSource) -> pd.DataFrame:
    """Return a frame with the note of where it is from."""
    frame.attrs = {_SOURCE: source}
    return frame


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


def predictions_of(
    runs: Any, items: Items | None = None, *, pool: bool = False, columns: Sequence[str] = PREDICTION_COLUMNS
) -> list[pd.DataFrame]:
    """Return the predictions of runs, frames of predictions or names of stored runs, one model and run each.

    They are in the order given, within one frame by order of appearance, and sorted by item; `source_of`
    tells where each is from. With `pool`, those of :func:`workbench.evaluation.replicates.replicates` are one
    model, else as many as there are runs. `columns` are those that are read of stored runs.

    Of a frame with ``item_id``, ``model`` and ``prediction`` alone (also ``log_prob``, ``rank``), the rest is
    taken from `items`: a prediction is correct by :func:`workbench.predictions.schema.same_word`. Raise
    DataError if something is none of these, a column is missing or of another type, or a value is not as
    :func:`workbench.predictions.schema.check_predictions` demands it.
    """
    frames = []
    for predictions in split_runs(runs, items, pool=pool):
        if isinstance(predictions, Run):
            table = predictions.read(columns)
            frames.append(from_source(_sorted(from_table(table)), run_source(predictions, table)))
        else:
            frames.append(predictions)
    return frames


def split_runs(runs: Any, items: Items | None = None, *, pool: bool = False) -> Iterator[Run | pd.DataFrame]:
    """Yield the stored runs among runs, frames and names, and of the others a frame per model."""
    for source in as_list(runs):
        if isinstance(pooled := getattr(source, "pooled", None), pd.DataFrame):
            yield from [pooled] if pool else source.replicated
            continue
        run = find_run(source) if isinstance(source, str) else source
        if not isinstance(run, Run):
            yield from _frames(run, items)
        elif len(run):
            yield run


def run_source(run: Run, table: pa.Table) -> PredictionSource:
    """Return where the predictions of a stored run are from, of which `table` has the variants."""
    name = _named(run.model, pc.unique(table["variant"]).to_pylist())
    return PredictionSource(name, run.run, run.info, stored=run)


def columns_read(names: Sequence[str]) -> list[str]:
    """Return the columns of predictions that evaluation by columns of these `names` reads."""
    return list(dict.fromkeys([*NEEDED, *(name for name in names if name in PREDICTION_COLUMNS)]))


def as_list(runs: Any) -> list[Any]:
    """Return the argument `runs` as a list; a single run, frame or name is one element."""
    single = isinstance(runs, str | pd.DataFrame) or not isinstance(runs, Iterable)
    return [runs] if single else list(runs)


def _frames(source: Any, items: Items | None) -> Iterator[pd.DataFrame]:
    """Yield the checked predictions of a frame, or of what has one, by model and run."""
    frame = source if isinstance(source, pd.DataFrame) else getattr(source, "predictions", None)
    if not isinstance(frame, pd.DataFrame):
        hint = "pass a run, a frame of predictions, the name of a run, or a list of these"
        raise DataError(f"there are no predictions in a {type(source).__name__}", hint=hint)
    if isinstance(frame.attrs.get(_SOURCE), PredictionSource):
        yield frame
        return
    run, info = (None, {}) if frame is source else (getattr(source, "run", None), getattr(source, "info", {}))
    lacking = {name: None for name in OPTIONAL if name in NEEDED and name not in frame.columns}
    frame = typed_predictions(frame.assign(**lacking))
    notes: tuple[str, ...] = ()
    if any(name not in frame.columns for name in (*_WORDS, *NEEDED) if name not in OPTIONAL):
        frame, notes = _completed(frame, items)
    frame = frame.assign(run=frame["run"].fillna(""))
    if run is not None:
        frame["run"] = frame["run"].where(frame["run"] != "", run)
    check_values(frame)
    for (model, name), subset in frame.groupby(["model", "run"], sort=False):
        label = _named(str(model), subset["variant"].dropna().unique())
        yield from_source(_sorted(subset), PredictionSource(label, str(name), info or {}, notes))


def _completed(frame: pd.DataFrame, items: Items | None) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Return predictions with all columns, taken from the words and the items, and notes on the answers."""
    lacking = next(name for name in (*_WORDS, *NEEDED) if name not in frame.columns and name not in OPTIONAL)
    if items is None or lacking in _WORDS:
        hint = f"pass items= as well to a function that takes it, as wb.evaluate does; {FROM_ANSWERS}"
        raise DataError(
            f"the predictions have no column {lacking!r}",
            hint=f"a frame needs {', '.join(_WORDS)}" if lacking in _WORDS else hint,
        )
    asked = frame[frame["item_id"].isin(items.frame["item_id"])]
    if asked.empty:
        ids = [table["item_id"].iloc[0] if len(table) else None for table in (items.frame, frame)]
        problem = f"the predictions have none of the items: expected ids such as {ids[0]!r}, got {ids[1]!r}"
        hint = "pass the items that were predicted; their ids are in items.frame['item_id']"
        raise DataError(problem, hint=hint)
    groups = asked.groupby("model", sort=False)
    frames = [from_answers(items, group, model=str(model)) for model, group in groups]
    notes = [f"{each['model'].iloc[0]}: {each.attrs['note']}" for each in frames if "note" in each.attrs]
    return pd.concat(frames, ignore_index=True), tuple(notes)


def _named(model: str, variants: Iterable[Any]) -> str:
    """Return the name of a model, with its input if that is the query or passage alone."""
    inputs = {split_variant(str(variant))[1] for variant in variants}
    return model if "" in inputs else " ".join([model, *(f"({name})" for name in sorted(inputs))])


def labels(frames: Sequence[pd.DataFrame], *, by_set: bool = False) -> list[str]:
    """Return unique names of models: those of equal names are numbered in their order, as in ``LSTM #2``.

    With `by_set`, models on different data sets or splits may share a name, as where each set has a panel.
    """
    names = [source_of(frame).model for frame in frames]
    sets = [(one_value(frame["dataset"]), one_value(frame["split"])) for frame in frames]
    return numbered_names(names, sets if by_set else names)


def numbered_names(names: Sequence[str], sets: Sequence[Any] | None = None) -> list[str]:
    """Return unique names: equal ones, of those of one of the `sets`, are numbered in their order."""
    keys = list(zip(names, names if sets is None else sets, strict=True))
    return [
        f"{name} #{keys[: k + 1].count(keys[k])}" if keys.count(keys[k]) > 1 else name
        for k, name in enumerate(names)
    ]


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


def distinctions(frames: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the columns in which models of equal names differ, one row per model; see `differing`."""
    return differing([source_of(frame).model for frame in frames], list(map(traits_of, frames)))


def traits_of(frame: pd.DataFrame) -> dict[str, Any]:
    """Return what may tell a model apart from others of its name: its variant, options, seed and run."""
    values = {name: one_value(frame[name]) for name in ("dataset", "split", "variant", *VARIANT)}
    source = source_of(frame)
    return source.settings | values | {"run": source.run}


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


def floats(column: pd.Series[Any]) -> Floats:
    """Return a nullable column as numbers, null as NaN."""
    return np.asarray(column.astype("Float64").to_numpy(dtype=float, na_value=np.nan), dtype=np.float64)
