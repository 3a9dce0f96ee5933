"""Influence of the parts of a passage on the answer: each left out in turn."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from workbench.analysis.mentions import mentions
from workbench.items.changes import numbered, with_answer, without, word_spans
from workbench.items.items import Item, Items, Span
from workbench.models.base import Predictor
from workbench.models.passage import one_of
from workbench.probing import check_probable
from workbench.storage.errors import DataError

Part = Literal["sentence", "word", "mention"]

COLUMNS = ("item_id", "part", "start", "end", "text", "distance", "influence", "against", "contrast")
_ITEMS = 64  # asked at a time


def influence(
    model: Predictor,
    items: Items,
    by: Part = "sentence",
    against: str | pd.Series[Any] | None = None,
) -> pd.DataFrame:
    """Return how much each part of a passage before its blank changes the log-probability of the answer.

    Each part is left out in turn. The influence of a part is ln p(answer | whole passage) - ln p(answer |
    passage without the part): above 0 where the part speaks for the answer.

    Parameters
    ----------
    model : Predictor
        A model of log-probabilities.
    items : Items (n,)
        Items with answers.
    by : {"sentence", "word", "mention"}
        The parts: the sentences before the target sentence, the words before the blank (by white space), or
        the earlier mentions of the answer (:func:`workbench.analysis.mentions.mentions`).
    against : str or Series, optional
        Another word, for the influence on ln p(answer) - ln p(other word): why this word and not that one. A
        word for all items; ``"prediction"`` for each item's most probable word that is not the answer; or a
        Series of words by ``item_id``, without a contrast where it has none.

    Returns
    -------
    DataFrame
        One row a part, in the order of the text: ``item_id``; number of the ``part``, from 0; ``start`` and
        ``end`` in ``item.text``; ``text``; ``distance``, the number of words from the end of the part to the
        answer, 1 for the word before it; ``influence`` in nats; and with `against`, the other word (column
        ``against``) and ``contrast``, the influence on the difference, in nats.

    Raises
    ------
    DataError
        If the model has no log-probabilities, an item has no answer, or an argument is not valid.

    Notes
    -----
    A part of a few words leaves a text that nobody would write, which is unlikely for that reason too; a
    sentence that is left out leaves a text that reads well more often.

    Log-probabilities are those of `model.log_prob`: of the answer and the end of the word, whatever follows.
    The model is asked about a passage and all its changed forms together. A causal model (of a kind whose
    paths can share a row, such as GPT-2 and Llama) computes once what a form and the whole passage begin
    with. A passage of five sentences then costs 2.9 readings of it (64 passages of the sample, padding
    counted), with `against` as many; one form at a time it would cost 3.9. By word, 68 words before the
    blank cost 33 readings. Other models read each form anew.

    Examples
    --------
    >>> parts = wb.influence(ngram.cached(), items[:3])
    >>> parts["item_id"].nunique(), bool(parts["influence"].notna().all())
    (3, True)
    """
    one_of("by", by, get_args(Part))
    check_probable(model, items, "whose changes are the influence")
    if (bare := items.frame["answer"].isna()).any():
        raise DataError(
            f"{items.frame['item_id'][bare].iloc[0]} has no answer", remedy="pass items with answers"
        )
    others = _others(model, items, against)
    rows: list[tuple[Any, ...]] = []
    for start in range(0, len(items), _ITEMS):
        rows += _rows(model, items[start : start + _ITEMS], by, others[start : start + _ITEMS])
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype({"influence": float, "contrast": float})
    return frame if against is not None else frame.drop(columns=["against", "contrast"])


def parts_of(item: Item, by: Part) -> list[Span]:
    """Return the parts of a passage before its blank: sentences, words, or mentions of the answer."""
    if by == "sentence":
        return [span for span in item.sentences[:-1] if span[0] < span[1]]
    spans = word_spans(item) if by == "word" else mentions(item)
    return [span for span in spans if span[1] <= item.answer_span[0] and span[0] < span[1]]


def _rows(model: Predictor, items: Items, by: Part, others: list[str | None]) -> list[tuple[Any, ...]]:
    """Return the rows of some items, whose changed forms are asked about in one call."""
    spans_of, forms = [parts_of(item, by) for item in items], []
    for item, spans, other in zip(items, spans_of, others, strict=True):
        for changed in [
            item,
            *(without(item, span) for span in reversed(spans)),
        ]:  # the longest beginning first
            forms += [changed] if other is None else [changed, with_answer(changed, other)]
    values = iter(model.log_prob(numbered(forms)).tolist())
    rows: list[tuple[Any, ...]] = []
    for item, spans, other in zip(items, spans_of, others, strict=True):
        n_words = 1 if other is None else 2
        log_probs = np.array([[next(values) for _ in range(n_words)] for _ in range(len(spans) + 1)])
        with np.errstate(invalid="ignore"):  # of two that are impossible
            change = (log_probs[:1] - log_probs[1:])[::-1]
            contrast = change[:, 0] - change[:, -1] if n_words > 1 else np.full(len(spans), np.nan)
        starts = np.array([first for first, _ in word_spans(item) if first < item.answer_span[0]])
        for number, (start, end) in enumerate(spans):
            distance = 1 + int((starts >= end).sum())
            about = (item.item_id, number, start, end, item.text[start:end], distance)
            rows.append((*about, change[number, 0], other, contrast[number]))
    return rows


def _others(model: Predictor, items: Items, against: str | pd.Series[Any] | None) -> list[str | None]:
    """Return the other word of each item, None where there is none or it is the answer."""
    ids, answers = items.frame["item_id"], items.frame["answer"].tolist()
    if against is None:
        return [None] * len(items)
    if isinstance(against, pd.Series):
        words = against.reindex(ids).tolist()
    elif not isinstance(against, str) or not against.strip():
        raise DataError(
            f"against is {against!r:.60}, expected a word, 'prediction' or a Series of words by item_id"
        )
    elif against == "prediction":
        ranking = model.ranking_words
        best = ranking.predict(items, top_k=2)["top_words"]
        words = [
            next((word for word in row if ranking.form(word) != ranking.form(answer)), None)
            for row, answer in zip(best, answers, strict=True)
        ]
    else:
        words = [against] * len(items)
    pairs = zip(words, answers, strict=True)
    return [
        word if isinstance(word, str) and word.strip() and word != answer else None for word, answer in pairs
    ]
