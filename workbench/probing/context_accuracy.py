"""Accuracy of models and people by the amount of context read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from workbench.analysis.proportions import wilson
from workbench.evaluation import bootstrap
from workbench.evaluation.metrics import measured_columns, resampled
from workbench.items.changes import shortened
from workbench.items.items import Items, check_items
from workbench.models.base import Predictor
from workbench.people import reports
from workbench.people.simulation import with_context_sentences
from workbench.predictions.schema import check_model
from workbench.storage.errors import DataError, check_option, check_value

Unit = Literal["sentences", "words"]

CONTEXT_COLUMNS = ("model", "unit", "reads", "accuracy", "low", "high", "n")
SENTENCES = (0, 1, 2, 3, 4, None)
WORDS = (1, 2, 5, 10, 20, 50, None)


def context_accuracy(
    models: Predictor | Sequence[Predictor] | Mapping[str, Predictor],
    items: Items,
    reads: Sequence[int | None] | None = None,
    *,
    unit: Unit = "sentences",
    judgments: pd.DataFrame | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the accuracy of models and people by the amount of context read.

    Parameters
    ----------
    models : Predictor, or several
        As a mapping, by the names that the result has.
    items : Items (n,)
        Items with answers.
    reads : sequence of int or None, optional
        Amounts of context, `SENTENCES` or `WORDS` by default: numbers of sentences before the target
        sentence (0: that alone), or of words before the blank; None is all. An item that has fewer is
        read whole, so that all accuracies are of the same items.
    unit : {"sentences", "words"}
    judgments : DataFrame, optional
        People's answers (:func:`workbench.people.score_judgments`, or of a game). Those about the target
        sentence alone and the whole passage are a line, ``people``. Where the context unfolds sentence by
        sentence, ``people, unfolding`` is the cumulative share of right guesses.
    seed : int, default 0
        Decides among equal scores, and draws the replicates.

    Returns
    -------
    DataFrame
        One row per model and length, aggregates only: ``model``; ``unit``; ``reads``, text, "all" for None;
        ``accuracy``, expected, a fraction; ``low`` and ``high``, its 95 % interval; and ``n``, the number of
        items or of judgments. Novels are resampled (2,000 replicates) where all items name theirs, and items
        where ties make some outcomes probabilities; the interval is Wilson's where each item is right or
        wrong, and of judgments. :func:`workbench.charts.context_curve` draws it.

    Raises
    ------
    DataError
        If there are no items with answers, a length is not valid, or judgments are of words.

    Examples
    --------
    >>> curve = wb.context_accuracy([ngram, ngram.cached(0.2)], items, reads=(0, 2, None))
    >>> curve["reads"].tolist()
    ['0', '2', 'all', '0', '2', 'all']
    """
    check_items(items, "context_accuracy")
    check_option("unit", unit, get_args(Unit))
    lengths = tuple(reads) if reads is not None else {"sentences": SENTENCES, "words": WORDS}[unit]
    least = 0 if unit == "sentences" else 1
    valid = all(k is None or int(k) == k >= least for k in lengths)
    check_value("reads", lengths, valid, f"whole numbers of {unit} from {least}, or None for all")
    if not lengths or not items.frame["answer"].notna().any():
        raise DataError("there is nothing to measure", hint="pass items with answers, and lengths to read")
    if judgments is not None and unit != "sentences":
        raise DataError("people read sentences of context", hint='leave judgments out, or unit="words"')
    listed: Any = models if isinstance(models, Mapping | list | tuple) else [models]
    named = listed.items() if isinstance(listed, Mapping) else [(None, model) for model in listed]
    for _, model in named:
        check_model(model, "context_accuracy")
    by_name = {name or model.name: model for name, model in named}
    rows: list[tuple[Any, ...]] = []
    read = [(_label(k), _shorten(items, k, unit)) for k in lengths]
    for name, model in by_name.items():
        for label, changed in read:
            right = model.predict(changed, 1, seed=seed)["p_correct"]
            rows.append((name, unit, label, *expected_accuracy(right, items.frame["book_id"], seed=seed)))
    table = pd.DataFrame(rows, columns=list(CONTEXT_COLUMNS))
    if judgments is None:
        return table
    people = with_intervals(_people(judgments), ["model", "unit", "reads", "accuracy", "n"])
    return pd.concat([table, people[list(CONTEXT_COLUMNS)]], ignore_index=True)


def expected_accuracy(
    right: pd.Series[Any], books: pd.Series[Any], *, seed: int = 0
) -> tuple[float, float, float, int]:
    """Return the mean probability of a right answer, its 95 % interval, and the number of known ones.

    Parameters
    ----------
    right, books : Series (n,)
        Probability of a right answer to each item, missing without an answer, and its novel.
    seed : int, default 0
    """
    answered = right.notna().to_numpy()
    values = {"correct": right[answered].to_numpy(dtype=float)[None]}
    units, sampling = bootstrap.units(books[answered]), bootstrap.BootstrapSettings(seed=seed)
    several = np.array([not np.isin(values["correct"], (0, 1)).all()])
    drawn = resampled(values, units, sampling, several=several)
    row = measured_columns(values, drawn, units, sampling, several=several)
    accuracy, low, high = (float(row[name][0]) for name in ("accuracy", "accuracy_low", "accuracy_high"))
    return accuracy, low, high, int(answered.sum())


def with_intervals(rows: Sequence[tuple[Any, ...]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a table, with the 95 % Wilson interval of the accuracy in the columns low and high."""
    frame = pd.DataFrame(rows, columns=list(columns))
    low, high = wilson((frame["accuracy"] * frame["n"]).to_numpy(), frame["n"].to_numpy())
    return frame.assign(low=low, high=high)


def _shorten(items: Items, k: int | None, unit: Unit) -> Items:
    """Return items with shortened contexts."""
    if k is None:
        return items
    if unit == "sentences":
        return with_context_sentences(items, int(k))
    return Items.from_records([shortened(item, int(k)) for item in items], attrs=items.attrs)


def _people(judgments: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Return rows of people's judgments, by the context shown."""
    if missing := sorted({"condition", "prediction_correct", "last_answer"} - set(judgments.columns)):
        raise DataError(
            f"the judgments have no column {missing[0]!r}", hint="pass what people.score_judgments returns"
        )
    done = reports.last_words(judgments)
    rows: list[tuple[Any, ...]] = []
    for condition, label in (("sentence", "0"), ("passage", "all")):
        right = done["prediction_correct"][done["condition"] == condition].astype(float)
        if len(right):
            rows.append(("people", "sentences", label, float(right.mean()), len(right)))
    unfolding = reports.unfolding(judgments)
    columns = (unfolding[name].tolist() for name in ("n_context_sentences", "share", "n"))
    for n_sentences, share, n in zip(*columns, strict=True):
        rows.append(("people, unfolding", "sentences", _label(n_sentences), share, n))
    return rows


def _label(k: int | None) -> str:
    return "all" if k is None else f"{k:,}"
