"""Progress of a training: numbers and curves in a notebook, a bar on a terminal, lines in a log."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import Any
from uuid import uuid4

from workbench.storage.progress import notebook_shell, progress_bar, say
from workbench.training.history import Training

_DRAW = 1.0  # seconds from one view in a notebook to the next, at least
_LOG = 10.0  # seconds from one line of a log to the next, at least; scores come at once
_SHARE = 0.05  # of the time that drawing may take
_FAILURES = 3  # after which nothing is shown any more
_LABEL = 24  # letters of a name before a bar


class Progress:
    """Callback of a training; this one is silent."""

    def begin(self, training: Training, step: int) -> None:
        """Note the start of a training after `step` steps that were done before."""

    def step(self) -> None:
        """Note another step; it is called at every step, so it has to be cheap."""

    def update(self, training: Training) -> None:
        """Note that history, scores or notes have grown."""

    def end(self, training: Training) -> None:
        """Note the end; `training.stopped` says how."""


def progress_view(shown: bool = True) -> Progress:  # noqa: FBT001, FBT002 - named as everywhere
    """Return the progress callback for this place.

    In a notebook it is one output with numbers and curves, drawn again at most once a second; on a terminal a
    bar, with scores as lines above it; elsewhere lines on the standard output, one in ten seconds. Under
    ``torchrun`` only the first process shows something. An error of the view never reaches the training.
    """
    if not shown or os.environ.get("RANK", "0") != "0":
        return Progress()
    shell = notebook_shell()
    return _Guarded(_Lines() if shell is None else _Notebook(shell))


class _Lines(Progress):
    """Prints lines; on a terminal scores and notes alone, above a bar."""

    def __init__(self) -> None:
        self._next, self._scores, self._notes = 0.0, 0, 0
        self._bar: Any = None

    def begin(self, training: Training, step: int) -> None:
        self._scores, self._notes = len(training.scores), len(training.notes)
        name = training.name or "model"
        size = f"{training.parameters:,} parameters"
        steps = f" of {training.steps:,}" if training.steps else ""
        self._line(f"{name} on {training.device}: {size}, step {step:,}{steps}")
        with suppress(Exception):  # no standard error, or a closed one
            if sys.stderr.isatty():
                label = _printable(name)[:_LABEL]
                self._bar = progress_bar(training.steps or None, label=label, unit="steps", initial=step)

    def step(self) -> None:
        if self._bar is not None:
            self._bar.update()

    def update(self, training: Training) -> None:
        for note in training.notes[self._notes :]:
            self._line(note)
        for row in training.scores[self._scores :]:
            self._line(f"development, step {row.get('step', 0):,}: {training.describe(row)}")
        self._scores, self._notes = len(training.scores), len(training.notes)
        facts = training.facts()
        if self._bar is not None:
            self._bar.total = training.steps or None  # with a limit of minutes an estimate
            self._bar.set_postfix_str(f"{facts['loss']}, {facts['speed']}", refresh=False)
        elif training.history and monotonic() >= self._next:
            self._next = monotonic() + _LOG
            self._line(", ".join(facts[part] for part in ("step", "words", "loss", "speed", "time")))

    def end(self, training: Training) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()
        self._next = monotonic() + _LOG
        self.update(training)
        self._line(_ended(training).line())

    def _line(self, text: str) -> None:
        line = _printable(text)
        if self._bar is not None:
            self._bar.write(line)
            return
        say(line)


class _Notebook(Progress):
    """Shows one output that changes.

    It displays the `Training`: :mod:`workbench` registers with IPython how one is shown with its curves.
    """

    def __init__(self, shell: Any) -> None:
        self._shell, self._id, self._next = shell, uuid4().hex, 0.0
        self._training: Training | None = None  # what is not shown yet

    def begin(self, training: Training, step: int) -> None:  # noqa: ARG002 - of all views
        self._id = uuid4().hex
        self._draw(training, update=False)

    def step(self) -> None:
        if self._training is not None and monotonic() >= self._next:
            self._draw(self._training)

    def update(self, training: Training) -> None:
        self._training = training
        self.step()

    def end(self, training: Training) -> None:
        self._draw(_ended(training))

    def _draw(self, training: Training, *, update: bool = True) -> None:
        start = monotonic()
        self._training = None
        data, metadata = self._shell.display_formatter.format(training)
        self._shell.display_pub.publish(
            data=data, metadata=metadata, transient={"display_id": self._id}, update=update
        )
        now = monotonic()
        self._next = now + max(_DRAW, (now - start) / _SHARE)


class _Guarded(Progress):
    """Keeps errors of a view from the training; after some of them nothing is shown any more."""

    def __init__(self, view: Progress) -> None:
        self._view, self._failures = view, 0
        for method in ("begin", "step", "update", "end"):
            setattr(self, method, partial(self._do, method))

    def _do(self, method: str, *arguments: Any) -> None:
        try:
            getattr(self._view, method)(*arguments)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._failures += 1
            if self._failures == _FAILURES:
                self._view = Progress()
                with suppress(Exception):
                    say(f"progress is not shown any more: {error!r}", file=sys.stderr)


def _printable(text: str) -> str:
    """Return text without line ends and other characters that would change a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def _ended(training: Training) -> Training:
    """Return a training that is over; without a reason it was ended by an error."""
    return training if training.stopped else replace(training, stopped="ended by an error")
