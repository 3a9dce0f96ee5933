"""Ask models about a passage while one types it: whole, and its target sentence alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
import traitlets

from workbench.items import text as wt
from workbench.items.pieces import pieces
from workbench.items.schema import Item
from workbench.models.passage import ReadContext, is_word
from workbench.render.numbers import fixed, probability, rank_text
from workbench.storage.errors import DataError
from workbench.widgets.ask.asking import (
    SETTLED,
    VERSIONS,
    Answer,
    AskedQuestion,
    Asking,
    Question,
    TypedQuestion,
    typed_question,
)
from workbench.widgets.shared.passages import score_bars, score_text, snippet, words_around
from workbench.widgets.shared.widget import (
    HEAD,
    RefusedValueError,
    Widget,
    closed_on_error,
    read_assets,
    render,
)

if TYPE_CHECKING:
    from workbench.items.items import Items

EXAMPLE = TypedQuestion(
    "Nobody in the village trusted the lighthouse keeper, and Marta had never said a word to him. But when "
    "the storm drove her boat onto the rocks, the first to row out and pull her from the water was the keeper"
)
"""What the button of an empty widget fills in: two sentences, the target named in the first."""

_HEADS = {"passage": "whole passage", "sentence": "target sentence alone"}
_ALL = ReadContext("both")
_QUOTED = 5  # words that are quoted, at most
_NO_GAIN = {"nats": "", "factor": ""}


class Ask(Widget):
    """A widget to ask models about a passage; made by :func:`ask`.

    Setting a trait, here or in the page, asks anew.

    Attributes
    ----------
    text : str
        The passage; ``___`` marks the blank, else the last word is the target.
    word : str
        The word whose rank and probability are shown; empty: the last word, unless a blank is marked.
    candidates : str
        Words to choose from, joined by ``|``, for models that rank no vocabulary.
    other : str
        The second passage of a minimal pair; differences are marked.
    pairs : bool
        Whether it is asked too.
    """

    _esm = read_assets("shared/page.js", "ask/ask.js")
    _css = read_assets("ask/ask.css")
    text = traitlets.Unicode("").tag(sync=True)
    other = traitlets.Unicode("").tag(sync=True)
    word = traitlets.Unicode("").tag(sync=True)
    candidates = traitlets.Unicode("").tag(sync=True)
    pairs = traitlets.Bool(default_value=False).tag(sync=True)
    top_k = traitlets.Int(10, min=1, max=100).tag(sync=True)
    height = traitlets.Int(None, min=480, allow_none=True).tag(sync=True)

    @closed_on_error
    def __init__(
        self, models: Mapping[str, Any], *, seed: int = 0, settle: float | None = SETTLED, **options: Any
    ) -> None:
        super().__init__(**options)
        self._asker = ""  # the page whose message is being answered
        self._quiet = False
        self._asking = Asking(models, top_k=self.top_k, seed=seed, settle=settle, tell=self._tell)
        self.observe(self._ask, TypedQuestion._fields)
        if self.text.strip():
            self._ask()

    @traitlets.validate("text", "other", "word", "candidates")
    def _encodable(self, proposal: Mapping[str, Any]) -> str:
        """Refuse what could not be sent to the page."""
        if not wt.is_encodable(proposal["value"]):
            raise RefusedValueError("the text holds half a surrogate pair, which no file can hold")
        return str(proposal["value"])

    # -- what Python sees

    @property
    def state(self) -> TypedQuestion:
        """What is asked, all of it."""
        return TypedQuestion(*(getattr(self, name) for name in TypedQuestion._fields))

    @state.setter
    def state(self, state: TypedQuestion) -> None:
        self._set(state._asdict())

    @property
    def problem(self) -> str:
        """Why a passage cannot be asked; empty where all is well."""
        return "; ".join(self._asking.current.question.problems.values())

    @property
    def items(self) -> Items:
        """The passages of the history, each once, as Items."""
        return self._asking.items()

    @property
    def history(self) -> pd.DataFrame:
        """The questions kept, one row each: what was asked when, and each model's best word."""
        return self._asking.questions()

    def put(self, item: Item, **changes: Any) -> Self:
        """Ask about an item, with its own sentences and candidates; it can be edited like any passage.

        The text has ``___`` at the blank, and the target is the `word`. What was there before is replaced; it
        stays in the history if it was kept.

        Parameters
        ----------
        item : Item
            Such as ``items["lambada/dev/000017"]`` or ``browser.current``.
        **changes
            Attributes to set otherwise: ``widget.put(item, word="boat")``.

        Raises
        ------
        DataError
            If this is no Item.
        """
        state = typed_question(_checked_item(item))
        self._asking.sources[state.text] = item
        self.state = state._replace(**changes)
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Wait until all models have answered, and keep the question.

        Raises
        ------
        DataError
            If there is no passage, or it cannot be read.
        TimeoutError
            If a model still computes after `timeout` seconds.
        """
        self._asking.wait(timeout)
        self.saved.update()
        return self

    def keep(self) -> None:
        """Keep the current question in the history, with the answers that are there."""
        self._asking.keep(now=True)

    def results(self) -> pd.DataFrame:
        """Return what has been answered of the current question; columns as :meth:`to_frame`."""
        return self._asking.frame([self._asking.current])

    def to_frame(self) -> pd.DataFrame:
        """Return the answers of the history, one row a question, model, side and version.

        ``version`` is ``passage`` or ``sentence``, ``side`` is A, or B for the second passage of a
        minimal pair; ``log_prob`` is natural. A model's ``error`` stands in its row.
        """
        return self._asking.frame(self._asking.history)

    def to_html(self) -> str:
        """Return a page of its own: the current question, then those of the history, the newest first."""
        with self._asking.lock:
            records = [r for r in reversed(self._asking.history) if r is not self._asking.current]
            if self._asking.current.question.passages:
                records.insert(0, self._asking.current)
            return HEAD + history_page(self._asking, records)

    def close(self) -> None:
        """Close the widget, and let its threads end."""
        if hasattr(self, "_asking"):
            self._asking.close()
        super().close()

    def _static(self, most: int) -> str:
        return history_page(self._asking, [self._asking.current] if self.text.strip() else [], words=most)

    # -- what the page asks

    def _answer(self, message: Mapping[str, Any]) -> None:
        self._asker = str(message.get("from", ""))
        try:
            super()._answer(message)
        finally:
            self._asker = ""

    def _on_open(self, _message: Mapping[str, Any]) -> None:
        with self._asking.lock:
            self._tell("asked", self._asking.current, -1)
            self._tell("kept", self._asking.current, -1)

    def _on_ask(self, message: Mapping[str, Any]) -> None:
        if not self._set({name: message["state"][name] for name in TypedQuestion._fields}):
            self._tell("asked", self._asking.current, -1)
        if message.get("settled"):
            self._asking.keep()

    def _on_keep(self, _message: Mapping[str, Any]) -> None:
        self.keep()
        self.send({"type": "done", "from": self._asker})

    def _on_back(self, message: Mapping[str, Any]) -> None:
        place = int(message["number"]) - 1
        self._asker = ""  # the boxes of all pages follow
        self.state = self._asking.history[place].question.state
        self.send({"type": "done", "from": str(message.get("from", ""))})

    # -- how it is answered

    def _set(self, values: Mapping[str, Any]) -> bool:
        """Set traits, and ask one question if they have changed; return whether they have."""
        self._quiet = True
        try:
            with self.hold_sync():
                for name, value in values.items():
                    setattr(self, name, value)
        finally:
            self._quiet = False
        return self._ask()

    def _ask(self, _change: Any = None) -> bool:
        """Ask if this is another question than the current one; return whether it is."""
        changed = not self._quiet and self.state != self._asking.current.question.state
        if changed:
            self._asking.ask(self.state)
        return changed

    def _tell(self, kind: str, record: AskedQuestion, place: int) -> None:
        """Pass on to the page what happens, from whatever thread; one call at a time."""
        asking = self._asking
        question = record.question
        if kind == "answer":
            view = answer_view(question, record.answers[place], self.top_k)
            self.send({"type": "answer", "number": question.number, "place": place, "view": view})
        elif kind == "kept":
            rows = [history_row(n, each) for n, each in enumerate(asking.history, 1)]
            self.send({"type": "history", "rows": rows})
        else:
            views = {p: answer_view(question, a, self.top_k) for p, a in record.answers.items()}
            self.send(
                {
                    "type": "asked", "from": self._asker, "number": question.number,
                    "state": question.state._asdict(), "labels": asking.labels,
                    "time": f"{question.asked:%H:%M:%S}",
                    "read": preview(question), "problems": dict(question.problems),
                    "answers": [views.get(place) for place in range(len(asking.labels))],
                    "since": max(0.0, record.age), "example": EXAMPLE.text,
                    "rest": any(map(_has_rest, question.passages.values())),
                }
            )  # fmt: skip


def ask(
    models: Any,
    text: str | Item = "",
    *,
    word: str | None = None,
    other: str | None = None,
    candidates: str | Sequence[str] | None = None,
    pairs: bool | None = None,
    top_k: int = 10,
    seed: int = 0,
    height: int | None = None,
) -> Ask:
    """Ask models about a passage, and watch what they say while it is edited.

    Every model sees the whole passage, and the target sentence alone; its best words, and rank and
    probability of the target, are shown side by side. The target is hidden from the models. Each model
    computes in a thread of its own, so a slow one holds up neither the others nor the kernel.

    Parameters
    ----------
    models : Predictor, or list or mapping of name to Predictor
        Whatever has ``name`` and ``predict(items, top_k, seed=)``; equal names get numbers.
    text : str or Item
        The passage. An item keeps its sentences and candidates, and its answer is the word; `Ask.put` puts
        in another one later.
    word, other, candidates, pairs
        As in :class:`Ask`; candidates may be a sequence, and `other` is asked by default if it is given.
    top_k : int, default 10
        Words that are shown.
    seed : int, default 0
        Decides among equal scores.
    height : int, optional
        Of the widget, in px; by default it is as high as the answers of all models.

    Returns
    -------
    Ask
        ``wb.ask(models, text).wait().to_frame()`` gives the answers without a page.

    Raises
    ------
    DataError
        If there is no model, or something that is none, or a text holds half a surrogate pair. A passage
        that cannot be read raises nothing:
        what is wrong shows in the widget and in ``.problem``.

    Examples
    --------
    >>> asked = wb.ask([ngram], "She opened the bag and looked for the ___ again.", word="key")
    >>> frame = asked.wait(60).to_frame()
    >>> asked.close()
    >>> sorted(frame["version"])
    ['passage', 'sentence']
    """
    try:
        choices = candidates if isinstance(candidates, str | None) else "|".join(candidates)
    except TypeError:
        raise DataError(f"the candidates are {candidates!r:.80}, expected words") from None
    options = {"word": word, "other": other, "candidates": choices}
    changes: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    changes["pairs"] = bool(other) if pairs is None else pairs
    by_name = models_by_name(models)
    if isinstance(text, str):
        return Ask(by_name, seed=seed, text=text, **changes, top_k=top_k, height=height)
    item = _checked_item(text)
    return Ask(by_name, seed=seed, top_k=top_k, height=height).put(item, **changes)


def _checked_item(item: Any) -> Item:
    if not isinstance(item, Item):
        remedy = "pass one of them, such as items[0]"
        raise DataError(f"expected one Item, got {type(item).__name__}", remedy=remedy)
    return item


def models_by_name(models: Any) -> dict[str, Any]:
    """Return models by name; equal names are told apart by numbers."""
    if isinstance(models, Mapping):
        pairs = [(str(name), model) for name, model in models.items()]
    else:
        several = models if isinstance(models, list | tuple) else [models]
        pairs = [(str(getattr(model, "name", type(model).__name__)), model) for model in several]
    if not pairs:
        raise DataError("there is no model to ask", remedy="pass one, or a list of them")
    by_name: dict[str, Any] = {}
    for name, model in pairs:
        if isinstance(model, type) or not callable(getattr(model, "predict", None)):
            raise DataError(
                f"{model!r:.80} is no model: it has no predict(items, top_k)",
                remedy="pass models such as NGram.fit(...) gives",
            )
        label, number = name, 1
        while label in by_name:
            number += 1
            label = f"{name} ({number})"
        by_name[label] = model
    return by_name


# -- what is shown of a question: numbers as words for the page, and the static twin


def answer_view(question: Question, answer: Answer, top_k: int) -> dict[str, Any]:
    """Return what is drawn of one model's answer.

    It has ``seconds`` and whether it is ``final``; ``error`` where all went wrong alike, else the ``heads``
    of the versions and ``sides``: of each its letter and one cell a version with the ``gain`` between them;
    and the ``differences`` of two sides by version. A cell has an ``error``, or ``bars`` [word, value, label,
    in passage, is the word], ``kind`` of the values and ``note`` on them, ``reads`` (what the model reads of
    the passage), ``p`` of the target with its ``unit``, ``rank`` and ``ln``. Values of kind ``p`` are
    probabilities, the others shares of the longest bar.
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
                cells[version]["reads"] = _what_is_read(answer.context, question, side, version, reply)
                if reply["rank_is_bound"] and not answer.final:
                    cells[version]["rank"] += "; exact rank: computing …"
        gain = _ratio(*(reply.get("log_prob") for reply in replies))
        sides.append({"side": side, "word": item.answer, "single": len(item.sentences) == 1,
                      **cells, "gain": gain})  # fmt: skip
    heads = {version: _head(answer.context, question, version) for version in VERSIONS}
    view: dict[str, Any] = {
        "seconds": answer.seconds, "final": answer.final, "heads": heads, "sides": sides, "differences": None,
    }  # fmt: skip
    if len(sides) > 1:
        view["differences"] = {
            version: _ratio(*(answer.replies[side, version].get("log_prob") for side in "AB"))
            for version in VERSIONS
        }
    return view


def _head(context: ReadContext | None, question: Question, version: str) -> str:
    """Say what a model reads of a version: all of it, or which part."""
    items = [item for (_, name), item in question.versions.items() if name == version]
    if context is None or all(len(context.spans(i)) == len(_ALL.spans(i)) for i in map(_words_only, items)):
        return _HEADS[version]
    if context.side == "none":
        return "nothing of the passage"
    where = "before" if context.side == "before" else "around"
    if context.words is not None:
        return f"{f'{context.words:,} words' if context.words > 1 else 'word'} {where} the blank"
    part = "target sentence" if context.sentence or version == "sentence" else "passage"
    return f"{part} {where} the blank" if context.side == "before" else part


def _what_is_read(
    context: ReadContext | None, question: Question, side: str, version: str, reply: Mapping[str, Any]
) -> str:
    """Say which words of a passage a model reads, and whether it scores those after the blank."""
    if context is None:
        return "the model does not say what it reads"
    item = question.versions[side, version]
    spans = [span for span in context.spans(item) if is_word(item.text[slice(*span)])]
    where = {"before": "before the blank", "both": "around the blank", "none": "of the passage"}[context.side]
    n_words = f"{len(spans):,} {'word' if len(spans) == 1 else 'words'}"
    read = f"reads {n_words if spans else 'nothing'} {where}"
    if 0 < len(spans) <= _QUOTED and context.side == "before":
        read += f": “{item.text[spans[0][0] : spans[-1][1]]}”"
    after = item.text[item.answer_span[1] :]
    if context.side != "before" or not any(map(is_word, after.split())):
        return read
    later = question.versions[side, "sentence"].text != item.text[item.sentences[-1][0] :]
    rest = "rest of the passage" if later and version == "passage" else "rest of the sentence"
    if reply["candidate_scores"] is None or not context.scores_rest:
        return f"{read}; the {rest} is neither read nor scored"
    return f"{read}; each candidate is scored with the {rest}"


def _has_rest(item: Item) -> bool:
    """Return whether words follow the blank of an item that has no candidates."""
    return item.candidates is None and any(map(is_word, item.text[item.answer_span[1] :].split()))


def _words_only(item: Item) -> Item:
    """Return an item without the punctuation that ends it, which no reader misses."""
    end = item.answer_span[1]
    if any(map(is_word, item.text[end:].split())):
        return item
    *sentences, (first, _) = item.sentences
    return replace(item, text=item.text[:end], sentences=(*sentences, (first, end)))


def _cell(reply: Mapping[str, Any], item: Item, inside: set[str], top_k: int) -> dict[str, Any]:
    if "error" in reply:
        return {"error": reply["error"]}
    kind, values, answer_value = _values(reply, item.answer)
    words = (reply["top_words"] or [])[:top_k]
    target = (item.answer or "").casefold()
    lengths = values if kind == "p" else [length for length, _ in score_bars(values)]
    bars = [
        [
            _readable(w),
            length,
            _label(kind, v),
            w.casefold() in inside,
            bool(target) and w.casefold() == target,
        ]
        for w, length, v in zip(words, lengths, values, strict=False)
    ]
    return {"bars": bars, "kind": kind} | _headline(reply, item, kind, answer_value)


def _values(reply: Mapping[str, Any], answer: str | None) -> tuple[str, list[float], float | None]:
    """Return what the bars are of, their values, and that of the target; what is not finite is NaN."""
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


def _label(kind: str, value: float) -> str:
    return score_text(value) if kind == "score" or math.isnan(value) else probability(value)


def _headline(reply: Mapping[str, Any], item: Item, kind: str, answer_value: float | None) -> dict[str, str]:
    """Say what the bars show and, of the word that is asked for, its value among them, rank and ln p."""
    n = reply["n_choices"] or reply["vocabulary_size"]
    among = f"{n or 0:,} {_among(reply, item)}"
    texts = dict.fromkeys(("p", "unit", "rank", "ln", "note"), "")
    if not reply["top_words"]:
        writes = f"; its own continuation: “{reply['prediction']}”" if reply["prediction"] else ""
        texts["note"] = f"no words to show: this model ranks no vocabulary{writes}"
    else:
        what = {"p": "probabilities", "share": "normalised scores, not probabilities"}
        texts["note"] = f"ranked among {among}; {what.get(kind, 'scores, not probabilities')}"
    if item.answer is None:
        return texts
    if answer_value is not None:
        texts["p"] = f"{'score ' * (kind == 'score')}{_label(kind, answer_value)}"
        texts["unit"] = {"p": "probability", "share": f"share of {among}"}.get(kind, "")
    if (log_prob := reply["log_prob"]) is not None:
        before = "" if log_prob == (reply.get("answer_score") or log_prob) else ", given the text before it"
        texts["ln"] = f"ln p {fixed(log_prob, 2)} nats{before}"
    if reply["known"] is False:
        size = None if item.candidates else reply["vocabulary_size"]
        texts["rank"] = f"not in the vocabulary of {size:,}" if size else f"not among the {among}"
    elif reply["rank"] is not None:
        place = rank_text(reply["rank"], reply["n_tied"], bound=bool(reply["rank_is_bound"]))
        texts["rank"] = f"{place}{f' of {n:,}' if n else ''}"
    return texts


def _among(reply: Mapping[str, Any], item: Item) -> str:
    """Say what kind of words were ranked."""
    if item.candidates:
        return "candidates"
    if reply["candidate_scores"] is not None:
        return "words of the passage"
    return "words of the vocabulary" if reply["score_type"] == "log_prob" else "candidate words"


def _ratio(one: float | None, other: float | None) -> dict[str, str]:
    """Say by how much one natural log-probability is above another, and what factor that is."""
    if one is None or other is None or not math.isfinite(one - other):
        return _NO_GAIN
    nats = one - other
    factor = math.exp(min(abs(nats), 700.0))
    sign = "×" if nats >= 0 else "÷"  # noqa: RUF001 - a multiplication sign
    return {"nats": f"{fixed(nats, 2, sign=True)} nats", "factor": f"{sign} {_short(factor)}"}


def _short(value: float) -> str:
    if value < 10:  # noqa: PLR2004 - two digits behind the point
        return f"{value:.2f}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")  # noqa: PLR2004


def _readable(word: str) -> str:
    """Write a word of a vocabulary for a reader: quotes and brackets as print has them."""
    return word if len(word.split()) != 1 or word.startswith("<") else wt.readable(word) or word


def preview(question: Question) -> list[dict[str, Any]]:
    """Return the passages as they were read: context and target sentence in pieces, by side.

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
    """Return what the list of the history shows of a question."""
    question = record.question
    item = next(iter(question.passages.values()))
    words = list(dict.fromkeys(i.answer for i in question.passages.values() if i.answer is not None))
    return {"number": number, "time": f"{question.asked:%H:%M:%S}", "word": " / ".join(words),
            "text": snippet(item, None)[0], "pairs": len(question.passages) > 1}  # fmt: skip


def history_page(asking: Asking, records: Sequence[AskedQuestion], *, words: int | None = None) -> str:
    """Return questions with their answers as HTML that needs neither kernel nor script; all is escaped.

    Of each list so many `words` are shown, all by default.
    """
    with asking.lock:
        questions = [_question(asking, record, words) for record in records]
    return render("ask/static.html", questions=questions)


def _question(asking: Asking, record: AskedQuestion, words: int | None) -> dict[str, Any]:
    question = record.question
    views = {p: answer_view(question, answer, asking.top_k) for p, answer in sorted(record.answers.items())}
    sides = [side for view in views.values() for side in view.get("sides", [])]
    cells = [side[version] for side in sides for version in VERSIONS]
    values = [bar[1] for cell in cells if cell.get("kind") == "p" for bar in cell["bars"]]
    top = max(values, default=1.0) or 1.0
    for cell in cells:
        scale = top if cell.get("kind") == "p" else 1.0
        bars = cell.get("bars", [])[:words]
        cell["rows"] = [(word, f"{value / scale:.2%}", *rest) for word, value, *rest in bars]
    labels = asking.labels if question.passages else []
    return {
        "time": f"{question.asked:%Y-%m-%d %H:%M:%S}", "read": preview(question),
        "models": [(label, views.get(place)) for place, label in enumerate(labels)],
        "problems": list(question.problems.values()),
    }  # fmt: skip
