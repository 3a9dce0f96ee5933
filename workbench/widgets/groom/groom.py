"""Choice of the four options of sentence completion questions by a person, saved at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import traitlets

from workbench.construction.alternates import N_OPTIONS
from workbench.construction.grooming import DONE, GUIDELINES, REASONS, REJECTED, Grooming, next_open
from workbench.items.items import Item, Items, check_items
from workbench.storage.errors import DataError
from workbench.widgets.shared.passages import BLANK_MARK
from workbench.widgets.shared.widget import StaticView, Widget, closed_on_error, read_assets


class Groom(Widget):
    """A widget to pick the options of questions; made by :func:`groom`.

    Attributes
    ----------
    current_id : str
        The question that is shown.
    """

    _esm = read_assets("shared/page.js", "groom/groom.js")
    _css = read_assets("groom/groom.css")
    current_id = traitlets.Unicode("").tag(sync=True)
    height = traitlets.Int(560, min=240).tag(sync=True)

    @closed_on_error
    def __init__(self, grooming: Grooming, **options: Any) -> None:
        super().__init__(**options)
        self._grooming = grooming
        self._ids = grooming.questions.frame["item_id"].tolist()
        self._row_of = {item_id: index for index, item_id in enumerate(self._ids)}
        self._shown_id = ""
        first = self._ids[next_open(grooming, self._ids, -1)]
        self._show(self.current_id or first)
        self.observe(self._set_outside, "current_id")

    # -- state, as Python sees it

    @property
    def current(self) -> Item:
        """The shown question with its original options. An item or its id can be assigned."""
        return self._grooming.questions[self._row_of[self.current_id]]

    @current.setter
    def current(self, item: Item | str) -> None:
        self.current_id = item.item_id if isinstance(item, Item) else item

    @property
    def selection(self) -> Items:
        """The shown question, as Items."""
        index = self._row_of[self.current_id]
        return self._grooming.questions[index : index + 1]

    @property
    def counts(self) -> dict[str, int]:
        """Number of questions by state: open, begun, done, rejected, or with a sentence used before."""
        return self._grooming.counts()

    def items(self) -> Items:
        """Return the finished questions with the four picked options."""
        return self._grooming.items()

    def to_frame(self) -> pd.DataFrame:
        """Return one row a question: item_id, state, options (picked), reason (of a rejection)."""
        return self._grooming.to_frame()

    def _static(self, limit: int) -> StaticView:
        done = [item_id for item_id in self._ids if self._grooming.state(item_id) == DONE]
        counts = self.counts
        numbers = [
            ("Person", self._grooming.subject), ("Questions", f"{len(self._ids):,}"),
            ("Groomed", f"{counts[DONE]:,}"), ("Rejected", f"{counts['rejected']:,}"),
            ("Left", f"{counts['open'] + counts['begun']:,}"),
        ]  # fmt: skip
        rows = []
        for each in map(self._question, done[:limit]):
            text = f"{each['context']}{each['left']}{BLANK_MARK}{each['right']}"
            rows.append([each["id"], text, each["answer"], ", ".join(each["picked"])])
        return StaticView(
            "Choice of alternates", [(name, text) for name, text in numbers if text],
            ["Question", "Text", "Answer", "Options beside the answer"], rows, hidden=["Answer"],
            code="wb.groom(questions)",
        )  # fmt: skip

    # -- what the page asks

    def _on_open(self, message: Mapping[str, Any]) -> None:
        self._send_view(message.get("lane"))

    def _on_show(self, message: Mapping[str, Any]) -> None:
        """Show a question by its index."""
        self._show(self._ids[min(max(0, int(message["index"])), len(self._ids) - 1)])
        self._send_view(message.get("lane"))

    def _on_next(self, message: Mapping[str, Any]) -> None:
        """Show the next open question."""
        self._show(self._ids[next_open(self._grooming, self._ids, self._row_of[self.current_id])])
        self._send_view(message.get("lane"))

    def _on_pick(self, message: Mapping[str, Any]) -> None:
        self._grooming.pick(message["id"], message["word"])
        self._send_view(message.get("lane"))

    def _on_reject(self, message: Mapping[str, Any]) -> None:
        self._grooming.reject(message["id"], message["reason"])
        self._send_view(message.get("lane"))

    def _on_undo(self, message: Mapping[str, Any]) -> None:
        """Undo the last change, and show its question."""
        if (item_id := self._grooming.undo()) is not None:
            self._show(item_id)
        self._send_view(message.get("lane"))

    # -- how it is answered

    def _show(self, item_id: str) -> None:
        if item_id not in self._row_of:
            problem = f"the question {item_id!r:.80} is not among those shown"
            raise DataError(problem, remedy="pass it as an item")
        self._shown_id = item_id
        self.current_id = item_id

    def _set_outside(self, _change: Any) -> None:
        with self._lock:
            if self.current_id == self._shown_id:
                return
            try:
                self._show(self.current_id)
            except Exception:
                self.current_id = self._shown_id
                raise
            self._send_view()

    def _question(self, item_id: str) -> dict[str, Any]:
        """Return a question as it is drawn."""
        item = self._grooming.questions[self._row_of[item_id]]
        words, reason = self._grooming.choice(item_id)
        context, before, after = item.readable_parts()
        return {
            "id": item_id, "kind": [each for each in (item.variant, item.book_id) if each],
            "context": context, "left": before, "answer": item.answer, "right": after,
            "alternates": self._grooming.alternates[item_id], "picked": list(words), "reason": reason,
            "state": self._grooming.state(item_id),
        }  # fmt: skip

    def _send_view(self, lane: str | None = None) -> None:
        counts = self.counts
        self.send(
            {
                "type": "view", "lane": lane, "n": len(self._ids), "index": self._row_of[self.current_id],
                "question": self._question(self.current_id), "needed": N_OPTIONS,
                "done": counts[DONE], "rejected": counts[REJECTED],
                "closed": len(self._ids) - counts["open"] - counts["begun"],
                "reasons": REASONS, "guidelines": GUIDELINES, "subject": self._grooming.subject,
            }
        )  # fmt: skip


def groom(
    questions: Items,
    *,
    subject: str = "",
    folder: Path | str | None = None,
    current: str | Item = "",
    height: int = 560,
) -> Groom:
    """Pick the four options of sentence completion questions among their alternates.

    Each alternate can be seen in its sentence. Keys: the arrows move among the alternates, space or enter
    picks one or takes it back, j and k walk through the questions, n goes to the next open one, u takes the
    last change back, x opens the reasons to reject a question. Every change is saved at once, in SQLite, and
    is there again whenever the same questions are groomed by the same subject, after a killed kernel too.
    A sentence is used once: when a question is done, others with its sentence are closed.

    Parameters
    ----------
    questions : Items
        Of :func:`workbench.construction.sentence_completion.questions`, or other items with
        ``meta["alternates"]``, the words to choose from.
    subject : str, default ""
        Who picks; each person has choices of their own.
    folder : path, optional
        Folder of the choices; ``data/grooming`` by default.
    current : str or Item, optional
        The question to begin with; the first open one by default.
    height : int, default 560
        Height of the widget in px.

    Returns
    -------
    Groom
        ``view.items()`` are the questions that are done, ``view.to_frame()`` lists all.

    Raises
    ------
    DataError
        If a question has no answer or fewer than four alternates, or the choices cannot be read or written.

    Examples
    --------
    >>> from workbench import construction
    >>> made = construction.sentence_completion.questions(
    ...     "sample", number=5, frequency=1e-3, minimum=2
    ... )
    >>> view = wb.groom(made, subject="an example of groom")
    >>> len(view.items()), view.counts["open"]
    (0, 5)
    >>> view.close()
    """
    check_items(questions, "groom")
    item_id = current.item_id if isinstance(current, Item) else current
    return Groom(Grooming(questions, subject, folder=folder), current_id=item_id, height=height)
