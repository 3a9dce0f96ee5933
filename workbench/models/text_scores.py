"""Log-probabilities of whole texts, given contexts: the result that each family of models returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from workbench.items.items import Items
from workbench.predictions.schema import Floats
from workbench.storage.errors import DataError

Beginning = Literal["BOS", "nothing"]
LongText = Literal["strided", "error"]

TEXT_SCORE_SCHEMA = pa.schema(
    [
        ("log_prob", pa.float64()), ("log_prob_uncorrected", pa.float64()), ("n_subtokens", pa.int64()),
        ("beginning", pa.string()), ("stride", pa.int64()), ("measure", pa.string()),
    ]
)  # fmt: skip


class TextScores(NamedTuple):
    """Scores of n texts, by :meth:`workbench.models.base.Predictor.text_scores`.

    Attributes
    ----------
    log_prob : array (n,)
        Natural log-probability of each text, the end of its last word included.
    log_prob_uncorrected : array (n,)
        The sum over the sub-tokens alone; NaN for models of whole words.
    n_subtokens : sequence of int or None (n,)
        Number of sub-tokens that are summed; None for models of whole words.
    beginning : sequence of str (n,)
        What stands before the first of them: "context", "BOS" (a mark of the beginning), or "nothing".
    stride : sequence of int (n,)
        By how many sub-tokens the windows of a text advance that is longer than the model sees; 0 for others.
    measure : str
        "log_prob", or the pseudo-log-likelihood's name.
    """

    log_prob: Floats
    log_prob_uncorrected: Floats
    n_subtokens: Sequence[int | None]
    beginning: Sequence[str]
    stride: Sequence[int]
    measure: str = "log_prob"

    def to_table(self) -> pa.Table:
        """Return the scores as an Arrow table with the columns of `TEXT_SCORE_SCHEMA`."""
        columns = [*self[:-1], [self.measure] * len(self.log_prob)]
        return pa.table(
            [
                pa.array(list(column), field.type)
                for column, field in zip(columns, TEXT_SCORE_SCHEMA, strict=True)
            ],
            schema=TEXT_SCORE_SCHEMA,
        )


def scores_of_words(items: Items, log_prob: Floats, beginning: Sequence[str]) -> TextScores:
    """Return the scores by a model of whole words, which sees what it sees of the context."""
    n = len(items)
    return TextScores(log_prob, np.full(n, np.nan), [None] * n, beginning, [0] * n)


def check_beginning(model: str, beginning: Beginning | None, only: str) -> None:
    """Raise DataError if a text shall begin otherwise than the model has it."""
    if beginning not in {None, only}:
        problem = f"texts begin with {only} for {model}, not with {beginning}"
        raise DataError(problem, hint="leave out beginning=")


def given_and_text(items: Items) -> Iterator[tuple[str, str]]:
    """Yield the context of each text, with the space after it, and the text itself."""
    columns: Any = (items.frame[name] for name in ("text", "answer_span"))
    for text, (start, end) in zip(*columns, strict=True):
        yield text[:start], text[start:end]


def text_windows(
    n: int, length: int, *, first: int = 0, limit: int | None = None
) -> Iterator[tuple[int, range]]:
    """Yield the first position of each window over a text of `n` sub-tokens, and the positions asked in it.

    They are those from `first` on, at most `limit` at a time. A window holds `length` sub-tokens at most and
    advances by half of that, so that each position sees half a window at least, or all before it.
    """
    while first < n:
        stop = min(n, max(length, first + max(length // 2, 1)), first + (limit or n))
        yield max(0, stop - length), range(first, stop)
        first = stop
