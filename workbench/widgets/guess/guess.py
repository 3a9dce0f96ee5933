"""The guessing game of LAMBADA: a person types the missing word, and every answer is saved at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import traitlets

from workbench.analysis.proportions import wilson
from workbench.evaluation.model_predictions import predictions_of, source_of
from workbench.items.ablation import split_variant
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.people import Protocol, ProtocolStep, reports, unfold
from workbench.people.protocols import best_match
from workbench.people.tasks import LONGEST_GUESS, Task, task_of
from workbench.render.numbers import percent
from workbench.render.results import Table, TableColumn, TableLayout, with_interval
from workbench.storage.errors import DataError, check_option
from workbench.widgets.guess.game import Game, Page, game_protocol
from workbench.widgets.shared.passages import BLANK_MARK
from workbench.widgets.shared.widget import StaticView, Widget, closed_on_error, read_assets

Condition = Literal["passage", "sentence", "unfolding"]

CONDITIONS: Mapping[str, str] = {
    "passage": "whole passage",
    "sentence": "target sentence alone",
    "unfolding": "unfolding",
}
"""What a person sees, in words."""

_CLOSE = ("case", "number", "spelling")
_RIGHT = ("exact", "case")  # of models, everywhere


class Guess(Widget):
    """A widget to guess words; made by :func:`guess`.

    Attributes
    ----------
    game : Game
        Pages and answers; ``game.person`` plays, ``game.folder`` holds the table of judgments.
    page : Page or None
        The page that is open; None after it was submitted, and where all are answered.
    feedback : bool
        Whether the answers of a page are shown after it was submitted.
    """

    _esm = read_assets("shared/page.js", "guess/guess.js")
    _css = read_assets("guess/guess.css")
    feedback = traitlets.Bool(default_value=True)
    height = traitlets.Int(460, min=320).tag(sync=True)
    longest = traitlets.Int(LONGEST_GUESS, read_only=True).tag(sync=True)
    key = traitlets.Unicode("", read_only=True).tag(sync=True)

    @closed_on_error
    def __init__(self, game: Game, *, runs: Sequence[pd.DataFrame] = (), **options: Any) -> None:
        super().__init__(**options)
        self.game, self._runs = game, list(runs)
        self._row_of = {item_id: index for index, item_id in enumerate(game.items.frame["item_id"])}
        self._models = [_by_item(each) for each in self._runs]
        self._wrong: dict[str, list[str]] = {}  # of the open page, while it unfolds
        self._review: list[dict[str, Any]] = []  # of the page that was submitted last
        self.page: Page | None = game.next_page()
        # names this game in what a page remembers of words that are typed and not yet sent
        self.set_trait("key", game.key)
        self._refresh()

    # -- what Python sees

    def judgments(self) -> pd.DataFrame:
        """Return this person's answers to the items; see :func:`workbench.people.score_judgments`."""
        return self.game.judgments()

    def predictions(self, condition: Condition | None = None) -> pd.DataFrame:
        """Return this person's answers as predictions, which tables and :func:`workbench.compare` take.

        Answers on a page that is not submitted are left out, as in :meth:`score`.

        Parameters
        ----------
        condition : {"passage", "sentence", "unfolding"}, optional
            Condition of the judgments: one row of a table. By default the whole passage if the protocol
            shows it, else its first condition.

        Returns
        -------
        DataFrame
            See :func:`workbench.people.predictions`; the model is ``person: `` and the name. Of a sentence
            alone the variant ends in ``(query only)``.
        """
        conditions = [step.condition for step in self.game.protocol.steps]
        chosen = condition or ("passage" if "passage" in conditions else conditions[0])
        check_option("condition", chosen, list(dict.fromkeys(conditions)))
        judged = self._submitted_judgments()
        judged = judged[judged["condition"] == chosen]
        return reports.predictions_of_scored(self.game.items, judged.assign(model=self._name))

    @property
    def _name(self) -> str:
        return f"person: {self.game.person}"

    def score(self) -> Table:
        """Return the accuracy of this person, and of the models of `runs` on the same items.

        Answers on a page that is not submitted do not count yet: a score would reveal which are right.

        Returns
        -------
        Table
            One row per person or model and condition: model, condition, n (items), accuracy of the first
            guess with Wilson's 95 % interval, ``accuracy_any`` of all guesses that the person had (of a
            model: of as many of its best words), and how many items have a guess that differs from the answer
            in ``case``, ``number`` or ``spelling`` alone. Models stand beside the sentences alone where their
            predictions are of these (``items.query_only()``).
        """
        judged = self._submitted_judgments()
        rows: list[dict[str, Any]] = []
        for step in {step.condition: step for step in self.game.protocol.steps}.values():
            group = judged[judged["condition"] == step.condition]
            if len(group):
                rows.append(_score_row(self._name, step.condition, group))
            if step.condition == "unfolding":
                continue  # models that saw all of the passage are no match
            for run, by_item in zip(self._runs, self._models, strict=True):
                guessed = [
                    by_item.get((item_id, step.condition == "sentence")) for item_id in group["item_id"]
                ]
                if len(group) and None not in guessed:
                    rows.append(
                        _model_row(
                            source_of(run).model, step, [row for row in guessed if row], group["answer"]
                        )
                    )
        names = [
            "model", "condition", "n", "accuracy", "accuracy_low", "accuracy_high", "accuracy_any",
            "accuracy_any_low", "accuracy_any_high", *_CLOSE,
        ]  # fmt: skip
        columns = [TableColumn("model"), TableColumn("condition"), TableColumn("n", "count")]
        columns += [with_interval("accuracy", "share")]
        if any(step.guesses > 1 for step in self.game.protocol.steps):
            columns.append(with_interval("accuracy_any", "share"))
        table = pd.DataFrame(rows, columns=names)
        table.attrs["note"] = "Wilson intervals over items, 95 %."
        return Table(table, TableLayout("Words that were guessed", tuple(columns)))

    def _submitted_judgments(self) -> pd.DataFrame:
        """Return this person's final judgments, without those on pages that are not submitted."""
        answers, frame = self.game.answers(), reports.last_words(self.judgments())
        is_open = [not finished for finished in self.game.finished_pages(answers)]
        if self.page is not None:
            is_open[self.page.id - 1] = True
        submitted = self.game.item_ids([page for page, each in enumerate(is_open, 1) if not each])
        return frame[frame["item_id"].isin(submitted)]

    def context_shares(self, models: Predictor | Iterable[Predictor] = ()) -> dict[str, pd.DataFrame]:
        """Return the share guessed by the number of context sentences, for this person and for models.

        Only items that the person has finished count; see :meth:`unfolding`.
        """
        frame = self.judgments()
        done = reports.last_words(frame)
        done = done[done["condition"] == "unfolding"]
        items = self.game.items
        items = items.where(items.frame["item_id"].isin(done["item_id"]).to_numpy())
        curves = {self._name: reports.unfolding(frame)}
        for model in [models] if isinstance(models, Predictor) else models:
            curves[model.name] = unfold(items, model)
        return curves

    def unfolding(self, models: Predictor | Iterable[Predictor] = ()) -> Any:
        """Draw the context sentences needed by this person and by models (:func:`wb.charts.context_needed`).

        Models are asked about the items that the person has finished, with as many sentences; their guess is
        always their best word, even where that was wrong before.
        """
        from workbench.charts.models import context_needed  # noqa: PLC0415 - Altair is slow to import

        return context_needed(self.context_shares(models))

    # -- what the page asks

    def _on_open(self, message: Mapping[str, Any]) -> None:
        self._refresh()
        self._send_view(message)

    def _on_answer(self, message: Mapping[str, Any]) -> None:
        """Save an answer; if it is refused, report why and show the page unchanged."""
        try:
            number, index = int(message["page"]), int(message["task"])
            item_id = self.game.page(number).tasks[index].item_id
            self._answer_task(
                number,
                item_id,
                message["guesses"],
                shown=message.get("shown"),
                seconds=message.get("seconds"),
            )
        except DataError as error:
            self._refuse(message, error)
        else:
            self._send_view(message)

    def _answer_task(self, number: int, item_id: str, guesses: Sequence[str], **seen: Any) -> Task | None:
        following = self.game.answer(number, item_id, guesses, **seen)
        if following is not None:
            self._wrong.setdefault(item_id, []).extend(guesses)
        self._refresh()
        return following

    def answer(self, item_id: str, guesses: Sequence[str]) -> Task | None:
        """Answer a task of the open page from Python, as simulated players do.

        In unfolding, after a wrong guess, the same item with one more sentence is returned; else None.
        DataError if no page is open, the task is not on it, or was answered with other words.
        """
        with self._lock:
            following = self._answer_task(self._open_page().id, item_id, guesses)
            self._send_view({})
        return following

    def _open_page(self) -> Page:
        if self.page is None:
            raise DataError("no page is open", hint="take one with next_page()")
        return self.page

    def _on_submit(self, message: Mapping[str, Any]) -> None:
        try:
            self._submit()
        except DataError as error:
            self._refuse(message, error)
        else:
            self._send_view(message)

    def submit(self) -> None:
        """Go from the open page to its answers; DataError if a task has none."""
        with self._lock:
            self._submit()
            self._send_view({})

    def _submit(self) -> None:
        page = self.game.page(self._open_page().id)
        if n_open := sum(not task.finished for task in page.tasks):
            problem = f"{n_open} of the tasks of page {page.id} have no answer"
            raise DataError(problem, hint="answer them; an empty guess is an answer")
        self.page = None
        if self.feedback:
            self._review = self._review_of(page)
        else:
            self.page = self.game.next_page()

    def next_page(self) -> Page | None:
        """Go on after a submitted page; return the next open page, or None if all are answered."""
        with self._lock:
            self._on_next({})
            return self.page

    def _on_next(self, message: Mapping[str, Any]) -> None:
        self._review = []
        self.page = self.game.next_page()
        self._refresh()
        self._send_view(message)

    def _refuse(self, message: Mapping[str, Any], error: DataError) -> None:
        request = {name: message.get(name) for name in ("request", "from")}
        self.send({"type": "error", **request, "message": str(error)})
        self._refresh()
        self._send_view({})

    # -- how it is answered

    def _refresh(self) -> None:
        """Read the open page again, which another view may have changed."""
        if self.page is None:
            return
        self.page = self.game.page(self.page.id)
        wrong = self._wrong if self.page.condition == "unfolding" else {}
        self._wrong = {
            task.item_id: wrong.get(task.item_id) or [word for word in task.guesses if word]
            for task in self.page.tasks
            if not task.finished
        }

    def _send_view(self, message: Mapping[str, Any]) -> None:
        request = {name: message.get(name) for name in ("request", "from")}
        self.send({"type": "view", **request, **self._state()})

    def _state(self) -> dict[str, Any]:
        """Return what is drawn: the open page, the answers of the last one, or the end of the game."""
        stage = "page" if self.page is not None else "review" if self._review else "done"
        answers = [(index, rows) for index, rows in self.game.answers().items() if rows is not None]
        answered = sum(self.game.is_finished(index, rows) for index, rows in answers)
        return {
            "stage": stage, "name": self.game.person, "answered": answered, "total": len(answers),
            "page": None if self.page is None else self._page_view(self.page),
            "review": self._review if stage == "review" else [],
            "score": self._score_rows() if stage != "page" and self.feedback else [],
        }  # fmt: skip

    def _page_view(self, page: Page) -> dict[str, Any]:
        return {
            "id": page.id, "condition": page.condition, "guesses": page.guesses,
            "candidates": self.game.protocol.candidates,
            "tasks": [self._task_view(page, index, task) for index, task in enumerate(page.tasks)],
        }  # fmt: skip

    def _task_view(self, page: Page, index: int, task: Task) -> dict[str, Any]:
        """Return a task as it is drawn; it has the answer only after an unfolding item has ended.

        It has its place on the page, and no id: with that the answer could be looked up.
        """
        view: dict[str, Any] = {
            "place": index, "sentences": task.sentences, "query": task.query, "shown": task.shown,
            "candidates": task.candidates, "guesses": task.guesses if task.finished else (),
            "finished": task.finished, "wrong": self._wrong.get(task.item_id, []), "ended": None,
        }  # fmt: skip
        if task.finished and page.condition == "unfolding" and self.feedback:
            view["ended"] = self._outcome(task.item_id, task.guesses)
        return view

    def _outcome(self, item_id: str, guesses: Sequence[str]) -> dict[str, Any]:
        answer = str(self.game.items[self._row_of[item_id]].answer)
        best = best_match(guesses, answer)
        return {"answer": answer, "match": best, "correct": best in self.game.protocol.accept}

    def _review_of(self, page: Page) -> list[dict[str, Any]]:
        """Return the tasks of a submitted page with their answers, and the models' guesses."""
        rows = []
        for index, task in enumerate(page.tasks):
            item = self.game.items[self._row_of[task.item_id]]
            passage = task_of(item, len(item.sentences), candidates=False)
            rows.append(
                {
                    "place": index, "query": task.query, "sentences": passage.sentences,
                    "guesses": [word for word in task.guesses if word],
                    "shown": task.shown if page.condition == "unfolding" else None,
                    "models": self._model_guesses(task.item_id, alone=page.condition == "sentence"),
                    **self._outcome(task.item_id, task.guesses),
                }
            )  # fmt: skip
        return rows

    def _model_guesses(self, item_id: str, *, alone: bool) -> list[tuple[str, str, bool, str]]:
        """Return name, word, correctness and condition of each model that predicted an item."""
        rows = []
        for run, by_item in zip(self._runs, self._models, strict=True):
            for saw, note in ((alone, ""), (not alone, "sentence alone" if not alone else "whole passage")):
                if (row := by_item.get((item_id, saw))) is not None:
                    words, correct = row
                    rows.append((source_of(run).model, words[0] if words else "", correct, note))
                    break
        return rows

    def _score_rows(self) -> list[list[str]]:
        """Return the score as the page shows it."""
        rows = []
        for row in self.score().to_dict("records"):
            several = [("", "accuracy")]
            if self._guesses(row["condition"]) > 1:
                several.append((f"within {self._guesses(row['condition'])} guesses", "accuracy_any"))
            for note, name in several:
                low, high = (percent(row[f"{name}_{end}"], unit=False) for end in ("low", "high"))
                condition = ", ".join(filter(None, [CONDITIONS[row["condition"]], note]))
                right = f"{round(row[name] * row['n'])} of {row['n']}"
                interval = f"{percent(row[name])} ({low} to {high})"
                rows.append([row["model"], condition, right, interval])
        return rows

    def _guesses(self, condition: str) -> int:
        return max(step.guesses for step in self.game.protocol.steps if step.condition == condition)

    def _static(self, limit: int) -> StaticView:
        state = self._state()
        page = state["page"]
        tasks = [task for task in page["tasks"] if not task["finished"]] if page else []
        numbers = [
            ("Person", f"{state['name']}, protocol {self.game.protocol.name}"),
            ("Answered", f"{state['answered']:,} of {state['total']:,} items"),
        ]
        if state["stage"] == "page":
            numbers.append(("Open", f"{len(tasks)} of {len(page['tasks'])} on this page have no answer yet."))
        elif state["stage"] == "done":
            numbers.append(("Open", "All items are answered."))
        for model, condition, right, interval in self._score_rows() if self.feedback else ():
            numbers.append((f"{model}, {condition}", f"{right}, {interval}"))
        rows = [
            [
                f"Task {row['place'] + 1}", BLANK_MARK.join(row["query"]), row["answer"],
                f"{'right' if row['correct'] else 'wrong'}: {', '.join(row['guesses']) or 'no guess'}",
                "; ".join(f"{model}{f' ({note})' if note else ''}: {word or 'none'}"
                          for model, word, _, note in row["models"]),
            ]
            for row in state["review"]
        ]  # fmt: skip
        rows += [
            [f"Task {task['place'] + 1}", " ".join([*task["sentences"], BLANK_MARK.join(task["query"])]),
             "", "", ""]
            for task in tasks
        ]  # fmt: skip
        heads = ["Task", "Text", "Answer", "Guesses", "Models"]
        return StaticView("Guessing game", numbers, heads, rows[:limit], code="wb.guess(items)")


def _by_item(frame: pd.DataFrame) -> dict[tuple[str, bool], tuple[list[str], bool]]:
    """Return a model's best words and correctness, by item and "of the query alone"."""
    rows = {}
    best = frame["top_words"] if "top_words" in frame else pd.Series([None] * len(frame))
    columns = (frame["item_id"], frame["variant"], frame["prediction"], frame["correct"], best)
    for item_id, variant, word, correct, words in zip(*(column.tolist() for column in columns), strict=True):
        saw = split_variant(str(variant))[1]
        if saw in {"", "query only"}:
            first = [str(word)] if pd.notna(word) else []
            others = [] if words is None else [each for each in words if each not in first]
            rows[str(item_id), bool(saw)] = ([*first, *others], bool(correct) if pd.notna(correct) else False)
    return rows


def _shares(name: str, right: Sequence[bool]) -> dict[str, float]:
    [low], [high] = wilson(np.array([sum(right)]), np.array([len(right)]))
    return {name: sum(right) / len(right), f"{name}_low": float(low), f"{name}_high": float(high)}


def _score_row(model: str, condition: str, judged: pd.DataFrame) -> dict[str, Any]:
    return {
        "model": model, "condition": condition, "n": len(judged),
        **_shares("accuracy", judged["prediction_correct"].tolist()),
        **_shares("accuracy_any", judged["correct"].tolist()),
        **{name: int((judged["match"] == name).sum()) for name in _CLOSE},
    }  # fmt: skip


def _model_row(
    model: str, step: ProtocolStep, guessed: Sequence[tuple[list[str], bool]], answers: pd.Series[Any]
) -> dict[str, Any]:
    pairs = zip(guessed, answers, strict=True)
    matches = [best_match(words[: step.guesses], answer) for (words, _), answer in pairs]
    near = [best in _RIGHT for best in matches]
    return {
        "model": model, "condition": step.condition, "n": len(guessed),
        **_shares("accuracy", [correct for _, correct in guessed]),
        **_shares("accuracy_any", near),
        **{name: matches.count(name) for name in _CLOSE},
    }  # fmt: skip


def guess(
    items: Items,
    protocol: str | Protocol = "lambada",
    *,
    person: str | None = None,
    folder: Path | str | None = None,
    runs: Any = None,
    feedback: bool = True,
    seed: int = 0,
    height: int | None = None,
    **settings: Any,
) -> Guess:
    """Guess missing words by the protocols of the data sets, and compare yourself with models.

    A page of passages or target sentences is shown, one at a time; Enter goes to the next guess or task,
    Shift+Enter back. Every answer is saved at once in the person's file of judgments, so the same call goes
    on where the person stopped, after a restart and in another browser. No person gets an item in two
    conditions.

    Parameters
    ----------
    items : Items
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
        ``lambada``: each item is shown as a whole passage, with one guess, or as its target sentence alone,
        with three; which, is drawn. ``unfolding``: the target sentence, then one sentence of context more
        after each wrong guess. ``cbt``: ten candidates, with the context or without; which, is drawn.
        ``completion``: five options.
    person : str, optional
        Who plays; "me" by default.
    folder : path, optional
        Folder of the table of judgments (:func:`workbench.people.read_judgments`), one file per person;
        ``data/guess`` by default.
    runs : Run, DataFrame or str, or several of these, optional
        Predictions to show beside the answers after a page, and in the score.
    feedback : bool, default True
        Whether answers are shown after a page.
    seed : int, default 0
        Draws the order of the items, and their conditions.
    height : int, optional
        Height of the widget in px; by default 460, where candidates are shown 600.
    **settings
        ``condition`` (``"passage"``, ``"sentence"`` or ``"both"``), ``guesses``, ``per_page``, ``accept``:
        see :func:`workbench.people.protocol`.

    Returns
    -------
    Guess
        ``.judgments()``, ``.score()``, ``.predictions()`` and ``.unfolding()`` are the person's results.

    Raises
    ------
    DataError
        If there are no items, one lacks what the protocol needs, or the person's file cannot be read.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> game = wb.guess(items, person="Ada", folder=mkdtemp(), runs=runs)
    >>> game.page.condition, len(game.page.tasks)
    ('passage', 10)
    >>> game.close()
    """
    game = Game(items, game_protocol(protocol, **settings), person, folder, seed)
    guessed = [] if runs is None else predictions_of(runs, items)
    height = (600 if game.protocol.candidates else 460) if height is None else height
    return Guess(game, runs=guessed, feedback=feedback, height=height)
