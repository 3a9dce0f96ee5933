"""The base of widgets that list items: one state, and the messages between list and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import traitlets

from workbench.items.items import Item, Items
from workbench.items.query import columns_of
from workbench.storage.errors import DataError, check_option
from workbench.widgets.shared.listing import TAGS, Listing
from workbench.widgets.shared.published import PublishedView, Rows
from workbench.widgets.shared.shading import Shading, shadings
from workbench.widgets.shared.widget import Widget

_FIRST_ROWS = 28


def state_part(name: str, doc: str) -> Any:
    """Return a widget attribute that is one entry of its ``state``."""

    def get(widget: Any) -> Any:
        return widget.state[name]

    def put(widget: Any, value: Any) -> None:
        widget.state = widget.state | {name: value}

    return property(get, put, doc=doc)


class ListWidget(Widget):
    """A widget that lists items under one state.

    A page changes the state by messages ``query``, with entries of the `state`, and is answered with a
    ``view``: the state, what follows from it, and the rows in sight. It asks for further ``rows``, and to
    ``show`` the item at a place of the list.

    Attributes
    ----------
    state : dict
        The view as plain values; setting it changes the view.
    """

    state = traitlets.Dict()
    current_id = state_part("current", "The id of the item that is shown.")
    _listing: Listing
    _verb: ClassVar[str]  # of the line of Python that builds the view again
    _arguments: list[str]  # of that line, before the state
    _asked: Any = None  # the widget of ``wb.ask``
    _shows: ClassVar[str]  # in the list of published pages
    _runs: Sequence[Any] = ()  # that are stored
    _takes_frames = False  # whether predictions are frames, which no name loads
    _annotations: pd.DataFrame
    _shadings: Mapping[str, Shading]
    height: Any
    _request: str | None = None  # the name of the request that is being answered

    def _shade(self, items: Items, **frames: Any) -> None:
        """Set what passages can be shaded by, which is named in the line of Python."""
        self._shadings = shadings(items, **frames)
        self._arguments += [f"{name}={name}" for name, frame in frames.items() if frame is not None]

    @traitlets.validate("state")
    def _valid_state(self, proposal: Mapping[str, Any]) -> dict[str, Any]:
        with self._lock:
            for name in proposal["value"]:
                check_option("an entry of the state", name, list(self._empty()))
            return self._applied(proposal["value"])

    def _applied(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Apply a state, and return it complete, or raise DataError."""
        return self._listing.apply(state)

    def _follow_state(self, change: Mapping[str, Any]) -> None:
        """Send a state that was set to the page."""
        with self._lock:
            before, now = change["old"], change["new"]
            if {**before, "current": ""} == {**now, "current": ""}:
                self._send_passage()
            else:
                self._send_view()

    @property
    def selection(self) -> Items:
        """The listed items, those that pass the filters, in their order."""
        return self._listing.selection

    @property
    def current(self) -> Item | None:
        """The shown item, or None; an Item or its id can be assigned."""
        return self._listing.items[self.current_id] if self.current_id else None

    @current.setter
    def current(self, item: Item | str) -> None:
        self.current_id = item.item_id if isinstance(item, Item) else item

    # -- what the page asks

    def _on_open(self, message: Mapping[str, Any]) -> None:
        self._send_view(message.get("request"))

    def _on_query(self, message: Mapping[str, Any]) -> None:
        """Change entries of the state."""
        before, self._request = self.state, message.get("request")
        try:
            self.state = before | dict(message.get("state") or {})
            if self._request is not None or self.state == before:  # nothing has changed but the item
                self._send_view()
        finally:
            self._request = None

    def _on_rows(self, message: Mapping[str, Any]) -> None:
        start, version = max(0, int(message["start"])), self._listing.version
        rows = self._rows(start, int(message["end"])) if message["version"] == version else []
        self.send({"type": "rows", "version": version, "start": start, "rows": rows})

    def _on_show(self, message: Mapping[str, Any]) -> None:
        index, listing = int(message["index"]), self._listing
        if message["version"] != listing.version or not 0 <= index < len(listing.rows):
            self.send({"type": "passage", "version": -1, "index": index, "passage": None})
            return
        item_id = listing.items.frame["item_id"].iloc[listing.rows[index]]
        if item_id == self.current_id:
            self._send_passage()
        self.current_id = item_id

    def _on_ask(self, message: Mapping[str, Any]) -> None:
        """Show an item in the widget of ``wb.ask``."""
        self._asked.put(self._listing.items[message["id"]])
        self.send({"type": "asked", "id": message["id"]})

    def _send_passage(self) -> None:
        index = self._listing.index(self.current_id)
        passage = self._passage(int(self._listing.rows[index])) if index >= 0 else None
        self.send({"type": "passage", "version": self._listing.version, "index": index, "passage": passage})

    def _send_view(self, request: str | None = None) -> None:
        request, self._request = request or self._request, None
        self.send(self._view() | {"request": request})

    def _view(self) -> dict[str, Any]:
        """Return the view as the page draws it: only the visible rows and one passage."""
        listing = self._listing
        index = listing.index(self.current_id)
        start = max(0, index - _FIRST_ROWS // 2)
        return {
            "type": "view", "version": listing.version, "n": len(listing.rows), "total": len(listing.items),
            "state": self.state, "words": listing.words(), "code": self.code, "fields": listing.completions(),
            "index": index, "start": start, "rows": self._rows(start, start + _FIRST_ROWS),
            "passage": self._passage(int(listing.rows[index])) if index >= 0 else None,
            "origin": listing.origin,
        }  # fmt: skip

    @property
    def code(self) -> str:
        """The line of Python that builds the view again: ``wb.browse(items, state={'sort': 'n_tokens'})``."""
        state, empty = dict(self.state), self._empty()
        if self._listing.index(state["current"]) <= 0:
            state["current"] = ""
        changed = {name: value for name, value in state.items() if value != empty[name]}
        return f"wb.{self._verb}({', '.join([*self._arguments, *([f'state={changed}'] if changed else [])])})"

    def _empty(self) -> dict[str, Any]:
        """Return the state that lists all items."""
        raise NotImplementedError

    # -- a page without a kernel

    def _static_numbers(self, order: str) -> list[tuple[str, str]]:
        """Return the first numbers of the static form: how many items are listed, and why these."""
        listing = self._listing
        words = "; ".join(text for text, _ in listing.words())
        counts = f"{len(listing.rows):,} of {len(listing.items):,}"
        numbers = [("Items", counts), ("Selection", words), ("Order", order)]
        return [(name, text) for name, text in numbers if text]

    def published(self, *, notes: bool = False) -> PublishedView:
        """Return the view as a page of its own, with tags and notes only if `notes`.

        A page has facets and a search in passages. Where the state has more, it holds the rows that pass.
        """
        listing, state = self._listing, self.state
        self._check_tags(notes=notes)
        sort = self._published_sort()
        is_search_plain = not state["search"].strip() or (not state["regex"] and state["field"] == "passage")
        has_facets = set(state["facets"]) <= set(self._published_facets())
        is_fixed = bool(state["where"]) or not (is_search_plain and has_facets)
        others = np.setdiff1d(np.arange(len(listing.items)), listing.rows)
        in_order = bool(state["sort"]) and not sort
        current = self.current_id if listing.index(self.current_id) > 0 else ""
        texts = [text for text, _ in listing.words()]
        remarks = [f"Items that pass: {'; '.join(texts)}."] if is_fixed else []
        return PublishedView(
            shows=self._shows, items=listing.items, in_order=in_order,
            rows=listing.rows.copy() if is_fixed else np.concatenate([listing.rows, others]),
            data=partial(self._published_data, notes=notes),
            state={"facets": {} if is_fixed else state["facets"],
                   "search": "" if is_fixed else state["search"], "sort": sort, "current": current},
            notes=remarks, numbers=self._published_numbers(), runs=self._runs, code=self._code_by_name(),
        )  # fmt: skip

    def _check_tags(self, *, notes: bool) -> None:
        """Raise DataError if the state uses tags that are not published."""
        table, state = self.state.get("table", False), self.state
        used = [*state["facets"], *columns_of(state["where"], self._listing.names)]
        used += [state["sort"].removeprefix("-"), *(table if isinstance(table, list) else ())]
        if not notes and TAGS in used:
            raise DataError("the view uses the tags, which are not published", hint="pass notes=True")

    def _published_facets(self) -> Sequence[str]:
        """Return the columns that are facets of a page."""
        return list(self._listing.facets)

    def _published_sort(self) -> str:
        """Return the column by which a page is sorted."""
        return str(self.state["sort"])

    def _published_numbers(self) -> list[tuple[str, str]]:
        """Return the numbers of all items that a page shows above its list."""
        return []

    def _published_data(self, rows: Rows, *, notes: bool) -> dict[str, Any]:
        """Return the columns and passages of the items in `rows`, and what the list shows of them."""
        raise NotImplementedError

    def _code_by_name(self) -> str:
        """Return the line of Python; empty if it takes predictions or annotations that no name gives."""
        from workbench.analysis.annotations import FEATURES  # noqa: PLC0415 - heavy

        added = set(self._annotations) - {"item_id", *FEATURES.names, "pipeline"}
        return "" if added or self._takes_frames else self.code

    def _rows(self, start: int, end: int) -> list[dict[str, Any]]:
        """Return rows of the list as the page draws them."""
        return [self._row(int(row)) for row in self._listing.rows[start : max(start, end)]]

    def _row(self, row: int) -> dict[str, Any]:
        """Return an item as a row of the list."""
        raise NotImplementedError

    def _passage(self, row: int) -> dict[str, Any]:
        """Return the item in a row as the page shows it."""
        raise NotImplementedError
