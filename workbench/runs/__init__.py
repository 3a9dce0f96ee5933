"""The predictions table, the store of runs, and what a run depends on (`fingerprint`).

The package can be called, as ``wb.runs()`` and ``workbench.runs`` have one name: calling it lists the runs.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


class _Runs(ModuleType):
    """A package that can be called (Python data model, "Customizing module attribute access")."""

    def __call__(self) -> pd.DataFrame:
        """List the stored runs, newest first; see :func:`workbench.runs.store.runs`."""
        from workbench.runs.store import runs  # noqa: PLC0415 - heavy

        return runs()


sys.modules[__name__].__class__ = _Runs
