"""The passage browser: search, filter, read and mark items in JupyterLab.

A hidden target stays hidden: mentions, annotations and predictions are shown together with it, and the table
masks the answer and its lemma.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import pandas as pd
import traitlets

from workbench.analysis.mentions import mentions
from workbench.analysis.speech import speech
from workbench.items import notes as remarks
from workbench.items.items import Item, Items, Span, check_items
from workbench.items.schema import objects
from workbench.render.labels import label
from workbench.storage.errors import DataError, check_option
from workbench.storage.files import atomic_path
from workbench.widgets.browser.listing import (
    PASSAGE,
    TELLING,
    column_title,
    encoded,
    known_columns,
    table_cells,
    table_columns,
)
from workbench.widgets.shared.annotating import AUTO, Annotating, annotations_at_hand
from workbench.widgets.shared.list_widget import ListWidget, state_part
from workbench.widgets.shared.listing import STATE, TAGS, Listing
from workbench.widgets.shared.passages import (
    align_to_items,
    blanked_text,
    cell_text,
    item_kind,
    marks,
    outcomes,
    prediction_cells,
    predictions_table,
    snippet,
    stored_runs,
    token_weights,
)
from workbench.widgets.shared.published import Rows, column_data, passages_data
from workbench.widgets.shared.search import item_hits
from workbench.widgets.shared.shading import attention_shading, shaded_passage
from workbench.widgets.shared.widget import StaticView, closed_on_error, read_assets

SCRIPTS = (
    "shared/page.js", "shared/list.js", "shared/filters.js", "shared/passage.js", "browser/panels.js",
    "browser/listing.js",
)  # fmt: skip
_AUTOMATIC = f'annotations="{AUTO}"'
_CHIPS = ("in_context", "direct_speech", "mention_distance")
_FIRST_CHIPS = 4  # filters before the tags
_VIEW: dict[str, Any] = {"table": False, "reveal": False, "attention": "", "shade": ""}

STATE_OF_BROWSER: dict[str, Any] = {**STATE, **_VIEW}
"""The state of a browser in which all items are listed."""


class Browser(ListWidget):
    """A widget to browse items; made by :func:`browse`.

    Attributes
    ----------
    state : dict
        The view as plain values; setting it changes the view, and ``wb.browse(items, state=browser.state)``
        is the same view again. Entries, all of which may be left out when it is set:

        ``facets``
            A choice per column, which clicks write: ``{"split": ["dev"], "n_tokens": [60, 80]}``. A column of
            numbers has a range ``[low, high]`` with both ends, or None for an open one, or ``[None]`` for
            the rows without a number; any other column has a list of values, None for rows without one.
        ``where``
            A condition in SQL, as for ``items.query``, which people type.
        ``search``, ``field``, ``regex``
            Text to search for (ignoring case), where (``passage``, ``sentence`` or ``answer``), and whether
            it is a regular expression (RE2's syntax).
        ``sort``, ``current``
            Column to sort by (``"-n_tokens"`` in descending order; missing values last), and the id of the
            item that is shown.
        ``table``
            Whether the list is a table of the usual columns, or its columns:
            ``["passage", "genre", "tags"]``.
        ``reveal``, ``attention``, ``shade``
            Whether targets are shown from the start; the model whose attention is shown; the influence or
            surprisal that the passage is shaded by: ``"influence"``, ``"surprisal"`` or
            ``"difference in surprisal"``, followed by ``": "`` and the name where there are names; the first
            by default, ``""`` for nothing.
    reveal, attention
        Entries of the state, which can be set alone.
    """

    _verb, _shows = "browse", "passages"
    _esm = read_assets(*SCRIPTS, "browser/browser.js")
    _css = read_assets("shared/list.css", "browser/browser.css")
    _title = "Passages"  # of the static form
    height = traitlets.Int(620, min=240).tag(sync=True)

    @closed_on_error
    def __init__(
        self,
        items: Items,
        *,
        annotations: Items | pd.DataFrame | Literal["auto"] | None,
        predictions: Any,
        state: Mapping[str, Any],
        ask: Any = None,
        influence: Any = None,
        surprisal: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._items, self._frame, self._asked = items, items.frame, ask
        table_of_models = predictions_table(predictions, items)
        self._predictions = prediction_cells(table_of_models)
        self._runs, self._takes_frames = stored_runs(predictions)
        self._outcomes = outcomes(table_of_models, self._frame["item_id"])
        self._weights = token_weights(table_of_models)
        texts = dict(zip(self._frame["item_id"], self._frame["text"], strict=True))
        self._notes = remarks.read_notes(self._frame["dataset"].unique().tolist(), texts=texts)
        self._labels: list[str] = []
        self._waiting: Mapping[str, Any] = {}  # a state that needs columns that are still to come
        self._arguments = ["items"]
        if annotations is not None:
            self._arguments.append(_AUTOMATIC if isinstance(annotations, str) else "annotations")
        if predictions is not None:
            self._arguments.append("predictions=predictions")
        self._shade(items, influence=influence, surprisal=surprisal)
        self._annotating = Annotating(items, arrived=self._on_annotations, changed=self._send_progress)
        automatic = isinstance(annotations, str)
        if automatic:
            check_option("annotations", annotations, (AUTO,))
        features = (
            annotations_at_hand(items) if automatic else cast("Items | pd.DataFrame | None", annotations)
        )
        waits = automatic and features is None
        self._load(features)
        try:
            self.state = {"shade": self._empty()["shade"], **state}
        except DataError:
            if not waits:
                raise
            self._waiting = {"shade": self._empty()["shade"], **state}
            self.state = {}
        self.observe(self._follow_state, "state")
        if waits:
            self._annotating.start()

    def _applied(self, state: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(state)
        view = {name: values.pop(name, default) for name, default in _VIEW.items()}
        view["table"] = self._table_setting(view["table"])
        view["reveal"], view["attention"] = bool(view["reveal"]), str(view["attention"] or "")
        view["shade"] = view["shade"] or ""
        if view["shade"]:
            check_option("shade", view["shade"], list(self._shadings))
        return self._listing.apply(values) | view

    def _table_setting(self, table: Any) -> list[str] | bool:
        """Return the columns of the table, True for the usual ones, or False; DataError for unknown ones."""
        names = [] if isinstance(table, bool) else list(dict.fromkeys(table))
        for name in names:
            check_option("table", name, known_columns(self._listing))
        return names or bool(table) or table == []

    def _load(self, annotations: Items | pd.DataFrame | None) -> None:
        """Set the annotations: columns to show and filter by, and spans to mark."""
        self._annotated = annotations is not None
        self._annotations = align_to_items(annotations, self._frame["item_id"], "annotations")
        self._marks = marks(self._annotations, self._frame)
        extra = self._items.extra.reset_index(drop=True)
        self._own = list(map(str, extra))
        extra = extra.loc[:, ~extra.columns.isin(self._annotations.columns)]
        self._known = pd.concat([extra, self._annotations], axis=1)
        self._columns = self._known.drop(columns=list(self._marks))
        columns = {str(name): column for name, column in self._columns.items()}
        self._listing = Listing(self._items, columns | self._outcomes)
        self._label()

    def _on_annotations(self, annotations: pd.DataFrame) -> None:
        with self._lock:
            self._load(annotations)
            waiting, self._waiting = self._waiting, {}
            if _AUTOMATIC not in self._arguments:
                self._arguments.insert(1, _AUTOMATIC)
            before = self.state
            self.state = self._applied(waiting or before)
            if self.state == before:
                self._send_view()

    def _finish(self) -> None:
        self._annotating.wait()

    def close(self) -> None:
        """Close the widget, and stop its annotations."""
        if hasattr(self, "_annotating"):
            self._annotating.close()
        super().close()

    # -- state, as Python sees it

    reveal = state_part("reveal", "Whether targets are shown from the start.")
    attention = state_part("attention", "The model whose attention is shown in the passage.")

    def to_frame(self) -> pd.DataFrame:
        """Return the listed items with annotations, tags and notes, one row per item."""
        frame = self._frame.iloc[self._listing.rows].reset_index(drop=True)
        extra = self._known.iloc[self._listing.rows].reset_index(drop=True)
        frame = pd.concat([frame, extra.loc[:, ~extra.columns.isin(frame.columns)]], axis=1)
        notes = list(map(self._note, frame["item_id"]))
        return frame.assign(tags=objects([list(n.tags) for n in notes]), note=[n.note for n in notes])

    def export(self, path: str | Path) -> Path:
        """Write the frame of :meth:`to_frame` to a ``.csv``, ``.jsonl`` or ``.parquet`` file."""
        target = Path(path)
        content = encoded(self.to_frame(), target.suffix.removeprefix("."))
        with atomic_path(target) as temporary:
            temporary.write_bytes(content)
        return target

    def _static(self, limit: int) -> StaticView:
        sort = self.state["sort"]
        order = (
            label(sort.removeprefix("-")) + (", descending" if sort.startswith("-") else "") if sort else ""
        )
        rows = self._listing.rows[:limit].tolist()
        in_table = self.state["table"] is not False
        columns, cells = self._static_table(rows) if in_table else self._static_passages(rows)
        return StaticView(
            self._title, self._static_numbers(order), columns, cells,
            hidden=[column_title(name) for name in TELLING], code=self.code,
        )  # fmt: skip

    def _static_table(self, rows: Sequence[int]) -> tuple[list[str], list[list[str]]]:
        """Return headings and cells of the table view, targets included."""
        names, table = self._columns_shown(), self._listing.table
        cells = []
        for row in rows:
            passage = "".join(self._snippet(self._items[row]))
            of_row = table_cells(table, row, names, passage=passage, reveal=True)
            cells.append([self._frame["item_id"][row], *of_row])
        return ["Item", *map(column_title, names)], cells

    def _static_passages(self, rows: Sequence[int]) -> tuple[list[str], list[list[str]]]:
        """Return headings and cells of a table of passages; columns without any text are left out."""
        columns, cells = ["Item", "Passage", column_title("answer"), "Candidates", "Tags", "Note"], []
        for item in (self._items[row] for row in rows):
            note, candidates = self._note(item.item_id), ", ".join(item.candidates or ())
            tags = ", ".join(note.tags)
            cells.append([item.item_id, blanked_text(item), item.answer or "?", candidates, tags, note.note])
        filled = [k for k in range(len(columns)) if any(row[k] for row in cells)]
        return [columns[k] for k in filled], [[row[k] for k in filled] for row in cells]

    # -- what the page asks

    def _on_annotate(self, _message: Mapping[str, Any]) -> None:
        self._annotating.start()
        self._send_progress()

    def _on_export(self, message: Mapping[str, Any]) -> None:
        name = f"items.{message['kind']}"
        self.send({"type": "file", "name": name}, [encoded(self.to_frame(), message["kind"])])

    def _on_tags(self, message: Mapping[str, Any]) -> None:
        self._mark(message["id"], tags=message["tags"])

    def _on_tag(self, message: Mapping[str, Any]) -> None:
        """Add tags to the rows of some ranges of the list; without ``on``, remove those that all have."""
        if message["version"] != self._listing.version:
            raise DataError("the list has changed since items were selected", hint="select them again")
        rows = [row for start, end in message["ranges"] for row in self._listing.rows[start:end].tolist()]
        picked = [self._items[row] for row in rows]
        tags = [tag for text in message["tags"] if (tag := text.strip())]
        old = {item.item_id: self._note(item.item_id).tags for item in picked}
        take = not message.get("on") and all(set(tags) <= set(there) for there in old.values())
        new = {
            i: [t for t in there if t not in tags] if take else [*there, *tags] for i, there in old.items()
        }
        self._write(picked, {item_id: {"tags": row} for item_id, row in new.items()})
        self._label()
        self._send_view(message.get("request"))

    def _on_note(self, message: Mapping[str, Any]) -> None:
        self._mark(message["id"], note=message["note"])

    # -- how it is answered

    def _send_progress(self) -> None:
        self.send(self._progress())

    def _progress(self) -> dict[str, Any]:
        return {"type": "annotating", **self._annotating.describe()}

    def _view(self) -> dict[str, Any]:
        listing = self._listing
        self._shown_columns, facets = self._columns_shown(), self._facets()
        return super()._view() | {
            "facets": facets, "example": listing.example(facets), "labels": self._labels,
            "columns": self._shown_columns, "names": {name: label(name) for name in listing.sortable},
            "sorts": listing.varying,
            "titles": {name: column_title(name) for name in known_columns(listing)},
            "asks": self._asked is not None,
            "annotating": None if self._annotated else self._annotating.describe(),
        }  # fmt: skip

    def _facets(self) -> dict[str, Any]:
        """Return the filters in the order of the page, which has room for the first ones."""
        facets = self._listing.facets
        usual = ["word_class" if "word_class" in facets else "target_class", *_CHIPS]
        first = [name for name in dict.fromkeys([*self._own, *usual]) if name in facets][:_FIRST_CHIPS]
        names = dict.fromkeys([*first, TAGS, *facets])
        varying = [n for n in names if len(facets[n].bins) > 1 or n in self._listing.state["facets"]]
        return {n: self._listing.describe(n) | {"telling": n in TELLING} for n in varying}

    def _empty(self) -> dict[str, Any]:
        return STATE_OF_BROWSER | {"shade": next(iter(self._shadings), "")}

    def _row(self, row: int) -> dict[str, Any]:
        item = self._items[row]
        note = self._note(item.item_id)
        view = {"id": item.item_id, "tags": note.tags, "note": bool(note.note)}
        if self.state["table"] is not False:
            return view | {"cells": self._cells(row, self._shown_columns)}
        return view | {"text": self._snippet(item)}

    def _snippet(self, item: Item) -> tuple[str, str, str]:
        spans = item_hits(item, self.state)
        return snippet(item, spans[0] if spans else None)

    def _cells(self, row: int, columns: Sequence[str]) -> list[str]:
        passage = "".join(self._snippet(self._items[row])) if PASSAGE in columns else ""
        return table_cells(self._listing.table, row, columns, passage=passage, reveal=self.reveal)

    def _columns_shown(self) -> list[str]:
        table, extra = self.state["table"], map(str, self._items.extra)
        chosen = table if isinstance(table, list) else ()
        return table_columns(self._listing, self.state["sort"], chosen=chosen, extra=extra)

    def _note(self, item_id: str) -> remarks.Note:
        return self._notes.get(item_id, remarks.Note(item_id))

    def _passage(self, row: int) -> dict[str, Any]:
        item = self._items[row]
        spans = {
            "m": self._spans("mentions", row, mentions),
            "s": self._spans("speech", row, speech),
            "h": item_hits(item, self.state),
        }
        weights = self._weights.get(item.item_id, {})
        note = self._note(item.item_id)
        return {
            "id": item.item_id, "source": item.book_id, "kind": item_kind(item),
            "answer": item.answer, "candidates": item.candidates,
            "tags": list(note.tags), "note": note.note,
            "columns": [[str(name), cell_text(value)] for name, value in self._columns.iloc[row].items()],
            "predictions": self._predictions.get(item.item_id, []),
            "attention": list(weights), "shadings": list(self._shadings),
            **shaded_passage(item, spans, self._shadings.get(self.state["shade"]) or
                             attention_shading(item, weights.get(self.attention))),
        }  # fmt: skip

    def _published_data(self, rows: Rows, *, notes: bool) -> dict[str, Any]:
        listing, opened = self._listing, self._published_open()
        table = listing.table.iloc[rows].reset_index(drop=True)
        names = [str(name) for name in table if notes or name != TAGS]
        columns = [
            column_data(
                table, name, facet=listing.facets.get(name), hidden=name in TELLING and not self.reveal,
                opened=name in opened,
            )
            for name in names
        ]  # fmt: skip
        for model, cells in self._prediction_texts(table["item_id"]).items():
            texts = pd.DataFrame({model: cells})
            columns.append(column_data(texts, model, hidden=not self.reveal) | {"label": model})
        if notes:
            texts = pd.DataFrame({"note": [self._note(item_id).note or None for item_id in table["item_id"]]})
            columns.append(column_data(texts, "note"))
        in_table = self.state["table"] is not False
        visible = (
            [name for name in self._columns_shown() if name in (*names, PASSAGE)] if in_table else [PASSAGE]
        )
        return {
            "noun": "item", "n": len(rows), "columns": columns, "shown": ["item_id", *visible],
            "facets": list(self._facets()),
            "passage": passages_data(self._items, rows),
        }  # fmt: skip

    def _published_open(self) -> Sequence[str]:
        """Return the facets that a page opens from the start."""
        return ()

    def _prediction_texts(self, ids: pd.Series[Any]) -> dict[str, list[str | None]]:
        """Return the prediction of each model for some items as text."""
        models = dict.fromkeys(row[0] for rows in self._predictions.values() for row in rows)
        texts: dict[str, list[str | None]] = {f"prediction: {model}": [None] * len(ids) for model in models}
        for index, item_id in enumerate(ids):
            for model, guess, mark, rank, log_prob in self._predictions.get(item_id, ()):
                numbers = [f"rank {rank}" if rank else "", f"ln p {log_prob}" if log_prob else ""]
                cells = [f"{guess or 'no prediction'}", mark, *numbers]
                texts[f"prediction: {model}"][index] = ", ".join(filter(None, cells))
        return texts

    def _spans(self, name: str, row: int, find: Callable[[Item], list[Span]]) -> list[Span]:
        spans = self._marks[name][row] if name in self._marks else None
        return find(self._items[row]) if spans is None else spans

    def _mark(self, item_id: str, **change: Any) -> None:
        self._write([self._items[self._listing.row_of(item_id)]], {item_id: change})
        note = self._note(item_id)
        self._label()
        self.send(
            {
                "type": "marked", "id": item_id, "tags": note.tags, "note": note.note,
                "facets": self._facets(), "labels": self._labels,
            }
        )  # fmt: skip

    def _write(self, items: Sequence[Item], changes: Mapping[str, Mapping[str, Any]]) -> None:
        for dataset in dict.fromkeys(item.dataset for item in items):
            texts = {item.item_id: item.text for item in items if item.dataset == dataset}
            named = {item_id: {**changes[item_id], "text": text} for item_id, text in texts.items()}
            self._notes |= remarks.write_notes(dataset, named)

    def _label(self) -> None:
        rows = [self._notes[i].tags if i in self._notes else () for i in self._frame["item_id"]]
        self._listing.set_tags(rows)
        counts = Counter(tag for row in rows for tag in row)
        current = [tag for tag in self._labels if tag in counts]  # their numbers stay while one works
        self._labels = current + sorted(set(counts) - set(current), key=lambda tag: (-counts[tag], tag))


def browse(
    items: Items,
    annotations: Items | pd.DataFrame | Literal["auto"] | None = None,
    predictions: Any = None,
    *,
    influence: Any = None,
    surprisal: Any = None,
    ask: Any = None,
    state: Mapping[str, Any] | None = None,
    height: int = 620,
) -> Browser:
    """Browse items in JupyterLab: search, filter, sort, read, tag.

    Parameters
    ----------
    items : Items
        Items to browse. Your own columns (``items.extra``) become filters, too.
    annotations : DataFrame or "auto", optional
        One row per item, with ``item_id`` as a column or the index; each further column
        becomes a filter (text a choice, numbers a range) and is shown beside the passage.
        ``mentions`` and ``speech``, lists of character spans, are marked in it instead;
        without them, the marks are found from the text. With ``"auto"`` the view shows at once and
        ``wb.annotate(items)`` runs in the background; without annotations, a button starts it.
    predictions : Run, DataFrame or str, or several of these, optional
        Runs, frames of predictions (``item_id``, ``model``, ``prediction``, ...) or names of stored runs, as
        for ``wb.compare``, shown beside the passage; each model's right and wrong answers become a filter.
        With a column ``attention``, the weights can be shown in the passage.
    influence, surprisal : DataFrame or mapping of str to DataFrame, optional
        What ``wb.influence`` and ``wb.surprisal`` returned, for one or several models by name. The passage is
        shaded by them once its target is shown; a tooltip (the pointer, or Tab and the arrow keys) has the
        value, the distance or the best words. Of a frame with a ``difference`` that is shown.
    ask : Ask, optional
        What ``wb.ask`` returned: the button "Ask about this" puts the item into it.
    state : dict, optional
        View to start with, as ``Browser.state`` has it: filters, search, order, columns, the item shown.
    height : int
        Height of the widget in px.

    Returns
    -------
    Browser
        With ``state``, ``selection`` (Items), ``current``, ``to_frame()``, ``export()`` and ``to_html()``:
        ``wb.browse(items, state=browser.state)`` is the same view again.

    Raises
    ------
    DataError
        If the state names what is not there, or a table has no ``item_id``.

    Examples
    --------
    >>> browser = wb.browse(items, annotations, state={"facets": {"in_context": [True]}})
    >>> len(browser.selection) < len(items)
    True
    >>> browser.close()
    """
    check_items(items, "browse")
    return Browser(
        items, annotations=annotations, predictions=predictions, state=state or {}, ask=ask,
        influence=influence, surprisal=surprisal, height=height,
    )  # fmt: skip
