"""The papers' tables with the user's results: published value, result, its interval and the difference.

The published numbers stand in ``data/published``; a new table is a file there and a `Layout` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from workbench.datasets import published
from workbench.evaluation.bootstrap import BootstrapSettings
from workbench.evaluation.metrics import is_random, measure
from workbench.evaluation.model_predictions import (
    NEEDED,
    differing,
    from_source,
    is_of_papers,
    labels,
    predictions_of,
    source_of,
    traits_of,
)
from workbench.evaluation.table_notes import asked_items, shared_notes, units_note, unknown_note
from workbench.items.ablation import whole_variant
from workbench.items.cells import check_options
from workbench.items.items import Items, check_items
from workbench.items.language import ENGLISH, language
from workbench.predictions.signature import VARIANT
from workbench.render.labels import label, tooltip
from workbench.render.numbers import MISSING, as_printed, in_unit
from workbench.render.tables import Cell, Grid, Heading, grid_html, grid_latex, grid_markdown
from workbench.storage.errors import check_option

NAMES = ("lambada", "cbt", "msrcc", "cnnqa", "cbt-variants", "cbt-anonymised", "cnnqa-ablation")
"""Tables that can be shown."""

_CLASSES = {
    "NE": ("named_entities", "Named entities"),
    "CN": ("common_nouns", "Common nouns"),
    "V": ("verbs", "Verbs"),
    "P": ("prepositions", "Prepositions"),
}
_LAMBADA = {
    "accuracy": ("accuracy_percent", "Accuracy (%)", "percent"),
    "perplexity": ("perplexity", "Perplexity", "per target word"),
    "median_rank": ("median_rank", "Median rank", "rank"),
}
_SOURCES = {
    "lambada": ("lambada_table1", "LAMBADA (Paperno et al. 2016, table 1)"),
    "cbt": ("cbt_test_table2", "Children's Book Test, test set (Hill et al. 2016, table 2)"),
    "cbt dev": ("cbt_validation", "Children's Book Test, validation set (Hill et al. 2016, appendix B)"),
    "msrcc": ("msrcc_table1", "Sentence completion (Zweig and Burges 2012, table 1)"),
    "cnnqa": ("cnnqa_table3", "CNN QA (Hill et al. 2016, table 3)"),
    "cbt-variants": ("cbt_table4", "Children's Book Test, memory networks (Hill et al. 2016, table 4)"),
    "cbt-anonymised": ("cbt_anonymised", "Children's Book Test, anonymised (Hill et al. 2016, appendix D)"),
    "cnnqa-ablation": ("cnnqa_ablation", "CNN QA, ablations (Hill et al. 2016, appendix C)"),
}
_PERPLEXITY = (
    "Perplexity is exp(-mean ln p) per target word; an answer tied with other words has their mean rank."
)
_APART = (
    "No difference is shown where our items are not those of the paper's numbers: another data set, split, or"
    " a part of it, or another protocol."
)
_ON_TEST = "The paper's numbers are on the test set."
_COMPLETION = (
    "The paper's numbers are on all 1,040 questions, that of human readers on 100 of them.",
    "Chance is not in the paper's table.",
)
_NOTES = {
    ("lambada", "test"): (_PERPLEXITY,),
    ("lambada", "dev"): (_PERPLEXITY, _ON_TEST.replace("numbers", "numbers for lambada")),
    ("cbt", "test"): ("The paper's human readers answered 10 % of the test set.",),
    ("cbt-variants", "dev"): (_ON_TEST,),
    ("cbt-anonymised", "dev"): (_ON_TEST,),
    ("msrcc", "test"): _COMPLETION,
    ("msrcc", "dev"): _COMPLETION,
}
_VARIANTS = ("plain", "capitalised", "openai")
_PERCENT = 100
_EACH = """paper: the published value with the paper's digits; ours: our value; interval: its confidence \
interval; known: ours on the items whose answer is in the vocabulary or among the choices; \
difference: our value minus the paper's; n: our items."""
_KEYS = ("system", "variant", *VARIANT)
_SPREAD = ("seed_sd", "seed_min", "seed_max")
_TEXTS = (
    "section", "system", "model", "run", "column", "split", "word_class", "measure",
    "measured_in", "printed", "resampled_by", "variant", "unit", "filter", "case", "unknown", "bos",
)  # fmt: skip
_WHOLE = ("n", "n_of_paper", "n_released", "n_known", "n_seeds", "vocabulary_size")
_NUMBERS = (*("published", "ours", "low", "high", "difference", "ours_known", "expected"), *_SPREAD)
_KINDS = dict.fromkeys(_TEXTS, "str") | dict.fromkeys(_WHOLE, "Int64") | dict.fromkeys(_NUMBERS, "Float64")
_KINDS |= {"is_drawn": "boolean", "detokenised": "boolean", "prompt": "object"}
_NOT_OF_ROWS = ["dataset", "split"]  # columns of the table or of its sections, not of rows


class Column(NamedTuple):
    """One column of numbers in one section of a table (in LAMBADA's the set; else empty).

    `printed` has the paper's numbers by system, in its order; empty text where it prints nothing.
    """

    section: str
    label: str
    measure: str
    unit: str
    split: str
    word_class: str | None
    printed: Mapping[str, str]


class Layout(NamedTuple):
    """A paper's table without results of the user."""

    name: str
    dataset: str
    title: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...] = ()


def _of_task(frame: pd.DataFrame, name: str, dataset: str) -> pd.DataFrame:
    """Return the predictions of a data set that are of a table's task."""
    task = name.partition("-")[0]
    of_dataset = frame["dataset"] == dataset
    if dataset == task:
        return frame[of_dataset]
    # another data set may hold several tasks, as the sample does: its variants tell them apart
    variant = whole_variant(frame["variant"])
    passage, question = variant.isin(_VARIANTS), frame["word_class"].notna()
    other = ~passage & ~question & (variant != ("msrcc" if task == "cnnqa" else "cnnqa"))
    return frame[of_dataset & {"lambada": passage, "cbt": question}.get(task, other)]


def layout_of(name: str, split: str | None, present: set[str]) -> Layout:
    """Return the paper's table of one of `NAMES`; DataError if the table or the split is unknown.

    Without a `split` it is that of the test set if this is `present` or the development set is not.
    """
    check_option("the table", name, NAMES)
    if split is not None:
        check_option("split", split, ("dev", "test"))
    chosen = split or ("test" if "test" in present or "dev" not in present else "dev")
    source, title = _SOURCES.get(f"{name} {chosen}", _SOURCES[name])
    columns = tuple(_columns(name.partition("-")[0], published.published_table(source), chosen, split))
    return Layout(name, name.partition("-")[0], title, columns, _NOTES.get((name, chosen), ()))


def _with_people(layout: Layout) -> Layout:
    """Return the table of CBT's validation set with the human rows, which only that of the test set has."""
    if layout.name != "cbt" or {column.split for column in layout.columns} != {"dev"}:
        return layout
    columns = []
    for column, tested in zip(layout.columns, layout_of("cbt", "test", set()).columns, strict=True):
        people = {system: text for system, text in tested.printed.items() if _of_people(system)}
        columns.append(column._replace(printed={**people, **column.printed}))
    note = f"{_NOTES['cbt', 'test'][0].removesuffix('.')}, and none of the validation set."
    return layout._replace(columns=tuple(columns), notes=(*layout.notes, note))


def _of_people(system: Any) -> bool:
    return normalised(system).startswith("human")


def _columns(task: str, rows: pd.DataFrame, chosen: str, split: str | None) -> Iterator[Column]:
    if task == "lambada":
        for section, members in rows.groupby("set", sort=False):
            subset = chosen if section == "lambada" else "control"
            for measured, (name, label, unit) in _LAMBADA.items():
                yield Column(str(section), label, measured, unit, subset, None, _printed(members, name))
    elif task == "msrcc":
        printed = _printed(rows, "percent_correct")
        yield Column("", "Correct (%)", "accuracy", "percent", chosen, None, printed)
    elif task == "cnnqa":
        for label, subset in (("Validation", "dev"), ("Test", "test")):
            if split in {None, subset}:
                yield Column("", label, "accuracy", "fraction", subset, None, _printed(rows, label.lower()))
    else:
        for word_class, (name, label) in _CLASSES.items():
            yield Column("", label, "accuracy", "fraction", chosen, word_class, _printed(rows, name))


def _printed(rows: pd.DataFrame, column: str) -> dict[str, str]:
    return {str(system): str(text) for system, text in zip(rows["system"], rows[column], strict=True)}


def normalised(system: Any) -> str:
    """Return a system's name as it is compared: without case and superfluous blanks; empty for None."""
    return " ".join(str(system or "").casefold().split())


@dataclass(frozen=True)
class ResultsTable:
    """A paper's table with the user's results beside it.

    Attributes
    ----------
    name, title : str
    frame : DataFrame
        One row per cell of the table: `section`, `system` (the paper's row), `model` and `run` (null
        where there is none of ours), `column`, `split`, `word_class`, `measure` (``accuracy``,
        ``perplexity``, ``median_rank``) in the unit `measured_in` (``percent``, ``fraction``, ``per
        target word``, ``rank``); `published` and, as the paper prints it, `printed`; `ours` with
        `low` and `high`; `difference` (ours - published; null unless ours are all items of the paper's
        numbers); of accuracies of replicates `n_seeds`, `seed_sd`
        (standard deviation between seeds), `seed_min` and `seed_max`; `n` items, `n_of_paper` those of the
        paper's numbers where ours are of them, `n_released` those of the released set; of accuracies
        `ours_known` (on the `n_known` items whose answer is in the vocabulary) and `expected` (mean over
        random choices among ties), `is_drawn` (a random baseline: `ours` is one draw); and the columns that
        name the variant.
    notes : tuple of str
    rows : {"ours", "all"}
        Which rows are shown; `frame` has all of them.
    distinctions : tuple of str
        Columns of `frame` in which rows of one model differ, and which are shown.
    """

    name: str
    title: str
    frame: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...] = ()
    rows: str = "ours"
    distinctions: tuple[str, ...] = ()

    def to_html(self) -> str:
        """Return the table as an HTML fragment for light and dark pages, everything escaped."""
        return grid_html(self._grid())

    def to_latex(self, *, width: Literal["page", "column"] = "page") -> str:
        r"""Return the table as a LaTeX ``table`` that needs ``\usepackage{array,booktabs,graphicx}``.

        Of the `width` of a column, no text is smaller than 7 points.
        """
        check_option("width", width, ("page", "column"))
        return grid_latex(self._grid(), f"tab:{self.name}", is_narrow=width == "column")

    def to_markdown(self) -> str:
        """Return the table as GitHub Markdown: one table a section, then the notes."""
        return grid_markdown(self._grid())

    def to_csv(self, path: Any = None) -> Any:
        """Write `frame` as CSV; return it as text without a path."""
        return self.frame.to_csv(path, index=False)

    def _grid(self) -> Grid:
        columns = self.frame[["column", "measured_in"]].drop_duplicates("column").to_numpy().tolist()
        every = self.rows == "all" or self.frame["model"].isna().all()
        sections: dict[str, list[list[Cell]]] = {}
        records: list[dict[Any, Any]] = self.frame.to_dict("records")
        before: Any = None
        for start in range(0, len(records), len(columns)):
            cells = records[start : start + len(columns)]
            section, system, model = (cells[0][name] for name in ("section", "system", "model"))
            rows = sections.setdefault(section, [])
            listed = every or not pd.isna(model) or _of_people(system)
            if listed and (section, system) != before and any(not pd.isna(cell["printed"]) for cell in cells):
                rows.append(self._with_distinctions(_paper_row(cells), {}))
            if not pd.isna(model):
                first, *others = _model_rows(cells)
                rows.append(self._with_distinctions(first, cells[0]))
                rows += [self._with_distinctions(row, {}) for row in others]
            before = (section, system) if listed else None
        headings = [
            Heading("System or model", f"{tooltip('system')} {tooltip('model')}", numeric=False),
            *(Heading(label(name), tooltip(name), numeric=False) for name in self.distinctions),
            Heading("Value", _EACH, numeric=False),
            *(Heading(f"{name} (%)" if unit == "fraction" else name) for name, unit in columns),
        ]
        return Grid(self.title, headings, {name: rows for name, rows in sections.items() if rows}, self.notes)

    def _with_distinctions(self, row: Sequence[Cell], values: Mapping[Any, Any]) -> list[Cell]:
        """Return the cells of a row with those of `distinctions` after the first."""
        texts = [values.get(name) for name in self.distinctions]
        return [row[0], *(Cell("" if pd.isna(text) else str(text)) for text in texts), *row[1:]]

    def _repr_html_(self) -> str:
        return self.to_html()

    def __str__(self) -> str:
        return self.to_markdown()


def _paper_row(cells: Sequence[dict[Any, Any]]) -> list[Cell]:
    """Return the row of a system with the paper's values."""
    printed = [(cell["printed"], cell["measured_in"]) for cell in cells]
    texts = [MISSING if pd.isna(text) else as_printed(text, unit) for text, unit in printed]
    return [Cell(str(cells[0]["system"])), Cell("paper"), *map(Cell, texts)]


def _model_rows(cells: Sequence[dict[Any, Any]]) -> Iterator[list[Cell]]:
    """Return the rows of a model: its values, their intervals, the differences from the paper's, and n."""

    def row(name: str, column: str, write: Callable[[dict[Any, Any]], str]) -> Iterator[list[Cell]]:
        texts = [MISSING if pd.isna(cell[column]) else write(cell) for cell in cells]
        if any(text != MISSING for text in texts):
            yield [Cell(""), Cell(name), *map(Cell, texts)]

    def number(column: str, *, sign: bool = False) -> Callable[[dict[Any, Any]], str]:
        return lambda cell: in_unit(cell[column], cell["measured_in"], sign=sign)

    system, model = cells[0]["system"], str(cells[0]["model"])
    of_ours = not pd.isna(system) and all(pd.isna(cell["printed"]) for cell in cells)
    values = [Cell(number("ours")(cell)) for cell in cells]
    yield [Cell(model, f"({system})" if of_ours else ""), Cell("ours"), *values]
    if any(cell["is_drawn"] is True for cell in cells):
        yield from row("expected", "expected", number("expected"))
    if any(cell["n_known"] < cell["n"] for cell in cells if not pd.isna(cell["ours_known"])):
        yield from row("known", "ours_known", number("ours_known"))
    yield from row("interval", "low", lambda cell: f"[{number('low')(cell)}, {number('high')(cell)}]")
    seeds = max((cell["n_seeds"] for cell in cells if not pd.isna(cell["n_seeds"])), default=0)
    yield from row(f"SD of {seeds} seeds", "seed_sd", number("seed_sd"))
    yield from row("difference", "difference", number("difference", sign=True))
    yield from row("n", "n", _n_text)


def _n_text(cell: Mapping[Any, Any]) -> str:
    """Return the number of items of a cell, and of how many where they are a part of a released set."""
    n, n_released = cell["n"], cell["n_released"]
    is_complete = pd.isna(n_released) or n >= n_released
    return MISSING if not n else f"{n:,}" if is_complete else f"{n:,} of {n_released:,}"


def table(
    name: str,
    runs: Any,
    *,
    rows: Literal["ours", "all"] = "ours",
    split: str | None = None,
    dataset: str | None = None,
    items: Items | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> ResultsTable:
    """Return a paper's table with the user's results beside it.

    Parameters
    ----------
    name : {"lambada", "cbt", "msrcc", "cnnqa", "cbt-variants", "cbt-anonymised", "cnnqa-ablation"}
        Table 1 of Paperno et al. 2016; table 2 (or, for ``dev``, that of appendix B) of Hill et al.
        2016; table 1 of Zweig and Burges 2012; table 3, table 4 and those of appendices D and C of
        Hill et al. 2016.
    runs : Run, DataFrame, str or Replicates, or several of these
        Predictions; replicates (``wb.replicates``) are one row. Those for other data sets are left out. The
        column ``system`` names the row of the paper that they belong to. Without any, all of ours are
        missing.
    rows : {"ours", "all"}, default "ours"
        Show our rows and those of human readers, or the paper's other rows too; these are shown where there
        are no rows of ours.
    split : {"dev", "test"}, optional
        Which of our items; by default the test set where there are predictions for it, else the
        development set (``cnnqa`` shows both). LAMBADA's control set is always shown.
    dataset : str, optional
        Use the items of another data set that has the task, as ``"sample"`` has.
    items : Items, optional
        What the predictions are about, for frames with ``item_id``, ``model`` and ``prediction`` alone.
    level, resamples, seed : float, int, int
        Confidence level, number of replicates and seed of the bootstrap intervals.

    Returns
    -------
    ResultsTable
        Rows in the order of the paper, then ours without a published counterpart. Several models of
        one system all have rows, which stand below the paper's. ``-``: missing. Accuracies are shown in
        percent. Its `frame` has every row of the paper, in the paper's unit.

    Examples
    --------
    >>> table = wb.table("lambada", runs, dataset="sample")
    >>> latex = table.to_latex()
    """
    sampling = BootstrapSettings(level, resamples, seed).checked()
    check_option("rows", rows, ("ours", "all"))
    check_options({"dataset": dataset}, "a name")
    check_items(items, "table", optional=True)
    layout_of(name, split, set())  # DataError where there is none
    task = name.partition("-")[0]
    models = [
        from_source(_of_task(frame, name, dataset or task), source_of(frame))
        for frame in ([] if runs is None else predictions_of(runs, items, pool=True, columns=NEEDED))
    ]
    present = {str(split) for model in models for split in model["split"].unique()}
    layout = _with_people(layout_of(name, split, present))
    cells: list[dict[str, Any]] = []
    apart: dict[str, None] = {}
    for section in dict.fromkeys(column.section for column in layout.columns):
        columns = [column for column in layout.columns if column.section == section]
        of_section = _rows(models, task, columns, sampling)
        apart |= dict.fromkeys(_add_distinctions(of_section))
        for system, row in _ordered(of_section, columns):
            cells += [_cell(column, system, row, *_sizes(layout.name, column, dataset)) for column in columns]
    frame = pd.DataFrame(cells, columns=list(dict.fromkeys([*_KINDS, *apart]))).astype(_KINDS)
    frame[list(apart)] = frame[list(apart)].convert_dtypes()
    notes = _notes(layout, frame, models, dataset, sampling)
    title = layout.title
    if dataset not in {None, layout.dataset} and frame["ours"].notna().any():
        title += f"; ours on the data set {dataset!r}, not that of the paper"
    return ResultsTable(name, title, frame, tuple(notes), rows, tuple(apart))


@dataclass(eq=False)
class _Row:
    """One row of ours: runs of one model, system and variant, and the measures of each column."""

    key: tuple[Any, ...]
    model: str
    traits: dict[str, Any] = field(default_factory=dict)
    models: list[pd.DataFrame] = field(default_factory=list)
    measures: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def runs(self) -> str:
        """Names of the stored runs."""
        return ", ".join(dict.fromkeys(filter(None, (source_of(frame).run for frame in self.models))))


def _rows(
    models: Sequence[pd.DataFrame], task: str, columns: Sequence[Column], sampling: BootstrapSettings
) -> list[_Row]:
    """Measure the predictions of each column, and merge runs of one model into one row where they fit."""
    rows: list[_Row] = []
    for model in models:
        for key, frame in _variants_of(model, task):
            measures: dict[str, dict[str, Any]] = {}
            for split, word_class in dict.fromkeys((each.split, each.word_class) for each in columns):
                mask = (frame["split"] == split) & (word_class is None or frame["word_class"] == word_class)
                measured = measure(frame[mask], sampling) | {"is_random": is_random(model)}
                alike = [each for each in columns if (each.split, each.word_class) == (split, word_class)]
                measures |= {each.label: measured for each in alike if measured["n"]}
            if not measures:
                continue
            same = (row for row in rows if (row.key, row.model) == (key, source_of(model).model))
            row = next((row for row in same if not row.measures.keys() & measures.keys()), None)
            if row is None:
                rows.append(row := _Row(key, source_of(model).model))
            row.measures.update(measures)
            row.models.append(model)
    return rows


def _add_distinctions(rows: Sequence[_Row]) -> list[str]:
    """Add to rows of one section the columns in which those of one model differ; return their names."""
    traits = [
        traits_of(row.models[0]) | dict(zip(_KEYS, row.key, strict=True)) | {"run": row.runs} for row in rows
    ]
    apart = differing([row.model for row in rows], traits).drop(columns=_NOT_OF_ROWS, errors="ignore")
    records: Any = apart.to_dict("records")
    for row, values in zip(rows, records, strict=True):
        row.traits = values
    return list(apart.columns)


def _variants_of(frame: pd.DataFrame, task: str) -> Iterator[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Group predictions of one model by system and variant: each group may be a row."""
    variants = frame["variant"]
    if task == "cbt":  # that of a question is its word class: a column, not a row
        codes = variants.map(language)
        variants = ("cbt-" + codes).where(codes != ENGLISH, None)
    keys = [variants if name == "variant" else frame[name] for name in _KEYS]
    groups: Any = frame.groupby(keys, dropna=False, observed=True, sort=False)
    for values, group in groups:
        yield tuple(None if pd.isna(value) else value for value in values), group.reset_index(drop=True)


def _ordered(rows: Sequence[_Row], columns: Sequence[Column]) -> Iterator[tuple[str | None, _Row | None]]:
    """Yield systems with our rows (None: missing) in the order of the paper, then the other rows."""
    rest = list(rows)
    for system in dict.fromkeys(system for column in columns for system in column.printed):
        of_system: list[_Row | None] = [row for row in rest if normalised(row.key[0]) == normalised(system)]
        rest = [row for row in rest if row not in of_system]
        yield from ((system, row) for row in of_system or [None])
    yield from ((row.key[0], row) for row in rest)


def _sizes(name: str, column: Column, dataset: str | None) -> tuple[int | None, int | None]:
    """Return the items of a column's released set and of the paper's numbers; None where ours are others."""
    task = name.partition("-")[0]
    if dataset not in {None, task}:
        return None, None
    released = published.released_size(task, column.split, filter(None, [column.word_class]))
    printed = column.split != "dev" or task == "cnnqa" or f"{name} dev" in _SOURCES
    return released, released if printed else None


def _cell(
    column: Column, system: str | None, row: _Row | None, released: int | None, size: int | None
) -> dict[str, Any]:
    printed = column.printed.get(system or "", "")
    cell: dict[str, Any] = {
        **{name: getattr(column, name) for name in ("section", "split", "word_class", "measure")},
        "system": system, "column": column.label, "measured_in": column.unit,
        "printed": printed or None, "published": float(printed) if printed else None,
    }  # fmt: skip
    if row is not None:
        cell |= dict(zip(_KEYS[1:], row.key[1:], strict=True))
        cell |= {"model": row.model, "run": row.runs} | row.traits
    if row is None or (measures := row.measures.get(column.label)) is None:
        return cell
    scale = _PERCENT if column.unit == "percent" else 1
    ends = {"ours": "", "low": "_low", "high": "_high"}
    cell |= {name: scale * measures.get(f"{column.measure}{end}", np.nan) for name, end in ends.items()}
    cell |= {"n_of_paper": size, "n_released": released}
    is_english = language(cell["variant"]) == ENGLISH
    if printed and measures["n"] == size and is_english and is_of_papers(cell):
        cell["difference"] = cell["ours"] - cell["published"]
    if column.measure == "accuracy":
        cell["ours_known"] = scale * measures.get("accuracy_known", np.nan)
        cell["expected"] = scale * measures["expected_accuracy"]
        cell["is_drawn"] = measures["is_random"]
        if "n_seeds" in measures:
            cell |= {name: scale * measures[name] for name in _SPREAD}
            cell["n_seeds"] = measures["n_seeds"]
    cell["n"] = measures["n_perplexity" if column.measure == "perplexity" else "n"]
    return cell | {name: measures[name] for name in ("n_known", "resampled_by")}


def _notes(
    layout: Layout,
    frame: pd.DataFrame,
    models: Sequence[pd.DataFrame],
    dataset: str | None,
    sampling: BootstrapSettings,
) -> Iterator[str]:
    ours = frame[frame["ours"].notna()]
    if not len(ours):
        yield f"There are no results for {layout.dataset} yet."
        return
    splits, is_same = ", ".join(sorted(set(ours["split"]))), dataset in {None, layout.dataset}
    rest = "" if is_same else ", not on those of the paper"
    yield f"Our results are on items of {layout.dataset if is_same else dataset} ({splits}){rest}."
    yield from layout.notes
    values = {name: ours[name].dropna().unique().tolist() for name in ("variant", *VARIANT)}
    texts = {label(name): ", ".join(map(str, each)) for name, each in values.items() if each}
    yield f"{'. '.join(f'{name}: {text}' for name, text in texts.items())}."
    lost: dict[str, float] = {}
    for cell in ours[(ours["measure"] == "accuracy") & (ours["n_known"] > 0)].to_dict("records"):
        lost[cell["model"]] = max(lost.get(cell["model"], 0.0), 1 - cell["n_known"] / cell["n"])
    yield from unknown_note(lost)
    if (ours["printed"].notna() & ours["difference"].isna() & ours["n"].gt(0)).any():
        yield _APART
    level, resamples, seed = sampling
    yield f"Intervals: {_PERCENT * level:g} %, bootstrap with {resamples:,} replicates, seed {seed}."
    yield from shared_notes(list(map(asked_items, models, labels(models))))
    if (ours["resampled_by"] == "item").any():
        yield from units_note("item", 0, is_few=False)
    seeds = {f"{each.model}: {each.info['seed']}" for each in map(source_of, models) if "seed" in each.info}
    if seeds:
        yield f"Seeds of the runs: {'; '.join(sorted(seeds))}."
