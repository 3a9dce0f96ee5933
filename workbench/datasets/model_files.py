"""Refuse n-gram models of other programs, which would be read as novels."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from workbench.storage.errors import DataError, reading

_HEAD = 1 << 20  # bytes of a file that tell what it is; bzip2 unpacks blocks of this size
_UNPACKERS: tuple[Callable[[], Any], ...] = (
    partial(zlib.decompressobj, zlib.MAX_WBITS | 16), bz2.BZ2Decompressor, lzma.LZMADecompressor,
)  # fmt: skip
_LANGUAGE_MODEL = re.compile(
    rb"(?P<KenLM>mmap lm http://kheafield\.com)|(?P<SRILM>SRILM_BINARY_NGRAM)|(?P<IRSTLM>blmt )|"
    rb"(?P<ARPA>(?:[^\0]{0,1000}\n)?\\data\\\s+ngram +1 *=)"
)


def refuse_language_model(path: Path) -> None:
    """Raise DataError if a file is an n-gram model of another program: ARPA, packed or not, or binary."""
    with reading(path), path.open("rb") as file:
        data = file.read(_HEAD)
    for unpacker in _UNPACKERS:
        with suppress(OSError, zlib.error, lzma.LZMAError):
            data = unpacker().decompress(data, _HEAD)
            break
    if match := _LANGUAGE_MODEL.match(data):
        raise DataError(
            f"this is an n-gram model in {match.lastgroup} format, which is not read",
            file=path,
            remedy="fit one on the text that it was estimated from: NGram.fit(text, order=...)",
        )
