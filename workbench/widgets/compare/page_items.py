"""The items of a comparison as HTML: each passage, and what every model said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.evaluation.comparison import Comparison
from workbench.items.items import Item
from workbench.items.tokens import shown, tokens
from workbench.widgets.shared.passages import pieces

_LEAST = 0.001
_MANY = 1000


def items(of: Comparison, rows: npt.NDArray[np.int64], limit: int, pair: tuple[int, ...] | None) -> str:
    """Return the first items of a list, with a heading and a key to the colours."""
    n = len(rows)
    which = "Items"
    if pair:
        which = f"Items that {of.labels[pair[0]]} got right and {of.labels[pair[1]]} wrong"
    some = f", the first {limit:,} of them here" if limit < n else ""
    listed = rows[:limit]
    key = (
        '<p class="key soft"><span><i class="in"></i>occurs in the passage</span><span><i></i>does not</span>'
        "<span><mark>▸ the answer</mark></span></p><p class=soft>The bars of one item are probabilities on"
        " one scale; scores that are no probabilities have one of their own for each model.</p>"
    )
    body = "".join(_article(of, of.items[int(row)], int(row)) for row in listed)
    return (
        f"<h2>{escape(which)}</h2><p class=soft>{n:,} {'item' if n == 1 else 'items'}{some}.</p>"
        f"{key if n else ''}{body}"
    )


def _article(of: Comparison, item: Item, row: int) -> str:
    answer = of.answers[row]
    context, query = pieces(item, {})
    cut = tokens(item)
    others = {w.casefold() for k, w in enumerate(cut.words) if not cut.target <= k < cut.end}
    said = of.top(row)
    most = max(
        (np.exp(v) for one in said if one["score_type"] == "log_prob" for v in _valued(one)), default=1.0
    )
    kind = [item.item_id, *filter(None, [item.book_id, item.word_class])]
    right = f"{int(of.n_right[row])} of {of.m} right"
    body = "".join(_said(one, answer, others, most or 1.0, cut.words) for one in said)
    return (
        f"<article><header><bdi>{escape(' · '.join(kind))}</bdi> · {right}</header>"
        + (f'<div class="p" dir="auto">{_words(context, answer)}</div>' if context else "")
        + f'<div class="p q" dir="auto">{_words(query, answer)}</div><div class="said">{body}</div></article>'
    )


def _words(given: Sequence[tuple[str, str]], answer: str) -> str:
    return "".join(
        f"<mark>{escape(text or answer)}</mark>" if "b" in kinds else escape(text) for text, kinds in given
    )


def _valued(one: dict[str, Any]) -> Iterator[float]:
    """Give what has a bar: the best words, and the answer where it is known."""
    yield from (value for value in one["log_probs"] if value == value)  # noqa: PLR0124 - NaN is not
    if one["answer_log_prob"] is not None:
        yield one["answer_log_prob"]


def _said(one: dict[str, Any], answer: str, others: set[str], most: float, words: Sequence[str]) -> str:
    proper = one["score_type"] == "log_prob"
    values = one["log_probs"] or [np.nan] * len(one["words"])
    low, high = (min(values), max(values)) if values else (0.0, 0.0)

    def share(value: float) -> float:
        if proper:
            return float(np.exp(value)) / most
        return (value - low) / (high - low) if high > low else 0.0

    lines, there = [], False
    for word, value in zip(one["words"], values, strict=False):
        same = word.casefold() == answer.casefold()
        there |= same
        text = probability(value) if proper else number(value)
        lines.append(_line(word, share(value), text, same=same, inside=word.casefold() in others))
    ln_p = one["answer_log_prob"]
    if not there:
        text = "" if ln_p is None else probability(ln_p)
        size = 0.0 if ln_p is None else share(ln_p)
        inside = answer.casefold() in others
        lines.append(_line(answer, size, text, same=True, inside=inside, last=bool(lines)))
    rank = "" if one["rank"] is None else f"rank {'≥ ' if one['rank_is_bound'] else ''}{one['rank']:,}"
    rank += f", tied with {one['n_tied'] - 1:,}" if rank and (one["n_tied"] or 1) > 1 else ""
    guess = (
        "no prediction"
        if one["prediction"] is None
        else f"<bdi>{escape(shown([one['prediction']])[0])}</bdi>"
    )
    numbers = " · ".join(filter(None, [rank, "" if ln_p is None else f"ln p {number(ln_p)}"]))
    mark = '<span class="right">✓ right</span>' if one["correct"] else '<span class="wrong">✗ wrong</span>'
    numbers = f" · {numbers}" if numbers else ""
    lines.append(_attention(one["attention"], words))
    return (
        f"<section><h3><bdi>{escape(one['label'])}</bdi></h3><p>{mark}: {guess}{numbers}</p>"
        f"{''.join(lines)}</section>"
    )


def _line(word: str, share: float, text: str, *, same: bool, inside: bool, last: bool = False) -> str:
    css = " ".join(["w", *(name for name, on in (("in", inside), ("t", same), ("last", last)) if on)])
    note = ", the answer" if same else ""
    size = min(max(share, 0.0), 1.0) if share == share else 0.0  # noqa: PLR0124 - NaN is not
    seen = escape(shown([word])[0])  # quotes and brackets as they are read
    told = f"▸ {seen}" if same else seen
    return (
        f'<div class="{css}"><span title="{escape(word)}{note}" dir="auto">{told}</span>'
        f'<span><i style="--v:{size:.1%}"></i></span><span>{text}</span></div>'
    )


def _attention(weights: Sequence[float] | None, words: Sequence[str]) -> str:
    if weights is None or len(weights) != len(words) or not words:
        return ""
    most = max(weights) or 1.0
    marked = " ".join(
        f'<span style="--a:{max(0.0, weight) / most:.0%}">{escape(word)}</span>'
        for word, weight in zip(words, weights, strict=True)
    )
    return f'<details><summary>attention</summary><div class="att" dir="auto">{marked}</div></details>'


def number(value: float) -> str:
    """Write a number for a reader: three digits, or all before the point."""
    if pd.isna(value):
        return ""
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.0f}" if abs(value) >= _MANY else f"{value:.3g}"


def probability(ln_p: float) -> str:
    """Write the probability of a natural logarithm."""
    p = float(np.exp(ln_p))
    return f"{100 * p:.1f} %" if p >= _LEAST else f"{p:.0e}" if p else "0"
