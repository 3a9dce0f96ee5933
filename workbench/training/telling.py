"""A training in words: its numbers, made short, and what each score means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from workbench.training.history import Training

WORDS = {
    "": "training",
    "finished": "finished",
    "early": "stopped early",
    "interrupted": "interrupted",
    "not a number": "stopped: not a number",
}
"""How a training ended, as it is told."""

UNKNOWN = "\N{EN DASH}"  # stands for a number that is not known (yet)

_PLACES = {"step", "tokens", "seconds"}
_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))


class Score(NamedTuple):
    """What is known of a score by its name.

    Attributes
    ----------
    name : str
        As it is told.
    percent : bool
        Whether it is a share, told in percent.
    log : bool
        Whether it is drawn on a logarithmic axis.
    higher : bool, optional
        Whether more is better; None where nobody knows.
    """

    name: str
    percent: bool
    log: bool
    higher: bool | None

    @classmethod
    def of(cls, column: str) -> Score:
        """Return what the name of a score says of it."""
        low = column.lower()
        percent = "accuracy" in low or "share" in low
        falls = any(word in low for word in ("perplexity", "rank", "loss", "nats", "error"))
        higher = True if "accuracy" in low else False if falls else None
        return cls(column.replace("_", " "), percent, "perplexity" in low or "rank" in low, higher)

    def told(self, value: float) -> str:
        """Return a value of it in words: ``18.3 %``, ``143``."""
        if not math.isfinite(value):
            return UNKNOWN
        return f"{100 * value:.1f} %" if self.percent else short(value)


def number(value: Any) -> float:
    """Return a number, NaN for anything else."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError):
        return math.nan


def short(value: float) -> str:
    """Return a number with three significant digits or so: ``0.0123``, ``5.12``, ``143``, ``12.3M``.

    >>> short(5.1234), short(143.2), short(12345), short(203_000_000), short(999_999)
    ('5.12', '143', '12.3k', '203M', '1M')
    """
    if not math.isfinite(value):
        return UNKNOWN
    size = abs(float(f"{value:.3g}"))
    if size >= 1e15:  # noqa: PLR2004 - no more units
        return f"{value:.2e}"
    unit, letter = next(((unit, letter) for unit, letter in _UNITS if size >= unit), (1.0, ""))
    scaled = float(f"{value:.3g}") / unit
    return f"{scaled:.3g}{letter}" if abs(scaled) < 1000 else f"{scaled:.0f}{letter}"  # noqa: PLR2004 - digits


def minutes(value: float) -> str:
    """Return minutes in words: ``12 s``, ``3.2 min``, ``250 min``."""
    if not math.isfinite(value):
        return UNKNOWN
    if value < 59.5 / 60:
        return f"{60 * value:.0f} s"
    return f"{value:.1f} min" if value < 99.95 else f"{value:,.0f} min"  # noqa: PLR2004 - four digits


def scores_of(training: Training) -> list[str]:
    """Return the names of all scores that are numbers, in the order in which they came."""
    return list(
        dict.fromkeys(
            name
            for row in training.scores
            for name, value in row.items()
            if name not in _PLACES and not isinstance(value, bool | str | bytes) and _numeric(value)
        )
    )


def best(training: Training) -> Mapping[str, Any]:
    """Return the row of scores that is best by `training.best_by`, the first of equals; empty without one."""
    names = scores_of(training)
    if not names:
        return {}
    name = training.best_by if training.best_by in names else names[0]
    sign = -1.0 if Score.of(name).higher else 1.0
    rows = [row for row in training.scores if math.isfinite(number(row.get(name)))]
    return min(rows, key=lambda row: sign * number(row[name]), default={})


def scores_told(training: Training, row: Mapping[str, Any], most: int = 3) -> str:
    """Return a row of scores in words, the one that decides first: ``perplexity 143, accuracy 18.3 %``."""
    names = sorted(scores_of(training), key=lambda name: name != training.best_by)
    known = [name for name in names if name in row][:most]
    return ", ".join(f"{Score.of(name).name} {Score.of(name).told(number(row[name]))}" for name in known)


def facts(training: Training) -> dict[str, str]:
    """Return how a training stands, part by part; `UNKNOWN` where there is nothing yet."""
    last, row = training.last, best(training)
    step, left = number(last.get("step", 0)), training.minutes_left
    speed = next((number(p.get("tokens_per_second")) for p in reversed(training.history)), math.nan)
    loss = next((number(point.get("loss")) for point in reversed(training.history)), math.nan)
    to_go = "" if training.stopped or math.isnan(left) else f", {minutes(left)} left"
    where = f" at {short(number(row.get('tokens')))} words" if row else ""
    return {
        "device": training.device or UNKNOWN,
        "step": f"step {step:,.0f} of {training.steps:,}",
        "words": f"{short(number(last.get('tokens', 0)))} words",
        "time": minutes(training.minutes) + to_go,
        "loss": f"loss {UNKNOWN if not math.isfinite(loss) else f'{loss:.3f}'}",
        "speed": f"{short(speed)} words/s",
        "best": f"best {scores_told(training, row)}{where}" if row else f"best {UNKNOWN}",
        "state": WORDS.get(training.stopped, training.stopped),
    }


def briefly(training: Training) -> str:
    """Return how a training stands, in one line."""
    told = facts(training)
    parts = [f"{training.name or 'model'} on {told.pop('device')}", *told.values()]
    return ", ".join(part for part in parts if UNKNOWN not in part)


def _numeric(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
