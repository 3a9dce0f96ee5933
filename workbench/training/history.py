"""History of a training: its points and scores, as tables, in words, as HTML, and what is shown meanwhile.

In a notebook that is one output with numbers and curves, elsewhere a bar.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tqdm import tqdm

from workbench.render.numbers import percent, quantity
from workbench.storage.progress import is_silent, notebook_shell, progress_bar, say

if TYPE_CHECKING:
    import pandas as pd

STOPPED = ("", "interrupted", "early", "finished")
"""How a training ended, empty while it runs; of several processes the last reason of them counts."""

HISTORY = ("step", "tokens", "seconds", "loss", "tokens_per_second", "learning_rate")
"""Columns of `Training.history`."""

_SCORES = ("step", "tokens", "seconds")  # the columns that every row of scores has
_RECENT = 20  # points from which the present speed is computed
_NOTES = 4  # notes that are shown
_STATES = {"": "training", "early": "stopped early", "error": "ended by an error"}
_DRAW = 1.0  # seconds from one view in a notebook to the next, at least
_SHARE = 0.05  # of the time that drawing may take
_TERMINAL, _LOG = 0.1, 10.0  # seconds from one state of the bar to the next: on a terminal, and in a log


@dataclass
class Training:
    """Record of one training, running or ended; a notebook shows it as numbers and curves.

    Attributes
    ----------
    name : str
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
    stopped : {"", "finished", "early", "interrupted", "error"}
        How it ended; empty while it runs.
    best_by : str, default "perplexity"
        The score that decides which evaluation is best.
    unit : str, default "words"
        What ``tokens`` counts: "words", or the "questions" of a reader.
    """

    name: str = ""
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
        rows = [*self.scores[-1:], *self.history[-1:]]
        return max(rows, key=lambda row: int(row["step"]), default={})

    @property
    def best(self) -> Mapping[str, Any]:
        """The best row of scores by `best_by`, the first of equals; empty without scores."""
        names = self.score_names
        if not names:
            return {}
        name = self.best_by if self.best_by in names else names[0]
        sign = -1.0 if is_share(name) else 1.0
        rows = [row for row in self.scores if math.isfinite(row.get(name, math.nan))]
        return min(rows, key=lambda row: sign * row[name], default={})

    @property
    def score_names(self) -> list[str]:
        """The names of all scores, in order of appearance."""
        names = dict.fromkeys(name for row in self.scores for name in row)
        return [name for name in names if name not in _SCORES]

    @property
    def seconds_left(self) -> float:
        """Seconds to the last step at the present speed; NaN where not known."""
        rows = [{"step": 0, "seconds": 0.0}, *self.history][-_RECENT:]
        steps, seconds = (rows[-1][name] - rows[0][name] for name in ("step", "seconds"))
        return max(self.steps - rows[-1]["step"], 0) * seconds / steps if steps else math.nan

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a table: `HISTORY`, one row per point; ``attrs["unit"]`` is the unit."""
        return self._frame(self.history, HISTORY)

    def scores_frame(self) -> pd.DataFrame:
        """Return the development scores as a table: ``step``, ``tokens``, ``seconds`` and the scores."""
        return self._frame(self.scores, (*_SCORES, *self.score_names))

    def _frame(self, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
        """Return rows as a table with these columns, also without rows."""
        import pandas as pd  # noqa: PLC0415 - slow

        frame = pd.DataFrame(rows, columns=list(columns))
        frame.attrs["unit"] = self.unit
        return frame

    def facts(self) -> dict[str, str]:
        """Return the present state in words, by name, without what is not known yet."""
        last, best = self.last, self.best
        facts = {"device": self.device, "step": f"step {last.get('step', 0):,}"}
        facts["step"] += f" of {self.steps:,}" if self.steps else ""
        facts["words"] = f"{last.get('tokens', 0):,} {self.unit}"
        facts["time"] = tqdm.format_interval(last.get("seconds", 0.0))
        if not self.stopped and math.isfinite(self.seconds_left):
            facts["time"] += f", {tqdm.format_interval(self.seconds_left)} left"
        for point in self.history[-1:]:
            facts["loss"] = f"loss {point['loss']:.3f}"
            facts["speed"] = f"{point['tokens_per_second']:,.0f} {self.unit}/s"
        if best:
            facts["best"] = f"best {self.describe(best)} at {best['tokens']:,} {self.unit}"
        return facts | {"state": _STATES.get(self.stopped, self.stopped)}

    def describe(self, row: Mapping[str, Any]) -> str:
        """Return a row of scores in words, the deciding one first: ``perplexity 143, accuracy 18.3 %``."""
        names = sorted(set(row).difference(_SCORES), key=lambda name: (name != self.best_by, name))
        scores = [(percent if is_share(name) else quantity)(row[name]) for name in names]
        labels = [name.replace("_", " ") for name in names]
        return ", ".join(f"{label} {score}" for label, score in zip(labels, scores, strict=True))

    def __repr__(self) -> str:
        return f"<Training {self.line()}>"

    def line(self) -> str:
        """Return the present state in one line."""
        return ", ".join([f"{self.name} on {self.device}", *list(self.facts().values())[1:]])

    def _repr_html_(self) -> str:
        return self.to_html()

    def to_html(self, curves: str = "") -> str:
        """Return the present state as HTML, with a bar of the steps, `curves` (SVG) and the last notes."""
        cells = " ".join(
            f'<span class="wb-{name}" style="display:inline-block;margin-right:1em">{escape(text)}</span>'
            for name, text in self.facts().items()
        )
        step = self.last.get("step", 0)
        bar = "" if self.stopped else f'<progress max="{self.steps or 1}" value="{step}"></progress>'
        notes = "".join(f"<p>{escape(note)}</p>" for note in dict.fromkeys(self.notes[-_NOTES:]))
        return (
            '<div class="wb-training mathjax_ignore tex2jax_ignore"><style>.wb-training{'
            "font:12px/1.6 var(--jp-ui-font-family,system-ui,sans-serif);font-variant-numeric:tabular-nums;"
            "color:var(--jp-content-font-color1,inherit)}.wb-training progress{width:100%}"
            ".wb-training p{margin:0;overflow-wrap:anywhere}.wb-curves:has(svg){display:block}</style>"
            f'<b class="wb-name">{escape(self.name)}</b> {cells}{bar}'
            f'<div class="wb-curves" hidden="hidden">{curves}</div>{notes}</div>'
        )


def is_share(score: str) -> bool:
    """Return whether a score is a share, of which more is better: an accuracy; of others less is better."""
    return "accuracy" in score


Progress = Callable[[Training], None]
"""Shows a training: it is called at the beginning, at new points and scores, and at the end."""


def progress_view() -> Progress | None:
    """Return what shows a training in a notebook, or on a terminal and in a log; None to show nothing.

    Under ``torchrun`` only the first process shows something.
    """
    if is_silent() or os.environ.get("RANK", "0") != "0":
        return None
    shell = notebook_shell()
    return _Bar() if shell is None else _Notebook(shell)


class _Bar:
    """A bar of the steps, with scores and notes above it."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._scores = self._notes = 0

    def __call__(self, training: Training) -> None:
        step = training.last.get("step", 0)
        if self._bar is None:
            say(f"{training.name} on {training.device}: {training.parameters:,} parameters")
            self._scores, self._notes = len(training.scores), len(training.notes)
            pause = _TERMINAL if sys.stderr.isatty() else _LOG
            options = {"label": training.name, "unit": "steps", "initial": step, "mininterval": pause}
            self._bar = progress_bar(training.steps or None, **options)
        for line in [
            *training.notes[self._notes :],
            *(f"step {row['step']:,}: {training.describe(row)}" for row in training.scores[self._scores :]),
        ]:
            self._bar.clear()
            say(line)
        self._scores, self._notes = len(training.scores), len(training.notes)
        facts = training.facts()
        self._bar.total = training.steps or None  # with a limit of minutes an estimate
        self._bar.set_postfix_str(", ".join(facts[n] for n in ("loss", "speed") if n in facts), refresh=False)
        self._bar.update(step - self._bar.n)
        if training.stopped:
            self._bar.close()
            say(training.line())


class _Notebook:
    """One output that changes; :mod:`workbench` registers with IPython how curves are added to it."""

    def __init__(self, shell: Any) -> None:
        self._shell, self._id, self._next = shell, uuid4().hex, 0.0

    def __call__(self, training: Training) -> None:
        start = monotonic()
        if start < self._next and not training.stopped:
            return
        data, metadata = self._shell.display_formatter.format(training)
        transient, update = {"display_id": self._id}, bool(self._next)
        self._shell.display_pub.publish(data=data, metadata=metadata, transient=transient, update=update)
        now = monotonic()
        self._next = now + max(_DRAW, (now - start) / _SHARE)
