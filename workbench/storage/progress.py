"""The progress bar of long computations, and lines for readers of a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO
from uuid import uuid4

if TYPE_CHECKING:
    from tqdm import tqdm

PROGRESS = {"tags": ["progress"]}
"""Metadata of the output of a bar in a notebook."""

_REPORT: ContextVar[Callable[[float, float], None] | None] = ContextVar("report", default=None)
_LONG = 60.0  # seconds
_WIDTH = 90  # letters of a bar in a notebook
_FORMAT = (  # sorting: 12 %|█  | 3.10k/25.0k n-grams [00:02<00:13, 1.50k n-grams/s]
    "{desc}: {percentage:.0f} %|{bar}| {n_fmt}/{total_fmt}{unit} [{elapsed}<{remaining}, {rate_fmt}{postfix}]"
)


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
    total: float | None = None, *, label: str, unit: str = "it", shown: bool = True, **options: Any
) -> tqdm[Any]:
    """Return a progress bar: a line on a terminal, removed at the end; permanent text in a notebook.

    In a notebook the bar is one output of the cell, and at its end a line: what was counted, and the time. It
    is text, so that a notebook that is opened again, without its kernel, shows it as it was. None is shown
    where ``TQDM_DISABLE=1`` is set, nor within `report_progress`.

    `total` is the number of units, if known, `label` the text before the bar, `unit` what is counted, such as
    ``"words"`` or ``"B"`` (large numbers are shown as 1.2k, 3.4M). `options` are those of ``tqdm``, such as
    ``initial`` for work that goes on where it was.
    """
    from tqdm import tqdm  # noqa: PLC0415 - where nothing is shown, it is not needed

    space = "" if unit in {"", "B"} else " "
    settings: dict[str, Any] = {"leave": False, "unit_scale": True} | options
    report = _REPORT.get()
    is_visible = shown and report is None and not is_silent()
    if total:
        settings.setdefault("bar_format", _FORMAT)
    shell = notebook_shell() if is_visible else None
    if shell is not None:
        output = {"file": _CellOutput(shell), "ncols": _WIDTH, "position": 0}
        settings = output | settings | {"leave": True}
    else:
        settings.setdefault("dynamic_ncols", True)
    bar = tqdm(total=total, desc=label, unit=space + unit, disable=not is_visible, **settings)
    if report is not None:

        def update(n: float = 1) -> None:
            bar.n += n
            report(bar.n, bar.total or 0)

        bar.update = update
        report(bar.n, bar.total or 0)
    return bar


def update_with_estimate(bar: tqdm[Any], sample: int = 100) -> Callable[[int], object]:
    """Return the method `update` of a bar that also estimates the time of a sample if all take over a minute.

    The first step is measured, so that work which would take hours can be stopped and begun with less.
    """

    def update(n: int) -> object:
        total = bar.total or 0
        if not bar.disable and bar.postfix is None and n and sample < total:
            seconds = bar.format_dict["elapsed"] / (bar.n - bar.initial + n)
            if seconds * total > _LONG:
                bar.postfix = f"{sample:,} take {bar.format_interval(seconds * sample)}"
        return bar.update(n)

    return update


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
