"""What a model looked at in an item, as weights on parts of its text."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.items.schema import Item, Span
from workbench.items.tokens import tokens
from workbench.storage.errors import DataError

ALL = "all"
"""Name of a row that says how the others come together; without it that is their mean."""


class Attention(NamedTuple):
    """What a model looked at in one item.

    Attributes
    ----------
    item_id, model : str
    rows : tuple of str (K,)
        What each row of weights is of: ``hop 1``, ``layer 2, head 3``, or `ALL`.
    spans : tuple of (int, int) (S,)
        Characters in ``item.text``, end excluded. They may overlap, as windows do.
    weights : float array (K, S)
        0 or more; a row sums to at most 1.
    query : (int, int) or None
        The part of the text that asked, such as the window around the blank.
    prediction : str
        The word that the model chose.
    """

    item_id: str
    model: str
    rows: tuple[str, ...]
    spans: tuple[Span, ...]
    weights: npt.NDArray[np.float64]
    query: Span | None
    prediction: str

    def of(self, row: str = "") -> npt.NDArray[np.float64]:
        """Return the weights (S,) of one row, or the mean of a group of rows.

        Parameters
        ----------
        row : str
            A row; the part of its name before the comma, as ``layer 2``, for the mean of the rows that
            begin so; by default all rows, by the row `ALL` or else by their mean.

        Raises
        ------
        DataError
            If there is no such row.
        """
        name = row or ALL
        if name in self.rows:
            return np.asarray(self.weights[self.rows.index(name)], dtype=np.float64)
        members = [place for place, each in enumerate(self.rows) if not row or each.startswith(f"{row}, ")]
        if not members and row:
            raise DataError(
                f"{self.model} has no row {row!r:.80} of attention", remedy=f"choose {self.rows[0]!r}"
            )
        if not members:
            return np.zeros(len(self.spans))
        return np.asarray(self.weights[members].mean(axis=0), dtype=np.float64)

    def by_token(self, item: Item, *, window: int = 0) -> list[float]:
        """Return one weight a token of the item, of all rows together.

        Each part's weight is spread evenly over the tokens that it touches. Where parts are windows of so
        many tokens, cut off at the ends of the text, the token in the centre has all of it.
        """
        spans = tokens(item).spans
        starts, ends = [start for start, _ in spans], [end for _, end in spans]
        sums = np.zeros(len(spans))
        for (start, end), weight in zip(self.spans, self.of(), strict=True):
            first, last = bisect_right(ends, start), bisect_left(starts, end)
            if window:
                first = first + window // 2 if first else max(0, last - 1 - window // 2)
                last = first + 1
            sums[first:last] += weight / max(1, last - first)
        return [float(value) for value in sums]

    def predicted(self, item: Item) -> list[Span]:
        """Return where the prediction stands in the text, outside of the blank; case is ignored."""
        cut, word = tokens(item), self.prediction.casefold()
        places = [place for place in range(len(cut.words)) if not cut.target <= place < cut.end]
        same = [cut.spans[place] for place in places if cut.words[place].casefold() == word]
        return [(start, end) for start, end in same if start < end]
