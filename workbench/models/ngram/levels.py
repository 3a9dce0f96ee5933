"""The arrays of a back-off model written to disk, each order sorted; `backoff` computes with them.

An n-gram of order j is a row of ``key.j``: the place of its first j - 1 words in the order below, and
its last word. Rows are sorted, so the words that follow a context lie side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from workbench.models.ngram.backoff import MANIFEST, BackOff
from workbench.storage.files import write_atomic

LOW = np.uint64(2**32 - 1)
_SHIFT = np.uint64(32)
_ROWS = 1 << 20  # n-grams that are sorted at a time

Keys = npt.NDArray[np.uint64]
Singles = npt.NDArray[np.float32]


def blocks_of(key: Keys) -> Iterator[slice]:
    """Cut sorted keys in parts of about a million, between two contexts; one part at least."""
    stop = 0
    while True:
        start, stop = stop, min(stop + _ROWS, len(key))
        if stop < len(key):
            stop = int(np.searchsorted(key, key[stop - 1] | LOW, "right"))
        yield slice(start, stop)
        if stop == len(key):
            return


def level_arrays(
    key: Keys, logp: Singles, lower: Singles, backoff: Singles | None, n_words: int
) -> dict[str, Any]:
    """Return the arrays of n-grams of one order, with all that counting needs.

    Parameters
    ----------
    key : array (n,)
        Sorted; the place of the context in the order below, and the last word.
    logp, lower, backoff : array (n,)
        Log-probability after the context, and after the shorter one; back-off weight, None for the
        highest order, whose n-grams are no contexts.
    n_words : int
        Words with this id and higher ones are not ranked.
    """
    special = (key & LOW) >= n_words
    ranked, lower = (np.where(special, np.float32(-np.inf), values) for values in (logp, lower))
    context = key & ~LOW
    repeated = context[1:] == context[:-1]
    several = np.zeros(len(key), dtype=bool)  # all others are alone after their context
    several[1:] = repeated
    several[:-1] |= repeated
    rows = np.flatnonzero(several)
    word = (key & LOW).astype(np.uint32)
    turn = np.arange(len(key))
    turn[rows] = rows[_falling(context[rows], ranked[rows])]
    lower[rows] = _single(np.sort(context[rows] | _bits(lower[rows])))
    arrays = {"key": key, "logp": logp, "top": ranked[turn], "word": word[turn], "below": lower}
    return arrays if backoff is None else arrays | {"backoff": backoff}


def _bits(values: Singles) -> Keys:
    """Return numbers of 32 bits that rise as the values fall."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return np.where(bits >> 31, bits, ~bits & np.uint32(2**31 - 1)).astype(np.uint64)


def _single(bits: Keys) -> Singles:
    """Return the values of the lower 32 bits."""
    low = (bits & LOW).astype(np.uint32)
    return np.where(low >> 31, low, ~low & np.uint32(2**31 - 1)).view(np.float32)


def _falling(context: Keys, values: Singles) -> npt.NDArray[np.int64]:
    """Return the order by context, then by falling value, then as they are; fast sorts of numbers alone."""
    place = np.arange(len(values), dtype=np.uint64)
    by_value = (np.sort((_bits(values) << _SHIFT) | place) & LOW).astype(np.int64)
    both = np.sort(context[by_value] | place) & LOW
    return np.asarray(by_value[both])


def write_level(folder: Path, order: int, size: int, blocks: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Write the arrays of an order of `size` n-grams, which come in blocks; return the bytes of each."""
    with ExitStack() as stack:
        files: dict[str, BinaryIO] = {}
        sizes: dict[str, int] = {}
        for block in blocks:
            for kind, array in block.items():
                name = f"{kind}.{order}"
                if name not in files:
                    files[name] = stack.enter_context((folder / f"{name}.npy").open("wb"))
                    header = {"descr": array.dtype.str, "fortran_order": False, "shape": (size,)}
                    np.lib.format.write_array_header_1_0(files[name], header)
                    sizes[name] = size * array.itemsize
                files[name].write(np.ascontiguousarray(array).data)
    return sizes


def finish_levels(
    folder: Path, words: Sequence[str], counts: Sequence[int], sizes: Mapping[str, int]
) -> BackOff:
    """Write the manifest of the arrays in a folder, the last file; return the model."""
    manifest = {"format": 1, "words": list(words), "counts": list(counts), "bytes": dict(sizes)}
    write_atomic(folder / MANIFEST, json.dumps(manifest))
    return BackOff.open(folder)
