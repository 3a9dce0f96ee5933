"""Annotation in the background while a widget is already in use.

A thread annotates and hands the table to the widget under its lock; its columns are facets from then on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from workbench.storage.progress import report_progress

if TYPE_CHECKING:
    import pandas as pd

    from workbench.items.items import Items

AUTO = "auto"
"""What is passed as ``annotations=`` to have a widget annotate its items by itself."""


class _ClosedError(Exception):
    """Raised when the widget was closed before annotation finished."""


class Annotating:
    """Annotate items in a background thread for a widget that is already shown.

    ``start()`` begins (again, after an error). Both callables run in the background thread, so a widget
    guards its state by a lock: `changed` after each change of `state`, `done` (items so far) or `problem`
    (the message of the error), when the widget sends ``describe()`` to its page, and `arrived` once, with the
    annotations. Where :func:`annotations_at_hand` returns a frame, no thread is needed.
    """

    def __init__(
        self, items: Items, *, arrived: Callable[[pd.DataFrame], None], changed: Callable[[], None]
    ) -> None:
        self.state: Literal["idle", "running", "done", "failed"] = "idle"
        self.done, self.problem = 0, ""
        self._items, self._on_annotations, self._on_progress = items, arrived, changed
        self._thread: threading.Thread | None = None
        self._closed = False

    def start(self) -> None:
        """Start the thread, unless it is running or finished."""
        if self.state in ("running", "done") or self._closed:
            return
        self.state, self.done, self.problem = "running", 0, ""
        self._thread = threading.Thread(target=self._run, name="annotate", daemon=True)
        self._thread.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; return True if the annotations are complete."""
        if self._thread is not None:
            self._thread.join(timeout)
        return self.state == "done"

    def close(self) -> None:
        """Stop at the next chunk of items, and send no more events."""
        self._closed = True

    def describe(self) -> dict[str, Any]:
        """Return the progress for the page: ``state``, ``done``, ``total`` and ``problem``."""
        return {"state": self.state, "done": self.done, "total": len(self._items), "problem": self.problem}

    def _run(self) -> None:
        from workbench.analysis.annotations import annotate  # noqa: PLC0415 - heavy

        try:
            with report_progress(self._progress):
                annotations = annotate(self._items)
            self.state, self.done = "done", len(self._items)
            if not self._closed:
                self._on_annotations(annotations)
        except _ClosedError:
            return
        except Exception as error:  # noqa: BLE001 - the reader sees it in the widget
            self.state, self.problem = "failed", f"The items could not be annotated: {error}"
        if not self._closed:
            self._on_progress()

    def _progress(self, done: float, _total: float) -> None:
        if self._closed:
            raise _ClosedError
        self.done = int(done)
        self._on_progress()


def annotations_at_hand(items: Items) -> pd.DataFrame | None:
    """Return cached annotations of items, or None if they would have to be computed."""
    from workbench.analysis.annotations import cached_annotations  # noqa: PLC0415 - heavy

    return cached_annotations(items)
