"""Predictions and runs: the predictions table, and the store of runs on disk.

`predictions` has the columns of the table and their checks, `store` keeps runs, finds them again and says
what they depend on. Stored runs stay readable: a new column is optional.
The package can be called, as ``wb.runs()`` and ``workbench.runs`` have one name: calling it lists the runs.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workbench.render.results import Table


class _Runs(ModuleType):
    """A package that can be called (Python data model, "Customizing module attribute access")."""

    def __call__(self) -> Table:
        """List the stored runs, newest first; see :func:`workbench.runs.store.runs`."""
        from workbench.runs.store import runs  # noqa: PLC0415 - heavy

        return runs()


sys.modules[__name__].__class__ = _Runs
