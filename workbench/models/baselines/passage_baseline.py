"""What baselines share that look at an item's passage and nothing else."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

from workbench.items.items import Items
from workbench.models.base import Predictor, pad
from workbench.models.passage import Passage, distinct, parts, passages
from workbench.runs.predictions import Floats


class PassageBaseline(Predictor):
    """A model that gives each word a score by where it stands in the passage of the item.

    Items with candidates are chosen from these, the others from the different words of their passage
    (without case where it does not count).

    Parameters
    ----------
    query : bool
        Whether the target sentence belongs to the context (its blank is then a token that is none).
    lower : bool
        Whether case does not count.
    """

    title: ClassVar[str]
    _defaults: ClassVar[dict[str, Any]]

    def __init__(self, *, query: bool, lower: bool, **options: Any) -> None:
        self.query, self.lower = bool(query), bool(lower)
        self._options = {**options, "query": self.query, "lower": self.lower}
        changed = [f"{k} = {v}" for k, v in self._options.items() if v != self._defaults.get(k)]
        self.name = self.title + (f" ({', '.join(changed)})" if changed else "")

    @property
    def config(self) -> dict[str, Any]:
        """The arguments."""
        return dict(self._options)

    def choices(self, items: Items) -> list[list[str]]:
        """Return the different words of each passage."""
        return [
            distinct(passage.words, lower=self.lower, answer=item.answer)
            for item, passage in passages(items, lower=False)
        ]

    def score(self, items: Items, words: Sequence[Sequence[str]]) -> Floats:
        """Score words by the passages of the items; shape (n, most words)."""
        rows = []
        for (item, passage), row in zip(passages(items, lower=self.lower), words, strict=True):
            wanted = [parts(item, word, lower=self.lower) for word in row]
            context = (*passage.context, *passage.left, "", *passage.right) if self.query else passage.context
            rows.append(self._score(context, passage, wanted) if wanted else [])
        return pad(rows)

    @abstractmethod
    def _score(
        self, context: Sequence[str], passage: Passage, wanted: Sequence[tuple[str, ...]]
    ) -> Sequence[float] | Floats:
        """Score the words of one item, each given as its tokens."""
