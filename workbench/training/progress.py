"""Those who watch a training: a live picture in a notebook, a bar on a terminal, lines in a log."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from dataclasses import replace
from time import monotonic
from typing import Any, Protocol
from uuid import uuid4

from workbench.training.history import Training
from workbench.training.telling import briefly, facts, scores_told

DRAW = 1.0
"""Seconds from one picture to the next, at least."""

LOG = 10.0
"""Seconds from one line of a log to the next, at least; scores come at once."""

_FAILURES = 3  # then a watch is left alone
_NAME = 24  # letters of a name before a bar
_REFRESH = 0.5  # seconds from one state of a bar to the next


class Watch(Protocol):
    """Somebody who is told how a training goes, and does not disturb it."""

    def begin(self, training: Training, step: int) -> None:
        """Take note that it starts, after `step` steps that were done before."""

    def step(self, n: int = 1) -> None:
        """Take note of `n` more steps; called at every step, so it must be cheap."""

    def told(self, training: Training) -> None:
        """Take note that the history or the scores have grown."""

    def say(self, text: str) -> None:
        """Pass on what happened, in words."""

    def end(self, training: Training) -> None:
        """Take note that it is over; `training.stopped` says how."""


def watching(progress: bool = True) -> Watch:  # noqa: FBT001, FBT002 - named as everywhere
    """Return who watches a training here.

    Parameters
    ----------
    progress : bool, default True
        Without it nobody does.

    Returns
    -------
    Watch
        In a notebook one output with the picture of the training, drawn anew at most once a second, and a
        bar; on a terminal a bar, with scores as lines above it; elsewhere lines on the standard output, one
        in ten seconds. Under ``torchrun`` only the first process shows something. What goes wrong in showing
        it never reaches the training.
    """
    if not progress or os.environ.get("RANK", "0") != "0":
        return _Silent()
    shell = _notebook()
    if shell is not None:
        return _Guarded(_Notebook(shell))
    with suppress(Exception):  # no standard error, or a closed one
        if sys.stderr.isatty() and _bar_class() is not None:
            return _Guarded(_Terminal())
    return _Guarded(_Log())


def _notebook() -> Any:
    """Return the shell of the notebook that this runs in; None elsewhere."""
    with suppress(Exception):
        shell = sys.modules["IPython"].get_ipython()
        if getattr(shell, "kernel", None) is not None:
            return shell
    return None


def _bar_class() -> Any:
    """Return tqdm's class of bars for this place; None where tqdm is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a notebook without ipywidgets gets a bar of text
            from tqdm.auto import tqdm  # noqa: PLC0415 - loads ipywidgets in a notebook
    except ImportError:
        return None
    return tqdm


def _printable(text: str) -> str:
    """Return text without line ends and other characters that would change a terminal."""
    return "".join(letter if letter.isprintable() else " " for letter in str(text))


def _print(text: str) -> None:
    """Print a line at once, also where the output knows few characters."""
    line = _printable(text)
    try:
        print(line, flush=True)  # noqa: T201 - a log is what was asked for
    except UnicodeEncodeError:
        known = sys.stdout.encoding or "ascii"
        print(line.encode(known, "backslashreplace").decode(known), flush=True)  # noqa: T201 - as above


def _ended(training: Training) -> Training:
    """Return a training that is over; one that does not say how was ended by an error."""
    return training if training.stopped else replace(training, stopped="ended by an error")


class _Silent:
    """Shows nothing."""

    def begin(self, training: Training, step: int) -> None: ...

    def step(self, n: int = 1) -> None: ...

    def told(self, training: Training) -> None: ...

    def say(self, text: str) -> None: ...

    def end(self, training: Training) -> None: ...


class _Log(_Silent):
    """Prints lines."""

    def __init__(self) -> None:
        self._next, self._scores, self._said = 0.0, 0, set[str]()

    def begin(self, training: Training, step: int) -> None:
        self._scores = len(training.scores)
        where = f" on {training.device}" if training.device else ""
        self._line(f"{training.name or 'model'}{where}: step {step:,} of {training.steps:,}")
        if training.fits and training.fits not in self._said:
            self._line(training.fits)

    def told(self, training: Training) -> None:
        self._new_scores(training)
        if training.history and monotonic() >= self._next:
            self._next = monotonic() + LOG
            told = facts(training)
            self._line(", ".join(told[part] for part in ("step", "words", "loss", "speed", "time")))

    def say(self, text: str) -> None:
        self._said.add(text)
        self._line(text)

    def end(self, training: Training) -> None:
        self._new_scores(training)
        self._line(briefly(_ended(training)))

    def _new_scores(self, training: Training) -> None:
        for row in training.scores[self._scores :]:
            self._line(f"development, step {row.get('step', 0):,}: {scores_told(training, row, most=9)}")
        self._scores = len(training.scores)

    def _line(self, text: str) -> None:
        _print(text)


class _Bar:
    """A bar of steps."""

    def __init__(self, training: Training, step: int, **options: Any) -> None:
        kind = _bar_class()
        self._bar = kind and kind(
            desc=_printable(training.name or "model")[:_NAME], total=training.steps, initial=step,
            unit="step",
            mininterval=_REFRESH, leave=False, **options,
        )  # fmt: skip

    @property
    def widget(self) -> Any:
        """The bar of a notebook, not yet shown; None for a bar of text."""
        return getattr(self._bar, "container", None)

    def step(self, n: int) -> None:
        """Go on."""
        if self._bar is not None:
            self._bar.update(n)

    def told(self, training: Training) -> None:
        """Show how it stands beside the bar."""
        if self._bar is not None and training.history:
            told = facts(training)
            self._bar.set_postfix_str(f"{told['loss']}, {told['speed']}", refresh=False)

    def write(self, text: str) -> None:
        """Print a line above the bar."""
        if self._bar is None:
            _print(text)
        else:
            self._bar.write(_printable(text))

    def close(self) -> None:
        """Take the bar away, also where it did not come to its end."""
        if self._bar is not None:
            self._bar.total = self._bar.n  # else a notebook keeps it, in red
            self._bar.close()


class _Terminal(_Log):
    """Shows a bar, and lines above it."""

    def __init__(self) -> None:
        super().__init__()
        self._bar: _Bar | None = None

    def begin(self, training: Training, step: int) -> None:
        super().begin(training, step)
        self._bar = _Bar(training, step, dynamic_ncols=True)

    def step(self, n: int = 1) -> None:
        if self._bar is not None:
            self._bar.step(n)

    def told(self, training: Training) -> None:
        self._new_scores(training)
        if self._bar is not None:
            self._bar.told(training)

    def end(self, training: Training) -> None:
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.close()
        super().end(training)

    def _line(self, text: str) -> None:
        if self._bar is None:
            _print(text)
        else:
            self._bar.write(text)


class _Notebook(_Silent):
    """Shows the picture in one output, and a bar below it."""

    def __init__(self, shell: Any) -> None:
        self._shell, self._id = shell, uuid4().hex
        self._bar: _Bar | None = None
        self._training: Training | None = None
        self._said: list[str] = []
        self._next, self._waits = 0.0, False

    def begin(self, training: Training, step: int) -> None:
        self._id, self._training = uuid4().hex, training
        self._draw(first=True)
        kind = _bar_class()
        widgets = sys.modules.get("tqdm.notebook")
        if kind is not None and widgets is not None and issubclass(kind, widgets.tqdm_notebook):
            self._bar = _Bar(training, step, display=False)
            data, more = self._shell.display_formatter.format(self._bar.widget)
            self._publish(data, more, name="bar")
        else:
            self._bar = _Bar(training, step, file=sys.stdout)

    def step(self, n: int = 1) -> None:
        if self._bar is not None:
            self._bar.step(n)
        if self._waits and monotonic() >= self._next:
            self._draw()

    def told(self, training: Training) -> None:
        self._training = training
        if monotonic() >= self._next:
            self._draw()
        else:
            self._waits = True

    def say(self, text: str) -> None:
        self._said.append(text)
        self._draw()  # nothing before it begins; then the first picture has it

    def end(self, training: Training) -> None:
        self._training = _ended(training)
        bar, self._bar = self._bar, None
        try:
            self._draw()
        finally:
            if bar is not None:
                shown = bar.widget is not None
                bar.close()
                if shown:  # a closed widget would be an error where the notebook is opened again
                    self._publish({"text/plain": ""}, {}, name="bar", update=True)

    def _draw(self, *, first: bool = False) -> None:
        from workbench.training.curves import picture  # noqa: PLC0415 - imports numpy

        training = self._training
        if training is None:
            return
        self._next, self._waits = monotonic() + DRAW, False
        data = {"text/html": picture(training, self._said), "text/plain": repr(training)}
        self._publish(data, {}, name="picture", update=not first)

    def _publish(self, data: Any, more: Any, *, name: str, update: bool = False) -> None:
        self._shell.display_pub.publish(
            data=data, metadata=more, transient={"display_id": f"{self._id}-{name}"}, update=update
        )


class _Guarded:
    """Keeps what goes wrong in a watch from the training; one that fails again and again is left alone."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._failures = watch, 0

    def begin(self, training: Training, step: int) -> None:
        self._do("begin", training, step)

    def step(self, n: int = 1) -> None:
        self._do("step", n)

    def told(self, training: Training) -> None:
        self._do("told", training)

    def say(self, text: str) -> None:
        self._do("say", text)

    def end(self, training: Training) -> None:
        self._do("end", training)

    def _do(self, what: str, *given: Any) -> None:
        try:
            getattr(self._watch, what)(*given)
        except Exception as error:  # noqa: BLE001 - whatever it is
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        """Count a failure; after some, show nothing more and say so once."""
        self._failures += 1
        if self._failures == _FAILURES:
            self._watch = _Silent()
            with suppress(Exception):
                print(f"progress is not shown any more: {error!r}", file=sys.stderr)  # noqa: T201 - last word
