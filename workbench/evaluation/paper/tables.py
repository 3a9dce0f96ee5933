"""The papers' tables with ours beside: the published value, ours, its interval and the difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from workbench.evaluation import bootstrap as resampling
from workbench.evaluation.metrics import measure
from workbench.evaluation.paper.layouts import NAMES, Column, Paper, belonging, paper, same
from workbench.evaluation.reading import VARIANT, Source, check_options, one_value, sources
from workbench.items.schema import DataError
from workbench.render import tables as rendering

_PERCENT = 100
_KEYS = ("system", "variant", *VARIANT)
_KINDS = {
    **dict.fromkeys(("published", "ours", "low", "high", "difference", "ours_known", "expected"), "Float64"),
    **dict.fromkeys(("n", "n_known", "vocabulary_size"), "Int64"),
    **dict.fromkeys(("section", "system", "model", "run", "column", "split", "word_class", "measure"), "str"),
    **dict.fromkeys(("measured_in", "printed", "resampled_by", "variant", "unit"), "str"),
    **dict.fromkeys(("filter", "unknown"), "str"),
}
COLUMNS = (
    "section", "system", "model", "run", "column", "split", "word_class", "measure", "measured_in",
    "published", "printed", "ours", "low", "high", "difference", "n", "n_known", "ours_known", "expected",
    "resampled_by", "variant", *VARIANT,
)  # fmt: skip


@dataclass(frozen=True)
class ResultsTable:
    """A paper's table with ours beside.

    Attributes
    ----------
    name, title : str
    frame : DataFrame
        One row a cell of the table: `section`, `system` (the paper's row), `model` and `run` (null
        where there is none of ours), `column`, `split`, `word_class`, `measure` (``accuracy``,
        ``perplexity``, ``median_rank``) in the unit `measured_in` (``percent``, ``fraction``, ``per
        target word``, ``rank``); `published` and, as the paper prints it, `printed`; `ours` with
        `low` and `high`; `difference` (ours - published); `n` items; of accuracies `ours_known`
        (on the `n_known` items whose answer is in the vocabulary) and `expected` (if ties
        were broken at random again and again); and the columns that name the variant.
    notes : tuple of str
        What is to be known to read it.
    """

    name: str
    title: str
    frame: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...] = ()

    def to_html(self) -> str:
        """Return the table as an HTML fragment for light and dark pages, everything escaped."""
        return rendering.html(rendering.grid(self.frame), self.title, self.notes)

    def to_latex(self) -> str:
        r"""Return the table as a LaTeX ``table`` that needs ``\usepackage{booktabs}``."""
        return rendering.latex(rendering.grid(self.frame), self.title, self.notes, f"tab:{self.name}")

    def to_markdown(self) -> str:
        """Return the table as GitHub Markdown: one table a section, then the notes."""
        return rendering.markdown(rendering.grid(self.frame), self.title, self.notes)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        return self.to_markdown()


def table(
    name: str,
    runs: Any,
    *,
    split: str | None = None,
    dataset: str | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> ResultsTable:
    """Show a paper's table with ours beside.

    Parameters
    ----------
    name : {"lambada", "cbt", "msrcc", "cnnqa", "cbt-variants", "cbt-anonymised", "cnnqa-ablation"}
        Table 1 of Paperno et al. 2016; table 2 (or, for ``dev``, that of appendix B) of Hill et al.
        2016; table 1 of Zweig and Burges 2012; table 3, table 4 and those of appendices D and C of
        Hill et al. 2016.
    runs : Run, DataFrame or str, or several of these
        Predictions; those for other data sets are left out. The column ``system`` tells which row
        of the paper they stand for. None at all is right too: every row is then missing.
    split : {"dev", "test"}, optional
        Which of our items; by default the test set where there are predictions for it, else the
        development set (``cnnqa`` shows both). LAMBADA's control set is always shown.
    dataset : str, optional
        Take the items of another data set that has the task, as ``"sample"`` has.
    level : float, default 0.95
        Confidence level of the intervals.
    resamples : int, default 2000
        Bootstrap replicates.
    seed : int, default 0
        Of the bootstrap.

    Returns
    -------
    ResultsTable
        Rows in the order of the paper, then ours without a published counterpart. Several models of
        one system all have rows. ``-``: not there.

    Raises
    ------
    DataError
        If there is no such table or split, or the predictions lack a column.
    """
    check_options(level, resamples)
    if name not in NAMES:
        raise DataError(f"there is no table called {name!r}", remedy=f"there are {', '.join(NAMES)}")
    task = name.partition("-")[0]
    found = [] if runs is None else sources(runs)
    found = [one._replace(frame=belonging(one.frame, name, dataset or task)) for one in found]
    present = {str(split) for one in found for split in one.frame["split"].unique()}
    layout = paper(name, split, present)
    parts = [part for source in found for part in _parts(source, task)]
    rows: list[dict[str, Any]] = []
    for section in dict.fromkeys(column.section for column in layout.columns):
        columns = [column for column in layout.columns if column.section == section]
        ours = _packed(
            (part, cells)
            for part in parts
            if (cells := _cells(part.frame, columns, level=level, resamples=resamples, seed=seed))
        )
        rows += [cell for row in _ordered(ours, columns) for cell in row]
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(_KINDS)
    notes = _notes(layout, frame, found, dataset, level=level, resamples=resamples, seed=seed)
    return ResultsTable(name, layout.title, frame, tuple(notes))


@dataclass(frozen=True)
class _Part:
    """Predictions that may stand in one row: of one model, run, system and variant."""

    key: tuple[Any, ...]
    model: str
    run: str
    frame: pd.DataFrame


def _parts(source: Source, task: str) -> Iterator[_Part]:
    # the variant of a Children's Book Test question is its word class: a column, not a row
    names = [name for name in _KEYS if not (name == "variant" and task == "cbt")]
    for values, frame in source.frame.groupby(names, dropna=False, observed=True, sort=False):
        pairs: Any = zip(names, values, strict=True)
        said = {name: None if pd.isna(value) else value for name, value in pairs}
        key = tuple(said.get(name) for name in _KEYS)
        yield _Part(key, source.model, source.run, frame.reset_index(drop=True))


def _cells(frame: pd.DataFrame, columns: Sequence[Column], **options: Any) -> dict[str, dict[str, Any]]:
    """Measure what belongs into each column that there are items for."""
    done: dict[tuple[str, str | None], dict[str, Any]] = {}
    cells = {}
    for column in columns:
        place = (column.split, column.word_class)
        if place not in done:
            done[place] = measure(column.of(frame), **options)
        if done[place]["n"]:
            cells[column.label] = done[place]
    return cells


@dataclass(eq=False)
class _Row:
    """One row of ours: its parts are of one model, and fill different columns."""

    part: _Part
    runs: list[str]
    cells: dict[str, dict[str, Any]]


def _packed(measured: Iterator[tuple[_Part, dict[str, dict[str, Any]]]]) -> list[_Row]:
    """Put runs of one model that fill different columns into one row."""
    rows: list[_Row] = []
    for part, cells in measured:
        same_kind = (row for row in rows if (row.part.key, row.part.model) == (part.key, part.model))
        free = next((row for row in same_kind if not row.cells.keys() & cells.keys()), None)
        if free is None:
            rows.append(_Row(part, [part.run], dict(cells)))
        else:
            free.cells.update(cells)
            free.runs.append(part.run)
    return rows


def _ordered(ours: Sequence[_Row], columns: Sequence[Column]) -> Iterator[list[dict[str, Any]]]:
    """Give the rows of a section in the order of the paper, then the others."""
    systems = list(dict.fromkeys(system for column in columns for system in column.printed))
    left = list(ours)
    for system in systems:
        mine: list[_Row | None] = [row for row in left if same(row.part.key[0]) == same(system)]
        left = [row for row in left if row not in mine]
        for one in mine or [None]:
            yield [_cell(column, system, one) for column in columns]
    for row in left:
        yield [_cell(column, row.part.key[0], row) for column in columns]


def _cell(column: Column, system: str | None, row: _Row | None) -> dict[str, Any]:
    printed = column.printed.get(system or "", "")
    cell: dict[str, Any] = {
        "section": column.section,
        "system": system,
        "column": column.label,
        "split": column.split,
        "word_class": column.word_class,
        "measure": column.measure,
        "measured_in": column.unit,
        "printed": printed or None,
        "published": float(printed) if printed else None,
    }
    if row is None:
        return cell
    cell |= dict(zip(_KEYS[1:], row.part.key[1:], strict=True))
    cell |= {"model": row.part.model, "run": ", ".join(dict.fromkeys(filter(None, row.runs)))}
    found = row.cells.get(column.label)
    if found is None:
        return cell
    scale = _PERCENT if column.unit == "percent" else 1
    names = {"ours": "", "low": "_low", "high": "_high"}
    cell |= {name: scale * found.get(f"{column.measure}{end}", np.nan) for name, end in names.items()}
    if printed:
        cell["difference"] = cell["ours"] - cell["published"]
    if column.measure == "accuracy":
        cell["ours_known"] = scale * found.get("accuracy_known", np.nan)
        cell["expected"] = scale * found["expected_accuracy"]
    counted = "n_perplexity" if column.measure == "perplexity" else "n"
    return cell | {
        "n": found[counted],
        "n_known": found["n_known"],
        "resampled_by": found["resampled_by"],
    }


def _notes(
    layout: Paper, frame: pd.DataFrame, found: Sequence[Source], dataset: str | None, **how: Any
) -> Iterator[str]:
    """Say what is to be known to read the table."""
    ours = frame[frame["ours"].notna()]
    if not len(ours):
        yield "There is none of ours yet."
        return
    splits = sorted(set(ours["split"]))
    task = layout.dataset if dataset in {None, layout.dataset} else f"{dataset}, not those of the paper"
    yield f"Ours are on items of {task}: {', '.join(splits)}."
    yield from layout.notes
    yield f"{_variants(ours)}."
    if ours["vocabulary_size"].notna().any():
        yield (
            "An answer outside the vocabulary is wrong and has the rank after the last word; unknown answers:"
            " unk gives it the probability of <unk>, shared that divided by the number of words that <unk>"
            " stands for, none gives it no probability."
        )
    accuracy = ours[(ours["measure"] == "accuracy") & (ours["n_known"] < ours["n"])]
    for section, part in accuracy.groupby("section", sort=False):
        names = ("model", "ours_known", "measured_in", "column", "n_known", "n")
        cells: Any = zip(*(part[name] for name in names), strict=True)
        several = len(set(part["column"])) > 1
        values = [
            f"{model} {rendering.number(value, unit)} ({f'{column}, ' if several else ''}{known:,} of {n:,})"
            for model, value, unit, column, known, n in cells
        ]
        place = f" ({section!s})" if section else ""
        counted = f"Accuracy on the items whose answer is in the vocabulary or among the choices{place}"
        yield f"{counted}: {'; '.join(values)}."
    yield (
        f"In brackets: {_PERCENT * how['level']:g} % intervals of ours; a difference is ours minus the"
        f" paper's. {_resampled(ours)} Bootstrap with {how['resamples']:,} replicates, seed {how['seed']}."
    )
    if layout.dataset == "lambada" and (ours["resampled_by"] == "item").any() and dataset is None:
        yield f"{resampling.LAMBADA}."
    seeds = {f"{one.model}: {one.info['seed']}" for one in found if one.info.get("seed") is not None}
    if seeds:
        yield f"Seeds of the runs: {', '.join(sorted(seeds))}."


def _variants(ours: pd.DataFrame) -> str:
    """Say which variants the rows are of, each with its models where they differ."""
    parts = []
    for name in ("variant", *VARIANT):
        models: Mapping[Any, Any] = ours.groupby(name, sort=False)["model"].unique().to_dict()
        title = {"vocabulary_size": "vocabulary size", "unknown": "unknown answers"}.get(name, name)
        values = {
            f"{value:,}" if name == "vocabulary_size" else str(value): ", ".join(sorted(who))
            for value, who in models.items()
        }
        if len(values) == 1 and ours[name].notna().all():
            parts.append(f"{title} {next(iter(values))}")
        elif values:
            parts.append(f"{title} " + ", ".join(f"{value} ({who})" for value, who in values.items()))
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}"


def _resampled(ours: pd.DataFrame) -> str:
    by = one_value(ours["resampled_by"])
    if by == "novel":
        return "Novels were resampled as wholes."
    items = "Accuracies have Wilson's interval over items; for the other measures items were resampled."
    return items if by == "item" else f"{items} Where every item names its novel, novels were resampled."
