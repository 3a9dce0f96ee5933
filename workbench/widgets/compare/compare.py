"""Models side by side: accuracy, differences, outcomes by item, and the words that each expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import traitlets

from workbench.analysis.binning import binning
from workbench.analysis.mentions import mentions
from workbench.evaluation.align import align
from workbench.evaluation.comparison import Comparison
from workbench.evaluation.minimal_pairs import pair_items, pair_models
from workbench.items.items import Items, check_items
from workbench.items.query import references
from workbench.items.tokens import tokens
from workbench.render.labels import label
from workbench.storage.errors import check_option
from workbench.widgets.compare import view
from workbench.widgets.compare.page import (
    ORDERS,
    difference_numbers,
    item_rows,
    model_numbers,
    prediction_texts,
    settings_numbers,
    slice_numbers,
)
from workbench.widgets.compare.selection import STATE_OF_COMPARE, ComparedItems
from workbench.widgets.shared.annotating import AUTO, Annotating, annotations_at_hand
from workbench.widgets.shared.list_widget import ListWidget, state_part
from workbench.widgets.shared.passages import align_to_items, cell_text, item_kind, stored_runs
from workbench.widgets.shared.published import Rows, column_data, passages_data
from workbench.widgets.shared.search import item_hits
from workbench.widgets.shared.shading import attention_shading, shaded_passage
from workbench.widgets.shared.widget import StaticView, closed_on_error, read_assets

if TYPE_CHECKING:
    from workbench.widgets.ask.ask import Ask

_SCRIPTS = (
    "shared/page.js", "shared/list.js", "shared/filters.js", "shared/passage.js", "shared/chart_table.js",
    "compare/models.js", "compare/scatter.js", "compare/slices.js", "compare/compare.js",
)  # fmt: skip
_WORDS = 10  # of a model, as bars
_IN_BACKGROUND = 1_000_000  # predictions from which models are resampled while the page is answered
_FROM_TOP = {"facets", "where", "search", "sort"}  # what brings the list back to its first item


class Compare(ListWidget):
    """A widget that compares models; made by :func:`compare`.

    Attributes
    ----------
    state : dict
        The view as plain values; setting it changes the view, and
        ``wb.compare(items, runs, state=view.state)`` is the same view again. ``facets``, ``where``,
        ``search``, ``field``, ``regex`` and ``current`` are as in `Browser.state`, over columns of items,
        annotations and models, such as ``target_class = 'CN' and "LSTM: rank" <= 10``; the facets
        ``{"LSTM: correct": [True], "3-gram: correct": [False]}`` are a cell of the matrix. ``sort`` is one of
        `workbench.widgets.compare.selection.SORTS`, and ``column`` that of the chart. ``pair``: two models
        whose numbers are shown where no cell is chosen, and whose log-probabilities ``difference`` subtracts;
        by default the two best. ``hidden``: models that are left out below the table; ``attention``: the
        model whose attention is shown; ``shade``: the influence or surprisal that the passage is shaded by,
        by its name. ``baseline``: a model; the others are shown as differences from it, with their
        improvements and regressions.
    """

    _esm = read_assets(*_SCRIPTS)
    _css = read_assets("shared/list.css", "shared/chart_table.css", "compare/compare.css")
    _verb, _shows = "compare", "comparison of models"
    height = traitlets.Int(860, min=480).tag(sync=True)
    column = state_part("column", "The column of the chart.")

    @closed_on_error
    def __init__(
        self,
        comparison: Comparison,
        *,
        annotations: Items | pd.DataFrame | None,
        remake: Callable[[pd.DataFrame], Comparison] | None,
        state: Mapping[str, Any],
        by_name: bool = True,
        ask: Ask | None = None,
        influence: Any = None,
        surprisal: Any = None,
        runs: Any = (),
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._remake, self._asked = remake, ask
        self._measuring: Thread | None = None
        self._resampling = False
        self._closed = False
        self._runs, self._takes_frames = stored_runs(runs)
        self._arguments = ["items", "runs", *["annotations"] * by_name]
        self._shade(comparison.items, influence=influence, surprisal=surprisal)
        self._annotating = Annotating(
            comparison.items, arrived=self._on_annotations, changed=self._on_progress
        )
        self._load(comparison, annotations)
        self.state = {"shade": self._empty()["shade"], **state}
        self.observe(self._follow_state, "state")

    def _load(self, comparison: Comparison, annotations: Items | pd.DataFrame | None) -> None:
        """Set a comparison, in place of one of the same models and items."""
        self._listing: ComparedItems = ComparedItems(comparison)
        ids = comparison.items.frame["item_id"]
        self._annotations = align_to_items(annotations, ids, "annotations")
        self._cells: list[list[dict[str, Any] | None]] | None = None
        self._models: list[dict[str, Any]] = []
        self._quick: list[dict[str, Any]] | None = None
        self._drawn: tuple[Any, dict[str, Any]] | None = None  # the chart, and what it is of

    # -- state, as Python sees it

    @property
    def comparison(self) -> Comparison:
        """The comparison, whose tables are the numbers of the widget."""
        return self._listing.comparison

    def _empty(self) -> dict[str, Any]:
        shade = next(iter(self._shadings), "")
        return STATE_OF_COMPARE | {"column": self._listing.first_column, "shade": shade}

    def _applied(self, state: Mapping[str, Any]) -> dict[str, Any]:
        if shade := state.get("shade"):
            check_option("shade", shade, list(self._shadings))
        return super()._applied(state)

    def to_frame(self) -> pd.DataFrame:
        """Return the listed items in their order, one row each.

        Columns are ``item_id``, ``passage`` (readable, with the answer in place), ``answer``; for each model
        ``"<label>: prediction"``, ``"<label>: correct"``, ``"<label>: rank"`` and ``"<label>: log_prob"``;
        ``n_right`` and ``disagreement`` (from 0 to 1) over all models; annotations.
        """
        rows, comparison = self._listing.rows, self.comparison
        names = comparison.frame_columns
        names = names[: names.index("disagreement") + 1]  # then come columns of the items
        frame = comparison.frame_of(names).iloc[rows].reset_index(drop=True)
        frame.insert(1, "passage", [comparison.items[int(row)].readable([])[0] for row in rows])
        extra = self._annotations.iloc[rows].reset_index(drop=True)
        return pd.concat([frame, extra.loc[:, ~extra.columns.isin(frame.columns)]], axis=1)

    def to_html(self, *, limit: int = 200) -> str:
        """Return a self-contained page without scripts: the numbers, and the first `limit` listed items."""
        with self._lock:
            self._resample()
        return super().to_html(limit=limit)

    def _static(self, limit: int) -> StaticView:
        with self._lock:
            comparison, listing, overview = self.comparison, self._listing, self._overview()
            visible, best = listing.visible_models(), (listing.best or (0, 0))[0]
            numbers = [
                *self._static_numbers(ORDERS[self.state["sort"]]),
                *model_numbers(comparison, overview, self._selected()["accuracy"]),
                *difference_numbers(comparison, overview, self._baseline(), best),
                *slice_numbers(comparison, self.column, self._slices(), visible),
                *settings_numbers(comparison),
            ]  # fmt: skip
            columns, rows = item_rows(comparison, listing.rows[:limit].tolist(), visible)
        return StaticView("Models side by side", numbers, columns, rows, code=self.code)

    def _resample(self) -> None:
        """Compute the intervals and tests, unless they are known."""
        if self._cells is None:
            self._models, self._cells = view.model_rows(self.comparison), view.pair_cells(self.comparison)

    def _published_sort(self) -> str:
        return ""  # the orders of a comparison are of ranks and differences, which are no columns

    def _published_numbers(self) -> list[tuple[str, str]]:
        self._resample()
        comparison, models = self.comparison, list(range(self.comparison.m))
        overview, best = self._overview(), (self._listing.best or (0, 0))[0]
        slices = view.slice_bars(comparison, self.column, np.ones(comparison.n, dtype=bool), models)
        return [
            *model_numbers(comparison, overview, [None] * comparison.m),
            *difference_numbers(comparison, overview, self._baseline(), best),
            *slice_numbers(comparison, self.column, slices, models), *settings_numbers(comparison),
        ]  # fmt: skip

    def _published_data(self, rows: Rows, *, notes: bool) -> dict[str, Any]:  # noqa: ARG002 - there are none
        self._resample()
        comparison, labels = self.comparison, self.comparison.labels
        texts = pd.DataFrame({
            "item_id": comparison.items.frame["item_id"].to_numpy()[rows],
            "answer": [comparison.answers[row] or "?" for row in rows],
        })  # fmt: skip
        for k, label_of_model in enumerate(labels):
            texts[f"prediction: {label_of_model}"] = prediction_texts(comparison, k, rows.tolist())
        correct = self._published_facets()[: comparison.m]
        table = comparison.frame_of([*correct, *comparison.columns]).iloc[rows].reset_index(drop=True)
        names = list(map(str, texts))
        headings = ["Item", "Answer", *labels]
        columns = [
            column_data(texts, name) | {"label": heading}
            for name, heading in zip(names, headings, strict=True)
        ]
        columns += [column_data(table, name, facet=binning(name, table[name])) for name in correct]
        columns += [
            column_data(table, name, facet=self._listing.facets[name], opened=name == self.column)
            for name in comparison.columns
            if name not in names
        ]
        outcomes = [
            [each and {"text": each["text"], "about": each["about"]} for each in row]
            for row in self._cells or []
        ]
        return {
            "noun": "item", "n": len(rows), "columns": columns,
            "passage": passages_data(comparison.items, rows),
            "shown": ["item_id", "passage", *names[1:]], "outcomes": {"models": labels, "cells": outcomes},
        }  # fmt: skip

    def _published_facets(self) -> list[str]:
        return [*(f"{label}: correct" for label in self.comparison.labels), *self.comparison.columns]

    def _facts(self, row: int) -> list[tuple[str, str]]:
        """Return the annotations of the item in a row as labels and values."""
        values, columns = self._annotations.iloc[row].items(), self.comparison.columns
        return [(label(str(name), unit=True), cell_text(value)) for name, value in values if name in columns]

    # -- what the page asks

    def _on_open(self, message: Mapping[str, Any]) -> None:
        self.send(self._overview())
        super()._on_open(message)

    def _on_measure(self, _message: Mapping[str, Any]) -> None:
        """Resample, and start the annotations, as the page requests once its first view is drawn."""
        if self._cells is None and self._measuring is None:
            self._measuring = Thread(target=self._measure, name="measure", daemon=True)
            self._resampling = self.comparison.n * self.comparison.m > _IN_BACKGROUND
            if self._resampling:
                self._measuring.start()
            else:
                self._measuring.run()
        elif self._cells is not None:
            self._send_measured()
        if self._remake is not None:
            self._annotating.start()
        if self._remake is not None or self._cells is None:
            self._send_progress()
        _ = self._listing.search  # so that the first one is as quick as the second

    def _measure(self) -> None:
        """Resample, without the lock where it takes long, so that the page is answered meanwhile."""
        try:
            models, cells = view.model_rows(self.comparison), view.pair_cells(self.comparison)
        except MemoryError as error:
            self._resampling = False
            self._send_progress()
            self.send(
                {"type": "error", "request": None, "message": f"The models were not resampled: {error}"}
            )
            return
        with self._lock:
            self._models, self._cells, self._resampling = models, cells, False
            if not self._closed:
                self._send_measured()

    def _send_measured(self) -> None:
        self.send(self._overview() | {"selected": self._selected(), "baseline": self._baseline()})

    def _on_query(self, message: Mapping[str, Any]) -> None:
        changes = dict(message.get("state") or {})
        if _FROM_TOP & set(changes):
            changes.setdefault("current", "")
        super()._on_query({**message, "state": changes})

    def _on_scatter(self, _message: Mapping[str, Any]) -> None:
        listing, labels = self._listing, self.comparison.labels
        two = listing.scatter_pair()
        names = [f"{labels[k]}: log_prob" for k in two or ()]
        mask = listing.mask(but=[*names, *listing.cell_columns])
        drawn = view.scatter_points(self.comparison, two, mask)
        brush = [
            edge if end is None else min(max(end, drawn["low"]), 0.0)
            for name in names
            for end, edge in zip(self.state["facets"].get(name, ()), (drawn["low"], 0.0), strict=False)
        ]
        self.send({**drawn, "type": "scatter", "names": names, "brush": brush})

    def _on_pick(self, message: Mapping[str, Any]) -> None:
        """Show an item by its index in the comparison; DataError if it is not listed."""
        self.send({"type": "picked"})
        self.current_id = self.comparison.items[int(message["row"])].item_id

    # -- how it is answered

    def _overview(self) -> dict[str, Any]:
        """Return the part of the view that is independent of the state: models, and resampled pairs."""
        return {
            "type": "whole", "warnings": list(self.comparison.warnings), "total": self.comparison.n,
            **view.model_table(self.comparison, self._models or self._points), "pairs": self._cells,
            "note": self._progress, "asks": self._asked is not None,
        }  # fmt: skip

    @property
    def _points(self) -> list[dict[str, Any]]:
        """Rows of the models without resampled values."""
        if self._quick is None:
            self._quick = view.model_rows(self.comparison, quick=True)
        return self._quick

    def _view(self) -> dict[str, Any]:
        listing, columns = self._listing, self.comparison.columns
        cell, two = listing.outcome(), listing.difference_pair()
        return super()._view() | {
            "shown": listing.visible_models(), "subtracted": two, "counts": listing.counts(),
            "cell": cell, "cell_text": listing.cell_text,
            "selected": self._selected(), "slices": self._slices(), "baseline": self._baseline(),
            "columns": [[name, label(name, unit=True)] for name in columns],
            "example": listing.example(filter(None, [listing.first_column])),
        }  # fmt: skip

    def _baseline(self) -> dict[str, Any] | None:
        """Return the differences from the baseline; None without one, and before the resampling."""
        return view.baseline_rows(self.comparison, self._listing.baseline()) if self._cells else None

    def _selected(self) -> dict[str, Any]:
        listing, two = self._listing, self._listing.shown_pair()
        mask, in_cell = listing.mask(), bool(listing.outcome())
        numbers = view.selected_numbers(self.comparison, mask, two, in_cell=in_cell, cells=self._cells)
        others = listing.mask(but=listing.cell_columns) if in_cell else mask
        return numbers | {"cells": two and view.outcome_counts(self.comparison, two, others)}

    def _slices(self) -> dict[str, Any]:
        """Return the chart of slices, cached while only the cell or the order changes."""
        listing, column = self._listing, self.column
        mask = listing.mask(but=[column, *listing.cell_columns])
        key = column, mask.tobytes(), listing.visible_models()
        if self._drawn is None or self._drawn[0] != key:
            self._drawn = key, view.slice_bars(self.comparison, column, mask, listing.visible_models())
        return self._drawn[1]

    def _row(self, row: int) -> dict[str, Any]:
        item, visible = self.comparison.items[row], self._listing.visible_models()
        return view.item_row(self.comparison, row, visible, item, self.state)

    def _passage(self, row: int) -> dict[str, Any]:
        """Return the item in a row, with the best words of the visible models, those of the cell first."""
        item, cell = self.comparison.items[row], self._listing.outcome()
        visible = self._listing.visible_models()
        first = [k for k in cell[:2] if k in visible] if cell else []
        order = [*first, *(k for k in visible if k not in first)]
        n, top, labels = len(tokens(item).words), self.comparison.top(row), self.comparison.labels
        weights = {labels[k]: top[k]["attention"] for k in order}
        weights = {name: each for name, each in weights.items() if each is not None and len(each) == n}
        looks = attention_shading(item, weights.get(self.state["attention"]))
        marks = {"m": mentions(item), "h": item_hits(item, self.state)}
        return {
            "id": item.item_id, "kind": item_kind(item, item.book_id), "answer": item.answer,
            "candidates": item.candidates, "facts": self._facts(row), "attention": [*weights],
            "shadings": list(self._shadings),
            **shaded_passage(item, marks, self._shadings.get(self.state["shade"]) or looks),
            **view.model_answers(self.comparison, row, order, item, limit=_WORDS),
        }  # fmt: skip

    # -- annotations, made while the reader looks already

    def _on_annotations(self, table: pd.DataFrame) -> None:
        """Add annotations: new columns to slice by, in place of the computed ones of the text."""
        assert self._remake is not None  # noqa: S101 - only then is anything annotated
        comparison, self._remake = self._remake(table), None
        with self._lock:
            models, cells = self._models, self._cells
            self._load(comparison, table)
            self._models, self._cells = models, cells
            before = self.state
            self.state = self._applied(self._listing.fitting(before))
            if self.state == before:
                self._send_view()

    @property
    def _progress(self) -> str:
        """Describe the work in progress: resampling, and annotations."""
        now, texts = self._annotating, []
        if self._resampling:
            texts.append(f"resampling {self.comparison.m} models for intervals and tests")
        if now.state == "running":
            texts.append(f"annotating: {now.done:,} of {self.comparison.n:,} items")
        return "; ".join(texts)

    def _send_progress(self) -> None:
        self.send({"type": "note", "text": self._progress})

    def _on_progress(self) -> None:
        self._send_progress()
        if self._annotating.problem:
            self.send({"type": "error", "request": None, "message": self._annotating.problem})

    def _finish(self) -> None:
        if self._cells is None:
            self._on_measure({})
        if self._resampling and self._measuring is not None:
            self._measuring.join()
        self._annotating.wait()

    def close(self) -> None:
        """Close the widget, and stop its annotations."""
        self._closed = True
        if hasattr(self, "_annotating"):
            self._annotating.close()
        super().close()


def compare(
    items: Items | pd.DataFrame,
    runs: Any = None,
    annotations: Items | pd.DataFrame | str | bool | None = AUTO,  # noqa: FBT001 - False says that there shall be none
    *,
    influence: Any = None,
    surprisal: Any = None,
    ask: Ask | None = None,
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    state: Mapping[str, Any] | None = None,
    height: int = 860,
) -> Compare:
    """Compare models in JupyterLab: accuracy, differences, outcomes by item, and expected words.

    Above, the models with their measures, and a matrix of the differences between them: a click on a cell
    lists the items that its row has right and its column wrong. In the middle, accuracies by a column of the
    annotations: a click on a group lists its items. Below, the items and the passage.

    Parameters
    ----------
    items : Items
        What was predicted. Each model is measured on its items whose answer is known, and two models are
        compared on those that both predicted. A frame of :func:`workbench.score_pairs` stands alone, without
        `runs`; the list shows the words in which the texts of a pair differ.
    runs : Run, DataFrame or str, or several of these
        Runs, frames of predictions (``item_id``, ``model`` and ``prediction`` are enough), or names of
        stored runs.
    annotations : DataFrame, Items, "auto" or None
        One row per item, as ``wb.annotate(items)`` gives it: its columns become slices, as your own
        (``items.extra``) do in any case. ``"auto"``, the
        default, annotates the items while the widget is already there; None leaves that out.
    influence, surprisal
        Shading of the passage, as in :func:`wb.browse`.
    ask : Ask, optional
        A widget of ``wb.ask``: the button "Ask about this" puts the item that is shown into it.
    level, resamples, seed
        Confidence level of the intervals, number of bootstrap replicates, and the bootstrap's seed.
    state : dict, optional
        View to start with, as ``Compare.state`` has it: ``wb.compare(items, runs, state=view.state)`` is the
        same view again; ``view.code`` is that line, and "Copy this view" puts it on the clipboard. Where it
        names a column of annotations that are not given, the items are annotated first.
    height : int, default 860
        Height of the widget in px; below 700 px width it takes 394 more.

    Returns
    -------
    Compare
        With ``state``, ``selection`` (Items), ``current``, ``to_frame()`` and ``to_html()``.

    Raises
    ------
    DataError
        If there are no predictions, a model has none of the items, or the state names what is not
        there.

    Examples
    --------
    >>> comparison = wb.compare(items, runs, annotations)
    >>> len(comparison.selection)
    30
    >>> comparison.close()
    >>> pairs = wb.score_pairs([ngram, ngram.cached()], [("It is here.", "It are here.")])
    >>> wb.compare(pairs).close()
    """
    are_pairs = runs is None
    if runs is None:
        runs, annotations = items, None
        items = pair_items(pair_models(items, "compare")[0])
    check_items(items, "compare")
    compared: Items = items  # type: ignore[assignment] # checked just now
    state = state or {}
    auto = isinstance(annotations, str)
    if auto:
        check_option("annotations", annotations, (AUTO,))
    table = None if isinstance(annotations, str | bool) else annotations

    def make(table: Items | pd.DataFrame | None) -> Comparison:
        return align(compared, runs, annotations=table, level=level, resamples=resamples, seed=seed)

    by_name, comparison = table is not None, make(table)
    if auto and (table := annotations_at_hand(comparison.items)) is None:
        written = references(str(state.get("where") or ""))
        names = {name for each in written for name in each.identifiers} | set(state.get("facets") or ())
        columns = {"", *comparison.columns}
        if not names <= set(comparison.frame_columns) or state.get("column", "") not in columns:
            from workbench.analysis.annotations import annotate  # noqa: PLC0415 - heavy

            table = annotate(comparison.items)
    if auto and table is not None:
        comparison = make(table)
    remake = make if auto and table is None else None
    view = Compare(
        comparison, annotations=table, remake=remake, state=state, by_name=by_name, ask=ask,
        influence=influence, surprisal=surprisal, runs=runs, height=height,
    )  # fmt: skip
    if are_pairs:
        view._arguments = ["pairs"]  # noqa: SLF001 - the line that shows the view again
    return view
