"""Interrupting a training: noted when it comes, acted on between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Self, TypeVar

Kept = TypeVar("Kept")


class Interrupts:
    """While this context lasts, Ctrl-C and a notebook's stop button only set `asked`.

    A step and a checkpoint are short, and half of one would be of no use. What takes long and changes
    nothing runs under `breakable`. In a thread that gets no signals nothing is changed.
    """

    def __init__(self) -> None:
        self.asked = False
        self._breakable = False
        self._before: Any = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._before = signal.getsignal(signal.SIGINT)
            if self._before is not None:  # a handler that is not Python's could not be put back
                signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.asked = True
        if self._breakable:
            raise KeyboardInterrupt

    def breakable(self, do: Callable[[], Kept]) -> Kept | None:
        """Return what `do` returns; None if an interrupt came before or broke it off."""
        if self.asked:
            return None
        self._breakable = True
        try:
            return do()
        except KeyboardInterrupt:
            self.asked = True
            return None
        finally:
            self._breakable = False
