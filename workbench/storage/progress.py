"""The progress bar of long computations, and lines for readers of a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TextIO
from uuid import uuid4

if TYPE_CHECKING:
    from tqdm import tqdm

PROGRESS = {"tags": ["progress"]}
"""Metadata of the output of a bar in a notebook."""

_REPORT: ContextVar[Callable[[float, float], None] | None] = ContextVar("report", default=None)
_WIDTH = 100  # letters of a bar in a notebook
_MEASURED = 10  # units after which the time of all of them is estimated
_SAMPLE = 100  # units whose time is shown if it is a minute or more
_MINUTE, _HOUR = 60, 3600  # seconds
_MEGABYTES = 1e7  # bytes from which on they are shown as MB
_FORMAT = "{desc}: {percentage:.0f} %|{bar}| {counted} [{elapsed}{estimate}{postfix}]"
_WITHOUT_TOTAL = "{desc}: {counted} [{elapsed}{postfix}]"
_PHASE = "{desc} [{elapsed}]"


def say(value: Any, *, file: TextIO | None = None, end: str = "\n") -> None:
    """Print text that may be untrusted, to ``sys.stdout`` by default.

    Characters that are not printable, or not in the encoding of the stream, are escaped.
    """
    text = "".join(
        letter if letter.isprintable() or letter in "\n\t" else ascii(letter)[1:-1] for letter in str(value)
    )
    encoding = getattr(file or sys.stdout, "encoding", None) or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    print(text, file=file, end=end, flush=True)


def notebook_shell() -> Any:
    """Return the IPython shell of the running notebook, or None elsewhere."""
    with suppress(Exception):  # IPython is not there, or not running
        shell = sys.modules["IPython"].get_ipython()
        return shell if shell.kernel is not None else None
    return None


@contextmanager
def report_progress(report: Callable[[float, float], None]) -> Iterator[None]:
    """Call a function in place of showing bars, with the units done and all units, at each step.

    For views and bars around other bars; what the function raises ends the work. It holds for bars that
    start in this block, in this thread.
    """
    token = _REPORT.set(report)
    try:
        yield
    finally:
        _REPORT.reset(token)


def is_silent() -> bool:
    """Return True if ``TQDM_DISABLE`` is set, tqdm's own switch for bars."""
    return os.environ.get("TQDM_DISABLE", "0").lower() not in {"", "0", "false"}


def progress_bar(
    total: float | None = None, *, label: str, unit: str = "items", shown: bool = True, **options: Any
) -> tqdm[Any]:
    """Return a progress bar: a line on a terminal, removed at the end; permanent text in a notebook.

    In a notebook the bar is one output of the cell, and at its end a line: what was counted, and the time. It
    is text, so that a notebook that is opened again, without its kernel, shows it as it was. None is shown
    where ``TQDM_DISABLE=1`` is set, nor within `report_progress`.

    `total` is the number of units, if known, `label` the text before the bar, `unit` what is counted, such as
    ``"words"`` or ``"B"`` (bytes, shown as MB); ``""`` names a phase in which nothing is counted. After ten
    units the bar shows an estimate of the whole time, from its own speed. `options` are those of ``tqdm``,
    such as ``initial`` for work that is resumed.
    """
    report = _REPORT.get()
    is_visible = shown and report is None and not is_silent()
    form = _FORMAT if total else _WITHOUT_TOTAL if unit else _PHASE
    settings: dict[str, Any] = {"leave": False, "bar_format": form} | options
    shell = notebook_shell() if is_visible else None
    if shell is not None:
        output = {"file": _CellOutput(shell), "ncols": _WIDTH, "position": 0}
        settings = output | settings | {"leave": True}
    else:
        settings.setdefault("dynamic_ncols", True)
    bar = _bar_class()(total=total, desc=label, unit=unit, disable=not is_visible, **settings)
    if report is not None:

        def update(n: float = 1) -> None:
            bar.n += n
            report(bar.n, bar.total or 0)

        bar.update = update
        report(bar.n, bar.total or 0)
    return bar


@cache
def _bar_class() -> type[tqdm[Any]]:
    """Return the class of bars, made here because tqdm is slow to import."""
    from tqdm import tqdm  # noqa: PLC0415 - where nothing is shown, it is not needed

    class Bar(tqdm):  # type: ignore[misc] # has no types
        """A bar that shows whole units, and an estimate of the time for all of them."""

        @property
        def format_dict(self) -> dict[str, Any]:
            values: dict[str, Any] = super().format_dict
            n, total, initial, unit = values["n"], values["total"], values["initial"], values["unit"]
            return values | {
                "counted": _counted(n, total, unit),
                "estimate": _estimate(n - initial, (total or 0) - initial, values["elapsed"], unit),
            }

    return Bar


def _counted(n: float, total: float | None, unit: str) -> str:
    """Return units as whole numbers: "3,100 of 25,000 items", "12 of 170 MB"."""
    if unit == "B":
        size, unit = (1e6, "MB") if max(n, total or 0) >= _MEGABYTES else (1e3, "kB")
        n, total = n / size, total and total / size
    return f"{int(n):,} of {int(total):,} {unit}" if total else f"{int(n):,} {unit}"


def _estimate(n: float, total: float, seconds: float, unit: str) -> str:
    """Return the estimated time of all units, and of a sample that takes a minute or more."""
    if not _MEASURED <= n < total:
        return ""
    text = f" of about {_duration(seconds / n * total)}"
    sample = seconds / n * _SAMPLE
    if sample >= _MINUTE and total > _SAMPLE:
        text += f", about {_duration(sample)} per {_SAMPLE} {unit}"
    return text


def _duration(seconds: float) -> str:
    """Return a rounded duration: "40 s", "12 min", "3.5 h"."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    return f"{seconds / _MINUTE:.0f} min" if seconds < 2 * _HOUR else f"{seconds / _HOUR:.1f} h"


class _CellOutput:
    """A file for a bar that shows its last line as one output of a cell."""

    encoding = "utf-8"  # of a bar of blocks

    def __init__(self, shell: Any) -> None:
        self._publisher, self._id, self._text = shell.display_pub, uuid4().hex, ""

    def write(self, text: str) -> None:
        """Replace the text shown; line ends alone change nothing."""
        if not (text := text.strip()) or text == self._text:
            return
        transient, update = {"display_id": self._id}, bool(self._text)
        self._text = text
        self._publisher.publish(
            data={"text/plain": text}, metadata=PROGRESS, transient=transient, update=update
        )

    def flush(self) -> None:
        """Do nothing: text is shown at once."""
