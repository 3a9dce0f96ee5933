"""The word distance baseline: the query laid over each mention of a candidate in the context."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, Self

import numpy as np

from workbench.items.items import Items
from workbench.items.schema import DataError
from workbench.models.baselines.passage_baseline import PassageBaseline
from workbench.models.passage import Passage, is_word, occurrences, one_of, places_of
from workbench.runs.predictions import Floats


class WordDistance(PassageBaseline):
    """Choose the word one of whose mentions in the context stands among the words of the query.

    Hill et al. (2016), "The Goldilocks Principle", section 4.1, after Hermann et al. (2015): the query is
    laid over the context so that its blank lies on a mention of the candidate. Each of its other words
    costs the distance, in tokens, to the nearest equal word, at most `m`; the mention with the
    lowest sum counts. The score is that sum, negative; a word that the context does not mention
    has a score below all others.

    Parameters
    ----------
    m : int, default 5
        The most that one word costs; 5 is what the paper found best on CBT's validation questions.
    within : {"query", "context"}
        Where the nearest equal word is looked for: in the part of the context that the query lies on, as
        Hill et al. define it, or anywhere in the context, as Hermann et al. do.
    mention : bool, default True
        Whether the mention itself counts where it equals another word of the query, as by the formula of
        Hill et al.; it makes words of the query cheap candidates.
    punctuation : bool, default True
        Whether tokens of the query without letter or digit cost anything.
    query : bool, default False
        Whether the target sentence counts as context.
    lower : bool, default True
        Whether case does not count.
    """

    version = 1
    title = "Word distance"
    systems: ClassVar[dict[str, str]] = {"cbt": "WORD DISTANCE MODEL", "cnnqa": "WORD DISTANCE MODEL"}
    _defaults: ClassVar[dict[str, Any]] = {
        "within": "query", "mention": True, "punctuation": True, "query": False, "lower": True,
    }  # fmt: skip

    def __init__(
        self,
        m: int = 5,
        *,
        within: Literal["query", "context"] = "query",
        mention: bool = True,
        punctuation: bool = True,
        query: bool = False,
        lower: bool = True,
    ) -> None:
        if isinstance(m, bool) or int(m) != m or m < 1:
            raise DataError(f"m is {m!r}, expected a whole number from 1 on")
        one_of("within", within, ("query", "context"))
        self.m, self.within = int(m), within
        self.mention, self.punctuation = bool(mention), bool(punctuation)
        super().__init__(
            m=self.m, within=within, mention=self.mention, punctuation=self.punctuation, query=query,
            lower=lower,
        )  # fmt: skip

    @classmethod
    def tuned(cls, items: Items, values: Iterable[int] = range(1, 11), **options: Any) -> Self:
        """Return the model with the `m` that gives the best expected accuracy on items with answers.

        Of equally good values it is the first.
        """
        models = [cls(m, **options) for m in values]
        if not models or not items.frame["answer"].notna().any():
            raise DataError("there is nothing to tune by: it needs values of m, and items with answers")
        return max(models, key=lambda model: float(model.predict(items, top_k=1)["p_correct"].mean()))

    def _score(self, context: Sequence[str], passage: Passage, wanted: Sequence[tuple[str, ...]]) -> Floats:
        where = places_of(context)
        ids = {word: index for index, word in enumerate(where)}
        text = np.array([ids.get(word, -1) for word in context], dtype=np.int64)
        left, right = passage.left, passage.right
        asked = [ids.get(word, -2) for word in left + right]  # -1 and -2: nothing equals them
        counted = np.array([self.punctuation or is_word(word) for word in left + right], dtype=bool)
        scores = np.full(len(wanted), -self.m * int(counted.sum()) - 1.0)
        for size in {len(word) for word in wanted}:
            mentions = [
                (place, index)
                for index, word in enumerate(wanted)
                if len(word) == size
                for place in occurrences(context, word, where.get(word[0], ()))
            ]
            if mentions:
                place, index = np.array(mentions).T
                query = np.array([*asked[: len(left)], *[-2] * size, *asked[len(left) :]], dtype=np.int64)
                blank = slice(len(left), len(left) + size)
                cost = self._costs(text, query, place - len(left), blank)
                counted_cost = np.delete(cost, blank, axis=1)[:, counted]
                np.maximum.at(scores, index, -counted_cost.sum(axis=1).astype(float))
        return scores

    def _costs(self, text: Any, query: Any, starts: Any, blank: slice) -> Any:
        """Return what each word of the query costs, laid on the text from each start on.

        Shape (starts, query); up to `m`.
        """
        length, reach = len(query), min(self.m, len(text) + len(query)) - 1
        margin = length + reach  # the query may hang over both ends
        padded = np.pad(text, margin, constant_values=-1)
        around = padded[starts[:, None] + margin + np.arange(-reach, length + reach)]
        if self.within == "query":
            around[:, :reach] = around[:, reach + length :] = -1
        if not self.mention:
            around[:, reach + blank.start : reach + blank.stop] = -1
        cost = np.full((len(starts), length), self.m)
        for far in range(reach, -1, -1):
            before = around[:, reach - far : reach - far + length] == query
            after = around[:, reach + far : reach + far + length] == query
            cost[before | after] = far
        return cost
