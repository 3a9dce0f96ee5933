"""Unfolding: how many context sentences a word needs before it is guessed, of people and of models."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.base import Predictor
from workbench.people.reports import curve
from workbench.storage.errors import DataError


def with_context_sentences(items: Items, n: int) -> Items:
    """Return items with the last `n` sentences of their contexts only; shorter contexts stay whole.

    Parameters
    ----------
    items : Items
    n : int
        At least 0.

    Returns
    -------
    Items
        With the same ids and answers.

    Examples
    --------
    >>> from workbench import people
    >>> [len(item.context) for item in people.with_context_sentences(items[:3], 1)]
    [1, 1, 1]
    """
    if n < 0:
        raise DataError(f"expected a number of sentences of at least 0, got {n}")

    def cut(item: Item) -> Item:
        spans = item.sentences[-1 - n :]
        start = spans[0][0]
        if len(spans) == len(item.sentences):
            return item
        a, b = item.answer_span
        moved = tuple((first - start, last - start) for first, last in spans)
        return replace(item, text=item.text[start:], sentences=moved, answer_span=(a - start, b - start))

    return Items.from_records(map(cut, items), attrs=items.attrs)


def unfold(items: Items, model: Predictor, *, seed: int = 0) -> pd.DataFrame:
    """Return the share of items that a model predicts with at most so many context sentences.

    The model sees the target sentence alone, then one sentence of context more at a time until its best word
    is the answer, as people do in the protocol ``unfolding``; see :meth:`Campaign.unfolding`.

    Parameters
    ----------
    items : Items
        With answers.
    model : Predictor
        To limit what a model reads by words, pass ``model.with_context(n)``.
    seed : int, default 0
        Decides among equal scores.

    Returns
    -------
    DataFrame
        n_context_sentences, n, n_guessed, share, low, high (Wilson's 95 %).

    Examples
    --------
    >>> from workbench import people
    >>> people.unfold(items, ngram)["n"].unique().tolist()
    [30]
    """
    rest, needed = items, []
    most = max((len(item.context) for item in items), default=-1)
    for n in range(most + 1):
        rest = rest.where(np.array([len(item.context) >= n for item in rest], dtype=bool))
        if not len(rest):
            break
        right = model.predict(with_context_sentences(rest, n), top_k=1, seed=seed)["correct"]
        mask = right.fillna(value=False).to_numpy(dtype=bool)
        needed += [n] * int(mask.sum())
        rest = rest.where(~mask)
    return curve(np.array(needed, dtype=np.int64), len(items), most)
