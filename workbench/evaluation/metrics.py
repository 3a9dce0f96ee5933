"""Accuracy, perplexity and median rank with their intervals, by any column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.datasets.published import released_size
from workbench.evaluation import bootstrap
from workbench.evaluation.bootstrap import BootstrapSettings, Floats, Mask, Units
from workbench.evaluation.minimal_pairs import OVER_SETS, measures_over_sets
from workbench.evaluation.model_predictions import (
    BY_SEED,
    by_seed,
    columns_read,
    distinctions,
    floats,
    is_uncorrected,
    labels,
    predictions_of,
    source_of,
)
from workbench.evaluation.slices import check_group_names, grouped, joined
from workbench.evaluation.table_notes import (
    asked_items,
    shared_notes,
    training_note,
    units_note,
    unknown_note,
)
from workbench.items.items import Items, check_items
from workbench.items.language import language, languages_of
from workbench.predictions import measures
from workbench.predictions.schema import frame_of_answers, mid_ranks
from workbench.predictions.signature import signature_of
from workbench.render.numbers import percent
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError, check_option

_WHOLE = {"dataset", "split", "variant", "word_class", "language"}  # their groups are sets of their own
_INTS = ("n", "n_known", "n_perplexity", "n_tied_items", "n_novels", "n_sets", "n_seeds")
_FLOATS = (*(name for measure in measures.MEASURES for name in measure.columns), OVER_SETS)
_SPREADS = ("seed_sd", "seed_min", "seed_max")
_AT_ONCE = 2_000_000  # items of models that are resampled at once
_BESIDE = {"accuracy": ("interval",), "median_rank": ("n_tied_items",)}  # columns after those of a measure
METRIC_COLUMNS = tuple(dict.fromkeys((
    "n", "n_known",
    *(name
      for each in measures.MEASURES
      for name in (*filter(None, [each.count]), *each.columns, *_BESIDE.get(each.name, ()))),
    "share_in_training", "resampled_by", "n_novels", "signature",
)))  # fmt: skip
"""Columns that `measure` gives."""

SPREAD = ("n_seeds", *_SPREADS, "spread")
"""Columns that `measure` gives of replicates too."""

_REMARKS = ("chance", "subset")


def evaluate(
    runs: Any = None,
    *,
    predictions: Sequence[Any] | None = None,
    answers: Sequence[Any] | None = None,
    by: str | Sequence[str] | None = None,
    items: Items | None = None,
    annotations: Items | pd.DataFrame | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> Table:
    """Measure how good predictions are.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these
        Runs, frames of predictions, or names of stored runs.
    predictions, answers : sequence of str, optional
        Two lists of equal length in place of runs: predicted words and right ones. A prediction is right by
        :func:`workbench.predictions.schema.same_word`; None is a wrong one.
    by : str or sequence of str, optional
        Columns to group the items by: of the predictions (``word_class``, ``known``, ``book_id``), of
        `annotations` (``target_class``, ``direct_speech``), or custom ones (``items.extra``). A stored run
        knows the latter: see :func:`workbench.predict`; it may not have the name of a column of the results
        or of the predictions. Items of several languages are always measured apart:
        without ``variant`` or ``language`` among the columns, the latter is added.
    items : Items, optional
        What the predictions are about.
    annotations : DataFrame or Items, optional
        From ``wb.annotate``, or any frame with ``item_id`` as a column or the index.
    level, resamples, seed : float, int, int
        Confidence level, number of replicates and seed of the bootstrap intervals.

    Returns
    -------
    Table
        A DataFrame that shows its most important columns in a notebook. One row per model and run, or one for
        each of their groups. Null: not known.

        `model`, `run`, and the columns of `by`
            What the row is about; between them, where models have the same name, the columns in which they
            differ: of the variant, options of the model, seed.
        `n`, `n_known`, `n_tied_items`
            Items with an answer; those whose answer is in the model's vocabulary, or shares its rank.
        `accuracy`, `accuracy_low`, `accuracy_high`
            Fraction of right answers, from 0 to 1; ties were broken by the seed of the predictions.
        `interval`
            How the accuracies' intervals were made: ``bootstrap by novel``, or ``Wilson`` (over items;
            Wilson 1927) where an item names no novel, there is one novel, or all outcomes are equal.
        `expected_accuracy`
            Mean of ``p_correct``: the accuracy that breaking ties gives on average.
        `accuracy_known`, `accuracy_known_low`, `accuracy_known_high`
            Of the `n_known` items only.
        `n_perplexity`, `perplexity`, `perplexity_low`, `perplexity_high`
            exp(-mean ln p) per target word over the `n_perplexity` items whose answer has a
            log-probability (Paperno et al. 2016, section 4). Infinite where one answer has
            probability 0; null for models that give scores, and for logs of lm-evaluation-harness.
        `perplexity_uncorrected`, `perplexity_uncorrected_low`, `perplexity_uncorrected_high`
            The same by the answer's sub-tokens alone, whatever follows them, as lm-evaluation-harness has it:
            lower than `perplexity`, and not to be compared with it. Null for models of whole words.
        `median_rank`, `median_rank_low`, `median_rank_high`
            Median over items of the mid-rank of the answer: its rank + (number tied with it - 1) / 2.
        other measures
            Those of :data:`workbench.predictions.measures.MEASURES`, with the bounds of their intervals.
        `share_in_training`
            Fraction of these items whose whole passages stand in the texts that the model was fitted on;
            a warning under the table says where it is above 0.
        `resampled_by`, `n_novels`
            ``novel`` where every item of the group has a ``book_id``, else ``item``; ``set`` for several sets
            of minimal pairs.
        `accuracy_over_sets`, `n_sets`
            Of minimal pairs (:func:`workbench.score_pairs`): the mean over sets of the accuracy of each set,
            beside `accuracy`, the mean over pairs.
        `signature`
            What was measured, and how: items, `n`, the columns that name the variant, intervals, version.

        Of :func:`workbench.evaluation.replicates.replicates` all measures are of the items' means over the
        seeds, and the interval of the accuracy is ``bootstrap by item`` or by novel. Then there are the
        columns `n_seeds`, `seed_sd` (standard deviation of the accuracy between seeds, with n - 1),
        `seed_min`, `seed_max`, and `spread`, which says this in words.

        All other intervals are percentile bootstrap intervals. ``.attrs["note"]`` says where they may be too
        narrow; ``.attrs["warnings"]`` names runs that are on other items of a split, or had other candidates
        for the same ones.

    Examples
    --------
    >>> table = wb.evaluate(runs, by="split")
    >>> table[["model", "n"]].values.tolist()
    [['Random word from passage', 30], ['3-gram, Kneser-Ney', 30]]
    >>> wb.evaluate(predictions=["lamp", "gate"], answers=["lamp", "goat"])["accuracy"].tolist()
    [0.5]
    """
    check_items(items, "evaluate", optional=True)
    are_lists = predictions is not None or answers is not None
    if are_lists:
        if runs is not None:
            raise DataError("got runs and lists", hint="pass runs, or predictions= and answers=")
        runs = frame_of_lists(predictions, answers)
    sampling = BootstrapSettings(level, resamples, seed).checked()
    names = list(dict.fromkeys([by] if isinstance(by, str) else by or ()))
    check_group_names(names, {*METRIC_COLUMNS, *SPREAD, *_REMARKS})
    rows: list[dict[str, Any]] = []
    over_sets: list[dict[str, Any]] = []
    models = predictions_of(runs, items, pool=True, columns=columns_read(names))
    counts: dict[str, tuple[int, int]] = {}
    names_of_models, apart = labels(models), distinctions(models)
    apart = apart.drop(columns=[*names, *METRIC_COLUMNS, *SPREAD, *_REMARKS], errors="ignore")
    if not {"variant", "language"} & {*names} and any(map(_has_several_languages, models)):
        names.append("language")

    def frames() -> Iterator[pd.DataFrame]:
        """Yield the groups of each model in turn."""
        traits_of_models: Any = apart.to_dict("records")
        for label, frame_of_model, traits in zip(names_of_models, models, traits_of_models, strict=True):
            source = source_of(frame_of_model)
            frame = joined(frame_of_model, names, items, annotations)
            if "language" in names and "language" not in frame:
                frame["language"] = frame["variant"].map(language)
            in_training, is_asked = frame["in_training"], frame["correct"].notna()
            counts[label] = int(in_training[is_asked].sum()), int(is_asked.sum())
            head = {"model": source.model, "run": source.run, **traits}
            random = is_random(frame)
            for group, members in _groups(frame, names):
                subset = subset_of(members) if _WHOLE.issuperset(names) else ""
                chance = chance_text(members["p_correct"].mean()) if random else ""
                over_sets.append(measures_over_sets(members))
                rows.append(head | group | {"chance": chance, "subset": subset} | over_sets[-1])
                yield members

    measured_rows = measure_all(frames(), sampling)
    rows = [row | measured for row, measured in zip(rows, measured_rows, strict=True)]
    columns = [name for name in dict.fromkeys(("model", "run", *apart.columns)) if name not in names] + names
    are_pairs = any(over_sets)
    columns += [
        *METRIC_COLUMNS,
        *([OVER_SETS, "n_sets"] if are_pairs else []),
        *_REMARKS,
        *spread_columns(rows),
    ]
    table = typed(pd.DataFrame(rows, columns=columns))
    table[apart.columns] = table[apart.columns].convert_dtypes()
    asked = [asked_items(frame, label) for frame, label in zip(models, names_of_models, strict=True)]
    warnings = [*training_note(counts), *shared_notes(asked), *unknown_note(unknown_shares(table, names))]
    warnings += dict.fromkeys(note for frame in models for note in source_of(frame).notes)
    table.attrs |= {"note": [] if are_lists else interval_notes(table), "warnings": warnings}
    groups = (_group_column(table[name]) for name in [*apart.columns, *names] if name != "model")
    measures_shown = shown_over_sets(table) if are_pairs else shown_measures(table)
    title = "Accuracy on minimal pairs" if are_pairs else "Accuracy, perplexity and median rank"
    layout = (TableColumn("model"), *groups, *measures_shown)
    return Table(table, TableLayout(title, layout, signature="signature"))


def frame_of_lists(predictions: Sequence[Any] | None, answers: Sequence[Any] | None) -> pd.DataFrame:
    """Return predictions made of two lists; DataError if one is missing or they are of different lengths."""
    if predictions is None or answers is None or isinstance(predictions, str) or isinstance(answers, str):
        raise DataError("expected two lists", hint="pass predictions=[...] and answers=[...]")
    words, right = list(predictions), list(answers)
    if len(words) != len(right) or not right:
        problem = f"expected as many predictions as answers, got {len(words):,} and {len(right):,}"
        raise DataError(problem, hint="pass one prediction per answer; None where there is none")
    if bad := [n for n, word in enumerate(right) if not isinstance(word, str) or not word.strip()]:
        raise DataError(f"the answer {bad[0] + 1} is no word: {right[bad[0]]!r:.80}", hint="leave it out")
    names = {"dataset": "lists", "split": "test", "variant": "plain"}
    asked = pd.DataFrame({"item_id": [f"{n:06}" for n in range(len(right))], **names, "answer": right})
    asked = asked.assign(word_class=None, book_id=None, candidates=None)
    columns = {"model": "predictions", "score_type": "score", "log_prob": np.nan}
    return frame_of_answers(asked, words, columns, {})


def _has_several_languages(frame: pd.DataFrame) -> bool:
    return len(languages_of(frame["variant"].dropna().unique().tolist())) > 1


def spread_columns(rows: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the columns `SPREAD` if a row of measures is of replicates."""
    return SPREAD if any("n_seeds" in row for row in rows) else ()


def shown_over_sets(table: pd.DataFrame) -> tuple[TableColumn, ...]:
    """Return the measures of minimal pairs as tables show them; those over sets where a row has several."""
    several = (table["n_sets"] > 1).any()
    over_sets = (TableColumn(OVER_SETS, "share"), TableColumn("n_sets", "count")) if several else ()
    return (TableColumn("n", "count"), with_interval("accuracy", "share"), *over_sets)


def _has_text(table: pd.DataFrame, name: str) -> bool:
    return name in table and any(isinstance(text, str) and text for text in table[name])


def shown_measures(table: pd.DataFrame) -> tuple[TableColumn, ...]:
    """Return the measures as tables show them; the items of the perplexity where they are not all."""
    fewer = "n_perplexity" in table and (table["n_perplexity"].fillna(0) % table["n"] > 0).any()
    beside = "spread" if "spread" in table else "chance" if _has_text(table, "chance") else ""
    return (
        TableColumn("n", "count", detail="subset" if _has_text(table, "subset") else ""),
        *(
            with_interval(each.name, each.format, detail=beside if each.name == "accuracy" else "")
            for each in measures.MEASURES
            if each.in_tables or (each.name == "perplexity_uncorrected" and _only_uncorrected(table))
        ),
        *([TableColumn("n_perplexity", "count")] if fewer else ()),
    )


def _only_uncorrected(table: pd.DataFrame) -> bool:
    """Return whether a row has a perplexity of sub-tokens alone."""
    name = "perplexity_uncorrected"
    return name in table and bool((table[name].notna() & table["perplexity"].isna()).any())


def _group_column(values: pd.Series[Any]) -> TableColumn:
    return TableColumn(str(values.name), "number" if pd.api.types.is_numeric_dtype(values) else "text")


def _groups(frame: pd.DataFrame, names: list[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    if not names:
        yield {}, frame
        return
    for name in names:
        check_option("by", name, [*map(str, frame.columns)])
    for values, members in grouped(frame, names):
        yield dict(zip(names, values, strict=True)), members


def measured_columns(
    values: Mapping[str, Floats],
    replicates: Mapping[str, Floats] | None,
    units: Units,
    sampling: BootstrapSettings,
    *,
    several: Mask,
) -> dict[str, Any]:
    """Return the measures of m models with the bounds of their intervals, (m,) each.

    `values` (m, n) are the quantities of the measures; those of missing ones are left out. `replicates`
    (resamples, m) are as :func:`resampled` gives them, without them there are no bounds. `several` (m,) tells
    whether the accuracy of a model is the mean over replicates.
    """
    columns: dict[str, Any] = {}
    for each in measures.MEASURES:
        if (quantity := values.get(each.quantity)) is None:
            continue
        if each.count:
            columns[each.count] = (~np.isnan(quantity)).sum(axis=1)
        columns[each.name] = each.values(quantity)
        if not each.interval or replicates is None:
            continue
        low, high = np.full((2, len(quantity)), np.nan)
        if each.quantity in replicates:
            low, high = bootstrap.intervals(replicates[each.quantity], sampling.level, units.number)
        if each.interval == "share":
            drawn = is_resampled(quantity, units, several)
            n = (~np.isnan(quantity)).sum(axis=1)
            exact = wilson(np.nansum(quantity, axis=1), n, level=sampling.level)
            low, high = (np.where(drawn, *both) for both in zip((low, high), exact, strict=True))
        columns |= dict(zip(each.columns[1:], each.bounds(low, high), strict=True))
        if each.name == "accuracy":
            columns["interval"] = np.where(drawn, f"bootstrap by {units.by}", "Wilson")
    return columns


def resampled(
    values: Mapping[str, Floats], units: Units, sampling: BootstrapSettings, *, several: Mask
) -> dict[str, Floats]:
    """Return bootstrap replicates (resamples, m) of the means or medians of quantities (m, n), by name.

    Left out are those without an interval, and shares of which Wilson's is shown.
    """
    return _resampled_all([(values, several)], units, sampling)[0]


def _resampled_all(
    models: Sequence[tuple[Mapping[str, Floats], Mask]], units: Units, sampling: BootstrapSettings
) -> list[dict[str, Floats]]:
    """Return the results of `resampled` for several `values` and `several`; the units are drawn once."""
    replicates: list[dict[str, Floats]] = [{} for _ in models]
    statistics = [_resampled_statistics(values, units, several) for values, several in models]
    indices = [index for index, names in enumerate(statistics) if names]
    rows = []
    for index in indices:
        values, names = models[index][0], statistics[index]
        stacked = np.concatenate([values[name] for name in names])
        first = sum(len(values[name]) for name in names if names[name] == "mean")
        rows.append((stacked[:first], stacked[first:]))
    drawn = bootstrap.resample_all(rows, units, *sampling[1:]) if rows else []
    for index, (means, medians) in zip(indices, drawn, strict=True):
        columns, values = iter([*means.T, *medians.T]), models[index][0]
        replicates[index] = {
            name: np.column_stack([next(columns) for _ in values[name]]) for name in statistics[index]
        }
    return replicates


def _resampled_statistics(values: Mapping[str, Floats], units: Units, several: Mask) -> dict[str, str]:
    """Return the statistic of each quantity that is resampled, means first."""
    chosen = {
        each.quantity: each.statistic
        for each in measures.MEASURES
        if each.quantity in values
        and (each.interval == "bootstrap" or
             (each.interval == "share" and is_resampled(values[each.quantity], units, several).any()))
    }  # fmt: skip
    return {name: chosen[name] for name in sorted(chosen, key=lambda name: chosen[name] == "median")}


def is_resampled(shares: Floats, units: Units, several: Mask) -> Mask:
    """Return the models (m,) with resampled intervals of the share of right answers (m, n).

    Resampling says nothing where all outcomes are equal, or there is one unit; Wilson's interval is over
    items, so it is not of novels, nor of means over replicates (`several`).
    """
    accuracy = measures.Accuracy().values(shares)
    is_open: Mask = (accuracy > 0) & (accuracy < 1)
    return is_open & (several | (units.by != "item")) & (units.number > 1)


def measure(frame: pd.DataFrame, sampling: BootstrapSettings) -> dict[str, Any]:
    """Return the measures that :func:`evaluate` describes, of the predictions (n,) of one model."""
    [row] = measure_all([frame], sampling)
    return row


@dataclass(frozen=True)
class _Quantities:
    """Quantities (n,) of one model's items that have some values, and the columns that draw nothing."""

    quantities: dict[str, Floats]
    units: Units
    several: bool  # whether what is right is the mean over replicates
    row: dict[str, Any]

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, sampling: BootstrapSettings) -> _Quantities:
        """Take the quantities from predictions."""
        frame = frame[frame["correct"].notna()]
        units = bootstrap.units(frame["book_id"])
        seeds = by_seed(frame)
        correct, several = seeds.mean(axis=1), seeds.shape[1] > 1
        in_vocabulary = frame["known"].fillna(value=False).to_numpy(dtype=bool)
        log_prob = floats(frame["log_prob"].where(frame["score_type"] == "log_prob"))
        sources = {
            "correct": correct, "known": in_vocabulary.astype(float),
            "p_correct": floats(frame["p_correct"]), "log_prob": log_prob,
            "log_prob_uncorrected": floats(frame["log_prob_uncorrected"]),
            "mid_rank": mid_ranks(frame["rank"], frame["n_tied"]),
        }  # fmt: skip
        if is_uncorrected(log_prob, sources["log_prob_uncorrected"]):
            del sources["log_prob"]
        quantities = measures.item_quantities(sources)
        values = {name: column for name, column in quantities.items() if not np.isnan(column).all()}
        read = frame["in_training"]
        is_known = read.any() or (len(read) and read.notna().all())
        row: dict[str, Any] = {
            "n": len(frame),
            "n_known": int(in_vocabulary.sum()),
            "resampled_by": units.by,
            "n_novels": units.number if units.by != "item" else None,
            "n_perplexity": int((~np.isnan(log_prob)).sum()),
            "n_tied_items": int((frame["n_tied"].fillna(1) > 1).sum()) if "mid_rank" in values else 0,
            "share_in_training": float(read.sum()) / len(read) if is_known else None,
            "signature": signature_of(frame, *sampling),
        }
        return cls(values, units, several, row | (spread(seeds) if several else {}))

    def measured(self, replicates: Mapping[str, Floats], sampling: BootstrapSettings) -> dict[str, Any]:
        """Return all columns; `replicates` (resamples, 1) of the quantities are from `resampled`."""
        values = {name: column[None] for name, column in self.quantities.items()}
        several = np.array([self.several])
        columns = measured_columns(values, replicates, self.units, sampling, several=several)
        row = {name: column.item() for name, column in columns.items() if not pd.isna(column[0])}
        return {"interval": "Wilson"} | row | self.row


def measure_all(frames: Iterable[pd.DataFrame], sampling: BootstrapSettings) -> list[dict[str, Any]]:
    """Return the measures of the predictions of several models, one after the other; see `measure`.

    Models with the same units are resampled at once, as the draws take most of the time.
    """
    rows: list[dict[str, Any]] = []
    held: list[_Quantities] = []
    for frame in frames:
        held.append(_Quantities.from_frame(frame, sampling))
        if sum(each.row["n"] for each in held) >= _AT_ONCE:
            rows += _measured(held, sampling)
            held = []
    return rows + _measured(held, sampling)


def _measured(models: Sequence[_Quantities], sampling: BootstrapSettings) -> list[dict[str, Any]]:
    """Measure models, those with the same units at once."""
    alike: dict[Any, list[int]] = {}
    for index, model in enumerate(models):
        codes = model.units.codes.tobytes() if model.units.by != "item" else b""
        alike.setdefault((model.units.by, model.units.number, codes), []).append(index)
    rows: list[dict[str, Any]] = [{} for _ in models]
    for indices in alike.values():
        quantities = [
            ({name: column[None] for name, column in models[index].quantities.items()},
             np.array([models[index].several]))
            for index in indices
        ]  # fmt: skip
        drawn = _resampled_all(quantities, models[indices[0]].units, sampling)
        for index, replicates in zip(indices, drawn, strict=True):
            rows[index] = models[index].measured(replicates, sampling)
    return rows


def is_random(frame: pd.DataFrame) -> bool:
    """Return whether predictions of one run (n,) are from a random baseline.

    It may draw several words for the answers that it can predict: none is certain to be right, nor wrong, for
    all of them. Means over seeds are of no one draw.
    """
    in_vocabulary = frame["known"].fillna(value=False).to_numpy(dtype=bool)
    return BY_SEED not in frame and are_draws(floats(frame["p_correct"])[in_vocabulary])


def are_draws(p: Floats) -> bool:
    """Return whether probabilities of being right (n,), of predictable answers, are of a draw."""
    return len(p) > 0 and bool((p > 0).all() and (p < 1).any())


def chance_text(p: float) -> str:
    """Return the expected accuracy of a random baseline, a share, in words."""
    return f"{percent(p)} expected"


def subset_of(frame: pd.DataFrame) -> str:
    """Return the size of a released split that predictions (n,) cover partly, in words: ``of 4,869``."""
    splits = frame[["dataset", "split"]].drop_duplicates().to_numpy().tolist()
    if len(splits) != 1:
        return ""
    [(dataset, split)] = splits
    classes = frame["word_class"].dropna().unique() if dataset == "cbt" else ()
    size = released_size(str(dataset), str(split), map(str, classes))
    return f"of {size:,}" if size and len(frame) < size else ""


def spread(seeds: npt.NDArray[np.bool_]) -> dict[str, Any]:
    """Return the columns `SPREAD` of replicates that are right on items or not, (n, replicates)."""
    accuracies = seeds.mean(axis=0) if len(seeds) else np.full(seeds.shape[1], np.nan)
    sd, k = float(accuracies.std(ddof=1)), len(accuracies)
    return {
        "n_seeds": k,
        "seed_sd": sd,
        "seed_min": float(accuracies.min()),
        "seed_max": float(accuracies.max()),
        "spread": f"± {percent(sd, unit=False)} between {k} seeds" if len(seeds) else None,
    }


def typed(table: pd.DataFrame) -> pd.DataFrame:
    """Convert the columns of `measure` to nullable types."""
    numbers = (*_FLOATS, *_SPREADS, "share_in_training")
    dtypes = dict.fromkeys(_INTS, "Int64") | dict.fromkeys(numbers, "Float64")
    dtypes |= dict.fromkeys(("interval", "resampled_by", "spread"), "str")
    return table.astype({name: dtype for name, dtype in dtypes.items() if name in table.columns})


def interval_notes(table: pd.DataFrame) -> list[str]:
    """Return the notes on intervals of a table of measures that may be too narrow."""
    notes: list[str] = []
    table = table[table.get("n_sets", pd.Series(0, table.index)).fillna(0) != 1]  # one set has no others
    for by, rows in table.groupby("resampled_by", sort=True):
        number = int(rows["n_novels"].min()) if by != "item" else 0
        is_low = bool((rows["accuracy"] < bootstrap.LOW_ACCURACY).any())
        is_few = number < bootstrap.FEW or (number <= bootstrap.FEW_AT_LOW_ACCURACY and is_low)
        notes += units_note(str(by), number, is_few=is_few)
    return notes


def unknown_shares(table: pd.DataFrame, names: Sequence[str]) -> dict[str, float]:
    """Return the share of answers that models cannot predict, for a table of measures by `names`.

    It is the greatest of the rows of a model and group. Left out are rows where nothing is known of the
    answers, as of some runs that were imported, and groups by ``known``.
    """
    groups = [name for name in names if name != "model" and len(table[name].unique()) > 1]
    shares: dict[str, float] = {}
    for row in table.to_dict("records") if "known" not in names else ():
        label = ", ".join(str(row[name]) for name in ("model", *groups) if not pd.isna(row[name]))
        if row["n_known"]:
            shares[label] = max(shares.get(label, 0.0), 1 - row["n_known"] / row["n"])
    return shares
