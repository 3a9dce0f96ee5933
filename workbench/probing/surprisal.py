"""Surprisal of every word of a passage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from workbench.items.changes import word_spans
from workbench.items.items import Items, check_items
from workbench.models.base import Predictor
from workbench.predictions.schema import check_model
from workbench.probing import check_probable
from workbench.storage.errors import check_value

SURPRISAL_COLUMNS = ("item_id", "position", "start", "end", "word", "surprisal", "word_end")
_VALUES = ["surprisal", "word_end"]
_TOP = ["top_words", "top_log_probs"]
_ITEMS = 256  # asked at a time


def surprisal(
    model: Predictor, items: Items, *, against: Predictor | None = None, top_k: int = 0
) -> pd.DataFrame:
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
    against : Predictor, optional
        Another model, whose surprisal is subtracted.
    top_k : int, default 0
        Number of best words in the place of each word. Those of a causal model come from the same pass: words
        of letters that are one sub-token with a space before it, by its probability after a word that is
        over, the word's own end not counted. A longer word is never among them. The first word of a passage,
        and one that is joined to the word before it, have none. Other models rank their vocabulary.

    Returns
    -------
    DataFrame
        One row per word: ``item_id``; ``position`` of the word, from 0; ``start`` and ``end`` in the text;
        ``word``; ``surprisal`` and ``word_end``, part of it, in bits. NaN where the model has no
        log-probability: an unknown word of some models, a word that has no sub-token of its own (its bits are
        counted with the word before), the first word where a tokenizer has no mark of the beginning. With
        `top_k`, ``top_words`` and ``top_log_probs`` (natural logarithms). With `against`, these columns of
        the other model, called ``surprisal_against`` and so on, and ``difference``, the surprisal less the
        other model's: above 0 where the other one finds the word more probable; ``attrs["models"]`` has the
        names of both.

    Raises
    ------
    DataError
        If a model has scores that are not log-probabilities, a prompt, or no vocabulary where best words are
        wanted, or there are no items.

    References
    ----------
    Pimentel and Meister 2024, "How to Compute the Probability of a Word".

    Examples
    --------
    >>> words = wb.surprisal(ngram, items[:2])
    >>> bool((words["surprisal"] >= 0).all()), words["item_id"].nunique()
    (True, 2)
    """
    check_model(model, "surprisal")
    check_items(items, "surprisal")
    check_value("top_k", top_k, top_k >= 0, "a number of words, 0 or more")
    frame = _surprisal(model, items, top_k)
    if against is not None:
        other = _surprisal(against, items, top_k)[[*_VALUES, *_TOP][: None if top_k else len(_VALUES)]]
        frame = frame.join(other.add_suffix("_against"))
        frame["difference"] = frame["surprisal"] - frame["surprisal_against"]
        frame.attrs["models"] = [model.name, against.name]
    return frame


def _surprisal(model: Predictor, items: Items, top_k: int) -> pd.DataFrame:
    """Return the columns of one model."""
    check_probable(model, "which surprisal is made of")
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(items), _ITEMS):
        batch = items[start : start + _ITEMS]
        for item, values in zip(batch, model.passage_log_probs(batch, top_k=top_k), strict=True):
            bits = values.log_probs / -np.log(2) + 0.0  # no -0
            best = zip(values.top_words, values.top_log_probs, strict=True)
            words = zip(word_spans(item), bits.tolist(), best, strict=True)
            for position, (span, numbers, top) in enumerate(words):
                rows.append((item.item_id, position, *span, item.text[slice(*span)], *numbers, *top))
    frame = pd.DataFrame(rows, columns=[*SURPRISAL_COLUMNS, *_TOP])
    return frame if top_k else frame.drop(columns=_TOP)
