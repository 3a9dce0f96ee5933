"""Refuse n-gram models of other programs, which would be read as novels."""

from __future__ import annotations

import re
from pathlib import Path

from workbench.storage.errors import DataError, reading

_HEAD = 1 << 12  # bytes of a file that tell what it is
_LANGUAGE_MODEL = re.compile(
    rb"mmap lm http://kheafield\.com|SRILM_BINARY_NGRAM|blmt |(?:[^\0]{0,1000}\n)?\\data\\\s+ngram +1 *="
)


def refuse_language_model(path: Path) -> None:
    """Raise DataError if a file is an n-gram model in ARPA format, or in that of KenLM, SRILM or IRSTLM."""
    with reading(path), path.open("rb") as file:
        head = file.read(_HEAD)
    if _LANGUAGE_MODEL.match(head):
        raise DataError(
            "this is an n-gram model of another program, which is not read",
            file=path,
            hint="fit one on the text that it was estimated from: NGram.fit(text, order=...)",
        )
