"""A workbench for word prediction that needs broad discourse context.

``import workbench as wb`` gives the names listed in ``__init__.pyi``; each is imported when it is first used,
so that importing the package stays quick. A new public name is added there.
"""

from __future__ import annotations

import sys
from typing import Any

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"


def _training_html(training: Any) -> str:
    """Return a training as HTML, with its curves where Altair is installed."""
    try:
        from workbench.charts.models import training_html  # noqa: PLC0415 - slow
    except ImportError:
        return str(training.to_html())
    return training_html(training)


def _register_views() -> None:
    """Tell IPython, where it runs, how a notebook shows a training: models know nothing of charts."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is not None:
        formatter = shell.display_formatter.formatters["text/html"]
        formatter.for_type_by_name("workbench.training.history", "Training", _training_html)


_register_views()
