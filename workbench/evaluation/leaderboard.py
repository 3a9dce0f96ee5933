"""All runs of the store, ranked by protocol, beside the scores that others published."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from workbench.analysis.proportions import benjamini_hochberg, holm
from workbench.datasets import published as papers
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.metrics import (
    SPREAD,
    interval_notes,
    shown_measures,
    spread_columns,
    typed,
    unknown_shares,
)
from workbench.evaluation.model_predictions import differing, protocol_of
from workbench.evaluation.paper import layout_of
from workbench.evaluation.run_measures import MEASURED, SETS, Group, MeasuredRun, RunMeasures, same_items
from workbench.evaluation.slices import check_group_names
from workbench.evaluation.table_notes import languages_note, training_note, unknown_note
from workbench.items.items import Items, check_items
from workbench.items.language import ENGLISH
from workbench.predictions.signature import VARIANT
from workbench.render.results import Table, TableColumn, TableLayout, with_interval

_PUBLISHED = ("published", "source")
_AGAINST = ("difference", "difference_low", "difference_high", "mde", "n_paired", "p", "p_holm", "p_fdr_bh")
_SHOWN = (
    with_interval(
        "difference", "points", heading="Difference from the best",
        tooltip="Accuracy minus that of the best model, on the items that both predicted; in brackets the"
        " interval, not corrected for the number of tests.",
    ),
    TableColumn("n_paired", "count"),
    TableColumn("mde", "unsigned points"),
    TableColumn(
        "p_holm", "p",
        tooltip="Paired test against the best model: McNemar's exact test, a sign-flip test by novel, or a"
        " t test of several seeds; corrected for the number of tests (Holm 1979).",
    ),
)  # fmt: skip
_SCORE_COLUMNS = (
    "dataset", "split", "variant", "word_class", "model", "system", "accuracy", "perplexity", "median_rank",
    "source", "unit", "filter", "prompt", "bos", "detokenised",
)  # fmt: skip
_OWN_COLUMNS = {
    *MEASURED, *SPREAD, *_AGAINST, *_PUBLISHED, "place", "protocol", "traits", "sets",
    "item_ids", "in_contest",
}  # fmt: skip
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
    by: str | Sequence[str] = SETS,
    items: Items | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    published: bool = True,
) -> Table:
    """Rank runs of one protocol by accuracy, and test each against the best of them.

    Results that were counted by another protocol (another unit, filter or prompt, detokenised texts) have a
    ranking of their own, headed by it.

    Parameters
    ----------
    runs : Run, DataFrame or str, or several of these, optional
        What to rank; by default all of ``wb.runs()``: a damaged one is left out with a warning. Their
        measures and tests are cached (``wb.cache()``), for the same predictions and options.
    dataset, split : str, optional
        Only items of these.
    by : str or sequence of str, default ("dataset", "split", "variant")
        Columns of the predictions, or custom columns that the runs were stored with (see
        :func:`workbench.predict`) under a name that neither results nor predictions have; each combination of
        their values and of the protocols has a ranking of its own.
    items : Items, optional
        What the predictions are about, for frames with ``item_id``, ``model`` and ``prediction`` alone.
    level, resamples, seed : float, int, int
        Confidence level of the intervals, and number and seed of the bootstrap replicates and of the
        random choices of signs.
    published : bool, default True
        Rank published results (``data/published``) of the groups of the runs too; without any run, all of
        them. They stand after the runs, folded in a notebook. Such rows have no items: no `n`, no interval,
        no test. They are left out where `by` names a column that only items have, such as ``book_id``.

    Returns
    -------
    Table
        A DataFrame that shows its most important columns in a notebook. One row per group, model and run, the
        best first, then published results:

        columns of `by`, `protocol`, `place`, `model`, `system`, `run`
            Places are within the largest set of runs that have identical items with the same candidates;
            equal accuracies share one. It is null for the other runs, for published rows where the places are
            on a part of the items, and where a group has several data sets or splits. Two runs or more come
            before a single one, then the set on more items, then that of more runs; no run has a place where
            two sets are equal in this. Where models of a ranking have the same name, the columns in which
            they differ follow: options of the model, seed.
        `unit`, `filter`, `vocabulary_size`, `unknown`, `prompt`, `bos`
            Results that differ here must not be compared blindly.
        `n` ... `signature`, and those of replicates
            As :func:`workbench.evaluation.metrics.evaluate` gives them; accuracies are fractions.
        `difference`, `difference_low`, `difference_high`, `n_paired`
            Accuracy minus that of the best with a place (else of the best on most items), with its
            interval, on the `n_paired` items that both predicted.
        `mde`
            Smallest detectable difference (minimum detectable effect): the least true one that this test,
            not corrected, finds with a power of 80 %.
        `p`, `p_holm`, `p_fdr_bh`
            Of the paired test of :func:`workbench.evaluation.significance.significance` against the
            best; corrected within the group (Holm 1979; false discovery rate, Benjamini and Hochberg 1995).
            The table shows `p_holm`.
            They are only a guide, as the best was chosen by the same data.
        `published`, `source`
            Whether the row is a published result, and the paper and table that it is from.

        Differences and p are null for the best itself, and where two runs have no item in common; p also
        where they had other candidates.

    Examples
    --------
    >>> board = wb.leaderboard(runs)
    >>> board["model"].tolist()
    ['3-gram, Kneser-Ney', 'Random word from passage']
    """
    check_items(items, "leaderboard", optional=True)
    sampling = BootstrapSettings(level, resamples, seed).checked()
    names = list(dict.fromkeys([by] if isinstance(by, str) else by))
    check_group_names(names, _OWN_COLUMNS)
    chosen = {"dataset": dataset, "split": split}
    measures = RunMeasures(names, chosen, sampling)
    measured_runs = measures.of_stored() if runs is None else measures.of_runs(runs, items)
    groups: dict[Group, list[MeasuredRun]] = {}
    for run in measured_runs:
        groups.setdefault((*run.group, protocol_of(run.row)), []).append(run)
    datasets = {name for run in measured_runs for name, *_ in run.row["sets"] if name}
    reported = _published(names, chosen, datasets) if published else {}
    rows: list[dict[str, Any]] = []
    keys = [*names, "protocol"]
    for key in sorted(groups or reported, key=lambda key: tuple(map(str, key))):
        published_rows = reported.get(key, [])
        contest = _contest(groups.get(key, []), len(published_rows))
        ranked = _merged_ranking(_ranked(groups.get(key, []), contest, measures), published_rows)
        rows += [dict(zip(keys, key, strict=True)) | row for row in ranked]
    measures.close()
    apart = _add_distinctions([row for row in rows if not row["published"]], keys)
    first_names = ("protocol", "place", "model", "system", "run", *VARIANT, *apart)
    head = [*names, *(name for name in dict.fromkeys(first_names) if name not in names)]
    spread = spread_columns(rows)
    table = typed(pd.DataFrame(rows, columns=[*head, *MEASURED, *spread, *_AGAINST, *_PUBLISHED]))
    dtypes = dict.fromkeys(("place", "n_paired"), "Int64") | {"published": "bool", "source": "str"}
    table = table.astype(dict.fromkeys(_AGAINST, "Float64") | dtypes)
    table[apart] = table[apart].convert_dtypes()
    measured = table[~table["published"]]
    shares = [(row, share) for row in rows if (share := row.get("share_in_training"))]
    read = {row["model"]: (round(share * row["n"]), row["n"]) for row, share in shares}
    languages = [sorted({names[2] for names in row.get("sets", ())}) for row in rows]
    pooled = languages_note({name for names in languages if len(names) > 1 for name in names})
    warnings = [*training_note(read), *unknown_note(unknown_shares(measured, names)), *pooled]
    table.attrs |= {"note": interval_notes(measured), "warnings": warnings}
    return Table(table, _layout(table, keys, apart))


def _layout(table: pd.DataFrame, keys: Sequence[str], apart: Sequence[str]) -> TableLayout:
    first = (TableColumn("place", "count"), TableColumn("model", detail="source"), *map(TableColumn, apart))
    n, accuracy, *others = shown_measures(table)
    compared = table["n_paired"].notna()
    of_fewer = bool((table["n_paired"][compared] < table["n"][compared]).any())
    columns = (*first, n, accuracy, *(column._replace(interval=None) for column in others))
    columns += tuple(column for column in _SHOWN if column.name != "n_paired" or of_fewer)
    return TableLayout("Models ranked by accuracy", columns, tuple(keys), "signature", folded="published")


def _add_distinctions(rows: list[dict[str, Any]], keys: Sequence[str]) -> list[str]:
    """Add to rows the columns in which those of one ranking and model differ; return the names of these."""
    names = ["\n".join(str(row[name]) for name in (*keys, "model")) for row in rows]
    apart = differing(names, [row["traits"] for row in rows]).drop(columns=_OWN_COLUMNS, errors="ignore")
    records: Any = apart.to_dict("records")
    for row, values in zip(rows, records, strict=True):
        row.update(values)
    return list(apart.columns)


def _order(run: MeasuredRun) -> tuple[Any, ...]:
    return -run.row["accuracy"], run.row.get("perplexity", np.inf), run.row["model"], run.row["run"]


def _contest(group: list[MeasuredRun], n_published: int) -> list[MeasuredRun]:
    """Return the runs of a group that get places: the largest set on the same items with the same candidates.

    A set of two or more comes before a single run, then counts the number of items, then that of runs; where
    two sets are equal in all three, no run gets a place. Published results are on all items of a released
    split, so they belong to a set on all of these; a single run on a part has no place beside them.
    """
    sets: list[list[MeasuredRun]] = []
    for run in sorted(group, key=_order):
        alike = next((runs for runs in sets if same_items(runs[0], run)), None)
        if alike is None:
            sets.append(alike := [])
        alike.append(run)

    def size(runs: list[MeasuredRun]) -> tuple[bool, int, int]:
        n = len(runs) + (0 if runs[0].row["subset"] else n_published)
        return n > 1, runs[0].row["n"], n

    largest, *smaller = sorted(sets, key=size, reverse=True) or [[]]
    is_tied = bool(smaller) and size(largest) == size(smaller[0])
    is_alone = bool(n_published and largest) and not size(largest)[0]
    return [] if is_tied or is_alone else largest


def _ranked(
    group: list[MeasuredRun], contest: list[MeasuredRun], measures: RunMeasures
) -> list[dict[str, Any]]:
    """Sort the measures of one group, and compare each run with the best that has a place.

    Where none has, that is the best of those on the most items.
    """
    group = sorted(group, key=_order)
    n_max = max((run.row["n"] for run in group), default=0)
    best = next(iter(contest), None) or next((run for run in group if run.row["n"] == n_max), None)
    others = [run for run in group if run is not best]
    tests = iter(measures.against(others, best) if best else [])
    placed = {id(run) for run in contest}
    rows = [
        run.row | ({} if run is best else next(tests)) | {"published": False, "in_contest": id(run) in placed}
        for run in group
    ]
    p = [row.get("p", np.nan) for row in rows]
    for row, by_holm, by_fdr in zip(rows, holm(p), benjamini_hochberg(p), strict=True):
        row |= {"p_holm": by_holm, "p_fdr_bh": by_fdr}
    return rows


def _published(
    names: list[str], chosen: dict[str, str | None], present: set[str]
) -> dict[Group, list[dict[str, Any]]]:
    """Return published results by group; empty where groups are by columns of items."""
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
        key = (*(row.get(name, "") for name in names), protocol_of(row))
        reported.setdefault(key, []).append(row | {"published": True})
    return reported


def _merged_ranking(ranked: list[dict[str, Any]], reported: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Place measured and reported rows in one ranking; ours come first, both by accuracy.

    Equal rows share a place. Reported rows have none beside places on a part of the items; rows of several
    data sets, splits or languages have none at all.
    """
    rows = list(ranked)

    def order(row: dict[str, Any]) -> tuple[Any, ...]:
        return -row["accuracy"], row.get("perplexity", np.inf), row["model"]

    rows += sorted(reported, key=order)
    placed = [row for row in ranked if row["in_contest"]]
    placed += [] if any(row["subset"] for row in placed) else reported
    for row in [] if _is_mixed(rows) else placed:
        row["place"] = 1 + sum(other["accuracy"] > row["accuracy"] for other in placed)
    return rows


def _is_mixed(rows: Sequence[dict[str, Any]]) -> bool:
    """Return whether rows are of several data sets, splits or languages."""
    sets = [row.get("sets") or [(row["dataset"], row["split"], ENGLISH)] for row in rows]
    return len({tuple(names) for each in sets for names in each}) > 1


@cache
def published_scores() -> pd.DataFrame:
    """Return every published score of ``data/published``, one row per system, split and word class.

    Accuracy is a fraction, and ``variant`` null where the source does not name it. Anonymised tables are left
    out: those are other items. One frame serves all callers: do not change it.
    """
    rows = [*_tables(), *_later()]
    numbers = dict.fromkeys(("accuracy", "perplexity", "median_rank"), "Float64")
    texts = dict.fromkeys((name for name in _SCORE_COLUMNS if name not in numbers), "str")
    table = pd.DataFrame(rows, columns=list(_SCORE_COLUMNS))
    return table.astype(texts | numbers | {"detokenised": "boolean"})


def _reported_row(dataset: str, split: str, system: str, source: str, **columns: Any) -> dict[str, Any]:
    names = {"dataset": dataset, "split": split, "model": system, "system": system, "source": source}
    return names | {"unit": "word"} | columns


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
            **_reported_protocol(row),
            accuracy=_number(row["accuracy_percent"], 100),
            perplexity=_number(row["perplexity"]),
        )


def _reported_protocol(row: dict[Any, str]) -> dict[str, Any]:
    """Return the columns of `VARIANT` that a source states; the unit is null where it does not."""
    prompt = {"shots": int(row["shots"] or 0), "template": row["template"] or "{text}"}
    prompt |= {name: row[name] for name in ("beginning", "space") if row[name]}
    is_usual = prompt == {"shots": 0, "template": "{text}"}
    return {
        **{name: row[name] or None for name in ("unit", "filter", "bos")},
        "prompt": None if is_usual else json.dumps(prompt),
        "detokenised": True if row["detokenised"] else None,
    }


def _number(text: str, scale: float = 1) -> float | None:
    """Return a printed number; None for an empty cell."""
    value = papers.parse_value(text).about if text.strip() else None
    return None if value is None else round(value / scale, 10)
