"""What all widgets share: their base class, and the files that stand beside them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import anywidget
import jinja2
import traitlets
from markupsafe import Markup

from workbench.widgets.shared.saved import SavedPage

_WIDGETS = Path(__file__).parents[1]


def read_assets(*names: str) -> str:
    """Return files of the widgets, such as ``"compare/compare.js"``, as one text in the order given.

    A widget's script is loaded from a text, so it cannot import files beside it: joined files share one
    scope, and the last one exports ``render``.
    """
    return "\n".join((_WIDGETS / name).read_text(encoding="utf-8") for name in names)


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_WIDGETS), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals["read_assets"] = lambda name: Markup(read_assets(name))  # noqa: S704 - our own style sheets
    return environment


def render(template: str, **values: Any) -> str:
    """Return a template of the widgets, such as ``"browser/static.html"``, filled; values are escaped."""
    return _templates().get_template(template).render(values)


class Widget(anywidget.AnyWidget):
    """A widget that answers messages of its page, and keeps a static page in the notebook.

    A message has a ``type``; the method ``_on_<type>`` answers it. It may name a ``lane``, in which the page
    sends one request at a time, and its sender (``from``): both come back with an error.
    """

    saved_key = traitlets.Unicode("").tag(sync=True)

    def __init__(self, **options: Any) -> None:
        self.saved = SavedPage(self._static)
        super().__init__(saved_key=self.saved.key, **options)
        self.on_msg(self._hear)
        self.observe(lambda _change: self.saved.touch())

    def send(self, content: Any, buffers: Any = None) -> None:
        """Send a message to the page; what it shows may have changed."""
        super().send(content, buffers)
        self.saved.touch()

    def keep_in(self, saved: SavedPage) -> None:
        """Let the page of another widget, which this one is a part of, stand for this one."""
        self.saved, self.saved_key = saved, saved.key

    def close(self) -> None:
        """Close the widget; the page in the notebook stays."""
        self.saved.close()
        super().close()

    def _hear(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        """Answer the page; whatever goes wrong is shown there."""
        try:
            self._answer(message)
        except Exception as error:  # noqa: BLE001 - the reader sees it, the kernel goes on
            lane, sender = message.get("lane"), message.get("from")
            self.send({"type": "error", "lane": lane, "from": sender, "message": str(error)})

    def _answer(self, message: Mapping[str, Any]) -> None:
        getattr(self, f"_on_{message['type']}")(message)

    def _static(self, most: int) -> str:
        """Return what a saved notebook keeps: HTML of at most so many passages, or words of a list."""
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        """Show the live view, and the static page beside it."""
        self.saved.show(super()._repr_mimebundle_()[0])
