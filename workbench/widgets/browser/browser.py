"""The passage browser: search, filter, read and mark items in JupyterLab."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd
import traitlets

from workbench.analysis.mentions import mentions
from workbench.analysis.speech import speech
from workbench.items import notes as remarks
from workbench.items.items import Item, Items, Span
from workbench.items.pieces import weighted_pieces
from workbench.items.query import suggest, word_start
from workbench.items.schema import objects
from workbench.items.tokens import tokens
from workbench.render.labels import label
from workbench.storage.errors import DataError
from workbench.storage.files import atomic_path
from workbench.storage.spreadsheet import Formulas
from workbench.widgets.browser.listing import (
    PASSAGE,
    column_title,
    encoded,
    known_columns,
    table_cells,
    table_columns,
    view_code,
)
from workbench.widgets.shared.annotating import AUTO, Annotating, annotations_at_hand
from workbench.widgets.shared.facets import NO_FILTERS, Filters, item_hits
from workbench.widgets.shared.passages import (
    align_to_items,
    cell_text,
    check_items,
    marks,
    outcomes,
    prediction_cells,
    predictions_table,
    snippet,
    token_weights,
)
from workbench.widgets.shared.widget import (
    HEAD,
    RefusedValueError,
    Widget,
    closed_on_error,
    read_assets,
    render,
)

_FIRST_ROWS = 28
_TABLE_ROWS = 5  # of a static page, in place of one passage
_AUTOMATIC = f'annotations="{AUTO}"'


class Browser(Widget):
    """A widget to browse items; made by :func:`browse`.

    Attributes
    ----------
    filters : dict
        What is searched and chosen: ``query``, ``field``, ``regex``, ``facets``, ``where`` (the
        condition that was typed) and ``sort``. Setting it changes the view;
        ``wb.browse(items, **browser.filters)`` builds it again.
    layout : str
        ``list``, or ``table`` for a row of columns an item.
    table_columns : list of str
        The columns of the table beside the id: ``passage``, ``tags``, and those of items and annotations.
        Empty, as at the start, for the passage, columns of one's own, the usual annotations, and the tags.
    selection : Items
        The items that pass the filters, as they are listed.
    current : Item or None
        The one that is shown; an id or an Item can be assigned.
    reveal : bool
        Whether targets are shown from the start.
    attention : str
        The model whose attention is shown in the passage, where predictions have it; none by default.
    """

    _verb = "browse"  # of the line of Python that builds the view again
    _esm = read_assets("shared/page.js", "browser/panels.js", "browser/listing.js", "browser/browser.js")
    _css = read_assets("browser/browser.css")
    filters = traitlets.Dict().tag(sync=True)
    current_id = traitlets.Unicode("").tag(sync=True)
    reveal = traitlets.Bool(default_value=False).tag(sync=True)
    layout = traitlets.Enum(["list", "table"], "list").tag(sync=True)
    table_columns = traitlets.List(traitlets.Unicode()).tag(sync=True)
    attention = traitlets.Unicode("").tag(sync=True)
    height = traitlets.Int(620, min=240).tag(sync=True)

    @closed_on_error
    def __init__(
        self,
        items: Items,
        *,
        annotations: Items | pd.DataFrame | Literal["auto"] | None,
        predictions: Any,
        filters: Mapping[str, Any],
        ask: Any = None,
        table: Sequence[str] | bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._lock = threading.RLock()  # annotations arrive in another thread
        self._items, self._frame, self._asked = items, items.frame, ask
        self._place = {item_id: row for row, item_id in enumerate(self._frame["item_id"])}
        table_of_models = predictions_table(predictions, items)
        self._predictions = prediction_cells(table_of_models)
        self._outcomes = outcomes(table_of_models, self._frame["item_id"])
        self._weights = token_weights(table_of_models)
        texts = dict(zip(self._frame["item_id"], self._frame["text"], strict=True))
        self._notes = remarks.read_notes(self._frame["dataset"].unique().tolist(), texts=texts)
        self._labels: list[str] = []
        self._version = 0
        self._applied = NO_FILTERS
        self._view = np.arange(len(items))
        self._arguments = ["items"]
        if annotations is not None:
            self._arguments.append(_AUTOMATIC if isinstance(annotations, str) else "annotations")
        if predictions is not None:
            self._arguments.append("predictions=predictions")
        self._annotating = Annotating(items, arrived=self._arrived, changed=self._send_progress)
        self._waiting: Mapping[str, Any] = {}  # filters by columns that are still to come
        automatic = isinstance(annotations, str)
        if automatic and annotations != AUTO:
            raise DataError(f"annotations are {annotations!r}, expected a DataFrame, {AUTO!r} or None")
        features = (
            annotations_at_hand(items) if automatic else cast("Items | pd.DataFrame | None", annotations)
        )
        self._load(features)
        try:
            self._set(filters)
        except DataError:
            if not automatic or features is not None:
                raise
            self._waiting = filters
            self._set(NO_FILTERS)
        if automatic and features is None:
            self._annotating.start()
        if table is not False:
            self.layout, self.table_columns = "table", [] if table is True else listed_columns(table)
        self.observe(self._filters_set, "filters")
        self.observe(lambda _change: self._send_view(), ["layout", "table_columns", "reveal", "attention"])

    @traitlets.validate("table_columns")
    def _known_columns(self, proposal: Mapping[str, Any]) -> list[str]:
        """Refuse what is no column; while annotations are still to come, a name may be one of theirs."""
        names, known = list(dict.fromkeys(proposal["value"])), known_columns(self._filters)
        unknown = [name for name in names if name not in known]
        if unknown and (self._annotated or self._annotating.state == "idle"):
            problem = f"there is no column {unknown[0]!r:.80} to show; known are {', '.join(known)}"
            raise RefusedValueError(problem)
        return names

    def _load(self, annotations: Items | pd.DataFrame | None) -> None:
        """Take annotations: columns to show and choose by, and spans to mark."""
        self._annotated = annotations is not None
        self._annotations = align_to_items(annotations, self._frame["item_id"], "annotations")
        self._marks = marks(self._annotations, self._frame)
        extra = self._items.extra.reset_index(drop=True)
        extra = extra.loc[:, ~extra.columns.isin(self._annotations.columns)]
        self._known = pd.concat([extra, self._annotations], axis=1)
        self._columns = self._known.drop(columns=list(self._marks))
        columns = {str(name): column for name, column in self._columns.items()}
        self._filters = Filters(self._items, columns | self._outcomes)
        self._label()

    def _arrived(self, annotations: pd.DataFrame) -> None:
        with self._lock:
            self._load(annotations)
            waiting, self._waiting = self._waiting, {}
            if _AUTOMATIC not in self._arguments:
                self._arguments.insert(1, _AUTOMATIC)
            self._set(waiting or self._applied)
            self._send_view()

    def close(self) -> None:
        """Close the widget; annotations that are being made are given up."""
        if hasattr(self, "_annotating"):
            self._annotating.close()
        super().close()

    # -- state, as Python sees it

    @property
    def selection(self) -> Items:
        """The items that pass the filters, as they are listed."""
        if self._applied["sort"]:
            return Items(self._frame.iloc[self._view].reset_index(drop=True), attrs=self._items.attrs)
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
        """Return the listed items with annotations, tags and notes, one row an item."""
        frame = self._frame.iloc[self._view].reset_index(drop=True)
        extra = self._known.iloc[self._view].reset_index(drop=True)
        frame = pd.concat([frame, extra.loc[:, ~extra.columns.isin(frame.columns)]], axis=1)
        notes = list(map(self._note, frame["item_id"]))
        return frame.assign(tags=objects([list(n.tags) for n in notes]), note=[n.note for n in notes])

    def export(self, path: str | Path, *, formulas: Formulas = "keep") -> Path:
        """Write what :meth:`to_frame` returns to a ``.csv``, ``.jsonl`` or ``.parquet`` file.

        In CSV, text that a spreadsheet would run as a formula stays as it is, unless `formulas` is
        ``"quote"``: see :func:`workbench.storage.spreadsheet.spreadsheet_safe`.
        """
        target = Path(path)
        content = encoded(self.to_frame(), target.suffix.removeprefix("."), formulas=formulas)
        with atomic_path(target) as temporary:
            temporary.write_bytes(content)
        return target

    def to_html(self, *, limit: int = 200) -> str:
        """Return a page of its own with the first `limit` listed items; targets open on a click."""
        return HEAD + self._page(self._view[:limit].tolist())

    def _static(self, most: int) -> str:
        first = max(0, self._index(self.current_id))
        if self.layout == "table":
            return self._page(self._view[first : first + _TABLE_ROWS * most].tolist(), passages=min(most, 1))
        return self._page(self._view[first : first + most].tolist())

    def _page(self, rows: Sequence[int], *, passages: int | None = None) -> str:
        """Return the page of some rows; of so many of them the passage is shown, by default of all."""
        condition = self._filters.text(self._applied)
        table = self._static_table(rows) if self.layout == "table" else None
        return static_page(
            [self._passage(row) for row in rows[:passages]], len(self._view), len(self._items), self._applied,
            condition, table=table,
        )  # fmt: skip

    def _static_table(self, rows: Sequence[int]) -> dict[str, Any]:
        """Return headings, and the id and cells of each row."""
        columns = self._columns_shown()
        names = [column_title(name) for name in ("item_id", *columns)]
        return {
            "heads": names,
            "rows": [(self._frame["item_id"][row], self._cells(row, columns)) for row in rows],
        }

    # -- what the page asks

    def _on_open(self, message: Mapping[str, Any]) -> None:
        self._send_view(message.get("lane"))

    def _answer(self, message: Mapping[str, Any]) -> None:
        with self._lock:
            super()._answer(message)

    def _on_filter(self, message: Mapping[str, Any]) -> None:
        filters = message["filters"]
        if "line" in message:
            filters = self._filters.typed(message["line"], self._filters.checked(filters))
        with self.hold_sync():  # the view is what the reader waits for; the traits follow
            self._set(filters)
            self._send_view(message.get("lane"))

    def _on_suggest(self, message: Mapping[str, Any]) -> None:
        text, cursor = message["text"], int(message["cursor"])
        choices = suggest(text, cursor, self._filters.table)
        start = word_start(text, cursor)
        self.send({"type": "suggestions", "text": text, "start": start, "choices": choices})

    def _on_annotate(self, _message: Mapping[str, Any]) -> None:
        self._annotating.start()
        self._send_progress()

    def _on_export(self, message: Mapping[str, Any]) -> None:
        name = f"items.{message['kind']}"
        self.send({"type": "file", "name": name}, [encoded(self.to_frame(), message["kind"])])

    def _on_ask(self, message: Mapping[str, Any]) -> None:
        self._asked.put(self._items[self._place[message["id"]]])
        self.send({"type": "asked", "id": message["id"]})

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

    def _on_tag(self, message: Mapping[str, Any]) -> None:
        """Put tags on all rows of some ranges of the list; without ``on``, take off what all of them have."""
        if message["version"] != self._version:
            raise DataError("the list has changed since items were selected", remedy="select them again")
        picked = [self._items[int(row)] for start, end in message["ranges"] for row in self._view[start:end]]
        tags = [tag for text in message["tags"] if (tag := text.strip())]
        old = {item.item_id: self._note(item.item_id).tags for item in picked}
        take = not message.get("on") and all(set(tags) <= set(there) for there in old.values())
        new = {
            i: [t for t in there if t not in tags] if take else [*there, *tags] for i, there in old.items()
        }
        self._write(picked, {item_id: {"tags": row} for item_id, row in new.items()})
        self._label()
        _, self._described = self._filters.apply(self._applied)
        self._send_view(message.get("lane"))

    def _on_note(self, message: Mapping[str, Any]) -> None:
        self._mark(message["id"], note=message["note"])

    # -- how it is answered

    def _set(self, filters: Mapping[str, Any]) -> None:
        checked = self._filters.checked(filters)
        mask, self._described = self._filters.apply(checked)
        order = self._filters.order(checked["sort"])
        self._view = order[mask[order]]
        self._index_of = np.full(len(self._items), -1)
        self._index_of[self._view] = np.arange(len(self._view))
        self._version += 1
        self._applied = checked
        if self._index(self.current_id) < 0:
            self.current_id = self._frame["item_id"].iloc[self._view[0]] if len(self._view) else ""
        self.filters = checked

    def _filters_set(self, change: Mapping[str, Any]) -> None:
        if change["new"] == self._applied:
            return
        with self._lock:
            try:
                self._set(change["new"])
            except Exception:
                self.filters = self._applied
                raise
            self._send_view()

    def _index(self, item_id: str) -> int:
        row = self._place.get(item_id)
        return -1 if row is None else int(self._index_of[row])

    def _send_progress(self) -> None:
        self.send({"type": "annotating", **self._annotating.describe()})

    def _send_view(self, lane: str | None = None) -> None:
        index = self._index(self.current_id)
        start = max(0, index - _FIRST_ROWS // 2)
        passage = self._passage(int(self._view[index])) if index >= 0 else None
        self._shown_columns = self._columns_shown()
        titles = {name: column_title(name) for name in known_columns(self._filters)}
        names = {name: label(name) for name in self._filters.sortable}
        condition = self._filters.text(self._applied)
        self.send(
            {
                "type": "view", "lane": lane, "version": self._version,
                "n": len(self._view), "total": len(self._items),
                "filters": self._applied, "line": condition,
                "facets": self._described, "labels": self._labels,
                "columns": self._shown_columns, "names": names, "titles": titles,
                "code": view_code(self._verb, self._code_arguments(), self._applied, condition),
                "asks": self._asked is not None,
                "annotating": None if self._annotated else self._annotating.describe(),
                "index": index, "start": start, "rows": self._rows(start, start + _FIRST_ROWS),
                "passage": passage,
            }
        )  # fmt: skip

    def _rows(self, start: int, end: int) -> list[dict[str, Any]]:
        return [self._row(int(row)) for row in self._view[start : max(start, end)]]

    def _row(self, row: int) -> dict[str, Any]:
        item = self._items[row]
        note = self._note(item.item_id)
        shown = {"id": item.item_id, "tags": note.tags, "note": bool(note.note)}
        if self.layout == "table":
            return shown | {"cells": self._cells(row, self._shown_columns)}
        return shown | {"text": self._snippet(item)}

    def _snippet(self, item: Item) -> tuple[str, str, str]:
        spans = item_hits(item, self._applied)
        return snippet(item, spans[0] if spans else None)

    def _cells(self, row: int, columns: Sequence[str]) -> list[str]:
        passage = "".join(self._snippet(self._items[row])) if PASSAGE in columns else ""
        return table_cells(self._filters.table, row, columns, passage=passage, reveal=self.reveal)

    def _columns_shown(self) -> list[str]:
        return table_columns(
            self._filters, self._applied["sort"], chosen=self.table_columns, extra=map(str, self._items.extra)
        )

    def _code_arguments(self) -> list[str]:
        """Return the arguments of the line that builds this view again, but for the filters."""
        table = f"table={self.table_columns or True!r}"
        return self._arguments + [table] * (self.layout == "table")

    def _note(self, item_id: str) -> remarks.Note:
        return self._notes.get(item_id, remarks.Note(item_id))

    def _passage(self, row: int) -> dict[str, Any]:
        item = self._items[row]
        spans = {
            "m": self._spans("mentions", row, mentions),
            "s": self._spans("speech", row, speech),
            "h": item_hits(item, self._applied),
        }
        weights = self._weights.get(item.item_id, {})
        chosen = weights.get(self.attention)
        cut = tokens(item).spans if chosen is not None else ()
        if chosen is None or len(chosen) != len(cut):  # of other tokens: they fit nowhere
            cut, chosen = (), ()
        values = np.nan_to_num(np.asarray(chosen, dtype=float), posinf=0.0).clip(0).tolist()
        parts = weighted_pieces(item, spans, cut, values)
        context, query = ([piece[:2] for piece in part] for part in parts)
        note = self._note(item.item_id)
        kind = [item.variant, item.word_class if item.word_class != item.variant else None]
        return {
            "id": item.item_id, "source": item.book_id, "kind": [k for k in kind if k],
            "context": context, "query": query, "answer": item.answer, "candidates": item.candidates,
            "tags": list(note.tags), "note": note.note,
            "columns": [[str(name), cell_text(value)] for name, value in self._columns.iloc[row].items()],
            "predictions": self._predictions.get(item.item_id, []),
            "attention": list(weights),
            "weights": [[piece[2] for piece in part] for part in parts] if cut else None,
        }  # fmt: skip

    def _spans(self, name: str, row: int, find: Callable[[Item], list[Span]]) -> list[Span]:
        known = self._marks[name][row] if name in self._marks else None
        return find(self._items[row]) if known is None else known

    def _mark(self, item_id: str, **change: Any) -> None:
        self._write([self._items[self._place[item_id]]], {item_id: change})
        note = self._note(item_id)
        self._label()
        _, self._described = self._filters.apply(self._applied)
        self.send(
            {
                "type": "marked", "id": item_id, "tags": note.tags, "note": note.note,
                "facets": self._described, "labels": self._labels,
            }
        )  # fmt: skip

    def _write(self, items: Sequence[Item], changes: Mapping[str, Mapping[str, Any]]) -> None:
        for dataset in dict.fromkeys(item.dataset for item in items):
            texts = {item.item_id: item.text for item in items if item.dataset == dataset}
            named = {item_id: {**changes[item_id], "text": text} for item_id, text in texts.items()}
            self._notes |= remarks.write_notes(dataset, named)

    def _label(self) -> None:
        rows = [self._notes[i].tags if i in self._notes else () for i in self._frame["item_id"]]
        self._filters.set_tags(rows)
        counts = Counter(tag for row in rows for tag in row)
        known = [tag for tag in self._labels if tag in counts]  # their numbers stay while one works
        self._labels = known + sorted(set(counts) - set(known), key=lambda tag: (-counts[tag], tag))


def static_page(
    passages: Sequence[Mapping[str, Any]],
    shown: int,
    total: int,
    filters: Mapping[str, Any],
    condition: str = "",
    *,
    table: Mapping[str, Any] | None = None,
) -> str:
    """Return passages, as the page gets them, as HTML that stands by itself, everything from data escaped.

    So many items are listed (`shown`) of `total` under these filters; `condition` is what was chosen. Before
    the passages stands a `table` of them: ``heads``, and ``rows`` of an id and cells.
    """
    counts = f"{shown:,} of {total:,} items"
    n = len(table["rows"]) if table else len(passages)
    if n < shown:
        first = f"first {n:,} of {shown:,}"
        counts = f"{first} items" if shown == total else f"{first} matches ({total:,} in total)"
    search = f"{filters['field']} matches “{filters['query']}”" if filters.get("query") else ""
    order = f"sorted by {label(filters['sort'].removeprefix('-'))}" if filters.get("sort") else ""
    order += ", descending" if order and filters["sort"].startswith("-") else ""
    summary = "; ".join(filter(None, [counts, search, condition, order]))
    return render("browser/static.html", summary=summary, passages=passages, table=table)


def listed_columns(names: Any) -> list[str]:
    """Return names of columns as a list, or raise DataError."""
    if (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not all(isinstance(n, str) for n in names)
    ):
        raise DataError(
            f"the columns of the table are {names!r:.80}, expected names",
            remedy='such as ["passage", "tags"]',
        )
    return list(names)


def browse(
    items: Items,
    annotations: Items | pd.DataFrame | Literal["auto"] | None = None,
    predictions: Any = None,
    *,
    query: str = "",
    field: str = "passage",
    regex: bool = False,
    facets: Mapping[str, Any] | None = None,
    where: str = "",
    sort: str = "",
    table: Sequence[str] | bool = False,
    ask: Any = None,
    reveal: bool = False,
    height: int = 620,
) -> Browser:
    """Browse items in JupyterLab: search, filter, sort, read, tag.

    Parameters
    ----------
    items : Items
        What to browse. Columns of one's own (``items.extra``) become filters, too.
    annotations : DataFrame or "auto", optional
        One row an item, with ``item_id`` as a column or the index; each further column
        becomes a filter (text a choice, numbers a range) and is shown beside the passage.
        ``mentions`` and ``speech``, lists of character spans, are marked in it instead;
        without them, the marks are found from the text. With ``"auto"`` the view shows at once and
        ``wb.annotate(items)`` runs in the background; without annotations, a button starts it.
    predictions : Run, DataFrame or str, or several of these, optional
        Runs, frames of predictions (``item_id``, ``model``, ``prediction``, ...) or names of stored runs, as
        for ``wb.compare``, shown beside the passage; each model's right and wrong answers become a filter.
        Where they have the column ``attention``, it can be shown in the passage.
    query, field, regex, facets
        Filters to start with, as in ``Browser.filters``: text to search for (ignoring case), where
        (``passage``, ``sentence`` or ``answer``), whether it is a regular expression
        (RE2's syntax), and choices by column: ``{"split": ["dev"], "n_tokens": [60, 80]}``;
        ``[None]`` chooses missing numbers, ``{"split": {"not": ["dev"]}}`` excludes.
    where : str
        A condition on columns, as for ``items.query``:
        ``"target_class = CN and mention_distance > 40 and not direct_speech"``.
    sort : str
        Column to sort by; ``"-n_tokens"`` sorts in descending order. Missing values come last.
    table : sequence of str or bool, default False
        Columns to show as a table in place of the list: ``["passage", "genre", "tags"]``; True for the
        usual ones. "Columns" above the table chooses others.
    ask : Ask, optional
        What ``wb.ask`` returned: the button "Ask about this" puts the item into it.
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

    Examples
    --------
    >>> browser = wb.browse(items, annotations, facets={"in_context": [True]})
    >>> len(browser.selection) < len(items)
    True
    >>> browser.close()
    """
    check_items(items, "browse")
    filters = {
        "query": query, "field": field, "regex": regex, "facets": facets or {}, "where": where, "sort": sort,
    }  # fmt: skip
    return Browser(
        items, annotations=annotations, predictions=predictions, filters=filters, ask=ask, table=table,
        reveal=reveal, height=height,
    )  # fmt: skip
