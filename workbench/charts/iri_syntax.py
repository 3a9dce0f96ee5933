"""Import jsonschema without its IRI grammar, which takes two thirds of the import time of Altair.

jsonschema, which Altair imports, compiles that grammar (package rfc3987-syntax, which JupyterLab installs)
when it is imported. Charts have no IRIs to check; here it is compiled when the first one is checked.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

_GRAMMAR = "rfc3987_syntax"


class _Deferred(ModuleType):
    """Stand-in for the part of rfc3987-syntax that jsonschema imports."""

    @staticmethod
    def is_valid_syntax(term: str, value: str) -> bool:
        """Return True if a value matches a term of the grammar, which is compiled at the first call."""
        return bool(import_module(_GRAMMAR).is_valid_syntax(term, value))


if not {_GRAMMAR, "jsonschema"} & sys.modules.keys() and find_spec(_GRAMMAR):
    sys.modules[_GRAMMAR] = _Deferred(_GRAMMAR)
    try:
        import_module("jsonschema")
    finally:
        del sys.modules[_GRAMMAR]
