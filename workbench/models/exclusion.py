"""A model that leaves out the candidates that occur in the query (Hill et al. 2016, section 5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.items import text as wt
from workbench.items.items import Item, Items
from workbench.models.base import Predictor
from workbench.models.item_words import ReadContext
from workbench.models.wrapper import Wrapper
from workbench.predictions.schema import Floats, check_model

_SYSTEMS = {  # as the tables spell them
    "MEMNNS (WINDOW MEMORY + SELF-SUP. + ENSEMBLE)":
        "MEMNNS (WINDOW + SELF-SUP. + ENSEMBLE + EXCLUD. COOCCURRENCES)",
    "MEMNNS (WINDOW MEMORY + SELF-SUP.)": "MEMNNS (WINDOW MEMORY + SELF-SUP. + EXCLUD. COOCURRENCES)",
}  # fmt: skip


class ExcludeCooccurring(Wrapper):
    """A model without the candidates that occur in the query beside the blank.

    In CNN QA an entity that the question names is rarely the one that it asks for. Words that occur in the
    query rank below all others, and keep their order among themselves: they are chosen only where all
    words occur there. An answer that occurs in the query is treated alike, and so counts as wrong; it is why
    this is a model and no change of the items, whose candidates must hold the answer. Words are compared
    without regard to case; a candidate of several tokens must occur as a whole.

    Parameters
    ----------
    base : Predictor
        Any model; of a run, ``Ensemble([run])``.

    Raises
    ------
    DataError
        If `base` is not a model.

    Examples
    --------
    >>> from workbench.models import ExcludeCooccurring, MaximumFrequency
    >>> model = ExcludeCooccurring(MaximumFrequency("context"))
    >>> item = wb.items_from_text("Ann saw Ann . Ann and ___ ran .", answers="Bob")
    >>> model.score(item, [["Ann", "Bob"]]).argmax()
    np.int64(1)
    """

    version = 1
    score_type = "score"

    def __init__(self, base: Predictor) -> None:
        check_model(base, "ExcludeCooccurring")
        self.base = base
        self.name = f"{base.name}, words of the query excluded"
        systems = {task: _SYSTEMS.get(name, "") for task, name in base.systems.items() if task == "cnnqa"}
        self.systems = {task: name for task, name in systems.items() if name}  # type: ignore[misc]
        self.device = base.device

    @property
    def context(self) -> ReadContext:
        """The whole passage: the query on both sides of the blank."""
        return ReadContext("both")

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Return the model's scores, with excluded words lowered below all others of the item."""
        scores = np.asarray(self.base.score(items, words), dtype=float)
        finite = np.where(np.isfinite(scores), scores, np.nan)
        has_any = ~np.isnan(finite).all(axis=1)
        spans = np.zeros(len(scores))
        spans[has_any] = np.nanmax(finite[has_any], axis=1) - np.nanmin(finite[has_any], axis=1)
        excluded = np.zeros(scores.shape, dtype=bool)
        for number, (item, row) in enumerate(zip(items, words, strict=True)):
            sides = [_padded(_tokens(side, item)) for side in (item.left, item.right)]
            excluded[number, : len(row)] = [_occurs(_padded(_tokens(word, item)), sides) for word in row]
        return np.where(excluded, scores - spans[:, None] - 1, scores)


def _tokens(text: str, item: Item) -> list[str]:
    return (text.split() if item.tokenised else wt.tokenize(text)) if text.strip() else []


def _padded(tokens: Sequence[str]) -> str:
    """Return tokens as one text in which each has a space on both sides."""
    return f" {' '.join(tokens).casefold()} "


def _occurs(word: str, sides: Sequence[str]) -> bool:
    return bool(word.strip()) and any(word in side for side in sides)
