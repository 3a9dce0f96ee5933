"""A back-off model as an ARPA file, from which KenLM makes its own form."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from workbench.models.ngram.backoff import SPECIAL, BackOff
from workbench.storage.files import atomic_path
from workbench.storage.progress import progress_bar

_ROWS = 1 << 20  # n-grams that are written at a time


def save_arpa(model: BackOff, path: Path, *, progress: bool = True) -> None:
    """Write a back-off model in the ARPA format, whole or not at all; each number reads as the same float."""
    words = pa.array([*model.words, *SPECIAL], pa.string())
    sizes = [len(level["logp"]) for level in model.levels]
    with (
        atomic_path(path) as target,
        target.open("wb") as file,
        progress_bar(sum(sizes), label="ARPA", unit="n-grams", shown=progress) as bar,
    ):
        counts = (f"ngram {n}={size}\n" for n, size in enumerate(sizes, start=1))
        file.write("\\data\\\n{}".format("".join(counts)).encode())
        for n, level in enumerate(model.levels, start=1):
            file.write(b"\n\\%d-grams:\n" % n)
            for first in range(0, sizes[n - 1], _ROWS):
                rows = slice(first, min(first + _ROWS, sizes[n - 1]))
                weights = np.asarray(level["backoff"][rows]) if "backoff" in level else None
                grams = model.grams(n, np.arange(rows.start, rows.stop))
                _write_grams(file, words, grams, np.asarray(level["logp"][rows]), weights)
                bar.update(rows.stop - rows.start)
        file.write(b"\n\\end\\\n")


def _write_grams(
    file: BinaryIO, words: pa.Array, grams: Any, log10: npt.NDArray[np.float32], backoff: Any | None
) -> None:
    """Write lines of a section of an ARPA file: n-grams as ids (n, order), log-probabilities and weights."""
    parts: list[Any] = [pa.array(log10).cast(pa.string()), pa.scalar("\t")]
    for column in range(grams.shape[1]):
        parts += [words.take(pa.array(grams[:, column])), pa.scalar(" ")]
    weights = [] if backoff is None else [pa.scalar("\t"), pa.array(backoff).cast(pa.string())]
    text = pc.binary_join_element_wise(*parts[:-1], *weights, pa.scalar("\n"), "")
    _, offsets, data = text.buffers()
    ends = np.frombuffer(offsets, np.int32)[text.offset : text.offset + len(text) + 1]
    file.write(memoryview(data)[ends[0] : ends[-1]])
