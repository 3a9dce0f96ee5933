"""What is known of a training: what was planned, how it went, what the development set said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from workbench.items.schema import DataError

if TYPE_CHECKING:
    import pandas as pd

STOPPED = ("", "finished", "early", "interrupted", "not a number")
"""How a training ended; the first while it runs."""

HISTORY = ("step", "tokens", "seconds", "loss", "tokens_per_second", "learning_rate")
"""Columns of `Training.history`."""

_PLACES = ("step", "tokens", "seconds")  # the columns that every row of scores has
_RECENT = 20  # points that tell how fast it goes now
_ODD = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}  # numbers that JSON has no word for


@dataclass
class Training:
    """A record of one training, under way or over; a notebook shows it as a picture.

    Attributes
    ----------
    name : str
        What is trained.
    folder : Path, optional
        Where its checkpoints lie.
    device : str
        Where it is computed, such as ``cuda:0``.
    fits : str
        The line that told what fits on this device before it began.
    steps : int
        Steps of the optimiser that are planned.
    history : list of dict
        Points in time with ``step``, ``tokens`` (words trained on since the beginning), ``seconds`` (since
        the beginning, those of resumed trainings added up), ``loss`` (mean of -ln p since the last point,
        nats per word), ``tokens_per_second`` (since the last point) and ``learning_rate``.
    scores : list of dict
        ``step``, ``tokens`` and ``seconds``, and what was measured on development data there; shares, such
        as ``accuracy``, are between 0 and 1.
    notes : list of str
        What happened, such as a micro-batch that was halved.
    stopped : {"", "finished", "early", "interrupted", "not a number"}
        How it ended; "" while it runs.
    best_by : str, default "perplexity"
        The score that says which weights were the best.
    """

    name: str = ""
    folder: Path | None = None
    device: str = ""
    fits: str = ""
    steps: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stopped: str = ""
    best_by: str = "perplexity"

    @property
    def last(self) -> dict[str, Any]:
        """The newest point of the history or of the scores with its place; empty before the first."""
        newest = [rows[-1] for rows in (self.scores, self.history) if rows]
        return max(newest, key=lambda row: int(row.get("step", 0)), default={})

    @property
    def minutes(self) -> float:
        """Minutes since the beginning, up to the newest point."""
        return float(self.last.get("seconds", 0.0)) / 60

    @property
    def minutes_left(self) -> float:
        """Minutes to the last step at the pace of the newest points; 0 once it ended, NaN where not known."""
        if self.stopped:
            return 0.0
        rows = [row for row in self.history if "step" in row and "seconds" in row][-_RECENT:]
        if not rows:
            return math.nan
        first = rows[0] if len(rows) > 1 else {"step": 0, "seconds": 0.0}
        done, took = rows[-1]["step"] - first["step"], rows[-1]["seconds"] - first["seconds"]
        left = self.steps - rows[-1]["step"]
        return max(left, 0) * took / done / 60 if done > 0 and took >= 0 else math.nan

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a table: `HISTORY`, one row a point."""
        return _frame(self.history, HISTORY)

    def scores_frame(self) -> pd.DataFrame:
        """Return the development scores as a table: ``step``, ``tokens``, ``seconds`` and the scores."""
        return _frame(self.scores, _PLACES)

    def to_json(self) -> dict[str, Any]:
        """Return it as what JSON can hold; `from_json` reads it. NaN and infinity become words."""
        return {
            "name": self.name,
            "folder": None if self.folder is None else str(self.folder),
            "device": self.device,
            "fits": self.fits,
            "steps": int(self.steps),
            "history": [_plain(row) for row in self.history],
            "scores": [_plain(row) for row in self.scores],
            "notes": list(self.notes),
            "stopped": self.stopped,
            "best_by": self.best_by,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned; what is missing is empty.

        Raises
        ------
        DataError
            If it is something else.
        """
        known = {column.name for column in fields(cls)}
        try:
            given = {name: value for name, value in dict(told).items() if name in known}
            for name in ("history", "scores"):
                given[name] = [_numbers(row) for row in given.get(name, ())]
            given["notes"] = [str(note) for note in given.get("notes", ())]
            given["steps"] = int(given.get("steps", 0))
            folder = given.get("folder")
            given["folder"] = None if folder is None else Path(folder)
            return cls(**given)
        except (AttributeError, TypeError, ValueError) as error:
            raise DataError(f"this is no record of a training: {error}") from error

    def __repr__(self) -> str:
        """Return one line: how far it came and how it stands."""
        from workbench.training.telling import briefly  # noqa: PLC0415 - it stands on this module

        return f"<Training {briefly(self)}>"

    def _repr_html_(self) -> str:
        from workbench.training.curves import picture  # noqa: PLC0415 - it stands on this module

        return picture(self)


def _frame(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> pd.DataFrame:
    """Return rows as a table with these columns first, there even without rows."""
    import pandas as pd  # noqa: PLC0415 - slow

    more = dict.fromkeys(name for row in rows for name in row if name not in columns)
    return pd.DataFrame(rows, columns=[*columns, *more])


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of numbers as JSON can hold it."""
    found = {}
    for name, value in row.items():
        number = value.item() if hasattr(value, "item") else value  # of numpy and of torch
        if isinstance(number, float) and not math.isfinite(number):
            number = "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
        found[str(name)] = number
    return found


def _numbers(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as it was before `_plain`."""
    return {
        name: _ODD.get(value, value) if isinstance(value, str) else value for name, value in dict(row).items()
    }
