"""The charts of the linked view as plain numbers: what each bar counts, and what is chosen, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pandas as pd

from workbench.widgets.shared.facets import NO, NONE, UNKNOWN, YES, Category, Facet, Mask, Number
from workbench.widgets.shared.passages import plain

_MOST_BARS = 8
_MOST_BINS = 40
_TAIL = 0.99
_WIDTHS = (1, 2, 5)


@dataclass(frozen=True)
class Panel:
    """One chart.

    Attributes
    ----------
    name : str
        The column that it shows.
    title : str
        Its heading.
    labels : mapping
        How values are called at their bars, in reading order.
    phrases : mapping
        How they are called where it is said what is chosen; as at the bars by default.
    span : str
        How a range is called there.
    missing : str
        How rows without a value are called.
    """

    name: str
    title: str
    labels: Mapping[str, str] = field(default_factory=dict)
    phrases: Mapping[str, str] = field(default_factory=dict)
    span: str = "{}"
    missing: str = "not known"


_TRUTH = {YES: "yes", NO: "no"}
_CONTEXT = {YES: "in context", NO: "not in context", UNKNOWN: "in context or not is not known"}
PANELS = (
    Panel("lemma_in_context", "In context (or its lemma)", _TRUTH, _CONTEXT),
    Panel("in_context", "In context", _TRUTH, _CONTEXT),
    Panel(
        "direct_speech", "Direct speech", _TRUTH,
        {YES: "with direct speech", NO: "without direct speech", UNKNOWN: "speech or not is not known"},
    ),
    Panel(
        "target_class", "Target class",
        {
            "PN": "proper noun", "CN": "common noun", "V": "verb",
            "J": "adjective", "R": "adverb", "O": "other",
        },
        {"O": "other class", NONE: "class not known"},
    ),
    Panel(
        "mention_distance", "Mention distance (tokens)", span="mention {} tokens back", missing="none earlier"
    ),
    Panel("n_tokens", "Passage length (tokens)", span="{} tokens"),
)  # fmt: skip


def fitting(columns: Collection[str]) -> list[Panel]:
    """Return the panels for annotations with these columns: one of those for the context is enough.

    By lemma, where that is known, as in Figure 2a of Paperno et al. (2016); else by form.
    """
    unused = "in_context" if "lemma_in_context" in columns else "lemma_in_context"
    return [panel for panel in PANELS if panel.name != unused]


@dataclass(frozen=True)
class Bars:
    """A chart of categories, one bar a value, in reading order; the rarest of many are left out."""

    panel: Panel
    facet: Category

    def counts(self, everything: Mask, left: Mask) -> dict[str, Any]:
        """Return a row a bar: value, label, number of all items, number among those `left`."""
        codes, names = self.facet.codes, self.facet.names
        both = [np.bincount(codes[rows], minlength=len(names)).tolist() for rows in (everything, left)]
        ranks = {name: place for place, name in enumerate(self.panel.labels)}
        order = sorted(
            range(min(len(names), _MOST_BARS)),
            key=lambda k: (names[k] in (NONE, UNKNOWN), ranks.get(names[k], len(ranks)), k),
        )
        rows = [[names[k], self.label(names[k]), both[0][k], both[1][k]] for k in order]
        return {"kind": "bars", "rows": rows, "more": len(names) - len(rows)}

    def label(self, value: str) -> str:
        """Return how a value is called."""
        return self.panel.missing if value in (NONE, UNKNOWN) else self.panel.labels.get(value, value)

    def said(self, chosen: Sequence[Any]) -> str:
        """Say what is chosen."""
        return " or ".join(self.panel.phrases.get(value, self.label(value)) for value in map(str, chosen))


@dataclass(frozen=True)
class Bins:
    """A chart of whole numbers in bins of even width, the last one open where few lie beyond.

    Attributes
    ----------
    starts : array of int (bins,)
        The least number of each bin; a bin holds `width` whole numbers.
    open : bool
        Whether the last bin has no upper end.
    """

    panel: Panel
    values: np.ndarray[tuple[int], np.dtype[np.float64]]
    starts: np.ndarray[tuple[int], np.dtype[np.int64]]
    width: int
    open: bool

    def counts(self, everything: Mask, left: Mask) -> dict[str, Any]:
        """Return the bins' numbers of all items and of those `left`, and those without a value."""
        known = np.isfinite(self.values)
        n = len(self.starts)
        with np.errstate(invalid="ignore"):
            places = np.clip((self.values - self.starts[0]) // self.width, 0, n - 1)
        places = np.where(known, places, n).astype(int)
        total, part = (np.bincount(places[rows], minlength=n + 1).tolist() for rows in (everything, left))
        return {
            "kind": "bins", "starts": self.starts.tolist(), "width": self.width, "open": self.open,
            "total": total[:n], "left": part[:n],
            "missing": [self.panel.missing, total[n], part[n]],
        }  # fmt: skip

    def said(self, chosen: Sequence[Any]) -> str:
        """Say what is chosen."""
        return self.panel.span.format(_ends(chosen))


@dataclass(frozen=True)
class Nothing:
    """No chart, and why."""

    panel: Panel
    why: str

    def counts(self, _everything: Mask, _left: Mask) -> dict[str, Any]:
        """Return the reason."""
        return {"kind": "nothing", "why": self.why}

    def said(self, chosen: Sequence[Any]) -> str:
        """Say what is chosen."""
        return ", ".join(map(str, chosen))


Chart = Bars | Bins | Nothing


def chart(panel: Panel, facet: Facet | None, column: pd.Series[Any] | None) -> Chart:
    """Make the chart of a column.

    Parameters
    ----------
    panel : Panel
        What to show.
    facet : Category, Number, Labels or None
        The column as the browser filters by it; None where it does not.
    column : Series (n,) or None
        The column as it is; None where there is none of this name.
    """
    if column is None:
        return Nothing(panel, f"The annotations have no column “{panel.name}”.")
    known = column.dropna()
    if known.empty:
        return Nothing(panel, "Not known for any passage.")
    if isinstance(facet, Category):
        return Bars(panel, facet)
    if isinstance(facet, Number) and np.isfinite(facet.values).any():
        return _bins(panel, facet.values)
    if len(values := set(map(str, known))) == 1:
        (value,) = values
        value = {"True": YES, "False": NO}.get(value, value)
        return Nothing(panel, f"The same wherever it is known: {panel.labels.get(value, value)}.")
    return Nothing(panel, "The column holds no categories and no numbers.")


def sentence(charts: Mapping[str, Chart], filters: Mapping[str, Any]) -> list[list[str]]:
    """Return what is searched and chosen: the filter's name ("" for the search) and its words."""
    said = []
    if filters["query"].strip():
        how = "matches the expression" if filters["regex"] else "holds"
        said.append(["", f"{filters['field']} {how} “{filters['query'].strip()}”"])
    for name, chosen in filters["facets"].items():
        if name in charts:
            said.append([name, charts[name].said(chosen)])
        else:
            is_range = any(value is None or isinstance(value, (int, float)) for value in chosen)
            said.append([name, f"{name}: {_ends(chosen) if is_range else ' or '.join(map(str, chosen))}"])
    return said


def _ends(chosen: Sequence[float | None]) -> str:
    low, high = (None if end is None else plain(end) for end in chosen)
    if low is None or high is None:
        return f"{low} or more" if low is not None else "any number of" if high is None else f"at most {high}"
    return low if low == high else f"{low} to {high}"


def _bins(panel: Panel, values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Bins:
    known = values[np.isfinite(values)]
    low, high = int(np.floor(known.min())), int(np.floor(known.max()))
    tail = int(np.quantile(known, _TAIL, method="higher"))
    far = high - low > 2 * (tail - low)  # a few far values would squeeze all others together
    top = tail if far and tail > low else high
    width = next(
        w * 10**k for k in count() for w in _WIDTHS if (top // (w * 10**k) - low // (w * 10**k)) < _MOST_BINS
    )
    first = low // width * width
    starts = np.arange(first, top + 1, width, dtype=np.int64)
    return Bins(panel, values, starts, width, bool(high >= starts[-1] + width))
