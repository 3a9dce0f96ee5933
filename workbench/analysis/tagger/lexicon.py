"""What is known of a word form whatever its case: how it is used, and how often it is a name.

The table is counted in public-domain novels (``tools/tagger/lexicon_table.py`` makes it): for
each form the share of its capitalised uses within a sentence, its frequency, and a vector of the
words it stands beside. It carries into lower-cased text what capitals say in print.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

_MARKS = {
    "``": '"', "''": '"', "“": '"', "”": '"', "`": "'", "‘": "'", "’": "'",  # noqa: RUF001 - quote marks
    "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}",
}  # fmt: skip
SCALE = 32
"""Steps of a vector's int8 numbers to 1."""

UNKNOWN = 0
"""Row of a form that the table does not hold."""


def fold(form: str) -> str:
    """Return a form without its case; Treebank brackets, and quote marks of any kind, as plain ones."""
    low = form.lower()
    return _MARKS.get(low) or low.replace("’", "'")  # noqa: RUF001 - a typographic apostrophe is meant


@dataclass(frozen=True)
class Lexicon:
    """The table of forms.

    Attributes
    ----------
    words : tuple of str
        The forms, folded, the most frequent first; row ``i + 1`` is that of ``words[i]``.
    vectors : int8 array, shape (m + 1, width)
        Vectors of the first m words; row 0 is zero.
    names : uint8 array, shape (n + 1,)
        Capitalised share within sentences: 0 unknown, then 1 (never) to 11 (always).
    counts : uint8 array, shape (n + 1,)
        Frequency: 0 unknown, then the integer part of the binary logarithm of the count, plus 1.
    own : bool array, shape (n + 1,)
        Whether the form is met often enough to have an embedding of its own in the tagger.
    """

    words: tuple[str, ...]
    vectors: NDArray[np.int8]
    names: NDArray[np.uint8]
    counts: NDArray[np.uint8]
    own: NDArray[np.bool_]
    rows: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", {word: row for row, word in enumerate(self.words, start=1)})

    def row(self, folded: str) -> int:
        """Return the row of a folded form, `UNKNOWN` where it has none."""
        return self.rows.get(folded, UNKNOWN)

    def to_bytes(self) -> bytes:
        """Write the table as a compressed NumPy archive."""
        file = io.BytesIO()
        words = np.frombuffer("\n".join(self.words).encode(), dtype=np.uint8)
        np.savez_compressed(
            file, words=words, vectors=self.vectors, names=self.names, counts=self.counts, own=self.own
        )
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> Lexicon:
        """Read what `to_bytes` wrote."""
        with np.load(io.BytesIO(data), allow_pickle=False) as table:
            words = table["words"].tobytes().decode()
            arrays = (table[name] for name in ("vectors", "names", "counts", "own"))
            return cls(tuple(words.split("\n")) if words else (), *arrays)

    @classmethod
    def empty(cls, width: int) -> Lexicon:
        """Return a table that holds no word."""
        none = np.zeros(1, dtype=np.uint8)
        return cls((), np.zeros((1, width), dtype=np.int8), none, none, none.astype(bool))
