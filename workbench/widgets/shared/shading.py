"""Shading of a passage by attention, influence or surprisal: values of spans, with notes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from workbench.items.items import Item, Items, Span
from workbench.items.marked_text import weighted_pieces
from workbench.items.tokens import tokens
from workbench.probing.influence import by_name
from workbench.render.numbers import fixed, probability
from workbench.storage.errors import DataError

_WORDS = 5  # best words in a note


class ShadedSpan(NamedTuple):
    """A span of the released text, its value, and the lines of its tooltip."""

    span: Span
    value: float
    note: Sequence[str]


class Shading(NamedTuple):
    """Values of spans of passages.

    Attributes
    ----------
    label, unit : str
        Name and unit of the values.
    spans : mapping of str to sequence of ShadedSpan
        By item id; the spans of an item do not overlap.
    signs : (str, str) or None
        Meaning of values above and below 0; None if there are none below.
    """

    label: str
    unit: str
    spans: Mapping[str, Sequence[ShadedSpan]]
    signs: tuple[str, str] | None = None


def shaded_passage(
    item: Item, marks: Mapping[str, Sequence[Span]], shading: Shading | None
) -> dict[str, Any]:
    """Return a passage as pages draw it.

    It has ``context`` and ``query`` in pieces of text and letters of `marks`; and where the shading has spans
    in the item ``shades``: for the pieces of each the value and the lines of the tooltip, None outside of all
    spans; what the values are (``label``, ``unit``, ``signs``), and the greatest without its sign (``top``).
    """
    shaded = shading.spans.get(item.item_id, ()) if shading else ()
    numbers = range(1, len(shaded) + 1)  # weights that say of which span a piece is
    sides = weighted_pieces(item, marks, [each.span for each in shaded], list(numbers))
    context, query = ([piece[:2] for piece in side] for side in sides)
    view: dict[str, Any] = {"context": context, "query": query, "shades": None}
    if shading and shaded:
        finite = [abs(each.value) for each in shaded if math.isfinite(each.value)]
        top = max(finite, default=0.0)
        pieces = [
            [None if number is None else _shade(shaded[round(number) - 1], top) for *_, number in side]
            for side in sides
        ]
        view["shades"] = {
            "pieces": pieces, "top": top, "label": shading.label, "unit": shading.unit,
            "signs": shading.signs,
            "darkest": _signed(top) if shading.signs else fixed(top, 2),
        }  # fmt: skip
    return view


def _shade(shaded: ShadedSpan, top: float) -> tuple[float, Sequence[str]]:
    """Return the value relative to the greatest, from -1 to 1, and the lines of the tooltip."""
    share = max(-1.0, min(1.0, shaded.value / top)) if top and not math.isnan(shaded.value) else 0.0
    return round(share, 4), shaded.note


def attention_shading(item: Item, weights: Sequence[float] | None) -> Shading | None:
    """Return the attention to the tokens of an item, or None if the weights do not fit its tokens."""
    spans = tokens(item).spans
    if weights is None or len(weights) != len(spans):
        return None
    values = np.nan_to_num(np.asarray(weights, dtype=float), posinf=0.0).clip(0).tolist()
    pairs = [(span, value) for span, value in zip(spans, values, strict=True) if span[0] < span[1]]
    rows = [
        ShadedSpan(span, value, [f"attention {value:.2g}"])
        for span, value in pairs
        if span != item.answer_span
    ]
    return Shading("attention", "", {item.item_id: rows})


def shadings(
    items: Items, *, influence: Any = None, surprisal: Any = None, value: str = "influence"
) -> dict[str, Shading]:
    """Return the available shadings of passages, by name.

    Of influence, `value` is shaded: the column ``influence``, or ``contrast`` against another word.

    `influence` and `surprisal` are what `wb.influence` and `wb.surprisal` returned, for one model or several
    by name; of a surprisal with a difference that is shown. Frames of other texts are refused.
    """
    if influence is None and surprisal is None:
        return {}
    texts = dict(zip(items.frame["item_id"], items.frame["text"], strict=True))
    by_label: dict[str, Shading] = {}
    if influence is not None:
        frames, several = by_name(influence), isinstance(influence, Mapping)
        for name, frame in frames.items():
            label = f"{value}: {name}" if several else value
            spans = _spans(frame, texts, label, value, _influence_note)
            signs = ("supports the answer", "speaks against it")
            if value == "contrast":
                signs = ("supports the answer", "supports the other word")
            by_label[label] = Shading(label, "nats", spans, signs)
    if surprisal is not None:
        several = isinstance(surprisal, Mapping)
        for name, frame in surprisal.items() if several else [("", surprisal)]:
            if not {"item_id", "start", "end", "surprisal"} <= set(frame):
                raise DataError(
                    f"the surprisal {name!r:.60} has no columns item_id, start, end and surprisal",
                    hint="make it with wb.surprisal(model, items)",
                )
            column = "difference" if "difference" in frame else "surprisal"
            label = "difference in surprisal" if column == "difference" else column
            label += f": {name}" if several else ""
            models = frame.attrs.get("models", ("the first model", "the second model"))
            signs = (f"more surprising for {models[0]}", f"more surprising for {models[1]}")
            spans = _spans(frame, texts, label, column, partial(_surprisal_note, models))
            by_label[label] = Shading(label, "bits", spans, signs if column == "difference" else None)
    return by_label


def _spans(
    frame: pd.DataFrame, texts: Mapping[str, str], label: str, value: str, note: Any
) -> dict[str, list[ShadedSpan]]:
    """Return the shaded spans of each item; DataError if they are not in its text, or overlap."""
    spans: dict[str, list[ShadedSpan]] = {}
    written = "text" if "text" in frame else "word" if "word" in frame else None
    for row in frame[frame["item_id"].isin(texts.keys())].to_dict("records"):
        text, start, end = texts[row["item_id"]], int(row["start"]), int(row["end"])
        if not 0 <= start < end <= len(text) or (written and text[start:end] != row[written]):
            raise DataError(
                f"the {label} of {row['item_id']!r:.60} is of another text",
                hint="compute it for these very items: spans of another variant lie elsewhere",
            )
        number = float("nan") if pd.isna(row[value]) else float(row[value])
        spans.setdefault(str(row["item_id"]), []).append(ShadedSpan((start, end), number, note(row, number)))
    for item_id, row_spans in spans.items():
        row_spans.sort(key=lambda each: each.span)
        if any(a.span[1] > b.span[0] for a, b in pairwise(row_spans)):
            raise DataError(
                f"the {label} of {item_id!r:.60} has parts that overlap",
                hint="pass the rows of one call, or several calls by name",
            )
    return spans


def _influence_note(row: Mapping[Any, Any], value: float) -> list[str]:
    distance = int(row["distance"])
    note = [
        f"influence {_signed(value)} nats",
        f"{distance:,} {'word' if distance == 1 else 'words'} before the answer",
    ]
    if isinstance(row.get("against"), str):
        note.append(f"against “{row['against']}”: {_signed(row['contrast'])} nats")
    if "rank" in row and not pd.isna(row["rank_change"]):
        note.append(f"rank {row['rank']:,}, without this part {row['rank'] + row['rank_change']:,}")
    return note


def _surprisal_note(models: Sequence[str], row: Mapping[Any, Any], value: float) -> list[str]:
    if "difference" not in row:
        return [f"surprisal {fixed(value, 1)} bits", *_best_words(row, "")]
    first, second = (fixed(row[f"surprisal{name}"], 1) for name in ("", "_against"))
    note = [f"difference {_signed(value)} bits: {first} less {second}"]
    leads = [f"{model}: " for model in models]
    return [*note, *_best_words(row, "", leads[0]), *_best_words(row, "_against", leads[1])]


def _best_words(row: Mapping[Any, Any], suffix: str, lead: str = "") -> list[str]:
    """Return a line with the best words and their probabilities; empty without words."""
    words, values = row.get(f"top_words{suffix}"), row.get(f"top_log_probs{suffix}")
    if words is None or values is None or not len(words):
        return []
    pairs = list(zip(words, values, strict=True))[:_WORDS]
    texts = [f"{word} {probability(math.exp(min(value, 0.0)))}" for word, value in pairs]
    return [lead + " · ".join(text.replace(" ", "\N{NO-BREAK SPACE}") for text in texts)]


def _signed(value: float) -> str:
    return fixed(value, 2, sign=True)
