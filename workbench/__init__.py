"""A workbench for word prediction that needs broad discourse context.

``import workbench as wb`` gives the names below; each is imported when it is first used,
so that importing the package stays quick.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench import charts, models, runs
    from workbench.analysis.annotations import annotate
    from workbench.analysis.contrast import contrast
    from workbench.analysis.statistics import statistics
    from workbench.charts.targets import figure_2
    from workbench.charts.theme import save
    from workbench.datasets import available, load
    from workbench.datasets.books import Book, books
    from workbench.datasets.fetch import fetch
    from workbench.datasets.materials import materials
    from workbench.evaluation.contamination import contamination
    from workbench.evaluation.hardest import hardest
    from workbench.evaluation.interchange.export import export_results
    from workbench.evaluation.interchange.import_results import import_results
    from workbench.evaluation.leaderboard import leaderboard
    from workbench.evaluation.metrics import evaluate
    from workbench.evaluation.paper.tables import table
    from workbench.evaluation.significance import significance
    from workbench.items.items import DataError, Item, Items, items_from_frame, items_from_text
    from workbench.items.notes import notes
    from workbench.models.offload import free
    from workbench.runs.store import predict
    from workbench.widgets.ask.ask import ask
    from workbench.widgets.browser.browser import browse
    from workbench.widgets.compare.compare import compare
    from workbench.widgets.explore.explore import explore

_HOME = {
    "Book": "workbench.datasets.books",
    "DataError": "workbench.items.items",
    "Item": "workbench.items.items",
    "Items": "workbench.items.items",
    "annotate": "workbench.analysis.annotations",
    "ask": "workbench.widgets.ask.ask",
    "available": "workbench.datasets",
    "books": "workbench.datasets.books",
    "browse": "workbench.widgets.browser.browser",
    "charts": "workbench",
    "compare": "workbench.widgets.compare.compare",
    "contamination": "workbench.evaluation.contamination",
    "contrast": "workbench.analysis.contrast",
    "evaluate": "workbench.evaluation.metrics",
    "explore": "workbench.widgets.explore.explore",
    "export_results": "workbench.evaluation.interchange.export",
    "fetch": "workbench.datasets.fetch",
    "figure_2": "workbench.charts.targets",
    "free": "workbench.models.offload",
    "hardest": "workbench.evaluation.hardest",
    "import_results": "workbench.evaluation.interchange.import_results",
    "items_from_frame": "workbench.items.items",
    "items_from_text": "workbench.items.items",
    "leaderboard": "workbench.evaluation.leaderboard",
    "load": "workbench.datasets",
    "materials": "workbench.datasets.materials",
    "models": "workbench",
    "notes": "workbench.items.notes",
    "predict": "workbench.runs.store",
    "runs": "workbench",
    "save": "workbench.charts.theme",
    "significance": "workbench.evaluation.significance",
    "statistics": "workbench.analysis.statistics",
    "table": "workbench.evaluation.paper.tables",
}

__all__ = [
    "Book",
    "DataError",
    "Item",
    "Items",
    "annotate",
    "ask",
    "available",
    "books",
    "browse",
    "charts",
    "compare",
    "contamination",
    "contrast",
    "evaluate",
    "explore",
    "export_results",
    "fetch",
    "figure_2",
    "free",
    "hardest",
    "import_results",
    "items_from_frame",
    "items_from_text",
    "leaderboard",
    "load",
    "materials",
    "models",
    "notes",
    "predict",
    "runs",
    "save",
    "significance",
    "statistics",
    "table",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    home = _HOME[name]
    value = import_module(f"{home}.{name}") if home == __name__ else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Offer the public names to completion."""
    return sorted(__all__)


def _training_html(training: Any) -> str:
    """Return a training as HTML, with its curves where Altair is installed."""
    try:
        from workbench.charts.training import training_html  # noqa: PLC0415 - slow
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
