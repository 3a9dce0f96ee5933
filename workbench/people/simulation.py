"""Simulated people: models, or rates such as the paper's, in the place of people.

`unfold` measures how many context sentences a model needs to guess a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd

from workbench.items.items import Items
from workbench.items.schema import Item
from workbench.models.base import Predictor
from workbench.people.costs import PAPER_RATES, Rates, right_probabilities
from workbench.people.judgments import judgments_of, row_of
from workbench.people.protocols import Protocol, ProtocolStep
from workbench.people.protocols import protocol as named_protocol
from workbench.people.reports import curve
from workbench.people.tasks import check_questions, n_shown_at_first
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

    def shorten(item: Item) -> Item:
        spans = item.sentences[-1 - n :]
        start = spans[0][0]
        if len(spans) == len(item.sentences):
            return item
        a, b = item.answer_span
        moved = tuple((first - start, last - start) for first, last in spans)
        return replace(item, text=item.text[start:], sentences=moved, answer_span=(a - start, b - start))

    return Items.from_records(map(shorten, items), attrs=items.attrs)


def unfold(items: Items, model: Predictor, *, seed: int = 0) -> pd.DataFrame:
    """Return the cumulative share of items that a model predicts, by the number of context sentences.

    The model sees the target sentence alone, then one sentence of context more at a time until its best word
    is the answer, as people do in the protocol ``unfolding``.

    Parameters
    ----------
    items : Items
        With answers.
    model : Predictor
        Neural language models limit the words that they read by ``model.with_context(n)``.
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
    n_max = max((len(item.context) for item in items), default=-1)
    for n in range(n_max + 1):
        rest = rest.where(np.array([len(item.context) >= n for item in rest], dtype=bool))
        if not len(rest):
            break
        right = model.predict(with_context_sentences(rest, n), top_k=1, seed=seed)["correct"]
        mask = right.fillna(value=False).to_numpy(dtype=bool)
        needed += [n] * int(mask.sum())
        rest = rest.where(~mask)
    return curve(np.array(needed, dtype=np.int64), len(items), n_max)


def simulate(
    items: Items,
    protocol: str | Protocol = "lambada",
    subjects: Predictor | Sequence[Predictor] | Rates = PAPER_RATES,
    *,
    n_subjects: int = 100,
    seed: int = 0,
) -> pd.DataFrame:
    """Return the judgments of simulated people, step by step; nobody judges an item twice.

    Parameters
    ----------
    items : Items
        With answers; with candidates too where the protocol shows them.
    protocol : {"lambada", "unfolding", "cbt", "completion"} or Protocol
    subjects : Predictor, sequence of Predictor, or Rates
        Models, whose best words are the guesses (of the whole items, or of what the step shows of them), or
        rates at which items are dropped; the paper's by default. Where rates say that somebody does
        not guess an item, the guess is empty.
    n_subjects : int, default 100
        People; of several models each is as many. At least as many are needed as the steps need together.
    seed : int, default 0

    Returns
    -------
    DataFrame
        A table of judgments (see `read_judgments`) by ``subject 1``, ``subject 2`` ...

    Raises
    ------
    DataError
        If there are too few people, rates do not fit the protocol, or an item lacks what the protocol needs.

    Examples
    --------
    >>> from workbench import people
    >>> judgments = people.simulate(items, subjects=people.Rates(((0.5, 0.5), (0.2, 0.2), (0.1, 0.1))))
    >>> int(people.funnel(items, judgments)["n_open"].sum())
    0
    """
    chosen, rng = named_protocol(protocol), np.random.default_rng(seed)
    check_questions(items, chosen, "simulate")
    models: list[Predictor] = []
    if not isinstance(subjects, Rates):
        models = [subjects] if isinstance(subjects, Predictor) else list(subjects)
    chances = right_probabilities(chosen, subjects.middle) if isinstance(subjects, Rates) else []
    needed = sum(step.people for step in chosen.steps)
    if n_subjects < needed or not (chances or models):
        raise DataError(
            f"expected {needed} people or more for each item, and rates or a model in their place, got "
            f"n_subjects={n_subjects} and {len(models)} models",
            hint=f"pass n_subjects={needed} and at least one model",
        )
    rows: list[dict[str, object]] = []
    start = datetime.now(UTC)
    open_items = rng.permutation(len(items)).tolist()
    subject_of = {index: position // chosen.steps[0].per_page for position, index in enumerate(open_items)}
    for number, step in enumerate(chosen.steps):
        if not open_items:
            break
        n_right = dict.fromkeys(open_items, 0)
        asked = items.where(np.isin(np.arange(len(items)), open_items))
        words = [_best_words(asked, step, model, seed) for model in models]
        judging = open_items
        for n_judged in range(step.people):
            for index in judging:
                item = items[index]
                subject_of[index] = (subject_of[index] + 1) % n_subjects  # another one, up to `needed` times
                subject = subject_of[index]
                n_shown, correct = n_shown_at_first(item, step.condition), False
                while True:
                    if models:
                        guesses = words[subject % len(models)][item.item_id, n_shown]
                    else:
                        guesses = [str(item.answer) if rng.random() < chances[number] else ""]
                    correct = chosen.match(guesses, item.answer, item.candidates) in chosen.accept
                    answered = start + timedelta(milliseconds=len(rows))
                    rows.append(
                        row_of(
                            item, f"subject {subject + 1}", step=number + 1, condition=step.condition,
                            n_shown=n_shown, guesses=guesses, answered=answered,
                        )
                    )  # fmt: skip
                    if correct or step.condition != "unfolding" or n_shown >= len(item.context):
                        break
                    n_shown += 1
                n_right[index] += correct
            judging = [index for index in judging if step.outcome(n_judged + 1, n_right[index]) == "open"]
        open_items = [index for index in open_items if step.outcome(step.people, n_right[index]) == "passed"]
    return judgments_of(rows)


def _best_words(
    items: Items, step: ProtocolStep, model: Predictor, seed: int
) -> Mapping[tuple[str, int], list[str]]:
    """Return a model's best words for what a step shows, by item id and context sentences shown."""
    lengths = np.array([len(item.context) for item in items], dtype=int)
    if step.condition == "passage":
        visible = [(lengths.tolist(), items)]
    elif step.condition == "sentence":
        visible = [([0] * len(items), items.query_only())]
    else:
        visible = [
            ([n] * int((lengths >= n).sum()), with_context_sentences(items.where(lengths >= n), n))
            for n in range(max(lengths, default=-1) + 1)
        ]
    words: dict[tuple[str, int], list[str]] = {}
    for n_sentences, shortened in visible:
        table = model.predict(shortened, top_k=step.guesses, seed=seed)
        best = zip(table["item_id"], n_sentences, table["prediction"], table["top_words"], strict=True)
        for item_id, n, first, others in best:
            guesses = [first] if isinstance(first, str) else []
            guesses += [word for word in others if word != first]
            words[item_id, n] = guesses[: step.guesses] or [""]
    return words
