"""A workbench for word prediction that needs broad discourse context.

``import workbench as wb`` gives the names below; each is imported when it is first used,
so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench import charts
    from workbench.analysis.annotations import annotate
    from workbench.analysis.contrast import contrast
    from workbench.analysis.statistics import statistics
    from workbench.charts.figure import figure_2
    from workbench.charts.save import save
    from workbench.datasets import available, load
    from workbench.datasets.books import Book, books
    from workbench.datasets.registry import fetch
    from workbench.evaluation.contamination import contamination
    from workbench.evaluation.exported import export_results
    from workbench.evaluation.hardest import hardest
    from workbench.evaluation.imported import import_results
    from workbench.evaluation.leaderboard import leaderboard
    from workbench.evaluation.metrics import evaluate
    from workbench.evaluation.significance import significance
    from workbench.evaluation.tables import table
    from workbench.items import DataError, Item, Items
    from workbench.models.freeing import free
    from workbench.own import items_from_frame, items_from_text
    from workbench.remarks import notes
    from workbench.results import predict, runs
    from workbench.widgets.ask import ask
    from workbench.widgets.browser import browse
    from workbench.widgets.compare import compare
    from workbench.widgets.explore import explore

_HOME = {
    "Book": "workbench.datasets.books",
    "DataError": "workbench.items",
    "Item": "workbench.items",
    "Items": "workbench.items",
    "annotate": "workbench.analysis.annotations",
    "ask": "workbench.widgets.ask",
    "available": "workbench.datasets",
    "books": "workbench.datasets.books",
    "browse": "workbench.widgets.browser",
    "charts": "workbench",
    "compare": "workbench.widgets.compare",
    "contamination": "workbench.evaluation.contamination",
    "contrast": "workbench.analysis.contrast",
    "evaluate": "workbench.evaluation.metrics",
    "explore": "workbench.widgets.explore",
    "export_results": "workbench.evaluation.exported",
    "fetch": "workbench.datasets.registry",
    "figure_2": "workbench.charts.figure",
    "free": "workbench.models.freeing",
    "hardest": "workbench.evaluation.hardest",
    "import_results": "workbench.evaluation.imported",
    "items_from_frame": "workbench.own",
    "items_from_text": "workbench.own",
    "leaderboard": "workbench.evaluation.leaderboard",
    "load": "workbench.datasets",
    "notes": "workbench.remarks",
    "predict": "workbench.results",
    "runs": "workbench.results",
    "save": "workbench.charts.save",
    "significance": "workbench.evaluation.significance",
    "statistics": "workbench.analysis.statistics",
    "table": "workbench.evaluation.tables",
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
