"""What a saved notebook keeps of a widget: a static page, which its live view hides.

JupyterLab shows an error for a widget whose model is gone, whatever else its output holds. So a widget is
shown as two outputs: the live view, and a page that is brought up to date shortly after a change of state.
While the live view is there, its script hides the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock, Timer
from typing import Any
from uuid import uuid4

from markupsafe import Markup

MAXIMUM = 50_000
"""Bytes that a notebook keeps of one widget, at most."""

_PAUSE = 0.4  # seconds without a change before the page is brought up to date
_SIZES = (10, 3, 1, 0)
_PAGE = Markup("""\
<div class="wb-saved wb-saved-{key}"><style>
.jp-OutputArea-child:not(:has(> .jp-OutputArea-output > *)):has(+ .jp-OutputArea-child .wb-saved) {{
display: none }}
.wb-saved {{ max-height: 800px; overflow: auto }}
.wb-saved-note {{ font: 12px/1.5 system-ui, sans-serif; opacity: .75; margin: 4px 16px }}
</style>{page}
<p class="wb-saved-note">Saved view. Run the cell in JupyterLab for the interactive one.</p></div>""")


class SavedPage:
    """The static page of one widget.

    Parameters
    ----------
    render : callable
        Returns the page as HTML, from data that is escaped; its argument is how many passages, or words of a
        list, it may hold at most.

    Attributes
    ----------
    key : str
        The page has the class ``wb-saved-<key>``.
    """

    def __init__(self, render: Callable[[int], str]) -> None:
        self.key = uuid4().hex[:12]
        self.render = render
        self._lock = Lock()
        self._kept: str | None = None  # what the notebook has; None before the widget is shown
        self._timer: Timer | None = None

    def html(self) -> str:
        """Return the page with as much as `MAXIMUM` allows."""
        for most in _SIZES:
            html = _PAGE.format(key=self.key, page=Markup(self.render(most)))  # noqa: S704 - escaped by the widget
            if len(html.encode()) <= MAXIMUM:
                return str(html)
        return str(_PAGE.format(key=self.key, page=f"This view takes more than {MAXIMUM // 1000} KB."))

    def show(self, live: Mapping[str, Any]) -> None:
        """Display a live view, and the page as a second output."""
        from IPython.display import publish_display_data  # noqa: PLC0415 - where a widget is shown, it is there

        publish_display_data({**live, "text/plain": ""})
        self._publish(update=False)

    def touch(self) -> None:
        """Bring the page up to date once the state has not changed for a moment."""
        if self._kept is None:
            return
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = Timer(_PAUSE, self._update_quietly)
            self._timer.daemon = True
            self._timer.start()

    def update(self) -> None:
        """Bring the page up to date now, if it is shown."""
        if self._kept is not None:
            self._publish(update=True)

    def _update_quietly(self) -> None:
        with suppress(Exception):  # the state may be changing: the next change brings the page up to date
            self.update()

    def close(self) -> None:
        """Forget a change that waits."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()

    def _publish(self, *, update: bool) -> None:
        from IPython.display import publish_display_data  # noqa: PLC0415 - as above

        html = self.html()
        if update and html == self._kept:
            return
        self._kept = html
        data = {"text/html": html, "text/plain": "a view for notebooks"}
        publish_display_data(data, transient={"display_id": self.key}, update=update)
