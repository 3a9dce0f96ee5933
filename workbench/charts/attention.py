"""Chart of a model's attention to a passage, as in Figure 2 of Hill et al. (2016)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import altair as alt
import pandas as pd

from workbench.analysis.mentions import mentions
from workbench.charts import theme
from workbench.items.marked_text import WeightedPiece, weighted_pieces
from workbench.items.schema import Item
from workbench.models.item_words import Attention
from workbench.storage.errors import DataError, check_option

_SIZE = 13  # of the text, in px
_LINE = 22  # distance of lines, in px
_BLANK = "_____"
_DEEPEST = 0.62  # opacity of the largest weight: text stays readable on it
_RUN = re.compile(r"\n|[^\S\n]+|\S+")

_ASCII = """
278 278 355 556 556 889 667 191 333 333 389 584 278 333 278 278 556 556 556 556 556 556 556 556
556 556 278 278 584 584 584 556 1015 667 667 722 722 667 611 778 722 278 500 667 556 833 722 778
667 778 722 667 611 722 667 944 667 667 611 278 278 278 469 556 333 556 556 500 556 556 278 556
556 222 222 500 222 833 556 556 556 556 333 500 278 556 500 722 500 500 500 334 260 334 584
""".split()  # noqa: SIM905 - read as lines
"""Widths of the printable ASCII characters in Helvetica, in thousandths of the size (Adobe font metrics).

Arial and Liberation Sans have the same.
"""

_WIDTHS = dict(zip(map(chr, range(32, 127)), map(int, _ASCII), strict=True))
_WIDTHS |= dict.fromkeys("‘’", 222) | dict.fromkeys("“”", 333) | {"—": 1000, "…": 1000}  # noqa: RUF001
_FIRST_WIDE = 0x1100  # from here on, most characters are as wide as high

_SCALES: dict[str, Any] = {"linear": "linear", "square root": "sqrt"}


class _Run(NamedTuple):
    """A run of characters of one piece, laid out on a line."""

    text: str
    marks: str
    weight: float | None
    line: float
    x: float
    x2: float


def attention_map(
    item: Item,
    attention: Attention,
    *,
    row: str = "",
    scale: str = "linear",
    reveal: bool = True,
    width: int = 600,
) -> alt.LayerChart:
    """Draw a passage with its parts shaded by attention weight.

    The part that asked, such as the window around the blank, is outlined. With the answer, its mentions are
    underlined, and mentions of the prediction dashed.

    Parameters
    ----------
    item : Item
    attention : Attention
        Attention to this item: an element of ``model.attend(items)``.
    row : str, optional
        Hop, layer or head, as for :meth:`workbench.models.item_words.Attention.of`; all together by default.
    scale : {"linear", "square root"}
        Scale of the shades.
    reveal : bool, default True
        Whether answer and prediction are drawn.
    width : int, default 600
        Width of the text, in px.

    Returns
    -------
    alt.LayerChart

    Raises
    ------
    DataError
        If the attention is of another item, or has no such row.

    Examples
    --------
    >>> from workbench.models import MemoryNetwork
    >>> model = MemoryNetwork.fit(wb.books("sample", "train"), width=16, tokens=2000)
    >>> chart = wb.charts.attention_map(items[0], model.attend(items[:1])[0])
    """
    check_option("scale", scale, tuple(_SCALES))
    if attention.item_id != item.item_id:
        raise DataError(f"this is the attention of {attention.item_id!r:.80}, expected {item.item_id!r:.80}")
    marks = {"w": [attention.query] if attention.query else []}
    if reveal:
        marks |= {"m": mentions(item), "p": attention.predicted(item)}
    context, query = weighted_pieces(item, marks, attention.spans, attention.row_weights(row).tolist())
    answer = (item.answer or "?") if reveal else _BLANK
    query = [(answer if "b" in letters else text, letters, weight) for text, letters, weight in query]
    runs = list(_layout(context, width, 0.0))
    below = runs[-1].line + 1.4 if runs else 0.0
    runs += _layout(query, width, below)
    table = pd.DataFrame(runs, columns=list(_Run._fields)).assign(
        top=[_LINE * run.line for run in runs], bottom=[_LINE * (run.line + 0.86) for run in runs]
    )
    height = _LINE * (max((run.line for run in runs), default=0) + 1)
    x, x2 = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[0, width], nice=False)), "x2:Q"
    down = alt.Scale(domain=[0, height], range=[0, height], nice=False)
    y, y2 = alt.Y("top:Q", axis=None, scale=down), "bottom:Q"
    floor = alt.Y("bottom:Q", axis=None, scale=down)
    max_weight = float(table["weight"].max()) if table["weight"].notna().any() else 1.0
    depth = alt.Scale(domain=[0, max_weight or 1.0], range=[0, _DEEPEST], type=_SCALES[scale])

    def layer(pattern: str) -> alt.Chart:
        rows = table["marks"].str.contains(pattern) if pattern else table["weight"].notna()
        return alt.Chart(table.loc[rows])

    shades = layer("").mark_rect(color=theme.PALETTE[0]).encode(
        x=x, x2=x2, y=y, y2=y2, tooltip=["text:N", alt.Tooltip("weight:Q", format=".2g")],
        opacity=alt.Opacity("weight:Q", scale=depth, title="attention weight", legend=alt.Legend(
            orient="bottom", format=".2g", symbolType="square", symbolSize=160, symbolStrokeWidth=0,
        )),
    )  # fmt: skip
    inside = table[table["marks"].str.contains("w")]  # one rectangle per line around the query span
    boxes = inside.groupby("line", as_index=False).agg(
        {"x": "min", "x2": "max", "top": "min", "bottom": "max"}
    )
    boxes = boxes.assign(x=boxes["x"] - 2, x2=boxes["x2"] + 2)
    outline = alt.Chart(boxes).mark_rect(
        filled=False, stroke=theme.INK, strokeWidth=1.2, cornerRadius=2, aria=False
    ).encode(x=x, x2=x2, y=y, y2=y2)  # fmt: skip
    lines = [
        layer(pattern).mark_rule(color=colour, strokeWidth=2, strokeDash=dash).encode(x=x, x2=x2, y=floor)
        for pattern, colour, dash in (("[mb]", theme.PALETTE[2], [1, 0]), ("p", theme.PALETTE[1], [3, 2]))
        if reveal
    ]
    words = alt.Chart(table).mark_text(
        align="left", baseline="middle", fontSize=_SIZE, dy=_LINE * 0.44, color=theme.INK
    ).encode(x=x, y=y, text="text:N")  # fmt: skip
    facts = [f"{attention.model}{', ' if row else ''}{row}"]
    if reveal:
        word = attention.prediction or "none"
        facts.append(f"answer (underlined): {answer}; prediction (dashed): {word}")
    head = theme.chart_title(item.item_id, facts, width=width // 7)
    layers = alt.LayerChart(layer=[shades, outline, *lines, words])
    weights = table.loc[table["weight"].notna(), ["text", "weight"]]
    name = f"Attention of {attention.model}, {item.item_id}"
    return theme.themed(layers.properties(title=head, width=width, height=height), name, weights)


def _layout(pieces: Sequence[WeightedPiece], width: float, begin: float) -> Iterator[_Run]:
    """Yield the pieces in lines no wider than `width`, broken at white space; longer words are not broken."""
    line, x = begin, 0.0
    gap: WeightedPiece | None = None  # white space before the word
    word: list[WeightedPiece] = []  # pieces without white space between them

    def flush() -> Iterator[_Run]:
        nonlocal line, x, gap
        row = [*([gap] if gap else []), *word]
        if x and x + sum(_width(text) for text, _, _ in row) > width:
            line, x, row = line + 1, 0.0, list(word)
        for text, marks, weight in row:
            yield _Run(text, marks, weight, line, x, x := x + _width(text))
        gap = None
        word.clear()

    for text, marks, weight in pieces:
        for run in _RUN.findall(text):
            if not run.isspace():
                word.append((run, marks, weight))
                continue
            if word:
                yield from flush()
            gap = (" ", marks, weight) if x else None
            if run == "\n":
                line, x, gap = line + bool(x), 0.0, None
    if word:
        yield from flush()


def _width(text: str) -> float:
    wide = (_WIDTHS.get(c, 1000 if ord(c) >= _FIRST_WIDE else 556) for c in text)
    return sum(wide) * _SIZE / 1000
