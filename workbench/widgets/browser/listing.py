"""The listed items in other forms: cells of a table, files."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

import pandas as pd

from workbench.items.cells import json_cell
from workbench.render.labels import label
from workbench.storage.errors import check_option
from workbench.widgets.shared.listing import ITEM_FACETS, TAGS, Listing
from workbench.widgets.shared.passages import BLANK_MARK, cell_text

PASSAGE = "passage"
"""Column of the table for the end of the target sentence, with the blank, or what surrounds a search hit."""

_FIRST = ("answer", "target_class", "word_class", "n_tokens", "mention_distance")
_LATER = ("n_mentions", "in_context", "direct_speech", "book_id")
TELLING = ("answer", "target_lemma")
"""Columns that would give a hidden target away."""

_N_USUAL = 6  # columns of the table beside passage and tags
_FORMATS = ("csv", "jsonl", "parquet")


def column_title(name: str) -> str:
    """Return the heading of a table column."""
    return "Passage" if name == PASSAGE else label(name)


def known_columns(listing: Listing) -> list[str]:
    """Return the names of all columns that the table view can show beside the item's id."""
    others = [str(name) for name in listing.table if name not in ("item_id", TAGS)]
    return list(dict.fromkeys([PASSAGE, *others, TAGS]))


def table_columns(
    listing: Listing, sort: str, *, chosen: Sequence[str] = (), extra: Iterable[str] = ()
) -> list[str]:
    """Return the columns of the table view: the chosen ones, and the one it is sorted by.

    Where none is chosen, they are the passage, the user's own (`extra`), the usual ones, and the tags.
    """
    valid = known_columns(listing)
    columns = [name for name in dict.fromkeys(chosen) if name in valid]
    if not columns:
        there = {name for name in listing.sortable if name == "answer" or name in listing.facets}
        others = [name for name in listing.sortable if name in there - set(ITEM_FACETS)]
        first = [name for name in extra if name in valid]
        usual = [name for name in (*_FIRST, *_LATER, *others) if name in there and name not in (*first, TAGS)]
        columns = [PASSAGE, *list(dict.fromkeys([*first, *usual]))[:_N_USUAL], TAGS]
    sorted_by = [sort.removeprefix("-")] if sort else []
    return columns + [name for name in sorted_by if name not in (*columns, "item_id")]


def table_cells(
    table: pd.DataFrame, row: int, columns: Sequence[str], *, passage: str, reveal: bool
) -> list[str]:
    """Return the cells of a row as text; those that contain the target only with `reveal`."""
    return [
        passage if name == PASSAGE
        else BLANK_MARK if name in TELLING and not reveal
        else cell_text(table[name].iloc[row])
        for name in columns
    ]  # fmt: skip


def encoded(frame: pd.DataFrame, suffix: str) -> bytes:
    """Encode a frame as CSV, JSONL or Parquet; in CSV, lists and mappings are JSON."""
    check_option("the format", suffix, _FORMATS)
    out = io.BytesIO()
    if suffix == "csv":
        frame.map(json_cell).to_csv(out, index=False)
    elif suffix == "jsonl":
        frame.to_json(out, orient="records", lines=True, force_ascii=False, double_precision=15)
    else:
        frame.assign(meta=frame["meta"].map(json_cell)).to_parquet(out, index=False)
    return out.getvalue()
