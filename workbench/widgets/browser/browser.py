"""The passage browser: search, filter, read and mark items in JupyterLab."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import traitlets

from workbench.analysis.mentions import mentions
from workbench.analysis.speech import speech
from workbench.items import notes as remarks
from workbench.items.items import DataError, Item, Items, Span
from workbench.items.schema import objects
from workbench.render.labels import label
from workbench.widgets.shared.facets import TAGS, Filters, Labels, item_hits
from workbench.widgets.shared.passages import (
    align_to_items,
    cell_text,
    check_items,
    marks,
    outcomes,
    pieces,
    prediction_cells,
    snippet,
)
from workbench.widgets.shared.widget import Widget, read_assets, render

_FIRST_ROWS = 28


class Browser(Widget):
    """A widget to browse items; made by :func:`browse`.

    Attributes
    ----------
    filters : dict
        What is searched and chosen: ``query``, ``field``, ``regex``, ``facets``. Setting it
        changes the view; ``wb.browse(items, **browser.filters)`` builds it again.
    selection : Items
        The items that pass the filters.
    current : Item or None
        The one that is shown; an id or an Item can be assigned.
    reveal : bool
        Whether targets are shown from the start.
    """

    _esm = read_assets("shared/page.js", "browser/browser.js")
    _css = read_assets("browser/browser.css")
    filters = traitlets.Dict().tag(sync=True)
    current_id = traitlets.Unicode("").tag(sync=True)
    reveal = traitlets.Bool(default_value=False).tag(sync=True)
    height = traitlets.Int(620, min=240).tag(sync=True)

    def __init__(
        self,
        items: Items,
        *,
        annotations: pd.DataFrame | None,
        predictions: pd.DataFrame | None,
        filters: Mapping[str, Any],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._items = items
        self._frame = items.frame
        self._place = {item_id: row for row, item_id in enumerate(self._frame["item_id"])}
        self._annotations = align_to_items(annotations, self._frame["item_id"], "annotations")
        self._marks = marks(self._annotations, self._frame)
        self._columns = self._annotations.drop(columns=list(self._marks))
        self._predictions = prediction_cells(predictions)
        texts = dict(zip(self._frame["item_id"], self._frame["text"], strict=True))
        self._notes = remarks.read_notes(self._frame["dataset"].unique().tolist(), texts=texts)
        columns = {str(name): column for name, column in self._columns.items()}
        self._filters = Filters(items, columns | outcomes(predictions, self._frame["item_id"]))
        self._label()
        self._version = 0
        self._view = np.arange(len(items))
        self._set(filters)
        self.observe(self._filters_set, "filters")

    # -- state, as Python sees it

    @property
    def selection(self) -> Items:
        """The items that pass the filters, in order."""
        mask = np.zeros(len(self._items), dtype=bool)
        mask[self._view] = True
        return self._items.where(mask)

    @property
    def current(self) -> Item | None:
        """The item that is shown; None where nothing is."""
        return self._items[self._place[self.current_id]] if self.current_id else None

    @current.setter
    def current(self, item: Item | str) -> None:
        item_id = item.item_id if isinstance(item, Item) else item
        if item_id not in self._place or self._index(item_id) < 0:
            raise DataError(f"the item {item_id!r} is not among those shown", remedy="loosen the filters")
        self.current_id = item_id
        self._send_view()

    def to_frame(self) -> pd.DataFrame:
        """Return the shown items with annotations, tags and notes, one row an item."""
        frame = self._frame.iloc[self._view].reset_index(drop=True)
        extra = self._annotations.iloc[self._view].reset_index(drop=True)
        frame = pd.concat([frame, extra.loc[:, ~extra.columns.isin(frame.columns)]], axis=1)
        notes = list(map(self._note, frame["item_id"]))
        return frame.assign(tags=objects([list(n.tags) for n in notes]), note=[n.note for n in notes])

    def to_html(self, *, limit: int = 200) -> str:
        """Return a page of its own with the first `limit` shown items; targets open on a click."""
        return self._page(self._view[:limit].tolist())

    def _static(self, most: int) -> str:
        first = max(0, self._index(self.current_id))
        return self._page(self._view[first : first + most].tolist())

    def _page(self, rows: Sequence[int]) -> str:
        passages = [self._passage(row) for row in rows]
        return static_page(passages, len(self._view), len(self._items), self.filters)

    # -- what the page asks

    def _on_open(self, _message: Mapping[str, Any]) -> None:
        self._send_view()

    def _on_filter(self, message: Mapping[str, Any]) -> None:
        with self.hold_sync():  # the view is what the reader waits for; the traits follow
            self._set(message["filters"])
            self._send_view()

    def _on_rows(self, message: Mapping[str, Any]) -> None:
        start = max(0, int(message["start"]))
        rows = self._rows(start, int(message["end"])) if message["version"] == self._version else []
        self.send({"type": "rows", "version": self._version, "start": start, "rows": rows})

    def _on_show(self, message: Mapping[str, Any]) -> None:
        index = int(message["index"])
        if message["version"] != self._version or not 0 <= index < len(self._view):
            self.send({"type": "passage", "version": -1, "index": index, "passage": None})
            return
        passage = self._passage(int(self._view[index]))
        self.send({"type": "passage", "version": self._version, "index": index, "passage": passage})
        self.current_id = passage["id"]

    def _on_tags(self, message: Mapping[str, Any]) -> None:
        self._mark(message["id"], tags=message["tags"])

    def _on_note(self, message: Mapping[str, Any]) -> None:
        self._mark(message["id"], note=message["note"])

    # -- how it is answered

    def _set(self, filters: Mapping[str, Any]) -> None:
        checked = self._filters.checked(filters)
        mask, self._described = self._filters.apply(checked)
        self._view = np.flatnonzero(mask)
        self._version += 1
        if self._index(self.current_id) < 0:
            self.current_id = self._frame["item_id"].iloc[self._view[0]] if len(self._view) else ""
        self._applied = checked
        self.filters = checked

    def _filters_set(self, change: Mapping[str, Any]) -> None:
        if change["new"] == self._applied:
            return
        try:
            self._set(change["new"])
        except DataError:
            self.filters = self._applied
            raise
        self._send_view()

    def _index(self, item_id: str) -> int:
        row = self._place.get(item_id, -1)
        index = int(np.searchsorted(self._view, row))
        return index if row >= 0 and index < len(self._view) and self._view[index] == row else -1

    def _send_view(self) -> None:
        index = self._index(self.current_id)
        start = max(0, index - _FIRST_ROWS // 2)
        passage = self._passage(int(self._view[index])) if index >= 0 else None
        self.send(
            {
                "type": "view", "version": self._version, "n": len(self._view), "total": len(self._items),
                "filters": self.filters, "facets": self._described, "labels": self._labels, "index": index,
                "start": start, "rows": self._rows(start, start + _FIRST_ROWS), "passage": passage,
            }
        )  # fmt: skip

    def _rows(self, start: int, end: int) -> list[dict[str, Any]]:
        return [self._row(self._items[int(row)]) for row in self._view[start : max(start, end)]]

    def _row(self, item: Item) -> dict[str, Any]:
        spans = item_hits(item, self._applied)
        note = self._note(item.item_id)
        return {
            "id": item.item_id, "text": snippet(item, spans[0] if spans else None),
            "tags": note.tags, "note": bool(note.note),
        }  # fmt: skip

    def _note(self, item_id: str) -> remarks.Note:
        return self._notes.get(item_id, remarks.Note(item_id))

    def _passage(self, row: int) -> dict[str, Any]:
        item = self._items[row]
        spans = {
            "m": self._spans("mentions", row, mentions),
            "s": self._spans("speech", row, speech),
            "h": item_hits(item, self._applied),
        }
        context, query = pieces(item, spans)
        note = self._note(item.item_id)
        kind = [item.variant, item.word_class if item.word_class != item.variant else None]
        return {
            "id": item.item_id, "source": item.book_id, "kind": [k for k in kind if k],
            "context": context, "query": query, "answer": item.answer, "candidates": item.candidates,
            "tags": list(note.tags), "note": note.note,
            "columns": [[str(name), cell_text(value)] for name, value in self._columns.iloc[row].items()],
            "predictions": self._predictions.get(item.item_id, []),
        }  # fmt: skip

    def _spans(self, name: str, row: int, find: Callable[[Item], list[Span]]) -> list[Span]:
        known = self._marks[name][row] if name in self._marks else None
        return find(self._items[row]) if known is None else known

    def _mark(self, item_id: str, **change: Any) -> None:
        item = self._items[self._place[item_id]]
        note = remarks.write_note(item.dataset, item_id, text=item.text, **change)
        self._notes[item_id] = note
        self._label()
        _, self._described = self._filters.apply(self._applied)
        self.send(
            {
                "type": "marked", "id": item_id, "tags": note.tags, "note": note.note,
                "facets": self._described, "labels": self._labels,
            }
        )  # fmt: skip

    def _label(self) -> None:
        tags = Labels(self._note(item_id).tags for item_id in self._frame["item_id"])
        self._filters.facets[TAGS] = tags
        self._labels = list(tags.masks)


def static_page(
    passages: Sequence[Mapping[str, Any]], shown: int, total: int, filters: Mapping[str, Any]
) -> str:
    """Return passages, as the page gets them, as HTML that stands by itself, everything from data escaped.

    So many items are `shown` of `total` under these filters.
    """
    chosen = [f"{filters['field']} matches “{filters['query']}”"] if filters.get("query") else []
    facets = filters.get("facets", {})
    chosen += [f"{label(name)}: {', '.join(map(str, values))}" for name, values in facets.items()]
    first = f"{len(passages):,} of " if len(passages) < shown else ""
    summary = "; ".join([f"{first}{shown:,} of {total:,} items", *chosen])
    return render("browser/static.html", summary=summary, passages=passages)


def browse(
    items: Items,
    annotations: pd.DataFrame | None = None,
    predictions: pd.DataFrame | None = None,
    *,
    query: str = "",
    field: str = "passage",
    regex: bool = False,
    facets: Mapping[str, Any] | None = None,
    reveal: bool = False,
    height: int = 620,
) -> Browser:
    """Browse items in JupyterLab: search, filter, read, tag.

    Parameters
    ----------
    items : Items
        What to browse.
    annotations : DataFrame, optional
        One row an item, with ``item_id`` as a column or the index; each further column
        becomes a filter (text a choice, numbers a range) and is shown beside the passage.
        ``mentions`` and ``speech``, lists of character spans, are marked in it instead;
        without them, the marks are found from the text.
    predictions : DataFrame, optional
        Rows of the predictions table (``item_id``, ``model``, ``prediction``, ...), shown
        beside the passage; each model's right and wrong answers become a filter.
    query, field, regex, facets
        Filters to start with, as in ``Browser.filters``: text to search for, where
        (``passage``, ``sentence`` or ``answer``), whether it is a regular expression
        (RE2's syntax), and choices by column (``{"split": ["dev"], "n_tokens": [60, 80]}``).
    reveal : bool
        Show the targets from the start.
    height : int
        Height of the widget in px.

    Returns
    -------
    Browser

    Raises
    ------
    DataError
        If the filters name what is not there, or a table has no ``item_id``.
    """
    check_items(items, "browse")
    filters = {"query": query, "field": field, "regex": regex, "facets": facets or {}}
    return Browser(
        items, annotations=annotations, predictions=predictions, filters=filters, reveal=reveal, height=height
    )
