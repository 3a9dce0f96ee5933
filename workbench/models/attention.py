"""What a model looked at in an item, as weights on parts of its text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from workbench.items.schema import Span


class Attention(NamedTuple):
    """What a model looked at in one item.

    Attributes
    ----------
    item_id, model : str
    rows : tuple of str (K,)
        What each row of weights is of: ``hop 1``, ``layer 2, head 3``.
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
