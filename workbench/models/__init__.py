"""Methods that predict the missing word: one package a family, each class imported when it is first used.

`base` has the base class, `prediction_rows` makes the predictions table of its scores, and `registry` has
the models by name. ``wb.models()`` lists them: the package can be called, as both have one name.
A new family is a package beside the others, a line in `registry` and one in ``__init__.pyi``.
Families do not import each other, and no model knows an analysis or a chart.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from workbench.render.results import Table

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


class _Models(ModuleType):
    """A package that can be called (Python data model, "Customizing module attribute access")."""

    def __call__(self) -> Table:
        """List the models; see :func:`workbench.models.registry.models`."""
        from workbench.models.registry import models  # noqa: PLC0415 - heavy

        return models()


sys.modules[__name__].__class__ = _Models
