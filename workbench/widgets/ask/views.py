"""Questions and answers as the page shows them: formatted numbers, and static HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.items import text as wt
from workbench.items.marked_text import pieces
from workbench.items.schema import Item
from workbench.models.item_words import ReadContext, is_word
from workbench.render.numbers import fixed, probability, rank_text
from workbench.widgets.ask.asking import Answer, AskedQuestion, Asking
from workbench.widgets.ask.questions import VERSIONS, Question
from workbench.widgets.shared.passages import score_bars, score_text, snippet, words_around
from workbench.widgets.shared.shading import shaded_passage

_CONTEXT = (
    "context makes no difference", "context makes it {} times as likely",
    "context divides its probability by {}",
)  # fmt: skip
_PAIR = ("A and B are as likely", "A is {} times as likely as B", "B is {} times as likely as A")
_HEADS = {"passage": "whole passage", "sentence": "target sentence alone"}
_QUOTED = 5  # words that are quoted, at most
_EQUAL = 0.005  # nats, which are printed with two digits
_NO_GAIN = {"nats": "", "text": ""}

STATIC_COLUMNS = (
    "Asked", "Passage", "Model", "Word", "Whole passage", "Gain in ln p", "Target sentence alone",
)  # fmt: skip
"""Headings of the static form."""


def answer_view(question: Question, answer: Answer, top_k: int) -> dict[str, Any]:
    """Return one model's answer as the page draws it.

    It has ``seconds`` and whether it is ``final``; ``error`` where all went wrong alike, else the ``heads``
    of the versions and ``sides``: of each its letter and one cell per version with the ``gain`` between them;
    the ``differences`` of two sides by version, and the ``shaded`` passage by side, or why there is none. A
    cell has an ``error``, or ``bars`` [word, value, label, in passage, is the word], ``kind`` of the values
    and ``note`` on them, ``reads`` (what the model reads of the passage) and ``input`` (its text), ``p`` of
    the target with its ``unit``, ``rank`` and ``ln``, and ``brief``, p and rank in one line. Values of kind
    ``p`` are probabilities, of kind ``share`` shares of the candidates, of kind ``score`` shares of the
    longest bar.
    """
    errors = {reply.get("error") for reply in answer.replies.values()}
    if len(errors) == 1 and None not in errors:
        return {"seconds": answer.seconds, "final": answer.final, "error": errors.pop()}
    sides = []
    for side, item in question.passages.items():
        inside, replies = words_around(item), [answer.replies[side, version] for version in VERSIONS]
        cells = {v: _cell(reply, item, inside, top_k) for v, reply in zip(VERSIONS, replies, strict=True)}
        for version, reply in zip(VERSIONS, replies, strict=True):
            if "error" not in reply:
                cells[version]["note"] += _boosting_text(question, answer, "; ")
                cells[version]["reads"] = _what_is_read(answer.context, question, side, version, reply)
                cells[version]["input"] = answer.inputs.get((side, version))
                if reply["rank_is_bound"] and not answer.final:
                    cells[version]["rank"] += "; exact rank: computing …"
        gain = _ratio(_CONTEXT, *(reply.get("log_prob") for reply in replies))
        sides.append({"side": side, "word": item.answer, "single": len(item.sentences) == 1,
                      **cells, "gain": gain})  # fmt: skip
    heads = {version: _reading_text(answer.context, question, version) for version in VERSIONS}
    shaded = {
        side: shading if isinstance(shading, str) else shaded_passage(question.passages[side], {}, shading)
        for side, shading in (answer.shadings or {}).items()
    }
    view: dict[str, Any] = {
        "seconds": answer.seconds, "final": answer.final, "heads": heads, "sides": sides, "differences": None,
        "shaded": shaded,
    }  # fmt: skip
    if len(sides) > 1:
        view["differences"] = {
            version: _ratio(_PAIR, *(answer.replies[side, version].get("log_prob") for side in "AB"))
            for version in VERSIONS
        }
    return view


def _boosting_text(question: Question, answer: Answer, before: str = "") -> str:
    """Describe the boosting of an answer, or why there is none; empty if it was not requested."""
    if not question.state.alpha:
        return ""
    if not answer.alpha:
        return f"{before}not boosted: no log-probabilities"
    return f"{before}boosted by {answer.alpha:g} over {question.state.k:,} words"


def _reading_text(context: ReadContext | None, question: Question, version: str) -> str:
    """Describe which part of a version a model reads."""
    items = [item for (_, name), item in question.versions.items() if name == version]
    if context is None or all(_reads_all(context, item) for item in items):
        return _HEADS[version]
    if context.side == "none":
        return "nothing of the passage"
    where = "before" if context.side == "before" else "around"
    if context.words is not None:
        return f"{f'{context.words:,} words' if context.words > 1 else 'word'} {where} the blank"
    read_text = "target sentence" if context.sentence or version == "sentence" else "passage"
    return f"{read_text} {where} the blank" if context.side == "before" else read_text


def _what_is_read(
    context: ReadContext | None, question: Question, side: str, version: str, reply: Mapping[str, Any]
) -> str:
    """Describe which words of a passage a model reads, and whether it scores those after the blank."""
    if context is None:
        return "the model does not say what it reads"
    item = question.versions[side, version]
    spans = [span for span in context.spans(item) if is_word(item.text[slice(*span)])]
    where = {"before": "before the blank", "both": "around the blank", "none": "of the passage"}[context.side]
    n_words = f"{len(spans):,} {'word' if len(spans) == 1 else 'words'}"
    read = f"reads {n_words if spans else 'nothing'} {where}"
    if 0 < len(spans) <= _QUOTED and context.side == "before":
        read += f": “{item.text[spans[0][0] : spans[-1][1]]}”"
    if context.side != "before" or not _words_follow(item):
        return read
    later = question.versions[side, "sentence"].text != item.text[item.sentences[-1][0] :]
    rest = "rest of the passage" if later and version == "passage" else "rest of the sentence"
    if reply["candidate_scores"] is None or not context.scores_rest:
        return f"{read}; the {rest} is neither read nor scored"
    return f"{read}; each candidate is scored with the {rest}"


def has_rest(item: Item) -> bool:
    """Return True if words follow the blank of an item without candidates."""
    return item.candidates is None and _words_follow(item)


def _words_follow(item: Item) -> bool:
    """Return True if words follow the blank."""
    return any(map(is_word, item.text[item.answer_span[1] :].split()))


def _reads_all(context: ReadContext, item: Item) -> bool:
    """Return True if a model reads all words of an item but the target."""
    if context.side == "none" or (context.side == "before" and _words_follow(item)):
        return False
    if context.sentence and len(item.sentences) > 1:
        return False
    return context.words is None or context.spans(item) == context._replace(words=None).spans(item)


def _cell(reply: Mapping[str, Any], item: Item, inside: set[str], top_k: int) -> dict[str, Any]:
    if "error" in reply:
        return {"error": reply["error"]}
    scale, values, answer_value = _values(reply, item.answer)
    words = (reply["top_words"] or [])[:top_k]
    target = (item.answer or "").casefold()
    lengths = [length for length, _ in score_bars(values)] if scale == "score" else values
    bars = []
    for word, length, value in zip(words, lengths, values, strict=False):
        folded = word.casefold()
        is_target = bool(target) and folded == target
        bars.append([_readable(word), length, _label(scale, value), folded in inside, is_target])
    return {"bars": bars, "kind": scale} | _headline(reply, item, scale, answer_value)


def _values(reply: Mapping[str, Any], answer: str | None) -> tuple[str, list[float], float | None]:
    """Return the quantity and the values of the bars, and the target's value; NaN if not finite."""
    values = [math.nan if v is None or not math.isfinite(v) else v for v in reply["top_log_probs"] or []]
    answer_value = reply.get("answer_score")
    if reply["score_type"] != "log_prob":
        scores = dict(zip(reply["top_words"] or (), values, strict=False))
        return "score", values, scores.get(answer, answer_value)
    choices = [-math.inf if v is None else v for v in reply["candidate_scores"] or []]
    if not choices:
        answer_value = reply["log_prob"]
    total = float(np.logaddexp.reduce(choices)) if choices else 0.0
    if not math.isfinite(total):
        total = 0.0
    logs = [-math.inf if math.isnan(v) else v for v in values]
    shares = [math.exp(min(0.0, v - total)) for v in logs]
    return (
        "share" if choices else "p",
        shares,
        None if answer_value is None else math.exp(min(0.0, answer_value - total)),
    )


def _label(scale: str, value: float) -> str:
    return score_text(value) if scale == "score" or math.isnan(value) else probability(value)


def _headline(reply: Mapping[str, Any], item: Item, scale: str, answer_value: float | None) -> dict[str, str]:
    """Describe the bars, and the target's value, rank and ln p."""
    n = reply["n_choices"] or reply["vocabulary_size"]
    among = f"{n or 0:,} {_ranked_set(reply, item)}"
    texts = dict.fromkeys(("p", "unit", "rank", "ln", "note", "brief"), "")
    if not reply["top_words"]:
        writes = f"; its own continuation: “{reply['prediction']}”" if reply["prediction"] else ""
        texts["note"] = f"no words to show: this model ranks no vocabulary{writes}"
    else:
        names = {"p": "probabilities", "share": "their shares add up to 100 %"}
        texts["note"] = f"ranked among {among}; {names.get(scale, 'scores, not probabilities')}"
    if item.answer is None:
        return texts
    if answer_value is not None:
        texts["p"] = f"{'score ' * (scale == 'score')}{_label(scale, answer_value)}"
        texts["brief"] = texts["p"]
        texts["unit"] = {"p": "probability", "share": f"of the {among}"}.get(scale, "")
    if (log_prob := reply["log_prob"]) is not None:
        alone = f"by itself {probability(math.exp(log_prob))}, " if scale == "share" else ""
        texts["ln"] = f"{alone}ln p {fixed(log_prob, 2)} nats"
    if reply["known"] is False:
        size = None if item.candidates else reply["vocabulary_size"]
        texts["rank"] = f"not in the vocabulary of {size:,}" if size else f"not among the {among}"
    elif reply["rank"] is not None:
        rank = rank_text(reply["rank"], reply["n_tied"], bound=bool(reply["rank_is_bound"]))
        texts["rank"] = f"{rank}{f' of {n:,}' if n else ''}"
        texts["brief"] = ", ".join(filter(None, (texts["p"], rank)))
    return texts


def _ranked_set(reply: Mapping[str, Any], item: Item) -> str:
    """Describe the set of ranked words."""
    if item.candidates:
        return "candidates"
    if reply["candidate_scores"] is not None:
        return "words of the passage"
    return "words of the vocabulary" if reply["score_type"] == "log_prob" else "candidate words"


def _ratio(sentences: tuple[str, str, str], log_p: float | None, other_log_p: float | None) -> dict[str, str]:
    """Return the difference of two natural log-probabilities, and a sentence with the ratio and it."""
    if log_p is None or other_log_p is None or not math.isfinite(log_p - other_log_p):
        return _NO_GAIN
    nats = log_p - other_log_p
    factor = _short(math.exp(min(abs(nats), 700.0)))
    difference = f"{fixed(nats, 2, sign=True)} nats"
    sentence = sentences[0 if abs(nats) < _EQUAL else 1 if nats > 0 else 2]
    return {"nats": difference, "text": f"{sentence.format(factor)} ({difference})"}


def _short(value: float) -> str:
    if value < 10:  # noqa: PLR2004 - two digits behind the point
        return f"{value:.2f}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")  # noqa: PLR2004


def _readable(word: str) -> str:
    """Return a word of a vocabulary in readable form, with printed quotes and brackets."""
    return word if len(word.split()) != 1 or word.startswith("<") else wt.readable(word) or word


def preview(question: Question) -> list[dict[str, Any]]:
    """Return the parsed passages: context and target sentence in pieces, by side.

    What follows the target sentence is marked ``l``, a difference of two passages ``d``.
    """
    sides = []
    for side, item in question.passages.items():
        first, end = item.sentences[-1]
        later = first + len(question.versions[side, "sentence"].text)
        marks = {"d": question.differences[side], "l": [(later, end)] if later < end else []}
        context, query = pieces(item, marks)
        sides.append({"side": side, "context": context, "query": query, "sentences": len(item.sentences),
                      "word": item.answer, "tokenised": item.tokenised})  # fmt: skip
    return sides


def history_row(number: int, record: AskedQuestion) -> dict[str, Any]:
    """Return a row of the list of the history."""
    question = record.question
    item = next(iter(question.passages.values()))
    words = list(dict.fromkeys(i.answer for i in question.passages.values() if i.answer is not None))
    return {"number": number, "time": f"{question.asked:%H:%M:%S}", "word": " / ".join(words),
            "text": snippet(item, None)[0], "pairs": len(question.passages) > 1,
            "candidates": len(item.candidates or ()), "alpha": question.state.alpha,
            "k": question.state.k}  # fmt: skip


def static_rows(asking: Asking, record: AskedQuestion) -> list[list[str]]:
    """Return a question with its answers, one row per passage and model; columns are `STATIC_COLUMNS`."""
    question, rows = record.question, []
    asked = f"{question.asked:%Y-%m-%d %H:%M:%S}"
    texts = {"A": question.state.text, "B": question.state.other}
    for index, name in enumerate(asking.labels if question.passages else ()):
        answer = record.answers.get(index)
        view = answer_view(question, answer._replace(final=True), asking.top_k) if answer else {}
        problem = view.get("error", "") if view else "has not answered"
        if problem:
            rows.append([asked, texts["A"], name, "", problem, "", ""])
        for side in view.get("sides", ()):
            cells = [_cell_text(side[version]) for version in VERSIONS]
            gain = side["gain"]["nats"]
            rows.append([asked, texts[side["side"]], name, side["word"] or "", cells[0], gain, cells[1]])
        if differences := view.get("differences"):
            gains = [differences[version]["nats"] for version in VERSIONS]
            rows.append([asked, "A minus B", name, "", gains[0], "", gains[1]])
    return rows


def _cell_text(cell: Mapping[str, Any]) -> str:
    """Return the answer of a model to one version of a passage, and its best words."""
    if "error" in cell:
        return str(cell["error"])
    value = f"{cell['p']} {cell['unit']}".strip()
    best = ", ".join(f"{word} {number}" for word, _, number, *_ in cell["bars"])
    texts = [value, cell["rank"], cell["ln"], cell["note"], cell["reads"], best and f"best words: {best}"]
    return "; ".join(filter(None, texts))
