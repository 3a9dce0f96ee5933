"""The versions of the workbench's models; a stored run of a lower version is listed as outdated.

A version is raised when results change, which the numbers in ``tests/golden`` show. Changes of the code that
change no result leave stored runs valid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

VERSIONS = {
    "workbench.models.lsa:LSA": 2,
    "workbench.models.ngram.model:CachedNGram": 2,
    "workbench.models.ngram.model:NGram": 2,
    "workbench.models.pretrained.causal:CausalLM": 2,
}
"""The `version` of each class of the workbench whose results have changed; all others have 1.

They are repeated here so that listing runs imports no model; a test compares them with the classes.
"""
_LONGEST = 5  # names in a warning


def is_outdated(info: Mapping[str, Any]) -> bool:
    """Return whether a run was made by a lower version of its model than this workbench has.

    `info` is its description. False also where that is not known: for a class that is not the
    workbench's, and for predictions that were made elsewhere.
    """
    name, version = info.get("class"), info.get("version")
    if not isinstance(name, str) or not name.startswith("workbench.") or not isinstance(version, int):
        return False
    return version < VERSIONS.get(name, 1)


def outdated_warning(names: Sequence[str]) -> str:
    """Return the warning that names outdated runs, the first five of them."""
    rest = f" and {len(names) - _LONGEST:,} more" if len(names) > _LONGEST else ""
    runs = ", ".join(names[:_LONGEST]) + rest
    return f"made by earlier versions of their models, whose results have changed; predict again: {runs}"
