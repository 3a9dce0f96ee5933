"""Models side by side: how good each is, how they differ, on which items, and what each expected there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import pandas as pd
import traitlets

from workbench.evaluation.comparison import Comparison
from workbench.items.items import Item, Items
from workbench.items.query import parse, suggest, word_start
from workbench.storage.errors import DataError
from workbench.widgets.compare.page import comparison_page, models_table
from workbench.widgets.compare.selector import NOTHING
from workbench.widgets.compare.view import View
from workbench.widgets.shared.annotating import AUTO, Annotating, annotations_at_hand
from workbench.widgets.shared.passages import check_items
from workbench.widgets.shared.widget import Widget, closed_on_error, read_assets

if TYPE_CHECKING:
    from workbench.widgets.ask.ask import Ask

_SCRIPTS = (
    "shared/page.js", "compare/base.js", "compare/bar.js", "compare/top.js", "compare/selected.js",
    "compare/scatter.js", "compare/slices.js", "compare/items.js", "compare/compare.js",
)  # fmt: skip


class Compare(Widget):
    """A widget that compares models; made by :func:`compare`.

    Attributes
    ----------
    chosen : dict
        The state, as plain values; setting it (``{**widget.chosen, "sort": "all wrong"}``) changes the view.
        ``pair``: [a, b], two models, and ``outcome``, one of `workbench.evaluation.comparison.OUTCOMES`: only
        items that a has right and b wrong (``"only first"``, the default), the other way, that both have
        right or wrong, or ``"any"``; without a pair, all items are listed, and the numbers are those of the
        best model and the one below it. ``bins``: chosen bins by column. ``sort``: one of
        `workbench.widgets.compare.selector.SORTS`. ``against``: two models whose log-probabilities
        ``difference`` subtracts; by default those of the pair, else the two best models that have some.
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

    @closed_on_error
    def __init__(
        self,
        comparison: Comparison,
        *,
        annotations: Items | pd.DataFrame | None,
        remake: Callable[[pd.DataFrame], Comparison] | None,
        chosen: Mapping[str, Any],
        column: str,
        by_name: bool = True,
        ask: Ask | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._remake, self._note, self._ask = remake, "", ask
        self._by_name = by_name
        self._annotating = Annotating(comparison.items, arrived=self._arrived, changed=self._changed)
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
    def code(self) -> str:
        """The line of Python that shows this view again."""
        plain = NOTHING | {"column": self._view.selector.column("")}
        parts = [f"{name}={value!r}" for name, value in self.state_kwargs.items() if value != plain[name]]
        return f"wb.compare({', '.join(['items', 'runs', *['annotations'] * self._by_name, *parts])})"

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
            self._show()

    def _show(self) -> None:
        """Send the view to the page."""
        self.send(self._view.shown() | {"code": self.code})

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
        self.send(view.overview(quick=True) | {"note": self._note, "asks": self._ask is not None})
        self._show()

    def _on_measure(self, _message: Mapping[str, Any]) -> None:
        """Resample, and begin to annotate: the page asks for it once the reader sees the rest."""
        view = self._view
        self.send(view.overview() | {"note": self._note, "asks": self._ask is not None})
        if self._remake is not None:
            self._annotating.start()
            self._tell()
        view.selector.prepare()  # so that the first search is as quick as the second

    def _on_choose(self, message: Mapping[str, Any]) -> None:
        view = self._view
        column = view.selector.column(message.get("column", view.column))
        view.choose(view.chosen | message.get("chosen", {}))
        view.column = column
        self._show()  # it is what the reader waits for; the traits follow
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

    def _on_suggest(self, message: Mapping[str, Any]) -> None:
        """Answer with completions of a typed filter, each as the whole text."""
        text = str(message["text"])
        start, words = word_start(text, len(text)), suggest(text, len(text), self.comparison.frame)
        self.send({"type": "suggestions", "texts": [text[:start] + word for word in words]})

    def _on_scatter(self, message: Mapping[str, Any]) -> None:
        self.send(self._view.scatter(str(message["where"])))

    def _on_pick(self, message: Mapping[str, Any]) -> None:
        """Show an item by its place in the comparison; one that is not listed is an error."""
        self.send({"type": "picked"})
        self.current_id = self.comparison.items[int(message["row"])].item_id

    def _on_ask(self, _message: Mapping[str, Any]) -> None:
        """Put the item that is shown into the ask widget."""
        if self._ask is not None and self.current is not None:
            self._ask.put(self.current)
            self.send({"type": "asked"})

    # -- annotations, made while the reader looks already

    def _arrived(self, table: pd.DataFrame) -> None:
        """Take annotations: new columns to slice by, in the place of those of the text."""
        assert self._remake is not None  # noqa: S101 - only then is anything annotated
        made, self._remake = self._remake(table), None
        with self._lock:
            self._view.retake(made, table)
            self._sync()
            self._show()

    def _tell(self) -> None:
        """Tell the page how far the annotations are."""
        now = self._annotating
        running = now.state == "running"
        self._note = f"annotating: {now.done:,} of {self.comparison.n:,} items" if running else ""
        self.send({"type": "note", "text": self._note})

    def _changed(self) -> None:
        self._tell()
        if self._annotating.problem:
            self.send({"type": "error", "lane": None, "message": self._annotating.problem})

    def close(self) -> None:
        """Close the widget; annotations that are under way stop."""
        if hasattr(self, "_annotating"):
            self._annotating.close()
        super().close()


def compare(
    items: Items,
    runs: Any,
    annotations: Items | pd.DataFrame | str | bool | None = AUTO,  # noqa: FBT001 - False says that there shall be none
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
    ask: Ask | None = None,
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
        Runs, frames of predictions (``item_id``, ``model`` and ``prediction`` are enough), or names of
        stored runs.
    annotations : DataFrame, Items, "auto" or None
        One row an item, as ``wb.annotate(items)`` gives it: its columns become slices, as those of one's own
        (``items.extra``) do in any case. ``"auto"``, the
        default, annotates the items while the widget is already there; None leaves that out.
    column : str
        The column of the chart at the start; that of the target's class, or the first, by default.
    pair, outcome, bins, sort, against, hidden, query, where
        What is chosen at the start, as in ``Compare.chosen``: ``wb.compare(items, runs,
        **widget.state_kwargs)`` is the same view again; ``widget.code`` is that line, and "Copy this view"
        puts it on the clipboard. Where these name a column of annotations that are not given, the items are
        annotated first.
    ask : Ask, optional
        A widget of ``wb.ask``: the button "Ask about this" puts the item that is shown into it.
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
    auto = isinstance(annotations, str) and annotations == AUTO
    table = annotations if isinstance(annotations, Items | pd.DataFrame) else None
    if not (auto or annotations is None or annotations is False or table is not None):
        raise DataError(
            f'the annotations are {annotations!r:.80}, expected a frame, "auto" or None',
            remedy="make them with wb.annotate(items)",
        )

    def make(table: Items | pd.DataFrame | None) -> Comparison:
        return Comparison.of(items, runs, annotations=table, level=level, resamples=resamples, seed=seed)

    by_name, made = table is not None, make(table)
    if auto and (table := annotations_at_hand(made.items)) is None:
        typed = parse(where).columns if where.strip() else ()
        known = {"", *made.columns, *(made.frame.columns if typed else ())}
        if not {column, *(bins or {}), *typed} <= known:
            from workbench.analysis.annotations import annotate  # noqa: PLC0415 - heavy

            table = annotate(made.items)
    if auto and table is not None:
        made = make(table)
    chosen = {
        "pair": pair, "outcome": outcome, "bins": bins, "sort": sort, "against": against, "hidden": hidden,
        "query": query, "where": where,
    }  # fmt: skip
    remake = make if auto and table is None else None
    return Compare(
        made,
        annotations=table,
        remake=remake,
        chosen=chosen,
        column=column,
        by_name=by_name,
        ask=ask,
        height=height,
    )
