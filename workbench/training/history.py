"""History of a training: its points and scores, as tables, as one line, as HTML, and while it runs.

Meanwhile there are numbers and curves in a notebook, a bar on a terminal, lines in a log.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from html import escape
from numbers import Real
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from uuid import uuid4

from workbench.storage.errors import DataError
from workbench.storage.progress import is_silent, notebook_shell, progress_bar, say

if TYPE_CHECKING:
    import pandas as pd

STOPPED = ("", "finished", "early", "interrupted", "not a number")
"""How a training ended; empty while it runs."""

HISTORY = ("step", "tokens", "seconds", "loss", "tokens_per_second", "learning_rate")
"""Columns of `Training.history`."""

NO_VALUE = "\N{EN DASH}"
"""Stands for a number that is not known (yet)."""

_AT = ("step", "tokens", "seconds")  # the columns that every row of scores has
_RECENT = 20  # points from which the present speed is computed
_NOTES = 4  # notes that are shown
_STATES = {"": "training", "early": "stopped early", "not a number": "stopped: loss is not finite"}
_NOT_JSON = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


_DRAW = 1.0  # seconds from one view in a notebook to the next, at least
_LOG = 10.0  # seconds from one line of a log to the next, at least; scores come at once
_SHARE = 0.05  # of the time that drawing may take
_FAILURES = 3  # after which nothing is shown any more
_LABEL = 24  # letters of a name before a bar


@dataclass
class Training:
    """Record of one training, running or ended; a notebook shows it as numbers and curves.

    Attributes
    ----------
    name : str
    folder : Path, optional
        Folder of its checkpoints.
    device : str
        Such as ``cuda:0``.
    parameters : int
        Number of trained parameters.
    steps : int
        Planned steps of the optimiser; in a training of so many minutes an estimate, 0 before the first.
    history : list of dict
        Points in time with ``step``, ``tokens`` (words trained on since the beginning), ``seconds`` (since
        the beginning, those of resumed trainings included), ``loss`` (mean of -ln p since the last point,
        nats per word), ``tokens_per_second`` (since the last point) and ``learning_rate``.
    scores : list of dict
        ``step``, ``tokens``, ``seconds``, and the scores on development items there; shares, such as
        ``accuracy``, are between 0 and 1.
    notes : list of str
        What happened, such as a compiler that failed.
    stopped : {"", "finished", "early", "interrupted", "not a number"}
        How it ended; empty while it runs.
    best_by : str, default "perplexity"
        The score that decides which evaluation is best.
    unit : str, default "words"
        What ``tokens`` counts: "words", or the "questions" of a reader.
    """

    name: str = ""
    folder: Path | None = None
    device: str = ""
    parameters: int = 0
    steps: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    best_by: str = "perplexity"
    unit: str = "words"

    @property
    def last(self) -> dict[str, Any]:
        """The newest row of history or scores; empty before the first."""
        rows = [each[-1] for each in (self.scores, self.history) if each]
        return max(rows, key=lambda row: int(row.get("step", 0)), default={})

    @property
    def best(self) -> Mapping[str, Any]:
        """The best row of scores by `best_by`, the first of equals; empty without scores."""
        names = self.score_names
        if not names:
            return {}
        name = self.best_by if self.best_by in names else names[0]
        sign = -1.0 if Score.from_column(name).higher else 1.0
        rows = [row for row in self.scores if math.isfinite(number(row.get(name)))]
        return min(rows, key=lambda row: sign * number(row[name]), default={})

    @property
    def score_names(self) -> list[str]:
        """The names of all scores that are numbers, in order of appearance."""
        names = dict.fromkeys(name for row in self.scores for name in row if _is_number(row[name]))
        return [name for name in names if name not in _AT]

    @property
    def minutes(self) -> float:
        """Minutes up to the newest row."""
        return float(self.last.get("seconds", 0.0)) / 60

    @property
    def minutes_left(self) -> float:
        """Minutes to the last step at the present speed; 0 once it ended, NaN where not known."""
        if self.stopped:
            return 0.0
        rows = [row for row in self.history if "step" in row and "seconds" in row][-_RECENT:]
        if not rows:
            return math.nan
        first = rows[0] if len(rows) > 1 else {"step": 0, "seconds": 0.0}
        steps, seconds = rows[-1]["step"] - first["step"], rows[-1]["seconds"] - first["seconds"]
        remaining = max(self.steps - rows[-1]["step"], 0)
        return remaining * seconds / steps / 60 if steps > 0 and seconds >= 0 else math.nan

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a table: `HISTORY`, one row a point; ``attrs["unit"]`` is the unit."""
        frame = _frame(self.history, HISTORY)
        frame.attrs["unit"] = self.unit
        return frame

    def scores_frame(self) -> pd.DataFrame:
        """Return the development scores as a table: ``step``, ``tokens``, ``seconds`` and the scores."""
        frame = _frame(self.scores, _AT)
        frame.attrs["unit"] = self.unit
        return frame

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON can hold it; `from_json` reads it. NaN and infinity become words."""
        return asdict(self) | {
            "folder": None if self.folder is None else str(self.folder),
            "history": [_to_json(row) for row in self.history],
            "scores": [_to_json(row) for row in self.scores],
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read the text of `to_json`; missing fields are empty, DataError if it is not valid."""
        names = {column.name for column in fields(cls)}
        try:
            values = {name: value for name, value in dict(content).items() if name in names}
            for name in ("history", "scores"):
                values[name] = [_from_json(row) for row in values.get(name, ())]
            values["notes"] = [str(note) for note in values.get("notes", ())]
            values["steps"] = int(values.get("steps", 0))
            folder = values.get("folder")
            values["folder"] = None if folder is None else Path(folder)
            return cls(**values)
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError(f"this is not the record of a training: {error}") from error

    def facts(self) -> dict[str, str]:
        """Return the present state in words, by name; `NO_VALUE` where there is nothing yet."""
        last, best, remaining = self.last, self.best, self.minutes_left
        newest = self.history[-1] if self.history else {}
        speed, loss = number(newest.get("tokens_per_second")), number(newest.get("loss"))
        of_steps = f" of {self.steps:,}" if self.steps else ""
        time_left = "" if self.stopped or math.isnan(remaining) else f", {minutes(remaining)} left"
        return {
            "device": self.device or NO_VALUE,
            "step": f"step {number(last.get('step', 0)):,.0f}{of_steps}",
            "words": f"{short(number(last.get('tokens', 0)))} {self.unit}",
            "time": minutes(self.minutes) + time_left,
            "loss": f"loss {loss:.3f}" if math.isfinite(loss) else f"loss {NO_VALUE}",
            "speed": f"{short(speed)} {self.unit}/s",
            "best": f"best {self.describe(best)} at {short(number(best.get('tokens')))} {self.unit}"
            if best
            else f"best {NO_VALUE}",
            "state": _STATES.get(self.stopped, self.stopped),
        }

    def describe(self, row: Mapping[str, Any]) -> str:
        """Return a row of scores in words, the deciding one first: ``perplexity 143, accuracy 18.3 %``."""
        names = sorted(self.score_names, key=lambda name: name != self.best_by)
        scores = [(Score.from_column(name), number(row[name])) for name in names if name in row]
        return ", ".join(f"{score.label} {score.show(value)}" for score, value in scores)

    def __repr__(self) -> str:
        return f"<Training {self.line()}>"

    def line(self) -> str:
        """Return the present state in one line, unknown parts left out."""
        facts = {"name": f"{self.name or 'model'} on {self.device or NO_VALUE}", **self.facts(), "device": ""}
        return ", ".join(fact for fact in facts.values() if fact and NO_VALUE not in fact)

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, curves: str = "") -> str:
        """Return the present state as HTML, with a bar of the steps, `curves` (SVG) and the last notes."""
        facts, step = self.facts(), number(self.last.get("step", 0))
        cells = " ".join(
            f'<span class="wb-{name}" style="display:inline-block;margin-right:1em">{escape(text)}</span>'
            for name, text in facts.items()
        )
        bar = "" if self.stopped else f'<progress max="{self.steps or 1}" value="{step:.0f}"></progress>'
        notes = "".join(f"<p>{escape(note)}</p>" for note in dict.fromkeys(self.notes[-_NOTES:]))
        return (
            '<div class="wb-training mathjax_ignore tex2jax_ignore"><style>.wb-training{'
            "font:12px/1.6 var(--jp-ui-font-family,system-ui,sans-serif);font-variant-numeric:tabular-nums;"
            "color:var(--jp-content-font-color1,inherit)}.wb-training progress{width:100%}"
            ".wb-training p{margin:0;overflow-wrap:anywhere}.wb-curves:has(svg){display:block}</style>"
            f'<b class="wb-name">{escape(self.name or "model")}</b> {cells}{bar}'
            f'<div class="wb-curves" hidden="hidden">{curves}</div>{notes}</div>'
        )


class Score(NamedTuple):
    """A score as described by its name."""

    label: str
    percent: bool  # whether it is a share, shown in percent
    log: bool  # whether it is drawn on a logarithmic axis
    higher: bool | None  # whether higher is better; None where not known

    @classmethod
    def from_column(cls, column: str) -> Score:
        """Return the properties of a score by its name."""
        low = column.lower()
        percent = "accuracy" in low or "share" in low
        falls = any(word in low for word in ("perplexity", "rank", "loss", "nats", "error"))
        higher = True if "accuracy" in low else False if falls else None
        return cls(column.replace("_", " "), percent, "perplexity" in low or "rank" in low, higher)

    def show(self, value: float) -> str:
        """Return a value in words: ``18.3 %``, ``143``."""
        if not math.isfinite(value):
            return NO_VALUE
        return f"{100 * value:.1f} %" if self.percent else short(value)


def number(value: Any) -> float:
    """Return a number as a float, NaN for anything else."""
    return float(value) if _is_number(value) else math.nan


def short(value: float) -> str:
    """Return a number with about three significant digits: ``5.12``, ``12.3k``, ``203M``."""
    if not math.isfinite(value):
        return NO_VALUE
    size = abs(float(f"{value:.3g}"))
    if size >= 1e15:  # noqa: PLR2004 - no more units
        return f"{value:.2e}"
    unit, letter = next(((unit, letter) for unit, letter in _UNITS if size >= unit), (1.0, ""))
    scaled = float(f"{value:.3g}") / unit
    return f"{scaled:.3g}{letter}" if abs(scaled) < 1000 else f"{scaled:.0f}{letter}"  # noqa: PLR2004 - digits


def minutes(value: float) -> str:
    """Return minutes in words: ``12 s``, ``3.2 min``, ``250 min``."""
    if not math.isfinite(value):
        return NO_VALUE
    if value < 59.5 / 60:
        return f"{60 * value:.0f} s"
    return f"{value:.1f} min" if value < 99.95 else f"{value:,.0f} min"  # noqa: PLR2004 - four digits


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    """Return rows as a table with these columns first, also without rows."""
    import pandas as pd  # noqa: PLC0415 - slow

    others = dict.fromkeys(name for row in rows for name in row if name not in columns)
    return pd.DataFrame(rows, columns=[*columns, *others])


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _to_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of numbers as JSON can hold it."""
    result = {}
    for name, value in row.items():
        plain = value.item() if hasattr(value, "item") else value  # of numpy and of torch
        if isinstance(plain, float) and not math.isfinite(plain):
            plain = "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"
        result[str(name)] = plain
    return result


def _from_json(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as it was before `_to_json`."""
    return {name: _NOT_JSON.get(v, v) if isinstance(v, str) else v for name, v in dict(row).items()}


class Progress:
    """Callback of a training; this one is silent."""

    def begin(self, training: Training, step: int) -> None:
        """Report the start of a training after `step` earlier steps."""

    def step(self) -> None:
        """Update the progress after a step; it is called at every step, so it has to be cheap."""

    def update(self, training: Training) -> None:
        """Report new history, scores or notes."""

    def end(self, training: Training) -> None:
        """Report the end; `training.stopped` has the reason."""


def progress_view() -> Progress:
    """Return the progress callback for a notebook, a terminal, or a log.

    Under ``torchrun`` only the first process shows something. Errors of the view never reach the training.
    """
    if is_silent() or os.environ.get("RANK", "0") != "0":
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
            self._line(", ".join(facts[name] for name in ("step", "words", "loss", "speed", "time")))

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
    """Shows one output that changes; :mod:`workbench` registers with IPython how curves are added to it."""

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
