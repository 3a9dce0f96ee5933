"""Models in the place of people: how many context sentences a model needs to guess the word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from workbench.items.ablation import last_sentences
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.people.matching import match
from workbench.people.reports import curve
from workbench.storage.errors import DataError


def model_unfolding(
    items: Items, model: Predictor, *, accept: Sequence[str] = ("exact", "case"), seed: int = 0
) -> pd.DataFrame:
    """Return the share of items that a model guesses with at most so many sentences of context.

    The model plays by the rules of the protocol ``unfolding``: it sees the target sentence, then one sentence
    of context more after each wrong guess. Its guess is its best word that was not wrong before.

    Parameters
    ----------
    items : Items
        With answers.
    model : Predictor
    accept : sequence of str
        Which matches are right (:data:`workbench.people.matching.MATCHES`).
    seed : int, default 0
        Decides among equal scores.

    Returns
    -------
    DataFrame
        As :meth:`workbench.people.Campaign.unfolding`: n_context_sentences, n, n_right, share, low, high.

    Examples
    --------
    >>> from workbench.people.unfolding import model_unfolding
    >>> shares = model_unfolding(items, ngram)
    >>> shares["n"].tolist() == [30] * len(shares)
    True
    """
    needed = sentences_needed(items, model, accept=accept, seed=seed)
    most = max(len(item.context) for item in items)
    return curve(needed[needed >= 0], len(items), most)


def sentences_needed(
    items: Items, model: Predictor, *, accept: Sequence[str] = ("exact", "case"), seed: int = 0
) -> npt.NDArray[np.int64]:
    """Return with how many context sentences a model guesses each item, (n,); -1 where it does not.

    Parameters are those of :func:`model_unfolding`.
    """
    if not len(items) or items.frame["answer"].isna().any():
        raise DataError("expected items with answers", remedy="pass at least one, and none without an answer")
    lengths = np.array([len(item.context) for item in items])
    needed = np.full(len(items), -1, dtype=np.int64)
    wrong: list[set[str]] = [set() for _ in range(len(items))]
    for n in range(int(lengths.max()) + 1):
        asked = (needed < 0) & (lengths >= n)
        if not asked.any():
            break
        shown = last_sentences(items.where(asked), n)
        predictions = model.predict(shown, top_k=n + 1, seed=seed)
        columns = (predictions[name].tolist() for name in ("prediction", "top_words", "answer"))
        for place, first, best, answer in zip(np.flatnonzero(asked), *columns, strict=True):
            # the prediction is drawn among equal scores, so it may stand behind them in the list
            words = [word for word in (first, *(best if isinstance(best, list) else ())) if word]
            guess = next((word for word in words if word.casefold() not in wrong[place]), "")
            wrong[place].add(guess.casefold())
            if match(guess, answer) in accept:
                needed[place] = n
    return needed
