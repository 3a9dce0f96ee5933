"""Data sets made from novels as LAMBADA, the Children's Book Test, sentence completion and CNN QA were made.

`read_shelf` checks and splits novels, `build` makes all sets of them with one `Manifest`. `lambada`,
`childrens_book`, `sentence_completion` and `cnn_qa` make one kind of items each, `CandidatePassages` has all
passages of LAMBADA's shape on disk. What people judge is in `workbench.people`.
"""

from __future__ import annotations

import warnings
from typing import Any

import lazy_loader

_import_name, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a public name when it is used."""
    if name == "Candidates":
        name = "CandidatePassages"
        warnings.warn("Candidates is called CandidatePassages; until 0.3", DeprecationWarning, stacklevel=2)
    return _import_name(name)
