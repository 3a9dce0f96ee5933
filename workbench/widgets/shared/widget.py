"""Common code of the widgets: base class, templates, and the static page of a notebook.

JupyterLab shows an error for a widget whose model is gone, whatever else its output holds. So a widget is
shown as two outputs: the live view, and a static page, which is written when the view is shown, when a cell
ends, and some seconds after a change. While the live view is there, its script hides the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, wraps
from itertools import chain, count
from pathlib import Path
from threading import Lock, RLock, Timer
from typing import Any
from uuid import uuid4

import anywidget
import ipywidgets
import jinja2
import traitlets
from markupsafe import Markup, escape

from workbench.storage.errors import DataError

MAXIMUM = 50_000
"""Bytes that a notebook keeps of one widget, at most."""

_HEAD = """\
<!DOCTYPE html>
<html lang="en"><meta http-equiv="Content-Security-Policy" \
content="default-src 'none'; style-src 'unsafe-inline'"><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
"""

_INTERVAL = 5.0  # seconds between two updates of the page while no cell ends
_SIZES = (10, 3, 1, 0)
_PAGE = Markup("""\
<div class="wb-saved wb-saved-{key}" tabindex="0" role="region" aria-label="Saved view"><style>
.jp-OutputArea-child:not(:has(> .jp-OutputArea-output > *)):has(+ .jp-OutputArea-child .wb-saved) {{
display: none }}
.wb-saved {{ max-height: 800px; overflow: auto }}
.wb-saved-note {{ font: 12px/1.5 system-ui, sans-serif; opacity: .75; margin: 4px 16px }}
</style>{page}
<p class="wb-saved-note">Saved view. Run the cell in JupyterLab for the interactive one.</p></div>""")

_WIDGETS = Path(__file__).parents[1]
_COMMENT = re.compile(r"//.*|/\*((?!\*/).)*\*/")
_AROUND = re.compile(r"\s*([{};])\s*|(?<=[,:])\s+")  # of a style sheet


def read_assets(*names: str) -> str:
    """Return files of the widgets, such as ``"compare/compare.js"``, joined in the given order.

    A widget's script is loaded from a text, so it cannot import files beside it: joined files share one
    scope, and the last one exports ``render``. Each notebook keeps them, so indentation, empty lines and
    lines that are a comment are left out, and of styles the white space around braces and semicolons.
    """
    texts = ((_WIDGETS / name).read_text(encoding="utf-8") for name in names)
    lines = (line.strip() for text in texts for line in text.split("\n"))
    joined = "\n".join(line for line in lines if line and not _COMMENT.fullmatch(line))
    return _AROUND.sub(r"\1", joined) if names[-1].endswith(".css") else joined


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_WIDGETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["read_assets"] = lambda name: Markup(read_assets(name))  # noqa: S704 - our own style sheets
    environment.globals["zip"] = zip
    return environment


def render(template: str, **values: Any) -> str:
    """Render a template of the widgets, such as ``"publish/page.html"``; values are escaped."""
    return _templates().get_template(template).render(values)


def _publish(data: Mapping[str, Any], **options: Any) -> None:
    from IPython import display  # noqa: PLC0415 - where a widget is shown, it is there

    publish: Any = display.publish_display_data  # has no types
    publish(data, **options)


def whole_page(title: str, fragment: str) -> str:
    """Return a fragment as a page with a title, without scripts and external resources."""
    return f"{_HEAD.format(title=escape(title))}{fragment}</html>"


def free_name(name: str, taken: Collection[str]) -> str:
    """Return a name with a number if it is taken: ``LSTM``, then ``LSTM (2)``."""
    names = chain([name], (f"{name} ({number})" for number in count(2)))
    return next(each for each in names if each not in taken)


@dataclass(frozen=True)
class StaticView:
    """The static form of a widget: its numbers and its first rows, as text."""

    title: str
    numbers: Sequence[tuple[str, str]] = ()  # names and values
    columns: Sequence[str] = ()  # headings
    rows: Sequence[Sequence[str]] = ()
    hidden: Collection[str] = ()  # names and headings whose text opens on a click
    code: str = ""  # Python that shows the widget again

    def html(self) -> str:
        """Return escaped HTML without scripts."""
        return render("shared/static.html", view=self)


class SavedPage:
    """The static page of one widget.

    Parameters
    ----------
    render : callable
        Returns the page as HTML, from data that is escaped; its argument is the maximum number of rows.

    Attributes
    ----------
    key : str
        The page has the class ``wb-saved-<key>``.
    """

    def __init__(self, render: Callable[[int], str]) -> None:
        self.key = uuid4().hex[:12]
        self.render = render
        self._lock = Lock()
        self._displayed: str | None = None  # what the notebook has; None before the widget is shown
        self._timer: Timer | None = None  # of the scheduled update

    def html(self) -> str:
        """Return the page within the size limit `MAXIMUM`."""
        for limit in _SIZES:
            html = _PAGE.format(key=self.key, page=Markup(self.render(limit)))  # noqa: S704 - escaped by the widget
            if len(html.encode()) <= MAXIMUM:
                return str(html)
        return str(_PAGE.format(key=self.key, page=f"This view takes more than {MAXIMUM // 1000} KB."))

    def show(self, live: Mapping[str, Any]) -> None:
        """Display a live view, and the static page as a second output."""
        _publish({**live, "text/plain": ""})
        self._publish(update=False)

    def schedule_update(self) -> None:
        """Schedule an update of the page in some seconds, unless one is scheduled."""
        with self._lock:
            if self._displayed is not None and self._timer is None:
                self._timer = Timer(_INTERVAL, self._update_quietly)
                self._timer.daemon = True
                self._timer.start()

    def update(self) -> None:
        """Update the page now, if it is shown."""
        self.close()
        if self._displayed is not None:
            self._publish(update=True)

    def update_if_scheduled(self) -> None:
        """Update the page now if an update is scheduled."""
        if self._timer is not None:
            self.update()

    def _update_quietly(self) -> None:
        with suppress(Exception):  # the state may be changing: the next change brings the page up to date
            self.update()

    def close(self) -> None:
        """Cancel a scheduled update."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    def _publish(self, *, update: bool) -> None:
        html = self.html()
        if update and html == self._displayed:
            return
        self._displayed = html
        data = {"text/html": html, "text/plain": "a view for notebooks"}
        _publish(data, transient={"display_id": self.key}, update=update)


class RefusedValueError(DataError, traitlets.TraitError):
    """A value that an attribute of a widget cannot take.

    Where a page sets several at once, traitlets takes back all of them for a TraitError alone.
    """


def closed_on_error(constructor: Callable[..., None]) -> Callable[..., None]:
    """Close a widget whose constructor raises; ipywidgets would keep a reference."""

    @wraps(constructor)
    def construct(widget: ipywidgets.Widget, *arguments: Any, **options: Any) -> None:
        try:
            constructor(widget, *arguments, **options)
        except BaseException:
            widget.close()
            raise

    return construct


class Widget(anywidget.AnyWidget):
    """A widget that answers messages of its page, and keeps a static page in the notebook.

    A message has a ``type``; the method ``_on_<type>`` answers it. It may name its ``request``, of which
    the page sends one at a time, and its sender (``from``): both come back with an error.
    """

    saved_key = traitlets.Unicode("").tag(sync=True)

    def __init_subclass__(cls, **options: Any) -> None:
        """Put the shared colours before the style of a widget."""
        if isinstance(style := cls.__dict__.get("_css"), str):  # anywidget's own subclasses have a trait
            cls._css = read_assets("shared/theme.css") + style
        super().__init_subclass__(**options)

    def __init__(self, **options: Any) -> None:
        self.saved = SavedPage(lambda limit: self._static(limit).html())
        self._events: Any = None  # those of IPython in a kernel, once the widget is shown
        self._has_page = False  # whether a page has sent a message
        self._lock = RLock()  # messages are heard in two threads, annotations arrive in one of their own
        super().__init__(saved_key=self.saved.key, **options)
        self.on_msg(self._handle_message)
        self.observe(lambda _change: self.saved.schedule_update())

    def send(self, content: Any, buffers: Any = None) -> None:
        """Send a message to the page, and schedule an update of the static page."""
        super().send(content, buffers)
        self.saved.schedule_update()

    def to_html(self, *, limit: int = 200) -> str:
        """Return a self-contained page without scripts: the numbers, and the first `limit` rows."""
        view = self._static(limit)
        return whole_page(view.title, view.html())

    def close(self) -> None:
        """Close the widget; the static page in the notebook stays."""
        self.saved.close()
        if self._events is not None:
            self._events.unregister("post_run_cell", self._after_cell)
            self._events = None
        super().close()
        if isinstance(self.layout, ipywidgets.Layout):  # a widget of its own, which the kernel would keep
            self.layout.close()

    def _handle_message(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        """Answer any message of the page; errors and interrupts are shown there."""
        self._has_page = True
        try:
            with self._lock:  # an older view must not come last
                self._answer({"request": None, "from": "", **message})
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the reader sees it, the kernel goes on
            text = "the kernel was interrupted" if isinstance(error, KeyboardInterrupt) else str(error)
            names = {name: message.get(name) for name in ("request", "from")}
            self.send({"type": "error", **names, "message": text})

    def _answer(self, message: Mapping[str, Any]) -> None:
        getattr(self, f"_on_{message['type']}")(message)

    def _static(self, limit: int) -> StaticView:
        """Return the static form with at most `limit` rows."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        """Show the live view, and the static page beside it."""
        from IPython import get_ipython  # noqa: PLC0415 - where a widget is shown, it is there

        bundle = super()._repr_mimebundle_()
        self.saved.show(bundle[0] if bundle else {})
        shell = get_ipython()
        if hasattr(shell, "kernel"):
            self._events = shell.events
            self._events.register("post_run_cell", self._after_cell)

    def _after_cell(self, result: Any) -> None:
        """Update the static page when a cell ends; where no front end is connected, finish it first.

        ``nbconvert --execute``, papermill and others end the kernel after the last cell, and keep what the
        cells have printed by then. They send cells without an id, and no page of theirs sends a message.
        """
        if result.info.cell_id is None and not self._has_page:
            self._finish()
        self.saved.update_if_scheduled()

    def _finish(self) -> None:
        """Finish what is computed in the background for the page; nothing by default."""
