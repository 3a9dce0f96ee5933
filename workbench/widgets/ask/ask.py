"""Ask models about a passage while typing: the whole passage, and its target sentence alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, get_args

import pandas as pd
import traitlets

from workbench.items import text as wt
from workbench.items.schema import Item
from workbench.predictions.schema import check_model
from workbench.probing.influence import Part
from workbench.storage.errors import DataError, check_option
from workbench.widgets.ask.asking import SETTLED, AskedQuestion, Asking, Shades
from workbench.widgets.ask.questions import TypedQuestion, boosting_problem, join_candidates, typed_question
from workbench.widgets.ask.views import (
    STATIC_COLUMNS,
    answer_view,
    has_rest,
    history_row,
    preview,
    static_rows,
)
from workbench.widgets.shared.widget import (
    RefusedValueError,
    StaticView,
    Widget,
    closed_on_error,
    free_name,
    read_assets,
)

if TYPE_CHECKING:
    from workbench.items.items import Items

EXAMPLE = TypedQuestion(
    "Nobody in the village trusted the lighthouse keeper, and Marta had never said a word to him. But when "
    "the storm drove her boat onto the rocks, the first to row out and pull her from the water was the keeper"
)
"""What the button of an empty widget fills in: two sentences, the target named in the first."""

_PARTS = ("", *get_args(Part))
_EMPTY = TypedQuestion()
_MORE_STATE = ("candidates", "pairs", "alpha", "k", *Shades._fields[1:])  # further traits that `ask` takes


class Ask(Widget):
    r"""A widget to ask models about a passage; made by :func:`ask`.

    Setting a trait, here or in the page, asks anew.

    Attributes
    ----------
    text : str
        The passage; ``___`` marks the blank, else the last word is the target.
    word : str
        The word whose rank and probability are shown; empty: the last word, unless a blank is marked.
    candidates : str
        Words to choose from, joined by ``|`` (``\|`` within a word), for models that rank no vocabulary.
    other : str
        The second passage of a minimal pair; differences are marked.
    pairs : bool
        Whether it is asked too.
    alpha, k : float, int
        The models are boosted by `alpha` over the last `k` words (:class:`workbench.models.Boosted`): those
        words count less. With alpha 0, the default, each model is its own; so is one without
        log-probabilities, and it says so.
    influence : {"", "sentence", "word", "mention"}
        The parts whose influence on the word shades the passage in each answer; none by default. It is
        computed after the answer, as :func:`wb.influence` does.
    against : str
        Another word, for the influence on the contrast of the two: why this word and not that one;
        ``"prediction"`` for each model's best word that is not the target.
    surprisal : bool
        Whether the surprisal of each word shades the passage, as :func:`wb.surprisal` computes it, in place
        of influence.
    """

    _esm = read_assets("shared/page.js", "shared/passage.js", "ask/ask.js")
    _css = read_assets("ask/ask.css")
    text = traitlets.Unicode("").tag(sync=True)
    other = traitlets.Unicode("").tag(sync=True)
    word = traitlets.Unicode("").tag(sync=True)
    candidates = traitlets.Unicode("").tag(sync=True)
    pairs = traitlets.Bool(default_value=False).tag(sync=True)
    alpha = traitlets.Float(TypedQuestion().alpha).tag(sync=True)
    k = traitlets.Int(TypedQuestion().k).tag(sync=True)
    influence = traitlets.Enum(_PARTS, "").tag(sync=True)
    against = traitlets.Unicode("").tag(sync=True)
    surprisal = traitlets.Bool(default_value=False).tag(sync=True)
    top_k = traitlets.Int(10, min=1, max=100).tag(sync=True)
    height = traitlets.Int(None, min=480, allow_none=True).tag(sync=True)

    @closed_on_error
    def __init__(
        self, models: Mapping[str, Any], *, seed: int = 0, settle: float | None = SETTLED, **options: Any
    ) -> None:
        super().__init__(**options)
        self._asker = ""  # the page whose message is being answered
        self._quiet = False
        self._asking = Asking(models, top_k=self.top_k, seed=seed, settle=settle, listener=self._notify)
        self._asking.shades = self._shades
        self.observe(self._ask, TypedQuestion._fields)
        self.observe(self._ask_shades, Shades._fields)
        if self.text.strip():
            self._ask()

    @traitlets.validate("text", "other", "word", "candidates", "against")
    def _encodable(self, proposal: Mapping[str, Any]) -> str:
        """Refuse text that cannot be sent to the page."""
        if not wt.is_encodable(proposal["value"]):
            raise RefusedValueError("the text holds half a surrogate pair, which no file can hold")
        return str(proposal["value"])

    @traitlets.validate("alpha", "k")
    def _boosting(self, proposal: Mapping[str, Any]) -> Any:
        """Refuse boosting settings out of range."""
        if problem := boosting_problem(**{"alpha": 0.0, "k": 1, proposal["trait"].name: proposal["value"]}):
            raise RefusedValueError(problem)
        return proposal["value"]

    # -- what Python sees

    @property
    def state(self) -> TypedQuestion:
        """The current question: all its traits as one value."""
        return TypedQuestion(*(getattr(self, name) for name in TypedQuestion._fields))

    @state.setter
    def state(self, state: TypedQuestion) -> None:
        self._set(state._asdict())

    @property
    def problem(self) -> str:
        """Why the current passage cannot be asked; empty if it can."""
        return "; ".join(self._asking.current.question.problems.values())

    @property
    def items(self) -> Items:
        """The passages of the history without duplicates, as Items."""
        return self._asking.items()

    @property
    def history(self) -> pd.DataFrame:
        """The stored questions, one row each: time, question, and each model's best word."""
        return self._asking.questions()

    def save_history(self, path: Path | str) -> None:
        """Write the history as a JSON file for ``wb.ask(models, history=path)``.

        It has the questions as they were typed, when they were asked, and what each model said. An item that
        was put in is written as its text, word and candidates.
        """
        self._asking.save(path)

    def load_history(self, path: Path | str) -> Self:
        """Add the questions of a file that `save_history` wrote, without answers; all of them, or none."""
        self._asking.load(path)
        return self

    def ask_again(self, number: int | None = None, *, timeout: float | None = None) -> Self:
        """Ask one or all questions of the history again, and wait for the answers.

        Parameters
        ----------
        number : int, optional
            The question's number in `history`, from 1; all by default.
        timeout : float, optional
            Seconds for one question, as of :meth:`wait`.
        """
        for each in range(1, len(self._asking.history) + 1) if number is None else [number]:
            self._again(each)
            self.wait(timeout)
        return self

    def put(self, item: Item, **changes: Any) -> Self:
        """Ask about an item, with its own sentences and candidates; the text remains editable.

        The text has ``___`` at the blank, and the target is the `word`. What was there before is replaced; it
        stays in the history if it was kept.

        Parameters
        ----------
        item : Item
            Such as ``items["lambada/dev/000017"]`` or ``browser.current``.
        **changes
            Attributes to set otherwise: ``widget.put(item, word="boat")``.
        """
        if not isinstance(item, Item):
            raise DataError(f"expected one Item, got {type(item).__name__}", hint="such as items[0]")
        state = typed_question(item)
        self._asking.sources[state.text] = item
        self.state = state._replace(**{"alpha": self.alpha, "k": self.k} | changes)
        return self

    def wait(self, timeout: float | None = None) -> Self:
        """Wait until all models have answered, and store the question; TimeoutError after `timeout` seconds.

        A passage that is missing or cannot be read is a DataError.
        """
        self._asking.wait(timeout)
        self.saved.update()
        return self

    def _finish(self) -> None:
        if self._asking.current.question.passages:
            self._asking.wait()

    def keep(self) -> None:
        """Store the current question in the history with its present answers."""
        self._asking.keep(now=True)

    def results(self) -> pd.DataFrame:
        """Return the present answers to the current question; columns as :meth:`to_frame`."""
        return self._asking.frame([self._asking.current])

    def to_frame(self) -> pd.DataFrame:
        """Return the answers of the history, one row per question, model, side and version.

        ``version`` is ``passage`` or ``sentence``, ``side`` is A, or B for the second passage of a
        minimal pair; ``log_prob`` is natural. A model that was not boosted has ``alpha`` 0 and no ``k``. A
        model's ``error`` is in its row.
        """
        return self._asking.frame(self._asking.history)

    def close(self) -> None:
        """Close the widget and end its threads."""
        if hasattr(self, "_asking"):
            self._asking.close()
        super().close()

    def _static(self, limit: int) -> StaticView:
        asking, state = self._asking, self.state
        with asking.lock:
            current = [asking.current] if self.text.strip() else []
            records = [*current, *(each for each in reversed(asking.history) if each is not asking.current)]
            rows = [row for record in records[:limit] for row in static_rows(asking, record)]
        counts = f"{len(asking.history):,}" if records else "Nothing was asked yet."
        numbers = [("Models", ", ".join(asking.labels)), ("Questions", counts), ("Problem", self.problem)]
        typed = {name: value for name, value in state._asdict().items() if value != getattr(_EMPTY, name)}
        arguments = ", ".join(["models", *(f"{name}={value!r}" for name, value in typed.items())])
        return StaticView(
            "Questions to models", [(name, text) for name, text in numbers if text], STATIC_COLUMNS,
            rows[:limit], code=f"wb.ask({arguments})",
        )  # fmt: skip

    # -- what the page asks

    def _answer(self, message: Mapping[str, Any]) -> None:
        self._asker = str(message.get("from", ""))
        try:
            super()._answer(message)
        finally:
            self._asker = ""

    def _on_open(self, _message: Mapping[str, Any]) -> None:
        with self._asking.lock:
            self._notify("asked", self._asking.current, -1)
            self._notify("kept", self._asking.current, -1)

    def _on_ask(self, message: Mapping[str, Any]) -> None:
        if not self._set({name: message["state"][name] for name in TypedQuestion._fields}):
            self._notify("asked", self._asking.current, -1)
        if message.get("settled"):
            self._asking.keep()

    def _on_shade(self, message: Mapping[str, Any]) -> None:
        self._asker = ""  # the question is asked anew for all pages
        self._set_quietly({name: message[name] for name in Shades._fields})
        self._ask_shades()
        self.send({"type": "done", "from": str(message.get("from", ""))})

    def _on_back(self, message: Mapping[str, Any]) -> None:
        state = self._asking.past(message["number"]).question.state
        self._asker = ""  # the boxes of all pages follow
        self.state = state
        self.send({"type": "done", "from": str(message.get("from", ""))})

    def _on_again(self, message: Mapping[str, Any]) -> None:
        self._asking.past(message["number"])
        self._asker = ""
        self._again(message["number"])
        self.send({"type": "done", "from": str(message.get("from", ""))})

    # -- how it is answered

    def _set(self, values: Mapping[str, Any]) -> bool:
        """Set traits, and ask one question if they have changed; return True if they have."""
        self._set_quietly(values)
        return self._ask()

    def _set_quietly(self, values: Mapping[str, Any]) -> None:
        self._quiet = True
        try:
            with self.hold_sync():
                for name, value in values.items():
                    setattr(self, name, value)
        finally:
            self._quiet = False

    def _again(self, number: int) -> None:
        """Ask a question of the history again."""
        state = self._asking.past(number).question.state
        self._set_quietly(state._asdict())
        self._asking.ask(state, anew=True)
        self._asking.keep()

    def _ask(self, _change: Any = None) -> bool:
        """Ask if the question differs from the current one; return True if it does."""
        changed = not self._quiet and self.state != self._asking.current.question.state
        if changed:
            self._asking.ask(self.state)
        return changed

    @property
    def _shades(self) -> Shades:
        """The shades in effect: surprisal alone, else influence, perhaps against another word."""
        if self.surprisal or not self.influence:
            return Shades(surprisal=self.surprisal)
        return Shades(self.influence, self.against)

    def _ask_shades(self, _change: Any = None) -> None:
        """Ask the question again, with the chosen shades."""
        if self._quiet or self._asking.shades == self._shades:
            return
        self._asking.shades = self._shades
        if self.text.strip():
            self._asking.ask(self.state, anew=True)

    def _notify(self, event: str, record: AskedQuestion, index: int) -> None:
        """Send an event to the page, from any thread; one call at a time."""
        asking = self._asking
        question = record.question
        if event == "answer":
            view = answer_view(question, record.answers[index], self.top_k)
            self.send({"type": "answer", "number": question.number, "place": index, "view": view})
        elif event == "kept":
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
                    "answers": [views.get(index) for index in range(len(asking.labels))],
                    "since": max(0.0, record.age), "example": EXAMPLE.text,
                    "boosts": asking.boosts,
                    "rest": any(map(has_rest, question.passages.values())),
                }
            )  # fmt: skip


def ask(
    models: Any,
    text: str | Item = "",
    *,
    word: str | None = None,
    other: str | None = None,
    influence: str = "",
    top_k: int = 10,
    seed: int = 0,
    height: int | None = None,
    history: Path | str | None = None,
    **state: Any,
) -> Ask:
    """Ask models about a passage, with answers that follow each edit.

    Every model sees the whole passage, and the target sentence alone; its best words, and rank and
    probability of the target, are shown side by side. The target is hidden from the models. Each model
    computes in a thread of its own, so a slow one holds up neither the others nor the kernel.

    Parameters
    ----------
    models : Predictor, or list or mapping of name to Predictor
        Objects with ``name`` and ``predict(items, top_k, seed=)``; equal names get numbers.
    text : str or Item
        The passage. An item keeps its sentences and candidates, and its answer is the word; `Ask.put` puts
        in another one later.
    word, other, influence
        Traits of :class:`Ask`.
    top_k : int, default 10
        Words that are shown.
    seed : int, default 0
        Decides among equal scores.
    height : int, optional
        Height of the widget in px; by default it is as high as the answers of all models.
    history : path, optional
        A file of questions that `Ask.save_history` wrote, to be asked again.
    **state
        More traits of :class:`Ask`: ``candidates``, which may be a sequence; ``pairs``, by default whether
        `other` is given; ``alpha`` and ``k``; ``against`` and ``surprisal``.

    Returns
    -------
    Ask
        ``wb.ask(models, text).wait().to_frame()`` gives the answers without a page.

    Raises
    ------
    DataError
        If there is no model, an object is not one, an option is unknown, a text holds half a surrogate pair,
        ``alpha`` or ``k`` is out of range, or the history cannot be read. A passage that cannot be read
        raises nothing: errors are shown in the widget and in ``.problem``.

    Examples
    --------
    >>> asked = wb.ask([ngram], "She opened the bag and looked for the ___ again.", word="key")
    >>> frame = asked.wait(60).to_frame()
    >>> asked.close()
    >>> sorted(frame["version"])
    ['passage', 'sentence']
    """
    for option in state:
        check_option("the name of an option", option, _MORE_STATE)
    options = {"pairs": bool(other), "word": word, "other": other} | state
    changes = {name: value for name, value in options.items() if value is not None}
    if not isinstance(changes.get("candidates", ""), str):
        changes["candidates"] = join_candidates(changes["candidates"])
    by_name = models_by_name(models)
    check_option("influence", influence, _PARTS)
    shades = {name: changes.pop(name) for name in Shades._fields if name in changes}
    widget = Ask(by_name, seed=seed, top_k=top_k, height=height, influence=influence, **shades)
    try:
        if history is not None:
            widget.load_history(history)
        if not isinstance(text, str):
            return widget.put(text, **changes)
        widget.state = TypedQuestion(text=text, **changes)
    except BaseException:
        widget.close()
        raise
    return widget


def models_by_name(models: Any) -> dict[str, Any]:
    """Return models by name; equal names get numbers."""
    if isinstance(models, Mapping):
        pairs = [(str(name), model) for name, model in models.items()]
    else:
        several = models if isinstance(models, list | tuple) else [models]
        pairs = [(str(getattr(model, "name", type(model).__name__)), model) for model in several]
    if not pairs:
        raise DataError("there is no model to ask", hint="pass one, or a list of them")
    by_name: dict[str, Any] = {}
    for name, model in pairs:
        check_model(model, "ask")
        by_name[free_name(name, by_name)] = model
    return by_name
