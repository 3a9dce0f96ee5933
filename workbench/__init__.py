"""A workbench for word prediction that needs broad discourse context.

``import workbench as wb`` gives the names below; each is imported when it is first used,
so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.datasets import available, load
    from workbench.datasets.books import Book, books
    from workbench.datasets.registry import fetch
    from workbench.items import DataError, Item, Items
    from workbench.own import items_from_frame, items_from_text
    from workbench.remarks import notes
    from workbench.widgets.browser import browse

_HOME = {
    "Book": "workbench.datasets.books",
    "DataError": "workbench.items",
    "Item": "workbench.items",
    "Items": "workbench.items",
    "available": "workbench.datasets",
    "books": "workbench.datasets.books",
    "browse": "workbench.widgets.browser",
    "fetch": "workbench.datasets.registry",
    "items_from_frame": "workbench.own",
    "items_from_text": "workbench.own",
    "load": "workbench.datasets",
    "notes": "workbench.remarks",
}

__all__ = [
    "Book",
    "DataError",
    "Item",
    "Items",
    "available",
    "books",
    "browse",
    "fetch",
    "items_from_frame",
    "items_from_text",
    "load",
    "notes",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Offer the public names to completion."""
    return sorted(__all__)
