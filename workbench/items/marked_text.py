"""An item as readable text in pieces that carry marks and weights, as widgets and charts draw it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from workbench.items.schema import Item, Span

Piece = tuple[str, str]
"""Text and the letters of its marks: b blank, m mention, s speech, h search hit."""

WeightedPiece = tuple[str, str, float | None]
"""A piece, and the weight of what it is a part of; None outside of all parts."""


def pieces(item: Item, marks: Mapping[str, Sequence[Span]]) -> tuple[list[Piece], list[Piece]]:
    """Cut the context and the target sentence into pieces of even marking, as readable text in order.

    Marks are spans in the released text by a letter. The piece marked ``b`` is the target (empty where the
    answer is not known).
    """
    context, query = weighted_pieces(item, marks, (), ())
    return [piece[:2] for piece in context], [piece[:2] for piece in query]


def weighted_pieces(
    item: Item, marks: Mapping[str, Sequence[Span]], segments: Sequence[Span], weights: Sequence[float]
) -> tuple[list[WeightedPiece], list[WeightedPiece]]:
    """Cut an item as `pieces` does, and at the ends of `segments`: a piece has the sum of their weights.

    `segments` are spans in the released text, with a weight each.
    """
    bounds = [item.sentences[-1], item.answer_span]
    marked = [(letter, span) for letter, spans in marks.items() for span in spans]
    text, spans = item.readable([*bounds, *(span for _, span in marked), *segments])
    query, blank, *spans = spans
    placed, read = spans[: len(marked)], spans[len(marked) :]
    inside = range(blank[0] + 1, blank[1])  # no mark may cut the blank: a part of it would be shown
    steps = np.zeros((2, len(text) + 1))  # of the weight, and of the number of parts
    for (begin, end), weight in zip(read, weights, strict=True):
        steps[:, begin] += weight, 1
        steps[:, end] -= weight, 1
    weight_at, n_parts_at = steps.cumsum(axis=1)
    ends = {end for span in spans for end in span if end not in inside}
    first = min(query[0], blank[0])  # an empty blank may stand before the first word
    cuts = {first, *blank, len(text), *ends}
    context: list[WeightedPiece] = []
    target: list[WeightedPiece] = []
    start = 0
    for end in sorted(cuts):
        letters = {
            letter for (letter, _), (a, b) in zip(marked, placed, strict=True) if a <= start and end <= b
        }
        if end > start:
            classes = letters - {"h", "m"} | {"b"} if (start, end) == blank else letters
            side = context if end <= first else target
            value = float(max(0.0, weight_at[start])) if n_parts_at[start] else None
            side.append((text[start:end], "".join(sorted(classes)), value))
        if end == blank[0] == blank[1]:
            target.append(("", "b", None))
        start = end
    if context:
        context[-1] = (context[-1][0].rstrip(), *context[-1][1:])
    return context, target
