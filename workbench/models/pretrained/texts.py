"""What a causal model is given of an item: the prompt, the text before the blank, and what is asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.pretrained.scoring import Wanted
from workbench.models.pretrained.subwords import Fed, fed


class Prompts(Protocol):
    """What stands before a passage (see :class:`workbench.models.pretrained.prompts.Prompt`)."""

    def prefix(self, item: Item) -> str:
        """Return it."""

    def told(self) -> str:
        """Return what a predictions table keeps of it, as JSON."""


@dataclass(frozen=True)
class Feeder:
    """Turns items into texts.

    Attributes
    ----------
    readable : bool
        Whether Treebank tokens are written as a book would.
    prompt : Prompts or None
    """

    readable: bool
    prompt: Any

    def parts(self, item: Item) -> Fed:
        """Return the text of an item around its answer, without a prompt."""
        return fed(item, readable=self.readable)

    def fed(self, item: Item, word: str | None = None) -> Fed:
        """Return the text of an item around a word, the prompt in front.

        What follows the blank is left out where the prompt has words between passage and answer.
        """
        own = fed(item, word, readable=self.readable)
        if self.prompt is None:
            return own
        if hasattr(self.prompt, "before"):
            before = self.prompt.before(item, own.before, parts=self.parts)
        else:
            before = self.prompt.prefix(item) + own.before
        return Fed(before, own.word, "" if getattr(self.prompt, "between", "") else own.after)

    def sentence(self, item: Item, word: str) -> Wanted:
        """Return a word with what follows it."""
        text = self.fed(item, word)
        return Wanted(text.before, text.word + text.after)

    def alone(self, items: Items) -> list[list[Wanted]]:
        """Return the answer of each item, without what follows it; nothing where there is none."""
        texts = [self.fed(item) for item in items]
        return [[Wanted(text.before, text.word)] if text.word else [] for text in texts]

    def closes(self, item: Item) -> bool:
        """Say whether a word at the blank of an item is the end of what is asked."""
        return not self.fed(item).after

    def offset(self, item: Item) -> int:
        """Return where the item's own text begins."""
        if self.prompt is None:
            return 0
        options = {"parts": self.parts} if hasattr(self.prompt, "before") else {}
        return len(self.prompt.prefix(item, **options))

    def told(self, items: Items) -> list[str | None]:
        """Return what is kept of the prompt of each item."""
        if self.prompt is None:
            return [None] * len(items)
        if getattr(self.prompt, "per_item", False):
            return [self.prompt.told(item) for item in items]
        return [self.prompt.told()] * len(items)
