"""Batches of a stream: the words that a network sees at each step.

A batch depends on the step alone. A run that stopped continues with the number of its last step, and several
processes take different rows of the same batch.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from workbench.storage.errors import DataError
from workbench.texts.stream import Ints, Stream

Batch = dict[str, Ints]


class Batches(Protocol):
    """Batches, as a training loop uses them."""

    rows: int  # of a batch, over all processes
    carried: bool  # whether each row continues where it stopped, so that a recurrent state is carried along
    steps: int  # of an epoch; later steps belong to the next epochs
    tokens: int  # words that are predicted in a step
    unit: str  # what is counted by `tokens`, in reports: "words" or "questions"

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return the arrays of a step, rows first: of all rows, or of a slice of them."""


class _FixedLength:
    """Batches of rows of a fixed length."""

    unit = "words"

    def __init__(self, stream: Stream, *, rows: int, length: int) -> None:
        if rows < 1 or length < 1 or stream.n_tokens < rows * length + 1:
            raise DataError(
                f"a text of {stream.n_tokens:,} words gives no {rows:,} rows of {length:,}",
                remedy=f"pass fewer rows, shorter ones, or more text: {rows * length + 1:,} words at least",
            )
        self.stream, self.rows, self.length = stream, rows, length
        self.tokens = rows * length

    def _read(self, firsts: Ints) -> Batch:
        """Return `length` + 1 ids from each place on."""
        return {"ids": self.stream.at(firsts[:, None] + np.arange(self.length + 1))}  # (rows, length + 1)


class ContiguousBatches(_FixedLength):
    """Contiguous batches for truncated back-propagation through time.

    The text is divided into as many parts as there are rows; each row reads its part from step to step. An
    epoch is the text once, except for less than ``rows * length`` words at its end. In the next epoch each
    row reads the part that follows, so only the row at the end of the text jumps to the beginning.

    Parameters
    ----------
    stream : Stream
    rows : int
    length : int
        Words that are predicted in each row of a step.

    Raises
    ------
    DataError
        If the text is too short for one step.
    """

    carried = True

    def __init__(self, stream: Stream, *, rows: int, length: int) -> None:
        super().__init__(stream, rows=rows, length=length)
        self.steps = (stream.n_tokens - 1) // self.tokens

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return extended ``ids``, int64 (rows, length + 1): the last of a row is the first a step later."""
        parts = np.arange(self.rows)[rows or slice(None)]
        pieces = (parts * self.steps + step) % (self.rows * self.steps)
        return self._read(pieces * self.length)


class Windows(_FixedLength):
    """Pieces of the text in random order, another one in each epoch.

    In an epoch no word is predicted twice, and all but fewer than ``(rows + 1) * length`` are predicted.
    The places where the text is divided are drawn anew for each epoch, too. Parameters and errors are those
    of `ContiguousBatches`, and `seed`.
    """

    carried = False

    def __init__(self, stream: Stream, *, rows: int, length: int, seed: int = 0) -> None:
        super().__init__(stream, rows=rows, length=length)
        self.seed = seed
        # as many as there are wherever the first window begins, or one
        self.steps = max(1, (stream.n_tokens - length) // self.tokens)

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        """Return extended ``ids``, int64 (rows, length + 1): consecutive words in each row."""
        epoch, step = divmod(step, self.steps)
        words = self.stream.n_tokens - 1
        offset, order = _shuffled(self.seed, epoch, words, self.length, words - self.steps * self.tokens)
        selected = order[step * self.rows : (step + 1) * self.rows][rows or slice(None)]
        return self._read(offset + selected.astype(np.int64) * self.length)


@lru_cache(maxsize=4)
def _shuffled(
    seed: int, epoch: int, words: int, length: int, slack: int
) -> tuple[int, npt.NDArray[np.uint32]]:
    """Return where an epoch's first window begins, and its windows in random order."""
    rng = np.random.default_rng([seed, epoch])
    offset = int(rng.integers(min(length, slack + 1)))
    order = rng.permutation(np.arange((words - offset) // length, dtype=np.uint32))
    order.flags.writeable = False  # it is shared
    return offset, order
