"""The front ends of widgets: scripts kept in several files, joined into the one module that a page loads."""

from __future__ import annotations

from pathlib import Path

_WIDGETS = Path(__file__).parents[1]


def joined(*names: str) -> str:
    """Return files of the widgets as one text, in the order given.

    A widget's script is loaded from a text, so it cannot import files beside it: those that are joined share
    one scope, and the last one exports ``render``.

    Parameters
    ----------
    *names : str
        Names of files, such as ``compare/compare.js``.
    """
    return "\n".join((_WIDGETS / name).read_text(encoding="utf-8") for name in names)
