"""Surprisal of every word of a passage."""

from __future__ import annotations

import numpy as np
import pandas as pd

from workbench.items.changes import word_spans
from workbench.items.items import Items
from workbench.models.base import Predictor
from workbench.probing import check_probable

COLUMNS = ("item_id", "position", "start", "end", "word", "surprisal", "word_end")
_ITEMS = 256  # asked at a time


def surprisal(model: Predictor, items: Items) -> pd.DataFrame:
    """Return the surprisal in bits of every word of each passage, its answer in place.

    The surprisal of a word is -log2 p(word | all words before it in the passage). Words are what white space
    separates; the answer is a word by itself. A word of an n-gram or neural model that is several tokens
    (``dog.``) has the sum of theirs.

    The words of a :class:`workbench.models.CausalLM` are made of sub-tokens. That a word is over is counted
    with it, and that the word before is over is given (Pimentel and Meister 2024, section 3). So the
    surprisals of a passage sum to the bits of all its sub-tokens and of the end of its last word. The bits of
    the end alone are a column, ``word_end``. With that of the word before added, surprisal is what
    ``model.log_prob`` says of the word (in bits, its sign changed); without that of the word itself too, it
    is the sum over the sub-tokens, which many programs call the surprisal of the word.

    A causal model computes all words in one pass over a passage. Other models are asked once a word, as if
    the passage ended there.

    Parameters
    ----------
    model : Predictor
        A model of log-probabilities.
    items : Items (n,)

    Returns
    -------
    DataFrame
        One row a word: ``item_id``; ``position`` of the word, from 0; ``start`` and ``end`` in ``item.text``;
        ``word``; ``surprisal`` and ``word_end``, part of it, in bits. NaN where the model has no
        log-probability: an unknown word of some models, a word that has no sub-token of its own (its bits are
        counted with the word before), the first word where a tokenizer has no mark of the beginning.

    Raises
    ------
    DataError
        If the model has scores that are not log-probabilities, a prompt, or there are no items.

    References
    ----------
    Pimentel and Meister 2024, "How to Compute the Probability of a Word".

    Examples
    --------
    >>> words = wb.surprisal(ngram, items[:2])
    >>> bool((words["surprisal"] >= 0).all()), words["item_id"].nunique()
    (True, 2)
    """
    check_probable(model, items, "which surprisal is made of")
    rows = []
    for start in range(0, len(items), _ITEMS):
        batch = items[start : start + _ITEMS]
        for item, values in zip(batch, model.passage_log_probs(batch), strict=True):
            bits = values / -np.log(2) + 0.0  # no -0
            for position, (word, numbers) in enumerate(zip(word_spans(item), bits.tolist(), strict=True)):
                rows.append((item.item_id, position, *word, item.text[slice(*word)], *numbers))
    return pd.DataFrame(rows, columns=list(COLUMNS))
