"""All runs of the store, ranked, beside the scores that others published."""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from importlib import metadata
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from workbench.analysis.proportions import holm
from workbench.datasets import published as papers
from workbench.evaluation.bootstrap import Drawing
from workbench.evaluation.metrics import (
    chance_of,
    is_random,
    measure,
    note,
    shown_measures,
    spread_columns,
    subset_of,
    typed,
)
from workbench.evaluation.paper import layout_of
from workbench.evaluation.reading import (
    NEEDED,
    VARIANT,
    ModelPredictions,
    joined,
    one_value,
    predictions_of,
    tell_apart,
    traits_of,
)
from workbench.evaluation.significance import compare_pair
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.cache import Cache, digest
from workbench.storage.errors import DataError
from workbench.storage.files import data_home, read_bytes

_VERSION = 2  # of measures and tests that are kept: raised where results or labels change
_KEPT = 20_000  # measures and tests of one setting
_CACHE, _KNOWN = "measures", pa.schema([("key", pa.string()), ("value", pa.string())])
_MEASURED = (
    "n", "n_known", "accuracy", "accuracy_low", "accuracy_high", "interval", "accuracy_known", "perplexity",
    "median_rank", "resampled_by", "n_novels", "signature", "chance", "subset",
)  # fmt: skip
_PUBLISHED = ("published", "source")
_REPORTED = (
    "Published rows are as printed in their sources: on all items, without intervals or tests, and under the "
    "evaluation rules of the source."
)
_AGAINST = ("difference", "difference_low", "difference_high", "n_paired", "p", "p_holm")
_SHOWN = (
    TableColumn("perplexity", "perplexity"),
    TableColumn("median_rank", "rank"),
    with_interval(
        "difference", "points", heading="Difference from the best",
        tooltip="Accuracy minus that of the best model, on the items that both predicted; in brackets the"
        " interval of the paired bootstrap.",
    ),
    TableColumn(
        "p_holm", "p",
        tooltip="Paired test against the best model: McNemar's exact test, or a sign-flip test by novel;"
        " corrected for the number of tests (Holm 1979).",
    ),
)  # fmt: skip
_SCORE_COLUMNS = (
    "dataset", "split", "variant", "word_class", "model", "system", "accuracy", "perplexity", "median_rank",
    "source",
)  # fmt: skip
_TABLES = (  # table, split, variant; a system that an earlier table has is not listed again
    ("lambada", "test", "plain"),
    ("cbt", "test", None),
    ("cbt-variants", "test", None),
    ("cbt", "dev", None),
    ("msrcc", "test", "plain"),
    ("cnnqa", None, "cnn"),
    ("cnnqa-ablation", None, "cnn"),
)


def leaderboard(
    runs: Any = None,
    *,
    dataset: str | None = None,
    split: str | None = None,
    by: str | Sequence[str] = ("dataset", "split", "variant"),
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    published: bool = True,
) -> Table:
    """Rank runs by accuracy, and test each against the best.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these, optional
        What to rank; all stored runs by default, of which damaged ones are left out with a warning. Their
        measures and tests are kept in the cache (``wb.cache()``), for the same files and options.
    dataset, split : str, optional
        Only items of these.
    by : str or sequence of str, default ("dataset", "split", "variant")
        Columns of the predictions, or of one's own that the runs were stored with (see
        :func:`workbench.predict`); each combination of their values has a ranking of its own.
    level, resamples, seed : float, int, int
        Confidence level of the intervals, and number and seed of the bootstrap replicates and of the
        random choices of signs.
    published : bool, default True
        Rank published results (``data/published``) among the runs of the same data sets. Such rows have no
        items: no `n`, no interval, no test. Where a source does not name the variant, the row is in a group
        of its own. They are left out where `by` names a column that only items have, such as ``book_id``.

    Returns
    -------
    Table
        A DataFrame that shows its most important columns in a notebook. One row a group, model and run, the
        best first:

        columns of `by`, `place` (equal accuracies share one; null for a run on a part of the items,
        and where a group has several data sets or splits), `model`, `distinction` (what
        tells the row apart from others of its model, or where it was published), `system`, `run`
        `unit`, `filter`, `vocabulary_size`, `unknown`, `prompt`
            Results that differ here must not be compared blindly.
        `n` ... `signature`, and those of replicates
            As :func:`workbench.evaluation.metrics.evaluate` gives them; accuracies are fractions.
        `difference`, `difference_low`, `difference_high`, `n_paired`
            Accuracy minus that of the best on most items, with the interval of the paired bootstrap, on the
            `n_paired` items that both predicted.
        `p`, `p_holm`
            Of the paired test of :func:`workbench.evaluation.significance.significance` against the
            best; corrected within the group (Holm 1979). They are only a guide, as the best was chosen
            by the same data.
        `published`, `source`
            Whether the row is a published result, and the paper and table that it is from.

        Differences and p are null for the best itself, and where two runs have no item in common.

    Raises
    ------
    DataError
        If a column is missing, or an option makes no sense.

    Examples
    --------
    >>> board = wb.leaderboard(runs)
    >>> board["model"].tolist()
    ['3-gram, Kneser-Ney', 'Random word from passage']
    """
    drawing = Drawing(level, resamples, seed).checked()
    names = list(dict.fromkeys([by] if isinstance(by, str) else by))
    chosen = {"dataset": dataset, "split": split}
    known = _Known(names, chosen, drawing)
    parts = _stored(names, chosen, drawing, known) if runs is None else _passed(
        runs, names, chosen, drawing, known
    )  # fmt: skip
    groups: dict[Group, list[_Part]] = {}
    for part in parts:
        if part.row:
            groups.setdefault(part.group, []).append(part)
    present = {name for group in groups.values() for part in group for name in part.datasets}
    reported = _published(names, chosen, present) if published else {}
    rows: list[dict[str, Any]] = []
    for key in sorted(groups.keys() | reported.keys(), key=lambda key: tuple(map(str, key))):
        ranked = _placed(_ranked(groups.get(key, []), drawing, known), reported.get(key, []))
        rows += [dict(zip(names, key, strict=True)) | row for row in ranked]
    known.save()
    first_names = ("place", "model", "distinction", "system", "run", *VARIANT)
    head = [*names, *(name for name in first_names if name not in names)]
    spread = spread_columns(rows)
    table = typed(pd.DataFrame(rows, columns=[*head, *_MEASURED, *spread, *_AGAINST, *_PUBLISHED]))
    kinds = dict.fromkeys(("place", "n_paired"), "Int64") | {"published": "bool", "source": "str"}
    table = table.astype(dict.fromkeys(_AGAINST, "Float64") | kinds)
    datasets = {name for part in parts for name in part.datasets}
    measured = table[~table["published"]]
    table.attrs["note"] = note(measured, datasets, drawing)
    if len(table) > len(measured):
        table.attrs["note"] += f" {_REPORTED}"
    pairs = zip(table["distinction"], table["source"], strict=True)
    apart = [text if isinstance(text, str) and text else source for text, source in pairs]
    table["distinction"] = pd.Series(apart, index=table.index, dtype="str")
    first = (TableColumn("place", "count"), TableColumn("model", detail="distinction"))
    shown = (*first, *shown_measures(table)[:2], *_SHOWN)
    return Table(table, TableLayout("Models ranked by accuracy", shown, tuple(names), "signature"))


Group = tuple[Any, ...]


@dataclass(frozen=True)
class _Source:
    """Predictions, read once they are needed; `key` digests the files of a stored run."""

    read: Callable[[], list[ModelPredictions]]
    key: str | None = None

    @cached_property
    def models(self) -> list[ModelPredictions]:
        """The predictions of each model and run."""
        return self.read()


@dataclass(frozen=True)
class _Part:
    """What one model and run predicts for a group of items: its measures, and the predictions on demand.

    `row` is empty where no answer is known; `key` tells the predictions apart from all others.
    """

    group: Group
    datasets: list[str]
    row: dict[str, Any]
    key: str | None
    predictions: Callable[[], ModelPredictions]


class _Known:
    """Measures and tests of stored runs that were computed before, in one table of the cache a setting.

    Each has a key that digests the files of the runs that it is of, so it holds for these alone. Writers
    replace the table as a whole: what one of two misses is computed again. Without a cache that can be
    written, everything is computed.
    """

    def __init__(self, names: list[str], chosen: dict[str, str | None], drawing: Drawing) -> None:
        versions = [
            _VERSION,
            _MEASURED,
            metadata.version("lambada-workbench"),
            np.__version__,
            pd.__version__,
        ]
        self._key = digest(json.dumps([versions, names, chosen, drawing], default=str))
        self._earlier: dict[str, str] | None = None
        self._used: dict[str, str] = {}

    def get(self, key: str | None, compute: Callable[[], Any]) -> Any:
        """Return what is known by a key, else what is computed, which is kept; nothing is without a key."""
        if key is None:
            return compute()
        if self._earlier is None:
            self._earlier = self._read()
        text = self._earlier.get(key)
        self._used[key] = json.dumps(compute(), default=_plain) if text is None else text
        return json.loads(self._used[key])

    def save(self) -> None:
        """Keep what is new, and of the rest what was used last."""
        if self._earlier is None or self._used.keys() <= self._earlier.keys():
            return
        rows = list((self._used | self._read() | self._used).items())[:_KEPT]
        keys, values = zip(*rows, strict=True)
        with contextlib.suppress(DataError, OSError):  # a cache that may only be read, or a full disk
            store = Cache(_CACHE)
            store.put(self._key, pa.table([keys, values], schema=_KNOWN))
            store.trim()

    def _read(self) -> dict[str, str]:
        table = None
        with contextlib.suppress(DataError, OSError):
            table = Cache(_CACHE).get(self._key, _KNOWN)
        return {} if table is None else dict(zip(*(column.to_pylist() for column in table), strict=True))


def _plain(value: Any) -> Any:
    return value.item()  # a number of numpy


def _parts(
    source: _Source, names: list[str], chosen: dict[str, str | None], drawing: Drawing, known: _Known
) -> Iterator[_Part]:
    """Measure the predictions of a source by group; of a model without any there is one part for its data."""

    @cache
    def groups() -> dict[Group, list[ModelPredictions]]:
        return _groups(source.models, names, chosen)

    def predictions(group: Group, place: int) -> ModelPredictions:
        return groups()[group][place]

    def measured() -> list[Any]:
        parts: list[Any] = [[[], 0, _datasets(model), {}] for model in source.models]
        for group, models in groups().items():
            for place, model in enumerate(models):
                parts.append([group, place, _datasets(model), _row(model, drawing)])
        return parts

    for values, place, datasets, row in known.get(source.key, measured):
        group = tuple(values)
        key = source.key and digest(source.key, json.dumps([values, place], default=_plain))
        yield _Part(group, datasets, row, key, partial(predictions, group, place))


def _datasets(model: ModelPredictions) -> list[str]:
    return sorted(map(str, model.frame["dataset"].dropna().unique()))


def _row(model: ModelPredictions, drawing: Drawing) -> dict[str, Any]:
    row = {"model": model.model, "system": one_value(model.frame["system"]), "run": model.run}
    variant = {name: one_value(model.frame[name]) for name in VARIANT}
    return row | variant | measure(model.frame, drawing) | {
        "chance": chance_of(model.frame) if is_random(model.frame) else "", "subset": subset_of(model.frame),
        "traits": traits_of(model), "sets": _sets(model.frame),
    }  # fmt: skip


def _sets(frame: pd.DataFrame) -> list[list[str]]:
    """Return the pairs of data set and split that predictions are about."""
    pairs = set(zip(frame["dataset"].fillna(""), frame["split"].fillna(""), strict=True))
    return [list(map(str, pair)) for pair in sorted(pairs)]


def _groups(
    models: list[ModelPredictions], names: list[str], chosen: dict[str, str | None]
) -> dict[Group, list[ModelPredictions]]:
    """Cut predictions into groups, each with a ranking of its own; rows without an answer are left out."""
    groups: dict[Group, list[ModelPredictions]] = {}
    for model in models:
        columns = joined(model, names)
        frame = columns.assign(**{name: None for name in names if name not in columns})
        for column, value in chosen.items():
            frame = frame if value is None else frame[frame[column] == value]
        parts: Any = frame.groupby(names, dropna=False, observed=True) if names else [((), frame)]
        for values, part in parts:
            key = tuple("" if pd.isna(value) else value for value in values)  # nulls do not equal each other
            if part["correct"].notna().any():
                groups.setdefault(key, []).append(replace(model, data=part.reset_index(drop=True)))
    return groups


def _check_names(names: list[str], columns: Iterable[str]) -> None:
    if lacking := [name for name in names if name not in columns]:
        raise DataError(
            f"the predictions have no column {lacking[0]!r} to group by",
            remedy="a column of one's own is stored when its items are predicted: wb.predict(items, model)",
        )


def _passed(
    runs: Any, names: list[str], chosen: dict[str, str | None], drawing: Drawing, known: _Known
) -> list[_Part]:
    source = _Source(lambda: predictions_of(runs, pool=True))
    if source.models:
        _check_names(names, {str(name) for model in source.models for name in joined(model, names)})
    return list(_parts(source, names, chosen, drawing, known))


def _stored(names: list[str], chosen: dict[str, str | None], drawing: Drawing, known: _Known) -> list[_Part]:
    """Measure all stored runs, without their long columns; of one that is known no predictions are read.

    A damaged run is left out, with a warning that names it.
    """
    from workbench.runs import store  # noqa: PLC0415 - imported by the runs' users only

    def read(name: str) -> list[ModelPredictions]:
        run = store.find_run(name)
        frame = run.table.select(NEEDED).to_pandas().assign(run=name)
        return [replace(model, info=run.info) for model in predictions_of(frame, pool=True)]

    home = data_home() / "runs"
    parts: list[_Part] = []
    columns = set(NEEDED)
    joins = not columns.issuperset(names)
    for name in store.runs()["run"]:
        try:
            files = [store.INFO, store.TABLE]
            if joins and (home / name / store.COLUMNS).exists():
                files.append(store.COLUMNS)
                columns.update(map(str, store.item_columns(home / name)))
            contents = [read_bytes(home / name / file, "this run") for file in files]
            source = _Source(partial(read, name), digest(name, *contents))
            parts += _parts(source, names, chosen, drawing, known)
        except DataError as error:
            warnings.warn(f"the run {name!r} is left out: {error}", stacklevel=3)
    _check_names(names, columns)
    return parts


def _ranked(group: list[_Part], drawing: Drawing, known: _Known) -> list[dict[str, Any]]:
    """Sort the measures of one group and compare each of its runs with the best of those on most items."""
    group = sorted(
        group,
        key=lambda part: (
            -part.row["accuracy"], part.row.get("perplexity", np.inf), part.row["model"], part.row["run"]
        ),
    )  # fmt: skip
    most = max((part.row["n"] for part in group), default=0)
    best = next((part for part in group if part.row["n"] == most), None)
    rows: list[dict[str, Any]] = []
    for part in group:
        against = {} if best is None or part is best else _against(part, best, drawing, known)
        rows.append(part.row | against | {"published": False})
    names, traits = [row["model"] for row in rows], [row["traits"] for row in rows]
    for row, distinction in zip(rows, tell_apart(names, traits), strict=True):
        row["distinction"] = distinction
    for row, corrected in zip(rows, holm([row.get("p", np.nan) for row in rows]), strict=True):
        row["p_holm"] = corrected
    return rows


def _published(
    names: list[str], chosen: dict[str, str | None], present: set[str]
) -> dict[Group, list[dict[str, Any]]]:
    """Return what others report, by group; nothing where groups are by what only items have."""
    if set(names) - set(_SCORE_COLUMNS):
        return {}
    table = published_scores()
    for column, value in chosen.items():
        table = table if value is None else table[table[column] == value]
    if present:
        table = table[table["dataset"].isin(present)]
    reported: dict[Group, list[dict[str, Any]]] = {}
    for record in table.to_dict("records"):
        row = {str(name): value for name, value in record.items() if not pd.isna(value)}
        key = tuple(row.get(name, "") for name in names)
        reported.setdefault(key, []).append(row | {"published": True})
    return reported


def _placed(ranked: list[dict[str, Any]], reported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sort measured and reported rows into one ranking; of equal ones, which share a place, ours first.

    A run on a part of the items has no place among those on more, or on all as reported ones are; rows of
    several data sets or splits have none at all.
    """
    sets = {tuple(pair) for row in ranked for pair in row["sets"]}
    mixed = len(sets | {(row["dataset"], row["split"]) for row in reported}) > 1
    most = max((row["n"] for row in ranked), default=0)
    reported = sorted(reported, key=lambda row: (row.get("perplexity", np.inf), row["model"]))
    rows = sorted([*ranked, *reported], key=lambda row: -row["accuracy"])  # stable
    placed: list[dict[str, Any]] = []
    for row in rows:
        part = mixed or (not row["published"] and (row["n"] < most or bool(reported and row["subset"])))
        equal = placed and row["accuracy"] == placed[-1]["accuracy"]
        row["place"] = None if part else placed[-1]["place"] if equal else len(placed) + 1
        placed += [] if part else [row]
    return rows


def _against(part: _Part, best: _Part, drawing: Drawing, known: _Known) -> dict[str, Any]:
    """Test a model against the best; nothing where they have no item in common."""

    def compared() -> dict[str, Any]:
        sides = part.predictions(), best.predictions()
        ids = [side.frame["item_id"][side.frame["correct"].notna()] for side in sides]
        if not ids[0].isin(ids[1]).any():
            return {}
        result = compare_pair(*sides, drawing)
        return {
            "difference": result.difference,
            "difference_low": result.interval[0],
            "difference_high": result.interval[1],
            "n_paired": result.n,
            "p": result.p_value,
        }

    key = digest(part.key, best.key) if part.key and best.key else None
    result: dict[str, Any] = known.get(key, compared)
    return result


@cache
def published_scores() -> pd.DataFrame:
    """Return every published score of ``data/published``, one row a system, split and word class.

    Accuracy is a fraction, and ``variant`` null where the source does not name it. Anonymised tables are left
    out: those are other items. One frame serves all callers: do not change it.
    """
    rows = [*_tables(), *_later()]
    texts = dict.fromkeys(("dataset", "split", "variant", "word_class", "model", "system", "source"), "str")
    numbers = dict.fromkeys(("accuracy", "perplexity", "median_rank"), "Float64")
    return pd.DataFrame(rows, columns=list(_SCORE_COLUMNS)).astype(texts | numbers)


def _reported_row(dataset: str, split: str, system: str, source: str, **columns: Any) -> dict[str, Any]:
    return {"dataset": dataset, "split": split, "model": system, "system": system, "source": source} | columns


def _tables() -> Iterable[dict[str, Any]]:
    """Return the scores of the papers' tables; a Children's Book Test question's variant is its class."""
    rows: dict[tuple[str, str, str | None, str], dict[str, Any]] = {}
    listed: set[tuple[str, str, str]] = set()
    for name, split, variant in _TABLES:
        layout = layout_of(name, split, set())
        source = layout.title.partition("(")[2].removesuffix(")")
        cells = [
            (column, system, text) for column in layout.columns for system, text in column.printed.items()
        ]
        for column, system, text in cells:
            if (layout.dataset, column.split, system) in listed:
                continue
            row = _reported_row(layout.dataset, column.split, system, source,
                       variant=column.word_class or variant, word_class=column.word_class)  # fmt: skip
            row = rows.setdefault((layout.dataset, column.split, column.word_class, system), row)
            row[column.measure] = _number(text, 100 if column.unit == "percent" else 1)
        listed |= {(layout.dataset, column.split, system) for column, system, _ in cells}
    return rows.values()


def _later() -> Iterator[dict[str, Any]]:
    for row in papers.published_table("later_results").to_dict("records"):
        yield _reported_row(
            *(row[name] for name in ("dataset", "split", "system", "source")),
            variant=row["variant"] or None,
            word_class=row["word_class"] or None,
            accuracy=_number(row["accuracy_percent"], 100),
            perplexity=_number(row["perplexity"]),
        )


def _number(text: str, scale: float = 1) -> float | None:
    """Return a printed number; None for an empty cell."""
    value = papers.parse_value(text).about if text.strip() else None
    return None if value is None else round(value / scale, 10)
