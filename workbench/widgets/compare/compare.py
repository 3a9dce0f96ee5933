"""Models side by side: how good each is, how they differ, on which items, and what each expected there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import pandas as pd
import traitlets

from workbench.evaluation.comparison import Comparison
from workbench.items.items import DataError, Item, Items
from workbench.widgets.compare.page import comparison_page, models_table
from workbench.widgets.compare.view import View
from workbench.widgets.shared.passages import check_items
from workbench.widgets.shared.widget import Widget, read_assets

_SCRIPTS = (
    "shared/page.js", "compare/base.js", "compare/top.js", "compare/selected.js", "compare/slices.js",
    "compare/items.js",
    "compare/compare.js",
)  # fmt: skip


class Compare(Widget):
    """A widget that compares models; made by :func:`compare`.

    Attributes
    ----------
    chosen : dict
        The state, as plain values; setting it (``{**widget.chosen, "sort": "all wrong"}``) changes the view.
        ``pair``: [a, b], two models, and ``outcome``, one of `workbench.evaluation.comparison.OUTCOMES`: only
        items that a has right and b wrong (``"only first"``, the default), the other way, that both have
        right or wrong, or ``"any"``. ``bins``: chosen bins by column. ``sort``: one of
        `workbench.widgets.compare.selector.SORTS`. ``against``: two models whose
        log-probabilities ``difference`` subtracts; those of the pair, or the first two, by default.
        ``hidden``: models that are left out below the table. ``query``: text that the
        passage contains. ``where``: a typed filter over columns of items, annotations and models, such as
        ``target_class = CN and `model: rank` <= 10`` (`workbench.items.query`).
    column : str
        The column of the chart.
    current_id : str
        The item that is shown.
    """

    _esm = read_assets(*_SCRIPTS)
    _css = read_assets("compare/compare.css")
    chosen = traitlets.Dict().tag(sync=True)
    column = traitlets.Unicode("").tag(sync=True)
    current_id = traitlets.Unicode("").tag(sync=True)
    height = traitlets.Int(860, min=480).tag(sync=True)

    def __init__(
        self,
        comparison: Comparison,
        *,
        annotations: pd.DataFrame | None,
        remake: Callable[[pd.DataFrame], Comparison] | None,
        chosen: Mapping[str, Any],
        column: str,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._remake, self._note = remake, ""
        self._lock = threading.RLock()  # messages are heard in one thread, cells run in another
        self._view = View(comparison, annotations)
        self._view.slice_by(column)
        self._view.choose(chosen)
        self._sync()
        self.observe(self._set, ["chosen", "column", "current_id"])

    # -- state, as Python sees it

    @property
    def comparison(self) -> Comparison:
        """What is shown: its tables are the numbers of the widget."""
        return self._view.comparison

    @property
    def state_kwargs(self) -> dict[str, Any]:
        """The state as arguments: ``wb.compare(items, runs, **widget.state_kwargs)`` is this view again."""
        return dict(self._view.chosen) | {"column": self._view.column}

    @property
    def selection(self) -> Items:
        """The items in the list, in the order of the set."""
        return self._view.items

    @property
    def current(self) -> Item | None:
        """The item that is shown; None where nothing is. An id or an Item can be assigned."""
        return self.comparison.items[self.current_id] if self.current_id else None

    @current.setter
    def current(self, item: Item | str) -> None:
        self.current_id = item.item_id if isinstance(item, Item) else item

    def to_frame(self) -> pd.DataFrame:
        """Return the items of the list, in its order, one row each.

        Columns are ``item_id``, ``passage`` (readable, with the answer in place), ``answer``; for each model
        ``"<label>: prediction"``, ``"<label>: correct"``, ``"<label>: rank"`` and ``"<label>: log_prob"``;
        ``n_right`` and ``disagreement`` (from 0 to 1) over all models; annotations.
        """
        return self._view.frame()

    def to_html(self, *, limit: int = 200) -> str:
        """Return a page of its own: the tables, what is chosen, and the first `limit` items of the list."""
        view = self._view
        shown = view.selector.shown(view.chosen)
        return comparison_page(
            view.comparison, view.rows, limit=limit, filters=view.filters(), sort=view.chosen["sort"],
            pair=view.selector.two(view.chosen), column=view.column, shown=shown, facts=view.facts,
            outcome=view.chosen["outcome"] if view.chosen["pair"] else "any",
        )  # fmt: skip

    def _static(self, most: int) -> str:  # noqa: ARG002 - it holds no passages
        with self._lock:
            overview, view = self._view.overview(quick=True), self._view
            parts = [f"{len(view.rows):,} of {view.comparison.n:,} items", "; ".join(view.filters())]
        summary = ": ".join(filter(None, parts))
        return models_table(overview["models"], summary, overview["warnings"])

    # -- what Python sets

    def _set(self, change: Mapping[str, Any]) -> None:
        """Take a trait over, or give it its value back and raise DataError."""
        with self._lock:
            name, value, view = change["name"], change["new"], self._view
            if value == {"chosen": view.chosen, "column": view.column, "current_id": view.current}[name]:
                return
            try:
                if name == "chosen":
                    view.choose(value)
                elif name == "column":
                    view.slice_by(value)
                elif view.index(value) < 0:
                    raise DataError(f"the item {value!r} is not among those listed", remedy="choose less")
                else:
                    view.current = value
            finally:
                self._sync()
            self.send(view.shown())

    def _sync(self) -> None:
        """Let the traits say what the view is."""
        view = self._view
        self.chosen, self.column, self.current_id = deepcopy(view.chosen), view.column, view.current

    # -- what the page asks

    def _answer(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            super()._answer(message)

    def _on_open(self, _message: Mapping[str, Any]) -> None:
        view = self._view
        self.send(view.overview(quick=True) | {"note": self._note})
        self.send(view.shown())

    def _on_measure(self, _message: Mapping[str, Any]) -> None:
        """Resample, and begin to annotate: the page asks for it once the reader sees the rest."""
        view = self._view
        self.send(view.overview() | {"note": self._note})
        if self._remake is not None:
            remake, self._remake = self._remake, None
            self._tell(f"annotating {self.comparison.n:,} items …")
            threading.Thread(target=self._annotate, args=[remake], name="annotate", daemon=True).start()
        view.selector.prepare()  # so that the first search is as quick as the second

    def _on_choose(self, message: Mapping[str, Any]) -> None:
        view = self._view
        column = view.selector.column(message.get("column", view.column))
        view.choose(view.chosen | message.get("chosen", {}))
        view.column = column
        self.send(view.shown())  # it is what the reader waits for; the traits follow
        self._sync()

    def _on_rows(self, message: Mapping[str, Any]) -> None:
        start, version = max(0, int(message["start"])), self._view.version
        rows = self._view.listed(start, int(message["end"])) if message["version"] == version else []
        self.send({"type": "rows", "version": version, "start": start, "rows": rows})

    def _on_show(self, message: Mapping[str, Any]) -> None:
        index, view = int(message["index"]), self._view
        if message["version"] != view.version or not 0 <= index < len(view.rows):
            self.send({"type": "passage", "version": -1, "index": index, "passage": None})
            return
        passage = view.passage(index)
        self.send({"type": "passage", "version": view.version, "index": index, "passage": passage})
        view.current = passage["id"]
        self._sync()

    # -- annotations, made while the reader looks already

    def _tell(self, note: str) -> None:
        self._note = note
        self.send({"type": "note", "text": note})

    def _annotate(self, remake: Callable[[pd.DataFrame], Comparison]) -> None:
        """Annotate, in a thread of its own: new columns to slice by, in the place of those of the text."""
        problem = ""
        try:
            from workbench.analysis.annotations import annotate  # noqa: PLC0415 - heavy

            table = annotate(self.comparison.items, progress=False)
            made = remake(table)
            with self._lock:
                self._view.retake(made, table)
                self._sync()
                self.send(self._view.shown())
        except Exception as error:  # noqa: BLE001 - the reader is told, the rest of the widget works
            problem = f"the items could not be annotated: {error}"
        with self._lock:
            self._tell("")
            if problem:
                self.send({"type": "error", "lane": None, "message": problem})


def compare(
    items: Items,
    runs: Any,
    annotations: pd.DataFrame | bool | None = None,  # noqa: FBT001 - False says that there shall be none
    *,
    column: str = "",
    pair: Sequence[str] | None = None,
    outcome: str = "only first",
    bins: Mapping[str, Sequence[str]] | None = None,
    sort: str = "order",
    against: Sequence[str] | None = None,
    hidden: Sequence[str] = (),
    query: str = "",
    where: str = "",
    level: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
    height: int = 860,
) -> Compare:
    """Compare models in JupyterLab: how good, how different, where, and what each expected.

    Above, the models with their measures, and a matrix of the differences between them: a click on a cell
    lists the items that its row has right and its column wrong. In the middle, accuracies by a column of the
    annotations: a click on a group lists its items. Below, the items and the passage.

    Parameters
    ----------
    items : Items
        What was predicted. Compared are the items that every model predicted and whose answer is known.
    runs : Run, DataFrame or str, or several of these
        Runs, frames of predictions, or names of stored runs.
    annotations : DataFrame or False, optional
        One row an item, as ``wb.annotate(items)`` gives it: its columns become slices. Without them the
        items are annotated while the widget is already there; False leaves that out.
    column : str
        The column of the chart at the start; that of the target's class, or the first, by default.
    pair, outcome, bins, sort, against, hidden, query, where
        What is chosen at the start, as in ``Compare.chosen``: ``wb.compare(items, runs,
        **widget.state_kwargs)`` is the same view again. Where these name a column of annotations that are
        not given, the items are annotated first.
    level, resamples, seed
        Confidence level of the intervals, number of bootstrap replicates, and the bootstrap's seed.
    height : int, default 860
        Height of the widget in px; below 700 px width it takes 340 more.

    Returns
    -------
    Compare
        With ``chosen``, ``column``, ``current_id``, ``selection`` (Items), ``to_frame()``, ``to_html()``.

    Raises
    ------
    DataError
        If there are no predictions, the models have no item in common, or the state names what is not
        there.

    Examples
    --------
    >>> comparison = wb.compare(items, runs, annotations)
    >>> len(comparison.selection)
    30
    >>> comparison.close()
    """
    check_items(items, "compare")
    if annotations is True or not (annotations is None or isinstance(annotations, bool | pd.DataFrame)):
        raise DataError(
            f"the annotations are {annotations!r:.80}, expected a frame, None or False",
            remedy="make them with wb.annotate(items)",
        )

    def make(table: pd.DataFrame | None) -> Comparison:
        return Comparison.of(items, runs, annotations=table, level=level, resamples=resamples, seed=seed)

    table = annotations if isinstance(annotations, pd.DataFrame) else None
    made = make(table)
    later = annotations is None
    if later and not {column, *(bins or {})} - {""} <= set(made.columns):
        from workbench.analysis.annotations import annotate  # noqa: PLC0415 - heavy

        table, later = annotate(made.items), False
        made = make(table)
    chosen = {
        "pair": pair, "outcome": outcome, "bins": bins, "sort": sort, "against": against, "hidden": hidden,
        "query": query, "where": where,
    }  # fmt: skip
    remake = make if later else None
    return Compare(made, annotations=table, remake=remake, chosen=chosen, column=column, height=height)
