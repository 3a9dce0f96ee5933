"""What is shown of a question: numbers as words for the page, and the static twin without a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workbench.items import text as wt
from workbench.items.schema import Item
from workbench.items.tokens import tokens
from workbench.render.numbers import probability
from workbench.widgets.ask.questions import VERSIONS, Answer, Question
from workbench.widgets.ask.threads import Asking, Record
from workbench.widgets.shared.passages import pieces, snippet
from workbench.widgets.shared.widget import render

_HEADS = {"passage": "whole passage", "sentence": "last sentence alone"}
_NO_GAIN = {"nats": "", "factor": ""}


def shown(question: Question, answer: Answer, top_k: int) -> dict[str, Any]:
    """Return what is drawn of one model's answer.

    Returns
    -------
    dict
        ``seconds``; ``error`` where all went wrong alike, else ``sides``: of each its letter and one cell a
        version (an ``error``, or ``bars`` [word, value, label, in passage, is the word], ``kind`` of the
        values, ``p``, ``rank``, ``ln``, ``note``) with the ``gain`` between them; and the ``differences``
        of two sides by version. Values of kind ``p`` are probabilities, the others shares of the longest bar.
    """
    errors = {reply.get("error") for reply in answer.replies.values()}
    if len(errors) == 1 and None not in errors:
        return {"seconds": answer.seconds, "error": errors.pop()}
    sides = []
    for side, item in question.passages.items():
        inside = {word.lower() for word in _others(item)}
        cells = {version: _cell(answer.replies[side, version], item, inside, top_k) for version in VERSIONS}
        gain = _ratio(*(answer.replies[side, version].get("log_prob") for version in VERSIONS))
        sides.append({"side": side, "word": item.answer, "single": len(item.sentences) == 1,
                      **cells, "gain": gain})  # fmt: skip
    view: dict[str, Any] = {"seconds": answer.seconds, "sides": sides, "differences": None}
    if len(sides) > 1:
        view["differences"] = {
            version: _ratio(*(answer.replies[side, version].get("log_prob") for side in "AB"))
            for version in VERSIONS
        }
    return view


def _others(item: Item) -> Sequence[str]:
    cut = tokens(item)
    return cut.words[: cut.target] + cut.words[cut.end :]


def _cell(reply: Mapping[str, Any], item: Item, inside: set[str], top_k: int) -> dict[str, Any]:
    if "error" in reply:
        return {"error": reply["error"]}
    kind, values = _values(reply)
    words = (reply["top_words"] or [])[:top_k]
    target = (item.answer or "").casefold()
    labels = [_label(kind, value) for value in values]
    lengths = values if kind == "p" else _lengths(values)
    bars = [
        [word_shown(word), length, label, word.lower() in inside, bool(target) and word.casefold() == target]
        for word, length, label in zip(words, lengths, labels, strict=False)
    ]
    return {"bars": bars, "kind": kind} | _rank_and_probability(reply, item, kind)


def _values(reply: Mapping[str, Any]) -> tuple[str, list[float]]:
    """Return what the bars are of, and their values; a score that is not finite is NaN."""
    values = [math.nan if v is None or not math.isfinite(v) else v for v in reply["top_log_probs"] or []]
    if reply["score_type"] != "log_prob":
        return "score", values
    logs = [-math.inf if math.isnan(v) else v for v in values]
    choices = [-math.inf if v is None else v for v in reply["candidate_scores"] or []]
    total = float(np.logaddexp.reduce(choices)) if choices else 0.0
    if not math.isfinite(total):
        total = 0.0
    return "share" if choices else "p", [min(1.0, math.exp(v - total)) for v in logs]


def _lengths(values: Sequence[float]) -> list[float]:
    """Return bars as shares of the longest one; where scores are below 0, the lowest has none."""
    finite = [value for value in values if not math.isnan(value)]
    low, high = min([0.0, *finite]), max(finite, default=0.0)
    return [(v - low) / (high - low) if high > low and not math.isnan(v) else 0.0 for v in values]


def _label(kind: str, value: float) -> str:
    if math.isnan(value):
        return "none"
    return f"{value:.4g}" if kind == "score" else probability(value)


def _rank_and_probability(reply: Mapping[str, Any], item: Item, kind: str) -> dict[str, str]:
    """Say rank and probability of the word that is asked for."""
    n = reply["n_choices"] or reply["vocabulary_size"]
    texts = dict.fromkeys(("p", "rank", "ln", "note"), "")
    if kind == "share":
        texts["note"] = f"shares of the {n:,} candidates"
    elif kind == "score":
        among = "candidates" if item.candidates else "words of its own choice"
        texts["note"] = f"scores, no probabilities{f'; of {n:,} {among}' if n else ''}"
    if item.answer is None:
        return texts
    log_prob = reply["log_prob"]
    if log_prob is not None:
        texts["p"] = probability(math.exp(log_prob))
        texts["ln"] = f"ln p {_signed(log_prob)}"
    if reply["known"] is False:
        size = reply["vocabulary_size"]
        among_what = (
            f"in the vocabulary of {size:,}"
            if size and not item.candidates
            else f"among its {n or 0:,} words"
        )
        texts["rank"] = f"not {among_what}"
    elif reply["rank"] is not None:
        bound = "at least " if reply["rank_is_bound"] else ""
        ties = f", {reply['n_tied']:,} tied" if (reply["n_tied"] or 1) > 1 else ""
        texts["rank"] = f"rank {bound}{reply['rank']:,}{f' of {n:,}' if n else ''}{ties}"
    return texts


def _ratio(one: float | None, other: float | None) -> dict[str, str]:
    """Say by how much one natural log-probability is above another, and what factor that is."""
    if one is None or other is None or not math.isfinite(one - other):
        return _NO_GAIN
    nats = one - other
    factor = math.exp(min(abs(nats), 700.0))
    sign = "×" if nats >= 0 else "÷"  # noqa: RUF001 - a multiplication sign
    return {"nats": f"{_signed(nats, plus=True)} nats", "factor": f"{sign} {_short(factor)}"}


def _signed(value: float, *, plus: bool = False) -> str:
    if not math.isfinite(value):
        return "−∞" if value < 0 else "∞"  # noqa: RUF001 - minus signs
    text = f"{abs(value):.2f}"
    sign = "" if float(text) == 0 else "−" if value < 0 else "+" if plus else ""  # noqa: RUF001
    return f"{sign}{text}"


def _short(value: float) -> str:
    if value < 10:  # noqa: PLR2004 - two digits behind the point
        return f"{value:.2f}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")  # noqa: PLR2004


def word_shown(word: str) -> str:
    """Write a word of a vocabulary for a reader: quotes and brackets as print has them."""
    return word if len(word.split()) != 1 or word.startswith("<") else wt.readable(word) or word


def preview(question: Question) -> list[dict[str, Any]]:
    """Return the passages as they were read: context and target sentence in pieces, by side."""
    sides = []
    for side, item in question.passages.items():
        context, query = pieces(item, {"d": question.differences[side]})
        sides.append({"side": side, "context": context, "query": query, "sentences": len(item.sentences),
                      "word": item.answer, "tokenised": item.tokenised})  # fmt: skip
    return sides


def entry(number: int, record: Record) -> dict[str, Any]:
    """Return what the list of the history shows of a question."""
    question = record.question
    item = next(iter(question.passages.values()))
    words = list(dict.fromkeys(i.answer for i in question.passages.values() if i.answer is not None))
    return {"number": number, "time": f"{question.asked:%H:%M:%S}", "word": " / ".join(words),
            "text": snippet(item, None)[0], "pairs": len(question.passages) > 1}  # fmt: skip


def page(asking: Asking, records: Sequence[Record]) -> str:
    """Return questions with their answers as HTML that needs neither kernel nor script; all is escaped."""
    with asking.lock:
        questions = [_question(asking, record) for record in records]
    return render("ask/static.html", questions=questions, heads=_HEADS)


def _question(asking: Asking, record: Record) -> dict[str, Any]:
    question = record.question
    views = {p: shown(question, answer, asking.top_k) for p, answer in sorted(record.answers.items())}
    sides = [side for view in views.values() for side in view.get("sides", [])]
    cells = [side[version] for side in sides for version in VERSIONS]
    values = [bar[1] for cell in cells if cell.get("kind") == "p" for bar in cell["bars"]]
    top = max(values, default=1.0) or 1.0
    for cell in cells:
        scale = top if cell.get("kind") == "p" else 1.0
        cell["rows"] = [(word, f"{value / scale:.2%}", *rest) for word, value, *rest in cell.get("bars", ())]
    models = (
        [(label, views.get(place)) for place, label in enumerate(asking.labels)] if question.passages else []
    )
    return {
        "time": f"{question.asked:%Y-%m-%d %H:%M:%S}", "read": preview(question), "models": models,
        "problems": list(question.problems.values()),
    }  # fmt: skip
