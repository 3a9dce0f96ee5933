"""Ask models about a passage while one types it: whole, and its last sentence alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import pandas as pd
import traitlets

from workbench.items.schema import DataError
from workbench.widgets.ask import page as ask_page
from workbench.widgets.ask.questions import State
from workbench.widgets.ask.threads import SETTLED, Asking, Record
from workbench.widgets.shared.widget import Widget, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from workbench.items.items import Items

EXAMPLE = State(
    "Nobody in the village trusted the lighthouse keeper, and Marta had never said a word to him. But when "
    "the storm drove her boat onto the rocks, the first to row out and pull her from the water was the keeper"
)
"""What the button of an empty widget fills in: two sentences, the target named in the first."""


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
        Words to choose from, joined by ``|``.
    other : str
        The second passage of a minimal pair.
    pairs : bool
        Whether it is asked too.
    """

    _esm = read("shared/page.js", "ask/ask.js")
    _css = read("ask/ask.css")
    text = traitlets.Unicode("").tag(sync=True)
    other = traitlets.Unicode("").tag(sync=True)
    word = traitlets.Unicode("").tag(sync=True)
    candidates = traitlets.Unicode("").tag(sync=True)
    pairs = traitlets.Bool(default_value=False).tag(sync=True)
    top_k = traitlets.Int(10, min=1, max=100).tag(sync=True)
    height = traitlets.Int(780, min=480).tag(sync=True)

    def __init__(
        self, models: Mapping[str, Any], *, seed: int = 0, settle: float | None = SETTLED, **options: Any
    ) -> None:
        super().__init__(**options)
        self._asker = ""  # the page whose message is being answered
        self._quiet = False
        self._asking = Asking(models, top_k=self.top_k, seed=seed, settle=settle, tell=self._tell)
        self.observe(self._changed, State._fields)
        if self.text.strip():
            self._ask()

    # -- what Python sees

    @property
    def state(self) -> State:
        """What is asked, all of it."""
        return State(*(getattr(self, name) for name in State._fields))

    @state.setter
    def state(self, state: State) -> None:
        with self._together():
            for name, value in state._asdict().items():
                setattr(self, name, value)
        if self.state != self._asking.current.question.state:
            self._ask()

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
            return ask_page.page(self._asking, records)

    def close(self) -> None:
        """Close the widget, and let its threads end."""
        if hasattr(self, "_asking"):
            self._asking.close()
        super().close()

    def _static(self) -> str:
        return ask_page.page(self._asking, [self._asking.current] if self.text.strip() else [])

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
        with self._together():
            for name in State._fields:
                setattr(self, name, message["state"][name])
        if self.state != self._asking.current.question.state:
            self._ask()
        else:
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

    @contextmanager
    def _together(self) -> Iterator[None]:
        """Let traits change without a question for each."""
        self._quiet = True
        try:
            with self.hold_sync():
                yield
        finally:
            self._quiet = False

    def _changed(self, _change: Any) -> None:
        if not self._quiet and self.state != self._asking.current.question.state:
            self._ask()

    def _ask(self) -> None:
        self._asking.ask(self.state)

    def _tell(self, kind: str, record: Record, place: int) -> None:
        """Pass on to the page what happens, from whatever thread; one call at a time."""
        asking = self._asking
        question = record.question
        if kind == "answer":
            view = ask_page.shown(question, record.answers[place], self.top_k)
            self.send({"type": "answer", "number": question.number, "place": place, "view": view})
        elif kind == "kept":
            rows = [ask_page.entry(n, each) for n, each in enumerate(asking.history, 1)]
            self.send({"type": "history", "rows": rows})
        else:
            views = {p: ask_page.shown(question, a, self.top_k) for p, a in record.answers.items()}
            self.send(
                {
                    "type": "asked", "from": self._asker, "number": question.number,
                    "state": question.state._asdict(), "labels": asking.labels,
                    "read": ask_page.preview(question), "problems": dict(question.problems),
                    "answers": [views.get(place) for place in range(len(asking.labels))],
                    "since": max(0.0, record.age), "example": EXAMPLE.text,
                }
            )  # fmt: skip


def ask(
    models: Any,
    text: str = "",
    *,
    word: str | None = None,
    other: str | None = None,
    candidates: str | Sequence[str] | None = None,
    pairs: bool | None = None,
    top_k: int = 10,
    seed: int = 0,
    height: int = 780,
) -> Ask:
    """Ask models about a passage, and watch what they say while it is edited.

    Every model gets the whole passage and its last (target) sentence alone; its best words, and rank and
    probability of the target, are shown side by side. The target is hidden from the models. Each model
    computes in a thread of its own, so a slow one holds up neither the others nor the kernel.

    Parameters
    ----------
    models : Predictor, or list or mapping of name to Predictor
        Whatever has ``name`` and ``predict(items, top_k, seed=)``; equal names get numbers.
    text : str
        The passage: its last word is the target, or one ``___`` anywhere.
    word : str, optional
        The word to ask for, in the place of the target.
    other : str, optional
        A second passage: a minimal pair. Differences are marked, and both are asked.
    candidates : str or sequence of str, optional
        Words to choose from, for models that rank no vocabulary; a text has them joined by ``|``.
    pairs : bool, optional
        Whether `other` is asked; by default if it is given.
    top_k : int, default 10
        Words that are shown.
    seed : int, default 0
        Decides among equal scores.
    height : int, default 780
        Of the widget, in px.

    Returns
    -------
    Ask
        ``wb.ask(models, text).wait().to_frame()`` gives the answers without a page.

    Raises
    ------
    DataError
        If there is no model, or something that is none. A passage that cannot be read raises nothing:
        what is wrong shows in the widget and in ``.problem``.
    """
    choices = candidates if isinstance(candidates, str) else "|".join(candidates or ())
    return Ask(
        named(models), seed=seed, text=text, word=word or "", other=other or "", candidates=choices,
        pairs=bool(other) if pairs is None else pairs, top_k=top_k, height=height,
    )  # fmt: skip


def named(models: Any) -> dict[str, Any]:
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
